/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags: sends and receives, what comes before it is wanted, and peers that have left. slices.c moves the
 * bytes. */
#include <stdio.h>

#include "base/copy.h"
#include "exec/message_private.h"

#define QUIET_NS 500000000 /* what a rank has sent before it left comes within so long of the last */
#define STUCK_NS 100000000 /* ranks that all send first open the links to each other after so long */

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

tuttiResult_t tt_messages_no_memory(const struct tt_messages *messages, size_t bytes)
{
  return tt_fail(tuttiSystemError, "rank %d: out of memory for a message of %zu bytes", messages->exec->rank, bytes);
}

/* ---- receives and arrivals ---- */

void tt_message_end(struct tt_messages *messages, struct tt_message *message, tuttiResult_t result)
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

void tt_arrival_end(struct tt_messages *messages, struct arrival *arrival)
{
  struct tt_message *receive = arrival->wanted;
  int fits = arrival->total <= receive->bytes;
  if (fits && arrival->own && arrival->total) tt_memcpy(receive->data, arrival->own, arrival->total);
  receive->peer = arrival->peer;
  receive->tag = arrival->tag;
  receive->bytes = arrival->total;
  tt_message_end(messages, receive, fits ? tuttiSuccess : tuttiInvalidArgument);
  struct arrival **at = &messages->arrivals;
  while (*at != arrival) at = &(*at)->next;
  arrival_remove(messages, at);
}

struct arrival *tt_arrival_begin(struct tt_messages *messages, const struct head *head, int32_t peer)
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

struct arrival *tt_arrival_find(struct tt_messages *messages, int32_t peer, uint64_t number)
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
  if (!routes_get(messages, receive->peer)) return tt_messages_no_memory(messages, receive->bytes);
  struct arrival *arrival = messages->arrivals;
  while (arrival && (arrival->wanted || !wants(receive, arrival->peer, arrival->tag))) arrival = arrival->next;
  if (!arrival) {
    if (is_hopeless(messages, receive)) tt_message_end(messages, receive, tuttiRemoteError);
    else receive_append(messages, receive);
    return tuttiSuccess;
  }
  arrival->wanted = receive;
  if (arrival->got == arrival->total) tt_arrival_end(messages, arrival);
  return tuttiSuccess;
}

/* A message to this rank itself. */
static tuttiResult_t own_add(struct tt_messages *messages, struct tt_message *send)
{
  struct head head = {.total = send->bytes, .tag = send->tag};
  struct arrival *arrival = tt_arrival_begin(messages, &head, send->peer);
  if (!arrival) return tt_messages_no_memory(messages, send->bytes);
  if (send->bytes) tt_memcpy(arrival->data, send->data, send->bytes);
  arrival->got = arrival->total;
  if (arrival->wanted) tt_arrival_end(messages, arrival);
  tt_message_end(messages, send, tuttiSuccess);
  return tuttiSuccess;
}

tuttiResult_t tt_messages_add(struct tt_messages *messages, struct tt_message *message)
{
  if (!message->sends) return receive_add(messages, message);
  if (message->peer == messages->exec->rank) return own_add(messages, message);
  struct route *route = route_get(messages, message->peer);
  if (!route || !tt_priority_reserve(&route->queue, route->queue.n + 2))
    return tt_messages_no_memory(messages, message->bytes);
  tt_watch_unnumbered(messages->exec->watch);
  message->sent = 0;
  message->number = 0;
  message->order = ++messages->order;
  if (route->has_left) tt_message_end(messages, message, tuttiRemoteError);
  else tt_priority_push(&route->queue, message->urgency, message->order, message);
  return tuttiSuccess;
}

/* ---- links that are lost, ranks that have left ---- */

static void sends_end(struct tt_messages *messages, struct route *route, tuttiResult_t result)
{
  struct tt_message *send;
  if (route->now) tt_message_end(messages, route->now, result);
  route->now = NULL;
  for (; (send = tt_priority_first(&route->queue)); tt_priority_pop(&route->queue))
    tt_message_end(messages, send, result);
}

/* Ends the messages from this rank, or TT_ANY, that have begun to come and never will come whole. */
static void arrivals_end(struct tt_messages *messages, int32_t peer, tuttiResult_t result)
{
  for (struct arrival **at = &messages->arrivals, *arrival; (arrival = *at);) {
    if ((peer == TT_ANY || peer == arrival->peer) && arrival->got < arrival->total) {
      if (arrival->wanted) tt_message_end(messages, arrival->wanted, result);
      arrival_remove(messages, at);
    } else at = &arrival->next;
  }
}

/* Ends the receives that no rank is left to send to. */
static void receives_end(struct tt_messages *messages)
{
  for (struct tt_message **at = &messages->receives, *receive; (receive = *at);) {
    if (is_hopeless(messages, receive)) tt_message_end(messages, receive_remove(messages, at), tuttiRemoteError);
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
  if (!route->is_deaf) result = tt_route_send(messages, route, moved);
  if (!route->is_mute && result == tuttiSuccess) result = tt_route_receive(messages, route, moved);
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

/* 1: a send has waited for long for a link that its receiver does not open. It may wait in a send itself, and so on in
 * a circle: a rank that sends does not know who sends to it. */
static int is_stuck(struct tt_messages *messages, uint64_t now)
{
  int waits = 0;
  for (int i = 0; i < messages->nused && !waits; i++) {
    const struct route *route = messages->routes[messages->used[i]];
    waits = route->queue.n && !route->link && !route->is_over;
  }
  if (!waits) messages->stuck_ns = 0;
  else if (!messages->stuck_ns) messages->stuck_ns = now;
  return waits && now - messages->stuck_ns >= STUCK_NS;
}

void tt_messages_look(struct tt_messages *messages)
{
  uint64_t now = tt_now_ns();
  /* Ranks that end may wait for each other in a circle, too. */
  if (messages->is_ending || is_stuck(messages, now)) routes_get(messages, TT_ANY);
  for (int i = 0; i < messages->nused; i++) route_look(messages, messages->routes[messages->used[i]], now);
}

void tt_messages_cancel(struct tt_messages *messages, tuttiResult_t result)
{
  messages->is_ending = 1;
  while (messages->receives) tt_message_end(messages, receive_remove(messages, &messages->receives), result);
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

struct tt_message *tt_messages_left(const struct tt_messages *messages)
{
  for (int i = 0; i < messages->nused; i++) {
    const struct route *route = messages->routes[messages->used[i]];
    struct tt_message *send = route->now ? route->now : tt_priority_first(&route->queue);
    if (send) return send;
  }
  const struct arrival *arrival = messages->arrivals;
  while (arrival && !arrival->wanted) arrival = arrival->next;
  return arrival ? arrival->wanted : NULL;
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
