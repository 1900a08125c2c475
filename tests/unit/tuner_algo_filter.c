/* SPDX-License-Identifier: BSD-3-Clause */
/* TUTTI_ALGO: what it may say, what is left to choose from, and what it is told where it cannot be.
 * Labels: plain, planner. */
#include <stdlib.h>
#include <string.h>

#include "tuned.h"
#include "tuner/choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* "ring/3 hierarchical+ring" of what may be chosen; "" after an error. */
static const char *choices_text(const char *algo, int collective, int nranks, int deterministic)
{
  static char text[1024];
  struct tt_settings settings = {.deterministic = deterministic};
  struct tuned tuned;
  struct tt_choice choices[TT_CHOICES];
  size_t used = 0;
  int n;
  tuned_make(&tuned, nranks, 1, "shm");
  strcpy(settings.algo, algo);
  text[0] = 0;
  tuttiResult_t result = tt_choices_find(choices, &n, collective, &settings, &tuned.tuning);
  tuned_destroy(&tuned);
  if (result != tuttiSuccess) return text;
  for (int c = 0; c < n; c++) {
    const struct tt_choice *one = &choices[c];
    int first = 0; /* others with the same names are other blocks and radices, which profiles may have measured */
    while (choices[first].algo != one->algo || choices[first].middle != one->middle) first++;
    if (first < c) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", tt_algos[one->algo].name);
    if (one->middle >= 0) used += (size_t)snprintf(text + used, sizeof text - used, "+%s", tt_algos[one->middle].name);
    if (one->radix) used += (size_t)snprintf(text + used, sizeof text - used, "/%d", one->radix);
  }
  return text;
}

static int is_in(const char *name, const char *list)
{
  char padded[1100], wanted[80];
  snprintf(padded, sizeof padded, " %s ", list);
  snprintf(wanted, sizeof wanted, " %s ", name);
  return strstr(padded, wanted) != NULL;
}

static void a_list_leaves_its_names_in_any_spelling(void **state)
{
  (void)state;
  assert_string_equal(choices_text("ring", TT_ALL_REDUCE, 4, 0), "ring");
  assert_string_equal(choices_text("RING,OneShot,binary_Blocks", TT_ALL_REDUCE, 4, 0), "ring one_shot binary_blocks");
  assert_string_equal(choices_text("AllReduce:ring", TT_ALL_REDUCE, 4, 0), "ring");
  assert_string_equal(choices_text("ring,ring", TT_ALL_REDUCE, 4, 0), "ring");
  assert_string_equal(choices_text("knomial/3,hierarchical+double_tree,hierarchical+ring/2", TT_ALL_REDUCE, 9, 0),
                      "knomial/3 hierarchical+double_tree hierarchical+ring/2");
}

static void a_part_without_a_collective_is_about_all_that_have_such_names(void **state)
{
  (void)state;
  assert_string_equal(choices_text("ring", TT_REDUCE_SCATTER, 4, 0), "ring");
  assert_string_equal(choices_text("ring,chain", TT_BROADCAST, 4, 0), "chain");
  assert_string_equal(choices_text("ring", TT_BROADCAST, 4, 0), choices_text("", TT_BROADCAST, 4, 0));
  assert_string_equal(choices_text("ring;allreduce:tree", TT_ALL_GATHER, 4, 0), "ring");
  assert_string_equal(choices_text("allreduce:one_shot;ring", TT_ALL_REDUCE, 4, 0), "one_shot");
  assert_string_equal(choices_text("ring;allreduce:one_shot", TT_ALL_REDUCE, 4, 0), "one_shot");
  assert_string_equal(choices_text("chain;ring", TT_ALL_REDUCE, 4, 0), "ring");
}

static void behind_a_caret_stands_what_is_not_to_be_chosen(void **state)
{
  char all[1024];
  (void)state;
  strcpy(all, choices_text("", TT_ALL_REDUCE, 6, 0));
  const char *left = choices_text("^ring,one_shot", TT_ALL_REDUCE, 6, 0);
  assert_true(is_in("ring", all) && is_in("one_shot", all));
  assert_false(is_in("ring", left) || is_in("one_shot", left));
  assert_int_equal(strlen(left), strlen(all) - strlen("ring one_shot "));
  assert_string_equal(choices_text("allgather:^ring", TT_ALL_REDUCE, 6, 0), all);
  assert_string_equal(choices_text("^nvls", TT_ALL_REDUCE, 6, 0), all);
  assert_string_equal(choices_text("alltoall:^direct", TT_ALL_TO_ALL, 6, 0), "bruck");
}

