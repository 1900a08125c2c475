/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up: the unique id, the rendezvous of all ranks, and the answers of launchers. */
#ifndef TT_BOOTSTRAP_H
#define TT_BOOTSTRAP_H

#include "net/net.h"

#define TT_RANKS_MAX 65536 /* of one communicator */

/* The 128 bytes of tuttiUniqueId, taken apart:
 * magic 4 | version 2 | flags 2 | job 16 | key 32 | address 32 | root's host id 8 |
 * root's pid_scope 8 | root's start time 8 | root's pid 4 | zero 4 | nonce 8 */
struct tt_id {
  uint16_t flags; /* TT_ID_* */
  struct tt_credentials credentials;
  struct tt_address root; /* where the rendezvous is */
  int32_t root_pid;       /* 0: not known (fixed address) */
  uint64_t root_host, root_start;
  uint64_t root_pid_scope; /* processes of equal pid_scope see each other's pids; 0: not known */
  uint64_t nonce;     /* tells ids of one fixed address apart, in the process that uses them */
};
enum {
  TT_ID_FIXED = 1,      /* the user gave the address: rank 0 opens it */
  TT_ID_MIXED = 0x100,  /* the key file is mixed into credentials.key; in memory only, never packed */
  TT_ID_USERS = 0x400,  /* the key is no secret, but only our own user reaches root; in memory only */
  TT_ID_DERIVED = 0x200 /* made by every rank alone: its root may open after the ranks dial, and each rank has
                         * credentials of its own; in memory only */
};

/* Error of unpack: tuttiInvalidArgument: the id was not made by this library, or by another version of it. */
void tt_id_pack(const struct tt_id *id, tuttiUniqueId *out);
tuttiResult_t tt_id_unpack(struct tt_id *id, const tuttiUniqueId *in);

/* Mixes TUTTI_KEY_FILE into the key, so that the 128 bytes alone do not admit. Every rank calls this once after unpack
 * and before anything uses id->credentials or id->root. Without the setting a fixed loopback address becomes a local
 * one that only processes of this user can use (unless TUTTI_AUTH=none), and any other id is only marked. Errors:
 * tuttiInvalidUsage about the key file. */
tuttiResult_t tt_id_mix(struct tt_id *id, const struct tt_settings *settings);

/* Each rank of a process may use an id once: keeps a hash of id and rank, which *used names from then on. The last
 * TT_IDS_KEPT hashes are kept. Errors: tuttiInvalidUsage, with the remedy, if the id was used before. */
tuttiResult_t tt_id_use(const tuttiUniqueId *id, int rank, uint64_t *used);
enum tt_use { TT_USE_BEGUN, TT_USE_DONE, TT_USE_FAILED, TT_USE_NONE };
/* Says how the use of the id ended. NONE: it may be used again. */
void tt_id_used(uint64_t used, enum tt_use how);

/* Makes a fresh id, whose root (a listener and a state machine on the service thread) runs in this process until
 * one communicator has been made; with TUTTI_COMM_ID, the fixed id without a root. The id is not mixed yet and can be
 * packed. A root that no rank ever dials lives until the process ends. Errors as tuttiGetUniqueId. */
tuttiResult_t tt_id_create(struct tt_id *id, const struct tt_settings *settings);

/* A process of the job that has ended; status comes from waitpid. */
struct tt_ended {
  int proc, nprocs, pid, status;
};
/* Tells the root of `id`, if it is in this process and still runs; see tuttiLaunchEnded. */
void tt_id_ended(const struct tt_id *id, const struct tt_ended *ended);

/* Makes the fixed id of "host:port" (TUTTI_COMM_ID, torchrun): job and key come from the text, so
 * that all processes make the same id. Blocks until the host's name is known, for TUTTI_INIT_TIMEOUT_MS at most; the
 * start-up then has as much less.
 * Errors: tuttiInvalidArgument: no such address; tuttiInvalidUsage: not loopback, and neither TUTTI_KEY_FILE nor
 * TUTTI_AUTH=none. */
tuttiResult_t tt_id_fixed(struct tt_id *id, const char *text, const struct tt_settings *settings);

/* How long a start-up with this id may take from now on: init_timeout_ms, less what tt_id_fixed has waited for the name
 * of the host, which counts once; at least 1 s, or init_timeout_ms if that is less. */
uint64_t tt_start_limit(const struct tt_id *id, const struct tt_settings *settings);

/* One rank's side of the rendezvous. Resumable: start, then poll. Ranks meet in rounds of `len` bytes (equal on all,
 * at most TT_PEER_INFO_BYTES): each rank gives `len` bytes and gets those of all, in rank order, or all get those of
 * rank 0. The root refuses, naming the ranks: two claims to one rank; unlike nranks, len or `agreement` (a hash of the
 * settings that must be equal; `version` is compared first). If a rank dies (its connection ends, or its process is
 * gone on a host where the root can look), all others get tuttiRemoteError naming rank, pid and host; if ranks are
 * missing at the deadline, tuttiRemoteError naming them. In the root's process, poll reports the end of a round or of
 * the start-up only after all connected ranks were told of it, so that the process may end right after. */
