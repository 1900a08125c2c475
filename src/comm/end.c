/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a communicator: finalize, destroy, abort, revoke. None waits for other ranks. */
#include <stdio.h>

#include "comm/private.h"
#include "cuda/cuda.h"
#include "cuda/stream.h"

/* Waits until no call is inside any more; all of them poll `aborting` and whether the communicator has failed, or have
 * finished. The caller has set one of these. */
static void wait_outside(struct tuttiComm *comm)
{
  tt_heavy_fence();
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  while (atomic_load(&comm->life.inside) || atomic_load(&comm->life.served) || atomic_load(&comm->messages.callers))
    tt_waiter_pause(&waiter, 0);
}

/* From here on an op that is given back is freed, and with the last one the struct. */
static void shell_leave(struct tuttiComm *comm)
{
  pthread_mutex_lock(&tt_process.mutex);
  comm->life.magic = 0;
  pthread_mutex_unlock(&tt_process.mutex);
  for (struct tt_op *op = comm->queue.spare, *next; op; op = next) {
    next = op->next_of_comm;
    tt_op_free(op);
  }
  tt_comm_drop(comm);
}

static void run_free(struct tuttiComm *comm)
{
  struct tt_comm_parts *parts = &comm->parts;
  tt_run_destroy(parts->run);
  tt_mail_destroy(parts->mail);
  tt_messages_destroy(comm->messages.engine);
  for (int i = 0; i < comm->calls.nplans; i++) tt_plan_destroy(comm->calls.plans[i].plan);
  tt_exec_destroy(parts->exec);
  parts->run = NULL;
  parts->mail = NULL;
  comm->messages.engine = NULL;
  comm->calls.nplans = 0;
  parts->exec = NULL;
}

static void transports_free(struct tt_comm_parts *parts)
{
  for (int t = 0; t < parts->ntransports; t++)
    if (parts->transports[t]) parts->transports[t]->ops->destroy(parts->transports[t]);
  parts->ntransports = 0;
}

void tt_comm_means_free(struct tuttiComm *comm)
{
  tt_comm_own(comm); /* another thread may ask what it holds */
  run_free(comm);
  transports_free(&comm->parts);
  tt_comm_disown(comm);
}

/* Frees everything; nobody is inside. */
static void comm_free(struct tuttiComm *comm)
{
  atomic_store(&comm->life.aborting, 1); /* for groups that still hold operations of it */
  tt_progress_remove(comm);
  tt_messages_finish(comm);
  wait_outside(comm); /* the progress thread may have been at it */
  while (atomic_load(&comm->life.revoking)) sched_yield();
  tt_timeline_flush();
  if (comm->parts.watch) tt_comm_dump(comm);
  tt_metrics_end(comm);
  tt_creation_destroy(comm->life.creation);
  run_free(comm);
  tt_meeting_leave(comm);
  if (comm->parts.slots) {
    int is_whole = comm->parts.watch && !tt_comm_has_failed(comm) && !comm->life.was_aborted && !comm->calls.captured;
    tt_captured_free(comm);
    if (!is_whole) tt_slots_release(comm->parts.slots);
    tt_slots_retire(comm->parts.slots);
  }
  tt_slots_retire(comm->parts.own);
  if (comm->life.joined_cuda) tt_cuda_leave();
  transports_free(&comm->parts);
  tt_watch_destroy(comm->parts.watch);
  tt_listener_close(comm->parts.ip_listener);
  tt_listener_close(comm->parts.local_listener);
  tt_explainer_destroy(comm->calls.explainer);
  tt_learning_destroy(comm);
  tt_views_destroy(comm->parts.views);
  tt_topology_destroy(&comm->parts.topology);
  tt_arrangement_destroy(&comm->parts.arrangement);
  tt_registrations_free(comm);
  tt_codes_free(&comm->calls.codes);
  tt_free(comm->calls.redops);
  tt_free(comm->life.shrinks);
  tt_free(comm->parts.listeners);
  tt_free(comm->parts.publics);
  tt_free(comm->queue.sent);
  tt_free(comm->queue.received);
  tt_free(comm->parts.hosts);
  tt_free(comm->parts.pids);
  tt_free(comm->parts.rank_infos);
  tt_wipe(&comm->parts.credentials, sizeof comm->parts.credentials);
  tt_wipe(comm->parts.secret, sizeof comm->parts.secret);
  if (comm->life.holds_progress) tt_progress_release(comm);
  if (atomic_load(&comm->messages.has_progress)) tt_progress_release(comm);
  shell_leave(comm);
}

/* Communicators that are being made from it need its watch: then the last of them frees it. An abort says farewell at
 * once. */
static void comm_end(struct tuttiComm *comm, int aborted)
{
  if (comm->parts.watch && aborted) tt_watch_leave(comm->parts.watch, 1);
  pthread_mutex_lock(&tt_process.mutex);
  int waits = comm->life.children > 0;
  comm->life.ended = waits;
  pthread_mutex_unlock(&tt_process.mutex);
  if (waits) return;
  if (comm->parts.watch) tt_watch_leave(comm->parts.watch, 0);
  comm_free(comm);
}

