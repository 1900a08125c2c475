/* SPDX-License-Identifier: BSD-3-Clause */
/* The fusion buffer: a ring in which messages have room in the order in which that was given. */
#include <stdint.h>
#include <string.h>

#include "base/copy.h"
#include "fusion/private.h"

#define PIECE ((size_t)256 << 10) /* host memory is copied in pieces: links are looked at in between */

/* True if the parts lie one after the other in both buffers or, with `then`, if they did so when they were last
 * sent. */
static int lies_together(const struct tuttiFusion *fusion, int32_t m, int then)
{
  const struct plan *plan = fusion->engine.used;
  const struct message *message = &plan->messages[m];
  const struct part *first = &plan->parts[message->first_part];
  uintptr_t send = 0, recv = 0;
  if (message->is_coded) return 1; /* encoded from where its tensors lie */
  for (const struct part *part = first; part < first + message->nparts; part++) {
    const struct gradient *gradient = &fusion->shared.gradients[part->tensor];
    const struct tensor_progress *last = &fusion->engine.tensors[part->tensor];
    const void *from = then ? last->last_send : gradient->send;
    uintptr_t skip = (uintptr_t)part->first * (uintptr_t)fusion->config.tensors[part->tensor].element - part->at;
    uintptr_t its_send = (uintptr_t)from + skip;
    uintptr_t its_recv = (uintptr_t)(then ? last->last_recv : gradient->recv) + skip;
    if (part->count == 0) continue;
    if (then && !from) return 1;
    if (send == 0 && recv == 0) send = its_send, recv = its_recv;
    if (its_send != send || its_recv != recv) return 0;
  }
  return 1;
}

/* ---- room ---- */

/* Returns the place of the message with the k-th oldest room. */
static int32_t *ring_at(const struct engine *engine, int32_t k)
{
  return &engine->ring.messages[(engine->ring.first + k) % engine->used->nmessages];
}

/* Takes back room that is not used any more: that of the oldest messages. */
static void room_reclaim(struct engine *engine)
{
  struct ring *ring = &engine->ring;
  while (ring->n && !engine->messages[*ring_at(engine, 0)].has_room) {
    ring->first = (ring->first + 1) % engine->used->nmessages;
    ring->n--;
  }
}

static size_t room_bytes(const struct engine *engine, int32_t m)
{
  return (engine->used->messages[m].bytes + 63) & ~(size_t)63;
}

/* Gives the message room. Returns 0 if there is none. */
static int room_give(const struct config *config, struct engine *engine, int32_t m)
{
  struct message_progress *progress = &engine->messages[m];
  size_t bytes = room_bytes(engine, m), at = 0;
  room_reclaim(engine);
  if (engine->ring.n) {
    int32_t newest = *ring_at(engine, engine->ring.n - 1);
    size_t tail = engine->messages[*ring_at(engine, 0)].at, last = engine->messages[newest].at;
    size_t head = last + room_bytes(engine, newest);
    if (last >= tail) {
      if (bytes <= config->buffer_bytes - head) at = head;
      else if (bytes > tail) return 0;
    } else {
      if (bytes > tail - head) return 0;
      at = head;
    }
  }
  *ring_at(engine, engine->ring.n++) = m;
  progress->has_room = 1;
  progress->is_spare = 0;
  progress->parts_before = engine->used->messages[m].nparts;
  progress->at = at;
  return 1;
}

static void room_drop(struct engine *engine, int32_t m)
{
  const struct message *message = &engine->used->messages[m];
  memset(engine->is_in + message->first_part, 0, (size_t)message->nparts);
  engine->messages[m].parts_in = 0;
  engine->messages[m].has_room = 0;
}

/* Gives room to messages that come later, as far as it goes, so that their tensors can be copied when they are pushed.
 * Tensors that lay together when they were last sent, and tensors that were never sent, are not copied ahead. */
static void room_ahead(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  const struct tt_sequence *order = &engine->ordering.order;
  struct ring *ring = &engine->ring;
  int32_t forced = ring->forced;
  if (forced >= 0 && !engine->messages[forced].has_room && engine->messages[forced].state == TO_SEND &&
      !room_give(&fusion->config, engine, forced))
    return;
  if (ring->next < order->next) ring->next = order->next;
  for (; ring->next < order->plan.nmessages; ring->next++) {
    int32_t m = tt_fusion_order_at(&engine->ordering, ring->next);
    if (engine->messages[m].has_room || lies_together(fusion, m, 1)) continue;
    if (!room_give(&fusion->config, engine, m)) return;
  }
}

