/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with counts for each rank on real ranks: exact results for 1 to 8 of them, every algorithm, any counts
 * (also all 0, also one rank with all), any order of the shares in memory, with gaps, in place or not, alone, in groups
 * and on streams; and nobody touches what is not his. Wrong arguments are refused by name.
 *
 *   test_multi_counts [--long] [--seed N]
 * Labels: processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "algos/algos.h"
#include "base/base.h"
#include "chance.h"
#include "meeting.h"
#include "ranks.h"
#include "slow.h"
#include "trial.h"
#include "tutti_counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { MOST = 8, GROUP = 3, ROUNDS = 24, GAP = 6, LIMIT_S = 200 };

static int is_long;
static uint64_t seed;

struct job {
  const char *transports;
  int hosts;
  struct meeting *meeting;
  uint64_t seed;
};

/* One call of a round: the numbers of the trial, which points to them. */
struct drawn {
  struct trial trial;
  size_t counts[MOST * MOST], displs[2][MOST];
};

/* ---- drawn alike on all ranks ---- */

/* Counts of n shares: of the same kind in all of them. */
static void counts_draw(size_t *counts, size_t n, uint64_t *chance)
{
  size_t kind = below(chance, 8), one = below(chance, n), most = kind == 7 ? 60000 / n : 1500;
  for (size_t k = 0; k < n; k++) {
    size_t any = below(chance, most + 1);
    switch (kind) {
    case 0: counts[k] = 0; break;
    case 1: counts[k] = k == one ? 1 + any : 0; break;
    case 2: counts[k] = any % 4; break;
    case 3: counts[k] = k == one ? 30000 + any : any % 10; break;
    case 4: counts[k] = 700; break;
    default: counts[k] = below(chance, 3) ? any : 0;
    }
  }
}

static void call_draw(struct drawn *drawn, const struct ranks *self, uint64_t *chance)
{
  static const int collectives[] = {TT_ALL_GATHER, TT_REDUCE_SCATTER, TT_ALL_TO_ALL};
  struct trial *trial = &drawn->trial;
  size_t n = (size_t)self->nranks;
  memset(drawn, 0, sizeof *drawn);
  *trial = (struct trial){.nranks = self->nranks, .rank = self->rank, .collective = collectives[below(chance, 3)]};
  trial->type = (int)below(chance, tuttiNumTypes);
  trial->op = (int)below(chance, TT_REDOPS);
  if (!trial_is_exact(trial->collective, trial->type, trial->op, self->nranks))
    trial->op = tt_type_part(trial->type) == trial->type ? tuttiMax : tuttiSum;
  int is_pairs = trial->collective == TT_ALL_TO_ALL;
  if (is_pairs)
    for (size_t r = 0; r < n; r++) counts_draw(drawn->counts + r * n, n, chance);
  else counts_draw(drawn->counts, n, chance);
  if (is_pairs) trial->matrix = drawn->counts;
  else trial->counts = drawn->counts;
}

/* ---- drawn by each rank for itself ---- */

/* The shares of one buffer in any order, with gaps. */
static void displs_draw(struct drawn *drawn, int b, uint64_t *own)
{
  struct trial *trial = &drawn->trial;
  size_t n = (size_t)trial->nranks, at = below(own, GAP), order[MOST];
  for (size_t k = 0; k < n; k++) order[k] = k;
  for (size_t k = n - 1; k > 0; k--) {
    size_t other = below(own, k + 1), kept = order[k];
    order[k] = order[other];
    order[other] = kept;
  }
  for (size_t k = 0; k < n; k++) {
    size_t s = order[k], row = (size_t)trial->rank * n + s, column = s * n + (size_t)trial->rank;
    drawn->displs[b][s] = at;
    at += drawn->counts[!trial->matrix ? s : b ? column : row] + below(own, GAP);
  }
  trial->displs[b] = drawn->displs[b];
}

