/* SPDX-License-Identifier: BSD-3-Clause */
/* A fusion with servers that goes on over another communicator (move.c). The old engines have ended: every rank of the
 * old set has left, or is dead, so no contribution is under way. src/server/move.h says who gives the weights of each
 * shard of the old set, and from which version all go on; as in other moves planes of tensors are added up, and each
 * rank takes what it owns now. The planes behind weights of which a copy is given begin as zeros.
 *
 * Each rank keeps its own steps, and what it is behind the newest weights: its next contribution is as old as if
 * nothing had moved. A new rank is as far behind as one that has never been answered. With gossip weights are a rank's
 * own, and stay where they are. */
#include <string.h>

#include "fusion/served_private.h"
#include "server/move.h"

#define OLD_MOST (1 << 20) /* ranks (server/move.h) */

/* A rank's words. */
struct words {
  uint64_t ended, holds, steps;
  int32_t has_come, nranks; /* nranks: of the old set */
};

struct moving_served {
  struct tuttiFusion *fusion;
  const struct tuttiFusion *from; /* NULL: this rank is new */
  enum tt_move_rule rule;
  int n, nold;
  struct words *words;     /* of each rank of the new set */
  uint64_t *claims;        /* of each tensor and old share */
  float *whole;            /* room for a tensor, and for one as it travels */
  char *wire;
  uint64_t version;        /* from which shards go on */
  uint64_t lost;           /* elements */
};

static enum tt_move_rule rule_of(const struct served *served)
{
  if (served->kind != TT_SERVER_SYNCHRONOUS) return TT_MOVE_OTHERS;
  return served->shards.by_decision ? TT_MOVE_BY_DECISION : TT_MOVE_ALL;
}

/* ---- what the ranks say ---- */

static tuttiResult_t words_gather(struct moving_served *m)
{
  const struct config *config = &m->fusion->config;
  const struct tuttiFusion *from = m->from;
  if (from) {
    const struct member *member = &from->served->member;
    m->words[config->rank] = (struct words){member->version, member->cut.version,
                                            from->coding.past.steps + from->coding.step, 1, from->config.nranks};
  }
  tuttiResult_t result = tt_fusion_run(config, TT_ALL_GATHER, m->words, sizeof *m->words, tuttiUint8, tuttiSum);
  for (int r = 0; r < m->n && result == tuttiSuccess; r++) {
    const struct words *its = &m->words[r];
    if (!its->has_come) continue;
    if (!m->nold) m->nold = from ? from->config.nranks : its->nranks;
    if (its->nranks == m->nold && m->nold > 0 && m->nold < OLD_MOST) continue;
    return tt_fusion_told(config, tt_fail(tuttiInternalError, "rank %d says that the fusion that moves had %d ranks, "
                                          "which cannot be: its memory is damaged", r, its->nranks));
  }
  return result;
}

/* A new rank begins with the steps of the slowest, so that nobody waits for it to make theirs. */
static uint64_t steps_of(const struct moving_served *m, int rank)
{
  uint64_t least = UINT64_MAX;
  for (int r = 0; r < m->n; r++)
    if (m->words[r].has_come && m->words[r].steps < least) least = m->words[r].steps;
  return m->words[rank].has_come ? m->words[rank].steps : least;
}

static tuttiResult_t version_find(struct moving_served *m)
{
  struct tt_move_rank *ranks = tt_alloc((size_t)m->n, sizeof *ranks);
  tuttiResult_t result = ranks ? tuttiSuccess : tt_fail(tuttiSystemError, "out of memory for %d ranks", m->n);
  for (int r = 0; r < m->n && ranks; r++)
    ranks[r] = (struct tt_move_rank){m->words[r].has_come, m->words[r].ended, m->words[r].holds};
  if (ranks) m->version = tt_move_version(m->rule, ranks, m->n);
  tt_free(ranks);
  return tt_fusion_told(&m->fusion->config, result);
}

/* ---- shards of the old set ---- */

static size_t place_of(const struct moving_served *m, int tensor, int share)
{
  return (size_t)tensor * (size_t)m->nold + (size_t)share;
}

static struct tt_move_shard shard_of(const struct tuttiFusion *from, int tensor, int share)
{
  const struct served *served = from->served;
  const struct share *its = &served->shards.shares[share];
  const struct member *member = &served->member;
  size_t part = (size_t)tensor * (size_t)from->config.nranks + (size_t)share;
  int k = its->server ? its->of_tensor[tensor] : -1;
  int by_decision = served->shards.by_decision;
  return (struct tt_move_shard){.serves = k >= 0,
                                .goes_back = k >= 0 && its->goes_back[k],
                                .has_copy = member->cut.weights != NULL,
                                .version = k >= 0 ? its->versions[k] : 0,
                                .copied = by_decision ? member->cut.version : member->from[part]};
}

