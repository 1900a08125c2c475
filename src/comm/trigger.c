/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on memory of GPUs. The calling thread enqueues all that the GPU has to do: for each piece of the call,
 * copies into a slot and the word `ready`; then the wait for `done` and copies out of the slot. In between the
 * operation is one of the queue, which starts when `ready` says so and works on the slots (src/cuda/README.md). */
#include <string.h>

#include "comm/private.h"
#include "cuda/cuda.h"
#include "cuda/stream.h"

/* ---- before it is queued ---- */

/* The executor changes the call of messages while they are under way, so the enqueuing thread does not look at it. */
static int has_messages(const struct tt_op *op)
{
  return op->binding.ntransfers > 0;
}

/* Shares of a buffer that exists. */
static size_t shares_of(const struct tt_op *op, int cover)
{
  int is_shared = tt_kinds[op->binding.call.collective].is_shared;
  return is_shared && cover != TT_COVER_OWN ? (size_t)op->comm->facts.nranks : 1;
}

static size_t ins_of(const struct tt_op *op)
{
  return op->binding.in ? shares_of(op, tt_kinds[op->binding.call.collective].in) : 0;
}

static size_t outs_of(const struct tt_op *op)
{
  return op->binding.out ? shares_of(op, tt_kinds[op->binding.call.collective].out) : 0;
}

tuttiResult_t tt_trigger_check(const struct tuttiComm *comm, void *stream, uint64_t *capture)
{
  if (comm->parts.slots) return tt_slots_check(comm->parts.slots, stream, capture);
  return tt_fail(tuttiInvalidUsage, "%s belongs to no CUDA context: make one current (cudaSetDevice) before the "
                                    "communicator is made, or set config.device", comm->facts.label);
}

/* Chooses the buffers that go through slots, and their places there. */
static void sides_choose(struct tt_op *op)
{
  const struct tt_slots *slots = op->slots;
  const struct tt_binding *binding = &op->binding;
  struct tt_trigger *trigger = &op->trigger;
  int32_t rank = op->comm->facts.rank;
  size_t ins = ins_of(op), outs = outs_of(op);
  int is_apart = tt_kinds[binding->call.collective].is_apart;
  trigger->in_share = tt_cuda_has(binding->in) ? 0 : -1;
  trigger->out_share = tt_cuda_has(binding->out) ? 0 : -1;
  if (trigger->in_share >= 0 && outs > ins) trigger->in_share = rank;
  if (trigger->out_share >= 0 && ins > outs) trigger->out_share = rank;
  if (trigger->in_share >= 0 || trigger->out_share >= 0) trigger->slots = slots->first;
  trigger->out_at = is_apart ? slots->bytes / 2 : 0;
}

/* Triggers an op by a stream that was checked. */
static void trigger_set(struct tt_op *op, struct tt_slots *slots, void *stream, uint64_t capture, int waits)
{
  op->slots = slots;
  op->is_triggered = !slots->stream;
  op->is_fetched = !op->is_triggered;
  op->capture = capture;
  op->cuda = op->own_cuda = stream;
  op->trigger = (struct tt_trigger){.is_replayed = capture != 0,
                                    .ready = capture ? slots->turn_ready : slots->ready,
                                    .done = capture ? slots->turn_done : slots->done,
                                    .npieces = waits ? 1 : 0,
                                    .slot_bytes = slots->bytes,
                                    .nslots = capture ? 1 : slots->n};
  op->binding.trigger = &op->trigger;
}

/* Chooses what goes through slots, piece by piece. */
static void call_cut(struct tt_op *op)
{
  struct tt_binding *binding = &op->binding;
  const struct tt_slots *slots = op->slots;
  if (!binding->call.count) return;
  sides_choose(op);
  if (tt_cuda_has(binding->scalar_at)) {
    op->scalar_from = binding->scalar_at;
    binding->scalar_at = slots->scalar;
  }
  size_t piece = tt_piece_count(&binding->call, op->comm->facts.nranks, slots->bytes);
  if (!op->trigger.slots) return;
  op->trigger.npieces =
      binding->shares ? tt_pieces_of_shares(&binding->call, binding->shares, op->comm->facts.nranks, slots->bytes)
                      : (uint32_t)((binding->call.count + piece - 1) / piece);
}

