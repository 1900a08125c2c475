/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the collectives that are learnt, whose results are known. */
#ifndef LEARN_CALLS_H
#define LEARN_CALLS_H

#include "ranks.h"

#include <stdlib.h>

#include "comm/private.h"

#define RANKS_MOST 4
#define COUNT_MOST 4096

/* ---- calls ---- */

/* Element i of a rank's input. */
static inline int32_t element(int rank, size_t i)
{
  return (int32_t)(i % 1000) * (rank + 1) + rank;
}

/* The right result: element i on this rank. count: of a share. */
static inline int32_t result_at(int collective, const struct ranks *self, size_t count, size_t i)
{
  size_t share = i / count, within = i % count, here = (size_t)self->rank;
  int32_t sum = 0;
  if (collective == TT_ALL_GATHER) return element((int)share, within);
  if (collective == TT_ALL_TO_ALL) return element((int)share, here * count + within);
  for (int r = 0; r < self->nranks; r++) sum += element(r, collective == TT_ALL_REDUCE ? i : here * count + i);
  return sum;
}

/* One call: count elements in a share. */
struct call {
  int collective;
  size_t count;
  int32_t *in, *out;
};

static inline tuttiResult_t call_run(const struct call *call, tuttiComm_t comm, tuttiStream_t stream)
{
  const int32_t *in = call->in;
  switch (call->collective) {
  case TT_ALL_REDUCE: return tuttiAllReduce(in, call->out, call->count, tuttiInt32, tuttiSum, comm, stream);
  case TT_REDUCE_SCATTER: return tuttiReduceScatter(in, call->out, call->count, tuttiInt32, tuttiSum, comm, stream);
  case TT_ALL_GATHER: return tuttiAllGather(in, call->out, call->count, tuttiInt32, comm, stream);
  default: return tuttiAlltoAll(in, call->out, call->count, tuttiInt32, comm, stream);
  }
}

static inline size_t out_len(const struct call *call, int nranks)
{
  int has_all = call->collective == TT_ALL_GATHER || call->collective == TT_ALL_TO_ALL;
  return call->count * (size_t)(has_all ? nranks : 1);
}

static inline int is_right(const struct call *call, const struct ranks *self)
{
  for (size_t i = 0; i < out_len(call, self->nranks); i++)
    if (call->out[i] != result_at(call->collective, self, call->count, i)) return 0;
  return 1;
}

static inline int buffers_make(struct call *call, int rank)
{
  call->in = malloc(RANKS_MOST * COUNT_MOST * sizeof *call->in);
  call->out = malloc(RANKS_MOST * COUNT_MOST * sizeof *call->out);
  for (size_t i = 0; call->in && i < RANKS_MOST * COUNT_MOST; i++) call->in[i] = element(rank, i);
  return call->in && call->out;
}

static inline void buffers_free(struct call *call)
{
  free(call->in);
  free(call->out);
}

/* ---- when it begins ---- */

#define FIRST_CALLS 1000 /* of a shape, before the first exchange */

/* Shapes are learnt from their 41st call on, the same on all ranks: the first exchange comes at the 100th. None is made
 * before that to agree on the kind of memory. */
static inline void learn_soon(tuttiComm_t comm)
{
  struct tt_learn_cell *cells = &comm->calls.learning->cells[0][0][0];
  for (int k = 0; k < TT_ARM_ROWS * TT_WIDTHS * TT_SIZE_CLASSES; k++) {
    cells[k].quiet = 41;
    cells[k].is_agreed = 1;
  }
}

/* Exchanges before the first call of a shape: 1 if there is a choice by the kind of memory. */
static inline uint64_t exchanges_first(tuttiComm_t comm, int collective, uint64_t bytes)
{
  return bytes > TT_MEMORY_ALIKE && tt_table_has_tutti(&comm->calls.table, collective);
}

#endif
