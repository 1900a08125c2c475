/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicator, as all other folders see it: created by a resumable state machine, then a queue of operations that
 * one thread at a time moves, whoever holds its owner word: the caller, or the progress thread of streams. Its fields
 * are this folder's (private.h). Arguments are checked by api before they come here; handles are checked here. */
#ifndef TT_COMM_H
#define TT_COMM_H

#include <stdio.h>

#include "exec/exec.h"

struct tt_pricing;
struct tt_table;
struct tt_topology;
struct tt_tuning;

/* What is fixed once a communicator is ready. */
struct tt_comm_facts {
  int nranks, rank, device;
  int wire_type; /* tuttiDataType_t: in which reductions of tuttiFloat32 are combined and travel */
  int crowded;   /* ranks of this machine for each of its cores, if they are more; else 0 */
  uint32_t serial;    /* of the process's communicators; part of its operations' numbers */
  char name[64];
  char label[96];     /* what errors call it: "communicator "x"", "communicator of 4 ranks" */
  char interface[16]; /* that other hosts are reached over; "": there is none */
  struct tt_settings settings;
};

/* They lie where the communicator begins (private.h): short messages would feel a call. */
static inline const struct tt_comm_facts *tt_comm_facts(const struct tuttiComm *comm)
{
  return (const struct tt_comm_facts *)(const void *)comm;
}

/* ---- check.c: handles ---- */

/* 1: a communicator that was not destroyed. */
int tt_comm_is(const struct tuttiComm *comm);

/* The handle is one of ours and the process is not a forked child. */
tuttiResult_t tt_comm_check(const struct tuttiComm *comm);
tuttiResult_t tt_stream_check(const struct tuttiStream *stream);

/* The communicator accepts operations. */
tuttiResult_t tt_comm_ready_check(const struct tuttiComm *comm);

/* ---- create.c, rest.c, child.c ---- */

struct tt_comm_spec {
  const tuttiUniqueId *id;      /* NULL: made from `parent` */
  struct tuttiComm *parent;
  int color, key;               /* of a split */
  int is_second;                /* 1: a split of all ranks of `parent`, which lives longer: what becomes of them is
                                   logged there */
  const int *exclude;           /* of a shrink: checked; NULL: it is a split */
  int nexclude;
  int nranks, rank, device;
  const tuttiConfig_t *config; /* checked; NULL: defaults */
  const struct tt_settings *settings;
};

/* Makes a communicator that is being created: one of the next three goes on with it. On an error it stays as one whose
 * creation failed, to be destroyed. */
tuttiResult_t tt_comm_create(struct tuttiComm **comm, const struct tt_comm_spec *spec);
/* Waits until it is made, or has failed. */
tuttiResult_t tt_comm_create_wait(struct tuttiComm *comm);
/* Leaves the creation to the progress thread: tuttiInProgress. */
tuttiResult_t tt_comm_create_later(struct tuttiComm *comm);
/* Leaves it to the thread's open group; *slot gets the handle when that ends. later: that does not wait for it. */
tuttiResult_t tt_group_add_creation(struct tuttiComm *comm, tuttiComm_t *slot, int later);

/* The caller's handle of a creation that goes on or has succeeded. NULL where that is of a split without color: then
 * it is destroyed here. */
tuttiComm_t tt_comm_handle(struct tuttiComm *comm);

/* Whether a parent, which is no more than a communicator, can be shrunk to all ranks but these n. aborts: operations
 * of it end here, on all ranks, and it may have failed. */
tuttiResult_t tt_shrink_check(struct tuttiComm *parent, const int *exclude, int n, int aborts);

/* ---- health ---- */

/* What the communicator says of itself: tuttiSuccess, tuttiInProgress, or its first error, whose sentence
 * becomes the calling thread's. */
tuttiResult_t tt_comm_health(const struct tuttiComm *comm);

