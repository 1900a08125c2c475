/* SPDX-License-Identifier: BSD-3-Clause */
/* A layer table played as a training loop: one process a rank, started by the script perf/train_replay, which reads
 * what rank 0 prints:
 *
 *   message ROUND BYTES US                          one all-reduce, blocking
 *   state ROUND POLICY STEPS PLANS GROUPS MESSAGES PRIORITY COPIED PREDICTED_US EXPOSED_US LATE_US IDLE
 *   steps ROUND POLICY RANK US...                   iterations of that rank
 *
 * Compute is timed waiting: gradients are pushed when their time has come, and forward of a layer takes its time from
 * when its sum was there. Within a step times to wait for follow from one another and not from when the process woke
 * up, so that late wake-ups (LATE_US: their mean in the round) do not add up; a step begins when the one before
 * has ended.
 *
 * A fusion for each policy exists from the beginning. In round 0 each takes `warm` steps, which are not told: then
 * the plan is made from what was measured. Auto takes TRIALS more, in which it measures plans beside each other.
 * In every further round each takes a step whose sums are checked exactly and then `steps` of zeros that are told, as
 * many for all, so that slow phases of the machine meet everybody. Where computation varies (variation.h), the n-th
 * step of a round is the same for all policies.
 *
 * usage: train_replay line ROUNDS BYTES...
 *        train_replay [--together] [--wire half|bfloat16] [--jitter PERCENT] [--slow RANK:FACTOR] [--lengths FILE]
 *                     [--seed N] TABLE WARM ROUNDS STEPS POLICY... */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "replay.h"
#include "tutti.h"
#include "tutti_fusion.h"
#include "variation.h"

#define POLICIES_MAX 32
#define STEPS_MAX 100000
#define ASLEEP_US 3000.0
#define TRIALS 60

struct replay {
  int rank, nranks;
  tuttiComm_t comm;
  int is_together, wire;
  int warm, rounds, steps;
  struct variation variation;
  struct network network;
  int npolicies;
  char **policies;
  tuttiFusion_t fusions[POLICIES_MAX];
  double *step_us, *all_us; /* of a round: this rank's, and on rank 0 those of all */
  double late_us;           /* sum over wake-ups */
  long wakes;
};

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void check(const struct replay *r, tuttiResult_t result)
{
  if (result == tuttiSuccess) return;
  fprintf(stderr, "train_replay: rank %d: %s\n", r->rank, tuttiGetErrorString(result));
  exit(1);
}

/* The largest of all ranks' values; also a barrier. */
static double agree(const struct replay *r, double value)
{
  check(r, tuttiAllReduce(&value, &value, 1, tuttiDouble, tuttiMax, r->comm, NULL));
  return value;
}

static void sleep_until(struct replay *r, double due_us)
{
  struct timespec due = {.tv_sec = (time_t)(due_us / 1e6)};
  due.tv_nsec = (long)((due_us - (double)due.tv_sec * 1e6) * 1e3);
  if (now_us() >= due_us) return;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) continue;
  r->late_us += now_us() - due_us;
  r->wakes++;
}

/* The time of all cores since boot, idle or with niced work only; zeros where /proc does not tell. */
static void ticks_read(double *idle, double *all)
{
  double values[8] = {0};
  FILE *file = fopen("/proc/stat", "r");
  *idle = *all = 0;
  if (!file) return;
  int n = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &values[0], &values[1], &values[2], &values[3],
                 &values[4], &values[5], &values[6], &values[7]);
  fclose(file);
  for (int i = 0; i < n; i++) *all += values[i];
  *idle = values[1] + values[3] + values[4];
}

/* ---- what a message takes ---- */

/* The time of a reduction on the last rank to have it; all were asleep before, as between two gradients. Ranks of one
 * machine share a clock. */
static double reduce_time(struct replay *r, float *data, size_t bytes)
{
  double begin = agree(r, now_us()) + ASLEEP_US;
  sleep_until(r, begin);
  check(r, tuttiAllReduce(data, data, bytes / sizeof(float), tuttiFloat, tuttiSum, r->comm, NULL));
  return agree(r, now_us() - begin);
}

