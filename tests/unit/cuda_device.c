/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of CUDA memory keeps the contract of device.h, on a driver double that is late, out of order and
 * fails when it is told to.
 * Labels: serial. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "chance.h"
#include "cuda/cuda.h"
#include "fake_driver.h"
#include "on_device.h"

static const struct fake_cuda *fake;
static const struct tt_device *device;

static int begin(void **state)
{
  (void)state;
  device = fake_driver_begin();
  fake = fake_driver_load();
  return device ? 0 : -1;
}

static int end(void **state)
{
  (void)state;
  return fake_driver_end() ? 0 : -1;
}

static void wait_for(tt_ticket ticket)
{
  assert_int_equal(on_device_wait(device, ticket), tuttiSuccess);
}

/* ---- whose a pointer is ---- */

static void every_context_is_a_device_of_its_own(void **state)
{
  (void)state;
  const struct tt_device *seen[FAKE_CONTEXTS];
  for (int c = 0; c < FAKE_CONTEXTS; c++) {
    char *memory = fake->alloc(c, FAKE_DEVICE, 100);
    seen[c] = tt_device_of(memory + 99);
    assert_false(seen[c]->host);
    assert_true(seen[c]->owns(seen[c], memory));
    for (int other = 0; other < c; other++) {
      assert_ptr_not_equal(seen[other], seen[c]);
      assert_false(seen[other]->owns(seen[other], memory));
    }
    fake->free(memory);
  }
}

static void managed_and_pooled_memory_is_the_gpus_and_pinned_memory_the_hosts(void **state)
{
  (void)state;
  char *managed = fake->alloc(0, FAKE_MANAGED, 10), *pooled = fake->alloc(1, FAKE_POOLED, 10);
  char *pinned = fake->alloc(0, FAKE_PINNED, 10), *other = fake->alloc(1, FAKE_DEVICE, 10);
  int local;
  assert_ptr_equal(tt_device_of(managed), device);
  assert_ptr_equal(tt_device_of(pooled), tt_device_of(other)); /* the primary context */
  assert_ptr_equal(tt_device_of(pinned), &tt_host_device);
  assert_ptr_equal(tt_device_of(&local), &tt_host_device);
  assert_ptr_equal(tt_device_of(NULL), &tt_host_device);
  fake->free(managed);
  fake->free(pooled);
  fake->free(pinned);
  fake->free(other);
}

/* ---- copies ---- */

#define KINDS 6

/* Memory of any kind: device, managed, pooled, pinned, on another GPU, pageable. */
static char *memory_of(int kind, size_t len)
{
  if (kind == 5) return malloc(len + 1);
  return kind == 4 ? fake->alloc(1, FAKE_DEVICE, len) : fake->alloc(0, (enum fake_memory)kind, len);
}

static void memory_move(int kind, void *memory, void *host, size_t len, int write)
{
  if (kind == 5) memcpy(write ? memory : host, write ? host : memory, len);
  else if (write) fake->write(memory, host, len);
  else fake->read(host, memory, len);
}

static void memory_end(int kind, void *memory)
{
  if (kind == 5) free(memory);
  else fake->free(memory);
}

static void check_copy(int from, int to, size_t len)
{
  char *host = malloc(len + 1), *back = malloc(len + 1);
  char *source = memory_of(from, len), *target = memory_of(to, len);
  uint64_t chance = len;
  tt_ticket ticket = 99;
  for (size_t i = 0; i < len; i++) host[i] = (char)next(&chance);
  memory_move(from, source, host, len, 1);
  assert_int_equal(device->copy(device, target, source, len, &ticket), tuttiSuccess);
  wait_for(ticket);
  memory_move(to, target, back, len, 0);
  assert_memory_equal(back, host, len);
  memory_end(from, source);
  memory_end(to, target);
  free(host);
  free(back);
}

static void copies_arrive_between_all_kinds_of_memory(void **state)
{
  (void)state;
  static const size_t lengths[] = {0, 1, 4097, 262144, 262145, 1000003}; /* the stage is 262144 */
  for (int from = 0; from < KINDS; from++)
    for (int to = 0; to < KINDS; to++)
      for (size_t l = 0; l < 6; l++) check_copy(from, to, lengths[l]);
}

