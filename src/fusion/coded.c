/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors that travel as codes: which ones, their planes of state from step to step, and their messages.
 *
 * A coded message is an operation like any other (comm/coded.h), encoded from where its tensors lie, so it has no room
 * in the fusion buffer. The bits of a tensor do not depend on the plan: it is cut between grains of its codec only, or
 * by the route gather not at all, the owner of an element follows from the tensor, and random numbers from tensor,
 * step, rank and element. To planner and cost a tensor is as long as an all-reduce that moves as many bytes.
 *
 * Planes are kept twice: a step reads what the last complete one has left and writes the other copy, and the two change
 * places when it has ended. So a step that overflowed, or a fusion that fails in mid-step, leaves planes as they were.
 * Ranks agree on another codec between two steps, in the engine, as they agree on times.
 *
 * Tensors whose weights are updated by owners (update.c) go the same way, with a codec or without one. */
#include <stdio.h>
#include <string.h>

#include "fusion/served_private.h"
#include "reduce/fpenv.h"

#define NONE "none"

/* ---- the codec ---- */

static int has_codec(const struct config *config, const struct tt_codec *codec, const struct tensor *tensor)
{
  return codec->row && tensor->type == tuttiFloat32 && tensor->count && tensor->count >= config->codec_least;
}

/* A row of the tensor's matrix goes before that of the text. */
static struct tt_codec codec_for(const struct tt_codec *codec, const struct tensor *tensor)
{
  struct tt_codec its = *codec;
  if (tensor->row && strcmp(tt_codec_name(codec->row), "1bit") == 0) its.number[0] = tensor->row;
  return its;
}

tuttiResult_t tt_fusion_codec_read(const struct config *config, const char *text, struct tt_codec *codec)
{
  struct tt_codec read = {.row = NULL};
  tuttiResult_t result = tt_codec_is_none(text) ? tuttiSuccess : tt_codec_parse(&read, text);
  if (result == tuttiSuccess && read.row && config->rule.exchanges)
    return tt_fail(tuttiInvalidArgument, "codec %s is for gradients, but with update \"%s\" ranks push weights: leave "
                   "it out", tt_codec_name(read.row), config->rule.kind == GOSSIP ? "gossip" : "easgd");
  if (result == tuttiSuccess && read.row && config->rule.planes && !config->serving.is_on &&
      tt_codec_route(&read) == TT_CODEC_GATHER)
    result = tt_fail(tuttiInvalidArgument, "codec %s gives all ranks the sum, so no owner updates weights: leave out "
                     "the update and update on each rank, set config.quorum to the number of ranks, so that owners are "
                     "servers, or give fp16, bf16, int8, 1bit, qsgd or terngrad", tt_codec_name(read.row));
  for (int i = 0; i < config->n && result == tuttiSuccess; i++) {
    const struct tensor *tensor = &config->tensors[i];
    if (has_codec(config, &read, tensor)) result = tt_codec_check(&read, tensor->count, config->nranks);
  }
  if (result == tuttiSuccess) *codec = read;
  return result;
}

const char *tt_fusion_codec_text(const struct tt_codec *codec, char text[TT_CODEC_TEXT_BYTES])
{
  memset(text, 0, TT_CODEC_TEXT_BYTES);
  if (codec->row) return tt_codec_text(codec, text);
  return strcpy(text, NONE);
}

/* ---- lengths ---- */

/* The codec of the tensor; row NULL: it has none. */
static struct tt_codec codec_of(const struct config *config, const struct tt_codec *codec, const struct tensor *tensor)
{
  return has_codec(config, codec, tensor) ? codec_for(codec, tensor) : (struct tt_codec){.row = NULL};
}

/* Elements of an updated tensor that no cut parts. Norms are of all. */
static uint64_t update_unit(const struct config *config, const struct tensor *tensor, const struct tt_codec *codec)
{
  if (config->rule.kind == LARS) return tensor->count;
  uint64_t unit = codec->row ? tt_codec_unit(codec, tensor->count) : 1;
  return unit < tensor->count ? unit : tensor->count;
}

uint64_t tt_fusion_owned_unit(const struct config *config, const struct tensor_code *code, const struct tensor *tensor)
{
  return tt_coded_unit(&code->codec, tensor->count, config->nranks);
}

