/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path of shm: lines, slots and acknowledgements as shm.c specifies them. */
#include <stdio.h>
#include <string.h>

#include "base/copy.h"
#include "transport/shm_private.h"

/* Bytes that one send or recv moves at most before it returns: both directions of an exchange then take
 * turns, and the bytes in flight stay in the second-level cache. No fragment in slots is longer. */
#define TURN_BYTES 131072

/* Most bytes of the heap that one line shows. */
#define LENT_BYTES ((size_t)1 << 30)

static ssize_t send_broken(struct tt_link *link, const void *data, size_t len)
{
  (void)link, (void)data, (void)len;
  return TT_LINK_BROKEN;
}

static ssize_t peek_broken(struct tt_link *link, const void **data, size_t grain)
{
  (void)link, (void)data, (void)grain;
  return TT_LINK_BROKEN;
}

static ssize_t recv_broken(struct tt_link *link, void *data, size_t len)
{
  (void)link, (void)data, (void)len;
  return TT_LINK_BROKEN;
}

static void begin_broken(struct tt_link *link, const struct tt_head *head)
{
  (void)link, (void)head;
}

static ssize_t consume_broken(struct tt_link *link, size_t len)
{
  (void)link, (void)len;
  return TT_LINK_BROKEN;
}

static int put_broken(struct tt_link *link, const struct tt_head *head, const void *data)
{
  (void)link, (void)head, (void)data;
  return 0;
}

static const void *look_broken(struct tt_link *link, uint64_t word, size_t len)
{
  (void)link, (void)word, (void)len;
  return NULL;
}

static void take_broken(struct tt_link *link)
{
  (void)link;
}

/* There is nothing to sleep on: the waiter must poll. */
static int descriptor(struct tt_link *link, uint32_t *events)
{
  (void)link;
  *events = 0;
  return -1;
}

static const struct tt_link_ops broken_ops = {
    .send_begin = begin_broken,
    .send = send_broken,
    .recv_begin = begin_broken,
    .peek = peek_broken,
    .consume = consume_broken,
    .recv = recv_broken,
    .put = put_broken,
    .look = look_broken,
    .take = take_broken,
    .descriptor = descriptor,
};

/* Breaks the link for good: nothing that the peer writes after that can be trusted. */
static ssize_t break_link(struct tt_shm_link *l, const char *what, uint64_t value)
{
  snprintf(l->link.why, sizeof l->link.why, "rank %d wrote %s (%#llx) to its shared outbox on lane %d",
           l->link.peer, what, (unsigned long long)value, l->link.lane);
  l->link.ops = &broken_ops;
  return TT_LINK_BROKEN;
}

/* ---- sending ---------------------------------------------------------------------- */

/* Ranks compare their collectives on the status page, but messages between pairs are not published there. */
static __attribute__((noinline)) void say(struct tt_shm_said *says, const struct tt_call *call)
{
  uint64_t parts[4];
  memcpy(parts, call, sizeof parts);
  for (int k = 0; k < 4; k++) atomic_store_explicit(&says->parts[k], parts[k], memory_order_relaxed);
}

static void send_begin(struct tt_link *link, const struct tt_head *head)
{
  struct tt_shm_link *l = (struct tt_shm_link *)link;
  l->send_word = head->word;
  l->send_left = head->len;
  l->send_same = head->same;
  if (head->call && head->call->collective == TT_PAIRS) say(l->says, head->call);
}

static void give_back(struct tt_shm_pool *pool, uint16_t slot)
{
  uint32_t n = pool->pieces[slot].slots;
  memset(pool->is_free + slot, 1, n);
  pool->nfree += n;
}

/* Takes slots for `len` bytes, one behind the other in memory: one, and as many more of those behind it as are free and
 * as the link, which holds `held`, may take. */
