/* SPDX-License-Identifier: BSD-3-Clause */
/* A run: starts the steps of a plan when they may start, segment after segment, on several lanes side by side. */
#include <string.h>

#include "base/copy.h"
#include "exec/private.h"
#include "memory/memory.h"

#define IN_COPY_KEPT_BYTES ((size_t)64 << 20) /* a larger copy of IN is not kept for the next call */

tuttiResult_t tt_run_create(struct tt_run **out, struct tt_exec *exec)
{
  struct tt_run *run = tt_alloc(1, sizeof *run);
  if (!run) return tt_fail(tuttiSystemError, "out of memory for an operation");
  run->exec = exec;
  *out = run;
  return tuttiSuccess;
}

static void scratch_free(struct tt_run *run)
{
  for (int s = 0; s < TT_MAX_LANES; s++) {
    struct lane *lane = &run->lanes[s];
    tt_free(lane->scratch);
    tt_free(lane->bounce);
    lane->scratch = NULL;
    lane->bounce = NULL;
  }
  run->scratch_room = 0;
}

static void in_copy_free(struct tt_run *run)
{
  if (run->in_copy) tt_heap_free(run->in_copy);
  run->in_copy = NULL;
  run->in_copy_room = 0;
}

size_t tt_run_held(const struct tt_run *run)
{
  size_t bytes = run->in_copy_room;
  for (int s = 0; s < TT_MAX_LANES; s++) {
    if (run->lanes[s].scratch) bytes += run->scratch_room;
    if (run->lanes[s].bounce) bytes += (size_t)TT_WINDOW * BOUNCE_BYTES;
  }
  return bytes;
}

void tt_run_trim(struct tt_run *run)
{
  scratch_free(run);
  in_copy_free(run);
}

void tt_run_destroy(struct tt_run *run)
{
  if (!run) return;
  scratch_free(run);
  in_copy_free(run);
  tt_shares_free(run);
  tt_pairs_destroy(run->pairs);
  for (int s = 0; s < TT_MAX_LANES; s++) {
    tt_free(run->lanes[s].links);
    tt_free(run->lanes[s].sent);
  }
  tt_free(run);
}

/* Allocates scratch and bounce buffers. They are kept from run to run and grow only for a larger plan. */
static tuttiResult_t scratch_ensure(struct tt_run *run, size_t len)
{
  if (run->scratch_room < len) scratch_free(run);
  size_t room = len > run->scratch_room ? len : run->scratch_room; /* the same for all lanes */
  for (int s = 0; s < run->nlanes; s++) {
    struct lane *lane = &run->lanes[s];
    if (len && !lane->scratch) lane->scratch = tt_alloc(1, room);
    int stages = run->numbers.converts;
    if (stages && !lane->bounce) lane->bounce = tt_alloc(TT_WINDOW, BOUNCE_BYTES);
    if ((len && !lane->scratch) || (stages && !lane->bounce))
      return tt_fail(tuttiSystemError, "out of memory: %zu bytes of scratch", len);
  }
  run->scratch_room = room;
  return tuttiSuccess;
}

/* Allocates the arrays of each lane whose length depends on the plan. They are kept and grow likewise. */
static tuttiResult_t lanes_ensure(struct tt_run *run)
{
  const struct tt_plan *plan = run->plan;
  int grow = plan->nlinks > run->link_room || plan->schedule.npeers > run->peer_room;
  if (plan->nlinks > run->link_room) run->link_room = plan->nlinks;
  if (plan->schedule.npeers > run->peer_room) run->peer_room = plan->schedule.npeers;
  for (int s = 0; s < run->nlanes; s++) {
    struct lane *lane = &run->lanes[s];
    if (!grow && lane->links) continue;
    if (run->opened > s) run->opened = s; /* its links must be looked up again */
    tt_free(lane->links);
    tt_free(lane->sent);
    lane->links = tt_alloc((size_t)run->link_room, sizeof *lane->links);
    lane->sent = tt_alloc((size_t)run->peer_room, sizeof *lane->sent);
    if (!lane->links || !lane->sent) {
      run->link_room = run->peer_room = run->opened = 0;
      return tt_fail(tuttiSystemError, "out of memory for an operation over %d links", plan->nlinks);
    }
  }
  if (grow) /* the other lanes get theirs anew when a run needs them */
    for (int s = run->nlanes; s < TT_MAX_LANES; s++) {
      tt_free(run->lanes[s].links);
      run->lanes[s].links = NULL;
      tt_free(run->lanes[s].sent);
      run->lanes[s].sent = NULL;
    }
  return tuttiSuccess;
}

