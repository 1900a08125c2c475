/* SPDX-License-Identifier: BSD-3-Clause */
#include "on_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"

#define BESIDE 64 /* bytes of guard before and after each buffer */
#define GUARD 0x3c
#define BUFFERS (256 + 2)

/* A buffer of the call and where the device has it. */
struct twin {
  void *host;
  size_t len;
  char *room;   /* of the device; NULL: it stays where it is */
  char *device; /* in room, at the same place behind a multiple of 64 */
};

/* What is being carried out: the tables' functions have no room for it. */
static struct {
  struct on_device on;
  const struct call *call;
  struct tt_reduce_table table;
  struct twin twins[BUFFERS];
  int nduplicates;
  char trouble[256];
} run;

tuttiResult_t on_device_wait(const struct tt_device *device, tt_ticket ticket)
{
  tuttiResult_t result;
  if (!ticket) return tuttiSuccess;
  do result = device->poll(device, ticket);
  while (result == tuttiInProgress);
  return result;
}

int on_device_move(const struct tt_device *device, void *dst, const void *src, size_t len)
{
  tt_ticket ticket;
  tuttiResult_t result = device->copy(device, dst, src, len, &ticket);
  return result == tuttiSuccess && on_device_wait(device, ticket) == tuttiSuccess;
}

static void complain(const char *what)
{
  if (!run.trouble[0]) snprintf(run.trouble, sizeof run.trouble, "%s: %.200s", what, tt_last_sentence());
}

/* Both guards and what is between, as the device has them, to and from the host. */
static void room_move(const struct twin *twin, char *image, int to_device)
{
  char *at = twin->device - BESIDE;
  size_t len = twin->len + 2 * BESIDE;
  if (!on_device_move(run.on.device, to_device ? at : image, to_device ? image : at, len)) complain("copy");
}

static void *duplicate_of(const void *host, size_t len, int stays)
{
  for (int t = 0; t < run.nduplicates; t++)
    if (run.twins[t].host == host) return run.twins[t].device;
  struct twin *twin = &run.twins[run.nduplicates++];
  *twin = (struct twin){.host = (void *)(uintptr_t)host, .len = len, .device = (void *)(uintptr_t)host};
  if (stays) return twin->device;
  twin->room = run.on.device->alloc(run.on.device, len + 2 * BESIDE + 64);
  if (!twin->room) {
    complain("alloc");
    return twin->device;
  }
  twin->device = twin->room + BESIDE + (uintptr_t)host % 64;
  char *image = malloc(len + 2 * BESIDE);
  memset(image, GUARD, len + 2 * BESIDE);
  memcpy(image + BESIDE, host, len);
  room_move(twin, image, 1);
  free(image);
  return twin->device;
}

/* Brings results back, and sources too: they must not have changed. */
static void twins_return(void)
{
  for (int t = 0; t < run.nduplicates; t++) {
    struct twin *twin = &run.twins[t];
    if (!twin->room) continue;
    char *image = malloc(twin->len + 2 * BESIDE);
    room_move(twin, image, 0);
    for (size_t i = 0; i < BESIDE; i++)
      if (image[i] != GUARD || image[BESIDE + twin->len + i] != GUARD) complain("bytes beside a buffer were written");
    memcpy(twin->host, image + BESIDE, twin->len);
    free(image);
    run.on.device->free(run.on.device, twin->room);
  }
}

static int all_finite(const void *dst, size_t count, int type)
{
  int last = 0;
  while (tt_reduce_tables[last + 1]) last++;
  return tt_reduce_tables[last]->finite[type](dst, count);
}

static int stays(uint64_t *seed)
{
  return run.on.may_stay && below(seed, 4) == 0;
}

/* As a kernel of a table. */
static void carry_out(void *dst, const void *const *sources, int nsrc, size_t count, const struct tt_reduce_arg *given)
{
  const struct call *call = run.call;
  const size_t size = tt_type_size(call->type), dst_size = given->dst_wide ? sizeof(float) : size;
  const void *theirs[BUFFERS];
  struct tt_reduce_arg arg = *given;
  uint64_t seed = call->seed;
  int overflow = 0;
  tt_ticket ticket;
  run.nduplicates = 0;
  struct tt_reduction what = {call->redop, call->type, NULL, theirs, nsrc, count, &arg, NULL};
  int dst_stays = dst != sources[0] && stays(&seed); /* then the first source does not */
  what.dst = duplicate_of(dst, count * dst_size, dst_stays);
  for (int k = 0; k < nsrc; k++)
    theirs[k] = duplicate_of(sources[k], count * (k == arg.wide ? sizeof(float) : size), k > 0 && stays(&seed));
  if (arg.also) arg.also = duplicate_of(arg.also, count * size, stays(&seed));
  if (call->streams) what.overflow = &overflow;
  tuttiResult_t result = run.on.device->reduce(run.on.device, &what, &ticket);
  if (result == tuttiSuccess) result = on_device_wait(run.on.device, ticket);
  if (result != tuttiSuccess) complain("reduce");
  twins_return();
  if (call->streams && overflow == all_finite(dst, count, given->dst_wide ? tuttiFloat32 : call->type))
    complain("the overflow report is wrong");
}

const char *on_device_fault(const struct on_device *on, const struct call *call)
{
  static char text[1024];
  const struct tt_reduce_table *before = tt_reduce_table();
  run.on = *on;
  run.call = call;
  run.trouble[0] = 0;
  run.table = *before;
  run.table.name = on->device->name;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < tuttiNumTypes; type++) run.table.kernels[redop][type] = carry_out;
  atomic_store(&tt_process.kernels, &run.table);
  const char *fault = call_fault(call);
  atomic_store(&tt_process.kernels, before);
  if (!run.trouble[0]) return fault;
  snprintf(text, sizeof text, "%s; %s", run.trouble, fault ? fault : "the result is right");
  return text;
}
