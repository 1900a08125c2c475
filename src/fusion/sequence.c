/* SPDX-License-Identifier: BSD-3-Clause */
#include "fusion/sequence_private.h"

#include <stdlib.h>
#include <string.h>

enum { BEGUN, HELD_UP, READY }; /* words of a part: messages of the sequence; 0 or 1; from here on bits of groups */

static int bit(const uint64_t *bits, int32_t i)
{
  return (int)(bits[i / 64] >> (i % 64) & 1);
}

static void bit_set(uint64_t *bits, int32_t i)
{
  bits[i / 64] |= (uint64_t)1 << (i % 64);
}

/* ---- making ---- */

/* Messages group by group: where each group's begin is counted first. */
static void urgency_sort(const struct tt_sequence_plan *plan, int32_t *by_urgency, int32_t *at)
{
  memset(at, 0, (size_t)plan->ngroups * sizeof *at);
  for (int32_t m = 0; m < plan->nmessages; m++) at[plan->groups[m]]++;
  for (int32_t g = 0, before = 0, n; g < plan->ngroups; g++, before += n) {
    n = at[g];
    at[g] = before;
  }
  for (int32_t m = 0; m < plan->nmessages; m++) by_urgency[at[plan->groups[m]]++] = m;
}

tuttiResult_t tt_sequence_make(struct tt_sequence *order, const struct tt_sequence_plan *plan)
{
  size_t n = (size_t)plan->nmessages, ngroups = (size_t)plan->ngroups;
  *order = (struct tt_sequence){.plan = *plan, .nwords = (ngroups + 63) / 64};
  order->sequence = tt_alloc(n, sizeof *order->sequence);
  order->by_urgency = tt_alloc(n, sizeof *order->by_urgency);
  order->is_left = tt_alloc(n, sizeof *order->is_left);
  order->left = tt_alloc(ngroups, sizeof *order->left);
  order->left_bytes = tt_alloc(ngroups, sizeof *order->left_bytes);
  order->ready = tt_alloc(4 * order->nwords, sizeof *order->ready);
  if (!order->sequence || !order->by_urgency || !order->is_left || !order->left || !order->left_bytes ||
      !order->ready) {
    tt_sequence_destroy(order);
    *order = (struct tt_sequence){.nsure = 0};
    return tt_fail(tuttiSystemError, "out of memory for the order of %d messages", (int)plan->nmessages);
  }
  order->told = order->ready + order->nwords;
  order->open = order->told + order->nwords;
  order->quiet = order->open + order->nwords;
  urgency_sort(plan, order->by_urgency, order->left);
  return tuttiSuccess;
}

void tt_sequence_destroy(struct tt_sequence *order)
{
  tt_free(order->sequence);
  tt_free(order->by_urgency);
  tt_free(order->is_left);
  tt_free(order->left);
  tt_free(order->left_bytes);
  tt_free(order->ready);
}

/* Finds the channels that take the next messages. */
static void channels_deal(struct tt_sequence *order)
{
  int n = order->plan.nchannels;
  order->nguessed = 0;
  for (int c = 0; c < n; c++)
    if (!order->channels[c].is_parked) order->guessed[order->nguessed++] = (int8_t)c;
  memcpy(order->sure, order->guessed, sizeof order->guessed);
  order->nsure = order->nguessed;
  if (order->nguessed < n) order->sure[order->nsure++] = (int8_t)n;
}

void tt_sequence_start(struct tt_sequence *order, uint64_t step)
{
  const struct tt_sequence_plan *plan = &order->plan;
  order->step = step;
  order->base = order->agreed = order->next = 0;
  order->is_frozen = order->is_troubled = order->has_paid = 0;
  memset(order->ready, 0, 4 * order->nwords * sizeof *order->ready);
  memset(order->left, 0, (size_t)plan->ngroups * sizeof *order->left);
  memset(order->left_bytes, 0, (size_t)plan->ngroups * sizeof *order->left_bytes);
  for (int32_t m = 0; m < plan->nmessages; m++) {
    order->sequence[m] = m;
    order->is_left[m] = 1;
    order->left[plan->groups[m]]++;
    order->left_bytes[plan->groups[m]] += plan->bytes[m];
    bit_set(order->open, plan->groups[m]);
  }
  for (int c = 0; c <= plan->nchannels; c++) order->channels[c] = (struct tt_sequence_channel){-1, -1, -1, 0};
  channels_deal(order);
}

