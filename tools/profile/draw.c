/* SPDX-License-Identifier: BSD-3-Clause */
/* A profile as a plot: time against bytes, both logarithmic; a colour for what lies between the ranks and
 * how they talk, dashes and marks for how many pairs there are. */
#include <errno.h>
#include <string.h>

#include "profile/order.h"
#include "profile/profile.h"

#define WIDTH 1100
#define HEIGHT 700
#define COLOURS 8
#define SHAPES 5
#define STEP 1.09 /* between two drawn points of a line, which is no straight one on these scales */

/* Points of one flow stand together, and so do its links. */
struct drawing {
  const struct tt_profile_point *const *points;
  const struct tt_profile_link *const *links;
  int32_t npoints, nlinks;
  FILE *out;
};

/* Within single quotes gnuplot knows nothing but their end. */
static void quoted_print(const char *text, FILE *out)
{
  for (; *text; text++)
    if (*text == '\'') fprintf(out, "''");
    else putc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
}

static int32_t flow_end(const struct drawing *d, int32_t begin)
{
  int32_t end = begin;
  while (end < d->npoints && tt_flow_same(&d->points[end]->flow, &d->points[begin]->flow)) end++;
  return end;
}

/* There is no place for 0 bytes. */
static int is_drawn(const struct drawing *d, int32_t begin, int32_t end)
{
  return end > begin && d->points[end - 1]->bytes > 0;
}

/* A colour for what lies between the ranks, and how they talk. */
static int colours_same(const struct tt_flow *a, const struct tt_flow *b)
{
  struct tt_flow one = *a;
  one.flows = b->flows;
  return tt_flow_same(&one, b);
}

/* The flow that begins there is the shape-th of its colour. */
struct style {
  int colour, shape;
};

static struct style style_of(const struct drawing *d, int32_t begin)
{
  const struct tt_flow *flow = &d->points[begin]->flow;
  struct style style = {0, 0};
  int is_own_before = 0;
  for (int32_t at = 0, end; at < begin; at = end) {
    const struct tt_flow *other = &d->points[at]->flow;
    int is_own = colours_same(other, flow);
    int32_t first = 0;
    end = flow_end(d, at);
    while (!colours_same(&d->points[first]->flow, other)) first = flow_end(d, first);
    style.colour += !is_own && !is_own_before && first == at; /* each colour that came before once */
    style.shape += is_own && is_drawn(d, at, end);
    is_own_before |= is_own;
  }
  return style;
}

static void titles_write(const struct drawing *d)
{
  static const char *const colours[COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                               "#56b4e9", "#e69f00", "#000000", "#8c564b"};
  static const int points[SHAPES] = {7, 5, 9, 13, 11}; /* filled ones */
  char text[TT_FLOW_TEXT], look[32], mark[32];
  int nflows = 0;
  for (int32_t begin = 0, end; begin < d->npoints; begin = end) {
    end = flow_end(d, begin);
    if (!is_drawn(d, begin, end)) continue;
    const struct tt_flow *flow = &d->points[begin]->flow;
    struct style style = style_of(d, begin);
    int shape = style.shape % SHAPES;
    snprintf(look, sizeof look, "lc rgb '%s' dt %d", colours[style.colour % COLOURS], shape + 1);
    snprintf(mark, sizeof mark, "pt %d ps 0.6", points[shape]);
    fprintf(d->out, "%s NaN with linespoints %s %s title '", nflows++ ? ", \\\n" : "plot", look, mark);
    quoted_print(tt_flow_text(flow, text), d->out);
    fprintf(d->out, ", %d %s, %s', '-' using 1:2:3:4 with yerrorbars lc rgb '%s' %s notitle, '-' with lines %s notitle",
            (int)flow->flows, flow->flows == 1 ? "pair" : "pairs", flow->ways == 1 ? "one way" : "both ways",
            colours[style.colour % COLOURS], mark, look);
  }
  putc('\n', d->out);
}

