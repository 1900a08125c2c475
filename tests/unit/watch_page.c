/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared status page: the first failure wins, calls are read whole or not at all, and nothing that stands on it is
 * believed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "watch/page.h"

#define NRANKS 6
#define NSEATS 4
#define PAGE_BYTES 524288

struct fixture {
  alignas(TT_LINE) char memory[PAGE_BYTES];
  struct tt_page page;
};

static void fixture_make(struct fixture *fixture)
{
  assert_in_range(tt_page_len(NRANKS, NSEATS), 1, PAGE_BYTES);
  memset(fixture->memory, 0, PAGE_BYTES);
  tt_page_format(fixture->memory, NRANKS, NSEATS);
  assert_true(tt_page_view(&fixture->page, fixture->memory, NRANKS, NSEATS));
}

static struct tt_failure failure_of(int detector)
{
  struct tt_failure failure = {
      .code = tuttiRemoteError, .culprit = 1, .detector = detector, .op = (uint64_t)detector + 10};
  snprintf(failure.sentence, sizeof failure.sentence, "found by rank %d", detector);
  return failure;
}

/* ---- the head ---- */

/* A reader of another process believes neither the numbers in the head nor the length of the file. */
static void a_damaged_page_is_none_and_one_of_another_version_is_told(void **state)
{
  (void)state;
  static struct fixture fixture;
  struct tt_page page;
  size_t len = tt_page_len(NRANKS, NSEATS);
  fixture_make(&fixture);
  uint8_t *head = (uint8_t *)fixture.memory;
  assert_true(tt_page_read(&page, head, len) && page.nranks == NRANKS && page.nslots == NSEATS);
  assert_false(tt_page_is_other(head, len));
  for (size_t less = 0; less < len; less += less < 256 ? 1 : 4093) {
    assert_false(tt_page_read(&page, head, less));
    assert_false(tt_page_is_other(head, less));
  }
  assert_false(tt_page_read(&page, head, len + 1));
  for (size_t bit = 0; bit < 8 * offsetof(struct tt_page_head, host); bit++) {
    head[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_false(tt_page_read(&page, head, len));
    assert_int_equal(tt_page_is_other(head, len), bit / 8 == 7); /* the digit of the version */
    assert_int_equal(tt_page_is_other(head, 8), bit / 8 == 7);
    assert_false(tt_page_is_other(head, 7));
    head[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  assert_true(tt_page_read(&page, head, len));
}

/* ---- the record ---- */

static void the_first_failure_wins(void **state)
{
  (void)state;
  static struct fixture fixture;
  fixture_make(&fixture);
  struct tt_failure first = failure_of(2), second = failure_of(3), got = {0};
  assert_int_equal(tt_page_winner(&fixture.page), -1);
  tt_page_record(&fixture.page, 2, &first);
  tt_page_record(&fixture.page, 3, &second);
  assert_int_equal(tt_page_winner(&fixture.page), 2);
  assert_true(tt_page_failure_slot(&fixture.page, 2, &got));
  assert_memory_equal(&got, &first, sizeof got);
}

/* ---- lost ranks, notices ---- */

static void the_first_word_about_a_lost_rank_counts(void **state)
{
  (void)state;
  static struct fixture fixture;
  fixture_make(&fixture);
  uint64_t first = tt_lost_make(1795407482123u, TT_LOST_FROZEN);
  tt_page_lose(&fixture.page, 1, first);
  tt_page_lose(&fixture.page, 1, tt_lost_make(1795407482999u, TT_LOST_DEAD));
  assert_int_equal(tt_page_lost(&fixture.page, 1), first);
  assert_int_equal(tt_lost_ms(first), 1795407482123u);
  assert_int_equal(tt_lost_how(first), TT_LOST_FROZEN);
  assert_int_equal(tt_lost_how(7), TT_LOST_CONNECTION); /* nobody wrote that */
  for (int rank = 0; rank < NRANKS; rank++)
    if (rank != 1) assert_int_equal(tt_page_lost(&fixture.page, rank), 0);
  for (int rank = 0; rank < NRANKS; rank++) assert_int_equal(tt_page_gone(&fixture.page, rank), 0);
}

static void the_last_notices_are_found_by_their_keys(void **state)
{
  (void)state;
  static struct fixture fixture;
  struct tt_notice notice = {.code = tuttiSystemError}, got;
  fixture_make(&fixture);
  struct tt_rank_slot *slot = &fixture.page.slots[1];
  assert_false(tt_rank_slot_notice_find(slot, 0, &got));
  for (uint32_t n = 1; n <= TT_NOTICES + 1; n++) {
    notice.number = n;
    notice.key = 100 + n;
    snprintf(notice.sentence, sizeof notice.sentence, "notice %d", (int)n);
    tt_rank_slot_notice(slot, &notice);
    assert_true(tt_rank_slot_notice_find(slot, 100 + n, &got));
    assert_memory_equal(&got, &notice, sizeof got);
  }
  assert_false(tt_rank_slot_notice_find(slot, 101, &got)); /* written over */
  assert_true(tt_rank_slot_notice_find(slot, 103, &got));
  assert_string_equal(got.sentence, "notice 3");
  notice = (struct tt_notice){.key = 201, .other = 202, .code = tuttiInvalidUsage};
  tt_rank_slot_notice(slot, &notice);
  assert_true(tt_rank_slot_notice_find(slot, 201, &got) && got.other == 202);
  assert_true(tt_rank_slot_notice_find(slot, 202, &got) && got.key == 201);
}

static void a_target_is_seen_whole_until_there_is_none_any_more(void **state)
{
  (void)state;
  static struct fixture fixture;
  struct tt_target target = {.key = 7, .members = {[0] = 5, [TT_TARGET_WORDS - 1] = 1ull << 63}}, got;
  fixture_make(&fixture);
  struct tt_rank_slot *slot = &fixture.page.slots[1];
  assert_false(tt_rank_slot_target_get(slot, &got));
  for (target.against = 0; target.against < 3; target.against++) {
    tt_rank_slot_target_set(slot, &target);
    assert_true(tt_rank_slot_target_get(slot, &got));
    assert_memory_equal(&got, &target, sizeof got);
  }
  assert_false(tt_rank_slot_target_get(&fixture.page.slots[2], &got));
  tt_rank_slot_target_set(slot, &(struct tt_target){.key = 0});
  assert_false(tt_rank_slot_target_get(slot, &got));
}

struct racer {
  pthread_t thread;
  struct fixture *fixture;
  pthread_barrier_t *start;
  int slot;
  int winner;
  struct tt_failure seen;
};

static void *race(void *argument)
{
  struct racer *racer = argument;
  struct tt_failure failure = failure_of(racer->slot);
  pthread_barrier_wait(racer->start);
  tt_page_record(&racer->fixture->page, racer->slot, &failure);
  racer->winner = tt_page_winner(&racer->fixture->page);
  tt_page_failure_slot(&racer->fixture->page, racer->winner, &racer->seen);
  return NULL;
}

static void of_failures_at_the_same_time_all_see_the_same_one_whole(void **state)
{
  (void)state;
  static struct fixture fixture;
  for (int round = 0; round < 100; round++) {
    struct racer racers[NSEATS] = {0};
    pthread_barrier_t start;
    fixture_make(&fixture);
    pthread_barrier_init(&start, NULL, NSEATS);
    for (int i = 0; i < NSEATS; i++) {
      racers[i] = (struct racer){.fixture = &fixture, .start = &start, .slot = i};
      assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < NSEATS; i++) pthread_join(racers[i].thread, NULL);
    struct tt_failure wanted = failure_of(racers[0].winner);
    for (int i = 0; i < NSEATS; i++) {
      assert_int_equal(racers[i].winner, racers[0].winner);
      assert_memory_equal(&racers[i].seen, &wanted, sizeof wanted);
    }
    pthread_barrier_destroy(&start);
  }
}

/* A writer that dies before its compare-and-swap leaves a failure_slot that nobody named. */
static void a_writer_that_dies_half_way_holds_up_nobody(void **state)
{
  (void)state;
  static struct fixture fixture;
  fixture_make(&fixture);
  strcpy(fixture.page.slots[0].failure_slot.sentence, "half a sen");
  assert_int_equal(tt_page_winner(&fixture.page), -1);
  struct tt_failure failure = failure_of(1), got = {0};
  tt_page_record(&fixture.page, 1, &failure);
  assert_int_equal(tt_page_winner(&fixture.page), 1);
  assert_true(tt_page_failure_slot(&fixture.page, 1, &got));
  assert_string_equal(got.sentence, failure.sentence);
}

static void a_damaged_record_is_refused(void **state)
{
  (void)state;
  static struct fixture fixture;
  struct tt_failure failure = failure_of(1), got = {0};
  fixture_make(&fixture);
  tt_page_record(&fixture.page, 1, &failure);
  struct tt_failure_slot *failure_slot = &fixture.page.slots[1].failure_slot, good = *failure_slot;
  failure_slot->code = tuttiInProgress;
  assert_false(tt_page_failure_slot(&fixture.page, 1, &got));
  *failure_slot = good;
  failure_slot->culprit = NRANKS;
  assert_false(tt_page_failure_slot(&fixture.page, 1, &got));
  *failure_slot = good;
  failure_slot->detector = -1;
  assert_false(tt_page_failure_slot(&fixture.page, 1, &got));
  *failure_slot = good;
  memset(failure_slot->sentence, 'y', sizeof failure_slot->sentence);
  assert_true(tt_page_failure_slot(&fixture.page, 1, &got));
  assert_int_equal(strnlen(got.sentence, sizeof got.sentence), sizeof got.sentence - 1);
  atomic_store(&fixture.page.head->winner, 0xffffffffu);
  assert_int_equal(tt_page_winner(&fixture.page), NSEATS);
  assert_false(tt_page_failure_slot(&fixture.page, NSEATS, &got));
}

static void a_page_of_another_shape_is_refused(void **state)
{
  (void)state;
  static struct fixture fixture;
  struct tt_page page;
  fixture_make(&fixture);
  assert_false(tt_page_view(&page, fixture.memory, NRANKS + 1, NSEATS));
  assert_false(tt_page_view(&page, fixture.memory, NRANKS, NSEATS - 1));
  fixture.memory[0] ^= 1;
  assert_false(tt_page_view(&page, fixture.memory, NRANKS, NSEATS));
}

/* ---- calls ---- */

#define NCALLS (TT_CALLS + 40u)

/* All fields follow from the number, so that a mix of two calls shows. */
static struct tt_call call_of(uint64_t op)
{
  return (struct tt_call){.op = op,
                          .count = op * 3,
                          .collective = TT_ALL_REDUCE,
                          .type = (uint8_t)(op % 12),
                          .redop = (uint8_t)(op % 5),
                          .algo = (uint8_t)(op >> 3),
                          .root = (int32_t)(op % 7) - 1,
                          .form = ~op};
}

static void the_last_calls_can_be_read_and_older_ones_are_gone(void **state)
{
  (void)state;
  static struct fixture fixture;
  fixture_make(&fixture);
  struct tt_rank_slot *slot = &fixture.page.slots[1];
  struct tt_call got;
  assert_false(tt_rank_slot_latest(slot, &got));
  for (uint64_t op = 1; op <= NCALLS; op++) {
    struct tt_call call = call_of(op);
    tt_rank_slot_publish(slot, &call);
    assert_int_equal(tt_rank_slot_entered(slot), op);
    assert_true(tt_rank_slot_latest(slot, &got));
    assert_memory_equal(&got, &call, sizeof got);
  }
  for (uint64_t op = 0; op <= NCALLS + 20; op++) {
    int there = tt_rank_slot_call(slot, op, &got);
    assert_int_equal(there, op > NCALLS - TT_CALLS && op <= NCALLS);
    struct tt_call call = call_of(op);
    if (there) assert_memory_equal(&got, &call, sizeof got);
  }
}

#define READ_MS 150

struct writer {
  struct tt_rank_slot *slot;
  _Atomic int stop;
};

/* All on one line, so that a reader is nearly always amid a write. */
static void *publish_all(void *argument)
{
  struct writer *writer = argument;
  for (uint64_t op = TT_CALLS; !atomic_load_explicit(&writer->stop, memory_order_relaxed); op += TT_CALLS) {
    struct tt_call call = call_of(op);
    tt_rank_slot_publish(writer->slot, &call);
  }
  return NULL;
}

static void calls_read_while_they_are_written_are_whole(void **state)
{
  (void)state;
  static struct fixture fixture;
  fixture_make(&fixture);
  struct tt_rank_slot *slot = &fixture.page.slots[2];
  struct writer writer = {.slot = slot};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, publish_all, &writer), 0);
  uint64_t seen = 0, torn = 0, end = tt_now_ns() + READ_MS * 1000000ull;
  for (unsigned i = 0; seen == 0 || i % 256 != 0 || tt_now_ns() < end; i++) {
    uint64_t op = tt_rank_slot_entered(slot) + (i % 2 ? TT_CALLS : 0);
    struct tt_call got, wanted = call_of(op);
    if (!tt_rank_slot_call(slot, op, &got)) continue;
    seen++;
    torn += memcmp(&got, &wanted, sizeof got) != 0;
  }
  atomic_store(&writer.stop, 1);
  pthread_join(thread, NULL);
  assert_int_equal(torn, 0);
}

#define BYTES 12u
#define PASSED (3 * TT_TIMED_EVERY + 5u)

/* Every call is recorded and counted; only those that are timed have an end of their own. */
static void short_calls_that_have_ended_are_recorded_and_counted(void **state)
{
  (void)state;
  static struct fixture fixture;
  fixture_make(&fixture);
  struct tt_rank_slot *slot = &fixture.page.slots[1];
  struct tt_call_count counted;
  struct tt_call got;
  tt_rank_slot_beat(slot);
  uint64_t began = tt_watch_time(), beat = atomic_load(&slot->moments.ticks);
  for (uint64_t op = 1; op <= PASSED; op++) {
    struct tt_call call = call_of(op);
    struct tt_call_times times;
    int is_timed = op % TT_TIMED_EVERY == 0, has_waited = is_timed || op % 2;
    tt_rank_slot_pass(slot, &call, BYTES, has_waited ? began : 0);
    assert_int_equal(tt_rank_slot_entered(slot), op);
    assert_int_equal(tt_rank_slot_finished(slot), op);
    assert_true(tt_rank_slot_record(slot, op, &got, &times));
    assert_memory_equal(&got, &call, sizeof got);
    assert_int_equal(times.began, has_waited ? began | (is_timed ? 0 : TT_BRIEF) : beat | TT_BRIEF | TT_COARSE);
    if (is_timed) assert_true(times.ended >= began && !(times.ended & (TT_BRIEF | TT_COARSE)));
    else assert_int_equal(times.ended, times.began | TT_COARSE);
  }
  tt_rank_slot_counted(slot, TT_ALL_REDUCE, &counted);
  assert_int_equal(counted.calls, PASSED);
  assert_int_equal(counted.bytes, PASSED * BYTES);
  assert_true(atomic_load(&slot->totals[TT_ALL_REDUCE].ticks) > 0);
}

/* ---- who left ---- */

static void the_first_word_about_leaving_counts(void **state)
{
  (void)state;
  static struct fixture fixture;
  fixture_make(&fixture);
  assert_int_equal(tt_page_gone(&fixture.page, 5), 0);
  tt_page_leave(&fixture.page, 5, tt_gone_make(11, 1, 0));
  tt_page_leave(&fixture.page, 5, tt_gone_make(99, 0, 1));
  uint64_t gone = tt_page_gone(&fixture.page, 5);
  assert_int_equal(tt_gone_finished(gone), 11);
  assert_true(tt_gone_inside(gone));
  assert_false(tt_gone_aborted(gone));
  assert_int_not_equal(tt_gone_make(0, 0, 0), 0);
  assert_int_equal(tt_page_gone(&fixture.page, 4), 0);
}

int main(void)
{
  alarm(50);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_damaged_page_is_none_and_one_of_another_version_is_told),
      cmocka_unit_test(the_first_failure_wins),
      cmocka_unit_test(the_first_word_about_a_lost_rank_counts),
      cmocka_unit_test(the_last_notices_are_found_by_their_keys),
      cmocka_unit_test(a_target_is_seen_whole_until_there_is_none_any_more),
      cmocka_unit_test(of_failures_at_the_same_time_all_see_the_same_one_whole),
      cmocka_unit_test(a_writer_that_dies_half_way_holds_up_nobody),
      cmocka_unit_test(a_damaged_record_is_refused),
      cmocka_unit_test(a_page_of_another_shape_is_refused),
      cmocka_unit_test(the_last_calls_can_be_read_and_older_ones_are_gone),
      cmocka_unit_test(calls_read_while_they_are_written_are_whole),
      cmocka_unit_test(short_calls_that_have_ended_are_recorded_and_counted),
      cmocka_unit_test(the_first_word_about_leaving_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
