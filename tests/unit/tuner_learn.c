/* SPDX-License-Identifier: BSD-3-Clause */
/* The learner, simulated by seed: ranks that wait for each other, on machines that are noisy, drift and mislead. All
 * ranks have the same arm at every call, a trial costs at most 1 % of any 1,000 calls, the learner settles, and then
 * its arm is at most 3 % slower than the best one. After a drift it finds the best one again.
 * "--seed N": the first seed; "--machines N": so many of each kind; "--only TEST"; "--verbose".
 * Labels: serial, planner. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "slow.h"
#include "tuner/learn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 5
#define WINDOW 1000
#define BUDGET 10.0        /* calls' time in a window */
#define WORST 1.03         /* settled arm over the best */
#define CALLS_MOST 400000  /* until it is settled */
#define REST_CALLS 2048    /* of a settled period */
#define NEVER UINT64_MAX

static uint64_t first_seed = 1;
static int machines = IS_SLOW ? 2 : 12, is_verbose;

/* ---- machines ---- */

/* The facts of a machine and of the job that calls. Times in us. */
struct machine {
  int nranks, narms;
  double arm[TT_LEARN_ARMS][RANKS]; /* time of a rank in a call, once all have arrived */
  double compute[RANKS];            /* between calls */
  int is_together;      /* ranks arrive together, whatever came before */
  double noise;         /* deviation of the logarithm of a call's time */
  double lag;           /* deviation of computing, of the first arm's time */
  double outliers, outlier;   /* part of the calls, and how many times as long */
  double phases, phase; /* part of the time, and how many times as long */
  int phase_calls;      /* mean length */
  double cold;          /* a call just behind a change takes so many times as long */
  int cold_calls;
  int rhythm;           /* calls of so many lengths follow one another; 0: all are alike */
  double readies;       /* part of the calls of a rank at which it makes an arm ready; 0: all calls */
  double disturbed;     /* part of the calls of a rank during which its process does something else */
  uint64_t drifts_at, drift_calls; /* from here on, within so many calls, arms take ... */
  double drift[TT_LEARN_ARMS];     /* ... so many times as long */
};

static double uniform(uint64_t *chance)
{
  return (double)(next(chance) >> 11) * 0x1p-53;
}

static double between(uint64_t *chance, double low, double high)
{
  return low + (high - low) * uniform(chance);
}

/* Near a normal deviate: the sum of 4 uniform ones, of 16 bits each. */
static double normal(uint64_t *chance)
{
  uint64_t x = next(chance);
  double sum = (double)(x & 0xffff) + (double)(x >> 16 & 0xffff) + (double)(x >> 32 & 0xffff) + (double)(x >> 48);
  return (sum * 0x1p-16 - 2) * 1.7320508;
}

/* ---- a simulation ---- */

struct sim {
  struct machine machine;
  struct tt_learn ranks[RANKS];
  uint64_t chance, call;
  double free_at[RANKS]; /* a rank computes from here on */
  double lengths[64];    /* of a rhythm */
  int arm, since, phase_left, is_slow;
  double spent[WINDOW], window, most; /* beyond the incumbent's time, in the last 1,000 calls */
  uint64_t settled_at; /* the call behind which it settled last; NEVER: it is not */
  int drifts, changes; /* told by the learner */
  uint64_t exchanges;
  int is_mute; /* no call of rank 1 counts */
  const char *wrong;
};

/* How many times as long an arm takes by now. */
static double drifted(const struct sim *sim, int arm)
{
  const struct machine *machine = &sim->machine;
  if (!machine->drifts_at || sim->call < machine->drifts_at) return 1;
  uint64_t calls = sim->call - machine->drifts_at;
  if (calls >= machine->drift_calls) return machine->drift[arm];
  return exp(log(machine->drift[arm]) * (double)calls / (double)machine->drift_calls);
}

/* The truth: what a call by this arm costs a loop that makes no other. */
static double cost(const struct sim *sim, int arm)
{
  const struct machine *machine = &sim->machine;
  double period = 0, compute = 0, now = drifted(sim, arm);
  for (int r = 0; r < machine->nranks; r++) {
    double own = machine->is_together ? 0 : machine->compute[r];
    period = fmax(period, now * machine->arm[arm][r] + own);
    compute = fmax(compute, own);
  }
  return period - compute;
}

