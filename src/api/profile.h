/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tuttiProfile_t is. */
#ifndef TT_API_PROFILE_H
#define TT_API_PROFILE_H

#include "tuner/profile.h"
#include "tutti_tools.h"

struct tuttiProfile {
  struct tt_profile profile;
};

#endif
