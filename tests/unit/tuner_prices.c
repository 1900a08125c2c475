/* SPDX-License-Identifier: BSD-3-Clause */
/* Prices from a profile, where they come from, and what is predicted from them.
 * Labels: plain, planner. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "tuned.h"
#include "tuner/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define HEAD \
  "tutti profile 3\nmachine host h cpu \"\" cores 2 memory \"\" kernel \"\"\n" \
  "measured date \"\" command \"\" version 0.1.0 load 0\n"
#define LINK(kind, transport, flows, ways, from, to, alpha, beta, overhead) \
  "link kind " kind " transport " transport " interface \"\" flows " flows " ways " ways " from " from \
  " to " to " alpha_us " alpha " beta_us_per_mib " beta " overhead_us " overhead " points 9 error_percent 1\n"

static const char measured[] =
    HEAD LINK("cache", "shm", "1", "1", "0", "inf", "9", "90", "1")      /* line 4 */
    LINK("cache", "shm", "1", "2", "0", "4K", "0.5", "100", "0.25")      /* 5 */
    LINK("cache", "shm", "1", "2", "4K", "inf", "1", "50", "0.5")        /* 6 */
    LINK("cache", "shm", "4", "2", "0", "inf", "2", "200", "0.5")        /* 7 */
    LINK("net", "tcp", "1", "2", "0", "inf", "30", "8000", "5")          /* 8 */
    "reduce type float op sum sources 2 level memory bytes 256M gamma_us_per_mib 90 error_percent 1\n"
    "reduce type float op sum sources 2 level L2 bytes 512K gamma_us_per_mib 40 error_percent 1\n"
    "reduce type float op sum sources 3 level L2 bytes 512K gamma_us_per_mib 10 error_percent 1\n";

static void profile_read(struct tt_profile *profile, const char *text)
{
  char whole[4096];
  int len = snprintf(whole, sizeof whole, "%s\nend\n", text);
  FILE *in = fmemopen(whole, (size_t)len, "r");
  assert_int_equal(tt_profile_parse(profile, in, "FILE"), tuttiSuccess);
  fclose(in);
}

/* Nodes of equally many ranks that share a cache; freed by scene_free. */
struct scene {
  struct tt_topology topology;
  struct tt_arrangement wire;
  struct tt_cluster cluster;
  struct tt_prices prices;
  struct tt_tuning tuning;
};

static void scene_make(struct scene *s, int32_t nnodes, int32_t each, const struct tt_profile *profile)
{
  uint64_t host[256];
  struct tt_locality locality[256];
  int32_t n = nnodes * each;
  memset(s, 0, sizeof *s);
  for (int32_t r = 0; r < n; r++) {
    host[r] = 1 + (uint64_t)(r / each);
    locality[r] = (struct tt_locality){0, 0};
  }
  assert_int_equal(tt_topology_make(&s->topology, n, host, locality), tuttiSuccess);
  assert_int_equal(tt_topology_arrange(&s->wire, &s->topology, 0), tuttiSuccess);
  s->cluster = (struct tt_cluster){.nranks = n, .cores = each, .topology = &s->topology};
  tuned_join(&s->cluster, TT_LINK_CACHE, each > 1 ? "shm" : NULL);
  tuned_join(&s->cluster, TT_LINK_NET, nnodes > 1 ? "tcp" : NULL);
  tt_prices_make(&s->prices, profile, &s->cluster);
  s->tuning = (struct tt_tuning){.nranks = n, .groups = &s->wire.groups, .order = s->wire.order, .cluster = &s->cluster,
                                 .prices = &s->prices};
}

static void scene_free(struct scene *s)
{
  tt_arrangement_destroy(&s->wire);
  tt_topology_destroy(&s->topology);
}

/* Only the choice itself and what is like it are candidates. */
static tuttiResult_t predict(struct tt_predicted *predicted, const struct tt_choice *choice,
                             const struct tt_tuning *tuning, uint64_t bytes)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  struct tt_settings settings = {.lanes = 4};
  struct tt_costs *costs = NULL;
  snprintf(settings.algo, sizeof settings.algo, "%s:%s", tt_kinds[algo->collective].name, algo->name);
  tuttiResult_t result = tt_costs_make(&costs, algo->collective, &settings, tuning, choice, 1);
  if (result == tuttiSuccess) result = tt_costs_split(costs, tt_costs_find(costs, choice), bytes, predicted);
  tt_costs_destroy(costs);
  return result;
}

