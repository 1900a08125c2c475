/* SPDX-License-Identifier: BSD-3-Clause */
/* Every row of the table proved, for many numbers of ranks, roots, radices, topologies, middle steps, numbers of blocks
 * and passes, and its claims compared with what its schedules cost: exactly without passes; a pass never makes it more.
 *
 *   test_proof_collectives [--long] [--row COLLECTIVE/NAME] [--ranks N]
 *
 * A seeded sample; less of it under a sanitizer, which is slow. With --long all of it, but for more than 12 ranks not
 * all combinations of all those.
 * Labels: slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "schedule/proof_private.h"
#include "slow.h"

enum { SMALL = 12, MEDIUM = 130, RANKS_MAX = 1024 };

/* What main found on the command line. */
struct extent {
  int everything;
  const char *row;
  int32_t nranks;
};

/* ---- what may be chosen -------------------------------------------------------------- */

struct passes {
  const char *name;
  uint8_t merges, fuses, orders;
  int32_t nchannels;
};

static const struct passes all_passes[] = {
    {"none", 0, 0, 0, 1},
    {"merge", 1, 0, 0, 1},
    {"fuse", 0, 1, 0, 1},
    {"merge and fuse", 1, 1, 0, 1},
    {"merge, fuse and 2 channels", 1, 1, 0, 2},
    {"merge, fuse and 3 channels", 1, 1, 0, 3},
    {"4 channels", 0, 0, 0, 4},
    {"order", 0, 0, 1, 1},
    {"order, merge and fuse", 1, 1, 1, 1},
};

enum { PASSES = sizeof all_passes / sizeof all_passes[0], GROUPINGS = 5 };

/* One thing to prove, as indices into what there is of each; all 0 is the plain case. */
enum aspect { ROOT, RADIX, MIDDLE, GROUPING, BLOCKS, PASS, ASPECTS };

struct options {
  int32_t n[ASPECTS];
};

struct tally {
  long proofs, refused, big; /* big: of more than 512 ranks */
  long long steps;
  int is_long;
};

static uint32_t random_next(uint64_t *seed)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*seed >> 33);
}

static int32_t roots_of(const struct tt_algo *algo, int32_t nranks)
{
  if (!tt_kinds[algo->collective].has_root) return 1;
  return nranks <= SMALL ? nranks : 3;
}

static int32_t root_of(const struct tt_algo *algo, int32_t nranks, int32_t index)
{
  if (!tt_kinds[algo->collective].has_root) return -1;
  if (nranks <= SMALL) return index;
  return index == 0 ? 0 : index == 1 ? nranks - 1 : nranks / 2;
}

static int32_t radix_of(int32_t nranks, int32_t index)
{
  static const int32_t radices[] = {0, 2, 3, 4, 8};
  return index < 5 ? radices[index] : nranks;
}

/* Middle steps: the default, then every all-reduce that has none itself. -2: no such row. */
static int32_t middle_of(int32_t index)
{
  if (index == 0) return -1;
  for (int32_t row = 0; row < tt_algo_count; row++)
    if (tt_algos[row].collective == TT_ALL_REDUCE && !tt_algos[row].has_middle && --index == 0) return row;
  return -2;
}

/* The natural number of blocks and awkward ones: fewer and more than ranks, one off, prime. 0: no more. */
static int32_t blocks_of(int32_t natural, int32_t nranks, int32_t index)
{
  switch (index) {
  case 0: return natural;
  case 1: return 1;
  case 2: return 2;
  case 3: return nranks > 1 ? nranks - 1 : 3;
  case 4: return nranks;
  case 5: return nranks + 1;
  case 6: return 2 * nranks + 3;
  case 7: return 97;
  default: return 0;
  }
}

