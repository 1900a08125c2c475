/* SPDX-License-Identifier: BSD-3-Clause */
/* On the double of libibverbs: each verb fails in turn, at its first call, its second and so on. Whoever needed it gets
 * an error whose sentence tells what was wrong, or does without; nobody waits for ever; nothing is left. And what
 * a host lacks is why the transport is not used. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "census.h"
#include "fake_verbs.h"
#include "traffic.h"
#include "transport/verbs_private.h"

#define CODE EL3RST /* an errno that nothing else gives: its words are the sentence's */
#define MOST 40     /* calls of a verb that are tried */

static const struct fake_verbs *fake;

/* What the transport uses before data moves, and to end. */
static const char *const setup[] = {
    "ibv_get_device_list",       "ibv_open_device", "ibv_query_device", "ibv_query_port", "ibv_query_gid_ex",
    "ibv_alloc_pd",              "ibv_reg_mr",      "ibv_create_cq",    "ibv_create_qp",  "ibv_modify_qp",
    "rdma_create_event_channel", "rdma_create_id",  "rdma_bind_addr",   "ibv_post_recv",  "ibv_create_comp_channel"};
static const char *const ending[] = {"ibv_destroy_qp", "ibv_destroy_cq",  "ibv_dereg_mr",
                                     "ibv_dealloc_pd", "ibv_close_device", "ibv_destroy_comp_channel"};

static void exchange(struct world_rank *me)
{
  struct flow out, in;
  struct tt_link *link = world_open(me, !me->rank, 0);
  if (!link) return;
  flow_start(&out, me, link, me->rank, !me->rank);
  flow_start(&in, me, link, !me->rank, me->rank);
  out.messages = in.messages = 20;
  out.largest = in.largest = *(const size_t *)me->world->argument;
  while ((!flow_is_done(&out) || !flow_is_done(&in)) && !world_is_over(me)) {
    ssize_t n = flow_is_done(&out) ? 0 : flow_send(&out), m = flow_is_done(&in) ? 0 : flow_recv(&in);
    if (n == WRONG_BYTES || m == WRONG_BYTES) world_complain(me, "wrong bytes");
    if (n < 0 || m < 0) world_complain(me, "%s", link->why);
    if (n == 0 && m == 0) sched_yield();
  }
  flow_end(&out);
  flow_end(&in);
  world_barrier(me);
}

static const size_t ordinary = 100000;
static const struct world world = {
    .ops = &tt_transport_verbs, .nranks = 2, .lanes = 1, .body = exchange, .argument = &ordinary};

static int is_in_time(uint64_t began_ns)
{
  return tt_now_ns() - began_ns < 40000000000u; /* the world would wait longer */
}

/* Returns how often the verb was made to fail. */
static long fail_in_turn(const char *verb, int is_ending)
{
  long n = 1, errors = 0;
  for (int fired = 1; fired && n < MOST; n++) {
    uint64_t began = tt_now_ns();
    fake->reset();
    fake->settings->seed = 7;
    fake->break_at(verb, n, CODE);
    const char *complaint = world_run(&world);
    fired = fake->failed()[0] != 0;
    fake->break_at(NULL, 0, 0);
    if (complaint && (!fired || is_ending)) fail_msg("%s, call %ld: %s", verb, n, complaint);
    if (complaint && !strstr(complaint, strerror(CODE)) && !strstr(complaint, "verbs link"))
      fail_msg("%s, call %ld: the sentence does not tell: %s", verb, n, complaint);
    if (!is_in_time(began)) fail_msg("%s, call %ld: that took too long", verb, n);
    if (!fake->is_clean()) fail_msg("%s, call %ld: something is left", verb, n);
    errors += complaint != NULL;
  }
  printf("%s: %ld calls, %ld errors\n", verb, n - 2, errors);
  return n - 2;
}

static void any_verb_that_fails_is_an_error_with_a_sentence(void **state)
{
  struct census before, after;
  long calls = 0;
  (void)state;
  assert_null(world_run(&world));
  census_take(&before);
  for (size_t v = 0; v < sizeof setup / sizeof setup[0]; v++) calls += fail_in_turn(setup[v], 0);
  assert_true(calls > 20);
  assert_true(census_same(&before, &after, 256));
}

static void a_verb_that_fails_at_the_end_keeps_nothing(void **state)
{
  long calls = 0;
  (void)state;
  for (size_t v = 0; v < sizeof ending / sizeof ending[0]; v++) calls += fail_in_turn(ending[v], 1);
  assert_true(calls >= 10);
}

static void a_verb_that_fails_under_way_breaks_the_link(void **state)
{
  static const char *const verbs[] = {"ibv_post_send", "ibv_post_recv", "ibv_poll_cq"};
  (void)state;
  for (size_t v = 0; v < sizeof verbs / sizeof verbs[0]; v++)
    for (long n = 5; n < 100; n = 2 * n + 1) {
      fake->reset();
      fake->break_at(verbs[v], n, CODE);
      const char *complaint = world_run(&world);
      int fired = fake->failed()[0] != 0;
      if (n == 5) assert_true(fired && complaint); /* a later one may be the last, which nobody misses */
      /* The rank where it failed names the device; if the link was not proved yet, its peer may tell first. */
      int is_told = complaint && (strstr(complaint, "fake0") || strstr(complaint, "no verbs link"));
      if (complaint && (!fired || !is_told))
        fail_msg("%s, call %ld: %s", verbs[v], n, complaint);
      fake->break_at(NULL, 0, 0);
      assert_true(fake->is_clean());
    }
}

/* ---- what a host lacks ---- */

