/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/private.h"

static tuttiResult_t no_memory(const struct tt_sim_maker *maker)
{
  return tt_fail(tuttiSystemError, "no memory to play %d ranks: give the process more",
                 (int)maker->play->shape.nranks);
}

/* Empties the schedule, but keeps its memory. */
static void restart(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_schedule old = *schedule;
  tt_schedule_init(schedule, shape);
  schedule->steps = old.steps;
  schedule->operands = old.operands;
  schedule->peers = old.peers;
  schedule->step_room = old.step_room;
  schedule->operand_room = old.operand_room;
  schedule->peer_room = old.peer_room;
}

static tuttiResult_t waits_derive(struct tt_sim_program *program, struct tt_sim_maker *maker)
{
  int32_t n = program->schedule.nsteps;
  if (n > maker->order_room) {
    tt_free(maker->order);
    maker->order = tt_alloc((size_t)n, sizeof *maker->order);
    maker->order_room = maker->order ? n : 0;
    if (!maker->order) return no_memory(maker);
  }
  if (n > program->wait_room) {
    tt_free(program->waits);
    program->waits = tt_alloc((size_t)n, sizeof *program->waits);
    program->wait_room = program->waits ? n : 0;
    if (!program->waits) return no_memory(maker);
  }
  tt_order_derive(&program->schedule, maker->order);
  for (int32_t i = 0; i < n; i++) program->waits[i] = maker->order[i].finished | maker->order[i].started;
  return tuttiSuccess;
}

tuttiResult_t tt_sim_program_load(struct tt_sim_program *program, struct tt_sim_maker *maker, int32_t rank,
                                  int32_t from)
{
  struct tt_schedule *schedule = &program->schedule;
  struct tt_shape shape = maker->play->shape;
  shape.rank = rank;
  restart(schedule, &shape);
  schedule->keep_from = from;
  schedule->keep = maker->keep;
  maker->play->generate(schedule, &shape, maker->play->context);
  if (schedule->error) return schedule->error;
  program->from = from;
  if (!maker->keep) schedule->total = schedule->nsteps; /* passes do not count */
  return waits_derive(program, maker);
}

void tt_sim_program_free(struct tt_sim_program *program)
{
  tt_schedule_destroy(&program->schedule);
  tt_free(program->waits);
  program->waits = NULL;
}
