/* SPDX-License-Identifier: BSD-3-Clause */
/* The nearness of ranks: nodes, NUMA nodes and last-level caches.
 *
 * There are two halves: one process's view of its own machine (here.c and below: hwloc or sysfs), and the map of all
 * ranks. The map is pure: it is made from the facts that all ranks reported, or from a text file, so that machines that
 * do not exist can be tried. In a map, NUMA nodes lie inside nodes and caches inside NUMA nodes; a cache that spans
 * several NUMA nodes counts as one cache in each of them. */
#ifndef TT_TOPO_H
#define TT_TOPO_H

#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "base/listing.h"
#include "sched/sched.h"

/* ---- this process (here.c) ------------------------------------------------------- */

/* The place of all cores that the calling thread may run on; -1: they lie in several, or it is unknown. Equal numbers
 * on one host mean the same to all its processes, by whatever method they were found: numa is the kernel's number,
 * cache the number of the lowest core that shares the cache. */
struct tt_locality {
  int32_t numa, cache;
};

/* The hardware is read once per process, the calling thread's affinity each time. Hardware that cannot be read is
 * no error: -1, -1. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_topo_here(struct tt_locality *here);

/* Lists two lines for `tutti info`: the parts of the machine, the method that found them, and the parts that the
 * calling thread may use. */
void tt_topo_list_here(struct tt_listing *listing);

/* ---- prices of links (prices.c) -------------------------------------------------- */

/* The kind of link between two ranks, nearest first. */
enum tt_link_kind { TT_LINK_SELF, TT_LINK_CACHE, TT_LINK_NUMA, TT_LINK_NODE, TT_LINK_NET, TT_LINK_KINDS };

/* "self", "cache", "numa", "node", "net". */
extern const char *const tt_link_names[TT_LINK_KINDS];

#define TT_CURVE_PARTS 4

/* The time of a message by its length: alpha_us + M beta_us_per_mib for a message of M MiB, with the values of the
 * first part whose up_to_bytes is not exceeded; the last part has UINT64_MAX. Times do not fall where a part ends. */
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

/* The time of a message, in two parts: the latency before its first byte is there, and the time for which its ends are
 * busy with it. */
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

/* The link of a network of so many Gbit/s (10^9 bits a second) on which a short message takes us, and the other way. */
#define TT_US_PER_MIB_OF_GBIT 8388.608
static inline struct tt_curve tt_curve_link(double gbits, double us)
{
  return tt_curve_line(us, TT_US_PER_MIB_OF_GBIT / gbits);
}
static inline double tt_curve_gbits(const struct tt_curve *curve)
{
  double beta_us_per_mib = curve->part[curve->nparts - 1].beta_us_per_mib;
  return beta_us_per_mib > 0 ? TT_US_PER_MIB_OF_GBIT / beta_us_per_mib : 0;
}

/* All kinds have a curve; combining with one more source of M MiB takes M gamma_us_per_mib. */
struct tt_link_prices {
  struct tt_curve link[TT_LINK_KINDS];
  double gamma_us_per_mib;
};

/* The defaults of a topology file: rough values of a current server with 10 Gbit/s Ethernet. */
extern const struct tt_link_prices tt_link_prices_default;

/* ---- the map of all ranks (topology.c) ------------------------------------------- */

#define TT_TOPOLOGY_MAX_RANKS (1 << 20)

/* Numbers of each kind are dense over the whole machine, by first appearance in rank order; -1: unknown. */
struct tt_topology {
  int32_t nranks, nnodes, nnumas, ncaches;
  int32_t *node, *numa, *cache; /* [nranks]; node is always known */
  struct tt_link_prices prices;
};

/* Makes the map of `nranks` ranks from the facts that each reported: the identity of its host and its locality. Prices
 * are the defaults. Errors: tuttiInvalidArgument: nranks is not from 1 to TT_TOPOLOGY_MAX_RANKS. tuttiSystemError: no
 * memory. */
tuttiResult_t tt_topology_make(struct tt_topology *topology, int32_t nranks, const uint64_t *host,
                               const struct tt_locality *locality);

/* NULL and a zeroed one are allowed. */
void tt_topology_destroy(struct tt_topology *topology);

enum tt_link_kind tt_topology_kind(const struct tt_topology *topology, int32_t a, int32_t b);

/* ---- text (parse.c) -------------------------------------------------------------- */

/* Reads the format described in README.md. `name` names the text in errors; `nranks` > 0: the text must describe so
 * many ranks. *topology is written only on success. Errors: tuttiInvalidArgument naming the text, the line and the
 * expected token. tuttiSystemError: no memory. */
tuttiResult_t tt_topology_parse(struct tt_topology *topology, FILE *in, const char *name, int32_t nranks);

/* The same from a file (TUTTI_TOPOLOGY, --topology). Also tuttiInvalidArgument: the file cannot be read. */
tuttiResult_t tt_topology_load(struct tt_topology *topology, const char *path, int32_t nranks);

/* ---- order and groups for algorithms (arrange.c) --------------------------------- */

/* Algorithms use positions on the wire, 0 .. nranks - 1. The ranks of one node have consecutive positions, so have,
 * within the node, the ranks of one NUMA node and, within that, the ranks of one cache; otherwise ranks keep their
 * order. Ranks placed in blocks keep their numbers. */
struct tt_arrangement {
  int32_t nranks;
  int32_t *order;          /* [position]: rank */
  struct tt_groups groups; /* in positions; points into this object */
  int32_t *storage;
};

/* The levels are cache, NUMA node and node, except those that say nothing: a level needs several groups, one of them
 * with several ranks, and other groups than the level below. Ranks whose NUMA node or cache is unknown form one group
 * within the next larger unit. With a `group_size` (TUTTI_GROUP_SIZE) other than 0, or if no level is left, the one
 * level is consecutive positions: in groups of that size, the last of which has the rest, or, if it is 0, in groups of
 * about the square root of nranks: of the largest exact divisor from 2/3 of the root to the root, else of sizes that
 * differ by one. If such groups say nothing either (1 and 2 ranks; group_size 1 or >= nranks), there is no level
 * (nlevels 0). A pure function of its arguments, the same on all ranks. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_topology_arrange(struct tt_arrangement *made, const struct tt_topology *topology, int64_t group_size);

/* NULL and a zeroed one are allowed. */
void tt_arrangement_destroy(struct tt_arrangement *arrangement);

#endif
