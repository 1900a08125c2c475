/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/tuner.h"

#include <stdio.h>
#include <string.h>

/* Rough values that put the break points in the right decade on a current x86-64 server;
 * measuring them on the machine at hand is the way to do better. */
static const struct {
  const char *transport;
  struct tt_price price;
} shipped[] = {
    {"shm", {0.4, 100, 60, 128 << 10}},
    {"tcp", {12, 250, 60, 512 << 10}},
};

const struct tt_price *tt_price_shipped(const char *transport)
{
  size_t n = sizeof shipped / sizeof shipped[0];
  for (size_t i = 0; i < n; i++)
    if (strcmp(shipped[i].transport, transport) == 0) return &shipped[i].price;
  return &shipped[n - 1].price;
}

static double price_of_rank(const struct tt_algo *algo, const struct tt_price *price, const struct tt_shape *shape,
                            double mib)
{
  struct tt_cost cost;
  algo->claim(shape, &cost);
  double block = mib / shape->nblocks;
  return (double)cost.messages * price->alpha_us + (double)cost.blocks * block * price->beta_us_per_mib +
         (double)(cost.reductions + (cost.slots ? cost.blocks : 0)) * block * price->gamma_us_per_mib;
}

double tt_price_all_reduce(const struct tt_algo *algo, const struct tt_price *price, int nranks, uint64_t bytes)
{
  struct tt_shape shape = {.nranks = nranks, .rank = 0, .nblocks = 1, .root = -1};
  shape.nblocks = algo->blocks(&shape);
  double mib = (double)bytes / (1 << 20), first = price_of_rank(algo, price, &shape, mib);
  shape.rank = nranks - 1;
  double last = price_of_rank(algo, price, &shape, mib);
  return first > last ? first : last;
}

static const char *why_illegal(const struct tt_algo *algo, int nranks)
{
  struct tt_shape shape = {.nranks = nranks, .nblocks = 1, .root = -1};
  return algo->illegal ? algo->illegal(&shape) : NULL;
}

/* The forced algorithm's index, or an error that lists what there is. */
static tuttiResult_t forced_find(const char *name, int nranks, int *index)
{
  char list[256] = "";
  size_t used = 0;
  for (int a = 0; a < tt_algo_count; a++) {
    if (tt_algos[a].collective != TT_ALL_REDUCE) continue;
    if (strcmp(tt_algos[a].name, name) != 0) {
      int n = snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", tt_algos[a].name);
      if (n > 0 && used + (size_t)n < sizeof list) used += (size_t)n;
      continue;
    }
    const char *why = why_illegal(&tt_algos[a], nranks);
    if (why) return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO=%s is not legal for %d ranks: %s", name, nranks, why);
    *index = a;
    return tuttiSuccess;
  }
  return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO is \"%s\": set it to one of %s, or leave it empty", name, list);
}

static int cheapest(const struct tt_price *price, int nranks, uint64_t bytes)
{
  int best = -1;
  double least = 0;
  for (int a = 0; a < tt_algo_count; a++) {
    if (tt_algos[a].collective != TT_ALL_REDUCE || why_illegal(&tt_algos[a], nranks)) continue;
    double time = tt_price_all_reduce(&tt_algos[a], price, nranks, bytes);
    if (best < 0 || time < least) {
      best = a;
      least = time;
    }
  }
  return best;
}

tuttiResult_t tt_table_make(struct tt_table *table, const struct tt_settings *settings, const struct tt_price *price,
                            int nranks)
{
  int forced = -1;
  if (settings->algo[0]) {
    tuttiResult_t result = forced_find(settings->algo, nranks, &forced);
    if (result != tuttiSuccess) return result;
  }
  uint64_t block = settings->segment_bytes ? (uint64_t)settings->segment_bytes : price->block_bytes;
  memset(table, 0, sizeof *table);
  /* Half powers of two from 8 bytes to 1 GiB; a row for each change. */
  for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes += (bytes & (bytes - 1)) ? bytes / 3 : bytes / 2) {
    int algo = forced >= 0 ? forced : cheapest(price, nranks, bytes);
    if (table->nrows == 0 || (table->rows[table->nrows - 1].algo != (uint32_t)algo && table->nrows < TT_TABLE_ROWS)) {
      table->rows[table->nrows].algo = (uint32_t)algo;
      table->rows[table->nrows].block_bytes = block;
      table->nrows++;
    }
    table->rows[table->nrows - 1].up_to_bytes = bytes;
  }
  table->rows[table->nrows - 1].up_to_bytes = UINT64_MAX;
  return tuttiSuccess;
}

int tt_table_valid(const struct tt_table *table)
{
  if (table->nrows < 1 || table->nrows > TT_TABLE_ROWS) return 0;
  for (uint64_t r = 0; r < table->nrows; r++)
    if (table->rows[r].algo >= (uint32_t)tt_algo_count || table->rows[r].block_bytes - 1 >= (uint64_t)1 << 30)
      return 0;
  return table->rows[table->nrows - 1].up_to_bytes == UINT64_MAX;
}
