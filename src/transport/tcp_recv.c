/* SPDX-License-Identifier: BSD-3-Clause */
/* The incoming direction of a TCP link. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/copy.h"
#include "base/crc32c.h"
#include "transport/tcp_link_private.h"

static size_t smaller(uint64_t a, uint64_t b)
{
  return (size_t)(a < b ? a : b);
}

void tt_tcp_recv_begin(struct tt_link *base, const struct tt_head *head)
{
  struct tcp_receiver *in = &((struct tcp_link *)base)->in;
  in->message = *head;
  in->unframed = in->left = head->len;
  in->shown = 0;
}

/* ---- reading ------------------------------------------------------------------------- */

/* Reads into the pieces, `wanted` bytes in all. Returns how many came, 0 if none are there now, or TT_LINK_BROKEN. */
static ssize_t pull(struct tcp_link *link, struct iovec *pieces, int count, size_t wanted)
{
  ssize_t n;
  do n = count == 1 ? recv(link->fd, pieces->iov_base, pieces->iov_len, 0) : readv(link->fd, pieces, count);
  while (n < 0 && errno == EINTR);
  link->in.is_drained = n < (ssize_t)wanted;
  if (n > 0) return n;
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (n < 0) return tt_tcp_break(link, "receiving failed: %s", strerror(errno));
  return tt_tcp_break(link, "the peer closed the connection");
}

/* Bytes to read beyond the open frame: the next head, and a small message if that head is its first. */
static size_t ahead(const struct tcp_receiver *in)
{
  return in->unframed ? TCP_LATER_BYTES : TCP_AHEAD_BYTES;
}

/* Makes room for `len` bytes from `begin` on. Never called while bytes are shown. */
static void room_make(struct tcp_receiver *in, size_t len)
{
  if (TCP_STAGE_BYTES - in->begin >= len) return;
  memmove(in->stage, in->stage + in->begin, in->end - in->begin);
  in->end -= in->begin;
  in->begin = 0;
}

/* Appends up to `len` bytes to the stage. */
static ssize_t stage_fill(struct tcp_link *link, size_t len)
{
  struct tcp_receiver *in = &link->in;
  struct iovec piece = {in->stage + in->end, len};
  ssize_t n = pull(link, &piece, 1, len);
  if (n > 0) in->end += (size_t)n;
  return n;
}

static ssize_t tag_broken(struct tcp_link *link)
{
  return tt_tcp_break(link, "a frame came changed, twice or out of turn (its tag does not fit, TUTTI_AUTH=%s): "
                      "something on the way changes data", link->check == TCP_ENCRYPTED ? "encrypt" : "data");
}

/* As payload_land, of a guarded frame. Not inlined, so that frames without tags stay as short as they are. */
__attribute__((noinline)) static ssize_t guarded_land(struct tcp_link *link, void *data, size_t len)
{
  struct tcp_receiver *in = &link->in;
  tt_guard_add(&in->guard, data, len);
  if (link->check == TCP_ENCRYPTED) tt_guard_cover(&in->guard, data, data, len);
  return in->unread > 0 || tt_guard_fits(&in->guard, in->tag) ? 1 : tag_broken(link);
}

/* Accounts for `len` bytes of the open frame's payload that have come, at `data`, and decrypts them there. 1, or
 * TT_LINK_BROKEN. */
static ssize_t payload_land(struct tcp_link *link, void *data, size_t len)
{
  struct tcp_receiver *in = &link->in;
  in->unread -= len;
  if (link->check == TCP_UNCHECKED) return 1;
  if (link->check >= TCP_GUARDED) return guarded_land(link, data, len);
  in->crc = tt_crc32c(in->crc, data, len);
  if (in->unread > 0 || in->crc == in->crc_sent) return 1;
  return tt_tcp_break(link, "payload was corrupted on the way: its CRC32C is %08x, sent was %08x", in->crc,
                      in->crc_sent);
}

/* ---- heads ------------------------------------------------------------------------------ */

/* The head stays in the stage, so that a repeated call gives the same answer. */
static ssize_t mismatch(struct tcp_link *link, const struct tcp_head *head)
{
  link->base.seen_word = head->word;
  link->base.seen_call = head->call;
  if (link->check >= TCP_GUARDED) link->session.in.count--;
  return TT_LINK_MISMATCH;
}

/* Authenticates the head at `at` of a guarded frame. 1 if it is the next one's, 0 if bytes are missing, or
 * TT_LINK_BROKEN. */
