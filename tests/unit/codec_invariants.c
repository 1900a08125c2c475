/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules that every codec of the table keeps: for any text of codecs[], on ordinary and on hard tensors.
 * Labels: serial. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "chance.h"
#include "codecs.h"
#include "reduce_tables.h"
#include "slow.h"
#include "strange.h"

#define RANKS 3
#define PAGE 65536

static const uint64_t counts[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1100};
#define NCOUNTS (sizeof counts / sizeof counts[0])
#define STRIDE (IS_SLOW ? 3 : 1)

/* Steps of a world whose ranks draw their values. */
struct scene {
  struct codec_world world;
  float *values[RANKS], *sent[RANKS], *result;
  uint64_t state;
};

static void scene_open(struct scene *scene, const char *text, uint64_t count)
{
  codec_world_create(&scene->world, text, RANKS, count);
  scene->state = 1 + count;
  scene->result = floats(count);
  for (int rank = 0; rank < RANKS; rank++) {
    scene->values[rank] = floats(count);
    scene->sent[rank] = floats(count);
  }
}

static void scene_close(struct scene *scene)
{
  for (int rank = 0; rank < RANKS; rank++) {
    free(scene->values[rank]);
    free(scene->sent[rank]);
  }
  free(scene->result);
  codec_world_destroy(&scene->world);
}

static void scene_draw(struct scene *scene, void (*draw)(float *, uint64_t, uint64_t *))
{
  for (int rank = 0; rank < RANKS; rank++) draw(scene->values[rank], scene->world.count, &scene->state);
}

static void scene_step(struct scene *scene)
{
  codec_world_reduce(&scene->world, (const float *const *)scene->values, scene->result, scene->sent);
}

