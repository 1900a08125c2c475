/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells of the ranks of `tutti run` that failed: of the first one at once, since the others mostly fail because of it,
 * and of these in a line for each kind of end, once no more have come for a moment. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

/* How it ended, and the end of the line. */
static void end_print(const char *was, int status)
{
  if (WIFSIGNALED(status))
    fprintf(stderr, " %s killed by signal %d (%s)\n", was, WTERMSIG(status), strsignal(WTERMSIG(status)));
  else fprintf(stderr, " ended with status %d\n", WEXITSTATUS(status));
}

static const char *host_here(void)
{
  static char host[256];
  if (!host[0]) gethostname(host, sizeof host - 1);
  return host;
}

static void rank_tell(struct job *job, int p)
{
  struct child *child = &job->children[p];
  fprintf(stderr, "tutti run: rank %d (pid %d on %s)", job->first + p, (int)child->untold_pid, host_here());
  end_print("was", child->status);
  child->untold_pid = 0;
}

/* The ranks of a host have told of themselves; ssh itself fails with 255. */
static void host_tell_end(const struct job *job, int p)
{
  int status = job->children[p].status, code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 255)
    fprintf(stderr, "tutti run: host %s cannot be reached, or the connection is lost\n", job->hosts[p].name);
  else
    fprintf(stderr, "tutti run: the ranks of host %s ended with status %d%s\n", job->hosts[p].name, code,
            code == 127 ? ": the program is not there, or `tutti` (--tutti PATH)" : "");
}

void failure_note(struct job *job, int p, pid_t pid)
{
  job->children[p].untold_pid = pid;
  if (job->nhosts) host_tell_end(job, p);
  else if (!job->status) rank_tell(job, p);
  else job->failed.untold++;
}

/* The next rank from p on that is untold and ended with this status; nprocs: there is none. */
static int alike_find(const struct job *job, int p, int status)
{
  while (p < job->nprocs && (!job->children[p].untold_pid || job->children[p].status != status)) p++;
  return p;
}

/* "ranks 0, 2 to 5, 7 on HOST ...": all that ended as rank p did. */
static void alike_tell(struct job *job, int p)
{
  int status = job->children[p].status, end;
  fprintf(stderr, "tutti run: ranks ");
  for (const char *comma = ""; p < job->nprocs; p = alike_find(job, end, status), comma = ", ") {
    for (end = p; alike_find(job, end, status) == end && end < job->nprocs; end++) job->children[end].untold_pid = 0;
    fprintf(stderr, "%s%d", comma, job->first + p);
    if (end - p > 1) fprintf(stderr, end - p > 2 ? " to %d" : ", %d", job->first + end - 1);
  }
  fprintf(stderr, " on %s", host_here());
  end_print("were", status);
}

void failures_tell(struct job *job)
{
  for (int p = 0; job->failed.untold && p < job->nprocs; p++) {
    if (!job->children[p].untold_pid) continue;
    if (alike_find(job, p + 1, job->children[p].status) < job->nprocs) alike_tell(job, p);
    else rank_tell(job, p);
  }
  job->failed.untold = 0;
}
