/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict on a silent rank. Pure: facts in, verdict out. */
#ifndef TT_WATCH_LIFE_H
#define TT_WATCH_LIFE_H

#include "base/host.h"

#define TT_BEAT_NS 10000000u  /* period of the beat ... */
#define TT_BEAT_RANKS 128     /* ... up to so many ranks of a host; for more it is longer, and a host beats as often */
#define TT_STALE_BEATS 5      /* a beat older than so many periods makes others look at /proc */

static inline uint64_t tt_beat_ns(int nlocal)
{
  return nlocal <= TT_BEAT_RANKS ? TT_BEAT_NS : (uint64_t)nlocal * TT_BEAT_NS / TT_BEAT_RANKS;
}

enum tt_life_verdict {
  TT_VERDICT_FINE,
  TT_VERDICT_DEAD,
  TT_VERDICT_FROZEN,     /* stopped for longer than allowed */
  TT_VERDICT_TRACED,     /* a debugger holds it: warn, nothing else */
  TT_VERDICT_UNREACHABLE /* it has given no sign of life for too long */
};

struct tt_life_facts {
  uint64_t age_ns;     /* since its beat was last seen to change */
  int attached;        /* it has beaten at least once */
  enum tt_life life;   /* what /proc says; TT_LIFE_UNKNOWN if it may not be asked */
  uint64_t stopped_ns; /* since /proc first said stopped, without a break */
};

struct tt_life_limits {
  uint64_t stale_ns;
  uint64_t frozen_ns;
  uint64_t unreachable_ns;
};

/* True if the age alone says that the rank is well, so that /proc need not be read. */
static inline int tt_life_fresh(uint64_t age_ns, const struct tt_life_limits *limits)
{
  return age_ns <= limits->stale_ns;
}

/* The facts that are known when the kernel tells that the process of a rank has ended. */
struct tt_end_facts {
  int has_cause;           /* a rank that is here still tells others of an error, or exits, maybe because of one */
  int unnumbered;          /* the rank has given others what no number of a call tells */
  uint64_t finished;       /* the last call that it had ended ... */
  uint64_t least_finished; /* ... and the least such call of the ranks that are here still */
};

/* True if the rank is dead at once; else its beats have the time to stand still for long. A call that it had ended may
 * have all that it needs of it, and so may the receiver of a message. A call that it was inside may have that, too, if
 * it waited for a third rank: such calls fail. */
static inline int tt_end_counts(const struct tt_end_facts *facts)
{
  return !facts->has_cause && !facts->unnumbered && facts->least_finished >= facts->finished;
}

enum tt_life_verdict tt_life_judge(const struct tt_life_facts *facts, const struct tt_life_limits *limits);

#endif