tuttiResult_t tt_trigger_prepare(struct tt_op *op, void *stream)
{
  uint64_t capture = 0;
  tuttiResult_t result = tt_trigger_check(op->comm, stream, &capture);
  if (result != tuttiSuccess) return result;
  trigger_set(op, op->comm->parts.slots, stream, capture, op->binding.call.count != 0);
  call_cut(op);
  return result;
}

void tt_trigger_fetch(struct tt_op *op)
{
  trigger_set(op, op->comm->parts.own, op->comm->parts.own->stream, 0, op->binding.call.count != 0);
  call_cut(op);
}

void tt_trigger_copy(struct tt_op *op, const struct tt_op *like)
{
  op->is_triggered = 1;
  op->slots = like->slots;
  op->capture = like->capture;
  op->cuda = op->own_cuda = like->own_cuda;
  op->trigger = like->trigger;
  op->binding.trigger = &op->trigger;
}

void tt_trigger_messages(struct tt_op *op, void *stream, uint64_t capture)
{
  trigger_set(op, op->comm->parts.slots, stream, capture,
              op->binding.call.collective == TT_PAIRS); /* another one only names a stream */
  op->trigger.nslots = 1;
}

void tt_trigger_message(const struct tt_op *op, struct tt_transfer *message)
{
  if (op->is_triggered && message->bytes && tt_cuda_has(message->data)) message->gpu = message->data;
}

void tt_triggers_number(struct tt_op *first)
{
  for (struct tt_op *op = first; op; op = op->next_of_group) {
    struct tt_slots *slots = op->slots;
    if (!slots) continue;
    _Atomic uint32_t *newest = op->capture ? &slots->newest_turn : &slots->newest;
    op->trigger.first = atomic_fetch_add(newest, op->trigger.npieces) + 1;
    if (op->is_triggered && op->trigger.npieces) op->turn = ++op->comm->queue.last_turn;
  }
}

/* ---- enqueued ---- */

/* A piece of the call: elements of a share before it, and in it. */
struct piece {
  size_t before, count;
  char *slot;
};

static struct piece piece_find(const struct tt_op *op, uint32_t p)
{
  const struct tt_trigger *trigger = &op->trigger;
  size_t count = op->binding.call.count, each = count;
  if (trigger->slots) each = tt_piece_count(&op->binding.call, op->comm->facts.nranks, trigger->slot_bytes);
  struct piece piece = {.before = p * each, .count = count - p * each};
  if (piece.count > each) piece.count = each;
  if (trigger->slots) piece.slot = trigger->slots + p % trigger->nslots * trigger->slot_bytes;
  return piece;
}

/* The scalar comes with the first piece. */
static tuttiResult_t scalar_bring(struct tt_op *op)
{
  struct tt_slots *slots = op->slots;
  const struct tt_rows rows = {.dst = slots->scalar,
                               .src = op->scalar_from,
                               .width = tt_type_size(op->binding.call.type),
                               .n = 1};
  return tt_slots_copy(slots, op->cuda, &rows);
}

/* Messages go between the GPU and their places in the slots. */
static tuttiResult_t messages_copy(struct tt_op *op, int sends)
{
  tuttiResult_t result = tuttiSuccess;
  for (int i = 0; i < op->binding.ntransfers && result == tuttiSuccess; i++) {
    const struct tt_transfer *transfer = &op->binding.transfers[i];
    if (!transfer->gpu || transfer->sends != sends) continue;
    const struct tt_rows rows = {.dst = sends ? transfer->data : transfer->gpu,
                                 .src = sends ? transfer->gpu : transfer->data,
                                 .width = transfer->bytes,
                                 .n = 1};
    result = tt_slots_copy(op->slots, op->cuda, &rows);
  }
  return result;
}