__attribute__((noinline)) static ssize_t head_authenticate(struct tcp_link *link, const uint8_t *at, size_t held)
{
  struct tcp_receiver *in = &link->in;
  size_t len = in->unframed == in->message.len ? TCP_FIRST_BYTES : TCP_LATER_BYTES;
  if (held < len + TCP_TAGS_BYTES) return 0;
  tt_guard_open(&in->guard, &link->session.in);
  memcpy(in->tag, at + len, sizeof in->tag);
  return tt_guard_head_fits(&in->guard, at, len + TT_TAG_BYTES, at + len + TT_TAG_BYTES) ? 1 : tag_broken(link);
}

/* Compares a head's kind with the one expected; *len is how long such a head is. */
static ssize_t kind_check(struct tcp_link *link, const struct tcp_head *head, size_t *len)
{
  int is_first = link->in.unframed == link->in.message.len;
  unsigned flags = (is_first ? TCP_FLAG_FIRST : 0u) | link->flags;
  if (head->magic != TCP_MAGIC || head->flags != flags)
    return tt_tcp_break(link, "a frame head was corrupted: it begins with %04x %04x instead of %04x %04x",
                        head->magic, head->flags, TCP_MAGIC, flags);
  *len = is_first ? TCP_FIRST_BYTES : TCP_LATER_BYTES;
  return 1;
}

/* Compares a whole head with the expected one. 1, TT_LINK_BROKEN or TT_LINK_MISMATCH. */
static ssize_t head_check(struct tcp_link *link, struct tcp_head *head, size_t head_len)
{
  struct tcp_receiver *in = &link->in;
  uint32_t crc = head->head_crc;
  head->head_crc = 0;
  if (link->check == TCP_CRC && tt_tcp_head_crc(head, head_len) != crc)
    return tt_tcp_break(link, "a frame head was corrupted on the way: its CRC32C is %08x, sent was %08x",
                        tt_tcp_head_crc(head, head_len), crc);
  int is_first = head_len == TCP_FIRST_BYTES;
  if (is_first && !tt_word_matches(head->word, in->message.word)) return mismatch(link, head);
  if (is_first) in->message.word = link->base.seen_word = head->word; /* all frames of the message have the same */
  uint64_t at = is_first ? in->message.len : in->message.len - in->unframed;
  if (head->word != in->message.word || head->at != at)
    return tt_tcp_break(link, "a frame head was corrupted: word %016llx at %llu instead of %016llx at %llu",
                        (unsigned long long)head->word, (unsigned long long)head->at,
                        (unsigned long long)in->message.word, (unsigned long long)at);
  size_t most = smaller(tt_tcp_frame_most(link), in->unframed);
  if (head->len == 0 || head->len > most)
    return tt_tcp_break(link, "a frame head was corrupted: %u bytes in a frame where at most %zu can be", head->len,
                        most);
  return 1;
}

/* Opens the frame whose head follows the `ready` leftovers, if it is in the stage as a whole; the leftovers move
 * up to its payload. 1 if done, 0 if bytes are missing, else the error. */
static ssize_t frame_open(struct tcp_link *link)
{
  struct tcp_receiver *in = &link->in;
  struct tcp_head head;
  uint8_t *at = in->stage + in->begin;
  size_t held = in->end - in->begin - in->ready, head_len = 0;
  ssize_t result = 1;
  if (held < TCP_LATER_BYTES) return 0;
  if (link->check >= TCP_GUARDED) result = head_authenticate(link, at + in->ready, held);
  if (result <= 0) return result;
  memcpy(&head, at + in->ready, TCP_LATER_BYTES);
  result = kind_check(link, &head, &head_len);
  if (result < 0) return result;
  if (held < head_len) return 0;
  memcpy(&head, at + in->ready, head_len);
  result = head_check(link, &head, head_len);
  if (result < 0) return result;

  if (link->check >= TCP_GUARDED) head_len += TCP_TAGS_BYTES;
  if (in->ready) memmove(at + head_len, at, in->ready);
  in->begin += head_len;
  if (in->begin == in->end) in->begin = in->end = 0;
  size_t came = smaller(held - head_len, head.len);
  in->unframed -= head.len;
  in->unread = head.len;
  in->crc = 0;
  in->crc_sent = head.payload_crc;
  result = payload_land(link, in->stage + in->begin + in->ready, came);
  in->ready += came;
  return result;
}

/* Opens the message's next frame, and reads for that if necessary. If it is to be staged and the message is short
 * enough, all of it is read with the head. Returns as frame_open. */
static ssize_t frame_next(struct tcp_link *link, int is_staged)
{
  struct tcp_receiver *in = &link->in;
  ssize_t result = frame_open(link);
  if (result != 0 || in->is_drained) return result;
  size_t held = in->end - in->begin;
  size_t wanted = in->ready + TCP_AHEAD_BYTES;
  if (is_staged && in->unframed <= TCP_WHOLE_BYTES) wanted += in->unframed;
  room_make(in, wanted);
  result = stage_fill(link, wanted - held);
  return result > 0 ? frame_open(link) : result;
}

