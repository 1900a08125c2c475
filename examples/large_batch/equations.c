/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of what a run on small data cannot show. The equations of the optimizer and of the exchanges hold exactly, on
 * inputs whose sums and products are exact, and within the rounding of floats on others. Ranks are threads. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "half.h"
#include "network.h"
#include "optimizer.h"
#include "replicas.h"
#include "tutti.h"
#include "tutti_fusion.h"

static const char *property; /* that is tested now */

static void check(int holds, const char *claim)
{
  if (holds) return;
  fprintf(stderr, "%s: it does not hold that %s\n", property, claim);
  exit(1);
}

static void succeed(tuttiResult_t result)
{
  check(result == tuttiSuccess, tuttiGetErrorString(result));
}

/* Uniform in -1 .. 1. */
static float random_float(uint64_t *seed)
{
  return (float)((double)(random_next(seed) >> 11) * 0x1p-52 - 1);
}

static void fill(float *x, int n, float value)
{
  for (int i = 0; i < n; i++) x[i] = value;
}

/* ---- ranks ---- */

enum { RANKS_MAX = 8 };

struct member {
  int rank, nranks;
  tuttiUniqueId id;
  tuttiComm_t comm;
  pthread_t thread;
  void (*body)(struct member *);
};

static void *member_run(void *argument)
{
  struct member *m = argument;
  succeed(tuttiCommInitRank(&m->comm, m->nranks, m->id, m->rank));
  m->body(m);
  succeed(tuttiCommDestroy(m->comm));
  return NULL;
}

static void ranks_run(int nranks, void (*body)(struct member *))
{
  struct member members[RANKS_MAX];
  tuttiUniqueId id;
  succeed(tuttiGetUniqueId(&id));
  for (int r = 0; r < nranks; r++) {
    members[r] = (struct member){.rank = r, .nranks = nranks, .id = id, .body = body};
    check(!pthread_create(&members[r].thread, NULL, member_run, &members[r]), "there is a thread for each rank");
  }
  for (int r = 0; r < nranks; r++) pthread_join(members[r].thread, NULL);
}

static void check_alike(const struct member *m, const void *data, size_t len, const char *claim)
{
  char *all = malloc(len * (size_t)m->nranks);
  check(all != NULL, "there is memory");
  succeed(tuttiAllGather(data, all, len, tuttiUint8, m->comm, NULL));
  for (int r = 0; r < m->nranks; r++) check(!memcmp(all + len * (size_t)r, data, len), claim);
  free(all);
}

/* ---- FP16 ---- */

/* The value of FP16 with these bits, without sign. */
static double half_value(int bits)
{
  int exponent = bits >> 10, significand = bits & 1023;
  return exponent ? ldexp(1024 + significand, exponent - 25) : ldexp(significand, -24);
}

static void fp16_is_the_nearest_value_the_even_one_in_a_tie(void)
{
  for (int bits = 0; bits < 0x7c00; bits++) {
    double value = half_value(bits), next = half_value(bits + 1); /* that of 0x7c00, infinity, is 65536 */
    double above = next > 65504 ? INFINITY : next;
    float middle = (float)((value + next) / 2);
    check((double)half_round((float)value) == value && (double)half_round(-(float)value) == -value,
          "values of FP16 stay as they are");
    check((double)half_round(nextafterf(middle, 0)) == value, "less than the middle goes down");
    check((double)half_round(nextafterf(middle, INFINITY)) == above, "more than the middle goes up");
    check((double)half_round(middle) == (bits % 2 ? above : value), "the middle goes to the even value");
  }
  check(isnan(half_round(NAN)) && half_round(-INFINITY) == -INFINITY, "NaN and infinity stay");
}

