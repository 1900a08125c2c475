/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory between the ranks of one host.
 *
 * Each rank owns one *outbox*, a sealed and allocated memfd that only it writes and its peers read:
 *
 *   header | acknowledgements | rings | calls | pool
 *
 *   header            magic, the peer info's nonce, and whether this rank has given up.
 *   acknowledgement   64 bytes for each (source, lane): whether this rank has opened the lane, and how many lines it
 *                     has consumed from that source's ring for it. The source reads it when it opens the lane, and
 *                     when it needs lines or slots back.
 *   ring              16 lines of 64 bytes for each (destination, lane).
 *   call              64 bytes for each (destination, lane): the last message between pairs that was begun there.
 *   pool              `shm_slots` slots of `shm_slot_bytes`, for all destinations.
 *
 * With L ranks on the host and n lanes an outbox takes 1152 L n bytes besides its pool: with the defaults (2 lanes of
 * operations and one of messages, 2 MiB of slots) 27 KiB for 8 ranks, 864 KiB for 256. Ranks of other hosts cost
 * nothing.
 *
 * A message is a sequence of fragments, each one line: sequence, call word, length, place, 40 bytes. At most 40
 * bytes at the end of a message lie in the line itself, everything else in a slot and those behind it, or in the
 * sender's heap (memory/memory.h: memory of tuttiMemAlloc). All fragments but the last of a message are multiples of 16
 * bytes. The sequence is stored last (release) and loaded first (acquire), and so is the acknowledgement in the other
 * direction. No other access is ordered.
 *
 * Shares. A link may take a slot while it holds fewer than are free (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998,
 * with alpha = 1): k readers that do not read leave 1/(k+1) of the pool to others. A link that may not take one, but
 * holds slots, waits for its own reader; a link that holds none sends 32 bytes inline per line. So whatever other peers
 * do, a link whose reader has read everything can send: each link acts as if it had a private buffer of one
 * fragment or more, and a schedule that cannot deadlock without any buffering cannot deadlock here. The owner takes
 * slots back when it wants one: from the same link first, then from all. A fragment takes its slots one by one, each
 * by this rule, so it may be shorter than the link would like, but never empty.
 *
 * Several peers. Messages that carry the same bytes (equal `same` in their heads) share slots: the first link fills
 * some, the lines of the others name them, and they are free again when all peers have consumed those lines. Each link
 * still counts them as its own. A link that comes when the slots are free already fills others.
 *
 * The heap. Long data there (TUTTI_SHM_DIRECT_BYTES or more) is not copied: the line gives its place, the peer reads it
 * there, and it is taken when the peer has consumed it. If the sender gives up before that, its caller may change the
 * bytes while they are read. So the sender first sets `gave_up` in its header, and a reader looks there after it has
 * read: bytes read before that was set are right, and any others break the link.
 *
 * Set-up. The peer info holds a random nonce, the pool's size and the local listener. The outbox is made in connect,
 * when it is known which ranks share the host. A peer dials the listener (TT_HELLO_OUTBOX) when it opens its first
 * link, and gets the memfd and then that of the heap; clients that come before connect are kept waiting. If the peer's
 * nonce belongs to an outbox of this same process, its mapping is shared instead: this needs no dialer, and thread
 * sanitizers see both sides. A link is open when both ranks have opened it. From then on each has the other's outbox,
 * so sent bytes stay there for the receiver even if the sender is done and leaves.
 *
 * Everything that is read from a peer's outbox is checked before use. A line that no correct peer writes breaks the
 * link; a word or length other than expected is a mismatch. The transport does not notice a peer's death:
 * its memory stays and nothing more arrives. Noticing it is the task of watch. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/shm_private.h"

#define PEER_INFO_MAGIC 0x6d68732d74740003u /* last digits: version */

