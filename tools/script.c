/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the command that are written in Python: `tutti draw`, `doctor` and `timeline`. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

void script_become(const char *script, const char *const *words, int n)
{
  char self[PATH_MAX], path[PATH_MAX + sizeof TT_SCRIPTS + NAME_MAX], python[] = "python3";
  char *arguments[SCRIPT_WORDS + 3] = {python, path};
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  self[len > 0 ? len : 0] = 0;
  char *end = strrchr(self, '/');
  if (end) *end = 0;
  snprintf(path, sizeof path, "%s/%s/%s", self, TT_SCRIPTS, script);
  errno = E2BIG;
  if (n > SCRIPT_WORDS) return;
  for (int i = 0; i < n; i++) arguments[2 + i] = (char *)(uintptr_t)words[i]; /* they are not written */
  fflush(NULL);
  execvp(python, arguments);
}

const char *script_lacks(int error)
{
  if (error == ENOENT) return "python3, in which this is written, is not found: install it";
  return strerror(error);
}
