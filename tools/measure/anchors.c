/* SPDX-License-Identifier: BSD-3-Clause */
/* Anchors: what each algorithm really takes, at a few sizes. The communicator's table is set to one choice by all ranks
 * at the same point of their program, and to its own again for what they agree by. */
#include <stdio.h>
#include <string.h>

#include "measure/private.h"

#define SIZES_MOST 8
#define SAMPLES 9
#define CHOICES_MOST 64
#define BATCH_US 20000.0    /* a longer batch says no more */
#define TIMES_MOST 2000     /* in a batch */
#define QUICK_US 4000.0
#define BLOCKS_BYTES (256u << 10) /* from that size on of all-reduce other blocks are tried, too, of the best */
#define BLOCKS_BEST 2             /* so many at each size */
#define LATENCY_BYTES ((size_t)64 << 10) /* shorter ones take about as long as the shortest */
#define HOPELESS 4.0        /* times slower than the best of its size, */
#define HOPELESS_US 2000.0  /* and this slow: seen once is enough */

/* The collectives that are measured, with their parts of the time: all in malloc's memory, and those for which ranks
 * agree on the kind of memory (tuner/tuner.h) in that of tuttiMemAlloc, too. */
static const struct sweep {
  int collective;
  double part;
  int nsizes;
  size_t bytes[SIZES_MOST]; /* of a share */
} sweeps[] = {
    {TT_ALL_REDUCE, 0.5, 8, {8, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20}},
    {TT_ALL_GATHER, 0.13, 3, {8, 4 << 10, 128 << 10}},
    {TT_REDUCE_SCATTER, 0.13, 3, {8, 4 << 10, 128 << 10}},
    {TT_BROADCAST, 0.12, 3, {8, 16 << 10, 1 << 20}},
    {TT_REDUCE, 0.12, 3, {8, 4 << 10, 128 << 10}},
};
#define SWEEPS ((int)(sizeof sweeps / sizeof *sweeps))

struct point {
  double once, us[SAMPLES]; /* once is 0: not to be measured */
  int n;
};

struct trial {
  const struct sweep *sweep;
  enum tt_memory memory;
  double end_us; /* by rank 0's clock */
  int nsizes, nchoices;
  struct tt_choice choices[CHOICES_MOST];
  struct point points[CHOICES_MOST][SIZES_MOST];
};

/* ---- what is legal ---- */

static int is_legal(const struct measure *m, const struct tt_choice *choice)
{
  const struct tt_comm_facts *facts = m->facts;
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const struct tt_tuning tuning = {.nranks = facts->nranks, .groups = tt_comm_groups(m->comm)};
  const struct tt_kind *kind = &tt_kinds[algo->collective];
  if (tt_choice_impossible(choice, &tuning)) return 0;
  if (algo->has_middle && facts->nranks > TT_PLAYED_RANKS) return 0;
  return !facts->settings.deterministic || !kind->reduces || facts->nranks <= 2 || algo->has_one_tree;
}

static void choice_add(struct trial *trial, const struct tt_choice *choice)
{
  if (trial->nchoices < CHOICES_MOST) trial->choices[trial->nchoices++] = *choice;
}

/* All algorithms with their own radix, those of all-reduce and reduce with others, too, in blocks as by default. */
static void choices_find(const struct measure *m, struct trial *trial)
{
  const struct tt_prices prices = {.block_bytes = m->block_bytes};
  const struct tt_tuning tuning = {.nranks = m->facts->nranks, .prices = &prices};
  int collective = trial->sweep->collective;
  uint32_t block_bytes = tt_choice_block(collective, &m->facts->settings, &tuning);
  for (int a = 0; a < tt_algo_count; a++) {
    struct tt_choice choice = {.algo = (uint8_t)a, .middle = -1, .block_bytes = block_bytes};
    if (tt_algos[a].collective != collective || !is_legal(m, &choice)) continue;
    int has_radices = collective == TT_ALL_REDUCE || collective == TT_REDUCE;
    int nradices = has_radices ? tt_choice_radices(&choice, m->facts->nranks) : 0;
    choice_add(trial, &choice);
    for (int k = 0; k < nradices; k++) {
      choice.radix = tt_choice_radix[k];
      choice_add(trial, &choice);
    }
  }
}

/* Sizes whose shares fit into the data. */
static int sizes_count(const struct measure *m, const struct sweep *sweep)
{
  size_t shares = tt_kinds[sweep->collective].is_shared ? (size_t)m->facts->nranks : 1;
  int n = sweep->nsizes;
  while (n > 0 && sweep->bytes[n - 1] * shares > 2 * DATA_BYTES) n--;
  return n;
}

/* ---- one batch ---- */

/* Between the two calls nothing is called but what is timed. */
static void force(struct measure *m, int collective, const struct tt_choice *choice)
{
  struct tt_table forced = m->table;
  forced.rows[collective][0] = (struct tt_table_row){.up_to_bytes = UINT64_MAX, .choice = *choice};
  tt_comm_table_set(m->comm, &forced);
}

static void unforce(struct measure *m)
{
  tt_comm_table_set(m->comm, &m->table);
}