/* Sets all that follows from the codec. */
static void tensor_set(struct tensor *tensor, const struct config *config, const struct tt_codec *codec,
                       uint64_t *turns)
{
  struct tt_codec its = codec_of(config, codec, tensor);
  tensor->has_codec = its.row != NULL;
  tensor->is_coded = tensor->has_codec || (config->rule.planes && tensor->count);
  tensor->unit = 1;
  tensor->wire_unit =
      tt_type_size(tensor->type == tuttiFloat32 && config->wire != tuttiFloat32 ? config->wire : tensor->type);
  tensor->turn = (uint32_t)(*turns % (uint64_t)config->nranks);
  if (!tensor->is_coded) return;
  uint64_t owned = tt_coded_unit(&its, tensor->count, config->nranks);
  if (config->rule.planes) {
    tensor->unit = update_unit(config, tensor, &its);
    tensor->wire_unit =
        tt_codec_wire_update(&its, tensor->unit, config->nranks, tensor->wire_unit,
                             tt_type_size(tensor->type == tuttiFloat32 ? config->rule.weights : tensor->type));
  } else {
    tensor->unit = tt_codec_unit(&its, tensor->count);
    tensor->wire_unit = tt_codec_wire(&its, tensor->count, config->nranks);
  }
  *turns += (tensor->count + owned - 1) / owned;
}

/* ---- planes ---- */

static void stage_free(struct tensor_code *code, enum tt_codec_stage stage)
{
  for (int p = 0; p < TT_CODEC_PLANES; p++) {
    tt_free(code->planes[stage][p]);
    tt_free(code->changed[stage][p]);
    code->planes[stage][p] = code->changed[stage][p] = NULL;
  }
}

static void planes_free(struct tensor_code *code)
{
  stage_free(code, TT_CODEC_CONTRIBUTION);
  stage_free(code, TT_CODEC_RESULT);
  code->wanted = code->wants = 0;
}

