/* SPDX-License-Identifier: BSD-3-Clause */
/* The member's part of a fusion with servers: contributions are sent as tensors are pushed, and weights are taken as
 * servers answer.
 *
 * If fewer than all ranks count (`by_decision`) weights of several versions may come before the rank wants any. They
 * are put together, one version after the other, in a *cut*: the rank gets the newest that is complete, all of one
 * version, at the end of its step; a rank that was late goes on from there, and so do all when a rank has died. The
 * rank tells the decider of each, and gets no other one before. Its own contributions wait until those of the step
 * before are sent, and are left out if their step is over by then: so nothing piles up behind a slow link. */
#include <string.h>

#include "fusion/served_private.h"

/* ---- contributions ---- */

static tuttiResult_t part_send(struct tuttiFusion *fusion, int tensor, int owner)
{
  const struct served *served = fusion->served;
  struct packet *packet = tt_contribution_make(fusion, tensor, owner);
  if (!packet) return tuttiSystemError;
  int is_synchronous = served->kind == TT_SERVER_SYNCHRONOUS;
  size_t part = (size_t)tensor * (size_t)fusion->config.nranks + (size_t)owner;
  uint64_t from = served->member.from[part] - served->member.behind[part];
  packet->head.step = is_synchronous ? served->member.version : tt_served_step(fusion);
  packet->head.version = is_synchronous ? served->member.version : from;
  tuttiResult_t result = tt_packet_post(fusion, packet, tt_shards_server(fusion, owner));
  tt_packet_drop(packet);
  return result;
}

/* The place of a tensor and a share. */
static size_t part_of(const struct tuttiFusion *fusion, int tensor, int share)
{
  return (size_t)tensor * (size_t)fusion->config.nranks + (size_t)share;
}

static tuttiResult_t life_tell(struct tuttiFusion *fusion)
{
  const struct served *served = fusion->served;
  tuttiResult_t result = tuttiSuccess;
  for (int rank = 0; rank < fusion->config.nranks && result == tuttiSuccess; rank++) {
    int hears = served->shards.number[rank] >= 0 && served->kind != TT_SERVER_GOSSIP;
    if (!served->left[rank] || hears || tt_is_dead(fusion, rank) || tt_packets_are_queued(&served->mailbox, rank))
      continue;
    struct packet *packet = tt_packet_make(LIVES, 0);
    result = packet ? tt_packet_post(fusion, packet, rank) : tuttiSystemError;
    if (packet) tt_packet_drop(packet);
  }
  return result;
}

/* The step's weights are all there. */
static void step_note(struct tuttiFusion *fusion)
{
  const struct served *served = fusion->served;
  struct member *member = &fusion->served->member;
  int is_all = served->kind == TT_SERVER_SYNCHRONOUS && !served->shards.by_decision;
  pthread_mutex_lock(&fusion->shared.mutex);
  if (served->kind == TT_SERVER_GOSSIP) member->cut.version = tt_served_step(fusion) + 1;
  member->version = is_all ? member->version + 1 : member->cut.version;
  member->dropped += (uint64_t)member->is_dropped;
  fusion->coding.step = fusion->engine.step;
  pthread_mutex_unlock(&fusion->shared.mutex);
}

/* Callers who have seen the last tensor of a step may ask for facts of the step at once. */
static void tensor_finish(struct tuttiFusion *fusion, int tensor)
{
  struct member *member = &fusion->served->member;
  member->parts_left[tensor] = 0;
  if (++member->nfinished == fusion->config.n) step_note(fusion);
  tt_fusion_tensor_finish(fusion, tensor);
}

/* A step that is decided already takes no more contributions. */
static tuttiResult_t tensor_send(struct tuttiFusion *fusion, int tensor)
{
  const struct config *config = &fusion->config;
  struct served *served = fusion->served;
  struct member *member = &served->member;
  int is_late = served->shards.by_decision && member->cut.version > member->version;
  tuttiResult_t result = tuttiSuccess;
  int partner = tt_exchange_partner(fusion), is_gossip = served->kind == TT_SERVER_GOSSIP;
  member->nsent++;
  member->parts_left[tensor] = 0;
  if (config->tensors[tensor].has_codec) fusion->coding.past.kept = KEPT_NOTHING; /* planes are overwritten */
  tt_exchange_begin(fusion, tensor);
  for (int owner = 0; owner < config->nranks && !is_late && result == tuttiSuccess; owner++) {
    if (!tt_share_count(fusion, tensor, owner) || (is_gossip && owner != partner)) continue;
    member->parts_left[tensor]++;
    member->owed[owner] += !served->shards.by_decision;
    member->is_owed[part_of(fusion, tensor, owner)] = !served->shards.by_decision;
    result = part_send(fusion, tensor, owner);
  }
  if (result == tuttiSuccess && !served->shards.by_decision && !member->parts_left[tensor]) {
    if (is_gossip) tt_exchange_end(fusion, tensor, -1, NULL);
    tensor_finish(fusion, tensor);
  }
  return result == tuttiSuccess && member->nsent == config->n ? life_tell(fusion) : result;
}

