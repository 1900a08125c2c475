/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of `tutti`; each gets its own arguments and returns the exit status. */
#ifndef TUTTI_COMMAND_H
#define TUTTI_COMMAND_H

#include <sys/types.h>

int command_run(int argc, char **argv);
int command_info(int argc, char **argv);

/* ---- output.c: lines of several ranks on one terminal ---- */

#define OUTPUT_LINE 8192

/* One stream of one rank: what was read and is not a whole line yet. */
struct output {
  int from, to; /* from: pipe, -1 when at its end; to: our own stdout or stderr */
  char prefix[16];
  size_t used;
  char line[OUTPUT_LINE];
};

/* Reads what is there and writes whole lines with the prefix; at the end what is left, too. */
void output_pump(struct output *output);

#endif
