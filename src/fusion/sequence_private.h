/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of the next message: the most urgent one that is ready on all ranks, agreed at run time and without a
 * coordinator.
 *
 * All ranks hold one *sequence* of a step's messages, at first the plan's order. Each rank begins messages in that
 * order, each when its group is ready here. A begun message whose group is not ready elsewhere waits in its channel for
 * the others. So as long as the order fits nothing is exchanged, and a rank that is early waits in the collective as
 * ever.
 *
 * A *round* sorts the rest of the sequence anew. It is an all-reduce of a few words (round_private.h): the number of
 * messages of the sequence that each rank has begun (the maximum counts), whether a rank is held up (or), and the
 * groups that are ready (and). Any rank may ask for a round at any time; the others join as soon as they hear of it. A
 * rank begins nothing new between its part and the result. The result is the same on all ranks, so all of them do the
 * same with it:
 *
 *   - a message that any rank has begun keeps its place in the sequence and its channel. A rank that has not begun it
 *     yet *owes* it: it begins it as soon as its group is ready here, before anything else;
 *   - of the rest, the messages that are ready on all ranks come first, by urgency: they are *sure*. The others follow
 *     in the plan's order;
 *   - a channel whose last message is not ready on all ranks is *parked*: it gets no other message before a round has
 *     shown that it is. Channels take the rest in turn. While one is parked, sure messages have a channel more, the
 *     *reserve*, which is never parked because it gets nothing else.
 *
 * All channels agree, because the channel and place of a message follow from the sequence and the results alone, and a
 * rank adds nothing between its part and the result. No message waits for ever: a sure one is begun by all ranks as
 * soon as its channel is free, it always has a channel, and no message before it on that channel lacks a rank (parked
 * channels get none). A message that is ready on some ranks only waits for pushes and for nothing else.
 *
 * When a rank asks. A group is news if it has become ready here since this rank's last part and has messages to send.
 * Only news can change the set of groups that are ready everywhere. A rank asks
 *
 *   - if it is held up: the next message of the sequence is not ready here, or has no channel, and another one is
 *     ready;
 *   - in trouble, when the last result said that a rank is held up or a channel parked: if it has news, which it does
 *     not begin before all ranks have heard of it, because others may be held up where that cannot help them; and when
 *     it has begun the messages that it owed, so that their channels are used again;
 *   - by priority: if it has news more urgent than the next message, and so much of the next message's group is left
 *     that a round is hidden behind it. A rank does not ask for a group that became ready while it waited in a message
 *     for others, before a message has ended here: they are behind, and will ask. (All ranks can seem to wait, where
 *     links deliver bytes in bursts.)
 *
 * So whenever a message becomes ready on all ranks, and others are in its way, the last rank to have it asks. The link
 * is then idle, or busy with something less urgent, for the time of two rounds at most (one may have been under way).
 *
 * A round belongs to one step. A rank that asks has something left to begin, so no rank has ended this step; and the
 * call names the step, so that a rank that is still in the step before joins when it comes to this one. A step ends
 * when its round has. The watch notices a rank that dies in a round as it does one that dies in a message.
 *
 * Costs. If pushes come in the plan's order, nothing is sent. In a round each rank sends ceil(log2 P) frames of 40
 * bytes and a bit for each tensor, and ceil(log2 P) - 1 calls of the same length: with 2, 8 and 256 ranks 1, 5 and 15
 * frames, of which at most 1, 6 and 16 come one after the other.
 *
 * This is pure: it has no clock, input or output. tests/unit/fusion_ready.c simulates it by seed. */
#ifndef TT_FUSION_SEQUENCE_H
#define TT_FUSION_SEQUENCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define TT_SEQUENCE_CHANNELS 8 /* at most; the reserve is one more */

/* The facts that are the same on all ranks. */
struct tt_sequence_plan {
  int32_t nmessages, ngroups;
  int nchannels;           /* channel number nchannels is the reserve */
  int by_priority;
  const int32_t *groups;   /* of each message, in the plan's order. Groups are numbered by urgency: 0 goes first */
  const uint64_t *bytes;   /* of each message */
};

