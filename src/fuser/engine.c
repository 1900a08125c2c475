/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine: the thread that sends messages in the order of the plan, and copies meanwhile. */
#include <stdio.h>
#include <string.h>

#include "fuser/private.h"

#define HANGS_NS 5000000000 /* a copy takes milliseconds */
#define IDLE_NS 20000000 /* this often failures of other ranks are looked for */

/* ---- failing ---- */

/* Waits for the copy under way, which may write to a caller's buffer, but not for a device that hangs. */
static void copy_end(struct tuttiFusion *fuser)
{
  const struct tt_device *device = fuser->copying.device;
  uint64_t until_ns = tt_now_ns() + HANGS_NS;
  while (fuser->copying.ticket && device->poll(device, fuser->copying.ticket) == tuttiInProgress) {
    if (tt_now_ns() > until_ns) {
      tt_log(TT_LOG_WARN, "a device has not ended a copy for %d s: nobody waits for it any more, but it may still "
             "write to a tensor of the fusion", (int)(HANGS_NS / 1000000000));
      break;
    }
    sched_yield();
  }
  fuser->copying.ticket = 0;
}

/* Ends what is under way on all channels and ranks before anybody hears of it: then buffers are the caller's. */
void tt_fuser_fail(struct tuttiFusion *fuser, tuttiResult_t result)
{
  int is_own = 1;
  for (int c = 0; c < fuser->nchannels; c++) is_own &= !atomic_load(tt_watch_failed(fuser->channel[c]->watch));
  if (is_own) result = tt_fuser_told(fuser, result);
  else tt_fuser_end(fuser, result);
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  for (int32_t m = fuser->back; m < fuser->next; m++) {
    struct message *message = &fuser->messages[m];
    while (message->op && !atomic_load_explicit(&message->op->done, memory_order_acquire))
      tt_comm_drive(message->op->comm, 0);
    if (message->op) tt_op_give(message->op);
    message->op = NULL;
  }
  copy_end(fuser);
  pthread_mutex_lock(&fuser->mutex);
  if (fuser->failed == tuttiSuccess) {
    fuser->failed = result;
    snprintf(fuser->sentence, sizeof fuser->sentence, "%s", sentence);
  }
  pthread_cond_broadcast(&fuser->done);
  pthread_mutex_unlock(&fuser->mutex);
}

/* ---- messages ---- */

static void binding_make(const struct tuttiFusion *fuser, struct message *message, const void *in, void *out,
                         struct tt_binding *binding)
{
  int parity = (int)(fuser->engine_step % 2);
  float after = fuser->step_after[parity];
  memset(binding, 0, sizeof *binding);
  binding->call = (struct tt_call){.count = message->count,
                                   .collective = TT_ALL_REDUCE,
                                   .type = (uint8_t)message->type,
                                   .redop = (uint8_t)fuser->redop,
                                   .root = -1,
                                   .form = tt_call_form(message->type, fuser->wire, after, fuser->reports)};
  binding->in = in;
  binding->out = out;
  binding->before = fuser->step_before[parity];
  binding->overflow = fuser->reports ? &message->overflow : NULL;
}

/* Not before all that was begun earlier is at its last steps: a message under way has the links for itself. */
static int may_begin(const struct tuttiFusion *fuser)
{
  for (int32_t m = fuser->back; m < fuser->next; m++) {
    const struct message *message = &fuser->messages[m];
    if (message->state == UNDER_WAY && m % fuser->nchannels == fuser->next % fuser->nchannels) return 0;
    if (message->state == UNDER_WAY && !tt_comm_ending(message->op->comm)) return 0;
  }
  return 1;
}

/* Starts the next message if all of it is there. 1: it did. */
static int message_begin(struct tuttiFusion *fuser, tuttiResult_t *result)
{
  const void *in = NULL;
  void *out = NULL;
  struct message *message = &fuser->messages[fuser->next];
  if (fuser->next == fuser->nmessages || !fuser->is_next_pushed || !may_begin(fuser)) return 0;
  if (!tt_fuser_place(fuser, message, &in, &out)) return 0;
  struct tt_binding binding;
  binding_make(fuser, message, in, out, &binding);
  message->op = tt_op_take(fuser->channel[fuser->next % fuser->nchannels], NULL, &binding);
  if (!message->op) {
    *result = tt_fail(tuttiSystemError, "out of memory for a message of %zu bytes", message->bytes);
    return 0;
  }
  message->op->next_of_group = NULL;
  message->begin_ns = tt_now_ns();
  message->state = UNDER_WAY;
  fuser->next++;
  tt_ops_submit(message->op);
  return 1;
}

