/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawn collectives, each between kernels of the program on the same or another stream, some while the stream is held;
 * results are compared by a kernel, byte by byte. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu_client.h"
#include "gpu_values.h"

enum kind { ALL_REDUCE, PRE_MUL_SUM, REDUCE, BROADCAST, BCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER,
            RING, PAIRS, KINDS };
static const char *const names[KINDS] = {"AllReduce", "AllReduce(PreMulSum)", "Reduce", "Broadcast", "Bcast",
                                         "AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter", "ring",
                                         "pairs"};
#define JUNK 0xa5u

struct job {
  enum kind kind;
  int type, op, root, in_place;
  unsigned salt;
  size_t count, at; /* elements of a share; where its buffers begin */
  int nranks;
};

/* A rank's own affairs. */
struct manner {
  int stream, is_held, before_elsewhere, after_elsewhere, is_on_host;
};

/* ---- what the right result is ---- */

static int reduces(enum kind kind)
{
  return kind <= REDUCE || kind == REDUCE_SCATTER;
}

static unsigned contribution(const struct job *job, int rank, size_t i)
{
  unsigned mixed = (unsigned)rank + (unsigned)(i % 251) + job->salt, ranks = (unsigned)job->nranks;
  if (job->kind == PRE_MUL_SUM) return mixed % 2;
  if (!reduces(job->kind) || job->op == ncclMax || job->op == ncclMin) return (mixed * 5 + (unsigned)rank * 2) % 8;
  if (job->op == ncclProd) return 1 + mixed % 2;
  return ranks <= 4 ? mixed % 3 : mixed % 2;
}

/* The average's: one rank has all of it, so that the quotient is whole. */
static unsigned average_part(const struct job *job, int rank, size_t i)
{
  unsigned who = ((unsigned)(i % 251) + job->salt) % (unsigned)job->nranks;
  return (unsigned)rank == who ? (unsigned)job->nranks * (1 + (unsigned)(i % 2)) : 0;
}

static unsigned in_value(const struct job *job, int rank, size_t i)
{
  return reduces(job->kind) && job->kind != PRE_MUL_SUM && job->op == ncclAvg ? average_part(job, rank, i)
                                                                              : contribution(job, rank, i);
}

static unsigned reduced(const struct job *job, size_t i)
{
  unsigned all = in_value(job, 0, i);
  for (int r = 1; r < job->nranks; r++) {
    unsigned one = in_value(job, r, i);
    if (job->op == ncclProd) all *= one;
    else if (job->op == ncclMax) all = one > all ? one : all;
    else if (job->op == ncclMin) all = one < all ? one : all;
    else all += one;
  }
  if (job->kind == PRE_MUL_SUM) return 2 * all;
  return job->op == ncclAvg ? all / (unsigned)job->nranks : all;
}

static size_t in_count(const struct job *job, int rank)
{
  size_t all = job->count * (size_t)job->nranks;
  switch (job->kind) {
  case REDUCE_SCATTER: case ALL_TO_ALL: case PAIRS: return all;
  case SCATTER: return rank == job->root ? all : 0;
  default: return job->count;
  }
}

static size_t out_count(const struct job *job, int rank)
{
  size_t all = job->count * (size_t)job->nranks;
  switch (job->kind) {
  case ALL_GATHER: case ALL_TO_ALL: case PAIRS: return all;
  case GATHER: return rank == job->root ? all : 0;
  case REDUCE: return rank == job->root ? job->count : 0;
  default: return job->count;
  }
}

static unsigned out_value(const struct job *job, int rank, size_t i)
{
  size_t share = job->count ? i / job->count : 0, rest = job->count ? i % job->count : 0;
  size_t mine = (size_t)rank * job->count;
  switch (job->kind) {
  case ALL_REDUCE: case PRE_MUL_SUM: case REDUCE: return reduced(job, i);
  case REDUCE_SCATTER: return reduced(job, mine + i);
  case BROADCAST: case BCAST: return in_value(job, job->root, i);
  case ALL_GATHER: case GATHER: return in_value(job, (int)share, rest);
  case ALL_TO_ALL: case PAIRS: return in_value(job, (int)share, mine + rest);
  case SCATTER: return in_value(job, job->root, mine + i);
  default: return in_value(job, (rank + job->nranks - 1) % job->nranks, i);
  }
}

/* ---- drawing ---- */

static size_t draw_count(struct team *team, size_t size)
{
  const size_t slot = team->options->slot / size;
  const size_t sizes[] = {0, 1, 3, 17, 1000, 4097, slot - 1, slot, slot + 1, 3 * slot + 5};
  size_t most = team->ranks[0].room / JOBS / (size_t)team->options->nranks / size;
  size_t count = sizes[drawn(&team->common, sizeof sizes / sizeof *sizes)];
  if (team->options->most / size < most) most = team->options->most / size;
  return count < most ? count : most;
}

