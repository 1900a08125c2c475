/* SPDX-License-Identifier: BSD-3-Clause */
/* On the double of libibverbs: what lies in registered memory is sent from there and written straight into place, never
 * a byte too early or too late; what was registered is taken back in time; nothing is registered twice. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_verbs.h"
#include "transport/verbs_private.h"
#include "transport_pair.h"

#define LONG 1500000
#define SHORT 40000 /* sent from where it lies, but not straight into place */

static const struct fake_verbs *fake;

enum way { BY_RECV, BY_PEEK };

/* A message from rank 0 to rank 1. */
struct trip {
  enum way way;
  size_t len;
  int messages, is_from_heap, is_to_heap;
};

static void fill(unsigned char *data, size_t len, int salt)
{
  for (size_t i = 0; i < len; i++) data[i] = (unsigned char)(i * 7 + i / 251 + (size_t)salt * 31);
}

static int is_filled(const unsigned char *data, size_t at, size_t len, int salt)
{
  for (size_t i = at; i < at + len; i++)
    if (data[i - at] != (unsigned char)(i * 7 + i / 251 + (size_t)salt * 31)) return 0;
  return 1;
}

static unsigned char *get(int is_in_heap, size_t len)
{
  void *data = NULL;
  if (!is_in_heap) return malloc(len);
  return tt_heap_alloc(&data, len) == tuttiSuccess ? data : NULL;
}

static void give(int is_in_heap, void *data)
{
  if (is_in_heap) tt_heap_free(data);
  else free(data);
}

/* Some of what follows byte `done` of message k: as the link function. */
static ssize_t receive(struct world_rank *me, struct tt_link *link, const struct trip *trip, unsigned char *data,
                       size_t done, int k)
{
  const void *shown;
  if (trip->way == BY_RECV) return link->ops->recv(link, data + done, trip->len - done);
  ssize_t n = link->ops->peek(link, &shown, 1);
  if (n > 0 && !is_filled(shown, done, (size_t)n, k)) world_complain(me, "wrong bytes shown");
  if (n > 0) link->ops->consume(link, (size_t)n);
  return n;
}

/* One message of this call, filled with k; 1 if it has passed. */
static int carry(struct world_rank *me, struct tt_link *link, const struct trip *trip, const struct tt_call *call,
                 unsigned char *data, int k)
{
  struct tt_head head = {.word = tt_call_word(call), .len = trip->len, .call = call};
  if (me->rank == 0) fill(data, trip->len, k);
  if (me->rank == 0) link->ops->send_begin(link, &head);
  else link->ops->recv_begin(link, &head);
  for (size_t done = 0; done < trip->len && !world_is_over(me);) {
    ssize_t n = me->rank == 0 ? link->ops->send(link, data + done, trip->len - done)
                              : receive(me, link, trip, data, done, k);
    if (n < 0) world_complain(me, "message %d: %s", k, link->why);
    if (n > 0) done += (size_t)n;
    else sched_yield();
  }
  if (me->rank == 1 && trip->way == BY_RECV && !is_filled(data, 0, trip->len, k)) world_complain(me, "wrong bytes");
  return !world_is_over(me);
}

static int pass(struct world_rank *me, struct tt_link *link, const struct trip *trip, unsigned char *data, int k)
{
  const struct tt_call call = {.op = 1 + (uint64_t)k, .count = trip->len, .collective = TT_PAIRS};
  return carry(me, link, trip, &call, data, k);
}

static uint64_t directs_of(const struct tt_link *link)
{
  return ((const struct verbs_link *)link)->out.directs;
}

static uint64_t asks_of(const struct tt_link *link)
{
  return ((const struct verbs_link *)link)->out.asks;
}

