/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's part of a creation: from where the ranks are to what messages cost, and the table made from that. */
#include <stdio.h>
#include <string.h>

#include "comm/creation_private.h"
#include "tuner/cache.h"

/* The input of the decision table. It points into itself and into the communicator. */
struct tt_pricing {
  struct tt_profile profile; /* TUTTI_PROFILE; empty: there is none */
  struct tt_prices prices;
  struct tt_tuning tuning;
};

static void origins_log(const struct tt_prices *prices, const struct tt_cluster *cluster)
{
  char text[256];
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    if (!cluster->transport[kind]) continue;
    const struct tt_curve_part *part = prices->links.link[kind].part;
    tt_origin_text(&prices->origin[kind], text, sizeof text);
    tt_log(TT_LOG_INFO, "prices of %s: %.3g us and %.4g us a MiB for short messages; %s", tt_link_names[kind],
           part->alpha_us, part->beta_us_per_mib, text);
  }
  tt_origin_text(&prices->gamma_origin, text, sizeof text);
  tt_log(TT_LOG_INFO, "price of combining: %.4g us a MiB; %s", prices->links.gamma_us_per_mib, text);
}

static void cluster_find(struct tuttiComm *comm)
{
  const struct tt_creation *creation = comm->life.creation;
  struct tt_cluster *cluster = &comm->parts.cluster;
  *cluster = (struct tt_cluster){.nranks = comm->facts.nranks,
                                 .cores = creation->cores,
                                 .topology = &comm->parts.topology};
  tt_cluster_join(cluster, TT_LINK_SELF, tt_transports[0]->name, tt_transports[0]->block_bytes);
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    const struct pair *pair = &creation->pairs[kind];
    const struct tt_transport_ops *ops = creation->wanted[pair->transport];
    if (pair->ranks[0] == pair->ranks[1]) continue;
    tt_cluster_join(cluster, (enum tt_link_kind)kind, ops->name, ops->block_bytes);
    if (kind == TT_LINK_NET && ops->uses_interface) cluster->interface = comm->facts.interface;
  }
}

/* Once a process: each split of a communicator reads the profile again. */
static void busy_warn(const struct tt_profile *profile)
{
  char text[TT_SENTENCE_BYTES];
  if (tt_profile_busy_text(profile, text)[0] && !atomic_exchange(&tt_process.profile_warned, 1))
    tt_log(TT_LOG_WARN, "%s", text);
}

static tuttiResult_t pricing_make(struct tt_pricing *pricing, const struct tuttiComm *comm)
{
  const struct tt_settings *settings = &comm->facts.settings;
  const char *path = settings->profile;
  tuttiResult_t result = path[0] ? tt_profile_load(&pricing->profile, path) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  busy_warn(&pricing->profile);
  tt_prices_make(&pricing->prices, path[0] ? &pricing->profile : NULL, &comm->parts.cluster);
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++)
    if (comm->parts.corrected[kind].transport)
      tt_prices_correct(&pricing->prices, (enum tt_link_kind)kind, comm->parts.corrected[kind].by);
  pricing->tuning = (struct tt_tuning){.nranks = comm->facts.nranks,
                                       .groups = &comm->parts.arrangement.groups,
                                       .order = settings->deterministic ? NULL : comm->parts.arrangement.order,
                                       .cluster = &comm->parts.cluster,
                                       .prices = &pricing->prices,
                                       .lanes = (int32_t)settings->lanes,
                                       .deterministic = (int)settings->deterministic};
  return tuttiSuccess;
}

tuttiResult_t tt_pricing_create(struct tt_pricing **out, const struct tuttiComm *comm)
{
  struct tt_pricing *pricing = tt_alloc(1, sizeof *pricing);
  if (!pricing) return tt_fail(tuttiSystemError, "out of memory for prices");
  tuttiResult_t result = pricing_make(pricing, comm);
  if (result == tuttiSuccess) *out = pricing;
  else tt_pricing_destroy(pricing);
  return result;
}

const struct tt_tuning *tt_pricing_tuning(const struct tt_pricing *pricing)
{
  return &pricing->tuning;
}

void tt_pricing_destroy(struct tt_pricing *pricing)
{
  if (!pricing) return;
  tt_profile_destroy(&pricing->profile);
  tt_free(pricing);
}

/* *pricing is NULL if it is needed longer. */
static tuttiResult_t table_make(struct tuttiComm *comm, struct tt_pricing **pricing, struct tt_table *table)
{
  const struct tt_settings *settings = &comm->facts.settings;
  uint64_t began_ns = tt_now_ns();
  tuttiResult_t result = tt_table_make(table, settings, &(*pricing)->tuning);
  if (result == tuttiSuccess && tt_log_wants(TT_LOG_INFO)) {
    origins_log(&(*pricing)->prices, &comm->parts.cluster);
    tt_log(TT_LOG_INFO, "the table of algorithms took %.1f ms", (double)(tt_now_ns() - began_ns) / 1e6);
  }
  if (result == tuttiSuccess && settings->explain)
    result = tt_explainer_create(&comm->calls.explainer, pricing, settings->table);
  if (comm->calls.explainer) comm->calls.is_observed = 1;
  return result;
}