/* Messages under way at once are on rows of their own. */
static void message_trace(const struct tuttiFusion *fuser, const struct message *message)
{
  char track[32], name[64], args[128];
  int m = (int)(message - fuser->messages);
  const struct part *part = &fuser->parts[message->first_part];
  snprintf(track, sizeof track, "fusion %u: messages %d", fuser->channel[0]->serial, m % fuser->nchannels + 1);
  snprintf(name, sizeof name, "%d: %.40s%s", m + 1, fuser->tensors[part->tensor].name,
           message->nparts > 1 ? ", ..." : "");
  snprintf(args, sizeof args, "\"step\":%llu,\"message\":%d,\"group\":%d,\"tensors\":%d,\"bytes\":%llu",
           (unsigned long long)fuser->engine_step, m + 1, (int)message->group + 1, message->nparts,
           (unsigned long long)message->wire_bytes);
  tt_timeline_add(&(struct tt_span){track, name, message->begin_ns, message->end_ns, args});
}

/* The channel's error, with what it was about. */
static tuttiResult_t message_why(const struct tuttiFusion *fuser, const struct message *message,
                                 const struct tuttiComm *comm)
{
  char sentence[TT_SENTENCE_BYTES];
  tuttiResult_t result = tt_comm_why(comm);
  const struct tensor *first = &fuser->tensors[fuser->parts[message->first_part].tensor];
  snprintf(sentence, sizeof sentence, "step %llu, message %d (%.60s%s): %.380s",
           (unsigned long long)fuser->engine_step, (int)(message - fuser->messages) + 1, first->name,
           message->nparts > 1 ? ", ..." : "", tt_last_sentence());
  return tt_fail_quiet(result, sentence);
}

/* A message has ended. */
static tuttiResult_t message_end(struct tuttiFusion *fuser, struct message *message)
{
  struct tuttiComm *comm = message->op->comm;
  tuttiResult_t result = message->op->result;
  tt_op_give(message->op);
  message->op = NULL;
  message->end_ns = tt_now_ns();
  message->state = CAME;
  if (result != tuttiSuccess) return message_why(fuser, message, comm);
  if (tt_timeline_wanted()) message_trace(fuser, message);
  pthread_mutex_lock(&fuser->mutex);
  message->last_begin_ns = message->begin_ns;
  message->last_end_ns = message->end_ns;
  fuser->overflow[fuser->engine_step % 2] |= fuser->reports && message->overflow;
  pthread_mutex_unlock(&fuser->mutex);
  return result;
}

/* Moves all that are under way, the oldest first. 1: something moved. */
static int messages_move(struct tuttiFusion *fuser, int look, tuttiResult_t *result)
{
  int moved = 0;
  for (int32_t m = fuser->back; m < fuser->next && *result == tuttiSuccess; m++) {
    struct message *message = &fuser->messages[m];
    if (message->state != UNDER_WAY) continue;
    moved |= tt_comm_drive(message->op->comm, look);
    if (!atomic_load_explicit(&message->op->done, memory_order_acquire)) continue;
    *result = message_end(fuser, message);
    moved = 1;
  }
  return moved;
}

/* ---- steps ---- */

void tt_fuser_step_start(struct tuttiFusion *fuser)
{
  for (int32_t m = 0; m < fuser->nmessages; m++) {
    struct message *message = &fuser->messages[m];
    message->state = TO_SEND;
    message->has_room = message->parts_in = message->overflow = 0;
    for (int p = 0; p < message->nparts; p++) fuser->parts[message->first_part + p].is_in = 0;
  }
  for (int i = 0; i < fuser->n; i++) {
    fuser->tensors[i].parts_left = fuser->tensors[i].nparts;
    memset(&fuser->tensors[i].norm_sum, 0, sizeof fuser->tensors[i].norm_sum);
  }
  fuser->next = fuser->back = fuser->copy = 0;
  fuser->forced = -1;
  fuser->ring_first = fuser->in_ring = 0;
  fuser->out_part = 0;
  fuser->looks++;
  fuser->copied_now = 0;
}

/* Messages first .. end - 1 were sent one behind the other. The next one begins before one has ended, and both share
 * the links: what a single one took says little, so each gets its part of what all took by what is expected of it. */
static void run_took(struct tuttiFusion *fuser, int32_t first, int32_t end, double us)
{
  double expected_us = 0;
  for (int32_t m = first; m < end; m++) expected_us += tt_message_us(&fuser->cost, fuser->messages[m].wire_bytes);
  for (int32_t m = first; m < end; m++) {
    struct message *message = &fuser->messages[m];
    double part = expected_us > 0 ? tt_message_us(&fuser->cost, message->wire_bytes) / expected_us : 0;
    message->took_us[fuser->engine_step % HISTORY] = (float)(us * part);
  }
}

