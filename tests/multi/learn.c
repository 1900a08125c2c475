/* SPDX-License-Identifier: BSD-3-Clause */
/* A job finds out which algorithm is the quickest: all ranks go by the same choice at every call, whatever they call
 * and however; sums are right; it settles; what is settled is kept for the next job. A rank that dies or is late in an
 * exchange is named, and so are calls that differ there. */
#include "learn_calls.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chance.h"
#include "meeting.h"
#include "slow.h"
#include "tuner/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static char cache_path[] = "/tmp/tutti_learn_cache_XXXXXX";
static const int collectives[] = {TT_ALL_REDUCE, TT_REDUCE_SCATTER, TT_ALL_GATHER, TT_ALL_TO_ALL};

/* ---- what ranks have chosen ---- */

/* A hash of all choices so far, by rank; in memory of all ranks. */
struct told {
  uint64_t choices[RANKS_MOST], exchanges[RANKS_MOST], settled[RANKS_MOST];
};
static struct told *told;
static struct meeting *meeting;

/* The cell of a call still has its choice behind it. */
static uint64_t choice_add(uint64_t hash, tuttiComm_t comm, const struct call *call)
{
  const struct tt_choice *choice = tt_comm_choice(comm, call->collective, 4, 4 * call->count);
  uint64_t number = ((uint64_t)choice->algo << 48) + ((uint64_t)choice->radix << 32) + choice->block_bytes;
  return (hash ^ number) * 0x9e3779b97f4a7c15u;
}

static int settled_count(tuttiComm_t comm)
{
  int n = 0;
  for (int k = 0; comm->calls.learning && k < comm->calls.learning->nshapes; k++)
    n += comm->calls.learning->shapes[k].learn.agreed.state == TT_LEARN_SETTLED;
  return n;
}

/* Puts down what this rank has seen; 1 if all ranks have seen the same. */
static int all_alike(const struct ranks *self, tuttiComm_t comm, uint64_t hash, uint64_t calls)
{
  told->choices[self->rank] = hash;
  told->exchanges[self->rank] = comm->queue.last_op - calls;
  told->settled[self->rank] = (uint64_t)settled_count(comm);
  if (!meeting_wait(meeting)) return 0;
  for (int r = 1; r < self->nranks; r++)
    if (told->choices[r] != told->choices[0] || told->exchanges[r] != told->exchanges[0] ||
        told->settled[r] != told->settled[0])
      return 0;
  return meeting_wait(meeting);
}

/* ---- arms ---- */

#define POOR_BLOCK 64 /* bytes: a vector of 16,000 takes 250 segments */

/* Gives all sizes of an all-reduce two arms, a poor one first, then the second one that it has. The same on all
 * ranks. */
static int arms_force(tuttiComm_t comm)
{
  struct tt_table *table = &comm->calls.table;
  struct tt_arms *arms = &table->arms[TT_MEMORY_MALLOC][tt_arms_row(TT_ALL_REDUCE)];
  int second = arms->of[tt_size_class(16000)][1];
  if (!second) return 0;
  struct tt_choice good = arms->choices[second - 1];
  memset(table->tutti_rows, 0, sizeof table->tutti_rows); /* no kind of memory is to be agreed on */
  for (int row = 0; row < TT_ARM_ROWS; row++) memset(&table->arms[TT_MEMORY_MALLOC][row], 0, sizeof *arms);
  arms->choices[0] = arms->choices[1] = good;
  arms->choices[0].block_bytes = POOR_BLOCK;
  arms->n = 2;
  for (int k = 0; k < TT_SIZE_CLASSES; k++)
    for (int a = 0; a < 2; a++) arms->of[k][a] = (uint8_t)(1 + a);
  tt_learning_destroy(comm);
  if (!tt_table_valid(table) || tt_learning_create(comm) != tuttiSuccess) return 0;
  tt_learning_begin(comm);
  if (comm->calls.learning) learn_soon(comm);
  return comm->calls.learning != NULL;
}

/* ---- all ranks alike ---- */

#define MIXED (IS_SLOW ? 1600 : 6000) /* the first exchange comes at some 200 calls of a shape */

