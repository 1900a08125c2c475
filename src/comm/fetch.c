/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls without a stream on memory of a GPU. The operation is triggered like one on a CUDA stream, but its caller waits
 * for it: that thread enqueues copies into slots of the communicator's own as these become free, and out of them once
 * their results are there. So nothing is ever parked on the stream of these copies, and ranks need not enqueue in any
 * order. The GPU tells of both by words of pinned memory; no other thread calls the driver. */
#include <string.h>

#include "comm/private.h"
#include "cuda/cuda.h"
#include "cuda/stream.h"

#define LEFT_NS ((uint64_t)1000000000) /* the copies under way after a failure take milliseconds */
#define ASK_NS ((uint64_t)100000000)   /* between looks at the context of a GPU that is behind */

enum quiet { ENQUEUES, WAITS, LOST }; /* of is_quiet. LOST: the GPU will not tell when it has finished */

int tt_fetch_looks(const struct tt_binding *binding)
{
  return binding->call.count && !binding->is_host &&
         (tt_cuda_has(binding->in) || tt_cuda_has(binding->out) || tt_cuda_has(binding->scalar_at));
}

static tuttiResult_t own_check(const struct tuttiComm *comm)
{
  if (comm->parts.own) return tt_slots_usable(comm->parts.own);
  return tt_fail(tuttiInvalidUsage, "%s belongs to no CUDA context, and has a call on memory of a GPU: make one "
                 "current (cudaSetDevice) before the communicator is made, or set config.device; the driver must be "
                 "that of CUDA 11.7 or newer", comm->facts.label);
}

tuttiResult_t tt_fetch_prepare(struct tt_op *op)
{
  const struct tuttiComm *comm = op->comm;
  tuttiResult_t result = tt_views_refuse(comm, "memory of GPUs");
  if (result == tuttiSuccess) result = own_check(comm);
  if (result == tuttiSuccess) tt_trigger_fetch(op);
  return result;
}

static int32_t ahead(const _Atomic uint32_t *word, uint32_t number)
{
  return (int32_t)(atomic_load_explicit(word, memory_order_acquire) - number);
}

static uint32_t last_of(const struct tt_op *op)
{
  return op->trigger.first + op->trigger.npieces - 1;
}

/* Pieces whose results are in their slots. */
static uint32_t pieces_done(const struct tt_op *op)
{
  int32_t done = ahead(op->slots->done, op->trigger.first) + 1;
  return done > 0 ? (uint32_t)done : 0;
}

/* In the context. */
static tuttiResult_t pieces_move(struct tt_op *op, uint32_t done)
{
  tuttiResult_t result = op->brought ? tuttiSuccess : tt_slots_follow(op->slots, op->cuda, 0);
  while (op->taken < done && result == tuttiSuccess) result = tt_trigger_take(op, op->taken++);
  while (op->brought < op->trigger.npieces && op->brought < op->taken + op->trigger.nslots && result == tuttiSuccess)
    result = tt_trigger_bring(op, op->brought++);
  return result;
}

/* In the context: nothing more is enqueued. */
static tuttiResult_t enqueued(struct tt_op *op)
{
  tuttiResult_t result = tt_slots_end(op->slots, last_of(op));
  op->is_quiet = result == tuttiSuccess ? WAITS : LOST;
  return result;
}

static void op_fail(struct tt_op *op, tuttiResult_t result)
{
  result = tt_comm_give_up(op->comm, result, 0);
  if (op->fetched == tuttiSuccess) op->fetched = result;
}

static tuttiResult_t gpu_is_late(const struct tuttiComm *comm, const struct tt_slots *slots)
{
  return tt_fail(tuttiUnhandledCudaError, "GPU %d has not ended a copy of a call for %lld ms (TUTTI_TIMEOUT_MS): see "
                 "whether work of this process that waits for something holds up its queues", slots->ordinal,
                 (long long)comm->facts.settings.timeout_ms);
}

