/* SPDX-License-Identifier: BSD-3-Clause */
#include "replicas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void must(int rank, tuttiResult_t result, const char *call)
{
  if (result == tuttiSuccess) return;
  fprintf(stderr, "rank %d: %s: %s\n", rank, call, tuttiGetErrorString(result));
  exit(1);
}

int held_out(int image)
{
  return image % 5 == 4;
}

int order_begin(int order[IMAGES_MAX], const struct images *images)
{
  int count = 0;
  for (int image = 0; image < images->count; image++)
    if (!held_out(image)) order[count++] = image;
  return count;
}

void order_shuffle(int *order, int count, uint64_t seed)
{
  for (int i = count - 1; i > 0; i--) {
    int j = (int)(random_next(&seed) % (uint64_t)(i + 1));
    int image = order[i];
    order[i] = order[j];
    order[j] = image;
  }
}

/* Highest and lowest hash of all ranks are equal, or some rank differs. Two calls in one group
 * run together. */
uint64_t same_bits(int rank, tuttiComm_t comm, const struct network *network, int step)
{
  uint64_t hash = network_hash(network), high, low;
  must(rank, tuttiGroupStart(), "tuttiGroupStart");
  must(rank, tuttiAllReduce(&hash, &high, 1, tuttiUint64, tuttiMax, comm, NULL), "tuttiAllReduce max");
  must(rank, tuttiAllReduce(&hash, &low, 1, tuttiUint64, tuttiMin, comm, NULL), "tuttiAllReduce min");
  must(rank, tuttiGroupEnd(), "tuttiGroupEnd");
  if (high == low) return hash;
  fprintf(stderr, "the weights differ between ranks after step %d: rank %d has hash %016llx, highest and lowest are "
          "%016llx and %016llx\n", step, rank, (unsigned long long)hash, (unsigned long long)high,
          (unsigned long long)low);
  exit(1);
}

/* The bar grows with the root of the loss, so that its end is still seen to fall. */
void print_epoch(int epoch, double loss, double percent)
{
  static const char bar[] = "########################################";
  int length = (int)fmin(sqrt(loss) * 30 + 0.5, sizeof bar - 1); /* a loss that is NaN has the longest bar */
  printf("epoch %2d   loss %.4f   held-out %5.1f %%   %.*s\n", epoch, loss, percent, length, bar);
  fflush(stdout);
}

void loss_scale_step(struct loss_scale *scale, int overflow)
{
  scale->well = overflow ? 0 : scale->well + 1;
  scale->skipped += overflow;
  if (!scale->moves) return;
  if (overflow) scale->factor = fmaxf(scale->factor / 2, 1);
  else if (scale->well % SCALE_AGAIN == 0) scale->factor = fminf(scale->factor * 2, SCALE_MAX);
}
