/* SPDX-License-Identifier: BSD-3-Clause */
/* The shard server refuses these: contributions, words of servers and decisions that no correct rank sends, and
 * parameters out of range.
 * Labels: planner. */
#include "server/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const uint64_t none = 0;

/* Two ranks, one shard. */
static void what_no_rank_sends_is_told(void **state)
{
  (void)state;
  struct tt_server *server;
  struct tt_server_action action;
  int32_t urgency = 0;
  struct tt_server_spec spec = {.kind = TT_SERVER_SYNCHRONOUS, .nranks = 2, .quorum = 2, .nservers = 1, .nshards = 1,
                                .urgency = &urgency};
  struct tt_contribution wrong[] = {{-1, 0, 0, 0, 1}, {2, 0, 0, 0, 1}, {0, -1, 0, 0, 1}, {0, 1, 0, 0, 1},
                                    {0, 0, 1, 1, 1}, {0, 0, 1, 0, 1}};
  assert_int_equal(tt_server_create(&server, &spec), tuttiSuccess);
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
    assert_int_equal(tt_server_contribute(server, &wrong[k]), TT_WRONG);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){3}, &none), 0);
  assert_int_equal(tt_server_next(server, &action), 0);
  tt_server_destroy(server);
  spec.quorum = 1;
  spec.kind = TT_SERVER_ASGD;
  assert_int_equal(tt_server_create(&server, &spec), tuttiSuccess);
  assert_int_equal(tt_server_contribute(server, &(struct tt_contribution){0, 0, 0, 0, 1}), TT_KEPT);
  assert_int_equal(tt_server_contribute(server, &(struct tt_contribution){0, 0, 1, 0, 2}), TT_WRONG); /* no answer */
  assert_int_equal(tt_server_contribute(server, &(struct tt_contribution){1, 0, 0, 1, 3}), TT_WRONG); /* no version */
  tt_server_destroy(server);
}

static void a_decision_without_its_contributions_is_refused(void **state)
{
  (void)state;
  struct tt_server *server;
  struct tt_server_action action;
  int32_t urgency = 0;
  struct tt_server_spec spec = {.kind = TT_SERVER_SYNCHRONOUS, .nranks = 2, .quorum = 1, .nservers = 1, .nshards = 1,
                                .urgency = &urgency};
  assert_int_equal(tt_server_create(&server, &spec), tuttiSuccess);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){1}, &none), 0);
  assert_int_equal(tt_server_contribute(server, &(struct tt_contribution){0, 0, 0, 0, 1}), TT_KEPT);
  assert_int_equal(tt_server_decided(server, 1, &(uint64_t){1}, &none), 0);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){3}, &none), 0);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){1}, &none), 1);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){1}, &none), 0);
  assert_int_equal(tt_server_next(server, &action), 1);
  assert_int_equal(action.act, TT_HELD + TT_UPDATE);
  tt_server_destroy(server);
}

/* Three ranks, two servers of one shard; this one decides. */
static void a_server_is_heard_once_of_each_rank(void **state)
{
  (void)state;
  struct tt_server *server;
  struct tt_server_action action;
  int32_t urgency = 0;
  struct tt_server_spec spec = {.kind = TT_SERVER_SYNCHRONOUS, .nranks = 3, .quorum = 2, .nservers = 2, .nshards = 1,
                                .is_decider = 1, .urgency = &urgency};
  assert_int_equal(tt_server_create(&server, &spec), tuttiSuccess);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(tt_server_held(server, 1, r, 0), 1);
    assert_int_equal(tt_server_held(server, 1, r, 0), 0); /* twice by one are not two */
  }
  assert_int_equal(tt_server_held(server, 2, 0, 0), 0);
  assert_int_equal(tt_server_held(server, -1, 0, 0), 0);
  assert_int_equal(tt_server_held(server, 0, 3, 0), 0);
  assert_int_equal(tt_server_held(server, 0, 0, 1), 0); /* of a step that no server knows yet */
  assert_int_equal(tt_server_next(server, &action), 0);
  assert_int_equal(tt_server_held(server, 0, 0, 0), 1);
  assert_int_equal(tt_server_held(server, 0, 2, 0), 1);
  assert_int_equal(tt_server_next(server, &action), 1);
  assert_int_equal(action.act, TT_DECIDE);
  assert_true(action.set[0] == 5 && action.step == 0);
  assert_int_equal(tt_server_held(server, 0, 1, 0), 1); /* too late */
  assert_int_equal(tt_server_next(server, &action), 0);
  tt_server_destroy(server);
}

