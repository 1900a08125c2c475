/* SPDX-License-Identifier: BSD-3-Clause */
/* Measured times of choices over played ones, by size class: the anchors of a profile, of the cluster most like the one
 * that is priced. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/private.h"

#define FARTHEST 55.0 /* a ratio beyond that is a mistake */

double tt_ratio_at(const double ratios[TT_SIZE_CLASSES], int size_class)
{
  int below = size_class, above = size_class;
  while (below >= 0 && !(ratios[below] > 0)) below--;
  while (above < TT_SIZE_CLASSES && !(ratios[above] > 0)) above++;
  if (below < 0 && above == TT_SIZE_CLASSES) return 0;
  if (below < 0) return ratios[above];
  if (above == TT_SIZE_CLASSES || above == below) return ratios[below];
  return ratios[below] + (ratios[above] - ratios[below]) * (size_class - below) / (above - below);
}

struct tt_calibration {
  int n; /* 0: nothing was measured that is like this */
  struct calibrated {
    struct tt_choice choice;
    double ratios[TT_SIZE_CLASSES];
    int32_t line[TT_SIZE_CLASSES]; /* of the anchor; 0: there is none */
  } of[];
};

/* ---- the cluster whose anchors count ---- */

static int is_oversubscribed(int32_t nranks, int32_t nnodes, int32_t cores)
{
  return nranks > (int64_t)cores * nnodes;
}

/* It says something of this cluster: the same collective, kind of memory and transport, one node or several,
 * oversubscribed or not. */
static int is_akin(const struct tt_profile_anchor *anchor, int collective, const struct tt_cluster *cluster,
                   enum tt_memory memory)
{
  int32_t nnodes = cluster->topology->nnodes;
  return anchor->collective == collective && anchor->memory == memory &&
         strcmp(anchor->transport, tt_cluster_transport(cluster)) == 0 && (anchor->nnodes > 1) == (nnodes > 1) &&
         tt_size_class(anchor->bytes) >= 0 &&
         is_oversubscribed(anchor->nranks, anchor->nnodes, anchor->cores) ==
             is_oversubscribed(cluster->nranks, nnodes, cluster->cores);
}

/* Both were measured in one cluster. */
static int is_beside(const struct tt_profile_anchor *a, const struct tt_profile_anchor *b)
{
  return a->collective == b->collective && a->memory == b->memory && a->nranks == b->nranks &&
         a->nnodes == b->nnodes && a->cores == b->cores && strcmp(a->transport, b->transport) == 0 &&
         tt_size_class(a->bytes) >= 0;
}

/* How far from the wanted cluster, in ranks first. */
static double distance(const struct tt_profile_anchor *anchor, const struct tt_cluster *cluster)
{
  return fabs(log2((double)anchor->nranks / cluster->nranks)) +
         fabs(log2((double)anchor->nnodes / cluster->topology->nnodes)) / 16 +
         fabs(log2((double)anchor->cores / cluster->cores)) / 64;
}

static const struct tt_profile *profile_of(const struct tt_tuning *tuning)
{
  return tuning->prices->profile ? tuning->prices->profile : tt_profile_shipped();
}

/* An anchor of the nearest cluster with data in that kind of memory; NULL: there is none. */
static const struct tt_profile_anchor *nearest_in(enum tt_memory memory, int collective, const struct tt_tuning *tuning)
{
  const struct tt_profile *profile = profile_of(tuning);
  const struct tt_profile_anchor *best = NULL;
  for (int32_t i = 0; profile && tuning->cluster && tuning->nranks > 1 && i < profile->nanchors; i++) {
    const struct tt_profile_anchor *anchor = &profile->anchors[i];
    if (!is_akin(anchor, collective, tuning->cluster, memory)) continue;
    if (!best || distance(anchor, tuning->cluster) < distance(best, tuning->cluster)) best = anchor;
  }
  return best;
}

int tt_calibration_has_memory(int collective, const struct tt_tuning *tuning)
{
  return nearest_in(tuning->memory, collective, tuning) != NULL;
}

