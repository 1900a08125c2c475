/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags, beside the operations of a communicator.
 *
 * The owner moves them. But a call that finds the queue empty runs its operation without that word,
 * and may be doing so when the first message is begun. So messages count in the queue, which later calls see; and
 * until the calls have left that were inside by then, only these move messages, when they have waited for a while. */
#include <stddef.h>
#include <stdio.h>

#include "comm/private.h"

#define MESSAGE_MAGIC 0x4d736765u
#define SLEEP_MOST_NS 1000000 /* the sleeper holds the owner word, for which others wait */

static struct tuttiMessage *handle_of(struct tt_message *message)
{
  return (struct tuttiMessage *)(void *)((char *)message - offsetof(struct tuttiMessage, message));
}

/* ---- beginning ---- */

/* Gives the owner a message. */
static tuttiResult_t post(struct tuttiComm *comm, struct tuttiMessage *handle)
{
  struct tt_comm_messages *messages = &comm->messages;
  tuttiResult_t result = tuttiSuccess;
  atomic_fetch_add(&comm->queue.queued, 1);
  tt_heavy_fence(); /* every call sees that the queue is not empty, or is seen inside */
  pthread_mutex_lock(&tt_process.mutex);
  if (!messages->engine) result = tt_messages_create(&messages->engine, comm->parts.exec);
  if (result == tuttiSuccess) {
    handle->message.next = NULL;
    if (messages->posted) *messages->last = &handle->message;
    else messages->posted = &handle->message;
    messages->last = &handle->message.next;
    atomic_fetch_add(&messages->n, 1);
    if (handle->is_kept) {
      atomic_fetch_add(&comm->life.refs, 1);
      tt_progress_add_locked(comm);
    }
  } else atomic_fetch_sub(&comm->queue.queued, 1);
  pthread_mutex_unlock(&tt_process.mutex);
  return result;
}

/* The progress thread is there from the first message on for which nobody waits. */
static tuttiResult_t progress_ensure(struct tuttiComm *comm)
{
  if (atomic_load(&comm->messages.has_progress)) return tuttiSuccess;
  tuttiResult_t result = tt_progress_hold(comm);
  if (result != tuttiSuccess) return result;
  if (atomic_exchange(&comm->messages.has_progress, 1)) tt_progress_release(comm); /* another thread has done so, too */
  return result;
}

/* The caller is counted. */
static tuttiResult_t begin(struct tuttiComm *comm, struct tuttiMessage *handle, int is_kept)
{
  handle->magic = MESSAGE_MAGIC;
  handle->comm = comm;
  handle->room = handle->message.bytes;
  handle->peer = handle->message.peer;
  handle->tag = handle->message.tag;
  handle->is_kept = is_kept;
  handle->is_given_back = 0;
  atomic_store_explicit(&handle->is_over, 0, memory_order_relaxed);
  int is_aborting = atomic_load(&comm->life.aborting);
  tuttiResult_t result = is_aborting ? tt_comm_aborted(comm) : tt_comm_health(comm);
  if (result == tuttiSuccess) result = tt_views_refuse(comm, "messages with tags");
  if (result == tuttiSuccess && is_kept) result = progress_ensure(comm);
  return result == tuttiSuccess ? post(comm, handle) : result;
}

tuttiResult_t tt_message_begin(struct tuttiComm *comm, struct tuttiMessage *handle)
{
  atomic_fetch_add(&comm->messages.callers, 1);
  tuttiResult_t result = begin(comm, handle, 1);
  atomic_fetch_sub(&comm->messages.callers, 1);
  return result;
}

tuttiResult_t tt_message_check(const struct tuttiMessage *message)
{
  if (!message) return tt_null("message");
  if (message->magic == MESSAGE_MAGIC) return tt_process_check();
  return tt_fail(tuttiInvalidArgument, "message %p is no message: it was waited for, tested to its end or freed before",
                 (const void *)message);
}

tuttiResult_t tt_message_post(struct tuttiComm *comm, struct tuttiMessage *handle)
{
  atomic_fetch_add(&comm->messages.callers, 1);
  tuttiResult_t result = begin(comm, handle, 0);
  atomic_fetch_sub(&comm->messages.callers, 1);
  return result;
}

/* ---- ending ---- */

