/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce kernels of rank 0's core: in place, as collectives combine, with all that a call touches in one level of
 * cache. And copies, which are what a rank sends to itself. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/private.h"
#include "reduce/reduce.h"

#define ROUNDS 9
#define BATCH_US 500.0
#define CALLS_MOST 100000
#define LINE 64
#define PAGE 4096                   /* or more */
#define GAP (17 * LINE)             /* between vectors, so that their addresses differ in the low bits */
#define MEMORY_LEAST ((size_t)64 << 20)
#define MEMORY_MOST ((size_t)256 << 20)

static const struct subject {
  uint8_t type, op;
} subjects[] = {{tuttiFloat32, tuttiSum},  {tuttiFloat64, tuttiSum}, {tuttiFloat16, tuttiSum},
                {tuttiBfloat16, tuttiSum}, {tuttiInt32, tuttiSum},   {tuttiFloat32, tuttiMax}};
#define SUBJECTS ((int)(sizeof subjects / sizeof *subjects))

static const int sources[] = {2, 4};
#define SOURCES 2

struct kernel {
  int subject, nsrc, calls;
  enum tt_level level;
  size_t bytes; /* of each vector */
  double us[ROUNDS];
  int n;
};

#define COPY_SIZES 22 /* 8 B, 16 B, .. 16 MiB */
#define COPY_TRIES 3

struct copies {
  double us[COPY_SIZES][ROUNDS];
  int n;
};

#define KERNELS (SUBJECTS * SOURCES * TT_LEVELS)

/* One word of what Linux says of this core's index-th cache; "" if there is none. */
static void cache_word(char word[32], int index, const char *name)
{
  char path[128];
  int core = sched_getcpu();
  word[0] = 0;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", core > 0 ? core : 0, index, name);
  FILE *file = fopen(path, "r");
  if (!file) return;
  if (fscanf(file, "%31s", word) != 1) word[0] = 0;
  fclose(file);
}

/* Bytes of L1 to L3; what is not known stays as it is. */
static void caches_read(size_t caches[TT_LEVELS])
{
  char word[32], *end;
  for (int index = 0; index < 8; index++) {
    cache_word(word, index, "type");
    if (!word[0] || !strcmp(word, "Instruction")) continue;
    cache_word(word, index, "level");
    int level = atoi(word) - 1;
    cache_word(word, index, "size");
    size_t len = strtoull(word, &end, 10);
    len *= *end == 'K' ? (size_t)1 << 10 : *end == 'M' ? (size_t)1 << 20 : 1;
    if (level >= TT_LEVEL_L1 && level <= TT_LEVEL_L3 && len) caches[level] = len;
  }
}

/* Half of L1 and L2, so that nothing else has to leave; a quarter of L3, which is shared; four times L3, of which
 * nothing is left in it when it is needed again. 0: there is no such level. */
static void sets_choose(size_t sets[TT_LEVELS])
{
  size_t caches[TT_LEVELS] = {(size_t)32 << 10, (size_t)1 << 20, (size_t)32 << 20}, largest = 0;
  caches_read(caches);
  for (int level = TT_LEVEL_L1; level <= TT_LEVEL_L3; level++) {
    size_t set = caches[level] / (level == TT_LEVEL_L3 ? 4 : 2);
    sets[level] = set >= 2 * largest ? set : 0;
    if (caches[level] > largest) largest = caches[level];
  }
  sets[TT_LEVEL_MEMORY] = largest * 4 > MEMORY_MOST ? MEMORY_MOST : largest * 4;
  if (sets[TT_LEVEL_MEMORY] < MEMORY_LEAST) sets[TT_LEVEL_MEMORY] = MEMORY_LEAST;
}

static double calls_us(const struct kernel *kernel, char *arena, int calls)
{
  const struct subject *subject = &subjects[kernel->subject];
  tt_reduce_fn reduce = tt_reduce_kernel(subject->op, subject->type);
  const void *vectors[4];
  size_t count = kernel->bytes / tt_type_size(subject->type);
  for (int s = 0; s < kernel->nsrc; s++) vectors[s] = arena + (size_t)s * (kernel->bytes + GAP);
  double begin = now_us();
  for (int i = 0; i < calls; i++) reduce((void *)(uintptr_t)vectors[0], vectors, kernel->nsrc, count, NULL);
  return now_us() - begin;
}

/* In memory a call is long, and nothing is left from the one before. */
static void calls_choose(struct kernel *kernel, char *arena, double batch_us)
{
  kernel->calls = 1;
  if (kernel->level == TT_LEVEL_MEMORY) return;
  double us = calls_us(kernel, arena, 1);
  while (us < batch_us / 4 && kernel->calls < CALLS_MOST) {
    kernel->calls *= 4;
    us = calls_us(kernel, arena, kernel->calls);
  }
}

static int kernels_list(struct kernel *kernels)
{
  size_t sets[TT_LEVELS];
  int n = 0;
  sets_choose(sets);
  for (int level = 0; level < TT_LEVELS; level++)
    for (int i = 0; sets[level] && i < SUBJECTS * SOURCES; i++) {
      int nsrc = sources[i % SOURCES];
      kernels[n++] = (struct kernel){.subject = i / SOURCES,
                                     .nsrc = nsrc,
                                     .level = (enum tt_level)level,
                                     .bytes = sets[level] / (size_t)nsrc / LINE * LINE};
    }
  return n;
}