/* 64 steps of 2^-12 from 1, next to which FP16 has steps of 2^-10. */
static void fp16_weights_move_by_small_steps_only_with_masters(void)
{
  struct recipe recipe = {.rate = 0x1p-12, .peak = 0x1p-12, .half = 1};
  struct network network;
  struct optimizer o;
  float sum[WEIGHTS];
  for (recipe.no_master = 0; recipe.no_master < 2; recipe.no_master++) {
    fill(network.weight, WEIGHTS, 1);
    fill(sum, WEIGHTS, -1);
    optimizer_init(&o, &recipe, &network);
    for (int step = 0; step < 64; step++) optimizer_step(&o, &network, sum, 1, NULL);
    for (int i = 0; i < WEIGHTS; i++) {
      if (recipe.no_master) check(network.weight[i] == 1, "FP16 weights alone stay at 1");
      else check(network.weight[i] == 1 + 0x1p-6f, "the master takes FP16 weights to 1 + 64 2^-12");
    }
  }
}

/* ---- rates ---- */

static void warm_up_is_linear_per_step_and_momentum_is_corrected(void)
{
  struct recipe recipe = {.rate = 0.125, .peak = 1.125, .warmup_steps = 8, .momentum = 0.5};
  struct network network;
  struct optimizer o;
  float sum[WEIGHTS];
  for (int step = 0; step < 8; step++) check(optimizer_rate(&recipe, step) == (step + 1) * 0.125, "rates grow alike");
  check(optimizer_rate(&recipe, 8) == 1.125 && optimizer_rate(&recipe, 1000) == 1.125, "the rate stays at the peak");

  memset(&network, 0, sizeof network);
  optimizer_init(&o, &recipe, &network);
  fill(sum, WEIGHTS, 16);
  optimizer_step(&o, &network, sum, 8, NULL);
  check(o.velocity[0] == 0.25f && network.weight[0] == -0.25f, "the first step is the rate times 16 / 8");
  fill(sum, WEIGHTS, 0);
  optimizer_step(&o, &network, sum, 8, NULL);
  check(o.velocity[0] == 0.25f, "half of the velocity is kept, at twice the rate");
  check(network.weight[0] == -0.5f, "the weights move by the velocity");
}

/* ---- LARS ---- */

/* Layers whose norms are powers of 2: in hidden.weight |w| = 32 and |g| = 16. */
static void lars_is_exact_by_hand(void)
{
  struct recipe recipe = {.rate = 0.5, .peak = 0.5, .lars = 0.125, .decay = 0.5};
  struct network network;
  struct optimizer o;
  float sum[WEIGHTS];
  double norm[TENSORS] = {[HIDDEN_WEIGHT] = 16 * 8, [HIDDEN_BIAS] = 2 * 8}; /* of sums of 8 */
  fill(network.weight, WEIGHTS, 0.5f);
  fill(network.weight + network_tensors[OUTPUT_WEIGHT].first, network_tensors[OUTPUT_WEIGHT].count, 0);
  fill(sum, WEIGHTS, 0.25f * 8);
  fill(sum + network_tensors[OUTPUT_BIAS].first, network_tensors[OUTPUT_BIAS].count, 0);
  norm[OUTPUT_WEIGHT] = l2_norm(sum + network_tensors[OUTPUT_WEIGHT].first, network_tensors[OUTPUT_WEIGHT].count);
  optimizer_init(&o, &recipe, &network);
  optimizer_step(&o, &network, sum, 8, norm);
  check(o.velocity[0] == 0.5f * 0.125f * (0.25f + 0.5f * 0.5f), "lambda is 0.125 32 / (16 + 0.5 32), with decay");
  check(o.velocity[network_tensors[HIDDEN_BIAS].first] == 0.5f * 0.25f, "a bias has lambda 1 and no decay");
  check(o.velocity[network_tensors[OUTPUT_WEIGHT].first] == 0.5f * 0.25f, "lambda is 1 where all weights are 0");
  check(o.velocity[network_tensors[OUTPUT_BIAS].first] == 0, "without a gradient a bias stays");
  check(lars_ratio(0.125, 0.5, 3, 0) == 1 && lars_ratio(0.125, 0, 0, 0) == 1, "lambda is 1 where a norm is 0");
}