/* In the order sent. */
static void took_take(struct tuttiFusion *fuser)
{
  uint64_t began_ns = 0, free_ns = 0;
  int32_t first = 0;
  for (int32_t m = 0; m < fuser->nmessages; m++) {
    const struct message *message = &fuser->messages[m];
    if (message->begin_ns > free_ns) {
      run_took(fuser, first, m, (double)(free_ns - began_ns) / 1000);
      first = m;
      began_ns = message->begin_ns;
    }
    if (message->end_ns > free_ns) free_ns = message->end_ns;
  }
  run_took(fuser, first, fuser->nmessages, (double)(free_ns - began_ns) / 1000);
}

/* All messages are back: ranks agree if it is time for that, and the next step begins. */
static tuttiResult_t step_finish(struct tuttiFusion *fuser)
{
  tuttiResult_t result = tuttiSuccess;
  uint64_t over = fuser->engine_step;
  took_take(fuser);
  if (over == fuser->agree_step) result = tt_fuser_agree(fuser);
  pthread_mutex_lock(&fuser->mutex);
  fuser->ndone = 0;
  fuser->overflow[(over + 1) % 2] = 0;
  fuser->engine_step = over + 1;
  tt_fuser_missing_count(fuser);
  if (fuser->all_waiters) pthread_cond_broadcast(&fuser->done);
  pthread_mutex_unlock(&fuser->mutex);
  tt_fuser_step_start(fuser);
  return result;
}

tuttiResult_t tt_fuser_run(struct tuttiFusion *fuser, int collective, void *data, size_t count, int type, int redop)
{
  size_t share = collective == TT_ALL_GATHER ? count * tt_type_size(type) * (size_t)fuser->rank : 0;
  struct tt_binding binding = {.in = (char *)data + share, .out = data, .before = 1};
  int root = tt_kinds[collective].has_root ? 0 : -1;
  binding.call = (struct tt_call){.count = count,
                                  .collective = (uint8_t)collective,
                                  .type = (uint8_t)type,
                                  .redop = (uint8_t)redop,
                                  .root = root};
  return tt_comm_run(fuser->channel[0], &binding);
}

/* A row of messages before there is a plan, begun as the engine begins them. */
struct row {
  size_t bytes;
  int begun, ended, look;
  struct tt_op *ops[CHANNELS]; /* under way */
};

/* Starts the next one if all that are under way are at their last steps. 1: it did. */
static int row_begin(struct tuttiFusion *fuser, struct row *row, tuttiResult_t *result)
{
  int c = row->begun % fuser->nchannels;
  for (int k = 0; k < fuser->nchannels; k++)
    if (row->ops[k] && (k == c || !tt_comm_ending(row->ops[k]->comm))) return 0;
  void *data = fuser->buffer + (size_t)c * row->bytes;
  struct tt_binding binding = {.in = data, .out = data, .before = 1};
  binding.call = (struct tt_call){.count = row->bytes / sizeof(float),
                                  .collective = TT_ALL_REDUCE,
                                  .type = tuttiFloat32,
                                  .redop = tuttiSum,
                                  .root = -1};
  row->ops[c] = tt_op_take(fuser->channel[c], NULL, &binding);
  if (!row->ops[c]) {
    tt_fail(tuttiSystemError, "out of memory for a message of %zu bytes", row->bytes);
    *result = tt_fuser_told(fuser, tuttiSystemError);
    return 0;
  }
  row->ops[c]->next_of_group = NULL;
  tt_ops_submit(row->ops[c]);
  row->begun++;
  return 1;
}

/* 1: something moved. */
static int row_move(struct tuttiFusion *fuser, struct row *row, tuttiResult_t *result)
{
  int moved = 0;
  for (int c = 0; c < fuser->nchannels; c++) {
    struct tt_op *op = row->ops[c];
    if (!op) continue;
    moved |= tt_comm_drive(op->comm, row->look);
    if (!atomic_load_explicit(&op->done, memory_order_acquire)) continue;
    if (op->result != tuttiSuccess && *result == tuttiSuccess) {
      *result = tt_comm_why(op->comm);
      tt_fuser_end(fuser, *result); /* who is ahead of this rank has begun what it will not begin any more */
    }
    tt_op_give(op);
    row->ops[c] = NULL;
    row->ended++;
    moved = 1;
  }
  return moved;
}

tuttiResult_t tt_fuser_row(struct tuttiFusion *fuser, size_t bytes, int messages)
{
  struct row row = {.bytes = bytes};
  struct tt_waiter waiter;
  tuttiResult_t result = tuttiSuccess;
  tt_waiter_init(&waiter, fuser->channel[0]->crowded);
  while (row.ended < row.begun || (row.begun < messages && result == tuttiSuccess)) {
    int moved = row_move(fuser, &row, &result);
    if (row.begun < messages && result == tuttiSuccess) moved |= row_begin(fuser, &row, &result);
    row.look = tt_waiter_pause(&waiter, moved);
  }
  return result;
}

