/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator: textbook formulas on uniform links, one message at a time in a port, memory that does not grow.
 * Labels: serial, planner. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "plays.h"
#include "slow.h"

/* ---- closed forms ------------------------------------------------------------------ */

static double lg(int32_t n)
{
  double rounds = 0;
  for (int32_t p = 1; p < n; p *= 2) rounds++;
  return rounds;
}

static int is_power(int32_t n)
{
  return (n & (n - 1)) == 0;
}

static int32_t below(int32_t n)
{
  int32_t p = 1;
  while (2 * p <= n) p *= 2;
  return p;
}

static double ring(int32_t P, double n, const struct prices *p)
{
  return 2 * (P - 1) * p->alpha + (2.0 * (P - 1) / P * p->beta + (double)(P - 1) / P * p->gamma) * n;
}

/* papers.md's second line, and its fold of whole vectors. */
static double halving(int32_t P, double n, const struct prices *p)
{
  double q = below(P), fold = is_power(P) ? 0 : 2 * p->alpha + (2 * p->beta + p->gamma) * n;
  return fold + 2 * lg(below(P)) * p->alpha + (2 * p->beta + p->gamma - (2 * p->beta + p->gamma) / q) * n;
}

static double tree(int32_t P, double n, const struct prices *p)
{
  return lg(P) * (2 * p->alpha + (2 * p->beta + p->gamma) * n);
}

static double doubling(int32_t P, double n, const struct prices *p)
{
  return lg(P) * (p->alpha + (p->beta + p->gamma) * n);
}

/* Bandwidth of the ring in the rounds of a tree. (Between powers of two some rounds do not wait for the last one, and
 * then the play takes less.) */
static double circulant(int32_t P, double n, const struct prices *p)
{
  return ring(P, n, p) + 2 * (lg(P) - (P - 1)) * p->alpha;
}

/* Every rank sends its parts one after the other, and combines its own in one go. */
static double direct(int32_t P, double n, const struct prices *p)
{
  return P > 1 ? ring(P, n, p) - 2 * (P - 2) * p->alpha : 0;
}

static double half_ring(int32_t P, double n, const struct prices *p)
{
  return (P - 1) * (p->alpha + p->beta * n);
}

static double half_ring_summing(int32_t P, double n, const struct prices *p)
{
  return (P - 1) * (p->alpha + (p->beta + p->gamma) * n);
}

/* The port of the root is what all wait for. */
static double star(int32_t P, double n, const struct prices *p)
{
  return P > 1 ? p->alpha + (P - 1) * p->beta * n : 0;
}

static double tree_down(int32_t P, double n, const struct prices *p)
{
  return lg(P) * (p->alpha + p->beta * n);
}

static double tree_up(int32_t P, double n, const struct prices *p)
{
  return lg(P) * (p->alpha + (p->beta + p->gamma) * n);
}

static const struct form {
  const char *collective, *name;
  double (*time)(int32_t P, double n, const struct prices *prices);
  int powers_only;
} forms[] = {
    {"all_reduce", "ring", ring, 0},
    {"all_reduce", "halving_doubling", halving, 0},
    {"all_reduce", "binary_blocks", halving, 1},
    {"all_reduce", "binary_tree", tree, 1},
    {"all_reduce", "recursive_doubling", doubling, 1},
    {"all_reduce", "circulant", circulant, 1},
    {"all_reduce", "direct", direct, 0},
    {"all_gather", "ring", half_ring, 0},
    {"all_gather", "direct", star, 0},
    {"reduce_scatter", "ring", half_ring_summing, 0},
    {"all_to_all", "direct", star, 0},
    {"broadcast", "star", star, 0},
    {"scatter", "direct", star, 0},
    {"gather", "direct", star, 0},
    {"broadcast", "binary_tree", tree_down, 1},
    {"reduce", "binary_tree", tree_up, 1},
};

static const struct prices price_list[] = {{12, 8e-4, 6e-5}, {0.3, 7.6e-5, 5.7e-5}, {1, 0, 0}, {0, 1, 0}, {0, 0.5, 3}};
#define PRICES (int)(sizeof price_list / sizeof price_list[0])

static void assert_equal_to_rounding(const char *what, int32_t nranks, double wanted, double got)
{
  if (fabs(got - wanted) <= 1e-12 * fabs(wanted)) return;
  fail_msg("%s of %d ranks: wanted %.17g us, got %.17g", what, (int)nranks, wanted, got);
}

