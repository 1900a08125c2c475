/* SPDX-License-Identifier: BSD-3-Clause */
/* The decision table: complete, ordered, the same algorithm as the prices say, and strict about what is forced.
 * Labels: plain, planner. */
#include <stdlib.h>
#include <string.h>

#include "schedule/text_private.h"
#include "tuned.h"
#include "tuner/choice.h"

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

/* Ranks of one host, joined by `transport`, at the prices that are built in. It lives until the next one. */
static struct tt_tuning tuning_of(const char *transport, int nranks)
{
  static struct tt_topology topology;
  static struct tt_cluster cluster;
  static struct tt_prices prices;
  static uint64_t host[TT_PLAYED_RANKS + 1];
  static struct tt_locality locality[TT_PLAYED_RANKS + 1];
  tt_topology_destroy(&topology);
  assert_int_equal(tt_topology_make(&topology, nranks, host, locality), tuttiSuccess);
  cluster = (struct tt_cluster){.nranks = nranks, .cores = nranks, .topology = &topology};
  tuned_join(&cluster, TT_LINK_CACHE, nranks > 1 ? transport : NULL);
  tt_prices_make(&prices, NULL, &cluster);
  return (struct tt_tuning){.nranks = nranks, .cluster = &cluster, .prices = &prices};
}

static const char *const transports[] = {"shm", "tcp"};

static int rows_of(const struct tt_table_row *rows)
{
  int n = 0;
  while (rows[n].up_to_bytes != UINT64_MAX) n++;
  return n + 1;
}

static void every_size_of_every_collective_has_a_row_and_rows_rise(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("", 0);
  for (int c = 0; c < 2 * 130 * TT_COLLECTIVES; c++) {
    int collective = c % TT_COLLECTIVES, nranks = c / TT_COLLECTIVES / 2 + 1;
    struct tt_tuning tuning = tuning_of(transports[c / TT_COLLECTIVES % 2], nranks);
    struct tt_table table;
    if (!tt_kinds[collective].name || (nranks > 5 && nranks % 31)) continue;
    assert_int_equal(tt_table_make(&table, &settings, &tuning), tuttiSuccess);
    assert_true(tt_table_valid(&table));
    const struct tt_table_row *rows = table.rows[collective];
    int n = rows_of(rows);
    assert_in_range(n, 1, TT_TABLE_ROWS);
    for (int r = 1; r < n; r++) {
      assert_true(rows[r].up_to_bytes > rows[r - 1].up_to_bytes);
      assert_memory_not_equal(&rows[r].choice, &rows[r - 1].choice, sizeof rows[r].choice);
    }
    assert_ptr_equal(tt_table_choice(&table, collective, 0), &rows[0].choice);
    assert_ptr_equal(tt_table_choice(&table, collective, UINT64_MAX), &rows[n - 1].choice);
  }
}

static void a_table_tells_its_choices_in_words(void **state)
{
  (void)state;
  struct tt_table table;
  char text[100], cut[20];
  memset(&table, 0, sizeof table);
  struct tt_table_row *rows = table.rows[TT_ALL_REDUCE];
  const struct tt_algo *ring = tt_algo_find(TT_ALL_REDUCE, "ring");
  const struct tt_algo *shards = tt_algo_find(TT_ALL_REDUCE, "hierarchical_shards");
  rows[0].up_to_bytes = 4096;
  rows[0].choice = (struct tt_choice){.algo = (uint8_t)(shards - tt_algos), .middle = (int8_t)(ring - tt_algos)};
  rows[1].up_to_bytes = UINT64_MAX;
  rows[1].choice = (struct tt_choice){.algo = (uint8_t)(ring - tt_algos), .middle = -1};
  tt_table_text(&table, TT_ALL_REDUCE, text, sizeof text);
  assert_string_equal(text, "hierarchical_shards+ring up to 4096 B, then ring");
  tt_table_text(&table, TT_ALL_REDUCE, cut, sizeof cut);
  assert_string_equal(cut, "hierarchical_shards");
  rows[1].choice.block_bytes = 3 << 10;
  tt_table_text(&table, TT_ALL_REDUCE, text, sizeof text);
  assert_string_equal(text, "hierarchical_shards+ring up to 4096 B, then ring in blocks of 3 KiB");
  rows[1].choice.block_bytes = 5000;
  tt_table_text(&table, TT_ALL_REDUCE, text, sizeof text);
  assert_string_equal(text, "hierarchical_shards+ring up to 4096 B, then ring in blocks of 5000 B");
}