/* 0: this rank has none. It is the same before and after the ranks have told each other theirs. */
static uint64_t own_claim(const struct moving_served *m, int tensor, int share)
{
  if (!m->from->coding.owned[tensor].is_given || !tt_share_count(m->from, tensor, share)) return 0;
  const struct tt_move_shard shard = shard_of(m->from, tensor, share);
  return tt_move_claim(m->rule, m->version, m->fusion->config.rank, &shard);
}

static tuttiResult_t claims_find(struct moving_served *m)
{
  const struct config *config = &m->fusion->config;
  size_t all = (size_t)config->n * (size_t)m->nold;
  m->claims = tt_alloc(all, sizeof *m->claims);
  tuttiResult_t result = m->claims ? tuttiSuccess : tuttiSystemError;
  if (!m->claims) tt_fail(result, "out of memory for the shards of %d ranks", m->nold);
  result = tt_fusion_told(config, result);
  for (int i = 0; i < config->n && m->from && result == tuttiSuccess; i++)
    for (int share = 0; share < m->nold; share++) m->claims[place_of(m, i, share)] = own_claim(m, i, share);
  if (result == tuttiSuccess) result = tt_fusion_run(config, TT_ALL_REDUCE, m->claims, all, tuttiUint64, tuttiMax);
  for (size_t k = 0; k < all && result == tuttiSuccess && m->rule == TT_MOVE_OTHERS; k++)
    if (m->claims[k] && tt_move_claimed(m->claims[k]) > m->version) m->version = tt_move_claimed(m->claims[k]);
  return result;
}

/* Copies what this rank gives of a plane of a tensor. */
static void plane_give(const struct moving_served *m, int tensor, int plane)
{
  const struct tuttiFusion *from = m->from;
  for (int share = 0; from && share < m->nold; share++) {
    uint64_t claim = m->claims[place_of(m, tensor, share)];
    const struct member *member = &from->served->member;
    if (!claim || claim != own_claim(m, tensor, share)) continue;
    if (tt_move_is_served(claim)) tt_shards_give(from, share, tensor, plane, tt_move_claimed(claim), m->whole);
    else if (!plane) tt_share_copy(from, tensor, share, m->whole, member->cut.weights + member->places[tensor]);
  }
}

/* A rank's own copy of weights is of the type in which they travel. With easgd it has its own ones. */
static void copy_take(const struct moving_served *m, int tensor)
{
  const struct tensor *its = &m->fusion->config.tensors[tensor];
  const struct member *member = &m->fusion->served->member;
  int wire = tt_fusion_wire(&m->fusion->config, its->type, TT_CODEC_RESULT);
  float *to = member->cut.weights + member->places[tensor];
  if (!member->cut.weights) return;
  if (m->from && m->fusion->served->kind == TT_SERVER_EASGD) {
    const struct member *old = &m->from->served->member;
    memcpy(to, old->cut.weights + old->places[tensor], its->count * sizeof *to);
    return;
  }
  tt_coded_convert(wire, m->wire, tuttiFloat32, m->whole, its->count);
  tt_coded_convert(tuttiFloat32, to, wire, m->wire, its->count);
}

static tuttiResult_t tensor_move(struct moving_served *m, int tensor)
{
  const struct config *config = &m->fusion->config;
  struct masters *owned = &m->fusion->coding.owned[tensor];
  uint64_t count = config->tensors[tensor].count, n;
  const struct tt_fusion_share its = tt_fusion_share(m->fusion, tensor, config->rank);
  tuttiResult_t result = tuttiSuccess;
  for (int p = 0; p < config->rule.planes && result == tuttiSuccess; p++) {
    memset(m->whole, 0, count * sizeof *m->whole);
    plane_give(m, tensor, p);
    result = tt_fusion_run(config, TT_ALL_REDUCE, m->whole, count, tuttiUint32, tuttiSum);
    for (uint64_t first = 0; (n = tt_fusion_share_next(config, &its, &first)) > 0; first += its.unit)
      memcpy(owned->planes[p] + first, m->whole + first, n * sizeof *m->whole);
    if (result == tuttiSuccess && !p) copy_take(m, tensor);
  }
  return result;
}

/* Elements of shards that nobody claims: all find the same, but for new ranks, which know no old owners. */
static uint64_t lost_count(const struct moving_served *m, int tensor)
{
  uint64_t lost = 0;
  for (int share = 0; m->from && share < m->nold; share++)
    if (!m->claims[place_of(m, tensor, share)]) lost += tt_share_count(m->from, tensor, share);
  return lost;
}

