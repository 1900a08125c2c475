/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is near whom: nodes, NUMA nodes and last-level caches.
 *
 * Two halves. What one process sees of its own machine (here.c and below: hwloc or sysfs), and the map of all
 * ranks, which is pure: it is made from what all ranks told, or from a text file, so that machines that do not exist
 * can be tried. In a map, NUMA nodes lie inside nodes and caches inside NUMA nodes; a cache that spans several NUMA
 * nodes counts as one cache in each of them. */
#ifndef TT_TOPO_H
#define TT_TOPO_H

#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "sched/sched.h"

/* ---- this process (here.c) ------------------------------------------------------- */

/* Where all cores lie that the calling thread may run on; -1: in several, or unknown. Equal numbers on one host
 * mean the same thing to all its processes, however they found out: numa is the kernel's number, cache that of
 * the lowest core that shares it. */
struct tt_locality {
  int32_t numa, cache;
};

/* The hardware is read once per process, the calling thread's affinity each time. Hardware that cannot be read is
 * no error: -1, -1. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_topo_here(struct tt_locality *here);

/* Two lines for `tutti info`: what the machine has, by which method that was found, and which of it the calling
 * thread may use. */
void tt_topo_print_here(FILE *out);

/* ---- prices of links (prices.c) -------------------------------------------------- */

/* What lies between two ranks, nearest first. */
enum tt_link_kind { TT_LINK_SELF, TT_LINK_CACHE, TT_LINK_NUMA, TT_LINK_NODE, TT_LINK_NET, TT_LINK_KINDS };

/* "self", "cache", "numa", "node", "net". */
extern const char *const tt_link_names[TT_LINK_KINDS];

#define TT_CURVE_PARTS 4

/* What a message takes, by its length: alpha_us + M beta_us_per_mib for one of M MiB, of the first part whose
 * up_to_bytes is not exceeded; the last part has UINT64_MAX. Times do not fall where a part ends. */
struct tt_curve {
  int32_t nparts;
  double overhead_us; /* the part of the first alpha in which a message keeps its ends busy; not more than that */
  struct tt_curve_part {
    uint64_t up_to_bytes;
    double alpha_us, beta_us_per_mib;
  } part[TT_CURVE_PARTS];
};

static inline double tt_curve_us(const struct tt_curve *curve, uint64_t bytes)
{
  const struct tt_curve_part *part = curve->part;
  while (bytes > part->up_to_bytes) part++;
  return part->alpha_us + (double)bytes / (1 << 20) * part->beta_us_per_mib;
}

/* The time of a message, in two parts: before its first byte can be had, and while its ends are busy with it. */
static inline double tt_curve_latency_us(const struct tt_curve *curve)
{
  return curve->part[0].alpha_us - curve->overhead_us;
}
static inline double tt_curve_busy_us(const struct tt_curve *curve, uint64_t bytes)
{
  const struct tt_curve_part *part = curve->part;
  while (bytes > part->up_to_bytes) part++;
  double more_us = part->alpha_us - curve->part[0].alpha_us + (double)bytes / (1 << 20) * part->beta_us_per_mib;
  return more_us > 0 ? curve->overhead_us + more_us : curve->overhead_us;
}

/* A curve of one part. */
static inline struct tt_curve tt_curve_line(double alpha_us, double beta_us_per_mib)
{
  return (struct tt_curve){.nparts = 1, .part = {{UINT64_MAX, alpha_us, beta_us_per_mib}}};
}

/* All kinds have a curve; combining with one more source of M MiB takes M gamma_us_per_mib. */
struct tt_link_prices {
  struct tt_curve link[TT_LINK_KINDS];
  double gamma_us_per_mib;
};

/* What holds where a file says nothing: rough values of a current server with 10 Gbit/s Ethernet. */
extern const struct tt_link_prices tt_link_prices_default;

/* ---- the map of all ranks (topology.c) ------------------------------------------- */

#define TT_TOPOLOGY_MAX_RANKS (1 << 20)

/* Numbers of each kind are dense over the whole machine, by first appearance in rank order; -1: unknown. */
struct tt_topology {
  int32_t nranks, nnodes, nnumas, ncaches;
  int32_t *node, *numa, *cache; /* [nranks]; node is always known */
  struct tt_link_prices prices;
};

/* The map of `nranks` ranks from what each told: the identity of its host and its locality. Prices are the defaults.
 * Errors: tuttiInvalidArgument: nranks is not from 1 to TT_TOPOLOGY_MAX_RANKS. tuttiSystemError: no memory. */
tuttiResult_t tt_topology_make(struct tt_topology *topology, int32_t nranks, const uint64_t *host,
                               const struct tt_locality *locality);

/* NULL and a zeroed one are allowed. */
void tt_topology_destroy(struct tt_topology *topology);

enum tt_link_kind tt_topology_kind(const struct tt_topology *topology, int32_t a, int32_t b);

/* ---- text (parse.c) -------------------------------------------------------------- */

/* Reads the format described in README.md. `name` is what errors call the text; `nranks` > 0: it must be about
 * so many ranks. *topology is written on success only.
 * Errors: tuttiInvalidArgument naming the text, the line, and what was wanted. tuttiSystemError: no memory. */
tuttiResult_t tt_topology_parse(struct tt_topology *topology, FILE *in, const char *name, int32_t nranks);

/* The same from a file (TUTTI_TOPOLOGY, --topology). Also tuttiInvalidArgument: it cannot be read. */
tuttiResult_t tt_topology_load(struct tt_topology *topology, const char *path, int32_t nranks);

/* ---- order and groups for algorithms (arrange.c) --------------------------------- */

/* Algorithms speak of positions on the wire, 0 .. nranks - 1. Ranks of one node, within it of one NUMA node, within
 * it of one cache, stand in consecutive positions; otherwise ranks keep their order. Ranks placed in blocks keep
 * their numbers. */
struct tt_arrangement {
  int32_t nranks;
  int32_t *order;          /* [position]: rank */
  struct tt_groups groups; /* in positions; points into this object */
  int32_t *storage;
};

/* The levels are those of cache, NUMA and node that say something: several groups, one of them of several ranks, and
 * not the groups of the level below; ranks whose NUMA node or cache is unknown make one group within the next larger
 * thing. If there is none: consecutive ranks in groups of `group_size` (TUTTI_GROUP_SIZE), or, if that is 0, of about
 * the square root of nranks: of the largest exact divisor from 2/3 of the root to the root, else sizes that differ by
 * one. No level at all (nlevels 0) if no such groups say something either: 1 and 2 ranks; group_size 1 or >= nranks.
 * A pure function of its arguments, the same on all ranks. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_topology_arrange(struct tt_arrangement *made, const struct tt_topology *topology, int64_t group_size);

/* NULL and a zeroed one are allowed. */
void tt_arrangement_destroy(struct tt_arrangement *arrangement);

#endif
