/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths and stops on one host, seen on the status page. Promised: 1 s; what it was is told. */
#include <fcntl.h>
#include <sys/syscall.h>

#include "../multi/watch_world.h"

static void told(const char *what, double ms)
{
  print_message("             %s: last survivor knew after %.0f ms\n", what, ms);
}

/* Kills the ranks of the mask at once, and asserts that all others name one of them. */
static void kill_all(struct world *world, unsigned victims, const char *what, const char *when)
{
  uint64_t since = tt_now_ns();
  for (int rank = 0; rank < world->nranks; rank++)
    if (victims >> rank & 1) world_signal(world, rank, SIGKILL);
  told(what, world_failed(world, victims, since));
  int survivor = 0;
  while (victims >> survivor & 1) survivor++;
  int culprit = world->reports[survivor].failure.culprit;
  assert_true(culprit >= 0 && (victims >> culprit & 1));
  char part[256];
  snprintf(part, sizeof part, "rank %d (pid %d on node-%c) died %s", culprit, (int)world->reports[culprit].pid,
           'a' + world->members[culprit].host_index, when);
  world_says(world, victims, tuttiRemoteError, culprit, part);
}

static void a_rank_killed_while_all_are_idle_is_named_by_all(void **state)
{
  (void)state;
  struct world *world = world_new(4, 1, party_idle);
  world_ready(world);
  kill_all(world, 1u << 2, "idle", "before operation #1");
  world_end(world);
}

static void in_a_call(struct party *party)
{
  struct tt_call call = party_call(12, 1024);
  party_wait(party, &call);
}

static void a_rank_killed_in_a_call_is_named_with_the_call(void **state)
{
  (void)state;
  for (int victim = 0; victim < 3; victim += 2) {
    struct world *world = world_new(3, 1, in_a_call);
    world_ready(world);
    world_stepped(world, 7);
    tt_sleep_ns(50 * MS);
    kill_all(world, 1u << victim, "in a call", "during AllReduce #12 (count 1024, float, sum)");
    world_end(world);
  }
}

static void in_a_call_that_the_first_has_ended(struct party *party)
{
  struct tt_call call = party_call(7, 1024);
  if (party->rank == 0) {
    tt_watch_publish(party->watch, &call);
    tt_watch_finish(party->watch, call.op);
    atomic_store(&party->world->reports[0].step, 1);
    party_idle(party);
  } else {
    party_wait(party, &call);
  }
}

/* The 50 ms of its beats, of which some may have passed before the kill where the rank got no processor. */
static void a_rank_killed_behind_a_call_leaves_others_the_time_to_end_it(void **state)
{
  (void)state;
  int has_time = 0;
  for (int trial = 0; trial < 20 && !has_time; trial++) {
    struct world *world = world_new(3, 1, in_a_call_that_the_first_has_ended);
    world_ready(world);
    world_stepped(world, 7);
    tt_sleep_ns(50 * MS);
    uint64_t since = tt_now_ns();
    kill_all(world, 1u, "behind a call", "during AllReduce #7 (count 1024, float, sum)");
    has_time = world->reports[1].failed_ns - since >= 35 * MS && world->reports[2].failed_ns - since >= 35 * MS;
    world_end(world);
  }
  assert_true(has_time);
}

static void two_ranks_killed_at_once_leave_one_record(void **state)
{
  (void)state;
  struct world *world = world_new(6, 1, party_idle);
  world_ready(world);
  kill_all(world, 1u << 0 | 1u << 3, "two at once", "before operation #1");
  for (int rank = 1; rank < 6; rank++)
    if (rank != 3) assert_string_equal(world->reports[rank].failure.sentence, world->reports[1].failure.sentence);
  world_end(world);
}

static void holding_memory(struct party *party)
{
  size_t len = (size_t)1 << 30;
  if (party->rank == 1) {
    char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) _exit(20);
    for (size_t at = 0; at < len; at += 4096) memory[at] = 1;
    atomic_store(&party->world->reports[1].step, 1);
  }
  party_idle(party);
}

static void a_rank_killed_with_a_gigabyte_to_free_is_named_as_fast(void **state)
{
  (void)state;
  long pages = sysconf(_SC_AVPHYS_PAGES);
  if (pages > 0 && (double)pages * 4096 < 1.5 * (1 << 30)) {
    print_message("             less than 1.5 GB of free memory\n");
    skip();
  }
  struct world *world = world_new(3, 1, holding_memory);
  world_ready(world);
  assert_true(world_await(&world->reports[1].step, 1));
  kill_all(world, 1u << 1, "1 GB touched", "before operation #1");
  world_end(world);
}

/* The child keeps every descriptor of the victim, so that no connection ends with it. */
static void with_a_child(struct party *party)
{
  if (party->rank == 1) {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, 0);
      for (int i = 0; i < 100 && !party_over(party); i++) tt_sleep_ns(100 * MS);
      _exit(0);
    }
    atomic_store(&party->world->reports[1].step, 1);
  }
  party_idle(party);
}

