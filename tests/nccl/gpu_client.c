/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of NCCL on CUDA streams, of nccl.h and the driver API alone: the same binary runs on the driver double and
 * on a GPU, with Tutti's libnccl.so.2 and with any other one.
 *
 *   gpu_client [OPTION VALUE]... CASE...
 *
 * Cases: jobs (drawn collectives), comms (groups over a communicator and its child, in another order on each rank),
 * capture (replays of graphs beside calls), storm (calls beside a thread that allocates and frees), abort (of a call
 * whose peer does not come), kill (a rank dies), shrink (after that), outage (a rank's host is cut off), mismatch (of
 * counts), trap (a rank dies under TUTTI_CUDA_ON_ERROR=trap, of Tutti alone), speed (prints). Only ranks that are
 * processes have storm and those that end badly; one thread with all ranks has jobs and capture.
 *
 *   --mode processes|threads|all   ranks are processes, threads, or one thread's (ncclCommInitAll and groups)
 *   --ranks N (2)  --gpus N (1)    rank r is on GPU r mod N
 *   --rounds N (20)  --seed N (1)  --limit SECONDS (30) of a round: then the program says where it is, and ends with 9
 *   --slot BYTES (65536)           sizes are drawn around it; --most BYTES: no share is larger
 *   --operations N (5)             of each graph
 *   --streams own|any              own: no default streams
 *   --sealed 1                     on the double nothing may be made or freed during the jobs
 *   --host 1                       some ranks have memory of the host, another one in each job
 *   --hold 0                       no call while its stream is held
 *   --early 1                      communicators of processes are made before anything of CUDA is called
 *   --host-ids 1                   NCCL_HOSTID is another one in each process: NVIDIA's NCCL then takes one GPU twice
 *   --hosts NAME                   rank r is in the network namespace NAME-r (perf/hosts makes them)
 *   --cut COMMAND                  by which the last one of them is cut off, for the case outage
 *   --nccl FILE  --driver FILE     libraries; libnccl.so.2, libcuda.so.1 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client_ptx.h"
#include "gpu_client.h"

#define PORTABLE_MAPPED 3u

struct driver cu;
struct nccl nccl;
/* Of each thread: where it is. */
static char trials[RANKS][512] = {"start"};
static _Thread_local char *trial = trials[0];
static struct options options = {.nccl = "libnccl.so.2", .driver = "libcuda.so.1", .nranks = 2, .gpus = 1, .rounds = 20,
                                 .limit_s = 30, .may_hold = 1, .operations = 5, .slot = 65536, .most = (size_t)1 << 40,
                                 .seed = 1};
static char **cases;
static int ncases;

/* ---- ends ---- */

void trial_name(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trial, sizeof trials[0], format, arguments);
  va_end(arguments);
}

void lost(const char *format, ...)
{
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "gpu_client, seed %llu: %s (%s)\n", (unsigned long long)options.seed, text, trial);
  if (cu.report) cu.report();
  _exit(1);
}

static void late(int signal)
{
  static const char text[] = "gpu_client: no end of: ";
  (void)signal;
  for (int t = 0; t < RANKS; t++) {
    size_t len = strnlen(trials[t], sizeof trials[t]);
    if (len && (write(2, text, sizeof text - 1) < 0 || write(2, trials[t], len) < 0 || write(2, "\n", 1) < 0)) _exit(8);
  }
  _exit(9);
}

void deadline(int seconds)
{
  alarm((unsigned)seconds);
}

void cu_ok(int code, const char *call)
{
  const char *text = "";
  if (code == 0) return;
  cu.cuGetErrorString(code, &text);
  lost("error %d (%s) of %.80s", code, text, call);
}

void nccl_ok(int code, const char *call)
{
  if (code != ncclSuccess) lost("result %d of %.80s", code, call);
}

/* ---- small things ---- */

uint64_t drawn(uint64_t *state, uint64_t below)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % below;
}

