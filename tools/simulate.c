/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti simulate`: what algorithms take on a machine that need not exist. */
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"

#define MAX_ROWS 64
#define SENTENCE_BYTES 512
#define PRICE_MOST 1e12 /* us */
#define STEPS_MOST 100000000000 /* more would take days */

static const char *const help =
    "usage: tutti simulate COLLECTIVE --algo NAME[,NAME...]|all -n RANKS [OPTION...]\n\n"
    "Simulates (plays) the schedules of all ranks. A rank sends one message and receives one at a time; a message\n"
    "takes alpha us, and beta us for each MiB; combining takes gamma us for each MiB.\n"
    "Prints the time of each algorithm, the fastest first, beside a bound: the larger of alpha times the\n"
    "doublings that reach all ranks and beta times the bytes that a rank has to send, which is for an all-reduce\n"
    "max(ceil(log2 P) alpha, 2 (P - 1) / P M beta). (Short vectors may take less than the first of these, because\n"
    "messages that are sent one after the other travel at the same time.)\n";
static const char *const own_help =
    "  -b, --bytes B         the whole vector in all-reduce, reduce and broadcast, else one rank's share, in\n"
    "                        elements of 4 bytes (default: 1M)\n"
    "      --counts LIST     the number of elements of 4 bytes in each rank's share, separated by commas, for an\n"
    "                        all-gather or a reduce-scatter with counts (instead of --bytes)\n"
    "      --alpha US        for a message\n"
    "      --beta US         for each MiB sent\n"
    "      --gamma US        for each MiB combined. If one of these three is given, all links are the same, and\n"
    "                        the others are 0; if none is given, the topology says them, or the network has 10 Gbit/s\n"
    "      --link GBITS,US   links between nodes: Gbit/s, and the time of a short message (default: those of the\n"
    "                        topology, or 10,12)\n"
    "      --block-bytes B   longer vectors are cut into segments of such blocks (default: never)\n"
    "      --lanes L         segments under way at once (default: 1)\n"
    "  -h, --help            this text\n";

/* One algorithm. */
struct row {
  char name[64];
  tuttiResult_t result;
  char why[SENTENCE_BYTES]; /* it was not simulated */
  struct tt_simulated got;
  double seconds;
  long memory_kib;
};

struct asked {
  struct tt_schedule_request request;
  struct tt_simulation how;
  size_t bytes;
  size_t *counts; /* of --counts; NULL: none */
  const char *name; /* of the row that is running */
  double start, played; /* seconds; when it began, when it began to play */
};

static double now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- options ---- */

static int price_read(const char *option, double *price, int *uniform)
{
  const char *at = optarg;
  *uniform = 1;
  if (decimal_read(&at, 0, PRICE_MOST, price) && !*at) return 1;
  fprintf(stderr, "tutti simulate: %s is \"%s\": give microseconds from 0 to %g\n", option, optarg, PRICE_MOST);
  return 0;
}

/* Reads optarg. 0 and a message: it is no list. */
static int counts_read(struct asked *asked)
{
  int n = 1;
  for (const char *at = optarg; *at; at++) n += *at == ',';
  free(asked->counts);
  asked->request.ncounts = 0;
  asked->counts = calloc((size_t)n, sizeof *asked->counts);
  if (!asked->counts) return 0;
  for (char *rest = optarg, *text; (text = strsep(&rest, ","));) {
    if (tuttiReadSize(text, &asked->counts[asked->request.ncounts++]) == tuttiSuccess) continue;
    fprintf(stderr, "tutti simulate: --counts has \"%s\": give whole numbers, such as 5,0,64K\n", text);
    return 0;
  }
  asked->request.counts = asked->counts;
  return 1;
}

/* 1: taken, 0: wrong, -1: is none of these. */
static int option_take(struct asked *asked, int option)
{
  struct tt_simulation *how = &asked->how;
  const long long sizes[] = {1, SIZE_MOST}, lanes[] = {1, INT_MAX};
  long long number;
  switch (option) {
  case 'A': return price_read("--alpha", &how->alpha_us, &how->uniform);
  case 'E': return price_read("--beta", &how->beta_us_per_mib, &how->uniform);
  case 'G': return price_read("--gamma", &how->gamma_us_per_mib, &how->uniform);
  case 'b':
    if (!number_read("simulate", "--bytes", SIZE, sizes, &number)) return 0;
    asked->bytes = (size_t)number;
    return 1;
  case 'K': return link_read("simulate", &how->link_gbits, &how->link_us);
  case 'C': return counts_read(asked);
  case 'L':
    if (!number_read("simulate", "--block-bytes", SIZE, sizes, &number)) return 0;
    how->block_bytes = (size_t)number;
    return 1;
  case 'l':
    if (!number_read("simulate", "--lanes", DIGITS, lanes, &number)) return 0;
    how->lanes = (int)number;
    return 1;
  default: return -1;
  }
}

/* -1: go on; else the exit status. */
static int options_parse(struct asked *asked, int argc, char **argv)
{
  static const struct option options[] = {REQUEST_OPTIONS,
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"counts", required_argument, NULL, 'C'},
                                          {"alpha", required_argument, NULL, 'A'},
                                          {"beta", required_argument, NULL, 'E'},
                                          {"gamma", required_argument, NULL, 'G'},
                                          {"link", required_argument, NULL, 'K'},
                                          {"block-bytes", required_argument, NULL, 'L'},
                                          {"lanes", required_argument, NULL, 'l'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  int option;
  optind = 1;
  while ((option = getopt_long(argc, argv, REQUEST_LETTERS "b:h", options, NULL)) != -1) {
    int taken = request_option(&asked->request, "simulate", option);
    if (taken < 0) return 2;
    if (taken) continue;
    taken = option_take(asked, option);
    if (taken == 0) return 2;
    if (taken > 0) continue;
    if (option != 'h') return usage_point("simulate");
    printf("%s%s%s", help, request_help, own_help);
    return 0;
  }
  if (asked->how.uniform && asked->how.link_gbits > 0) {
    fprintf(stderr, "tutti simulate: --link is given, and --alpha, --beta or --gamma, by which all links are alike: "
                    "leave one of both out\n");
    return 2;
  }
  return request_collective(&asked->request, "simulate", argc, argv) ? 2 : -1;
}

/* ---- runs ---- */

/* "about 3 min" */
static const char *time_text(char text[32], double seconds)
{
  static const struct {
    double seconds;
    const char *name;
  } units[] = {{86400, "days"}, {3600, "h"}, {60, "min"}, {1, "s"}};
  int u = 0;
  while (u < 3 && seconds < 2 * units[u].seconds) u++;
  snprintf(text, 32, "about %.0f %s", seconds / units[u].seconds, units[u].name);
  return text;
}

static void making_say(void *context, int made, int64_t steps)
{
  struct asked *asked = context;
  char left[32];
  int nranks = asked->request.nranks;
  asked->played = now();
  if (!nranks) progress_set("%s: making schedules, then about %.2g steps", asked->name, (double)steps);
  else
    progress_set("%s: schedule %d of %d, %s left; then about %.2g steps", asked->name, made, nranks,
                 time_text(left, (asked->played - asked->start) / made * (nranks - made)), (double)steps);
}

static void progress_say(void *context, int64_t steps, int64_t total, double time_us)
{
  struct asked *asked = context;
  char left[32];
  double seconds = now() - asked->played;
  if (steps) time_text(left, seconds / (double)steps * (double)(total - steps));
  progress_set("%s: %.1f %% of %.3g million steps, %s left; %.6g ms played", asked->name,
               total ? 100.0 * (double)steps / (double)total : 100, (double)total / 1e6, steps ? left : "none",
               time_us / 1000);
}

/* The most memory this process had since the last call; -1: unknown. */
static long memory_peak(void)
{
  char line[128];
  long kib = -1;
  FILE *file = fopen("/proc/self/status", "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
  if (file) fclose(file);
  malloc_trim(0);
  file = fopen("/proc/self/clear_refs", "we");
  if (file) {
    fputs("5", file);
    fclose(file);
  }
  return kib;
}

static void row_run(struct asked *asked, struct row *row)
{
  asked->request.algorithm = asked->name = row->name;
  asked->how.progress = progress_say;
  asked->how.making = making_say;
  asked->how.most_steps = STEPS_MOST;
  asked->how.context = asked;
  memory_peak();
  asked->start = asked->played = now();
  progress_begin("simulate", row->name);
  row->result = tt_schedules_simulate(&asked->request, &asked->how, &row->got);
  row->seconds = now() - asked->start;
  progress_end();
  row->memory_kib = memory_peak();
  if (row->result != tuttiSuccess) snprintf(row->why, sizeof row->why, "%s", tuttiGetLastError(NULL));
}

/* The names of --algo, or of all algorithms; how many. */
static int rows_make(const struct asked *asked, struct row *rows)
{
  const char *name, *at = asked->request.algorithm;
  int n = 0;
  if (at && strcmp(at, "all") == 0) {
    while (n < MAX_ROWS && (name = tt_algorithm_name(asked->request.collective, n)))
      snprintf(rows[n++].name, sizeof rows[0].name, "%s", name);
    if (n) return n;
  }
  do {
    size_t len = at ? strcspn(at, ",") : 0;
    snprintf(rows[n++].name, sizeof rows[0].name, "%.*s", (int)len, at ? at : "");
    at = at && at[len] ? at + len + 1 : NULL;
  } while (at && n < MAX_ROWS);
  return n;
}

static int is_slower(const void *a, const void *b)
{
  const struct row *one = a, *other = b;
  if (one->result != other->result) return one->result < other->result ? -1 : 1;
  if (one->got.time_us != other->got.time_us) return one->got.time_us < other->got.time_us ? -1 : 1;
  return strcmp(one->name, other->name);
}

/* An error that says nothing of other rows: this algorithm, or a pass on it, is not possible here. */
static int is_the_rows_own(tuttiResult_t result)
{
  return result == tuttiInvalidUsage || result == tuttiInternalError;
}

static void rows_print(const struct row *rows, int n, int is_uniform)
{
  if (!is_uniform && rows[0].result == tuttiSuccess)
    printf("# between nodes %.3g Gbit/s, %.3g us a short message; --link GBITS,US, --topology or --alpha: others\n",
           rows[0].got.link_gbits, rows[0].got.link_us);
  printf("%-22s %14s %14s %7s %12s %12s %8s %10s\n", "# algorithm", "time us", "bound us", "ratio", "messages", "steps",
         "Msteps/s", "peak MiB");
  for (int r = 0; r < n; r++) {
    const struct tt_simulated *got = &rows[r].got;
    if (rows[r].result != tuttiSuccess) {
      printf("# %s\n", rows[r].why);
      continue;
    }
    printf("%-22s %14.3f %14.3f %7.3f %12lld %12lld %8.2f %10.1f\n", rows[r].name, got->time_us, got->bound_us,
           got->bound_us > 0 ? got->time_us / got->bound_us : 1, (long long)got->messages, (long long)got->steps,
           (double)got->steps / rows[r].seconds / 1e6, (double)rows[r].memory_kib / 1024);
  }
}

int command_simulate(int argc, char **argv)
{
  struct asked asked = {.bytes = 1 << 20};
  int parsed = options_parse(&asked, argc, argv), failed = 0;
  if (parsed >= 0) {
    free(asked.counts);
    return parsed;
  }
  struct row *rows = calloc(MAX_ROWS, sizeof *rows);
  if (!rows) {
    free(asked.counts);
    return 1;
  }
  setenv("TUTTI_DEBUG", "NONE", 0); /* what it logs is said below */
  asked.request.element_bytes = 4;
  asked.request.count = (asked.bytes + 3) / 4;
  int n = rows_make(&asked, rows), is_all = asked.request.algorithm && strcmp(asked.request.algorithm, "all") == 0;
  for (int r = 0; r < n && !failed; r++) {
    row_run(&asked, &rows[r]);
    int is_refused = rows[r].result != tuttiSuccess && !(is_all && is_the_rows_own(rows[r].result));
    failed = is_refused ? refusal_status(rows[r].result) : 0;
    if (failed) fprintf(stderr, "tutti simulate: %s\n", rows[r].why);
  }
  qsort(rows, (size_t)n, sizeof rows[0], is_slower);
  if (!failed) rows_print(rows, n, asked.how.uniform);
  free(rows);
  free(asked.counts);
  return failed;
}
