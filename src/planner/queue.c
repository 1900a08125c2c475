/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in the order in which their gradients are ready. */
#include <math.h>
#include <stdlib.h>

#include "planner/private.h"

tuttiResult_t tt_model_check(const struct tt_model *net)
{
  if (net->n < 1 || net->n > TT_PLAN_TENSORS)
    return tt_fail(tuttiInvalidArgument, "there are %d tensors: give 1 to %d", (int)net->n, TT_PLAN_TENSORS);
  for (int32_t l = 0; l < net->n; l++) {
    const struct tt_tensor *tensor = &net->tensors[l];
    if (tensor->count ? tensor->bytes % tensor->count != 0 || !tensor->bytes : tensor->bytes != 0)
      return tt_fail(tuttiInvalidArgument, "tensor %d has %llu bytes for %llu elements: give as many for each",
                     (int)l + 1, (unsigned long long)tensor->bytes, (unsigned long long)tensor->count);
    if (tensor->bytes > (uint64_t)1 << 48)
      return tt_fail(tuttiInvalidArgument, "tensor %d has %llu bytes: give at most 2^48", (int)l + 1,
                     (unsigned long long)tensor->bytes);
    if (!(tensor->ready_us >= 0 && tensor->ready_us <= net->backward_us))
      return tt_fail(tuttiInvalidArgument, "tensor %d is ready at %g us: give a time from 0 to the end of backward, %g",
                     (int)l + 1, tensor->ready_us, net->backward_us);
    if (!(tensor->spread_us >= 0 && isfinite(tensor->spread_us)))
      return tt_fail(tuttiInvalidArgument, "the ready time of tensor %d has a spread of %g us: give a time from 0 on",
                     (int)l + 1, tensor->spread_us);
    if (!(tensor->forward_us >= 0 && isfinite(tensor->forward_us)))
      return tt_fail(tuttiInvalidArgument, "forward of tensor %d takes %g us: give a time from 0 on", (int)l + 1,
                     tensor->forward_us);
  }
  if (!isfinite(net->backward_us))
    return tt_fail(tuttiInvalidArgument, "backward takes %g us: give a time from 0 on", net->backward_us);
  return tuttiSuccess;
}

struct entry {
  double ready_us;
  int32_t tensor;
};

static int is_later(const void *a, const void *b)
{
  const struct entry *one = a, *other = b;
  if (one->ready_us != other->ready_us) return one->ready_us < other->ready_us ? -1 : 1;
  return one->tensor > other->tensor ? -1 : 1;
}

static tuttiResult_t queue_allocate(struct tt_queue *queue, struct entry **entries)
{
  size_t n = (size_t)queue->n;
  *entries = tt_alloc(n, sizeof **entries);
  queue->order = tt_alloc(n, sizeof *queue->order);
  queue->ready_us = tt_alloc(n, sizeof *queue->ready_us);
  queue->before = tt_alloc(n + 1, sizeof *queue->before);
  queue->scratch = tt_alloc(n, sizeof *queue->scratch);
  queue->picks = tt_alloc(n, sizeof *queue->picks);
  queue->types = tt_alloc(n, sizeof *queue->types);
  queue->parts = tt_alloc(n, sizeof *queue->parts);
  if (*entries && queue->order && queue->ready_us && queue->before && queue->scratch && queue->picks && queue->types &&
      queue->parts)
    return tuttiSuccess;
  return tt_fail(tuttiSystemError, "no memory to plan %d tensors: give the process more", (int)queue->n);
}

/* Returns the number of a type, a new one if it was not there before. */
static int32_t type_number(struct tt_queue *queue, int32_t type)
{
  int32_t k = 0;
  while (k < queue->ntypes && queue->parts[k].type != type) k++;
  if (k == queue->ntypes) queue->parts[queue->ntypes++].type = type;
  return k;
}

tuttiResult_t tt_queue_make(struct tt_queue *queue, const struct tt_model *net)
{
  struct tt_queue made = {.n = net->n, .net = net};
  struct entry *entries;
  tuttiResult_t result = queue_allocate(&made, &entries);
  if (result != tuttiSuccess) {
    tt_free(entries);
    tt_queue_destroy(&made);
    return result;
  }
  for (int32_t l = 0; l < net->n; l++) entries[l] = (struct entry){net->tensors[l].ready_us, l};
  qsort(entries, (size_t)net->n, sizeof entries[0], is_later);
  for (int32_t i = 0; i < net->n; i++) {
    made.order[i] = entries[i].tensor;
    made.types[i] = type_number(&made, net->tensors[entries[i].tensor].type);
    made.ready_us[i] = entries[i].ready_us;
    made.before[i + 1] = made.before[i] + net->tensors[entries[i].tensor].bytes;
  }
  tt_free(entries);
  *queue = made;
  return tuttiSuccess;
}

void tt_queue_destroy(struct tt_queue *queue)
{
  tt_free(queue->order);
  tt_free(queue->ready_us);
  tt_free(queue->before);
  tt_free(queue->scratch);
  tt_free(queue->picks);
  tt_free(queue->types);
  tt_free(queue->parts);
}
