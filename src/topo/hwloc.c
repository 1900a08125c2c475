/* SPDX-License-Identifier: BSD-3-Clause */
/* The hardware as hwloc sees it. libhwloc is loaded when it is needed, so that one binary serves every host; its
 * symbols stay out of the program's (RTLD_LOCAL). Its x86 backend is left out, because it would bind the calling thread
 * to one processor after the other, and tells nothing that is needed here. */
#include <dlfcn.h>
#include <string.h>

#include "topo/machine_private.h"

#ifdef TT_HAVE_HWLOC
#include <hwloc.h>

#define LIBRARY "libhwloc.so.15" /* hwloc 2 */
#define API_MAJOR(version) ((version) >> 16)

struct hwloc {
  __typeof__(hwloc_get_api_version) *api_version;
  __typeof__(hwloc_topology_init) *init;
  __typeof__(hwloc_topology_set_components) *set_components;
  __typeof__(hwloc_topology_set_flags) *set_flags;
  __typeof__(hwloc_topology_load) *load;
  __typeof__(hwloc_topology_is_thissystem) *is_thissystem;
  __typeof__(hwloc_topology_destroy) *destroy;
  __typeof__(hwloc_get_type_depth) *type_depth;
  __typeof__(hwloc_get_nbobjs_by_depth) *nobjects;
  __typeof__(hwloc_get_obj_by_depth) *object;
  __typeof__(hwloc_obj_type_is_dcache) *is_data_cache;
  __typeof__(hwloc_bitmap_first) *first;
};

static int hwloc_open(struct hwloc *hwloc, char why[TT_WHY_BYTES])
{
  /* Never closed, because it may have loaded plugins. */
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(why, TT_WHY_BYTES, "%s", dlerror());
    return 0;
  }
  const struct {
    const char *name;
    void **slot;
  } wanted[] = {
      {"hwloc_get_api_version", (void **)&hwloc->api_version},
      {"hwloc_topology_init", (void **)&hwloc->init},
      {"hwloc_topology_set_components", (void **)&hwloc->set_components},
      {"hwloc_topology_set_flags", (void **)&hwloc->set_flags},
      {"hwloc_topology_load", (void **)&hwloc->load},
      {"hwloc_topology_is_thissystem", (void **)&hwloc->is_thissystem},
      {"hwloc_topology_destroy", (void **)&hwloc->destroy},
      {"hwloc_get_type_depth", (void **)&hwloc->type_depth},
      {"hwloc_get_nbobjs_by_depth", (void **)&hwloc->nobjects},
      {"hwloc_get_obj_by_depth", (void **)&hwloc->object},
      {"hwloc_obj_type_is_dcache", (void **)&hwloc->is_data_cache},
      {"hwloc_bitmap_first", (void **)&hwloc->first},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    *wanted[i].slot = dlsym(library, wanted[i].name);
    if (*wanted[i].slot) continue;
    snprintf(why, TT_WHY_BYTES, "%s has no %s: hwloc 2.1 or later is needed", LIBRARY, wanted[i].name);
    return 0;
  }
  if (API_MAJOR(hwloc->api_version()) == API_MAJOR(HWLOC_API_VERSION)) return 1;
  snprintf(why, TT_WHY_BYTES, "%s is another major version than the header of the build", LIBRARY);
  return 0;
}

static void processor_note(const struct hwloc *hwloc, hwloc_obj_t object, struct tt_processor *row)
{
  row->is_online = 1;
  row->core = (int32_t)object->os_index;
  row->numa = object->nodeset ? hwloc->first(object->nodeset) : -1;
  for (hwloc_obj_t o = object; o; o = o->parent) {
    int32_t lowest = o->cpuset ? hwloc->first(o->cpuset) : -1;
    if (o->type == HWLOC_OBJ_CORE) row->core = lowest;
    else if (o->type == HWLOC_OBJ_PACKAGE) row->socket = lowest;
    else if (hwloc->is_data_cache(o->type)) row->cache = lowest; /* from inside out, so the last one stays */
  }
}

static struct tt_machine *machine_make(const struct hwloc *hwloc, hwloc_topology_t topology)
{
  int depth = hwloc->type_depth(topology, HWLOC_OBJ_PU);
  unsigned n = hwloc->nobjects(topology, depth), highest = 0;
  for (unsigned i = 0; i < n; i++) {
    unsigned index = hwloc->object(topology, depth, i)->os_index;
    if (index > highest && index < TT_MAX_PROCESSORS) highest = index;
  }
  struct tt_machine *machine = tt_machine_create("hwloc", (int32_t)highest + 1);
  for (unsigned i = 0; machine && i < n; i++) {
    hwloc_obj_t object = hwloc->object(topology, depth, i);
    if (object->os_index < TT_MAX_PROCESSORS) processor_note(hwloc, object, &machine->processor[object->os_index]);
  }
  return machine;
}

tuttiResult_t tt_machine_hwloc(struct tt_machine **machine, char why[TT_WHY_BYTES])
{
  struct hwloc hwloc;
  hwloc_topology_t topology;
  tuttiResult_t result = tuttiSuccess;
  *machine = NULL;
  if (!hwloc_open(&hwloc, why)) return tuttiSuccess;
  if (hwloc.init(&topology) != 0) {
    snprintf(why, TT_WHY_BYTES, "hwloc_topology_init failed");
    return tuttiSuccess;
  }
  /* Processors that a control group forbids to this process are included, because names must be the same for all
   * processes of the host. */
  if (hwloc.set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86") != 0 ||
      hwloc.set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 || hwloc.load(topology) != 0)
    snprintf(why, TT_WHY_BYTES, "hwloc_topology_load failed");
  else if (!hwloc.is_thissystem(topology))
    snprintf(why, TT_WHY_BYTES, "the environment (HWLOC_...) makes it show another machine");
  else if (!(*machine = machine_make(&hwloc, topology)))
    result = tt_fail(tuttiSystemError, "no memory to describe this machine: give the process more");
  hwloc.destroy(topology);
  return result;
}

#else

tuttiResult_t tt_machine_hwloc(struct tt_machine **machine, char why[TT_WHY_BYTES])
{
  *machine = NULL;
  snprintf(why, TT_WHY_BYTES, "this library was built without it (Debian: libhwloc-dev)");
  return tuttiSuccess;
}

#endif
