/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one host through mailboxes, a toy (tests/toys/run): each rank has a sealed memory file (tt_memory_create),
 * in it a box for each (sender, lane), which the sender writes. The others open it as /proc/PID/fd/FD; the peer info
 * has both numbers, little endian, 4 bytes each, and says 1 in the next 4: there is one.
 *
 * A box, number sender * lanes + lane: 8 bytes written, the sender's; 48 bytes nothing; 8 bytes released, the owner's;
 * then RING_BYTES of messages: head (16 bytes: word, length), payload, padding to 16 bytes. Positions count up for
 * ever, and are at most RING_BYTES apart. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"
#include "transport/transport.h"

#define RING_BYTES 65536u
#define GRAIN 16u

struct mark {
  uint64_t word, len;
};

struct box {
  _Atomic uint64_t written;
  uint8_t nothing[48];
  _Atomic uint64_t released;
  uint8_t ring[RING_BYTES];
};

struct peer_info {
  int32_t pid, fd, is_there;
};

struct mail_link {
  struct tt_link link;
  struct box *theirs, *ours;
  struct mark out, in; /* the messages under way: len is what is left of them */
  int is_marked;       /* the mark of `out` is in the ring */
  int is_checked;      /* the mark of `in` was read and is right */
  uint64_t written, released;
};

struct mail {
  struct tt_transport base;
  const struct tt_transport_spec *spec;
  const uint8_t *peer_infos;
  size_t stride, bytes;
  int fd;
  struct box *boxes;    /* ours */
  struct box **others;  /* by rank: theirs, once a link is open */
  struct mail_link *links; /* peer * lanes + lane */
};

/* ---- the data path ---- */

static ssize_t nonsense(struct mail_link *l)
{
  snprintf(l->link.why, sizeof l->link.why, "rank %d has written nonsense into a mailbox", l->link.peer);
  return TT_LINK_BROKEN;
}

static uint64_t padded(uint64_t position)
{
  return (position + GRAIN - 1) & ~(uint64_t)(GRAIN - 1);
}

static void send_begin(struct tt_link *link, const struct tt_head *head)
{
  struct mail_link *l = (struct mail_link *)link;
  l->out = (struct mark){.word = head->word, .len = head->len};
  l->is_marked = 0;
}

static ssize_t send_bytes(struct tt_link *link, const void *data, size_t len)
{
  struct mail_link *l = (struct mail_link *)link;
  uint64_t used = l->written - atomic_load_explicit(&l->theirs->released, memory_order_acquire) / GRAIN * GRAIN;
  if (used > RING_BYTES) return nonsense(l);
  uint64_t room = RING_BYTES - used;
  if (!l->is_marked) {
    if (room < 2 * GRAIN) return 0;
    memcpy(l->theirs->ring + l->written % RING_BYTES, &l->out, GRAIN);
    l->written += GRAIN;
    room -= GRAIN;
    l->is_marked = 1;
  }
  if (len > l->out.len) len = l->out.len;
  if (len > room) len = room;
  if (len < l->out.len) len &= ~(size_t)(GRAIN - 1);
  size_t at = l->written % RING_BYTES, first = len < RING_BYTES - at ? len : RING_BYTES - at;
  memcpy(l->theirs->ring + at, data, first);
  memcpy(l->theirs->ring, (const uint8_t *)data + first, len - first);
  l->written += len;
  l->out.len -= len;
  if (l->out.len == 0) l->written = padded(l->written);
  atomic_store_explicit(&l->theirs->written, l->written, memory_order_release);
  return (ssize_t)len;
}

static void recv_begin(struct tt_link *link, const struct tt_head *head)
{
  struct mail_link *l = (struct mail_link *)link;
  l->in = (struct mark){.word = head->word, .len = head->len};
  l->is_checked = 0;
}

static ssize_t peek(struct tt_link *link, const void **data, size_t grain)
{
  struct mail_link *l = (struct mail_link *)link;
  (void)grain; /* what is written and what wraps are multiples of 16 */
  uint64_t len = atomic_load_explicit(&l->ours->written, memory_order_acquire) - l->released;
  if (len > RING_BYTES) return nonsense(l);
  if (len == 0) return 0;
  if (!l->is_checked) {
    struct mark mark;
    memcpy(&mark, l->ours->ring + l->released % RING_BYTES, GRAIN);
    link->seen_word = mark.word;
    if (!tt_word_matches(mark.word, l->in.word) || mark.len != l->in.len) return TT_LINK_MISMATCH;
    l->released += GRAIN;
    len -= GRAIN;
    l->is_checked = 1;
  }
  uint64_t at = l->released % RING_BYTES;
  if (len > RING_BYTES - at) len = RING_BYTES - at;
  if (len > l->in.len) len = l->in.len;
  *data = l->ours->ring + at;
  return (ssize_t)len;
}

static ssize_t consume(struct tt_link *link, size_t len)
{
  struct mail_link *l = (struct mail_link *)link;
  l->released += len;
  l->in.len -= len;
  if (l->in.len == 0) l->released = padded(l->released);
  atomic_store_explicit(&l->ours->released, l->released, memory_order_release);
  return 0;
}