static struct job job_draw(struct team *team, int j)
{
  struct job job = {.nranks = team->options->nranks, .at = team->ranks[0].room / JOBS * (size_t)j};
  job.kind = (enum kind)drawn(&team->common, KINDS);
  job.type = (int)drawn(&team->common, ncclNumTypes);
  job.op = (int)drawn(&team->common, 5);
  if (job.op == ncclProd && job.nranks > 4) job.op = ncclMax;
  if (job.op == ncclAvg && job.nranks > 4) job.op = ncclSum;
  if (job.kind == PRE_MUL_SUM && job.nranks > 4) job.kind = ALL_REDUCE;
  if (job.kind == PRE_MUL_SUM) job.op = ncclSum;
  job.root = (int)drawn(&team->common, (uint64_t)job.nranks);
  job.salt = (unsigned)drawn(&team->common, 1000);
  job.in_place = drawn(&team->common, 3) == 0 && job.kind < ALL_TO_ALL;
  if (job.kind == BCAST) job.in_place = 1;
  job.count = draw_count(team, value_size(job.type));
  return job;
}

static struct manner manner_draw(struct team *team)
{
  struct manner manner = {.stream = (int)drawn(&team->own, STREAMS)};
  if (team->options->has_only_own_streams) manner.stream = 3 + manner.stream % 2;
  manner.is_held = drawn(&team->own, 3) == 0 && team->may_hold;
  manner.before_elsewhere = drawn(&team->own, 3) == 0;
  manner.after_elsewhere = drawn(&team->own, 3) == 0;
  manner.is_on_host = team->options->draws_host && drawn(&team->own, 6) == 0;
  return manner;
}

/* ---- one rank's part ---- */

/* In place, the send buffer lies where NCCL wants it in the other one, or the other way round. */
static void buffers(const struct rank *rank, const struct job *job, const struct manner *manner, uint64_t *in,
                    uint64_t *out)
{
  size_t shift = (size_t)rank->number * job->count * value_size(job->type);
  *in = (manner->is_on_host ? (uintptr_t)rank->host_in : rank->in) + job->at;
  *out = (manner->is_on_host ? (uintptr_t)rank->host_out : rank->out) + job->at;
  if (!job->in_place) return;
  if (job->kind == REDUCE_SCATTER) *out = *in + shift;
  else if (job->kind == ALL_GATHER) *in = *out + shift;
  else *out = *in;
}

/* Puts junk behind the result too: nothing may be written there. */
static void prepare(const struct rank *rank, const struct job *job, const struct manner *manner)
{
  size_t size = value_size(job->type), in_len = in_count(job, rank->number), out_len = out_count(job, rank->number);
  unsigned char *in_stage = rank->stage + job->at, *want_stage = rank->stage + rank->room + job->at;
  uint64_t in, out;
  buffers(rank, job, manner, &in, &out);
  for (size_t i = 0; i < in_len; i++) value_put(in_stage + i * size, job->type, in_value(job, rank->number, i));
  for (size_t i = 0; i < out_len; i++) value_put(want_stage + i * size, job->type, out_value(job, rank->number, i));
  if (!job->in_place) memset(want_stage + out_len * size, JUNK, 16);
  if (!job->in_place) CU(cuMemsetD8Async(out, JUNK, out_len * size + 16, rank->side));
  if (in_len) CU(cuMemcpyAsync(in, (uintptr_t)in_stage, in_len * size, rank->side));
  CU(cuMemcpyAsync(rank->want + job->at, (uintptr_t)want_stage, out_len * size + 16, rank->side));
}

static void *stream_of(const struct rank *rank, const struct manner *manner)
{
  return rank->streams[manner->stream];
}

/* A kernel of the program writes the input once more, on the stream of the call or on another one. */
static void before(const struct rank *rank, const struct job *job, const struct manner *manner, int j, uint32_t round)
{
  uint64_t in, out, len = 16, word = (uintptr_t)&rank->words[j];
  uint32_t junk = JUNK;
  void *stream = stream_of(rank, manner);
  buffers(rank, job, manner, &in, &out);
  uint64_t behind = out + out_count(job, rank->number) * value_size(job->type);
  void *first = manner->before_elsewhere ? rank->side : stream;
  if (manner->is_held) launch(rank, rank->spin, first, (void *[]){&word, &round});
  if (!job->in_place) launch(rank, rank->fill, first, (void *[]){&behind, &len, &junk});
  if (!manner->before_elsewhere) return;
  CU(cuEventRecord(rank->events[2 * j], first));
  CU(cuStreamWaitEvent(stream, rank->events[2 * j], 0));
}

