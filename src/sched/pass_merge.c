/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains of reductions as one step, and neighbouring sends as one. pass_private.h says when a message may be taken
 * later. */
#include <string.h>

#include "sched/pass_private.h"

/* A step with the steps that became part of it: x = a + b and y = x + c become y = a + b + c. */
struct chain {
  int32_t before;  /* the step that makes the first source and is part of this one; -1: none */
  int32_t head;    /* the first step of the chain */
  int32_t nsteps, nsrc; /* of the whole chain */
  int32_t until;   /* the first later step that writes over a source */
  int32_t rest;    /* the same for all sources of this step but the first */
  uint8_t is_part; /* of a later step */
  uint8_t has_in, takes;
  uint8_t is_kept;   /* a source lies where the result goes */
  uint8_t rest_kept; /* the same for all sources of this step but the first */
  uint8_t channel;   /* of its messages */
};

struct merge {
  struct tt_schedule *schedule;
  struct tt_insight insight;
  struct chain *chains; /* by step */
  int32_t *next;        /* by place: the next step that writes there */
  int32_t *taken;       /* by rank: head of the chain that took its last message */
  /* The sends that are to become one step: */
  struct tt_schedule made;
  struct tt_step send; /* nto 0: there is none */
  struct tt_operand source;
  int32_t *peers, *sent; /* by rank: the number of the last such step to it */
  int32_t nsends;
};

/* ---- steps that may join others ---------------------------------------------------- */

static struct tt_range range_of(const struct merge *m, int32_t i, struct tt_operand operand)
{
  return tt_step_range(m->schedule, &m->schedule->steps[i], operand);
}

/* The first step after i that writes over a source. The source lies elsewhere than the result. */
static int32_t source_until(const struct merge *m, int32_t i, struct tt_operand source)
{
  struct tt_range range = range_of(m, i, source);
  int32_t until = INT32_MAX;
  for (int32_t x = 0; x < range.len; x++) {
    int32_t next = m->next[tt_insight_place(&m->insight, range, x)];
    if (next < until) until = next;
  }
  return until;
}

static void chain_make(struct merge *m, int32_t i)
{
  const struct tt_step *step = &m->schedule->steps[i];
  struct tt_range dst = range_of(m, i, step->dst);
  struct chain chain = {.before = -1, .head = i, .nsteps = 1, .nsrc = step->nsrc, .until = INT32_MAX,
                        .rest = INT32_MAX, .channel = step->channel};
  for (int k = step->nsrc - 1; k >= 0; k--) {
    struct tt_operand source = m->schedule->operands[step->src + k];
    struct tt_range range = range_of(m, i, source);
    chain.rest = chain.until;
    chain.rest_kept = chain.is_kept;
    if (source.place == TT_IN) chain.has_in = 1;
    if (source.place == TT_MESSAGE) chain.takes = 1;
    if (range.len && range.place == dst.place && range.start == dst.start) {
      chain.is_kept = 1;
      continue;
    }
    int32_t until = source_until(m, i, source);
    if (until < chain.until) chain.until = until;
  }
  m->chains[i] = chain;
  for (int32_t x = 0; x < dst.len; x++) m->next[tt_insight_place(&m->insight, dst, x)] = i;
}

/* Step j writes over a source of the chain that ends at i. It may, if the source lies exactly where its result goes. */
static int writes_just_over(const struct merge *m, int32_t i, int32_t j)
{
  struct tt_range dst = range_of(m, j, m->schedule->steps[j].dst);
  for (; i >= 0; i = m->chains[i].before) {
    const struct tt_step *step = &m->schedule->steps[i];
    for (int k = m->chains[i].before >= 0; k < step->nsrc; k++) {
      struct tt_range range = range_of(m, i, m->schedule->operands[step->src + k]);
      if (tt_ranges_meet(range, dst, m->insight.blocks) && range.start != dst.start) return 0;
    }
  }
  return 1;
}

