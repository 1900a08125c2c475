/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver double by itself: what it promises of streams, and each of its adversaries. Each test is a process of its
 * own with its own settings.
 * Labels: processes. */
#include <errno.h>
#include <sys/prctl.h>

#include "self_test.h"

/* ---- memory and copies ---- */

static void memory(void)
{
  int ends[2];
  unsigned type = 0;
  CHECK(pipe(ends) == 0);
  CHECK(write(ends[1], (void *)(uintptr_t)own.memory[0], 1) < 0 && errno == EFAULT);
  OK(cu.cuPointerGetAttribute(&type, 2, own.memory[0] + 1));
  CHECK(type == 2);
  OK(cu.cuPointerGetAttribute(&type, 2, address(own.words)));
  CHECK(type == 1);
  CHECK(cu.cuPointerGetAttribute(&type, 2, address(&type)) == 1);
  memset(own.host, 7, LEN);
  OK(cu.cuMemcpyAsync(own.memory[0], address(own.host), LEN, own.streams[0]));
  OK(cu.cuMemcpyAsync(own.memory[1] + 1, own.memory[0], LEN - 1, own.streams[0]));
  OK(cu.cuMemsetD8Async(own.memory[1], 8, 1, own.streams[0]));
  OK(cu.cuStreamSynchronize(own.streams[0]));
  unsigned char pageable[LEN];
  OK(cu.cuMemcpyDtoH_v2(pageable, own.memory[1], LEN));
  CHECK(pageable[0] == 8 && pageable[1] == 7 && pageable[LEN - 1] == 7);
  CHECK(cu.cuMemcpyAsync(own.memory[0], address(own.host), LEN + 1, own.streams[0]) == 0);
  CHECK(cu.cuStreamSynchronize(own.streams[0]) == 700); /* beyond the end: illegal address, for ever */
  CHECK(cu.cuStreamQuery(own.streams[1]) == 700);
}

static void only_gpus_reach_memory_and_within_its_bounds(void **state)
{
  (void)state;
  with("", memory);
}

static void rows(void)
{
  struct copy_2d copy = {.src_type = 1, .src_host = own.host, .src_pitch = 8, .dst_type = 2,
                         .dst_device = own.memory[0], .dst_pitch = 4, .width = 4, .height = 100};
  for (int i = 0; i < 800; i++) own.host[i] = (unsigned char)(i % 8 < 4 ? i / 8 : 255);
  OK(cu.cuMemcpy2DAsync_v2(&copy, own.streams[0]));
  OK(cu.cuMemcpyAsync(address(own.host), own.memory[0], 400, own.streams[0]));
  OK(cu.cuStreamSynchronize(own.streams[0]));
  for (int i = 0; i < 400; i++) CHECK(own.host[i] == i / 4);
}

static void rows_are_copied(void **state)
{
  (void)state;
  with("", rows);
}

/* ---- streams ---- */

static void parked_alone(void)
{
  park(own.streams[0], 0);
  write_word(own.streams[0], 1, 1);
  write_word(own.streams[1], 2, 1);
  OK(cu.cuStreamSynchronize(own.streams[1]));
  CHECK(word(1) == 0 && word(2) == 1);
  CHECK(cu.cuStreamQuery(own.streams[0]) == 600);
  set_word(0, 1);
  OK(cu.cuCtxSynchronize());
  CHECK(word(1) == 1);
}

static void parked_together(void)
{
  park(own.streams[0], 0);
  write_word(own.streams[1], 2, 1);
  usleep(50000);
  CHECK(word(2) == 0 && cu.cuStreamQuery(own.streams[1]) == 600);
  set_word(0, 1);
  OK(cu.cuStreamSynchronize(own.streams[1]));
}

static void a_parked_wait_blocks_its_channel_and_no_other(void **state)
{
  (void)state;
  with("FAKE_CHANNELS=32", parked_alone);
  with("FAKE_CHANNELS=2", parked_alone);
  with("FAKE_CHANNELS=1", parked_together);
  with("CUDA_DEVICE_MAX_CONNECTIONS=1", parked_together);
}

