/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEASURED 10        /* steps */
#define MEASURED_FROM (1 << 30) /* the first: none has a number of those that are played */

tuttiResult_t model_make(struct model *model, const struct network *network, const struct variation *variation,
                         const struct tt_message_cost *cost, int nranks)
{
  struct model made = {.network = network, .variation = variation, .cost = *cost, .nranks = nranks};
  size_t n = (size_t)network->n, ranks = (size_t)nranks;
  made.tensors = tt_alloc(n, sizeof *made.tensors);
  made.done_us = tt_alloc(n, sizeof *made.done_us);
  made.begin_us = tt_alloc(ranks, sizeof *made.begin_us);
  made.backward_us = tt_alloc(ranks, sizeof *made.backward_us);
  made.samples_us = tt_alloc(2 * n * MEASURED, sizeof *made.samples_us);
  *model = made;
  if (made.tensors && made.done_us && made.begin_us && made.backward_us && made.samples_us) {
    for (size_t l = 0; l < n; l++)
      made.tensors[l] = (struct tt_tensor){.count = network->layers[l].count, .bytes = 4 * network->layers[l].count};
    model->net = (struct tt_model){.n = network->n, .tensors = made.tensors};
    return tuttiSuccess;
  }
  model_destroy(model);
  *model = (struct model){.nranks = 0};
  return tt_fail(tuttiSystemError, "no memory to play %d layers on %d ranks: give the process more", network->n,
                 nranks);
}

void model_destroy(struct model *model)
{
  tt_free(model->tensors);
  tt_free(model->done_us);
  tt_free(model->begin_us);
  tt_free(model->backward_us);
  tt_free(model->samples_us);
}

/* ---- a step ---- */

static double layer_us(const struct model *model, uint64_t step, int rank, int layer, enum way way)
{
  const struct layer *its = &model->network->layers[layer];
  double us = way == BACKWARD ? its->backward_us : its->forward_us;
  return us * variation_factor(model->variation, step, rank, layer, way);
}

/* Backward of all ranks. Returns when the first rank has begun; the net's times count from there. */
static double backward_run(struct model *model, uint64_t step)
{
  double origin_us = model->begin_us[0];
  for (int r = 1; r < model->nranks; r++) origin_us = fmin(origin_us, model->begin_us[r]);
  for (int l = 0; l < model->net.n; l++) model->tensors[l].ready_us = 0;
  for (int r = 0; r < model->nranks; r++) {
    double now_us = model->begin_us[r] - origin_us;
    for (int l = model->net.n - 1; l >= 0; l--) {
      now_us += layer_us(model, step, r, l, BACKWARD);
      model->tensors[l].ready_us = fmax(model->tensors[l].ready_us, now_us);
    }
    model->backward_us[r] = now_us;
  }
  model->net.backward_us = model->tensors[0].ready_us;
  return origin_us;
}

static tuttiResult_t messages_run(struct model *model, const struct player *player)
{
  struct tt_fusion_plan found = {.ntensors = 0};
  struct tt_played played = {.nmessages = 0};
  if (player->is_bound) return tt_fusion_bound_done(&model->net, &model->cost, model->done_us);
  int is_found = player->policy.kind == TT_POLICY_HOROVOD;
  tuttiResult_t result = tuttiSuccess;
  if (is_found) result = tt_fusion_plan_make(&found, &player->policy, &model->net, &model->cost);
  if (result == tuttiSuccess)
    result = tt_fusion_plan_play(&played, is_found ? &found : &player->plan, &model->net, &model->cost);
  if (result == tuttiSuccess)
    memcpy(model->done_us, played.done_us, (size_t)model->net.n * sizeof *model->done_us);
  tt_played_destroy(&played);
  tt_fusion_plan_destroy(&found);
  return result;
}

static void forward_run(struct model *model, uint64_t step, double origin_us)
{
  for (int r = 0; r < model->nranks; r++) {
    double now_us = model->backward_us[r];
    for (int l = 0; l < model->net.n; l++)
      now_us = fmax(now_us, model->done_us[l]) + layer_us(model, step, r, l, FORWARD);
    model->begin_us[r] = origin_us + now_us;
  }
}

tuttiResult_t model_play(struct model *model, const struct player *player, int round, int steps, double *step_us)
{
  tuttiResult_t result = tuttiSuccess;
  double end_us = 0;
  for (int r = 0; r < model->nranks; r++) model->begin_us[r] = 0;
  for (int s = 1; s <= steps && result == tuttiSuccess; s++) {
    double origin_us = backward_run(model, variation_step(round, s));
    result = messages_run(model, player);
    if (result == tuttiSuccess) forward_run(model, variation_step(round, s), origin_us);
  }
  for (int r = 0; r < model->nranks; r++) end_us = fmax(end_us, model->begin_us[r]);
  if (result == tuttiSuccess) *step_us = end_us / steps;
  return result;
}

/* ---- what a fusion measures ---- */

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *samples)
{
  qsort(samples, MEASURED, sizeof *samples, by_size);
  return (samples[(MEASURED - 1) / 2] + samples[MEASURED / 2]) / 2;
}

/* Half of what is between the quartiles; the samples are sorted. */
static double spread(const double *samples)
{
  return (samples[MEASURED - 1 - MEASURED / 4] - samples[MEASURED / 4]) / 2;
}

/* The samples of one rank: those of each layer's gradient, then those of each layer's forward. */
static void samples_take(struct model *model, int round, int rank)
{
  int n = model->net.n;
  for (int s = 0; s < MEASURED; s++) {
    uint64_t step = variation_step(round, MEASURED_FROM + s);
    double now_us = 0;
    for (int l = n - 1; l >= 0; l--) {
      model->samples_us[l * MEASURED + s] = now_us += layer_us(model, step, rank, l, BACKWARD);
      model->samples_us[(n + l) * MEASURED + s] = layer_us(model, step, rank, l, FORWARD);
    }
  }
}

tuttiResult_t model_plan(struct model *model, struct player *player, int round)
{
  int n = model->net.n;
  for (int l = 0; l < n; l++)
    model->tensors[l].ready_us = model->tensors[l].forward_us = model->tensors[l].spread_us = 0;
  for (int r = 0; r < model->nranks; r++) {
    samples_take(model, round, r);
    for (int l = 0; l < n; l++) {
      struct tt_tensor *tensor = &model->tensors[l];
      tensor->ready_us = fmax(tensor->ready_us, median(model->samples_us + l * MEASURED));
      tensor->spread_us = fmax(tensor->spread_us, spread(model->samples_us + l * MEASURED));
      tensor->forward_us = fmax(tensor->forward_us, median(model->samples_us + (n + l) * MEASURED));
    }
  }
  model->net.backward_us = model->tensors[0].ready_us;
  tuttiResult_t result = tt_model_check(&model->net);
  if (result != tuttiSuccess || player->is_bound) return result;
  tt_fusion_plan_destroy(&player->plan);
  player->plan = (struct tt_fusion_plan){.ntensors = 0};
  return tt_fusion_plan_make(&player->plan, &player->policy, &model->net, &model->cost);
}
