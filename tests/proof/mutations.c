/* SPDX-License-Identifier: BSD-3-Clause */
/* Plants one error in one step of one rank and wants a complaint, for every all-reduce
 * of the table. A mutation is left out only where it changes nothing that matters:
 *  - the schedule has nothing to change that way (no second peer, no second operand);
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

/* Changes step i of the schedule; 0 if there is nothing to change that way. `draw` is
 * a random number for details. */
typedef int (*mutate_fn)(struct tt_schedule *s, int32_t i, uint32_t draw);

struct mutation {
  const char *name;
  mutate_fn mutate;
  int is_harmless;
};

struct plan {
  const struct tt_algo *algo;
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

static int drop(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  int32_t *order = indices(s);
  memmove(&order[i], &order[i + 1], (size_t)(s->nsteps - 1 - i) * sizeof *order);
  rebuild(s, order, s->nsteps - 1);
  tt_free(order);
  return 1;
}

/* The second one may follow at once or as the last step. */
static int duplicate(struct tt_schedule *s, int32_t i, uint32_t draw)
{
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

/* The first source of that place (or, with TT_NOWHERE, of any); NULL if there is none. */
static struct tt_operand *source_of(struct tt_schedule *s, int32_t i, enum tt_place place)
{
  for (int k = 0; k < s->steps[i].nsrc; k++) {
    struct tt_operand *source = &s->operands[s->steps[i].src + k];
    if (place == TT_NOWHERE || source->place == place) return source;
  }
  return NULL;
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
  if (!s->steps[i].nto && !source_of(s, i, TT_MESSAGE)) return 0;
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
  int32_t by = step->first + step->nblocks < s->shape.nblocks ? 1 : -1;
  if (step->first + by < 0) return 0;
  step->first += by;
  if (draw % 2) return 1;
  for (int k = 0; k < step->nsrc; k++)
    if (s->operands[step->src + k].place < TT_SCRATCH) s->operands[step->src + k].at += by;
  if (step->dst.place == TT_OUT) step->dst.at += by;
  return 1;
}

static int flip_raw(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  s->operands[s->steps[i].src + (int32_t)(draw % s->steps[i].nsrc)].raw ^= 1;
  return 1;
}

static int flip_final(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  s->steps[i].is_final ^= 1;
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

static int change_source_place(struct tt_schedule *s, int32_t i, uint32_t draw)
{
  (void)draw;
  struct tt_operand *source = source_of(s, i, TT_NOWHERE);
  if (source->place == TT_MESSAGE) return 0;
  source->place = source->place == TT_IN ? TT_OUT : TT_IN;
  source->raw = source->place == TT_IN;
  source->at = s->steps[i].first;
  return 1;
}

static const struct mutation mutations[] = {
  {"drop a step", drop, 0},
  {"do a step twice", duplicate, 0},
  {"swap dependent steps", swap_dependent, 0},
  {"swap independent steps", swap_independent, 1},
  {"redirect a send", redirect_send, 0},
  {"redirect a receive", redirect_receive, 0},
  {"change the channel of one end", change_channel, 0},
  {"leave out blocks", fewer_blocks, 0},
  {"shift the blocks", shift_blocks, 0},
  {"flip raw", flip_raw, 0},
  {"flip final", flip_final, 0},
  {"swap the operands", swap_operands, 0},
  {"repeat an operand", repeat_operand, 0},
  {"move the destination", move_destination, 0},
  {"change the place of the destination", change_destination_place, 0},
  {"move a source", move_source, 0},
  {"change the place of a source", change_source_place, 0},
};

enum { MUTATIONS = sizeof mutations / sizeof mutations[0] };

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
  plan->algo->generate(schedule, shape);
  if (shape->rank != plan->rank || schedule->nsteps == 0) return;
  int32_t n = schedule->nsteps, first = (int32_t)(plan->draw % (uint32_t)n);
  for (int32_t k = 0; k < n && plan->step < 0; k++)
    if (plan->mutation->mutate(schedule, (first + k) % n, plan->draw >> 8)) plan->step = (first + k) % n;
}

/* True if there was something to mutate. */
static int plant(const struct tt_algo *algo, const struct mutation *mutation, struct tt_shape shape, uint64_t *seed)
{
  char complaint[512];
  struct plan plan = {algo, mutation, (int32_t)(random_next(seed) % (uint32_t)shape.nranks), random_next(seed), -1};
  tuttiResult_t code = tt_verify_all_reduce(&shape, generate, &plan, complaint, sizeof complaint);
  int is_clean = mutation->is_harmless || plan.step < 0;
  if (is_clean != (code == tuttiSuccess))
    fail_msg("%s, %d ranks, %d blocks, %s at rank %d, step %d: %s", algo->name, (int)shape.nranks,
             (int)shape.nblocks, mutation->name, (int)plan.rank, (int)plan.step,
             code ? complaint : "no complaint");
  if (code) assert_true(code == tuttiInternalError && strncmp(complaint, "rank ", 5) == 0);
  return plan.step >= 0;
}

/* Every mutation finds something to change for some number of ranks of every algorithm,
 * unless the algorithm cannot have it. */
static void every_planted_error_is_complained_about(void **state)
{
  (void)state;
  static const int32_t ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 23, 33, 40, 64, 70};
  static const int32_t extra_blocks[] = {0, 1, 5, 50};
  long planted[MUTATIONS] = {0};
  uint64_t seed = 64;
  for (size_t c = 0; c < (size_t)tt_algo_count * sizeof ranks / sizeof ranks[0]; c++) {
    const struct tt_algo *algo = &tt_algos[c % (size_t)tt_algo_count];
    struct tt_shape shape = {.nranks = ranks[c / (size_t)tt_algo_count], .root = -1};
    if (algo->collective != TT_ALL_REDUCE) continue;
    for (int round = 0; round < 4 * 8 * MUTATIONS; round++) {
      int m = round % MUTATIONS;
      shape.nblocks = round / MUTATIONS % 4 == 0 ? algo->blocks(&shape) : extra_blocks[round / MUTATIONS % 4];
      if (algo->illegal && algo->illegal(&shape)) continue;
      planted[m] += plant(algo, &mutations[m], shape, &seed);
    }
  }
  for (int m = 0; m < MUTATIONS; m++) {
    print_message("%5ld x %s\n", planted[m], mutations[m].name);
    assert_true(planted[m] >= 100);
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
