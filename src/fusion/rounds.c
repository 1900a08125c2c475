/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of messages at run time: which groups are ready here, and rounds, by frames to some other ranks. */
#include <string.h>

#include "fusion/private.h"

#define WAITS_NS 200000 /* a rank whose messages have not moved for so long waits for others ... */
#define WAITS 2         /* ... if that is also so many times what a short message takes */
#define GLANCES_EVERY 8  /* idle turns between looks at frames, so that messages are not slowed down ... */
#define GLANCES_AFTER 64 /* ... up to so many turns in vain */
#define HIDES 4         /* a round is hidden behind what takes so many times as long; from 0 to 8 it hardly matters
                           (docs/results/2026-11-23-constants-of-trials.md) */

/* ---- made once ---- */

/* Those that this rank sends to and gets frames from, each once. How many. */
static int peers_find(const struct tt_fusion_round *round, int32_t peers[2 * TT_ROUND_PHASES])
{
  int npeers = 0;
  for (int n = 0; n < 2 * round->nphases; n++) {
    int32_t peer = n < round->nphases ? tt_round_to(round, n) : tt_round_from(round, n - round->nphases);
    int k = 0;
    while (k < npeers && peers[k] != peer) k++;
    peers[k] = peer;
    if (k == npeers) npeers++;
  }
  return npeers;
}

tuttiResult_t tt_fusion_rounds_make(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct ordering *ordering = &fusion->engine.ordering;
  struct tt_fusion_round *round = &ordering->round;
  int32_t peers[2 * TT_ROUND_PHASES];
  tuttiResult_t result = tt_round_make(round, config->nranks, config->rank, TT_SEQUENCE_WORDS(config->n));
  if (result == tuttiSuccess) {
    ordering->frame = tt_alloc(tt_round_frame(round), sizeof *ordering->frame);
    if (!ordering->frame) result = tt_fail(tuttiSystemError, "out of memory for the order of messages");
  }
  result = tt_fusion_told(config, result);
  if (result != tuttiSuccess || !config->frames) return result;
  int npeers = peers_find(round, peers);
  result = tt_comm_mail_make(config->frames, peers, npeers, tt_round_frame(round) * sizeof *ordering->frame);
  if (result != tuttiSuccess) tt_fusion_end(config, result);
  return result;
}

static void order_free(struct ordering *ordering)
{
  tt_sequence_destroy(&ordering->order);
  tt_free(ordering->urgency);
  tt_free(ordering->messages);
  tt_free(ordering->groups);
  tt_free(ordering->bytes);
}

void tt_fusion_rounds_free(struct engine *engine)
{
  order_free(&engine->ordering);
  tt_round_destroy(&engine->ordering.round);
  tt_free(engine->ordering.frame);
}

/* ---- made for a plan ---- */

/* By priority groups are as urgent as the first of their tensors in forward, else as early as they are in the plan. */
static void urgency_find(const struct config *config, const struct plan *plan, int32_t *urgency)
{
  int32_t n = 0;
  for (int32_t g = 0; g < plan->fusion.ngroups; g++) urgency[g] = plan->fusion.by_priority ? -1 : g;
  for (int i = 0; i < config->n; i++) {
    int32_t *its = &urgency[plan->cuts[i].group];
    if (*its < 0) *its = n++;
  }
}

void tt_fusion_order_price(struct engine *engine)
{
  const struct tt_message_cost *cost = &engine->known.cost;
  struct ordering *ordering = &engine->ordering;
  double round_us = tt_message_us(cost, 64); /* it takes about what a short message does */
  uint64_t bytes = 1024, waits_ns = (uint64_t)(1000 * WAITS * round_us);
  while (bytes < (uint64_t)1 << 40 && tt_message_us(cost, bytes) < HIDES * round_us) bytes *= 2;
  ordering->order.worth_bytes = bytes;
  ordering->waits_ns = waits_ns > WAITS_NS ? waits_ns : WAITS_NS;
}

/* Finds the messages of the plan that the sequence has; how many. */
static int32_t messages_sort(struct ordering *ordering, const struct plan *plan)
{
  int32_t n = 0;
  ordering->nempty = 0;
  for (int32_t m = 0; m < plan->nmessages; m++) {
    const struct message *message = &plan->messages[m];
    if (!message->count) {
      ordering->messages[plan->nmessages - ++ordering->nempty] = m;
      continue;
    }
    ordering->groups[n] = ordering->urgency[message->group];
    ordering->bytes[n] = message->wire_bytes;
    ordering->messages[n++] = m;
  }
  return n;
}

tuttiResult_t tt_fusion_order_plan(struct engine *engine, const struct config *config, const struct plan *plan)
{
  struct ordering *ordering = &engine->ordering;
  size_t n = (size_t)plan->nmessages;
  order_free(ordering);
  ordering->order = (struct tt_sequence){.nsure = 0};
  ordering->urgency = tt_alloc((size_t)plan->fusion.ngroups, sizeof *ordering->urgency);
  ordering->messages = tt_alloc(n, sizeof *ordering->messages);
  ordering->groups = tt_alloc(n, sizeof *ordering->groups);
  ordering->bytes = tt_alloc(n, sizeof *ordering->bytes);
  if (!ordering->urgency || !ordering->messages || !ordering->groups || !ordering->bytes)
    return tt_fail(tuttiSystemError, "out of memory for %d messages of a step", plan->nmessages);
  urgency_find(config, plan, ordering->urgency);
  struct tt_sequence_plan its = {.nmessages = messages_sort(ordering, plan),
                                 .ngroups = plan->fusion.ngroups,
                                 .nchannels = config->nplanned,
                                 .by_priority = plan->fusion.by_priority,
                                 .groups = ordering->groups,
                                 .bytes = ordering->bytes};
  return tt_sequence_make(&ordering->order, &its);
}

