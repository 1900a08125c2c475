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
    {"network", {25, 1000, 60, 512 << 10}},
    {"tcp", {12, 250, 60, 512 << 10}},
};

/* Part of alpha that a rank pays for each message beyond those of the longest chain. */
#define OVERHEAD 0.3

const struct tt_price *tt_price_shipped(const char *transport)
{
  size_t n = sizeof shipped / sizeof shipped[0];
  for (size_t i = 0; i < n; i++)
    if (strcmp(shipped[i].transport, transport) == 0) return &shipped[i].price;
  return &shipped[n - 1].price;
}

struct tt_shape tt_choice_shape(const struct tt_choice *choice, const struct tt_tuning *tuning, int32_t rank,
                                int32_t root)
{
  struct tt_shape shape = {.nranks = tuning->nranks,
                           .rank = rank,
                           .root = root,
                           .radix = choice->radix,
                           .middle = choice->middle,
                           .groups = tuning->groups};
  tt_algo_shape(&tt_algos[choice->algo], &shape);
  return shape;
}

#define PRICED_RANKS 4 /* of which the slowest counts */

/* What a choice costs a few ranks, whatever the bytes. Some claims take long, so they are asked for once. */
struct costs {
  int32_t nblocks;
  struct tt_cost of[PRICED_RANKS];
};

static void costs_find(struct costs *costs, const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  int32_t root = tt_kinds[algo->collective].has_root ? 0 : -1, n = tuning->nranks;
  const int32_t ranks[PRICED_RANKS] = {0, n > 1, n / 2, n - 1};
  for (int k = 0; k < PRICED_RANKS; k++) {
    struct tt_shape shape = tt_choice_shape(choice, tuning, ranks[k], root);
    costs->nblocks = shape.nblocks;
    algo->claim(&shape, &costs->of[k]);
  }
}

/* The chain of messages that must follow one another, or all that a rank must send, whichever takes longer. */
static double time_of_rank(const struct tt_cost *cost, int32_t nblocks, const struct tt_price *price, double mib)
{
  double block = mib / nblocks, sent = (double)cost->blocks;
  double more = (double)(cost->messages - cost->rounds), chain = 0;
  if (cost->messages) chain = (double)cost->rounds * (double)cost->blocks / (double)cost->messages;
  if (chain > sent) sent = chain;
  return ((double)cost->rounds + (more > 0 ? OVERHEAD * more : 0)) * price->alpha_us +
         sent * block * price->beta_us_per_mib +
         (double)(cost->reductions + (cost->slots ? cost->blocks : 0)) * block * price->gamma_us_per_mib;
}

static double time_of(const struct costs *costs, const struct tt_price *price, uint64_t bytes)
{
  double slowest = 0;
  for (int k = 0; k < PRICED_RANKS; k++) {
    double time = time_of_rank(&costs->of[k], costs->nblocks, price, (double)bytes / (1 << 20));
    if (time > slowest) slowest = time;
  }
  return slowest;
}

double tt_price_choice(const struct tt_choice *choice, const struct tt_tuning *tuning, uint64_t bytes)
{
  struct costs costs;
  costs_find(&costs, choice, tuning);
  return time_of(&costs, tuning->price, bytes);
}

static int cheapest(const struct costs *costs, int n, const struct tt_price *price, uint64_t bytes)
{
  int best = 0;
  double least = 0;
  for (int c = 0; c < n; c++) {
    double time = time_of(&costs[c], price, bytes);
    if (c && time >= least) continue;
    best = c;
    least = time;
  }
  return best;
}

static void rows_make(struct tt_table_row *rows, const struct tt_choice *choices, int n, const struct tt_tuning *tuning)
{
  struct costs costs[TT_CHOICES];
  int nrows = 0, last = -1;
  for (int c = 0; n > 1 && c < n; c++) costs_find(&costs[c], &choices[c], tuning);
  /* Half powers of two from 8 bytes to 1 GiB; a row for each change. */
  for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes += (bytes & (bytes - 1)) ? bytes / 3 : bytes / 2) {
    int c = n == 1 ? 0 : cheapest(costs, n, tuning->price, bytes);
    if (c != last && nrows < TT_TABLE_ROWS) {
      rows[nrows++].choice = choices[c];
      last = c;
    }
    rows[nrows - 1].up_to_bytes = bytes;
  }
  rows[nrows - 1].up_to_bytes = UINT64_MAX;
}

tuttiResult_t tt_table_make(struct tt_table *table, const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  memset(table, 0, sizeof *table);
  for (int collective = 0; collective < TT_COLLECTIVES; collective++) {
    struct tt_choice choices[TT_CHOICES];
    int n = 0;
    if (!tt_kinds[collective].name) continue;
    tuttiResult_t result = tt_choices_find(choices, &n, collective, settings, tuning);
    if (result != tuttiSuccess) return result;
    rows_make(table->rows[collective], choices, n, tuning);
  }
  return tuttiSuccess;
}

static int choice_valid(const struct tt_choice *choice, int collective)
{
  return choice->algo < tt_algo_count && tt_algos[choice->algo].collective == collective &&
         choice->middle < tt_algo_count && choice->block_bytes - 1 < (uint32_t)1 << 30;
}

int tt_table_valid(const struct tt_table *table)
{
  for (int collective = 0; collective < TT_COLLECTIVES; collective++) {
    if (!tt_kinds[collective].name) continue;
    for (int r = 0;; r++) {
      if (r == TT_TABLE_ROWS || !choice_valid(&table->rows[collective][r].choice, collective)) return 0;
      if (table->rows[collective][r].up_to_bytes == UINT64_MAX) break;
    }
  }
  return 1;
}

void tt_table_text(const struct tt_table *table, int collective, char *text, size_t size)
{
  const struct tt_table_row *row = table->rows[collective];
  size_t used = 0;
  if (size) text[0] = 0;
  for (int is_last = 0; !is_last && used < size; row++) {
    int middle = row->choice.middle, n;
    is_last = row->up_to_bytes == UINT64_MAX;
    n = snprintf(text + used, size - used, "%s%s%s%s", used ? is_last ? ", then " : ", " : "",
                 tt_algos[row->choice.algo].name, middle < 0 ? "" : "+", middle < 0 ? "" : tt_algos[middle].name);
    used += n > 0 ? (size_t)n : 0;
    if (is_last || used >= size) continue;
    n = snprintf(text + used, size - used, " up to %llu B", (unsigned long long)row->up_to_bytes);
    used += n > 0 ? (size_t)n : 0;
  }
}
