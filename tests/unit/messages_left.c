/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine of messages (exec/message.c) on links and a status page that the test makes: what a peer has sent before
 * it left is received, however late it comes; what it can no longer send ends, and the communicator does not fail.
 * Labels: serial. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/private.h"
#include "watch/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { MANY = 300, ROOM = 4096 };

/* The link from one rank. */
struct wire {
  struct tt_link link;
  char bytes[ROOM];
  size_t at, n;
  int is_open, is_ended, refuses;
};

struct world {
  struct tt_transport transport;
  struct tt_transport_ops ops;
  struct tt_watch watch;
  struct tt_exec exec;
  struct tt_messages *engine;
  void *page;
};

static struct wire wires[MANY];

/* ---- links ---- */

static void send_begin(struct tt_link *link, const struct tt_head *head)
{
  (void)link, (void)head;
}

static ssize_t send_all(struct tt_link *link, const void *data, size_t len)
{
  (void)link, (void)data;
  return (ssize_t)len;
}

static ssize_t receive(struct tt_link *link, void *data, size_t len)
{
  struct wire *wire = (struct wire *)link;
  size_t n = wire->n - wire->at < len ? wire->n - wire->at : len;
  if (!n && wire->is_ended) return TT_LINK_BROKEN;
  memcpy(data, wire->bytes + wire->at, n);
  wire->at += n;
  return (ssize_t)n;
}

static const struct tt_link_ops link_ops = {
    .send_begin = send_begin, .send = send_all, .recv_begin = send_begin, .recv = receive};

static tuttiResult_t wire_open(struct tt_transport *transport, int peer, int lane, struct tt_link **link)
{
  (void)transport, (void)lane;
  if (wires[peer].refuses) return tt_fail_quiet(tuttiRemoteError, "Connection refused");
  if (!wires[peer].is_open) return tuttiInProgress;
  *link = &wires[peer].link;
  return tuttiSuccess;
}

static const char words[] = "a message which is longer than a small one, so that it goes behind its head";

/* A message of rank `from`, or the first `len` bytes of it, as they come. */
static void comes(int from, uint64_t number, int tag, size_t len)
{
  struct {
    uint32_t magic, len;
    uint64_t number, total, start;
    int32_t tag, source;
    char small[24];
  } head = {0x6761546du, sizeof words, number, sizeof words, 0, tag, from, {0}};
  struct wire *wire = &wires[from];
  memcpy(wire->bytes + wire->n, &head, sizeof head);
  memcpy(wire->bytes + wire->n + sizeof head, words, len);
  wire->n += sizeof head + len;
}

/* ---- rank 0 of so many ---- */

static void world_make(struct world *world, int nranks, int ends_links)
{
  size_t n = (size_t)nranks;
  memset(world, 0, sizeof *world);
  memset(wires, 0, sizeof wires);
  world->ops = (struct tt_transport_ops){.name = "wires", .ends_links = ends_links, .open = wire_open};
  world->transport.ops = &world->ops;
  for (int r = 0; r < nranks; r++) {
    wires[r].link = (struct tt_link){.ops = &link_ops, .transport = &world->transport, .peer = r, .why = "it ended"};
    wires[r].is_open = 1;
  }
  world->page = aligned_alloc(TT_LINE, (tt_page_len(nranks, 1) + TT_LINE - 1) / TT_LINE * TT_LINE);
  memset(world->page, 0, tt_page_len(nranks, 1));
  tt_page_format(world->page, nranks, 1);
  assert_true(tt_page_view(&world->watch.page, world->page, nranks, 1));
  world->watch.own = world->watch.page.slots;
  world->watch.nranks = nranks;
  world->watch.clock_ns = 1;
  world->watch.peers = calloc(n, sizeof *world->watch.peers);
  world->exec = (struct tt_exec){.nranks = nranks, .lanes = 1, .watch = &world->watch, .ntransports = 1};
  world->exec.transports = calloc(1, sizeof *world->exec.transports);
  world->exec.transports[0] = &world->transport;
  world->exec.routes = calloc(n, sizeof *world->exec.routes);
  world->exec.open = calloc(2 * n, sizeof *world->exec.open);
  assert_int_equal(tt_messages_create(&world->engine, &world->exec), tuttiSuccess);
}