static double us_of(const struct tt_choice *choice, const struct tt_tuning *tuning, uint64_t bytes)
{
  struct tt_predicted predicted;
  assert_int_equal(predict(&predicted, choice, tuning, bytes), tuttiSuccess);
  assert_true(predicted.us > 0 && predicted.us < 1e12);
  double sum = predicted.latency_us + predicted.bandwidth_us + predicted.reduction_us;
  assert_true(fabs(predicted.us - predicted.factor * sum) <= 1e-9 * predicted.us);
  assert_true(predicted.latency_us >= 0 && predicted.bandwidth_us >= 0 && predicted.reduction_us >= -1e-9);
  return predicted.us;
}

/* ---- prices ---------------------------------------------------------------------- */

static void the_nearest_flow_is_taken_whole(void **state)
{
  (void)state;
  struct tt_profile profile;
  struct scene s;
  profile_read(&profile, measured);
  scene_make(&s, 1, 2, &profile);
  const struct tt_curve *curve = &s.prices.links.link[TT_LINK_CACHE];
  assert_int_equal(curve->nparts, 2);
  assert_true(curve->part[0].up_to_bytes == 4096 && curve->part[1].up_to_bytes == UINT64_MAX);
  assert_true(curve->part[0].alpha_us == 0.5 && curve->part[1].beta_us_per_mib == 50 && curve->overhead_us == 0.25);
  assert_true(s.prices.links.gamma_us_per_mib == 40 && s.prices.gamma_origin.line == 10);
  assert_int_equal(s.prices.origin[TT_LINK_CACHE].line, 5);
  assert_false(s.prices.origin[TT_LINK_CACHE].is_nearest);
  scene_free(&s);
  scene_make(&s, 2, 6, &profile); /* 3 pairs of a node: 4 were measured, which is nearer than 1 */
  assert_int_equal(s.prices.origin[TT_LINK_CACHE].line, 7);
  assert_true(s.prices.origin[TT_LINK_CACHE].is_nearest);
  assert_int_equal(s.prices.origin[TT_LINK_NET].line, 8);
  assert_true(s.prices.links.link[TT_LINK_NET].part[0].beta_us_per_mib == 8000);
  scene_free(&s);
  tt_profile_destroy(&profile);
}

static void what_a_profile_lacks_is_built_in(void **state)
{
  (void)state;
  struct tt_profile profile;
  struct scene s, built_in;
  profile_read(&profile, HEAD LINK("cache", "tcp", "1", "2", "0", "inf", "7", "70", "1"));
  scene_make(&s, 2, 2, &profile); /* a loopback says nothing of a network, nor of memory */
  scene_make(&built_in, 2, 2, NULL);
  for (int kind = TT_LINK_CACHE; kind <= TT_LINK_NET; kind += TT_LINK_NET - TT_LINK_CACHE) {
    assert_ptr_equal(s.prices.origin[kind].profile, tt_profile_shipped());
    assert_memory_equal(&s.prices.links.link[kind], &built_in.prices.links.link[kind], sizeof(struct tt_curve));
  }
  assert_ptr_equal(s.prices.profile, &profile);
  scene_free(&s);
  scene_free(&built_in);
  tt_profile_destroy(&profile);
}

#define NET(interface, flows, ways, alpha)                                                                          \
  "link kind net transport tcp interface " interface " flows " flows " ways " ways " from 0 to inf alpha_us " alpha \
  " beta_us_per_mib 1 overhead_us 1 points 9 error_percent 1\n"

/* The price of a link between nodes over `interface`; *is_nearest as its origin says. */
static double net_alpha(const struct tt_profile *profile, const char *interface, int *is_nearest)
{
  struct scene s;
  struct tt_prices prices;
  scene_make(&s, 2, 1, NULL);
  s.cluster.interface = interface;
  tt_prices_make(&prices, profile, &s.cluster);
  *is_nearest = prices.origin[TT_LINK_NET].is_nearest;
  scene_free(&s);
  return prices.links.link[TT_LINK_NET].part[0].alpha_us;
}