static void expect_unusable(const char *words)
{
  struct tt_settings settings;
  char why[400] = "";
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  const char *reason = tt_transport_verbs.unusable(&settings, why, sizeof why);
  if (!reason || !strstr(reason, words)) fail_msg("\"%s\" does not say \"%s\"", reason ? reason : "usable", words);
  assert_true(strstr(reason, ": ") != NULL); /* and what to do */
  assert_true(fake->is_clean());
  fake->reset();
}

/* As this process is told by its shell. */
static const char *limit_words(void)
{
  static char words[64];
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  snprintf(words, sizeof words, limit.rlim_cur == RLIM_INFINITY ? "no limit" : "limit of %llu KiB",
           (unsigned long long)(limit.rlim_cur >> 10));
  return words;
}

static void what_a_host_lacks_is_said_with_the_remedy(void **state)
{
  struct tt_settings settings;
  char why[400];
  (void)state;
  fake->reset();
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  assert_null(tt_transport_verbs.unusable(&settings, why, sizeof why));
  fake->settings->devices = 0;
  expect_unusable("RDMA device");
  fake->settings->port_down = 1;
  expect_unusable("not active");
  fake->settings->memlock = 65536;
  expect_unusable("ulimit -l");
  fake->settings->memlock = 65536;
  expect_unusable(limit_words());
  fake->settings->max_qp_wr = 8;
  expect_unusable("TUTTI_IB_SLOTS");
  setenv("TUTTI_IB_GID_INDEX", "17", 1);
  expect_unusable("TUTTI_IB_GID_INDEX");
  unsetenv("TUTTI_IB_GID_INDEX");
  setenv("TUTTI_IB_HCA", "=other", 1);
  expect_unusable("TUTTI_IB_HCA");
  unsetenv("TUTTI_IB_HCA");
}

static void a_device_without_the_address_of_the_interface_is_good_enough(void **state)
{
  static const char *const verbs[] = {"rdma_create_event_channel", "rdma_create_id", "rdma_bind_addr"};
  struct tt_settings settings;
  char why[400];
  (void)state;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  for (size_t v = 0; v < sizeof verbs / sizeof verbs[0]; v++) {
    fake->reset();
    fake->break_at(verbs[v], 1, CODE);
    assert_null(tt_transport_verbs.unusable(&settings, why, sizeof why));
    assert_string_equal(fake->failed(), verbs[v]);
    fake->break_at(NULL, 0, 0);
    assert_true(fake->is_clean());
  }
}

static void a_device_takes_as_many_bytes_inline_as_it_can(void **state)
{
  static const long most[] = {0, 40, 60, 100, 200, 256};
  static const size_t tiny = 8;
  struct world little = world;
  (void)state;
  little.argument = &tiny;
  for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
    fake->reset();
    fake->settings->max_inline = most[i];
    const char *complaint = world_run(&little);
    if (complaint) fail_msg("%s", complaint);
    assert_int_equal(fake->count().inlines > 0, most[i] >= 60); /* less has no place for a head and an element */
  }
}

/* It says that memory was registered before anybody asked for this: that only concerns who forks. */
static void a_host_that_cannot_prepare_for_forks_is_good_enough(void **state)
{
  (void)state;
  fake->reset();
  fake->break_at("ibv_fork_init", 1, CODE);
  assert_null(world_run(&world));
  assert_string_equal(fake->failed(), "ibv_fork_init");
  fake->break_at(NULL, 0, 0);
}

/* ---- what links take ---- */

enum { LANES = 2, SLOTS = 8, SLOT_BYTES = 8192 };

static void open_all(struct world_rank *me)
{
  int n = me->world->nranks;
  for (int peer = 0; peer < n; peer++)
    for (int lane = 0; lane < LANES && peer != me->rank; lane++)
      if (!world_open(me, peer, lane)) return;
  world_barrier(me);
  struct fake_verbs_counts counts = fake->count();
  long links = (long)n * (n - 1) * LANES;
  WORLD_CHECK(me, counts.qps == links && counts.cqs == links);
  WORLD_CHECK(me, counts.registered == links * 2 * (SLOTS * SLOT_BYTES + VERBS_ANSWER_BYTES));
  WORLD_CHECK(me, counts.contexts == n && counts.pds == n && counts.channels == n);
  world_barrier(me);
}

static void a_link_takes_one_queue_pair_and_two_rings(void **state)
{
  (void)state;
  for (int n = 2; n <= 5; n++) {
    struct world all = {.ops = &tt_transport_verbs, .nranks = n, .lanes = LANES, .slots = SLOTS,
                        .slot_bytes = SLOT_BYTES, .body = open_all};
    fake->reset();
    const char *complaint = world_run(&all);
    if (complaint) fail_msg("%d ranks: %s", n, complaint);
    assert_true(fake->is_clean());
  }
}

int main(void)
{
  fake = fake_verbs();
  setenv("TUTTI_DEBUG", "NONE", 1);
  if (tt_auth_init() != tuttiSuccess) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_host_lacks_is_said_with_the_remedy),
      cmocka_unit_test(a_device_without_the_address_of_the_interface_is_good_enough),
      cmocka_unit_test(a_device_takes_as_many_bytes_inline_as_it_can),
      cmocka_unit_test(a_link_takes_one_queue_pair_and_two_rings),
      cmocka_unit_test(a_host_that_cannot_prepare_for_forks_is_good_enough),
      cmocka_unit_test(any_verb_that_fails_is_an_error_with_a_sentence),
      cmocka_unit_test(a_verb_that_fails_at_the_end_keeps_nothing),
      cmocka_unit_test(a_verb_that_fails_under_way_breaks_the_link),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
