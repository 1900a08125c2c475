/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of messages that ranks agree on at run time, simulated: pushes in drawn orders at drawn times, late ones
 * too, frames and messages that take what they take. No step is stuck, channels have the same messages in the same
 * order on all ranks, the links are never idle for longer than two rounds while something is ready on all ranks, and
 * by priority nothing overtakes what is more urgent and ready everywhere. Where the plan is right nothing is sent.
 * "--seed N --long": other chances, more of them.
 * Labels: serial. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "fusion/sequence_private.h"
#include "fusion/round_private.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define GROUPS 70 /* more than a word has bits */
#define MESSAGES (3 * GROUPS)
#define RANKS 256
#define PHASES 8
#define WORDS TT_SEQUENCE_WORDS(GROUPS)
#define EVENTS (1 << 16)
#define SLOW 40

static uint64_t seed = 1;
static int steps_wanted = IS_SLOW ? 2000 : 10000;

/* ---- what is simulated ---- */

enum kind { PUSH, FRAME, OVER, WAKE };

struct event {
  uint64_t at, number; /* the earlier one first, then the one that was made first */
  enum kind kind;
  int rank, what;      /* group; sender's place; channel */
  uint64_t frame[TT_ROUND_PART + WORDS];
};

struct rank {
  struct tt_sequence order;
  struct tt_fusion_round round;
  int left;                       /* messages not over in this step */
  uint64_t step_at, ready_at[GROUPS];
  uint64_t link_at[PHASES];       /* when the last frame to each arrives */
  int begun[TT_SEQUENCE_CHANNELS + 1]; /* messages so far on each channel */
  uint64_t since[TT_SEQUENCE_CHANNELS + 1]; /* the newest was begun */
  int joined;                     /* rounds */
};

struct shape { /* of a trial */
  int nranks, credit, delay, is_late, is_shuffled;
  int is_bursty;  /* messages under way often seem to wait for others though they flow */
  uint64_t gap;   /* between pushes */
  uint64_t lag;   /* of ranks, at most */
  int slow;       /* frames from this rank to the next one take longer; -1: there is none */
  uint64_t bound; /* of two rounds */
};

struct sim {
  struct shape shape;
  struct tt_sequence_plan plan;
  int32_t groups[MESSAGES];
  uint64_t bytes[MESSAGES];
  struct rank ranks[RANKS];
  int where[MESSAGES], nbegun[MESSAGES]; /* channel of a message; ranks that have begun it */
  int on_channel[TT_SEQUENCE_CHANNELS + 1][MESSAGES], nchannel[TT_SEQUENCE_CHANNELS + 1];
  uint64_t begun_at[GROUPS];  /* a message of the group was begun last */
  uint64_t flows_at[MESSAGES]; /* all ranks have begun it; 0: not yet */
  uint64_t ends[MESSAGES];     /* when messages were over on all ranks */
  int nends, nover[MESSAGES];
  uint64_t changes, asked;     /* pushes and begins so far; when the newest round was asked for */
  uint64_t round;              /* its number */
  uint64_t now, free_at, nflowing, idle_at, frames, nevents, step;
  struct event *heap;
  size_t nheap;
  uint64_t chance;
  const char *wrong;
};

