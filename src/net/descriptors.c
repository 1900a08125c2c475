/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors: their limit, and passing one over a local socket. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "auth/wire.h"
#include "net/net.h"

#define DESCRIPTORS_FEW 256
#define DESCRIPTORS_OF_OTHERS 256 /* files and connections of the program */

/* Its length is given as CMSG_LEN, which has room for exactly one descriptor: CMSG_SPACE has room for two. */
union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

void tt_descriptors_want(size_t count)
{
  struct rlimit limit;
  rlim_t wanted = (rlim_t)count + DESCRIPTORS_OF_OTHERS;
  if (count < DESCRIPTORS_FEW || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

tuttiResult_t tt_fd_send(int socket, int fd, uint64_t len)
{
  uint8_t body[8];
  union control control;
  memset(&control, 0, sizeof control);
  tt_wire_put(body, 8, len);
  struct iovec part = {body, sizeof body};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = CMSG_LEN(sizeof(int))};
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
  ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n == sizeof body) return tuttiSuccess;
  if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) return tuttiInProgress;
  if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
    return tt_fail(tuttiRemoteError, "the process that asked for descriptor %d has gone", fd);
  return tt_fail(tuttiSystemError, "sending descriptor %d: %s", fd,
                 n < 0 ? strerror(errno) : "cut short");
}

/* The one descriptor of a message, or -1. */
static int control_fd(const struct msghdr *message)
{
  struct cmsghdr *header = CMSG_FIRSTHDR(message);
  int fd = -1;
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int)))
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

tuttiResult_t tt_fd_recv(int socket, int *fd, uint64_t *len)
{
  uint8_t body[8];
  union control control;
  memset(&control, 0, sizeof control);
  struct iovec part = {body, sizeof body};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = CMSG_LEN(sizeof(int))};
  ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return tuttiInProgress;
  if (n < 0 && errno != ECONNRESET)
    return tt_fail(tuttiSystemError, "receiving a descriptor: %s", strerror(errno));
  if (n <= 0)
    return tt_fail(tuttiRemoteError, "the process that was to send a descriptor has gone");
  int got = control_fd(&message);
  if (n == sizeof body && got >= 0 && !(message.msg_flags & MSG_CTRUNC)) {
    *fd = got;
    *len = tt_wire_get(body, 8);
    return tuttiSuccess;
  }
  if (got >= 0) close(got);
  return tt_fail(tuttiRemoteError,
                 "a message of %zd bytes without exactly one descriptor came where one was due "
                 "(out of descriptors here? see `ulimit -n`)", n);
}