/* The parts of unequal shares go between the GPU and the slot of a piece, where all of them follow each other. */
static tuttiResult_t unequal_copy(struct tt_op *op, uint32_t p, int brings)
{
  const struct tt_binding *binding = &op->binding;
  const struct tt_trigger *trigger = &op->trigger;
  const struct tt_kind *kind = &tt_kinds[binding->call.collective];
  const size_t size = tt_type_size(binding->call.type);
  const char *memory = brings ? binding->in : binding->out;
  char *slot = trigger->slots + p % trigger->nslots * trigger->slot_bytes;
  int is_own = (brings ? kind->in : kind->out) == TT_COVER_OWN;
  tuttiResult_t result = tuttiSuccess;
  for (int r = 0; r < op->comm->facts.nranks && result == tuttiSuccess; r++) {
    size_t before, part = tt_piece_part(binding->shares->counts[r], p, trigger->npieces, &before) * size;
    const char *at = memory + ((is_own ? 0 : binding->shares->starts[r]) + before) * size;
    const struct tt_rows rows = {.dst = brings ? slot : (char *)(uintptr_t)at,
                                 .src = brings ? at : slot,
                                 .width = part,
                                 .n = !is_own || r == op->comm->facts.rank};
    result = tt_slots_copy(op->slots, op->cuda, &rows);
    slot += part;
  }
  return result;
}

/* The contributions to a piece of a collective go into its slot. */
static tuttiResult_t shares_bring(struct tt_op *op, uint32_t p)
{
  const struct tt_trigger *trigger = &op->trigger;
  if (trigger->in_share < 0) return tuttiSuccess;
  if (op->binding.shares) return unequal_copy(op, p, 1);
  struct piece piece = piece_find(op, p);
  const size_t size = tt_type_size(op->binding.call.type), part = piece.count * size;
  const struct tt_rows rows = {.dst = piece.slot + (size_t)trigger->in_share * part,
                               .src = (const char *)op->binding.in + piece.before * size,
                               .width = part,
                               .n = ins_of(op),
                               .dst_pitch = part,
                               .src_pitch = op->binding.call.count * size};
  return tt_slots_copy(op->slots, op->cuda, &rows);
}

static tuttiResult_t piece_in(struct tt_op *op, uint32_t p)
{
  tuttiResult_t result = p == 0 && op->scalar_from ? scalar_bring(op) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  return has_messages(op) ? messages_copy(op, 1) : shares_bring(op, p);
}

tuttiResult_t tt_trigger_bring(struct tt_op *op, uint32_t p)
{
  tuttiResult_t result = piece_in(op, p);
  if (op->capture) return result; /* it tells when it waits */
  return result == tuttiSuccess ? tt_slots_tell(op->slots, op->cuda, op->trigger.first + p) : result;
}

tuttiResult_t tt_trigger_take(struct tt_op *op, uint32_t p)
{
  const struct tt_trigger *trigger = &op->trigger;
  if (trigger->out_share < 0) return tuttiSuccess;
  if (op->binding.shares) return unequal_copy(op, p, 0);
  struct piece piece = piece_find(op, p);
  const size_t size = tt_type_size(op->binding.call.type), part = piece.count * size;
  const struct tt_rows rows = {.dst = (char *)op->binding.out + piece.before * size,
                               .src = piece.slot + trigger->out_at + (size_t)trigger->out_share * part,
                               .width = part,
                               .n = outs_of(op),
                               .dst_pitch = op->binding.call.count * size,
                               .src_pitch = part};
  return tt_slots_copy(op->slots, op->cuda, &rows);
}

