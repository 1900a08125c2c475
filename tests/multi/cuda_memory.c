/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on CUDA memory through the public functions, on a driver without a GPU: found because the process has it,
 * exact on every rank, and nothing of CUDA is left when the last communicator is gone. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "fake_driver.h"
#include "ranks.h"
#include "slow.h"
#include "tutti_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define GPUS 2

struct job {
  int mixed; /* odd ranks use host memory */
  int gpus;  /* rank r has memory of context r mod gpus, which may be another one than its communicator's */
};

struct buffers {
  const struct fake_cuda *fake;
  int is_host;
  void *in, *out;
};

static void *buffer_make(const struct buffers *buffers, int context, enum fake_memory kind, size_t len)
{
  return buffers->is_host ? malloc(len + 1) : buffers->fake->alloc(context, kind, len);
}

static int buffers_make(struct buffers *buffers, const struct ranks *self, size_t len, int in_place)
{
  static const enum fake_memory kinds[] = {FAKE_DEVICE, FAKE_POOLED, FAKE_MANAGED};
  const struct job *job = self->argument;
  buffers->fake = fake_driver_load();
  buffers->is_host = job->mixed && self->rank % 2;
  buffers->in = buffer_make(buffers, self->rank % job->gpus, kinds[self->rank % 3], len);
  buffers->out = in_place ? buffers->in : buffer_make(buffers, self->rank % job->gpus, FAKE_DEVICE, len);
  return buffers->in && buffers->out;
}

static void buffers_end(struct buffers *buffers)
{
  for (int k = 0; k < (buffers->in == buffers->out ? 1 : 2); k++) {
    void *memory = k ? buffers->out : buffers->in;
    if (buffers->is_host) free(memory);
    else buffers->fake->free(memory);
  }
}

static void put(const struct buffers *buffers, const void *host, size_t len)
{
  if (buffers->is_host) memcpy(buffers->in, host, len);
  else buffers->fake->write(buffers->in, host, len);
}

static void get(const struct buffers *buffers, void *host, size_t len)
{
  if (buffers->is_host) memcpy(host, buffers->out, len);
  else buffers->fake->read(host, buffers->out, len);
}

static int value(int rank, size_t i)
{
  return (int)(((size_t)rank * 5 + i * 3) % 17);
}

/* The sum of all ranks' values, or their average of multiples of the number of ranks. */
static int reduce_floats(const struct ranks *self, tuttiComm_t comm, size_t count, int in_place)
{
  struct buffers buffers;
  const tuttiRedOp_t op = count % 2 || self->nranks == 3 ? tuttiSum : tuttiAvg; /* a third rounds */
  const int factor = op == tuttiAvg ? 4 : 1;
  float *host = malloc(count * sizeof *host + 1);
  RANKS_CHECK(host && buffers_make(&buffers, self, count * sizeof *host + 1, in_place));
  for (size_t i = 0; i < count; i++) host[i] = (float)(value(self->rank, i) * factor);
  put(&buffers, host, count * sizeof *host);
  RANKS_CHECK(tuttiAllReduce(buffers.in, buffers.out, count, tuttiFloat, op, comm, NULL) == tuttiSuccess);
  get(&buffers, host, count * sizeof *host);
  for (size_t i = 0; i < count; i++) {
    float want = 0;
    for (int r = 0; r < self->nranks; r++) want += (float)(value(r, i) * factor);
    RANKS_CHECK(host[i] == (op == tuttiAvg ? want * (1.0f / (float)self->nranks) : want));
  }
  buffers_end(&buffers);
  free(host);
  return 0;
}

