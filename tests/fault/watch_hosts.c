/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths, stops and farewells across hosts: ranks pretend to be on several ones, so that control links over
 * loopback join them. */
#include <sys/syscall.h>

#include "../multi/watch_world.h"

static void told(int nranks, int nhosts, const char *what, double ms)
{
  print_message("             %d ranks on %d hosts, %s: last survivor knew after %.0f ms\n", nranks, nhosts, what, ms);
}

/* Kills one rank; all survivors name it. 1 if they say that it died, 0 if that its connection was lost. */
static int kill_one(int nranks, int nhosts, int victim)
{
  char part[128];
  struct world *world = world_new(nranks, nhosts, party_idle);
  world_ready(world);
  uint64_t since = tt_now_ns();
  world_signal(world, victim, SIGKILL);
  double ms = world_failed(world, 1u << victim, since);
  const char *sentence = world->reports[!victim].failure.sentence, *lost = "lost connection to ";
  int died = strncmp(sentence, lost, strlen(lost)) != 0;
  told(nranks, nhosts, died ? "died" : "lost", ms);
  snprintf(part, sizeof part, "%srank %d (pid %d on node-%c)%s", died ? "" : lost, victim,
           (int)world->reports[victim].pid, 'a' + world->members[victim].host_index, died ? " died" : "");
  world_says(world, 1u << victim, tuttiRemoteError, victim, part);
  world_end(world);
  return died;
}

/* A witness that was held up for more than 500 ms came too late. */
static void seen_to_die(int nranks, int nhosts, int victim)
{
  int died = 0;
  for (int tries = 0; !died && tries < 5; tries++) died = kill_one(nranks, nhosts, victim);
  assert_true(died);
}

static void a_death_reaches_all_hosts_from_a_witness(void **state)
{
  (void)state;
  seen_to_die(3, 2, 0);
  seen_to_die(4, 2, 3);
  seen_to_die(6, 3, 2);
  seen_to_die(8, 4, 0);
  seen_to_die(8, 2, 7);
}

/* 500 ms of grace are in these. */
static void a_death_without_a_witness_is_a_lost_connection(void **state)
{
  (void)state;
  assert_false(kill_one(2, 2, 1));
  assert_false(kill_one(3, 3, 0));
  assert_false(kill_one(8, 8, 3));
}

static void a_whole_host_that_dies_is_reported_by_the_others(void **state)
{
  (void)state;
  struct world *world = world_new(6, 3, party_idle);
  world_ready(world);
  uint64_t since = tt_now_ns();
  world_signal(world, 2, SIGKILL);
  world_signal(world, 3, SIGKILL);
  double ms = world_failed(world, 1u << 2 | 1u << 3, since);
  told(6, 3, "whole host killed", ms);
  for (int rank = 0; rank < 6; rank++)
    if (rank / 2 != 1) assert_int_equal(world->reports[rank].failure.culprit / 2, 1);
  world_end(world);
}

/* A host that says nothing, with all its connections open. */
static void a_silent_host_is_unreachable_after_the_limit(void **state)
{
  (void)state;
  struct world *world = world_new(4, 4, party_idle);
  world->settings.unreachable_ms = 2000; /* nobody else is held up for so long */
  world_ready(world);
  uint64_t since = tt_now_ns();
  world_signal(world, 2, SIGSTOP);
  double ms = world_failed(world, 1u << 2, since);
  told(4, 4, "silent, limit 2000 ms", ms);
  assert_true(ms >= 1800);
  world_says(world, 1u << 2, tuttiRemoteError, 2, "is unreachable: no sign of life for more than 2000 ms");
  /* When it wakes it gets the record, and takes nobody for dead. */
  world_signal(world, 2, SIGCONT);
  world_failed(world, 0, since);
  world_says(world, 0, tuttiRemoteError, 2, "is unreachable");
  world_end(world);
}

static void a_stopped_rank_is_vouched_for_by_its_host(void **state)
{
  (void)state;
  struct world *world = world_new(6, 3, party_idle);
  world->settings.unreachable_ms = 1600; /* nobody else is held up for so long */
  world_ready(world);
  world_signal(world, 3, SIGSTOP);
  tt_sleep_ns(3200 * MS);
  world_healthy(world);
  world_signal(world, 3, SIGCONT);
  tt_sleep_ns(300 * MS);
  world_healthy(world);
  world_end(world);
}

/* Two of three hosts fall silent at once: the third cannot know that it is not itself cut off. */
static void a_rank_that_hears_nobody_suspects_itself(void **state)
{
  (void)state;
  struct world *world = world_new(3, 3, party_idle);
  world->settings.unreachable_ms = 1600; /* nobody else is held up for so long */
  world_ready(world);
  uint64_t since = tt_now_ns();
  world_signal(world, 1, SIGSTOP);
  world_signal(world, 2, SIGSTOP);
  world_failed(world, 1u << 1 | 1u << 2, since);
  world_says(world, 1u << 1 | 1u << 2, tuttiRemoteError, 0, "is cut off: no sign of life of any other host");
  world_signal(world, 1, SIGCONT);
  world_signal(world, 2, SIGCONT);
  world_failed(world, 0, since);
  world_says(world, 0, tuttiRemoteError, 0, "is cut off: no sign of life of any other host");
  world_end(world);
}

