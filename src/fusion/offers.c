/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths of ranks that serve without a decision: src/server/failover.h says who serves their shares, and this carries
 * it out. A rank offers what the share has answered last. */
#include <string.h>

#include "fusion/served_private.h"

tuttiResult_t tt_offers_make(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  int32_t *nshards = tt_alloc((size_t)config->nranks, sizeof *nshards);
  if (!nshards) return tt_fail(tuttiSystemError, "out of memory for the shares of %d ranks", config->nranks);
  for (int rank = 0; rank < config->nranks; rank++)
    for (int i = 0; i < config->n; i++) nshards[rank] += tt_share_count(fusion, i, rank) > 0;
  tuttiResult_t result = tt_failover_create(&served->deaths.failover, config->nranks, config->rank, nshards,
                                            served->kind == TT_SERVER_EASGD);
  tt_free(nshards);
  return result;
}

/* ---- what this rank has ---- */

static tuttiResult_t tensor_offer(struct tuttiFusion *fusion, int tensor, int share, int to)
{
  struct served *served = fusion->served;
  const struct member *member = &served->member;
  size_t words = (size_t)served->nwords;
  size_t part = (size_t)tensor * (size_t)fusion->config.nranks + (size_t)share;
  if (!tt_share_count(fusion, tensor, share)) return tuttiSuccess;
  struct packet *packet = tt_packet_make(OFFER, tt_offer_bytes(fusion, tensor, share));
  if (!packet) return tuttiSystemError;
  uint64_t *payload = packet_payload(packet);
  int is_answered = member->parts_left[tensor] >= 0 && !member->is_owed[part]; /* in the step under way */
  packet->head.tensor = tensor;
  packet->head.share = share;
  packet->head.version = member->from[part];
  packet->head.step = tt_served_step(fusion) + (uint64_t)is_answered;
  packet->head.rank = member->is_odd[part];
  memcpy(payload, member->sets + part * words, words * sizeof *payload);
  tt_fusion_planes_lock(fusion, 1);
  tt_share_pack(fusion, tensor, share, (float *)(void *)(payload + words),
                member->cut.weights + member->places[tensor]);
  tt_fusion_planes_lock(fusion, 0);
  tuttiResult_t result = tt_packet_post(fusion, packet, to);
  tt_packet_drop(packet);
  return result;
}

/* ---- what others have ---- */

/* The other planes begin as zeros. */
static void planes_write(struct tuttiFusion *fusion, int tensor, int share, const float *weights)
{
  const struct masters *owned = &fusion->coding.owned[tensor];
  const struct tt_fusion_share its = tt_fusion_share(fusion, tensor, share);
  uint64_t n;
  tt_fusion_planes_lock(fusion, 1);
  tt_share_unpack(fusion, tensor, share, owned->planes[0], weights);
  for (uint64_t first = 0; (n = tt_fusion_share_next(&fusion->config, &its, &first)) > 0; first += its.unit)
    for (int p = 1; p < fusion->config.rule.planes; p++) memset(owned->planes[p] + first, 0, n * sizeof *weights);
  tt_fusion_planes_lock(fusion, 0);
}

static tuttiResult_t serve(struct tuttiFusion *fusion, int which)
{
  struct share *share = &fusion->served->shards.shares[which];
  const struct tt_failover *failover = fusion->served->deaths.failover;
  tuttiResult_t result = tt_shards_add(fusion, which);
  for (int shard = 0; shard < share->nshards && result == tuttiSuccess; shard++) {
    share->versions[shard] = tt_failover_version(failover, which, shard);
    tt_server_restore(share->server, shard, share->versions[shard]);
    for (int rank = 0; rank < fusion->config.nranks; rank++) {
      const struct tt_server_progress progress = tt_failover_progress(failover, which, shard, rank);
      tt_server_restore_rank(share->server, shard, rank, &progress);
    }
  }
  if (result != tuttiSuccess) return result;
  tt_log(TT_LOG_INFO, "rank %d serves the weights of rank %d; their other planes begin as zeros", fusion->config.rank,
         which);
  tt_deaths_go_on(fusion);
  return tuttiSuccess;
}

/* ---- actions ---- */

static tuttiResult_t actions_take(struct tuttiFusion *fusion)
{
  struct tt_failover_action action;
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess && tt_failover_next(fusion->served->deaths.failover, &action)) {
    if (action.act == TT_SERVE) {
      result = serve(fusion, action.share);
      continue;
    }
    for (int i = 0; i < fusion->config.n && result == tuttiSuccess; i++)
      result = tensor_offer(fusion, i, action.share, action.to);
    if (result == tuttiSuccess) result = tt_member_resend(fusion, action.share);
  }
  return result;
}

/* ---- events ---- */

tuttiResult_t tt_offers_died(struct tuttiFusion *fusion, int rank)
{
  tuttiResult_t result = tt_failover_died(fusion->served->deaths.failover, rank);
  tt_deaths_go_on(fusion);
  return result == tuttiSuccess ? actions_take(fusion) : result;
}

/* Shards are the tensors of which the share has elements, in their order. */
static int shard_of(const struct tuttiFusion *fusion, int tensor, int share)
{
  int shard = 0;
  for (int i = 0; i < tensor; i++) shard += tt_share_count(fusion, i, share) > 0;
  return shard;
}

tuttiResult_t tt_offers_take(struct tuttiFusion *fusion, struct packet *packet, int *is_early)
{
  const struct packet_head *head = &packet->head;
  const uint64_t *set = packet_payload(packet);
  const struct tt_offer offer = {head->share, shard_of(fusion, head->tensor, head->share), head->version, head->step,
                                 head->rank, set};
  enum tt_offer_verdict verdict = tt_failover_offered(fusion->served->deaths.failover, packet->from, &offer);
  *is_early = verdict == TT_OFFER_EARLY;
  if (*is_early) return tuttiSuccess;
  tuttiResult_t result = tuttiSuccess;
  if (verdict == TT_OFFER_WRONG)
    result = tt_fail(tuttiInternalError, "rank %d offers weights of tensor %d (%s) as no correct rank does",
                     packet->from, head->tensor, fusion->config.tensors[head->tensor].name);
  else if (verdict == TT_OFFER_NEWEST)
    planes_write(fusion, head->tensor, head->share, (const float *)(const void *)(set + fusion->served->nwords));
  tt_packet_drop(packet);
  return result == tuttiSuccess ? actions_take(fusion) : result;
}
