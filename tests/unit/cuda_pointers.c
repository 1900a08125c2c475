/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory is a GPU's: known while a communicator has met CUDA, and taken for one if the driver fails to tell.
 * Labels: serial. */
#include <stdlib.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "cuda/cuda.h"
#include "fake_driver.h"

static void memory_is_known_by_its_kind(void **state)
{
  static const int is_gpus[] = {[FAKE_DEVICE] = 1, [FAKE_MANAGED] = 1, [FAKE_POOLED] = 1, [FAKE_PINNED] = 0};
  char here;
  (void)state;
  assert_true(fake_driver_begin());
  const struct fake_cuda *fake = fake_driver_load();
  for (int context = 0; context < FAKE_CONTEXTS; context++)
    for (int kind = 0; kind < 4; kind++) {
      char *memory = fake->alloc(context, (enum fake_memory)kind, 100);
      assert_int_equal(tt_cuda_has(memory), is_gpus[kind]);
      assert_int_equal(tt_cuda_has(memory + 99), is_gpus[kind]);
      fake->free(memory);
      assert_int_equal(tt_cuda_has(memory), 0);
    }
  assert_int_equal(tt_cuda_has(&here), 0);
  assert_int_equal(tt_cuda_has(NULL), 0);
  assert_true(fake_driver_end());
}

static void what_the_driver_fails_to_tell_is_no_memory_of_the_host(void **state)
{
  char here;
  (void)state;
  assert_true(fake_driver_begin());
  fake_driver_load()->fail_at(1, 999);
  assert_int_equal(tt_cuda_has(&here), 1);
  assert_int_equal(tt_cuda_has(&here), 0);
  assert_true(fake_driver_end());
}

static void nothing_is_asked_while_no_communicator_has_met_cuda(void **state)
{
  (void)state;
  const struct fake_cuda *fake = fake_driver_load();
  void *memory = fake->alloc(0, FAKE_DEVICE, 100);
  long calls = fake->count().calls;
  assert_int_equal(tt_cuda_has(memory), 0);
  assert_int_equal(fake->count().calls, calls);
  fake->free(memory);
}

int main(void)
{
  alarm(30);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_known_by_its_kind),
      cmocka_unit_test(what_the_driver_fails_to_tell_is_no_memory_of_the_host),
      cmocka_unit_test(nothing_is_asked_while_no_communicator_has_met_cuda),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
