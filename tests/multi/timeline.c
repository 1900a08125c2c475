/* SPDX-License-Identifier: BSD-3-Clause */
/* TUTTI_TIMELINE: the file is a trace, whatever happens to the process, with one span for each call. Files are read by
 * tests/tools/timeline, which says what it found.
 * Labels: processes. */
#include "ranks.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static char folder[] = "/tmp/tutti.timeline_XXXXXX"; /* with a point in it */

/* What the reader says of a file of the folder; *status is 0 if it is a trace. The caller frees it. */
static char *file_read(const char *file, int *status)
{
  char command[512];
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  snprintf(command, sizeof command, "%s %s/%s 2>&1", TIMELINE_READ, folder, file);
  FILE *reader = popen(command, "r");
  assert_non_null(reader);
  size_t len = fread(text, 1, (1 << 20) - 1, reader);
  *status = pclose(reader);
  text[len] = 0;
  return text;
}

static void file_holds(const char *file, const char *wanted)
{
  int status;
  char *text = file_read(file, &status);
  if (status || strcmp(text, wanted)) fail_msg("%s, wanted:\n%sgot, with status %d:\n%s", file, wanted, status, text);
  free(text);
}

static int file_exists(const char *file)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  return access(path, F_OK) == 0;
}

static void timeline_set(const char *file)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  setenv("TUTTI_TIMELINE", path, 1);
}

/* ---- calls ---- */