double seconds_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void word_set(uint32_t *word, uint32_t value)
{
  __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

void meet(const struct team *team)
{
  struct meeting *meeting = team->meeting;
  int teams = options.mode == ALL ? 1 : options.nranks;
  int round = __atomic_load_n(&meeting->round, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&meeting->arrived, 1, __ATOMIC_ACQ_REL) == teams) {
    __atomic_store_n(&meeting->arrived, 0, __ATOMIC_RELAXED);
    __atomic_add_fetch(&meeting->round, 1, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&meeting->round, __ATOMIC_ACQUIRE) == round) usleep(100);
}

void enter_gpu(const struct rank *rank)
{
  CU(cuCtxSetCurrent(rank->context));
}

void launch(const struct rank *rank, void *kernel, void *stream, void **params)
{
  unsigned blocks = kernel == rank->spin ? 1 : 8;
  CU(cuLaunchKernel(kernel, blocks, 1, 1, kernel == rank->spin ? 1 : 256, 1, 1, 0, stream, params, NULL));
}

/* ---- ranks ---- */

static unsigned char *pinned(size_t len)
{
  void *host;
  CU(cuMemHostAlloc(&host, len, PORTABLE_MAPPED));
  return host;
}

static void memory_make(struct rank *rank)
{
  const size_t room = JOBS * (size_t)options.nranks * (4 * options.slot + 4096), extra = 4096;
  rank->room = room;
  CU(cuMemAlloc_v2(&rank->in, room));
  CU(cuMemAlloc_v2(&rank->out, room));
  CU(cuMemAlloc_v2(&rank->want, room + extra));
  rank->host_in = pinned(room);
  rank->host_out = pinned(room);
  rank->stage = pinned(2 * room + extra);
  rank->words = (uint32_t *)(void *)pinned(WORDS * sizeof *rank->words);
  memset(rank->words, 0, WORDS * sizeof *rank->words);
}

static void rank_make(struct rank *rank, int number)
{
  void *module;
  *rank = (struct rank){.number = number, .gpu = number % options.gpus};
  CU(cuDevicePrimaryCtxRetain(&rank->context, rank->gpu));
  enter_gpu(rank);
  for (int s = 0; s < 3; s++) rank->streams[s] = (void *)(uintptr_t)s;
  CU(cuStreamCreate(&rank->streams[3], 1));
  CU(cuStreamCreate(&rank->streams[4], 1));
  CU(cuStreamCreate(&rank->side, 1));
  for (int e = 0; e < 2 * JOBS; e++) CU(cuEventCreate(&rank->events[e], 2));
  CU(cuModuleLoadData(&module, client_ptx));
  CU(cuModuleGetFunction(&rank->fill, module, "fill"));
  CU(cuModuleGetFunction(&rank->add, module, "add"));
  CU(cuModuleGetFunction(&rank->check, module, "check"));
  CU(cuModuleGetFunction(&rank->spin, module, "spin_until_word"));
  memory_make(rank);
}

static void comm_make(struct team *team, int number)
{
  deadline(options.limit_s);
  trial_name("creation of a communicator");
  if (number == 0) NCCL(ncclGetUniqueId(&team->meeting->id));
  meet(team);
  NCCL(ncclCommInitRank(&team->ranks[0].comm, options.nranks, team->meeting->id, number));
  meet(team);
}

static void comms_make(struct team *team)
{
  ncclComm_t comms[RANKS];
  int devices[RANKS];
  deadline(options.limit_s);
  trial_name("creation of communicators");
  if (team->count > 1 || options.mode == ALL) {
    for (int r = 0; r < team->count; r++) devices[r] = team->ranks[r].gpu;
    NCCL(ncclCommInitAll(comms, team->count, devices));
    for (int r = 0; r < team->count; r++) team->ranks[r].comm = comms[r];
    return;
  }
  if (team->ranks[0].comm) return;
  void *before = team->ranks[0].context, *after;
  enter_gpu(&team->ranks[0]);
  comm_make(team, team->ranks[0].number);
  CU(cuCtxGetCurrent(&after));
  if (after != before) lost("the current context is another one after ncclCommInitRank");
}

