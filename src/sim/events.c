/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/private.h"

#include <string.h>

#define WAYS 4 /* children of a node: flatter than with 2, and they lie in two cache lines */

static int is_sooner(const struct tt_sim_event *a, const struct tt_sim_event *b)
{
  return a->at_us != b->at_us ? a->at_us < b->at_us : a->number < b->number;
}

static int grow(struct tt_sim_events *events)
{
  int64_t room = events->room ? 2 * events->room : 1024;
  struct tt_sim_event *heap = tt_alloc((size_t)room, sizeof *heap);
  if (!heap) return 0;
  if (events->n) memcpy(heap, events->heap, (size_t)events->n * sizeof *heap);
  tt_free(events->heap);
  events->heap = heap;
  events->room = room;
  return 1;
}

int tt_sim_push(struct tt_sim_events *events, const struct tt_sim_event *event)
{
  if (events->n == events->room && !grow(events)) return 0;
  struct tt_sim_event now = *event;
  now.number = events->number++;
  int64_t at = events->n++;
  if (events->n > events->peak) events->peak = events->n;
  while (at && is_sooner(&now, &events->heap[(at - 1) / WAYS])) {
    events->heap[at] = events->heap[(at - 1) / WAYS];
    at = (at - 1) / WAYS;
  }
  events->heap[at] = now;
  return 1;
}

static int64_t soonest_child(const struct tt_sim_events *events, int64_t at)
{
  int64_t best = WAYS * at + 1, end = best + WAYS < events->n ? best + WAYS : events->n;
  for (int64_t child = best + 1; child < end; child++)
    if (is_sooner(&events->heap[child], &events->heap[best])) best = child;
  return best;
}

struct tt_sim_event tt_sim_pop(struct tt_sim_events *events)
{
  struct tt_sim_event first = events->heap[0], last = events->heap[--events->n];
  int64_t at = 0;
  while (WAYS * at + 1 < events->n) {
    int64_t child = soonest_child(events, at);
    if (!is_sooner(&events->heap[child], &last)) break;
    events->heap[at] = events->heap[child];
    at = child;
  }
  events->heap[at] = last;
  return first;
}
