/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "slow.h"

static char transports_given[64];

/* Tests count messages, and leave nothing in home directories: who tests what pairs are measured to take says so. */
__attribute__((constructor)) static void environment_take(void)
{
  setenv("TUTTI_CACHE", "none", 0);
  if (getenv("FAKE_VERBS")) (void)dlopen("libibverbs.so.1", RTLD_NOW); /* it has a device of its own */
  if (getenv("TUTTI_TRANSPORTS"))
    snprintf(transports_given, sizeof transports_given, "%s", getenv("TUTTI_TRANSPORTS"));
}

const char *ranks_transports(int n)
{
  static const char *const all[] = {"shm", "tcp", NULL};
  if (!transports_given[0]) return all[n];
  return n ? NULL : transports_given;
}

const char *ranks_transport_of(uint64_t seed)
{
  const char *other = ranks_transports(1);
  return seed % 2 == 0 && other ? other : ranks_transports(0);
}

static int is_whole(void)
{
  const char *whole = getenv("TEST_WHOLE");
  return whole && *whole == '1';
}

int ranks_first(int first, int transport)
{
  return is_whole() ? first : first + transport % 2;
}

int ranks_step(void)
{
  return is_whole() ? 1 : 2;
}

int ranks_patience(void)
{
  const char *patience = getenv("TEST_PATIENCE");
  return patience && atoi(patience) > 0 ? atoi(patience) : 1;
}

/* A limit ends what hangs; what is only slow, or held up by others, must not come near it. */
static int limit_of(int limit_s)
{
  return limit_s * ranks_patience() * (IS_SLOW ? 3 : 1);
}

/* The name for a rank among those that the variable lists, written to `text`; NULL: it lists none. */
static const char *name_of(const char *variable, int rank, char text[256])
{
  char *names[16], *rest = text;
  int n = 0;
  snprintf(text, 256, "%s", getenv(variable) ? getenv(variable) : "");
  while (n < 16 && (names[n] = strtok_r(rest, ",", &rest))) n++;
  return n ? names[rank % n] : NULL;
}

/* In the process of a rank. */
static void host_take(int rank)
{
  char text[256], exact[260];
  const char *interface = name_of("TEST_INTERFACES", rank, text);
  if (interface) {
    snprintf(exact, sizeof exact, "=%s", interface);
    setenv("TUTTI_SOCKET_IFNAME", exact, 1);
    setenv("TUTTI_HOSTID", interface, 1);
  }
  const char *namespace = name_of("TEST_NAMESPACES", rank, text);
  if (!namespace) return;
  snprintf(exact, sizeof exact, "/run/netns/%.240s", namespace);
  int fd = open(exact, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    fprintf(stderr, "rank %d: there is no network namespace %s\n", rank, exact);
    exit(1);
  }
  close(fd);
  setenv("TUTTI_HOSTID", namespace, 1);
}

/* Where rank 0 leaves the id. */
struct page {
  _Atomic int ready; /* 1: id is there; 2: rank 0 could not make one */
  tuttiUniqueId id;
};

void *ranks_shared(unsigned long len)
{
  void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return map == MAP_FAILED ? NULL : map;
}

