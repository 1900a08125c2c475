/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces as straight lines: one of m bytes takes a + b m, as in Table II of Shi, Chu and Li (INFOCOM 2019). */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/scan.h"
#include "profiles/order_private.h"
#include "profiles/profiles.h"

#define LEAST_SIZES 3 /* two sizes are always on a line, which then says nothing of others */

struct line {
  double a_us, b_us;                  /* b for each byte */
  double mean_percent, worst_percent; /* by which the line is off the measured times */
};

static int is_of_one_line(const struct tt_profile_anchor *a, const struct tt_profile_anchor *b)
{
  return a->collective == b->collective && strcmp(a->algo, b->algo) == 0 && a->radix == b->radix &&
         a->block_bytes == b->block_bytes && a->nranks == b->nranks && a->nnodes == b->nnodes &&
         a->cores == b->cores && strcmp(a->transport, b->transport) == 0 && a->memory == b->memory;
}

static void errors_find(struct line *line, const void *const *anchors, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    const struct tt_profile_anchor *anchor = anchors[i];
    double off = 100 * fabs((line->a_us + line->b_us * (double)anchor->bytes) / anchor->us - 1);
    line->mean_percent += off / n;
    if (off > line->worst_percent) line->worst_percent = off;
  }
}

/* The least squares of relative errors, so that short messages weigh as much as long ones, with a and b not negative.
 * At least two sizes. */
static struct line line_fit(const void *const *anchors, int32_t n)
{
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (int32_t i = 0; i < n; i++) {
    const struct tt_profile_anchor *anchor = anchors[i];
    double x = (double)anchor->bytes, y = anchor->us, weight = 1 / (y * y);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * y;
    wxy += weight * x * y;
  }
  double det = w * wxx - wx * wx;
  struct line line = {.a_us = (wxx * wy - wx * wxy) / det, .b_us = (w * wxy - wx * wy) / det};
  if (line.a_us < 0) line = (struct line){.b_us = wxy / wxx};
  if (line.b_us < 0) line = (struct line){.a_us = wy / w};
  errors_find(&line, anchors, n);
  return line;
}

static void line_print(const void *const *anchors, int32_t n, FILE *out)
{
  const struct tt_profile_anchor *first = anchors[0], *last = anchors[n - 1];
  const struct line line = line_fit(anchors, n);
  char name[TT_PROFILE_NAME + 8], block[TT_SIZE_TEXT], low[TT_SIZE_TEXT], high[TT_SIZE_TEXT];
  snprintf(name, sizeof name, first->radix ? "%s/%d" : "%s", first->algo, (int)first->radix);
  fprintf(out, "  %-9s %-6s %5d %5d %5d  %-28s %6s %10.4g %12.4g %7.1f %7.1f %6d   %s to %s\n", first->transport,
          tt_memory_names[first->memory], (int)first->nranks, (int)first->nnodes, (int)first->cores, name,
          tt_size_text(first->block_bytes, block), line.a_us, 1e3 * line.b_us, line.mean_percent, line.worst_percent,
          (int)n, tt_size_text(first->bytes, low), tt_size_text(last->bytes, high));
}

tuttiResult_t tt_profile_allreduce_show(const struct tt_profile *profile, FILE *out)
{
  struct tt_plain plain;
  int32_t n, lines = 0;
  const void **order = tt_profile_order(profile, TT_PROFILE_ANCHOR, &n);
  if (!order) return tuttiSystemError;
  if (!tt_plain_begin(&plain)) return tt_free(order), tuttiSystemError;
  fprintf(out, "an all-reduce of m bytes takes a + b m\n  %-9s %-6s %5s %5s %5s  %-28s %6s %10s %12s %7s %7s "
               "%6s   sizes\n",
          "transport", "memory", "ranks", "nodes", "cores", "algorithm", "block", "a us", "b ns a byte", "error %",
          "worst %", "number");
  for (int32_t i = 0, end; i < n; i = end) {
    const struct tt_profile_anchor *first = order[i];
    for (end = i; end < n && is_of_one_line(first, order[end]);) end++;
    if (first->collective != TT_ALL_REDUCE || end - i < LEAST_SIZES) continue;
    line_print(order + i, end - i, out);
    lines++;
  }
  if (!lines) fprintf(out, "  no algorithm was measured with %d sizes: run tutti tune\n", LEAST_SIZES);
  tt_plain_end(&plain);
  tt_free(order);
  return ferror(out) ? tt_fail(tuttiSystemError, "cannot write a profile: %s", strerror(errno)) : tuttiSuccess;
}
