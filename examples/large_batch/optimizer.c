/* SPDX-License-Identifier: BSD-3-Clause */
#include "optimizer.h"

#include <math.h>
#include <string.h>

#include "half.h"

double optimizer_rate(const struct recipe *recipe, int step)
{
  if (step >= recipe->warmup_steps) return recipe->peak;
  return recipe->rate + (recipe->peak - recipe->rate) * step / recipe->warmup_steps;
}

double l2_norm(const float *x, int n)
{
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

double lars_ratio(double eta, double decay, double weight_norm, double gradient_norm)
{
  if (!(weight_norm > 0) || !(gradient_norm > 0)) return 1;
  return eta * weight_norm / (gradient_norm + decay * weight_norm);
}

void optimizer_publish(struct optimizer *o, struct network *network)
{
  for (int i = 0; i < WEIGHTS; i++) network->weight[i] = o->recipe->half ? half_round(o->master[i]) : o->master[i];
  if (o->recipe->no_master) memcpy(o->master, network->weight, sizeof o->master);
}

void optimizer_init(struct optimizer *o, const struct recipe *recipe, struct network *network)
{
  *o = (struct optimizer){.recipe = recipe};
  memcpy(o->master, network->weight, sizeof o->master);
  optimizer_publish(o, network);
}

static int is_bias(int tensor)
{
  return tensor == HIDDEN_BIAS || tensor == OUTPUT_BIAS;
}

void optimizer_step(struct optimizer *o, struct network *network, const float *sum, int batch, const double *norm)
{
  const struct recipe *recipe = o->recipe;
  double rate = optimizer_rate(recipe, o->steps);
  float kept = (float)(o->last_rate > 0 ? recipe->momentum * rate / o->last_rate : recipe->momentum);
  for (int t = 0; t < TENSORS; t++) {
    int first = network_tensors[t].first, count = network_tensors[t].count;
    float decay = is_bias(t) ? 0 : (float)recipe->decay;
    double ratio = 1;
    if (recipe->lars > 0 && !is_bias(t))
      ratio = lars_ratio(recipe->lars, recipe->decay, l2_norm(o->master + first, count), norm[t] / batch);
    float pace = (float)(rate * ratio);
    for (int i = first; i < first + count; i++) {
      o->velocity[i] = kept * o->velocity[i] + pace * (sum[i] / (float)batch + decay * o->master[i]);
      o->master[i] -= o->velocity[i];
    }
  }
  o->last_rate = rate;
  o->steps++;
  optimizer_publish(o, network);
}
