/* SPDX-License-Identifier: BSD-3-Clause */
/* Variation of computation: by how much a layer's backward or forward takes longer than its table says, on a rank and
 * in a step. The factor is a product of three:
 *
 *   - jitter: log-normal, with mean 1 and this standard deviation, drawn for each step, rank, layer and way by itself.
 *     Times of real steps have such a tail to the right, and no factor is below 0;
 *   - 1, or what the slow rank's computation takes instead;
 *   - the length of the step's sentences beside the mean: a row of a trace, drawn for each step, the same on all ranks.
 *
 * Draws are a hash of the seed and of what they are for (the finalizer of SplitMix64, once for each number): a draw
 * does not depend on those before it. So all ranks, all policies and the model have the same steps, in any order.
 *
 * Pure but for the reading of a trace. */
#ifndef VARIATION_H
#define VARIATION_H

#include <getopt.h>
#include <stdint.h>

#define LENGTHS_MAX 65536

enum way { BACKWARD, FORWARD };

struct variation {
  uint64_t seed;
  double jitter;      /* 0.2: 20 % */
  double slow_factor; /* 0: no rank is slow */
  int slow_rank;
  int nlengths;       /* 0: all are the same */
  double *lengths;    /* factors, each above 0 */
};

double variation_factor(const struct variation *v, uint64_t step, int rank, int layer, enum way way);

/* Steps of a round: none has a number of another round's. */
static inline uint64_t variation_step(int round, int step)
{
  return (uint64_t)round << 32 | (uint64_t)step;
}

/* Options of the programs that vary: rows for getopt_long. */
#define VARIATION_OPTIONS \
  {"jitter", required_argument, NULL, 'j'}, {"slow", required_argument, NULL, 's'}, \
      {"lengths", required_argument, NULL, 'l'}, {"seed", required_argument, NULL, 'd'}
#define VARIATION_USAGE "[--jitter PERCENT] [--slow RANK:FACTOR] [--lengths FILE] [--seed N]"

/* Takes one of these. 0 and a message if it is wrong, -1 if it is none of them. */
int variation_take(struct variation *v, int option, const char *text);

/* Takes over a trace: columns batch (1, 2, ...), tokens and factor, in this order. 0 and a message if it is none. */
int variation_lengths_read(struct variation *v, const char *path);
void variation_free(struct variation *v); /* a zeroed one is allowed */

#endif
