/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_placed.h"

#include <string.h>

#include "reduce_reference.h"

#define CANARY 0xa5
#define ROOM (64 + 64 + PLACED_COUNT * 8 + 64) /* canaries, shift, elements, canaries */

/* What is right for all placements of one (redop, type, nsrc, scaled): elements do not depend on
 * their neighbours, so a shorter vector is the beginning of the longest. */
struct expected {
  int redop, type, nsrc, scaled, valid;
  char sources[PLACED_SOURCES][PLACED_COUNT * 8];
  char result[PLACED_COUNT * 8];
  struct tt_reduce_arg arg;
};

static void random_elements(int type, char *out, uint64_t *seed)
{
  size_t size = tt_type_size(type);
  for (size_t i = 0; i < PLACED_COUNT; i++)
    do {
      uint64_t bits = reference_random(seed);
      memcpy(out + i * size, &bits, size);
    } while (reference_is_nan(type, out + i * size));
}

static int is_of(const struct expected *e, const struct placement *place)
{
  return e->valid && e->redop == place->redop && e->type == place->type && e->nsrc == place->nsrc &&
         e->scaled == place->scaled;
}

static const struct expected *expect(const struct placement *place)
{
  static struct expected e;
  const void *sources[PLACED_SOURCES];
  uint64_t seed = 4711, scalar = 0;
  if (is_of(&e, place)) return &e;
  e.redop = place->redop;
  e.type = place->type;
  e.nsrc = place->nsrc;
  e.scaled = place->scaled;
  e.valid = 1;
  for (int k = 0; k < e.nsrc; k++) {
    random_elements(e.type, e.sources[k], &seed);
    sources[k] = e.sources[k];
  }
  reference_tame(e.type, &scalar, &seed);
  tt_reduce_arg_make(&e.arg, e.redop, e.type, 3, scalar, e.scaled);
  if (tt_reduce_finishes(e.redop, e.type)) tt_reduce_arg_finish(&e.arg, 3);
  const struct reference call = {e.redop, e.type, e.nsrc, sources, &e.arg};
  reference_reduce(&call, e.result, PLACED_COUNT);
  return &e;
}

/* True if all bytes of `room` outside [at, at + len) are canaries. */
static int untouched(const unsigned char *room, size_t at, size_t len)
{
  for (size_t i = 0; i < ROOM; i++)
    if ((i < at || i >= at + len) && room[i] != CANARY) return 0;
  return 1;
}

static int equal(int type, const unsigned char *got, const char *wanted, size_t count)
{
  size_t size = tt_type_size(type);
  if (memcmp(got, wanted, count * size) == 0) return 1;
  for (size_t i = 0; i < count; i++)
    if (!reference_same(type, got + i * size, wanted + i * size)) return 0;
  return 1;
}

const char *placed_fault(const struct placement *place)
{
  static _Alignas(64) unsigned char rooms[PLACED_SOURCES + 1][(ROOM + 63) / 64 * 64];
  const struct expected *e = expect(place);
  size_t len = place->count * tt_type_size(place->type), at[PLACED_SOURCES + 1];
  const void *sources[PLACED_SOURCES];
  memset(rooms, CANARY, sizeof rooms);
  for (int k = 0; k < place->nsrc; k++) {
    at[k] = 64 + (place->align * (2 * (size_t)k + 3) + (size_t)k) % 64;
    if (k == place->in_place) at[k] = 64 + place->align;
    memcpy(rooms[k] + at[k], e->sources[k], len);
    sources[k] = rooms[k] + at[k];
  }
  int target = place->in_place < 0 ? PLACED_SOURCES : place->in_place;
  at[PLACED_SOURCES] = 64 + place->align;
  unsigned char *dst = rooms[target] + at[target];
  tt_reduce_kernel(place->redop, place->type)(dst, sources, place->nsrc, place->count, &e->arg);
  if (!equal(place->type, dst, e->result, place->count)) return "wrong elements";
  if (!untouched(rooms[target], at[target], len)) return "bytes beside dst written";
  for (int k = 0; k < place->nsrc; k++) {
    if (k == target) continue;
    if (memcmp(rooms[k] + at[k], e->sources[k], len) != 0) return "source written";
    if (!untouched(rooms[k], at[k], len)) return "bytes beside a source written";
  }
  return NULL;
}
