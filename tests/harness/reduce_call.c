/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "reduce_tables.h"
#include "strange.h"

#define GUARD 0xa5
#define BESIDE 64 /* bytes of guard before and after each buffer, at least */

/* Pieces of memory: those of the sources, of the wide source, of dst and of the second destination. */
enum { NARROW = 8, WIDE = NARROW, APART, ALSO, ROOMS, NOWHERE };

struct layout {
  size_t at[ROOMS], len[ROOMS]; /* of the buffers; len 0: not used */
  size_t total;                 /* bytes in all, a multiple of 64 */
};

struct call call_plain(int redop, int type, int nsrc, size_t count)
{
  return (struct call){.redop = redop, .type = type, .nsrc = nsrc, .in_place = -1, .also = CALL_NO_ALSO,
                       .count = count, .seed = 1, .arg = tt_reduce_plainly};
}

/* A number below n that depends on the call's seed and on `what` alone. */
static size_t chosen(const struct call *call, uint64_t what, size_t n)
{
  uint64_t state = call->seed + 977 * what;
  return below(&state, n);
}

static int room_of(const struct call *call, int k)
{
  if (k == call->arg.wide) return WIDE;
  return call->nsrc > NARROW || call->seed % 4 == 0 ? (int)chosen(call, (uint64_t)k, NARROW) : k;
}

static int dst_room(const struct call *call)
{
  return call->in_place < 0 ? APART : room_of(call, call->in_place);
}

static int also_room(const struct call *call)
{
  if (call->also == CALL_NO_ALSO) return NOWHERE;
  return call->also == CALL_ALSO_APART ? ALSO : room_of(call, call->also);
}

int call_is_legal(const struct call *call)
{
  if (call->in_place >= 0 && (call->in_place == call->arg.wide) != call->arg.dst_wide) return 0;
  return also_room(call) != WIDE && also_room(call) != dst_room(call);
}

static size_t element_of(const struct call *call, int room)
{
  int is_wide = room == WIDE || (room == dst_room(call) && call->arg.dst_wide);
  return is_wide ? sizeof(float) : tt_type_size(call->type);
}

static void place(const struct call *call, struct layout *layout)
{
  const int dst = dst_room(call), also = also_room(call);
  *layout = (struct layout){.total = 64};
  for (int k = 0; k < call->nsrc; k++) layout->len[room_of(call, k)] = 1;
  layout->len[dst] = 1;
  if (also != NOWHERE) layout->len[also] = 1;
  for (int r = 0; r < ROOMS; r++) {
    if (!layout->len[r]) continue;
    size_t align = r == dst ? call->align : chosen(call, (uint64_t)(1000 + r), 64);
    layout->len[r] = call->count * element_of(call, r);
    layout->at[r] = layout->total + BESIDE + align;
    layout->total = (layout->at[r] + layout->len[r] + BESIDE + 63) / 64 * 64;
  }
}

/* Elements that share the high bits of their exponents, so that roundings, cancellations and overflows are frequent. */
static void fill_near(const struct call *call, int type, void *out, uint64_t *seed)
{
  size_t size = tt_type_size(type);
  uint64_t mask = 0, same;
  if (type == tuttiFloat16) mask = 0x7800;
  if (type == tuttiBfloat16) mask = 0x7e00;
  if (type == tuttiFloat32) mask = 0x7e000000;
  if (type == tuttiFloat64) mask = 0x7fe0000000000000;
  same = chosen(call, 2000, SIZE_MAX) & mask;
  for (size_t i = 0; i < call->count; i++) {
    uint64_t bits = (next(seed) & ~mask) | same;
    memcpy((char *)out + i * size, &bits, size);
  }
}

/* Where rounding and division change: of a wide source what lies between the values of the call's type, of integers
 * what is next to a multiple of the divisor. */
static void fill_borders(const struct call *call, int type, void *out, uint64_t *seed)
{
  size_t size = tt_type_size(type);
  for (size_t i = 0; i < call->count; i++) {
    uint64_t bits;
    if (type != call->type) bits = reference_border(call->type, seed);
    else bits = (uint64_t)call->arg.divisor * (next(seed) >> below(seed, 60)) + below(seed, 3) - 1;
    memcpy((char *)out + i * size, &bits, size);
  }
}

