/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole play: from its ranks to its result. */
#include "sim/world_private.h"

#define MIB 1048576.0
#define KEPT_BYTES ((int64_t)128 << 20) /* of the programs of all ranks together, while TT_SIM_KEEP allows */
#define SAMPLE_RANKS 9
#define STEP_BYTES 64                   /* of a step with its operands, about */

static tuttiResult_t no_memory(const struct world *world)
{
  return tt_fail(tuttiSystemError, "no memory to play %d ranks: give the process more",
                 (int)world->play->shape.nranks);
}

/* Resets a rank to the beginning of a play; its program stays. */
static void actor_begin(struct world *world, int32_t rank)
{
  struct actor *actor = &world->actors[rank];
  int holds_all = actor->program.schedule.nsteps == actor->program.schedule.total;
  *actor = (struct actor){.program = actor->program, .busy_lanes = world->nlanes};
  actor->lanes = world->lanes + (size_t)rank * (size_t)world->nlanes;
  actor->out[NEAR].step = actor->out[FAR].step = -1;
  actor->node = &world->nodes[tt_sim_node(world->play, rank)];
  for (int32_t l = 0; l < world->nlanes; l++)
    actor->lanes[l].program = holds_all ? &actor->program : &actor->lanes[l].own;
  world->progress.total += actor->program.schedule.total;
  world->nblocks = (size_t)actor->program.schedule.shape.nblocks;
  if (holds_all) return;
  world->has_stretches = 1;
  actor->lanes[0].own = actor->program; /* the first lane takes it over */
  actor->program = (struct tt_sim_program){.from = 0};
}

static size_t longest_share(const struct tt_sim_play *play)
{
  size_t longest = play->counts ? 0 : play->count;
  for (int32_t rank = 0; play->counts && rank < play->shape.nranks; rank++)
    if (play->counts[rank] > longest) longest = play->counts[rank];
  return longest;
}

/* The number of segments follows from the number of blocks, which passes may change. */
static void segments_cut(struct world *world)
{
  const struct tt_sim_play *play = world->play;
  size_t nblocks = world->nblocks, count = longest_share(play);
  size_t block_count = play->block_bytes / play->element_bytes;
  world->count = count;
  world->segment_count = count ? count : 1;
  if (play->block_bytes && count / nblocks >= (block_count ? block_count : 1))
    world->segment_count = (block_count ? block_count : 1) * nblocks;
  world->nsegments = (count + world->segment_count - 1) / world->segment_count;
  world->progress.total *= (int64_t)world->nsegments;
}

/* Estimates how many steps all ranks will play, from a few ranks, evenly apart. A root may have many more steps than
 * others, so the longest program counts for itself only. */
static tuttiResult_t steps_estimate(struct world *world, int64_t *steps)
{
  const struct tt_sim_play *play = world->play;
  int32_t nranks = play->shape.nranks, n = nranks < SAMPLE_RANKS ? nranks : SAMPLE_RANKS;
  double sum = 0, most = 0, all;
  struct tt_sim_program program = {.from = 0};
  tuttiResult_t code = tuttiSuccess;
  for (int32_t k = 0; k < n && !code; k++) {
    int32_t rank = n == 1 ? 0 : (int32_t)((int64_t)k * (nranks - 1) / (n - 1));
    code = tt_sim_program_load(&program, &world->maker, rank, 0);
    double total = program.schedule.total;
    sum += total;
    if (total > most) most = total;
    world->nblocks = (size_t)program.schedule.shape.nblocks;
  }
  tt_sim_program_free(&program);
  if (code) return code;
  segments_cut(world);
  all = (n > 1 ? (sum - most) / (n - 1) * (nranks - 1) : 0) + most;
  all *= (double)world->nsegments;
  *steps = all < 9e18 ? (int64_t)all : INT64_MAX;
  if (!play->most_steps || *steps <= play->most_steps) return code;
  return tt_fail(tuttiInvalidUsage,
                 "%d ranks would play about %.2g steps, and at most %.2g are allowed: take fewer ranks, an algorithm "
                 "of fewer messages or a shorter vector", (int)nranks, (double)*steps, (double)play->most_steps);
}

