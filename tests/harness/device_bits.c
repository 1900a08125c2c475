/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "reduce_reference.h"

const char *bits_of_calls(const struct on_device *on, int rounds, uint64_t seed)
{
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type <= tuttiFloat8e5m2; type++)
      for (int round = 0; round < rounds; round++) {
        if (redop > tuttiAvg && redop != TT_PREMUL_SUM) continue; /* of host memory alone, as the types behind */
        struct call call = call_draw_of(redop, type, 300, &seed);
        call.strange = 0; /* the caller's environment is not the device's */
        const char *fault = on_device_fault(on, &call);
        if (fault) return fault;
      }
  return NULL;
}

const char *bits_of_places(const struct on_device *on)
{
  static const int types[] = {tuttiInt8, tuttiFloat16, tuttiFloat32, tuttiFloat64};
  for (size_t k = 0; k < 4 * 17; k++)
    for (size_t count = 0; count < 70; count += count < 20 ? 1 : 7) {
      struct call call = call_plain(tuttiSum, types[k % 4], 2, count);
      call.align = k / 4;
      call.seed = k / 4 * 100 + count;
      const char *fault = on_device_fault(on, &call);
      if (fault) return fault;
    }
  return NULL;
}

const char *bits_of_many_sources(const struct on_device *on)
{
  static const int numbers[] = {63, 64, 65, 200};
  for (size_t n = 0; n < 4; n++) {
    struct call call = call_plain(tuttiSum, tuttiBfloat16, numbers[n], 300);
    call.seed = n + 1;
    const char *fault = on_device_fault(on, &call);
    if (fault) return fault;
  }
  return NULL;
}

/* ---- all values ---- */

#define ALL 65536

struct values {
  const struct tt_device *device;
  char *dst, *sources[2]; /* of the device, ALL elements of 8 bytes each */
  uint64_t got[ALL], wanted[ALL], host[2][ALL];
};

static void values_free(struct values *values)
{
  if (!values) return;
  values->device->free(values->device, values->dst);
  for (int k = 0; k < 2; k++) values->device->free(values->device, values->sources[k]);
  free(values);
}

static struct values *values_make(const struct tt_device *device)
{
  struct values *values = calloc(1, sizeof *values);
  if (!values) return NULL;
  values->device = device;
  values->dst = device->alloc(device, ALL * 8);
  for (int k = 0; k < 2; k++) values->sources[k] = device->alloc(device, ALL * 8);
  if (values->dst && values->sources[0] && values->sources[1]) return values;
  values_free(values);
  return NULL;
}

static size_t size_of_source(const struct tt_reduction *what, int k)
{
  return what->arg->wide == k ? sizeof(float) : tt_type_size(what->type);
}

/* The first elements of values->host, all in device memory. */
static const char *compare(struct values *values, int redop, int type, int nsrc, size_t count,
                           const struct tt_reduce_arg *arg)
{
  static char text[256];
  const struct tt_device *device = values->device;
  const void *host[] = {values->host[0], values->host[1]};
  const struct tt_reduction what = {redop, type, values->dst, (const void *const *)values->sources, nsrc, count, arg,
                                    NULL};
  const size_t size = arg->dst_wide ? sizeof(float) : tt_type_size(type), len = count * size;
  int ok = 1, last = 0;
  tt_ticket ticket;
  for (int k = 0; k < nsrc; k++)
    ok = ok && on_device_move(device, values->sources[k], host[k], count * size_of_source(&what, k));
  ok = ok && device->reduce(device, &what, &ticket) == tuttiSuccess && on_device_wait(device, ticket) == tuttiSuccess;
  if (!ok || !on_device_move(device, values->got, values->dst, len)) return tt_last_sentence();
  while (tt_reduce_tables[last + 1]) last++;
  tt_reduce_tables[last]->kernels[redop][type](values->wanted, host, nsrc, count, arg);
  if (memcmp(values->got, values->wanted, len) == 0) return NULL;
  size_t i = 0;
  while (memcmp((char *)values->got + i * size, (char *)values->wanted + i * size, size) == 0) i++;
  uint64_t got = 0, wanted = 0;
  memcpy(&got, (char *)values->got + i * size, size);
  memcpy(&wanted, (char *)values->wanted + i * size, size);
  snprintf(text, sizeof text, "%s of %d %s, scale %a, element %zu: %#llx, the plain table gives %#llx",
           tt_redop_name(redop), nsrc, tt_type_name(type), arg->scale, i, (unsigned long long)got,
           (unsigned long long)wanted);
  return text;
}

