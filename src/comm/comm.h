/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicator, as all other folders see it: created by a resumable state machine, then a queue of operations. One
 * thread at a time moves it, the holder of its owner word: the caller, or the progress thread of streams. No other
 * folder knows its fields (private.h). The functions of check.c check handles; api checks all other arguments. */
#ifndef TT_COMM_H
#define TT_COMM_H

#include <stdio.h>

#include "exec/exec.h"
#include "tutti_tools.h"

struct tt_pricing;
struct tt_table;
struct tt_topology;
struct tt_tuning;
struct tuttiEvent;

/* The facts of a communicator: fixed once it is ready. */
struct tt_comm_facts {
  int nranks, rank, device; /* of the present view (views.c) */
  int first_nranks, first_rank; /* of the first one: those of its watch */
  int wire_type;      /* tuttiDataType_t in which reductions of tuttiFloat32 are combined and travel */
  int oversubscribed;        /* ranks of this machine for each of its cores, if they are more; else 0 */
  size_t slot_bytes;  /* of each slot, on ranks that meet a GPU (cuda/stream.h); the same on all ranks */
  size_t piece_bytes; /* slot_bytes if any rank does, else 0: calls are cut alike on all ranks (exec.h) */
  int root_rank, root_nranks; /* those of the communicator from which this one comes by splits: names of files */
  int is_fusions;     /* 1: a fusion has made it for its messages */
  uint32_t serial;    /* its number in the process, which is part of the numbers of its scalar operations */
  char name[64];
  char label[96];     /* its name in errors: "communicator "x"", "communicator of 4 ranks" */
  char interface[16]; /* the interface to other hosts; "": there is none */
  struct tt_settings settings;
};

/* 1: the communicator is of a layer above, not of the program: its name begins with a dot. */
static inline int tt_comm_is_inner(const struct tt_comm_facts *facts)
{
  return facts->name[0] == '.';
}

/* The facts lie at the beginning of the communicator (private.h), because a call would slow short messages down. */
static inline const struct tt_comm_facts *tt_comm_facts(const struct tuttiComm *comm)
{
  return (const struct tt_comm_facts *)(const void *)comm;
}

/* ---- check.c: handles ---- */

/* 1: comm is a communicator that was not destroyed. */
int tt_comm_is(const struct tuttiComm *comm);

/* Checks that the handle is one of ours and that this process is not a forked child. Errors: tuttiInvalidArgument,
 * tuttiInvalidUsage. */
tuttiResult_t tt_comm_check(const struct tuttiComm *comm);
tuttiResult_t tt_stream_check(const struct tuttiStream *stream);
/* 1: it stands for a stream of CUDA. */
int tt_stream_is_cuda(const struct tuttiStream *stream);
/* As well tuttiInvalidUsage: it stands for a stream of CUDA, which the caller does not serve. */
tuttiResult_t tt_host_stream_check(const struct tuttiStream *stream);

/* Checks the same, and that the communicator was made; it may have ended. Errors: as well that of its creation. */
tuttiResult_t tt_comm_made_check(const struct tuttiComm *comm);

/* Checks the same, and that the communicator takes operations. Errors: as well that of its creation. */
tuttiResult_t tt_comm_ready_check(const struct tuttiComm *comm);

/* ---- create.c, rest.c, child.c, grow.c ---- */

struct tt_comm_spec {
  const tuttiUniqueId *id;      /* NULL: made from `parent`; of a grow: another rank of that has it */
  struct tuttiComm *parent;
  int grows;                    /* 1: `parent` and new ranks, nranks together; rank is that in the parent */
  int color, key;               /* of a split */
  int is_second;                /* 1: a split of all ranks of `parent`, which lives longer and logs their fates */
  const int *exclude;           /* of a shrink: checked; NULL: it is a split */
  int nexclude;
  int nranks, rank, device;
  const tuttiConfig_t *config; /* checked; NULL: defaults */
  const struct tt_settings *settings;
};

/* Begins a communicator; one of the next three functions continues its creation. On an error *comm may be a
 * communicator whose creation failed: the caller destroys it. */
