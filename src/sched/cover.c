/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of IN and OUT that a rank has. */
#include "sched/sched.h"

void tt_cover_range(const struct tt_shape *shape, int cover, int32_t *start, int32_t *end)
{
  int is_there = cover == TT_COVER_ALL || (cover == TT_COVER_ROOT && shape->rank == shape->root);
  *start = 0;
  *end = is_there ? tt_shape_blocks(shape) : 0;
  if (cover != TT_COVER_OWN) return;
  *start = shape->rank * shape->nblocks;
  *end = *start + shape->nblocks;
}
