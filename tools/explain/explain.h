/* SPDX-License-Identifier: BSD-3-Clause */
/* Why an algorithm is chosen, on a machine that need not be at hand (tutti explain). */
#ifndef TT_TOOLS_EXPLAIN_H
#define TT_TOOLS_EXPLAIN_H

#include <stddef.h>
#include <stdio.h>

#include "base/base.h"

/* A request. Set all to 0, then the fields that matter. */
struct tt_explain_request {
  const char *collective; /* as in struct tt_schedule_request */
  int nranks;
  int nnodes;             /* over which ranks are spread in blocks, as evenly as can be; 0: 1 */
  int cores;              /* of a node; 0: as many as it has ranks, but of one node at most those of this host */
  size_t bytes;           /* of a share, in whole elements */
  const char *type;       /* of elements, by its name: "half", "float", ...; NULL: "float" */
  const char *wire_type;  /* in which floats that are reduced travel: "float", "half" or "bfloat16"; NULL:
                             TUTTI_WIRE_TYPE */
  const char *codec;      /* of an all-reduce of floats: its price is printed, too; NULL: none */
  const char *update;     /* likewise, with owners that update weights, which travel as "float", "half" or "bfloat16" in
                             place of sums; NULL: sums do */
  const char *transports; /* that join ranks, in order of preference, before those of TUTTI_TRANSPORTS; NULL: none */
  const char *memory;     /* of the data: "malloc" or "tutti", which is that of tuttiMemAlloc; NULL: "malloc" */
  const char *topology;   /* file, instead of nnodes; NULL: none */
  const char *profile;    /* file; NULL: TUTTI_PROFILE, or what is built in */
  int deterministic;      /* as in tuttiConfig_t */
  const char *interface;  /* between nodes: one that was measured, or of this host; NULL: which this host would take */
  double link_gbits, link_us; /* instead of all that is known of links between nodes: Gbit/s, and the time of a short
                             message; 0 Gbit/s: nothing is said */
};

/* Prints which algorithm would be chosen, and why. There is every algorithm with its parameters, its predicted time
 * split into latency, bandwidth and reduction, the factor by which measurements correct it, or why it is not legal;
 * and where each price came from. Settings of the environment (TUTTI_ALGO, TUTTI_TABLE, TUTTI_RADIX, ...) count as in
 * a job.
 *
 * Errors: tuttiInvalidArgument: the request, a setting or a file is wrong. tuttiSystemError: no memory, or out cannot
 * be written. */
tuttiResult_t tt_explain(const struct tt_explain_request *request, FILE *out);

/* Checks the profile, the topology and, where it is there, the collective with its type: what can be told before
 * anybody says the number of ranks and the size. Errors: those of tt_explain about these. */
tuttiResult_t tt_explain_check(const struct tt_explain_request *request);

#endif