/* ---- in a step ---- */

/* Messages that were begun here do not go on. */
static int waits_for_others(const struct engine *engine)
{
  uint64_t since_ns = engine->waiter.since_ns;
  return engine->back < engine->nbegun && since_ns && tt_now_ns() - since_ns > engine->ordering.waits_ns;
}

static void empty_take(struct engine *engine, struct shared *shared, int32_t group)
{
  const struct ordering *ordering = &engine->ordering;
  int32_t n = engine->used->nmessages;
  for (int32_t k = n - ordering->nempty; k < n; k++) {
    int32_t m = ordering->messages[k];
    if (engine->used->messages[m].group != group) continue;
    uint64_t now_ns = tt_now_ns();
    engine->messages[m].state = CAME;
    engine->begun[engine->nbegun++] = m;
    shared->planned.sent[m] = (struct interval){now_ns, now_ns};
  }
}

void tt_fusion_order_look(struct engine *engine, struct shared *shared)
{
  if (!shared->ncomplete) return;
  int waits = waits_for_others(engine);
  for (int32_t k = 0; k < shared->ncomplete; k++) {
    empty_take(engine, shared, shared->complete[k]);
    tt_sequence_push(&engine->ordering.order, engine->ordering.urgency[shared->complete[k]], waits);
  }
  shared->ncomplete = 0;
}

int tt_fusion_order_rests(const struct tuttiFusion *fusion)
{
  const struct ordering *ordering = &fusion->engine.ordering;
  if (ordering->round.is_open || tt_sequence_has_ready(&ordering->order)) return 0;
  return !fusion->config.frames || tt_comm_mail_is_sent(fusion->config.frames);
}

/* The p-th peer is the n-th of those from which frames of a round come. */
static tuttiResult_t frames_take(const struct config *config, struct tt_fusion_round *round)
{
  const uint64_t *frame;
  int32_t peers[2 * TT_ROUND_PHASES];
  tuttiResult_t result = tuttiSuccess;
  int p;
  while (result == tuttiSuccess && (frame = tt_comm_mail_take(config->frames, &p))) {
    int n = 0;
    peers_find(round, peers);
    while (n < round->nphases && tt_round_from(round, n) != peers[p]) n++;
    result = n < round->nphases ? tt_round_take(round, n, frame)
                                : tt_fail(tuttiInternalError, "rank %d is to send no frames here", (int)peers[p]);
  }
  return result;
}

static tuttiResult_t frames_send(const struct config *config, struct ordering *ordering, int *moved)
{
  tuttiResult_t result = tuttiSuccess;
  int32_t peers[2 * TT_ROUND_PHASES];
  int n;
  while (result == tuttiSuccess && tt_round_send(&ordering->round, ordering->frame, &n)) {
    peers_find(&ordering->round, peers);
    int p = 0;
    while (peers[p] != tt_round_to(&ordering->round, n)) p++;
    result = tt_comm_mail_post(config->frames, p, ordering->frame);
    *moved = 1;
  }
  return result;
}

static void round_join(const struct config *config, struct engine *engine)
{
  struct ordering *ordering = &engine->ordering;
  uint64_t *part = ordering->frame + TT_ROUND_PART;
  memset(part, 0, ordering->round.nwords * sizeof *part);
  tt_sequence_tell(&ordering->order, part);
  tt_round_join(&ordering->round, engine->step, part);
  if (config->frames) tt_comm_round_begin(config->frames, ordering->round.nwords);
}

static tuttiResult_t round_end(const struct config *config, struct engine *engine)
{
  struct ordering *ordering = &engine->ordering;
  tuttiResult_t result = tt_sequence_decide(&ordering->order, ordering->round.sum);
  engine->ring.next = ordering->order.next;
  engine->looks++;
  if (config->frames) tt_comm_round_end(config->frames);
  return result;
}

int tt_fusion_order_move(struct tuttiFusion *fusion, int is_idle, int looks, tuttiResult_t *result)
{
  const struct config *config = &fusion->config;
  struct engine *engine = &fusion->engine;
  struct tt_fusion_round *round = &engine->ordering.round;
  int moved = 0, asks = !round->is_open && tt_sequence_asks(&engine->ordering.order);
  if (!round->is_open && !asks && !is_idle) return 0;
  int is_glance = !round->is_open && !asks && !looks;
  if (is_glance && engine->waiter.idle < GLANCES_AFTER && engine->waiter.idle % GLANCES_EVERY) return 0;
  if (config->frames) *result = tt_comm_mail_poll(config->frames, is_glance, &moved);
  if (*result == tuttiSuccess && config->frames) *result = frames_take(config, round);
  if (*result != tuttiSuccess) return moved;
  if (asks || tt_round_is_called(round, engine->step)) {
    round_join(config, engine);
    moved = 1;
  }
  *result = frames_send(config, &engine->ordering, &moved);
  if (moved && *result == tuttiSuccess && config->frames) *result = tt_comm_mail_poll(config->frames, 0, &moved);
  if (*result != tuttiSuccess || !tt_round_ends(round)) return moved;
  *result = round_end(config, engine);
  return 1;
}
