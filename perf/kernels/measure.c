/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring, in rounds: each goes through all items at all levels. The buffers of all items lie in one arena, on both
 * sides of its middle: below it what is written, above it what is only read. So the sources of one item are never
 * another's results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels.h"

#define GAP (17 * 64)    /* between buffers, so that their addresses differ in the low bits */
#define BATCH_US 300.0   /* a sample takes about this long, or one call */
#define CALLS_MAX 100000
#define ROUNDS_MIN 3
#define TILE_BYTES 8184  /* repeated; a multiple of 8 that is none of a page */

struct arena {
  char *base, *middle;
  size_t side; /* bytes on either side of the middle */
  _Alignas(8) char tile[TILE_BYTES];
  int tile_type;
};

/* Buffers of one item at one level. */
struct place {
  char *dst, *also;
  const void *sources[SOURCES_MAX];
  size_t count, written; /* bytes below the middle */
};

struct run {
  struct results *results;
  const struct options *options;
  struct arena arena;
  double begin_us, done_us, round_us; /* estimates: of what is done, and of a round */
  double told_us;
  int is_terminal, round;
};

/* ---- data ---- */

/* One element: integers take any value; floats are 1 or -1, so that neither sums nor products in place become
 * infinite or subnormal, which would take another time. */
static uint64_t element_of(int type, uint64_t random)
{
  float one = random & 1 ? -1 : 1;
  double wide = one;
  uint64_t bits = random;
  if (type == tuttiFloat64) memcpy(&bits, &wide, sizeof bits);
  else if (tt_type_is_float(type)) bits = tt_float_from_fp32(type, one);
  return bits;
}

static void tile_make(struct arena *arena, int type)
{
  uint64_t state = 88172645463325252u;
  int part = tt_type_part(type);
  size_t size = tt_type_size(part);
  for (size_t at = 0; at < TILE_BYTES; at += size) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    uint64_t bits = element_of(part, state >> 20);
    memcpy(arena->tile + at, &bits, size); /* little endian */
  }
  arena->tile_type = type;
}

static void fill(const struct arena *arena, char *at, size_t len)
{
  for (; len > TILE_BYTES; at += TILE_BYTES, len -= TILE_BYTES) memcpy(at, arena->tile, TILE_BYTES);
  memcpy(at, arena->tile, len);
}

static int arena_open(struct arena *arena, size_t set)
{
  size_t huge = (size_t)2 << 20, side = (set + (SOURCES_MAX + 2) * GAP + huge - 1) / huge * huge;
  arena->side = side;
  arena->base = mmap(NULL, 2 * side, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena->base == MAP_FAILED) {
    complain("no memory for %zu MiB of buffers: %s", 2 * side >> 20, strerror(errno));
    return 0;
  }
  madvise(arena->base, 2 * side, MADV_HUGEPAGE);
  arena->middle = arena->base + side;
  tile_make(arena, tuttiFloat32);
  fill(arena, arena->base, 2 * side);
  return 1;
}

static size_t padded(size_t len)
{
  return (len + 63) / 64 * 64 + GAP;
}

static void place_make(struct place *place, const struct arena *arena, const struct item *item, size_t count)
{
  char *read = arena->middle;
  place->count = count;
  place->dst = arena->middle - padded(count * item->dst_bytes);
  place->also = item->also_bytes ? place->dst - padded(count * item->also_bytes) : NULL;
  place->written = (size_t)(arena->middle - place->dst);
  for (int k = 0; k < item->nsrc; k++) {
    int is_dst = k == 0 && item->in_place;
    place->sources[k] = is_dst ? place->dst : read;
    if (!is_dst) read += padded(count * item->source_bytes[k]);
  }
}

/* ---- one sample ---- */

static void call_passes(const struct item *item, const struct place *place)
{
  item->run(place->dst, place->sources, 2, place->count, &tt_reduce_plainly);
  for (int k = 2; k < item->nsrc; k++) {
    const void *two[2] = {place->dst, place->sources[k]};
    item->run(place->dst, two, 2, place->count, &tt_reduce_plainly);
  }
}

static double calls_us(const struct item *item, const struct place *place, int calls)
{
  struct tt_reduce_arg args[2] = {item->args[0], item->args[1]};
  args[0].also = args[1].also = place->also;
  double begin = now_us();
  for (int i = 0; i < calls; i++) {
    if (item->kind == PASSES) call_passes(item, place);
    else item->run(place->dst, place->sources, item->nsrc, place->count, &args[i & 1]);
  }
  return now_us() - begin;
}

/* Time of `calls` calls. In caches one more goes before them, which brings the buffers there. */
static double sample_us(const struct arena *arena, const struct item *item, const struct place *place, int calls,
                        int level)
{
  double us = 0;
  if (item->in_place) fill(arena, place->dst, place->written);
  if (level != MEMORY) calls_us(item, place, 2);
  if (!item->is_refilled) return calls_us(item, place, calls);
  for (int i = 0; i < calls; i++) {
    fill(arena, place->dst, place->written);
    us += calls_us(item, place, 1);
  }
  return us;
}

/* ---- rounds ---- */

static void progress(struct run *run, int level, const struct item *item)
{
  double now = now_us(), spent = now - run->begin_us, left = 0;
  if (now - run->told_us < (run->is_terminal ? 2e5 : 10e6)) return;
  run->told_us = now;
  if (run->done_us > 0) left = spent / run->done_us * (run->round_us * run->results->rounds - run->done_us) / 1e6;
  if (left < 0) left = 0;
  if (run->is_terminal) fputs("\r", stderr);
  if (run->round < 0) fprintf(stderr, "kernel_perf: trying out %s", level_names[level]);
  else fprintf(stderr, "kernel_perf: round %d of %d, %s: %s %s %s %s; about %.0f s left", run->round + 1,
               run->results->rounds, level_names[level], item->table, tt_type_name(item->type), item->op, item->shape,
               left);
  fputs(run->is_terminal ? "\033[K" : "\n", stderr);
}

