/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions on CUDA streams have the bits of those of the host's memory, on a driver without a GPU: with any type on
 * the wire, factors, several pieces, and with TUTTI_DETERMINISTIC. */
#include "chance.h"
#include "gpu_rank.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST 5000 /* with SLOT_BYTES several pieces */

struct side {
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  float *on_gpu, *in, *by_stream, *by_host; /* the last three are pinned */
};

static int side_make(const struct ranks *self, struct side *side)
{
  const size_t bytes = MOST * sizeof(float);
  RANKS_CHECK(gpu_begin(&side->gpu, 0) == 0 && gpu_comm_make(self, &side->comm) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&side->stream, side->gpu.streams[0]) == tuttiSuccess);
  side->on_gpu = gpu_alloc(&side->gpu, bytes);
  side->in = (float *)(void *)pinned(&side->gpu, MOST);
  side->by_stream = (float *)(void *)pinned(&side->gpu, MOST);
  side->by_host = (float *)(void *)pinned(&side->gpu, MOST);
  RANKS_CHECK(side->on_gpu && side->in && side->by_stream && side->by_host);
  return 0;
}

static int compare(const struct ranks *self, struct side *side, size_t count, tuttiReduceOptions_t *options)
{
  const size_t bytes = count * sizeof(float);
  uint64_t seed = (uint64_t)self->rank * 1000 + count;
  void *on = side->gpu.streams[0];
  for (size_t i = 0; i < count; i++) side->in[i] = (float)(int64_t)next(&seed) * 1e-15f; /* sums round */
  RANKS_CHECK(gpu_copy(&side->gpu, side->on_gpu, side->in, bytes, on) == 0);
  RANKS_CHECK(tuttiAllReduceWith(side->on_gpu, side->on_gpu, count, tuttiFloat, tuttiSum, options, side->comm,
                                 side->stream) == tuttiSuccess);
  RANKS_CHECK(gpu_copy(&side->gpu, side->by_stream, side->on_gpu, bytes, on) == 0);
  RANKS_CHECK(gpu_wait(&side->gpu, on) == 0);
  RANKS_CHECK(tuttiAllReduceWith(side->in, side->by_host, count, tuttiFloat, tuttiSum, options, side->comm, NULL) ==
              tuttiSuccess);
  RANKS_CHECK(memcmp(side->by_stream, side->by_host, bytes) == 0);
  return 0;
}

/* Values that went as half have few bits: the options were not lost on the way. */
static int has_few_bits(const float *values, size_t count, uint32_t rest)
{
  uint32_t bits, all = 0;
  for (size_t i = 0; i < count; i++) {
    memcpy(&bits, &values[i], sizeof bits);
    all |= bits;
  }
  return (all & rest) == 0;
}

static int body(const struct ranks *self)
{
  static const int wires[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat32};
  static const uint32_t rests[] = {0x1fff, 0xffff, 0};
  struct side side;
  RANKS_CHECK(side_make(self, &side) == 0);
  for (size_t w = 0; w < 3; w++)
    for (size_t count = 1; count < MOST; count = count * 7 + 2)
      for (int scales = 0; scales < 2; scales++) {
        tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
        options.wire_type = wires[w];
        if (scales) options.scale_before = 0.5f;
        if (scales) options.scale_after = 4.0f;
        RANKS_CHECK(compare(self, &side, count, &options) == 0);
        RANKS_CHECK(has_few_bits(side.by_stream, count, rests[w]));
      }
  RANKS_CHECK(tuttiCommDestroy(side.comm) == tuttiSuccess);
  return tuttiStreamDestroy(side.stream) != tuttiSuccess;
}

static void streams_have_the_bits_of_the_host(void **state)
{
  (void)state;
  gpu_environment("4", "idle", "1024");
  assert_int_equal(ranks_run_processes(3, body, NULL, 60), 0);
}

/* The bits of all ranks' sum in one tree: whatever the transport. */
static void deterministic_ones_do(void **state)
{
  (void)state;
  gpu_environment("4", "idle", "1024");
  setenv("TUTTI_DETERMINISTIC", "1", 1);
  for (int k = 0; k < 2; k++) {
    setenv("TUTTI_TRANSPORTS", k ? "tcp" : "shm", 1);
    assert_int_equal(ranks_run_processes(3, body, NULL, 60), 0);
  }
  unsetenv("TUTTI_TRANSPORTS");
  unsetenv("TUTTI_DETERMINISTIC");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_have_the_bits_of_the_host),
      cmocka_unit_test(deterministic_ones_do),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
