/* SPDX-License-Identifier: BSD-3-Clause */
/* What the memory of a rank holds during a proof, and what a step makes of it. */
#include "sched/world.h"

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

static tuttiResult_t in_read(const struct view *v, int32_t at, int32_t block, int32_t *value)
{
  if (at != block)
    return tt_complain(v->world, v->rank, v->index, "reads IN block %d as block %d", (int)at, (int)block);
  if (v->actor->out[at])
    return tt_complain(v->world, v->rank, v->index, "reads IN block %d after OUT block %d was written", (int)at,
                       (int)at);
  *value = tt_value_of_rank(v->rank);
  return tuttiSuccess;
}

static tuttiResult_t out_read(const struct view *v, int32_t at, int32_t block, int32_t *value)
{
  if (at != block)
    return tt_complain(v->world, v->rank, v->index, "reads OUT block %d as block %d", (int)at, (int)block);
  if (!v->actor->out[at])
    return tt_complain(v->world, v->rank, v->index, "reads OUT block %d, which nobody wrote", (int)at);
  *value = v->actor->out[at];
  return tuttiSuccess;
}

static tuttiResult_t slot_read(const struct view *v, int32_t begin, int32_t x, int32_t *value)
{
  const struct tt_slot *slot = &v->actor->slots[begin + x];
  int32_t block = v->step->first + x;
  if (!slot->value)
    return tt_complain(v->world, v->rank, v->index, "reads scratch slot %d, which holds nothing",
                       (int)(begin + x));
  if (slot->begin != begin || slot->block != block)
    return tt_complain(v->world, v->rank, v->index,
                       "reads block %d from the span at scratch slot %d, but block %d of the span at slot %d "
                       "was written there",
                       (int)block, (int)begin, (int)slot->block, (int)slot->begin);
  *value = slot->value;
  return tuttiSuccess;
}

/* Block x of the step's span at a place in memory. */
static tuttiResult_t place_read(const struct view *v, struct tt_operand operand, int32_t x, int32_t *value)
{
  int32_t block = v->step->first + x;
  if (operand.place == TT_IN) return in_read(v, operand.at + x, block, value);
  if (operand.place == TT_OUT) return out_read(v, operand.at + x, block, value);
  return slot_read(v, operand.at, x, value);
}

static tuttiResult_t flags_check(const struct view *v, const int32_t *parts, int32_t result)
{
  const struct tt_values *values = v->world->values;
  for (int k = 0; k < v->step->nsrc; k++) {
    int is_raw = tt_value_count(values, parts[k]) == 1;
    if (is_raw != v->sources[k].raw)
      return tt_complain(v->world, v->rank, v->index, "source %d is %s but %s", k,
                         is_raw ? "one rank's raw input" : "a combination",
                         is_raw ? "not marked raw" : "marked raw");
    if (k && tt_value_lowest(values, parts[k]) < tt_value_lowest(values, parts[k - 1]))
      return tt_complain(v->world, v->rank, v->index, "source %d holds rank %d and stands behind rank %d's", k,
                         (int)tt_value_lowest(values, parts[k]), (int)tt_value_lowest(values, parts[k - 1]));
  }
  int is_final = v->step->nsrc > 1 && tt_value_count(values, result) == v->world->shape.nranks;
  if (is_final != v->step->is_final)
    return tt_complain(v->world, v->rank, v->index, is_final ? "the last reduction is not marked final"
                                                             : "marked final, but contributions are missing");
  return tuttiSuccess;
}

static tuttiResult_t combine(const struct view *v, const int32_t *parts, int32_t *value)
{
  int32_t twice = 0;
  if (v->step->nsrc == 1) {
    *value = parts[0];
    return tuttiSuccess;
  }
  tuttiResult_t code = tt_value_combine(v->world->values, parts, v->step->nsrc, value, &twice);
  if (code == tuttiInternalError)
    return tt_complain(v->world, v->rank, v->index, "adds rank %d's contribution twice", (int)twice);
  return code;
}

/* What a step that is offering sends as block x: from dst if it has one, else made
 * again from its sources, none of which is a message then. */
static tuttiResult_t offered(const struct view *v, int32_t x, int32_t *value)
{
  int32_t parts[TT_MAX_SOURCES];
  if (v->step->dst.place != TT_NOWHERE) return place_read(v, v->step->dst, x, value);
  for (int k = 0; k < v->step->nsrc; k++) {
    tuttiResult_t code = place_read(v, v->sources[k], x, &parts[k]);
    if (code) return code;
  }
  return combine(v, parts, value);
}

static tuttiResult_t block_evaluate(const struct view *v, int32_t x)
{
  int32_t parts[TT_MAX_SOURCES];
  int32_t *result = &v->world->result[x];
  for (int k = 0; k < v->step->nsrc; k++) {
    struct tt_operand source = v->sources[k];
    tuttiResult_t code;
    if (source.place == TT_MESSAGE) {
      struct view giver = view_of(v->world, source.at, v->actor->giver[v->step->src + k]);
      code = offered(&giver, x, &parts[k]);
    } else {
      code = place_read(v, source, x, &parts[k]);
    }
    if (code) return code;
  }
  tuttiResult_t code = combine(v, parts, result);
  return code ? code : flags_check(v, parts, *result);
}

tuttiResult_t tt_step_evaluate(struct tt_world *world, int32_t rank, int32_t step)
{
  struct view v = view_of(world, rank, step);
  for (int32_t x = 0; x < v.step->nblocks; x++) {
    tuttiResult_t code = block_evaluate(&v, x);
    if (code) return code;
  }
  return tuttiSuccess;
}

/* Writing a span spoils what an older span that begins before its end holds behind it:
 * that span is packed, so its later blocks reach down into these slots. */
static void slots_write(struct tt_actor *actor, const struct tt_step *step, const int32_t *values)
{
  int32_t begin = step->dst.at, end = begin + step->nblocks;
  for (int32_t x = 0; x < step->nblocks; x++)
    actor->slots[begin + x] = (struct tt_slot){values[x], step->first + x, begin};
  for (int32_t s = end; s < actor->schedule.nslots; s++) {
    if (!actor->slots[s].value || actor->slots[s].begin >= end) break;
    actor->slots[s].value = 0;
  }
}

tuttiResult_t tt_step_store(struct tt_world *world, int32_t rank, int32_t index)
{
  struct tt_actor *actor = &world->actors[rank];
  const struct tt_step *step = &actor->schedule.steps[index];
  if (step->dst.place == TT_SCRATCH) slots_write(actor, step, world->result);
  if (step->dst.place != TT_OUT) return tuttiSuccess;
  if (step->dst.at != step->first)
    return tt_complain(world, rank, index, "writes block %d into OUT block %d", (int)step->first,
                       (int)step->dst.at);
  for (int32_t x = 0; x < step->nblocks; x++) actor->out[step->first + x] = world->result[x];
  return tuttiSuccess;
}
