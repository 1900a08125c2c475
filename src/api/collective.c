/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives: arguments checked, then run now, collected in the group, or queued on the stream. */
#include <stdint.h>
#include <string.h>

#include "api/coded_private.h"
#include "api/collective_private.h"
#include "api/form_private.h"
#include "codec/codec.h"
#include "cuda/cuda.h"

/* The arguments of a public function. */
struct asked {
  const void *send;
  void *recv;
  size_t count;
  int collective, type, op, root; /* op -1: none; root -1: none */
  size_t ins, outs;               /* shares that this rank's buffers have; 0: that one is not looked at */
  const tuttiReduceOptions_t *options; /* taken, not checked; NULL: none */
};

/* Shares that a buffer of this rank has: 0: it is not looked at. */
static size_t shares_of(const struct tt_comm_facts *facts, const struct asked *asked, int cover)
{
  const struct tt_kind *kind = &tt_kinds[asked->collective];
  int is_there = cover == TT_COVER_ALL || cover == TT_COVER_OWN || facts->rank == asked->root;
  if (!is_there) return 0;
  return kind->is_shared && cover != TT_COVER_OWN ? (size_t)facts->nranks : 1;
}

/* Where in place begins, in a buffer of all shares next to one of the own share. */
static uintptr_t own_share(const struct tt_comm_facts *facts, const struct asked *asked, uintptr_t buffer,
                           size_t shares, size_t len)
{
  int moves = tt_kinds[asked->collective].is_shared && shares > 1;
  return buffer + (moves ? (size_t)facts->rank * len : 0);
}

static tuttiResult_t overlap_check(const struct tt_comm_facts *facts, const struct asked *asked, size_t len)
{
  size_t ins = asked->ins, outs = asked->outs;
  uintptr_t in = (uintptr_t)asked->send, out = (uintptr_t)asked->recv;
  if (!ins || !outs || in >= out + outs * len || out >= in + ins * len) return tuttiSuccess;
  int whole = ins == outs; /* both are whole, or both are one share */
  if (whole ? in == out : own_share(facts, asked, in, ins, len) == own_share(facts, asked, out, outs, len))
    return tuttiSuccess;
  const char *where = whole     ? "the same pointer"
                      : ins > 1 ? "recvbuff = sendbuff + rank * count"
                                : "sendbuff = recvbuff + rank * count";
  return tt_fail(tuttiInvalidArgument,
                 "recvbuff %p (%zu bytes) overlaps sendbuff %p (%zu bytes): pass %s for in place, or separate buffers",
                 asked->recv, outs * len, asked->send, ins * len, where);
}

static tuttiResult_t buffers_check(const struct tt_comm_facts *facts, const struct asked *asked)
{
  const struct tt_kind *kind = &tt_kinds[asked->collective];
  size_t element = tt_type_size(asked->type), shares = kind->is_shared ? (size_t)facts->nranks : 1, bytes;
  if (asked->count == 0) return tuttiSuccess;
  if (__builtin_mul_overflow(asked->count, element * shares, &bytes) || bytes > SIZE_MAX / 2)
    return tt_fail(tuttiInvalidArgument, "count is %zu: more elements of %zu bytes than memory can hold", asked->count,
                   element);
  if (asked->ins && !asked->send) return tt_null("sendbuff");
  if (asked->outs && !asked->recv) return tt_null("recvbuff");
  return overlap_check(facts, asked, asked->count * element);
}

tuttiResult_t tt_type_check(int type)
{
  if (type >= 0 && type < tuttiNumTypes) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "type is %d: it must be a tuttiDataType_t from 0 to %d", type,
                 tuttiNumTypes - 1);
}

static tuttiResult_t root_check(const struct tt_comm_facts *facts, const struct asked *asked)
{
  if (!tt_kinds[asked->collective].has_root || (asked->root >= 0 && asked->root < facts->nranks)) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "root is %d: it must be from 0 to nranks - 1 = %d", asked->root,
                 facts->nranks - 1);
}

static tuttiResult_t redop_check(int op, int type)
{
  const char *lacks = tt_redop_lacks(op, type);
  if (!lacks) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "op is %s, but type is %s: %s", tt_redop_name(op), tt_type_name(type), lacks);
}

