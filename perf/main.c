/* SPDX-License-Identifier: BSD-3-Clause */
/* Times one of Tutti's collectives: PERF_PROGRAM, a row of the table in collectives.c. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

/* Passes options on as settings of the library, which refuses values that it does not know. */
static void settings_apply(const struct options *options)
{
  char algo[4096];
  if (options->algo) {
    snprintf(algo, sizeof algo, "%s:%s", options->collective->algo_name, options->algo);
    setenv("TUTTI_ALGO", algo, 1);
  }
  if (options->radix) setenv("TUTTI_RADIX", options->radix, 1);
  if (options->wire) setenv("TUTTI_WIRE_TYPE", options->wire, 1);
  if (options->deterministic) setenv("TUTTI_DETERMINISTIC", "1", 1);
  if (options->transport) setenv("TUTTI_TRANSPORTS", options->transport, 1);
}

static int ranks_check(const struct options *options, const tuttiLaunch_t *launch)
{
  int nranks = launch->nprocs * options->threads * options->gpus, is_first = launch->proc == 0;
  int is_root_wrong = collective_has_root(options->collective) && options->root >= nranks;
  int is_number_wrong = options->collective->needs_power_of_two && nranks & (nranks - 1);
  if (is_root_wrong && is_first)
    fprintf(stderr, "%s: -r is %d: give a rank from 0 to %d, or all\n", options->program, options->root, nranks - 1);
  if (is_number_wrong && is_first)
    fprintf(stderr, "%s: there are %d ranks: start a power of two, as a hypercube has\n", options->program, nranks);
  return !is_root_wrong && !is_number_wrong;
}

int main(int argc, char **argv)
{
  struct options options;
  tuttiLaunch_t launch;
  tuttiResult_t launched = tuttiGetLaunch(&launch);
  opterr = launched != tuttiSuccess || launch.proc == 0; /* once is enough */
  int parsed = options_parse(&options, collective_find(PERF_PROGRAM), argc, argv);
  if (parsed >= 0) return parsed;
  settings_apply(&options);
  if (launched != tuttiSuccess) {
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, tuttiGetErrorString(launched));
    return 1;
  }
  if (!ranks_check(&options, &launch)) return 2;
  if (options.json_file && launch.proc == 0 && !json_possible(options.json_file)) return 1;
  struct report report = {.options = &options, .argc = argc, .argv = argv};
  int status = ranks_run(&options, &launch, &report);
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fprintf(stderr, "%s: the output cannot be written: %s\n", options.program, strerror(errno));
  return status ? status : 1;
}
