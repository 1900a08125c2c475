/* SPDX-License-Identifier: BSD-3-Clause */
/* The fusion buffer alone, without ranks: messages of any sizes, pushed, begun and ended in drawn orders, some of which
 * lie together. Rooms never overlap, none is outside of the buffer, every
 * message gets its turn, and every byte comes back to where it belongs, as "the wire" has changed it.
 * Labels: serial. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "fusion/private.h"
#include "slow.h"

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
  struct plan plan;
  struct tensor tensors[TENSORS];
  struct gradient gradients[TENSORS];
  struct tensor_progress progress[TENSORS];
  struct message messages[PARTS];
  struct part parts[PARTS];
  struct cut cuts[TENSORS];
  struct message_progress message_progress[PARTS];
  uint8_t is_in[PARTS];
  int32_t ring[PARTS], begun[PARTS], groups[PARTS], as_planned[PARTS]; /* one group: the order is that of the plan */
  uint64_t bytes[PARTS];
  uint64_t chance;
  unsigned char *arena[2]; /* sends, sums */
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

/* ---- messages ---- */

/* Short and long tensors, some without elements. */
static void tensors_draw(struct model *m)
{
  m->f.config.n = 1 + (int)below(&m->chance, below(&m->chance, 4) ? TENSORS : 4);
  for (int t = 0; t < m->f.config.n; t++) {
    struct tensor *tensor = &m->tensors[t];
    size_t most = below(&m->chance, 8) ? 400 : MOST;
    *tensor = (struct tensor){.type = tuttiUint8, .element = 1, .unit = 1, .wire_unit = 1};
    tensor->count = tensor->bytes = below(&m->chance, 8) ? below(&m->chance, most) : 0;
    snprintf(tensor->name, sizeof tensor->name, "t%d", t);
    memset(&m->gradients[t], 0, sizeof m->gradients[t]);
    memset(&m->progress[t], 0, sizeof m->progress[t]);
  }
}

/* All tensors, one after the other, cut where a drawn number of bytes is reached. */
static void messages_draw(struct model *m)
{
  struct message *message = NULL;
  size_t most = 0;
  m->plan.nmessages = m->plan.nparts = 0;
  for (int t = 0; t < m->f.config.n; t++) {
    uint64_t first = 0;
    m->message[t] = -1;
    m->cuts[t].nparts = 0;
    do {
      if (!message || message->bytes >= most) {
        m->message_progress[m->plan.nmessages] = (struct message_progress){.has_room = 0};
        message = &m->messages[m->plan.nmessages++];
        *message = (struct message){.type = tuttiUint8, .first_part = m->plan.nparts};
        most = MOST / 12 + below(&m->chance, m->longest);
      }
      if (m->message[t] < 0) m->message[t] = m->plan.nmessages - 1;
      uint64_t left = m->tensors[t].count - first, room = most - message->bytes;
      struct part part = {.tensor = t, .first = first, .count = left < room ? left : room, .at = message->bytes};
      m->parts[m->plan.nparts++] = part;
      message->nparts++;
      message->bytes += part.count;
      message->count = message->wire_bytes = message->bytes;
      m->cuts[t].nparts++;
      first += part.count;
    } while (first < m->tensors[t].count);
  }
  assert_true(m->plan.nparts <= PARTS);
}

/* ---- a step ---- */

static unsigned char *place_draw(struct model *m, int tensor, int which, size_t used[2])
{
  unsigned char *at = m->arena[which] + used[which];
  used[which] += m->tensors[tensor].bytes + (m->is_apart[m->message[tensor]] ? 1 + below(&m->chance, GAP) : 0);
  return at;
}

/* Where tensors are in this step, in place or not. What lies together may do so always, never, or now and then. */
static void tensors_place(struct model *m, uint64_t step)
{
  size_t used[2] = {0};
  unsigned char bytes[MOST];
  for (int k = 0; k < m->plan.nmessages; k++) m->is_apart[k] = k % 3 == 0 || (k % 3 == 1 && below(&m->chance, 2));
  for (int t = 0; t < m->f.config.n; t++) {
    struct gradient *gradient = &m->gradients[t];
    size_t len = m->tensors[t].bytes;
    gradient->send = place_draw(m, t, 0, used);
    gradient->recv = place_draw(m, t, 1, used);
    if (step % 2) gradient->recv = (void *)(uintptr_t)gradient->send;
    for (size_t i = 0; i < len; i++) bytes[i] = pattern(step, t, i);
    if (len) memcpy((void *)(uintptr_t)gradient->send, bytes, len);
  }
}

