/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of a choice at any size, from plays of one segment at a few sizes.
 *
 * Between two sizes a play is taken for straight: it is piecewise linear, and mostly straight. L of S segments are
 * under way at once, one on each lane, and the busiest of all ports and processors works for each of them: if one
 * segment takes T and keeps it busy for B, all take max(T + (S - 1) B, T S / L).
 *
 * A play of many ranks takes too long: some of them are played instead, of as few nodes as will do, then every so
 * manieth of a node. Their time with one element in a block grows with the messages that follow one another or, if
 * these are more, with those that a rank sends; and the rest of their time with the part of a share that a rank sends.
 * Both numbers are those that the algorithm claims. */
#include <math.h>
#include <string.h>

#include "sim/sim.h"
#include "tuner/private.h"

#define ELEMENT_BYTES 4    /* float */
#define LEAST_US 1e-3      /* no operation takes less */
#define SMALLEST_BYTES 8.0
/* Messages of all ranks; each takes about a microsecond to play. */
#define PLAYED_MESSAGES 512.0 /* in one play */
#define SOME_MESSAGES 192.0    /* in one of only some ranks, */
#define NODES_MESSAGES 512.0   /* or of whole nodes, where these have several, */
#define MIDDLE_MESSAGES 768.0  /* also of hierarchies: rather of more than two nodes */
#define ALL_MESSAGES 2048.0    /* at all sizes */
#define LEAST_SIZES 4
#define SOME_SIZES 3 /* of only some ranks */

/* ---- what is played ---- */

/* The work of ranks, as the algorithm claims it. */
struct work {
  double played;   /* messages of all ranks, and copies that take a play as long as one */
  double messages; /* that follow one another, or that the rank with most of them sends, if these are more */
  double shares;   /* that the rank with most of them sends, or the root receives */
};

/* Looks at the ranks at both ends and in the middle, and takes as played what these have on average. In an all-to-all
 * blocks are also copied into messages and out of them, one by one. */
static struct work work_of(const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const struct tt_kind *kind = &tt_kinds[algo->collective];
  struct work work = {.played = 0};
  double sent = 0;
  for (int k = 0; k < 3; k++) {
    int32_t rank = (int32_t)((int64_t)(tuning->nranks - 1) * k / 2);
    struct tt_shape shape = tt_choice_shape_priced(choice, tuning, rank);
    struct tt_cost cost = {0};
    algo->claim(&shape, &cost);
    work.played += (double)(kind->is_apart && cost.blocks > cost.messages ? cost.blocks : cost.messages);
    sent = fmax(sent, (double)cost.messages);
    work.messages = fmax(work.messages, (double)cost.rounds);
    work.shares = fmax(work.shares, (double)cost.blocks / shape.nblocks);
  }
  if (kind->has_root && kind->is_shared) work.shares = fmax(work.shares, tuning->nranks - 1); /* of the root */
  work.messages = fmax(work.messages, sent);
  work.played *= tuning->nranks / 3.0;
  return work;
}

/* The largest power of two that is not above. */
static int32_t power_below(double most)
{
  return 1 << (int)fmax(floor(log2(most)), 0);
}

/* If all ranks have too many messages, takes fewer and fewer until they have not; *some is their work. The stand-in has
 * no ranks if all are played, also because the choice is not legal for fewer. */
static tuttiResult_t ranks_take(struct tt_stand_in *stand_in, struct work *some, const struct tt_choice *choice,
                                const struct tt_tuning *tuning)
{
  const struct work all = *some;
  int32_t nnodes = tuning->cluster->topology->nnodes, every = 1;
  int has_middle = tt_algos[choice->algo].has_middle, is_flat = nnodes == 1 || nnodes == tuning->nranks;
  const double most = is_flat ? SOME_MESSAGES : has_middle ? MIDDLE_MESSAGES : NODES_MESSAGES;
  tuttiResult_t result = tuttiSuccess;
  memset(stand_in, 0, sizeof *stand_in);
  while (all.played > PLAYED_MESSAGES && some->played > most) {
    double part = sqrt(most / some->played);
    if (nnodes > 2) nnodes = nnodes * part >= 4 ? power_below(nnodes * part) : 2;
    else every *= 2 * power_below(1 / part / 2);
    tt_stand_in_destroy(stand_in);
    result = tt_stand_in_some(stand_in, tuning, nnodes, every);
    if (result == tuttiSuccess && !tt_choice_impossible(choice, &stand_in->tuning)) {
      *some = work_of(choice, &stand_in->tuning);
      continue;
    }
    tt_stand_in_destroy(stand_in);
    *some = all;
    break;
  }
  return result;
}

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

/* ---- curves ---- */

/* Plays one segment at each of these sizes. */
static tuttiResult_t sizes_play(struct tt_cost_point *at, const struct tt_choice *choice,
                                const struct tt_tuning *tuning, const double *bytes, int n)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const struct tt_kind *kind = &tt_kinds[algo->collective];
  struct subject subject = {algo, tuning->deterministic};
  struct tt_sim_play play = {.shape = tt_choice_shape_priced(choice, tuning, 0),
                             .generate = subject_generate,
                             .context = &subject,
                             .is_whole = 1,
                             .element_bytes = ELEMENT_BYTES,
                             .prices = &tuning->prices->links,
                             .topology = tuning->cluster->topology,
                             .order = kind->is_shared ? NULL : tuning->order};
  struct tt_sim_result got[TT_COST_CURVE_SIZES + 1];
  size_t counts[TT_COST_CURVE_SIZES + 1];
  for (int k = 0; k < n; k++) counts[k] = (size_t)ceil(bytes[k] / ELEMENT_BYTES);
  tuttiResult_t result = tt_simulate_counts(&play, counts, n, got);
  for (int k = 0; k < n && result == tuttiSuccess; k++)
    at[k] = (struct tt_cost_point){(double)counts[k] * ELEMENT_BYTES, got[k].time_us,
                                   fmax(got[k].busiest_us, got[k].processor_us)};
  return result;
}

