/* SPDX-License-Identifier: BSD-3-Clause */
/* What is in the picture of a play: every message an arrow, rounds as claimed, too much left out.
 * Labels: serial, planner. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algos/algos.h"
#include "schedule/picture_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void row_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  const struct tt_algo *algo = context;
  algo->generate(schedule, shape);
}

/* Row a of the table; 0: it is not legal there. */
static int play_make(struct tt_sim_play *play, int a, int32_t nranks)
{
  const struct tt_algo *algo = &tt_algos[a];
  *play = (struct tt_sim_play){.generate = row_generate, .context = (void *)(uintptr_t)algo, .element_bytes = 2};
  play->shape = (struct tt_shape){.nranks = nranks, .collective = algo->collective, .middle = -1};
  play->shape.root = tt_kinds[algo->collective].has_root ? nranks / 2 : -1;
  if (algo->illegal && algo->illegal(&play->shape)) return 0;
  tt_algo_shape(algo, &play->shape);
  play->count = (size_t)play->shape.nblocks * 10;
  return 1;
}

static void play_named(struct tt_sim_play *play, const char *name, int32_t nranks)
{
  const struct tt_algo *algo = tt_algo_find(TT_ALL_REDUCE, name);
  assert_non_null(algo);
  assert_true(play_make(play, (int)(algo - tt_algos), nranks));
}

/* A play may take more, where the window or the order of messages holds something up; never less. */
static void every_row_takes_the_rounds_that_it_claims_or_more(void **state)
{
  (void)state;
  int exact = 0, all = 0;
  for (int a = 0; a < tt_algo_count; a++)
    for (int32_t nranks = 1; nranks <= 12; nranks++) {
      struct tt_sim_play play;
      struct tt_picture picture;
      struct tt_cost cost;
      if (!play_make(&play, a, nranks)) continue;
      tt_algos[a].claim(&play.shape, &cost);
      assert_int_equal(tt_picture_make(&picture, &play), tuttiSuccess);
      if (picture.rounds < cost.rounds)
        fail_msg("%s of %d ranks claims %d rounds and takes %d", tt_algos[a].name, (int)nranks, (int)cost.rounds,
                 (int)picture.rounds);
      exact += picture.rounds == cost.rounds;
      all++;
      tt_picture_destroy(&picture);
    }
  assert_true(exact > all * 9 / 10);
}

static void every_message_is_an_arrow_and_every_reduction_a_mark(void **state)
{
  (void)state;
  for (int a = 0; a < tt_algo_count; a++)
    for (int32_t nranks = 1; nranks <= 7; nranks += 3) {
      struct tt_sim_play play;
      struct tt_picture picture;
      int64_t messages = 0, combined = 0, marked = 0;
      if (!play_make(&play, a, nranks)) continue;
      assert_int_equal(tt_picture_make(&picture, &play), tuttiSuccess);
      for (play.shape.rank = 0; play.shape.rank < nranks; play.shape.rank++) {
        struct tt_schedule schedule;
        tt_schedule_init(&schedule, &play.shape);
        tt_algos[a].generate(&schedule, &play.shape);
        for (int32_t i = 0; i < schedule.nsteps; i++) {
          messages += schedule.steps[i].nto;
          combined += schedule.steps[i].nsrc - 1;
        }
        tt_schedule_destroy(&schedule);
      }
      for (int64_t m = 0; m < picture.nmarks; m++) marked += picture.marks[m].sources;
      assert_int_equal(picture.narrows, messages);
      assert_int_equal(marked, combined);
      tt_picture_destroy(&picture);
    }
}

/* To be given to free(). */
static char *printed(const struct tt_sim_play *play, const struct tt_sim_caption *caption)
{
  static char *text; /* static: the stream keeps its address, of which gcc may warn */
  size_t len;
  FILE *out = open_memstream(&text, &len);
  assert_non_null(out);
  assert_int_equal(tt_picture_print(play, caption, out), tuttiSuccess);
  fclose(out);
  return text;
}

