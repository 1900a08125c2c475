/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's part: between the word that says that the slot is full and the word that says that the result is there. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fake_nccl.h"
#include "gpu_values.h"

static uint32_t word(const uint32_t *at)
{
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* 1 if a peer's process is gone. */
static int is_alone(struct ncclComm *comm)
{
  struct pollfd fds[RANKS];
  for (int r = 0; r < comm->nranks; r++) fds[r] = (struct pollfd){comm->pidfds[r], POLLIN, 0};
  return poll(fds, (nfds_t)comm->nranks, 0) > 0;
}

/* Waits for all ranks' counters; 0 if that will not be. */
static int all_have(struct ncclComm *comm, const uint32_t *counters, uint32_t number)
{
  for (int tries = 0, r = 0; r < comm->nranks; tries++) {
    if ((int32_t)(word(&counters[r]) - number) >= 0) {
      r++;
      continue;
    }
    if (__atomic_load_n(&comm->aborts, __ATOMIC_ACQUIRE)) return 0;
    if (tries > 50) usleep(50);
    if (tries % 64 == 63 && is_alone(comm)) {
      __atomic_store_n(&comm->error, ncclRemoteError, __ATOMIC_RELEASE);
      return 0;
    }
  }
  return 1;
}

static unsigned element(const struct ncclComm *comm, const struct op *op, int rank, size_t i)
{
  const unsigned char *in = comm->in[rank];
  unsigned value = value_get(in + i * value_size(op->type), op->type);
  return op->is_scaled ? value * value_get(in + SCALAR_AT, op->type) : value;
}

static void reduce(const struct ncclComm *comm, const struct op *op, size_t from)
{
  size_t size = value_size(op->type);
  for (size_t i = 0; i < op->count; i++) {
    unsigned all = element(comm, op, 0, from + i);
    for (int r = 1; r < comm->nranks; r++) {
      unsigned one = element(comm, op, r, from + i);
      if (op->op == ncclProd) all *= one;
      else if (op->op == ncclMax) all = one > all ? one : all;
      else if (op->op == ncclMin) all = one < all ? one : all;
      else all += one;
    }
    value_put(comm->out + i * size, op->type, op->op == ncclAvg ? all / (unsigned)comm->nranks : all);
  }
}

static void gather(const struct ncclComm *comm, const struct op *op, size_t from)
{
  size_t len = op->count * value_size(op->type);
  for (int r = 0; r < comm->nranks; r++) memcpy(comm->out + (size_t)r * len, comm->in[r] + from, len);
}

/* Messages of one peer lie one behind the other, in the order of the calls. */
static void receive(const struct ncclComm *comm, const struct op *op)
{
  size_t at[RANKS];
  for (int r = 0; r < comm->nranks; r++) at[r] = comm->shared->messages[r][comm->rank];
  for (int u = 0; u < op->nups; u++) {
    const struct part *up = &op->ups[u];
    memcpy(comm->out + up->at, comm->in[up->peer] + at[up->peer], up->len);
    at[up->peer] += up->len;
  }
}

static void result_make(const struct ncclComm *comm, const struct op *op)
{
  size_t len = op->count * value_size(op->type), mine = (size_t)comm->rank * len;
  switch (op->kind) {
  case ALL_REDUCE: case REDUCE: reduce(comm, op, 0); break;
  case REDUCE_SCATTER: reduce(comm, op, (size_t)comm->rank * op->count); break;
  case BROADCAST: memcpy(comm->out, comm->in[op->root], len); break;
  case SCATTER: memcpy(comm->out, comm->in[op->root] + mine, len); break;
  case ALL_GATHER: case GATHER: gather(comm, op, 0); break;
  case ALL_TO_ALL: gather(comm, op, mine); break;
  default: receive(comm, op); break;
  }
}

/* FAKE_NCCL_BREAK, to see the client fail: sum: one byte of the tenth result is wrong. */
static void spoil(const struct ncclComm *comm)
{
  const char *what = getenv("FAKE_NCCL_BREAK");
  if (what && strcmp(what, "sum") == 0 && comm->ran == 10) comm->out[0] ^= 1;
}

static int op_run(struct ncclComm *comm, const struct op *op)
{
  uint32_t number = ++comm->ran;
  for (int d = op->ndowns - 1; op->kind == MESSAGES && d >= 0; d--)
    comm->shared->messages[comm->rank][op->downs[d].peer] = op->downs[d].at;
  __atomic_store_n(&comm->shared->arrived[comm->rank], number, __ATOMIC_SEQ_CST);
  if (!all_have(comm, comm->shared->arrived, number)) return 0;
  result_make(comm, op);
  spoil(comm);
  __atomic_store_n(&comm->shared->left[comm->rank], number, __ATOMIC_SEQ_CST);
  return all_have(comm, comm->shared->left, number);
}

/* One op, live or of a graph, if the GPU is ready for it: 1; 0: none; -1: it failed. */
static int step(struct ncclComm *comm)
{
  struct words *words = comm->words;
  uint32_t next = comm->started + 1, id = word(&words->graph_ready);
  if ((int32_t)(word(&words->ready) - next) >= 0) {
    __atomic_store_n(&comm->started, next, __ATOMIC_RELEASE);
    if (!op_run(comm, comm->ops[next % RING])) return -1;
    __atomic_store_n(&words->done, next, __ATOMIC_SEQ_CST);
    return 1;
  }
  if (!id) return 0;
  __atomic_store_n(&words->graph_ready, 0, __ATOMIC_SEQ_CST);
  if (!op_run(comm, comm->captured[id])) return -1;
  __atomic_store_n(&words->graph_done, id, __ATOMIC_SEQ_CST);
  return 1;
}

void *host_main(void *argument)
{
  struct ncclComm *comm = argument;
  prctl(PR_SET_NAME, "fake-nccl");
  for (int idle = 0, did = 0; did >= 0 && !__atomic_load_n(&comm->aborts, __ATOMIC_ACQUIRE);) {
    did = step(comm);
    idle = did ? 0 : idle + 1;
    if (idle > 50) usleep(50);
  }
  __atomic_store_n(&comm->is_over, 1, __ATOMIC_RELEASE);
  return NULL;
}
