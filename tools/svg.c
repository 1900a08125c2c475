/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures: tutti-draw, a script that stands beside this program, draws what a command prints as data. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

static int complain(const char *command, const char *what)
{
  fprintf(stderr, "tutti %s: %s\n", command, what);
  return 0;
}

/* In the child; does not return. */
static void become_draw(const char *command, const char *svg, int fd)
{
  char self[PATH_MAX], script[PATH_MAX + 16], name[32];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  self[len > 0 ? len : 0] = 0;
  char *end = strrchr(self, '/');
  if (end) *end = 0;
  snprintf(script, sizeof script, "%s/tutti-draw", self);
  snprintf(name, sizeof name, "tutti %s", command);
  if (dup2(fd, STDIN_FILENO) == STDIN_FILENO)
    execlp("python3", "python3", script, "--name", name, "--output", svg, (char *)NULL);
  _exit(errno == ENOENT ? 127 : 126);
}

/* Its status as of waitpid; -1: it was not started. */
static int draw_run(const char *command, const char *svg, const char *data, size_t len)
{
  int fds[2], status = -1;
  if (pipe2(fds, O_CLOEXEC) != 0) return -1;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) become_draw(command, svg, fds[0]);
  close(fds[0]);
  signal(SIGPIPE, SIG_IGN); /* it may end early; then its status says so */
  FILE *to = fdopen(fds[1], "w");
  if (to) {
    fwrite(data, 1, len, to);
    fclose(to);
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
  return status;
}

int svg_draw(const char *command, const char *svg, const char *data, size_t len)
{
  int status = draw_run(command, svg, data, len);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return complain(command, "python3, which draws, is not found: install it, or leave the picture out");
  if (status == -1 || !WIFEXITED(status)) return complain(command, "tutti-draw does not run to its end");
  return WEXITSTATUS(status) == 0; /* it has said why */
}
