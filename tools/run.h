/* SPDX-License-Identifier: BSD-3-Clause */
/* The job of `tutti run`: on this host (run.c), on several (hosts.c). */
#ifndef TUTTI_RUN_H
#define TUTTI_RUN_H

#include <time.h>

#include "command.h"

#define MAX_RANKS 4096
#define HOSTS_MOST 1024

/* A rank; or, of a job on several hosts, the ssh to one of these. */
struct child {
  pid_t pid;       /* 0: has ended */
  pid_t ended_pid; /* not 0: it has ended, and the start-up is to be told, once all of its output is read */
  pid_t untold_pid; /* not 0: it has failed, and the user is to be told */
  int status;      /* of waitpid */
  int restart;     /* number of its restart in the job; 0: it is the first of its rank */
  int in;          /* to the standard input of an ssh: signals; -1: none */
  struct output out, err;
};

struct host {
  const char *name;
  int ranks;
};

/* More than 25 fields: options, what is made for them, and how the job ends. */
struct job {
  int nprocs, first, total; /* ranks that are started here, the number of the first one, ranks of the job */
  int nhosts;               /* not 0: nothing is started here, but an ssh for each host */
  int is_part;              /* 1: another `tutti run` has started this one, and talks to it on standard input */
  struct host *hosts;
  char *host_list;      /* the names */
  const char *ssh, *tutti;
  int prefix, keep_going, bind, id_fd;
  int restarts, restarted, joins_fd; /* restarts that there may be, that there were; the descriptor of their ids */
  tuttiUniqueId *joins;
  int is_ending;    /* somebody outside ends the job */
  pid_t pid;        /* of the launcher */
  time_t began;
  struct {
    char host[256];
    int port; /* 0: there is none */
  } master; /* where the store of a program of PyTorch is */
  tuttiUniqueId id;
  long grace_ms;
  char **program;
  struct child *children;
  struct said said;
  int running, status;       /* status: of the first failure */
  struct {
    int untold;              /* ranks that failed after the first one, and were not told of yet */
    long first_ms, last_ms;  /* when the first and the last one failed; 0: none has */
  } failed;
  long killed_ms; /* when SIGTERM went out; 0: not yet */
};

/* The children: hosts or ranks. */
static inline int job_children(const struct job *job)
{
  return job->nhosts ? job->nhosts : job->nprocs;
}

/* ---- variables.c ---- */

/* Chooses job->master, once for the whole job. */
void master_choose(struct job *job);

/* Warns if another launcher has started this one as a rank of its job: the ranks started here are not of that. */
void environment_warn(const struct job *job);

/* In the child: its variables. */
void environment_set(const struct job *job, int proc);

/* ---- ends.c ---- */

/* Notes that a child has failed, and tells of it at once if it is a host, or the first rank. */
void failure_note(struct job *job, int p, pid_t pid);

/* Tells of the ranks that failed since. */
void failures_tell(struct job *job);

/* ---- traces.c ---- */

/* Merges the traces of the ranks, if they have written any (TUTTI_TIMELINE). */
void traces_merge(const struct job *job);

/* ---- hosts.c ---- */

/* Reads "HOST[:N],..." and spreads the ranks over these; `ranks` is that of -n, 0 if it was not given. 0: it is wrong,
 * as was said. */
int hosts_read(struct job *job, const char *list, int ranks);

/* In the child: becomes the command that starts `tutti run` on a host. Does not return. */
void host_become(const struct job *job, int host);

/* Tells that `tutti run`, on its standard input, what it needs: the key of the job is nowhere else. */
void host_tell(const struct job *job, int host, int fd);

/* In that `tutti run`: reads it. 0: it is not understood, as was said. */
int part_read(struct job *job);

/* A line of that `tutti run` about a rank that has ended, and its reading. 0: the line is none. */
void part_say(int proc, int pid, int status);
int part_heard(const char *line, size_t len, int *proc, int *pid, int *status);

#endif
