/* SPDX-License-Identifier: BSD-3-Clause */
/* A profile as tables. */
#include <errno.h>
#include <string.h>

#include "base/scan.h"
#include "profiles/order_private.h"
#include "profiles/profiles.h"

/* us_per_mib as GB/s; "-" if it is not positive. */
static const char *rate_text(double us_per_mib, char *text)
{
  if (us_per_mib <= 0) return "-";
  snprintf(text, TT_SIZE_TEXT, "%.4g", 1048.576 / us_per_mib);
  return text;
}

static const char *known(const char *text)
{
  return text[0] ? text : "-";
}

static void measured_show(const void *const *order, int32_t n, FILE *out)
{
  for (int32_t i = 0; i < n; i++) {
    const struct tt_profile_measured *measured = order[i];
    fprintf(out, "measured  %s by %s, version %s, load %.3g%s\n", known(measured->date), known(measured->command),
            known(measured->version), measured->load,
            measured->load > TT_PROFILE_BUSY ? ": the machine was busy, do not trust its times" : "");
  }
}

static void missing_show(const void *const *order, int32_t n, FILE *out)
{
  for (int32_t i = 0; i < n; i++) {
    const struct tt_profile_missing *missing = order[i];
    fprintf(out, "missing   %d %s over %s, from %s on\n", (int)missing->nranks, missing->nranks == 1 ? "rank" : "ranks",
            missing->transport, known(missing->from));
  }
}

static void links_show(const void *const *order, int32_t n, FILE *out)
{
  char size[TT_SIZE_TEXT], rate[TT_SIZE_TEXT];
  fprintf(out, "\nmessages\n  %-6s %-9s %-9s %5s %5s %8s %10s %8s %11s %8s %7s\n", "kind", "transport", "interface",
          "pairs", "ways", "up to", "latency us", "GB/s", "overhead us", "error %", "points");
  for (int32_t i = 0; i < n; i++) {
    const struct tt_profile_link *link = order[i];
    const struct tt_flow *flow = &link->flow;
    fprintf(out, "  %-6s %-9s %-9s %5d %5d %8s %10.4g %8s %11.4g %8.3g %7d\n", tt_link_names[flow->kind],
            flow->transport, flow->interface[0] ? flow->interface : "-", (int)flow->flows, (int)flow->ways,
            tt_size_text(link->to, size), link->alpha_us, rate_text(link->beta_us_per_mib, rate),
            link->overhead_us, link->error_percent, (int)link->points);
  }
}

static void reduces_show(const void *const *order, int32_t n, FILE *out)
{
  char size[TT_SIZE_TEXT], rate[TT_SIZE_TEXT];
  fprintf(out, "\nreductions (GB/s of each source beyond the first)\n  %-9s %-7s %7s %-7s %8s %8s %8s\n", "type", "op",
          "sources", "level", "bytes", "GB/s", "error %");
  for (int32_t i = 0; i < n; i++) {
    const struct tt_profile_reduce *reduce = order[i];
    fprintf(out, "  %-9s %-7s %7d %-7s %8s %8s %8.3g\n", tt_type_name(reduce->type), tt_redop_name(reduce->op),
            (int)reduce->nsrc, tt_level_names[reduce->level], tt_size_text(reduce->bytes, size),
            rate_text(reduce->gamma_us_per_mib, rate), reduce->error_percent);
  }
}

/* A line for those of the n anchors, all of one algorithm, that are of this kind of memory. */
static void anchors_line(const void *const *order, int32_t n, enum tt_memory memory, FILE *out)
{
  char low[TT_SIZE_TEXT], high[TT_SIZE_TEXT];
  const struct tt_profile_anchor *first = order[0];
  uint64_t least = UINT64_MAX, most = 0;
  int number = 0;
  for (int32_t i = 0; i < n; i++) {
    const struct tt_profile_anchor *anchor = order[i];
    if (anchor->memory != memory) continue;
    number++;
    if (anchor->bytes < least) least = anchor->bytes;
    if (anchor->bytes > most) most = anchor->bytes;
  }
  if (!number) return;
  fprintf(out, "  %-14s %-32s %-6s %6d   %s to %s\n", tt_kinds[first->collective].name, first->algo,
          tt_memory_names[memory], number, tt_size_text(least, low), tt_size_text(most, high));
}

/* Anchors of one algorithm stand together. */
static void anchors_show(const void *const *order, int32_t n, FILE *out)
{
  fprintf(out, "\nanchors\n  %-14s %-32s %-6s %6s   sizes\n", "collective", "algorithm", "memory", "number");
  for (int32_t i = 0, end; i < n; i = end) {
    const struct tt_profile_anchor *first = order[i];
    for (end = i; end < n; end++) {
      const struct tt_profile_anchor *anchor = order[end];
      if (anchor->collective != first->collective || strcmp(anchor->algo, first->algo) != 0) break;
    }
    for (int memory = 0; memory < TT_MEMORIES; memory++)
      anchors_line(order + i, end - i, (enum tt_memory)memory, out);
  }
}

static void learnt_show(const void *const *order, int32_t n, FILE *out)
{
  char size[2][TT_SIZE_TEXT];
  fprintf(out, "\nchoices that jobs have learnt\n  %-14s %5s %5s %5s %-9s %-6s %8s %7s   %-26s %8s %10s   %s\n",
          "collective", "ranks", "nodes", "cores", "transport", "memory", "up to", "element", "algorithm", "block",
          "us", "measured");
  for (int32_t i = 0; i < n; i++) {
    const struct tt_profile_learnt *learnt = order[i];
    fprintf(out, "  %-14s %5d %5d %5d %-9s %-6s %8s %5d B   %-26s %8s %10.4g   %s\n",
            tt_kinds[learnt->is.collective].name, (int)learnt->is.nranks, (int)learnt->is.nnodes,
            (int)learnt->is.cores, learnt->is.transport, tt_memory_names[learnt->is.memory],
            tt_size_text(learnt->is.bytes, size[0]), (int)learnt->element, learnt->is.algo,
            tt_size_text(learnt->is.block_bytes, size[1]), learnt->is.us, learnt->date);
  }
}

static tuttiResult_t tables_show(const struct tt_profile *profile, FILE *out)
{
  static const struct {
    enum tt_profile_word word;
    void (*show)(const void *const *order, int32_t n, FILE *out);
  } tables[] = {{TT_PROFILE_MEASURED, measured_show},
                {TT_PROFILE_MISSING, missing_show},
                {TT_PROFILE_LINK, links_show},
                {TT_PROFILE_REDUCE, reduces_show},
                {TT_PROFILE_ANCHOR, anchors_show},
                {TT_PROFILE_LEARNT, learnt_show}};
  for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
    int32_t n;
    const void **order = tt_profile_order(profile, tables[t].word, &n);
    if (!order) return tuttiSystemError;
    if (n) tables[t].show(order, n, out);
    tt_free(order);
  }
  return tuttiSuccess;
}

tuttiResult_t tt_profile_show(const struct tt_profile *profile, FILE *out)
{
  struct tt_plain plain;
  if (!tt_plain_begin(&plain)) return tuttiSystemError;
  fprintf(out, "host      %s\ncpu       %s, %d cores\nmemory    %s\nkernel    %s\n",
          known(profile->host), known(profile->cpu), (int)profile->cores, known(profile->memory),
          known(profile->kernel));
  tuttiResult_t result = tables_show(profile, out);
  tt_plain_end(&plain);
  if (!result && ferror(out)) result = tt_fail(tuttiSystemError, "cannot write a profile: %s", strerror(errno));
  return result;
}
