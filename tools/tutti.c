/* SPDX-License-Identifier: BSD-3-Clause */
/* The `tutti` command: dispatches to its subcommands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "profile/profile.h"
#include "tutti_tools.h"

static int command_version(int argc, char **argv)
{
  int help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
  if (help) printf("usage: tutti version\n\nPrints the version of Tutti.\n");
  else if (argc > 1) fprintf(stderr, "tutti version: \"%s\" is too much: nothing is taken\n", argv[1]);
  else printf("tutti %d.%d.%d\n", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
  return argc > 1 && !help ? 2 : 0;
}

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help;
} commands[] = {
    {"run", command_run, "start ranks, here or on other hosts: tutti run -n 4 -- PROGRAM [ARGUMENT...]"},
    {"info", command_info, "version, settings, hardware, and which transports are usable"},
    {"status", command_status, "what running jobs are doing, and which rank holds them up: tutti status PID"},
    {"doctor", command_doctor, "whether hosts are ready for a job, and what to set: tutti doctor HOST..."},
    {"schedule", command_schedule, "print or draw what an algorithm does: tutti schedule allreduce --algo ring -n 4"},
    {"simulate", command_simulate, "its time on any machine, by simulation: tutti simulate allreduce --algo all -n 64"},
    {"profile", command_profile, "show, draw, check or print the profile of a machine: tutti profile show FILE"},
    {"tune", command_tune, "measure this machine, or a job's, into a profile to choose by"},
    {"explain", command_explain, "which algorithm is chosen, and why: tutti explain allreduce 12 ranks 3 nodes 1MiB"},
    {"draw", command_draw, "draw a trace, a profile, or what others print as data: tutti draw -o SVG < FILE"},
    {"timeline", command_timeline, "merge the traces of a host's ranks: tutti timeline merge FILE... > TRACE"},
    {"plan", command_plan, "which gradients go together, and when: tutti plan FILE.csv --policy all --ranks 8"},
    {"version", command_version, "the version of Tutti"},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
  fprintf(out, "usage: tutti COMMAND [OPTION...]\n\n"
               "The tool of Tutti, a collective communication library.\n\ncommands:\n");
  for (size_t c = 0; c < COMMANDS; c++) fprintf(out, "  %-8s %s\n", commands[c].name, commands[c].help);
  fprintf(out, "\n`tutti COMMAND --help`, or `tutti help COMMAND`, tells more.\n");
}

/* Says if the profile of this process cannot be read, or was measured while the machine was busy. */
static void profile_doubt(void)
{
  struct tt_settings settings;
  struct tt_profile profile = {.nlinks = 0};
  char text[TT_SENTENCE_BYTES];
  if (tt_settings_load(&settings) != tuttiSuccess || !settings.profile[0]) return;
  if (tt_profile_load(&profile, settings.profile) != tuttiSuccess) return; /* logged */
  if (tt_profile_busy_text(&profile, text)[0]) fprintf(stderr, "tutti info: %s\n", text);
  tt_profile_destroy(&profile);
}

int command_info(int argc, char **argv)
{
  int json = 0;
  for (int a = 1; a < argc; a++) {
    int help = strcmp(argv[a], "--help") == 0 || strcmp(argv[a], "-h") == 0;
    if (strcmp(argv[a], "--json") == 0) {
      json = 1;
      continue;
    }
    if (!help) fprintf(stderr, "tutti info: \"%s\" is no option: --json alone is taken. Try --help.\n", argv[a]);
    else
      printf("usage: tutti info [--json]\n\n"
             "Prints version, build, every setting with value, source, meaning and range, by\n"
             "subject, those of the environment first; the hardware, each transport and kind\n"
             "of memory with the reason if it is unusable.\n\n"
             "  --json   as one JSON object with an object for each section\n");
    return help ? 0 : 2;
  }
  int status = tuttiInfo(stdout, json) == tuttiSuccess ? 0 : 1;
  if (!status) fflush(stdout), profile_doubt();
  return status;
}

/* The exit status; -1: there is no such command. */
static int command_start(const char *name, int argc, char **argv)
{
  for (size_t c = 0; c < COMMANDS; c++)
    if (strcmp(commands[c].name, name) == 0) {
      char whole[32]; /* what getopt's sentences begin with */
      snprintf(whole, sizeof whole, "tutti %s", name);
      argv[0] = whole;
      return commands[c].run(argc, argv);
    }
  return -1;
}

static int start(int argc, char **argv)
{
  const char *name = argc > 1 ? argv[1] : "";
  int status = command_start(name, argc - 1, argv + 1);
  if (status >= 0) return status;
  if (argc == 3 && strcmp(name, "help") == 0) { /* tutti help tune: as tutti tune --help */
    char help_option[] = "--help", *arguments[] = {NULL, help_option, NULL};
    name = argv[2];
    status = command_start(name, 2, arguments);
    if (status >= 0) return status;
  }
  if (strcmp(name, "--version") == 0) return command_version(argc - 1, argv + 1);
  int help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
  if (!help && *name) fprintf(stderr, "tutti: there is no command \"%s\"; try `tutti --help`\n", name);
  else print_help(help ? stdout : stderr);
  return help ? 0 : 2;
}

int main(int argc, char **argv)
{
  int status = start(argc, argv);
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fprintf(stderr, "tutti: the output cannot be written: %s\n", strerror(errno));
  return status ? status : 1;
}
