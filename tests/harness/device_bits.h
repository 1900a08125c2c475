/* SPDX-License-Identifier: BSD-3-Clause */
/* A device's reduce gives the bits of the plain table: calls by chance, and all values there are. Each function returns
 * NULL, or what is wrong, valid until the next call. Memory comes from the device. */
#ifndef DEVICE_BITS_H
#define DEVICE_BITS_H

#include "on_device.h"

/* `rounds` calls by chance of each operation and type. */
const char *bits_of_calls(const struct on_device *on, int rounds, uint64_t seed);

/* Two sources of every count up to 70 at every alignment up to 17 bytes, on which vectors depend. */
const char *bits_of_places(const struct on_device *on);

/* As many sources as fit into a kernel's argument, fewer and more. */
const char *bits_of_many_sources(const struct on_device *on);

/* Every value of 16 and 8 bits, scaled, rounded and widened. */
const char *bits_of_all_values(const struct tt_device *device);

/* Every pair of values of 8 bits, and of each type's hard values, by each operation. */
const char *bits_of_all_pairs(const struct tt_device *device);

/* fp32 rounded to 16 bits: `rounds` times 65536 values, most of them where rounding changes. */
const char *bits_of_rounding(const struct tt_device *device, int rounds);

#endif
