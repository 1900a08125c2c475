/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of `tutti`; each gets its own arguments and returns the exit status. */
#ifndef TUTTI_COMMAND_H
#define TUTTI_COMMAND_H

#include <getopt.h>
#include <stdio.h>
#include <sys/types.h>

#include "schedule/schedule.h"
#include "tutti_tools.h"

int command_run(int argc, char **argv);
int command_info(int argc, char **argv);
int command_status(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_schedule(int argc, char **argv);
int command_simulate(int argc, char **argv);
int command_profile(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_draw(int argc, char **argv);
int command_timeline(int argc, char **argv);

/* ---- request.c: options that say which schedules are meant ---- */

/* For getopt_long: what REQUEST_LETTERS and these long options take is given to request_option. */
#define REQUEST_LETTERS "n:"
#define REQUEST_OPTIONS                                                                                       \
  {"ranks", required_argument, NULL, 'n'}, {"algo", required_argument, NULL, 'a'},                            \
      {"root", required_argument, NULL, 'r'}, {"radix", required_argument, NULL, 'k'},                        \
      {"middle", required_argument, NULL, 'm'}, {"blocks", required_argument, NULL, 'B'},                     \
      {"group-size", required_argument, NULL, 'g'}, {"topology", required_argument, NULL, 't'},               \
      {"passes", required_argument, NULL, 'p'}
extern const char *const request_help; /* their lines in --help */

/* 1: it was one of these and is taken; 0: it is none; -1: its value is wrong, as was said. */
int request_option(struct tt_schedule_request *request, const char *command, int option);

/* Behind getopt's sentence: where the options are told. 2, the exit status. */
int usage_point(const char *command);

/* The exit status of a command that the library has refused: 2 if arguments, settings or files are wrong, else 1. */
int refusal_status(tuttiResult_t result);

/* Says the sentence of this thread's last error, and returns that status. */
int refusal_say(const char *command, tuttiResult_t result);

/* Takes the only argument, the collective; "": there is none, which tt_schedules_print tells. 2 with a message: there
 * are more. */
int request_collective(struct tt_schedule_request *request, const char *command, int argc, char **argv);

#define RANKS_MOST 1048576              /* of which the library can tell; its own sentences name the same */
#define SIZE_MOST ((long long)1 << 60) /* likewise, bytes of a vector */

enum form { DIGITS, SIZE };

/* Reads optarg: a whole number within limits, of digits or as tuttiReadSize takes it. 0 and a message: it is none. */
int number_read(const char *command, const char *option, enum form form, const long long limits[2], long long *value);

/* Reads optarg: "GBITS,US" of links between nodes. 0 and a message: it is none. */
int link_read(const char *command, double *gbits, double *us);

/* Reads a decimal number from low to high, such as 12.5 or 1e3, and moves *text behind it. 0: there is none. */
int decimal_read(const char **text, double low, double high, double *value);

/* ---- progress.c: how far a long command is ---- */

/* From now on "tutti COMMAND: TEXT; 12 s so far" is on stderr: on a terminal after a second, on one line that is
 * written again and again; elsewhere a line every ten seconds. Nothing is to be printed until the end. */
void progress_begin(const char *command, const char *text);
__attribute__((format(printf, 1, 2))) void progress_set(const char *format, ...);
void progress_end(void);

/* Where output is kept meanwhile: a stream in memory, NULL if there is none. Printing puts its text on stdout and ends
 * it; 0: there was memory for all of it. */
FILE *held_open(void);
int held_print(FILE *held);

/* ---- script.c: parts of the command that are written in Python ---- */

#define SCRIPT_WORDS 4096

/* Becomes a script of those that lie beside the library, found from where the program is, with n words behind it.
 * Returns only if it cannot: errno says why. E2BIG: more than SCRIPT_WORDS. */
void script_become(const char *script, const char *const *words, int n);

/* The sentence for that errno, behind the command's name. */
const char *script_lacks(int error);

/* ---- svg.c: pictures ---- */

/* Has the `len` bytes of data drawn into the file `svg`, which is left alone if they are no picture. 0: it is not
 * drawn, as was said. */
int svg_draw(const char *command, const char *svg, const char *data, size_t len);

/* ---- interfaces.c: networks to measure ---- */

#define INTERFACES_MOST 16

struct interfaces {
  int n;
  char names[INTERFACES_MOST][16];
};

/* Those of a list as rank 0 gives it, "eth0,eth1", each usable on all ranks, or for "all" those that are; collective.
 * 0: there are none, or one is not usable on some rank, as was said. */
int interfaces_agree(struct interfaces *found, const char *list, tuttiComm_t comm, int rank);

/* A communicator of the same ranks as `first`, on this interface; what is created later is on it, too. Errors: as
 * tuttiGetUniqueId, tuttiBroadcast and tuttiCommInitRank. */
tuttiResult_t interface_take(tuttiComm_t *comm, const char *name, tuttiComm_t first, int rank, int nranks);

/* ---- output.c: lines of several ranks on one terminal ---- */

#define OUTPUT_LINE 8192

/* Warnings of the library so far: it tells the reason of a failure on all ranks. */
struct said {
  int n, left_out; /* left_out: lines of other ranks with a sentence that was there */
  struct sentence {
    int rank; /* that said it first */
    size_t len;
    char text[512];
  } sentences[16];
};

/* One stream of one rank: what was read and is not a whole line yet. */
struct output {
  int from, to; /* from: pipe, -1 when at its end; to: our own stdout or stderr */
  int rank;
  struct said *said; /* what was said is not written again; NULL: all is written */
  struct job *job;   /* of a host: its lines about ranks that have ended are not written, but told; else NULL */
  char prefix[16];
  size_t used;
  char line[OUTPUT_LINE];
};

/* Reads what is there and writes whole lines with the prefix, and at the end what is left, but for warnings of the
 * library that another rank was the first to give. A program's own lines are all written. */
void output_pump(struct output *output);

/* run.c: 1: the line was about a rank that has ended, and is told to the start-up. */
int output_heard(const struct output *output, const char *line, size_t len);

#endif
