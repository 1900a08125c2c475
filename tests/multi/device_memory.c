/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduce on memory that the CPU cannot touch, with work that ends late and out of order: the core goes
 * through the device for every byte, and uses nothing before it is done. */
#include <stdlib.h>
#include <string.h>

#include "fake_device.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

struct job {
  const struct tt_device *device;
  int mixed; /* odd ranks use host memory */
};

static float value(int rank, size_t i)
{
  return (float)(((size_t)rank * 5 + i * 3) % 17);
}

static int reduce_on(const struct ranks *self, tuttiComm_t comm, size_t count, int in_place)
{
  const struct job *job = self->argument;
  const struct tt_device *device = job->mixed && self->rank % 2 ? NULL : job->device;
  size_t len = count * sizeof(float);
  float *host = malloc(len + 1), *in, *out;
  for (size_t i = 0; i < count; i++) host[i] = value(self->rank, i);
  in = device ? device->alloc(device, len) : malloc(len + 1);
  out = in_place ? in : device ? device->alloc(device, len) : malloc(len + 1);
  RANKS_CHECK(host && in && out);
  if (device) fake_device_write(device, in, host, len);
  else memcpy(in, host, len);
  RANKS_CHECK(tuttiAllReduce(in, out, count, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  if (device) fake_device_read(device, host, out, len);
  else memcpy(host, out, len);
  for (size_t i = 0; i < count; i++) {
    float want = 0;
    for (int r = 0; r < self->nranks; r++) want += value(r, i);
    RANKS_CHECK(host[i] == want);
  }
  if (device) device->free(device, in);
  else free(in);
  if (!in_place && device) device->free(device, out);
  if (!in_place && !device) free(out);
  free(host);
  return 0;
}

static int body(const struct ranks *self)
{
  static const size_t counts[] = {1, 2, 5, 1000, 70001, 400000};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
    for (int in_place = 0; in_place < 2; in_place++)
      if (reduce_on(self, comm, counts[c], in_place)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void run_all(int mixed)
{
  static const char *const algos[] = {"ring", "recursive_doubling"};
  static const char *const transports[] = {"shm", "tcp"};
  for (int k = 0; k < 4; k++)
    for (int nranks = 1; nranks <= 4; nranks++) {
      setenv("TUTTI_ALGO", algos[k % 2], 1);
      setenv("TUTTI_TRANSPORTS", transports[k / 2], 1);
      struct job job = {fake_device_create((uint64_t)(100 * k + nranks)), mixed};
      assert_non_null(job.device);
      assert_int_equal(ranks_run_threads(nranks, body, &job, 100), 0);
      struct fake_device_counts counts = fake_device_destroy(job.device);
      assert_int_equal(counts.breaches, 0);
      assert_int_equal(counts.outstanding, 0);
      assert_int_equal(counts.allocated, 0);
      assert_true(counts.started > 0);
    }
}

static void device_memory_is_reduced_through_the_device(void **state)
{
  (void)state;
  run_all(0);
}

static void kinds_of_memory_may_differ_between_ranks(void **state)
{
  (void)state;
  run_all(1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(device_memory_is_reduced_through_the_device),
      cmocka_unit_test(kinds_of_memory_may_differ_between_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
