/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"

/* The text in tests/golden/<name>; free it. */
static char *golden(const char *name)
{
  char path[1024], *text = NULL;
  size_t size = 0;
  const char *slash = strrchr(__FILE__, '/');
  snprintf(path, sizeof path, "%.*s/../golden/%s", slash ? (int)(slash - __FILE__) : 1, slash ? __FILE__ : ".", name);
  FILE *in = fopen(path, "r");
  if (!in) fail_msg("cannot open %s", path);
  FILE *copy = open_memstream(&text, &size);
  for (int c = getc(in); c != EOF; c = getc(in)) putc(c, copy);
  fclose(in);
  fclose(copy);
  return text;
}

/* The schedule of shape->rank as text; free it. */
static char *printed(const char *algo, const struct tt_shape *shape)
{
  char *text = NULL;
  size_t size = 0;
  struct tt_schedule s;
  tt_schedule_init(&s, shape);
  tt_algo_find(TT_ALL_REDUCE, algo)->generate(&s, shape);
  assert_int_equal(s.error, tuttiSuccess);
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(tt_schedule_print(&s, out), tuttiSuccess);
  fclose(out);
  tt_schedule_destroy(&s);
  return text;
}

static void is_golden(const char *algo, int32_t nranks, int32_t rank, int32_t nblocks)
{
  char name[128];
  struct tt_shape shape = {.nranks = nranks, .rank = rank, .nblocks = nblocks, .root = -1};
  snprintf(name, sizeof name, "%s_%dx%d_rank%d.txt", algo, (int)nranks, (int)nblocks, (int)rank);
  char *is = printed(algo, &shape), *wanted = golden(name);
  assert_string_equal(is, wanted);
  free(is);
  free(wanted);
}

static void schedules_are_as_in_the_golden_files(void **state)
{
  (void)state;
  is_golden("ring", 4, 1, 4);
  is_golden("ring", 4, 0, 4);
  is_golden("ring", 3, 2, 2);
  for (int32_t rank = 0; rank < 6; rank++) is_golden("recursive_doubling", 6, rank, 1);
  is_golden("recursive_doubling", 2, 1, 3);
}

static void an_algorithm_is_found_by_collective_and_name(void **state)
{
  (void)state;
  assert_true(tt_algo_count >= 2);
  for (int i = 0; i < tt_algo_count; i++)
    assert_ptr_equal(tt_algo_find(tt_algos[i].collective, tt_algos[i].name), &tt_algos[i]);
  assert_null(tt_algo_find(TT_NO_COLLECTIVE, "ring"));
  assert_null(tt_algo_find(TT_ALL_REDUCE, "rin"));
  assert_null(tt_algo_find(TT_ALL_REDUCE, NULL));
}

static void natural_blocks_are_at_least_one_and_every_rank_has_steps(void **state)
{
  (void)state;
  for (int i = 0; i < tt_algo_count; i++)
    for (int32_t nranks = 1; nranks < 40; nranks++) {
      struct tt_shape shape = {.nranks = nranks, .root = -1, .nblocks = 1};
      shape.nblocks = tt_algos[i].blocks(&shape);
      assert_true(shape.nblocks >= 1);
      for (shape.rank = 0; shape.rank < nranks; shape.rank++) {
        struct tt_schedule s;
        tt_schedule_init(&s, &shape);
        tt_algos[i].generate(&s, &shape);
        assert_int_equal(s.error, tuttiSuccess);
        assert_true(s.nsteps > 0);
        tt_schedule_destroy(&s);
      }
    }
}

/* The numbers in the heads of the files, for cases that can be done by hand. */
static void costs_are_those_of_the_papers(void **state)
{
  (void)state;
  struct tt_cost cost;
  struct tt_shape shape = {.nranks = 8, .rank = 3, .nblocks = 8, .root = -1};
  tt_algo_find(TT_ALL_REDUCE, "ring")->claim(&shape, &cost);
  assert_int_equal(cost.messages, 14);
  assert_int_equal(cost.blocks, 14);
  assert_int_equal(cost.reductions, 7);
  assert_int_equal(cost.slots, 0);
  shape.nblocks = 1;
  tt_algo_find(TT_ALL_REDUCE, "recursive_doubling")->claim(&shape, &cost);
  assert_int_equal(cost.messages, 3);
  assert_int_equal(cost.blocks, 3);
  assert_int_equal(cost.reductions, 3);
  assert_int_equal(cost.slots, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(schedules_are_as_in_the_golden_files),
    cmocka_unit_test(an_algorithm_is_found_by_collective_and_name),
    cmocka_unit_test(natural_blocks_are_at_least_one_and_every_rank_has_steps),
    cmocka_unit_test(costs_are_those_of_the_papers),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