/* Each stream adds to what the other one has written. */
static void order(void)
{
  void *event;
  OK(cu.cuEventCreate(&event, 2));
  OK(cu.cuStreamWaitEvent(own.streams[1], event, 0)); /* never recorded: no wait */
  for (int round = 1; round <= 50; round++)
    for (int s = 0; s < 2; s++) {
      OK(cu.cuMemsetD8Async(own.memory[0], (unsigned char)(2 * round + s), LEN, own.streams[s]));
      OK(cu.cuMemcpyAsync(address(own.host), own.memory[0], LEN, own.streams[s]));
      OK(cu.cuEventRecord(event, own.streams[s]));
      OK(cu.cuStreamWaitEvent(own.streams[1 - s], event, 0));
    }
  OK(cu.cuEventSynchronize(event));
  OK(cu.cuEventQuery(event));
  CHECK(own.host[0] == 101 && own.host[LEN - 1] == 101);
}

static void legacy(void)
{
  void *blocking;
  OK(cu.cuStreamCreate(&blocking, 0));
  park(blocking, 0);
  write_word(NULL, 1, 1);
  write_word(own.streams[1], 2, 1); /* it does not wait for the legacy stream */
  OK(cu.cuStreamSynchronize(own.streams[1]));
  CHECK(cu.cuStreamQuery(NULL) == 600 && word(1) == 0);
  write_word((void *)2, 3, 1); /* the thread's own does */
  usleep(20000);
  CHECK(word(3) == 0);
  set_word(0, 1);
  OK(cu.cuStreamSynchronize((void *)2));
  CHECK(word(1) == 1 && word(3) == 1);
}

static void events_and_the_legacy_stream_order_streams(void **state)
{
  (void)state;
  with("FAKE_SEED=3 FAKE_DELAY_US=100", order);
  with("FAKE_CHANNELS=1", order);
  with("FAKE_CHANNELS=32 FAKE_SEED=9", legacy);
}

static void words(void)
{
  struct memop list[256] = {{.operation = 2, .address = address(&own.words[4]), .value = 9}};
  for (int k = 1; k < 256; k++) list[k] = list[0];
  set_word(1, 0x7fffffff);
  OK(cu.cuStreamWaitValue32_v2(own.streams[0], address(&own.words[1]), 0x80000000u, 0)); /* cyclic: not yet */
  OK(cu.cuStreamBatchMemOp_v2(own.streams[0], 255, list, 0));
  usleep(20000);
  CHECK(word(4) == 0);
  set_word(1, 0x80000001u);
  OK(cu.cuStreamSynchronize(own.streams[0]));
  CHECK(word(4) == 9);
  CHECK(cu.cuStreamBatchMemOp_v2(own.streams[0], 256, list, 0) == 1);
  list[0].address = address(list);
  CHECK(cu.cuStreamBatchMemOp_v2(own.streams[0], 1, list, 0) == 1);
}

static void words_are_written_and_waited_for(void **state)
{
  (void)state;
  with("", words);
}

/* ---- kernels ---- */

static void kernels(void)
{
  void *module, *function;
  uint32_t value = 3, until = 5;
  uint64_t len = LEN, n = LEN / 4, spin = address(&own.words[0]), count = address(&own.words[1]);
  OK(cu.cuModuleLoadData(&module, client_ptx));
  CHECK(cu.cuModuleGetFunction(&function, module, "nothing") == 500);
  launch(module, "fill", own.streams[0], (void *[]){&own.memory[0], &len, &value});
  launch(module, "fill", own.streams[0], (void *[]){&own.memory[1], &len, &value});
  launch(module, "spin_until_word", own.streams[0], (void *[]){&spin, &until});
  launch(module, "add", own.streams[0], (void *[]){&own.memory[0], &own.memory[1], &n});
  launch(module, "check", own.streams[0], (void *[]){&own.memory[0], &own.memory[1], &len, &count});
  usleep(10000);
  CHECK(word(1) == 0);
  set_word(0, 5);
  OK(cu.cuStreamSynchronize(own.streams[0]));
  CHECK(word(1) == LEN);
  OK(cu.cuMemcpyDtoH_v2(own.host, own.memory[0], LEN));
  CHECK(own.host[0] == 6 && own.host[LEN - 1] == 6);
  OK(cu.cuModuleUnload(module));
}

static void kernels_of_clients_run_by_the_names_of_their_entries(void **state)
{
  (void)state;
  with("", kernels);
}