static ssize_t recv_bytes(struct tt_link *link, void *data, size_t len)
{
  struct mail_link *l = (struct mail_link *)link;
  const void *from;
  size_t got = 0;
  while (got < len && l->in.len) {
    ssize_t n = peek(link, &from, 1);
    if (n < 0) return n;
    if (n == 0) break;
    size_t take = (size_t)n < len - got ? (size_t)n : len - got;
    memcpy((uint8_t *)data + got, from, take);
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

/* ---- the transport ---- */

static const char *unusable(const struct tt_settings *settings, char *why, size_t size)
{
  (void)settings, (void)why, (void)size;
  return NULL;
}

static void destroy(struct tt_transport *transport)
{
  struct mail *t = (struct mail *)transport;
  if (!t) return;
  for (int peer = 0; t->others && peer < t->spec->nranks; peer++)
    if (t->others[peer]) munmap(t->others[peer], t->bytes);
  if (t->boxes) munmap(t->boxes, t->bytes);
  if (t->fd >= 0) close(t->fd);
  tt_free(t->others);
  tt_free(t->links);
  tt_free(t);
}

static tuttiResult_t create(struct tt_transport **transport, const struct tt_transport_spec *spec, void *peer_info)
{
  size_t nboxes = (size_t)spec->nranks * (size_t)spec->lanes;
  void *map = NULL;
  struct mail *t = tt_alloc(1, sizeof *t);
  if (!t) return tt_fail(tuttiSystemError, "out of memory for the mailboxes of rank %d", spec->rank);
  *t = (struct mail){.base.ops = &tt_transport_mailbox, .spec = spec, .bytes = nboxes * sizeof(struct box), .fd = -1};
  t->others = tt_alloc((size_t)spec->nranks, sizeof *t->others);
  t->links = tt_alloc(nboxes, sizeof *t->links);
  tuttiResult_t result = t->others && t->links ? tuttiSuccess : tuttiSystemError;
  if (result != tuttiSuccess) tt_fail(result, "out of memory for the mailboxes of rank %d", spec->rank);
  if (result == tuttiSuccess) result = tt_memory_create("tutti-mailbox", t->bytes, &t->fd, &map);
  if (result != tuttiSuccess) {
    destroy(&t->base);
    return result;
  }
  t->boxes = map;
  memcpy(peer_info, &(struct peer_info){(int32_t)getpid(), t->fd, 1}, sizeof(struct peer_info));
  *transport = &t->base;
  return tuttiSuccess;
}

static tuttiResult_t peer_infos_take(struct tt_transport *transport, const void *peer_infos, size_t stride)
{
  struct mail *t = (struct mail *)transport;
  t->peer_infos = peer_infos;
  t->stride = stride;
  return tuttiSuccess;
}

static struct peer_info peer_info_of(const struct mail *t, int peer)
{
  struct peer_info peer_info;
  memcpy(&peer_info, t->peer_infos + (size_t)peer * t->stride, sizeof peer_info);
  return peer_info;
}

static int reaches(const struct tt_transport *transport, int peer)
{
  const struct mail *t = (const struct mail *)transport;
  return t->spec->hosts[peer] == t->spec->hosts[t->spec->rank] && peer_info_of(t, peer).is_there == 1;
}

static tuttiResult_t boxes_map(struct mail *t, int peer)
{
  char path[64];
  void *map = NULL;
  struct peer_info peer_info = peer_info_of(t, peer);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)peer_info.pid, (int)peer_info.fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return tt_fail(tuttiRemoteError, "%s, the mailboxes of rank %d, cannot be opened", path, peer);
  tuttiResult_t result = tt_memory_map(fd, t->bytes, &map);
  close(fd);
  if (result == tuttiSuccess) t->others[peer] = map;
  return result;
}

static tuttiResult_t link_open(struct tt_transport *transport, int peer, int lane, struct tt_link **link)
{
  struct mail *t = (struct mail *)transport;
  int lanes = t->spec->lanes;
  struct mail_link *l = &t->links[peer * lanes + lane];
  if (!t->others[peer]) {
    tuttiResult_t result = boxes_map(t, peer);
    if (result != tuttiSuccess) return result;
  }
  if (!l->ours) {
    l->link = (struct tt_link){.ops = &link_ops, .transport = transport, .peer = peer, .lane = lane};
    l->theirs = &t->others[peer][t->spec->rank * lanes + lane];
    l->ours = &t->boxes[peer * lanes + lane];
  }
  *link = &l->link;
  return tuttiSuccess;
}

static int descriptors(const struct tt_transport *transport)
{
  (void)transport;
  return 1;
}

static size_t held(const struct tt_transport *transport)
{
  return ((const struct mail *)transport)->bytes;
}

static const char *path(const struct tt_transport *transport, int peer, char *text, size_t size)
{
  struct peer_info peer_info = peer_info_of((const struct mail *)transport, peer);
  snprintf(text, size, "mailbox of process %d", (int)peer_info.pid);
  return text;
}

const struct tt_transport_ops tt_transport_mailbox = {
    .name = "mailbox",
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