int comm_try(const struct ranks *self, tuttiComm_t comm, int n)
{
  int count = 0, sum = 1;
  RANKS_CHECK(tuttiCommCount(comm, &count) == tuttiSuccess && count == n);
  RANKS_CHECK(tuttiAllReduce(&sum, &sum, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess && sum == n);
  return 0;
}

int comm_shrink(const struct ranks *self, tuttiComm_t comm, int dead, tuttiComm_t *left)
{
  int failed[64], n = 64;
  while (tuttiBarrier(comm, NULL) == tuttiSuccess) continue;
  RANKS_CHECK(tuttiCommGetFailed(comm, failed, &n) == tuttiSuccess && n == 1 && failed[0] == dead);
  RANKS_CHECK(tuttiCommShrink(comm, failed, n, left, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  return 0;
}

int comm_says(tuttiComm_t comm, const char *words)
{
  int found = strstr(tuttiGetLastError(comm), words) != NULL;
  if (!found) fprintf(stderr, "last error is \"%s\", wanted \"%s\"\n", tuttiGetLastError(comm), words);
  return found;
}

int says(const char *words)
{
  return comm_says(NULL, words);
}

void ranks_complain(const struct ranks *self, const char *file, int line, const char *condition)
{
  fprintf(stderr, "rank %d of %d: %s:%d: not true: %s (last error: %s)\n", self->rank, self->nranks, file, line,
          condition, tuttiGetLastError(NULL));
}

static void pause_ms(long ms)
{
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static int id_get(struct page *page, struct ranks *self)
{
  if (self->rank == 0) {
    int made = tuttiGetUniqueId(&page->id) == tuttiSuccess;
    atomic_store(&page->ready, made ? 1 : 2);
  }
  while (!atomic_load(&page->ready)) pause_ms(1);
  self->id = page->id;
  return atomic_load(&page->ready) == 1;
}

static int run(struct page *page, int rank, int nranks, ranks_body body, void *argument)
{
  struct ranks self = {.rank = rank, .nranks = nranks, .argument = argument};
  if (!id_get(page, &self)) {
    fprintf(stderr, "rank %d: no unique id: %s\n", rank, tuttiGetLastError(NULL));
    return 1;
  }
  return body(&self);
}

int ranks_start(int nranks, ranks_body body, void *argument, int *pids)
{
  struct page *page = ranks_shared(sizeof *page);
  fflush(NULL);
  for (int rank = 0; rank < nranks; rank++) {
    pids[rank] = fork();
    if (pids[rank] < 0) return -1;
    if (pids[rank]) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    host_take(rank);
    exit(run(page, rank, nranks, body, argument));
  }
  return 0;
}

/* With TEST_STACKS in the environment: where a process that hangs is, by gdb. */
static void stacks_print(int pid)
{
  char command[128];
  if (!getenv("TEST_STACKS")) return;
  snprintf(command, sizeof command, "gdb -p %d -batch -ex 'thread apply all bt 20' 1>&2", pid);
  if (system(command) != 0) fprintf(stderr, "no stacks of %d\n", pid);
}

int ranks_wait(int pid, int limit_s)
{
  int status;
  for (long waited = 0; waited < limit_of(limit_s) * 1000L; waited += 2) {
    int got = waitpid(pid, &status, WNOHANG);
    if (got == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    pause_ms(2);
  }
  stacks_print(pid);
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  return -1;
}

int ranks_run_processes(int nranks, ranks_body body, void *argument, int limit_s)
{
  int *pids = calloc((size_t)nranks, sizeof *pids), bad = 0;
  if (!pids || ranks_start(nranks, body, argument, pids) != 0) return nranks;
  for (int rank = 0; rank < nranks; rank++) {
    int status = ranks_wait(pids[rank], limit_s);
    if (status == 0) continue;
    fprintf(stderr, "rank %d of %d ended with %d\n", rank, nranks, status);
    bad++;
  }
  free(pids);
  return bad;
}

struct thread {
  pthread_t handle;
  struct page *page;
  int rank, nranks, result;
  ranks_body body;
  void *argument;
};

static void *thread_main(void *context)
{
  struct thread *thread = context;
  thread->result = run(thread->page, thread->rank, thread->nranks, thread->body, thread->argument);
  return NULL;
}

int ranks_run_threads(int nranks, ranks_body body, void *argument, int limit_s)
{
  struct page page = {.ready = 0};
  struct thread *threads = calloc((size_t)nranks, sizeof *threads);
  int bad = 0;
  alarm((unsigned)limit_of(limit_s));
  for (int rank = 0; rank < nranks; rank++) {
    threads[rank] =
        (struct thread){.page = &page, .rank = rank, .nranks = nranks, .body = body, .argument = argument};
    pthread_create(&threads[rank].handle, NULL, thread_main, &threads[rank]);
  }
  for (int rank = 0; rank < nranks; rank++) {
    pthread_join(threads[rank].handle, NULL);
    bad += threads[rank].result != 0;
  }
  alarm(0);
  free(threads);
  return bad;
}
