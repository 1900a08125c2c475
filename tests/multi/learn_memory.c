/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of memory: ranks agree on it before the first call of a shape, and go by the rows for memory of
 * tuttiMemAlloc only if the data of all of them are in it, and peers read them there. What is learnt by calls in the
 * other kind is not kept.
 * Labels: processes. */
#include "learn_calls.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tuner/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define COUNT 4000 /* 16,000 bytes: more than what is alike in both kinds */
#define FEW 3000

static const char *const algorithms[TT_MEMORIES] = {"ring", "direct"};

static struct tt_choice choice_of(enum tt_memory memory)
{
  return (struct tt_choice){.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, algorithms[memory]) - tt_algos),
                            .middle = -1,
                            .block_bytes = 4096};
}

/* All-reduces of all sizes have a choice for each kind of memory. The same on all ranks. */
static int rows_force(tuttiComm_t comm)
{
  struct tt_table *table = &comm->calls.table;
  memset(table->tutti_rows, 0, sizeof table->tutti_rows);
  table->rows[TT_ALL_REDUCE][0] = (struct tt_table_row){UINT64_MAX, choice_of(TT_MEMORY_MALLOC)};
  table->tutti_rows[tt_arms_row(TT_ALL_REDUCE)][0] = (struct tt_table_row){UINT64_MAX, choice_of(TT_MEMORY_TUTTI)};
  tt_learning_destroy(comm);
  if (!tt_table_valid(table) || tt_learning_create(comm) != tuttiSuccess) return 0;
  tt_learning_begin(comm);
  return comm->calls.learning != NULL;
}

/* Bits of a rank's buffers that are in memory of tuttiMemAlloc. */
enum { IN = 1, OUT = 2, BOTH = 3 };

struct buffers {
  int32_t *malloced[2], *tutti[2]; /* in, out */
};

static int buffers_open(struct buffers *buffers, int rank)
{
  for (int k = 0; k < 2; k++) {
    void *data = NULL;
    buffers->malloced[k] = calloc(COUNT_MOST, sizeof(int32_t));
    if (!buffers->malloced[k] || tuttiMemAlloc(&data, 2 * COUNT_MOST * sizeof(int32_t)) != tuttiSuccess) return 0;
    buffers->tutti[k] = data;
  }
  for (size_t i = 0; i < COUNT_MOST; i++) buffers->malloced[0][i] = buffers->tutti[0][i] = element(rank, i);
  return 1;
}

static void buffers_close(struct buffers *buffers)
{
  for (int k = 0; k < 2; k++) {
    free(buffers->malloced[k]);
    tuttiMemFree(buffers->tutti[k]);
  }
}

static struct call call_in(const struct buffers *buffers, int kinds, size_t count)
{
  return (struct call){.collective = TT_ALL_REDUCE,
                       .count = count,
                       .in = kinds & IN ? buffers->tutti[0] : buffers->malloced[0],
                       .out = kinds & OUT ? buffers->tutti[1] : buffers->malloced[1]};
}

/* Calls of one shape: what rank 1 and the others have in memory of tuttiMemAlloc, and the kind that is agreed on. A
 * later call of the shape in any memory goes the same way. Short calls are not asked. */
