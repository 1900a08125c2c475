/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule/value_private.h"

#include <string.h>

#include "sched/sched.h"

/* Ranks start .. end - 1. The spans of a value ascend and do not touch each other. */
struct span {
  int32_t start, end;
};

struct value {
  int32_t parts, nparts; /* index into values->parts */
  int32_t spans, nspans; /* index into values->spans */
  int32_t count;
  uint64_t hash;
};

/* Everything is referred to by index, since the arrays move when they grow. */
struct tt_values {
  struct value *values;
  int32_t *parts;
  struct span *spans;
  int32_t *buckets; /* open addressing by parts; 0 is free */
  size_t nvalues, nparts, nspans, nbuckets; /* nbuckets: a power of two */
  size_t value_room, part_room, span_room;
};

/* Makes *array hold `need` elements; 0 if it cannot. */
static int grow(void **array, size_t *room, size_t used, size_t need, size_t size)
{
  if (need <= *room) return 1;
  size_t larger = *room * 2 > need ? *room * 2 : need;
  if (larger > INT32_MAX) return 0;
  void *moved = tt_alloc(larger, size);
  if (!moved) return 0;
  if (used) memcpy(moved, *array, used * size);
  tt_free(*array);
  *array = moved;
  *room = larger;
  return 1;
}

static int reserve(struct tt_values *v, size_t parts, size_t spans)
{
  void *values = v->values, *all_parts = v->parts, *all_spans = v->spans;
  int made = grow(&values, &v->value_room, v->nvalues, v->nvalues + 1, sizeof *v->values) &&
             grow(&all_parts, &v->part_room, v->nparts, v->nparts + parts, sizeof *v->parts) &&
             grow(&all_spans, &v->span_room, v->nspans, v->nspans + spans, sizeof *v->spans);
  v->values = values;
  v->parts = all_parts;
  v->spans = all_spans;
  return made;
}

struct tt_values *tt_values_create(int32_t nranks)
{
  struct tt_values *v = tt_alloc(1, sizeof *v);
  if (!v) return NULL;
  size_t room = (size_t)nranks + 1;
  v->nbuckets = 1024;
  v->buckets = tt_alloc(v->nbuckets, sizeof *v->buckets);
  v->values = tt_alloc(room, sizeof *v->values);
  v->spans = tt_alloc(room, sizeof *v->spans);
  if (!v->buckets || !v->values || !v->spans) {
    tt_values_destroy(v);
    return NULL;
  }
  for (int32_t rank = 0; rank < nranks; rank++) {
    v->spans[rank] = (struct span){rank, rank + 1};
    v->values[tt_value_of_rank(rank)] = (struct value){
        .spans = rank, .nspans = 1, .count = 1, .hash = ((uint64_t)rank + 1) * 0x9e3779b97f4a7c15u};
  }
  v->nvalues = v->value_room = v->span_room = room;
  v->nspans = (size_t)nranks;
  return v;
}

void tt_values_destroy(struct tt_values *values)
{
  if (!values) return;
  tt_free(values->buckets);
  tt_free(values->values);
  tt_free(values->parts);
  tt_free(values->spans);
  tt_free(values);
}

int32_t tt_value_of_rank(int32_t rank)
{
  return rank + 1;
}

int32_t tt_value_count(const struct tt_values *values, int32_t value)
{
  return values->values[value].count;
}

int32_t tt_value_lowest(const struct tt_values *values, int32_t value)
{
  return values->spans[values->values[value].spans].start;
}

uint64_t tt_value_hash(const struct tt_values *values, int32_t value)
{
  return values->values[value].hash;
}

int32_t tt_value_lacks(const struct tt_values *values, int32_t value)
{
  struct span first = values->spans[values->values[value].spans];
  return first.start > 0 ? 0 : first.end;
}

static size_t hash(const int32_t *parts, int32_t nparts)
{
  uint64_t h = 1469598103934665603u;
  for (int32_t k = 0; k < nparts; k++) h = (h ^ (uint32_t)parts[k]) * 1099511628211u;
  return (size_t)(h ^ h >> 29);
}

