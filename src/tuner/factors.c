/* SPDX-License-Identifier: BSD-3-Clause */
/* Measured times of choices over predicted ones: the anchors of a profile, of the clusters nearest to the one that is
 * priced. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/private.h"

#define SIZES TT_COST_CURVE_SIZES /* of anchors; more do not count */
#define FARTHEST 4.0           /* of a logarithm: more is a mistake */
#define NONE 1e9

struct tt_factors {
  int collective;
  int32_t nranks;
  int n, nsizes; /* nsizes 0: nothing was measured that is like this cluster */
  struct tt_choice choices[TT_CHOICES];
  uint64_t bytes[SIZES]; /* ascending */
  double log_factor[TT_CHOICES][SIZES];
  int32_t line[TT_CHOICES][SIZES]; /* of the anchor; 0: there is none */
};

/* One place where anchors were measured, rebuilt for predictions there. */
struct place {
  const struct tt_profile_anchor **anchors; /* of the collective, measured there */
  int32_t nanchors;
  const char *transport;
  int32_t nranks, nnodes, cores;
  struct tt_topology topology;
  struct tt_arrangement arrangement;
  struct tt_cluster cluster;
  struct tt_prices prices;
  struct tt_tuning tuning;
  double log_factor[TT_CHOICES][SIZES]; /* NONE: nothing was measured */
  double median[SIZES];
  int32_t line[TT_CHOICES][SIZES];
};

/* ---- the places ---- */

static const char *transport_of(const struct tt_cluster *cluster)
{
  const char *inside = NULL;
  if (cluster->topology->nnodes > 1 && cluster->transport[TT_LINK_NET]) return cluster->transport[TT_LINK_NET];
  for (int kind = TT_LINK_CACHE; kind <= TT_LINK_NODE && !inside; kind++) inside = cluster->transport[kind];
  return inside ? inside : "";
}

static int is_oversubscribed(int32_t nranks, int32_t nnodes, int32_t cores)
{
  return nranks > (int64_t)cores * nnodes;
}

/* It says something of this cluster: the same collective and transport, one node or several, oversubscribed or not. */
static int is_akin(const struct tt_profile_anchor *anchor, int collective, const struct tt_cluster *cluster)
{
  int32_t nnodes = cluster->topology->nnodes;
  return anchor->collective == collective && strcmp(anchor->transport, transport_of(cluster)) == 0 &&
         (anchor->nnodes > 1) == (nnodes > 1) &&
         is_oversubscribed(anchor->nranks, anchor->nnodes, anchor->cores) ==
             is_oversubscribed(cluster->nranks, nnodes, cluster->cores);
}

/* Both anchors were measured at one place. */
static int is_beside(const struct tt_profile_anchor *a, const struct tt_profile_anchor *b)
{
  return a->nranks == b->nranks && a->nnodes == b->nnodes && a->cores == b->cores &&
         strcmp(a->transport, b->transport) == 0;
}

/* How far from the wanted cluster, in ranks first. */
static double distance(const struct tt_profile_anchor *anchor, const struct tt_cluster *cluster)
{
  return fabs(log2((double)anchor->nranks / cluster->nranks)) +
         fabs(log2((double)anchor->nnodes / cluster->topology->nnodes)) / 16 +
         fabs(log2((double)anchor->cores / cluster->cores)) / 64;
}

/* The nearest anchor with no more ranks (side < 0) or no fewer (side > 0). */
static const struct tt_profile_anchor *nearest(const struct tt_profile *profile, int collective,
                                               const struct tt_cluster *cluster, int side)
{
  const struct tt_profile_anchor *best = NULL;
  for (int32_t i = 0; i < profile->nanchors; i++) {
    const struct tt_profile_anchor *anchor = &profile->anchors[i];
    if (!is_akin(anchor, collective, cluster) || (anchor->nranks - cluster->nranks) * side < 0) continue;
    if (!best || distance(anchor, cluster) < distance(best, cluster)) best = anchor;
  }
  return best;
}

/* ---- a place ---- */

