/* SPDX-License-Identifier: BSD-3-Clause */
/* The decorators themselves: each fault does what its rule says and no more; the trace tells all. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport_pair.h"

#define LEN 20000

static ssize_t send_all(struct world_rank *me, struct tt_link *link, uint64_t op, const char *data, size_t len)
{
  struct tt_call call = {.op = op, .count = len, .collective = TT_ALL_REDUCE};
  struct tt_head head = {.word = tt_call_word(&call), .len = len, .call = &call};
  link->ops->send_begin(link, &head);
  for (size_t at = 0; at < len && !world_is_over(me);) {
    ssize_t n = link->ops->send(link, data + at, len - at);
    if (n < 0) return n;
    if (n == 0) sched_yield();
    at += (size_t)n;
  }
  return (ssize_t)len;
}

static ssize_t recv_all(struct world_rank *me, struct tt_link *link, uint64_t op, char *data, size_t len,
                        int is_peeking)
{
  struct tt_call call = {.op = op, .count = len, .collective = TT_ALL_REDUCE};
  struct tt_head head = {.word = tt_call_word(&call), .len = len, .call = &call};
  link->ops->recv_begin(link, &head);
  for (size_t at = 0; at < len && !world_is_over(me);) {
    const void *shown;
    ssize_t n = is_peeking ? link->ops->peek(link, &shown, 4) : link->ops->recv(link, data + at, len - at);
    if (n < 0) return n;
    if (n == 0) sched_yield();
    if (is_peeking && n > 0) {
      memcpy(data + at, shown, (size_t)n);
      link->ops->consume(link, (size_t)n);
    }
    at += (size_t)n;
  }
  return (ssize_t)len;
}

static const char *run(const struct tt_transport_ops *ops, world_body body, const char *fault, const char *trace,
                       const void *argument)
{
  struct world world = {.ops = ops, .nranks = 2, .lanes = 1, .body = body, .fault = fault, .trace = trace};
  world.argument = argument;
  return world_run(&world);
}

/* ---- corrupt ------------------------------------------------------------------------ */

/* Rank 0 sends three messages; the second arrives with one bit flipped. */
static void corrupt_body(struct world_rank *me)
{
  char data[LEN], wanted[LEN];
  struct tt_link *link = world_open(me, !me->rank, 0);
  WORLD_CHECK(me, link);
  for (int m = 1; m <= 3; m++) {
    memset(data, m, LEN);
    memset(wanted, m, LEN);
    if (m == 2) wanted[0] ^= 1;
    if (me->rank == 0) {
      WORLD_CHECK(me, send_all(me, link, (uint64_t)m, data, LEN) == LEN);
      WORLD_CHECK(me, data[0] == m);
    } else {
      WORLD_CHECK(me, recv_all(me, link, (uint64_t)m, data, LEN, *(const int *)me->world->argument) == LEN);
      WORLD_CHECK(me, memcmp(data, wanted, LEN) == 0);
    }
  }
  world_barrier(me);
}

static void corrupt_flips_one_bit_of_one_message(void **state)
{
  (void)state;
  static const char *const rules[] = {"rank=0,peer=1,nth=2,action=corrupt", "rank=1,side=recv,nth=2,action=corrupt"};
  for (int k = 0; world_transports()[k]; k++)
    for (int i = 0; i < 2; i++)
      for (int is_peeking = 0; is_peeking < 2; is_peeking++) {
        const char *complaint = run(world_transports()[k], corrupt_body, rules[i], NULL, &is_peeking);
        if (complaint) fail_msg("%s, %s: %s", world_transports()[k]->name, rules[i], complaint);
      }
}

/* ---- drop ------------------------------------------------------------------------------ */

static void drop_body(struct world_rank *me)
{
  char data[64] = "";
  struct tt_link *link = world_open(me, !me->rank, 0);
  WORLD_CHECK(me, link);
  if (me->rank == 0) {
    WORLD_CHECK(me, send_all(me, link, 1, data, sizeof data) == sizeof data);
    world_barrier(me);
    WORLD_CHECK(me, send_all(me, link, 2, data, sizeof data) == TT_LINK_BROKEN);
    WORLD_CHECK(me, strstr(link->why, "TUTTI_FAULT"));
    WORLD_CHECK(me, recv_all(me, link, 1, data, sizeof data, 0) == TT_LINK_BROKEN);
  } else {
    WORLD_CHECK(me, recv_all(me, link, 1, data, sizeof data, 0) == sizeof data);
    world_barrier(me);
  }
  world_barrier(me);
}

static void drop_breaks_the_link_from_that_message_on(void **state)
{
  (void)state;
  for (int k = 0; world_transports()[k]; k++) {
    const char *complaint = run(world_transports()[k], drop_body, "rank=0,nth=2,action=drop", NULL, NULL);
    if (complaint) fail_msg("%s: %s", world_transports()[k]->name, complaint);
  }
}

/* ---- delay ----------------------------------------------------------------------------- */

