/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer tables: networks as text, for planning without running them. Pure.
 *
 * Comma-separated values, in quotes where they have a comma. The first line names the columns; these are wanted, in any
 * order, and others are passed over:
 *
 *   layer_index  1, 2, ...: the layer's place in forward order, one a line
 *   params       elements of its gradient, which are floats of 4 bytes
 *   bwd_time_us  its backward, fwd_time_us its forward, from 0 on
 *
 * Backward goes from the last layer to the first; a gradient is ready when its layer's backward has ended. */
#ifndef TT_PLAN_LAYERS_H
#define TT_PLAN_LAYERS_H

#include <stdio.h>

#include "planner/plan.h"

struct tt_layers {
  struct tt_model net; /* its tensors are this object's */
  double forward_us; /* of all layers */
};

/* `name` is the table's in messages. Errors: tuttiInvalidArgument: a line is wrong (the sentence says the table, the
 * line, what stands there and what was wanted) or the file cannot be read; tuttiSystemError: no memory. */
tuttiResult_t tt_layers_parse(struct tt_layers *layers, FILE *in, const char *name);
tuttiResult_t tt_layers_load(struct tt_layers *layers, const char *path);
void tt_layers_destroy(struct tt_layers *layers); /* NULL and a zeroed one are allowed */

/* ---- what a plan looks like (text.c, data.c) ---- */

/* For a person: groups, then each message with its begin and end. Layers are numbered from 1 on. */
void tt_planned_print(FILE *out, const struct tt_planned *planned, const struct tt_layers *layers);

/* A line for each of several plans of one network, and one for their bound. */
void tt_planned_compare(FILE *out, const struct tt_planned *planned, int n, const struct tt_layers *layers);

/* Prints the data of the time line, as JSON for tutti draw: "backward" and "forward": [layer, begin, end], and
 * "messages": [first and last layer, begin, end]. `cost_text` describes the cost of a message. */
void tt_planned_data(FILE *out, const struct tt_planned *planned, const struct tt_layers *layers,
                     const char *cost_text);

#endif
