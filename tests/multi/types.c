/* SPDX-License-Identifier: BSD-3-Clause */
/* The bitwise operations, and the types that NCCL lacks: exact on every collective and transport for 1 to 5 ranks, also
 * with deterministic reductions; what a type lacks is refused by name before anything is queued, and ranks whose
 * operations differ are told.
 * Labels: processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ranks.h"
#include "slow.h"
#include "trial.h"
#include "tutti_fusion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static int is_bitwise(int op)
{
  return op == tuttiBitAnd || op == tuttiBitOr || op == tuttiBitXor;
}

static int run(struct trial *trial, tuttiComm_t comm)
{
  int is_scaled = tt_kinds[trial->collective].reduces && trial->op == TT_PREMUL_SUM;
  if (is_scaled && trial_redop(trial, comm) != tuttiSuccess) return 0;
  int fine = trial_run(trial, comm);
  return fine && (!is_scaled || tuttiRedOpDestroy(trial->handle, comm) == tuttiSuccess);
}

/* One collective, type and operation. */
static int counts(struct trial trial, tuttiComm_t comm)
{
  static const size_t counts[] = {1, 31, 1000, 20011};
  for (size_t c = (size_t)(trial.op + trial.nranks) % 2; c < 4; c += 2) { /* the others with more ranks or fewer */
    trial.count = counts[c];
    trial.root = (int)(c % (size_t)trial.nranks);
    trial.in_place = (int)(c / 2 + (size_t)trial.type) % 2;
    trial.shift = c % 3 * 5;
    if (!run(&trial, comm)) return 0;
  }
  return 1;
}