/* is_told: that the piece is in its slot. */
static tuttiResult_t piece_out(struct tt_op *op, uint32_t p, int is_told)
{
  struct tt_slots *slots = op->slots;
  const uint32_t number = op->trigger.first + p;
  tuttiResult_t result = op->capture ? tt_slots_turn(slots, op->cuda, number)
                         : is_told   ? tt_slots_await(slots, op->cuda, number)
                                     : tt_slots_meet(slots, op->cuda, number);
  if (result != tuttiSuccess) return result;
  result = has_messages(op) ? messages_copy(op, 0) : tt_trigger_take(op, p);
  return result == tuttiSuccess && op->capture ? tt_slots_taken(slots, op->cuda) : result;
}

/* An op of one piece whose rank enqueues by itself: nothing has to come between its two parts. */
static int is_short(const struct tt_op *op)
{
  return op->trigger.npieces == 1 && !op->comm->parts.meeting;
}

static tuttiResult_t op_enqueue(struct tt_op *op)
{
  struct tt_slots *slots = op->slots;
  tuttiResult_t result = tt_slots_enter(slots);
  if (result != tuttiSuccess) return result;
  result = tt_slots_follow(slots, op->cuda, op->capture);
  if (result == tuttiSuccess) result = piece_in(op, 0);
  if (result == tuttiSuccess) result = piece_out(op, 0, 0);
  if (result == tuttiSuccess) result = tt_slots_mark(slots, op->cuda, op->capture);
  tt_slots_leave(slots);
  return result;
}

/* Step t of an op: what fills the slot of piece t, or before that, what empties it of the piece that had it. */
static tuttiResult_t op_step(struct tt_op *op, uint32_t t, int empties)
{
  struct tt_slots *slots = op->slots;
  uint32_t npieces = op->trigger.npieces, nslots = op->trigger.nslots;
  int is_idle = empties ? t < nslots || t - nslots >= npieces : t >= npieces;
  if (is_idle) return tuttiSuccess;
  tuttiResult_t result = empties ? tt_meeting_await(op->comm, op->turn, t - nslots + 1) : tuttiSuccess;
  if (result == tuttiSuccess) result = tt_slots_enter(slots);
  if (result != tuttiSuccess) return result;
  if (!empties && t == 0) result = tt_slots_follow(slots, op->cuda, op->capture);
  if (result == tuttiSuccess) result = empties ? piece_out(op, t - nslots, 1) : tt_trigger_bring(op, t);
  if (result == tuttiSuccess && empties && t - nslots == npieces - 1)
    result = tt_slots_mark(slots, op->cuda, op->capture);
  tt_slots_leave(slots);
  if (!empties) tt_meeting_tell(op->comm, op->turn, t + 1, t + 1 == npieces);
  return result;
}

/* ---- a list of them ---- */

static int key_compare(const struct tt_op *a, const struct tt_op *b)
{
  return memcmp(a->comm->parts.credentials.job, b->comm->parts.credentials.job, sizeof a->comm->parts.credentials.job);
}

/* The op after `op` that the same communicator enqueues; with op NULL, its first. */
static const struct tt_op *next_of(const struct tt_op *op, const struct tt_op *first, const struct tuttiComm *comm)
{
  for (op = op ? op->next_of_group : first; op; op = op->next_of_group)
    if (op->comm == comm && op->trigger.npieces) return op;
  return NULL;
}

/* Ranks on one GPU enqueue in step: the n-th operations of `comm` and of the first such rank of the list are both
 * messages, or neither. */
static tuttiResult_t kinds_check(const struct tt_op *first, const struct tt_op *own)
{
  const struct tt_op *mine = NULL, *theirs = first;
  while (!theirs->trigger.npieces || key_compare(theirs, own) != 0 || !theirs->comm->parts.meeting)
    theirs = theirs->next_of_group;
  const struct tuttiComm *comm = own->comm, *other = theirs->comm;
  for (theirs = NULL;;) {
    mine = next_of(mine, first, comm);
    theirs = next_of(theirs, first, other);
    if (!mine || !theirs || has_messages(mine) == has_messages(theirs)) break;
    return tt_fail(tuttiInvalidUsage, "ranks %d and %d of %s are on one GPU, and one has a collective in this group "
                   "where the other has messages: put collectives and messages into two groups", comm->facts.rank,
                   other->facts.rank, comm->facts.label);
  }
  return tuttiSuccess;
}

