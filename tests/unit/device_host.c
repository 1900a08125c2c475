/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory as a device, and who owns a pointer.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/device.h"

static const struct tt_device *const host = &tt_host_device;

static void copy_is_done_when_it_returns(void **state)
{
  (void)state;
  char from[100], to[100] = {0};
  tt_ticket ticket = 77;
  for (int i = 0; i < 100; i++) from[i] = (char)(i + 1);
  assert_int_equal(host->copy(host, to + 1, from, 98, &ticket), tuttiSuccess);
  assert_true(ticket == 0);
  assert_int_equal(to[0], 0);
  assert_memory_equal(to + 1, from, 98);
  assert_int_equal(to[99], 0);
  assert_int_equal(host->poll(host, 0), tuttiSuccess);
}

static void copy_of_nothing_or_onto_itself_is_allowed(void **state)
{
  (void)state;
  char byte = 5;
  tt_ticket ticket = 77;
  assert_int_equal(host->copy(host, NULL, NULL, 0, &ticket), tuttiSuccess);
  assert_int_equal(host->copy(host, &byte, &byte, 1, &ticket), tuttiSuccess);
  assert_int_equal(byte, 5);
  assert_true(ticket == 0);
}

static void reduce_runs_the_kernel_at_once(void **state)
{
  (void)state;
  const int32_t a[2] = {1, -5}, b[2] = {10, 20}, c[2] = {100, 200};
  int32_t result[2];
  const void *sources[3] = {a, b, c};
  struct tt_reduce_arg arg;
  tt_ticket ticket = 77;
  tt_reduce_arg_make(&arg, tuttiSum, tuttiInt32, 3, 0, -1);
  const struct tt_reduction what = {tuttiSum, tuttiInt32, result, sources, 3, 2, &arg, NULL};
  assert_int_equal(host->reduce(host, &what, &ticket), tuttiSuccess);
  assert_true(ticket == 0);
  assert_int_equal(result[0], 111);
  assert_int_equal(result[1], 215);
}

static void unknown_reductions_and_tickets_are_errors(void **state)
{
  (void)state;
  struct tt_reduce_arg arg = tt_reduce_plainly;
  int32_t value = 3;
  const void *sources[1] = {&value};
  tt_ticket ticket = 77;
  const struct tt_reduction what = {99, tuttiInt32, &value, sources, 1, 1, &arg, NULL};
  assert_int_equal(host->reduce(host, &what, &ticket), tuttiInternalError);
  assert_non_null(strstr(tt_last_sentence(), "op 99"));
  assert_true(ticket == 77);
  assert_int_equal(host->poll(host, 1), tuttiInternalError);
}

static void memory_is_writable_and_running_out_is_null(void **state)
{
  (void)state;
  char *memory = host->alloc(host, 1000);
  assert_non_null(memory);
  memset(memory, 1, 1000);
  host->free(host, memory);
  host->free(host, NULL);
  tt_alloc_fail_at(1);
  assert_null(host->alloc(host, 1000));
}

static int owns_low_half(const struct tt_device *device, const void *pointer)
{
  (void)device;
  return (uintptr_t)pointer < 0x1000;
}

static void a_pointer_belongs_to_the_device_that_owns_it_else_to_the_host(void **state)
{
  (void)state;
  const struct tt_device low = {.name = "low", .owns = owns_low_half};
  const void *there = (const void *)(uintptr_t)0x800, *here = &low;
  assert_ptr_equal(tt_device_of(there), host);
  assert_ptr_equal(tt_device_of(NULL), host);
  assert_int_equal(tt_device_register(&low), tuttiSuccess);
  assert_ptr_equal(tt_device_of(there), &low);
  assert_ptr_equal(tt_device_of(here), host);
  tt_device_unregister(&low);
  assert_ptr_equal(tt_device_of(there), host);
}

static int owns_none(const struct tt_device *device, const void *pointer)
{
  (void)device;
  (void)pointer;
  return 0;
}

static void at_most_four_devices_are_registered_once_each(void **state)
{
  (void)state;
  struct tt_device devices[TT_DEVICES + 1];
  for (int i = 0; i <= TT_DEVICES; i++)
    devices[i] = (struct tt_device){.name = "none", .owns = owns_none};
  assert_int_equal(tt_device_register(NULL), tuttiInvalidArgument);
  for (int i = 0; i < TT_DEVICES; i++)
    assert_int_equal(tt_device_register(&devices[i]), tuttiSuccess);
  assert_int_equal(tt_device_register(&devices[0]), tuttiInvalidUsage);
  assert_int_equal(tt_device_register(&devices[TT_DEVICES]), tuttiInternalError);
  tt_device_unregister(&devices[1]);
  tt_device_unregister(&devices[1]);
  tt_device_unregister(NULL);
  devices[TT_DEVICES].owns = owns_low_half;
  assert_int_equal(tt_device_register(&devices[TT_DEVICES]), tuttiSuccess);
  assert_ptr_equal(tt_device_of((const void *)(uintptr_t)1), &devices[TT_DEVICES]);
  for (int i = 0; i <= TT_DEVICES; i++) tt_device_unregister(&devices[i]);
  assert_int_equal(tt_process.device_count, 0); /* the short way for host memory is open again */
  assert_ptr_equal(tt_device_of((const void *)(uintptr_t)1), host);
}

int main(void)
{
  alarm(30);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copy_is_done_when_it_returns),
      cmocka_unit_test(copy_of_nothing_or_onto_itself_is_allowed),
      cmocka_unit_test(reduce_runs_the_kernel_at_once),
      cmocka_unit_test(unknown_reductions_and_tickets_are_errors),
      cmocka_unit_test(memory_is_writable_and_running_out_is_null),
      cmocka_unit_test(a_pointer_belongs_to_the_device_that_owns_it_else_to_the_host),
      cmocka_unit_test(at_most_four_devices_are_registered_once_each),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