static void fill_hard(const struct call *call, int type, void *out, uint64_t *seed)
{
  uint64_t hard[REFERENCE_HARD];
  size_t size = tt_type_size(type), n = reference_hard(type, hard);
  for (size_t i = 0; i < call->count; i++)
    memcpy((char *)out + i * size, (const char *)hard + below(seed, n) * size, size);
}

static void fill_bits(const struct call *call, int type, void *out, uint64_t *seed)
{
  size_t len = call->count * tt_type_size(type);
  for (size_t i = 0; i < len; i += 8) {
    uint64_t bits = next(seed);
    memcpy((char *)out + i, &bits, len - i < 8 ? len - i : 8);
  }
}

static void fill(const struct call *call, int room, void *out)
{
  const int type = room == WIDE ? tuttiFloat32 : call->type;
  uint64_t seed = call->seed + 31 * (uint64_t)room;
  size_t size = tt_type_size(type);
  switch (below(&seed, 5)) {
  case 0: fill_hard(call, type, out, &seed); break;
  case 1: fill_near(call, type, out, &seed); break;
  case 2: fill_bits(call, type, out, &seed); break;
  case 3:
    if (type != call->type || !reference_is_float(type)) fill_borders(call, type, out, &seed);
    else fill_near(call, type, out, &seed);
    break;
  default:
    for (size_t i = 0; i < call->count; i++) reference_tame(type, (char *)out + i * size, &seed);
  }
}

/* The same memory three times: as it was, as it should be, as it is. */
struct arenas {
  size_t size;
  unsigned char *before, *wanted, *got;
};

static unsigned char *enlarge(unsigned char *old, size_t size)
{
  free(old);
  unsigned char *memory = aligned_alloc(64, size);
  if (memory) return memory;
  perror("memory for the buffers of a call");
  abort();
}

static void reserve(struct arenas *arenas, size_t size)
{
  if (size <= arenas->size) return;
  arenas->before = enlarge(arenas->before, size);
  arenas->wanted = enlarge(arenas->wanted, size);
  arenas->got = enlarge(arenas->got, size);
  arenas->size = size;
}

static const char *text_of(const struct call *call, const char *what)
{
  static char text[512];
  snprintf(text, sizeof text,
           "%s: %s: %s of %d %s, count %zu, dst at %zu, in place %d, also %d, wide %d, dst wide %d, scaled %d, "
           "scale %a, multiplier %llx, divisor %d, environment %d, streams %d, seed %#llx",
           tt_reduce_table()->name, what, tt_redop_name(call->redop), call->nsrc, tt_type_name(call->type),
           call->count, call->align, call->in_place, call->also, call->arg.wide, call->arg.dst_wide, call->arg.scaled,
           call->arg.scale, (unsigned long long)call->arg.multiplier, call->arg.divisor, call->strange, call->streams,
           (unsigned long long)call->seed);
  return text;
}

static int contains(const struct layout *layout, int room, size_t at)
{
  return room < ROOMS && at >= layout->at[room] && at - layout->at[room] < layout->len[room];
}

static const char *first_fault(const struct call *call, const struct layout *layout, const struct arenas *arenas)
{
  char what[200];
  const int dst = dst_room(call), also = also_room(call);
  size_t at = 0;
  while (arenas->got[at] == arenas->wanted[at]) at++;
  int room = contains(layout, dst, at) ? dst : contains(layout, also, at) ? also : NOWHERE;
  if (room == NOWHERE) {
    int k = 0;
    while (k < ROOMS && !contains(layout, k, at)) k++;
    return text_of(call, k < ROOMS ? "a source was written" : "bytes beside a buffer were written");
  }
  size_t size = element_of(call, room), i = (at - layout->at[room]) / size;
  uint64_t got = 0, wanted = 0;
  memcpy(&got, arenas->got + layout->at[room] + i * size, size);
  memcpy(&wanted, arenas->wanted + layout->at[room] + i * size, size);
  snprintf(what, sizeof what, "element %zu of %s is %llx, should be %llx", i, room == dst ? "dst" : "also",
           (unsigned long long)got, (unsigned long long)wanted);
  return text_of(call, what);
}

/* The sources as they lie in `memory`. */
static void bind(const struct call *call, const struct layout *layout, const unsigned char *memory,
                 const void **sources)
{
  for (int k = 0; k < call->nsrc; k++) sources[k] = memory + layout->at[room_of(call, k)];
}

