/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges of weights: a rank pushes its own weights, and a server answers with the difference by which they change.
 * With easgd the server has the center of the elements that it owns; with gossip it is the neighbour of this step, and
 * has its own rank's weights. A difference d is taken from the one side and added to the other:
 *
 *   d = ALPHA (x - y);  y = y + d at the server;  x = x - d at the rank that asked
 *
 * Plane 0 is y. With gossip y goes on changing while the program trains, so plane 1 adds up what the program has not
 * seen yet: it is added to the weights that come with the next push, and is in those that the next wait gives. */
#include <string.h>

#include "fusion/served_private.h"
#include "reduce/fpenv.h"

/* ---- the server's side ---- */

static struct packet **kept_answer(const struct tuttiFusion *fusion, const struct share *share, int shard, int rank)
{
  return &share->answers[(size_t)shard * (size_t)fusion->config.nranks + (size_t)rank];
}

/* In place of the weights x comes the difference. */
static void pieces_exchange(const struct tuttiFusion *fusion, int tensor, int rank, float *x)
{
  const struct tt_fusion_share share = tt_fusion_share(fusion, tensor, rank);
  const struct masters *owned = &fusion->coding.owned[tensor];
  const struct rule *rule = &fusion->config.rule;
  uint64_t n, first = 0;
  fpenv env = fpenv_enter();
  while ((n = tt_fusion_share_next(&fusion->config, &share, &first)) > 0) {
    float *y = owned->planes[0] + first, *unseen = rule->kind == GOSSIP ? owned->planes[1] + first : NULL;
    for (uint64_t i = 0; i < n; i++) {
      x[i] = rule->alpha * (x[i] - y[i]);
      y[i] = y[i] + x[i];
      if (unseen) unseen[i] = unseen[i] + x[i];
    }
    x += n;
    first += share.unit;
  }
  fpenv_leave(env);
}

tuttiResult_t tt_exchange(struct tuttiFusion *fusion, struct share *share, const struct tt_server_action *action,
                          struct packet *packet)
{
  int tensor = share->tensors[action->shard];
  size_t set = (size_t)fusion->served->nwords * sizeof(uint64_t), bytes = packet->bytes - sizeof packet->head;
  struct packet *difference = tt_packet_make(WEIGHTS, set + bytes);
  if (!difference) return tuttiSystemError;
  pieces_exchange(fusion, tensor, share->rank, packet_payload(packet));
  memcpy((char *)packet_payload(difference) + set, packet_payload(packet), bytes);
  difference->head.tensor = tensor;
  difference->head.share = share->rank;
  *kept_answer(fusion, share, action->shard, packet->from) = difference;
  return tuttiSuccess;
}

struct packet *tt_exchange_answer(const struct tuttiFusion *fusion, struct share *share,
                                  const struct tt_server_action *action)
{
  const struct served *served = fusion->served;
  int tensor = share->tensors[action->shard];
  struct packet **kept = kept_answer(fusion, share, action->shard, action->rank), *packet = *kept;
  *kept = NULL;
  if (!packet) { /* refused: the difference is 0 */
    packet = tt_packet_make(WEIGHTS, (size_t)served->nwords * sizeof(uint64_t) +
                                         tt_share_count(fusion, tensor, share->rank) * sizeof(float));
    if (packet) packet->head.tensor = tensor;
    if (packet) packet->head.share = share->rank;
  }
  if (packet) packet->head.version = action->version;
  return packet;
}

/* ---- the member's side ---- */

/* The share of this rank: with gossip no other one serves it. */
static struct share *share_of(const struct tuttiFusion *fusion)
{
  return &fusion->served->shards.shares[fusion->config.rank];
}

int tt_exchange_partner(const struct tuttiFusion *fusion)
{
  const struct served *served = fusion->served;
  const struct tt_server *server = share_of(fusion)->server;
  if (served->kind != TT_SERVER_GOSSIP || !server) return -1;
  return tt_server_neighbour(server, fusion->config.rank, tt_served_step(fusion));
}

void tt_exchange_begin(struct tuttiFusion *fusion, int tensor)
{
  const struct tensor *its = &fusion->config.tensors[tensor];
  const struct masters *owned = &fusion->coding.owned[tensor];
  const float *x = fusion->shared.gradients[tensor].send;
  struct shards *shards = &fusion->served->shards;
  if (fusion->served->kind != TT_SERVER_GOSSIP || !its->count) return;
  pthread_mutex_lock(&shards->planes);
  fpenv env = fpenv_enter();
  for (uint64_t i = 0; i < its->count; i++) owned->planes[0][i] = x[i] + owned->planes[1][i];
  fpenv_leave(env);
  pthread_mutex_unlock(&shards->planes);
  tt_server_renew(share_of(fusion)->server, share_of(fusion)->of_tensor[tensor]);
}

/* x - d, of the elements that `owner` has; they lie packed in d. */
static void pieces_take(const struct tuttiFusion *fusion, int tensor, int owner, const float *d)
{
  const struct tt_fusion_share share = tt_fusion_share(fusion, tensor, owner);
  const struct gradient *gradient = &fusion->shared.gradients[tensor];
  float *y = fusion->served->kind == TT_SERVER_GOSSIP ? fusion->coding.owned[tensor].planes[0] : NULL;
  const float *from = y ? y : gradient->send;
  float *to = y ? y : gradient->recv;
  uint64_t n;
  fpenv env = fpenv_enter();
  for (uint64_t first = 0; (n = tt_fusion_share_next(&fusion->config, &share, &first)) > 0; first += share.unit) {
    for (uint64_t i = 0; i < n; i++) to[first + i] = from[first + i] - d[i];
    d += n;
  }
  fpenv_leave(env);
}

void tt_exchange_end(struct tuttiFusion *fusion, int tensor, int owner, const float *d)
{
  const struct tensor *its = &fusion->config.tensors[tensor];
  const struct masters *owned = &fusion->coding.owned[tensor];
  pthread_mutex_lock(&fusion->served->shards.planes);
  if (d) pieces_take(fusion, tensor, owner, d);
  if (fusion->served->kind == TT_SERVER_GOSSIP && its->count) {
    memcpy(fusion->shared.gradients[tensor].recv, owned->planes[0], its->bytes);
    memset(owned->planes[1], 0, its->bytes);
  }
  pthread_mutex_unlock(&fusion->served->shards.planes);
}