/* A GPU may do strictly one thing after the other, and a call on a stream then has it wait for other ranks before the
 * copies of a call without one are done, on which those may depend. */
static tuttiResult_t ways_check(const struct tt_op *first)
{
  const struct tt_op *triggered = NULL, *fetched = NULL;
  for (const struct tt_op *op = first; op; op = op->next_of_group)
    if (op->is_triggered) triggered = op;
    else if (op->is_fetched) fetched = op;
  if (!triggered || !fetched) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "a group has a call of %s on memory of a GPU without a stream, and a call of %s on "
                 "stream %p: give both a CUDA stream, or put them into two groups", fetched->comm->facts.label,
                 triggered->comm->facts.label, triggered->own_cuda);
}

tuttiResult_t tt_triggers_check(const struct tt_op *first)
{
  tuttiResult_t are_alike = ways_check(first);
  if (are_alike != tuttiSuccess) return are_alike;
  for (const struct tt_op *op = first; op; op = op->next_of_group) {
    const struct tt_op *like = first;
    if (!op->is_triggered) continue;
    int is_first_of_comm = op->comm->parts.meeting && op == next_of(NULL, first, op->comm);
    tuttiResult_t result = is_first_of_comm ? kinds_check(first, op) : tuttiSuccess;
    if (result != tuttiSuccess) return result;
    while (!like->is_triggered || like->comm != op->comm) like = like->next_of_group;
    if (like->capture == op->capture) continue;
    return tt_fail(tuttiInvalidUsage, "a group has calls of %s on streams %p and %p, which are not captured into one "
                                      "CUDA graph: capture both into one, or none, or put the calls into two groups",
                   op->comm->facts.label, like->own_cuda, op->own_cuda);
  }
  return tuttiSuccess;
}

static tuttiResult_t round_step(struct tt_op *round, uint32_t t, int empties)
{
  tuttiResult_t result = tuttiSuccess;
  for (struct tt_op *op = round; op && result == tuttiSuccess; op = op->next_of_round) {
    result = op_step(op, t, empties);
    if (result != tuttiSuccess) result = tt_comm_give_up(op->comm, result, 0);
  }
  return result;
}

/* Enqueues one op of each rank that the thread has in a communicator: step by step, in each of these first all ops'
 * parts that wait for no other rank. So none of them stands in a queue of the GPU behind a wait that needs it. */
static tuttiResult_t round_enqueue(struct tt_op *round)
{
  tuttiResult_t result = tuttiSuccess;
  uint32_t steps = 0;
  if (!round->next_of_round && is_short(round)) {
    result = op_enqueue(round);
    return result == tuttiSuccess ? result : tt_comm_give_up(round->comm, result, 0);
  }
  for (struct tt_op *op = round; op; op = op->next_of_round) {
    uint32_t its = op->trigger.npieces ? op->trigger.npieces + op->trigger.nslots : 0;
    if (its > steps) steps = its;
  }
  for (uint32_t t = 0; t < steps && result == tuttiSuccess; t++) {
    result = round_step(round, t, 1);
    if (result == tuttiSuccess) result = round_step(round, t, 0);
  }
  return result;
}

/* The first op that is left of the communicator with the lowest key; NULL: none is left. All ranks have the keys, so
 * all come to their communicators in the same order, whatever that of the calls in the group. */
static struct tt_op *lowest(struct tt_op *first)
{
  struct tt_op *lowest = NULL;
  for (struct tt_op *op = first; op; op = op->next_of_group)
    if (op->is_triggered && !op->is_enqueued && (!lowest || key_compare(op, lowest) < 0)) lowest = op;
  return lowest;
}