/* Step j may take the messages of the chain that ends at i, and steps that write over its sources may wait for step
 * j. */
static int may_wait(struct merge *m, int32_t i, int32_t j)
{
  const struct chain *x = &m->chains[i], *y = &m->chains[j];
  const struct tt_step *step = &m->schedule->steps[j];
  int32_t others = j - x->head - x->nsteps;
  if ((x->takes || x->until != INT32_MAX) && !tt_insight_may_wait(&m->insight, x->head, j, others)) return 0;
  if (!x->takes) return 1;
  if (y->takes && y->channel != x->channel) return 0;
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    struct tt_operand source = m->schedule->operands[k];
    if (source.place == TT_MESSAGE && m->taken[source.at] == x->head) return 0;
  }
  return m->insight.takes[j] == m->insight.takes[i + 1];
}

/* The chain that ends at i may become part of step j, whose first source is its result. */
static int may_join(struct merge *m, int32_t i, int32_t j)
{
  const struct tt_step *first = &m->schedule->steps[i], *step = &m->schedule->steps[j];
  const struct chain *x = &m->chains[i], *y = &m->chains[j];
  if (first->nsrc < 2 || first->nto || m->insight.nreads[i] != 1) return 0;
  if (first->dst.place == TT_OUT && !tt_same_operand(first->dst, step->dst)) return 0; /* OUT may be its last place */
  if (x->nsrc + y->nsrc - 1 > TT_MAX_SOURCES || (x->has_in && y->has_in)) return 0;
  if (x->until < j || (x->until == j && !writes_just_over(m, i, j))) return 0;
  return may_wait(m, i, j);
}

static void join(struct merge *m, int32_t i, int32_t j)
{
  struct chain *x = &m->chains[i], *y = &m->chains[j];
  int in_place = tt_same_operand(m->schedule->steps[i].dst, m->schedule->steps[j].dst);
  x->is_part = 1;
  y->before = i;
  y->head = x->head;
  y->nsteps += x->nsteps;
  y->nsrc += x->nsrc - 1;
  y->until = x->until < y->rest ? x->until : y->rest;
  if (x->is_kept && !in_place) y->until = j; /* the place is read here for the last time */
  y->is_kept = y->rest_kept || (x->is_kept && in_place);
  y->has_in |= x->has_in;
  if (x->takes) y->channel = x->channel;
  y->takes |= x->takes;
}

static void chains_make(struct merge *m)
{
  const struct tt_schedule *s = m->schedule;
  for (size_t p = 0; p < m->insight.nplaces; p++) m->next[p] = INT32_MAX;
  for (int32_t i = s->nsteps - 1; i >= 0; i--) chain_make(m, i);
  for (int32_t rank = 0; rank < s->shape.nranks; rank++) m->taken[rank] = -1;
  for (int32_t j = 0; j < s->nsteps; j++) {
    const struct tt_step *step = &s->steps[j];
    int32_t i = m->insight.maker[step->src];
    if (i >= 0 && step->nsrc > 1 && step->nto == 0 && may_join(m, i, j)) join(m, i, j);
    for (int32_t k = step->src; k < step->src + step->nsrc; k++)
      if (s->operands[k].place == TT_MESSAGE) m->taken[s->operands[k].at] = m->chains[j].head;
  }
}

/* ---- write the new schedule -------------------------------------------------------- */

static void send_flush(struct merge *m)
{
  if (m->send.nto) tt_add(&m->made, &m->send, &m->source, m->peers);
  m->send.nto = 0;
}

static int is_send(const struct tt_schedule *s, const struct tt_step *step)
{
  return step->nsrc == 1 && step->dst.place == TT_NOWHERE && s->operands[step->src].place != TT_MESSAGE;
}