static void nothing_is_started_for_nothing(void **state)
{
  (void)state;
  long before = fake->count().calls;
  char *memory = fake->alloc(0, FAKE_DEVICE, 10);
  const void *sources[] = {memory};
  tt_ticket ticket = 99;
  assert_int_equal(device->copy(device, memory, memory, 10, &ticket), tuttiSuccess);
  assert_true(ticket == 0);
  ticket = 99;
  const struct tt_reduction none = {tuttiSum, tuttiFloat, memory, sources, 1, 0, NULL, NULL};
  assert_int_equal(device->reduce(device, &none, &ticket), tuttiSuccess);
  assert_true(ticket == 0);
  assert_int_equal(device->poll(device, 0), tuttiSuccess);
  device->free(device, NULL);
  assert_int_equal(fake->count().calls, before);
  fake->free(memory);
}

/* ---- tickets ---- */

#define MANY 200 /* more than a shelf */

static void tickets_end_late_out_of_order_and_once(void **state)
{
  (void)state;
  static int64_t host[MANY][8], seen[8];
  tt_ticket tickets[MANY];
  int64_t *memory = fake->alloc(0, FAKE_DEVICE, sizeof host);
  struct fake_cuda_counts before = fake->count();
  uint64_t chance = 3;
  int open = MANY;
  fake->hold(1);
  for (int i = 0; i < MANY; i++) {
    for (int k = 0; k < 8; k++) host[i][k] = i * 100 + k;
    assert_int_equal(device->copy(device, memory + i * 8, host[i], sizeof host[i], &tickets[i]), tuttiSuccess);
    assert_true(tickets[i] != 0);
  }
  for (int i = 0; i < MANY; i++) assert_int_equal(device->poll(device, tickets[i]), tuttiInProgress);
  fake->hold(0);
  while (open) {
    size_t i = below(&chance, MANY);
    tuttiResult_t result = tickets[i] ? device->poll(device, tickets[i]) : tuttiInProgress;
    if (result == tuttiInProgress) continue;
    assert_int_equal(result, tuttiSuccess);
    assert_int_equal(device->poll(device, tickets[i]), tuttiInternalError);
    fake->read(seen, memory + i * 8, sizeof seen);
    assert_memory_equal(seen, host[i], sizeof seen);
    tickets[i] = 0;
    open--;
  }
  assert_true(fake->count().overtaken > before.overtaken);
  assert_int_equal(device->poll(device, 0x100000ffffffu), tuttiInternalError);
  fake->free(memory);
}

/* The list of sources and the argument are read before reduce returns, pageable sources when they are needed. */
static void what_was_given_may_go_once_work_has_begun(void **state)
{
  (void)state;
  int64_t host[8], *memory = fake->alloc(0, FAKE_DEVICE, sizeof host), seen[8];
  struct tt_reduce_arg arg;
  tt_ticket ticket;
  for (int k = 0; k < 8; k++) host[k] = k;
  fake->write(memory, host, sizeof host);
  const void *sources[] = {memory, memory};
  tt_reduce_arg_make(&arg, TT_PREMUL_SUM, tuttiInt64, 4, 10, 1);
  struct tt_reduction what = {TT_PREMUL_SUM, tuttiInt64, memory, sources, 2, 8, &arg, NULL};
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiSuccess);
  memset(&arg, 0, sizeof arg);
  memset(sources, 0, sizeof sources);
  memset(&what, 0, sizeof what);
  wait_for(ticket);
  fake->read(seen, memory, sizeof seen);
  for (int k = 0; k < 8; k++) assert_int_equal(seen[k], 11 * k);
  fake->free(memory);
}

/* ---- reductions ---- */

static void reductions_longer_than_the_stage_are_cut(void **state)
{
  (void)state;
  static const int types[] = {tuttiInt8, tuttiFloat16, tuttiFloat32, tuttiFloat64};
  const struct on_device on = {device, 1};
  for (int t = 0; t < 4; t++)
    for (uint64_t seed = 1; seed < 5; seed++) {
      struct call call = call_plain(tuttiSum, types[t], 2 + (int)(seed & 1), 150001);
      call.seed = seed;
      call.align = seed * 3;
      call.streams = 1; /* asks for overflow */
      call.also = seed == 2 ? CALL_ALSO_APART : CALL_NO_ALSO;
      call.arg.wide = types[t] == tuttiFloat16 ? 1 : -1;
      call.arg.dst_wide = types[t] == tuttiFloat16 && seed > 2;
      const char *fault = on_device_fault(&on, &call);
      if (fault) fail_msg("%s", fault);
    }
}

