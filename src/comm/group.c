/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: calls are collected per thread and started together by the outermost end. */
#include "comm/private.h"

#include <stdio.h>
#include <string.h>

#define MAX_INITS 1024 /* ranks that one thread may create in one group */

struct created {
  struct tuttiComm *comm;
  tuttiComm_t *slot;
  int later, done; /* later: the progress thread goes on with it */
};

/* One per thread. */
struct group {
  int depth;
  tuttiResult_t refused;                /* first refusal inside, or failed creation; refused_sentence belongs to it */
  struct tt_op *first, *last;           /* collectives */
  struct tt_op *before, *pairs, *after; /* messages, one op for each communicator; the turns of further streams before
                                           and after them */
  struct created *created;
  int ncreated;
};

static _Thread_local struct group group;
static _Thread_local char refused_sentence[TT_SENTENCE_BYTES];

int tt_group_active(void)
{
  return group.depth > 0;
}

int tt_group_holds(const struct tuttiComm *comm)
{
  int n = 0;
  for (const struct tt_op *op = group.first; op; op = op->next_of_group) n += op->comm == comm;
  for (const struct tt_op *op = group.pairs; op; op = op->next_of_group)
    n += op->comm == comm ? op->binding.ntransfers : 0;
  return n;
}

void tt_group_start(void)
{
  group.depth++;
}

/* The first one counts. */
static void note_refusal(struct group *all, tuttiResult_t code)
{
  if (all->refused != tuttiSuccess) return;
  all->refused = code;
  snprintf(refused_sentence, sizeof refused_sentence, "%s", tt_last_sentence());
}

tuttiResult_t tt_group_refuse(tuttiResult_t code)
{
  if (group.depth) note_refusal(&group, code);
  return code;
}

tuttiResult_t tt_group_add_op(struct tt_op *op)
{
  op->next_of_group = NULL;
  if (group.last) group.last->next_of_group = op;
  else group.first = op;
  group.last = op;
  return tuttiSuccess;
}

/* ---- messages ---- */

static struct tt_op *find_op(struct tt_op *first, const struct tuttiComm *comm)
{
  while (first && first->comm != comm) first = first->next_of_group;
  return first;
}

static struct tt_op *add_op(struct tt_op **first, struct tuttiComm *comm, struct tuttiStream *stream, int collective)
{
  uint64_t capture = 0;
  struct tt_binding binding = {.call = {.collective = (uint8_t)collective, .root = -1}};
  int is_cuda = stream && stream->is_cuda;
  struct tt_op *op = tt_op_take(comm, is_cuda ? NULL : stream, &binding);
  if (!op) return NULL;
  if (is_cuda && tt_trigger_check(comm, stream->cuda, &capture) == tuttiSuccess)
    tt_trigger_messages(op, stream->cuda, capture);
  op->next_of_group = *first;
  *first = op;
  return op;
}

/* Messages of several streams are one operation in the first one's; the others only wait for their turn and for it.
 * Those of CUDA streams are joined when it is enqueued. */
static int join_stream(struct tuttiComm *comm, struct tuttiStream *stream)
{
  struct tt_op *op = group.after;
  int is_cuda = stream && stream->is_cuda;
  while (op && (op->comm != comm || (is_cuda ? op->own_cuda != stream->cuda : op->stream != stream)))
    op = op->next_of_group;
  if (op) return 1;
  int has_turn = is_cuda || add_op(&group.before, comm, stream, TT_NO_COLLECTIVE);
  return has_turn && add_op(&group.after, comm, stream, TT_NO_COLLECTIVE);
}

static int room_for_transfer(struct tt_op *op)
{
  struct tt_binding *binding = &op->binding;
  if (binding->ntransfers < op->transfer_room) return 1;
  int room = op->transfer_room ? 2 * op->transfer_room : 16;
  struct tt_transfer *larger = tt_alloc((size_t)room, sizeof *larger);
  if (!larger) return 0;
  if (binding->ntransfers) memcpy(larger, binding->transfers, (size_t)binding->ntransfers * sizeof *larger);
  tt_free(binding->transfers);
  binding->transfers = larger;
  op->transfer_room = room;
  return 1;
}

/* 1: the op of the group's messages is one of this stream, or of this kind of stream. */
static int is_of_stream(const struct tt_op *op, const struct tuttiStream *stream)
{
  return stream && stream->is_cuda ? op->is_triggered && op->own_cuda == stream->cuda : op->stream == stream;
}

