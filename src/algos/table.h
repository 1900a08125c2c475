/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: what each file gives to its row in table.c. */
#ifndef TT_ALGOS_TABLE_H
#define TT_ALGOS_TABLE_H

#include "algos/algos.h"

void tt_ring_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_ring_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_ring_blocks(const struct tt_shape *shape);

void tt_multiplying_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_multiplying_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_multiplying_blocks(const struct tt_shape *shape);

void tt_halving_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_halving_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_halving_blocks(const struct tt_shape *shape);

void tt_binary_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_binary_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_binary_blocks(const struct tt_shape *shape);

void tt_binary_whole_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_binary_whole_claim(const struct tt_shape *shape, struct tt_cost *cost);

#endif
