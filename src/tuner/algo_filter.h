/* SPDX-License-Identifier: BSD-3-Clause */
/* The value of TUTTI_ALGO: the algorithms to choose from. Pure.
 *
 * The grammar is that of NCCL_ALGO with additions:
 *
 *   PART {; PART}       PART: [COLLECTIVE:][^]NAME[+MIDDLE][/RADIX] {, NAME[+MIDDLE][/RADIX]}
 *
 * A part restricts a collective to the algorithms that it names, or, after '^', to all others. A part without a
 * collective is about every collective that has an algorithm of one of these names, except those that have a part of
 * their own. MIDDLE is the algorithm that a hierarchical one runs among the leaders. Letters may be upper or lower
 * case, and underscores may be left out or written as hyphens.
 *
 * NCCL's word `ring` means the same here; `tree` means double_tree, binary_tree, knomial and binomial, those of them
 * that the collective has; collnetdirect, collnetchain, nvls, nvlstree and pat need hardware that is not there: they
 * are left out, with a warning. */
#ifndef TT_ALGO_FILTER_H
#define TT_ALGO_FILTER_H

#include "algos/algos.h"

#define TT_FILTERS 32 /* of a collective */

struct tt_algo_filter {
  uint8_t algo;   /* index into tt_algos */
  int8_t middle;  /* -1: any */
  uint16_t radix; /* 0: any */
};

struct tt_algo_filter_list {
  int32_t source;     /* 0: nothing is said about the collective; 1: by a part for all; 2: by a part of its own */
  int32_t is_inverse; /* all but these */
  int32_t n;
  struct tt_algo_filter filter[TT_FILTERS];
};

struct tt_filters {
  struct tt_algo_filter_list of[TT_COLLECTIVES];
  uint32_t ignored; /* a bit for each of NCCL's words that was left out */
};

/* Reads the text of TUTTI_ALGO; empty: nothing is said. Errors: tuttiInvalidArgument: it is malformed, or names
 * something that does not exist; the sentence says what does. */
tuttiResult_t tt_filters_parse(struct tt_filters *filters, const char *text);

/* Logs a warning for each word that was left out. */
void tt_filters_warn(const struct tt_filters *filters);

/* 1 if the list does not forbid the algorithm with this middle and radix. */
int tt_algo_filter_allows(const struct tt_algo_filter_list *list, const struct tt_algo_filter *one);

/* "ring, binary_tree, ...", cut at size. */
void tt_algo_filter_names(int collective, char *list, size_t size);

/* Reads [+MIDDLE][/RADIX], all of `text`, which follows the name of filter->algo. Returns NULL, or the reason why it is
 * wrong, which may lie in sentence[size]. */
const char *tt_algo_filter_rest(struct tt_algo_filter *filter, const char *text, char *sentence, size_t size);

#endif
