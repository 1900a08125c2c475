/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache of a host as tables. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "profile/lines.h"
#include "profiles/profiles.h"
#include "tuner/cache.h"
#include "tuner/explain.h"

static void links_show(const struct tt_cache *cache, FILE *out)
{
  fprintf(out, "\nlinks, by one pair of ranks as communicators were created: times those of the built-in profile\n"
          "  %-6s %-9s %8s %14s   %s\n", "kind", "transport", "latency", "time per byte", "measured");
  for (int i = 0; i < cache->n; i++) {
    const struct tt_cache_line *line = &cache->lines[i];
    fprintf(out, "  %-6s %-9s %8.4g %14.4g   %s\n", tt_link_names[line->kind], line->transport,
            exp2(line->correction.alpha), exp2(line->correction.beta), line->date);
  }
}

/* The newest first. */
static void learnt_show(const struct tt_cache *cache, FILE *out)
{
  char name[TT_CHOICE_TEXT_BYTES], size[2][TT_BYTES_TEXT_BYTES], us[TT_US_BYTES];
  fprintf(out, "\nchoices that jobs have learnt (TUTTI_LEARN)\n  %-14s %5s %5s %-6s %10s %7s   %-26s %10s %10s   %s\n",
          "collective", "ranks", "nodes", "memory", "up to", "element", "algorithm", "block", "us", "measured");
  for (int i = cache->nlearnt - 1; i >= 0; i--) {
    const struct tt_cache_learnt *line = &cache->learnt[i];
    const struct tt_learnt *learnt = &line->learnt;
    fprintf(out, "  %-14s %5d %5d %-6s %10s %5d B   %-26s %10s %10s   %s\n", tt_kinds[learnt->collective].name,
            (int)line->ranks, (int)line->nodes, tt_memory_names[learnt->memory],
            tt_bytes_text(tt_size_class_bytes(learnt->size_class), size[0]), 1 << learnt->width,
            tt_choice_text(&learnt->choice, name), tt_bytes_text(learnt->choice.block_bytes, size[1]),
            tt_us_text((double)learnt->ns / 1e3, us), line->date);
  }
}

tuttiResult_t tt_profile_cache_show(const struct tt_settings *settings, FILE *out)
{
  struct tt_cache cache;
  char path[TT_CACHE_PATH];
  if (!tt_cache_path(path, settings))
    return tt_fail(tuttiInvalidUsage, "there is no cache: TUTTI_CACHE is none, or there is no home directory; name a "
                   "profile, or the folder of the cache with TUTTI_CACHE");
  tt_cache_load(&cache, settings);
  fprintf(out, "cache     %s\n", path);
  if (!cache.n && !cache.nlearnt)
    fprintf(out, "\nnothing was measured or learnt yet, or it does not count here: TUTTI_DEBUG=INFO says why\n");
  if (cache.n) links_show(&cache, out);
  if (cache.nlearnt) learnt_show(&cache, out);
  return ferror(out) ? tt_fail(tuttiSystemError, "cannot write what is in the cache: %s", strerror(errno))
                     : tuttiSuccess;
}

/* ---- as a profile ---- */

static tuttiResult_t links_add(struct tt_profile *profile, const struct tt_cache *cache, const struct tt_profile *from)
{
  tuttiResult_t result = tuttiSuccess;
  for (int32_t i = 0; i < from->nlinks && result == tuttiSuccess; i++) {
    struct tt_profile_link link = from->links[i];
    struct tt_correction correction = tt_cache_get(cache, link.flow.kind, link.flow.transport, NULL);
    if (tt_correction_known(correction)) {
      link.alpha_us *= exp2(correction.alpha);
      link.overhead_us *= exp2(correction.alpha);
      link.beta_us_per_mib *= exp2(correction.beta);
    }
    result = tt_profile_add_link(profile, &link);
  }
  return result;
}

static struct tt_profile_learnt learnt_of(const struct tt_cache_learnt *line)
{
  const struct tt_learnt *learnt = &line->learnt;
  const struct tt_choice *choice = &learnt->choice;
  struct tt_profile_learnt made = {.is = {.collective = learnt->collective,
                                          .radix = choice->radix,
                                          .block_bytes = choice->block_bytes,
                                          .nranks = line->ranks,
                                          .nnodes = line->nodes,
                                          .cores = line->cores,
                                          .memory = learnt->memory,
                                          .bytes = tt_size_class_bytes(learnt->size_class),
                                          .us = (double)learnt->ns / 1e3},
                                   .element = 1 << learnt->width};
  snprintf(made.is.algo, sizeof made.is.algo, "%s%s%s", tt_algos[choice->algo].name, choice->middle >= 0 ? "+" : "",
           choice->middle >= 0 ? tt_algos[choice->middle].name : "");
  snprintf(made.is.transport, sizeof made.is.transport, "%s", line->transport);
  snprintf(made.date, sizeof made.date, "%s", line->date);
  return made;
}

/* The newest comes first; what is known of a shape by other settings does not count. */
static tuttiResult_t learnt_add(struct tt_profile *profile, const struct tt_cache *cache)
{
  tuttiResult_t result = tuttiSuccess;
  for (int i = cache->nlearnt - 1; i >= 0 && result == tuttiSuccess; i--) {
    struct tt_profile_learnt line = learnt_of(&cache->learnt[i]);
    int32_t k = 0;
    while (k < profile->nlearnt && tt_profile_compare(&profile->learnt[k], &line, TT_PROFILE_LEARNT)) k++;
    if (k == profile->nlearnt) result = tt_profile_add_learnt(profile, &line);
  }
  return result;
}

tuttiResult_t tt_profile_from_cache(struct tt_profile *profile, const struct tt_settings *settings)
{
  const struct tt_profile *from = tt_profile_shipped();
  struct tt_cache cache;
  if (!from) return tuttiSystemError;
  tt_cache_load(&cache, settings);
  if (!cache.n && !cache.nlearnt)
    return tt_fail(tuttiInvalidUsage, "nothing was measured or learnt yet, or it does not count here: let jobs run, "
                   "or see with TUTTI_DEBUG=INFO why the cache is not used");
  tuttiResult_t result = links_add(profile, &cache, from);
  for (int32_t i = 0; i < from->nreduces && result == tuttiSuccess; i++)
    result = tt_profile_add_reduce(profile, &from->reduces[i]);
  for (int32_t i = 0; i < from->nanchors && result == tuttiSuccess; i++)
    result = tt_profile_add_anchor(profile, &from->anchors[i]);
  return result == tuttiSuccess ? learnt_add(profile, &cache) : result;
}
