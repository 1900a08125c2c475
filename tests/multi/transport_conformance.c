/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract of transport.h against every transport, bare and decorated, with ranks as threads and as
 * processes. What the contract promises of all of them is tested here and nowhere else. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "decorations.h"
#include "ranks.h"
#include "slow.h"
#include "traffic.h"

#define SAMPLE(messages) (IS_SLOW ? (messages) / 3 : (messages))
#define FLOWS (2 * WORLD_RANKS * TT_MAX_LANES)

/* Runs `world` on every transport, both ways of making ranks, and the first `ndecorations` decorations. */
static void on_all(struct world world, int ndecorations)
{
  for (int k = 0; world_transports()[k]; k++)
    for (int is_forked = 0; is_forked < 2 - IS_TSAN; is_forked++)
      for (int d = 0; d < ndecorations; d++) {
        world.ops = world_transports()[k];
        world.is_forked = is_forked;
        world.trace = decorations[d].trace;
        world.fault = decorations[d].fault;
        const char *complaint = world_run(&world);
        if (complaint)
          fail_msg("%s%s, ranks as %s: %s", world.ops->name, decorations[d].name, is_forked ? "processes" : "threads",
                   complaint);
      }
}

/* ---- every byte ---------------------------------------------------------------------- */

struct load {
  int messages;
  size_t largest;
};

static int flows_start(struct world_rank *me, struct flow *out, struct flow *in)
{
  const struct load *load = me->world->argument;
  int n = 0;
  for (int peer = 0; peer < me->world->nranks; peer++)
    for (int lane = 0; peer != me->rank && lane < me->world->lanes; lane++, n++) {
      struct tt_link *link = world_open(me, peer, lane);
      if (!link) return n;
      flow_start(&out[n], me, link, me->rank, peer);
      flow_start(&in[n], me, link, peer, me->rank);
      out[n].messages = in[n].messages = load->messages;
      out[n].largest = in[n].largest = load->largest;
    }
  return n;
}

/* One random link, one direction; 1 if it is through. */
static void flow_step(struct world_rank *me, struct flow *flow, int is_sender)
{
  ssize_t n = is_sender ? flow_send(flow) : flow_recv(flow);
  if (n < 0)
    world_complain(me, "%s %d -> %d lane %d message %d at %zu of %llu: %zd %s", is_sender ? "send" : "recv", flow->from,
                   flow->to, flow->lane, flow->index, flow->done, (unsigned long long)flow->head.len, n,
                   flow->link->why);
  else if (n == 0)
    sched_yield();
}

static void exchange(struct world_rank *me)
{
  struct flow out[FLOWS / 2], in[FLOWS / 2];
  int n = flows_start(me, out, in), left = 2 * n;
  while (left && !world_is_over(me)) {
    int i = (int)world_random(me, (uint64_t)n), is_sender = (int)world_random(me, 2);
    struct flow *flow = is_sender ? &out[i] : &in[i];
    for (int k = 0; k < 2 * n && flow_is_done(flow); k++) {
      is_sender = !is_sender;
      if (!is_sender) i = (i + 1) % n;
      flow = is_sender ? &out[i] : &in[i];
    }
    flow_step(me, flow, is_sender);
    left -= flow_is_done(flow);
  }
  world_barrier(me);
  for (int i = 0; i < n; i++) {
    flow_end(&out[i]);
    flow_end(&in[i]);
  }
}

static void every_byte_arrives_in_order(void **state)
{
  (void)state;
  static const struct load load = {SAMPLE(150), 1000000}, decorated = {SAMPLE(80), 100000};
  on_all((struct world){.nranks = 2, .lanes = 2, .body = exchange, .argument = &decorated}, 3);
  on_all((struct world){.nranks = 3, .lanes = 1, .body = exchange, .argument = &load}, 1);
}

static void long_messages_arrive(void **state)
{
  (void)state;
  static const struct load load = {SAMPLE(70), 6000000};
  on_all((struct world){.nranks = 2, .lanes = 1, .body = exchange, .argument = &load}, 1);
}