/* One infinite element, first in the first source, then in the second. */
static void overflow_is_seen_wherever_it_is_and_nowhere_else(void **state)
{
  (void)state;
  enum { COUNT = 100 };
  static float host[2][COUNT + 3];
  float *memory[2] = {fake->alloc(0, FAKE_DEVICE, sizeof host[0]), fake->alloc(0, FAKE_DEVICE, sizeof host[0])};
  for (int nsrc = 1; nsrc <= 2; nsrc++)
    for (int at = -1; at < COUNT * nsrc; at++) {
      const void *sources[] = {memory[0] + 3, memory[1] + 3};
      int overflow = 0;
      tt_ticket ticket;
      memset(host, 0, sizeof host);
      if (at >= 0) host[at / COUNT][3 + at % COUNT] = -1e30f * 1e30f;
      for (int k = 0; k < 2; k++) fake->write(memory[k], host[k], sizeof host[k]);
      const struct tt_reduction what = {tuttiSum, tuttiFloat, memory[0] + 3, sources, nsrc, COUNT, NULL, &overflow};
      assert_int_equal(device->reduce(device, &what, &ticket), tuttiSuccess);
      assert_int_equal(overflow, 0);
      wait_for(ticket);
      assert_int_equal(overflow, at >= 0);
    }
  fake->free(memory[0]);
  fake->free(memory[1]);
}

/* Every one of the sources of the most there may be is pageable. */
static void a_thousand_sources_in_host_memory_are_reduced(void **state)
{
  (void)state;
  enum { SOURCES = 1024, COUNT = 100 };
  static int64_t host[SOURCES][COUNT], seen[COUNT];
  const void *sources[SOURCES + 1];
  int64_t *memory = fake->alloc(0, FAKE_DEVICE, sizeof seen);
  tt_ticket ticket;
  for (int k = 0; k < SOURCES; k++) {
    for (int i = 0; i < COUNT; i++) host[k][i] = (int64_t)k * 1000 + i;
    sources[k] = host[k];
  }
  sources[SOURCES] = host[0];
  struct tt_reduction what = {tuttiSum, tuttiInt64, memory, sources, SOURCES, COUNT, NULL, NULL};
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiSuccess);
  wait_for(ticket);
  fake->read(seen, memory, sizeof seen);
  for (int i = 0; i < COUNT; i++) assert_int_equal(seen[i], 1000ll * SOURCES * (SOURCES - 1) / 2 + SOURCES * i);
  setenv("TUTTI_DEBUG", "NONE", 1);
  what.nsrc = SOURCES + 1;
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiInternalError);
  what.nsrc = 0;
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiInternalError);
  fake->free(memory);
}

static void memory_of_two_gpus_is_copied_but_not_reduced(void **state)
{
  (void)state;
  float *here = fake->alloc(0, FAKE_DEVICE, 40), *there = fake->alloc(1, FAKE_DEVICE, 40);
  float *managed = fake->alloc(1, FAKE_MANAGED, 40);
  const void *sources[] = {here, there};
  tt_ticket ticket = 99;
  struct tt_reduction what = {tuttiSum, tuttiFloat, here, sources, 2, 10, NULL, NULL};
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiInvalidUsage);
  assert_true(ticket == 99);
  assert_non_null(strstr(tt_last_sentence(), "another GPU"));
  sources[1] = managed; /* every GPU reaches it */
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiSuccess);
  wait_for(ticket);
  fake->free(here);
  fake->free(there);
  fake->free(managed);
}