static void a_child_that_keeps_all_descriptors_hides_no_death(void **state)
{
  (void)state;
  struct world *world = world_new(3, 1, with_a_child);
  world_ready(world);
  assert_true(world_await(&world->reports[1].step, 1));
  kill_all(world, 1u << 1, "child holds the descriptors", "before operation #1");
  world_end(world);
}

/* ---- many ranks ---- */

static struct party *_Atomic asking; /* counts whom this process asks /proc about; the service thread reads it */

/* Instead of the C library's. */
int open(const char *path, int flags, ...)
{
  struct party *party = atomic_load(&asking);
  int pid, end = 0, others = party && sscanf(path, "/proc/%d/stat%n", &pid, &end) == 1 && end;
  for (int rank = 0; others && rank < party->world->nranks; rank++)
    if (party->world->reports[rank].pid == pid) atomic_store(&party->world->asked[party->rank][rank], 1);
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

static void count_asked(struct party *party)
{
  atomic_store(&asking, party);
  atomic_store(&party->world->reports[party->rank].step, 1);
  party_idle(party);
}

static void of_many_ranks_each_asks_proc_about_four(void **state)
{
  (void)state;
  int most = 0;
  struct world *world = world_new(WORLD_RANKS, 1, count_asked);
  world->settings.unreachable_ms = 600000; /* who does not beat for a while, for want of a core, is well all the same */
  world_ready(world);
  world_stepped(world, (1u << WORLD_RANKS) - 1);
  tt_sleep_ns(300 * MS); /* all have seen those beat that they look after */
  for (int rank = 0; rank < WORLD_RANKS; rank++) {
    int others = 0;
    for (int other = 0; other < WORLD_RANKS; other++) others += atomic_load(&world->asked[rank][other]);
    if (others > most) most = others;
  }
  world_healthy(world);
  world_end(world);
  assert_true(most > 0 && most <= 4);
}

static void a_rank_killed_behind_many_that_are_stopped_is_named(void **state)
{
  (void)state;
  const unsigned stopped = 0x3fe; /* 1 to 9 */
  const int victim = 10;
  struct world *world = world_new(12, 1, party_idle);
  world_ready(world);
  for (int rank = 1; rank < 10; rank++) world_signal(world, rank, SIGSTOP);
  tt_sleep_ns(100 * MS);
  uint64_t since = tt_now_ns();
  world_signal(world, victim, SIGKILL);
  told("behind 9 that are stopped", world_failed(world, stopped | 1u << victim, since));
  world_says(world, stopped | 1u << victim, tuttiRemoteError, victim, "died before operation #1");
  for (int rank = 1; rank < 10; rank++) world_signal(world, rank, SIGCONT);
  world_end(world);
}

/* As a process whose service thread cannot run: /proc says that it is alive. */
static void without_service(struct party *party)
{
  int is_held = party->rank >= 1 && party->rank < 10;
  if (is_held) tt_service_lock();
  atomic_store(&party->world->reports[party->rank].step, 1);
  party_idle(party);
  if (is_held) tt_service_unlock();
}

static void a_rank_killed_behind_many_that_no_longer_beat_is_named(void **state)
{
  (void)state;
  const unsigned held = 0x3fe; /* 1 to 9 */
  const int victim = 10;
  struct world *world = world_new(12, 1, without_service);
  world_ready(world);
  world_stepped(world, (1u << 12) - 1);
  uint64_t since = tt_now_ns();
  world_signal(world, victim, SIGKILL);
  told("behind 9 that do not beat", world_failed(world, held | 1u << victim, since));
  world_says(world, held | 1u << victim, tuttiRemoteError, victim, "died before operation #1");
  world_end(world);
}

/* ---- stops ---- */

static void a_rank_stopped_for_too_long_is_frozen(void **state)
{
  (void)state;
  struct world *world = world_new(3, 1, party_idle);
  world->settings.frozen_ms = 1000;
  world_ready(world);
  uint64_t since = tt_now_ns();
  world_signal(world, 2, SIGSTOP);
  double ms = world_failed(world, 1u << 2, since);
  told("stopped, limit 1000 ms", ms);
  assert_true(ms >= 1000);
  world_says(world, 1u << 2, tuttiRemoteError, 2, "on node-a) is frozen: stopped by a signal (state T)");
  /* and once it runs again it learns its fate, and that alone */
  world_signal(world, 2, SIGCONT);
  world_failed(world, 0, since);
  world_says(world, 0, tuttiRemoteError, 2, "is frozen");
  world_end(world);
}

static void a_short_stop_is_no_alarm_on_either_side(void **state)
{
  (void)state;
  struct world *world = world_new(3, 1, in_a_call);
  world->settings.frozen_ms = 60000; /* a stop is short as long as this process goes on in time */
  world->settings.unreachable_ms = 500;
  world_ready(world);
  world_stepped(world, 7);
  for (int round = 0; round < 2; round++) {
    world_signal(world, 1, SIGSTOP);
    tt_sleep_ns(700 * MS);
    world_signal(world, 1, SIGCONT);
    tt_sleep_ns(200 * MS);
  }
  world_healthy(world);
  world_end(world);
}

/* ---- leaving ---- */

static void first_leaves(struct party *party)
{
  struct report *report = &party->world->reports[party->rank];
  if (party->rank == 1) {
    struct tt_call call = party_call(1, 8);
    tt_watch_publish(party->watch, &call);
    tt_watch_finish(party->watch, 1);
    return;
  }
  while (!atomic_load(&party->world->go) && !party_over(party)) {
    if (atomic_load(tt_watch_failed(party->watch))) party_note(party);
    tt_sleep_ns(MS);
  }
  atomic_store(&report->step, 1);
  struct tt_call call = party_call(2, 8);
  party_wait(party, &call);
}

static void a_rank_that_left_in_order_is_missed_only_when_it_is_awaited(void **state)
{
  (void)state;
  struct world *world = world_new(3, 1, first_leaves);
  world_ready(world);
  int status;
  assert_int_equal(waitpid(world->reports[1].pid, &status, 0), world->reports[1].pid);
  assert_int_equal(status, 0);
  tt_sleep_ns(500 * MS);
  world_healthy(world);
  atomic_store(&world->go, 1);
  world_failed(world, 1u << 1, tt_now_ns());
  world_says(world, 1u << 1, tuttiRemoteError, 1, "left the communicator (destroyed) before AllReduce #2");
  world->reports[1].pid = 0; /* waited for above */
  world_end(world);
}

/* ---- start-up ---- */

static void killed_in_start_up(int victim)
{
  struct world *world = world_new(3, 1, party_idle);
  atomic_store(&world->stays_out[victim], 1);
  world_start(world);
  assert_true(world_await(&world->joined, 3));
  tt_sleep_ns(200 * MS);
  kill_all(world, 1u << victim, victim ? "in start-up" : "in start-up, the leader", "before operation #1");
  world_end(world);
}

static void a_rank_killed_in_start_up_ends_it_for_all(void **state)
{
  (void)state;
  killed_in_start_up(2);
  killed_in_start_up(0);
}

static void a_rank_that_gives_up_in_start_up_ends_it_for_all(void **state)
{
  (void)state;
  struct world *world = world_new(4, 1, party_idle);
  atomic_store(&world->gives_up[1], 1);
  atomic_store(&world->stays_out[3], 1);
  world_start(world);
  world_failed(world, 1u << 1 | 1u << 3, tt_now_ns());
  world_says(world, 1u << 1 | 1u << 3, tuttiRemoteError, 1, "left the communicator (aborted) during start-up");
  world_end(world);
}

/* Where rank 2 was held up until after the deadline, too, again with a longer one: it missed the status page. */
static void a_rank_that_does_not_come_ends_the_start_up_at_the_deadline(void **state)
{
  (void)state;
  int was_in_time = 0;
  for (int64_t setup_ms = 600; !was_in_time && setup_ms < PATIENCE_MS; setup_ms *= 4) {
    struct world *world = world_new(3, 1, party_idle);
    world->setup_ms = setup_ms;
    atomic_store(&world->stays_out[1], 1);
    world_start(world);
    world_failed(world, 1u << 1, tt_now_ns());
    was_in_time = atomic_load(&world->reports[2].ready);
    if (was_in_time) world_says(world, 1u << 1, tuttiRemoteError, -1, "rank 1 (pid ");
    world_end(world);
  }
  assert_true(was_in_time);
}

int main(void)
{
  alarm(500);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_killed_while_all_are_idle_is_named_by_all),
      cmocka_unit_test(a_rank_killed_in_a_call_is_named_with_the_call),
      cmocka_unit_test(a_rank_killed_behind_a_call_leaves_others_the_time_to_end_it),
      cmocka_unit_test(two_ranks_killed_at_once_leave_one_record),
      cmocka_unit_test(a_rank_killed_with_a_gigabyte_to_free_is_named_as_fast),
      cmocka_unit_test(a_child_that_keeps_all_descriptors_hides_no_death),
      cmocka_unit_test(of_many_ranks_each_asks_proc_about_four),
      cmocka_unit_test(a_rank_killed_behind_many_that_are_stopped_is_named),
      cmocka_unit_test(a_rank_killed_behind_many_that_no_longer_beat_is_named),
      cmocka_unit_test(a_rank_stopped_for_too_long_is_frozen),
      cmocka_unit_test(a_short_stop_is_no_alarm_on_either_side),
      cmocka_unit_test(a_rank_that_left_in_order_is_missed_only_when_it_is_awaited),
      cmocka_unit_test(a_rank_killed_in_start_up_ends_it_for_all),
      cmocka_unit_test(a_rank_that_gives_up_in_start_up_ends_it_for_all),
      cmocka_unit_test(a_rank_that_does_not_come_ends_the_start_up_at_the_deadline),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
