/* SPDX-License-Identifier: BSD-3-Clause */
/* The outgoing direction of a TCP link. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/crc32c.h"
#include "transport/tcp_link_private.h"

void tt_tcp_send_begin(struct tt_link *base, const struct tt_head *head)
{
  struct tcp_sender *out = &((struct tcp_link *)base)->out;
  out->message = *head;
  out->unframed = head->len;
}

static size_t smaller(uint64_t a, uint64_t b)
{
  return (size_t)(a < b ? a : b);
}

/* Writes the tags of the open frame behind its head, and encrypts its payload. */
static void frame_guard(struct tcp_link *link, const void *data, size_t len)
{
  struct tcp_sender *out = &link->out;
  struct tt_guard guard;
  uint8_t *tag = out->wire.bytes + out->head_len;
  tt_guard_open(&guard, &link->session.out);
  if (out->cipher) tt_guard_cover(&guard, out->cipher, data, len);
  tt_guard_add(&guard, out->cipher ? out->cipher : data, len);
  tt_guard_tag(&guard, tag);
  tt_guard_head(&guard, out->wire.bytes, out->head_len + TT_TAG_BYTES, tag + TT_TAG_BYTES);
  out->head_len += TCP_TAGS_BYTES;
}

/* Begins the next frame, over the first bytes offered. */
static void frame_open(struct tcp_link *link, const void *data, size_t offered)
{
  struct tcp_sender *out = &link->out;
  struct tcp_head *head = &out->wire.head;
  uint64_t at = out->message.len - out->unframed;
  size_t len = smaller(smaller(offered, tt_tcp_frame_most(link)), out->unframed);
  head->magic = TCP_MAGIC;
  head->flags = (uint16_t)((at == 0 ? TCP_FLAG_FIRST : 0) | link->flags);
  head->len = (uint32_t)len;
  head->word = out->message.word;
  head->at = at == 0 ? out->message.len : at;
  head->payload_crc = head->head_crc = 0;
  out->head_len = at == 0 ? TCP_FIRST_BYTES : TCP_LATER_BYTES;
  if (at == 0 && out->message.call) head->call = *out->message.call;
  if (at == 0 && !out->message.call) memset(&head->call, 0, sizeof head->call);
  if (link->check == TCP_CRC) {
    head->payload_crc = tt_crc32c(0, data, len);
    head->head_crc = tt_tcp_head_crc(head, out->head_len);
  }
  if (link->check >= TCP_GUARDED) frame_guard(link, data, len);
  out->head_left = out->head_len;
  out->frame_len = out->frame_left = len;
  out->unframed -= len;
}

/* Makes one system call with the rest of the head and `len` bytes of payload. */
static ssize_t push(struct tcp_link *link, const void *data, size_t len)
{
  struct tcp_sender *out = &link->out;
  if (out->head_left == 0) return send(link->fd, data, len, MSG_NOSIGNAL);
  uint8_t *head = out->wire.bytes + out->head_len - out->head_left;
  if (len <= TCP_INLINE_BYTES) {
    memcpy(out->wire.bytes + out->head_len, data, len);
    return send(link->fd, head, out->head_left + len, MSG_NOSIGNAL);
  }
  struct iovec pieces[2] = {{head, out->head_left}, {(void *)(uintptr_t)data, len}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  return sendmsg(link->fd, &message, MSG_NOSIGNAL);
}

/* The peer may have closed its end behind its last message. */
static ssize_t broken(struct tcp_link *link, int error)
{
  snprintf(link->base.why, sizeof link->base.why, "TCP link to rank %d: sending failed: %s", link->base.peer,
           strerror(error));
  link->out.is_broken = 1;
  return TT_LINK_BROKEN;
}

/* Sends as much of the open frame as it can; *taken is how much of data went. 1 if the kernel took
 * everything, 0 if not, else TT_LINK_BROKEN. */
static ssize_t frame_push(struct tcp_link *link, const void *data, size_t len, size_t *taken)
{
  struct tcp_sender *out = &link->out;
  size_t wanted = out->head_left + len;
  *taken = 0;
  ssize_t n;
  do n = push(link, data, len);
  while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (n < 0) return broken(link, errno);
  size_t head = smaller((uint64_t)n, out->head_left);
  out->head_left -= head;
  *taken = (size_t)n - head;
  out->frame_left -= *taken;
  return (size_t)n == wanted;
}

ssize_t tt_tcp_send(struct tt_link *base, const void *data, size_t len)
{
  struct tcp_link *link = (struct tcp_link *)base;
  struct tcp_sender *out = &link->out;
  if (link->is_broken || out->is_broken) return TT_LINK_BROKEN;
  size_t sent = 0, taken;
  ssize_t more = 1;
  while (more > 0 && sent < len && sent < TCP_TURN_BYTES) {
    const uint8_t *at = (const uint8_t *)data + sent;
    if (out->frame_left == 0) {
      if (out->unframed == 0) break;
      frame_open(link, at, len - sent);
    }
    if (out->cipher) at = out->cipher + out->frame_len - out->frame_left;
    more = frame_push(link, at, smaller(len - sent, out->frame_left), &taken);
    sent += taken;
  }
  if (more < 0) return more;
  out->is_full = sent < len;
  return (ssize_t)sent;
}
