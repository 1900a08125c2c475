/* SPDX-License-Identifier: BSD-3-Clause */
/* Where sums are written: two tensors whose buffers overlap would spoil each other. Ranges that are known are sorted by
 * address and do not overlap; a tensor that comes where it was known to be costs one comparison. */
#include <string.h>

#include "fuser/private.h"

static struct range range_of(const struct tensor *tensor, const void *recv)
{
  return (struct range){(uintptr_t)recv, (uintptr_t)recv + tensor->bytes};
}

static int is_known(const struct tuttiFusion *fuser, int index, struct range range)
{
  return range.begin == range.end || (fuser->ranges[index].end && fuser->ranges[index].begin == range.begin);
}

/* Place of the first known range that ends behind the address. */
static int32_t place_of(const struct tuttiFusion *fuser, uintptr_t address)
{
  int32_t low = 0, high = fuser->nranges;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (fuser->ranges[fuser->by_address[middle]].end > address) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Place of the first known range from `place` on that begins behind the range. */
static int32_t place_behind(const struct tuttiFusion *fuser, int32_t place, struct range range)
{
  while (place < fuser->nranges && fuser->ranges[fuser->by_address[place]].begin < range.end) place++;
  return place;
}

tuttiResult_t tt_fuser_range_check(const struct tuttiFusion *fuser, int index, const void *recv)
{
  const struct tensor *tensor = &fuser->tensors[index];
  struct range range = range_of(tensor, recv);
  if (is_known(fuser, index, range)) return tuttiSuccess;
  int32_t place = place_of(fuser, range.begin), behind = place_behind(fuser, place, range);
  for (; place < behind; place++) {
    int i = fuser->by_address[place];
    const struct tensor *other = &fuser->tensors[i];
    if (i == index || other->pushed == other->waited) continue;
    return tt_fail(tuttiInvalidArgument, "recvbuff %p of tensor %d (%s, %zu bytes) overlaps recvbuff %p of tensor %d "
                   "(%s, %zu bytes), which was pushed and not waited for: give each tensor a buffer of its own", recv,
                   index, tensor->name, tensor->bytes, other->recv, i, other->name, other->bytes);
  }
  return tuttiSuccess;
}

/* `gone` places from `place` on become `come` ones. */
static void places_move(struct tuttiFusion *fuser, int32_t place, int32_t gone, int32_t come)
{
  int32_t *from = fuser->by_address + place;
  for (int32_t k = 0; k < gone; k++) fuser->ranges[from[k]].end = 0;
  memmove(from + come, from + gone, (size_t)(fuser->nranges - place - gone) * sizeof *from);
  fuser->nranges += come - gone;
}

void tt_fuser_range_take(struct tuttiFusion *fuser, int index, const void *recv)
{
  struct range range = range_of(&fuser->tensors[index], recv);
  if (is_known(fuser, index, range)) return;
  if (fuser->ranges[index].end) places_move(fuser, place_of(fuser, fuser->ranges[index].begin), 1, 0);
  int32_t place = place_of(fuser, range.begin), behind = place_behind(fuser, place, range);
  places_move(fuser, place, behind - place, 1); /* those lay there in steps before */
  fuser->ranges[index] = range;
  fuser->by_address[place] = index;
}
