/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages over two TCP links, however the wire and the kernel cut the stream of bytes.
 * Labels: serial. */
#include "tcp_wire.h"

struct trip {
  enum mode mode;
  size_t len, offer, hop, grain; /* bytes offered at most to a send, carried at most at once */
};

static ssize_t step_send(struct tcp_link *link, const struct trip *trip, size_t sent)
{
  size_t offer = trip->len - sent < trip->offer ? trip->len - sent : trip->offer;
  return offer ? tt_tcp_send(&link->base, source + sent, offer) : 0;
}

static void message_travels(struct wire *wire, size_t number, const struct trip *trip)
{
  struct tt_head head = head_of(trip->len);
  size_t sent = 0, got = 0;
  source_fill(number, trip->len);
  memset(sink, 0xee, trip->len);
  tt_tcp_send_begin(&wire->from->base, &head);
  tt_tcp_recv_begin(&wire->to->base, &head);
  for (int idle = 0; got < trip->len && idle < 1000;) {
    ssize_t n = step_send(wire->from, trip, sent);
    assert_true(n >= 0);
    sent += (size_t)n;
    size_t moved = wire_move(wire, 1 + random_below((uint32_t)trip->hop));
    ssize_t came = step_receive(wire->to, trip->mode, got, trip->len, trip->grain);
    if (came < 0) fail_msg("message %zu of %zu bytes: %s", number, trip->len, wire->to->base.why);
    got += (size_t)came;
    idle = n || moved || came ? 0 : idle + 1;
  }
  assert_int_equal(sent, trip->len);
  assert_int_equal(got, trip->len);
  sink_check(number, trip->len);
}

static const struct trip byte_trips[] = {
    {RECV, 1, 1, 1, 1},    {RECV, 8, 8, 1, 4},      {RECV, 3000, 3000, 1, 4}, {PEEK, 1, 1, 1, 8},
    {PEEK, 8, 8, 1, 8},    {PEEK, 3000, 100, 1, 4}, {PEEK, 2047, 7, 1, 4},    {PEEK, 2040, 13, 1, 8},
    {RECV, 1000, 3, 1, 1},
};

static void messages_survive_a_wire_of_single_bytes(void **state)
{
  (void)state;
  for (enum tcp_check check = TCP_UNCHECKED; check <= TCP_ENCRYPTED; check++) {
    struct wire wire;
    wire_make(&wire, check);
    for (size_t i = 0; i < sizeof byte_trips / sizeof *byte_trips; i++) message_travels(&wire, i, &byte_trips[i]);
    wire_free(&wire);
  }
}

static const struct trip long_trips[] = {
    {RECV, 8192, 8192, 65536, 4},       {PEEK, 8192, 8192, 65536, 4},    {RECV, 8200, 8200, 9000, 4},
    {RECV, LONGEST, LONGEST, 65536, 4}, {PEEK, LONGEST, LONGEST, 65536, 8}, {PEEK, LONGEST - 3, 300001, 5000, 8},
    {RECV, 262144, 262144, 65536, 4},   {PEEK, 262144, 262144, 65536, 2}, {PEEK, 524288, 524288, 65536, 2},
    {RECV, 262145, 262145, 40000, 1},   {PEEK, 100001, 5001, 65536, 8},  {RECV, 100000, 7777, 65536, 8},
};

static void long_messages_arrive_however_they_are_cut(void **state)
{
  (void)state;
  for (enum tcp_check check = TCP_UNCHECKED; check <= TCP_ENCRYPTED; check++) {
    struct wire wire;
    wire_make(&wire, check);
    for (size_t i = 0; i < sizeof long_trips / sizeof *long_trips; i++) message_travels(&wire, i, &long_trips[i]);
    wire_free(&wire);
  }
}

