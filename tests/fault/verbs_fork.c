/* SPDX-License-Identifier: BSD-3-Clause */
/* On the double of libibverbs: children that ranks fork, however they behave and however long they live, disturb
 * neither calls nor the end of the communicator, nor the next one. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_verbs.h"
#include "meeting.h"
#include "ranks.h"

#define RANKS 3
#define COUNT 40000
#define LIMIT_S 60

static const struct fake_verbs *fake;
static int32_t data[COUNT];

static tuttiResult_t reduce(const struct ranks *self, tuttiComm_t comm)
{
  for (int i = 0; i < COUNT; i++) data[i] = self->rank * 1000 + i;
  tuttiResult_t result = tuttiAllReduce(data, data, COUNT, tuttiInt32, tuttiSum, comm, NULL);
  for (int i = 0; i < COUNT && result == tuttiSuccess; i++)
    if (data[i] != 1000 * RANKS * (RANKS - 1) / 2 + RANKS * i) return tuttiNumResults;
  return result;
}

/* Every call is refused; memory is its own. Then it goes, or stays with all that it has inherited. */
static int child(tuttiComm_t comm, int stays)
{
  int bad = tuttiAllReduce(data, data, COUNT, tuttiInt32, tuttiSum, comm, NULL) != tuttiInvalidUsage;
  bad += tuttiCommDestroy(comm) != tuttiInvalidUsage;
  bad += tuttiCommAbort(comm) != tuttiInvalidUsage;
  memset(data, 0x5a, sizeof data);
  if (stays)
    for (;;) pause();
  return bad;
}

static int start(tuttiComm_t comm, int stays)
{
  fflush(NULL);
  int pid = fork();
  if (pid == 0) _exit(child(comm, stays));
  return pid;
}

static int body(const struct ranks *self)
{
  struct meeting *meeting = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm;
  int status, stays = -1;
  for (int round = 0; round < 2; round++) {
    RANKS_CHECK(meeting_id(meeting, self->rank == 0, &id));
    RANKS_CHECK(tuttiCommInitRank(&comm, RANKS, id, self->rank) == tuttiSuccess);
    RANKS_CHECK(reduce(self, comm) == tuttiSuccess);
    int goes = start(comm, 0);
    if (round == 0) stays = start(comm, 1);
    RANKS_CHECK(goes > 0 && stays > 0);
    for (int k = 0; k < 5; k++) RANKS_CHECK(reduce(self, comm) == tuttiSuccess);
    RANKS_CHECK(waitpid(goes, &status, 0) == goes && status == 0);
    RANKS_CHECK(reduce(self, comm) == tuttiSuccess);
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  kill(stays, SIGKILL);
  RANKS_CHECK(waitpid(stays, &status, 0) == stays);
  return 0;
}

static void children_disturb_nobody(void **state)
{
  struct meeting *meeting = meeting_make(RANKS);
  (void)state;
  fake->reset();
  assert_int_equal(ranks_run_processes(RANKS, body, meeting, LIMIT_S), 0);
  assert_true(fake->is_clean());
  meeting_free(meeting);
}

int main(void)
{
  fake = fake_verbs();
  setenv("TUTTI_TRANSPORTS", "verbs", 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(children_disturb_nobody)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
