/* SPDX-License-Identifier: BSD-3-Clause */
#include "planner/flight.h"

#include <math.h>

#define CREDIT_MOST 0x1p40

/* The part of `us`, what the message takes, for which it holds the links. */
static double held_of(const struct tt_message_cost *cost, uint64_t bytes, double us)
{
  double startup_us = us - cost->byte_us * (double)bytes;
  return startup_us > 0 ? us - cost->free * startup_us : us;
}

double tt_message_held_us(const struct tt_message_cost *cost, uint64_t bytes)
{
  return held_of(cost, bytes, tt_message_us(cost, bytes));
}

uint64_t tt_flight_credit(const struct tt_message_cost *cost, uint64_t bytes)
{
  if (cost->channels < 2 || !(cost->free > 0)) return 0;
  double held_us = tt_message_held_us(cost, bytes), free_us = tt_message_us(cost, bytes) - held_us;
  if (!(free_us > 0)) return 0;
  double credit = held_us > 0 ? (double)bytes * (held_us + free_us) / held_us : CREDIT_MOST;
  return (uint64_t)ceil(fmin(credit, CREDIT_MOST));
}

static void price_take(struct tt_flight *flight, uint64_t bytes)
{
  flight->last_bytes = bytes;
  flight->message_us = tt_message_us(flight->cost, bytes);
  flight->message_held_us = held_of(flight->cost, bytes, flight->message_us);
}

void tt_flight_start(struct tt_flight *flight, const struct tt_message_cost *cost, uint64_t credit)
{
  flight->cost = cost;
  flight->credit = credit;
  flight->next_us = flight->links_us = flight->end_us = 0;
  flight->first = flight->n = 0;
  flight->total = 0;
  price_take(flight, 0);
}

static void oldest_end(struct tt_flight *flight)
{
  flight->total -= flight->bytes[flight->first];
  flight->first = (flight->first + 1) % TT_FLIGHT_MOST;
  flight->n--;
}

double tt_flight_begin(struct tt_flight *flight, double at_us, uint64_t bytes)
{
  if (bytes != flight->last_bytes) price_take(flight, bytes);
  if (!flight->credit) return flight->end_us = flight->next_us = at_us + flight->message_us;
  int32_t most = flight->cost->channels < TT_FLIGHT_MOST ? flight->cost->channels : TT_FLIGHT_MOST;
  while (flight->n && flight->ends_us[flight->first] <= at_us) oldest_end(flight);
  double from_us = at_us > flight->links_us ? at_us : flight->links_us;
  flight->links_us = from_us + flight->message_held_us;
  if (from_us + flight->message_us > flight->end_us) flight->end_us = from_us + flight->message_us;
  int32_t last = (flight->first + flight->n++) % TT_FLIGHT_MOST;
  flight->ends_us[last] = flight->end_us;
  flight->bytes[last] = bytes;
  flight->total += bytes;
  flight->next_us = at_us;
  while (flight->n && (flight->total >= flight->credit || flight->n >= most)) {
    double end_us = flight->ends_us[flight->first];
    if (end_us > flight->next_us) flight->next_us = end_us;
    oldest_end(flight);
  }
  return flight->end_us;
}