static void travel(struct world_rank *me)
{
  const struct trip *trip = me->world->argument;
  struct tt_link *link = world_open(me, !me->rank, 0);
  int is_in_heap = me->rank == 0 ? trip->is_from_heap : trip->is_to_heap;
  unsigned char *data = get(is_in_heap, trip->len);
  if (!link) return;
  for (int k = 0; k < trip->messages && pass(me, link, trip, data, k); k++) {}
  int goes = trip->way == BY_RECV && trip->is_from_heap && trip->is_to_heap;
  uint64_t most = me->settings.ib_direct_bytes && trip->len >= (size_t)me->settings.ib_direct_bytes;
  if (me->rank == 0) WORLD_CHECK(me, directs_of(link) == (goes && most ? (uint64_t)trip->messages : 0));
  uint64_t asks = !most || !trip->is_from_heap ? 0 : trip->way == BY_RECV ? (uint64_t)trip->messages : 1;
  if (me->rank == 0) WORLD_CHECK(me, asks_of(link) == asks); /* who reduces says so once */
  world_barrier(me);
  give(is_in_heap, data);
}

static struct world world_of(const struct trip *trip, world_body body)
{
  return (struct world){.ops = &tt_transport_verbs, .nranks = 2, .lanes = 1, .body = body, .argument = trip};
}

static void expect_ok(struct world world)
{
  const char *complaint = world_run(&world);
  if (complaint) fail_msg("%s", complaint);
  assert_true(fake->is_clean());
}

static void long_messages_of_registered_memory_go_straight_into_place(void **state)
{
  (void)state;
  for (int k = 0; k < 16; k++)
    for (int is_forked = 0; is_forked < 2; is_forked++) {
      struct trip trip = {k & 1 ? BY_PEEK : BY_RECV, k & 2 ? SHORT : LONG, 5, (k & 4) != 0, (k & 8) != 0};
      struct world world = world_of(&trip, travel);
      fake->reset();
      fake->settings->seed = k + 1;
      fake->settings->delay_us = 50;
      fake->settings->scribble = 1;
      fake->settings->fatal = 1;
      world.is_forked = is_forked;
      expect_ok(world);
    }
}

/* ---- what is reduced ---- */

enum { CALLS = 3, MESSAGES = 4 };

/* Every second message of a call is reduced where it arrives; the last call is of another shape. */
static void reduce_and_copy(struct world_rank *me)
{
  struct tt_link *link = world_open(me, !me->rank, 0);
  unsigned char *data = get(1, LONG);
  if (!link) return;
  for (int k = 0; k < CALLS * MESSAGES && !world_is_over(me); k++) {
    struct trip trip = {k % 2 ? BY_RECV : BY_PEEK, LONG, 1, 1, 1};
    struct tt_call call = {.op = 1 + (uint64_t)k / MESSAGES, .count = LONG, .collective = TT_ALL_REDUCE};
    if (k / MESSAGES == CALLS - 1) call.redop = 1;
    carry(me, link, &trip, &call, data, k);
  }
  if (me->rank == 0) WORLD_CHECK(me, directs_of(link) == CALLS * MESSAGES / 2);
  if (me->rank == 0) WORLD_CHECK(me, asks_of(link) == MESSAGES + MESSAGES / 2 + MESSAGES);
  world_barrier(me);
  give(1, data);
}

static void nobody_asks_again_for_what_is_reduced(void **state)
{
  (void)state;
  fake->reset();
  expect_ok(world_of(NULL, reduce_and_copy));
}

/* ---- what is registered ---- */

/* Rank 0 looks at the counts, which are those of both ranks, threads of one process. */
static void register_and_free(struct world_rank *me)
{
  static const struct trip trip = {BY_RECV, LONG, 1, 1, 1};
  struct tt_link *link = world_open(me, !me->rank, 0);
  unsigned char *data = get(1, LONG);
  if (!link) return;
  world_barrier(me);
  long before = fake->count().regions;
  world_barrier(me);
  for (int k = 0; k < 6; k++) {
    WORLD_CHECK(me, pass(me, link, &trip, data, k));
    world_barrier(me);
    WORLD_CHECK(me, fake->count().regions == before + 2);
    if (k == 0) fake->break_at("ibv_reg_mr", 1, EIO); /* nothing is registered from here on, */
    if (k == 3) WORLD_CHECK(me, !fake->failed()[0]);
    if (k == 3) fake->break_at(NULL, 0, 0);
    world_barrier(me);
    if (k < 3) continue;
    give(1, data);
    world_barrier(me);
    WORLD_CHECK(me, fake->count().regions == before); /* and what is freed is taken back */
    world_barrier(me);
    if (me->rank == 0) data = get(1, LONG);
    world_barrier(me);
    if (me->rank == 1) data = get(1, LONG);
    world_barrier(me);
  }
  give(1, data);
  world_barrier(me);
}

