/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's part of a fusion with servers: it carries out what src/server decides. Contributions are packets, which
 * are held until an action names them. */
#include <string.h>

#include "fusion/served_private.h"

/* ---- making ---- */

/* Returns the elements of the longest shard. */
static uint64_t counts_take(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct shards *shards = &fusion->served->shards;
  uint64_t longest = 0;
  shards->decider = -1;
  for (int rank = 0; rank < config->nranks; rank++) {
    int has_elements = 0;
    for (int i = 0; i < config->n; i++) {
      uint64_t count = tt_share_count(fusion, i, rank);
      has_elements |= count > 0;
      if (count > longest) longest = count;
    }
    shards->shares[rank].rank = rank;
    shards->number[rank] = has_elements ? shards->nservers : -1;
    shards->nservers += has_elements;
    if (has_elements && shards->decider < 0) shards->decider = rank;
  }
  return longest;
}

/* Ranks that have died or left before contribute no more. */
static tuttiResult_t server_make(struct tuttiFusion *fusion, struct share *share, uint64_t version,
                                 const uint64_t *holders)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  struct shards *shards = &served->shards;
  int is_synchronous = served->kind == TT_SERVER_SYNCHRONOUS;
  int has_quorum = served->kind != TT_SERVER_SSP && !tt_is_exchange(served);
  struct tt_server_spec spec = {.kind = served->kind,
                                .nranks = config->nranks,
                                .quorum = has_quorum ? config->serving.quorum : 1,
                                .staleness = is_synchronous ? 0 : (uint64_t)config->serving.staleness,
                                .version = version,
                                .holders = holders,
                                .nservers = shards->nservers,
                                .by_decision = shards->by_decision,
                                .is_decider = shards->by_decision && shards->decider == share->rank,
                                .nshards = share->nshards,
                                .urgency = share->tensors};
  tt_server_destroy(share->server);
  share->server = NULL;
  tuttiResult_t result = tt_server_create(&share->server, &spec);
  for (int rank = 0; rank < config->nranks && result == tuttiSuccess; rank++)
    if (served->left[rank]) tt_server_died(share->server, rank);
  return result;
}

/* Room for the planes of all its shards, one behind the other. */
static int before_make(const struct tuttiFusion *fusion, struct share *share)
{
  uint64_t all = 0;
  for (int k = 0; k < share->nshards; k++) {
    share->places[k] = all;
    all += tt_share_count(fusion, share->tensors[k], share->rank) * (uint64_t)fusion->config.rule.planes;
  }
  share->before = tt_alloc(all + 1, sizeof *share->before);
  return share->before != NULL;
}

static tuttiResult_t share_make(struct tuttiFusion *fusion, struct share *share)
{
  const struct config *config = &fusion->config;
  const struct served *served = fusion->served;
  size_t n = (size_t)config->n, ranks = (size_t)config->nranks, words = (size_t)served->nwords;
  share->of_tensor = tt_alloc(n, sizeof *share->of_tensor);
  share->tensors = tt_alloc(n, sizeof *share->tensors);
  share->versions = tt_alloc(n, sizeof *share->versions);
  share->places = tt_alloc(n, sizeof *share->places);
  share->goes_back = tt_alloc(n, 1);
  share->sets = tt_alloc(2 * n * words, sizeof *share->sets);
  share->refused = tt_alloc(n * ranks, 1);
  if (tt_is_exchange(served)) share->answers = tt_alloc(n * ranks, sizeof(struct packet *));
  if (!share->of_tensor || !share->tensors || !share->versions || !share->places || !share->goes_back ||
      !share->sets || !share->refused || (tt_is_exchange(served) && !share->answers))
    return tt_fail(tuttiSystemError, "out of memory for the server of %zu tensors", n);
  for (int i = 0; i < config->n; i++) {
    int has_elements = tt_share_count(fusion, i, share->rank) > 0;
    share->of_tensor[i] = has_elements ? share->nshards : -1;
    if (has_elements) share->tensors[share->nshards++] = i;
  }
  if (served->kind == TT_SERVER_SYNCHRONOUS && !before_make(fusion, share))
    return tt_fail(tuttiSystemError, "out of memory for a copy of the weights of rank %d", share->rank);
  return tuttiSuccess;
}