static void random_messages_follow_one_another(void **state)
{
  (void)state;
  for (size_t round = 0; round < 8; round++) {
    struct wire wire;
    wire_make(&wire, (enum tcp_check)(round & 3));
    for (size_t i = 0; i < 150; i++) {
      size_t grain = (size_t)1 << random_below(4);
      size_t len = 1 + random_below(i % 10 == 0 ? 300000 : 2000);
      struct trip trip = {random_below(2) ? RECV : PEEK, len, 1 + random_below((uint32_t)len),
                          1 + random_below(i % 10 == 0 ? 60000 : 300), grain};
      message_travels(&wire, i, &trip);
    }
    wire_free(&wire);
  }
}

static void whatever_the_kernel_takes_or_gives_at_a_time_is_right(void **state)
{
  (void)state;
  static const size_t limits[] = {1, 3, 40, 70, 200, 5000, 100000};
  for (size_t k = 0; k < 4 * (sizeof limits / sizeof *limits); k++) {
    struct wire wire;
    size_t limit = limits[k / 4];
    wire_make(&wire, (enum tcp_check)(k & 3));
    kernel_limit = limit;
    for (size_t i = 0; i < 30; i++) {
      size_t len = 1 + random_below(i % 4 == 0 ? 3000 : 100) * (limit > 1000 ? 200 : 1);
      struct trip trip = {i & 1 ? PEEK : RECV, len, 1 + random_below((uint32_t)len), 65536, (size_t)1 << i % 4};
      message_travels(&wire, i, &trip);
    }
    kernel_limit = 0;
    wire_free(&wire);
  }
}

/* Heads that are right but for some bits, and noise: under the sanitizers this shows every wrong access. */
static void noise_never_does_more_than_end_the_link(void **state)
{
  (void)state;
  for (size_t round = 0; round < 2000; round++) {
    struct wire wire;
    uint8_t noise[400];
    size_t got = 0;
    struct tt_head head = head_of(1 + random_below(5000));
    struct tcp_head first = {TCP_MAGIC, TCP_FLAG_FIRST, 1 + random_below((uint32_t)head.len), head.word, head.len, 0, 0,
                             a_call};
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)random_below(256);
    memcpy(noise, &first, sizeof first);
    for (uint32_t flips = random_below(3); flips > 0; flips--)
      noise[random_below(32)] ^= (uint8_t)(1u << random_below(8));
    wire_make(&wire, 0);
    assert_int_equal(send(wire.out, noise, sizeof noise, MSG_NOSIGNAL), sizeof noise);
    shutdown(wire.out, SHUT_WR);
    tt_tcp_recv_begin(&wire.to->base, &head);
    ssize_t n = 0;
    while (n >= 0 && got < head.len) {
      n = step_receive(wire.to, round & 1 ? PEEK : RECV, got, head.len, 2);
      if (n > 0) got += (size_t)n;
    }
    assert_true(n != 0);
    wire_free(&wire);
  }
}

/* All are under way before the first is looked at: they lie in the read-ahead one behind the other. */
static void queued_small_messages_keep_their_borders(void **state)
{
  (void)state;
  for (enum tcp_check check = TCP_UNCHECKED; check <= TCP_ENCRYPTED; check++) {
    struct wire wire;
    wire_make(&wire, check);
    for (size_t i = 0; i < 300; i++) {
      struct tt_head head = head_of(1 + i % 90);
      source_fill(i, head.len);
      tt_tcp_send_begin(&wire.from->base, &head);
      assert_int_equal(tt_tcp_send(&wire.from->base, source, head.len), head.len);
      while (wire_move(&wire, 65536) > 0) {}
    }
    for (size_t i = 0; i < 300; i++) {
      struct tt_head head = head_of(1 + i % 90);
      tt_tcp_recv_begin(&wire.to->base, &head);
      size_t got = 0;
      while (got < head.len) {
        while (wire_move(&wire, 65536) > 0) {}
        ssize_t n = step_receive(wire.to, i & 2 ? PEEK : RECV, got, head.len, 1);
        assert_true(n > 0);
        got += (size_t)n;
      }
      sink_check(i, head.len);
    }
    wire_free(&wire);
  }
}