static int calls_body(const struct ranks *self)
{
  tuttiComm_t comm, child;
  tuttiStream_t stream;
  float x[1024] = {0}, y[2048] = {0};
  int other = 1 - self->rank;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 2; k++)
    RANKS_CHECK(tuttiAllReduce(x, x, 1024, tuttiFloat32, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiBroadcast(x, x, 3, tuttiInt8, 1, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  RANKS_CHECK(tuttiAllGather(x, y, 16, tuttiFloat64, comm, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiReduce(x, y, 0, tuttiFloat32, tuttiSum, 0, comm, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiSend(x, 100, tuttiUint8, other, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiRecv(y, 100, tuttiUint8, other, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, other, &child, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(x, x, 1, tuttiFloat64, tuttiMax, child, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(x, x, 1 << 8, tuttiUint32, tuttiMax, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void each_call_is_one_span_with_its_bytes(void **state)
{
  (void)state;
  const char *wanted = "operations: AllReduce 4 KiB, 4096\n"
                       "operations: AllReduce 4 KiB, 4096\n"
                       "operations: Broadcast 3 B, 3\n"
                       "operations: AllGather 128 B, 128\n"
                       "operations: Reduce 0 B, 0\n"
                       "operations: Send/Recv 200 B, 200\n"
                       "operations: CommSplit 8 B, 8, internal\n"
                       "operations 1: AllReduce 8 B, 8\n"
                       "operations: AllReduce 1 KiB, 1024\n";
  char longer[512];
  snprintf(longer, sizeof longer, "%s/calls.0.json", folder);
  timeline_set("calls.json");
  for (int k = 0; k < 2; k++) { /* the second time over files that are there, one of them longer */
    if (k) assert_int_equal(truncate(longer, 1 << 20), 0);
    assert_int_equal(ranks_run_processes(2, calls_body, NULL, 60), 0);
    file_holds("calls.0.json", wanted);
    file_holds("calls.1.json", wanted);
  }
  assert_false(file_exists("calls.json"));
}

/* ---- names of files ---- */

static int one_call(const struct ranks *self, tuttiComm_t *comm)
{
  double x = 0;
  RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat64, tuttiSum, *comm, NULL) == tuttiSuccess);
  return 0;
}

static int one_call_body(const struct ranks *self)
{
  tuttiComm_t comm;
  return one_call(self, &comm) || tuttiCommDestroy(comm) != tuttiSuccess;
}

static void every_rank_has_a_file_of_its_own(void **state)
{
  (void)state;
  const char *wanted = "operations: AllReduce 8 B, 8\n";
  timeline_set("one");
  assert_int_equal(ranks_run_processes(1, one_call_body, NULL, 60), 0);
  file_holds("one", wanted);
  timeline_set("bare");
  assert_int_equal(ranks_run_processes(2, one_call_body, NULL, 60), 0);
  file_holds("bare.0", wanted);
  file_holds("bare.1", wanted);
  timeline_set("of%r.p%p.json");
  char first[64], second[64];
  int pids[2];
  ranks_start(2, one_call_body, NULL, pids);
  assert_int_equal(ranks_wait(pids[0], 60), 0);
  assert_int_equal(ranks_wait(pids[1], 60), 0);
  snprintf(first, sizeof first, "of0.p%d.json", pids[0]);
  snprintf(second, sizeof second, "of1.p%d.json", pids[1]);
  file_holds(first, wanted);
  file_holds(second, wanted);
}

static void a_device_is_written_by_all_ranks(void **state)
{
  (void)state;
  setenv("TUTTI_TIMELINE", "/dev/zero", 1);
  assert_int_equal(ranks_run_processes(2, one_call_body, NULL, 60), 0);
  assert_int_not_equal(access("/dev/zero.0", F_OK), 0);
}

static int refused_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) != tuttiSuccess);
  RANKS_CHECK(strstr(tuttiGetLastError(NULL), self->argument) != NULL);
  return 0;
}

static void a_file_that_cannot_be_is_refused_on_all_ranks(void **state)
{
  (void)state;
  timeline_set("%h.json"); /* two ranks have one name */
  assert_int_equal(ranks_run_processes(2, refused_body, "is being written by another process: put %r", 60), 0);
  setenv("TUTTI_TIMELINE", "/nonexistent/%r", 1);
  assert_int_equal(ranks_run_processes(2, refused_body, "(TUTTI_TIMELINE) cannot be opened", 60), 0);
}

static void a_full_disk_ends_no_run(void **state)
{
  (void)state;
  setenv("TUTTI_TIMELINE", "/dev/full", 1);
  setenv("TUTTI_DEBUG_FILE", "/dev/null", 1);
  assert_int_equal(ranks_run_processes(1, one_call_body, NULL, 60), 0);
  unsetenv("TUTTI_DEBUG_FILE");
}

/* ---- a process that is killed ---- */

#define ENOUGH 1000 /* spans are more than the buffer holds */

static int killed_body(const struct ranks *self)
{
  tuttiComm_t comm;
  double x = 0;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < ENOUGH; k++)
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat64, tuttiSum, comm, NULL) == tuttiSuccess);
  raise(SIGKILL);
  return 0;
}

static void what_a_killed_process_wrote_is_a_trace(void **state)
{
  (void)state;
  const char *line = "operations: AllReduce 8 B, 8\n";
  int pid, status, n = 0;
  timeline_set("killed.json");
  ranks_start(1, killed_body, NULL, &pid);
  assert_int_equal(ranks_wait(pid, 60), 128 + SIGKILL);
  char *text = file_read("killed.json", &status);
  assert_int_equal(status, 0);
  for (const char *at = text; *at; at += strlen(line), n++) assert_memory_equal(at, line, strlen(line));
  assert_in_range(n, ENOUGH / 5, ENOUGH);
  free(text);
}

/* Leaves a span in the buffer, and does nothing more until it is killed. */
static int idle_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(one_call(self, &comm) == 0);
  for (;;) pause();
}

/* How many spans of one_call_body the file has, of a trace; -1: it is none yet. */
static int spans_of(const char *file)
{
  const char *line = "operations: AllReduce 8 B, 8\n";
  int status, n = 0;
  char *text = file_read(file, &status);
  for (const char *at = text; !status && (at = strstr(at, line)); at += strlen(line)) n++;
  free(text);
  return status ? -1 : n;
}

static void an_idle_process_has_written_all_when_it_is_killed(void **state)
{
  (void)state;
  for (int n = 1; n <= 2; n++) {
    int pids[2], found = -1;
    timeline_set("idle.%r.json");
    ranks_start(n, idle_body, NULL, pids);
    for (int tries = 0; found < 1 && tries < 100; tries++) {
      usleep(100000);
      found = spans_of("idle.0.json");
    }
    for (int r = 0; r < n; r++) kill(pids[r], SIGKILL);
    for (int r = 0; r < n; r++) assert_int_equal(ranks_wait(pids[r], 60), 128 + SIGKILL);
    assert_int_equal(found, 1);
    assert_int_equal(spans_of("idle.0.json"), 1);
  }
}

/* ---- a file system that hangs ---- */

static _Atomic int is_hung, waits, beats;

/* Instead of the C library's: while it hangs, nothing is written. */
ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
  for (; atomic_load(&is_hung); usleep(1000)) atomic_store(&waits, 1);
  return syscall(SYS_pwrite64, fd, data, len, at);
}

static void beat(struct tt_timer *timer)
{
  (void)timer;
  atomic_fetch_add(&beats, 1);
}

static void *span_add(void *unused)
{
  tt_timeline_add(&(struct tt_span){"track", "span", 1, 2, NULL, "call"});
  return unused;
}

