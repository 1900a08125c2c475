/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators made in every way, errors, memory and streams. */
#include "program.h"

#include <unistd.h>

/* The communicator of count ranks works. */
static void works(ncclComm_t comm, int wanted)
{
  int count = 0, rank = -1;
  OK(ncclCommCount(comm, &count));
  OK(ncclCommUserRank(comm, &rank));
  HOLDS(count == wanted);
  int64_t value = value_of(rank, 0);
  OK(ncclAllReduce(&value, &value, 1, ncclInt64, ncclSum, comm, NULL));
  HOLDS(value == sum_of(count, 0));
}

static void wait_for(ncclComm_t comm)
{
  ncclResult_t state = ncclInProgress;
  while (OK(ncclCommGetAsyncError(comm, &state)), state == ncclInProgress) usleep(500);
  OK(state);
}

static void split(const struct world *world)
{
  ncclComm_t half = NULL, none = world->comm;
  int color = world->rank % 2;
  OK(ncclCommSplit(world->comm, color, -world->rank, &half, NULL));
  works(half, (world->nranks + 1 - color) / 2);
  int rank = -1, above = (world->nranks - 1 - world->rank) / 2;
  OK(ncclCommUserRank(half, &rank));
  HOLDS(rank == above); /* the keys fall */
  OK(ncclCommDestroy(half));
  OK(ncclCommSplit(world->comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
  HOLDS(none == NULL);
}

/* A program may wait for the parent only. */
static void split_without_blocking(const struct world *world)
{
  ncclComm_t all = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  ncclResult_t result = ncclCommSplit(world->comm, 0, world->rank, &all, &config);
  HOLDS(result == ncclSuccess || result == ncclInProgress);
  wait_for(world->comm);
  works(all, world->nranks);
  OK(ncclCommDestroy(all));
}

static void shrink(const struct world *world)
{
  ncclComm_t fewer = NULL;
  int last = world->nranks - 1;
  if (last == 0 || world->rank == last) return;
  OK(ncclCommShrink(world->comm, &last, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT));
  works(fewer, last);
  OK(ncclCommDestroy(fewer));
}

/* The last rank leaves and joins again. */
static void grow(const struct world *world)
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)
  ncclComm_t comm = NULL, fewer = NULL, grown = NULL;
  int last = world->nranks - 1, is_new = world->rank == last;
  ncclUniqueId id = next_id(world);
  if (last == 0) return;
  OK(ncclCommInitRank(&comm, world->nranks, next_id(world), world->rank));
  if (!is_new) OK(ncclCommShrink(comm, &last, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT));
  OK(ncclCommGrow(fewer, world->nranks, is_new || world->rank == 0 ? &id : NULL, is_new ? last : -1, &grown, NULL));
  works(grown, world->nranks);
  OK(ncclCommDestroy(grown));
  if (fewer) OK(ncclCommDestroy(fewer));
  OK(ncclCommDestroy(comm));
#else
  (void)world;
#endif
}

static void revoke_and_go_on(const struct world *world)
{
  ncclComm_t comm = NULL, again = NULL;
  int x = 1;
  OK(ncclCommInitRank(&comm, world->nranks, next_id(world), world->rank));
  OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  wait_for(comm);
  WANT(ncclInvalidUsage, ncclBcast(&x, 1, ncclInt, 0, comm, NULL));
  OK(ncclCommShrink(comm, NULL, 0, &again, NULL, NCCL_SHRINK_DEFAULT));
  OK(ncclCommDestroy(comm));
  works(again, world->nranks);
  OK(ncclCommDestroy(again));
}

static void init_without_blocking(const struct world *world)
{
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.minCTAs = 1;
  config.maxCTAs = 4;
  config.commName = "a name of more than sixty-three bytes, as NCCL takes it without a word\n";
  config.netName = "Socket";
  ncclResult_t result = ncclCommInitRankConfig(&comm, world->nranks, next_id(world), world->rank, &config);
  HOLDS(result == ncclSuccess || result == ncclInProgress);
  wait_for(comm);
  works(comm, world->nranks);
  OK(ncclCommFinalize(comm));
  wait_for(comm);
  OK(ncclCommDestroy(comm));
}

