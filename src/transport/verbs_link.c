/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path of verbs: fragments, credits and completions as verbs_private.h specifies them. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/copy.h"
#include "transport/verbs_private.h"

#define SENT_BIT ((uint64_t)1 << 63) /* in wr_id: marks a send; the bits below are `posted` with it */
#define LOOK_EVERY 1024              /* one of so many polls without a completion asks the device for events */
#define FLUSH_PATIENCE_NS 20000000   /* how long to wait for the event that says why work was flushed */

static void credit_post(struct verbs_link *link);

ssize_t tt_verbs_break(struct verbs_link *link, const char *format, ...)
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

/* The remedy for a failed completion. */
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

/* Flushed work is not the cause: the device's event tells that, and may come later. */
static ssize_t completion_failed(struct verbs_link *link, const struct ibv_wc *wc)
{
  struct verbs_device *device = link->device;
  tt_verbs_device_look(device);
  if (wc->status != IBV_WC_WR_FLUSH_ERR)
    return tt_verbs_break(link, "%s (vendor error %u)%s", device->api.wc_status_str(wc->status), wc->vendor_err,
                          remedy(device, wc->status, (wc->wr_id & SENT_BIT) != 0));
  if (!link->failing_ns) link->failing_ns = tt_now_ns();
  return 0;
}

/* Something has failed, or nothing has come for long: asks the device why. If it does not say, `otherwise` is the
 * reason; NULL: nothing is wrong then. */
static ssize_t look_why(struct verbs_link *link, const char *otherwise)
{
  struct verbs_device *device = link->device;
  tt_verbs_device_look(device);
  if (device->lost) return tt_verbs_break(link, "%s: the device was removed, or has to be reset", device->lost);
  if (link->event)
    return tt_verbs_break(link, "%s: this device refused what the peer asked of it, or failed", link->event);
  if (otherwise) return tt_verbs_break(link, "%s", otherwise);
  if (link->failing_ns && tt_now_ns() - link->failing_ns > FLUSH_PATIENCE_NS)
    return tt_verbs_break(link, "%s: the queue pair had failed", device->api.wc_status_str(IBV_WC_WR_FLUSH_ERR));
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

/* The peer has emptied slots; `freed` is the low bits of how many so far. */
static ssize_t credit_take(struct verbs_link *link, uint32_t freed)
{
  struct verbs_sender *out = &link->out;
  uint64_t more = (freed - out->freed) & VERBS_FREED_MASK;
  if (more > out->written - out->freed) return tt_verbs_break(link, "the peer emptied slots that were never filled");
  out->freed += more;
  return 1;
}

/* A fragment has arrived in the next slot. */
static ssize_t fragment_take(struct verbs_link *link, enum verbs_kind kind, uint32_t number, uint32_t len)
{
  struct verbs_receiver *in = &link->in;
  if (number != (in->arrived & VERBS_NUMBER_MASK) || in->arrived - in->freed >= link->slots || len > link->slot_bytes ||
      (kind == VERBS_ASK && (in->asked || (in->granted && !in->is_written))))
    return tt_verbs_break(link, "the peer wrote a fragment that could not come: %u (kind %d), %u bytes", number, kind,
                          len);
  in->lens[in->arrived++ % link->slots] = len;
  if (kind == VERBS_ASK) in->asked = in->arrived;
  return 1;
}

static ssize_t arrival_take(struct verbs_link *link, const struct ibv_wc *wc)
{
  uint32_t immediate = ntohl(wc->imm_data), number = immediate >> VERBS_NUMBER_SHIFT & VERBS_NUMBER_MASK;
  enum verbs_kind kind = (enum verbs_kind)(immediate >> VERBS_KIND_SHIFT);
  link->in.owed++;
  if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM) return tt_verbs_break(link, "the peer sent something unknown");
  if (credit_take(link, immediate & VERBS_FREED_MASK) < 0) return TT_LINK_BROKEN;
  switch (kind) {
  case VERBS_CREDIT: return 1;
  case VERBS_FRAGMENT:
  case VERBS_ASK: return fragment_take(link, kind, number, wc->byte_len);
  case VERBS_GRANT:
  case VERBS_REFUSAL: return tt_verbs_answer_take(link, kind, number);
  case VERBS_WRITTEN: return tt_verbs_written_take(link, wc->byte_len);
  default: return tt_verbs_break(link, "the peer wrote something unknown: %08x", immediate);
  }
}

static ssize_t completion_take(struct verbs_link *link, const struct ibv_wc *wc)
{
  if (wc->status != IBV_WC_SUCCESS) return completion_failed(link, wc);
  if (!(wc->wr_id & SENT_BIT)) return arrival_take(link, wc);
  link->out.retired = wc->wr_id & ~SENT_BIT;
  return 1;
}