/* The step sends the same span on the same channel as the collected sends, and to none of their peers. */
static int goes_along(const struct merge *m, const struct tt_step *step)
{
  const struct tt_schedule *s = m->schedule;
  if (!m->send.nto || !tt_same_operand(s->operands[step->src], m->source)) return 0;
  if (step->nblocks != m->send.nblocks || step->channel != m->send.channel) return 0;
  if (m->send.nto + step->nto > UINT16_MAX) return 0;
  for (int k = 0; k < step->nto; k++)
    if (m->sent[s->peers[step->to + k]] == m->nsends) return 0;
  return 1;
}

static void send_add(struct merge *m, const struct tt_step *step)
{
  if (!goes_along(m, step)) {
    send_flush(m);
    m->send = *step;
    m->send.nto = 0;
    m->source = m->schedule->operands[step->src];
    m->nsends++;
  }
  for (int k = 0; k < step->nto; k++) {
    int32_t peer = m->schedule->peers[step->to + k];
    m->sent[peer] = m->nsends;
    m->peers[m->send.nto++] = peer;
  }
}

/* Adds step i with all that is part of it. */
static void chain_add(struct merge *m, int32_t i)
{
  const struct tt_schedule *s = m->schedule;
  struct tt_operand sources[TT_MAX_SOURCES];
  struct tt_step step = s->steps[i];
  int32_t at = m->chains[i].nsrc;
  step.nsrc = (uint16_t)at;
  step.channel = m->chains[i].channel;
  for (int32_t part = i; part >= 0; part = m->chains[part].before) {
    const struct tt_step *old = &s->steps[part];
    int dropped = m->chains[part].before >= 0, nsrc = old->nsrc - dropped;
    at -= nsrc;
    if (nsrc) memcpy(sources + at, s->operands + old->src + dropped, (size_t)nsrc * sizeof *sources);
  }
  tt_add(&m->made, &step, sources, step.nto ? s->peers + step.to : NULL);
}

static void steps_add(struct merge *m)
{
  for (int32_t i = 0; i < m->schedule->nsteps; i++) {
    const struct tt_step *step = &m->schedule->steps[i];
    if (m->chains[i].is_part) continue;
    if (is_send(m->schedule, step)) {
      send_add(m, step);
      continue;
    }
    send_flush(m);
    chain_add(m, i);
  }
  send_flush(m);
}

/* 1 if there are two reductions or two sends: most ranks of a tree have no more than one of each. */
static int has_pairs(const struct tt_schedule *s)
{
  int32_t reductions = 0, sends = 0;
  for (int32_t i = 0; i < s->nsteps; i++) {
    reductions += s->steps[i].nsrc > 1;
    sends += is_send(s, &s->steps[i]);
  }
  return reductions > 1 || sends > 1;
}

void tt_pass_merge(struct tt_schedule *schedule)
{
  struct merge m = {.schedule = schedule};
  size_t nranks = (size_t)schedule->shape.nranks;
  if (!schedule->keep && !has_pairs(schedule)) return;
  if (!tt_insight_make(&m.insight, schedule)) return;
  tt_schedule_init(&m.made, &schedule->shape);
  m.chains = tt_alloc((size_t)schedule->nsteps, sizeof *m.chains);
  m.next = tt_alloc(m.insight.nplaces, sizeof *m.next);
  m.taken = tt_alloc(nranks, sizeof *m.taken);
  m.peers = tt_alloc(nranks, sizeof *m.peers);
  m.sent = tt_alloc(nranks, sizeof *m.sent);
  if (m.chains && m.next && m.taken && m.peers && m.sent) {
    chains_make(&m);
    steps_add(&m);
  } else {
    m.made.error = tt_fail(tuttiSystemError, "no memory for a pass over a schedule of %d steps: give the process more",
                           (int)schedule->nsteps);
  }
  tt_free(m.chains);
  tt_free(m.next);
  tt_free(m.taken);
  tt_free(m.peers);
  tt_free(m.sent);
  tt_insight_free(&m.insight);
  tt_pass_replace(schedule, &m.made);
}
