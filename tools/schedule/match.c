/* SPDX-License-Identifier: BSD-3-Clause */
/* The step that receives a message follows from the programs alone: the n-th that
 * leaves on a (sender, receiver, channel) is the n-th that is received there. */
#include "schedule/world_private.h"

/* One end of a message. */
struct end {
  int32_t from, to, step;
  int32_t index; /* of the peer at the sender, of the operand at the receiver */
  uint8_t channel;
};

struct ends {
  struct end *list, *spare;
  size_t n;
  size_t *starts; /* one per rank or channel, whichever are more, and one */
};

enum key { BY_CHANNEL, BY_FROM, BY_TO };

static int32_t key_of(const struct end *end, enum key key)
{
  if (key == BY_CHANNEL) return end->channel;
  return key == BY_FROM ? end->from : end->to;
}

/* Stable, so that sorting by the least important key first sorts by all. */
static void sort(struct ends *ends, enum key key, int32_t nkeys)
{
  for (int32_t k = 0; k <= nkeys; k++) ends->starts[k] = 0;
  for (size_t i = 0; i < ends->n; i++) ends->starts[key_of(&ends->list[i], key) + 1]++;
  for (int32_t k = 0; k < nkeys; k++) ends->starts[k + 1] += ends->starts[k];
  for (size_t i = 0; i < ends->n; i++) {
    const struct end *end = &ends->list[i];
    ends->spare[ends->starts[key_of(end, key)]++] = *end;
  }
  struct end *sorted = ends->spare;
  ends->spare = ends->list;
  ends->list = sorted;
}

static void ends_free(struct ends *ends)
{
  tt_free(ends->list);
  tt_free(ends->spare);
  tt_free(ends->starts);
}

static int ends_alloc(struct ends *ends, size_t n, int32_t nranks)
{
  int32_t nkeys = nranks > UINT8_MAX + 1 ? nranks : UINT8_MAX + 1;
  ends->list = tt_alloc(n, sizeof *ends->list);
  ends->spare = tt_alloc(n, sizeof *ends->spare);
  ends->starts = tt_alloc((size_t)nkeys + 1, sizeof *ends->starts);
  return ends->list && ends->spare && ends->starts;
}

static void outs_add(struct ends *outs, const struct tt_schedule *schedule, int32_t i)
{
  const struct tt_step *step = &schedule->steps[i];
  for (int32_t k = step->to; k < step->to + step->nto; k++)
    outs->list[outs->n++] = (struct end){schedule->shape.rank, schedule->peers[k], i, k, step->channel};
}

static void ins_add(struct ends *ins, const struct tt_schedule *schedule, int32_t i)
{
  const struct tt_step *step = &schedule->steps[i];
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    struct tt_operand source = schedule->operands[k];
    if (source.place == TT_MESSAGE)
      ins->list[ins->n++] = (struct end){source.at, schedule->shape.rank, i, k, step->channel};
  }
}

/* Both lists, sorted by receiver, sender, channel and step. */
static int ends_collect(const struct tt_world *world, struct ends *outs, struct ends *ins)
{
  size_t nouts = 0, nins = 0;
  int32_t nranks = world->shape.nranks;
  for (int32_t rank = 0; rank < nranks; rank++) {
    nouts += (size_t)world->actors[rank].schedule.npeers;
    nins += (size_t)world->actors[rank].schedule.noperands;
  }
  if (!ends_alloc(outs, nouts, nranks) || !ends_alloc(ins, nins, nranks)) return 0;
  for (int32_t rank = 0; rank < nranks; rank++) {
    const struct tt_schedule *schedule = &world->actors[rank].schedule;
    for (int32_t i = 0; i < schedule->nsteps; i++) {
      outs_add(outs, schedule, i);
      ins_add(ins, schedule, i);
    }
  }
  struct ends *both[2] = {outs, ins};
  for (int k = 0; k < 2; k++) {
    sort(both[k], BY_CHANNEL, UINT8_MAX + 1);
    sort(both[k], BY_FROM, nranks);
    sort(both[k], BY_TO, nranks);
  }
  return 1;
}

/* < 0: a belongs before b; 0: they are of the same sender, receiver and channel. */
static int compare(const struct end *a, const struct end *b)
{
  if (a->to != b->to) return a->to < b->to ? -1 : 1;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  return (int)a->channel - (int)b->channel;
}

static tuttiResult_t join(struct tt_world *world, const struct end *out, const struct end *in)
{
  struct tt_actor *from = &world->actors[out->from], *to = &world->actors[in->to];
  const struct tt_step *sent = &from->schedule.steps[out->step], *taken = &to->schedule.steps[in->step];
  int32_t apart = sent->first - taken->first;
  if ((world->proof->is_uneven ? apart : apart % world->shape.nblocks) || sent->nblocks != taken->nblocks)
    return tt_complain(world, out->from, out->step,
                       "sends blocks [%d,%d) to rank %d, whose step %d takes them as [%d,%d)",
                       (int)sent->first, (int)(sent->first + sent->nblocks), (int)out->to, (int)in->step,
                       (int)taken->first, (int)(taken->first + taken->nblocks));
  from->taker[out->index] = in->step;
  to->giver[in->index] = out->step;
  return tuttiSuccess;
}

static tuttiResult_t ends_join(struct tt_world *world, const struct ends *outs, const struct ends *ins)
{
  size_t o = 0, i = 0;
  while (o < outs->n || i < ins->n) {
    const struct end *out = &outs->list[o], *in = &ins->list[i];
    int order = o == outs->n ? 1 : i == ins->n ? -1 : compare(out, in);
    if (order < 0)
      return tt_complain(world, out->from, out->step, "sends to rank %d on channel %d what it never receives",
                         (int)out->to, (int)out->channel);
    if (order > 0)
      return tt_complain(world, in->to, in->step, "waits for a message from rank %d on channel %d that is never sent",
                         (int)in->from, (int)in->channel);
    tuttiResult_t code = join(world, out, in);
    if (code) return code;
    o++;
    i++;
  }
  return tuttiSuccess;
}

tuttiResult_t tt_world_match(struct tt_world *world)
{
  struct ends outs = {NULL, NULL, 0, NULL}, ins = {NULL, NULL, 0, NULL};
  tuttiResult_t code;
  if (ends_collect(world, &outs, &ins))
    code = ends_join(world, &outs, &ins);
  else
    code = tt_fail(tuttiSystemError, "no memory to prove %d ranks: give the process more",
                   (int)world->shape.nranks);
  ends_free(&outs);
  ends_free(&ins);
  return code;
}