static void combining_is_priced_by_type(void **state)
{
  (void)state;
  struct tt_profile profile;
  struct scene s;
  char text[256];
  profile_read(&profile, HEAD
               "reduce type float op sum sources 2 level L2 bytes 512K gamma_us_per_mib 40 error_percent 1\n"
               "reduce type half op sum sources 2 level L2 bytes 512K gamma_us_per_mib 60 error_percent 1\n");
  scene_make(&s, 1, 2, &profile);
  tt_prices_combine(&s.prices, tuttiFloat16);
  assert_true(s.prices.links.gamma_us_per_mib == 60 && s.prices.gamma_origin.line == 5);
  tt_origin_text(&s.prices.gamma_origin, text, sizeof text);
  assert_string_equal(text, "sum of two vectors of half: FILE line 5");
  tt_prices_combine(&s.prices, tuttiFloat8e4m3); /* nobody measured it: as half, here */
  assert_true(s.prices.links.gamma_us_per_mib == 60);
  tt_origin_text(&s.prices.gamma_origin, text, sizeof text);
  assert_string_equal(text, "sum of two vectors of half: FILE line 5 (the nearest that was measured)");
  tt_prices_combine(&s.prices, tuttiFloat64); /* it is built in */
  assert_ptr_equal(s.prices.gamma_origin.profile, tt_profile_shipped());
  assert_int_equal(s.prices.gamma_origin.type, tuttiFloat64);
  tt_prices_combine(&s.prices, tuttiFloat32);
  assert_true(s.prices.links.gamma_us_per_mib == 40);
  scene_free(&s);
  tt_profile_destroy(&profile);
}

static void what_is_not_built_in_cannot_be_corrected(void **state)
{
  (void)state;
  static const char *const transports[] = {"shm", "verbs", "tcp"};
  for (int kind = 0; kind < TT_LINK_KINDS; kind++)
    for (size_t t = 0; t < sizeof transports / sizeof *transports; t++) {
      struct tt_correction made = tt_correction_make((enum tt_link_kind)kind, transports[t], 1, 1 << 17, 100);
      assert_int_equal(tt_correction_possible((enum tt_link_kind)kind, transports[t]), tt_correction_known(made));
    }
  assert_true(tt_correction_possible(TT_LINK_NET, "tcp"));
  assert_false(tt_correction_possible(TT_LINK_NET, "verbs"));
}

static void the_interface_in_use_comes_first(void **state)
{
  (void)state;
  struct tt_profile profile;
  int is_nearest;
  profile_read(&profile, HEAD NET("eth0", "1", "2", "10") NET("eth1", "1", "1", "20") NET("eth1", "4", "2", "40")
               NET("ib0", "8", "2", "50"));
  assert_true(net_alpha(&profile, "eth0", &is_nearest) == 10 && !is_nearest);
  assert_true(net_alpha(&profile, "eth1", &is_nearest) == 40 && is_nearest); /* before its ways and another interface */
  assert_true(net_alpha(&profile, "ib0", &is_nearest) == 50 && is_nearest);
  assert_true(net_alpha(&profile, "wlan0", &is_nearest) == 10 && is_nearest);
  assert_true(net_alpha(&profile, "", &is_nearest) == 10 && !is_nearest); /* nobody knows: the nearest in the rest */
  assert_true(net_alpha(&profile, NULL, &is_nearest) == 10 && !is_nearest);
  net_alpha(NULL, "eth1", &is_nearest); /* what is built in holds for any */
  assert_false(is_nearest);
  tt_profile_destroy(&profile);
  profile_read(&profile, HEAD NET("\"\"", "1", "2", "10") NET("eth1", "1", "2", "20"));
  assert_true(net_alpha(&profile, "eth1", &is_nearest) == 20 && !is_nearest);
  assert_true(net_alpha(&profile, "eth0", &is_nearest) == 10 && !is_nearest);
  tt_profile_destroy(&profile);
}

static void an_origin_names_the_interface(void **state)
{
  (void)state;
  char text[256];
  struct tt_origin origin = {.flow = {TT_LINK_NET, "tcp", 1, 2, "eth1"}, .is_nearest = 1};
  tt_origin_text(&origin, text, sizeof text);
  assert_non_null(strstr(text, "net over tcp on eth1: "));
}