/* Cuts the lane's segment out of a call in one piece, and finds it in memory. */
static void segment_find(struct tt_run *run, struct lane *lane)
{
  size_t total = run->binding->call.count, at;
  lane->start = lane->segment * run->segment_count;
  lane->count = total - lane->start < run->segment_count ? total - lane->start : run->segment_count;
  at = (lane->start * run->element) << run->numbers.is_wide;
  lane->in = run->in ? (char *)(uintptr_t)run->in + at : NULL;
  lane->out = run->binding->out ? (char *)run->binding->out + at : NULL;
  lane->in_stride = lane->out_stride = run->share_bytes;
}

/* Binds a lane to its segment, unless that waits. Returns 0 if no segment is left. */
static int lane_bind(struct tt_run *run, struct lane *lane)
{
  if (lane->segment >= run->nsegments) return 0;
  lane->head = 0;
  lane->active = lane->finished = 0;
  if (run->binding->shares) {
    lane->waits = !tt_shares_cut(run, lane);
    return 1;
  }
  if (run->cut.npieces == 1 && !run->binding->trigger) segment_find(run, lane);
  else {
    lane->waits = !tt_pieces_bind(run, lane);
    if (lane->waits) return 1;
  }
  size_t nblocks = (size_t)run->plan->schedule.shape.nblocks;
  lane->base = nblocks == 1 ? lane->count : lane->count / nblocks; /* a division costs short messages too much */
  lane->more = lane->count - lane->base * nblocks;
  return 1;
}

/* Copies IN aside: an all-to-all in place would overwrite data that is still to be sent. To memory that ranks of this
 * host read where it lies, so that the shares are copied no more often than out of place. */
static tuttiResult_t in_copy_make(struct tt_run *run)
{
  size_t len = run->share_bytes * (size_t)run->plan->nshares;
  void *made = run->in_copy;
  if (run->in_copy_room < len) {
    in_copy_free(run);
    if (tt_heap_alloc(&made, len) != tuttiSuccess)
      return tt_fail(tuttiSystemError, "out of memory: %zu bytes for an all-to-all in place: pass another recvbuff",
                     len);
    run->in_copy_room = len;
  }
  run->in = run->in_copy = made;
  tt_memcpy(made, run->binding->in, len);
  return tuttiSuccess;
}

/* Returns the elements of the longest share. */
static size_t longest_share(const struct tt_run *run)
{
  const struct tt_shares *shares = run->binding->shares;
  if (!shares) return run->binding->call.count;
  size_t longest = 0;
  for (int32_t share = 0; share < run->plan->nshares; share++)
    if (shares->counts[share] > longest) longest = shares->counts[share];
  return longest;
}

/* Computes the length and number of segments, and the length of a scratch slot. A short vector, which is one segment,
 * needs no division. */
static tuttiResult_t cut_segments(struct tt_run *run)
{
  tuttiResult_t result = tuttiSuccess;
  size_t nblocks = (size_t)run->plan->schedule.shape.nblocks, count = longest_share(run);
  size_t block_count = run->binding->block_bytes >> __builtin_ctzll(run->element); /* a power of two */
  run->segment_count = (block_count ? block_count : 1) * nblocks;
  run->nsegments = count != 0;
  if (count > run->segment_count) run->nsegments = (count + run->segment_count - 1) / run->segment_count;
  run->cut.npieces = 1;
  if (run->exec->piece_bytes) result = tt_pieces_cut(run);
  size_t longest = count < run->segment_count ? count : run->segment_count;
  size_t slot = nblocks == 1 ? longest : (longest + nblocks - 1) / nblocks;
  run->slot_bytes = (slot * run->element + 63) & ~(size_t)63;
  return result;
}

