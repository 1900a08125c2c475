/* SPDX-License-Identifier: BSD-3-Clause */
/* Transports come and go without a trace, whatever was under way. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport_pair.h"

#define ROUNDS 200

struct holdings {
  int descriptors, mappings;
};

static struct holdings holdings(void)
{
  struct holdings held = {0, 0};
  char line[512];
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder)) held.descriptors++;
  closedir(folder);
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps))
    if (strstr(line, "tutti-")) held.mappings++;
  fclose(maps);
  return held;
}

/* How far a rank gets before it is destroyed, by round: nothing opened, opening under way, everything used. */
static void round_body(struct world_rank *me)
{
  int stage = *(const int *)me->world->argument % 4, peer = !me->rank;
  struct tt_link *link;
  if (stage == 0) return;
  if (stage == 1) {
    me->transport->ops->open(me->transport, peer, 0, &link);
    return;
  }
  if (stage == 2 && me->rank == 0) {
    for (int i = 0; i < 50; i++) me->transport->ops->open(me->transport, peer, 1, &link);
    return;
  }
  if (stage == 2) return;
  char data[5000] = "";
  size_t sent = 0, got = 0;
  struct tt_head head = {.word = 3, .len = sizeof data, .call = &(struct tt_call){.op = 1}};
  link = world_open(me, peer, 0);
  WORLD_CHECK(me, link);
  link->ops->send_begin(link, &head);
  link->ops->recv_begin(link, &head);
  while ((sent < sizeof data || got < sizeof data) && !world_is_over(me)) {
    ssize_t n = sent < sizeof data ? link->ops->send(link, data + sent, sizeof data - sent) : 0;
    ssize_t m = got < sizeof data ? link->ops->recv(link, data + got, sizeof data - got) : 0;
    WORLD_CHECK(me, n >= 0 && m >= 0);
    sent += (size_t)n;
    got += (size_t)m;
    if (n + m == 0) sched_yield();
  }
  world_barrier(me);
}

static void nothing_stays_after_destroy(void **state)
{
  (void)state;
  struct holdings before = {0, 0};
  for (int k = 0; world_transports()[k]; k++)
    for (int round = 0; round < ROUNDS; round++) {
      struct world world = {
          .ops = world_transports()[k], .nranks = 2, .lanes = 2, .body = round_body, .argument = &round};
      if (round % 8 > 3) world.trace = "/dev/null";
      const char *complaint = world_run(&world);
      if (complaint) fail_msg("%s, round %d: %s", world.ops->name, round, complaint);
      struct holdings now = holdings();
      if (k == 0 && round == 0) before = now;
      assert_int_equal(now.descriptors, before.descriptors);
      assert_int_equal(now.mappings, before.mappings);
    }
}

/* The n-th allocation fails, for every n: an error or success, and nothing stays. */
static void failed_allocations_leave_nothing(void **state)
{
  (void)state;
  struct holdings before = holdings();
  struct tt_settings settings;
  struct tt_credentials credentials = {.epoch = 3};
  uint64_t hosts[2] = {1, 2};
  int32_t pids[2] = {1, 2};
  static char peer_infos[2][TT_TRANSPORT_PEER_INFO_BYTES];
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  struct tt_address loopback, local = {.len = 0};
  assert_int_equal(tt_address_parse(&loopback, "127.0.0.1:0"), tuttiSuccess);
  struct tt_transport_spec spec = {
      .nranks = 2, .lanes = 1, .settings = &settings, .credentials = &credentials, .hosts = hosts, .pids = pids};
  assert_int_equal(tt_listener_open(&spec.ip_listener, &loopback), tuttiSuccess);
  assert_int_equal(tt_listener_open(&spec.local_listener, &local), tuttiSuccess);
  for (int k = 0; world_transports()[k]; k++)
    for (long n = 1, is_failing = 1; is_failing; n++) {
      struct tt_transport *transport = NULL, *traced = NULL, *faulty = NULL;
      const struct tt_transport_ops *ops = world_transports()[k];
      assert_true(n < 100);
      tt_alloc_fail_at(n);
      is_failing = ops->create(&transport, &spec, peer_infos[0]) != tuttiSuccess;
      is_failing = is_failing || ops->connect(transport, peer_infos, TT_TRANSPORT_PEER_INFO_BYTES) != tuttiSuccess;
      if (!is_failing && tt_trace_wrap(&traced, transport, &spec, "/dev/null") == tuttiSuccess) transport = traced;
      if (!is_failing && tt_fault_wrap(&faulty, transport, &spec, "action=drop") == tuttiSuccess) transport = faulty;
      is_failing = is_failing || !traced || !faulty;
      tt_alloc_fail_at(0);
      if (transport) transport->ops->destroy(transport);
    }
  tt_transport_shm.destroy(NULL);
  tt_transport_verbs.destroy(NULL);
  tt_transport_tcp.destroy(NULL);
  tt_transport_self.destroy(NULL);
  tt_listener_close(spec.ip_listener);
  tt_listener_close(spec.local_listener);
  struct holdings now = holdings();
  assert_int_equal(now.descriptors, before.descriptors);
  assert_int_equal(now.mappings, before.mappings);
}

int main(void)
{
  alarm(250);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_stays_after_destroy),
      cmocka_unit_test(failed_allocations_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