static const struct tt_profile_anchor *nearest(int collective, const struct tt_tuning *tuning)
{
  const struct tt_profile_anchor *anchor = nearest_in(tuning->memory, collective, tuning);
  return anchor ? anchor : nearest_in(TT_MEMORY_MALLOC, collective, tuning);
}

/* ---- its anchors ---- */

struct place {
  int32_t nranks, nanchors;
  const struct tt_profile_anchor **anchors; /* of the collective, measured there */
  struct tt_stand_in cluster;
  struct tt_prices prices;
};

static tuttiResult_t place_make(struct place *place, const struct tt_profile_anchor *first,
                                const struct tt_tuning *tuning)
{
  const struct tt_profile *profile = profile_of(tuning);
  place->nranks = first->nranks;
  place->anchors = tt_alloc((size_t)profile->nanchors, sizeof(struct tt_profile_anchor *));
  if (!place->anchors)
    return tt_fail(tuttiSystemError, "no memory for %d anchors: give the process more", (int)profile->nanchors);
  for (int32_t i = 0; i < profile->nanchors; i++)
    if (is_beside(&profile->anchors[i], first)) place->anchors[place->nanchors++] = &profile->anchors[i];
  tuttiResult_t result = tt_stand_in_blocks(&place->cluster, tuning, first->nranks, first->nnodes);
  if (result != tuttiSuccess) return result;
  place->cluster.cluster.cores = first->cores;
  tt_prices_make(&place->prices, profile, &place->cluster.cluster);
  place->cluster.tuning.prices = &place->prices;
  place->cluster.tuning.deterministic = 0; /* what was measured was merged */
  return tuttiSuccess;
}

static void place_destroy(struct place *place)
{
  if (!place) return;
  tt_free(place->anchors);
  tt_stand_in_destroy(&place->cluster);
  tt_free(place);
}

/* 2: this very choice, whatever its block; 1: the same algorithm with another middle or radix; 0: another one. */
static int likeness(const struct tt_profile_anchor *anchor, const struct tt_choice *choice)
{
  const char *name = tt_algos[choice->algo].name;
  char whole[TT_PROFILE_NAME];
  size_t len = strlen(name);
  snprintf(whole, sizeof whole, "%s%s%s", name, choice->middle >= 0 ? "+" : "",
           choice->middle >= 0 ? tt_algos[choice->middle].name : "");
  if (strcmp(anchor->algo, whole) == 0 && anchor->radix == choice->radix) return 2;
  return strncmp(anchor->algo, name, len) == 0 && (anchor->algo[len] == 0 || anchor->algo[len] == '+');
}

/* For each size class the anchor that is most like the choice, with its block; *block_bytes: that of another anchor, if
 * there is none of these. Returns how many there are. */
static int anchors_find(const struct tt_profile_anchor *at[TT_SIZE_CLASSES], const struct place *place,
                        const struct tt_choice *choice, uint32_t *block_bytes)
{
  int n = 0, most[TT_SIZE_CLASSES] = {0};
  uint64_t least = UINT64_MAX;
  for (int32_t i = 0; i < place->nanchors; i++) {
    const struct tt_profile_anchor *anchor = place->anchors[i];
    int like = likeness(anchor, choice), class = tt_size_class(anchor->bytes);
    if (like && anchor->bytes < least) {
      least = anchor->bytes;
      *block_bytes = anchor->block_bytes;
    }
    if (anchor->block_bytes != choice->block_bytes || like <= most[class]) continue;
    n += !most[class];
    most[class] = like;
    at[class] = anchor;
  }
  return n;
}

