/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures that matter most, each as a ratio, and nothing else is measured. */
#include <stdlib.h>

#include "kernels.h"

static const struct row {
  const char *what;
  int level;
  struct subject subject;
  enum kind against; /* LIMIT: its own */
} rows[] = {
    {"float sum", MEMORY, {tuttiFloat32, tuttiSum, 2, 0, WHOLE}, LIMIT},
    {"half sum", MEMORY, {tuttiFloat16, tuttiSum, 2, 0, WHOLE}, LIMIT},
    {"bfloat16 sum", MEMORY, {tuttiBfloat16, tuttiSum, 2, 0, WHOLE}, LIMIT},
    {"f8e4m3 sum", MEMORY, {tuttiFloat8e4m3, tuttiSum, 2, 0, WHOLE}, LIMIT},
    {"f8e5m2 sum", MEMORY, {tuttiFloat8e5m2, tuttiSum, 2, 0, WHOLE}, LIMIT},
    {"float sum in place", MEMORY, {tuttiFloat32, tuttiSum, 2, 1, WHOLE}, LIMIT},
    {"half sum in place", MEMORY, {tuttiFloat16, tuttiSum, 2, 1, WHOLE}, LIMIT},
    {"float avg, one scaled", MEMORY, {tuttiFloat32, tuttiAvg, 2, 0, SCALED}, LIMIT},
    {"half avg, one scaled", MEMORY, {tuttiFloat16, tuttiAvg, 2, 0, SCALED}, LIMIT},
    {"half sum", L2, {tuttiFloat16, tuttiSum, 2, 0, WHOLE}, LOOP},
    {"float sum of 4", MEMORY, {tuttiFloat32, tuttiSum, 4, 0, WHOLE}, PASSES},
    {"float sum of 8", MEMORY, {tuttiFloat32, tuttiSum, 8, 0, WHOLE}, PASSES},
    {"half sum of 4", MEMORY, {tuttiFloat16, tuttiSum, 4, 0, WHOLE}, PASSES},
    {"float to half", MEMORY, {tuttiFloat16, tuttiSum, 1, 0, FROM_FLOAT}, LIMIT},
    {"half to float", MEMORY, {tuttiFloat16, tuttiSum, 1, 0, TO_FLOAT}, LIMIT},
    {"float to bfloat16", MEMORY, {tuttiBfloat16, tuttiSum, 1, 0, FROM_FLOAT}, LIMIT},
    {"bfloat16 to float", MEMORY, {tuttiBfloat16, tuttiSum, 1, 0, TO_FLOAT}, LIMIT},
    {"half + float to float", MEMORY, {tuttiFloat16, tuttiSum, 2, 1, BOTH_FLOAT}, LIMIT},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int against_add(struct items *items, const struct tt_reduce_table *table, const struct row *row, int loop)
{
  if (row->against == LOOP) return loop;
  if (row->against == PASSES)
    return item_add_passes(items, table, row->subject.type, row->subject.nsrc, 1u << row->level);
  return -1;
}

static void headlines_of(struct headlines *headlines, struct items *items, const struct tt_reduce_table *table,
                         int loop)
{
  for (int r = 0; r < ROWS; r++) {
    struct headline *headline = &headlines->list[headlines->n++];
    *headline = (struct headline){.row = r};
    headline->item = item_add(items, table, &rows[r].subject, 1u << rows[r].level);
    headline->against = against_add(items, table, &rows[r], loop);
  }
}

int headlines_make(struct headlines *headlines, struct items *items, const struct options *options)
{
  int ntables = 0;
  while (tt_reduce_tables[ntables]) ntables++;
  *items = (struct items){NULL, 0};
  *headlines = (struct headlines){calloc((size_t)ntables * ROWS, sizeof *headlines->list), 0};
  if (!headlines->list) {
    complain("no memory for %d headlines", ntables * ROWS);
    return 0;
  }
  item_add_limits(items, 1u << MEMORY);
  int loop = item_add_loop(items, 1u << L2);
  for (int i = 0; i < ntables; i++)
    if (table_is_wanted(options, tt_reduce_tables[i])) headlines_of(headlines, items, tt_reduce_tables[i], loop);
  return 1;
}

/* Prints the limit that the figure is compared with. */
static void against_print(const struct item *against, double gbs)
{
  static const char *const limits[LIMITS] = {"b = a", "c = a + b", "a += b"};
  char text[32];
  if (against->kind == LIMIT) snprintf(text, sizeof text, "%s", limits[against->own]);
  else if (against->kind == LOOP) snprintf(text, sizeof text, "plain loop");
  else snprintf(text, sizeof text, "%d passes of 2", against->nsrc - 1);
  printf("%-14s %8.2f  %s\n", text, gbs,
         against->kind == LOOP ? loop_name : against->kind == PASSES ? "the same table" : against->shape);
}

void headlines_print(const struct headlines *headlines, const struct results *results)
{
  printf("# GB/s of passes: the bytes of the kernel beside them, in the time they take\n\n");
  printf("%9s  %-7s %-7s %-22s %8s   %-14s %8s  %s\n", "ratio", "level", "table", "kernel", "GB/s", "against", "GB/s",
         "by");
  for (int h = 0; h < headlines->n; h++) {
    const struct headline *headline = &headlines->list[h];
    const struct row *row = &rows[headline->row];
    const struct item *item = &results->items->list[headline->item];
    int against = headline->against < 0 ? limit_best(results, row->level, item->own) : headline->against;
    double gbs = point_gbs(results, row->level, headline->item), other = point_gbs(results, row->level, against);
    if (gbs <= 0 || other <= 0) continue;
    printf("%9.3f  %-7s %-7s %-22s %8.2f   ", gbs / other, level_names[row->level], item->table, row->what, gbs);
    against_print(&results->items->list[against], other);
  }
}