/* Who adds a span may have to wait for the writer. */
static int hung_body(const struct ranks *self)
{
  struct tt_timer timer = {.period_ns = 1000000, .fire = beat};
  pthread_t thread;
  tuttiComm_t comm;
  RANKS_CHECK(one_call(self, &comm) == 0);
  tt_timer_add(&timer);
  atomic_store(&is_hung, 1);
  RANKS_CHECK(pthread_create(&thread, NULL, span_add, NULL) == 0);
  while (!atomic_load(&waits)) usleep(1000);
  for (int n = atomic_load(&beats); atomic_load(&beats) < n + 100;) usleep(1000);
  tt_timer_remove(&timer);
  atomic_store(&is_hung, 0);
  pthread_join(thread, NULL);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_file_system_that_hangs_stops_no_beat(void **state)
{
  (void)state;
  timeline_set("hung.json");
  assert_int_equal(ranks_run_processes(1, hung_body, NULL, 60), 0);
  assert_int_equal(spans_of("hung.json"), 1);
}

/* ---- links and limits ---- */

/* Somebody else may have made it, to have a file overwritten that only we may write. */
static void links_are_not_followed(void **state)
{
  (void)state;
  char target[512], path[512], kept[8] = "";
  snprintf(target, sizeof target, "%s/target", folder);
  snprintf(path, sizeof path, "%s/link", folder);
  FILE *file = fopen(target, "w");
  assert_true(file && fputs("mine\n", file) >= 0 && fclose(file) == 0 && symlink("target", path) == 0);
  timeline_set("link");
  assert_int_equal(ranks_run_processes(1, refused_body, "(TUTTI_TIMELINE) cannot be opened: it is a symb", 60), 0);
  unsetenv("TUTTI_TIMELINE");
  setenv("TUTTI_TRACE", path, 1);
  assert_int_equal(ranks_run_processes(2, refused_body, "(TUTTI_TRACE): it is a symbolic link", 60), 0);
  unsetenv("TUTTI_TRACE");
  setenv("TUTTI_DEBUG_FILE", path, 1);
  setenv("TUTTI_DEBUG", "INFO", 1);
  assert_int_equal(ranks_run_processes(1, one_call_body, NULL, 60), 0);
  unsetenv("TUTTI_DEBUG");
  unsetenv("TUTTI_DEBUG_FILE");
  file = fopen(target, "r");
  assert_true(file && fgets(kept, sizeof kept, file) && strcmp(kept, "mine\n") == 0 && fgetc(file) == EOF);
  fclose(file);
}

static void a_descriptor_is_a_file(void **state)
{
  (void)state;
  char path[512], name[64];
  struct stat status;
  snprintf(path, sizeof path, "%s/by_descriptor", folder);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_true(fd >= 0);
  snprintf(name, sizeof name, "/dev/fd/%d", fd);
  setenv("TUTTI_DEBUG_FILE", name, 1);
  setenv("TUTTI_DEBUG", "INFO", 1);
  assert_int_equal(ranks_run_processes(1, one_call_body, NULL, 60), 0);
  unsetenv("TUTTI_DEBUG");
  unsetenv("TUTTI_DEBUG_FILE");
  assert_true(fstat(fd, &status) == 0 && status.st_size > 0);
  close(fd);
}

#define LIMIT 16384 /* of a file, once there is a communicator: shared memory is a file, too */

/* Time line and log have room for what they begin with. */
static int limited_body(const struct ranks *self)
{
  const struct rlimit limit = {LIMIT, LIMIT};
  double x = 0;
  tuttiComm_t comm;
  RANKS_CHECK(one_call(self, &comm) == 0);
  tt_timeline_flush();
  RANKS_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  for (int k = 0; k < ENOUGH; k++)
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat64, tuttiSum, comm, NULL) == tuttiSuccess);
  tt_timeline_flush();
  for (int k = 0; k < ENOUGH; k++) tt_log(TT_LOG_WARN, "a line that has no room");
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_limit_on_files_ends_no_run(void **state)
{
  (void)state;
  char log[512], line[512], said[512] = "";
  timeline_set("limited.json");
  snprintf(log, sizeof log, "%s/limited.log", folder);
  setenv("TUTTI_DEBUG_FILE", log, 1);
  assert_int_equal(ranks_run_processes(1, limited_body, NULL, 60), 0);
  unsetenv("TUTTI_DEBUG_FILE");
  FILE *file = fopen(log, "r");
  assert_non_null(file);
  while (!said[0] && fgets(line, sizeof line, file))
    if (strstr(line, "(TUTTI_TIMELINE) cannot be written, and ends here: File too large")) strcpy(said, line);
  fclose(file);
  assert_true(said[0] != 0);
  assert_true(spans_of("limited.json") > 0); /* what had room is a trace */
}

/* ---- spans of any text and thread ---- */

