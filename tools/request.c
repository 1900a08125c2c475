/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

const char *const request_help =
    "COLLECTIVE is allreduce, reduce, broadcast, reducescatter, allgather, alltoall, gather or\n"
    "scatter, with or without _ or - between words; an unknown algorithm is answered with the names of all.\n\n"
    "      --algo NAME       algorithm\n"
    "  -n, --ranks N         number of ranks (default: those of the topology)\n"
    "      --root R          root rank (default: 0)\n"
    "      --radix K         of algorithms that have one\n"
    "      --middle NAME     what a hierarchical algorithm runs among the leaders\n"
    "      --blocks B        cuts of a share (default: what the algorithm is made for)\n"
    "      --topology FILE   who is near whom, and the prices of links\n"
    "      --group-size G    ranks in a group, where the topology tells of no groups\n"
    "      --passes LIST     rewrites, in this order: merge, fuse, channels=N\n";

int number_read(const char *command, const char *option, long long low, int has_suffix, long long *value)
{
  size_t number;
  int has_digits_only = !optarg[strspn(optarg, "0123456789")];
  if ((has_suffix || has_digits_only) && tuttiReadSize(optarg, &number) == tuttiSuccess && (long long)number >= low) {
    *value = (long long)number;
    return 1;
  }
  fprintf(stderr, "tutti %s: %s is \"%s\": give a number from %lld on%s\n", command, option, optarg, low,
          has_suffix ? ", with K, M or G if you like" : "");
  return 0;
}

static int int_read(const char *command, const char *option, int low, int *value)
{
  long long number;
  if (!number_read(command, option, low, 0, &number)) return -1;
  *value = number > INT_MAX ? INT_MAX : (int)number;
  return 1;
}

int request_option(tuttiScheduleRequest_t *request, const char *command, int option)
{
  switch (option) {
  case 'n': return int_read(command, "-n", 1, &request->nranks);
  case 'r': return int_read(command, "--root", 0, &request->root);
  case 'k': return int_read(command, "--radix", 2, &request->radix);
  case 'B': return int_read(command, "--blocks", 1, &request->blocks);
  case 'g': return int_read(command, "--group-size", 1, &request->group_size);
  case 'a': request->algorithm = optarg; return 1;
  case 'm': request->middle = optarg; return 1;
  case 't': request->topology = optarg; return 1;
  case 'p': request->passes = optarg; return 1;
  default: return 0;
  }
}

int request_collective(tuttiScheduleRequest_t *request, const char *command, int argc, char **argv)
{
  if (optind + 1 == argc) {
    request->collective = argv[optind];
    return 0;
  }
  fprintf(stderr, "tutti %s: %s; try `tutti %s --help`\n", command,
          optind < argc ? "one collective at a time" : "which collective?", command);
  return 2;
}
