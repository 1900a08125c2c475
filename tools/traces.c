/* SPDX-License-Identifier: BSD-3-Clause */
/* The traces of the ranks of `tutti run` (TUTTI_TIMELINE=step.json: step.0.json, ...) as one, step.json. */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

#define MERGED_MOST (256ll << 20) /* bytes that are merged, in some seconds; for more there is the command */

/* Is what stands between the two halves of the name a rank? */
static int is_rank(const char *at, const char *end)
{
  if (at == end) return 0;
  while (at < end && *at >= '0' && *at <= '9') at++;
  return at == end;
}

/* Keeps the traces of this job in words, which has room for all that were found: their number. */
static int traces_take(const struct job *job, const glob_t *found, size_t head, size_t tail, const char **words,
                       long long *bytes)
{
  int n = 0;
  for (size_t i = 0; i < found->gl_pathc; i++) {
    const char *path = found->gl_pathv[i];
    struct stat stat_;
    if (!is_rank(path + head, path + strlen(path) - tail) || stat(path, &stat_) != 0) continue;
    if (!S_ISREG(stat_.st_mode) || stat_.st_mtime < job->began) continue;
    *bytes += stat_.st_size;
    words[n++] = path;
  }
  return n;
}

/* The exit status of `tutti timeline merge`, which has said what is wrong. */
static int merge(const char *const *words, int n)
{
  int status = 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    script_become("timeline", words, n);
    fprintf(stderr, "tutti run: the traces are not merged: %s\n", script_lacks(errno));
    _exit(1);
  }
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void traces_merge(const struct job *job)
{
  const char *file = getenv("TUTTI_TIMELINE");
  if (!file || !*file || strchr(file, '%') || strlen(file) > PATH_MAX - 16 || job->nhosts || job->is_part) return;
  const char *slash = strrchr(file, '/'), *dot = strrchr(file, '.');
  int has_suffix = dot && dot > (slash ? slash + 1 : file);
  size_t head = has_suffix ? (size_t)(dot - file) : strlen(file), tail = strlen(file) - head;
  char pattern[PATH_MAX];
  snprintf(pattern, sizeof pattern, "%.*s.*%s", (int)head, file, file + head);
  glob_t found;
  if (glob(pattern, 0, NULL, &found) != 0) return;
  const char **words = calloc(found.gl_pathc + 3, sizeof *words);
  long long bytes = 0;
  int n = words ? traces_take(job, &found, head + 1, tail, words + 3, &bytes) : 0;
  if (n > 1 && (bytes > MERGED_MOST || n + 3 > SCRIPT_WORDS)) {
    fprintf(stderr, "tutti run: %d traces of %lld MiB are there: tutti timeline merge -o %s %s\n", n, bytes >> 20, file,
            pattern);
  } else if (n > 1) {
    words[0] = "merge";
    words[1] = "-o";
    words[2] = file;
    if (merge(words, n + 3) == 0)
      fprintf(stderr, "tutti run: %s has the traces of %d processes: open it in ui.perfetto.dev, or tutti draw < %s\n",
              file, n, file);
  }
  free(words);
  globfree(&found);
}
