/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_BASE_TIME_H
#define TT_BASE_TIME_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds, which jumps of the wall clock do not affect. */
static inline uint64_t tt_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A clock that takes a few nanoseconds to read: the processor's own counter, of any rate. Where it has none,
 * CLOCK_MONOTONIC. It may differ a little between cores, so differences may be negative. */
static inline uint64_t tt_ticks(void)
{
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return tt_now_ns();
#endif
}

static inline void tt_sleep_ns(uint64_t ns)
{
  struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
  nanosleep(&time, 0);
}

/* A short pause inside a spinning wait. */
static inline void tt_cpu_relax(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
