/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags that wait for each other, on every transport: ranks that all send first get all of it, and a send
 * or a receive without its other half has the limit of time of a communicator, which it ends; so has the end of a
 * communicator with a send that nobody takes.
 * Labels: processes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ranks.h"
#include "tutti_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { LIMIT_S = 60, LONGEST = 500000, UNTAKEN = 50000000 }; /* UNTAKEN: bytes that no kernel keeps for a socket */

static void on_all(int nranks, ranks_body body)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    if (ranks_run_processes(nranks, body, NULL, LIMIT_S)) fail_msg("%s", ranks_transports(t));
  }
}

/* As programs for MPI do that count on its buffers. */
static int ring_body(const struct ranks *self)
{
  static int32_t out[LONGEST], in[LONGEST];
  const int counts[] = {1, 100, LONGEST};
  int next = (self->rank + 1) % self->nranks, last = (self->rank + self->nranks - 1) % self->nranks;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 3; k++) {
    size_t n = (size_t)counts[k];
    for (size_t i = 0; i < n; i++) out[i] = self->rank * 1000 + (int32_t)(i % 997);
    RANKS_CHECK(tuttiSendTag(out, n, tuttiInt32, next, k, comm) == tuttiSuccess);
    RANKS_CHECK(tuttiRecvTag(in, n, tuttiInt32, last, k, comm, NULL) == tuttiSuccess);
    for (size_t i = 0; i < n; i++) RANKS_CHECK(in[i] == last * 1000 + (int32_t)(i % 997));
    RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void ranks_that_all_send_first_get_everything(void **state)
{
  (void)state;
  on_all(4, ring_body);
}

/* Rank 1 does nothing until rank 0 has its error. */
static int alone_body(const struct ranks *self, int sends, int peer, const char *sentence)
{
  tuttiComm_t comm;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiResult_t error;
  static char x[UNTAKEN];
  config.timeout_ms = 300;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  if (self->rank == 0) {
    RANKS_CHECK((sends ? tuttiSendTag(x, sizeof x, tuttiUint8, peer, 5, comm)
                       : tuttiRecvTag(x, sizeof x, tuttiUint8, peer, 5, comm, NULL)) == tuttiRemoteError);
    RANKS_CHECK(strstr(tuttiGetLastError(comm), sentence));
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &error) == tuttiSuccess && error == tuttiRemoteError);
  } else {
    do RANKS_CHECK(tuttiCommGetAsyncError(comm, &error) == tuttiSuccess);
    while (error == tuttiSuccess && usleep(1000) == 0);
    RANKS_CHECK(error == tuttiRemoteError && strstr(tuttiGetLastError(comm), sentence));
  }
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  return 0;
}

static int send_body(const struct ranks *self)
{
  return alone_body(self, 1, 1, "has not taken the message with tag 5 within the timeout of 300 ms");
}

static int receive_body(const struct ranks *self)
{
  return alone_body(self, 0, 1, "has not sent a message with tag 5 within the timeout of 300 ms");
}

static int any_body(const struct ranks *self)
{
  return alone_body(self, 0, TUTTI_ANY_SOURCE, "no rank has sent a message with tag 5 within the timeout of 300 ms");
}

/* Likewise, with a message that was begun. */
static int end_body(const struct ranks *self)
{
  const char *sentence = "has not taken the message with tag 5 within the timeout of 300 ms";
  tuttiComm_t comm;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiMessage_t message;
  tuttiResult_t error;
  static char x[UNTAKEN];
  config.timeout_ms = 300;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  if (self->rank == 0) {
    RANKS_CHECK(tuttiIsendTag(x, sizeof x, tuttiUint8, 1, 5, comm, &message) == tuttiSuccess);
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError && says(sentence));
    RANKS_CHECK(tuttiMessageWait(&message, -1, NULL) == tuttiRemoteError && says(sentence));
    return 0;
  }
  do RANKS_CHECK(tuttiCommGetAsyncError(comm, &error) == tuttiSuccess);
  while (error == tuttiSuccess && usleep(1000) == 0);
  RANKS_CHECK(error == tuttiRemoteError && comm_says(comm, sentence));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  return 0;
}

static void a_message_without_its_other_half_has_a_limit(void **state)
{
  (void)state;
  on_all(2, send_body);
  on_all(2, receive_body);
  on_all(2, any_body);
  on_all(2, end_body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_that_all_send_first_get_everything),
      cmocka_unit_test(a_message_without_its_other_half_has_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