static tuttiResult_t world_make(struct world *world)
{
  const struct tt_sim_play *play = world->play;
  size_t nranks = (size_t)play->shape.nranks, nnodes = play->topology ? (size_t)play->topology->nnodes : nranks;
  int64_t keep = KEPT_BYTES / STEP_BYTES / ((int64_t)play->shape.nranks * world->nlanes);
  if (play->keep) keep = play->keep < TT_WINDOW ? TT_WINDOW : play->keep;
  else if (keep < TT_SIM_KEEP) keep = TT_SIM_KEEP;
  if (!play->is_whole) world->maker.keep = keep < INT32_MAX ? (int32_t)keep : INT32_MAX;
  world->maker.play = play;
  world->gamma_us = play->prices->gamma_us_per_mib / MIB;
  world->actors = tt_alloc(nranks, sizeof *world->actors);
  world->nodes = tt_alloc(nnodes, sizeof *world->nodes);
  world->lanes = tt_alloc(nranks * (size_t)world->nlanes, sizeof *world->lanes);
  if (!world->actors || !world->nodes || !world->lanes) return no_memory(world);
  tuttiResult_t code = tuttiSuccess;
  int64_t steps = 0;
  if (play->watcher.making || play->most_steps) code = steps_estimate(world, &steps);
  for (int32_t rank = 0; rank < play->shape.nranks && !code; rank++) {
    code = tt_sim_program_load(&world->actors[rank].program, &world->maker, rank, 0);
    if (play->watcher.making) play->watcher.making(play->watcher.context, rank + 1, steps);
  }
  return code;
}

static void starts_free(struct world *world)
{
  for (size_t segment = 0; world->starts && segment < world->nsegments; segment++) tt_free(world->starts[segment]);
  tt_free(world->starts);
  world->starts = NULL;
}

/* Resets everything but the programs to the beginning. */
static void world_begin(struct world *world)
{
  const struct tt_sim_play *play = world->play;
  int32_t nnodes = play->topology ? play->topology->nnodes : play->shape.nranks;
  world->now_us = 0;
  world->events.n = world->events.peak = 0;
  world->events.number = 0;
  world->result = (struct tt_sim_result){0};
  world->progress = (struct tt_sim_progress){0};
  for (int32_t node = 0; node < nnodes; node++) world->nodes[node] = (struct node){.first = -1};
  for (int32_t rank = 0; rank < play->shape.nranks; rank++) actor_begin(world, rank);
  starts_free(world);
  segments_cut(world);
  if (play->counts) world->starts = tt_alloc(world->nsegments, sizeof *world->starts);
  if (play->counts && !world->starts) world->is_broke = 1;
}

static void world_free(struct world *world)
{
  starts_free(world);
  for (int32_t rank = 0; world->actors && rank < world->play->shape.nranks; rank++)
    tt_sim_program_free(&world->actors[rank].program);
  for (int64_t s = 0; world->lanes && s < (int64_t)world->play->shape.nranks * world->nlanes; s++)
    tt_sim_program_free(&world->lanes[s].own);
  tt_free(world->actors);
  tt_free(world->nodes);
  tt_free(world->lanes);
  tt_free(world->maker.order);
  tt_free(world->events.heap);
  tt_free(world->mail.boxes);
}

static tuttiResult_t world_start(struct world *world)
{
  if (world->is_broke) return no_memory(world);
  for (int32_t rank = 0; rank < world->play->shape.nranks; rank++)
    for (int32_t l = 0; l < world->nlanes; l++) {
      struct lane *lane = &world->actors[rank].lanes[l];
      tuttiResult_t code = tuttiSuccess;
      if (!tt_sim_segment_begin(world, lane, (size_t)l)) {
        tt_sim_lane_end(world, rank);
        continue;
      }
      int is_empty = lane->program == &lane->own && l;
      if (is_empty) code = tt_sim_program_load(&lane->own, &world->maker, rank, 0);
      if (!code) code = tt_sim_lane_go(world, rank, lane);
      if (code) return code;
    }
  return tuttiSuccess;
}

