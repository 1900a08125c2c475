/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char *driver_load(struct driver *driver, const char *library)
{
  static char text[128];
  void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL), *function;
  memset(driver, 0, sizeof *driver);
  if (!handle) return dlerror();
#define DRIVER_FIND(name)                                      \
  function = dlsym(handle, #name);                             \
  memcpy(&driver->name, &function, sizeof function);           \
  if (!function) {                                             \
    snprintf(text, sizeof text, "the driver has no %s", #name); \
    return text;                                               \
  }
  DRIVER_FUNCTIONS(DRIVER_FIND)
#undef DRIVER_FIND
  function = dlsym(handle, "fake_cuda_seal");
  memcpy(&driver->seal, &function, sizeof function);
  function = dlsym(handle, "fake_cuda_report");
  memcpy(&driver->report, &function, sizeof function);
  return NULL;
}
