/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a profile and their keys: the table by which profiles are read, printed and sorted. */
#ifndef TT_PROFILE_LINES_H
#define TT_PROFILE_LINES_H

#include "profile/profile.h"

/* The kind of a key's value, and so the type of the field at its offset. */
enum tt_profile_value {
  TT_VALUE_TEXT,       /* char [TT_PROFILE_TEXT] */
  TT_VALUE_NAME,       /* char [TT_PROFILE_NAME], not empty */
  TT_VALUE_LABEL,      /* the same, but it may be empty */
  TT_VALUE_COUNT,      /* int32_t */
  TT_VALUE_SIZE,       /* uint64_t */
  TT_VALUE_LIMIT,      /* uint64_t or `inf` */
  TT_VALUE_BLOCK,      /* uint32_t */
  TT_VALUE_NUMBER,     /* double */
  TT_VALUE_KIND, TT_VALUE_TYPE, TT_VALUE_OP, TT_VALUE_LEVEL, TT_VALUE_COLLECTIVE,
  TT_VALUE_MEMORY /* int32_t: a number with a name */
};

#define TT_PROFILE_BYTES ((uint64_t)1 << 60) /* largest size */

struct tt_profile_key {
  const char *name;
  enum tt_profile_value value;
  int is_identity;     /* no two lines agree in all keys of this kind; lines are sorted by them, first key first */
  size_t offset;
  double low, high;    /* the range of a number */
};

enum tt_profile_word {
  TT_PROFILE_MACHINE, TT_PROFILE_MEASURED, TT_PROFILE_MISSING, TT_PROFILE_LINK, TT_PROFILE_POINT, TT_PROFILE_REDUCE,
  TT_PROFILE_ANCHOR, TT_PROFILE_LEARNT, TT_PROFILE_WORDS
};

struct tt_profile_line {
  const char *word;
  const char *comment; /* printed above the first such line */
  size_t size;         /* of the struct that a line is read into; 0: the profile itself */
  size_t line;         /* offset of the line's number in it */
  const struct tt_profile_key *keys;
  int nkeys;
};

extern const struct tt_profile_line tt_profile_lines[TT_PROFILE_WORDS];

/* The index-th name of a value of this kind, or NULL after the last one. Some numbers have no name: "". */
const char *tt_profile_name(enum tt_profile_value value, int index);

/* The lines of a word, and in *n their number. */
void *tt_profile_items(const struct tt_profile *profile, enum tt_profile_word word, int32_t *n);

/* Compares two lines by the keys with is_identity. */
int tt_profile_compare(const void *a, const void *b, enum tt_profile_word word);

/* Sorts all lines in the order in which they are printed. */
void tt_profile_sort(struct tt_profile *profile);

#endif