static int is_before(const struct event *a, const struct event *b)
{
  return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static struct event *event_add(struct sim *sim, uint64_t at, enum kind kind, int rank, int what)
{
  struct event event = {.at = at, .number = sim->nevents++, .kind = kind, .rank = rank, .what = what};
  size_t k = sim->nheap++;
  assert_true(sim->nheap < EVENTS);
  for (; k && is_before(&event, &sim->heap[(k - 1) / 2]); k = (k - 1) / 2) sim->heap[k] = sim->heap[(k - 1) / 2];
  sim->heap[k] = event;
  return &sim->heap[k];
}

static struct event event_take(struct sim *sim)
{
  struct event first = sim->heap[0], last = sim->heap[--sim->nheap];
  size_t k = 0;
  for (size_t child = 1; child < sim->nheap; k = child, child = 2 * k + 1) {
    if (child + 1 < sim->nheap && is_before(&sim->heap[child + 1], &sim->heap[child])) child++;
    if (is_before(&last, &sim->heap[child])) break;
    sim->heap[k] = sim->heap[child];
  }
  sim->heap[k] = last;
  return first;
}

static void complain(struct sim *sim, const char *what)
{
  if (sim->wrong) return;
  sim->wrong = what;
  const struct shape *shape = &sim->shape;
  const struct tt_sequence_plan *plan = &sim->plan;
  fprintf(stderr, "seed %llu: %d ranks, credit %d, delay %d, late %d, shuffled %d, gap %d; ", (unsigned long long)seed,
          shape->nranks, shape->credit, shape->delay, shape->is_late, shape->is_shuffled, (int)shape->gap);
  fprintf(stderr, "%d messages of %d groups, %d channels, by priority %d; step %llu, at %llu: %s\n", plan->nmessages,
          plan->ngroups, plan->nchannels, plan->by_priority, (unsigned long long)sim->step,
          (unsigned long long)sim->now, what);
}

/* Since when all ranks have the group; UINT64_MAX: they do not. */
static uint64_t ready_since(const struct sim *sim, int group)
{
  uint64_t since = 0;
  for (int r = 0; r < sim->shape.nranks; r++)
    if (sim->ranks[r].ready_at[group] > since) since = sim->ranks[r].ready_at[group];
  return since;
}

/* ---- what holds ---- */

/* All ranks have begun the message now: how long were the links idle while one was ready? */
static void idle_check(struct sim *sim)
{
  if (sim->nflowing) return;
  for (int m = 0; m < sim->plan.nmessages; m++) {
    uint64_t since = ready_since(sim, sim->groups[m]);
    if (sim->nbegun[m] > sim->shape.nranks || since == UINT64_MAX) continue;
    if (since < sim->idle_at) since = sim->idle_at;
    if (since + sim->shape.bound < sim->now) complain(sim, "links were idle though a message was ready on all ranks");
  }
}

/* When the first message ended after this time; UINT64_MAX: none has. */
static uint64_t end_after(const struct sim *sim, uint64_t since)
{
  for (int k = 0; k < sim->nends; k++)
    if (sim->ends[k] >= since) return sim->ends[k];
  return UINT64_MAX;
}

/* The first rank begins the message. */
static void urgency_check(struct sim *sim, int message)
{
  uint64_t recent = 0;
  if (!sim->plan.by_priority || sim->ranks[0].order.worth_bytes) return;
  for (int g = 0; g < sim->groups[message]; g++) {
    int is_left = 0;
    if (sim->begun_at[g] > recent) recent = sim->begun_at[g];
    for (int m = 0; m < sim->plan.nmessages; m++) is_left |= sim->groups[m] == g && !sim->nbegun[m];
    uint64_t since = ready_since(sim, g);
    if (!is_left || since == UINT64_MAX) continue;
    if (since < recent) since = recent; /* until then it was not in the way */
    if (sim->shape.is_bursty) since = end_after(sim, since);
    if (since == UINT64_MAX) continue;
    if (since + sim->shape.bound < sim->now) complain(sim, "a message overtook what was more urgent");
  }
}

static void channel_check(struct sim *sim, struct rank *rank, const struct tt_sequence_begin *begin)
{
  int c = begin->channel, k = rank->begun[c]++, message = begin->message;
  if (k == sim->nchannel[c]) {
    if (sim->where[message] >= 0) complain(sim, "a message goes twice");
    sim->where[message] = c;
    sim->on_channel[c][sim->nchannel[c]++] = message;
    urgency_check(sim, message);
  }
  if (sim->on_channel[c][k] != message) complain(sim, "ranks have other messages on one channel");
  if (rank->ready_at[sim->groups[message]] > sim->now) complain(sim, "a message was begun before it was pushed");
}

/* It begins something that it does not owe. */
static void parked_check(struct sim *sim, const struct rank *rank)
{
  for (int c = 0; c < sim->plan.nchannels; c++) {
    int32_t last = rank->order.channels[c].last;
    if (!rank->order.channels[c].is_parked || !sim->flows_at[last]) continue;
    if (sim->flows_at[last] + sim->shape.bound < sim->now) complain(sim, "a channel stays parked");
  }
}

/* Several may ask for the same round. */
static void asked_check(struct sim *sim, const struct rank *rank)
{
  if (rank->round.number < sim->round) return;
  if (sim->asked == sim->changes) complain(sim, "a rank asks again though nothing has changed");
  sim->round = rank->round.number + 1;
  sim->asked = sim->changes;
}

/* ---- ranks ---- */

static void begin(struct sim *sim, struct rank *rank, const struct tt_sequence_begin *what)
{
  channel_check(sim, rank, what);
  if (!what->is_owed) parked_check(sim, rank);
  tt_sequence_begin(&rank->order, what);
  rank->since[what->channel] = sim->now;
  sim->begun_at[sim->groups[what->message]] = sim->now;
  sim->changes++;
  if (++sim->nbegun[what->message] < sim->shape.nranks) return;
  idle_check(sim);
  sim->nbegun[what->message]++;
  sim->flows_at[what->message] = sim->now;
  if (sim->nflowing++ == 0 && sim->free_at < sim->now) sim->free_at = sim->now;
  sim->free_at += sim->bytes[what->message];
  uint64_t end = sim->free_at;
  for (int r = 0; r < sim->shape.nranks; r++)
    event_add(sim, end + below(&sim->chance, (size_t)sim->shape.delay), OVER, r, what->channel);
}

static int is_free(const struct sim *sim, const struct rank *rank)
{
  int n = 0;
  for (int c = 0; c <= sim->plan.nchannels; c++)
    n += rank->order.channels[c].under_way >= 0 && !tt_sequence_is_parked(&rank->order, c);
  return n < sim->shape.credit;
}

static void frames_send(struct sim *sim, struct rank *rank)
{
  uint64_t frame[TT_ROUND_PART + WORDS];
  int n;
  while (tt_round_send(&rank->round, frame, &n)) {
    int delay = sim->shape.delay * (rank->round.rank == sim->shape.slow && n == 0 ? SLOW : 1);
    uint64_t at = sim->now + 1 + below(&sim->chance, (size_t)delay);
    if (at <= rank->link_at[n]) at = rank->link_at[n] + 1;
    rank->link_at[n] = at;
    struct event *event = event_add(sim, at, FRAME, tt_round_to(&rank->round, n), n);
    memcpy(event->frame, frame, sizeof frame);
    sim->frames++;
  }
}

static void act(struct sim *sim, int r)
{
  struct rank *rank = &sim->ranks[r];
  struct tt_sequence_begin what;
  uint64_t part[WORDS] = {0};
  for (;;) {
    while (tt_sequence_next(&rank->order, &what) && (what.is_owed || is_free(sim, rank))) begin(sim, rank, &what);
    int is_called = tt_round_is_called(&rank->round, sim->step);
    if (!rank->round.is_open && (is_called || tt_sequence_asks(&rank->order))) {
      if (!is_called) asked_check(sim, rank);
      tt_sequence_tell(&rank->order, part);
      tt_round_join(&rank->round, sim->step, part);
      rank->joined++;
    }
    frames_send(sim, rank);
    if (!tt_round_ends(&rank->round)) return;
    if (tt_sequence_decide(&rank->order, rank->round.sum) != tuttiSuccess) complain(sim, tt_last_sentence());
  }
}

/* ---- a step ---- */

static void pushes_draw(struct sim *sim, int r, const int *firsts, int late)
{
  uint64_t at = sim->now + 1 + below(&sim->chance, sim->shape.lag + 1);
  int order[GROUPS], n = sim->plan.ngroups;
  memcpy(order, firsts, sizeof order);
  for (int i = n - 1; i > 0 && sim->shape.is_shuffled; i--) {
    int j = (int)below(&sim->chance, (size_t)i + 1), other = order[i];
    order[i] = order[j];
    order[j] = other;
  }
  for (int i = 0; i < n; i++) {
    uint64_t when = at + (order[i] == late ? (uint64_t)n * sim->shape.gap + 3 * sim->shape.bound : 0);
    event_add(sim, when, PUSH, r, order[i]);
    at += sim->shape.is_shuffled ? below(&sim->chance, 2 * sim->shape.gap + 1) : sim->shape.gap;
  }
}

static void step_begin(struct sim *sim, uint64_t step, uint64_t worth)
{
  int firsts[GROUPS] = {0}, n = 0, is_there[GROUPS] = {0};
  int late = (int)below(&sim->chance, (size_t)sim->plan.ngroups);
  int who = (int)below(&sim->chance, (size_t)sim->shape.nranks);
  sim->step = step;
  for (int m = 0; m < sim->plan.nmessages; m++) {
    int g = sim->groups[m];
    if (!is_there[g]) firsts[n++] = g;
    is_there[g] = 1;
    sim->where[m] = -1;
    sim->nbegun[m] = 0;
  }
  memset(sim->nchannel, 0, sizeof sim->nchannel);
  memset(sim->begun_at, 0, sizeof sim->begun_at);
  memset(sim->flows_at, 0, sizeof sim->flows_at);
  memset(sim->nover, 0, sizeof sim->nover);
  sim->nends = 0;
  for (int r = 0; r < sim->shape.nranks; r++) {
    struct rank *rank = &sim->ranks[r];
    rank->order.worth_bytes = worth;
    tt_sequence_start(&rank->order, step);
    rank->left = sim->plan.nmessages;
    memset(rank->begun, 0, sizeof rank->begun);
    for (int g = 0; g < GROUPS; g++) rank->ready_at[g] = UINT64_MAX;
    pushes_draw(sim, r, firsts, sim->shape.is_late && r == who ? late : -1);
  }
  sim->idle_at = sim->now;
}

/* It has begun what others have not, for longer than it takes them to hear that the one before it is over. */
static int waits(struct sim *sim, const struct rank *rank)
{
  int is_early = 0;
  for (int c = 0; c <= sim->plan.nchannels; c++) {
    const struct tt_sequence_channel *channel = &rank->order.channels[c];
    if (channel->under_way < 0 || channel->is_parked || sim->nbegun[channel->under_way] > sim->shape.nranks) continue;
    is_early |= rank->since[c] + sim->shape.bound < sim->now;
  }
  if (sim->shape.is_bursty && sim->nflowing) is_early |= (int)below(&sim->chance, 4) > 0;
  return is_early;
}

static void event_do(struct sim *sim, const struct event *event)
{
  struct rank *rank = &sim->ranks[event->rank];
  if (event->kind == PUSH) {
    rank->ready_at[event->what] = sim->now;
    sim->changes++;
    tt_sequence_push(&rank->order, event->what, waits(sim, rank));
  } else if (event->kind == FRAME) {
    if (tt_round_take(&rank->round, event->what, event->frame) != tuttiSuccess) complain(sim, tt_last_sentence());
  } else if (event->kind == OVER) {
    int message = rank->order.channels[event->what].under_way;
    tt_sequence_end(&rank->order, event->what);
    rank->left--;
    if (++sim->nover[message] == sim->shape.nranks) sim->ends[sim->nends++] = sim->now;
    if (sim->nbegun[message] == sim->shape.nranks + 1) { /* the first rank that knows */
      sim->nbegun[message]++;
      if (--sim->nflowing == 0) sim->idle_at = sim->now;
    }
  }
  act(sim, event->rank);
}

static void step_run(struct sim *sim)
{
  while (sim->nheap && !sim->wrong) {
    struct event event = event_take(sim);
    sim->now = event.at;
    event_do(sim, &event);
  }
  for (int r = 0; r < sim->shape.nranks && !sim->wrong; r++) {
    if (sim->ranks[r].left) complain(sim, "the step is stuck");
    if (sim->ranks[r].round.is_open) complain(sim, "a round is stuck");
    if (sim->ranks[r].joined != sim->ranks[0].joined) complain(sim, "ranks were in other rounds");
  }
}

/* Groups of 1 to 3 messages; by priority what is ready last is the most urgent, and messages of groups go through each
 * other. */
static void plan_draw(struct sim *sim)
{
  int n = 1 + (int)below(&sim->chance, below(&sim->chance, 20) ? 12 : GROUPS), left[GROUPS];
  sim->plan = (struct tt_sequence_plan){.ngroups = n,
                                     .nchannels = 1 + (int)below(&sim->chance, 3),
                                     .by_priority = (int)below(&sim->chance, 2),
                                     .groups = sim->groups,
                                     .bytes = sim->bytes};
  for (int g = 0; g < n; g++) left[g] = 1 + (int)below(&sim->chance, 3);
  for (int first = 0; first < n;) {
    int g = first + (sim->plan.by_priority ? (int)below(&sim->chance, 3) : 0);
    if (g >= n || !left[g]) g = first;
    left[g]--;
    sim->bytes[sim->plan.nmessages] = 1 + below(&sim->chance, 200);
    sim->groups[sim->plan.nmessages++] = sim->plan.by_priority ? n - 1 - g : g;
    while (first < n && !left[first]) first++;
  }
}

static void sim_make(struct sim *sim)
{
  for (int r = 0; r < sim->shape.nranks; r++) {
    assert_int_equal(tt_sequence_make(&sim->ranks[r].order, &sim->plan), tuttiSuccess);
    assert_int_equal(tt_round_make(&sim->ranks[r].round, sim->shape.nranks, r, WORDS), tuttiSuccess);
  }
}

static void sim_free(struct sim *sim)
{
  for (int r = 0; r < sim->shape.nranks; r++) {
    tt_sequence_destroy(&sim->ranks[r].order);
    tt_round_destroy(&sim->ranks[r].round);
  }
  free(sim->heap);
  free(sim);
}

static struct sim *sim_new(uint64_t chance)
{
  struct sim *sim = calloc(1, sizeof *sim);
  assert_non_null(sim);
  sim->heap = malloc(EVENTS * sizeof *sim->heap);
  assert_non_null(sim->heap);
  sim->chance = chance;
  return sim;
}

/* A round is at most: phases that call, and as many that add, each a frame behind two others. */
static uint64_t bound_of(const struct shape *shape)
{
  return 2 * 8 * 2 * (uint64_t)(shape->delay + 2) * (shape->slow < 0 ? 1 : SLOW / 4);
}

static void random_pushes_neither_lock_up_nor_idle(void **state)
{
  uint64_t rounds = 0, steps = 0;
  (void)state;
  for (uint64_t trial = 0; steps < (uint64_t)steps_wanted; trial++) {
    struct sim *sim = sim_new(seed * 1000003 + trial);
    uint64_t *chance = &sim->chance;
    sim->shape = (struct shape){.nranks = below(chance, 3) ? 5 : 2 + (int)below(chance, 8),
                                .credit = 1 + (int)below(chance, 3),
                                .delay = 1 + (int)below(chance, 60),
                                .is_late = (int)below(chance, 2),
                                .is_shuffled = (int)below(chance, 2),
                                .gap = below(chance, 300)};
    sim->shape.lag = 3 * sim->shape.gap;
    sim->shape.is_bursty = !below(chance, 3);
    sim->shape.slow = below(chance, 4) ? -1 : (int)below(chance, (size_t)sim->shape.nranks);
    sim->shape.bound = bound_of(&sim->shape);
    plan_draw(sim);
    sim_make(sim);
    for (uint64_t step = 1; step <= 20 && !sim->wrong; step++, steps++) {
      step_begin(sim, step, below(chance, 3) ? 0 : below(chance, 600));
      step_run(sim);
    }
    if (sim->wrong) fprintf(stderr, "trial %llu\n", (unsigned long long)trial);
    assert_null(sim->wrong);
    rounds += (uint64_t)sim->ranks[0].joined;
    sim_free(sim);
  }
  printf("%llu steps, %llu rounds\n", (unsigned long long)steps, (unsigned long long)rounds);
}

/* ---- where the plan is right ---- */

static struct sim *sim_of(int nranks, int ngroups, int delay)
{
  struct sim *sim = sim_new(seed);
  sim->shape = (struct shape){.nranks = nranks, .credit = 2, .delay = delay, .gap = 2500, .lag = 1000, .slow = -1};
  sim->shape.bound = bound_of(&sim->shape);
  sim->plan = (struct tt_sequence_plan){.nmessages = ngroups,
                                     .ngroups = ngroups,
                                     .nchannels = 2,
                                     .by_priority = 1,
                                     .groups = sim->groups,
                                     .bytes = sim->bytes};
  for (int m = 0; m < ngroups; m++) {
    sim->groups[m] = ngroups - 1 - m;
    sim->bytes[m] = 2000;
  }
  sim_make(sim);
  return sim;
}

static void nothing_is_sent_where_the_plan_is_right(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 8; nranks++) {
    struct sim *sim = sim_of(nranks, 10, 20);
    for (uint64_t step = 1; step <= 50; step++) {
      step_begin(sim, step, sim->shape.bound);
      step_run(sim);
    }
    assert_null(sim->wrong);
    assert_int_equal(sim->frames, 0);
    sim_free(sim);
  }
}

