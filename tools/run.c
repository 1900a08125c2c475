/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti run`: starts the ranks of one job on this host.
 *
 * The launcher makes the unique id, so the rendezvous is in this process, and hands it to the
 * children through an inherited descriptor: it is in no environment and in no argument list. Output is
 * prefixed line by line, signals are passed on, and the exit status is that of the first failure. */
#include <errno.h>
#include <getopt.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "tutti_tools.h"

#define MAX_RANKS 4096
#define GRACE_MOST 1000000
#define KILL_AFTER_MS 3000 /* between SIGTERM and SIGKILL */
#define LAST_WORDS_MS 1000 /* what grandchildren still write is passed on for this long after the last rank */

struct child {
  pid_t pid;       /* 0: has ended */
  pid_t ended_pid; /* not 0: it has ended, and the start-up is to be told, once all of its output is read */
  int status;      /* of waitpid */
  struct output out, err;
};

struct job {
  int nprocs, prefix, keep_going, bind, id_fd;
  pid_t pid; /* of the launcher */
  tuttiUniqueId id;
  long grace_ms;
  char **program;
  struct child *children;
  struct said said;
  int running, status;       /* status: of the first failure */
  long failed_ms, killed_ms; /* when it failed, when SIGTERM went out; 0: not yet */
};

static const char *const help =
    "usage: tutti run [-n RANKS] [OPTION...] -- PROGRAM [ARGUMENT...]\n\n"
    "Starts PROGRAM RANKS times on this host as the ranks of one job; programs find the\n"
    "job through tuttiGetLaunch. A job is for one program: a script that starts a second\n"
    "one needs another `tutti run`. Every output line is prefixed with its rank; a warning that the\n"
    "library gives on several ranks in the same words is shown once. Signals (INT, TERM, HUP, USR1,\n"
    "USR2) are passed on. The exit status is that of the first rank that fails (128 + signal if it was\n"
    "killed), else 0.\n\n"
    "  -n, --ranks N     number of ranks (default: 1)\n"
    "      --no-prefix   do not prefix lines with the rank, and show all\n"
    "      --grace S     after the first failure the others get S seconds to end by\n"
    "                    themselves before they are terminated (default: 10)\n"
    "      --keep-going  never terminate the others: for programs that go on without a dead\n"
    "                    rank (tuttiCommShrink)\n"
    "      --no-bind     ranks may run on any core; else each has its share of the cores\n"
    "  -h, --help        this text\n";

static long now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* -1: go on; else the exit status. */
static int options_parse(struct job *job, int argc, char **argv)
{
  static const struct option options[] = {{"ranks", required_argument, NULL, 'n'},
                                          {"no-prefix", no_argument, NULL, 'p'},
                                          {"grace", required_argument, NULL, 'g'},
                                          {"keep-going", no_argument, NULL, 'k'},
                                          {"no-bind", no_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  const long long ranks[] = {1, MAX_RANKS}, seconds[] = {0, GRACE_MOST};
  int option;
  long long number;
  optind = 1;
  while ((option = getopt_long(argc, argv, "+n:h", options, NULL)) != -1) {
    switch (option) {
    case 'n':
      if (!number_read("run", "-n", DIGITS, ranks, &number)) return 2;
      job->nprocs = (int)number;
      break;
    case 'p': job->prefix = 0; break;
    case 'k': job->keep_going = 1; break;
    case 'b': job->bind = 0; break;
    case 'g':
      if (!number_read("run", "--grace", DIGITS, seconds, &number)) return 2;
      job->grace_ms = 1000 * (long)number;
      break;
    case 'h': fputs(help, stdout); return 0;
    default: return usage_point("run");
    }
  }
  job->program = argv + optind;
  if (*job->program) return -1;
  fprintf(stderr, "tutti run: no program is given; try `tutti run --help`\n");
  return 2;
}

static void environment_set(const struct job *job, int proc)
{
  const struct {
    const char *name;
    int value;
  } variables[] = {{"TUTTI_LAUNCH_FD", job->id_fd},
                   {"TUTTI_LAUNCH_NPROCS", job->nprocs},
                   {"TUTTI_LAUNCH_PROC", proc},
                   {"TUTTI_LAUNCH_LOCAL_NPROCS", job->nprocs},
                   {"TUTTI_LAUNCH_LOCAL_PROC", proc}};
  for (size_t v = 0; v < sizeof variables / sizeof variables[0]; v++) {
    char text[16];
    snprintf(text, sizeof text, "%d", variables[v].value);
    setenv(variables[v].name, text, 1);
  }
}

/* Each rank on its share of the cores in use: neighbours on neighbouring cores, several ranks on one core where ranks
 * outnumber them. The kernel moves unbound ranks that yield to each other about, which costs more than it gains. */
static void bind_rank(const struct job *job, int proc)
{
  cpu_set_t all[8], mine[8]; /* as large as any kernel's mask: smaller ones are refused */
  memset(all, 0, sizeof all);
  memset(mine, 0, sizeof mine);
  if (sched_getaffinity(0, sizeof all, all) != 0) return;
  long n = CPU_COUNT_S(sizeof all, all), nth = 0;
  long first = proc * n / job->nprocs, end = (proc + 1) * n / job->nprocs;
  if (end == first) end++;
  for (size_t core = 0; core < 8 * sizeof all; core++) {
    if (!CPU_ISSET_S(core, sizeof all, all)) continue;
    if (nth >= first && nth < end) CPU_SET_S(core, sizeof mine, mine);
    nth++;
  }
  sched_setaffinity(0, sizeof mine, mine);
}

/* In the child; does not return. */
static void become_rank(const struct job *job, int proc, int out, int err)
{
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != job->pid) _exit(126); /* died before the line above */
  if (proc > 0 && !freopen("/dev/null", "r", stdin)) _exit(126);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  environment_set(job, proc);
  if (job->bind) bind_rank(job, proc);
  execvp(job->program[0], job->program);
  fprintf(stderr, "tutti run: cannot start %s: %s\n", job->program[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

static int child_start(struct job *job, int proc)
{
  struct child *child = &job->children[proc];
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return -1;
  fflush(NULL);
  child->pid = fork();
  if (child->pid < 0) return -1;
  if (child->pid == 0) become_rank(job, proc, out[1], err[1]);
  close(out[1]);
  close(err[1]);
  child->out = (struct output){.from = out[0], .to = STDOUT_FILENO, .rank = proc};
  child->err = (struct output){.from = err[0], .to = STDERR_FILENO, .rank = proc};
  if (job->prefix) {
    child->err.said = &job->said;
    snprintf(child->out.prefix, sizeof child->out.prefix, "[%d] ", proc);
    snprintf(child->err.prefix, sizeof child->err.prefix, "[%d] ", proc);
  }
  job->running++;
  return 0;
}

static void signal_all(const struct job *job, int signal)
{
  for (int p = 0; p < job->nprocs; p++)
    if (job->children[p].pid > 0) kill(job->children[p].pid, signal);
}

/* The output of a rank so far is printed before the line about its end. */
static void output_flush(struct child *child)
{
  struct output *both[2] = {&child->out, &child->err};
  for (int k = 0; k < 2; k++) {
    struct pollfd one = {both[k]->from, POLLIN, 0};
    for (int n = 0; n < 64 && both[k]->from >= 0 && poll(&one, 1, 0) > 0; n++) output_pump(both[k]);
  }
}

static void note_end(struct job *job, pid_t pid, int status)
{
  int p = 0;
  while (p < job->nprocs && job->children[p].pid != pid) p++;
  if (p == job->nprocs) return;
  job->children[p].pid = 0;
  job->children[p].ended_pid = pid;
  job->children[p].status = status;
  output_flush(&job->children[p]);
  job->running--;
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 0 || job->status) return;
  job->status = code;
  job->failed_ms = now_ms();
  if (WIFSIGNALED(status))
    fprintf(stderr, "tutti run: rank %d (pid %d) was killed by signal %d (%s)\n", p, (int)pid, WTERMSIG(status),
            strsignal(WTERMSIG(status)));
  else fprintf(stderr, "tutti run: rank %d (pid %d) ended with status %d\n", p, (int)pid, code);
}

static void reap(struct job *job)
{
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) note_end(job, pid, status);
}

/* Others may wait for a rank that will not come. While somebody has its output, that may be the rank: a child of it. */
static void ends_tell(struct job *job)
{
  for (int p = 0; p < job->nprocs; p++) {
    struct child *child = &job->children[p];
    if (!child->ended_pid || child->out.from >= 0 || child->err.from >= 0) continue;
    tuttiLaunchEnded(&job->id, p, job->nprocs, child->ended_pid, child->status);
    child->ended_pid = 0;
  }
}

/* After the first failure: patience, then SIGTERM, then SIGKILL. */
static void escalate(struct job *job)
{
  long now = now_ms();
  if (!job->failed_ms || job->keep_going || !job->running) return;
  if (!job->killed_ms && now - job->failed_ms >= job->grace_ms) {
    fprintf(stderr, "tutti run: terminating %d %s still running\n", job->running, job->running == 1 ? "rank" : "ranks");
    job->killed_ms = now;
    signal_all(job, SIGTERM);
    signal_all(job, SIGCONT);
  } else if (job->killed_ms && now - job->killed_ms >= KILL_AFTER_MS) {
    signal_all(job, SIGKILL);
  }
}

/* Ctrl-C at a terminal (SI_KERNEL) has reached the ranks, which are in our process group, already. */
static void signals_take(struct job *job, int fd)
{
  struct signalfd_siginfo info;
  while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
    if (info.ssi_signo == SIGCHLD) reap(job);
    else if (info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL) signal_all(job, (int)info.ssi_signo);
}

/* Until all ranks have ended and all their output is written. A grandchild may hold a pipe open: once the ranks are
 * gone only what is there counts, and not for long. */
static void serve(struct job *job, int signal_fd, struct pollfd *polls, struct output **outputs)
{
  for (long gone_ms = 0;;) {
    nfds_t n = 0;
    polls[n++] = (struct pollfd){signal_fd, POLLIN, 0};
    for (int p = 0; p < job->nprocs; p++) {
      struct output *both[2] = {&job->children[p].out, &job->children[p].err};
      for (int k = 0; k < 2; k++) {
        if (both[k]->from < 0) continue;
        outputs[n] = both[k];
        polls[n++] = (struct pollfd){both[k]->from, POLLIN, 0};
      }
    }
    if (n == 1 && !job->running) return;
    int ready = poll(polls, n, job->running ? 100 : 20);
    if (!job->running && !gone_ms) gone_ms = now_ms();
    if (!job->running && (ready == 0 || now_ms() - gone_ms > LAST_WORDS_MS)) return;
    if (polls[0].revents) signals_take(job, signal_fd);
    for (nfds_t i = 1; i < n; i++)
      if (polls[i].revents) output_pump(outputs[i]);
    ends_tell(job);
    escalate(job);
  }
}

static int job_run(struct job *job)
{
  sigset_t set;
  sigemptyset(&set);
  const int passed[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  for (size_t s = 0; s < sizeof passed / sizeof passed[0]; s++) sigaddset(&set, passed[s]);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL); /* whoever ignores it may have started us; then no child could be waited for */
  job->pid = getpid();
  int signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  size_t outputs = 2 * (size_t)job->nprocs + 1;
  struct pollfd *polls = calloc(outputs, sizeof *polls);
  struct output **pumps = calloc(outputs, sizeof *pumps);
  job->children = calloc((size_t)job->nprocs, sizeof *job->children);
  if (signal_fd < 0 || !polls || !pumps || !job->children) {
    fprintf(stderr, "tutti run: %s\n", strerror(errno));
    return 1;
  }
  for (int p = 0; p < job->nprocs; p++) job->children[p].out.from = job->children[p].err.from = -1;
  for (int p = 0; p < job->nprocs; p++)
    if (child_start(job, p) != 0) {
      fprintf(stderr, "tutti run: cannot start rank %d: %s (ulimit -n, ulimit -u)\n", p, strerror(errno));
      signal_all(job, SIGKILL);
      job->status = 1;
      break;
    }
  serve(job, signal_fd, polls, pumps);
  if (job->said.left_out)
    fprintf(stderr, "tutti run: left out %d %s of the library that said the same: --no-prefix shows all\n",
            job->said.left_out, job->said.left_out == 1 ? "warning" : "warnings");
  free(polls);
  free(pumps);
  free(job->children);
  close(signal_fd);
  return job->status;
}

int command_run(int argc, char **argv)
{
  struct job job = {.nprocs = 1, .prefix = 1, .bind = 1, .grace_ms = 10000};
  int parsed = options_parse(&job, argc, argv);
  if (parsed >= 0) return parsed;
  if (tuttiGetUniqueId(&job.id) != tuttiSuccess || tuttiLaunchDescriptor(&job.id, &job.id_fd) != tuttiSuccess) {
    fprintf(stderr, "tutti run: no job can be made; the library has logged why\n");
    return 1;
  }
  return job_run(&job);
}