/* Ranks in blocks over nodes, as near each other as the nearest of the wanted cluster. */
static tuttiResult_t topology_make(struct place *place, const struct tt_cluster *wanted)
{
  size_t nranks = (size_t)place->nranks;
  struct tt_locality near = {wanted->transport[TT_LINK_CACHE] || wanted->transport[TT_LINK_NUMA] ? 0 : -1,
                             wanted->transport[TT_LINK_CACHE] ? 0 : -1};
  uint64_t *host = tt_alloc(nranks, sizeof *host);
  struct tt_locality *locality = tt_alloc(nranks, sizeof *locality);
  tuttiResult_t result = tuttiSystemError;
  for (size_t r = 0; host && locality && r < nranks; r++) {
    host[r] = 1 + r * (size_t)place->nnodes / nranks;
    locality[r] = near;
  }
  if (host && locality) result = tt_topology_make(&place->topology, place->nranks, host, locality);
  else tt_fail(result, "no memory for the prices of %d ranks: give the process more", (int)place->nranks);
  tt_free(host);
  tt_free(locality);
  return result;
}

/* Finds the anchors that were measured beside this one. */
static tuttiResult_t anchors_take(struct place *place, const struct tt_profile_anchor *first,
                                  const struct tt_profile *profile)
{
  place->anchors = tt_alloc((size_t)profile->nanchors, sizeof(struct tt_profile_anchor *));
  if (!place->anchors)
    return tt_fail(tuttiSystemError, "no memory for %d anchors: give the process more", (int)profile->nanchors);
  for (int32_t i = 0; i < profile->nanchors; i++) {
    const struct tt_profile_anchor *anchor = &profile->anchors[i];
    if (anchor->collective == first->collective && is_beside(anchor, first)) place->anchors[place->nanchors++] = anchor;
  }
  return tuttiSuccess;
}

static tuttiResult_t place_make(struct place *place, const struct tt_profile_anchor *anchor,
                                const struct tt_profile *profile, const struct tt_tuning *tuning)
{
  const struct tt_cluster *wanted = tuning->cluster;
  place->transport = anchor->transport;
  place->nranks = anchor->nranks;
  place->nnodes = anchor->nnodes;
  place->cores = anchor->cores;
  tuttiResult_t result = anchors_take(place, anchor, profile);
  if (result == tuttiSuccess) result = topology_make(place, wanted);
  if (result == tuttiSuccess) result = tt_topology_arrange(&place->arrangement, &place->topology, 0);
  if (result != tuttiSuccess) return result;
  place->cluster = (struct tt_cluster){.nranks = place->nranks,
                                       .cores = place->cores,
                                       .topology = &place->topology,
                                       .block_bytes = wanted->block_bytes,
                                       .interface = wanted->interface};
  memcpy(place->cluster.transport, wanted->transport, sizeof place->cluster.transport);
  tt_prices_make(&place->prices, profile, &place->cluster);
  place->tuning = (struct tt_tuning){.nranks = place->nranks,
                                     .groups = &place->arrangement.groups,
                                     .order = place->arrangement.order,
                                     .cluster = &place->cluster,
                                     .prices = &place->prices,
                                     .lanes = tuning->lanes,
                                     .deterministic = tuning->deterministic};
  return tuttiSuccess;
}

static void place_destroy(struct place *place)
{
  if (!place) return;
  tt_free(place->anchors);
  tt_arrangement_destroy(&place->arrangement);
  tt_topology_destroy(&place->topology);
  tt_free(place);
}

/* ---- measurements at a place ---- */

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

/* The anchor of this size that is most like the choice, with that block (0: any); NULL: none. */
static const struct tt_profile_anchor *anchor_find(const struct place *place, const struct tt_choice *choice,
                                                   uint64_t bytes, uint32_t block_bytes)
{
  const struct tt_profile_anchor *best = NULL;
  int most = 0;
  for (int32_t i = 0; i < place->nanchors; i++) {
    const struct tt_profile_anchor *anchor = place->anchors[i];
    if (anchor->bytes != bytes || (block_bytes && anchor->block_bytes != block_bytes)) continue;
    int like = likeness(anchor, choice);
    if (like <= most) continue;
    best = anchor;
    most = like;
  }
  return best;
}

