/* SPDX-License-Identifier: BSD-3-Clause */
/* Every all-reduce of the table, proved for many numbers of ranks and blocks, and its
 * claims compared with what its schedules cost. Under a sanitizer, which is slow, a
 * seeded sample is left; with --long everything is proved everywhere, and more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SLOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SLOW 1
#endif
#ifndef IS_SLOW
#define IS_SLOW 0
#endif

/* What main found on the command line; handed to the tests by cmocka. */
struct extent {
  int everything, more;
};

struct tally {
  long proofs, schedules;
};

static void generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  ((const struct tt_algo *)context)->generate(schedule, shape);
}

static void prove(const struct tt_algo *algo, struct tt_shape shape, struct tally *tally)
{
  char complaint[512];
  if (tt_verify_all_reduce(&shape, generate, (void *)(uintptr_t)algo, complaint, sizeof complaint))
    fail_msg("%s, %d ranks, %d blocks: %s", algo->name, (int)shape.nranks, (int)shape.nblocks, complaint);
  tally->proofs++;
}

static void compare_costs(const struct tt_algo *algo, struct tt_shape shape, struct tally *tally)
{
  for (shape.rank = 0; shape.rank < shape.nranks; shape.rank++) {
    struct tt_cost is, said;
    struct tt_schedule schedule;
    tt_schedule_init(&schedule, &shape);
    algo->generate(&schedule, &shape);
    tt_schedule_cost(&schedule, &is);
    tt_schedule_destroy(&schedule);
    algo->claim(&shape, &said);
    if (is.messages != said.messages || is.blocks != said.blocks || is.reductions != said.reductions ||
        is.slots != said.slots)
      fail_msg("%s, %d ranks, %d blocks, rank %d: claims %lld messages %lld blocks %lld reductions %lld slots, "
               "has %lld, %lld, %lld, %lld", algo->name, (int)shape.nranks, (int)shape.nblocks, (int)shape.rank,
               (long long)said.messages, (long long)said.blocks, (long long)said.reductions, (long long)said.slots,
               (long long)is.messages, (long long)is.blocks, (long long)is.reductions, (long long)is.slots);
    tally->schedules++;
  }
}

/* The natural number of blocks and awkward ones: fewer and more than ranks, one off,
 * prime. Index 0 is the natural one; 0: no more. */
static int32_t blocks_of(const struct tt_algo *algo, int32_t nranks, int index)
{
  struct tt_shape shape = {.nranks = nranks, .root = -1};
  switch (index) {
  case 0: return algo->blocks(&shape);
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

/* Which cases are left where everything is too slow: the natural block counts of some
 * numbers of ranks, and every seventh of the rest, by a seeded draw. */
static int is_in_sample(int32_t nranks, int index, uint64_t *seed)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  if (index == 0) return nranks <= 40 || nranks >= 130;
  return nranks <= 130 && (*seed >> 33) % 7 == 0;
}

static void prove_ranks(int32_t nranks, const struct extent *extent, uint64_t *seed, struct tally *tally)
{
  for (int a = 0; a < tt_algo_count; a++) {
    const struct tt_algo *algo = &tt_algos[a];
    struct tt_shape shape = {.nranks = nranks, .root = -1};
    if (algo->collective != TT_ALL_REDUCE) continue;
    for (int index = 0; (shape.nblocks = blocks_of(algo, nranks, index)) != 0; index++) {
      if (nranks > 130 && index > 3 && !extent->more) continue;
      if (!is_in_sample(nranks, index, seed) && !extent->everything) continue;
      if (algo->illegal && algo->illegal(&shape)) continue;
      prove(algo, shape, tally);
      compare_costs(algo, shape, tally);
    }
  }
}

static void every_algorithm_is_an_all_reduce_at_the_claimed_cost(void **state)
{
  const struct extent *extent = *state;
  struct tally tally = {0, 0};
  uint64_t seed = 130;
  for (int32_t nranks = 1; nranks <= 130; nranks++) prove_ranks(nranks, extent, &seed, &tally);
  prove_ranks(600, extent, &seed, &tally);
  prove_ranks(1024, extent, &seed, &tally);
  for (int32_t nranks = 131; extent->more && nranks < 1100; nranks += 61) prove_ranks(nranks, extent, &seed, &tally);
  print_message("%ld proofs, %ld schedules compared with their claims\n", tally.proofs, tally.schedules);
  assert_true(tally.proofs >= tt_algo_count * (extent->everything ? 1000 : 100));
}

int main(int argc, char **argv)
{
  struct extent extent = {.everything = !IS_SLOW};
  if (argc > 1 && strcmp(argv[1], "--long") == 0) extent = (struct extent){1, 1};
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_prestate(every_algorithm_is_an_all_reduce_at_the_claimed_cost, &extent),
  };
  alarm(extent.more ? 3600 : 600);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