static int agrees_body(const struct ranks *self)
{
  static const struct {
    int kinds[2];
    enum tt_memory memory;
  } cases[] = {{{BOTH, BOTH}, TT_MEMORY_TUTTI}, {{BOTH, 0}, TT_MEMORY_MALLOC},   {{0, BOTH}, TT_MEMORY_MALLOC},
               {{0, 0}, TT_MEMORY_MALLOC},      {{BOTH, OUT}, TT_MEMORY_MALLOC}, {{IN, BOTH}, TT_MEMORY_MALLOC}};
  int is_streamed = self->argument != NULL;
  struct buffers buffers;
  tuttiComm_t comm;
  tuttiStream_t stream = NULL;
  RANKS_CHECK(buffers_open(&buffers, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (is_streamed) RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    RANKS_CHECK(rows_force(comm));
    uint64_t before = comm->queue.last_op;
    const struct tt_choice wanted = choice_of(cases[c].memory);
    for (int k = 0; k < 4; k++) {
      int kinds = cases[c].kinds[self->rank == 1];
      struct call call = call_in(&buffers, k < 2 ? kinds : BOTH & ~kinds, COUNT);
      RANKS_CHECK(call_run(&call, comm, stream) == tuttiSuccess);
      RANKS_CHECK(!stream || tuttiStreamSynchronize(stream) == tuttiSuccess);
      RANKS_CHECK(is_right(&call, self));
      RANKS_CHECK(tt_choices_same(tt_comm_choice(comm, TT_ALL_REDUCE, 4, 4 * COUNT), &wanted));
      RANKS_CHECK(tt_comm_memory(comm, TT_ALL_REDUCE, 4, 4 * COUNT) == cases[c].memory);
      RANKS_CHECK(comm->queue.last_op == before + (uint64_t)k + 2); /* one exchange, before the first one */
    }
  }
  struct call call = call_in(&buffers, BOTH, FEW);
  uint64_t before = comm->queue.last_op;
  RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess && is_right(&call, self));
  RANKS_CHECK(comm->queue.last_op == before + 1 && tt_comm_memory(comm, TT_ALL_REDUCE, 4, 4 * FEW) == TT_MEMORY_MALLOC);
  if (stream) tuttiStreamDestroy(stream);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_close(&buffers);
  return 0;
}

static void ranks_agree_on_the_kind_of_memory(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= 3; nranks++) assert_int_equal(ranks_run_processes(nranks, agrees_body, NULL, 60), 0);
  assert_int_equal(ranks_run_processes(3, agrees_body, (void *)1, 60), 0);
}

/* It holds without learning, too. */
static void first_calls_go_by_it_without_learning(void **state)
{
  (void)state;
  setenv("TUTTI_LEARN", "0", 1);
  assert_int_equal(ranks_run_processes(2, agrees_body, NULL, 60), 0);
  unsetenv("TUTTI_LEARN");
}

/* Ranks whose calls differ hear so although the exchange comes first. */
static int differs_body(const struct ranks *self)
{
  struct buffers buffers;
  tuttiComm_t comm;
  RANKS_CHECK(buffers_open(&buffers, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess && rows_force(comm));
  struct call call = call_in(&buffers, BOTH, self->rank ? COUNT : 10);
  RANKS_CHECK(call_run(&call, comm, NULL) == tuttiInvalidUsage);
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  buffers_close(&buffers);
  return 0;
}

static void calls_that_differ_are_told(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, differs_body, NULL, 60), 0);
}

/* ---- memory that peers do not read ---- */

/* A call of 16,000 bytes on the wire goes by the kind of memory that is `argument`, although all data are in memory of
 * tuttiMemAlloc. */
static int reads_body(const struct ranks *self)
{
  const enum tt_memory *memory = self->argument;
  struct buffers buffers;
  tuttiComm_t comm;
  RANKS_CHECK(buffers_open(&buffers, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess && rows_force(comm));
  size_t size = getenv("TUTTI_WIRE_TYPE") ? 2 : 4;
  size_t count = 4 * COUNT / size;
  RANKS_CHECK(tuttiAllReduce(buffers.tutti[0], buffers.tutti[1], count, tuttiFloat32, tuttiSum, comm, NULL) ==
              tuttiSuccess);
  RANKS_CHECK(comm->queue.last_op == 2); /* an exchange came first */
  RANKS_CHECK(tt_comm_memory(comm, TT_ALL_REDUCE, size, 4 * COUNT) == *memory);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_close(&buffers);
  return 0;
}

static void memory_that_peers_do_not_read_is_as_any(void **state)
{
  static const struct {
    const char *setting, *value;
    enum tt_memory memory;
  } cases[] = {{"TUTTI_SHM_DIRECT_BYTES", "16000", TT_MEMORY_TUTTI},
               {"TUTTI_SHM_DIRECT_BYTES", "16001", TT_MEMORY_MALLOC},
               {"TUTTI_WIRE_TYPE", "bfloat16", TT_MEMORY_MALLOC}};
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    enum tt_memory memory = cases[c].memory;
    setenv(cases[c].setting, cases[c].value, 1);
    assert_int_equal(ranks_run_processes(2, reads_body, &memory, 60), 0);
    unsetenv(cases[c].setting);
  }
}