/* Messages that have lost their room leave the ring, wherever they are: they may be given another one. */
static void ring_pack(struct engine *engine)
{
  int32_t kept = 0;
  for (int32_t k = 0; k < engine->ring.n; k++) {
    int32_t m = *ring_at(engine, k);
    if (engine->messages[m].has_room) *ring_at(engine, kept++) = m;
  }
  engine->ring.n = kept;
}

/* The message, which is to be begun, has to have room, if those behind it lose theirs for it. */
static void room_force(const struct config *config, struct engine *engine, int32_t forced)
{
  engine->looks++;
  engine->ring.forced = forced;
  if (room_give(config, engine, forced)) return;
  engine->copying.in = NULL;
  for (int32_t m = 0; m < engine->used->nmessages; m++)
    if (engine->messages[m].has_room && engine->messages[m].state == TO_SEND) room_drop(engine, m);
  engine->ring.next = engine->ordering.order.next;
  ring_pack(engine);
  room_give(config, engine, forced); /* if not now, when those under way are back */
}

static int spare_is_used(const struct engine *engine, const struct spare *spare)
{
  const struct message_progress *progress = spare->message < 0 ? NULL : &engine->messages[spare->message];
  return progress && progress->has_room && progress->is_spare;
}

/* No more than one message of a channel is under way, so each has room as soon as the one before it is back. */
tuttiResult_t tt_fusion_spare(struct tuttiFusion *fusion, const struct tt_sequence_begin *what)
{
  struct engine *engine = &fusion->engine;
  int32_t m = engine->ordering.messages[what->message];
  struct message_progress *progress = &engine->messages[m];
  struct spare *spare = &engine->ring.spares[what->channel];
  size_t bytes = room_bytes(engine, m);
  if (progress->has_room || engine->ring.forced != m || spare_is_used(engine, spare)) return tuttiSuccess;
  if (spare->bytes < bytes) {
    tt_free(spare->memory);
    *spare = (struct spare){.memory = tt_alloc(1, bytes), .bytes = bytes};
    if (!spare->memory) return tt_fail(tuttiSystemError, "out of memory for a message of %zu bytes", bytes);
  }
  spare->message = m;
  progress->has_room = progress->is_spare = 1;
  progress->parts_before = engine->used->messages[m].nparts;
  progress->channel = what->channel;
  engine->looks++;
  return tuttiSuccess;
}

void tt_fusion_spares_forget(struct ring *ring)
{
  for (int c = 0; c <= CHANNELS; c++) ring->spares[c].message = -1;
}

void tt_fusion_spares_free(struct ring *ring)
{
  for (int c = 0; c <= CHANNELS; c++) tt_free(ring->spares[c].memory);
}

/* The place of a message that has room. */
static char *room_at(const struct tuttiFusion *fusion, int32_t m)
{
  const struct message_progress *progress = &fusion->engine.messages[m];
  return progress->is_spare ? fusion->engine.ring.spares[progress->channel].memory
                            : fusion->config.buffer + progress->at;
}

/* Drops the spare room of another channel than the one that the message is on since the last round. */
static void wrong_spare_drop(struct engine *engine, int32_t m, int channel)
{
  const struct message_progress *progress = &engine->messages[m];
  struct copying *copying = &engine->copying;
  if (!progress->has_room || !progress->is_spare || progress->channel == channel) return;
  if (copying->in && copying->message == m) copying->in = NULL;
  room_drop(engine, m);
}

int tt_fusion_place(struct tuttiFusion *fusion, const struct tt_sequence_begin *what, const void **in, void **out)
{
  int32_t m = fusion->engine.ordering.messages[what->message];
  const struct plan *plan = fusion->engine.used;
  const struct message *message = &plan->messages[m];
  const struct message_progress *progress = &fusion->engine.messages[m];
  const struct part *part = &plan->parts[message->first_part], *last = part + message->nparts - 1;
  wrong_spare_drop(&fusion->engine, m, what->channel);
  if (progress->has_room) {
    if (progress->parts_in < message->nparts) return 0;
    *in = *out = room_at(fusion, m);
    return 1;
  }
  if (!lies_together(fusion, m, 0)) {
    room_force(&fusion->config, &fusion->engine, m);
    return 0;
  }
  while (part->count == 0 && part < last) part++;
  const struct gradient *gradient = &fusion->shared.gradients[part->tensor];
  size_t skip = (size_t)part->first * (size_t)fusion->config.tensors[part->tensor].element;
  *in = (const char *)gradient->send + skip;
  *out = (char *)gradient->recv + skip;
  return 1;
}