static int line_measure(struct replay *r, int argc, char **argv)
{
  int rounds = argc > 2 ? atoi(argv[2]) : 0;
  size_t longest = sizeof(float);
  for (int a = 3; a < argc; a++) {
    size_t bytes = strtoull(argv[a], NULL, 10);
    if (bytes > longest) longest = bytes;
  }
  float *data = calloc(longest / sizeof(float), sizeof(float));
  if (!data) return 1;
  for (int round = -1; round < rounds; round++)
    for (int a = 3; a < argc; a++) { /* the first round opens links */
      double us = reduce_time(r, data, strtoull(argv[a], NULL, 10));
      if (r->rank == 0 && round >= 0) printf("message %d %s %.3f\n", round, argv[a], us);
    }
  free(data);
  return 0;
}

/* ---- a step ---- */

/* When forward of the layer may begin, whose time has come at due_us. */
static double gradient_await(const struct replay *r, tuttiFusion_t fusion, int layer, double due_us)
{
  tuttiResult_t result = tuttiFusionQuery(fusion, layer);
  if (result == tuttiSuccess) return due_us;
  if (result != tuttiInProgress) check(r, result);
  check(r, tuttiFusionWait(fusion, layer));
  double now = now_us();
  return now > due_us ? now : due_us;
}

/* Backward from the last layer to the first, then forward, from begin_us on. */
static void step_run(struct replay *r, tuttiFusion_t fusion, uint64_t step, double begin_us)
{
  const struct network *network = &r->network;
  double due_us = begin_us;
  for (int l = network->n - 1; l >= 0; l--) {
    const struct layer *layer = &network->layers[l];
    due_us += layer->backward_us * variation_factor(&r->variation, step, r->rank, l, BACKWARD);
    sleep_until(r, due_us);
    check(r, tuttiFusionPush(fusion, l, layer->gradient, layer->gradient, layer->count, tuttiFloat32, NULL));
  }
  for (int l = 0; l < network->n; l++) {
    due_us = gradient_await(r, fusion, l, due_us);
    due_us += network->layers[l].forward_us * variation_factor(&r->variation, step, r->rank, l, FORWARD);
    sleep_until(r, due_us);
  }
}

/* So many steps of a round, from this number on. */
static void steps_run(struct replay *r, tuttiFusion_t fusion, uint64_t first, int steps)
{
  agree(r, 0);
  double begin = now_us();
  for (int s = 0; s < steps; s++) {
    step_run(r, fusion, first + (uint64_t)s, begin);
    double end = now_us();
    r->step_us[s] = end - begin;
    begin = end;
  }
}

/* ---- rounds ---- */

static void state_tell(struct replay *r, int round, int p, double idle)
{
  tuttiFusionInfo_t info = {.size = sizeof info};
  double late = agree(r, r->wakes ? r->late_us / (double)r->wakes : 0);
  check(r, tuttiFusionGetInfo(r->fusions[p], &info));
  if (r->rank) return;
  printf("state %d %s %llu %llu %d %d %d %llu %.3f %.3f %.3f %.3f\n", round, r->policies[p],
         (unsigned long long)info.steps, (unsigned long long)info.plans, info.groups, info.messages,
         info.is_by_priority, (unsigned long long)info.copied_bytes, info.predicted_us, info.predicted_exposed_us,
         late, idle);
  fflush(stdout);
}

static void steps_tell(const struct replay *r, int round, const char *policy)
{
  size_t n = (size_t)r->steps;
  check(r, tuttiGather(r->step_us, r->all_us, n, tuttiDouble, 0, r->comm, NULL));
  for (int rank = 0; rank < r->nranks && r->rank == 0; rank++) {
    printf("steps %d %s %d", round, policy, rank);
    for (size_t s = 0; s < n; s++) printf(" %.3f", r->all_us[(size_t)rank * n + s]);
    printf("\n");
  }
}

static void policy_round(struct replay *r, int round, int p)
{
  double idle, all, idle_then, all_then;
  int warm = r->warm + (strcmp(r->policies[p], "auto") == 0 ? TRIALS : 0);
  network_fill(&r->network, r->rank);
  steps_run(r, r->fusions[p], variation_step(round, 0), 1);
  if (!network_check(&r->network, r->nranks, r->policies[p])) exit(1);
  network_clear(&r->network);
  r->late_us = 0;
  r->wakes = 0;
  ticks_read(&idle_then, &all_then);
  steps_run(r, r->fusions[p], variation_step(round, 1), round ? r->steps : warm - 1);
  ticks_read(&idle, &all);
  if (!network_check(&r->network, 0, r->policies[p])) exit(1);
  state_tell(r, round, p, all > all_then ? (idle - idle_then) / (all - all_then) : 0);
  if (round) steps_tell(r, round, r->policies[p]);
}