static void uniform_links_give_the_closed_forms(void **state)
{
  (void)state;
  const int32_t ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 21, 25, 32, 33};
  for (size_t c = 0; c < sizeof ranks / sizeof ranks[0] * PRICES; c++) {
    int32_t P = ranks[c / PRICES];
    const struct prices *p = &price_list[c % PRICES];
    struct tt_link_prices prices = uniform(p);
    if (P > (IS_SLOW ? 4 : 9) && (int)c % PRICES != P % PRICES) continue;
    for (const struct form *f = forms; f < forms + sizeof forms / sizeof forms[0]; f++) {
      if (f->powers_only && !is_power(P)) continue;
      size_t count = (size_t)P * (size_t)below(P) * 96;
      struct tt_sim_play play = play_of(f->collective, f->name, P, count, &prices);
      char what[64];
      snprintf(what, sizeof what, "%s %s", f->collective, f->name);
      assert_equal_to_rounding(what, P, f->time(P, (double)count, p), run(&play).time_us);
    }
  }
}

/* ---- shares of any lengths ---- */

#define UNEVEN 4
static const char *const uneven[UNEVEN][2] = {
    {"all_gather", "ring"}, {"all_gather", "circulant"}, {"reduce_scatter", "ring"}, {"reduce_scatter", "circulant"}};

/* Also in segments on lanes. */
static void equal_counts_play_as_one_count(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&price_list[0]);
  for (int32_t P = 1; P <= 9; P++)
    for (int k = 0; k < 2 * UNEVEN; k++) {
      size_t counts[9];
      struct tt_sim_play play = play_of(uneven[k / 2][0], uneven[k / 2][1], P, 1000, &prices);
      if (k % 2) play.block_bytes = 250, play.lanes = 2;
      struct tt_sim_result one = run(&play);
      for (int32_t r = 0; r < P; r++) counts[r] = play.count;
      play.counts = counts;
      play.count = 0;
      struct tt_sim_result many = run(&play);
      assert_true(one.time_us == many.time_us && one.bytes == many.bytes && one.steps == many.steps);
    }
}

/* The share goes all the way round the ring, to all ranks at once, or on from rank to rank as in a tree. */
static void one_share_that_is_all_is_a_broadcast(void **state)
{
  (void)state;
  const struct prices *p = &price_list[0];
  struct tt_link_prices prices = uniform(p);
  for (int32_t P = 2; P <= 16; P *= 2) {
    size_t counts[16] = {0};
    counts[P / 3] = 5000;
    double each = p->alpha + 5000 * p->beta;
    const double wanted[] = {(P - 1) * each, p->alpha + (P - 1) * 5000 * p->beta, lg(P) * each};
    static const char *const names[] = {"ring", "direct", "circulant"};
    for (int k = 0; k < 3; k++) {
      struct tt_sim_play play = play_of("all_gather", names[k], P, 0, &prices);
      play.counts = counts;
      struct tt_sim_result got = run(&play);
      assert_equal_to_rounding(names[k], P, wanted[k], got.time_us);
      assert_int_equal(got.bytes, (P - 1) * 5000);
    }
    counts[P / 3] = 0;
    struct tt_sim_play nothing = play_of("all_gather", "ring", P, 7, &prices);
    nothing.counts = counts;
    assert_true(run(&nothing).time_us == 0);
  }
  size_t few[2] = {1, 2};
  struct tt_sim_result result;
  struct tt_sim_play play = play_of("all_to_all", "direct", 2, 0, &prices);
  play.counts = few;
  assert_int_equal(tt_simulate(&play, &result), tuttiInvalidArgument);
}

/* T_reduce(k) + ring of g leaders + T_bcast(k). */
static void hierarchical_takes_its_three_steps(void **state)
{
  (void)state;
  for (int32_t k = 2; k <= 8; k *= 2)
    for (int32_t g = 2; g <= 9; g++) {
      const struct prices *p = &price_list[(k + g) % PRICES];
      struct tt_link_prices prices = uniform(p);
      int32_t group[72];
      for (int32_t r = 0; r < k * g; r++) group[r] = r / k;
      struct tt_groups groups = {.nlevels = 1, .group = {group}};
      struct tt_sim_play play = play_of("all_reduce", "hierarchical", k * g, (size_t)g * 1000, &prices);
      play.shape.groups = &groups;
      play.shape.radix = 2;
      play.shape.middle = (int32_t)(tt_algo_find(TT_ALL_REDUCE, "ring") - tt_algos);
      tt_algo_shape(play.context, &play.shape);
      double n = (double)play.count;
      assert_equal_to_rounding("hierarchical", k * g, tree_up(k, n, p) + ring(g, n, p) + tree_down(k, n, p),
                               run(&play).time_us);
    }
}

