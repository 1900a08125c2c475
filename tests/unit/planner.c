/* SPDX-License-Identifier: BSD-3-Clause */
/* What holds of every plan, and that policies do what the papers say.
 * Labels: serial, planner. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "nets.h"
#include "planner/flight.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- an independent play: every message by itself, nothing kept in order ---- */

struct slice {
  double ready_us, us, held_us;
  int32_t urgency, group;
  uint64_t offset, bytes;
  int is_sent;
  double end_us;
};

/* Slices of all groups; how many. */
static int slices_list(struct slice *slices, const struct tt_fusion_plan *plan, const struct drawn *d)
{
  int n = 0;
  for (int32_t g = 0; g < plan->ngroups; g++) {
    const struct tt_fusion_group *group = &plan->groups[g];
    uint64_t at = 0;
    do {
      uint64_t left = group->bytes - at, bytes = left < group->slice_bytes ? left : group->slice_bytes;
      struct slice *s = &slices[n++];
      *s = (struct slice){.us = tt_message_us(&d->cost, bytes),
                          .held_us = tt_message_held_us(&d->cost, bytes),
                          .urgency = INT32_MAX,
                          .group = g,
                          .offset = at,
                          .bytes = bytes};
      for (int32_t k = 0; k < group->n; k++) {
        int32_t tensor = plan->members[group->first + k];
        s->ready_us = fmax(s->ready_us, d->tensors[tensor].ready_us);
        if (tensor < s->urgency) s->urgency = tensor;
      }
      at += bytes;
    } while (at < group->bytes);
  }
  return n;
}

/* The slice that goes at this time, or -1: the first that is ready, or by priority the most urgent of them. */
static int slice_next(const struct slice *slices, int n, double now_us, int by_priority)
{
  int best = -1;
  for (int s = 0; s < n; s++) {
    if (slices[s].is_sent || slices[s].ready_us > now_us) continue;
    if (best < 0 || (by_priority && slices[s].urgency < slices[best].urgency)) best = s;
  }
  return best;
}

/* In a message the tensor that was ready last lies first. */
static double tensor_end_us(const struct slice *slices, int n, const struct tt_fusion_plan *plan,
                            const struct drawn *d, int32_t l)
{
  double end_us = 0;
  for (int32_t g = 0; g < plan->ngroups; g++) {
    const struct tt_fusion_group *group = &plan->groups[g];
    uint64_t at = 0;
    for (int32_t k = group->n - 1; k >= 0; k--) {
      int32_t tensor = plan->members[group->first + k];
      uint64_t end = at + d->tensors[tensor].bytes;
      for (int s = 0; s < n && tensor == l; s++)
        if (slices[s].group == g && (slices[s].offset < end || slices[s].offset == 0))
          end_us = fmax(end_us, slices[s].end_us);
      at = end;
    }
  }
  return end_us;
}

/* From this time on the next one may begin, where these were sent, the last one at this time. */
static double free_us(const struct slice *slices, int n, double now_us, const struct tt_fusion_plan *plan,
                      const struct drawn *d)
{
  for (;;) {
    double first_us = HUGE_VAL;
    uint64_t bytes = 0;
    int inflight = 0;
    for (int s = 0; s < n; s++) {
      if (!slices[s].is_sent || slices[s].end_us <= now_us) continue;
      first_us = fmin(first_us, slices[s].end_us);
      bytes += slices[s].bytes;
      inflight++;
    }
    if (!inflight || (bytes < plan->credit && inflight < d->cost.channels)) return now_us;
    now_us = first_us;
  }
}

