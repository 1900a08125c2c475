/* SPDX-License-Identifier: BSD-3-Clause */
#include "trial.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "reduce/reduce.h"
#include "sched/sched.h"
#include "tutti_counts.h"

#define PERIOD 251 /* elements after which contributions repeat: a prime, so that no block looks like another */
#define GUARD 64
#define PAINT 0x5a

static uint64_t mixed(uint64_t x)
{
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static int is_float(int type)
{
  return tt_type_is_float(type);
}

static int is_signed(int type)
{
  return type == tuttiInt8 || type == tuttiInt16 || type == tuttiInt32 || type == tuttiInt64;
}

static int reduces(const struct trial *trial)
{
  return tt_kinds[trial->collective].reduces;
}

/* ---- integers: any bits are exact, sums and products wrap ---- */

static int64_t extended(int type, uint64_t bits)
{
  int unused = 64 - 8 * (int)tt_type_size(type);
  return is_signed(type) ? (int64_t)(bits << unused) >> unused : (int64_t)(bits << unused >> unused);
}

static uint64_t integer_scalar(int rank)
{
  return (uint64_t)(2 * rank - 5);
}

/* A byte that is 0 in about one of three places. */
static uint64_t bool_of(int rank, size_t i)
{
  return mixed((uint64_t)rank * PERIOD + i + 1) % 3 ? mixed(i) % 255 + 1 : 0;
}

static uint64_t bool_reduced(const struct trial *trial, size_t i)
{
  int trues = 0;
  for (int r = 0; r < trial->nranks; r++) trues += bool_of(r, i) != 0;
  if (trial->op == tuttiBitXor) return (uint64_t)trues % 2;
  int is_and = trial->op == tuttiProd || trial->op == tuttiMin || trial->op == tuttiBitAnd;
  return is_and ? trues == trial->nranks : trues > 0;
}

static uint64_t integer_of(const struct trial *trial, int rank, size_t i)
{
  uint64_t bits = mixed((uint64_t)rank * PERIOD + i + 1);
  if (reduces(trial) && trial->op == TT_PREMUL_SUM) bits *= integer_scalar(rank);
  return bits;
}

static int is_greater(int type, uint64_t a, uint64_t b)
{
  int64_t x = extended(type, a), y = extended(type, b);
  return is_signed(type) ? x > y : (uint64_t)x > (uint64_t)y;
}

static uint64_t integer_reduced(const struct trial *trial, size_t i)
{
  uint64_t result = integer_of(trial, 0, i);
  for (int r = 1; r < trial->nranks; r++) {
    uint64_t x = integer_of(trial, r, i);
    if (trial->op == tuttiProd) result *= x;
    else if (trial->op == tuttiMax) result = is_greater(trial->type, x, result) ? x : result;
    else if (trial->op == tuttiMin) result = is_greater(trial->type, result, x) ? x : result;
    else if (trial->op == tuttiBitAnd) result &= x;
    else if (trial->op == tuttiBitOr) result |= x;
    else if (trial->op == tuttiBitXor) result ^= x;
    else result += x;
  }
  if (trial->op != tuttiAvg) return result;
  int64_t sum = extended(trial->type, result);
  return is_signed(trial->type) ? (uint64_t)(sum / trial->nranks) : (uint64_t)sum / (uint64_t)trial->nranks;
}

/* ---- floats: numbers so small that no sum rounds ---- */

static double float_scalar(int rank)
{
  static const double scalars[] = {1, 2, -1, 0.5, -2};
  return scalars[rank % 5];
}

/* What the rank gives; scaled: what the operation makes of it before it is summed. */
static double float_of(const struct trial *trial, int rank, size_t i, int scaled)
{
  double pick = (double)((i * 7 + (size_t)rank * 3 + (i * i) % 5) % 11);
  int is_byte = tt_type_size(trial->type) == 1;
  switch (trial->op) {
  case tuttiSum: return is_byte ? (i + (size_t)rank) % 3 == 0 : pick - 5;
  case tuttiProd: return (i + (size_t)rank) % 3 == 0 ? 2 : 1;
  case tuttiMax:
  case tuttiMin: return is_byte ? (int)pick % 8 - 4 : pick - 5;
  case tuttiAvg: return (double)((int)pick % 5) * (scaled ? 1 : trial->nranks);
  default: return (double)((int)pick % 5) * (scaled ? float_scalar(rank) : 1);
  }
}

static double float_reduced(const struct trial *trial, size_t i)
{
  double result = float_of(trial, 0, i, 1);
  for (int r = 1; r < trial->nranks; r++) {
    double x = float_of(trial, r, i, 1);
    if (trial->op == tuttiProd) result *= x;
    else if (trial->op == tuttiMax) result = x > result ? x : result;
    else if (trial->op == tuttiMin) result = x < result ? x : result;
    else result += x;
  }
  return result;
}

static uint64_t float_bits(int type, double value)
{
  float single = (float)value;
  uint64_t bits = 0;
  if (type == tuttiFloat32) memcpy(&bits, &single, 4);
  else if (type == tuttiFloat64) memcpy(&bits, &value, 8);
  else bits = tt_float_from_fp32(type, single);
  return bits;
}

/* 12 ranks: sums of fp16 and bf16 stay below 256. One byte holds less. */
int trial_is_exact(int collective, int type, int op, int nranks)
{
  if (!tt_kinds[collective].reduces) return 1;
  if (tt_redop_lacks(op, type) || (op == TT_PREMUL_SUM && tt_type_part(type) != type)) return 0;
  if (!is_float(type) || op == tuttiMax || op == tuttiMin) return 1;
  if (op == tuttiProd) return nranks <= (type == tuttiFloat8e4m3 ? 8 : 12);
  if (tt_type_size(type) == 1) return op == tuttiSum && nranks <= 8;
  return nranks <= 12;
}

/* ---- periods ---- */

#define REDUCED (-1) /* as rank: the result */

/* Of complex numbers, parts. */
static uint64_t bits_of(const struct trial *trial, int rank, size_t i)
{
  if (!reduces(trial)) return mixed((uint64_t)rank * PERIOD + i + 1);
  if (trial->type == tuttiBool) return rank == REDUCED ? bool_reduced(trial, i) : bool_of(rank, i);
  if (is_float(trial->type))
    return float_bits(tt_type_part(trial->type),
                      rank == REDUCED ? float_reduced(trial, i) : float_of(trial, rank, i, 0));
  if (rank == REDUCED) return integer_reduced(trial, i);
  return mixed((uint64_t)rank * PERIOD + i + 1);
}

/* Elements `first` .. of what the rank gives, repeated with the period. */
static void spread(const struct trial *trial, char *to, int rank, size_t first, size_t n)
{
  size_t size = tt_type_size(trial->type), known = n < PERIOD ? n : PERIOD;
  size_t part = tt_type_size(tt_type_part(trial->type)), parts = size / part;
  for (size_t i = 0; i < known * parts; i++) {
    uint64_t bits = bits_of(trial, rank, (first + i / parts) % PERIOD * parts + i % parts);
    memcpy(to + i * part, &bits, part);
  }
  for (size_t i = known; i < n; i += known) {
    size_t more = n - i < known ? n - i : known;
    memcpy(to + i * size, to, more * size);
  }
}

tuttiResult_t trial_redop(struct trial *trial, tuttiComm_t comm)
{
  uint64_t bits = is_float(trial->type) ? float_bits(trial->type, float_scalar(trial->rank))
                                        : integer_scalar(trial->rank);
  return tuttiRedOpCreatePreMulSum(&trial->handle, &bits, (tuttiDataType_t)trial->type, tuttiScalarHostImmediate,
                                   comm);
}

/* ---- buffers ---- */

static size_t shares(const struct trial *trial, int cover)
{
  const struct tt_kind *kind = &tt_kinds[trial->collective];
  return kind->is_shared && cover != TT_COVER_OWN ? (size_t)trial->nranks : 1;
}

/* 1 if shares have any lengths. */
static int has_counts(const struct trial *trial)
{
  return trial->counts || trial->matrix;
}

/* Elements of a share in the buffer that is sent (0) or received (1). */
static size_t count_of(const struct trial *trial, int b, int share)
{
  size_t n = (size_t)trial->nranks, own = (size_t)trial->rank, s = (size_t)share;
  if (trial->matrix) return b ? trial->matrix[s * n + own] : trial->matrix[own * n + s];
  return trial->counts ? trial->counts[share] : trial->count;
}

/* Elements that a rank gives before its share `share`. */
static size_t index_of(const struct trial *trial, int rank, int share)
{
  size_t sum = 0;
  for (int s = 0; s < share; s++)
    sum += trial->matrix ? trial->matrix[rank * trial->nranks + s] : count_of(trial, 0, s);
  return sum;
}

/* Elements between the start of a buffer that has all shares and a share. */
static size_t start_of(const struct trial *trial, int b, int share)
{
  size_t sum = 0;
  if (trial->displs[b]) return trial->displs[b][share];
  for (int s = 0; s < share; s++) sum += count_of(trial, b, s);
  return sum;
}

/* Elements from the start of a buffer to its end, with gaps. */
static size_t extent(const struct trial *trial, int b)
{
  const struct tt_kind *kind = &tt_kinds[trial->collective];
  size_t most = 0;
  if (!kind->is_shared) return trial->count;
  if ((b ? kind->out : kind->in) == TT_COVER_OWN) return count_of(trial, b, trial->rank);
  for (int s = 0; s < trial->nranks; s++) {
    size_t end = start_of(trial, b, s) + count_of(trial, b, s);
    if (end > most) most = end;
  }
  return most;
}

static int is_there(const struct trial *trial, int cover)
{
  return cover != TT_COVER_ROOT || trial->rank == trial->root;
}

static void buffers_measure(struct trial *trial)
{
  size_t size = tt_type_size(trial->type), in = extent(trial, 0) * size, out = extent(trial, 1) * size;
  trial->len[0] = (trial->in_place && out > in ? out : in) + 2 * GUARD + TRIAL_SHIFT;
  trial->len[1] = out + 2 * GUARD + TRIAL_SHIFT;
}

/* Both buffers are taken from memory[0] in place; there the one of several shares is the whole. */
static void buffers_place(struct trial *trial)
{
  const struct tt_kind *kind = &tt_kinds[trial->collective];
  size_t size = tt_type_size(trial->type), ins = shares(trial, kind->in), outs = shares(trial, kind->out);
  int in_there = is_there(trial, kind->in), out_there = is_there(trial, kind->out), both = in_there && out_there;
  trial->in = trial->memory[0] + GUARD + trial->shift;
  trial->out = trial->memory[1] + GUARD + trial->shift / 2;
  if (trial->in_place && (both || ins == outs)) {
    int scatters = kind->is_shared && kind->out == TT_COVER_OWN, gathers = kind->is_shared && kind->in == TT_COVER_OWN;
    trial->out = scatters ? trial->in + start_of(trial, 0, trial->rank) * size : trial->in;
    if (gathers) trial->in += start_of(trial, 1, trial->rank) * size;
  }
  if (has_counts(trial)) {
    in_there = extent(trial, 0) > 0;
    out_there = extent(trial, 1) > 0;
  }
  if (!in_there && trial->bare) trial->in = NULL;
  if (!out_there && trial->bare) trial->out = NULL;
}

/* The second buffer is one that peers can read. */
static char *memory_take(int b, size_t len)
{
  void *memory = NULL;
  if (!b) return malloc(len);
  return tuttiMemAlloc(&memory, len) == tuttiSuccess ? memory : NULL;
}

/* Where a pointer into a buffer lies in its image. */
static char *in_image(const struct trial *trial, const char *at)
{
  int second = !(at >= trial->memory[0] && at < trial->memory[0] + trial->len[0]);
  return trial->image[second] + (at - trial->memory[second]);
}

/* Fills in the contribution of this rank. */
static void in_fill(const struct trial *trial)
{
  const struct tt_kind *kind = &tt_kinds[trial->collective];
  char *to = in_image(trial, trial->in);
  if (!kind->is_shared || kind->in == TT_COVER_OWN) {
    spread(trial, to, trial->rank, 0, extent(trial, 0));
    return;
  }
  for (int s = 0; s < trial->nranks; s++)
    spread(trial, to + start_of(trial, 0, s) * tt_type_size(trial->type), trial->rank, index_of(trial, trial->rank, s),
           count_of(trial, 0, s));
}

int trial_prepare(struct trial *trial)
{
  const struct tt_kind *kind = &tt_kinds[trial->collective];
  buffers_measure(trial);
  for (int b = 0; b < 2; b++) {
    trial->memory[b] = memory_take(b, trial->len[b]);
    trial->image[b] = malloc(trial->len[b]);
    if (!trial->memory[b] || !trial->image[b]) return 0;
    memset(trial->image[b], PAINT, trial->len[b]);
  }
  buffers_place(trial);
  if (trial->in && (is_there(trial, kind->in) || trial->in == trial->out)) in_fill(trial);
  for (int b = 0; b < 2; b++) memcpy(trial->memory[b], trial->image[b], trial->len[b]);
  return 1;
}

void trial_free(struct trial *trial)
{
  for (int b = 0; b < 2; b++) {
    if (b) tuttiMemFree(trial->memory[b]);
    else free(trial->memory[b]);
    free(trial->image[b]);
    trial->memory[b] = trial->image[b] = NULL;
  }
}

static tuttiResult_t call_with_counts(const struct trial *trial, tuttiRedOp_t op, tuttiComm_t comm,
                                      tuttiStream_t stream)
{
  tuttiDataType_t type = (tuttiDataType_t)trial->type;
  size_t counts[2][TRIAL_RANKS];
  for (int b = 0; b < 2; b++)
    for (int r = 0; r < trial->nranks; r++) counts[b][r] = count_of(trial, b, r);
  if (trial->matrix)
    return tuttiAlltoAllV(trial->in, counts[0], trial->displs[0], trial->out, counts[1], trial->displs[1], type, comm,
                          stream);
  if (trial->collective == TT_ALL_GATHER)
    return tuttiAllGatherV(trial->in, counts[0][trial->rank], trial->out, counts[1], trial->displs[1], type, comm,
                           stream);
  return tuttiReduceScatterV(trial->in, trial->out, counts[0], trial->displs[0], type, op, comm, stream);
}

tuttiResult_t trial_call(const struct trial *trial, tuttiComm_t comm, tuttiStream_t stream)
{
  tuttiDataType_t type = (tuttiDataType_t)trial->type;
  tuttiRedOp_t op = trial->op == TT_PREMUL_SUM ? trial->handle : (tuttiRedOp_t)trial->op;
  const char *in = trial->in;
  char *out = trial->out;
  size_t n = trial->count;
  int root = trial->root;
  if (has_counts(trial)) return call_with_counts(trial, op, comm, stream);
  switch (trial->collective) {
  case TT_ALL_REDUCE: return tuttiAllReduce(in, out, n, type, op, comm, stream);
  case TT_REDUCE: return tuttiReduce(in, out, n, type, op, root, comm, stream);
  case TT_BROADCAST:
    if (in == out) return tuttiBcast(out, n, type, root, comm, stream);
    return tuttiBroadcast(in, out, n, type, root, comm, stream);
  case TT_REDUCE_SCATTER: return tuttiReduceScatter(in, out, n, type, op, comm, stream);
  case TT_ALL_GATHER: return tuttiAllGather(in, out, n, type, comm, stream);
  case TT_ALL_TO_ALL: return tuttiAlltoAll(in, out, n, type, comm, stream);
  case TT_GATHER: return tuttiGather(in, out, n, type, root, comm, stream);
  case TT_SCATTER: return tuttiScatter(in, out, n, type, root, comm, stream);
  default: return tuttiInternalError;
  }
}

/* ---- what must be there afterwards ---- */

static void result_spread(const struct trial *trial, char *to)
{
  size_t n = trial->count, size = tt_type_size(trial->type), own = index_of(trial, trial->rank, trial->rank);
  switch (trial->collective) {
  case TT_ALL_REDUCE:
  case TT_REDUCE: spread(trial, to, REDUCED, 0, n); return;
  case TT_BROADCAST: spread(trial, to, trial->root, 0, n); return;
  case TT_REDUCE_SCATTER: spread(trial, to, REDUCED, own, count_of(trial, 0, trial->rank)); return;
  case TT_SCATTER: spread(trial, to, trial->root, own, n); return;
  case TT_ALL_TO_ALL:
    for (int r = 0; r < trial->nranks; r++)
      spread(trial, to + start_of(trial, 1, r) * size, r, index_of(trial, r, trial->rank), count_of(trial, 1, r));
    return;
  default: /* gather and all-gather */
    for (int r = 0; r < trial->nranks; r++)
      spread(trial, to + start_of(trial, 1, r) * size, r, 0, count_of(trial, 1, r));
  }
}

static void name_print(const struct trial *trial)
{
  fprintf(stderr, "rank %d of %d: %s%s count %zu %s%s%s root %d%s%s shift %zu: ", trial->rank, trial->nranks,
          tt_kinds[trial->collective].name, has_counts(trial) ? " with counts" : "", trial->count,
          tt_type_name(trial->type), reduces(trial) ? " " : "", reduces(trial) ? tt_redop_name(trial->op) : "",
          trial->root, trial->in_place ? " in place" : "", trial->bare ? " bare" : "", trial->shift);
}

static int same(const struct trial *trial, int b, const char *got)
{
  if (memcmp(got, trial->image[b], trial->len[b]) == 0) return 1;
  size_t at = 0;
  while (got[at] == trial->image[b][at]) at++;
  const char *place = trial->memory[b] + at;
  name_print(trial);
  fprintf(stderr, "byte %zu of memory %d is %02x, not %02x (sendbuff%+td, recvbuff%+td)\n", at, b, (uint8_t)got[at],
          (uint8_t)trial->image[b][at], trial->in ? place - trial->in : 0, trial->out ? place - trial->out : 0);
  return 0;
}

int trial_check(struct trial *trial)
{
  const struct tt_kind *kind = &tt_kinds[trial->collective];
  size_t size = tt_type_size(trial->type);
  int writes = trial->out && is_there(trial, kind->out), fine = 1;
  int forgets = trial->collective == TT_REDUCE_SCATTER && trial->in_place; /* what the other shares held */
  if (writes) result_spread(trial, in_image(trial, trial->out));
  for (int b = 0; b < 2; b++) {
    char *copy = malloc(trial->len[b]);
    if (!copy) return 0;
    memcpy(copy, trial->memory[b], trial->len[b]);
    for (int r = 0; forgets && b == 0 && r < trial->nranks; r++) {
      size_t at = GUARD + trial->shift + start_of(trial, 0, r) * size;
      if (r != trial->rank) memcpy(copy + at, trial->image[0] + at, count_of(trial, 0, r) * size);
    }
    fine &= same(trial, b, copy);
    free(copy);
  }
  return fine;
}

int trial_run(struct trial *trial, tuttiComm_t comm)
{
  int fine = trial_prepare(trial);
  if (fine && trial_call(trial, comm, NULL) != tuttiSuccess) {
    name_print(trial);
    fprintf(stderr, "%s\n", tuttiGetLastError(comm));
    fine = 0;
  }
  fine = fine && trial_check(trial);
  trial_free(trial);
  return fine;
}