/* Sets an operation that not every type has. Not inline: short sums pay for each instruction. */
static __attribute__((noinline)) tuttiResult_t other_redop_bind(const struct tuttiComm *comm, int op, int type,
                                                                struct tt_binding *binding)
{
  if (op >= 0 && op < tuttiNumOps) return redop_check(op, type);
  const struct tt_redop *redop = tt_redop_get(comm, (tuttiRedOp_t)op);
  if (!redop) return tuttiInvalidArgument;
  if (redop->type != type)
    return tt_fail(tuttiInvalidArgument, "op %d was made for %s, but type is %s: make one for that", op,
                   tt_type_name(redop->type), tt_type_name(type));
  binding->call.redop = TT_PREMUL_SUM;
  binding->scalar = redop->scalar;
  binding->scalar_at = redop->at;
  return tuttiSuccess;
}

/* Sets the operation. */
static inline tuttiResult_t redop_bind(const struct tuttiComm *comm, int op, int type, struct tt_binding *binding)
{
  binding->call.redop = (uint8_t)op;
  return op == tuttiSum ? tuttiSuccess : other_redop_bind(comm, op, type, binding);
}

tuttiResult_t tt_redop_bind(const struct tuttiComm *comm, int op, struct tt_binding *binding)
{
  return redop_bind(comm, op, binding->call.type, binding);
}

/* Carries out a call that was checked. */
static inline tuttiResult_t begin(struct tuttiComm *comm, struct tuttiStream *stream, struct tt_binding *binding)
{
  tuttiResult_t result =
      !stream && !tt_group_active() ? tt_comm_run(comm, binding) : tt_comm_queue(comm, stream, binding);
  return result == tuttiSuccess ? result : tt_group_refuse(result);
}

tuttiResult_t tt_call_begin(struct tuttiComm *comm, struct tuttiStream *stream, struct tt_binding *binding)
{
  return begin(comm, stream, binding);
}

static inline __attribute__((always_inline)) tuttiResult_t call_here(struct tuttiComm *comm, struct tuttiStream *stream,
                                                                     struct asked *asked)
{
  struct tt_binding binding; /* all of it is set, so that nothing is zeroed first: short messages feel that */
  binding.call = (struct tt_call){.op = 0,
                                  .count = asked->count,
                                  .collective = (uint8_t)asked->collective,
                                  .type = (uint8_t)asked->type,
                                  .redop = 0,
                                  .algo = 0,
                                  .root = asked->root,
                                  .form = 0};
  binding.in = asked->send;
  binding.out = asked->recv;
  binding.scalar = 0;
  binding.scalar_at = NULL;
  binding.is_host = 0;
  binding.before = 1;
  binding.overflow = NULL;
  binding.shares = NULL;
  binding.block_bytes = 0;
  binding.trigger = NULL;
  binding.transfers = NULL;
  binding.ntransfers = 0;
  const struct tt_comm_facts *facts = tt_comm_facts(comm);
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_type_check(asked->type);
  if (result == tuttiSuccess) result = root_check(facts, asked);
  int reduces = tt_kinds[asked->collective].reduces;
  if (result == tuttiSuccess && reduces) result = redop_bind(comm, asked->op, asked->type, &binding);
  if (result == tuttiSuccess) {
    asked->ins = shares_of(facts, asked, tt_kinds[asked->collective].in);
    asked->outs = shares_of(facts, asked, tt_kinds[asked->collective].out);
    result = buffers_check(facts, asked);
  }
  if (result == tuttiSuccess && reduces) result = tt_form_bind(comm, asked->options, &binding);
  if (result == tuttiSuccess && stream) result = tt_stream_check(stream);
  if (result != tuttiSuccess) return tt_group_refuse(result);
  if (!asked->ins) binding.in = NULL;
  if (!asked->outs) binding.out = NULL;
  if (!asked->options || tt_codec_is_none(asked->options->codec)) return begin(comm, stream, &binding);
  result = tt_coded_begin(comm, stream, &binding, asked->options);
  return result == tuttiSuccess ? result : tt_group_refuse(result);
}

