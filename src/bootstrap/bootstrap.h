/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up: the unique id, the rendezvous of all ranks, and what launchers say. */
#ifndef TT_BOOTSTRAP_H
#define TT_BOOTSTRAP_H

#include "net/net.h"

/* The 128 bytes of tuttiUniqueId, taken apart:
 * magic 4 | version 2 | flags 2 | job 16 | key 32 | address 32 | root's pid 4 | root's host id 8 |
 * root's start time 8 | zero ... */
struct tt_id {
  uint16_t flags; /* TT_ID_* */
  struct tt_pass pass;
  struct tt_address root; /* where the rendezvous is */
  int32_t root_pid;       /* 0: not known (fixed address) */
  uint64_t root_host, root_start;
};
enum { TT_ID_FIXED = 1 }; /* the address was given by the user: rank 0 opens it */

/* Errors of unpack: tuttiInvalidArgument: not made by this library, or by another version. */
void tt_id_pack(const struct tt_id *id, tuttiUniqueId *out);
tuttiResult_t tt_id_unpack(struct tt_id *id, const tuttiUniqueId *in);

/* A fresh id whose root (a door and a state machine on the service thread) runs in this process until
 * one communicator has been made, or with TUTTI_COMM_ID the fixed one without a root. Mixes in
 * TUTTI_KEY_FILE. Errors as tuttiGetUniqueId. */
tuttiResult_t tt_id_create(struct tt_id *id, const struct tt_settings *settings);

/* One rank's side of the rendezvous. Resumable: start, then poll. Ranks meet in rounds; in each
 * all ranks give `len` bytes (equal on all, at most TT_CARD_BYTES) and get those of all, in rank order.
 * The root refuses, naming the ranks: two claims to one rank, unlike nranks, len or `agreement`
 * (a hash of what must be equal; `version` is compared first). If a rank dies (end of its
 * connection, or its process gone on a host where one can look) all others get tuttiRemoteError
 * naming rank, pid and host; if ranks are missing at the deadline, tuttiRemoteError naming them. */
#define TT_CARD_BYTES 2048
struct tt_rendezvous;

struct tt_rendezvous_spec {
  const struct tt_id *id; /* copied */
  int nranks, rank;
  uint64_t agreement;     /* settings and nothing else */
  uint64_t host;          /* tt_host_id of this rank */
  uint64_t deadline_ns;   /* CLOCK_MONOTONIC */
  const struct tt_settings *settings; /* must live as long as the rendezvous */
};

/* With TT_ID_FIXED rank 0 also opens the root here. */
tuttiResult_t tt_rendezvous_start(struct tt_rendezvous **rendezvous,
                                  const struct tt_rendezvous_spec *spec);
/* Starts a round; the bytes of `mine` are copied; `all` (nranks * len bytes) must live until poll
 * says tuttiSuccess. */
tuttiResult_t tt_rendezvous_gather(struct tt_rendezvous *rendezvous, const void *mine, size_t len,
                                   void *all);
/* Drives connection and round: tuttiInProgress, tuttiSuccess (round done), or an error. */
tuttiResult_t tt_rendezvous_poll(struct tt_rendezvous *rendezvous);
/* Tells the root why this rank gives up, so that all others hear it (before destroy). */
void tt_rendezvous_fail(struct tt_rendezvous *rendezvous, tuttiResult_t code,
                        const char *sentence);
void tt_rendezvous_destroy(struct tt_rendezvous *rendezvous); /* NULL is allowed */

/* The answer of tuttiGetLaunch; asks once per process. */
tuttiResult_t tt_launch_get(tuttiLaunch_t *launch);

/* For `tutti run`: writes the id to a sealed memfd that children inherit (not close-on-exec) and
 * returns it; the child's environment then carries TUTTI_LAUNCH_FD, TUTTI_LAUNCH_NPROCS,
 * TUTTI_LAUNCH_PROC, TUTTI_LAUNCH_LOCAL_NPROCS, TUTTI_LAUNCH_LOCAL_PROC. */
tuttiResult_t tt_launch_id_fd(const tuttiUniqueId *id, int *fd);

#endif