/* The bucket that holds the combination of these parts, or the free one it belongs to. */
static int32_t *bucket(const struct tt_values *v, const int32_t *parts, int32_t nparts)
{
  size_t mask = v->nbuckets - 1, at = hash(parts, nparts) & mask;
  for (; v->buckets[at]; at = (at + 1) & mask) {
    const struct value *value = &v->values[v->buckets[at]];
    if (value->nparts == nparts &&
        memcmp(v->parts + value->parts, parts, (size_t)nparts * sizeof *parts) == 0)
      break;
  }
  return &v->buckets[at];
}

static int rehash(struct tt_values *v)
{
  int32_t *old = v->buckets;
  size_t nold = v->nbuckets;
  int32_t *buckets = tt_alloc(nold * 2, sizeof *buckets);
  if (!buckets) return 0;
  v->buckets = buckets;
  v->nbuckets = nold * 2;
  for (size_t k = 0; k < nold; k++) {
    if (!old[k]) continue;
    const struct value *value = &v->values[old[k]];
    *bucket(v, v->parts + value->parts, value->nparts) = old[k];
  }
  tt_free(old);
  return 1;
}

/* Takes the lowest span that is left in any of the parts; end 0 if none is. */
static struct span lowest_span(const struct tt_values *v, const int32_t *parts, int32_t nparts, int32_t *taken)
{
  struct span lowest = {INT32_MAX, 0};
  int32_t from = 0;
  for (int32_t k = 0; k < nparts; k++) {
    const struct value *value = &v->values[parts[k]];
    if (taken[k] == value->nspans || v->spans[value->spans + taken[k]].start >= lowest.start) continue;
    lowest = v->spans[value->spans + taken[k]];
    from = k;
  }
  if (lowest.end) taken[from]++;
  return lowest;
}

/* Appends the union of the parts to v->spans, for which there is room. */
static tuttiResult_t unite(struct tt_values *v, const int32_t *parts, int32_t nparts, struct value *made,
                           int32_t *twice)
{
  int32_t taken[TT_MAX_SOURCES] = {0};
  struct span *spans = v->spans + v->nspans;
  int32_t n = 0;
  for (;;) {
    struct span next = lowest_span(v, parts, nparts, taken);
    if (next.end == 0) break;
    if (n && next.start < spans[n - 1].end) {
      *twice = next.start;
      return tuttiInternalError;
    }
    made->count += next.end - next.start;
    if (n && next.start == spans[n - 1].end)
      spans[n - 1].end = next.end;
    else
      spans[n++] = next;
  }
  made->spans = (int32_t)v->nspans;
  made->nspans = n;
  return tuttiSuccess;
}

tuttiResult_t tt_value_combine(struct tt_values *values, const int32_t *parts, int32_t nparts,
                               int32_t *combined, int32_t *twice)
{
  struct value made = {.parts = (int32_t)values->nparts, .nparts = nparts};
  int32_t known = *bucket(values, parts, nparts);
  if (known) {
    *combined = known;
    return tuttiSuccess;
  }
  size_t nspans = 0;
  for (int32_t k = 0; k < nparts; k++) nspans += (size_t)values->values[parts[k]].nspans;
  if (!reserve(values, (size_t)nparts, nspans) ||
      (values->nvalues * 2 > values->nbuckets && !rehash(values)))
    return tt_fail(tuttiSystemError, "no memory for a proof with %zu values: give the process more",
                   values->nvalues);
  tuttiResult_t code = unite(values, parts, nparts, &made, twice);
  if (code) return code;
  memcpy(values->parts + values->nparts, parts, (size_t)nparts * sizeof *parts);
  made.hash = (uint64_t)nparts;
  for (int32_t k = 0; k < nparts; k++) {
    made.hash = (made.hash ^ values->values[parts[k]].hash) * 0xbf58476d1ce4e5b9u;
    made.hash ^= made.hash >> 31;
  }
  values->values[values->nvalues] = made;
  *bucket(values, parts, nparts) = (int32_t)values->nvalues;
  *combined = (int32_t)values->nvalues++;
  values->nparts += (size_t)nparts;
  values->nspans += (size_t)made.nspans;
  return tuttiSuccess;
}