/* Shapes in a random order, the same on all ranks: blocking, on streams, in groups. `argument` is the seed. */
static int mixes_body(const struct ranks *self)
{
  static const size_t counts[] = {2, 100, 1000, 4000};
  uint64_t chance = 1 + (uint64_t)(uintptr_t)self->argument, hash = 0;
  struct call call;
  tuttiComm_t comm;
  tuttiStream_t stream;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  RANKS_CHECK(comm->calls.learning);
  learn_soon(comm);
  for (int k = 0; k < MIXED; k++) {
    size_t way = below(&chance, 8);
    call.collective = collectives[below(&chance, 2) ? 0 : below(&chance, 4)];
    size_t lengths = call.collective == TT_ALL_REDUCE ? (IS_SLOW ? 1 : 4) : 2; /* few: then each has many calls */
    call.count = counts[below(&chance, lengths)];
    memset(call.out, 0xff, out_len(&call, self->nranks) * sizeof *call.out);
    if (way == 1) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    RANKS_CHECK(call_run(&call, comm, way ? NULL : stream) == tuttiSuccess);
    if (way == 1) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    if (!way) RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
    RANKS_CHECK(is_right(&call, self));
    hash = choice_add(hash, comm, &call);
  }
  RANKS_CHECK(all_alike(self, comm, hash, MIXED));
  RANKS_CHECK(self->nranks == 2 || comm->queue.last_op > (uint64_t)MIXED); /* they have exchanged something */
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void ranks_go_by_the_same_choice_at_every_call(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    for (int nranks = 2; nranks <= RANKS_MOST; nranks += 2) {
      if (IS_TSAN || (IS_SLOW && (nranks == 2) == (t == 0))) continue;
      meeting = meeting_make(nranks);
      assert_int_equal(ranks_run_processes(nranks, mixes_body, (void *)(uintptr_t)nranks, 120), 0);
      meeting_free(meeting);
    }
  }
  unsetenv("TUTTI_TRANSPORTS");
}

static void so_do_ranks_that_are_threads(void **state)
{
  (void)state;
  meeting = meeting_make(3);
  assert_int_equal(ranks_run_threads(3, mixes_body, (void *)(uintptr_t)7, 120), 0);
  meeting_free(meeting);
}

/* Operations of several streams and two communicators wait together, and exchanges come between them. */
static int queues_body(const struct ranks *self)
{
  enum { WAITING = 8, ROUNDS = IS_SLOW ? 130 : 250 };
  struct call call[WAITING];
  tuttiComm_t comm[2];
  tuttiStream_t stream[2];
  uint64_t chance = 5, calls[2] = {0};
  RANKS_CHECK(tuttiCommInitRank(&comm[0], self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm[0], 0, self->rank, &comm[1], NULL) == tuttiSuccess);
  for (int k = 0; k < 2; k++) RANKS_CHECK(tuttiStreamCreate(&stream[k]) == tuttiSuccess);
  for (int k = 0; k < WAITING; k++) RANKS_CHECK(buffers_make(&call[k], self->rank));
  for (int k = 0; k < 2; k++) learn_soon(comm[k]);
  calls[0] = comm[0]->queue.last_op;
  for (int round = 0; round < ROUNDS; round++) {
    int is_group = round % 2;
    if (is_group) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int k = 0; k < WAITING; k++) {
      size_t c = below(&chance, 2);
      call[k].collective = TT_ALL_REDUCE;
      call[k].count = below(&chance, 2) ? 10 : 1000;
      calls[c]++;
      RANKS_CHECK(call_run(&call[k], comm[c], is_group && c ? NULL : stream[c]) == tuttiSuccess);
    }
    if (is_group) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    for (int k = 0; k < 2; k++) RANKS_CHECK(tuttiStreamSynchronize(stream[k]) == tuttiSuccess);
    for (int k = 0; k < WAITING; k++) RANKS_CHECK(is_right(&call[k], self));
  }
  for (int c = 0; c < 2; c++) {
    RANKS_CHECK(comm[c]->calls.learning && comm[c]->calls.learning->nshapes == 2);
    RANKS_CHECK(all_alike(self, comm[c], 0, calls[c]) && comm[c]->queue.last_op > calls[c]);
  }
  for (int k = 0; k < 2; k++) {
    RANKS_CHECK(tuttiStreamDestroy(stream[k]) == tuttiSuccess);
    RANKS_CHECK(tuttiCommDestroy(comm[1 - k]) == tuttiSuccess);
  }
  for (int k = 0; k < WAITING; k++) buffers_free(&call[k]);
  return 0;
}