/* ---- messages ---- */

static int32_t group_of(const struct tt_sequence *order, int32_t message)
{
  return order->plan.groups[message];
}

static int is_ready(const struct tt_sequence *order, int32_t message)
{
  return bit(order->ready, group_of(order, message));
}

/* -1: none, before another round. */
static int channel_of(const struct tt_sequence *order, int32_t position)
{
  if (position < order->agreed) return order->sure[(position - order->base) % order->nsure];
  return order->nguessed ? order->guessed[(position - order->agreed) % order->nguessed] : -1;
}

void tt_sequence_push(struct tt_sequence *order, int32_t group, int waits)
{
  bit_set(order->ready, group);
  if (waits) bit_set(order->quiet, group);
}

static int owed_next(const struct tt_sequence *order, struct tt_sequence_begin *begin)
{
  for (int c = 0; c <= order->plan.nchannels; c++) {
    const struct tt_sequence_channel *channel = &order->channels[c];
    if (channel->owed < 0 || channel->under_way >= 0 || !is_ready(order, channel->owed)) continue;
    *begin = (struct tt_sequence_begin){channel->owed, c, 1, !channel->is_parked};
    return 1;
  }
  return 0;
}

int tt_sequence_next(const struct tt_sequence *order, struct tt_sequence_begin *begin)
{
  if (order->base && owed_next(order, begin)) return 1;
  if (order->is_frozen || order->next == order->plan.nmessages) return 0;
  int32_t message = order->sequence[order->next];
  int c = channel_of(order, order->next);
  if (c < 0 || order->channels[c].under_way >= 0 || order->channels[c].owed >= 0 || !is_ready(order, message)) return 0;
  if (order->is_troubled && !bit(order->told, group_of(order, message))) return 0;
  *begin = (struct tt_sequence_begin){message, c, 0, order->next < order->agreed};
  return 1;
}

/* Some rank has begun it. */
static void leave(struct tt_sequence *order, int32_t message)
{
  int32_t group = group_of(order, message);
  order->is_left[message] = 0;
  order->left_bytes[group] -= order->plan.bytes[message];
  if (--order->left[group] == 0) order->open[group / 64] &= ~((uint64_t)1 << (group % 64));
}

void tt_sequence_begin(struct tt_sequence *order, const struct tt_sequence_begin *begin)
{
  struct tt_sequence_channel *channel = &order->channels[begin->channel];
  channel->under_way = begin->message;
  if (begin->is_owed) {
    channel->owed = -1;
    order->has_paid = 1;
    return;
  }
  leave(order, begin->message);
  order->next++;
}

void tt_sequence_end(struct tt_sequence *order, int channel)
{
  order->channels[channel].under_way = -1;
  memset(order->quiet, 0, order->nwords * sizeof *order->quiet);
}

/* ---- rounds ---- */

static int is_held_up(const struct tt_sequence *order)
{
  return channel_of(order, order->next) < 0 || !is_ready(order, order->sequence[order->next]);
}

/* The most urgent group that is ready here, has messages left, and is not among these, or those (NULL: none); -1: none
 * is. */
static int32_t ready_first(const struct tt_sequence *order, const uint64_t *but, const uint64_t *nor)
{
  for (size_t w = 0; w < order->nwords; w++) {
    uint64_t bits = order->ready[w] & order->open[w] & ~((but ? but[w] : 0) | (nor ? nor[w] : 0));
    if (bits) return (int32_t)w * 64 + __builtin_ctzll(bits);
  }
  return -1;
}

int tt_sequence_has_ready(const struct tt_sequence *order)
{
  return ready_first(order, NULL, NULL) >= 0;
}

