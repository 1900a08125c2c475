/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets are gone from the heap once the communicator is: every random key is marked, and none is found afterwards.
 * Sanitizers have heaps of their own.
 * Labels: plain. */
#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define KEY_BYTES 32

static _Atomic int keys_made;

static uint8_t mark_at(size_t i)
{
  return (uint8_t)(0xa7u ^ (unsigned)(i * 37));
}

/* Instead of the C library's: a key is a mark, so that it is known again. */
ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
  uint8_t *bytes = buffer;
  ssize_t n = syscall(SYS_getrandom, buffer, size, flags);
  if (size != KEY_BYTES || n != (ssize_t)size) return n;
  for (size_t i = 1; i + 1 < size; i++) bytes[i] = mark_at(i);
  keys_made++;
  return n;
}

static int threads_count(void)
{
  DIR *tasks = opendir("/proc/self/task");
  int n = 0;
  for (struct dirent *task; tasks && (task = readdir(tasks));) n += task->d_name[0] != '.';
  if (tasks) closedir(tasks);
  return n;
}

/* A stretch in the middle of a key, since free writes into the first bytes of what it gets. */
static int is_mark(const uint8_t *at)
{
  for (size_t i = 8; i < 24; i++)
    if (at[i] != mark_at(i)) return 0;
  return 1;
}

/* Marks in the heap of the main thread, where the root's memory is. */
static int marks_count(void)
{
  char line[256];
  int n = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps)) {
    unsigned long begin, end;
    if (!strstr(line, "[heap]") || sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    for (const uint8_t *at = (const uint8_t *)begin; at + KEY_BYTES <= (const uint8_t *)end; at++) n += is_mark(at);
  }
  fclose(maps);
  return n;
}

/* A new rank, in a thread of its own, whose heap is another. */
static void *join(void *id)
{
  tuttiComm_t comm;
  if (tuttiCommGrow(NULL, 2, id, 1, &comm, NULL) != tuttiSuccess || tuttiCommDestroy(comm) != tuttiSuccess) _exit(70);
  return NULL;
}

static void no_key_is_left_in_the_heap(void **state)
{
  (void)state;
  tuttiUniqueId id;
  tuttiComm_t comm, grown;
  pthread_t thread;
  uint8_t *own = malloc(KEY_BYTES);
  assert_int_equal(getrandom(own, KEY_BYTES, 0), KEY_BYTES);
  assert_int_equal(marks_count(), 1); /* a mark that is there is found */
  memset(own, 0, KEY_BYTES);
  free(own);
  assert_int_equal(tuttiGetUniqueId(&id), tuttiSuccess);
  assert_int_equal(tuttiCommInitRank(&comm, 1, id, 0), tuttiSuccess);
  assert_int_equal(tuttiCommGetUniqueId(comm, &id), tuttiSuccess);
  assert_int_equal(pthread_create(&thread, NULL, join, &id), 0);
  assert_int_equal(tuttiCommGrow(comm, 2, &id, -1, &grown, NULL), tuttiSuccess);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(tuttiCommDestroy(grown), tuttiSuccess);
  assert_int_equal(tuttiCommDestroy(comm), tuttiSuccess);
  for (int i = 0; threads_count() > 1 && i < 10000; i++) usleep(1000); /* the root ends on the service thread */
  assert_in_range(keys_made, 4, 100);
  assert_int_equal(marks_count(), 0);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_key_is_left_in_the_heap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