/* Posts used receives anew, in bunches: as many as there are, because one poll may use up more than one bunch. 1, or
 * TT_LINK_BROKEN. */
static ssize_t receives_renew(struct verbs_link *link)
{
  uint32_t count = link->in.owed / VERBS_RECEIVES_AT_ONCE * VERBS_RECEIVES_AT_ONCE;
  int error = tt_verbs_receives_post(link, count);
  if (error) return verb_failed(link, "ibv_post_recv", error);
  link->in.owed -= count;
  return 1;
}

ssize_t tt_verbs_link_pull(struct verbs_link *link)
{
  struct ibv_wc done[16];
  if (link->is_broken) return TT_LINK_BROKEN;
  int n = ibv_poll_cq(link->cq, 16, done);
  if (n < 0) return look_why(link, "its completions cannot be read: the device may have been removed");
  if (n > 0) link->has_news = 1;
  for (int i = 0; i < n; i++)
    if (completion_take(link, &done[i]) < 0) return TT_LINK_BROKEN;
  if (receives_renew(link) < 0) return TT_LINK_BROKEN;
  if (link->in.answer) tt_verbs_answer_post(link);
  credit_post(link);
  if (n > 0 || (!link->failing_ns && ++link->idle % LOOK_EVERY)) return n > 0;
  return look_why(link, NULL);
}

/* ---- posting --------------------------------------------------------------------------- */

static uint32_t immediate_of(const struct verbs_link *link, enum verbs_kind kind)
{
  int is_fragment = kind == VERBS_FRAGMENT || kind == VERBS_ASK;
  uint32_t number = is_fragment ? (uint32_t)link->out.written & VERBS_NUMBER_MASK : 0;
  if (kind == VERBS_REFUSAL && link->in.is_reducing) number = VERBS_REDUCES;
  return htonl((uint32_t)kind << VERBS_KIND_SHIFT | number << VERBS_NUMBER_SHIFT |
               ((uint32_t)link->in.freed & VERBS_FREED_MASK));
}

ssize_t tt_verbs_post(struct verbs_link *link, enum verbs_kind kind, const struct verbs_write *write)
{
  struct verbs_sender *out = &link->out;
  struct ibv_sge pieces[2] = {write->pieces[0], write->pieces[1]};
  size_t len = (size_t)pieces[0].length + pieces[1].length;
  int is_silent = kind == VERBS_SILENT, is_signaled = write->is_signaled || (out->posted + 1) % link->signal_every == 0;
  out->posted++;
  struct ibv_send_wr request = {
      .wr_id = SENT_BIT | out->posted,
      .sg_list = pieces,
      .num_sge = (pieces[0].length > 0) + (pieces[1].length > 0),
      .opcode = is_silent ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM,
      .send_flags = (is_signaled ? IBV_SEND_SIGNALED : 0u) | (len > 0 && len <= link->inlined ? IBV_SEND_INLINE : 0u),
      .imm_data = is_silent ? 0 : immediate_of(link, kind),
      .wr.rdma = {write->to, write->key},
  };
  struct ibv_send_wr *bad;
  int error = ibv_post_send(link->qp, &request, &bad);
  if (error) return verb_failed(link, "ibv_post_send", error);
  if (!is_silent) link->in.told = link->in.freed;
  return 1;
}

/* Posts the next slot's fragment: in_slot bytes that lie there, and after those the lent ones. 1, or TT_LINK_BROKEN.
 * The send queue has a place for it. The caller waits for lent bytes, and may offer no more before they are taken. */
static ssize_t fragment_post(struct verbs_link *link, enum verbs_kind kind, size_t in_slot, const struct ibv_sge *lent)
{
  struct verbs_sender *out = &link->out;
  size_t at = out->written % link->slots * link->slot_bytes;
  int is_last = out->left == 0;
  struct verbs_write write = {
      .pieces = {{(uintptr_t)link->memory + link->slots * link->slot_bytes + at, (uint32_t)in_slot, link->mr->lkey},
                 *lent},
      .to = link->ring + at,
      .key = link->rkey,
      .is_signaled = is_last || lent->length > 0};
  if (tt_verbs_post(link, kind, &write) < 0) return TT_LINK_BROKEN;
  out->posted_as[out->written++ % link->slots] = out->posted;
  if (is_last) out->ended = out->posted;
  return 1;
}

static int is_credit_due(const struct verbs_link *link)
{
  return link->in.freed - link->in.told >= (link->slots + 3) / 4 && !link->is_broken;
}

