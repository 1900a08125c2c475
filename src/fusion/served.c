/* SPDX-License-Identifier: BSD-3-Clause */
/* A fusion with servers: its options, its engine, and the end, when all ranks have left. */
#include <unistd.h>

#include "fusion/served_private.h"

/* ---- options ---- */

static tuttiResult_t exchange_check(const struct config *config, int quorum, int staleness)
{
  const char *rule = config->rule.kind == GOSSIP ? "gossip" : "easgd";
  if (quorum)
    return tt_fail(tuttiInvalidArgument, "config.quorum is %d: with update \"%s\" ranks exchange their weights one by "
                   "one, leave it 0", quorum, rule);
  if (staleness && config->rule.kind == EASGD)
    return tt_fail(tuttiInvalidArgument, "config.staleness is %d: update \"easgd\" has no bound, leave it 0",
                   staleness);
  return tuttiSuccess;
}

static tuttiResult_t numbers_check(const struct config *config, int quorum, int staleness)
{
  if (quorum < 0 || quorum > config->nranks)
    return tt_fail(tuttiInvalidArgument, "config.quorum is %d: set it to 0 or 1 .. %d, the number of ranks", quorum,
                   config->nranks);
  if (staleness < 0)
    return tt_fail(tuttiInvalidArgument, "config.staleness is %d: set it to 0 or more", staleness);
  if (config->rule.exchanges) return exchange_check(config, quorum, staleness);
  if (config->rule.planes) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "config.quorum is %d and config.staleness %d, but owners update no weights: set "
                 "config.update, or both to 0", quorum, staleness);
}

/* The first thing that fusions with servers do not have; NULL: there is none. */
static const char *what_is_missing(const struct config *config)
{
  if (config->rule.kind == LARS) return "update \"lars\", which needs norms of whole tensors";
  if (config->reports) return "overflow = 1";
  return config->norms ? "norms = 1" : NULL;
}

/* Weights that are exchanged are fp32. */
static const char *what_is_narrow(const struct config *config)
{
  if (config->wire != tuttiFloat32) return "another wire_type than float";
  if (config->rule.weights != tuttiFloat32) return "another weights_type than float";
  int i = 0;
  while (i < config->n && config->tensors[i].type == tuttiFloat32) i++;
  return i < config->n ? "tensors of another type than float" : NULL;
}

