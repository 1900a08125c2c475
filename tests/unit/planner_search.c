/* SPDX-License-Identifier: BSD-3-Clause */
/* How much auto looks at: the search is compiled here once more, with what it cuts plans into slices with counted.
 * Labels: serial, planner. */
#include "planner/private.h"

static int slicings;

static void counted_slice(struct tt_fusion_plan *plan, const struct tt_queue *queue,
                          const struct tt_message_cost *cost, uint64_t elements)
{
  slicings++;
  tt_fusion_plan_slice(plan, queue, cost, elements);
}

tuttiResult_t counted_search(struct tt_fusion_plan *plan, const struct tt_policy *policy, const struct tt_queue *queue,
                             const struct tt_message_cost *cost);

#define tt_fusion_plan_search counted_search
#define tt_fusion_plan_slice counted_slice
#include "../../src/planner/search.c"
#undef tt_fusion_plan_slice
#undef tt_fusion_plan_search

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define TENSORS 1000

/* Plans that the search cuts for 1,000 tensors of so many elements. */
static int slicings_of(uint64_t count, double us_per_byte)
{
  static struct tt_tensor tensors[TENSORS];
  const struct tt_policy policy = {.kind = TT_POLICY_AUTO};
  const struct tt_model net = {TENSORS, tensors, 400 * TENSORS};
  const struct tt_message_cost cost = tt_message_cost_line(1, us_per_byte);
  struct tt_queue queue;
  struct tt_fusion_plan plan;
  for (int l = 0; l < TENSORS; l++)
    tensors[l] = (struct tt_tensor){
        .count = count, .bytes = 4 * count, .ready_us = 400 * (TENSORS - l), .forward_us = 400};
  slicings = 0;
  assert_int_equal(tt_queue_make(&queue, &net), tuttiSuccess);
  assert_int_equal(tt_fusion_plan_start(&plan, &queue), tuttiSuccess);
  assert_int_equal(counted_search(&plan, &policy, &queue, &cost), tuttiSuccess);
  tt_fusion_plan_destroy(&plan);
  tt_queue_destroy(&queue);
  return slicings;
}

/* Tensors that are whole numbers of slices long: no two of them together are fewer messages, and that each pair is
 * looked at for it in vain is work, too. */
static void what_saves_no_messages_is_not_looked_for_without_end(void **state)
{
  (void)state;
  int usual = slicings_of(65536, 0.001), whole = slicings_of(1 << 20, 0.0001);
  print_message("plans of 1,000 tensors cut: %d and %d\n", usual, whole);
  assert_in_range(usual, 10, TENSORS / 2);
  assert_in_range(whole, 10, TENSORS / 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_saves_no_messages_is_not_looked_for_without_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