/* ---- segments and windows ------------------------------------------------------------ */

static void segments_on_one_lane_follow_one_another(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&price_list[0]);
  struct tt_sim_play play = play_of("all_reduce", "ring", 6, 6 * 1000, &prices);
  play.block_bytes = 100;
  struct tt_sim_result ten = run(&play);
  assert_equal_to_rounding("ten segments", 6, 10 * ring(6, 600, &price_list[0]), ten.time_us);
  play.lanes = 2;
  struct tt_sim_result lanes = run(&play);
  assert_int_equal(lanes.messages, ten.messages);
  assert_int_equal(lanes.bytes, ten.bytes);
  assert_int_equal(lanes.steps, ten.steps);
  assert_true(lanes.time_us < 0.6 * ten.time_us); /* latency is what counts, and half of it is hidden */
  play.lanes = 40;
  assert_true(run(&play).time_us >= ring(6, 6000, &(struct prices){0, 8e-4, 0}));
}

/* Also when several lanes would like to. */
static void ports_and_processors_do_one_thing_at_a_time(void **state)
{
  (void)state;
  struct tt_link_prices combining = uniform(&(struct prices){0, 0, 3}), sending = uniform(&(struct prices){0, 2, 0});
  struct tt_sim_play play = play_of("all_reduce", "ring", 6, 6 * 1000, &combining);
  play.block_bytes = 100;
  play.lanes = 5;
  assert_equal_to_rounding("combining", 6, 5.0 / 6 * 6000 * 3, run(&play).time_us);
  play = play_of("scatter", "direct", 6, 1000, &sending);
  play.block_bytes = 100;
  play.lanes = 5;
  assert_equal_to_rounding("sending", 6, 5 * 1000 * 2, run(&play).time_us);
  play = play_of("gather", "direct", 6, 1000, &sending);
  play.block_bytes = 100;
  play.lanes = 5;
  assert_equal_to_rounding("taking", 6, 5 * 1000 * 2, run(&play).time_us);
}

static void an_older_segment_goes_first(void **state)
{
  (void)state;
  struct sequence sequence = {.n = 0};
  struct tt_link_prices prices = uniform(&price_list[0]);
  struct tt_sim_play play = play_of("broadcast", "star", 5, 18, &prices);
  play.block_bytes = 10;
  play.lanes = 2;
  play.watcher = (struct tt_sim_watcher){.message = sequence_note, .context = &sequence};
  run(&play);
  assert_int_equal(sequence.n, 8);
  for (int k = 0; k < 8; k++) assert_int_equal(sequence.bytes[k], k < 4 ? 10 : 8);
}

/* In a ring all ranks send at once; who took a message first goes on first. */
static void at_one_time_what_was_caused_first_happens_first(void **state)
{
  (void)state;
  struct sequence sequence = {.n = 0};
  struct tt_link_prices prices = uniform(&price_list[0]);
  struct tt_sim_play play = play_of("all_reduce", "ring", 4, 400, &prices);
  play.watcher = (struct tt_sim_watcher){.message = sequence_note, .context = &sequence};
  run(&play);
  assert_int_equal(sequence.n, 24);
  for (int k = 0; k < 24; k++) assert_int_equal(sequence.from[k], (k % 4 + k / 4) % 4);
}

static void a_last_segment_may_be_short_and_blocks_empty(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&price_list[0]);
  for (size_t count = 0; count < 80; count++) {
    struct tt_sim_play play = play_of("all_reduce", "ring", 5, count, &prices);
    play.block_bytes = 3;
    play.lanes = 3;
    assert_int_equal(run(&play).bytes, count * 2 * 4); /* all parts of all segments, each 2 (P - 1) times */
    play = play_of("all_to_all", "bruck", 5, count, &prices);
    play.block_bytes = 3;
    assert_true(count == 0 || run(&play).time_us > 0);
  }
}