/* The settled arm's cost over the best one's. */
static double regret(const struct sim *sim)
{
  double best = INFINITY;
  for (int a = 0; a < sim->machine.narms; a++) best = fmin(best, cost(sim, a));
  return cost(sim, sim->ranks[0].agreed.incumbent) / best;
}

/* How many times as long this call takes on all ranks. */
static double call_factor(struct sim *sim)
{
  const struct machine *machine = &sim->machine;
  double factor = exp(machine->noise * normal(&sim->chance));
  if (machine->outliers > 0 && uniform(&sim->chance) < machine->outliers) factor *= machine->outlier;
  if (machine->rhythm) factor *= sim->lengths[sim->call % (uint64_t)machine->rhythm];
  if (machine->phases > 0 && sim->phase_left-- <= 0) {
    sim->is_slow = uniform(&sim->chance) < machine->phases;
    sim->phase_left = 1 + (int)below(&sim->chance, 2 * (size_t)machine->phase_calls);
  }
  if (sim->is_slow) factor *= machine->phase;
  if (sim->since < machine->cold_calls) factor *= machine->cold;
  return factor;
}

/* A call by this arm; ns: what it takes on each rank. */
static void call_run(struct sim *sim, int arm, uint64_t ns[RANKS])
{
  const struct machine *machine = &sim->machine;
  double arrival[RANKS], last = 0, factor = call_factor(sim) * drifted(sim, arm);
  for (int r = 0; r < machine->nranks; r++) {
    double lag = machine->lag > 0 ? machine->lag * machine->arm[0][0] * fabs(normal(&sim->chance)) : 0;
    arrival[r] = (machine->is_together ? 0 : sim->free_at[r]) + machine->compute[r] + lag;
    if (machine->is_together) arrival[r] = lag;
    last = fmax(last, arrival[r]);
  }
  for (int r = 0; r < machine->nranks; r++) {
    double own = factor * exp(machine->noise / 3 * normal(&sim->chance));
    int is_disturbed = machine->disturbed > 0 && uniform(&sim->chance) < machine->disturbed;
    if (is_disturbed) own *= 3;
    sim->free_at[r] = last + machine->arm[arm][r] * own;
    ns[r] = is_disturbed ? 0 : (uint64_t)((sim->free_at[r] - arrival[r]) * 1000) + 1;
  }
  double base = sim->free_at[0];
  for (int r = 1; r < machine->nranks; r++) base = fmin(base, sim->free_at[r]);
  for (int r = 0; r < machine->nranks; r++) sim->free_at[r] -= base;
}

/* Books what the trial has cost at this call beyond the incumbent's time, in such calls. */
static void budget_check(struct sim *sim, int arm)
{
  double excess = 0, incumbent = cost(sim, sim->ranks[0].agreed.incumbent);
  if (sim->ranks[0].agreed.state == TT_LEARN_RACE) {
    double cold = sim->since < sim->machine.cold_calls ? sim->machine.cold : 1;
    excess += fmax(cost(sim, arm) * cold / incumbent - 1, 0);
  }
  sim->window += excess - sim->spent[sim->call % WINDOW];
  sim->spent[sim->call % WINDOW] = excess;
  if (sim->window > sim->most) sim->most = sim->window;
  if (sim->window > BUDGET) sim->wrong = "a trial costs more than 1 % of 1,000 calls";
}

/* Each rank makes arms ready at its own pace; none is tried before. */
static void readies(struct sim *sim, int arm)
{
  double part = sim->machine.readies;
  for (int r = 0; r < sim->machine.nranks; r++) {
    struct tt_learn *learn = &sim->ranks[r];
    if (arm && arm >= learn->local.ready) sim->wrong = "an arm is tried that is not ready";
    if (tt_learn_unready(learn) >= 0 && (part <= 0 || uniform(&sim->chance) < part)) tt_learn_ready(learn);
  }
}

