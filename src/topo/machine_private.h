/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the hardware of this host as a table of its processors (hardware threads). All methods of
 * finding it give the same table. */
#ifndef TT_TOPO_MACHINE_H
#define TT_TOPO_MACHINE_H

#include "topo/topo.h"

#define TT_MAX_PROCESSORS 8192 /* further ones are left out */

struct tt_processors {
  uint64_t bits[TT_MAX_PROCESSORS / 64];
};

static inline int tt_processor_is_in(const struct tt_processors *set, int32_t processor)
{
  return (int)(set->bits[processor / 64] >> processor % 64 & 1);
}

/* The names of a processor's socket, last-level cache and core are their lowest processors, that of its NUMA node is
 * the kernel's number; -1: unknown. */
struct tt_processor {
  int32_t is_online;
  int32_t socket, numa, cache, core;
};

struct tt_machine {
  const char *method;   /* "hwloc", "sysfs", or "nothing" if nprocessors is 0 */
  int32_t nprocessors;  /* 1 + the highest that is online */
  struct tt_processor processor[];
};

/* Makes an empty table, in which everything is unknown; NULL: no memory. Freed by tt_free. */
struct tt_machine *tt_machine_create(const char *method, int32_t nprocessors);

/* Each method returns tuttiSuccess and sets *machine, to NULL if the method cannot be used here; then `why` says why
 * not. Errors: tuttiSystemError: no memory. Any thread. */
#define TT_WHY_BYTES 256
tuttiResult_t tt_machine_hwloc(struct tt_machine **machine, char why[TT_WHY_BYTES]);
/* root: the mount point of sysfs, "/sys". */
tuttiResult_t tt_machine_sysfs(struct tt_machine **machine, const char *root, char why[TT_WHY_BYTES]);

/* Uses the first method that can be used; if none can, *machine is one about which nothing is known. */
tuttiResult_t tt_machine_read(struct tt_machine **machine);

/* The processors that the calling thread may run on. */
void tt_processors_usable(struct tt_processors *set);

/* The place in which all processors of the set lie. */
struct tt_locality tt_machine_locality(const struct tt_machine *machine, const struct tt_processors *set);

struct tt_machine_counts {
  int32_t sockets, numas, caches, cores, processors;
};

/* Counts the sockets, NUMA nodes, ... that have an online processor in the set; NULL: in the machine. */
struct tt_machine_counts tt_machine_count(const struct tt_machine *machine, const struct tt_processors *set);

#endif
