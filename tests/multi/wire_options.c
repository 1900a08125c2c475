/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the wire type comes from, and what is refused: the environment, the communicator, its parent, the call;
 * programs that are older or newer than the library.
 * Labels: processes. */
#include <math.h>

#include "comm/comm.h"
#include "wire_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define FINE 1.0003f /* neither fp16 nor bf16 has it: they have 1 */
#define COARSE 1.005f /* fp16 has something near it; bf16 has 1.0078125 */

/* Which type a sum of comm really travels in. */
static int type_seen(const struct ranks *self, tuttiComm_t comm, const tuttiReduceOptions_t *options)
{
  float x[2] = {FINE, COARSE}, n = (float)self->nranks;
  if (tuttiAllReduceWith(x, x, 2, tuttiFloat, tuttiMax, options, comm, NULL) != tuttiSuccess) return -1;
  if (x[0] == FINE && x[1] == COARSE) return tuttiFloat32;
  if (x[0] != 1) return -2;
  if (x[1] == rounded(tuttiBfloat16, COARSE)) return tuttiBfloat16;
  return x[1] == rounded(tuttiFloat16, COARSE) && n > 0 ? tuttiFloat16 : -3;
}

static int comm_seen(const struct ranks *self, const char *environment, int wire)
{
  tuttiComm_t comm;
  if (environment) setenv("TUTTI_WIRE_TYPE", environment, 1);
  else unsetenv("TUTTI_WIRE_TYPE");
  if (wire_comm(self, self->argument, "", 0, wire, &comm)) return -4;
  int seen = type_seen(self, comm, NULL);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return seen;
}

static int environment_body(const struct ranks *self)
{
  RANKS_CHECK(comm_seen(self, NULL, -1) == tuttiFloat32);
  RANKS_CHECK(comm_seen(self, NULL, tuttiFloat16) == tuttiFloat16);
  RANKS_CHECK(comm_seen(self, NULL, tuttiFloat32) == tuttiFloat32);
  RANKS_CHECK(comm_seen(self, "config", tuttiBfloat16) == tuttiBfloat16);
  RANKS_CHECK(comm_seen(self, "", tuttiBfloat16) == tuttiBfloat16);
  RANKS_CHECK(comm_seen(self, "half", -1) == tuttiFloat16);
  RANKS_CHECK(comm_seen(self, "Half", tuttiBfloat16) == tuttiFloat16);
  RANKS_CHECK(comm_seen(self, "bfloat16", tuttiFloat16) == tuttiBfloat16);
  RANKS_CHECK(comm_seen(self, "float", tuttiFloat16) == tuttiFloat32);
  return 0;
}