tuttiResult_t tt_shards_make(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  struct shards *shards = &served->shards;
  size_t ranks = (size_t)config->nranks;
  pthread_mutex_init(&shards->planes, NULL);
  shards->number = tt_alloc(ranks, sizeof *shards->number);
  shards->shares = tt_alloc(ranks, sizeof *shards->shares);
  shards->told = tt_alloc((size_t)served->nwords, sizeof *shards->told);
  if (!shards->number || !shards->shares || !shards->told)
    return tt_fail(tuttiSystemError, "out of memory for the shares of %zu ranks", ranks);
  shards->sum = tt_alloc(counts_take(fusion) + 1, sizeof *shards->sum);
  if (!shards->sum) return tt_fail(tuttiSystemError, "out of memory for sums of contributions");
  shards->by_decision = served->kind == TT_SERVER_SYNCHRONOUS && !config->serving.wants_all && shards->nservers;
  if (shards->number[config->rank] < 0) return tuttiSuccess;
  struct share *share = &shards->shares[config->rank];
  tuttiResult_t result = share_make(fusion, share);
  return result == tuttiSuccess ? server_make(fusion, share, 0, NULL) : result;
}

static void held_drop(struct share *share)
{
  for (struct packet *packet; (packet = share->held);) {
    share->held = packet->next;
    tt_packet_drop(packet);
  }
}

static void share_free(const struct tuttiFusion *fusion, struct share *share)
{
  size_t nanswers = share->answers ? (size_t)share->nshards * (size_t)fusion->config.nranks : 0;
  for (size_t k = 0; k < nanswers; k++)
    if (share->answers[k]) tt_packet_drop(share->answers[k]);
  held_drop(share);
  tt_server_destroy(share->server);
  tt_free(share->of_tensor);
  tt_free(share->tensors);
  tt_free(share->versions);
  tt_free(share->places);
  tt_free(share->goes_back);
  tt_free(share->sets);
  tt_free(share->refused);
  tt_free(share->before);
  tt_free(share->answers);
  *share = (struct share){.rank = share->rank};
}

void tt_shards_free(struct tuttiFusion *fusion)
{
  struct shards *shards = &fusion->served->shards;
  for (int rank = 0; shards->shares && rank < fusion->config.nranks; rank++) share_free(fusion, &shards->shares[rank]);
  tt_free(shards->shares);
  tt_free(shards->number);
  tt_free(shards->told);
  tt_free(shards->sum);
  pthread_mutex_destroy(&shards->planes);
}

tuttiResult_t tt_shards_add(struct tuttiFusion *fusion, int share)
{
  struct share *its = &fusion->served->shards.shares[share];
  pthread_mutex_lock(&fusion->served->shards.planes);
  tuttiResult_t result = share_make(fusion, its);
  pthread_mutex_unlock(&fusion->served->shards.planes);
  return result == tuttiSuccess ? server_make(fusion, its, 0, NULL) : result;
}

int tt_shards_server(const struct tuttiFusion *fusion, int share)
{
  const struct deaths *deaths = &fusion->served->deaths;
  if (deaths->failover) return tt_failover_owner(deaths->failover, share);
  return deaths->takeover ? tt_takeover_owner(deaths->takeover, share) : share;
}

/* ---- contributions that are held ---- */

static void hold(struct share *share, struct packet *packet)
{
  packet->next = share->held;
  packet->at = &share->held;
  if (packet->next) packet->next->at = &packet->next;
  share->held = packet;
}

static void release(struct packet *packet)
{
  *packet->at = packet->next;
  if (packet->next) packet->next->at = packet->at;
  tt_packet_drop(packet);
}

/* ---- updates ---- */