static struct options options_of(const struct tt_algo *algo, int32_t nranks)
{
  struct options options = {{1, 1, 1, 1, 1, PASSES}};
  options.n[ROOT] = roots_of(algo, nranks);
  if (tt_kinds[algo->collective].is_shared) options.n[PASS] -= 2; /* these renumber */
  if (algo->has_radix) options.n[RADIX] = 6;
  if (algo->has_middle) options.n[GROUPING] = GROUPINGS;
  while (algo->has_middle && middle_of(options.n[MIDDLE]) != -2) options.n[MIDDLE]++;
  while (nranks <= MEDIUM && blocks_of(1, nranks, options.n[BLOCKS])) options.n[BLOCKS]++;
  return options;
}

/* ---- topologies ---------------------------------------------------------------------- */

struct topology {
  struct tt_groups groups;
  int32_t storage[2][RANKS_MAX];
};

/* Numbers the groups of a level by first appearance. */
static void number(int32_t *group, int32_t nranks)
{
  int32_t known[RANKS_MAX], n = 0;
  for (int32_t rank = 0; rank < nranks; rank++) {
    int32_t g = 0;
    while (g < n && known[g] != group[rank]) g++;
    if (g == n) known[n++] = group[rank];
    group[rank] = g;
  }
}

/* 1: of 7 and 5 ranks in turn; 2: of 8; 3: of 3 and 2 in turn, three of which make a larger one; 4: at random, not
 * neighbours, nested. */
static void topology_make(struct topology *t, int32_t nranks, int32_t index, uint64_t seed)
{
  int32_t outer[RANKS_MAX];
  for (int32_t group = 0; group < nranks; group++) outer[group] = (int32_t)(random_next(&seed) % 3);
  for (int32_t rank = 0; rank < nranks; rank++) {
    int32_t dozen = rank / 12 * 2 + (rank % 12 >= 7), five = rank / 5 * 2 + (rank % 5 >= 3);
    int32_t at_random = (int32_t)(random_next(&seed) % (uint32_t)(1 + nranks / 4));
    t->storage[0][rank] = index == 1 ? dozen : index == 2 ? rank / 8 : index == 3 ? five : at_random;
    t->storage[1][rank] = index == 3 ? t->storage[0][rank] / 3 : outer[t->storage[0][rank]];
  }
  number(t->storage[0], nranks);
  number(t->storage[1], nranks);
  t->groups = (struct tt_groups){.nlevels = index < 3 ? 1 : 2, .group = {t->storage[0], t->storage[1]}};
}

/* ---- one proof ----------------------------------------------------------------------- */

struct trial {
  const struct tt_algo *algo;
  struct tt_shape shape; /* as the algorithm sees it */
  struct passes passes;
  int32_t order[RANKS_MAX], inverse[RANKS_MAX]; /* of the ranks, if the passes order */
  int is_refused;
  int32_t wrong; /* the first rank that does not keep the claim; -1: none */
  struct tt_cost is, said; /* its */
  int64_t rounds; /* claimed; -1: not known yet */
  int32_t claim_each; /* every n-th rank's claim is compared */
};

static int is_plain(const struct passes *passes)
{
  return !passes->merges && !passes->fuses && !passes->orders && passes->nchannels == 1;
}

/* Channels make that many messages of each; other passes change none. */
static int keeps_claim(const struct tt_cost *is, const struct tt_cost *said, const struct passes *passes)
{
  int64_t n = passes->nchannels;
  if (is_plain(passes))
    return is->messages == said->messages && is->blocks == said->blocks && is->reductions == said->reductions &&
           is->slots == said->slots;
  return is->messages <= n * said->messages && is->blocks <= n * said->blocks &&
         is->reductions == n * said->reductions && is->slots <= n * said->slots;
}

static void compare_costs(struct trial *trial, const struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_cost is, said;
  if (trial->wrong >= 0 || shape->rank % trial->claim_each) return;
  tt_schedule_cost(schedule, &is);
  trial->algo->claim(shape, &said);
  if (trial->rounds < 0) trial->rounds = said.rounds;
  int is_same = said.rounds == trial->rounds; /* of all ranks together, so all must say the same */
  if (is_same && keeps_claim(&is, &said, &trial->passes)) return;
  trial->wrong = shape->rank;
  trial->is = is;
  trial->said = said;
}

