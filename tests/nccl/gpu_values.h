/* SPDX-License-Identifier: BSD-3-Clause */
/* Small whole numbers in every type of NCCL: sums and products of them are exact in all types, in any order. */
#ifndef GPU_VALUES_H
#define GPU_VALUES_H

#include <stddef.h>
#include <stdint.h>

size_t value_size(int type);
void value_put(void *to, int type, unsigned value); /* 0 to 16, where the type has it */
unsigned value_get(const void *from, int type);

#endif
