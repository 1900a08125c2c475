/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of memory: ranks agree on it before the first call of a shape, and go by the rows for memory of
 * tuttiMemAlloc only if the data of all of them are in it.
 * Labels: processes. */
#include "learn_calls.h"

#include <stdio.h>
#include <string.h>

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
    if (!buffers->malloced[k] || tuttiMemAlloc(&data, COUNT_MOST * sizeof(int32_t)) != tuttiSuccess) return 0;
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_agree_on_the_kind_of_memory),
      cmocka_unit_test(first_calls_go_by_it_without_learning),
      cmocka_unit_test(calls_that_differ_are_told),
  };
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  setenv("TUTTI_CACHE", "none", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