static void exchange(struct sim *sim)
{
  int64_t all[TT_LEARN_FACTS], facts[TT_LEARN_FACTS];
  enum tt_learned learned = TT_LEARNED_NOTHING;
  for (int r = 0; r < sim->machine.nranks; r++) {
    tt_learn_tell(&sim->ranks[r], facts);
    for (int k = 0; k < TT_LEARN_FACTS; k++) all[k] = !r || facts[k] > all[k] ? facts[k] : all[k];
  }
  for (int r = 0; r < sim->machine.nranks; r++) {
    enum tt_learned one = tt_learn_agree(&sim->ranks[r], all);
    if (r && one != learned) sim->wrong = "ranks have learned different things";
    learned = one;
  }
  sim->exchanges++;
  if (learned == TT_LEARNED_ANOTHER) sim->changes++;
  if (learned == TT_LEARNED_DRIFT) sim->drifts++;
  if (learned == TT_LEARNED_SETTLED) sim->settled_at = sim->call;
  if (learned == TT_LEARNED_DRIFT) sim->settled_at = NEVER;
}

static void sim_call(struct sim *sim)
{
  uint64_t ns[RANKS];
  int arm = tt_learn_arm(&sim->ranks[0]), is_due = 0;
  sim->since = arm == sim->arm ? sim->since + 1 : 0;
  sim->arm = arm;
  call_run(sim, arm, ns);
  for (int r = 0; r < sim->machine.nranks; r++) {
    struct tt_learn *learn = &sim->ranks[r];
    if (tt_learn_arm(learn) != arm || memcmp(&learn->agreed, &sim->ranks[0].agreed, sizeof learn->agreed) != 0)
      sim->wrong = "ranks do not agree";
  }
  budget_check(sim, arm);
  readies(sim, arm);
  for (int r = 0; r < sim->machine.nranks; r++) {
    int due = tt_learn_step(&sim->ranks[r], sim->is_mute && r == 1 ? 0 : ns[r]);
    if (r && due != is_due) sim->wrong = "ranks do not exchange at the same call";
    is_due = due;
  }
  sim->call++;
  if (is_due) {
    exchange(sim);
    sim->spent[(sim->call - 1) % WINDOW] += 1;
    sim->window += 1;
  }
}

static void settle(struct sim *sim)
{
  while (sim->settled_at == NEVER && sim->call < CALLS_MOST && !sim->wrong) sim_call(sim);
  if (sim->settled_at == NEVER && !sim->wrong) sim->wrong = "it does not settle";
  if (!sim->wrong && regret(sim) > WORST) sim->wrong = "the settled arm is more than 3 % slower than the best";
}

static void sim_init(struct sim *sim, uint64_t chance)
{
  memset(sim, 0, sizeof *sim);
  sim->chance = chance;
  sim->settled_at = NEVER;
  sim->arm = -1;
}

/* Arms up to three times as slow as the best one, some nearly as quick; which is first says nothing. */
static void machine_draw(struct sim *sim, struct machine machine)
{
  uint64_t *chance = &sim->chance;
  double best = exp(between(chance, log(3), log(30000)));
  machine.nranks = 2 + (int)below(chance, RANKS - 1);
  machine.narms = 2 + (int)below(chance, TT_LEARN_ARMS - 1);
  for (int a = 0; a < machine.narms; a++) {
    double us = best * (below(chance, 3) ? exp(between(chance, 0, log(3))) : between(chance, 1, 1.06));
    for (int r = 0; r < machine.nranks; r++) machine.arm[a][r] = us;
  }
  if (below(chance, 2))
    for (int r = 0; r < machine.nranks; r++) machine.compute[r] = best * between(chance, 0, 2);
  machine.is_together = !below(chance, 4);
  machine.noise = fmax(machine.noise, 0.02);
  sim->machine = machine;
  for (int k = 0; k < 64; k++) sim->lengths[k] = between(chance, 1, 1.4);
  for (int r = 0; r < machine.nranks; r++) tt_learn_init(&sim->ranks[r], machine.narms);
}

/* ---- kinds of machines ---- */

struct tally {
  uint64_t calls, longest;
  double regret, worst, most;
  int n;
};

static void tally_add(struct tally *tally, const char *kind, uint64_t seed, const struct sim *sim)
{
  tally->n++;
  tally->calls += sim->call;
  if (sim->call > tally->longest) tally->longest = sim->call;
  tally->regret += regret(sim);
  tally->worst = fmax(tally->worst, regret(sim));
  tally->most = fmax(tally->most, sim->most);
  if (is_verbose || sim->wrong)
    print_message("%s, seed %llu: %s, call %llu, arm %.4f, budget %.2f, %d arms, %d ranks, %d drifts\n", kind,
                  (unsigned long long)seed, sim->wrong ? sim->wrong : "well", (unsigned long long)sim->call,
                  regret(sim), sim->most, sim->machine.narms, sim->machine.nranks, sim->drifts);
  if (sim->wrong && !is_verbose) fail();
}

