/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets between the ranks of a fusion with servers: messages with tags (comm/message.c), a head and what it is
 * about. A packet that goes to several ranks is held by all of them. */
#include <stdio.h>
#include <string.h>

#include "fusion/served_private.h"

_Static_assert(offsetof(struct packet, head) + sizeof(struct packet_head) == sizeof(struct packet),
               "head and payload are one message");

#define FIRST 0              /* urgency of what is decided, before all tensors */
#define LAST UINT32_MAX      /* of a farewell */

struct posting {
  struct posting *next;
  struct packet *packet;
  int rank;
  struct tuttiMessage message;
};

/* ---- shares ---- */

uint64_t tt_share_count(const struct tuttiFusion *fusion, int tensor, int rank)
{
  const struct tt_fusion_share share = tt_fusion_share(fusion, tensor, rank);
  uint64_t all = 0, n;
  for (uint64_t first = 0; (n = tt_fusion_share_next(&fusion->config, &share, &first)) > 0; first += share.unit)
    all += n;
  return all;
}

void tt_share_pack(const struct tuttiFusion *fusion, int tensor, int rank, float *to, const float *from)
{
  const struct tt_fusion_share share = tt_fusion_share(fusion, tensor, rank);
  uint64_t n;
  for (uint64_t first = 0; (n = tt_fusion_share_next(&fusion->config, &share, &first)) > 0; first += share.unit) {
    memcpy(to, from + first, n * sizeof *to);
    to += n;
  }
}

void tt_share_unpack(const struct tuttiFusion *fusion, int tensor, int rank, float *to, const float *from)
{
  const struct tt_fusion_share share = tt_fusion_share(fusion, tensor, rank);
  uint64_t n;
  for (uint64_t first = 0; (n = tt_fusion_share_next(&fusion->config, &share, &first)) > 0; first += share.unit) {
    memcpy(to + first, from, n * sizeof *to);
    from += n;
  }
}

void tt_share_copy(const struct tuttiFusion *fusion, int tensor, int rank, float *to, const float *from)
{
  const struct tt_fusion_share share = tt_fusion_share(fusion, tensor, rank);
  uint64_t n;
  for (uint64_t first = 0; (n = tt_fusion_share_next(&fusion->config, &share, &first)) > 0; first += share.unit)
    memcpy(to + first, from + first, n * sizeof *to);
}

/* ---- packets ---- */

struct packet *tt_packet_make(enum packet_kind kind, size_t payload)
{
  struct packet *packet = tt_alloc(1, sizeof *packet + payload);
  if (!packet) {
    tt_fail(tuttiSystemError, "out of memory for a message of %zu bytes to or from a server", payload);
    return NULL;
  }
  packet->refs = 1;
  packet->bytes = sizeof packet->head + payload;
  packet->head.kind = (int32_t)kind;
  return packet;
}

size_t tt_sets_bytes(const struct tuttiFusion *fusion, enum packet_kind kind)
{
  size_t owners = kind == ORDER ? (size_t)fusion->config.nranks * sizeof(int32_t) : 0;
  return 2 * (size_t)fusion->served->nwords * sizeof(uint64_t) + owners;
}

struct packet *tt_packet_of_sets(const struct tuttiFusion *fusion, enum packet_kind kind, const uint64_t *first,
                                 const uint64_t *second)
{
  size_t words = (size_t)fusion->served->nwords, bytes = words * sizeof *first;
  struct packet *packet = tt_packet_make(kind, tt_sets_bytes(fusion, kind));
  if (!packet) return NULL;
  uint64_t *payload = packet_payload(packet);
  memcpy(payload, first, bytes);
  memcpy(payload + words, second, bytes);
  return packet;
}

void tt_packet_drop(struct packet *packet)
{
  if (--packet->refs == 0) tt_free(packet);
}

void tt_packet_arrive(struct mailbox *mailbox, struct packet *packet)
{
  packet->next = NULL;
  if (!mailbox->first) mailbox->last = &mailbox->first;
  *mailbox->last = packet;
  mailbox->last = &packet->next;
}

struct packet *tt_packet_take(struct mailbox *mailbox)
{
  struct packet *packet = mailbox->first;
  if (packet) mailbox->first = packet->next;
  return packet;
}

static uint32_t urgency_of(const struct packet_head *head)
{
  if (head->kind == LEAVES) return LAST;
  int is_of_tensor = head->kind == CONTRIBUTION || head->kind == WEIGHTS || head->kind == OFFER;
  return is_of_tensor ? 1 + (uint32_t)head->tensor : FIRST; /* an offer goes before contributions of its tensor */
}

