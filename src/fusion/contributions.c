/* SPDX-License-Identifier: BSD-3-Clause */
/* Contributions and weights as they travel between members and servers.
 *
 * Without a codec contributions travel in a type of floats, are added in that by the tree of all-reduces with
 * `deterministic`, and masters are fp32. A coded contribution is the codes of the pieces that its server owns of the
 * tensor, in their order; by the route gather that is the whole tensor, which has one owner then. The server adds what
 * it decodes to zeros. Facts are those of one rank, and go with its contribution, because nobody knows those of all.
 *
 * Planes of a codec are those of the rank's own steps: a step reads what the last one that counted has left, and writes
 * the other copy. So a contribution that does not count leaves them as they were before it, and one that is sent again
 * is the same. */
#include <string.h>

#include "fusion/served_private.h"

/* ---- pieces ---- */

/* A share of a tensor, piece by piece. */
struct pieces {
  const struct tuttiFusion *fusion;
  const struct tt_codec *codec;
  struct tt_fusion_share share;
  struct tt_codec_piece piece; /* count 0: before the first one */
  uint64_t unit_bytes;         /* of the code of a whole one; 0: not known yet */
};

static struct pieces pieces_begin(const struct tuttiFusion *fusion, const struct packet_head *head, int rank)
{
  return (struct pieces){.fusion = fusion,
                         .codec = &fusion->coding.tensors[head->tensor].codec,
                         .share = tt_fusion_share(fusion, head->tensor, head->share),
                         .piece = {.nranks = fusion->config.nranks,
                                   .rank = (uint32_t)rank,
                                   .tensor = (uint32_t)head->tensor,
                                   .capacity = head->capacity,
                                   .facts = {.shared = head->fact}}};
}

static int pieces_next(struct pieces *pieces)
{
  struct tt_codec_piece *piece = &pieces->piece;
  if (piece->count) piece->first += pieces->share.unit;
  piece->count = tt_fusion_share_next(&pieces->fusion->config, &pieces->share, &piece->first);
  return piece->count > 0;
}

static uint64_t piece_bytes(struct pieces *pieces)
{
  if (pieces->piece.count == pieces->share.unit && pieces->unit_bytes) return pieces->unit_bytes;
  uint64_t bytes = tt_codec_bytes(pieces->codec, &pieces->piece);
  if (pieces->piece.count == pieces->share.unit) pieces->unit_bytes = bytes;
  return bytes;
}

/* ---- lengths ---- */

/* The most entries that a code has room for. */
static uint32_t most_entries(const struct tuttiFusion *fusion, int tensor)
{
  const struct config *config = &fusion->config;
  if (!config->tensors[tensor].has_codec) return 0;
  return tt_codec_capacity(&fusion->coding.tensors[tensor].codec, config->tensors[tensor].count, UINT32_MAX);
}

uint64_t tt_contribution_bytes(const struct tuttiFusion *fusion, const struct packet_head *head)
{
  const struct tensor *tensor = &fusion->config.tensors[head->tensor];
  uint64_t bytes = 0;
  if (head->capacity > most_entries(fusion, head->tensor)) return 0;
  if (!tensor->has_codec)
    return tt_share_count(fusion, head->tensor, head->share) *
           tt_type_size(tt_fusion_wire(&fusion->config, tensor->type, TT_CODEC_CONTRIBUTION));
  struct pieces pieces = pieces_begin(fusion, head, 0);
  while (pieces_next(&pieces)) bytes += piece_bytes(&pieces);
  return bytes;
}

uint64_t tt_weights_bytes(const struct tuttiFusion *fusion, int tensor, int share)
{
  int wire = tt_fusion_wire(&fusion->config, fusion->config.tensors[tensor].type, TT_CODEC_RESULT);
  return (uint64_t)fusion->served->nwords * sizeof(uint64_t) +
         tt_share_count(fusion, tensor, share) * tt_type_size(wire);
}

uint64_t tt_offer_bytes(const struct tuttiFusion *fusion, int tensor, int share)
{
  return (uint64_t)fusion->served->nwords * sizeof(uint64_t) + tt_share_count(fusion, tensor, share) * sizeof(float);
}

size_t tt_payload_most(const struct tuttiFusion *fusion)
{
  uint64_t most = tt_sets_bytes(fusion, ORDER);
  for (int i = 0; i < fusion->config.n; i++)
    for (int rank = 0; rank < fusion->config.nranks; rank++) {
      const struct packet_head head = {.tensor = i, .share = rank, .capacity = most_entries(fusion, i)};
      uint64_t out = tt_contribution_bytes(fusion, &head), back = tt_weights_bytes(fusion, i, rank);
      uint64_t offered = tt_offer_bytes(fusion, i, rank);
      if (out > most) most = out;
      if (back > most) most = back;
      if (offered > most) most = offered;
    }
  return most;
}

