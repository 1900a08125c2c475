/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: choice of algorithm, plan cache, the queue, and its owner. */
#include "comm/private.h"

#include <stdio.h>
#include <string.h>

/* ---- plans ---- */

/* The schedule of this rank: written for places on the wire, then renumbered. */
static tuttiResult_t schedule_make(struct tuttiComm *comm, const struct tt_choice *choice, int root,
                                   struct tt_schedule *schedule)
{
  const struct tt_arrangement *wire = &comm->parts.arrangement;
  const struct tt_tuning tuning = {.nranks = comm->facts.nranks, .groups = &wire->groups};
  const struct tt_algo *algo = &tt_algos[choice->algo];
  int is_ordered = !tt_kinds[algo->collective].is_shared && !comm->facts.settings.deterministic;
  int32_t rank = is_ordered ? comm->parts.position : comm->facts.rank, on_wire = root;
  for (int32_t p = 0; is_ordered && root >= 0 && p < comm->facts.nranks; p++)
    if (wire->order[p] == root) on_wire = p;
  struct tt_shape shape = tt_choice_shape(choice, &tuning, rank, on_wire);
  tt_schedule_init(schedule, &shape);
  tt_algo_schedule(algo, schedule, &shape, (int)comm->facts.settings.deterministic);
  if (is_ordered) tt_pass_order(schedule, wire->order);
  return schedule->error;
}

static tuttiResult_t plan_make(struct tuttiComm *comm, const struct tt_choice *choice, int root, struct tt_plan **plan)
{
  struct tt_schedule schedule;
  tuttiResult_t result = schedule_make(comm, choice, root, &schedule);
  if (result == tuttiSuccess) result = tt_plan_create(plan, &schedule);
  tt_schedule_destroy(&schedule);
  if (result != tuttiSuccess) return result;
  if (comm->calls.nplans == TT_COMM_PLANS) { /* full: the first one goes */
    tt_run_forget(comm->parts.run, comm->calls.plans[0].plan);
    tt_plan_destroy(comm->calls.plans[0].plan);
    memmove(&comm->calls.plans[0], &comm->calls.plans[1], sizeof comm->calls.plans[0] * (TT_COMM_PLANS - 1));
    comm->calls.nplans--;
  }
  comm->calls.plans[comm->calls.nplans++] = (struct tt_plan_entry){root, *choice, *plan};
  return tuttiSuccess;
}

static int same_plan(const struct tt_plan_entry *entry, const struct tt_choice *choice, int root)
{
  const struct tt_choice *has = &entry->choice;
  return has->algo == choice->algo && entry->root == root && has->radix == choice->radix &&
         has->middle == choice->middle;
}

/* Moves a plan that is used towards the end of the array, where the search begins and no plan is dropped. */
static void plan_raise(struct tuttiComm *comm, int i)
{
  if (i + 1 == comm->calls.nplans) return;
  struct tt_plan_entry raised = comm->calls.plans[i];
  comm->calls.plans[i] = comm->calls.plans[i + 1];
  comm->calls.plans[i + 1] = raised;
}

/* The last plan is looked at first. */
static inline tuttiResult_t plan_bind(struct tuttiComm *comm, struct tt_binding *binding,
                                      const struct tt_choice *choice, struct tt_plan **plan)
{
  int root = binding->call.form & (TT_FORM_CODED | TT_FORM_LEARN) ? -1 : binding->call.root;
  binding->call.algo = choice->algo;
  binding->block_bytes = choice->block_bytes;
  for (int i = comm->calls.nplans - 1; i >= 0; i--)
    if (same_plan(&comm->calls.plans[i], choice, root)) {
      *plan = comm->calls.plans[i].plan;
      plan_raise(comm, i);
      return tuttiSuccess;
    }
  return plan_make(comm, choice, root, plan);
}

tuttiResult_t tt_plan_bind(struct tuttiComm *comm, struct tt_binding *binding, const struct tt_choice *choice,
                           struct tt_plan **plan)
{
  return plan_bind(comm, binding, choice, plan);
}

/* tuttiInProgress: the call waits for an exchange of the learner. moved: NULL: the call goes by the table, whatever is
 * learnt. */
