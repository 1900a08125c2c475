/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine: the thread that sends messages in the order of the plan, and copies meanwhile. */
#include <stdio.h>
#include <string.h>

#include "fusion/private.h"
#include "planner/flight.h"

#define IDLE_NS 20000000 /* interval of looks for failures of other ranks */

/* ---- failing ---- */

/* Ends all operations under way, on all channels and ranks, before any caller learns of the failure: then buffers are
 * the caller's. */
void tt_fusion_fail(struct tuttiFusion *fusion, tuttiResult_t result)
{
  const struct config *config = &fusion->config;
  struct shared *shared = &fusion->shared;
  struct engine *engine = &fusion->engine;
  int is_own = 1;
  for (int c = 0; c < config->nchannels; c++) is_own &= !tt_comm_has_failed(config->channel[c]);
  if (is_own) result = tt_fusion_told(config, result);
  else tt_fusion_end(config, result);
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  for (int32_t k = engine->back; k < engine->nbegun; k++) {
    struct message_progress *progress = &engine->messages[engine->begun[k]];
    struct tt_op *op = progress->op;
    while (op && !tt_op_done(op)) tt_op_drive(op, 0);
    if (op) tt_op_end(op);
    progress->op = NULL;
  }
  pthread_mutex_lock(&shared->mutex);
  if (shared->failed == tuttiSuccess) {
    shared->failed = result;
    snprintf(shared->sentence, sizeof shared->sentence, "%s", sentence);
  }
  pthread_cond_broadcast(&shared->done);
  pthread_mutex_unlock(&shared->mutex);
}

/* ---- messages ---- */

static void binding_make(const struct tuttiFusion *fusion, int32_t m, struct tt_binding *binding)
{
  const struct config *config = &fusion->config;
  const struct engine *engine = &fusion->engine;
  const struct message *message = &engine->used->messages[m];
  memset(binding, 0, sizeof *binding);
  binding->call = (struct tt_call){
      .count = message->count,
      .collective = TT_ALL_REDUCE,
      .type = (uint8_t)message->type,
      .redop = (uint8_t)config->redop,
      .root = -1,
      .form = tt_call_form(message->type, config->wire, engine->seen.scale.after, config->reports)};
  binding->before = engine->seen.scale.before;
  binding->overflow = config->reports ? &engine->messages[m].overflow : NULL;
}

/* As plays have it (flight.h); a message that is at its last steps, or waits for a late rank, is not in flight here. */
static int may_begin(const struct engine *engine)
{
  uint64_t bytes = 0;
  int n = 0;
  for (int32_t k = engine->back; k < engine->nbegun; k++) {
    int32_t m = engine->begun[k];
    const struct message_progress *progress = &engine->messages[m];
    if (progress->state != UNDER_WAY || tt_sequence_is_parked(&engine->ordering.order, progress->channel)) continue;
    if (tt_op_ending(progress->op)) continue;
    bytes += engine->used->messages[m].wire_bytes;
    n++;
  }
  return tt_flight_may(engine->used->fusion.credit, n, bytes);
}

/* Starts the next message if all of it is there. 1: it did. */
static int message_begin(struct tuttiFusion *fusion, tuttiResult_t *result)
{
  const struct config *config = &fusion->config;
  struct engine *engine = &fusion->engine;
  struct tt_sequence_begin what;
  struct tt_binding binding;
  const void *in = NULL;
  void *out = NULL;
  if (!tt_sequence_next(&engine->ordering.order, &what) || (!what.is_owed && !may_begin(engine))) return 0;
  int32_t m = engine->ordering.messages[what.message];
  if (!tt_fusion_place(fusion, &what, &in, &out)) {
    if (what.is_owed || what.is_sure) *result = tt_fusion_spare(fusion, &what);
    return 0;
  }
  struct message_progress *progress = &engine->messages[m];
  binding_make(fusion, m, &binding);
  binding.in = in;
  binding.out = out;
  progress->begin_ns = tt_now_ns();
  progress->op = engine->used->messages[m].is_coded ? tt_fusion_coded_begin(fusion, m, what.channel)
                                                    : tt_op_begin(config->channel[what.channel], &binding);
  if (!progress->op) {
    *result = tt_fail(tuttiSystemError, "out of memory for a message of %zu bytes",
                      engine->used->messages[m].bytes);
    return 0;
  }
  progress->state = UNDER_WAY;
  progress->channel = what.channel;
  engine->begun[engine->nbegun++] = m;
  tt_sequence_begin(&engine->ordering.order, &what);
  return 1;
}