static void blocked_launch(void)
{
  void *module;
  uint64_t len = LEN;
  uint32_t value = 3;
  OK(cu.cuModuleLoadData(&module, client_ptx));
  for (int i = 0; i < 20; i++) {
    launch(module, "fill", own.streams[0], (void *[]){&own.memory[0], &len, &value});
    CHECK(cu.cuStreamQuery(own.streams[0]) == 0);
  }
}

static void launches_can_block(void **state)
{
  (void)state;
  with("CUDA_LAUNCH_BLOCKING=1 FAKE_DELAY_US=5000", blocked_launch);
}

/* ---- adversaries ---- */

static int has_copied, has_freed;

static void *copier(void *unused)
{
  OK(cu.cuCtxSetCurrent(own.context));
  OK(cu.cuMemcpyAsync(own.memory[0], address(own.host), 1, own.streams[1]));
  __atomic_store_n(&has_copied, 1, __ATOMIC_SEQ_CST);
  return unused;
}

static void *freer(void *unused)
{
  OK(cu.cuCtxSetCurrent(own.context));
  OK(cu.cuMemFree_v2(own.memory[1]));
  __atomic_store_n(&has_freed, 1, __ATOMIC_SEQ_CST);
  return unused;
}

/* The word that ends it is stored without the driver. */
static void free_beside(int locks)
{
  pthread_t threads[2];
  park(own.streams[0], 0);
  pthread_create(&threads[0], NULL, freer, NULL);
  usleep(30000);
  pthread_create(&threads[1], NULL, copier, NULL);
  if (!locks) pthread_join(threads[1], NULL);
  usleep(30000);
  CHECK(!__atomic_load_n(&has_freed, __ATOMIC_SEQ_CST));
  CHECK(__atomic_load_n(&has_copied, __ATOMIC_SEQ_CST) == !locks);
  set_word(0, 1);
  pthread_join(threads[0], NULL);
  if (locks) pthread_join(threads[1], NULL);
}

static void free_locks(void)
{
  free_beside(1);
}

static void free_waits(void)
{
  free_beside(0);
}

static void a_free_waits_and_can_shut_everybody_out(void **state)
{
  (void)state;
  with("", free_waits);
  with("FAKE_FREE=lock", free_locks);
}

static void seal(void)
{
  uint64_t memory;
  void *made;
  cu.seal(1);
  CHECK(cu.cuMemAlloc_v2(&memory, 8) == 800 && cu.cuMemFree_v2(own.memory[0]) == 800);
  CHECK(cu.cuStreamCreate(&made, 1) == 800 && cu.cuEventCreate(&made, 2) == 800);
  CHECK(cu.cuMemHostAlloc(&made, 8, 3) == 800 && cu.cuModuleLoadData(&made, client_ptx) == 800);
  CHECK(cu.cuMemHostRegister_v2(own.words + 2048, 8, 3) == 800);
  write_word(own.streams[0], 0, 1);
  OK(cu.cuStreamSynchronize(own.streams[0]));
  cu.seal(0);
  OK(cu.cuMemFree_v2(own.memory[0]));
}

static void after_the_seal_nothing_is_made_or_freed(void **state)
{
  (void)state;
  with("", seal);
}

static int submitted;

static void *submitter(void *unused)
{
  OK(cu.cuCtxSetCurrent(own.context));
  for (int i = 0; i < 100; i++) {
    write_word(own.streams[0], 1, 1);
    __atomic_add_fetch(&submitted, 1, __ATOMIC_SEQ_CST);
  }
  return unused;
}

static void full(void)
{
  pthread_t thread;
  park(own.streams[0], 0);
  pthread_create(&thread, NULL, submitter, NULL);
  usleep(50000);
  CHECK(__atomic_load_n(&submitted, __ATOMIC_SEQ_CST) <= 63);
  set_word(0, 1);
  pthread_join(thread, NULL);
}

static void a_full_channel_blocks_the_caller(void **state)
{
  (void)state;
  with("FAKE_PUSH=64", full);
}