static void an_origin_says_file_and_line(void **state)
{
  (void)state;
  struct tt_profile profile;
  struct scene s;
  char text[256];
  profile_read(&profile, measured);
  scene_make(&s, 2, 6, &profile);
  tt_origin_text(&s.prices.origin[TT_LINK_NET], text, sizeof text);
  assert_non_null(strstr(text, "net over tcp, 1 pair at once: FILE line 8"));
  tt_origin_text(&s.prices.origin[TT_LINK_CACHE], text, sizeof text);
  assert_non_null(strstr(text, "FILE line 7 (4 pairs"));
  tt_origin_text(&s.prices.gamma_origin, text, sizeof text);
  assert_non_null(strstr(text, "FILE line 10"));
  scene_free(&s);
  scene_make(&s, 1, 2, NULL);
  tt_origin_text(&s.prices.origin[TT_LINK_CACHE], text, sizeof text);
  assert_non_null(strstr(text, "built in"));
  scene_free(&s);
  tt_profile_destroy(&profile);
}

/* One pair of the shipped profile, slower by `slower` and steeper by `steeper`. */
static struct tt_correction correct_by(double slower, double steeper)
{
  struct scene s;
  scene_make(&s, 1, 2, NULL);
  const struct tt_curve_part *part = s.prices.links.link[TT_LINK_CACHE].part;
  double alpha = slower * part->alpha_us, beta = steeper * part->beta_us_per_mib;
  scene_free(&s);
  return tt_correction_make(TT_LINK_CACHE, "shm", alpha, 1 << 20, alpha + beta);
}

static void a_correction_is_a_power_of_two_and_never_too_much(void **state)
{
  (void)state;
  for (int a = -TT_CORRECTION_MOST; a <= TT_CORRECTION_MOST; a++)
    for (int b = -TT_CORRECTION_MOST; b <= TT_CORRECTION_MOST; b++)
      for (double more = 1; more < 2; more += 0.3) {
        double slower = exp2(a) * (a < 0 ? 1 / more : more), steeper = exp2(b) * (b < 0 ? 1 / more : more);
        struct tt_correction correction = correct_by(slower, steeper);
        assert_int_equal(correction.alpha, a);
        assert_int_equal(correction.beta, b);
      }
  assert_int_equal(correct_by(0.51, 1.99).alpha, 0);
  assert_int_equal(correct_by(1.99, 0.51).beta, 0);
}

static void a_correction_multiplies_the_whole_curve_however_many_flows(void **state)
{
  (void)state;
  for (int32_t each = 2; each <= 8; each += 6) {
    struct scene s, shipped;
    char text[256];
    scene_make(&shipped, 1, each, NULL);
    scene_make(&s, 1, each, NULL);
    tt_prices_correct(&s.prices, TT_LINK_CACHE, (struct tt_correction){2, -1});
    const struct tt_curve *curve = &s.prices.links.link[TT_LINK_CACHE];
    const struct tt_curve *before = &shipped.prices.links.link[TT_LINK_CACHE];
    assert_true(curve->overhead_us == 4 * before->overhead_us);
    for (int32_t p = 0; p < curve->nparts; p++) {
      assert_true(curve->part[p].alpha_us == 4 * before->part[p].alpha_us);
      assert_true(curve->part[p].beta_us_per_mib == before->part[p].beta_us_per_mib / 2);
    }
    tt_origin_text(&s.prices.origin[TT_LINK_CACHE], text, sizeof text);
    assert_non_null(strstr(text, "built in; corrected by a pair in TUTTI_CACHE: latency x4, time per byte x0.5"));
    scene_free(&s);
    scene_free(&shipped);
  }
}

static void what_a_profile_measured_is_not_corrected(void **state)
{
  (void)state;
  struct tt_profile profile;
  struct scene s;
  profile_read(&profile, measured);
  scene_make(&s, 2, 6, &profile);
  struct tt_prices before = s.prices;
  tt_prices_correct(&s.prices, TT_LINK_CACHE, (struct tt_correction){3, 3});
  tt_prices_correct(&s.prices, TT_LINK_NODE, (struct tt_correction){3, 3}); /* of which there is no link */
  assert_memory_equal(&s.prices, &before, sizeof before);
  scene_free(&s);
  scene_make(&s, 1, 2, NULL);
  before = s.prices;
  tt_prices_correct(&s.prices, TT_LINK_CACHE, TT_CORRECTION_NONE);
  assert_memory_equal(&s.prices, &before, sizeof before);
  scene_free(&s);
  tt_profile_destroy(&profile);
}