static void host_memory_alone_is_reduced_by_the_host(void **state)
{
  (void)state;
  long before = fake->count().launches;
  float *pinned = fake->alloc(0, FAKE_PINNED, 40), local[10], sum[10];
  const void *sources[] = {pinned, local};
  tt_ticket ticket = 99;
  for (int i = 0; i < 10; i++) pinned[i] = (float)i, local[i] = 100;
  struct tt_reduction what = {tuttiSum, tuttiFloat, sum, sources, 2, 10, NULL, NULL};
  assert_int_equal(device->reduce(device, &what, &ticket), tuttiSuccess);
  assert_true(ticket == 0);
  for (int i = 0; i < 10; i++) assert_true(sum[i] == (float)(100 + i));
  assert_int_equal(fake->count().launches, before);
  fake->free(pinned);
}

/* ---- threads ---- */

static void *reduce_for_a_while(void *number)
{
  int c = (int)(intptr_t)number % 2;
  const struct tt_device *mine;
  int32_t host[300], *memory = fake->alloc(c, FAKE_DEVICE, sizeof host);
  const void *sources[] = {memory, host};
  tt_ticket ticket;
  mine = tt_device_of(memory);
  memset(host, 0, sizeof host);
  fake->write(memory, host, sizeof host);
  for (int i = 0; i < 300; i++) host[i] = i;
  for (int round = 0; round < 50; round++) {
    const struct tt_reduction what = {tuttiSum, tuttiInt32, memory, sources, 2, 300, NULL, NULL};
    if (mine->reduce(mine, &what, &ticket) != tuttiSuccess || on_device_wait(mine, ticket) != tuttiSuccess)
      return "an error";
  }
  fake->read(host, memory, sizeof host);
  fake->free(memory);
  for (int i = 0; i < 300; i++)
    if (host[i] != 50 * i) return "a wrong result";
  return NULL;
}

static void threads_share_gpus(void **state)
{
  (void)state;
  pthread_t threads[6];
  void *trouble;
  for (int t = 0; t < 6; t++) pthread_create(&threads[t], NULL, reduce_for_a_while, (void *)(intptr_t)t);
  for (int t = 0; t < 6; t++) {
    pthread_join(threads[t], &trouble);
    assert_null(trouble);
  }
}

/* ---- failures ---- */

/* Whatever call fails, when the error is there the work is not: its memory may go. */
static void nothing_is_under_way_after_an_error(void **state)
{
  (void)state;
  static float host[100];
  float *memory = fake->alloc(0, FAKE_DEVICE, sizeof host);
  const void *sources[] = {memory, host};
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int n = 1; n < 200; n++) {
    const struct tt_reduction what = {tuttiSum, tuttiFloat, memory, sources, 2, 100, NULL, NULL};
    tt_ticket ticket = 0;
    fake->fail_at(1 + n % 13, 700);
    tuttiResult_t result = device->reduce(device, &what, &ticket);
    if (result == tuttiSuccess) result = on_device_wait(device, ticket);
    const char *call = fake->failed();
    fake->fail_at(0, 0);
    if (!call || strcmp(call, "cuCtxPushCurrent") != 0) assert_int_equal(fake->count().pending, 0);
    while (fake->count().pending) /* without its context nobody could wait for it */
      assert_true(on_device_move(device, memory + 50, memory, 4));
    if (result == tuttiSuccess) continue;
    assert_int_equal(result, tuttiUnhandledCudaError);
    if (ticket) assert_int_equal(device->poll(device, ticket), tuttiInternalError);
  }
  fake->free(memory);
}

static void work_that_cannot_start_is_used_again(void **state)
{
  (void)state;
  float *memory = fake->alloc(2, FAKE_DEVICE, 400);
  const struct tt_device *on = tt_device_of(memory);
  assert_true(on_device_move(on, memory, memory + 50, 200)); /* everything is made */
  long events = fake->count().events, failed = 0;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int n = 0; n < 600; n++) {
    tt_ticket ticket = 0;
    fake->fail_at(1 + n % 6, 700);
    tuttiResult_t result = on->copy(on, memory, memory + 50, 200, &ticket);
    fake->fail_at(0, 0);
    if (result == tuttiSuccess) assert_int_equal(on_device_wait(on, ticket), tuttiSuccess);
    failed += result != tuttiSuccess;
  }
  assert_int_equal(failed, 500); /* all but those whose context was not left, and none because there is no more work */
  assert_int_equal(fake->count().events, events);
  fake->free(memory);
}