static void the_environment_overrides_the_program(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 3; nranks += 2) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire("shm", nranks, environment_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* One rank has it from the environment, the others from the program: that is the same. */
static int same_thing_body(const struct ranks *self)
{
  tuttiComm_t comm;
  if (self->rank == 1) setenv("TUTTI_WIRE_TYPE", "half", 1);
  if (wire_comm(self, self->argument, "", 0, self->rank == 1 ? -1 : tuttiFloat16, &comm)) return 1;
  RANKS_CHECK(type_seen(self, comm, NULL) == tuttiFloat16);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wherever_it_comes_from_it_is_the_same(void **state)
{
  (void)state;
  struct meeting *meeting = meeting_make(3);
  assert_int_equal(run_wire("tcp", 3, same_thing_body, meeting), 0);
  meeting_free(meeting);
}

/* ---- calls ---- */

static int calls_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  if (wire_comm(self, self->argument, "", 0, tuttiFloat16, &comm)) return 1;
  RANKS_CHECK(type_seen(self, comm, NULL) == tuttiFloat16);
  RANKS_CHECK(type_seen(self, comm, &options) == tuttiFloat16);
  options.wire_type = tuttiBfloat16;
  RANKS_CHECK(type_seen(self, comm, &options) == tuttiBfloat16);
  options.wire_type = tuttiFloat32;
  RANKS_CHECK(type_seen(self, comm, &options) == tuttiFloat32);
  options.wire_type = self->rank ? tuttiFloat16 : tuttiBfloat16; /* without meaning for other types than float */
  double wide = (double)FINE;
  int64_t integer = 1ll << 40;
  RANKS_CHECK(tuttiAllReduceWith(&wide, &wide, 1, tuttiDouble, tuttiMax, &options, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduceWith(&integer, &integer, 1, tuttiInt64, tuttiMax, &options, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(wide == (double)FINE && integer == 1ll << 40);
  float x[4] = {FINE, FINE, FINE, FINE}, all[64]; /* what is only moved keeps its bits */
  RANKS_CHECK(tuttiAllGather(x, all, 4, tuttiFloat, comm, NULL) == tuttiSuccess && all[1] == FINE);
  RANKS_CHECK(tuttiBroadcast(x, x, 4, tuttiFloat, 0, comm, NULL) == tuttiSuccess && x[3] == FINE);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_call_may_have_another_than_its_communicator(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 3; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire("shm", nranks, calls_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* ---- children ---- */

static int children_body(const struct ranks *self)
{
  tuttiComm_t comm, child, grandchild, shrunk;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  if (wire_comm(self, self->argument, "", 0, tuttiBfloat16, &comm)) return 1;
  RANKS_CHECK(tuttiCommSplit(comm, 0, -self->rank, &child, NULL) == tuttiSuccess);
  RANKS_CHECK(type_seen(self, child, NULL) == tuttiBfloat16);
  config.wire_type = tuttiFloat16;
  RANKS_CHECK(tuttiCommSplit(child, 0, 0, &grandchild, &config) == tuttiSuccess);
  RANKS_CHECK(type_seen(self, grandchild, NULL) == tuttiFloat16 && type_seen(self, child, NULL) == tuttiBfloat16);
  RANKS_CHECK(tuttiCommDestroy(grandchild) == tuttiSuccess);
  setenv("TUTTI_WIRE_TYPE", "config", 1);
  config.wire_type = tuttiFloat32;
  RANKS_CHECK(tuttiCommSplit(child, 0, 0, &grandchild, &config) == tuttiSuccess);
  RANKS_CHECK(type_seen(self, grandchild, NULL) == tuttiFloat32);
  RANKS_CHECK(tuttiCommDestroy(grandchild) == tuttiSuccess && tuttiCommDestroy(child) == tuttiSuccess);
  if (self->rank) {
    int first = 0;
    RANKS_CHECK(tuttiCommShrink(comm, &first, 1, &shrunk, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
    RANKS_CHECK(type_seen(self, shrunk, NULL) == tuttiBfloat16);
    RANKS_CHECK(tuttiCommDestroy(shrunk) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* The environment overrides what children are given, too. */
static int forced_children_body(const struct ranks *self)
{
  tuttiComm_t comm, child;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  setenv("TUTTI_WIRE_TYPE", "half", 1);
  if (wire_comm(self, self->argument, "", 0, -1, &comm)) return 1;
  config.wire_type = tuttiBfloat16;
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &child, &config) == tuttiSuccess);
  RANKS_CHECK(type_seen(self, child, NULL) == tuttiFloat16);
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void children_inherit_it(void **state)
{
  (void)state;
  struct meeting *meeting = meeting_make(3);
  assert_int_equal(run_wire("shm", 3, children_body, meeting), 0);
  assert_int_equal(run_wire("tcp", 3, forced_children_body, meeting), 0);
  meeting_free(meeting);
}

/* ---- programs of another age ---- */

struct newer {
  tuttiConfig_t config;
  int more[8];
};

struct newer_options {
  tuttiReduceOptions_t options;
  int more[8];
};

static int ages_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiUniqueId id;
  struct newer newer = {TUTTI_CONFIG_INITIALIZER, {-1, -1, -1, -1, -1, -1, -1, -1}};
  int overflow = 5;
  newer.config.wire_type = tuttiFloat16;
  for (int age = 0; age < 3; age++) {
    /* Before there was a wire type the struct ended in padding, of which anything may be. */
    static const size_t sizes[] = {48, sizeof(tuttiConfig_t), sizeof newer};
    newer.config.size = sizes[age];
    newer.config.unused = tuttiBfloat16;
    RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess);
    RANKS_CHECK(tuttiCommInitRankConfig(&comm, 1, id, 0, &newer.config) == tuttiSuccess);
    RANKS_CHECK(type_seen(self, comm, NULL) == (age ? tuttiFloat16 : tuttiFloat32));
    if (age < 2) RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  struct newer_options future = {TUTTI_REDUCE_OPTIONS_INITIALIZER, {-1, -1, -1, -1, -1, -1, -1, -1}};
  tuttiReduceOptions_t *options = &future.options;
  options->wire_type = tuttiBfloat16;
  options->overflow = &overflow;
  options->scale_before = NAN; /* what follows `size` counts for nothing */
  options->size = offsetof(tuttiReduceOptions_t, scale_before);
  RANKS_CHECK(type_seen(self, comm, options) == tuttiBfloat16 && overflow == 5);
  options->size = offsetof(tuttiReduceOptions_t, wire_type);
  RANKS_CHECK(type_seen(self, comm, options) == tuttiFloat16 && overflow == 5);
  options->size = sizeof future;
  options->scale_before = 1;
  float x = FINE;
  RANKS_CHECK(tuttiAllReduceWith(&x, &x, 1, tuttiFloat, tuttiSum, options, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(x == 1 && overflow == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void older_and_newer_programs_work(void **state)
{
  (void)state;
  assert_int_equal(run_wire("shm", 1, ages_body, NULL), 0);
}

/* ---- refusals ---- */

struct refusal {
  tuttiReduceOptions_t options;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  const char *words[2];
};

static int one_refused(const struct ranks *self, tuttiComm_t comm, const struct refusal *refusal)
{
  float x[2] = {FINE, FINE}, out[2] = {7, 7};
  tuttiResult_t result =
      tuttiAllReduceWith(x, out, 2, refusal->type, refusal->op, &refusal->options, comm, NULL);
  if (result != tuttiInvalidArgument || !says(refusal->words[0]) || !says(refusal->words[1]))
    fprintf(stderr, "\"%s\" \"%s\": %d %s\n", refusal->words[0], refusal->words[1], (int)result,
            tuttiGetLastError(NULL));
  RANKS_CHECK(result == tuttiInvalidArgument && says(refusal->words[0]) && says(refusal->words[1]));
  RANKS_CHECK(out[0] == 7);
  return 0;
}

#define OPTIONS(...) {sizeof(tuttiReduceOptions_t), TUTTI_REDUCE_OPTIONS_MAGIC, TUTTI_VERSION_CODE, __VA_ARGS__, NULL}
#define UNDEF TUTTI_CONFIG_UNDEF_INT

static int refusals_body(const struct ranks *self)
{
  static int flag = 7;
  const struct refusal refusals[] = {
      {OPTIONS(tuttiInt32, 1, 1, NULL), tuttiFloat, tuttiSum, {"options.wire_type is 2", "tuttiBfloat16 (9)"}},
      {OPTIONS(tuttiFloat64, 1, 1, NULL), tuttiInt8, tuttiSum, {"options.wire_type is 8", "tuttiFloat16 (6)"}},
      {OPTIONS(-1, 1, 1, NULL), tuttiFloat, tuttiSum, {"options.wire_type is -1", "set it to"}},
      {OPTIONS(UNDEF, 0, 1, NULL), tuttiFloat, tuttiSum, {"options.scale_before is 0", "other than 0"}},
      {OPTIONS(UNDEF, INFINITY, 1, NULL), tuttiFloat, tuttiSum, {"options.scale_before is inf", "finite"}},
      {OPTIONS(UNDEF, 1, NAN, NULL), tuttiFloat, tuttiSum, {"options.scale_after is nan", "finite"}},
      {OPTIONS(UNDEF, 1, -0.0f, NULL), tuttiFloat, tuttiSum, {"options.scale_after is -0", "other than 0"}},
      {OPTIONS(UNDEF, 2, 1, NULL), tuttiInt32, tuttiSum, {"options.scale_before is 2, but type is int32", "leave"}},
      {OPTIONS(UNDEF, 1, 0.5f, NULL), tuttiUint8, tuttiMax, {"options.scale_after is 0.5, but type is uint8", "leave"}},
      {OPTIONS(UNDEF, 2, 1, NULL), tuttiFloat, tuttiMax, {"options.scale_before is 2, but op is max", "leave it 1"}},
      {OPTIONS(UNDEF, 2, 1, NULL), tuttiFloat, tuttiProd, {"options.scale_before is 2, but op is prod", "averages"}},
      {OPTIONS(UNDEF, 1, 1, &flag), tuttiFloat, tuttiMin, {"options.overflow is set, but op is min", "leave it NULL"}},
      {OPTIONS(UNDEF, 1, 1, &flag), tuttiInt32, tuttiProd, {"options.overflow is set, but op is prod", "NULL"}},
      {{0}, tuttiFloat, tuttiSum, {"not initialised", "TUTTI_REDUCE_OPTIONS_INITIALIZER"}},
      {{4, TUTTI_REDUCE_OPTIONS_MAGIC, 0, UNDEF, 1, 1, NULL, NULL}, tuttiFloat, tuttiSum,
       {"not initialised", "INITIALIZER"}},
      {OPTIONS(UNDEF, 1, 1, NULL), (tuttiDataType_t)17, tuttiSum, {"type is 17", "0 to 16"}},
  };
  tuttiComm_t comm;
  if (wire_comm(self, self->argument, "", 0, -1, &comm)) return 1;
  for (size_t r = 0; r < sizeof refusals / sizeof *refusals; r++)
    if (one_refused(self, comm, &refusals[r])) return 1;
  int x[4] = {1, 1, 1, 1}, out[4] = {0};
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  for (int where = 0; where < 2; where++) {
    options.overflow = where ? &x[3] : &out[0];
    RANKS_CHECK(tuttiAllReduceWith(x, out, 4, tuttiInt32, tuttiSum, &options, comm, NULL) == tuttiInvalidArgument &&
                says("inside"));
  }
  options.overflow = &out[2];
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduceWith(x, out, 4, tuttiInt32, tuttiSum, &options, comm, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidArgument && says("options.overflow"));
  options.overflow = &out[3]; /* just behind */
  RANKS_CHECK(tuttiAllReduceWith(x, out, 3, tuttiInt32, tuttiSum, &options, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(out[2] == self->nranks && flag == 7);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void what_is_wrong_is_named_before_anything_happens(void **state)
{
  (void)state;
  struct meeting *meeting = meeting_make(2);
  assert_int_equal(run_wire("shm", 2, refusals_body, meeting), 0);
  meeting_free(meeting);
}

static int inits_body(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.wire_type = tuttiFloat64;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 1, self->id, 0, &config) == tuttiInvalidArgument &&
              says("config.wire_type is 8") && says("tuttiFloat16 (6)"));
  setenv("TUTTI_WIRE_TYPE", "fp16", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiInvalidArgument && says("TUTTI_WIRE_TYPE is \"fp16\""));
  unsetenv("TUTTI_WIRE_TYPE");
  setenv("TUTTI_KERNELS", "abacus", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiInvalidArgument && says("TUTTI_KERNELS is abacus") &&
              says("plain"));
  setenv("TUTTI_KERNELS", "plain", 1);
  tuttiUniqueId id;
  RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess && tuttiCommInitRank(&comm, 1, id, 0) == tuttiSuccess);
  RANKS_CHECK(!strcmp(tt_reduce_table()->name, "plain"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_names_are_errors_of_init(void **state)
{
  (void)state;
  assert_int_equal(run_wire("shm", 1, inits_body, NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_environment_overrides_the_program),
      cmocka_unit_test(wherever_it_comes_from_it_is_the_same),
      cmocka_unit_test(a_call_may_have_another_than_its_communicator),
      cmocka_unit_test(children_inherit_it),
      cmocka_unit_test(older_and_newer_programs_work),
      cmocka_unit_test(what_is_wrong_is_named_before_anything_happens),
      cmocka_unit_test(wrong_names_are_errors_of_init),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