/* The time of an operation on the last rank to have it. Where no rank waits for all others, the next operation would
 * begin before this one has ended everywhere, so each begins behind a barrier of its own. */
static double batch(struct measure *m, const struct trial *trial, int choice, int size, int times)
{
  int collective = trial->sweep->collective, is_apart = tt_kinds[collective].has_root;
  size_t count = trial->sweep->bytes[size] / sizeof(float);
  double us = 0;
  for (int done = 0, n = is_apart ? 1 : times; done < times && !m->result; done += n) {
    agree(m, 0);
    force(m, collective, &trial->choices[choice]);
    double begin = now_us();
    for (int i = 0; i < n; i++) collective_run(m, collective, count);
    us += now_us() - begin;
    unforce(m);
  }
  return agree_timed(m, us / times, trial->end_us);
}

/* ---- rounds ---- */

static double best_of_size(const struct trial *trial, int size)
{
  double best = 0;
  for (int c = 0; c < trial->nchoices; c++) {
    double us = trial->points[c][size].once;
    if (us > 0 && (best == 0 || us < best)) best = us;
  }
  return best;
}

static int is_hopeless(const struct trial *trial, int choice, int size)
{
  double once = trial->points[choice][size].once;
  return once > HOPELESS_US && once > HOPELESS * best_of_size(trial, size);
}

/* Once: that opens links and makes plans. Then what is not hopeless once more, if there is time. */
static void point_try(struct measure *m, struct trial *trial, int c, int size)
{
  struct point *point = &trial->points[c][size];
  point->once = batch(m, trial, c, size, 1);
  if (m->left_us > 0 && !is_hopeless(trial, c, size))
    point->once = batch(m, trial, c, size, point->once < QUICK_US ? 2 : 1);
}

/* There is time to try all choices at this size, where the one before took spent_us. */
static int is_time(const struct measure *m, const struct trial *trial, int size, double spent_us)
{
  const size_t *bytes = trial->sweep->bytes;
  double growth = bytes[size] < LATENCY_BYTES ? 1 : (double)bytes[size] / (double)bytes[size - 1] / 2;
  return m->left_us > growth * spent_us;
}

/* The short sizes first; those for which there is no time are left out for all choices alike, so that they can be
 * compared. */
static void points_try(struct measure *m, struct trial *trial)
{
  double spent_us = 0;
  for (int size = 0; size < trial->nsizes && !m->result; size++) {
    double begin = now_us();
    if (size && !is_time(m, trial, size, spent_us)) {
      trial->nsizes = size;
      return;
    }
    int c = 0;
    for (; c < trial->nchoices && !m->result && !m->is_over; c++) point_try(m, trial, c, size);
    if (c < trial->nchoices) {
      trial->nsizes = size;
      return;
    }
    spent_us = agree_timed(m, now_us() - begin, trial->end_us);
  }
}

/* ---- other blocks ---- */

static int is_beyond(const struct trial *trial, int size)
{
  return trial->sweep->collective == TT_ALL_REDUCE && trial->sweep->bytes[size] >= BLOCKS_BYTES;
}

/* How many of the first n choices are faster there. */
static int place_of(const struct trial *trial, int choice, int n, int size)
{
  int place = 0;
  for (int c = 0; c < n; c++) place += trial->points[c][size].once < trial->points[choice][size].once;
  return place;
}

/* Into how many segments a vector of so many bytes is cut. */
static uint64_t segments_of(const struct measure *m, const struct tt_choice *choice, uint64_t bytes)
{
  const struct tt_tuning tuning = {.nranks = m->facts->nranks, .groups = tt_comm_groups(m->comm)};
  uint64_t segment = (uint64_t)tt_choice_shape(choice, &tuning, 0, -1).nblocks * choice->block_bytes;
  return (bytes + segment - 1) / segment;
}

/* With this block it is not the same program as with that by default. */
static int is_cut_otherwise(const struct measure *m, const struct tt_choice *choice, uint64_t bytes)
{
  struct tt_choice plain = *choice;
  plain.block_bytes = m->block_bytes;
  return segments_of(m, choice, bytes) != segments_of(m, &plain, bytes);
}

/* Tries choices among the best of some long size at all long sizes, in half, twice and four times the block. */
static void blocks_try(struct measure *m, struct trial *trial)
{
  int n = trial->nchoices;
  for (int c = 0; c < n && !m->facts->settings.segment_bytes; c++) {
    struct tt_choice choice = trial->choices[c];
    uint32_t block_bytes = choice.block_bytes;
    int is_good = 0;
    for (int size = 0; size < trial->nsizes; size++)
      is_good |= is_beyond(trial, size) && place_of(trial, c, n, size) < BLOCKS_BEST;
    if (!is_good) continue;
    for (choice.block_bytes = block_bytes / 2; choice.block_bytes <= 4 * block_bytes; choice.block_bytes *= 2)
      if (choice.block_bytes != block_bytes) choice_add(trial, &choice);
  }
  for (int size = 0; size < trial->nsizes; size++)
    for (int c = n; c < trial->nchoices && is_beyond(trial, size) && !m->result && m->left_us > 0; c++)
      if (is_cut_otherwise(m, &trial->choices[c], trial->sweep->bytes[size])) point_try(m, trial, c, size);
}

