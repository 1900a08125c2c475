/* SPDX-License-Identifier: BSD-3-Clause */
/* GB/s of every reduce kernel beside what memory does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

/* The levels of `options` that this machine has; 0 if none, told already. */
static int levels_keep(struct options *options, const struct machine *machine)
{
  for (int level = 0; level < LEVELS; level++)
    if (!machine->levels[level].set_bytes) options->levels &= ~(1u << level);
  if (!options->levels) complain("--levels: this machine has none of these caches");
  return options->levels != 0;
}

/* Measures and tells. 0 on failure. */
static int go(const struct options *options, const struct machine *machine, FILE *csv)
{
  struct items items;
  struct headlines headlines = {NULL, 0};
  struct results results = {.machine = machine, .items = &items};
  int is_well = 1;
  if (options->headline) is_well = headlines_make(&headlines, &items, options);
  else items_make(&items, options);
  is_well = is_well && measure(&results, options);
  if (is_well) {
    head_print(&results, options);
    if (options->headline) headlines_print(&headlines, &results);
    else table_print(&results);
    if (csv) csv_write(csv, &results);
    if (options->svg) is_well = plot_write(options->svg, &results);
  }
  free(headlines.list);
  free(results.points);
  free(items.list);
  return is_well;
}

/* Before anything is measured for it. NULL: told already. */
static FILE *file_open(const char *flag, const char *path)
{
  FILE *file = fopen(path, "w");
  if (!file) complain("%s %s: %s", flag, path, strerror(errno));
  return file;
}

int main(int argc, char **argv)
{
  struct options options;
  struct machine machine;
  int parsed = options_parse(&options, argc, argv);
  if (parsed >= 0) return parsed;
  machine_read(&machine, options.quick);
  if (!levels_keep(&options, &machine)) return 2;
  if (options.svg && !plot_possible()) {
    complain("--svg: no plot without python3, which draws");
    options.svg = NULL;
  }
  FILE *svg = options.svg ? file_open("--svg", options.svg) : NULL;
  FILE *csv = options.csv ? file_open("--csv", options.csv) : NULL;
  if ((options.svg && !svg) || (options.csv && !csv)) return 2;
  if (svg) fclose(svg); /* tutti draw writes it */
  int is_well = go(&options, &machine, csv);
  if (csv && fclose(csv)) {
    complain("--csv %s: %s", options.csv, strerror(errno));
    is_well = 0;
  }
  if (fflush(stdout) || ferror(stdout)) {
    complain("the output cannot be written: %s", strerror(errno));
    is_well = 0;
  }
  return is_well ? 0 : 1;
}
