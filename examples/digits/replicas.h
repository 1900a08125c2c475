/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that train a copy of the network on every rank need more than the network: errors, the
 * order of the images, equal copies, and the scale of gradients that travel as fp16. */
#ifndef DIGITS_REPLICAS_H
#define DIGITS_REPLICAS_H

#include "images.h"
#include "network.h"
#include "tutti.h"

/* An error of Tutti ends this rank; the library has logged why, and tells the other ranks. */
void must(int rank, tuttiResult_t result, const char *call);

/* Every fifth image is held out: the network never learns from it. */
int held_out(int image);

/* The images to train on. Returns how many they are. All ranks shuffle alike: same seed, same order. */
int order_begin(int order[IMAGES_MAX], const struct images *images);
void order_shuffle(int *order, int count, uint64_t seed);

/* The hash of the network, if all ranks have the same; else this rank ends with the step's number. */
uint64_t same_bits(int rank, tuttiComm_t comm, const struct network *network, int step);

void print_epoch(int epoch, double loss, double percent);

/* Gradients are multiplied by the scale on the way, so that small ones are not lost to fp16. Too
 * large a scale makes an infinity, which Tutti reports to all ranks: none takes the step, and all
 * halve the scale. It is doubled again after many steps that went well. It always stays between 1,
 * with which sums of 2000 images fit, and 2^24. */
enum { SCALE_FIRST = 1 << 16, SCALE_MAX = 1 << 24, SCALE_AGAIN = 200 };
struct loss_scale {
  int moves;         /* 0: gradients travel as fp32, and the scale stays 1 */
  float factor;      /* SCALE_FIRST at first */
  int well, skipped; /* steps since it was changed; steps not taken */
};
void loss_scale_step(struct loss_scale *scale, int overflow);

#endif
