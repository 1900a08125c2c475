/* SPDX-License-Identifier: BSD-3-Clause */
/* What kernel_perf measures kernels against does all of its work, and no other.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels.h"

enum { COUNT = 320, SPARE = 64 }; /* elements; what is beyond them is nobody's */

struct buffers {
  _Alignas(64) float dst[COUNT + SPARE];
  _Alignas(64) float a[COUNT + SPARE];
  _Alignas(64) float b[COUNT + SPARE];
};

static void buffers_fill(struct buffers *buffers)
{
  for (int i = 0; i < COUNT + SPARE; i++) {
    buffers->dst[i] = -1;
    buffers->a[i] = (float)(i + 1);
    buffers->b[i] = (float)(1000 * i);
  }
}

static void variant_check(const struct variant *variant)
{
  struct buffers buffers;
  buffers_fill(&buffers);
  float *dst = variant->limit == ACCUMULATE ? buffers.a : buffers.dst;
  const void *sources[2] = {buffers.a, buffers.b};
  variant->run(dst, sources, variant->limit == COPY ? 1 : 2, COUNT, &tt_reduce_plainly);
  for (int i = 0; i < COUNT + SPARE; i++) {
    float untouched = variant->limit == ACCUMULATE ? (float)(i + 1) : -1;
    float moved = (float)(i + 1) + (variant->limit == COPY ? 0 : (float)(1000 * i));
    float wanted = i < COUNT ? moved : untouched;
    if (dst[i] != wanted)
      fail_msg("%s %s: element %d is %g, not %g", limit_names[variant->limit], variant->name, i, (double)dst[i],
               (double)wanted);
  }
}

static void every_way_to_a_limit_moves_every_element(void **state)
{
  int seen[LIMITS] = {0};
  (void)state;
  for (const struct variant *variant = limit_variants; variant->name; variant++) {
    if (!variant->is_usable()) continue;
    variant_check(variant);
    seen[variant->limit]++;
  }
  for (int limit = 0; limit < LIMITS; limit++) assert_true(seen[limit] > 0);
}

static void the_plain_loop_gives_what_the_kernel_gives(void **state)
{
  static uint16_t a[1 << 16], b[1 << 16], got[1 << 16], wanted[1 << 16];
  const void *sources[2] = {a, b};
  size_t n = 0;
  (void)state;
  for (uint32_t bits = 0; bits < 1u << 16; bits++) {
    if ((bits & 0x7c00) == 0x7c00) continue; /* a NaN may be any there */
    a[n] = (uint16_t)bits;
    b[n] = (uint16_t)((bits * 40503u >> 3) & 0xbbffu); /* finite */
    n++;
  }
  loop_fp16_sum(got, sources, 2, n, NULL);
  tt_reduce_kernel(tuttiSum, tuttiFloat16)(wanted, sources, 2, n, NULL);
  assert_memory_equal(got, wanted, n * sizeof *got);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_to_a_limit_moves_every_element),
      cmocka_unit_test(the_plain_loop_gives_what_the_kernel_gives),
  };
  alarm(20);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
