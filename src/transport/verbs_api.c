/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs_api_private.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

struct function {
  const char *name;
  size_t offset;
};

static int library_load(struct verbs_api *api, const char *name, const struct function *functions, char *why,
                        size_t size)
{
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    const char *said = dlerror();
    snprintf(why, size, "%s: install rdma-core (libibverbs1, librdmacm1 and the device's provider)",
             said ? said : name);
    return 0;
  }
  for (const struct function *at = functions; at->name; at++) {
    void *function = dlsym(library, at->name);
    if (!function) {
      snprintf(why, size, "%s has no %s: install rdma-core 33 or later", name, at->name);
      dlclose(library);
      return 0;
    }
    memcpy((char *)api + at->offset, &function, sizeof function);
  }
  void *optional = api->reg_dmabuf_mr ? NULL : dlsym(library, "ibv_reg_dmabuf_mr");
  if (optional) memcpy((char *)api + offsetof(struct verbs_api, reg_dmabuf_mr), &optional, sizeof optional);
  dlclose(library); /* RTLD_NODELETE keeps it loaded */
  return 1;
}

/* Fails only if memory was registered in this process before. Our own rings are not inherited by children. */
void tt_verbs_fork_prepare(const struct verbs_api *api)
{
  if (api->fork_init() == 0 || atomic_exchange(&tt_process.fork_warned, 1)) return;
  tt_log(TT_LOG_WARN, "ibv_fork_init failed, for somebody has registered memory before: after a fork, buffers that are "
         "registered may be disturbed: set RDMAV_FORK_SAFE=1, or take Linux 5.12 or later");
}

/* The kernel lists all devices. A program that has loaded the library already may have brought a device of its own. */
static int has_device(void)
{
  void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library) dlclose(library);
  DIR *list = library ? NULL : opendir("/sys/class/infiniband");
  int found = library != NULL;
  for (const struct dirent *entry; list && !found && (entry = readdir(list));) found = entry->d_name[0] != '.';
  if (list) closedir(list);
  return found;
}

int tt_verbs_api_load(struct verbs_api *api, char *why, size_t size)
{
#define VERBS_ROW(member, symbol) {#symbol, offsetof(struct verbs_api, member)},
  static const struct function verbs[] = {VERBS_FUNCTIONS(VERBS_ROW){NULL, 0}};
  static const struct function cm[] = {VERBS_CM_FUNCTIONS(VERBS_ROW){NULL, 0}};
#undef VERBS_ROW
  if (!has_device()) {
    snprintf(why, size, "there is no RDMA device: see /sys/class/infiniband, and whether its driver is loaded");
    return 0;
  }
  if (!library_load(api, "libibverbs.so.1", verbs, why, size)) return 0;
  return library_load(api, "librdmacm.so.1", cm, why, size);
}