static tuttiResult_t others_check(const struct config *config)
{
  const char *missing = what_is_missing(config), *narrow = config->rule.exchanges ? what_is_narrow(config) : NULL;
  if (missing)
    return tt_fail(tuttiInvalidArgument, "%s: fusions with servers (quorum, staleness, easgd, gossip) do not have that "
                   "yet, leave it out", missing);
  if (narrow)
    return tt_fail(tuttiInvalidArgument, "%s: with easgd and gossip ranks exchange weights as they are, leave it out",
                   narrow);
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_serving_read(struct config *config, const tuttiFusionConfig_t *asked)
{
  int is_on = asked->quorum || asked->staleness || config->rule.exchanges;
  int wants_all = asked->quorum == config->nranks && !asked->staleness;
  config->serving = (struct serving){is_on, asked->quorum, asked->staleness, asked->quorum, wants_all};
  tuttiResult_t result = is_on ? numbers_check(config, asked->quorum, asked->staleness) : tuttiSuccess;
  return result == tuttiSuccess && is_on ? others_check(config) : result;
}

void tt_fusion_serving_keep(struct serving *serving, const struct serving *from)
{
  serving->asked = from->asked;
  serving->wants_all = from->wants_all;
}

static enum tt_server_kind kind_of(const struct config *config)
{
  const struct serving *serving = &config->serving;
  if (config->rule.exchanges) return config->rule.kind == GOSSIP ? TT_SERVER_GOSSIP : TT_SERVER_EASGD;
  if (!serving->staleness) return TT_SERVER_SYNCHRONOUS;
  if (!serving->quorum) return TT_SERVER_SSP;
  return serving->quorum == 1 ? TT_SERVER_ASGD : TT_SERVER_SOFTSYNC;
}

/* ---- making ---- */

static int cuts_make(struct tuttiFusion *fusion)
{
  struct member *member = &fusion->served->member;
  uint64_t all = 0;
  for (int i = 0; i < fusion->config.n; i++) {
    member->places[i] = all;
    all += fusion->config.tensors[i].count;
    for (int rank = 0; rank < fusion->config.nranks; rank++) member->nparts += tt_share_count(fusion, i, rank) > 0;
  }
  member->nleft = member->nparts;
  size_t words = (size_t)fusion->served->nwords;
  if (fusion->served->deaths.failover) {
    member->cut.weights = tt_alloc(all + 1, sizeof(float));
    member->sets =
        tt_alloc((size_t)fusion->config.n * (size_t)fusion->config.nranks * words, sizeof *member->sets);
    return member->cut.weights && member->sets;
  }
  if (!fusion->served->shards.by_decision) return 1;
  member->cut = (struct version){0, tt_alloc(all + 1, sizeof(float)), tt_alloc(words, sizeof(uint64_t))};
  member->next = (struct version){0, tt_alloc(all + 1, sizeof(float)), tt_alloc(words, sizeof(uint64_t))};
  return member->cut.weights && member->cut.set && member->next.weights && member->next.set;
}

tuttiResult_t tt_fusion_served_make(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  size_t n = (size_t)config->n, ranks = (size_t)config->nranks;
  struct served *served = fusion->served = tt_alloc(1, sizeof *served);
  if (!served) return tt_fail(tuttiSystemError, "out of memory for the server of %zu tensors", n);
  struct member *member = &served->member;
  struct mailbox *mailbox = &served->mailbox;
  served->kind = kind_of(config);
  served->nwords = (config->nranks + 63) / 64;
  served->left = tt_alloc(ranks, sizeof *served->left);
  member->from = tt_alloc(n * ranks, sizeof *member->from);
  member->behind = tt_alloc(n * ranks, sizeof *member->behind);
  member->owed = tt_alloc(ranks, sizeof *member->owed);
  member->is_owed = tt_alloc(2 * n * ranks, sizeof *member->is_owed);
  member->parts_left = tt_alloc(n, sizeof *member->parts_left);
  member->places = tt_alloc(n, sizeof *member->places);
  mailbox->room_bytes = sizeof(struct packet_head) + tt_payload_most(fusion);
  mailbox->room = tt_alloc(mailbox->room_bytes, 1);
  if (!served->left) return tt_fail(tuttiSystemError, "out of memory for %zu ranks", ranks);
  tuttiResult_t result = tt_shards_make(fusion);
  if (result == tuttiSuccess) result = tt_deaths_make(fusion);
  if (result == tuttiSuccess) result = tt_served_wake_make(fusion);
  if (result != tuttiSuccess) return result;
  if (!member->from || !member->behind || !member->owed || !member->is_owed || !member->parts_left ||
      !member->places || !mailbox->room || !cuts_make(fusion))
    return tt_fail(tuttiSystemError, "out of memory for the messages of %zu tensors to and from servers", n);
  member->is_odd = member->is_owed + n * ranks;
  for (size_t i = 0; i < n; i++) member->parts_left[i] = -1;
  return tuttiSuccess;
}

/* Packets that are still here are of no use. */
void tt_fusion_served_free(struct tuttiFusion *fusion)
{
  struct served *served = fusion->served;
  if (!served) return;
  for (struct packet *packet; (packet = tt_packet_take(&served->mailbox));) tt_packet_drop(packet);
  tt_packets_free(&served->mailbox);
  tt_shards_free(fusion);
  tt_deaths_free(&served->deaths);
  if (served->wake > 0) close(served->wake);
  tt_free(served->left);
  tt_free(served->member.from);
  tt_free(served->member.behind);
  tt_free(served->member.owed);
  tt_free(served->member.is_owed);
  tt_free(served->member.sets);
  tt_free(served->member.parts_left);
  tt_free(served->member.places);
  tt_free(served->member.cut.weights);
  tt_free(served->member.cut.set);
  tt_free(served->member.next.weights);
  tt_free(served->member.next.set);
  tt_free(served);
}

/* ---- ranks that leave ---- */

/* A step of a synchronous rule can end only with the contributions of ranks that saw it begin. */
static tuttiResult_t leavers_check(const struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  const struct served *served = fusion->served;
  const struct member *member = &served->member;
  int n = 0, first = -1, has_died = 0;
  if (served->kind != TT_SERVER_SYNCHRONOUS || !member->nsent) return tuttiSuccess;
  if (served->shards.by_decision && member->cut.version > member->version) return tuttiSuccess;
  for (int rank = 0; rank < config->nranks; rank++) {
    if (!served->left[rank] || served->left[rank] > member->version + 1) continue;
    if (first < 0) first = rank;
    has_died |= tt_is_dead(fusion, rank);
    n++;
  }
  if (n <= config->nranks - config->serving.quorum) return tuttiSuccess;
  const char *what = has_died ? "have died or destroyed the fusion" : "have destroyed the fusion";
  return tt_fail(tuttiRemoteError, "%d of %d ranks, rank %d among them, %s after %llu updates, "
                 "and another update needs %d contributions: end on all ranks after the same number (updates in "
                 "tuttiFusionInfo_t)", n, config->nranks, first, what, (unsigned long long)member->version,
                 config->serving.quorum);
}

void tt_served_left(struct tuttiFusion *fusion, int rank, uint64_t version)
{
  struct served *served = fusion->served;
  served->nleft += !served->left[rank];
  served->left[rank] = 1 + version;
}

static tuttiResult_t leave(struct tuttiFusion *fusion)
{
  struct packet *packet = tt_packet_make(LEAVES, 0);
  tuttiResult_t result = packet ? tuttiSuccess : tuttiSystemError;
  if (!packet) return result;
  fusion->served->is_leaving = 1;
  packet->head.version = fusion->served->member.version;
  for (int rank = 0; rank < fusion->config.nranks && result == tuttiSuccess; rank++)
    if (!tt_is_dead(fusion, rank)) result = tt_packet_post(fusion, packet, rank);
  tt_packet_drop(packet);
  return result;
}

/* ---- the engine ---- */

/* Contributions wait until this rank's weights are there. */
static int are_weights_given(struct tuttiFusion *fusion)
{
  int i = 0;
  pthread_mutex_lock(&fusion->shared.mutex);
  while (i < fusion->config.n && fusion->coding.owned[i].is_given) i++;
  pthread_mutex_unlock(&fusion->shared.mutex);
  return i == fusion->config.n;
}

/* Nothing can be added to weights that were not given. */
static tuttiResult_t given_check(const struct tuttiFusion *fusion, const struct packet *packet)
{
  const struct config *config = &fusion->config;
  const struct packet_head *head = &packet->head;
  if (fusion->served->is_given || head->kind != CONTRIBUTION) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "rank %d has destroyed the fusion before its weights were given, and rank %d "
                 "contributes to them (tensor %d, %s): give them by tuttiFusionState (plane 0) on all ranks",
                 config->rank, packet->from, head->tensor, config->tensors[head->tensor].name);
}