static void assert_same_result(const struct tt_sim_result *a, const struct tt_sim_result *b)
{
  assert_true(a->time_us == b->time_us && a->first_us == b->first_us && a->busiest_us == b->busiest_us);
  assert_int_equal(a->steps, b->steps);
  assert_int_equal(a->messages, b->messages);
  assert_int_equal(a->bytes, b->bytes);
  assert_int_equal(a->reduced, b->reduced);
}

static void a_stretch_of_the_schedule_plays_as_the_whole(void **state)
{
  (void)state;
  const struct {
    const char *collective, *name;
  } rows[] = {{"all_reduce", "ring"}, {"all_to_all", "direct"}, {"all_reduce", "direct"}, {"all_gather", "ring"},
              {"all_reduce", "hierarchical"}, {"broadcast", "scatter_allgather"}};
  struct tt_link_prices prices = uniform(&price_list[1]);
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    struct tt_sim_play play = play_of(rows[r].collective, rows[r].name, 37, 1, &prices);
    play.count = (size_t)play.shape.nblocks * 7; /* three segments */
    play.block_bytes = 3;
    play.lanes = 2;
    play.is_whole = 1;
    struct tt_sim_result whole = run(&play);
    play.is_whole = 0;
    for (play.keep = 80; play.keep < 130; play.keep += 23) {
      struct tt_sim_result stretch = run(&play);
      assert_same_result(&whole, &stretch);
    }
  }
}

static void several_counts_are_as_several_plays(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&price_list[1]);
  const size_t counts[] = {2000, 37, 0, 5000};
  for (int keep = 0; keep <= 80; keep += 80) {
    struct tt_sim_play play = play_of("all_reduce", "ring", 37, 1, &prices);
    struct tt_sim_result results[4], one;
    play.block_bytes = 3;
    play.lanes = 3;
    play.keep = keep;
    assert_int_equal(tt_simulate_counts(&play, counts, 4, results), tuttiSuccess);
    for (int k = 0; k < 4; k++) {
      play.count = counts[k];
      one = run(&play);
      assert_same_result(&one, &results[k]);
    }
  }
}

/* ---- what is told ------------------------------------------------------------------------ */

struct told {
  int64_t messages, bytes, steps, progress, last_steps, total, expected;
  int32_t ended, made;
  double last_us;
};

static void message_told(void *context, const struct tt_sim_message *message)
{
  struct told *told = context;
  told->messages++;
  told->bytes += (int64_t)message->bytes;
  assert_true(message->end_us > message->start_us && message->start_us >= told->last_us);
  told->last_us = message->start_us;
}

static void step_told(void *context, const struct tt_sim_step *step)
{
  struct told *told = context;
  told->steps++;
  assert_true(step->finish_us >= 0 && step->schedule->shape.nranks == 40);
}

static void progress_told(void *context, const struct tt_sim_progress *progress)
{
  struct told *told = context;
  told->progress++;
  assert_true(progress->steps >= told->last_steps && progress->steps <= progress->total);
  told->last_steps = progress->steps;
  told->total = progress->total;
  told->ended = progress->ended;
}

static void making_told(void *context, int32_t made, int64_t steps)
{
  struct told *told = context;
  assert_true(made == ++told->made && told->steps == 0);
  told->expected = steps;
}

/* Before anything is played. A root that has more steps than all others together does not mislead. */
static void how_much_it_will_be_is_known_before(void **state)
{
  (void)state;
  static const struct {
    const char *collective, *algorithm;
    int32_t nranks;
  } rows[] = {{"all_reduce", "ring", 40}, {"gather", "direct", 300}, {"gather", "binomial", 200},
              {"scatter", "direct", 300}, {"all_reduce", "halving_doubling", 100}, {"all_reduce", "ring", 1},
              {"all_reduce", "double_tree", 333}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    struct told told = {0};
    struct tt_link_prices prices = uniform(&price_list[0]);
    struct tt_sim_play play = play_of(rows[k].collective, rows[k].algorithm, rows[k].nranks, 8000, &prices);
    play.block_bytes = 40;
    play.watcher = (struct tt_sim_watcher){.making = making_told, .context = &told};
    struct tt_sim_result result = run(&play);
    assert_int_equal(told.made, rows[k].nranks);
    assert_true(told.expected <= 2 * result.steps && 2 * told.expected >= result.steps);
    play.most_steps = told.expected;
    told = (struct told){0};
    assert_int_equal(tt_simulate(&play, &result), tuttiSuccess);
    play.most_steps--;
    told = (struct told){0};
    if (play.most_steps) assert_int_equal(tt_simulate(&play, &result), tuttiInvalidUsage);
    if (play.most_steps) assert_int_equal(told.made, 0);
  }
}

