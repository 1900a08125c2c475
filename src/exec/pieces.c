/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of a long call, in an exec whose calls may have to wait for devices piece by piece. All ranks cut alike,
 * whether theirs waits or not. */
#include <string.h>

#include "exec/private.h"

#define ALIGNED ((size_t)64) /* bytes; so parts of shares begin there, if they are not tiny */

size_t tt_piece_count(const struct tt_call *call, int nranks, size_t bytes)
{
  const struct tt_kind *kind = &tt_kinds[call->collective];
  size_t shares = (kind->is_shared ? (size_t)nranks : 1) << kind->is_apart; /* apart: IN and OUT */
  size_t part = bytes / shares;
  if (part >= ALIGNED) part &= ~(ALIGNED - 1);
  return part / tt_type_size(call->type);
}

uint32_t tt_pieces_of_shares(const struct tt_call *call, const struct tt_shares *shares, int nranks, size_t bytes)
{
  size_t room = bytes / tt_type_size(call->type), total = 0;
  for (int r = 0; r < nranks; r++) total += shares->counts[r];
  if (total <= room) return 1;
  if (room <= (size_t)nranks) return 0;
  size_t each = room - (size_t)nranks; /* parts differ by an element */
  return (uint32_t)((total + each - 1) / each);
}

static tuttiResult_t no_room(const struct tt_run *run)
{
  return tt_fail(tuttiInternalError, "a piece of %zu bytes has no room for an element from each of %d ranks",
                 run->exec->piece_bytes, run->exec->nranks);
}

/* All pieces have equally many segments. */
static tuttiResult_t shares_cut(struct tt_run *run)
{
  const struct tt_binding *binding = run->binding;
  uint32_t n = tt_pieces_of_shares(&binding->call, binding->shares, run->exec->nranks, run->exec->piece_bytes);
  if (!n) return no_room(run);
  run->cut = (struct cut){.each = (run->nsegments + n - 1) / n, .npieces = n};
  run->nsegments = run->cut.each * n;
  return tuttiSuccess;
}

tuttiResult_t tt_pieces_cut(struct tt_run *run)
{
  if (run->binding->shares) return shares_cut(run);
  const struct tt_call *call = &run->binding->call;
  struct cut *cut = &run->cut;
  size_t count = call->count, piece = tt_piece_count(call, run->exec->nranks, run->exec->piece_bytes);
  if (!piece) return no_room(run);
  *cut = (struct cut){.count = count, .each = run->nsegments, .npieces = 1};
  if (count <= piece) return tuttiSuccess;
  size_t most = (piece + run->segment_count - 1) / run->segment_count;
  run->segment_count = (piece + most - 1) / most;
  cut->count = piece;
  cut->each = (piece + run->segment_count - 1) / run->segment_count;
  cut->npieces = (uint32_t)((count + piece - 1) / piece);
  run->nsegments = count / piece * cut->each + (count % piece + run->segment_count - 1) / run->segment_count;
  return tuttiSuccess;
}

/* Where a side begins: its shares lie one after the other in the slot, or where the call has them. */
static char *side_find(const struct tt_run *run, char *slot, const void *memory, size_t within, size_t start)
{
  size_t wide = run->numbers.is_wide;
  if (slot) return slot + ((within * run->element) << wide);
  return memory ? (char *)(uintptr_t)memory + ((start * run->element) << wide) : NULL;
}

int tt_pieces_bind(struct tt_run *run, struct lane *lane)
{
  const struct cut *cut = &run->cut;
  const struct tt_trigger *trigger = run->binding->trigger;
  size_t piece = lane->segment / cut->each, within = lane->segment % cut->each * run->segment_count;
  size_t before = piece * cut->count, len = run->binding->call.count - before;
  int has_slots = trigger && trigger->slots;
  if (has_slots && !tt_trigger_is_open(trigger, (uint32_t)piece)) return 0;
  if (len > cut->count) len = cut->count;
  lane->start = before + within;
  lane->count = len - within < run->segment_count ? len - within : run->segment_count;
  size_t part = (len * run->element) << run->numbers.is_wide;
  char *slot = has_slots ? trigger->slots + piece % trigger->nslots * trigger->slot_bytes : NULL;
  char *in = has_slots && trigger->in_share >= 0 ? slot + (size_t)trigger->in_share * part : NULL;
  char *out = has_slots && trigger->out_share >= 0 ? slot + trigger->out_at + (size_t)trigger->out_share * part : NULL;
  lane->in = side_find(run, in, run->in, within, lane->start);
  lane->out = side_find(run, out, run->binding->out, within, lane->start);
  lane->in_stride = in ? part : run->share_bytes;
  lane->out_stride = out ? part : run->share_bytes;
  return 1;
}

void tt_pieces_end_all(const struct tt_run *run)
{
  const struct tt_trigger *trigger = run->binding->trigger;
  if (trigger->npieces) tt_trigger_tell(trigger, trigger->npieces - 1);
}

/* Lanes end segments in any order; pieces are told of in theirs, the last one with the call. */
void tt_pieces_end(struct tt_run *run, size_t segment)
{
  const struct tt_trigger *trigger = run->binding->trigger;
  struct cut *cut = &run->cut;
  if (!trigger->slots) return;
  cut->ended[segment / cut->each % TT_PIECES]++;
  while (cut->done + 1 < cut->npieces) {
    size_t before = cut->done * cut->each, all = cut->each;
    if (before + all > run->nsegments) all = run->nsegments - before;
    uint32_t *ended = &cut->ended[cut->done % TT_PIECES];
    if (*ended < all) return;
    *ended = 0;
    tt_trigger_tell(trigger, cut->done++);
  }
}