tuttiResult_t tt_run_start(struct tt_run *run, const struct tt_plan *plan, const struct tt_binding *binding)
{
  int known = run->plan == plan; /* 1: its links are open, on the lanes that were in use */
  run->plan = plan;
  run->binding = binding;
  run->head.word = tt_word_after(tt_call_word(&run->binding->call), run->history);
  run->head.call = &run->binding->call;
  tuttiResult_t result = tt_numbers_bind(run);
  if (result != tuttiSuccess) return result;
  run->in = binding->in;
  run->broken = NULL;
  result = cut_segments(run);
  if (result != tuttiSuccess) return result;

  if (plan->nchannels > run->exec->lanes)
    return tt_fail(tuttiInvalidUsage, "the plan needs %d channels: set TUTTI_LANES to at least that (it is %d)",
                   plan->nchannels, run->exec->lanes);
  int lanes = run->exec->lanes / plan->nchannels;
  run->nlanes = run->nsegments < (size_t)lanes ? (int)run->nsegments : lanes;
  result = lanes_ensure(run);
  if (result == tuttiSuccess && binding->shares) result = tt_shares_bind(run);
  if (result == tuttiSuccess) result = scratch_ensure(run, (size_t)plan->schedule.nslots * run->slot_bytes);
  if (result != tuttiSuccess) return result;

  if (!known) run->opened = 0;
  run->state = run->nlanes <= run->opened ? RUN_MOVING : RUN_OPENING;
  int spoils = tt_kinds[binding->call.collective].is_apart && binding->in == binding->out && run->nsegments;
  if (spoils && !(binding->trigger && binding->trigger->slots)) result = in_copy_make(run);
  if (result != tuttiSuccess) return result;
  for (int s = 0; s < run->nlanes; s++) {
    run->lanes[s].segment = (size_t)s;
    run->lanes[s].waits = 0;
    lane_bind(run, &run->lanes[s]);
  }
  run->busy = run->nlanes;
  tt_watch_publish(run->exec->watch, &run->binding->call);
  return tuttiSuccess;
}

/* Opens the missing links of all lanes in use. */
static tuttiResult_t links_open(struct tt_run *run)
{
  const struct tt_plan *plan = run->plan;
  tuttiResult_t worst = tuttiSuccess;
  for (int s = 0; s < run->nlanes; s++)
    for (int32_t l = 0; l < plan->nlinks; l++) {
      int lane = s * plan->nchannels + plan->links[l].channel;
      tuttiResult_t result = tt_exec_link(run->exec, plan->links[l].peer, lane, &run->lanes[s].links[l]);
      if (result == tuttiInProgress) worst = result; /* go on: all of them open side by side */
      if (result != tuttiSuccess && result != tuttiInProgress)
        return tt_exec_refused(run->exec, result, plan->links[l].peer, run->binding->call.op);
    }
  if (worst != tuttiSuccess) return worst;
  run->opened = run->nlanes;
  if (run->nlanes) tt_quick_links(plan, run->lanes[0].links, run->exec->piece_bytes);
  return tuttiSuccess;
}

/* Starts all steps that may start now. Returns their number. */
static int steps_start(struct tt_run *run, struct lane *lane)
{
  const struct tt_plan *plan = run->plan;
  const struct tt_schedule *schedule = &plan->schedule;
  int started = 0;
  uint64_t past = 0; /* bit k: step i - 1 - k is unfinished */
  int32_t end = lane->head + TT_WINDOW < schedule->nsteps ? lane->head + TT_WINDOW : schedule->nsteps;
  for (int32_t i = lane->head; i < end; i++) {
    uint64_t bit = (uint64_t)1 << (i - lane->head);
    if (!((lane->active | lane->finished) & bit) && (plan->steps[i].wait & past) == 0) {
      size_t bytes = step_bytes(run, lane, &schedule->steps[i]);
      if (bytes) tt_step_begin(run, lane, i, bytes);
      lane->active |= bytes ? bit : 0;
      lane->finished |= bytes ? 0 : bit;
      started++;
    }
    past = past << 1 | !(lane->finished & bit);
  }
  return started;
}

/* A short call has one lane. The links of that lane are open, because the call began on them. */
tuttiResult_t tt_run_take_up(struct tt_run *run, const struct tt_plan *plan, const struct tt_binding *binding,
                             const struct begun *begun)
{
  struct lane *lane = &run->lanes[0];
  tuttiResult_t result = tt_run_start(run, plan, binding);
  if (result != tuttiSuccess) return result;
  memcpy(lane->links, plan->quick->links, (size_t)plan->nlinks * sizeof *lane->links);
  run->state = RUN_MOVING;
  lane->finished = begun->done;
  if (begun->sent) {
    const struct tt_step *step = &plan->schedule.steps[begun->half];
    size_t bytes = step_bytes(run, lane, step);
    tt_step_begin(run, lane, begun->half, bytes);
    for (int32_t k = 0; k < begun->sent; k++) lane->sent[step->to + k] = bytes;
    lane->active |= (uint64_t)1 << begun->half;
  }
  steps_start(run, lane); /* beside the half-done step, whose sends may have to wait until these steps receive */
  return tuttiSuccess;
}

/* Moves the window over finished steps. Returns 1 if all steps are done. */
static int head_advance(struct tt_run *run, struct lane *lane)
{
  while (lane->finished & 1) {
    lane->finished >>= 1;
    lane->active >>= 1;
    lane->head++;
  }
  return lane->head == run->plan->schedule.nsteps;
}