static void own_draw(struct drawn *drawn, uint64_t *own)
{
  struct trial *trial = &drawn->trial;
  for (int b = 0; b < 2; b++)
    if (below(own, 2)) displs_draw(drawn, b, own);
  trial->in_place = !trial->matrix && below(own, 2);
  trial->bare = (int)below(own, 2);
  trial->shift = below(own, 3) ? 0 : below(own, TRIAL_SHIFT);
}

/* ---- rounds ---- */

static int redops_make(struct drawn *drawn, int n, tuttiComm_t comm)
{
  for (int k = 0; k < n; k++) {
    struct trial *trial = &drawn[k].trial;
    int is_scaled = trial->collective == TT_REDUCE_SCATTER && trial->op == TT_PREMUL_SUM;
    if (is_scaled && trial_redop(trial, comm) != tuttiSuccess) return 0;
  }
  return 1;
}

/* Some calls at once; then a plain all-reduce must still be right. */
static int round_run(const struct ranks *self, tuttiComm_t comm, tuttiStream_t stream, uint64_t *chance, uint64_t *own)
{
  static struct drawn drawn[GROUP];
  int n = below(chance, 3) ? 1 : GROUP, sum = 1;
  if (below(own, 3)) stream = NULL;
  for (int k = 0; k < n; k++) {
    call_draw(&drawn[k], self, chance);
    own_draw(&drawn[k], own);
    RANKS_CHECK(trial_prepare(&drawn[k].trial));
  }
  RANKS_CHECK(redops_make(drawn, n, comm));
  if (n > 1) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int k = 0; k < n; k++) {
    tuttiResult_t result = trial_call(&drawn[k].trial, comm, stream);
    if (result != tuttiSuccess) fprintf(stderr, "%s\n", tuttiGetLastError(comm));
    RANKS_CHECK(result == tuttiSuccess);
  }
  if (n > 1) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  if (stream) RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
  for (int k = 0; k < n; k++) {
    RANKS_CHECK(trial_check(&drawn[k].trial));
    trial_free(&drawn[k].trial);
  }
  RANKS_CHECK(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess && sum == self->nranks);
  return 0;
}

/* The n-th algorithm of the collective, counted round and round. */
static const char *algo_name(int collective, int n)
{
  int rows = 0;
  for (int a = 0; a < tt_algo_count; a++) rows += tt_algos[a].collective == collective;
  n %= rows;
  for (int a = 0; a < tt_algo_count; a++)
    if (tt_algos[a].collective == collective && n-- == 0) return tt_algos[a].name;
  return "";
}

/* Algorithm k of each collective, in segments so short that most vectors have several; the last one: as chosen. */
static void setting_apply(const struct ranks *self, int k)
{
  const struct job *job = self->argument;
  char text[128];
  snprintf(text, sizeof text, "all_gather:%s;reduce_scatter:%s", algo_name(TT_ALL_GATHER, k),
           algo_name(TT_REDUCE_SCATTER, k));
  setenv("TUTTI_ALGO", k < 3 ? text : "", 1);
  if (k == 3) unsetenv("TUTTI_ALGO");
  snprintf(text, sizeof text, "%d", 1 + k % 3);
  setenv("TUTTI_LANES", text, 1);
  setenv("TUTTI_SEGMENT_BYTES", "4096", 1);
  if (k == 3) unsetenv("TUTTI_SEGMENT_BYTES");
  snprintf(text, sizeof text, "host-%d", self->rank % job->hosts);
  if (job->hosts > 1) setenv("TUTTI_HOSTID", text, 1);
}

