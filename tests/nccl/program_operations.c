/* SPDX-License-Identifier: BSD-3-Clause */
/* Every operation, out of place and in place, against values computed here. */
#include "program.h"

static int64_t in[RANKS_MAX * COUNT], out[RANKS_MAX * COUNT];

#define UNTOUCHED (-77)

/* in: this rank's values; out: nothing that a result could be. */
static void fill(const struct world *world)
{
  for (size_t i = 0; i < RANKS_MAX * COUNT; i++) {
    in[i] = value_of(world->rank, i);
    out[i] = UNTOUCHED;
  }
}

static void all_reduce(const struct world *world)
{
  fill(world);
  OK(ncclAllReduce(in, out, COUNT, ncclInt64, ncclSum, world->comm, NULL));
  for (size_t i = 0; i < COUNT; i++) HOLDS(out[i] == sum_of(world->nranks, i) && in[i] == value_of(world->rank, i));
  OK(ncclAllReduce(in, in, COUNT, ncclInt64, ncclMax, world->comm, NULL));
  for (size_t i = 0; i < COUNT; i++) HOLDS(in[i] == value_of(world->nranks - 1, i));
  fill(world);
  OK(ncclAllReduce(in, in, COUNT, ncclInt64, ncclMin, world->comm, NULL));
  for (size_t i = 0; i < COUNT; i++) HOLDS(in[i] == value_of(0, i));
  fill(world);
  OK(ncclAllReduce(in, out, COUNT, ncclInt64, ncclAvg, world->comm, NULL));
  for (size_t i = 0; i < COUNT; i++) HOLDS(out[i] == sum_of(world->nranks, i) / world->nranks);
  float two[3] = {2, 2, 2}, product[3];
  OK(ncclAllReduce(two, product, 3, ncclFloat, ncclProd, world->comm, NULL));
  HOLDS(product[0] == (float)(1 << world->nranks) && product[2] == product[0]);
}

/* Nobody but root's receive buffer is written; it may be missing elsewhere. */
static void reduce(const struct world *world)
{
  for (int root = 0; root < world->nranks; root++) {
    fill(world);
    OK(ncclReduce(in, out, COUNT, ncclInt64, ncclSum, root, world->comm, NULL));
    for (size_t i = 0; i < COUNT; i++)
      HOLDS(out[i] == (world->rank == root ? sum_of(world->nranks, i) : UNTOUCHED));
    OK(ncclReduce(in, world->rank == root ? in : NULL, COUNT, ncclInt64, ncclSum, root, world->comm, NULL));
    for (size_t i = 0; i < COUNT; i++)
      HOLDS(in[i] == (world->rank == root ? sum_of(world->nranks, i) : value_of(world->rank, i)));
  }
}

static void reduce_scatter(const struct world *world)
{
  size_t mine = (size_t)world->rank * COUNT;
  fill(world);
  OK(ncclReduceScatter(in, out, COUNT, ncclInt64, ncclSum, world->comm, NULL));
  for (size_t i = 0; i < COUNT; i++) HOLDS(out[i] == sum_of(world->nranks, mine + i) && out[COUNT] == UNTOUCHED);
  OK(ncclReduceScatter(in, in + mine, COUNT, ncclInt64, ncclSum, world->comm, NULL));
  for (size_t i = 0; i < COUNT; i++) HOLDS(in[mine + i] == sum_of(world->nranks, mine + i));
}

/* Each rank multiplies by its own number, rank + 1. */
static void pre_multiplied_sum(const struct world *world)
{
  float values[COUNT], sum = 0, scalar = (float)(world->rank + 1);
  ncclRedOp_t op = ncclSum;
  for (size_t i = 0; i < COUNT; i++) values[i] = (float)(i % 100);
  for (int r = 0; r < world->nranks; r++) sum += (float)(r + 1);
  OK(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, world->comm));
  HOLDS((int)op >= (int)ncclNumOps);
  scalar = 1e9f; /* it was read */
  OK(ncclGroupStart());
  OK(ncclAllReduce(values, values, COUNT, ncclFloat, op, world->comm, NULL));
  OK(ncclRedOpDestroy(op, world->comm)); /* as nccl-tests does: before the group's end */
  OK(ncclGroupEnd());
  for (size_t i = 0; i < COUNT; i++) HOLDS(values[i] == (float)(i % 100) * sum);
  WANT(ncclInvalidArgument, ncclRedOpDestroy(op, world->comm));
}

void try_reductions(const struct world *world)
{
  all_reduce(world);
  reduce(world);
  reduce_scatter(world);
  pre_multiplied_sum(world);
}

static void broadcast(const struct world *world)
{
  for (int root = 0; root < world->nranks; root++) {
    fill(world);
    OK(ncclBroadcast(world->rank == root ? in : NULL, out, COUNT, ncclInt64, root, world->comm, NULL));
    for (size_t i = 0; i < COUNT; i++) HOLDS(out[i] == value_of(root, i));
    OK(ncclBcast(in, COUNT, ncclInt64, root, world->comm, NULL));
    for (size_t i = 0; i < COUNT; i++) HOLDS(in[i] == value_of(root, i));
  }
}