/* Half of all buffers lie in the heap. */
static void what_is_read_where_it_lies_arrives(void **state)
{
  (void)state;
  static const struct load load = {SAMPLE(150), 300000};
  struct world world = {.nranks = 3, .lanes = 2, .direct_bytes = 1, .body = exchange, .argument = &load};
  on_all(world, 3);
  world.direct_bytes = 5000;
  world.slots = 4;
  on_all(world, 1);
}

static void few_slots_are_enough(void **state)
{
  (void)state;
  static const struct load load = {SAMPLE(60), 100000};
  struct world world = {.nranks = 4, .lanes = 3, .slots = 4, .slot_bytes = 4096, .body = exchange, .argument = &load};
  on_all(world, 1);
}

/* ---- a rank to itself ------------------------------------------------------------------ */

static void self_body(struct world_rank *me)
{
  const struct load *load = me->world->argument;
  struct flow out, in;
  struct tt_link *link = world_open(me, me->rank, 0);
  WORLD_CHECK(me, link);
  flow_start(&out, me, link, me->rank, me->rank);
  flow_start(&in, me, link, me->rank, me->rank);
  out.messages = in.messages = load->messages;
  out.largest = in.largest = load->largest;
  while (!flow_is_done(&in) && !world_is_over(me)) {
    flow_step(me, &out, 1);
    flow_step(me, &in, 0);
  }
  flow_end(&out);
  flow_end(&in);
}

static void a_rank_can_send_to_itself(void **state)
{
  (void)state;
  static const struct load load = {SAMPLE(300), 200000};
  for (int d = 0; d < 3; d++) {
    struct world world = {.ops = &tt_transport_self, .nranks = 1, .lanes = 1, .body = self_body, .argument = &load};
    world.trace = decorations[d].trace;
    world.fault = decorations[d].fault;
    const char *complaint = world_run(&world);
    if (complaint) fail_msg("self%s: %s", decorations[d].name, complaint);
  }
}

/* ---- mismatches -------------------------------------------------------------------------- */

struct difference {
  size_t sent, expected; /* bytes */
  int is_same_word;
};

static ssize_t recv_until_said(struct world_rank *me, struct tt_link *link, size_t expected, int is_peeking)
{
  char buffer[16384];
  size_t got = 0;
  while (!world_is_over(me)) {
    const void *data;
    size_t want = expected - got < sizeof buffer ? expected - got : sizeof buffer;
    ssize_t n = is_peeking ? link->ops->peek(link, &data, 1) : link->ops->recv(link, buffer, want);
    if (n < 0) return n;
    if (n == 0) sched_yield();
    if (is_peeking && n > 0) link->ops->consume(link, (size_t)n);
    got += (size_t)n;
    if (got >= expected) return (ssize_t)got;
  }
  return 0;
}

static void mismatch_body(struct world_rank *me)
{
  const struct difference *d = me->world->argument;
  struct tt_call sent = {.op = 5, .count = 77, .collective = TT_ALL_REDUCE}, expected = sent;
  if (!d->is_same_word) expected.count = 78;
  static const char data[100000];
  struct tt_link *link = world_open(me, !me->rank, 0);
  WORLD_CHECK(me, link);
  if (me->rank == 0) {
    struct tt_head head = {.word = tt_call_word(&sent), .len = d->sent, .call = &sent};
    link->ops->send_begin(link, &head);
    for (size_t at = 0; at < d->sent && !world_is_over(me);) {
      ssize_t n = link->ops->send(link, data + at, d->sent - at);
      if (n <= 0) sched_yield();
      if (n < 0) break;
      at += (size_t)n;
    }
  } else {
    struct tt_head head = {.word = tt_call_word(&expected), .len = d->expected, .call = &expected};
    link->ops->recv_begin(link, &head);
    ssize_t n = recv_until_said(me, link, d->expected, (int)(d->expected & 1));
    /* Equal words with unequal lengths come from no correct peer: refusing the link is as good. */
    if (n != TT_LINK_MISMATCH && !(d->is_same_word && n == TT_LINK_BROKEN))
      world_complain(me, "%zu bytes instead of %zu, %s word: %zd instead of a mismatch", d->sent, d->expected,
                     d->is_same_word ? "same" : "other", n);
    if (n == TT_LINK_MISMATCH) {
      WORLD_CHECK(me, link->seen_word == tt_call_word(&sent));
      WORLD_CHECK(me, link->seen_call.op == 0 || link->seen_call.op == 5);
      WORLD_CHECK(me, link->seen_call.op == 0 || link->seen_call.count == 77);
    }
  }
  world_barrier(me);
}