static void generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  struct trial *trial = context;
  const struct passes *passes = &trial->passes;
  struct tt_shape plain = trial->shape;
  plain.rank = passes->orders ? trial->inverse[shape->rank] : shape->rank;
  tt_schedule_init(schedule, &plain);
  if (passes->fuses) tt_algo_schedule(trial->algo, schedule, &plain, !passes->merges); /* as communicators do */
  else trial->algo->generate(schedule, &plain);
  if (passes->merges && !passes->fuses) tt_pass_merge(schedule);
  int was_right = schedule->error == tuttiSuccess;
  if (passes->nchannels > 1) tt_pass_channels(schedule, passes->nchannels);
  if (was_right && schedule->error == tuttiInternalError) trial->is_refused = 1;
  if (passes->orders) tt_pass_order(schedule, trial->order);
  if (!schedule->error) compare_costs(trial, schedule, &plain);
}

static void fail_trial(const struct trial *trial, const char *why)
{
  const struct tt_shape *shape = &trial->shape;
  fail_msg("%s %s, %d ranks, %d blocks, root %d, radix %d, middle %d, %d levels of groups, passes %s: %s",
           tt_kinds[trial->algo->collective].name, trial->algo->name, (int)shape->nranks, (int)shape->nblocks,
           (int)shape->root, (int)shape->radix, (int)shape->middle, shape->groups ? (int)shape->groups->nlevels : 0,
           trial->passes.name, why);
}

/* Which pass refuses what: spans of scratch that are put together or taken apart cannot be cut, and only such
 * collectives do that. */
static int may_refuse(const struct trial *trial)
{
  return trial->is_refused && tt_kinds[trial->algo->collective].is_shared;
}

static uint64_t trial_prove(struct trial *trial, struct tally *tally)
{
  char why[512];
  struct tt_proof proof = {.order = trial->passes.orders ? trial->order : NULL};
  struct tt_shape shape = trial->shape;
  shape.nblocks *= trial->passes.nchannels;
  if (trial->passes.orders && shape.root >= 0) shape.root = trial->order[shape.root];
  trial->is_refused = 0;
  trial->rounds = trial->wrong = -1;
  tuttiResult_t code = tt_verify(&shape, generate, trial, &proof);
  if (code && may_refuse(trial)) {
    tally->refused++;
    return 0;
  }
  if (code) fail_trial(trial, proof.complaint);
  if (trial->wrong >= 0) {
    const struct tt_cost *is = &trial->is, *said = &trial->said;
    snprintf(why, sizeof why,
             "rank %d claims %lld messages %lld blocks %lld reductions %lld slots (%lld rounds), has %lld, %lld, %lld, "
             "%lld", (int)trial->wrong, (long long)said->messages, (long long)said->blocks,
             (long long)said->reductions, (long long)said->slots, (long long)said->rounds, (long long)is->messages,
             (long long)is->blocks, (long long)is->reductions, (long long)is->slots);
    fail_trial(trial, why);
  }
  if (proof.rounds > trial->rounds || (is_plain(&trial->passes) && proof.rounds != trial->rounds)) {
    snprintf(why, sizeof why, "%lld rounds, claims %lld", (long long)proof.rounds, (long long)trial->rounds);
    fail_trial(trial, why);
  }
  tally->proofs++;
  tally->big += shape.nranks > 512;
  tally->steps += proof.steps;
  return proof.tree;
}

/* Fusing and channels do not change by which tree elements are combined. */
static void compare_trees(struct trial *trial, uint64_t tree, struct tally *tally)
{
  struct passes passes = trial->passes;
  if (!tt_kinds[trial->algo->collective].reduces || (!passes.fuses && passes.nchannels == 1)) return;
  trial->passes.fuses = 0;
  trial->passes.nchannels = 1;
  trial->passes.name = passes.merges ? "merge" : passes.orders ? "order" : "none";
  uint64_t plain = trial_prove(trial, tally);
  trial->passes = passes;
  if (plain != tree) fail_trial(trial, "another tree than without");
}