static void delay_body(struct world_rank *me)
{
  char data[64] = "";
  struct tt_link *link = world_open(me, !me->rank, 0);
  WORLD_CHECK(me, link);
  world_barrier(me);
  if (me->rank == 0) {
    uint64_t start = tt_now_ns();
    WORLD_CHECK(me, send_all(me, link, 1, data, sizeof data) == sizeof data);
    WORLD_CHECK(me, tt_now_ns() - start >= 40000000);
  } else {
    WORLD_CHECK(me, recv_all(me, link, 1, data, sizeof data, 0) == sizeof data);
  }
  world_barrier(me);
}

static void delay_holds_the_bytes_back(void **state)
{
  (void)state;
  for (int k = 0; world_transports()[k]; k++) {
    const char *complaint = run(world_transports()[k], delay_body, "side=send,action=delay:40ms", NULL, NULL);
    if (complaint) fail_msg("%s: %s", world_transports()[k]->name, complaint);
  }
}

/* ---- kill ------------------------------------------------------------------------------ */

static void kill_body(struct world_rank *me)
{
  char data[64] = "";
  struct tt_link *link = world_open(me, !me->rank, 0);
  WORLD_CHECK(me, link);
  world_barrier(me);
  if (me->rank == 0) {
    for (int m = 1; m <= 3; m++) WORLD_CHECK(me, recv_all(me, link, (uint64_t)m, data, sizeof data, 0) == sizeof data);
    return;
  }
  for (int m = 1; m < 100; m++) WORLD_CHECK(me, send_all(me, link, (uint64_t)m, data, sizeof data) == sizeof data);
  world_complain(me, "still alive");
}

static void kill_ends_the_process_at_that_message(void **state)
{
  (void)state;
  struct world world = {.ops = &tt_transport_shm,
                        .nranks = 2,
                        .lanes = 1,
                        .is_forked = 1,
                        .may_die = 2,
                        .body = kill_body,
                        .fault = "rank=1,nth=4,action=kill"};
  const char *complaint = world_run(&world);
  if (complaint) fail_msg("%s", complaint);
}

/* ---- trace ----------------------------------------------------------------------------- */

static void trace_body(struct world_rank *me)
{
  char data[LEN] = "";
  struct tt_link *link = world_open(me, !me->rank, 0);
  WORLD_CHECK(me, link);
  for (uint64_t m = 1; m <= 5; m++) {
    if (me->rank == 0) WORLD_CHECK(me, send_all(me, link, m, data, LEN) == LEN);
    else WORLD_CHECK(me, recv_all(me, link, m, data, LEN, m % 2) == LEN);
  }
  world_barrier(me);
}

static int lines_with(const char *file, const char *text)
{
  char line[400];
  int n = 0;
  FILE *lines = fopen(file, "r");
  assert_non_null(lines);
  while (fgets(line, sizeof line, lines)) n += strstr(line, text) != NULL;
  fclose(lines);
  return n;
}

static void the_trace_has_a_line_per_begin_and_end(void **state)
{
  (void)state;
  for (int k = 0; world_transports()[k]; k++) {
    char pattern[100], file[100];
    snprintf(pattern, sizeof pattern, "/tmp/tutti-trace-test-%%p-%d", k);
    snprintf(file, sizeof file, "/tmp/tutti-trace-test-%d-%d", (int)getpid(), k);
    const char *complaint = run(world_transports()[k], trace_body, NULL, pattern, NULL);
    if (complaint) fail_msg("%s: %s", world_transports()[k]->name, complaint);
    assert_int_equal(lines_with(file, "rank 0 peer 1 lane 0 send begin "), 5);
    assert_int_equal(lines_with(file, "rank 0 peer 1 lane 0 send end "), 5);
    assert_int_equal(lines_with(file, "rank 1 peer 0 lane 0 recv begin "), 5);
    assert_int_equal(lines_with(file, "rank 1 peer 0 lane 0 recv end "), 5);
    assert_int_equal(lines_with(file, " 20000 AllReduce #3 "), 4);
    assert_int_equal(lines_with(file, "rank"), 20);
    unlink(file);
  }
}

static void a_decorator_that_cannot_start_leaves_the_transport(void **state)
{
  (void)state;
  struct tt_transport_spec spec = {.nranks = 1, .lanes = 1};
  struct tt_transport *inner, *outer = NULL;
  char peer_info[TT_TRANSPORT_PEER_INFO_BYTES];
  assert_int_equal(tt_transport_self.create(&inner, &spec, peer_info), tuttiSuccess);
  assert_int_equal(tt_trace_wrap(&outer, inner, &spec, "/no/such/folder/trace"), tuttiSystemError);
  assert_non_null(strstr(tt_last_sentence(), "/no/such/folder/trace"));
  assert_int_equal(tt_fault_wrap(&outer, inner, &spec, "action=explode"), tuttiInvalidArgument);
  assert_null(outer);
  struct tt_link *link;
  assert_int_equal(inner->ops->open(inner, 0, 0, &link), tuttiSuccess);
  inner->ops->destroy(inner);
}

int main(void)
{
  alarm(200);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(corrupt_flips_one_bit_of_one_message),
      cmocka_unit_test(drop_breaks_the_link_from_that_message_on),
      cmocka_unit_test(delay_holds_the_bytes_back),
      cmocka_unit_test(kill_ends_the_process_at_that_message),
      cmocka_unit_test(the_trace_has_a_line_per_begin_and_end),
      cmocka_unit_test(a_decorator_that_cannot_start_leaves_the_transport),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
