/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a fusion: channels, rank 0's prices, the engine, on all ranks or on none; its end. */
#include <stdio.h>
#include <string.h>

#include "fusion/private.h"
#include "fusion/served_private.h"
#include "planner/price.h"

#define CODEC_LEAST 1024 /* elements: biases and norms travel as they are */
#define SMALL_BUFFER 65536 /* bytes: a smaller buffer is a mistake outside of tests */

/* ---- channels ---- */

/* Begins another one. Frames are short: one lane is enough for them. */
static tuttiResult_t channel_begin(struct config *config, struct tuttiComm *comm, int has_frames)
{
  struct tuttiComm *parent = config->nchannels ? config->channel[0] : comm, *channel = NULL;
  char name[64];
  tuttiConfig_t its = TUTTI_CONFIG_INITIALIZER;
  const struct tt_comm_facts *facts = tt_comm_facts(comm);
  struct tt_settings settings = facts->settings;
  struct tt_comm_spec spec = {.parent = parent, .key = facts->rank, .device = facts->device, .is_second = 1};
  snprintf(name, sizeof name, "%.40s%sfusion %d", facts->name, facts->name[0] ? " " : "", config->nchannels + 1);
  if (has_frames) settings.lanes = 1;
  its.name = name;
  spec.config = &its;
  spec.settings = &settings;
  tuttiResult_t result = tt_comm_create(&channel, &spec);
  if (channel) config->channel[config->nchannels++] = channel;
  return result;
}

/* The first one ends on all ranks with a rank that cannot make another one. */
static tuttiResult_t channel_first(struct config *config, struct tuttiComm *comm)
{
  tuttiResult_t result = channel_begin(config, comm, 0);
  if (result == tuttiSuccess) return tt_comm_create_wait(config->channel[0]);
  return config->nchannels ? result : tt_comm_give_up(comm, result, 0); /* else all have heard of it */
}

/* The others are made at once. Servers need none. */
static tuttiResult_t channels_make(struct config *config, struct tuttiComm *comm)
{
  const struct tt_comm_facts *facts = tt_comm_facts(comm);
  int wanted = config->nplanned + (facts->nranks > 1 ? 2 : 0);
  tuttiResult_t result = tuttiSuccess;
  if (config->serving.is_on) return result;
  for (int c = 1; c < wanted && result == tuttiSuccess; c++)
    result = channel_begin(config, comm, facts->nranks > 1 && c == wanted - 1);
  if (result == tuttiSuccess) result = tt_comms_create_wait(config->channel + 1, config->nchannels - 1);
  if (result != tuttiSuccess) return tt_comm_give_up(config->channel[0], result, 0);
  if (facts->nranks > 1) config->frames = config->channel[wanted - 1];
  return result;
}

void tt_fusion_end(const struct config *config, tuttiResult_t result)
{
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  char *name = strstr(sentence, " (communicator "); /* each adds its own */
  if (name) *name = '\0';
  for (int c = 0; c < config->nchannels; c++)
    tt_comm_fail(config->channel[c], result, sentence, 1);
  tt_fail_quiet(result, sentence);
}

tuttiResult_t tt_fusion_told(const struct config *config, tuttiResult_t result)
{
  if (result == tuttiSuccess) return result;
  result = tt_comm_give_up(config->channel[0], result, 0);
  tt_fusion_end(config, result);
  return result;
}

/* ---- prices ---- */

static tuttiResult_t prices_find(struct config *config)
{
  const struct tuttiComm *channel = config->channel[0];
  struct tt_pricing *pricing = NULL;
  tuttiResult_t result = tt_pricing_create(&pricing, channel);
  if (result == tuttiSuccess)
    result = tt_message_cost_price(&config->priced, tt_comm_table(channel), &tt_comm_facts(channel)->settings,
                                   tt_pricing_tuning(pricing));
  tt_pricing_destroy(pricing);
  return result;
}

/* Finds the prices of messages; those of rank 0 count. */
static tuttiResult_t prices_take(struct config *config)
{
  tuttiResult_t result = config->rank == 0 ? tt_fusion_told(config, prices_find(config)) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  result = tt_fusion_run(config, TT_BROADCAST, &config->priced, sizeof config->priced, tuttiUint8, tuttiSum);
  if (result != tuttiSuccess || tt_message_cost_is_right(&config->priced)) return result;
  return tt_fusion_told(config, tt_fail(tuttiInternalError, "rank 0 sent prices of messages that make no sense: its "
                                        "memory is damaged, or it runs another version of the library"));
}

/* ---- making ---- */

