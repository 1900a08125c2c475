/* SPDX-License-Identifier: BSD-3-Clause */
/* Plants one error in one step of one rank and wants a complaint, for every row of the table, plain and after passes.
 * A mutation is left out only where it changes nothing that matters:
 *  - the schedule has nothing to change that way (no second peer, no second operand);
 *  - what a rank does alone is done twice;
 *  - two neighbouring reductions change places: (a + b) + c becomes (a + c) + b, which may be as good;
 *  - the same memory is called by another share's number, blocks being as long there, or all blocks from another on;
 *  - one of two places that hold the same is read instead of the other;
 *  - two neighbours that wait for each other in no way are swapped: that is the same
 *    program, and the proof must still hold, which is tested too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "schedule/proof_private.h"

/* Changes step i of the schedule; 0 if there is nothing to change that way. `draw` is
 * a random number for details. */
typedef int (*mutate_fn)(struct tt_schedule *s, int32_t i, uint32_t draw);

struct mutation {
  const char *name;
  mutate_fn mutate;
  int is_harmless, is_of_root; /* of_root: planted at the root, where there is one */
};

struct plan {
  const struct tt_algo *algo;
  struct tt_shape shape; /* before channels */
  int passes;            /* 0: none, 1: merge and fuse, 2: these and two channels */
  const struct mutation *mutation;
  int32_t rank;
  uint32_t draw;
  int32_t step; /* out: which one was changed; -1: none */
};

/* ---- the mutations ----------------------------------------------------------------- */

/* The same steps again in another order, built anew: order[k] is the old index of the
 * k-th. Errors, which cannot be, would show as complaints. */
static void rebuild(struct tt_schedule *s, const int32_t *order, int32_t n)
{
  struct tt_schedule made;
  tt_schedule_init(&made, &s->shape);
  for (int32_t k = 0; k < n; k++) {
    const struct tt_step *step = &s->steps[order[k]];
    tt_add(&made, step, s->operands + step->src, s->peers + step->to);
  }
  if (made.nslots < s->nslots) made.nslots = s->nslots;
  tt_schedule_destroy(s);
  *s = made;
}

/* The old indices 0 .. n - 1 with room for one more. */
static int32_t *indices(const struct tt_schedule *s)
{
  int32_t *order = tt_alloc((size_t)s->nsteps + 1, sizeof *order);
  assert_non_null(order);
  for (int32_t k = 0; k < s->nsteps; k++) order[k] = k;
  return order;
}

/* The first source of that place (or, with TT_NOWHERE, of any); NULL if there is none. */
static struct tt_operand *source_of(struct tt_schedule *s, int32_t i, enum tt_place place)
{
  for (int k = 0; k < s->steps[i].nsrc; k++) {
    struct tt_operand *source = &s->operands[s->steps[i].src + k];
    if (place == TT_NOWHERE || source->place == place) return source;
  }
  return NULL;
}

static int is_message(struct tt_schedule *s, int32_t i)
{
  return s->steps[i].nto || source_of(s, i, TT_MESSAGE);
}

static int drop(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  int32_t *order = indices(s);
  memmove(&order[i], &order[i + 1], (size_t)(s->nsteps - 1 - i) * sizeof *order);
  rebuild(s, order, s->nsteps - 1);
  tt_free(order);
  return 1;
}

static int drop_message(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  return is_message(s, i) ? drop(s, i, draw) : 0;
}

/* The second one may follow at once or as the last step. */
static int duplicate(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  if (!is_message(s, i)) return 0;
  int32_t at = draw % 2 ? i + 1 : s->nsteps, *order = indices(s);
  memmove(&order[at + 1], &order[at], (size_t)(s->nsteps - at) * sizeof *order);
  order[at] = i;
  rebuild(s, order, s->nsteps + 1);
  tt_free(order);
  return 1;
}

static int next_waits(const struct tt_schedule *s, int32_t i)
{
  struct tt_order *order = tt_alloc((size_t)s->nsteps, sizeof *order);
  assert_non_null(order);
  tt_order_derive(s, order);
  int waits = ((order[i + 1].finished | order[i + 1].started) & 1) != 0;
  tt_free(order);
  return waits;
}