static const char *all_values_of(struct values *values, int type)
{
  static const double scales[] = {1, 0.3330078125, 1.5, 5.9604644775390625e-8, 65504, -1e-30};
  size_t size = tt_type_size(type), n = size == 2 ? ALL : 256;
  const char *fault = NULL;
  for (size_t i = 0; i < n; i++) memcpy((char *)values->host[0] + i * size, &i, size);
  for (int s = 0; s < (size == 2 ? 12 : 6) && !fault; s++) {
    struct tt_reduce_arg arg = tt_reduce_plainly;
    arg.scaled = 0;
    arg.scale = (float)scales[s % 6];
    arg.dst_wide = s >= 6;
    fault = compare(values, TT_PREMUL_SUM, type, 1, n, &arg);
  }
  return fault;
}

const char *bits_of_all_values(const struct tt_device *device)
{
  static const int types[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};
  struct values *values = values_make(device);
  const char *fault = values ? NULL : "no memory";
  for (int t = 0; t < 4 && !fault; t++) fault = all_values_of(values, types[t]);
  values_free(values);
  return fault;
}

/* Every one of n elements with every other. */
static const char *all_pairs_of(struct values *values, int type, const void *elements, size_t n)
{
  const size_t size = tt_type_size(type);
  const char *fault = NULL;
  for (size_t i = 0; i < n * n; i++) {
    memcpy((char *)values->host[0] + i * size, (const char *)elements + i / n * size, size);
    memcpy((char *)values->host[1] + i * size, (const char *)elements + i % n * size, size);
  }
  for (int redop = tuttiSum; redop <= tuttiMin && !fault; redop++)
    fault = compare(values, redop, type, 2, n * n, &tt_reduce_plainly);
  return fault;
}

const char *bits_of_all_pairs(const struct tt_device *device)
{
  struct values *values = values_make(device);
  const char *fault = values ? NULL : "no memory";
  uint64_t hard[REFERENCE_HARD];
  uint8_t bytes[256];
  for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
  for (int type = 0; type <= tuttiFloat8e5m2 && !fault; type++) {
    if (tt_type_size(type) == 1) fault = all_pairs_of(values, type, bytes, 256);
    else fault = all_pairs_of(values, type, hard, reference_hard(type, hard));
  }
  values_free(values);
  return fault;
}

static void draw_wide(struct values *values, int type, uint64_t *seed)
{
  for (size_t i = 0; i < ALL; i++) {
    uint32_t bits = (uint32_t)(i % 4 ? reference_border(type, seed) : next(seed));
    memcpy((char *)values->host[0] + i * sizeof bits, &bits, sizeof bits);
  }
}

const char *bits_of_rounding(const struct tt_device *device, int rounds)
{
  struct values *values = values_make(device);
  const char *fault = values ? NULL : "no memory";
  uint64_t seed = 5;
  for (int round = 0; round < 2 * rounds && !fault; round++) {
    const int type = round % 2 ? tuttiBfloat16 : tuttiFloat16;
    struct tt_reduce_arg arg = tt_reduce_plainly;
    arg.wide = 0;
    draw_wide(values, type, &seed);
    fault = compare(values, tuttiSum, type, 1, ALL, &arg);
  }
  values_free(values);
  return fault;
}
