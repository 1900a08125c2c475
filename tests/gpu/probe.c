/* SPDX-License-Identifier: BSD-3-Clause */
/* What a driver and its GPU do with words of streams, measured: nothing of Tutti, so that its design can be judged.
 *
 *   gpu_probe [--driver FILE] [--rounds N] order|cost|hazards
 *
 * order: bytes that a stream copies to the host before it writes a word are there when the word is (exit status 1 if
 * not). cost: microseconds of each building block. hazards: what a parked stream holds up, and what another process
 * does. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver_load.h"

#define ROOM ((size_t)2 << 20)
#define PORTABLE_MAPPED 3u

static struct driver cu;
static const char *library = "libcuda.so.1";
static long rounds = 10000;
static struct {
  void *context, *streams[3], *event;
  uint64_t memory[2];
  unsigned char *host;
  uint32_t *words;
} own;

static void ok(int code, const char *call)
{
  const char *text = "";
  if (code == 0) return;
  cu.cuGetErrorString(code, &text);
  fprintf(stderr, "gpu_probe: error %d (%s) of %s\n", code, text, call);
  _exit(1);
}
#define CU(call) ok(cu.call, #call)

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void begin(void)
{
  const char *wrong = driver_load(&cu, library);
  void *pinned;
  if (wrong) {
    fprintf(stderr, "gpu_probe: %s\n", wrong);
    exit(77);
  }
  CU(cuInit(0));
  CU(cuDevicePrimaryCtxRetain(&own.context, 0));
  CU(cuCtxSetCurrent(own.context));
  for (int s = 0; s < 3; s++) CU(cuStreamCreate(&own.streams[s], 1));
  CU(cuEventCreate(&own.event, 2));
  for (int m = 0; m < 2; m++) CU(cuMemAlloc_v2(&own.memory[m], ROOM));
  CU(cuMemHostAlloc(&pinned, ROOM, PORTABLE_MAPPED));
  own.host = pinned;
  CU(cuMemHostAlloc(&pinned, 4096, PORTABLE_MAPPED));
  own.words = pinned;
  memset(pinned, 0, 4096);
}

static uint64_t word_at(int w)
{
  return (uintptr_t)&own.words[16 * w];
}

static void word_set(int w, uint32_t value)
{
  __atomic_store_n(&own.words[16 * w], value, __ATOMIC_SEQ_CST);
}

static void word_wait(int w, uint32_t value)
{
  for (long tries = 0; __atomic_load_n(&own.words[16 * w], __ATOMIC_ACQUIRE) != value; tries++)
    if (tries > 10000) usleep(1);
}

/* ---- order ---- */

/* 1 if a byte was not there yet. The host looks before the stream may go on. */
static int is_stale(uint32_t round, size_t len)
{
  struct memop list[2] = {{.operation = 2, .address = word_at(0), .value = round},
                          {.operation = 1, .address = word_at(1), .value = round}};
  CU(cuMemsetD32Async(own.memory[0], round, len / 4, own.streams[0]));
  CU(cuMemcpyAsync((uintptr_t)own.host, own.memory[0], len, own.streams[0]));
  CU(cuStreamBatchMemOp_v2(own.streams[0], 2, list, 0));
  word_wait(0, round);
  int stale = 0;
  for (size_t i = len / 4; i-- > 0 && !stale;) stale = ((const volatile uint32_t *)own.host)[i] != round;
  word_set(1, round);
  return stale;
}

static int order(void)
{
  static const size_t sizes[] = {4096, 65536, 1 << 20, 2 << 20};
  long stale = 0;
  for (long r = 1; r <= rounds; r++) stale += is_stale((uint32_t)r, sizes[r % 64 ? 0 : r / 64 % 4]);
  CU(cuStreamSynchronize(own.streams[0]));
  printf("| words behind bytes | %ld stale of %ld |\n", stale, rounds);
  return stale != 0;
}

/* ---- cost ---- */

static void tell(const char *what, double us)
{
  printf("| %s | %.2f us |\n", what, us);
}

/* The call alone, while the stream is parked. */
static void cost_of_calls(void)
{
  struct memop list[2] = {{.operation = 2, .address = word_at(0)}, {.operation = 1, .address = word_at(0)}};
  const int calls = 200;
  double began = now_us();
  for (int k = 0; k < calls; k++) CU(cuStreamBatchMemOp_v2(own.streams[0], 2, list, 0));
  tell("call of a batch of a write and a wait", (now_us() - began) / calls);
  began = now_us();
  for (int k = 0; k < calls; k++) CU(cuMemcpyAsync((uintptr_t)own.host, own.memory[0], 8, own.streams[0]));
  tell("call of a copy of 8 bytes to the host", (now_us() - began) / calls);
  CU(cuStreamSynchronize(own.streams[0]));
}

