/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with counts whose ranks differ in them, or whose ranks die: an error that says who and what on every
 * rank, and never a hang. Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "tutti_counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 4, ODD = 2, LONG = 200000, LIMIT_S = 60 };
enum kind { GATHER, SCATTER, EXCHANGE, KINDS };

struct buffers {
  int *in, *out;
  size_t counts[RANKS], others[RANKS]; /* of an exchange: sent and received */
};

struct job {
  enum kind kind;
  size_t usual, odd; /* count of rank 1's share, as all ranks and as rank ODD give it */
  _Atomic int in, done; /* ranks that the death may find wherever they are; that have told who died */
};

static tuttiResult_t call(const struct ranks *self, enum kind kind, const struct buffers *b, tuttiComm_t comm)
{
  const size_t *counts = b->counts;
  if (kind == GATHER)
    return tuttiAllGatherV(b->in, counts[self->rank], b->out, counts, NULL, tuttiInt32, comm, NULL);
  if (kind == SCATTER) return tuttiReduceScatterV(b->in, b->out, counts, NULL, tuttiInt32, tuttiSum, comm, NULL);
  return tuttiAlltoAllV(b->in, counts, NULL, b->out, b->others, NULL, tuttiInt32, comm, NULL);
}

static int buffers_make(const struct ranks *self, struct buffers *b)
{
  b->in = calloc(2 * RANKS * LONG, sizeof *b->in);
  b->out = calloc(2 * RANKS * LONG, sizeof *b->out);
  RANKS_CHECK(b->in && b->out);
  for (int r = 0; r < RANKS; r++) b->counts[r] = b->others[r] = 5;
  return 0;
}

static void buffers_free(struct buffers *b)
{
  free(b->in);
  free(b->out);
}

/* ---- counts that differ ---- */

/* Rank ODD calls with another count for rank 1's share, and one less for rank 3's, so that the sum is the same. What it
 * sends to rank 1 is other than what rank 1 awaits. */
static int differ(const struct ranks *self)
{
  const struct job *job = self->argument;
  struct buffers b;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (buffers_make(self, &b)) return 1;
  /* A rank may still be inside #1 when the others find that #2 differs: then #1 ends with that error. */
  tuttiResult_t result = call(self, job->kind, &b, comm);
  int is_odd = self->rank == ODD, is_exchange = job->kind == EXCHANGE;
  if (!is_exchange) {
    b.counts[1] = is_odd ? job->odd : job->usual;
    b.counts[3] = 2 * (job->odd + job->usual) - b.counts[1];
  } else if (is_odd) b.counts[1] = job->odd;
  else if (self->rank == 1) b.others[ODD] = job->usual;
  if (result == tuttiSuccess) result = call(self, job->kind, &b, comm);
  for (int k = 0; k < 20000 && result == tuttiSuccess; k++) { /* who had nothing to do with it learns it later */
    int sum = 1;
    usleep(1000);
    result = tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, NULL);
  }
  RANKS_CHECK(result == tuttiInvalidUsage);
  char words[2][64];
  snprintf(words[0], sizeof words[0], "(%zu bytes", 4 * job->usual);
  snprintf(words[1], sizeof words[1], "(%zu bytes", 4 * job->odd);
  static const char *const names[] = {"AllGatherV #2 (counts of ", "ReduceScatterV #2 (counts of ", "AlltoAllV #2 "};
  RANKS_CHECK(comm_says(comm, "rank 2") && comm_says(comm, names[job->kind]));
  if (is_exchange)
    RANKS_CHECK(comm_says(comm, "rank 1") && comm_says(comm, words[0]) && comm_says(comm, words[1]));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  buffers_free(&b);
  return 0;
}

static void run_all(ranks_body body, struct job *job, const char *hosts)
{
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    int bad = ranks_run_processes(RANKS, body, job, LIMIT_S);
    if (bad) fprintf(stderr, "kind %d, %zu and %zu over %s%s\n", (int)job->kind, job->usual, job->odd,
                     ranks_transports(t), hosts);
    assert_int_equal(bad, 0);
  }
}

