/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles, for a person and for tutti tune. */
#include "api/profile.h"

#include "api/check.h"
#include "transport/transport.h"

tuttiResult_t tuttiProfileOpen(tuttiProfile_t *profile, const char *path)
{
  if (!profile) return tt_null("profile");
  struct tuttiProfile *made = tt_alloc(1, sizeof *made);
  if (!made) return tt_fail(tuttiSystemError, "no memory for a profile: give the process more");
  tuttiResult_t result = path ? tt_profile_load(&made->profile, path) : tuttiSuccess;
  if (result == tuttiSuccess) *profile = made;
  else tt_free(made);
  return result;
}

tuttiResult_t tuttiProfileWrite(tuttiProfile_t profile, FILE *out)
{
  if (!profile) return tt_null("profile");
  if (!out) return tt_null("out");
  return tt_profile_print(&profile->profile, out);
}

tuttiResult_t tuttiProfileShow(tuttiProfile_t profile, FILE *out)
{
  if (!profile) return tt_null("profile");
  if (!out) return tt_null("out");
  return tt_profile_show(&profile->profile, out);
}

tuttiResult_t tuttiProfileDraw(tuttiProfile_t profile, const char *svg, FILE *out)
{
  if (!profile) return tt_null("profile");
  if (!svg) return tt_null("svg");
  if (!out) return tt_null("out");
  return tt_profile_draw(&profile->profile, svg, out);
}

tuttiResult_t tuttiProfileCheck(tuttiProfile_t profile, int verbose, FILE *out, int *unknown)
{
  const char *names[16] = {"self"};
  if (!profile) return tt_null("profile");
  if (!out) return tt_null("out");
  if (!unknown) return tt_null("unknown");
  for (int t = 0; tt_transports[t] && t < 14; t++) names[t + 1] = tt_transports[t]->name;
  return tt_profile_check(&profile->profile, names, verbose, out, unknown);
}

tuttiResult_t tuttiProfileClose(tuttiProfile_t profile)
{
  if (profile) tt_profile_destroy(&profile->profile);
  tt_free(profile);
  return tuttiSuccess;
}
