/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls compared, ranks missed, and the sentences that tell: watches of one process on one status page, without sockets
 * and service thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watch/private.h"

#define NRANKS 4
#define MS 1000000ull
#define PAGE_BYTES 524288

struct world {
  alignas(TT_LINE) char memory[PAGE_BYTES];
  struct tt_member members[NRANKS];
  struct tt_peer peers[NRANKS][NRANKS];
  int seen[NRANKS][NRANKS];
  struct tt_watch watches[NRANKS];
};

static struct world world;

static void world_make(void)
{
  memset(&world, 0, sizeof world);
  assert_in_range(tt_page_len(NRANKS, NRANKS), 1, PAGE_BYTES);
  tt_page_format(world.memory, NRANKS, NRANKS);
  for (int rank = 0; rank < NRANKS; rank++) {
    struct tt_watch *watch = &world.watches[rank];
    world.members[rank].pid = 100 + rank;
    snprintf(world.members[rank].host_name, TT_HOST_NAME_BYTES, "node-a");
    *watch = (struct tt_watch){.nranks = NRANKS, .rank = rank, .nlocal = NRANKS, .slot_index = rank,
                               .members = world.members, .peers = world.peers[rank], .seen = world.seen[rank],
                               .label = "communicator", .late_warn_ns = 30000 * MS, .timeout_ns = 60000 * MS};
    assert_true(tt_page_view(&watch->page, world.memory, NRANKS, NRANKS));
    watch->own = &watch->page.slots[rank];
    for (int peer = 0; peer < NRANKS; peer++) {
      watch->peers[peer].slot = &watch->page.slots[peer];
      if (peer != rank) watch->seen[watch->nseen++] = peer;
    }
  }
}

static struct tt_call call_of(uint64_t op, uint64_t count)
{
  return (struct tt_call){.op = op, .count = count, .collective = TT_ALL_REDUCE, .type = tuttiFloat, .root = -1};
}

static struct tt_call enter(int rank, uint64_t op, uint64_t count)
{
  struct tt_call call = call_of(op, count);
  tt_watch_publish(&world.watches[rank], &call);
  return call;
}

/* Rank 0 waits in `call` since `waited_ms`; returns the code of the failure, tuttiSuccess if there is none. */
static tuttiResult_t wait_in(const struct tt_call *call, uint64_t waited_ms)
{
  struct tt_watch *watch = &world.watches[0];
  tt_watch_compare(watch, call, tt_now_ns() - waited_ms * MS);
  return atomic_load(tt_watch_failed(watch)) ? tt_watch_failure(watch)->code : tuttiSuccess;
}

/* What was found, without what ends each sentence: whose ranks they are, and when. */
static const char *sentence(int rank)
{
  static char text[NRANKS][TT_SENTENCE_BYTES];
  const char *whole = tt_watch_failure(&world.watches[rank])->sentence, *end = strstr(whole, " (communicator, 20");
  snprintf(text[rank], sizeof text[rank], "%.*s", (int)(end ? end - whole : 0), whole);
  assert_non_null(end);
  return text[rank];
}

/* ---- mismatch ---- */

static void equal_calls_and_late_ranks_are_no_mismatch(void **state)
{
  (void)state;
  world_make();
  struct tt_call call = enter(0, 1, 10);
  enter(1, 1, 10);
  assert_int_equal(wait_in(&call, 5), tuttiSuccess);
  /* rank 1 is done with #1 and has not come back; rank 2 never came */
  tt_watch_finish(&world.watches[1], 1);
  tt_watch_finish(&world.watches[0], 1);
  call = enter(0, 2, 20);
  assert_int_equal(wait_in(&call, 5000), tuttiSuccess);
}

static void every_field_of_a_call_must_match(void **state)
{
  (void)state;
  const struct tt_call good = call_of(7, 1024);
  struct tt_call bad[6] = {good, good, good, good, good, good};
  bad[0].count++;
  bad[1].collective = TT_NO_COLLECTIVE;
  bad[2].type = tuttiHalf;
  bad[3].redop = tuttiMax;
  bad[4].algo = 1;
  bad[5].root = 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    world_make();
    enter(0, 7, 1024);
    tt_watch_publish(&world.watches[2], &bad[i]);
    assert_int_equal(wait_in(&good, 1), tuttiInvalidUsage);
    assert_int_equal(tt_watch_failure(&world.watches[0])->culprit, 2);
    assert_int_equal(tt_watch_failure(&world.watches[0])->op, 7);
  }
}

