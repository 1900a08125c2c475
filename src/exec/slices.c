/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags on a link. A slice of a message is its head, a message of the link by itself, and then its
 * bytes, another one unless there are none: so both ends know the length of each when they begin it.
 *
 * The head, 64 bytes, little endian: magic, bytes of this slice, number of the message (1, 2, ... in the order of first
 * slices from this sender to this receiver), its bytes in all, those before this slice, tag, sender. A receiver checks
 * each field. At its end it has room for the bytes of a small message, and then nothing is behind it. */
#include <stdio.h>
#include <string.h>

#include "exec/message_private.h"

#define MAGIC 0x6761546du
#define MOVES 64                 /* messages of a link in a poll, in one direction: then others have their turn */
#define MOVE_BYTES (1024 * 1024) /* likewise, bytes */

/* Begins the next message of the link in this direction. They are numbered, so that a lost one is noticed. */
static void way_begin(struct way *way, size_t len, int is_body)
{
  way->call = (struct tt_call){
      .op = way->call.op + 1, .count = len, .collective = TT_PAIRS, .type = tuttiUint8, .root = -1};
  way->link_head = (struct tt_head){tt_call_word(&way->call), len, &way->call, 0};
  way->len = len;
  way->done = 0;
  way->is_body = is_body;
  way->is_begun = 1;
}

/* Handles the error of a link function. A broken link is no error as long as nothing needs it. */
static tuttiResult_t link_failed(struct tt_messages *messages, struct route *route, ssize_t code, int *is_broken)
{
  const struct tt_link *link = route->link;
  if (code == TT_LINK_BROKEN) {
    *is_broken = 1;
    snprintf(route->why, sizeof route->why, "%s", link->why);
    return tuttiSuccess;
  }
  return tt_watch_mismatch(messages->exec->watch, &route->in.call, route->peer, link->seen_word,
                           link->seen_call.op ? &link->seen_call : NULL);
}

/* Begins the head of the most urgent send's next slice; 0: there is nothing to send. */
static int slice_begin(struct tt_messages *messages, struct route *route)
{
  struct tt_message *send = tt_priority_first(&route->queue);
  if (!send) return 0;
  tt_priority_pop(&route->queue);
  route->now = send;
  if (!send->number) send->number = ++route->out.begun;
  size_t left = send->bytes - send->sent;
  uint32_t len = (uint32_t)(left < TT_SLICE_BYTES ? left : TT_SLICE_BYTES);
  route->out.head = (struct head){.magic = MAGIC, .len = len, .number = send->number, .total = send->bytes,
                                  .start = send->sent, .tag = send->tag, .source = messages->exec->rank};
  if (send->bytes && send->bytes <= SMALL_BYTES) memcpy(route->out.head.small, send->data, send->bytes);
  way_begin(&route->out, sizeof route->out.head, 0);
  route->link->ops->send_begin(route->link, &route->out.link_head);
  return 1;
}

/* The head or the bytes of a slice were sent. */
static void slice_goes_on(struct tt_messages *messages, struct route *route)
{
  struct tt_message *send = route->now;
  if (!route->out.is_body && route->out.head.total > SMALL_BYTES) {
    way_begin(&route->out, route->out.head.len, 1);
    route->link->ops->send_begin(route->link, &route->out.link_head);
    return;
  }
  route->out.is_begun = 0;
  route->now = NULL;
  send->sent += route->out.head.len;
  if (send->sent == send->bytes) tt_message_end(messages, send, tuttiSuccess);
  else tt_priority_push(&route->queue, send->urgency, send->order, send); /* behind more urgent ones */
}

tuttiResult_t tt_route_send(struct tt_messages *messages, struct route *route, int *moved)
{
  struct way *out = &route->out;
  for (size_t k = 0, bytes = 0; k < MOVES && bytes < MOVE_BYTES; k++) {
    if (!out->is_begun && !slice_begin(messages, route)) return tuttiSuccess;
    const char *data = out->is_body ? (const char *)route->now->data + route->now->sent : (const char *)&out->head;
    ssize_t n = route->link->ops->send(route->link, data + out->done, out->len - out->done);
    if (n < 0) return link_failed(messages, route, n, &route->is_deaf);
    if (n == 0) return tuttiSuccess;
    *moved = 1;
    bytes += (size_t)n;
    out->done += (size_t)n;
    if (out->done == out->len) slice_goes_on(messages, route);
  }
  return tuttiSuccess;
}

