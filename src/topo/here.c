/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/machine_private.h"

/* Hardware does not change, so it is read once per process and kept. Two threads that come first at once both read it,
 * and one of them discards its result. */
static tuttiResult_t machine_get(const struct tt_machine **machine)
{
  const void *known = atomic_load_explicit(&tt_process.machine, memory_order_acquire);
  struct tt_machine *mine = NULL;
  if (!known) {
    tuttiResult_t result = tt_machine_read(&mine);
    if (result != tuttiSuccess) return result;
    if (atomic_compare_exchange_strong(&tt_process.machine, &known, mine)) known = mine;
    else tt_free(mine);
  }
  *machine = known;
  return tuttiSuccess;
}

tuttiResult_t tt_topo_here(struct tt_locality *here)
{
  const struct tt_machine *machine;
  struct tt_processors usable;
  tuttiResult_t result = machine_get(&machine);
  if (result != tuttiSuccess) return result;
  tt_processors_usable(&usable);
  *here = tt_machine_locality(machine, &usable);
  return tuttiSuccess;
}

#define COUNTS_BYTES 160

static int count_text(char *text, int32_t n, const char *one, const char *many)
{
  return sprintf(text, "%d %s", (int)n, n == 1 ? one : many);
}

static const char *counts_text(const struct tt_machine_counts *counts, char text[COUNTS_BYTES])
{
  char *at = text;
  at += count_text(at, counts->sockets, "socket, ", "sockets, ");
  at += count_text(at, counts->numas, "NUMA node, ", "NUMA nodes, ");
  at += count_text(at, counts->caches, "last-level cache, ", "last-level caches, ");
  at += count_text(at, counts->cores, "core, ", "cores, ");
  count_text(at, counts->processors, "hardware thread", "hardware threads");
  return text;
}

void tt_topo_list_here(struct tt_listing *listing)
{
  const struct tt_machine *machine;
  struct tt_processors usable;
  char text[COUNTS_BYTES], numa[32] = "", cache[40] = "";
  if (machine_get(&machine) != tuttiSuccess || machine->nprocessors == 0) {
    tt_listing_line(listing, "machine", "unknown: neither hwloc nor sysfs tell; TUTTI_DEBUG=INFO says why");
    return;
  }
  tt_processors_usable(&usable);
  struct tt_machine_counts all = tt_machine_count(machine, NULL), here = tt_machine_count(machine, &usable);
  struct tt_locality place = tt_machine_locality(machine, &usable);
  tt_listing_line(listing, "machine", "%s (found by %s)", counts_text(&all, text), machine->method);
  if (place.numa >= 0) snprintf(numa, sizeof numa, "; NUMA node %d", (int)place.numa);
  if (place.cache >= 0) snprintf(cache, sizeof cache, "; cache of core %d", (int)place.cache);
  tt_listing_line(listing, "usable", "%s%s%s", counts_text(&here, text), numa, cache);
}
