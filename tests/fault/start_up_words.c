/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that gives up in start-up says why, and ends: the others tell that, though they have seen before that it has
 * ended, because the root was held up. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/creation_private.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 3, QUITTER = 2, LIMIT_S = 60 };

struct trial {
  _Atomic int met, go; /* of the quitter; said by the test */
  _Atomic int heard;   /* ranks that know why */
};

/* Has the peer infos of all, but makes no watch. */
static int quit(const struct ranks *self)
{
  struct trial *trial = self->argument;
  struct tt_settings settings;
  struct tuttiComm *comm;
  tuttiResult_t result;
  tt_process_enter();
  RANKS_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  const struct tt_comm_spec spec = {.id = &self->id, .nranks = RANKS, .rank = QUITTER, .settings = &settings};
  RANKS_CHECK(tt_comm_create(&comm, &spec) == tuttiSuccess);
  while (comm->life.creation->stage != EXCHANGING) RANKS_CHECK(tt_comm_create_poll(comm) == tuttiInProgress);
  while ((result = tt_rendezvous_poll(comm->life.creation->rendezvous)) == tuttiInProgress) usleep(100);
  RANKS_CHECK(result == tuttiSuccess);
  atomic_store(&trial->met, 1);
  while (!atomic_load(&trial->go)) usleep(100);
  tt_rendezvous_fail(comm->life.creation->rendezvous, tuttiSystemError, "no more paper");
  _exit(0);
}

/* Rank 1 makes the status page for the quitter and itself, and waits for it. */
static int body(const struct ranks *self)
{
  struct trial *trial = self->argument;
  tuttiComm_t comm;
  setenv("TUTTI_HOSTID", self->rank ? "two" : "one", 1);
  if (self->rank == QUITTER) return quit(self);
  tuttiResult_t result = tuttiCommInitRank(&comm, RANKS, self->id, self->rank);
  const char *sentence = tuttiGetLastError(NULL);
  RANKS_CHECK(result == tuttiSystemError || result == tuttiRemoteError);
  RANKS_CHECK(strstr(sentence, "rank 2 (pid "));
  if (result == tuttiSystemError && strstr(sentence, "gave up: no more paper")) atomic_fetch_add(&trial->heard, 1);
  return 0;
}

/* The process of rank 0, which has the root, is stopped for as long as others need to see that the quitter has gone. */
static int words_are_heard(void)
{
  int pids[RANKS];
  struct trial *trial = ranks_shared(sizeof *trial);
  assert_non_null(trial);
  assert_int_equal(ranks_start(RANKS, body, trial, pids), 0);
  while (!atomic_load(&trial->met)) usleep(1000);
  usleep(50000);
  kill(pids[0], SIGSTOP);
  atomic_store(&trial->go, 1);
  assert_int_equal(ranks_wait(pids[QUITTER], LIMIT_S), 0);
  usleep(300000);
  kill(pids[0], SIGCONT);
  for (int r = 0; r < QUITTER; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), 0);
  return atomic_load(&trial->heard) == QUITTER;
}

/* Words that come after more than half a second are not waited for: something else may have held them up, too. */
static void words_come_before_the_end(void **state)
{
  int heard = 0;
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int k = 0; k < 6; k++) heard += words_are_heard();
  if (heard < 4) fail_msg("%d times of 6", heard);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(words_come_before_the_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
