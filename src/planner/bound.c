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
 * preemptive schedule, the shortest one for a machine with ready times and tails. */
static tuttiResult_t by_bytes(const struct tt_queue *queue, double byte_us, double *us)
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
    *us = tt_stage_play(&stage, &plan, queue, &line) * (1 - 1e-12) - byte_us * (double)element; /* rounding */
  }
  tt_stage_destroy(&stage);
  tt_fusion_plan_destroy(&plan);
  return result;
}

tuttiResult_t tt_fusion_bound(const struct tt_model *net, const struct tt_message_cost *cost, double *iteration_us)
{
  struct tt_queue queue = {.n = 0};
  double message_us, byte_us, us = 0, tail_us = 0;
  tuttiResult_t result = tt_queue_make(&queue, net);
  if (result == tuttiSuccess) {
    least_find(cost, queue.before[queue.n], &message_us, &byte_us);
    result = by_bytes(&queue, byte_us, &us);
  }
  for (int32_t l = net->n - 1; result == tuttiSuccess && l >= 0; l--) {
    const struct tt_tensor *tensor = &net->tensors[l];
    tail_us += tensor->forward_us;
    us = fmax(us, tensor->ready_us + fmax(message_us, byte_us * (double)tensor->bytes) + tail_us);
  }
  if (result == tuttiSuccess) *iteration_us = fmax(us, net->backward_us + tail_us);
  tt_queue_destroy(&queue);
  return result;
}
