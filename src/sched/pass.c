/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/pass_private.h"

enum { REACH = TT_WINDOW / 16 }; /* the most other steps by which a message is delayed */

/* ---- the readers of each step ------------------------------------------------------ */

/* State of the walk over the steps. */
struct walk {
  struct tt_insight *insight;
  int32_t *writer; /* by place: the last step that wrote there */
  int32_t *seen;   /* by step: the last operand counted as a reader of it */
};

static int same_range(struct tt_range a, struct tt_range b)
{
  return a.place == b.place && a.start == b.start && a.len == b.len;
}

static void source_walk(struct walk *walk, int32_t i, int32_t operand)
{
  struct tt_insight *insight = walk->insight;
  const struct tt_schedule *schedule = insight->schedule;
  struct tt_range range = tt_step_range(schedule, &schedule->steps[i], schedule->operands[operand]);
  int is_mixed = range.len == 0;
  int32_t maker = -1;
  for (int32_t x = 0; x < range.len; x++) {
    int32_t w = walk->writer[tt_insight_place(insight, range, x)];
    if (x && w != maker) is_mixed = 1;
    maker = w;
    if (w < 0 || walk->seen[w] == operand) continue;
    walk->seen[w] = operand;
    insight->nreads[w]++;
    insight->reader[w] = i;
    const struct tt_step *step = &schedule->steps[w];
    if (!same_range(tt_step_range(schedule, step, step->dst), range)) insight->is_exact[w] = 0;
  }
  insight->maker[operand] = is_mixed || maker < 0 || !insight->is_exact[maker] ? -1 : maker;
}

static void step_walk(struct walk *walk, int32_t i)
{
  const struct tt_schedule *schedule = walk->insight->schedule;
  const struct tt_step *step = &schedule->steps[i];
  struct tt_range range = tt_step_range(schedule, step, step->dst);
  int takes = 0;
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    source_walk(walk, i, k);
    if (schedule->operands[k].place == TT_MESSAGE) takes = 1;
  }
  for (int32_t x = 0; x < range.len; x++) walk->writer[tt_insight_place(walk->insight, range, x)] = i;
  walk->insight->takes[i + 1] = walk->insight->takes[i] + takes;
  walk->insight->sends[i + 1] = walk->insight->sends[i] + (step->nto > 0);
}

static int walk_all(struct tt_insight *insight)
{
  int32_t nsteps = insight->schedule->nsteps;
  struct walk walk = {.insight = insight,
                      .writer = tt_alloc(insight->nplaces, sizeof *walk.writer),
                      .seen = tt_alloc((size_t)nsteps, sizeof *walk.seen)};
  int made = walk.writer && walk.seen;
  for (size_t p = 0; made && p < insight->nplaces; p++) walk.writer[p] = -1;
  for (int32_t i = 0; made && i < nsteps; i++) {
    walk.seen[i] = insight->reader[i] = -1;
    insight->is_exact[i] = 1;
  }
  for (int32_t i = 0; made && i < nsteps; i++) step_walk(&walk, i);
  tt_free(walk.writer);
  tt_free(walk.seen);
  return made;
}

/* ---- the waits of each step -------------------------------------------------------- */

/* Runs only when the waits are first needed, because it takes longer than all the rest. */
static void waits_fill(struct tt_insight *insight)
{
  struct tt_order *order = insight->order;
  tt_order_derive(insight->schedule, order);
  for (int32_t i = 0; i < insight->schedule->nsteps; i++) {
    uint64_t direct = order[i].finished | order[i].started, all = direct;
    for (uint64_t left = direct; left; left &= left - 1) {
      int k = __builtin_ctzll(left);
      all |= insight->waits[i - 1 - k] << 1 << k;
    }
    insight->waits[i] = all;
  }
  insight->has_waits = 1;
}

/* Step i starts only when step q is finished: by its waits, or by the rule of a window of that size. */
static int is_behind(const struct tt_insight *insight, int32_t q, int32_t i, int32_t window)
{
  if (q >= i) return 0;
  return i - q >= window || (insight->waits[i] >> (i - 1 - q) & 1);
}

/* Step j > i waits for a send for which i would not wait if the window were half as large. */
static int waits_more(const struct tt_insight *insight, int32_t i, int32_t j)
{
  int32_t past = j - TT_WINDOW; /* j waits for all up to this one by the rule of the window */
  if (past > i && insight->sends[past + 1] > insight->sends[i + 1]) return 1;
  for (int32_t q = i > TT_WINDOW ? i - TT_WINDOW : 0; q < j; q++) {
    int32_t is_send = insight->sends[q + 1] - insight->sends[q];
    if (is_send && is_behind(insight, q, j, TT_WINDOW) && !is_behind(insight, q, i, TT_WINDOW / 2)) return 1;
    if (q == i && past > i) q = past;
  }
  return 0;
}

