/* SPDX-License-Identifier: BSD-3-Clause */
/* A network of two layers, 64 pixels -> 64 hidden (ReLU) -> 10 digits (softmax).
 * It knows nothing of ranks; it suits any number of them because gradients add up
 * exactly, see network_gradient. */
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include <stdint.h>

#include "images.h"

enum {
  HIDDEN = 64,
  WEIGHTS = HIDDEN * PIXELS + HIDDEN + CLASSES * HIDDEN + CLASSES,
  BATCH_MAX = 64,
  CODED_LEAST = 100 /* elements of a tensor that a codec is for: both matrices, but no bias */
};

struct network {
  float weight[WEIGHTS];
  float speed[WEIGHTS]; /* momentum of each weight */
  float rate, momentum; /* of learning */
};

/* The tensors among the weights: in the order in which forward needs them, one behind the other. */
enum { HIDDEN_WEIGHT, HIDDEN_BIAS, OUTPUT_WEIGHT, OUTPUT_BIAS, TENSORS };
struct tensor {
  const char *name;
  int first, count; /* among the weights */
  int row;          /* elements of a row of its matrix: the weights of one neuron */
};
extern const struct tensor network_tensors[TENSORS];

/* The results of forward for one image that backward needs again. */
struct activity {
  float hidden[HIDDEN];
  float error[CLASSES]; /* d loss / d score */
};

/* With the usual rate and momentum. */
void network_init(struct network *network, uint64_t seed);

/* The digit that the network sees in an image. */
int network_classify(const struct network *network, const float *pixel);

/* Returns the image's loss. */
float network_forward(const struct network *network, const float *pixel, int digit, struct activity *out);

/* Backward goes from the last layer to the first: each adds one image's gradient of its two tensors to
 * sum[0 .. WEIGHTS-1].
 *
 * fp32 addition rounds, so a sum depends on the order of its terms, and the order on
 * the number of ranks. Here it does not: every image's contribution is first cut to
 * +-2 and rounded to a multiple of 2^-16 (the loss to 16 and 2^-10). Any sum of up to
 * 64 of them is a multiple of 2^-16 below 2^7, 23 bits, which fp32 holds exactly. So
 * the sum over a batch has the same bits however the batch is divided, and training
 * takes the same path with 1 rank or 100. */
void network_backward_output(const struct activity *activity, float *sum);
void network_backward_hidden(const struct network *network, const struct activity *activity, const float *pixel,
                             float *sum);

/* One step of gradient descent with momentum; sum is over `batch` images. */
void network_learn(struct network *network, const float *sum, int batch);

/* A number that differs if any bit of any weight differs (FNV-1a). */
uint64_t network_hash(const struct network *network);

/* The next number of a fixed sequence (splitmix64). */
uint64_t random_next(uint64_t *state);

#endif