static void report(const char *kind, const struct tally *tally)
{
  print_message("%-12s %5d machines: settled after %.0f calls, at most %llu; arm %.4f of the best, at most %.4f; "
                "a trial at most %.2f %%\n",
                kind, tally->n, (double)tally->calls / tally->n, (unsigned long long)tally->longest,
                tally->regret / tally->n, tally->worst, tally->most / WINDOW * 100);
}

typedef void vary(struct sim *sim);

/* Settles on some machines of a kind, each of which `change` may change; how many calls that takes on average. */
static double settles_on(const char *kind, struct machine machine, vary *change)
{
  struct tally tally = {.worst = 0};
  for (int k = 0; k < machines; k++) {
    struct sim sim;
    uint64_t seed = first_seed + (uint64_t)k;
    sim_init(&sim, seed);
    machine_draw(&sim, machine);
    if (change) change(&sim);
    settle(&sim);
    tally_add(&tally, kind, seed, &sim);
  }
  report(kind, &tally);
  return (double)tally.calls / tally.n;
}

static void quiet_machines(void **state)
{
  (void)state;
  settles_on("quiet", (struct machine){.noise = 0.02}, NULL);
}

static void noisy_machines(void **state)
{
  (void)state;
  settles_on("noisy", (struct machine){.noise = 0.15}, NULL);
}

/* One arm is the best, all others are worse by little more than what is allowed. */
static void be_near(struct sim *sim)
{
  struct machine *machine = &sim->machine;
  double us = machine->arm[0][0];
  int best = (int)below(&sim->chance, (size_t)machine->narms);
  for (int a = 0; a < machine->narms; a++)
    for (int r = 0; r < machine->nranks; r++) machine->arm[a][r] = a == best ? us : us * 1.035;
}

static void arms_that_are_nearly_alike(void **state)
{
  (void)state;
  settles_on("near arms", (struct machine){.noise = 0.1}, be_near);
}

static void outliers(void **state)
{
  (void)state;
  double calls = settles_on("outliers", (struct machine){.noise = 0.05, .outliers = 0.02, .outlier = 10}, NULL);
  assert_true(calls < 65000); /* half as many again if means counted for medians */
  settles_on("far outliers", (struct machine){.noise = 0.05, .outliers = 0.01, .outlier = 100}, NULL);
}

static void slow_phases(void **state)
{
  (void)state;
  settles_on("phases", (struct machine){.noise = 0.05, .phases = 0.3, .phase = 1.8, .phase_calls = 200}, NULL);
  settles_on("long phases", (struct machine){.noise = 0.05, .phases = 0.3, .phase = 1.5, .phase_calls = 4000}, NULL);
  double calls =
      settles_on("bursts", (struct machine){.noise = 0.05, .phases = 0.02, .phase = 10, .phase_calls = 10}, NULL);
  assert_true(calls < 90000); /* more if single visits counted in full */
}

/* Ranks are late, by chance or always the same ones. */
static void late_ranks(void **state)
{
  (void)state;
  settles_on("late ranks", (struct machine){.noise = 0.03, .lag = 0.1}, NULL);
}

static void straggle(struct sim *sim)
{
  sim->machine.is_together = 0;
  sim->machine.compute[below(&sim->chance, (size_t)sim->machine.nranks)] = 5 * sim->machine.arm[0][0];
}

static void a_rank_that_is_always_late(void **state)
{
  (void)state;
  settles_on("straggler", (struct machine){.noise = 0.03}, straggle);
}

/* Each arm is quick on some ranks and slow on others: the slowest one counts. */
static void unlike(struct sim *sim)
{
  struct machine *machine = &sim->machine;
  for (int a = 0; a < machine->narms; a++)
    for (int r = 0; r < machine->nranks; r++) machine->arm[a][r] *= between(&sim->chance, 0.5, 1);
}

static void arms_that_are_quick_on_some_ranks(void **state)
{
  (void)state;
  settles_on("unlike ranks", (struct machine){.noise = 0.03}, unlike);
}