/* ---- what users have done ---- */

/* Tensors whose streams have come to where they were pushed. Errors: that of a stream. */
static tuttiResult_t streams_look(struct tuttiFusion *fuser)
{
  for (int i = 0; i < fuser->n && fuser->nstreams; i++) {
    struct tensor *tensor = &fuser->tensors[i];
    if (!tensor->stream || !tt_stream_passed(tensor->stream, tensor->stream_mark)) continue;
    tuttiResult_t error = (tuttiResult_t)atomic_load(&tensor->stream->error);
    if (error != tuttiSuccess) return tt_fail_quiet(error, tensor->stream->sentence);
    tensor->stream = NULL;
    fuser->nstreams--;
    tt_fuser_ready(fuser, tensor);
  }
  return tuttiSuccess;
}

/* Looks at what has changed. 0: the engine is to end. */
static int users_look(struct tuttiFusion *fuser, tuttiResult_t *result)
{
  pthread_mutex_lock(&fuser->mutex);
  if (fuser->nstreams) *result = streams_look(fuser);
  if (fuser->seen_pushes != fuser->pushes) fuser->looks++;
  fuser->seen_pushes = fuser->pushes;
  fuser->seen_streams = fuser->nstreams;
  fuser->is_next_pushed =
      fuser->next < fuser->nmessages && fuser->missing[fuser->messages[fuser->next].group] == 0;
  int goes_on = !fuser->stopping;
  pthread_mutex_unlock(&fuser->mutex);
  return goes_on && *result == tuttiSuccess;
}

/* Sleeps until something is pushed that lets the next message begin, or enough to be copied, but not for long. */
static void sleep_for_users(struct tuttiFusion *fuser)
{
  pthread_mutex_lock(&fuser->mutex);
  if (fuser->seen_pushes == fuser->pushes && !fuser->stopping && !fuser->nstreams) {
    fuser->asleep = 1;
    fuser->slept_bytes = 0;
    fuser->wanted = fuser->messages[fuser->next].group;
    tt_fuser_doze(fuser, &fuser->wake, IDLE_NS);
    fuser->asleep = 0;
  }
  pthread_mutex_unlock(&fuser->mutex);
}

static tuttiResult_t channels_health(const struct tuttiFusion *fuser)
{
  tuttiResult_t result = tuttiSuccess;
  for (int c = 0; c < fuser->nchannels && result == tuttiSuccess; c++) result = tt_comm_health(fuser->channel[c]);
  return result;
}

/* After a failure there is nothing to do but to wait for the end. */
static void stop_await(struct tuttiFusion *fuser)
{
  pthread_mutex_lock(&fuser->mutex);
  while (!fuser->stopping) pthread_cond_wait(&fuser->wake, &fuser->mutex);
  pthread_mutex_unlock(&fuser->mutex);
}

/* Nothing moved. */
static tuttiResult_t pause(struct tuttiFusion *fuser, int *look)
{
  int under_way = 0;
  for (int32_t m = fuser->back; m < fuser->next; m++) under_way |= fuser->messages[m].state == UNDER_WAY;
  tuttiResult_t result = under_way ? tuttiSuccess : channels_health(fuser);
  if (under_way || fuser->copying.ticket || fuser->seen_streams) {
    *look = tt_waiter_pause(&fuser->waiter, 0);
    return result;
  }
  *look = 0;
  if (result == tuttiSuccess) sleep_for_users(fuser);
  tt_waiter_pause(&fuser->waiter, 1);
  return result;
}

void *tt_fuser_main(void *context)
{
  struct tuttiFusion *fuser = context;
  tuttiResult_t result = tuttiSuccess;
  int look = 0;
  tt_waiter_init(&fuser->waiter, fuser->channel[0]->crowded);
  tt_fuser_step_start(fuser);
  while (users_look(fuser, &result)) {
    int moved = messages_move(fuser, look, &result);
    look = 0;
    while (result == tuttiSuccess && message_begin(fuser, &result)) {
      moved = 1;
      users_look(fuser, &result);
    }
    if (result == tuttiSuccess) moved |= tt_fuser_copy(fuser, &result);
    if (result == tuttiSuccess && fuser->back == fuser->nmessages) {
      result = step_finish(fuser);
      moved = 1;
    }
    if (moved) tt_waiter_pause(&fuser->waiter, 1);
    else if (result == tuttiSuccess) result = pause(fuser, &look);
    if (result != tuttiSuccess) break;
  }
  if (result != tuttiSuccess) {
    tt_fuser_fail(fuser, result);
    stop_await(fuser);
  }
  return NULL;
}