/* The array may lie anywhere. */
static void init_with_several_ids(const struct world *world)
{
  char bytes[2 * sizeof(ncclUniqueId) + 1];
  ncclUniqueId first = next_id(world), second = next_id(world);
  ncclComm_t comm = NULL;
  memcpy(bytes + 1, &first, sizeof first);
  memcpy(bytes + 1 + sizeof first, &second, sizeof second);
  ncclUniqueId *ids = (ncclUniqueId *)(void *)(bytes + 1);
  int nids = world->nranks > 1 ? 2 : 1;
  OK(ncclCommInitRankScalable(&comm, world->nranks, world->rank, nids, ids, NULL));
  works(comm, world->nranks);
  works(world->comm, world->nranks); /* nobody is in comm any more: an abort would end it */
  OK(ncclCommAbort(comm));
  WANT(ncclInvalidArgument, ncclCommInitRankScalable(&comm, world->nranks, world->rank, 0, ids, NULL));
}

static void init_in_a_group(const struct world *world)
{
  ncclComm_t comm = NULL;
  ncclUniqueId id = next_id(world);
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&comm, world->nranks, id, world->rank));
  OK(ncclGroupEnd());
  works(comm, world->nranks);
  OK(ncclCommDestroy(comm));
}

/* Refused at once, on this rank alone, with a sentence; nothing is lost. */
static void errors(const struct world *world)
{
  float x = 1;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  WANT(ncclInvalidArgument, ncclBcast(&x, 1, ncclFloat, world->nranks, world->comm, NULL));
  HOLDS(strstr(ncclGetLastError(NULL), "root"));
  WANT(ncclInvalidArgument, ncclAllReduce(&x, &x, 1, ncclNumTypes, ncclSum, world->comm, NULL));
  HOLDS(strstr(ncclGetLastError(world->comm), "type is 12: it must be an ncclDataType_t from 0 to 11"));
  WANT(ncclInvalidArgument, ncclBcast(&x, 1, (ncclDataType_t)16, 0, world->comm, NULL)); /* one of tutti.h alone */
  HOLDS(strstr(ncclGetLastError(NULL), "type is 16"));
  for (int op = ncclNumOps; op < ncclNumOps + 3; op++) {
    WANT(ncclInvalidArgument, ncclAllReduce(&x, &x, 1, ncclInt32, (ncclRedOp_t)op, world->comm, NULL));
    HOLDS(strstr(ncclGetLastError(NULL), "it must be an ncclRedOp_t from 0 to 4, or one made by"));
  }
  config.magic = 1;
  WANT(ncclInvalidArgument, ncclCommSplit(world->comm, 0, 0, &comm, &config));
  HOLDS(strstr(ncclGetLastError(NULL), "NCCL_CONFIG_INITIALIZER"));
  WANT(ncclInvalidUsage, ncclGroupEnd());
  HOLDS(strstr(ncclGetLastError(NULL), "ncclGroupEnd without ncclGroupStart"));
  HOLDS(strstr(ncclGetErrorString(ncclSystemError), "unhandled system error") == ncclGetErrorString(ncclSystemError));
  OK(ncclCommDestroy(NULL));
  OK(ncclCommAbort(NULL));
  works(world->comm, world->nranks);
}

static void simulate(const struct world *world)
{
  float x = 1;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, world->comm, NULL));
  WANT(ncclInvalidUsage, ncclGroupSimulateEnd(&info));
  HOLDS(x == 1);
  works(world->comm, world->nranks);
}

static void memory_and_streams(const struct world *world)
{
  void *buffer = NULL, *handle = &buffer;
  ncclWindow_t window = (ncclWindow_t)(void *)&buffer;
  OK(ncclMemAlloc(&buffer, 4096));
  OK(ncclCommRegister(world->comm, buffer, 4096, &handle));
  OK(ncclCommWindowRegister(world->comm, buffer, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  int *x = buffer;
  *x = 1;
  cudaStream_t stream = (cudaStream_t)(uintptr_t)1; /* cudaStreamLegacy */
  OK(ncclAllReduce(x, x, 1, ncclInt, ncclSum, world->comm, stream));
  HOLDS(*x == world->nranks);
  OK(ncclCommWindowDeregister(world->comm, window));
  OK(ncclCommDeregister(world->comm, handle));
  OK(ncclMemFree(buffer));
}

void try_life(const struct world *world)
{
  split(world);
  split_without_blocking(world);
  shrink(world);
  grow(world);
  revoke_and_go_on(world);
  init_without_blocking(world);
  init_with_several_ids(world);
  init_in_a_group(world);
  errors(world);
  simulate(world);
  memory_and_streams(world);
}
