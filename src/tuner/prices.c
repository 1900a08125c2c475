/* SPDX-License-Identifier: BSD-3-Clause */
/* From the lines of a profile to the prices of the links that are in use. */
#include "tuner/prices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which flow ------------------------------------------------------------------ */

/* 0: the same; 1: one of them is any; 2: two that differ. */
static int interface_distance(const struct tt_flow *flow, const struct tt_flow *wanted)
{
  if (strcmp(flow->interface, wanted->interface) == 0) return 0;
  return flow->interface[0] && wanted->interface[0] ? 2 : 1;
}

static int is_nearest(const struct tt_flow *flow, const struct tt_flow *wanted)
{
  return flow->kind != wanted->kind || flow->flows != wanted->flows || flow->ways != wanted->ways ||
         interface_distance(flow, wanted) == 2;
}

/* How far a measured flow is from the one that is wanted: its kind counts first, then its interface, its ways, and
 * how many there are.
 * Less than 0: it says nothing about that. */
static double distance(const struct tt_flow *flow, const struct tt_flow *wanted)
{
  if (strcmp(flow->transport, wanted->transport) != 0) return -1;
  if ((flow->kind == TT_LINK_NET) != (wanted->kind == TT_LINK_NET)) return -1;
  return 1000 * abs((int)flow->kind - (int)wanted->kind) + 200 * interface_distance(flow, wanted) +
         100 * (flow->ways != wanted->ways) +
         fabs(log2((double)flow->flows / wanted->flows));
}

/* The nearest line of the profile; NULL: none. */
static const struct tt_profile_link *flow_find(const struct tt_profile *profile, const struct tt_flow *wanted)
{
  const struct tt_profile_link *best = NULL;
  double least = 0;
  for (int32_t i = 0; profile && i < profile->nlinks; i++) {
    double far = distance(&profile->links[i].flow, wanted);
    if (far < 0 || (best && far >= least)) continue;
    best = &profile->links[i];
    least = far;
  }
  return best;
}

/* Takes all lines of a flow, in ascending order. If there are more than a curve may have, the first ones count, and the
 * last of these goes on. */
static void curve_make(struct tt_curve *curve, const struct tt_profile *profile, const struct tt_flow *flow)
{
  uint64_t from = 0;
  *curve = (struct tt_curve){.nparts = 0};
  while (curve->nparts < TT_CURVE_PARTS) {
    const struct tt_profile_link *next = NULL;
    for (int32_t i = 0; i < profile->nlinks; i++) {
      const struct tt_profile_link *link = &profile->links[i];
      if (tt_flow_same(&link->flow, flow) && link->to > from && (!next || link->to < next->to)) next = link;
    }
    if (!next) break;
    if (!curve->nparts) curve->overhead_us = fmin(next->overhead_us, next->alpha_us);
    curve->part[curve->nparts++] = (struct tt_curve_part){next->to, next->alpha_us, next->beta_us_per_mib};
    from = next->to;
  }
  if (curve->nparts) curve->part[curve->nparts - 1].up_to_bytes = UINT64_MAX;
}

static void link_price(struct tt_prices *prices, enum tt_link_kind kind, const struct tt_profile *profile,
                       const struct tt_flow *wanted)
{
  const struct tt_profile_link *link = flow_find(profile, wanted);
  if (!link) {
    profile = tt_profile_shipped();
    link = flow_find(profile, wanted);
  }
  prices->origin[kind].flow = *wanted;
  if (!link) return;
  curve_make(&prices->links.link[kind], profile, &link->flow);
  prices->origin[kind] = (struct tt_origin){
      .profile = profile, .flow = link->flow, .line = link->line, .is_nearest = is_nearest(&link->flow, wanted)};
  struct tt_origin *origin = &prices->origin[kind];
  for (int32_t i = 0; i < profile->nlinks; i++) {
    const struct tt_profile_link *part = &profile->links[i];
    if (!tt_flow_same(&part->flow, &link->flow)) continue;
    origin->points += part->points;
    if (part->points) origin->error_percent = fmax(origin->error_percent, part->error_percent);
  }
}

/* ---- gamma ------------------------------------------------------------------------- */

