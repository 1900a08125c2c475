/* SPDX-License-Identifier: BSD-3-Clause */
/* Networks to plan messages of. Times and costs are whole numbers, which doubles hold exactly. */
#ifndef NETS_H
#define NETS_H

#include "planner/plan.h"

#define NET_MOST 200

struct drawn {
  struct tt_tensor tensors[NET_MOST];
  struct tt_model net;
  struct tt_message_cost cost;
};

/* Layer after layer, from the last to the first; times and sizes of several scales, also 0. */
void net_draw(struct drawn *d, uint64_t *state, int32_t n);

/* For half of the costs: of start-ups some or all is free for other messages in flight. Halves and quarters. */
void overlap_draw(struct drawn *d, uint64_t *state);

/* A straight line, pieces that jump up and down, or pieces that rise and fall. */
void cost_draw(struct drawn *d, uint64_t *state);

/* A network of these backward times and bytes, in forward order, and of forward times, where given; without a cost. */
void net_make(struct drawn *d, int32_t n, const double *backward, const uint64_t *bytes, const double *forward);

double net_forward_us(const struct drawn *d);

/* For policies and numbers that are right. */
struct tt_fusion_plan plan_of(const char *policy, const struct drawn *d);

/* Length of the iteration; by this policy. */
double played_us(const struct tt_fusion_plan *plan, const struct drawn *d);
double us_of(const char *policy, const struct drawn *d);

/* "3 2|1": groups as they are ready, layers from 1 on. */
void groups_text(char *text, size_t size, const struct tt_fusion_plan *plan);

/* Policies that merge. */
#define MERGING 11
extern const char *const merging[MERGING];

#endif