/* The ranks of a step have the same rate. */
static tuttiResult_t rates_check(const struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  const struct packet_head *first = &packet_of(&action->counted[0])->head;
  for (int k = 1; k < action->ncounted && fusion->served->kind == TT_SERVER_SYNCHRONOUS; k++) {
    const struct packet_head *head = &packet_of(&action->counted[k])->head;
    if (head->rate == first->rate && head->after == first->after) continue;
    return tt_fail(tuttiInvalidUsage, "step %llu has rate %.9g and after %.9g on rank %d, and rate %.9g and after %.9g "
                   "on rank %d: give the same for the same number of updates (tuttiFusionGetInfo), not of own steps",
                   (unsigned long long)action->version, (double)first->rate, (double)first->after,
                   action->counted[0].rank, (double)head->rate, (double)head->after, action->counted[k].rank);
  }
  return tuttiSuccess;
}

/* The mean, rounded up. */
static int staleness_take(struct shards *shards, const struct tt_server_action *action)
{
  uint64_t sum = 0, n = (uint64_t)action->ncounted;
  for (int k = 0; k < action->ncounted; k++) {
    uint64_t its = action->counted[k].staleness;
    sum += its;
    if (its > shards->staleness_most) shards->staleness_most = its;
  }
  shards->counted += n;
  shards->staleness_sum += sum;
  return (int)((sum + n - 1) / n);
}

static tuttiResult_t pieces_update(const struct tuttiFusion *fusion, int rank, tuttiFusionShard_t *shard,
                                   const float *sum)
{
  const struct tt_fusion_share share = tt_fusion_share(fusion, shard->tensor, rank);
  const struct masters *owned = &fusion->coding.owned[shard->tensor];
  tuttiResult_t result = tuttiSuccess;
  uint64_t n, first = 0;
  while (result == tuttiSuccess && (n = tt_fusion_share_next(&fusion->config, &share, &first)) > 0) {
    shard->first = first;
    shard->count = n;
    shard->gradient = sum;
    for (int p = 0; p < fusion->config.rule.planes; p++) shard->planes[p] = owned->planes[p] + first;
    result = tt_fusion_rule_apply(fusion, shard, 1);
    sum += n;
    first += share.unit;
  }
  return result;
}

/* The planes of a shard as they are before an update, from which others may never hear; and back again. */
static void before_copy(const struct tuttiFusion *fusion, struct share *share, int shard, int goes_back)
{
  int tensor = share->tensors[shard];
  const struct masters *owned = &fusion->coding.owned[tensor];
  size_t words = (size_t)fusion->served->nwords;
  uint64_t count = tt_share_count(fusion, tensor, share->rank), *sets = share->sets + 2 * (size_t)shard * words;
  float *before = share->before + share->places[shard];
  for (int p = 0; p < fusion->config.rule.planes; p++, before += count) {
    if (goes_back) tt_share_unpack(fusion, tensor, share->rank, owned->planes[p], before);
    else tt_share_pack(fusion, tensor, share->rank, before, owned->planes[p]);
  }
  memcpy(goes_back ? sets : sets + words, goes_back ? sets + words : sets, words * sizeof *sets);
  share->goes_back[shard] = !goes_back;
}

static tuttiResult_t update(struct tuttiFusion *fusion, struct share *share, const struct tt_server_action *action)
{
  struct shards *shards = &fusion->served->shards;
  int tensor = share->tensors[action->shard];
  uint64_t *set = share->sets + 2 * (size_t)action->shard * (size_t)fusion->served->nwords;
  const struct packet_head *last = &packet_of(&action->counted[action->ncounted - 1])->head;
  tuttiResult_t result = rates_check(fusion, action);
  if (result != tuttiSuccess) return result;
  tuttiFusionShard_t shard = {.size = sizeof shard, .tensor = tensor, .step = action->version};
  pthread_mutex_lock(&shards->planes);
  shard.staleness = staleness_take(shards, action);
  shard.rate = last->rate / (float)(fusion->config.rule.kind == FUNCTION ? 1 : 1 + shard.staleness);
  if (share->before) before_copy(fusion, share, action->shard, 0);
  float *sum = NULL;
  int is_exchange = tt_is_exchange(fusion->served);
  if (is_exchange) result = tt_exchange(fusion, share, action, packet_of(&action->counted[0]));
  else result = tt_contributions_add(fusion, action, &sum);
  if (result == tuttiSuccess && !is_exchange) result = pieces_update(fusion, share->rank, &shard, sum);
  share->versions[action->shard] = action->version;
  pthread_mutex_unlock(&shards->planes);
  for (int k = 0; k < action->ncounted; k++) {
    int rank = action->counted[k].rank;
    set[rank / 64] ^= (uint64_t)1 << (rank % 64);
    release(packet_of(&action->counted[k]));
  }
  return result;
}

