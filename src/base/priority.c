/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/priority.h"

#include <string.h>

#include "base/alloc.h"

int tt_priority_reserve(struct tt_priority_queue *queue, size_t n)
{
  if (n <= queue->room) return 1;
  size_t room = n > 2 * queue->room ? n : 2 * queue->room;
  struct tt_priority_entry *entries = tt_alloc(room, sizeof *entries);
  if (!entries) return 0;
  if (queue->n) memcpy(entries, queue->entries, queue->n * sizeof *entries);
  tt_free(queue->entries);
  queue->entries = entries;
  queue->room = room;
  return 1;
}

void tt_priority_free(struct tt_priority_queue *queue)
{
  tt_free(queue->entries);
  *queue = (struct tt_priority_queue){0};
}

static int is_before(const struct tt_priority_entry *a, const struct tt_priority_entry *b)
{
  return a->urgency != b->urgency ? a->urgency < b->urgency : a->order < b->order;
}

void tt_priority_push(struct tt_priority_queue *queue, uint64_t urgency, uint64_t order, void *item)
{
  struct tt_priority_entry entry = {urgency, order, item}, *entries = queue->entries;
  size_t at = queue->n++;
  for (; at && is_before(&entry, &entries[(at - 1) / 2]); at = (at - 1) / 2) entries[at] = entries[(at - 1) / 2];
  entries[at] = entry;
}

void *tt_priority_first(const struct tt_priority_queue *queue)
{
  return queue->n ? queue->entries[0].item : NULL;
}

void tt_priority_pop(struct tt_priority_queue *queue)
{
  struct tt_priority_entry *entries = queue->entries, last = entries[--queue->n];
  size_t at = 0, child;
  while ((child = 2 * at + 1) < queue->n) {
    if (child + 1 < queue->n && is_before(&entries[child + 1], &entries[child])) child++;
    if (!is_before(&entries[child], &last)) break;
    entries[at] = entries[child];
    at = child;
  }
  entries[at] = last;
}