/* 1 if the algorithm is among what can be chosen. */
static int is_choice(const char *name, const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  struct tt_choice choices[TT_CHOICES];
  int n, found = 0;
  assert_int_equal(tt_choices_find(choices, &n, TT_ALL_REDUCE, settings, tuning), tuttiSuccess);
  for (int c = 0; c < n; c++) found |= strcmp(tt_algos[choices[c].algo].name, name) == 0;
  return found;
}

/* 1 if the steps of the rank read alike, but for the line that names the radix. */
static int texts_same(const struct tt_choice *one, const struct tt_choice *two, const struct tt_tuning *tuning,
                      int rank)
{
  const struct tt_choice *choices[2] = {one, two};
  char *texts[2];
  for (int k = 0; k < 2; k++) {
    const struct tt_algo *algo = &tt_algos[choices[k]->algo];
    struct tt_shape shape = tt_choice_shape(choices[k], tuning, rank, tt_kinds[algo->collective].has_root ? 0 : -1);
    struct tt_schedule schedule;
    size_t len;
    FILE *out = open_memstream(&texts[k], &len);
    tt_schedule_init(&schedule, &shape);
    algo->generate(&schedule, &shape);
    schedule.shape.radix = 0;
    tt_schedule_print(&schedule, out);
    tt_schedule_destroy(&schedule);
    fclose(out);
  }
  int same = strcmp(texts[0], texts[1]) == 0;
  free(texts[0]);
  free(texts[1]);
  return same;
}

static void one_schedule_with_two_names_is_one_choice(void **state)
{
  (void)state;
  struct tt_settings all = settings_with("", 0), other = settings_with("binary_blocks", 0);
  for (int nranks = 2; nranks <= 64; nranks = nranks < 8 ? nranks + 1 : 2 * nranks) {
    struct tt_tuning tuning = tuning_of("shm", nranks);
    int is_power = (nranks & (nranks - 1)) == 0;
    assert_int_equal(is_choice("binary_blocks", &all, &tuning), !is_power);
    assert_int_equal(is_choice("halving_doubling", &all, &tuning), nranks > 2); /* of 2 ring is the same */
    assert_int_equal(is_choice("binary_blocks_whole", &all, &tuning), !is_power);
    assert_true(is_choice("binary_blocks", &other, &tuning)); /* the only one that is left */
    assert_true(is_choice("ring", &all, &tuning));
  }
}

/* What is said to be one is so on every rank, not only on those that were looked at. */
static void twins_are_the_same_on_all_ranks(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= 40; nranks += nranks < 9 ? 1 : 23) {
    struct tt_tuning tuning = tuning_of("shm", nranks);
    for (int a = 0; a < tt_algo_count; a++)
      for (int b = 0; b < a; b++) {
        const struct tt_choice one = {.algo = (uint8_t)a, .middle = -1}, two = {.algo = (uint8_t)b, .middle = -1};
        const struct tt_settings settings = settings_with("", 0);
        if (tt_algos[a].collective != tt_algos[b].collective || tt_choice_illegal(&one, &settings, &tuning) ||
            tt_choice_illegal(&two, &settings, &tuning))
          continue;
        int same = 1;
        for (int r = 0; r < nranks && same; r++) same = texts_same(&one, &two, &tuning, r);
        if (tt_choices_duplicate(&one, &two, &tuning) != same)
          fail_msg("%s %s and %s of %d ranks", tt_kinds[tt_algos[a].collective].name, tt_algos[a].name,
                   tt_algos[b].name, nranks);
      }
  }
}

/* Within what a change must be worth, and what a course may be off between the sizes that were played. */
static void the_choice_is_about_the_cheapest(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("", 0);
  for (int nranks = 2; nranks <= 12; nranks += 1 + nranks / 4) {
    struct tt_tuning tuning = tuning_of(transports[nranks % 2], nranks);
    struct tt_table table;
    assert_int_equal(tt_table_make(&table, &settings, &tuning), tuttiSuccess);
    for (uint64_t bytes = 8; bytes <= 1u << 28; bytes *= 16) {
      const struct tt_choice *chosen = tt_table_choice(&table, TT_ALL_REDUCE, bytes);
      struct tt_choice choices[TT_CHOICES];
      struct tt_predicted got, other;
      struct tt_costs *costs;
      int n;
      assert_int_equal(tt_choices_find(choices, &n, TT_ALL_REDUCE, &settings, &tuning), tuttiSuccess);
      assert_int_equal(tt_costs_make(&costs, TT_ALL_REDUCE, &settings, &tuning, NULL, 0), tuttiSuccess);
      assert_int_equal(tt_costs_split(costs, tt_costs_find(costs, chosen), bytes, &got), tuttiSuccess);
      assert_true(n > 1);
      for (int c = 0; c < n; c++) {
        assert_int_equal(tt_costs_split(costs, tt_costs_find(costs, &choices[c]), bytes, &other), tuttiSuccess);
        if (got.us > 1.1 * other.us)
          fail_msg("%d ranks, %llu bytes: %s with %u takes %g us, %s with %u %g us", nranks, (unsigned long long)bytes,
                   tt_algos[chosen->algo].name, (unsigned)chosen->block_bytes, got.us, tt_algos[choices[c].algo].name,
                   (unsigned)choices[c].block_bytes, other.us);
      }
      tt_costs_destroy(costs);
    }
  }
}