static int reduce_bytes(const struct ranks *self, tuttiComm_t comm, size_t count)
{
  struct buffers buffers;
  uint8_t *host = malloc(count + 1);
  RANKS_CHECK(host && buffers_make(&buffers, self, count + 1, 0));
  for (size_t i = 0; i < count; i++) host[i] = (uint8_t)(value(self->rank, i) * 11);
  put(&buffers, host, count);
  RANKS_CHECK(tuttiAllReduce(buffers.in, buffers.out, count, tuttiUint8, tuttiMax, comm, NULL) == tuttiSuccess);
  get(&buffers, host, count);
  for (size_t i = 0; i < count; i++) {
    int want = 0;
    for (int r = 0; r < self->nranks; r++) want = value(r, i) > want ? value(r, i) : want;
    RANKS_CHECK(host[i] == (uint8_t)(want * 11));
  }
  buffers_end(&buffers);
  free(host);
  return 0;
}

static int broadcast(const struct ranks *self, tuttiComm_t comm, size_t count)
{
  struct buffers buffers;
  int32_t *host = malloc(count * sizeof *host + 1);
  const int root = (int)(count % (size_t)self->nranks);
  RANKS_CHECK(host && buffers_make(&buffers, self, count * sizeof *host + 1, 0));
  for (size_t i = 0; i < count; i++) host[i] = self->rank == root ? (int32_t)i : -1;
  put(&buffers, host, count * sizeof *host);
  RANKS_CHECK(tuttiBroadcast(buffers.in, buffers.out, count, tuttiInt32, root, comm, NULL) == tuttiSuccess);
  get(&buffers, host, count * sizeof *host);
  for (size_t i = 0; i < count; i++) RANKS_CHECK(host[i] == (int32_t)i);
  buffers_end(&buffers);
  free(host);
  return 0;
}

/* A reduction with options, once on GPU memory and once on the host's: the same bits, the same report. */
static int reduce_with(const struct ranks *self, tuttiComm_t comm, size_t count, int wire, int wants_report)
{
  struct buffers buffers;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  int reports[2] = {7, 7};
  uint64_t seed = (uint64_t)self->rank * 1000 + count;
  float *host = malloc(count * sizeof *host + 1), *by_host = malloc(count * sizeof *host + 1);
  RANKS_CHECK(host && by_host && buffers_make(&buffers, self, count * sizeof *host + 1, (int)(count % 2)));
  for (size_t i = 0; i < count; i++) host[i] = (float)(int64_t)next(&seed) * 1e-15f;
  if (wants_report && self->rank == 0 && count > 1000) host[count / 2] = 1e30f; /* too large for half */
  put(&buffers, host, count * sizeof *host);
  options.wire_type = wire;
  options.scale_before = 0.5f;
  options.scale_after = 4.0f;
  for (int k = 0; k < 2; k++) {
    options.overflow = wants_report ? &reports[k] : NULL;
    const void *in = k ? host : buffers.in;
    void *out = k ? by_host : buffers.out;
    RANKS_CHECK(tuttiAllReduceWith(in, out, count, tuttiFloat, tuttiSum, &options, comm, NULL) == tuttiSuccess);
  }
  get(&buffers, host, count * sizeof *host);
  RANKS_CHECK(memcmp(host, by_host, count * sizeof *host) == 0);
  RANKS_CHECK(reports[0] == reports[1] && reports[0] == (wants_report ? wire == tuttiFloat16 && count > 1000 : 7));
  buffers_end(&buffers);
  free(host);
  free(by_host);
  return 0;
}

static int reduce_with_all_options(const struct ranks *self, tuttiComm_t comm)
{
  static const int wires[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat32};
  for (int k = 0; k < 6; k++)
    for (size_t count = 1; count < (IS_SLOW ? 10000 : 100000); count = count * 17 + 1)
      if (reduce_with(self, comm, count, wires[k % 3], k / 3)) return 1;
  return 0;
}

static int comm_make(tuttiComm_t *comm, const struct ranks *self, int gpu)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.device = gpu;
  return tuttiCommInitRankConfig(comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess;
}