int tt_sequence_asks(const struct tt_sequence *order)
{
  if (order->is_frozen || order->next == order->plan.nmessages) return 0;
  if (order->is_troubled) return order->has_paid || ready_first(order, order->told, NULL) >= 0;
  if (is_held_up(order)) return ready_first(order, NULL, NULL) >= 0;
  if (!order->plan.by_priority) return 0;
  int32_t news = ready_first(order, order->told, order->quiet), next = group_of(order, order->sequence[order->next]);
  return news >= 0 && news < next && order->left_bytes[next] >= order->worth_bytes;
}

void tt_sequence_tell(struct tt_sequence *order, uint64_t *part)
{
  part[BEGUN] = (uint64_t)order->next;
  part[HELD_UP] = order->next < order->plan.nmessages && is_held_up(order) &&
                  ready_first(order, NULL, NULL) >= 0;
  memcpy(part + READY, order->ready, order->nwords * sizeof *part);
  memcpy(order->told, order->ready, order->nwords * sizeof *part);
  order->is_frozen = 1;
  order->has_paid = 0;
}

void tt_sequence_add(uint64_t *part, const uint64_t *other, size_t nwords)
{
  if (other[BEGUN] > part[BEGUN]) part[BEGUN] = other[BEGUN];
  part[HELD_UP] |= other[HELD_UP];
  for (size_t w = READY; w < nwords; w++) part[w] &= other[w];
}

/* Takes over messages that were begun up to `end`, here or elsewhere. */
static void begun_take(struct tt_sequence *order, int32_t end)
{
  for (int32_t p = order->base; p < end; p++) {
    int32_t message = order->sequence[p];
    struct tt_sequence_channel *channel = &order->channels[channel_of(order, p)];
    channel->last = message;
    if (p < order->next) continue;
    channel->owed = message;
    leave(order, message);
  }
  order->base = order->next = end;
}

/* Sorts the rest: first the messages that are ready everywhere. */
static void rest_sort(struct tt_sequence *order, const uint64_t *ready)
{
  int32_t at = order->base, n = order->plan.nmessages;
  for (int32_t k = 0; k < n; k++) {
    int32_t message = order->by_urgency[k];
    if (order->is_left[message] && bit(ready, group_of(order, message))) order->sequence[at++] = message;
  }
  order->agreed = at;
  for (int32_t message = 0; message < n; message++)
    if (order->is_left[message] && !bit(ready, group_of(order, message))) order->sequence[at++] = message;
}

/* 1: ranks can have begun the messages up to `end`. No rank begins a message of a channel before this rank has begun
 * the one before it. */
static int can_be_begun(const struct tt_sequence *order, uint64_t end)
{
  unsigned owes = 0; /* bits of channels */
  if (end < (uint64_t)order->next || end > (uint64_t)order->plan.nmessages) return 0;
  for (int c = 0; c <= order->plan.nchannels; c++) owes |= (unsigned)(order->channels[c].owed >= 0) << c;
  for (int32_t p = order->next; p < (int32_t)end; p++) {
    int c = channel_of(order, p);
    if (c < 0 || owes >> c & 1) return 0;
    owes |= 1u << c;
  }
  return 1;
}

tuttiResult_t tt_sequence_decide(struct tt_sequence *order, const uint64_t *result)
{
  const uint64_t *ready = result + READY;
  if (!can_be_begun(order, result[BEGUN]))
    return tt_fail(tuttiInternalError, "a round says that %llu of %d messages were begun, of which this rank has begun "
                   "%d: ranks do not have the same plan", (unsigned long long)result[BEGUN],
                   (int)order->plan.nmessages, (int)order->next);
  begun_take(order, (int32_t)result[BEGUN]);
  order->is_troubled = result[HELD_UP] != 0;
  for (int c = 0; c <= order->plan.nchannels; c++) {
    struct tt_sequence_channel *channel = &order->channels[c];
    channel->is_parked = channel->last >= 0 && !bit(ready, group_of(order, channel->last));
    order->is_troubled |= channel->is_parked;
  }
  rest_sort(order, ready);
  channels_deal(order);
  order->is_frozen = 0;
  return tuttiSuccess;
}