/* Sums of two vectors in the second cache, or in the level nearest to that. */
static const struct tt_profile_reduce *reduce_find(const struct tt_profile *profile, int type)
{
  const struct tt_profile_reduce *best = NULL;
  for (int32_t i = 0; profile && i < profile->nreduces; i++) {
    const struct tt_profile_reduce *reduce = &profile->reduces[i];
    if (reduce->type != type || reduce->op != tuttiSum || reduce->nsrc != 2) continue;
    if (!best || abs((int)reduce->level - TT_LEVEL_L2) < abs((int)best->level - TT_LEVEL_L2)) best = reduce;
  }
  return best;
}

/* The type that is measured for types alike: integers are added, short floats are widened first. */
static int type_like(int type)
{
  if (!tt_type_is_float(type)) return tuttiInt32;
  return tt_type_size(type) < sizeof(float) ? tuttiFloat16 : tuttiFloat32;
}

void tt_prices_combine(struct tt_prices *prices, int type)
{
  const struct tt_profile *profiles[] = {prices->profile, tt_profile_shipped()}, *profile = NULL;
  const int types[] = {type, type_like(type)};
  const struct tt_profile_reduce *reduce = NULL;
  for (int k = 0; k < 4 && !reduce; k++) {
    profile = profiles[k % 2];
    reduce = reduce_find(profile, types[k / 2]);
  }
  if (!reduce) return;
  prices->links.gamma_us_per_mib = reduce->gamma_us_per_mib;
  prices->gamma_origin = (struct tt_origin){.profile = profile,
                                            .line = reduce->line,
                                            .type = reduce->type,
                                            .is_nearest = reduce->type != type || reduce->level != TT_LEVEL_L2};
}

/* ---- all ----------------------------------------------------------------------------- */

/* Pairs inside the fullest node that can talk at once. */
static int32_t pairs_of(const struct tt_cluster *cluster)
{
  int32_t most = 0, nnodes = cluster->topology->nnodes, *ranks = tt_alloc((size_t)nnodes, sizeof *ranks);
  for (int32_t r = 0; ranks && r < cluster->nranks; r++)
    if (++ranks[cluster->topology->node[r]] > most) most = ranks[cluster->topology->node[r]];
  tt_free(ranks);
  return most > 3 ? most / 2 : 1;
}

const char *tt_cluster_transport(const struct tt_cluster *cluster)
{
  const char *inside = NULL;
  if (cluster->topology->nnodes > 1 && cluster->transport[TT_LINK_NET]) return cluster->transport[TT_LINK_NET];
  for (int kind = TT_LINK_CACHE; kind <= TT_LINK_NODE && !inside; kind++) inside = cluster->transport[kind];
  return inside ? inside : "";
}

void tt_prices_make(struct tt_prices *prices, const struct tt_profile *profile, const struct tt_cluster *cluster)
{
  int32_t pairs = pairs_of(cluster);
  *prices = (struct tt_prices){
      .links = tt_link_prices_default, .block_bytes = cluster->block_bytes, .profile = profile};
  for (int kind = 0; kind < TT_LINK_KINDS; kind++) {
    const char *transport = cluster->transport[kind];
    struct tt_flow wanted = {.kind = (enum tt_link_kind)kind, .flows = kind == TT_LINK_NET ? 1 : pairs, .ways = 2};
    if (!transport) continue;
    snprintf(wanted.transport, sizeof wanted.transport, "%s", transport);
    if (kind == TT_LINK_NET && cluster->interface)
      snprintf(wanted.interface, sizeof wanted.interface, "%s", cluster->interface);
    link_price(prices, (enum tt_link_kind)kind, profile, &wanted);
  }
  prices->gamma_origin.type = tuttiFloat32;
  tt_prices_combine(prices, tuttiFloat32);
}

/* ---- corrections ---------------------------------------------------------------------- */

/* The power of 2 between `factor` and 1; beyond the most just that. Twice as slow by an equal sum is twice as slow. */
static int8_t power_of(double factor)
{
  const double beyond = TT_CORRECTION_MOST + 1;
  double power = factor > 0 ? log2(factor) : -beyond;
  power = trunc(power + copysign(1e-6, power));
  return (int8_t)fmin(fmax(power, -beyond), beyond);
}

