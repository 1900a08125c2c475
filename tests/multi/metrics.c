/* SPDX-License-Identifier: BSD-3-Clause */
/* TUTTI_METRICS: when a process has ended, its file has the counts of all its communicators, in Prometheus's text form,
 * which others may read, and no other file is left. A pipe stays what it is.
 * Labels: processes. */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int body(const struct ranks *self)
{
  tuttiComm_t comm, child;
  float x[4] = {0};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 300; k++)
    RANKS_CHECK(tuttiAllReduce(x, x, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, self->rank, &child, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiBroadcast(x, x, 3, tuttiInt8, 1, child, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(x, x, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  usleep(50000); /* the seconds of ticks are known after two beats */
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* A reader as strict as Prometheus takes the file. */
static void reader_takes(const char *name)
{
  char command[256];
  snprintf(command, sizeof command, "%s %s > /dev/null", METRICS_READ, name);
  assert_int_equal(system(command), 0);
}

/* Reads the file without its comments, and with every time that is not 0 as TIME. */
static void file_read(const char *name, char *text, size_t size)
{
  char line[256];
  size_t used = 0;
  FILE *file = fopen(name, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    char *value = strrchr(line, ' ');
    if (line[0] == '#') continue;
    assert_non_null(value);
    int is_time = strncmp(line, "tutti_seconds_total", 19) == 0 && strtod(value, NULL) > 0;
    const char *shown = is_time ? " TIME\n" : value;
    used += (size_t)snprintf(text + used, size - used, "%.*s%s", (int)(value - line), line, shown);
    assert_true(used < size);
  }
  fclose(file);
}

static void all_calls_of_a_process_are_counted(void **state)
{
  (void)state;
  char folder[] = "/tmp/tutti.metrics_XXXXXX", pattern[64], text[4096], wanted[4096];
  assert_non_null(mkdtemp(folder));
  snprintf(pattern, sizeof pattern, "%s/%%r.prom", folder);
  setenv("TUTTI_METRICS", pattern, 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_run_processes(2, body, NULL, 60), 0);
  for (int r = 0; r < 2; r++) {
    snprintf(pattern, sizeof pattern, "%s/%d.prom", folder, r);
    reader_takes(pattern);
    file_read(pattern, text, sizeof text);
    snprintf(wanted, sizeof wanted,
             "tutti_calls_total{rank=\"%d\",collective=\"all_reduce\",transports=\"shm\"} 301\n"
             "tutti_calls_total{rank=\"%d\",collective=\"broadcast\",transports=\"shm\"} 1\n"
             "tutti_calls_total{rank=\"%d\",collective=\"all_gather\",transports=\"shm\"} 1\n" /* of the split */
             "tutti_bytes_total{rank=\"%d\",collective=\"all_reduce\",transports=\"shm\"} 4816\n"
             "tutti_bytes_total{rank=\"%d\",collective=\"broadcast\",transports=\"shm\"} 3\n", r, r, r, r, r);
    assert_memory_equal(text, wanted, strlen(wanted));
    snprintf(wanted, sizeof wanted,
             "tutti_seconds_total{rank=\"%d\",collective=\"all_reduce\",transports=\"shm\"} TIME\n", r);
    assert_non_null(strstr(text, wanted));
    snprintf(wanted, sizeof wanted, "tutti_failures_total{rank=\"%d\"} 0\ntutti_communicators{rank=\"%d\"} 0\n", r, r);
    assert_string_equal(strstr(text, "tutti_failures_total"), wanted);
    struct stat file;
    assert_int_equal(stat(pattern, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0644);
    assert_int_equal(unlink(pattern), 0);
  }
  assert_int_equal(rmdir(folder), 0);
}

static void a_pipe_is_not_replaced_nor_waited_for(void **state)
{
  (void)state;
  char folder[] = "/tmp/tutti.metrics_XXXXXX", pipe[64];
  struct stat file;
  assert_non_null(mkdtemp(folder));
  snprintf(pipe, sizeof pipe, "%s/pipe", folder);
  assert_int_equal(mkfifo(pipe, 0600), 0);
  setenv("TUTTI_METRICS", pipe, 1);
  assert_int_equal(ranks_run_processes(2, body, NULL, 60), 0);
  assert_int_equal(stat(pipe, &file), 0);
  assert_true(S_ISFIFO(file.st_mode));
  assert_int_equal(unlink(pipe), 0);
  assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_calls_of_a_process_are_counted),
                                     cmocka_unit_test(a_pipe_is_not_replaced_nor_waited_for)};
  return cmocka_run_group_tests_name("multi.metrics", tests, NULL, NULL);
}