/* By decision: 1: the step has not begun, and contributions to an earlier one are still on their way. */
static int is_held_back(const struct tuttiFusion *fusion)
{
  const struct served *served = fusion->served;
  const struct member *member = &served->member;
  return served->shards.by_decision && !member->nsent && member->cut.version == member->version &&
         served->mailbox.ncontributions;
}

int tt_member_send(struct tuttiFusion *fusion, tuttiResult_t *result)
{
  const struct tt_takeover *takeover = fusion->served->deaths.takeover;
  struct member *member = &fusion->served->member;
  int sent = 0;
  member->is_held_back = 0;
  if (takeover && tt_takeover_is_stopped(takeover)) return 0;
  for (int i = 0; i < fusion->config.n && member->nsent < fusion->config.n && *result == tuttiSuccess; i++) {
    const struct gradient *gradient = &fusion->shared.gradients[i];
    if (member->parts_left[i] >= 0 ||
        atomic_load_explicit(&gradient->ready, memory_order_acquire) < fusion->engine.step)
      continue;
    member->is_held_back = is_held_back(fusion);
    if (member->is_held_back) return 0;
    fusion->engine.seen.scale = fusion->shared.steps[fusion->engine.step % 2].scale; /* stays while it is ready */
    *result = tensor_send(fusion, i);
    sent = 1;
  }
  return sent;
}

void tt_contributions_again(struct tuttiFusion *fusion)
{
  struct member *member = &fusion->served->member;
  member->nsent = 0;
  for (int i = 0; i < fusion->config.n; i++) member->parts_left[i] = -1;
}

tuttiResult_t tt_member_resend(struct tuttiFusion *fusion, int share)
{
  const struct member *member = &fusion->served->member;
  tuttiResult_t result = tuttiSuccess;
  for (int i = 0; i < fusion->config.n && result == tuttiSuccess; i++)
    if (member->is_owed[part_of(fusion, i, share)])
      result = part_send(fusion, i, share);
  return result;
}

/* The share has answered. */
static void part_end(struct tuttiFusion *fusion, int tensor, int share)
{
  struct member *member = &fusion->served->member;
  member->is_owed[part_of(fusion, tensor, share)] = 0;
  member->owed[share]--;
  if (--member->parts_left[tensor] == 0) tensor_finish(fusion, tensor);
}

void tt_member_forget(struct tuttiFusion *fusion, int rank)
{
  struct member *member = &fusion->served->member;
  for (int i = 0; i < fusion->config.n; i++) {
    if (!member->is_owed[part_of(fusion, i, rank)]) continue;
    member->is_dropped = 1;
    tt_exchange_end(fusion, i, -1, NULL);
    part_end(fusion, i, rank);
  }
}

/* ---- weights ---- */

static const float *weights_of(const struct tuttiFusion *fusion, struct packet *packet)
{
  const uint64_t *payload = packet_payload(packet);
  return (const float *)(const void *)(payload + fusion->served->nwords);
}

/* Tells the decider that all weights of the cut are here. */
static tuttiResult_t seen_tell(struct tuttiFusion *fusion)
{
  struct packet *packet = tt_packet_make(SEEN, 0);
  if (!packet) return tuttiSystemError;
  packet->head.version = fusion->served->member.cut.version;
  tuttiResult_t result = tt_packet_post(fusion, packet, tt_shards_server(fusion, fusion->served->shards.decider));
  tt_packet_drop(packet);
  return result;
}

/* A rank contributes to one step at most between two versions that it gets, and that has counted if its bit changes:
 * also if it gets the version after that step no more, as others were ahead when a rank died. */
static void cut_end(struct tuttiFusion *fusion, const uint64_t *set)
{
  struct member *member = &fusion->served->member;
  int rank = fusion->config.rank;
  if (member->cut.version == member->version && tt_set_has(set, rank) == tt_set_has(member->cut.set, rank))
    member->is_dropped = 1;
  memcpy(member->next.set, set, (size_t)fusion->served->nwords * sizeof *member->next.set);
  tt_fusion_planes_lock(fusion, 1); /* the caller may give weights */
  struct version old = member->cut;
  member->cut = member->next;
  member->next = old;
  tt_fusion_planes_lock(fusion, 0);
  tt_cut_begin(fusion);
}

