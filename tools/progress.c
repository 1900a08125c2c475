/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread tells, so that commands which are busy inside of one call of the library are heard of, too. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

#define FIRST_S 1 /* what ends sooner says nothing */
#define TERMINAL_S 0.5
#define ELSEWHERE_S 10

static struct {
  char *text;
  size_t len;
} held;

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_t thread;
  const char *command;
  char text[160];
  time_t began;
  int is_running, is_shown;
} telling = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct timespec after(double seconds)
{
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  double whole = (double)(long)seconds;
  at.tv_sec += (long)seconds;
  at.tv_nsec += (long)(1e9 * (seconds - whole));
  if (at.tv_nsec >= 1000000000) {
    at.tv_sec++;
    at.tv_nsec -= 1000000000;
  }
  return at;
}

static void *tell(void *unused)
{
  (void)unused;
  int is_terminal = isatty(STDERR_FILENO);
  double wait_s = is_terminal ? FIRST_S : ELSEWHERE_S, every_s = is_terminal ? TERMINAL_S : ELSEWHERE_S;
  pthread_mutex_lock(&telling.mutex);
  for (struct timespec at = after(wait_s); telling.is_running;) {
    if (pthread_cond_timedwait(&telling.changed, &telling.mutex, &at) != ETIMEDOUT) continue;
    fprintf(stderr, "%stutti %s: %s; %ld s so far%s", is_terminal ? "\r" : "", telling.command, telling.text,
            (long)(time(NULL) - telling.began), is_terminal ? "\033[K" : "\n");
    telling.is_shown = is_terminal;
    at = after(every_s);
  }
  pthread_mutex_unlock(&telling.mutex);
  return NULL;
}

void progress_begin(const char *command, const char *text)
{
  telling.command = command;
  telling.began = time(NULL);
  progress_set("%s", text);
  telling.is_running = 1;
  if (pthread_create(&telling.thread, NULL, tell, NULL) != 0) telling.is_running = 0; /* then nothing is told */
}

void progress_set(const char *format, ...)
{
  va_list args;
  va_start(args, format);
  pthread_mutex_lock(&telling.mutex);
  vsnprintf(telling.text, sizeof telling.text, format, args);
  pthread_mutex_unlock(&telling.mutex);
  va_end(args);
}

void progress_end(void)
{
  if (!telling.is_running) return;
  pthread_mutex_lock(&telling.mutex);
  telling.is_running = 0;
  pthread_cond_signal(&telling.changed);
  pthread_mutex_unlock(&telling.mutex);
  pthread_join(telling.thread, NULL);
  if (telling.is_shown) fputs("\r\033[K", stderr);
  telling.is_shown = 0;
}

FILE *held_open(void)
{
  return open_memstream(&held.text, &held.len);
}

int held_print(FILE *stream)
{
  int broken = fclose(stream) != 0;
  if (broken) fprintf(stderr, "tutti: no memory for the output: %s\n", strerror(errno));
  else fwrite(held.text, 1, held.len, stdout); /* main looks whether it is written */
  free(held.text);
  return broken;
}
