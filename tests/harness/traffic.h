/* SPDX-License-Identifier: BSD-3-Clause */
/* Random but agreed traffic over one link: both ends compute sizes and bytes from the same numbers,
 * so every byte that arrives is checked against what it must be. */
#ifndef TT_TEST_TRAFFIC_H
#define TT_TEST_TRAFFIC_H

#include "transport_pair.h"

/* One direction of one link. */
struct flow {
  struct world_rank *me;
  struct tt_link *link;
  int from, to, lane;
  int messages;    /* to pass in all */
  size_t largest;  /* bytes of a message at most */
  int index;       /* of the message under way */
  struct tt_head head;
  struct tt_call call;
  size_t done;     /* bytes of it that have passed */
  size_t offered;  /* sender: bytes of it that were offered */
  size_t base;     /* sender: byte of the message that `buffer` begins with; */
  size_t filled;   /* and the one behind the last that lies there */
  int is_peeking;  /* receiver: peek, not recv */
  size_t grain;
  int is_whole;    /* receiver: room for all of the message is offered at once; */
  int is_offered;  /* and has been */
  int is_in_heap;
  unsigned char *buffer;
};

enum { PIECE = 200000 }; /* bytes of a buffer */

/* Byte `at` of the message is table[(start + at) % TABLE]; this gives `n` of them. */
void traffic_fill(const struct flow *flow, size_t at, unsigned char *out, size_t n);
/* 1 if data is those bytes. */
int traffic_check(const struct flow *flow, size_t at, const void *data, size_t n);

void flow_start(struct flow *flow, struct world_rank *me, struct tt_link *link, int from, int to);
void flow_end(struct flow *flow);
int flow_is_done(const struct flow *flow);

/* Moves a random bit of it; bytes moved (0: none now) or what the link returned, negative. */
ssize_t flow_send(struct flow *flow);
/* The same; WRONG_BYTES if what arrived is not what was sent. */
ssize_t flow_recv(struct flow *flow);
#define WRONG_BYTES ((ssize_t)-100)

#endif
