/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths that a fusion with servers survives: src/server/takeover.h decides, and this carries it out. */
#include <stdio.h>
#include <string.h>

#include "fusion/served_private.h"

#define RANKS_BYTES 240 /* numbers of dead ranks in a sentence */

tuttiResult_t tt_deaths_make(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  struct deaths *deaths = &served->deaths;
  deaths->is_made = served->kind == TT_SERVER_SYNCHRONOUS && !served->shards.by_decision; /* a death ends it */
  if (deaths->is_made) return tuttiSuccess;
  deaths->dead = tt_alloc((size_t)served->nwords, sizeof *deaths->dead);
  deaths->made = tt_alloc((size_t)served->nwords, sizeof *deaths->made);
  if (!deaths->dead || !deaths->made)
    return tt_fail(tuttiSystemError, "out of memory for the deaths of %d ranks", config->nranks);
  if (served->kind == TT_SERVER_GOSSIP) return tuttiSuccess;
  if (served->kind != TT_SERVER_SYNCHRONOUS) return tt_offers_make(fusion);
  return tt_takeover_create(&deaths->takeover, config->nranks, config->rank, config->nranks - config->serving.quorum);
}

void tt_deaths_free(struct deaths *deaths)
{
  for (struct packet *packet; (packet = deaths->waiting);) {
    deaths->waiting = packet->next;
    tt_packet_drop(packet);
  }
  tt_takeover_destroy(deaths->takeover);
  tt_failover_destroy(deaths->failover);
  tt_free(deaths->dead);
  tt_free(deaths->made);
}

/* ---- the end of the making ---- */

tuttiResult_t tt_deaths_spare(struct tuttiFusion *fusion)
{
  struct packet *packet = tt_packet_make(MADE, 0);
  if (!packet) return tuttiSystemError;
  tt_comm_spare(fusion->config.channel[0]);
  tuttiResult_t result = tt_comm_health(fusion->config.channel[0]);
  for (int rank = 0; rank < fusion->config.nranks && result == tuttiSuccess; rank++)
    if (rank != fusion->config.rank) result = tt_packet_post(fusion, packet, rank);
  tt_packet_drop(packet);
  tt_deaths_hear(fusion, fusion->config.rank);
  return result;
}

void tt_deaths_hear(struct tuttiFusion *fusion, int rank)
{
  fusion->served->deaths.made[rank / 64] |= (uint64_t)1 << (rank % 64);
}

int tt_deaths_made(struct tuttiFusion *fusion)
{
  struct deaths *deaths = &fusion->served->deaths;
  for (int rank = 0; rank < fusion->config.nranks; rank++)
    if (!tt_set_has(deaths->made, rank) && !tt_comm_is_lost(fusion->config.channel[0], rank)) return 0;
  pthread_mutex_lock(&fusion->shared.mutex);
  deaths->is_made = 1;
  pthread_cond_broadcast(&fusion->shared.done);
  pthread_mutex_unlock(&fusion->shared.mutex);
  return 1;
}

/* Writes "rank 3" or "ranks 1, 2". */
static void ranks_write(const struct tuttiFusion *fusion, const uint64_t *set, char text[RANKS_BYTES])
{
  size_t len = 0;
  int n = 0, named = 0;
  for (int w = 0; w < fusion->served->nwords; w++) n += __builtin_popcountll(set[w]);
  len += (size_t)snprintf(text, RANKS_BYTES, n == 1 ? "rank" : "ranks");
  for (int r = 0; r < fusion->config.nranks && len + 16 < RANKS_BYTES; r++)
    if (tt_set_has(set, r)) len += (size_t)snprintf(text + len, RANKS_BYTES - len, "%s %d", named++ ? "," : "", r);
}

/* ---- actions ---- */

static tuttiResult_t post(struct tuttiFusion *fusion, struct packet *packet, int to)
{
  tuttiResult_t result = tt_packet_post(fusion, packet, to);
  tt_packet_drop(packet);
  return result;
}

