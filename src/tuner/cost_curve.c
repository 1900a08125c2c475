/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of a choice at any size, from plays of one segment at a few sizes.
 *
 * Between two sizes a play is taken for straight: it is piecewise linear, and mostly straight. L of S segments are
 * under way at once, one on each lane, and the busiest of all ports and processors works for each of them: if one
 * segment takes T and keeps it busy for B, all take max(T + (S - 1) B, T S / L). */
#include <math.h>

#include "sim/sim.h"
#include "tuner/private.h"

#define ELEMENT_BYTES 4    /* float */
#define LEAST_US 1e-3      /* no operation takes less */
#define SMALLEST_BYTES 8.0
/* Messages of all ranks; each takes about a microsecond to play. */
#define PLAYED_MESSAGES 1024 /* in one play */
#define ALL_MESSAGES 3072    /* at all sizes */
#define LEAST_SIZES 4

/* The subject of a play. */
struct subject {
  const struct tt_algo *algo;
  int deterministic;
};

static void subject_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  const struct subject *subject = context;
  tt_algo_schedule(subject->algo, schedule, shape, subject->deterministic);
}

/* Plays one segment at each of these sizes. */
static tuttiResult_t points_play(struct tt_cost_curve *curve, const struct tt_choice *choice, const double *bytes,
                                 int n)
{
  const struct tt_tuning *tuning = curve->tuning;
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const struct tt_kind *kind = &tt_kinds[algo->collective];
  struct subject subject = {algo, tuning->deterministic};
  struct tt_sim_play play = {.shape = tt_choice_shape(choice, tuning, 0, kind->has_root ? 0 : -1),
                             .generate = subject_generate,
                             .context = &subject,
                             .is_whole = 1,
                             .element_bytes = ELEMENT_BYTES,
                             .prices = &tuning->prices->links,
                             .topology = tuning->cluster->topology,
                             .order = kind->is_shared ? NULL : tuning->order};
  struct tt_sim_result got[TT_COST_CURVE_SIZES];
  size_t counts[TT_COST_CURVE_SIZES];
  for (int k = 0; k < n; k++) counts[k] = (size_t)ceil(bytes[k] / ELEMENT_BYTES);
  tuttiResult_t result = tt_simulate_counts(&play, counts, n, got);
  if (result != tuttiSuccess) return result;
  for (int k = 0; k < n; k++)
    curve->at[k] = (struct tt_cost_point){(double)counts[k] * ELEMENT_BYTES, got[k].time_us,
                                       fmax(got[k].busiest_us, got[k].processor_us)};
  curve->n = n;
  return result;
}

/* Estimates how many messages all ranks send, from the ranks at both ends and in the middle. In an all-to-all blocks
 * are also copied into messages and out of them, one by one, and a copy takes a play as long as a message. */
static int64_t messages_of(const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  int64_t most = 0;
  if (algo->has_middle && tuning->nranks > TT_PLAYED_RANKS) return INT64_MAX; /* even its claim takes long */
  for (int k = 0; k < 3; k++) {
    int32_t rank = (int32_t)((int64_t)(tuning->nranks - 1) * k / 2);
    struct tt_shape shape = tt_choice_shape(choice, tuning, rank, tt_kinds[algo->collective].has_root ? 0 : -1);
    struct tt_cost cost = {0};
    algo->claim(&shape, &cost);
    int64_t copied = tt_kinds[algo->collective].is_apart ? cost.blocks : 0;
    if (cost.messages > most) most = cost.messages;
    if (copied > most) most = copied;
  }
  return most * tuning->nranks;
}

static double segment_bytes(const struct tt_cost_curve *curve, uint32_t block_bytes)
{
  return (double)curve->nblocks * block_bytes;
}