static double iteration_us(const struct tt_fusion_plan *plan, const struct drawn *d)
{
  static struct slice slices[100000];
  int n = slices_list(slices, plan, d);
  double now_us = 0, end_us = 0, links_us = 0;
  for (int sent = 0; sent < n; sent++) {
    int s = slice_next(slices, n, now_us, plan->by_priority);
    if (s < 0) {
      double next_us = HUGE_VAL;
      for (int k = 0; k < n; k++)
        if (!slices[k].is_sent) next_us = fmin(next_us, slices[k].ready_us);
      now_us = next_us;
      s = slice_next(slices, n, now_us, plan->by_priority);
    }
    slices[s].is_sent = 1;
    slices[s].end_us = end_us = fmax(fmax(now_us, links_us) + slices[s].us, end_us);
    links_us = fmax(now_us, links_us) + slices[s].held_us;
    now_us = free_us(slices, n, now_us, plan, d);
  }
  now_us = plan->by_priority ? d->net.backward_us : fmax(d->net.backward_us, end_us);
  for (int32_t l = 0; l < d->net.n; l++) {
    if (plan->by_priority) now_us = fmax(now_us, tensor_end_us(slices, n, plan, d, l));
    now_us += d->tensors[l].forward_us;
  }
  return now_us;
}

static void groups_are(const char *policy, const char *wanted, double wanted_us, const struct drawn *d)
{
  char got[1024];
  struct tt_fusion_plan plan = plan_of(policy, d);
  groups_text(got, sizeof got, &plan);
  assert_string_equal(got, wanted);
  assert_true(played_us(&plan, d) == wanted_us);
  tt_fusion_plan_destroy(&plan);
}

/* Only one at a time. */
static struct drawn *net_here(int32_t n, const double *backward, const uint64_t *bytes, const double *forward)
{
  static struct drawn d;
  net_make(&d, n, backward, bytes, forward);
  return &d;
}

/* ---- what holds of every plan ---- */

static double group_ready_us(const struct tt_fusion_plan *plan, int32_t g, const struct drawn *d)
{
  double us = 0;
  for (int32_t k = 0; k < plan->groups[g].n; k++)
    us = fmax(us, d->tensors[plan->members[plan->groups[g].first + k]].ready_us);
  return us;
}

/* The group that begins at this place of members, which are counted in seen. Returns where the next begins. */
static int32_t group_check(const struct tt_fusion_group *group, int32_t at, int *seen,
                           const struct tt_fusion_plan *plan, const struct drawn *d)
{
  uint64_t bytes = 0;
  assert_int_equal(group->first, at);
  assert_true(group->n > 0);
  for (; at < group->first + group->n; at++) {
    const struct tt_tensor *tensor = &d->tensors[plan->members[at]];
    seen[plan->members[at]]++;
    bytes += tensor->bytes;
    assert_int_equal(tensor->type, d->tensors[plan->members[group->first]].type);
    if (at > group->first) assert_true(d->tensors[plan->members[at - 1]].ready_us <= tensor->ready_us);
  }
  assert_int_equal(group->bytes, bytes);
  assert_true(group->slice_bytes <= bytes && (!bytes || group->slice_bytes));
  assert_int_equal(group->slice_bytes % 4, 0);
  return at;
}

static void every_tensor_is_in_one_group_and_groups_are_as_ready(void **state)
{
  static struct drawn d;
  uint64_t chance = 1;
  (void)state;
  for (int round = 0; round < (IS_SLOW ? 30 : 300); round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 30));
    cost_draw(&d, &chance);
    for (int32_t l = 0; l < d.net.n && round % 2; l++) d.tensors[l].type = (int32_t)below(&chance, 2);
    for (size_t p = 0; p < MERGING + 2; p++) {
      struct tt_fusion_plan plan = plan_of(p < MERGING ? merging[p] : p == MERGING ? "p3:20" : "auto", &d);
      int seen[NET_MOST] = {0};
      int32_t at = 0;
      for (int32_t g = 0; g < plan.ngroups; g++) {
        at = group_check(&plan.groups[g], at, seen, &plan, &d);
        if (g) assert_true(group_ready_us(&plan, g - 1, &d) <= group_ready_us(&plan, g, &d));
      }
      assert_int_equal(at, d.net.n);
      for (int32_t l = 0; l < d.net.n; l++) assert_int_equal(seen[l], 1);
      tt_fusion_plan_destroy(&plan);
    }
  }
}