static tuttiResult_t report(struct tuttiFusion *fusion, const struct tt_takeover_action *action)
{
  struct packet *packet = tt_packet_of_sets(fusion, REPORT, action->order.dead, action->serves);
  if (!packet) return tuttiSystemError;
  packet->head.version = fusion->served->member.cut.version;
  packet->head.step = tt_shards_least(fusion);
  return post(fusion, packet, action->to);
}

static tuttiResult_t order(struct tuttiFusion *fusion, const struct tt_takeover_action *action)
{
  const struct tt_takeover_order *its = &action->order;
  struct packet *packet = tt_packet_of_sets(fusion, ORDER, its->dead, its->holders);
  if (!packet) return tuttiSystemError;
  uint64_t *owners = (uint64_t *)packet_payload(packet) + 2 * fusion->served->nwords;
  memcpy(owners, its->owners, (size_t)fusion->config.nranks * sizeof *its->owners);
  packet->head.version = its->version;
  return post(fusion, packet, action->to);
}

void tt_deaths_tell(const struct tuttiFusion *fusion, uint64_t version)
{
  const struct config *config = &fusion->config;
  const uint64_t *dead = fusion->served->deaths.dead;
  char ranks[RANKS_BYTES];
  int first = 0;
  while (tt_set_has(dead, first)) first++;
  ranks_write(fusion, dead, ranks);
  if (config->rank == first)
    tt_log(TT_LOG_WARN, "the fusion goes on after %llu updates without %s (quorum %d of %d ranks, staleness %d)",
           (unsigned long long)version, ranks, config->serving.quorum, config->nranks, config->serving.staleness);
}

void tt_deaths_go_on(struct tuttiFusion *fusion)
{
  struct deaths *deaths = &fusion->served->deaths;
  struct packet *next = deaths->waiting;
  deaths->waiting = NULL;
  for (struct packet *packet; (packet = next);) {
    next = packet->next;
    tt_packet_arrive(&fusion->served->mailbox, packet);
  }
}

static void put_off(struct deaths *deaths, struct packet *packet)
{
  struct packet **at = &deaths->waiting;
  while (*at) at = &(*at)->next;
  packet->next = NULL;
  *at = packet;
}

/* Each share has a server again: what it serves, and what it sends. */
static tuttiResult_t begin(struct tuttiFusion *fusion, const struct tt_takeover_order *order)
{
  struct served *served = fusion->served;
  struct shards *shards = &served->shards;
  tuttiResult_t result = tuttiSuccess;
  tt_deaths_tell(fusion, order->version);
  tt_cut_begin(fusion);
  for (int share = 0; share < fusion->config.nranks && result == tuttiSuccess; share++) {
    if (shards->number[share] < 0) continue;
    if (tt_shards_server(fusion, share) != fusion->config.rank) continue;
    if (!shards->shares[share].server)
      tt_log(TT_LOG_INFO, "rank %d serves the weights of rank %d; their other planes begin as zeros",
             fusion->config.rank, share);
    result = tt_shards_begin(fusion, share, order);
  }
  if (result == tuttiSuccess) tt_contributions_again(fusion);
  tt_deaths_go_on(fusion);
  return result;
}

static tuttiResult_t doom(const struct tuttiFusion *fusion, const struct tt_takeover_action *action)
{
  const struct config *config = &fusion->config;
  char ranks[RANKS_BYTES];
  ranks_write(fusion, action->order.dead, ranks);
  if (action->is_lost)
    return tt_fail(tuttiRemoteError, "the last updates are lost with %s: a quorum of %d of %d ranks lets so few run "
                   "ahead that no other one has their weights; go on from a checkpoint", ranks,
                   config->serving.quorum, config->nranks);
  return tt_fail(tuttiRemoteError, "%s died: a quorum of %d of %d ranks lets no more than %d die", ranks,
                 config->serving.quorum, config->nranks, config->nranks - config->serving.quorum);
}

static tuttiResult_t actions_take(struct tuttiFusion *fusion)
{
  struct tt_takeover_action action;
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess && tt_takeover_next(fusion->served->deaths.takeover, &action)) {
    if (action.act == TT_REPORT) result = report(fusion, &action);
    else if (action.act == TT_ORDER) result = order(fusion, &action);
    else if (action.act == TT_BEGIN) result = begin(fusion, &action.order);
    else result = doom(fusion, &action);
  }
  return result;
}

