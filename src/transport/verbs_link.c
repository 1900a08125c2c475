/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path of verbs: fragments, credits and completions as verbs.h specifies them. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "transport/verbs.h"

#define SENT_BIT ((uint64_t)1 << 63) /* in wr_id: a send, and below it how many were posted with it */
#define LOOK_EVERY 1024              /* of so many looks in vain one asks the device for events */
#define FLUSH_PATIENCE_NS 20000000   /* for the event that says why work was flushed */

static ssize_t break_link(struct verbs_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

static ssize_t break_link(struct verbs_link *link, const char *format, ...)
{
  if (link->is_broken) return TT_LINK_BROKEN;
  int n = snprintf(link->base.why, sizeof link->base.why, "verbs link to rank %d (%s port %d): ", link->base.peer,
                   link->device->name, link->device->port);
  va_list arguments;
  va_start(arguments, format);
  if (n > 0 && (size_t)n < sizeof link->base.why)
    vsnprintf(link->base.why + n, sizeof link->base.why - (size_t)n, format, arguments);
  va_end(arguments);
  link->is_broken = 1;
  return TT_LINK_BROKEN;
}

/* ---- completions ---------------------------------------------------------------------- */

/* What may be done about a failed completion. */
static const char *remedy(const struct verbs_device *device, enum ibv_wc_status status, int is_sent)
{
  switch (status) {
  case IBV_WC_RETRY_EXC_ERR:
    if (device->is_port_down) return ": this port is down: see ibv_devinfo and the cable";
    if (device->port_downs) return ": this port went down meanwhile: see the cable";
    return ": the peer does not answer: has it ended? See TUTTI_IB_TIMEOUT";
  case IBV_WC_RNR_RETRY_EXC_ERR: return ": the peer takes nothing";
  case IBV_WC_REM_ACCESS_ERR:
  case IBV_WC_REM_INV_REQ_ERR:
  case IBV_WC_REM_OP_ERR:
    return is_sent ? ": the peer's device refused it" : ": this device refused what the peer wrote";
  default: return "";
  }
}

/* That work is flushed is not why: the device's event is, and may come later. */
static ssize_t completion_failed(struct verbs_link *link, const struct ibv_wc *wc)
{
  struct verbs_device *device = link->device;
  tt_verbs_device_look(device);
  if (wc->status != IBV_WC_WR_FLUSH_ERR)
    return break_link(link, "%s (vendor error %u)%s", device->api.wc_status_str(wc->status), wc->vendor_err,
                      remedy(device, wc->status, (wc->wr_id & SENT_BIT) != 0));
  if (!link->failing_ns) link->failing_ns = tt_now_ns();
  return 0;
}

/* Something has failed, or nothing has come for long: looks whether the device says why. `otherwise` is said if it does
 * not, NULL: nothing is wrong then. */
static ssize_t look_why(struct verbs_link *link, const char *otherwise)
{
  struct verbs_device *device = link->device;
  tt_verbs_device_look(device);
  if (device->lost) return break_link(link, "%s: the device was removed, or has to be reset", device->lost);
  if (link->event) return break_link(link, "%s: this device refused what the peer asked of it, or failed", link->event);
  if (otherwise) return break_link(link, "%s", otherwise);
  if (link->failing_ns && tt_now_ns() - link->failing_ns > FLUSH_PATIENCE_NS)
    return break_link(link, "%s: the queue pair had failed", device->api.wc_status_str(IBV_WC_WR_FLUSH_ERR));
  return 0;
}

static ssize_t verb_failed(struct verbs_link *link, const char *verb, int error)
{
  char text[96];
  snprintf(text, sizeof text, "%s failed: %s", verb, strerror(error));
  return look_why(link, text);
}

int tt_verbs_receives_post(struct verbs_link *link, uint32_t count)
{
  struct ibv_recv_wr requests[VERBS_RECEIVES_AT_ONCE], *bad;
  while (count > 0) {
    uint32_t n = count < VERBS_RECEIVES_AT_ONCE ? count : VERBS_RECEIVES_AT_ONCE;
    for (uint32_t i = 0; i < n; i++)
      requests[i] = (struct ibv_recv_wr){.next = i + 1 < n ? &requests[i + 1] : NULL};
    int error = ibv_post_recv(link->qp, requests, &bad);
    if (error) return error;
    count -= n;
  }
  return 0;
}

/* The peer has emptied slots, `freed` of them so far in its low bits. */
static ssize_t credit_take(struct verbs_link *link, uint32_t freed)
{
  struct verbs_sender *out = &link->out;
  uint64_t more = (freed - out->freed) & VERBS_FREED_MASK;
  if (more > out->written - out->freed) return break_link(link, "the peer emptied slots that were never filled");
  out->freed += more;
  return 1;
}

static ssize_t arrival_take(struct verbs_link *link, const struct ibv_wc *wc)
{
  struct verbs_receiver *in = &link->in;
  uint32_t immediate = ntohl(wc->imm_data), number = immediate >> VERBS_NUMBER_SHIFT & VERBS_NUMBER_MASK;
  link->in.owed++;
  if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM) return break_link(link, "the peer sent something unknown");
  if (credit_take(link, immediate & VERBS_FREED_MASK) < 0) return TT_LINK_BROKEN;
  if (immediate >> VERBS_KIND_SHIFT == VERBS_CREDIT) return 1;
  if (immediate >> VERBS_KIND_SHIFT != VERBS_FRAGMENT || number != (in->arrived & VERBS_NUMBER_MASK) ||
      in->arrived - in->freed >= link->slots || wc->byte_len > link->slot_bytes)
    return break_link(link, "the peer wrote a fragment that could not come: %08x, %u bytes", immediate, wc->byte_len);
  in->lens[in->arrived++ % link->slots] = wc->byte_len;
  return 1;
}

