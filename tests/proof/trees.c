/* SPDX-License-Identifier: BSD-3-Clause */
/* The trees by which elements are combined: bits that do not depend on size or place need one for all. That of
 * all-reduce is compared with a schedule written here from the definition alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "schedule/proof_private.h"

struct subject {
  const struct tt_algo *algo;
  void (*pass)(struct tt_schedule *schedule); /* NULL: none */
};

static void generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  const struct subject *subject = context;
  subject->algo->generate(schedule, shape);
  if (subject->pass) subject->pass(schedule);
}

/* Rank 0: the butterfly of ranks first .. first + size - 1, whose vectors lie in slots first ..; made in slot first. */
static void butterfly(struct tt_schedule *schedule, int32_t first, int32_t size)
{
  if (size == 1) return;
  butterfly(schedule, first, size / 2);
  butterfly(schedule, first + size / 2, size / 2);
  tt_reduce2(schedule, (struct tt_blocks){0, 1}, tt_scratch(first), tt_scratch(first + size / 2), tt_scratch(first));
}

/* Rank 0: T0 + (T1 + (T2 + ...)) of the ranks from `first` on, made in slot first. */
static void binary_blocks(struct tt_schedule *schedule, int32_t first)
{
  int32_t size = 1, left = schedule->shape.nranks - first;
  while (size * 2 <= left) size *= 2;
  butterfly(schedule, first, size);
  if (size == left) return;
  binary_blocks(schedule, first + size);
  tt_reduce2(schedule, (struct tt_blocks){0, 1}, tt_scratch(first), tt_scratch(first + size), tt_scratch(first));
}

/* The definition: rank 0 gets all vectors, combines them as the head of binary_blocks.c says, and gives the result. */
static void by_definition(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  struct tt_blocks all = {0, 1};
  (void)context;
  if (shape->rank) {
    tt_send(schedule, all, tt_in(0), 0);
    tt_recv(schedule, all, 0, tt_out(0));
    return;
  }
  tt_copy(schedule, all, tt_in(0), tt_scratch(0));
  for (int32_t rank = 1; rank < shape->nranks; rank++) tt_recv(schedule, all, rank, tt_scratch(rank));
  binary_blocks(schedule, 0);
  tt_copy(schedule, all, tt_scratch(0), tt_out(0));
  for (int32_t rank = 1; rank < shape->nranks; rank++) tt_send(schedule, all, tt_scratch(0), rank);
}

static uint64_t tree_by_definition(int32_t nranks)
{
  struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = nranks, .nblocks = 1, .root = -1, .middle = -1};
  struct tt_proof proof = {0};
  if (tt_verify(&shape, by_definition, NULL, &proof)) fail_msg("%d ranks: %s", (int)nranks, proof.complaint);
  assert_true(proof.tree != 0);
  return proof.tree;
}

static uint64_t tree_after(struct subject subject, struct tt_shape shape)
{
  struct tt_proof proof = {0};
  if (tt_verify(&shape, generate, &subject, &proof))
    fail_msg("%s, %d ranks, %d blocks: %s", subject.algo->name, (int)shape.nranks, (int)shape.nblocks,
             proof.complaint);
  return proof.tree;
}

static uint64_t tree_of(const struct tt_algo *algo, struct tt_shape shape)
{
  return tree_after((struct subject){algo, NULL}, shape);
}

static struct tt_shape shape_of(const struct tt_algo *algo, int32_t nranks)
{
  struct tt_shape shape = {.nranks = nranks, .root = -1, .middle = -1};
  tt_algo_shape(algo, &shape);
  if (tt_kinds[shape.collective].has_root) shape.root = nranks / 2;
  return shape;
}

/* The row combines every element by that tree: in its own blocks, in one, and in an awkward number of them.
 * wanted 0: any that is the same for all. Returns it. */