/* One line from `low` to `high` bytes, and a gap. */
static void line_write(const struct tt_profile_link *link, double low, double high, FILE *out)
{
  for (double bytes = low;; bytes *= STEP) {
    if (bytes > high) bytes = high;
    fprintf(out, "%.9g %.6g\n", bytes, link->alpha_us + bytes / 1048576 * link->beta_us_per_mib);
    if (bytes >= high) break;
  }
  putc('\n', out);
}

/* The flow's lines as far as it has points; behind *link, which moves on. */
static void lines_write(const struct drawing *d, int32_t begin, int32_t end, int32_t *link)
{
  const struct tt_flow *flow = &d->points[begin]->flow;
  while (begin < end && d->points[begin]->bytes == 0) begin++;
  double low = (double)d->points[begin]->bytes, high = (double)d->points[end - 1]->bytes;
  /* Both are sorted by flow, so links before this one are of flows without points. */
  int32_t at = *link;
  while (at < d->nlinks && !tt_flow_same(&d->links[at]->flow, flow)) at++;
  if (at < d->nlinks) *link = at;
  for (; at < d->nlinks && tt_flow_same(&d->links[at]->flow, flow); at++) {
    double from = (double)d->links[at]->from, to = (double)d->links[at]->to;
    if (from < low) from = low;
    if (to > high) to = high;
    if (from <= to) line_write(d->links[at], from, to, d->out);
    *link = at + 1;
  }
}

static void data_write(const struct drawing *d)
{
  int32_t link = 0;
  for (int32_t begin = 0, end; begin < d->npoints; begin = end) {
    end = flow_end(d, begin);
    if (!is_drawn(d, begin, end)) continue;
    for (int32_t i = begin; i < end; i++)
      if (d->points[i]->bytes)
        fprintf(d->out, "%llu %.6g %.6g %.6g\n", (unsigned long long)d->points[i]->bytes, d->points[i]->us,
                d->points[i]->low_us, d->points[i]->high_us);
    fprintf(d->out, "e\n");
    lines_write(d, begin, end, &link);
    fprintf(d->out, "e\n");
  }
}

static void script_write(const struct drawing *d, const struct tt_profile *profile, const char *svg)
{
  fprintf(d->out, "set terminal svg size %d,%d background 'white' noenhanced\nset output '", WIDTH, HEIGHT);
  quoted_print(svg, d->out);
  fprintf(d->out, "'\nset title '");
  quoted_print(profile->host, d->out);
  fprintf(d->out, "%s", profile->host[0] && profile->cpu[0] ? ", " : "");
  quoted_print(profile->cpu, d->out);
  fprintf(d->out, "'\nset logscale x 2\nset logscale y 10\nset format x '%%.0b%%B'\nset xlabel 'bytes of a message'\n"
                  "set ylabel 'us'\nset grid\nset key outside right Left reverse samplen 3 spacing 1.1 font ',11'\n");
  titles_write(d);
  data_write(d);
}

static tuttiResult_t draw_checked(const struct drawing *d, const struct tt_profile *profile, const char *svg)
{
  struct tt_plain plain;
  int any = 0;
  for (int32_t i = 0; i < d->npoints; i++) any |= d->points[i]->bytes > 0;
  if (!any) return tt_fail(tuttiInvalidUsage, "there are no measured points to draw: have them measured by tutti tune");
  if (!tt_plain_begin(&plain)) return tuttiSystemError;
  script_write(d, profile, svg);
  tt_plain_end(&plain);
  if (ferror(d->out)) return tt_fail(tuttiSystemError, "cannot write a plot: %s", strerror(errno));
  return tuttiSuccess;
}

tuttiResult_t tt_profile_draw(const struct tt_profile *profile, const char *svg, FILE *out)
{
  struct drawing d = {.out = out};
  for (const char *c = svg; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f)
      return tt_fail(tuttiInvalidArgument, "the name of the plot has control characters: give another one");
  const void **points = tt_profile_order(profile, TT_WORD_POINT, &d.npoints);
  const void **links = points ? tt_profile_order(profile, TT_WORD_LINK, &d.nlinks) : NULL;
  d.points = (const void *)points;
  d.links = (const void *)links;
  tuttiResult_t result = links ? draw_checked(&d, profile, svg) : tuttiSystemError;
  tt_free(points);
  tt_free(links);
  return result;
}
