/* SPDX-License-Identifier: BSD-3-Clause */
#include "servers.h"

#include <signal.h>
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
  uint64_t own;              /* steps of this rank */
  int tells;                 /* 1: this rank prints */
  double began_s, longest_s; /* longest_s: of the steps */
};

static double now_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int exchanges(const struct job *job)
{
  return job->options->elastic || job->options->gossip;
}

/* Descent by the whole rate, however old the gradient is: to see what its division by the staleness is worth. */
static tuttiResult_t descend(void *context, const tuttiFusionShard_t *shard)
{
  (void)context;
  for (size_t i = 0; i < shard->count; i++) shard->planes[0][i] -= shard->rate * shard->gradient[i];
  return tuttiSuccess;
}

static const char *update_of(const struct servers *options)
{
  if (options->elastic) return "easgd";
  if (options->gossip) return "gossip";
  if (options->stale) return options->whole_rate ? "function" : "sgd";
  return options->codec && strncmp(options->codec, "dgc", 3) == 0 ? "sgd" : "momentum:0.9"; /* dgc has its own */
}

/* Weights are given once, the same on all ranks. Asynchronous updates have no momentum: old gradients are one. */
static void fusion_create(struct job *job, tuttiComm_t comm)
{
  tuttiFusionTensor_t tensors[TENSORS];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  uint32_t rows[TENSORS];
  for (int t = 0; t < TENSORS; t++) {
    tensors[t] = (tuttiFusionTensor_t){network_tensors[t].name, (size_t)network_tensors[t].count, tuttiFloat32};
    rows[t] = (uint32_t)network_tensors[t].row;
  }
  config.codec = job->options->codec;
  config.codec_least = CODED_LEAST;
  config.rows = rows;
  if (job->options->wire != tuttiFloat32) config.wire_type = job->options->wire;
  config.op = tuttiAvg;
  config.update = update_of(job->options);
  if (strcmp(config.update, "function") == 0) config.function = descend;
  config.rate = job->network->rate;
  config.quorum = exchanges(job) ? 0 : job->options->stale ? 1 : job->nranks - job->options->backup;
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

/* Pushes gradients, or weights, and waits for weights. */
static void push(struct job *job, const float *values)
{
  for (int t = TENSORS - 1; t >= 0; t--)
    must(job->rank, tuttiFusionPush(job->fusion, t, values + network_tensors[t].first,
                                    job->network->weight + network_tensors[t].first,
                                    (size_t)network_tensors[t].count, tuttiFloat32, NULL), "tuttiFusionPush");
  must(job->rank, tuttiFusionWaitAll(job->fusion), "tuttiFusionWaitAll");
  must(job->rank, tuttiFusionGetInfo(job->fusion, &job->info), "tuttiFusionGetInfo");
}

/* This rank's share of a batch: its gradient is pushed, and its weights are there at the end; or it takes the step by
 * itself, and exchanges its weights from time to time. */
static void step(struct job *job, int first, int batch)
{
  static _Thread_local float sum[WEIGHTS];
  static _Thread_local struct activity activity;
  int tau = job->options->gossip ? 1 : job->options->elastic, mine = 0;
  memset(sum, 0, sizeof sum);
  for (int i = job->rank; i < batch; i += job->nranks, mine++) {
    int image = job->order[first + i];
    network_forward(job->network, job->images->pixel[image], job->images->digit[image], &activity);
    network_backward_output(&activity, sum);
    network_backward_hidden(job->network, &activity, job->images->pixel[image], sum);
  }
  if (job->rank >= job->nranks - job->options->nslow) usleep((useconds_t)job->options->slow_ms * 1000);
  if (exchanges(job)) {
    if (mine) network_learn(job->network, sum, mine);
    if ((job->own + 1) % (uint64_t)tau == 0) push(job, job->network->weight);
    return;
  }
  must(job->rank, tuttiFusionScale(job->fusion, 1, (float)job->nranks / (float)batch), "tuttiFusionScale");
  push(job, sum);
}

static void epoch_set(struct job *job, int epoch)
{
  if (job->epoch == epoch) return;
  if (job->tells && job->epoch)
    printf("epoch %3d  %7.3f s  %6llu updates  held-out accuracy %.1f %%\n", job->epoch, now_s() - job->began_s,
           (unsigned long long)job->info.updates, accuracy(job));
  fflush(stdout);
  job->epoch = epoch;
  order_shuffle(job->order, job->train_count, (uint64_t)epoch + 1000 * (uint64_t)(job->options->seed - 1));
}

/* 1: this rank has done its part: the updates of so many epochs, with stale and elastic as many as all ranks' steps are
 * together; or, as nobody counts all steps, its own ones. */
static int is_over(const struct job *job, uint64_t steps)
{
  const struct servers *options = job->options;
  int is_alone = options->stale || exchanges(job);
  if (is_alone && options->seconds) return now_s() - job->began_s >= options->seconds;
  if (options->gossip) return job->own >= steps;
  if (options->elastic) return job->info.updates * (uint64_t)options->elastic >= steps * (uint64_t)job->nranks;
  return job->info.updates >= (options->stale ? steps * (uint64_t)job->nranks : steps);
}

static void die_maybe(const struct job *job)
{
  for (int k = 0; k < job->options->nkills; k++) {
    const struct kill *its = &job->options->kills[k];
    if (its->rank == job->rank && job->info.updates >= (uint64_t)its->step) raise(SIGKILL);
  }
}

static int is_killed(const struct servers *options, int rank)
{
  int k = 0;
  while (k < options->nkills && options->kills[k].rank != rank) k++;
  return k < options->nkills;
}

/* With steps the number of updates says which one is next, also to a rank that was late. Otherwise each rank goes
 * through the images at its own pace. */
static void steps_run(struct job *job)
{
  int batches = (job->train_count + BATCH_MAX - 1) / BATCH_MAX, is_alone = job->options->stale || exchanges(job);
  uint64_t steps = (uint64_t)job->options->epochs * (uint64_t)batches;
  for (; !is_over(job, steps); job->own++) {
    uint64_t at = is_alone ? job->own : job->info.updates;
    int first = (int)(at % (uint64_t)batches) * BATCH_MAX, left = job->train_count - first;
    epoch_set(job, 1 + (int)(at / (uint64_t)batches));
    die_maybe(job);
    double began_s = now_s(), took_s;
    step(job, first, left < BATCH_MAX ? left : BATCH_MAX);
    took_s = now_s() - began_s;
    if (took_s > job->longest_s) job->longest_s = took_s;
  }
}

void servers_train(const struct servers *options, int rank, int nranks, tuttiComm_t comm, const struct images *images,
                   struct network *network)
{
  struct job *job = calloc(1, sizeof *job);
  if (!job) exit(1);
  *job = (struct job){.options = options, .rank = rank, .nranks = nranks, .images = images, .network = network};
  job->train_count = order_begin(job->order, images);
  int first = 0;
  while (is_killed(options, first)) first++;
  job->tells = rank == first;
  fusion_create(job, comm);
  job->began_s = now_s();
  steps_run(job);
  double took_s = now_s() - job->began_s;
  must(rank, tuttiFusionDestroy(job->fusion), "tuttiFusionDestroy");
  if (job->tells && options->nkills)
    printf("%d of %d ranks were killed; the longest step took %.0f ms\n", options->nkills, nranks,
           1000 * job->longest_s);
  if (job->tells)
    printf("%llu updates and %llu steps of this rank in %.3f s, %llu of these did not count\n"
           "held-out accuracy %.1f %%\n", (unsigned long long)job->info.updates, (unsigned long long)job->own, took_s,
           (unsigned long long)job->info.dropped, accuracy(job));
  free(job);
}
