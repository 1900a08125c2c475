/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums that do round: all ranks hold the same bits, whatever the algorithm; and with `deterministic` the bits of an
 * element depend on nothing but what the ranks gave for it: not on the count, the segments, the place in a larger
 * vector, the transport, the order on the wire or the algorithm.
 * Labels: plain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algos/algos.h"
#include "base/base.h"
#include "meeting.h"
#include "ranks.h"
#include "reduce/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST_RANKS 9
#define VECTOR 1000 /* elements whose results are compared */
#define LARGE 20000

static const int types[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat32, tuttiFloat64};
enum { TYPES = sizeof types / sizeof types[0] };

struct job {
  struct meeting *meeting;
  char (*results)[LARGE * 8];       /* of each rank, to be compared */
  char (*reference)[VECTOR * 8];    /* by trees and type: the sums of the vector's elements, with `deterministic` */
  char topology[64];                /* a file, "" for none */
};

/* Each collective may have a tree of its own, a reduce one for each root. */
enum trees { OF_ALL_REDUCE, OF_REDUCE_SCATTER, OF_REDUCE_FIRST, OF_REDUCE_LAST, TREES };

/* ---- values of wildly different exponents ---- */

static uint64_t mixed(uint64_t x)
{
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static double value(int rank, size_t i)
{
  uint64_t bits = mixed(((uint64_t)rank << 32) + i + 1);
  double fraction = 1 + (double)(bits >> 40) / 16777216.0;
  int exponent = (int)(bits % 17) - 8;
  return (bits >> 20 & 1 ? -fraction : fraction) * (exponent < 0 ? 1.0 / (1 << -exponent) : 1 << exponent);
}

static void put(char *at, int type, double x)
{
  float single = (float)x;
  uint32_t bits;
  if (type == tuttiFloat64) memcpy(at, &x, 8);
  else if (type == tuttiFloat32) memcpy(at, &single, 4);
  else {
    bits = tt_float_from_fp32(type, single);
    memcpy(at, &bits, 2);
  }
}

/* The vector from element `first` on, n elements, going round. */
static void vector_put(char *to, int type, int rank, size_t first, size_t n)
{
  for (size_t i = 0; i < n; i++) put(to + i * tt_type_size(type), type, value(rank, (first + i) % VECTOR));
}

/* ---- communicators ---- */

static int comm_make(const struct ranks *self, const char *algo, int segment, tuttiComm_t *comm)
{
  const struct job *job = self->argument;
  char text[16];
  tuttiUniqueId id;
  snprintf(text, sizeof text, "%d", segment);
  setenv("TUTTI_SEGMENT_BYTES", text, 1);
  setenv("TUTTI_ALGO", algo, 1);
  RANKS_CHECK(meeting_id(job->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, id, self->rank) == tuttiSuccess);
  return 0;
}

/* ---- all ranks hold the same ---- */

static int same_on_all(const struct ranks *self, tuttiComm_t comm, const char *algo, int type, tuttiRedOp_t op)
{
  static const size_t counts[] = {1, 13, VECTOR, LARGE};
  const struct job *job = self->argument;
  char *data = job->results[self->rank];
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    vector_put(data, type, self->rank, 0, counts[c]);
    RANKS_CHECK(tuttiAllReduce(data, data, counts[c], (tuttiDataType_t)type, op, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(meeting_wait(job->meeting));
    int same = memcmp(data, job->results[0], counts[c] * tt_type_size(type)) == 0;
    RANKS_CHECK(meeting_wait(job->meeting));
    if (!same) fprintf(stderr, "%s count %zu %s\n", algo, counts[c], tt_type_name(type));
    RANKS_CHECK(same);
  }
  return 0;
}

static int every_algorithm_body(const struct ranks *self)
{
  float scalar = 0.1f * (float)(self->rank + 1);
  for (int a = 0; a < tt_algo_count; a++) {
    tuttiComm_t comm;
    tuttiRedOp_t premul;
    if (tt_algos[a].collective != TT_ALL_REDUCE) continue;
    if (comm_make(self, tt_algos[a].name, 4096, &comm)) return 1;
    RANKS_CHECK(tuttiRedOpCreatePreMulSum(&premul, &scalar, tuttiFloat, tuttiScalarHostImmediate, comm) ==
                tuttiSuccess);
    if (same_on_all(self, comm, tt_algos[a].name, types[a % TYPES], tuttiSum)) return 1;
    if (same_on_all(self, comm, tt_algos[a].name, types[(a + self->nranks) % TYPES], tuttiAvg)) return 1;
    if (same_on_all(self, comm, tt_algos[a].name, tuttiFloat, premul)) return 1;
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

/* ---- deterministic ---- */

/* `data` holds sums of the vector's elements from `first` on. */
static int agrees(const struct ranks *self, int trees, int t, const char *data, size_t first, size_t n)
{
  const struct job *job = self->argument;
  const char *reference = job->reference[trees * TYPES + t];
  size_t size = tt_type_size(types[t]);
  for (size_t i = 0; i < n; i++)
    RANKS_CHECK(memcmp(data + i * size, reference + (first + i) % VECTOR * size, size) == 0);
  return 0;
}

/* What everything later is compared with: the whole vector on the first communicator. */
static int references_make(const struct ranks *self, tuttiComm_t comm, int t)
{
  static char data[MOST_RANKS * VECTOR * 8], out[VECTOR * 8];
  const struct job *job = self->argument;
  tuttiDataType_t type = (tuttiDataType_t)types[t];
  size_t n = (size_t)self->nranks;
  vector_put(data, types[t], self->rank, 0, n * VECTOR);
  for (int k = 0; k < TREES; k++) {
    int root = k == OF_REDUCE_LAST ? self->nranks - 1 : 0;
    tuttiResult_t result = k == OF_ALL_REDUCE ? tuttiAllReduce(data, out, VECTOR, type, tuttiSum, comm, NULL)
                           : k == OF_REDUCE_SCATTER
                               ? tuttiReduceScatter(data, out, VECTOR, type, tuttiSum, comm, NULL)
                               : tuttiReduce(data, out, VECTOR, type, tuttiSum, root, comm, NULL);
    RANKS_CHECK(result == tuttiSuccess);
    if (self->rank == root) memcpy(job->reference[k * TYPES + t], out, VECTOR * tt_type_size(types[t]));
    RANKS_CHECK(meeting_wait(job->meeting));
    if (k <= OF_REDUCE_SCATTER && agrees(self, k, t, out, 0, VECTOR)) return 1;
  }
  return 0;
}

/* The vector's elements by themselves in calls of several counts, and at several places of a larger one. */
static int all_reduces_agree(const struct ranks *self, tuttiComm_t comm, int t)
{
  static const size_t counts[] = {1, 2, 7, 64, 501, VECTOR};
  static char data[LARGE * 8];
  tuttiDataType_t type = (tuttiDataType_t)types[t];
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
    for (size_t first = 0; first < VECTOR; first += 333) {
      vector_put(data, types[t], self->rank, first, counts[c]);
      RANKS_CHECK(tuttiAllReduce(data, data, counts[c], type, tuttiSum, comm, NULL) == tuttiSuccess);
      if (agrees(self, OF_ALL_REDUCE, t, data, first, counts[c])) return 1;
    }
  for (size_t shift = 0; shift < 3; shift++) { /* the same elements at other places of a vector of other length */
    size_t n = LARGE - shift * 7001;
    vector_put(data, types[t], self->rank, shift * 77, n);
    RANKS_CHECK(tuttiAllReduce(data, data, n, type, tuttiSum, comm, NULL) == tuttiSuccess);
    if (agrees(self, OF_ALL_REDUCE, t, data, shift * 77, n)) return 1;
  }
  return 0;
}

static int others_agree(const struct ranks *self, tuttiComm_t comm, int t)
{
  static char data[LARGE * 8], out[LARGE * 8];
  tuttiDataType_t type = (tuttiDataType_t)types[t];
  size_t own = (size_t)self->rank, n = (size_t)self->nranks;
  for (size_t count = 5; count <= LARGE / n; count = count * 5 + 3) {
    vector_put(data, types[t], self->rank, 3, n * count);
    RANKS_CHECK(tuttiReduceScatter(data, out, count, type, tuttiSum, comm, NULL) == tuttiSuccess);
    if (agrees(self, OF_REDUCE_SCATTER, t, out, 3 + own * count, count)) return 1;
    int last = count % 2 == 0, root = last ? self->nranks - 1 : 0;
    RANKS_CHECK(tuttiReduce(data, out, n * count, type, tuttiSum, root, comm, NULL) == tuttiSuccess);
    if (self->rank == root && agrees(self, OF_REDUCE_FIRST + last, t, out, 3, n * count)) return 1;
  }
  return 0;
}

struct way {
  const char *algo;
  int segment, topology;
  const char *transport;
};

static int deterministic_body(const struct ranks *self)
{
  static const struct way ways[] = {
      {"binary_blocks", 0, 0, "shm"},          {"binary_blocks_whole", 4096, 1, "shm"},
      {"binary_blocks", 1000, 1, "shm"},       {"binary_blocks", 4096, 1, "tcp"},
      {"binary_blocks_whole", 0, 0, "tcp"},    {"", 0, 1, "shm,tcp"},
      {"", 8192, 0, "shm"},
  };
  const struct job *job = self->argument;
  setenv("TUTTI_DETERMINISTIC", "1", 1);
  for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
    tuttiComm_t comm;
    setenv("TUTTI_TRANSPORTS", ways[w].transport, 1);
    setenv("TUTTI_TOPOLOGY", ways[w].topology ? job->topology : "", 1);
    if (comm_make(self, ways[w].algo, ways[w].segment, &comm)) return 1;
    for (int t = 0; t < TYPES; t++) {
      if (w == 0 && references_make(self, comm, t)) return 1;
      if (all_reduces_agree(self, comm, t) || others_agree(self, comm, t)) return 1;
    }
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

/* The values can tell: without `deterministic` a ring gives other bits at another place of the vector. */
static int ring_differs_body(const struct ranks *self)
{
  static float alone[VECTOR], shifted[VECTOR];
  tuttiComm_t comm;
  if (comm_make(self, "ring", 0, &comm)) return 1;
  vector_put((char *)alone, tuttiFloat32, self->rank, 0, VECTOR);
  vector_put((char *)shifted, tuttiFloat32, self->rank, VECTOR / 2, VECTOR);
  RANKS_CHECK(tuttiAllReduce(alone, alone, VECTOR, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(shifted, shifted, VECTOR, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  int differ = 0;
  for (int i = 0; i < VECTOR; i++) differ += shifted[i] != alone[(i + VECTOR / 2) % VECTOR];
  RANKS_CHECK(differ > VECTOR / 20);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void run(int nranks, ranks_body body)
{
  struct job job = {.meeting = meeting_make(nranks),
                    .results = ranks_shared((unsigned long)nranks * sizeof *job.results),
                    .reference = ranks_shared(TREES * TYPES * sizeof *job.reference)};
  assert_true(job.meeting && job.results && job.reference);
  if (nranks > 2) { /* the order on the wire is not that of the ranks */
    snprintf(job.topology, sizeof job.topology, "/tmp/tutti-topology-%d", (int)getpid());
    FILE *file = fopen(job.topology, "w");
    assert_non_null(file);
    fprintf(file, "tutti topology 1\nnode a ranks 0,%d\nnode b ranks 1-%d\n", nranks - 1, nranks - 2);
    fclose(file);
  }
  int bad = ranks_run_processes(nranks, body, &job, 120);
  if (job.topology[0]) unlink(job.topology);
  assert_int_equal(bad, 0);
}

static void all_ranks_hold_the_same_bits(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= MOST_RANKS; nranks++) run(nranks, every_algorithm_body);
}

static void deterministic_sums_depend_on_nothing_else(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= MOST_RANKS; nranks++) run(nranks, deterministic_body);
}

static void without_it_they_do(void **state)
{
  (void)state;
  for (int nranks = 4; nranks <= 5; nranks++) run(nranks, ring_differs_body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_it_they_do),
      cmocka_unit_test(all_ranks_hold_the_same_bits),
      cmocka_unit_test(deterministic_sums_depend_on_nothing_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
