/* SPDX-License-Identifier: BSD-3-Clause */
/* kill -9 of a rank in start-up, idle, or inside a collective, whatever memory it holds and whatever child it
 * forked: every survivor's call returns tuttiRemoteError and names the dead rank. The promise is one second on one
 * host; what it was is printed. With a name only the test of that name is run. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/creation_private.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define VICTIM 1
#define RANKS 4
#define STATUS 3 /* exit status of a victim that ends by itself */

struct trial {
  size_t count;   /* elements of each all-reduce; 0: the victim dies in start-up */
  size_t touched; /* bytes that the victim holds */
  int forks, idle;
  int opens;      /* the victim dies while others open their links to it, which it does not */
  int exits;      /* 1: the victim ends by exit(), 2: by _exit(), both with STATUS; 0: it is killed */
  /* shared with the processes */
  _Atomic int in; /* ranks that the death may find wherever they are */
  _Atomic long killed_ms;
  _Atomic int pid;
};

static void burden(const struct trial *trial)
{
  if (trial->touched) memset(malloc(trial->touched), 1, trial->touched);
  if (trial->forks && fork() == 0) { /* keeps all descriptors open */
    sleep(8);
    _exit(0);
  }
}

static int blames(const struct ranks *self, const struct trial *trial, tuttiResult_t result)
{
  char rank[16], pid[24];
  const char *sentence = tuttiGetLastError(NULL);
  snprintf(rank, sizeof rank, "rank %d", VICTIM);
  snprintf(pid, sizeof pid, "pid %d", atomic_load(&((struct trial *)(uintptr_t)trial)->pid));
  long took = meeting_now_ms() - atomic_load(&((struct trial *)(uintptr_t)trial)->killed_ms);
  RANKS_CHECK(result == tuttiRemoteError);
  RANKS_CHECK(strstr(sentence, rank) && strstr(sentence, pid));
  RANKS_CHECK((strstr(sentence, " exited without tuttiCommDestroy ") != NULL) == (trial->exits == 1));
  RANKS_CHECK(!trial->exits || (strstr(sentence, " died ") != NULL) == (trial->exits == 2));
  printf("rank %d knew after %ld ms: %s\n", self->rank, took, sentence);
  fflush(stdout);
  return 0;
}

/* All have met, and wait for what this rank does not say any more. */
static int start_up_in_part(const struct ranks *self)
{
  struct trial *trial = self->argument;
  struct tt_settings settings;
  struct tuttiComm *comm;
  tt_process_enter();
  RANKS_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  const struct tt_comm_spec spec = {.id = &self->id, .nranks = self->nranks, .rank = VICTIM, .settings = &settings};
  RANKS_CHECK(tt_comm_create(&comm, &spec) == tuttiSuccess);
  while (comm->life.creation->stage == MEETING) RANKS_CHECK(tt_comm_create_poll(comm) == tuttiInProgress);
  atomic_store(&trial->in, 1);
  for (;;) pause();
}

static int body(const struct ranks *self)
{
  struct trial *trial = self->argument;
  tuttiComm_t comm;
  if (self->rank == VICTIM) {
    burden(trial);
    atomic_store(&trial->pid, getpid());
  }
  if (!trial->count) {
    if (self->rank == VICTIM) return start_up_in_part(self);
    return blames(self, trial, tuttiCommInitRank(&comm, self->nranks, self->id, self->rank));
  }
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  float *data = calloc(trial->count, sizeof *data);
  tuttiResult_t result = tuttiSuccess;
  for (int k = 0; k < 5 && !trial->opens; k++)
    RANKS_CHECK(tuttiAllReduce(data, data, trial->count, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  atomic_fetch_add(&trial->in, 1); /* nobody waits in the last of these calls any more */
  if (trial->exits && self->rank == VICTIM) {
    meeting_await(&trial->in, RANKS);
    atomic_store(&trial->killed_ms, meeting_now_ms());
    if (trial->exits == 2) _exit(STATUS);
    exit(STATUS);
  }
  if ((trial->idle || trial->opens) && self->rank == VICTIM) pause();
  if (trial->idle) {
    while (!atomic_load(&trial->killed_ms)) usleep(1000);
  }
  while (result == tuttiSuccess) result = tuttiAllReduce(data, data, trial->count, tuttiFloat, tuttiSum, comm, NULL);
  if (blames(self, trial, result)) return 1;
  tuttiResult_t state;
  RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiRemoteError);
  RANKS_CHECK(tuttiAllReduce(data, data, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiRemoteError);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
  free(data);
  return 0;
}

static void run(const struct trial *kind)
{
  int pids[RANKS];
  struct trial *trial = ranks_shared(sizeof *trial);
  memcpy(trial, kind, sizeof *trial);
  assert_int_equal(ranks_start(RANKS, body, trial, pids), 0);
  meeting_await(&trial->in, kind->count ? RANKS : 1);
  usleep(kind->opens ? 200000 : 20000);
  if (!kind->exits) atomic_store(&trial->killed_ms, meeting_now_ms());
  if (!kind->exits) kill(pids[VICTIM], SIGKILL);
  int ended = kind->exits ? STATUS : 128 + SIGKILL;
  for (int r = 0; r < RANKS; r++) assert_int_equal(ranks_wait(pids[r], 30), r == VICTIM ? ended : 0);
}

static void on_all(const struct trial *kind)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    run(kind);
  }
}

static void a_death_in_start_up_is_known_to_all(void **state)
{
  (void)state;
  on_all(&(struct trial){.count = 0});
}

static void a_death_while_idle_is_known_to_all(void **state)
{
  (void)state;
  on_all(&(struct trial){.count = 4, .idle = 1});
}

static void an_exit_without_destroy_is_told_as_one(void **state)
{
  (void)state;
  on_all(&(struct trial){.count = 4, .exits = 1});
  on_all(&(struct trial){.count = 100000, .exits = 1});
  on_all(&(struct trial){.count = 4, .exits = 2});
}

static void a_death_while_links_open_is_known_to_all(void **state)
{
  (void)state;
  on_all(&(struct trial){.count = 4, .opens = 1});
  on_all(&(struct trial){.count = 3000000 / (size_t)ranks_patience(), .opens = 1});
}

static void a_death_in_a_short_collective_is_known_to_all(void **state)
{
  (void)state;
  on_all(&(struct trial){.count = 4});
}

static void a_death_in_a_long_collective_is_known_to_all(void **state)
{
  (void)state;
  on_all(&(struct trial){.count = 3000000 / (size_t)ranks_patience()});
}

static void a_forked_child_does_not_hide_a_death(void **state)
{
  (void)state;
  on_all(&(struct trial){.count = 1000, .forks = 1});
  on_all(&(struct trial){.count = 0, .forks = 1});
}

static void held_memory_does_not_delay_the_news(void **state)
{
  (void)state;
  on_all(&(struct trial){.count = 1000, .touched = (size_t)1 << 30});
  on_all(&(struct trial){.count = 0, .touched = (size_t)1 << 30});
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_death_in_start_up_is_known_to_all),
      cmocka_unit_test(a_death_while_idle_is_known_to_all),
      cmocka_unit_test(an_exit_without_destroy_is_told_as_one),
      cmocka_unit_test(a_death_while_links_open_is_known_to_all),
      cmocka_unit_test(a_death_in_a_short_collective_is_known_to_all),
      cmocka_unit_test(a_death_in_a_long_collective_is_known_to_all),
      cmocka_unit_test(a_forked_child_does_not_hide_a_death),
      cmocka_unit_test(held_memory_does_not_delay_the_news),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
