/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients in few good messages, of a network that need not be at hand (tutti plan). */
#ifndef TT_TOOLS_PLAN_H
#define TT_TOOLS_PLAN_H

#include <stddef.h>
#include <stdio.h>

#include "base/base.h"

/* A request for plans. Set all to 0, then the fields that matter. Either has_cost or nranks says what a message
 * costs. */
struct tt_plan_request {
  const char *table;       /* file: a network's layers, one a line, with commas between the fields; its first line names
                              columns, among them layer_index (1, 2, ... in forward order), params (elements of 4
                              bytes), bwd_time_us and fwd_time_us */
  const char *policy;      /* "wfbp", "single", "threshold:BYTES[,FIRST]", "horovod:BYTES", "mgwfbp", "optimal",
                              "p3[:PARAMETERS[,CREDIT]]", "fifo[:PARAMETERS[,CREDIT]]", "auto", or "all" of them;
                              "server[:PARAMETERS[,CREDIT]]": servers in place of all-reduces, as below */
  int has_cost;            /* 1: a message of m bytes takes alpha_us + beta_us_per_byte m */
  double alpha_us, beta_us_per_byte;
  double turn_us_per_byte; /* of "server": its update of each byte */
  int nranks;              /* a message is an all-reduce of so many ranks, and takes what is predicted of the algorithm
                              that would be chosen; the next four as in tt_explain_request, ... */
  int nnodes;              /* ... but 0: as many as there are ranks */
  const char *transports;
  const char *interface;
  const char *profile;
  double link_gbits, link_us; /* as in tt_explain_request */
  int has_gap;             /* 1: of a message's start-up the links are held for gap_us at most, and then free for other
                              messages, as many as there are channels; 0: one message is under way at a time */
  double gap_us;
  int channels;            /* 0: 8 */
  size_t slice;            /* parameters: messages are cut into slices of at most so many and sent by priority; 0: as
                              the policy does; with "all" only of p3 and auto */
  const char *codec;       /* by which layers of 1,024 parameters or more travel, with nranks; its kernels count as
                              nothing; NULL: none */
  const char *update;      /* not NULL: owners update weights, which travel as "float", "half" or "bfloat16" in place of
                              results; gradients by the codec of the owner's route, or as they are */
  int json;                /* 1: print JSON: "policy", "groups" (lists of layers from 1 on, in the order sent) and
                              "iteration_us", and "bound_us", which no plan can beat; a list of these for "all" */
};

/* Prints in which messages gradients would be reduced. It tells which layers' gradients go together, when each message
 * begins and ends, and how long an iteration is: backward, in which gradients become ready, and the next forward; and
 * what no plan of any messages could beat. For "all" it prints a line for each policy. To `data` goes what is in the
 * time line, as JSON for tutti draw, of "all" that of auto. out or data may be NULL: then that is left out.
 * src/planner/plan.h describes model and policies.
 *
 * "server" is p3 with parameter servers: a slice is pushed to its server, updated there, and the new weights are sent
 * back at once (Jayarajan et al. 2019, Figure 6). The three follow one another for a slice, but different slices are
 * pushed, updated and sent back side by side, so a slice holds the links only for the longest of the three. With a cost
 * a message is a push or the way back, and servers are others than the ranks. With nranks each rank is a server of its
 * share of each slice: push and way back are an all-reduce by the algorithm "direct", with nothing but the bytes of two
 * slices one after the other.
 *
 * Errors: tuttiInvalidArgument: the request, the table (the sentence names file and line), a setting or the profile is
 * wrong. tuttiInvalidUsage: slices are so short that there would be more than 16,777,216. tuttiSystemError: no memory,
 * or it cannot be written. */
tuttiResult_t tt_plan_print(const struct tt_plan_request *request, FILE *out, FILE *data);

/* Checks the table and the policy alone, the table first: what can be told before anybody says what a message costs.
 * Errors: those of tt_plan_print about these. */
tuttiResult_t tt_plan_check(const struct tt_plan_request *request);

#endif