static int body(const struct ranks *self)
{
  const struct job *job = self->argument;
  uint64_t chance = job->seed, own = job->seed * 31 + (uint64_t)self->rank;
  for (int k = 0; k < 4; k++) {
    tuttiComm_t comm;
    tuttiStream_t stream;
    tuttiUniqueId id;
    setting_apply(self, k);
    RANKS_CHECK(meeting_id(job->meeting, self->rank == 0, &id));
    RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, id, self->rank) == tuttiSuccess);
    RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
    for (int round = 0; round < (is_long ? 40 : IS_SLOW ? 1 : 2) * ROUNDS / 2; round++)
      if (round_run(self, comm, stream, &chance, &own)) return 1;
    RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void run_on(const char *transports, int hosts)
{
  setenv("TUTTI_TRANSPORTS", transports, 1);
  for (int nranks = hosts; nranks <= MOST; nranks += nranks < 5 ? 1 + IS_SLOW : 3) {
    struct job job = {transports, hosts, meeting_make(nranks), seed + (uint64_t)nranks};
    assert_non_null(job.meeting);
    int bad = ranks_run_processes(nranks, body, &job, is_long ? 10 * LIMIT_S : LIMIT_S);
    if (bad) fprintf(stderr, "%d ranks on %d hosts over %s, seed %llu\n", nranks, hosts, transports,
                     (unsigned long long)seed);
    assert_int_equal(bad, 0);
    meeting_free(job.meeting);
  }
}

static void shares_of_any_lengths_are_exact(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) run_on(ranks_transports(t), 1);
  if (!ranks_transports(1)) return;
  run_on("shm,tcp", 2);
}

/* ---- refusals ---- */

#define REFUSES(call, words) RANKS_CHECK((call) == tuttiInvalidArgument && says(words))

static int gather_refusals(const struct ranks *self, tuttiComm_t comm)
{
  int mine[4] = {0}, all[20] = {0};
  const size_t counts[2] = {3, 3}, near[2] = {0, 2}, huge[2] = {3, SIZE_MAX / 2};
  const tuttiDataType_t type = tuttiInt32;
  REFUSES(tuttiAllGatherV(mine, 2, all, counts, NULL, type, comm, NULL), "sendcount is 2, but recvcounts[");
  REFUSES(tuttiAllGatherV(mine, 3, all, NULL, NULL, type, comm, NULL), "recvcounts");
  REFUSES(tuttiAllGatherV(NULL, 3, all, counts, NULL, type, comm, NULL), "sendbuff");
  REFUSES(tuttiAllGatherV(mine, 3, NULL, counts, NULL, type, comm, NULL), "recvbuff");
  REFUSES(tuttiAllGatherV(mine, 3, all, counts, near, type, comm, NULL), "overlaps the part of recvbuff of rank 1");
  REFUSES(tuttiAllGatherV(all + 1, 3, all, counts, NULL, type, comm, NULL), "sendbuff = recvbuff + displs[rank]");
  REFUSES(tuttiAllGatherV(mine, huge[self->rank], all, huge, NULL, type, comm, NULL), "more elements of 4 bytes");
  REFUSES(tuttiAllGatherV(mine, 3, all, counts, NULL, (tuttiDataType_t)99, comm, NULL), "type is 99");
  return 0;
}

static int scatter_refusals(const struct ranks *self, tuttiComm_t comm)
{
  int mine[4] = {0}, all[20] = {0};
  const size_t counts[2] = {3, 3}, same[2] = {0, 0};
  const tuttiDataType_t type = tuttiInt32;
  REFUSES(tuttiReduceScatterV(all, mine, NULL, NULL, type, tuttiSum, comm, NULL), "recvcounts");
  REFUSES(tuttiReduceScatterV(NULL, mine, counts, NULL, type, tuttiSum, comm, NULL), "sendbuff");
  REFUSES(tuttiReduceScatterV(all, NULL, counts, NULL, type, tuttiSum, comm, NULL), "recvbuff");
  REFUSES(tuttiReduceScatterV(all, mine, counts, NULL, type, (tuttiRedOp_t)-1, comm, NULL), "op");
  REFUSES(tuttiReduceScatterV(all, mine, counts, NULL, tuttiBool, tuttiAvg, comm, NULL), "op is avg");
  REFUSES(tuttiReduceScatterV(all, all + 1, counts, NULL, type, tuttiSum, comm, NULL),
          "recvbuff = sendbuff + displs[rank]");
  /* In place it is written, so no other share may lie there. */
  REFUSES(tuttiReduceScatterV(all, all, counts, same, type, tuttiSum, comm, NULL), "overlaps");
  return 0;
}

