/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of messages by the selector's prices. Pure. */
#ifndef TT_PLANNER_PRICE_H
#define TT_PLANNER_PRICE_H

#include "planner/plan.h"
#include "tuner/tuner.h"

/* All-reduces (float, sum) by the choices of the table, or those that jobs have learnt, at their prices (tt_costs), at
 * powers of two from 64 bytes to 1 GiB, and straight lines between them; none costs less per byte than that of 1 GiB,
 * because messages follow each other. Errors: as tt_costs_make. */
tuttiResult_t tt_message_cost_price(struct tt_message_cost *cost, const struct tt_table *table,
                                    const struct tt_settings *settings, const struct tt_tuning *tuning);

#endif
