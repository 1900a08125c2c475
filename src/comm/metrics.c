/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts of this process for Prometheus (TUTTI_METRICS), as a text that its node exporter reads: operations, bytes and
 * seconds by collective and transports, failures. A thread of its own, "tutti-metrics", writes the file once a second
 * and at the end, for a file system may be slow: first another file, which then takes the name. Counts are those of the
 * communicators that live, and sums of those that have ended. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "comm/private.h"

#define KINDS 4 /* of transports, as in tt_transports */
#define MASKS (1 << KINDS)
#define END_S 5 /* the longest that the end of the process waits for the file */

struct counts {
  struct tt_call_count of[MASKS][TT_COLLECTIVES]; /* by the transports in use, a bit for each, and by collective */
  uint64_t failures;
  int communicators;
};

struct metrics {
  pthread_mutex_t mutex; /* guards the list and what has ended */
  pthread_cond_t wake;   /* of the thread, for its end */
  pthread_t thread;
  int ends, rank;
  int is_special; /* the name is that of a device or pipe, which is written to and never replaced */
  struct tuttiComm *first; /* by calls.next_counted */
  struct counts ended, now; /* now: the thread's */
  char name[TT_FILE_NAME_BYTES], next_name[TT_FILE_NAME_BYTES + 16];
};

/* ---- counting ---- */

static int mask_of(const struct tuttiComm *comm)
{
  int mask = 0;
  for (int peer = 0; peer < comm->facts.first_nranks; peer++) {
    if (peer == comm->facts.first_rank && comm->facts.first_nranks > 1) continue;
    const char *name = tt_exec_route(comm->parts.exec, peer)->ops->name;
    for (int t = 0; t < KINDS && tt_transports[t]; t++)
      if (strcmp(tt_transports[t]->name, name) == 0) mask |= 1 << t;
  }
  return mask;
}

static void comm_add(struct counts *counts, const struct tuttiComm *comm)
{
  struct tt_call_count more;
  for (int c = 0; c < TT_COLLECTIVES; c++) {
    struct tt_call_count *sum = &counts->of[comm->calls.transports_used][c];
    tt_watch_counted(comm->parts.watch, c, &more);
    sum->calls += more.calls;
    sum->bytes += more.bytes;
    sum->ns += more.ns;
  }
  counts->failures += tt_comm_has_failed(comm) != 0;
}

/* ---- the file ---- */

static void labels_write(FILE *out, const struct metrics *metrics, int mask, int collective)
{
  fprintf(out, "{rank=\"%d\",collective=\"%s\",transports=\"", metrics->rank, tt_kinds[collective].name);
  for (int t = 0, n = 0; t < KINDS; t++)
    if (mask >> t & 1) fprintf(out, "%s%s", n++ ? "+" : "", tt_transports[t]->name);
  fprintf(out, "\"} ");
}

enum metric { CALLS, BYTES, SECONDS };

static void metric_write(FILE *out, const struct metrics *metrics, enum metric metric)
{
  static const char *const names[] = {"tutti_calls_total", "tutti_bytes_total", "tutti_seconds_total"};
  static const char *const help[] = {"Collective operations that ended.", "Bytes that their calls counted.",
                                     "Time in them; of the quickest ones an estimate."};
  fprintf(out, "# HELP %s %s\n# TYPE %s counter\n", names[metric], help[metric], names[metric]);
  for (int i = 0; i < MASKS * TT_COLLECTIVES; i++) {
    const struct tt_call_count *counted = &metrics->now.of[i / TT_COLLECTIVES][i % TT_COLLECTIVES];
    if (!counted->calls || !tt_kinds[i % TT_COLLECTIVES].name) continue;
    fprintf(out, "%s", names[metric]);
    labels_write(out, metrics, i / TT_COLLECTIVES, i % TT_COLLECTIVES);
    if (metric == SECONDS)
      fprintf(out, "%llu.%09llu\n", (unsigned long long)counted->ns / 1000000000u,
              (unsigned long long)counted->ns % 1000000000u);
    else fprintf(out, "%llu\n", (unsigned long long)(metric == CALLS ? counted->calls : counted->bytes));
  }
}

static void counts_write(FILE *out, const struct metrics *metrics)
{
  for (enum metric metric = CALLS; metric <= SECONDS; metric++) metric_write(out, metrics, metric);
  fprintf(out, "# HELP tutti_failures_total Communicators that failed.\n# TYPE tutti_failures_total counter\n"
               "tutti_failures_total{rank=\"%d\"} %llu\n", metrics->rank, (unsigned long long)metrics->now.failures);
  fprintf(out, "# HELP tutti_communicators Communicators that live.\n# TYPE tutti_communicators gauge\n"
               "tutti_communicators{rank=\"%d\"} %d\n", metrics->rank, metrics->now.communicators);
}

/* A new file that others may read, as Prometheus's exporter is another user; -1 and errno on failure. Pipes that nobody
 * reads are not waited for. */
static int next_open(const struct metrics *metrics)
{
  if (metrics->is_special) return tt_file_open(metrics->name, O_NONBLOCK);
  if (unlink(metrics->next_name) != 0 && errno != ENOENT) return -1;
  int fd = tt_file_open(metrics->next_name, O_EXCL | O_NONBLOCK);
  if (fd >= 0) fchmod(fd, 0644);
  return fd;
}

