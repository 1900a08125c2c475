/* SPDX-License-Identifier: BSD-3-Clause */
/* Seconds and CPU seconds in which ranks, as forked processes or (-t) as threads of one, start, do one all-reduce of
 * 8 bytes and end, and the CPU seconds of each of the three. -k: MiB that went over the loopback meanwhile, too, which
 * are the start-up's if nothing else runs in this network namespace.
 *
 *   bench_startup [-t] [-k] RANKS... */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "meeting.h"
#include "ranks.h"

enum { BORN, MADE, REDUCED, ENDED, STEPS };

struct times {
  _Atomic long last_us[STEPS]; /* when the last rank was there, since the first began */
  _Atomic long cpu_us[STEPS];  /* of all ranks until they were there; of processes only */
};

struct job {
  struct times *times;
  int are_threads;
};

static long cpu_us(int who)
{
  struct rusage usage;
  getrusage(who, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static void note(const struct job *job, int step)
{
  long now = meeting_now_us(), last = atomic_load(&job->times->last_us[step]);
  while (last < now && !atomic_compare_exchange_weak(&job->times->last_us[step], &last, now)) continue;
  if (!job->are_threads) atomic_fetch_add(&job->times->cpu_us[step], cpu_us(RUSAGE_SELF));
}

static int life(const struct ranks *self)
{
  const struct job *job = self->argument;
  tuttiComm_t comm;
  double x = self->rank + 1;
  note(job, BORN);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  note(job, MADE);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiDouble, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(x == (double)self->nranks * (self->nranks + 1) / 2);
  note(job, REDUCED);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  note(job, ENDED);
  return 0;
}

/* Bytes received by the loopback device so far. */
static double loopback_bytes(void)
{
  char line[512];
  double bytes = 0;
  FILE *file = fopen("/proc/net/dev", "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, " lo: %lf", &bytes);
  if (file) fclose(file);
  return bytes;
}

static int measure(struct job *job, int nranks, int with_bytes)
{
  int limit_s = 600;
  memset(job->times, 0, sizeof *job->times);
  int who = job->are_threads ? RUSAGE_SELF : RUSAGE_CHILDREN;
  double bytes = loopback_bytes();
  long began_us = meeting_now_us(), cpu = cpu_us(who);
  int failed = (job->are_threads ? ranks_run_threads : ranks_run_processes)(nranks, life, job, limit_s);
  long took_us = meeting_now_us() - began_us;
  printf("%5d %9s %7.2f %7.2f", nranks, job->are_threads ? "threads" : "processes", (double)took_us / 1e6,
         (double)(cpu_us(who) - cpu) / 1e6);
  for (int step = MADE; step < STEPS; step++)
    printf("  %7.2f", (double)(atomic_load(&job->times->last_us[step]) - began_us) / 1e6);
  for (int step = MADE; step < STEPS && !job->are_threads; step++)
    printf("  %7.2f", (double)(atomic_load(&job->times->cpu_us[step]) - job->times->cpu_us[step - 1]) / 1e6);
  if (with_bytes) printf("  %10.2f", (loopback_bytes() - bytes) / (1 << 20));
  printf("%s\n", failed ? "  FAILED" : "");
  fflush(stdout);
  return failed;
}

int main(int argc, char **argv)
{
  struct job job = {.times = ranks_shared(sizeof *job.times)};
  int with_bytes = 0, failed = 0;
  printf("ranks as         wall s   CPU s   made s reduced s  ended s  CPU s: to make, to reduce, to end   MiB\n");
  fflush(stdout);
  for (int a = 1; a < argc; a++) {
    if (strcmp(argv[a], "-t") == 0) job.are_threads = 1;
    else if (strcmp(argv[a], "-k") == 0) with_bytes = 1;
    else failed += measure(&job, atoi(argv[a]), with_bytes);
  }
  return failed != 0;
}
