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

static void count_print(int32_t n, const char *one, const char *many, FILE *out)
{
  fprintf(out, "%d %s", (int)n, n == 1 ? one : many);
}

static void counts_print(const struct tt_machine_counts *counts, FILE *out)
{
  count_print(counts->sockets, "socket, ", "sockets, ", out);
  count_print(counts->numas, "NUMA node, ", "NUMA nodes, ", out);
  count_print(counts->caches, "last-level cache, ", "last-level caches, ", out);
  count_print(counts->cores, "core, ", "cores, ", out);
  count_print(counts->processors, "hardware thread", "hardware threads", out);
}

void tt_topo_print_here(FILE *out)
{
  const struct tt_machine *machine;
  struct tt_processors usable;
  if (machine_get(&machine) != tuttiSuccess || machine->nprocessors == 0) {
    fprintf(out, "  machine    unknown: neither hwloc nor sysfs tell; TUTTI_DEBUG=INFO says why\n");
    return;
  }
  tt_processors_usable(&usable);
  struct tt_machine_counts all = tt_machine_count(machine, NULL), here = tt_machine_count(machine, &usable);
  struct tt_locality place = tt_machine_locality(machine, &usable);
  fprintf(out, "  machine    ");
  counts_print(&all, out);
  fprintf(out, " (found by %s)\n  usable     ", machine->method);
  counts_print(&here, out);
  if (place.numa >= 0) fprintf(out, "; NUMA node %d", (int)place.numa);
  if (place.cache >= 0) fprintf(out, "; cache of core %d", (int)place.cache);
  fprintf(out, "\n");
}
