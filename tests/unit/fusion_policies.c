/* SPDX-License-Identifier: BSD-3-Clause */
/* What policies do when a tensor comes early or late: two ranks, with the sequences that a fusion makes of its plans.
 * "2a" is the first message of layer 2; '|' stands where a tensor was pushed on the last rank.
 * Labels: serial. */
#include <stdlib.h>
#include <string.h>

#include "fusion/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LAYERS 4
#define RANKS 2
#define COUNT 200000 /* elements of a layer: 4 slices of p3:50000 */
#define MESSAGES (8 * LAYERS)
#define TEXT 512

struct rank {
  struct tensor tensors[LAYERS];
  struct tt_tensor facts[LAYERS];
  struct config config;
  struct engine engine;
  int missing[LAYERS]; /* of each group: tensors that were not pushed */
};

struct pair {
  struct rank ranks[RANKS];
  int nbegun[MESSAGES], nsent[LAYERS]; /* ranks that have begun a message; messages of a group that have come */
  int32_t flowing[MESSAGES];           /* begun by all, the oldest first */
  int nflowing;
  int nless;                           /* messages begun before a more urgent one that was ready on all ranks */
  char sent[TEXT];
};

static struct tt_sequence *order_of(struct rank *rank)
{
  return &rank->engine.ordering.order;
}

/* Layers are expected from the last to the first. */
static void rank_make(struct rank *rank, const char *policy)
{
  struct config *config = &rank->config;
  struct known *known = &rank->engine.known;
  struct plan *plan = NULL;
  config->n = LAYERS;
  config->tensors = rank->tensors;
  config->buffer_bytes = 64 << 20;
  config->nplanned = 2;
  assert_int_equal(tt_policy_parse(&config->policy, policy), tuttiSuccess);
  for (int i = 0; i < LAYERS; i++) {
    rank->tensors[i] = (struct tensor){
        .count = COUNT, .bytes = 4 * COUNT, .type = tuttiFloat32, .element = 4, .unit = 1, .wire_unit = 4};
    rank->facts[i] = (struct tt_tensor){
        .count = COUNT, .bytes = 4 * COUNT, .ready_us = 500 * (LAYERS - i), .forward_us = 500};
  }
  known->model = (struct tt_model){LAYERS, rank->facts, 500 * LAYERS};
  known->cost = tt_message_cost_line(30, 0.001);
  assert_int_equal(tt_fusion_plans_make(&plan, config, &config->policy, known), tuttiSuccess);
  assert_int_equal(tt_fusion_order_plan(&rank->engine, config, plan), tuttiSuccess);
  assert_in_range(plan->nmessages, 1, MESSAGES);
  rank->engine.used = plan;
  for (int32_t g = 0; g < plan->fusion.ngroups; g++) rank->missing[g] = plan->fusion.groups[g].n;
  order_of(rank)->worth_bytes = 0; /* rounds take no time here */
  tt_sequence_start(order_of(rank), 1);
}

static struct pair *pair_make(const char *policy)
{
  struct pair *pair = calloc(1, sizeof *pair);
  assert_non_null(pair);
  for (int r = 0; r < RANKS; r++) rank_make(&pair->ranks[r], policy);
  return pair;
}

static void pair_free(struct pair *pair)
{
  for (int r = 0; r < RANKS; r++) {
    tt_fusion_plans_hold(&pair->ranks[r].engine.used, NULL);
    tt_fusion_rounds_free(&pair->ranks[r].engine);
  }
  free(pair);
}

/* ---- what ranks do ---- */

/* One message at a time: those that wait for the other rank are not in flight. */
static int is_free(struct rank *rank)
{
  const struct tt_sequence *order = order_of(rank);
  for (int c = 0; c <= order->plan.nchannels; c++)
    if (order->channels[c].under_way >= 0 && !tt_sequence_is_parked(order, c)) return 0;
  return 1;
}

static int waits(const struct pair *pair, struct rank *rank)
{
  for (int c = 0; c <= order_of(rank)->plan.nchannels; c++) {
    int32_t message = order_of(rank)->channels[c].under_way;
    if (message >= 0 && pair->nbegun[message] < RANKS) return 1;
  }
  return 0;
}

/* A message of a more urgent group is ready on all ranks and begun on none. */
static int is_less_urgent(const struct pair *pair, int32_t message)
{
  const struct ordering *ordering = &pair->ranks[0].engine.ordering;
  const struct plan *plan = pair->ranks[0].engine.used;
  int is = 0;
  for (int32_t m = 0; m < plan->nmessages; m++) {
    int32_t group = plan->messages[m].group;
    if (pair->nbegun[m] || pair->ranks[0].missing[group] || pair->ranks[1].missing[group]) continue;
    is |= ordering->urgency[group] < ordering->urgency[plan->messages[message].group];
  }
  return is;
}

static int begin(struct pair *pair, struct rank *rank)
{
  struct tt_sequence_begin what;
  if (!tt_sequence_next(order_of(rank), &what) || !(what.is_owed || is_free(rank))) return 0;
  if (!pair->nbegun[what.message]) pair->nless += is_less_urgent(pair, what.message);
  tt_sequence_begin(order_of(rank), &what);
  if (++pair->nbegun[what.message] == RANKS) pair->flowing[pair->nflowing++] = what.message;
  return 1;
}

