/* SPDX-License-Identifier: BSD-3-Clause */
/* The outbox of a peer in shared memory: its rings, acknowledgements, calls and slots, whatever it writes there and
 * whenever. This side reads and writes nowhere else, and counts its own slots rightly. */
#include <string.h>

#include "fuzz.h"
#include "transport/shm_private.h"

enum { SLOTS = 4, SLOT_BYTES = 128, VIEW_BYTES = 512, LEN_MOST = 700 };

static const struct tt_call call = {12, 1024, TT_ALL_REDUCE, tuttiFloat32, tuttiSum, 0, -1, 0};
static const struct tt_shm_shape shape = {.nlocal = 2, .lanes = 1, .slots = SLOTS, .slot_bytes = SLOT_BYTES};

/* This rank is the first one of its host, the peer the second one. */
struct pair {
  struct tt_shm_link link;
  struct tt_shm_link *links;
  struct tt_shm_pool pool;
  uint8_t is_free[SLOTS];
  struct tt_shm_piece pieces[SLOTS];
  uint8_t *ours, *theirs, *view;
  size_t bytes;
};

static void pair_make(struct pair *pair)
{
  struct tt_shm_link *l = &pair->link;
  memset(pair, 0, sizeof *pair);
  pair->bytes = tt_shm_outbox_bytes(&shape);
  pair->ours = aligned_alloc(128, (pair->bytes + 127) / 128 * 128);
  pair->theirs = aligned_alloc(128, (pair->bytes + 127) / 128 * 128);
  pair->view = malloc(VIEW_BYTES);
  FUZZ_CHECK(pair->ours && pair->theirs && pair->view);
  memset(pair->ours, 0, pair->bytes);
  memset(pair->theirs, 0, pair->bytes);
  memset(pair->view, 3, VIEW_BYTES);
  memset(pair->is_free, 1, SLOTS);
  pair->pool = (struct tt_shm_pool){.base = pair->ours + tt_shm_pool_at(&shape), .slots = SLOTS, .nfree = SLOTS,
                                    .slot_bytes = SLOT_BYTES, .is_free = pair->is_free, .pieces = pair->pieces};
  l->link = (struct tt_link){.ops = &tt_shm_link_ops, .peer = 1};
  l->ring = (struct tt_shm_line *)(void *)(pair->ours + tt_shm_ring_at(&shape, 1, 0));
  l->says = (struct tt_shm_said *)(void *)(pair->ours + tt_shm_said_at(&shape, 1, 0));
  l->ack = (struct tt_shm_ack *)(void *)(pair->ours + tt_shm_ack_at(&shape, 1, 0));
  l->acknowledged = (const struct tt_shm_ack *)(void *)(pair->theirs + tt_shm_ack_at(&shape, 0, 0));
  l->lines = (const struct tt_shm_line *)(void *)(pair->theirs + tt_shm_ring_at(&shape, 0, 0));
  l->said = (const struct tt_shm_said *)(void *)(pair->theirs + tt_shm_said_at(&shape, 0, 0));
  l->slots = pair->theirs + tt_shm_pool_at(&shape);
  l->gave_up = &((const struct tt_shm_header *)(const void *)pair->theirs)->gave_up;
  l->pool = &pair->pool;
  l->nslots = SLOTS;
  l->slot_bytes = SLOT_BYTES;
  l->view = pair->view;
  l->view_len = VIEW_BYTES;
  l->direct_bytes = SIZE_MAX;
  l->next = 1;
  for (int i = 0; i < TT_SHM_DEPTH; i++) l->slot_of[i] = TT_SHM_NO_SLOT;
  pair->links = l;
  l->siblings = &pair->links;
}

static void pair_end(struct pair *pair)
{
  free(pair->ours);
  free(pair->theirs);
  free(pair->view);
}

static void slots_check(const struct pair *pair)
{
  uint32_t nfree = 0;
  for (int s = 0; s < SLOTS; s++) nfree += pair->is_free[s];
  FUZZ_CHECK(nfree == pair->pool.nfree && pair->link.held <= SLOTS - nfree);
  FUZZ_CHECK(pair->link.sent - pair->link.reclaimed <= TT_SHM_DEPTH);
}

/* A line as a peer writes it, with any shape. */
static void line_write(struct pair *pair, struct fuzz_bytes *input)
{
  struct tt_shm_line *lines = (struct tt_shm_line *)(void *)(pair->theirs + tt_shm_ring_at(&shape, 0, 0));
  struct tt_shm_line *line = &lines[(pair->link.next - 1) % TT_SHM_DEPTH];
  uint64_t how = fuzz_take(input, 1), len = fuzz_take(input, how & 1 ? 4 : 1);
  uint64_t place = fuzz_take(input, how & 2 ? 4 : 1);
  if (how & 4) place |= TT_SHM_LAST;
  if (how & 8) place = (place & TT_SHM_LAST) | TT_SHM_HEAP;
  if (how & 16) len *= 16;
  fuzz_fill(input, line->bytes, how & 8 ? 8 : how >> 5);
  atomic_store(&line->word, how & 128 ? fuzz_take(input, 8) : tt_call_word(&call));
  atomic_store(&line->shape, (uint32_t)len | (uint64_t)(uint32_t)place << 32);
  atomic_store(&line->sequence, pair->link.next);
}