static void a_play_is_that_of_every_message_by_itself(void **state)
{
  static const char *const others[] = {"p3:1", "p3:7", "p3:50", "p3", "fifo:9", "fifo:3,40", "p3:5,100", "auto"};
  const size_t nothers = sizeof others / sizeof others[0];
  static struct drawn d;
  uint64_t chance = 2;
  (void)state;
  for (int round = 0; round < (IS_SLOW ? 40 : 400); round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 20));
    cost_draw(&d, &chance);
    overlap_draw(&d, &chance);
    if (round % 4 == 0) /* backward in any order */
      for (int32_t l = 0; l < d.net.n; l++)
        d.tensors[l].ready_us = (double)below(&chance, (size_t)d.net.backward_us + 1);
    for (int32_t l = 0; l < d.net.n && round % 3 == 0; l++) d.tensors[l].type = (int32_t)below(&chance, 3);
    for (size_t p = 0; p < MERGING + nothers; p++) {
      struct tt_fusion_plan plan = plan_of(p < MERGING ? merging[p] : others[p - MERGING], &d);
      for (int cut = 0; cut < 2; cut++) {
        assert_true(played_us(&plan, &d) == iteration_us(&plan, &d));
        plan.by_priority = 1;
        for (int32_t g = 0; g < plan.ngroups; g++)
          if (plan.groups[g].bytes > 8) plan.groups[g].slice_bytes = 4 * (1 + below(&chance, plan.groups[g].bytes / 4));
      }
      tt_fusion_plan_destroy(&plan);
    }
  }
}

/* Messages follow one another, each begins when it can, and forward waits for its own. */
static void play_is_right(const struct tt_played *played, const struct tt_fusion_plan *plan, const struct drawn *d)
{
  uint64_t sent[NET_MOST] = {0};
  for (int64_t m = 0; m < played->nmessages; m++) {
    const struct tt_played_message *message = &played->messages[m];
    double ready_us = group_ready_us(plan, message->group, d);
    assert_true(message->start_us == fmax(ready_us, m ? message[-1].end_us : 0));
    assert_true(message->end_us == message->start_us + tt_message_us(&d->cost, message->bytes));
    assert_int_equal(message->offset, sent[message->group]);
    sent[message->group] += message->bytes;
  }
  for (int32_t g = 0; g < plan->ngroups; g++) assert_int_equal(sent[g], plan->groups[g].bytes);
  double now_us = d->net.backward_us;
  for (int32_t l = 0; l < d->net.n; l++) {
    double wait_us = plan->by_priority ? played->done_us[l] : played->messages_end_us;
    now_us = fmax(now_us, wait_us);
    assert_true(played->forward_us[l] == now_us);
    now_us += d->tensors[l].forward_us;
  }
  assert_true(played->iteration_us == now_us);
  assert_true(played->exposed_us == now_us - d->net.backward_us - net_forward_us(d));
}

static void messages_follow_one_another_and_forward_waits_for_its_own(void **state)
{
  static struct drawn d;
  uint64_t chance = 3;
  (void)state;
  for (int round = 0; round < 50; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 20));
    cost_draw(&d, &chance);
    struct tt_fusion_plan plan = plan_of(round % 2 ? "p3:9" : "threshold:64", &d);
    struct tt_played played;
    assert_int_equal(tt_fusion_plan_play(&played, &plan, &d.net, &d.cost), tuttiSuccess);
    play_is_right(&played, &plan, &d);
    tt_played_destroy(&played);
    tt_fusion_plan_destroy(&plan);
  }
}

/* The same messages in the same order. */
static int same_orders(const struct tt_played *a, const struct tt_played *b)
{
  int same = a->nmessages == b->nmessages;
  for (int64_t m = 0; same && m < a->nmessages; m++)
    same = a->messages[m].group == b->messages[m].group && a->messages[m].offset == b->messages[m].offset &&
           a->messages[m].bytes == b->messages[m].bytes;
  return same;
}

