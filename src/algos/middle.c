/* SPDX-License-Identifier: BSD-3-Clause */
/* The middle step of hierarchical algorithms: its row of the table, and two figures that no claim gives: how many of
 * its messages go over the end, and its longest chain of messages if its ranks start unequally late. The chain is found
 * by playing the schedules of all its ranks: each block carries the length of the longest chain behind it, as in the
 * proof, but messages have buffers. */
#include "algos/hierarchy_private.h"

const struct tt_algo *tt_middle_algo(const struct tt_shape *shape)
{
  int is_told = shape->middle >= 0 && shape->middle < tt_algo_count; /* other numbers are illegal, but may come here */
  return is_told ? &tt_algos[shape->middle] : tt_algo_find(TT_ALL_REDUCE, "ring");
}

struct tt_shape tt_middle_shape(const struct tt_shape *shape, int32_t ntops, int32_t top, int32_t nblocks)
{
  struct tt_shape middle = {.nranks = ntops, .rank = top, .root = -1, .middle = -1};
  tt_algo_shape(tt_middle_algo(shape), &middle);
  if (nblocks > 0) middle.nblocks = nblocks;
  return middle;
}

int64_t tt_middle_splits(const struct tt_algo *algo, const struct tt_shape *middle)
{
  struct tt_schedule schedule;
  int64_t splits = 0;
  tt_schedule_init(&schedule, middle);
  algo->generate(&schedule, middle);
  for (int32_t i = 0; i < schedule.nsteps; i++)
    if (schedule.steps[i].nblocks > middle->nblocks - schedule.steps[i].first) splits += schedule.steps[i].nto;
  if (schedule.error) splits = -1;
  tt_schedule_destroy(&schedule);
  return splits;
}

/* One rank of the middle step. A depth is the number of messages in the longest chain behind a block. */
struct player {
  struct tt_schedule schedule;
  int32_t next;     /* the step it is at */
  int32_t before;   /* depth of IN */
  int32_t *out;     /* [nblocks]: depths */
  int32_t *slots;   /* [nslots] */
  int32_t *sent;    /* depths of all blocks sent so far, in the order of the steps */
  int32_t *sent_at; /* [nsteps]: where in `sent` a step's depths begin */
  int32_t *seen;    /* [nranks]: how many steps of that rank hold no further message for this one */
  int32_t *storage;
};

static int player_make(struct player *p, const struct tt_algo *algo, const struct tt_shape *shape, int32_t before)
{
  size_t sent = 0;
  p->before = before;
  tt_schedule_init(&p->schedule, shape);
  algo->generate(&p->schedule, shape);
  for (int32_t i = 0; i < p->schedule.nsteps; i++) sent += (size_t)p->schedule.steps[i].nblocks;
  p->storage = tt_alloc((size_t)shape->nblocks + (size_t)p->schedule.nslots + (size_t)p->schedule.nsteps +
                            (size_t)shape->nranks + sent,
                        sizeof *p->storage);
  if (p->schedule.error || !p->storage) return 0;
  p->out = p->storage;
  p->slots = p->out + shape->nblocks;
  p->sent_at = p->slots + p->schedule.nslots;
  p->seen = p->sent_at + p->schedule.nsteps;
  p->sent = p->seen + shape->nranks;
  for (int32_t i = 1; i < p->schedule.nsteps; i++)
    p->sent_at[i] = p->sent_at[i - 1] + p->schedule.steps[i - 1].nblocks;
  return 1;
}

static int sends_to(const struct tt_schedule *schedule, int32_t i, int32_t rank)
{
  const struct tt_step *step = &schedule->steps[i];
  for (int32_t k = step->to; k < step->to + step->nto; k++)
    if (schedule->peers[k] == rank) return 1;
  return 0;
}

/* Finds the next message from another rank; 0 if it is not sent yet. */
static int is_sent(struct player *p, const struct player *from, int32_t rank)
{
  int32_t *seen = &p->seen[rank];
  while (*seen < from->next && !sends_to(&from->schedule, *seen, p->schedule.shape.rank)) ++*seen;
  return *seen < from->next;
}

static int32_t depth_of(const struct player *all, const struct player *p, struct tt_operand operand, int32_t x)
{
  if (operand.place == TT_IN) return p->before;
  if (operand.place == TT_SCRATCH) return p->slots[operand.at + x];
  if (operand.place == TT_OUT) return p->out[(operand.at + x) % p->schedule.shape.nblocks];
  const struct player *from = &all[operand.at];
  return from->sent[from->sent_at[p->seen[operand.at]] + x] + 1;
}

static void block_play(const struct player *all, struct player *p, const struct tt_step *step, int32_t x)
{
  int32_t most = 0;
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    int32_t depth = depth_of(all, p, p->schedule.operands[k], x);
    if (depth > most) most = depth;
  }
  p->sent[p->sent_at[p->next] + x] = most;
  if (step->dst.place == TT_SCRATCH) p->slots[step->dst.at + x] = most;
  if (step->dst.place == TT_OUT) p->out[(step->dst.at + x) % p->schedule.shape.nblocks] = most;
}

/* Plays the next step; 0 if there is none or its messages are not sent yet. */
static int step_play(struct player *all, struct player *p)
{
  if (p->next == p->schedule.nsteps) return 0;
  const struct tt_step *step = &p->schedule.steps[p->next];
  const struct tt_operand *sources = p->schedule.operands + step->src;
  for (int32_t k = 0; k < step->nsrc; k++)
    if (sources[k].place == TT_MESSAGE && !is_sent(p, &all[sources[k].at], sources[k].at)) return 0;
  for (int32_t x = 0; x < step->nblocks; x++) block_play(all, p, step, x);
  for (int32_t k = 0; k < step->nsrc; k++)
    if (sources[k].place == TT_MESSAGE) p->seen[sources[k].at]++;
  p->next++;
  return 1;
}

static int64_t all_play(struct player *all, const struct tt_shape *shape)
{
  int64_t rounds = 0;
  for (int moved = 1; moved;) {
    moved = 0;
    for (int32_t rank = 0; rank < shape->nranks; rank++)
      while (step_play(all, &all[rank])) moved = 1;
  }
  for (int32_t rank = 0; rank < shape->nranks; rank++)
    for (int32_t block = 0; block < shape->nblocks; block++)
      if (all[rank].out[block] + all[rank].before > rounds) rounds = all[rank].out[block] + all[rank].before;
  return rounds;
}

static int64_t counted_rounds(const struct tt_algo *algo, struct tt_shape shape, const int32_t *before)
{
  struct player *all = tt_alloc((size_t)shape.nranks, sizeof *all);
  int is_made = all != NULL;
  for (shape.rank = 0; is_made && shape.rank < shape.nranks; shape.rank++)
    is_made = player_make(&all[shape.rank], algo, &shape, before[shape.rank]);
  int64_t rounds = is_made ? all_play(all, &shape) : -1;
  for (int32_t rank = 0; all && rank < shape.nranks; rank++) {
    tt_schedule_destroy(&all[rank].schedule);
    tt_free(all[rank].storage);
  }
  tt_free(all);
  return rounds;
}

int64_t tt_middle_rounds(const struct tt_algo *algo, const struct tt_shape *middle, const int32_t *before)
{
  struct tt_cost cost = {0};
  for (int32_t rank = 1; rank < middle->nranks; rank++)
    if (before[rank] != before[0]) return counted_rounds(algo, *middle, before);
  if (middle->nranks > 1) algo->claim(middle, &cost);
  return cost.rounds + 2 * (int64_t)before[0];
}
