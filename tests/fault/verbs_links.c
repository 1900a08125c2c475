/* SPDX-License-Identifier: BSD-3-Clause */
/* On the double of libibverbs: what fails at one link says so at both of its ends, with peer, device and what the
 * device said in words, and breaks no other link; a port that comes back in time breaks none. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "fake_verbs.h"
#include "traffic.h"

static const struct fake_verbs *fake;

#define RANKS 3

struct trial {
  int status;                /* of a send; 0: none fails */
  void (*fault)(void);       /* or this happens; NULL: nothing */
  int port_returns;          /* while they are at it */
  char why[RANKS][200];      /* of the link between ranks 0 and 1; "": it did not break */
  size_t largest;
};

/* Traffic of `messages` both ways; the link's own words if it breaks, else NULL. */
static const char *exchange(struct world_rank *me, struct tt_link *link, int peer, int messages, size_t largest)
{
  struct flow out, in;
  const char *why = NULL;
  flow_start(&out, me, link, me->rank, peer);
  flow_start(&in, me, link, peer, me->rank);
  out.messages = in.messages = messages;
  out.largest = in.largest = largest;
  while (!why && (!flow_is_done(&out) || !flow_is_done(&in)) && !world_is_over(me)) {
    ssize_t n = flow_is_done(&out) ? 0 : flow_send(&out), m = flow_is_done(&in) ? 0 : flow_recv(&in);
    if (n == WRONG_BYTES || m == WRONG_BYTES) world_complain(me, "wrong bytes");
    if (n == TT_LINK_BROKEN || m == TT_LINK_BROKEN) why = link->why;
    if (n == 0 && m == 0) sched_yield();
  }
  flow_end(&out);
  flow_end(&in);
  return why;
}

/* Ranks 0 and 1 meet the fault; then each of them still talks with rank 2. */
static void one_link_fails(struct world_rank *me)
{
  struct trial *trial = (struct trial *)(uintptr_t)me->world->argument;
  struct tt_link *links[RANKS] = {NULL};
  for (int peer = 0; peer < RANKS; peer++)
    if (peer != me->rank && !(links[peer] = world_open(me, peer, 0))) return;
  world_barrier(me);
  if (me->rank == 0) {
    fake->settings->send_status = trial->status;
    fake->settings->send_at = trial->status ? 3 : 0;
    if (trial->fault) trial->fault();
  }
  world_barrier(me);
  if (me->rank < 2) {
    const char *why = exchange(me, links[!me->rank], !me->rank, 50, trial->largest);
    snprintf(trial->why[me->rank], sizeof trial->why[me->rank], "%s", why ? why : "");
  }
  if (me->rank == 2 && trial->port_returns) {
    tt_sleep_ns(100000000);
    fake->port(1);
  }
  world_barrier(me);
  if (trial->fault) return;
  for (int peer = 0; peer < RANKS; peer++) {
    if (peer == me->rank || (me->rank < 2 && peer < 2)) continue;
    const char *why = exchange(me, links[peer], peer, 20, 300000);
    if (why) world_complain(me, "%s", why);
  }
  world_barrier(me);
}

static void run(struct trial *trial)
{
  struct world world = {
      .ops = &tt_transport_verbs, .nranks = RANKS, .lanes = 1, .body = one_link_fails, .argument = trial};
  const char *complaint = world_run(&world);
  if (complaint) fail_msg("%s", complaint);
  fake->reset();
  assert_true(fake->is_clean());
}

static void expect_words(const struct trial *trial, int rank, const char *words)
{
  char peer[32];
  const char *why = trial->why[rank];
  snprintf(peer, sizeof peer, "rank %d ", !rank);
  if (!strstr(why, peer) || !strstr(why, "fake0 port 1") || !strstr(why, words))
    fail_msg("rank %d says \"%s\", not \"%s\" of %s", rank, why, words, peer);
}