/* Messages under way at the same time are on rows of their own. */
static void message_trace(const struct tuttiFusion *fusion, int32_t m, uint64_t end_ns)
{
  char track[32], name[64], args[128];
  const struct config *config = &fusion->config;
  const struct plan *plan = fusion->engine.used;
  const struct message *message = &plan->messages[m];
  snprintf(track, sizeof track, "fusion %u: messages %d", tt_comm_facts(config->channel[0])->serial,
           fusion->engine.messages[m].channel + 1);
  snprintf(name, sizeof name, "%d: %.40s%s", m + 1, config->tensors[plan->parts[message->first_part].tensor].name,
           message->nparts > 1 ? ", ..." : "");
  snprintf(args, sizeof args, "\"step\":%llu,\"message\":%d,\"group\":%d,\"tensors\":%d,\"bytes\":%llu",
           (unsigned long long)fusion->engine.step, m + 1, (int)message->group + 1, message->nparts,
           (unsigned long long)message->wire_bytes);
  tt_timeline_add(&(struct tt_span){track, name, fusion->engine.messages[m].begin_ns, end_ns, args, "fusion"});
}

/* Makes the channel's error, the thread's last sentence, say which message it was about. */
static tuttiResult_t message_why(const struct tuttiFusion *fusion, int32_t m, tuttiResult_t result)
{
  char sentence[TT_SENTENCE_BYTES];
  const struct plan *plan = fusion->engine.used;
  const struct message *message = &plan->messages[m];
  snprintf(sentence, sizeof sentence, "step %llu, message %d (%.60s%s): %.380s",
           (unsigned long long)fusion->engine.step, (int)m + 1,
           fusion->config.tensors[plan->parts[message->first_part].tensor].name, message->nparts > 1 ? ", ..." : "",
           tt_last_sentence());
  return tt_fail_quiet(result, sentence);
}

