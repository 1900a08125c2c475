/* SPDX-License-Identifier: BSD-3-Clause */
/* A complete program for data-parallel training with Tutti: every rank has a copy of the
 * network and of the images, takes its share of each batch, and pushes each gradient into a
 * fusion as soon as backward has made it. The fusion adds up the gradients of all ranks in
 * few messages. All ranks then take the same step, so their copies stay equal to the last
 * bit; this program checks that after every step.
 *
 *   digits                              one rank
 *   tutti run -n 4 -- digits            four processes
 *   digits --threads 4                  four threads of one process
 *   digits --threads 4 --wire half      gradients travel as fp16, at half the bytes
 *   digits --threads 4 --codec 1bit     or as one bit and two means a row, at a 20th of them
 *   digits --threads 4 --backup 1       owners update weights by the first 3 contributions of a step
 *   digits --threads 4 --server --codec 1bit    owners update weights, by gradients that travel as bits
 *   digits --threads 4 --gossip         ranks train weights of their own, and average them in pairs
 *   mpirun -n 4 digits, torchrun ...    any launcher that tuttiGetLaunch knows */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "images.h"
#include "network.h"
#include "replicas.h"
#include "servers.h"
#include "tutti.h"
#include "tutti_fusion.h"

#ifndef DIGITS_CSV
#define DIGITS_CSV "digits.csv"
#endif

struct options {
  int threads;
  int epochs;
  int spoil;
  int wire; /* tuttiDataType_t in which gradients travel */
  const char *codec; /* by which they do; NULL: none */
  int forget;        /* what the codec leaves out of a step */
  float rate, momentum; /* below 0: the usual ones */
  int seed;
  const char *data;
  int has_servers;   /* the owners of weights update them: see servers.h */
  struct servers servers;
};

/* One rank: a thread of this process. Only the thread writes to it. */
struct rank {
  int rank, nranks;
  const struct options *options;
  const struct images *images;
  tuttiUniqueId id;
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  pthread_t thread;
  struct network network;
  struct activity activity[BATCH_MAX]; /* of this rank's images of the batch */
  float sum[WEIGHTS]; /* gradient of this batch */
  double loss; /* and its loss: of another type, so that it travels as it is */
  int order[IMAGES_MAX];  /* the images to train on, in this epoch's order */
  int train_count;
  int step;
  struct loss_scale scale; /* of gradients that travel as fp16 or bf16 */
};

/* Tells the fusion its tensors: those of the network in the order of forward, then the loss. */
static void fusion_create(struct rank *r)
{
  tuttiFusionTensor_t tensors[TENSORS + 1] = {[TENSORS] = {"loss", 1, tuttiFloat64}};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  uint32_t rows[TENSORS + 1] = {0};
  for (int t = 0; t < TENSORS; t++) {
    tensors[t] = (tuttiFusionTensor_t){network_tensors[t].name, (size_t)network_tensors[t].count, tuttiFloat32};
    rows[t] = (uint32_t)network_tensors[t].row;
  }
  config.codec = r->options->codec;
  config.codec_least = CODED_LEAST;
  config.rows = rows;
  if (r->options->wire != tuttiFloat32) config.wire_type = r->options->wire;
  config.overflow = 1;
  must(r->rank, tuttiFusionCreate(&r->fusion, r->comm, tensors, TENSORS + 1, &config), "tuttiFusionCreate");
  must(r->rank, tuttiFusionScale(r->fusion, r->scale.factor, 1 / r->scale.factor), "tuttiFusionScale");
}

/* This rank's gradient of a tensor is ready. */
static void push(struct rank *r, int tensor)
{
  float *at = r->sum + network_tensors[tensor].first;
  must(r->rank, tuttiFusionPush(r->fusion, tensor, at, at, (size_t)network_tensors[tensor].count, tuttiFloat32, NULL),
       "tuttiFusionPush");
}

/* Waits for the sums over all ranks; returns 0 if they overflowed: then no rank takes the step. */
static int add_gradients(struct rank *r)
{
  int overflow;
  must(r->rank, tuttiFusionWaitAll(r->fusion), "tuttiFusionWaitAll");
  must(r->rank, tuttiFusionOverflow(r->fusion, &overflow), "tuttiFusionOverflow");
  loss_scale_step(&r->scale, overflow);
  must(r->rank, tuttiFusionScale(r->fusion, r->scale.factor, 1 / r->scale.factor), "tuttiFusionScale");
  return !overflow;
}

/* Zeros in place of what the codec keeps for the next step: to see what that is worth. */
static void forget(struct rank *r)
{
  static const float zeros[WEIGHTS];
  int planes = !strncmp(r->options->codec, "1bit", 4) || !strncmp(r->options->codec, "dgc", 3) ? 2 : 1;
  for (int t = 0; t < TENSORS; t++)
    for (int p = 0; network_tensors[t].count >= CODED_LEAST && p < planes; p++)
      must(r->rank, tuttiFusionState(r->fusion, t, p, (float *)(uintptr_t)zeros, (size_t)network_tensors[t].count, 1),
           "tuttiFusionState");
}