/* Anchors say what sets algorithms apart at the shipped prices: a correction must not change their factors. */
static void a_correction_leaves_factors_alone(void **state)
{
  (void)state;
  struct scene s;
  struct tt_calibration *shipped, *corrected;
  const char *names[] = {"ring", "recursive_doubling", "binary_blocks"};
  struct tt_choice choices[3];
  int32_t lines[2];
  for (int c = 0; c < 3; c++)
    choices[c] = (struct tt_choice){.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, names[c]) - tt_algos), .middle = -1,
                                    .block_bytes = 131072};
  scene_make(&s, 1, 2, NULL);
  assert_int_equal(tt_calibration_make(&shipped, TT_ALL_REDUCE, choices, 3, &s.tuning), tuttiSuccess);
  tt_prices_correct(&s.prices, TT_LINK_CACHE, (struct tt_correction){3, -3});
  assert_int_equal(tt_calibration_make(&corrected, TT_ALL_REDUCE, choices, 3, &s.tuning), tuttiSuccess);
  for (int c = 0; c < 3; c++)
    for (uint64_t bytes = 8; bytes <= 1 << 23; bytes *= 8) {
      double factor = tt_calibration_ratio(shipped, &choices[c], bytes, lines);
      assert_true(lines[0] && factor != 1); /* there are anchors */
      assert_true(tt_calibration_ratio(corrected, &choices[c], bytes, lines) == factor);
    }
  tt_calibration_destroy(shipped);
  tt_calibration_destroy(corrected);
  scene_free(&s);
}

/* Nothing but load makes a link 128 times as slow, or as quick: of all that is 2^11 too slow, say, nothing counts. */
static void a_pair_beyond_any_link_is_no_correction(void **state)
{
  (void)state;
  const double beyond[] = {1.0 / 2048, 1.0 / 129, 129, 2048}, times[] = {0, 1e-300, 1e300};
  assert_true(tt_correction_known(correct_by(127, 127)) && tt_correction_known(correct_by(1.0 / 127, 1.0 / 127)));
  for (int k = 0; k < 4; k++) {
    assert_false(tt_correction_known(correct_by(beyond[k], 1)));
    assert_false(tt_correction_known(correct_by(1, beyond[k])));
  }
  for (int k = 0; k < 9; k++)
    assert_false(tt_correction_known(
        tt_correction_make(TT_LINK_CACHE, "shm", times[k / 3], 1 << 20, times[k % 3])));
  assert_false(tt_correction_known(tt_correction_make(TT_LINK_NET, "pigeons", 1, 1 << 20, 2)));
  assert_false(tt_correction_known(TT_CORRECTION_NONE));
}

/* ---- predictions ------------------------------------------------------------------ */

/* Of a ring 2 (P - 1) alpha, 2 (P - 1) / P M beta and (P - 1) / P M gamma. */
static void a_prediction_says_of_what_it_consists(void **state)
{
  (void)state;
  struct scene s;
  struct tt_predicted predicted;
  struct tt_choice ring = {.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, "ring") - tt_algos), .middle = -1,
                           .block_bytes = 1 << 20};
  struct tt_profile no_anchors = {.nlinks = 0};
  scene_make(&s, 1, 4, &no_anchors);
  for (int kind = 0; kind < TT_LINK_KINDS; kind++) s.prices.links.link[kind] = tt_curve_line(10, 100);
  s.prices.links.gamma_us_per_mib = 40;
  assert_int_equal(predict(&predicted, &ring, &s.tuning, 1 << 20), tuttiSuccess);
  assert_true(fabs(predicted.latency_us - 60) < 0.1 && fabs(predicted.bandwidth_us - 150) < 0.1);
  assert_true(fabs(predicted.reduction_us - 30) < 0.1 && fabs(predicted.us - 240) < 0.1);
  assert_true(predicted.is_played && predicted.factor == 1);
  scene_free(&s);
}

