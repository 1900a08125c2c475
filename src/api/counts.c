/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti_counts.h: arguments checked, then as the other collectives. */
#include <stdint.h>
#include <stdlib.h>

#include "api/collective_private.h"
#include "api/form_private.h"
#include "cuda/cuda.h"
#include "tutti_counts.h"

/* A buffer with a part for each rank. */
struct parts {
  const void *buffer;
  const size_t *counts, *displs; /* elements; displs NULL: one part behind the other */
  const char *buffer_name, *counts_name;
};

/* The memory of a part that is not empty. */
struct span {
  uintptr_t begin, end;
  int rank, is_out;
};

/* The parts of a call while it is checked and begun. */
struct layout {
  int nranks, nspans;
  size_t element;
  struct span *spans;   /* [2 * nranks] */
  size_t *starts[2];    /* [nranks] each: of sendbuff, of recvbuff */
  struct span one[16];  /* these are used if they are enough */
  size_t few[16];
};

static void layout_free(struct layout *layout)
{
  if (layout->spans != layout->one) tt_free(layout->spans);
  if (layout->starts[0] != layout->few) tt_free(layout->starts[0]);
}

static tuttiResult_t layout_make(struct layout *layout, int nranks, int type)
{
  size_t both = 2 * (size_t)nranks;
  int is_small = both <= sizeof layout->few / sizeof layout->few[0];
  layout->nranks = nranks;
  layout->nspans = 0;
  layout->element = tt_type_size(type);
  layout->spans = is_small ? layout->one : tt_alloc(both, sizeof *layout->spans);
  layout->starts[0] = is_small ? layout->few : tt_alloc(both, sizeof(size_t));
  if (!layout->spans || !layout->starts[0]) {
    layout_free(layout);
    return tt_fail(tuttiSystemError, "out of memory for the counts of %d ranks", nranks);
  }
  layout->starts[1] = layout->starts[0] + nranks;
  return tuttiSuccess;
}

static void span_add(struct layout *layout, const void *buffer, size_t start, size_t count, int rank, int is_out)
{
  uintptr_t begin = (uintptr_t)buffer + start * layout->element;
  if (count)
    layout->spans[layout->nspans++] = (struct span){begin, begin + count * layout->element, rank, is_out};
}

/* Sets the starts of the parts of one buffer; *total gets the elements of all of them. */
static tuttiResult_t parts_take(struct layout *layout, const struct parts *parts, int is_out, size_t *total)
{
  size_t sum = 0, end;
  if (!parts->counts) return tt_null(parts->counts_name);
  for (int rank = 0; rank < layout->nranks; rank++) {
    size_t count = parts->counts[rank], start = parts->displs ? parts->displs[rank] : sum;
    if (__builtin_add_overflow(start, count, &end) || end > SIZE_MAX / 2 / layout->element ||
        __builtin_add_overflow(sum, count, &sum))
      return tt_fail(tuttiInvalidArgument, "%s[%d] is %zu, from element %zu on: more elements of %zu bytes than memory "
                     "can hold", parts->counts_name, rank, count, start, layout->element);
    layout->starts[is_out][rank] = start;
  }
  if (sum > SIZE_MAX / 2 / layout->element)
    return tt_fail(tuttiInvalidArgument, "%s are %zu in all: more elements of %zu bytes than memory can hold",
                   parts->counts_name, sum, layout->element);
  *total = sum;
  return sum && !parts->buffer ? tt_null(parts->buffer_name) : tuttiSuccess;
}

static void parts_span(struct layout *layout, const struct parts *parts, int is_out)
{
  for (int rank = 0; rank < layout->nranks; rank++)
    span_add(layout, parts->buffer, layout->starts[is_out][rank], parts->counts[rank], rank, is_out);
}

static int by_begin(const void *a, const void *b)
{
  const struct span *left = a, *right = b;
  return (left->begin > right->begin) - (left->begin < right->begin);
}

static tuttiResult_t overlap(const struct span *a, const struct span *b, const char *const names[2],
                             const char *in_place)
{
  return tt_fail(tuttiInvalidArgument,
                 "%s of rank %d (%zu bytes at %p) overlaps %s of rank %d (%zu bytes at %p): pass parts that do not "
                 "overlap%s", names[a->is_out], a->rank, (size_t)(a->end - a->begin), (void *)a->begin,
                 names[b->is_out], b->rank, (size_t)(b->end - b->begin), (void *)b->begin, in_place);
}

/* Refuses memory that is written and belongs to another part as well. */
static tuttiResult_t overlap_check(const struct layout *layout, const char *const names[2], const char *in_place)
{
  const struct span *furthest[2] = {NULL, NULL};
  qsort(layout->spans, (size_t)layout->nspans, sizeof *layout->spans, by_begin);
  for (int k = 0; k < layout->nspans; k++) {
    const struct span *span = &layout->spans[k];
    for (int is_out = 0; is_out < 2; is_out++) {
      const struct span *before = furthest[is_out];
      if (before && before->end > span->begin && (span->is_out || is_out))
        return overlap(before, span, names, in_place);
    }
    const struct span **most = &furthest[span->is_out];
    if (!*most || (*most)->end < span->end) *most = span;
  }
  return tuttiSuccess;
}

