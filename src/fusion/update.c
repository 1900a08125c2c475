/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates of weights by the owners of their elements: rules, and the planes that they keep.
 *
 * The messages are coded reductions (comm/coded.h), begun by coded.c; the owner's turn calls the rule here. Each plane
 * has room for the whole tensor, but only pages with what this rank owns are ever touched; and a second copy, as planes
 * of codecs have: a step writes that, and the two change places when it has ended. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/scan.h"
#include "fusion/served_private.h"
#include "reduce/fpenv.h"

#define NONE "none"
#define MOMENTUM_DEFAULT 0.9
#define ETA_DEFAULT 0.001
#define ALPHA_OF_ALL 0.9 /* of all ranks together: Zhang, Choromanska, LeCun 2015 */

/* ---- texts ---- */

struct number {
  const char *name;
  double fallback, low, high;
  int is_whole;
};

#define RULE_NUMBERS 3
#define DECAY_NUMBER {"DECAY", 0, 0, 1, 0}
#define MOMENTUM_NUMBER {"MOMENTUM", MOMENTUM_DEFAULT, 0, 1, 0}

static const struct row {
  const char *name, *example;
  int planes;
  struct number numbers[RULE_NUMBERS];
} rows[] = {
    [NO_UPDATE] = {NONE, NONE, 0, {{NULL, 0, 0, 0, 0}}},
    [SGD] = {"sgd", "sgd:1e-4", 1, {DECAY_NUMBER}},
    [MOMENTUM] = {"momentum", "momentum:0.9,1e-4", 2, {MOMENTUM_NUMBER, DECAY_NUMBER}},
    [LARS] = {"lars", "lars:0.9,1e-4,0.001", 2, {MOMENTUM_NUMBER, DECAY_NUMBER, {"ETA", ETA_DEFAULT, 0, 1e6, 0}}},
    [EASGD] = {"easgd", "easgd:0.1", 1, {{"ALPHA", 0, 0, 1, 0}}},
    [GOSSIP] = {"gossip", "gossip", 2, {{NULL, 0, 0, 0, 0}}},
    [FUNCTION] = {"function", "function:2", 0, {{"PLANES", 1, 1, UPDATE_PLANES, 1}}},
};

static tuttiResult_t row_find(const char *text, enum rule_kind *kind)
{
  size_t len = strcspn(text, ":");
  for (*kind = NO_UPDATE; *kind <= FUNCTION; ++*kind)
    if (strlen(rows[*kind].name) == len && strncmp(rows[*kind].name, text, len) == 0) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "there is no update \"%.40s\": give one such as sgd, momentum:0.9, "
                 "lars:0.9,1e-4, easgd, gossip or function:2", text);
}

static tuttiResult_t numbers_read(const struct row *row, const char *text, double numbers[RULE_NUMBERS])
{
  const char *at = text + strlen(row->name);
  for (int k = 0; k < RULE_NUMBERS && row->numbers[k].name; k++) {
    const struct number *wanted = &row->numbers[k];
    const char *begin = *at ? at + 1 : at;
    numbers[k] = wanted->fallback;
    if (!*at) continue;
    if (!tt_number_read(begin, &at, &numbers[k]) || !(numbers[k] >= wanted->low && numbers[k] <= wanted->high) ||
        (wanted->is_whole && numbers[k] != floor(numbers[k])))
      return tt_fail(tuttiInvalidArgument, "update %s: %s is \"%.40s\": give a %snumber from %.9g to %.9g, as in %s",
                     row->name, wanted->name, begin, wanted->is_whole ? "whole " : "", wanted->low, wanted->high,
                     row->example);
  }
  if (!*at) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "update %s: \"%.40s\" is too much: give %s", row->name, at, row->example);
}

/* nranks: ALPHA of easgd is 0.9 divided by it, unless it is given. */
static tuttiResult_t rule_parse(struct rule *rule, const char *text, int nranks)
{
  double numbers[RULE_NUMBERS] = {0};
  tuttiResult_t result = row_find(text, &rule->kind);
  if (result == tuttiSuccess) result = numbers_read(&rows[rule->kind], text, numbers);
  if (result != tuttiSuccess) return result;
  rule->planes = rule->kind == FUNCTION ? (int)numbers[0] : rows[rule->kind].planes;
  if (rule->kind == SGD) rule->decay = (float)numbers[0];
  rule->is_alpha_given = numbers[0] != 0;
  if (rule->kind == EASGD) rule->alpha = (float)(numbers[0] != 0 ? numbers[0] : ALPHA_OF_ALL / nranks);
  if (rule->kind == GOSSIP) rule->alpha = 0.5f;
  rule->exchanges = rule->kind == EASGD || rule->kind == GOSSIP;
  if (rule->kind == MOMENTUM || rule->kind == LARS) {
    rule->momentum = (float)numbers[0];
    rule->decay = (float)numbers[1];
    rule->eta = (float)numbers[2];
  }
  return tuttiSuccess;
}

