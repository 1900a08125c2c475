/* SPDX-License-Identifier: BSD-3-Clause */
/* Damage to the stream between two TCP links: bits that flip, frames that come twice, out of turn or cut.
 * Labels: serial. */
#include "tcp_wire.h"

/* Sends two frames of 50 bytes through a damaged wire; what the receiver's last call said. */
static ssize_t damaged_trip(struct wire *wire, enum mode mode)
{
  struct tt_head head = head_of(100);
  size_t got = 0;
  ssize_t n = 0;
  source_fill(0, 100);
  memset(sink, 0, 100);
  tt_tcp_send_begin(&wire->from->base, &head);
  tt_tcp_recv_begin(&wire->to->base, &head);
  for (size_t sent = 0; sent < 100; sent += 50)
    assert_int_equal(tt_tcp_send(&wire->from->base, source + sent, 50), 50);
  while (wire_move(wire, 65536) > 0) {}
  for (int i = 0; i < 200 && n >= 0 && got < 100; i++) {
    n = step_receive(wire->to, mode, got, 100, 4);
    if (n > 0) got += (size_t)n;
  }
  return got == 100 ? 100 : n;
}

#define STREAM_BYTES (TCP_FIRST_BYTES + 50 + TCP_LATER_BYTES + 50)

static void every_flipped_bit_breaks_a_link_with_crc_or_tags(void **state)
{
  (void)state;
  static const size_t tags[] = {
      [TCP_CRC] = 0, [TCP_GUARDED] = 2 * TCP_TAGS_BYTES, [TCP_ENCRYPTED] = 2 * TCP_TAGS_BYTES};
  static const char *const words[] = {
      [TCP_CRC] = "corrupted", [TCP_GUARDED] = "TUTTI_AUTH=data", [TCP_ENCRYPTED] = "TUTTI_AUTH=encrypt"};
  for (size_t check = TCP_CRC; check <= TCP_ENCRYPTED; check++) {
    for (size_t bit = 0; bit < (STREAM_BYTES + tags[check]) * 8; bit++) {
      struct wire wire;
      wire_make(&wire, (enum tcp_check)check);
      wire.damage_bit = bit;
      ssize_t n = damaged_trip(&wire, bit & 1 ? PEEK : RECV);
      if (n != TT_LINK_BROKEN) fail_msg("check %zu, bit %zu: %zd", check, bit, n);
      assert_non_null(strstr(wire.to->base.why, words[check]));
      assert_int_equal(step_receive(wire.to, PEEK, 0, 100, 4), TT_LINK_BROKEN);
      assert_int_equal(tt_tcp_send(&wire.to->base, source, 1), TT_LINK_BROKEN);
      wire_free(&wire);
    }
  }
}

/* Two messages of one call are sent; the receiver gets the wire's bytes of those in `order`, `cut` bytes of the first
 * left out. Returns what it has received then, or the error. */
static ssize_t tampered_trip(enum tcp_check check, const int order[2], size_t cut, int *is_right)
{
  struct wire wire;
  struct tt_head head = head_of(50);
  uint8_t sent[2][TCP_FIRST_BYTES + TCP_TAGS_BYTES + 50];
  size_t got = 0, len = TCP_FIRST_BYTES + (check >= TCP_GUARDED ? TCP_TAGS_BYTES : 0) + 50;
  ssize_t n = 0;
  wire_make(&wire, check);
  for (size_t m = 0; m < 2; m++) {
    source_fill(m, 50);
    tt_tcp_send_begin(&wire.from->base, &head);
    assert_int_equal(tt_tcp_send(&wire.from->base, source, 50), 50);
    assert_int_equal(recv(wire.in, sent[m], len, MSG_WAITALL), len);
  }
  assert_int_equal(send(wire.out, sent[order[0]], len - cut, MSG_NOSIGNAL), len - cut);
  assert_int_equal(send(wire.out, sent[order[1]], len, MSG_NOSIGNAL), len);
  *is_right = 1;
  for (size_t m = 0; m < 2 && n >= 0; m++) {
    tt_tcp_recv_begin(&wire.to->base, &head);
    for (got = 0; got < 50 && n >= 0; got += n > 0 ? (size_t)n : 0) n = step_receive(wire.to, PEEK, got, 50, 1);
    for (size_t i = 0; i < got; i++) *is_right &= sink[i] == pattern(m, i);
  }
  if (n < 0 && check >= TCP_GUARDED) assert_non_null(strstr(wire.to->base.why, "tag does not fit"));
  wire_free(&wire);
  return n < 0 ? n : (ssize_t)got;
}