static void a_mismatch_names_both_ranks_and_both_calls_in_the_same_words(void **state)
{
  (void)state;
  const char *wanted = "calls differ between ranks: rank 0 (pid 100 on node-a) called AllReduce #3 (count 10, float, "
                       "sum), but rank 3 (pid 103 on node-a) called AllReduce #3 (count 11, float, sum): give all "
                       "ranks the same count";
  world_make();
  struct tt_call mine = enter(0, 3, 10);
  enter(3, 3, 11);
  assert_int_equal(wait_in(&mine, 1), tuttiInvalidUsage);
  assert_string_equal(sentence(0), wanted);
  world_make();
  enter(0, 3, 10);
  mine = enter(3, 3, 11);
  tt_watch_compare(&world.watches[3], &mine, tt_now_ns());
  assert_string_equal(sentence(3), wanted);
}

static void a_difference_that_the_words_hide_is_told(void **state)
{
  (void)state;
  world_make();
  struct tt_call mine = enter(0, 1, 10), theirs = mine;
  theirs.algo = 1;
  tt_watch_publish(&world.watches[1], &theirs);
  assert_int_equal(wait_in(&mine, 1), tuttiInvalidUsage);
  assert_non_null(strstr(sentence(0), "with another algorithm"));
}

static void a_rank_far_past_our_call_is_a_mismatch_but_not_at_once(void **state)
{
  (void)state;
  world_make();
  struct tt_call mine = enter(0, 1, 10);
  for (uint64_t op = 1; op <= 1 + TT_CALLS; op++) enter(1, op, 10);
  assert_int_equal(wait_in(&mine, 1), tuttiSuccess);
  assert_int_equal(wait_in(&mine, 2), tuttiSuccess);
  world.watches[0].wait.passed_ns -= 1100 * MS; /* it has been so for a second */
  assert_int_equal(wait_in(&mine, 3), tuttiInvalidUsage);
  assert_non_null(strstr(sentence(0), "rank 0 (pid 100 on node-a) waits in AllReduce #1 (count 10, float, sum)"));
  assert_non_null(strstr(sentence(0), "but rank 1 (pid 101 on node-a) is gone from it, and is at #1025"));
}

