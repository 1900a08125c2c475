/* SPDX-License-Identifier: BSD-3-Clause */
/* The learner, simulated by seed: ranks that wait for each other, on machines that are noisy, drift and mislead. All
 * ranks have the same arm at every call, a trial costs at most 1 % of any 1,000 calls, the learner settles, and then
 * its arm is at most 3 % slower than the best one. After a drift it finds the best one again.
 * "--seed N": the first seed; "--machines N": so many of each kind; "--only TEST"; "--verbose".
 * Labels: serial, planner. */
#include "learn_machines.h"

#include <stdio.h>
#include <stdlib.h>

#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static uint64_t first_seed = 1;
static int machines = IS_SLOW ? 2 : 12, is_verbose;

/* ---- kinds of machines ---- */

struct tally {
  uint64_t calls, longest;
  double us, longest_us, regret, worst, most;
  int n;
};

static void tally_add(struct tally *tally, const char *kind, uint64_t seed, const struct sim *sim)
{
  tally->n++;
  tally->calls += sim->call;
  if (sim->call > tally->longest) tally->longest = sim->call;
  tally->us += sim->us;
  tally->longest_us = fmax(tally->longest_us, sim->us);
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
  print_message("%-12s %5d machines: settled after %.0f calls, at most %llu, %.1f s, at most %.1f; arm %.4f of the "
                "best, at most %.4f; a trial at most %.2f %%\n",
                kind, tally->n, (double)tally->calls / tally->n, (unsigned long long)tally->longest,
                tally->us / 1e6 / tally->n, tally->longest_us / 1e6, tally->regret / tally->n, tally->worst,
                tally->most / WINDOW * 100);
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
  assert_true(calls < 110000); /* more if means of all groups counted for medians */
  settles_on("far outliers", (struct machine){.noise = 0.05, .outliers = 0.01, .outlier = 100}, NULL);
}

static void slow_phases(void **state)
{
  (void)state;
  settles_on("phases", (struct machine){.noise = 0.05, .phases = 0.3, .phase = 1.8, .phase_calls = 200}, NULL);
  settles_on("long phases", (struct machine){.noise = 0.05, .phases = 0.3, .phase = 1.5, .phase_calls = 4000}, NULL);
  double calls =
      settles_on("bursts", (struct machine){.noise = 0.05, .phases = 0.02, .phase = 10, .phase_calls = 10}, NULL);
  assert_true(calls < 100000); /* more if single visits counted in full */
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
  double calls = settles_on("straggler", (struct machine){.noise = 0.03}, straggle);
  assert_true(calls < 80000); /* more if waits counted as the price of an exchange */
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

/* Each arm has its own beat, as ranks have that wait for each other and run ahead by turns, more so where they share
 * cores. */
static void have_beats(struct sim *sim)
{
  static const int beats[] = {0, 2, 3};
  for (int a = 0; a < sim->machine.narms; a++) sim->machine.beat[a] = beats[below(&sim->chance, 3)];
}

static void calls_that_are_short_by_turns(void **state)
{
  (void)state;
  settles_on("beats", (struct machine){.noise = 0.03}, have_beats);
}

/* Calls of up to 32 lengths follow one another, as in a training step. */
static void draw_rhythm(struct sim *sim)
{
  sim->machine.rhythm = 2 + (int)below(&sim->chance, 31);
}

/* As many lengths as there may be calls from one visit to the next, or a part of that, where calls are long. */
static void draw_slots(struct sim *sim)
{
  static const int slots[] = {16, 20, 40, 40};
  sim->machine.rhythm = slots[below(&sim->chance, 4)];
  for (int k = 0; k < sim->machine.rhythm; k++) sim->lengths[k] = between(&sim->chance, 1, 2);
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

/* Of a settled period. */
static uint64_t rest_calls(const struct sim *sim)
{
  return sim->ranks[0].agreed.calls;
}

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
    for (uint64_t c = 0, n = 2 * rest_calls(&sim); c < n && !sim.wrong; c++) sim_call(&sim);
    sim.machine.drifts_at = sim.call;
    sim.machine.drift_calls = drift_calls;
    for (int a = 0; a < sim.machine.narms; a++) sim.machine.drift[a] = between(&sim.chance, 0.8, 1.2);
    sim.machine.drift[sim.ranks[0].agreed.incumbent] = below(&sim.chance, 2) ? 1.5 : 0.7;
    uint64_t from = sim.call, soon = 3 * sim.ranks[0].agreed.calls + drift_calls;
    int drifts = sim.drifts;
    while (sim.call < from + soon && sim.drifts == drifts && !sim.wrong) sim_call(&sim);
    if (sim.drifts == drifts && !sim.wrong) sim.wrong = "the drift was not noticed";
    while (sim.call < from + drift_calls && !sim.wrong) sim_call(&sim);
    for (uint64_t c = 0, n = 4 * rest_calls(&sim); c < n && !sim.wrong; c++) sim_call(&sim); /* drifted since then */
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

/* A machine that does not change is left alone: nothing is tried again, and ranks exchange facts every 2,048 calls or
 * more. */
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
    while (sim.exchanges < exchanges + 10 && !sim.wrong) {
      assert_int_equal(tt_learn_arm(&sim.ranks[0]), arm);
      sim_call(&sim);
    }
    assert_null(sim.wrong);
    assert_true(sim.call - from >= 10 * REST_CALLS);
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
    for (uint64_t call = rest_calls(&sim); call; call--) sim_call(&sim);
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
  for (uint64_t call = rest_calls(&sim); call; call--) {
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
      cmocka_unit_test(calls_that_are_short_by_turns),
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