/* ---- the cache ---- */

struct keeps {
  int first[2], later[2]; /* by rank: kinds of memory of the first call, and of those whose times count */
  int is_kept;
  enum tt_memory memory;
};

/* All shapes have the choices of both kinds of memory as arms. */
static void arms_force(tuttiComm_t comm)
{
  for (int memory = 0; memory < TT_MEMORIES; memory++) {
    struct tt_arms *arms = &comm->calls.table.arms[memory][tt_arms_row(TT_ALL_REDUCE)];
    for (int a = 0; a < 2; a++) arms->choices[a] = choice_of((enum tt_memory)a);
    arms->n = 2;
    for (int k = 0; k < TT_SIZE_CLASSES; k++) memcpy(arms->of[k], (uint8_t[TT_LEARN_ARMS]){1, 2}, TT_LEARN_ARMS);
  }
}

/* Learns up to the first exchange of times, as if it were settled with that. */
static int keeps_body(const struct ranks *self)
{
  const struct keeps *keeps = self->argument;
  struct buffers buffers;
  tuttiComm_t comm;
  RANKS_CHECK(buffers_open(&buffers, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  arms_force(comm);
  RANKS_CHECK(rows_force(comm));
  struct tt_learning *learning = comm->calls.learning;
  struct tt_learn_agreed *agreed = &learning->shapes[0].learn.agreed;
  for (int k = 0; k < 200 && agreed->state != TT_LEARN_RACE; k++) {
    struct call call = call_in(&buffers, k ? keeps->later[self->rank] : keeps->first[self->rank], COUNT);
    RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess && is_right(&call, self));
    for (size_t c = 0; !k && c < sizeof learning->cells / sizeof learning->cells[0][0][0]; c++)
      (&learning->cells[0][0][0])[c].quiet = 1;
  }
  RANKS_CHECK(agreed->state == TT_LEARN_RACE);
  agreed->state = TT_LEARN_SETTLED;
  agreed->reference_ns = 1000;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_close(&buffers);
  return 0;
}

static void what_other_memory_has_taught_is_not_kept(void **state)
{
  static const struct keeps cases[] = {{{0, 0}, {0, 0}, 1, TT_MEMORY_MALLOC},
                                       {{BOTH, BOTH}, {BOTH, BOTH}, 1, TT_MEMORY_TUTTI},
                                       {{BOTH, 0}, {BOTH, 0}, 1, TT_MEMORY_MALLOC},
                                       {{0, 0}, {BOTH, BOTH}, 0, TT_MEMORY_MALLOC},
                                       {{BOTH, BOTH}, {BOTH, 0}, 0, TT_MEMORY_MALLOC}};
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    char directory[] = "/tmp/tutti_learn_memory_XXXXXX", path[64];
    struct tt_settings settings;
    struct tt_cache cache;
    struct keeps keeps = cases[c];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/cache", directory);
    setenv("TUTTI_CACHE", path, 1);
    assert_int_equal(ranks_run_processes(2, keeps_body, &keeps, 60), 0);
    assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
    tt_cache_load(&cache, &settings);
    setenv("TUTTI_CACHE", "none", 1);
    assert_int_equal(cache.nlearnt, keeps.is_kept);
    if (keeps.is_kept) assert_int_equal(cache.learnt[0].learnt.memory, keeps.memory);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_agree_on_the_kind_of_memory),
      cmocka_unit_test(first_calls_go_by_it_without_learning),
      cmocka_unit_test(calls_that_differ_are_told),
      cmocka_unit_test(memory_that_peers_do_not_read_is_as_any),
      cmocka_unit_test(what_other_memory_has_taught_is_not_kept),
  };
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  setenv("TUTTI_CACHE", "none", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