/* The first weights that come say of which version they are, and the others are of the same. */
static tuttiResult_t cut_take(struct tuttiFusion *fusion, struct packet *packet)
{
  struct member *member = &fusion->served->member;
  int tensor = packet->head.tensor;
  uint64_t version = packet->head.version;
  if (member->nleft == member->nparts && version > member->cut.version) member->next.version = version;
  if (version != member->next.version || version <= member->cut.version)
    return tt_fail(tuttiInternalError, "rank %d has sent weights of version %llu, and this rank has version %llu and "
                   "puts together %llu, which no correct rank does", packet->from, (unsigned long long)version,
                   (unsigned long long)member->cut.version, (unsigned long long)member->next.version);
  tt_weights_read(fusion, packet, tuttiFloat32, member->next.weights + member->places[tensor]);
  if (--member->nleft) return tuttiSuccess;
  cut_end(fusion, packet_payload(packet));
  return seen_tell(fusion);
}

void tt_cut_begin(struct tuttiFusion *fusion)
{
  fusion->served->member.nleft = fusion->served->member.nparts;
}

void tt_cut_given(struct tuttiFusion *fusion, int tensor, const float *weights)
{
  const struct member *member = &fusion->served->member;
  const struct tensor *its = &fusion->config.tensors[tensor];
  if (member->cut.weights && its->count)
    memcpy(member->cut.weights + member->places[tensor], weights, its->count * sizeof *weights);
}

/* Keeps what a share has answered, to offer it if its server dies. */
static void copy_keep(struct tuttiFusion *fusion, struct packet *packet)
{
  struct member *member = &fusion->served->member;
  const struct tt_fusion_share share = tt_fusion_share(fusion, packet->head.tensor, packet->head.share);
  const float *from = fusion->shared.gradients[packet->head.tensor].recv;
  float *to = member->cut.weights + member->places[packet->head.tensor];
  size_t words = (size_t)fusion->served->nwords, part = part_of(fusion, packet->head.tensor, packet->head.share);
  uint64_t n;
  memcpy(member->sets + part * words, packet_payload(packet), words * sizeof *member->sets);
  tt_fusion_planes_lock(fusion, 1); /* the caller may give weights */
  if (!tt_is_exchange(fusion->served)) tt_weights_read(fusion, packet, tuttiFloat32, to);
  for (uint64_t first = 0;
       tt_is_exchange(fusion->served) && (n = tt_fusion_share_next(&fusion->config, &share, &first)) > 0;
       first += share.unit)
    memcpy(to + first, from + first, n * sizeof *to);
  tt_fusion_planes_lock(fusion, 0);
}

tuttiResult_t tt_member_take(struct tuttiFusion *fusion, struct packet *packet)
{
  const struct packet_head *head = &packet->head;
  struct served *served = fusion->served;
  struct member *member = &served->member;
  tuttiResult_t result = tuttiSuccess;
  size_t part = part_of(fusion, head->tensor, head->share);
  if (served->shards.by_decision) result = cut_take(fusion, packet);
  else if (!member->is_owed[part])
    result = tt_fail(tuttiInternalError, "rank %d has sent weights of tensor %d (%s) that this rank did not ask for",
                     packet->from, head->tensor, fusion->config.tensors[head->tensor].name);
  else {
    member->from[part] = head->version;
    member->behind[part] = 0;
    member->is_dropped |= head->is_refused;
    if (head->is_refused) tt_contribution_undo(fusion, head->tensor, head->share);
    else member->is_odd[part] ^= 1;
    if (head->version > member->cut.version) member->cut.version = head->version;
    if (tt_is_exchange(served))
      tt_exchange_end(fusion, head->tensor, head->share, weights_of(fusion, packet));
    else
      tt_weights_read(fusion, packet, fusion->config.tensors[head->tensor].type,
                      fusion->shared.gradients[head->tensor].recv);
    if (served->deaths.failover) copy_keep(fusion, packet);
    part_end(fusion, head->tensor, head->share);
  }
  tt_packet_drop(packet);
  return result;
}

/* ---- steps ---- */

/* By decision: gives the newest weights, unless the rank has them. */
static void cut_give(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  const struct member *member = &fusion->served->member;
  if (member->cut.version == member->version) return;
  for (int i = 0; i < config->n; i++) {
    const struct tensor *tensor = &config->tensors[i];
    if (tensor->count)
      tt_coded_convert(tensor->type, fusion->shared.gradients[i].recv, tuttiFloat32,
                       member->cut.weights + member->places[i], tensor->count);
    tensor_finish(fusion, i);
  }
}

int tt_member_step(struct tuttiFusion *fusion)
{
  struct served *served = fusion->served;
  struct member *member = &served->member;
  if (member->nsent < fusion->config.n) return 0;
  if (served->shards.by_decision) cut_give(fusion);
  if (member->nfinished < fusion->config.n) return 0;
  if (!served->shards.by_decision || !member->is_dropped) tt_contributions_keep(fusion);
  fusion->coding.past.kept = KEPT_BEFORE;
  member->is_dropped = member->nsent = member->nfinished = 0;
  for (int i = 0; i < fusion->config.n; i++) member->parts_left[i] = -1;
  tt_fusion_step_end(fusion);
  return 1;
}
