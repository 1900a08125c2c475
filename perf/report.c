/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of nccl-tests on stdout. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perf.h"

void time_text(char text[32])
{
  time_t now = time(NULL);
  struct tm parts;
  localtime_r(&now, &parts);
  strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts);
}

/* A number in at most `width` characters: 2, 1 or no decimals, else with an exponent. */
static const char *fit(char *text, size_t size, double value, int width)
{
  for (int decimals = 2; decimals >= 0; decimals--)
    if (snprintf(text, size, "%.*f", decimals, value) <= width) return text;
  snprintf(text, size, "%.1e", value);
  return text;
}

double algbw_of(const struct report *report, const struct row *row, const struct timing *timing)
{
  double bytes = (double)row->bytes;
  if (report->options->collective->skips_own) bytes *= (double)(report->nranks - 1) / report->nranks;
  return timing->us > 0 ? bytes / 1e3 / timing->us : 0;
}

double busbw_of(const struct report *report, const struct row *row, const struct timing *timing)
{
  return algbw_of(report, row, timing) * bus_factor(report->options->collective, report->nranks);
}

static void print_step(const struct options *o)
{
  if (o->step_factor > 0) printf("%g(factor)", o->step_factor);
  else printf("%zu(bytes)", o->step_bytes);
}

void report_head(struct report *report)
{
  const struct options *o = report->options;
  int library = 0;
  tuttiGetVersion(&library);
  time_text(report->start_time);
  printf("# tutti-tests version %d.%d.%d tutti-headers=%d tutti-library=%d\n", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH,
         TUTTI_VERSION_CODE, library);
  printf("# Collective test starting: %s\n", o->program);
  printf("# nThread %d nGpus %d minBytes %zu maxBytes %zu step: ", o->threads, o->gpus, o->min_bytes, o->max_bytes);
  print_step(o);
  printf(" warmup iters: %d iters: %d agg iters: %d validation: %d graph: 0 unalign: %d\n", o->warmup_iters, o->iters,
         o->agg_iters, o->check, o->unalign);
  if (o->wire_type != tuttiFloat32 && collective_reduces(o->collective))
    printf("# float travels as %s; sizes and bandwidths count the caller's bytes\n", type_names[o->wire_type]);
  if (o->codec) printf("# floats travel by the codec %s; sizes and bandwidths count the caller's bytes\n", o->codec);
  if (o->ignored[0]) {
    printf("# without meaning here:");
    for (const char *letter = o->ignored; *letter; letter++) printf(" -%c", *letter);
    printf("\n");
  }
  printf("#\n# Using devices\n");
  for (int r = 0; r < report->nranks; r++)
    printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", r, report->devices[r].group,
           report->devices[r].pid, report->devices[r].host, 0, 0, 0, 0, "host memory");
  const char *gap = o->per_iteration ? "                " : "";
  const char *more = o->per_iteration ? "     p50     p99" : "";
  const char *unit = o->per_iteration ? "    (us)    (us)" : "";
  printf("#\n#                                                              out-of-place%s"
         "                       in-place\n",
         gap);
  printf("#       size         count      type   redop    root     time   algbw   busbw  #wrong%s"
         "     time   algbw   busbw  #wrong%s\n",
         more, more);
  printf("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        %s      (us)  (GB/s)"
         "  (GB/s)        %s\n",
         unit, unit);
  fflush(stdout);
}

static void print_half(struct report *report, const struct row *row, const struct timing *timing)
{
  char us[32], algbw[32], busbw[32];
  printf("  %7s  %6s  %6s", fit(us, sizeof us, timing->us, 7),
         fit(algbw, sizeof algbw, algbw_of(report, row, timing), 6),
         fit(busbw, sizeof busbw, busbw_of(report, row, timing), 6));
  if (timing->wrong < 0) printf("     N/A");
  else printf("  %6g", (double)timing->wrong);
  if (report->options->per_iteration)
    printf("  %6s  %6s", fit(us, sizeof us, timing->per_iter[1], 6), fit(algbw, sizeof algbw, timing->per_iter[3], 6));
  report->busbw_sum += busbw_of(report, row, timing);
  report->busbw_n++;
  if (timing->wrong > 0) report->wrong += timing->wrong;
}

void report_row(struct report *report, const struct row *row)
{
  printf("%12zu  %12zu  %8s  %6s  %6d", row->bytes, row->count, type_names[row->type], op_names[row->op], row->root);
  print_half(report, row, &row->out_of_place);
  print_half(report, row, &row->in_place);
  printf("\n");
  fflush(stdout);
  if (!report->options->json_file) return; /* only that file needs them; with -N 0 they would never end */
  if (report->nrows == report->room) {
    size_t room = report->room ? 2 * report->room : 64;
    struct row *rows = realloc(report->rows, room * sizeof *rows);
    if (!rows) return; /* the table is printed; only the JSON file will miss it */
    report->rows = rows;
    report->room = room;
  }
  report->rows[report->nrows++] = *row;
}

int bandwidth_okay(const struct report *report, double *wanted)
{
  const char *text = getenv("NCCL_TESTS_MIN_BW");
  *wanted = text ? strtod(text, NULL) : -1;
  double average = report->busbw_n ? report->busbw_sum / (double)report->busbw_n : 0;
  return *wanted < 0 || average >= 0.9 * *wanted;
}

int report_end(struct report *report, const char *error)
{
  double wanted, average = report->busbw_n ? report->busbw_sum / (double)report->busbw_n : 0;
  int okay = bandwidth_okay(report, &wanted);
  printf("# %-20s : %ld %s\n", "Out of bounds values", report->wrong, report->wrong ? "FAILED" : "OK");
  printf("# %-20s : %g %s\n", "Avg bus bandwidth", average, wanted < 0 ? "" : okay ? "OK" : "FAILED");
  printf("#\n# Collective test concluded: %s\n#\n", report->options->program);
  if (error) printf("# error: %s\n", error);
  else printf("\n");
  fflush(stdout);
  int status = report->wrong || !okay || error ? 1 : 0;
  if (report->options->json_file && json_write(report, error) != 0) status = 1;
  free(report->rows);
  return status;
}