static void memory_is_registered_once_and_until_it_is_freed(void **state)
{
  (void)state;
  fake->reset();
  expect_ok(world_of(NULL, register_and_free));
}

static void little(struct world_rank *me)
{
  static const struct trip trip = {BY_RECV, LONG, 1, 1, 1};
  struct tt_link *link = world_open(me, !me->rank, 0);
  unsigned char *data = get(1, LONG);
  if (!link) return;
  world_barrier(me);
  fake->settings->memlock = fake->count().registered;
  world_barrier(me);
  for (int k = 0; k < 3; k++) WORLD_CHECK(me, pass(me, link, &trip, data, k));
  WORLD_CHECK(me, directs_of(link) == 0);
  world_barrier(me);
  give(1, data);
}

static void what_cannot_be_registered_is_copied(void **state)
{
  (void)state;
  fake->reset();
  expect_ok(world_of(NULL, little));
}

/* The limit of locked memory has room for a block of each rank and one ring of a second lane, not for both rings: one
 * block goes for these, whichever rank comes first (the limit is the process's, and ranks are threads). */
static void open_another(struct world_rank *me)
{
  static const struct trip trip = {BY_RECV, LONG, 1, 1, 1};
  struct tt_link *link = world_open(me, !me->rank, 0), *other;
  unsigned char *data = get(1, LONG);
  if (!link) return;
  world_barrier(me);
  fake->settings->memlock = fake->count().registered + 3 * 2200000;
  world_barrier(me);
  WORLD_CHECK(me, pass(me, link, &trip, data, 0));
  if (me->rank == 0) WORLD_CHECK(me, directs_of(link) == 1);
  world_barrier(me);
  WORLD_CHECK(me, (other = world_open(me, !me->rank, 1)) != NULL);
  for (int k = 1; k < 4; k++) WORLD_CHECK(me, pass(me, k % 2 ? other : link, &trip, data, k));
  world_barrier(me);
  give(1, data);
}

static void a_ring_comes_before_blocks_that_are_registered(void **state)
{
  struct world world = world_of(NULL, open_another);
  (void)state;
  world.lanes = 2;
  fake->reset();
  expect_ok(world);
}

/* ---- what users register ---- */

static void register_and_pass(struct world_rank *me)
{
  static const struct trip trip = {BY_RECV, LONG, 1, 0, 0};
  struct tt_link *link = world_open(me, !me->rank, 0);
  unsigned char *data = get(0, LONG);
  const struct tt_registered what = {data, LONG, -1, 0};
  void *handles[2] = {NULL, NULL};
  if (!link) return;
  world_barrier(me);
  long before = fake->count().regions;
  world_barrier(me);
  for (int h = 0; h < 2; h++)
    WORLD_CHECK(me, me->transport->ops->register_memory(me->transport, &what, &handles[h]) == tuttiSuccess &&
                handles[h]);
  me->transport->ops->deregister_memory(me->transport, handles[0]); /* the other one is left */
  WORLD_CHECK(me, pass(me, link, &trip, data, 0));
  if (me->rank == 0) WORLD_CHECK(me, directs_of(link) == 1);
  world_barrier(me);
  me->transport->ops->deregister_memory(me->transport, handles[1]);
  world_barrier(me);
  WORLD_CHECK(me, fake->count().regions == before);
  WORLD_CHECK(me, pass(me, link, &trip, data, 1));
  if (me->rank == 0) WORLD_CHECK(me, directs_of(link) == 1);
  world_barrier(me);
  free(data);
}

static void what_users_register_goes_straight_into_place_until_they_take_it_back(void **state)
{
  (void)state;
  fake->reset();
  expect_ok(world_of(NULL, register_and_pass));
}

