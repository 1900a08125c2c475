/* SPDX-License-Identifier: BSD-3-Clause */
/* A bound that no plan can beat. */
#include <math.h>

#include "planner/private.h"

/* The least time of a message of up to `most` bytes, and the least for which each byte holds the links. Pieces are
 * straight, so both are at an end of one. */
static void least_find(const struct tt_message_cost *cost, uint64_t most, double *message_us, double *byte_us)
{
  *message_us = *byte_us = HUGE_VAL;
  for (int32_t k = 0; k < cost->n && cost->pieces[k].from <= most; k++) {
    uint64_t last = k + 1 < cost->n && cost->pieces[k + 1].from <= most ? cost->pieces[k + 1].from - 1 : most;
    const uint64_t ends[2] = {cost->pieces[k].from ? cost->pieces[k].from : most > 0, last};
    for (int e = 0; e < 2; e++) {
      *message_us = fmin(*message_us, tt_message_us(cost, ends[e]));
      if (ends[e]) *byte_us = fmin(*byte_us, tt_message_held_us(cost, ends[e]) / (double)ends[e]);
    }
  }
  *message_us = fmin(*message_us, tt_message_us(cost, 0));
  if (most == 0) *byte_us = 0;
}

/* Every byte takes the least time, messages cost nothing besides, and any byte can overtake: this is Jackson's
 * preemptive schedule. It ends the first k tensors of forward, for each k, earlier than any other. */
static tuttiResult_t by_bytes(const struct tt_queue *queue, double byte_us, double *done_us)
{
  struct tt_stage stage = {.heap = NULL};
  struct tt_fusion_plan plan = {.ntensors = 0};
  struct tt_message_cost line = tt_message_cost_line(0, byte_us);
  tuttiResult_t result = tt_fusion_plan_start(&plan, queue);
  if (result == tuttiSuccess) result = tt_stage_make(&stage, queue->n);
  if (result == tuttiSuccess) {
    for (int32_t i = 0; i < queue->n; i++) tt_fusion_plan_group_add(&plan, queue, i + 1);
    tt_fusion_plan_slice(&plan, queue, &line, 1);
    uint64_t element = 0; /* no byte overtakes within an element */
    for (int32_t g = 0; g < plan.ngroups; g++)
      if (plan.groups[g].slice_bytes > element && plan.groups[g].bytes) element = plan.groups[g].slice_bytes;
    tt_stage_play(&stage, &plan, queue, &line);
    for (int32_t l = 0; l < queue->n; l++) /* rounding */
      done_us[l] = stage.done_us[l] * (1 - 1e-12) - byte_us * (double)element;
  }
  tt_stage_destroy(&stage);
  tt_fusion_plan_destroy(&plan);
  return result;
}

tuttiResult_t tt_fusion_bound_done(const struct tt_model *net, const struct tt_message_cost *cost, double *done_us)
{
  struct tt_queue queue = {.n = 0};
  double message_us, byte_us;
  tuttiResult_t result = tt_queue_make(&queue, net);
  if (result == tuttiSuccess) {
    least_find(cost, queue.before[queue.n], &message_us, &byte_us);
    result = by_bytes(&queue, byte_us, done_us);
  }
  for (int32_t l = 0; l < net->n && result == tuttiSuccess; l++) {
    const struct tt_tensor *tensor = &net->tensors[l];
    done_us[l] = fmax(done_us[l], tensor->ready_us + fmax(message_us, byte_us * (double)tensor->bytes));
  }
  tt_queue_destroy(&queue);
  return result;
}

tuttiResult_t tt_fusion_bound(const struct tt_model *net, const struct tt_message_cost *cost, double *iteration_us)
{
  double *done_us = tt_alloc((size_t)net->n, sizeof *done_us), us = net->backward_us;
  if (!done_us) return tt_fail(tuttiSystemError, "no memory for a bound of %d tensors: give the process more", net->n);
  tuttiResult_t result = tt_fusion_bound_done(net, cost, done_us);
  for (int32_t l = 0; l < net->n && result == tuttiSuccess; l++) us = fmax(us, done_us[l]) + net->tensors[l].forward_us;
  if (result == tuttiSuccess) *iteration_us = us;
  tt_free(done_us);
  return result;
}
