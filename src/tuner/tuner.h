/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm for which size: prices -> a table of break points. Pure.
 *
 * Rank 0 makes the table once, at the communicator's creation, and sends it to all, so
 * that all ranks choose alike and a choice is a lookup. */
#ifndef TT_TUNER_H
#define TT_TUNER_H

#include "algos/algos.h"

/* What a message and its bytes cost on the slowest kind of link in use. */
struct tt_price {
  double alpha_us;         /* start-up of one message */
  double beta_us_per_mib;  /* per MiB sent */
  double gamma_us_per_mib; /* per MiB of each source reduced */
  uint64_t block_bytes;    /* longest block sent at once: a long vector is cut into segments of such blocks */
};

/* Shipped values for a transport by name; those of tcp for an unknown one. */
const struct tt_price *tt_price_shipped(const char *transport);

#define TT_TABLE_ROWS 16

/* First row whose up_to_bytes is not exceeded counts; the last row has UINT64_MAX. The same
 * layout on all ranks: it is sent as it is. */
struct tt_table {
  uint64_t nrows;
  struct {
    uint64_t up_to_bytes;
    uint32_t algo; /* index into tt_algos */
    uint32_t reserved;
    uint64_t block_bytes;
  } rows[TT_TABLE_ROWS];
};

/* Predicted time of one all-reduce of `bytes` by `algo`: the slower of the first and the last rank. */
double tt_price_all_reduce(const struct tt_algo *algo, const struct tt_price *price, int nranks, uint64_t bytes);

/* Fills the table for all-reduce. settings->algo forces one algorithm, settings->segment_bytes the block.
 * Errors: tuttiInvalidArgument: TUTTI_ALGO names no algorithm (the sentence lists them), or one that is not
 * legal for this number of ranks (the sentence says why). */
tuttiResult_t tt_table_make(struct tt_table *table, const struct tt_settings *settings, const struct tt_price *price,
                            int nranks);

/* Checks a table that came from another rank. 1 if it can be used. */
int tt_table_valid(const struct tt_table *table);

/* The row for a vector of `bytes`. */
static inline int tt_table_row(const struct tt_table *table, uint64_t bytes)
{
  int row = 0;
  while (bytes > table->rows[row].up_to_bytes) row++;
  return row;
}

#endif