/* ---- contributions: the member's side ---- */

/* The factor of contributions. Ranks need have the same `after` in synchronous rules alone, where the sum gets it. */
static float factor_of(const struct tuttiFusion *fusion)
{
  const struct scale *scale = &fusion->engine.seen.scale;
  return fusion->served->kind == TT_SERVER_SYNCHRONOUS ? scale->before : scale->before * scale->after;
}

/* The factor of the sum. */
static float after_of(const struct tuttiFusion *fusion)
{
  return fusion->served->kind == TT_SERVER_SYNCHRONOUS ? fusion->engine.seen.scale.after : 1;
}

/* Averages of fewer than all ranks are divided by the server. */
static int are_all(const struct tuttiFusion *fusion)
{
  return fusion->served->kind == TT_SERVER_SYNCHRONOUS && !fusion->served->shards.by_decision;
}

static void plain_write(const struct tuttiFusion *fusion, const struct packet_head *head, char *to)
{
  const struct config *config = &fusion->config;
  int type = config->tensors[head->tensor].type;
  const struct tt_coded_plain plain = {are_all(fusion) ? config->redop : tuttiSum, config->nranks, factor_of(fusion),
                                       tt_fusion_wire(config, type, TT_CODEC_CONTRIBUTION), type};
  const char *from = fusion->shared.gradients[head->tensor].send;
  if (fusion->served->kind == TT_SERVER_GOSSIP) from = (const char *)fusion->coding.owned[head->tensor].planes[0];
  struct pieces pieces = pieces_begin(fusion, head, 0);
  while (pieces_next(&pieces)) {
    tt_coded_plain_write(&plain, from + pieces.piece.first * tt_type_size(type), pieces.piece.count, to);
    to += pieces.piece.count * tt_type_size(plain.type);
  }
}

/* 0: no memory. */
static int codes_write(struct tuttiFusion *fusion, const struct packet_head *head, uint8_t *to)
{
  const struct tensor *tensor = &fusion->config.tensors[head->tensor];
  const struct part whole = {.tensor = head->tensor, .count = tensor->count};
  struct tensor_code *code = &fusion->coding.tensors[head->tensor];
  struct tt_coded_part part = tt_fusion_coded_part(fusion, &whole);
  struct pieces pieces = pieces_begin(fusion, head, fusion->config.rank);
  float factor = factor_of(fusion);
  part.planes_factor = (double)fusion->coding.after / (double)after_of(fusion);
  pieces.piece.facts = code->facts;
  pieces.piece.step = (uint32_t)(fusion->coding.past.steps + fusion->engine.step);
  const uint8_t *first = to;
  for (; pieces_next(&pieces); to += piece_bytes(&pieces)) {
    const float *values = (const float *)part.in + pieces.piece.first;
    if (factor != 1) values = tt_fusion_scaled(fusion, values, pieces.piece.count, factor);
    if (!values) return 0;
    tt_coded_encode(&part, &pieces.piece, values, to);
  }
  if (tt_codec_route(&code->codec) == TT_CODEC_GATHER) code->wants = tt_codec_wanted(first);
  return 1;
}

struct packet *tt_contribution_make(struct tuttiFusion *fusion, int index, int share)
{
  const struct tensor *tensor = &fusion->config.tensors[index];
  const struct tensor_code *code = &fusion->coding.tensors[index];
  struct packet_head head = {.tensor = index, .share = share};
  int has_memory = 1;
  if (tensor->has_codec) head.capacity = tt_codec_capacity(&code->codec, tensor->count, code->wanted);
  if (tensor->has_codec && tt_codec_prepares(&code->codec)) {
    has_memory = tt_fusion_facts_find(fusion, index, factor_of(fusion));
    head.fact = code->facts.shared;
  }
  struct packet *packet = tt_packet_make(CONTRIBUTION, tt_contribution_bytes(fusion, &head));
  if (!packet) return NULL;
  head.kind = CONTRIBUTION;
  packet->head = head;
  packet->head.after = after_of(fusion);
  packet->head.rate = fusion->engine.seen.scale.rate;
  if (!tensor->has_codec) plain_write(fusion, &head, packet_payload(packet));
  else if (has_memory) has_memory = codes_write(fusion, &head, packet_payload(packet));
  if (has_memory) return packet;
  tt_packet_drop(packet);
  tt_fail(tuttiSystemError, "out of memory for the code of tensor %d (%s)", index, tensor->name);
  return NULL;
}