/* One step of LARS in double, from the state before it, against the step in floats. */
static void check_lars_step(const struct optimizer *before, const struct optimizer *after, const float *sum, int batch)
{
  const struct recipe *recipe = before->recipe;
  double rate = optimizer_rate(recipe, before->steps), kept = recipe->momentum;
  if (before->last_rate > 0) kept *= rate / before->last_rate;
  for (int t = 0; t < TENSORS; t++) {
    int first = network_tensors[t].first, count = network_tensors[t].count, bias = t == HIDDEN_BIAS || t == OUTPUT_BIAS;
    double w2 = 0, g2 = 0, decay = bias ? 0 : recipe->decay;
    for (int i = first; i < first + count; i++) {
      w2 += pow((double)before->master[i], 2);
      g2 += pow((double)sum[i] / batch, 2);
    }
    double lambda = bias ? 1 : recipe->lars * sqrt(w2) / (sqrt(g2) + decay * sqrt(w2));
    for (int i = first; i < first + count; i++) {
      double w = (double)before->master[i], v = (double)before->velocity[i], g = (double)sum[i] / batch;
      double wanted = kept * v + rate * lambda * (g + decay * w);
      double size = fabs(kept * v) + rate * lambda * (fabs(g) + decay * fabs(w));
      check(fabs((double)after->velocity[i] - wanted) <= 8 * 0x1p-24 * size, "the velocity is that in double");
      check(fabs((double)after->master[i] - (w - wanted)) <= 9 * 0x1p-24 * (size + fabs(w)), "and so is the weight");
    }
  }
}

static void lars_is_that_of_double_within_rounding(void)
{
  struct recipe recipe = {.rate = 0.1, .peak = 0.7, .warmup_steps = 3, .momentum = 0.9, .lars = 0.01, .decay = 1e-4};
  struct network network;
  static struct optimizer o, before;
  float sum[WEIGHTS];
  uint64_t seed = 5;
  network_init(&network, 1);
  for (int i = 0; i < CLASSES; i++) network.weight[network_tensors[OUTPUT_BIAS].first + i] = random_float(&seed);
  optimizer_init(&o, &recipe, &network);
  for (int step = 0; step < 6; step++) {
    double norm[TENSORS];
    for (int i = 0; i < WEIGHTS; i++) sum[i] = 30 * random_float(&seed);
    for (int t = 0; t < TENSORS; t++) norm[t] = l2_norm(sum + network_tensors[t].first, network_tensors[t].count);
    before = o;
    optimizer_step(&o, &network, sum, 512, norm);
    check_lars_step(&before, &o, sum, 512);
  }
}

/* Norms of the layers' sums, as a fusion of this policy makes them. Rank r has (i mod 5 - 2)(r + 1) / 1024, which FP16
 * has exactly once it is multiplied by 1024. */
static void fusion_norms(struct member *m, const char *policy, int wire_type, double *norm)
{
  tuttiFusionTensor_t tensors[TENSORS];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusion_t fusion;
  float gradient[WEIGHTS];
  for (int i = 0; i < WEIGHTS; i++) gradient[i] = (float)((i % 5 - 2) * (m->rank + 1)) / 1024;
  for (int t = 0; t < TENSORS; t++)
    tensors[t] = (tuttiFusionTensor_t){network_tensors[t].name, (size_t)network_tensors[t].count, tuttiFloat32};
  config.policy = policy;
  config.wire_type = wire_type;
  config.norms = 1;
  succeed(tuttiFusionCreate(&fusion, m->comm, tensors, TENSORS, &config));
  succeed(tuttiFusionScale(fusion, 1024, 1.0f / 1024));
  for (int t = TENSORS - 1; t >= 0; t--) {
    float *at = gradient + network_tensors[t].first;
    succeed(tuttiFusionPush(fusion, t, at, at, (size_t)network_tensors[t].count, tuttiFloat32, NULL));
  }
  succeed(tuttiFusionWaitAll(fusion));
  for (int t = 0; t < TENSORS; t++) succeed(tuttiFusionNorm(fusion, t, &norm[t]));
  succeed(tuttiFusionDestroy(fusion));
}

