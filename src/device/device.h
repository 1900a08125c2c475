/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations on a kind of memory. Work on memory is started and polled; on host
 * memory it finishes at once. The executor touches user memory only through this
 * interface, unless `host` says that the CPU may do it.
 *
 * Work that is in progress at the same time has no order: a caller that needs an order
 * waits for one ticket before it starts the work that depends on it. A function that
 * fails has set the error's sentence and started nothing. All functions may be called
 * from any thread; one ticket is polled by one thread at a time. */
#ifndef TT_DEVICE_H
#define TT_DEVICE_H

#include "base/base.h"
#include "reduce/reduce.h"

/* 0: the work is finished already. Any other ticket is polled until poll returns success, once, or an error. */
typedef uint64_t tt_ticket;

/* One reduction; the fields are the arguments of a kernel of reduce.h; redop < TT_REDOPS. */
struct tt_reduction {
  int redop, type;
  void *dst;
  const void *const *sources;
  int nsrc;
  size_t count;
  const struct tt_reduce_arg *arg;
  int *overflow; /* NULL, or host memory that lives until the ticket is done; it becomes 1 if an infinite or NaN element
                    is written, else it is left alone */
};

struct tt_device {
  const char *name;
  int host; /* 1: the CPU may read and write this memory itself, and work ends at once */

  /* True if the pointer belongs to this device. Any thread. */
  int (*owns)(const struct tt_device *device, const void *pointer);

  /* Allocates memory of this device (staging, scratch), aligned for any element, with undefined
   * contents; NULL if out of memory. free: NULL is allowed; no work may still use the memory. */
  void *(*alloc)(const struct tt_device *device, size_t len);
  void (*free)(const struct tt_device *device, void *pointer);

  /* Copies len bytes; either side may be host memory. dst may be equal to src; any other
   * overlap is illegal. Until the ticket is done src must not be written and dst not
   * touched, by the CPU or by other work. *ticket is written only on success. */
  tuttiResult_t (*copy)(const struct tt_device *device, void *dst, const void *src, size_t len, tt_ticket *ticket);

  /* Reduces like a kernel of reduce.h, with any number of sources; dst and any source may be
   * host memory, under the same rules as in copy. Everything that `what` points to, also the
   * list of sources, is copied before the function returns. */
  tuttiResult_t (*reduce)(const struct tt_device *device, const struct tt_reduction *what, tt_ticket *ticket);

  /* tuttiInProgress; or tuttiSuccess or an error, after which the ticket is gone. */
  tuttiResult_t (*poll)(const struct tt_device *device, tt_ticket ticket);

  /* May be NULL. Makes a descriptor (a dma-buf), owned by the caller, by which other devices reach
   * [pointer, pointer + len), and *offset, at which that begins in it. Errors: tuttiSystemError,
   * tuttiUnhandledCudaError. */
  tuttiResult_t (*expose)(const struct tt_device *device, void *pointer, size_t len, int *fd, uint64_t *offset);

  /* May be NULL; else it is called instead of owns: it returns the device of this very pointer, NULL if the pointer is
   * not of this kind. So one registration stands for several GPUs. The result lives as long as *device. Any thread. */
  const struct tt_device *(*member)(const struct tt_device *device, const void *pointer);
};

/* Host memory. */
extern const struct tt_device tt_host_device;

#define TT_DEVICES 4 /* most kinds of memory other than the host's */

/* The device that owns the pointer; the host's if none of the registered ones does.
 * Takes no lock; one load and one comparison while none is registered. Never NULL. */
const struct tt_device *tt_device_of(const void *pointer);

/* Whether elements of the type in the device's memory can be combined so: all devices but the host's have kernels for
 * NCCL's types and operations alone. redop < TT_REDOPS. */
static inline int tt_device_combines(const struct tt_device *device, int redop, int type)
{
  return device->host || (type <= tuttiFloat8e5m2 && (redop <= tuttiAvg || redop == TT_PREMUL_SUM));
}

/* Adds a device to those that tt_device_of asks, or takes it away (nothing happens if
 * it is not there). *device must live until it is taken away and no thread is inside
 * tt_device_of any more. Errors of register: tuttiInvalidArgument: NULL;
 * tuttiInvalidUsage: registered already; tuttiInternalError: TT_DEVICES devices are registered already. */
tuttiResult_t tt_device_register(const struct tt_device *device);
void tt_device_unregister(const struct tt_device *device);

#endif
