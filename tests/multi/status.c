/* SPDX-License-Identifier: BSD-3-Clause */
/* What another process sees of a job that hangs: the sentence names the rank that holds up the others, what it is to do
 * next, and what its process does. A job that goes on without a dead rank (fault_level 1) is not held up. Ages are left
 * out of the comparison, and so is the kernel's function in which a thread sleeps.
 * Labels: processes. */
#include "ranks.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "status/status.h"
#include "tutti_fusion.h"

#define NRANKS 3
#define LIMIT_S 60

/* What the last rank does while the others are in their second all-reduce. */
enum late { SLEEPS, SPINS, REDUCES, IS_ON_ANOTHER_HOST, OWES_A_MESSAGE, OWES_A_TENSOR, NOTHING, DIES };

struct job {
  enum late late;
  int pipe[2];          /* the last rank reads it until the parent closes it */
  _Atomic int reached;  /* ranks that are about to make their last call */
  _Atomic int goes_on;  /* for a rank that spins */
};

/* ---- in a rank ---- */

static void held_up(struct job *job)
{
  char byte;
  atomic_fetch_add(&job->reached, 1);
  if (job->late == SPINS) {
    while (!atomic_load(&job->goes_on)) continue;
    return;
  }
  ssize_t n = read(job->pipe[0], &byte, 1);
  (void)n;
}

static tuttiResult_t last_call(const struct ranks *self, tuttiComm_t comm, struct job *job)
{
  float x[4] = {0};
  int is_last = self->rank == NRANKS - 1;
  if (job->late == OWES_A_MESSAGE) {
    if (self->rank == 0) return tuttiRecv(x, 4, tuttiFloat, NRANKS - 1, comm, NULL);
    return is_last ? tuttiSend(x, 4, tuttiFloat, 0, comm, NULL) : tuttiSuccess;
  }
  if (job->late == REDUCES && is_last) return tuttiReduce(x, x, 4, tuttiFloat, tuttiSum, NRANKS - 1, comm, NULL);
  return tuttiAllReduce(x, x, 4, tuttiFloat, tuttiSum, comm, NULL);
}