/* A channel; messages, or -1. */
struct tt_sequence_channel {
  int32_t last;      /* the newest of the sequence that some rank has begun on it, at the last round */
  int32_t owed;      /* begun elsewhere and not here */
  int32_t under_way; /* here */
  int is_parked;
};

struct tt_sequence {
  struct tt_sequence_plan plan;
  uint64_t worth_bytes;   /* messages of so many bytes hide a round; may differ between ranks */
  uint64_t step;
  int32_t *sequence;      /* message at each position */
  int32_t *by_urgency;    /* messages, those of a group in the plan's order */
  uint8_t *is_left;       /* of a message: no rank has begun it, as far as is known here */
  int32_t base, agreed;   /* positions: where the last round began; up to here they were ready on all ranks */
  int32_t next;           /* position: begun here next */
  int32_t *left;          /* of each group: messages that are left */
  uint64_t *left_bytes;
  uint64_t *ready, *told; /* bits of groups: ready here; in this rank's last part */
  uint64_t *open;         /* likewise: with messages left */
  uint64_t *quiet;        /* that became ready while this rank waited for others, and no message has ended since */
  size_t nwords;          /* of these */
  struct tt_sequence_channel channels[TT_SEQUENCE_CHANNELS + 1];
  int8_t sure[TT_SEQUENCE_CHANNELS + 1]; /* channels of what is ready everywhere; of the rest: */
  int8_t guessed[TT_SEQUENCE_CHANNELS];
  int nsure, nguessed;
  int is_frozen;          /* since this rank's part of a round */
  int is_troubled;        /* the last result said that somebody is held up, or a channel parked */
  int has_paid;           /* since its last part this rank has begun a message that it owed */
};

/* A message that may be begun. */
struct tt_sequence_begin {
  int32_t message;
  int channel;
  int is_owed; /* other ranks wait for it, so it begins even if the credit is used up */
  int is_sure; /* it is known to be ready on all ranks */
};

/* Words of a part and of a result. */
#define TT_SEQUENCE_WORDS(ngroups) ((size_t)2 + ((size_t)(ngroups) + 63) / 64)

/* The plan's arrays are borrowed. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_sequence_make(struct tt_sequence *order, const struct tt_sequence_plan *plan);
void tt_sequence_destroy(struct tt_sequence *order); /* a zeroed one is allowed */

/* Another step: nothing is ready, nothing was begun. Not in a round. */
void tt_sequence_start(struct tt_sequence *order, uint64_t step);

/* All tensors of a group were pushed here. waits: this rank has begun a message that others have not. */
void tt_sequence_push(struct tt_sequence *order, int32_t group, int waits);

/* 1: *begin may be begun. */
int tt_sequence_next(const struct tt_sequence *order, struct tt_sequence_begin *begin);
void tt_sequence_begin(struct tt_sequence *order, const struct tt_sequence_begin *begin);

/* The message on the channel is over. */
void tt_sequence_end(struct tt_sequence *order, int channel);

/* 1: a group that has messages left is ready here. */
int tt_sequence_has_ready(const struct tt_sequence *order);

/* 1: this rank wants a round. */
int tt_sequence_asks(const struct tt_sequence *order);

/* Writes this rank's part of the round that it joins. Until tt_sequence_decide only owed messages are begun. */
void tt_sequence_tell(struct tt_sequence *order, uint64_t *part);

/* Adds another part, or the sum of several, to one; in any order, any number of times. */
void tt_sequence_add(uint64_t *part, const uint64_t *other, size_t nwords);

/* Takes all ranks' parts, added up. Errors: tuttiInternalError: no ranks with this plan can have said that. */
tuttiResult_t tt_sequence_decide(struct tt_sequence *order, const uint64_t *result);

/* 1: as far as is known, the message under way on this channel is not ready on all ranks: links are free of it. */
static inline int tt_sequence_is_parked(const struct tt_sequence *order, int channel)
{
  return order->channels[channel].is_parked;
}

#endif