static void pairs(const struct rank *rank, const struct job *job, uint64_t in, uint64_t out, void *stream)
{
  size_t share = job->count * value_size(job->type);
  NCCL(ncclGroupStart());
  for (int p = 0; p < job->nranks; p++) {
    NCCL(ncclSend((void *)(uintptr_t)(in + (size_t)p * share), job->count, job->type, p, rank->comm, stream));
    NCCL(ncclRecv((void *)(uintptr_t)(out + (size_t)p * share), job->count, job->type, p, rank->comm, stream));
  }
  NCCL(ncclGroupEnd());
}

static void ring(const struct rank *rank, const struct job *job, const void *in, void *out, void *stream)
{
  NCCL(ncclGroupStart());
  NCCL(ncclSend(in, job->count, job->type, (rank->number + 1) % job->nranks, rank->comm, stream));
  NCCL(ncclRecv(out, job->count, job->type, (rank->number + job->nranks - 1) % job->nranks, rank->comm, stream));
  NCCL(ncclGroupEnd());
}

/* The scalar is in the memory of the GPU, where a copy on the same stream puts it. */
static void pre_mul_sum(const struct rank *rank, const struct job *job, const void *in, void *out, void *stream)
{
  int op;
  uint64_t scalar = rank->want + rank->room + 8 * (job->at / (rank->room / JOBS));
  unsigned char *stage = rank->stage + 2 * rank->room + 8 * (job->at / (rank->room / JOBS));
  value_put(stage, job->type, 2);
  CU(cuMemcpyAsync(scalar, (uintptr_t)stage, 8, stream));
  NCCL(ncclRedOpCreatePreMulSum(&op, (void *)(uintptr_t)scalar, job->type, ncclScalarDevice, rank->comm));
  NCCL(ncclAllReduce(in, out, job->count, job->type, op, rank->comm, stream));
  NCCL(ncclRedOpDestroy(op, rank->comm));
}

static void call(const struct rank *rank, const struct job *job, const struct manner *manner)
{
  void *stream = stream_of(rank, manner);
  uint64_t in_at, out_at;
  buffers(rank, job, manner, &in_at, &out_at);
  const void *in = (void *)(uintptr_t)in_at;
  void *out = (void *)(uintptr_t)out_at;
  size_t n = job->count;
  switch (job->kind) {
  case ALL_REDUCE: NCCL(ncclAllReduce(in, out, n, job->type, job->op, rank->comm, stream)); break;
  case PRE_MUL_SUM: pre_mul_sum(rank, job, in, out, stream); break;
  case REDUCE: NCCL(ncclReduce(in, out, n, job->type, job->op, job->root, rank->comm, stream)); break;
  case BROADCAST: NCCL(ncclBroadcast(in, out, n, job->type, job->root, rank->comm, stream)); break;
  case BCAST: NCCL(ncclBcast(out, n, job->type, job->root, rank->comm, stream)); break;
  case ALL_GATHER: NCCL(ncclAllGather(in, out, n, job->type, rank->comm, stream)); break;
  case REDUCE_SCATTER: NCCL(ncclReduceScatter(in, out, n, job->type, job->op, rank->comm, stream)); break;
  case ALL_TO_ALL: NCCL(ncclAlltoAll(in, out, n, job->type, rank->comm, stream)); break;
  case GATHER: NCCL(ncclGather(in, out, n, job->type, job->root, rank->comm, stream)); break;
  case SCATTER: NCCL(ncclScatter(in, out, n, job->type, job->root, rank->comm, stream)); break;
  case RING: ring(rank, job, in, out, stream); break;
  default: pairs(rank, job, in_at, out_at, stream); break;
  }
}

/* Counts the bytes that differ in a pinned word. */
static void after(const struct rank *rank, const struct job *job, const struct manner *manner, int j)
{
  uint64_t in, out, want = rank->want + job->at, count = (uintptr_t)&rank->words[JOBS + j];
  uint64_t len = out_count(job, rank->number) * value_size(job->type) + (job->in_place ? 0 : 16);
  void *stream = stream_of(rank, manner);
  buffers(rank, job, manner, &in, &out);
  if (manner->after_elsewhere) {
    CU(cuEventRecord(rank->events[2 * j + 1], stream));
    CU(cuStreamWaitEvent(rank->side, rank->events[2 * j + 1], 0));
    stream = rank->side;
  }
  launch(rank, rank->check, stream, (void *[]){&out, &want, &len, &count});
}

/* ---- rounds ---- */

