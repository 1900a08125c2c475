/* SPDX-License-Identifier: BSD-3-Clause */
/* Unequal shares. A segment has the same part of every share, up to one element: a schedule does not see how long its
 * blocks are, so nothing but addresses and lengths depends on it. */
#include "exec/private.h"

void tt_shares_free(struct tt_run *run)
{
  for (int s = 0; s < TT_MAX_LANES; s++) {
    tt_free(run->lanes[s].cuts.starts);
    run->lanes[s].cuts = (struct cuts){NULL, NULL, NULL, NULL};
  }
  run->cut_room = 0;
}

tuttiResult_t tt_shares_bind(struct tt_run *run)
{
  const struct tt_plan *plan = run->plan;
  size_t nshares = (size_t)plan->nshares, nslots = (size_t)plan->schedule.nslots, room = 3 * nshares + 1 + nslots;
  if (plan->schedule.shape.nblocks != 1)
    return tt_fail(tuttiInternalError, "a plan of %d blocks a share does not serve unequal shares",
                   (int)plan->schedule.shape.nblocks);
  if (room > run->cut_room) tt_shares_free(run);
  else room = run->cut_room;
  run->cut_room = room;
  for (int s = 0; s < run->nlanes; s++) {
    struct cuts *cuts = &run->lanes[s].cuts;
    if (!cuts->starts) cuts->starts = tt_alloc(room, sizeof *cuts->starts);
    if (!cuts->starts) return tt_fail(tuttiSystemError, "out of memory for an operation with %zu counts", nshares);
    cuts->skips = cuts->starts + nshares + 1;
    cuts->homes = cuts->skips + nshares;
    cuts->slots = cuts->homes + nshares;
  }
  return tuttiSuccess;
}

static void slots_cut(struct tt_run *run, const struct cuts *cuts)
{
  const struct tt_plan *plan = run->plan;
  size_t longest = run->slot_bytes / run->element, at = 0;
  for (int32_t slot = 0; slot < plan->schedule.nslots; slot++) {
    int32_t share = plan->slot_share ? plan->slot_share[slot] : -1;
    cuts->slots[slot] = at;
    at += share < 0 ? longest : cuts->starts[share + 1] - cuts->starts[share];
  }
}

/* A segment belongs to a piece, and has its part of that piece's part of each share. */
int tt_shares_cut(struct tt_run *run, struct lane *lane)
{
  const struct cuts *cuts = &lane->cuts;
  const struct tt_trigger *trigger = run->binding->trigger;
  uint32_t npieces = run->cut.npieces, each = (uint32_t)(run->nsegments / npieces);
  uint32_t piece = (uint32_t)(lane->segment / each), segment = (uint32_t)(lane->segment % each);
  char *slot = NULL;
  if (trigger && trigger->slots) {
    if (!tt_trigger_is_open(trigger, piece)) return 0;
    slot = trigger->slots + piece % trigger->nslots * trigger->slot_bytes;
  }
  lane->in = slot && trigger->in_share >= 0 ? slot : NULL;
  lane->out = slot && trigger->out_share >= 0 ? slot : NULL;
  size_t at = 0, home = 0;
  for (int32_t share = 0; share < run->plan->nshares; share++) {
    size_t first, within, part = tt_piece_part(run->binding->shares->counts[share], piece, npieces, &first);
    cuts->starts[share] = at;
    at += tt_piece_part(part, segment, each, &within);
    cuts->skips[share] = first + within;
    cuts->homes[share] = home + within;
    home += part;
  }
  cuts->starts[run->plan->nshares] = at;
  slots_cut(run, cuts);
  int32_t own = run->plan->schedule.shape.rank;
  lane->start = cuts->skips[own];
  lane->count = cuts->starts[own + 1] - cuts->starts[own];
  return 1;
}

char *tt_shares_result(const struct tt_run *run, const struct lane *lane)
{
  size_t size = tt_type_size(run->binding->call.type);
  if (!lane->out) return (char *)run->binding->out + lane->start * size;
  return lane->out + lane->cuts.homes[run->plan->schedule.shape.rank] * size;
}

/* The share that holds element `at` of the line of all parts. */
static int32_t share_at(const struct tt_run *run, const struct cuts *cuts, size_t at)
{
  int32_t low = 0, high = run->plan->nshares; /* starts[low] <= at < starts[high] */
  while (high - low > 1) {
    int32_t middle = low + (high - low) / 2;
    if (cuts->starts[middle] <= at) low = middle;
    else high = middle;
  }
  return low;
}

/* Elements from the start of the part of a share to the end of the last part that follows it without a gap in memory,
 * as far as they are wanted. */
static size_t together(const struct tt_run *run, const struct cuts *cuts, int32_t share, size_t wanted)
{
  const struct tt_shares *shares = run->binding->shares;
  int32_t end = share + 1;
  if (run->nsegments > 1) return cuts->starts[end] - cuts->starts[share];
  while (end < run->plan->nshares && cuts->starts[end] - cuts->starts[share] < wanted &&
         shares->starts[end] == shares->starts[end - 1] + shares->counts[end - 1])
    end++;
  return cuts->starts[end] - cuts->starts[share];
}

char *tt_shares_look(const struct tt_run *run, const struct lane *lane, struct tt_operand operand, size_t done,
                     size_t *n)
{
  const struct cuts *cuts = &lane->cuts;
  const struct tt_kind *kind = &tt_kinds[run->plan->schedule.shape.collective];
  size_t element = run->element;
  if (operand.place == TT_SCRATCH) return lane->scratch + cuts->slots[operand.at] * element + done;
  int is_in = operand.place == TT_IN, is_own = (is_in ? kind->in : kind->out) == TT_COVER_OWN;
  size_t at = cuts->starts[operand.at] * element + done, total = cuts->starts[run->plan->nshares] * element;
  if (at >= total) at -= total;
  int32_t share = share_at(run, cuts, at / element);
  size_t within = at - cuts->starts[share] * element, wanted = (within + *n + element - 1) / element;
  size_t left = (is_own ? lane->count : together(run, cuts, share, wanted)) * element - within;
  if (left < *n) *n = left;
  char *base = is_in ? lane->in : lane->out;
  size_t home = base ? cuts->homes[share] : (is_own ? 0 : run->binding->shares->starts[share]) + cuts->skips[share];
  if (!base) base = is_in ? (char *)(uintptr_t)run->in : run->binding->out;
  return base + ((home * element + within) << run->numbers.is_wide);
}
