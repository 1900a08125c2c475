/* SPDX-License-Identifier: BSD-3-Clause */
/* A trivial NCCL for ranks of one host, against which gpu_client is proved: what its two files share. */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

#include "driver_load.h"
#include "gpu_nccl.h"

#define RANKS 8
#define PARTS 64
#define RING 1024
#define SLOT ((size_t)20 << 20)
#define SCALAR_AT (SLOT - 64)

enum kind { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, MESSAGES };

/* A copy between memory of the program and a slot. */
struct part {
  uint64_t pointer;
  size_t at, len;
  void *stream;
  int peer; /* of a message */
};

struct op {
  enum kind kind;
  int type, op, root, is_scaled;
  size_t count;
  struct part downs[PARTS], ups[PARTS];
  int ndowns, nups;
  void *stream; /* the words are written and waited for here */
  struct ncclComm *comm;
};

/* In shared memory. */
struct shared {
  int joined;
  int pids[RANKS];
  int colors[RANKS], keys[RANKS]; /* of a split */
  uint32_t split[RANKS];          /* so many times */
  uint32_t arrived[RANKS], left[RANKS];
  size_t messages[RANKS][RANKS]; /* where those of a rank to a peer begin */
};

struct ncclComm {
  int rank, nranks, error, aborts, is_over;
  struct shared *shared;
  unsigned char *in[RANKS], *out; /* slots: everybody's, and where this rank's result is made */
  struct words {
    uint32_t ready, pad[15], done, pad2[15], graph_ready, pad3[15], graph_done;
  } *words; /* pinned */
  void *context, *events[3];
  void *last; /* stream of the newest op */
  int has_last, pidfds[RANKS];
  struct local *local;
  struct op *ops[RING];        /* by number */
  struct op *captured[RING];   /* by id */
  uint32_t called, started, ran;
  int ncaptured;
  uint32_t splits;
};

/* fake_nccl_host.c: the thread of a communicator, which makes no call of the driver. */
void *host_main(void *comm);

#endif