/* As it is played, whatever was measured. */
static void long_vectors_travel_once_each_way(void **state)
{
  const struct tt_profile no_anchors = {.nanchors = 0};
  (void)state;
  struct tt_settings settings = settings_with("", 0);
  for (int c = 0; c < 2 * 15; c++) {
    struct tt_tuning tuning = tuning_of(transports[c % 2], c / 2 + 2);
    struct tt_prices prices = *tuning.prices;
    struct tt_table table;
    prices.profile = &no_anchors;
    tuning.prices = &prices;
    assert_int_equal(tt_table_make(&table, &settings, &tuning), tuttiSuccess);
    const struct tt_choice *choice = tt_table_choice(&table, TT_ALL_REDUCE, 1 << 28);
    struct tt_shape shape = tt_choice_shape(choice, &tuning, 0, -1);
    struct tt_cost cost;
    tt_algos[choice->algo].claim(&shape, &cost);
    if (cost.blocks > 2 * shape.nblocks) fail_msg("%s of %d ranks", tt_algos[choice->algo].name, c / 2 + 2);
  }
}

static void a_forced_algorithm_is_taken_at_every_size(void **state)
{
  (void)state;
  for (int a = 0; a < tt_algo_count; a++) {
    char filter[TT_SETTING_TEXT_BYTES];
    snprintf(filter, sizeof filter, "%s:%s", tt_kinds[tt_algos[a].collective].name, tt_algos[a].name);
    struct tt_settings settings = settings_with(filter, 4096);
    struct tt_tuning tuning = tuning_of("shm", 7);
    struct tt_table table;
    tuttiResult_t result = tt_table_make(&table, &settings, &tuning);
    if (result == tuttiInvalidArgument && strstr(tt_last_sentence(), "not legal for")) continue;
    assert_int_equal(result, tuttiSuccess);
    const struct tt_table_row *rows = table.rows[tt_algos[a].collective];
    assert_int_equal(rows_of(rows), 1);
    assert_int_equal(rows[0].choice.algo, a);
    assert_int_equal(rows[0].choice.block_bytes, 4096);
  }
}

static void several_algorithms_and_a_middle_can_be_forced(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("hierarchical+recursive_doubling;broadcast:star", 0);
  struct tt_tuning tuning = tuning_of("shm", 9);
  struct tt_table table;
  assert_int_equal(tt_table_make(&table, &settings, &tuning), tuttiSuccess);
  struct tt_choice choice = table.rows[TT_ALL_REDUCE][0].choice;
  assert_string_equal(tt_algos[choice.algo].name, "hierarchical");
  assert_string_equal(tt_algos[choice.middle].name, "recursive_doubling");
  assert_string_equal(tt_algos[table.rows[TT_BROADCAST][0].choice.algo].name, "star");
}

static void deterministic_leaves_the_one_tree(void **state)
{
  (void)state;
  for (int nranks = 3; nranks <= 40; nranks += 1 + nranks / 4) {
    struct tt_settings settings = settings_with("", 0);
    settings.deterministic = 1;
    struct tt_tuning tuning = tuning_of("tcp", nranks);
    struct tt_table table;
    assert_int_equal(tt_table_make(&table, &settings, &tuning), tuttiSuccess);
    for (int r = 0; r < rows_of(table.rows[TT_ALL_REDUCE]); r++)
      assert_true(tt_algos[table.rows[TT_ALL_REDUCE][r].choice.algo].has_one_tree);
    strcpy(settings.algo, "ring");
    assert_int_equal(tt_table_make(&table, &settings, &tuning), tuttiInvalidArgument);
    assert_non_null(strstr(tt_last_sentence(), "TUTTI_DETERMINISTIC"));
  }
}

