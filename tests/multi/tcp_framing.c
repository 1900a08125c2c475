/* SPDX-License-Identifier: BSD-3-Clause */
/* Two TCP links with a wire between them that the test moves by hand, so that every split of the byte
 * stream and every damage to it can be made.
 * Labels: serial. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/tcp_link_private.h"

enum mode { RECV, PEEK };

/* ---- a kernel that does as little as it may: these stand before those of the C library ---- */

static size_t kernel_limit; /* bytes of a call at most, chosen anew each time; 0: does all it can */
static uint32_t seed = 1;

static uint32_t random_below(uint32_t bound)
{
  seed = seed * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(seed >> 8) * bound >> 24);
}

/* Bytes that this call may take, or 0 with errno. */
static size_t kernel_share(size_t len)
{
  if (kernel_limit == 0) return len;
  uint32_t dice = random_below(8);
  errno = dice == 0 ? EINTR : EAGAIN;
  if (dice < 2) return 0;
  size_t share = 1 + random_below((uint32_t)kernel_limit);
  return share < len ? share : len;
}

/* Cuts the pieces to what this call may take; returns their number, 0 if none. */
static int pieces_cut(struct iovec *cut, const struct iovec *pieces, int count)
{
  size_t all = 0, used = 0;
  int n = 0;
  for (int i = 0; i < count; i++) all += pieces[i].iov_len;
  size_t share = kernel_share(all);
  for (; n < count && used < share; n++) {
    cut[n] = pieces[n];
    if (cut[n].iov_len > share - used) cut[n].iov_len = share - used;
    used += cut[n].iov_len;
  }
  return n;
}

ssize_t send(int fd, const void *data, size_t len, int flags)
{
  struct iovec whole = {(void *)(uintptr_t)data, len}, cut;
  if (!pieces_cut(&cut, &whole, 1)) return -1;
  return syscall(SYS_sendto, fd, cut.iov_base, cut.iov_len, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  struct iovec cut[2];
  int n = pieces_cut(cut, message->msg_iov, (int)message->msg_iovlen);
  if (!n) return -1;
  struct msghdr less = {.msg_iov = cut, .msg_iovlen = (size_t)n};
  return syscall(SYS_sendmsg, fd, &less, flags);
}

ssize_t recv(int fd, void *data, size_t len, int flags)
{
  struct iovec whole = {data, len}, cut;
  if (!pieces_cut(&cut, &whole, 1)) return -1;
  return syscall(SYS_recvfrom, fd, cut.iov_base, cut.iov_len, flags, NULL, NULL);
}

ssize_t readv(int fd, const struct iovec *pieces, int count)
{
  struct iovec cut[2];
  int n = pieces_cut(cut, pieces, count);
  return n ? syscall(SYS_readv, fd, cut, n) : -1;
}

/* ---- the wire ---- */

struct wire {
  struct tcp_link *from, *to;
  int in, out;       /* our ends of both sockets */
  size_t moved;      /* bytes carried so far */
  size_t damage_bit; /* of the stream, flipped on the way; SIZE_MAX: none */
};

static struct tt_call a_call = {12, 1024, TT_ALL_REDUCE, tuttiFloat32, tuttiSum, 0, -1, 0};

static struct tt_head head_of(size_t len)
{
  return (struct tt_head){tt_call_word(&a_call), len, &a_call, 0};
}

static void wire_make_ends(struct wire *wire, int from_crc, int to_crc)
{
  int from[2], to[2];
  *wire = (struct wire){.damage_bit = SIZE_MAX};
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, from), 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, to), 0);
  assert_int_equal(tt_tcp_link_create(&wire->from, from[0], from_crc), tuttiSuccess);
  assert_int_equal(tt_tcp_link_create(&wire->to, to[0], to_crc), tuttiSuccess);
  wire->in = from[1];
  wire->out = to[1];
}

static void wire_make(struct wire *wire, int has_crc)
{
  wire_make_ends(wire, has_crc, has_crc);
}

static void wire_free(struct wire *wire)
{
  tt_tcp_link_destroy(wire->from);
  tt_tcp_link_destroy(wire->to);
  close(wire->in);
  close(wire->out);
}

/* Carries up to `len` bytes; returns how many. */
static size_t wire_move(struct wire *wire, size_t len)
{
  static uint8_t bytes[1 << 16];
  size_t limit = kernel_limit;
  if (len > sizeof bytes) len = sizeof bytes;
  kernel_limit = 0;
  ssize_t n = recv(wire->in, bytes, len, MSG_PEEK);
  size_t flip = wire->damage_bit / 8;
  if (n > 0 && flip >= wire->moved && flip < wire->moved + (size_t)n)
    bytes[flip - wire->moved] ^= (uint8_t)(1u << wire->damage_bit % 8);
  if (n > 0) n = send(wire->out, bytes, (size_t)n, MSG_NOSIGNAL);
  if (n > 0) assert_int_equal(recv(wire->in, bytes, (size_t)n, 0), n);
  kernel_limit = limit;
  if (n <= 0) return 0;
  wire->moved += (size_t)n;
  return (size_t)n;
}

/* Byte `i` of message `number`. */
static uint8_t pattern(size_t number, size_t i)
{
  return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + number * 101 + 3);
}

#define LONGEST ((size_t)700 * 1024)
static uint8_t source[LONGEST], sink[LONGEST];

static void source_fill(size_t number, size_t len)
{
  for (size_t i = 0; i < len; i++) source[i] = pattern(number, i);
}

static void sink_check(size_t number, size_t len)
{
  for (size_t i = 0; i < len; i++)
    if (sink[i] != pattern(number, i)) fail_msg("byte %zu of message %zu is wrong", i, number);
}

