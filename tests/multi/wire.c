/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats that travel as fp16 or bf16: the bits are those of the same call in that type on contributions that were
 * converted before, whatever the algorithm, the collective, the place and the values.
 * Labels: slow, processes. */
#include "comm/private.h"
#include "wire_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define GUARD 64

struct trial {
  int collective, wire;
  size_t count;
  int op;          /* TT_PREMUL_SUM: each rank has a scalar of its own */
  int root;        /* of a reduce */
  int in_place, shift, hostile;
  int has_options; /* the wire type is an option of the call, not the communicator's */
};

/* What this rank's contributions are multiplied by. */
static float factor_of(const struct ranks *self, const struct trial *trial)
{
  if (trial->op == tuttiAvg) return (float)(1.0 / self->nranks);
  return trial->op == TT_PREMUL_SUM ? 0.3f * (float)(self->rank + 1) : 1;
}

static float input_of(const struct ranks *self, const struct trial *trial, size_t i)
{
  return trial->hostile ? hostile_value(self->rank, i) : mixed_value(self->rank, i);
}

/* The call itself; redop as the library has it. */
static tuttiResult_t operate(const struct trial *trial, const void *in, void *out, int type, tuttiRedOp_t op,
                             tuttiComm_t comm)
{
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  options.wire_type = trial->wire;
  tuttiDataType_t t = (tuttiDataType_t)type;
  if (trial->collective == TT_REDUCE) return tuttiReduce(in, out, trial->count, t, op, trial->root, comm, NULL);
  if (trial->collective == TT_REDUCE_SCATTER) return tuttiReduceScatter(in, out, trial->count, t, op, comm, NULL);
  if (trial->has_options && t == tuttiFloat32)
    return tuttiAllReduceWith(in, out, trial->count, t, op, &options, comm, NULL);
  return tuttiAllReduce(in, out, trial->count, t, op, comm, NULL);
}

static tuttiResult_t operate_scaled(const struct ranks *self, const struct trial *trial, const void *in, void *out,
                                    tuttiComm_t comm)
{
  float scalar = factor_of(self, trial);
  tuttiRedOp_t op;
  tuttiResult_t result = tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat32, tuttiScalarHostImmediate, comm);
  if (result == tuttiSuccess) result = operate(trial, in, out, tuttiFloat32, op, comm);
  return result == tuttiSuccess ? tuttiRedOpDestroy(op, comm) : result;
}

/* The same reduction of converted contributions, in place on `half`: sums, whose contributions are multiplied here. */
static int reference_make(const struct ranks *self, tuttiComm_t comm, const struct trial *trial, uint16_t *half)
{
  int is_sum = trial->op == tuttiAvg || trial->op == TT_PREMUL_SUM;
  size_t n = trial->count * (size_t)(trial->collective == TT_REDUCE_SCATTER ? self->nranks : 1);
  volatile float factor = factor_of(self, trial);
  for (size_t i = 0; i < n; i++) {
    float x = input_of(self, trial, i);
    half[i] = (uint16_t)tt_float_from_fp32(trial->wire, is_sum ? x * factor : x);
  }
  uint16_t *out = half + (trial->collective == TT_REDUCE_SCATTER ? (size_t)self->rank * trial->count : 0);
  RANKS_CHECK(operate(trial, half, out, trial->wire, is_sum ? tuttiSum : (tuttiRedOp_t)trial->op, comm) ==
              tuttiSuccess);
  memmove(half, out, trial->count * 2);
  return 0;
}

/* out holds what half has, and nothing around it was touched. */
static int is_as_reference(const struct ranks *self, const struct trial *trial, const char *out, const uint16_t *half)
{
  int is_mine = trial->collective != TT_REDUCE || self->rank == trial->root;
  for (size_t i = 0; i < trial->count && is_mine; i++) {
    float got, want = tt_float_to_fp32(trial->wire, half[i]);
    memcpy(&got, out + 4 * i, 4);
    if (memcmp(&got, &want, 4) != 0)
      fprintf(stderr, "collective %d %s op %d count %zu in place %d shift %d options %d: [%zu] is %a instead of %a\n",
              trial->collective, tt_type_name(trial->wire), trial->op, trial->count, trial->in_place, trial->shift,
              trial->has_options, i, (double)got, (double)want);
    RANKS_CHECK(memcmp(&got, &want, 4) == 0);
  }
  return 0;
}

