/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti run`, which is looked for beside this program: how ranks start, end and are ended.
 * Labels: processes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "comm/comm.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static char self_path[4096], tutti_path[4096 + 8];

/* Runs `tutti run ...` in a shell; its output into text. The exit status, as the shell's. */
static int tutti_run(const char *arguments, char *text, size_t size)
{
  char command[16384];
  snprintf(command, sizeof command, "'%s' run %s 2>&1", tutti_path, arguments);
  FILE *output = popen(command, "r");
  assert_non_null(output);
  size_t got = fread(text, 1, size - 1, output);
  text[got] = 0;
  int status = pclose(output);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int count_of(const char *text, const char *words)
{
  int found = 0;
  for (const char *at = text; (at = strstr(at, words)); at++) found++;
  return found;
}

static void run_tells_the_first_failure(void **state)
{
  (void)state;
  char text[8192];
  assert_int_equal(tutti_run("-n 3 -- true", text, sizeof text), 0);
  assert_string_equal(text, "");
  assert_int_equal(tutti_run("-n 3 -- sh -c 'test $TUTTI_LAUNCH_PROC != 1 || exit 7'", text, sizeof text), 7);
  assert_non_null(strstr(text, "rank 1"));
  assert_int_equal(tutti_run("-n 3 -- sh -c 'test $TUTTI_LAUNCH_PROC != 2 || kill -9 $$'", text, sizeof text), 137);
  assert_non_null(strstr(text, "rank 2"));
  assert_int_equal(tutti_run("-n 2 --grace 0 -- sh -c 'test $TUTTI_LAUNCH_PROC = 0 && exit 3; trap \"exit 5\" TERM; "
                             "while :; do sleep 0.05; done'", /* it is told to end because of the first */
                             text, sizeof text),
                   3);
  assert_int_equal(tutti_run("-n 2 --grace 0 -- sh -c 'test $TUTTI_LAUNCH_PROC = 1 && exit 4; exec sleep 60'", text,
                             sizeof text),
                   4);
}

static void run_tells_what_cannot_be_started(void **state)
{
  (void)state;
  char text[8192];
  assert_int_equal(tutti_run("-n 2 -- /nowhere/program", text, sizeof text), 127);
  assert_non_null(strstr(text, "/nowhere/program"));
  assert_int_equal(tutti_run("-n 2 -- /etc/passwd", text, sizeof text), 126);
  assert_int_equal(tutti_run("-n 0 -- true", text, sizeof text), 2);
  assert_int_equal(tutti_run("-n 2", text, sizeof text), 2);
}

static void run_prefixes_every_line(void **state)
{
  (void)state;
  char text[65536], line[64];
  assert_int_equal(tutti_run("-n 3 -- sh -c 'for i in 1 2 3 4 5; do echo \"line $i\"; echo \"more $i\" >&2; done; "
                             "printf end'",
                             text, sizeof text),
                   0);
  for (int r = 0; r < 3; r++)
    for (int i = 1; i <= 5; i++) {
      snprintf(line, sizeof line, "[%d] line %d\n", r, i);
      assert_int_equal(count_of(text, line), 1);
      snprintf(line, sizeof line, "[%d] more %d\n", r, i);
      assert_int_equal(count_of(text, line), 1);
    }
  assert_int_equal(count_of(text, "] end"), 3);
  assert_int_equal(tutti_run("-n 2 --no-prefix -- echo bare", text, sizeof text), 0);
  assert_string_equal(text, "bare\nbare\n");
}

static void run_makes_ranks_of_a_program(void **state)
{
  (void)state;
  char text[8192], arguments[5000];
  snprintf(arguments, sizeof arguments, "-n 4 -- '%s' --rank", self_path);
  assert_int_equal(tutti_run(arguments, text, sizeof text), 0);
  for (int r = 0; r < 4; r++) {
    char line[32];
    snprintf(line, sizeof line, "[%d] sum 10\n", r);
    assert_non_null(strstr(text, line));
  }
}

/* Starts the launcher with these ranks; *output is what they say. */
static pid_t launcher_start(const char *script, FILE **output)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(tutti_path, "tutti", "run", "-n", "3", "--no-prefix", "--", "sh", "-c", script, (char *)NULL);
    _exit(99);
  }
  close(ends[1]);
  *output = fdopen(ends[0], "r");
  assert_non_null(*output);
  return pid;
}

static void run_passes_signals_on(void **state)
{
  (void)state;
  static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
  for (int s = 0; s < 3; s++) {
    FILE *output;
    char line[128];
    int got = 0;
    pid_t pid = launcher_start("trap 'echo got; exit 0' TERM INT USR1; echo up; while :; do sleep 0.05; done", &output);
    for (int k = 0; k < 3; k++) assert_true(fgets(line, sizeof line, output) && strcmp(line, "up\n") == 0);
    kill(pid, signals[s]);
    while (fgets(line, sizeof line, output)) got += strcmp(line, "got\n") == 0;
    fclose(output);
    assert_int_equal(ranks_wait(pid, 20), 0);
    assert_int_equal(got, 3);
  }
}

/* Long before the start-up's limit no rank waits for one that cannot come any more. */
static void run_tells_who_waits_for_a_rank_that_has_ended(void **state)
{
  (void)state;
  static const struct {
    const char *how, *words;
    int status;
  } ends[] = {{"exit 0", "ended with status 0", 2}, {"exit 7", "ended with status 7", 7},
              {"kill -9 $$", "was killed by signal 9", 137}, {"sleep 0.7; exit 0", "ended with status 0", 2}};
  char text[8192], arguments[9000], words[128];
  setenv("TUTTI_INIT_TIMEOUT_MS", "60000", 1);
  setenv("TUTTI_DEBUG", "WARN", 1);
  for (int e = 0; e < 4; e++) {
    snprintf(arguments, sizeof arguments,
             "-n 3 -- sh -c '[ $TUTTI_LAUNCH_PROC != 1 ] || { %s; }; [ $TUTTI_LAUNCH_PROC = 0 ] || sleep 0.3; "
             "exec \"$0\" --rank' '%s'",
             ends[e].how, self_path);
    assert_int_equal(tutti_run(arguments, text, sizeof text), ends[e].status);
    snprintf(words, sizeof words, " %s before it joined the communicator", ends[e].words);
    if (count_of(text, words) < 1 || count_of(text, "TUTTI WARN rank 1 (pid ") < 1)
      fail_msg("%s: %s", ends[e].how, text);
  }
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
  unsetenv("TUTTI_DEBUG");
}

/* A process need be no rank, and its child may be one. */
static void run_ends_nothing_that_can_go_on(void **state)
{
  (void)state;
  char text[8192], arguments[9000];
  snprintf(arguments, sizeof arguments, "-n 3 -- sh -c '[ $TUTTI_LAUNCH_PROC != 2 ] || exit 0; "
           "[ $TUTTI_LAUNCH_PROC = 0 ] || sleep 0.5; exec \"$0\" --rank 2' '%s'", self_path);
  assert_int_equal(tutti_run(arguments, text, sizeof text), 0);
  assert_int_equal(count_of(text, "sum 3\n"), 2);
  snprintf(arguments, sizeof arguments,
           "-n 2 -- sh -c '[ $TUTTI_LAUNCH_PROC = 0 ] || { (sleep 0.5; exec \"$0\" --rank) & exit 0; }; "
           "exec \"$0\" --rank' '%s'", self_path);
  assert_int_equal(tutti_run(arguments, text, sizeof text), 0);
  assert_int_equal(count_of(text, "[0] sum 3\n"), 1); /* the other one may speak when nobody listens any more */
}

static void run_leaves_no_orphans(void **state)
{
  (void)state;
  FILE *output;
  int ranks[3];
  pid_t pid = launcher_start("trap '' TERM; echo $$; while :; do sleep 0.1; done", &output);
  for (int k = 0; k < 3; k++) assert_int_equal(fscanf(output, "%d", &ranks[k]), 1);
  kill(pid, SIGKILL);
  assert_int_equal(ranks_wait(pid, 20), 128 + SIGKILL);
  for (int k = 0; k < 3; k++) {
    int tries = 0;
    while (tt_process_life(ranks[k], tt_process_start(ranks[k])) != TT_LIFE_DEAD && ++tries < 2000) usleep(10000);
    assert_true(tries < 2000);
  }
  fclose(output);
}

/* What `tutti run` starts. nranks: that make a communicator; 0: all. */
static int rank_main(int nranks)
{
  tuttiLaunch_t launch;
  tuttiComm_t comm;
  int x;
  if (tuttiGetLaunch(&launch) != tuttiSuccess || strcmp(launch.launcher, "tutti") != 0) return 1;
  if (tuttiCommInitRank(&comm, nranks ? nranks : launch.nprocs, launch.id, launch.proc) != tuttiSuccess) return 2;
  x = launch.local_proc + 1;
  if (tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) != tuttiSuccess) return 3;
  printf("sum %d\n", x);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(run_tells_the_first_failure),
      cmocka_unit_test(run_tells_what_cannot_be_started),
      cmocka_unit_test(run_prefixes_every_line),
      cmocka_unit_test(run_makes_ranks_of_a_program),
      cmocka_unit_test(run_passes_signals_on),
      cmocka_unit_test(run_tells_who_waits_for_a_rank_that_has_ended),
      cmocka_unit_test(run_ends_nothing_that_can_go_on),
      cmocka_unit_test(run_leaves_no_orphans),
  };
  if (argc > 1 && strcmp(argv[1], "--rank") == 0) return rank_main(argc > 2 ? atoi(argv[2]) : 0);
  alarm(250);
  if (readlink("/proc/self/exe", self_path, sizeof self_path - 1) < 0) return 1;
  char *slash = strrchr(self_path, '/');
  snprintf(tutti_path, sizeof tutti_path, "%.*s/tutti", (int)(slash - self_path), self_path);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