tuttiResult_t tt_comm_create(struct tuttiComm **comm, const struct tt_comm_spec *spec);
/* Waits until the creation has ended. */
tuttiResult_t tt_comm_create_wait(struct tuttiComm *comm);
/* The same of several, which go on at once. Returns the first one's error that has one. */
tuttiResult_t tt_comms_create_wait(struct tuttiComm *const *comms, int n);
/* Leaves the creation to the progress thread: tuttiInProgress. */
tuttiResult_t tt_comm_create_later(struct tuttiComm *comm);
/* Leaves the creation to the thread's open group, whose end writes the handle to *slot. later: the end does not wait
 * for the creation. */
tuttiResult_t tt_group_add_creation(struct tuttiComm *comm, tuttiComm_t *slot, int later);

/* Returns the user's handle of a creation that is under way or has succeeded. A split without color has none: destroys
 * it and returns NULL. */
tuttiComm_t tt_comm_handle(struct tuttiComm *comm);

/* Checks that a parent can be shrunk to all ranks but these n. aborts: ends its operations on all ranks, and the parent
 * may have failed. Errors: those of tt_comm_ready_check; without `aborts` the parent's failure. */
tuttiResult_t tt_shrink_check(struct tuttiComm *parent, const int *exclude, int n, int aborts);

/* ---- views.c ---- */

/* Refuses for communicators with fault_level 1: `what`, in the plural. Errors: tuttiInvalidUsage. */
tuttiResult_t tt_views_refuse(const struct tuttiComm *comm, const char *what);

/* ---- health ---- */

/* The state of the communicator: tuttiSuccess, tuttiInProgress (it is being created), or its first error, whose
 * sentence becomes the calling thread's. */
tuttiResult_t tt_comm_health(const struct tuttiComm *comm);

/* The same for the user: with fault_level 1 the error that has ended it for this rank, whatever ranks are lost. */
tuttiResult_t tt_comm_standing(const struct tuttiComm *comm);

/* The same, but tuttiSuccess once this rank has revoked the communicator. */
tuttiResult_t tt_comm_async_error(const struct tuttiComm *comm);

/* 1: the communicator has failed, on this rank or another one. */
int tt_comm_has_failed(const struct tuttiComm *comm);

/* Shows `tutti status` what this rank has not pushed yet (watch/watch.h). One thread. */
void tt_comm_show_lacks(struct tuttiComm *comm, const struct tt_lacks *lacks);

/* Writes the lost ranks to ranks[most]; returns the number of all lost ranks. */
int tt_comm_lost(const struct tuttiComm *comm, int *ranks, int most);

/* From now on the loss of a rank does not end the communicator, which carries messages with tags alone. */
void tt_comm_spare(struct tuttiComm *comm);

/* After that: 1: the rank is lost; the rank has left in good order. Any thread; no lock. */
int tt_comm_is_lost(const struct tuttiComm *comm, int rank);
int tt_comm_has_left(const struct tuttiComm *comm, int rank);

/* Copies between memory of a GPU and the host's, beside all calls, for a caller who waits; one thread at a time.
 * Errors: tuttiInvalidUsage: the communicator belongs to no CUDA context; tuttiUnhandledCudaError; that of the
 * communicator, if it fails meanwhile. The communicator stays as it is. */
tuttiResult_t tt_comm_copy(struct tuttiComm *comm, void *dst, const void *src, size_t bytes);

/* Writes "rank 3 (pid 1234 on host h)" or the like; returns text. */
const char *tt_comm_rank_text(const struct tuttiComm *comm, int rank, char *text, size_t size);

/* This rank cannot do its part, for the reason in the calling thread's last sentence: ends the communicator on all
 * ranks, so that no rank waits for this one. op: number of the call, 0: none yet. Returns the communicator's error. */
tuttiResult_t tt_comm_give_up(struct tuttiComm *comm, tuttiResult_t code, uint64_t op);

/* Ends the communicator on all ranks with this error of this rank. is_told: another communicator of the same ranks
 * tells it already, so no second warning is logged. */