/* Tells the peer of emptied slots if they are many. If the send queue has no place now, a later poll does it. */
static void credit_post(struct verbs_link *link)
{
  static const struct verbs_write empty;
  if (is_credit_due(link) && tt_verbs_has_place(link, 0)) tt_verbs_post(link, VERBS_CREDIT, &empty);
}

/* Places in the send queue come back only in bunches, and some are kept for credits, so that these need not wait. */
static void credit_give(struct verbs_link *link)
{
  if (is_credit_due(link) && !tt_verbs_has_place(link, 0)) tt_verbs_link_pull(link);
  credit_post(link);
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
  out->asked = VERBS_MAY_ASK;
  out->call = head->call ? *head->call : (struct tt_call){.op = 0};
  tt_verbs_refusals_begin(&out->refusals, head->call ? tt_call_word(head->call) : head->word);
}

/* 1 if a fragment may be written now, 0, or TT_LINK_BROKEN. */
static ssize_t has_room(struct verbs_link *link)
{
  for (int looked = 0;; looked = 1) {
    const struct verbs_sender *out = &link->out;
    int is_free = out->written - out->freed < link->slots && out->retired >= out->posted_as[out->written % link->slots];
    if (is_free && tt_verbs_has_place(link, VERBS_SIGNAL_MOST)) return 1;
    if (looked) return 0;
    ssize_t n = tt_verbs_link_pull(link);
    if (n <= 0) return n;
  }
}

/* Sends one fragment of the first of `len` bytes: how many it took, 0 if there is no room, or TT_LINK_BROKEN. */
static ssize_t fragment_send(struct verbs_link *link, const void *data, size_t len)
{
  struct verbs_sender *out = &link->out;
  int is_first = out->left == out->len, asks = tt_verbs_should_ask(link, data, len);
  size_t head_len = is_first ? VERBS_FIRST_BYTES : VERBS_LATER_BYTES;
  size_t most = (link->slot_bytes - head_len) / 16 * 16;
  if (asks && most > VERBS_ASK_BYTES) most = VERBS_ASK_BYTES;
  if (asks && most > len / 2) most = len / 2;
  if (len > most) len = most;
  if (len < out->left) len &= ~(size_t)15;
  if (len == 0) return 0;
  ssize_t can = has_room(link);
  if (can <= 0) return can;
  uint8_t *slot = link->memory + (link->slots + out->written % link->slots) * link->slot_bytes;
  struct verbs_head head = {out->word, is_first ? out->len : out->len - out->left, out->call};
  memcpy(slot, &head, head_len);
  struct ibv_mr *mr = len < VERBS_LEND_BYTES ? NULL : tt_verbs_memory_find(link->device->memory, data, len);
  struct ibv_sge lent = {mr ? (uintptr_t)data : 0, mr ? (uint32_t)len : 0, mr ? mr->lkey : 0};
  if (!mr) tt_memcpy(slot + head_len, data, len);
  out->left -= len;
  out->asked = asks ? VERBS_ASKED : VERBS_NO_MORE;
  out->asks += (uint64_t)asks;
  if (fragment_post(link, asks ? VERBS_ASK : VERBS_FRAGMENT, head_len + (mr ? 0 : len), &lent) < 0)
    return TT_LINK_BROKEN;
  tt_verbs_lend(out, mr ? out->posted : 0, len);
  return (ssize_t)len;
}

static ssize_t piece_send(struct verbs_link *link, const void *data, size_t len)
{
  switch (link->out.asked) {
  case VERBS_ASKED: return 0;
  case VERBS_GRANTED: return tt_verbs_direct_write(link, data, len);
  default: return fragment_send(link, data, len);
  }
}

/* Bytes that were lent before are offered again, and come first. */
static ssize_t send_bytes(struct tt_link *base, const void *data, size_t len)
{
  struct verbs_link *link = (struct verbs_link *)base;
  struct verbs_sender *out = &link->out;
  size_t at = out->lent_bytes, most = at + out->left;
  if (link->is_broken) return TT_LINK_BROKEN;
  if ((at || out->asked == VERBS_ASKED) && tt_verbs_link_pull(link) < 0) return TT_LINK_BROKEN;
  if (len > most) len = most;
  size_t taken = tt_verbs_take_back(out);
  while (at < len) {
    ssize_t n = piece_send(link, (const uint8_t *)data + at, len - at);
    if (n < 0) return n;
    if (n == 0) break;
    at += (size_t)n;
    taken += tt_verbs_take_back(out);
  }
  return (ssize_t)taken;
}