static void all_gather(const struct world *world)
{
  size_t mine = (size_t)world->rank * COUNT;
  fill(world);
  OK(ncclAllGather(in, out, COUNT, ncclInt64, world->comm, NULL));
  for (int r = 0; r < world->nranks; r++)
    for (size_t i = 0; i < COUNT; i++) HOLDS(out[(size_t)r * COUNT + i] == value_of(r, i));
  OK(ncclAllGather(in + mine, in, COUNT, ncclInt64, world->comm, NULL));
  for (int r = 0; r < world->nranks; r++)
    for (size_t i = 0; i < COUNT; i++)
      HOLDS(in[(size_t)r * COUNT + i] == value_of(r, (size_t)r * COUNT + i));
}

static void all_to_all(const struct world *world)
{
  size_t mine = (size_t)world->rank * COUNT;
  fill(world);
  OK(ncclAlltoAll(in, out, COUNT, ncclInt64, world->comm, NULL));
  for (int r = 0; r < world->nranks; r++)
    for (size_t i = 0; i < COUNT; i++) HOLDS(out[(size_t)r * COUNT + i] == value_of(r, mine + i));
}

static void gather_and_scatter(const struct world *world)
{
  size_t mine = (size_t)world->rank * COUNT;
  for (int root = 0; root < world->nranks; root++) {
    fill(world);
    OK(ncclGather(in, world->rank == root ? out : NULL, COUNT, ncclInt64, root, world->comm, NULL));
    for (int r = 0; r < world->nranks; r++)
      for (size_t i = 0; i < COUNT; i++)
        HOLDS(out[(size_t)r * COUNT + i] == (world->rank == root ? value_of(r, i) : UNTOUCHED));
    fill(world);
    OK(ncclScatter(world->rank == root ? in : NULL, out, COUNT, ncclInt64, root, world->comm, NULL));
    for (size_t i = 0; i < COUNT; i++) HOLDS(out[i] == value_of(root, mine + i) && out[COUNT] == UNTOUCHED);
  }
}

void try_moves(const struct world *world)
{
  broadcast(world);
  all_gather(world);
  all_to_all(world);
  gather_and_scatter(world);
}

/* One to the right, the other from the left; with one rank, to itself. */
static void ring(const struct world *world)
{
  int right = (world->rank + 1) % world->nranks, left = (world->rank + world->nranks - 1) % world->nranks;
  fill(world);
  OK(ncclGroupStart());
  OK(ncclSend(in, COUNT, ncclInt64, right, world->comm, NULL));
  OK(ncclRecv(out, COUNT, ncclInt64, left, world->comm, NULL));
  OK(ncclSend(in, 0, ncclInt64, right, world->comm, NULL));
  OK(ncclRecv(out, 0, ncclInt64, left, world->comm, NULL));
  OK(ncclGroupEnd());
  for (size_t i = 0; i < COUNT; i++) HOLDS(out[i] == value_of(left, i) && out[COUNT] == UNTOUCHED);
}

static void one_way(const struct world *world)
{
  fill(world);
  if (world->rank == 0) OK(ncclSend(in, COUNT, ncclInt64, 1, world->comm, NULL));
  if (world->rank == 1) OK(ncclRecv(out, COUNT, ncclInt64, 0, world->comm, NULL));
  for (size_t i = 0; i < COUNT; i++) HOLDS(out[i] == (world->rank == 1 ? value_of(0, i) : UNTOUCHED));
}

/* As vLLM gathers shares of different lengths, and reduces them into one buffer on every rank. */
static void shares_of_different_lengths(const struct world *world)
{
  size_t at = 0;
  fill(world);
  OK(ncclGroupStart());
  for (int root = 0; root < world->nranks; at += (size_t)root + 3, root++)
    OK(ncclBroadcast(in, out + at, (size_t)root + 3, ncclInt64, root, world->comm, NULL));
  OK(ncclGroupEnd());
  at = 0;
  for (int root = 0; root < world->nranks; at += (size_t)root + 3, root++)
    for (size_t i = 0; i < (size_t)root + 3; i++) HOLDS(out[at + i] == value_of(root, i));
  fill(world);
  OK(ncclGroupStart());
  at = 0;
  for (int root = 0; root < world->nranks; at += (size_t)root + 3, root++)
    OK(ncclReduce(in + at, out, (size_t)root + 3, ncclInt64, ncclSum, root, world->comm, NULL));
  OK(ncclGroupEnd());
  at = 0;
  for (int root = 0; root < world->rank; root++) at += (size_t)root + 3;
  for (size_t i = 0; i < (size_t)world->rank + 3; i++) HOLDS(out[i] == sum_of(world->nranks, at + i));
  HOLDS(out[world->rank + 3] == UNTOUCHED);
}

void try_messages(const struct world *world)
{
  ring(world);
  if (world->nranks > 1) one_way(world);
  shares_of_different_lengths(world);
}
