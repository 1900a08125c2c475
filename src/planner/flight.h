/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in flight: when the next one may begin, and when it ends, as plays have it.
 *
 * The rule. A message is *in flight* from its begin until it has ended. The next message may begin
 *
 *   - when none is in flight; or
 *   - when fewer bytes than the plan's *credit*, and fewer messages than there are channels, are in flight.
 *
 * So at most the credit and one message are in flight, and with a credit of 0 messages follow one another. The order
 * of messages does not depend on when they begin: ranks that agree on the order need not agree on that.
 *
 * The cost. A message of m bytes takes T(m) alone, and holds the links for a part of that, H(m). Its start-up is
 * what is not the time of its bytes, T(m) - m byte_us. For the part `free` of that the links are free for other
 * messages (they wait for what is on its way, or for ranks to wake), for the rest they are not (a processor is busy
 * with it):
 *
 *   H(m) = T(m) - free (T(m) - m byte_us)
 *
 * Messages hold the links one after the other, as they begin, and end T(m) after they got them, but not before those
 * that began earlier. With free = 0 they take T one after the other, whatever the credit.
 *
 * The credit of a plan whose longest message has m bytes is what the links carry in the time of one,
 *
 *   m T(m) / H(m)
 *
 * (rounded up; 0 if nothing is free or there is one channel): m + alpha / beta where T(m) = alpha + beta m and all of
 * the start-up is free. ceil(T / H) such messages are in flight then, which hides all start-ups but the first, if there
 * are as many channels. An urgent one that becomes ready waits for no more than the credit and one message. All ranks
 * have the same costs, and so the same credit.
 *
 * Pure. */
#ifndef TT_PLANNER_FLIGHT_H
#define TT_PLANNER_FLIGHT_H

#include "planner/plan.h"

#define TT_FLIGHT_MOST 64 /* messages */

struct tt_flight {
  const struct tt_message_cost *cost;
  uint64_t credit;
  double next_us;  /* from here on the next message may begin */
  double links_us; /* the links are held until then */
  double end_us;   /* of the last message */
  uint64_t last_bytes;          /* its length, and what a message of that takes: equal ones follow one another */
  double message_us, message_held_us;
  /* Messages in flight at next_us, the oldest at `first`. */
  int32_t first, n;
  uint64_t total;
  uint64_t bytes[TT_FLIGHT_MOST];
  double ends_us[TT_FLIGHT_MOST];
};

/* n messages of so many bytes are in flight: the next one may begin, if there is a channel for it. */
static inline int tt_flight_may(uint64_t credit, int32_t n, uint64_t bytes)
{
  return n == 0 || bytes < credit;
}

/* H(m), where T(m) is us. */
static inline double tt_held_us_of(const struct tt_message_cost *cost, uint64_t bytes, double us)
{
  double startup_us = us - cost->byte_us * (double)bytes;
  return startup_us > 0 ? us - cost->free * startup_us : us;
}

static inline double tt_message_held_us(const struct tt_message_cost *cost, uint64_t bytes)
{
  return tt_held_us_of(cost, bytes, tt_message_us(cost, bytes));
}

/* The credit of a plan whose longest message has so many bytes. */
uint64_t tt_flight_credit(const struct tt_message_cost *cost, uint64_t bytes);

/* Nothing is in flight; from time 0 on. */
void tt_flight_start(struct tt_flight *flight, const struct tt_message_cost *cost, uint64_t credit);

/* A message begins, not before next_us. Returns when it ends. */
static inline double tt_flight_begin(struct tt_flight *flight, double at_us, uint64_t bytes);

/* ---- parts of it ---- */

/* Finds what messages of this length take. */
void tt_flight_price(struct tt_flight *flight, uint64_t bytes);

/* With a credit. */
double tt_flight_join(struct tt_flight *flight, double at_us, uint64_t bytes);

static inline double tt_flight_begin(struct tt_flight *flight, double at_us, uint64_t bytes)
{
  if (bytes != flight->last_bytes) tt_flight_price(flight, bytes);
  if (flight->credit) return tt_flight_join(flight, at_us, bytes);
  return flight->end_us = flight->next_us = at_us + flight->message_us;
}

#endif