static int body(const struct ranks *self)
{
  struct job *job = self->argument;
  float x[4] = {0};
  tuttiComm_t comm;
  int is_last = self->rank == NRANKS - 1;
  close(job->pipe[1]);
  if (job->late == IS_ON_ANOTHER_HOST) setenv("TUTTI_HOSTID", is_last ? "two" : "one", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, NRANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(x, x, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  if (is_last && job->late != REDUCES && job->late != NOTHING) held_up(job);
  else atomic_fetch_add(&job->reached, 1);
  tuttiResult_t result = job->late == NOTHING ? tuttiSuccess : last_call(self, comm, job);
  tuttiResult_t wanted = job->late == REDUCES ? tuttiInvalidUsage : tuttiSuccess;
  if (job->late == REDUCES || job->late == NOTHING) { /* the communicator stays until the parent has looked at it */
    RANKS_CHECK(read(job->pipe[0], x, 1) == 0);
  }
  RANKS_CHECK(result == wanted);
  RANKS_CHECK((tuttiCommDestroy(comm) == tuttiSuccess) == (wanted == tuttiSuccess));
  return 0;
}

/* The last rank pushes one of two tensors in the second step, and waits. */
static int fusion_body(const struct ranks *self)
{
  struct job *job = self->argument;
  static float x[2][100];
  const tuttiFusionTensor_t tensors[2] = {{"w0", 100, tuttiFloat}, {"w1", 100, tuttiFloat}};
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  close(job->pipe[1]);
  RANKS_CHECK(tuttiCommInitRank(&comm, NRANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, 2, NULL) == tuttiSuccess);
  for (int step = 1; step <= 2; step++) {
    int is_late = step == 2 && self->rank == NRANKS - 1;
    for (int i = 1; i >= 0; i--) {
      if (!i && is_late) held_up(job);
      if (!i && !is_late && step == 2) atomic_fetch_add(&job->reached, 1);
      RANKS_CHECK(tuttiFusionPush(fusion, i, x[i], x[i], 100, tuttiFloat, NULL) == tuttiSuccess);
    }
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Calls with fault_level 1 until rank 0 is told to end. */
static int survivor_body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  int ends = 0;
  tuttiComm_t comm;
  config.fault_level = 1;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, NRANKS, self->id, self->rank, &config) == tuttiSuccess);
  for (int k = 0; !ends; k++) {
    int mine = self->rank == 0 && atomic_load(&job->goes_on);
    tuttiResult_t result = tuttiAllReduce(&mine, &ends, 1, tuttiInt, tuttiMax, comm, NULL);
    if (k == 0) atomic_fetch_add(&job->reached, 1);
    RANKS_CHECK(result == tuttiSuccess || result == tuttiRemoteError);
    if (result != tuttiSuccess) ends = 0;
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* ---- in the parent ---- */

static int pids[NRANKS];

static struct job *job_start(enum late late)
{
  struct job *job = ranks_shared(sizeof *job);
  assert_non_null(job);
  job->late = late;
  assert_int_equal(pipe2(job->pipe, O_CLOEXEC), 0);
  int (*its)(const struct ranks *) = late == OWES_A_TENSOR ? fusion_body : late == DIES ? survivor_body : body;
  assert_int_equal(ranks_start(NRANKS, its, job, pids), 0);
  while (atomic_load(&job->reached) < NRANKS) usleep(1000);
  return job;
}

static void job_end(struct job *job)
{
  atomic_store(&job->goes_on, 1);
  close(job->pipe[1]);
  for (int rank = 0; rank < NRANKS; rank++) assert_int_equal(ranks_wait(pids[rank], LIMIT_S), 0);
  close(job->pipe[0]);
}

/* Replaces "for 41 s" and "ended 0.3 s" by "for TIME" and the like, and takes out " (pipe_read)" behind a system
 * call. */
static void mask(char *text)
{
  static const char *const before[] = {" for ", " ended "};
  for (size_t i = 0; i < 2; i++) {
    char *at = strstr(text, before[i]), *end;
    if (!at) continue;
    at += strlen(before[i]);
    (void)strtod(at, &end);
    if (end == at) continue;
    end += strncmp(end, " min", 4) == 0 ? 4 : 2;
    memmove(at + 4, end, strlen(end) + 1);
    memcpy(at, "TIME", 4);
  }
  char *function = strstr(text, "sleeps in read (");
  if (function) function[strlen("sleeps in read")] = 0;
}

/* Looks at the one communicator of a process; waits until `ninside` of its ranks are in a call. */
static int look(int rank, int ninside, char verdict[TT_JUDGED_BYTES])
{
  struct tt_pages pages;
  struct tt_comm_status before, now;
  assert_int_equal(tt_pages_find(&pages, pids[rank]), tuttiSuccess);
  assert_int_equal(pages.n, 1);
  for (int inside = -1; inside != ninside; usleep(1000)) {
    assert_int_equal(tt_status_take(&before, &pages.pages[0].page), tuttiSuccess);
    inside = before.has_failed ? ninside : 0;
    for (int r = 0; r < NRANKS && !before.has_failed; r++)
      inside += before.ranks[r].is_inside || before.ranks[r].waits_for >= 0;
    if (inside != ninside) tt_status_destroy(&before);
  }
  usleep(20000); /* so that its age is not 0 */
  assert_int_equal(tt_status_take(&now, &pages.pages[0].page), tuttiSuccess);
  int is_bad = tt_status_judge(&before, &now, verdict);
  mask(verdict);
  tt_status_destroy(&before);
  tt_status_destroy(&now);
  tt_pages_close(&pages);
  return is_bad;
}

/* Looks until the verdict has these words: a rank that is about to sleep or stop may take a moment. */
static void look_until(int rank, int ninside, const char *words, char verdict[TT_JUDGED_BYTES])
{
  do assert_true(look(rank, ninside, verdict));
  while (!strstr(verdict, words));
}

/* The name of a rank in sentences. */
static const char *name_of(int rank, char text[TT_RANK_NAME_BYTES])
{
  struct tt_rank_status status = {.rank = rank, .pid = pids[rank]};
  tt_host_name(status.host);
  return tt_status_rank_name(&status, text);
}

static void a_rank_that_sleeps_elsewhere_is_named(void **state)
{
  (void)state;
  char verdict[TT_JUDGED_BYTES], wanted[TT_JUDGED_BYTES], name[TT_RANK_NAME_BYTES];
  struct job *job = job_start(SLEEPS);
  for (int rank = 0; rank < NRANKS; rank++) { /* each of the processes shows the same */
    look_until(rank, NRANKS - 1, "sleeps in", verdict);
    snprintf(wanted, sizeof wanted,
             "%s has not entered AllReduce #2 (count 4, float, sum) for TIME; it is alive, its main thread sleeps in "
             "read", name_of(NRANKS - 1, name));
    assert_string_equal(verdict, wanted);
  }
  assert_int_equal(kill(pids[2], SIGSTOP), 0);
  snprintf(wanted, sizeof wanted,
           "%s is after AllReduce #1 (count 4, float, sum): it is stopped (state T), and `kill -CONT %d` lets it go on",
           name_of(2, name), pids[2]);
  look_until(2, NRANKS - 1, "is stopped", verdict);
  assert_string_equal(verdict, wanted);
  assert_int_equal(kill(pids[2], SIGCONT), 0);
  job_end(job);
}

static void a_rank_that_computes_is_named(void **state)
{
  (void)state;
  char verdict[TT_JUDGED_BYTES], wanted[TT_JUDGED_BYTES], name[TT_RANK_NAME_BYTES];
  struct job *job = job_start(SPINS);
  assert_true(look(0, NRANKS - 1, verdict));
  snprintf(wanted, sizeof wanted,
           "%s has not entered AllReduce #2 (count 4, float, sum) for TIME; it is alive, its main thread is running",
           name_of(NRANKS - 1, name));
  assert_string_equal(verdict, wanted);
  job_end(job);
}

/* Compares what the reader says of a rank's dump. */
static void dump_holds(const char *folder, int rank, const char *wanted)
{
  char command[256], text[1024];
  snprintf(command, sizeof command, "%s %s/dump.%d.json 2>&1", DUMP_READ, folder, rank);
  FILE *reader = popen(command, "r");
  assert_non_null(reader);
  size_t len = fread(text, 1, sizeof text - 1, reader);
  text[len] = 0;
  assert_int_equal(pclose(reader), 0);
  assert_string_equal(text, wanted);
}

static void a_rank_in_another_call_is_named_and_all_dump_their_calls(void **state)
{
  (void)state;
  char verdict[TT_JUDGED_BYTES], folder[] = "/tmp/tutti.status_XXXXXX", file[64];
  assert_non_null(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/dump.json", folder);
  setenv("TUTTI_DUMP", file, 1);
  struct job *job = job_start(REDUCES);
  unsetenv("TUTTI_DUMP");
  assert_true(look(1, NRANKS, verdict));
  assert_non_null(strstr(verdict, "the communicator has failed: calls differ between ranks: "));
  assert_non_null(strstr(verdict, "Reduce #2 (count 4, float, sum, root 2)"));
  job_end(job);
  for (int rank = 0; rank < NRANKS; rank++) {
    dump_holds(folder, rank, rank == NRANKS - 1 ? "1 nccl:all_reduce [[4]] Float completed\n"
                                                  "2 nccl:reduce [[4]] Float started\n"
                                                : "1 nccl:all_reduce [[4]] Float completed\n"
                                                  "2 nccl:all_reduce [[4]] Float started\n");
    snprintf(file, sizeof file, "%s/dump.%d.json", folder, rank);
    assert_int_equal(unlink(file), 0);
  }
  assert_int_equal(rmdir(folder), 0);
}

static void a_rank_of_another_host_is_named(void **state)
{
  (void)state;
  char verdict[TT_JUDGED_BYTES], wanted[TT_JUDGED_BYTES], name[TT_RANK_NAME_BYTES];
  char host[TT_HOST_NAME_BYTES];
  struct job *job = job_start(IS_ON_ANOTHER_HOST);
  tt_host_name(host);
  look_until(0, NRANKS - 1, "AllReduce #2 ", verdict); /* after the next beat of that rank */
  snprintf(wanted, sizeof wanted,
           "%s has not entered AllReduce #2 (count 4, float, sum) for TIME; it is on %s, where `tutti status` can see "
           "it",
           name_of(NRANKS - 1, name), host);
  assert_string_equal(verdict, wanted);
  job_end(job);
}

static void a_rank_that_owes_a_message_is_named(void **state)
{
  (void)state;
  char verdict[TT_JUDGED_BYTES], wanted[TT_JUDGED_BYTES], name[TT_RANK_NAME_BYTES];
  char other[TT_RANK_NAME_BYTES];
  struct job *job = job_start(OWES_A_MESSAGE);
  look_until(0, 1, "sleeps in", verdict);
  snprintf(wanted, sizeof wanted,
           "%s waits for %s to send its message; of that one: it is alive, its main thread sleeps in read",
           name_of(0, name), name_of(NRANKS - 1, other));
  assert_string_equal(verdict, wanted);
  job_end(job);
}

/* 1 if a communicator of the process has a verdict with these words. */
static int some_page_says(int rank, const char *words)
{
  char verdict[TT_JUDGED_BYTES];
  struct tt_pages pages;
  int found = 0;
  assert_int_equal(tt_pages_find(&pages, pids[rank]), tuttiSuccess);
  for (int i = 0; i < pages.n; i++) {
    struct tt_comm_status before, now;
    assert_int_equal(tt_status_take(&before, &pages.pages[i].page), tuttiSuccess);
    usleep(20000);
    assert_int_equal(tt_status_take(&now, &pages.pages[i].page), tuttiSuccess);
    found |= tt_status_judge(&before, &now, verdict) && strstr(verdict, words);
    tt_status_destroy(&before);
    tt_status_destroy(&now);
  }
  tt_pages_close(&pages);
  return found;
}

static void a_tensor_that_is_not_pushed_is_named_with_its_rank(void **state)
{
  (void)state;
  char wanted[TT_JUDGED_BYTES], name[TT_RANK_NAME_BYTES];
  struct job *job = job_start(OWES_A_TENSOR);
  snprintf(wanted, sizeof wanted, "%s has not pushed tensor 0 (w0) of step 2, so it has not entered AllReduce #",
           name_of(NRANKS - 1, name));
  for (int rank = 0; rank < NRANKS; rank++)
    while (!some_page_says(rank, wanted)) usleep(1000);
  job_end(job);
}

static void ranks_outside_of_calls_hang_nowhere_and_leave_nothing(void **state)
{
  (void)state;
  char verdict[TT_JUDGED_BYTES];
  struct tt_pages pages;
  struct job *job = job_start(NOTHING);
  assert_false(look(0, 0, verdict));
  assert_string_equal(verdict, "no rank is in a call; the last one was AllReduce #1 (count 4, float, sum), which ended "
                               "TIME ago");
  assert_int_equal(tt_pages_find(&pages, getpid()), tuttiSuccess); /* a process without communicators */
  assert_int_equal(pages.n, 0);
  tt_pages_close(&pages);
  job_end(job);
}

/* 1: no verdict about the communicators of a process complains, and one of them says that calls go on. */
static int is_well(int rank)
{
  struct tt_pages pages;
  struct tt_comm_status before, now;
  char verdict[TT_JUDGED_BYTES];
  int bad = 0, moves = 0;
  assert_int_equal(tt_pages_find(&pages, pids[rank]), tuttiSuccess);
  for (int i = 0; i < pages.n; i++) {
    assert_int_equal(tt_status_take(&before, &pages.pages[i].page), tuttiSuccess);
    usleep(20000);
    assert_int_equal(tt_status_take(&now, &pages.pages[i].page), tuttiSuccess);
    bad += tt_status_judge(&before, &now, verdict);
    moves += strncmp(verdict, "calls go on", 11) == 0;
    tt_status_destroy(&before);
    tt_status_destroy(&now);
  }
  int n = pages.n;
  tt_pages_close(&pages);
  return n == 2 && !bad && moves == 1;
}

static void a_job_that_goes_on_without_a_dead_rank_is_well(void **state)
{
  (void)state;
  struct job *job = job_start(DIES);
  int looks = 0;
  assert_int_equal(kill(pids[NRANKS - 1], SIGKILL), 0);
  while (looks < 500 && !is_well(0)) looks++;
  assert_true(looks < 500);
  atomic_store(&job->goes_on, 1);
  for (int rank = 0; rank < NRANKS; rank++)
    assert_int_equal(ranks_wait(pids[rank], LIMIT_S) != 0, rank == NRANKS - 1);
  close(job->pipe[0]);
  close(job->pipe[1]);
}

/* For tests/tools/status: a job that hangs so until standard input ends; prints the process of its rank 0. */
static int hang(void)
{
  char byte;
  struct job *job = job_start(OWES_A_TENSOR);
  printf("%d\n", pids[0]);
  fflush(stdout);
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  job_end(job);
  return 0;
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_that_sleeps_elsewhere_is_named),
      cmocka_unit_test(a_rank_that_computes_is_named),
      cmocka_unit_test(a_rank_in_another_call_is_named_and_all_dump_their_calls),
      cmocka_unit_test(a_rank_of_another_host_is_named),
      cmocka_unit_test(a_rank_that_owes_a_message_is_named),
      cmocka_unit_test(a_tensor_that_is_not_pushed_is_named_with_its_rank),
      cmocka_unit_test(ranks_outside_of_calls_hang_nowhere_and_leave_nothing),
      cmocka_unit_test(a_job_that_goes_on_without_a_dead_rank_is_well),
  };
  if (argc == 2 && strcmp(argv[1], "--hang") == 0) return hang();
  return cmocka_run_group_tests_name("multi.status", tests, NULL, NULL);
}