void tt_comm_fail(struct tuttiComm *comm, tuttiResult_t code, const char *sentence, int is_told);

/* ---- op.c: operations ---- */

/* Runs a collective now, on the calling thread, after the operations that are queued. */
tuttiResult_t tt_comm_run(struct tuttiComm *comm, struct tt_binding *binding);

/* Puts a collective into the thread's open group, or else into the stream. */
tuttiResult_t tt_comm_queue(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding);

/* Waits until the queue is empty; returns the communicator's first error. */
tuttiResult_t tt_comm_drain(struct tuttiComm *comm);

struct tt_op;

/* Queues a collective that the caller drives. NULL: out of memory; nothing was begun. */
struct tt_op *tt_op_begin(struct tuttiComm *comm, const struct tt_binding *binding);
/* Moves the oldest operation of the op's communicator unless another thread does; returns 1 if something moved. look: a
 * millisecond has passed, so the calls of all ranks are compared. */
int tt_op_drive(struct tt_op *op, int look);
/* 1: the operation is over. */
int tt_op_done(const struct tt_op *op);
/* 1: the communicator's oldest operation has begun all its segments. For the one thread that drives it. */
int tt_op_ending(const struct tt_op *op);
/* Gives back an operation that is over. Returns tuttiSuccess, or the reason of its failure: the communicator's first
 * error, or the error of an aborted one. */
tuttiResult_t tt_op_end(struct tt_op *op);

/* ---- message.c: messages with tags, beside operations; any threads, also while others are in operations ---- */

/* A send or a receive of the user. */
struct tuttiMessage {
  uint32_t magic;
  struct tt_message message;
  struct tuttiComm *comm; /* its struct lives until the message is given back */
  size_t room;
  int peer, tag;          /* as they were asked for */
  int is_kept;            /* 1: it was begun by tt_message_begin */
  int is_given_back;      /* guarded by tt_process.mutex */
  _Atomic int is_over;
  char sentence[TT_SENTENCE_BYTES]; /* once it is over with an error */
};

/* Carries out a message whose peer, tag, sends, data, bytes and urgency are set and checked. Errors: the
 * communicator's, the message's; tuttiSystemError. */
tuttiResult_t tt_message_run(struct tuttiComm *comm, struct tuttiMessage *message);

/* Begins a message that tt_alloc has made; the progress thread helps it. Errors: the communicator's;
 * tuttiSystemError; then the caller frees it. */
tuttiResult_t tt_message_begin(struct tuttiComm *comm, struct tuttiMessage *message);

/* Waits until it is over, for timeout_ms, < 0: as long as it takes. tuttiInProgress: it is not over. Returns its
 * result. */
tuttiResult_t tt_message_wait(struct tuttiMessage *message, int timeout_ms);

/* Begins a message in memory of the caller, whom nobody helps: it calls tt_messages_drive until is_over is 1, and then
 * tt_message_result. Errors: as tt_message_run. */
tuttiResult_t tt_message_post(struct tuttiComm *comm, struct tuttiMessage *message);
tuttiResult_t tt_message_result(struct tuttiMessage *message);

/* Moves all messages of the communicator; 1: something moved. look: a millisecond has passed. */
int tt_messages_drive(struct tuttiComm *comm, int look);

/* For waiters (struct tt_waiter: sleep) of messages: the sleeper is the communicator. */
enum tt_slept tt_messages_sleep(void *comm, uint64_t ns);

/* The same; wake: a descriptor that ends the sleep, too, when it can be read; -1: none. */
enum tt_slept tt_messages_rest(struct tuttiComm *comm, int wake, uint64_t ns);

/* Ends the use of a message that was begun: it is freed, at its end if it is not over. */
void tt_message_give_back(struct tuttiMessage *message);
tuttiResult_t tt_message_check(const struct tuttiMessage *message);

/* ---- mail.c: a communicator that carries frames, and never operations; for one thread ---- */

/* Makes the mail with these peers (exec.h), and waits until its links are open. Errors end the communicator on all
 * ranks. */
