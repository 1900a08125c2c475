/* SPDX-License-Identifier: BSD-3-Clause */
/* Chance for tests: splitmix64, the same numbers on all ranks from the same state. */
#ifndef CHANCE_H
#define CHANCE_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t next(uint64_t *state)
{
  *state += 0x9e3779b97f4a7c15u;
  uint64_t x = *state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* 0 .. n - 1 */
static inline size_t below(uint64_t *state, size_t n)
{
  return (size_t)(next(state) % n);
}

#endif