static void another_calls_message_is_a_mismatch(void **state)
{
  (void)state;
  static const struct difference differences[] = {
      {8, 8, 0}, {5000, 5000, 0}, {40001, 40001, 0}, {16, 8, 1}, {8, 17, 1}, {9000, 8192, 1}, {8193, 9000, 1}};
  for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++)
    on_all((struct world){.nranks = 2, .lanes = 1, .body = mismatch_body, .argument = &differences[i]}, 2);
}

/* ---- what a sender says of itself ----------------------------------------------------------- */

enum { REPORTS = 24 };

/* Message k: of this length, with the bit in its word, expected with it. */
static size_t report_len(int k)
{
  static const size_t lens[] = {1, 8, 41, 5000, 70001, 600001};
  return lens[k / 4 % 6];
}

static struct tt_head report_head(const struct tt_call *call, int k, int has_bit)
{
  return (struct tt_head){.word = tt_call_word(call) | (has_bit ? TT_WORD_OVERFLOW : 0),
                          .len = report_len(k),
                          .call = call};
}

static void report_send(struct world_rank *me, struct tt_link *link, const struct tt_head *head, size_t *done)
{
  static const char data[600001];
  if (!*done) link->ops->send_begin(link, head);
  ssize_t n = link->ops->send(link, data + *done, head->len - *done);
  WORLD_CHECK(me, n >= 0);
  *done += (size_t)n;
}

static void report_recv(struct world_rank *me, struct tt_link *link, const struct tt_head *head, size_t *done, int k)
{
  static _Thread_local char buffer[100000];
  const void *data;
  size_t left = head->len - *done;
  if (!*done) link->ops->recv_begin(link, head);
  ssize_t n = k % 3 ? link->ops->recv(link, buffer, left < sizeof buffer ? left : sizeof buffer)
                    : link->ops->peek(link, &data, 1);
  WORLD_CHECK(me, n >= 0);
  if (k % 3 == 0 && n > 0) link->ops->consume(link, (size_t)n);
  *done += (size_t)n;
}

/* What arrives is no mismatch whatever bit was expected, and the link shows the bit that was sent. */
static void report_body(struct world_rank *me)
{
  int is_alone = me->world->nranks == 1;
  struct tt_call call = {.op = 5, .count = 77, .collective = TT_ALL_REDUCE};
  struct tt_link *link = world_open(me, is_alone ? 0 : !me->rank, 0);
  WORLD_CHECK(me, link);
  int sends = me->rank == 0 ? 0 : REPORTS, receives = is_alone || me->rank == 1 ? 0 : REPORTS;
  size_t sent = 0, received = 0;
  while ((sends < REPORTS || receives < REPORTS) && !world_is_over(me)) {
    size_t before = sent + received;
    if (sends < REPORTS) {
      struct tt_head head = report_head(&call, sends, sends & 1);
      report_send(me, link, &head, &sent);
      if (sent == head.len) {
        sent = 0;
        sends++;
      }
    }
    if (receives < REPORTS) {
      struct tt_head head = report_head(&call, receives, receives & 2);
      report_recv(me, link, &head, &received, receives);
      if (received == head.len) {
        WORLD_CHECK(me, link->seen_word == report_head(&call, receives, receives & 1).word);
        received = 0;
        receives++;
      }
    }
    if (sent + received == before) sched_yield();
  }
  world_barrier(me);
}

