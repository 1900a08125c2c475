/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls by the name of the thread and of the function, and things made and freed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "control.h"

#define ROWS 4096
#define TEXT 262144

struct row {
  char thread[16];
  const char *name;
  long count, freed;
};

static struct {
  pthread_mutex_t mutex;
  struct row calls[ROWS], things[32];
  long total, breaches, refused;
} counts = {.mutex = PTHREAD_MUTEX_INITIALIZER};

int is_sealed;

/* The row of both names, made if there is none. The mutex is held. */
static struct row *row_of(struct row *rows, int room, const char *thread, const char *name)
{
  unsigned hash = 5381;
  for (const char *c = thread; *c; c++) hash = hash * 33 + (unsigned char)*c;
  for (const char *c = name; *c; c++) hash = hash * 33 + (unsigned char)*c;
  for (int i = 0; i < room; i++) {
    struct row *row = &rows[(hash + (unsigned)i) % (unsigned)room];
    if (row->name && strcmp(row->name, name) == 0 && strcmp(row->thread, thread) == 0) return row;
    if (row->name) continue;
    row->name = name;
    snprintf(row->thread, sizeof row->thread, "%s", thread);
    return row;
  }
  fprintf(stderr, "CUDA double: more names of threads and functions than can be counted\n");
  abort();
}

void count_call(const char *function)
{
  char thread[17] = "";
  prctl(PR_GET_NAME, thread);
  pthread_mutex_lock(&counts.mutex);
  row_of(counts.calls, ROWS, thread, function)->count++;
  counts.total++;
  pthread_mutex_unlock(&counts.mutex);
}

void count_thing(const char *kind, long created, long freed)
{
  pthread_mutex_lock(&counts.mutex);
  struct row *row = row_of(counts.things, sizeof counts.things / sizeof counts.things[0], "", kind);
  row->count += created;
  row->freed += freed;
  pthread_mutex_unlock(&counts.mutex);
}

void count_sealed(const char *function)
{
  fprintf(stderr, "CUDA double: %s after the seal\n", function);
  pthread_mutex_lock(&counts.mutex);
  counts.refused++;
  pthread_mutex_unlock(&counts.mutex);
}

void count_breach(void)
{
  pthread_mutex_lock(&counts.mutex);
  counts.breaches++;
  pthread_mutex_unlock(&counts.mutex);
}

long count_alive(const char *kind)
{
  pthread_mutex_lock(&counts.mutex);
  const struct row *row = row_of(counts.things, sizeof counts.things / sizeof counts.things[0], "", kind);
  long alive = row->count - row->freed;
  pthread_mutex_unlock(&counts.mutex);
  return alive;
}

long count_of(const char *prefix, const char *function)
{
  long sum = 0;
  pthread_mutex_lock(&counts.mutex);
  for (int r = 0; r < ROWS; r++) {
    const struct row *row = &counts.calls[r];
    if (!row->name || strncmp(row->thread, prefix, strlen(prefix)) != 0) continue;
    if (!function || strcmp(row->name, function) == 0) sum += row->count;
  }
  pthread_mutex_unlock(&counts.mutex);
  return sum;
}

long count_breaches(void)
{
  return counts.breaches;
}

void counts_forget(void)
{
  pthread_mutex_lock(&counts.mutex);
  memset(counts.calls, 0, sizeof counts.calls);
  memset(counts.things, 0, sizeof counts.things);
  counts.total = counts.breaches = counts.refused = 0;
  pthread_mutex_unlock(&counts.mutex);
}

/* Blanks in names of threads become underscores, so that a line has fixed columns. */
static int line_of_call(char *text, size_t size, const struct row *row)
{
  char thread[17];
  snprintf(thread, sizeof thread, "%s", row->thread);
  for (char *c = thread; *c; c++)
    if (*c == ' ') *c = '_';
  return snprintf(text, size, "%d call %s %s %ld\n", (int)getpid(), *thread ? thread : "-", row->name, row->count);
}

/* One write, because several processes append to the same file. */
void report_write(void)
{
  static char text[TEXT];
  const char *path = settings()->report;
  size_t len = 0;
  if (!path || !*path) return;
  pthread_mutex_lock(&counts.mutex);
  for (int r = 0; r < ROWS && len < TEXT - 256; r++)
    if (counts.calls[r].name) len += (size_t)line_of_call(text + len, TEXT - len, &counts.calls[r]);
  for (int r = 0; r < 32 && len < TEXT - 256; r++)
    if (counts.things[r].name)
      len += (size_t)snprintf(text + len, TEXT - len, "%d thing %s %ld %ld\n", (int)getpid(), counts.things[r].name,
                              counts.things[r].count, counts.things[r].freed);
  len += (size_t)snprintf(text + len, TEXT - len, "%d sum calls %ld breaches %ld refused %ld\n", (int)getpid(),
                          counts.total, counts.breaches, counts.refused);
  pthread_mutex_unlock(&counts.mutex);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, text, len) != (ssize_t)len) fprintf(stderr, "CUDA double: cannot write %s\n", path);
  if (fd >= 0) close(fd);
}

static void __attribute__((destructor)) report_last(void)
{
  report_write();
}
