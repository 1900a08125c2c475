/* SPDX-License-Identifier: BSD-3-Clause */
/* The floating-point environment of a kernel: nearest even, subnormals kept, nothing
 * trapped, for any setting of the calling thread. Otherwise ranks whose threads have
 * different settings would hold different bits.
 *
 * This costs about 2 ns where the caller has the default environment, which is tested first
 * because writing the control register costs much more than reading it. The memory
 * clobbers keep a kernel's loads, and so its arithmetic, between enter and leave. */
#ifndef TT_FPENV_H
#define TT_FPENV_H

#if defined(__x86_64__)
#include <stdint.h>

typedef uint32_t fpenv;
#define FPENV_DEFAULT 0x1f80u /* MXCSR: all exceptions masked, nearest, neither FTZ nor DAZ */
#define FPENV_FLAGS 0x3fu     /* sticky flags: no influence on results */

static inline int fpenv_is_default(fpenv env)
{
  return (env & ~FPENV_FLAGS) == FPENV_DEFAULT;
}

static inline fpenv fpenv_enter(void)
{
  const fpenv wanted = FPENV_DEFAULT;
  fpenv saved;
  __asm__ volatile("stmxcsr %0" : "=m"(saved));
  if (!fpenv_is_default(saved)) __asm__ volatile("ldmxcsr %0" : : "m"(wanted));
  __asm__ volatile("" : : : "memory");
  return saved;
}

static inline void fpenv_leave(fpenv saved)
{
  __asm__ volatile("" : : : "memory");
  if (!fpenv_is_default(saved)) __asm__ volatile("ldmxcsr %0" : : "m"(saved));
}

#elif defined(__aarch64__)
#include <stdint.h>

typedef uint64_t fpenv;
#define FPENV_DEFAULT 0u /* FPCR: nearest, no FZ, FZ16, DN or AHP, nothing trapped. Sticky flags are in FPSR */

static inline fpenv fpenv_enter(void)
{
  fpenv saved;
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
  if (saved != FPENV_DEFAULT) __asm__ volatile("msr fpcr, %0" : : "r"((fpenv)FPENV_DEFAULT));
  __asm__ volatile("" : : : "memory");
  return saved;
}

static inline void fpenv_leave(fpenv saved)
{
  __asm__ volatile("" : : : "memory");
  if (saved != FPENV_DEFAULT) __asm__ volatile("msr fpcr, %0" : : "r"(saved));
}

#else
#include <fenv.h>

typedef fenv_t fpenv;

static inline fpenv fpenv_enter(void)
{
  fpenv saved;
  fegetenv(&saved);
  fesetenv(FE_DFL_ENV);
  __asm__ volatile("" : : : "memory");
  return saved;
}

static inline void fpenv_leave(fpenv saved)
{
  __asm__ volatile("" : : : "memory");
  fesetenv(&saved);
}

#endif
#endif