static void a_bit_of_the_word_is_the_senders_to_set(void **state)
{
  (void)state;
  on_all((struct world){.nranks = 2, .lanes = 1, .body = report_body}, 3);
  for (int d = 0; d < 3; d++) {
    struct world world = {.ops = &tt_transport_self, .nranks = 1, .lanes = 1, .body = report_body};
    world.trace = decorations[d].trace;
    world.fault = decorations[d].fault;
    const char *complaint = world_run(&world);
    if (complaint) fail_msg("self%s: %s", decorations[d].name, complaint);
  }
}

/* ---- opening ------------------------------------------------------------------------------ */

static void open_body(struct world_rank *me)
{
  int peer = !me->rank;
  char text[200];
  WORLD_CHECK(me, me->transport->ops->reaches(me->transport, peer));
  if (me->rank == 1) tt_sleep_ns(20000000); /* the other one opens against a rank that does nothing */
  struct tt_link *first = world_open(me, peer, 0), *other = world_open(me, peer, 1);
  WORLD_CHECK(me, first && other && first != other);
  WORLD_CHECK(me, world_open(me, peer, 0) == first);
  WORLD_CHECK(me, first->peer == peer && other->lane == 1 && first->transport == me->transport);
  WORLD_CHECK(me, me->transport->ops->path(me->transport, peer, text, sizeof text) == text && text[0]);
  WORLD_CHECK(me, me->transport->ops->descriptors(me->transport) >= 0);
  const void *data;
  struct tt_head head = {.word = 1, .len = 8, .call = &(struct tt_call){.op = 0}};
  first->ops->recv_begin(first, &head);
  WORLD_CHECK(me, first->ops->peek(first, &data, 8) == 0);
  world_barrier(me);
}

static void links_are_opened_once_and_know_their_peer(void **state)
{
  (void)state;
  on_all((struct world){.nranks = 2, .lanes = 2, .body = open_body}, 3);
}

/* ---- the same bytes to several peers ---------------------------------------------------------- */

#define SAME_MESSAGES SAMPLE(60)
#define SAME_BYTES 150000

/* Byte i of message m to a peer: each third message is the link's own. */
static uint8_t same_byte(int m, int peer, size_t i)
{
  return (uint8_t)(i * 7 + i / 4096 * 5 + (size_t)m * 31 + (m % 3 ? 0 : (size_t)peer * 101));
}

static size_t same_length(int m)
{
  return m % 5 == 0 ? SAME_BYTES : 1 + (size_t)m * 997 % (SAME_BYTES / 4);
}

/* Rank 0: message m to all others, each at a pace of its own; then its memory is used for the next one. */
static void same_send(struct world_rank *me, int m)
{
  static uint8_t data[WORLD_RANKS][SAME_BYTES];
  size_t len = same_length(m), done[WORLD_RANKS] = {0};
  int left = me->world->nranks - 1;
  struct tt_head head = {.word = 9, .len = len, .call = &(struct tt_call){.op = 0}, .same = m % 3 ? (uint64_t)m : 0};
  for (int peer = 1; peer < me->world->nranks; peer++) {
    struct tt_link *link = world_open(me, peer, 0);
    WORLD_CHECK(me, link);
    for (size_t i = 0; i < len; i++) data[m % 3 ? 0 : peer][i] = same_byte(m, peer, i);
    if (len <= link->quick_bytes && m % 2 && link->ops->put(link, &head, data[m % 3 ? 0 : peer])) done[peer] = len;
    else link->ops->send_begin(link, &head);
    left -= done[peer] == len;
  }
  while (left && !world_is_over(me)) {
    int peer = 1 + (int)world_random(me, (uint64_t)me->world->nranks - 1);
    if (done[peer] == len) continue;
    struct tt_link *link = world_open(me, peer, 0);
    size_t offered = len - done[peer];
    if (world_random(me, 4) == 0) offered = 1 + (size_t)world_random(me, offered);
    ssize_t n = link->ops->send(link, data[m % 3 ? 0 : peer] + done[peer], offered);
    WORLD_CHECK(me, n >= 0);
    if (n == 0) sched_yield();
    done[peer] += (size_t)n;
    left -= done[peer] == len;
  }
}