static void step_begin(struct model *m, uint64_t step)
{
  for (int i = 0; i < m->f.config.n; i++) {
    int j = (int)below(&m->chance, (size_t)i + 1);
    m->order[i] = m->order[j];
    m->order[j] = i;
  }
  m->npushed = 0;
  m->f.shared.ndone = 0;
  m->f.engine.step = step;
  tensors_place(m, step);
  tt_fusion_step_start(&m->f);
}

static void push_one(struct model *m)
{
  struct gradient *gradient = &m->gradients[m->order[m->npushed++]];
  gradient->pushed = m->f.engine.step;
  atomic_store(&gradient->ready, m->f.engine.step);
  m->f.engine.looks++;
}

/* The rule of the engine (may_begin), and all that is sent was pushed. */
static int may_begin(const struct model *m)
{
  const struct engine *engine = &m->f.engine;
  int nchannels = m->f.config.nplanned;
  if (engine->nbegun == m->plan.nmessages) return 0;
  for (int32_t k = engine->back; k < engine->nbegun; k++)
    if (engine->messages[k].state == UNDER_WAY &&
        (k % nchannels == engine->nbegun % nchannels || !m->ways[k].is_ending))
      return 0;
  const struct message *message = &m->messages[engine->nbegun];
  for (int p = 0; p < message->nparts; p++)
    if (m->gradients[m->parts[message->first_part + p].tensor].ready < engine->step) return 0;
  return 1;
}

/* 1: the next message has begun. */
static int begin_one(struct model *m)
{
  struct engine *engine = &m->f.engine;
  if (!may_begin(m)) return 0;
  int32_t next = engine->nbegun;
  struct way *way = &m->ways[next];
  *way = (struct way){.in = NULL};
  struct tt_sequence_begin what = {.message = next, .channel = next % m->f.config.nplanned};
  what.is_sure = below(&m->chance, 2) == 0;
  if (!tt_fusion_place(&m->f, &what, &way->in, &way->out)) {
    if (what.is_sure) assert_int_equal(tt_fusion_spare(&m->f, &what), tuttiSuccess);
    return 0;
  }
  engine->messages[next].state = UNDER_WAY;
  engine->begun[engine->nbegun++] = next;
  engine->ordering.order.next++;
  return 1;
}

/* In any order; each one is at its last steps before it has come. */
static void end_some(struct model *m)
{
  unsigned char bytes[MOST];
  for (int32_t k = m->f.engine.back; k < m->f.engine.nbegun; k++) {
    struct message_progress *progress = &m->message_progress[k];
    size_t len = m->messages[k].bytes;
    struct way *way = &m->ways[k];
    if (progress->state != UNDER_WAY || below(&m->chance, m->rates.end)) continue;
    if (!way->is_ending) {
      way->is_ending = 1;
      continue;
    }
    if (len) memcpy(bytes, way->in, len);
    for (size_t i = 0; i < len; i++) bytes[i] = wired(bytes[i]);
    if (len) memcpy(way->out, bytes, len);
    progress->state = CAME;
  }
}

/* ---- what has to hold ---- */

static void rooms_check(const struct model *m)
{
  for (int32_t a = 0; a < m->plan.nmessages; a++) {
    size_t at = m->message_progress[a].at, len = m->messages[a].bytes;
    if (!m->message_progress[a].has_room || m->message_progress[a].is_spare) continue;
    assert_true(at <= m->f.config.buffer_bytes && len <= m->f.config.buffer_bytes - at);
    for (int32_t b = 0; b < a; b++) {
      size_t its_at = m->message_progress[b].at, its_len = m->messages[b].bytes;
      if (m->message_progress[b].is_spare) continue;
      if (m->message_progress[b].has_room && at < its_at + its_len && its_at < at + len)
        fail_msg("message %d has bytes %zu to %zu of the buffer, message %d %zu to %zu", (int)a, at, at + len, (int)b,
                 its_at, its_at + its_len);
    }
  }
  assert_true(m->f.engine.ring.n <= m->plan.nmessages);
}