/* One batch: this rank takes every nranks-th image of it. Returns the batch's loss. */
static double train_batch(struct rank *r, int first, int batch)
{
  memset(r->sum, 0, sizeof r->sum);
  r->loss = 0;
  for (int i = r->rank; i < batch; i += r->nranks) {
    int image = r->order[first + i];
    r->loss += (double)network_forward(&r->network, r->images->pixel[image], r->images->digit[image], &r->activity[i]);
  }
  must(r->rank, tuttiFusionPush(r->fusion, TENSORS, &r->loss, &r->loss, 1, tuttiFloat64, NULL), "tuttiFusionPush loss");
  for (int i = r->rank; i < batch; i += r->nranks) network_backward_output(&r->activity[i], r->sum);
  push(r, OUTPUT_BIAS);
  push(r, OUTPUT_WEIGHT);
  for (int i = r->rank; i < batch; i += r->nranks)
    network_backward_hidden(&r->network, &r->activity[i], r->images->pixel[r->order[first + i]], r->sum);
  push(r, HIDDEN_BIAS);
  push(r, HIDDEN_WEIGHT);
  if (add_gradients(r)) network_learn(&r->network, r->sum, batch);
  if (r->options->forget) forget(r);
  r->step++;
  if (r->step == r->options->spoil && r->rank == r->nranks - 1) r->network.weight[0] += 1;
  same_bits(r->rank, r->comm, &r->network, r->step);
  return r->loss;
}

/* Each rank classifies its share of the held-out images. Returns the percentage that is right. */
static double accuracy(struct rank *r)
{
  int64_t tally[2] = {0, 0}; /* right, all */
  for (int image = r->rank; image < r->images->count; image += r->nranks) {
    if (!held_out(image)) continue;
    tally[0] += network_classify(&r->network, r->images->pixel[image]) == r->images->digit[image];
    tally[1]++;
  }
  must(r->rank, tuttiAllReduce(tally, tally, 2, tuttiInt64, tuttiSum, r->comm, NULL), "tuttiAllReduce tally");
  return tally[1] ? 100.0 * (double)tally[0] / (double)tally[1] : 0;
}

static void train(struct rank *r)
{
  double percent = 0;
  for (int epoch = 1; epoch <= r->options->epochs; epoch++) {
    double loss = 0;
    order_shuffle(r->order, r->train_count, (uint64_t)epoch + 1000 * (uint64_t)(r->options->seed - 1));
    for (int first = 0; first < r->train_count; first += BATCH_MAX) {
      int left = r->train_count - first;
      loss += train_batch(r, first, left < BATCH_MAX ? left : BATCH_MAX);
    }
    percent = accuracy(r);
    if (r->rank == 0) print_epoch(epoch, loss / r->train_count, percent);
  }
  uint64_t hash = same_bits(r->rank, r->comm, &r->network, r->step);
  if (r->rank) return;
  printf("all %d rank%s the same bits: yes (hash %016llx, compared after each of %d steps)\n", r->nranks,
         r->nranks > 1 ? "s hold" : " holds", (unsigned long long)hash, r->step);
  if (r->options->wire != tuttiFloat32)
    printf("%d steps were skipped until gradients times %g fit\n", r->scale.skipped, (double)r->scale.factor);
  printf("held-out accuracy %.1f %%\n", percent);
  must(r->rank, tuttiFusionPrint(r->fusion, stdout, 0), "tuttiFusionPrint");
}

/* A codec adds up what it leaves out until that is sent, and momentum adds it up once more: both together train at a
 * smaller rate. dgc has the momentum in itself. */
static void learning_set(struct network *network, const struct options *options)
{
  if (options->servers.elastic || options->servers.gossip) network->momentum = 0;
  if (options->codec) network->rate = 0.1f;
  if (options->codec && strncmp(options->codec, "dgc", 3) == 0) network->momentum = 0;
  if (options->rate >= 0) network->rate = options->rate;
  if (options->momentum >= 0) network->momentum = options->momentum;
}

static void *run_servers(struct rank *r)
{
  network_init(&r->network, (uint64_t)r->options->seed);
  learning_set(&r->network, r->options);
  servers_train(&r->options->servers, r->rank, r->nranks, r->comm, r->images, &r->network);
  if (r->options->servers.nkills) tuttiCommAbort(r->comm); /* which has failed with the first one that died */
  else must(r->rank, tuttiCommDestroy(r->comm), "tuttiCommDestroy");
  return NULL;
}

