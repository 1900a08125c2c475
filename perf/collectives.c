/* SPDX-License-Identifier: BSD-3-Clause */
/* The differences between the programs. To add one: a row here, its name in CMakeLists.txt. */
#include <string.h>

#include "perf.h"
#include "tutti_counts.h"

static tuttiResult_t all_reduce(const struct call *c)
{
  return tuttiAllReduce(c->in, c->out, c->count, c->type, c->op, c->comm, c->stream);
}

static tuttiResult_t reduce(const struct call *c)
{
  return tuttiReduce(c->in, c->out, c->count, c->type, c->op, c->root, c->comm, c->stream);
}

static tuttiResult_t broadcast(const struct call *c)
{
  return tuttiBroadcast(c->in, c->out, c->count, c->type, c->root, c->comm, c->stream);
}

static tuttiResult_t reduce_scatter(const struct call *c)
{
  if (c->counts[0])
    return tuttiReduceScatterV(c->in, c->out, c->counts[0], NULL, c->type, c->op, c->comm, c->stream);
  return tuttiReduceScatter(c->in, c->out, c->count, c->type, c->op, c->comm, c->stream);
}

static tuttiResult_t all_gather(const struct call *c)
{
  if (c->counts[1])
    return tuttiAllGatherV(c->in, c->counts[1][c->rank], c->out, c->counts[1], NULL, c->type, c->comm, c->stream);
  return tuttiAllGather(c->in, c->out, c->count, c->type, c->comm, c->stream);
}

static tuttiResult_t all_to_all(const struct call *c)
{
  if (c->counts[0])
    return tuttiAlltoAllV(c->in, c->counts[0], NULL, c->out, c->counts[1], NULL, c->type, c->comm, c->stream);
  return tuttiAlltoAll(c->in, c->out, c->count, c->type, c->comm, c->stream);
}

static tuttiResult_t gather(const struct call *c)
{
  return tuttiGather(c->in, c->out, c->count, c->type, c->root, c->comm, c->stream);
}

static tuttiResult_t scatter(const struct call *c)
{
  return tuttiScatter(c->in, c->out, c->count, c->type, c->root, c->comm, c->stream);
}

/* `count` elements to one rank, and as many from another one, at once. */
static tuttiResult_t exchange(const struct call *c, const void *in, void *out, size_t count, int to, int from)
{
  tuttiResult_t result = tuttiGroupStart(), ended;
  if (result != tuttiSuccess) return result;
  result = tuttiSend(in, count, c->type, to, c->comm, c->stream);
  if (result == tuttiSuccess) result = tuttiRecv(out, count, c->type, from, c->comm, c->stream);
  ended = tuttiGroupEnd();
  return result != tuttiSuccess ? result : ended;
}

/* Round a ring: to the next rank, from the one before. */
static tuttiResult_t send_receive(const struct call *c)
{
  return exchange(c, c->in, c->out, c->count, (c->rank + 1) % c->nranks, (c->rank + c->nranks - 1) % c->nranks);
}

/* An all-gather in the steps of nccl-tests' hypercube_perf: what a rank has doubles with each dimension of the cube, by
 * an exchange with the rank on its other side. */
static tuttiResult_t hypercube(const struct call *c)
{
  size_t share = c->count * type_sizes[c->type];
  char *all = c->out, *own = all + (size_t)c->rank * share;
  tuttiResult_t result = tuttiSuccess;
  if (c->in != own) result = exchange(c, c->in, own, c->count, c->rank, c->rank);
  for (int side = 1; side < c->nranks && result == tuttiSuccess; side *= 2) {
    size_t had = (size_t)(c->rank / side * side), got = had ^ (size_t)side;
    result = exchange(c, all + had * share, all + got * share, c->count * (size_t)side, c->rank ^ side, c->rank ^ side);
  }
  return result;
}

