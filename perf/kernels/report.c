/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/utsname.h>
#include <time.h>

#include "kernels.h"

static const char *size_text(char text[32], size_t bytes)
{
  if (bytes >= 1u << 20 && bytes % (1u << 20) == 0) snprintf(text, 32, "%zu MiB", bytes >> 20);
  else snprintf(text, 32, "%.4g KiB", (double)bytes / 1024);
  return text;
}

void head_print(const struct results *results, const struct options *options)
{
  const struct machine *machine = results->machine;
  char date[16], cache[32], set[32];
  time_t now = time(NULL);
  struct utsname system;
  uname(&system);
  strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
  printf("# kernel_perf: reduce kernels,");
  for (int i = 0; tt_reduce_tables[i]; i++)
    if (table_is_wanted(options, tt_reduce_tables[i])) printf(" %s", tt_reduce_tables[i]->name);
  printf(" beside what memory does, on one core\n# %s %s, Linux %s, ", date, machine->model, system.release);
  if (machine->cpu < 0) printf("not kept on one CPU");
  else printf("CPU %d", machine->cpu);
  printf(", load before: %.1f\n# working sets:", machine->load);
  for (int i = 0; i < LEVELS; i++) {
    const struct level *level = &machine->levels[i];
    if (!level->set_bytes) printf(" %s none;", level_names[i]);
    else if (i == MEMORY) printf(" memory %s\n", size_text(set, level->set_bytes));
    else
      printf(" %s %s of %s%s;", level_names[i], size_text(set, level->set_bytes), size_text(cache, level->cache_bytes),
             level->is_assumed ? " (assumed)" : "");
  }
  printf("# medians of %d round%s; GB/s: 10^9 bytes read and written by a call, a second; what a store fetches before\n"
         "# it writes is not counted\n", results->rounds, results->rounds == 1 ? "" : "s");
}

static void limits_print(const struct results *results)
{
  printf("\n%-7s %-11s %8s  %s\n", "level", "limit", "GB/s", "best of its ways");
  for (int level = 0; level < LEVELS; level++)
    for (int limit = 0; limit < LIMITS; limit++) {
      int best = limit_best(results, level, (enum limit)limit);
      double gbs = best < 0 ? 0 : point_gbs(results, level, best);
      if (gbs > 0)
        printf("%-7s %-11s %8.2f  %s\n", level_names[level], limit_names[limit], gbs, results->items->list[best].shape);
    }
}

static double ratio_to(const struct results *results, int level, int item, enum limit limit)
{
  double best = point_gbs(results, level, limit_best(results, level, limit));
  return best > 0 ? point_gbs(results, level, item) / best : 0;
}

static void row_print(const struct results *results, int level, int i)
{
  const struct item *item = &results->items->list[i];
  printf("%-7s %-7s %-9s %-6s %-13s %-5s %8.2f", level_names[level], item->table, tt_type_name(item->type), item->op,
         item->shape, item->in_place ? "in" : "out", point_gbs(results, level, i));
  for (int limit = 0; limit < LIMITS; limit++)
    printf(limit == ACCUMULATE ? " %11.3f" : " %7.3f", ratio_to(results, level, i, (enum limit)limit));
  printf("  %s\n", limit_names[item->own]);
}

void table_print(const struct results *results)
{
  limits_print(results);
  printf("\n%-7s %-7s %-9s %-6s %-13s %-5s %8s %7s %7s %11s  %s\n", "level", "table", "type", "op", "shape", "place",
         "GB/s", "/copy", "/add", "/accumulate", "own");
  for (int level = 0; level < LEVELS; level++)
    for (int i = 0; i < results->items->n; i++) {
      const struct item *item = &results->items->list[i];
      if (point_us(results, level, i) > 0 && item->kind != LIMIT) row_print(results, level, i);
    }
}

static void csv_row(FILE *file, const struct results *results, int level, int i)
{
  const struct item *item = &results->items->list[i];
  const struct point *point = point_of(results, level, i);
  double least = point->us[0], most = point->us[0];
  for (int k = 1; k < point->n; k++) {
    if (point->us[k] < least) least = point->us[k];
    if (point->us[k] > most) most = point->us[k];
  }
  fprintf(file, "%s,%zu,%s,%s,%s,%s,%s,%zu,%zu,%d,%d,%.4f,%.4f,%.4f,%.4f", level_names[level],
          results->machine->levels[level].set_bytes, item->table, tt_type_name(item->type), item->op, item->shape,
          item->in_place ? "in" : "out", point->count, point->count * item_moves(item), point->calls, point->n,
          point_us(results, level, i), least, most, point_gbs(results, level, i));
  for (int limit = 0; limit < LIMITS; limit++)
    fprintf(file, ",%.5f", ratio_to(results, level, i, (enum limit)limit));
  fprintf(file, ",%s\n", limit_names[item->own]);
}

void csv_write(FILE *file, const struct results *results)
{
  fprintf(file, "level,set_bytes,table,type,op,shape,place,elements,bytes_moved,calls,rounds,median_us,min_us,max_us,"
                "gb_per_s,of_copy,of_add,of_accumulate,own\n");
  for (int level = 0; level < LEVELS; level++)
    for (int i = 0; i < results->items->n; i++)
      if (point_us(results, level, i) > 0) csv_row(file, results, level, i);
  fflush(file); /* whatever becomes of the plot */
}
