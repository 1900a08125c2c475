/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradient descent for large batches: linear scaling of the rate, warm-up, momentum, LARS, and FP32 masters of weights
 * that are FP16. It knows nothing of ranks: given the same sums and norms, all ranks take the same step. */
#ifndef LARGE_BATCH_OPTIMIZER_H
#define LARGE_BATCH_OPTIMIZER_H

#include "network.h"

/* How the network learns, the same on all ranks. */
struct recipe {
  double rate;      /* of the first step */
  double peak;      /* the rate from step warmup_steps on */
  int warmup_steps; /* in which the rate grows, by the same amount in each step (Goyal et al. 2017) */
  double momentum;
  double lars;      /* eta of LARS (You et al. 2017); 0: every layer learns at the same rate */
  double decay;     /* of weights; biases have none */
  int half;         /* the network's weights are values of FP16 */
  int no_master;    /* with half: and there are no others, as a counterexample */
};

struct optimizer {
  const struct recipe *recipe;
  float master[WEIGHTS];
  float velocity[WEIGHTS]; /* the step of each weight, with the rate in it */
  double last_rate;        /* in the velocity; 0 before the first step */
  int steps;               /* taken */
};

/* Begins with the weights of the network, which become values of FP16 if the recipe says so. */
void optimizer_init(struct optimizer *o, const struct recipe *recipe, struct network *network);

/* Takes a step, by the sums of gradients over `batch` images. norm[t] is the L2 norm of the sums of tensor t; only LARS
 * reads it. For each layer
 *     v = m (rate / last rate) v + rate lambda (g + decay w),    w -= v,
 * where g is sum / batch. The factor rate / last rate is the momentum correction, as v has the rate of the last step in
 * it. No call is made for a step that is skipped. */
void optimizer_step(struct optimizer *o, struct network *network, const float *sum, int batch, const double *norm);

/* Copies the masters to the network, where others than optimizer_step have changed them. */
void optimizer_publish(struct optimizer *o, struct network *network);

/* The rate of a step; the first step is 0. */
double optimizer_rate(const struct recipe *recipe, int step);

/* The lambda of LARS for a layer: eta |w| / (|g| + decay |w|), or 1 where |w| or |g| is 0. */
double lars_ratio(double eta, double decay, double weight_norm, double gradient_norm);

/* The L2 norm of n floats, added up in double. */
double l2_norm(const float *x, int n);

#endif
