/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake device of the harness is as unkind as it says, or it would prove nothing. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_device.h"

#define LEN 64
#define MANY 40

static void wait_for(const struct tt_device *device, tt_ticket ticket)
{
  tuttiResult_t result;
  do result = device->poll(device, ticket);
  while (result == tuttiInProgress);
  assert_int_equal(result, tuttiSuccess);
}

/* A copy that did not end at once. */
static tt_ticket copy_started(const struct tt_device *device, void *dst, const void *src)
{
  tt_ticket ticket = 0;
  while (ticket == 0) assert_int_equal(device->copy(device, dst, src, LEN, &ticket), tuttiSuccess);
  return ticket;
}

static void the_cpu_cannot_touch_its_memory(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(1);
  volatile char *memory = device->alloc(device, LEN);
  int status, pipe_ends[2];
  assert_ptr_equal(tt_device_of((const char *)memory + LEN - 1), device);
  assert_ptr_equal(tt_device_of(&status), &tt_host_device);
  for (int writing = 0; writing < 2; writing++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      signal(SIGSEGV, SIG_DFL);
      if (writing) memory[0] = 1;
      _exit(memory[LEN - 1] == 12 ? 1 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  }
  assert_int_equal(pipe(pipe_ends), 0);
  assert_int_equal(write(pipe_ends[1], (const char *)memory, 1), -1);
  assert_int_equal(errno, EFAULT);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  device->free(device, (char *)memory);
  assert_int_equal(fake_device_destroy(device).allocated, 0);
}

static void work_is_done_when_its_ticket_is_and_not_before(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(2);
  char *memory = device->alloc(device, LEN), text[LEN] = "first", seen[LEN];
  fake_device_write(device, memory, text, LEN);
  tt_ticket ticket = copy_started(device, memory, text);
  fake_device_read(device, seen, memory, LEN);
  assert_memory_not_equal(seen, text, LEN); /* the same text is there only after the work */
  strcpy(text, "second");                   /* too early: the source is still needed */
  wait_for(device, ticket);
  fake_device_read(device, seen, memory, LEN);
  assert_string_equal(seen, "second");
  device->free(device, memory);
  struct fake_device_counts counts = fake_device_destroy(device);
  assert_int_equal(counts.outstanding, 0);
  assert_int_equal(counts.breaches, 0);
}

static void tickets_end_late_and_in_another_order(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(3);
  char *memory = device->alloc(device, MANY * LEN), text[LEN] = "text", seen[LEN];
  tt_ticket tickets[MANY];
  int open = MANY;
  for (int i = 0; i < MANY; i++) tickets[i] = copy_started(device, memory + i * LEN, text);
  assert_int_equal(fake_device_count(device).outstanding, MANY);
  while (open)
    for (int i = 0; i < MANY; i++) {
      if (!tickets[i] || device->poll(device, tickets[i]) == tuttiInProgress) continue;
      fake_device_read(device, seen, memory + i * LEN, LEN);
      assert_string_equal(seen, "text");
      tickets[i] = 0;
      open--;
    }
  struct fake_device_counts counts = fake_device_destroy(device);
  assert_int_equal(counts.most, MANY);
  assert_int_equal(counts.outstanding, 0);
  assert_int_equal(counts.allocated, 1);
  assert_true(counts.overtaken > 0 && counts.waits > 0 && counts.at_once > 0);
  assert_int_equal(counts.breaches, 0);
}

static void the_same_seed_gives_the_same_order(void **state)
{
  (void)state;
  long waits[3];
  const uint64_t seeds[3] = {5, 5, 6};
  for (int run = 0; run < 3; run++) {
    const struct tt_device *device = fake_device_create(seeds[run]);
    char *memory = device->alloc(device, LEN), text[LEN] = "";
    for (int i = 0; i < 50; i++) wait_for(device, copy_started(device, memory, text));
    waits[run] = fake_device_destroy(device).waits;
  }
  assert_int_equal(waits[0], waits[1]);
  assert_int_not_equal(waits[0], waits[2]);
}

static void reduce_gives_what_the_host_gives(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(7);
  float *memory = device->alloc(device, 2 * LEN), a[16], b[16], wanted[16], seen[16];
  struct tt_reduce_arg arg;
  tt_ticket ticket;
  for (int i = 0; i < 16; i++) {
    a[i] = (float)i;
    b[i] = (float)(100 * i);
    wanted[i] = a[i] / 4 + b[i];
  }
  for (int round = 0; round < 20; round++) {
    const void *sources[2] = {memory, b}; /* dst is a source; the other is host memory */
    tt_reduce_arg_make(&arg, tuttiAvg, tuttiFloat32, 4, 0, 0);
    fake_device_write(device, memory, a, sizeof a);
    const struct tt_reduction what = {tuttiAvg, tuttiFloat32, memory, sources, 2, 16, &arg, NULL};
    assert_int_equal(device->reduce(device, &what, &ticket), tuttiSuccess);
    sources[0] = sources[1] = NULL; /* copied before it returned */
    memset(&arg, 0, sizeof arg);
    wait_for(device, ticket);
    fake_device_read(device, seen, memory, sizeof seen);
    assert_memory_equal(seen, wanted, sizeof seen);
  }
  device->free(device, memory);
  assert_int_equal(fake_device_destroy(device).breaches, 0);
}

static void reduce_takes_many_sources_and_scales_the_one_that_is_named(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(12);
  int64_t *memory = device->alloc(device, LEN), seen[8];
  int64_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const void *sources[1025];
  struct tt_reduce_arg arg;
  tt_ticket ticket;
  for (int k = 0; k < 1025; k++) sources[k] = values;
  tt_reduce_arg_make(&arg, TT_PREMUL_SUM, tuttiInt64, 4, 77, 1023);
  struct tt_reduction what = {TT_PREMUL_SUM, tuttiInt64, memory, sources, 1024, 8, &arg, NULL};
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiSuccess);
  wait_for(device, ticket);
  fake_device_read(device, seen, memory, sizeof seen);
  for (int i = 0; i < 8; i++) assert_int_equal(seen[i], 1100 * values[i]);
  what.nsrc = 1025;
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiInternalError);
  what.nsrc = 1023; /* there is no source 1023 then */
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiInternalError);
  device->free(device, memory);
  assert_int_equal(fake_device_destroy(device).breaches, 2);
}

