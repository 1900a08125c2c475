/* SPDX-License-Identifier: BSD-3-Clause */
/* The member's part of a fusion with servers: contributions are sent as tensors are pushed, and weights are taken as
 * servers answer.
 *
 * If fewer than all ranks count (`by_decision`) weights of several versions may come before the rank wants any. They
 * are put together, one version after the other, in a *cut*: the rank gets the newest that is complete, all of one
 * version, at the end of its step; a rank that was late goes on from there, and so do all when a rank has died. */
#include <string.h>

#include "fusion/served_private.h"

/* ---- contributions ---- */

static tuttiResult_t part_send(struct tuttiFusion *fusion, int tensor, int owner)
{
  const struct served *served = fusion->served;
  struct packet *packet = tt_contribution_make(fusion, tensor, owner);
  if (!packet) return tuttiSystemError;
  int is_synchronous = served->kind == TT_SERVER_SYNCHRONOUS;
  uint64_t from = served->member.from[(size_t)tensor * (size_t)fusion->config.nranks + (size_t)owner];
  packet->head.step = is_synchronous ? served->member.version : fusion->engine.step - 1;
  packet->head.version = is_synchronous ? served->member.version : from;
  tuttiResult_t result = tt_packet_post(fusion, packet, tt_shards_server(fusion, owner));
  tt_packet_drop(packet);
  fusion->served->member.owed[owner] += !served->shards.by_decision;
  return result;
}

static tuttiResult_t life_tell(struct tuttiFusion *fusion)
{
  const struct served *served = fusion->served;
  tuttiResult_t result = tuttiSuccess;
  for (int rank = 0; rank < fusion->config.nranks && result == tuttiSuccess; rank++) {
    int hears = served->shards.number[rank] >= 0 && served->kind != TT_SERVER_GOSSIP;
    if (!served->left[rank] || hears || tt_is_dead(fusion, rank)) continue;
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
  if (served->kind == TT_SERVER_GOSSIP) member->cut.version = fusion->engine.step;
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
  tt_exchange_begin(fusion, tensor);
  for (int owner = 0; owner < config->nranks && !is_late && result == tuttiSuccess; owner++) {
    if (!tt_share_count(fusion, tensor, owner) || (is_gossip && owner != partner)) continue;
    member->parts_left[tensor]++;
    result = part_send(fusion, tensor, owner);
  }
  if (result == tuttiSuccess && !served->shards.by_decision && !member->parts_left[tensor]) {
    if (is_gossip) tt_exchange_end(fusion, tensor, -1, NULL);
    tensor_finish(fusion, tensor);
  }
  return result == tuttiSuccess && member->nsent == config->n ? life_tell(fusion) : result;
}

int tt_member_send(struct tuttiFusion *fusion, tuttiResult_t *result)
{
  const struct tt_takeover *takeover = fusion->served->deaths.takeover;
  struct member *member = &fusion->served->member;
  int sent = 0;
  if (takeover && tt_takeover_is_stopped(takeover)) return 0;
  for (int i = 0; i < fusion->config.n && member->nsent < fusion->config.n && *result == tuttiSuccess; i++) {
    const struct gradient *gradient = &fusion->shared.gradients[i];
    if (member->parts_left[i] >= 0 ||
        atomic_load_explicit(&gradient->ready, memory_order_acquire) < fusion->engine.step)
      continue;
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

/* ---- weights ---- */

static const float *weights_of(const struct tuttiFusion *fusion, struct packet *packet)
{
  const uint64_t *payload = packet_payload(packet);
  return (const float *)(const void *)(payload + fusion->served->nwords);
}

/* 1: it is of the version that is being put together, and is in it now. */
static int cut_add(struct tuttiFusion *fusion, struct packet *packet)
{
  struct member *member = &fusion->served->member;
  int tensor = packet->head.tensor;
  if (packet->head.version != member->next.version) return 0;
  tt_weights_read(fusion, packet, tuttiFloat32, member->next.weights + member->places[tensor]);
  if (--member->nleft) return 1;
  if (member->cut.version == member->version && !tt_set_has(packet_payload(packet), fusion->config.rank))
    member->is_dropped = 1;
  memcpy(member->next.set, packet_payload(packet), (size_t)fusion->served->nwords * sizeof *member->next.set);
  tt_fusion_planes_lock(fusion, 1); /* the caller may give weights */
  struct version old = member->cut;
  member->cut = member->next;
  member->next = (struct version){member->cut.version + 1, old.weights, old.set};
  tt_fusion_planes_lock(fusion, 0);
  member->nleft = member->nparts;
  return 1;
}

void tt_cut_begin(struct tuttiFusion *fusion, uint64_t version)
{
  struct member *member = &fusion->served->member;
  for (struct packet *packet; (packet = member->early);) {
    member->early = packet->next;
    tt_packet_drop(packet);
  }
  member->next.version = version;
  member->nleft = member->nparts;
}

void tt_cut_given(struct tuttiFusion *fusion, int tensor, const float *weights)
{
  const struct member *member = &fusion->served->member;
  const struct tensor *its = &fusion->config.tensors[tensor];
  if (member->cut.weights && its->count)
    memcpy(member->cut.weights + member->places[tensor], weights, its->count * sizeof *weights);
}

static void cut_take(struct tuttiFusion *fusion, struct packet *packet)
{
  struct member *member = &fusion->served->member;
  packet->next = member->early;
  member->early = packet;
  for (struct packet **at = &member->early; *at;) {
    struct packet *its = *at;
    if (!cut_add(fusion, its)) {
      at = &its->next;
      continue;
    }
    *at = its->next;
    tt_packet_drop(its);
    at = &member->early; /* others may be of the next version */
  }
}

tuttiResult_t tt_member_take(struct tuttiFusion *fusion, struct packet *packet)
{
  const struct packet_head *head = &packet->head;
  struct served *served = fusion->served;
  struct member *member = &served->member;
  tuttiResult_t result = tuttiSuccess;
  if (served->shards.by_decision) {
    cut_take(fusion, packet);
    return result;
  }
  if (member->parts_left[head->tensor] <= 0)
    result = tt_fail(tuttiInternalError, "rank %d has sent weights of tensor %d (%s) that this rank did not ask for",
                     packet->from, head->tensor, fusion->config.tensors[head->tensor].name);
  else {
    member->from[(size_t)head->tensor * (size_t)fusion->config.nranks + (size_t)head->share] = head->version;
    member->owed[head->share]--;
    member->is_dropped |= head->is_refused;
    if (head->is_refused) tt_contribution_undo(fusion, head->tensor, head->share);
    if (head->version > member->cut.version) member->cut.version = head->version;
    if (tt_is_exchange(served))
      tt_exchange_end(fusion, head->tensor, head->share, weights_of(fusion, packet));
    else
      tt_weights_read(fusion, packet, fusion->config.tensors[head->tensor].type,
                      fusion->shared.gradients[head->tensor].recv);
    if (--member->parts_left[head->tensor] == 0) tensor_finish(fusion, head->tensor);
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
  member->is_dropped = member->nsent = member->nfinished = 0;
  for (int i = 0; i < fusion->config.n; i++) member->parts_left[i] = -1;
  tt_fusion_step_end(fusion);
  return 1;
}