/* Returns how many messages a play has; 0 if they are too many: the curve has an estimate instead. */
static int64_t curve_begin(struct tt_cost_curve *curve, const struct tt_choice *choice, const struct tt_tuning *tuning,
                           tuttiResult_t *result)
{
  const struct tt_kind *kind = &tt_kinds[tt_algos[choice->algo].collective];
  struct tt_shape shape = tt_choice_shape(choice, tuning, 0, kind->has_root ? 0 : -1);
  *curve = (struct tt_cost_curve){.tuning = tuning, .nblocks = shape.nblocks};
  int64_t messages = messages_of(choice, tuning);
  *result = messages > PLAYED_MESSAGES ? tt_estimate_make(&curve->estimate, choice, tuning) : tuttiSuccess;
  return messages > PLAYED_MESSAGES ? 0 : messages + 1;
}

tuttiResult_t tt_cost_curve_make(struct tt_cost_curve *curve, const struct tt_choice *choice,
                                 const struct tt_tuning *tuning, uint32_t block_bytes)
{
  tuttiResult_t result;
  int64_t messages = curve_begin(curve, choice, tuning, &result);
  if (!messages) return result;
  double longest = segment_bytes(curve, block_bytes), sizes[TT_COST_CURVE_SIZES];
  int n = (int)fmin(fmax((double)ALL_MESSAGES / (double)messages, LEAST_SIZES), TT_COST_CURVE_SIZES);
  for (int k = 0; k < n; k++) sizes[k] = SMALLEST_BYTES * pow(longest / SMALLEST_BYTES, (double)k / (n - 1));
  return points_play(curve, choice, sizes, n);
}

tuttiResult_t tt_cost_curve_make_at(struct tt_cost_curve *curve, const struct tt_choice *choice,
                                    const struct tt_tuning *tuning, uint32_t block_bytes, const uint64_t *bytes, int n)
{
  tuttiResult_t result;
  if (!curve_begin(curve, choice, tuning, &result)) return result;
  double longest = segment_bytes(curve, block_bytes), sizes[TT_COST_CURVE_SIZES];
  int nsizes = 0;
  for (int k = 0; k < n && (!nsizes || sizes[nsizes - 1] < longest); k++)
    sizes[nsizes++] = fmin((double)bytes[k], longest);
  return points_play(curve, choice, sizes, nsizes);
}

void tt_cost_curve_destroy(struct tt_cost_curve *curve)
{
  if (!curve) return;
  tt_estimate_destroy(curve->estimate);
  *curve = (struct tt_cost_curve){.n = 0};
}

/* Interpolates between the two sizes around it, or takes the nearest one. */
static struct tt_cost_point point_find(const struct tt_cost_curve *curve, double bytes)
{
  const struct tt_cost_point *a = curve->at, *b;
  int32_t k = 1;
  while (k < curve->n && curve->at[k].bytes < bytes) k++;
  if (curve->n == 1 || bytes <= a->bytes) return *a;
  if (k == curve->n) return curve->at[k - 1];
  a = &curve->at[k - 1];
  b = &curve->at[k];
  double part = (bytes - a->bytes) / (b->bytes - a->bytes);
  return (struct tt_cost_point){bytes, a->us + part * (b->us - a->us), a->busy_us + part * (b->busy_us - a->busy_us)};
}

double tt_cost_curve_us(const struct tt_cost_curve *curve, uint32_t block_bytes, uint64_t bytes)
{
  double longest = segment_bytes(curve, block_bytes), all = (double)bytes;
  double segments = all > longest ? all / longest : 1, lanes = curve->tuning->lanes > 0 ? curve->tuning->lanes : 4;
  struct tt_cost_point one = {.bytes = all > longest ? longest : all};
  if (curve->n) one = point_find(curve, one.bytes);
  else one.us = tt_estimate_us(curve->estimate, curve->tuning->prices, one.bytes, &one.busy_us);
  return fmax(fmax(one.us + (segments - 1) * one.busy_us, one.us * segments / lanes), LEAST_US);
}