static ssize_t completion_take(struct verbs_link *link, const struct ibv_wc *wc)
{
  if (wc->status != IBV_WC_SUCCESS) return completion_failed(link, wc);
  if (!(wc->wr_id & SENT_BIT)) return arrival_take(link, wc);
  link->out.retired = wc->wr_id & ~SENT_BIT;
  return 1;
}

ssize_t tt_verbs_link_pull(struct verbs_link *link)
{
  struct ibv_wc done[16];
  if (link->is_broken) return TT_LINK_BROKEN;
  int n = ibv_poll_cq(link->cq, 16, done);
  if (n < 0) return look_why(link, "its completions cannot be read: the device may have been removed");
  for (int i = 0; i < n; i++)
    if (completion_take(link, &done[i]) < 0) return TT_LINK_BROKEN;
  if (link->in.owed >= VERBS_RECEIVES_AT_ONCE) {
    int error = tt_verbs_receives_post(link, VERBS_RECEIVES_AT_ONCE);
    if (error) return verb_failed(link, "ibv_post_recv", error);
    link->in.owed -= VERBS_RECEIVES_AT_ONCE;
  }
  if (n > 0 || (!link->failing_ns && ++link->idle % LOOK_EVERY)) return n > 0;
  return look_why(link, NULL);
}

/* ---- posting --------------------------------------------------------------------------- */

static int has_place(const struct verbs_link *link, uint32_t reserve)
{
  return link->out.posted - link->out.retired + reserve < link->sends;
}

/* Posts a write of `len` bytes from this side's half of the slot to the peer's, with what the peer must know;
 * is_last: of a message. 1, or TT_LINK_BROKEN. There is a place for it. */
static ssize_t post(struct verbs_link *link, enum verbs_kind kind, uint32_t len, int is_last)
{
  struct verbs_sender *out = &link->out;
  size_t at = out->written % link->slots * link->slot_bytes;
  uint32_t number = kind == VERBS_FRAGMENT ? (uint32_t)out->written & VERBS_NUMBER_MASK : 0;
  struct ibv_sge piece = {(uintptr_t)link->memory + link->slots * link->slot_bytes + at, len, link->mr->lkey};
  out->posted++;
  struct ibv_send_wr request = {
      .wr_id = SENT_BIT | out->posted,
      .sg_list = &piece,
      .num_sge = len > 0,
      .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
      .send_flags = (out->posted % link->signal_every == 0 || is_last ? IBV_SEND_SIGNALED : 0u) |
                    (len > 0 && len <= link->inlined ? IBV_SEND_INLINE : 0u),
      .imm_data = htonl((uint32_t)kind << VERBS_KIND_SHIFT | number << VERBS_NUMBER_SHIFT |
                        ((uint32_t)link->in.freed & VERBS_FREED_MASK)),
      .wr.rdma = {link->ring + at, link->rkey},
  };
  struct ibv_send_wr *bad;
  int error = ibv_post_send(link->qp, &request, &bad);
  if (error) return verb_failed(link, "ibv_post_send", error);
  link->in.told = link->in.freed;
  if (kind == VERBS_FRAGMENT) out->posted_as[out->written++ % link->slots] = out->posted;
  if (is_last) out->ended = out->posted;
  return 1;
}