static const char *with_tag(int tag, char text[32])
{
  if (tag == TT_ANY) snprintf(text, 32, "any tag");
  else snprintf(text, 32, "tag %d", tag);
  return text;
}

/* The sentence of a message that has failed by itself. */
static void sentence_write(struct tuttiMessage *handle)
{
  const struct tt_message *message = &handle->message;
  char rank[128], tag[32];
  if (message->result == tuttiInvalidArgument)
    snprintf(handle->sentence, sizeof handle->sentence, "the message of rank %d with tag %d has %zu bytes, and there "
             "is room for %zu: it is lost, give a larger buffer", (int)message->peer, (int)message->tag,
             message->bytes, handle->room);
  else if (message->result == tuttiInvalidUsage)
    snprintf(handle->sentence, sizeof handle->sentence, "the communicator has ended, and this message with %s has not: "
             "wait for messages before tuttiCommDestroy", with_tag(handle->tag, tag));
  else if (handle->peer == TT_ANY)
    snprintf(handle->sentence, sizeof handle->sentence, "all other ranks have left, and no message with %s has come",
             with_tag(handle->tag, tag));
  else
    snprintf(handle->sentence, sizeof handle->sentence, "%s has left, and the message %s it with %s is not over",
             tt_watch_rank_text(handle->comm->parts.watch, handle->peer, rank, sizeof rank),
             message->sends ? "to" : "from", with_tag(handle->tag, tag));
}

/* It is over. The memory of one that was given back is freed. */
static void finish(struct tuttiComm *comm, struct tuttiMessage *handle, tuttiResult_t failed)
{
  if (failed != tuttiSuccess) {
    handle->message.result = failed;
    snprintf(handle->sentence, sizeof handle->sentence, "%s", tt_last_sentence());
  } else if (handle->message.result != tuttiSuccess) sentence_write(handle);
  pthread_mutex_lock(&tt_process.mutex);
  if (atomic_fetch_sub(&comm->messages.n, 1) == 1) atomic_store(&comm->messages.is_free, 0);
  atomic_fetch_sub(&comm->queue.queued, 1);
  int is_given_back = handle->is_given_back;
  atomic_store(&handle->is_over, 1);
  pthread_mutex_unlock(&tt_process.mutex);
  if (!is_given_back) return;
  tt_free(handle);
  atomic_fetch_sub(&comm->life.refs, 1); /* not the last one: the communicator lives */
}

static struct tt_message *posted_take(struct tuttiComm *comm)
{
  pthread_mutex_lock(&tt_process.mutex);
  struct tt_message *posted = comm->messages.posted;
  comm->messages.posted = NULL;
  pthread_mutex_unlock(&tt_process.mutex);
  return posted;
}

/* Ends what the engine has not seen, with this result. */
static void posted_end(struct tuttiComm *comm, struct tt_message *posted, tuttiResult_t result, tuttiResult_t failed)
{
  for (struct tt_message *next; posted; posted = next) {
    next = posted->next;
    posted->result = result;
    finish(comm, handle_of(posted), failed);
  }
}

static int over_finish(struct tuttiComm *comm, tuttiResult_t failed)
{
  int n = 0;
  for (struct tt_message *over; (over = tt_messages_over(comm->messages.engine)); n++)
    finish(comm, handle_of(over), failed);
  return n;
}

/* ---- moving ---- */

static tuttiResult_t engine_move(struct tuttiComm *comm, struct tt_message **posted, int look, int *moved)
{
  struct tt_messages *engine = comm->messages.engine;
  tuttiResult_t result = atomic_load(&comm->life.aborting) ? tt_comm_aborted(comm) : tt_comm_health(comm);
  while (*posted && result == tuttiSuccess) {
    struct tt_message *message = *posted, *next = message->next;
    result = tt_messages_add(engine, message);
    if (result != tuttiSuccess) return tt_comm_give_up(comm, result, 0);
    *posted = next;
  }
  if (result == tuttiSuccess) result = tt_messages_poll(engine, moved);
  if (result == tuttiInProgress) result = tuttiSuccess;
  if (result == tuttiSuccess && look) tt_messages_look(engine);
  return result;
}

