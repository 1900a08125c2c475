/* SPDX-License-Identifier: BSD-3-Clause */
/* A job follows its table file, and says why where it is asked: TUTTI_TABLE, TUTTI_EXPLAIN.
 * Labels: processes. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static char log_path[] = "/tmp/tutti_explain_log_XXXXXX", table_path[] = "/tmp/tutti_explain_table_XXXXXX";

static void file_write(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* Lines of the log that hold the text. */
static int log_count(const char *text)
{
  char line[2048];
  int n = 0;
  FILE *file = fopen(log_path, "r");
  while (file && fgets(line, sizeof line, file)) n += strstr(line, text) != NULL;
  if (file) fclose(file);
  return n;
}

static int sum_is_right(tuttiComm_t comm, int rank, int nranks, size_t count)
{
  float *x = calloc(count + 1, sizeof *x);
  if (!x) return 0;
  for (size_t i = 0; i < count; i++) x[i] = (float)(rank + 1);
  int right = tuttiAllReduce(x, x, count, tuttiFloat32, tuttiSum, comm, NULL) == tuttiSuccess;
  for (size_t i = 0; i < count && right; i++) right = x[i] == (float)(nranks * (nranks + 1) / 2);
  free(x);
  return right;
}

/* ---- the table ---- */

static const char *chosen(tuttiComm_t comm, int collective, uint64_t bytes)
{
  return tt_algos[tt_table_choice(&comm->calls.table, collective, bytes)->algo].name;
}

static int follows_body(const struct ranks *self)
{
  tuttiComm_t comm;
  if (self->rank) setenv("TUTTI_TABLE", "/nonexistent", 1); /* only rank 0 reads it */
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(strcmp(chosen(comm, TT_ALL_REDUCE, 400), "star") == 0);
  RANKS_CHECK(strcmp(chosen(comm, TT_ALL_REDUCE, 404), "direct") == 0);
  RANKS_CHECK(strcmp(chosen(comm, TT_ALL_REDUCE, 1 << 20), "direct") == 0);
  RANKS_CHECK(strcmp(chosen(comm, TT_BROADCAST, 1 << 20), "chain") == 0);
  RANKS_CHECK(sum_is_right(comm, self->rank, self->nranks, 100) && sum_is_right(comm, self->rank, self->nranks, 101));
  RANKS_CHECK(comm->calls.nplans == 2);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_job_follows_the_table_of_rank_0(void **state)
{
  (void)state;
  file_write(table_path, "all_reduce ranks 3 nodes 1 ppn 3 bytes 0..400 -> star\n"
                         "all_reduce nodes 2..inf -> ring\nall_reduce -> direct\nbroadcast -> chain # all sizes\n");
  setenv("TUTTI_TABLE", table_path, 1);
  assert_int_equal(ranks_run_processes(3, follows_body, NULL, 60), 0);
  unsetenv("TUTTI_TABLE");
}

static int refuses_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiInvalidArgument);
  RANKS_CHECK(strstr(tuttiGetLastError(NULL), self->argument) != NULL);
  return 0;
}

static void a_table_that_cannot_be_followed_is_refused(void **state)
{
  (void)state;
  file_write(table_path, "\nall_reduce -> hierarchical_shards+hierarchical\n");
  setenv("TUTTI_TABLE", table_path, 1);
  assert_int_equal(ranks_run_processes(1, refuses_body, "line 2: hierarchical_shards is not legal for", 60), 0);
  file_write(table_path, "all_reduce rank 3 -> ring\n");
  assert_int_equal(ranks_run_processes(1, refuses_body, "line 1: wanted one of ranks, nodes", 60), 0);
  unsetenv("TUTTI_TABLE");
}

/* ---- explanations ---- */

