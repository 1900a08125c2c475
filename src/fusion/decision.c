/* SPDX-License-Identifier: BSD-3-Clause */
/* Words between servers and the one that decides whose contributions count, and who is shown which weights. */
#include <string.h>

#include "fusion/served_private.h"

/* ---- telling ---- */

static tuttiResult_t held_tell(struct tuttiFusion *fusion, const struct share *share,
                               const struct tt_server_action *action)
{
  struct packet *packet = tt_packet_make(HELD, 0);
  if (!packet) return tuttiSystemError;
  packet->head.rank = action->rank;
  packet->head.share = share->rank;
  packet->head.step = action->step;
  tuttiResult_t result = tt_packet_post(fusion, packet, tt_shards_server(fusion, fusion->served->shards.decider));
  tt_packet_drop(packet);
  return result;
}

/* Tells the decider's word to all that serve, once; one that has left may do so. Others would not answer, and words to
 * them could pile up. The reference is taken. */
static tuttiResult_t word_tell(struct tuttiFusion *fusion, struct packet *word)
{
  const struct shards *shards = &fusion->served->shards;
  tuttiResult_t result = tuttiSuccess;
  memset(shards->told, 0, (size_t)fusion->served->nwords * sizeof *shards->told);
  for (int share = 0; share < fusion->config.nranks && result == tuttiSuccess; share++) {
    int rank = tt_shards_server(fusion, share);
    if (shards->number[share] < 0 || tt_set_has(shards->told, rank) || tt_is_dead(fusion, rank)) continue;
    shards->told[rank / 64] |= (uint64_t)1 << (rank % 64);
    result = tt_packet_post(fusion, word, rank);
  }
  tt_packet_drop(word);
  return result;
}

static tuttiResult_t decision_tell(struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  struct packet *packet = tt_packet_of_sets(fusion, DECIDED, action->set, action->gets);
  if (!packet) return tuttiSystemError;
  packet->head.step = action->step;
  return word_tell(fusion, packet);
}

static tuttiResult_t show_tell(struct tuttiFusion *fusion, const struct tt_server_action *action)
{
  struct packet *packet = tt_packet_make(SHOW, 0);
  if (!packet) return tuttiSystemError;
  packet->head.rank = action->rank;
  packet->head.version = action->version;
  return word_tell(fusion, packet);
}

tuttiResult_t tt_decision_tell(struct tuttiFusion *fusion, const struct share *share,
                               const struct tt_server_action *action)
{
  if (action->act == TT_HELD) return held_tell(fusion, share, action);
  if (action->act == TT_DECIDE) return decision_tell(fusion, action);
  return action->act == TT_SHOW ? show_tell(fusion, action) : tuttiSuccess;
}

/* ---- taking ---- */

tuttiResult_t tt_decision_take(struct tuttiFusion *fusion, struct share *share, struct packet *packet)
{
  const struct shards *shards = &fusion->served->shards;
  const struct packet_head *head = &packet->head;
  tuttiResult_t result = tuttiSuccess;
  if (head->kind == HELD && share->rank == shards->decider &&
      !tt_server_held(share->server, shards->number[head->share], head->rank, head->step))
    result = tt_fail(tuttiInternalError, "rank %d says, of step %llu, that it holds what rank %d has contributed, "
                     "which no correct rank says now", packet->from, (unsigned long long)head->step, head->rank);
  const uint64_t *sets = packet_payload(packet);
  const uint64_t *gets = sets + fusion->served->nwords;
  int is_wrong = head->kind == DECIDED && !tt_server_decided(share->server, head->step, sets, gets);
  if (is_wrong)
    result = tt_fail(tuttiInternalError, "rank %d has decided about step %llu as no correct rank does", packet->from,
                     (unsigned long long)head->step);
  is_wrong = head->kind == SHOW && !tt_server_show(share->server, head->rank, head->version);
  is_wrong |= head->kind == SEEN && share->rank == shards->decider &&
              !tt_server_seen(share->server, packet->from, head->version);
  if (is_wrong)
    result = tt_fail(tuttiInternalError, "rank %d tells of version %llu as no correct rank does", packet->from,
                     (unsigned long long)head->version);
  if (head->kind == LEAVES) tt_server_died(share->server, packet->from);
  return result;
}
