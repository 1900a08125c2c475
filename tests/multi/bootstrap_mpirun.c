/* SPDX-License-Identifier: BSD-3-Clause */
/* Under Open MPI's mpirun the ranks find each other through PMIx, and nobody complains at the end. */
#include "bootstrap_ranks.h"

#define MPIRUN "mpirun.openmpi"

/* libpmix leaks a few bytes of its own; leaks of ours still fail the test. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void) { return "leak:libpmix"; }
const char *__lsan_default_options(void) { return "print_suppressions=0"; }

/* A rank, started by mpirun with the argument "rank". */
static int rank_main(void)
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

static int mpirun_is_missing(void)
{
  return system("command -v " MPIRUN " >/dev/null 2>&1") != 0;
}

/* Runs mpirun; returns its exit status and all it wrote. */
static int mpirun(char *output, size_t size)
{
  char self[512], command[1024];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  assert_true(n > 0);
  self[n] = 0;
  snprintf(command, sizeof command,
           MPIRUN " --allow-run-as-root --oversubscribe -x TUTTI_SOCKET_IFNAME -np 4 '%s' rank 2>&1", self);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t used = fread(output, 1, size - 1, pipe);
  output[used] = 0;
  return pclose(pipe);
}

static void mpirun_starts_ranks_that_meet(void **state)
{
  (void)state;
  static char output[65536];
  int status = mpirun(output, sizeof output);
  if (status != 0) fail_msg("mpirun ended with status 0x%x and wrote:\n%s", status, output);
  size_t expected = 0;
  for (int r = 0; r < 4; r++) {
    char line[64];
    snprintf(line, sizeof line, "<pmix %d of 4, %d of 4 here: 0>\n", r, r);
    expected += strlen(line);
    if (!strstr(output, line)) fail_msg("\"%s\" is not in:\n%s", line, output);
  }
  if (strlen(output) != expected) fail_msg("somebody complained:\n%s", output);
}

int main(int argc, char **argv)
{
  alarm(120);
  if (argc > 1 && strcmp(argv[1], "rank") == 0) return rank_main();
#ifndef TT_HAVE_PMIX
  printf("skipped: built without PMIx\n");
  return 77;
#endif
  if (mpirun_is_missing()) {
    printf("skipped: %s is not installed (Debian: openmpi-bin)\n", MPIRUN);
    return 77;
  }
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  const struct CMUnitTest tests[] = {cmocka_unit_test(mpirun_starts_ranks_that_meet)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