static void a_play_in_an_earlier_order_keeps_it_whatever_messages_cost(void **state)
{
  static struct drawn d;
  uint64_t chance = 5;
  int changed = 0;
  (void)state;
  for (int round = 0; round < 200; round++) {
    struct tt_played first, again, other, anew;
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 20));
    cost_draw(&d, &chance);
    struct tt_fusion_plan plan = plan_of(round % 4 ? "p3:9" : "threshold:64", &d);
    assert_int_equal(tt_fusion_plan_play(&first, &plan, &d.net, &d.cost), tuttiSuccess);
    assert_int_equal(tt_fusion_plan_play_as(&again, &plan, &first, &d.net, &d.cost), tuttiSuccess);
    assert_true(same_orders(&first, &again) && first.iteration_us == again.iteration_us);
    cost_draw(&d, &chance);
    assert_int_equal(tt_fusion_plan_play_as(&other, &plan, &first, &d.net, &d.cost), tuttiSuccess);
    assert_true(same_orders(&first, &other));
    play_is_right(&other, &plan, &d);
    assert_int_equal(tt_fusion_plan_play(&anew, &plan, &d.net, &d.cost), tuttiSuccess);
    changed += !same_orders(&first, &anew);
    tt_played_destroy(&first);
    tt_played_destroy(&again);
    tt_played_destroy(&other);
    tt_played_destroy(&anew);
    tt_fusion_plan_destroy(&plan);
  }
  assert_true(changed > 20);
}

/* ---- the papers' recurrences ---- */

/* MG-WFBP: tau_c(L) = R(L), tau_c(l) = max(tau_c(l + 1) + t_c(l + 1), R(l)); t_iter = t_f + tau_c(1) + t_c(1). */
static void wfbp_and_single_follow_the_paper(void **state)
{
  static struct drawn d;
  uint64_t chance = 4;
  (void)state;
  for (int round = 0; round < 500; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 40));
    cost_draw(&d, &chance);
    double tau_us = 0;
    uint64_t bytes = 0;
    for (int32_t l = d.net.n - 1; l >= 0; l--) {
      tau_us = fmax(tau_us, d.tensors[l].ready_us) + tt_message_us(&d.cost, d.tensors[l].bytes);
      bytes += d.tensors[l].bytes;
    }
    assert_true(us_of("wfbp", &d) == tau_us + net_forward_us(&d));
    assert_true(us_of("single", &d) == d.net.backward_us + tt_message_us(&d.cost, bytes) + net_forward_us(&d));
    assert_true(us_of("threshold:0", &d) == us_of("wfbp", &d));
    assert_true(us_of("threshold:1G", &d) == us_of("single", &d));
  }
}

/* Table: backward 5, 4, 3, 2, 1 for layers 1 to 5, so ready at 15, 10, 6, 3, 1; a message takes 10 + bytes. */
static void policies_do_by_hand_what_they_say(void **state)
{
  const double backward[] = {5, 4, 3, 2, 1}, forward[] = {1, 2, 3, 4, 5};
  const uint64_t bytes[] = {1, 2, 30, 4, 5};
  struct drawn *d = net_here(5, backward, bytes, forward);
  (void)state;
  d->cost = tt_message_cost_line(10, 1);
  groups_are("wfbp", "5|4|3|2|1", 1 + 15 + 14 + 40 + 12 + 11 + 15, d);
  groups_are("single", "5 4 3 2 1", 15 + 52 + 15, d);
  groups_are("threshold:9", "5 4|3|2 1", 3 + 19 + 40 + 13 + 15, d);
  groups_are("threshold:10", "5 4 3|2 1", 6 + 49 + 13 + 15, d);
  groups_are("threshold:10,5", "5|4 3|2 1", 1 + 15 + 44 + 13 + 15, d);
  groups_are("threshold:39", "5 4 3|2 1", 6 + 49 + 13 + 15, d);
  groups_are("threshold:40", "5 4 3 2|1", 10 + 51 + 11 + 15, d);
  /* 5 goes at 1 and ends at 16, when all else is ready: 4 and 3 are 34 bytes, with 2 it is 36, with 1 it is 37. */
  groups_are("horovod:35", "5|4 3|2 1", 1 + 15 + 44 + 13 + 15, d);
  groups_are("horovod:36", "5|4 3 2|1", 1 + 15 + 46 + 11 + 15, d);
  groups_are("horovod:37", "5|4 3 2 1", 1 + 15 + 47 + 15, d);
  groups_are("horovod:3", "5|4|3|2 1", 1 + 15 + 14 + 40 + 13 + 15, d);
  /* 4 is ready at 3, 2 after 5's message began: less than 10. With 4 it begins at 3, and 3 is ready at 6, 2 at 10, 1 at
   * 15, 5 after 10. */
  groups_are("mgwfbp", "5 4 3 2 1", 15 + 52 + 15, d);
  groups_are("optimal", "5|4 3 2 1", 1 + 15 + 47 + 15, d);
}