static void what_came_before_a_send_broke_is_received(void **state)
{
  (void)state;
  struct wire wire;
  struct tt_head head = head_of(50);
  wire_make(&wire, 0);
  source_fill(0, 50);
  tt_tcp_send_begin(&wire.from->base, &head);
  assert_int_equal(tt_tcp_send(&wire.from->base, source, 50), 50);
  while (wire_move(&wire, 65536) > 0) {}
  shutdown(wire.out, SHUT_RDWR);
  tt_tcp_send_begin(&wire.to->base, &head);
  assert_int_equal(tt_tcp_send(&wire.to->base, source, 50), TT_LINK_BROKEN);
  tt_tcp_recv_begin(&wire.to->base, &head);
  assert_int_equal(tt_tcp_recv(&wire.to->base, sink, 50), 50);
  sink_check(0, 50);
  wire_free(&wire);
}

/* Who looks again without consuming is shown more, as long as there is room for it. */
static void peek_shows_more_of_a_frame_until_it_has_no_room(void **state)
{
  (void)state;
  struct wire wire;
  struct tt_head head = head_of(LONGEST);
  const void *data, *before = source;
  size_t sent = 0, shown = 0;
  wire_make(&wire, 0);
  source_fill(0, LONGEST);
  tt_tcp_send_begin(&wire.from->base, &head);
  tt_tcp_recv_begin(&wire.to->base, &head);
  for (int idle = 0; idle < 3; idle++) {
    ssize_t n = sent < LONGEST ? tt_tcp_send(&wire.from->base, source + sent, LONGEST - sent) : 0;
    assert_true(n >= 0);
    sent += (size_t)n;
    if (wire_move(&wire, 50000)) idle = 0;
    ssize_t more = tt_tcp_peek(&wire.to->base, &data, 4);
    assert_true(more >= (ssize_t)shown);
    assert_memory_equal(before, source, shown); /* what was shown is still there */
    if ((size_t)more > shown) idle = 0;
    shown = (size_t)more;
    before = data;
    assert_memory_equal(data, source, shown);
  }
  assert_true(shown >= TCP_FRAME_BYTES && shown < LONGEST);
  tt_tcp_consume(&wire.to->base, shown);
  for (int idle = 0; shown < LONGEST && idle < 3; idle++) {
    if (sent < LONGEST) sent += (size_t)tt_tcp_send(&wire.from->base, source + sent, LONGEST - sent);
    if (wire_move(&wire, 50000)) idle = 0;
    ssize_t n = tt_tcp_peek(&wire.to->base, &data, 4);
    assert_true(n >= 0);
    assert_memory_equal(data, source + shown, (size_t)n);
    tt_tcp_consume(&wire.to->base, (size_t)n);
    shown += (size_t)n;
    if (n) idle = 0;
  }
  assert_int_equal(shown, LONGEST);
  wire_free(&wire);
}

static void another_call_is_a_mismatch_that_shows_it(void **state)
{
  (void)state;
  for (int round = 0; round < 8; round++) {
    enum mode mode = round & 1 ? PEEK : RECV;
    struct wire wire;
    wire_make(&wire, (enum tcp_check)(round / 2));
    struct tt_call other = {13, 2048, TT_ALL_REDUCE, tuttiFloat64, tuttiMax, 1, 3, 99};
    struct tt_head sent = {tt_call_word(&other), 40, &other, 0}, expected = head_of(24);
    tt_tcp_send_begin(&wire.from->base, &sent);
    tt_tcp_recv_begin(&wire.to->base, &expected);
    assert_int_equal(tt_tcp_send(&wire.from->base, source, 40), 40);
    while (wire_move(&wire, 7) > 0) {}
    for (int i = 0; i < 2; i++) assert_int_equal(step_receive(wire.to, mode, 0, 24, 1), TT_LINK_MISMATCH);
    assert_int_equal(wire.to->base.seen_word, tt_call_word(&other));
    assert_memory_equal(&wire.to->base.seen_call, &other, sizeof other);
    /* The other side must still learn our call. */
    tt_tcp_send_begin(&wire.to->base, &expected);
    assert_int_equal(tt_tcp_send(&wire.to->base, source, 24), 24);
    wire_free(&wire);
  }
}

