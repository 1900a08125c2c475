/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of a launcher: push and pull through servers beside an all-reduce of as many bytes.
 * usage: bench_servers ROUNDS STEPS BYTES...
 *
 * Prints, for each length, us of a step of one tensor: the all-reduce; owners that update weights in a fusion without
 * servers (sgd); servers with a quorum of all; asynchronous SGD; easgd; gossip. All take turns, STEPS of each in each
 * of ROUNDS rounds behind a barrier; the least of the rounds counts, that of rank 0. */
#include <string.h>

#include "bench.h"
#include "tutti_fusion.h"

enum way { ALL_REDUCE, OWNERS, SERVERS, ASGD, EASGD, GOSSIP, WAYS };
static const char *const names[WAYS] = {"all-reduce", "owners", "servers", "asgd", "easgd", "gossip"};

static tuttiFusion_t fusion_make(tuttiComm_t comm, enum way way, int nranks, float *data, size_t count)
{
  static const char *const updates[WAYS] = {NULL, "sgd", "sgd", "sgd", "easgd", "gossip"};
  tuttiFusionTensor_t tensor = {"x", count, tuttiFloat32};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusion_t fusion = NULL;
  if (way == ALL_REDUCE) return fusion;
  config.update = updates[way];
  config.policy = "wfbp";
  if (way == SERVERS) config.quorum = nranks;
  if (way == ASGD) config.quorum = 1, config.staleness = 1 << 20;
  must(tuttiFusionCreate(&fusion, comm, &tensor, 1, &config));
  must(tuttiFusionState(fusion, 0, 0, data, count, 1));
  return fusion;
}

static double steps_us(tuttiComm_t comm, tuttiFusion_t fusion, float *data[2], size_t count, int steps)
{
  must(tuttiBarrier(comm, NULL));
  double begin = now_us();
  for (int k = 0; k < steps; k++) {
    if (!fusion) must(tuttiAllReduce(data[0], data[1], count, tuttiFloat32, tuttiSum, comm, NULL));
    else must(tuttiFusionPush(fusion, 0, data[0], data[1], count, tuttiFloat32, NULL));
    if (fusion) must(tuttiFusionWaitAll(fusion));
  }
  return (now_us() - begin) / steps;
}

static void measure(tuttiComm_t comm, int nranks, int rounds, int steps, size_t bytes)
{
  size_t count = bytes / sizeof(float);
  float *data[2] = {calloc(count, sizeof(float)), calloc(count, sizeof(float))};
  tuttiFusion_t fusions[WAYS];
  double least[WAYS];
  if (!data[0] || !data[1]) exit(1);
  for (enum way way = 0; way < WAYS; way++) fusions[way] = fusion_make(comm, way, nranks, data[0], count);
  for (int round = -1; round < rounds; round++) /* one to warm up */
    for (enum way way = 0; way < WAYS; way++) {
      double us = steps_us(comm, fusions[way], data, count, steps);
      if (round <= 0 || us < least[way]) least[way] = us;
    }
  for (enum way way = 0; way < WAYS; way++) must(tuttiFusionDestroy(fusions[way]));
  tuttiLaunch_t launch;
  must(tuttiGetLaunch(&launch));
  if (launch.proc == 0) printf("%zu", bytes);
  for (enum way way = 0; way < WAYS && launch.proc == 0; way++) printf(",%.1f", least[way]);
  if (launch.proc == 0) putchar('\n');
  free(data[0]);
  free(data[1]);
}

int main(int argc, char **argv)
{
  tuttiLaunch_t launch;
  tuttiComm_t comm;
  int rounds = argc > 1 ? atoi(argv[1]) : 0, steps = argc > 2 ? atoi(argv[2]) : 0;
  if (rounds < 1 || steps < 1 || argc < 4) {
    fprintf(stderr, "usage: tutti run -n N -- bench_servers ROUNDS STEPS BYTES...\n");
    return 2;
  }
  must(tuttiGetLaunch(&launch));
  must(tuttiCommInitRank(&comm, launch.nprocs, launch.id, launch.proc));
  if (launch.proc == 0) {
    printf("bytes");
    for (enum way way = 0; way < WAYS; way++) printf(",%s", names[way]);
    putchar('\n');
  }
  for (int k = 3; k < argc; k++) measure(comm, launch.nprocs, rounds, steps, strtoull(argv[k], NULL, 10));
  must(tuttiCommDestroy(comm));
  return 0;
}