void tt_messages_move(struct tuttiComm *comm, int look, int *moved)
{
  struct tt_message *posted = posted_take(comm);
  tuttiResult_t result = engine_move(comm, &posted, look, moved);
  if (result != tuttiSuccess) {
    tt_comm_halt(comm, result);
    tt_comm_why(comm); /* the sentence */
    tt_messages_end(comm->messages.engine, result);
    posted_end(comm, posted, result, result);
  }
  if (over_finish(comm, result)) *moved = 1;
}

void tt_messages_move_beside(struct tuttiComm *comm)
{
  int moved = 0;
  if (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) return;
  if (atomic_load(&comm->messages.n)) tt_messages_move(comm, 1, &moved);
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
}

int tt_messages_drive(struct tuttiComm *comm, int look)
{
  return tt_comm_serve(comm, look);
}

int tt_messages_are_free(struct tuttiComm *comm)
{
  if (atomic_load(&comm->messages.is_free)) return 1;
  if (atomic_load(&comm->life.inside)) return 0;
  atomic_store(&comm->messages.is_free, 1);
  return 1;
}

void tt_messages_finish(struct tuttiComm *comm)
{
  if (!atomic_load(&comm->messages.n)) return; /* in good order: a halt would give up what others still wait for */
  while (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) sched_yield();
  struct tt_message *posted = posted_take(comm);
  int has_failed = atomic_load(&comm->life.aborting) || tt_comm_has_failed(comm);
  tuttiResult_t failed = has_failed ? tt_comm_halt(comm, tt_comm_why(comm)) : tuttiSuccess;
  tt_messages_end(comm->messages.engine, tuttiInvalidUsage);
  over_finish(comm, failed);
  posted_end(comm, posted, tuttiInvalidUsage, failed);
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
}

/* ---- waiting ---- */

enum tt_slept tt_messages_sleep(void *it, uint64_t ns)
{
  return tt_messages_rest(it, -1, ns);
}

enum tt_slept tt_messages_rest(struct tuttiComm *comm, int wake, uint64_t ns)
{
  enum tt_slept slept = TT_SLEPT_NOT;
  if (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) return TT_SLEPT_NOT;
  if (atomic_load(&comm->messages.n) && tt_messages_are_free(comm))
    slept = tt_run_sleep(comm->parts.run, comm->messages.engine, wake, ns < SLEEP_MOST_NS ? ns : SLEEP_MOST_NS);
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
  return slept;
}

static void wait_inside(struct tuttiMessage *handle, int timeout_ms)
{
  struct tuttiComm *comm = handle->comm;
  struct tt_waiter waiter;
  uint64_t until = timeout_ms < 0 ? UINT64_MAX : tt_now_ns() + (uint64_t)timeout_ms * 1000000u;
  tt_waiter_init(&waiter, comm->facts.oversubscribed);
  waiter.sleep = tt_messages_sleep;
  waiter.sleeper = comm;
  for (int look = 0; !atomic_load_explicit(&handle->is_over, memory_order_acquire);) {
    int moved = tt_comm_serve(comm, look);
    if (atomic_load_explicit(&handle->is_over, memory_order_acquire)) return;
    if (timeout_ms >= 0 && tt_now_ns() >= until) return;
    look = tt_waiter_pause(&waiter, moved);
  }
}

tuttiResult_t tt_message_result(struct tuttiMessage *handle)
{
  tuttiResult_t result = handle->message.result;
  return result == tuttiSuccess ? result : tt_fail_quiet(result, handle->sentence);
}

static const char *lateness_text(const struct tuttiMessage *handle, char text[TT_SENTENCE_BYTES / 2])
{
  char rank[128], tag[32];
  with_tag(handle->tag, tag);
  if (handle->peer == TT_ANY) snprintf(text, TT_SENTENCE_BYTES / 2, "no rank has sent a message with %s", tag);
  else
    snprintf(text, TT_SENTENCE_BYTES / 2, handle->message.sends ? "%s has not taken the message with %s"
                                                                : "%s has not sent a message with %s",
             tt_watch_rank_text(handle->comm->parts.watch, handle->peer, rank, sizeof rank), tag);
  return text;
}

static void late_warn(const struct tuttiMessage *handle)
{
  char text[TT_SENTENCE_BYTES / 2];
  tt_log(TT_LOG_WARN, "rank %d: %s for %lld ms", handle->comm->facts.rank, lateness_text(handle, text),
         (long long)handle->comm->facts.settings.late_warn_ms);
}