/* Inside the communicator. */
static tuttiResult_t transfer_add(struct tuttiComm *comm, struct tuttiStream *stream,
                                  const struct tt_transfer *transfer)
{
  struct tt_op *op = find_op(group.pairs, comm);
  int is_cuda = stream && stream->is_cuda;
  uint64_t capture;
  tuttiResult_t result = is_cuda ? tt_trigger_check(comm, stream->cuda, &capture) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  if (!op) op = add_op(&group.pairs, comm, stream, TT_PAIRS);
  if (op && op->is_triggered != is_cuda)
    return tt_fail(tuttiInvalidUsage, "a group has messages of %s on CUDA streams and elsewhere: give all of them CUDA "
                                      "streams, or put them into two groups", comm->facts.label);
  if (!op || (!is_of_stream(op, stream) && !join_stream(comm, stream)) || !room_for_transfer(op))
    return tt_fail(tuttiSystemError, "out of memory for a message");
  struct tt_transfer *message = &op->binding.transfers[op->binding.ntransfers++];
  *message = *transfer;
  if (is_cuda) tt_trigger_message(op, message);
  return tuttiSuccess;
}

tuttiResult_t tt_group_transfer(struct tuttiComm *comm, struct tuttiStream *stream,
                                const struct tt_transfer *transfer)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tuttiResult_t result = tt_views_refuse(comm, "sends and receives");
  if (result == tuttiSuccess) result = tt_comm_health(comm);
  if (result == tuttiSuccess) result = transfer_add(comm, stream, transfer);
  tt_comm_exit(comm);
  return result;
}

/* The n-th message of this rank to itself (sends: or from itself); NULL: there are fewer. */
static const struct tt_transfer *own_transfer(const struct tt_op *op, int sends, int n)
{
  for (int i = 0; i < op->binding.ntransfers; i++) {
    const struct tt_transfer *transfer = &op->binding.transfers[i];
    if (transfer->peer == op->comm->facts.rank && transfer->sends == sends && n-- == 0) return transfer;
  }
  return NULL;
}

/* A rank must receive its sends to itself in the same group. */
static tuttiResult_t own_check(const struct tt_op *op)
{
  for (int n = 0;; n++) {
    const struct tt_transfer *send = own_transfer(op, 1, n), *recv = own_transfer(op, 0, n);
    if (!send && !recv) return tuttiSuccess;
    if (send && recv && send->bytes == recv->bytes) continue;
    return tt_fail(tuttiInvalidUsage, "rank %d sends to itself %s message %d of the group: %s", op->comm->facts.rank,
                   send ? "in" : "nothing for", n + 1,
                   send && recv ? "its receive has another size" : "call tuttiSend and tuttiRecv in one group");
  }
}

static void chain(struct group *all, struct tt_op *first)
{
  for (struct tt_op *op = first, *next; op; op = next) {
    next = op->next_of_group;
    op->next_of_group = NULL;
    if (all->last) all->last->next_of_group = op;
    else all->first = op;
    all->last = op;
  }
}

/* All of the group's operations in one list. */
static void ops_join(struct group *all)
{
  chain(all, all->before);
  chain(all, all->pairs);
  chain(all, all->after);
}

tuttiResult_t tt_group_add_creation(struct tuttiComm *comm, tuttiComm_t *slot, int later)
{
  if (!group.created) group.created = tt_alloc(MAX_INITS, sizeof *group.created);
  if (!group.created || group.ncreated == MAX_INITS) {
    tt_comm_destroy(comm);
    return tt_group_refuse(tt_fail(tuttiSystemError, "no room for more than %d inits in one group", group.ncreated));
  }
  group.created[group.ncreated++] = (struct created){comm, slot, later, 0};
  return tuttiSuccess;
}

static void give_up(struct group *all)
{
  for (struct tt_op *op = all->first, *next; op; op = next) {
    next = op->next_of_group;
    tt_op_give(op);
  }
  for (int i = 0; i < all->ncreated; i++) tt_comm_destroy(all->created[i].comm);
}

/* Hands those that nobody waits for to the progress thread; *left counts the others. */
static tuttiResult_t creations_start(struct group *all, int *left)
{
  tuttiResult_t result = tuttiSuccess;
  for (int i = 0; i < all->ncreated; i++) {
    struct created *created = &all->created[i];
    created->done = created->later;
    if (!created->later) {
      ++*left;
      continue;
    }
    result = tt_comm_create_later(created->comm);
    if (result != tuttiInProgress) note_refusal(all, result);
  }
  return result;
}