static int buffers_check(const struct ranks *self, tuttiComm_t comm, const struct trial *trial, char *const place[2],
                         uint16_t *half)
{
  int scatters = trial->collective == TT_REDUCE_SCATTER;
  size_t n = trial->count * (size_t)(scatters ? self->nranks : 1), own = scatters ? (size_t)self->rank : 0;
  char *in = place[0] + GUARD + trial->shift, *out = place[1] + GUARD + trial->shift;
  if (trial->in_place) out = in + own * trial->count * 4;
  for (size_t i = 0; i < n; i++) {
    float x = input_of(self, trial, i);
    memcpy(in + 4 * i, &x, 4);
  }
  tuttiResult_t result = trial->op == TT_PREMUL_SUM
                             ? operate_scaled(self, trial, in, out, comm)
                             : operate(trial, in, out, tuttiFloat32, (tuttiRedOp_t)trial->op, comm);
  RANKS_CHECK(result == tuttiSuccess);
  if (is_as_reference(self, trial, out, half)) return 1;
  for (int g = 0; g < GUARD; g++) RANKS_CHECK(in[-1 - g] == 0x5a && in[n * 4 + (size_t)g] == 0x5a);
  if (trial->in_place) return 0;
  int writes = trial->collective != TT_REDUCE || self->rank == trial->root;
  size_t len = writes ? trial->count * 4 : 0;
  for (int g = 0; g < GUARD; g++) RANKS_CHECK(out[-1 - g] == 0x5a && out[len + (size_t)g] == 0x5a);
  for (size_t i = 0; i < n; i++) {
    float x = input_of(self, trial, i);
    RANKS_CHECK(memcmp(in + 4 * i, &x, 4) == 0);
  }
  return 0;
}

static int check_one(const struct ranks *self, tuttiComm_t comm, const struct trial *trial)
{
  size_t n = trial->count * (size_t)(trial->collective == TT_REDUCE_SCATTER ? self->nranks : 1);
  size_t room = n * 4 + 2 * GUARD + 8;
  char *place[2] = {malloc(room), malloc(room)};
  uint16_t *half = malloc(n * 2 + 2);
  RANKS_CHECK(place[0] && place[1] && half);
  memset(place[0], 0x5a, room);
  memset(place[1], 0x5a, room);
  int bad = reference_make(self, comm, trial, half) || buffers_check(self, comm, trial, place, half);
  if (!bad && trial->collective == TT_ALL_REDUCE) bad = same_number(self, comm, hash_of(half, trial->count * 2));
  free(place[0]);
  free(place[1]);
  free(half);
  return bad;
}

/* ---- every algorithm ---- */

static const int ops[] = {tuttiSum, tuttiAvg, TT_PREMUL_SUM, tuttiMax, tuttiProd, tuttiMin};
enum { OPS = sizeof ops / sizeof *ops };

static int all_reduces_check(const struct ranks *self, tuttiComm_t comm, int a, int wire)
{
  static const size_t counts[] = {0, 1, 3, 64, 1000, 30011};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    for (size_t k = 0; k < (counts[c] > 5000 ? 2 : 3); k++) {
      size_t turn = c + k * 2 + (size_t)a;
      struct trial trial = {.collective = TT_ALL_REDUCE, .wire = wire, .count = counts[c], .op = ops[turn % OPS],
                            .in_place = (int)(turn / 2 % 2), .shift = (int)(turn % 5), .hostile = k == 1,
                            .has_options = a / 2 % 2};
      if (check_one(self, comm, &trial)) return 1;
    }
  return 0;
}