/* Their claims take long where groups differ in size, and all ranks wait for the table. */
static void with_very_many_ranks_hierarchical_rows_are_only_forced(void **state)
{
  (void)state;
  for (int is_more = 0; is_more < 2; is_more++) {
    struct tt_settings settings = settings_with("", 0), forced = settings_with("hierarchical", 0);
    struct tt_tuning tuning = tuning_of("tcp", TT_PLAYED_RANKS + is_more);
    struct tt_choice choices[TT_CHOICES];
    int n, hierarchical = 0;
    assert_int_equal(tt_choices_find(choices, &n, TT_ALL_REDUCE, &settings, &tuning), tuttiSuccess);
    for (int c = 0; c < n; c++) /* of the block by default: there may be others */
      hierarchical += tt_algos[choices[c].algo].has_middle && choices[c].block_bytes == choices[0].block_bytes;
    assert_int_equal(hierarchical, is_more ? 0 : 2);
    assert_int_equal(tt_choices_find(choices, &n, TT_ALL_REDUCE, &forced, &tuning), tuttiSuccess);
    for (int c = 0; c < n; c++) assert_true(tt_algos[choices[c].algo].has_middle);
  }
}

static void what_cannot_be_is_refused_with_the_reason(void **state)
{
  static const struct {
    const char *filter, *reason;
  } wrong[] = {{"rings", "\"rings\": set it to one of"},
               {"rings", "binary_blocks"},
               {"broadcasts:ring", "[COLLECTIVE:]NAME"},
               {"broadcast:binary_blocks", "double_tree"},
               {"ring;broadcast:no", "\"no\""},
               {"ring+star", "leave \"+star\" out"},
               {"hierarchical+none", "there is no all_reduce \"none\""},
               {":", "[COLLECTIVE:]NAME"},
               {"+", "[COLLECTIVE:]NAME"},
               {";", "[COLLECTIVE:]NAME"}};
  (void)state;
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    struct tt_settings settings = settings_with(wrong[w].filter, 0);
    struct tt_tuning tuning = tuning_of("shm", 4);
    struct tt_table table;
    assert_int_equal(tt_table_make(&table, &settings, &tuning), tuttiInvalidArgument);
    if (!strstr(tt_last_sentence(), wrong[w].reason)) fail_msg("%s: %s", wrong[w].filter, tt_last_sentence());
  }
}

static void a_table_that_makes_no_sense_is_refused(void **state)
{
  (void)state;
  struct tt_settings settings = settings_with("", 0);
  struct tt_tuning tuning = tuning_of("shm", 4);
  struct tt_table good, bad;
  assert_int_equal(tt_table_make(&good, &settings, &tuning), tuttiSuccess);
  struct tt_table_row *first = &bad.rows[TT_ALL_REDUCE][0];
  bad = good;
  first->choice.algo = (uint8_t)tt_algo_count;
  assert_false(tt_table_valid(&bad));
  bad = good;
  first->choice.algo = good.rows[TT_BROADCAST][0].choice.algo;
  assert_false(tt_table_valid(&bad));
  bad = good;
  first->choice.middle = (int8_t)tt_algo_count;
  assert_false(tt_table_valid(&bad));
  bad = good;
  first->choice.block_bytes = 0;
  assert_false(tt_table_valid(&bad));
  bad = good;
  first->choice.radix = 1;
  assert_false(tt_table_valid(&bad));
  const struct tt_algo *hierarchical = tt_algo_find(TT_ALL_REDUCE, "hierarchical");
  const int middles[] = {-2, INT8_MIN, good.rows[TT_BROADCAST][0].choice.algo, (int)(hierarchical - tt_algos)};
  for (int m = 0; m < 4; m++) {
    bad = good;
    first->choice.middle = (int8_t)middles[m];
    assert_false(tt_table_valid(&bad));
  }
  bad = good;
  for (int r = 0; r < TT_TABLE_ROWS; r++) {
    first[r] = *first;
    first[r].up_to_bytes = 1 << 20;
  }
  assert_false(tt_table_valid(&bad));
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_size_of_every_collective_has_a_row_and_rows_rise),
      cmocka_unit_test(a_table_tells_its_choices_in_words),
      cmocka_unit_test(one_schedule_with_two_names_is_one_choice),
      cmocka_unit_test(twins_are_the_same_on_all_ranks),
      cmocka_unit_test(the_choice_is_about_the_cheapest),
      cmocka_unit_test(long_vectors_travel_once_each_way),
      cmocka_unit_test(a_forced_algorithm_is_taken_at_every_size),
      cmocka_unit_test(several_algorithms_and_a_middle_can_be_forced),
      cmocka_unit_test(deterministic_leaves_the_one_tree),
      cmocka_unit_test(with_very_many_ranks_hierarchical_rows_are_only_forced),
      cmocka_unit_test(what_cannot_be_is_refused_with_the_reason),
      cmocka_unit_test(a_table_that_makes_no_sense_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