/* The shipped curve of one pair, both ways; no parts if the shipped profile has none. */
static void shipped_curve(struct tt_curve *curve, enum tt_link_kind kind, const char *transport)
{
  struct tt_flow flow = {.kind = kind, .flows = 1, .ways = 2};
  const struct tt_profile *shipped = tt_profile_shipped();
  snprintf(flow.transport, sizeof flow.transport, "%s", transport);
  *curve = (struct tt_curve){.nparts = 0};
  if (shipped) curve_make(curve, shipped, &flow);
}

int tt_correction_possible(enum tt_link_kind kind, const char *transport)
{
  struct tt_curve curve;
  shipped_curve(&curve, kind, transport);
  return curve.nparts > 0;
}

struct tt_correction tt_correction_make(enum tt_link_kind kind, const char *transport, double short_us,
                                        uint64_t long_bytes, double long_us)
{
  struct tt_curve curve;
  shipped_curve(&curve, kind, transport);
  if (!curve.nparts) return TT_CORRECTION_NONE;
  const struct tt_curve_part *last = curve.part;
  while (long_bytes > last->up_to_bytes) last++;
  double alpha = curve.part[0].alpha_us, beta_us = (double)long_bytes / (1 << 20) * last->beta_us_per_mib;
  struct tt_correction correction = {.alpha = alpha > 0 ? power_of(short_us / alpha) : 0};
  double begun_us = alpha > 0 ? short_us / alpha * last->alpha_us : last->alpha_us;
  if (beta_us > 0) correction.beta = power_of((long_us - begun_us) / beta_us);
  return tt_correction_known(correction) ? correction : TT_CORRECTION_NONE;
}

void tt_prices_correct(struct tt_prices *prices, enum tt_link_kind kind, struct tt_correction correction)
{
  struct tt_curve *curve = &prices->links.link[kind];
  struct tt_origin *origin = &prices->origin[kind];
  if (!tt_correction_known(correction) || !origin->profile || origin->profile != tt_profile_shipped()) return;
  double slower = exp2(correction.alpha), steeper = exp2(correction.beta);
  origin->correction = correction;
  curve->overhead_us *= slower;
  for (int32_t p = 0; p < curve->nparts; p++) {
    curve->part[p].alpha_us *= slower;
    curve->part[p].beta_us_per_mib *= steeper;
  }
}

/* ---- text -------------------------------------------------------------------------------- */

static void correction_append(const struct tt_origin *origin, char *text, size_t size)
{
  size_t len = strlen(text);
  int has_date = origin->date[0] != 0;
  if (!origin->correction.alpha && !origin->correction.beta) return;
  snprintf(text + len, size - len, "; corrected by a pair in TUTTI_CACHE%s%s%s: latency x%.3g, time per byte x%.3g",
           has_date ? " (" : "", origin->date, has_date ? ")" : "", exp2(origin->correction.alpha),
           exp2(origin->correction.beta));
}

void tt_origin_text(const struct tt_origin *origin, char *text, size_t size)
{
  const struct tt_flow *flow = &origin->flow;
  char where[TT_PROFILE_TEXT + 32] = "a default: no profile has it", what[TT_FLOW_TEXT], pairs[32];
  int is_link = flow->transport[0] != 0;
  if (origin->profile && origin->line && origin->profile != tt_profile_shipped())
    snprintf(where, sizeof where, "%s line %d", origin->profile->name, (int)origin->line);
  else if (origin->is_said) snprintf(where, sizeof where, "as --link says");
  else if (origin->profile) snprintf(where, sizeof where, "%s", origin->profile->name);
  snprintf(pairs, sizeof pairs, "%d pair%s", (int)flow->flows, flow->flows == 1 ? "" : "s");
  if (is_link) tt_flow_text(flow, what);
  else snprintf(what, sizeof what, "sum of two vectors of %s", tt_type_name(origin->type));
  if (is_link && origin->is_nearest)
    snprintf(text, size, "%s: %s (%s, %d-way: the nearest that was measured)", what, where, pairs, (int)flow->ways);
  else if (is_link) snprintf(text, size, "%s, %s at once: %s", what, pairs, where);
  else snprintf(text, size, "%s: %s%s", what, where, origin->is_nearest ? " (the nearest that was measured)" : "");
  correction_append(origin, text, size);
}
