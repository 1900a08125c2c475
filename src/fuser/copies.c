/* SPDX-License-Identifier: BSD-3-Clause */
/* The fusion buffer: a ring in which messages have room in the order in which that was given. */
#include <stdint.h>
#include <string.h>

#include "fuser/private.h"

#define PIECE ((size_t)256 << 10) /* host memory is copied in pieces: links are looked at in between */

/* Whether the parts lie one behind the other in both buffers; as they did when they were last sent: `then`. */
static int lies_together(const struct tuttiFusion *fuser, const struct message *message, int then)
{
  const struct part *first = &fuser->parts[message->first_part];
  uintptr_t send = 0, recv = 0;
  for (const struct part *part = first; part < first + message->nparts; part++) {
    const struct tensor *tensor = &fuser->tensors[part->tensor];
    uintptr_t skip = (uintptr_t)part->first * (uintptr_t)tensor->element - part->at;
    uintptr_t its_send = (uintptr_t)(then ? tensor->last_send : tensor->send) + skip;
    uintptr_t its_recv = (uintptr_t)(then ? tensor->last_recv : tensor->recv) + skip;
    if (part->count == 0) continue;
    if (message->nparts > 1 && !tt_device_of(then ? tensor->last_send : tensor->send)->host) return 0;
    if (then && !tensor->last_send) return 1;
    if (send == 0 && recv == 0) send = its_send, recv = its_recv;
    if (its_send != send || its_recv != recv) return 0;
  }
  return 1;
}

/* ---- room ---- */

/* Messages that have room and are no more in the way of others: the oldest ones. */
static void room_reclaim(struct tuttiFusion *fuser)
{
  while (fuser->in_ring && !fuser->messages[fuser->ring[fuser->ring_first]].has_room) {
    fuser->ring_first = (fuser->ring_first + 1) % fuser->nmessages;
    fuser->in_ring--;
  }
}

/* 1: the message has room from here on. */
static int room_give(struct tuttiFusion *fuser, int32_t m)
{
  struct message *message = &fuser->messages[m];
  size_t bytes = (message->bytes + 63) & ~(size_t)63, at = 0;
  room_reclaim(fuser);
  if (fuser->in_ring) {
    const struct message *oldest = &fuser->messages[fuser->ring[fuser->ring_first]];
    const struct message *newest =
        &fuser->messages[fuser->ring[(fuser->ring_first + fuser->in_ring - 1) % fuser->nmessages]];
    size_t tail = oldest->at, head = newest->at + ((newest->bytes + 63) & ~(size_t)63);
    if (newest->at >= tail) {
      if (bytes <= fuser->buffer_bytes - head) at = head;
      else if (bytes > tail) return 0;
    } else {
      if (bytes > tail - head) return 0;
      at = head;
    }
  }
  fuser->ring[(fuser->ring_first + fuser->in_ring) % fuser->nmessages] = m;
  fuser->in_ring++;
  message->has_room = 1;
  message->parts_before = message->nparts;
  message->at = at;
  return 1;
}

static void room_drop(struct tuttiFusion *fuser, struct message *message)
{
  for (int p = 0; p < message->nparts; p++) fuser->parts[message->first_part + p].is_in = 0;
  message->parts_in = 0;
  message->has_room = 0;
}

/* Room for messages that come later, as far as it goes, so that their tensors can be copied when they are pushed. What
 * lay together when it was last sent, and what never was, is not copied ahead. */
static void room_ahead(struct tuttiFusion *fuser)
{
  if (fuser->copy < fuser->next) fuser->copy = fuser->next;
  for (; fuser->copy < fuser->nmessages; fuser->copy++) {
    struct message *message = &fuser->messages[fuser->copy];
    if (message->has_room || (fuser->copy != fuser->forced && lies_together(fuser, message, 1))) continue;
    if (!room_give(fuser, fuser->copy)) return;
  }
}

/* Messages that have lost their room leave the ring, wherever they are: they may be given another one. */
static void ring_pack(struct tuttiFusion *fuser)
{
  int32_t kept = 0;
  for (int32_t k = 0; k < fuser->in_ring; k++) {
    int32_t m = fuser->ring[(fuser->ring_first + k) % fuser->nmessages];
    if (fuser->messages[m].has_room) fuser->ring[(fuser->ring_first + kept++) % fuser->nmessages] = m;
  }
  fuser->in_ring = kept;
}