static int is_legal(const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  struct tt_shape shape = tt_choice_shape(choice, tuning, 0, tt_kinds[algo->collective].has_root ? 0 : -1);
  return !algo->illegal || !algo->illegal(&shape);
}

/* The block with which the choice was measured from the smallest size on; 0: it was not. */
static uint32_t block_find(const struct place *place, const struct tt_choice *choice, const struct tt_factors *factors)
{
  const struct tt_profile_anchor *anchor = NULL;
  for (int s = 0; s < factors->nsizes && !anchor; s++) {
    anchor = anchor_find(place, choice, factors->bytes[s], choice->block_bytes);
    if (!anchor) anchor = anchor_find(place, choice, factors->bytes[s], 0);
  }
  return anchor ? anchor->block_bytes : 0;
}

/* Plays the choice at the sizes at which it was measured with this block. */
static tuttiResult_t choice_compare(struct place *place, int c, const struct tt_choice *choice,
                                    const struct tt_factors *factors)
{
  const struct tt_profile_anchor *anchors[SIZES];
  uint64_t bytes[SIZES];
  struct tt_cost_curve curve;
  int at[SIZES], n = 0;
  for (int s = 0; s < factors->nsizes; s++) {
    anchors[n] = anchor_find(place, choice, factors->bytes[s], choice->block_bytes);
    if (!anchors[n]) continue;
    bytes[n] = factors->bytes[s];
    at[n++] = s;
  }
  if (!n) return tuttiSuccess;
  tuttiResult_t result = tt_cost_curve_make_at(&curve, choice, &place->tuning, choice->block_bytes, bytes, n);
  for (int k = 0; k < n && result == tuttiSuccess; k++) {
    double apart = log(anchors[k]->us / tt_cost_curve_us(&curve, choice->block_bytes, bytes[k]));
    place->log_factor[c][at[k]] = fmin(fmax(apart, -FARTHEST), FARTHEST);
    place->line[c][at[k]] = anchors[k]->line;
  }
  tt_cost_curve_destroy(&curve);
  return result;
}

