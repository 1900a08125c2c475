/* SPDX-License-Identifier: BSD-3-Clause */
#include "exact.h"

#include <stdio.h>
#include <stdlib.h>

#include "chance.h"
#include "tutti_message.h"

void exact_draw(struct exact *call, uint64_t *chance, int nranks, size_t most)
{
  static const size_t counts[] = {1, 2, 7, 64, 1000, 4096, 30000, 100000, 400000};
  size_t few = below(chance, 4) ? 5 : sizeof counts / sizeof *counts; /* mostly short ones */
  *call = (struct exact){(enum exact_kind)below(chance, EXACT_KINDS), (int)below(chance, (size_t)nranks),
                         counts[below(chance, few)], next(chance) >> 20};
  call->count += call->count > 64 ? below(chance, 9) : 0;
  if (call->count > most) call->count = most;
}

/* The contribution of one rank to another's share. */
static int64_t value(const struct exact *call, int from, int to, size_t i)
{
  return (int64_t)(call->salt % 1000003) * (from + 1) + (int64_t)to * 100003 + (int64_t)(i % 251) * (from + 3);
}

void exact_fill(const struct exact *call, int nranks, int rank, int64_t *in)
{
  int shares = call->kind == EXACT_REDUCE_SCATTER || call->kind == EXACT_ALL_TO_ALL || call->kind == EXACT_SCATTER;
  for (int to = 0; to < (shares ? nranks : 1); to++)
    for (size_t i = 0; i < call->count; i++) in[(size_t)to * call->count + i] = value(call, rank, to, i);
}

tuttiResult_t exact_call(const struct exact *call, const int64_t *in, int64_t *out, tuttiComm_t comm,
                         tuttiStream_t stream)
{
  size_t n = call->count;
  switch (call->kind) {
  case EXACT_REDUCE: return tuttiReduce(in, out, n, tuttiInt64, tuttiSum, call->root, comm, stream);
  case EXACT_BROADCAST: return tuttiBroadcast(in, out, n, tuttiInt64, call->root, comm, stream);
  case EXACT_ALL_GATHER: return tuttiAllGather(in, out, n, tuttiInt64, comm, stream);
  case EXACT_REDUCE_SCATTER: return tuttiReduceScatter(in, out, n, tuttiInt64, tuttiSum, comm, stream);
  case EXACT_ALL_TO_ALL: return tuttiAlltoAll(in, out, n, tuttiInt64, comm, stream);
  case EXACT_GATHER: return tuttiGather(in, out, n, tuttiInt64, call->root, comm, stream);
  case EXACT_SCATTER: return tuttiScatter(in, out, n, tuttiInt64, call->root, comm, stream);
  case EXACT_BARRIER: return tuttiBarrier(comm, stream);
  default: return tuttiAllReduce(in, out, n, tuttiInt64, tuttiSum, comm, stream);
  }
}

static int64_t sum(const struct exact *call, int nranks, int to, size_t i)
{
  int64_t all = 0;
  for (int from = 0; from < nranks; from++) all += value(call, from, to, i);
  return all;
}

int exact_is_right(const struct exact *call, int nranks, int rank, const int64_t *out)
{
  size_t n = call->count;
  int is_root = rank == call->root;
  if (call->kind == EXACT_BARRIER || (!is_root && (call->kind == EXACT_REDUCE || call->kind == EXACT_GATHER))) return 1;
  int shares = call->kind == EXACT_ALL_GATHER || call->kind == EXACT_GATHER || call->kind == EXACT_ALL_TO_ALL;
  int to =
      call->kind == EXACT_ALL_TO_ALL || call->kind == EXACT_SCATTER || call->kind == EXACT_REDUCE_SCATTER ? rank : 0;
  int adds = call->kind == EXACT_ALL_REDUCE || call->kind == EXACT_REDUCE || call->kind == EXACT_REDUCE_SCATTER;
  for (int s = 0; s < (shares ? nranks : 1); s++)
    for (size_t i = 0; i < n; i++) {
      int64_t right = adds ? sum(call, nranks, to, i) : value(call, shares ? s : call->root, to, i);
      if (out[(size_t)s * n + i] != right) return 0;
    }
  return 1;
}

/* ---- several at once ---- */

#define WRONG(...)                                                               \
  do {                                                                           \
    if (!room->wrong[0]) snprintf(room->wrong, sizeof room->wrong, __VA_ARGS__); \
  } while (0)

int exact_room_make(struct exact_room *room, int nranks, int rank, size_t most)
{
  int is_made = 1;
  *room = (struct exact_room){.nranks = nranks, .rank = rank, .most = most};
  for (int k = 0; k < EXACT_CALLS; k++) {
    room->in[k] = calloc((size_t)nranks * most, sizeof(int64_t));
    room->out[k] = calloc((size_t)nranks * most, sizeof(int64_t));
    is_made = is_made && room->in[k] && room->out[k];
  }
  return is_made;
}

