/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches of several processes on one status page and across (pretended) hosts: set-up, mismatched calls, late ranks.
 * */
#include "watch_world.h"

#include "watch/private.h"

/* In which no rank is unreachable, however long this machine keeps it waiting for a core. */
static struct world *patient_world(int nranks, int nhosts, party_script script)
{
  struct world *world = world_new(nranks, nhosts, script);
  world->settings.unreachable_ms = 600000;
  return world;
}

static void any_number_of_ranks_on_any_number_of_hosts_sets_up(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= WORLD_RANKS; nranks = nranks == 8 ? WORLD_RANKS : nranks + 1)
    for (int nhosts = 1; nhosts <= nranks; nhosts += nhosts < 3 ? 1 : 3) {
      struct world *world = patient_world(nranks, nhosts, party_idle);
      uint64_t since = tt_now_ns();
      world_ready(world);
      if (nranks == WORLD_RANKS)
        print_message("             %d ranks on %d hosts: %.0f ms from fork to ready\n", nranks, nhosts,
                      (double)(tt_now_ns() - since) / 1e6);
      tt_sleep_ns(30 * MS);
      world_healthy(world);
      world_end(world);
    }
}

/* ---- mismatch ---- */

/* Rank 1 calls with another count. */
static void second_differs(struct party *party)
{
  struct tt_call call = party_call(4, party->rank == 1 ? 1000 : 1024);
  party_wait(party, &call);
}

static void differ(int nranks, int nhosts, party_script script, const char *theirs)
{
  char part[128];
  struct world *world = patient_world(nranks, nhosts, script);
  world_ready(world);
  double ms = world_failed(world, 0, tt_now_ns());
  print_message("             %d ranks on %d hosts: all knew after %.0f ms\n", nranks, nhosts, ms);
  snprintf(part, sizeof part, "rank 1 (pid %d on node-%c) called %s", (int)world->reports[1].pid,
           'a' + world->members[1].host_index, theirs);
  world_says(world, 0, tuttiInvalidUsage, -2, part);
  world_says(world, 0, tuttiInvalidUsage, -2, "(count 1024, float, sum)");
  world_end(world);
}

static void a_different_call_on_one_host_is_named_by_all(void **state)
{
  (void)state;
  differ(2, 1, second_differs, "AllReduce #4 (count 1000, float, sum)");
  differ(5, 1, second_differs, "AllReduce #4 (count 1000, float, sum)");
}

static void a_different_call_on_another_host_is_named_by_all(void **state)
{
  (void)state;
  differ(2, 2, second_differs, "AllReduce #4 (count 1000, float, sum)");
  differ(8, 8, second_differs, "AllReduce #4 (count 1000, float, sum)");
  differ(8, 3, second_differs, "AllReduce #4 (count 1000, float, sum)");
}

/* Rank 1 moved nothing in #4 and #5 and waits for nobody: only the others' frames tell it. */
static void second_is_past(struct party *party)
{
  struct tt_call call = party_call(4, party->rank == 1 ? 0 : 1024);
  if (party->rank != 1) {
    party_wait(party, &call);
    return;
  }
  for (call.op = 4; call.op < 6; call.op++) {
    tt_watch_publish(party->watch, &call);
    tt_watch_finish(party->watch, call.op);
  }
  party_idle(party);
}

static void a_rank_that_is_past_the_call_is_found_by_the_calls_of_those_who_wait(void **state)
{
  (void)state;
  differ(2, 2, second_is_past, "AllReduce #4 (count 0, float, sum)");
  differ(4, 4, second_is_past, "AllReduce #4 (count 0, float, sum)");
  differ(3, 1, second_is_past, "AllReduce #4 (count 0, float, sum)");
}

/* ---- late ---- */

/* Those who see the last rank begin to wait when all others that they see have entered; the rest is told by them. */
static void last_is_late(struct party *party)
{
  const struct tt_watch *watch = party->watch;
  struct tt_call call = party_call(7, 8);
  int last = party->world->nranks - 1, sees_last = 0;
  if (party->rank != last) party_enter(party, &call);
  for (int i = 0; i < watch->nseen && party->rank != last; i++) {
    int rank = watch->seen[i];
    sees_last |= rank == last;
    while (rank != last && tt_rank_slot_entered(watch->peers[rank].slot) < call.op && !party_over(party))
      tt_sleep_ns(MS);
  }
  if (sees_last) party_stay(party, &call);
  else party_idle(party);
}