/* GPU to CPU to GPU, with `copies` of 8 bytes on both sides of the wait. */
static void cost_of_round_trip(const char *what, int copies)
{
  const uint32_t trips = rounds < 1000 ? (uint32_t)rounds : 1000, first = 1u << 20;
  struct memop list[2] = {{.operation = 2, .address = word_at(2)}, {.operation = 1, .address = word_at(3)}};
  double spent = 0;
  for (uint32_t k = first; k < first + trips; k++) {
    list[0].value = list[1].value = k;
    double began = now_us();
    if (copies) CU(cuMemcpyAsync((uintptr_t)own.host, own.memory[0], 8, own.streams[0]));
    CU(cuStreamBatchMemOp_v2(own.streams[0], 2, list, 0));
    if (copies) CU(cuMemcpyAsync(own.memory[1], (uintptr_t)own.host, 8, own.streams[0]));
    word_wait(2, k);
    word_set(3, k);
    CU(cuStreamSynchronize(own.streams[0]));
    spent += now_us() - began;
  }
  tell(what, spent / trips);
}

static void callback(void *argument)
{
  __atomic_add_fetch((long *)argument, 1, __ATOMIC_RELAXED);
}

static void cost_of_others(void)
{
  const int hops = 500;
  long called = 0;
  double began = now_us();
  for (int k = 0; k < hops; k++) {
    CU(cuEventRecord(own.event, own.streams[k % 2]));
    CU(cuStreamWaitEvent(own.streams[1 - k % 2], own.event, 0));
  }
  CU(cuCtxSynchronize());
  tell("an event between two streams", (now_us() - began) / hops);
  began = now_us();
  for (int k = 0; k < hops; k++) CU(cuLaunchHostFunc(own.streams[0], callback, &called));
  CU(cuStreamSynchronize(own.streams[0]));
  tell("a host function", (now_us() - began) / hops);
}

static int cost(void)
{
  cost_of_calls();
  cost_of_round_trip("GPU to CPU to GPU, from call to synchronize", 0);
  cost_of_round_trip("the same with 8 bytes copied out and in", 1);
  cost_of_others();
  return 0;
}

/* ---- hazards ---- */

static int is_freed, is_copied;

static void *freer(void *unused)
{
  CU(cuCtxSetCurrent(own.context));
  CU(cuMemFree_v2(own.memory[1]));
  __atomic_store_n(&is_freed, 1, __ATOMIC_SEQ_CST);
  return unused;
}

static void *copier(void *unused)
{
  CU(cuCtxSetCurrent(own.context));
  CU(cuMemcpyAsync((uintptr_t)own.host, own.memory[0], 8, own.streams[1]));
  __atomic_store_n(&is_copied, 1, __ATOMIC_SEQ_CST);
  return unused;
}

static void park(int stream)
{
  CU(cuStreamWaitValue32_v2(own.streams[stream], word_at(4), 1, 0));
  usleep(20000);
}

static const char *said(const int *flag)
{
  return __atomic_load_n(flag, __ATOMIC_SEQ_CST) ? "returned" : "did not return within 1 s";
}

static void hazard_of_free(void)
{
  pthread_t threads[2];
  park(0);
  pthread_create(&threads[0], NULL, freer, NULL);
  usleep(200000);
  pthread_create(&threads[1], NULL, copier, NULL);
  sleep(1);
  printf("| cuMemFree beside a parked stream | %s |\n", said(&is_freed));
  printf("| cuMemcpyAsync beside both | %s |\n", said(&is_copied));
  word_set(4, 1);
  for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}

static void hazard_of_channels(const char *what)
{
  park(0);
  CU(cuMemsetD8Async(own.memory[0], 1, 8, own.streams[1]));
  usleep(200000);
  printf("| %s: another stream's work behind a parked one | %s |\n", what,
         cu.cuStreamQuery(own.streams[1]) == 0 ? "is done" : "waits");
  word_set(4, 1);
  CU(cuCtxSynchronize());
}

static double copies_us(void)
{
  double began = now_us();
  for (int k = 0; k < 200; k++) CU(cuMemcpyAsync(own.memory[0], own.memory[1], ROOM, own.streams[0]));
  CU(cuStreamSynchronize(own.streams[0]));
  return (now_us() - began) / 200;
}

