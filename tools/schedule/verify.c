/* SPDX-License-Identifier: BSD-3-Clause */
/* The proof that the schedules of all ranks together are the collective.
 *
 * It runs them once, on symbolic values, on the least helpful machine that sched.h
 * permits: no message has a buffer, a step takes all its messages together, a step in
 * order.started is waited for until it is finished, and the window is as narrow as
 * promised. One run is enough: which messages belong together is fixed by the programs,
 * and no event ever disables another, so whatever a more helpful machine or another
 * speed of the ranks does, it does these events in an order the waits allow, and the
 * waits keep the order of reads and writes of each place. */
#include <stdarg.h>

#include "sched/step.h"
#include "schedule/world_private.h"

tuttiResult_t tt_complain(struct tt_world *world, int32_t rank, int32_t step, const char *format, ...)
{
  va_list arguments;
  char *text = world->proof->complaint;
  int n = step < 0 ? snprintf(text, TT_COMPLAINT_BYTES, "rank %d: ", (int)rank)
                   : snprintf(text, TT_COMPLAINT_BYTES, "rank %d, step %d: ", (int)rank, (int)step);
  if (n < 0 || n >= TT_COMPLAINT_BYTES) return tuttiInternalError;
  va_start(arguments, format);
  vsnprintf(text + n, TT_COMPLAINT_BYTES - (size_t)n, format, arguments);
  va_end(arguments);
  return tuttiInternalError;
}

/* ---- set up and tear down -------------------------------------------------------- */

static tuttiResult_t no_memory(const struct tt_world *world)
{
  return tt_fail(tuttiSystemError, "no memory to prove %d ranks: give the process more",
                 (int)world->shape.nranks);
}

/* Each step has its own operands and peers, in the order of the steps. */
static int is_in_order(const struct tt_schedule *schedule, int32_t i)
{
  const struct tt_step *step = &schedule->steps[i], *before = i ? step - 1 : NULL;
  return step->src >= (before ? before->src + before->nsrc : 0) &&
         step->to >= (before ? before->to + before->nto : 0) &&
         (int64_t)step->src + step->nsrc <= schedule->noperands && (int64_t)step->to + step->nto <= schedule->npeers;
}

static tuttiResult_t step_check(struct tt_world *world, int32_t rank, int32_t i)
{
  const struct tt_schedule *schedule = &world->actors[rank].schedule;
  const struct tt_step *step = &schedule->steps[i];
  const struct tt_operand *sources = schedule->operands + step->src;
  char reason[TT_REASON_BYTES];
  if (!is_in_order(schedule, i)) return tt_complain(world, rank, i, "its operands are not its own");
  if (!tt_step_check(schedule, step, sources, schedule->peers + step->to, reason))
    return tt_complain(world, rank, i, "%s", reason);
  if (tt_step_slots(step, sources) > schedule->nslots)
    return tt_complain(world, rank, i, "uses more than the %d scratch slots asked for", (int)schedule->nslots);
  for (int k = 0; k < step->nsrc; k++)
    if (sources[k].place == TT_MESSAGE && step->nto && step->dst.place == TT_NOWHERE)
      return tt_complain(world, rank, i, "passes a message on without a place to keep it");
  return tuttiSuccess;
}

/* Where a share is one block all slots are full; of any lengths, if each has one share. Returns 0 if there is no
 * memory. */
static int slots_judge(const struct tt_world *world, struct tt_actor *actor)
{
  actor->slots_are_full = world->shape.nblocks == 1;
  if (!world->proof->is_uneven) return 1;
  int32_t *share = tt_alloc((size_t)actor->schedule.nslots, sizeof *share);
  if (!share) return 0;
  actor->slots_are_full = tt_slot_shares(&actor->schedule, share);
  tt_free(share);
  return 1;
}

