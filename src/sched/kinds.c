/* SPDX-License-Identifier: BSD-3-Clause */
/* The properties of the collectives: the table in the head of sched.h. */
#include <ctype.h>

#include "sched/sched.h"

const struct tt_kind tt_kinds[TT_COLLECTIVES] = {
    [TT_ALL_REDUCE] = {.name = "all_reduce", .in = TT_COVER_ALL, .out = TT_COVER_ALL, .reduces = 1},
    [TT_REDUCE] = {.name = "reduce", .in = TT_COVER_ALL, .out = TT_COVER_ROOT, .reduces = 1, .has_root = 1},
    [TT_BROADCAST] = {.name = "broadcast", .in = TT_COVER_ROOT, .out = TT_COVER_ALL, .has_root = 1},
    [TT_REDUCE_SCATTER] =
        {.name = "reduce_scatter", .in = TT_COVER_ALL, .out = TT_COVER_OWN, .is_shared = 1, .reduces = 1},
    [TT_ALL_GATHER] = {.name = "all_gather", .in = TT_COVER_OWN, .out = TT_COVER_ALL, .is_shared = 1},
    [TT_ALL_TO_ALL] =
        {.name = "all_to_all", .in = TT_COVER_ALL, .out = TT_COVER_ALL, .is_shared = 1, .is_apart = 1},
    [TT_GATHER] = {.name = "gather", .in = TT_COVER_OWN, .out = TT_COVER_ROOT, .is_shared = 1, .has_root = 1},
    [TT_SCATTER] = {.name = "scatter", .in = TT_COVER_ROOT, .out = TT_COVER_OWN, .is_shared = 1, .has_root = 1},
};

int tt_same_name(const char *a, const char *b)
{
  for (;; a++, b++) {
    while (*a == '_' || *a == '-') a++;
    while (*b == '_' || *b == '-') b++;
    if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return 0;
    if (!*a) return 1;
  }
}

int tt_kind_find(const char *name)
{
  for (int kind = 0; kind < TT_COLLECTIVES; kind++)
    if (tt_kinds[kind].name && tt_same_name(tt_kinds[kind].name, name)) return kind;
  return TT_NO_COLLECTIVE;
}

void tt_cover_range(const struct tt_shape *shape, int cover, int32_t *start, int32_t *end)
{
  int is_there = cover == TT_COVER_ALL || (cover == TT_COVER_ROOT && shape->rank == shape->root);
  *start = 0;
  *end = is_there ? tt_shape_blocks(shape) : 0;
  if (cover != TT_COVER_OWN) return;
  *start = shape->rank * shape->nblocks;
  *end = *start + shape->nblocks;
}
