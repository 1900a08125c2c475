/* SPDX-License-Identifier: BSD-3-Clause */
/* Plays for the tests of the simulator. */
#ifndef PLAYS_H
#define PLAYS_H

#include <string.h>

#include "algos/algos.h"
#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MIB 1048576.0

/* Per message, per byte, per byte combined; in us. */
struct prices {
  double alpha, beta, gamma;
};

static inline struct tt_link_prices uniform(const struct prices *p)
{
  struct tt_link_prices prices = {.gamma_us_per_mib = p->gamma * MIB};
  for (int k = 0; k < TT_LINK_KINDS; k++) prices.link[k] = tt_curve_line(0, 0);
  prices.link[TT_LINK_NET] = tt_curve_line(p->alpha, p->beta * MIB);
  return prices;
}

static inline void row_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  const struct tt_algo *algo = context;
  algo->generate(schedule, shape);
}

/* A row of the table for P ranks and a share of `count` bytes. */
static inline struct tt_sim_play play_of(const char *collective, const char *name, int32_t nranks, size_t count,
                                         const struct tt_link_prices *prices)
{
  int kind = tt_kind_find(collective);
  const struct tt_algo *algo = tt_algo_find(kind, name);
  assert_non_null(algo);
  struct tt_sim_play play = {.generate = row_generate, .context = (void *)(uintptr_t)algo, .count = count,
                             .element_bytes = 1, .prices = prices};
  play.shape = (struct tt_shape){.nranks = nranks, .root = tt_kinds[kind].has_root ? nranks / 3 : -1, .middle = -1};
  tt_algo_shape(algo, &play.shape);
  return play;
}

static inline struct tt_sim_result run(const struct tt_sim_play *play)
{
  struct tt_sim_result result;
  assert_int_equal(tt_simulate(play, &result), tuttiSuccess);
  return result;
}

struct sequence {
  int32_t from[64];
  size_t bytes[64];
  int n;
};

static inline void sequence_note(void *context, const struct tt_sim_message *message)
{
  struct sequence *sequence = context;
  assert_true(sequence->n < 64);
  sequence->from[sequence->n] = message->from;
  sequence->bytes[sequence->n++] = message->bytes;
}

#endif
