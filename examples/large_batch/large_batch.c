/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways to train with many images a step, and on many ranks, on the images and the network of examples/digits:
 *
 *   large_batch --threads 4 --batch 512 --linear --warmup 5   linear scaling of the rate, warm-up
 *   large_batch --threads 4 --half                            FP16 weights and gradients, FP32 masters, loss scale
 *   large_batch --threads 4 --lars 0.02 --rate 1              LARS, with norms from the fusion
 *   large_batch --threads 4 --half --update                   likewise, with masters at their owners alone
 *   large_batch --threads 4 --elastic 10 --momentum 0         EASGD: weights are exchanged, every 10 steps
 *   large_batch --threads 4 --gossip --momentum 0             gossip: pairs of ranks average their weights
 *   tutti run -n 4 -- large_batch ...                         the ranks as processes
 *
 * examples/digits is the shorter program, to be read first. README.md tells what each of these shows. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "images.h"
#include "network.h"
#include "optimizer.h"
#include "options.h"
#include "replicas.h"
#include "tutti.h"
#include "tutti_fusion.h"

/* One rank: a thread of this process. Only the thread writes to it. */
struct rank {
  int rank, nranks;
  const struct options *options;
  const struct recipe *recipe;
  const struct images *images;
  tuttiUniqueId id;
  tuttiComm_t comm;
  tuttiFusion_t fusion; /* NULL: this rank trains on its own, and exchanges weights */
  pthread_t thread;
  struct network network;
  struct network centre; /* of --elastic */
  struct optimizer optimizer;
  struct activity activity[IMAGES_MAX]; /* of this rank's images of the batch */
  float sum[WEIGHTS]; /* gradient of this batch */
  float scratch[WEIGHTS]; /* with --update the weights that come while backward still reads the others */
  double loss; /* of this rank's images in this epoch */
  int order[IMAGES_MAX]; /* the images to train on, in this epoch's order */
  int train_count;
  int step;
  struct loss_scale scale; /* of gradients that travel as FP16 */
};

/* A number that no other pair of seed and time has. */
static uint64_t seed_of(const struct rank *r, int time)
{
  return (uint64_t)r->options->seed << 32 | (uint64_t)time;
}

/* Owners of weights take the steps: the rule that optimizer.c has for a rank that holds them all. */
static void update_describe(const struct rank *r, tuttiFusionConfig_t *config, char *rule, size_t size)
{
  static const uint8_t biases[TENSORS] = {[HIDDEN_BIAS] = 1, [OUTPUT_BIAS] = 1};
  const struct recipe *recipe = r->recipe;
  if (recipe->lars > 0) snprintf(rule, size, "lars:%.9g,%.9g,%.9g", recipe->momentum, recipe->decay, recipe->lars);
  else snprintf(rule, size, "momentum:%.9g,%.9g", recipe->momentum, recipe->decay);
  config->update = rule;
  config->exempt = biases;
  config->weights_type = r->options->half ? tuttiFloat16 : tuttiFloat32;
}

/* With --half each contribution is multiplied by the scale, rounded to FP16 and summed as FP16; the sum is divided by
 * the scale in FP32. So do programs that multiply the loss, and keep gradients in FP16. */
static void fusion_create(struct rank *r)
{
  tuttiFusionTensor_t tensors[TENSORS];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  for (int t = 0; t < TENSORS; t++)
    tensors[t] = (tuttiFusionTensor_t){network_tensors[t].name, (size_t)network_tensors[t].count, tuttiFloat32};
  if (r->options->half) config.wire_type = tuttiFloat16;
  config.overflow = 1;
  config.norms = 1;
  char rule[96];
  if (r->options->update) update_describe(r, &config, rule, sizeof rule);
  must(r->rank, tuttiFusionCreate(&r->fusion, r->comm, tensors, TENSORS, &config), "tuttiFusionCreate");
  for (int t = 0; t < TENSORS && r->options->update; t++)
    must(r->rank, tuttiFusionState(r->fusion, t, 0, r->network.weight + network_tensors[t].first,
                             (size_t)network_tensors[t].count, 1), "tuttiFusionState");
  must(r->rank, tuttiFusionScale(r->fusion, r->scale.factor, 1 / r->scale.factor), "tuttiFusionScale");
}

/* This rank's gradient of a tensor is ready. */
static void push(struct rank *r, int tensor)
{
  float *at = r->sum + network_tensors[tensor].first;
  float *to = r->options->update ? r->scratch + network_tensors[tensor].first : at;
  if (!r->fusion) return;
  must(r->rank, tuttiFusionPush(r->fusion, tensor, at, to, (size_t)network_tensors[tensor].count, tuttiFloat32, NULL),
       "tuttiFusionPush");
}

