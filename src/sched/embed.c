/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/sched.h"

/* One schedule on its way into another. */
struct embed {
  struct tt_schedule *schedule;
  const struct tt_schedule *inner;
  const struct tt_embedding *map;
  int32_t blocks;       /* of inner, all shares together */
  int is_whole;         /* inner has as many blocks as the larger: both wrap around alike */
  const int32_t *peers; /* inner's, as ranks of the larger */
};

static void refuse(const struct embed *e, const char *reason)
{
  e->schedule->error = tt_fail(tuttiInternalError,
                               "a schedule of %d ranks and %d blocks cannot be embedded in rank %d's of %d ranks and "
                               "%d blocks at block %d: %s",
                               (int)e->inner->shape.nranks, (int)e->blocks, (int)e->schedule->shape.rank,
                               (int)e->schedule->shape.nranks, (int)tt_shape_blocks(&e->schedule->shape),
                               (int)e->map->first, reason);
}

static int32_t rank_of(const struct embed *e, int32_t rank)
{
  return e->map->ranks ? e->map->ranks[rank] : rank;
}

static int is_legal(const struct embed *e)
{
  const struct tt_embedding *map = e->map;
  int32_t room = tt_shape_blocks(&e->schedule->shape);
  if (map->first < 0 || map->first > room - e->blocks)
    refuse(e, "its blocks do not fit");
  else if (e->inner->total != e->inner->nsteps)
    refuse(e, "not all of its steps were kept");
  else if (map->in < TT_IN || map->in > TT_SCRATCH || map->out < TT_OUT || map->out > TT_SCRATCH)
    refuse(e, "its IN is none of IN, OUT and SCRATCH, or its OUT none of OUT and SCRATCH");
  else if (rank_of(e, e->inner->shape.rank) != e->schedule->shape.rank)
    refuse(e, "it is another rank's");
  return e->schedule->error == 0;
}

/* Maps an operand of inner to the larger schedule, for the piece of its step that begins `skip` blocks after the
 * step's first one. `block` is where that piece begins in inner. */
static struct tt_operand moved(const struct embed *e, struct tt_operand operand, int32_t block, int32_t skip)
{
  const struct tt_embedding *map = e->map;
  uint8_t place = operand.place;
  if (place == TT_MESSAGE) return tt_message(rank_of(e, operand.at));
  if (place == TT_SCRATCH) return tt_scratch(map->slot + operand.at + skip);
  if (place == TT_NOWHERE) return operand;
  int is_in = place == TT_IN;
  place = (uint8_t)(is_in ? map->in : map->out);
  if (place == TT_SCRATCH) return tt_scratch((is_in ? map->in_slot : map->out_slot) + block);
  return (struct tt_operand){place, map->first + block};
}

/* If inner's IN and OUT become one place, a copy from one to the other has nothing to do. */
static int is_there(const struct tt_step *step, struct tt_operand source)
{
  return step->nsrc == 1 && source.place == step->dst.place && source.at == step->dst.at;
}

static void piece_add(const struct embed *e, const struct tt_step *step, int32_t skip, int32_t nblocks)
{
  struct tt_operand sources[TT_MAX_SOURCES];
  int32_t block = (int32_t)(((int64_t)step->first + skip) % e->blocks);
  struct tt_step piece = *step;
  piece.first = e->map->first + block;
  piece.nblocks = nblocks;
  piece.channel = (uint8_t)(step->channel + e->map->channel);
  piece.dst = moved(e, step->dst, block, skip);
  for (int32_t k = 0; k < step->nsrc; k++)
    sources[k] = moved(e, e->inner->operands[step->src + k], block, skip);
  if (is_there(&piece, sources[0])) piece.dst = (struct tt_operand){TT_NOWHERE, 0};
  if (piece.dst.place == TT_NOWHERE && piece.nto == 0) return;
  tt_add(e->schedule, &piece, sources, e->peers ? e->peers + step->to : NULL);
}

/* Only blocks with the same number surely have the same length in the larger schedule, and are cut alike at both
 * ends. */
static int names_one_block(const struct tt_step *step, struct tt_operand operand)
{
  return (operand.place != TT_IN && operand.place != TT_OUT) || operand.at == step->first;
}

static void step_add(const struct embed *e, const struct tt_step *step)
{
  int names_one = names_one_block(step, step->dst);
  int32_t before = e->blocks - step->first;
  int32_t head = e->is_whole || step->nblocks < before ? step->nblocks : before;
  for (int32_t k = 0; k < step->nsrc; k++)
    names_one = names_one && names_one_block(step, e->inner->operands[step->src + k]);
  if (!names_one) {
    refuse(e, "a step names another block than the one it is about");
    return;
  }
  if (e->map->channel < 0 || step->channel + e->map->channel > UINT8_MAX) {
    refuse(e, "there are 256 channels");
    return;
  }
  piece_add(e, step, 0, head);
  if (step->nblocks > head) piece_add(e, step, head, step->nblocks - head);
}

void tt_embed(struct tt_schedule *schedule, const struct tt_schedule *inner, const struct tt_embedding *map)
{
  struct embed e = {.schedule = schedule, .inner = inner, .map = map, .blocks = tt_shape_blocks(&inner->shape)};
  int32_t *peers = NULL;
  if (schedule->error) return;
  schedule->error = inner->error;
  e.is_whole = e.blocks == tt_shape_blocks(&schedule->shape);
  if (inner->error || !is_legal(&e)) return;
  if (inner->npeers) {
    peers = tt_alloc((size_t)inner->npeers, sizeof *peers);
    if (!peers) {
      schedule->error = tt_fail(tuttiSystemError, "no memory for %d messages of a schedule: give the process more",
                                (int)inner->npeers);
      return;
    }
  }
  for (int32_t k = 0; k < inner->npeers; k++) peers[k] = rank_of(&e, inner->peers[k]);
  e.peers = peers;
  for (int32_t i = 0; i < inner->nsteps && !schedule->error; i++) step_add(&e, &inner->steps[i]);
  tt_free(peers);
}
