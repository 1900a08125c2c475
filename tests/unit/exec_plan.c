/* SPDX-License-Identifier: BSD-3-Clause */
/* What the executor asks of schedules beyond what the verifier proves.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "exec/private.h"

static void plan_make(const struct tt_algo *algo, const struct tt_shape *shape, int merges)
{
  struct tt_schedule schedule;
  struct tt_plan *plan = NULL;
  tt_schedule_init(&schedule, shape);
  algo->generate(&schedule, shape);
  if (merges) tt_pass_merge(&schedule);
  tt_pass_fuse(&schedule);
  if (tt_plan_create(&plan, &schedule) != tuttiSuccess)
    fail_msg("%s %s, rank %d of %d: %s", tt_kinds[algo->collective].name, algo->name, shape->rank, shape->nranks,
             tt_last_sentence());
  tt_plan_destroy(plan);
  tt_schedule_destroy(&schedule);
}

static void plans_make(const struct tt_algo *algo, int32_t nranks, int32_t rank)
{
  struct tt_shape shape = {.nranks = nranks, .rank = rank, .root = -1, .middle = -1};
  if (tt_kinds[algo->collective].has_root) shape.root = nranks / 2;
  tt_algo_shape(algo, &shape);
  if (algo->illegal && algo->illegal(&shape)) return;
  plan_make(algo, &shape, 0);
  plan_make(algo, &shape, 1);
}

static void the_executor_runs_every_row(void **state)
{
  (void)state;
  for (int a = 0; a < tt_algo_count; a++)
    for (int32_t nranks = 1; nranks <= 17; nranks += nranks < 9 ? 1 : 4)
      for (int32_t rank = 0; rank < nranks; rank++) plans_make(&tt_algos[a], nranks, rank);
}

/* Of fp32 that travels in two bytes a kernel converts one source. */
static void a_step_reads_in_and_out_once_at_most(void **state)
{
  (void)state;
  const struct tt_shape shape = {
      .collective = TT_ALL_REDUCE, .nranks = 1, .rank = 0, .nblocks = 2, .root = -1, .middle = -1};
  const struct tt_operand pairs[2][2] = {{tt_in(0), tt_out(0)}, {tt_out(0), tt_out(0)}};
  for (int i = 0; i < 2; i++) {
    struct tt_schedule schedule;
    struct tt_plan *plan = NULL;
    tt_schedule_init(&schedule, &shape);
    tt_reduce2(&schedule, (struct tt_blocks){0, 1}, pairs[i][0], pairs[i][1], tt_out(0));
    assert_int_equal(schedule.error, tuttiSuccess);
    assert_int_equal(tt_plan_create(&plan, &schedule), tuttiInternalError);
    assert_null(plan);
    assert_non_null(strstr(tt_last_sentence(), "step 0 reads IN or OUT twice"));
    tt_schedule_destroy(&schedule);
  }
}

/* Block 2 and block 0 of 3 may have other lengths than block 2 and the one behind it. */
static void what_goes_over_the_end_is_not_run_at_once(void **state)
{
  (void)state;
  const struct tt_shape shape = {
      .collective = TT_ALL_REDUCE, .nranks = 2, .rank = 0, .nblocks = 3, .root = -1, .middle = -1};
  for (int32_t first = 0; first < 3; first++) {
    struct tt_schedule schedule;
    struct tt_plan *plan = NULL;
    tt_schedule_init(&schedule, &shape);
    tt_recv(&schedule, (struct tt_blocks){first, 2}, 1, tt_scratch(0));
    assert_int_equal(tt_plan_create(&plan, &schedule), tuttiSuccess);
    assert_int_equal(plan->quick != NULL, first + 2 <= 3);
    tt_plan_destroy(plan);
    tt_schedule_destroy(&schedule);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_executor_runs_every_row),
      cmocka_unit_test(a_step_reads_in_and_out_once_at_most),
      cmocka_unit_test(what_goes_over_the_end_is_not_run_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