static void tensors_take(struct config *config, const tuttiFusionTensor_t *tensors, const uint32_t *rows)
{
  for (int i = 0; i < config->n; i++) {
    struct tensor *tensor = &config->tensors[i];
    if (tensors[i].name) snprintf(tensor->name, NAME_BYTES, "%s", tensors[i].name);
    else snprintf(tensor->name, NAME_BYTES, "tensor %d", i);
    tensor->count = tensors[i].count;
    tensor->type = (int)tensors[i].type;
    tensor->element = (int)tt_type_size(tensor->type);
    tensor->bytes = tensor->count * (size_t)tensor->element;
    tensor->row = rows ? rows[i] : 0;
  }
}

/* Cuts the buffer to room for two messages of all tensors. */
static void buffer_cut(struct config *config)
{
  size_t most = 4096, all;
  for (int i = 0; i < config->n; i++)
    if (__builtin_add_overflow(most, 2 * config->tensors[i].bytes + 128, &most)) most = SIZE_MAX / 2;
  all = config->buffer_bytes < most ? config->buffer_bytes : most;
  config->buffer_bytes = (all + 4095) & ~(size_t)4095;
}

static tuttiResult_t policy_take(struct config *config, const struct tt_comm_facts *facts,
                                 const tuttiFusionConfig_t *asked)
{
  const char *text = facts->settings.fusion_policy;
  if (!text[0]) text = asked->policy ? asked->policy : "auto";
  if (strlen(text) >= sizeof config->policy_text)
    return tt_fail(tuttiInvalidArgument, "policy '%.40s...' is too long: at most %zu bytes", text,
                   sizeof config->policy_text - 1);
  strcpy(config->policy_text, text);
  return tt_policy_parse(&config->policy, text);
}

static tuttiResult_t config_set(struct config *config, const struct tt_comm_facts *facts,
                                const tuttiFusionTensor_t *tensors, const tuttiFusionConfig_t *asked)
{
  const char *codec = facts->settings.fusion_codec[0] ? facts->settings.fusion_codec : asked->codec;
  size_t bytes = (size_t)facts->settings.fusion_bytes;
  if (bytes && bytes < SMALL_BUFFER && facts->rank == 0)
    tt_log(TT_LOG_WARN, "TUTTI_FUSION_BYTES is %zu: messages of tensors that have to be copied are that short, which "
           "is slow; from 1M on it is no limit for most models", bytes);
  if (!bytes) bytes = asked->buffer_bytes ? asked->buffer_bytes : (size_t)64 << 20;
  config->buffer_bytes = config->asked_bytes = bytes;
  config->nplanned = (int)facts->settings.fusion_channels;
  config->nranks = facts->nranks;
  config->rank = facts->rank;
  config->redop = asked->op;
  config->wire = asked->wire_type == TUTTI_CONFIG_UNDEF_INT ? facts->wire_type : asked->wire_type;
  config->reports = asked->overflow;
  config->norms = asked->norms;
  config->timeout_ns = (uint64_t)facts->settings.timeout_ms * 1000000;
  config->warn_ns = (uint64_t)facts->settings.late_warn_ms * 1000000;
  config->codec_least = asked->codec_least ? asked->codec_least : CODEC_LEAST;
  tensors_take(config, tensors, asked->rows);
  tuttiResult_t result = tt_fusion_rule_read(config, asked);
  if (result == tuttiSuccess) result = tt_fusion_serving_read(config, asked);
  if (result == tuttiSuccess) result = tt_fusion_codec_read(config, codec, &config->codec);
  return result == tuttiSuccess ? policy_take(config, facts, asked) : result;
}

