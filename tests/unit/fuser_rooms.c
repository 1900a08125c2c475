/* SPDX-License-Identifier: BSD-3-Clause */
/* The fusion buffer alone, without ranks: messages of any sizes, pushed, begun and ended in drawn orders, some of which
 * lie together and some in memory that the CPU cannot touch. Rooms never overlap, none is outside of the buffer, every
 * message gets its turn, and every byte comes back to where it belongs, as "the wire" has changed it.
 * Labels: serial. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "fake_device.h"
#include "fuser/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define TENSORS 48
#define PARTS (16 * TENSORS) /* a tensor may be cut */
#define BUFFER 4096
#define MOST (BUFFER / 2)   /* bytes of a message */
#define GAP 64
#define ARENA ((size_t)TENSORS * (MOST + 2 * GAP))
#define FILL 0x5a
#define STEPS 6
#define TURNS 200000 /* a step that takes more is stuck */

struct way {
  const void *in;
  void *out;
  int is_ending; /* its last bytes are on their way: the next one may begin */
};

/* Of this trial: in one of so many turns a tensor is pushed, a message comes further. */
struct rates {
  size_t push, end;
};

struct model {
  struct tuttiFusion f;
  const struct tt_device *device; /* NULL: all memory is the host's */
  uint64_t chance;
  unsigned char *arena[2][2]; /* of the host, the device: sends, sums */
  int is_on_device[TENSORS];
  struct rates rates;
  size_t longest; /* message of this trial */
  int message[TENSORS]; /* that its first element is in */
  int is_apart[PARTS];  /* messages of this step whose tensors do not lie together */
  int order[TENSORS], npushed;
  struct way ways[PARTS];
};

static unsigned char pattern(uint64_t step, int tensor, size_t i)
{
  return (unsigned char)(step * 89 + (uint64_t)tensor * 31 + i * 7);
}

/* What the wire makes of a byte. */
static unsigned char wired(unsigned char byte)
{
  return (unsigned char)(byte * 3 + 1);
}

static void memory_write(const struct model *m, void *to, const void *from, size_t len)
{
  if (tt_device_of(to)->host) memcpy(to, from, len);
  else fake_device_write(m->device, to, from, len);
}

static void memory_read(const struct model *m, void *to, const void *from, size_t len)
{
  if (tt_device_of(from)->host) memcpy(to, from, len);
  else fake_device_read(m->device, to, from, len);
}

/* ---- messages ---- */

/* Short and long tensors, some without elements. */
static void tensors_draw(struct model *m)
{
  int on = 0;
  m->f.n = 1 + (int)below(&m->chance, below(&m->chance, 4) ? TENSORS : 4);
  for (int t = 0; t < m->f.n; t++) {
    struct tensor *tensor = &m->f.tensors[t];
    size_t most = below(&m->chance, 8) ? 400 : MOST;
    *tensor = (struct tensor){.type = tuttiUint8, .element = 1, .wire_element = 1};
    tensor->count = tensor->bytes = below(&m->chance, 8) ? below(&m->chance, most) : 0;
    snprintf(tensor->name, sizeof tensor->name, "t%d", t);
    if (t == 0 || below(&m->chance, 6) == 0) on = m->device && below(&m->chance, 2);
    m->is_on_device[t] = on; /* some in a row */
  }
}

/* All tensors, one after the other, cut where a drawn number of bytes is reached. */
static void messages_draw(struct model *m)
{
  int nparts = 0;
  struct message *message = NULL;
  size_t most = 0;
  m->f.nmessages = 0;
  for (int t = 0; t < m->f.n; t++) {
    uint64_t first = 0;
    m->message[t] = -1;
    do {
      if (!message || message->bytes >= most) {
        message = &m->f.messages[m->f.nmessages++];
        *message = (struct message){.type = tuttiUint8, .first_part = nparts};
        most = MOST / 12 + below(&m->chance, m->longest);
      }
      if (m->message[t] < 0) m->message[t] = m->f.nmessages - 1;
      uint64_t left = m->f.tensors[t].count - first, room = most - message->bytes;
      struct part part = {.tensor = t, .first = first, .count = left < room ? left : room, .at = message->bytes};
      m->f.parts[nparts++] = part;
      message->nparts++;
      message->bytes += part.count;
      message->count = message->wire_bytes = message->bytes;
      m->f.tensors[t].nparts++;
      first += part.count;
    } while (first < m->f.tensors[t].count);
  }
  assert_true(nparts <= PARTS);
}

/* ---- a step ---- */

