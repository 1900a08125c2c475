/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags and ranks that leave in good order, on every transport: what they have sent is received; then the
 * messages end that only they could send or receive, and no others; the communicator goes on. A failure comes first.
 * Labels: processes. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/private.h"
#include "net/net.h"
#include "ranks.h"
#include "tutti_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { LIMIT_S = 60, LEAVING = 4 };

static void on_all(int nranks, ranks_body body)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    int bad = ranks_run_processes(nranks, body, ranks_shared(sizeof(_Atomic int)), LIMIT_S);
    if (bad) fail_msg("%s", ranks_transports(t));
  }
}

static int comm_get(const struct ranks *self, tuttiComm_t *comm)
{
  RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  return 0;
}

static int is_well(tuttiComm_t comm)
{
  tuttiResult_t error;
  return tuttiCommGetAsyncError(comm, &error) == tuttiSuccess && error == tuttiSuccess;
}

/* This rank leaves, and counts itself then. */
static int leave(const struct ranks *self, tuttiComm_t comm)
{
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  atomic_fetch_add((_Atomic int *)self->argument, 1);
  return 0;
}

static void left_await(const struct ranks *self, int n)
{
  while (atomic_load((_Atomic int *)self->argument) < n) usleep(1000);
}

/* ---- what was sent comes; nothing else is waited for ---- */

static int left_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiMessage_t messages[LEAVING + 1];
  char x = 1, in[LEAVING + 1];
  if (comm_get(self, &comm)) return 1;
  if (self->rank == LEAVING + 1) { /* goes on, and answers when all is over */
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, 0, 3, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 0, 3, comm) == tuttiSuccess);
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
    return 0;
  }
  if (self->rank) {
    RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 0, 1, comm) == tuttiSuccess);
    return leave(self, comm);
  }
  for (int r = 1; r <= LEAVING; r++)
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, r, 1, comm, NULL) == tuttiSuccess);
  for (int r = 1; r <= LEAVING; r++)
    RANKS_CHECK(tuttiIrecvTag(&in[r], 1, tuttiUint8, r, 2, comm, &messages[r]) == tuttiSuccess);
  for (int r = 1; r <= LEAVING; r++) {
    char name[16] = {'r', 'a', 'n', 'k', ' ', (char)('0' + r), 0};
    RANKS_CHECK(tuttiMessageWait(&messages[r], -1, NULL) == tuttiRemoteError);
    RANKS_CHECK(says(name) && says("has left, and the message from it with tag 2 is not over"));
  }
  RANKS_CHECK(is_well(comm));
  RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, LEAVING + 1, 3, comm) == tuttiSuccess);
  RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, TUTTI_ANY_SOURCE, 3, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 1, 4, comm) == tuttiRemoteError);
  RANKS_CHECK(says("has left, and the message to it with tag 4 is not over"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void ranks_that_left_end_their_own_messages_alone(void **state)
{
  (void)state;
  on_all(LEAVING + 2, left_body);
}

static int all_left_body(const struct ranks *self)
{
  tuttiComm_t comm;
  int x = self->rank, from = 0;
  if (comm_get(self, &comm)) return 1;
  if (self->rank) {
    RANKS_CHECK(tuttiSendTag(&x, 1, tuttiInt32, 0, self->rank, comm) == tuttiSuccess);
    return leave(self, comm);
  }
  for (int r = 1; r < self->nranks; r++) {
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiInt32, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, comm, NULL) == tuttiSuccess);
    from |= 1 << x;
  }
  RANKS_CHECK(from == (1 << self->nranks) - 2);
  for (int k = 0; k < 2; k++) { /* also one that is begun later */
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiInt32, TUTTI_ANY_SOURCE, 7, comm, NULL) == tuttiRemoteError);
    RANKS_CHECK(says("all other ranks have left, and no message with tag 7 has come"));
  }
  RANKS_CHECK(is_well(comm) && tuttiSendTag(&x, 1, tuttiInt32, 0, 8, comm) == tuttiSuccess);
  RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiInt32, TUTTI_ANY_SOURCE, 8, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_receive_from_any_rank_ends_when_all_others_have_left(void **state)
{
  (void)state;
  on_all(4, all_left_body);
}