tuttiResult_t tt_comm_mail_make(struct tuttiComm *comm, const int32_t *peers, int npeers, size_t bytes);

/* As tt_mail_post, tt_mail_poll, tt_mail_take and tt_mail_is_sent, except that tuttiInProgress is tuttiSuccess. Between
 * the begin and the end of a round a lost link is an error. is_glance: as tt_mail_glance. */
tuttiResult_t tt_comm_mail_post(struct tuttiComm *comm, int peer, const void *data);
tuttiResult_t tt_comm_mail_poll(struct tuttiComm *comm, int is_glance, int *moved);
const void *tt_comm_mail_take(struct tuttiComm *comm, int *peer);
int tt_comm_mail_is_sent(const struct tuttiComm *comm);

/* A round is an exchange of frames by all ranks, about `count` words. Its begin and its end are published like those of
 * an operation. tt_comm_round_look compares them between ranks: call it about every millisecond while nothing moves;
 * the wait began at since_ns. So a rank that is late or has left in a round is noticed as in an operation. */
void tt_comm_round_begin(struct tuttiComm *comm, size_t count);
void tt_comm_round_end(struct tuttiComm *comm);
void tt_comm_round_look(struct tuttiComm *comm, uint64_t since_ns);

/* ---- group.c ---- */

int tt_group_active(void);
/* Number of calls on the communicator that wait in this thread's open group. */
int tt_group_holds(const struct tuttiComm *comm);
void tt_group_start(void);
tuttiResult_t tt_group_end(void);
/* A call inside the group was refused: the group will not run, and its end returns the reason. Returns code. */
tuttiResult_t tt_group_refuse(tuttiResult_t code);
/* Adds a send or receive to the open group; its number is set later. All transfers of one communicator are carried out
 * together, after the group's collectives. */
tuttiResult_t tt_group_transfer(struct tuttiComm *comm, struct tuttiStream *stream,
                                const struct tt_transfer *transfer);

/* ---- stream.c ---- */

tuttiResult_t tt_stream_create(struct tuttiStream **stream);
tuttiResult_t tt_stream_from_cuda(struct tuttiStream **stream, void *cuda);
tuttiResult_t tt_stream_query(struct tuttiStream *stream);
tuttiResult_t tt_stream_synchronize(struct tuttiStream *stream);
tuttiResult_t tt_stream_destroy(struct tuttiStream *stream);

/* A mark at the present end of the stream's queue; and tuttiInProgress until all operations before the mark have ended,
 * then tuttiSuccess or the stream's first error. */
uint64_t tt_stream_mark(struct tuttiStream *stream);
tuttiResult_t tt_stream_passed(struct tuttiStream *stream, uint64_t mark);

/* ---- event.c: as the functions of tutti_event.h, with checked arguments ---- */

tuttiResult_t tt_event_check(const struct tuttiEvent *event);
tuttiResult_t tt_event_create(struct tuttiEvent **event);
void tt_event_record(struct tuttiEvent *event, struct tuttiStream *stream);
tuttiResult_t tt_event_query(const struct tuttiEvent *event);
tuttiResult_t tt_event_synchronize(const struct tuttiEvent *event, int timeout_ms);
tuttiResult_t tt_event_descriptor(struct tuttiEvent *event, int *fd);
void tt_event_destroy(struct tuttiEvent *event);

/* ---- redop.c ---- */

/* An operation made by tuttiRedOpCreatePreMulSum. */
struct tt_redop {
  int used, type;
  uint64_t scalar;  /* bits of one element */
  const void *at;   /* address from which each operation reads the scalar; NULL: it is `scalar` */
};

/* Operations with a scalar. Errors: tuttiInvalidArgument, NULL: `op` is none of comm's. */
tuttiResult_t tt_redop_create(struct tuttiComm *comm, const struct tt_redop *redop, tuttiRedOp_t *op);
tuttiResult_t tt_redop_destroy(struct tuttiComm *comm, tuttiRedOp_t op);
const struct tt_redop *tt_redop_get(const struct tuttiComm *comm, tuttiRedOp_t op);

/* ---- memory.c: memory of the user ---- */

