/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives and their facts: the rows of collectives.def. */
#ifndef TT_BASE_COLLECTIVES_H
#define TT_BASE_COLLECTIVES_H

#include <stddef.h>
#include <stdint.h>

enum tt_collective {
  TT_NO_COLLECTIVE,
#define TT_KIND(value, ...) value,
#include "base/collectives.def"
#undef TT_KIND
  TT_PAIRS, /* sends and receives between pairs of ranks: no collective, numbered per pair and direction */
  TT_COLLECTIVES
};

enum tt_cover { TT_COVER_NONE, TT_COVER_ALL, TT_COVER_OWN, TT_COVER_ROOT }; /* of IN or OUT; ROOT: all, on root only */

/* The ranks whose IN an element of OUT comes from. A switch over it has no `default`: a new value is a warning
 * there. */
enum tt_from { TT_FROM_NOBODY, TT_FROM_ALL, TT_FROM_ROOT, TT_FROM_SHARE };

struct tt_kind {
  const char *called; /* as in sentences: "AllReduce" */
  const char *name;   /* as in the command line: "all_reduce"; NULL: has no schedules */
  uint8_t in, out;    /* enum tt_cover */
  uint8_t is_shared;  /* one share for each rank */
  uint8_t is_apart;   /* IN and OUT never are the same memory */
  uint8_t reduces, has_root; /* these follow from the others */
  enum tt_from from;
};

extern const struct tt_kind tt_kinds[TT_COLLECTIVES]; /* by enum tt_collective */

/* 1 if two names of collectives or algorithms are equal but for underscores, hyphens and the case of letters; they may
 * be written so everywhere. */
int tt_same_name(const char *a, const char *b);

/* The collective of that name ("all_reduce", also "allreduce" or "All-Reduce"), or TT_NO_COLLECTIVE. */
int tt_kind_find(const char *name);

/* "all_reduce, reduce, ...", cut at size; returns text. */
const char *tt_kind_names(char *text, size_t size);
#define TT_KIND_NAMES_BYTES 200

#endif
