/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the hardware of this host as a table of its processors (hardware threads). How it was found
 * out makes no difference to what it says. */
#ifndef TT_TOPO_MACHINE_H
#define TT_TOPO_MACHINE_H

#include "topo/topo.h"

#define TT_MAX_PROCESSORS 8192 /* others are left out */

struct tt_processors {
  uint64_t bits[TT_MAX_PROCESSORS / 64];
};

static inline int tt_processor_is_in(const struct tt_processors *set, int32_t processor)
{
  return (int)(set->bits[processor / 64] >> processor % 64 & 1);
}

/* Sockets, last-level caches and cores are named by their lowest processor, NUMA nodes by the kernel's number;
 * -1: unknown. */
struct tt_processor {
  int32_t is_online;
  int32_t socket, numa, cache, core;
};

struct tt_machine {
  const char *method;   /* "hwloc", "sysfs", or "nothing" if nprocessors is 0 */
  int32_t nprocessors;  /* the highest online and 1 */
  struct tt_processor processor[];
};

/* An empty table, all unknown; NULL: no memory. Freed by tt_free. */
struct tt_machine *tt_machine_create(const char *method, int32_t nprocessors);

/* Each method: tuttiSuccess with *machine set, or NULL if it cannot be used here: then `why` says why not.
 * Errors: tuttiSystemError: no memory. Any thread. */
#define TT_WHY_BYTES 256
tuttiResult_t tt_machine_hwloc(struct tt_machine **machine, char why[TT_WHY_BYTES]);
/* root: where sysfs is mounted, "/sys". */
tuttiResult_t tt_machine_sysfs(struct tt_machine **machine, const char *root, char why[TT_WHY_BYTES]);

/* The first of them that can be used; a machine about which nothing is known if none can. */
tuttiResult_t tt_machine_read(struct tt_machine **machine);

/* The processors that the calling thread may run on. */
void tt_processors_usable(struct tt_processors *set);

/* Where all processors of the set lie. */
struct tt_locality tt_machine_locality(const struct tt_machine *machine, const struct tt_processors *set);

struct tt_machine_counts {
  int32_t sockets, numas, caches, cores, processors;
};

/* How many there are with a processor in the set; NULL: of all online. */
struct tt_machine_counts tt_machine_count(const struct tt_machine *machine, const struct tt_processors *set);

#endif
