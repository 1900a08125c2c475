/* SPDX-License-Identifier: BSD-3-Clause */
/* The decision table: complete, ordered, the same algorithm as the prices say, and strict about what is forced. */
#include <stdlib.h>
#include <string.h>

#include "tuner/tuner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static struct tt_settings settings_with(const char *algo, int64_t segment_bytes)
{
  struct tt_settings settings = {.segment_bytes = segment_bytes};
  strcpy(settings.algo, algo);
  return settings;
}

static const char *const transports[] = {"shm", "tcp"};

static void every_size_has_a_row_and_rows_rise(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("", 0);
  for (int t = 0; t < 2; t++)
    for (int nranks = 1; nranks <= 130; nranks++) {
      struct tt_table table;
      assert_int_equal(tt_table_make(&table, &settings, tt_price_shipped(transports[t]), nranks), tuttiSuccess);
      assert_true(tt_table_valid(&table));
      for (uint64_t r = 1; r < table.nrows; r++) {
        assert_true(table.rows[r].up_to_bytes > table.rows[r - 1].up_to_bytes);
        assert_int_not_equal(table.rows[r].algo, table.rows[r - 1].algo);
      }
      assert_int_equal(table.rows[table.nrows - 1].up_to_bytes, UINT64_MAX);
      assert_int_equal(tt_table_row(&table, 0), 0);
      assert_int_equal(tt_table_row(&table, UINT64_MAX), table.nrows - 1);
    }
}

static void the_choice_is_the_cheapest_at_sampled_sizes(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("", 0);
  for (int nranks = 2; nranks <= 64; nranks++)
    for (uint64_t bytes = 8; bytes <= 1u << 28; bytes *= 2) {
      const struct tt_price *price = tt_price_shipped("tcp");
      struct tt_table table;
      assert_int_equal(tt_table_make(&table, &settings, price, nranks), tuttiSuccess);
      uint32_t chosen = table.rows[tt_table_row(&table, bytes)].algo;
      double time = tt_price_all_reduce(&tt_algos[chosen], price, nranks, bytes);
      for (int a = 0; a < tt_algo_count; a++)
        assert_true(time <= tt_price_all_reduce(&tt_algos[a], price, nranks, bytes));
    }
}

static void short_vectors_double_and_long_ones_go_round(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("", 0);
  for (int t = 0; t < 2; t++) {
    struct tt_table table;
    assert_int_equal(tt_table_make(&table, &settings, tt_price_shipped(transports[t]), 8), tuttiSuccess);
    assert_string_equal(tt_algos[table.rows[tt_table_row(&table, 8)].algo].name, "recursive_doubling");
    assert_string_equal(tt_algos[table.rows[tt_table_row(&table, 1 << 28)].algo].name, "ring");
  }
}

static void a_forced_algorithm_is_taken_at_every_size(void **state)
{
  (void)state;
  for (int a = 0; a < tt_algo_count; a++) {
    struct tt_settings settings = settings_with(tt_algos[a].name, 4096);
    struct tt_table table;
    assert_int_equal(tt_table_make(&table, &settings, tt_price_shipped("shm"), 7), tuttiSuccess);
    assert_int_equal(table.nrows, 1);
    assert_int_equal(table.rows[0].algo, a);
    assert_int_equal(table.rows[0].block_bytes, 4096);
  }
}

static void an_unknown_algorithm_is_refused_with_the_list(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("rings", 0);
  struct tt_table table = {.nrows = 77};
  assert_int_equal(tt_table_make(&table, &settings, tt_price_shipped("shm"), 4), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "\"rings\""));
  for (int a = 0; a < tt_algo_count; a++) assert_non_null(strstr(tt_last_sentence(), tt_algos[a].name));
  assert_int_equal(table.nrows, 77);
}

static void a_table_that_makes_no_sense_is_refused(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("", 0);
  struct tt_table good, bad;
  assert_int_equal(tt_table_make(&good, &settings, tt_price_shipped("shm"), 4), tuttiSuccess);
  bad = good;
  bad.nrows = 0;
  assert_false(tt_table_valid(&bad));
  bad = good;
  bad.nrows = TT_TABLE_ROWS + 1;
  assert_false(tt_table_valid(&bad));
  bad = good;
  bad.rows[0].algo = (uint32_t)tt_algo_count;
  assert_false(tt_table_valid(&bad));
  bad = good;
  bad.rows[0].block_bytes = 0;
  assert_false(tt_table_valid(&bad));
  bad = good;
  bad.rows[good.nrows - 1].up_to_bytes = 1 << 20;
  assert_false(tt_table_valid(&bad));
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_size_has_a_row_and_rows_rise),
      cmocka_unit_test(the_choice_is_the_cheapest_at_sampled_sizes),
      cmocka_unit_test(short_vectors_double_and_long_ones_go_round),
      cmocka_unit_test(a_forced_algorithm_is_taken_at_every_size),
      cmocka_unit_test(an_unknown_algorithm_is_refused_with_the_list),
      cmocka_unit_test(a_table_that_makes_no_sense_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