static void world_free(struct world *world)
{
  assert_int_equal(atomic_load(&world->watch.failed), 0); /* nobody else is told of anything */
  tt_messages_destroy(world->engine);
  free(world->exec.transports);
  free(world->exec.routes);
  free(world->exec.open);
  free(world->watch.peers);
  free(world->page);
}

static void leaves(struct world *world, int rank, int aborted)
{
  tt_page_leave(&world->watch.page, rank, tt_gone_make(0, 0, aborted));
}

static void receive_add(struct world *world, struct tt_message *message, int peer, int tag, char *data)
{
  *message = (struct tt_message){.peer = peer, .tag = tag, .data = data, .bytes = data ? sizeof words : 0};
  assert_int_equal(tt_messages_add(world->engine, message), tuttiSuccess);
}

/* Goes on for so long, or until a message is over; NULL: none is. */
static struct tt_message *over_await(struct world *world, unsigned ms)
{
  for (uint64_t until = tt_now_ns() + (uint64_t)ms * 1000000u;; usleep(2000)) {
    int moved = 0;
    tuttiResult_t result = tt_messages_poll(world->engine, &moved);
    assert_true(result == tuttiSuccess || result == tuttiInProgress);
    tt_messages_look(world->engine);
    struct tt_message *over = tt_messages_over(world->engine);
    if (over || tt_now_ns() > until) return over;
  }
}

#define LONG_MS 20000  /* by then it is over */
#define SHORT_MS 700   /* longer than what was sent may take where no link ends */

static void any_rank_is_waited_for_until_the_last_of_many_has_left(void **state)
{
  (void)state;
  struct world world;
  struct tt_message any, later;
  world_make(&world, MANY, 0);
  for (int r = 1; r < MANY; r++) wires[r].is_open = r % 2;
  receive_add(&world, &any, TT_ANY, TT_ANY, NULL);
  for (int r = 2; r < MANY; r++) leaves(&world, r, r % 3 == 0);
  assert_null(over_await(&world, SHORT_MS));
  leaves(&world, 1, 0);
  assert_ptr_equal(over_await(&world, LONG_MS), &any);
  assert_int_equal(any.result, tuttiRemoteError);
  receive_add(&world, &later, TT_ANY, 1, NULL);
  assert_ptr_equal(over_await(&world, 0), &later);
  assert_int_equal(later.result, tuttiRemoteError);
  world_free(&world);
}

/* Its end comes with the last of what was sent, however late that is. */
static void a_link_that_ends_is_waited_for(void **state)
{
  (void)state;
  struct world world;
  struct tt_message send = {.peer = 1, .sends = 1}, first, second;
  char data[sizeof words];
  world_make(&world, 3, 1);
  receive_add(&world, &first, 1, 5, data);
  receive_add(&world, &second, 1, TT_ANY, NULL);
  leaves(&world, 1, 0);
  assert_null(over_await(&world, SHORT_MS));
  assert_int_equal(tt_messages_add(world.engine, &send), tuttiSuccess);
  assert_ptr_equal(over_await(&world, 0), &send); /* nobody takes it */
  assert_int_equal(send.result, tuttiRemoteError);
  comes(1, 1, 5, sizeof words);
  wires[1].is_ended = 1;
  struct tt_message *over[2] = {over_await(&world, LONG_MS), over_await(&world, LONG_MS)};
  assert_true((over[0] == &first && over[1] == &second) || (over[0] == &second && over[1] == &first));
  assert_int_equal(first.result, tuttiSuccess);
  assert_string_equal(data, words);
  assert_int_equal(second.result, tuttiRemoteError);
  world_free(&world);
}

