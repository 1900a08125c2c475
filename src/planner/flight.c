/* SPDX-License-Identifier: BSD-3-Clause */
#include "planner/flight.h"

#include <math.h>

#define CREDIT_MOST 0x1p40

uint64_t tt_flight_credit(const struct tt_message_cost *cost, uint64_t bytes)
{
  if (cost->channels < 2 || !(cost->free > 0)) return 0;
  double held_us = tt_message_held_us(cost, bytes), free_us = tt_message_us(cost, bytes) - held_us;
  if (!(free_us > 0)) return 0;
  double credit = held_us > 0 ? (double)bytes * (held_us + free_us) / held_us : CREDIT_MOST;
  return (uint64_t)ceil(fmin(credit, CREDIT_MOST));
}

void tt_flight_price(struct tt_flight *flight, uint64_t bytes)
{
  flight->last_bytes = bytes;
  flight->message_us = tt_message_us(flight->cost, bytes);
  if (flight->credit) flight->message_held_us = tt_held_us_of(flight->cost, bytes, flight->message_us);
}

void tt_flight_start(struct tt_flight *flight, const struct tt_message_cost *cost, uint64_t credit)
{
  flight->cost = cost;
  flight->credit = credit;
  flight->next_us = flight->links_us = flight->end_us = 0;
  flight->first = flight->n = 0;
  flight->total = 0;
  tt_flight_price(flight, 0);
}

static void oldest_end(struct tt_flight *flight)
{
  flight->total -= flight->bytes[flight->first];
  flight->first = (flight->first + 1) % TT_FLIGHT_MOST;
  flight->n--;
}

double tt_flight_join(struct tt_flight *flight, double at_us, uint64_t bytes)
{
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
  while (flight->n && (flight->n >= most || !tt_flight_may(flight->credit, flight->n, flight->total))) {
    double end_us = flight->ends_us[flight->first];
    if (end_us > flight->next_us) flight->next_us = end_us;
    oldest_end(flight);
  }
  return flight->end_us;
}