/* ---- the other actions ---- */

/* The set of ranks of which an odd number of contributions was kept (failover.h). */
static void taken_write(const struct tuttiFusion *fusion, const struct share *share, int shard, uint64_t *set)
{
  memset(set, 0, (size_t)fusion->served->nwords * sizeof *set);
  for (int rank = 0; rank < fusion->config.nranks; rank++)
    set[rank / 64] |= (uint64_t)tt_server_is_odd(share->server, shard, rank) << (rank % 64);
}

/* The weights of a shard as they are. NULL: no memory. */
static struct packet *weights_make(struct tuttiFusion *fusion, const struct share *share, int shard)
{
  struct served *served = fusion->served;
  int tensor = share->tensors[shard];
  size_t words = (size_t)served->nwords;
  struct packet *packet = tt_packet_make(WEIGHTS, tt_weights_bytes(fusion, tensor, share->rank));
  if (!packet) return NULL;
  packet->head.tensor = tensor;
  packet->head.share = share->rank;
  packet->head.version = share->versions[shard];
  memcpy(packet_payload(packet), share->sets + 2 * (size_t)shard * words, words * sizeof *share->sets);
  if (served->deaths.failover) taken_write(fusion, share, shard, packet_payload(packet));
  pthread_mutex_lock(&served->shards.planes);
  tt_weights_write(fusion, packet);
  pthread_mutex_unlock(&served->shards.planes);
  return packet;
}

static tuttiResult_t answer(struct tuttiFusion *fusion, struct share *share, const struct tt_server_action *action)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  struct packet *packet =
      tt_is_exchange(served) ? tt_exchange_answer(fusion, share, action) : weights_make(fusion, share, action->shard);
  tuttiResult_t result = packet ? tuttiSuccess : tuttiSystemError;
  if (!packet) return result;
  for (int rank = 0; rank < config->nranks && result == tuttiSuccess; rank++) {
    int gets = action->rank < 0 ? !action->gets || tt_set_has(action->gets, rank) : action->rank == rank;
    if (served->left[rank] || !gets) continue;
    uint8_t *refused = &share->refused[(size_t)action->shard * (size_t)config->nranks + (size_t)rank];
    packet->head.is_refused = action->rank >= 0 && *refused;
    *refused = 0;
    result = tt_packet_post(fusion, packet, rank);
  }
  tt_packet_drop(packet);
  return result;
}

/* TT_FAIL: too many ranks have left; those that still wait find that themselves. */
static tuttiResult_t act(struct tuttiFusion *fusion, struct share *share, const struct tt_server_action *action)
{
  if (action->act == TT_UPDATE) return update(fusion, share, action);
  if (action->act == TT_ANSWER) return answer(fusion, share, action);
  if (action->act == TT_DROP) release(packet_of(&action->counted[0]));
  return tt_decision_tell(fusion, share, action);
}

/* ---- events ---- */