static void two_ranks_are_printed(void **state)
{
  (void)state;
  struct tt_sim_play play;
  const int32_t group[] = {0, 1};
  const struct tt_sim_caption caption = {"a \\ b & \"c\"\n", "note", group};
  play_named(&play, "ring", 2);
  char *text = printed(&play, &caption);
  assert_string_equal(text, "{\"picture\": \"schedule\", \"title\": \"a \\\\ b & \\\"c\\\" \", \"note\": \"note\",\n"
                            " \"ranks\": 2, \"blocks\": 2, \"rounds\": 2, \"shown\": 2, "
                            "\"messages\": 4, \"most\": 10,\n \"group\": [0, 1],\n"
                            " \"spans\": [[2, 10, 10], [2, 10, 10]],\n"
                            " \"arrows\": [\n  [0, 0, 1, 1, 1, 10],\n  [0, 1, 0, 0, 1, 10],\n  [1, 1, 0, 1, 1, 10],\n"
                            "  [1, 0, 1, 0, 1, 10]],\n"
                            " \"marks\": [\n  [1, 1, \"reduce\", 1],\n  [1, 0, \"reduce\", 1],\n"
                            "  [2, 0, \"receive\", 0],\n  [2, 1, \"receive\", 0]]}\n");
  free(text);
}

static void many_ranks_are_cells_with_all_they_send(void **state)
{
  (void)state;
  const int nranks[] = {33, 160, 160}, rows[] = {33, 80, 80}, columns[] = {64, 1, 159};
  const char *names[] = {"ring", "one_shot", "ring"};
  for (int k = 0; k < 3; k++) {
    struct tt_sim_play play;
    struct tt_picture picture;
    play_named(&play, names[k], nranks[k]);
    assert_int_equal(tt_picture_make(&picture, &play), tuttiSuccess);
    assert_int_equal(picture.narrows + picture.nmarks, 0);
    assert_int_equal(picture.rows, rows[k]);
    assert_int_equal(picture.columns, columns[k]);
    assert_int_equal(picture.shown, picture.rounds);
    int64_t each = picture.row_ranks * picture.column_rounds * 10; /* a block a round */
    if (k == 1) each = picture.row_ranks * 159 * 10;
    for (int c = 0; c < rows[k] * columns[k]; c++) assert_int_equal(picture.cells[c], each);
    tt_picture_destroy(&picture);
  }
}

static void thirty_two_ranks_have_arrows(void **state)
{
  (void)state;
  struct tt_sim_play play;
  struct tt_picture picture;
  play_named(&play, "ring", 32);
  assert_int_equal(tt_picture_make(&picture, &play), tuttiSuccess);
  assert_null(picture.cells);
  assert_int_equal(picture.narrows, 32 * 62);
  tt_picture_destroy(&picture);
  play_named(&play, "ring", 1);
  assert_int_equal(tt_picture_make(&picture, &play), tuttiSuccess);
  assert_int_equal(picture.messages, 0);
  tt_picture_destroy(&picture);
}

static void failures_are_errors(void **state)
{
  (void)state;
  struct tt_sim_play play;
  const struct tt_sim_caption caption = {.title = "ring"};
  play_named(&play, "ring", 4);
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  setvbuf(full, NULL, _IONBF, 0);
  assert_int_equal(tt_picture_print(&play, &caption, full), tuttiSystemError);
  fclose(full);
  tuttiResult_t code = tuttiSystemError;
  for (long n = 1; code != tuttiSuccess; n++) {
    struct tt_picture picture;
    tt_alloc_fail_at(n);
    code = tt_picture_make(&picture, &play);
    tt_alloc_fail_at(0);
    assert_true(code == tuttiSuccess || code == tuttiSystemError);
    tt_picture_destroy(&picture);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_takes_the_rounds_that_it_claims_or_more),
      cmocka_unit_test(every_message_is_an_arrow_and_every_reduction_a_mark),
      cmocka_unit_test(two_ranks_are_printed),
      cmocka_unit_test(many_ranks_are_cells_with_all_they_send),
      cmocka_unit_test(thirty_two_ranks_have_arrows),
      cmocka_unit_test(failures_are_errors),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