/* What could not be registered says why, also when it is asked again; and what ends behind its block is no memory. */
static void register_in_vain(struct world_rank *me)
{
  unsigned char *data = get(1, LONG);
  const struct tt_registered what = {data, LONG, -1, 0}, too_long = {data, (size_t)LONG + 65536, -1, 0};
  void *handle = NULL;
  world_barrier(me);
  if (me->rank == 0) {
    WORLD_CHECK(me, me->transport->ops->register_memory(me->transport, &too_long, &handle) == tuttiSystemError);
    WORLD_CHECK(me, strstr(tt_last_sentence(), strerror(EFAULT)) != NULL);
    fake->break_at("ibv_reg_mr", 1, EPERM);
    for (int k = 0; k < 2; k++) {
      WORLD_CHECK(me, me->transport->ops->register_memory(me->transport, &what, &handle) == tuttiSystemError);
      WORLD_CHECK(me, strstr(tt_last_sentence(), strerror(EPERM)) && !strstr(tt_last_sentence(), "ulimit"));
    }
  }
  world_barrier(me);
  give(1, data);
}

static void what_users_register_in_vain_says_why(void **state)
{
  (void)state;
  fake->reset();
  expect_ok(world_of(NULL, register_in_vain));
}

/* The file stands for memory of a GPU: it is not mapped where `data` points. */
static void register_descriptor(struct world_rank *me)
{
  int fd = memfd_create("gpu", MFD_CLOEXEC);
  struct tt_registered what = {(void *)(uintptr_t)0x7000000000, LONG, fd, 8192};
  void *handle = NULL;
  WORLD_CHECK(me, fd >= 0 && ftruncate(fd, LONG + 8192) == 0);
  world_barrier(me);
  long before = fake->count().registered;
  world_barrier(me);
  WORLD_CHECK(me, me->transport->ops->register_memory(me->transport, &what, &handle) == tuttiSuccess && handle);
  world_barrier(me);
  WORLD_CHECK(me, fake->count().registered == before + 2 * LONG);
  world_barrier(me);
  me->transport->ops->deregister_memory(me->transport, handle);
  world_barrier(me);
  WORLD_CHECK(me, fake->count().registered == before);
  world_barrier(me);
  if (me->rank == 0) {
    fake->break_at("ibv_reg_dmabuf_mr", 1, EOPNOTSUPP);
    WORLD_CHECK(me, me->transport->ops->register_memory(me->transport, &what, &handle) == tuttiSystemError);
    WORLD_CHECK(me, strstr(tt_last_sentence(), "ibv_reg_dmabuf_mr") && strstr(tt_last_sentence(), "fake0"));
    WORLD_CHECK(me, strstr(tt_last_sentence(), "kernel modules") && !strstr(tt_last_sentence(), "ulimit"));
  }
  close(fd);
  world_barrier(me);
}

static void memory_behind_a_descriptor_is_registered_as_a_dma_buf(void **state)
{
  (void)state;
  fake->reset();
  expect_ok(world_of(NULL, register_descriptor));
}

/* ---- who fails is left alone ---- */

/* Moves both ends until the sender has posted its writes into place, of which no data moves. */
static void hold_under_way(struct world_rank *me, struct tt_link *link, unsigned char *data)
{
  struct tt_call call = {.op = 1, .count = LONG, .collective = TT_PAIRS};
  struct tt_head head = {.word = tt_call_word(&call), .len = LONG, .call = &call};
  struct verbs_link *verbs = (struct verbs_link *)link;
  size_t done = 0;
  if (me->rank == 1) {
    link->ops->recv_begin(link, &head);
    while ((!verbs->in.granted || verbs->in.answer) && !world_is_over(me)) {
      ssize_t n = link->ops->recv(link, data + done, LONG - done);
      WORLD_CHECK(me, n >= 0);
      done += (size_t)n;
    }
    return;
  }
  link->ops->send_begin(link, &head);
  ssize_t n = link->ops->send(link, data, LONG);
  while (verbs->out.asked != VERBS_GRANTED && !world_is_over(me)) WORLD_CHECK(me, tt_verbs_link_pull(verbs) >= 0);
  fake->settings->hold = 3;
  WORLD_CHECK(me, n >= 0 && link->ops->send(link, data + n, LONG - (size_t)n) >= 0 && verbs->out.directs == 1);
}