static tuttiResult_t contribution_take(struct tuttiFusion *fusion, struct share *share, struct packet *packet)
{
  const struct packet_head *head = &packet->head;
  int shard = share->of_tensor[head->tensor];
  enum tt_server_verdict verdict = tt_server_contribute(
      share->server, &(struct tt_contribution){packet->from, shard, head->step, head->version, (uintptr_t)packet});
  if (verdict == TT_KEPT) {
    hold(share, packet);
    return tuttiSuccess;
  }
  if (verdict == TT_STALE)
    share->refused[(size_t)shard * (size_t)fusion->config.nranks + (size_t)packet->from] = 1;
  tuttiResult_t result = tuttiSuccess;
  if (verdict == TT_WRONG || verdict == TT_REPEATED)
    result = tt_fail(tuttiInternalError, "rank %d contributes to step %llu of tensor %d (%s) from version %llu, which "
                     "no correct rank does", packet->from, (unsigned long long)head->step, head->tensor,
                     fusion->config.tensors[head->tensor].name, (unsigned long long)head->version);
  tt_packet_drop(packet);
  return result;
}

static tuttiResult_t actions_take(struct tuttiFusion *fusion, struct share *share)
{
  struct tt_server_action action;
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess && tt_server_next(share->server, &action)) result = act(fusion, share, &action);
  return result;
}

tuttiResult_t tt_shards_died(struct tuttiFusion *fusion, int rank)
{
  struct shards *shards = &fusion->served->shards;
  tuttiResult_t result = tuttiSuccess;
  for (int k = 0; k < fusion->config.nranks && result == tuttiSuccess; k++) {
    if (!shards->shares[k].server) continue;
    tt_server_died(shards->shares[k].server, rank);
    result = actions_take(fusion, &shards->shares[k]);
  }
  return result;
}

int tt_shards_expect(const struct tuttiFusion *fusion, const struct packet *packet)
{
  const struct packet_head *head = &packet->head;
  int here = fusion->config.rank, decider = fusion->served->shards.decider;
  switch ((enum packet_kind)head->kind) {
  case CONTRIBUTION: return tt_shards_server(fusion, head->share) == here;
  case WEIGHTS: return tt_shards_server(fusion, head->share) == packet->from;
  case HELD: return tt_shards_server(fusion, head->share) == packet->from && tt_shards_server(fusion, decider) == here;
  case SEEN: return tt_shards_server(fusion, decider) == here;
  case DECIDED:
  case SHOW: return tt_shards_server(fusion, decider) == packet->from;
  default: return 1;
  }
}

tuttiResult_t tt_shards_take(struct tuttiFusion *fusion, struct packet *packet)
{
  struct shards *shards = &fusion->served->shards;
  tuttiResult_t result = tuttiSuccess;
  if (packet->head.kind == CONTRIBUTION) {
    struct share *share = &shards->shares[packet->head.share];
    result = contribution_take(fusion, share, packet);
    return result == tuttiSuccess ? actions_take(fusion, share) : result;
  }
  for (int rank = 0; rank < fusion->config.nranks && result == tuttiSuccess; rank++) {
    struct share *share = &shards->shares[rank];
    if (!share->server) continue;
    result = tt_decision_take(fusion, share, packet);
    if (result == tuttiSuccess) result = actions_take(fusion, share);
  }
  tt_packet_drop(packet);
  return result;
}

/* ---- another epoch ---- */

uint64_t tt_shards_least(const struct tuttiFusion *fusion)
{
  const struct shards *shards = &fusion->served->shards;
  uint64_t least = 0;
  for (int rank = 0; rank < fusion->config.nranks; rank++) {
    const struct share *share = &shards->shares[rank];
    for (int k = 0; k < share->nshards; k++) {
      uint64_t its = share->versions[k] - share->goes_back[k];
      if (its > least) least = its;
    }
  }
  return least;
}

