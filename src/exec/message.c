/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags. On the wire a slice of a message is its head, a message of the link by itself, and then its
 * bytes, another one unless there are none: so both ends know the length of each when they begin it.
 *
 * The head, 64 bytes, little endian: magic, bytes of this slice, number of the message (1, 2, ... in the order of first
 * slices from this sender to this receiver), its bytes in all, those before this slice, tag, sender. A receiver checks
 * each field. At its end it has room for the bytes of a small message, and then nothing is behind it. */
#include <stdio.h>

#include "base/copy.h"
#include "base/priority.h"
#include "exec/private.h"

#define MAGIC 0x6761546du
#define SMALL_BYTES 24
#define MOVES 64                 /* messages of a link in a poll, in one direction: then others have their turn */
#define MOVE_BYTES (1024 * 1024) /* likewise, bytes */
#define QUIET_NS 500000000       /* what a rank has sent before it left comes within so long of the last */

struct head {
  uint32_t magic, len;
  uint64_t number, total, start;
  int32_t tag, source;
  char small[SMALL_BYTES];
};
_Static_assert(sizeof(struct head) == 64, "it is on the wire");

/* A message that comes, or has come and is not wanted yet. */
struct arrival {
  struct arrival *next;
  int32_t peer, tag;
  uint64_t number;
  size_t total, got;
  struct tt_message *wanted; /* the receive that gets it; NULL: none yet */
  char *data;                /* where it comes to: the receive's room, or own */
  char *own;                 /* NULL: it has no memory of its own */
};

/* One direction of a link: its present message, a head or the bytes behind one. */
struct way {
  struct tt_call call;
  struct tt_head link_head;
  struct head head;
  size_t len, done;
  int is_begun, is_body;
  uint64_t begun; /* messages with tags that have begun in this direction */
};

struct route {
  int32_t peer;
  struct tt_link *link; /* NULL: not open yet */
  int is_deaf, is_mute; /* the link takes nothing more; nothing more comes */
  int has_left;         /* the peer has left: it is deaf */
  int is_over;          /* and everything that it has sent has come */
  uint64_t quiet_ns;    /* since when nothing has come from a peer that has left; 0: not known */
  char why[160];        /* a link that is broken is so */
  struct way in, out;
  struct tt_priority_queue queue; /* of sends */
  struct tt_message *now;         /* the send whose slice is under way */
  struct arrival *from;           /* the arrival whose slice is */
};

struct tt_messages {
  struct tt_exec *exec;
  struct route **routes;  /* by rank; NULL: no message has wanted it */
  int32_t *used;          /* the ranks with a route */
  int nused, nover, is_ending; /* is_ending: no receive is added any more */
  struct tt_message *receives, **last_receive; /* in their order, and where the next one goes */
  struct arrival *arrivals, **last_arrival, *spare; /* likewise; memory for the next one */
  struct tt_message *over;                     /* messages that are over, the last one first */
  uint64_t order;
};

/* ---- create, destroy ---- */

tuttiResult_t tt_messages_create(struct tt_messages **out, struct tt_exec *exec)
{
  struct tt_messages *messages = tt_alloc(1, sizeof *messages);
  if (messages) {
    messages->exec = exec;
    messages->last_receive = &messages->receives;
    messages->last_arrival = &messages->arrivals;
    messages->routes = tt_alloc((size_t)exec->nranks, sizeof *messages->routes);
    messages->used = tt_alloc((size_t)exec->nranks, sizeof *messages->used);
  }
  if (!messages || !messages->routes || !messages->used) {
    tt_messages_destroy(messages);
    return tt_fail(tuttiSystemError, "out of memory for messages between %d ranks", exec->nranks);
  }
  *out = messages;
  return tuttiSuccess;
}

static void arrivals_free(struct arrival *first)
{
  for (struct arrival *next; first; first = next) {
    next = first->next;
    tt_free(first->own);
    tt_free(first);
  }
}

void tt_messages_destroy(struct tt_messages *messages)
{
  if (!messages) return;
  for (int i = 0; i < messages->nused; i++) {
    tt_priority_free(&messages->routes[messages->used[i]]->queue);
    tt_free(messages->routes[messages->used[i]]);
  }
  arrivals_free(messages->arrivals);
  arrivals_free(messages->spare);
  tt_free(messages->routes);
  tt_free(messages->used);
  tt_free(messages);
}

static tuttiResult_t no_memory(const struct tt_messages *messages, size_t bytes)
{
  return tt_fail(tuttiSystemError, "rank %d: out of memory for a message of %zu bytes", messages->exec->rank, bytes);
}

/* ---- receives and arrivals ---- */