static int swap(struct tt_schedule *s, int32_t i, int wanted)
{
  if (i + 1 == s->nsteps || next_waits(s, i) != wanted) return 0;
  if (wanted && s->steps[i].nsrc > 1 && s->steps[i + 1].nsrc > 1) return 0;
  int32_t *order = indices(s);
  order[i] = i + 1;
  order[i + 1] = i;
  rebuild(s, order, s->nsteps);
  tt_free(order);
  return 1;
}

static int swap_dependent(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  return swap(s, i, 1);
}

static int swap_independent(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  return swap(s, i, 0);
}

/* Any rank but this one and `old`; -1 if there is none. */
static int32_t another_rank(const struct tt_schedule *s, int32_t old, uint32_t draw)
{
  if (s->shape.nranks < 3) return -1;
  int32_t rank = (int32_t)(draw % (uint32_t)s->shape.nranks);
  while (rank == old || rank == s->shape.rank) rank = (rank + 1) % s->shape.nranks;
  return rank;
}

static int redirect_send(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  const struct tt_step *step = &s->steps[i];
  int32_t rank = step->nto ? another_rank(s, s->peers[step->to], draw) : -1;
  if (rank < 0) return 0;
  s->peers[step->to] = rank;
  return 1;
}

static int redirect_receive(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  struct tt_operand *source = source_of(s, i, TT_MESSAGE);
  int32_t rank = source ? another_rank(s, source->at, draw) : -1;
  if (rank < 0) return 0;
  source->at = rank;
  return 1;
}

static int change_channel(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  if (!is_message(s, i)) return 0;
  s->steps[i].channel = (uint8_t)(s->steps[i].channel + 1 + draw % 200);
  return 1;
}

static int fewer_blocks(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  if (s->steps[i].nblocks == 1) return 0;
  s->steps[i].nblocks -= 1 + (int32_t)(draw % (uint32_t)(s->steps[i].nblocks - 1));
  return 1;
}

/* The same number of blocks from another place on, with or without its operands. */
static int shift_blocks(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  struct tt_step *step = &s->steps[i];
  int32_t blocks = tt_shape_blocks(&s->shape);
  int is_alone = draw % 2 && s->shape.nblocks > 1;
  int moves = is_alone || s->shape.nblocks > 1 || step->dst.place == TT_OUT;
  for (int k = 0; k < step->nsrc; k++) moves |= s->operands[step->src + k].place < TT_SCRATCH;
  if (step->nblocks == blocks || !moves) return 0;
  step->first = (step->first + 1) % blocks;
  for (int k = 0; k < step->nsrc && !is_alone; k++) {
    struct tt_operand *source = &s->operands[step->src + k];
    if (source->place < TT_SCRATCH) source->at = (source->at + 1) % blocks;
  }
  if (step->dst.place == TT_OUT && !is_alone) step->dst.at = (step->dst.at + 1) % blocks;
  return 1;
}

static int32_t other_share(const struct tt_schedule *s, int32_t at, uint32_t draw)
{
  int64_t by = (int64_t)(1 + draw % (uint32_t)(s->shape.nranks - 1)) * s->shape.nblocks;
  return (int32_t)((at + by) % tt_shape_blocks(&s->shape));
}

static int read_other_share(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  struct tt_operand *source = source_of(s, i, TT_IN);
  if (!source) source = source_of(s, i, TT_OUT);
  if (!source || !tt_kinds[s->shape.collective].is_shared || s->shape.nranks == 1) return 0;
  source->at = other_share(s, source->at, draw);
  return 1;
}

static int write_other_share(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  struct tt_operand *dst = &s->steps[i].dst;
  if (dst->place != TT_OUT || !tt_kinds[s->shape.collective].is_shared || s->shape.nranks == 1) return 0;
  dst->at = other_share(s, dst->at, draw);
  return 1;
}

/* Not all blocks of the step are there for this rank. */
static int is_outside(const struct tt_schedule *s, int cover, const struct tt_step *step)
{
  int32_t start, end;
  tt_cover_range(&s->shape, cover, &start, &end);
  if (end - start == tt_shape_blocks(&s->shape)) return 0;
  return step->first < start || step->first >= end || step->first + step->nblocks > end;
}