static tuttiFusionTensor_t *tensors_list(const struct network *network)
{
  tuttiFusionTensor_t *tensors = calloc((size_t)network->n, sizeof *tensors);
  for (int l = 0; l < network->n && tensors; l++)
    tensors[l] = (tuttiFusionTensor_t){network->layers[l].name, network->layers[l].count, tuttiFloat32};
  return tensors;
}

static int fusions_create(struct replay *r)
{
  tuttiFusionTensor_t *tensors = tensors_list(&r->network);
  for (int p = 0; p < r->npolicies && tensors; p++) {
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    config.policy = r->policies[p];
    config.wire_type = r->wire;
    check(r, tuttiFusionCreate(&r->fusions[p], r->comm, tensors, r->network.n, &config));
  }
  int is_made = tensors != NULL;
  free(tensors);
  return is_made;
}

static int replay_run(struct replay *r)
{
  size_t most = (size_t)(r->steps > r->warm + TRIALS ? r->steps : r->warm + TRIALS);
  r->step_us = calloc(most, sizeof(double));
  r->all_us = calloc((size_t)r->steps * (size_t)r->nranks, sizeof(double));
  if (!r->step_us || !r->all_us || !fusions_create(r)) {
    fprintf(stderr, "train_replay: no memory\n");
    return 0;
  }
  for (int round = 0; round <= r->rounds; round++)
    for (int p = 0; p < r->npolicies; p++) policy_round(r, round, (p + round) % r->npolicies);
  for (int p = 0; p < r->npolicies; p++) check(r, tuttiFusionDestroy(r->fusions[p]));
  free(r->step_us);
  free(r->all_us);
  return 1;
}

/* ---- arguments ---- */

static int usage(void)
{
  fprintf(stderr, "usage: train_replay line ROUNDS BYTES...\n"
          "       train_replay [--together] [--wire half|bfloat16] " VARIATION_USAGE "\n"
          "                    TABLE WARM ROUNDS STEPS POLICY...\n"
          "The script perf/train_replay starts it.\n");
  return 0;
}

static int arguments_take(struct replay *r, int argc, char **argv)
{
  static const struct option options[] = {
      {"together", no_argument, NULL, 't'}, {"wire", required_argument, NULL, 'w'}, VARIATION_OPTIONS, {0}};
  int option;
  r->wire = TUTTI_CONFIG_UNDEF_INT;
  while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
    if (option == '?' || variation_take(&r->variation, option, optarg) == 0) return usage();
    if (option == 't') r->is_together = 1;
    if (option == 'w') r->wire = strcmp(optarg, "half") == 0 ? tuttiFloat16 : tuttiBfloat16;
  }
  if (argc - optind < 5 || argc - optind - 4 > POLICIES_MAX) return usage();
  r->warm = atoi(argv[optind + 1]);
  r->rounds = atoi(argv[optind + 2]);
  r->steps = atoi(argv[optind + 3]);
  r->policies = argv + optind + 4;
  r->npolicies = argc - optind - 4;
  if (r->warm < 2 || r->rounds < 1 || r->steps < 1 || r->warm > STEPS_MAX || r->steps > STEPS_MAX) return usage();
  return network_create(&r->network, argv[optind], r->is_together);
}

int main(int argc, char **argv)
{
  struct replay r = {0};
  tuttiLaunch_t launch;
  int is_line = argc > 1 && strcmp(argv[1], "line") == 0;
  if (!is_line && !arguments_take(&r, argc, argv)) return 2;
  prctl(PR_SET_TIMERSLACK, 1UL); /* ns; a wake-up would be 50 us late else */
  check(&r, tuttiGetLaunch(&launch));
  r.rank = launch.proc;
  r.nranks = launch.nprocs;
  check(&r, tuttiCommInitRank(&r.comm, r.nranks, launch.id, r.rank));
  int status = is_line ? line_measure(&r, argc, argv) : !replay_run(&r);
  check(&r, tuttiCommDestroy(r.comm));
  network_destroy(&r.network);
  variation_free(&r.variation);
  return status;
}