static void round_measure(struct measure *m, struct trial *trial, int round)
{
  int32_t order[CHOICES_MOST * SIZES_MOST];
  int npoints = trial->nchoices * trial->nsizes;
  double point_us = m->left_us / (npoints * (SAMPLES - round));
  if (point_us > BATCH_US) point_us = BATCH_US;
  order_mix(order, npoints, (uint32_t)round);
  for (int i = 0; i < npoints && !m->result; i++) {
    int c = order[i] / trial->nsizes, size = order[i] % trial->nsizes;
    struct point *point = &trial->points[c][size];
    if (point->once <= 0 || is_hopeless(trial, c, size)) continue;
    double times = point_us / point->once;
    if (times < 1 && m->left_us <= 0) continue;
    times = times < 1 ? 1 : times > TIMES_MOST ? TIMES_MOST : times;
    point->us[point->n++] = batch(m, trial, c, size, (int)times);
  }
}

/* ---- results ---- */

static void anchor_store(struct measure *m, struct trial *trial, int choice, int size)
{
  struct point *point = &trial->points[choice][size];
  const struct tt_choice *with = &trial->choices[choice];
  if (point->once <= 0) return;
  if (!point->n) point->us[point->n++] = point->once;
  /* Some machines go at two speeds by turns, as their neighbours do: the quicker one tells algorithms apart. */
  double us = samples_summarise(point->us, point->n).low;
  if (point->n < 3) us = point->us[0]; /* too few for a quartile: what disturbs only makes them longer */
  struct tt_profile_anchor anchor = {.collective = trial->sweep->collective,
                                     .radix = with->radix,
                                     .block_bytes = with->block_bytes,
                                     .nranks = m->facts->nranks,
                                     .nnodes = m->topology->nnodes,
                                     .cores = m->cores,
                                     .memory = trial->memory,
                                     .bytes = trial->sweep->bytes[size],
                                     .us = us};
  snprintf(anchor.algo, sizeof anchor.algo, "%s", tt_algos[with->algo].name);
  snprintf(anchor.transport, sizeof anchor.transport, "%s", m->transport);
  store_anchor(m, &anchor);
}

/* from, part: of the progress. */
static void sweep_measure(struct measure *m, struct trial *trial, double seconds, double from, double part)
{
  char what[64];
  snprintf(what, sizeof what, "algorithms of %s in %s memory", tt_kinds[trial->sweep->collective].name,
           tt_memory_names[trial->memory]);
  progress_tell(m, from, what);
  store_missing(m, what);
  agree_timed(m, 0, 0);
  m->is_cut |= m->is_over;
  if (m->is_cut) return;
  trial->end_us = now_us() + seconds * 1e6;
  choices_find(m, trial);
  trial->nsizes = sizes_count(m, trial->sweep);
  points_try(m, trial);
  blocks_try(m, trial);
  for (int round = 0; round < SAMPLES && m->left_us > 0; round++) {
    progress_tell(m, from + part * round / SAMPLES, what);
    round_measure(m, trial, round);
  }
  if (trial->nsizes > 0)
    store_anchors_forget(m, trial->sweep->collective, trial->memory, trial->sweep->bytes[trial->nsizes - 1]);
  for (int c = 0; c < trial->nchoices && !m->result; c++)
    for (int size = 0; size < trial->nsizes; size++) anchor_store(m, trial, c, size);
  m->is_cut |= m->is_over && !trial->nsizes;
  if (!m->is_cut) store_keep(m);
}

/* 1 if the sweep is measured in that kind of memory. */
static int is_swept(const struct measure *m, int memory, const struct sweep *sweep)
{
  return m->memory[memory] && (memory == TT_MEMORY_MALLOC || tt_arms_row(sweep->collective) >= 0);
}

void anchors_measure(struct measure *m, double seconds)
{
  struct trial *trial = tt_alloc(1, sizeof *trial);
  double from = 0, all = 0;
  if (!trial) give_up(m, tt_fail(tuttiSystemError, "tune: out of memory for its points"));
  for (int k = 0; k < TT_MEMORIES * SWEEPS; k++)
    if (is_swept(m, k / SWEEPS, &sweeps[k % SWEEPS])) all += sweeps[k % SWEEPS].part;
  for (int k = 0; k < TT_MEMORIES * SWEEPS && !m->result && !m->is_cut; k++) {
    const struct sweep *sweep = &sweeps[k % SWEEPS];
    if (!is_swept(m, k / SWEEPS, sweep)) continue;
    *trial = (struct trial){.sweep = sweep, .memory = (enum tt_memory)(k / SWEEPS)};
    m->data = m->memory[trial->memory];
    memset(m->data, 0, 2 * DATA_BYTES); /* zeros, however often they are summed up */
    sweep_measure(m, trial, seconds * sweep->part / all, from, sweep->part / all);
    from += sweep->part / all;
  }
  m->data = m->memory[TT_MEMORY_MALLOC];
  tt_free(trial);
}