struct peer_info {
  uint64_t magic; /* 0: the rank has no shm */
  uint64_t nonce;
  uint64_t heap, heap_len; /* nonce and length of the heap; 0: none */
  uint32_t slots, slot_bytes;
  uint32_t listener_len;
  uint8_t listener[36]; /* the beginning of a struct sockaddr_un: names of listeners are short */
};
_Static_assert(sizeof(struct peer_info) <= TT_TRANSPORT_PEER_INFO_BYTES, "peer info too large");

struct peer {
  struct tt_dialer *dialer;
  int socket; /* brings the memfds; -1: none */
  struct tt_shm_box *box;
  int has_heap; /* it is known whether the peer's heap can be read here */
  struct tt_heap_view *view;
  const uint8_t *heap; /* NULL: it cannot be read */
  struct tt_shm_link *links[TT_MAX_LINKS];
};

struct shm {
  struct tt_transport base;
  const struct tt_transport_spec *spec;
  const char *peer_infos;
  size_t stride;
  uint64_t nonce;
  struct tt_shm_shape shape;
  struct tt_shm_box *box; /* ours */
  struct tt_heap *heap;
  int is_filled;          /* the box can be given to clients; under the service lock */
  struct tt_shm_pool pool;
  struct tt_shm_link *links;
  int32_t *local;     /* rank -> index among the host's ranks, -1: on another host */
  struct peer *peers; /* by that index */
  int *waiting;       /* by rank: sockets of clients that came before the outbox was there; -1: none */
};

static const char *unusable(const struct tt_settings *settings, char *why, size_t size)
{
  (void)settings;
  int fd = memfd_create("tutti-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd >= 0) {
    close(fd);
    return NULL;
  }
  snprintf(why, size, "memfd_create fails: %s. Allow memfd_create in this container's seccomp profile (Linux 3.17 or "
           "later) and raise `ulimit -n` if it says too many files", strerror(errno));
  return why;
}

static void give_outbox(const struct shm *t, int socket)
{
  /* If a send fails, the client finds the connection closed and reports that. */
  if (tt_fd_send(socket, t->box->fd, t->box->len) == tuttiSuccess && t->heap->len)
    tt_fd_send(socket, t->heap->fd, t->heap->len);
  close(socket);
}

/* In the service thread, under its lock. */
static void client(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  (void)session; /* a local socket */
  struct shm *t = owner;
  if (hello->src >= (uint32_t)t->spec->nranks) {
    close(fd);
  } else if (t->is_filled) {
    give_outbox(t, fd);
  } else {
    if (t->waiting[hello->src] >= 0) close(t->waiting[hello->src]);
    t->waiting[hello->src] = fd;
  }
}

static void write_peer_info(const struct shm *t, void *out)
{
  const struct tt_address *listener = tt_listener_address(t->spec->local_listener);
  struct peer_info peer_info = {.magic = PEER_INFO_MAGIC,
                      .nonce = t->nonce,
                      .heap = t->heap->len ? t->heap->nonce : 0,
                      .heap_len = t->heap->len,
                      .slots = t->shape.slots,
                      .slot_bytes = t->shape.slot_bytes,
                      .listener_len = listener->len};
  memcpy(peer_info.listener, &listener->local, listener->len <= sizeof peer_info.listener ? listener->len : 0);
  memcpy(out, &peer_info, sizeof peer_info);
}

static void destroy(struct tt_transport *transport);

