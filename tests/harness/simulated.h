/* SPDX-License-Identifier: BSD-3-Clause */
/* For simulations by seed: what is to happen, in order, on what links, and what must hold. The world of such a test is
 * a static struct `w` with `seed` and `now`. With --traces each world tells by a hash what has happened in it, which
 * unit.seeds compares. To be included behind cmocka.h. */
#ifndef SIMULATED_H
#define SIMULATED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/priority.h"
#include "chance.h"
#include "seeds.h"

#define CHECK(holds, ...) \
  do { \
    if (!(holds)) { \
      fprintf(stderr, "seed %llu, time %llu: ", (unsigned long long)w.seed, (unsigned long long)w.now); \
      fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), fail(); \
    } \
  } while (0)

/* The times at which things have happened in the present world. */
static uint64_t trace_hash;

/* The world has ended, with this state of its chance. */
static inline void trace_end(uint64_t seed, uint64_t chance)
{
  if (seeds_traced) printf("seed %llu: %016llx\n", (unsigned long long)seed, (unsigned long long)(trace_hash ^ chance));
  trace_hash = 0;
}

/* Notes of what is to happen: in the order of times; at one time in that in which they were added. */
struct agenda {
  struct tt_priority_queue notes;
  uint64_t n; /* notes so far */
  void *note; /* that happens now */
};

/* Adds a copy of a note. */
static inline void agenda_add(struct agenda *agenda, uint64_t time, const void *note, size_t bytes)
{
  void *copy = malloc(bytes);
  assert_non_null(copy);
  memcpy(copy, note, bytes);
  assert_true(tt_priority_reserve(&agenda->notes, agenda->notes.n + 1));
  tt_priority_push(&agenda->notes, time, agenda->n++, copy);
}

/* The next note, and its time; it is there until the next call. NULL: there is none, and the agenda is empty memory. */
static inline void *agenda_next(struct agenda *agenda, uint64_t *now)
{
  free(agenda->note);
  agenda->note = tt_priority_first(&agenda->notes);
  if (agenda->note) {
    *now = agenda->notes.entries[0].urgency;
    trace_hash = (trace_hash ^ *now) * 0x9e3779b97f4a7c15u;
    tt_priority_pop(&agenda->notes);
  } else tt_priority_free(&agenda->notes);
  return agenda->note;
}

/* Notes that wait for something else than a time: adds a copy. */
static inline void agenda_put_off(struct agenda *later, const void *note, size_t bytes)
{
  agenda_add(later, 0, note, bytes);
}

/* Gives them to `deliver` in their order, once; it may put off others. */
static inline void agenda_deliver(struct agenda *later, void (*deliver)(const void *note))
{
  struct agenda notes = *later;
  uint64_t time;
  *later = (struct agenda){.n = 0};
  for (const void *note; (note = agenda_next(&notes, &time));) deliver(note);
}

/* Forgets those that are left. */
static inline void agenda_free(struct agenda *agenda)
{
  uint64_t time;
  while (agenda_next(agenda, &time)) continue;
}

/* The time at which a message that takes until `at` arrives over a link that keeps the order. */
static inline uint64_t link_time(uint64_t *free_at, uint64_t at)
{
  *free_at = at > *free_at ? at : *free_at;
  return *free_at;
}

/* A set of ranks, a bit for each. */
static inline int has(uint64_t set, int rank)
{
  return (int)(set >> rank & 1);
}

#endif