/* Runs `body` in a process of its own. */
static void apart(void (*body)(void))
{
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    begin();
    body();
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void one_connection(void)
{
  hazard_of_channels("CUDA_DEVICE_MAX_CONNECTIONS=1");
}

static void usual_connections(void)
{
  hazard_of_channels("usual channels");
}

static void copies_beside(void)
{
  double alone = copies_us();
  pid_t other = fork();
  if (other == 0) { /* a driver does not outlive fork: it begins anew */
    execl("/proc/self/exe", "gpu_probe", "--driver", library, "parked", NULL);
    _exit(1);
  }
  sleep(2);
  double beside = copies_us();
  printf("| copies of 2 MiB on the GPU, alone and beside another process's parked stream | %.1f us, %.1f us |\n", alone,
         beside);
  waitpid(other, NULL, 0);
}

/* ---- small copies of two processes ---- */

/* A copy into the GPU, flat or in two rows. */
static void bring(int rows, size_t len)
{
  struct copy_2d copy = {.src_type = 4, .src_device = (uintptr_t)own.host, .src_pitch = len / 2,
                         .dst_type = 4, .dst_device = own.memory[1], .dst_pitch = len / 2,
                         .width = len / 2, .height = 2};
  if (rows) CU(cuMemcpy2DAsync_v2(&copy, own.streams[0]));
  else CU(cuMemcpyAsync(own.memory[1], (uintptr_t)own.host, len, own.streams[0]));
}

/* Copies out of the GPU, meets the other process, and copies back; returns microseconds. */
static double exchanges_us(uint32_t *met, int processes, int rows, size_t len)
{
  const uint32_t trips = 50;
  struct memop list[2] = {{.operation = 2, .address = word_at(5)}, {.operation = 1, .address = word_at(6)}};
  double began = now_us();
  for (uint32_t k = 1; k <= trips; k++) {
    uint32_t number = __atomic_load_n(&own.words[16 * 6], __ATOMIC_RELAXED) + 1;
    list[0].value = list[1].value = number;
    CU(cuMemcpyAsync((uintptr_t)own.host, own.memory[0], len, own.streams[0]));
    CU(cuStreamBatchMemOp_v2(own.streams[0], 2, list, 0));
    bring(rows, len);
    word_wait(5, number);
    uint32_t all = __atomic_add_fetch(met, 1, __ATOMIC_ACQ_REL);
    uint32_t last = (all + (uint32_t)processes - 1) / (uint32_t)processes * (uint32_t)processes; /* of this round */
    while (__atomic_load_n(met, __ATOMIC_ACQUIRE) < last) sched_yield();
    word_set(6, number);
    CU(cuStreamSynchronize(own.streams[0]));
  }
  return (now_us() - began) / trips;
}

static void exchanges(uint32_t *met, int processes, int is_first)
{
  static const size_t sizes[] = {8, 1024, 4096};
  alarm(60);
  begin();
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    exchanges_us(met, processes, 0, sizes[s]);
    double flat = exchanges_us(met, processes, 0, sizes[s]), rows = exchanges_us(met, processes, 1, sizes[s]);
    if (is_first)
      printf("| %zu bytes out and in, %d processes at once | flat %.1f us, in two rows %.1f us |\n", sizes[s],
             processes, flat, rows);
  }
  fflush(stdout);
  _exit(0);
}

static void small_copies(int processes)
{
  pid_t children[2];
  uint32_t *met = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fflush(stdout);
  for (int p = 0; p < processes && met != MAP_FAILED; p++) {
    children[p] = fork();
    if (children[p] == 0) exchanges(met, processes, p == 0);
  }
  for (int p = 0; p < processes && met != MAP_FAILED; p++) waitpid(children[p], NULL, 0);
}

static int parked(void)
{
  park(0);
  sleep(4);
  word_set(4, 1);
  CU(cuCtxSynchronize());
  return 0;
}

static int hazards(void)
{
  apart(hazard_of_free);
  apart(usual_connections);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  apart(one_connection);
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  apart(copies_beside);
  small_copies(1);
  small_copies(2);
  return 0;
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[argc - 1] : "";
  for (int a = 1; a + 1 < argc - 1; a += 2) {
    if (strcmp(argv[a], "--driver") == 0) library = argv[a + 1];
    if (strcmp(argv[a], "--rounds") == 0) rounds = atol(argv[a + 1]);
  }
  if (strcmp(what, "hazards") == 0) return hazards(); /* each in a process of its own */
  begin();
  if (strcmp(what, "order") == 0) return order();
  if (strcmp(what, "cost") == 0) return cost();
  if (strcmp(what, "parked") == 0) return parked();
  fprintf(stderr, "gpu_probe [--driver FILE] [--rounds N] order|cost|hazards\n");
  return 2;
}