/* A head has come: finds what it belongs to. NULL: no correct rank sends it; *what names the field, and its values are
 * what came and what should have. */
static struct arrival *head_check(struct tt_messages *messages, struct route *route, const char **what,
                                  uint64_t values[2])
{
  const struct head *head = &route->in.head;
  int is_new = head->number == route->in.begun + 1;
  struct arrival *arrival = is_new ? NULL : tt_arrival_find(messages, route->peer, head->number);
  const struct {
    const char *what;
    uint64_t came, right;
  } fields[] = {
    {"magic", head->magic, MAGIC},
    {"sender", (uint64_t)(int64_t)head->source, (uint64_t)route->peer},
    {"number", head->number, is_new || arrival ? head->number : route->in.begun + 1},
    {"tag", (uint64_t)(int64_t)head->tag, arrival ? (uint64_t)arrival->tag : (uint64_t)(head->tag & INT32_MAX)},
    {"length", head->total, arrival ? arrival->total : head->total & SIZE_MAX / 2},
    {"start", head->start, arrival ? arrival->got : 0},
    {"slice", head->len, head->total - head->start < TT_SLICE_BYTES ? head->total - head->start : TT_SLICE_BYTES},
  };
  for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
    if (fields[k].came == fields[k].right) continue;
    *what = fields[k].what;
    values[0] = fields[k].came;
    values[1] = fields[k].right;
    return NULL;
  }
  if (arrival) return arrival;
  route->in.begun++;
  arrival = tt_arrival_begin(messages, head, route->peer);
  *what = NULL;
  return arrival;
}

static tuttiResult_t head_came(struct tt_messages *messages, struct route *route)
{
  const char *what;
  uint64_t values[2];
  route->from = head_check(messages, route, &what, values);
  if (!route->from) {
    tuttiResult_t code =
        !what ? tt_messages_no_memory(messages, (size_t)route->in.head.total)
              : tt_fail(tuttiRemoteError, "message %llu from rank %d to rank %d: its head is damaged, the %s is %llu "
                        "and should be %llu", (unsigned long long)route->in.begun + 1, (int)route->peer,
                        messages->exec->rank, what, (unsigned long long)values[0], (unsigned long long)values[1]);
    return tt_watch_fail_here(messages->exec->watch, code, what ? route->peer : -1, 0);
  }
  struct arrival *arrival = route->from;
  if (arrival->total > SMALL_BYTES) {
    way_begin(&route->in, route->in.head.len, 1);
    route->link->ops->recv_begin(route->link, &route->in.link_head);
    return tuttiSuccess;
  }
  route->in.is_begun = 0;
  route->from = NULL;
  if (arrival->total) memcpy(arrival->data, route->in.head.small, arrival->total);
  arrival->got = arrival->total;
  if (arrival->wanted) tt_arrival_end(messages, arrival);
  return tuttiSuccess;
}

static void body_came(struct tt_messages *messages, struct route *route)
{
  struct arrival *arrival = route->from;
  route->in.is_begun = 0;
  route->from = NULL;
  arrival->got += route->in.len;
  if (arrival->got == arrival->total && arrival->wanted) tt_arrival_end(messages, arrival);
}

tuttiResult_t tt_route_receive(struct tt_messages *messages, struct route *route, int *moved)
{
  struct way *in = &route->in;
  for (size_t k = 0, bytes = 0; k < MOVES && bytes < MOVE_BYTES; k++) {
    if (!in->is_begun) {
      way_begin(in, sizeof in->head, 0);
      route->link->ops->recv_begin(route->link, &in->link_head);
    }
    char *data = in->is_body ? route->from->data + route->from->got : (char *)&in->head;
    ssize_t n = route->link->ops->recv(route->link, data + in->done, in->len - in->done);
    if (n < 0) return link_failed(messages, route, n, &route->is_mute);
    if (n == 0) return tuttiSuccess;
    *moved = 1;
    route->quiet_ns = 0;
    bytes += (size_t)n;
    in->done += (size_t)n;
    if (in->done < in->len) continue;
    tuttiResult_t result = tuttiSuccess;
    if (in->is_body) body_came(messages, route);
    else result = head_came(messages, route);
    if (result != tuttiSuccess) return result;
  }
  return tuttiSuccess;
}
