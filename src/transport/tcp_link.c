/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/tcp_link_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/crc32c.h"

_Static_assert(sizeof(struct tcp_head) == 64, "the head is a wire format");
_Static_assert(sizeof(struct tt_call) == 32, "the call is a wire format");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "heads are sent as they lie in memory, which has to be little endian"
#endif

static int descriptor(struct tt_link *base, uint32_t *events)
{
  struct tcp_link *link = (struct tcp_link *)base;
  *events = EPOLLIN | (link->out.is_full ? EPOLLOUT : 0u);
  return link->fd;
}

static const struct tt_link_ops ops = {
    .send_begin = tt_tcp_send_begin,
    .send = tt_tcp_send,
    .recv_begin = tt_tcp_recv_begin,
    .peek = tt_tcp_peek,
    .consume = tt_tcp_consume,
    .recv = tt_tcp_recv,
    .descriptor = descriptor,
};

static const unsigned flags_of[] = {[TCP_UNCHECKED] = 0,
                                    [TCP_CRC] = TCP_FLAG_CRC,
                                    [TCP_GUARDED] = TCP_FLAG_GUARDED,
                                    [TCP_ENCRYPTED] = TCP_FLAG_GUARDED | TCP_FLAG_ENCRYPTED};

tuttiResult_t tt_tcp_link_create(struct tcp_link **out, int fd, enum tcp_check check,
                                 const struct tt_session *session)
{
  struct tcp_link *link = tt_alloc(1, sizeof *link);
  uint8_t *stage = tt_alloc(1, TCP_STAGE_BYTES);
  uint8_t *cipher = check == TCP_ENCRYPTED ? tt_alloc(1, TCP_FRAME_BYTES) : NULL;
  if (!link || !stage || (check == TCP_ENCRYPTED && !cipher)) {
    tt_free(link);
    tt_free(stage);
    tt_free(cipher);
    return tt_fail(tuttiSystemError, "no memory for the %zu bytes of a TCP link", TCP_STAGE_BYTES);
  }
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    tt_free(link);
    tt_free(stage);
    tt_free(cipher);
    return tt_fail(tuttiSystemError, "cannot make socket %d non-blocking: %s", fd, strerror(errno));
  }
  link->base.ops = &ops;
  link->fd = fd;
  link->check = check;
  link->flags = flags_of[check];
  if (session) link->session = *session;
  link->in.stage = stage;
  link->out.cipher = cipher;
  *out = link;
  return tuttiSuccess;
}

/* Bytes that nobody has read would make the kernel reset the connection, and forget what it has yet to send. */
static void unread_drop(int fd)
{
  char bytes[16384];
  for (int k = 0; k < 4096 && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0; k++) {}
}

void tt_tcp_link_destroy(struct tcp_link *link)
{
  if (!link) return;
  unread_drop(link->fd);
  close(link->fd);
  tt_free(link->in.stage);
  tt_free(link->out.cipher);
  if (link->check >= TCP_GUARDED) tt_wipe(link, sizeof *link);
  tt_free(link);
}

ssize_t tt_tcp_break(struct tcp_link *link, const char *format, ...)
{
  char what[128];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  snprintf(link->base.why, sizeof link->base.why, "TCP link to rank %d: %s", link->base.peer, what);
  link->is_broken = 1;
  return TT_LINK_BROKEN;
}

uint32_t tt_tcp_head_crc(const struct tcp_head *head, size_t len)
{
  return tt_crc32c(0, head, len);
}
