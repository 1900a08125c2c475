/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

const char *const request_help =
#define TT_KIND(value, called, name, ...) " " name ","
    "COLLECTIVE is one of"
#include "base/collectives.def"
    "\n"
#undef TT_KIND
    "with or without _ or - between words; an unknown algorithm is answered with the names of all.\n\n"
    "      --algo NAME       algorithm\n"
    "  -n, --ranks N         number of ranks (default: those of the topology)\n"
    "      --root R          root rank (default: 0)\n"
    "      --radix K         of algorithms that have one\n"
    "      --middle NAME     the algorithm that a hierarchical one runs among the leaders\n"
    "      --blocks B        blocks of a share (default: the number that the algorithm is made for)\n"
    "      --topology FILE   topology file: which ranks are near each other, and the prices of links\n"
    "      --group-size G    ranks in a group, instead of the groups of the topology\n"
    "      --passes LIST     rewrites, in this order: merge, fuse, channels=N\n";

int number_read(const char *command, const char *option, enum form form, const long long limits[2], long long *value)
{
  size_t number;
  int is_form = form == SIZE || !optarg[strspn(optarg, "0123456789")];
  if (is_form && tuttiReadSize(optarg, &number) == tuttiSuccess && (long long)number >= limits[0] &&
      (long long)number <= limits[1]) {
    *value = (long long)number;
    return 1;
  }
  fprintf(stderr, "tutti %s: %s is \"%s\": give a whole number from %lld to %lld%s\n", command, option, optarg,
          limits[0], limits[1], form == SIZE ? ", such as 50000, 64K, 1.5M or 2GiB" : "");
  return 0;
}

int decimal_read(const char **text, double low, double high, double *value)
{
  char *end;
  size_t len = strspn(*text, "0123456789.eE+-"); /* strtod knows more than decimal numbers */
  *value = strtod(*text, &end);
  if (end == *text || (size_t)(end - *text) > len || !(*value >= low && *value <= high)) return 0;
  *text = end;
  return 1;
}

int link_read(const char *command, double *gbits, double *us)
{
  const char *at = optarg;
  if (decimal_read(&at, 1e-3, 1e6, gbits) && *at++ == ',' && decimal_read(&at, 0, 1e9, us) && !*at) return 1;
  fprintf(stderr, "tutti %s: --link is \"%s\": give GBITS,US: the Gbit/s of a link between nodes, from 0.001 to 1e6, "
          "and the us of a short message, from 0 to 1e9, as in 100,3\n", command, optarg);
  return 0;
}

static int int_read(const char *command, const char *option, int low, int high, int *value)
{
  long long number;
  if (!number_read(command, option, DIGITS, (const long long[]){low, high}, &number)) return -1;
  *value = (int)number;
  return 1;
}

int usage_point(const char *command)
{
  fprintf(stderr, "try `tutti %s --help`\n", command);
  return 2;
}

int refusal_status(tuttiResult_t result)
{
  return result == tuttiInvalidArgument || result == tuttiInvalidUsage ? 2 : 1;
}

int refusal_say(const char *command, tuttiResult_t result)
{
  fflush(stdout);
  fprintf(stderr, "tutti %s: %s\n", command, tuttiGetLastError(NULL));
  return refusal_status(result);
}

int request_option(struct tt_schedule_request *request, const char *command, int option)
{
  switch (option) {
  case 'n': return int_read(command, "-n", 1, RANKS_MOST, &request->nranks);
  case 'r': return int_read(command, "--root", 0, RANKS_MOST - 1, &request->root);
  case 'k': return int_read(command, "--radix", 2, INT_MAX, &request->radix);
  case 'B': return int_read(command, "--blocks", 1, INT_MAX, &request->blocks);
  case 'g': return int_read(command, "--group-size", 1, RANKS_MOST, &request->group_size);
  case 'a': request->algorithm = optarg; return 1;
  case 'm': request->middle = optarg; return 1;
  case 't': request->topology = optarg; return 1;
  case 'p': request->passes = optarg; return 1;
  default: return 0;
  }
}

int request_collective(struct tt_schedule_request *request, const char *command, int argc, char **argv)
{
  request->collective = optind < argc ? argv[optind] : ""; /* a wrong topology is told before that */
  if (optind + 1 >= argc) return 0;
  fprintf(stderr, "tutti %s: one collective at a time; try `tutti %s --help`\n", command, command);
  return 2;
}
