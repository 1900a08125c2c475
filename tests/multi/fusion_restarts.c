/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti run --restart`, which is looked for beside this program, and fusions with servers: two ranks are killed, one
 * after the other, started again, and join the others, and the fusion goes on with the new set. Weights tell that each
 * contribution of the processes that live at the end is in them exactly once, unless `dropped` says otherwise, and
 * those of dead ones at most once.
 * Labels: processes. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counted_ranks.h"
#include "tagged_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 3
#define LIVES (RANKS + 2) /* processes: those that are started again, too */
#define STRETCH 6         /* updates, or own steps, after which ranks meet */
static const int victims[] = {1, 0}; /* ranks of the job, at the first such meeting and at the second */

static char self_path[4096];

/* In memory of all processes: its descriptor is an argument. */
struct task {
  int quorum; /* RANKS: all; 0: by a rule without a decision */
  int rule;
  _Atomic int met[2], ready, ended[LIVES], began[COUNTERS];
  float values[LIVES][TAGS];
};

/* ---- a process ---- */

struct process {
  struct task *task;
  int proc, life; /* life: number of the process; those that are started again come behind the others */
  tuttiComm_t comm;
};

/* Joins processes that were started again until the job is whole. */
static int grow(const struct ranks *self, tuttiComm_t *comm)
{
  tuttiComm_t grown;
  int n;
  RANKS_CHECK(tuttiCommCount(*comm, &n) == tuttiSuccess);
  for (; n < RANKS; n++) {
    RANKS_CHECK(tuttiLaunchGrow(*comm, &grown, NULL) == tuttiSuccess);
    tuttiCommAbort(*comm);
    *comm = grown;
  }
  return 0;
}

/* Ranks meet: one dies, its process is started again, and it joins. */
static int death(const struct ranks *self, struct process *process, int number, tuttiFusion_t *fusion)
{
  tuttiComm_t old = process->comm;
  int dead, rank;
  RANKS_CHECK(tuttiCommUserRank(old, &rank) == tuttiSuccess);
  dead = process->proc == victims[number] ? rank : 0;
  RANKS_CHECK(tuttiAllReduce(&dead, &dead, 1, tuttiInt, tuttiMax, old, NULL) == tuttiSuccess);
  atomic_fetch_add(&process->task->met[number], 1); /* the end of the sum is known to all before somebody dies */
  RANKS_CHECK(meeting_await(&process->task->met[number], RANKS));
  if (process->proc == victims[number]) raise(SIGKILL);
  RANKS_CHECK(comm_shrink(self, old, dead, &process->comm) == 0);
  RANKS_CHECK(grow(self, &process->comm) == 0);
  RANKS_CHECK(tuttiFusionMove(fusion, process->comm) == tuttiSuccess);
  tuttiCommAbort(old);
  return 0;
}

static int begin(const struct ranks *self, struct process *process)
{
  tuttiLaunch_t job;
  RANKS_CHECK(tuttiGetLaunch(&job) == tuttiSuccess && job.nprocs == RANKS);
  const char *restart = getenv("TUTTI_LAUNCH_RESTART");
  process->proc = job.proc;
  process->life = restart ? RANKS - 1 + atoi(restart) : job.proc;
  if (restart) return tuttiLaunchGrow(NULL, &process->comm, NULL) != tuttiSuccess;
  return tuttiCommInitRank(&process->comm, RANKS, job.id, job.proc) != tuttiSuccess;
}

/* The first stretch that a process makes. */
static int stretch_of(const struct process *process)
{
  return process->life < RANKS ? 0 : process->life - RANKS + 1;
}

/* ---- by steps that are decided ---- */

/* All that the dead one has served is lost where all count: who has seen the last step gives it. */
static int weights_again(const struct ranks *self, struct process *process, struct life *life)
{
  if (process->task->quorum < RANKS) return 0;
  for (int t = 0; t < TAGGED; t++)
    RANKS_CHECK(tuttiBcast(life->kept[t], tagged[t].count, tuttiFloat32, 0, process->comm, NULL) == tuttiSuccess);
  return life_give(self, life);
}

static int life_body(const struct ranks *self, struct process *process)
{
  struct task *task = process->task;
  struct life life = {.job = {.quorum = task->quorum}};
  int stretch = stretch_of(process);
  RANKS_CHECK(life_make(&life));
  if (stretch) {
    RANKS_CHECK(job_begin(self, &life.job, process->comm) == 0);
    RANKS_CHECK(weights_again(self, process, &life) == 0);
    RANKS_CHECK(tuttiFusionGetInfo(life.job.fusion, &life.job.info) == tuttiSuccess);
  } else RANKS_CHECK(job_make(self, &life.job, process->comm) == 0);
  for (;; stretch++) {
    while (life.job.info.updates < (uint64_t)(STRETCH * (stretch + 1))) RANKS_CHECK(life_step(self, &life) == 0);
    if (stretch == 2) break;
    RANKS_CHECK(death(self, process, stretch, &life.job.fusion) == 0);
    RANKS_CHECK(weights_again(self, process, &life) == 0);
  }
  RANKS_CHECK(life_tell(self, &life, task->values[process->life]) == 0);
  RANKS_CHECK(tuttiFusionDestroy(life.job.fusion) == tuttiSuccess);
  life_free(&life);
  return 0;
}

/* ---- by the other rules ---- */

static int counter_body(const struct ranks *self, struct process *process)
{
  static struct counter counter;
  static const int steps[COUNTERS] = {-1, -1, 3 * STRETCH, 2 * STRETCH, STRETCH};
  struct counter *c = &counter;
  struct task *task = process->task;
  int stretch = stretch_of(process);
  *c = (struct counter){.rule = &rules[task->rule], .number = process->life, .began = task->began};
  RANKS_CHECK(counter_make(self, c, process->comm, stretch > 0) == 0);
  for (;; stretch++) {
    RANKS_CHECK(counter_steps(self, c, STRETCH) == 0);
    if (stretch == 2) break;
    RANKS_CHECK(death(self, process, stretch, &c->fusion) == 0);
  }
  atomic_fetch_add(&task->ready, 1);
  RANKS_CHECK(meeting_await(&task->ready, RANKS));
  RANKS_CHECK(counter_end(self, c, steps) == 0);
  RANKS_CHECK(tuttiFusionDestroy(c->fusion) == tuttiSuccess);
  return 0;
}

/* A process that `tutti run` has started. */
static int process_main(int fd)
{
  struct process process = {.task = mmap(NULL, sizeof(struct task), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)};
  struct ranks ranks = {.nranks = RANKS}, *self = &ranks;
  if (process.task == MAP_FAILED || begin(self, &process) != 0) return 1;
  self->rank = process.life;
  int wrong = process.task->quorum ? life_body(self, &process) : counter_body(self, &process);
  if (wrong) return 1;
  atomic_store(&process.task->ended[process.life], 1);
  return tuttiCommDestroy(process.comm) != tuttiSuccess;
}

/* ---- the tests ---- */

static void restarts_run(const char *transport, int quorum, int rule)
{
  char command[9000];
  int fd = memfd_create("restarts", 0), slash = (int)(strrchr(self_path, '/') - self_path);
  assert_true(fd >= 0 && ftruncate(fd, sizeof(struct task)) == 0);
  struct task *task = mmap(NULL, sizeof *task, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_true(task != MAP_FAILED);
  task->quorum = quorum;
  task->rule = rule;
  setenv("TUTTI_TRANSPORTS", transport, 1);
  snprintf(command, sizeof command, "'%.*s/tutti' run -n %d --restart 2 --no-prefix -- '%s' --process %d 2>&1", slash,
           self_path, RANKS, self_path, fd);
  FILE *output = popen(command, "r");
  assert_non_null(output);
  char text[8192];
  text[fread(text, 1, sizeof text - 1, output)] = 0;
  int status = pclose(output);
  if (status != 0) fail_msg("%s, quorum %d, rule %d: status %x:\n%s", transport, quorum, rule, (unsigned)status, text);
  for (int life = 0; life < LIVES; life++) assert_int_equal(atomic_load(&task->ended[life]), life >= 2);
  for (int life = 3; life < LIVES; life++)
    assert_memory_equal(task->values[life], task->values[2], sizeof task->values[2]);
  for (int tag = 0; tag < TAGS && quorum; tag++) { /* a process is in no step before it came, or behind its death */
    unsigned value = (unsigned)task->values[2][tag];
    assert_true(tag < 3 * STRETCH ? bits_of((float)value) >= (quorum < RANKS ? 2 : RANKS) : value == 0);
    assert_true((tag < STRETCH || !(value & 2)) && (tag < 2 * STRETCH || !(value & 1)));
    assert_true((tag >= STRETCH || !(value & 8)) && (tag >= 2 * STRETCH || !(value & 16)));
  }
  munmap(task, sizeof *task);
  close(fd);
}

static void with_a_quorum_a_restarted_rank_contributes_again(void **state)
{
  (void)state;
  restarts_run(ranks_transports(0), 2, 0);
  if (ranks_transports(1)) restarts_run(ranks_transports(1), RANKS, 0);
}

static void so_it_does_without_a_decision(void **state)
{
  (void)state;
  for (int rule = 0; rule < RULES; rule++) restarts_run(ranks_transports(ranks_transports(1) ? rule % 2 : 0), 0, rule);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_a_quorum_a_restarted_rank_contributes_again),
      cmocka_unit_test(so_it_does_without_a_decision),
  };
  if (argc > 2 && strcmp(argv[1], "--process") == 0) return process_main(atoi(argv[2]));
  if (readlink("/proc/self/exe", self_path, sizeof self_path - 1) < 0) return 1;
  setenv("TUTTI_DEBUG", "NONE", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