/* The same for the user: after this rank has revoked it nothing of it is an error. */
tuttiResult_t tt_comm_async_error(const struct tuttiComm *comm);

/* 1: it has failed, on this rank or another one. */
int tt_comm_has_failed(const struct tuttiComm *comm);

/* Ranks that are lost, into ranks[most]; how many there are in all. */
int tt_comm_lost(const struct tuttiComm *comm, int *ranks, int most);

/* "rank 3 (host h, pid 1234)" and the like; returns text. */
const char *tt_comm_rank_text(const struct tuttiComm *comm, int rank, char *text, size_t size);

/* This rank cannot do its part, for the reason of the calling thread's last sentence: ends the communicator for all
 * ranks, so that nobody waits for it. op: number of the call, 0: none yet. Returns the code that counts. */
tuttiResult_t tt_comm_give_up(struct tuttiComm *comm, tuttiResult_t code, uint64_t op);

/* Ends it on all ranks, for this reason of this rank. is_told: another communicator of these ranks says so, too, and
 * one warning is enough. */
void tt_comm_fail(struct tuttiComm *comm, tuttiResult_t code, const char *sentence, int is_told);

/* ---- op.c: operations ---- */

/* Runs a collective now, on the calling thread, after what is queued. */
tuttiResult_t tt_comm_run(struct tuttiComm *comm, struct tt_binding *binding);

/* Puts a collective into the thread's open group, or else into the stream. */
tuttiResult_t tt_comm_queue(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding);

/* Waits until the queue is empty; the first error of the communicator. */
tuttiResult_t tt_comm_drain(struct tuttiComm *comm);

struct tt_op;

/* Queues a collective that its caller drives; NULL: out of memory, and nothing was begun. */
struct tt_op *tt_op_begin(struct tuttiComm *comm, const struct tt_binding *binding);
/* Moves the oldest operation of the op's communicator if nobody else does: 1 if something moved. `look`: a millisecond
 * has passed: compare calls. */
int tt_op_drive(struct tt_op *op, int look);
/* 1: it is over. */
int tt_op_done(const struct tt_op *op);
/* By who alone drives it: it has begun all its segments, as the oldest of its communicator. */
int tt_op_ending(const struct tt_op *op);
/* Gives back one that is over: why it failed, if it did: the communicator's first error, or that it was aborted. */
tuttiResult_t tt_op_end(struct tt_op *op);

/* ---- group.c ---- */

int tt_group_active(void);
/* Calls on the communicator that wait in this thread's open group. */
int tt_group_holds(const struct tuttiComm *comm);
void tt_group_start(void);
tuttiResult_t tt_group_end(void);
/* A call inside the group was refused: the group will not run, and its end says why. Returns code. */
tuttiResult_t tt_group_refuse(tuttiResult_t code);
/* A send or receive, inside a group; its number is set later. All of one communicator are carried out together after
 * the group's collectives. */
tuttiResult_t tt_group_transfer(struct tuttiComm *comm, struct tuttiStream *stream,
                                const struct tt_transfer *transfer);

/* ---- stream.c ---- */

tuttiResult_t tt_stream_create(struct tuttiStream **stream);
tuttiResult_t tt_stream_query(struct tuttiStream *stream);
tuttiResult_t tt_stream_synchronize(struct tuttiStream *stream);
tuttiResult_t tt_stream_destroy(struct tuttiStream *stream);

/* Where the stream's queue ends now; and tuttiInProgress until all that was queued up to there has ended, then
 * tuttiSuccess, or the stream's first error. */
uint64_t tt_stream_mark(struct tuttiStream *stream);
tuttiResult_t tt_stream_passed(struct tuttiStream *stream, uint64_t mark);

/* ---- redop.c ---- */

/* An operation made by tuttiRedOpCreatePreMulSum. */
struct tt_redop {
  int used, type;
  uint64_t scalar;  /* bits of one element */
  const void *at;   /* where it is read each time; NULL: scalar */
};