/* The same schedules serve shares of any lengths, which the proof knows nothing of. */
static void prove_uneven(struct trial *trial, uint64_t tree)
{
  int collective = trial->algo->collective;
  struct tt_proof proof = {.is_uneven = 1};
  if (collective != TT_ALL_GATHER && collective != TT_REDUCE_SCATTER) return;
  if (trial->shape.nblocks != 1 || trial->passes.nchannels != 1) return;
  if (tt_verify(&trial->shape, generate, trial, &proof)) fail_trial(trial, proof.complaint);
  if (proof.tree != tree) fail_trial(trial, "another tree with unequal shares");
}

static void order_draw(struct trial *trial, uint64_t seed)
{
  int32_t n = trial->shape.nranks;
  for (int32_t p = 0; p < n; p++) trial->order[p] = p;
  for (int32_t p = n - 1; p > 0; p--) {
    int32_t other = (int32_t)(random_next(&seed) % (uint32_t)(p + 1)), at = trial->order[p];
    trial->order[p] = trial->order[other];
    trial->order[other] = at;
  }
  for (int32_t p = 0; p < n; p++) trial->inverse[trial->order[p]] = p;
}

static void prove(const struct tt_algo *algo, int32_t nranks, const int32_t *at, struct tally *tally)
{
  static struct trial trial;
  static struct topology topology;
  trial.algo = algo;
  trial.claim_each = 1;
  if (algo->has_middle && (!tally->is_long || nranks > MEDIUM)) trial.claim_each += nranks / 16; /* these take long */
  trial.passes = all_passes[at[PASS]];
  trial.shape = (struct tt_shape){.nranks = nranks,
                                  .root = root_of(algo, nranks, at[ROOT]),
                                  .radix = radix_of(nranks, at[RADIX]),
                                  .middle = middle_of(at[MIDDLE])};
  topology_make(&topology, nranks, at[GROUPING], (uint64_t)nranks);
  if (at[GROUPING]) trial.shape.groups = &topology.groups;
  tt_algo_shape(algo, &trial.shape);
  trial.shape.nblocks = blocks_of(trial.shape.nblocks, nranks, at[BLOCKS]);
  if (algo->illegal && algo->illegal(&trial.shape)) return;
  if (trial.passes.orders) order_draw(&trial, (uint64_t)nranks + 7);
  uint64_t tree = trial_prove(&trial, tally);
  if (!trial.is_refused) compare_trees(&trial, tree, tally);
  prove_uneven(&trial, tree);
}

/* ---- which of them ------------------------------------------------------------------- */

/* Steps of all ranks, about. */
static long long steps_of(const struct tt_algo *algo, int32_t nranks)
{
  struct tt_shape shape = {.nranks = nranks, .root = root_of(algo, nranks, 0), .middle = -1};
  struct tt_schedule schedule;
  tt_algo_shape(algo, &shape);
  shape.rank = nranks - 1;
  tt_schedule_init(&schedule, &shape);
  algo->generate(&schedule, &shape);
  long long steps = (long long)(schedule.nsteps + schedule.noperands) * nranks;
  tt_schedule_destroy(&schedule);
  return steps;
}

/* Few ranks: every combination. Else all that differ in one aspect from the plain case, and some of the others. */
static int is_in_long(int32_t nranks, const int32_t *at, uint64_t *seed)
{
  int differs = 0;
  for (int aspect = 0; aspect < ASPECTS; aspect++) differs += at[aspect] != 0;
  if (nranks <= SMALL || differs <= 1) return 1;
  return random_next(seed) % (nranks > MEDIUM ? 64u : differs == 2 ? 8u : 64u) == 0;
}

static void prove_everything(const struct tt_algo *algo, int32_t nranks, struct tally *tally)
{
  struct options options = options_of(algo, nranks);
  uint64_t seed = (uint64_t)nranks;
  int32_t at[ASPECTS] = {0};
  for (;;) {
    if (is_in_long(nranks, at, &seed)) prove(algo, nranks, at, tally);
    int aspect = 0;
    while (aspect < ASPECTS && ++at[aspect] == options.n[aspect]) at[aspect++] = 0;
    if (aspect == ASPECTS) return;
  }
}