static void exchanges_come_between_operations_that_are_queued(void **state)
{
  (void)state;
  meeting = meeting_make(3);
  assert_int_equal(ranks_run_processes(3, queues_body, NULL, 60), 0);
  meeting_free(meeting);
}

/* ---- it settles ---- */

#define SETTLE_MOST 100000

/* Calls until it is settled; 1 if it is. */
static int settle(const struct ranks *self, tuttiComm_t comm, const struct call *call)
{
  const struct tt_learning *learning = comm->calls.learning;
  for (int k = 0; k < SETTLE_MOST; k++) {
    if (learning->nshapes && learning->shapes[0].learn.agreed.state == TT_LEARN_SETTLED) return 1;
    if (call_run(call, comm, NULL) != tuttiSuccess || !is_right(call, self)) return 0;
  }
  return 0;
}

static uint32_t settled_block(tuttiComm_t comm)
{
  const struct tt_learn_shape *shape = &comm->calls.learning->shapes[0];
  return shape->arms[shape->learn.agreed.incumbent].block_bytes;
}

static int settles_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 4000};
  tuttiComm_t comm;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(arms_force(comm));
  RANKS_CHECK(settle(self, comm, &call));
  RANKS_CHECK(settled_block(comm) != POOR_BLOCK);
  for (int k = 0; k < 3000; k++) { /* they stay with it */
    RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess && is_right(&call, self));
    if (comm->calls.learning->shapes[0].learn.agreed.state != TT_LEARN_SETTLED) break; /* a drift */
    RANKS_CHECK(tt_comm_choice(comm, TT_ALL_REDUCE, 4, 16000)->block_bytes != POOR_BLOCK);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void it_settles_on_the_quicker_one(void **state)
{
  (void)state;
  if (IS_SLOW) return; /* it takes some 30,000 calls, and shows no more of memory and threads than the tests above */
  assert_int_equal(ranks_run_processes(2, settles_body, NULL, 240), 0);
}

/* ---- death ---- */

/* Makes calls until an exchange comes before the next one. */
static int is_due(const struct call *call, tuttiComm_t comm)
{
  const struct tt_learn_shape *shape = &comm->calls.learning->shapes[0];
  for (int k = 0; k < 1000 && !shape->is_due; k++)
    if (call_run(call, comm, NULL) != tuttiSuccess) return 0;
  return shape->is_due;
}

/* Rank 1 makes no call behind that at which the first exchange is due: the others are in the exchange then. */
static int dies_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 100};
  tuttiComm_t comm;
  tuttiResult_t result = tuttiSuccess;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(arms_force(comm));
  RANKS_CHECK(is_due(&call, comm));
  if (self->rank == 1) raise(SIGKILL);
  if (self->argument) {
    tuttiStream_t stream;
    RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
    result = call_run(&call, comm, stream); /* the death may be known already */
    if (result == tuttiSuccess) result = tuttiStreamSynchronize(stream);
    tuttiStreamDestroy(stream); /* tells the same error */
  } else result = call_run(&call, comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError && comm_says(comm, "rank 1"));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void a_rank_that_dies_before_an_exchange_is_named(void **state)
{
  (void)state;
  for (intptr_t has_stream = 0; has_stream < 2; has_stream++) {
    int pids[3];
    assert_int_equal(ranks_start(3, dies_body, (void *)has_stream, pids), 0);
    for (int r = 0; r < 3; r++) assert_int_equal(ranks_wait(pids[r], 30), r == 1 ? 128 + SIGKILL : 0);
  }
}

/* One that is late is named, too: the call that is missing is an exchange. */
static int late_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 100};
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  config.timeout_ms = 2000;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(arms_force(comm));
  const struct tt_learn_shape *shape = &comm->calls.learning->shapes[0];
  for (int k = 0; k < 1000 && !shape->is_due; k++) RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess);
  while (self->rank == 2 && !tt_comm_has_failed(comm)) usleep(1000);
  RANKS_CHECK(call_run(&call, comm, NULL) == tuttiRemoteError && comm_says(comm, "rank 2"));
  RANKS_CHECK(comm_says(comm, "did not enter Learning #") && comm_says(comm, " before AllReduce #"));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void a_rank_that_is_late_in_an_exchange_is_named(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(3, late_body, NULL, 30), 0);
}