/* ---- events ---- */

static tuttiResult_t died(struct tuttiFusion *fusion, int rank)
{
  struct served *served = fusion->served;
  struct deaths *deaths = &served->deaths;
  deaths->dead[rank / 64] |= (uint64_t)1 << (rank % 64);
  tt_served_left(fusion, rank, 0);
  if (deaths->takeover) {
    tt_takeover_died(deaths->takeover, rank);
    return tuttiSuccess;
  }
  tt_deaths_tell(fusion, served->member.cut.version);
  tuttiResult_t result = tt_shards_died(fusion, rank);
  if (served->kind == TT_SERVER_GOSSIP) tt_member_forget(fusion, rank);
  return deaths->failover && result == tuttiSuccess ? tt_offers_died(fusion, rank) : result;
}

/* A rank ends its channel when all others have said that they leave: then this one has. */
tuttiResult_t tt_deaths_look(struct tuttiFusion *fusion)
{
  struct served *served = fusion->served;
  struct deaths *deaths = &served->deaths;
  const struct tuttiComm *channel = fusion->config.channel[0];
  tuttiResult_t result = tuttiSuccess;
  if (!tt_deaths_are_survived(fusion)) return result;
  for (int rank = 0; rank < fusion->config.nranks && result == tuttiSuccess; rank++) {
    if (rank == fusion->config.rank || tt_set_has(deaths->dead, rank)) continue;
    if (!served->left[rank] && tt_comm_has_left(channel, rank))
      tt_served_left(fusion, rank, served->member.cut.version);
    if (tt_comm_is_lost(channel, rank)) result = died(fusion, rank);
  }
  return deaths->takeover && result == tuttiSuccess ? actions_take(fusion) : result;
}

int tt_deaths_admit(struct tuttiFusion *fusion, struct packet *packet)
{
  struct deaths *deaths = &fusion->served->deaths;
  int epoch = tt_deaths_epoch(fusion), kind = packet->head.kind, is_over = 0;
  if (deaths->takeover) {
    if (kind == LEAVES || kind == LIVES || kind == REPORT || kind == ORDER) return 1;
    if (packet->head.epoch == epoch && !tt_takeover_is_stopped(deaths->takeover)) return 1;
    is_over = packet->head.epoch <= epoch;
  } else {
    is_over = tt_is_dead(fusion, packet->from);
    int is_early = kind == CONTRIBUTION && deaths->failover &&
                   !tt_failover_serves(deaths->failover, packet->head.share);
    if (!is_over && !is_early) return 1;
  }
  if (is_over) tt_packet_drop(packet);
  else put_off(deaths, packet);
  return 0;
}

static tuttiResult_t word_take(struct tuttiFusion *fusion, struct packet *packet)
{
  struct served *served = fusion->served;
  const uint64_t *sets = packet_payload(packet);
  const struct packet_head *head = &packet->head;
  struct tt_takeover *takeover = served->deaths.takeover;
  const uint64_t *second = sets + served->nwords;
  const struct tt_takeover_report its = {sets, second, head->version, head->step};
  const struct tt_takeover_order ordered = {sets, second, (const int32_t *)(const void *)(second + served->nwords),
                                            head->version};
  int is_right = head->kind == REPORT ? tt_takeover_reported(takeover, packet->from, &its)
                                      : tt_takeover_ordered(takeover, packet->from, &ordered);
  tuttiResult_t result = is_right ? actions_take(fusion)
                                  : tt_fail(tuttiInternalError, "rank %d tells of deaths as no correct rank does",
                                            packet->from);
  tt_packet_drop(packet);
  return result;
}

tuttiResult_t tt_deaths_take(struct tuttiFusion *fusion, struct packet *packet)
{
  int is_early = 0;
  if (packet->head.kind != OFFER) return word_take(fusion, packet);
  tuttiResult_t result = tt_offers_take(fusion, packet, &is_early);
  if (is_early) put_off(&fusion->served->deaths, packet);
  return result;
}