static void a_watcher_is_told_everything(void **state)
{
  (void)state;
  struct told told = {0};
  struct tt_link_prices prices = uniform(&price_list[0]);
  struct tt_sim_play play = play_of("all_reduce", "ring", 40, 40 * 800, &prices);
  play.block_bytes = 60;
  play.watcher = (struct tt_sim_watcher){message_told, step_told, progress_told, &told, NULL};
  struct tt_sim_result result = run(&play);
  assert_int_equal(told.messages, result.messages);
  assert_int_equal(told.bytes, result.bytes);
  assert_int_equal(told.steps, result.steps);
  assert_int_equal(told.last_steps, result.steps);
  assert_int_equal(told.total, result.steps);
  assert_int_equal(told.ended, 40);
  assert_true(told.progress >= result.steps / 65536 && told.progress >= 2);
}

/* Rank 1 waits for a message that nobody sends. */
static void lonely_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  (void)context;
  if (shape->rank) tt_recv(schedule, (struct tt_blocks){0, 1}, 0, tt_out(0));
}

static void a_rank_that_waits_for_ever_is_named(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&price_list[0]);
  struct tt_sim_play play = play_of("all_reduce", "ring", 2, 100, &prices);
  struct tt_sim_result result = {.steps = 77};
  play.generate = lonely_generate;
  assert_int_equal(tt_simulate(&play, &result), tuttiInternalError);
  assert_non_null(strstr(tt_last_sentence(), "rank 1 waits for ever at step 0"));
  assert_int_equal(result.steps, 77);
  play.lanes = 1000;
  assert_int_equal(tt_simulate(&play, &result), tuttiInvalidArgument);
}

static void vectors_as_long_as_can_be_are_played_and_longer_ones_refused(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&price_list[0]);
  struct tt_sim_play play = play_of("all_reduce", "ring", 9, TT_SIM_MAX_BYTES / 4, &prices);
  struct tt_sim_result result;
  play.element_bytes = 4;
  assert_int_equal(tt_simulate(&play, &result), tuttiSuccess);
  assert_true(result.bytes == INT64_MAX && result.reduced > 0); /* 16 times 2^60 */
  play.count++;
  assert_int_equal(tt_simulate(&play, &result), tuttiInvalidArgument);
  play.count = SIZE_MAX / 2;
  assert_int_equal(tt_simulate(&play, &result), tuttiInvalidArgument);
}

static void every_failed_allocation_is_an_error(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&price_list[0]);
  struct tt_sim_play play = play_of("all_reduce", "ring", 5, 500, &prices);
  struct tt_sim_result result;
  tuttiResult_t code = tuttiSystemError;
  long n = 0;
  while (code != tuttiSuccess) {
    tt_alloc_fail_at(++n);
    code = tt_simulate(&play, &result);
    tt_alloc_fail_at(0);
    assert_true(code == tuttiSuccess || code == tuttiSystemError);
  }
  assert_true(n > 20);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(uniform_links_give_the_closed_forms),
      cmocka_unit_test(equal_counts_play_as_one_count),
      cmocka_unit_test(one_share_that_is_all_is_a_broadcast),
      cmocka_unit_test(hierarchical_takes_its_three_steps),
      cmocka_unit_test(segments_on_one_lane_follow_one_another),
      cmocka_unit_test(ports_and_processors_do_one_thing_at_a_time),
      cmocka_unit_test(an_older_segment_goes_first),
      cmocka_unit_test(at_one_time_what_was_caused_first_happens_first),
      cmocka_unit_test(a_last_segment_may_be_short_and_blocks_empty),
      cmocka_unit_test(a_stretch_of_the_schedule_plays_as_the_whole),
      cmocka_unit_test(several_counts_are_as_several_plays),
      cmocka_unit_test(how_much_it_will_be_is_known_before),
      cmocka_unit_test(a_watcher_is_told_everything),
      cmocka_unit_test(a_rank_that_waits_for_ever_is_named),
      cmocka_unit_test(vectors_as_long_as_can_be_are_played_and_longer_ones_refused),
      cmocka_unit_test(every_failed_allocation_is_an_error),
  };
  alarm(300);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