/* By priority: 5 goes at 1, ends at 16, when 1 to 4 are ready: 1, 2, 3 in two slices, 4; forward waits for each. */
static void slices_do_by_hand_what_they_say(void **state)
{
  const double backward[] = {5, 4, 3, 2, 1}, forward[] = {1, 2, 3, 4, 5};
  const uint64_t bytes[] = {1, 2, 30, 4, 5};
  struct drawn *d = net_here(5, backward, bytes, forward);
  struct tt_played played;
  (void)state;
  d->cost = tt_message_cost_line(10, 1);
  struct tt_fusion_plan plan = plan_of("p3:20", d);
  assert_int_equal(tt_fusion_plan_play(&played, &plan, &d->net, &d->cost), tuttiSuccess);
  const int32_t layers[] = {5, 1, 2, 3, 3, 4};
  const double ends[] = {16, 27, 39, 69, 89, 103};
  assert_int_equal(played.nmessages, 6);
  for (int m = 0; m < 6; m++) {
    assert_int_equal(plan.members[plan.groups[played.messages[m].group].first] + 1, layers[m]);
    assert_true(played.messages[m].end_us == ends[m]);
  }
  const double starts[] = {27, 39, 89, 103, 107};
  for (int l = 0; l < 5; l++) assert_true(played.forward_us[l] == starts[l]);
  assert_true(played.iteration_us == 112);
  tt_played_destroy(&played);
  tt_fusion_plan_destroy(&plan);
}

/* A slice under way is not stopped; the next one waits for what is more urgent. */
static void what_is_urgent_overtakes_at_the_next_slice(void **state)
{
  const double backward[] = {25, 0}; /* layer 2 is ready at 0, layer 1 at 25 */
  const uint64_t bytes[] = {5, 100};
  struct drawn *d = net_here(2, backward, bytes, NULL);
  struct tt_played played;
  (void)state;
  d->cost = tt_message_cost_line(0, 1);
  struct tt_fusion_plan plan = plan_of("p3:10", d);
  assert_int_equal(tt_fusion_plan_play(&played, &plan, &d->net, &d->cost), tuttiSuccess);
  assert_int_equal(played.nmessages, 11);
  assert_int_equal(played.messages[3].group, 1);
  assert_true(played.messages[3].start_us == 30 && played.messages[3].end_us == 35);
  assert_true(played.done_us[0] == 35 && played.done_us[1] == 105);
  tt_played_destroy(&played);
  tt_fusion_plan_destroy(&plan);
}

/* ---- Algorithm 1 ---- */

/* As printed: 0 where line 9 computes no tau_b[1], and the end of backward for tau_b[0]. Groups as text. */
static void printed_form(char *text, size_t size, const struct drawn *d, double a, double b)
{
  double tau_b[NET_MOST + 1] = {0}, t_c[NET_MOST + 1], tau_c[NET_MOST + 1], p[NET_MOST + 1];
  int32_t n = d->net.n;
  for (int32_t l = 1; l <= n; l++) {
    p[l] = (double)d->tensors[l - 1].bytes;
    t_c[l] = a + b * p[l];
    if (l >= 2) tau_b[l] = l == n ? 0 : d->tensors[l].ready_us;
  }
  text[0] = 0;
  for (int32_t l = n; l >= 1; l--) {
    tau_c[n] = d->tensors[n - 1].ready_us;
    for (int32_t k = n - 1; k >= 1; k--) tau_c[k] = fmax(tau_c[k + 1] + t_c[k + 1], d->tensors[k - 1].ready_us);
    double next_us = l == 2 ? d->net.backward_us : l > 2 ? tau_b[l - 2] : 0;
    int merges = l >= 2 && next_us - tau_c[l] < a;
    snprintf(text + strlen(text), size - strlen(text), "%d%s", (int)l, l == 1 ? "" : merges ? " " : "|");
    if (!merges) continue;
    t_c[l] = 0;
    p[l - 1] += p[l];
    t_c[l - 1] = a + b * p[l - 1];
  }
}