static int put(struct tt_link *base, const struct tt_head *head, const void *data)
{
  struct verbs_link *link = (struct verbs_link *)base;
  if (link->is_broken || has_room(link) <= 0) return 0;
  send_begin(base, head);
  link->out.asked = VERBS_NO_MORE;
  int is_sent = fragment_send(link, data, head->len) > 0;
  tt_verbs_take_back(&link->out); /* the message is short, and was copied */
  return is_sent;
}

/* ---- incoming ----------------------------------------------------------------------------- */

static void recv_begin(struct tt_link *base, const struct tt_head *head)
{
  struct verbs_receiver *in = &((struct verbs_link *)base)->in;
  in->word = head->word;
  in->len = in->left = head->len;
}

/* 1 if a fragment is there that has not been opened, 0, or TT_LINK_BROKEN. Fragments that came before the link broke
 * still count. */
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

/* Opens the message's next fragment: 1, 0 if it is not there, or an error. recv calls it with `room` bytes at `to`,
 * peek with NULL. */
static ssize_t fragment_open(struct verbs_link *link, void *to, size_t room)
{
  struct verbs_receiver *in = &link->in;
  struct verbs_head head;
  ssize_t there = is_there(link);
  if (there <= 0) return there;
  int is_first = in->left == in->len;
  size_t head_len = is_first ? VERBS_FIRST_BYTES : VERBS_LATER_BYTES, len = in->lens[in->freed % link->slots];
  if (len <= head_len) return tt_verbs_break(link, "the peer wrote a fragment of %zu bytes, which is too short", len);
  memcpy(&head, next_slot(link), head_len);
  len -= head_len;
  if (is_first && (!tt_word_matches(head.word, in->word) || head.at != in->len)) {
    link->base.seen_word = head.word;
    link->base.seen_call = head.call;
    return TT_LINK_MISMATCH;
  }
  if (is_first) in->word = link->base.seen_word = head.word; /* all fragments of the message have the same */
  if (head.word != in->word || head.at != (is_first ? in->len : in->len - in->left) || len > in->left ||
      (len < in->left && len % 16) || (in->asked == in->freed + 1 && (!is_first || len == in->left)))
    return tt_verbs_break(link, "the peer wrote %zu bytes of %016llx at %llu where %016llx at %llu were due", len,
                          (unsigned long long)head.word, (unsigned long long)head.at, (unsigned long long)in->word,
                          (unsigned long long)(in->len - in->left));
  in->data = next_slot(link) + head_len;
  in->shown = len;
  if (in->asked == in->freed + 1) tt_verbs_answer(link, to, room);
  return 1;
}

/* The caller has got the first `len` of the shown bytes. */
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
  (void)grain; /* fragments are multiples of 16 bytes and consumed in whole grains */
  if (link->in.shown && link->in.answer) tt_verbs_link_pull(link); /* the caller may wait for another link */
  if (!link->in.shown) {
    ssize_t n = fragment_open(link, NULL, 0);
    if (n <= 0) return n;
  }
  *data = link->in.data;
  return (ssize_t)link->in.shown;
}

/* Shown bytes lie in this side's own ring, where no sender can take them back. */
static ssize_t consume(struct tt_link *base, size_t len)
{
  release((struct verbs_link *)base, len);
  return 0;
}

/* Receives the rest of the message, which the peer writes into place. Returns its length, 0 if it is not there yet, or
 * TT_LINK_BROKEN. */
static ssize_t written_recv(struct verbs_link *link)
{
  struct verbs_receiver *in = &link->in;
  ssize_t pulled = in->is_written ? 1 : tt_verbs_link_pull(link);
  if (!in->is_written) return pulled < 0 ? pulled : 0;
  size_t n = in->granted;
  in->left -= n;
  in->granted = 0;
  in->is_written = 0;
  return (ssize_t)n;
}

static ssize_t recv_bytes(struct tt_link *base, void *data, size_t len)
{
  struct verbs_link *link = (struct verbs_link *)base;
  struct verbs_receiver *in = &link->in;
  size_t got = 0;
  while (got < len && in->left) {
    ssize_t there = in->shown    ? 1
                    : in->granted ? written_recv(link)
                                  : fragment_open(link, (uint8_t *)data + got, len - got);
    if (there < 0 && got == 0) return there;
    if (there <= 0) break;
    size_t n = in->shown < len - got ? in->shown : len - got;
    if (n) {
      tt_memcpy((uint8_t *)data + got, in->data, n);
      release(link, n);
    } else {
      n = (size_t)there;
    }
    got += n;
  }
  return (ssize_t)got;
}

/* As fragment_open, but leaves the report of errors to that. */
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