/* ---- copying ---- */

static size_t part_bytes(const struct config *config, const struct part *part)
{
  return (size_t)part->count * (size_t)config->tensors[part->tensor].element;
}

/* The part's place in the fusion buffer. */
static char *part_place(const struct tuttiFusion *fusion, int32_t m, const struct part *part)
{
  return room_at(fusion, m) + part->at;
}

/* Copies from or to a tensor's part at most one piece from `done` on, which moves. */
static void part_copy(struct tuttiFusion *fusion, int32_t m, const struct part *part, int out)
{
  const struct gradient *gradient = &fusion->shared.gradients[part->tensor];
  struct copying *copying = &fusion->engine.copying;
  size_t all = part_bytes(&fusion->config, part);
  size_t skip = (size_t)part->first * (size_t)fusion->config.tensors[part->tensor].element;
  char *place = part_place(fusion, m, part);
  const char *from = out ? place : (const char *)gradient->send + skip;
  char *to = out ? (char *)gradient->recv + skip : place;
  size_t left = all - copying->done, piece = left < PIECE ? left : PIECE;
  if (piece) tt_memcpy(to + copying->done, from + copying->done, piece);
  copying->done += piece;
}

static int part_is_done(const struct tuttiFusion *fusion, const struct part *part)
{
  return fusion->engine.copying.done >= part_bytes(&fusion->config, part);
}

/* The tensor may lie in the next step where it lies in this one. */
static void part_remember(struct tuttiFusion *fusion, const struct part *part)
{
  fusion->engine.tensors[part->tensor].last_send = fusion->shared.gradients[part->tensor].send;
  fusion->engine.tensors[part->tensor].last_recv = fusion->shared.gradients[part->tensor].recv;
}

/* ---- in ---- */

/* The next part of the message that may be copied in, from behind, as backward makes them; NULL: none. */
static const struct part *part_of(struct engine *engine, const struct gradient *gradients, int32_t m)
{
  const struct plan *plan = engine->used;
  struct message_progress *progress = &engine->messages[m];
  if (!progress->has_room || progress->state != TO_SEND || progress->parts_in == plan->messages[m].nparts) return NULL;
  int first = plan->messages[m].first_part;
  while (progress->parts_before && engine->is_in[first + progress->parts_before - 1]) progress->parts_before--;
  for (int p = first + progress->parts_before - 1; p >= first; p--)
    if (!engine->is_in[p] && gradients[plan->parts[p].tensor].ready >= engine->step) return &plan->parts[p];
  return NULL;
}

/* The same of all messages that have room; NULL: none. Those with spare room are the next ones to be sent. */
static const struct part *part_to_copy(struct engine *engine, const struct gradient *gradients, int32_t *of)
{
  const struct part *part = NULL;
  for (int c = 0; c <= CHANNELS && !part; c++) {
    *of = engine->ring.spares[c].message;
    if (*of >= 0 && engine->messages[*of].is_spare) part = part_of(engine, gradients, *of);
  }
  for (int32_t k = 0; k < engine->ring.n && !part; k++) {
    *of = *ring_at(engine, k);
    part = part_of(engine, gradients, *of);
  }
  return part;
}

static int copy_in(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  struct copying *copying = &engine->copying;
  if (!copying->in) {
    if (engine->looked == engine->looks) return 0; /* nothing has come since there was nothing to do */
    room_ahead(fusion);
    copying->in = part_to_copy(engine, fusion->shared.gradients, &copying->message);
    copying->done = 0;
    if (!copying->in) engine->looked = engine->looks;
    if (!copying->in) return 0;
  }
  const struct part *part = copying->in;
  if (!part_is_done(fusion, part)) part_copy(fusion, copying->message, part, 0);
  if (!part_is_done(fusion, part)) return 1;
  part_remember(fusion, part);
  engine->is_in[part - engine->used->parts] = 1;
  engine->messages[copying->message].parts_in++;
  engine->copied += part_bytes(&fusion->config, part);
  copying->in = NULL;
  return 1;
}

/* ---- out ---- */