/* As tuttiMemAlloc and tuttiMemFree: other ranks of this host read such memory directly. */
tuttiResult_t tt_user_alloc(void **memory, size_t size);
tuttiResult_t tt_user_free(void *memory);

/* Registers memory with all transports that have a use for it. *handle is NULL if none has. Errors: tuttiSystemError:
 * one of them cannot; then it is registered with none. */
tuttiResult_t tt_comm_register(struct tuttiComm *comm, void *buff, size_t size, void **handle);
/* Errors: tuttiInvalidArgument: comm made no such handle, or has taken it back already. */
tuttiResult_t tt_comm_deregister(struct tuttiComm *comm, void *handle);

/* ---- parts.c, price.c: parts of a communicator ---- */

/* The places of the ranks, and the groups of near ranks. */
const struct tt_topology *tt_comm_topology(const struct tuttiComm *comm);
const struct tt_groups *tt_comm_groups(const struct tuttiComm *comm);

#define TT_COMM_TRANSPORTS 8 /* at most */

/* The t-th transport of the communicator, the first one that of a rank to itself; NULL: it has fewer. */
const struct tt_transport_ops *tt_comm_transport(const struct tuttiComm *comm, int t);
/* The number of the transport that leads to a rank. */
int tt_comm_route(const struct tuttiComm *comm, int rank);

/* Sets all fields but `size` of *info, which is zeroed. The communicator is ready, or was. */
void tt_comm_info(const struct tuttiComm *comm, tuttiCommInfo_t *info);
/* Writes the choice for a share of `bytes`. */
void tt_comm_algorithm(const struct tuttiComm *comm, int collective, uint64_t bytes, char text[TUTTI_ALGORITHM_BYTES]);

/* The byte that barriers combine, which is of no other use. */
void *tt_comm_barrier_byte(struct tuttiComm *comm);

/* The decision table. All ranks set the same table between the same two operations, while nothing is queued, because
 * all ranks must carry out a call alike. From then on nothing is learnt. */
const struct tt_table *tt_comm_table(const struct tuttiComm *comm);
void tt_comm_table_set(struct tuttiComm *comm, const struct tt_table *table);

/* The input of rank 0's decision table: prices, and the tuning, which points to them and into the communicator. For
 * rank 0, once the places of the ranks are known. Errors: those of the profile; tuttiSystemError: no memory. */
tuttiResult_t tt_pricing_create(struct tt_pricing **pricing, const struct tuttiComm *comm);
const struct tt_tuning *tt_pricing_tuning(const struct tt_pricing *pricing);
void tt_pricing_destroy(struct tt_pricing *pricing); /* NULL is allowed */

/* ---- info.c ---- */

/* Writes the version, the settings, and the means of communicators of this process: machine, kernels, transports,
 * memory, algorithms. Errors: those of TUTTI_KERNELS; then nothing is written. */
tuttiResult_t tt_info_list(FILE *out, int json, const struct tt_settings *settings);

/* ---- suspend.c ---- */

/* Waits until the operations of a communicator that is ready are done; then it takes no more. releases: frees the
 * memory that later operations can make anew. Returns the communicator's first error. */
tuttiResult_t tt_comm_suspend(struct tuttiComm *comm, int releases);
/* Errors: tuttiInvalidUsage: the communicator is not suspended. */
tuttiResult_t tt_comm_resume(struct tuttiComm *comm);

struct tt_held {
  int is_suspended;
  uint64_t spare, rest; /* bytes of buffers: those that a suspend releases, and all others */
};

/* Errors: as tt_comm_ready_check, except that a communicator may be suspended. */
tuttiResult_t tt_comm_held(struct tuttiComm *comm, struct tt_held *held);

/* ---- end.c ---- */

tuttiResult_t tt_comm_finalize(struct tuttiComm *comm);
tuttiResult_t tt_comm_destroy(struct tuttiComm *comm);
tuttiResult_t tt_comm_abort(struct tuttiComm *comm);
tuttiResult_t tt_comm_revoke(struct tuttiComm *comm);

#endif