/* Fills in missing sizes: by interpolation between their neighbours; beyond them by the nearest. */
static void gaps_fill(double *at, const struct tt_factors *factors)
{
  for (int s = 0; s < factors->nsizes; s++) {
    int before = s, after = s;
    if (at[s] < NONE) continue;
    while (before >= 0 && at[before] >= NONE) before--;
    while (after < factors->nsizes && at[after] >= NONE) after++;
    if (before < 0 && after == factors->nsizes) return;
    if (before < 0) at[s] = at[after];
    else if (after == factors->nsizes) at[s] = at[before];
    else {
      double a = log((double)factors->bytes[before]), b = log((double)factors->bytes[after]);
      at[s] = at[before] + (at[after] - at[before]) * (log((double)factors->bytes[s]) - a) / (b - a);
    }
  }
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A choice without measurements gets the median of the others, because it would look too cheap otherwise. */
static void unknown_fill(struct place *place, const struct tt_factors *factors)
{
  double known[TT_CHOICES];
  for (int s = 0; s < factors->nsizes; s++) {
    size_t n = 0;
    for (int c = 0; c < factors->n; c++)
      if (place->log_factor[c][s] < NONE) known[n++] = place->log_factor[c][s];
    qsort(known, n, sizeof *known, by_value);
    place->median[s] = n ? known[n / 2] : 0;
  }
  for (int c = 0; c < factors->n; c++)
    for (int s = 0; s < factors->nsizes; s++)
      if (place->log_factor[c][s] >= NONE) place->log_factor[c][s] = place->median[s];
}

/* A choice that differs from an earlier one only in its block has that one's factors, except where it was measured. */
static tuttiResult_t place_compare(struct place *place, const struct tt_factors *factors)
{
  for (int c = 0; c < factors->n; c++) {
    struct tt_choice choice = factors->choices[c];
    int first = 0;
    while (!tt_choices_same_but_block(&factors->choices[first], &choice)) first++;
    for (int s = 0; s < factors->nsizes; s++) {
      place->log_factor[c][s] = first < c ? place->log_factor[first][s] : NONE;
      place->line[c][s] = first < c ? place->line[first][s] : 0;
    }
    if (choice.radix > place->nranks) choice.radix = (uint16_t)place->nranks;
    if (first == c) choice.block_bytes = block_find(place, &choice, factors);
    if (!choice.block_bytes || !is_legal(&choice, &place->tuning)) continue;
    tuttiResult_t result = choice_compare(place, c, &choice, factors);
    if (result != tuttiSuccess) return result;
    gaps_fill(place->log_factor[c], factors);
  }
  unknown_fill(place, factors);
  return tuttiSuccess;
}

/* ---- all ---- */

/* The smallest size of an anchor that is above the last one; UINT64_MAX: there is none. */
static uint64_t size_next(const struct place *place, uint64_t last)
{
  uint64_t next = UINT64_MAX;
  for (int32_t i = 0; i < place->nanchors; i++)
    if (place->anchors[i]->bytes > last && place->anchors[i]->bytes < next) next = place->anchors[i]->bytes;
  return next;
}

/* The sizes of all anchors of the two places, ascending. */
static void sizes_find(struct tt_factors *factors, const struct place *low, const struct place *high)
{
  uint64_t last = 0;
  for (;;) {
    uint64_t next = size_next(low, last), other = size_next(high, last);
    if (other < next) next = other;
    if (next == UINT64_MAX || factors->nsizes == SIZES) return;
    factors->bytes[factors->nsizes++] = last = next;
  }
}

/* How much of a choice's distance from the others is believed for this number of ranks: all if it lies between two
 * places, or is up to twice or half that of the only one; beyond, half with each doubling. */
static double belief(const struct tt_factors *factors, const struct place *low, const struct place *high)
{
  double far = fabs(log2((double)factors->nranks / low->nranks));
  return low != high || far <= 1 ? 1 : exp2(1 - far);
}

static void places_join(struct tt_factors *factors, const struct place *low, const struct place *high)
{
  double believed = belief(factors, low, high);
  double far = log((double)high->nranks / low->nranks);
  double part = far > 0 ? log((double)factors->nranks / low->nranks) / far : 0;
  const struct place *near = part > 0.5 ? high : low;
  for (int c = 0; c < factors->n; c++)
    for (int s = 0; s < factors->nsizes; s++) {
      double a = low->median[s] + believed * (low->log_factor[c][s] - low->median[s]);
      double b = high->median[s] + believed * (high->log_factor[c][s] - high->median[s]);
      factors->log_factor[c][s] = (1 - part) * a + part * b;
      factors->line[c][s] = near->line[c][s];
    }
}

static tuttiResult_t places_compare(struct tt_factors *factors, struct place *low, struct place *high)
{
  sizes_find(factors, low, high);
  tuttiResult_t result = place_compare(low, factors);
  if (result == tuttiSuccess && high != low) result = place_compare(high, factors);
  if (result == tuttiSuccess) places_join(factors, low, high);
  else factors->nsizes = 0;
  return result;
}

/* Finds the places with anchors that count, at most two: *low == *high if there is one. NULL: none. */
static void anchors_find(const struct tt_profile *profile, int collective, const struct tt_tuning *tuning,
                         const struct tt_profile_anchor **low, const struct tt_profile_anchor **high)
{
  *low = nearest(profile, collective, tuning->cluster, -1);
  *high = nearest(profile, collective, tuning->cluster, 1);
  if (!*low || (*high && (*high)->nranks == tuning->nranks)) *low = *high;
  if (!*high || (*low)->nranks == tuning->nranks) *high = *low;
}

static const struct tt_profile *profile_of(const struct tt_tuning *tuning)
{
  return tuning->prices->profile ? tuning->prices->profile : tt_profile_shipped();
}

static tuttiResult_t factors_fill(struct tt_factors *factors, const struct tt_tuning *tuning)
{
  const struct tt_profile *profile = profile_of(tuning);
  const struct tt_profile_anchor *below, *above;
  if (!profile || tuning->nranks < 2) return tuttiSuccess;
  anchors_find(profile, factors->collective, tuning, &below, &above);
  if (!below) return tuttiSuccess;
  struct place *low = tt_alloc(1, sizeof *low), *high = above == below ? low : tt_alloc(1, sizeof *high);
  tuttiResult_t result = tuttiSystemError;
  if (!low || !high) tt_fail(result, "no memory for the prices of %d choices: give the process more", factors->n);
  else result = place_make(low, below, profile, tuning);
  if (result == tuttiSuccess && high != low) result = place_make(high, above, profile, tuning);
  if (result == tuttiSuccess) result = places_compare(factors, low, high);
  if (high != low) place_destroy(high);
  place_destroy(low);
  return result;
}

tuttiResult_t tt_factors_make(struct tt_factors **out, int collective, const struct tt_choice *choices, int n,
                              const struct tt_tuning *tuning)
{
  struct tt_factors *factors = tt_alloc(1, sizeof *factors);
  if (!factors) return tt_fail(tuttiSystemError, "no memory for the prices of %d choices: give the process more", n);
  factors->collective = collective;
  factors->nranks = tuning->nranks;
  factors->n = n;
  memcpy(factors->choices, choices, (size_t)n * sizeof *choices);
  tuttiResult_t result = factors_fill(factors, tuning);
  if (result == tuttiSuccess) *out = factors;
  else tt_free(factors);
  return result;
}

void tt_factors_destroy(struct tt_factors *factors)
{
  tt_free(factors);
}

/* Adds a block to the n there are, each once. */
static int block_add(uint32_t *blocks, int n, uint32_t block)
{
  for (int k = 0; k < n; k++)
    if (blocks[k] == block) return n;
  blocks[n] = block;
  return n + 1;
}

int tt_factors_blocks(uint32_t *blocks, int most, const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  const struct tt_profile *profile = profile_of(tuning);
  const struct tt_profile_anchor *low, *high;
  int n = 0;
  if (!profile || !tuning->cluster || tuning->nranks < 2) return 0;
  anchors_find(profile, tt_algos[choice->algo].collective, tuning, &low, &high);
  for (int32_t i = 0; low && i < profile->nanchors && n < most; i++) {
    const struct tt_profile_anchor *anchor = &profile->anchors[i];
    if (anchor->collective == low->collective && anchor->block_bytes != choice->block_bytes &&
        (is_beside(anchor, low) || is_beside(anchor, high)) && likeness(anchor, choice) == 2)
      n = block_add(blocks, n, anchor->block_bytes);
  }
  return n;
}

static int index_of(const struct tt_factors *factors, const struct tt_choice *choice)
{
  int first = -1;
  for (int c = 0; c < factors->n; c++) {
    const struct tt_choice *has = &factors->choices[c];
    if (!tt_choices_same_but_block(has, choice)) continue;
    if (has->block_bytes == choice->block_bytes) return c;
    if (first < 0) first = c;
  }
  return first;
}

double tt_factor(const struct tt_factors *factors, const struct tt_choice *choice, uint64_t bytes, int32_t lines[2])
{
  int c = factors ? index_of(factors, choice) : -1, s = 0;
  lines[0] = lines[1] = 0;
  if (c < 0 || !factors->nsizes) return 1;
  const double *at = factors->log_factor[c];
  while (s < factors->nsizes && factors->bytes[s] < bytes) s++;
  int before = s ? s - 1 : 0, after = s < factors->nsizes ? s : factors->nsizes - 1;
  lines[0] = factors->line[c][before];
  lines[1] = factors->line[c][after];
  if (before == after || bytes <= factors->bytes[0]) return exp(at[after]);
  double a = log((double)factors->bytes[before]), b = log((double)factors->bytes[after]);
  return exp(at[before] + (at[after] - at[before]) * (log((double)bytes) - a) / (b - a));
}