/* All have contributed: only the set itself can be wrong. */
static void a_decision_has_a_quorum_of_ranks(void **state)
{
  (void)state;
  struct tt_server *server;
  int32_t urgency = 0;
  struct tt_server_spec spec = {.kind = TT_SERVER_SYNCHRONOUS, .nranks = 3, .quorum = 2, .nservers = 1, .nshards = 1,
                                .urgency = &urgency};
  assert_int_equal(tt_server_create(&server, &spec), tuttiSuccess);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(tt_server_steps(server, r), 0);
    assert_int_equal(tt_server_contribute(server, &(struct tt_contribution){r, 0, 0, 0, (uint64_t)r + 1}), TT_KEPT);
    assert_int_equal(tt_server_steps(server, r), 1);
  }
  assert_int_equal(tt_server_held(server, 0, 0, 0), 0); /* it decides nothing */
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){0}, &none), 0);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){4}, &none), 0);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){8 | 3}, &none), 0);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){(uint64_t)1 << 63 | 3}, &none), 0);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){5}, &(uint64_t){8}), 0);
  assert_int_equal(tt_server_decided(server, 0, &(uint64_t){5}, &none), 1);
  tt_server_destroy(server);
}

/* Rank 1 has not got the first version yet. */
static void a_rank_has_seen_what_it_was_sent(void **state)
{
  (void)state;
  struct tt_server *server;
  struct tt_server_action action;
  int32_t urgency = 0;
  struct tt_server_spec spec = {.kind = TT_SERVER_SYNCHRONOUS, .nranks = 2, .quorum = 1, .nservers = 1, .nshards = 1,
                                .version = 4, .holders = &(uint64_t){1}, .is_decider = 1, .urgency = &urgency};
  assert_int_equal(tt_server_create(&server, &spec), tuttiSuccess);
  assert_int_equal(tt_server_seen(server, -1, 4), 0);
  assert_int_equal(tt_server_seen(server, 2, 4), 0);
  assert_int_equal(tt_server_seen(server, 0, 4), 0); /* nothing is on its way to it */
  assert_int_equal(tt_server_seen(server, 1, 5), 0);
  assert_int_equal(tt_server_show(server, 2, 4), 0);
  assert_int_equal(tt_server_show(server, 1, 5), 0);
  assert_int_equal(tt_server_contribute(server, &(struct tt_contribution){0, 0, 4, 4, 1}), TT_KEPT);
  assert_int_equal(tt_server_next(server, &action), 1);
  assert_int_equal(action.act, TT_HELD);
  assert_int_equal(tt_server_held(server, 0, 0, 4), 1);
  assert_int_equal(tt_server_next(server, &action), 1);
  assert_true(action.act == TT_DECIDE && action.set[0] == 1 && action.gets[0] == 1);
  assert_int_equal(tt_server_seen(server, 1, 4), 1);
  assert_int_equal(tt_server_seen(server, 1, 4), 0); /* twice */
  assert_int_equal(tt_server_next(server, &action), 1);
  assert_true(action.act == TT_SHOW && action.rank == 1 && action.version == 5);
  assert_int_equal(tt_server_seen(server, 1, 4), 0);
  assert_int_equal(tt_server_seen(server, 1, 5), 1);
  assert_int_equal(tt_server_next(server, &action), 0);
  tt_server_destroy(server);
}

static void parameters_out_of_range_are_refused(void **state)
{
  (void)state;
  struct tt_server *server;
  int32_t urgency = 0;
  struct tt_server_spec right = {.kind = TT_SERVER_SYNCHRONOUS, .nranks = 2, .quorum = 1, .nservers = 1, .nshards = 1,
                                 .urgency = &urgency};
  for (int k = 0; k < 6; k++) {
    struct tt_server_spec spec = right;
    if (k == 0) spec.nranks = 0;
    else if (k == 1) spec.quorum = 0;
    else if (k == 2) spec.quorum = 3;
    else if (k == 3) spec.staleness = 1;
    else if (k == 4) spec.nshards = 0;
    else spec.nservers = 0;
    assert_int_equal(tt_server_create(&server, &spec), tuttiInvalidArgument);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_no_rank_sends_is_told),
      cmocka_unit_test(a_decision_without_its_contributions_is_refused),
      cmocka_unit_test(a_server_is_heard_once_of_each_rank),
      cmocka_unit_test(a_decision_has_a_quorum_of_ranks),
      cmocka_unit_test(a_rank_has_seen_what_it_was_sent),
      cmocka_unit_test(parameters_out_of_range_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