/* Data of the item's type in all sources, unless they are there. */
static void sources_fill(struct run *run, const struct item *item, size_t set)
{
  if (run->arena.tile_type == item->type) return;
  tile_make(&run->arena, item->type);
  fill(&run->arena, run->arena.middle, set + SOURCES_MAX * GAP);
}

/* How many calls make a sample: 1 in memory, where a call is long and nothing is left from the one before. */
static int calls_choose(struct run *run, const struct item *item, const struct place *place, int level, double *us)
{
  double batch = run->options->quick ? BATCH_US / 3 : BATCH_US;
  int calls = 1;
  *us = sample_us(&run->arena, item, place, 1, level);
  if (level == MEMORY) return 1;
  while (*us < batch / 4 && calls < CALLS_MAX) {
    calls *= 4;
    *us = sample_us(&run->arena, item, place, calls, level);
  }
  double enough = *us < batch ? batch / *us * calls : calls;
  *us *= enough / calls;
  return (int)enough;
}

static void item_measure(struct run *run, int level, int i)
{
  const struct item *item = &run->results->items->list[i];
  struct point *point = point_of(run->results, level, i);
  size_t set = run->results->machine->levels[level].set_bytes;
  struct place place;
  if (!(item->levels >> level & 1) || !set) return;
  progress(run, level, item);
  point->count = set / item_occupies(item) / 64 * 64;
  place_make(&place, &run->arena, item, point->count);
  sources_fill(run, item, set);
  if (run->round < 0) {
    point->calls = calls_choose(run, item, &place, level, &point->us[0]);
    run->round_us += point->us[0];
    return;
  }
  if (run->round == 0) point->n = 0;
  double us = sample_us(&run->arena, item, &place, point->calls, level);
  point->us[point->n++] = us / point->calls;
  run->done_us += us;
}

/* All items at all levels. Each round starts elsewhere among the items, so that none is always after the same. */
static void round_go(struct run *run)
{
  int n = run->results->items->n, first = run->round < 0 ? 0 : run->round * n / run->results->rounds;
  for (int level = 0; level < LEVELS; level++) {
    run->arena.tile_type = -1;
    for (int i = 0; i < n; i++) item_measure(run, level, (first + i) % n);
  }
}

/* How many rounds there is time for until end_us, `done` among them, if each of the others takes took_us. */
static int rounds_fit(const struct run *run, int done, double took_us, double end_us)
{
  double rounds = done + (end_us - now_us()) / took_us;
  int least = run->options->quick ? 1 : ROUNDS_MIN;
  if (least < done) least = done;
  return rounds < least ? least : rounds > ROUNDS_MAX ? ROUNDS_MAX : (int)rounds;
}

/* As many rounds as were chosen, but fewer where they take longer than was expected. */
static void rounds_go(struct run *run, double end_us)
{
  run->begin_us = now_us();
  for (run->round = 0; run->round < run->results->rounds; run->round++) {
    double begin = now_us();
    round_go(run);
    int fit = rounds_fit(run, run->round + 1, now_us() - begin, end_us);
    if (fit < run->results->rounds) run->results->rounds = fit;
  }
}

static size_t set_largest(const struct results *results)
{
  size_t largest = 0;
  for (int level = 0; level < LEVELS; level++)
    for (int i = 0; i < results->items->n; i++) {
      size_t set = results->machine->levels[level].set_bytes;
      if (results->items->list[i].levels >> level & 1 && set > largest) largest = set;
    }
  return largest;
}

int measure(struct results *results, const struct options *options)
{
  static struct run run; /* long for a stack */
  size_t n = (size_t)results->items->n;
  run = (struct run){.results = results, .options = options, .is_terminal = isatty(STDERR_FILENO), .round = -1};
  results->points = calloc(n * LEVELS, sizeof *results->points);
  if (!results->points) {
    complain("no memory for %zu points", n * LEVELS);
    return 0;
  }
  run.told_us = now_us();
  double end = now_us() + options->minutes * 60e6;
  if (!arena_open(&run.arena, set_largest(results))) return 0;
  double begin = now_us();
  round_go(&run);
  results->rounds = rounds_fit(&run, 0, now_us() - begin, end);
  rounds_go(&run, end);
  if (run.is_terminal) fprintf(stderr, "\r\033[K");
  munmap(run.arena.base, 2 * run.arena.side);
  return 1;
}

/* ---- what was measured ---- */

struct point *point_of(const struct results *results, int level, int item)
{
  return &results->points[level * results->items->n + item];
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double point_us(const struct results *results, int level, int item)
{
  const struct point *point = point_of(results, level, item);
  double us[ROUNDS_MAX];
  int n = point->n;
  if (!n) return 0;
  memcpy(us, point->us, (size_t)n * sizeof *us);
  qsort(us, (size_t)n, sizeof *us, by_value);
  return (us[n / 2] + us[(n - 1) / 2]) / 2;
}

double point_gbs(const struct results *results, int level, int item)
{
  double us = point_us(results, level, item);
  size_t bytes = point_of(results, level, item)->count * item_moves(&results->items->list[item]);
  return us > 0 ? (double)bytes / us / 1e3 : 0;
}

int limit_best(const struct results *results, int level, enum limit limit)
{
  int best = -1;
  for (int i = 0; i < results->items->n; i++) {
    const struct item *item = &results->items->list[i];
    int is_one = item->kind == LIMIT && item->own == limit;
    if (is_one && (best < 0 || point_gbs(results, level, i) > point_gbs(results, level, best))) best = i;
  }
  return best;
}