static tuttiResult_t create(struct tt_transport **transport, const struct tt_transport_spec *spec, void *peer_info)
{
  size_t nranks = (size_t)spec->nranks;
  struct shm *t = tt_alloc(1, sizeof *t);
  if (!t) return tt_fail(tuttiSystemError, "out of memory for the shm transport");
  t->base.ops = &tt_transport_shm;
  t->spec = spec;
  t->shape.lanes = (uint32_t)spec->lanes;
  t->shape.slots = (uint32_t)spec->settings->shm_slots;
  t->shape.slot_bytes = ((uint32_t)spec->settings->shm_slot_bytes + TT_SHM_PAGE - 1) & ~(TT_SHM_PAGE - 1);
  t->local = tt_alloc(nranks, sizeof *t->local);
  t->waiting = tt_alloc(nranks, sizeof *t->waiting);
  for (size_t i = 0; t->waiting && i < nranks; i++) t->waiting[i] = -1;
  tuttiResult_t result = tuttiSystemError;
  if (!t->local || !t->waiting) {
    tt_fail(result, "out of memory for the shm transport of %zu ranks", nranks);
    goto fail;
  }
  result = tt_auth_init();
  if (result != tuttiSuccess) goto fail;
  tt_random(&t->nonce, sizeof t->nonce);
  result = tt_heap_hold(&t->heap);
  if (result == tuttiSuccess) result = tt_shm_box_create(&t->box, t->nonce);
  if (result != tuttiSuccess) goto fail;
  result = tt_listener_admit(spec->local_listener, spec->credentials, TT_HELLO_OUTBOX, (uint32_t)spec->rank, client, t);
  if (result != tuttiSuccess) goto fail;
  write_peer_info(t, peer_info);
  *transport = &t->base;
  return tuttiSuccess;

fail:
  destroy(&t->base);
  return result;
}

static void read_peer_info(const struct shm *t, int rank, struct peer_info *peer_info)
{
  memcpy(peer_info, t->peer_infos + (size_t)rank * t->stride, sizeof *peer_info);
}

static tuttiResult_t peer_infos_take(struct tt_transport *transport, const void *peer_infos, size_t stride)
{
  struct shm *t = (struct shm *)transport;
  t->peer_infos = peer_infos;
  t->stride = stride;
  t->shape.nlocal = 0;
  for (int rank = 0; rank < t->spec->nranks; rank++) {
    int is_here = t->spec->hosts[rank] == t->spec->hosts[t->spec->rank];
    t->local[rank] = is_here ? (int32_t)t->shape.nlocal++ : -1;
  }
  t->peers = tt_alloc(t->shape.nlocal, sizeof *t->peers);
  t->pool.is_free = tt_alloc(t->shape.slots, sizeof *t->pool.is_free);
  t->pool.pieces = tt_alloc(t->shape.slots, sizeof *t->pool.pieces);
  for (uint32_t i = 0; t->peers && i < t->shape.nlocal; i++) t->peers[i].socket = -1;
  if (!t->peers || !t->pool.is_free || !t->pool.pieces)
    return tt_fail(tuttiSystemError, "out of memory for the shm peers of rank %d", t->spec->rank);

  tuttiResult_t result = tt_shm_box_fill(t->box, tt_shm_outbox_bytes(&t->shape));
  if (result != tuttiSuccess) return result;
  t->pool.base = t->box->map + tt_shm_pool_at(&t->shape);
  t->pool.slots = t->shape.slots;
  t->pool.slot_bytes = t->shape.slot_bytes;
  t->pool.nfree = t->pool.slots;
  memset(t->pool.is_free, 1, t->pool.slots);
  tt_service_lock();
  t->is_filled = 1;
  for (int rank = 0; rank < t->spec->nranks; rank++) {
    if (t->waiting[rank] >= 0) give_outbox(t, t->waiting[rank]);
    t->waiting[rank] = -1;
  }
  tt_service_unlock();
  return tuttiSuccess;
}

static int reaches(const struct tt_transport *transport, int peer)
{
  const struct shm *t = (const struct shm *)transport;
  struct peer_info peer_info;
  read_peer_info(t, peer, &peer_info);
  return t->local[peer] >= 0 && peer_info.magic == PEER_INFO_MAGIC;
}

/* The shape of a peer's outbox, from its peer info. */
static tuttiResult_t peer_shape(const struct shm *t, int rank, const struct peer_info *peer_info,
                                struct tt_shm_shape *shape)
{
  *shape = t->shape;
  shape->slots = peer_info->slots;
  shape->slot_bytes = peer_info->slot_bytes;
  if (peer_info->slots >= TT_SHM_NO_SLOT || peer_info->slot_bytes == 0 || peer_info->slot_bytes % TT_SHM_PAGE ||
      peer_info->slot_bytes > 1u << 30 || peer_info->listener_len > sizeof peer_info->listener)
    return tt_fail(tuttiRemoteError,
                   "rank %d announces shared memory of %u slots of %u bytes, which cannot be: is it of this version?",
                   rank, peer_info->slots, peer_info->slot_bytes);
  return tuttiSuccess;
}