static void norms_of(struct member *m)
{
  static const char *const policies[] = {"wfbp", "single", "threshold:2000", "optimal", "p3:300"};
  double norm[TENSORS];
  for (int p = 0; p < 10; p++) {
    fusion_norms(m, policies[p / 2], p % 2 ? tuttiFloat16 : tuttiFloat32, norm);
    for (int t = 0; t < TENSORS; t++) {
      double square = 0;
      for (int i = 0; i < network_tensors[t].count; i++) {
        double sum = ((network_tensors[t].first + i) % 5 - 2) * (1 + 2 + 3);
        square += sum * sum;
      }
      check(norm[t] == sqrt(square / (1024.0 * 1024)), "a layer's norm is that of the sum of all ranks");
    }
  }
}

static void layer_norms_are_the_same_bits_for_every_policy(void)
{
  ranks_run(3, norms_of);
}

/* ---- exchanges ---- */

enum { LENGTH = 1000, STEPS = 8 };

/* The sum over ranks of one value of each, exactly where the values are integers. */
static double total(const struct member *m, double value)
{
  succeed(tuttiAllReduce(&value, &value, 1, tuttiFloat64, tuttiSum, m->comm, NULL));
  return value;
}

static double sum_of(const float *x)
{
  double sum = 0;
  for (int i = 0; i < LENGTH; i++) sum += (double)x[i];
  return sum;
}

/* Multiples of 2^10: halving them 8 times, and taking quarters 4 times, is exact. */
static void fill_integers(float *x, uint64_t seed)
{
  for (int i = 0; i < LENGTH; i++) x[i] = (float)((int)(random_next(&seed) % 2048) - 1024) * 1024;
}

static void elastic_of(struct member *m)
{
  float x[LENGTH], centre[LENGTH], d[LENGTH];
  fill_integers(x, (uint64_t)m->rank);
  fill_integers(centre, 1000);
  float first = x[0] - 0.25f * (x[0] - centre[0]);
  double all = total(m, sum_of(x)) + sum_of(centre);
  for (int step = 0; step < 4; step++) {
    succeed(elastic_exchange(x, centre, d, LENGTH, 0.25f, m->comm));
    if (step == 0) check(x[0] == first, "a rank goes a quarter of the way to the centre");
    check(total(m, sum_of(x)) + sum_of(centre) == all, "the sum of all ranks and the centre stays");
    check_alike(m, centre, sizeof centre, "the copies of the centre are the same bits");
  }
  uint64_t seed = (uint64_t)m->rank + 77;
  for (int step = 0; step < STEPS; step++) { /* values that are rounded */
    for (int i = 0; i < LENGTH; i++) x[i] += random_float(&seed);
    succeed(elastic_exchange(x, centre, d, LENGTH, 0.9f / 3, m->comm));
    check_alike(m, centre, sizeof centre, "the copies of the centre are the same bits, rounded too");
  }
}

static void elastic_exchange_keeps_the_sum_of_ranks_and_centre(void)
{
  ranks_run(3, elastic_of);
}

static void matchings_pair_all_ranks_and_all_pairs_come(void)
{
  int met[6][6] = {{0}};
  for (int n = 1; n <= 64; n++)
    for (uint64_t seed = 0; seed < 20; seed++) {
      int over = 0;
      for (int r = 0; r < n; r++) {
        int partner = gossip_partner(r, n, seed);
        over += partner < 0;
        check(partner < 0 || (partner != r && gossip_partner(partner, n, seed) == r), "partners are each other's");
      }
      check(over == n % 2, "one rank is left over if they are odd, else none");
    }
  for (uint64_t seed = 0; seed < 200; seed++)
    for (int r = 0; r < 6; r++) met[r][gossip_partner(r, 6, seed)]++;
  for (int a = 0; a < 6; a++)
    for (int b = 0; b < 6; b++) check(a == b ? !met[a][b] : met[a][b] >= 20, "all pairs come about equally often");
}

