/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the shm transport; shm.c holds the specification. Only shm*.c and
 * white-box tests include this. */
#ifndef TT_TRANSPORT_SHM_H
#define TT_TRANSPORT_SHM_H

#include <stdatomic.h>

#include "memory/memory.h"
#include "transport/transport.h"

#define TT_SHM_DEPTH 16     /* lines of a ring */
#define TT_SHM_INLINE 40    /* payload bytes in a line */
#define TT_SHM_LAST 0x80000000u
#define TT_SHM_HEAP 0x40000000u
#define TT_SHM_NO_SLOT 0xffffu
#define TT_SHM_PAGE 4096u
#define TT_SHM_RECENT 64

/* One fragment. `shape` is payload length | place << 32, where place is TT_SHM_LAST in the message's
 * last fragment | number of its first slot + 1, or 0 for inline, or TT_SHM_HEAP: then `bytes` begins with the offset in
 * the writer's heap. */
struct tt_shm_line {
  _Atomic uint64_t sequence; /* 1 + number of lines before it in this ring; written last */
  _Atomic uint64_t word;
  _Atomic uint64_t shape;
  uint8_t bytes[TT_SHM_INLINE];
};

/* The call of the last message between pairs that the outbox's owner began on a ring: for the sentence of a reader that
 * expected another one. A reader may see a newer call than that of the message at hand, so it compares the word. */
struct tt_shm_said {
  _Alignas(64) _Atomic uint64_t parts[4]; /* struct tt_call */
};

/* The acknowledgement from the outbox's owner to one source. */
struct tt_shm_ack {
  _Alignas(64) _Atomic uint64_t consumed; /* lines of the source's ring for the owner */
  _Atomic uint32_t opened;                /* the owner has opened this lane, so it has mapped the source's outbox ... */
};

#define TT_SHM_OPENED 1u
#define TT_SHM_SEES_HEAP 2u /* ... and the source's heap */

#define TT_SHM_MAGIC 0x32786f62747475u /* "uttbox2" */

struct tt_shm_header {
  uint64_t magic;
  uint64_t nonce;           /* the one in the peer info */
  _Atomic uint32_t gave_up; /* 1: the bytes in the owner's heap may change at any time */
};

/* The numbers that determine the layout of an outbox. */
struct tt_shm_shape {
  uint32_t nlocal, lanes; /* ranks on this host */
  uint32_t slots, slot_bytes;
};

/* Offsets from the start. */
size_t tt_shm_ack_at(const struct tt_shm_shape *shape, int source, int lane);
size_t tt_shm_ring_at(const struct tt_shm_shape *shape, int destination, int lane);
size_t tt_shm_said_at(const struct tt_shm_shape *shape, int destination, int lane);
size_t tt_shm_pool_at(const struct tt_shm_shape *shape);
size_t tt_shm_outbox_bytes(const struct tt_shm_shape *shape);

/* An outbox. Those of this process are listed in tt_process from create on, so that its ranks share one mapping;
 * a box lives until its last reference is released. */
struct tt_shm_box {
  struct tt_shm_box *next;
  uint64_t nonce;
  int references; /* under tt_process.mutex */
  int fd;         /* the owner's, until it closes; -1: none */
  size_t len;
  uint8_t *map;   /* NULL until it is filled, under tt_process.mutex */
};

/* For the owner: create lists a box without memory, fill gives it memory. */
tuttiResult_t tt_shm_box_create(struct tt_shm_box **box, uint64_t nonce);
tuttiResult_t tt_shm_box_fill(struct tt_shm_box *box, size_t len);
/* For a peer of another process: maps its box. Takes over fd, also on error. */
tuttiResult_t tt_shm_box_map(struct tt_shm_box **box, uint64_t nonce, size_t len, int fd);
/* For a peer of this process: *box with one more reference, or NULL if no rank of this process has that nonce;
 * tuttiInProgress if its owner has not filled it yet. */
tuttiResult_t tt_shm_box_find(struct tt_shm_box **box, uint64_t nonce);
void tt_shm_box_release(struct tt_shm_box *box, int is_owner); /* NULL is allowed */

/* The content of a slot that is not free, and of those behind it that were taken with it. */
struct tt_shm_piece {
  uint64_t same; /* of the message's head; 0: the message is its link's own */
  uint64_t left; /* bytes of the message from here to its end */
  uint32_t len;
  uint32_t slots; /* how many, with this one */
  uint32_t links; /* links with a line that names the slot and is not known to be consumed */
};

/* Slots of this rank's pool. They are taken in turn, so that the slot freed last comes last: it still lies in the cache
 * of the peer that read it, and writing there waits for that core; by the time its turn comes it has gone to the cache
 * that cores share. Measured on an AMD EPYC with 2 MiB of slots: 34 GB/s at 1 MiB against 13 with the slot freed last
 * taken first. Where several in a row are free a fragment takes as many as it needs, up to 128 KiB, because each
 * fragment costs both sides a miss of the cache or more: an all-reduce of 8 MiB between 2 ranks takes 0.75 to 0.8 of
 * the time of one slot a fragment. A queue of free slots would lose their order when links free them by turns. */
struct tt_shm_pool {
  uint8_t *base;
  uint32_t slots, slot_bytes;
  uint32_t next;                  /* where the search for a free one begins */
  uint32_t nfree;
  uint8_t *is_free;               /* by slot */
  struct tt_shm_piece *pieces;    /* by slot */
  uint16_t recent[TT_SHM_RECENT]; /* slots filled for several links, hashed by content; any value is safe */
};

/* More than 25 fields: a link sends and receives, and both directions have a message and a piece of it under way. */
struct tt_shm_link {
  struct tt_link link;

  /* Sending. `ring` lies in our outbox, `acknowledged` in the peer's. */
  struct tt_shm_line *ring;
  struct tt_shm_said *says;
  const struct tt_shm_ack *acknowledged;
  struct tt_shm_pool *pool;
  uint64_t sent;       /* lines published */
  uint64_t reclaimed;  /* lines known to be consumed */
  uint64_t send_word;
  uint64_t send_left;  /* bytes of the message not yet taken */
  uint64_t send_same;  /* of the message's head */
  uint32_t held;       /* slots that published lines occupy, those of shared pieces too */
  size_t direct_bytes; /* so many bytes of the heap or more are shown in place; SIZE_MAX: the peer does not see it */
  const struct tt_heap *heap;
  size_t lent;         /* bytes that the last line shows in the heap, until it is consumed; 0: none */
  uint16_t slot_of[TT_SHM_DEPTH];

  /* Receiving. `lines` and `slots` lie in the peer's outbox, `ack` in ours. */
  const struct tt_shm_line *lines;
  const struct tt_shm_said *said;
  const uint8_t *slots;
  uint32_t nslots, slot_bytes;
  const uint8_t *view; /* the peer's heap; NULL: we do not see it */
  uint64_t view_len;
  const _Atomic uint32_t *gave_up; /* the peer's */
  int is_view;       /* the current fragment lies in the peer's heap */
  uint32_t shown;    /* bytes of the current fragment not yet consumed; 0: no fragment is current */
  const uint8_t *at; /* the first of those */
  struct tt_shm_ack *ack;
  uint64_t next;      /* sequence of the line wanted next */
  uint64_t recv_word;
  uint64_t recv_left; /* bytes of the message not yet in a fragment seen */

  struct tt_shm_link *sibling; /* next in the list of all links of the transport, whose slots may be reclaimed */
  struct tt_shm_link **siblings;
};

extern const struct tt_link_ops tt_shm_link_ops;

#endif