/* Moves one lane. TRIED_FINISHED: no segment is left for it. */
static enum tried lane_move(struct tt_run *run, struct lane *lane, tuttiResult_t *result)
{
  enum tried all = TRIED_NOTHING;
  if (lane->waits) lane_bind(run, lane);
  if (lane->waits) return all;
  if (!lane->active) steps_start(run, lane);
  for (;;) {
    uint64_t before = lane->finished;
    for (uint64_t left = lane->active; left; left &= left - 1) {
      int k = __builtin_ctzll(left);
      enum tried tried = tt_step_move(run, lane, lane->head + k, result);
      if (tried == TRIED_ERROR) return tried;
      if (tried == TRIED_NOTHING) continue;
      all = TRIED_MOVED;
      if (tried == TRIED_MOVED) continue;
      lane->finished |= (uint64_t)1 << k;
      lane->active &= ~((uint64_t)1 << k);
    }
    if (lane->finished == before && lane->active) return all;
    if (run->looks) tt_numbers_report(run, lane, lane->finished & ~before);
    if (head_advance(run, lane)) {
      *result = tt_numbers_end(run, lane);
      if (*result != tuttiSuccess) return TRIED_ERROR;
      if (run->binding->trigger) tt_pieces_end(run, lane->segment);
      lane->segment += (size_t)run->nlanes;
      if (!lane_bind(run, lane)) return TRIED_FINISHED;
      if (lane->waits) return TRIED_MOVED;
    }
    if (!steps_start(run, lane)) return all;
  }
}

static tuttiResult_t lanes_move(struct tt_run *run, int *moved)
{
  for (int s = 0; s < run->nlanes; s++) {
    struct lane *lane = &run->lanes[s];
    if (lane->segment >= run->nsegments) continue;
    tuttiResult_t result = tuttiSuccess;
    enum tried tried = lane_move(run, lane, &result);
    if (tried != TRIED_NOTHING) *moved = 1;
    if (tried == TRIED_FINISHED) run->busy--;
    if (tried != TRIED_ERROR) continue;
    if (result == tuttiInProgress) {
      run->state = RUN_SUSPECT;
      run->suspect_op = run->binding->call.op;
      return tuttiInProgress;
    }
    return tt_watch_fail_here(run->exec->watch, result, -1, run->binding->call.op);
  }
  if (run->busy) return tuttiInProgress;
  run->state = RUN_IDLE;
  if (run->looks && run->binding->overflow) *run->binding->overflow = run->overflow;
  if (run->binding->trigger) tt_pieces_end_all(run);
  if (run->in_copy_room > IN_COPY_KEPT_BYTES) in_copy_free(run);
  run->history = tt_history_add(run->history, run->head.word);
  tt_watch_finish(run->exec->watch, run->binding->call.op);
  return tuttiSuccess;
}

/* Goes on as far as it can; *moved is set to 1 if anything went on. */
static tuttiResult_t poll_once(struct tt_run *run, int *moved)
{
  struct tt_exec *exec = run->exec;
  if (atomic_load_explicit(exec->failed, memory_order_acquire)) {
    const struct tt_failure *failure = tt_watch_failure(exec->watch);
    return tt_fail_quiet(failure->code, failure->sentence);
  }
  switch (run->state) {
  case RUN_PAIRS: return tt_pairs_poll(run, moved);
  case RUN_OPENING: {
    tuttiResult_t result = links_open(run);
    if (result != tuttiSuccess) return result;
    run->state = RUN_MOVING;
    *moved = 1;
    return lanes_move(run, moved);
  }
  case RUN_MOVING: return lanes_move(run, moved);
  case RUN_SUSPECT: return tt_watch_suspect(exec->watch, run->broken->peer, run->suspect_op, run->broken->why);
  default: return tt_fail(tuttiInternalError, "an operation was polled that was not started");
  }
}

tuttiResult_t tt_run_poll(struct tt_run *run, int *moved)
{
  int has_moved = 0;
  tuttiResult_t result = poll_once(run, &has_moved);
  if (has_moved) tt_watch_moved(run->exec->watch);
  *moved |= has_moved;
  return result;
}

int tt_run_ending(const struct tt_run *run)
{
  int ends = run->state == RUN_MOVING;
  for (int s = 0; s < run->nlanes && ends; s++)
    ends = !run->lanes[s].waits && run->lanes[s].segment + (size_t)run->nlanes >= run->nsegments &&
           run->lanes[s].head + 1 >= run->plan->schedule.nsteps;
  return ends;
}

void tt_run_forget(struct tt_run *run, const struct tt_plan *plan)
{
  if (run->plan == plan) run->plan = NULL;
}