static tuttiResult_t dial_start(struct shm *t, struct peer *peer, int rank, const struct peer_info *peer_info)
{
  struct tt_address listener = {.len = peer_info->listener_len};
  struct tt_hello hello = {.kind = TT_HELLO_OUTBOX, .src = (uint32_t)t->spec->rank, .dst = (uint32_t)rank};
  uint64_t deadline = tt_now_ns() + (uint64_t)t->spec->settings->init_timeout_ms * 1000000u;
  memcpy(&listener.local, peer_info->listener, peer_info->listener_len);
  return tt_dialer_start(&peer->dialer, &listener, t->spec->credentials, &hello, deadline);
}

static tuttiResult_t len_check(int rank, uint64_t len, size_t wanted)
{
  if (len == wanted) return tuttiSuccess;
  return tt_fail(tuttiRemoteError, "the shared outbox of rank %d has %llu bytes instead of %zu: do the ranks agree "
                 "on who shares a host (TUTTI_HOSTID)?", rank, (unsigned long long)len, wanted);
}

/* Maps the memfd that the peer sent, once it is there. */
static tuttiResult_t box_receive(struct peer *peer, int rank, const struct peer_info *peer_info, size_t wanted)
{
  int fd;
  uint64_t len;
  tuttiResult_t result = tt_fd_recv(peer->socket, &fd, &len);
  if (result != tuttiSuccess) return result;
  result = len_check(rank, len, wanted);
  if (result == tuttiSuccess) return tt_shm_box_map(&peer->box, peer_info->nonce, wanted, fd);
  close(fd);
  return result;
}

/* The same for its heap. A heap that cannot be mapped is no error: our acknowledgements tell the peer. */
static tuttiResult_t heap_receive(struct peer *peer, const struct peer_info *peer_info)
{
  int fd;
  uint64_t len;
  tuttiResult_t result = tt_fd_recv(peer->socket, &fd, &len);
  if (result == tuttiInProgress) return result;
  peer->has_heap = 1;
  if (result != tuttiSuccess) return tuttiSuccess;
  if (len == peer_info->heap_len) peer->view = tt_heap_view_open(peer_info->heap, fd, len, &peer->heap);
  close(fd);
  return tuttiSuccess;
}

/* Receives outbox and heap over the socket, and closes it after that. */
static tuttiResult_t memory_receive(struct peer *peer, int rank, const struct peer_info *peer_info, size_t wanted)
{
  tuttiResult_t result = peer->box ? tuttiSuccess : box_receive(peer, rank, peer_info, wanted);
  if (result == tuttiSuccess && !peer_info->heap) peer->has_heap = 1;
  if (result == tuttiSuccess && !peer->has_heap) result = heap_receive(peer, peer_info);
  if (result == tuttiInProgress) return result;
  close(peer->socket);
  peer->socket = -1;
  return result;
}

/* For another rank of this process: shares its box once that is filled. */
static tuttiResult_t box_share(struct peer *peer, int rank, const struct peer_info *peer_info, size_t wanted)
{
  struct tt_shm_box *box;
  tuttiResult_t result = tt_shm_box_find(&box, peer_info->nonce);
  if (result != tuttiSuccess || !box) return result;
  result = len_check(rank, box->len, wanted);
  if (result == tuttiSuccess) peer->box = box;
  else tt_shm_box_release(box, 0);
  return result;
}

