/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports for tests that must name one before it is opened. */
#ifndef PORT_H
#define PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_FIRST 12000 /* below those that the system gives to whoever asks for any: other tests do, all the time */
#define PORTS 20000

/* A port that was free at this address a moment ago, and that no test beside this one is given; -1: none. */
static inline int port_free(const char *address)
{
  static _Atomic unsigned given;
  for (unsigned tries = 0; tries < PORTS; tries++) {
    unsigned number = (unsigned)getpid() * 7 + atomic_fetch_add(&given, 1);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT_FIRST + number % PORTS))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = inet_pton(AF_INET, address, &at.sin_addr) != 1 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0;
    close(fd);
    if (!failed) return ntohs(at.sin_port);
  }
  return -1;
}

#endif