static inline tuttiResult_t choose(struct tuttiComm *comm, const struct tt_binding *binding,
                                   const struct tt_choice **choice, int *moved)
{
  const struct tt_call *call = &binding->call;
  size_t size = tt_type_size(tt_call_wire_type(call));
  uint64_t bytes = call->count * size;
  struct tt_learning *learning = moved ? comm->calls.learning : NULL;
  struct tt_learn_cell *cell = learning ? tt_learning_cell(learning, call->collective, size, bytes) : NULL;
  *choice = cell ? &cell->choice : tt_table_choice(&comm->calls.table, call->collective, bytes);
  if (!cell || __builtin_expect(--cell->quiet != 0, 1)) return tuttiSuccess;
  return tt_learning_turn(comm, cell, binding, moved);
}

/* Numbers the messages, each among those of its peer and direction. */
static void transfers_number(struct tuttiComm *comm, struct tt_binding *binding)
{
  for (int i = 0; i < binding->ntransfers; i++) {
    struct tt_transfer *transfer = &binding->transfers[i];
    transfer->number = ++(transfer->sends ? comm->queue.sent : comm->queue.received)[transfer->peer];
  }
}

/* Numbers the call and starts it on the communicator's run. The caller owns the communicator. A caller with a waiter
 * may be kept waiting: *done is set to 1 if the call is over then. tuttiInProgress: call it again, because an exchange
 * of the learner comes before the call. */
static tuttiResult_t start(struct tuttiComm *comm, struct tt_binding *binding, struct tt_waiter *waiter, int *done,
                           int *moved)
{
  struct tt_plan *plan;
  const struct tt_choice *choice;
  tuttiResult_t result = tuttiSuccess;
  if (binding->call.collective == TT_PAIRS) {
    transfers_number(comm, binding);
    result = tt_run_start_pairs(comm->parts.run, binding);
  } else {
    result = choose(comm, binding, &choice, binding->shares ? NULL : moved); /* shares of no bytes need nobody */
    if (__builtin_expect(result != tuttiSuccess, 0)) return result;
    binding->call.op = ++comm->queue.last_op;
    if (binding->scalar_at && binding->call.count)
      memcpy(&binding->scalar, binding->scalar_at, tt_type_size(binding->call.type));
    result = plan_bind(comm, binding, choice, &plan);
    if (result == tuttiSuccess)
      result = waiter ? tt_run_at_once(comm->parts.run, plan, binding, waiter, done)
                      : tt_run_start(comm->parts.run, plan, binding);
  }
  if (result == tuttiSuccess) return result;
  return tt_comm_give_up(comm, result, binding->call.op);
}

tuttiResult_t tt_op_start(struct tt_op *op)
{
  return start(op->comm, &op->binding, NULL, NULL, NULL);
}

tuttiResult_t tt_comm_halt(struct tuttiComm *comm, tuttiResult_t result)
{
  for (struct tt_transport **at = comm->parts.transports, **end = at + comm->parts.ntransports; at < end; at++)
    if (*at && (*at)->ops->halt) (*at)->ops->halt(*at);
  tt_comm_dump(comm);
  return result;
}

/* Nobody else moves the communicator's operations meanwhile. */
enum tt_slept tt_comm_sleep(void *it, uint64_t ns)
{
  struct tuttiComm *comm = it;
  if (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) return TT_SLEPT_NOT;
  const struct tt_messages *messages = atomic_load(&comm->messages.n) ? comm->messages.engine : NULL;
  enum tt_slept slept = tt_run_sleep(comm->parts.run, messages, -1, ns);
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
  return slept;
}

/* How one operation of the communicator is waited for. */
static void waiter_init(struct tt_waiter *waiter, struct tuttiComm *comm)
{
  tt_waiter_init(waiter, comm->facts.oversubscribed);
  waiter->sleep = tt_comm_sleep;
  waiter->sleeper = comm;
}

/* ---- the calling thread runs it ---- */

/* Starts it after the exchange, for which a waiter of its own waits: the call begins to wait afterwards. */
static tuttiResult_t start_later(struct tuttiComm *comm, struct tt_binding *binding, struct tt_waiter *waiter,
                                 int *done)
{
  struct tt_waiter exchange;
  waiter_init(&exchange, comm);
  for (;;) {
    int moved = 0;
    tuttiResult_t result = start(comm, binding, waiter, done, &moved);
    if (result != tuttiInProgress) return result;
    if (atomic_load_explicit(&comm->life.aborting, memory_order_relaxed)) return tt_comm_aborted(comm);
    if (!tt_waiter_pause(&exchange, moved)) continue;
    tt_watch_compare(comm->parts.watch, tt_learning_call(comm), exchange.since_ns);
    if (atomic_load_explicit(&comm->messages.n, memory_order_relaxed)) tt_messages_move_beside(comm);
  }
}