/* The GPU may keep the call waiting for as long as a rank may, but one whose context has failed does nothing more. */
static void late_look(struct tt_op *op, int is_behind)
{
  uint64_t limit_ns = (uint64_t)op->comm->facts.settings.timeout_ms * 1000000, now_ns = tt_now_ns();
  if (!is_behind || !op->fetch_ns) op->fetch_ns = op->asked_ns = is_behind ? now_ns : 0;
  if (!is_behind || op->fetched != tuttiSuccess) return;
  if (now_ns - op->asked_ns > ASK_NS) {
    op->asked_ns = now_ns;
    tuttiResult_t result = tt_slots_standing(op->slots);
    if (result != tuttiSuccess) op->is_quiet = LOST;
    if (result != tuttiSuccess) op_fail(op, result);
  } else if (limit_ns && now_ns - op->fetch_ns > limit_ns) op_fail(op, gpu_is_late(op->comm, op->slots));
}

static void op_move(struct tt_op *op, int *moved)
{
  uint32_t done = pieces_done(op);
  int has_failed = op->fetched != tuttiSuccess || (tt_op_done(op) && op->result != tuttiSuccess);
  int brings = op->brought < op->trigger.npieces && op->brought < op->taken + op->trigger.nslots;
  if (!has_failed && op->taken == done && !brings) {
    late_look(op, ahead(op->slots->ready, op->trigger.first + op->brought - 1) < 0);
    return;
  }
  *moved = 1;
  tuttiResult_t result = tt_slots_enter(op->slots);
  if (result != tuttiSuccess) {
    op->is_quiet = LOST;
    op_fail(op, result);
    return;
  }
  if (!has_failed) result = pieces_move(op, done);
  if (result != tuttiSuccess) op_fail(op, result);
  if (has_failed || result != tuttiSuccess || op->taken == op->trigger.npieces) {
    tuttiResult_t ended = enqueued(op);
    if (ended != tuttiSuccess) op_fail(op, ended);
  }
  tt_slots_leave(op->slots);
}

void tt_fetch_move(struct tt_op *first, int *moved)
{
  for (struct tt_op *op = first; op; op = op->next_of_group) {
    struct tt_op **fetching = &op->comm->queue.fetching;
    if (!op->is_fetched || op->is_quiet || (*fetching && *fetching != op)) continue;
    op_move(op, moved);
    *fetching = op->is_quiet ? NULL : op;
  }
}

static int is_ended(const struct tuttiComm *comm)
{
  return atomic_load(&comm->life.aborting) || tt_comm_has_failed(comm);
}

int tt_fetch_is_over(struct tt_op *op)
{
  if (!op->is_quiet || !tt_op_done(op)) return 0;
  if (op->result == tuttiSuccess) op->result = op->fetched;
  if (op->is_quiet == LOST || ahead(op->slots->over, last_of(op)) >= 0) return 1;
  late_look(op, 1);
  if (op->result == tuttiSuccess) op->result = op->fetched;
  if (tt_now_ns() - op->fetch_ns <= LEFT_NS) return 0;
  if (op->result == tuttiSuccess && is_ended(op->comm)) op->result = tt_comm_why(op->comm);
  return op->result != tuttiSuccess;
}

tuttiResult_t tt_fetch_run(struct tuttiComm *comm, const struct tt_binding *binding)
{
  tuttiResult_t result = tt_comm_health(comm);
  if (result != tuttiSuccess) return result;
  struct tt_op *op = tt_op_take(comm, NULL, binding);
  if (!op) return tt_comm_give_up(comm, tt_fail(tuttiSystemError, "out of memory for an operation"), 0);
  result = tt_fetch_prepare(op);
  if (result != tuttiSuccess) {
    tt_op_give(op);
    return result;
  }
  op->next_of_group = NULL;
  tt_ops_submit(op);
  return tt_op_await(op);
}

/* ---- copies beside calls ---- */

/* A copy that is cut into pieces, numbered from `first`. */
struct copy {
  struct tuttiComm *comm;
  struct tt_slots *own;
  char *dst;
  const char *src;
  size_t bytes;
  uint32_t first, n;
};

static char *slot_of(const struct copy *copy, uint32_t p)
{
  return copy->own->first + p % TT_OWN_SLOTS * copy->own->bytes;
}

static size_t before(const struct copy *copy, uint32_t p)
{
  return p * copy->own->bytes;
}

static size_t bytes_of(const struct copy *copy, uint32_t p)
{
  size_t left = copy->bytes - before(copy, p);
  return left < copy->own->bytes ? left : copy->own->bytes;
}