static void end(struct tt_messages *messages, struct tt_message *message, tuttiResult_t result)
{
  message->result = result;
  message->next = messages->over;
  messages->over = message;
}

static int wants(const struct tt_message *receive, int32_t peer, int32_t tag)
{
  return (receive->peer == TT_ANY || receive->peer == peer) && (receive->tag == TT_ANY || receive->tag == tag);
}

static struct tt_message *receive_remove(struct tt_messages *messages, struct tt_message **at)
{
  struct tt_message *receive = *at;
  *at = receive->next;
  if (messages->last_receive == &receive->next) messages->last_receive = at;
  return receive;
}

/* Removes the first receive that wants it, and returns it; NULL: none does. */
static struct tt_message *receive_take(struct tt_messages *messages, int32_t peer, int32_t tag)
{
  struct tt_message **at = &messages->receives;
  while (*at && !wants(*at, peer, tag)) at = &(*at)->next;
  return *at ? receive_remove(messages, at) : NULL;
}

static void receive_append(struct tt_messages *messages, struct tt_message *receive)
{
  receive->next = NULL;
  *messages->last_receive = receive;
  messages->last_receive = &receive->next;
}

static void arrival_remove(struct tt_messages *messages, struct arrival **at)
{
  struct arrival *arrival = *at;
  *at = arrival->next;
  if (messages->last_arrival == &arrival->next) messages->last_arrival = at;
  tt_free(arrival->own);
  arrival->own = NULL;
  arrival->next = messages->spare;
  messages->spare = arrival;
}

/* All of it is there, and it is wanted. */
static void arrival_end(struct tt_messages *messages, struct arrival *arrival)
{
  struct tt_message *receive = arrival->wanted;
  int fits = arrival->total <= receive->bytes;
  if (fits && arrival->own && arrival->total) tt_memcpy(receive->data, arrival->own, arrival->total);
  receive->peer = arrival->peer;
  receive->tag = arrival->tag;
  receive->bytes = arrival->total;
  end(messages, receive, fits ? tuttiSuccess : tuttiInvalidArgument);
  struct arrival **at = &messages->arrivals;
  while (*at != arrival) at = &(*at)->next;
  arrival_remove(messages, at);
}

/* A message begins to come: into the room of the receive that wants it, or into memory of its own. NULL: there is
 * none. */
static struct arrival *arrival_begin(struct tt_messages *messages, const struct head *head, int32_t peer)
{
  struct arrival *arrival = messages->spare;
  if (arrival) messages->spare = arrival->next;
  else arrival = tt_alloc(1, sizeof *arrival);
  if (!arrival) return NULL;
  *arrival = (struct arrival){.peer = peer, .tag = head->tag, .number = head->number, .total = (size_t)head->total};
  struct tt_message *wanted = receive_take(messages, peer, head->tag);
  *messages->last_arrival = arrival; /* also if memory ends now: then the communicator does, too */
  messages->last_arrival = &arrival->next;
  arrival->wanted = wanted;
  if (wanted && arrival->total <= wanted->bytes) arrival->data = wanted->data;
  else if (arrival->total) arrival->data = arrival->own = tt_alloc(1, arrival->total);
  return arrival->total && !arrival->data ? NULL : arrival;
}

/* A message that has begun to come, and of which more is to come; NULL: there is none of that number. */
static struct arrival *arrival_find(struct tt_messages *messages, int32_t peer, uint64_t number)
{
  struct arrival *arrival = messages->arrivals;
  while (arrival && (arrival->peer != peer || arrival->number != number)) arrival = arrival->next;
  return arrival && arrival->got < arrival->total ? arrival : NULL;
}

/* ---- adding ---- */

static struct route *route_get(struct tt_messages *messages, int32_t peer)
{
  struct route *route = messages->routes[peer];
  if (route) return route;
  route = tt_alloc(1, sizeof *route);
  if (!route) return NULL;
  route->peer = peer;
  messages->routes[peer] = route;
  messages->used[messages->nused++] = peer;
  return route;
}

/* Makes the routes that a receive needs. 0: there is no memory. */
static int routes_get(struct tt_messages *messages, int32_t from)
{
  int nranks = messages->exec->nranks, rank = messages->exec->rank;
  if (from == rank) return 1;
  if (from != TT_ANY) return route_get(messages, from) != NULL;
  for (int peer = 0; peer < nranks && messages->nused < nranks - 1; peer++)
    if (peer != rank && !route_get(messages, peer)) return 0;
  return 1;
}

/* 1: no rank is left that could send it. */
static int is_hopeless(const struct tt_messages *messages, const struct tt_message *receive)
{
  if (receive->peer == TT_ANY) return messages->nover && messages->nover == messages->exec->nranks - 1;
  return receive->peer != messages->exec->rank && messages->routes[receive->peer]->is_over;
}