static uint16_t take(struct tt_shm_pool *pool, size_t len, uint32_t held)
{
  uint32_t slot = pool->next, n = 0;
  while (!pool->is_free[slot])
    if (++slot == pool->slots) slot = 0;
  do {
    pool->is_free[slot + n++] = 0;
    pool->nfree--;
  } while ((size_t)n * pool->slot_bytes < len && held + n < pool->nfree && slot + n < pool->slots &&
           pool->is_free[slot + n]);
  pool->next = slot + n < pool->slots ? slot + n : 0;
  pool->pieces[slot].slots = n;
  return (uint16_t)slot;
}

/* Takes back the slots of the lines that the reader has consumed. Returns the lines freed, or TT_LINK_BROKEN. */
static ssize_t reclaim(struct tt_shm_link *l)
{
  uint64_t consumed = atomic_load_explicit(&l->acknowledged->consumed, memory_order_acquire);
  uint64_t freed = consumed - l->reclaimed;
  if (freed == 0) return 0;
  if (freed > l->sent - l->reclaimed)
    return break_link(l, "an acknowledgement of lines never sent", consumed);
  for (; l->reclaimed != consumed; l->reclaimed++) {
    uint16_t *slot = &l->slot_of[l->reclaimed % TT_SHM_DEPTH];
    if (*slot == TT_SHM_NO_SLOT) continue;
    l->held -= l->pool->pieces[*slot].slots;
    if (--l->pool->pieces[*slot].links == 0) give_back(l->pool, *slot);
    *slot = TT_SHM_NO_SLOT;
  }
  return (ssize_t)freed;
}

/* 1 if the ring has room for a line, 0, or TT_LINK_BROKEN. */
static inline ssize_t room(struct tt_shm_link *l)
{
  if (l->sent - l->reclaimed < TT_SHM_DEPTH) return 1;
  return reclaim(l);
}

/* 1 if this link may take a slot now, 0, or TT_LINK_BROKEN. A link may hold as many as are left free:
 * see "Shares" in shm.c. */
static ssize_t may_take(struct tt_shm_link *l)
{
  if (l->held < l->pool->nfree) return 1;
  if (reclaim(l) < 0) return TT_LINK_BROKEN;
  for (struct tt_shm_link *s = *l->siblings; s && l->held >= l->pool->nfree; s = s->sibling)
    if (s->held && s->link.ops == &tt_shm_link_ops) reclaim(s); /* if that breaks s, its next call says so */
  return l->held < l->pool->nfree;
}

static inline void publish(struct tt_shm_link *l, size_t len, uint32_t place)
{
  struct tt_shm_line *line = &l->ring[l->sent % TT_SHM_DEPTH];
  l->send_left -= len;
  if (l->send_left == 0) place |= TT_SHM_LAST;
  atomic_store_explicit(&line->word, l->send_word, memory_order_relaxed);
  atomic_store_explicit(&line->shape, len | (uint64_t)place << 32, memory_order_relaxed);
  l->sent++;
  atomic_store_explicit(&line->sequence, l->sent, memory_order_release);
}

/* len <= TT_SHM_INLINE, in few instructions. */
static inline void copy_short(uint8_t *to, const uint8_t *from, size_t len)
{
  if (len < 8) {
    for (size_t i = 0; i < len; i++) to[i] = from[i];
    return;
  }
  for (size_t i = 0; i + 8 < len; i += 8) memcpy(to + i, from + i, 8);
  memcpy(to + len - 8, from + len - 8, 8);
}

static inline size_t send_inline(struct tt_shm_link *l, const uint8_t *from, size_t len)
{
  copy_short(l->ring[l->sent % TT_SHM_DEPTH].bytes, from, len);
  publish(l, len, 0);
  return len;
}

/* Returns the first slot of a piece of the message's next `len` bytes at most: one that another link has filled, or a
 * new one, filled here. Another link's piece of less than a slot counts only if it is all of `len`: bytes that came a
 * few at a time there need not be published as few here. */