/* Plays the choice at the sizes at which it was measured. */
static tuttiResult_t choice_compare(struct calibrated *calibrated, const struct tt_choice *choice,
                                    const struct tt_profile_anchor *const at[TT_SIZE_CLASSES],
                                    const struct tt_tuning *tuning)
{
  uint64_t bytes[TT_COST_CURVE_SIZES];
  struct tt_cost_curve curve;
  int n = 0;
  for (int k = 0; k < TT_SIZE_CLASSES && n < TT_COST_CURVE_SIZES; k++)
    if (at[k]) bytes[n++] = at[k]->bytes;
  tuttiResult_t result = tt_cost_curve_make_at(&curve, choice, tuning, choice->block_bytes, bytes, n);
  for (int k = 0; k < n && result == tuttiSuccess; k++) {
    int class = tt_size_class(bytes[k]);
    double ratio = at[class]->us / tt_cost_curve_us(&curve, choice->block_bytes, bytes[k]);
    calibrated->ratios[class] = fmin(fmax(ratio, 1 / FARTHEST), FARTHEST);
    calibrated->line[class] = at[class]->line;
  }
  return result;
}

/* ---- the ratios of all choices ---- */

/* A choice that differs from an earlier one only in its block has that one's ratios, except where it was measured. */
static tuttiResult_t choices_compare(struct tt_calibration *calibration, const struct place *place)
{
  tuttiResult_t result = tuttiSuccess;
  for (int c = 0; c < calibration->n && result == tuttiSuccess; c++) {
    const struct tt_profile_anchor *at[TT_SIZE_CLASSES] = {NULL};
    struct calibrated *calibrated = &calibration->of[c], *first = calibration->of;
    struct tt_choice choice = calibrated->choice;
    uint32_t other = 0;
    while (!tt_choices_same_but_block(&first->choice, &choice)) first++;
    memcpy(calibrated->ratios, first->ratios, sizeof first->ratios);
    memcpy(calibrated->line, first->line, sizeof first->line);
    if (choice.radix > place->nranks) choice.radix = (uint16_t)place->nranks;
    int n = anchors_find(at, place, &choice, &other);
    if (!n && other && first == calibrated) {
      choice.block_bytes = other;
      n = anchors_find(at, place, &choice, &other);
    }
    if (n && !tt_choice_impossible(&choice, &place->cluster.tuning))
      result = choice_compare(calibrated, &choice, at, &place->cluster.tuning);
  }
  return result;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Fills in what was not measured: other sizes, and of choices without any measurement the median of the others, as
 * they would look too cheap otherwise. Distances from the median are believed up to twice or half the number of ranks;
 * beyond, half with each doubling. */
static void gaps_fill(struct tt_calibration *calibration, double doublings)
{
  double known[TT_CHOICES], believed = doublings <= 1 ? 1 : exp2(1 - doublings);
  for (int c = 0; c < calibration->n; c++)
    for (int k = 0; k < TT_SIZE_CLASSES; k++)
      calibration->of[c].ratios[k] = tt_ratio_at(calibration->of[c].ratios, k);
  for (int k = 0; k < TT_SIZE_CLASSES; k++) {
    size_t n = 0;
    for (int c = 0; c < calibration->n; c++)
      if (calibration->of[c].ratios[k] > 0) known[n++] = calibration->of[c].ratios[k];
    qsort(known, n, sizeof *known, by_value);
    double median = n ? known[n / 2] : 1;
    for (int c = 0; c < calibration->n; c++) {
      double *ratio = &calibration->of[c].ratios[k];
      *ratio = *ratio > 0 ? median + believed * (*ratio - median) : median;
    }
  }
}

static tuttiResult_t calibration_fill(struct tt_calibration *calibration, const struct tt_profile_anchor *anchor,
                                      const struct tt_tuning *tuning)
{
  struct place *place = tt_alloc(1, sizeof *place);
  tuttiResult_t result = tuttiSystemError;
  if (!place) tt_fail(result, "no memory for the prices of %d choices: give the process more", calibration->n);
  else result = place_make(place, anchor, tuning);
  if (result == tuttiSuccess) result = choices_compare(calibration, place);
  gaps_fill(calibration, fabs(log2((double)tuning->nranks / anchor->nranks)));
  place_destroy(place);
  return result;
}

tuttiResult_t tt_calibration_make(struct tt_calibration **out, int collective, const struct tt_choice *choices, int n,
                                  const struct tt_tuning *tuning)
{
  const struct tt_profile_anchor *anchor = nearest(collective, tuning);
  if (!anchor) n = 0;
  struct tt_calibration *calibration = tt_alloc(1, sizeof *calibration + (size_t)n * sizeof calibration->of[0]);
  tuttiResult_t result = tuttiSuccess;
  if (!calibration)
    return tt_fail(tuttiSystemError, "no memory for the prices of %d choices: give the process more", n);
  for (int c = 0; c < n; c++) calibration->of[c].choice = choices[c];
  calibration->n = n;
  if (anchor) result = calibration_fill(calibration, anchor, tuning);
  if (result == tuttiSuccess) *out = calibration;
  else tt_free(calibration);
  return result;
}

void tt_calibration_destroy(struct tt_calibration *calibration)
{
  tt_free(calibration);
}

int tt_calibration_blocks(uint32_t *blocks, int most, const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  const struct tt_profile_anchor *first = nearest(tt_algos[choice->algo].collective, tuning);
  int n = 0;
  for (int32_t i = 0; first && i < profile_of(tuning)->nanchors && n < most; i++) {
    const struct tt_profile_anchor *anchor = &profile_of(tuning)->anchors[i];
    int k = 0;
    if (!is_beside(anchor, first) || likeness(anchor, choice) != 2) continue;
    while (k < n && blocks[k] != anchor->block_bytes) k++;
    if (k == n && anchor->block_bytes != choice->block_bytes) blocks[n++] = anchor->block_bytes;
  }
  return n;
}

/* The choice with its block, or else the first one that differs only in that; NULL: there is none. */
static const struct calibrated *choice_find(const struct tt_calibration *calibration, const struct tt_choice *choice)
{
  const struct calibrated *first = NULL;
  for (int c = 0; c < calibration->n; c++) {
    const struct calibrated *at = &calibration->of[c];
    if (tt_choices_same(&at->choice, choice)) return at;
    if (!first && tt_choices_same_but_block(&at->choice, choice)) first = at;
  }
  return first;
}

double tt_calibration_ratio(const struct tt_calibration *calibration, const struct tt_choice *choice, uint64_t bytes,
                            int32_t lines[2])
{
  const struct calibrated *at = choice_find(calibration, choice);
  int class = tt_size_class(bytes), below, above;
  if (class < 0) class = TT_SIZE_CLASSES - 1;
  lines[0] = lines[1] = 0;
  if (!at) return 1;
  for (below = class; below > 0 && !at->line[below]; below--) continue;
  for (above = class; above < TT_SIZE_CLASSES - 1 && !at->line[above]; above++) continue;
  lines[0] = at->line[at->line[below] ? below : above];
  lines[1] = at->line[at->line[above] ? above : below];
  return at->ratios[class];
}

/* ---- what jobs have learnt ---- */

const struct tt_profile_learnt *tt_calibration_learnt(int collective, uint64_t bytes, const struct tt_tuning *tuning)
{
  const struct tt_profile *profile = tuning->prices->profile;
  const struct tt_cluster *cluster = tuning->cluster;
  for (int32_t i = 0; profile && i < profile->nlearnt; i++) {
    const struct tt_profile_anchor *is = &profile->learnt[i].is;
    if (is->collective == collective && is->memory == tuning->memory && profile->learnt[i].element == sizeof(float) &&
        is->nranks == tuning->nranks && is->nnodes == cluster->topology->nnodes && is->cores == cluster->cores &&
        strcmp(is->transport, tt_cluster_transport(cluster)) == 0 && tt_size_class(is->bytes) == tt_size_class(bytes))
      return &profile->learnt[i];
  }
  return NULL;
}

int tt_calibration_is(const struct tt_profile_learnt *learnt, const struct tt_choice *choice)
{
  return likeness(&learnt->is, choice) == 2 && learnt->is.block_bytes == choice->block_bytes;
}