static tuttiResult_t run_now(struct tuttiComm *comm, struct tt_binding *binding)
{
  struct tt_waiter waiter;
  int done = 0, moved = 0;
  tuttiResult_t result = tt_comm_health(comm);
  waiter_init(&waiter, comm);
  if (result == tuttiSuccess) result = start(comm, binding, &waiter, &done, &moved);
  if (__builtin_expect(result == tuttiInProgress, 0)) result = start_later(comm, binding, &waiter, &done);
  if (done) return result;
  if (result != tuttiSuccess) return tt_comm_halt(comm, result);
  for (;;) {
    moved = 0;
    result = tt_run_poll(comm->parts.run, &moved);
    if (result == tuttiSuccess) return result;
    if (result != tuttiInProgress) return tt_comm_halt(comm, result);
    if (atomic_load_explicit(&comm->life.aborting, memory_order_relaxed))
      return tt_comm_halt(comm, tt_comm_aborted(comm));
    if (!tt_waiter_pause(&waiter, moved)) continue;
    tt_watch_compare(comm->parts.watch, &binding->call, waiter.since_ns);
    if (atomic_load_explicit(&comm->messages.n, memory_order_relaxed)) tt_messages_move_beside(comm);
  }
}

static inline tuttiResult_t run_here(struct tuttiComm *comm, struct tt_binding *binding)
{
  if (__builtin_expect(comm->calls.is_observed, 0)) tt_observe_begin(comm, &binding->call);
  tuttiResult_t result = run_now(comm, binding);
  if (__builtin_expect(comm->calls.is_observed, 0)) tt_observe_end(comm, binding, result);
  if (__builtin_expect(comm->calls.learns != NULL, 0) && result == tuttiSuccess) tt_learning_end(comm);
  return result;
}

tuttiResult_t tt_comm_run_here(struct tuttiComm *comm, struct tt_binding *binding)
{
  return run_here(comm, binding);
}

int tt_op_is_over(struct tt_op *op)
{
  return op->is_fetched ? tt_fetch_is_over(op) : tt_op_done(op);
}

tuttiResult_t tt_op_await(struct tt_op *op)
{
  struct tt_waiter waiter;
  int look = 0;
  waiter_init(&waiter, op->comm);
  if (op->is_fetched) waiter.sleep = NULL; /* nothing would wake it when the GPU has copied */
  while (!tt_op_is_over(op)) {
    int moved = tt_comm_drive(op->comm, look);
    if (op->is_fetched) tt_fetch_move(op, &moved);
    look = tt_waiter_pause(&waiter, moved);
  }
  return tt_op_end(op);
}

/* Runs an operation after those that are queued: it waits in the queue like them, and the caller helps. */
static tuttiResult_t run_queued(struct tuttiComm *comm, struct tt_binding *binding)
{
  if (comm->parts.views) return tt_views_run(comm, binding);
  struct tt_op *op = tt_op_begin(comm, binding);
  if (!op) return tt_comm_give_up(comm, tt_fail(tuttiSystemError, "out of memory for an operation"), 0);
  return tt_op_await(op);
}

tuttiResult_t tt_comm_run(struct tuttiComm *comm, struct tt_binding *binding)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  int is_behind = atomic_load_explicit(&comm->queue.queued, memory_order_acquire) != 0;
  tuttiResult_t result = tuttiSuccess;
  if (tt_fetch_is_wanted(binding)) result = tt_fetch_run(comm, binding);
  else result = is_behind ? run_queued(comm, binding) : run_here(comm, binding);
  tt_comm_exit(comm);
  return result;
}

/* ---- the queue ---- */

struct tt_op *tt_op_take(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding)
{
  pthread_mutex_lock(&tt_process.mutex);
  struct tt_op *op = comm->queue.spare;
  if (op) comm->queue.spare = op->next_of_comm;
  pthread_mutex_unlock(&tt_process.mutex);
  if (!op) op = tt_alloc(1, sizeof *op);
  if (!op) return NULL;
  atomic_fetch_add(&comm->life.refs, 1);
  struct tt_transfer *transfers = op->binding.transfers; /* kept from its last life */
  int room = op->transfer_room;
  tt_free(op->owned); /* of a triggered op */
  memset(op, 0, sizeof *op);
  op->comm = comm;
  op->stream = stream;
  op->binding = *binding;
  op->binding.transfers = transfers;
  op->transfer_room = room;
  return op;
}