static uint16_t fill(struct tt_shm_link *l, const uint8_t *from, size_t len)
{
  struct tt_shm_pool *pool = l->pool;
  uint16_t *recent = &pool->recent[(l->send_same * 8 + l->send_left / pool->slot_bytes) % TT_SHM_RECENT];
  const struct tt_shm_piece *there = &pool->pieces[*recent];
  if (l->send_same && there->links && there->same == l->send_same && there->left == l->send_left &&
      (there->len == len || (there->len < len && there->len >= pool->slot_bytes)))
    return *recent;
  uint16_t slot = take(pool, len, l->held);
  struct tt_shm_piece *piece = &pool->pieces[slot];
  size_t room = (size_t)piece->slots * pool->slot_bytes;
  if (len > room) len = room;
  piece->same = l->send_same;
  piece->left = l->send_left;
  piece->len = (uint32_t)len;
  if (l->send_same) *recent = slot;
  tt_memcpy(pool->base + (size_t)slot * pool->slot_bytes, from, len);
  return slot;
}

static size_t send_slot(struct tt_shm_link *l, const uint8_t *from, size_t len)
{
  uint16_t slot = fill(l, from, len < TURN_BYTES ? len : TURN_BYTES);
  struct tt_shm_piece *piece = &l->pool->pieces[slot];
  piece->links++;
  l->slot_of[l->sent % TT_SHM_DEPTH] = slot;
  l->held += piece->slots;
  publish(l, piece->len, slot + 1u);
  return piece->len;
}

/* Sends one fragment of [from, from + len). Returns its length, 0 if there is no room, or TT_LINK_BROKEN. Fragments
 * other than a message's last are cut to multiples of 16 bytes, so that elements arrive whole. */
static ssize_t send_fragment(struct tt_shm_link *l, const uint8_t *from, size_t len)
{
  ssize_t can = room(l);
  if (can <= 0) return can;
  int ends = len == l->send_left;
  if (ends && len <= TT_SHM_INLINE) return (ssize_t)send_inline(l, from, len);
  if (!ends) len &= ~(size_t)15;
  if (len == 0) return 0;
  if (len > l->pool->slot_bytes && l->held && reclaim(l) < 0) return TT_LINK_BROKEN; /* else it may be cut short */
  can = may_take(l);
  if (can < 0) return can;
  if (can) return (ssize_t)send_slot(l, from, len);
  /* The link's own slots will come back; a link that holds none goes on with inline fragments. */
  if (l->held) return 0;
  return (ssize_t)send_inline(l, from, len < 32 ? len : 32);
}

/* ---- reading in place: see "The heap" in shm.c ---- */

/* Returns how many lent bytes the peer has read: all of them, 0 if it is not done yet, or TT_LINK_BROKEN. */
static ssize_t lent_back(struct tt_shm_link *l)
{
  ssize_t taken = (ssize_t)l->lent;
  if (reclaim(l) < 0) return TT_LINK_BROKEN;
  if (l->reclaimed != l->sent) return 0;
  l->lent = 0;
  return taken;
}

/* Shows the peer the message's next `len` bytes at `offset` of the heap. */
static ssize_t lend(struct tt_shm_link *l, uint64_t offset, size_t len)
{
  ssize_t can = room(l);
  if (can <= 0) return can;
  if (len > LENT_BYTES) len = LENT_BYTES;
  if (len != l->send_left) len &= ~(size_t)15;
  if (!len) return 0;
  memcpy(l->ring[l->sent % TT_SHM_DEPTH].bytes, &offset, sizeof offset);
#if defined(__x86_64__)
  __builtin_ia32_sfence(); /* the caller may have written with non-temporal stores */
#endif
  publish(l, len, TT_SHM_HEAP);
  l->lent = len;
  return 0;
}

static ssize_t send_bytes(struct tt_link *link, const void *data, size_t len)
{
  struct tt_shm_link *l = (struct tt_shm_link *)link;
  uint64_t offset;
  size_t taken = 0;
  if (l->lent) return lent_back(l);
  if (len > l->send_left) len = l->send_left;
  if (len >= l->direct_bytes && tt_heap_has(l->heap, data, len, &offset)) return lend(l, offset, len);
  while (taken < len && taken < TURN_BYTES) {
    ssize_t n = send_fragment(l, (const uint8_t *)data + taken, len - taken);
    if (n < 0) return n;
    if (n == 0) break;
    taken += (size_t)n;
  }
  return (ssize_t)taken;
}

