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
  if (!served->shards.by_decision) return tuttiSuccess;
  deaths->dead = tt_alloc((size_t)served->nwords, sizeof *deaths->dead);
  if (!deaths->dead) return tt_fail(tuttiSystemError, "out of memory for the deaths of %d ranks", config->nranks);
  return tt_takeover_create(&deaths->takeover, config->nranks, config->rank, config->nranks - config->serving.quorum);
}

void tt_deaths_free(struct deaths *deaths)
{
  for (struct packet *packet; (packet = deaths->waiting);) {
    deaths->waiting = packet->next;
    tt_packet_drop(packet);
  }
  tt_takeover_destroy(deaths->takeover);
  tt_free(deaths->dead);
}

void tt_deaths_spare(struct tuttiFusion *fusion)
{
  if (fusion->served && fusion->served->deaths.takeover) tt_comm_spare(fusion->config.channel[0]);
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

static tuttiResult_t report(struct tuttiFusion *fusion, const struct tt_takeover_action *action)
{
  size_t set = (size_t)fusion->served->nwords * sizeof(uint64_t);
  struct packet *packet = tt_packet_make(REPORT, set);
  if (!packet) return tuttiSystemError;
  packet->head.version = fusion->served->member.cut.version;
  packet->head.step = tt_shards_least(fusion);
  memcpy(packet_payload(packet), action->order.dead, set);
  tuttiResult_t result = tt_packet_post(fusion, packet, action->to);
  tt_packet_drop(packet);
  return result;
}

static tuttiResult_t order(struct tuttiFusion *fusion, const struct tt_takeover_action *action)
{
  size_t words = (size_t)fusion->served->nwords, set = words * sizeof(uint64_t);
  struct packet *packet = tt_packet_make(ORDER, 2 * set);
  if (!packet) return tuttiSystemError;
  uint64_t *payload = packet_payload(packet);
  packet->head.version = action->order.version;
  memcpy(payload, action->order.dead, set);
  memcpy(payload + words, action->order.holders, set);
  tuttiResult_t result = tt_packet_post(fusion, packet, action->to);
  tt_packet_drop(packet);
  return result;
}

static void begin_tell(const struct tuttiFusion *fusion, const struct tt_takeover_order *order)
{
  const struct config *config = &fusion->config;
  char ranks[RANKS_BYTES];
  int first = 0;
  while (tt_set_has(order->dead, first)) first++;
  ranks_write(fusion, order->dead, ranks);
  if (config->rank == first)
    tt_log(TT_LOG_WARN, "the fusion goes on after %llu updates without %s (quorum %d of %d ranks)",
           (unsigned long long)order->version, ranks, config->serving.quorum, config->nranks);
}

/* Each share has a server again: what it serves, and what it sends. */
static tuttiResult_t begin(struct tuttiFusion *fusion, const struct tt_takeover_order *order)
{
  struct served *served = fusion->served;
  struct shards *shards = &served->shards;
  tuttiResult_t result = tuttiSuccess;
  begin_tell(fusion, order);
  tt_cut_begin(fusion, order->version + (uint64_t)tt_set_has(order->holders, fusion->config.rank));
  for (int share = 0; share < fusion->config.nranks && result == tuttiSuccess; share++) {
    if (shards->number[share] < 0) continue;
    if (tt_shards_server(fusion, share) != fusion->config.rank) tt_shards_leave(fusion, share);
    else {
      if (tt_set_has(order->dead, share) && !shards->shares[share].server)
        tt_log(TT_LOG_INFO, "rank %d serves the weights of rank %d; their other planes begin as zeros",
               fusion->config.rank, share);
      result = tt_shards_begin(fusion, share, order);
    }
  }
  if (result == tuttiSuccess) tt_contributions_again(fusion);
  for (struct packet *packet, *next = served->deaths.waiting; (packet = next);) {
    next = packet->next;
    tt_packet_arrive(&served->mailbox, packet);
  }
  served->deaths.waiting = NULL;
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

/* A rank ends its channel when all others have said that they leave: then this one has. */
tuttiResult_t tt_deaths_look(struct tuttiFusion *fusion)
{
  struct served *served = fusion->served;
  struct deaths *deaths = &served->deaths;
  const struct tuttiComm *channel = fusion->config.channel[0];
  if (!deaths->takeover) return tuttiSuccess;
  for (int rank = 0; rank < fusion->config.nranks; rank++) {
    if (rank == fusion->config.rank || tt_set_has(deaths->dead, rank)) continue;
    if (!served->left[rank] && tt_comm_has_left(channel, rank))
      tt_served_left(fusion, rank, served->member.cut.version);
    if (!tt_comm_is_lost(channel, rank)) continue;
    deaths->dead[rank / 64] |= (uint64_t)1 << (rank % 64);
    tt_served_left(fusion, rank, 0);
    tt_takeover_died(deaths->takeover, rank);
  }
  return actions_take(fusion);
}

int tt_deaths_admit(struct tuttiFusion *fusion, struct packet *packet)
{
  struct deaths *deaths = &fusion->served->deaths;
  int epoch = tt_deaths_epoch(fusion), kind = packet->head.kind;
  if (!deaths->takeover || kind == LEAVES || kind == LIVES || kind == REPORT || kind == ORDER) return 1;
  if (packet->head.epoch == epoch && !tt_takeover_is_stopped(deaths->takeover)) return 1;
  if (packet->head.epoch > epoch) {
    packet->next = deaths->waiting;
    deaths->waiting = packet;
  } else tt_packet_drop(packet);
  return 0;
}

tuttiResult_t tt_deaths_take(struct tuttiFusion *fusion, struct packet *packet)
{
  struct served *served = fusion->served;
  const uint64_t *sets = packet_payload(packet);
  const struct packet_head *head = &packet->head;
  struct tt_takeover *takeover = served->deaths.takeover;
  const struct tt_takeover_report its = {sets, head->version, head->step};
  const struct tt_takeover_order ordered = {sets, sets + served->nwords, head->version};
  int is_right = head->kind == REPORT ? tt_takeover_reported(takeover, packet->from, &its)
                                      : tt_takeover_ordered(takeover, packet->from, &ordered);
  tuttiResult_t result = is_right ? actions_take(fusion)
                                  : tt_fail(tuttiInternalError, "rank %d tells of deaths as no correct rank does",
                                            packet->from);
  tt_packet_drop(packet);
  return result;
}