static void counts_that_differ_are_named_on_all_ranks(void **state)
{
  static const size_t pairs[][2] = {{5, 6}, {0, 3}, {3, 0}, {LONG, 7}, {7, LONG}, {LONG, LONG - 1}};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
      struct job job = {.kind = (enum kind)kind, .usual = pairs[k][0], .odd = pairs[k][1]};
      run_all(differ, &job, "");
    }
}

/* ---- unlike calls ---- */

/* Rank ODD is in an all-to-all of equal shares, or in a receive, that would fit by its bytes. */
static int unlike(const struct ranks *self)
{
  const struct job *job = self->argument;
  struct buffers b;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (buffers_make(self, &b)) return 1;
  tuttiResult_t result;
  if (self->rank != ODD) result = call(self, job->kind, &b, comm);
  else if (job->kind == EXCHANGE) result = tuttiRecv(b.out, 5, tuttiInt32, 1, comm, NULL);
  else if (job->kind == GATHER) result = tuttiAllGather(b.in, b.out, 5, tuttiInt32, comm, NULL);
  else result = tuttiReduceScatter(b.in, b.out, 5, tuttiInt32, tuttiSum, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage);
  static const char *const names[] = {"AllGatherV #1 (", "ReduceScatterV #1 (", "AlltoAllV #1 ("};
  static const char *const others[] = {"AllGather #1 (", "ReduceScatter #1 (", "Recv #1 ("};
  RANKS_CHECK(comm_says(comm, names[job->kind]));
  RANKS_CHECK(comm_says(comm, others[job->kind]) || (job->kind == EXCHANGE && comm_says(comm, "Send/Recv #1 (")));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  buffers_free(&b);
  return 0;
}

static void calls_with_counts_are_not_taken_for_others(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int kind = 0; kind < KINDS; kind++) {
    struct job job = {.kind = (enum kind)kind};
    run_all(unlike, &job, "");
  }
}

/* ---- a rank dies ---- */

static int die(const struct ranks *self)
{
  struct job *job = self->argument;
  struct buffers b;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (buffers_make(self, &b)) return 1;
  for (int r = 0; r < RANKS; r++) b.counts[r] = b.others[r] = r == 1 ? LONG : 0;
  for (int r = 0; r < RANKS && job->kind == EXCHANGE; r++) {
    b.counts[r] = (size_t)(self->rank * 1000 + r * 10);
    b.others[r] = (size_t)(r * 1000 + self->rank * 10);
  }
  for (int k = 0; k < 3; k++) RANKS_CHECK(call(self, job->kind, &b, comm) == tuttiSuccess);
  atomic_fetch_add(&job->in, 1);
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess) result = call(self, job->kind, &b, comm);
  RANKS_CHECK(result == tuttiRemoteError && comm_says(comm, "rank 2"));
  atomic_fetch_add(&job->done, 1);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
  buffers_free(&b);
  return 0;
}

static void a_dead_rank_ends_calls_with_counts(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int kind = 0; kind < KINDS; kind++)
    for (int t = 0; ranks_transports(t); t++) {
      int pids[RANKS];
      struct job *job = ranks_shared(sizeof *job);
      job->kind = (enum kind)kind;
      setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
      assert_int_equal(ranks_start(RANKS, die, job, pids), 0);
      for (int k = 0; k < 60000 && atomic_load(&job->in) < RANKS; k++) usleep(1000);
      usleep(20000);
      kill(pids[ODD], SIGKILL);
      for (int r = 0; r < RANKS; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), r == ODD ? 128 + SIGKILL : 0);
      assert_int_equal(atomic_load(&job->done), RANKS - 1);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_that_differ_are_named_on_all_ranks),
      cmocka_unit_test(calls_with_counts_are_not_taken_for_others),
      cmocka_unit_test(a_dead_rank_ends_calls_with_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