static uint64_t expect_tree(const struct tt_algo *algo, int32_t nranks, uint64_t wanted)
{
  struct tt_shape shape = shape_of(algo, nranks);
  const int32_t nblocks[] = {shape.nblocks, 1, 7, nranks + 1};
  for (size_t k = 0; k < sizeof nblocks / sizeof nblocks[0]; k++) {
    shape.nblocks = nblocks[k];
    uint64_t tree = tree_of(algo, shape);
    if (!wanted) wanted = tree;
    if (tree == 0 || tree != wanted)
      fail_msg("%s, %d ranks, %d blocks: another tree", algo->name, (int)nranks, (int)shape.nblocks);
    if (nranks > 130) break;
  }
  return wanted;
}

static int is_in_family(const struct tt_algo *algo)
{
  return algo->has_one_tree && algo->collective == TT_ALL_REDUCE;
}

static void all_reduces_with_one_tree_have_that_of_binary_blocks(void **state)
{
  static const int32_t larger[] = {600, 1000, 1023};
  int rows = 0;
  (void)state;
  for (int a = 0; a < tt_algo_count; a++) rows += is_in_family(&tt_algos[a]);
  assert_true(rows >= 2);
  for (int32_t n = 1; n <= 133; n++) {
    int32_t nranks = n <= 130 ? n : larger[n - 131];
    uint64_t wanted = tree_by_definition(nranks);
    for (int a = 0; a < tt_algo_count; a++)
      if (is_in_family(&tt_algos[a])) expect_tree(&tt_algos[a], nranks, wanted);
  }
}

static void all_rows_of_a_collective_that_claim_one_tree_have_the_same(void **state)
{
  (void)state;
  for (int32_t nranks = 1; nranks <= 40; nranks++) {
    uint64_t tree[TT_COLLECTIVES] = {0};
    for (int a = 0; a < tt_algo_count; a++) {
      uint64_t *wanted = &tree[tt_algos[a].collective];
      if (tt_algos[a].has_one_tree) *wanted = expect_tree(&tt_algos[a], nranks, *wanted);
    }
  }
}

static void for_powers_of_two_doubling_and_halving_have_that_tree_too(void **state)
{
  (void)state;
  for (int32_t nranks = 1; nranks <= 1024; nranks *= 2) {
    uint64_t wanted = tree_by_definition(nranks);
    expect_tree(tt_algo_find(TT_ALL_REDUCE, "recursive_doubling"), nranks, wanted);
    expect_tree(tt_algo_find(TT_ALL_REDUCE, "halving_doubling"), nranks, wanted);
  }
}

/* Fused steps combine as before. Merged ones do not, but alike on all ranks, though some hand values on. */
static void passes_keep_the_bits_the_same_on_all_ranks(void **state)
{
  (void)state;
  for (int32_t nranks = 1; nranks <= 130; nranks++) {
    uint64_t wanted = tree_by_definition(nranks);
    for (int a = 0; a < tt_algo_count; a++) {
      struct tt_shape shape = shape_of(&tt_algos[a], nranks);
      if (!is_in_family(&tt_algos[a])) continue;
      assert_true(tree_after((struct subject){&tt_algos[a], tt_pass_fuse}, shape) == wanted);
      tree_after((struct subject){&tt_algos[a], tt_pass_merge}, shape);
    }
  }
}

/* So the hash tells trees apart: these rows do not belong to the family, and that is known. */
static void others_have_other_trees(void **state)
{
  static const int32_t folded[] = {5, 9, 10, 11, 13, 600};
  const struct tt_algo *ring = tt_algo_find(TT_ALL_REDUCE, "ring");
  (void)state;
  assert_true(tree_of(ring, shape_of(ring, 4)) == 0);
  for (size_t k = 0; k < sizeof folded / sizeof folded[0]; k++) {
    const struct tt_algo *fold = tt_algo_find(TT_ALL_REDUCE, "recursive_doubling");
    uint64_t tree = tree_of(fold, shape_of(fold, folded[k]));
    assert_true(tree != 0 && tree != tree_by_definition(folded[k]));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_reduces_with_one_tree_have_that_of_binary_blocks),
    cmocka_unit_test(all_rows_of_a_collective_that_claim_one_tree_have_the_same),
    cmocka_unit_test(for_powers_of_two_doubling_and_halving_have_that_tree_too),
    cmocka_unit_test(passes_keep_the_bits_the_same_on_all_ranks),
    cmocka_unit_test(others_have_other_trees),
  };
  alarm(300);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
