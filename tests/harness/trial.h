/* SPDX-License-Identifier: BSD-3-Clause */
/* One call of any collective, with data whose exact result is known whatever the order of summation, and with every
 * byte around it watched: buffers in place or not, NULL where that is allowed. */
#ifndef TRIAL_H
#define TRIAL_H

#include "tutti.h"

struct trial {
  /* alike on all ranks */
  int nranks;
  int collective; /* enum tt_collective, not TT_PAIRS */
  int type, op;   /* op: below TT_REDOPS; where there is none: ignored */
  int root;       /* where there is none: ignored */
  size_t count;
  const size_t *counts; /* [nranks]: of an all-gather or a reduce-scatter with counts, instead of count; else NULL */
  const size_t *matrix; /* [from * nranks + to]: of an all-to-all with counts, likewise */
  /* this rank's own */
  const size_t *displs[2]; /* [nranks] each: with counts, of the buffer that is sent and of that received; NULL: none */
  int rank;
  int in_place;
  int bare;            /* buffers that are not looked at are NULL; else they are there, and watched */
  size_t shift;        /* bytes by which buffers are not aligned, below TRIAL_SHIFT */
  tuttiRedOp_t handle; /* of TT_PREMUL_SUM: made by trial_redop */
  /* private */
  char *memory[2], *image[2];
  size_t len[2];
  char *in, *out;
};

#define TRIAL_SHIFT 64
#define TRIAL_RANKS 64 /* with counts, at most */

/* 1 if the type has the operation and can hold the result of all ranks exactly. */
int trial_is_exact(int collective, int type, int op, int nranks);

/* Makes the operation with the scalar of trial->rank for trial->type. */
tuttiResult_t trial_redop(struct trial *trial, tuttiComm_t comm);

/* Fills the buffers; 0 if out of memory. Free in any case. */
int trial_prepare(struct trial *trial);
tuttiResult_t trial_call(const struct trial *trial, tuttiComm_t comm, tuttiStream_t stream);
/* 1 if every byte is what it must be; else says on stderr which is not. */
int trial_check(struct trial *trial);
void trial_free(struct trial *trial);

/* All of it, on stream NULL: 1 if all is well. */
int trial_run(struct trial *trial, tuttiComm_t comm);

#endif