/* Calls check for each choice of each collective. */
static void choices_walk(const struct scene *s, void (*check)(const struct scene *s, const struct tt_choice *choice))
{
  struct tt_settings settings = {.lanes = 4};
  for (int collective = 0; collective < TT_COLLECTIVES; collective++) {
    struct tt_choice choices[TT_CHOICES];
    int n;
    if (!tt_kinds[collective].name) continue;
    assert_int_equal(tt_choices_find(choices, &n, collective, &settings, &s->tuning), tuttiSuccess);
    for (int c = 0; c < n; c++) check(s, &choices[c]);
  }
}

static void check_cheaper(const struct scene *s, const struct tt_choice *choice)
{
  for (uint64_t bytes = 8; bytes <= 8 << 20; bytes *= 64) {
    double dear = us_of(choice, &s->tuning, bytes);
    for (int what = 0; what < 3 * TT_LINK_KINDS; what++) {
      struct tt_prices prices = s->prices;
      struct tt_tuning tuning = s->tuning;
      struct tt_curve *curve = &prices.links.link[what / 3];
      for (int32_t p = 0; p < curve->nparts && what % 3 == 0; p++) curve->part[p].beta_us_per_mib /= 3;
      if (what % 3 == 1) curve->overhead_us /= 2;
      if (what % 3 == 2) prices.links.gamma_us_per_mib /= 2;
      tuning.prices = &prices;
      double cheap = us_of(choice, &tuning, bytes);
      if (cheap > dear * 1.02)
        fail_msg("%s %s of %d ranks, %llu bytes: %g us at less for %s than %g us at more",
                 tt_kinds[tt_algos[choice->algo].collective].name, tt_algos[choice->algo].name,
                 (int)s->tuning.nranks, (unsigned long long)bytes, cheap, tt_link_names[what / 3], dear);
    }
  }
}

/* But for the order in which messages come to a port, which may turn out well or badly. */
static void what_is_cheaper_takes_no_longer(void **state)
{
  (void)state;
  const int32_t sizes[][2] = {{1, 2}, {1, 5}, {2, 3}};
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    struct scene s;
    scene_make(&s, sizes[k][0], sizes[k][1], NULL);
    choices_walk(&s, check_cheaper);
    scene_free(&s);
  }
}

static void row_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  tt_algo_schedule(context, schedule, shape, 0);
}

static void check_segments(const struct scene *s, const struct tt_choice *choice)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const struct tt_kind *kind = &tt_kinds[algo->collective];
  struct tt_shape shape = tt_choice_shape_priced(choice, &s->tuning, 0);
  for (size_t segments = 2; segments <= 18; segments += 4) {
    struct tt_cost_curve curve;
    struct tt_sim_result got;
    size_t bytes = segments * (size_t)shape.nblocks * 4096;
    struct tt_sim_play play = {.shape = shape, .generate = row_generate, .context = (void *)(uintptr_t)algo,
                               .is_whole = 1, .count = bytes / 4, .element_bytes = 4, .block_bytes = 4096, .lanes = 4,
                               .prices = &s->prices.links, .topology = &s->topology,
                               .order = kind->is_shared ? NULL : s->wire.order};
    assert_int_equal(tt_simulate(&play, &got), tuttiSuccess);
    assert_int_equal(tt_cost_curve_make_at(&curve, choice, &s->tuning, 4096, &bytes, 1), tuttiSuccess);
    double ratio = tt_cost_curve_us(&curve, 4096, bytes) / got.time_us;
    if (!(ratio > 0.75 && ratio < 1.25))
      fail_msg("%s %s of %d ranks, %zu segments: %g of what a play of them takes", kind->name, algo->name,
               (int)s->tuning.nranks, segments, ratio);
  }
}

static void many_segments_follow_from_one(void **state)
{
  (void)state;
  const int32_t sizes[][2] = {{1, 2}, {1, 6}, {2, 3}};
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    struct scene s;
    scene_make(&s, sizes[k][0], sizes[k][1], NULL);
    choices_walk(&s, check_segments);
    scene_free(&s);
  }
}

