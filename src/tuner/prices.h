/* SPDX-License-Identifier: BSD-3-Clause */
/* From a profile to the time of one operation: prices of the links that a communicator uses, a play of the schedule at
 * those prices, and a correction by measurements. Pure. */
#ifndef TT_PRICES_H
#define TT_PRICES_H

#include <stdlib.h>

#include "profile/profile.h"

/* The places of ranks and their transports: the facts that a communicator knows at its creation, or that a tool was
 * given. */
struct tt_cluster {
  int32_t nranks;
  int32_t cores;                     /* that the ranks of a node may use, on the node where they are fewest to a rank */
  const struct tt_topology *topology; /* which ranks are near each other; its prices do not count */
  const char *transport[TT_LINK_KINDS]; /* that joins ranks over this kind of link; NULL: there are none */
  uint32_t block_bytes;  /* longest block by default: the largest of these transports */
  const char *interface; /* over which rank 0 reaches other nodes, if that matters; NULL or "": any */
};

/* Ranks with this kind of link are joined by this transport, which has blocks of so many bytes by default. */
static inline void tt_cluster_join(struct tt_cluster *cluster, enum tt_link_kind kind, const char *transport,
                                   uint32_t block_bytes)
{
  cluster->transport[kind] = transport;
  if (block_bytes > cluster->block_bytes) cluster->block_bytes = block_bytes;
}

/* The transport that anchors and learnt choices of such a cluster name: the one between its nodes, or the one inside of
 * its only node; "": there is none. */
const char *tt_cluster_transport(const struct tt_cluster *cluster);

/* The times of one measured pair of ranks over those of the shipped profile for one pair of that kind and transport,
 * both ways at once: the time of a short message, and the time per byte of a long one. Ratios are powers of two,
 * rounded towards 1: less than twice and more than half of the shipped time is no correction. So noise does not change
 * choices: the times of one machine differ by half from run to run. No link differs by more than the most: the ranks of
 * such a pair waited for a core, and the measurement says nothing. */
struct tt_correction {
  int8_t alpha, beta; /* from -TT_CORRECTION_MOST to TT_CORRECTION_MOST */
};
#define TT_CORRECTION_MOST 6
#define TT_CORRECTION_NONE ((struct tt_correction){INT8_MIN, INT8_MIN}) /* nothing is known */

static inline int tt_correction_known(struct tt_correction correction)
{
  return abs(correction.alpha) <= TT_CORRECTION_MOST && abs(correction.beta) <= TT_CORRECTION_MOST;
}

/* The origin of a price. */
struct tt_origin {
  const struct tt_profile *profile;
  struct tt_flow flow; /* the one taken: perhaps not the one that was wanted */
  int32_t line;        /* the first; 0: none */
  int32_t points;      /* sizes that were measured; 0: none */
  double error_percent; /* of the fit, where that is worst */
  int type;            /* of gamma: tuttiDataType_t */
  int is_nearest;      /* 1: this very flow, or type, was not measured, the nearest one was taken */
  struct tt_correction correction; /* of what the profile says; alpha 0, beta 0: none */
  int is_said;                     /* 1: no profile has it, the one who asks has said it (tools) */
  char date[11];                   /* of the correction: 2026-11-24; "": not known */
};

struct tt_prices {
  struct tt_link_prices links;           /* as tt_simulate takes them */
  struct tt_origin origin[TT_LINK_KINDS];
  struct tt_origin gamma_origin;
  uint32_t block_bytes;                  /* the cluster's */
  const struct tt_profile *profile;      /* whose anchors correct; lives as long as this; NULL: the shipped one */
};

/* Takes of each kind of link in use the lines of its transport with ways 2 and flows nearest to the pairs that talk at
 * once (half of the ranks of a node for links inside it, 1 between nodes: there the play shares the node's port), and
 * between nodes those of the interface in use, if it was measured: from `profile`, or if that has none of this
 * transport, from the shipped one. profile may be NULL: all shipped. */
void tt_prices_make(struct tt_prices *prices, const struct tt_profile *profile, const struct tt_cluster *cluster);

/* Prices the combining of elements of this type instead of float: by the profile of the prices, or by the shipped one,
 * or, if neither has the type, by a type that is like it. */
void tt_prices_combine(struct tt_prices *prices, int type);

/* 1 if the shipped profile has prices of a pair of this kind and transport: only such are corrected. */
int tt_correction_possible(enum tt_link_kind kind, const char *transport);

/* The correction by a pair that exchanges short messages in short_us and such of long_bytes in long_us.
 * TT_CORRECTION_NONE: it is beyond the most, or the shipped profile has nothing of this kind and transport. */
struct tt_correction tt_correction_make(enum tt_link_kind kind, const char *transport, double short_us,
                                        uint64_t long_bytes, double long_us);

/* Multiplies all parts of a kind's curve, for however many flows it is. Nothing happens if the curve is not of the
 * shipped profile, or if nothing was measured. Call it once for each kind. */
void tt_prices_correct(struct tt_prices *prices, enum tt_link_kind kind, struct tt_correction correction);

/* "cache over shm, 4 pairs at once: FILE line 12" or "... built in (1 pair: the nearest that was measured)", followed
 * by "; corrected by a pair in TUTTI_CACHE (2026-11-24): latency x4, time per byte x0.5" if a correction is in force,
 * with its date where that is known. For gamma "sum of two vectors of half: built in (the nearest that was
 * measured)". */
void tt_origin_text(const struct tt_origin *origin, char *text, size_t size);

#endif