/* Gets the peer's outbox and heap; resumable. */
static tuttiResult_t memory_fetch(struct shm *t, struct peer *peer, int rank, const struct peer_info *peer_info,
                                  size_t wanted)
{
  if (peer->socket >= 0) return memory_receive(peer, rank, peer_info, wanted);
  if (!peer->dialer) {
    tuttiResult_t result = box_share(peer, rank, peer_info, wanted);
    if (peer->box && t->heap->len) /* not by our own mapping, in which freed blocks cannot be read */
      peer->view = tt_heap_view_open(t->heap->nonce, t->heap->fd, t->heap->len, &peer->heap);
    if (peer->box) peer->has_heap = 1;
    if (result != tuttiSuccess || peer->box) return result;
    result = dial_start(t, peer, rank, peer_info);
    return result == tuttiSuccess ? tuttiInProgress : result;
  }
  int socket;
  tuttiResult_t result = tt_dialer_poll(peer->dialer, &socket);
  if (result == tuttiInProgress) return result;
  tt_dialer_destroy(peer->dialer);
  peer->dialer = NULL;
  if (result != tuttiSuccess) return result;
  peer->socket = socket;
  return tuttiInProgress;
}

static tuttiResult_t link_make(struct shm *t, struct peer *peer, int rank, int lane,
                               const struct tt_shm_shape *shape)
{
  struct tt_shm_link *l = tt_alloc(1, sizeof *l);
  if (!l) return tt_fail(tuttiSystemError, "out of memory for the shm link to rank %d", rank);
  int us = t->local[t->spec->rank], them = t->local[rank];
  uint8_t *ours = t->box->map, *theirs = peer->box->map;
  struct peer_info peer_info;
  read_peer_info(t, rank, &peer_info);
  l->link = (struct tt_link){.ops = &tt_shm_link_ops, .transport = &t->base, .peer = rank, .lane = lane};
  l->ring = (struct tt_shm_line *)(void *)(ours + tt_shm_ring_at(&t->shape, them, lane));
  l->says = (struct tt_shm_said *)(void *)(ours + tt_shm_said_at(&t->shape, them, lane));
  l->acknowledged = (const struct tt_shm_ack *)(void *)(theirs + tt_shm_ack_at(shape, us, lane));
  l->pool = &t->pool;
  for (int i = 0; i < TT_SHM_DEPTH; i++) l->slot_of[i] = TT_SHM_NO_SLOT;
  l->lines = (const struct tt_shm_line *)(void *)(theirs + tt_shm_ring_at(shape, us, lane));
  l->said = (const struct tt_shm_said *)(void *)(theirs + tt_shm_said_at(shape, us, lane));
  l->slots = theirs + tt_shm_pool_at(shape);
  l->nslots = shape->slots;
  l->slot_bytes = shape->slot_bytes;
  l->link.quick_bytes = l->slot_bytes < l->pool->slot_bytes ? l->slot_bytes : l->pool->slot_bytes;
  if (l->link.quick_bytes > TT_QUICK_BYTES) l->link.quick_bytes = TT_QUICK_BYTES;
  l->ack = (struct tt_shm_ack *)(void *)(ours + tt_shm_ack_at(&t->shape, them, lane));
  l->next = 1;
  l->heap = t->heap;
  l->direct_bytes = SIZE_MAX; /* until it is known whether the peer sees our heap */
  l->view = peer->heap;
  l->view_len = peer->heap ? peer_info.heap_len : 0;
  l->gave_up = &((const struct tt_shm_header *)(const void *)theirs)->gave_up;
  l->sibling = t->links;
  l->siblings = &t->links;
  t->links = l;
  peer->links[lane] = l;
  atomic_store_explicit(&l->ack->opened, TT_SHM_OPENED | (l->view ? TT_SHM_SEES_HEAP : 0), memory_order_release);
  return tuttiSuccess;
}

/* If each rank has a core of its own, a copy through a slot overlaps with the reader's work, and reading in place pays
 * for longer messages only. Measured with 2 cores, in us: 2 ranks that exchange 32 KiB 7.1 with a copy, 10.7 without,
 * 128 KiB 46 and 34; 8 ranks, 16 KiB each 127 and 76. */
static size_t direct_bytes(const struct shm *t)
{
  int64_t wanted = t->spec->settings->shm_direct_bytes;
  if (wanted) return (size_t)wanted;
  return t->spec->oversubscribed ? (size_t)16 * 1024 : (size_t)128 * 1024;
}