static void comms_end(struct team *team)
{
  deadline(options.limit_s);
  trial_name("the end of communicators");
  meet(team);
  for (int r = 0; r < team->count; r++) NCCL(ncclCommFinalize(team->ranks[r].comm));
  for (int r = 0; r < team->count; r++) {
    NCCL(ncclCommDestroy(team->ranks[r].comm));
    team->ranks[r].comm = NULL;
  }
  for (int r = 0; r < team->count; r++) {
    enter_gpu(&team->ranks[r]);
    CU(cuCtxSynchronize());
  }
}

static void case_run(struct team *team, const char *name)
{
  comms_make(team);
  if (strcmp(name, "jobs") == 0) jobs_run(team);
  else if (strcmp(name, "capture") == 0) capture_run(team);
  else if (strcmp(name, "storm") == 0) storm_run(team);
  else if (strcmp(name, "comms") == 0) comms_run(team);
  else if (strcmp(name, "speed") == 0) speed_run(team);
  else if (strcmp(name, "abort") == 0) abort_run(team);
  else if (strcmp(name, "kill") == 0) kill_run(team);
  else if (strcmp(name, "trap") == 0) trap_run(team);
  else if (strcmp(name, "shrink") == 0) shrink_run(team);
  else if (strcmp(name, "outage") == 0) outage_run(team);
  else if (strcmp(name, "mismatch") == 0) mismatch_run(team);
  else lost("there is no case '%s'", name);
  /* After bad ends their communicators are gone. */
  if (team->ranks[0].comm) comms_end(team);
}

static void team_run(struct meeting *meeting, int first, int count)
{
  struct team *team = calloc(1, sizeof *team);
  if (!team) lost("no memory");
  *team = (struct team){.options = &options, .meeting = meeting, .count = count, .common = options.seed,
                        .own = options.seed * 1000 + (uint64_t)first, .may_hold = options.may_hold};
  if (options.is_early) comm_make(team, first); /* on GPU 0, as nothing else is current */
  ncclComm_t early = team->ranks[0].comm;
  CU(cuInit(0));
  for (int r = 0; r < count; r++) rank_make(&team->ranks[r], first + r);
  team->ranks[0].comm = early;
  for (int c = 0; c < ncases; c++) case_run(team, cases[c]);
  free(team);
}