/* One look at every creation that is not done; *left counts them. */
static void creations_poll(struct group *all, int *left)
{
  for (int i = 0; i < all->ncreated; i++) {
    struct created *created = &all->created[i];
    if (created->done) continue;
    tuttiResult_t result = tt_comm_create_poll(created->comm);
    if (result == tuttiInProgress) continue;
    created->done = 1;
    --*left;
    if (result != tuttiSuccess) note_refusal(all, result);
  }
}

/* Makes all communicators or none: a caller without a handle could not destroy its communicator. */
static tuttiResult_t creations_run(struct group *all)
{
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  int left = 0;
  tuttiResult_t result = creations_start(all, &left);
  while (left && all->refused == tuttiSuccess) {
    creations_poll(all, &left);
    tt_waiter_pause(&waiter, 0);
  }
  if (all->refused != tuttiSuccess) {
    give_up(all);
    return tt_fail_quiet(all->refused, refused_sentence);
  }
  for (int i = 0; i < all->ncreated; i++) {
    struct tuttiComm *comm = all->created[i].comm;
    *all->created[i].slot = tt_comm_handle(comm);
  }
  return result;
}

/* Drives all communicators of the group until the ops of NULL streams are done. Ops of streams may be done,
 * and among the spares again, as soon as they are submitted; nobody takes one before this returns. */
static void ops_drive(const struct group *all)
{
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, all->first->comm->facts.oversubscribed);
  if (!all->first->next_of_group && !all->first->is_fetched) {
    waiter.sleep = tt_comm_sleep;
    waiter.sleeper = all->first->comm;
  }
  for (int look = 0, left = 1; left;) {
    int moved = 0;
    left = 0;
    for (struct tt_op *op = all->first; op; op = op->next_of_group) {
      if (op->stream || op->is_triggered || tt_op_is_over(op)) continue;
      moved |= tt_comm_drive(op->comm, look);
      left = 1;
    }
    tt_fetch_move(all->first, &moved);
    if (left) look = tt_waiter_pause(&waiter, moved);
  }
}

/* The first error of the waited ops; gives them back, and leaves all communicators. */
static tuttiResult_t ops_collect(const struct group *all)
{
  tuttiResult_t first = tuttiSuccess;
  for (struct tt_op *op = all->first, *next; op; op = next) {
    next = op->next_of_group;
    struct tuttiComm *comm = op->comm;
    if (!op->stream && !op->is_triggered) {
      if (op->result != tuttiSuccess && first == tuttiSuccess) first = tt_comm_why(comm);
      tt_op_give(op);
    }
    tt_comm_exit(comm); /* last: an abort may free it now */
  }
  return first;
}

static tuttiResult_t ops_run(struct group *all)
{
  for (struct tt_op *op = all->first; op; op = op->next_of_group) {
    if (tt_comm_enter(op->comm)) continue;
    tuttiResult_t result = tt_comm_aborted(op->comm);
    for (struct tt_op *entered = all->first; entered != op; entered = entered->next_of_group)
      tt_comm_exit(entered->comm);
    give_up(all);
    return result;
  }
  tt_ops_submit(all->first);
  tuttiResult_t enqueued = tt_triggers_enqueue(all->first), result;
  ops_drive(all);
  result = ops_collect(all);
  return enqueued == tuttiSuccess ? result : enqueued;
}

tuttiResult_t tt_group_end(void)
{
  if (group.depth == 0) return tt_fail(tuttiInvalidUsage, "tuttiGroupEnd without tuttiGroupStart in this thread");
  if (--group.depth) return tuttiSuccess;
  struct group all = group;
  group = (struct group){0};
  tuttiResult_t result = all.refused;
  for (struct tt_op *op = all.pairs; op && result == tuttiSuccess; op = op->next_of_group) result = own_check(op);
  for (struct tt_op *op = all.pairs, *next; op && result == tuttiSuccess; op = next) {
    next = op->next_of_group; /* further waves come between */
    result = tt_waves_make(op);
  }
  ops_join(&all);
  if (result == tuttiSuccess) result = tt_triggers_check(all.first);
  if (result == tuttiSuccess && all.ncreated && all.first)
    result = tt_fail(tuttiInvalidUsage, "a group holds inits and collectives: end the inits' group first");
  if (result != tuttiSuccess) {
    note_refusal(&all, result);
    give_up(&all);
    tt_fail_quiet(result, refused_sentence);
  } else if (all.ncreated) result = creations_run(&all);
  else if (all.first) result = ops_run(&all);
  tt_free(all.created);
  return result;
}
