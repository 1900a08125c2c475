/* SPDX-License-Identifier: BSD-3-Clause */
/* A priority queue, a binary heap: items in the order of two numbers, of which the first one counts more. */
#ifndef TT_BASE_PRIORITY_H
#define TT_BASE_PRIORITY_H

#include <stddef.h>
#include <stdint.h>

struct tt_priority_entry {
  uint64_t urgency, order;
  void *item;
};

/* A zeroed one is empty. */
struct tt_priority_queue {
  struct tt_priority_entry *entries;
  size_t n, room;
};

/* Makes room for n items in all. Returns 0 if there is no memory: then nothing has changed. */
int tt_priority_reserve(struct tt_priority_queue *queue, size_t n);
void tt_priority_free(struct tt_priority_queue *queue);

/* Adds an item, for which there is room. */
void tt_priority_push(struct tt_priority_queue *queue, uint64_t urgency, uint64_t order, void *item);

/* The item with the smallest numbers; NULL: the queue is empty. pop removes it. */
void *tt_priority_first(const struct tt_priority_queue *queue);
void tt_priority_pop(struct tt_priority_queue *queue);

#endif