static tuttiResult_t planes_move(struct moving_served *m)
{
  const struct config *config = &m->fusion->config;
  uint64_t *lost = tt_alloc((size_t)config->n, sizeof *lost);
  tuttiResult_t result = lost ? tuttiSuccess : tt_fail(tuttiSystemError, "out of memory for %d tensors", config->n);
  result = tt_fusion_told(config, result);
  for (int i = 0; i < config->n && result == tuttiSuccess; i++) {
    lost[i] = lost_count(m, i);
    if (config->tensors[i].count) result = tensor_move(m, i);
  }
  if (result == tuttiSuccess)
    result = tt_fusion_run(config, TT_ALL_REDUCE, lost, (size_t)config->n, tuttiUint64, tuttiMax);
  for (int i = 0; i < config->n && result == tuttiSuccess; i++) {
    m->fusion->coding.owned[i].is_given = !lost[i];
    m->lost += lost[i];
  }
  tt_free(lost);
  return result;
}

static void own_planes_move(const struct moving_served *m)
{
  for (int i = 0; i < m->fusion->config.n && m->from; i++) {
    const struct masters *old = &m->from->coding.owned[i];
    struct masters *owned = &m->fusion->coding.owned[i];
    for (int p = 0; p < m->fusion->config.rule.planes && m->fusion->config.tensors[i].count; p++)
      memcpy(owned->planes[p], old->planes[p], m->fusion->config.tensors[i].count * sizeof *old->planes[p]);
    owned->is_given = old->is_given;
  }
}

/* ---- the member ---- */

/* By how many updates this rank's weights of a tensor are older than the newest. */
static uint64_t behind_of(const struct moving_served *m, int tensor)
{
  uint64_t most = 0;
  if (!m->from) return m->version;
  const struct member *member = &m->from->served->member;
  for (int share = 0; share < m->nold; share++) {
    uint64_t claim = m->claims[place_of(m, tensor, share)];
    size_t part = (size_t)tensor * (size_t)m->nold + (size_t)share;
    uint64_t from = member->from[part] - member->behind[part], claimed = claim ? tt_move_claimed(claim) : 0;
    if (claimed > from && claimed - from > most) most = claimed - from;
  }
  return most;
}

static void member_move(const struct moving_served *m)
{
  struct tuttiFusion *fusion = m->fusion;
  const struct config *config = &fusion->config;
  struct member *member = &fusion->served->member;
  const struct member *old = m->from ? &m->from->served->member : NULL;
  uint64_t steps = steps_of(m, config->rank);
  fusion->coding.past.steps = m->rule == TT_MOVE_ALL ? m->version : steps;
  member->version = old ? old->version : 0;
  if (m->rule == TT_MOVE_ALL) member->version = m->version;
  member->cut.version = fusion->served->kind == TT_SERVER_GOSSIP ? steps : m->version;
  member->dropped = old ? old->dropped : 0;
  member->is_dropped = m->rule == TT_MOVE_BY_DECISION && member->version < m->version;
  for (int i = 0; i < config->n && m->claims; i++) {
    uint64_t behind = m->rule == TT_MOVE_OTHERS ? behind_of(m, i) : 0;
    for (int share = 0; share < m->n; share++) {
      size_t part = (size_t)i * (size_t)m->n + (size_t)share;
      member->from[part] = m->version;
      member->behind[part] = behind; /* contributions are counted anew from here: the sets are empty */
    }
  }
}

/* By decision a rank that had not ended a step, as the old fusion has failed, finds if it counted: what its codec has
 * left out is as that step has left it. Where it has got a later version since then it knows (cut_end); else its bit in
 * the set of a rank that holds the newest one tells, which changes if the step counted, whatever was sent of it. */
static tuttiResult_t counted_find(const struct moving_served *m, int *is_counted)
{
  const struct config *config = &m->fusion->config;
  size_t words = (size_t)(m->nold + 63) / 64;
  uint64_t *sets = tt_alloc((size_t)m->n * words, sizeof *sets);
  tuttiResult_t result = sets ? tuttiSuccess : tt_fail(tuttiSystemError, "out of memory for sets of %d ranks", m->n);
  result = tt_fusion_told(config, result);
  const struct member *member = m->from ? &m->from->served->member : NULL;
  const struct version *cut = member ? &member->cut : NULL;
  if (result == tuttiSuccess && cut) memcpy(sets + (size_t)config->rank * words, cut->set, words * sizeof *sets);
  if (result == tuttiSuccess)
    result = tt_fusion_run(config, TT_ALL_GATHER, sets, words * sizeof *sets, tuttiUint8, tuttiSum);
  int holder = 0;
  while (holder < m->n - 1 && !(m->words[holder].has_come && m->words[holder].holds == m->version)) holder++;
  if (result == tuttiSuccess && cut) {
    int rank = m->from->config.rank;
    int has_changed = tt_set_has(sets + (size_t)holder * words, rank) != tt_set_has(cut->set, rank);
    *is_counted = cut->version > member->version ? !member->is_dropped : has_changed;
  }
  tt_free(sets);
  return result;
}