static int round_run(struct pair *pair)
{
  uint64_t parts[RANKS][TT_SEQUENCE_WORDS(LAYERS)];
  int asks = 0;
  for (int r = 0; r < RANKS; r++) asks |= tt_sequence_asks(order_of(&pair->ranks[r]));
  if (!asks) return 0;
  for (int r = 0; r < RANKS; r++) tt_sequence_tell(order_of(&pair->ranks[r]), parts[r]);
  for (int r = 1; r < RANKS; r++) tt_sequence_add(parts[0], parts[r], TT_SEQUENCE_WORDS(LAYERS));
  for (int r = 0; r < RANKS; r++) tt_sequence_decide(order_of(&pair->ranks[r]), parts[0]);
  return 1;
}

static void settle(struct pair *pair)
{
  for (int moved = 1; moved;) {
    moved = round_run(pair);
    for (int r = 0; r < RANKS && !moved; r++) moved |= begin(pair, &pair->ranks[r]);
  }
}

/* The oldest message that both have begun comes. 0: there is none. */
static int message_come(struct pair *pair)
{
  const struct plan *plan = pair->ranks[0].engine.used;
  if (!pair->nflowing) return 0;
  int32_t message = pair->flowing[0], group = plan->messages[message].group;
  memmove(pair->flowing, pair->flowing + 1, (size_t)--pair->nflowing * sizeof *pair->flowing);
  for (int r = 0; r < RANKS; r++)
    for (int c = 0; c <= order_of(&pair->ranks[r])->plan.nchannels; c++)
      if (order_of(&pair->ranks[r])->channels[c].under_way == message) tt_sequence_end(order_of(&pair->ranks[r]), c);
  size_t used = strlen(pair->sent);
  int32_t tensor = plan->parts[plan->messages[message].first_part].tensor;
  snprintf(pair->sent + used, TEXT - used, "%s%d%c", used && pair->sent[used - 1] != '|' ? " " : "", (int)tensor,
           'a' + pair->nsent[group]++);
  settle(pair);
  return 1;
}

static void push(struct pair *pair, int r, int tensor)
{
  struct rank *rank = &pair->ranks[r];
  int32_t group = rank->engine.used->cuts[tensor].group;
  if (r == RANKS - 1) strcat(pair->sent, "|");
  if (--rank->missing[group] == 0)
    tt_sequence_push(order_of(rank), rank->engine.ordering.urgency[group], waits(pair, rank));
  settle(pair);
}

/* Each rank pushes layers in its order, the k-th of both at the same time, and so many messages come after each. */
static void step_run(struct pair *pair, const int orders[RANKS][LAYERS], int messages)
{
  for (int k = 0; k < LAYERS; k++) {
    for (int r = 0; r < RANKS; r++) push(pair, r, orders[r][k]);
    for (int m = 0; m < messages && message_come(pair); m++) continue;
  }
  while (message_come(pair)) continue;
}

static void sent_is(const char *policy, const int orders[RANKS][LAYERS], int messages, const char *wanted)
{
  struct pair *pair = pair_make(policy);
  step_run(pair, orders, messages);
  assert_string_equal(pair->sent, wanted);
  pair_free(pair);
}

/* ---- policies ---- */

static const int as_planned[RANKS][LAYERS] = {{3, 2, 1, 0}, {3, 2, 1, 0}};
static const int one_late[RANKS][LAYERS] = {{3, 2, 1, 0}, {2, 1, 0, 3}};  /* layer 3, on rank 1 */
static const int one_early[RANKS][LAYERS] = {{0, 3, 2, 1}, {0, 3, 2, 1}}; /* layer 0 */

/* Wait-free backpropagation: each gradient when it is there, as gradients come. */
static void wfbp_sends_as_gradients_come_on_all_ranks(void **state)
{
  (void)state;
  sent_is("wfbp", as_planned, 1, "|3a|2a|1a|0a");
  sent_is("wfbp", one_late, 1, "||2a|1a|0a 3a");
  sent_is("wfbp", one_early, 1, "|0a|3a|2a|1a");
}

/* What is pushed passes all that is less urgent, but not the slice under way, nor slices of a late layer that a rank
 * has begun before: at most one on each channel. */
static void p3_sends_the_most_urgent_slice_that_is_ready(void **state)
{
  (void)state;
  sent_is("p3:50000", as_planned, 2, "|3a 3b|3c 2a|2b 1a|1b 0a 0b 0c 0d 1c 1d 2c 2d 3d");
  sent_is("p3:50000", one_late, 2, "||2a 2b|2c 1a|1b 3a 3b 0a 0b 0c 0d 1c 1d 2d 3c 3d");
  sent_is("p3:50000", one_early, 2, "|0a 0b|0c 0d|3a 2a|2b 1a 1b 1c 1d 2c 2d 3b 3c 3d");
}

/* All messages of its plan, which is by priority here, go by urgency, but those that a rank has begun before. */
static void auto_sends_the_most_urgent_of_its_messages_that_is_ready(void **state)
{
  static const int(*const orders[])[LAYERS] = {as_planned, one_late, one_early};
  (void)state;
  for (int k = 0; k < 3; k++)
    for (int messages = 0; messages < 3; messages++) {
      struct pair *pair = pair_make("auto");
      const struct plan *plan = pair->ranks[0].engine.used;
      assert_true(plan->fusion.by_priority && plan->fusion.ngroups > 1 && plan->fusion.ngroups < plan->nmessages);
      step_run(pair, orders[k], messages);
      for (int32_t m = 0; m < plan->nmessages; m++) assert_int_equal(pair->nbegun[m], RANKS);
      assert_int_equal(pair->nless, 0);
      pair_free(pair);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wfbp_sends_as_gradients_come_on_all_ranks),
      cmocka_unit_test(p3_sends_the_most_urgent_slice_that_is_ready),
      cmocka_unit_test(auto_sends_the_most_urgent_of_its_messages_that_is_ready),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
