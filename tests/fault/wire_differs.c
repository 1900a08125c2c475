/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that differ in how floats travel, in the overflow report or in the last scale: an error on every rank that
 * shows the difference, never a hang, and never a result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define ODD 1 /* the rank that differs */

struct way {
  int wire, reports;
  float after;
  const char *words; /* what the sentence must say of it */
};

struct difference {
  struct way usual, odd;
  size_t count;
};

static int differ(const struct ranks *self)
{
  const struct difference *difference = self->argument;
  const struct way *way = self->rank == ODD ? &difference->odd : &difference->usual;
  tuttiComm_t comm;
  int overflow = 77;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  if (getenv("SPREAD")) { /* a host for each rank: they see nothing of each other but messages */
    char host[16];
    snprintf(host, sizeof host, "host%d", self->rank);
    setenv("TUTTI_HOSTID", host, 1);
  }
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  float *data = calloc(difference->count, sizeof *data);
  tuttiResult_t result = tuttiAllReduce(data, data, 1, tuttiFloat, tuttiSum, comm, NULL);
  options.wire_type = way->wire;
  options.scale_after = way->after;
  if (way->reports) options.overflow = &overflow;
  if (result == tuttiSuccess)
    result = tuttiAllReduceWith(data, data, difference->count, tuttiFloat, tuttiSum, &options, comm, NULL);
  const char *sentence = tuttiGetLastError(comm);
  /* Over shm there is an exchange of the kind of memory before the first long call, which has a number, too. */
  int is_third = difference->count >= 100000 && strcmp(getenv("TUTTI_TRANSPORTS"), "shm") == 0;
  int is_numbered = strstr(sentence, is_third ? "AllReduce #3 " : "AllReduce #2 ") != NULL;
  if (result != tuttiInvalidUsage || !strstr(sentence, difference->usual.words) ||
      !strstr(sentence, difference->odd.words) || !is_numbered || !strstr(sentence, "rank 1"))
    fprintf(stderr, "wanted \"%s\" and \"%s\"\n", difference->usual.words, difference->odd.words);
  RANKS_CHECK(result == tuttiInvalidUsage);
  RANKS_CHECK(strstr(sentence, "rank 1") && is_numbered);
  RANKS_CHECK(strstr(sentence, difference->usual.words) && strstr(sentence, difference->odd.words));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  free(data);
  return 0;
}

static void differing_ways_are_shown_on_all_ranks(void **state)
{
  static const struct difference kinds[] = {
      {{tuttiFloat32, 0, 1, "float, sum)"}, {tuttiFloat16, 0, 1, "float as half, sum)"}, 10},
      {{tuttiFloat16, 0, 1, "float as half, sum)"}, {tuttiBfloat16, 0, 1, "float as bfloat16, sum)"}, 100000},
      {{tuttiFloat32, 1, 1, "float, sum, overflow report)"}, {tuttiFloat32, 0, 1, "float, sum)"}, 100000},
      {{tuttiFloat16, 0, 1, "float as half, sum)"}, {tuttiFloat16, 1, 1, "float as half, sum, overflow report)"}, 10},
      {{tuttiFloat32, 0, 0.5f, "float, sum, scale_after 0.5)"}, {tuttiFloat32, 0, 1, "float, sum)"}, 10},
      {{tuttiFloat16, 1, 0.1f, "overflow report, scale_after 0.100000001)"},
       {tuttiFloat16, 1, 0.10000001f, "overflow report, scale_after 0.100000009)"},
       100000},
  };
  static const char *const ways[] = {"shm", "tcp", "spread"};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    for (int nranks = 2; nranks <= 4; nranks++)
      for (int w = 0; w < 3; w++) {
        if (w == 2) setenv("SPREAD", "1", 1);
        setenv("TUTTI_TRANSPORTS", w == 2 ? "tcp" : ways[w], 1);
        assert_int_equal(ranks_run_processes(nranks, differ, (void *)(uintptr_t)&kinds[k], 30), 0);
        unsetenv("SPREAD");
      }
}

/* ---- at creation ---- */

static int create_differently(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.wire_type = self->rank == ODD ? tuttiBfloat16 : tuttiFloat16;
  tuttiResult_t result = tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config);
  RANKS_CHECK(meeting_wait(self->argument)); /* rank 0's process has the root, which tells those that come late */
  RANKS_CHECK(result == tuttiInvalidUsage);
  const char *sentence = tuttiGetLastError(NULL);
  RANKS_CHECK(strstr(sentence, "rank 1 (") && strstr(sentence, "TUTTI_WIRE_TYPE"));
  RANKS_CHECK(strstr(sentence, "config it overrides"));
  RANKS_CHECK(!comm);
  return 0;
}

static int set_differently(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  if (self->rank == ODD) {
    setenv("TUTTI_WIRE_TYPE", "half", 1);
    setenv("TUTTI_LANES", "2", 1);
  }
  tuttiResult_t result = tuttiCommInitRank(&comm, self->nranks, self->id, self->rank);
  RANKS_CHECK(meeting_wait(self->argument));
  RANKS_CHECK(result == tuttiInvalidUsage);
  RANKS_CHECK(strstr(tuttiGetLastError(NULL), "TUTTI_LANES, TUTTI_WIRE_TYPE"));
  return 0;
}

static void unlike_settings_are_named_at_creation(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int nranks = 2; nranks <= 4; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(ranks_run_processes(nranks, create_differently, meeting, 30), 0);
    assert_int_equal(ranks_run_processes(nranks, set_differently, meeting, 30), 0);
    meeting_free(meeting);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(differing_ways_are_shown_on_all_ranks),
      cmocka_unit_test(unlike_settings_are_named_at_creation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