static void a_broken_link_is_no_failure_once_the_farewell_comes(void **state)
{
  (void)state;
  struct world world;
  struct tt_message first, other;
  world_make(&world, 3, 1);
  receive_add(&world, &first, 1, 1, NULL);
  receive_add(&world, &other, 2, 1, NULL);
  wires[1].is_ended = 1;
  assert_null(over_await(&world, 50));
  leaves(&world, 1, 0);
  world.watch.clock_ns = TT_GRACE_NS * 4u; /* later than the reason has to be known */
  assert_ptr_equal(over_await(&world, LONG_MS), &first);
  assert_int_equal(first.result, tuttiRemoteError);
  assert_null(over_await(&world, 0));
  world_free(&world);
}

/* Messages that have come whole are kept, and the rest of one is in nobody's way. */
static void half_a_message_of_a_rank_that_aborted_is_forgotten(void **state)
{
  (void)state;
  struct world world;
  struct tt_message half, later, whole;
  char data[sizeof words];
  world_make(&world, 3, 1);
  receive_add(&world, &half, TT_ANY, 3, data);
  comes(1, 1, 1, sizeof words);
  comes(1, 2, 3, 5);
  leaves(&world, 1, 1);
  assert_ptr_equal(over_await(&world, LONG_MS), &half);
  assert_int_equal(half.result, tuttiRemoteError);
  receive_add(&world, &later, 1, 3, data);
  assert_ptr_equal(over_await(&world, 0), &later);
  assert_int_equal(later.result, tuttiRemoteError);
  receive_add(&world, &whole, TT_ANY, TT_ANY, data);
  assert_ptr_equal(over_await(&world, 0), &whole);
  assert_int_equal(whole.result, tuttiSuccess);
  assert_string_equal(data, words);
  world_free(&world);
}

static void the_rest_of_a_message_that_nobody_wanted_is_forgotten(void **state)
{
  (void)state;
  struct world world;
  struct tt_message first, later;
  char data[sizeof words];
  world_make(&world, 3, 0);
  receive_add(&world, &first, 1, 1, data);
  comes(1, 1, 3, 5);
  leaves(&world, 1, 1);
  assert_ptr_equal(over_await(&world, LONG_MS), &first);
  receive_add(&world, &later, 1, 3, data);
  assert_ptr_equal(over_await(&world, 0), &later);
  assert_int_equal(later.result, tuttiRemoteError);
  world_free(&world);
}

static void a_link_that_cannot_be_opened_is_no_failure_once_the_farewell_comes(void **state)
{
  (void)state;
  struct world world;
  struct tt_message send = {.peer = 1, .sends = 1};
  world_make(&world, 3, 1);
  wires[1].refuses = 1;
  assert_int_equal(tt_messages_add(world.engine, &send), tuttiSuccess);
  assert_null(over_await(&world, 50));
  leaves(&world, 1, 0);
  assert_ptr_equal(over_await(&world, LONG_MS), &send);
  assert_int_equal(send.result, tuttiRemoteError);
  world_free(&world);
}

/* The others do not wait until it is known why a link is broken. */
static void other_links_go_on_beside_a_broken_one(void **state)
{
  (void)state;
  struct world world;
  struct tt_message first, second;
  char data[sizeof words];
  world_make(&world, 3, 1);
  receive_add(&world, &first, 1, 1, NULL);
  receive_add(&world, &second, 2, 1, data);
  wires[1].is_ended = 1;
  comes(2, 1, 1, sizeof words);
  assert_ptr_equal(over_await(&world, 0), &second);
  assert_string_equal(data, words);
  leaves(&world, 1, 0);
  assert_ptr_equal(over_await(&world, LONG_MS), &first);
  world_free(&world);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_rank_is_waited_for_until_the_last_of_many_has_left),
      cmocka_unit_test(a_link_that_ends_is_waited_for),
      cmocka_unit_test(a_broken_link_is_no_failure_once_the_farewell_comes),
      cmocka_unit_test(half_a_message_of_a_rank_that_aborted_is_forgotten),
      cmocka_unit_test(the_rest_of_a_message_that_nobody_wanted_is_forgotten),
      cmocka_unit_test(a_link_that_cannot_be_opened_is_no_failure_once_the_farewell_comes),
      cmocka_unit_test(other_links_go_on_beside_a_broken_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