void tt_parent_hold(struct tuttiComm *parent)
{
  pthread_mutex_lock(&tt_process.mutex);
  parent->life.children++;
  pthread_mutex_unlock(&tt_process.mutex);
}

void tt_parent_release(struct tuttiComm *parent)
{
  pthread_mutex_lock(&tt_process.mutex);
  int ends = --parent->life.children == 0 && parent->life.ended;
  pthread_mutex_unlock(&tt_process.mutex);
  if (ends) comm_end(parent, 0);
}

tuttiResult_t tt_comm_drain(struct tuttiComm *comm)
{
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, comm->facts.oversubscribed);
  int look = 0;
  while (atomic_load(&comm->queue.queued) > atomic_load(&comm->messages.n) + (comm->calls.captured != NULL) +
                                                (comm->parts.views != NULL))
    look = tt_waiter_pause(&waiter, tt_comm_drive(comm, look));
  return tt_comm_standing(comm);
}

tuttiResult_t tt_comm_finalize(struct tuttiComm *comm)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tuttiResult_t result = tt_comm_standing(comm);
  int state = atomic_load(&comm->life.state);
  if (result == tuttiSuccess && state == TT_COMM_FINALIZED)
    result = tt_fail(tuttiInvalidArgument, "comm was finalized already: tuttiCommDestroy is the next step");
  else if (state == TT_COMM_READY || state == TT_COMM_SUSPENDED) {
    result = tt_comm_drain(comm);
    tuttiResult_t completed = tt_messages_complete(comm);
    if (result == tuttiSuccess) result = completed;
    atomic_store(&comm->life.state, TT_COMM_FINALIZED);
  }
  tt_comm_exit(comm);
  return result;
}

tuttiResult_t tt_comm_destroy(struct tuttiComm *comm)
{
  if (atomic_load(&comm->life.state) == TT_COMM_CREATING) return tt_comm_abort(comm);
  tuttiResult_t result =
      atomic_load(&comm->life.state) == TT_COMM_READY ? tt_comm_finalize(comm) : tt_comm_standing(comm);
  if (result == tuttiSuccess) tt_learning_keep(comm);
  else tt_trigger_release(comm); /* now, as a child may keep the rest for a while */
  if (atomic_load(&comm->life.revoked)) result = tuttiSuccess;
  tt_views_end(comm, 0);
  comm_end(comm, 0);
  return result;
}

tuttiComm_t tt_comm_handle(struct tuttiComm *comm)
{
  if (!comm->life.is_none) return comm;
  tt_comm_destroy(comm);
  return NULL;
}

/* Ends all calls on this rank; nobody is inside any more. */
static void calls_end(struct tuttiComm *comm)
{
  atomic_store(&comm->life.aborting, 1);
  comm->life.was_aborted = 1;
  tt_views_interrupt(comm);
  tt_trigger_release(comm); /* first: a call inside may wait for room in its stream */
  tt_comm_flush(comm); /* streams, and callers that wait behind them, see the error */
  tt_trigger_release(comm); /* again: an operation that was under way may have told of pieces since */
  wait_outside(comm);
  tt_comm_flush(comm); /* what a call that was inside has queued after that */
}

tuttiResult_t tt_comm_abort(struct tuttiComm *comm)
{
  calls_end(comm);
  tt_creation_quit(comm);
  tt_views_end(comm, 1);
  comm_end(comm, 1);
  return tuttiSuccess;
}

static void revoke(struct tuttiComm *comm)
{
  char sentence[TT_SENTENCE_BYTES], rank[128];
  snprintf(sentence, sizeof sentence, "%s has revoked the communicator: shrink or destroy it",
           tt_watch_rank_text(comm->parts.watch, comm->facts.first_rank, rank, sizeof rank));
  atomic_store(&comm->life.revoked, 1);
  if (comm->parts.views) {
    tt_views_revoke(comm, sentence);
    calls_end(comm);
    tt_watch_leave(comm->parts.watch, 1); /* the others go on without this rank */
    return;
  }
  tt_watch_fail_too(comm->parts.watch, tuttiInvalidUsage, -1, sentence); /* as is wanted: no warning */
  tt_trigger_release(comm);
  tt_comm_flush(comm);
  tt_trigger_release(comm); /* again: an operation that was under way may have told of pieces since */
  wait_outside(comm);
  tt_comm_flush(comm); /* what a call that was inside has queued after that */
  tt_trigger_release(comm);
}

/* Several threads may be here, and not inside, for which they wait themselves. */
tuttiResult_t tt_comm_revoke(struct tuttiComm *comm)
{
  tuttiResult_t result = tuttiSuccess;
  atomic_fetch_add(&comm->life.revoking, 1);
  if (atomic_load(&comm->life.aborting)) result = tt_comm_aborted(comm);
  else revoke(comm);
  atomic_fetch_sub(&comm->life.revoking, 1);
  return result;
}
