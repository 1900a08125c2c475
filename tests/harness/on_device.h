/* SPDX-License-Identifier: BSD-3-Clause */
/* Carries out the calls of reduce_call.h on a device instead of the CPU: their buffers become memory of the device or
 * stay on the host, by chance, and the device's reduce is started and polled. What is right says the plain table. */
#ifndef ON_DEVICE_H
#define ON_DEVICE_H

#include "device/device.h"
#include "reduce_call.h"

struct on_device {
  const struct tt_device *device;
  int may_stay; /* buffers may stay in host memory, but for one */
};

/* As call_fault. Changes the table in use for as long as it takes. One thread at a time. */
const char *on_device_fault(const struct on_device *on, const struct call *call);

/* Copies to or from device memory; 0 if that fails. */
int on_device_move(const struct tt_device *device, void *dst, const void *src, size_t len);

/* Polls until it is not in progress. */
tuttiResult_t on_device_wait(const struct tt_device *device, tt_ticket ticket);

#endif