static tuttiResult_t actor_make(struct tt_world *world, int32_t rank, tt_generate_fn generate, void *context)
{
  struct tt_actor *actor = &world->actors[rank];
  struct tt_schedule *schedule = &actor->schedule;
  struct tt_shape shape = world->shape;
  shape.rank = rank;
  tt_schedule_init(schedule, &shape);
  generate(schedule, &shape, context);
  if (schedule->error) {
    tt_complain(world, rank, -1, "%s", tt_last_sentence());
    return schedule->error;
  }
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    tuttiResult_t code = step_check(world, rank, i);
    if (code) return code;
  }
  actor->order = tt_alloc((size_t)schedule->nsteps, sizeof *actor->order);
  actor->stand = tt_alloc((size_t)schedule->nsteps, sizeof *actor->stand);
  actor->untaken = tt_alloc((size_t)schedule->nsteps, sizeof *actor->untaken);
  actor->taker = tt_alloc((size_t)schedule->npeers, sizeof *actor->taker);
  actor->giver = tt_alloc((size_t)schedule->noperands, sizeof *actor->giver);
  tt_cover_range(&shape, world->kind->out, &actor->out_start, &actor->out_end);
  actor->out = tt_alloc((size_t)(actor->out_end - actor->out_start), sizeof *actor->out);
  actor->slots = tt_alloc((size_t)schedule->nslots, sizeof *actor->slots);
  if (!actor->order || !actor->stand || !actor->untaken || !actor->taker || !actor->giver || !actor->out ||
      !actor->slots)
    return no_memory(world);
  if (!slots_judge(world, actor)) return no_memory(world);
  tt_order_derive(schedule, actor->order);
  for (int32_t i = 0; i < schedule->nsteps; i++) actor->untaken[i] = schedule->steps[i].nto;
  world->proof->steps += schedule->nsteps;
  return tuttiSuccess;
}

static void actor_free(struct tt_actor *actor)
{
  tt_schedule_destroy(&actor->schedule);
  tt_free(actor->order);
  tt_free(actor->stand);
  tt_free(actor->untaken);
  tt_free(actor->taker);
  tt_free(actor->giver);
  tt_free(actor->out);
  tt_free(actor->slots);
}

static tuttiResult_t world_make(struct tt_world *world, tt_generate_fn generate, void *context)
{
  world->actors = tt_alloc((size_t)world->shape.nranks, sizeof *world->actors);
  world->values = tt_values_create(world->shape.nranks);
  world->result = tt_alloc((size_t)world->nblocks, sizeof *world->result);
  world->position = tt_alloc((size_t)world->shape.nranks, sizeof *world->position);
  if (!world->actors || !world->values || !world->result || !world->position) return no_memory(world);
  const int32_t *order = world->proof->order;
  for (int32_t p = 0; p < world->shape.nranks; p++) world->position[order ? order[p] : p] = p;
  for (int32_t rank = 0; rank < world->shape.nranks; rank++) {
    tuttiResult_t code = actor_make(world, rank, generate, context);
    if (code) return code;
  }
  return tt_world_match(world);
}

static void world_free(struct tt_world *world)
{
  for (int32_t rank = 0; world->actors && rank < world->shape.nranks; rank++) actor_free(&world->actors[rank]);
  tt_free(world->actors);
  tt_values_destroy(world->values);
  tt_free(world->result);
  tt_free(world->position);
}

/* ---- run ------------------------------------------------------------------------- */

static void enqueue(struct tt_world *world, int32_t rank)
{
  struct tt_actor *actor = &world->actors[rank];
  if (actor->is_queued) return;
  actor->is_queued = 1;
  actor->next = -1;
  if (world->queue_first < 0)
    world->queue_first = rank;
  else
    world->actors[world->queue_last].next = rank;
  world->queue_last = rank;
}

static int32_t dequeue(struct tt_world *world)
{
  int32_t rank = world->queue_first;
  world->queue_first = world->actors[rank].next;
  world->actors[rank].is_queued = 0;
  return rank;
}

static void step_finish(struct tt_world *world, int32_t rank, int32_t i)
{
  struct tt_actor *actor = &world->actors[rank];
  actor->stand[i] = TT_FINISHED;
  actor->finished |= 1ull << (63 - (i - actor->oldest));
  while (actor->finished >> 63) {
    actor->finished <<= 1;
    actor->oldest++;
  }
  enqueue(world, rank);
}

/* All that step i, in the window, must wait for is finished. */
static int may_start(const struct tt_actor *actor, int32_t i)
{
  int32_t behind = i - actor->oldest; /* steps of the window before i */
  uint64_t past = behind ? actor->finished >> (64 - behind) | ~0ull << behind : ~0ull;
  return ((actor->order[i].finished | actor->order[i].started) & ~past) == 0;
}

