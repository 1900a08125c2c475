/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of each rank of `tutti run`: the variables by which tuttiGetLaunch knows the job, and those of
 * torchrun, by which programs of PyTorch and others do. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run.h"

/* Ranks of one host meet over loopback, others at the host of rank 0, by the name that ssh has for it. */
static void master_name(struct job *job)
{
  const char *name = job->nhosts > 1 ? job->hosts[0].name : "127.0.0.1", *user = strchr(name, '@');
  if (user) name = user + 1;
  snprintf(job->master.host, sizeof job->master.host, "%s", name);
}

/* The socket stays open for as long as the job runs and listens to nobody: with SO_REUSEADDR the store of rank 0 may
 * take the port, and the kernel gives it to nobody else. Without a network there is no port, and nothing is set. */
void master_choose(struct job *job)
{
  struct sockaddr_in any = {.sin_family = AF_INET};
  socklen_t len = sizeof any;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  master_name(job);
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0 &&
      bind(fd, (struct sockaddr *)&any, len) == 0 && getsockname(fd, (struct sockaddr *)&any, &len) == 0)
    job->master.port = ntohs(any.sin_port);
  else close(fd);
}

/* A rank of `tutti run` may start another one on purpose. */
void environment_warn(const struct job *job)
{
  const char *size = getenv("WORLD_SIZE"), *rank = getenv("RANK");
  if (!size || !rank || atoi(size) < 2 || getenv("TUTTI_LAUNCH_FD")) return;
  fprintf(stderr,
          "tutti run: WORLD_SIZE=%s and RANK=%s of another launcher are left out: these %d ranks are a job of their "
          "own (to join that job, start the program without tutti run)\n", size, rank, job->total);
}

/* number: of the rank's restart; 0: it is the first process of its rank. */
static void restart_tell(const struct job *job, int number)
{
  char text[16];
  unsetenv("TUTTI_LAUNCH_RESTART"); /* of a job around this one */
  unsetenv("TUTTI_LAUNCH_JOINS");
  if (!job->restarts) return;
  snprintf(text, sizeof text, "%d", job->joins_fd);
  setenv("TUTTI_LAUNCH_JOINS", text, 1);
  snprintf(text, sizeof text, "%d", number);
  if (number) setenv("TUTTI_LAUNCH_RESTART", text, 1);
}

void environment_set(const struct job *job, int proc)
{
  const struct {
    const char *name;
    int value;
  } variables[] = {{"TUTTI_LAUNCH_FD", job->id_fd},
                   {"TUTTI_LAUNCH_NPROCS", job->total},
                   {"TUTTI_LAUNCH_PROC", job->first + proc},
                   {"TUTTI_LAUNCH_LOCAL_NPROCS", job->nprocs},
                   {"TUTTI_LAUNCH_LOCAL_PROC", proc},
                   {"WORLD_SIZE", job->total},
                   {"RANK", job->first + proc},
                   {"LOCAL_WORLD_SIZE", job->nprocs},
                   {"LOCAL_RANK", proc},
                   {"MASTER_PORT", job->master.port}};
  size_t n = sizeof variables / sizeof variables[0];
  for (size_t v = 0; v < (job->master.port ? n : n - 1); v++) {
    char text[16];
    snprintf(text, sizeof text, "%d", variables[v].value);
    setenv(variables[v].name, text, 1);
  }
  if (job->master.port) setenv("MASTER_ADDR", job->master.host, 1);
  restart_tell(job, job->children[proc].restart);
}
