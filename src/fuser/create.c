/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a fuser: channels, rank 0's prices, the engine, on all ranks or on none; its end. */
#include <stdio.h>
#include <string.h>

#include "fuser/private.h"
#include "fusion/price.h"

/* ---- channels ---- */

/* All but the first are made from that, which ends on all ranks with a rank that cannot make one. */
static tuttiResult_t channel_make(struct tuttiFusion *fuser, struct tuttiComm *comm, struct tuttiComm **channel)
{
  struct tuttiComm *parent = fuser->nchannels ? fuser->channel[0] : comm;
  char name[64];
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  struct tt_settings settings = comm->settings;
  struct tt_comm_spec spec = {.parent = parent, .key = comm->rank, .device = comm->device, .is_second = 1};
  snprintf(name, sizeof name, "%.40s%sfusion %d", comm->name, comm->name[0] ? " " : "", fuser->nchannels + 1);
  config.name = name;
  spec.config = &config;
  spec.settings = &settings;
  tuttiResult_t result = tt_comm_create(channel, &spec);
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  if (result == tuttiSuccess)
    while ((result = tt_comm_create_poll(*channel)) == tuttiInProgress) tt_comm_create_rest(*channel, &waiter);
  if (result == tuttiSuccess || (!fuser->nchannels && *channel)) return result; /* all have heard of it */
  return tt_comm_give_up(parent, result, 0);
}

static tuttiResult_t channels_make(struct tuttiFusion *fuser, struct tuttiComm *comm)
{
  int wanted = (int)comm->settings.fusion_channels;
  tuttiResult_t result = tuttiSuccess;
  for (int c = 0; c < wanted && result == tuttiSuccess; c++) {
    struct tuttiComm *channel = NULL;
    result = channel_make(fuser, comm, &channel);
    if (channel) fuser->channel[fuser->nchannels++] = channel;
  }
  return result;
}

void tt_fuser_end(struct tuttiFusion *fuser, tuttiResult_t result)
{
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  char *name = strstr(sentence, " (communicator "); /* each adds its own */
  if (name) *name = '\0';
  for (int c = 0; c < fuser->nchannels; c++)
    tt_watch_fail_too(fuser->channel[c]->watch, result, fuser->rank, sentence);
  tt_fail_quiet(result, sentence);
}

tuttiResult_t tt_fuser_told(struct tuttiFusion *fuser, tuttiResult_t result)
{
  if (result == tuttiSuccess) return result;
  result = tt_comm_give_up(fuser->channel[0], result, 0);
  tt_fuser_end(fuser, result);
  return result;
}

/* ---- prices ---- */

static tuttiResult_t prices_find(struct tuttiFusion *fuser)
{
  struct tt_pricing *pricing = tt_alloc(1, sizeof *pricing);
  if (!pricing) return tt_fail(tuttiSystemError, "out of memory for the prices of messages");
  tuttiResult_t result = tt_pricing_make(pricing, fuser->channel[0]);
  if (result == tuttiSuccess)
    result = tt_message_cost_price(&fuser->priced, &fuser->channel[0]->settings, &pricing->tuning);
  tt_pricing_destroy(pricing);
  tt_free(pricing);
  return result;
}

/* Those of rank 0 count. */
static tuttiResult_t prices_take(struct tuttiFusion *fuser)
{
  tuttiResult_t result = fuser->rank == 0 ? tt_fuser_told(fuser, prices_find(fuser)) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  return tt_fuser_run(fuser, TT_BROADCAST, &fuser->priced, sizeof fuser->priced, tuttiUint8, tuttiSum);
}

/* ---- making ---- */

static void tensors_take(struct tuttiFusion *fuser, const tuttiFusionTensor_t *tensors)
{
  for (int i = 0; i < fuser->n; i++) {
    struct tensor *tensor = &fuser->tensors[i];
    if (tensors[i].name) snprintf(tensor->name, NAME_BYTES, "%s", tensors[i].name);
    else snprintf(tensor->name, NAME_BYTES, "tensor %d", i);
    tensor->count = tensors[i].count;
    tensor->type = (int)tensors[i].type;
    tensor->element = (int)tt_type_size(tensor->type);
    tensor->bytes = tensor->count * (size_t)tensor->element;
    tensor->wire_element =
        (int)tt_type_size(tensor->type == tuttiFloat32 && fuser->wire != tuttiFloat32 ? fuser->wire : tensor->type);
  }
}

/* No more than would hold all tensors in two messages. */
static void buffer_cut(struct tuttiFusion *fuser)
{
  size_t most = 4096, all;
  for (int i = 0; i < fuser->n; i++)
    if (__builtin_add_overflow(most, 2 * fuser->tensors[i].bytes + 128, &most)) most = SIZE_MAX / 2;
  all = fuser->buffer_bytes < most ? fuser->buffer_bytes : most;
  fuser->buffer_bytes = (all + 4095) & ~(size_t)4095;
}