#define TT_PEER_INFO_BYTES 12288
struct tt_rendezvous;

struct tt_rendezvous_spec {
  const struct tt_id *id; /* copied; after tt_id_mix */
  const struct tt_credentials *members; /* with TT_ID_DERIVED, on rank 0: those of each rank; copied */
  int nranks, rank;
  uint64_t agreement;     /* hash of settings and nothing else */
  uint64_t host;          /* tt_host_id of this rank: root and rank of one host watch each other's process */
  uint64_t limit_ns;      /* of tt_start_limit: this rank waits so long from now on; on rank 0 so does the root */
  const struct tt_settings *settings; /* must live as long as the rendezvous */
};

/* If rank 0 is in the root's process, the root waits as long as rank 0 does. With TT_ID_FIXED rank 0
 * also opens the root, here or in its first polls (if an earlier communicator with the same id is not yet complete on
 * all ranks, it waits for that one). */
tuttiResult_t tt_rendezvous_start(struct tt_rendezvous **rendezvous,
                                  const struct tt_rendezvous_spec *spec);
/* Starts a round; the bytes of `mine` are copied; `all` (nranks * len bytes) must live until poll
 * says tuttiSuccess. */
tuttiResult_t tt_rendezvous_gather(struct tt_rendezvous *rendezvous, const void *mine, size_t len,
                                   void *all);
/* The same, but only rank 0 gives bytes (elsewhere `mine` is NULL): `all` receives these `len` bytes only. */
tuttiResult_t tt_rendezvous_broadcast(struct tt_rendezvous *rendezvous, const void *mine, size_t len, void *all);
/* Drives connection and round. Returns tuttiInProgress, tuttiSuccess (the round is done; before the first round: this
 * rank has joined), or an error, which stays. Never blocks. */
tuttiResult_t tt_rendezvous_poll(struct tt_rendezvous *rendezvous);
/* After the first round: 32 random bytes of this start-up that all ranks have, and nobody else, whatever else is known
 * to whom. */
void tt_rendezvous_secret(const struct tt_rendezvous *rendezvous, uint8_t secret[TT_KEY_BYTES]);
/* Adds the events that poll waits for after tuttiInProgress, except deaths and the deadline. */
void tt_rendezvous_pollset(const struct tt_rendezvous *rendezvous, struct tt_pollset *pollset);
/* Tells the root why this rank gives up, so that all others learn it (before destroy). They get `code` and the sentence
 * with this rank's name before it. A rank that has not joined yet joins to say so, within 1 s, unless the id is
 * derived. Nothing happens if the start-up has failed already. If the root is in this process, the function waits until
 * the connected ranks were told (1 s at most), so that the process may end right after. 1: the root has it, or has
 * itself said why the start-up fails; 0: no rank learns of it this way. */
int tt_rendezvous_fail(struct tt_rendezvous *rendezvous, tuttiResult_t code, const char *sentence);
/* Leaves the start-up: in good order if at least one round is done, none is under way and nothing failed; else
 * all others learn that this rank has left. NULL is allowed. */
void tt_rendezvous_destroy(struct tt_rendezvous *rendezvous);

/* The answer of tuttiGetLaunch; asks once per process. */
tuttiResult_t tt_launch_get(tuttiLaunch_t *launch);

/* For `tutti run`: writes the id to a sealed memfd that children inherit (not close-on-exec) and
 * returns it; the child's environment then carries TUTTI_LAUNCH_FD, TUTTI_LAUNCH_NPROCS,
 * TUTTI_LAUNCH_PROC, TUTTI_LAUNCH_LOCAL_NPROCS, TUTTI_LAUNCH_LOCAL_PROC. */
tuttiResult_t tt_launch_id_fd(const tuttiUniqueId *id, int *fd);

/* Restarts of `tutti run`: writes n ids to memory that children inherit through *fd, sealed but for their use. Errors:
 * tuttiSystemError. */
tuttiResult_t tt_joins_make(const tuttiUniqueId *ids, int n, int *fd);
/* Takes the first of them that nobody has taken, for a communicator of nranks ranks: *has, 0: there is none left.
 * Errors: tuttiInvalidUsage: this job has no such memory. */
tuttiResult_t tt_join_take(int nranks, tuttiUniqueId *id, int *has);
/* In the launcher: restarts has the number of the restart of each process that runs; 0: none. *can_join, 0: none of
 * them is at work, so those that wait are told. Errors: tuttiInvalidUsage: fd is none of these. */
tuttiResult_t tt_joins_running(int fd, const int *restarts, int n, int *can_join);
/* In a process that was started again: waits until its id was taken. Errors: tuttiInvalidUsage: it was not;
 * tuttiRemoteError: the limit has passed, or no other rank is at work. */
tuttiResult_t tt_join_await(int limit_ms, tuttiUniqueId *id, int *nranks);

#endif
