/* SPDX-License-Identifier: BSD-3-Clause */
/* The selector of algorithms by size: prices -> a table of break points. Pure.
 *
 * Rank 0 makes the table once, at the communicator's creation, and sends it to all, so
 * that all ranks choose alike and a choice is a lookup. */
#ifndef TT_TUNER_H
#define TT_TUNER_H

#include "algos/algos.h"
#include "tuner/learn.h"
#include "tuner/prices.h"

#define TT_TABLE_ROWS 24 /* of a collective */

/* An algorithm with its parameters. */
struct tt_choice {
  uint8_t algo;         /* index into tt_algos */
  int8_t middle;        /* as tt_shape.middle */
  uint16_t radix;       /* as tt_shape.radix; 0: the default */
  uint32_t block_bytes;
};

static inline int tt_choices_same_but_block(const struct tt_choice *a, const struct tt_choice *b)
{
  return a->algo == b->algo && a->middle == b->middle && a->radix == b->radix;
}
static inline int tt_choices_same(const struct tt_choice *a, const struct tt_choice *b)
{
  return tt_choices_same_but_block(a, b) && a->block_bytes == b->block_bytes;
}

struct tt_table_row {
  uint64_t up_to_bytes;
  struct tt_choice choice;
};

/* ---- shapes that are learnt (learn.h) ---- */

/* Size classes: those of half powers of two, as rows end there; the first one up to 8 B, the last one up to 128 MiB. */
#define TT_SIZE_CLASSES 49

/* -1: no bytes, or too many. */
static inline int tt_size_class(uint64_t bytes)
{
  uint64_t last = bytes - 1;
  if (last < 8) return 0;
  if (last >= (uint64_t)1 << 27) return -1;
  int power = 63 - __builtin_clzll(last);
  return 2 * (power - 3) + 1 + (int)(last >> (power - 1) & 1);
}

/* The most bytes of a class. */
static inline uint64_t tt_size_class_bytes(int size_class)
{
  if (!size_class) return 8;
  int power = 3 + (size_class - 1) / 2;
  return size_class & 1 ? (uint64_t)3 << (power - 1) : (uint64_t)2 << power;
}

/* The ratio (measured / predicted) of a size class, from those that are known (> 0): straight between two of them,
 * beyond them that of the nearest; 0: none is known. Only sums, products and quotients, so that it is the same on all
 * hosts. */
double tt_ratio_at(const double ratios[TT_SIZE_CLASSES], int size_class);

/* Collectives that are learnt: those in which each rank needs something of all others, so that calls take as long on
 * all ranks. Their rows of arms; -1: none. */
#define TT_ARM_ROWS 4
static inline int tt_arms_row(int collective)
{
  if (collective == TT_ALL_REDUCE) return 0;
  return collective >= TT_REDUCE_SCATTER && collective <= TT_ALL_TO_ALL ? 1 + collective - TT_REDUCE_SCATTER : -1;
}

#define TT_ARM_CHOICES 32 /* of a collective, over all classes */

/* The arms of a collective: for each size class the choice of the table, then the cheapest others whose price is within
 * twice the best one. */
struct tt_arms {
  struct tt_choice choices[TT_ARM_CHOICES];
  uint8_t of[TT_SIZE_CLASSES][TT_LEARN_ARMS]; /* 1 + index of a choice; 0: no more of them */
  uint8_t n, pad;
};

/* The result of an earlier job for one shape. */
struct tt_learnt {
  uint8_t collective, size_class;
  uint8_t width;  /* the logarithm of the bytes of an element of the wire type */
  uint8_t memory; /* enum tt_memory: of the calls' data, as ranks have agreed */
  uint8_t pad[4];
  int64_t ns;     /* of a call; > 0 */
  struct tt_choice choice;
};
#define TT_LEARNT_MOST 48
#define TT_WIDTHS 5 /* elements of 1 to 16 bytes */

/* Checks one that came from elsewhere. */
int tt_learnt_valid(const struct tt_learnt *learnt);

/* By collective: the first row whose up_to_bytes is not exceeded by the bytes of a share counts; the last row has
 * UINT64_MAX. The same layout on all ranks: it is sent as it is. */
struct tt_table {
  struct tt_table_row rows[TT_COLLECTIVES][TT_TABLE_ROWS];
  struct tt_table_row tutti_rows[TT_ARM_ROWS][TT_TABLE_ROWS]; /* for calls of which ranks have agreed that their data
                                          are in memory of tuttiMemAlloc; first up_to_bytes 0: they go by `rows` */
  struct tt_arms arms[TT_MEMORIES][TT_ARM_ROWS]; /* n is 0 where nothing is to be learnt */
  struct tt_learnt learnt[TT_LEARNT_MOST];
  int64_t nlearnt;
};

/* The values that the ranks of a communicator agree on: with the call, they decide what goes on the wire. */
struct tt_tuning {
  int32_t nranks;
  const struct tt_groups *groups; /* may be NULL */
  const int32_t *order;           /* rank of the topology at each place on the wire; NULL: the same */
  const struct tt_cluster *cluster;   /* only pricing needs these two */
  const struct tt_prices *prices;
  int32_t lanes; /* segments under way at once; 0: as by default */
  int deterministic; /* as tt_algo_schedule has it */
  enum tt_memory memory; /* of the data, for prices: by anchors of that kind, or of malloc's where there are none */
};