/* Its part is given, or ours is not for it: it need not wait for anybody. */
static void a_rank_may_be_far_past_a_call_that_needs_nothing_of_us(void **state)
{
  static const struct {
    uint8_t collective;
    int root, is_wrong;
  } cases[] = {{TT_REDUCE, 0, 0},    {TT_REDUCE, 1, 1},    {TT_GATHER, 0, 0},  {TT_GATHER, 1, 1},
               {TT_BROADCAST, 1, 0}, {TT_BROADCAST, 0, 0}, {TT_SCATTER, 1, 0},
               {TT_ALL_GATHER, -1, 1}, {TT_ALL_TO_ALL, -1, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    world_make();
    struct tt_call mine = call_of(1, 8);
    mine.collective = cases[i].collective;
    mine.root = cases[i].root;
    tt_watch_publish(&world.watches[0], &mine);
    for (uint64_t op = 1; op <= 1 + TT_CALLS; op++) enter(1, op, 8);
    assert_int_equal(wait_in(&mine, 1), tuttiSuccess);
    world.watches[0].wait.passed_ns -= world.watches[0].wait.passed_ns ? 1100 * MS : 0;
    assert_int_equal(wait_in(&mine, 1200), cases[i].is_wrong ? tuttiInvalidUsage : tuttiSuccess);
  }
}

static void all_ranks_of_the_host_learn_the_same_record(void **state)
{
  (void)state;
  world_make();
  struct tt_call mine = enter(0, 1, 10), theirs = enter(1, 1, 12);
  assert_int_equal(wait_in(&mine, 1), tuttiInvalidUsage);
  tt_watch_compare(&world.watches[1], &theirs, tt_now_ns());
  assert_int_equal(atomic_load(tt_watch_failed(&world.watches[1])), 1);
  assert_string_equal(sentence(1), sentence(0));
  assert_int_equal(tt_watch_failure(&world.watches[1])->detector, 0);
  /* a later failure changes nothing, and the caller gets the one that counts */
  assert_int_equal(tt_watch_fail(&world.watches[2], tuttiRemoteError, 3, 1, "later"), tuttiInvalidUsage);
  assert_string_equal(sentence(2), sentence(0));
  assert_string_equal(tt_last_sentence(), tt_watch_failure(&world.watches[0])->sentence);
}

/* ---- mismatch seen by a transport ---- */

static void a_foreign_word_of_the_same_operation_names_the_published_call(void **state)
{
  (void)state;
  world_make();
  struct tt_call mine = enter(0, 5, 10), theirs = enter(1, 5, 99);
  assert_int_equal(tt_watch_mismatch(&world.watches[0], &mine, 1, tt_call_word(&theirs), NULL), tuttiInvalidUsage);
  assert_non_null(strstr(sentence(0), "called AllReduce #5 (count 10, float, sum), but rank 1"));
  assert_non_null(strstr(sentence(0), "called AllReduce #5 (count 99, float, sum)"));
}

static void a_call_that_came_with_the_message_is_named_though_the_rank_cannot_be_seen(void **state)
{
  (void)state;
  world_make();
  world.peers[0][1].slot = NULL;
  struct tt_call mine = enter(0, 5, 10), theirs = call_of(5, 98);
  assert_int_equal(tt_watch_mismatch(&world.watches[0], &mine, 1, tt_call_word(&theirs), &theirs),
                   tuttiInvalidUsage);
  assert_non_null(strstr(sentence(0), "rank 1 (pid 101 on node-a) called AllReduce #5 (count 98, float, sum)"));
}

/* A message of #4 that nobody here read: #4 is where the calls differed (count 0 moves nothing). */
static void an_unread_message_of_an_older_operation_is_a_mismatch_of_that_operation(void **state)
{
  (void)state;
  world_make();
  enter(0, 4, 0);
  struct tt_call mine = enter(0, 5, 10), theirs = enter(1, 4, 10);
  assert_int_equal(tt_watch_mismatch(&world.watches[0], &mine, 1, tt_call_word(&theirs), NULL), tuttiInvalidUsage);
  assert_non_null(strstr(sentence(0), "called AllReduce #4 (count 0, float, sum), but rank 1"));
  assert_non_null(strstr(sentence(0), "called AllReduce #4 (count 10, float, sum)"));
}

static void a_foreign_word_of_another_operation_names_our_own_one_where_that_differs(void **state)
{
  (void)state;
  world_make();
  struct tt_call mine = enter(0, 5, 10);
  enter(1, 5, 0);
  struct tt_call theirs = enter(1, 6, 10);
  assert_int_equal(tt_watch_mismatch(&world.watches[0], &mine, 1, tt_call_word(&theirs), NULL), tuttiInvalidUsage);
  assert_non_null(strstr(sentence(0), "rank 1 (pid 101 on node-a) called AllReduce #5 (count 0, float, sum)"));
}

static void of_an_unknown_call_the_word_tells_the_number(void **state)
{
  (void)state;
  world_make();
  world.peers[0][1].slot = NULL;
  const uint64_t big = (1ull << 32) + 1;
  struct tt_call mine = enter(0, big, 10), theirs = call_of(big - 2, 10);
  assert_int_equal(tt_watch_mismatch(&world.watches[0], &mine, 1, tt_call_word(&theirs), NULL), tuttiInvalidUsage);
  assert_non_null(strstr(sentence(0), "sent a message of operation #4294967295"));
}

/* The peer has ended its call, which was another one, and has gone: the link to it breaks in the next call. */
static void a_lost_connection_behind_a_difference_is_told_as_that(void **state)
{
  (void)state;
  world_make();
  struct tt_watch *watch = &world.watches[0];
  enter(0, 1, 10);
  enter(3, 1, 11);
  struct tt_call call = enter(0, 2, 10);
  assert_int_equal(tt_watch_suspect(watch, 3, call.op, "tcp: Broken pipe"), tuttiInProgress);
  atomic_fetch_sub(&watch->peers[3].suspected_ns, 501 * MS);
  assert_int_equal(tt_watch_suspect(watch, 3, call.op, "tcp: Broken pipe"), tuttiInvalidUsage);
  assert_non_null(strstr(sentence(0), "called AllReduce #1 (count 10, float, sum), but rank 3"));
}

/* ---- late and left ---- */

static void a_late_rank_is_an_error_after_the_timeout_and_not_before(void **state)
{
  (void)state;
  world_make();
  struct tt_call call = enter(0, 2, 10);
  enter(1, 2, 10);
  enter(2, 1, 10);
  enter(3, 2, 10);
  assert_int_equal(wait_in(&call, 59000), tuttiSuccess);
  assert_int_equal(wait_in(&call, 60001), tuttiRemoteError);
  assert_string_equal(sentence(0), "rank 2 (pid 102 on node-a) did not enter AllReduce #2 (count 10, float, sum) "
                                   "within the timeout of 60000 ms");
  assert_int_equal(tt_watch_failure(&world.watches[0])->culprit, 2);
}

static void several_late_ranks_are_all_named(void **state)
{
  (void)state;
  world_make();
  struct tt_call call = enter(0, 1, 10);
  assert_int_equal(wait_in(&call, 60001), tuttiRemoteError);
  for (int rank = 1; rank < NRANKS; rank++) {
    char name[64];
    snprintf(name, sizeof name, "rank %d (pid %d on node-a)", rank, 100 + rank);
    assert_non_null(strstr(sentence(0), name));
  }
}

/* Rank 1 has not entered the second call, rank 2 waits for it in that one, and rank 3 has left that one. */
static void a_rank_that_waits_for_a_late_one_is_not_late_itself(void **state)
{
  (void)state;
  world_make();
  struct tt_call call = enter(0, 3, 10);
  enter(1, 1, 10);
  enter(2, 2, 10);
  enter(3, 2, 10);
  tt_watch_finish(&world.watches[3], 2);
  assert_int_equal(wait_in(&call, 60001), tuttiRemoteError);
  assert_non_null(strstr(sentence(0), "rank 1 (pid 101 on node-a), rank 3 (pid 103 on node-a) did not enter"));
  assert_int_equal(tt_page_lost(&world.watches[0].page, 2), 0);
  assert_int_not_equal(tt_page_lost(&world.watches[0].page, 3), 0);
}

/* Ranks are on several hosts: one that cannot be seen from here may be late, and those that see it name it first. */
static void between_hosts_a_rank_inside_an_earlier_call_is_late_if_nobody_else_is(void **state)
{
  (void)state;
  world_make();
  world.watches[0].nlocal = 2;
  struct tt_call call = enter(0, 3, 10);
  enter(1, 2, 10);
  enter(2, 3, 10);
  enter(3, 2, 10);
  assert_int_equal(wait_in(&call, 60001), tuttiSuccess);
  assert_int_equal(wait_in(&call, 60501), tuttiRemoteError);
  assert_non_null(strstr(sentence(0), "rank 1 (pid 101 on node-a), rank 3 (pid 103 on node-a) did not enter"));
}

static void timeout_0_is_never(void **state)
{
  (void)state;
  world_make();
  world.watches[0].timeout_ns = 0;
  struct tt_call call = enter(0, 1, 10);
  assert_int_equal(wait_in(&call, 1000000), tuttiSuccess);
}

static void where_all_have_entered_the_others_get_time_to_name_the_late_one(void **state)
{
  (void)state;
  world_make();
  struct tt_call call = {0};
  for (int rank = 0; rank < NRANKS; rank++) call = enter(rank, 1, 10);
  assert_int_equal(wait_in(&call, 60001), tuttiSuccess);
  assert_int_equal(wait_in(&call, 60501), tuttiRemoteError);
  assert_int_equal(tt_watch_failure(&world.watches[0])->culprit, -1);
}

static void late_ranks_are_warned_about_once_a_host(void **state)
{
  (void)state;
  world_make();
  char name[] = "/tmp/watch-late-XXXXXX", line[1024];
  int fd = mkstemp(name);
  assert_true(fd >= 0);
  atomic_store(&tt_process.log_file, fd + 1);
  struct tt_call call = enter(0, 9, 10);
  enter(1, 9, 10);
  enter(3, 9, 10);
  wait_in(&call, 29000);
  for (int i = 0; i < 3; i++) wait_in(&call, 31000);
  tt_watch_compare(&world.watches[3], &call, tt_now_ns() - 31000 * MS);
  atomic_store(&tt_process.log_file, 0);
  FILE *file = fdopen(fd, "r");
  rewind(file);
  assert_non_null(fgets(line, sizeof line, file));
  assert_non_null(strstr(line, " WARN AllReduce #9 (count 10, float, sum) has been waiting for 31000 ms for rank 2 "
                               "(pid 102 on node-a) to enter it\n"));
  assert_null(fgets(line, sizeof line, file));
  fclose(file);
  remove(name);
}

static void a_rank_that_left_fails_only_those_who_wait_for_it(void **state)
{
  (void)state;
  world_make();
  struct tt_call call = enter(0, 1, 10);
  enter(1, 1, 10);
  tt_watch_finish(&world.watches[1], 1);
  tt_watch_leave(&world.watches[1], 0);
  assert_int_equal(wait_in(&call, 5), tuttiSuccess); /* it did its part */
  call = enter(0, 2, 10);
  assert_int_equal(wait_in(&call, 5), tuttiRemoteError);
  assert_string_equal(sentence(0), "rank 1 (pid 101 on node-a) left the communicator (destroyed) before AllReduce #2 "
                                   "(count 10, float, sum)");
}

static void a_rank_that_aborts_amid_the_call_is_told_so(void **state)
{
  (void)state;
  world_make();
  struct tt_call call = enter(0, 1, 10);
  enter(1, 1, 10);
  tt_watch_leave(&world.watches[1], 1);
  assert_int_equal(wait_in(&call, 5), tuttiRemoteError);
  assert_string_equal(sentence(0), "rank 1 (pid 101 on node-a) left the communicator (aborted) during AllReduce #1 "
                                   "(count 10, float, sum)");
}

/* ---- other sentences ---- */

static void the_death_sentence_names_the_operation_of_the_detector_first(void **state)
{
  (void)state;
  char text[TT_SENTENCE_BYTES];
  world_make();
  tt_died_text(&world.watches[0], 2, text);
  assert_string_equal(text, "rank 2 (pid 102 on node-a) died before operation #1");
  enter(2, 12, 5);
  tt_died_text(&world.watches[0], 2, text);
  assert_string_equal(text, "rank 2 (pid 102 on node-a) died during AllReduce #12 (count 5, float, sum)");
  enter(0, 12, 1024);
  tt_died_text(&world.watches[0], 2, text);
  assert_string_equal(text, "rank 2 (pid 102 on node-a) died during AllReduce #12 (count 1024, float, sum)");
  tt_watch_finish(&world.watches[0], 12);
  tt_watch_finish(&world.watches[2], 12);
  tt_died_text(&world.watches[0], 2, text);
  assert_string_equal(text, "rank 2 (pid 102 on node-a) died before operation #13");
}

static void the_name_of_the_communicator_and_the_time_are_told(void **state)
{
  (void)state;
  world_make();
  int year, month, day, hour, minute, second, ms, end = 0;
  strcpy(world.watches[0].label, "communicator \"model\"");
  tt_watch_fail(&world.watches[0], tuttiSystemError, -1, 0, "no memory");
  const char *whole = tt_watch_failure(&world.watches[0])->sentence;
  sscanf(whole, "no memory (communicator \"model\", %4d-%2d-%2d %2d:%2d:%2d.%3d UTC)%n", &year, &month, &day, &hour,
         &minute, &second, &ms, &end);
  assert_int_equal(end, strlen(whole));
}

static void a_broken_connection_is_an_error_after_half_a_second(void **state)
{
  (void)state;
  world_make();
  struct tt_call call = enter(0, 1, 10);
  struct tt_watch *watch = &world.watches[0];
  assert_int_equal(tt_watch_suspect(watch, 3, call.op, "tcp: Connection reset by peer"), tuttiInProgress);
  assert_int_equal(tt_watch_suspect(watch, 3, call.op, "tcp: Connection reset by peer"), tuttiInProgress);
  atomic_fetch_sub(&watch->peers[3].suspected_ns, 501 * MS);
  assert_int_equal(tt_watch_suspect(watch, 3, call.op, "tcp: Connection reset by peer"), tuttiRemoteError);
  assert_non_null(strstr(sentence(0), "lost connection to rank 3 (pid 103 on node-a) during AllReduce #1 (count 10, "
                                      "float, sum): tcp: Connection reset by peer"));
  assert_int_equal(tt_watch_failure(watch)->culprit, 3);
}

/* ---- who is linked with whom ---- */

static void control_links_are_symmetric_and_never_double(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= 12; nranks++) {
    char linked[12][12] = {{0}};
    for (int rank = 0; rank < nranks; rank++) {
      int peers[TT_CONTROL_LINKS], n = tt_control_peers(rank, nranks, NULL, peers);
      assert_int_equal(n, nranks - 1 < 4 ? nranks - 1 : 4);
      for (int i = 0; i < n; i++) {
        assert_int_not_equal(peers[i], rank);
        assert_int_equal(linked[rank][peers[i]], 0);
        linked[rank][peers[i]] = 1;
      }
      assert_true(linked[rank][(rank + 1) % nranks]);
    }
    for (int a = 0; a < nranks; a++)
      for (int b = 0; b < nranks; b++) assert_int_equal(linked[a][b], linked[b][a]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_calls_and_late_ranks_are_no_mismatch),
      cmocka_unit_test(every_field_of_a_call_must_match),
      cmocka_unit_test(a_mismatch_names_both_ranks_and_both_calls_in_the_same_words),
      cmocka_unit_test(a_difference_that_the_words_hide_is_told),
      cmocka_unit_test(a_rank_far_past_our_call_is_a_mismatch_but_not_at_once),
      cmocka_unit_test(a_rank_may_be_far_past_a_call_that_needs_nothing_of_us),
      cmocka_unit_test(all_ranks_of_the_host_learn_the_same_record),
      cmocka_unit_test(a_foreign_word_of_the_same_operation_names_the_published_call),
      cmocka_unit_test(a_call_that_came_with_the_message_is_named_though_the_rank_cannot_be_seen),
      cmocka_unit_test(an_unread_message_of_an_older_operation_is_a_mismatch_of_that_operation),
      cmocka_unit_test(a_foreign_word_of_another_operation_names_our_own_one_where_that_differs),
      cmocka_unit_test(of_an_unknown_call_the_word_tells_the_number),
      cmocka_unit_test(a_lost_connection_behind_a_difference_is_told_as_that),
      cmocka_unit_test(a_late_rank_is_an_error_after_the_timeout_and_not_before),
      cmocka_unit_test(several_late_ranks_are_all_named),
      cmocka_unit_test(a_rank_that_waits_for_a_late_one_is_not_late_itself),
      cmocka_unit_test(between_hosts_a_rank_inside_an_earlier_call_is_late_if_nobody_else_is),
      cmocka_unit_test(timeout_0_is_never),
      cmocka_unit_test(where_all_have_entered_the_others_get_time_to_name_the_late_one),
      cmocka_unit_test(late_ranks_are_warned_about_once_a_host),
      cmocka_unit_test(a_rank_that_left_fails_only_those_who_wait_for_it),
      cmocka_unit_test(a_rank_that_aborts_amid_the_call_is_told_so),
      cmocka_unit_test(the_death_sentence_names_the_operation_of_the_detector_first),
      cmocka_unit_test(the_name_of_the_communicator_and_the_time_are_told),
      cmocka_unit_test(a_broken_connection_is_an_error_after_half_a_second),
      cmocka_unit_test(control_links_are_symmetric_and_never_double),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
