/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"

const struct fake_cuda *fake_driver_load(void)
{
  fake_cuda_fn *function;
  void *library = dlopen(CUDA_DOUBLE, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, FAKE_CUDA_SYMBOL) : NULL;
  if (!symbol) {
    fprintf(stderr, "%s\n", dlerror());
    return NULL;
  }
  memcpy(&function, &symbol, sizeof function);
  return function();
}

int fake_driver_begin(void)
{
  struct tt_settings settings;
  int joined;
  return fake_driver_load() && tt_settings_load(&settings) == tuttiSuccess &&
         tt_cuda_join(&settings, &joined) == tuttiSuccess;
}

int fake_driver_is_clean(void)
{
  struct fake_cuda_counts n = fake_driver_load()->count();
  if (!n.breaches && !n.memory && !n.pinned && !n.registered && !n.streams && !n.events && !n.modules && !n.retained &&
      !n.pending && !n.contexts)
    return 1;
  fprintf(stderr,
          "left behind: %ld breaches, %ld pieces of memory, %ld pinned, %ld bytes registered, %ld streams, %ld events, "
          "%ld modules, %ld contexts retained, %ld pieces of work, %ld contexts pushed\n",
          n.breaches, n.memory, n.pinned, n.registered, n.streams, n.events, n.modules, n.retained, n.pending,
          n.contexts);
  return 0;
}

int fake_driver_end(void)
{
  tt_cuda_leave();
  return fake_driver_is_clean();
}