/* The first calls behind a change of arm are much quicker or slower than all others. */
static void arms_that_differ_when_they_are_cold(void **state)
{
  (void)state;
  settles_on("cold slow", (struct machine){.noise = 0.03, .cold = 1.5, .cold_calls = 2}, NULL);
  settles_on("cold quick", (struct machine){.noise = 0.03, .cold = 0.5, .cold_calls = 2}, NULL);
}

/* Calls of up to 32 lengths follow one another, as in a training step. */
static void draw_rhythm(struct sim *sim)
{
  sim->machine.rhythm = 2 + (int)below(&sim->chance, 31);
}

/* As many lengths as there may be calls from one visit to the next. */
static void draw_slots(struct sim *sim)
{
  static const int slots[] = {25, 31, 41, 50};
  sim->machine.rhythm = slots[below(&sim->chance, 4)];
}

static void calls_of_several_lengths(void **state)
{
  (void)state;
  settles_on("rhythm", (struct machine){.noise = 0.03}, draw_rhythm);
  settles_on("slots", (struct machine){.noise = 0.03}, draw_slots);
}

/* The process of a rank does something else during some calls, which take longer and are marked. */
static void calls_that_do_not_count(void **state)
{
  (void)state;
  settles_on("disturbed", (struct machine){.noise = 0.03, .disturbed = 0.02}, NULL);
}

/* What an arm needs takes a rank some 2,000 calls. */
static void arms_that_are_ready_late(void **state)
{
  (void)state;
  settles_on("ready late", (struct machine){.noise = 0.03, .readies = 0.0005}, NULL);
}

/* ---- drift ---- */

/* Settled, then times change, at once or slowly: the settled arm takes half as much again, or another is that much
 * quicker beside it. The best arm is found again. */
static void drifts_on(const char *kind, uint64_t drift_calls)
{
  struct tally tally = {.worst = 0};
  for (int k = 0; k < machines; k++) {
    struct sim sim;
    uint64_t seed = first_seed + (uint64_t)k;
    sim_init(&sim, seed);
    machine_draw(&sim, (struct machine){.noise = 0.05});
    settle(&sim);
    for (int c = 0; c < 10000 && !sim.wrong; c++) sim_call(&sim);
    sim.machine.drifts_at = sim.call;
    sim.machine.drift_calls = drift_calls;
    for (int a = 0; a < sim.machine.narms; a++) sim.machine.drift[a] = between(&sim.chance, 0.8, 1.2);
    sim.machine.drift[sim.ranks[0].agreed.incumbent] = below(&sim.chance, 2) ? 1.5 : 0.6;
    uint64_t from = sim.call, soon = 3 * REST_CALLS + drift_calls;
    int drifts = sim.drifts;
    while (sim.call < from + soon && sim.drifts == drifts && !sim.wrong) sim_call(&sim);
    if (sim.drifts == drifts && !sim.wrong) sim.wrong = "the drift was not noticed";
    while (sim.call < from + drift_calls && !sim.wrong) sim_call(&sim);
    for (int c = 0; c < 4 * REST_CALLS && !sim.wrong; c++) sim_call(&sim); /* what has drifted since it began again */
    settle(&sim);
    tally_add(&tally, kind, seed, &sim);
  }
  report(kind, &tally);
}

static void a_drift_is_noticed_and_learnt(void **state)
{
  (void)state;
  drifts_on("step", 1);
  drifts_on("slow drift", 20000);
}

/* A machine that does not change is left alone: nothing is tried again, and ranks exchange facts every 2,048 calls. */
static void without_drift_it_rests(void **state)
{
  (void)state;
  for (int k = 0; k < machines; k++) {
    struct sim sim;
    sim_init(&sim, first_seed + (uint64_t)k);
    machine_draw(&sim, (struct machine){.noise = 0.05});
    settle(&sim);
    uint64_t from = sim.call, exchanges = sim.exchanges;
    int arm = sim.ranks[0].agreed.incumbent;
    while (sim.call < from + 10 * REST_CALLS && !sim.wrong) {
      assert_int_equal(tt_learn_arm(&sim.ranks[0]), arm);
      sim_call(&sim);
    }
    assert_null(sim.wrong);
    assert_int_equal(sim.exchanges - exchanges, 10);
    assert_int_equal(sim.drifts, 0);
  }
}

