/* SPDX-License-Identifier: BSD-3-Clause */
/* Table files: what they say, where that cuts the table, and what they are told where they are wrong.
 * Labels: plain, planner. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tuned.h"
#include "tuner/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static tuttiResult_t parse(struct tt_rules *rules, const char *text)
{
  FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  assert_non_null(in);
  tuttiResult_t result = tt_rules_parse(rules, in, "table");
  fclose(in);
  return result;
}

static void a_rule_says_what_it_says_in_any_order_of_keys(void **state)
{
  struct tt_rules rules;
  (void)state;
  assert_int_equal(parse(&rules, "# by hand\n\n"
                                 "all_reduce ranks 2..8 nodes 1 bytes 0..16KiB -> recursive_doubling # short\n"
                                 "\tAllReduce bytes 1M ppn 4..inf\tnodes 3..5 -> "
                                 "hierarchical+Ring block 64K radix 4\r\n"
                                 "broadcast -> knomial radix 65535\n"
                                 "all-reduce ranks 7 ppn 9 -> recursive-doubling\n"
                                 "reduce -> knomial/8 block 1K"), tuttiSuccess);
  assert_int_equal(rules.n, 5);
  const struct tt_rule *rule = rules.rule;
  assert_true(rule->line == 3 && rule->collective == TT_ALL_REDUCE);
  assert_true(rule->ranks.from == 2 && rule->ranks.to == 8 && rule->nodes.from == 1 && rule->nodes.to == 1);
  assert_true(rule->ppn.from == 0 && rule->ppn.to == UINT64_MAX && rule->bytes.from == 0 && rule->bytes.to == 16384);
  assert_string_equal(tt_algos[rule->choice.algo].name, "recursive_doubling");
  assert_true(rule->choice.middle == -1 && rule->choice.radix == 0 && rule->block_bytes == 0);
  rule++;
  assert_true(rule->bytes.from == 1 << 20 && rule->bytes.to == 1 << 20 && rule->ppn.from == 4);
  assert_true(rule->ppn.to == UINT64_MAX && rule->nodes.from == 3 && rule->nodes.to == 5);
  assert_string_equal(tt_algos[rule->choice.middle].name, "ring");
  assert_true(rule->choice.radix == 4 && rule->block_bytes == 65536);
  rule++;
  assert_true(rule->line == 5 && rule->collective == TT_BROADCAST && rule->choice.radix == 65535);
  rule++;
  assert_int_equal(rule->collective, TT_ALL_REDUCE);
  assert_string_equal(tt_algos[rule->choice.algo].name, "recursive_doubling");
  rule++; /* as `tutti explain` writes it */
  assert_true(rule->collective == TT_REDUCE && rule->choice.radix == 8 && rule->block_bytes == 1024);
  assert_string_equal(tt_algos[rule->choice.algo].name, "knomial");
  tt_rules_destroy(&rules);
}

static void a_rule_matches_where_all_its_keys_do(void **state)
{
  struct tt_rules rules;
  (void)state;
  assert_int_equal(parse(&rules, "all_gather ranks 4..8 nodes 2 ppn 3..inf -> ring"), tuttiSuccess);
  const struct tt_rule_place right = {6, 2, 3}, edge = {8, 2, 4};
  const struct tt_rule_place wrong[] = {{3, 2, 3}, {9, 2, 5}, {6, 1, 6}, {6, 3, 3}, {4, 2, 2}};
  assert_true(tt_rule_matches(rules.rule, TT_ALL_GATHER, &right));
  assert_true(tt_rule_matches(rules.rule, TT_ALL_GATHER, &edge));
  assert_false(tt_rule_matches(rules.rule, TT_ALL_REDUCE, &right));
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++)
    assert_false(tt_rule_matches(rules.rule, TT_ALL_GATHER, &wrong[w]));
  tt_rules_destroy(&rules);
}