static void kernel_store(struct measure *m, struct kernel *kernel)
{
  double us = samples_summarise(kernel->us, kernel->n).median, mib = (double)kernel->bytes / (1 << 20);
  struct tt_profile_reduce reduce = {.type = subjects[kernel->subject].type,
                                     .op = subjects[kernel->subject].op,
                                     .nsrc = kernel->nsrc,
                                     .level = kernel->level,
                                     .bytes = kernel->bytes * (size_t)kernel->nsrc,
                                     .gamma_us_per_mib = us / (mib * (kernel->nsrc - 1)),
                                     .error_percent = samples_error_percent(kernel->us, kernel->n, us)};
  store_reduce(m, &reduce);
}

/* ---- copies ---- */

static size_t copy_bytes(int size)
{
  return (size_t)8 << size;
}

static double copies_us(const struct measure *m, int size, int times)
{
  tt_reduce_fn copy = tt_reduce_kernel(tuttiSum, tuttiUint8);
  const void *from = m->data;
  double begin = now_us();
  for (int i = 0; i < times; i++) copy(m->data + DATA_BYTES, &from, 1, copy_bytes(size), NULL);
  return now_us() - begin;
}

static void copies_round(struct measure *m, struct copies *copies, double batch_us)
{
  for (int size = 0; size < COPY_SIZES; size++) {
    double once = copies_us(m, size, COPY_TRIES) / COPY_TRIES, times = once > 0 ? batch_us / once : CALLS_MOST;
    times = times < 1 ? 1 : times > CALLS_MOST ? CALLS_MOST : times;
    copies->us[size][copies->n] = copies_us(m, size, (int)times) / (int)times;
  }
  copies->n++;
}

static void copies_store(struct measure *m, struct copies *copies)
{
  struct tt_profile_point points[COPY_SIZES];
  memset(points, 0, sizeof points);
  for (int size = 0; size < COPY_SIZES; size++) {
    struct summary sum = samples_summarise(copies->us[size], copies->n);
    points[size] = (struct tt_profile_point){.flow = {.kind = TT_LINK_SELF, .flows = 1, .ways = 2},
                                             .bytes = copy_bytes(size),
                                             .us = sum.median,
                                             .low_us = sum.low,
                                             .high_us = sum.high};
    snprintf(points[size].flow.transport, sizeof points[size].flow.transport, "%s", tt_transports[0]->name);
  }
  store_flow(m, points, COPY_SIZES, points[0].us);
}

/* ---- all ---- */

/* On rank 0. The levels one after the other, so that the arena's use of caches does not change all the time; within a
 * level all kernels in turn. */
static void arena_measure(struct measure *m, struct kernel *kernels, int n, char *arena, double seconds)
{
  double end_us = now_us() + seconds * 1e6, batch_us = seconds * 1e6 / (2.0 * KERNELS * ROUNDS);
  if (batch_us > BATCH_US) batch_us = BATCH_US;
  if (end_us > m->limit_us) end_us = m->limit_us;
  struct copies copies = {.n = 0};
  memset(m->data, 0, 2 * DATA_BYTES);
  for (int k = 0; k < n; k++) calls_choose(&kernels[k], arena, batch_us);
  for (int round = 0; round < ROUNDS && (round == 0 || now_us() < end_us); round++) {
    progress_tell(m, round / (double)ROUNDS, "reduce kernels");
    copies_round(m, &copies, batch_us);
    for (int k = 0; k < n; k++) {
      struct kernel *kernel = &kernels[k];
      if (kernel->level != TT_LEVEL_MEMORY) calls_us(kernel, arena, 1); /* brings the vectors there */
      kernel->us[kernel->n++] = calls_us(kernel, arena, kernel->calls) / kernel->calls;
    }
  }
  for (int k = 0; k < n; k++) kernel_store(m, &kernels[k]);
  copies_store(m, &copies);
}

/* Has every page there before the first call that is measured; volatile, as a compiler that knows that tt_alloc gives
 * zeros leaves out to write more of them. They stay zeros, whatever is done to them. */
static void pages_touch(volatile char *arena, size_t len)
{
  for (size_t at = 0; at < len; at += PAGE) arena[at] = 0;
}

void kernels_measure(struct measure *m, double seconds)
{
  struct kernel kernels[KERNELS];
  if (m->facts->rank == 0 && !m->result) {
    int n = kernels_list(kernels);
    size_t len = kernels[n - 1].bytes * (size_t)kernels[n - 1].nsrc + 4 * GAP + LINE;
    char *arena = tt_alloc(1, len);
    if (arena) {
      pages_touch(arena, len);
      arena_measure(m, kernels, n, arena + (LINE - (uintptr_t)arena % LINE) % LINE, seconds);
    } else {
      tt_log(TT_LOG_WARN, "tune: no memory for %zu bytes: the reduce kernels are left out", len);
    }
    tt_free(arena);
  }
  agree(m, 0); /* the others sleep until then */
}