/* Forward and backward of this rank's images of the batch, every nranks-th one. Returns how many they are. */
static int compute(struct rank *r, int first, int batch)
{
  int count = 0;
  memset(r->sum, 0, sizeof r->sum);
  for (int i = r->rank; i < batch; i += r->nranks, count++) {
    int image = r->order[first + i];
    r->loss += (double)network_forward(&r->network, r->images->pixel[image], r->images->digit[image], &r->activity[i]);
  }
  for (int i = r->rank; i < batch; i += r->nranks) network_backward_output(&r->activity[i], r->sum);
  push(r, OUTPUT_BIAS);
  push(r, OUTPUT_WEIGHT);
  for (int i = r->rank; i < batch; i += r->nranks)
    network_backward_hidden(&r->network, &r->activity[i], r->images->pixel[r->order[first + i]], r->sum);
  push(r, HIDDEN_BIAS);
  push(r, HIDDEN_WEIGHT);
  return count;
}

/* Waits for the sums over all ranks; returns 0 if they overflowed: then no rank takes the step. */
static int add_gradients(struct rank *r, double *norm)
{
  int overflow;
  must(r->rank, tuttiFusionWaitAll(r->fusion), "tuttiFusionWaitAll");
  must(r->rank, tuttiFusionOverflow(r->fusion, &overflow), "tuttiFusionOverflow");
  for (int t = 0; t < TENSORS; t++) must(r->rank, tuttiFusionNorm(r->fusion, t, &norm[t]), "tuttiFusionNorm");
  loss_scale_step(&r->scale, overflow);
  must(r->rank, tuttiFusionScale(r->fusion, r->scale.factor, 1 / r->scale.factor), "tuttiFusionScale");
  return !overflow;
}

/* All ranks take the same step, by the sum of their gradients. */
static void step_together(struct rank *r, int batch)
{
  double norm[TENSORS];
  int is_well = add_gradients(r, norm);
  if (r->options->update) {
    memcpy(r->network.weight, r->scratch, sizeof r->scratch); /* those of the step before, if this one overflowed */
    r->optimizer.steps += is_well;
  } else if (is_well) optimizer_step(&r->optimizer, &r->network, r->sum, batch, norm);
  same_bits(r->rank, r->comm, &r->network, r->step);
}

/* This rank takes a step by its own gradient, if it had an image, and meets others. */
static void step_alone(struct rank *r, int count)
{
  float *x = r->optimizer.master;
  if (count) optimizer_step(&r->optimizer, &r->network, r->sum, count, NULL);
  if (r->options->elastic && r->step % r->options->elastic == 0) {
    float alpha = 0.9f / (float)r->nranks;
    must(r->rank, elastic_exchange(x, r->centre.weight, r->scratch, WEIGHTS, alpha, r->comm), "elastic_exchange");
    same_bits(r->rank, r->comm, &r->centre, r->step);
  }
  if (r->options->gossip) {
    int partner = gossip_partner(r->rank, r->nranks, seed_of(r, r->step));
    if (partner >= 0) must(r->rank, gossip_exchange(x, r->scratch, WEIGHTS, partner, r->comm), "gossip_exchange");
  }
  optimizer_publish(&r->optimizer, &r->network);
}

static void train_batch(struct rank *r, int first, int batch)
{
  if (r->options->update) {
    double rate = optimizer_rate(r->recipe, r->optimizer.steps);
    float factor = r->scale.factor;
    must(r->rank, tuttiFusionRate(r->fusion, (float)rate), "tuttiFusionRate");
    must(r->rank, tuttiFusionScale(r->fusion, factor, 1 / (factor * (float)batch)), "tuttiFusionScale");
  }
  int count = compute(r, first, batch);
  r->step++;
  if (r->fusion) step_together(r, batch);
  else step_alone(r, count);
}

/* Each rank classifies all held-out images by the network that it has. Returns the percentage that is right, on average
 * over the ranks, and the loss of this epoch's images on average. */
static double evaluate(struct rank *r, double *loss)
{
  const struct network *network = r->options->elastic ? &r->centre : &r->network;
  double tally[3] = {r->loss, 0, 0}; /* loss; held-out images right, all */
  for (int image = 0; image < r->images->count; image++) {
    if (!held_out(image)) continue;
    tally[1] += network_classify(network, r->images->pixel[image]) == r->images->digit[image];
    tally[2]++;
  }
  must(r->rank, tuttiAllReduce(tally, tally, 3, tuttiFloat64, tuttiSum, r->comm, NULL), "tuttiAllReduce tally");
  *loss = tally[0] / r->train_count;
  r->loss = 0;
  return tally[2] > 0 ? 100 * tally[1] / tally[2] : 0;
}

/* How far the ranks' weights are from each other: root mean square distance to their mean, in percent of the length of
 * the mean. */
static double spread(struct rank *r)
{
  float *mean = r->scratch;
  double square = 0, length = 0;
  must(r->rank, tuttiAllReduce(r->network.weight, mean, WEIGHTS, tuttiFloat, tuttiAvg, r->comm, NULL),
       "tuttiAllReduce mean");
  for (int i = 0; i < WEIGHTS; i++) {
    double far = (double)r->network.weight[i] - (double)mean[i];
    square += far * far;
    length += (double)mean[i] * (double)mean[i];
  }
  must(r->rank, tuttiAllReduce(&square, &square, 1, tuttiFloat64, tuttiAvg, r->comm, NULL), "tuttiAllReduce distance");
  return 100 * sqrt(square / length);
}

