/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank dies, is started again, and joins the others: `tutti run -n 3 --restart 1 -- ./restart`. */
#include "say.h"

#include <signal.h>

#define STEPS 6
#define RANKS_MOST 1024

/* The state that all ranks go on from. Rank 0, which was there before, gives it. */
struct state {
  int step, sum;
};

static void state_share(struct state *state, tuttiComm_t comm)
{
  must(tuttiBcast(state, sizeof *state, tuttiUint8, 0, comm, NULL), "tuttiBcast");
}

/* The communicator of those that are left; they go on from the lowest step that one of them is at. */
static tuttiComm_t shrink(tuttiComm_t comm, struct state *state)
{
  int failed[RANKS_MOST], n, tries = 0;
  tuttiComm_t left;
  tuttiResult_t result;
  do { /* again if one more dies, or if not all know of the same deaths yet */
    n = RANKS_MOST;
    must(tuttiCommGetFailed(comm, failed, &n), "tuttiCommGetFailed");
    result = tuttiCommShrink(comm, failed, n, &left, NULL, TUTTI_SHRINK_ABORT);
  } while (result != tuttiSuccess && ++tries < 10);
  must(result, "tuttiCommShrink");
  tuttiCommDestroy(comm);
  must(tuttiAllReduce(&state->step, &state->step, 1, tuttiInt32, tuttiMin, left, NULL), "tuttiAllReduce");
  return left;
}

/* Takes in restarted processes until the job is whole again, or there are no more restarts. */
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

int main(void)
{
  struct state state = {0, 0};
  int n = 0, is_new = getenv("TUTTI_LAUNCH_RESTART") != NULL;
  tuttiLaunch_t job;
  tuttiComm_t comm;
  must(tuttiGetLaunch(&job), "tuttiGetLaunch");
  if (is_new) must(tuttiLaunchGrow(NULL, &comm, NULL), "tuttiLaunchGrow");
  else must(tuttiCommInitRank(&comm, job.nprocs, job.id, job.proc), "tuttiCommInitRank");
  if (is_new) {
    comm = grow(comm, job.nprocs);
    state_share(&state, comm);
  }
  while (state.step < STEPS) {
    if (state.step == 3 && job.proc == job.nprocs - 1 && !is_new) raise(SIGKILL);
    tuttiResult_t result = tuttiAllReduce(&state.step, &state.sum, 1, tuttiInt32, tuttiSum, comm, NULL);
    if (result == tuttiSuccess) {
      state.step++;
      continue;
    }
    printf("process %d, step %d: %s\n", job.proc, state.step, tuttiGetLastError(comm));
    comm = grow(shrink(comm, &state), job.nprocs);
    state_share(&state, comm);
  }
  must(tuttiCommCount(comm, &n), "tuttiCommCount");
  printf("process %d%s: %d ranks have done %d steps, the sum of the last is %d\n", job.proc,
         is_new ? ", restarted" : "", n, state.step, state.sum);
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