/* What a communicator does with a device. `first`: the first error. */
struct life {
  tuttiResult_t first;
  char sentence[TT_SENTENCE_BYTES];
};

static int went_well(struct life *life, tuttiResult_t result)
{
  if (result == tuttiSuccess) return 1;
  if (life->first == tuttiSuccess) {
    life->first = result;
    snprintf(life->sentence, sizeof life->sentence, "%s", tt_last_sentence());
  }
  return 0;
}

/* Asks only when the GPU has nothing to do, so that a life has the same calls each time. */
static tuttiResult_t settle(const struct tt_device *on, tt_ticket ticket)
{
  tuttiResult_t result;
  do {
    while (fake->count().pending) usleep(10);
    result = on->poll(on, ticket);
  } while (result == tuttiInProgress);
  return result;
}

#define LIFE_COUNT 66000 /* fp32: more than one cut of pageable memory */

static void live_on(struct life *life, const struct tt_device *on, float *memory, enum fake_memory kind)
{
  static float host[LIFE_COUNT], back[LIFE_COUNT];
  const void *sources[] = {memory, host};
  tt_ticket first = 0, second = 0;
  int overflow = 0;
  (void)kind;
  float *scratch = on->alloc(on, sizeof host);
  if (!scratch) {
    went_well(life, tuttiUnhandledCudaError);
    return;
  }
  for (int i = 0; i < LIFE_COUNT; i++) host[i] = (float)i;
  int ok = went_well(life, on->copy(on, memory, host, sizeof host, &first)) && /* in cuts */
           went_well(life, settle(on, first));
  const struct tt_reduction what = {tuttiSum, tuttiFloat, scratch, sources, 2, LIFE_COUNT, NULL, &overflow};
  ok = ok && went_well(life, on->reduce(on, &what, &first));
  ok = ok && went_well(life, on->copy(on, back, memory, 1000, &second)) &&
       went_well(life, settle(on, second));
  if (ok) went_well(life, settle(on, first));
  else if (first) settle(on, first);
  if (life->first == tuttiSuccess && went_well(life, on->copy(on, back, scratch, sizeof back, &first)) &&
      went_well(life, settle(on, first)))
    for (int i = 0; i < LIFE_COUNT; i++) assert_true(back[i] == 2 * (float)i && !overflow);
  on->free(on, scratch);
}

static struct life live(enum fake_memory kind)
{
  struct life life = {.first = tuttiSuccess};
  struct tt_settings settings;
  int joined = 0;
  setenv("TUTTI_CUDA", "1", 1);
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  unsetenv("TUTTI_CUDA");
  float *memory = fake->alloc(0, kind, LIFE_COUNT * sizeof(float));
  if (went_well(&life, tt_cuda_join(&settings, &joined))) {
    const struct tt_device *on = tt_device_of(memory);
    assert_false(on->host);
    live_on(&life, on, memory, kind);
  }
  if (joined) tt_cuda_leave();
  fake->free(memory);
  return life;
}

