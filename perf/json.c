/* SPDX-License-Identifier: BSD-3-Clause */
/* The -J file: nccl-tests' keys; of the environment only Tutti's settings, since the rest may hold secrets. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"

static void print_string(FILE *out, const char *text)
{
  fputc('"', out);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
    else if (c < 0x20) fprintf(out, "\\u%04x", c);
    else fputc(c, out);
  }
  fputc('"', out);
}

static void print_environment(FILE *out)
{
  int n = 0;
  for (char **entry = environ; *entry; entry++) {
    if (strncmp(*entry, "TUTTI_", 6) != 0) continue;
    fputs(n++ ? ", " : "", out);
    print_string(out, *entry);
  }
}

static void print_config(FILE *out, const struct report *report)
{
  const struct options *o = report->options;
  fprintf(out, "  \"config\": {\"nthreads\": %d, \"ngpus\": %d, \"minimum_bytes\": %zu, \"maximum_bytes\": %zu, ",
          o->threads, o->gpus, o->min_bytes, o->max_bytes);
  if (o->step_factor > 0) fprintf(out, "\"step_factor\": %g, ", o->step_factor);
  else fprintf(out, "\"step_bytes\": %zu, ", o->step_bytes);
  fprintf(out,
          "\"warmup_iters\": %d, \"iterations\": %d, \"aggregated_iterations\": %d, \"validation\": %d, \"graph\": 0, "
          "\"wire_type\": \"%s\", \"blocking_collectives\": \"false\", \"per_iter_timing\": \"%s\", "
          "\"per_iter_skip\": %d, \"parallel_init\": \"false\", \"devices\": [",
          o->warmup_iters, o->iters, o->agg_iters, o->check, type_names[o->wire_type],
          o->per_iteration ? "true" : "false", o->skip_iterations);
  for (int r = 0; r < report->nranks; r++) {
    const struct device_line *device = &report->devices[r];
    fprintf(out, "%s\n    {\"rank\": %d, \"group\": %d, \"pid\": %d, \"hostname\": ", r ? "," : "", device->rank,
            device->group, device->pid);
    print_string(out, device->host);
    fprintf(out, ", \"device\": 0, \"device_hex\": \"0000:00:00\", \"device_info\": \"host memory\"}");
  }
  fprintf(out, "]},\n");
}

static void print_timing(FILE *out, const struct report *report, const struct row *row, const char *name)
{
  const struct timing *timing = strcmp(name, "in_place") == 0 ? &row->in_place : &row->out_of_place;
  fprintf(out, ", \"%s\": {\"time\": %.9g, \"alg_bw\": %.9g, \"bus_bw\": %.9g, ", name, timing->us,
          algbw_of(report, row, timing), busbw_of(report, row, timing));
  if (timing->wrong < 0) fprintf(out, "\"nwrong\": \"N/A\"}");
  else fprintf(out, "\"nwrong\": %ld}", timing->wrong);
  const double *p = timing->per_iter;
  if (report->options->per_iteration)
    fprintf(out, ", \"%s_per_iter\": {\"min\": %.9g, \"p50\": %.9g, \"p95\": %.9g, \"p99\": %.9g, \"max\": %.9g}", name,
            p[0], p[1], p[2], p[3], p[4]);
}

static void print_all(FILE *out, const struct report *report, const char *error)
{
  int library = 0;
  double wanted, average = report->busbw_n ? report->busbw_sum / (double)report->busbw_n : 0;
  char end_time[32];
  tuttiGetVersion(&library);
  time_text(end_time);
  fprintf(out, "{\n  \"version\": 3,\n  \"start_time\": \"%s\",\n  \"args\": [", report->start_time);
  for (int a = 0; a < report->argc; a++) {
    if (a) fprintf(out, ", ");
    print_string(out, report->argv[a]);
  }
  fprintf(out, "],\n  \"env\": [");
  print_environment(out);
  fprintf(out, "],\n  \"nccl_version\": %d,\n", library);
  print_config(out, report);
  fprintf(out, "  \"results\": [");
  for (size_t i = 0; i < report->nrows; i++) {
    const struct row *row = &report->rows[i];
    fprintf(out, "%s\n    {\"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"redop\": \"%s\", \"root\": \"%d\"",
            i ? "," : "", row->bytes, row->count, type_names[row->type], op_names[row->op], row->root);
    print_timing(out, report, row, "out_of_place");
    print_timing(out, report, row, "in_place");
    fprintf(out, ", \"actual_iterations\": %d, \"experiment_name\": \"\"}", report->options->iters);
  }
  fprintf(out, "],\n  \"out_of_bounds\": {\"count\": %ld, \"okay\": \"%s\"},\n", report->wrong,
          report->wrong ? "false" : "true");
  fprintf(out, "  \"average_bus_bandwidth\": {\"bandwidth\": %.9g, \"okay\": \"%s\"},\n  \"errors\": [", average,
          bandwidth_okay(report, &wanted) ? "true" : "false");
  if (error) print_string(out, error);
  fprintf(out, "],\n  \"end_time\": \"%s\"\n}\n", end_time);
}

/* FILE, or FILE.0, FILE.1 ... if it exists: nothing is overwritten. */
static FILE *open_new(const char *name)
{
  FILE *file = fopen(name, "wxe");
  for (int n = 0; !file && errno == EEXIST && n < 10000; n++) {
    char numbered[4096];
    snprintf(numbered, sizeof numbered, "%s.%d", name, n);
    file = fopen(numbered, "wxe");
  }
  return file;
}

/* Said before hours of measuring, not after them. */
int json_possible(const char *name)
{
  char folder[4096] = ".";
  const char *slash = strrchr(name, '/');
  if (slash) snprintf(folder, sizeof folder, "%.*s", slash == name ? 1 : (int)(slash - name), name);
  if (access(folder, W_OK | X_OK) == 0) return 1;
  fprintf(stderr, "%s: -J is \"%s\": cannot create files in %s: %s\n", program_invocation_short_name, name, folder,
          strerror(errno));
  return 0;
}

int json_write(const struct report *report, const char *error)
{
  const char *program = program_invocation_short_name, *name = report->options->json_file;
  FILE *file = open_new(name);
  if (!file) {
    fprintf(stderr, "%s: cannot create %s: %s\n", program, name, strerror(errno));
    return -1;
  }
  print_all(file, report, error);
  int bad = ferror(file);
  if (fclose(file) != 0 || bad) {
    fprintf(stderr, "%s: cannot write %s: %s\n", program, name, strerror(errno));
    return -1;
  }
  return 0;
}