static tuttiResult_t call(struct tuttiComm *comm, struct tuttiStream *stream, struct asked *asked)
{
  return call_here(comm, stream, asked);
}

/* With a copy of its own, in which the collective is a constant: short messages feel that. */
tuttiResult_t tuttiAllReduce(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                             tuttiComm_t comm, tuttiStream_t stream)
{
  struct asked asked = {sendbuff, recvbuff, count, TT_ALL_REDUCE, (int)type, (int)op, -1, 0, 0, NULL};
  return call_here(comm, stream, &asked);
}

tuttiResult_t tuttiAllReduceWith(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type,
                                 tuttiRedOp_t op, const tuttiReduceOptions_t *options, tuttiComm_t comm,
                                 tuttiStream_t stream)
{
  tuttiReduceOptions_t copy;
  struct asked asked = {sendbuff, recvbuff, count, TT_ALL_REDUCE, (int)type, (int)op, -1, 0, 0, NULL};
  if (options) {
    tuttiResult_t result = tt_options_take(&copy, options);
    if (result != tuttiSuccess) return tt_group_refuse(result);
    asked.options = &copy;
  }
  return call(comm, stream, &asked);
}

tuttiResult_t tuttiReduce(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                          int root, tuttiComm_t comm, tuttiStream_t stream)
{
  struct asked asked = {sendbuff, recvbuff, count, TT_REDUCE, (int)type, (int)op, root, 0, 0, NULL};
  return call(comm, stream, &asked);
}

tuttiResult_t tuttiBroadcast(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type, int root,
                             tuttiComm_t comm, tuttiStream_t stream)
{
  struct asked asked = {sendbuff, recvbuff, count, TT_BROADCAST, (int)type, -1, root, 0, 0, NULL};
  return call(comm, stream, &asked);
}

tuttiResult_t tuttiBcast(void *buff, size_t count, tuttiDataType_t type, int root, tuttiComm_t comm,
                         tuttiStream_t stream)
{
  return tuttiBroadcast(buff, buff, count, type, root, comm, stream);
}

tuttiResult_t tuttiReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, tuttiDataType_t type,
                                 tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream)
{
  struct asked asked = {sendbuff, recvbuff, recvcount, TT_REDUCE_SCATTER, (int)type, (int)op, -1, 0, 0, NULL};
  return call(comm, stream, &asked);
}

tuttiResult_t tuttiAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, tuttiDataType_t type,
                             tuttiComm_t comm, tuttiStream_t stream)
{
  struct asked asked = {sendbuff, recvbuff, sendcount, TT_ALL_GATHER, (int)type, -1, -1, 0, 0, NULL};
  return call(comm, stream, &asked);
}

tuttiResult_t tuttiAlltoAll(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type, tuttiComm_t comm,
                            tuttiStream_t stream)
{
  struct asked asked = {sendbuff, recvbuff, count, TT_ALL_TO_ALL, (int)type, -1, -1, 0, 0, NULL};
  return call(comm, stream, &asked);
}

tuttiResult_t tuttiGather(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type, int root,
                          tuttiComm_t comm, tuttiStream_t stream)
{
  struct asked asked = {sendbuff, recvbuff, count, TT_GATHER, (int)type, -1, root, 0, 0, NULL};
  return call(comm, stream, &asked);
}

tuttiResult_t tuttiScatter(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type, int root,
                           tuttiComm_t comm, tuttiStream_t stream)
{
  struct asked asked = {sendbuff, recvbuff, count, TT_SCATTER, (int)type, -1, root, 0, 0, NULL};
  return call(comm, stream, &asked);
}

tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream)
{
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess && stream) result = tt_stream_check(stream);
  if (result != tuttiSuccess) return tt_group_refuse(result);
  void *byte = tt_comm_barrier_byte(comm);
  struct tt_binding binding = {.call = {.count = 1,
                                        .collective = TT_ALL_REDUCE,
                                        .type = tuttiUint8,
                                        .redop = tuttiMax,
                                        .root = -1,
                                        .form = TT_FORM_BARRIER},
                               .in = byte,
                               .out = byte,
                               .before = 1};
  return begin(comm, stream, &binding);
}