static void job_tell(const struct rank *rank, const struct job *job, const struct manner *manner, char *text,
                     size_t room)
{
  snprintf(text, room, "%s type %d op %d root %d count %zu%s, rank %d on stream %d%s%s", names[job->kind], job->type,
           job->op, job->root, job->count, job->in_place ? " in place" : "", rank->number, manner->stream,
           manner->is_held ? " held" : "", manner->is_on_host ? " in memory of the host" : "");
}

static void verify(const struct rank *rank, const struct job *job, const struct manner *manner, int j)
{
  static _Thread_local unsigned char got[65536];
  char text[160];
  uint32_t differ = rank->words[JOBS + j];
  if (!differ) return;
  uint64_t in, out;
  size_t at = 0, len = out_count(job, rank->number) * value_size(job->type) + (job->in_place ? 0 : 16);
  buffers(rank, job, manner, &in, &out);
  if (len > sizeof got) len = sizeof got;
  CU(cuMemcpyDtoH_v2(got, out, len));
  while (at < len && got[at] == rank->stage[rank->room + job->at + at]) at++;
  job_tell(rank, job, manner, text, sizeof text);
  lost("%s: %u bytes differ, the first at %zu", text, differ, at);
}

static void calls(struct team *team, const struct job *jobs, struct manner manners[][RANKS], int count, int is_group)
{
  if (is_group) NCCL(ncclGroupStart());
  for (int j = 0; j < count; j++) {
    if (!is_group && team->count > 1) NCCL(ncclGroupStart());
    for (int r = 0; r < team->count; r++) {
      enter_gpu(&team->ranks[r]);
      call(&team->ranks[r], &jobs[j], &manners[j][r]);
    }
    if (!is_group && team->count > 1) NCCL(ncclGroupEnd());
  }
  if (is_group) NCCL(ncclGroupEnd());
}

static void each_prepare(struct team *team, const struct job *jobs, struct manner manners[][RANKS], int count)
{
  for (int r = 0; r < team->count; r++) {
    const struct rank *rank = &team->ranks[r];
    enter_gpu(rank);
    for (int j = 0; j < count; j++) {
      prepare(rank, &jobs[j], &manners[j][r]);
      rank->words[JOBS + j] = 0;
    }
    CU(cuStreamSynchronize(rank->side));
  }
}

static void each_end(struct team *team, const struct job *jobs, struct manner manners[][RANKS], int count)
{
  for (int r = 0; r < team->count; r++) {
    const struct rank *rank = &team->ranks[r];
    enter_gpu(rank);
    for (int j = 0; j < count; j++) CU(cuStreamSynchronize(stream_of(rank, &manners[j][r])));
    CU(cuStreamSynchronize(rank->side));
    for (int j = 0; j < count; j++) verify(rank, &jobs[j], &manners[j][r], j);
  }
}

void jobs_round(struct team *team, int round)
{
  struct job jobs[JOBS];
  struct manner manners[JOBS][RANKS];
  char text[160];
  int count = 1 + (int)drawn(&team->common, JOBS), is_group = drawn(&team->common, 4) == 0;
  for (int j = 0; j < count; j++) jobs[j] = job_draw(team, j);
  for (int j = 0; j < count; j++)
    for (int r = 0; r < team->count; r++) manners[j][r] = manner_draw(team);
  job_tell(&team->ranks[0], &jobs[0], &manners[0][0], text, sizeof text);
  trial_name("round %d, %d jobs%s: %s", round, count, is_group ? " in a group" : "", text);
  deadline(team->options->limit_s);
  each_prepare(team, jobs, manners, count);
  /* A stream that is held may hold up those of other threads, who have to come to their calls. */
  meet(team);
  for (int j = 0; j < count; j++)
    for (int r = 0; r < team->count; r++) {
      enter_gpu(&team->ranks[r]);
      before(&team->ranks[r], &jobs[j], &manners[j][r], j, (uint32_t)round);
    }
  calls(team, jobs, manners, count, is_group);
  for (int r = 0; r < team->count; r++) {
    enter_gpu(&team->ranks[r]);
    for (int j = 0; j < count; j++) after(&team->ranks[r], &jobs[j], &manners[j][r], j);
    for (int j = 0; j < count; j++) word_set(&team->ranks[r].words[j], (uint32_t)round);
  }
  each_end(team, jobs, manners, count);
}

void jobs_run(struct team *team)
{
  if (team->options->is_sealed && cu.seal) cu.seal(1);
  for (int round = 1; round <= team->options->rounds; round++) jobs_round(team, round);
  meet(team);
  if (team->options->is_sealed && cu.seal) cu.seal(0);
}