void tt_fusion_tensor_finish(struct tuttiFusion *fusion, int tensor)
{
  const struct config *config = &fusion->config;
  const struct engine *engine = &fusion->engine;
  struct shared *shared = &fusion->shared;
  struct gradient *gradient = &shared->gradients[tensor];
  pthread_mutex_lock(&shared->mutex);
  gradient->norm = config->norms ? tt_norm_get(&engine->tensors[tensor].norm) : 0;
  gradient->done = engine->step;
  int is_last = ++shared->ndone == config->n;
  if (is_last) shared->steps[engine->step % 2].copied = engine->copied;
  if (gradient->waiters || (is_last && shared->all_waiters)) pthread_cond_broadcast(&shared->done);
  pthread_mutex_unlock(&shared->mutex);
}

/* Adds a piece of the part to the tensor's norm, from where the sum lies. 1: all of it is added. */
static int norm_add(struct tuttiFusion *fusion, int32_t m, const struct part *part)
{
  const struct tensor *tensor = &fusion->config.tensors[part->tensor];
  const struct gradient *gradient = &fusion->shared.gradients[part->tensor];
  struct engine *engine = &fusion->engine;
  struct copying *copying = &engine->copying;
  size_t element = (size_t)tensor->element, all = part_bytes(&fusion->config, part), left = all - copying->added;
  size_t piece = left < PIECE ? left : PIECE;
  const char *at = engine->messages[m].has_room ? part_place(fusion, m, part)
                                                : (const char *)gradient->recv + (size_t)part->first * element;
  at += copying->added;
  if (!piece) return 1;
  tt_norm_add(&engine->tensors[part->tensor].norm, tensor->type, at, part->first + copying->added / element,
              piece / element);
  copying->added += piece;
  return copying->added == all;
}

/* True unless elements before those of the message are still to be added to a norm, whose bits depend on the order.
 * Only its first part can have such. */
static int is_next(const struct tuttiFusion *fusion, int32_t m)
{
  const struct engine *engine = &fusion->engine;
  const struct part *part = &engine->used->parts[engine->used->messages[m].first_part];
  return !fusion->config.norms || engine->tensors[part->tensor].added == part->first;
}

/* The message that is coming out; else the one that was begun first of those that have come and may come out; -1: there
 * is none. */
static int32_t message_out(const struct tuttiFusion *fusion)
{
  const struct engine *engine = &fusion->engine;
  if (engine->out >= 0) return engine->out;
  for (int32_t k = engine->back; k < engine->nbegun; k++)
    if (engine->messages[engine->begun[k]].state == CAME && is_next(fusion, engine->begun[k])) return engine->begun[k];
  return -1;
}

/* Goes on with a message that has come. */
static int copy_out(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  struct copying *copying = &engine->copying;
  int32_t m = engine->out = message_out(fusion);
  if (m < 0) return 0;
  struct message_progress *progress = &engine->messages[m];
  const struct message *message = &engine->used->messages[m];
  const struct part *part = &engine->used->parts[message->first_part + engine->out_part];
  if (copying->out != part) *copying = (struct copying){.out = part};
  if (progress->has_room && !part_is_done(fusion, part)) {
    part_copy(fusion, m, part, 1);
    if (!part_is_done(fusion, part)) return 1;
  }
  if (fusion->config.norms && !norm_add(fusion, m, part)) return 1;
  copying->out = NULL;
  engine->tensors[part->tensor].added += part->count;
  part_remember(fusion, part);
  if (--engine->tensors[part->tensor].parts_left == 0 && !tt_fusion_gives_last(&fusion->config))
    tt_fusion_tensor_finish(fusion, part->tensor);
  if (++engine->out_part < message->nparts) return 1;
  engine->out_part = 0;
  engine->out = -1;
  engine->looks++;
  progress->state = OVER;
  progress->has_room = 0;
  while (engine->back < engine->nbegun && engine->messages[engine->begun[engine->back]].state == OVER) engine->back++;
  room_reclaim(engine);
  return 1;
}

/* One copy is under way at a time, and what is begun is ended first. */
int tt_fusion_copy(struct tuttiFusion *fusion)
{
  const struct engine *engine = &fusion->engine;
  const struct copying *copying = &engine->copying;
  if (copying->in) return copy_in(fusion);
  if (copying->out) return copy_out(fusion);
  int idle = engine->nbegun == engine->back; /* nothing is under way, or to come out: the links wait for the next */
  if (!idle && copy_out(fusion)) return 1;
  return copy_in(fusion);
}
