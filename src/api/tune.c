/* SPDX-License-Identifier: BSD-3-Clause */
/* tuttiTune: arguments checked, then src/measure. */
#include "api/check.h"
#include "api/profile.h"
#include "measure/measure.h"

tuttiResult_t tuttiTune(tuttiComm_t comm, const tuttiTuneOptions_t *options, tuttiProfile_t profile)
{
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result != tuttiSuccess) return result;
  if (!options) return tt_null("options");
  if (!profile && comm->rank == 0) return tt_null("profile");
  if (!(options->seconds >= 0 && options->seconds <= 86400))
    return tt_fail(tuttiInvalidArgument, "options->seconds is %g: give a number from 0 (the default) to 86400",
                   options->seconds);
  if (tt_group_active())
    return tt_fail(tuttiInvalidUsage, "tuttiTune inside of a group: it waits for what it starts; end the group first");
  return tt_measure(comm, options, profile ? &profile->profile : NULL);
}