static void equal_inputs_give_equal_tables(void **state)
{
  (void)state;
  struct tt_table tables[2];
  for (int k = 0; k < 2; k++) {
    struct tt_profile profile;
    struct tt_settings settings = {.lanes = 4};
    struct scene s;
    profile_read(&profile, measured);
    scene_make(&s, 2, 4, &profile);
    memset(&tables[k], 0xff * k, sizeof tables[k]);
    assert_int_equal(tt_table_make(&tables[k], &settings, &s.tuning), tuttiSuccess);
    scene_free(&s);
    tt_profile_destroy(&profile);
  }
  assert_memory_equal(&tables[0], &tables[1], sizeof tables[0]);
}

/* Or what takes as long: halving_doubling sends as much between nodes, where these have powers of two of ranks. */
static void across_a_slow_network_the_hierarchy_is_chosen(void **state)
{
  (void)state;
  struct tt_profile profile;
  struct tt_settings settings = {.lanes = 4};
  struct tt_table table;
  struct scene s;
  profile_read(&profile, measured);
  scene_make(&s, 2, 4, &profile);
  assert_int_equal(tt_table_make(&table, &settings, &s.tuning), tuttiSuccess);
  for (uint64_t bytes = 64 << 10; bytes <= 64 << 20; bytes *= 4) {
    const struct tt_choice *choice = tt_table_choice(&table, TT_ALL_REDUCE, bytes);
    struct tt_choice ring = {.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, "ring") - tt_algos), .middle = -1,
                             .block_bytes = choice->block_bytes};
    assert_true(us_of(choice, &s.tuning, bytes) <= us_of(&ring, &s.tuning, bytes));
    struct tt_choice shards = ring;
    shards.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, "hierarchical_shards") - tt_algos);
    double least_us = us_of(&shards, &s.tuning, bytes) / 1.01;
    if (!tt_algos[choice->algo].has_middle && us_of(choice, &s.tuning, bytes) < least_us)
      fail_msg("%s at %llu bytes", tt_algos[choice->algo].name, (unsigned long long)bytes);
  }
  scene_free(&s);
  tt_profile_destroy(&profile);
}

static void every_failed_allocation_is_an_error(void **state)
{
  (void)state;
  struct scene s;
  struct tt_predicted predicted;
  struct tt_choice choice = {.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, "ring") - tt_algos), .middle = -1,
                             .block_bytes = 4096};
  for (int32_t nranks = 4; nranks <= 64; nranks *= 16) { /* played, and not */
    tuttiResult_t code = tuttiSystemError;
    scene_make(&s, 1, nranks, NULL);
    for (long n = 1; code != tuttiSuccess; n++) {
      tt_alloc_fail_at(n);
      code = predict(&predicted, &choice, &s.tuning, 100);
      tt_alloc_fail_at(0);
      assert_true(code == tuttiSuccess || code == tuttiSystemError);
    }
    assert_int_equal(predicted.is_played, nranks == 4);
    scene_free(&s);
  }
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_nearest_flow_is_taken_whole),
      cmocka_unit_test(what_a_profile_lacks_is_built_in),
      cmocka_unit_test(combining_is_priced_by_type),
      cmocka_unit_test(what_is_not_built_in_cannot_be_corrected),
      cmocka_unit_test(the_interface_in_use_comes_first),
      cmocka_unit_test(an_origin_names_the_interface),
      cmocka_unit_test(an_origin_says_file_and_line),
      cmocka_unit_test(a_correction_is_a_power_of_two_and_never_too_much),
      cmocka_unit_test(a_correction_multiplies_the_whole_curve_however_many_flows),
      cmocka_unit_test(what_a_profile_measured_is_not_corrected),
      cmocka_unit_test(a_correction_leaves_factors_alone),
      cmocka_unit_test(a_pair_beyond_any_link_is_no_correction),
      cmocka_unit_test(a_prediction_says_of_what_it_consists),
      cmocka_unit_test(what_is_cheaper_takes_no_longer),
      cmocka_unit_test(many_segments_follow_from_one),
      cmocka_unit_test(equal_inputs_give_equal_tables),
      cmocka_unit_test(across_a_slow_network_the_hierarchy_is_chosen),
      cmocka_unit_test(every_failed_allocation_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