/* The rank that is named by the argument fails, and does with its memory what it likes; the other one must see an
 * error, and the memory nothing more. */
static void fail_under_way(struct world_rank *me)
{
  int failing = *(const int *)me->world->argument;
  struct tt_link *link = world_open(me, !me->rank, 0);
  unsigned char *data = get(1, LONG);
  if (!link) return;
  fill(data, LONG, me->rank);
  hold_under_way(me, link, data);
  world_barrier(me);
  if (me->rank == failing) {
    me->transport->ops->halt(me->transport);
    memset(data, 0xcc, LONG);
  }
  world_barrier(me);
  fake->settings->hold = 0;
  uint64_t until = tt_now_ns() + 300000000;
  ssize_t n = 0;
  size_t at = 0;
  while (me->rank != failing && n >= 0 && tt_now_ns() < until) {
    n = me->rank == 0 ? link->ops->send(link, data, LONG) : link->ops->recv(link, data, LONG); /* in vain */
    if (n > 0) at += (size_t)n;
  }
  WORLD_CHECK(me, at < LONG);
  world_barrier(me);
  for (size_t i = 0; me->rank == failing && i < LONG; i++) WORLD_CHECK(me, data[i] == 0xcc);
  me->transport->ops->halt(me->transport);
  give(1, data);
  world_barrier(me);
}

static void who_is_halted_is_neither_written_to_nor_read(void **state)
{
  (void)state;
  for (int failing = 0; failing < 2; failing++) {
    struct world world = world_of(NULL, fail_under_way);
    world.argument = &failing;
    fake->reset();
    fake->settings->fatal = 1;
    expect_ok(world);
  }
}

/* ---- not before its completion ---- */

static void lend(struct world_rank *me)
{
  static const struct trip trip = {BY_RECV, SHORT, 1, 1, 1};
  struct tt_call call = {.op = 1, .count = SHORT, .collective = TT_PAIRS};
  struct tt_head head = {.word = tt_call_word(&call), .len = SHORT, .call = &call};
  struct tt_link *link = world_open(me, !me->rank, 0);
  unsigned char *data = get(1, SHORT);
  if (!link) return;
  fill(data, SHORT, 0);
  if (me->rank == 0) {
    fake->settings->hold = 2; /* data moves, but nobody is told */
    link->ops->send_begin(link, &head);
    for (int k = 0; k < 100; k++) {
      WORLD_CHECK(me, link->ops->send(link, data, SHORT) == 0);
      tt_sleep_ns(100000);
    }
  }
  world_barrier(me);
  if (me->rank == 1) WORLD_CHECK(me, pass(me, link, &trip, data, 0)); /* it has arrived nevertheless */
  world_barrier(me);
  fake->settings->hold = 0;
  ssize_t n = 0;
  while (me->rank == 0 && n == 0 && !world_is_over(me)) n = link->ops->send(link, data, SHORT);
  WORLD_CHECK(me, me->rank == 1 || n == SHORT);
  world_barrier(me);
  give(1, data);
}

static void what_is_lent_is_not_taken_before_its_completion(void **state)
{
  (void)state;
  fake->reset();
  expect_ok(world_of(NULL, lend));
}

int main(void)
{
  fake = fake_verbs();
  setenv("TUTTI_DEBUG", "NONE", 1);
  if (tt_auth_init() != tuttiSuccess) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(long_messages_of_registered_memory_go_straight_into_place),
      cmocka_unit_test(memory_is_registered_once_and_until_it_is_freed),
      cmocka_unit_test(nobody_asks_again_for_what_is_reduced),
      cmocka_unit_test(what_cannot_be_registered_is_copied),
      cmocka_unit_test(a_ring_comes_before_blocks_that_are_registered),
      cmocka_unit_test(what_users_register_goes_straight_into_place_until_they_take_it_back),
      cmocka_unit_test(what_users_register_in_vain_says_why),
      cmocka_unit_test(memory_behind_a_descriptor_is_registered_as_a_dma_buf),
      cmocka_unit_test(who_is_halted_is_neither_written_to_nor_read),
      cmocka_unit_test(what_is_lent_is_not_taken_before_its_completion),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