static void breaches_of_the_contract_are_refused_and_counted(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(8);
  char *memory = device->alloc(device, 4 * LEN), text[LEN] = "", other[LEN] = "";
  tt_ticket ticket = copy_started(device, memory, text), unused = 9;
  assert_int_equal(device->copy(device, memory + LEN - 1, other, LEN, &unused), tuttiInternalError);
  assert_int_equal(device->copy(device, other, memory, LEN, &unused), tuttiInternalError);
  assert_int_equal(device->copy(device, text, other, LEN, &unused), tuttiInternalError);
  assert_int_equal(device->copy(device, memory + 3 * LEN + 1, other, LEN, &unused), tuttiInternalError);
  assert_int_equal(device->copy(device, other, other + 1, LEN - 1, &unused), tuttiInternalError);
  assert_true(unused == 9);
  wait_for(device, ticket);
  assert_int_equal(device->poll(device, ticket), tuttiInternalError);
  device->free(device, memory);
  device->free(device, memory);
  device->free(device, NULL);
  assert_int_equal(device->copy(device, memory, other, LEN, &unused), tuttiInternalError);
  assert_int_equal(fake_device_destroy(device).breaches, 8);
}

static void what_is_not_waited_for_is_counted(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(9);
  char *memory = device->alloc(device, LEN), text[LEN] = "";
  copy_started(device, memory, text);
  struct fake_device_counts counts = fake_device_destroy(device);
  assert_int_equal(counts.outstanding, 1);
  assert_int_equal(counts.allocated, 1);
  assert_ptr_equal(tt_device_of(memory), &tt_host_device);
}

static void allocations_do_not_overlap_and_are_used_again(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(10);
  char *first = device->alloc(device, 10000), *second = device->alloc(device, 1);
  assert_true(second >= first + 10000 || second + 1 <= first);
  device->free(device, first);
  char *third = device->alloc(device, 20000), *fourth = device->alloc(device, 10000);
  assert_true(third > second);
  assert_ptr_equal(fourth, first);
  assert_null(device->alloc(device, (size_t)1 << 40));
  assert_int_equal(fake_device_destroy(device).allocated, 3);
}

static void *work_much(void *argument)
{
  const struct tt_device *device = argument;
  char *memory = device->alloc(device, LEN), text[LEN];
  for (int i = 0; i < 200; i++) {
    char seen[LEN];
    memset(text, i, LEN);
    wait_for(device, copy_started(device, memory, text));
    tt_ticket ticket;
    if (tt_device_of(memory) != device) return "owner";
    if (device->copy(device, seen, memory, LEN, &ticket)) return "copy";
    wait_for(device, ticket);
    if (memcmp(seen, text, LEN) != 0) return "bytes";
  }
  device->free(device, memory);
  return NULL;
}

static void threads_may_use_it_at_the_same_time(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(11);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work_much, (void *)(uintptr_t)device), 0);
  for (int i = 0; i < 3; i++) {
    void *fault;
    pthread_join(threads[i], &fault);
    assert_null(fault);
  }
  struct fake_device_counts counts = fake_device_destroy(device);
  assert_int_equal(counts.breaches, 0);
  assert_int_equal(counts.outstanding, 0);
}

int main(void)
{
  alarm(60);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cpu_cannot_touch_its_memory),
      cmocka_unit_test(work_is_done_when_its_ticket_is_and_not_before),
      cmocka_unit_test(tickets_end_late_and_in_another_order),
      cmocka_unit_test(the_same_seed_gives_the_same_order),
      cmocka_unit_test(reduce_gives_what_the_host_gives),
      cmocka_unit_test(reduce_takes_many_sources_and_scales_the_one_that_is_named),
      cmocka_unit_test(breaches_of_the_contract_are_refused_and_counted),
      cmocka_unit_test(what_is_not_waited_for_is_counted),
      cmocka_unit_test(allocations_do_not_overlap_and_are_used_again),
      cmocka_unit_test(threads_may_use_it_at_the_same_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