/* OUT of a rank that is not root, or another rank's share. */
static int write_outside(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  struct tt_step *step = &s->steps[i];
  (void)draw;
  if (!is_outside(s, tt_kinds[s->shape.collective].out, step)) return 0;
  step->dst = tt_out(step->first);
  return 1;
}

static int read_outside(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  const struct tt_step *step = &s->steps[i];
  if (!is_outside(s, tt_kinds[s->shape.collective].in, step)) return 0;
  s->operands[step->src + (int32_t)(draw % step->nsrc)] = tt_in(step->first);
  return 1;
}

static int swap_operands(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  struct tt_operand *source = &s->operands[s->steps[i].src], first = source[0];
  if (s->steps[i].nsrc < 2) return 0;
  source[0] = source[1];
  source[1] = first;
  return 1;
}

/* The first operand twice, the last one lost. */
static int repeat_operand(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  struct tt_operand *source = &s->operands[s->steps[i].src];
  if (s->steps[i].nsrc < 2) return 0;
  source[s->steps[i].nsrc - 1] = source[0];
  return 1;
}

static int move_destination(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  struct tt_operand *dst = &s->steps[i].dst;
  if (dst->place == TT_NOWHERE) return 0;
  dst->at += dst->at && draw % 2 ? -1 : 1;
  if (dst->place == TT_SCRATCH && dst->at + s->steps[i].nblocks > s->nslots)
    s->nslots = dst->at + s->steps[i].nblocks;
  return 1;
}

static int change_destination_place(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  struct tt_operand *dst = &s->steps[i].dst;
  if (dst->place == TT_NOWHERE) return 0;
  dst->place = dst->place == TT_OUT ? TT_SCRATCH : TT_OUT;
  if (dst->place == TT_OUT)
    dst->at = s->steps[i].first;
  else if (dst->at + s->steps[i].nblocks > s->nslots)
    s->nslots = dst->at + s->steps[i].nblocks;
  return 1;
}

static int move_source(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  struct tt_operand *source = source_of(s, i, TT_NOWHERE);
  if (source->place == TT_MESSAGE) return 0;
  source->at += source->at && draw % 2 ? -1 : 1;
  return 1;
}

/* IN and OUT of one number never hold the same while both may be read, but for what may be copied to OUT before IN is
 * read the last time: that is only where they are apart. */
static int change_source_place(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  struct tt_operand *source = source_of(s, i, TT_NOWHERE);
  if (source->place != TT_IN && source->place != TT_OUT) return 0;
  if (tt_kinds[s->shape.collective].is_apart && source->at / s->shape.nblocks == s->shape.rank) return 0;
  source->place = source->place == TT_IN ? TT_OUT : TT_IN;
  return 1;
}

static const struct mutation mutations[] = {
  {"drop a step", drop, 0, 0},
  {"drop a message of the root", drop_message, 0, 1},
  {"do a step twice", duplicate, 0, 0},
  {"swap dependent steps", swap_dependent, 0, 0},
  {"swap independent steps", swap_independent, 1, 0},
  {"redirect a send", redirect_send, 0, 0},
  {"redirect a receive", redirect_receive, 0, 0},
  {"change the channel of one end", change_channel, 0, 0},
  {"leave out blocks", fewer_blocks, 0, 0},
  {"shift the blocks", shift_blocks, 0, 0},
  {"read another share", read_other_share, 0, 0},
  {"write another share", write_other_share, 0, 0},
  {"read IN where it is not there", read_outside, 0, 0},
  {"write OUT where it is not there", write_outside, 0, 0},
  {"swap the operands", swap_operands, 0, 0},
  {"repeat an operand", repeat_operand, 0, 0},
  {"move the destination", move_destination, 0, 0},
  {"change the place of the destination", change_destination_place, 0, 0},
  {"move a source", move_source, 0, 0},
  {"change the place of a source", change_source_place, 0, 0},
};

enum { MUTATIONS = sizeof mutations / sizeof mutations[0], DRAWS = 12 /* of each in each row */ };

/* ---- planting them ----------------------------------------------------------------- */

static uint32_t random_next(uint64_t *seed)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*seed >> 33);
}

