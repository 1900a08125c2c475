/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti status: what running jobs are doing, and which rank holds them up. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "status/status.h"

#define BETWEEN_NS 200000000u /* two looks, by which it is known what moves */

static const char help_text[] =
    "usage: tutti status [PID | --all] [--json] [--watch]\n\n"
    "Shows what running jobs are doing. For each communicator it prints the call that each rank is in, since when,\n"
    "and what the main thread of its process does. Then one sentence says whether calls go on or, if they hang,\n"
    "which rank they wait for. It reads memory that the processes share, so it works while they hang or are stopped,\n"
    "and does not disturb them. It sees processes of this user on this host. About ranks on other hosts it shows what\n"
    "ranks of this host have heard: run it there for the rest. Communicators whose calls wait for a rank, or that\n"
    "have failed, come first; internal ones, those of fusions and of layers above the library, last.\n\n"
    "  PID      only the communicators of this process\n"
    "  --all    the communicators of all users; only root can do this\n"
    "  --json   prints a JSON array with an object for each communicator\n"
    "  --watch  prints it again every second, until it is interrupted\n\n"
    "The exit status is 3 if a communicator has failed or its calls wait for a rank, 1 if there is no communicator or\n"
    "an error, else 0.\n";

struct request {
  pid_t pid; /* as tt_pages_find */
  int json, again;
};

/* Returns -1 to go on, else the exit status. */
static int request_read(struct request *request, int argc, char **argv)
{
  static const struct option options[] = {{"all", no_argument, NULL, 'a'}, {"json", no_argument, NULL, 'j'},
                                          {"watch", no_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  int option, all = 0;
  while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
    switch (option) {
    case 'a': all = 1; break;
    case 'j': request->json = 1; break;
    case 'w': request->again = 1; break;
    case 'h': fputs(help_text, stdout); return 0;
    default: return usage_point("status");
    }
  }
  request->pid = all ? -1 : 0;
  if (optind == argc) return -1;
  char *end;
  long pid = strtol(argv[optind], &end, 10);
  if (optind + 1 == argc && !all && *end == 0 && pid > 0 && pid <= 0x7fffffff) {
    request->pid = (pid_t)pid;
    return -1;
  }
  if (all || optind + 1 < argc)
    fprintf(stderr, "tutti status: \"%s\" is too much: give one PID, or --all; try `tutti status --help`\n",
            argv[argc - 1]);
  else fprintf(stderr, "tutti status: \"%s\" is no PID; try `tutti status --help`\n", argv[optind]);
  return 2;
}

/* All pages, twice: before and now. */
struct looks {
  struct tt_pages pages;
  struct tt_comm_status *before, *now;
};

static void looks_end(struct looks *looks)
{
  for (int i = 0; i < looks->pages.n; i++) {
    if (looks->before) tt_status_destroy(&looks->before[i]);
    if (looks->now) tt_status_destroy(&looks->now[i]);
  }
  free(looks->before);
  free(looks->now);
  tt_pages_close(&looks->pages);
}

static tuttiResult_t looks_take(struct looks *looks, pid_t pid)
{
  memset(looks, 0, sizeof *looks);
  tuttiResult_t result = tt_pages_find(&looks->pages, pid);
  int n = looks->pages.n;
  if (result != tuttiSuccess || n == 0) return result;
  looks->before = calloc((size_t)n, sizeof *looks->before);
  looks->now = calloc((size_t)n, sizeof *looks->now);
  if (!looks->before || !looks->now) return tt_fail(tuttiSystemError, "no memory for %d communicators", n);
  for (int i = 0; result == tuttiSuccess && i < n; i++)
    result = tt_status_take(&looks->before[i], &looks->pages.pages[i].page);
  tt_sleep_ns(BETWEEN_NS);
  for (int i = 0; result == tuttiSuccess && i < n; i++)
    result = tt_status_take(&looks->now[i], &looks->pages.pages[i].page);
  return result;
}

/* The user of a process; -1: it is not there, as far as can be seen from here. */
static long user_of(pid_t pid)
{
  char path[32];
  struct stat process;
  snprintf(path, sizeof path, "/proc/%d", (int)pid);
  return stat(path, &process) == 0 ? (long)process.st_uid : -1;
}

/* Tells about communicators that are not shown. */
static void rest_say(const struct request *request, const struct tt_pages *pages)
{
  int wants_all = request->pid < 0 || (!request->pid && !pages->n);
  if (wants_all && pages->nclosed)
    fprintf(stderr, "tutti status: %d process%s may not be looked into: run this as the user of the job, or as root\n",
            pages->nclosed, pages->nclosed == 1 ? "" : "es");
  if (pages->nother)
    fprintf(stderr, "tutti status: communicators of another version of Tutti than %d.%d.%d are left out: use the "
            "`tutti` of that version\n", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
}

static void none_say(const struct request *request, const struct tt_pages *pages)
{
  int pid = (int)request->pid;
  long user = pid > 0 ? user_of(request->pid) : 0;
  if (user < 0) fprintf(stderr, "tutti status: there is no process %d here\n", pid);
  else if (pid > 0 && pages->nclosed)
    fprintf(stderr, "tutti status: process %d may not be looked into: run this as its user (uid %ld), or as root\n",
            pid, user);
  else if (pages->nother) return;
  else if (pid > 0) fprintf(stderr, "tutti status: process %d has no communicator\n", pid);
  else fprintf(stderr, "tutti status: no process%s here has a communicator\n", pid ? "" : " of this user");
}

/* First those that hang or have failed, then the others; of both those of the program before the internal ones. */
static int looks_print(const struct request *request, const struct looks *looks)
{
  char verdict[TT_JUDGED_BYTES];
  int is_bad = 0, n = looks->pages.n, printed = 0;
  if (request->json) printf("[");
  for (int k = 0; k < 4 * n; k++) {
    int i = k % n, bad = tt_status_judge(&looks->before[i], &looks->now[i], verdict);
    if (looks->now[i].is_second != k / n % 2 || bad != (k < 2 * n)) continue;
    is_bad |= bad;
    if (printed++) printf(request->json ? ",\n" : "\n");
    if (request->json) tt_status_json(stdout, &looks->now[i], verdict);
    else tt_status_print(stdout, &looks->now[i], verdict);
  }
  if (request->json) printf("]\n");
  return is_bad ? 3 : 0;
}

int command_status(int argc, char **argv)
{
  struct request request = {0};
  int status = request_read(&request, argc, argv);
  if (status >= 0) return status;
  do {
    struct looks looks;
    tuttiResult_t result = looks_take(&looks, request.pid);
    if (result != tuttiSuccess) fprintf(stderr, "tutti status: %s\n", tt_last_sentence());
    if (request.again && isatty(1)) printf("\033[H\033[2J");
    status = result != tuttiSuccess || !looks.pages.n ? 1 : looks_print(&request, &looks);
    if (result == tuttiSuccess && !looks.pages.n) none_say(&request, &looks.pages);
    if (result == tuttiSuccess) rest_say(&request, &looks.pages);
    looks_end(&looks);
  } while (request.again && fflush(stdout) == 0 && (tt_sleep_ns(800000000u), 1));
  return status;
}
