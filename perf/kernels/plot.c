/* SPDX-License-Identifier: BSD-3-Clause */
/* The picture: a panel for each level, a row for each type, a column for each operation, or for each table where
 * several were measured. `tutti draw` draws it. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels.h"

enum { COLUMNS_MAX = 16 };

struct columns {
  int nsrc, n, by_table;
  const char *names[COLUMNS_MAX]; /* operations or tables */
  const char *op;              /* of all columns, if they are tables */
};

int plot_possible(void)
{
  return system("command -v python3 > /dev/null 2>&1") == 0;
}

/* Only what is not converted and not in place is drawn. */
static int is_drawn(const struct columns *columns, const struct item *item)
{
  int is_whole = item->form == WHOLE || item->form == SCALED;
  return item->kind == KERNEL && !item->in_place && item->nsrc == columns->nsrc && is_whole &&
         (!columns->by_table || item->op == columns->op);
}

static void name_add(struct columns *columns, const char *name)
{
  for (int i = 0; i < columns->n; i++)
    if (columns->names[i] == name) return;
  if (columns->n < COLUMNS_MAX) columns->names[columns->n++] = name;
}

/* Two sources if there are such, else the fewest above one. */
static void columns_choose(struct columns *columns, const struct items *items)
{
  const char *table = NULL;
  *columns = (struct columns){.nsrc = SOURCES_MAX + 1};
  for (int i = 0; i < items->n; i++) {
    const struct item *item = &items->list[i];
    if (item->kind != KERNEL) continue;
    if (item->nsrc > 1 && item->nsrc < columns->nsrc) columns->nsrc = item->nsrc;
    if (!columns->op) columns->op = item->op;
    if (table && item->table != table) columns->by_table = 1;
    table = item->table;
  }
  for (int i = 0; i < items->n; i++)
    if (is_drawn(columns, &items->list[i]))
      name_add(columns, columns->by_table ? items->list[i].table : items->list[i].op);
}

/* Ratio to its own limit; 0: not measured. */
static double ratio_of(const struct columns *columns, const struct results *results, int level, int type,
                       const char *name)
{
  for (int i = 0; i < results->items->n; i++) {
    const struct item *item = &results->items->list[i];
    const char *own_name = columns->by_table ? item->table : item->op;
    double gbs = point_gbs(results, level, i);
    if (item->type == type && own_name == name && is_drawn(columns, item) && gbs > 0)
      return gbs / point_gbs(results, level, limit_best(results, level, item->own));
  }
  return 0;
}

static void row_write(FILE *out, const struct columns *columns, const struct results *results, int level, int type)
{
  for (int b = 0; b < columns->n; b++) {
    double ratio = ratio_of(columns, results, level, type, columns->names[b]);
    if (ratio > 0) fprintf(out, "%s[%.4f, null]", b ? ", " : "", ratio);
    else fprintf(out, "%snull", b ? ", " : "");
  }
}

static int is_in(const struct columns *columns, const struct results *results, int level, int type)
{
  for (int b = 0; b < columns->n; b++)
    if (ratio_of(columns, results, level, type, columns->names[b]) > 0) return 1;
  return 0;
}

static void panel_write(FILE *out, const struct columns *columns, const struct results *results, int level)
{
  const char *comma = "";
  fprintf(out, "{\"title\": \"%s: %d sources%s%s, not in place\", \"columns\": [", level_names[level], columns->nsrc,
          columns->by_table ? ", " : "", columns->by_table ? columns->op : "");
  for (int b = 0; b < columns->n; b++) fprintf(out, "%s\"%s\"", b ? ", " : "", columns->names[b]);
  fprintf(out, "], \"rows\": [");
  for (int type = 0; type < tuttiNumTypes; type++)
    if (is_in(columns, results, level, type)) {
      fprintf(out, "%s\"%s\"", comma, tt_type_name(type));
      comma = ", ";
    }
  fprintf(out, "], \"cells\": [");
  comma = "";
  for (int type = 0; type < tuttiNumTypes; type++)
    if (is_in(columns, results, level, type)) {
      fprintf(out, "%s[", comma);
      row_write(out, columns, results, level, type);
      fprintf(out, "]");
      comma = ", ";
    }
  fprintf(out, "]}");
}

/* `tutti draw` of the folder in which this program is. NULL: errno says why. */
static FILE *draw_open(const char *svg)
{
  char self[PATH_MAX], command[6 * PATH_MAX] = "";
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  self[len > 0 ? len : 0] = 0;
  char *end = strrchr(self, '/');
  if (end) strcpy(end, "/tutti");
  const char *const words[] = {self, "draw", "-o", svg};
  size_t used = 0;
  for (int w = 0; w < 4; w++) {
    command[used++] = '\'';
    for (const char *c = words[w]; *c && used + 16 < sizeof command; c++)
      used += (size_t)sprintf(command + used, *c == '\'' ? "'\\''" : "%c", *c);
    used += (size_t)sprintf(command + used, "' ");
  }
  return popen(command, "w");
}

static int is_measured(const struct results *results, int level)
{
  return point_us(results, level, limit_best(results, level, ADD)) > 0;
}

int plot_write(const char *path, const struct results *results)
{
  struct columns columns;
  char date[16];
  time_t now = time(NULL);
  int npanels = 0;
  columns_choose(&columns, results->items);
  if (!columns.n) {
    complain("--svg: nothing to draw with one source: give --sources a number above 1");
    return 0;
  }
  FILE *out = draw_open(path);
  if (!out) {
    complain("--svg: tutti draw does not start: %s", strerror(errno));
    return 0;
  }
  strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
  fprintf(out, "{\"picture\": \"table\", \"title\": \"Reduce kernels: speed / that of their limit\", \"note\": \"%s, "
               "%s, one core; medians of %d round%s\", \"good\": 1, \"bad\": 0.2, \"legend\": \"1.00: as fast as the "
               "fastest way to move as many bytes there\", \"panels\": [", date, results->machine->model,
          results->rounds, results->rounds == 1 ? "" : "s");
  for (int level = 0; level < LEVELS; level++)
    if (is_measured(results, level)) {
      if (npanels++) fprintf(out, ",\n");
      panel_write(out, &columns, results, level);
    }
  fprintf(out, "]}\n");
  int status = pclose(out);
  if (status) complain("tutti draw ends with %d: %s is not complete", status, path);
  return status == 0;
}