static const struct collective collectives[] = {
    {.program = "allreduce_perf", .title = "all-reduce", .algo_name = "all_reduce", .call = all_reduce,
     .source = ALL_RANKS, .bus_share = 2},
    {.program = "reduce_perf", .title = "reduce", .algo_name = "reduce", .call = reduce,
     .out = ROOT_ONLY, .source = ALL_RANKS},
    {.program = "broadcast_perf", .title = "broadcast", .algo_name = "broadcast", .call = broadcast,
     .in = ROOT_ONLY, .source = ROOT},
    {.program = "reduce_scatter_perf", .title = "reduce-scatter", .algo_name = "reduce_scatter", .call = reduce_scatter,
     .in = PER_RANK, .source = ALL_RANKS, .bus_share = 1, .takes_counts = 1},
    {.program = "all_gather_perf", .title = "all-gather", .algo_name = "all_gather", .call = all_gather,
     .out = PER_RANK, .source = RANK_OF_SHARE, .bus_share = 1, .takes_counts = 1},
    {.program = "alltoall_perf", .title = "all-to-all", .algo_name = "all_to_all", .call = all_to_all,
     .in = PER_RANK, .out = PER_RANK, .source = RANK_OF_SHARE, .bus_share = 1, .takes_counts = 1},
    {.program = "gather_perf", .title = "gather", .algo_name = "gather", .call = gather,
     .out = PER_RANK | ROOT_ONLY, .source = RANK_OF_SHARE, .bus_share = 1},
    {.program = "scatter_perf", .title = "scatter", .algo_name = "scatter", .call = scatter,
     .in = PER_RANK | ROOT_ONLY, .source = ROOT, .bus_share = 1},
    {.program = "sendrecv_perf", .title = "send and receive round a ring", .call = send_receive,
     .source = RANK_BEFORE, .never_in_place = 1},
    {.program = "hypercube_perf", .title = "an all-gather in a hypercube", .call = hypercube,
     .out = PER_RANK, .source = RANK_OF_SHARE, .has_steps = 1, .needs_power_of_two = 1, .skips_own = 1},
};

const struct collective *collective_find(const char *program)
{
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    if (strcmp(collectives[i].program, program) == 0) return &collectives[i];
  return NULL;
}

int collective_reduces(const struct collective *collective)
{
  return collective->source == ALL_RANKS;
}

int collective_has_root(const struct collective *collective)
{
  return ((collective->in | collective->out) & ROOT_ONLY) != 0;
}

static int is_shared(const struct collective *collective)
{
  return (collective->in | collective->out) & PER_RANK;
}

size_t work_elements(const struct work *work)
{
  return is_shared(work->collective) ? work->count * (size_t)work->nranks : work->count;
}

/* Shares are whole multiples of 16 bytes. */
size_t collective_count(const struct collective *collective, size_t elements, size_t type_size, int nranks)
{
  return is_shared(collective) ? elements / (size_t)nranks & ~(16 / type_size - 1) : elements;
}

size_t work_share(const struct work *work, int from, int to)
{
  const struct collective *collective = work->collective;
  size_t n = (size_t)work->nranks, parts = work->parts ? (size_t)work->parts : 1, r;
  if (!work->uneven || n == 1) return work->count;
  if (collective->in & collective->out & PER_RANK) r = (size_t)(to - from + work->nranks) % n;
  else r = (size_t)(collective->in & PER_RANK ? to : from);
  return work->count / parts * 2 * r / (n - 1) * parts;
}

size_t work_start(const struct work *work, int is_out, int r)
{
  size_t sum = 0;
  for (int s = 0; s < r; s++) sum += is_out ? work_share(work, s, work->rank) : work_share(work, work->rank, s);
  return sum;
}

/* In place one of the buffers is this rank's share of the other. */
void work_offsets(const struct work *work, size_t *in, size_t *out)
{
  int in_is_whole = work->collective->in & PER_RANK, out_is_whole = work->collective->out & PER_RANK;
  *in = work->in_place && out_is_whole && !in_is_whole ? work_start(work, 1, work->rank) : 0;
  *out = work->in_place && in_is_whole && !out_is_whole ? work_start(work, 0, work->rank) : 0;
}

double bus_factor(const struct collective *collective, int nranks)
{
  return collective->bus_share ? (double)collective->bus_share * (nranks - 1) / nranks : 1;
}
