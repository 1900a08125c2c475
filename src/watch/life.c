/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/life_private.h"

enum tt_life_verdict tt_life_judge(const struct tt_life_facts *facts, const struct tt_life_limits *limits)
{
  if (tt_life_fresh(facts->age_ns, limits)) return TT_VERDICT_FINE;
  switch (facts->life) {
  case TT_LIFE_DEAD:
    return TT_VERDICT_DEAD;
  case TT_LIFE_FROZEN:
    return facts->stopped_ns >= limits->frozen_ns ? TT_VERDICT_FROZEN : TT_VERDICT_FINE;
  case TT_LIFE_TRACED:
    return TT_VERDICT_TRACED;
  case TT_LIFE_UNKNOWN:
    /* A rank that has never beaten is still starting up: the deadline of the set-up judges it. */
    return facts->attached && facts->age_ns >= limits->unreachable_ns ? TT_VERDICT_UNREACHABLE
                                                                      : TT_VERDICT_FINE;
  case TT_LIFE_ALIVE:
    break; /* slow or late, which is no error */
  }
  return TT_VERDICT_FINE;
}