void tt_contribution_undo(struct tuttiFusion *fusion, int tensor, int share)
{
  const struct packet_head head = {.tensor = tensor, .share = share};
  struct tensor_code *code = &fusion->coding.tensors[tensor];
  struct pieces pieces = pieces_begin(fusion, &head, 0);
  if (!fusion->config.tensors[tensor].has_codec) return;
  code->wants = code->wanted;
  while (pieces_next(&pieces))
    for (int p = 0; p < tt_codec_planes(&code->codec, TT_CODEC_CONTRIBUTION); p++)
      memcpy(code->changed[TT_CODEC_CONTRIBUTION][p] + pieces.piece.first,
             code->planes[TT_CODEC_CONTRIBUTION][p] + pieces.piece.first, pieces.piece.count * sizeof(float));
}

void tt_contributions_keep(struct tuttiFusion *fusion)
{
  tt_fusion_codes_keep(fusion, after_of(fusion));
}

/* ---- contributions: the server's side ---- */

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

static tuttiResult_t codes_add(const struct tuttiFusion *fusion, const struct tt_server_action *action, float *sum,
                               uint64_t count)
{
  tuttiResult_t result = tuttiSuccess;
  memset(sum, 0, count * sizeof *sum);
  for (int k = 0; k < action->ncounted; k++) {
    struct packet *packet = packet_of(&action->counted[k]);
    struct pieces pieces = pieces_begin(fusion, &packet->head, packet->from);
    const uint8_t *code = packet_payload(packet);
    uint64_t done = 0, bytes;
    for (; result == tuttiSuccess && pieces_next(&pieces); done += pieces.piece.count, code += bytes) {
      bytes = piece_bytes(&pieces);
      result = tt_coded_decode_add(pieces.codec, &pieces.piece, code, bytes, sum + done);
    }
  }
  return result;
}

/* Without a codec fp32 is added where the contributions lie. */
static float *plain_add(const struct tuttiFusion *fusion, const struct tt_server_action *action, int tensor_type,
                        uint64_t count)
{
  int type = tt_fusion_wire(&fusion->config, tensor_type, TT_CODEC_CONTRIBUTION);
  const struct adding adding = {{counted_at, action->ncounted, type, count}, action->counted};
  tt_coded_tree_add(&adding.tree);
  if (type == tuttiFloat32) return counted_at(&adding.tree, 0);
  tt_coded_convert(tuttiFloat32, fusion->served->shards.sum, type, counted_at(&adding.tree, 0), count);
  return fusion->served->shards.sum;
}

tuttiResult_t tt_contributions_add(const struct tuttiFusion *fusion, const struct tt_server_action *action,
                                   float **sum)
{
  const struct packet_head *last = &packet_of(&action->counted[action->ncounted - 1])->head;
  const struct tensor *tensor = &fusion->config.tensors[last->tensor];
  uint64_t count = tt_share_count(fusion, last->tensor, last->share);
  int is_divided = fusion->config.redop == tuttiAvg && (tensor->has_codec || !are_all(fusion));
  float factor = (float)((double)last->after / (is_divided ? action->ncounted : 1));
  tuttiResult_t result = tuttiSuccess;
  *sum = fusion->served->shards.sum;
  if (tensor->has_codec) result = codes_add(fusion, action, *sum, count);
  else *sum = plain_add(fusion, action, tensor->type, count);
  if (factor != 1) tt_coded_multiply(*sum, *sum, count, factor);
  return result;
}

/* ---- weights ---- */

void tt_weights_write(const struct tuttiFusion *fusion, struct packet *packet)
{
  const struct packet_head *head = &packet->head;
  int wire = tt_fusion_wire(&fusion->config, fusion->config.tensors[head->tensor].type, TT_CODEC_RESULT);
  const float *from = fusion->coding.owned[head->tensor].planes[0];
  char *to = (char *)packet_payload(packet) + (size_t)fusion->served->nwords * sizeof(uint64_t);
  struct pieces pieces = pieces_begin(fusion, head, 0);
  for (; pieces_next(&pieces); to += pieces.piece.count * tt_type_size(wire))
    tt_coded_convert(wire, to, tuttiFloat32, from + pieces.piece.first, pieces.piece.count);
}

void tt_weights_read(const struct tuttiFusion *fusion, struct packet *packet, int type, void *to)
{
  const struct packet_head *head = &packet->head;
  int wire = tt_fusion_wire(&fusion->config, fusion->config.tensors[head->tensor].type, TT_CODEC_RESULT);
  const char *from = (const char *)packet_payload(packet) + (size_t)fusion->served->nwords * sizeof(uint64_t);
  struct pieces pieces = pieces_begin(fusion, head, 0);
  for (; pieces_next(&pieces); from += pieces.piece.count * tt_type_size(wire))
    tt_coded_convert(type, (char *)to + pieces.piece.first * tt_type_size(type), wire, from, pieces.piece.count);
}
