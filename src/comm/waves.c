/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a communicator some ranks of which meet GPUs. All ranks cut long messages into chunks, as their ends
 * may differ in kind. A rank with a GPU carries out the chunks in waves that fit into its slots, one after the other.
 *
 * Chunks are in the order of their message among those of its pair of ranks and direction (so that these are numbered
 * alike where one end has them in one group, and the other in several), then of their round (chunk r of a message),
 * then of the distance from sender to receiver. A rank has at most one chunk to send and one to receive with each such
 * key, and these are in one wave. If both ends of all messages have the same groups, keys mean the same at both, so the
 * lowest key of all ranks that is not done is never held up by another wave: waves cannot wait in a circle. */
#include <stdlib.h>
#include <string.h>

#include "comm/private.h"
#include "cuda/stream.h"

#define ALIGNED ((size_t)64)

struct chunk {
  struct tt_transfer transfer;
  uint32_t round, turn; /* turn: among the messages of its pair and direction */
  int32_t distance;
};

static size_t chunk_bytes(const struct tt_comm_facts *facts)
{
  return facts->slot_bytes / 2 / ALIGNED * ALIGNED;
}

static size_t chunks_of(const struct tt_transfer *transfer, size_t most)
{
  return transfer->bytes ? (transfer->bytes + most - 1) / most : 1;
}

static int chunk_order(const void *a, const void *b)
{
  const struct chunk *x = a, *y = b;
  if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
  if (x->round != y->round) return x->round < y->round ? -1 : 1;
  if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
  return x->transfer.sends - y->transfer.sends;
}

static int is_same_key(const struct chunk *a, const struct chunk *b)
{
  return a->round == b->round && a->turn == b->turn && a->distance == b->distance;
}

/* Writes the chunks of one message; returns their end. */
static struct chunk *message_cut(struct chunk *chunk, const struct tt_transfer *message, uint32_t turn,
                                 const struct tt_comm_facts *facts)
{
  size_t most = chunk_bytes(facts), n = chunks_of(message, most);
  int32_t ahead = message->sends ? message->peer - facts->rank : facts->rank - message->peer;
  for (size_t r = 0; r < n; r++, chunk++) {
    *chunk = (struct chunk){*message, (uint32_t)r, turn, (ahead + facts->nranks) % facts->nranks};
    chunk->transfer.whole = message->bytes;
    chunk->transfer.bytes = message->bytes - r * most < most ? message->bytes - r * most : most;
    if (message->data) chunk->transfer.data = (char *)message->data + r * most;
    if (message->gpu) chunk->transfer.gpu = (char *)message->gpu + r * most;
  }
  return chunk;
}

/* Returns all chunks of an op, in order; NULL: no memory. */
static struct chunk *chunks_make(const struct tt_op *op, size_t *n)
{
  const struct tt_comm_facts *facts = &op->comm->facts;
  const struct tt_binding *binding = &op->binding;
  *n = 0;
  for (int i = 0; i < binding->ntransfers; i++) *n += chunks_of(&binding->transfers[i], chunk_bytes(facts));
  struct chunk *chunks = tt_alloc(*n, sizeof *chunks), *end = chunks;
  uint32_t *turns = tt_alloc(2 * (size_t)facts->nranks, sizeof *turns);
  for (int i = 0; i < binding->ntransfers && chunks && turns; i++) {
    const struct tt_transfer *message = &binding->transfers[i];
    end = message_cut(end, message, turns[2 * message->peer + message->sends]++, facts);
  }
  if (!turns) {
    tt_free(chunks);
    return NULL;
  }
  tt_free(turns);
  if (chunks) qsort(chunks, *n, sizeof *chunks, chunk_order);
  return chunks;
}

/* Gives the op these transfers. Returns 0 if there is no memory. */
static int transfers_set(struct tt_op *op, const struct chunk *chunks, size_t n)
{
  if ((size_t)op->transfer_room < n) {
    struct tt_transfer *larger = tt_alloc(n, sizeof *larger);
    if (!larger) return 0;
    tt_free(op->binding.transfers);
    op->binding.transfers = larger;
    op->transfer_room = (int)n;
  }
  for (size_t i = 0; i < n; i++) op->binding.transfers[i] = chunks[i].transfer;
  op->binding.ntransfers = (int)n;
  return 1;
}

/* Returns how many of the chunks, at least one key, fit into the slots, and gives each that needs it a place there. */
static size_t wave_fill(const struct tt_slots *slots, struct chunk *chunks, size_t n)
{
  size_t room = TT_SLOTS * slots->bytes, used = 0, count = 0;
  while (count < n) {
    size_t end = count, bytes = 0;
    for (; end < n && is_same_key(&chunks[end], &chunks[count]); end++)
      if (chunks[end].transfer.gpu) bytes += (chunks[end].transfer.bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    if (used + bytes > room) break;
    for (; count < end; count++) {
      if (!chunks[count].transfer.gpu) continue;
      chunks[count].transfer.data = slots->first + used;
      used += (chunks[count].transfer.bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
  }
  return count;
}

/* The op becomes the first wave, and further ones follow it in the list of its group. */
static int waves_make(struct tt_op *op, struct chunk *chunks, size_t n)
{
  size_t count = wave_fill(op->comm->parts.slots, chunks, n);
  if (!transfers_set(op, chunks, count)) return 0;
  for (size_t at = count; at < n; at += count) {
    struct tt_binding binding = {.call = op->binding.call};
    struct tt_op *wave = tt_op_take(op->comm, NULL, &binding);
    if (!wave) return 0;
    wave->next_of_group = op->next_of_group;
    op->next_of_group = wave;
    tt_trigger_copy(wave, op);
    count = wave_fill(op->comm->parts.slots, chunks + at, n - at);
    if (!transfers_set(wave, chunks + at, count)) return 0;
    op = wave;
  }
  return 1;
}

tuttiResult_t tt_waves_make(struct tt_op *op)
{
  size_t n = 0, most = chunk_bytes(&op->comm->facts);
  int is_cut = op->is_triggered;
  if (!op->comm->facts.piece_bytes) return tuttiSuccess;
  for (int i = 0; i < op->binding.ntransfers && !is_cut; i++) is_cut = op->binding.transfers[i].bytes > most;
  if (!is_cut) return tuttiSuccess;
  struct chunk *chunks = chunks_make(op, &n);
  int is_made = chunks && (op->is_triggered ? waves_make(op, chunks, n) : transfers_set(op, chunks, n));
  tt_free(chunks);
  return is_made ? tuttiSuccess : tt_fail(tuttiSystemError, "out of memory for %zu pieces of messages", n);
}
