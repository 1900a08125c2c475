/* SPDX-License-Identifier: BSD-3-Clause */
/* Renumbers ranks, but not blocks; so it is for collectives of one share, whose blocks belong to no rank. */
#include "sched/pass_private.h"

static int is_permutation(const int32_t *order, int32_t n, uint8_t *seen)
{
  for (int32_t p = 0; p < n; p++) {
    if (order[p] < 0 || order[p] >= n || seen[order[p]]) return 0;
    seen[order[p]] = 1;
  }
  return 1;
}

static tuttiResult_t order_check(const struct tt_shape *shape, const int32_t *order)
{
  if (tt_kinds[shape->collective].is_shared)
    return tt_fail(tuttiInternalError, "the ranks of %s cannot be renumbered: each has a share of its own",
                   tt_kinds[shape->collective].name);
  uint8_t *seen = tt_alloc((size_t)shape->nranks, 1);
  if (!seen) return tt_fail(tuttiSystemError, "no memory to renumber %d ranks", (int)shape->nranks);
  int is_good = is_permutation(order, shape->nranks, seen);
  tt_free(seen);
  if (is_good) return tuttiSuccess;
  return tt_fail(tuttiInternalError, "the order of %d ranks does not name each of them once", (int)shape->nranks);
}

void tt_pass_order(struct tt_schedule *schedule, const int32_t *order)
{
  struct tt_shape *shape = &schedule->shape;
  if (schedule->error) return;
  schedule->error = order_check(shape, order);
  if (schedule->error) return;
  for (int32_t k = 0; k < schedule->npeers; k++) schedule->peers[k] = order[schedule->peers[k]];
  for (int32_t k = 0; k < schedule->noperands; k++)
    if (schedule->operands[k].place == TT_MESSAGE) schedule->operands[k].at = order[schedule->operands[k].at];
  shape->rank = order[shape->rank];
  if (shape->root >= 0) shape->root = order[shape->root];
  shape->groups = NULL; /* they hold the old numbers */
}
