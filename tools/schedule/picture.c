/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule/picture_private.h"

#include <string.h>

/* A play that is watched. */
struct look {
  struct tt_picture *picture;
  int64_t *last; /* by rank: its last mark, and one; NULL: only counted so far */
  size_t element_bytes;
  int is_broke; /* no memory */
};

/* Times are whole numbers: every message takes 1. */
static int32_t round_of(double us)
{
  return us < INT32_MAX ? (int32_t)(us + 0.5) : INT32_MAX;
}

static void message_count(void *context, const struct tt_sim_message *message)
{
  struct look *look = context;
  struct tt_picture *picture = look->picture;
  int32_t round = round_of(message->start_us);
  int64_t elements = (int64_t)(message->bytes / look->element_bytes);
  if (round >= picture->rounds) picture->rounds = round + 1;
  picture->shape = message->schedule->shape;
  if (round >= TT_PICTURE_ROUNDS) return;
  struct tt_round *span = &picture->span[round];
  if (!span->messages || elements < span->fewest) span->fewest = elements;
  if (elements > span->most) span->most = elements;
  if (elements > picture->most) picture->most = elements;
  span->messages++;
  picture->messages++;
}

/* Room for one more. */
static int grow(void **array, int64_t n, int64_t *room, size_t size)
{
  if (n < *room) return 1;
  void *larger = tt_alloc((size_t)*room * 2 + 256, size);
  if (!larger) return 0;
  if (n) memcpy(larger, *array, (size_t)n * size);
  tt_free(*array);
  *array = larger;
  *room = *room * 2 + 256;
  return 1;
}

static void message_keep(void *context, const struct tt_sim_message *message)
{
  struct look *look = context;
  struct tt_picture *picture = look->picture;
  void *arrows = picture->arrows;
  int32_t round = round_of(message->start_us);
  if (look->is_broke || round >= picture->shown) return;
  look->is_broke = !grow(&arrows, picture->narrows, &picture->arrow_room, sizeof *picture->arrows);
  picture->arrows = arrows;
  if (look->is_broke) return;
  picture->arrows[picture->narrows++] =
      (struct tt_arrow){message->from, message->to, round, message->step->first, message->step->nblocks,
                        (int64_t)(message->bytes / look->element_bytes)};
}

static void message_sum(void *context, const struct tt_sim_message *message)
{
  struct look *look = context;
  struct tt_picture *picture = look->picture;
  int32_t row = message->from / picture->row_ranks, column = round_of(message->start_us) / picture->column_rounds;
  picture->cells[(size_t)row * (size_t)picture->columns + (size_t)column] +=
      (int64_t)(message->bytes / look->element_bytes);
}

static enum tt_mark_kind kind_of(const struct tt_sim_step *told)
{
  if (told->step->nsrc > 1) return TT_MARK_REDUCE;
  return told->schedule->operands[told->step->src].place == TT_MESSAGE ? TT_MARK_TAKE : TT_MARK_COPY;
}

/* A rank gets one mark for all it does at one time: the most important. */
static void step_keep(void *context, const struct tt_sim_step *told)
{
  struct look *look = context;
  struct tt_picture *picture = look->picture;
  int32_t rank = told->schedule->shape.rank, round = round_of(told->finish_us), sources = told->step->nsrc - 1;
  void *marks = picture->marks;
  if (look->is_broke || told->step->dst.place == TT_NOWHERE || !told->bytes || round > picture->shown) return;
  struct tt_mark *last = look->last[rank] ? &picture->marks[look->last[rank] - 1] : NULL;
  if (last && last->round == round) {
    last->sources += sources;
    if (kind_of(told) > last->kind) last->kind = kind_of(told);
    return;
  }
  look->is_broke = !grow(&marks, picture->nmarks, &picture->mark_room, sizeof *picture->marks);
  picture->marks = marks;
  if (look->is_broke) return;
  picture->marks[picture->nmarks++] = (struct tt_mark){rank, round, sources, kind_of(told)};
  look->last[rank] = picture->nmarks;
}

/* How many of n share a row or column, if there are at most `most` of these. */
static int32_t share(int32_t n, int32_t most)
{
  return n > most ? (n + most - 1) / most : 1;
}

static int cells_make(struct tt_picture *picture)
{
  int32_t nranks = picture->shape.nranks;
  picture->shown = picture->rounds;
  picture->row_ranks = share(nranks, TT_PICTURE_ROWS);
  picture->column_rounds = share(picture->rounds, TT_PICTURE_COLUMNS);
  picture->rows = (nranks + picture->row_ranks - 1) / picture->row_ranks;
  picture->columns = (picture->rounds + picture->column_rounds - 1) / picture->column_rounds;
  picture->cells = tt_alloc((size_t)picture->rows * (size_t)picture->columns + 1, sizeof *picture->cells);
  return picture->cells != NULL;
}

tuttiResult_t tt_picture_make(struct tt_picture *picture, const struct tt_sim_play *play)
{
  struct tt_link_prices unit = {.gamma_us_per_mib = 0};
  struct tt_sim_play both = *play;
  struct tt_sim_result result;
  struct look look = {.picture = picture, .element_bytes = play->element_bytes};
  *picture = (struct tt_picture){.shape = play->shape};
  for (int k = 0; k < TT_LINK_KINDS; k++) unit.link[k] = tt_curve_line(k != TT_LINK_SELF, 0);
  both.prices = &unit;
  both.lanes = 1;
  both.block_bytes = 0;
  both.watcher = (struct tt_sim_watcher){.message = message_count, .context = &look};
  tuttiResult_t code = tt_simulate(&both, &result);
  if (code) return code;
  picture->nblocks = tt_shape_blocks(&picture->shape);
  picture->shown = picture->rounds < TT_PICTURE_ROUNDS ? picture->rounds : TT_PICTURE_ROUNDS;
  if (play->shape.nranks > TT_PICTURE_RANKS) {
    both.watcher.message = message_sum;
    look.is_broke = !cells_make(picture);
  } else {
    look.last = tt_alloc((size_t)play->shape.nranks, sizeof *look.last);
    both.watcher.message = message_keep;
    both.watcher.step = step_keep;
    look.is_broke = !look.last;
  }
  if (!look.is_broke) code = tt_simulate(&both, &result);
  tt_free(look.last);
  if (look.is_broke) code = tt_fail(tuttiSystemError, "no memory to draw %d ranks: give the process more",
                                    (int)play->shape.nranks);
  return code;
}

void tt_picture_destroy(struct tt_picture *picture)
{
  tt_free(picture->arrows);
  tt_free(picture->marks);
  tt_free(picture->cells);
  *picture = (struct tt_picture){.cells = NULL};
}