/* A copy: its `next` is that of this rank's mailbox alone, and the sum of contributions takes the place of one. */
static tuttiResult_t post_here(struct tuttiFusion *fusion, const struct packet *packet)
{
  struct packet *copy = tt_packet_make((enum packet_kind)packet->head.kind, packet->bytes - sizeof packet->head);
  if (!copy) return tuttiSystemError;
  memcpy(&copy->head, &packet->head, packet->bytes);
  copy->from = fusion->config.rank;
  tt_packet_arrive(&fusion->served->mailbox, copy);
  return tuttiSuccess;
}

tuttiResult_t tt_packet_post(struct tuttiFusion *fusion, struct packet *packet, int rank)
{
  struct mailbox *mailbox = &fusion->served->mailbox;
  packet->head.epoch = tt_deaths_epoch(fusion);
  if (rank == fusion->config.rank) return post_here(fusion, packet);
  struct posting *posting = tt_alloc(1, sizeof *posting);
  if (!posting) return tt_fail(tuttiSystemError, "out of memory for a message to rank %d", rank);
  posting->rank = rank;
  posting->message.message = (struct tt_message){.peer = rank,
                                                 .tag = packet->head.kind,
                                                 .sends = 1,
                                                 .urgency = urgency_of(&packet->head),
                                                 .data = &packet->head,
                                                 .bytes = packet->bytes};
  tuttiResult_t result = tt_message_post(fusion->config.channel[0], &posting->message);
  if (result != tuttiSuccess) {
    tt_free(posting);
    return result;
  }
  packet->refs++;
  mailbox->ncontributions += packet->head.kind == CONTRIBUTION;
  if (packet->npostings++ == 0) mailbox->queued += packet->bytes;
  if (mailbox->queued > mailbox->queued_most) mailbox->queued_most = mailbox->queued;
  posting->packet = packet;
  posting->next = mailbox->postings;
  mailbox->postings = posting;
  return tuttiSuccess;
}

/* ---- moving ---- */

tuttiResult_t tt_packet_wrong(const struct tuttiFusion *fusion, int rank)
{
  char text[128];
  return tt_fail(tuttiRemoteError, "%s has sent this fusion a message that no correct rank sends: its memory is "
                 "damaged, or it runs another version of the library",
                 tt_comm_rank_text(fusion->config.channel[0], rank, text, sizeof text));
}

/* 1: a rank may send this to this rank, and the payload has the right length. */
static int is_right(const struct tuttiFusion *fusion, const struct packet_head *head, size_t bytes)
{
  const struct shards *shards = &fusion->served->shards;
  size_t payload = bytes - sizeof *head;
  int has_share = head->share >= 0 && head->share < fusion->config.nranks && shards->number[head->share] >= 0;
  if (head->kind == LEAVES) return payload == 0 && head->version < UINT64_MAX; /* counted from 1 */
  if (head->kind == LIVES) return payload == 0;
  if (head->kind == MADE) return payload == 0 && tt_deaths_are_survived(fusion);
  if (head->kind == HELD) return payload == 0 && shards->by_decision && has_share;
  if (head->kind == SEEN || head->kind == SHOW) return payload == 0 && shards->by_decision;
  if (head->kind == DECIDED || head->kind == REPORT || head->kind == ORDER)
    return payload == tt_sets_bytes(fusion, (enum packet_kind)head->kind) && shards->by_decision;
  if (head->tensor < 0 || head->tensor >= fusion->config.n || !has_share) return 0;
  if (head->kind == OFFER && (!fusion->served->deaths.failover || head->rank & ~1)) return 0;
  if (!tt_share_count(fusion, head->tensor, head->share)) return 0;
  uint64_t right = head->kind == OFFER          ? tt_offer_bytes(fusion, head->tensor, head->share)
                   : head->kind == CONTRIBUTION ? tt_contribution_bytes(fusion, head)
                                                : tt_weights_bytes(fusion, head->tensor, head->share);
  return right && payload == right;
}

/* 1: the rank has died, or ended after all others had left. */
static int is_gone(const struct tuttiFusion *fusion, int rank)
{
  const struct tuttiComm *channel = fusion->config.channel[0];
  return tt_deaths_are_survived(fusion) && (tt_comm_is_lost(channel, rank) || tt_comm_has_left(channel, rank));
}