/* Returns 0 if the file could not be written; errno says why. */
static int file_write(const struct metrics *metrics)
{
  sigset_t before;
  int fd = next_open(metrics);
  FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!out && fd >= 0) close(fd);
  if (!out) return 0;
  tt_file_limit_begin(&before);
  counts_write(out, metrics);
  int failed = ferror(out);
  failed |= fclose(out) != 0;
  tt_file_limit_end(&before);
  return !failed && (metrics->is_special || rename(metrics->next_name, metrics->name) == 0);
}

/* A counter never falls, though the time that ticks stand for is known better with each beat. */
static void seconds_keep(struct counts *now, const struct counts *before)
{
  for (int i = 0; i < MASKS * TT_COLLECTIVES; i++) {
    struct tt_call_count *counted = &now->of[i / TT_COLLECTIVES][i % TT_COLLECTIVES];
    uint64_t least = before->of[i / TT_COLLECTIVES][i % TT_COLLECTIVES].ns;
    if (counted->ns < least) counted->ns = least;
  }
}

/* Takes the counts; the file is written without the lock. */
static void take_locked(struct metrics *metrics)
{
  const struct counts before = metrics->now;
  metrics->now = metrics->ended;
  for (const struct tuttiComm *comm = metrics->first; comm; comm = comm->calls.next_counted) {
    comm_add(&metrics->now, comm);
    metrics->now.communicators++;
  }
  seconds_keep(&metrics->now, &before);
}

static void *metrics_main(void *context)
{
  struct metrics *metrics = context;
  int has_warned = 0, ends = 0;
  while (!ends) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&metrics->mutex);
    while (!metrics->ends && pthread_cond_timedwait(&metrics->wake, &metrics->mutex, &until) == 0) continue;
    ends = metrics->ends;
    take_locked(metrics);
    pthread_mutex_unlock(&metrics->mutex);
    if (file_write(metrics) || has_warned) continue;
    has_warned = 1;
    tt_log(TT_LOG_WARN, "%s (TUTTI_METRICS) cannot be written: %s", metrics->name, tt_file_why(errno));
  }
  return NULL;
}

/* ---- begin and end ---- */

/* Called when the process ends or the library is unloaded. A file system that hangs holds it up for a while only. */
static void metrics_end(void)
{
  struct metrics *metrics = tt_process.metrics;
  if (atomic_load_explicit(&tt_process.forked, memory_order_relaxed)) return; /* the parent's */
  pthread_mutex_lock(&metrics->mutex);
  metrics->ends = 1;
  pthread_cond_signal(&metrics->wake);
  pthread_mutex_unlock(&metrics->mutex);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += END_S;
  pthread_timedjoin_np(metrics->thread, NULL, &until);
}

static tuttiResult_t start_locked(const struct tt_comm_facts *facts)
{
  struct metrics *metrics = tt_alloc(1, sizeof *metrics);
  if (!metrics) return tt_fail(tuttiSystemError, "out of memory for counts (TUTTI_METRICS)");
  tuttiResult_t result =
      tt_file_name(metrics->name, "TUTTI_METRICS", facts->settings.metrics, facts->root_rank, facts->root_nranks);
  metrics->rank = facts->root_rank;
  metrics->is_special = tt_file_is_special(metrics->name);
  snprintf(metrics->next_name, sizeof metrics->next_name, "%s.%d.next", metrics->name, (int)getpid());
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&metrics->mutex, NULL);
  pthread_cond_init(&metrics->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  int error =
      result == tuttiSuccess ? tt_thread_start(&metrics->thread, "tutti-metrics", metrics_main, metrics) : 0;
  if (error) result = tt_fail(tuttiSystemError, "no thread for counts (TUTTI_METRICS): %s", strerror(error));
  if (result != tuttiSuccess) {
    tt_free(metrics);
    return result;
  }
  tt_process.metrics = metrics;
  atexit(metrics_end);
  return tuttiSuccess;
}

tuttiResult_t tt_metrics_begin(struct tuttiComm *comm)
{
  if (!comm->facts.settings.metrics[0]) return tuttiSuccess;
  pthread_mutex_lock(&tt_process.mutex);
  tuttiResult_t result = tt_process.metrics ? tuttiSuccess : start_locked(&comm->facts);
  struct metrics *metrics = tt_process.metrics;
  pthread_mutex_unlock(&tt_process.mutex);
  if (result != tuttiSuccess) return result;
  comm->calls.transports_used = mask_of(comm);
  comm->calls.is_counted = 1;
  pthread_mutex_lock(&metrics->mutex);
  comm->calls.next_counted = metrics->first;
  metrics->first = comm;
  pthread_mutex_unlock(&metrics->mutex);
  return tuttiSuccess;
}

void tt_metrics_end(struct tuttiComm *comm)
{
  struct metrics *metrics = tt_process.metrics;
  if (!comm->calls.is_counted) return;
  pthread_mutex_lock(&metrics->mutex);
  struct tuttiComm **at = &metrics->first;
  while (*at != comm) at = &(*at)->calls.next_counted;
  *at = comm->calls.next_counted;
  comm_add(&metrics->ended, comm);
  pthread_mutex_unlock(&metrics->mutex);
}