/* ---- links that were never opened ---- */

/* Rank 1 has no link yet to ranks 0 and 2, which have left. Links are dialled by lower ranks. A start-up would have
 * given up before rank 3 answers. */
static int unopened_body(const struct ranks *self)
{
  tuttiComm_t comm;
  char x = 1;
  if (comm_get(self, &comm)) return 1;
  if (self->rank % 2 == 0) return leave(self, comm);
  left_await(self, 2);
  if (self->rank == 3) {
    usleep(1800000);
    RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 1, 1, comm) == tuttiSuccess);
  } else {
    comm->facts.settings.init_timeout_ms = 1200;
    RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 0, 1, comm) == tuttiRemoteError && says("rank 0"));
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, 2, 1, comm, NULL) == tuttiRemoteError && says("rank 2"));
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, TUTTI_ANY_SOURCE, 1, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(is_well(comm));
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_link_to_a_rank_that_left_is_not_opened(void **state)
{
  (void)state;
  on_all(4, unopened_body);
}

/* Rank 0 would dial. */
static int late_body(const struct ranks *self)
{
  tuttiComm_t comm;
  char x = 1;
  if (comm_get(self, &comm)) return 1;
  if (self->rank == 0) {
    usleep(1500000);
    RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 1, 1, comm) == tuttiSuccess);
  } else {
    comm->facts.settings.init_timeout_ms = 1000;
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, 0, 1, comm, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_sender_may_be_later_than_a_start_up(void **state)
{
  (void)state;
  on_all(2, late_body);
}

/* Nobody receives, and no two ranks send to each other. */
static int circle_body(const struct ranks *self)
{
  static char x[100000];
  tuttiComm_t comm;
  tuttiMessage_t message;
  if (comm_get(self, &comm)) return 1;
  for (int k = 0; k < 40; k++) { /* more than a link takes at once */
    int next = (self->rank + 1) % self->nranks;
    RANKS_CHECK(tuttiIsendTag(x, sizeof x, tuttiUint8, next, 1, comm, &message) == tuttiSuccess);
    RANKS_CHECK(tuttiMessageFree(&message) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void ranks_that_send_in_a_circle_can_all_leave(void **state)
{
  (void)state;
  on_all(3, circle_body);
}

/* ---- a failure behind which a rank leaves ---- */

static int failure_body(const struct ranks *self)
{
  tuttiComm_t comm;
  char x;
  if (comm_get(self, &comm)) return 1;
  _Atomic int *step = self->argument;
  if (self->rank == 0) {
    left_await(self, 1);
    tt_watch_fail(comm->parts.watch, tuttiInvalidUsage, 0, 0, "rank 0 has no pencil");
    tuttiCommDestroy(comm);
    atomic_store(step, 2);
    return 0;
  }
  tt_service_lock(); /* this process hears of nothing meanwhile */
  atomic_store(step, 1);
  left_await(self, 2);
  enum tt_left left = tt_watch_left(comm->parts.watch, 0);
  tt_service_unlock();
  RANKS_CHECK(left == TT_LEFT_NOT);
  RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, 0, 3, comm, NULL) == tuttiInvalidUsage && says("rank 0 has no pencil"));
  tuttiCommDestroy(comm);
  return 0;
}

static void a_failure_is_heard_of_before_the_farewell_behind_it(void **state)
{
  (void)state;
  on_all(2, failure_body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_that_left_end_their_own_messages_alone),
      cmocka_unit_test(a_receive_from_any_rank_ends_when_all_others_have_left),
      cmocka_unit_test(a_link_to_a_rank_that_left_is_not_opened),
      cmocka_unit_test(a_sender_may_be_later_than_a_start_up),
      cmocka_unit_test(ranks_that_send_in_a_circle_can_all_leave),
      cmocka_unit_test(a_failure_is_heard_of_before_the_farewell_behind_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
