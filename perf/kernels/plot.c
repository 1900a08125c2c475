/* SPDX-License-Identifier: BSD-3-Clause */
/* The plot: a panel for each level, a group of bars for each type, a bar for each operation, or for each table where
 * several were measured. */
#include <stdlib.h>

#include "kernels.h"

enum { BARS_MAX = 16 };

struct bars {
  int nsrc, n, by_table;
  const char *names[BARS_MAX]; /* operations or tables */
  const char *op;              /* of all bars, if they are tables */
};

int plot_possible(void)
{
  return system("command -v gnuplot > /dev/null 2>&1") == 0;
}

/* Only what is not converted and not in place is drawn. */
static int is_drawn(const struct bars *bars, const struct item *item)
{
  int is_whole = item->form == WHOLE || item->form == SCALED;
  return item->kind == KERNEL && !item->in_place && item->nsrc == bars->nsrc && is_whole &&
         (!bars->by_table || item->op == bars->op);
}

static void name_add(struct bars *bars, const char *name)
{
  for (int i = 0; i < bars->n; i++)
    if (bars->names[i] == name) return;
  if (bars->n < BARS_MAX) bars->names[bars->n++] = name;
}

/* Two sources if there are such, else the fewest above one. */
static void bars_choose(struct bars *bars, const struct items *items)
{
  const char *table = NULL;
  *bars = (struct bars){.nsrc = SOURCES_MAX + 1};
  for (int i = 0; i < items->n; i++) {
    const struct item *item = &items->list[i];
    if (item->kind != KERNEL) continue;
    if (item->nsrc > 1 && item->nsrc < bars->nsrc) bars->nsrc = item->nsrc;
    if (!bars->op) bars->op = item->op;
    if (table && item->table != table) bars->by_table = 1;
    table = item->table;
  }
  for (int i = 0; i < items->n; i++)
    if (is_drawn(bars, &items->list[i]))
      name_add(bars, bars->by_table ? items->list[i].table : items->list[i].op);
}

/* Ratio to its own limit; 0: not measured. */
static double ratio_of(const struct bars *bars, const struct results *results, int level, int type, const char *name)
{
  for (int i = 0; i < results->items->n; i++) {
    const struct item *item = &results->items->list[i];
    const char *own_name = bars->by_table ? item->table : item->op;
    double gbs = point_gbs(results, level, i);
    if (item->type == type && own_name == name && is_drawn(bars, item) && gbs > 0)
      return gbs / point_gbs(results, level, limit_best(results, level, item->own));
  }
  return 0;
}

static void panel_write(FILE *out, const struct bars *bars, const struct results *results, int level)
{
  fprintf(out, "set title '%s: %d sources%s%s, not in place'\nplot ", level_names[level], bars->nsrc,
          bars->by_table ? ", " : "", bars->by_table ? bars->op : "");
  for (int b = 0; b < bars->n; b++) fprintf(out, "'-' using 2:xtic(1) title '%s', ", bars->names[b]);
  fprintf(out, "1 with lines lc 'black' title 'limit'\n");
  for (int b = 0; b < bars->n; b++) {
    for (int type = 0; type < tuttiNumTypes; type++) {
      double any = 0;
      for (int k = 0; k < bars->n; k++) any += ratio_of(bars, results, level, type, bars->names[k]);
      if (any > 0) fprintf(out, "%s %.4f\n", tt_type_name(type), ratio_of(bars, results, level, type, bars->names[b]));
    }
    fprintf(out, "e\n");
  }
}

static void path_write(FILE *out, const char *path)
{
  fprintf(out, "set output '");
  for (; *path; path++) fprintf(out, *path == '\'' ? "''" : "%c", *path);
  fprintf(out, "'\n");
}

static int is_measured(const struct results *results, int level)
{
  return point_us(results, level, limit_best(results, level, ADD)) > 0;
}

int plot_write(const char *path, const struct results *results)
{
  struct bars bars;
  int npanels = 0;
  bars_choose(&bars, results->items);
  for (int level = 0; level < LEVELS; level++) npanels += is_measured(results, level);
  if (!bars.n) {
    complain("--svg: nothing to draw with one source: give --sources a number above 1");
    return 0;
  }
  FILE *out = popen("gnuplot", "w");
  if (!out) {
    complain("gnuplot does not start");
    return 0;
  }
  fprintf(out, "set terminal svg size 1000,%d background 'white' noenhanced\n", 300 * npanels);
  path_write(out, path);
  fprintf(out, "set style data histograms\nset style histogram clustered gap 1\nset style fill solid 0.8 border -1\n"
               "set yrange [0:*]\nset ylabel 'kernel / its limit'\nset key outside right\nset grid y\n"
               "set multiplot layout %d,1\n", npanels);
  for (int level = 0; level < LEVELS; level++)
    if (is_measured(results, level)) panel_write(out, &bars, results, level);
  fprintf(out, "unset multiplot\n");
  int status = pclose(out);
  if (status) complain("gnuplot ends with %d: %s is not complete", status, path);
  return status == 0;
}
