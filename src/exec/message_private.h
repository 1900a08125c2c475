/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags: message.c matches them and knows their peers, slices.c moves them over a link. Private to those
 * two. */
#ifndef TT_EXEC_MESSAGE_PRIVATE_H
#define TT_EXEC_MESSAGE_PRIVATE_H

#include "base/priority.h"
#include "exec/private.h"

#define SMALL_BYTES 24

struct head {
  uint32_t magic, len;
  uint64_t number, total, start;
  int32_t tag, source;
  char small[SMALL_BYTES];
};
_Static_assert(sizeof(struct head) == 64, "it is on the wire");

/* A message that comes, or has come and is not wanted yet. */
struct arrival {
  struct arrival *next;
  int32_t peer, tag;
  uint64_t number;
  size_t total, got;
  struct tt_message *wanted; /* the receive that gets it; NULL: none yet */
  char *data;                /* where it comes to: the receive's room, or own */
  char *own;                 /* NULL: it has no memory of its own */
};

/* One direction of a link: its present message, a head or the bytes behind one. */
struct way {
  struct tt_call call;
  struct tt_head link_head;
  struct head head;
  size_t len, done;
  int is_begun, is_body;
  uint64_t begun; /* messages with tags that have begun in this direction */
};

struct route {
  int32_t peer;
  struct tt_link *link; /* NULL: not open yet */
  int is_deaf, is_mute; /* the link takes nothing more; nothing more comes */
  int has_left;         /* the peer has left: it is deaf */
  int is_over;          /* and everything that it has sent has come */
  uint64_t quiet_ns;    /* since when nothing has come from a peer that has left; 0: not known */
  char why[160];        /* a link that is broken is so */
  struct way in, out;
  struct tt_priority_queue queue; /* of sends */
  struct tt_message *now;         /* the send whose slice is under way */
  struct arrival *from;           /* the arrival whose slice is */
};

struct tt_messages {
  struct tt_exec *exec;
  struct route **routes;  /* by rank; NULL: no message has wanted it */
  int32_t *used;          /* the ranks with a route */
  int nused, nover, is_ending; /* is_ending: no receive is added any more */
  struct tt_message *receives, **last_receive; /* in their order, and where the next one goes */
  struct arrival *arrivals, **last_arrival, *spare; /* likewise; memory for the next one */
  struct tt_message *over;                     /* messages that are over, the last one first */
  uint64_t order;
  uint64_t stuck_ns; /* since when a send waits for a link that its receiver does not open; 0: none does */
};

/* ---- message.c ---- */

void tt_message_end(struct tt_messages *messages, struct tt_message *message, tuttiResult_t result);

/* A message begins to come: into the room of the receive that wants it, or into memory of its own. NULL: there is
 * none. */
struct arrival *tt_arrival_begin(struct tt_messages *messages, const struct head *head, int32_t peer);

/* A message that has begun to come, and of which more is to come; NULL: there is none of that number. */
struct arrival *tt_arrival_find(struct tt_messages *messages, int32_t peer, uint64_t number);

/* All of it is there, and it is wanted. */
void tt_arrival_end(struct tt_messages *messages, struct arrival *arrival);

tuttiResult_t tt_messages_no_memory(const struct tt_messages *messages, size_t bytes);

/* ---- slices.c ---- */

/* Moves what the link takes, or has, but not all at once. A link that is broken is noted in the route. */
tuttiResult_t tt_route_send(struct tt_messages *messages, struct route *route, int *moved);
tuttiResult_t tt_route_receive(struct tt_messages *messages, struct route *route, int *moved);

#endif