static void print_end(struct rank *r, double percent)
{
  const struct options *o = r->options;
  double far = r->fusion ? 0 : spread(r);
  uint64_t hash = o->gossip ? 0 : same_bits(r->rank, r->comm, o->elastic ? &r->centre : &r->network, r->step);
  if (r->rank) return;
  if (r->fusion)
    printf("all %d ranks hold the same bits: yes (hash %016llx, compared after each of %d steps)\n", r->nranks,
           (unsigned long long)hash, r->step);
  else printf("the ranks' weights lie %.2f %% from their mean\n", far);
  if (o->elastic)
    printf("all %d ranks hold the same centre: yes (hash %016llx)\n", r->nranks, (unsigned long long)hash);
  if (o->half)
    printf("%d steps were skipped until gradients times %g fit\n", r->scale.skipped, (double)r->scale.factor);
  printf("held-out accuracy %.1f %%\n", percent);
}

static void train(struct rank *r)
{
  double percent = 0, loss;
  for (int epoch = 1; epoch <= r->options->epochs; epoch++) {
    order_shuffle(r->order, r->train_count, seed_of(r, epoch));
    for (int first = 0; first < r->train_count; first += r->options->batch) {
      int left = r->train_count - first;
      train_batch(r, first, left < r->options->batch ? left : r->options->batch);
    }
    percent = evaluate(r, &loss);
    if (r->rank == 0) print_epoch(epoch, loss, percent);
  }
  print_end(r, percent);
}

static void *run_rank(void *argument)
{
  struct rank *r = argument;
  const struct options *o = r->options;
  must(r->rank, tuttiCommInitRank(&r->comm, r->nranks, r->id, r->rank), "tuttiCommInitRank");
  network_init(&r->network, (uint64_t)o->seed);
  if (!o->elastic && !o->gossip) fusion_create(r);
  r->centre = r->network;
  optimizer_init(&r->optimizer, r->recipe, &r->network);
  r->train_count = order_begin(r->order, r->images);
  if (r->rank == 0)
    printf("large_batch: %d rank%s, %d images to train on, %d held out, %d a step, rate %g to %g\n", r->nranks,
           r->nranks > 1 ? "s" : "", r->train_count, r->images->count - r->train_count, o->batch, r->recipe->rate,
           r->recipe->peak);
  train(r);
  must(r->rank, tuttiFusionDestroy(r->fusion), "tuttiFusionDestroy");
  must(r->rank, tuttiCommDestroy(r->comm), "tuttiCommDestroy");
  return NULL;
}

static struct recipe make_recipe(const struct options *o, const struct images *images)
{
  int train = 0;
  double peak = o->linear ? o->rate * o->batch / 64 : o->rate;
  for (int image = 0; image < images->count; image++) train += !held_out(image);
  return (struct recipe){.rate = o->warmup ? o->rate : peak,
                         .peak = peak,
                         .warmup_steps = o->warmup * ((train + o->batch - 1) / o->batch),
                         .momentum = o->momentum,
                         .lars = o->lars,
                         .decay = o->decay,
                         .half = o->half,
                         .no_master = o->no_master};
}

static int run_ranks(const struct options *options, const struct recipe *recipe, const struct images *images,
                     const tuttiLaunch_t *launch)
{
  struct rank *ranks = calloc((size_t)options->threads, sizeof *ranks);
  if (!ranks) return 1;
  for (int t = 0; t < options->threads; t++) {
    ranks[t].rank = launch->proc * options->threads + t;
    ranks[t].nranks = launch->nprocs * options->threads;
    ranks[t].options = options;
    ranks[t].recipe = recipe;
    ranks[t].images = images;
    ranks[t].id = launch->id;
    ranks[t].scale.moves = options->half;
    ranks[t].scale.factor = options->half ? SCALE_FIRST : 1;
    if (pthread_create(&ranks[t].thread, NULL, run_rank, &ranks[t]) != 0) {
      fprintf(stderr, "large_batch: no thread for rank %d\n", ranks[t].rank);
      return 1;
    }
  }
  for (int t = 0; t < options->threads; t++) pthread_join(ranks[t].thread, NULL);
  free(ranks);
  return 0;
}

int main(int argc, char **argv)
{
  struct options options;
  options_read(&options, argc, argv);
  struct images *images = images_read(options.data);
  if (!images) return 1;

  /* Which job is this process part of? Without a launcher it is a job of one process. */
  tuttiLaunch_t launch;
  if (tuttiGetLaunch(&launch) != tuttiSuccess) return 1;
  if (options.gossip && launch.nprocs > GOSSIP_RANKS_MAX / options.threads) {
    fprintf(stderr, "large_batch: --gossip: more than %d ranks\n", GOSSIP_RANKS_MAX);
    return 2;
  }
  struct recipe recipe = make_recipe(&options, images);
  int status = run_ranks(&options, &recipe, images, &launch);
  free(images);
  return status;
}