static int packets_take(struct tuttiFusion *fusion, tuttiResult_t *result)
{
  struct served *served = fusion->served;
  int n = 0;
  for (struct packet *packet; *result == tuttiSuccess && (packet = tt_packet_take(&served->mailbox)); n++) {
    if (!tt_deaths_admit(fusion, packet)) continue;
    if (packet->head.kind == REPORT || packet->head.kind == ORDER || packet->head.kind == OFFER) {
      *result = tt_deaths_take(fusion, packet);
      continue;
    }
    if (!tt_shards_expect(fusion, packet)) {
      *result = tt_packet_wrong(fusion, packet->from);
      tt_packet_drop(packet);
      break;
    }
    if (packet->head.kind == WEIGHTS) {
      *result = tt_member_take(fusion, packet);
      continue;
    }
    if ((*result = given_check(fusion, packet)) != tuttiSuccess) {
      tt_packet_drop(packet);
      break;
    }
    if (packet->head.kind == LEAVES && !tt_is_dead(fusion, packet->from))
      tt_served_left(fusion, packet->from, packet->head.version);
    *result = tt_shards_take(fusion, packet);
  }
  return n;
}

/* One turn. 1: something moved. Packets about weights wait until this rank has its own. */
static int turn(struct tuttiFusion *fusion, int look, tuttiResult_t *result)
{
  const struct served *served = fusion->served;
  int moved = tt_packets_move(fusion, look, result), has_weights = served->is_given || served->is_leaving;
  if (*result == tuttiSuccess && !served->deaths.is_made) moved |= tt_deaths_made(fusion);
  if (*result == tuttiSuccess) moved |= tt_member_send(fusion, result);
  if (*result == tuttiSuccess && has_weights) moved |= packets_take(fusion, result);
  if (*result == tuttiSuccess) moved |= tt_member_step(fusion);
  if (*result == tuttiSuccess && has_weights && (look || !moved)) *result = tt_deaths_look(fusion);
  if (*result == tuttiSuccess && !moved) *result = leavers_check(fusion);
  if (*result == tuttiSuccess && !moved) *result = tt_comm_health(fusion->config.channel[0]);
  if (*result == tuttiSuccess && !moved && served->is_leaving && served->heir) *result = tt_comm_health(served->heir);
  if (*result == tuttiSuccess) *result = tt_patience_look(fusion, moved);
  return moved;
}

