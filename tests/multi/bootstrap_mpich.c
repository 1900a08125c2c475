/* SPDX-License-Identifier: BSD-3-Clause */
/* Under MPICH's mpiexec the ranks find each other through PMI-1. */
#include "bootstrap_mpirun.h"

int main(int argc, char **argv)
{
  static struct mpirun mpich = {"mpiexec.hydra", "pmi", "mpich"};
  return mpirun_main(argc, argv, &mpich);
}
