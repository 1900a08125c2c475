/* SPDX-License-Identifier: BSD-3-Clause */
/* For the tests of listeners and dials: listeners at all kinds of place, a host who remembers who came,
 * and a patient dial. */
#ifndef TT_TEST_NET_HOST_H
#define TT_TEST_NET_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "census.h"
#include "net/net.h"

#define MS 1000000u
#define SECOND (1000u * (uint64_t)MS)

/* Remembers who came. */
struct host {
  _Atomic int count;
  struct tt_hello hello[64];
  struct tt_session session[64];
  int fd[64];
};

static inline void welcome(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  struct host *host = owner;
  int at = atomic_load(&host->count);
  host->hello[at] = *hello;
  host->session[at] = *session;
  host->fd[at] = fd;
  atomic_store(&host->count, at + 1);
}

static inline void wait_for(_Atomic int *word, int wanted)
{
  while (atomic_load(word) < wanted) tt_sleep_ns(MS / 5);
}

static inline struct tt_credentials credentials_make(void)
{
  struct tt_credentials credentials = {.epoch = 1};
  assert_int_equal(tt_auth_init(), tuttiSuccess);
  tt_random(credentials.job, sizeof credentials.job);
  tt_random(credentials.key, sizeof credentials.key);
  return credentials;
}

/* The places a listener can be at; NULL is local. */
static const char *const places[] = {"127.0.0.1:0", "[::1]:0", NULL};

static inline struct tt_listener *listener_at(const char *place)
{
  struct tt_address where;
  struct tt_listener *listener = NULL;
  memset(&where, 0, sizeof where);
  if (place) assert_int_equal(tt_address_parse(&where, place), tuttiSuccess);
  assert_int_equal(tt_listener_open(&listener, &where), tuttiSuccess);
  return listener;
}

static inline tuttiResult_t dialer(const struct tt_address *to, const struct tt_credentials *credentials,
                                   const struct tt_hello *hello, uint64_t patience_ns, int *fd)
{
  struct tt_dialer *made;
  tuttiResult_t result = tt_dialer_start(&made, to, credentials, hello, tt_now_ns() + patience_ns);
  if (result != tuttiSuccess) return result;
  while ((result = tt_dialer_poll(made, fd)) == tuttiInProgress) tt_sleep_ns(MS / 10);
  tt_dialer_destroy(made);
  return result;
}

#endif
