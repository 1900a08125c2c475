/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages without a group that wait for each other: the error says what they do and what helps, and blames nobody. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define REMEDY ": put tuttiSend and tuttiRecv between tuttiGroupStart and tuttiGroupEnd"

/* What each rank does: 's' sends to the next one, 'r' receives from the last one, '-' nothing. */
struct play {
  const char *calls;
  tuttiResult_t result;
  const char *sentence; /* of all ranks that call */
  int warnings;         /* and how often it is logged before */
};

static tuttiResult_t play_rank(const struct ranks *self, char call, tuttiComm_t comm)
{
  int n = self->nranks, x = 1;
  if (call == 's') return tuttiSend(&x, 1, tuttiInt, (self->rank + 1) % n, comm, NULL);
  return tuttiRecv(&x, 1, tuttiInt, (self->rank + n - 1) % n, comm, NULL);
}

static int play(const struct ranks *self)
{
  const struct play *play = self->argument;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  char call = play->calls[self->rank];
  if (call == '-') { /* until the others have given up */
    tuttiResult_t state = tuttiSuccess;
    while (tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiSuccess) usleep(1000);
  } else {
    RANKS_CHECK(play_rank(self, call, comm) == play->result && says(play->sentence));
    RANKS_CHECK(!strstr(tuttiGetLastError(NULL), "with rank"));
  }
  tuttiCommAbort(comm);
  return 0;
}

static void play_all(const struct play *play_)
{
  char log[] = "/tmp/tutti-log-XXXXXX", text[16384] = "";
  int fd = mkstemp(log), warnings = 0;
  assert_true(fd >= 0);
  setenv("TUTTI_DEBUG_FILE", log, 1);
  int bad = ranks_run_processes((int)strlen(play_->calls), play, (void *)(uintptr_t)play_, 60);
  assert_true(read(fd, text, sizeof text - 1) >= 0);
  close(fd);
  unlink(log);
  assert_int_equal(bad, 0);
  for (const char *at = text; (at = strstr(at, "TUTTI WARN for ")); at++) warnings++;
  if (warnings != play_->warnings) fail_msg("%s: %d warnings in\n%s", play_->calls, warnings, text);
}

static void who_waits_in_a_circle_is_told_what_helps(void **state)
{
  (void)state;
  static const struct play plays[] = {
      {"sss", tuttiInvalidUsage, "ranks 0, 1, 2 are all in a send, and none of them receives" REMEDY, 1},
      {"rr", tuttiInvalidUsage, "ranks 0, 1 are all in a receive, and none of them sends" REMEDY, 1},
  };
  for (size_t p = 0; p < sizeof plays / sizeof plays[0]; p++) play_all(&plays[p]);
}

static void who_waits_for_one_that_does_nothing_names_it_once(void **state)
{
  (void)state;
  static const struct play plays[] = {
      {"s-", tuttiRemoteError, "did not do its part of Send #1 (4 bytes) within the timeout of 2500 ms", 0},
      {"rs-", tuttiRemoteError, "#1 (4 bytes) within the timeout of 2500 ms", 0},
  };
  for (size_t p = 0; p < sizeof plays / sizeof plays[0]; p++) play_all(&plays[p]);
}

/* Rank 1 is stopped in a send that takes long, for which rank 0 waits. */
static int stopped_sender(const struct ranks *self)
{
  _Atomic pid_t *sender = self->argument;
  size_t len = 64 << 20;
  char *data = calloc(len, 1);
  tuttiComm_t comm;
  RANKS_CHECK(data && tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 1) {
    atomic_store(sender, getpid());
    RANKS_CHECK(tuttiSend(data, len, tuttiChar, 0, comm, NULL) != tuttiSuccess);
  } else {
    while (!atomic_load(sender)) usleep(1000);
    usleep(500000); /* it sends */
    RANKS_CHECK(kill(atomic_load(sender), SIGSTOP) == 0);
    tuttiResult_t result = tuttiRecv(data, len, tuttiChar, 1, comm, NULL);
    kill(atomic_load(sender), SIGCONT);
    RANKS_CHECK(result == tuttiRemoteError && says(" did not do its part of "));
  }
  tuttiCommAbort(comm);
  free(data);
  return 0;
}

static void who_sends_to_one_that_receives_from_it_is_no_circle(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, stopped_sender, ranks_shared(sizeof(_Atomic pid_t)), 60), 0);
}

int main(void)
{
  alarm(200);
  setenv("TUTTI_TIMEOUT_MS", "2500", 1);
  setenv("TUTTI_LATE_WARN_MS", "250", 1);
  setenv("TUTTI_DEBUG", "WARN", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_waits_in_a_circle_is_told_what_helps),
      cmocka_unit_test(who_waits_for_one_that_does_nothing_names_it_once),
      cmocka_unit_test(who_sends_to_one_that_receives_from_it_is_no_circle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
