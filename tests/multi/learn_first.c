/* SPDX-License-Identifier: BSD-3-Clause */
/* Before a job learns: short jobs pay nothing, an arm is tried when all that it needs is there, and settings that
 * exclude learning do. */
#include "learn_calls.h"

#include <stdio.h>
#include <string.h>

#include "meeting.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static struct meeting *meeting;

/* ---- what it needs beforehand ---- */

/* 1,000 calls of a shape go by the table, and nothing is exchanged; the first exchange is before the next one. */
static int short_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 1000};
  tuttiComm_t comm;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  const struct tt_choice *first = tt_table_choice(&comm->calls.table, TT_ALL_REDUCE, 4000);
  for (int k = 0; k < FIRST_CALLS; k++) {
    RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess && is_right(&call, self));
    RANKS_CHECK(tt_choices_same(tt_comm_choice(comm, TT_ALL_REDUCE, 4, 4000), first));
  }
  RANKS_CHECK(comm->queue.last_op == FIRST_CALLS);
  RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess && comm->queue.last_op == FIRST_CALLS + 2);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void short_jobs_pay_nothing(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(3, short_body, NULL, 60), 0);
}

#define LONG_COUNT 40000 /* elements: 160 kB */
#define LONG_FIRST 100   /* calls before the first exchange, from 128 KiB on */

static int long_body(const struct ranks *self)
{
  int32_t *data = calloc(LONG_COUNT, sizeof *data);
  tuttiComm_t comm;
  RANKS_CHECK(data && tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  const struct tt_choice *first = tt_table_choice(&comm->calls.table, TT_ALL_REDUCE, 4 * LONG_COUNT);
  uint64_t asked = exchanges_first(comm, TT_ALL_REDUCE, 4 * LONG_COUNT);
  for (uint64_t k = 1; k <= LONG_FIRST + 1; k++) {
    RANKS_CHECK(tt_choices_same(tt_comm_choice(comm, TT_ALL_REDUCE, 4, 4 * LONG_COUNT), first));
    RANKS_CHECK(tuttiAllReduce(data, data, LONG_COUNT, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(comm->queue.last_op == (k <= LONG_FIRST ? k : k + 1) + asked);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  free(data);
  return 0;
}

static void long_calls_are_learnt_sooner(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(3, long_body, NULL, 60), 0);
}

/* 1 if the next call is a trial of an arm for which this rank has something left to do, such as a connection. */
static int is_early(tuttiComm_t comm, const struct tt_learn_shape *shape)
{
  int arm = tt_learn_arm(&shape->learn);
  struct tt_binding binding = {.call = {.collective = TT_ALL_REDUCE, .type = tuttiInt32}};
  struct tt_plan *plan;
  if (arm == shape->learn.agreed.incumbent) return 0;
  return tt_plan_bind(comm, &binding, &shape->arms[arm], &plan) != tuttiSuccess ||
         tt_plan_prepare(comm->parts.exec, plan, 8000, binding.block_bytes) != tuttiSuccess;
}

static int open_links(tuttiComm_t comm)
{
  int n = 0;
  for (int t = 0; t < comm->parts.ntransports; t++)
    n += comm->parts.transports[t]->ops->descriptors(comm->parts.transports[t]);
  return n;
}

static int *links; /* of each rank, that were made by learning; in memory of all ranks */

#define READY_MOST 100000

/* Calls until all arms have been ready for a while. */
static int readies_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 2000};
  tuttiComm_t comm;
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  learn_soon(comm);
  const struct tt_learn_shape *shape = &comm->calls.learning->shapes[0];
  int left = 1200;
  for (int k = 0; k < READY_MOST && left; k++) {
    RANKS_CHECK(!comm->calls.learning->nshapes || !is_early(comm, shape));
    RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess && is_right(&call, self));
    if (!k) links[self->rank] = -open_links(comm);
    if (comm->calls.learning->nshapes && shape->learn.agreed.ready == shape->learn.agreed.narms) left--;
  }
  links[self->rank] += open_links(comm);
  RANKS_CHECK(!left);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void arms_are_ready_before_they_are_tried(void **state)
{
  int more = 0;
  (void)state;
  setenv("TUTTI_TRANSPORTS", "tcp", 1);
  assert_int_equal(ranks_run_processes(4, readies_body, NULL, 120), 0);
  unsetenv("TUTTI_TRANSPORTS");
  for (int r = 0; r < 4; r++) more += links[r];
  assert_true(more > 0); /* some arm needed connections */
}

/* ---- what excludes it ---- */

#define NEVER (FIRST_CALLS + 10) /* calls: an exchange would come before */

/* Nothing is learnt and nothing exchanged, however often a shape is called. */
static int never_body(const struct ranks *self)
{
  struct call call = {.collective = TT_ALL_REDUCE, .count = 1000};
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  if (self->argument) memcpy(&config, self->argument, sizeof config);
  RANKS_CHECK(buffers_make(&call, self->rank));
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  for (int k = 0; k < NEVER; k++) RANKS_CHECK(call_run(&call, comm, NULL) == tuttiSuccess && is_right(&call, self));
  RANKS_CHECK(comm->queue.last_op == NEVER);
  RANKS_CHECK(!comm->calls.learning || comm->calls.learning->nshapes == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  buffers_free(&call);
  return 0;
}

static void settings_exclude_it(void **state)
{
  static const char *const settings[][2] = {{"TUTTI_LEARN", "0"},           {"TUTTI_LEARN", "freeze"},
                                            {"TUTTI_DETERMINISTIC", "1"},   {"TUTTI_ALGO", "ring,direct"},
                                            {"TUTTI_ALGO", "allreduce:^star"}};
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  (void)state;
  for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
    setenv(settings[k][0], settings[k][1], 1);
    assert_int_equal(ranks_run_processes(3, never_body, NULL, 60), 0);
    unsetenv(settings[k][0]);
  }
  for (config.learn = 0; config.learn <= 2; config.learn += 2)
    assert_int_equal(ranks_run_processes(3, never_body, &config, 60), 0);
  config.learn = 1;
  setenv("TUTTI_LEARN", "0", 1); /* overrides the program */
  assert_int_equal(ranks_run_processes(3, never_body, &config, 60), 0);
  unsetenv("TUTTI_LEARN");
}

static int differs_body(const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  config.learn = self->rank == 1 ? 2 : 1;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiInvalidUsage);
  RANKS_CHECK(says("TUTTI_LEARN"));
  config.learn = 3;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiInvalidArgument);
  RANKS_CHECK(says("config.learn is 3: set it to 0, 1 or 2"));
  RANKS_CHECK(meeting_wait(meeting)); /* the others may not have heard of it from this one before */
  return 0;
}

static void ranks_that_differ_in_it_are_told(void **state)
{
  (void)state;
  meeting = meeting_make(3);
  assert_int_equal(ranks_run_processes(3, differs_body, NULL, 60), 0);
  meeting_free(meeting);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(short_jobs_pay_nothing),
      cmocka_unit_test(long_calls_are_learnt_sooner),
      cmocka_unit_test(arms_are_ready_before_they_are_tried),
      cmocka_unit_test(settings_exclude_it),
      cmocka_unit_test(ranks_that_differ_in_it_are_told),
  };
  setenv("TUTTI_CACHE", "none", 1);
  links = ranks_shared(RANKS_MOST * sizeof *links);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