/* The weights of the cut; the other planes begin as zeros. */
static void cut_copy(struct tuttiFusion *fusion, struct share *share, int shard)
{
  const struct member *member = &fusion->served->member;
  const struct config *config = &fusion->config;
  int tensor = share->tensors[shard];
  const struct masters *owned = &fusion->coding.owned[tensor];
  const struct tt_fusion_share its = tt_fusion_share(fusion, tensor, share->rank);
  size_t words = (size_t)fusion->served->nwords;
  const float *weights = member->cut.weights + member->places[tensor];
  uint64_t n;
  tt_share_copy(fusion, tensor, share->rank, owned->planes[0], weights);
  for (uint64_t first = 0; (n = tt_fusion_share_next(config, &its, &first)) > 0; first += its.unit)
    for (int p = 1; p < config->rule.planes; p++) memset(owned->planes[p] + first, 0, n * sizeof *weights);
  memcpy(share->sets + 2 * (size_t)shard * words, member->cut.set, words * sizeof *share->sets);
}

static tuttiResult_t version_send(struct tuttiFusion *fusion, const struct share *share,
                                  const struct tt_takeover_order *order)
{
  const struct served *served = fusion->served;
  tuttiResult_t result = tuttiSuccess;
  for (int k = 0; k < share->nshards && result == tuttiSuccess; k++) {
    struct packet *packet = weights_make(fusion, share, k);
    if (!packet) return tuttiSystemError;
    for (int rank = 0; rank < fusion->config.nranks && result == tuttiSuccess; rank++)
      if (!served->left[rank] && !tt_set_has(order->holders, rank)) result = tt_packet_post(fusion, packet, rank);
    tt_packet_drop(packet);
  }
  return result;
}

tuttiResult_t tt_shards_begin(struct tuttiFusion *fusion, int its, const struct tt_takeover_order *order)
{
  struct shards *shards = &fusion->served->shards;
  struct share *share = &shards->shares[its];
  int is_new = !share->server;
  pthread_mutex_lock(&shards->planes);
  tuttiResult_t result = is_new ? share_make(fusion, share) : tuttiSuccess;
  held_drop(share);
  for (int k = 0; k < share->nshards && result == tuttiSuccess; k++) {
    if (share->goes_back[k] && share->versions[k] == order->version + 1) before_copy(fusion, share, k, 1);
    if (is_new) cut_copy(fusion, share, k);
    share->versions[k] = order->version;
  }
  pthread_mutex_unlock(&shards->planes);
  if (result == tuttiSuccess) result = server_make(fusion, share, order->version, order->holders);
  return result == tuttiSuccess ? version_send(fusion, share, order) : result;
}

/* ---- moves ---- */

void tt_shards_give(const struct tuttiFusion *fusion, int its, int tensor, int plane, uint64_t version, float *to)
{
  const struct share *share = &fusion->served->shards.shares[its];
  int k = share->of_tensor[tensor];
  uint64_t skip = (uint64_t)plane * tt_share_count(fusion, tensor, its);
  if (share->before && share->versions[k] != version)
    tt_share_unpack(fusion, tensor, its, to, share->before + share->places[k] + skip);
  else tt_share_copy(fusion, tensor, its, to, fusion->coding.owned[tensor].planes[plane]);
}

uint64_t tt_shards_held(const struct tuttiFusion *fusion)
{
  uint64_t n = 0;
  for (int rank = 0; rank < fusion->config.nranks; rank++)
    for (const struct packet *packet = fusion->served->shards.shares[rank].held; packet; packet = packet->next) n++;
  return n;
}

tuttiResult_t tt_shards_restore(struct tuttiFusion *fusion, uint64_t version, const uint64_t *steps)
{
  const struct served *served = fusion->served;
  struct share *share = &fusion->served->shards.shares[fusion->config.rank];
  if (!share->server || served->kind == TT_SERVER_GOSSIP) return tuttiSuccess;
  for (int k = 0; k < share->nshards; k++) share->versions[k] = version;
  if (served->kind == TT_SERVER_SYNCHRONOUS) return server_make(fusion, share, version, NULL);
  for (int k = 0; k < share->nshards; k++) {
    tt_server_restore(share->server, k, version);
    for (int rank = 0; rank < fusion->config.nranks; rank++)
      tt_server_restore_rank(share->server, k, rank, &(struct tt_server_progress){.steps = steps[rank]});
  }
  return tuttiSuccess;
}