static void late(int nranks, int nhosts)
{
  char part[128];
  struct world *world = patient_world(nranks, nhosts, last_is_late);
  world->timeout_ms = 600;
  world->settings.late_warn_ms = 300;
  world_ready(world);
  world_failed(world, 0, tt_now_ns());
  int culprit = nranks - 1;
  snprintf(part, sizeof part, "rank %d (pid %d on node-%c) did not enter AllReduce #7 (count 8, float, sum) within",
           culprit, (int)world->reports[culprit].pid, 'a' + world->members[culprit].host_index);
  world_says(world, 0, tuttiRemoteError, culprit, part);
  world_end(world);
}

static void a_late_rank_is_named_by_all_after_the_timeout(void **state)
{
  (void)state;
  late(3, 1);
  late(2, 2);
  late(8, 4); /* ranks 3 and 4 cannot see rank 7 */
}

static void without_a_timeout_a_late_rank_is_no_error(void **state)
{
  (void)state;
  struct world *world = world_new(3, 1, last_is_late);
  world->settings.late_warn_ms = 100;
  world_ready(world);
  tt_sleep_ns(500 * MS);
  world_healthy(world);
  world_end(world);
}

/* ---- sleep in a start-up ---- */

/* Rank 0, which has the status page, does not come. Rank 1 may sleep nevertheless, although it may not do yet what it
 * will do with those of the other host: says so by step 1. */
static void waits_for_a_page(struct party *party)
{
  if (party->rank != 1) return;
  party_create(party);
  while (!party_over(party) && tt_watch_poll(party->watch) == tuttiInProgress) {
    struct tt_pollset pollset = {.until_ns = UINT64_MAX};
    tt_watch_pollset(party->watch, &pollset);
    int is_ready = poll(pollset.polls, (nfds_t)pollset.n, 1) != 0 || pollset.until_ns <= tt_now_ns();
    if (!is_ready) atomic_store(&party->world->reports[1].step, 1);
  }
}

static void who_waits_for_the_status_page_sleeps_until_it_comes(void **state)
{
  (void)state;
  struct world *world = world_new(4, 2, party_idle);
  world->outside = waits_for_a_page;
  for (int rank = 0; rank < 4; rank++) atomic_store(&world->stays_out[rank], 1);
  world_start(world);
  assert_true(world_await(&world->reports[1].step, 1));
  world_end(world);
}

/* ---- failures recorded by ranks ---- */

static void all_fail(struct party *party)
{
  char text[64];
  while (!atomic_load(&party->world->go)) tt_sleep_ns(MS / 10);
  snprintf(text, sizeof text, "no memory on rank %d", party->rank);
  tt_watch_fail(party->watch, tuttiSystemError, party->rank, 3, text);
  party_note(party);
  party_idle(party);
}

static void failures_recorded_at_once_leave_one_record_on_a_host(void **state)
{
  (void)state;
  for (int round = 0; round < 5; round++) {
    struct world *world = world_new(6, 1, all_fail);
    world_ready(world);
    atomic_store(&world->go, 1);
    world_failed(world, 0, tt_now_ns());
    const struct tt_failure *first = &world->reports[0].failure;
    for (int rank = 0; rank < 6; rank++) {
      assert_string_equal(world->reports[rank].failure.sentence, first->sentence);
      assert_int_equal(world->reports[rank].failure.detector, first->culprit);
    }
    world_end(world);
  }
}

int main(void)
{
  alarm(500);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_number_of_ranks_on_any_number_of_hosts_sets_up),
      cmocka_unit_test(a_different_call_on_one_host_is_named_by_all),
      cmocka_unit_test(a_different_call_on_another_host_is_named_by_all),
      cmocka_unit_test(a_rank_that_is_past_the_call_is_found_by_the_calls_of_those_who_wait),
      cmocka_unit_test(a_late_rank_is_named_by_all_after_the_timeout),
      cmocka_unit_test(without_a_timeout_a_late_rank_is_no_error),
      cmocka_unit_test(who_waits_for_the_status_page_sleeps_until_it_comes),
      cmocka_unit_test(failures_recorded_at_once_leave_one_record_on_a_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