void tt_op_abandon(struct tt_op *op)
{
  pthread_mutex_lock(&tt_process.mutex);
  int waits = op->is_queued;
  op->is_abandoned = waits;
  pthread_mutex_unlock(&tt_process.mutex);
  if (waits) return;
  while (!atomic_load_explicit(&op->done, memory_order_acquire)) sched_yield(); /* a few instructions */
  tt_op_give(op);
}

void tt_op_free(struct tt_op *op)
{
  tt_free(op->owned);
  tt_free(op->binding.transfers);
  tt_free(op);
}

void tt_comm_drop(struct tuttiComm *comm)
{
  if (atomic_fetch_sub(&comm->life.refs, 1) == 1) tt_free(comm);
}

/* The communicator lives. The caller of a triggered op may be enqueuing its copies out still, which read its shares. */
static void give_locked(struct tt_op *op)
{
  if (!op->is_triggered) tt_free(op->owned);
  if (!op->is_triggered) op->owned = NULL;
  atomic_fetch_sub(&op->comm->life.refs, 1);
  op->next_of_comm = op->comm->queue.spare;
  op->comm->queue.spare = op;
}

void tt_op_give(struct tt_op *op)
{
  struct tuttiComm *comm = op->comm;
  pthread_mutex_lock(&tt_process.mutex);
  int lives = comm->life.magic == TT_COMM_MAGIC;
  if (lives) give_locked(op);
  pthread_mutex_unlock(&tt_process.mutex);
  if (lives) return;
  tt_op_free(op);
  tt_comm_drop(comm);
}

static void append_locked(struct tt_op *op)
{
  struct tuttiComm *comm = op->comm;
  if (comm->queue.last) comm->queue.last->next_of_comm = op;
  else comm->queue.first = op;
  comm->queue.last = op;
  atomic_fetch_add(&comm->queue.queued, 1);
  op->is_queued = 1;
  op->is_abandoned = op->is_triggered;
  if (op->is_triggered) tt_progress_add_locked(comm);
  struct tuttiStream *stream = op->stream;
  if (!stream) return;
  if (stream->last) stream->last->next_of_stream = op;
  else stream->first = op;
  stream->last = op;
  op->batch = stream->batch;
  atomic_fetch_add(&stream->pending, 1);
  tt_progress_add_locked(comm);
}

void tt_ops_submit(struct tt_op *first)
{
  tt_triggers_number(first);
  pthread_mutex_lock(&tt_process.mutex);
  for (struct tt_op *op = first; op; op = op->next_of_group)
    if (op->stream) op->stream->batch++;
  for (struct tt_op *op = first, *next; op; op = next) {
    next = op->next_of_group;
    op->next_of_comm = op->next_of_stream = NULL;
    (op->capture ? tt_captured_add_locked : append_locked)(op);
  }
  pthread_mutex_unlock(&tt_process.mutex);
}

/* Gives the op a copy of its shares, which live no longer than the call. Returns 0 if there is no memory. */
static int shares_own(struct tt_op *op)
{
  const struct tt_shares *shares = op->binding.shares;
  size_t n = (size_t)op->comm->facts.nranks;
  struct owned {
    struct tt_shares shares;
    size_t numbers[];
  } *owned = tt_alloc(1, sizeof *owned + 2 * n * sizeof(size_t));
  if (!owned) return 0;
  memcpy(owned->numbers, shares->counts, n * sizeof(size_t));
  memcpy(owned->numbers + n, shares->starts, n * sizeof(size_t));
  owned->shares = (struct tt_shares){owned->numbers, owned->numbers + n};
  op->binding.shares = &owned->shares;
  op->owned = owned;
  return 1;
}

