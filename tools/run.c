/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti run`: starts the ranks of one job on this host, or on others (hosts.c).
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

#include "run.h"
#include "tutti_tools.h"

#define GRACE_MOST 1000000
#define KILL_AFTER_MS 3000 /* between SIGTERM and SIGKILL */
#define LAST_WORDS_MS 1000 /* what grandchildren still write is passed on for this long after the last rank */
#define SETTLED_MS 300     /* failures are told together if no more than that lies between them */

static const char *const help =
    "usage: tutti run [-n RANKS] [-H HOSTS] [OPTION...] -- PROGRAM [ARGUMENT...]\n\n"
    "Starts PROGRAM RANKS times as the ranks of one job, on this host or on others. A program finds the\n"
    "job through tuttiGetLaunch, or, as PyTorch does, by the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK,\n"
    "LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT). A job is for one program: a script that starts a second\n"
    "one needs another `tutti run`. Every output line is prefixed with its rank; if the library gives the same\n"
    "warning on several ranks of a host, it is shown once. Signals (INT, TERM, HUP, USR1, USR2) are passed on to\n"
    "the ranks. All ranks that fail are named. The exit status is that of the rank that failed first (128 +\n"
    "signal if a signal killed it), else 0. With TUTTI_TIMELINE=FILE the traces of the ranks of this host are\n"
    "merged into FILE at the end (see `tutti timeline`).\n\n"
    "  -n, --ranks N     number of ranks (default: 1; with -H one for each host)\n"
    "  -H, --hosts LIST  starts the ranks on these hosts, HOST[:N],...: N ranks on each host, or the ranks of -n in\n"
    "                    equal blocks. ssh must work without a password; it brings the key of the job. Ranks have\n"
    "                    the TUTTI_... variables and the current folder of this host, and no standard input\n"
    "      --ssh COMMAND starts a command on a host (default: \"ssh -o BatchMode=yes -o ConnectTimeout=10\")\n"
    "      --tutti PATH  where this program is on the hosts (default: tutti, as their shells find it)\n"
    "      --no-prefix   do not prefix lines with the rank, and show all\n"
    "      --grace S     after the first failure the others have S seconds to end by\n"
    "                    themselves; then they are terminated (default: 10)\n"
    "      --keep-going  never terminate the others: for programs that go on without a dead\n"
    "                    rank (fault_level 1, tuttiCommShrink). The exit status is still that of the rank that\n"
    "                    failed first, even if the others end with 0\n"
    "      --restart N   start a failed rank again while others run, N times in all: for programs that join it\n"
    "                    by tuttiLaunchGrow. The new process has TUTTI_LAUNCH_RESTART=1, 2, ... in its\n"
    "                    environment, and the failure does not count for the exit status. Not with -H yet\n"
    "      --no-bind     ranks may run on any core; without it each has its share of the cores\n"
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
                                          {"hosts", required_argument, NULL, 'H'},
                                          {"ssh", required_argument, NULL, 's'},
                                          {"tutti", required_argument, NULL, 't'},
                                          {"no-prefix", no_argument, NULL, 'p'},
                                          {"grace", required_argument, NULL, 'g'},
                                          {"keep-going", no_argument, NULL, 'k'},
                                          {"restart", required_argument, NULL, 'r'},
                                          {"no-bind", no_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  const long long ranks[] = {1, MAX_RANKS}, seconds[] = {0, GRACE_MOST}, restarts[] = {0, TUTTI_RESTARTS};
  const char *hosts = NULL;
  int option, has_ranks = 0;
  long long number;
  optind = 1;
  while ((option = getopt_long(argc, argv, "+n:H:h", options, NULL)) != -1) {
    switch (option) {
    case 'n':
      if (!number_read("run", "-n", DIGITS, ranks, &number)) return 2;
      job->nprocs = (int)number;
      has_ranks = 1;
      break;
    case 'H': hosts = optarg; break;
    case 's': job->ssh = optarg; break;
    case 't': job->tutti = optarg; break;
    case 'p': job->prefix = 0; break;
    case 'k': job->keep_going = 1; break;
    case 'b': job->bind = 0; break;
    case 'g':
      if (!number_read("run", "--grace", DIGITS, seconds, &number)) return 2;
      job->grace_ms = 1000 * (long)number;
      break;
    case 'r':
      if (!number_read("run", "--restart", DIGITS, restarts, &number)) return 2;
      job->restarts = (int)number;
      break;
    case 'h': fputs(help, stdout); return 0;
    default: return usage_point("run");
    }
  }
  job->program = argv + optind;
  job->total = job->nprocs;
  if (hosts && job->restarts) {
    fprintf(stderr, "tutti run: --restart is for the ranks of one host so far: leave out -H or --restart\n");
    return 2;
  }
  if (*job->program && hosts && !hosts_read(job, hosts, has_ranks ? job->nprocs : 0)) return 2;
  if (*job->program) return -1;
  fprintf(stderr, "tutti run: no program is given; try `tutti run --help`\n");
  return 2;
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

/* In the child; does not return. `in` is its standard input; -1: that of the launcher. */
static void become_child(const struct job *job, int proc, int in, int out, int err)
{
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != job->pid) _exit(126); /* died before the line above */
  if ((proc > 0 || job->is_part) && !freopen("/dev/null", "r", stdin)) _exit(126);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (job->nhosts) {
    setpgid(0, 0); /* Ctrl-C is for the launcher, which passes it on */
    dup2(in, STDIN_FILENO);
    host_become(job, proc);
  }
  environment_set(job, proc);
  if (job->bind) bind_rank(job, proc);
  execvp(job->program[0], job->program);
  fprintf(stderr, "tutti run: cannot start %s: %s\n", job->program[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

static int child_start(struct job *job, int proc)
{
  struct child *child = &job->children[proc];
  int in[2] = {-1, -1}, out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return -1;
  if (job->nhosts && pipe2(in, O_CLOEXEC) != 0) return -1;
  fflush(NULL);
  child->pid = fork();
  if (child->pid < 0) return -1;
  if (child->pid == 0) become_child(job, proc, in[0], out[1], err[1]);
  close(out[1]);
  close(err[1]);
  child->in = in[1];
  child->out = (struct output){.from = out[0], .to = STDOUT_FILENO, .rank = proc};
  child->err = (struct output){.from = err[0], .to = STDERR_FILENO, .rank = proc};
  job->running++;
  if (job->nhosts) { /* lines have their prefixes */
    close(in[0]);
    child->err.job = job;
    host_tell(job, proc, child->in);
  } else if (job->prefix) {
    child->err.said = &job->said;
    snprintf(child->out.prefix, sizeof child->out.prefix, "[%d] ", job->first + proc);
    snprintf(child->err.prefix, sizeof child->err.prefix, "[%d] ", job->first + proc);
  }
  return 0;
}

/* Hosts are told by a byte; SIGKILL ends the connection, and with it the ranks. */
static void signal_all(const struct job *job, int signal)
{
  for (int p = 0; p < job_children(job); p++) {
    struct child *child = &job->children[p];
    if (child->pid <= 0) continue;
    if (!job->nhosts || signal == SIGKILL) {
      kill(child->pid, signal);
    } else {
      ssize_t n = write(child->in, &(char){(char)signal}, 1);
      (void)n; /* it has ended, then */
    }
  }
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

/* Tells the ranks that wait for the process in a start-up. */
static void end_tell(const struct job *job, int p, int pid, int status)
{
  int restart = job->children[p].restart;
  if (restart) tuttiLaunchEnded(&job->joins[restart - 1], 0, 1, pid, status);
  else tuttiLaunchEnded(&job->id, p, job->nprocs, pid, status);
}

/* Tells processes that were started again who runs. 1: one of those is at work, so another one can join it. */
static int running_tell(const struct job *job)
{
  int restarts[MAX_RANKS], n = 0, can_join = 0;
  if (!job->joins) return 0;
  for (int p = 0; p < job->nprocs; p++)
    if (job->children[p].pid > 0) restarts[n++] = job->children[p].restart;
  return tuttiLaunchRunning(job->joins_fd, restarts, n, &can_join) == tuttiSuccess && can_join;
}

/* Starts a rank again that has failed. 0: it does not. */
static int restart(struct job *job, int p, pid_t pid, int status)
{
  struct child *child = &job->children[p];
  if (job->restarted == job->restarts || job->status || job->is_ending) return 0;
  end_tell(job, p, (int)pid, status);
  if (WIFSIGNALED(status))
    fprintf(stderr, "tutti run: rank %d (pid %d) was killed by signal %d (%s)", p, (int)pid, WTERMSIG(status),
            strsignal(WTERMSIG(status)));
  else fprintf(stderr, "tutti run: rank %d (pid %d) ended with status %d", p, (int)pid, WEXITSTATUS(status));
  fprintf(stderr, ", and is started again (restart %d of %d)\n", job->restarted + 1, job->restarts);
  if (child->out.from >= 0) close(child->out.from);
  if (child->err.from >= 0) close(child->err.from);
  child->restart = ++job->restarted;
  child->ended_pid = 0;
  return child_start(job, p) == 0;
}

static void note_end(struct job *job, pid_t pid, int status)
{
  int p = 0;
  while (p < job_children(job) && job->children[p].pid != pid) p++;
  if (p == job_children(job)) return;
  struct child *child = &job->children[p];
  child->pid = 0;
  child->ended_pid = pid;
  child->status = status;
  output_flush(child);
  if (child->in >= 0) close(child->in);
  child->in = -1;
  job->running--;
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  int can_join = running_tell(job);
  if (code == 0 || (can_join && restart(job, p, pid, status))) return;
  failure_note(job, p, pid);
  job->failed.last_ms = now_ms();
  if (job->status) return;
  job->status = code;
  job->failed.first_ms = job->failed.last_ms;
}

static void reap(struct job *job)
{
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) note_end(job, pid, status);
}

/* Tells of ranks that have ended: others may wait for them. While somebody has the output of one, that may be the
 * rank: a child of it. */
static void ends_tell(struct job *job)
{
  for (int p = 0; p < job->nprocs && !job->nhosts; p++) {
    struct child *child = &job->children[p];
    if (!child->ended_pid || child->out.from >= 0 || child->err.from >= 0) continue;
    if (job->is_part && job->prefix) part_say(job->first + p, child->ended_pid, child->status);
    else end_tell(job, p, child->ended_pid, child->status);
    child->ended_pid = 0;
  }
}

int output_heard(const struct output *output, const char *line, size_t len)
{
  int proc, pid, status;
  if (!output->job || !part_heard(line, len, &proc, &pid, &status)) return 0;
  tuttiLaunchEnded(&output->job->id, proc, output->job->total, pid, status);
  return 1;
}

/* After the first failure: patience, then SIGTERM, then SIGKILL. */
static void escalate(struct job *job)
{
  long now = now_ms();
  if (!job->failed.first_ms || job->keep_going || !job->running) return;
  if (!job->killed_ms && now - job->failed.first_ms >= job->grace_ms) {
    if (!job->nhosts) /* parts say it */
      fprintf(stderr, "tutti run: terminating %d %s still running (--keep-going lets them go on)\n",
              job->running, job->running == 1 ? "rank" : "ranks");
    job->killed_ms = now;
    signal_all(job, SIGTERM);
    signal_all(job, SIGCONT);
  } else if (job->killed_ms && now - job->killed_ms >= KILL_AFTER_MS) {
    signal_all(job, SIGKILL);
  }
}

/* Ctrl-C at a terminal (SI_KERNEL) has reached ranks of this host, which are in our process group, already. */
static void signals_take(struct job *job, int fd)
{
  struct signalfd_siginfo info;
  while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
    job->is_ending |= info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP;
    if (info.ssi_signo == SIGCHLD) reap(job);
    else if (job->nhosts || info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL)
      signal_all(job, (int)info.ssi_signo);
  }
}

/* Reads what the launcher tells a part: each byte is a signal; at the end it is gone, or the connection. */
static void launcher_hear(struct job *job, struct pollfd *launcher)
{
  char signal;
  ssize_t n = read(launcher->fd, &signal, 1);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n == 1) {
    signal_all(job, signal);
    return;
  }
  launcher->fd = -1;
  if (job->killed_ms) return;
  job->killed_ms = job->failed.first_ms = now_ms();
  job->keep_going = 0;
  if (!job->status) job->status = 128 + SIGTERM;
  signal_all(job, SIGTERM);
  signal_all(job, SIGCONT);
}

/* Until all ranks have ended and all their output is written. A grandchild may hold a pipe open: once the ranks are
 * gone only what is there counts, and not for long. */
static void serve(struct job *job, int signal_fd, struct pollfd *polls, struct output **outputs)
{
  struct pollfd launcher = {job->is_part ? STDIN_FILENO : -1, POLLIN, 0};
  for (long gone_ms = 0;;) {
    nfds_t n = 0;
    polls[n++] = (struct pollfd){signal_fd, POLLIN, 0};
    for (int p = 0; p < job_children(job); p++) {
      struct output *both[2] = {&job->children[p].out, &job->children[p].err};
      for (int k = 0; k < 2; k++) {
        if (both[k]->from < 0) continue;
        outputs[n] = both[k];
        polls[n++] = (struct pollfd){both[k]->from, POLLIN, 0};
      }
    }
    if (n == 1 && !job->running) return;
    polls[n] = launcher;
    int ready = poll(polls, n + 1, job->running ? 100 : 20);
    if (!job->running && !gone_ms) gone_ms = now_ms();
    if (!job->running && (ready == 0 || now_ms() - gone_ms > LAST_WORDS_MS)) return;
    for (nfds_t i = 1; i < n; i++)
      if (polls[i].revents) output_pump(outputs[i]);
    if (polls[0].revents) signals_take(job, signal_fd); /* last: a rank that is started again has other pipes */
    if (polls[n].revents) launcher_hear(job, &launcher);
    ends_tell(job);
    if (job->failed.untold && now_ms() - job->failed.last_ms >= SETTLED_MS) failures_tell(job);
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
  job->began = time(NULL);
  int signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  int n = job_children(job);
  size_t outputs = 2 * (size_t)n + 2;
  struct pollfd *polls = calloc(outputs, sizeof *polls);
  struct output **pumps = calloc(outputs, sizeof *pumps);
  job->children = calloc((size_t)n, sizeof *job->children);
  if (signal_fd < 0 || !polls || !pumps || !job->children) {
    fprintf(stderr, "tutti run: %s\n", strerror(errno));
    return 1;
  }
  for (int p = 0; p < n; p++) job->children[p].in = job->children[p].out.from = job->children[p].err.from = -1;
  for (int p = 0; p < n; p++)
    if (child_start(job, p) != 0) {
      fprintf(stderr, "tutti run: cannot start %s %d: %s (ulimit -n, ulimit -u)\n",
              job->nhosts ? "the ssh of host" : "rank", job->first + p, strerror(errno));
      signal_all(job, SIGKILL);
      job->status = 1;
      break;
    }
  serve(job, signal_fd, polls, pumps);
  failures_tell(job);
  if (job->said.left_out)
    fprintf(stderr, "tutti run: left out %d %s of the library that said the same: --no-prefix shows all\n",
            job->said.left_out, job->said.left_out == 1 ? "warning" : "warnings");
  traces_merge(job);
  free(polls);
  free(pumps);
  free(job->children);
  close(signal_fd);
  return job->status;
}

/* 0: it is not possible; the library has said why. */
static int joins_make(struct job *job)
{
  tuttiResult_t result = tuttiSuccess;
  if (!job->restarts) return 1;
  job->joins = calloc((size_t)job->restarts, sizeof *job->joins);
  for (int k = 0; k < job->restarts && job->joins && result == tuttiSuccess; k++)
    result = tuttiGetUniqueId(&job->joins[k]);
  return job->joins && result == tuttiSuccess &&
         tuttiLaunchJoins(job->joins, job->restarts, &job->joins_fd) == tuttiSuccess;
}

static int job_start(struct job *job)
{
  if ((job->is_part || tuttiGetUniqueId(&job->id) == tuttiSuccess) &&
      tuttiLaunchDescriptor(&job->id, &job->id_fd) == tuttiSuccess && joins_make(job)) {
    if (!job->is_part) environment_warn(job), master_choose(job);
    return job_run(job);
  }
  fprintf(stderr, "tutti run: no job can be made; the library has logged why\n");
  return 1;
}

int command_run(int argc, char **argv)
{
  struct job job = {.nprocs = 1, .prefix = 1, .bind = 1, .grace_ms = 10000, .tutti = "tutti",
                    .ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10"};
  job.is_part = argc == 2 && strcmp(argv[1], "--part") == 0;
  int parsed = job.is_part ? (part_read(&job) ? -1 : 2) : options_parse(&job, argc, argv);
  int status = parsed >= 0 ? parsed : job_start(&job);
  for (char **word = job.is_part ? job.program : NULL; word && *word; word++) free(*word);
  if (job.is_part) free(job.program);
  free(job.joins);
  free(job.hosts);
  free(job.host_list);
  return status;
}