static void sums_check(const struct model *m, uint64_t step)
{
  unsigned char bytes[MOST];
  for (int t = 0; t < m->f.config.n; t++) {
    size_t len = m->tensors[t].bytes;
    assert_int_equal(m->gradients[t].done, step);
    if (len) memcpy(bytes, m->gradients[t].recv, len);
    for (size_t i = 0; i < len; i++)
      if (bytes[i] != wired(pattern(step, t, i))) fail_msg("tensor %d: byte %zu is wrong", t, i);
  }
  for (size_t i = 0; i < GAP; i++) assert_int_equal(m->f.config.buffer[BUFFER + i], FILL);
}

static void step_run(struct model *m, uint64_t step)
{
  int turns = 0;
  step_begin(m, step); /* then as in tt_fusion_main */
  while (m->f.engine.back < m->plan.nmessages) {
    if (++turns > TURNS) fail_msg("message %d of %d never comes", (int)m->f.engine.back, (int)m->plan.nmessages);
    while (m->npushed < m->f.config.n && below(&m->chance, m->rates.push) == 0) push_one(m);
    end_some(m);
    rooms_check(m);
    while (begin_one(m)) rooms_check(m);
    rooms_check(m);
    tt_fusion_copy(&m->f);
    rooms_check(m);
  }
  assert_int_equal(m->f.shared.ndone, m->f.config.n);
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
  m->f.config.nplanned = 1 + (int)below(&m->chance, 4);
  m->longest = below(&m->chance, 3) ? MOST - MOST / 12 : 600;
  m->rates = (struct rates){rate_draw(m), rate_draw(m)};
  tensors_draw(m);
  messages_draw(m);
  memset(m->f.config.buffer, FILL, BUFFER + GAP);
  for (int32_t k = 0; k < m->plan.nmessages; k++) m->bytes[k] = m->messages[k].bytes;
  struct tt_sequence_plan plan = {.nmessages = m->plan.nmessages,
                                  .ngroups = 1,
                                  .nchannels = m->f.config.nplanned,
                                  .groups = m->groups,
                                  .bytes = m->bytes};
  assert_int_equal(tt_sequence_make(&m->f.engine.ordering.order, &plan), tuttiSuccess);
  for (uint64_t step = 1; step <= STEPS; step++) step_run(m, step);
  tt_sequence_destroy(&m->f.engine.ordering.order);
}

static void trials_run(uint64_t trials)
{
  struct model *m = calloc(1, sizeof *m);
  m->f.config.buffer_bytes = BUFFER;
  m->f.config.buffer = malloc(BUFFER + GAP);
  m->f.config.tensors = m->tensors;
  m->f.shared.gradients = m->gradients;
  m->plan.messages = m->messages;
  m->plan.parts = m->parts;
  m->plan.cuts = m->cuts;
  m->f.engine.used = &m->plan;
  m->f.engine.tensors = m->progress;
  m->f.engine.messages = m->message_progress;
  m->f.engine.is_in = m->is_in;
  m->f.engine.ring.messages = m->ring;
  m->f.engine.begun = m->begun;
  m->f.engine.ordering.messages = m->as_planned;
  for (int32_t k = 0; k < PARTS; k++) m->as_planned[k] = k;
  pthread_mutex_init(&m->f.shared.mutex, NULL);
  pthread_cond_init(&m->f.shared.done, NULL);
  for (int which = 0; which < 2; which++) {
    m->arena[which] = malloc(ARENA);
    assert_non_null(m->arena[which]);
  }
  for (uint64_t seed = 1; seed <= trials; seed++) trial_run(m, seed);
  for (int which = 0; which < 2; which++) free(m->arena[which]);
  tt_fusion_spares_free(&m->f.engine.ring);
  pthread_cond_destroy(&m->f.shared.done);
  pthread_mutex_destroy(&m->f.shared.mutex);
  free(m->f.config.buffer);
  free(m);
}

static void rooms_never_overlap_and_every_message_comes(void **state)
{
  (void)state;
  trials_run(IS_SLOW ? 200 : 1000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rooms_never_overlap_and_every_message_comes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