static void words_of_nccl_are_understood(void **state)
{
  struct tt_filters filters;
  (void)state;
  assert_string_equal(choices_text("tree", TT_ALL_REDUCE, 4, 0), "double_tree binary_tree knomial");
  assert_string_equal(choices_text("Tree", TT_SCATTER, 4, 0), "binomial");
  assert_string_equal(choices_text("ring;allreduce:tree", TT_ALL_REDUCE, 4, 0), "double_tree binary_tree knomial");
  assert_string_equal(choices_text("nvls,ring,CollNetDirect,pat", TT_ALL_REDUCE, 4, 0), "ring");
  assert_int_equal(tt_filters_parse(&filters, "nvls,ring,CollNetDirect,pat,nvls"), tuttiSuccess);
  assert_int_equal(__builtin_popcount(filters.ignored), 3);
  assert_int_equal(tt_filters_parse(&filters, "ring"), tuttiSuccess);
  assert_int_equal(filters.ignored, 0);
}

static void what_is_not_legal_is_left_out_where_something_is(void **state)
{
  (void)state;
  assert_string_equal(choices_text("ring,binary_blocks,one_shot", TT_ALL_REDUCE, 6, 1), "binary_blocks");
  assert_string_equal(choices_text("tree", TT_REDUCE, 6, 1), "binary_tree");
}

static void what_cannot_be_is_refused_with_the_reason(void **state)
{
  static const struct {
    const char *filter, *reason, *second;
    int deterministic;
  } wrong[] = {{"ring,one_shot", "is not legal for all_reduce of 6 ranks: ring: its bits", "; one_shot: its bits", 1},
               {"^binary_blocks,binary_blocks_whole", "; one_shot: its bits", "TUTTI_ALGO=^", 1},
               {"allreduce:^ring,recursive_doubling,recursive_multiplying,one_shot,halving_doubling,binary_blocks,"
                "binary_blocks_whole,hierarchical,hierarchical_shards,knomial,tree,star,circulant,direct",
                "it excludes every algorithm", "", 0},
               {"nvls", "nothing is left", "name ring", 0},
               {"ring;broadcast:pat,nvlstree", "nothing is left", "", 0},
               {"rings", "no collective has an algorithm \"rings\": set it to one of", "binary_blocks", 0},
               {"allgather:tree", "all_gather has no algorithm \"tree\"", "circulant", 0},
               {"allgather:^tree", "all_gather has no algorithm \"tree\"", "circulant", 0},
               {"ring,", "wanted [COLLECTIVE:]NAME", "", 0},
               {"^", "wanted [COLLECTIVE:]NAME", "", 0},
               {"^^ring", "no collective has an algorithm \"^ring\"", "", 0},
               {"ring,^one_shot", "no collective has an algorithm \"^one_shot\"", "", 0},
               {"broadcasts:chain", "wanted [COLLECTIVE:]NAME", "", 0},
               {"ring;direct", "two parts are about all_reduce", "make them one", 0},
               {"reduce:star;reduce:chain", "two parts are about reduce", "", 0},
               {"tree/3", "tree stands for several", "\"/3\"", 0},
               {"ring/3", "ring has no radix", "\"/3\"", 0},
               {"knomial/1", "\"/1\" is no radix", "65535", 0},
               {"knomial/65536", "\"/65536\" is no radix", "", 0},
               {"knomial/+3", "\"/+3\" is no radix", "", 0},
               {"ring+star", "leave \"+star\" out", "", 0},
               {"hierarchical+none", "there is no all_reduce \"none\"", "circulant", 0},
               {"hierarchical+ring+ring", "there is no all_reduce \"ring+ring\"", "", 0}};
  (void)state;
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    assert_string_equal(choices_text(wrong[w].filter, TT_ALL_REDUCE, 6, wrong[w].deterministic), "");
    const char *sentence = tt_last_sentence();
    if (!strstr(sentence, wrong[w].reason) || !strstr(sentence, wrong[w].second))
      fail_msg("%s: %s", wrong[w].filter, sentence);
  }
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_list_leaves_its_names_in_any_spelling),
      cmocka_unit_test(a_part_without_a_collective_is_about_all_that_have_such_names),
      cmocka_unit_test(behind_a_caret_stands_what_is_not_to_be_chosen),
      cmocka_unit_test(words_of_nccl_are_understood),
      cmocka_unit_test(what_is_not_legal_is_left_out_where_something_is),
      cmocka_unit_test(what_cannot_be_is_refused_with_the_reason),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