static tuttiResult_t receive_add(struct tt_messages *messages, struct tt_message *receive)
{
  if (!routes_get(messages, receive->peer)) return no_memory(messages, receive->bytes);
  struct arrival *arrival = messages->arrivals;
  while (arrival && (arrival->wanted || !wants(receive, arrival->peer, arrival->tag))) arrival = arrival->next;
  if (!arrival) {
    if (is_hopeless(messages, receive)) end(messages, receive, tuttiRemoteError);
    else receive_append(messages, receive);
    return tuttiSuccess;
  }
  arrival->wanted = receive;
  if (arrival->got == arrival->total) arrival_end(messages, arrival);
  return tuttiSuccess;
}

/* A message to this rank itself. */
static tuttiResult_t own_add(struct tt_messages *messages, struct tt_message *send)
{
  struct head head = {.total = send->bytes, .tag = send->tag};
  struct arrival *arrival = arrival_begin(messages, &head, send->peer);
  if (!arrival) return no_memory(messages, send->bytes);
  if (send->bytes) tt_memcpy(arrival->data, send->data, send->bytes);
  arrival->got = arrival->total;
  if (arrival->wanted) arrival_end(messages, arrival);
  end(messages, send, tuttiSuccess);
  return tuttiSuccess;
}

tuttiResult_t tt_messages_add(struct tt_messages *messages, struct tt_message *message)
{
  if (!message->sends) return receive_add(messages, message);
  if (message->peer == messages->exec->rank) return own_add(messages, message);
  struct route *route = route_get(messages, message->peer);
  if (!route || !tt_priority_reserve(&route->queue, route->queue.n + 2)) return no_memory(messages, message->bytes);
  message->sent = 0;
  message->number = 0;
  message->order = ++messages->order;
  if (route->has_left) end(messages, message, tuttiRemoteError);
  else tt_priority_push(&route->queue, message->urgency, message->order, message);
  return tuttiSuccess;
}

/* ---- moving ---- */

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
  if (send->sent == send->bytes) end(messages, send, tuttiSuccess);
  else tt_priority_push(&route->queue, send->urgency, send->order, send); /* behind more urgent ones */
}

static tuttiResult_t out_move(struct tt_messages *messages, struct route *route, int *moved)
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
  struct arrival *arrival = is_new ? NULL : arrival_find(messages, route->peer, head->number);
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
  arrival = arrival_begin(messages, head, route->peer);
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
        !what ? no_memory(messages, (size_t)route->in.head.total)
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
  if (arrival->wanted) arrival_end(messages, arrival);
  return tuttiSuccess;
}

static void body_came(struct tt_messages *messages, struct route *route)
{
  struct arrival *arrival = route->from;
  route->in.is_begun = 0;
  route->from = NULL;
  arrival->got += route->in.len;
  if (arrival->got == arrival->total && arrival->wanted) arrival_end(messages, arrival);
}

static tuttiResult_t in_move(struct tt_messages *messages, struct route *route, int *moved)
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

/* ---- links that are lost, ranks that have left ---- */

static void sends_end(struct tt_messages *messages, struct route *route, tuttiResult_t result)
{
  struct tt_message *send;
  if (route->now) end(messages, route->now, result);
  route->now = NULL;
  for (; (send = tt_priority_first(&route->queue)); tt_priority_pop(&route->queue)) end(messages, send, result);
}

/* Ends the messages from this rank, or TT_ANY, that have begun to come and never will come whole. */
static void arrivals_end(struct tt_messages *messages, int32_t peer, tuttiResult_t result)
{
  for (struct arrival **at = &messages->arrivals, *arrival; (arrival = *at);) {
    if ((peer == TT_ANY || peer == arrival->peer) && arrival->got < arrival->total) {
      if (arrival->wanted) end(messages, arrival->wanted, result);
      arrival_remove(messages, at);
    } else at = &arrival->next;
  }
}

/* Ends the receives that no rank is left to send to. */
static void receives_end(struct tt_messages *messages)
{
  for (struct tt_message **at = &messages->receives, *receive; (receive = *at);) {
    if (is_hopeless(messages, receive)) end(messages, receive_remove(messages, at), tuttiRemoteError);
    else at = &receive->next;
  }
}

/* A peer that has left takes nothing more. Its bytes may be on their way: until the link ends, or, where none does, for
 * a while after the last ones, but for one that is lost. If it aborted, this rank may hear of a failure meanwhile. */