/* The caller has got the first `len` ready bytes. */
static void ready_drop(struct tcp_receiver *in, size_t len)
{
  in->begin += len;
  in->ready -= len;
  in->left -= len;
  if (in->begin == in->end) in->begin = in->end = 0;
}

/* ---- into the caller's memory ------------------------------------------------------------ */

/* Reads payload straight to its place, and the bytes that follow the frame into the stage, which is empty. */
static ssize_t direct_read(struct tcp_link *link, void *data, size_t len)
{
  struct tcp_receiver *in = &link->in;
  size_t payload = smaller(len, in->unread);
  size_t beyond = payload == in->unread ? ahead(in) : 0;
  struct iovec pieces[2] = {{data, payload}, {in->stage, beyond}};
  ssize_t n = pull(link, pieces, beyond ? 2 : 1, payload + beyond);
  if (n <= 0) return n;
  size_t came = smaller((uint64_t)n, payload);
  in->end = (size_t)n - came;
  in->left -= came;
  ssize_t result = payload_land(link, data, came);
  return result < 0 ? result : (ssize_t)came;
}

/* The next piece of at most `len` bytes, from the stage or the socket. */
static ssize_t piece_recv(struct tcp_link *link, void *data, size_t len)
{
  struct tcp_receiver *in = &link->in;
  if (in->ready == 0 && in->unread == 0) {
    ssize_t result = frame_next(link, 0);
    if (result <= 0) return result;
  }
  if (in->ready == 0) return in->is_drained ? 0 : direct_read(link, data, len);
  size_t piece = smaller(len, in->ready);
  tt_memcpy(data, in->stage + in->begin, piece);
  ready_drop(in, piece);
  return (ssize_t)piece;
}

ssize_t tt_tcp_recv(struct tt_link *base, void *data, size_t len)
{
  struct tcp_link *link = (struct tcp_link *)base;
  struct tcp_receiver *in = &link->in;
  if (link->is_broken) return TT_LINK_BROKEN;
  size_t got = 0;
  len = smaller(len, in->left);
  in->is_drained = 0;
  while (got < len && got < TCP_TURN_BYTES) {
    ssize_t n = piece_recv(link, (uint8_t *)data + got, len - got);
    if (n < 0) return n;
    if (n == 0) break;
    got += (size_t)n;
  }
  return (ssize_t)got;
}

/* ---- in place ------------------------------------------------------------------------------- */

/* Number of ready bytes that may be shown: verified ones, and whole elements or the message's end. */
static size_t showable(const struct tcp_link *link, size_t grain)
{
  const struct tcp_receiver *in = &link->in;
  if (link->check && in->unread > 0) return 0;
  if (in->ready == in->left || grain <= 1) return in->ready;
  return in->ready - in->ready % grain;
}

/* Reads more payload behind the ready bytes. 1 if some came; 0 if none did, or if ready bytes must be consumed first;
 * else the error. */
static ssize_t stage_more(struct tcp_link *link)
{
  struct tcp_receiver *in = &link->in;
  if (in->unread == 0) return in->unframed ? frame_next(link, 1) : 0;
  if (in->is_drained) return 0;
  size_t wanted = in->unread > TCP_FRAME_BYTES ? TCP_FRAME_BYTES : in->unread + ahead(in);
  if (in->shown == 0) room_make(in, in->ready + wanted);
  size_t start = in->end;
  wanted = smaller(wanted, TCP_STAGE_BYTES - start);
  if (wanted == 0) return 0;
  ssize_t n = stage_fill(link, wanted);
  if (n <= 0) return n;
  size_t came = smaller((uint64_t)n, in->unread);
  in->ready += came;
  return payload_land(link, in->stage + start, came);
}

ssize_t tt_tcp_peek(struct tt_link *base, const void **data, size_t grain)
{
  struct tcp_link *link = (struct tcp_link *)base;
  struct tcp_receiver *in = &link->in;
  if (link->is_broken) return TT_LINK_BROKEN;
  in->is_drained = 0;
  size_t show = showable(link, grain);
  while (show == 0 || show == in->shown) {
    if (show > 0 && in->unread == 0) break; /* the next frame is joined only to bytes that are not shown */
    ssize_t result = stage_more(link);
    if (result < 0) return result;
    if (result == 0) break;
    show = showable(link, grain);
  }
  in->shown = show;
  *data = in->stage + in->begin;
  return (ssize_t)show;
}

ssize_t tt_tcp_consume(struct tt_link *base, size_t len)
{
  struct tcp_receiver *in = &((struct tcp_link *)base)->in;
  in->shown = 0;
  ready_drop(in, len);
  return 0;
}
