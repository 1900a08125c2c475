/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/exec.h"

#define SPIN_LOOKS 64              /* pauses before the clock is read, about 2 us */
#define YIELD_AFTER_NS 100000      /* if each rank has a core: time of spinning before yields */
#define SLEEP_AFTER_NS 20000000    /* time of waiting before sleeps */
#define SLEEP_LONGEST_NS 1000000   /* longest sleep by the clock if each rank has a core, or nearly */
#define SLEEP_OVERSUBSCRIBED 20    /* ranks that share a core sleep longer, up to this factor: it wakes as often */
#define SLEEP_SHARED_NS 50000      /* shortest sleep for each rank that shares a core: their wake-ups leave it time */
#define SLEEP_WOKEN_NS 10000000    /* longest sleep of a thread that links wake: failures, for one, do not wake it */
#define LOOK_EVERY_NS 1000000      /* time between comparisons of calls, for each rank that shares a core */

void tt_waiter_init(struct tt_waiter *waiter, int oversubscribed)
{
  *waiter = (struct tt_waiter){.oversubscribed = oversubscribed};
}

/* A thread may be woken in vain, and again at once, by a message that comes before its turn. So a thread that was woken
 * and still waits sleeps by the clock once. */
static void idle(struct tt_waiter *waiter, uint64_t ns)
{
  enum tt_slept slept = TT_SLEPT_NOT;
  if (waiter->sleep && !waiter->woken)
    slept = waiter->sleep(waiter->sleeper, ns < SLEEP_WOKEN_NS ? ns : SLEEP_WOKEN_NS);
  waiter->woken = slept == TT_SLEPT_WOKEN;
  if (slept != TT_SLEPT_NOT) return;
  int times = waiter->oversubscribed < SLEEP_OVERSUBSCRIBED ? waiter->oversubscribed : SLEEP_OVERSUBSCRIBED;
  uint64_t longest = (uint64_t)(times > 1 ? times : 1) * SLEEP_LONGEST_NS;
  tt_sleep_ns(ns < longest ? ns : longest);
}

/* Rests a thread that has waited for `waited_ns`: the longer the wait, the less of the core it uses. Waking a sleeper
 * costs 16 to 25 us and a yield 1.2 us, so it sleeps late. */
static void rest(struct tt_waiter *waiter, uint64_t waited_ns)
{
  uint64_t least_ns = (uint64_t)waiter->oversubscribed * SLEEP_SHARED_NS, ns = waited_ns / 64;
  if (waited_ns > SLEEP_AFTER_NS) idle(waiter, ns > least_ns ? ns : least_ns);
  else if (waiter->oversubscribed || waited_ns > YIELD_AFTER_NS) sched_yield();
  else tt_cpu_relax();
}

/* The time to compare the calls of all ranks grows with their number. So a core makes as many comparisons as if it had
 * one rank. */
static uint64_t look_pause(const struct tt_waiter *waiter)
{
  return (uint64_t)(waiter->oversubscribed > 1 ? waiter->oversubscribed : 1) * LOOK_EVERY_NS;
}

int tt_waiter_pause(struct tt_waiter *waiter, int moved)
{
  if (moved) {
    waiter->idle = 0;
    waiter->since_ns = 0;
    waiter->woken = 0;
    return 0;
  }
  if (++waiter->idle < SPIN_LOOKS) {
    /* With more ranks than cores the peer may need this very core, and a look at a socket costs as much as a yield. */
    if (waiter->oversubscribed) sched_yield();
    else tt_cpu_relax();
    return 0;
  }
  uint64_t now = tt_now_ns();
  if (!waiter->since_ns) {
    waiter->since_ns = now;
    waiter->look_ns = now + look_pause(waiter);
  }
  rest(waiter, now - waiter->since_ns);
  if (now < waiter->look_ns) return 0;
  waiter->look_ns = now + look_pause(waiter);
  return 1;
}