/* Rounds in which the word was there, and the bytes behind it were not. */
static int stale_rounds(void)
{
  int stale = 0;
  for (uint32_t round = 1; round <= 100; round++) {
    memset(own.host, 0, LEN);
    OK(cu.cuMemsetD8Async(own.memory[0], (unsigned char)round, LEN, own.streams[0]));
    OK(cu.cuMemcpyAsync(address(own.host), own.memory[0], LEN, own.streams[0]));
    write_word(own.streams[0], 1, round);
    wait_word(1, round);
    stale += ((volatile unsigned char *)own.host)[LEN - 1] != round;
    OK(cu.cuStreamSynchronize(own.streams[0]));
    CHECK(own.host[LEN - 1] == round);
  }
  return stale;
}

static void bytes_first(void)
{
  CHECK(stale_rounds() == 0);
}

static void bytes_late(void)
{
  CHECK(stale_rounds() > 0);
}

static void flags_and_bytes_can_be_late(void **state)
{
  (void)state;
  with("", bytes_first);
  with("FAKE_FLAGS_LATE_US=300", bytes_first);
  with("FAKE_BYTES_LATE=1", bytes_late);
}

/* ---- what else ---- */

static void by_name(void)
{
  void *function = NULL, *same;
  int status;
  OK(cu.cuGetProcAddress_v2("cuStreamWriteValue32", &function, 12000, 0, &status));
  memcpy(&same, &cu.cuStreamWriteValue32_v2, sizeof same);
  CHECK(status == 0 && function == same);
  OK(cu.cuGetProcAddress_v2("cuNothing", &function, 12000, 0, &status));
  CHECK(status == 1 && !function);
}

static void functions_are_found_by_name(void **state)
{
  (void)state;
  with("", by_name);
}

/* Two processes with words in the same page. */
static void processes(void)
{
  pid_t other = fork();
  if (other == 0) {
    CHECK(cu.cuStreamQuery(own.streams[0]) == 3); /* a driver does not outlive fork */
    for (uint32_t round = 1; round <= 50; round++) {
      wait_word(1, round);
      set_word(0, round);
    }
    _exit(0);
  }
  for (uint32_t round = 1; round <= 50; round++) {
    write_word(own.streams[0], 1, round);
    OK(cu.cuStreamWaitValue32_v2(own.streams[0], address(&own.words[0]), round, 0));
  }
  OK(cu.cuStreamSynchronize(own.streams[0]));
  int status;
  CHECK(waitpid(other, &status, 0) == other && status == 0);
}

static void words_are_shared_between_processes(void **state)
{
  (void)state;
  with("", processes);
}

static void counted(void)
{
  char line[256];
  int calls = 0, made = 0;
  CHECK(prctl(PR_SET_NAME, "self test") == 0);
  write_word(own.streams[0], 1, 1);
  write_word(own.streams[0], 1, 2);
  cu.report();
  FILE *file = fopen(getenv("FAKE_REPORT"), "r");
  CHECK(file);
  while (fgets(line, sizeof line, file)) {
    const char *from = strstr(line, "call self_test cuStreamWriteValue32 2\n");
    calls += from != NULL;
    made += strstr(line, "thing streams 2 0\n") != NULL;
  }
  CHECK(calls == 1 && made == 1);
}

static void calls_are_counted_by_thread_and_things_by_kind(void **state)
{
  char path[] = "/tmp/cuda_double.XXXXXX", settings[128];
  int fd = mkstemp(path);
  (void)state;
  assert_true(fd >= 0);
  close(fd);
  snprintf(settings, sizeof settings, "FAKE_REPORT=%s", path);
  with(settings, counted);
  unlink(path);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_gpus_reach_memory_and_within_its_bounds),
      cmocka_unit_test(rows_are_copied),
      cmocka_unit_test(a_parked_wait_blocks_its_channel_and_no_other),
      cmocka_unit_test(events_and_the_legacy_stream_order_streams),
      cmocka_unit_test(words_are_written_and_waited_for),
      cmocka_unit_test(kernels_of_clients_run_by_the_names_of_their_entries),
      cmocka_unit_test(launches_can_block),
      cmocka_unit_test(a_free_waits_and_can_shut_everybody_out),
      cmocka_unit_test(after_the_seal_nothing_is_made_or_freed),
      cmocka_unit_test(a_full_channel_blocks_the_caller),
      cmocka_unit_test(flags_and_bytes_can_be_late),
      cmocka_unit_test(functions_are_found_by_name),
      cmocka_unit_test(words_are_shared_between_processes),
      cmocka_unit_test(calls_are_counted_by_thread_and_things_by_kind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