/* Rank 1 makes another call where the others exchange what they know. */
static int crosses_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 100};
  int is_barrier = self->argument != NULL;
  tuttiComm_t comm;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(arms_force(comm));
  RANKS_CHECK(is_due(&call, comm));
  if (self->rank == 1 && !is_barrier) call.count = 99;
  tuttiResult_t result = self->rank == 1 && is_barrier ? tuttiBarrier(comm, NULL) : call_run(&call, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage && comm_says(comm, " before AllReduce #"));
  RANKS_CHECK(comm_says(comm, "(count 100, int32, sum)") && comm_says(comm, is_barrier ? "Barrier #" : "(count 99, "));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void calls_that_differ_at_an_exchange_are_named(void **state)
{
  (void)state;
  for (intptr_t is_barrier = 0; is_barrier < 2; is_barrier++)
    assert_int_equal(ranks_run_processes(3, crosses_body, (void *)is_barrier, 30), 0);
}

/* ---- the cache ---- */

/* Settles, makes calls until their time is known, and ends: it is kept. */
static int keeps_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 4000};
  tuttiComm_t comm;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(comm->calls.table.nlearnt == 0 && arms_force(comm));
  RANKS_CHECK(settle(self, comm, &call));
  for (int k = 0; k < SETTLE_MOST && !comm->calls.learning->shapes[0].learn.agreed.reference_ns; k++)
    RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void cache_load(struct tt_cache *cache)
{
  struct tt_settings settings;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  tt_cache_load(cache, &settings);
}

/* The next job goes by what is kept (`argument`; NULL: nothing is) from its first call on, and by nothing else. */
static int remembers_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 4000};
  const struct tt_learnt *learnt = self->argument;
  tuttiComm_t comm;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(comm->calls.table.nlearnt == (learnt ? 1 : 0));
  for (int k = 0; k < FIRST_CALLS + 10; k++) {
    const struct tt_choice *choice = tt_comm_choice(comm, TT_ALL_REDUCE, 4, 16000);
    RANKS_CHECK(!learnt || tt_choices_same(choice, &learnt->choice));
    RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess && is_right(&call, self));
  }
  uint64_t ops = FIRST_CALLS + 10 + exchanges_first(comm, TT_ALL_REDUCE, 16000);
  RANKS_CHECK(!learnt || comm->queue.last_op == ops); /* it is settled: no first exchange of times */
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void what_is_settled_is_remembered(void **state)
{
  struct tt_cache cache, other;
  struct tt_settings settings;
  (void)state;
  if (IS_SLOW) return; /* likewise */
  setenv("TUTTI_CACHE", cache_path, 1);
  assert_int_equal(ranks_run_processes(2, keeps_body, NULL, 240), 0);
  cache_load(&cache);
  assert_int_equal(cache.nlearnt, 1);
  assert_int_equal(ranks_run_processes(2, remembers_body, &cache.learnt[0].learnt, 60), 0);
  setenv("TUTTI_LEARN", "freeze", 1);
  assert_int_equal(ranks_run_processes(2, remembers_body, &cache.learnt[0].learnt, 60), 0);
  unsetenv("TUTTI_LEARN");
  assert_int_equal(ranks_run_processes(3, remembers_body, NULL, 60), 0); /* other ranks */
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  other = cache;
  other.learnt[0].learnt.choice.block_bytes = POOR_BLOCK; /* none of the arms */
  tt_cache_store(&other, &settings);
  assert_int_equal(ranks_run_processes(2, remembers_body, NULL, 60), 0);
  other = cache;
  other.learnt[0].key++;
  tt_cache_store(&other, &settings);
  assert_int_equal(ranks_run_processes(2, remembers_body, NULL, 60), 0);
  unsetenv("TUTTI_CACHE");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_go_by_the_same_choice_at_every_call),
      cmocka_unit_test(exchanges_come_between_operations_that_are_queued),
      cmocka_unit_test(it_settles_on_the_quicker_one),
      cmocka_unit_test(a_rank_that_dies_before_an_exchange_is_named),
      cmocka_unit_test(a_rank_that_is_late_in_an_exchange_is_named),
      cmocka_unit_test(calls_that_differ_at_an_exchange_are_named),
      cmocka_unit_test(what_is_settled_is_remembered),
      cmocka_unit_test(so_do_ranks_that_are_threads), /* last: then this process has used Tutti */
  };
  if (!mkdtemp(cache_path)) return 1;
  setenv("TUTTI_CACHE", "none", 1);
  told = ranks_shared(sizeof *told);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", cache_path);
  return system(command) != 0 || failed;
}
