/* SPDX-License-Identifier: BSD-3-Clause */
/* A fusion in a training loop: gradients are pushed as the backward pass makes them, and sent in few messages. */
#include "say.h"

#include <tutti_fusion.h>

#define LAYERS 20
#define COUNT 5000
#define STEPS 10

static float weights[LAYERS][COUNT], gradients[LAYERS][COUNT];

int main(void)
{
  int rank, nranks;
  tuttiComm_t comm = join(&rank, &nranks);
  tuttiFusionTensor_t tensors[LAYERS]; /* in forward order */
  for (int l = 0; l < LAYERS; l++) tensors[l] = (tuttiFusionTensor_t){NULL, COUNT, tuttiFloat32};

  tuttiFusion_t fusion;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.op = tuttiAvg;
  must(tuttiFusionCreate(&fusion, comm, tensors, LAYERS, &config), "tuttiFusionCreate");

  for (int step = 0; step < STEPS; step++) {
    for (int l = LAYERS - 1; l >= 0; l--) { /* the backward pass of layer l; then its gradient may go */
      for (int i = 0; i < COUNT; i++) gradients[l][i] = weights[l][i] - (float)rank;
      must(tuttiFusionPush(fusion, l, gradients[l], gradients[l], COUNT, tuttiFloat32, NULL), "tuttiFusionPush");
    }
    for (int l = 0; l < LAYERS; l++) { /* the next forward pass: layer l needs its weights now */
      must(tuttiFusionWait(fusion, l), "tuttiFusionWait");
      for (int i = 0; i < COUNT; i++) weights[l][i] -= 0.5f * gradients[l][i];
    }
  }
  printf("rank %d: weights are %.2f; the mean of all ranks is %.2f\n", rank, (double)weights[0][0],
         (double)(nranks - 1) / 2);
  if (rank == 0) must(tuttiFusionPrint(fusion, stdout, 0), "tuttiFusionPrint");
  must(tuttiFusionDestroy(fusion), "tuttiFusionDestroy");
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
