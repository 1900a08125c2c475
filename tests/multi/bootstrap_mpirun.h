/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that an installed mpirun starts: they find each other, and nobody complains at the end. */
#ifndef BOOTSTRAP_MPIRUN_H
#define BOOTSTRAP_MPIRUN_H

#include "bootstrap_ranks.h"

/* A rank, started by mpirun with the argument "rank". */
static inline int rank_main(void)
{
  tuttiLaunch_t launch;
  if (tt_launch_get(&launch) != tuttiSuccess) return 1;
  struct job job = {.nranks = launch.nprocs, .rounds = 3, .id_ready = 1, .id = launch.id};
  struct member m;
  member_prepare(&m, &job, launch.proc);
  tuttiResult_t result = member_meet(&m);
  tt_rendezvous_destroy(m.rendezvous);
  if (launch.proc == 0) root_linger();
  printf("<%s %d of %d, %d of %d here: %d>\n", launch.launcher, launch.proc, launch.nprocs,
         launch.local_proc, launch.local_nprocs, (int)result);
  return (int)result;
}

/* A launcher: how it is started, by what it tells ranks of each other, and what Debian has it in. */
struct mpirun {
  const char *start, *launcher, *package;
};

static inline int is_missing(const struct mpirun *mpirun)
{
  char command[256];
  int len = (int)strcspn(mpirun->start, " ");
  snprintf(command, sizeof command, "command -v %.*s >/dev/null 2>&1", len, mpirun->start);
  if (system(command) == 0) return 0;
  printf("skipped: %.*s is not installed (Debian: %s)\n", len, mpirun->start, mpirun->package);
  return 1;
}

/* Runs it; returns its exit status and all it wrote. */
static inline int run(const struct mpirun *mpirun, char *output, size_t size)
{
  char self[512], command[1024];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  assert_true(n > 0);
  self[n] = 0;
  snprintf(command, sizeof command, "%s -n 4 '%s' rank 2>&1", mpirun->start, self);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t used = fread(output, 1, size - 1, pipe);
  output[used] = 0;
  return pclose(pipe);
}

static inline void ranks_that_it_starts_meet(void **state)
{
  const struct mpirun *mpirun = *state;
  static char output[65536];
  int status = run(mpirun, output, sizeof output);
  if (status != 0) fail_msg("%s ended with status 0x%x and wrote:\n%s", mpirun->start, status, output);
  size_t expected = 0;
  for (int r = 0; r < 4; r++) {
    char line[64];
    snprintf(line, sizeof line, "<%s %d of 4, %d of 4 here: 0>\n", mpirun->launcher, r, r);
    expected += strlen(line);
    if (!strstr(output, line)) fail_msg("\"%s\" is not in:\n%s", line, output);
  }
  if (strlen(output) != expected) fail_msg("somebody complained:\n%s", output);
}

/* The main of a test of one launcher. */
static inline int mpirun_main(int argc, char **argv, struct mpirun *mpirun)
{
  alarm(120);
  if (argc > 1 && strcmp(argv[1], "rank") == 0) return rank_main();
  if (is_missing(mpirun)) return 77;
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(ranks_that_it_starts_meet, mpirun)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
