/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits: how fast this CPU moves floats when it does next to nothing with them. Every limit has several
 * ways, and the best one at a level counts. */
#include <string.h>

#include "kernels.h"

const char *const limit_names[LIMITS] = {"copy", "add", "accumulate"};

#if defined(__clang__)
#define LOOP_UNROLL _Pragma("clang loop unroll_count(4)")
#else
#define LOOP_UNROLL _Pragma("GCC unroll 4")
#endif

static int always(void)
{
  return 1;
}

static void copy_memcpy(void *dst, const void *const *sources, int nsrc, size_t count, const struct tt_reduce_arg *arg)
{
  (void)nsrc, (void)arg;
  memcpy(dst, sources[0], count * sizeof(float));
}

#if defined(__x86_64__)
#include <immintrin.h>

static int has_avx(void)
{
  return __builtin_cpu_supports("avx") != 0;
}

static int has_avx512(void)
{
  return __builtin_cpu_supports("avx512f") != 0;
}

#define LOOP_NAME 16
#define LOOP_BYTES 16
#define LOOP_TARGET
#define LOOP_KEEP "+x"
#define LOOP_STREAM _mm_stream_ps
#include "loops.inc"

#define LOOP_NAME 32
#define LOOP_BYTES 32
#define LOOP_TARGET __attribute__((target("avx")))
#define LOOP_KEEP "+x"
#define LOOP_STREAM _mm256_stream_ps
#include "loops.inc"

#define LOOP_NAME 64
#define LOOP_BYTES 64
#define LOOP_TARGET __attribute__((target("avx512f")))
#define LOOP_KEEP "+v"
#define LOOP_STREAM _mm512_stream_ps
#include "loops.inc"

const struct variant limit_variants[] = {
    {"memcpy", COPY, always, copy_memcpy},
    {"plain-16", COPY, always, copy_16},
    {"plain-32", COPY, has_avx, copy_32},
    {"plain-64", COPY, has_avx512, copy_64},
    {"streamed-16", COPY, always, copy_streamed_16},
    {"streamed-32", COPY, has_avx, copy_streamed_32},
    {"streamed-64", COPY, has_avx512, copy_streamed_64},
    {"plain-16", ADD, always, add_16},
    {"plain-32", ADD, has_avx, add_32},
    {"plain-64", ADD, has_avx512, add_64},
    {"streamed-16", ADD, always, add_streamed_16},
    {"streamed-32", ADD, has_avx, add_streamed_32},
    {"streamed-64", ADD, has_avx512, add_streamed_64},
    {"plain-16", ACCUMULATE, always, add_16},
    {"plain-32", ACCUMULATE, has_avx, add_32},
    {"plain-64", ACCUMULATE, has_avx512, add_64},
    {NULL, LIMITS, NULL, NULL},
};

#else

#define LOOP_NAME 16
#define LOOP_BYTES 16
#define LOOP_TARGET
#if defined(__aarch64__)
#define LOOP_KEEP "+w"
#else
#define LOOP_KEEP "+m"
#endif
#include "loops.inc"

const struct variant limit_variants[] = {
    {"memcpy", COPY, always, copy_memcpy}, {"plain-16", COPY, always, copy_16},
    {"plain-16", ADD, always, add_16},     {"plain-16", ACCUMULATE, always, add_16},
    {NULL, LIMITS, NULL, NULL},
};

#endif