/* Tells the peer of emptied slots if they are many. Sends are given places back only in bunches, and some are kept for
 * this, so that it does not have to wait. */
static void credit_give(struct verbs_link *link)
{
  struct verbs_receiver *in = &link->in;
  if (in->freed - in->told < (link->slots + 3) / 4 || link->is_broken) return;
  if (!has_place(link, 0)) tt_verbs_link_pull(link);
  if (has_place(link, 0) && !link->is_broken) post(link, VERBS_CREDIT, 0, 0);
}

int tt_verbs_link_is_sent(struct verbs_link *link)
{
  if (!link->is_broken && link->out.retired < link->out.ended) tt_verbs_link_pull(link);
  return link->is_broken || link->out.retired >= link->out.ended;
}

/* ---- outgoing ---------------------------------------------------------------------------- */

static void send_begin(struct tt_link *base, const struct tt_head *head)
{
  struct verbs_sender *out = &((struct verbs_link *)base)->out;
  out->word = head->word;
  out->len = out->left = head->len;
  out->call = head->call ? *head->call : (struct tt_call){.op = 0};
}

/* 1 if a fragment may be written now, 0, or TT_LINK_BROKEN. */
static ssize_t has_room(struct verbs_link *link)
{
  for (int looked = 0;; looked = 1) {
    const struct verbs_sender *out = &link->out;
    int is_free = out->written - out->freed < link->slots && out->retired >= out->posted_as[out->written % link->slots];
    if (is_free && has_place(link, VERBS_SIGNAL_MOST)) return 1;
    if (looked) return 0;
    ssize_t n = tt_verbs_link_pull(link);
    if (n <= 0) return n;
  }
}

/* One fragment of the first of `len` bytes; how many it took, 0 if there is no room, or TT_LINK_BROKEN. */
static ssize_t fragment_send(struct verbs_link *link, const void *data, size_t len)
{
  struct verbs_sender *out = &link->out;
  int is_first = out->left == out->len;
  size_t head_len = is_first ? VERBS_FIRST_BYTES : VERBS_LATER_BYTES;
  size_t most = (link->slot_bytes - head_len) / 16 * 16;
  if (len > most) len = most;
  if (len < out->left) len &= ~(size_t)15;
  if (len == 0) return 0;
  ssize_t can = has_room(link);
  if (can <= 0) return can;
  uint8_t *slot = link->memory + (link->slots + out->written % link->slots) * link->slot_bytes;
  struct verbs_head head = {out->word, is_first ? out->len : out->len - out->left, out->call};
  memcpy(slot, &head, head_len);
  memcpy(slot + head_len, data, len);
  if (post(link, VERBS_FRAGMENT, (uint32_t)(head_len + len), len == out->left) < 0) return TT_LINK_BROKEN;
  out->left -= len;
  return (ssize_t)len;
}

static ssize_t send_bytes(struct tt_link *base, const void *data, size_t len)
{
  struct verbs_link *link = (struct verbs_link *)base;
  size_t taken = 0;
  if (link->is_broken) return TT_LINK_BROKEN;
  if (len > link->out.left) len = link->out.left;
  while (taken < len) {
    ssize_t n = fragment_send(link, (const uint8_t *)data + taken, len - taken);
    if (n < 0) return n;
    if (n == 0) break;
    taken += (size_t)n;
  }
  return (ssize_t)taken;
}

static int put(struct tt_link *base, const struct tt_head *head, const void *data)
{
  struct verbs_link *link = (struct verbs_link *)base;
  if (link->is_broken || has_room(link) <= 0) return 0;
  send_begin(base, head);
  return fragment_send(link, data, head->len) > 0;
}

/* ---- incoming ----------------------------------------------------------------------------- */

static void recv_begin(struct tt_link *base, const struct tt_head *head)
{
  struct verbs_receiver *in = &((struct verbs_link *)base)->in;
  in->word = head->word;
  in->len = in->left = head->len;
}

/* 1 if a fragment is there that has not been opened, 0, or TT_LINK_BROKEN. What came before the link broke still
 * counts. */