/* Without tags a frame that comes twice is taken for the next one, and the second one for the first. */
static void frames_twice_out_of_turn_or_cut_break_a_link_with_tags(void **state)
{
  (void)state;
  static const int straight[] = {0, 1}, twice[] = {0, 0}, turned[] = {1, 0};
  int is_right;
  for (enum tcp_check check = TCP_UNCHECKED; check <= TCP_ENCRYPTED; check++) {
    int has_tags = check >= TCP_GUARDED;
    assert_int_equal(tampered_trip(check, straight, 0, &is_right), 50);
    assert_true(is_right);
    assert_int_equal(tampered_trip(check, twice, 0, &is_right), has_tags ? TT_LINK_BROKEN : 50);
    assert_int_equal(is_right, has_tags);
    assert_int_equal(tampered_trip(check, turned, 0, &is_right), has_tags ? TT_LINK_BROKEN : 50);
    assert_int_equal(is_right, has_tags);
    assert_int_equal(tampered_trip(check, straight, 1, &is_right), TT_LINK_BROKEN);
    if (has_tags) assert_true(is_right);
  }
}

static void encrypted_frames_do_not_show_the_data(void **state)
{
  (void)state;
  for (enum tcp_check check = TCP_GUARDED; check <= TCP_ENCRYPTED; check++) {
    struct wire wire;
    struct tt_head head = head_of(20000);
    static uint8_t sent[30000];
    wire_make(&wire, check);
    source_fill(0, head.len);
    tt_tcp_send_begin(&wire.from->base, &head);
    assert_int_equal(tt_tcp_send(&wire.from->base, source, head.len), head.len);
    ssize_t n = recv(wire.in, sent, sizeof sent, 0);
    assert_int_equal(n, TCP_FIRST_BYTES + TCP_TAGS_BYTES + head.len);
    for (size_t at = 0; at + 8 <= head.len; at += 8)
      assert_int_equal(memmem(sent, (size_t)n, source + at, 8) != NULL, check == TCP_GUARDED);
    wire_free(&wire);
  }
}


static void peek_shows_nothing_that_is_not_proven(void **state)
{
  (void)state;
  struct wire wire;
  struct tt_head head = head_of(20000);
  const void *data;
  wire_make(&wire, TCP_ENCRYPTED);
  source_fill(0, head.len);
  tt_tcp_send_begin(&wire.from->base, &head);
  tt_tcp_recv_begin(&wire.to->base, &head);
  assert_int_equal(tt_tcp_send(&wire.from->base, source, head.len), head.len);
  for (size_t left = TCP_FIRST_BYTES + TCP_TAGS_BYTES + head.len; left > 0;) {
    assert_int_equal(tt_tcp_peek(&wire.to->base, &data, 4), 0);
    left -= wire_move(&wire, 1999);
  }
  assert_int_equal(tt_tcp_peek(&wire.to->base, &data, 4), head.len);
  assert_memory_equal(data, source, head.len);
  wire_free(&wire);
}

/* Only payload, the call and unused CRC fields may change unseen. */
static void without_crc_each_field_of_a_head_is_still_compared(void **state)
{
  (void)state;
  for (size_t bit = 0; bit < STREAM_BYTES * 8; bit++) {
    struct wire wire;
    wire_make(&wire, 0);
    wire.damage_bit = bit;
    ssize_t n = damaged_trip(&wire, RECV);
    size_t byte = bit / 8, second = TCP_FIRST_BYTES + 50;
    int in_head = byte < 24 || (byte >= second && byte < second + 24);
    int is_len = byte % second >= 4 && byte % second < 8;
    int is_report = bit == 8 * 8 + 1; /* TT_WORD_OVERFLOW: the second head has another */
    int is_word = byte >= 8 && byte < 16 && !is_report;
    if (is_word) assert_int_equal(n, TT_LINK_MISMATCH);
    else if (is_len) assert_int_not_equal(n, 100); /* shorter: the next head is not where it should be */
    else if (in_head) assert_int_equal(n, TT_LINK_BROKEN);
    else assert_int_equal(n, 100);
    wire_free(&wire);
  }
}

static void ends_that_disagree_about_crc_or_tags_break(void **state)
{
  (void)state;
  for (int round = 0; round < 16; round++) {
    enum tcp_check from = (enum tcp_check)(round / 4), to = (enum tcp_check)(round % 4);
    struct wire wire;
    if (from == to) continue;
    wire_make_ends(&wire, from, to);
    assert_int_equal(damaged_trip(&wire, RECV), TT_LINK_BROKEN);
    wire_free(&wire);
  }
}

int main(void)
{
  alarm(120);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_flipped_bit_breaks_a_link_with_crc_or_tags),
      cmocka_unit_test(frames_twice_out_of_turn_or_cut_break_a_link_with_tags),
      cmocka_unit_test(encrypted_frames_do_not_show_the_data),
      cmocka_unit_test(peek_shows_nothing_that_is_not_proven),
      cmocka_unit_test(without_crc_each_field_of_a_head_is_still_compared),
      cmocka_unit_test(ends_that_disagree_about_crc_or_tags_break),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
