/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of a training loop dies, is started again, and joins the others: `tutti run -n 4 --restart 1 -- ./restart`. */
#include "say.h"

#include <signal.h>
#include <tutti_fusion.h>

#define COUNT 1000
#define STEPS 6

static float weights[2][COUNT]; /* those after an even and after an odd number of steps: a step can be taken back */
static float gradient[COUNT];   /* of this rank, then the average of all */

static void learn(uint64_t step)
{
  for (int i = 0; i < COUNT; i++) weights[(step + 1) % 2][i] = weights[step % 2][i] - 0.5f * gradient[i];
}

/* Joins restarted processes until the job is whole again, or there are no more restarts. */
static tuttiComm_t grow(tuttiComm_t comm, int nprocs)
{
  tuttiComm_t grown;
  int n;
  for (must(tuttiCommCount(comm, &n), "tuttiCommCount"); n < nprocs; n++) {
    if (tuttiLaunchGrow(comm, &grown, NULL) != tuttiSuccess) break;
    tuttiCommDestroy(comm);
    comm = grown;
  }
  return comm;
}

/* Makes the fusion, or moves it from another communicator. Returns the steps that all ranks have done; rank 0, which
 * has done them, gives the weights. */
static uint64_t begin(tuttiFusion_t *fusion, tuttiComm_t comm, uint64_t step)
{
  const tuttiFusionTensor_t tensor = {"weights", COUNT, tuttiFloat32};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusionInfo_t info = {.size = sizeof info};
  config.op = tuttiAvg;
  if (*fusion) must(tuttiFusionMove(fusion, comm), "tuttiFusionMove");
  else must(tuttiFusionCreate(fusion, comm, &tensor, 1, &config), "tuttiFusionCreate");
  must(tuttiFusionGetInfo(*fusion, &info), "tuttiFusionGetInfo");
  if (info.steps == step + 1) learn(step); /* the average came, but the wait for it failed */
  must(tuttiBcast(weights[info.steps % 2], COUNT, tuttiFloat32, 0, comm, NULL), "tuttiBcast");
  return info.steps;
}

int main(void)
{
  int n, is_new = getenv("TUTTI_LAUNCH_RESTART") != NULL;
  tuttiLaunch_t job;
  tuttiComm_t comm;
  tuttiFusion_t fusion = NULL;
  must(tuttiGetLaunch(&job), "tuttiGetLaunch");
  if (is_new) must(tuttiLaunchGrow(NULL, &comm, NULL), "tuttiLaunchGrow");
  else must(tuttiCommInitRank(&comm, job.nprocs, job.id, job.proc), "tuttiCommInitRank");
  if (is_new) comm = grow(comm, job.nprocs);
  for (uint64_t step = begin(&fusion, comm, 0); step < STEPS;) {
    if (step == 3 && job.proc == job.nprocs - 1 && !is_new) raise(SIGKILL);
    for (int i = 0; i < COUNT; i++) gradient[i] = weights[step % 2][i] - (float)job.proc;
    tuttiResult_t result = tuttiFusionPush(fusion, 0, gradient, gradient, COUNT, tuttiFloat32, NULL);
    if (result == tuttiSuccess) result = tuttiFusionWaitAll(fusion);
    if (result == tuttiSuccess) {
      learn(step++);
      continue;
    }
    printf("process %d, step %d: %s\n", job.proc, (int)step, tuttiGetLastError(comm));
    tuttiComm_t whole = grow(survivors(comm), job.nprocs);
    step = begin(&fusion, whole, step);
    tuttiCommDestroy(comm); /* returns its first error, which is known */
    comm = whole;
  }
  must(tuttiCommCount(comm, &n), "tuttiCommCount");
  printf("process %d%s: %d ranks, weights %g after %d steps\n", job.proc, is_new ? ", restarted" : "", n,
         (double)weights[STEPS % 2][0], STEPS);
  must(tuttiFusionDestroy(fusion), "tuttiFusionDestroy");
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