/* 1: no message can come. */
static int are_alone(const struct tuttiFusion *fusion)
{
  int n = 1;
  for (int rank = 0; rank < fusion->config.nranks && tt_deaths_are_survived(fusion); rank++)
    n += rank != fusion->config.rank && is_gone(fusion, rank);
  return n == fusion->config.nranks;
}

static tuttiResult_t received(struct tuttiFusion *fusion)
{
  struct mailbox *mailbox = &fusion->served->mailbox;
  const struct tt_message *message = &mailbox->message.message;
  struct packet_head head;
  tuttiResult_t result = tt_message_result(&mailbox->message);
  mailbox->is_posted = 0;
  if (result == tuttiRemoteError && tt_deaths_are_survived(fusion)) { /* alone, or a rank died in the middle of it */
    mailbox->is_closed = are_alone(fusion);
    return tt_comm_health(fusion->config.channel[0]);
  }
  if (result != tuttiSuccess) return result == tuttiInvalidArgument ? tt_packet_wrong(fusion, message->peer) : result;
  if (message->bytes < sizeof head) return tt_packet_wrong(fusion, message->peer);
  memcpy(&head, mailbox->room, sizeof head);
  if (head.kind < 0 || head.kind >= PACKET_KINDS || head.kind != message->tag ||
      !is_right(fusion, &head, message->bytes))
    return tt_packet_wrong(fusion, message->peer);
  if (head.kind == MADE) {
    tt_deaths_hear(fusion, message->peer);
    return tuttiSuccess;
  }
  struct packet *packet = tt_packet_make((enum packet_kind)head.kind, message->bytes - sizeof head);
  if (!packet) return tuttiSystemError;
  memcpy(&packet->head, mailbox->room, message->bytes);
  packet->from = message->peer;
  tt_packet_arrive(mailbox, packet);
  return tuttiSuccess;
}

static tuttiResult_t receive(struct tuttiFusion *fusion)
{
  struct mailbox *mailbox = &fusion->served->mailbox;
  mailbox->message.message =
      (struct tt_message){.peer = TT_ANY, .tag = TT_ANY, .data = mailbox->room, .bytes = mailbox->room_bytes};
  tuttiResult_t result = tt_message_post(fusion->config.channel[0], &mailbox->message);
  mailbox->is_posted = result == tuttiSuccess;
  return result;
}

int tt_packets_are_queued(const struct mailbox *mailbox, int rank)
{
  const struct posting *posting = mailbox->postings;
  while (posting && posting->rank != rank) posting = posting->next;
  return posting != NULL;
}

static void posting_free(struct mailbox *mailbox, struct posting *posting)
{
  struct packet *packet = posting->packet;
  mailbox->ncontributions -= packet->head.kind == CONTRIBUTION;
  if (--packet->npostings == 0) mailbox->queued -= packet->bytes;
  tt_packet_drop(packet);
  tt_free(posting);
}

/* A rank that has left or died needs nothing more. */
static int postings_end(struct tuttiFusion *fusion, tuttiResult_t *result)
{
  int n = 0;
  for (struct posting **at = &fusion->served->mailbox.postings; *at;) {
    struct posting *posting = *at;
    if (!atomic_load(&posting->message.is_over)) {
      at = &posting->next;
      continue;
    }
    tuttiResult_t ended = tt_message_result(&posting->message);
    int needs_none = fusion->served->left[posting->rank] || is_gone(fusion, posting->rank);
    if (ended != tuttiSuccess && !(ended == tuttiRemoteError && needs_none)) *result = ended;
    *at = posting->next;
    posting_free(&fusion->served->mailbox, posting);
    n++;
  }
  return n;
}

int tt_packets_move(struct tuttiFusion *fusion, int look, tuttiResult_t *result)
{
  struct mailbox *mailbox = &fusion->served->mailbox;
  if (fusion->config.nranks == 1) return 0;
  if (!mailbox->is_posted && !mailbox->is_closed) *result = receive(fusion);
  if (*result != tuttiSuccess) return 0;
  int moved = tt_messages_drive(fusion->config.channel[0], look);
  if (mailbox->is_posted && atomic_load(&mailbox->message.is_over)) {
    *result = received(fusion);
    moved = 1;
  }
  return (*result == tuttiSuccess && postings_end(fusion, result)) || moved;
}

void tt_packets_free(struct mailbox *mailbox)
{
  for (struct posting *posting; (posting = mailbox->postings);) {
    mailbox->postings = posting->next;
    posting_free(mailbox, posting);
  }
  tt_free(mailbox->room);
}