static void *run_rank(void *argument)
{
  struct rank *r = argument;
  must(r->rank, tuttiCommInitRank(&r->comm, r->nranks, r->id, r->rank), "tuttiCommInitRank");
  if (r->options->has_servers) return run_servers(r);
  fusion_create(r);
  network_init(&r->network, (uint64_t)r->options->seed);
  learning_set(&r->network, r->options);
  r->train_count = order_begin(r->order, r->images);
  if (r->rank == 0)
    printf("digits: %d rank%s, %d images to train on, %d held out\n", r->nranks, r->nranks > 1 ? "s" : "",
           r->train_count, r->images->count - r->train_count);
  train(r);
  must(r->rank, tuttiFusionDestroy(r->fusion), "tuttiFusionDestroy");
  must(r->rank, tuttiCommDestroy(r->comm), "tuttiCommDestroy");
  return NULL;
}

static const char help[] =
  "digits: data-parallel training on handwritten digits, an example of Tutti\n"
  "\n"
  "usage: digits [OPTION...]   alone, or under tutti run, mpirun or torchrun\n"
  "  --threads N   ranks of each process, as threads (default 1)\n"
  "  --epochs N    times that all images are seen (default 25)\n"
  "  --wire TYPE   in which gradients travel: float, half or bfloat16 (default float)\n"
  "  --codec X     by which they travel, e.g. 1bit, qsgd:4 or dgc:0.99 (tutti_fusion.h has all)\n"
  "  --forget      what a codec leaves out of a step, instead of keeping it for the next one\n"
  "  --rate R      of learning (default 0.3, with a codec 0.1)\n"
  "  --momentum M  (default 0.9; with the codec dgc 0, because that has its own)\n"
  "  --seed N      of weights and of the order of images (default 1)\n"
  "  --data FILE   the images (default " DIGITS_CSV ")\n"
  "  --spoil N     change one weight of the last rank after step N, to see the check fail\n"
  "  --server      the owners of weights update them, instead of each rank\n"
  "  --backup N    likewise, and a step waits for all ranks but N\n"
  "  --stale N     likewise, at each contribution whose weights are at most N updates old\n"
  "  --whole-rate  with --stale, the rate is not divided by 1 + staleness, to see what that is worth\n"
  "  --elastic TAU ranks train their own weights, and every TAU steps exchange them with a center\n"
  "  --gossip      likewise, in each step with a neighbour (the momentum of both is 0 unless given)\n"
  "  --slow MS[,N] with these, the last rank, or each of the last N, sleeps so long in each step\n"
  "  --seconds S   with --stale, --elastic and --gossip, end after S instead of epochs\n"
  "  --kill R@N    with --backup, rank R kills itself after update N (tutti run --keep-going)\n"
  "  --help        this text\n"
  "\n"
  "Any number of ranks gives the same weights to the last bit, but with --wire half or\n"
  "bfloat16, where sums are rounded, and with --codec. The exit status is 0 if\n"
  "they were equal on all ranks after every step, else 1.\n";

static int number(const char *text, int lowest)
{
  char *end;
  long value = strtol(text, &end, 10);
  if (*text && !*end && value >= lowest && value <= 100000) return (int)value;
  fprintf(stderr, "digits: '%s' is not a number from %d to 100000\n", text, lowest);
  exit(2);
}

/* "MS[,N]" */
static void slow_read(struct servers *servers, char *text)
{
  char *count = strchr(text, ',');
  if (count) *count++ = '\0';
  servers->slow_ms = number(text, 0);
  servers->nslow = count ? number(count, 0) : 1;
}

static float factor(const char *text)
{
  char *end;
  float value = strtof(text, &end);
  if (*text && !*end && value >= 0 && value <= 1) return value;
  fprintf(stderr, "digits: '%s' is not a number from 0 to 1\n", text);
  exit(2);
}

static int wire_type(const char *text)
{
  if (strcmp(text, "float") == 0) return tuttiFloat32;
  if (strcmp(text, "half") == 0) return tuttiFloat16;
  if (strcmp(text, "bfloat16") == 0) return tuttiBfloat16;
  fprintf(stderr, "digits: '%s' is not float, half or bfloat16\n", text);
  exit(2);
}

static void kill_add(struct servers *servers, const char *text)
{
  struct kill *its = &servers->kills[servers->nkills];
  char end;
  if (servers->nkills < KILLS && sscanf(text, "%d@%d%c", &its->rank, &its->step, &end) == 2 && its->rank >= 0 &&
      its->step >= 0) {
    servers->nkills++;
    return;
  }
  fprintf(stderr, "digits: --kill '%s' is not RANK@UPDATE, such as 1@100, or there are more than %d\n", text, KILLS);
  exit(2);
}