const char *tt_fusion_rule_text(const struct rule *rule, char text[RULE_BYTES])
{
  const char *name = rows[rule->kind].name;
  double momentum = (double)rule->momentum, decay = (double)rule->decay;
  memset(text, 0, RULE_BYTES);
  if (rule->kind == SGD) snprintf(text, RULE_BYTES, "%s:%.9g", name, decay);
  else if (rule->kind == EASGD) snprintf(text, RULE_BYTES, "%s:%.9g", name, (double)rule->alpha);
  else if (rule->kind == MOMENTUM) snprintf(text, RULE_BYTES, "%s:%.9g,%.9g", name, momentum, decay);
  else if (rule->kind == LARS)
    snprintf(text, RULE_BYTES, "%s:%.9g,%.9g,%.9g", name, momentum, decay, (double)rule->eta);
  else if (rule->kind == FUNCTION) snprintf(text, RULE_BYTES, "%s:%d", name, rule->planes);
  else snprintf(text, RULE_BYTES, "%s", name);
  return text;
}

/* ---- options ---- */

static int is_update_type(int type)
{
  return type == tuttiFloat32 || type == tuttiFloat16 || type == tuttiBfloat16;
}

static tuttiResult_t function_check(const struct rule *rule)
{
  if (rule->kind == FUNCTION && !rule->function)
    return tt_fail(tuttiInvalidArgument, "config.function is NULL: update \"function\" calls it, set it");
  if (rule->kind != FUNCTION && rule->function)
    return tt_fail(tuttiInvalidArgument, "config.function is set, but config.update is \"%s\": set that to "
                   "\"function:PLANES\", or leave the function NULL", rows[rule->kind].name);
  return tuttiSuccess;
}