static int strange_body(const struct ranks *self)
{
  char path[512], track[32], longer[2000];
  snprintf(path, sizeof path, "%s/strange.json", folder);
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  RANKS_CHECK(!tt_timeline_wanted());
  RANKS_CHECK(tt_timeline_open(path, 7, 1) == tuttiSuccess && tt_timeline_wanted());
  tt_timeline_add(&(struct tt_span){"a \"b\" \\", "\t\177\303\274", 1000, 2001, "\"bytes\":\"\\n\"", "call"});
  tt_timeline_add(&(struct tt_span){longer, longer, 1, 0, longer, "call"});
  tt_timeline_add(&(struct tt_span){longer, "within", 1001, 1001, NULL, "call"});
  for (int t = 0; t < TT_TIMELINE_TRACKS + 9; t++) {
    snprintf(track, sizeof track, "track %d", t);
    unsigned at_ns = 1000u * (unsigned)t;
    tt_timeline_add(&(struct tt_span){track, "it", at_ns + 1, at_ns + 2, "\"bytes\":1", "call"});
  }
  return 0; /* never flushed: the end of the process does it */
}

static void any_text_and_any_number_of_tracks_make_a_trace(void **state)
{
  (void)state;
  int status, others = 0;
  assert_int_equal(ranks_run_processes(1, strange_body, NULL, 60), 0);
  char *text = file_read("strange.json", &status), cut[TT_TIMELINE_TEXT_BYTES], line[512];
  memset(cut, 'x', sizeof cut - 1);
  cut[sizeof cut - 1] = 0;
  snprintf(line, sizeof line, "a \"b\" \\: \t\177??, \n\n%s: %s, None\n%s: within, None\ntrack 0: it, 1\n", cut, cut,
           cut);
  assert_int_equal(status, 0);
  assert_memory_equal(text, line, strlen(line));
  for (const char *at = text; (at = strstr(at, "other: it, 1\n")); at++) others++;
  assert_int_equal(others, 2 + 9 + 1); /* two tracks were there before; "other" is itself one */
  free(text);
}

#define SPANS 4000 /* of a thread */

static void *spans_add(void *track)
{
  for (unsigned k = 0; k < SPANS; k++)
    tt_timeline_add(&(struct tt_span){track, "it", 1 + 10 * k, 11 + 10 * k, "\"bytes\":0", "call"});
  return NULL;
}

static int threads_body(const struct ranks *self)
{
  char path[512];
  pthread_t threads[3];
  char *tracks[3] = {"a", "b", "c"};
  snprintf(path, sizeof path, "%s/threads.json", folder);
  RANKS_CHECK(tt_timeline_open(path, 0, 1) == tuttiSuccess);
  for (int t = 0; t < 3; t++) RANKS_CHECK(pthread_create(&threads[t], NULL, spans_add, tracks[t]) == 0);
  for (int t = 0; t < 3; t++) pthread_join(threads[t], NULL);
  return 0;
}

static void spans_of_all_threads_are_there(void **state)
{
  (void)state;
  int status;
  size_t lines[3] = {0};
  assert_int_equal(ranks_run_processes(1, threads_body, NULL, 60), 0);
  char *text = file_read("threads.json", &status);
  assert_int_equal(status, 0);
  for (const char *at = text; *at; at += strlen("a: it, 0\n")) {
    assert_memory_equal(at + 1, ": it, 0\n", 8);
    lines[at[0] - 'a']++;
  }
  for (int t = 0; t < 3; t++) assert_int_equal(lines[t], SPANS);
  free(text);
}

int main(void)
{
  char command[64];
  if (system("python3 -c 'import json' >/dev/null 2>&1") != 0) {
    printf("skipped: python3, which reads traces, is not there\n");
    return 77;
  }
  if (!mkdtemp(folder)) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_call_is_one_span_with_its_bytes),
      cmocka_unit_test(every_rank_has_a_file_of_its_own),
      cmocka_unit_test(a_device_is_written_by_all_ranks),
      cmocka_unit_test(a_file_that_cannot_be_is_refused_on_all_ranks),
      cmocka_unit_test(a_full_disk_ends_no_run),
      cmocka_unit_test(what_a_killed_process_wrote_is_a_trace),
      cmocka_unit_test(an_idle_process_has_written_all_when_it_is_killed),
      cmocka_unit_test(a_file_system_that_hangs_stops_no_beat),
      cmocka_unit_test(links_are_not_followed),
      cmocka_unit_test(a_descriptor_is_a_file),
      cmocka_unit_test(a_limit_on_files_ends_no_run),
      cmocka_unit_test(any_text_and_any_number_of_tracks_make_a_trace),
      cmocka_unit_test(spans_of_all_threads_are_there),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  snprintf(command, sizeof command, "rm -r %s", folder);
  if (system(command) != 0) failed++;
  return failed;
}
