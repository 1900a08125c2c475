/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of reduce kernels, described completely: drawn by chance, carried out with the table in use, and looked at
 * byte by byte. */
#ifndef REDUCE_CALL_H
#define REDUCE_CALL_H

#include "reduce/reduce.h"

#define CALL_ALSO_APART (-1)
#define CALL_NO_ALSO (-2)

/* More than eight sources share memory, and so do fewer where seed is a multiple of 4. */
struct call {
  int redop, type, nsrc;
  int in_place; /* number of the source that is dst; -1: apart */
  int also;     /* number of the source that is the second destination, or one of the two above */
  int strange;  /* floating-point environment of the caller, of strange.h */
  int streams;  /* 1: results may go past the caches, however short they are */
  size_t count, align; /* align: of dst, bytes behind a multiple of 64; those of the other buffers come from seed */
  uint64_t seed;       /* of values and places */
  struct tt_reduce_arg arg; /* but for `also` */
};

/* A call with nothing special about it, apart, of nsrc sources of `count` elements. */
struct call call_plain(int redop, int type, int nsrc, size_t count);

/* 0 if two buffers that may not be equal would be: then it cannot be carried out. */
int call_is_legal(const struct call *call);

/* Any legal call of at most `most` elements, of any operation and type or of those given. */
struct call call_draw(size_t most, uint64_t *seed);
struct call call_draw_of(int redop, int type, size_t most, uint64_t *seed);

/* NULL if every byte is what tables_judge says: dst and the second destination have the right elements, and no byte
 * beside them, of a source or between them changed; nor did the caller's floating-point environment. Else what is
 * wrong, and with which call: valid until the next call. */
const char *call_fault(const struct call *call);

#endif
