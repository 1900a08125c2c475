/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's part of a fusion with servers: it carries out what src/server decides. Contributions are packets, which
 * are held until an action names them. */
#include <string.h>

#include "comm/coded.h"
#include "fusion/served_private.h"
#include "reduce/fpenv.h"
#include "reduce/reduce.h"

/* ---- making ---- */

static void counts_take(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct shards *shards = &fusion->served->shards;
  shards->decider = -1;
  for (int rank = 0; rank < config->nranks; rank++) {
    int is_server = 0;
    for (int i = 0; i < config->n; i++) {
      uint64_t count = tt_share_count(fusion, i, rank);
      is_server |= count > 0;
      if (rank != config->rank) continue;
      shards->of_tensor[i] = count ? shards->nshards : -1;
      if (count) shards->tensors[shards->nshards++] = i;
    }
    shards->number[rank] = is_server ? shards->nservers : -1;
    shards->nservers += is_server;
    if (is_server && shards->decider < 0) shards->decider = rank;
  }
}

static tuttiResult_t server_make(struct tuttiFusion *fusion)
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
                                .nservers = shards->nservers,
                                .is_decider = shards->by_decision && shards->decider == config->rank,
                                .nshards = shards->nshards,
                                .urgency = shards->tensors};
  return shards->nshards ? tt_server_create(&shards->server, &spec) : tuttiSuccess;
}

tuttiResult_t tt_shards_make(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  struct shards *shards = &served->shards;
  size_t n = (size_t)config->n, ranks = (size_t)config->nranks;
  pthread_mutex_init(&shards->planes, NULL);
  shards->of_tensor = tt_alloc(n, sizeof *shards->of_tensor);
  shards->tensors = tt_alloc(n, sizeof *shards->tensors);
  shards->sets = tt_alloc((n + 1) * (size_t)served->nwords, sizeof *shards->sets);
  shards->refused = tt_alloc(n * ranks, 1);
  shards->number = tt_alloc(ranks, sizeof *shards->number);
  if (tt_is_exchange(served)) shards->answers = tt_alloc(n * ranks, sizeof(struct packet *));
  if (!shards->of_tensor || !shards->tensors || !shards->sets || !shards->refused || !shards->number ||
      (tt_is_exchange(served) && !shards->answers))
    return tt_fail(tuttiSystemError, "out of memory for the server of %zu tensors", n);
  counts_take(fusion);
  shards->by_decision =
      served->kind == TT_SERVER_SYNCHRONOUS && config->serving.quorum < config->nranks && shards->nservers;
  return server_make(fusion);
}

void tt_shards_free(const struct tuttiFusion *fusion)
{
  struct shards *shards = &fusion->served->shards;
  size_t nanswers = shards->answers ? (size_t)shards->nshards * (size_t)fusion->config.nranks : 0;
  for (size_t k = 0; k < nanswers; k++)
    if (shards->answers[k]) tt_packet_drop(shards->answers[k]);
  tt_server_destroy(shards->server);
  tt_free(shards->of_tensor);
  tt_free(shards->tensors);
  tt_free(shards->sets);
  tt_free(shards->refused);
  tt_free(shards->number);
  tt_free(shards->answers);
  for (struct packet *packet; (packet = shards->held);) {
    shards->held = packet->next;
    tt_packet_drop(packet);
  }
  pthread_mutex_destroy(&shards->planes);
}

/* ---- contributions that are held ---- */

static void hold(struct shards *shards, struct packet *packet)
{
  packet->next = shards->held;
  packet->at = &shards->held;
  if (packet->next) packet->next->at = &packet->next;
  shards->held = packet;
}

static void release(struct packet *packet)
{
  *packet->at = packet->next;
  if (packet->next) packet->next->at = packet->at;
  tt_packet_drop(packet);
}

/* ---- updates ---- */

static struct packet *packet_of(const struct tt_counted *counted)
{
  return (struct packet *)(uintptr_t)counted->tag;
}

/* The contributions of an update. */
struct adding {
  struct tt_coded_tree tree;
  const struct tt_counted *counted;
};

static void *counted_at(const struct tt_coded_tree *tree, int k)
{
  const struct adding *adding = (const struct adding *)(const void *)tree;
  return packet_payload(packet_of(&adding->counted[k]));
}

