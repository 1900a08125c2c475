/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of a rank's memory during a proof, and the effect of a step on them. */
#include "schedule/world_private.h"

/* One step of one rank, with its parts at hand. */
struct view {
  struct tt_world *world;
  const struct tt_actor *actor;
  const struct tt_step *step;
  const struct tt_operand *sources;
  int32_t rank, index;
};

static struct view view_of(struct tt_world *world, int32_t rank, int32_t index)
{
  const struct tt_actor *actor = &world->actors[rank];
  const struct tt_step *step = &actor->schedule.steps[index];
  return (struct view){world, actor, step, actor->schedule.operands + step->src, rank, index};
}

/* The contents of block `at` of OUT; NULL if that block is not there. */
static struct tt_cell *out_cell(const struct tt_actor *actor, int32_t at)
{
  if (at < actor->out_start || at >= actor->out_end) return NULL;
  return &actor->out[at - actor->out_start];
}

static tuttiResult_t in_read(const struct view *v, int32_t at, struct tt_cell *cell)
{
  const struct tt_cell *same = v->world->kind->is_apart ? NULL : out_cell(v->actor, at);
  if (same && same->value)
    return tt_complain(v->world, v->rank, v->index, "reads IN block %d after OUT block %d was written", (int)at,
                       (int)at);
  int32_t share = v->world->kind->is_shared ? at / v->world->shape.nblocks : 0;
  *cell = (struct tt_cell){tt_value_of_rank(v->world->position[v->rank]), share, 0};
  return tuttiSuccess;
}

static tuttiResult_t out_read(const struct view *v, int32_t at, struct tt_cell *cell)
{
  const struct tt_cell *held = out_cell(v->actor, at);
  if (!held || !held->value)
    return tt_complain(v->world, v->rank, v->index, "reads OUT block %d, which nobody wrote", (int)at);
  *cell = *held;
  return tuttiSuccess;
}

/* Blocks of equal length may stand in for each other. */
static int same_length(const struct tt_world *world, int32_t a, int32_t b)
{
  if (world->proof->is_uneven) return a == b;
  return (a - b) % world->shape.nblocks == 0;
}

static tuttiResult_t slot_read(const struct view *v, int32_t begin, int32_t x, struct tt_cell *cell)
{
  const struct tt_slot *slot = &v->actor->slots[begin + x];
  int32_t block = (int32_t)(((int64_t)v->step->first + x) % v->world->nblocks);
  if (!slot->cell.value)
    return tt_complain(v->world, v->rank, v->index, "reads scratch slot %d, which holds nothing",
                       (int)(begin + x));
  if ((slot->begin != begin && !v->actor->slots_are_full) || !same_length(v->world, slot->block, block))
    return tt_complain(v->world, v->rank, v->index,
                       "reads block %d from the span at scratch slot %d, but block %d of the span at slot %d "
                       "was written there",
                       (int)block, (int)begin, (int)slot->block, (int)slot->begin);
  *cell = slot->cell;
  return tuttiSuccess;
}

/* Block x of the step's span at a place in memory. */
static tuttiResult_t place_read(const struct view *v, struct tt_operand operand, int32_t x, struct tt_cell *cell)
{
  if (operand.place == TT_SCRATCH) return slot_read(v, operand.at, x, cell);
  int32_t at = (int32_t)(((int64_t)operand.at + x) % v->world->nblocks);
  return operand.place == TT_IN ? in_read(v, at, cell) : out_read(v, at, cell);
}

/* The rank whose number in values is `position`. */
static int32_t rank_at(const struct tt_world *world, int32_t position)
{
  return world->proof->order ? world->proof->order[position] : position;
}

static tuttiResult_t order_check(const struct view *v, const struct tt_cell *parts)
{
  const struct tt_values *values = v->world->values;
  int32_t first = tt_value_lowest(values, parts[0].value);
  for (int k = 1; k < v->step->nsrc; k++) {
    int32_t lowest = tt_value_lowest(values, parts[k].value);
    if (lowest < first)
      return tt_complain(v->world, v->rank, v->index, "source %d holds rank %d and stands behind rank %d's", k,
                         (int)rank_at(v->world, lowest), (int)rank_at(v->world, first));
  }
  return tuttiSuccess;
}