void exact_room_free(struct exact_room *room)
{
  for (int k = 0; k < EXACT_CALLS; k++) {
    free(room->in[k]);
    free(room->out[k]);
  }
}

static size_t most_of(const struct exact_room *room, uint64_t *chance)
{
  return room->seldom && room->most > 1000 && below(chance, room->seldom) ? 1000 : room->most;
}

static tuttiResult_t pair(const struct exact_room *room, const int64_t *from, int64_t *to)
{
  int n = room->nranks, rank = room->rank;
  tuttiResult_t result = tuttiSend(from, 1, tuttiInt64, (rank + 1) % n, room->comm, NULL);
  return result == tuttiSuccess ? tuttiRecv(to, 1, tuttiInt64, (rank + n - 1) % n, room->comm, NULL) : result;
}

tuttiResult_t exact_calls(struct exact_room *room, uint64_t *chance, int n, int in_group, tuttiStream_t stream)
{
  struct exact call[EXACT_CALLS];
  int64_t from = room->rank, to = -1;
  tuttiResult_t result = tuttiSuccess, ended = tuttiSuccess;
  for (int k = 0; k < n; k++) {
    exact_draw(&call[k], chance, room->nranks, most_of(room, chance));
    exact_fill(&call[k], room->nranks, room->rank, room->in[k]);
  }
  if (in_group) result = tuttiGroupStart();
  for (int k = 0; k < n && result == tuttiSuccess; k++)
    result = exact_call(&call[k], room->in[k], room->out[k], room->comm, stream);
  if (in_group && result == tuttiSuccess) result = pair(room, &from, &to);
  if (in_group) ended = tuttiGroupEnd();
  if (result == tuttiSuccess) result = ended;
  if (stream && result == tuttiSuccess) result = tuttiStreamSynchronize(stream);
  for (int k = 0; k < n && result == tuttiSuccess; k++)
    if (!exact_is_right(&call[k], room->nranks, room->rank, room->out[k]))
      WRONG("collective %d of %zu elements is wrong", (int)call[k].kind, call[k].count);
  if (in_group && result == tuttiSuccess && to != (room->rank + room->nranks - 1) % room->nranks)
    WRONG("a message of a group is wrong");
  return result;
}

tuttiResult_t exact_message(struct exact_room *room, uint64_t *chance)
{
  int n = room->nranks, right = (room->rank + 1) % n, left = (room->rank + n - 1) % n, tag = (int)below(chance, 5);
  size_t most = most_of(room, chance);
  if (most > 3000 && below(chance, 6)) most = 3000;
  size_t count = 1 + below(chance, most);
  tuttiMessage_t sent = NULL, came = NULL;
  tuttiResult_t ended = tuttiSuccess;
  for (size_t i = 0; i < count; i++) room->in[0][i] = room->rank * 1000 + tag + (int64_t)i;
  tuttiResult_t result = tuttiIsendTag(room->in[0], count, tuttiInt64, right, tag, room->comm, &sent);
  if (result == tuttiSuccess) result = tuttiIrecvTag(room->out[0], count, tuttiInt64, left, tag, room->comm, &came);
  if (came) ended = tuttiMessageWait(&came, -1, NULL);
  if (result == tuttiSuccess) result = ended;
  if (sent) ended = tuttiMessageWait(&sent, -1, NULL);
  if (result == tuttiSuccess) result = ended;
  for (size_t i = 0; i < count && result == tuttiSuccess; i++)
    if (room->out[0][i] != left * 1000 + tag + (int64_t)i) WRONG("element %zu of %zu of a message is wrong", i, count);
  return result;
}

const tuttiFusionTensor_t exact_tensors[EXACT_TENSORS] = {{.name = "a", .count = 1000, .type = tuttiInt64},
                                                          {.name = "b", .count = 30000, .type = tuttiInt64},
                                                          {.name = "c", .count = 7, .type = tuttiInt64}};

tuttiResult_t exact_step(struct exact_room *room, tuttiFusion_t fusion)
{
  tuttiResult_t result = tuttiSuccess;
  int64_t n = room->nranks;
  for (int t = EXACT_TENSORS - 1; t >= 0 && result == tuttiSuccess; t--) {
    size_t count = exact_tensors[t].count;
    for (size_t i = 0; i < count; i++) room->in[t][i] = room->rank + (int64_t)i;
    result = tuttiFusionPush(fusion, t, room->in[t], room->out[t], count, tuttiInt64, NULL);
  }
  if (result == tuttiSuccess) result = tuttiFusionWaitAll(fusion);
  for (int t = 0; t < EXACT_TENSORS && result == tuttiSuccess; t++)
    for (size_t i = 0; i < exact_tensors[t].count; i++)
      if (room->out[t][i] != n * (n - 1) / 2 + n * (int64_t)i) WRONG("element %zu of tensor %d is wrong", i, t);
  return result;
}