static void parse(struct options *o, int argc, char **argv)
{
  static const struct option names[] = {
    {"threads", required_argument, NULL, 't'}, {"epochs", required_argument, NULL, 'e'},
    {"data", required_argument, NULL, 'd'},    {"spoil", required_argument, NULL, 's'},
    {"wire", required_argument, NULL, 'w'},    {"codec", required_argument, NULL, 'c'},
    {"rate", required_argument, NULL, 'r'},    {"momentum", required_argument, NULL, 'm'},
    {"seed", required_argument, NULL, 'n'},    {"forget", no_argument, NULL, 'f'},
    {"server", no_argument, NULL, 'S'},        {"backup", required_argument, NULL, 'B'},
    {"stale", required_argument, NULL, 'T'},   {"slow", required_argument, NULL, 'W'},
    {"whole-rate", no_argument, NULL, 'R'},    {"elastic", required_argument, NULL, 'E'},
    {"gossip", no_argument, NULL, 'G'},        {"seconds", required_argument, NULL, 'D'},
    {"kill", required_argument, NULL, 'K'},    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(argc, argv, "t:e:d:s:w:c:r:m:n:fh", names, NULL)) != -1;) {
    switch (c) {
    case 't': o->threads = number(optarg, 1); break;
    case 'e': o->epochs = number(optarg, 1); break;
    case 'd': o->data = optarg; break;
    case 'w': o->wire = wire_type(optarg); break;
    case 'c': o->codec = optarg; break;
    case 'f': o->forget = 1; break;
    case 'r': o->rate = factor(optarg); break;
    case 'm': o->momentum = factor(optarg); break;
    case 'n': o->seed = number(optarg, 1); break;
    case 's': o->spoil = number(optarg, 1); break;
    case 'S': o->has_servers = 1; break;
    case 'B': o->has_servers = 1; o->servers.backup = number(optarg, 0); break;
    case 'T': o->has_servers = 1; o->servers.stale = number(optarg, 1); break;
    case 'R': o->servers.whole_rate = 1; break;
    case 'E': o->has_servers = 1; o->servers.elastic = number(optarg, 1); break;
    case 'G': o->has_servers = 1; o->servers.gossip = 1; break;
    case 'W': slow_read(&o->servers, optarg); break;
    case 'D': o->servers.seconds = number(optarg, 1); break;
    case 'K': kill_add(&o->servers, optarg); break;
    case 'h': fputs(help, stdout); exit(0);
    default: fputs("try digits --help\n", stderr); exit(2);
    }
  }
  if (optind < argc) {
    fprintf(stderr, "digits: unexpected '%s'; try digits --help\n", argv[optind]);
    exit(2);
  }
}

int main(int argc, char **argv)
{
  struct options options = {.threads = 1, .epochs = 25, .wire = tuttiFloat32, .rate = -1, .momentum = -1, .seed = 1,
                            .data = DIGITS_CSV};
  parse(&options, argc, argv);
  options.servers.codec = options.codec;
  options.servers.wire = options.wire;
  options.servers.epochs = options.epochs;
  options.servers.seed = options.seed;
  if (options.servers.nkills && (options.threads > 1 || options.servers.backup < options.servers.nkills)) {
    fputs("digits: --kill kills processes, no more of them than --backup: leave --threads out\n", stderr);
    return 2;
  }
  if (options.forget && (!options.codec || options.has_servers)) {
    fputs("digits: --forget is of use with a --codec that keeps something, and without servers\n", stderr);
    return 2;
  }
  if (!!options.servers.backup + !!options.servers.stale + !!options.servers.elastic + options.servers.gossip > 1) {
    fputs("digits: --backup, --stale, --elastic and --gossip are different ways: give one of them\n", stderr);
    return 2;
  }
  struct images *images = images_read(options.data);
  if (!images) return 1;

  /* Which job is this process part of? Without a launcher it is a job of one process. */
  tuttiLaunch_t launch;
  if (tuttiGetLaunch(&launch) != tuttiSuccess) return 1;
  struct rank *ranks = calloc((size_t)options.threads, sizeof *ranks);
  if (!ranks) return 1;
  for (int t = 0; t < options.threads; t++) {
    ranks[t].rank = launch.proc * options.threads + t;
    ranks[t].nranks = launch.nprocs * options.threads;
    ranks[t].options = &options;
    ranks[t].images = images;
    ranks[t].id = launch.id;
    ranks[t].scale.moves = options.wire != tuttiFloat32;
    ranks[t].scale.factor = ranks[t].scale.moves ? SCALE_FIRST : 1;
    if (pthread_create(&ranks[t].thread, NULL, run_rank, &ranks[t]) != 0) {
      fprintf(stderr, "digits: no thread for rank %d\n", ranks[t].rank);
      return 1;
    }
  }
  for (int t = 0; t < options.threads; t++) pthread_join(ranks[t].thread, NULL);
  free(ranks);
  free(images);
  return 0;
}
