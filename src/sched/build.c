/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "sched/step.h"

void tt_schedule_init(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  *schedule = (struct tt_schedule){.shape = *shape};
  int kind = shape->collective;
  if (kind < 0 || kind >= TT_COLLECTIVES || !tt_kinds[kind].name)
    schedule->error = tt_fail(tuttiInternalError, "no schedule for a collective of number %d", kind);
  else if (tt_kinds[kind].has_root && (shape->root < 0 || shape->root >= shape->nranks))
    schedule->error = tt_fail(tuttiInternalError, "no schedule for root %d of %d ranks", (int)shape->root,
                              (int)shape->nranks);
  else if (tt_kinds[kind].is_shared && (int64_t)shape->nranks * shape->nblocks > INT32_MAX)
    schedule->error = tt_fail(tuttiInternalError, "no schedule for %d ranks of %d blocks each: too many",
                              (int)shape->nranks, (int)shape->nblocks);
  else if (shape->nranks < 1 || shape->rank < 0 || shape->rank >= shape->nranks || shape->nblocks < 1)
    schedule->error = tt_fail(tuttiInternalError, "no schedule for rank %d of %d ranks and %d blocks",
                              (int)shape->rank, (int)shape->nranks, (int)shape->nblocks);
}

void tt_schedule_destroy(struct tt_schedule *schedule)
{
  if (!schedule) return;
  tt_free(schedule->steps);
  tt_free(schedule->operands);
  tt_free(schedule->peers);
  *schedule = (struct tt_schedule){.shape = schedule->shape, .error = schedule->error};
}

/* Returns a larger copy of `array`, which it frees; NULL, with `array` as it was, if there is no memory. */
static void *grown(void *array, int32_t used, int32_t room, size_t size)
{
  void *larger = tt_alloc((size_t)room, size);
  if (!larger) return NULL;
  if (used) memcpy(larger, array, (size_t)used * size);
  tt_free(array);
  return larger;
}

/* Makes room for `more` elements after the `used` ones; 0 if it cannot. */
static int reserve(void **array, int32_t *room, int32_t used, int32_t more, size_t size)
{
  if (more <= *room - used) return 1;
  int64_t wanted = (int64_t)used * 2 > (int64_t)used + more ? (int64_t)used * 2 : (int64_t)used + more;
  if (wanted < 8) wanted = 8;
  if (wanted > INT32_MAX) return 0;
  void *larger = grown(*array, used, (int32_t)wanted, size);
  if (!larger) return 0;
  *array = larger;
  *room = (int32_t)wanted;
  return 1;
}

static int make_room(struct tt_schedule *s, int32_t nsrc, int32_t nto)
{
  void *steps = s->steps, *operands = s->operands, *peers = s->peers;
  int made = reserve(&steps, &s->step_room, s->nsteps, 1, sizeof *s->steps) &&
             reserve(&operands, &s->operand_room, s->noperands, nsrc, sizeof *s->operands) &&
             reserve(&peers, &s->peer_room, s->npeers, nto, sizeof *s->peers);
  s->steps = steps;
  s->operands = operands;
  s->peers = peers;
  return made;
}

static void step_keep(struct tt_schedule *schedule, const struct tt_step *step,
                      const struct tt_operand *sources, const int32_t *peers)
{
  if (!make_room(schedule, step->nsrc, step->nto)) {
    schedule->error = tt_fail(tuttiSystemError, "no memory for step %d of a schedule: give the process more",
                              (int)schedule->nsteps);
    return;
  }
  struct tt_step *added = &schedule->steps[schedule->nsteps++];
  *added = *step;
  added->src = schedule->noperands;
  added->to = schedule->npeers;
  memcpy(schedule->operands + added->src, sources, step->nsrc * sizeof *sources);
  if (peers && step->nto) memcpy(schedule->peers + added->to, peers, step->nto * sizeof *peers);
  schedule->noperands += step->nsrc;
  schedule->npeers += step->nto;
}

void tt_add(struct tt_schedule *schedule, const struct tt_step *step,
            const struct tt_operand *sources, const int32_t *peers)
{
  char reason[TT_REASON_BYTES];
  if (schedule->error || step->nblocks == 0) return;
  if (!tt_step_check(schedule, step, sources, peers, reason)) {
    schedule->error = tt_fail(tuttiInternalError, "schedule of rank %d of %d, step %d: %s",
                              (int)schedule->shape.rank, (int)schedule->shape.nranks,
                              (int)schedule->total, reason);
    return;
  }
  int is_kept = !schedule->keep || (schedule->total >= schedule->keep_from &&
                                    schedule->total - schedule->keep_from < schedule->keep);
  schedule->total++;
  int32_t slots = tt_step_slots(step, sources);
  if (slots > schedule->nslots) schedule->nslots = slots;
  if (is_kept) step_keep(schedule, step, sources, peers);
}

void tt_send(struct tt_schedule *schedule, struct tt_blocks blocks, struct tt_operand from, int32_t to)
{
  struct tt_step step = {.first = blocks.first, .nblocks = blocks.n, .nsrc = 1, .nto = 1};
  tt_add(schedule, &step, &from, &to);
}

void tt_recv(struct tt_schedule *schedule, struct tt_blocks blocks, int32_t from, struct tt_operand dst)
{
  tt_copy(schedule, blocks, tt_message(from), dst);
}

void tt_copy(struct tt_schedule *schedule, struct tt_blocks blocks, struct tt_operand from,
             struct tt_operand dst)
{
  struct tt_step step = {.first = blocks.first, .nblocks = blocks.n, .nsrc = 1, .dst = dst};
  tt_add(schedule, &step, &from, NULL);
}

void tt_reduce2(struct tt_schedule *schedule, struct tt_blocks blocks, struct tt_operand a,
                struct tt_operand b, struct tt_operand dst)
{
  struct tt_operand sources[2] = {a, b};
  struct tt_step step = {.first = blocks.first, .nblocks = blocks.n, .nsrc = 2, .dst = dst};
  tt_add(schedule, &step, sources, NULL);
}