/* All have left, and nothing is on its way from this rank. A rank that has heard less takes one message at a time, so
 * behind a half of one it would not find the farewells of others. To a rank that is over itself nothing is on its way:
 * its channel ends at once, whatever it does then. */
static int is_over(const struct tuttiFusion *fusion)
{
  const struct served *served = fusion->served;
  return served->is_leaving && served->nleft == fusion->config.nranks && !served->mailbox.postings &&
         !served->mailbox.first;
}

static tuttiResult_t serve(struct tuttiFusion *fusion)
{
  struct tt_waiter *waiter = &fusion->engine.waiter;
  struct served *served = fusion->served;
  tuttiResult_t result = tuttiSuccess;
  int32_t one = 1;
  int look = 0;
  tt_waiter_init(waiter, tt_comm_facts(fusion->config.channel[0])->oversubscribed);
  waiter->sleep = tt_served_sleep;
  waiter->sleeper = fusion;
  if (!served->deaths.is_made) result = tt_deaths_spare(fusion);
  while (result == tuttiSuccess && !is_over(fusion)) {
    int is_stopping = !tt_fusion_users_look(fusion, &result), moved = 0;
    if (!served->is_given) served->is_given = are_weights_given(fusion);
    if (result == tuttiSuccess && is_stopping && !served->is_leaving) result = leave(fusion);
    if (result == tuttiSuccess) moved = turn(fusion, look, &result);
    look = tt_waiter_pause(waiter, moved);
  }
  if (result == tuttiSuccess && !tt_deaths_are_survived(fusion)) /* else ranks may have died */
    result = tt_fusion_run(&fusion->config, TT_ALL_REDUCE, &one, 1, tuttiInt32, tuttiSum);
  return result;
}

void *tt_fusion_served_main(void *context)
{
  struct tuttiFusion *fusion = context;
  tuttiResult_t result = serve(fusion);
  if (result != tuttiSuccess) {
    tt_fusion_fail(fusion, result);
    tt_fusion_stop_await(&fusion->shared);
  }
  return NULL;
}

/* ---- the callers' side ---- */

tuttiResult_t tt_fusion_served_await(struct tuttiFusion *fusion)
{
  struct shared *shared = &fusion->shared;
  pthread_mutex_lock(&shared->mutex);
  while (!fusion->served->deaths.is_made && shared->failed == tuttiSuccess)
    pthread_cond_wait(&shared->done, &shared->mutex);
  tuttiResult_t result = fusion->served->deaths.is_made ? tuttiSuccess : shared->failed;
  if (result != tuttiSuccess) tt_fail_quiet(result, shared->sentence);
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

int tt_fusion_serves(const struct tuttiFusion *fusion, int share)
{
  return fusion->served && fusion->served->shards.shares[share].nshards > 0;
}

void tt_fusion_planes_lock(struct tuttiFusion *fusion, int locks)
{
  if (!fusion->served) return;
  if (locks) pthread_mutex_lock(&fusion->served->shards.planes);
  else pthread_mutex_unlock(&fusion->served->shards.planes);
}

void tt_fusion_served_info(struct tuttiFusion *fusion, tuttiFusionInfo_t *info)
{
  const struct shards *shards = &fusion->served->shards;
  tt_fusion_planes_lock(fusion, 1);
  info->updates = fusion->served->member.version;
  info->dropped = fusion->served->member.dropped;
  info->stalest = shards->staleness_most;
  info->queued_bytes = fusion->served->mailbox.queued;
  info->queued_most = fusion->served->mailbox.queued_most;
  info->staleness = shards->counted ? (double)shards->staleness_sum / (double)shards->counted : 0;
  tt_fusion_planes_lock(fusion, 0);
}
