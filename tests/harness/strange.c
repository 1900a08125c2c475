/* SPDX-License-Identifier: BSD-3-Clause */
#include "strange.h"

#include <stdint.h>

#if defined(__x86_64__)

#include <xmmintrin.h>

/* MXCSR: ordinary; rounding up, down, toward zero; subnormals flushed on the way in and out, that and rounding up;
 * every exception trapped. */
static const uint32_t words[STRANGE] = {0x1f80, 0x5f80, 0x3f80, 0x7f80, 0x9fc0, 0xdfc0, 0x0000};
#define FLAGS 0x3fu

static void set(uint32_t word)
{
  _mm_setcsr(word);
}

static uint32_t get(void)
{
  return _mm_getcsr() & ~FLAGS;
}

#elif defined(__aarch64__)

/* FPCR: ordinary; rounding up, down, toward zero; subnormals flushed, that and rounding up; the default NaN and fp16
 * without infinities. */
static const uint32_t words[STRANGE] = {0, 1u << 22, 2u << 22, 3u << 22, 0x1080000, 0x1480000, 3u << 25};

static void set(uint32_t word)
{
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)word) : "memory");
}

static uint32_t get(void)
{
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word) : : "memory");
  return (uint32_t)word;
}

#else

#include <fenv.h>

static const uint32_t words[STRANGE] = {FE_TONEAREST,  FE_UPWARD,    FE_DOWNWARD, FE_TOWARDZERO,
                                        FE_TOWARDZERO, FE_TONEAREST, FE_UPWARD};

static void set(uint32_t word)
{
  fesetround((int)word);
}

static uint32_t get(void)
{
  return (uint32_t)fegetround();
}

#endif

void strange_enter(int which)
{
  set(words[which]);
}

int strange_leave(int which)
{
  int kept = get() == words[which];
  set(words[0]);
  return kept;
}