static int body(const struct ranks *self)
{
  static const size_t counts[] = {1, 2, 5, 1000, 70001, 1300000}; /* the last one takes several slots */
  const struct job *job = self->argument;
  tuttiComm_t comm;
  RANKS_CHECK(fake_driver_load() && comm_make(&comm, self, self->rank % job->gpus % GPUS));
  for (size_t c = 0; c < sizeof counts / sizeof counts[0] - IS_SLOW; c++)
    for (int in_place = 0; in_place < 2; in_place++)
      if (reduce_floats(self, comm, counts[c], in_place)) return 1;
  if (reduce_bytes(self, comm, 30001) || broadcast(self, comm, 30001) || reduce_with_all_options(self, comm)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* As processes, each with a driver of its own. */
static int body_alone(const struct ranks *self)
{
  if (body(self)) return 1;
  struct fake_cuda_counts counts = fake_driver_load()->count();
  const struct job *job = self->argument;
  RANKS_CHECK(fake_driver_is_clean());
  RANKS_CHECK(counts.launches == 0 && (job->mixed || counts.copies > 0));
  return 0;
}

static void processes_reduce_memory_of_their_gpus(void **state)
{
  (void)state;
  static const char *const transports[] = {"shm", "tcp"};
  for (int k = 0; k < 4; k++)
    for (int nranks = 1; nranks <= 4; nranks++) {
      struct job job = {k % 2, 2};
      if (nranks != 4 && k != 0) continue;
      if (IS_TSAN ? nranks != 2 : IS_SLOW && k % 3 == 0 && nranks > 2) continue;
      setenv("TUTTI_TRANSPORTS", transports[k / 2], 1);
      assert_int_equal(ranks_run_processes(nranks, body_alone, &job, 100), 0);
    }
}

static void threads_reduce_memory_of_several_gpus(void **state)
{
  (void)state;
  for (int k = 0; k < 3; k++) {
    struct job job = {k == 1, FAKE_CONTEXTS};
    setenv("TUTTI_TRANSPORTS", k == 2 ? "tcp" : "shm", 1);
    assert_int_equal(ranks_run_threads(4, body, &job, 100), 0);
    assert_true(fake_driver_is_clean());
  }
}

/* Two calls of each of two ranks of one thread, on one GPU. */
static void ranks_of_one_thread_call_in_a_group(void **state)
{
  enum { COUNT = 700000 };
  const struct fake_cuda *fake = fake_driver_load();
  const int devices[] = {0, 0};
  tuttiComm_t comms[2];
  float *memory[2][2], *host = malloc(COUNT * sizeof *host);
  (void)state;
  assert_int_equal(tuttiCommInitAll(comms, 2, devices), tuttiSuccess);
  for (int k = 0; k < 4; k++) {
    memory[k / 2][k % 2] = fake->alloc(0, FAKE_DEVICE, COUNT * sizeof *host);
    for (size_t i = 0; i < COUNT; i++) host[i] = (float)(value(k % 2, i) + k / 2);
    fake->write(memory[k / 2][k % 2], host, COUNT * sizeof *host);
  }
  tuttiGroupStart();
  for (int k = 0; k < 4; k++) {
    float *at = memory[k / 2][k % 2];
    assert_int_equal(tuttiAllReduce(at, at, COUNT, tuttiFloat, tuttiSum, comms[k % 2], NULL), tuttiSuccess);
  }
  assert_int_equal(tuttiGroupEnd(), tuttiSuccess);
  for (int k = 0; k < 4; k++) {
    fake->read(host, memory[k / 2][k % 2], COUNT * sizeof *host);
    for (size_t i = 0; i < COUNT; i++) assert_true(host[i] == (float)(value(0, i) + value(1, i) + k / 2 * 2));
    fake->free(memory[k / 2][k % 2]);
  }
  for (int r = 0; r < 2; r++) assert_int_equal(tuttiCommDestroy(comms[r]), tuttiSuccess);
  free(host);
  assert_true(fake_driver_is_clean());
}

/* Memory of a GPU is refused where there is no context, and on streams that are not CUDA's. */
static void what_cannot_be_is_refused(void **state)
{
  const struct fake_cuda *fake = fake_driver_load();
  tuttiStream_t stream;
  tuttiComm_t comm;
  float *memory = fake->alloc(0, FAKE_DEVICE, sizeof *memory);
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(tuttiCommInitAll(&comm, 1, NULL), tuttiSuccess);
  assert_int_equal(tuttiAllReduce(memory, memory, 1, tuttiFloat, tuttiSum, comm, NULL), tuttiInvalidUsage);
  assert_non_null(strstr(tuttiGetLastError(comm), "belongs to no CUDA context"));
  assert_int_equal(tuttiStreamCreate(&stream), tuttiSuccess);
  assert_int_equal(tuttiAllReduce(memory, memory, 1, tuttiFloat, tuttiSum, comm, stream), tuttiInvalidUsage);
  assert_non_null(strstr(tuttiGetLastError(comm), "give the call a stream made by tuttiStreamFromCuda, or none"));
  assert_int_equal(tuttiStreamDestroy(stream), tuttiSuccess);
  assert_int_equal(tuttiCommDestroy(comm), tuttiSuccess);
  fake->free(memory);
  unsetenv("TUTTI_DEBUG");
}

#define WARM 8

static _Atomic int is_over;

static int body_of_failure(const struct ranks *self)
{
  const struct fake_cuda *fake = self->argument;
  tuttiComm_t comm;
  float *memory = fake->alloc(self->rank, FAKE_DEVICE, 4000);
  RANKS_CHECK(comm_make(&comm, self, self->rank));
  tuttiResult_t result = tuttiSuccess;
  for (int i = 0; i < WARM && result == tuttiSuccess; i++) /* until everything has been made, on both ranks */
    result = tuttiAllReduce(memory, memory, 1000, tuttiFloat, tuttiSum, comm, NULL);
  for (int i = 0; i < 100 && result == tuttiSuccess; i++) {
    if (self->rank == 0) fake->fail_at(20 + i, 999); /* some calls matter to nobody */
    result = tuttiAllReduce(memory, memory, 1000, tuttiFloat, tuttiSum, comm, NULL);
  }
  if (self->rank == 0) fake->fail_at(0, 0); /* the next one, which was to come */
  if (self->rank == 0) atomic_store(&is_over, 1);
  while (!atomic_load(&is_over)) sched_yield();
  RANKS_CHECK(result == tuttiUnhandledCudaError);
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "trouble made for a test"));
  RANKS_CHECK(tuttiAllReduce(memory, memory, 1000, tuttiFloat, tuttiSum, comm, NULL) == tuttiUnhandledCudaError);
  tuttiCommDestroy(comm);
  fake->free(memory);
  return 0;
}

static void a_failure_of_the_driver_is_told_to_every_rank(void **state)
{
  (void)state;
  const struct fake_cuda *fake = fake_driver_load();
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_threads(2, body_of_failure, (void *)(uintptr_t)fake, 100), 0);
  unsetenv("TUTTI_DEBUG");
  fake->fail_at(0, 0);
  assert_true(fake_driver_is_clean());
}

static void info_tells_what_there_is(void **state)
{
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(tuttiInfo(out, 0), tuttiSuccess);
  fclose(out);
  const char *line = strstr(text, "\n  CUDA ");
  assert_non_null(line);
  assert_non_null(strstr(line, "2 GPUs"));
  assert_non_null(strstr(text, "TUTTI_CUDA"));
  free(text);
}

/* The processes come first: they must be the first to use the library. */
int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_reduce_memory_of_their_gpus),
      cmocka_unit_test(threads_reduce_memory_of_several_gpus),
      cmocka_unit_test(ranks_of_one_thread_call_in_a_group),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(a_failure_of_the_driver_is_told_to_every_rank),
      cmocka_unit_test(info_tells_what_there_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
