/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of the schedules of all ranks: what is in it. tutti draw draws it. */
#ifndef TT_SCHEDULE_PICTURE_H
#define TT_SCHEDULE_PICTURE_H

#include "sim/sim.h"

#define TT_PICTURE_RANKS 32  /* more: no arrows and marks, but cells of ranks and rounds */
#define TT_PICTURE_ROUNDS 64 /* with arrows; later ones are left out */
#define TT_PICTURE_ROWS 128  /* of cells: more ranks share a row */
#define TT_PICTURE_COLUMNS 256

/* A message, from one round to the next. */
struct tt_arrow {
  int32_t from, to, round;
  int32_t first, nblocks; /* blocks */
  int64_t elements;
};

enum tt_mark_kind { TT_MARK_COPY, TT_MARK_TAKE, TT_MARK_REDUCE };

/* The work of a rank between two rounds. */
struct tt_mark {
  int32_t rank, round;
  int32_t sources; /* combined with what was there */
  enum tt_mark_kind kind;
};

/* The number and sizes of messages of a round. */
struct tt_round {
  int64_t messages, fewest, most; /* elements of one */
};

struct tt_picture {
  struct tt_shape shape; /* after passes */
  int32_t nblocks;       /* of all shares */
  struct tt_arrow *arrows;
  struct tt_mark *marks;
  int64_t narrows, nmarks, arrow_room, mark_room;
  int32_t rounds, shown; /* of them all; in the picture */
  int64_t messages, most; /* of all shown rounds; elements of one */
  struct tt_round span[TT_PICTURE_ROUNDS];
  int64_t *cells;         /* elements sent, a row after the other; NULL: there are arrows and marks instead */
  int32_t rows, columns, row_ranks, column_rounds;
};

/* Plays twice: to count, and to keep what is to be seen. destroy accepts a zeroed one. */
tuttiResult_t tt_picture_make(struct tt_picture *picture, const struct tt_sim_play *play);
void tt_picture_destroy(struct tt_picture *picture);

/* ---- as data (data.c) ------------------------------------------------------------ */

struct tt_sim_caption {
  const char *title;
  const char *note;     /* below it; NULL: none */
  const int32_t *group; /* by rank: neighbours of one group get a common background; NULL: none */
};

/* Prints what is in the picture as JSON, for tutti draw: "ranks", "rounds", ...; of each shown round "spans":
 * [messages, fewest, most elements of one]; "arrows": [round, from, to, first block, blocks, elements]; and "marks":
 * [round, rank, "copy", "receive" or "reduce", sources]. Rounds are from 0 on: every message takes one round and
 * all else no time. Prices, segments and watcher of the play do not matter, and its count only for the numbers of
 * elements. Rounds behind the 64th are left out, and this is said. More than 32 ranks have instead of these "cells", a
 * list for each "row_ranks" ranks, with the elements that they send in each "column_rounds" rounds.
 * Errors: as tt_simulate; tuttiSystemError: it cannot be written. */
tuttiResult_t tt_picture_print(const struct tt_sim_play *play, const struct tt_sim_caption *caption, FILE *out);

#endif
