/* SPDX-License-Identifier: BSD-3-Clause */
/* A world of ranks that share one transport and nothing above it: as threads of this process or
 * as forked processes. Each rank runs the same body; the first complaint of any of them is the world's. */
#ifndef TT_TEST_TRANSPORT_PAIR_H
#define TT_TEST_TRANSPORT_PAIR_H

#include "transport/transport.h"

#define WORLD_RANKS 8

struct world_rank;
typedef void (*world_body)(struct world_rank *me);

struct world {
  const struct tt_transport_ops *ops;
  int nranks, lanes;
  int is_forked;
  const char *trace;           /* file; NULL: none */
  const char *fault;           /* rules; NULL: none */
  uint32_t may_die;            /* ranks that may be killed, one bit each */
  int64_t slots, slot_bytes;   /* of shm and verbs; 0: default */
  int64_t direct_bytes;        /* of shm and verbs; 0: default */
  world_body body;
  const void *argument;
};

struct world_shared;

struct world_rank {
  const struct world *world;
  struct world_shared *shared;
  int rank;
  struct tt_settings settings;
  struct tt_credentials credentials;
  struct tt_transport_spec spec;
  struct tt_transport *transport;
  uint64_t random;
};

/* The transports that can be used on this machine, ended by NULL; if TUTTI_TRANSPORTS is set, those of them that it
 * names. Says once why the others are not tested. */
const struct tt_transport_ops *const *world_transports(void);

/* Runs the world to its end: NULL, or the first complaint (static storage). `name` is for messages. */
const char *world_run(const struct world *world);

/* What a body uses. */
void world_complain(struct world_rank *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* 1 if some rank has complained, or the world's time (60 s, 180 s where IS_SLOW) is over (which is a complaint). */
int world_is_over(struct world_rank *me);
/* All ranks have come here; returns early when the world is over. */
void world_barrier(struct world_rank *me);
/* Opens a link; NULL if it cannot, with a complaint. */
struct tt_link *world_open(struct world_rank *me, int peer, int lane);
uint64_t world_random(struct world_rank *me, uint64_t below);

#define WORLD_CHECK(me, condition)                                            \
  do {                                                                        \
    if (!(condition)) {                                                       \
      world_complain(me, "%s:%d: %s", __FILE__, __LINE__, #condition);        \
      return;                                                                 \
    }                                                                         \
  } while (0)

#endif