/* One whole period in which all is slow is no drift. */
static void one_slow_period_changes_nothing(void **state)
{
  (void)state;
  struct sim sim;
  sim_init(&sim, first_seed);
  machine_draw(&sim, (struct machine){.noise = 0.05, .phase = 1.5});
  settle(&sim);
  for (int period = 0; period < 6; period++) {
    sim.is_slow = period == 3;
    for (int call = 0; call < REST_CALLS; call++) sim_call(&sim);
  }
  assert_null(sim.wrong);
  assert_int_equal(sim.drifts, 0);
}

/* ---- small ---- */

/* No call of a rank ever counts: ranks agree all the same, and it settles on what the price said. */
static void a_rank_without_times_ends_the_trial(void **state)
{
  (void)state;
  for (int narms = 2; narms <= TT_LEARN_ARMS; narms++) {
    struct sim sim;
    sim_init(&sim, first_seed);
    machine_draw(&sim, (struct machine){.noise = 0.05});
    sim.machine.narms = narms;
    for (int r = 0; r < sim.machine.nranks; r++) tt_learn_init(&sim.ranks[r], narms);
    sim.is_mute = 1;
    while (sim.settled_at == NEVER && sim.call < CALLS_MOST && !sim.wrong) sim_call(&sim);
    assert_null(sim.wrong);
    assert_int_equal(sim.ranks[0].agreed.state, TT_LEARN_SETTLED);
    assert_int_equal(sim.ranks[0].agreed.incumbent, 0);
  }
}

/* A rank makes no arm ready: nothing is ever tried, and the trial ends. */
static void arms_that_are_never_ready_are_not_tried(void **state)
{
  (void)state;
  struct sim sim;
  sim_init(&sim, first_seed);
  machine_draw(&sim, (struct machine){.noise = 0.05, .readies = 1e-12});
  while (sim.settled_at == NEVER && sim.call < 50 * CALLS_MOST && !sim.wrong) sim_call(&sim);
  assert_null(sim.wrong);
  assert_int_equal(sim.ranks[0].agreed.state, TT_LEARN_SETTLED);
  assert_int_equal(sim.ranks[0].agreed.incumbent, 0);
}

/* In its own rhythm a settled learner wants the times of few calls. */
static void few_settled_calls_are_timed(void **state)
{
  (void)state;
  struct sim sim;
  int timed = 0;
  sim_init(&sim, first_seed);
  machine_draw(&sim, (struct machine){.noise = 0.02});
  settle(&sim);
  assert_null(sim.wrong);
  for (int call = 0; call < REST_CALLS; call++) {
    timed += tt_learn_is_timed(&sim.ranks[0]);
    sim_call(&sim);
  }
  assert_int_equal(timed, 64 * TT_LEARN_GROUP);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quiet_machines),
      cmocka_unit_test(noisy_machines),
      cmocka_unit_test(arms_that_are_nearly_alike),
      cmocka_unit_test(outliers),
      cmocka_unit_test(slow_phases),
      cmocka_unit_test(late_ranks),
      cmocka_unit_test(a_rank_that_is_always_late),
      cmocka_unit_test(arms_that_are_quick_on_some_ranks),
      cmocka_unit_test(arms_that_differ_when_they_are_cold),
      cmocka_unit_test(calls_of_several_lengths),
      cmocka_unit_test(calls_that_do_not_count),
      cmocka_unit_test(arms_that_are_ready_late),
      cmocka_unit_test(a_drift_is_noticed_and_learnt),
      cmocka_unit_test(without_drift_it_rests),
      cmocka_unit_test(one_slow_period_changes_nothing),
      cmocka_unit_test(a_rank_without_times_ends_the_trial),
      cmocka_unit_test(arms_that_are_never_ready_are_not_tried),
      cmocka_unit_test(few_settled_calls_are_timed),
  };
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--verbose") == 0) is_verbose = 1;
    if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) first_seed = strtoull(argv[i + 1], NULL, 10);
    if (i + 1 < argc && strcmp(argv[i], "--machines") == 0) machines = atoi(argv[i + 1]);
    if (i + 1 < argc && strcmp(argv[i], "--only") == 0) cmocka_set_test_filter(argv[i + 1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