static int has_messages(const struct tt_world *world, const struct tt_actor *actor, const struct tt_step *step)
{
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    struct tt_operand source = actor->schedule.operands[k];
    if (source.place == TT_MESSAGE && world->actors[source.at].stand[actor->giver[k]] != TT_OFFERING) return 0;
  }
  return 1;
}

/* The step takes its messages, and offers its own. */
static tuttiResult_t step_go(struct tt_world *world, int32_t rank, int32_t i)
{
  struct tt_actor *actor = &world->actors[rank];
  const struct tt_step *step = &actor->schedule.steps[i];
  tuttiResult_t code = tt_step_evaluate(world, rank, i);
  if (code) return code;
  tt_step_store(world, rank, i);
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    struct tt_operand source = actor->schedule.operands[k];
    if (source.place != TT_MESSAGE) continue;
    struct tt_actor *giver = &world->actors[source.at];
    if (--giver->untaken[actor->giver[k]] == 0) step_finish(world, source.at, actor->giver[k]);
  }
  actor->stand[i] = TT_OFFERING;
  for (int32_t k = step->to; k < step->to + step->nto; k++) enqueue(world, actor->schedule.peers[k]);
  if (step->nto == 0) step_finish(world, rank, i);
  return tuttiSuccess;
}

/* Lets a rank go on until it must wait for another. Steps wait for earlier ones only,
 * so one pass over the window, which may move under it, is enough. */
static tuttiResult_t actor_go(struct tt_world *world, int32_t rank)
{
  struct tt_actor *actor = &world->actors[rank];
  for (int32_t i = actor->oldest; i < actor->schedule.nsteps && i < actor->oldest + TT_WINDOW; i++) {
    if (actor->stand[i] == TT_WAITING && may_start(actor, i)) actor->stand[i] = TT_STARTED;
    if (actor->stand[i] != TT_STARTED || !has_messages(world, actor, &actor->schedule.steps[i])) continue;
    tuttiResult_t code = step_go(world, rank, i);
    if (code) return code;
  }
  return tuttiSuccess;
}

static tuttiResult_t world_run(struct tt_world *world)
{
  world->queue_first = -1;
  for (int32_t rank = 0; rank < world->shape.nranks; rank++) enqueue(world, rank);
  while (world->queue_first >= 0) {
    tuttiResult_t code = actor_go(world, dequeue(world));
    if (code) return code;
  }
  return tuttiSuccess;
}

/* ---- judge ----------------------------------------------------------------------- */

/* Says what the oldest unfinished step of a rank waits for: a message, or that one is
 * taken. It does not wait for a step of its own rank, being the oldest. */
static tuttiResult_t stuck_complain(struct tt_world *world, int32_t rank)
{
  const struct tt_actor *actor = &world->actors[rank];
  const struct tt_step *step = &actor->schedule.steps[actor->oldest];
  int is_offering = actor->stand[actor->oldest] == TT_OFFERING;
  const char *what = is_offering ? "to take its message in" : "for a message of";
  int n = is_offering ? step->nto : step->nsrc;
  for (int k = 0; k < n; k++) {
    struct tt_operand source = is_offering ? (struct tt_operand){TT_MESSAGE, actor->schedule.peers[step->to + k]}
                                           : actor->schedule.operands[step->src + k];
    if (source.place != TT_MESSAGE) continue;
    const struct tt_actor *other = &world->actors[source.at];
    int32_t theirs = is_offering ? actor->taker[step->to + k] : actor->giver[step->src + k];
    if (other->stand[theirs] >= TT_OFFERING) continue; /* this one is not what is missing */
    return tt_complain(world, rank, actor->oldest,
                       "waits for ever, being its oldest unfinished step, on rank %d %s its step %d, which is at its "
                       "step %d",
                       (int)source.at, what, (int)theirs, (int)other->oldest);
  }
  return tt_complain(world, rank, actor->oldest, "waits for ever");
}