/* In a context that is not entered nothing can be given back, and nobody need know of what was not. */
static int only_releases(const char *call)
{
  static const char *const names[] = {"cuCtxPushCurrent",     "cuCtxPopCurrent", "cuMemFree",
                                      "cuMemFreeHost",        "cuStreamDestroy", "cuEventDestroy",
                                      "cuModuleUnload",       "cuStreamSynchronize",
                                      "cuDevicePrimaryCtxRelease"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (strcmp(call, names[k]) == 0) return 1;
  return 0;
}

static void check_failure(const struct life *life, const char *call, const char *text)
{
  if (life->first == tuttiSuccess) {
    if (!only_releases(call)) fail_msg("%s failed and nobody said so", call);
    return;
  }
  assert_int_equal(life->first, tuttiUnhandledCudaError);
  if (!strstr(life->sentence, call) || !strstr(life->sentence, text))
    fail_msg("%s failed, but the sentence is: %s", call, life->sentence);
}

static void check_failures_of(enum fake_memory kind)
{
  static const int codes[] = {2, 999};
  static const char *const texts[] = {"out of memory", "trouble made for a test"};
  long before = fake->count().calls;
  assert_int_equal(live(kind).first, tuttiSuccess);
  long calls = fake->count().calls - before;
  assert_true(calls > 100);
  for (long n = 1; n <= calls; n++) {
    fake->fail_at(n, codes[n % 2]);
    struct life life = live(kind);
    const char *call = fake->failed();
    fake->fail_at(0, 0);
    assert_non_null(call);
    check_failure(&life, call, texts[n % 2]);
    if (strcmp(call, "cuCtxPushCurrent") == 0) fake->forget();
    else if (!fake_driver_is_clean()) fail_msg("after the failure of call %ld, %s", n, call);
  }
}

static void every_failure_of_the_driver_is_an_error_that_names_it_and_leaves_nothing(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  tt_cuda_leave();
  check_failures_of(FAKE_DEVICE);
  check_failures_of(FAKE_POOLED);
  device = fake_driver_begin();
  assert_non_null(device);
}

static void no_memory_is_an_error_that_leaves_nothing(void **state)
{
  (void)state;
  tt_cuda_leave();
  for (long n = 1;; n++) {
    tt_alloc_fail_at(n);
    struct life life = live(FAKE_DEVICE);
    long left = atomic_load(&tt_process.alloc_countdown);
    tt_alloc_fail_at(0);
    assert_true(fake_driver_is_clean());
    if (life.first == tuttiSuccess && left > 0) break; /* there are fewer allocations */
    if (life.first != tuttiSuccess) assert_non_null(strstr(life.sentence, "out of memory"));
    assert_true(n < 100);
  }
  device = fake_driver_begin();
}

static void without_kernels_memory_is_copied_and_a_reduction_says_why_not(void **state)
{
  (void)state;
  float *memory = fake->alloc(2, FAKE_DEVICE, 40), host[10] = {1, 2, 3};
  const void *sources[] = {memory, host};
  const struct tt_device *on = tt_device_of(memory); /* of a context that has no kernels yet */
  struct tt_reduction what = {tuttiSum, tuttiFloat, memory, sources, 2, 10, NULL, NULL};
  tt_ticket ticket;
  fake->kernels(0);
  assert_true(on_device_move(on, memory, host, sizeof host));
  tuttiResult_t result = on->reduce(on, &what, &ticket);
  fake->kernels(1);
  assert_true(result == tuttiInvalidUsage || result == tuttiUnhandledCudaError);
  assert_non_null(strstr(tt_last_sentence(), result == tuttiInvalidUsage ? "built without" : "cuModuleGetFunction"));
  assert_int_equal(on->reduce(on, &what, &ticket), tuttiSuccess); /* it is tried again */
  assert_int_equal(on_device_wait(on, ticket), tuttiSuccess);
  fake->free(memory);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_context_is_a_device_of_its_own),
      cmocka_unit_test(managed_and_pooled_memory_is_the_gpus_and_pinned_memory_the_hosts),
      cmocka_unit_test(copies_arrive_between_all_kinds_of_memory),
      cmocka_unit_test(nothing_is_started_for_nothing),
      cmocka_unit_test(tickets_end_late_out_of_order_and_once),
      cmocka_unit_test(what_was_given_may_go_once_work_has_begun),
      cmocka_unit_test(reductions_longer_than_the_stage_are_cut),
      cmocka_unit_test(overflow_is_seen_wherever_it_is_and_nowhere_else),
      cmocka_unit_test(a_thousand_sources_in_host_memory_are_reduced),
      cmocka_unit_test(memory_of_two_gpus_is_copied_but_not_reduced),
      cmocka_unit_test(host_memory_alone_is_reduced_by_the_host),
      cmocka_unit_test(threads_share_gpus),
      cmocka_unit_test(without_kernels_memory_is_copied_and_a_reduction_says_why_not),
      cmocka_unit_test(nothing_is_under_way_after_an_error),
      cmocka_unit_test(work_that_cannot_start_is_used_again),
      cmocka_unit_test(every_failure_of_the_driver_is_an_error_that_names_it_and_leaves_nothing),
      cmocka_unit_test(no_memory_is_an_error_that_leaves_nothing),
  };
  alarm(120);
  return cmocka_run_group_tests(tests, begin, end);
}