static unsigned char *place_draw(struct model *m, int tensor, int which, size_t used[2][2])
{
  int on = m->is_on_device[tensor];
  unsigned char *at = m->arena[on][which] + used[on][which];
  used[on][which] += m->f.tensors[tensor].bytes + (m->is_apart[m->message[tensor]] ? 1 + below(&m->chance, GAP) : 0);
  return at;
}

/* Where tensors are in this step, in place or not. What lies together may do so always, never, or now and then. */
static void tensors_place(struct model *m, uint64_t step)
{
  size_t used[2][2] = {{0}};
  unsigned char bytes[MOST];
  for (int k = 0; k < m->f.nmessages; k++) m->is_apart[k] = k % 3 == 0 || (k % 3 == 1 && below(&m->chance, 2));
  for (int t = 0; t < m->f.n; t++) {
    struct tensor *tensor = &m->f.tensors[t];
    tensor->send = place_draw(m, t, 0, used);
    tensor->recv = place_draw(m, t, 1, used);
    if (step % 2) tensor->recv = (void *)(uintptr_t)tensor->send;
    for (size_t i = 0; i < tensor->bytes; i++) bytes[i] = pattern(step, t, i);
    if (tensor->bytes) memory_write(m, (void *)(uintptr_t)tensor->send, bytes, tensor->bytes);
  }
}

static void step_begin(struct model *m, uint64_t step)
{
  for (int i = 0; i < m->f.n; i++) {
    int j = (int)below(&m->chance, (size_t)i + 1);
    m->order[i] = m->order[j];
    m->order[j] = i;
  }
  m->npushed = 0;
  m->f.ndone = 0;
  m->f.engine_step = step;
  tensors_place(m, step);
  tt_fuser_step_start(&m->f);
}

static void push_one(struct model *m)
{
  struct tensor *tensor = &m->f.tensors[m->order[m->npushed++]];
  tensor->pushed = m->f.engine_step;
  atomic_store(&tensor->ready, m->f.engine_step);
  m->f.looks++;
}

/* The rule of the engine (may_begin), and all that is sent was pushed. */
static int may_begin(const struct model *m)
{
  const struct tuttiFusion *f = &m->f;
  if (f->next == f->nmessages) return 0;
  for (int32_t k = f->back; k < f->next; k++)
    if (f->messages[k].state == UNDER_WAY && (k % f->nchannels == f->next % f->nchannels || !m->ways[k].is_ending))
      return 0;
  const struct message *message = &f->messages[f->next];
  for (int p = 0; p < message->nparts; p++)
    if (f->tensors[f->parts[message->first_part + p].tensor].ready < f->engine_step) return 0;
  return 1;
}

/* 1: the next message has begun. */
static int begin_one(struct model *m)
{
  if (!may_begin(m)) return 0;
  struct message *message = &m->f.messages[m->f.next];
  struct way *way = &m->ways[m->f.next];
  *way = (struct way){.in = NULL};
  if (!tt_fuser_place(&m->f, message, &way->in, &way->out)) return 0;
  message->state = UNDER_WAY;
  m->f.next++;
  return 1;
}

/* In any order; each one is at its last steps before it has come. */
static void end_some(struct model *m)
{
  unsigned char bytes[MOST];
  for (int32_t k = m->f.back; k < m->f.next; k++) {
    struct message *message = &m->f.messages[k];
    struct way *way = &m->ways[k];
    if (message->state != UNDER_WAY || below(&m->chance, m->rates.end)) continue;
    if (!way->is_ending) {
      way->is_ending = 1;
      continue;
    }
    if (message->bytes) memory_read(m, bytes, way->in, message->bytes);
    for (size_t i = 0; i < message->bytes; i++) bytes[i] = wired(bytes[i]);
    if (message->bytes) memory_write(m, way->out, bytes, message->bytes);
    message->state = CAME;
  }
}

/* ---- what has to hold ---- */

static void rooms_check(const struct model *m)
{
  const struct tuttiFusion *f = &m->f;
  for (int32_t a = 0; a < f->nmessages; a++) {
    const struct message *x = &f->messages[a];
    if (!x->has_room) continue;
    assert_true(x->at <= f->buffer_bytes && x->bytes <= f->buffer_bytes - x->at);
    for (int32_t b = 0; b < a; b++) {
      const struct message *y = &f->messages[b];
      if (y->has_room && x->at < y->at + y->bytes && y->at < x->at + x->bytes)
        fail_msg("message %d has bytes %zu to %zu of the buffer, message %d %zu to %zu", (int)a, x->at,
                 x->at + x->bytes, (int)b, y->at, y->at + y->bytes);
    }
  }
  assert_true(f->in_ring <= f->nmessages);
}