static void locks_init(struct shared *shared)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&shared->mutex, NULL);
  pthread_cond_init(&shared->wake, &monotonic);
  pthread_cond_init(&shared->done, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static tuttiResult_t engine_start(struct tuttiFusion *fusion)
{
  void *(*engine)(void *) = fusion->served ? tt_fusion_served_main : tt_fusion_main;
  int error = tt_thread_start(&fusion->thread, "tutti-fusion", engine, fusion);
  if (error)
    return tt_fail(tuttiSystemError, "no thread for the fusion: %s; raise the limit of processes (ulimit -u)",
                   strerror(error));
  fusion->has_thread = 1;
  return tuttiSuccess;
}

static tuttiResult_t buffer_make(struct config *config)
{
  void *buffer = NULL;
  buffer_cut(config);
  tuttiResult_t result = tt_user_alloc(&buffer, config->buffer_bytes);
  config->buffer = buffer;
  return result;
}

static tuttiResult_t memory_make(struct tuttiFusion *fusion)
{
  struct shared *shared = &fusion->shared;
  struct ranges *ranges = &shared->ranges;
  struct engine *engine = &fusion->engine;
  size_t n = (size_t)fusion->config.n;
  shared->gradients = tt_alloc(n, sizeof *shared->gradients);
  shared->missing = tt_alloc(n, sizeof *shared->missing);
  shared->complete = tt_alloc(n, sizeof *shared->complete);
  ranges->sums = tt_alloc(n, sizeof *ranges->sums);
  ranges->inputs = tt_alloc(n, sizeof *ranges->inputs);
  ranges->by_address = tt_alloc(n, sizeof *ranges->by_address);
  engine->tensors = tt_alloc(n, sizeof *engine->tensors);
  engine->known.facts = tt_alloc(n, sizeof *engine->known.facts);
  if (!shared->gradients || !shared->missing || !shared->complete || !ranges->sums || !ranges->inputs ||
      !ranges->by_address || !engine->tensors || !engine->known.facts)
    return tt_fail(tuttiSystemError, "out of memory for a fusion of %zu tensors", n);
  int has_servers = fusion->config.serving.is_on;
  tuttiResult_t result = has_servers ? tuttiSuccess : buffer_make(&fusion->config);
  if (result == tuttiSuccess) result = tt_fusion_coding_set(fusion, &fusion->config.codec);
  return result == tuttiSuccess && has_servers ? tt_fusion_served_make(fusion) : result;
}

/* No rank is done before all have what they need, or have died where that is no failure. */
static tuttiResult_t all_await(struct tuttiFusion *fusion)
{
  int32_t one = 1;
  if (fusion->served && tt_deaths_are_survived(fusion)) return tt_fusion_served_await(fusion);
  return tt_fusion_run(&fusion->config, TT_ALL_REDUCE, &one, 1, tuttiInt32, tuttiSum);
}

static tuttiResult_t planning_make(struct tuttiFusion *fusion)
{
  struct config *config = &fusion->config;
  tuttiResult_t result = tt_fusion_rounds_make(fusion);
  if (result == tuttiSuccess) result = prices_take(config);
  if (result == tuttiSuccess) result = tt_fusion_probe(config, &fusion->engine.known);
  return result == tuttiSuccess ? tt_fusion_told(config, tt_fusion_plans_first(fusion)) : result;
}

static tuttiResult_t fusion_fill(struct tuttiFusion *fusion, const struct tt_fusion_spec *spec)
{
  struct tuttiComm *comm = spec->comm;
  struct config *config = &fusion->config;
  struct engine *engine = &fusion->engine;
  engine->step = 1;
  engine->agree_step = tt_trial_next(&engine->trial, 0);
  config->moving.has_come = spec->from != NULL;
  fusion->shared.scale = (struct scale){1, 1, spec->config->rate};
  fusion->shared.planned.bound_us = -1;
  tuttiResult_t result = config_set(config, tt_comm_facts(comm), spec->tensors, spec->config);
  if (spec->from) tt_fusion_serving_keep(&config->serving, &spec->from->config.serving);
  tt_fusion_shadows_place(fusion);
  if (result == tuttiSuccess) result = channel_first(config, comm);
  if (result == tuttiSuccess) result = tt_fusion_compare(config);
  if (result == tuttiSuccess) result = channels_make(config, comm);
  if (result == tuttiSuccess) result = tt_fusion_told(config, memory_make(fusion));
  if (result == tuttiSuccess && !fusion->served) result = planning_make(fusion);
  if (result == tuttiSuccess && config->moving.is_any) result = tt_fusion_take(fusion, spec->from);
  if (result == tuttiSuccess) result = tt_fusion_told(config, engine_start(fusion));
  return result == tuttiSuccess ? all_await(fusion) : result;
}

static void fusion_free(struct tuttiFusion *fusion)
{
  struct config *config = &fusion->config;
  struct shared *shared = &fusion->shared;
  struct engine *engine = &fusion->engine;
  fusion->magic = 0;
  tt_fusion_served_free(fusion);
  tt_fusion_plans_free(fusion);
  tt_fusion_coding_free(fusion);
  tt_fusion_rounds_free(engine);
  tt_fusion_spares_free(&engine->ring);
  tt_free(engine->tensors);
  tt_free(engine->known.facts);
  tt_free(shared->gradients);
  tt_free(shared->missing);
  tt_free(shared->complete);
  tt_free(shared->ranges.sums);
  tt_free(shared->ranges.inputs);
  tt_free(shared->ranges.by_address);
  pthread_cond_destroy(&shared->done);
  pthread_cond_destroy(&shared->wake);
  pthread_mutex_destroy(&shared->mutex);
  pthread_mutex_destroy(&fusion->shadows.mutex);
  if (fusion->shadows.memory) tt_user_free(fusion->shadows.memory);
  if (config->buffer) tt_user_free(config->buffer);
  tt_free(fusion);
}

tuttiResult_t tt_fusion_create(struct tuttiFusion **out, const struct tt_fusion_spec *spec)
{
  struct tuttiFusion *fusion = tt_alloc(1, sizeof *fusion + (size_t)spec->ntensors * sizeof *fusion->config.tensors);
  if (!fusion) return tt_comm_give_up(spec->comm, tt_fail(tuttiSystemError, "out of memory for a fusion"), 0);
  fusion->config.n = spec->ntensors;
  fusion->config.tensors = (struct tensor *)(fusion + 1);
  locks_init(&fusion->shared);
  pthread_mutex_init(&fusion->shadows.mutex, NULL);
  tuttiResult_t result = fusion_fill(fusion, spec);
  fusion->magic = TT_FUSION_MAGIC;
  if (result == tuttiSuccess) {
    *out = fusion;
    return result;
  }
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  tt_fusion_destroy(fusion);
  return tt_fail_quiet(result, sentence);
}

/* ---- the end ---- */

int tt_fusion_is(const struct tuttiFusion *fusion)
{
  return fusion && fusion->magic == TT_FUSION_MAGIC;
}

int tt_fusion_tensors(const struct tuttiFusion *fusion)
{
  return fusion->config.n;
}

static void channels_abort(const struct config *config)
{
  char rank[128], sentence[TT_SENTENCE_BYTES];
  for (int c = 0; c < config->nchannels; c++) {
    snprintf(sentence, sizeof sentence, "%s aborted the fusion",
             tt_comm_rank_text(config->channel[c], config->rank, rank, sizeof rank));
    tt_comm_fail(config->channel[c], tuttiRemoteError, sentence, c > 0);
  }
}

tuttiResult_t tt_fusion_abort(struct tuttiFusion *fusion)
{
  struct shared *shared = &fusion->shared;
  pthread_mutex_lock(&shared->mutex);
  if (shared->failed == tuttiSuccess && shared->is_stopping < 2) {
    channels_abort(&fusion->config);
    shared->sleep.is_asleep = 0;
    shared->pushes++;
    pthread_cond_signal(&shared->wake);
  }
  while (shared->failed == tuttiSuccess && shared->is_stopping < 2) /* the engine ends them */
    pthread_cond_wait(&shared->done, &shared->mutex);
  pthread_mutex_unlock(&shared->mutex);
  return tuttiSuccess;
}

/* A step of which not all tensors were pushed is aborted. */
static void engine_stop(struct tuttiFusion *fusion)
{
  struct shared *shared = &fusion->shared;
  if (!fusion->has_thread) return;
  pthread_mutex_lock(&shared->mutex);
  int is_open = shared->step && shared->npushed < fusion->config.n, failed = shared->failed != tuttiSuccess;
  pthread_mutex_unlock(&shared->mutex);
  if (is_open && !failed) tt_fusion_abort(fusion);
  pthread_mutex_lock(&shared->mutex);
  shared->all_waiters++;
  while (shared->failed == tuttiSuccess && (is_open || shared->finished < shared->step))
    pthread_cond_wait(&shared->done, &shared->mutex);
  shared->is_stopping = 1;
  pthread_cond_signal(&shared->wake);
  pthread_mutex_unlock(&shared->mutex);
  pthread_join(fusion->thread, NULL);
  fusion->has_thread = 0;
  pthread_mutex_lock(&shared->mutex);
  shared->is_stopping = 2;
  pthread_cond_broadcast(&shared->done);
  pthread_mutex_unlock(&shared->mutex);
}

tuttiResult_t tt_fusion_stop(struct tuttiFusion *fusion)
{
  struct config *config = &fusion->config;
  tuttiResult_t result = tuttiSuccess;
  engine_stop(fusion);
  while (config->nchannels > 0) { /* the first one is the parent of the others */
    tuttiResult_t destroyed = tt_comm_destroy(config->channel[--config->nchannels]);
    if (result == tuttiSuccess) result = destroyed;
  }
  return result;
}

tuttiResult_t tt_fusion_destroy(struct tuttiFusion *fusion)
{
  tuttiResult_t result = tt_fusion_stop(fusion);
  fusion_free(fusion);
  return result;
}