/* Takes the first op that is left of each rank of that communicator. */
static struct tt_op *round_take(struct tt_op *first)
{
  struct tt_op *round = lowest(first), *last = round;
  if (!round) return NULL;
  round->is_enqueued = 1;
  round->next_of_round = NULL;
  for (struct tt_op *op = round->next_of_group; op; op = op->next_of_group) {
    int is_other = op->is_triggered && !op->is_enqueued && key_compare(op, round) == 0;
    for (struct tt_op *has = round; has && is_other; has = has->next_of_round) is_other = has->comm != op->comm;
    if (!is_other) continue;
    op->is_enqueued = 1;
    op->next_of_round = NULL;
    last->next_of_round = op;
    last = op;
  }
  return round;
}

/* One stream waits for another one. */
static tuttiResult_t stream_join(struct tt_slots *slots, void *stream, void *other)
{
  tuttiResult_t result = tt_slots_enter(slots);
  if (result != tuttiSuccess) return result;
  result = tt_slots_join(slots, stream, other);
  tt_slots_leave(slots);
  return result;
}

/* A communicator has failed in this very call: no more of its operations are enqueued. Those of others are, as nobody
 * else would end them. */
static void comm_drop(struct tt_op *first, const struct tuttiComm *comm)
{
  for (struct tt_op *op = first; op; op = op->next_of_group)
    if (op->comm == comm) op->is_enqueued = 1;
}

/* A group's operations of one communicator go to the stream of the first of them. It waits for the streams of the
 * others, and they for it. */
static void streams_join(struct tt_op *first, int is_end, tuttiResult_t *result)
{
  for (struct tt_op *op = first; op; op = op->next_of_group) {
    struct tt_op *main = first;
    if (!op->is_triggered || (!is_end && op->is_enqueued)) continue;
    while (!main->is_triggered || main->comm != op->comm) main = main->next_of_group;
    if (main->own_cuda == op->own_cuda) continue;
    op->cuda = main->own_cuda;
    tuttiResult_t its = is_end ? stream_join(op->slots, op->own_cuda, main->own_cuda)
                               : stream_join(op->slots, main->own_cuda, op->own_cuda);
    if (its == tuttiSuccess) continue;
    its = tt_comm_give_up(op->comm, its, 0);
    comm_drop(first, op->comm);
    if (*result == tuttiSuccess) *result = its;
  }
}

tuttiResult_t tt_triggers_enqueue(struct tt_op *first)
{
  tuttiResult_t result = tuttiSuccess;
  if (first->next_of_group) streams_join(first, 0, &result);
  for (struct tt_op *round = round_take(first); round; round = round_take(first)) {
    tuttiResult_t its = round_enqueue(round);
    if (its == tuttiSuccess) continue;
    for (const struct tt_op *op = round; op; op = op->next_of_round) comm_drop(first, op->comm);
    if (result == tuttiSuccess) result = its;
  }
  if (first->next_of_group) streams_join(first, 1, &result);
  return result;
}

int tt_trigger_lets_start(const struct tt_op *op)
{
  return op->started || tt_trigger_is_open(&op->trigger, 0) || tt_comm_has_failed(op->comm);
}

void tt_trigger_fail(const struct tuttiComm *comm)
{
  if (!atomic_load(&comm->life.aborting) && !atomic_load(&comm->life.revoked)) tt_slots_trap(comm->parts.slots);
}

void tt_trigger_end(const struct tt_op *op, tuttiResult_t result)
{
  if (result != tuttiSuccess) tt_trigger_fail(op->comm);
  else if (op->binding.call.collective == TT_PAIRS) tt_trigger_tell(&op->trigger, 0); /* collectives do so in exec */
}

void tt_trigger_release(struct tuttiComm *comm)
{
  if (comm->parts.slots) tt_slots_release(comm->parts.slots);
}