/* Ends a message that has come. */
static tuttiResult_t message_end(struct tuttiFusion *fusion, int32_t m)
{
  struct engine *engine = &fusion->engine;
  struct shared *shared = &fusion->shared;
  struct message_progress *progress = &engine->messages[m];
  uint64_t end_ns = tt_now_ns();
  tuttiResult_t result = tt_op_end(progress->op);
  progress->op = NULL;
  progress->state = CAME;
  tt_sequence_end(&engine->ordering.order, progress->channel);
  if (result != tuttiSuccess) return message_why(fusion, m, result);
  if (tt_timeline_wanted()) message_trace(fusion, m, end_ns);
  pthread_mutex_lock(&shared->mutex);
  shared->planned.sent[m] = (struct interval){progress->begin_ns, end_ns};
  shared->steps[engine->step % 2].overflow |= fusion->config.reports && progress->overflow;
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

/* Moves all messages under way, the oldest first. 1: something moved. */
static int messages_move(struct tuttiFusion *fusion, int look, tuttiResult_t *result)
{
  const struct engine *engine = &fusion->engine;
  int moved = 0;
  for (int32_t k = engine->back; k < engine->nbegun && *result == tuttiSuccess; k++) {
    int32_t m = engine->begun[k];
    const struct message_progress *progress = &engine->messages[m];
    if (progress->state != UNDER_WAY) continue;
    moved |= tt_op_drive(progress->op, look);
    if (!tt_op_done(progress->op)) continue;
    *result = message_end(fusion, m);
    moved = 1;
  }
  return moved;
}

/* ---- steps ---- */

void tt_fusion_step_start(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  const struct plan *plan = engine->used;
  for (int32_t m = 0; m < plan->nmessages; m++) {
    struct message_progress *progress = &engine->messages[m];
    progress->state = TO_SEND;
    progress->has_room = progress->parts_in = progress->overflow = 0;
  }
  memset(engine->is_in, 0, (size_t)plan->nparts);
  for (int i = 0; i < fusion->config.n; i++) {
    engine->tensors[i].parts_left = plan->cuts[i].nparts;
    engine->tensors[i].norm = (struct tt_norm){0};
    engine->tensors[i].added = 0;
  }
  tt_sequence_start(&engine->ordering.order, engine->step);
  engine->nbegun = engine->back = 0;
  engine->out = -1;
  engine->out_part = 0;
  engine->ring.first = engine->ring.n = engine->ring.next = 0;
  engine->ring.forced = -1;
  tt_fusion_spares_forget(&engine->ring);
  engine->looks++;
  engine->copied = 0;
}

/* The first-th to (end - 1)-th message were sent one behind the other, in so many microseconds. The next one begins
 * before one has ended, and both share the links: what a single one took says little, so each took as much longer than
 * expected as all did beside a play of them. None took longer than from its begin to its end. */
static void run_took(struct engine *engine, const struct interval *sent, int32_t first, int32_t end, double us)
{
  const struct message *messages = engine->used->messages;
  const struct tt_message_cost *cost = &engine->known.cost;
  struct tt_flight flight;
  double expected_us = 0;
  tt_flight_start(&flight, cost, engine->used->fusion.credit);
  for (int32_t k = first; k < end; k++)
    if (messages[engine->begun[k]].count)
      expected_us = tt_flight_begin(&flight, flight.next_us, messages[engine->begun[k]].wire_bytes);
  for (int32_t k = first; k < end; k++) {
    int32_t m = engine->begun[k];
    double part = expected_us > 0 ? tt_message_us(cost, messages[m].wire_bytes) / expected_us : 0;
    double its_us = (double)(sent[m].end_ns - sent[m].begin_ns) / 1000;
    engine->messages[m].took_us[engine->step % HISTORY] = (float)(us * part < its_us ? us * part : its_us);
  }
}

/* In the order sent. */
static void took_take(struct engine *engine, const struct interval *sent)
{
  uint64_t began_ns = 0, free_ns = 0;
  int32_t first = 0, n = engine->used->nmessages;
  for (int32_t k = 0; k < n; k++) {
    const struct interval *its = &sent[engine->begun[k]];
    if (its->begin_ns > free_ns) {
      run_took(engine, sent, first, k, (double)(free_ns - began_ns) / 1000);
      first = k;
      began_ns = its->begin_ns;
    }
    if (its->end_ns > free_ns) free_ns = its->end_ns;
  }
  run_took(engine, sent, first, n, (double)(free_ns - began_ns) / 1000);
}

void tt_fusion_step_end(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  struct shared *shared = &fusion->shared;
  pthread_mutex_lock(&shared->mutex);
  shared->finished = engine->step++;
  shared->ndone = 0;
  shared->steps[engine->step % 2].overflow = 0;
  if (!fusion->served) tt_fusion_missing_count(&fusion->config, shared);
  if (shared->all_waiters) pthread_cond_broadcast(&shared->done);
  pthread_mutex_unlock(&shared->mutex);
}

/* Ends a step whose messages are all back: ranks agree if it is time for that, and the next step begins. */
static tuttiResult_t step_finish(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  struct shared *shared = &fusion->shared;
  tuttiResult_t result = tuttiSuccess;
  took_take(engine, shared->planned.sent);
  int overflowed = shared->steps[engine->step % 2].overflow; /* which the engine alone writes */
  if (overflowed && fusion->config.rule.planes) result = tt_fusion_weights_again(fusion);
  if (result != tuttiSuccess) return result;
  tt_fusion_coding_step(fusion, overflowed);
  for (int i = 0; i < fusion->config.n && tt_fusion_gives_last(&fusion->config); i++)
    tt_fusion_tensor_finish(fusion, i);
  if (engine->step == engine->agree_step) result = tt_fusion_agree(fusion);
  if (result != tuttiSuccess) return result;
  tt_fusion_step_end(fusion);
  tt_fusion_step_start(fusion);
  return result;
}

tuttiResult_t tt_fusion_run(const struct config *config, int collective, void *data, size_t count, int type,
                            int redop)
{
  size_t share = collective == TT_ALL_GATHER ? count * tt_type_size(type) * (size_t)config->rank : 0;
  struct tt_binding binding = {.in = (char *)data + share, .out = data, .before = 1, .is_host = 1};
  int root = tt_kinds[collective].has_root ? 0 : -1;
  binding.call = (struct tt_call){.count = count,
                                  .collective = (uint8_t)collective,
                                  .type = (uint8_t)type,
                                  .redop = (uint8_t)redop,
                                  .root = root};
  return tt_comm_run(config->channel[0], &binding);
}

/* A row of messages before there is a plan, begun as the engine begins them; in flight together if it is_full. */
struct row {
  size_t bytes;
  int is_full;
  int begun, ended, look;
  struct tt_op *ops[CHANNELS]; /* under way */
};

/* Starts the next message of the row if its channel is free, and all under way are at their last steps or the row is
 * full. 1: it did. */
static int row_begin(const struct config *config, struct row *row, tuttiResult_t *result)
{
  int c = row->begun % config->nplanned;
  for (int k = 0; k < config->nplanned; k++)
    if (row->ops[k] && (k == c || !(row->is_full || tt_op_ending(row->ops[k])))) return 0;
  void *data = config->buffer + (size_t)c * row->bytes;
  struct tt_binding binding = {.in = data, .out = data, .before = 1};
  binding.call = (struct tt_call){.count = row->bytes / sizeof(float),
                                  .collective = TT_ALL_REDUCE,
                                  .type = tuttiFloat32,
                                  .redop = tuttiSum,
                                  .root = -1};
  row->ops[c] = tt_op_begin(config->channel[c], &binding);
  if (!row->ops[c]) {
    tt_fail(tuttiSystemError, "out of memory for a message of %zu bytes", row->bytes);
    *result = tt_fusion_told(config, tuttiSystemError);
    return 0;
  }
  row->begun++;
  return 1;
}

/* 1: something moved. */
static int row_move(const struct config *config, struct row *row, tuttiResult_t *result)
{
  int moved = 0;
  for (int c = 0; c < config->nplanned; c++) {
    struct tt_op *op = row->ops[c];
    if (!op) continue;
    moved |= tt_op_drive(op, row->look);
    if (!tt_op_done(op)) continue;
    tuttiResult_t ended = tt_op_end(op);
    if (ended != tuttiSuccess && *result == tuttiSuccess) {
      *result = ended;
      tt_fusion_end(config, ended); /* a rank ahead of this one has begun messages that this rank will not begin */
    }
    row->ops[c] = NULL;
    row->ended++;
    moved = 1;
  }
  return moved;
}

tuttiResult_t tt_fusion_row(const struct config *config, size_t bytes, int messages, int is_full)
{
  struct row row = {.bytes = bytes, .is_full = is_full};
  struct tt_waiter waiter;
  tuttiResult_t result = tuttiSuccess;
  tt_waiter_init(&waiter, tt_comm_facts(config->channel[0])->oversubscribed);
  while (row.ended < row.begun || (row.begun < messages && result == tuttiSuccess)) {
    int moved = row_move(config, &row, &result);
    if (row.begun < messages && result == tuttiSuccess) moved |= row_begin(config, &row, &result);
    row.look = tt_waiter_pause(&waiter, moved);
  }
  return result;
}

/* ---- pushes of users ---- */

/* Notes tensors whose streams have come to the place at which they were pushed. Errors: that of a stream. */
static tuttiResult_t streams_look(struct tuttiFusion *fusion)
{
  struct shared *shared = &fusion->shared;
  for (int i = 0; i < fusion->config.n && shared->nstreams; i++) {
    struct gradient *gradient = &shared->gradients[i];
    if (!gradient->stream) continue;
    tuttiResult_t result = tt_stream_passed(gradient->stream, gradient->stream_mark);
    if (result == tuttiInProgress) continue;
    if (result != tuttiSuccess) return result;
    gradient->stream = NULL;
    shared->nstreams--;
    tt_fusion_ready(fusion, i);
  }
  return tuttiSuccess;
}

int tt_fusion_users_look(struct tuttiFusion *fusion, tuttiResult_t *result)
{
  struct engine *engine = &fusion->engine;
  struct shared *shared = &fusion->shared;
  pthread_mutex_lock(&shared->mutex);
  if (shared->nstreams) *result = streams_look(fusion);
  if (engine->seen.pushes != shared->pushes) engine->looks++;
  engine->seen = (struct seen){.pushes = shared->pushes,
                               .nstreams = shared->nstreams,
                               .is_asked = shared->asked.codec != NULL,
                               .scale = shared->steps[engine->step % 2].scale};
  if (!fusion->served) tt_fusion_order_look(engine, shared);
  int goes_on = !shared->is_stopping;
  pthread_mutex_unlock(&shared->mutex);
  return goes_on && *result == tuttiSuccess;
}

/* Sleeps until something is pushed that lets a message begin, or enough to be copied, but not for long. 1: nothing has
 * been pushed. */
static int sleep_for_users(struct shared *shared, const struct engine *engine)
{
  pthread_mutex_lock(&shared->mutex);
  if (engine->seen.pushes == shared->pushes && !shared->is_stopping && !shared->nstreams) {
    shared->sleep = (struct sleep){.is_asleep = 1};
    tt_fusion_idle(shared, &shared->wake, IDLE_NS);
    shared->sleep.is_asleep = 0;
  }
  int is_idle = engine->seen.pushes == shared->pushes;
  pthread_mutex_unlock(&shared->mutex);
  return is_idle;
}

/* Shows what this rank has not pushed of the engine's step: others may wait for that. It is looked at when the engine
 * has slept for IDLE_NS, and shown if it is new. */
static void lacks_show(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  const struct config *config = &fusion->config;
  struct tt_lacks lacks = {.magic = TT_LACKS_MAGIC, .all = (uint32_t)config->n};
  for (int i = config->n - 1; i >= 0; i--) {
    if (atomic_load_explicit(&fusion->shared.gradients[i].ready, memory_order_relaxed) >= engine->step) continue;
    lacks.tensor = (uint32_t)i;
    lacks.missing++;
  }
  if (lacks.missing) {
    lacks.step = engine->step;
    snprintf(lacks.name, sizeof lacks.name, "%.63s", config->tensors[lacks.tensor].name);
  }
  if (memcmp(&lacks, &engine->lacks, sizeof lacks) == 0) return;
  engine->lacks = lacks;
  for (int c = 0; c < config->nchannels; c++) tt_comm_show_lacks(config->channel[c], &lacks);
}

static tuttiResult_t channels_health(const struct config *config)
{
  tuttiResult_t result = tuttiSuccess;
  for (int c = 0; c < config->nchannels && result == tuttiSuccess; c++) result = tt_comm_health(config->channel[c]);
  return result;
}

void tt_fusion_stop_await(struct shared *shared)
{
  pthread_mutex_lock(&shared->mutex);
  while (!shared->is_stopping) pthread_cond_wait(&shared->wake, &shared->mutex);
  pthread_mutex_unlock(&shared->mutex);
}

/* Nothing moved. */
static tuttiResult_t pause(struct tuttiFusion *fusion, int *look)
{
  struct engine *engine = &fusion->engine;
  int under_way = 0;
  for (int32_t k = engine->back; k < engine->nbegun; k++)
    under_way |= engine->messages[engine->begun[k]].state == UNDER_WAY;
  tuttiResult_t result = under_way ? tuttiSuccess : channels_health(&fusion->config);
  if (under_way || engine->seen.nstreams || !tt_fusion_order_rests(fusion)) {
    *look = tt_waiter_pause(&engine->waiter, 0);
    if (*look && fusion->config.frames) tt_comm_round_look(fusion->config.frames, engine->waiter.since_ns);
    return result;
  }
  if (result == tuttiSuccess && sleep_for_users(&fusion->shared, engine)) lacks_show(fusion);
  tt_waiter_pause(&engine->waiter, 1);
  *look = 1; /* at the frames of all ranks: some may wait in a round for this one */
  return result;
}

void *tt_fusion_main(void *context)
{
  struct tuttiFusion *fusion = context;
  struct engine *engine = &fusion->engine;
  tuttiResult_t result = tuttiSuccess;
  int look = 0;
  tt_waiter_init(&engine->waiter, tt_comm_facts(fusion->config.channel[0])->oversubscribed);
  tt_fusion_step_start(fusion);
  while (tt_fusion_users_look(fusion, &result)) {
    int moved = messages_move(fusion, look, &result), looks = look;
    look = 0;
    while (result == tuttiSuccess && message_begin(fusion, &result)) {
      moved = 1;
      tt_fusion_users_look(fusion, &result);
    }
    if (result == tuttiSuccess) moved |= tt_fusion_copy(fusion);
    if (result == tuttiSuccess) moved |= tt_fusion_order_move(fusion, !moved, looks, &result);
    if (result == tuttiSuccess && engine->back == engine->used->nmessages && tt_fusion_order_rests(fusion)) {
      result = step_finish(fusion);
      moved = 1;
    }
    if (result == tuttiSuccess && engine->seen.is_asked) moved |= tt_fusion_codec_look(fusion, &result);
    if (moved) tt_waiter_pause(&engine->waiter, 1);
    else if (result == tuttiSuccess) result = pause(fusion, &look);
    if (result != tuttiSuccess) break;
  }
  if (result != tuttiSuccess) {
    tt_fusion_fail(fusion, result);
    tt_fusion_stop_await(&fusion->shared);
  }
  return NULL;
}