static int put(struct tt_link *link, const struct tt_head *head, const void *data)
{
  struct tt_shm_link *l = (struct tt_shm_link *)link;
  size_t len = head->len;
  if (room(l) <= 0) return 0;
  int is_inline = len <= TT_SHM_INLINE;
  if (!is_inline && (len > l->pool->slot_bytes || may_take(l) <= 0)) return 0;
  l->send_word = head->word;
  l->send_left = len;
  l->send_same = head->same;
  if (is_inline) send_inline(l, data, len);
  else send_slot(l, data, len);
  return 1;
}

/* ---- receiving -------------------------------------------------------------------- */

static void recv_begin(struct tt_link *link, const struct tt_head *head)
{
  struct tt_shm_link *l = (struct tt_shm_link *)link;
  l->recv_word = head->word;
  l->recv_left = head->len;
}

static ssize_t mismatch(struct tt_shm_link *l, uint64_t word)
{
  struct tt_call call;
  uint64_t parts[4];
  for (int k = 0; k < 4; k++) parts[k] = atomic_load_explicit(&l->said->parts[k], memory_order_relaxed);
  memcpy(&call, parts, sizeof parts);
  l->link.seen_call = (struct tt_call){.op = 0};
  if (call.collective == TT_PAIRS && tt_call_word(&call) == word) l->link.seen_call = call;
  return TT_LINK_MISMATCH;
}

/* Returns the most bytes that a line may have in a slot and those behind it, or, for 0, in itself. */
static inline size_t most_bytes(const struct tt_shm_link *l, uint32_t slot)
{
  return slot ? (size_t)(l->nslots + 1 - slot) * l->slot_bytes : TT_SHM_INLINE;
}

/* Makes the next line current. Returns its length, 0 if it is not there, or an error. Each field is read once
 * and then checked, because the writer may be faulty and may still be writing. */
static inline ssize_t next_fragment(struct tt_shm_link *l)
{
  const struct tt_shm_line *line = &l->lines[(l->next - 1) % TT_SHM_DEPTH];
  if (atomic_load_explicit(&line->sequence, memory_order_acquire) != l->next) return 0;
  uint64_t word = atomic_load_explicit(&line->word, memory_order_relaxed);
  uint64_t shape = atomic_load_explicit(&line->shape, memory_order_relaxed);
  uint32_t len = (uint32_t)shape, place = (uint32_t)(shape >> 32), slot = place & ~TT_SHM_LAST;
  int ends = (place & TT_SHM_LAST) != 0, is_view = slot == TT_SHM_HEAP;
  uint64_t offset = 0;
  if (is_view) {
    offset = atomic_load_explicit((const _Atomic uint64_t *)(const void *)line->bytes, memory_order_relaxed);
    if (offset >= l->view_len || len > l->view_len - offset)
      return break_link(l, "a place outside of its heap", offset);
  } else if (slot > l->nslots) return break_link(l, "a slot number that does not exist", slot);
  if (len == 0 || (!is_view && len > most_bytes(l, slot)) || (!ends && len % 16))
    return break_link(l, "an impossible fragment length", len);
  l->link.seen_word = word;
  if (!tt_word_matches(word, l->recv_word) || len > l->recv_left || ends != (len == l->recv_left))
    return mismatch(l, word);
  l->recv_left -= len;
  l->shown = len;
  l->is_view = is_view;
  if (is_view) l->at = l->view + offset;
  else l->at = slot ? l->slots + (size_t)(slot - 1) * l->slot_bytes : line->bytes;
  return len;
}