static tuttiResult_t world_play(struct world *world)
{
  tuttiResult_t code = world_start(world);
  while (!code && world->events.n && !world->is_broke) {
    struct tt_sim_event event = tt_sim_pop(&world->events);
    world->now_us = event.at_us;
    code = tt_sim_event_play(world, &event);
  }
  return code ? code : world->is_broke ? no_memory(world) : tuttiSuccess;
}

static void busiest_note(struct tt_sim_result *result, int32_t rank, const struct port *port)
{
  double most = port->out_us > port->in_us ? port->out_us : port->in_us;
  if (most <= result->busiest_us) return;
  result->busiest_us = most;
  result->busiest_rank = rank;
  result->busiest_is_out = port->out_us >= port->in_us;
}

static tuttiResult_t world_judge(struct world *world)
{
  struct tt_sim_result *result = &world->result;
  for (int32_t rank = 0; rank < world->play->shape.nranks; rank++) {
    const struct actor *actor = &world->actors[rank];
    for (int32_t l = 0; actor->busy_lanes && l < world->nlanes; l++)
      if (actor->lanes[l].oldest < actor->lanes[l].program->schedule.total)
        return tt_fail(tuttiInternalError, "rank %d waits for ever at step %d of a %s", (int)rank,
                       (int)actor->lanes[l].oldest, tt_kinds[world->play->shape.collective].name);
    if (actor->cpu_us > result->processor_us) result->processor_us = actor->cpu_us;
    busiest_note(result, rank, &actor->port);
    busiest_note(result, rank, &actor->node->port);
  }
  result->time_us = world->now_us;
  result->peak_events = world->events.peak;
  return tuttiSuccess;
}

static tuttiResult_t play_check(const struct tt_sim_play *play)
{
  size_t shares = tt_kinds[play->shape.collective].is_shared ? (size_t)play->shape.nranks : 1, bytes;
  if (play->lanes < 0 || play->lanes > TT_SIM_MAX_LANES)
    return tt_fail(tuttiInvalidArgument, "lanes is %d: give 1 to %d", (int)play->lanes, TT_SIM_MAX_LANES);
  size_t count = longest_share(play);
  int collective = play->shape.collective, is_one = play->shape.nblocks == 1;
  if (play->counts && (!is_one || (collective != TT_ALL_GATHER && collective != TT_REDUCE_SCATTER)))
    return tt_fail(tuttiInvalidArgument, "counts are given for %s in %d blocks a share: only all-gather and "
                   "reduce-scatter have such, of one block", tt_kinds[collective].called, (int)play->shape.nblocks);
  if (__builtin_mul_overflow(count, play->element_bytes, &bytes) ||
      __builtin_mul_overflow(bytes, shares, &bytes) || bytes > TT_SIM_MAX_BYTES)
    return tt_fail(tuttiInvalidArgument, "%zu elements of %zu bytes, %zu times, are too many: at most 2^60 bytes",
                   count, play->element_bytes, shares);
  return tuttiSuccess;
}

static tuttiResult_t world_run(struct world *world)
{
  world_begin(world);
  tuttiResult_t code = world_play(world);
  if (!code) code = world_judge(world);
  if (code || !world->play->watcher.progress) return code;
  world->progress.steps = world->result.steps;
  world->progress.time_us = world->now_us;
  world->play->watcher.progress(world->play->watcher.context, &world->progress);
  return code;
}

tuttiResult_t tt_simulate_counts(const struct tt_sim_play *play, const size_t *counts, int n,
                                 struct tt_sim_result *results)
{
  struct tt_sim_play one = *play;
  struct world world = {.play = &one, .nlanes = play->lanes ? play->lanes : 1};
  tuttiResult_t code = tuttiSuccess;
  for (int k = 0; k < n && !code; k++) {
    one.count = counts[k];
    code = play_check(&one);
    if (!code && world.has_stretches) world_free(&world);
    if (!code && (k == 0 || world.has_stretches)) {
      world = (struct world){.play = &one, .nlanes = world.nlanes};
      code = world_make(&world);
    }
    if (!code) code = world_run(&world);
    if (!code) results[k] = world.result;
  }
  world_free(&world);
  return code;
}

tuttiResult_t tt_simulate(const struct tt_sim_play *play, struct tt_sim_result *result)
{
  return tt_simulate_counts(play, &play->count, 1, result);
}