/* The plain case, and a few drawn ones. */
static void prove_sample(const struct tt_algo *algo, int32_t nranks, int32_t draws, struct tally *tally)
{
  struct options options = options_of(algo, nranks);
  uint64_t seed = (uint64_t)nranks * 64 + (uint64_t)(algo - tt_algos);
  int32_t at[ASPECTS] = {0};
  prove(algo, nranks, at, tally);
  for (int32_t draw = 0; draw < draws; draw++) {
    for (int aspect = 0; aspect < ASPECTS; aspect++)
      at[aspect] = (int32_t)(random_next(&seed) % (uint32_t)options.n[aspect]);
    prove(algo, nranks, at, tally);
  }
}

static void prove_row(const struct tt_algo *algo, const struct extent *extent, struct tally *tally)
{
  static const int32_t many[] = {600, 1000, 1023, 1024};
  int32_t most = extent->everything ? MEDIUM : 20;
  for (int32_t nranks = 1; nranks <= MEDIUM; nranks++) {
    if (extent->nranks && extent->nranks != nranks) continue;
    if (extent->everything)
      prove_everything(algo, nranks, tally);
    else if (nranks <= most || nranks % 64 == 0 || nranks == 48 || nranks == 112)
      prove_sample(algo, nranks, nranks <= SMALL ? 3 : 1, tally);
  }
  for (int k = 0; k < 4; k++) {
    if (extent->nranks && extent->nranks != many[k]) continue;
    int is_turn = k == 0 || k == 1 + (int)(algo - tt_algos) % 3; /* 600, and one of the others */
    if (!extent->everything && !extent->nranks && !is_turn) continue;
    int is_long = steps_of(algo, many[k]) > 200000;
    if (extent->everything)
      prove_everything(algo, many[k], tally);
    else if (!is_long || (!IS_SLOW && k == 0))
      prove_sample(algo, many[k], is_long || IS_SLOW ? 0 : 1, tally);
  }
}

static int is_row(const struct tt_algo *algo, const char *name)
{
  char full[128];
  snprintf(full, sizeof full, "%s/%s", tt_kinds[algo->collective].name, algo->name);
  return !name || strcmp(name, full) == 0;
}

static void every_row_is_its_collective_at_the_claimed_cost(void **state)
{
  const struct extent *extent = *state;
  struct tally all = {0};
  for (int row = 0; row < tt_algo_count; row++) {
    const struct tt_algo *algo = &tt_algos[row];
    struct tally tally = {.is_long = extent->everything};
    if (!is_row(algo, extent->row)) continue;
    prove_row(algo, extent, &tally);
    print_message("%7ld proofs of %s %s, %ld of more than 512 ranks, %lld steps; not to be cut: %ld\n", tally.proofs,
                  tt_kinds[algo->collective].name, algo->name, tally.big, tally.steps, tally.refused);
    fflush(stdout);
    if (!extent->nranks) assert_true(tally.proofs >= 60 && (tally.big || IS_SLOW));
    all.proofs += tally.proofs;
    all.steps += tally.steps;
  }
  print_message("%7ld proofs of %lld steps\n", all.proofs, all.steps);
  assert_true(all.proofs > 0);
}

int main(int argc, char **argv)
{
  struct extent extent = {0};
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "--long") == 0) extent.everything = 1;
    if (strcmp(argv[k], "--row") == 0 && k + 1 < argc) extent.row = argv[++k];
    if (strcmp(argv[k], "--ranks") == 0 && k + 1 < argc) extent.nranks = atoi(argv[++k]);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(every_row_is_its_collective_at_the_claimed_cost, &extent),
  };
  alarm(extent.everything ? 6 * 3600 : 600);
  setenv("TUTTI_DEBUG", "NONE", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