static int pairs(const struct ranks *self, tuttiComm_t comm, int type)
{
  enum { COUNT = 33, MOST_BYTES = 16 };
  unsigned char out[COUNT * MOST_BYTES], in[sizeof out];
  size_t len = COUNT * tt_type_size(type);
  int next = (self->rank + 1) % self->nranks, before = (self->rank + self->nranks - 1) % self->nranks;
  memset(out, 17 * self->rank + type, sizeof out);
  memset(in, 0xee, sizeof in);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiSend(out, COUNT, (tuttiDataType_t)type, next, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiRecv(in, COUNT, (tuttiDataType_t)type, before, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  for (size_t i = 0; i < sizeof in; i++)
    RANKS_CHECK(in[i] == (i < len ? (unsigned char)(17 * before + type) : 0xee));
  return 0;
}

static int exact(const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  config.deterministic = self->argument != NULL;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  for (int type = 0; type < tuttiNumTypes; type++) {
    for (int c = TT_ALL_REDUCE; c < TT_PAIRS; c++)
      for (int op = 0; op < (tt_kinds[c].reduces ? TT_REDOPS : 1); op++) {
        struct trial trial = {.nranks = self->nranks, .rank = self->rank, .collective = c, .type = type, .op = op};
        int is_new = type > tuttiFloat8e5m2 || (tt_kinds[c].reduces && is_bitwise(op));
        if (is_new && trial_is_exact(c, type, op, self->nranks)) RANKS_CHECK(counts(trial, comm));
      }
    if (type > tuttiFloat8e5m2 && pairs(self, comm, type)) return 1;
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void operations_and_types_are_exact(void **state)
{
  static int yes = 1;
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    for (int nranks = 1; nranks <= 5; nranks++) { /* each number of them over one transport with the same bits */
      if (IS_SLOW && (nranks / 2 + t) % 2) continue;
      assert_int_equal(ranks_run_processes(nranks, exact, (nranks + t) % 2 ? &yes : NULL, 120), 0);
    }
  }
}

/* ---- what is refused ---- */

#define REFUSED(call, words) RANKS_CHECK((call) == tuttiInvalidArgument && says(words))

static int refused_everywhere(const struct ranks *self, tuttiComm_t comm, int op, int type, const char *words)
{
  static uint64_t in[16], out[16];
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  tuttiDataType_t of = (tuttiDataType_t)type;
  tuttiRedOp_t by = (tuttiRedOp_t)op;
  REFUSED(tuttiAllReduce(in, out, 2, of, by, comm, NULL), words);
  REFUSED(tuttiAllReduceWith(in, out, 2, of, by, &options, comm, NULL), words);
  REFUSED(tuttiReduce(in, out, 2, of, by, 0, comm, NULL), words);
  REFUSED(tuttiReduceScatter(in, out, 2, of, by, comm, NULL), words);
  return 0;
}

static int lacks(const struct ranks *self)
{
  static const int floats[] = {tuttiFloat16,    tuttiFloat32,    tuttiFloat64,        tuttiBfloat16,
                               tuttiFloat8e4m3, tuttiFloat8e5m2, tuttiComplexFloat32, tuttiComplexFloat64};
  static const tuttiFusionTensor_t tensor = {.count = 4, .type = tuttiBool};
  uint64_t scalar[2] = {0};
  char words[80];
  tuttiComm_t comm;
  tuttiRedOp_t made;
  tuttiFusion_t fusion;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (size_t f = 0; f < sizeof floats / sizeof *floats; f++)
    for (int op = tuttiBitAnd; op <= tuttiBitXor; op++) {
      snprintf(words, sizeof words, "op is %s, but type is %s: only integers and bool", tt_redop_name(op),
               tt_type_name(floats[f]));
      if (refused_everywhere(self, comm, op, floats[f], words)) return 1;
    }
  for (int type = tuttiComplexFloat32; type <= tuttiComplexFloat64; type++)
    for (int op = tuttiProd; op <= tuttiMin; op++) {
      snprintf(words, sizeof words, "op is %s, but type is %s: complex numbers have sum and avg alone",
               tt_redop_name(op), tt_type_name(type));
      if (refused_everywhere(self, comm, op, type, words)) return 1;
    }
  if (refused_everywhere(self, comm, tuttiAvg, tuttiBool, "op is avg, but type is bool: bool has no average")) return 1;
  for (int type = tuttiBool; type <= tuttiComplexFloat64; type++) {
    snprintf(words, sizeof words, "type is %s: only integers and floats are multiplied", tt_type_name(type));
    REFUSED(tuttiRedOpCreatePreMulSum(&made, scalar, (tuttiDataType_t)type, tuttiScalarHostImmediate, comm), words);
  }
  REFUSED(tuttiFusionCreate(&fusion, comm, &tensor, 1, NULL), "tensors[0].type is bool: a fusion adds numbers");
  RANKS_CHECK(comm_try(self, comm, self->nranks) == 0); /* nothing was queued */
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void what_a_type_lacks_is_refused_by_name(void **state)
{
  (void)state;
  unsetenv("TUTTI_TRANSPORTS");
  for (int nranks = 1; nranks <= 2; nranks++) assert_int_equal(ranks_run_processes(nranks, lacks, NULL, 60), 0);
}

static int differs(const struct ranks *self)
{
  static int16_t in[3000], out[3000];
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  tuttiResult_t result = tuttiAllReduce(in, out, 3000, self->rank && self->argument ? tuttiUint16 : tuttiInt16,
                                        self->rank && !self->argument ? tuttiBitOr : tuttiBitAnd, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage && comm_says(comm, "int16, and"));
  RANKS_CHECK(comm_says(comm, self->argument ? "uint16, and" : "int16, or"));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  return 0;
}

static void ranks_whose_operations_or_types_differ_are_told(void **state)
{
  static int types = 1;
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    for (int k = 0; k < 2; k++) assert_int_equal(ranks_run_processes(2, differs, k ? &types : NULL, 60), 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operations_and_types_are_exact),
      cmocka_unit_test(what_a_type_lacks_is_refused_by_name),
      cmocka_unit_test(ranks_whose_operations_or_types_differ_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
