/* SPDX-License-Identifier: BSD-3-Clause */
/* What a silent rank is taken for. Pure: facts in, verdict out. */
#ifndef TT_WATCH_LIFE_H
#define TT_WATCH_LIFE_H

#include "base/host.h"

#define TT_STALE_NS 50000000u /* a beat older than this (five periods) makes others look at /proc */

enum tt_verdict {
  TT_VERDICT_FINE,
  TT_VERDICT_DEAD,
  TT_VERDICT_FROZEN,     /* stopped for longer than allowed */
  TT_VERDICT_TRACED,     /* a debugger holds it: warn, nothing else */
  TT_VERDICT_UNREACHABLE /* nothing is known of it for too long */
};

struct tt_life_facts {
  uint64_t age_ns;     /* since its beat was last seen to move */
  int attached;        /* it has beaten at least once */
  enum tt_life life;   /* what /proc says; TT_LIFE_UNKNOWN if it may not be asked */
  uint64_t stopped_ns; /* since /proc first said stopped, without a break */
};

struct tt_life_limits {
  uint64_t frozen_ns;
  uint64_t unreachable_ns;
};

/* True if the age alone says that the rank is well, so that /proc need not be read. */
static inline int tt_life_fresh(uint64_t age_ns)
{
  return age_ns <= TT_STALE_NS;
}

enum tt_verdict tt_life_judge(const struct tt_life_facts *facts, const struct tt_life_limits *limits);

#endif