/* Those that gave a host up have closed their connections when its network comes back. */
static void a_host_whose_connections_end_after_an_outage_was_cut_off(void **state)
{
  (void)state;
  struct world *world = world_new(3, 3, party_idle);
  world->settings.unreachable_ms = 1600; /* nobody else is held up for so long */
  world_ready(world);
  uint64_t since = tt_now_ns();
  world_signal(world, 1, SIGSTOP);
  world_signal(world, 2, SIGSTOP);
  tt_sleep_ns(2200 * MS); /* the silence alone is judged after 2700 ms, as their kernels answer */
  world_signal(world, 1, SIGKILL);
  world_signal(world, 2, SIGKILL);
  world_failed(world, 1u << 1 | 1u << 2, since);
  world_says(world, 1u << 1 | 1u << 2, tuttiRemoteError, 0, "is cut off: no sign of life of any other host");
  world_end(world);
}

/* Rank 0 ends one all-reduce after the other, as if the others took part. */
static void goes_on(struct party *party)
{
  if (party->rank == 0)
    for (uint64_t op = 1; !party_over(party) && !atomic_load(tt_watch_failed(party->watch)); op++) {
      struct tt_call call = party_call(op, 1);
      tt_watch_publish(party->watch, &call);
      tt_watch_finish(party->watch, op);
      tt_sleep_ns(20 * MS);
    }
  party_idle(party);
}

static void an_all_reduce_that_ends_is_a_sign_of_life(void **state)
{
  (void)state;
  struct world *world = world_new(3, 3, goes_on);
  world->settings.unreachable_ms = 800;
  world_ready(world);
  world_signal(world, 1, SIGSTOP);
  world_signal(world, 2, SIGSTOP);
  tt_sleep_ns(3200 * MS);
  world_signal(world, 1, SIGCONT);
  world_signal(world, 2, SIGCONT);
  tt_sleep_ns(200 * MS);
  world_healthy(world);
  world_end(world);
}

/* The system call alone: without what the library lets fork(3) do, the child keeps all descriptors. */
static long child_of_call(void)
{
  return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static long child_of_fork(void)
{
  return fork();
}

static void with_a_child(struct party *party, long (*fork_how)(void))
{
  if (party->rank == 1) {
    if (fork_how() == 0) {
      prctl(PR_SET_PDEATHSIG, 0);
      for (int i = 0; i < 100 && !party_over(party); i++) tt_sleep_ns(100 * MS);
      _exit(0);
    }
    atomic_store(&party->world->reports[1].step, 1);
  }
  party_idle(party);
}

static void with_a_call_child(struct party *party)
{
  with_a_child(party, child_of_call);
}

static void with_a_fork_child(struct party *party)
{
  with_a_child(party, child_of_fork);
}

static void a_forked_child_keeps_no_connection(void **state)
{
  (void)state;
  struct world *world = world_new(3, 3, with_a_fork_child);
  world->settings.unreachable_ms = PATIENCE_MS;
  world_ready(world);
  assert_true(world_await(&world->reports[1].step, 1));
  uint64_t since = tt_now_ns();
  world_signal(world, 1, SIGKILL);
  told(3, 3, "a forked child lives on", world_failed(world, 1u << 1, since));
  world_says(world, 1u << 1, tuttiRemoteError, 1, "lost connection to rank 1");
  world_end(world);
}

static void a_child_that_keeps_the_connections_delays_the_news_to_the_limit_only(void **state)
{
  (void)state;
  struct world *world = world_new(3, 3, with_a_call_child);
  world->settings.unreachable_ms = 2000;
  world_ready(world);
  assert_true(world_await(&world->reports[1].step, 1));
  uint64_t since = tt_now_ns();
  world_signal(world, 1, SIGKILL);
  double ms = world_failed(world, 1u << 1, since);
  told(3, 3, "child holds the connections, limit 2000 ms", ms);
  world_says(world, 1u << 1, tuttiRemoteError, 1, "is unreachable");
  world_end(world);
}

/* Rank 3 leaves; the others enter what it never will, after a word from the parent. */
static void third_leaves(struct party *party)
{
  struct tt_call call = party_call(1, 8);
  if (party->rank == 3) return;
  while (!atomic_load(&party->world->go) && !party_over(party)) {
    if (atomic_load(tt_watch_failed(party->watch))) party_note(party);
    tt_sleep_ns(MS);
  }
  party_wait(party, &call);
}

static void a_farewell_reaches_all_hosts_and_is_no_failure_by_itself(void **state)
{
  (void)state;
  int status;
  struct world *world = world_new(8, 8, third_leaves);
  world_ready(world);
  assert_int_equal(waitpid(world->reports[3].pid, &status, 0), world->reports[3].pid);
  world->reports[3].pid = 0;
  tt_sleep_ns(900 * MS);
  world_healthy(world);
  atomic_store(&world->go, 1);
  world_failed(world, 1u << 3, tt_now_ns());
  world_says(world, 1u << 3, tuttiRemoteError, 3, "left the communicator (destroyed) before AllReduce #1");
  world_end(world);
}

int main(void)
{
  alarm(500);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_death_reaches_all_hosts_from_a_witness),
      cmocka_unit_test(a_death_without_a_witness_is_a_lost_connection),
      cmocka_unit_test(a_whole_host_that_dies_is_reported_by_the_others),
      cmocka_unit_test(a_silent_host_is_unreachable_after_the_limit),
      cmocka_unit_test(a_rank_that_hears_nobody_suspects_itself),
      cmocka_unit_test(a_host_whose_connections_end_after_an_outage_was_cut_off),
      cmocka_unit_test(an_all_reduce_that_ends_is_a_sign_of_life),
      cmocka_unit_test(a_stopped_rank_is_vouched_for_by_its_host),
      cmocka_unit_test(a_forked_child_keeps_no_connection),
      cmocka_unit_test(a_child_that_keeps_the_connections_delays_the_news_to_the_limit_only),
      cmocka_unit_test(a_farewell_reaches_all_hosts_and_is_no_failure_by_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