/* Operations with a scalar; tuttiInvalidArgument if `op` is none of comm's. */
tuttiResult_t tt_redop_create(struct tuttiComm *comm, const struct tt_redop *redop, tuttiRedOp_t *op);
tuttiResult_t tt_redop_destroy(struct tuttiComm *comm, tuttiRedOp_t op);
const struct tt_redop *tt_redop_get(const struct tuttiComm *comm, tuttiRedOp_t op);

/* ---- memory.c: the user's ---- */

/* As tuttiMemAlloc and tuttiMemFree: ranks of this host read such memory where it lies. */
tuttiResult_t tt_user_alloc(void **memory, size_t size);
tuttiResult_t tt_user_free(void *memory);

/* Makes memory known to all transports that have a use for it. *handle is NULL if none has. Errors: tuttiSystemError:
 * one of them cannot; then none is told. */
tuttiResult_t tt_comm_register(struct tuttiComm *comm, void *buff, size_t size, void **handle);
/* Errors: tuttiInvalidArgument: comm made no such handle, or it was given back already. */
tuttiResult_t tt_comm_deregister(struct tuttiComm *comm, void *handle);

/* ---- what it is made of ---- */

/* Where the ranks are; who is near whom. */
const struct tt_topology *tt_comm_topology(const struct tuttiComm *comm);
const struct tt_groups *tt_comm_groups(const struct tuttiComm *comm);

#define TT_COMM_TRANSPORTS 8 /* at most */

/* Its t-th transport; NULL: it has no more. */
const struct tt_transport_ops *tt_comm_transport(const struct tuttiComm *comm, int t);
/* The number of the one that leads to a rank. */
int tt_comm_route(const struct tuttiComm *comm, int rank);

/* The table by which algorithms are chosen. All ranks set the same one between the same two operations, and nothing is
 * queued: a call must be carried out alike everywhere. */
const struct tt_table *tt_comm_table(const struct tuttiComm *comm);
void tt_comm_table_set(struct tuttiComm *comm, const struct tt_table *table);

/* What rank 0's table is made from; points into the communicator. Rank 0's, from the time on at which ranks know who is
 * where. Errors: those of the profile; tuttiSystemError. */
tuttiResult_t tt_pricing_create(struct tt_pricing **pricing, const struct tuttiComm *comm);
const struct tt_tuning *tt_pricing_tuning(const struct tt_pricing *pricing);
void tt_pricing_destroy(struct tt_pricing *pricing); /* NULL is allowed */

/* ---- info.c ---- */

/* Writes the version, the settings, and what communicators of this process have at hand: the machine, kernels,
 * transports, memory, algorithms. Errors, before anything is written: those of TUTTI_KERNELS. */
tuttiResult_t tt_info_print(FILE *out, const struct tt_settings *settings);

/* ---- suspend.c ---- */

/* Of one that is ready: waits until its operations are done, then takes no more. releases: frees what the next ones can
 * make anew. The communicator's first error. */
tuttiResult_t tt_comm_suspend(struct tuttiComm *comm, int releases);
/* Errors: tuttiInvalidUsage: it is not suspended. */
tuttiResult_t tt_comm_resume(struct tuttiComm *comm);

struct tt_held {
  int is_suspended;
  uint64_t spare, rest; /* bytes of its buffers; those that a suspend releases, and others */
};

/* Errors: as tt_comm_ready_check, but of one that is suspended. */
tuttiResult_t tt_comm_held(struct tuttiComm *comm, struct tt_held *held);

/* ---- end.c ---- */

tuttiResult_t tt_comm_finalize(struct tuttiComm *comm);
tuttiResult_t tt_comm_destroy(struct tuttiComm *comm);
tuttiResult_t tt_comm_abort(struct tuttiComm *comm);
tuttiResult_t tt_comm_revoke(struct tuttiComm *comm);

#endif