int tt_insight_may_wait(struct tt_insight *insight, int32_t i, int32_t j, int32_t others)
{
  if (others > REACH) return 0;
  if (!insight->has_waits) waits_fill(insight);
  return !waits_more(insight, i, j);
}

/* ---- make and destroy -------------------------------------------------------------- */

int tt_insight_make(struct tt_insight *insight, struct tt_schedule *schedule)
{
  size_t n = (size_t)schedule->nsteps;
  *insight = (struct tt_insight){.schedule = schedule, .blocks = tt_shape_blocks(&schedule->shape)};
  if (schedule->error) return 0;
  if (schedule->keep) {
    schedule->error = tt_fail(tuttiInternalError, "a pass needs all steps of a schedule, not only %d of them",
                              (int)schedule->keep);
    return 0;
  }
  insight->nplaces = 2 * (size_t)insight->blocks + (size_t)schedule->nslots;
  insight->maker = tt_alloc((size_t)schedule->noperands, sizeof *insight->maker);
  insight->nreads = tt_alloc(n, sizeof *insight->nreads);
  insight->reader = tt_alloc(n, sizeof *insight->reader);
  insight->is_exact = tt_alloc(n, sizeof *insight->is_exact);
  insight->waits = tt_alloc(n, sizeof *insight->waits);
  insight->order = tt_alloc(n, sizeof *insight->order);
  insight->takes = tt_alloc(n + 1, sizeof *insight->takes);
  insight->sends = tt_alloc(n + 1, sizeof *insight->sends);
  if (insight->maker && insight->nreads && insight->reader && insight->is_exact && insight->waits && insight->order &&
      insight->takes && insight->sends && walk_all(insight))
    return 1;
  schedule->error = tt_fail(tuttiSystemError, "no memory for a pass over a schedule of %d steps: give the process more",
                            (int)schedule->nsteps);
  tt_insight_free(insight);
  return 0;
}

void tt_insight_free(struct tt_insight *insight)
{
  tt_free(insight->maker);
  tt_free(insight->nreads);
  tt_free(insight->reader);
  tt_free(insight->is_exact);
  tt_free(insight->waits);
  tt_free(insight->order);
  tt_free(insight->takes);
  tt_free(insight->sends);
  *insight = (struct tt_insight){.schedule = NULL};
}

/* ---- replace the schedule ---------------------------------------------------------- */

static void slots_mark(int32_t *number, struct tt_operand operand, int32_t nblocks)
{
  for (int32_t x = 0; operand.place == TT_SCRATCH && x < nblocks; x++) number[operand.at + x] = 1;
}

/* Slots of one span are neighbours and all in use, so they stay neighbours. */
static int slots_compact(struct tt_schedule *s)
{
  int32_t *number = tt_alloc((size_t)s->nslots, sizeof *number), used = 0;
  if (!number) return 0;
  for (int32_t i = 0; i < s->nsteps; i++) {
    const struct tt_step *step = &s->steps[i];
    slots_mark(number, step->dst, step->nblocks);
    for (int k = 0; k < step->nsrc; k++) slots_mark(number, s->operands[step->src + k], step->nblocks);
  }
  for (int32_t slot = 0; slot < s->nslots; slot++) {
    int32_t is_used = number[slot];
    number[slot] = used;
    used += is_used;
  }
  for (int32_t i = 0; i < s->nsteps; i++)
    if (s->steps[i].dst.place == TT_SCRATCH) s->steps[i].dst.at = number[s->steps[i].dst.at];
  for (int32_t k = 0; k < s->noperands; k++)
    if (s->operands[k].place == TT_SCRATCH) s->operands[k].at = number[s->operands[k].at];
  s->nslots = used;
  tt_free(number);
  return 1;
}

void tt_pass_replace(struct tt_schedule *schedule, struct tt_schedule *made)
{
  if (!made->error && !slots_compact(made))
    made->error = tt_fail(tuttiSystemError, "no memory for %d slots of a schedule: give the process more",
                          (int)made->nslots);
  if (made->error) {
    schedule->error = made->error;
    tt_schedule_destroy(made);
    return;
  }
  tt_schedule_destroy(schedule);
  *schedule = *made;
}