/* ---- all-to-all ---- */

static tuttiResult_t host_check(const struct parts *parts)
{
  if (!tt_cuda_has(parts->buffer)) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "%s %p is CUDA memory: give tuttiAlltoAllV a stream made by tuttiStreamFromCuda, "
                 "or copy it to host memory first", parts->buffer_name, parts->buffer);
}

static tuttiResult_t exchange_check(struct layout *layout, const struct parts parts[2], int own, int is_of_host)
{
  static const char *const names[2] = {"the part of sendbuff", "the part of recvbuff"};
  size_t totals[2];
  for (int is_out = 0; is_out < 2; is_out++) {
    tuttiResult_t result = parts_take(layout, &parts[is_out], is_out, &totals[is_out]);
    if (result == tuttiSuccess && totals[is_out] && is_of_host) result = host_check(&parts[is_out]);
    if (result != tuttiSuccess) return result;
    parts_span(layout, &parts[is_out], is_out);
  }
  if (parts[0].counts[own] != parts[1].counts[own])
    return tt_fail(tuttiInvalidArgument, "sendcounts[%d] is %zu, but recvcounts[%d] is %zu: what this rank sends to "
                   "itself it receives", own, parts[0].counts[own], own, parts[1].counts[own]);
  return overlap_check(layout, names, "; there is no in place");
}

/* All messages in one group. */
static tuttiResult_t exchange_begin(struct tuttiComm *comm, struct tuttiStream *stream,
                                    const struct tt_exchange *exchange)
{
  const struct tt_comm_facts *facts = tt_comm_facts(comm);
  struct tt_transfer *transfers = tt_alloc(2 * (size_t)facts->nranks, sizeof *transfers);
  if (!transfers) return tt_fail(tuttiSystemError, "out of memory for %d messages", 2 * facts->nranks);
  tt_exchange_write(transfers, exchange, facts->nranks, facts->rank);
  tuttiResult_t result = tuttiSuccess;
  tt_group_start();
  for (int k = 0; k < 2 * facts->nranks && result == tuttiSuccess; k++)
    result = tt_group_transfer(comm, stream, &transfers[k]);
  tt_free(transfers);
  if (result != tuttiSuccess) tt_group_refuse(result);
  tuttiResult_t ended = tt_group_end();
  return result == tuttiSuccess ? ended : result;
}

tuttiResult_t tuttiAlltoAllV(const void *sendbuff, const size_t *sendcounts, const size_t *sdispls, void *recvbuff,
                             const size_t *recvcounts, const size_t *rdispls, tuttiDataType_t type, tuttiComm_t comm,
                             tuttiStream_t stream)
{
  const struct parts parts[2] = {{sendbuff, sendcounts, sdispls, "sendbuff", "sendcounts"},
                                 {recvbuff, recvcounts, rdispls, "recvbuff", "recvcounts"}};
  struct layout layout;
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_type_check((int)type);
  if (result == tuttiSuccess && stream) result = tt_stream_check(stream);
  if (result == tuttiSuccess) result = layout_make(&layout, tt_comm_facts(comm)->nranks, (int)type);
  if (result != tuttiSuccess) return tt_group_refuse(result);
  result = exchange_check(&layout, parts, tt_comm_facts(comm)->rank, !stream || !tt_stream_is_cuda(stream));
  if (result == tuttiSuccess) {
    const struct tt_exchange exchange = {.in = sendbuff,
                                         .out = recvbuff,
                                         .ins = {sendcounts, layout.starts[0]},
                                         .outs = {recvcounts, layout.starts[1]},
                                         .element = layout.element};
    result = exchange_begin(comm, stream, &exchange);
  }
  layout_free(&layout);
  return result == tuttiSuccess ? result : tt_group_refuse(result);
}

/* ---- all-gather and reduce-scatter ---- */

/* One of the two, with the buffer that has all parts and the one that has this rank's own. */
struct call {
  struct parts all;
  const void *own;
  const char *own_name;
  int collective, type, op;
};

