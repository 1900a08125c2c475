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
#include "schedule/text_private.h"

/* The text in tests/golden/<name>; free it. */
static char *golden(const char *name)
{
  char path[1024], *text = NULL;
  size_t size = 0;
  snprintf(path, sizeof path, "%s/%s", GOLDEN, name);
  FILE *in = fopen(path, "r");
  if (!in) fail_msg("cannot open %s", path);
  FILE *copy = open_memstream(&text, &size);
  for (int c = getc(in); c != EOF; c = getc(in)) putc(c, copy);
  fclose(in);
  fclose(copy);
  return text;
}

/* The schedule of shape->rank as text; free it. */
static char *printed(const struct tt_algo *algo, const struct tt_shape *shape)
{
  char *text = NULL;
  size_t size = 0;
  struct tt_schedule s;
  tt_schedule_init(&s, shape);
  algo->generate(&s, shape);
  assert_int_equal(s.error, tuttiSuccess);
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(tt_schedule_print(&s, out), tuttiSuccess);
  fclose(out);
  tt_schedule_destroy(&s);
  return text;
}

/* What a row makes for all-reduce of these ranks, in natural blocks. */
static struct tt_shape shape_of(const struct tt_algo *algo, int32_t nranks, int32_t rank)
{
  struct tt_shape shape = {.nranks = nranks, .rank = rank, .root = -1, .middle = -1};
  tt_algo_shape(algo, &shape);
  return shape;
}

static void is_golden(const char *algo_name, int32_t nranks, int32_t rank, int32_t nblocks)
{
  char name[128];
  const struct tt_algo *algo = tt_algo_find(TT_ALL_REDUCE, algo_name);
  struct tt_shape shape = shape_of(algo, nranks, rank);
  shape.nblocks = nblocks;
  snprintf(name, sizeof name, "%s_%dx%d_rank%d.txt", algo_name, (int)nranks, (int)nblocks, (int)rank);
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
  is_golden("recursive_multiplying", 8, 5, 1);
  is_golden("halving_doubling", 4, 1, 4);
  for (int32_t rank = 0; rank < 7; rank += rank ? 2 : 4) is_golden("binary_blocks", 7, rank, 4);
  for (int32_t rank = 0; rank < 5; rank += 2) is_golden("binary_blocks_whole", 5, rank, 1);
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
      struct tt_shape shape = shape_of(&tt_algos[i], nranks, 0);
      if (tt_kinds[shape.collective].has_root) shape.root = 0;
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
  static const struct {
    const char *algo;
    struct tt_cost cost; /* of rank 3 of 8 */
  } papers[] = {
    {"ring", {.messages = 14, .blocks = 14, .reductions = 7, .rounds = 14}},
    {"recursive_doubling", {.messages = 3, .blocks = 3, .reductions = 3, .slots = 2, .rounds = 3}},
    {"recursive_multiplying", {.messages = 4, .blocks = 4, .reductions = 4, .slots = 1, .rounds = 2}},
    {"one_shot", {.messages = 7, .blocks = 7, .reductions = 7, .slots = 1, .rounds = 1}},
    {"halving_doubling", {.messages = 6, .blocks = 14, .reductions = 7, .rounds = 6}},
    {"binary_blocks", {.messages = 6, .blocks = 14, .reductions = 7, .rounds = 6}},
    {"binary_blocks_whole", {.messages = 3, .blocks = 3, .reductions = 3, .slots = 2, .rounds = 3}},
  };
  (void)state;
  for (size_t k = 0; k < sizeof papers / sizeof papers[0]; k++) {
    const struct tt_algo *algo = tt_algo_find(TT_ALL_REDUCE, papers[k].algo);
    struct tt_shape shape = shape_of(algo, 8, 3);
    struct tt_cost cost;
    algo->claim(&shape, &cost);
    if (memcmp(&cost, &papers[k].cost, sizeof cost) != 0) fail_msg("%s claims other costs", papers[k].algo);
  }
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