static ssize_t peek(struct tt_link *link, const void **data, size_t grain)
{
  struct tt_shm_link *l = (struct tt_shm_link *)link;
  (void)grain; /* fragments are multiples of 16 bytes and consumed in whole grains */
  if (!l->shown) {
    ssize_t n = next_fragment(l);
    if (n <= 0) return n;
  }
  *data = l->at;
  return l->shown < TURN_BYTES ? l->shown : TURN_BYTES;
}

/* Bytes read from the sender's heap were right if the sender has not given up by now. */
static ssize_t view_check(struct tt_shm_link *l)
{
#if defined(__x86_64__)
  atomic_signal_fence(memory_order_acquire); /* loads are not reordered */
#else
  atomic_thread_fence(memory_order_acquire);
#endif
  if (!atomic_load_explicit(l->gave_up, memory_order_relaxed)) return 0;
  snprintf(l->link.why, sizeof l->link.why, "rank %d gave up while its memory was read on lane %d", l->link.peer,
           l->link.lane);
  l->link.ops = &broken_ops;
  return TT_LINK_BROKEN;
}

static inline ssize_t consume_bytes(struct tt_shm_link *l, size_t len)
{
  if (l->is_view && view_check(l) < 0) return TT_LINK_BROKEN;
  l->at += len;
  l->shown -= (uint32_t)len;
  if (l->shown) return 0;
  atomic_store_explicit(&l->ack->consumed, l->next, memory_order_release);
  l->next++;
  return 0;
}

static ssize_t consume(struct tt_link *link, size_t len)
{
  return consume_bytes((struct tt_shm_link *)link, len);
}

static ssize_t recv_bytes(struct tt_link *link, void *data, size_t len)
{
  struct tt_shm_link *l = (struct tt_shm_link *)link;
  size_t got = 0;
  while (got < len && got < TURN_BYTES) {
    if (!l->shown) {
      ssize_t n = l->recv_left ? next_fragment(l) : 0;
      if (n < 0 && got == 0) return n;
      if (n <= 0) break;
    }
    size_t n = l->shown < len - got ? l->shown : len - got;
    if (n > TURN_BYTES) n = TURN_BYTES;
    if (n <= TT_SHM_INLINE)
      copy_short((uint8_t *)data + got, l->at, n);
    else
      tt_memcpy((uint8_t *)data + got, l->at, n);
    if (consume_bytes(l, n) < 0) return TT_LINK_BROKEN;
    got += n;
  }
  return (ssize_t)got;
}

/* As next_fragment, but leaves the report of errors to that. */
static const void *look(struct tt_link *link, uint64_t word, size_t len)
{
  struct tt_shm_link *l = (struct tt_shm_link *)link;
  const struct tt_shm_line *line = &l->lines[(l->next - 1) % TT_SHM_DEPTH];
  if (atomic_load_explicit(&line->sequence, memory_order_acquire) != l->next) return NULL;
  uint64_t theirs = atomic_load_explicit(&line->word, memory_order_relaxed);
  uint64_t shape = atomic_load_explicit(&line->shape, memory_order_relaxed);
  uint32_t place = (uint32_t)(shape >> 32), slot = place & ~TT_SHM_LAST;
  if ((uint32_t)shape != len || !(place & TT_SHM_LAST) || !tt_word_matches(theirs, word)) return NULL;
  if (slot > l->nslots || len > most_bytes(l, slot)) return NULL;
  l->link.seen_word = theirs;
  return slot ? l->slots + (size_t)(slot - 1) * l->slot_bytes : line->bytes;
}

static void take_message(struct tt_link *link)
{
  struct tt_shm_link *l = (struct tt_shm_link *)link;
  atomic_store_explicit(&l->ack->consumed, l->next++, memory_order_release);
}

const struct tt_link_ops tt_shm_link_ops = {
    .send_begin = send_begin,
    .send = send_bytes,
    .recv_begin = recv_begin,
    .peek = peek,
    .consume = consume,
    .recv = recv_bytes,
    .put = put,
    .look = look,
    .take = take_message,
    .descriptor = descriptor,
};