/* Mutates the first step from a drawn one on that can be mutated that way. */
static void generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  struct plan *plan = context;
  struct tt_shape plain = plan->shape;
  plain.rank = shape->rank;
  tt_schedule_init(schedule, &plain);
  plan->algo->generate(schedule, &plain);
  if (plan->passes) tt_pass_merge(schedule);
  if (plan->passes) tt_pass_fuse(schedule);
  if (plan->passes > 1) tt_pass_channels(schedule, 2);
  if (shape->rank != plan->rank || schedule->error) return;
  int32_t n = schedule->nsteps, first = n ? (int32_t)(plan->draw % (uint32_t)n) : 0;
  for (int32_t k = 0; k < n && plan->step < 0; k++)
    if (plan->mutation->mutate(schedule, (first + k) % n, plan->draw >> 8)) plan->step = (first + k) % n;
}

/* True if there was something to mutate. */
static int plant(struct plan plan)
{
  int collective = plan.algo->collective, has_counts = collective == TT_ALL_GATHER || collective == TT_REDUCE_SCATTER;
  struct tt_proof proof = {.order = NULL};
  struct tt_shape shape = plan.shape;
  proof.is_uneven = has_counts && shape.nblocks == 1 && plan.passes < 2 && plan.draw % 2;
  if (plan.passes > 1) shape.nblocks *= 2;
  tuttiResult_t code = tt_verify(&shape, generate, &plan, &proof);
  int is_clean = plan.mutation->is_harmless || plan.step < 0;
  if (is_clean && plan.passes > 1 && strstr(proof.complaint, "cannot be spread")) return 0;
  if (is_clean != (code == tuttiSuccess))
    fail_msg("%s %s, %d ranks, %d blocks, root %d, passes %d, %s at rank %d, step %d: %s",
             tt_kinds[plan.algo->collective].name, plan.algo->name, (int)shape.nranks, (int)shape.nblocks,
             (int)shape.root, plan.passes, plan.mutation->name, (int)plan.rank, (int)plan.step,
             code ? proof.complaint : "no complaint");
  if (code) assert_true(code == tuttiInternalError && strncmp(proof.complaint, "rank ", 5) == 0);
  return plan.step >= 0;
}

/* One drawn case of a row; 0 if it is none. */
static int plan_draw(struct plan *plan, const struct tt_algo *algo, int m, uint64_t *seed)
{
  static const int32_t ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 23, 33, 40, 64, 70};
  static const int32_t extra_blocks[] = {0, 1, 2, 5, 50};
  int32_t n = ranks[random_next(seed) % (sizeof ranks / sizeof ranks[0])], blocks = extra_blocks[random_next(seed) % 5];
  *plan = (struct plan){.algo = algo, .mutation = &mutations[m], .step = -1, .passes = (int)(random_next(seed) % 3)};
  plan->shape = (struct tt_shape){.nranks = n, .root = -1, .middle = -1};
  if (tt_kinds[algo->collective].has_root) plan->shape.root = (int32_t)(random_next(seed) % (uint32_t)n);
  tt_algo_shape(algo, &plan->shape);
  if (blocks) plan->shape.nblocks = blocks;
  plan->rank = (int32_t)(random_next(seed) % (uint32_t)n);
  plan->draw = random_next(seed);
  if (mutations[m].is_of_root && plan->shape.root < 0) return 0;
  if (mutations[m].is_of_root) plan->rank = plan->shape.root;
  return !algo->illegal || !algo->illegal(&plan->shape);
}

static void every_planted_error_is_complained_about(void **state)
{
  (void)state;
  long planted[MUTATIONS] = {0}, after_passes[MUTATIONS] = {0};
  uint64_t seed = 64;
  for (int row = 0; row < tt_algo_count; row++)
    for (int draw = 0; draw < DRAWS * MUTATIONS; draw++) {
      struct plan plan;
      int m = draw % MUTATIONS;
      if (!plan_draw(&plan, &tt_algos[row], m, &seed) || !plant(plan)) continue;
      planted[m]++;
      after_passes[m] += plan.passes > 0;
    }
  for (int m = 0; m < MUTATIONS; m++) {
    print_message("%5ld x %s, %ld after passes\n", planted[m], mutations[m].name, after_passes[m]);
    assert_true(planted[m] >= 100 && after_passes[m] >= 50);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_planted_error_is_complained_about),
  };
  alarm(600);
  setenv("TUTTI_DEBUG", "NONE", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