static tuttiResult_t combine(const struct view *v, const struct tt_cell *parts, struct tt_cell *result)
{
  int32_t values[TT_MAX_SOURCES], twice = 0;
  *result = parts[0];
  if (v->step->nsrc == 1) return tuttiSuccess;
  for (int k = 0; k < v->step->nsrc; k++) {
    values[k] = parts[k].value;
    if (parts[k].depth > result->depth) result->depth = parts[k].depth;
    if (parts[k].share != parts[0].share)
      return tt_complain(v->world, v->rank, v->index, "adds a block of share %d to one of share %d",
                         (int)parts[k].share, (int)parts[0].share);
  }
  tuttiResult_t code = tt_value_combine(v->world->values, values, v->step->nsrc, &result->value, &twice);
  if (code == tuttiInternalError)
    return tt_complain(v->world, v->rank, v->index, "adds rank %d's contribution twice",
                       (int)rank_at(v->world, twice));
  return code;
}

/* The value that a step which is offering sends as block x: from dst if it has one, else made
 * again from its sources, none of which is a message then. */
static tuttiResult_t offered(const struct view *v, int32_t x, struct tt_cell *cell)
{
  struct tt_cell parts[TT_MAX_SOURCES];
  if (v->step->dst.place != TT_NOWHERE) return place_read(v, v->step->dst, x, cell);
  for (int k = 0; k < v->step->nsrc; k++) {
    tuttiResult_t code = place_read(v, v->sources[k], x, &parts[k]);
    if (code) return code;
  }
  return combine(v, parts, cell);
}

static tuttiResult_t message_read(const struct view *v, int k, int32_t x, struct tt_cell *cell)
{
  struct view giver = view_of(v->world, v->sources[k].at, v->actor->giver[v->step->src + k]);
  tuttiResult_t code = offered(&giver, x, cell);
  cell->depth++;
  if (!code && cell->depth > v->world->proof->rounds) v->world->proof->rounds = cell->depth;
  return code;
}

/* Steps that move a block of one share to another share's place need equal shares. */
static tuttiResult_t places_check(const struct view *v)
{
  for (int k = -1; k < v->step->nsrc && v->world->proof->is_uneven; k++) {
    struct tt_operand operand = k < 0 ? v->step->dst : v->sources[k];
    if ((operand.place == TT_IN || operand.place == TT_OUT) && operand.at != v->step->first)
      return tt_complain(v->world, v->rank, v->index, "is about block %d, but names block %d of another share, which "
                         "may have another length", (int)v->step->first, (int)operand.at);
  }
  return tuttiSuccess;
}

static tuttiResult_t block_evaluate(const struct view *v, int32_t x)
{
  struct tt_cell parts[TT_MAX_SOURCES];
  for (int k = 0; k < v->step->nsrc; k++) {
    struct tt_operand source = v->sources[k];
    tuttiResult_t code = source.place == TT_MESSAGE ? message_read(v, k, x, &parts[k])
                                                    : place_read(v, source, x, &parts[k]);
    if (code) return code;
  }
  tuttiResult_t code = combine(v, parts, &v->world->result[x]);
  return code ? code : order_check(v, parts);
}

tuttiResult_t tt_step_evaluate(struct tt_world *world, int32_t rank, int32_t step)
{
  struct view v = view_of(world, rank, step);
  tuttiResult_t code = places_check(&v);
  for (int32_t x = 0; x < v.step->nblocks && !code; x++) code = block_evaluate(&v, x);
  return code;
}

/* Writing a span spoils what an older span that begins before its end holds behind it:
 * that span is packed, so its later blocks reach down into these slots. */
static void slots_write(const struct tt_world *world, struct tt_actor *actor, const struct tt_step *step)
{
  int32_t begin = step->dst.at, end = begin + step->nblocks;
  for (int32_t x = 0; x < step->nblocks; x++)
    actor->slots[begin + x] =
        (struct tt_slot){world->result[x], (int32_t)(((int64_t)step->first + x) % world->nblocks), begin};
  if (actor->slots_are_full) return;
  for (int32_t s = end; s < actor->schedule.nslots; s++) {
    if (!actor->slots[s].cell.value || actor->slots[s].begin >= end) break;
    actor->slots[s].cell.value = 0;
  }
}

void tt_step_store(struct tt_world *world, int32_t rank, int32_t index)
{
  struct tt_actor *actor = &world->actors[rank];
  const struct tt_step *step = &actor->schedule.steps[index];
  if (step->dst.place == TT_SCRATCH) slots_write(world, actor, step);
  if (step->dst.place != TT_OUT) return;
  for (int32_t x = 0; x < step->nblocks; x++)
    *out_cell(actor, (int32_t)(((int64_t)step->dst.at + x) % world->nblocks)) = world->result[x];
}