static tuttiResult_t call_check(struct layout *layout, const struct call *call, int rank, size_t *total)
{
  int gathers = call->collective == TT_ALL_GATHER; /* then all parts are written, and the own one is read */
  const char *const names[2] = {gathers ? "sendbuff" : "the part of sendbuff",
                                gathers ? "the part of recvbuff" : "recvbuff"};
  const char *in_place = gathers ? ", or for in place sendbuff = recvbuff + displs[rank]"
                                 : ", or for in place recvbuff = sendbuff + displs[rank]";
  tuttiResult_t result = parts_take(layout, &call->all, gathers, total);
  if (result != tuttiSuccess) return result;
  size_t count = call->all.counts[rank], start = layout->starts[gathers][rank];
  if (count && !call->own) return tt_null(call->own_name);
  parts_span(layout, &call->all, gathers);
  int is_in_place = (uintptr_t)call->own == (uintptr_t)call->all.buffer + start * layout->element;
  if (is_in_place && gathers) return overlap_check(layout, names, in_place);
  for (int k = 0; is_in_place && k < layout->nspans; k++)
    if (layout->spans[k].rank == rank) layout->spans[k].is_out = 1; /* it is read and written */
  if (!is_in_place) span_add(layout, call->own, 0, count, rank, !gathers);
  return overlap_check(layout, names, in_place);
}

/* Sets what is known of a call that was checked. */
static void call_bind(const struct layout *layout, const struct call *call, int rank, size_t total,
                      struct tt_binding *binding)
{
  size_t n = (size_t)layout->nranks;
  int gathers = call->collective == TT_ALL_GATHER;
  const char *all = (const char *)call->all.buffer;
  if (n == 1 && all) all += layout->starts[gathers][0] * layout->element;
  const void *buffers[2] = {gathers ? call->own : all, gathers ? all : call->own};
  int is_empty = !call->all.counts[rank];
  *binding = (struct tt_binding){.call = {.count = total / n + (total % n != 0),
                                          .collective = (uint8_t)call->collective,
                                          .type = (uint8_t)call->type,
                                          .root = -1,
                                          .form = tt_call_form_counts(call->all.counts, layout->nranks)},
                                 .in = gathers && is_empty ? NULL : buffers[0],
                                 .out = !gathers && is_empty ? NULL : (void *)(uintptr_t)buffers[1],
                                 .before = 1};
}

static tuttiResult_t call_begin(struct tuttiComm *comm, struct tuttiStream *stream, struct layout *layout,
                                const struct call *call)
{
  int rank = tt_comm_facts(comm)->rank;
  struct tt_binding binding;
  size_t total = 0;
  tuttiResult_t result = call_check(layout, call, rank, &total);
  if (result != tuttiSuccess) return tt_group_refuse(result);
  call_bind(layout, call, rank, total, &binding);
  const struct tt_shares shares = {call->all.counts, layout->starts[call->collective == TT_ALL_GATHER]};
  if (layout->nranks > 1) binding.shares = &shares;
  int reduces = tt_kinds[call->collective].reduces;
  if (reduces) result = tt_redop_bind(comm, call->op, &binding);
  if (result == tuttiSuccess && reduces) result = tt_form_bind(comm, NULL, &binding);
  return result == tuttiSuccess ? tt_call_begin(comm, stream, &binding) : tt_group_refuse(result);
}

static tuttiResult_t call_do(struct tuttiComm *comm, struct tuttiStream *stream, const struct call *call)
{
  struct layout layout;
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_type_check(call->type);
  if (result == tuttiSuccess && stream) result = tt_stream_check(stream);
  if (result == tuttiSuccess) result = layout_make(&layout, tt_comm_facts(comm)->nranks, call->type);
  if (result != tuttiSuccess) return tt_group_refuse(result);
  result = call_begin(comm, stream, &layout, call);
  layout_free(&layout);
  return result;
}

tuttiResult_t tuttiAllGatherV(const void *sendbuff, size_t sendcount, void *recvbuff, const size_t *recvcounts,
                              const size_t *displs, tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream)
{
  const struct call call = {.all = {recvbuff, recvcounts, displs, "recvbuff", "recvcounts"},
                            .own = sendbuff,
                            .own_name = "sendbuff",
                            .collective = TT_ALL_GATHER,
                            .type = (int)type};
  tuttiResult_t result = tt_comm_ready_check(comm);
  int rank = result == tuttiSuccess ? tt_comm_facts(comm)->rank : 0;
  if (result == tuttiSuccess && recvcounts && recvcounts[rank] != sendcount)
    result = tt_fail(tuttiInvalidArgument, "sendcount is %zu, but recvcounts[%d] is %zu: this rank's count is both",
                     sendcount, rank, recvcounts[rank]);
  return result == tuttiSuccess ? call_do(comm, stream, &call) : tt_group_refuse(result);
}

tuttiResult_t tuttiReduceScatterV(const void *sendbuff, void *recvbuff, const size_t *recvcounts, const size_t *displs,
                                  tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream)
{
  const struct call call = {.all = {sendbuff, recvcounts, displs, "sendbuff", "recvcounts"},
                            .own = recvbuff,
                            .own_name = "recvbuff",
                            .collective = TT_REDUCE_SCATTER,
                            .type = (int)type,
                            .op = (int)op};
  return call_do(comm, stream, &call);
}