static tuttiResult_t queue_inside(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding)
{
  tuttiResult_t result = tt_views_refuse(comm, "streams and groups");
  if (result == tuttiSuccess) result = tt_comm_health(comm);
  if (result != tuttiSuccess) return result;
  int is_cuda = stream && stream->is_cuda;
  struct tt_op *op = tt_op_take(comm, is_cuda ? NULL : stream, binding);
  int has_room = op && (!binding->shares || shares_own(op));
  if (op && !has_room) tt_op_give(op);
  if (!has_room) return tt_comm_give_up(comm, tt_fail(tuttiSystemError, "out of memory for an operation"), 0);
  if (is_cuda) result = tt_trigger_prepare(op, stream->cuda);
  else if (tt_fetch_is_wanted(binding))
    result = stream ? tt_fail(tuttiInvalidUsage, "memory of a GPU on a stream of tuttiStreamCreate: give the call a "
                              "stream made by tuttiStreamFromCuda, or none")
                    : tt_fetch_prepare(op);
  if (result != tuttiSuccess) {
    tt_op_give(op);
    return result;
  }
  if (tt_group_active()) return tt_group_add_op(op);
  op->next_of_group = NULL;
  tt_ops_submit(op);
  return is_cuda ? tt_triggers_enqueue(op) : tuttiSuccess;
}

tuttiResult_t tt_comm_queue(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tuttiResult_t result = queue_inside(comm, stream, binding);
  tt_comm_exit(comm);
  return result;
}

/* The oldest op, if its data are there and its stream has come to its batch: a group on one stream may hold the ranks
 * of one communicator, which need each other. Both queues are filled under one lock, so the oldest op of all is
 * always at both heads, and one op can always go on. */
static struct tt_op *next_op(struct tuttiComm *comm)
{
  pthread_mutex_lock(&tt_process.mutex);
  struct tt_op *op = comm->queue.first;
  if (__builtin_expect(comm->calls.captured != NULL, 0) && !(op && (op->started || op->coded)))
    op = tt_replayed_locked(comm, op);
  if (op && op->stream && op->stream->first->batch != op->batch) op = NULL;
  if (op && op->trigger.npieces && !tt_trigger_lets_start(op)) op = NULL;
  pthread_mutex_unlock(&tt_process.mutex);
  return op;
}

/* Takes op out of its stream; it is of the first batch there unless it is being flushed. */
static void leave_stream_locked(struct tt_op *op)
{
  struct tt_op *before = NULL, *at = op->stream->first;
  for (; at && at != op; at = at->next_of_stream) before = at;
  if (!at) return;
  if (before) before->next_of_stream = op->next_of_stream;
  else op->stream->first = op->next_of_stream;
  if (op->stream->last == op) op->stream->last = before;
}

/* The first error of the stream stays. The op has not left it yet. */
static void error_note_locked(const struct tt_op *op, tuttiResult_t result)
{
  struct tuttiStream *stream = op->stream;
  if (!atomic_load(&stream->error)) {
    snprintf(stream->sentence, sizeof stream->sentence, "%s", tt_last_sentence());
    atomic_store(&stream->error, (int)result); /* last: readers do not lock */
  }
  tt_events_fail_locked(stream, op->batch, result, tt_last_sentence());
}

/* The communicator's oldest op is over. */
static void finish(struct tt_op *op, tuttiResult_t result)
{
  struct tuttiComm *comm = op->comm;
  struct tuttiStream *stream = op->stream;
  if (comm->calls.is_observed) tt_observe_end(comm, &op->binding, result);
  if (comm->calls.learns && result == tuttiSuccess) tt_learning_end(comm);
  if (op->is_triggered) tt_trigger_end(op, result);
  pthread_mutex_lock(&tt_process.mutex);
  comm->queue.first = op->next_of_comm;
  if (!comm->queue.first) comm->queue.last = NULL;
  atomic_fetch_sub(&comm->queue.queued, 1);
  op->is_queued = 0;
  int is_abandoned = op->is_abandoned;
  if (stream) {
    if (result != tuttiSuccess) error_note_locked(op, result);
    leave_stream_locked(op);
    struct tuttiEvent *ended = stream->events ? tt_events_take_locked(stream) : NULL;
    atomic_fetch_sub_explicit(&stream->pending, 1, memory_order_release); /* now it may be destroyed */
    tt_events_end_locked(ended); /* whoever hears of one finds the stream idle */
  }
  if ((stream || is_abandoned) && !op->capture) give_locked(op);
  pthread_mutex_unlock(&tt_process.mutex);
  if (is_abandoned || stream) return;
  op->result = result;
  atomic_store_explicit(&op->done, 1, memory_order_release);
}