/* Returns the sum, times the factors of the result, in place of the first contribution. */
static float *contributions_add(const struct tuttiFusion *fusion, const struct tt_server_action *action, uint64_t count)
{
  const struct adding adding = {{counted_at, action->ncounted, tuttiFloat32, count}, action->counted};
  const struct packet_head *last = &packet_of(&action->counted[action->ncounted - 1])->head;
  int is_divided = fusion->config.redop == tuttiAvg && !(fusion->served->kind == TT_SERVER_SYNCHRONOUS &&
                                                         !fusion->served->shards.by_decision);
  float factor = (float)((double)last->after / (is_divided ? action->ncounted : 1));
  tt_coded_tree_add(&adding.tree);
  float *sum = counted_at(&adding.tree, 0);
  fpenv env = fpenv_enter();
  for (uint64_t i = 0; i < count && factor != 1; i++) sum[i] = sum[i] * factor;
  fpenv_leave(env);
  return sum;
}

/* The ranks of a step have the same rate. */
static tuttiResult_t rates_check(const struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  const struct packet_head *first = &packet_of(&action->counted[0])->head;
  for (int k = 1; k < action->ncounted && fusion->served->kind == TT_SERVER_SYNCHRONOUS; k++) {
    const struct packet_head *head = &packet_of(&action->counted[k])->head;
    if (head->rate == first->rate && head->after == first->after) continue;
    return tt_fail(tuttiInvalidUsage, "step %llu has rate %.9g and after %.9g on rank %d, and rate %.9g and after %.9g "
                   "on rank %d: give the same", (unsigned long long)action->version, (double)first->rate,
                   (double)first->after, action->counted[0].rank, (double)head->rate, (double)head->after,
                   action->counted[k].rank);
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

static tuttiResult_t pieces_update(const struct tuttiFusion *fusion, tuttiFusionShard_t *shard, const float *sum)
{
  const struct tt_fusion_share share = tt_fusion_share(fusion, shard->tensor, fusion->config.rank);
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

static tuttiResult_t update(struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  struct shards *shards = &fusion->served->shards;
  int tensor = shards->tensors[action->shard];
  uint64_t *set = shards->sets + (size_t)action->shard * (size_t)fusion->served->nwords;
  const struct packet_head *last = &packet_of(&action->counted[action->ncounted - 1])->head;
  tuttiResult_t result = rates_check(fusion, action);
  if (result != tuttiSuccess) return result;
  tuttiFusionShard_t shard = {.size = sizeof shard, .tensor = tensor, .step = action->version};
  pthread_mutex_lock(&shards->planes);
  shard.staleness = staleness_take(shards, action);
  shard.rate = last->rate / (float)(fusion->config.rule.kind == FUNCTION ? 1 : 1 + shard.staleness);
  uint64_t count = tt_share_count(fusion, tensor, fusion->config.rank);
  if (tt_is_exchange(fusion->served)) result = tt_exchange(fusion, action, packet_of(&action->counted[0]));
  else result = pieces_update(fusion, &shard, contributions_add(fusion, action, count));
  pthread_mutex_unlock(&shards->planes);
  memset(set, 0, (size_t)fusion->served->nwords * sizeof *set);
  for (int k = 0; k < action->ncounted; k++) {
    int rank = action->counted[k].rank;
    set[rank / 64] |= (uint64_t)1 << (rank % 64);
    release(packet_of(&action->counted[k]));
  }
  return result;
}

/* ---- the other actions ---- */

static struct packet *weights_make(struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  struct shards *shards = &served->shards;
  int tensor = shards->tensors[action->shard];
  size_t set = (size_t)served->nwords * sizeof(uint64_t);
  struct packet *packet =
      tt_packet_make(WEIGHTS, set + tt_share_count(fusion, tensor, config->rank) * sizeof(float));
  if (!packet) return NULL;
  uint64_t *payload = packet_payload(packet);
  packet->head.tensor = tensor;
  packet->head.version = action->version;
  memcpy(payload, shards->sets + (size_t)action->shard * (size_t)served->nwords, set);
  pthread_mutex_lock(&shards->planes);
  tt_share_pack(fusion, tensor, config->rank, (float *)(void *)(payload + served->nwords),
                fusion->coding.owned[tensor].planes[0]);
  pthread_mutex_unlock(&shards->planes);
  return packet;
}

static tuttiResult_t answer(struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  struct shards *shards = &served->shards;
  struct packet *packet = tt_is_exchange(served) ? tt_exchange_answer(fusion, action) : weights_make(fusion, action);
  tuttiResult_t result = packet ? tuttiSuccess : tuttiSystemError;
  if (!packet) return result;
  for (int rank = 0; rank < config->nranks && result == tuttiSuccess; rank++) {
    if (served->left[rank] || (action->rank >= 0 && action->rank != rank)) continue;
    uint8_t *refused = &shards->refused[(size_t)action->shard * (size_t)config->nranks + (size_t)rank];
    packet->head.is_refused = action->rank >= 0 && *refused;
    *refused = 0;
    result = tt_packet_post(fusion, packet, rank);
  }
  tt_packet_drop(packet);
  return result;
}

static tuttiResult_t held_tell(struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  struct packet *packet = tt_packet_make(HELD, 0);
  if (!packet) return tuttiSystemError;
  packet->head.rank = action->rank;
  packet->head.step = action->step;
  tuttiResult_t result = tt_packet_post(fusion, packet, fusion->served->shards.decider);
  tt_packet_drop(packet);
  return result;
}

static tuttiResult_t decision_tell(struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  size_t set = (size_t)fusion->served->nwords * sizeof(uint64_t);
  struct packet *packet = tt_packet_make(DECIDED, set);
  tuttiResult_t result = packet ? tuttiSuccess : tuttiSystemError;
  if (!packet) return result;
  packet->head.step = action->step;
  memcpy(packet_payload(packet), action->set, set);
  for (int rank = 0; rank < fusion->config.nranks && result == tuttiSuccess; rank++)
    result = tt_packet_post(fusion, packet, rank); /* one that has left serves, too */
  tt_packet_drop(packet);
  return result;
}

/* TT_FAIL: too many ranks have left; those that still wait find that themselves. */
static tuttiResult_t act(struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  if (action->act == TT_UPDATE) return update(fusion, action);
  if (action->act == TT_ANSWER) return answer(fusion, action);
  if (action->act == TT_HELD) return held_tell(fusion, action);
  if (action->act == TT_DECIDE) return decision_tell(fusion, action);
  if (action->act == TT_DROP) release(packet_of(&action->counted[0]));
  return tuttiSuccess;
}

/* ---- events ---- */

static tuttiResult_t contribution_take(struct tuttiFusion *fusion, struct packet *packet)
{
  struct shards *shards = &fusion->served->shards;
  const struct packet_head *head = &packet->head;
  int shard = shards->of_tensor[head->tensor];
  enum tt_server_verdict verdict = tt_server_contribute(
      shards->server, &(struct tt_contribution){packet->from, shard, head->step, head->version, (uintptr_t)packet});
  if (verdict == TT_KEPT) {
    hold(shards, packet);
    return tuttiSuccess;
  }
  if (verdict == TT_STALE)
    shards->refused[(size_t)shard * (size_t)fusion->config.nranks + (size_t)packet->from] = 1;
  tuttiResult_t result = tuttiSuccess;
  if (verdict == TT_WRONG || verdict == TT_REPEATED)
    result = tt_fail(tuttiInternalError, "rank %d contributes to step %llu of tensor %d (%s) from version %llu, which "
                     "no correct rank does", packet->from, (unsigned long long)head->step, head->tensor,
                     fusion->config.tensors[head->tensor].name, (unsigned long long)head->version);
  tt_packet_drop(packet);
  return result;
}

/* Takes what a rank says without a contribution. */
static tuttiResult_t word_take(struct tuttiFusion *fusion, struct packet *packet)
{
  const struct shards *shards = &fusion->served->shards;
  const struct packet_head *head = &packet->head;
  tuttiResult_t result = tuttiSuccess;
  if (head->kind == HELD && !tt_server_held(shards->server, shards->number[packet->from], head->rank, head->step))
    result = tt_fail(tuttiInternalError, "rank %d says, of step %llu, that it holds what rank %d has contributed, "
                     "which no correct rank says now", packet->from, (unsigned long long)head->step, head->rank);
  if (head->kind == DECIDED && !tt_server_decided(shards->server, head->step, packet_payload(packet)))
    result = tt_fail(tuttiInternalError, "rank %d has decided about step %llu as no correct rank does", packet->from,
                     (unsigned long long)head->step);
  if (head->kind == LEAVES) tt_server_died(shards->server, packet->from);
  return result;
}

tuttiResult_t tt_shards_take(struct tuttiFusion *fusion, struct packet *packet)
{
  struct shards *shards = &fusion->served->shards;
  struct tt_server_action action;
  tuttiResult_t result = tuttiSuccess;
  if (shards->server && packet->head.kind == CONTRIBUTION) result = contribution_take(fusion, packet);
  else {
    if (shards->server) result = word_take(fusion, packet);
    tt_packet_drop(packet);
  }
  while (result == tuttiSuccess && shards->server && tt_server_next(shards->server, &action))
    result = act(fusion, &action);
  return result;
}
