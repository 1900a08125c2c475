/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines on which the learner is simulated, by seed: ranks that wait for each other, and what their calls take. */
#ifndef LEARN_MACHINES_H
#define LEARN_MACHINES_H

#include <math.h>
#include <string.h>

#include "chance.h"
#include "tuner/learn.h"

#define RANKS 5
#define WINDOW 1000
#define BUDGET 10.0        /* calls' time in a window */
#define WORST 1.03         /* settled arm over the best */
#define CALLS_MOST 2000000  /* until it is settled */
#define REST_CALLS 2048    /* of a settled period, at least */
#define NEVER UINT64_MAX

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
  int beat[TT_LEARN_ARMS]; /* ranks run ahead of others: of so many calls in a row the last takes next to nothing, and
                              the others as much longer; 0: all are alike */
  double tell;          /* what the time of one call costs a rank, us */
  double exchange;      /* of facts, us, once all have arrived */
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
  double us;             /* since the first call */
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

static double beat_factor(int beat, int since)
{
  if (!beat) return 1;
  return since % beat == beat - 1 ? 0.1 : (beat - 0.1) / (beat - 1);
}

/* How many times as long this call by an arm takes on all ranks. */
static double call_factor(struct sim *sim, int arm)
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
  return factor * beat_factor(machine->beat[arm], sim->since);
}

/* A call by this arm; ns: what it takes on each rank. */
static void call_run(struct sim *sim, int arm, uint64_t ns[RANKS])
{
  const struct machine *machine = &sim->machine;
  double arrival[RANKS], last = 0, factor = call_factor(sim, arm) * drifted(sim, arm);
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
  sim->us += machine->is_together ? cost(sim, arm) : base;
}

/* Books what the trial has cost at this call beyond the incumbent's time, in such calls: the arm, and what it takes to
 * tell the time. */
static void budget_check(struct sim *sim, int arm)
{
  double excess = 0, incumbent = cost(sim, sim->ranks[0].agreed.incumbent);
  if (sim->ranks[0].agreed.state == TT_LEARN_RACE) {
    double cold = sim->since < sim->machine.cold_calls ? sim->machine.cold : 1;
    excess += fmax(cost(sim, arm) * cold / incumbent - 1, 0);
    if (tt_learn_is_timed(&sim->ranks[0])) excess += sim->machine.tell / incumbent;
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

/* When a rank that computes as before a call begins an exchange. */
static double exchange_begin(const struct sim *sim, int rank)
{
  return sim->machine.is_together ? 0 : sim->free_at[rank] + sim->machine.compute[rank];
}

static void exchange(struct sim *sim)
{
  int64_t all[TT_LEARN_FACTS], facts[TT_LEARN_FACTS];
  double last = 0;
  enum tt_learned learned = TT_LEARNED_NOTHING;
  for (int r = 0; r < sim->machine.nranks; r++) {
    last = fmax(last, exchange_begin(sim, r));
    tt_learn_tell(&sim->ranks[r], facts);
    for (int k = 0; k < TT_LEARN_FACTS; k++) all[k] = !r || facts[k] > all[k] ? facts[k] : all[k];
  }
  for (int r = 0; r < sim->machine.nranks; r++) {
    double us = last - exchange_begin(sim, r) + sim->machine.exchange * between(&sim->chance, 0.8, 1);
    tt_learn_exchanged(&sim->ranks[r], (uint64_t)(us * 1000));
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
    double exchanged = sim->machine.exchange / cost(sim, sim->ranks[0].agreed.incumbent);
    sim->spent[(sim->call - 1) % WINDOW] += exchanged;
    sim->window += exchanged;
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
  machine.tell = 0.2;
  machine.exchange = fmax(5, 2 * fmin(best, 15));
  sim->machine = machine;
  for (int k = 0; k < 64; k++) sim->lengths[k] = between(chance, 1, 1.4);
  for (int r = 0; r < machine.nranks; r++) tt_learn_init(&sim->ranks[r], machine.narms);
}

#endif