/* The model's rows: star up to 1000, then ring. */
static void model_rows(struct tt_table_row rows[TT_TABLE_ROWS])
{
  memset(rows, 0, TT_TABLE_ROWS * sizeof *rows);
  rows[0] = (struct tt_table_row){1000, {.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, "star") - tt_algos),
                                         .middle = -1, .block_bytes = 4096}};
  rows[1] = (struct tt_table_row){UINT64_MAX, {.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, "ring") - tt_algos),
                                               .middle = -1, .block_bytes = 4096}};
}

/* "star up to 1000 B, then ring" after the rules. */
static const char *cut_text(const char *rules_text)
{
  static char text[1024];
  static struct tt_table table;
  struct tt_rules rules;
  struct tt_settings settings = {.segment_bytes = 4096};
  struct tuned tuned;
  tuned_make(&tuned, 6, 1, "shm");
  memset(&table, 0, sizeof table);
  model_rows(table.rows[TT_ALL_REDUCE]);
  assert_int_equal(parse(&rules, rules_text), tuttiSuccess);
  tuttiResult_t result = tt_rules_apply(&rules, table.rows[TT_ALL_REDUCE], TT_ALL_REDUCE, &settings, &tuned.tuning);
  tt_rules_destroy(&rules);
  tuned_destroy(&tuned);
  if (result != tuttiSuccess) return "";
  tt_table_text(&table, TT_ALL_REDUCE, text, sizeof text);
  return text;
}

static void the_place_of_ranks_is_that_of_their_nodes(void **state)
{
  static const struct {
    int nranks, nnodes, ppn;
  } cases[] = {{1, 1, 1}, {6, 1, 6}, {6, 3, 2}, {7, 3, 3}, {5, 5, 1}};
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    struct tuned tuned;
    struct tt_rule_place place;
    tuned_make(&tuned, cases[c].nranks, cases[c].nnodes, "shm");
    assert_int_equal(tt_rule_place_find(&place, &tuned.tuning), tuttiSuccess);
    assert_int_equal(place.nranks, cases[c].nranks);
    assert_int_equal(place.nnodes, cases[c].nnodes);
    assert_int_equal(place.ppn, cases[c].ppn);
    tuned_destroy(&tuned);
  }
}

static void rows_are_cut_at_the_limits_of_rules(void **state)
{
  (void)state;
  assert_string_equal(cut_text("broadcast -> star"), "star up to 1000 B, then ring");
  assert_string_equal(cut_text("all_reduce ranks 7..inf -> direct"), "star up to 1000 B, then ring");
  assert_string_equal(cut_text("all_reduce -> direct"), "direct");
  assert_string_equal(cut_text("all_reduce bytes 0 -> direct"), "direct up to 0 B, star up to 1000 B, then ring");
  assert_string_equal(cut_text("all_reduce bytes 64..99 -> direct"),
                      "star up to 63 B, direct up to 99 B, star up to 1000 B, then ring");
  assert_string_equal(cut_text("all_reduce bytes 500..2000 -> direct"),
                      "star up to 499 B, direct up to 2000 B, then ring");
  assert_string_equal(cut_text("all_reduce bytes 1001..inf -> direct"), "star up to 1000 B, then direct");
  assert_string_equal(cut_text("all_reduce bytes 500..2000 -> ring"), "star up to 499 B, then ring");
}

static void the_first_rule_that_matches_counts(void **state)
{
  (void)state;
  assert_string_equal(cut_text("all_reduce bytes 100..199 -> direct\nall_reduce bytes 0..299 -> circulant\n"),
                      "circulant up to 99 B, direct up to 199 B, circulant up to 299 B, star up to 1000 B, then ring");
  assert_string_equal(cut_text("all_reduce bytes 100..199 -> direct\nall_reduce -> circulant\n"),
                      "circulant up to 99 B, direct up to 199 B, then circulant");
  assert_string_equal(cut_text("all_reduce ranks 2 -> direct\nall_reduce -> circulant\n"), "circulant");
}