/* The shape of a choice for rank `rank` (in the order of the wire). root: -1 if the collective has none. */
struct tt_shape tt_choice_shape(const struct tt_choice *choice, const struct tt_tuning *tuning, int32_t rank,
                                int32_t root);

/* The same for prices: the root, if there is one, is rank 0. */
struct tt_shape tt_choice_shape_priced(const struct tt_choice *choice, const struct tt_tuning *tuning, int32_t rank);

/* NULL if the algorithm is legal for so many ranks in these groups, whatever settings say, else why not. */
const char *tt_choice_impossible(const struct tt_choice *choice, const struct tt_tuning *tuning);

/* ---- the price of a choice (costs.c) ----------------------------------------------- */

#define TT_CHOICES 96 /* candidates of a collective, at most */

/* The prices of the candidates of a collective (choice.c), and of some more choices: what a play of the schedule that
 * runs takes, for the type float and the operation sum, times measured / played by the anchors of the profile. This is
 * the one price of a choice: tables, explanations and the plans of messages ask for it. */
struct tt_costs;

/* more: at most TT_TABLE_ROWS choices, of a table that rules have cut, say; those that are candidates are not taken
 * twice. Settings are read, the tuning outlives the object. Errors: as tt_choices_find. */
tuttiResult_t tt_costs_make(struct tt_costs **costs, int collective, const struct tt_settings *settings,
                            const struct tt_tuning *tuning, const struct tt_choice *more, int nmore);
void tt_costs_destroy(struct tt_costs *costs); /* NULL is allowed */

/* The number of a choice; -1: it is neither a candidate nor one of the others. */
int tt_costs_find(const struct tt_costs *costs, const struct tt_choice *choice);

/* The time of choice c with `bytes` in a share; more than 0. The first time for an algorithm it is played at several
 * sizes; between these it is straight. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_costs_us(struct tt_costs *costs, int c, uint64_t bytes, double *us);

/* The time of one operation, and its parts: us = factor (latency + bandwidth + reduction). */
struct tt_predicted {
  double us;
  double latency_us;   /* if bytes cost nothing */
  double bandwidth_us; /* added by the bytes of messages */
  double reduction_us; /* added by combining */
  double factor;       /* measured / played, of the anchors next to it; 1: there is none */
  int32_t anchor_line, anchor_line2; /* between which `factor` was interpolated; 0: none */
  int is_played;       /* 1: by all ranks; 0: by some of them, for all would take too long */
};

/* The same with its parts, by what each adds to a play at this very size. */
tuttiResult_t tt_costs_split(struct tt_costs *costs, int c, uint64_t bytes, struct tt_predicted *predicted);

#define TT_PLAYED_RANKS 2048 /* for more, hierarchical rows are chosen only if they are forced */

/* All legal choices for a collective that TUTTI_ALGO leaves (choice.c). Errors: as tt_table_make. */
tuttiResult_t tt_choices_find(struct tt_choice *choices, int *n, int collective, const struct tt_settings *settings,
                              const struct tt_tuning *tuning);

/* Fills the table for all collectives, with nothing remembered. Rows for memory of tuttiMemAlloc are made where that
 * was measured, unless settings bind the choice (deterministic, a file of rules, or, for a collective, an entry in
 * settings->algo). Arms are made unless settings exclude learning: these, or learn is 0. settings->algo says what may
 * be chosen (algo_filter.h); settings->radix the radix of algorithms that have one, settings->segment_bytes the block;
 * settings->deterministic leaves only the tree of binary blocks. Errors: tuttiInvalidArgument: TUTTI_ALGO is malformed
 * or names something that does not exist (the sentence says what does), or leaves a collective nothing that is legal
 * for this number of ranks and these settings (the sentence says why, for each). */
tuttiResult_t tt_table_make(struct tt_table *table, const struct tt_settings *settings,
                            const struct tt_tuning *tuning);

/* Checks a table that came from another rank. 1 if it can be used. */
int tt_table_valid(const struct tt_table *table);

/* Writes a collective's choices, "knomial/8 up to 4096 B, ring up to 65536 B, then ring in blocks of 256 KiB", cut at
 * size: of blocks those that change. */
void tt_table_text(const struct tt_table *table, int collective, char *text, size_t size);

/* The choice for a share of `bytes`. */
static inline const struct tt_choice *tt_table_choice(const struct tt_table *table, int collective, uint64_t bytes)
{
  const struct tt_table_row *row = table->rows[collective];
  while (bytes > row->up_to_bytes) row++;
  return &row->choice;
}

/* 1: there are rows for memory of tuttiMemAlloc. */
static inline int tt_table_has_tutti(const struct tt_table *table, int collective)
{
  int row = tt_arms_row(collective);
  return row >= 0 && table->tutti_rows[row][0].up_to_bytes;
}

/* Shares of at most so many bytes are as in malloc's memory: messages below 16 KiB are copied anyway. */
#define TT_MEMORY_ALIKE ((uint64_t)12 << 10)

/* The same for data in that kind of memory on all ranks. */
static inline const struct tt_choice *tt_table_choice_in(const struct tt_table *table, enum tt_memory memory,
                                                         int collective, uint64_t bytes)
{
  if (memory == TT_MEMORY_MALLOC || bytes <= TT_MEMORY_ALIKE || !tt_table_has_tutti(table, collective))
    return tt_table_choice(table, collective, bytes);
  const struct tt_table_row *row = table->tutti_rows[tt_arms_row(collective)];
  while (bytes > row->up_to_bytes) row++;
  return &row->choice;
}

#endif
