/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache of a host as tables. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
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
  fprintf(out, "\nchoices that jobs have learnt (TUTTI_LEARN)\n  %-14s %5s %5s %10s %7s   %-26s %10s %10s   %s\n",
          "collective", "ranks", "nodes", "up to", "element", "algorithm", "block", "us", "measured");
  for (int i = cache->nlearnt - 1; i >= 0; i--) {
    const struct tt_cache_learnt *line = &cache->learnt[i];
    const struct tt_learnt *learnt = &line->learnt;
    fprintf(out, "  %-14s %5d %5d %10s %5d B   %-26s %10s %10s   %s\n", tt_kinds[learnt->collective].name,
            (int)line->ranks, (int)line->nodes, tt_bytes_text(tt_size_class_bytes(learnt->size_class), size[0]),
            1 << learnt->width, tt_choice_text(&learnt->choice, name),
            tt_bytes_text(learnt->choice.block_bytes, size[1]), tt_us_text((double)learnt->ns / 1e3, us), line->date);
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
