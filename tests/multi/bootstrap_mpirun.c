/* SPDX-License-Identifier: BSD-3-Clause */
/* Under Open MPI's mpirun the ranks find each other through PMIx. */
#include "bootstrap_mpirun.h"

/* libpmix leaks a few bytes of its own; leaks of ours still fail the test. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void) { return "leak:libpmix"; }
const char *__lsan_default_options(void) { return "print_suppressions=0"; }

int main(int argc, char **argv)
{
  static struct mpirun openmpi = {
      "mpirun.openmpi --allow-run-as-root --oversubscribe -x TUTTI_SOCKET_IFNAME", "pmix", "openmpi-bin"};
#ifndef TT_HAVE_PMIX
  printf("skipped: built without PMIx\n");
  return 77;
#endif
  return mpirun_main(argc, argv, &openmpi);
}