static tuttiResult_t link_open(struct tt_transport *transport, int rank, int lane, struct tt_link **link)
{
  struct shm *t = (struct shm *)transport;
  struct peer *peer = &t->peers[t->local[rank]];
  tuttiResult_t result = tuttiSuccess;
  if (!peer->links[lane]) {
    struct peer_info peer_info;
    struct tt_shm_shape shape;
    read_peer_info(t, rank, &peer_info);
    result = peer_shape(t, rank, &peer_info, &shape);
    if (result == tuttiSuccess && !(peer->box && peer->has_heap))
      result = memory_fetch(t, peer, rank, &peer_info, tt_shm_outbox_bytes(&shape));
    if (result == tuttiSuccess) result = link_make(t, peer, rank, lane, &shape);
  }
  if (result != tuttiSuccess) return result;
  struct tt_shm_link *l = peer->links[lane];
  uint32_t opened = atomic_load_explicit(&l->acknowledged->opened, memory_order_acquire);
  if (!opened) return tuttiInProgress;
  if (opened & TT_SHM_SEES_HEAP) l->direct_bytes = direct_bytes(t);
  *link = &l->link;
  return tuttiSuccess;
}

/* The outbox's memfd. Those of peers are closed once mapped, and links have none. */
static int descriptors(const struct tt_transport *transport)
{
  (void)transport;
  return 1;
}

/* The outbox; the mapped outboxes of peers count as theirs. */
static size_t held(const struct tt_transport *transport)
{
  const struct shm *t = (const struct shm *)transport;
  return t->box && t->box->map ? t->box->len : 0;
}

static const char *path(const struct tt_transport *transport, int rank, char *text, size_t size)
{
  const struct shm *t = (const struct shm *)transport;
  struct peer_info peer_info;
  read_peer_info(t, rank, &peer_info);
  snprintf(text, size, "shm, through %u slots of %u bytes (TUTTI_SHM_SLOTS)%s", peer_info.slots, peer_info.slot_bytes,
           t->spec->pids && t->spec->pids[rank] == t->spec->pids[t->spec->rank] ? ", same process" : "");
  return text;
}

static void peer_free(struct peer *peer)
{
  for (int lane = 0; lane < TT_MAX_LINKS; lane++) tt_free(peer->links[lane]);
  tt_dialer_destroy(peer->dialer);
  if (peer->socket >= 0) close(peer->socket);
  tt_heap_view_close(peer->view);
  tt_shm_box_release(peer->box, 0);
}

/* Readers of our heap see `gave_up` before they see any byte that the caller writes there from now on. */
static void halt(struct tt_transport *transport)
{
  struct shm *t = (struct shm *)transport;
  if (!t->box || !t->box->map) return;
  struct tt_shm_header *header = (struct tt_shm_header *)(void *)t->box->map;
  atomic_exchange(&header->gave_up, 1);
#if !defined(__x86_64__) /* where an exchange lets later stores pass */
  atomic_thread_fence(memory_order_seq_cst);
#endif
}

static void destroy(struct tt_transport *transport)
{
  struct shm *t = (struct shm *)transport;
  if (!t) return;
  halt(transport);
  tt_listener_dismiss(t->spec->local_listener, t);
  for (int rank = 0; t->waiting && rank < t->spec->nranks; rank++)
    if (t->waiting[rank] >= 0) close(t->waiting[rank]);
  for (uint32_t i = 0; t->peers && i < t->shape.nlocal; i++) peer_free(&t->peers[i]);
  tt_shm_box_release(t->box, 1);
  tt_heap_release(t->heap);
  tt_free(t->peers);
  tt_free(t->waiting);
  tt_free(t->local);
  tt_free(t->pool.is_free);
  tt_free(t->pool.pieces);
  tt_free(t);
}

const struct tt_transport_ops tt_transport_shm = {
    .name = "shm",
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
    .halt = halt,
    .destroy = destroy,
};
