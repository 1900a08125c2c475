/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"

#define BUFFER_BYTES 65536
#define WRITE_MS 250   /* spans wait in the buffer at most so long */
#define EVENT_BYTES (2048 + TT_TIMELINE_ARGS_BYTES)
#define ARRAY_END "\n]\n"
#define OTHER_TRACKS "other"

struct timeline {
  pthread_mutex_t mutex;
  pthread_cond_t wake; /* of the writer, for its end */
  pthread_t writer;
  int ends;
  int fd, rank;
  int failed; /* the file cannot be written any more */
  int events; /* at least one was added */
  off_t len;  /* of the file without the end of the array */
  int ntracks;
  size_t used;
  char tracks[TT_TIMELINE_TRACKS][TT_TIMELINE_TEXT_BYTES];
  char buffer[BUFFER_BYTES];
  char file[TT_FILE_NAME_BYTES];
};

/* ---- the file ---- */

/* Restores the end of the array after a write that failed half-way, in bytes that the file already had. */
static void end_again(const struct timeline *line)
{
  size_t len = line->len ? strlen(ARRAY_END) : 0;
  if (tt_file_write(line->fd, ARRAY_END, len, line->len) != (ssize_t)len || ftruncate(line->fd, line->len + (off_t)len))
    return; /* the failure was already logged */
}

/* Appends the buffer to the file, which is a whole array before and after. */
static void flush_locked(struct timeline *line)
{
  size_t len = line->used + strlen(ARRAY_END), done = 0;
  if (line->used == 0 || line->failed) return;
  memcpy(line->buffer + line->used, ARRAY_END, strlen(ARRAY_END)); /* there is room: event_add */
  while (done < len) {
    ssize_t n = tt_file_write(line->fd, line->buffer + done, len - done, line->len + (off_t)done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += (size_t)n;
  }
  if (done < len) {
    line->failed = 1;
    tt_log(TT_LOG_WARN, "%s (TUTTI_TIMELINE) cannot be written, and ends here: %s", line->file, strerror(errno));
    end_again(line);
  }
  line->len += (off_t)line->used;
  line->used = 0;
}

/* Appends the text of one event to the buffer. */
static void event_add(struct timeline *line, const char *event, size_t len)
{
  if (line->used + len + 2 + strlen(ARRAY_END) > sizeof line->buffer) flush_locked(line);
  if (line->failed) return;
  memcpy(line->buffer + line->used, line->events ? ",\n" : "[\n", 2);
  memcpy(line->buffer + line->used + 2, event, len);
  line->used += 2 + len;
  line->events = 1;
}

/* ---- events ---- */

/* `text` as the inside of a JSON string, at most TT_TIMELINE_TEXT_BYTES - 1 bytes of it. */
#define ESCAPED_BYTES (6 * TT_TIMELINE_TEXT_BYTES + 1)
static const char *escape(char out[ESCAPED_BYTES], const char *text)
{
  char cut[TT_TIMELINE_TEXT_BYTES];
  snprintf(cut, sizeof cut, "%s", text);
  return tt_json_text(cut, out, ESCAPED_BYTES);
}

/* Adds an event that names or labels the process (thread 0), or names a thread, that is, a track. */
static void name_add(struct timeline *line, const char *what, int thread, const char *name)
{
  char event[EVENT_BYTES], escaped[ESCAPED_BYTES];
  int n = snprintf(event, sizeof event,
                   "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"%s\":\"%s\"}}", what,
                   line->rank, thread, strcmp(what, "process_labels") == 0 ? "labels" : "name", escape(escaped, name));
  event_add(line, event, (size_t)n);
}

/* The number of a track; a new one is added with its name. */
static int track_get(struct timeline *line, const char *name)
{
  char wanted[TT_TIMELINE_TEXT_BYTES];
  snprintf(wanted, sizeof wanted, "%s", line->ntracks + 1 < TT_TIMELINE_TRACKS ? name : OTHER_TRACKS);
  for (int t = 0; t < line->ntracks; t++)
    if (strncmp(line->tracks[t], name, TT_TIMELINE_TEXT_BYTES - 1) == 0 || strcmp(line->tracks[t], wanted) == 0)
      return t + 1;
  strcpy(line->tracks[line->ntracks++], wanted);
  name_add(line, "thread_name", line->ntracks, wanted);
  return line->ntracks;
}

void tt_timeline_add(const struct tt_span *span)
{
  struct timeline *line = atomic_load_explicit(&tt_process.timeline, memory_order_acquire);
  if (!line || atomic_load_explicit(&tt_process.forked, memory_order_relaxed)) return;
  char event[EVENT_BYTES], name[ESCAPED_BYTES];
  const char *args = span->args && strlen(span->args) < TT_TIMELINE_ARGS_BYTES ? span->args : "";
  unsigned long long ns = span->end_ns > span->begin_ns ? span->end_ns - span->begin_ns : 0;
  unsigned long long begin_ns = span->begin_ns;
  pthread_mutex_lock(&line->mutex);
  int n = snprintf(event, sizeof event,
                   "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%llu.%03llu,\"dur\":%llu.%03llu,\"pid\":%d,"
                   "\"tid\":%d,\"args\":{%s}}",
                   escape(name, span->name), span->cat, begin_ns / 1000, begin_ns % 1000, ns / 1000, ns % 1000,
                   line->rank, track_get(line, span->track), args);
  event_add(line, event, (size_t)n);
  pthread_mutex_unlock(&line->mutex);
}

void tt_timeline_flush(void)
{
  struct timeline *line = atomic_load_explicit(&tt_process.timeline, memory_order_acquire);
  if (!line || atomic_load_explicit(&tt_process.forked, memory_order_relaxed)) return;
  pthread_mutex_lock(&line->mutex);
  flush_locked(line);
  pthread_mutex_unlock(&line->mutex);
}

/* ---- the writer ---- */

/* The file has a thread of its own, so that other threads beat and send while a file system is slow. */
static void *writer_main(void *context)
{
  struct timeline *line = context;
  struct timespec until;
  pthread_mutex_lock(&line->mutex);
  while (!line->ends) {
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WRITE_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&line->wake, &line->mutex, &until);
    flush_locked(line);
  }
  pthread_mutex_unlock(&line->mutex);
  return NULL;
}