static inline ssize_t is_there(struct verbs_link *link)
{
  if (link->in.arrived != link->in.freed) return 1;
  ssize_t n = tt_verbs_link_pull(link);
  return link->in.arrived != link->in.freed ? 1 : n < 0 ? n : 0;
}

static const uint8_t *next_slot(const struct verbs_link *link)
{
  return link->memory + link->in.freed % link->slots * link->slot_bytes;
}

/* Opens the message's next fragment: 1, 0 if it is not there, or an error. */
static ssize_t fragment_open(struct verbs_link *link)
{
  struct verbs_receiver *in = &link->in;
  struct verbs_head head;
  ssize_t there = is_there(link);
  if (there <= 0) return there;
  int is_first = in->left == in->len;
  size_t head_len = is_first ? VERBS_FIRST_BYTES : VERBS_LATER_BYTES, len = in->lens[in->freed % link->slots];
  if (len <= head_len) return break_link(link, "the peer wrote a fragment of %zu bytes, which is too short", len);
  memcpy(&head, next_slot(link), head_len);
  len -= head_len;
  if (is_first && (!tt_word_matches(head.word, in->word) || head.at != in->len)) {
    link->base.seen_word = head.word;
    link->base.seen_call = head.call;
    return TT_LINK_MISMATCH;
  }
  if (is_first) in->word = link->base.seen_word = head.word; /* all its fragments have the same */
  if (head.word != in->word || head.at != (is_first ? in->len : in->len - in->left) || len > in->left ||
      (len < in->left && len % 16))
    return break_link(link, "the peer wrote %zu bytes of %016llx at %llu where %016llx at %llu were due", len,
                      (unsigned long long)head.word, (unsigned long long)head.at, (unsigned long long)in->word,
                      (unsigned long long)(in->len - in->left));
  in->data = next_slot(link) + head_len;
  in->shown = len;
  return 1;
}

/* The caller has got the first `len` bytes of what is shown. */
static inline void release(struct verbs_link *link, size_t len)
{
  struct verbs_receiver *in = &link->in;
  in->data += len;
  in->shown -= len;
  in->left -= len;
  if (in->shown) return;
  in->freed++;
  credit_give(link);
}

static ssize_t peek(struct tt_link *base, const void **data, size_t grain)
{
  struct verbs_link *link = (struct verbs_link *)base;
  (void)grain; /* fragments are cut to 16 bytes and consumed in whole grains */
  if (!link->in.shown) {
    ssize_t n = fragment_open(link);
    if (n <= 0) return n;
  }
  *data = link->in.data;
  return (ssize_t)link->in.shown;
}

/* What is shown lies in this side's own ring, where nobody takes it back. */
static ssize_t consume(struct tt_link *base, size_t len)
{
  release((struct verbs_link *)base, len);
  return 0;
}

static ssize_t recv_bytes(struct tt_link *base, void *data, size_t len)
{
  struct verbs_link *link = (struct verbs_link *)base;
  struct verbs_receiver *in = &link->in;
  size_t got = 0;
  while (got < len) {
    if (!in->shown) {
      ssize_t n = in->left ? fragment_open(link) : 0;
      if (n < 0 && got == 0) return n;
      if (n <= 0) break;
    }
    size_t n = in->shown < len - got ? in->shown : len - got;
    memcpy((uint8_t *)data + got, in->data, n);
    release(link, n);
    got += n;
  }
  return (ssize_t)got;
}

/* As fragment_open, but what is wrong is left to that. */
static const void *look(struct tt_link *base, uint64_t word, size_t len)
{
  struct verbs_link *link = (struct verbs_link *)base;
  struct verbs_head head;
  if (is_there(link) <= 0 || link->in.lens[link->in.freed % link->slots] != VERBS_FIRST_BYTES + len) return NULL;
  memcpy(&head, next_slot(link), sizeof head);
  if (!tt_word_matches(head.word, word) || head.at != len) return NULL;
  base->seen_word = head.word;
  return next_slot(link) + sizeof head;
}

static void take(struct tt_link *base)
{
  struct verbs_link *link = (struct verbs_link *)base;
  link->in.freed++;
  credit_give(link);
}

const struct tt_link_ops tt_verbs_link_ops = {
    .send_begin = send_begin,
    .send = send_bytes,
    .recv_begin = recv_begin,
    .peek = peek,
    .consume = consume,
    .recv = recv_bytes,
    .put = put,
    .look = look,
    .take = take,
    .descriptor = tt_verbs_link_descriptor,
};