static int same_cluster(const struct tt_cluster *a, const struct tt_cluster *b)
{
  const char *interfaces[] = {a->interface ? a->interface : "", b->interface ? b->interface : ""};
  int is_same = a->cores == b->cores && a->block_bytes == b->block_bytes && !strcmp(interfaces[0], interfaces[1]);
  for (int kind = 0; kind < TT_LINK_KINDS; kind++)
    is_same &= a->transport[kind] == b->transport[kind]; /* names are constants */
  return is_same;
}

/* A child of all ranks in the same order: a table is a function of settings, groups, order, cluster and corrections. A
 * child has the settings that are not of the wire, and the corrections of the same cluster, from its parent. Lanes do
 * not count: only a communicator of frames has others than its parent, and that carries no operations. */
static int is_priced_as_parent(const struct tuttiComm *comm)
{
  const struct tt_creation *creation = comm->life.creation;
  const struct tuttiComm *parent = creation->parent;
  struct tt_settings settings = comm->facts.settings;
  int32_t r = 0;
  if (!parent || parent->facts.nranks != comm->facts.nranks || settings.explain) return 0;
  while (r < comm->facts.nranks && creation->ranks[r] == r) r++;
  settings.lanes = parent->facts.settings.lanes;
  if (parent->facts.settings.learn != TT_LEARN_OFF) settings.learn = parent->facts.settings.learn; /* it has arms */
  return r == comm->facts.nranks && same_cluster(&comm->parts.cluster, &parent->parts.cluster) &&
         tt_settings_wire_hash(&settings) == tt_settings_wire_hash(&parent->facts.settings) &&
         creation->rank_info->nearness == tt_nearness_hash(&parent->parts.topology, &parent->parts.arrangement);
}

uint64_t tt_learnt_key(const struct tuttiComm *comm)
{
  const struct tt_cluster *cluster = &comm->parts.cluster;
  struct tt_settings settings = comm->facts.settings;
  settings.learn = TT_LEARN_ON;
  uint64_t hash = tt_settings_wire_hash(&settings) * 31 + (uint64_t)cluster->nranks;
  hash = (hash * 31 + (uint64_t)cluster->cores) * 31;
  hash += tt_nearness_hash(&comm->parts.topology, &comm->parts.arrangement);
  for (int kind = 0; kind < TT_LINK_KINDS; kind++)
    hash = tt_text_hash(tt_text_hash(hash, "\n"), cluster->transport[kind] ? cluster->transport[kind] : "");
  return tt_text_hash(hash, cluster->interface ? cluster->interface : "");
}

/* 1 if the choice is an arm of its shape, so that it is legal here. */
static int is_arm(const struct tt_table *table, const struct tt_learnt *learnt)
{
  const struct tt_arms *arms = &table->arms[learnt->memory][tt_arms_row(learnt->collective)];
  for (int a = 0; a < TT_LEARN_ARMS && arms->of[learnt->size_class][a]; a++)
    if (tt_choices_same(&arms->choices[arms->of[learnt->size_class][a] - 1], &learnt->choice)) return 1;
  return 0;
}

/* Adds to the table what earlier jobs have learnt, the newest first. */
static void learnt_load(const struct tuttiComm *comm, struct tt_table *table)
{
  struct tt_cache cache;
  uint64_t key = tt_learnt_key(comm);
  table->nlearnt = 0;
  if (comm->facts.settings.learn == TT_LEARN_OFF) return;
  tt_cache_load(&cache, &comm->facts.settings);
  for (int k = cache.nlearnt - 1; k >= 0 && table->nlearnt < TT_LEARNT_MOST; k--)
    if (cache.learnt[k].key == key && is_arm(table, &cache.learnt[k].learnt))
      table->learnt[table->nlearnt++] = cache.learnt[k].learnt;
}

/* Rank 0 may take its parent's table: that goes to all ranks like one that was made, in the round that they need
 * anyway, so no rank has to know where it comes from. */
tuttiResult_t tt_creation_price(struct tuttiComm *comm, struct tt_table *table)
{
  struct tt_pricing *pricing = NULL;
  cluster_find(comm);
  if (is_priced_as_parent(comm)) {
    *table = comm->life.creation->parent->calls.table;
    if (comm->facts.settings.learn == TT_LEARN_OFF) table->nlearnt = 0;
    return tuttiSuccess;
  }
  tuttiResult_t result = tt_pricing_create(&pricing, comm);
  if (result == tuttiSuccess) result = table_make(comm, &pricing, table);
  if (result == tuttiSuccess) learnt_load(comm, table);
  tt_pricing_destroy(pricing);
  return result;
}
