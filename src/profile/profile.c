/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles in memory; lines.c has the table of lines. */
#include "profile/profile.h"

#include <string.h>

const char *const tt_level_names[TT_LEVELS] = {"L1", "L2", "L3", "memory"};
const char *const tt_memory_names[TT_MEMORIES] = {"malloc", "tutti"};

int tt_flow_same(const struct tt_flow *a, const struct tt_flow *b)
{
  return a->kind == b->kind && a->flows == b->flows && a->ways == b->ways && strcmp(a->transport, b->transport) == 0 &&
         strcmp(a->interface, b->interface) == 0;
}

const char *tt_flow_text(const struct tt_flow *flow, char text[TT_FLOW_TEXT])
{
  snprintf(text, TT_FLOW_TEXT, "%s over %s%s%s", tt_link_names[flow->kind], flow->transport,
           flow->interface[0] ? " on " : "", flow->interface);
  return text;
}

#define FIRST_ROOM 8

/* An array has room for FIRST_ROOM items, then for the next power of two. Returns the array with room for one more
 * item, or NULL; if it is a new array, the old one is freed. */
static void *room_make(void *items, int32_t n, size_t size)
{
  int is_full = n == 0 || (n >= FIRST_ROOM && (n & (n - 1)) == 0);
  if (n >= TT_PROFILE_LINES) {
    tt_fail(tuttiSystemError, "a profile has more than %d lines of one kind: leave some out", TT_PROFILE_LINES);
    return NULL;
  }
  if (items && !is_full) return items;
  void *larger = tt_alloc(n < FIRST_ROOM ? FIRST_ROOM : 2 * (size_t)n, size);
  if (!larger) {
    tt_fail(tuttiSystemError, "no memory for a profile: give the process more");
    return NULL;
  }
  if (n) memcpy(larger, items, (size_t)n * size);
  tt_free(items);
  return larger;
}

tuttiResult_t tt_profile_add_measured(struct tt_profile *profile, const struct tt_profile_measured *measured)
{
  void *all = room_make(profile->measured, profile->nmeasured, sizeof *measured);
  if (!all) return tuttiSystemError;
  profile->measured = all;
  profile->measured[profile->nmeasured++] = *measured;
  return tuttiSuccess;
}

tuttiResult_t tt_profile_add_missing(struct tt_profile *profile, const struct tt_profile_missing *missing)
{
  void *all = room_make(profile->missing, profile->nmissing, sizeof *missing);
  if (!all) return tuttiSystemError;
  profile->missing = all;
  profile->missing[profile->nmissing++] = *missing;
  return tuttiSuccess;
}

void tt_profile_remove_missing(struct tt_profile *profile, int32_t nranks, int32_t nnodes, const char *transport)
{
  int32_t n = 0;
  for (int32_t i = 0; i < profile->nmissing; i++) {
    const struct tt_profile_missing *missing = &profile->missing[i];
    if (missing->nranks != nranks || missing->nnodes != nnodes || strcmp(missing->transport, transport) != 0)
      profile->missing[n++] = *missing;
  }
  profile->nmissing = n;
}

tuttiResult_t tt_profile_add_link(struct tt_profile *profile, const struct tt_profile_link *link)
{
  void *links = room_make(profile->links, profile->nlinks, sizeof *link);
  if (!links) return tuttiSystemError;
  profile->links = links;
  profile->links[profile->nlinks++] = *link;
  return tuttiSuccess;
}

tuttiResult_t tt_profile_add_point(struct tt_profile *profile, const struct tt_profile_point *point)
{
  void *points = room_make(profile->points, profile->npoints, sizeof *point);
  if (!points) return tuttiSystemError;
  profile->points = points;
  profile->points[profile->npoints++] = *point;
  return tuttiSuccess;
}

tuttiResult_t tt_profile_add_reduce(struct tt_profile *profile, const struct tt_profile_reduce *reduce)
{
  void *reduces = room_make(profile->reduces, profile->nreduces, sizeof *reduce);
  if (!reduces) return tuttiSystemError;
  profile->reduces = reduces;
  profile->reduces[profile->nreduces++] = *reduce;
  return tuttiSuccess;
}

tuttiResult_t tt_profile_add_anchor(struct tt_profile *profile, const struct tt_profile_anchor *anchor)
{
  void *anchors = room_make(profile->anchors, profile->nanchors, sizeof *anchor);
  if (!anchors) return tuttiSystemError;
  profile->anchors = anchors;
  profile->anchors[profile->nanchors++] = *anchor;
  return tuttiSuccess;
}

tuttiResult_t tt_profile_add_learnt(struct tt_profile *profile, const struct tt_profile_learnt *learnt)
{
  void *all = room_make(profile->learnt, profile->nlearnt, sizeof *learnt);
  if (!all) return tuttiSystemError;
  profile->learnt = all;
  profile->learnt[profile->nlearnt++] = *learnt;
  return tuttiSuccess;
}

const struct tt_profile_measured *tt_profile_busiest(const struct tt_profile *profile)
{
  const struct tt_profile_measured *busiest = NULL;
  for (int32_t i = 0; i < profile->nmeasured; i++) {
    const struct tt_profile_measured *measured = &profile->measured[i];
    if (measured->load > TT_PROFILE_BUSY && (!busiest || measured->load > busiest->load)) busiest = measured;
  }
  return busiest;
}

const char *tt_profile_busy_text(const struct tt_profile *profile, char text[TT_SENTENCE_BYTES])
{
  const struct tt_profile_measured *busiest = tt_profile_busiest(profile);
  text[0] = 0;
  if (busiest)
    snprintf(text, TT_SENTENCE_BYTES,
             "the profile %s was measured while the machine was busy (load %.1f on %d %s, at %s), so its times are too "
             "long: measure again on an idle one, with `tutti tune -o %s`",
             profile->name, busiest->load, (int)profile->cores, profile->cores == 1 ? "core" : "cores", busiest->date,
             profile->name);
  return text;
}

void tt_profile_destroy(struct tt_profile *profile)
{
  if (!profile) return;
  tt_free(profile->measured);
  tt_free(profile->missing);
  tt_free(profile->links);
  tt_free(profile->points);
  tt_free(profile->reduces);
  tt_free(profile->anchors);
  tt_free(profile->learnt);
  memset(profile, 0, sizeof *profile);
}