static void route_look(struct tt_messages *messages, struct route *route, uint64_t now)
{
  enum tt_left left = route->is_over ? TT_LEFT_NOT : tt_watch_left(messages->exec->watch, route->peer);
  if (left == TT_LEFT_NOT) return;
  if (left == TT_LEFT_DONE && !route->has_left) sends_end(messages, route, tuttiRemoteError);
  route->has_left = route->is_deaf = 1;
  if (!route->quiet_ns) route->quiet_ns = now;
  int ends = left == TT_LEFT_DONE && (route->is_mute || (route->link && route->link->transport->ops->ends_links));
  if (left != TT_LEFT_LOST && (ends ? !route->is_mute : now - route->quiet_ns < QUIET_NS)) return;
  sends_end(messages, route, tuttiRemoteError);
  route->is_over = 1;
  route->from = NULL;
  messages->nover++;
  arrivals_end(messages, route->peer, tuttiRemoteError);
  receives_end(messages);
}

/* 1: a message needs this rank, which has not left: one that it has sent may be lost with the link. */
static int is_needed(const struct tt_messages *messages, const struct route *route)
{
  if (route->now || route->queue.n) return 1;
  for (const struct tt_message *receive = messages->receives; receive; receive = receive->next)
    if (receive->peer == route->peer || receive->peer == TT_ANY) return 1;
  for (const struct arrival *arrival = messages->arrivals; arrival; arrival = arrival->next)
    if (arrival->peer == route->peer && arrival->wanted) return 1;
  return 0;
}

/* The link is broken. If the peer has not left, that is an error, or soon known to have another reason. */
static tuttiResult_t route_broken(struct tt_messages *messages, struct route *route)
{
  route_look(messages, route, tt_now_ns());
  if (route->has_left || !is_needed(messages, route)) return tuttiSuccess;
  return tt_watch_suspect(messages->exec->watch, route->peer, 0, route->why);
}

static tuttiResult_t route_open(struct tt_messages *messages, struct route *route)
{
  struct tt_exec *exec = messages->exec;
  tuttiResult_t result = tt_exec_link(exec, route->peer, exec->lanes, &route->link);
  if (result == tuttiSuccess) return result;
  route->link = NULL;
  if (result == tuttiInProgress) return tuttiSuccess;
  if (result != tuttiRemoteError) return tt_watch_fail_here(exec->watch, result, route->peer, 0);
  route->is_deaf = route->is_mute = 1;
  snprintf(route->why, sizeof route->why, "%s", tt_last_sentence());
  return tuttiSuccess;
}

static tuttiResult_t route_move(struct tt_messages *messages, struct route *route, int *moved)
{
  tuttiResult_t result = tuttiSuccess;
  if (route->is_over) return result;
  if (!route->link && !route->is_mute) result = route_open(messages, route);
  if (!route->link && !route->is_mute) return result;
  if (!route->is_deaf) result = out_move(messages, route, moved);
  if (!route->is_mute && result == tuttiSuccess) result = in_move(messages, route, moved);
  if (result != tuttiSuccess || !(route->is_deaf || route->is_mute)) return result;
  return route_broken(messages, route);
}

tuttiResult_t tt_messages_poll(struct tt_messages *messages, int *moved)
{
  tuttiResult_t all = tuttiSuccess;
  for (int i = 0; i < messages->nused; i++) {
    tuttiResult_t result = route_move(messages, messages->routes[messages->used[i]], moved);
    if (result == tuttiInProgress) all = result;
    else if (result != tuttiSuccess) return result;
  }
  return all;
}

void tt_messages_look(struct tt_messages *messages)
{
  uint64_t now = tt_now_ns();
  if (messages->is_ending) routes_get(messages, TT_ANY); /* ranks that end may wait for each other in a circle */
  for (int i = 0; i < messages->nused; i++) route_look(messages, messages->routes[messages->used[i]], now);
}

void tt_messages_cancel(struct tt_messages *messages, tuttiResult_t result)
{
  messages->is_ending = 1;
  while (messages->receives) end(messages, receive_remove(messages, &messages->receives), result);
}

void tt_messages_end(struct tt_messages *messages, tuttiResult_t result)
{
  for (int i = 0; i < messages->nused; i++) {
    sends_end(messages, messages->routes[messages->used[i]], result);
    messages->routes[messages->used[i]]->from = NULL;
  }
  arrivals_end(messages, TT_ANY, result);
  tt_messages_cancel(messages, result);
}

struct tt_message *tt_messages_over(struct tt_messages *messages)
{
  struct tt_message *over = messages->over;
  if (over) messages->over = over->next;
  return over;
}

int tt_messages_link(const struct tt_messages *messages, int i, struct tt_link **link)
{
  for (; i < messages->nused; i++) {
    const struct route *route = messages->routes[messages->used[i]];
    *link = route->link;
    if (!route->is_mute && !route->is_over) return i + 1;
  }
  return 0;
}