/* ---- messages between pairs ---- */

tuttiResult_t tt_transfer_check(const struct tuttiComm *comm, const struct tuttiStream *stream, const void *buffer,
                                const char *name, size_t count, int type)
{
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_type_check(type);
  if (result == tuttiSuccess && stream) result = tt_stream_check(stream);
  if (result != tuttiSuccess || !count) return result;
  if (!buffer) return tt_null(name);
  if (tt_cuda_has(buffer) && !(stream && tt_stream_is_cuda(stream)))
    return tt_fail(tuttiInvalidArgument, "%s %p is CUDA memory: give the call a stream made by tuttiStreamFromCuda, or "
                   "copy it to host memory first", name, buffer);
  if (count > SIZE_MAX / 2 / tt_type_size(type))
    return tt_fail(tuttiInvalidArgument, "count is %zu: more elements of %zu bytes than memory can hold", count,
                   tt_type_size(type));
  return tuttiSuccess;
}

/* A call outside of groups is a group of its own. */
static tuttiResult_t transfer_call(struct tuttiComm *comm, struct tuttiStream *stream,
                                   const struct tt_transfer *transfer)
{
  tuttiResult_t result = tuttiSuccess;
  if (transfer->peer < 0 || transfer->peer >= tt_comm_facts(comm)->nranks)
    result = tt_fail(tuttiInvalidArgument, "peer is %d: it must be from 0 to nranks - 1 = %d", transfer->peer,
                     tt_comm_facts(comm)->nranks - 1);
  if (result != tuttiSuccess) return result;
  tt_group_start();
  result = tt_group_transfer(comm, stream, transfer);
  if (result != tuttiSuccess) tt_group_refuse(result);
  tuttiResult_t ended = tt_group_end();
  return result == tuttiSuccess ? ended : result;
}

tuttiResult_t tuttiSend(const void *sendbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                        tuttiStream_t stream)
{
  tuttiResult_t result = tt_transfer_check(comm, stream, sendbuff, "sendbuff", count, (int)type);
  if (result == tuttiSuccess) {
    const struct tt_transfer transfer = {
        .peer = peer, .sends = 1, .data = (void *)(uintptr_t)sendbuff, .bytes = count * tt_type_size((int)type)};
    result = transfer_call(comm, stream, &transfer);
  }
  return result == tuttiSuccess ? result : tt_group_refuse(result);
}

tuttiResult_t tuttiRecv(void *recvbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                        tuttiStream_t stream)
{
  tuttiResult_t result = tt_transfer_check(comm, stream, recvbuff, "recvbuff", count, (int)type);
  if (result == tuttiSuccess) {
    const struct tt_transfer transfer = {
        .peer = peer, .sends = 0, .data = recvbuff, .bytes = count * tt_type_size((int)type)};
    result = transfer_call(comm, stream, &transfer);
  }
  return result == tuttiSuccess ? result : tt_group_refuse(result);
}

/* ---- operations with a scalar ---- */

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t *op, void *scalar, tuttiDataType_t type,
                                        tuttiScalarResidence_t residence, tuttiComm_t comm)
{
  if (!op) return tt_null("op");
  if (!scalar) return tt_null("scalar");
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_type_check((int)type);
  if (result == tuttiSuccess && (type == tuttiBool || tt_type_part((int)type) != (int)type))
    result = tt_fail(tuttiInvalidArgument, "type is %s: only integers and floats are multiplied before they are added",
                     tt_type_name((int)type));
  if (result != tuttiSuccess) return result;
  struct tt_redop redop = {.type = (int)type};
  if (residence == tuttiScalarHostImmediate) memcpy(&redop.scalar, scalar, tt_type_size((int)type));
  else if (residence == tuttiScalarDevice) redop.at = scalar;
  else
    return tt_fail(tuttiInvalidArgument,
                   "residence is %d: it must be tuttiScalarDevice (0) or "
                   "tuttiScalarHostImmediate (1)",
                   (int)residence);
  return tt_redop_create(comm, &redop, op);
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm)
{
  tuttiResult_t result = tt_comm_check(comm);
  return result == tuttiSuccess ? tt_redop_destroy(comm, op) : result;
}