/* Checks a collective that reduces: all contributions are in, in the same tree on all ranks. */
static tuttiResult_t sum_judge(struct tt_world *world, int32_t rank, int32_t block)
{
  const struct tt_actor *actor = &world->actors[rank], *first = &world->actors[0];
  int32_t value = actor->out[block - actor->out_start].value;
  if (tt_value_count(world->values, value) != world->shape.nranks) {
    int32_t lacking = tt_value_lacks(world->values, value);
    return tt_complain(world, rank, -1, "OUT block %d lacks rank %d's contribution at the end", (int)block,
                       (int)(world->proof->order ? world->proof->order[lacking] : lacking));
  }
  if (world->kind->out == TT_COVER_ALL && value != first->out[block].value)
    return tt_complain(world, rank, -1, "OUT block %d was combined in another order than on rank 0, so the bits differ",
                       (int)block);
  uint64_t tree = tt_value_hash(world->values, value);
  if (world->proof->tree == 1) world->proof->tree = tree;
  else if (world->proof->tree != tree) world->proof->tree = 0;
  return tuttiSuccess;
}

/* The rank whose block it must be at the end; -1: combined from all. */
static int32_t source_of(const struct tt_world *world, int32_t share)
{
  switch (world->kind->from) {
  case TT_FROM_ROOT: return world->shape.root;
  case TT_FROM_SHARE: return share;
  case TT_FROM_ALL:
  case TT_FROM_NOBODY: break;
  }
  return -1;
}

/* Checks the other collectives: the block is that of `source`, of the right share. */
static tuttiResult_t block_judge(struct tt_world *world, int32_t rank, int32_t block)
{
  const struct tt_shape *shape = &world->shape;
  const struct tt_actor *actor = &world->actors[rank];
  struct tt_cell cell = actor->out[block - actor->out_start];
  int32_t share = world->kind->is_shared ? block / shape->nblocks : 0, source = source_of(world, share);
  if (!cell.value) return tt_complain(world, rank, -1, "OUT block %d is never written", (int)block);
  if (world->kind->is_apart) share = rank; /* all-to-all: what its sender has for this rank */
  if (cell.share != share)
    return tt_complain(world, rank, -1, "OUT block %d is of share %d at the end, not of share %d", (int)block,
                       (int)cell.share, (int)share);
  if (source < 0) return sum_judge(world, rank, block);
  if (cell.value != tt_value_of_rank(world->position[source]))
    return tt_complain(world, rank, -1, "OUT block %d is not rank %d's at the end", (int)block, (int)source);
  return tuttiSuccess;
}

static tuttiResult_t world_judge(struct tt_world *world)
{
  world->proof->tree = world->kind->reduces; /* 1: not known yet */
  for (int32_t rank = 0; rank < world->shape.nranks; rank++)
    if (world->actors[rank].oldest < world->actors[rank].schedule.nsteps) return stuck_complain(world, rank);
  for (int32_t rank = 0; rank < world->shape.nranks; rank++)
    for (int32_t block = world->actors[rank].out_start; block < world->actors[rank].out_end; block++) {
      tuttiResult_t code = block_judge(world, rank, block);
      if (code) return code;
    }
  return tuttiSuccess;
}

static tuttiResult_t shape_check(struct tt_world *world)
{
  struct tt_schedule empty;
  world->shape.rank = 0;
  tt_schedule_init(&empty, &world->shape);
  if (empty.error) return tt_complain(world, 0, -1, "nothing to prove: %s", tt_last_sentence());
  world->kind = &tt_kinds[world->shape.collective];
  world->nblocks = tt_shape_blocks(&world->shape);
  if (world->proof->is_uneven && (world->shape.nblocks != 1 || !world->kind->is_shared || world->kind->is_apart))
    return tt_complain(world, 0, -1, "unequal shares are those of all-gather and reduce-scatter, of one block");
  return tuttiSuccess;
}

tuttiResult_t tt_verify(const struct tt_shape *shape, tt_generate_fn generate, void *context, struct tt_proof *proof)
{
  struct tt_world world = {.shape = *shape, .proof = proof};
  proof->complaint[0] = 0;
  proof->steps = proof->rounds = 0;
  proof->tree = 0;
  tuttiResult_t code = shape_check(&world);
  if (!code) code = world_make(&world, generate, context);
  if (!code) code = world_run(&world);
  if (!code) code = world_judge(&world);
  if (code == tuttiSystemError && !proof->complaint[0])
    snprintf(proof->complaint, TT_COMPLAINT_BYTES, "%s", tt_last_sentence());
  if (world.shape.nranks >= 1) world_free(&world);
  return code;
}