static void a_rule_that_matches_must_be_legal(void **state)
{
  char text[4096] = "";
  (void)state;
  assert_string_equal(cut_text("\nall_reduce bytes 5 -> hierarchical_shards+hierarchical"), "");
  assert_non_null(strstr(tt_last_sentence(), "table, line 2: hierarchical_shards is not legal for all_reduce of 6"));
  assert_string_equal(cut_text("all_reduce ranks 7 -> hierarchical_shards+hierarchical"),
                      "star up to 1000 B, then ring");
  for (int k = 0; k <= TT_TABLE_ROWS / 2; k++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "all_reduce bytes %d -> direct\n", 10 * k + 1);
  assert_string_equal(cut_text(text), "");
  assert_non_null(strstr(tt_last_sentence(), "ranges of sizes: give it fewer rules"));
}

static void what_is_wrong_is_told_with_its_line(void **state)
{
  static const struct {
    const char *text, *sentence;
  } wrong[] = {
      {"\n\nall_reduces -> ring", "table, line 3: wanted one of all_reduce, reduce, broadcast, reduce_scatter, "
                                  "all_gather, all_to_all, gather, scatter, not 'all_reduces'"},
      {"all_reduce rank 2 -> ring", "line 1: wanted one of ranks, nodes, ppn, bytes, or ->, not 'rank'"},
      {"all_reduce ranks 2 ring", "wanted one of ranks, nodes, ppn, bytes, or ->, not 'ring'"},
      {"all_reduce ranks 2", "or ->, not 'the end of the text'"},
      {"all_reduce ranks 2 ranks 3 -> ring", "wanted each key once, not 'ranks'"},
      {"all_reduce ranks -> ring", "wanted N, FROM..TO or FROM..inf, from 1 on, not '->'"},
      {"all_reduce ranks 0 -> ring", "from 1 on, not '0'"},
      {"all_reduce ranks 2K -> ring", "from 1 on, not '2K'"},
      {"all_reduce ranks inf -> ring", "from 1 on, not 'inf'"},
      {"all_reduce ranks 2...4 -> ring", "not '2...4'"},
      {"all_reduce nodes 2..4x -> ring", "not '2..4x'"},
      {"all_reduce ppn -1 -> ring", "not '-1'"},
      {"all_reduce ppn 5..3 -> ring", "wanted a range whose end is not below its begin, not '5..3'"},
      {"all_reduce bytes 2M..1M -> ring", "not below its begin, not '2M..1M'"},
      {"all_reduce bytes 1KB -> ring", "wanted bytes as N, FROM..TO or FROM..inf, with K, M or G if you like, not "
                                       "'1KB'"},
      {"all_reduce bytes 99999999999999999999 -> ring", "wanted bytes"},
      {"all_reduce ->", "wanted an algorithm of all_reduce, one of ring, "},
      {"all_gather -> knomial", "wanted an algorithm of all_gather, one of ring, circulant, direct, not 'knomial'"},
      {"all_reduce -> tree", "not 'tree'"},
      {"all_reduce -> knomial/1", "line 1: \"/1\" is no radix: wanted a number from 2 to 65535"},
      {"all_reduce -> ring/3", "line 1: all_reduce ring has no radix: leave \"/3\" out"},
      {"all_reduce -> knomial/3 radix 3", "each once, or the end of the line, not 'radix'"},
      {"all_reduce -> ring+star", "line 1: all_reduce ring runs no other algorithm among leaders"},
      {"all_reduce -> hierarchical+no", "line 1: there is no all_reduce \"no\""},
      {"all_reduce -> ring block", "wanted a block from 1 byte to 1 GiB, not 'the end of the text'"},
      {"all_reduce -> ring block 0", "wanted a block from 1 byte to 1 GiB, not '0'"},
      {"all_reduce -> ring block 2G", "1 GiB, not '2G'"},
      {"all_reduce -> ring block 1K block 2K", "each once, or the end of the line, not 'block'"},
      {"all_reduce -> ring radix 2", "wanted an algorithm that has one in front of a radix, not 'radix'"},
      {"all_reduce -> knomial radix 1", "wanted a radix from 2 to 65535, not '1'"},
      {"all_reduce -> knomial radix 2K", "not '2K'"},
      {"all_reduce -> ring now", "or the end of the line, not 'now'"},
      {"all_reduce -> ring\nall_reduce bytes 8 -> star", "line 2: this rule can never match, as line 1 covers it"},
      {"reduce ranks 1..9 -> star\nreduce bytes 8 -> star\nreduce ranks 2..3 bytes 8 -> star",
       "line 3: this rule can never match, as line 1 covers it"},
      {"all_reduce \001 -> ring", "wanted text without control characters"}};
  struct tt_rules rules = {.n = 77};
  (void)state;
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    assert_int_equal(parse(&rules, wrong[w].text), tuttiInvalidArgument);
    if (!strstr(tt_last_sentence(), wrong[w].sentence)) fail_msg("%s: %s", wrong[w].text, tt_last_sentence());
    assert_int_equal(rules.n, 77);
  }
  assert_int_equal(tt_rules_load(&rules, "/nonexistent"), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "the table file /nonexistent cannot be opened: No such file"));
}