static tuttiResult_t policy_take(struct tuttiFusion *fuser, const struct tuttiComm *comm,
                                 const tuttiFusionConfig_t *config)
{
  const char *text = comm->settings.fusion_policy;
  if (!text[0]) text = config->policy ? config->policy : "auto";
  if (strlen(text) >= sizeof fuser->policy_text)
    return tt_fail(tuttiInvalidArgument, "policy '%.40s...' is too long: at most %zu bytes", text,
                   sizeof fuser->policy_text - 1);
  strcpy(fuser->policy_text, text);
  tuttiResult_t result = tt_policy_parse(&fuser->policy, text);
  fuser->agree_step = tt_trial_next(&fuser->trial, 0);
  return result;
}

static tuttiResult_t fields_set(struct tuttiFusion *fuser, struct tuttiComm *comm, const tuttiFusionConfig_t *config)
{
  size_t bytes = (size_t)comm->settings.fusion_bytes;
  if (!bytes) bytes = config->buffer_bytes ? config->buffer_bytes : (size_t)64 << 20;
  fuser->buffer_bytes = fuser->asked_bytes = bytes;
  fuser->nranks = comm->nranks;
  fuser->rank = comm->rank;
  fuser->redop = config->op;
  fuser->wire = config->wire_type == TUTTI_CONFIG_UNDEF_INT ? comm->wire_type : config->wire_type;
  fuser->reports = config->overflow;
  fuser->norms = config->norms;
  fuser->before = fuser->after = 1;
  fuser->engine_step = 1;
  fuser->timeout_ns = (uint64_t)comm->settings.timeout_ms * 1000000;
  fuser->warn_ns = (uint64_t)comm->settings.late_warn_ms * 1000000;
  return policy_take(fuser, comm, config);
}