/* The next message has to have room, if later ones lose theirs for it. */
static void room_force(struct tuttiFusion *fuser)
{
  fuser->looks++;
  fuser->forced = fuser->next;
  if (fuser->copying.ticket || room_give(fuser, fuser->next)) return;
  fuser->copying.part = NULL;
  for (int32_t m = fuser->next + 1; m < fuser->nmessages; m++)
    if (fuser->messages[m].has_room) room_drop(fuser, &fuser->messages[m]);
  fuser->copy = fuser->next;
  ring_pack(fuser);
  room_give(fuser, fuser->next); /* if not now, when those under way are back */
}

int tt_fuser_place(struct tuttiFusion *fuser, struct message *message, const void **in, void **out)
{
  const struct part *first = &fuser->parts[message->first_part];
  if (message->has_room) {
    if (message->parts_in < message->nparts) return 0;
    *in = *out = fuser->buffer + message->at;
    return 1;
  }
  if (!lies_together(fuser, message, 0)) {
    room_force(fuser);
    return 0;
  }
  while (first->count == 0 && first + 1 < &fuser->parts[message->first_part] + message->nparts) first++;
  const struct tensor *tensor = &fuser->tensors[first->tensor];
  *in = (const char *)tensor->send + first->first * (uint64_t)tensor->element;
  *out = (char *)tensor->recv + first->first * (uint64_t)tensor->element;
  return 1;
}

/* ---- copying ---- */

/* From or to a tensor's part, at most a piece of it from `done` on, which moves. */
static void part_copy(struct tuttiFusion *fuser, const struct message *message, const struct part *part, int out,
                     tuttiResult_t *result)
{
  struct tensor *tensor = &fuser->tensors[part->tensor];
  struct copying *copying = &fuser->copying;
  size_t skip = (size_t)part->first * (size_t)tensor->element, all = (size_t)part->count * (size_t)tensor->element;
  char *place = fuser->buffer + message->at + part->at;
  const char *user = out ? (const char *)tensor->recv + skip : (const char *)tensor->send + skip;
  copying->device = all ? tt_device_of(user) : &tt_host_device;
  if (copying->device->host) {
    size_t left = all - copying->done, piece = left < PIECE ? left : PIECE;
    if (out && piece) memcpy((char *)tensor->recv + skip + copying->done, place + copying->done, piece);
    if (!out && piece) memcpy(place + copying->done, user + copying->done, piece);
    copying->done += piece;
    return;
  }
  void *to = out ? (char *)tensor->recv + skip : place;
  *result = copying->device->copy(copying->device, to, out ? place : user, all, &copying->ticket);
  copying->done = all;
}

static int part_is_done(const struct tuttiFusion *fuser, const struct part *part)
{
  return fuser->copying.done >= part->count * (uint64_t)fuser->tensors[part->tensor].element;
}

/* ---- in ---- */

/* The next part that may be copied in, of the messages that have room, from behind, as backward makes them; NULL:
 * none. */
static struct part *part_to_copy(struct tuttiFusion *fuser, struct message **of)
{
  for (int32_t k = 0; k < fuser->in_ring; k++) {
    struct message *message = &fuser->messages[fuser->ring[(fuser->ring_first + k) % fuser->nmessages]];
    if (!message->has_room || message->state != TO_SEND || message->parts_in == message->nparts) continue;
    struct part *first = &fuser->parts[message->first_part];
    while (message->parts_before && first[message->parts_before - 1].is_in) message->parts_before--;
    for (int p = message->parts_before - 1; p >= 0; p--) {
      struct part *part = &first[p];
      if (part->is_in || fuser->tensors[part->tensor].ready < fuser->engine_step) continue;
      *of = message;
      return part;
    }
  }
  return NULL;
}

static int copy_in(struct tuttiFusion *fuser, tuttiResult_t *result)
{
  if (!fuser->copying.part) {
    if (fuser->looked == fuser->looks) return 0; /* nothing has come since there was nothing to do */
    room_ahead(fuser);
    fuser->copying.part = part_to_copy(fuser, &fuser->copying.message);
    fuser->copying.done = 0;
    if (!fuser->copying.part) fuser->looked = fuser->looks;
    if (!fuser->copying.part) return 0;
  }
  struct part *part = fuser->copying.part;
  struct tensor *tensor = &fuser->tensors[part->tensor];
  if (!part_is_done(fuser, part) || part->count == 0) part_copy(fuser, fuser->copying.message, part, 0, result);
  if (!part_is_done(fuser, part) || fuser->copying.ticket) return 1;
  tensor->last_send = tensor->send;
  tensor->last_recv = tensor->recv;
  part->is_in = 1;
  fuser->copying.message->parts_in++;
  fuser->copied_now += part->count * (uint64_t)tensor->element;
  fuser->copying.part = NULL;
  return 1;
}