static void gossip_of(struct member *m)
{
  float x[LENGTH], y[LENGTH], value;
  fill_integers(x, (uint64_t)m->rank);
  double all = total(m, sum_of(x)), spread = 0, first = 0;
  for (uint64_t step = 0; step < STEPS; step++) {
    int partner = gossip_partner(m->rank, m->nranks, step);
    succeed(gossip_exchange(x, y, LENGTH, partner, m->comm));
    check(total(m, sum_of(x)) == all, "the sum over all ranks stays");
  }
  for (uint64_t step = 0; step < 40; step++) { /* values that are rounded: x[0] of each rank in 0 .. 2 */
    if (step == 0) x[0] = 1 + random_float(&(uint64_t){(uint64_t)m->rank + 7});
    double before = total(m, (double)x[0]);
    succeed(gossip_exchange(x, y, LENGTH, gossip_partner(m->rank, m->nranks, step), m->comm));
    double after = total(m, (double)x[0]), off = (double)x[0] - after / m->nranks;
    check(fabs(after - before) / m->nranks <= 0x1p-23, "the mean stays, within a unit in the last place");
    spread = sqrt(total(m, off * off));
    if (step == 0) first = spread;
  }
  check(first > 0.1 && spread < first / 1000, "the ranks come together");
  value = (float)m->rank * 1024; /* every rank takes the mean with a rank that it draws by itself */
  for (uint64_t step = 0; step < 4; step++) {
    float values[RANKS_MAX];
    uint64_t seed = step * 64 + (uint64_t)m->rank;
    succeed(tuttiAllGather(&value, values, 1, tuttiFloat32, m->comm, NULL));
    value = (value + values[random_next(&seed) % (uint64_t)m->nranks]) / 2;
  }
  check(total(m, (double)value) != 1024 * m->nranks * (m->nranks - 1) / 2.0, "pulls without a matching move the mean");
}

static void gossip_keeps_the_mean_and_pulls_do_not(void)
{
  ranks_run(6, gossip_of);
}

static void loss_scale_stays_within_its_bounds(void)
{
  struct loss_scale scale = {.moves = 1, .factor = SCALE_FIRST}, one = {.factor = 1};
  for (int step = 0; step < 20 * SCALE_AGAIN; step++) loss_scale_step(&scale, 0);
  check(scale.factor == SCALE_MAX && !scale.skipped, "it doubles up to 2^24, and no further");
  loss_scale_step(&scale, 1);
  check(scale.factor == SCALE_MAX / 2 && scale.skipped == 1, "an overflow halves it");
  for (int step = 1; step < SCALE_AGAIN; step++) loss_scale_step(&scale, 0);
  check(scale.factor == SCALE_MAX / 2, "it waits for 200 steps before it doubles again");
  for (int step = 0; step < 40; step++) loss_scale_step(&scale, 1);
  check(scale.factor == 1, "it halves down to 1, and no further");
  for (int step = 0; step < SCALE_AGAIN; step++) loss_scale_step(&scale, 0);
  check(scale.factor == 2, "it comes back from 1");
  for (int step = 0; step < 2 * SCALE_AGAIN; step++) loss_scale_step(&one, 0);
  check(one.factor == 1, "without a scale there is none later");
}

#define TEST(function) {#function, function}

int main(void)
{
  static const struct {
    const char *name;
    void (*test)(void);
  } tests[] = {TEST(fp16_is_the_nearest_value_the_even_one_in_a_tie),
               TEST(fp16_weights_move_by_small_steps_only_with_masters),
               TEST(loss_scale_stays_within_its_bounds),
               TEST(warm_up_is_linear_per_step_and_momentum_is_corrected),
               TEST(lars_is_exact_by_hand),
               TEST(lars_is_that_of_double_within_rounding),
               TEST(layer_norms_are_the_same_bits_for_every_policy),
               TEST(elastic_exchange_keeps_the_sum_of_ranks_and_centre),
               TEST(matchings_pair_all_ranks_and_all_pairs_come),
               TEST(gossip_keeps_the_mean_and_pulls_do_not)};
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    property = tests[i].name;
    tests[i].test();
    printf("holds: %s\n", property);
  }
  return 0;
}