/* ---- all of it ---- */

/* Tells of contributions that may count in some elements, or nowhere. */
static void half_tell(const struct moving_served *m)
{
  const struct tuttiFusion *from = m->from;
  int owes = 0;
  if (!from || m->rule != TT_MOVE_OTHERS) return;
  uint64_t left = tt_shards_held(from);
  for (int share = 0; share < from->config.nranks; share++) owes |= from->served->member.owed[share] > 0;
  if (owes)
    tt_log(TT_LOG_WARN, "fusion: step %llu of rank %d, which had not ended when the fusion failed, may count in some "
           "elements and not in others", (unsigned long long)(from->coding.past.steps + from->engine.step),
           from->config.rank);
  if (left)
    tt_log(TT_LOG_WARN, "fusion: %llu contributions that rank %d has answered, and that were too few for another "
           "update (quorum %d), count nowhere", (unsigned long long)left, from->config.rank,
           from->config.serving.quorum);
}

static void loss_tell(const struct moving_served *m)
{
  if (m->lost && m->fusion->config.rank == 0)
    tt_log(TT_LOG_WARN, "fusion: the masters of %llu elements are lost with their servers: give the weights again by "
           "tuttiFusionState (plane 0), on all ranks; what else updates keep for these elements begins as zeros",
           (unsigned long long)m->lost);
}

static tuttiResult_t move(struct moving_served *m, int *is_counted)
{
  const struct config *config = &m->fusion->config;
  uint64_t most = 1;
  for (int i = 0; i < config->n; i++)
    if (config->tensors[i].count > most) most = config->tensors[i].count;
  m->words = tt_alloc((size_t)m->n, sizeof *m->words);
  m->whole = tt_alloc(most, sizeof *m->whole);
  m->wire = tt_alloc(most, sizeof(float));
  tuttiResult_t result = m->words && m->whole && m->wire ? tuttiSuccess : tuttiSystemError;
  if (result != tuttiSuccess) tt_fail(result, "out of memory to move the weights of %d tensors", config->n);
  result = tt_fusion_told(config, result);
  if (result == tuttiSuccess) result = words_gather(m);
  if (result == tuttiSuccess) result = version_find(m);
  if (m->fusion->served->kind == TT_SERVER_GOSSIP) {
    if (result == tuttiSuccess) own_planes_move(m);
    return result;
  }
  if (result == tuttiSuccess) result = claims_find(m);
  if (result == tuttiSuccess) result = planes_move(m);
  if (result == tuttiSuccess && m->rule == TT_MOVE_BY_DECISION) result = counted_find(m, is_counted);
  return result;
}

/* The counts of this rank go on. */
static void counts_take(const struct moving_served *m)
{
  struct shards *shards = &m->fusion->served->shards;
  if (!m->from) return;
  shards->counted = m->from->served->shards.counted;
  shards->staleness_sum = m->from->served->shards.staleness_sum;
  shards->staleness_most = m->from->served->shards.staleness_most;
}

static tuttiResult_t servers_restore(const struct moving_served *m)
{
  uint64_t *steps = tt_alloc((size_t)m->n, sizeof *steps);
  if (!steps) return tt_fail(tuttiSystemError, "out of memory for the steps of %d ranks", m->n);
  for (int r = 0; r < m->n; r++) steps[r] = steps_of(m, r);
  tuttiResult_t result = tt_shards_restore(m->fusion, m->version, steps);
  tt_free(steps);
  return result;
}

tuttiResult_t tt_served_take(struct tuttiFusion *fusion, const struct tuttiFusion *from, int *is_counted)
{
  struct moving_served m = {
      .fusion = fusion, .from = from, .rule = rule_of(fusion->served), .n = fusion->config.nranks};
  tuttiResult_t result = move(&m, is_counted);
  if (result == tuttiSuccess) {
    member_move(&m);
    counts_take(&m);
    half_tell(&m);
    loss_tell(&m);
    result = tt_fusion_told(&fusion->config, servers_restore(&m));
  }
  tt_free(m.words);
  tt_free(m.claims);
  tt_free(m.whole);
  tt_free(m.wire);
  return result;
}