static void same_recv(struct world_rank *me, int m)
{
  static _Thread_local uint8_t data[SAME_BYTES];
  size_t len = same_length(m), done = 0;
  struct tt_head head = {.word = 9, .len = len, .call = &(struct tt_call){.op = 0}};
  struct tt_link *link = world_open(me, 0, 0);
  WORLD_CHECK(me, link);
  link->ops->recv_begin(link, &head);
  while (done < len && !world_is_over(me)) {
    ssize_t n = link->ops->recv(link, data + done, len - done);
    WORLD_CHECK(me, n >= 0);
    if (n == 0) sched_yield();
    done += (size_t)n;
  }
  for (size_t i = 0; i < done; i++)
    if (data[i] != same_byte(m, me->rank, i)) {
      world_complain(me, "byte %zu of message %d is %d instead of %d", i, m, data[i], same_byte(m, me->rank, i));
      return;
    }
}

static void same_body(struct world_rank *me)
{
  for (int m = 1; m <= SAME_MESSAGES && !world_is_over(me); m++)
    if (me->rank == 0) same_send(me, m);
    else same_recv(me, m);
  world_barrier(me);
}

static void the_same_bytes_arrive_at_each_of_several_peers(void **state)
{
  (void)state;
  on_all((struct world){.nranks = 4, .lanes = 1, .body = same_body}, 3);
  on_all((struct world){.nranks = 4, .lanes = 1, .slots = 4, .slot_bytes = 4096, .body = same_body}, 1);
}

/* Nobody reads: where each peer took slots of its own, four would not do. */
static void one_slot_body(struct world_rank *me)
{
  static uint8_t data[2 * 4096];
  struct tt_head head = {.word = 9, .len = sizeof data, .call = &(struct tt_call){.op = 0}, .same = 1};
  for (int peer = 1; me->rank == 0 && peer < me->world->nranks; peer++) {
    struct tt_link *link = world_open(me, peer, 0);
    WORLD_CHECK(me, link);
    link->ops->send_begin(link, &head);
    ssize_t n = link->ops->send(link, data, sizeof data);
    if (n != (ssize_t)sizeof data) world_complain(me, "%zd bytes taken for rank %d", n, peer);
  }
  if (me->rank) WORLD_CHECK(me, world_open(me, 0, 0));
  world_barrier(me);
}

static void shm_keeps_the_same_bytes_for_several_peers_once(void **state)
{
  (void)state;
  struct world world = {.nranks = 4, .lanes = 1, .slots = 4, .slot_bytes = 4096, .ops = &tt_transport_shm,
                        .body = one_slot_body};
  const char *complaint = world_run(&world);
  if (complaint) fail_msg("%s", complaint);
}

/* ---- a peer that does not read --------------------------------------------------------------- */

/* Rank 0 fills its links to ranks 3 .. with what is never read; ranks 1 and 2 must not notice. */
static void deaf_body(struct world_rank *me)
{
  static char data[40000];
  struct flow out[2], in[2];
  int n = 0;
  if (me->rank == 0)
    for (int peer = 3; peer < me->world->nranks; peer++) {
      struct tt_link *link = world_open(me, peer, 0);
      WORLD_CHECK(me, link);
      struct tt_head head = {.word = 9, .len = 100 * sizeof data, .call = &(struct tt_call){.op = 0}};
      link->ops->send_begin(link, &head);
      size_t taken = 0;
      for (int idle = 0; idle < 1000 && taken < 90 * sizeof data; idle++) {
        ssize_t got = link->ops->send(link, data, sizeof data);
        WORLD_CHECK(me, got >= 0);
        taken += (size_t)got;
      }
    }
  else if (me->rank > 2)
    WORLD_CHECK(me, world_open(me, 0, 0));
  for (int peer = 0; me->rank < 3 && peer < 3; peer++) {
    if (peer == me->rank) continue;
    struct tt_link *link = world_open(me, peer, 0);
    WORLD_CHECK(me, link);
    flow_start(&out[n], me, link, me->rank, peer);
    flow_start(&in[n], me, link, peer, me->rank);
    out[n].messages = in[n].messages = 40;
    out[n].largest = in[n].largest = 20000;
    n++;
  }
  int left = 2 * n;
  while (left && !world_is_over(me)) {
    left = 0;
    for (int i = 0; i < n; i++) {
      if (!flow_is_done(&out[i])) flow_step(me, &out[i], 1);
      if (!flow_is_done(&in[i])) flow_step(me, &in[i], 0);
      left += !flow_is_done(&out[i]) + !flow_is_done(&in[i]);
    }
  }
  world_barrier(me);
  for (int i = 0; i < n; i++) {
    flow_end(&out[i]);
    flow_end(&in[i]);
  }
}