static void sums_check(const struct model *m, uint64_t step)
{
  unsigned char bytes[MOST];
  for (int t = 0; t < m->f.n; t++) {
    const struct tensor *tensor = &m->f.tensors[t];
    assert_int_equal(tensor->done, step);
    if (tensor->bytes) memory_read(m, bytes, tensor->recv, tensor->bytes);
    for (size_t i = 0; i < tensor->bytes; i++)
      if (bytes[i] != wired(pattern(step, t, i))) fail_msg("tensor %d: byte %zu is wrong", t, i);
  }
  for (size_t i = 0; i < GAP; i++) assert_int_equal(m->f.buffer[BUFFER + i], FILL);
}

static void step_run(struct model *m, uint64_t step)
{
  int turns = 0;
  step_begin(m, step); /* then as in tt_fuser_main */
  while (m->f.back < m->f.nmessages) {
    tuttiResult_t result = tuttiSuccess;
    if (++turns > TURNS) fail_msg("message %d of %d never comes", (int)m->f.back, (int)m->f.nmessages);
    while (m->npushed < m->f.n && below(&m->chance, m->rates.push) == 0) push_one(m);
    end_some(m);
    rooms_check(m);
    while (begin_one(m)) rooms_check(m);
    rooms_check(m);
    tt_fuser_copy(&m->f, &result);
    assert_int_equal(result, tuttiSuccess);
    rooms_check(m);
  }
  assert_int_equal(m->f.ndone, m->f.n);
  sums_check(m, step);
}

/* ---- trials ---- */

static size_t rate_draw(struct model *m)
{
  static const size_t rates[] = {1, 3, 9, 27};
  return rates[below(&m->chance, 4)];
}

static void trial_run(struct model *m, uint64_t seed)
{
  m->chance = seed;
  m->f.nchannels = 1 + (int)below(&m->chance, 4);
  m->longest = below(&m->chance, 3) ? MOST - MOST / 12 : 600;
  m->rates = (struct rates){rate_draw(m), rate_draw(m)};
  tensors_draw(m);
  messages_draw(m);
  memset(m->f.buffer, FILL, BUFFER + GAP);
  for (uint64_t step = 1; step <= STEPS; step++) step_run(m, step);
}

static void trials_run(const struct tt_device *device, uint64_t trials)
{
  struct model *m = calloc(1, sizeof *m);
  m->device = device;
  m->f.buffer_bytes = BUFFER;
  m->f.buffer = malloc(BUFFER + GAP);
  m->f.tensors = calloc(TENSORS, sizeof *m->f.tensors);
  m->f.messages = calloc(PARTS, sizeof *m->f.messages);
  m->f.parts = calloc(PARTS, sizeof *m->f.parts);
  m->f.ring = calloc(PARTS, sizeof *m->f.ring);
  pthread_mutex_init(&m->f.mutex, NULL);
  pthread_cond_init(&m->f.done, NULL);
  for (int which = 0; which < 2; which++) {
    m->arena[0][which] = malloc(ARENA);
    m->arena[1][which] = device ? device->alloc(device, ARENA) : NULL;
    assert_true(m->arena[0][which] && (!device || m->arena[1][which]));
  }
  for (uint64_t seed = 1; seed <= trials; seed++) trial_run(m, seed);
  for (int which = 0; which < 2; which++) {
    free(m->arena[0][which]);
    if (device) device->free(device, m->arena[1][which]);
  }
  pthread_cond_destroy(&m->f.done);
  pthread_mutex_destroy(&m->f.mutex);
  free(m->f.ring);
  free(m->f.parts);
  free(m->f.messages);
  free(m->f.tensors);
  free(m->f.buffer);
  free(m);
}

static void rooms_never_overlap_and_every_message_comes(void **state)
{
  (void)state;
  trials_run(NULL, 1000);
}

static void the_same_with_memory_whose_copies_end_late(void **state)
{
  (void)state;
  const struct tt_device *device = fake_device_create(5);
  assert_non_null(device);
  trials_run(device, 500);
  struct fake_device_counts counts = fake_device_destroy(device);
  assert_true(counts.started > 1000 && counts.breaches == 0 && counts.outstanding == 0 && counts.allocated == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rooms_never_overlap_and_every_message_comes),
      cmocka_unit_test(the_same_with_memory_whose_copies_end_late),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