/* The whole way: TUTTI_TABLE stands above the model, and TUTTI_ALGO above both. */
static void a_table_follows_its_file_but_for_forced_algorithms(void **state)
{
  char path[] = "/tmp/tutti_rules_XXXXXX", text[256];
  const char *rules = "all_reduce bytes 100..199 -> direct\nbroadcast -> chain\n";
  struct tt_settings settings = {.algo = "broadcast:star"};
  struct tt_table table;
  struct tuned tuned;
  int fd = mkstemp(path);
  (void)state;
  assert_true(fd >= 0 && write(fd, rules, strlen(rules)) == (ssize_t)strlen(rules));
  close(fd);
  tuned_make(&tuned, 5, 1, "shm");
  snprintf(settings.table, sizeof settings.table, "%s", path);
  tuttiResult_t result = tt_table_make(&table, &settings, &tuned.tuning);
  unlink(path);
  assert_int_equal(result, tuttiSuccess);
  assert_true(tt_table_valid(&table));
  for (uint64_t bytes = 0; bytes < 300; bytes++) {
    int is_direct = strcmp(tt_algos[tt_table_choice(&table, TT_ALL_REDUCE, bytes)->algo].name, "direct") == 0;
    if (bytes >= 100 && bytes < 200) assert_true(is_direct);
  }
  tt_table_text(&table, TT_BROADCAST, text, sizeof text);
  assert_string_equal(text, "star");
  assert_int_equal(tt_table_make(&table, &settings, &tuned.tuning), tuttiInvalidArgument); /* the file is gone */
  tuned_destroy(&tuned);
}

static void a_failed_allocation_is_an_error(void **state)
{
  struct tt_rules rules = {.n = 77};
  (void)state;
  for (int n = 1; n <= 2; n++) {
    char text[2048] = "";
    for (int k = 0; k < 20; k++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "reduce bytes %d -> star\n", k);
    tt_alloc_fail_at(n);
    assert_int_equal(parse(&rules, text), tuttiSystemError);
    assert_int_equal(rules.n, 77);
  }
  tt_alloc_fail_at(0);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rule_says_what_it_says_in_any_order_of_keys),
      cmocka_unit_test(a_rule_matches_where_all_its_keys_do),
      cmocka_unit_test(the_place_of_ranks_is_that_of_their_nodes),
      cmocka_unit_test(rows_are_cut_at_the_limits_of_rules),
      cmocka_unit_test(the_first_rule_that_matches_counts),
      cmocka_unit_test(a_rule_that_matches_must_be_legal),
      cmocka_unit_test(what_is_wrong_is_told_with_its_line),
      cmocka_unit_test(a_table_follows_its_file_but_for_forced_algorithms),
      cmocka_unit_test(a_failed_allocation_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