static void who_does_not_read_stops_nobody_else(void **state)
{
  (void)state;
  on_all((struct world){.nranks = 8, .lanes = 1, .slots = 4, .slot_bytes = 4096, .body = deaf_body}, 1);
}

/* ---- death -------------------------------------------------------------------------------------- */

#define DEATH_LEAST 10 /* messages that rank 0 has before rank 1 is killed */

struct death {
  int delay;
  _Atomic int *is_near; /* 1: rank 0 has enough messages; 2: rank 1 sends nothing more */
};

/* Rank 1 is killed somewhere in its sending, rank 0 reads on until that is so and nothing has come for a while. All
 * that it got is right. */
static void death_body(struct world_rank *me)
{
  const struct death *death = me->world->argument;
  struct flow flow;
  struct tt_link *link = world_open(me, !me->rank, 0);
  WORLD_CHECK(me, link);
  world_barrier(me);
  flow_start(&flow, me, link, 1, 0);
  flow.messages = 1000000;
  flow.largest = 50000;
  uint64_t last = tt_now_ns();
  size_t calls = 0, enough = 300 + 77 * (size_t)death->delay;
  while (me->rank == 1 && !world_is_over(me)) {
    calls += flow_send(&flow) > 0;
    if (calls <= enough || !atomic_load(death->is_near)) continue;
    atomic_store(death->is_near, 2);
    raise(SIGKILL);
  }
  ssize_t n = 0;
  while (n >= 0 && !world_is_over(me)) {
    int is_near = atomic_load(death->is_near);
    if (is_near == 2 && tt_now_ns() > last + 100000000) break;
    if (!is_near && flow.index >= DEATH_LEAST) atomic_store(death->is_near, 1);
    n = flow_recv(&flow);
    if (n > 0) last = tt_now_ns();
    if (n == 0) sched_yield();
  }
  WORLD_CHECK(me, n >= 0 || n == TT_LINK_BROKEN);
  WORLD_CHECK(me, n >= 0 || link->why[0]);
  WORLD_CHECK(me, flow.index >= DEATH_LEAST);
  flow_end(&flow);
}

static void a_killed_peer_leaves_no_wrong_bytes(void **state)
{
  (void)state;
  for (int k = 0; world_transports()[k]; k++)
    for (int delay = 0; delay < 3; delay++) {
      struct death death = {delay, ranks_shared(sizeof *death.is_near)};
      struct world world = {.ops = world_transports()[k],
                            .nranks = 2,
                            .lanes = 1,
                            .is_forked = 1,
                            .may_die = 2,
                            .body = death_body,
                            .argument = &death};
      const char *complaint = world_run(&world);
      if (complaint) fail_msg("%s: %s", world.ops->name, complaint);
    }
}

int main(void)
{
  alarm(280);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte_arrives_in_order),
      cmocka_unit_test(long_messages_arrive),
      cmocka_unit_test(what_is_read_where_it_lies_arrives),
      cmocka_unit_test(few_slots_are_enough),
      cmocka_unit_test(a_rank_can_send_to_itself),
      cmocka_unit_test(another_calls_message_is_a_mismatch),
      cmocka_unit_test(a_bit_of_the_word_is_the_senders_to_set),
      cmocka_unit_test(links_are_opened_once_and_know_their_peer),
      cmocka_unit_test(the_same_bytes_arrive_at_each_of_several_peers),
      cmocka_unit_test(shm_keeps_the_same_bytes_for_several_peers_once),
      cmocka_unit_test(who_does_not_read_stops_nobody_else),
      cmocka_unit_test(a_killed_peer_leaves_no_wrong_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