/* The same of some ranks, and what all would take: shorter vectors take no less than one element in a block. */
static tuttiResult_t some_play(struct tt_cost_curve *curve, const struct tt_choice *choice,
                               const struct tt_tuning *tuning, const double *bytes, int n, const struct work *grows)
{
  struct tt_cost_point at[TT_COST_CURVE_SIZES + 1];
  double sizes[TT_COST_CURVE_SIZES + 1] = {ELEMENT_BYTES * tt_choice_shape_priced(choice, tuning, 0).nblocks};
  int short_ones = 0;
  while (short_ones < n && bytes[short_ones] <= sizes[0]) short_ones++;
  memcpy(sizes + 1, bytes + short_ones, (size_t)(n - short_ones) * sizeof *bytes);
  tuttiResult_t result = sizes_play(at, choice, tuning, sizes, n - short_ones + 1);
  for (int k = 0; k < n && result == tuttiSuccess; k++) {
    const struct tt_cost_point *point = k < short_ones ? at : &at[k - short_ones + 1];
    curve->at[k] = (struct tt_cost_point){
        bytes[k], grows->messages * at->us + grows->shares * fmax(point->us - at->us, 0),
        grows->messages * at->busy_us + grows->shares * fmax(point->busy_us - at->busy_us, 0)};
  }
  return result;
}

/* Sizes up to the longest; how many. */
static int sizes_choose(double sizes[TT_COST_CURVE_SIZES], double longest, double played)
{
  int n = (int)fmin(fmax(ALL_MESSAGES / fmax(played, 1), LEAST_SIZES), TT_COST_CURVE_SIZES);
  if (played > PLAYED_MESSAGES) n = SOME_SIZES;
  for (int k = 0; k < n; k++) sizes[k] = SMALLEST_BYTES * pow(longest / SMALLEST_BYTES, (double)k / (n - 1));
  return n;
}

static double segment_bytes(const struct tt_cost_curve *curve, uint32_t block_bytes)
{
  return (double)curve->nblocks * block_bytes;
}

/* Plays these sizes, or, where n is 0, some up to the longest segment. */
static tuttiResult_t curve_fill(struct tt_cost_curve *curve, const struct tt_choice *choice, double longest,
                                double sizes[TT_COST_CURVE_SIZES], int n)
{
  const struct work all = work_of(choice, curve->tuning);
  struct work some = all;
  struct tt_stand_in *stand_in = tt_alloc(1, sizeof *stand_in);
  if (!stand_in) return tt_fail(tuttiSystemError, "no memory for the prices of choices: give the process more");
  tuttiResult_t result = ranks_take(stand_in, &some, choice, curve->tuning);
  const struct work grows = {0, all.messages / some.messages, all.shares / some.shares};
  if (!n) n = sizes_choose(sizes, longest, all.played);
  curve->is_of_some = stand_in->tuning.nranks > 0;
  if (result == tuttiSuccess && curve->is_of_some)
    result = some_play(curve, choice, &stand_in->tuning, sizes, n, &grows);
  else if (result == tuttiSuccess) result = sizes_play(curve->at, choice, curve->tuning, sizes, n);
  tt_stand_in_destroy(stand_in);
  tt_free(stand_in);
  curve->n = n;
  return result;
}

static void curve_begin(struct tt_cost_curve *curve, const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  *curve = (struct tt_cost_curve){.tuning = tuning,
                                  .nblocks = tt_choice_shape_priced(choice, tuning, 0).nblocks};
}

tuttiResult_t tt_cost_curve_make(struct tt_cost_curve *curve, const struct tt_choice *choice,
                                 const struct tt_tuning *tuning, uint32_t block_bytes)
{
  double sizes[TT_COST_CURVE_SIZES];
  curve_begin(curve, choice, tuning);
  return curve_fill(curve, choice, segment_bytes(curve, block_bytes), sizes, 0);
}

tuttiResult_t tt_cost_curve_make_at(struct tt_cost_curve *curve, const struct tt_choice *choice,
                                    const struct tt_tuning *tuning, uint32_t block_bytes, const uint64_t *bytes, int n)
{
  double sizes[TT_COST_CURVE_SIZES];
  int nsizes = 0;
  curve_begin(curve, choice, tuning);
  double longest = segment_bytes(curve, block_bytes);
  for (int k = 0; k < n && (!nsizes || sizes[nsizes - 1] < longest); k++)
    sizes[nsizes++] = fmin((double)bytes[k], longest);
  return curve_fill(curve, choice, longest, sizes, nsizes);
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
  struct tt_cost_point one = point_find(curve, all > longest ? longest : all);
  return fmax(fmax(one.us + (segments - 1) * one.busy_us, one.us * segments / lanes), LEAST_US);
}