/* One step of receiving; consumes a random part of what is shown. */
static ssize_t step_receive(struct tcp_link *link, enum mode mode, size_t got, size_t len, size_t grain)
{
  const void *data;
  if (mode == RECV) return tt_tcp_recv(&link->base, sink + got, 1 + random_below((uint32_t)(len - got)));
  ssize_t n = tt_tcp_peek(&link->base, &data, grain);
  if (n <= 0) return n;
  assert_true((size_t)n % grain == 0 || (size_t)n == len - got);
  const void *again;
  ssize_t more = tt_tcp_peek(&link->base, &again, grain);
  if (more < 0) return more;
  assert_true(more >= n);
  assert_memory_equal(again, data, (size_t)n);
  size_t use = (size_t)n;
  if (random_below(2) && use > grain) use = grain * (1 + random_below((uint32_t)(use / grain)));
  memcpy(sink + got, data, use);
  tt_tcp_consume(&link->base, use);
  return (ssize_t)use;
}

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
  for (int has_crc = 0; has_crc < 2; has_crc++) {
    struct wire wire;
    wire_make(&wire, has_crc);
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
  for (int has_crc = 0; has_crc < 2; has_crc++) {
    struct wire wire;
    wire_make(&wire, has_crc);
    for (size_t i = 0; i < sizeof long_trips / sizeof *long_trips; i++) message_travels(&wire, i, &long_trips[i]);
    wire_free(&wire);
  }
}

static void random_messages_follow_one_another(void **state)
{
  (void)state;
  for (size_t round = 0; round < 8; round++) {
    struct wire wire;
    wire_make(&wire, round & 1);
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
  for (size_t k = 0; k < 2 * (sizeof limits / sizeof *limits); k++) {
    struct wire wire;
    size_t limit = limits[k / 2];
    wire_make(&wire, k & 1);
    kernel_limit = limit;
    for (size_t i = 0; i < 60; i++) {
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
  for (int has_crc = 0; has_crc < 2; has_crc++) {
    struct wire wire;
    wire_make(&wire, has_crc);
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

static void every_flipped_bit_breaks_the_link_when_crc_is_on(void **state)
{
  (void)state;
  for (size_t bit = 0; bit < STREAM_BYTES * 8; bit++) {
    struct wire wire;
    wire_make(&wire, 1);
    wire.damage_bit = bit;
    ssize_t n = damaged_trip(&wire, bit & 1 ? PEEK : RECV);
    if (n != TT_LINK_BROKEN) fail_msg("bit %zu: %zd", bit, n);
    assert_non_null(strstr(wire.to->base.why, "corrupted"));
    assert_int_equal(step_receive(wire.to, PEEK, 0, 100, 4), TT_LINK_BROKEN);
    assert_int_equal(tt_tcp_send(&wire.to->base, source, 1), TT_LINK_BROKEN);
    wire_free(&wire);
  }
}

static void peek_shows_nothing_that_is_not_proven(void **state)
{
  (void)state;
  struct wire wire;
  struct tt_head head = head_of(20000);
  const void *data;
  wire_make(&wire, 1);
  source_fill(0, head.len);
  tt_tcp_send_begin(&wire.from->base, &head);
  tt_tcp_recv_begin(&wire.to->base, &head);
  assert_int_equal(tt_tcp_send(&wire.from->base, source, head.len), head.len);
  for (size_t left = TCP_FIRST_BYTES + head.len; left > 0;) {
    assert_int_equal(tt_tcp_peek(&wire.to->base, &data, 4), 0);
    left -= wire_move(&wire, 1999);
  }
  assert_int_equal(tt_tcp_peek(&wire.to->base, &data, 4), head.len);
  assert_memory_equal(data, source, head.len);
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

static void another_call_is_a_mismatch_that_shows_it(void **state)
{
  (void)state;
  for (int mode = RECV; mode <= PEEK; mode++) {
    struct wire wire;
    wire_make(&wire, mode == PEEK);
    struct tt_call other = {13, 2048, TT_ALL_REDUCE, tuttiFloat64, tuttiMax, 1, 3, 99};
    struct tt_head sent = {tt_call_word(&other), 40, &other, 0}, expected = head_of(24);
    tt_tcp_send_begin(&wire.from->base, &sent);
    tt_tcp_recv_begin(&wire.to->base, &expected);
    assert_int_equal(tt_tcp_send(&wire.from->base, source, 40), 40);
    while (wire_move(&wire, 7) > 0) {}
    for (int i = 0; i < 2; i++) assert_int_equal(step_receive(wire.to, (enum mode)mode, 0, 24, 1), TT_LINK_MISMATCH);
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

static void ends_that_disagree_about_crc_break(void **state)
{
  (void)state;
  for (int from_crc = 0; from_crc < 2; from_crc++) {
    struct wire wire;
    wire_make_ends(&wire, from_crc, !from_crc);
    assert_int_equal(damaged_trip(&wire, RECV), TT_LINK_BROKEN);
    wire_free(&wire);
  }
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
      cmocka_unit_test(every_flipped_bit_breaks_the_link_when_crc_is_on),
      cmocka_unit_test(peek_shows_nothing_that_is_not_proven),
      cmocka_unit_test(peek_shows_more_of_a_frame_until_it_has_no_room),
      cmocka_unit_test(without_crc_each_field_of_a_head_is_still_compared),
      cmocka_unit_test(another_call_is_a_mismatch_that_shows_it),
      cmocka_unit_test(a_message_without_call_carries_an_empty_one),
      cmocka_unit_test(another_length_of_the_same_call_breaks_the_link),
      cmocka_unit_test(ends_that_disagree_about_crc_break),
      cmocka_unit_test(what_came_before_the_end_is_still_received),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
