/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti draw`, and pictures of other commands: a script draws what they print as data. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

static const char *const help =
    "usage: tutti draw [-o SVG] < DATA\n\n"
    "Draws as SVG the output of `tutti schedule --data` and `tutti plan --data`, a profile, or a trace of\n"
    "TUTTI_TIMELINE. `tutti schedule --svg`, `plan --svg` and `profile show --plot` do both steps at once.\n"
    "A picture has colours for light and dark pages.\n"
    "  -o, --output SVG      the picture (default: standard output)\n"
    "  -h, --help            this text\n";

static int complain(const char *command, const char *what)
{
  fprintf(stderr, "tutti %s: %s\n", command, what);
  return 0;
}

/* Returns only if it cannot: errno says why. */
static void become_draw(const char *command, const char *svg)
{
  char name[32];
  const char *const words[] = {"--name", name, "--output", svg};
  snprintf(name, sizeof name, "tutti %s", command);
  script_become("draw", words, svg ? 4 : 2);
}

static int lacks_python(const char *command)
{
  return complain(command, "python3, which draws, is not found: install it, or leave the picture out");
}

/* Its status as of waitpid; -1: it was not started. */
static int draw_run(const char *command, const char *svg, const char *data, size_t len)
{
  int fds[2], status = -1;
  if (pipe2(fds, O_CLOEXEC) != 0) return -1;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    if (dup2(fds[0], STDIN_FILENO) == STDIN_FILENO) become_draw(command, svg);
    _exit(errno == ENOENT ? 127 : 126);
  }
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
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return lacks_python(command);
  if (status == -1 || !WIFEXITED(status)) return complain(command, "what draws does not run to its end");
  return WEXITSTATUS(status) == 0; /* it has said why */
}

int command_draw(int argc, char **argv)
{
  static const struct option options[] = {
      {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {0}};
  const char *svg = NULL;
  int option;
  optind = 1;
  while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
    if (option == 'h') return fputs(help, stdout) < 0;
    if (option != 'o') return usage_point("draw");
    svg = optarg;
  }
  if (optind < argc) {
    fprintf(stderr, "tutti draw: the data come on standard input: tutti draw -o SVG < %s\n", argv[optind]);
    return 2;
  }
  if (isatty(STDIN_FILENO)) {
    fprintf(stderr, "tutti draw: the data come on standard input, and that is a terminal: tutti draw -o SVG < FILE\n");
    return 2;
  }
  become_draw("draw", svg);
  if (errno == ENOENT) return !lacks_python("draw");
  return !complain("draw", strerror(errno));
}
