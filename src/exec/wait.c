/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/exec.h"

#define SPIN_LOOKS 64         /* about 2 us of looking before the clock is read */
#define YIELD_AFTER_NS 100000 /* ranks fit on the cores: spin this long before yielding */
#define SLEEP_AFTER_NS 20000000
#define SLEEP_LONGEST_NS 1000000   /* where each rank has a core, or nearly */
#define SLEEP_OVERSUBSCRIBED 20    /* times so long at most where they share one: it wakes as often as otherwise */
#define SLEEP_SHARED_NS 50000      /* at least, for each rank that shares a core: all wake-ups together leave it time */
#define SLEEP_WOKEN_NS 10000000 /* the same where something wakes: for what nothing tells of, as failures */
#define LOOK_EVERY_NS 1000000

void tt_waiter_init(struct tt_waiter *waiter, int oversubscribed)
{
  *waiter = (struct tt_waiter){.oversubscribed = oversubscribed};
}

/* What wakes may do so in vain, and again at once: a message that comes before its turn. So who was woken and still
 * waits sleeps by the clock for once. */
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

/* Waiting since `waited_ns`: the longer, the less of the core is used. Waking a sleeper costs
 * 16 to 25 us where a yield costs 1.2 us, so sleep late. */
static void rest(struct tt_waiter *waiter, uint64_t waited_ns)
{
  uint64_t least_ns = (uint64_t)waiter->oversubscribed * SLEEP_SHARED_NS, ns = waited_ns / 64;
  if (waited_ns > SLEEP_AFTER_NS) idle(waiter, ns > least_ns ? ns : least_ns);
  else if (waiter->oversubscribed || waited_ns > YIELD_AFTER_NS) sched_yield();
  else tt_cpu_relax();
}

/* A look at the calls of all ranks takes as long as there are ranks: a core gets as many as if it had one rank. */
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