/* tuttiInProgress: an exchange of the learner comes before it. */
static tuttiResult_t op_start(struct tt_op *op, int *moved)
{
  struct tuttiComm *comm = op->comm;
  tuttiResult_t result = tt_comm_health(comm);
  if (comm->calls.is_observed && !op->is_begun) tt_observe_begin(comm, &op->binding.call);
  op->is_begun = 1;
  if (result == tuttiSuccess) result = start(comm, &op->binding, NULL, NULL, moved);
  op->started = result == tuttiSuccess;
  return result;
}

/* Moves op; tuttiInProgress while it is not done. */
static tuttiResult_t move(struct tt_op *op, int look, int *moved)
{
  struct tuttiComm *comm = op->comm;
  if (atomic_load_explicit(&comm->life.aborting, memory_order_relaxed)) return tt_comm_aborted(comm);
  if (op->binding.call.collective == TT_NO_COLLECTIVE && !op->coded) return tt_comm_health(comm);
  tuttiResult_t result = tuttiSuccess;
  if (op->coded) result = tt_coded_move(op, moved);
  else if (!op->started) result = op_start(op, moved);
  if (!op->coded && result == tuttiSuccess) result = tt_run_poll(comm->parts.run, moved);
  if (*moved) op->since_ns = 0;
  if (result == tuttiInProgress && look && !(op->coded && *moved)) { /* that may be between two acts */
    if (!op->since_ns) op->since_ns = tt_now_ns();
    const struct tt_call *exchange = tt_learning_call(comm);
    tt_watch_compare(comm->parts.watch, exchange ? exchange : &op->binding.call, op->since_ns);
  }
  return result;
}

/* The oldest op waits for the GPU of its caller, who hears meanwhile of ranks that have left. Replays may come before
 * it, and have its number then. */
static void waiting_look(struct tuttiComm *comm)
{
  pthread_mutex_lock(&tt_process.mutex);
  const struct tt_op *op = comm->queue.first;
  int waits = op && op->is_fetched && !op->started && !comm->calls.captured;
  struct tt_call call = waits ? op->binding.call : (struct tt_call){.op = 0};
  pthread_mutex_unlock(&tt_process.mutex);
  if (!waits) return; /* else the caller of an operation that goes before messages counts it now */
  call.op = comm->queue.last_op + 1;
  tt_watch_await(comm->parts.watch, &call);
}

static int drive(struct tuttiComm *comm, int look, int is_inside)
{
  int moved = 0;
  if (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) return 0;
  struct tt_op *op = next_op(comm);
  if (op) {
    tuttiResult_t result = move(op, look, &moved);
    if (result != tuttiInProgress) {
      if (result != tuttiSuccess) tt_comm_halt(comm, result);
      finish(op, result);
      moved = 1;
    }
  } else if (look) waiting_look(comm);
  if (atomic_load(&comm->messages.n) && (is_inside || tt_messages_are_free(comm)))
    tt_messages_move(comm, look, &moved);
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
  return moved;
}

int tt_comm_drive(struct tuttiComm *comm, int look)
{
  return drive(comm, look, 1);
}

int tt_comm_serve(struct tuttiComm *comm, int look)
{
  return drive(comm, look, 0);
}

void tt_comm_flush(struct tuttiComm *comm)
{
  tt_messages_finish(comm);
  while (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) sched_yield();
  for (;;) {
    pthread_mutex_lock(&tt_process.mutex);
    struct tt_op *op = comm->queue.first;
    pthread_mutex_unlock(&tt_process.mutex);
    if (!op) break;
    finish(op, tt_comm_halt(comm, tt_comm_why(comm)));
  }
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
}

/* ---- for a caller that drives several at once ---- */

struct tt_op *tt_op_begin(struct tuttiComm *comm, const struct tt_binding *binding)
{
  struct tt_op *op = tt_op_take(comm, NULL, binding);
  if (!op) return NULL;
  op->next_of_group = NULL;
  tt_ops_submit(op);
  return op;
}

int tt_op_drive(struct tt_op *op, int look)
{
  return tt_comm_drive(op->comm, look);
}

int tt_op_done(const struct tt_op *op)
{
  return atomic_load_explicit(&op->done, memory_order_acquire);
}

int tt_op_ending(const struct tt_op *op)
{
  const struct tt_op *first = op->comm->queue.first;
  return first && first->started && tt_run_ending(op->comm->parts.run);
}

tuttiResult_t tt_op_end(struct tt_op *op)
{
  const struct tuttiComm *comm = op->comm;
  tuttiResult_t result = op->result;
  tt_op_give(op);
  return result == tuttiSuccess ? result : tt_comm_why(comm);
}
