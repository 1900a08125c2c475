/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's links to itself: the bytes sent are the bytes received, through a ring.
 *
 * In the ring a message is its head (16 bytes: word, length), its payload and padding to 16
 * bytes, so that heads and elements never wrap round. Positions count up for ever. */
#include <stdio.h>
#include <string.h>

#include "base/copy.h"
#include "transport/transport.h"

#define RING_BYTES 65536u
#define GRAIN 16u

struct mark {
  uint64_t word, len;
};
_Static_assert(sizeof(struct mark) == GRAIN, "a mark must not wrap");

struct self_link {
  struct tt_link link;
  struct mark out, in;        /* the messages under way; len: bytes left of each */
  int is_marked;              /* the mark of `out` is in the ring */
  int is_checked;             /* the mark of `in` was read and is right */
  uint64_t written, released; /* positions */
  _Alignas(GRAIN) uint8_t ring[RING_BYTES];
};

struct self {
  struct tt_transport base;
  int rank;
  struct self_link *links[TT_MAX_LINKS];
};

static uint64_t padded(uint64_t position)
{
  return (position + GRAIN - 1) & ~(uint64_t)(GRAIN - 1);
}

static void send_begin(struct tt_link *link, const struct tt_head *head)
{
  struct self_link *l = (struct self_link *)link;
  l->out = (struct mark){.word = head->word, .len = head->len};
  l->is_marked = 0;
}

/* Free bytes in whole grains, so that there is always room for the padding too. */
static uint64_t room(const struct self_link *l)
{
  return RING_BYTES - (l->written - l->released / GRAIN * GRAIN);
}

static ssize_t send_bytes(struct tt_link *link, const void *data, size_t len)
{
  struct self_link *l = (struct self_link *)link;
  if (!l->is_marked) {
    if (room(l) < 2 * GRAIN) return 0;
    memcpy(l->ring + l->written % RING_BYTES, &l->out, GRAIN);
    l->written += GRAIN;
    l->is_marked = 1;
  }
  if (len > l->out.len) len = l->out.len;
  if (len > room(l)) len = room(l);
  if (len < l->out.len) len &= ~(size_t)(GRAIN - 1);
  size_t at = l->written % RING_BYTES, first = len < RING_BYTES - at ? len : RING_BYTES - at;
  tt_memcpy(l->ring + at, data, first);
  tt_memcpy(l->ring, (const uint8_t *)data + first, len - first);
  l->written += len;
  l->out.len -= len;
  if (l->out.len == 0) l->written = padded(l->written);
  return (ssize_t)len;
}

static void recv_begin(struct tt_link *link, const struct tt_head *head)
{
  struct self_link *l = (struct self_link *)link;
  l->in = (struct mark){.word = head->word, .len = head->len};
  l->is_checked = 0;
}

/* 1 if the expected message is the one in the ring, 0 if none is there, or TT_LINK_MISMATCH. */
static ssize_t check(struct self_link *l)
{
  if (l->is_checked) return 1;
  if (l->written == l->released) return 0;
  struct mark mark;
  memcpy(&mark, l->ring + l->released % RING_BYTES, GRAIN);
  l->link.seen_word = mark.word;
  if (!tt_word_matches(mark.word, l->in.word) || mark.len != l->in.len) return TT_LINK_MISMATCH;
  l->released += GRAIN;
  l->is_checked = 1;
  return 1;
}

static ssize_t peek(struct tt_link *link, const void **data, size_t grain)
{
  struct self_link *l = (struct self_link *)link;
  (void)grain; /* pieces are multiples of 16 bytes, and so is the ring */
  ssize_t found = check(l);
  if (found <= 0) return found;
  uint64_t at = l->released % RING_BYTES, len = l->written - l->released;
  if (len > RING_BYTES - at) len = RING_BYTES - at;
  if (len > l->in.len) len = l->in.len;
  *data = l->ring + at;
  return (ssize_t)len;
}

static ssize_t consume(struct tt_link *link, size_t len)
{
  struct self_link *l = (struct self_link *)link;
  l->released += len;
  l->in.len -= len;
  if (l->in.len == 0) l->released = padded(l->released);
  return 0;
}

static ssize_t recv_bytes(struct tt_link *link, void *data, size_t len)
{
  struct self_link *l = (struct self_link *)link;
  const void *from;
  size_t got = 0;
  while (got < len && l->in.len) {
    ssize_t n = peek(link, &from, 1);
    if (n < 0) return n;
    if (n == 0) break;
    size_t take = (size_t)n < len - got ? (size_t)n : len - got;
    tt_memcpy((uint8_t *)data + got, from, take);
    consume(link, take);
    got += take;
  }
  return (ssize_t)got;
}

static int descriptor(struct tt_link *link, uint32_t *events)
{
  (void)link;
  *events = 0;
  return -1;
}

static const struct tt_link_ops link_ops = {
    .send_begin = send_begin,
    .send = send_bytes,
    .recv_begin = recv_begin,
    .peek = peek,
    .consume = consume,
    .recv = recv_bytes,
    .descriptor = descriptor,
};

static const char *unusable(const struct tt_settings *settings, char *why, size_t size)
{
  (void)settings, (void)why, (void)size;
  return NULL;
}

static tuttiResult_t create(struct tt_transport **transport, const struct tt_transport_spec *spec, void *peer_info)
{
  (void)peer_info; /* nobody else needs to reach us */
  struct self *t = tt_alloc(1, sizeof *t);
  if (!t) return tt_fail(tuttiSystemError, "out of memory for the transport of rank %d to itself", spec->rank);
  t->base.ops = &tt_transport_self;
  t->rank = spec->rank;
  *transport = &t->base;
  return tuttiSuccess;
}

static tuttiResult_t peer_infos_take(struct tt_transport *transport, const void *peer_infos, size_t stride)
{
  (void)transport, (void)peer_infos, (void)stride;
  return tuttiSuccess;
}

static int reaches(const struct tt_transport *transport, int peer)
{
  return peer == ((const struct self *)transport)->rank;
}

static tuttiResult_t link_open(struct tt_transport *transport, int peer, int lane, struct tt_link **link)
{
  struct self *t = (struct self *)transport;
  if (!t->links[lane]) {
    struct self_link *l = tt_alloc(1, sizeof *l);
    if (!l) return tt_fail(tuttiSystemError, "out of memory for the link of rank %d to itself", peer);
    l->link = (struct tt_link){.ops = &link_ops, .transport = transport, .peer = peer, .lane = lane};
    t->links[lane] = l;
  }
  *link = &t->links[lane]->link;
  return tuttiSuccess;
}

static int descriptors(const struct tt_transport *transport)
{
  (void)transport;
  return 0;
}

static size_t held(const struct tt_transport *transport)
{
  (void)transport;
  return 0;
}

static const char *path(const struct tt_transport *transport, int peer, char *text, size_t size)
{
  (void)transport, (void)peer;
  snprintf(text, size, "self");
  return text;
}

static void destroy(struct tt_transport *transport)
{
  struct self *t = (struct self *)transport;
  if (!t) return;
  for (int lane = 0; lane < TT_MAX_LINKS; lane++) tt_free(t->links[lane]);
  tt_free(t);
}

const struct tt_transport_ops tt_transport_self = {
    .name = "self",
    .block_bytes = TT_BLOCK_BYTES_MEMORY,
    .is_same_host = 1,
    .unusable = unusable,
    .create = create,
    .connect = peer_infos_take,
    .reaches = reaches,
    .open = link_open,
    .descriptors = descriptors,
    .held = held,
    .path = path,
    .destroy = destroy,
};