/* Receives on, by `recv` or `peek`; begins the next message. Returns 0 if the link is of no use any more. */
static int receive(struct tt_shm_link *l, size_t *left, int peeks)
{
  static uint8_t data[LEN_MOST];
  const void *shown = NULL;
  if (!*left) {
    const struct tt_head head = {tt_call_word(&call), *left = 1 + (size_t)(l->next * 77 % (LEN_MOST - 1)), &call, 0};
    l->link.ops->recv_begin(&l->link, &head);
  }
  ssize_t n = peeks ? l->link.ops->peek(&l->link, &shown, 4) : l->link.ops->recv(&l->link, data, *left);
  FUZZ_CHECK(n < 0 || (size_t)n <= *left);
  if (n > 0 && peeks) {
    memcpy(data, shown, (size_t)n);
    if (l->link.ops->consume(&l->link, (size_t)n) < 0) return 0;
  }
  *left -= n > 0 ? (size_t)n : 0;
  FUZZ_CHECK(n < 0 || *left == l->recv_left + l->shown);
  return n >= 0;
}

static int send_on(struct tt_shm_link *l, int puts)
{
  static const uint8_t data[LEN_MOST];
  const struct tt_head head = {tt_call_word(&call), puts ? 1 + l->sent % SLOT_BYTES : LEN_MOST, &call, 0};
  if (puts && !l->send_left) return l->link.ops->put(&l->link, &head, data) || l->link.ops == &tt_shm_link_ops;
  if (!l->send_left) l->link.ops->send_begin(&l->link, &head);
  return l->link.ops->send(&l->link, data, l->send_left) >= 0;
}

/* Events: the peer writes a line, an acknowledgement, or anywhere; this side receives, looks for a short message, or
 * sends. */
static void rings_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  struct pair pair;
  struct tt_shm_link *l = &pair.link;
  size_t left = 0, at, n;
  int goes_on = 1;
  pair_make(&pair);
  while (input.left && goes_on) {
    int what = (int)fuzz_take(&input, 1);
    switch (what % 6) {
    case 0: line_write(&pair, &input); break;
    case 1:
      at = (size_t)fuzz_take(&input, 2) % pair.bytes;
      n = (size_t)fuzz_take(&input, 1);
      fuzz_fill(&input, pair.theirs + at, n < pair.bytes - at ? n : pair.bytes - at);
      break;
    case 2: goes_on = receive(l, &left, what & 64); break;
    case 3:
      n = 1 + (size_t)what / 6;
      const uint8_t *shown = left ? NULL : l->link.ops->look(&l->link, tt_call_word(&call), n);
      uint8_t copy[SLOT_BYTES];
      if (!shown) break;
      memcpy(copy, shown, n);
      l->link.ops->take(&l->link);
      break;
    case 4:
      memcpy(pair.theirs + tt_shm_ack_at(&shape, 0, 0),
             &(uint64_t){what & 64 ? fuzz_take(&input, 8) : l->reclaimed + (uint64_t)what / 128}, 8);
      break;
    default: goes_on = send_on(l, what & 64);
    }
    slots_check(&pair);
  }
  pair_end(&pair);
}

/* Lines with slots, without, of the heap; then acknowledgements while this side sends. */
static size_t rings_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  uint8_t *to = bytes;
  if (number > 7) return 0;
  for (int k = 0; k < 12; k++) {
    const uint8_t line[] = {0, (uint8_t)(number % 4 == 3 ? 8 | 16 : 16), (uint8_t)(1 + k % 3 + number),
                            (uint8_t)(number % 4 == 1 ? 0 : 1 + k % SLOTS)};
    const uint8_t rest[] = {(uint8_t)(number > 3 ? 2 : 2 + 66), 5, (uint8_t)(number % 2 ? 71 : 5), 130, 3};
    memcpy(to, line, sizeof line);
    to += sizeof line;
    if (number % 4 == 3) {
      memcpy(to, &(uint64_t){(uint64_t)k * 16}, 8);
      to += 8;
    }
    memcpy(to, rest, sizeof rest);
    to += sizeof rest;
  }
  return (size_t)(to - bytes);
}

const struct fuzz_target fuzz_rings[] = {
    {"rings", rings_run, NULL, rings_make, 0},
    {NULL, NULL, NULL, NULL, 0},
};
