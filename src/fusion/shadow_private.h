/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in memory of GPUs (shadow.c). */
#ifndef TT_FUSION_SHADOW_H
#define TT_FUSION_SHADOW_H

#include "fusion/fusion.h"

/* Host memory that stands for tensors. */
struct shadows {
  pthread_mutex_t mutex; /* of callers who copy; taken before that of `shared` */
  char *memory;          /* NULL: no tensor was on a GPU so far */
  size_t bytes;          /* of all */
};

/* Copies what is pushed to its shadow, of which *pushed tells then; of a tensor in host memory it does nothing. No step
 * uses the shadow, and no mutex is held. Errors: tuttiInvalidUsage: with a stream; others end the fusion. */
tuttiResult_t tt_fusion_shadow_in(struct tuttiFusion *fusion, int index, struct tt_pushed *pushed);

/* Copies the sum of that step, which is there, to its place. The mutex is held, and given back meanwhile. Errors: as
 * above. */
tuttiResult_t tt_fusion_shadow_out(struct tuttiFusion *fusion, int index, uint64_t step);

/* Finds places for all tensors, those that follow each other side by side. */
void tt_fusion_shadows_place(struct tuttiFusion *fusion);

#endif