/* The same with tau_b[1]: the paper's own procedure, all begins computed again after each merge. */
static void corrected_form(char *text, size_t size, const struct drawn *d, double a, double b)
{
  double t_c[NET_MOST + 1], tau_c[NET_MOST + 1], p[NET_MOST + 1];
  int32_t n = d->net.n;
  for (int32_t l = 1; l <= n; l++) {
    p[l] = (double)d->tensors[l - 1].bytes;
    t_c[l] = a + b * p[l];
  }
  text[0] = 0;
  for (int32_t l = n; l >= 1; l--) {
    tau_c[n] = d->tensors[n - 1].ready_us;
    for (int32_t k = n - 1; k >= 1; k--) tau_c[k] = fmax(tau_c[k + 1] + t_c[k + 1], d->tensors[k - 1].ready_us);
    int merges = l >= 2 && d->tensors[l - 2].ready_us - tau_c[l] < a; /* begin of l - 2 = end of l - 1 */
    snprintf(text + strlen(text), size - strlen(text), "%d%s", (int)l, l == 1 ? "" : merges ? " " : "|");
    if (!merges) continue;
    t_c[l] = 0;
    p[l - 1] += p[l];
    t_c[l - 1] = a + b * p[l - 1];
  }
}

static void mgwfbp_is_the_papers_procedure_with_corrected_indices(void **state)
{
  static struct drawn d;
  char wanted[512], got[512];
  uint64_t chance = 5;
  (void)state;
  for (int round = 0; round < 1000; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 40));
    double a = (double)below(&chance, 60), b = (double)below(&chance, 4);
    d.cost = tt_message_cost_line(a, b);
    corrected_form(wanted, sizeof wanted, &d, a, b);
    struct tt_fusion_plan plan = plan_of("mgwfbp", &d);
    groups_text(got, sizeof got, &plan);
    assert_string_equal(got, wanted);
    tt_fusion_plan_destroy(&plan);
  }
}

/* Layers 3 and 2, however long one waits for the other: its start-up is over after 1 of 100 us. */
static void as_printed_layers_3_and_2_always_merge(void **state)
{
  const double backward[] = {100, 100, 1};
  const uint64_t bytes[] = {1, 1, 1};
  char printed[64];
  struct drawn *d = net_here(3, backward, bytes, NULL);
  (void)state;
  d->cost = tt_message_cost_line(1, 1);
  printed_form(printed, sizeof printed, d, 1, 1);
  assert_string_equal(printed, "3 2|1");
  groups_are("mgwfbp", "3|2|1", 203, d);
}

static void algorithm_1_is_not_optimal(void **state)
{
  const double backward[] = {2, 1, 1};
  const uint64_t bytes[] = {1, 1, 1};
  struct drawn *d = net_here(3, backward, bytes, NULL);
  (void)state;
  d->cost = tt_message_cost_line(2, 1);
  groups_are("mgwfbp", "3 2|1", 9, d);
  groups_are("optimal", "3|2 1", 8, d);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_tensor_is_in_one_group_and_groups_are_as_ready),
      cmocka_unit_test(a_play_is_that_of_every_message_by_itself),
      cmocka_unit_test(messages_follow_one_another_and_forward_waits_for_its_own),
      cmocka_unit_test(a_play_in_an_earlier_order_keeps_it_whatever_messages_cost),
      cmocka_unit_test(wfbp_and_single_follow_the_paper),
      cmocka_unit_test(policies_do_by_hand_what_they_say),
      cmocka_unit_test(slices_do_by_hand_what_they_say),
      cmocka_unit_test(what_is_urgent_overtakes_at_the_next_slice),
      cmocka_unit_test(mgwfbp_is_the_papers_procedure_with_corrected_indices),
      cmocka_unit_test(as_printed_layers_3_and_2_always_merge),
      cmocka_unit_test(algorithm_1_is_not_optimal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