/* 1 if the caller's environment was kept. */
static int carry_out(const struct call *call, void *dst, const void *const *sources, const struct tt_reduce_arg *arg)
{
  tt_reduce_fn kernel = tt_reduce_kernel(call->redop, call->type);
  size_t cache_len = atomic_load_explicit(&tt_process.cache_len, memory_order_relaxed);
  if (call->streams) atomic_store_explicit(&tt_process.cache_len, 1, memory_order_relaxed);
  strange_enter(call->strange);
  kernel(dst, sources, call->nsrc, call->count, arg);
  int kept = strange_leave(call->strange);
  atomic_store_explicit(&tt_process.cache_len, cache_len, memory_order_relaxed);
  return kept;
}

#define MOST_SOURCES 256

const char *call_fault(const struct call *call)
{
  static struct arenas arenas;
  const void *sources[MOST_SOURCES];
  struct layout layout;
  struct tt_reduce_arg arg = call->arg;
  const int also = also_room(call), dst = dst_room(call);
  place(call, &layout);
  reserve(&arenas, layout.total);
  memset(arenas.before, GUARD, layout.total);
  for (int r = 0; r <= WIDE; r++)
    if (layout.len[r]) fill(call, r, arenas.before + layout.at[r]);
  memcpy(arenas.wanted, arenas.before, layout.total);
  memcpy(arenas.got, arenas.before, layout.total);

  bind(call, &layout, arenas.before, sources);
  const struct reference judged = {call->redop, call->type, call->nsrc, sources, &arg};
  if (also != NOWHERE) arg.also = arenas.wanted + layout.at[also];
  tables_judge(&judged, arenas.wanted + layout.at[dst], call->count);

  bind(call, &layout, arenas.got, sources);
  if (also != NOWHERE) arg.also = arenas.got + layout.at[also];
  if (!carry_out(call, arenas.got + layout.at[dst], sources, &arg))
    return text_of(call, "the caller's floating-point environment was changed");
  if (memcmp(arenas.got, arenas.wanted, layout.total) == 0) return NULL;
  return first_fault(call, &layout, &arenas);
}

static size_t draw_count(size_t most, uint64_t *seed)
{
  static const size_t blocks[] = {256, 512, 1024, 2048, 4096};
  size_t count;
  switch (below(seed, 5)) {
  case 0: count = blocks[below(seed, 5)] + below(seed, 3) - 1; break;
  case 1: count = below(seed, 1300); break;
  default: count = below(seed, 200);
  }
  return count <= most ? count : below(seed, most + 1);
}

static void draw_places(struct call *call, uint64_t *seed)
{
  const size_t n = (size_t)call->nsrc;
  const int may_be_wide = call->type == tuttiFloat16 || call->type == tuttiBfloat16;
  call->arg.wide = may_be_wide ? (int)below(seed, n + 1) - 1 : -1;
  call->arg.dst_wide = may_be_wide && below(seed, 3) == 0;
  call->in_place = (int)below(seed, n + 1) - 1;
  call->also = (int)below(seed, n + 2) - 2;
}

struct call call_draw_of(int redop, int type, size_t most, uint64_t *seed)
{
  static const int numbers[] = {1, 2, 2, 3, 4, 5, 6, 8, 13, 16, 17, 200};
  int nsrc = numbers[below(seed, 12)];
  struct call call = call_plain(redop, type, nsrc, draw_count(nsrc == 200 && most > 200 ? 200 : most, seed));
  call.strange = next(seed) % 4 ? 0 : (int)below(seed, STRANGE);
  call.streams = next(seed) % 4 == 0;
  call.align = below(seed, 64);
  call.seed = next(seed);
  reference_arg(&call.arg, redop, type, (int)below(seed, (size_t)nsrc + 1) - 1, seed);
  do draw_places(&call, seed);
  while (!call_is_legal(&call));
  return call;
}

struct call call_draw(size_t most, uint64_t *seed)
{
  int redop, type;
  do {
    redop = (int)below(seed, TT_REDOPS);
    type = (int)below(seed, REFERENCE_TYPES);
  } while (tt_redop_lacks(redop, type));
  return call_draw_of(redop, type, most, seed);
}