/* Messages pass by one that is late, at the cost that the header tells. */
static void a_late_message_is_passed_by_at_the_cost_of_rounds(void **state)
{
  static const struct {
    int nranks, frames, hops;
  } costs[] = {{2, 1, 1}, {8, 5, 6}, {256, 15, 16}};
  (void)state;
  for (size_t k = 0; k < sizeof costs / sizeof *costs; k++) {
    struct sim *sim = sim_of(costs[k].nranks, 5, 1); /* a frame takes 1 */
    uint64_t last = 0, rounds;
    step_begin(sim, 1, 0);
    sim->nheap = 0;
    for (int r = 0; r < sim->shape.nranks; r++)
      for (int g = 4; g >= 0; g--) event_add(sim, r == 1 && g == 4 ? 50000 : 1000, PUSH, r, g);
    while (sim->nheap && !sim->wrong) {
      struct event event = event_take(sim);
      sim->now = event.at;
      if (event.kind == FRAME) last = sim->now;
      if (event.kind == PUSH && sim->now > 1000) assert_int_equal(sim->ranks[0].left, 1); /* all others are over */
      event_do(sim, &event);
    }
    assert_null(sim->wrong);
    rounds = (uint64_t)sim->ranks[0].joined; /* the first push asks for one, those behind it for another */
    assert_in_range(rounds, 1, 2);
    assert_int_equal(sim->frames, rounds * (uint64_t)costs[k].nranks * (uint64_t)costs[k].frames);
    assert_in_range(last - 1000, 1, rounds * (uint64_t)costs[k].hops);
    printf("%d ranks: %llu rounds, %llu frames of a rank, over %llu frames one after the other\n", costs[k].nranks,
           (unsigned long long)rounds, (unsigned long long)(sim->frames / (uint64_t)costs[k].nranks),
           (unsigned long long)(last - 1000));
    sim_free(sim);
  }
}

static void arguments_take(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--long") == 0) steps_wanted *= 20;
    if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) seed = strtoull(argv[i + 1], NULL, 10);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_pushes_neither_lock_up_nor_idle),
      cmocka_unit_test(nothing_is_sent_where_the_plan_is_right),
      cmocka_unit_test(a_late_message_is_passed_by_at_the_cost_of_rounds),
  };
  arguments_take(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