static int explains_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiStream_t stream;
  float x[64] = {0};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 3; k++) /* 400 and 404 bytes are one shape; 300 and 4,000 are others */
    RANKS_CHECK(sum_is_right(comm, self->rank, self->nranks, 75) &&
                sum_is_right(comm, self->rank, self->nranks, 100) &&
                sum_is_right(comm, self->rank, self->nranks, 101) &&
                sum_is_right(comm, self->rank, self->nranks, 1000));
  RANKS_CHECK(sum_is_right(comm, self->rank, self->nranks, 5000)); /* never again */
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  for (int k = 0; k < 3; k++) RANKS_CHECK(tuttiBroadcast(x, x, 64, tuttiFloat32, 0, comm, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void it_says_what_made_the_choice(void **state)
{
  char rule[128];
  (void)state;
  setenv("TUTTI_DEBUG_FILE", log_path, 1);
  setenv("TUTTI_EXPLAIN", "1", 1);
  assert_int_equal(truncate(log_path, 0), 0);
  file_write(table_path, "all_reduce bytes 0..350 -> star\n\nbroadcast -> chain\n");
  setenv("TUTTI_TABLE", table_path, 1);
  setenv("TUTTI_CACHE", "none", 1);
  assert_int_equal(ranks_run_processes(3, explains_body, NULL, 60), 0);
  snprintf(rule, sizeof rule, " us by prices of malloc memory, %s, line 1, says so; others: ", table_path);
  assert_int_equal(log_count(rule), 1);
  snprintf(rule, sizeof rule, " us by prices of malloc memory, %s, line 3, says so; others: ", table_path);
  assert_int_equal(log_count(rule), 1);
  assert_int_equal(log_count(" us by prices of malloc memory, the cheapest; ") +
                       log_count(" us by prices of malloc memory, it is that of smaller sizes: another one has to be "
                                 "3 % cheaper; "),
                   2);
  assert_int_equal(truncate(log_path, 0), 0);
  setenv("TUTTI_ALGO", "all_reduce:ring,star", 1);
  assert_int_equal(ranks_run_processes(3, explains_body, NULL, 60), 0);
  assert_int_equal(log_count(" us by prices of malloc memory, TUTTI_ALGO=all_reduce:ring,star restricts it; "), 3);
  assert_int_equal(log_count(rule), 1); /* of broadcasts it says nothing */
  unsetenv("TUTTI_ALGO");
  unsetenv("TUTTI_CACHE");
  unsetenv("TUTTI_TABLE");
  unsetenv("TUTTI_EXPLAIN");
  unsetenv("TUTTI_DEBUG_FILE");
}

static void rank_0_explains_each_shape_once(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG_FILE", log_path, 1);
  assert_int_equal(ranks_run_processes(3, explains_body, NULL, 60), 0);
  assert_int_equal(log_count("TUTTI EXPLAIN"), 0);
  setenv("TUTTI_EXPLAIN", "1", 1);
  setenv("TUTTI_DEBUG", "NONE", 1); /* it was asked for all the same */
  assert_int_equal(ranks_run_processes(3, explains_body, NULL, 60), 0);
  assert_int_equal(log_count("TUTTI EXPLAIN "), 4);
  assert_int_equal(log_count("TUTTI EXPLAIN all_reduce of 300 B float on 3 ranks: "), 1);
  assert_int_equal(log_count("TUTTI EXPLAIN all_reduce of 404 B float on 3 ranks: "), 1);
  assert_int_equal(log_count("TUTTI EXPLAIN all_reduce of 4000 B float on 3 ranks: "), 1);
  assert_int_equal(log_count("TUTTI EXPLAIN broadcast of 256 B float on 3 ranks: "), 1);
  assert_int_equal(log_count(", predicted "), 4);
  assert_int_equal(log_count("; others: "), 4);
  assert_int_equal(log_count("; measured "), 4);
  assert_int_equal(log_count(" us, the second time"), 4);
  assert_int_equal(log_count(", the second time; caution: ranks share cores, "), tt_host_cores() < 3 ? 4 : 0);
  setenv("TUTTI_ALGO", "ring;broadcast:star", 1);
  assert_int_equal(truncate(log_path, 0), 0);
  assert_int_equal(ranks_run_processes(3, explains_body, NULL, 60), 0);
  assert_int_equal(log_count(" ranks: ring in blocks of "), 3);
  assert_int_equal(log_count(" ranks: star in blocks of "), 1);
  assert_int_equal(log_count("; others: "), 0);
  unsetenv("TUTTI_ALGO");
  unsetenv("TUTTI_DEBUG");
  unsetenv("TUTTI_EXPLAIN");
  unsetenv("TUTTI_DEBUG_FILE");
}

/* A prediction needs memory: there is none after the first call. */
static int second_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(sum_is_right(comm, self->rank, self->nranks, 75));
  tt_alloc_fail_at(1);
  RANKS_CHECK(sum_is_right(comm, self->rank, self->nranks, 75));
  tt_alloc_fail_at(0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void the_second_call_of_a_shape_waits_for_no_prediction(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG_FILE", log_path, 1);
  setenv("TUTTI_EXPLAIN", "1", 1);
  assert_int_equal(truncate(log_path, 0), 0);
  assert_int_equal(ranks_run_processes(3, second_body, NULL, 60), 0);
  assert_int_equal(log_count("TUTTI EXPLAIN all_reduce of 300 B float on 3 ranks: "), 1);
  assert_int_equal(log_count(", predicted "), 1);
  unsetenv("TUTTI_EXPLAIN");
  unsetenv("TUTTI_DEBUG_FILE");
}

int main(void)
{
  int log_file = mkstemp(log_path), table_file = mkstemp(table_path);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_follows_the_table_of_rank_0),
      cmocka_unit_test(a_table_that_cannot_be_followed_is_refused),
      cmocka_unit_test(rank_0_explains_each_shape_once),
      cmocka_unit_test(it_says_what_made_the_choice),
      cmocka_unit_test(the_second_call_of_a_shape_waits_for_no_prediction),
  };
  if (log_file < 0 || table_file < 0) return 1;
  close(log_file);
  close(table_file);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(log_path);
  unlink(table_path);
  return failed;
}
