/* SPDX-License-Identifier: BSD-3-Clause */
#include "fusion/round_private.h"

#include <string.h>

#include "fusion/sequence_private.h"

#define CALL UINT64_MAX /* in place of a phase */

tuttiResult_t tt_round_make(struct tt_fusion_round *round, int32_t nranks, int32_t rank, size_t nwords)
{
  *round = (struct tt_fusion_round){.nranks = nranks, .rank = rank, .nwords = nwords};
  while ((nranks - 1) >> round->nphases) round->nphases++;
  round->sum = tt_alloc(nwords, sizeof *round->sum);
  round->came = tt_alloc((size_t)round->nphases * nwords, sizeof *round->came);
  if (round->sum && round->came) return tuttiSuccess;
  tt_round_destroy(round);
  *round = (struct tt_fusion_round){.nranks = nranks};
  return tt_fail(tuttiSystemError, "out of memory for the order of messages");
}

void tt_round_destroy(struct tt_fusion_round *round)
{
  tt_free(round->sum);
  tt_free(round->came);
}

int32_t tt_round_to(const struct tt_fusion_round *round, int n)
{
  return (int32_t)((round->rank + ((int64_t)1 << n)) % round->nranks);
}

int32_t tt_round_from(const struct tt_fusion_round *round, int n)
{
  return (int32_t)((round->rank + round->nranks - ((int64_t)1 << n)) % round->nranks);
}

void tt_round_join(struct tt_fusion_round *round, uint64_t step, const uint64_t *part)
{
  round->number++;
  round->step = step;
  round->is_open = 1;
  round->ncalls = 1; /* phase 0 is a call, too */
  round->nsent = round->nadded = 0;
  round->called_step = 0;
  memcpy(round->sum, part, round->nwords * sizeof *part);
}

/* Adds the parts that have arrived for phases below `end`, in order, up to the first that is missing. */
static void came_add(struct tt_fusion_round *round, int end)
{
  while (round->nadded < end && round->has[round->nadded]) {
    tt_sequence_add(round->sum, round->came + (size_t)round->nadded * round->nwords, round->nwords);
    round->has[round->nadded++] = 0;
  }
}

int tt_round_send(struct tt_fusion_round *round, uint64_t *frame, int *n)
{
  if (!round->is_open || round->nsent == round->nphases) return 0;
  came_add(round, round->nsent);
  int calls = round->nsent > 0 && round->ncalls < round->nphases;
  if (!calls && round->nadded < round->nsent) return 0;
  *n = calls ? round->ncalls++ : round->nsent++;
  frame[TT_ROUND_NUMBER] = round->number;
  frame[TT_ROUND_PHASE] = calls ? CALL : (uint64_t)*n;
  frame[TT_ROUND_STEP] = round->step;
  memcpy(frame + TT_ROUND_PART, round->sum, round->nwords * sizeof *frame);
  return 1;
}

/* 1: rank tt_round_from(round, n) cannot have sent this frame. */
static int is_wrong(const struct tt_fusion_round *round, int n, const uint64_t *frame)
{
  uint64_t number = frame[TT_ROUND_NUMBER], phase = frame[TT_ROUND_PHASE], step = frame[TT_ROUND_STEP];
  if (number > round->number + 1) return 1;
  if (number > round->number && (!step || (round->called_step && step != round->called_step))) return 1;
  if (phase == CALL) return 0;
  if (phase != (uint64_t)n || round->has[n] || number < round->number) return 1;
  return number == round->number && (!round->is_open || n < round->nadded || step != round->step);
}

tuttiResult_t tt_round_take(struct tt_fusion_round *round, int n, const uint64_t *frame)
{
  uint64_t number = frame[TT_ROUND_NUMBER], phase = frame[TT_ROUND_PHASE], step = frame[TT_ROUND_STEP];
  if (is_wrong(round, n, frame))
    return tt_fail(tuttiInternalError, "rank %d sent phase %lld of round %llu, step %llu, where round %llu, step %llu, "
                   "was the last one that was joined", (int)tt_round_from(round, n), (long long)phase,
                   (unsigned long long)number, (unsigned long long)step, (unsigned long long)round->number,
                   (unsigned long long)round->step);
  if (number > round->number) round->called_step = step;
  if (phase == CALL) return tuttiSuccess;
  memcpy(round->came + (size_t)n * round->nwords, frame + TT_ROUND_PART, round->nwords * sizeof *frame);
  round->has[n] = 1;
  return tuttiSuccess;
}

int tt_round_ends(struct tt_fusion_round *round)
{
  if (!round->is_open || round->nsent < round->nphases) return 0;
  came_add(round, round->nphases);
  if (round->nadded < round->nphases) return 0;
  round->is_open = 0;
  return 1;
}