static tuttiResult_t tensors_check(const struct config *config, const uint8_t *exempt)
{
  for (int i = 0; i < config->n; i++) {
    const struct tensor *tensor = &config->tensors[i];
    if (!is_update_type(tensor->type))
      return tt_fail(tuttiInvalidArgument, "tensor %d (%s) is %s: weights of float, half and bfloat16 are updated, "
                     "leave it out of this fusion", i, tensor->name, tt_type_name(tensor->type));
    if (exempt && exempt[i] > 1)
      return tt_fail(tuttiInvalidArgument, "config.exempt[%d] is %d: set it to 0 or 1", i, exempt[i]);
  }
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_rule_read(struct config *config, const tuttiFusionConfig_t *asked)
{
  struct rule rule = {.function = asked->function, .context = asked->context, .weights = asked->weights_type};
  tuttiResult_t result = rule_parse(&rule, asked->update ? asked->update : NONE, config->nranks);
  if (result == tuttiSuccess) result = function_check(&rule);
  if (rule.weights == TUTTI_CONFIG_UNDEF_INT) rule.weights = tuttiFloat32;
  if (result == tuttiSuccess && !is_update_type(rule.weights))
    result = tt_fail(tuttiInvalidArgument, "config.weights_type is %d: set it to tuttiFloat32 (%d), tuttiFloat16 (%d) "
                     "or tuttiBfloat16 (%d)", rule.weights, tuttiFloat32, tuttiFloat16, tuttiBfloat16);
  if (result == tuttiSuccess && !(isfinite(asked->rate) && asked->rate >= 0))
    result = tt_fail(tuttiInvalidArgument, "config.rate is %g: set it to a finite number from 0 on",
                     (double)asked->rate);
  if (result == tuttiSuccess && rule.planes) result = tensors_check(config, asked->exempt);
  if (result != tuttiSuccess) return result;
  config->rule = rule;
  for (int i = 0; i < config->n && rule.planes && asked->exempt; i++) config->tensors[i].is_exempt = asked->exempt[i];
  return result;
}

/* ---- planes ---- */

static void owned_free(struct masters *owned)
{
  for (int p = 0; p < UPDATE_PLANES; p++) {
    tt_free(owned->planes[p]);
    tt_free(owned->changed[p]);
    owned->planes[p] = owned->changed[p] = NULL;
  }
}

static tuttiResult_t planes_make(struct masters *owned, const struct tensor *tensor, int planes, int is_kept_twice)
{
  for (int p = 0; p < planes; p++) {
    owned->planes[p] = tt_alloc(tensor->count, sizeof(float));
    if (is_kept_twice) owned->changed[p] = tt_alloc(tensor->count, sizeof(float));
    if (!owned->planes[p] || (is_kept_twice && !owned->changed[p]))
      return tt_fail(tuttiSystemError, "out of memory for the weights of tensor %.60s (%llu elements)", tensor->name,
                     (unsigned long long)tensor->count);
  }
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_owned_make(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  tuttiResult_t result = tuttiSuccess;
  if (!config->rule.planes) return result;
  struct masters *owned = fusion->coding.owned = tt_alloc((size_t)config->n, sizeof *owned);
  if (!owned) return tt_fail(tuttiSystemError, "out of memory for the weights of %d tensors", config->n);
  for (int i = 0; i < config->n && result == tuttiSuccess; i++) {
    owned[i].is_given = !config->tensors[i].count;
    result = planes_make(&owned[i], &config->tensors[i], config->rule.planes, !config->serving.is_on);
  }
  return result;
}

void tt_fusion_owned_free(struct tuttiFusion *fusion)
{
  struct masters *owned = fusion->coding.owned;
  for (int i = 0; owned && i < fusion->config.n; i++) owned_free(&owned[i]);
  tt_free(owned);
}

uint64_t tt_fusion_share_next(const struct config *config, const struct tt_fusion_share *share, uint64_t *first)
{
  const struct tt_coded_part part = {.turn = share->turn};
  for (; *first < share->count; *first += share->unit) {
    uint64_t left = share->count - *first;
    if (config->rule.kind == GOSSIP || tt_coded_owner(&part, share->unit, *first, config->nranks) == share->rank)
      return left < share->unit ? left : share->unit;
  }
  return 0;
}

struct tt_fusion_share tt_fusion_share(const struct tuttiFusion *fusion, int index, int rank)
{
  const struct tensor *tensor = &fusion->config.tensors[index];
  return (struct tt_fusion_share){
      rank, tensor->turn, tt_fusion_owned_unit(&fusion->config, &fusion->coding.tensors[index], tensor), tensor->count};
}

/* Copies the elements that this rank owns, and those of dead ranks that it serves. */
static void shares_copy(const struct tuttiFusion *fusion, int index, float *to, const float *from)
{
  const struct config *config = &fusion->config;
  for (int rank = 0; rank < config->nranks; rank++) {
    if (rank != config->rank && !tt_fusion_serves(fusion, rank)) continue;
    const struct tt_fusion_share share = tt_fusion_share(fusion, index, rank);
    uint64_t n;
    for (uint64_t first = 0; (n = tt_fusion_share_next(config, &share, &first)) > 0; first += share.unit)
      memcpy(to + first, from + first, n * sizeof *to);
  }
}

void tt_fusion_owned_copy(struct tuttiFusion *fusion, const struct tt_fusion_state *state)
{
  struct masters *owned = &fusion->coding.owned[state->tensor];
  if (!state->sets) memset(state->data, 0, state->count * sizeof *state->data);
  if (state->sets) shares_copy(fusion, state->tensor, owned->planes[state->plane], state->data);
  else shares_copy(fusion, state->tensor, state->data, owned->planes[state->plane]);
  if (!state->sets || state->plane) return;
  owned->is_given = 1;
  if (fusion->served) tt_cut_given(fusion, state->tensor, state->data);
}

/* Each element is in one rank's plane, and is zeros in those of the others: a sum of whole numbers keeps its bits. */
tuttiResult_t tt_fusion_owned_move(struct tuttiFusion *fusion, int index, uint64_t unit, uint32_t turn)
{
  const struct config *config = &fusion->config;
  const struct tensor *tensor = &config->tensors[index];
  struct masters now = {.is_given = 0}, *owned = &fusion->coding.owned[index];
  const struct tt_fusion_share before = {config->rank, turn, unit, tensor->count};
  float *whole = tt_alloc(tensor->count, sizeof *whole);
  tuttiResult_t result = whole ? planes_make(&now, tensor, config->rule.planes, 1)
                               : tt_fail(tuttiSystemError, "out of memory to move weights of tensor %.60s",
                                         tensor->name);
  for (int p = 0; p < config->rule.planes && result == tuttiSuccess; p++) {
    uint64_t n;
    memset(whole, 0, tensor->count * sizeof *whole);
    for (uint64_t first = 0; (n = tt_fusion_share_next(config, &before, &first)) > 0; first += unit)
      memcpy(whole + first, owned->planes[p] + first, n * sizeof *whole);
    result = tt_fusion_run(config, TT_ALL_REDUCE, whole, tensor->count, tuttiUint32, tuttiSum);
    if (result == tuttiSuccess) shares_copy(fusion, index, now.planes[p], whole);
  }
  tt_free(whole);
  if (result == tuttiSuccess) {
    now.is_given = owned->is_given;
    owned_free(owned);
    *owned = now;
  } else owned_free(&now);
  return result;
}

/* ---- the owner's turn ---- */

float tt_fusion_lambda(const struct rule *rule, const double squares[2])
{
  fpenv env = fpenv_enter();
  double gradient = sqrt(squares[0]), weights = sqrt(squares[1]), lambda = 1;
  if (gradient != 0 && weights != 0)
    lambda = (double)rule->eta * weights / (gradient + (double)rule->decay * weights);
  fpenv_leave(env);
  return (float)lambda;
}

static void apply(const struct rule *rule, float lambda, const tuttiFusionShard_t *shard)
{
  float *w = shard->planes[0], *velocity = rule->planes > 1 ? shard->planes[1] : NULL;
  fpenv env = fpenv_enter();
  for (uint64_t i = 0; i < shard->count; i++) {
    float u = shard->gradient[i];
    if (rule->decay != 0) u = u + rule->decay * w[i];
    if (rule->kind == LARS) u = lambda * u;
    if (velocity) u = velocity[i] = rule->momentum * velocity[i] + u;
    w[i] = w[i] - shard->rate * u;
  }
  fpenv_leave(env);
}

static tuttiResult_t function_call(const struct tuttiFusion *fusion, const tuttiFusionShard_t *shard)
{
  const struct rule *rule = &fusion->config.rule;
  tuttiResult_t result = rule->function(rule->context, shard);
  if (result == tuttiSuccess) return result;
  if (result < 0 || result >= tuttiInProgress) result = tuttiInvalidUsage; /* no error: it would be taken for "go on" */
  return tt_fail(result, "config.function has failed for tensor %d (%s), elements %llu to %llu", shard->tensor,
                 fusion->config.tensors[shard->tensor].name, (unsigned long long)shard->first,
                 (unsigned long long)(shard->first + shard->count - 1));
}

tuttiResult_t tt_fusion_rule_apply(const struct tuttiFusion *fusion, const tuttiFusionShard_t *shard, float lambda)
{
  struct rule rule = fusion->config.rule;
  if (rule.kind == FUNCTION) return function_call(fusion, shard);
  if (fusion->config.tensors[shard->tensor].is_exempt) {
    rule.decay = 0;
    lambda = 1;
  }
  apply(&rule, lambda, shard);
  return tuttiSuccess;
}

static tuttiResult_t turn(void *context, const struct tt_coded_shard *its)
{
  const struct tuttiFusion *fusion = context;
  const struct rule *rule = &fusion->config.rule;
  const struct masters *owned = &fusion->coding.owned[its->part->tensor];
  tuttiFusionShard_t shard = {.size = sizeof shard,
                              .tensor = (int)its->part->tensor,
                              .step = fusion->coding.past.steps + fusion->engine.step,
                              .first = its->first,
                              .count = its->count,
                              .rate = fusion->engine.seen.scale.rate,
                              .gradient = its->gradient,
                              .planes = {its->weights, NULL, NULL}};
  for (int p = 1; p < rule->planes; p++) {
    shard.planes[p] = owned->changed[p] + its->first;
    memcpy(shard.planes[p], owned->planes[p] + its->first, its->count * sizeof(float));
  }
  return tt_fusion_rule_apply(fusion, &shard, rule->kind == LARS ? tt_fusion_lambda(rule, its->squares) : 1);
}

int tt_fusion_wire(const struct config *config, int type, enum tt_codec_stage stage)
{
  if (type != tuttiFloat32) return type;
  return stage == TT_CODEC_RESULT ? config->rule.weights : config->wire;
}

struct tt_coded_update tt_fusion_update(const struct tuttiFusion *fusion, int type)
{
  const struct config *config = &fusion->config;
  return (struct tt_coded_update){.has_norms = config->rule.kind == LARS,
                                  .type = type,
                                  .wires = {tt_fusion_wire(config, type, TT_CODEC_CONTRIBUTION),
                                            tt_fusion_wire(config, type, TT_CODEC_RESULT)},
                                  .rate = fusion->engine.seen.scale.rate,
                                  .turn = turn,
                                  .context = (void *)(uintptr_t)fusion};
}