static int writer_start(struct timeline *line)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&line->mutex, NULL);
  pthread_cond_init(&line->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return tt_thread_start(&line->writer, "tutti-timeline", writer_main, line);
}

/* Called when the process ends or the library is unloaded. */
static void writer_end(void)
{
  struct timeline *line = atomic_load_explicit(&tt_process.timeline, memory_order_acquire);
  if (atomic_load_explicit(&tt_process.forked, memory_order_relaxed)) return; /* the parent's */
  pthread_mutex_lock(&line->mutex);
  line->ends = 1;
  pthread_cond_signal(&line->wake);
  pthread_mutex_unlock(&line->mutex);
  pthread_join(line->writer, NULL);
  tt_timeline_flush();
}

/* ---- opening ---- */

/* Empties the file, which no other process may be writing. Anything but a regular file, such as /dev/null, is left as
 * it is. */
static tuttiResult_t file_take(int fd, const char *name)
{
  struct stat stat;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; /* belongs to the process and ends with it */
  if (fstat(fd, &stat) == 0 && !S_ISREG(stat.st_mode)) return tuttiSuccess;
  if (fcntl(fd, F_SETLK, &lock) != 0 && (errno == EACCES || errno == EAGAIN))
    return tt_fail(tuttiSystemError,
                   "%s (TUTTI_TIMELINE) is being written by another process: put %%r, the rank, or %%p, the pid, into "
                   "its name", name);
  if (ftruncate(fd, 0) == 0) return tuttiSuccess;
  return tt_fail(tuttiSystemError, "%s (TUTTI_TIMELINE) cannot be emptied: %s", name, strerror(errno));
}

static tuttiResult_t open_locked(const char *file, int rank, int nranks)
{
  char label[TT_HOST_NAME_BYTES], name[TT_FILE_NAME_BYTES];
  tuttiResult_t result = tt_file_name(name, "TUTTI_TIMELINE", file, rank, nranks);
  if (result != tuttiSuccess) return result;
  struct timeline *line = tt_alloc(1, sizeof *line);
  if (!line) return tt_fail(tuttiSystemError, "out of memory for the time line (TUTTI_TIMELINE)");
  strcpy(line->file, name);
  line->fd = tt_file_open(name, 0);
  if (line->fd < 0)
    result = tt_fail(tuttiSystemError, "%s (TUTTI_TIMELINE) cannot be opened: %s", name, tt_file_why(errno));
  else result = file_take(line->fd, name);
  int error = result == tuttiSuccess ? writer_start(line) : 0;
  if (error) result = tt_fail(tuttiSystemError, "no thread for the time line (TUTTI_TIMELINE): %s", strerror(error));
  if (result != tuttiSuccess) {
    if (line->fd >= 0) close(line->fd);
    tt_free(line);
    return result;
  }
  line->rank = rank;
  snprintf(label, sizeof label, "rank %d", rank);
  pthread_mutex_lock(&line->mutex);
  name_add(line, "process_name", 0, label);
  tt_host_name(label);
  name_add(line, "process_labels", 0, label);
  pthread_mutex_unlock(&line->mutex);
  atomic_store_explicit(&tt_process.timeline, line, memory_order_release);
  atexit(writer_end);
  return tuttiSuccess;
}

tuttiResult_t tt_timeline_open(const char *file, int rank, int nranks)
{
  if (tt_timeline_wanted()) return tuttiSuccess;
  pthread_mutex_lock(&tt_process.mutex);
  tuttiResult_t result = tt_timeline_wanted() ? tuttiSuccess : open_locked(file, rank, nranks);
  pthread_mutex_unlock(&tt_process.mutex);
  return result;
}