/* Those of results have room for the whole tensor, too, but of it only what this rank owns is ever touched. */
static tuttiResult_t planes_make(struct tensor_code *code, const struct tensor *tensor, int stages)
{
  for (int stage = 0; stage < stages; stage++)
    for (int p = 0; p < tt_codec_planes(&code->codec, (enum tt_codec_stage)stage); p++) {
      if (code->planes[stage][p]) continue;
      code->planes[stage][p] = tt_alloc(tensor->count, sizeof(float));
      code->changed[stage][p] = tt_alloc(tensor->count, sizeof(float));
      if (!code->planes[stage][p] || !code->changed[stage][p])
        return tt_fail(tuttiSystemError, "out of memory for the state of tensor %.60s (%llu elements)", tensor->name,
                       (unsigned long long)tensor->count);
    }
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_coding_set(struct tuttiFusion *fusion, const struct tt_codec *codec)
{
  struct config *config = &fusion->config;
  struct coding *coding = &fusion->coding;
  tuttiResult_t result = tuttiSuccess;
  uint64_t turns = 0;
  if (!coding->tensors) {
    coding->tensors = tt_alloc((size_t)config->n, sizeof *coding->tensors);
    coding->after = 1;
  }
  if (!coding->tensors) return tt_fail(tuttiSystemError, "out of memory for the codes of %d tensors", config->n);
  if (!coding->owned) result = tt_fusion_owned_make(fusion);
  for (int i = 0; i < config->n && result == tuttiSuccess; i++) {
    struct tensor *tensor = &config->tensors[i];
    struct tensor_code *code = &coding->tensors[i];
    uint64_t unit = tensor->is_coded ? tt_fusion_owned_unit(config, code, tensor) : 0;
    uint32_t turn = tensor->turn;
    tensor_set(tensor, config, codec, &turns);
    if (coding->codec.row != codec->row) planes_free(code);
    code->prepared = 0;
    if (!tensor->is_coded) continue;
    code->codec = codec_of(config, codec, tensor);
    if (unit != tt_fusion_owned_unit(config, code, tensor) || turn != tensor->turn) {
      stage_free(code, TT_CODEC_RESULT);
      if (config->rule.planes && unit) result = tt_fusion_owned_move(fusion, i, unit, turn);
    }
    if (result == tuttiSuccess && tensor->has_codec)
      result = planes_make(code, tensor, config->rule.planes ? TT_CODEC_RESULT : 2);
  }
  coding->codec = *codec;
  return result;
}

void tt_fusion_coding_free(struct tuttiFusion *fusion)
{
  struct coding *coding = &fusion->coding;
  for (int i = 0; coding->tensors && i < fusion->config.n; i++) planes_free(&coding->tensors[i]);
  tt_free(coding->tensors);
  tt_free(coding->parts);
  tt_free(coding->scaled);
  tt_fusion_owned_free(fusion);
}

static void exchange(float **plane, float **changed)
{
  float *before = *plane;
  *plane = *changed;
  *changed = before;
}

void tt_fusion_codes_keep(struct tuttiFusion *fusion, float after)
{
  struct coding *coding = &fusion->coding;
  coding->after = after;
  for (int i = 0; i < fusion->config.n && coding->codec.row; i++) {
    struct tensor_code *code = &coding->tensors[i];
    code->wanted = code->wants;
    for (int k = 0; k < 2 * TT_CODEC_PLANES; k++)
      exchange(&code->planes[k / TT_CODEC_PLANES][k % TT_CODEC_PLANES],
               &code->changed[k / TT_CODEC_PLANES][k % TT_CODEC_PLANES]);
  }
}

void tt_fusion_coding_step(struct tuttiFusion *fusion, int overflowed)
{
  struct coding *coding = &fusion->coding;
  int has_planes = (coding->codec.row || coding->owned) && !overflowed;
  coding->past.kept = has_planes ? KEPT_BEFORE : KEPT_SAME;
  if (!overflowed) tt_fusion_codes_keep(fusion, fusion->engine.seen.scale.after);
  for (int i = 0; i < fusion->config.n && coding->owned && !overflowed; i++)
    for (int p = 0; p < UPDATE_PLANES; p++) exchange(&coding->owned[i].planes[p], &coding->owned[i].changed[p]);
  pthread_mutex_lock(&fusion->shared.mutex);
  coding->step = fusion->engine.step;
  pthread_mutex_unlock(&fusion->shared.mutex);
}

/* ---- messages ---- */

float *tt_fusion_scaled(struct tuttiFusion *fusion, const float *values, uint64_t count, float factor)
{
  struct coding *coding = &fusion->coding;
  if (coding->nscaled < count) {
    tt_free(coding->scaled);
    coding->scaled = tt_alloc(count, sizeof *coding->scaled);
    coding->nscaled = coding->scaled ? count : 0;
  }
  if (coding->scaled) tt_coded_multiply(coding->scaled, values, count, factor);
  return coding->scaled;
}

int tt_fusion_facts_find(struct tuttiFusion *fusion, int index, float factor)
{
  struct tensor_code *code = &fusion->coding.tensors[index];
  const float *values = fusion->shared.gradients[index].send;
  uint64_t count = fusion->config.tensors[index].count;
  if (code->prepared == fusion->engine.step) return 1;
  if (factor != 1) values = tt_fusion_scaled(fusion, values, count, factor);
  if (!values) return 0;
  tt_codec_prepare(&code->codec, values, count, &code->facts);
  code->prepared = fusion->engine.step;
  return 1;
}

struct tt_coded_part tt_fusion_coded_part(struct tuttiFusion *fusion, const struct part *part)
{
  const struct gradient *gradient = &fusion->shared.gradients[part->tensor];
  const struct tensor *tensor = &fusion->config.tensors[part->tensor];
  struct tensor_code *code = &fusion->coding.tensors[part->tensor];
  uint64_t skip = part->first * (uint64_t)tensor->element;
  struct tt_coded_part made = {.codec = code->codec,
                               .in = (const char *)gradient->send + skip,
                               .out = (char *)gradient->recv + skip,
                               .first = part->first,
                               .count = part->count,
                               .whole = tensor->count,
                               .tensor = (uint32_t)part->tensor,
                               .turn = tensor->turn,
                               .planes_factor = (double)fusion->coding.after / (double)fusion->engine.seen.scale.after,
                               .facts = part->count < tensor->count ? &code->facts : NULL,
                               .wanted = code->wanted,
                               .wants = &code->wants};
  for (int k = 0; k < 2 * TT_CODEC_PLANES; k++) {
    int stage = k / TT_CODEC_PLANES, p = k % TT_CODEC_PLANES;
    if (!code->planes[stage][p]) continue;
    made.planes[stage][p] = code->planes[stage][p] + part->first;
    made.changed[stage][p] = code->changed[stage][p] + part->first;
  }
  if (!fusion->coding.owned) return made;
  made.weights = fusion->coding.owned[part->tensor].planes[0] + part->first;
  made.updated = fusion->coding.owned[part->tensor].changed[0] + part->first;
  return made;
}

/* Room for the parts of a message. 0: no memory. */
static int parts_ensure(struct coding *coding, int n)
{
  if (coding->nparts >= n) return 1;
  tt_free(coding->parts);
  coding->parts = tt_alloc((size_t)n, sizeof *coding->parts);
  coding->nparts = coding->parts ? n : 0;
  return coding->parts != NULL;
}

/* Takes the parts of a message that have elements to a spec. 0: no memory. */
static int parts_take(struct tuttiFusion *fusion, int32_t m, struct tt_coded_spec *spec)
{
  const struct config *config = &fusion->config;
  struct coding *coding = &fusion->coding;
  const struct message *message = &fusion->engine.used->messages[m];
  const struct part *parts = &fusion->engine.used->parts[message->first_part];
  int prepares = spec->codec.row && tt_codec_prepares(&spec->codec);
  if (!parts_ensure(coding, message->nparts)) return 0;
  spec->parts = coding->parts;
  for (int k = 0; k < message->nparts; k++) {
    if (!parts[k].count) continue;
    int is_cut = parts[k].count < config->tensors[parts[k].tensor].count;
    if (prepares && is_cut && !tt_fusion_facts_find(fusion, parts[k].tensor, spec->before)) return 0;
    coding->parts[spec->nparts++] = tt_fusion_coded_part(fusion, &parts[k]);
  }
  return 1;
}

/* Tensors of a message either all have the codec or none does. */
static int message_has_codec(const struct tuttiFusion *fusion, int32_t m)
{
  const struct plan *plan = fusion->engine.used;
  return fusion->config.tensors[plan->parts[plan->messages[m].first_part].tensor].has_codec;
}

struct tt_op *tt_fusion_coded_begin(struct tuttiFusion *fusion, int32_t m, int channel)
{
  const struct config *config = &fusion->config;
  struct engine *engine = &fusion->engine;
  struct coding *coding = &fusion->coding;
  struct tt_coded_update update;
  struct tt_coded_spec spec = {.redop = config->redop,
                               .before = engine->seen.scale.before,
                               .after = engine->seen.scale.after,
                               .step = (uint32_t)(coding->past.steps + engine->step),
                               .overflow = config->reports ? &engine->messages[m].overflow : NULL};
  if (message_has_codec(fusion, m)) spec.codec = coding->codec;
  if (spec.codec.row && tt_codec_planes(&spec.codec, TT_CODEC_CONTRIBUTION)) coding->past.kept = KEPT_NOTHING;
  if (!parts_take(fusion, m, &spec)) return NULL;
  if (coding->owned) {
    update = tt_fusion_update(fusion, engine->used->messages[m].type);
    spec.update = &update;
  }
  return tt_op_begin_coded(config->channel[channel], &spec);
}

tuttiResult_t tt_fusion_weights_again(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  const struct plan *plan = fusion->engine.used;
  tuttiResult_t result = tuttiSuccess;
  for (int32_t m = 0; m < plan->nmessages && result == tuttiSuccess; m++) {
    struct tt_coded_update update = tt_fusion_update(fusion, plan->messages[m].type);
    struct tt_coded_spec spec = {.redop = config->redop, .before = 1, .after = 1, .update = &update};
    if (!plan->messages[m].count) continue;
    update.restores = 1;
    update.rate = 0;
    if (parts_take(fusion, m, &spec)) result = tt_comm_run_coded(config->channel[0], &spec);
    else result = tt_fail(tuttiSystemError, "out of memory for weights of %d tensors", plan->messages[m].nparts);
  }
  return result;
}

/* ---- another codec ---- */

/* All ranks tell the codec that their callers want: *is_same. */
static tuttiResult_t asked_compare(const struct config *config, const struct tt_codec *asked, int *is_same)
{
  char(*texts)[TT_CODEC_TEXT_BYTES] = tt_alloc((size_t)config->nranks, sizeof *texts);
  if (!texts) return tt_fail(tuttiSystemError, "out of memory for the codecs of %d ranks", config->nranks);
  tt_fusion_codec_text(asked, texts[config->rank]);
  tuttiResult_t result = tt_fusion_run(config, TT_ALL_GATHER, texts, sizeof *texts, tuttiUint8, tuttiSum);
  int r = 0;
  while (result == tuttiSuccess && r < config->nranks && strncmp(texts[r], texts[0], sizeof *texts) == 0) r++;
  *is_same = result == tuttiSuccess && r == config->nranks;
  if (result == tuttiSuccess && !*is_same)
    tt_fail(tuttiInvalidUsage, "codec is %.80s on rank %d and %.80s on rank 0: give the same on all ranks", texts[r], r,
            texts[0]);
  tt_free(texts);
  return result;
}

/* All ranks are here, between the same two steps. */
static tuttiResult_t codec_change(struct tuttiFusion *fusion, const struct tt_codec *asked, int *is_same)
{
  const struct config *config = &fusion->config;
  tuttiResult_t result = asked_compare(config, asked, is_same);
  if (result != tuttiSuccess || !*is_same) return result;
  result = tt_fusion_coding_set(fusion, asked);
  fusion->coding.past.kept = KEPT_NOTHING;
  if (result == tuttiSuccess) result = tt_fusion_plans_again(fusion);
  if (result == tuttiSuccess) tt_fusion_step_start(fusion);
  return result;
}

int tt_fusion_codec_look(struct tuttiFusion *fusion, tuttiResult_t *result)
{
  struct shared *shared = &fusion->shared;
  int is_same = 0;
  pthread_mutex_lock(&shared->mutex);
  const struct tt_codec *asked = shared->finished == shared->step ? shared->asked.codec : NULL;
  pthread_mutex_unlock(&shared->mutex);
  if (!asked) return 0;
  *result = codec_change(fusion, asked, &is_same);
  pthread_mutex_lock(&shared->mutex);
  if (*result == tuttiSuccess) {
    shared->asked.answer = is_same ? tuttiSuccess : tuttiInvalidUsage;
    if (!is_same) snprintf(shared->sentence, sizeof shared->sentence, "%s", tt_last_sentence());
    shared->asked.codec = NULL;
  }
  pthread_cond_broadcast(&shared->done);
  pthread_mutex_unlock(&shared->mutex);
  return 1;
}

/* ---- the caller's side: the mutex is held ---- */

static tuttiResult_t failed(const struct shared *shared)
{
  return shared->failed == tuttiSuccess ? tuttiSuccess : tt_fail_quiet(shared->failed, shared->sentence);
}

/* Waits until the engine has ended the last step. Errors: a step is under way for the caller. */
static tuttiResult_t rest_await(const struct config *config, struct shared *shared)
{
  tuttiResult_t result = failed(shared);
  if (result == tuttiSuccess && shared->ended < shared->step)
    result = tt_fail(tuttiInvalidUsage, "step %llu is under way: call it when all of its %d tensors were waited for",
                     (unsigned long long)shared->step, config->n);
  shared->all_waiters++;
  while (result == tuttiSuccess && shared->finished < shared->step) {
    pthread_cond_wait(&shared->done, &shared->mutex);
    result = failed(shared);
  }
  shared->all_waiters--;
  return result;
}

tuttiResult_t tt_fusion_rest(struct tuttiFusion *fusion)
{
  struct shared *shared = &fusion->shared;
  pthread_mutex_lock(&shared->mutex);
  tuttiResult_t result = shared->failed == tuttiSuccess ? rest_await(&fusion->config, shared) : tuttiSuccess;
  if (shared->failed != tuttiSuccess) result = tuttiSuccess; /* the engine has ended: planes stay */
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

static tuttiResult_t codec_ask(const struct config *config, struct shared *shared, const struct tt_codec *codec)
{
  tuttiResult_t result = rest_await(config, shared);
  if (result != tuttiSuccess) return result;
  shared->asked.codec = codec;
  shared->pushes++;
  shared->sleep.is_asleep = 0;
  pthread_cond_signal(&shared->wake);
  while (shared->asked.codec && shared->failed == tuttiSuccess) pthread_cond_wait(&shared->done, &shared->mutex);
  shared->asked.codec = NULL;
  result = failed(shared);
  if (result != tuttiSuccess || shared->asked.answer == tuttiSuccess) return result;
  return tt_fail_quiet(shared->asked.answer, shared->sentence);
}

tuttiResult_t tt_fusion_codec(struct tuttiFusion *fusion, const char *text)
{
  struct shared *shared = &fusion->shared;
  struct tt_codec codec;
  if (fusion->served)
    return tt_fail(tuttiInvalidUsage, "in a fusion with servers ranks are at different steps, so its codec stays: "
                   "leave the call out");
  tuttiResult_t result = tt_fusion_codec_read(&fusion->config, text, &codec);
  if (result != tuttiSuccess) return result;
  pthread_mutex_lock(&shared->mutex);
  result = codec_ask(&fusion->config, shared, &codec);
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

/* The place of a plane, by stage, as callers number them: those of contributions, then those of results; or -1. */
static int plane_find(const struct tensor_code *code, int number)
{
  for (int k = 0; k < 2 * TT_CODEC_PLANES; k++)
    if (code->planes[k / TT_CODEC_PLANES][k % TT_CODEC_PLANES] && number-- == 0) return k;
  return -1;
}

/* Zeroes what other ranks own of a plane of results. */
static void others_clear(const struct config *config, const struct tensor_code *code, const struct tensor *tensor,
                         float *plane)
{
  const struct tt_coded_part part = {.turn = tensor->turn};
  uint64_t unit = tt_fusion_owned_unit(config, code, tensor);
  for (uint64_t first = 0; first < tensor->count; first += unit) {
    uint64_t left = tensor->count - first;
    if (tt_coded_owner(&part, unit, first, config->nranks) == config->rank) continue;
    memset(plane + first, 0, (left < unit ? left : unit) * sizeof *plane);
  }
}

/* Callers have planes in the units of results, which do not depend on a loss scale. A plane stays finite. */
static void plane_move(float *plane, const struct tt_fusion_state *state, float after)
{
  const double most = 0x1.fffffep126;
  fpenv env = fpenv_enter();
  for (size_t e = 0; e < state->count; e++) {
    double value = state->sets ? (double)state->data[e] / (double)after : 0;
    if (state->sets) plane[e] = (float)(value > most ? most : value < -most ? -most : value);
    else state->data[e] = plane[e] * after;
  }
  fpenv_leave(env);
}

static tuttiResult_t state_move(struct tuttiFusion *fusion, const struct tt_fusion_state *state)
{
  const struct tensor *tensor = &fusion->config.tensors[state->tensor];
  const struct tensor_code *code = &fusion->coding.tensors[state->tensor];
  char text[TT_CODEC_TEXT_BYTES], rule[RULE_BYTES];
  int planes = fusion->config.rule.planes, is_owned = state->plane >= 0 && state->plane < planes;
  int k = state->plane < planes ? -1 : plane_find(code, state->plane - planes);
  if (k < 0 && !is_owned)
    return tt_fail(tuttiInvalidArgument, "plane is %d: with codec %s and update %s tensor %d (%s) has no such plane of "
                   "state", state->plane, tt_fusion_codec_text(&fusion->coding.codec, text),
                   tt_fusion_rule_text(&fusion->config.rule, rule), state->tensor, tensor->name);
  if (state->count != tensor->count)
    return tt_fail(tuttiInvalidArgument, "count is %zu, but tensor %d (%s) was registered with %llu elements: give "
                   "that many", state->count, state->tensor, tensor->name, (unsigned long long)tensor->count);
  if (is_owned) {
    tt_fusion_planes_lock(fusion, 1);
    tt_fusion_owned_copy(fusion, state);
    tt_fusion_planes_lock(fusion, 0);
    return tuttiSuccess;
  }
  float *plane = code->planes[k / TT_CODEC_PLANES][k % TT_CODEC_PLANES];
  plane_move(plane, state, fusion->coding.after);
  if (state->sets && k / TT_CODEC_PLANES == TT_CODEC_RESULT) others_clear(&fusion->config, code, tensor, plane);
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_state(struct tuttiFusion *fusion, const struct tt_fusion_state *state)
{
  struct shared *shared = &fusion->shared;
  pthread_mutex_lock(&shared->mutex);
  int may_read = shared->failed != tuttiSuccess && !state->sets; /* the engine has ended: planes stay */
  tuttiResult_t result = may_read ? tuttiSuccess : rest_await(&fusion->config, shared);
  if (result == tuttiSuccess) result = state_move(fusion, state);
  if (result == tuttiSuccess && state->sets && fusion->coding.past.kept == KEPT_BEFORE)
    fusion->coding.past.kept = KEPT_NOTHING;
  pthread_mutex_unlock(&shared->mutex);
  return result;
}