static void libraries_load(void)
{
  const char *wrong = driver_load(&cu, options.driver);
  if (wrong) lost("%s", wrong);
  void *library = dlopen(options.nccl, RTLD_NOW | RTLD_LOCAL), *function;
  if (!library) lost("%s", dlerror());
#define NCCL_FIND(name, parameters)                  \
  function = dlsym(library, #name);                  \
  if (!function) lost("the library has no %s", #name); \
  memcpy(&nccl.name, &function, sizeof function);
  NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
}

struct thread {
  pthread_t id;
  struct meeting *meeting;
  int rank;
};

static void *thread_main(void *argument)
{
  struct thread *thread = argument;
  trial = trials[thread->rank];
  team_run(thread->meeting, thread->rank, 1);
  return NULL;
}

static int threads_run(struct meeting *meeting)
{
  struct thread threads[RANKS];
  libraries_load();
  for (int r = 0; r < options.nranks; r++) {
    threads[r] = (struct thread){.meeting = meeting, .rank = r};
    if (pthread_create(&threads[r].id, NULL, thread_main, &threads[r]) != 0) lost("no thread");
  }
  for (int r = 0; r < options.nranks; r++) pthread_join(threads[r].id, NULL);
  return 0;
}

/* Waits for all; the first that fails ends the others. A rank that the case itself has killed is no failure. */
static int processes_wait(pid_t *ranks, const struct meeting *meeting)
{
  int status, failed = 0, left = options.nranks;
  while (left) {
    pid_t gone = waitpid(-1, &status, 0);
    if (gone < 0 && errno == EINTR) continue;
    left--;
    if (!status || (meeting->is_dead && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) continue;
    if (!failed)
      for (int r = 0; r < options.nranks; r++)
        if (ranks[r] != gone) kill(ranks[r], SIGTERM);
    failed = failed ? failed : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return failed;
}

static void host_enter(int number)
{
  char path[128];
  snprintf(path, sizeof path, "/run/netns/%s-%d", options.hosts, number);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) lost("%s: %s", path, strerror(errno));
  close(fd);
}

static int processes_run(struct meeting *meeting)
{
  pid_t ranks[RANKS];
  char host[16];
  for (int r = 0; r < options.nranks; r++) {
    ranks[r] = fork();
    if (ranks[r] < 0) lost("no process");
    if (ranks[r]) continue;
    snprintf(host, sizeof host, "rank%d", r);
    if (options.has_host_ids) setenv("NCCL_HOSTID", host, 1);
    if (options.hosts) host_enter(r);
    libraries_load();
    team_run(meeting, r, 1);
    exit(0);
  }
  return processes_wait(ranks, meeting);
}

/* ---- options ---- */

static int option_take(const char *name, const char *value)
{
  static const char *const modes[] = {"processes", "threads", "all"};
  const struct {
    const char *name;
    int *number;
  } numbers[] = {{"--ranks", &options.nranks}, {"--gpus", &options.gpus},       {"--rounds", &options.rounds},
                 {"--limit", &options.limit_s}, {"--sealed", &options.is_sealed}, {"--hold", &options.may_hold},
                 {"--operations", &options.operations}, {"--early", &options.is_early},
                 {"--host-ids", &options.has_host_ids}, {"--host", &options.draws_host}};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
    if (strcmp(name, numbers[k].name) != 0) continue;
    *numbers[k].number = atoi(value);
    return 1;
  }
  for (int m = 0; strcmp(name, "--mode") == 0 && m < 3; m++) {
    if (strcmp(value, modes[m]) != 0) continue;
    options.mode = (enum mode)m;
    return 1;
  }
  if (strcmp(name, "--seed") == 0) options.seed = strtoull(value, NULL, 10);
  else if (strcmp(name, "--slot") == 0) options.slot = strtoull(value, NULL, 10);
  else if (strcmp(name, "--most") == 0) options.most = strtoull(value, NULL, 10);
  else if (strcmp(name, "--streams") == 0) options.has_only_own_streams = strcmp(value, "own") == 0;
  else if (strcmp(name, "--hosts") == 0) options.hosts = value;
  else if (strcmp(name, "--cut") == 0) options.cut = value;
  else if (strcmp(name, "--nccl") == 0) options.nccl = value;
  else if (strcmp(name, "--driver") == 0) options.driver = value;
  else return 0;
  return 1;
}

int main(int argc, char **argv)
{
  static char *usual[] = {"jobs"};
  int at = 1;
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2)
    if (!option_take(argv[at], argv[at + 1])) lost("what is %s %s?", argv[at], argv[at + 1]);
  cases = at < argc ? argv + at : usual;
  ncases = at < argc ? argc - at : 1;
  if (options.is_early && (options.mode != PROCESSES || options.gpus > 1)) lost("--early is for processes on one GPU");
  if (options.nranks < 1 || options.nranks > RANKS || options.gpus < 1) lost("1 to %d ranks", RANKS);
  struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (meeting == MAP_FAILED) lost("no memory");
  signal(SIGALRM, late);
  /* The first launch of a kernel must not load it, which may wait for a stream that is held. */
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  if (options.mode == PROCESSES) return processes_run(meeting);
  if (options.mode == THREADS) return threads_run(meeting);
  libraries_load();
  team_run(meeting, 0, options.nranks);
  return 0;
}