static void what_is_refused_is_said_at_both_ends_and_breaks_nothing_else(void **state)
{
  static const int statuses[] = {IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR};
  (void)state;
  for (int seed = 0; seed < 3; seed++)
    for (size_t i = 0; i < 3; i++) {
      struct trial trial = {.status = statuses[i], .largest = 1000};
      int is_access = statuses[i] == IBV_WC_REM_ACCESS_ERR;
      fake->reset();
      fake->settings->seed = seed;
      fake->settings->delay_us = 100;
      run(&trial);
      const char *status = ibv_wc_status_str((enum ibv_wc_status)statuses[i]);
      int sender = strstr(trial.why[0], status) ? 0 : 1;
      expect_words(&trial, sender, status);
      expect_words(&trial, sender, "the peer's device refused it");
      expect_words(&trial, !sender, ibv_event_type_str(is_access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR));
    }
}

/* ---- the device and its port ---- */

static void remove_it(void)
{
  fake->remove();
}

static void drop_port(void)
{
  fake->port(0);
}


static void a_removed_device_is_said_to_be_removed(void **state)
{
  struct trial trial = {.fault = remove_it, .largest = 100000};
  (void)state;
  fake->reset();
  run(&trial);
  for (int rank = 0; rank < 2; rank++) expect_words(&trial, rank, "removed");
}

static void a_port_that_comes_back_breaks_nothing(void **state)
{
  struct trial trial = {.fault = drop_port, .port_returns = 1, .largest = 100000};
  (void)state;
  fake->reset();
  run(&trial);
  for (int rank = 0; rank < 2; rank++) assert_string_equal(trial.why[rank], "");
}

static void a_port_that_stays_down_is_named_when_the_device_gives_up(void **state)
{
  struct trial trial = {.fault = drop_port, .largest = 100000};
  (void)state;
  fake->reset();
  setenv("TUTTI_IB_TIMEOUT", "8", 1);
  run(&trial);
  unsetenv("TUTTI_IB_TIMEOUT");
  for (int rank = 0; rank < 2; rank++) {
    expect_words(&trial, rank, ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR));
    expect_words(&trial, rank, "port is down");
  }
}

/* ---- the end ---- */

/* A message is on its way that will never arrive, for its receiver ends; the sender's end does not wait for it. */
static void the_peer_ends(struct world_rank *me)
{
  static const char data[64] = "never arrives";
  struct tt_link *link = world_open(me, !me->rank, 0);
  if (!link) return;
  world_barrier(me);
  fake->settings->hold = 3;
  if (me->rank == 0) {
    struct tt_call call = {.op = 1, .count = sizeof data, .type = tuttiUint8};
    struct tt_head head = {tt_call_word(&call), sizeof data, &call, 0};
    link->ops->send_begin(link, &head);
    WORLD_CHECK(me, link->ops->send(link, data, sizeof data) == sizeof data);
  }
  world_barrier(me);
  if (me->rank == 1 && me->world->may_die) raise(SIGKILL);
  me->settings.unreachable_ms = 600000;
}

static void nobody_waits_for_who_has_ended(void **state)
{
  (void)state;
  for (int is_killed = 0; is_killed < 2; is_killed++) {
    fake->reset();
    setenv("TUTTI_IB_TIMEOUT", "31", 1); /* the device tries for hours */
    struct world world = {.ops = &tt_transport_verbs, .nranks = 2, .lanes = 1, .is_forked = 1, .body = the_peer_ends};
    world.may_die = is_killed ? 2 : 0;
    const char *complaint = world_run(&world);
    unsetenv("TUTTI_IB_TIMEOUT");
    if (complaint) fail_msg("%s", complaint);
    fake->reset(); /* forgets what the killed one had */
    assert_true(fake->is_clean());
  }
}

int main(void)
{
  fake = fake_verbs();
  setenv("TUTTI_DEBUG", "NONE", 1);
  if (tt_auth_init() != tuttiSuccess) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_waits_for_who_has_ended),
      cmocka_unit_test(what_is_refused_is_said_at_both_ends_and_breaks_nothing_else),
      cmocka_unit_test(a_removed_device_is_said_to_be_removed),
      cmocka_unit_test(a_port_that_comes_back_breaks_nothing),
      cmocka_unit_test(a_port_that_stays_down_is_named_when_the_device_gives_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