/* A hash of everything that a step leaves, and of all codes. */
static uint64_t scene_hash(const struct scene *scene)
{
  uint64_t hash = 1469598103934665603u;
  const struct codec_world *world = &scene->world;
  const float *all[2 + RANKS * TT_CODEC_PLANES] = {scene->result, world->owner[0]};
  for (int i = 0; i < RANKS * TT_CODEC_PLANES; i++) all[2 + i] = world->planes[i];
  for (size_t a = 0; a < sizeof all / sizeof all[0]; a++)
    for (uint64_t i = 0; all[a] && i < world->count; i++) {
      uint32_t bits;
      memcpy(&bits, &all[a][i], sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
  for (int i = 0; i <= RANKS; i++) hash = (hash ^ world->hashes[i]) * 1099511628211u;
  return hash;
}

/* Three steps on ordinary values, one on hard ones, one with infinities and NaN. */
static uint64_t scene_play(const char *text, uint64_t count, uint64_t piece)
{
  struct scene scene;
  scene_open(&scene, text, count);
  scene.world.piece = piece;
  for (int step = 0; step < 5; step++) {
    scene_draw(&scene, step < 3 ? floats_draw : floats_draw_hard);
    for (uint64_t i = count / 2; step == 4 && i < count; i += 77) scene.values[i % RANKS][i] = i % 2 ? NAN : -INFINITY;
    scene_step(&scene);
  }
  uint64_t hash = scene_hash(&scene);
  scene_close(&scene);
  return hash;
}

/* A row whose one plane is an error: what is not sent stays there. */
static int keeps_errors(const struct codec_world *world)
{
  return tt_codec_planes(&world->codec, TT_CODEC_CONTRIBUTION) == 1;
}

/* What each rank has not sent, and all of them together have not got, in all steps. */
struct ledger {
  double *left[RANKS], *all;
};

static void ledger_add(struct ledger *ledger, const struct scene *scene)
{
  for (uint64_t i = 0; i < scene->world.count; i++) {
    for (int rank = 0; rank < RANKS; rank++) {
      ledger->left[rank][i] += (double)scene->values[rank][i] - (double)scene->sent[rank][i];
      ledger->all[i] += scene->values[rank][i];
    }
    ledger->all[i] -= scene->result[i];
  }
}

/* Sums of values that were drawn are exact, so what is sent as it is, or by a power of two, is left exactly; else the
 * difference from a mean is rounded once in each step. */
static double rounding_of(const char *text)
{
  return !strncmp(text, "drop", 4) || !strcmp(text, "threshold:0.5") ? 0 : 1e-5;
}

/* Element i of all planes is what the ledger says. */
static void ledger_judge(const struct ledger *ledger, const struct scene *scene, uint64_t i, const char *text)
{
  const float *owner = scene->world.owner[0];
  double kept = owner ? owner[i] : 0, rounding = rounding_of(text);
  for (int rank = 0; rank < RANKS; rank++) {
    double error = scene->world.planes[rank * TT_CODEC_PLANES][i];
    if (fabs(error - ledger->left[rank][i]) > rounding)
      fail_msg("%s, element %zu of %zu: %g is left, %g is kept", text, (size_t)i, (size_t)scene->world.count,
               ledger->left[rank][i], error);
    kept += error;
  }
  if (fabs(kept - ledger->all[i]) > rounding)
    fail_msg("%s, element %zu of %zu: all keep %g, of %g", text, (size_t)i, (size_t)scene->world.count, kept,
             ledger->all[i]);
}

static void lost_judge(const char *text, uint64_t count)
{
  struct scene scene;
  struct ledger ledger;
  double *room = calloc(count * (RANKS + 1) + 1, sizeof *room);
  assert_non_null(room);
  for (int rank = 0; rank < RANKS; rank++) ledger.left[rank] = room + (uint64_t)rank * count;
  ledger.all = room + RANKS * count;
  scene_open(&scene, text, count);
  for (int step = 0; step < 5 && keeps_errors(&scene.world); step++) {
    scene_draw(&scene, floats_draw);
    scene_step(&scene);
    ledger_add(&ledger, &scene);
  }
  for (uint64_t i = 0; i < count && keeps_errors(&scene.world); i++) ledger_judge(&ledger, &scene, i, text);
  scene_close(&scene);
  free(room);
}

/* Over all steps: sent + error = values, for each rank; result + errors of all = values of all. */
static void nothing_is_lost(void **state)
{
  (void)state;
  for (int c = 0; codecs[c]; c++)
    for (size_t n = 0; n < NCOUNTS; n += STRIDE) lost_judge(codecs[c], counts[n]);
}

static void no_cut_changes_a_bit(void **state)
{
  static const uint64_t pieces[] = {1, 100, 333, 512};
  (void)state;
  for (int c = 0; codecs[c]; c++)
    for (size_t n = 0; n < NCOUNTS; n += STRIDE) {
      uint64_t whole = scene_play(codecs[c], counts[n], 0);
      for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++)
        if (scene_play(codecs[c], counts[n], pieces[p]) != whole)
          fail_msg("%s, %zu elements: other bits in pieces of %zu", codecs[c], (size_t)counts[n], (size_t)pieces[p]);
    }
}

static uint64_t of_plain[64][NCOUNTS];

static int tables_compared(const char *table)
{
  int failed = 0;
  for (int c = 0; codecs[c]; c++)
    for (size_t n = 0; n < NCOUNTS; n += STRIDE)
      if (scene_play(codecs[c], counts[n], 0) != of_plain[c][n]) {
        printf("%s, %zu elements: %s has other bits than plain\n", codecs[c], (size_t)counts[n], table);
        failed++;
      }
  return failed;
}

static void no_table_of_kernels_changes_a_bit(void **state)
{
  (void)state;
  assert_int_equal(tt_reduce_choose("plain"), tuttiSuccess);
  for (int c = 0; codecs[c]; c++)
    for (size_t n = 0; n < NCOUNTS; n += STRIDE) of_plain[c][n] = scene_play(codecs[c], counts[n], 0);
  assert_int_equal(tables_each(tables_compared), 0);
  assert_int_equal(tt_reduce_choose("auto"), tuttiSuccess);
}

static void no_environment_of_the_caller_changes_a_bit(void **state)
{
  (void)state;
  for (int c = 0; codecs[c]; c++) {
    struct scene scene;
    uint64_t hash[STRANGE];
    for (int which = 0; which < STRANGE; which++) {
      scene_open(&scene, codecs[c], 1000);
      for (int step = 0; step < 2; step++) {
        scene_draw(&scene, step ? floats_draw_hard : floats_draw);
        strange_enter(which);
        scene_step(&scene);
        assert_true(strange_leave(which));
      }
      hash[which] = scene_hash(&scene);
      scene_close(&scene);
      if (hash[which] != hash[0]) fail_msg("%s: other bits in environment %d", codecs[c], which);
    }
  }
}

/* Memory that ends, and in which nothing before `bytes` may be touched either: `data` is at the end of a page or at
 * the beginning of one. */
static void *fenced(char *pages, size_t bytes, int is_at_end)
{
  assert_true(bytes <= PAGE);
  return pages + PAGE + (is_at_end ? PAGE - bytes : 0);
}

static char *pages_new(void)
{
  char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(pages != MAP_FAILED);
  assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
  return pages;
}

static int fences_kept(const char *table)
{
  char *pages[5];
  (void)table;
  for (int i = 0; i < 5; i++) pages[i] = pages_new();
  for (int c = 0; codecs[c]; c++)
    for (size_t n = 0; n < 4 * NCOUNTS; n++) {
      struct codec_world world;
      uint64_t count = counts[n / 4], state = n;
      codec_world_create(&world, codecs[c], RANKS, count);
      struct tt_codec_piece piece = codec_piece(&world, 1, 0, count);
      int is_result = n / 2 % 2 && tt_codec_route(&world.codec) == TT_CODEC_OWNER;
      piece.stage = is_result ? TT_CODEC_RESULT : TT_CODEC_CONTRIBUTION;
      float *block[4];
      for (int i = 0; i < 4; i++) block[i] = fenced(pages[i], count * sizeof(float), n % 2);
      for (int i = 1; i < 4; i++) memset(block[i], 0, count * sizeof(float));
      floats_draw(block[0], count, &state);
      if (tt_codec_prepares(&world.codec)) tt_codec_prepare(&world.codec, block[0], count, &piece.facts);
      uint64_t bytes = tt_codec_bytes(&world.codec, &piece);
      void *code = fenced(pages[4], bytes, n % 2);
      float *planes[] = {block[1], block[2]};
      for (int p = tt_codec_planes(&world.codec, piece.stage); p < 2; p++) planes[p] = NULL;
      assert_int_equal(tt_codec_encode(&world.codec, &piece, block[0], planes, code), 0);
      assert_int_equal(tt_codec_decode_add(&world.codec, &piece, code, bytes, block[3]), tuttiSuccess);
      assert_int_equal(tt_codec_decode_add(&world.codec, &piece, code, bytes + 1, block[3]), tuttiInvalidArgument);
      codec_world_destroy(&world);
    }
  for (int i = 0; i < 5; i++) munmap(pages[i], 3 * PAGE);
  return 0;
}

static void not_even_a_byte_beside_the_memory_is_touched(void **state)
{
  (void)state;
  assert_int_equal(tables_each(fences_kept), 0);
  assert_int_equal(tt_reduce_choose("auto"), tuttiSuccess);
}

/* One infinite or NaN value at `where` of rank 1: the encoder says so, the result has a value there that is not finite,
 * and no plane has one. */
static void overflow_judge(const char *text, uint64_t count, uint64_t where, float bad)
{
  struct scene scene;
  scene_open(&scene, text, count);
  scene_draw(&scene, floats_draw);
  scene_step(&scene);
  assert_int_equal(scene.world.overflows, 0);
  scene_draw(&scene, floats_draw);
  scene.values[1][where] = bad;
  scene_step(&scene);
  if (!scene.world.overflows || isfinite(scene.result[where]))
    fail_msg("%s: %g at %zu of %zu: told %d, result %g", text, bad, (size_t)where, (size_t)count,
             scene.world.overflows, scene.result[where]);
  for (int i = 0; i < RANKS * TT_CODEC_PLANES + 1; i++) {
    const float *plane = i ? scene.world.planes[i - 1] : scene.world.owner[0];
    for (uint64_t e = 0; plane && e < count; e++) assert_true(isfinite(plane[e]));
  }
  scene_draw(&scene, floats_draw);
  scene_step(&scene);
  assert_int_equal(scene.world.overflows, 0);
  for (uint64_t e = 0; e < count; e++) assert_true(isfinite(scene.result[e]));
  scene_close(&scene);
}

static void what_is_not_finite_is_told_and_does_not_stay(void **state)
{
  (void)state;
  for (int c = 0; codecs[c]; c++)
    for (int i = 0; i < 4; i++) {
      overflow_judge(codecs[c], 700, (uint64_t)i * 233, INFINITY);
      overflow_judge(codecs[c], 700, (uint64_t)i * 233, -INFINITY);
      overflow_judge(codecs[c], 700, (uint64_t)i * 233, NAN);
      overflow_judge(codecs[c], 1, 0, NAN);
    }
}

/* Lengths of shards add up to that of the tensor, and no longest tensor makes a number overflow. */
static void lengths_add_up_to_the_longest_tensor(void **state)
{
  (void)state;
  for (int c = 0; codecs[c]; c++) {
    struct tt_codec codec = codec_of(codecs[c]);
    struct tt_codec_piece all = {.nranks = TT_CODEC_MOST_RANKS, .count = TT_CODEC_MOST_ELEMENTS};
    struct tt_codec_piece first = all, last = all;
    uint32_t grain = tt_codec_grain(&codec);
    all.capacity = tt_codec_capacity(&codec, all.count, ~0u);
    assert_true(all.capacity <= all.count);
    uint64_t bytes = tt_codec_bytes(&codec, &all);
    assert_true(bytes >= all.capacity && bytes <= 16 + 14 * all.count);
    if (!grain) continue;
    first.count = all.count / 5 / grain * grain;
    last.first = first.count;
    last.count -= first.count;
    assert_int_equal(tt_codec_bytes(&codec, &first) + tt_codec_bytes(&codec, &last), bytes);
    last.count = 0;
    assert_int_equal(tt_codec_bytes(&codec, &last), 0);
  }
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1); /* refusals are wanted, by the hundred */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_lost),
      cmocka_unit_test(lengths_add_up_to_the_longest_tensor),
      cmocka_unit_test(no_cut_changes_a_bit),
      cmocka_unit_test(no_table_of_kernels_changes_a_bit),
      cmocka_unit_test(no_environment_of_the_caller_changes_a_bit),
      cmocka_unit_test(not_even_a_byte_beside_the_memory_is_touched),
      cmocka_unit_test(what_is_not_finite_is_told_and_does_not_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
