/* SPDX-License-Identifier: BSD-3-Clause */
#include "network.h"

#include <math.h>
#include <string.h>

/* The place of each layer among the weights. */
enum { BIAS1 = HIDDEN * PIXELS, WEIGHT2 = BIAS1 + HIDDEN, BIAS2 = WEIGHT2 + CLASSES * HIDDEN };

const struct tensor network_tensors[TENSORS] = {
  [HIDDEN_WEIGHT] = {"hidden.weight", 0, HIDDEN * PIXELS, PIXELS},
  [HIDDEN_BIAS] = {"hidden.bias", BIAS1, HIDDEN, HIDDEN},
  [OUTPUT_WEIGHT] = {"output.weight", WEIGHT2, CLASSES * HIDDEN, HIDDEN},
  [OUTPUT_BIAS] = {"output.bias", BIAS2, CLASSES, CLASSES}};

uint64_t random_next(uint64_t *state)
{
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Uniform in +-width: He's initialisation for weights, biases start at 0. */
static void fill(float *weight, int count, float width, uint64_t *seed)
{
  for (int i = 0; i < count; i++)
    weight[i] = ((float)(random_next(seed) >> 40) / 8388608.0f - 1) * width;
}

void network_init(struct network *network, uint64_t seed)
{
  memset(network, 0, sizeof *network);
  network->rate = 0.3f;
  network->momentum = 0.9f;
  fill(network->weight, HIDDEN * PIXELS, sqrtf(6.0f / PIXELS), &seed);
  fill(network->weight + WEIGHT2, CLASSES * HIDDEN, sqrtf(6.0f / HIDDEN), &seed);
}

static void forward(const float *weight, const float *pixel, float *hidden, float *score)
{
  for (int h = 0; h < HIDDEN; h++) {
    float sum = weight[BIAS1 + h];
    for (int p = 0; p < PIXELS; p++) sum += weight[h * PIXELS + p] * pixel[p];
    hidden[h] = sum > 0 ? sum : 0;
  }
  for (int c = 0; c < CLASSES; c++) {
    float sum = weight[BIAS2 + c];
    for (int h = 0; h < HIDDEN; h++) sum += weight[WEIGHT2 + c * HIDDEN + h] * hidden[h];
    score[c] = sum;
  }
}

static int highest(const float *score)
{
  int best = 0;
  for (int c = 1; c < CLASSES; c++)
    if (score[c] > score[best]) best = c;
  return best;
}

int network_classify(const struct network *network, const float *pixel)
{
  float hidden[HIDDEN], score[CLASSES];
  forward(network->weight, pixel, hidden, score);
  return highest(score);
}

/* To the nearest multiple of 2^-16: fp32 near 192 has just these steps. */
static float to_grid(float x)
{
  x = fminf(fmaxf(x, -2), 2);
  return (x + 192.0f) - 192.0f;
}

/* The loss, in steps of 2^-10. */
static float to_loss_grid(float x)
{
  return (fminf(x, 16) + 12288.0f) - 12288.0f;
}

/* Turns scores into d loss / d score = softmax - target; returns the loss. */
static float softmax(float *score, int digit)
{
  float top = score[highest(score)], sum = 0;
  float own = score[digit] - top;
  for (int c = 0; c < CLASSES; c++) sum += score[c] = expf(score[c] - top);
  for (int c = 0; c < CLASSES; c++) score[c] = score[c] / sum - (c == digit ? 1.0f : 0.0f);
  return logf(sum) - own;
}

float network_forward(const struct network *network, const float *pixel, int digit, struct activity *out)
{
  forward(network->weight, pixel, out->hidden, out->error);
  return to_loss_grid(softmax(out->error, digit));
}

void network_backward_output(const struct activity *activity, float *sum)
{
  for (int c = 0; c < CLASSES; c++) {
    sum[BIAS2 + c] += to_grid(activity->error[c]);
    for (int h = 0; h < HIDDEN; h++)
      sum[WEIGHT2 + c * HIDDEN + h] += to_grid(activity->error[c] * activity->hidden[h]);
  }
}

void network_backward_hidden(const struct network *network, const struct activity *activity, const float *pixel,
                             float *sum)
{
  for (int h = 0; h < HIDDEN; h++) {
    if (activity->hidden[h] <= 0) continue;
    float back = 0;
    for (int c = 0; c < CLASSES; c++) back += activity->error[c] * network->weight[WEIGHT2 + c * HIDDEN + h];
    sum[BIAS1 + h] += to_grid(back);
    for (int p = 0; p < PIXELS; p++) sum[h * PIXELS + p] += to_grid(back * pixel[p]);
  }
}

void network_learn(struct network *network, const float *sum, int batch)
{
  for (int i = 0; i < WEIGHTS; i++) {
    network->speed[i] = network->momentum * network->speed[i] - network->rate * sum[i] / (float)batch;
    network->weight[i] += network->speed[i];
  }
}

uint64_t network_hash(const struct network *network)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < WEIGHTS; i++) {
    uint32_t bits;
    memcpy(&bits, &network->weight[i], sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3u;
  }
  return hash;
}
