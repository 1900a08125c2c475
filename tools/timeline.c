/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti timeline`: merges the traces of the ranks of a host. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

static const char *const help =
    "usage: tutti timeline merge [-o TRACE] FILE...\n\n"
    "Merges the traces of the ranks of one host, which TUTTI_TIMELINE made them write, into one for Perfetto\n"
    "(ui.perfetto.dev) and chrome://tracing. For a collective it has arrows from the rank that began last to each\n"
    "rank that waited for it; for a message an arrow from its sender to its receiver. `tutti draw` draws it.\n"
    "Needs python3.\n"
    "  -o, --output TRACE    the merged trace (default: standard output)\n"
    "  -h, --help            this text\n\n"
    "`tutti run` merges the traces by itself. With another launcher, for example:\n"
    "    TUTTI_TIMELINE=step.json mpirun -n 4 ./program\n"
    "    tutti timeline merge step.*.json > all.json\n";

int command_timeline(int argc, char **argv)
{
  for (int a = 1; a < argc; a++)
    if (strcmp(argv[a], "--help") == 0 || strcmp(argv[a], "-h") == 0) return fputs(help, stdout) < 0;
  if (argc < 2 || strcmp(argv[1], "merge") != 0) {
    fprintf(stderr, "tutti timeline: %s%s%s: give \"merge\" and the traces of ranks. Try --help.\n",
            argc < 2 ? "there is nothing to do" : "\"", argc < 2 ? "" : argv[1], argc < 2 ? "" : "\" is no action");
    return 2;
  }
  script_become("timeline", (const char *const *)(argv + 1), argc - 1);
  fprintf(stderr, "tutti timeline: %s\n", script_lacks(errno));
  return 1;
}
