/* SPDX-License-Identifier: BSD-3-Clause */
/* Pointers that the driver knows, and the contexts of GPUs. */
#include <unistd.h>

#include "cuda/cuda.h"
#include "cuda/cuda_private.h"

struct facts {
  void *context; /* NULL: the memory belongs to no context (pools, mappings) */
  unsigned memory_type, is_managed;
  int ordinal;
};

/* Asks the driver about a pointer; the facts are all zero if it does not know the pointer or nobody has started it. */
static int look(const struct cuda_driver *driver, const void *pointer, struct facts *facts)
{
  int attributes[] = {CU_POINTER_CONTEXT, CU_POINTER_MEMORY_TYPE, CU_POINTER_IS_MANAGED, CU_POINTER_DEVICE_ORDINAL};
  void *values[] = {&facts->context, &facts->memory_type, &facts->is_managed, &facts->ordinal};
  *facts = (struct facts){.ordinal = -1};
  int code = driver->pointer_attributes(sizeof attributes / sizeof *attributes, attributes, values, (uintptr_t)pointer);
  if (code == CU_SUCCESS) return code;
  *facts = (struct facts){.ordinal = -1};
  int is_unknown = code == CU_INVALID_VALUE || code == CU_NOT_INITIALIZED || code == CU_DEINITIALIZED ||
                   code == CU_NO_DEVICE || code == CU_INVALID_CONTEXT;
  return is_unknown ? CU_SUCCESS : code;
}

/* Memory of which the driver fails to tell must not be taken for the host's: that would end in a crash instead of an
 * error. */
int tt_cuda_knows(const void *memory)
{
  const struct cuda *cuda = tt_process.cuda;
  struct facts facts;
  if (!cuda || !memory) return 0;
  return look(&cuda->driver, memory, &facts) != CU_SUCCESS || facts.memory_type == CU_MEMORY_DEVICE ||
         facts.is_managed;
}

void *tt_cuda_primary(struct cuda *cuda, int ordinal)
{
  if (ordinal < 0 || ordinal >= CUDA_GPUS) return NULL;
  void *context = atomic_load_explicit(&cuda->primary[ordinal], memory_order_acquire);
  if (context) return context;
  pthread_mutex_lock(&cuda->making);
  context = atomic_load(&cuda->primary[ordinal]);
  int code = context ? CU_SUCCESS : cuda->driver.primary_retain(&context, ordinal);
  if (code == CU_SUCCESS) atomic_store_explicit(&cuda->primary[ordinal], context, memory_order_release);
  else tt_cuda_fail(&cuda->driver, "cuDevicePrimaryCtxRetain", ordinal, code);
  pthread_mutex_unlock(&cuda->making);
  return context;
}

/* The driver exposes only whole pages of this host. */
tuttiResult_t tt_cuda_expose(const void *memory, size_t len, int *fd, uint64_t *offset)
{
  struct cuda *cuda = tt_process.cuda;
  const struct cuda_driver *driver = &cuda->driver;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)memory, start = at / page * page;
  struct facts facts;
  int code = look(driver, memory, &facts);
  if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuPointerGetAttributes", -1, code);
  if (!driver->memory_handle)
    return tt_fail(tuttiSystemError, "memory of GPU %d cannot be shown to other devices: the driver is older than CUDA "
                   "11.7", facts.ordinal);
  void *context = facts.context ? facts.context : tt_cuda_primary(cuda, facts.ordinal), *popped;
  code = context ? driver->context_push(context) : CU_INVALID_CONTEXT;
  if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuCtxPushCurrent", facts.ordinal, code);
  code = driver->memory_handle(fd, start, (at + len - start + page - 1) / page * page, CU_DMA_BUF, 0);
  driver->context_pop(&popped);
  if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuMemGetHandleForAddressRange", facts.ordinal, code);
  *offset = at - start;
  return tuttiSuccess;
}