static void a_message_without_call_carries_an_empty_one(void **state)
{
  (void)state;
  struct wire wire;
  wire_make(&wire, 1);
  struct tt_head sent = {5, 4, NULL, 0}, expected = head_of(4);
  tt_tcp_send_begin(&wire.from->base, &sent);
  tt_tcp_recv_begin(&wire.to->base, &expected);
  assert_int_equal(tt_tcp_send(&wire.from->base, source, 4), 4);
  while (wire_move(&wire, 65536) > 0) {}
  assert_int_equal(step_receive(wire.to, RECV, 0, 4, 1), TT_LINK_MISMATCH);
  assert_int_equal(wire.to->base.seen_word, 5);
  assert_int_equal(wire.to->base.seen_call.op, 0);
  wire_free(&wire);
}

static void another_length_of_the_same_call_breaks_the_link(void **state)
{
  (void)state;
  struct wire wire;
  wire_make(&wire, 0);
  struct tt_head sent = head_of(40), expected = head_of(44);
  tt_tcp_send_begin(&wire.from->base, &sent);
  tt_tcp_recv_begin(&wire.to->base, &expected);
  assert_int_equal(tt_tcp_send(&wire.from->base, source, 40), 40);
  while (wire_move(&wire, 65536) > 0) {}
  assert_int_equal(step_receive(wire.to, RECV, 0, 44, 1), TT_LINK_BROKEN);
  assert_non_null(strstr(wire.to->base.why, "at 40 instead of"));
  wire_free(&wire);
}

static void what_came_before_the_end_is_still_received(void **state)
{
  (void)state;
  struct wire wire;
  wire_make(&wire, 1);
  struct tt_head head = head_of(100);
  source_fill(0, 100);
  tt_tcp_send_begin(&wire.from->base, &head);
  tt_tcp_recv_begin(&wire.to->base, &head);
  assert_int_equal(tt_tcp_send(&wire.from->base, source, 100), 100);
  while (wire_move(&wire, 65536) > 0) {}
  shutdown(wire.out, SHUT_WR);
  assert_int_equal(tt_tcp_recv(&wire.to->base, sink, 100), 100);
  sink_check(0, 100);
  tt_tcp_recv_begin(&wire.to->base, &head);
  assert_int_equal(tt_tcp_recv(&wire.to->base, sink, 100), TT_LINK_BROKEN);
  assert_non_null(strstr(wire.to->base.why, "closed"));
  wire_free(&wire);
}

int main(void)
{
  alarm(120);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_survive_a_wire_of_single_bytes),
      cmocka_unit_test(long_messages_arrive_however_they_are_cut),
      cmocka_unit_test(random_messages_follow_one_another),
      cmocka_unit_test(whatever_the_kernel_takes_or_gives_at_a_time_is_right),
      cmocka_unit_test(noise_never_does_more_than_end_the_link),
      cmocka_unit_test(queued_small_messages_keep_their_borders),
      cmocka_unit_test(what_came_before_a_send_broke_is_received),
      cmocka_unit_test(peek_shows_more_of_a_frame_until_it_has_no_room),
      cmocka_unit_test(another_call_is_a_mismatch_that_shows_it),
      cmocka_unit_test(a_message_without_call_carries_an_empty_one),
      cmocka_unit_test(another_length_of_the_same_call_breaks_the_link),
      cmocka_unit_test(what_came_before_the_end_is_still_received),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