static tuttiResult_t await(const struct copy *copy, const _Atomic uint32_t *word, uint32_t number)
{
  const struct tuttiComm *comm = copy->comm;
  uint64_t limit_ns = (uint64_t)comm->facts.settings.timeout_ms * 1000000, began_ns = tt_now_ns(), asked_ns = began_ns;
  tuttiResult_t result = tuttiSuccess;
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, comm->facts.oversubscribed);
  while (ahead(word, number) < 0 && result == tuttiSuccess) {
    if (is_ended(comm)) return tt_comm_why(comm);
    if (!tt_waiter_pause(&waiter, 0)) continue;
    uint64_t now_ns = tt_now_ns();
    if (limit_ns && now_ns - began_ns > limit_ns) return gpu_is_late(comm, copy->own);
    if (now_ns - asked_ns <= ASK_NS) continue;
    asked_ns = now_ns;
    result = tt_slots_standing(copy->own);
  }
  return result;
}

/* Enqueues the copy of a piece, on one side of its slot, and what tells of it. */
static tuttiResult_t piece_enqueue(const struct copy *copy, uint32_t p, int to_gpu)
{
  const struct tt_rows rows = {.dst = to_gpu ? copy->dst + before(copy, p) : slot_of(copy, p),
                               .src = to_gpu ? slot_of(copy, p) : copy->src + before(copy, p),
                               .width = bytes_of(copy, p),
                               .n = 1};
  tuttiResult_t result = tt_slots_copy(copy->own, copy->own->stream, &rows);
  return result == tuttiSuccess ? tt_slots_tell(copy->own, copy->own->stream, copy->first + p) : result;
}

/* The GPU fills a slot while the CPU empties the one before it. */
static tuttiResult_t copy_in(const struct copy *copy)
{
  tuttiResult_t result = piece_enqueue(copy, 0, 0);
  for (uint32_t p = 0; p < copy->n && result == tuttiSuccess; p++) {
    if (p + 1 < copy->n) result = piece_enqueue(copy, p + 1, 0);
    if (result == tuttiSuccess) result = await(copy, copy->own->ready, copy->first + p);
    if (result == tuttiSuccess) memcpy(copy->dst + before(copy, p), slot_of(copy, p), bytes_of(copy, p));
  }
  return result;
}

static tuttiResult_t copy_out(const struct copy *copy)
{
  tuttiResult_t result = tuttiSuccess;
  for (uint32_t p = 0; p < copy->n && result == tuttiSuccess; p++) {
    if (p >= TT_OWN_SLOTS) result = await(copy, copy->own->ready, copy->first + p - TT_OWN_SLOTS);
    if (result != tuttiSuccess) return result;
    memcpy(slot_of(copy, p), copy->src + before(copy, p), bytes_of(copy, p));
    result = piece_enqueue(copy, p, 1);
  }
  return result;
}

/* After a failure: copies that are under way touch memory of the caller until they are over. */
static void rest_await(const struct copy *copy)
{
  uint64_t until_ns = tt_now_ns() + LEFT_NS;
  while (ahead(copy->own->over, copy->first + copy->n - 1) < 0 && tt_now_ns() < until_ns) sched_yield();
}

tuttiResult_t tt_comm_copy(struct tuttiComm *comm, void *dst, const void *src, size_t bytes)
{
  tuttiResult_t result = own_check(comm);
  if (result != tuttiSuccess || !bytes) return result;
  struct tt_slots *own = comm->parts.own;
  struct copy copy = {.comm = comm, .own = own, .dst = dst, .src = src, .bytes = bytes};
  copy.n = (uint32_t)((bytes + own->bytes - 1) / own->bytes);
  copy.first = atomic_fetch_add(&own->newest, copy.n) + 1;
  result = tt_slots_enter(own);
  if (result != tuttiSuccess) return result;
  result = tt_slots_follow(own, own->stream, 0);
  if (result == tuttiSuccess) result = tt_cuda_has(dst) ? copy_out(&copy) : copy_in(&copy);
  tuttiResult_t ended = tt_slots_end(own, copy.first + copy.n - 1);
  tt_slots_leave(own);
  if (result == tuttiSuccess) result = ended;
  if (result == tuttiSuccess) result = await(&copy, own->over, copy.first + copy.n - 1);
  if (result != tuttiSuccess && ended == tuttiSuccess) rest_await(&copy);
  return result;
}
