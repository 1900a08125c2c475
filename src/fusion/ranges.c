/* SPDX-License-Identifier: BSD-3-Clause */
/* The address ranges of sums and inputs. Two tensors whose buffers overlap would spoil each other, unless both are only
 * read. Known ranges of sums are sorted by address. They overlap neither each other nor known ranges of inputs that lie
 * elsewhere than their sums. A tensor that is pushed at its known address costs two comparisons. */
#include <string.h>

#include "fusion/private.h"

static struct range range_of(const struct tensor *tensor, const void *buff)
{
  return (struct range){(uintptr_t)buff, (uintptr_t)buff + tensor->bytes};
}

static int overlap(struct range a, struct range b)
{
  return a.begin < b.end && b.begin < a.end;
}

/* True if this is the tensor's known range already, or if the tensor has no elements. */
static int is_known(const struct range *known, struct range range)
{
  return range.begin == range.end || (known->end && known->begin == range.begin);
}

/* Returns the place of the first known sum that ends after the address. */
static int32_t place_of(const struct ranges *ranges, uintptr_t address)
{
  int32_t low = 0, high = ranges->nsums;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (ranges->sums[ranges->by_address[middle]].end > address) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Returns the place of the first known sum from `place` on that begins after the range. */
static int32_t place_behind(const struct ranges *ranges, int32_t place, struct range range)
{
  while (place < ranges->nsums && ranges->sums[ranges->by_address[place]].begin < range.end) place++;
  return place;
}

/* ---- checking ---- */

/* The tensor whose buffers are to be used. */
struct checking {
  const struct config *config;
  struct shared *shared;
  int index;
};

struct buff {
  const char *name;
  const void *at;
};

/* Succeeds if the other tensor was waited for, because its buffers are free then. */
static tuttiResult_t other_check(const struct checking *c, struct buff mine, int i, struct buff its)
{
  const struct tensor *tensor = &c->config->tensors[c->index], *other = &c->config->tensors[i];
  if (i == c->index || c->shared->gradients[i].pushed == c->shared->gradients[i].waited) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "%s %p of tensor %d (%s, %zu bytes) overlaps %s %p of tensor %d (%s, %zu "
                 "bytes), which was pushed and not waited for: give each tensor a buffer of its own", mine.name,
                 mine.at, c->index, tensor->name, tensor->bytes, its.name, its.at, i, other->name, other->bytes);
}

static tuttiResult_t sums_check(const struct checking *c, struct buff mine, struct range range)
{
  const struct ranges *ranges = &c->shared->ranges;
  int32_t place = place_of(ranges, range.begin), behind = place_behind(ranges, place, range);
  tuttiResult_t result = tuttiSuccess;
  for (; place < behind && result == tuttiSuccess; place++) {
    int i = ranges->by_address[place];
    result = other_check(c, mine, i, (struct buff){"recvbuff", c->shared->gradients[i].recv});
  }
  return result;
}

static void input_forget(struct ranges *ranges, int index)
{
  ranges->ninputs -= ranges->inputs[index].end != 0;
  ranges->inputs[index] = (struct range){0, 0};
}

/* Inputs of tensors that were waited for are forgotten: a sum comes there, or would have. */
static tuttiResult_t inputs_check(const struct checking *c, struct buff mine, struct range range)
{
  struct ranges *ranges = &c->shared->ranges;
  tuttiResult_t result = tuttiSuccess;
  for (int i = 0; ranges->ninputs && i < c->config->n && result == tuttiSuccess; i++) {
    const struct gradient *its = &c->shared->gradients[i];
    if (!overlap(ranges->inputs[i], range)) continue;
    result = other_check(c, mine, i, (struct buff){"sendbuff", its->send});
    if (its->pushed == its->waited) input_forget(ranges, i);
  }
  return result;
}

tuttiResult_t tt_fusion_range_check(const struct config *config, struct shared *shared, int index,
                                    const struct tt_pushed *pushed)
{
  const struct tensor *tensor = &config->tensors[index];
  const struct checking checking = {config, shared, index};
  struct range sum = range_of(tensor, pushed->recv), input = range_of(tensor, pushed->send);
  const struct buff send = {"sendbuff", pushed->send}, recv = {"recvbuff", pushed->recv};
  tuttiResult_t result = tuttiSuccess;
  if (!is_known(&shared->ranges.sums[index], sum)) {
    result = sums_check(&checking, recv, sum);
    if (result == tuttiSuccess) result = inputs_check(&checking, recv, sum);
  }
  if (result == tuttiSuccess && pushed->send != pushed->recv && !is_known(&shared->ranges.inputs[index], input))
    result = sums_check(&checking, send, input);
  return result;
}

/* ---- taking: tensors in the way of a range were waited for ---- */

/* Replaces `gone` places from `place` on by `come` new ones. */
static void places_move(struct ranges *ranges, int32_t place, int32_t gone, int32_t come)
{
  int32_t *from = ranges->by_address + place;
  for (int32_t k = 0; k < gone; k++) ranges->sums[from[k]].end = 0;
  memmove(from + come, from + gone, (size_t)(ranges->nsums - place - gone) * sizeof *from);
  ranges->nsums += come - gone;
}

static void sum_take(struct ranges *ranges, int index, struct range range)
{
  if (ranges->sums[index].end) places_move(ranges, place_of(ranges, ranges->sums[index].begin), 1, 0);
  int32_t place = place_of(ranges, range.begin), behind = place_behind(ranges, place, range);
  places_move(ranges, place, behind - place, 1);
  ranges->sums[index] = range;
  ranges->by_address[place] = index;
}

static void input_take(struct ranges *ranges, int index, struct range range)
{
  int32_t place = place_of(ranges, range.begin), behind = place_behind(ranges, place, range);
  places_move(ranges, place, behind - place, 0);
  input_forget(ranges, index);
  ranges->inputs[index] = range;
  ranges->ninputs++;
}

void tt_fusion_range_take(const struct config *config, struct shared *shared, int index,
                          const struct tt_pushed *pushed)
{
  const struct tensor *tensor = &config->tensors[index];
  struct ranges *ranges = &shared->ranges;
  struct range sum = range_of(tensor, pushed->recv), input = range_of(tensor, pushed->send);
  if (!is_known(&ranges->sums[index], sum)) sum_take(ranges, index, sum);
  if (pushed->send == pushed->recv) input_forget(ranges, index);
  else if (!is_known(&ranges->inputs[index], input)) input_take(ranges, index, input);
}
