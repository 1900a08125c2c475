/* SPDX-License-Identifier: BSD-3-Clause */
/* Where sums are written, and what is read: two tensors whose buffers overlap would spoil each other, unless both are
 * only read. Ranges of sums that are known are sorted by address and overlap neither each other nor known ranges of
 * contributions that lie elsewhere than their sums; a tensor that comes where it was known to be costs two
 * comparisons. */
#include <string.h>

#include "fuser/private.h"

static struct range range_of(const struct tensor *tensor, const void *buff)
{
  return (struct range){(uintptr_t)buff, (uintptr_t)buff + tensor->bytes};
}

static int overlap(struct range a, struct range b)
{
  return a.begin < b.end && b.begin < a.end;
}

/* Whether the tensor's is that one already, or it has no elements. */
static int is_known(const struct range *known, struct range range)
{
  return range.begin == range.end || (known->end && known->begin == range.begin);
}

/* Place of the first known sum that ends behind the address. */
static int32_t place_of(const struct tuttiFusion *fuser, uintptr_t address)
{
  int32_t low = 0, high = fuser->nsums;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (fuser->sums[fuser->by_address[middle]].end > address) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Place of the first known sum from `place` on that begins behind the range. */
static int32_t place_behind(const struct tuttiFusion *fuser, int32_t place, struct range range)
{
  while (place < fuser->nsums && fuser->sums[fuser->by_address[place]].begin < range.end) place++;
  return place;
}

/* ---- checking ---- */

struct buff {
  const char *name;
  const void *at;
};

/* Success if the other tensor was waited for: then its buffers are free. */
static tuttiResult_t other_check(const struct tuttiFusion *fuser, int index, struct buff mine, int i, struct buff its)
{
  const struct tensor *tensor = &fuser->tensors[index], *other = &fuser->tensors[i];
  if (i == index || other->pushed == other->waited) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "%s %p of tensor %d (%s, %zu bytes) overlaps %s %p of tensor %d (%s, %zu "
                 "bytes), which was pushed and not waited for: give each tensor a buffer of its own", mine.name,
                 mine.at, index, tensor->name, tensor->bytes, its.name, its.at, i, other->name, other->bytes);
}

static tuttiResult_t sums_check(const struct tuttiFusion *fuser, int index, struct buff mine, struct range range)
{
  int32_t place = place_of(fuser, range.begin), behind = place_behind(fuser, place, range);
  tuttiResult_t result = tuttiSuccess;
  for (; place < behind && result == tuttiSuccess; place++) {
    int i = fuser->by_address[place];
    result = other_check(fuser, index, mine, i, (struct buff){"recvbuff", fuser->tensors[i].recv});
  }
  return result;
}

static void gift_forget(struct tuttiFusion *fuser, int index)
{
  fuser->ngifts -= fuser->gifts[index].end != 0;
  fuser->gifts[index] = (struct range){0, 0};
}

/* Those that were waited for are not known any more: a sum comes there, or would have. */
static tuttiResult_t gifts_check(struct tuttiFusion *fuser, int index, struct buff mine, struct range range)
{
  tuttiResult_t result = tuttiSuccess;
  for (int i = 0; fuser->ngifts && i < fuser->n && result == tuttiSuccess; i++) {
    if (!overlap(fuser->gifts[i], range)) continue;
    result = other_check(fuser, index, mine, i, (struct buff){"sendbuff", fuser->tensors[i].send});
    if (fuser->tensors[i].pushed == fuser->tensors[i].waited) gift_forget(fuser, i);
  }
  return result;
}

tuttiResult_t tt_fuser_range_check(struct tuttiFusion *fuser, int index, const struct tt_pushed *pushed)
{
  const struct tensor *tensor = &fuser->tensors[index];
  struct range sum = range_of(tensor, pushed->recv), gift = range_of(tensor, pushed->send);
  const struct buff send = {"sendbuff", pushed->send}, recv = {"recvbuff", pushed->recv};
  tuttiResult_t result = tuttiSuccess;
  if (!is_known(&fuser->sums[index], sum)) {
    result = sums_check(fuser, index, recv, sum);
    if (result == tuttiSuccess) result = gifts_check(fuser, index, recv, sum);
  }
  if (result == tuttiSuccess && pushed->send != pushed->recv && !is_known(&fuser->gifts[index], gift))
    result = sums_check(fuser, index, send, gift);
  return result;
}

/* ---- taking: what is in the way was waited for ---- */

/* `gone` places from `place` on become `come` ones. */
static void places_move(struct tuttiFusion *fuser, int32_t place, int32_t gone, int32_t come)
{
  int32_t *from = fuser->by_address + place;
  for (int32_t k = 0; k < gone; k++) fuser->sums[from[k]].end = 0;
  memmove(from + come, from + gone, (size_t)(fuser->nsums - place - gone) * sizeof *from);
  fuser->nsums += come - gone;
}

static void sum_take(struct tuttiFusion *fuser, int index, struct range range)
{
  if (fuser->sums[index].end) places_move(fuser, place_of(fuser, fuser->sums[index].begin), 1, 0);
  int32_t place = place_of(fuser, range.begin), behind = place_behind(fuser, place, range);
  places_move(fuser, place, behind - place, 1);
  fuser->sums[index] = range;
  fuser->by_address[place] = index;
}

static void gift_take(struct tuttiFusion *fuser, int index, struct range range)
{
  int32_t place = place_of(fuser, range.begin), behind = place_behind(fuser, place, range);
  places_move(fuser, place, behind - place, 0);
  gift_forget(fuser, index);
  fuser->gifts[index] = range;
  fuser->ngifts++;
}

void tt_fuser_range_take(struct tuttiFusion *fuser, int index, const struct tt_pushed *pushed)
{
  const struct tensor *tensor = &fuser->tensors[index];
  struct range sum = range_of(tensor, pushed->recv), gift = range_of(tensor, pushed->send);
  if (!is_known(&fuser->sums[index], sum)) sum_take(fuser, index, sum);
  if (pushed->send == pushed->recv) gift_forget(fuser, index);
  else if (!is_known(&fuser->gifts[index], gift)) gift_take(fuser, index, gift);
}