static int exchange_refusals(const struct ranks *self, tuttiComm_t comm)
{
  int in[8] = {0}, out[8] = {0};
  const size_t counts[2] = {3, 3}, others[2] = {2, 2}, near[2] = {0, 2};
  const tuttiDataType_t type = tuttiInt32;
  REFUSES(tuttiAlltoAllV(in, NULL, NULL, out, counts, NULL, type, comm, NULL), "sendcounts");
  REFUSES(tuttiAlltoAllV(in, counts, NULL, out, NULL, NULL, type, comm, NULL), "recvcounts");
  REFUSES(tuttiAlltoAllV(NULL, counts, NULL, out, counts, NULL, type, comm, NULL), "sendbuff");
  REFUSES(tuttiAlltoAllV(in, counts, NULL, NULL, counts, NULL, type, comm, NULL), "recvbuff");
  REFUSES(tuttiAlltoAllV(in, counts, NULL, out, others, NULL, type, comm, NULL), "is 3, but recvcounts[");
  REFUSES(tuttiAlltoAllV(in, counts, NULL, out, counts, near, type, comm, NULL), "overlaps the part of recvbuff");
  REFUSES(tuttiAlltoAllV(in, counts, NULL, in + 2, counts, NULL, type, comm, NULL), "there is no in place");
  return 0;
}

/* After all refusals the communicator works; within a group one refusal keeps all calls from starting. */
static int refusals_body(const struct ranks *self)
{
  tuttiComm_t comm;
  int mine[3] = {1, 2, 3}, all[6] = {0}, sum = 1;
  const size_t counts[2] = {3, 3};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (gather_refusals(self, comm) || scatter_refusals(self, comm) || exchange_refusals(self, comm)) return 1;
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiAllGatherV(mine, 3, all, counts, NULL, tuttiInt32, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAlltoAllV(mine, NULL, NULL, all, counts, NULL, tuttiInt32, comm, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidArgument && all[0] == 0);
  RANKS_CHECK(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess && sum == 2);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_arguments_are_refused_by_name(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_processes(2, refusals_body, NULL, LIMIT_S), 0);
  unsetenv("TUTTI_DEBUG");
}

/* Rank 2 has all elements, needs nobody, and goes ahead through many calls while rank 0, which passes them on, is
 * late. */
static int ahead_body(const struct ranks *self)
{
  tuttiComm_t comm;
  int mine = 7, all = 0;
  const size_t counts[3] = {0, 0, 1};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 40; k++) {
    if (self->rank == 0 && k == 1) usleep(1600000); /* links are open by now */
    all = 0;
    RANKS_CHECK(tuttiAllGatherV(&mine, counts[self->rank], &all, counts, NULL, tuttiInt32, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(all == 7);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_rank_that_needs_nobody_may_be_ahead(void **state)
{
  (void)state;
  setenv("TUTTI_TRANSPORTS", "tcp", 1);
  setenv("TUTTI_ALGO", "allgather:ring", 1);
  assert_int_equal(ranks_run_processes(3, ahead_body, NULL, LIMIT_S), 0);
  unsetenv("TUTTI_TRANSPORTS");
  unsetenv("TUTTI_ALGO");
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_arguments_are_refused_by_name),
      cmocka_unit_test(a_rank_that_needs_nobody_may_be_ahead),
      cmocka_unit_test(shares_of_any_lengths_are_exact),
  };
  seed = (uint64_t)time(NULL) * 1000;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--long") == 0) is_long = 1;
    if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) seed = strtoull(argv[++i], NULL, 10);
  }
  printf("seed %llu\n", (unsigned long long)seed);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
