/* SPDX-License-Identifier: BSD-3-Clause */
/* From a profile to what one operation takes: prices of the links that a communicator uses, a play of the schedule at
 * those prices, and a correction by what was measured. Pure. */
#ifndef TT_PRICES_H
#define TT_PRICES_H

#include "tuner/profile.h"

/* Where ranks are and how they talk: what a communicator knows at its creation, or a tool was told. */
struct tt_world {
  int32_t nranks;
  int32_t cores;                     /* that the ranks of a node may use, on the node where they are fewest to a rank */
  const struct tt_topology *topology; /* who is near whom; its prices do not count */
  const char *transport[TT_LINK_KINDS]; /* that joins ranks with this between them; NULL: no two ranks have */
};

/* Where a number came from. */
struct tt_origin {
  const struct tt_profile *profile;
  struct tt_flow flow; /* what was taken: perhaps not the flow that was wanted */
  int32_t line;        /* the first; 0: none */
  int is_nearest;      /* 1: this very flow was not measured, the nearest one was taken */
};

struct tt_prices {
  struct tt_link_prices links;           /* as tt_simulate takes them */
  struct tt_origin origin[TT_LINK_KINDS];
  struct tt_origin gamma_origin;
  uint32_t block_bytes;                  /* longest block by default */
  const struct tt_profile *profile;      /* whose anchors correct; lives as long as this; NULL: the shipped one */
};

/* The longest block by default where ranks are joined by this transport; of several the largest counts. */
uint32_t tt_prices_block(const char *transport);

/* Takes of each kind of link in use the lines of its transport with ways 2 and flows nearest to the pairs that talk at
 * once (half of the ranks of a node for links inside it, 1 between nodes: there the play shares the node's port),
 * from `profile`, or if that has none of this transport, from the shipped one. profile may be NULL: all shipped. */
void tt_prices_make(struct tt_prices *prices, const struct tt_profile *profile, const struct tt_world *world);

/* Corrects the prices of one kind of link by one measured pair: alpha and beta of all its parts are multiplied so that
 * the curve goes through these two times, by powers of 2^(1/2), so that noise does not change what is chosen. */
void tt_prices_adjust(struct tt_prices *prices, enum tt_link_kind kind, double short_us, uint64_t long_bytes,
                      double long_us);

/* "cache over shm, 4 pairs at once: FILE line 12" or "... built in (1 pair: the nearest that was measured)". */
void tt_origin_text(const struct tt_origin *origin, char *text, size_t size);

#endif