/* ---- out ---- */

/* All parts of the tensor are back. */
static void tensor_finish(struct tuttiFusion *fuser, struct tensor *tensor)
{
  pthread_mutex_lock(&fuser->mutex);
  tensor->norm = fuser->norms ? tt_norm_get(&tensor->norm_sum) : 0;
  tensor->done = fuser->engine_step;
  int is_last = ++fuser->ndone == fuser->n;
  if (is_last) fuser->copied[fuser->engine_step % 2] = fuser->copied_now;
  if (tensor->waiters || (is_last && fuser->all_waiters)) pthread_cond_broadcast(&fuser->done);
  pthread_mutex_unlock(&fuser->mutex);
}

/* Adds a piece of the part to the tensor's norm, from where the sum lies; 1: all of it is added. */
static int norm_add(struct tuttiFusion *fuser, const struct message *message, const struct part *part,
                    tuttiResult_t *result)
{
  struct tensor *tensor = &fuser->tensors[part->tensor];
  struct copying *copying = &fuser->copying;
  size_t element = (size_t)tensor->element, all = (size_t)part->count * element, left = all - copying->added;
  size_t piece = left < PIECE ? left : PIECE;
  const char *at = message->has_room ? fuser->buffer + message->at + part->at + copying->added
                                     : (const char *)tensor->recv + (size_t)part->first * element + copying->added;
  if (!piece) return 1;
  if (!tt_device_of(at)->host) {
    if (!copying->is_fetched) {
      if (!fuser->fetched) fuser->fetched = tt_alloc(1, PIECE);
      copying->device = tt_device_of(at);
      copying->is_fetched = 1;
      *result = fuser->fetched ? copying->device->copy(copying->device, fuser->fetched, at, piece, &copying->ticket)
                               : tt_fail(tuttiSystemError, "out of memory for a norm");
      if (*result != tuttiSuccess || copying->ticket) return 0;
    }
    at = fuser->fetched;
    copying->is_fetched = 0;
  }
  tt_norm_add(&tensor->norm_sum, tensor->type, at, part->first + copying->added / element, piece / element);
  copying->added += piece;
  return copying->added == all;
}

/* Goes on with the oldest message that has come. */
static int copy_out(struct tuttiFusion *fuser, tuttiResult_t *result)
{
  struct message *message = &fuser->messages[fuser->back];
  struct copying *copying = &fuser->copying;
  if (fuser->back == fuser->nmessages || message->state != CAME) return 0;
  struct part *part = &fuser->parts[message->first_part + fuser->out_part];
  struct tensor *tensor = &fuser->tensors[part->tensor];
  if (copying->out_of != part) *copying = (struct copying){.out_of = part};
  if (message->has_room && !part_is_done(fuser, part)) {
    part_copy(fuser, message, part, 1, result);
    if (*result != tuttiSuccess || copying->ticket || !part_is_done(fuser, part)) return 1;
  }
  if (fuser->norms && !norm_add(fuser, message, part, result)) return 1;
  copying->out_of = NULL;
  tensor->last_send = tensor->send;
  tensor->last_recv = tensor->recv;
  if (--tensor->parts_left == 0) tensor_finish(fuser, tensor);
  if (++fuser->out_part < message->nparts) return 1;
  fuser->out_part = 0;
  fuser->back++;
  fuser->looks++;
  message->state = OVER;
  message->has_room = 0;
  room_reclaim(fuser);
  return 1;
}

/* One copy is under way at a time, and what is begun is ended first. */
int tt_fuser_copy(struct tuttiFusion *fuser, tuttiResult_t *result)
{
  struct copying *copying = &fuser->copying;
  if (copying->ticket) {
    tuttiResult_t polled = copying->device->poll(copying->device, copying->ticket);
    if (polled == tuttiInProgress) return 0;
    copying->ticket = 0;
    *result = polled;
    if (polled != tuttiSuccess) return 1;
  }
  if (copying->part) return copy_in(fuser, result);
  if (copying->out_of) return copy_out(fuser, result);
  int idle = fuser->next == fuser->back; /* nothing is under way, or to come out: the links wait for the next */
  if (!idle && copy_out(fuser, result)) return 1;
  return copy_in(fuser, result);
}
