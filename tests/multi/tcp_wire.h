/* SPDX-License-Identifier: BSD-3-Clause */
/* Two TCP links with a wire between them that the test moves by hand, so that every split of the byte
 * stream and every damage to it can be made. */
#ifndef TT_TEST_TCP_WIRE_H
#define TT_TEST_TCP_WIRE_H

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

static inline uint32_t random_below(uint32_t bound)
{
  seed = seed * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(seed >> 8) * bound >> 24);
}

/* Bytes that this call may take, or 0 with errno. */
static inline size_t kernel_share(size_t len)
{
  if (kernel_limit == 0) return len;
  uint32_t dice = random_below(8);
  errno = dice == 0 ? EINTR : EAGAIN;
  if (dice < 2) return 0;
  size_t share = 1 + random_below((uint32_t)kernel_limit);
  return share < len ? share : len;
}

/* Cuts the pieces to what this call may take; returns their number, 0 if none. */
static inline int pieces_cut(struct iovec *cut, const struct iovec *pieces, int count)
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

static inline struct tt_head head_of(size_t len)
{
  return (struct tt_head){tt_call_word(&a_call), len, &a_call, 0};
}

static inline void wire_make_ends(struct wire *wire, enum tcp_check from_check, enum tcp_check to_check)
{
  int from[2], to[2];
  struct tt_session keys = {.out.key = {1, 2, 3}, .in.key = {4, 5, 6}}, other = {.out = keys.in, .in = keys.out};
  *wire = (struct wire){.damage_bit = SIZE_MAX};
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, from), 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, to), 0);
  assert_int_equal(tt_tcp_link_create(&wire->from, from[0], from_check, &keys), tuttiSuccess);
  assert_int_equal(tt_tcp_link_create(&wire->to, to[0], to_check, &other), tuttiSuccess);
  wire->in = from[1];
  wire->out = to[1];
}

static inline void wire_make(struct wire *wire, enum tcp_check check)
{
  wire_make_ends(wire, check, check);
}

static inline void wire_free(struct wire *wire)
{
  tt_tcp_link_destroy(wire->from);
  tt_tcp_link_destroy(wire->to);
  close(wire->in);
  close(wire->out);
}

/* Carries up to `len` bytes; returns how many. */
static inline size_t wire_move(struct wire *wire, size_t len)
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
static inline uint8_t pattern(size_t number, size_t i)
{
  return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + number * 101 + 3);
}

#define LONGEST ((size_t)700 * 1024)
static uint8_t source[LONGEST], sink[LONGEST];

static inline void source_fill(size_t number, size_t len)
{
  for (size_t i = 0; i < len; i++) source[i] = pattern(number, i);
}

static inline void sink_check(size_t number, size_t len)
{
  for (size_t i = 0; i < len; i++)
    if (sink[i] != pattern(number, i)) fail_msg("byte %zu of message %zu is wrong", i, number);
}

/* One step of receiving; consumes a random part of what is shown. */
static inline ssize_t step_receive(struct tcp_link *link, enum mode mode, size_t got, size_t len, size_t grain)
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

#endif
