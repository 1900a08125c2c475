/* SPDX-License-Identifier: BSD-3-Clause */
#include "servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "replicas.h"
#include "tutti_fusion.h"

struct job {
  const struct servers *options;
  int rank, nranks;
  const struct images *images;
  struct network *network;
  tuttiFusion_t fusion;
  tuttiFusionInfo_t info;
  int order[IMAGES_MAX]; /* the images to train on, in the order of `epoch` */
  int train_count, epoch;
  double began_s;
};

static double now_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Weights are given once, the same on all ranks. Asynchronous updates have no momentum: old gradients are one. */
static void fusion_create(struct job *job, tuttiComm_t comm)
{
  tuttiFusionTensor_t tensors[TENSORS];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  for (int t = 0; t < TENSORS; t++)
    tensors[t] = (tuttiFusionTensor_t){network_tensors[t].name, (size_t)network_tensors[t].count, tuttiFloat32};
  config.op = tuttiAvg;
  config.update = job->options->stale ? "sgd" : "momentum:0.9";
  config.rate = job->network->rate;
  config.quorum = job->options->stale ? 1 : job->nranks - job->options->backup;
  config.staleness = job->options->stale;
  must(job->rank, tuttiFusionCreate(&job->fusion, comm, tensors, TENSORS, &config), "tuttiFusionCreate");
  for (int t = 0; t < TENSORS; t++)
    must(job->rank, tuttiFusionState(job->fusion, t, 0, job->network->weight + network_tensors[t].first,
                                     (size_t)network_tensors[t].count, 1), "tuttiFusionState");
  job->info.size = sizeof job->info;
}

static double accuracy(const struct job *job)
{
  int right = 0, all = 0;
  for (int image = 0; image < job->images->count; image++) {
    if (!held_out(image)) continue;
    right += network_classify(job->network, job->images->pixel[image]) == job->images->digit[image];
    all++;
  }
  return all ? 100.0 * right / all : 0;
}

/* This rank's share of a batch: its gradient is pushed, and its weights are there at the end. */
static void step(struct job *job, int first, int batch)
{
  static _Thread_local float sum[WEIGHTS];
  static _Thread_local struct activity activity;
  memset(sum, 0, sizeof sum);
  for (int i = job->rank; i < batch; i += job->nranks) {
    int image = job->order[first + i];
    network_forward(job->network, job->images->pixel[image], job->images->digit[image], &activity);
    network_backward_output(&activity, sum);
    network_backward_hidden(job->network, &activity, job->images->pixel[image], sum);
  }
  if (job->rank == job->nranks - 1) usleep((useconds_t)job->options->slow_ms * 1000);
  must(job->rank, tuttiFusionScale(job->fusion, 1, (float)job->nranks / (float)batch), "tuttiFusionScale");
  for (int t = TENSORS - 1; t >= 0; t--)
    must(job->rank, tuttiFusionPush(job->fusion, t, sum + network_tensors[t].first,
                                    job->network->weight + network_tensors[t].first,
                                    (size_t)network_tensors[t].count, tuttiFloat32, NULL), "tuttiFusionPush");
  must(job->rank, tuttiFusionWaitAll(job->fusion), "tuttiFusionWaitAll");
  must(job->rank, tuttiFusionGetInfo(job->fusion, &job->info), "tuttiFusionGetInfo");
}

static void epoch_set(struct job *job, int epoch)
{
  if (job->epoch == epoch) return;
  if (job->rank == 0 && job->epoch)
    printf("epoch %3d  %7.3f s  %6llu updates  held-out accuracy %.1f %%\n", job->epoch, now_s() - job->began_s,
           (unsigned long long)job->info.updates, accuracy(job));
  job->epoch = epoch;
  order_shuffle(job->order, job->train_count, (uint64_t)epoch + 1000 * (uint64_t)(job->options->seed - 1));
}

/* With steps the number of updates says which one is next, also to a rank that was late. Otherwise each rank goes
 * through the images at its own pace, until there were as many updates as contributions of so many epochs. */
static void steps_run(struct job *job)
{
  int batches = (job->train_count + BATCH_MAX - 1) / BATCH_MAX;
  uint64_t steps = (uint64_t)job->options->epochs * (uint64_t)batches;
  uint64_t last = job->options->stale ? steps * (uint64_t)job->nranks : steps;
  for (uint64_t own = 0; job->info.updates < last; own++) {
    uint64_t at = job->options->stale ? own : job->info.updates;
    int first = (int)(at % (uint64_t)batches) * BATCH_MAX, left = job->train_count - first;
    epoch_set(job, 1 + (int)(at / (uint64_t)batches));
    step(job, first, left < BATCH_MAX ? left : BATCH_MAX);
  }
}

void servers_train(const struct servers *options, int rank, int nranks, tuttiComm_t comm, const struct images *images,
                   struct network *network)
{
  struct job *job = calloc(1, sizeof *job);
  if (!job) exit(1);
  *job = (struct job){.options = options, .rank = rank, .nranks = nranks, .images = images, .network = network};
  job->train_count = order_begin(job->order, images);
  fusion_create(job, comm);
  job->began_s = now_s();
  steps_run(job);
  double took_s = now_s() - job->began_s;
  must(rank, tuttiFusionDestroy(job->fusion), "tuttiFusionDestroy");
  if (rank == 0) printf("%llu updates in %.3f s, %llu steps of this rank did not count\nheld-out accuracy %.1f %%\n",
                        (unsigned long long)job->info.updates, took_s, (unsigned long long)job->info.dropped,
                        accuracy(job));
  free(job);
}
