/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on memory that the CPU cannot touch, with work that ends late and out of order: the core goes
 * through the device for every byte, and uses nothing before it is done.
 * Labels: processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/algos.h"
#include "fake_device.h"
#include "ranks.h"
#include "slow.h"
#include "trial.h"
#include "tutti_counts.h"
#include "tutti_fusion.h"

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
  for (size_t c = 0; c < sizeof counts / sizeof counts[0] - IS_SLOW; c++)
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
    for (int nranks = 1; nranks <= 4; nranks += 1 + 2 * IS_SLOW) {
      setenv("TUTTI_ALGO", algos[k % 2], 1);
      setenv("TUTTI_TRANSPORTS", transports[k / 2], 1);
      struct job job = {fake_device_create((uint64_t)(100 * k + nranks)), mixed};
      assert_non_null(job.device);
      assert_int_equal(ranks_run_threads(nranks, body, &job, 100), 0);
      assert_true(fake_device_end(job.device));
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

/* ---- every collective ---- */

struct tour {
  const struct tt_device *device;
  int mixed;
  int row; /* of each collective */
};

static const struct tt_algo *row_of(int collective, int n)
{
  int rows = 0;
  for (int a = 0; a < tt_algo_count; a++) rows += tt_algos[a].collective == collective;
  n %= rows;
  for (int a = 0; a < tt_algo_count; a++)
    if (tt_algos[a].collective == collective && n-- == 0) return &tt_algos[a];
  return NULL;
}

static int call_on(tuttiComm_t comm, struct trial trial, size_t k)
{
  static const int types[] = {tuttiInt32, tuttiFloat16, tuttiInt8, tuttiDouble, tuttiFloat, tuttiBfloat16};
  static const int ops[] = {tuttiSum, tuttiAvg, TT_PREMUL_SUM, tuttiMax};
  trial.type = types[k % 6];
  trial.op = ops[(k / 2 + (size_t)trial.collective) % 4];
  trial.in_place = (int)(k / 3 % 2);
  trial.bare = (int)(k % 2);
  trial.root = (int)(k % (size_t)trial.nranks);
  if (!trial_is_exact(trial.collective, trial.type, trial.op, trial.nranks)) trial.type = tuttiInt32;
  int premul = tt_kinds[trial.collective].reduces && trial.op == TT_PREMUL_SUM;
  if (premul && trial_redop(&trial, comm) != tuttiSuccess) return 0;
  return trial_run(&trial, comm) && (!premul || tuttiRedOpDestroy(trial.handle, comm) == tuttiSuccess);
}

static int tour_body(const struct ranks *self)
{
  const struct tour *tour = self->argument;
  static const size_t counts[] = {1, 3, 1000, 20001, 0, 70003};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int c = TT_ALL_REDUCE; c < TT_PAIRS; c++)
    for (size_t k = 0; k < 6; k++) {
      struct trial trial = {.nranks = self->nranks, .rank = self->rank, .collective = c};
      trial.count = counts[k] / (k == 5 && tt_kinds[c].is_shared ? (size_t)self->nranks : 1);
      trial.device = tour->mixed && self->rank % 2 ? NULL : tour->device;
      RANKS_CHECK(call_on(comm, trial, k + (size_t)tour->row));
    }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Segments so short that spans wrap and cross shares in several of them. */
static void tour_run(int row, int nranks)
{
  char algos[1024] = "";
  size_t used = 0;
  for (int c = TT_ALL_REDUCE; c < TT_PAIRS; c++)
    used += (size_t)snprintf(algos + used, sizeof algos - used, "%s%s:%s", used ? ";" : "", tt_kinds[c].name,
                             row_of(c, row)->name);
  setenv("TUTTI_ALGO", algos, 1);
  setenv("TUTTI_SEGMENT_BYTES", row % 2 ? "1000" : "9000", 1);
  setenv("TUTTI_TRANSPORTS", row % 3 ? "shm" : "tcp", 1);
  struct tour tour = {fake_device_create((uint64_t)(row * 100 + nranks)), (row + nranks) % 3 == 0, row};
  assert_non_null(tour.device);
  assert_int_equal(ranks_run_threads(nranks, tour_body, &tour, 100), 0);
  assert_true(fake_device_end(tour.device));
}

static void every_collective_works_on_device_memory(void **state)
{
  int most = 0;
  (void)state;
  for (int a = 0; a < tt_algo_count; a++) most += tt_algos[a].collective == TT_ALL_REDUCE;
  for (int row = 0; row < most; row++) {
    tour_run(row, 2 + row % 4);
    if (!IS_SLOW) tour_run(row, 5 - row % 4);
  }
  unsetenv("TUTTI_ALGO");
  unsetenv("TUTTI_SEGMENT_BYTES");
}

/* ---- what devices lack ---- */

static int messages_body(const struct ranks *self)
{
  const struct job *job = self->argument;
  tuttiComm_t comm;
  float *data = job->device->alloc(job->device, 100);
  RANKS_CHECK(data && tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  tuttiResult_t result = self->rank ? tuttiRecv(data, 10, tuttiFloat, 0, comm, NULL)
                                    : tuttiSend(data, 10, tuttiFloat, 1, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidArgument && says(self->rank ? "recvbuff 0x" : "sendbuff 0x"));
  RANKS_CHECK(says("copy it to host memory first"));
  RANKS_CHECK(tuttiBcast(data, 10, tuttiFloat, 0, comm, NULL) == tuttiSuccess); /* nothing was queued */
  job->device->free(job->device, data);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

static void run_lacks(ranks_body lacks)
{
  struct job job = {fake_device_create(7), 0};
  assert_non_null(job.device);
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_threads(2, lacks, &job, 100), 0);
  assert_true(fake_device_end(job.device));
}

static void messages_of_device_memory_are_refused(void **state)
{
  (void)state;
  run_lacks(messages_body);
}

static int refused(const struct ranks *self, tuttiComm_t comm, void *data, tuttiDataType_t type, tuttiRedOp_t op)
{
  const size_t counts[2] = {1, 1};
  char host[64] = {0}, words[64];
  snprintf(words, sizeof words, "memory, which has no %s of %s: pass host memory", tt_redop_name((int)op),
           tt_type_name((int)type));
  RANKS_CHECK(tuttiAllReduce(data, data, 2, type, op, comm, NULL) == tuttiInvalidArgument && says(words));
  RANKS_CHECK(tuttiReduceScatter(host, data, 1, type, op, comm, NULL) == tuttiInvalidArgument && says(words));
  RANKS_CHECK(tuttiReduceScatterV(host, data, counts, NULL, type, op, comm, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(says(words));
  RANKS_CHECK(tuttiReduce(data, host, 2, type, op, 0, comm, NULL) == tuttiInvalidArgument && says(words));
  return 0;
}

static int lacks_body(const struct ranks *self)
{
  const struct job *job = self->argument;
  const tuttiFusionTensor_t tensor = {.count = 8, .type = tuttiInt16};
  int16_t host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *data = job->device->alloc(job->device, 100);
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  RANKS_CHECK(data && tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int type = tuttiFloat8e5m2 + 1; type < tuttiNumTypes; type++)
    RANKS_CHECK(refused(self, comm, data, (tuttiDataType_t)type, tuttiSum) == 0);
  for (int op = tuttiBitAnd; op <= tuttiBitXor; op++)
    RANKS_CHECK(refused(self, comm, data, tuttiInt32, (tuttiRedOp_t)op) == 0);
  /* These are moved, or not looked at, which needs no kernel. */
  fake_device_write(job->device, data, host, sizeof host);
  RANKS_CHECK(tuttiBcast(data, 8, tuttiInt16, 0, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiReduce(host, self->rank ? data : host, 8, tuttiInt16, tuttiSum, 0, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(host[7] == (self->rank ? 8 : 16));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, &tensor, 1, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionPush(fusion, 0, data, host, 8, tuttiInt16, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(says("memory, which has no sums of int16"));
  RANKS_CHECK(tuttiFusionPush(fusion, 0, host, host, 8, tuttiInt16, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess && host[7] == 24);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  job->device->free(job->device, data);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

static void types_and_operations_that_devices_lack_are_refused_before_they_begin(void **state)
{
  (void)state;
  run_lacks(lacks_body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(device_memory_is_reduced_through_the_device),
      cmocka_unit_test(kinds_of_memory_may_differ_between_ranks),
      cmocka_unit_test(every_collective_works_on_device_memory),
      cmocka_unit_test(messages_of_device_memory_are_refused),
      cmocka_unit_test(types_and_operations_that_devices_lack_are_refused_before_they_begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
