/* SPDX-License-Identifier: BSD-3-Clause */
/* The check on a real GPU: gpu_check [processes|threads]..., all without arguments. Exit status 77 and the
 * reason where there is no GPU; else 0 if everything is right. tests/gpu/run builds and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda.h"
#include "gpu.h"

/* In a process of its own: a driver that was started does not survive a fork. */
static int probe(void)
{
  struct tt_settings settings;
  char text[256] = "";
  if (tt_settings_load(&settings) != tuttiSuccess) return 1;
  const char *reason = tt_cuda_unusable(&settings, text, sizeof text);
  if (reason) printf("skipped: no CUDA memory here: %s\n", reason);
  else printf("CUDA: %s\n", text);
  fflush(stdout);
  return reason ? 77 : 0;
}

static int probe_apart(void)
{
  int status = 0;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(probe());
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int wanted(int argc, char **argv, const char *name)
{
  int found = argc < 2;
  for (int i = 1; i < argc; i++) found |= strcmp(argv[i], name) == 0;
  return found;
}

int main(int argc, char **argv)
{
  int failed = 0, status = probe_apart();
  if (status) return status;
  setenv("TUTTI_CUDA", "1", 1);
  if (wanted(argc, argv, "processes")) failed += check_ranks(0);
  if (wanted(argc, argv, "threads")) failed += check_ranks(1);
  printf("\n%s\n", failed ? "WRONG" : "right");
  return failed != 0;
}