/* Ends the communicator. */
static void late_fail(const struct tuttiMessage *handle)
{
  char text[TT_SENTENCE_BYTES / 2], sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "rank %d: %s within the timeout of %lld ms", handle->comm->facts.rank,
           lateness_text(handle, text), (long long)handle->comm->facts.settings.timeout_ms);
  tt_watch_fail(handle->comm->parts.watch, tuttiRemoteError, handle->peer == TT_ANY ? -1 : handle->peer, 0, sentence);
}

/* Waits for a message whose memory is the caller's, warns when it is late, and ends the communicator at the limit of
 * time: nothing may touch that memory afterwards. */
static void wait_within_limits(struct tuttiMessage *handle)
{
  const struct tt_settings *settings = &handle->comm->facts.settings;
  int limit_ms = settings->timeout_ms ? (int)settings->timeout_ms : -1, warn_ms = (int)settings->late_warn_ms;
  if (limit_ms < 0 || warn_ms < limit_ms) {
    wait_inside(handle, warn_ms);
    if (!atomic_load(&handle->is_over)) late_warn(handle);
    if (limit_ms > 0) limit_ms -= warn_ms;
  }
  wait_inside(handle, limit_ms);
  if (atomic_load(&handle->is_over)) return;
  late_fail(handle);
  wait_inside(handle, -1); /* it ends with the communicator's error */
}

/* The same limits for the messages that are left. */
static void left_look(struct tuttiComm *comm, uint64_t waited_ns, int *is_warned)
{
  const struct tt_settings *settings = &comm->facts.settings;
  uint64_t ms = waited_ns / 1000000;
  int is_late = settings->timeout_ms && ms >= (uint64_t)settings->timeout_ms;
  if (!is_late && (*is_warned || ms < (uint64_t)settings->late_warn_ms)) return;
  while (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) sched_yield();
  struct tt_message *left = tt_messages_left(comm->messages.engine);
  if (left && is_late) late_fail(handle_of(left));
  else if (left) late_warn(handle_of(left));
  *is_warned = 1;
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
}

tuttiResult_t tt_messages_complete(struct tuttiComm *comm)
{
  struct tt_waiter waiter;
  int look = 0, moved = 0, is_warned = 0, n = atomic_load(&comm->messages.n), left;
  uint64_t since_ns = tt_now_ns();
  if (!n) return tuttiSuccess;
  while (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) sched_yield();
  tt_messages_move(comm, 0, &moved); /* it knows all of them then */
  tt_messages_cancel(comm->messages.engine, tuttiInvalidUsage);
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
  tt_waiter_init(&waiter, comm->facts.oversubscribed);
  for (; (left = atomic_load(&comm->messages.n)); n = left) {
    look = tt_waiter_pause(&waiter, tt_comm_drive(comm, look));
    if (left < n) since_ns = tt_now_ns();
    else if (look) left_look(comm, tt_now_ns() - since_ns, &is_warned);
  }
  return tt_comm_standing(comm);
}

tuttiResult_t tt_message_run(struct tuttiComm *comm, struct tuttiMessage *handle)
{
  atomic_fetch_add(&comm->messages.callers, 1);
  tuttiResult_t result = begin(comm, handle, 0);
  if (result == tuttiSuccess) {
    wait_within_limits(handle);
    result = tt_message_result(handle);
  }
  atomic_fetch_sub(&comm->messages.callers, 1);
  return result;
}

tuttiResult_t tt_message_wait(struct tuttiMessage *handle, int timeout_ms)
{
  if (!atomic_load(&handle->is_over)) {
    atomic_fetch_add(&handle->comm->messages.callers, 1); /* the communicator ends messages, then waits for callers */
    wait_inside(handle, timeout_ms);
    atomic_fetch_sub(&handle->comm->messages.callers, 1);
  }
  return atomic_load(&handle->is_over) ? tt_message_result(handle) : tuttiInProgress;
}

void tt_message_give_back(struct tuttiMessage *handle)
{
  struct tuttiComm *comm = handle->comm;
  handle->magic = 0;
  pthread_mutex_lock(&tt_process.mutex);
  int is_over = atomic_load(&handle->is_over);
  handle->is_given_back = 1;
  pthread_mutex_unlock(&tt_process.mutex);
  if (!is_over) return;
  tt_free(handle);
  tt_comm_drop(comm);
}
