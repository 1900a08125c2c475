/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti schedule`: prints or draws what an algorithm does. */
#include <stdio.h>
#include <stdlib.h>

#include "command.h"

static const char *const help =
    "usage: tutti schedule COLLECTIVE --algo NAME -n RANKS [OPTION...]\n\n"
    "Prints the schedule of each rank: a line with the cost, then a line for each step with its action,\n"
    "the blocks of the vector, and source -> destination. Or draws all ranks.\n";
static const char *const own_help =
    "      --count N         elements of the whole vector in all-reduce, reduce and broadcast, else of one\n"
    "                        rank's share (default: one for each block)\n"
    "      --rank R          only this rank (default: all)\n"
    "      --svg FILE        draw ranks against rounds instead (needs python3)\n"
    "      --data            print what --svg draws, as JSON for `tutti draw`\n"
    "  -h, --help            this text\n";

struct asked {
  struct tt_schedule_request request;
  int rank; /* -1: all */
  const char *svg;
  int data;
};

/* The exit status. */
static int complain(const char *sentence)
{
  fflush(stdout);
  fprintf(stderr, "tutti schedule: %s\n", sentence);
  return 1;
}

/* -1: go on; else the exit status. */
static int options_parse(struct asked *asked, int argc, char **argv)
{
  static const struct option options[] = {REQUEST_OPTIONS,
                                          {"count", required_argument, NULL, 'c'},
                                          {"rank", required_argument, NULL, 'R'},
                                          {"svg", required_argument, NULL, 's'},
                                          {"data", no_argument, NULL, 'd'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  const long long counts[] = {1, SIZE_MOST}, ranks[] = {0, RANKS_MOST - 1};
  int option;
  long long number;
  optind = 1;
  while ((option = getopt_long(argc, argv, REQUEST_LETTERS "h", options, NULL)) != -1) {
    int taken = request_option(&asked->request, "schedule", option);
    if (taken < 0) return 2;
    if (taken) continue;
    switch (option) {
    case 'c':
      if (!number_read("schedule", "--count", SIZE, counts, &number)) return 2;
      asked->request.count = (size_t)number;
      break;
    case 'R':
      if (!number_read("schedule", "--rank", DIGITS, ranks, &number)) return 2;
      asked->rank = (int)number;
      break;
    case 's': asked->svg = optarg; break;
    case 'd': asked->data = 1; break;
    case 'h': printf("%s%s%s", help, request_help, own_help); return 0;
    default: return usage_point("schedule");
    }
  }
  return request_collective(&asked->request, "schedule", argc, argv) ? 2 : -1;
}

/* The exit status. */
static int draw(const struct asked *asked)
{
  char *data = NULL;
  size_t len = 0;
  FILE *memory = open_memstream(&data, &len);
  if (!memory) return complain("no memory for a picture");
  progress_begin("schedule", "playing all ranks");
  tuttiResult_t result = tt_schedules_data(&asked->request, memory);
  progress_end();
  int broken = fclose(memory), drawn = 0, refused = 0;
  if (result != tuttiSuccess) refused = refusal_say("schedule", result);
  else if (broken) complain("no memory for a picture");
  else if (asked->svg) drawn = svg_draw("schedule", asked->svg, data, len);
  else drawn = fwrite(data, 1, len, stdout) == len;
  free(data);
  return refused ? refused : !drawn || fflush(stdout);
}

int command_schedule(int argc, char **argv)
{
  struct asked asked = {.rank = -1};
  int parsed = options_parse(&asked, argc, argv);
  if (parsed >= 0) return parsed;
  if (!asked.request.algorithm) asked.request.algorithm = "";
  setenv("TUTTI_DEBUG", "NONE", 0); /* what it logs is said below */
  if (asked.svg || asked.data) return draw(&asked);
  tuttiResult_t result = tt_schedules_print(&asked.request, asked.rank, stdout);
  return result == tuttiSuccess ? 0 : refusal_say("schedule", result);
}
