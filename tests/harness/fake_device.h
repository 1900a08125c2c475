/* SPDX-License-Identifier: BSD-3-Clause */
/* A device for tests that is as unkind as device.h allows:
 * - the CPU cannot touch its memory: a direct access is SIGSEGV, by a system call EFAULT;
 * - work is done when its ticket is polled to success and not before, so that who
 *   reads or reuses too early has wrong bytes; until then dst holds junk where the work
 *   does not read it;
 * - each ticket takes a random number of polls, counted over the whole device, so that
 *   tickets end in another order than they began; some work ends at once (ticket 0).
 * The same seed and calls give the same order. Breaches of the contract (work on memory that
 * other work in progress writes, outside of allocations, unknown tickets) are refused with
 * tuttiInternalError and counted. Any thread. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "device/device.h"

struct fake_device_counts {
  long started;     /* pieces of work accepted */
  long at_once;     /* those that ended with ticket 0 */
  long outstanding; /* in progress now */
  long most;        /* most in progress at a time */
  long overtaken;   /* tickets that ended before an older one */
  long waits;       /* polls that answered tuttiInProgress */
  long allocated;   /* allocations alive */
  long breaches;
};

/* Makes a device and registers it; NULL if that is not possible. seed: any. */
const struct tt_device *fake_device_create(uint64_t seed);

/* Unregisters and frees it; returns its last counts. NULL is allowed. */
struct fake_device_counts fake_device_destroy(const struct tt_device *device);

/* The same of a device that collectives have used. 1 if they did, broke no rule, and have nothing left there; else 0
 * and the counts on stderr. */
int fake_device_end(const struct tt_device *device);

struct fake_device_counts fake_device_count(const struct tt_device *device);

/* With 1 no work ends any more, nor any that is begun, until 0. */
void fake_device_hang(const struct tt_device *device, int hangs);

/* What tests do with device memory, at once and without a ticket. */
void fake_device_write(const struct tt_device *device, void *dst, const void *host, size_t len);
void fake_device_read(const struct tt_device *device, void *host, const void *src, size_t len);

#endif
