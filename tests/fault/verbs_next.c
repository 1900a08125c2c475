/* SPDX-License-Identifier: BSD-3-Clause */
/* On the double of libibverbs: RDMA is used by default between hosts that have it; where it is not there, or two ranks
 * get no link with it, the next transport is, on both sides, and results are exact.
 * Labels: slow. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_verbs.h"
#include "meeting.h"
#include "ranks.h"
#include "slow.h"

#define RANKS 3
#define COUNT 300000
#define BYTES (COUNT * sizeof(int))
#define LIMIT_S 60

static const struct fake_verbs *fake;

/* What all ranks of a test share. */
struct job {
  struct meeting *meeting;
  const char *verb; /* fails at its n-th call after creation, with this code; NULL: none */
  long n;
  int code;
  long send_at; /* this work request is never answered */
  long spare;   /* bytes that may be registered beside what creation does; -1: any, */
  int poor;     /* by this rank; -1: by each */
  long moved;   /* at least so many bytes go over the device, */
  int is_none;  /* or none at all */
  int are_apart;
  int lacks; /* this rank has no device; -1: all have */
};

/* Long enough for all lanes: every element tells who is missing. */
static int reduces(const struct ranks *self, tuttiComm_t comm)
{
  int *data = malloc(BYTES);
  RANKS_CHECK(data);
  for (int i = 0; i < COUNT; i++) data[i] = (1 << 8 * self->rank) + i % 7;
  RANKS_CHECK(tuttiAllReduce(data, data, COUNT, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < COUNT; i++) RANKS_CHECK(data[i] == 0x10101 + i % 7 * RANKS);
  free(data);
  return 0;
}

static int body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiComm_t comm;
  char host[16];
  snprintf(host, sizeof host, "host%d", self->rank);
  if (job->are_apart) setenv("TUTTI_HOSTID", host, 1);
  if (self->rank == job->lacks) setenv("TUTTI_IB_HCA", "=other", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, RANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(job->meeting));
  if (self->rank == job->poor) fake->settings->memlock_of = getpid();
  if (self->rank == 0) {
    if (job->spare >= 0) fake->settings->memlock = fake->count().registered + job->spare;
    fake->break_at(job->verb, job->verb ? job->n : 0, job->code);
    fake->settings->send_at = job->send_at;
  }
  RANKS_CHECK(meeting_wait(job->meeting));
  if (reduces(self, comm)) return 1;
  RANKS_CHECK(meeting_wait(job->meeting));
  if (self->rank == 0) fake->break_at(NULL, 0, 0);
  RANKS_CHECK(meeting_wait(job->meeting));
  if (reduces(self, comm)) return 1;
  RANKS_CHECK(fake->count().copied >= job->moved && (!job->is_none || !fake->count().copied));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static struct job job_of(int are_apart)
{
  return (struct job){.spare = -1, .poor = -1, .lacks = -1, .are_apart = are_apart};
}

/* Processes; what they log is counted in lines. */
static long try_it(struct job job)
{
  char path[] = "/tmp/tutti-next-XXXXXX", line[1024];
  int fd = mkstemp(path);
  long lines = 0;
  assert_true(fd >= 0);
  setenv("TUTTI_DEBUG_FILE", path, 1);
  fake->reset();
  job.meeting = meeting_make(RANKS);
  int bad = ranks_run_processes(RANKS, body, &job, LIMIT_S);
  FILE *log = fdopen(fd, "r");
  for (; log && fgets(line, sizeof line, log); lines++)
    if (bad) fprintf(stderr, "%s", line);
  if (log) fclose(log);
  unlink(path);
  meeting_free(job.meeting);
  assert_int_equal(bad, 0);
  assert_true(fake->is_clean());
  return lines;
}

static void hosts_apart_use_it_by_default_and_say_nothing(void **state)
{
  (void)state;
  struct job job = job_of(1);
  job.moved = BYTES;
  assert_int_equal(try_it(job), 0);
}

static void one_host_opens_no_device(void **state)
{
  (void)state;
  struct job job = job_of(0);
  job.is_none = 1;
  fake->reset();
  assert_int_equal(try_it(job), 0);
  assert_int_equal(fake->count().calls, 0);
}

static void hosts_without_a_device_say_nothing(void **state)
{
  (void)state;
  struct job job = job_of(1);
  setenv("TUTTI_IB_HCA", "=other", 1);
  job.is_none = 1;
  assert_int_equal(try_it(job), 0);
  setenv("TUTTI_TRANSPORTS", "shm,verbs,tcp", 1); /* but who names it is told, by each rank */
  assert_int_equal(try_it(job), RANKS);
  unsetenv("TUTTI_TRANSPORTS");
  unsetenv("TUTTI_IB_HCA");
}

static void one_rank_without_a_device_is_named(void **state)
{
  (void)state;
  struct job job = job_of(1);
  job.is_none = 1;
  job.lacks = 1;
  assert_int_equal(try_it(job), RANKS);
}

/* Once; nobody who has no device is told. */
static void data_that_are_to_be_authenticated_cost_it_and_rank_0_says_so(void **state)
{
  (void)state;
  struct job job = job_of(1);
  setenv("TUTTI_AUTH", "encrypt", 1);
  job.is_none = 1;
  assert_int_equal(try_it(job), 1);
  setenv("TUTTI_IB_HCA", "=other", 1);
  assert_int_equal(try_it(job), 0);
  unsetenv("TUTTI_IB_HCA");
  unsetenv("TUTTI_AUTH");
}

static void a_link_that_cannot_be_made_is_one_of_the_next_transport(void **state)
{
  static const struct {
    const char *verb;
    int code;
  } failures[] = {{"ibv_reg_mr", ENOMEM}, {"ibv_create_cq", EINVAL}, {"ibv_modify_qp", ETIMEDOUT},
                  {"ibv_post_recv", ENOMEM}, {"ibv_post_send", EIO}};
  (void)state;
  for (size_t f = 0; f < sizeof failures / sizeof failures[0]; f++)
    for (long n = 1; n <= 6; n += f == 4 ? 6 : 1 + IS_SLOW) { /* of sends the first ones prove the ways */
      struct job job = job_of(1);
      job.verb = failures[f].verb;
      job.code = failures[f].code;
      job.n = n;
      printf("%s, call %ld: %ld lines\n", job.verb, n, try_it(job));
    }
}

static void devices_without_a_way_to_each_other_are_not_used(void **state)
{
  (void)state;
  struct job job = job_of(1);
  job.send_at = 1;
  long lines = try_it(job);
  assert_true(lines == 1 || lines == 2); /* the other end's queue pair finds nobody, too */
}

static void what_may_not_be_locked_is_done_without(void **state)
{
  (void)state;
  static const struct {
    long rings; /* that may be locked, where a rank has two neighbours, */
    int poor;   /* by this rank; -1: by each */
    int is_none;
    long moved;
  } rows[] = {{0, -1, 1, 0}, {0, 2, 0, 1}, {1, -1, 0, 0}}; /* of the last each rank may begin with another link */
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    struct job job = job_of(1);
    job.spare = rows[r].rings * 2200000;
    job.poor = rows[r].poor;
    job.is_none = rows[r].is_none;
    job.moved = rows[r].moved;
    assert_true(try_it(job) >= 1);
  }
}

int main(void)
{
  fake = fake_verbs();
  unsetenv("TUTTI_TRANSPORTS");
  setenv("TUTTI_CACHE", "none", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hosts_apart_use_it_by_default_and_say_nothing),
      cmocka_unit_test(one_host_opens_no_device),
      cmocka_unit_test(hosts_without_a_device_say_nothing),
      cmocka_unit_test(one_rank_without_a_device_is_named),
      cmocka_unit_test(data_that_are_to_be_authenticated_cost_it_and_rank_0_says_so),
      cmocka_unit_test(a_link_that_cannot_be_made_is_one_of_the_next_transport),
      cmocka_unit_test(devices_without_a_way_to_each_other_are_not_used),
      cmocka_unit_test(what_may_not_be_locked_is_done_without),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
