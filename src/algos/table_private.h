/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the functions of each file for its rows in table.c. */
#ifndef TT_ALGOS_TABLE_H
#define TT_ALGOS_TABLE_H

#include "algos/algos.h"

void tt_ring_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_ring_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_ring_blocks(const struct tt_shape *shape);

void tt_multiplying_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_multiplying_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_multiplying_blocks(const struct tt_shape *shape);
int32_t tt_multiplying_folded(const struct tt_shape *shape);

void tt_halving_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_halving_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_halving_blocks(const struct tt_shape *shape);
int32_t tt_halving_folded(const struct tt_shape *shape);

void tt_binary_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_binary_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_binary_blocks(const struct tt_shape *shape);

void tt_binary_whole_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_binary_whole_claim(const struct tt_shape *shape, struct tt_cost *cost);

void tt_ring_scatter_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_ring_scatter_claim(const struct tt_shape *shape, struct tt_cost *cost);
void tt_ring_gather_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_ring_gather_claim(const struct tt_shape *shape, struct tt_cost *cost);
void tt_ring_reduce_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_ring_reduce_claim(const struct tt_shape *shape, struct tt_cost *cost);

void tt_chain_broadcast_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_chain_broadcast_claim(const struct tt_shape *shape, struct tt_cost *cost);
void tt_chain_reduce_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_chain_reduce_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_chain_blocks(const struct tt_shape *shape);

void tt_scatter_allgather_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_scatter_allgather_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_scatter_allgather_blocks(const struct tt_shape *shape);

void tt_binomial_scatter_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_binomial_scatter_claim(const struct tt_shape *shape, struct tt_cost *cost);
void tt_direct_scatter_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_direct_scatter_claim(const struct tt_shape *shape, struct tt_cost *cost);
void tt_binomial_gather_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_binomial_gather_claim(const struct tt_shape *shape, struct tt_cost *cost);
void tt_direct_gather_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_direct_gather_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_scatter_gather_blocks(const struct tt_shape *shape);

void tt_direct_all_to_all_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_direct_all_to_all_claim(const struct tt_shape *shape, struct tt_cost *cost);
void tt_bruck_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_bruck_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_all_to_all_blocks(const struct tt_shape *shape);

void tt_hierarchical_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_hierarchical_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_hierarchical_blocks(const struct tt_shape *shape);
const char *tt_hierarchical_illegal(const struct tt_shape *shape);
const char *tt_shards_illegal(const struct tt_shape *shape);
void tt_shards_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_shards_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_shards_blocks(const struct tt_shape *shape);

void tt_knomial_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_knomial_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_knomial_blocks(const struct tt_shape *shape);
const char *tt_knomial_illegal(const struct tt_shape *shape);
int32_t tt_knomial_hops(const struct tt_shape *shape); /* messages between this rank and the root */

void tt_double_tree_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_double_tree_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_double_tree_blocks(const struct tt_shape *shape);

void tt_circulant_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_circulant_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_circulant_blocks(const struct tt_shape *shape);

void tt_direct_generate(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_direct_claim(const struct tt_shape *shape, struct tt_cost *cost);
int32_t tt_direct_blocks(const struct tt_shape *shape);

/* The two halves of the direct all-reduce, and the cost of both, for parts of any lengths: part p is blocks
 * [start[p], start[p + 1]); NULL: as equal as can be. */
void tt_direct_reduce_parts(struct tt_schedule *schedule, const int32_t *start);
void tt_direct_gather_parts(struct tt_schedule *schedule, const int32_t *start);
void tt_direct_parts_claim(const struct tt_shape *shape, const int32_t *start, struct tt_cost *cost);

#endif