static int every_algorithm_body(const struct ranks *self)
{
  const char *algo;
  for (int a = 0; (algo = wire_algo(a, self->nranks)); a++) {
    int wire = wires[(a / 2 + self->nranks) % 2];
    tuttiComm_t comm;
    if (algo_is_left_out(a, self->nranks)) continue;
    if (wire_comm(self, self->argument, algo, 4096, a % 4 < 2 ? wire : -1, &comm)) return 1;
    if (all_reduces_check(self, comm, a, wire)) {
      fprintf(stderr, "algorithm %s\n", algo);
      return 1;
    }
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void every_algorithm_gives_the_bits_of_the_16_bit_type(void **state)
{
  static const int numbers[] = {1, 2, 3, 4, 5, 6, 9};
  size_t most = IS_SLOW ? 4 : sizeof numbers / sizeof *numbers; /* 2 to 4 ranks have each algorithm once */
  (void)state;
  for (size_t n = IS_SLOW; n < most; n++)
    for (int t = 0; t < (numbers[n] > 6 ? 1 : 2); t++) {
      if (IS_SLOW && n % 2 != (size_t)t) continue;
      struct meeting *meeting = meeting_make(numbers[n]);
      assert_int_equal(run_wire(t ? "tcp" : "shm", numbers[n], every_algorithm_body, meeting), 0);
      meeting_free(meeting);
    }
}

/* The algorithm is chosen by the bytes that travel: so it is the one of the 16-bit type at every size. */
static int every_size_body(const struct ranks *self)
{
  tuttiComm_t comm;
  if (wire_comm(self, self->argument, "", 0, self->nranks % 2 ? tuttiFloat16 : tuttiBfloat16, &comm)) return 1;
  for (size_t count = 1; count < 600000; count += 1 + count * 2 / 5) {
    struct trial trial = {.collective = TT_ALL_REDUCE, .wire = comm->facts.wire_type, .count = count, .op = tuttiSum,
                          .in_place = (int)(count % 2)};
    if (check_one(self, comm, &trial)) return 1;
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void the_choice_by_size_is_that_of_the_16_bit_type(void **state)
{
  (void)state;
  for (int nranks = 4 + IS_SLOW; nranks <= 6 - IS_SLOW; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire(nranks == 5 ? "tcp" : "shm", nranks, every_size_body, meeting), 0);
    meeting_free(meeting);
  }
}

static int many_ranks_body(const struct ranks *self)
{
  static const char *const algos[] = {"", "ring", "binary_blocks", "hierarchical"};
  for (size_t a = 0; a < sizeof algos / sizeof *algos; a++) {
    tuttiComm_t comm;
    if (wire_comm(self, self->argument, algos[a], 4096, wires[a % 2], &comm)) return 1;
    struct trial trial = {.collective = TT_ALL_REDUCE, .wire = wires[a % 2], .count = 5003, .op = tuttiAvg};
    if (check_one(self, comm, &trial)) return 1;
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void so_it_is_with_many_ranks(void **state)
{
  (void)state;
  const int nranks = IS_SLOW ? 11 : 19;
  struct meeting *meeting = meeting_make(nranks);
  assert_int_equal(run_wire("shm", nranks, many_ranks_body, meeting), 0);
  meeting_free(meeting);
}

/* ---- the other reductions ---- */

static int reductions_body(const struct ranks *self)
{
  static const size_t counts[] = {0, 1, 7, 1000, 20011};
  for (int w = 0; w < 2; w++) {
    tuttiComm_t comm;
    if (wire_comm(self, self->argument, "", w ? 4096 : 0, wires[w], &comm)) return 1;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
      for (size_t k = 0; k < 6; k++) {
        size_t turn = c + k * 2 + (size_t)w;
        struct trial trial = {.collective = k % 2 ? TT_REDUCE : TT_REDUCE_SCATTER, .wire = wires[w],
                              .count = counts[c], .op = ops[turn % OPS], .root = (int)(turn % (size_t)self->nranks),
                              .in_place = (int)(k / 2 % 2), .shift = (int)(turn % 5), .hostile = k > 3};
        if (check_one(self, comm, &trial)) return 1;
      }
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void reduce_and_reduce_scatter_have_it_from_the_communicator(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 6; nranks += 1 + 2 * IS_SLOW) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire(nranks % 2 ? "tcp" : "shm", nranks, reductions_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* ---- deterministic ---- */

static int deterministic_body(const struct ranks *self)
{
  enum { N = 700, LARGE = 9000 };
  static float whole[LARGE], part[LARGE];
  setenv("TUTTI_DETERMINISTIC", "1", 1);
  for (int w = 0; w < 2; w++) {
    tuttiComm_t comm;
    if (wire_comm(self, self->argument, w ? "binary_blocks_whole" : "", w ? 1000 : 0, wires[w], &comm)) return 1;
    struct trial trial = {.collective = TT_ALL_REDUCE, .wire = wires[w], .count = LARGE, .op = tuttiSum};
    if (check_one(self, comm, &trial)) return 1;
    for (size_t i = 0; i < LARGE; i++) whole[i] = mixed_value(self->rank, i);
    RANKS_CHECK(tuttiAllReduce(whole, whole, LARGE, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
    for (size_t first = 0; first + N < LARGE; first += 2 * N + 1) { /* the same elements in another place */
      for (size_t i = 0; i < N; i++) part[i] = mixed_value(self->rank, first + i);
      RANKS_CHECK(tuttiAllReduce(part, part, N, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
      RANKS_CHECK(memcmp(part, whole + first, N * sizeof *part) == 0);
    }
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void deterministic_bits_depend_on_nothing_else(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= 7; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire(nranks % 2 ? "shm" : "tcp", nranks, deterministic_body, meeting), 0);
    meeting_free(meeting);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_algorithm_gives_the_bits_of_the_16_bit_type),
      cmocka_unit_test(the_choice_by_size_is_that_of_the_16_bit_type),
      cmocka_unit_test(so_it_is_with_many_ranks),
      cmocka_unit_test(reduce_and_reduce_scatter_have_it_from_the_communicator),
      cmocka_unit_test(deterministic_bits_depend_on_nothing_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
