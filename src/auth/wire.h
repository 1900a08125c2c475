/* SPDX-License-Identifier: BSD-3-Clause */
/* Little-endian integers in messages, for any byte order and alignment of the host. */
#ifndef TT_AUTH_WIRE_H
#define TT_AUTH_WIRE_H

#include <stdint.h>

static inline void tt_wire_put(uint8_t *at, int bytes, uint64_t value)
{
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t tt_wire_get(const uint8_t *at, int bytes)
{
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
  return value;
}

#endif