static void locks_init(struct tuttiFusion *fuser)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&fuser->mutex, NULL);
  pthread_cond_init(&fuser->wake, &monotonic);
  pthread_cond_init(&fuser->done, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static tuttiResult_t engine_start(struct tuttiFusion *fuser)
{
  int error = tt_thread_start(&fuser->thread, "tutti-fusion", tt_fuser_main, fuser);
  if (error)
    return tt_fail(tuttiSystemError, "no thread for the fusion: %s; raise the limit of processes (ulimit -u)",
                   strerror(error));
  fuser->has_thread = 1;
  return tuttiSuccess;
}

static tuttiResult_t memory_make(struct tuttiFusion *fuser, const tuttiFusionTensor_t *tensors)
{
  size_t n = (size_t)fuser->n;
  void *buffer = NULL;
  fuser->tensors = tt_alloc(n, sizeof *fuser->tensors);
  fuser->facts = tt_alloc(n, sizeof *fuser->facts);
  fuser->sums = tt_alloc(n, sizeof *fuser->sums);
  fuser->gifts = tt_alloc(n, sizeof *fuser->gifts);
  fuser->by_address = tt_alloc(n, sizeof *fuser->by_address);
  if (!fuser->tensors || !fuser->facts || !fuser->sums || !fuser->gifts || !fuser->by_address)
    return tt_fail(tuttiSystemError, "out of memory for a fusion of %d tensors", fuser->n);
  tensors_take(fuser, tensors);
  buffer_cut(fuser);
  tuttiResult_t result = tt_heap_alloc(&buffer, fuser->buffer_bytes);
  fuser->buffer = buffer;
  return result;
}

/* Nobody is done before all have what they need. */
static tuttiResult_t all_await(struct tuttiFusion *fuser)
{
  int32_t one = 1;
  return tt_fuser_run(fuser, TT_ALL_REDUCE, &one, 1, tuttiInt32, tuttiSum);
}

static tuttiResult_t fuser_fill(struct tuttiFusion *fuser, struct tuttiComm *comm, const tuttiFusionTensor_t *tensors,
                                const tuttiFusionConfig_t *config)
{
  tuttiResult_t result = fields_set(fuser, comm, config);
  if (result == tuttiSuccess) result = channels_make(fuser, comm);
  if (result == tuttiSuccess) result = tt_fuser_told(fuser, memory_make(fuser, tensors));
  if (result == tuttiSuccess) result = tt_fuser_compare(fuser);
  if (result == tuttiSuccess) result = prices_take(fuser);
  if (result == tuttiSuccess) result = tt_fuser_probe(fuser);
  if (result == tuttiSuccess) result = tt_fuser_told(fuser, tt_fuser_plan_first(fuser));
  if (result == tuttiSuccess) result = tt_fuser_told(fuser, engine_start(fuser));
  if (result == tuttiSuccess) result = all_await(fuser);
  return result;
}

static void fuser_free(struct tuttiFusion *fuser)
{
  fuser->magic = 0;
  tt_fuser_plan_free(fuser);
  tt_fuser_as_sent_free(&fuser->kept);
  tt_fuser_as_sent_free(&fuser->beaten);
  if (fuser->buffer) tt_heap_free(fuser->buffer);
  tt_free(fuser->fetched);
  tt_free(fuser->tensors);
  tt_free(fuser->facts);
  tt_free(fuser->sums);
  tt_free(fuser->gifts);
  tt_free(fuser->by_address);
  pthread_cond_destroy(&fuser->done);
  pthread_cond_destroy(&fuser->wake);
  pthread_mutex_destroy(&fuser->mutex);
  tt_free(fuser);
}

tuttiResult_t tt_fuser_create(struct tuttiFusion **out, struct tuttiComm *comm, const tuttiFusionTensor_t *tensors,
                              int ntensors, const tuttiFusionConfig_t *config)
{
  struct tuttiFusion *fuser = tt_alloc(1, sizeof *fuser);
  if (!fuser) return tt_comm_give_up(comm, tt_fail(tuttiSystemError, "out of memory for a fusion"), 0);
  fuser->n = ntensors;
  locks_init(fuser);
  tuttiResult_t result = fuser_fill(fuser, comm, tensors, config);
  fuser->magic = TT_FUSER_MAGIC;
  if (result == tuttiSuccess) {
    *out = fuser;
    return result;
  }
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  tt_fuser_destroy(fuser);
  return tt_fail_quiet(result, sentence);
}

/* ---- the end ---- */

int tt_fuser_is(const struct tuttiFusion *fuser)
{
  return fuser && fuser->magic == TT_FUSER_MAGIC;
}

int tt_fuser_tensors(const struct tuttiFusion *fuser)
{
  return fuser->n;
}

static void channels_abort(struct tuttiFusion *fuser)
{
  char rank[128], sentence[TT_SENTENCE_BYTES];
  for (int c = 0; c < fuser->nchannels; c++) {
    snprintf(sentence, sizeof sentence, "%s aborted the fusion",
             tt_watch_rank_text(fuser->channel[c]->watch, fuser->rank, rank, sizeof rank));
    if (c == 0) tt_watch_fail(fuser->channel[c]->watch, tuttiRemoteError, fuser->rank, 0, sentence);
    else tt_watch_fail_too(fuser->channel[c]->watch, tuttiRemoteError, fuser->rank, sentence);
  }
}

tuttiResult_t tt_fuser_abort(struct tuttiFusion *fuser)
{
  pthread_mutex_lock(&fuser->mutex);
  int is_over = fuser->failed != tuttiSuccess;
  pthread_mutex_unlock(&fuser->mutex);
  if (is_over) return tuttiSuccess;
  channels_abort(fuser);
  pthread_mutex_lock(&fuser->mutex);
  fuser->asleep = 0;
  fuser->pushes++;
  pthread_cond_signal(&fuser->wake);
  while (fuser->failed == tuttiSuccess) pthread_cond_wait(&fuser->done, &fuser->mutex); /* what is under way ends */
  pthread_mutex_unlock(&fuser->mutex);
  return tuttiSuccess;
}

/* The engine ends, after what is under way; that is ended if it is not a whole step. */
static void engine_stop(struct tuttiFusion *fuser)
{
  if (!fuser->has_thread) return;
  pthread_mutex_lock(&fuser->mutex);
  int is_open = fuser->step && fuser->npushed < fuser->n, failed = fuser->failed != tuttiSuccess;
  pthread_mutex_unlock(&fuser->mutex);
  if (is_open && !failed) tt_fuser_abort(fuser);
  pthread_mutex_lock(&fuser->mutex);
  fuser->all_waiters++;
  while (fuser->failed == tuttiSuccess && (is_open || fuser->engine_step <= fuser->step))
    pthread_cond_wait(&fuser->done, &fuser->mutex);
  fuser->stopping = 1;
  pthread_cond_signal(&fuser->wake);
  pthread_mutex_unlock(&fuser->mutex);
  pthread_join(fuser->thread, NULL);
}

tuttiResult_t tt_fuser_destroy(struct tuttiFusion *fuser)
{
  tuttiResult_t result = tuttiSuccess;
  engine_stop(fuser);
  for (int c = fuser->nchannels - 1; c >= 0; c--) { /* the first one is the parent of the others */
    tuttiResult_t destroyed = tt_comm_destroy(fuser->channel[c]);
    if (result == tuttiSuccess) result = destroyed;
  }
  fuser_free(fuser);
  return result;
}
