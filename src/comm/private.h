/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of comm only: what a communicator consists of, its operations, and streams. */
#ifndef TT_COMM_PRIVATE_H
#define TT_COMM_PRIVATE_H

#include "comm/comm.h"
#include "topo/topo.h"
#include "tuner/tuner.h"

enum tt_comm_state { TT_COMM_CREATING, TT_COMM_READY, TT_COMM_SUSPENDED, TT_COMM_FINALIZED, TT_COMM_NOT_CREATED };

#define TT_COMM_MAGIC 0x54757474u
#define TT_COMM_PLANS 256 /* programs do call rooted collectives for one root after the other */

struct tt_coded;    /* coded.c */
struct tt_creation; /* creation_private.h */
struct tt_explainer; /* explain.c */

/* More than 25 fields: a queued operation has those of every kind. */
struct tt_op {
  struct tt_op *next_of_comm, *next_of_stream, *next_of_group;
  struct tuttiComm *comm;
  struct tuttiStream *stream; /* NULL: the caller waits for it in its group */
  uint64_t batch;             /* of the stream: ops of one group have the same, and do not wait for each other there */
  struct tt_binding binding;  /* TT_NO_COLLECTIVE: nothing is done; the op only waits for its turn */
  struct tt_coded *coded;     /* a coded reduction, of which binding is the present act; else NULL */
  int transfer_room;          /* of binding.transfers, which belong to the op */
  void *owned;                /* memory of the binding, freed with the op; may be NULL */
  int is_queued, is_abandoned; /* is_abandoned: no caller waits for it; both guarded by tt_process.mutex */
  struct tt_op *next_of_round; /* trigger.c */
  struct tt_slots *slots;    /* if it is triggered or fetched: where it meets the GPU; else NULL */
  void *cuda, *own_cuda;     /* likewise: the CUDA stream to which it goes, and that of its call */
  struct tt_trigger trigger; /* likewise; the binding points here */
  const void *scalar_from;   /* memory of the GPU, from which the scalar has to be brought; NULL: none */
  uint64_t capture;          /* its number, if it is part of a graph, and carried out whenever that wants it; else 0 */
  struct tt_op *next_captured;
  int is_triggered;          /* 1: a CUDA stream waits for it, and no caller does; stream is NULL */
  uint32_t turn;             /* among those of its rank that wait for the GPU */
  int is_enqueued;           /* the calls of its stream are made */
  int is_fetched;            /* 1: its caller, who waits for it, brings it the memory of a GPU (fetch.c) */
  uint32_t brought, taken;   /* then: pieces for which the copies in and out are enqueued */
  int is_quiet;              /* not 0: it has nothing more to enqueue */
  uint64_t fetch_ns;         /* the time since which it waits for the GPU; 0: it does not */
  uint64_t asked_ns;         /* when it last looked whether the context of that has failed */
  tuttiResult_t fetched;     /* the caller's own error */
  int is_begun; /* its observers know of it */
  int started;
  uint64_t since_ns; /* time since which nothing has moved; 0: not known */
  tuttiResult_t result;
  _Atomic int done; /* set last, with release */
};

struct tt_plan_entry {
  int32_t root;
  struct tt_choice choice; /* its algorithm is one of the collective */
  struct tt_plan *plan;
};

/* Tries to shrink a communicator to one set of ranks. */
struct tt_shrinks {
  uint64_t set; /* a hash */
  uint32_t tries;
};

/* ---- learning.c: which choice is the quickest for calls of one shape ---- */

#define TT_LEARN_SHAPES 32 /* of a communicator, that are learnt */

/* A shape: what its calls need. */
struct tt_learn_cell {
  uint32_t quiet; /* the next call but so many less one needs tt_learning_turn; 1: the next one */
  uint16_t shape; /* 1 + index of its learner; 0: it has none */
  uint8_t memory; /* enum tt_memory, as ranks have agreed; malloc's until then */
  uint8_t is_agreed; /* 1: they have, or need not */
  struct tt_choice choice; /* of the call under way, or of the quiet ones */
};

/* The learner of a shape. */
struct tt_learn_shape {
  struct tt_learn learn;
  struct tt_choice arms[TT_LEARN_ARMS];
  uint64_t calls;
  uintptr_t memory; /* the kinds of memory of the calls that count; 0: not known yet */
  uint32_t nalike, nother; /* calls of this period whose time was wanted, which had these and others */
  uint8_t collective, width, size_class, memory_kind; /* as in struct tt_learnt */
  uint8_t is_due;   /* 1: ranks exchange facts before the next call */
  uint8_t is_stuck; /* 1: an arm could not be made ready here */
  uint8_t is_mixed; /* 1: times of calls in another kind of memory than memory_kind have counted */
};

struct tt_learning {
  struct tt_learn_cell cells[TT_ARM_ROWS][TT_WIDTHS][TT_SIZE_CLASSES];
  struct tt_learn_shape shapes[TT_LEARN_SHAPES];
  int nshapes;
  int is_exchanging;
  struct tt_binding exchange; /* of facts */
  int64_t facts[TT_LEARN_FACTS + 1]; /* the last one: OTHER_MEMORY of learning.c */
  uint64_t exchange_ns;       /* when the exchange under way began */
  uint64_t began_ns;          /* of the call under way; 0: its time does not count */
  uint64_t ready_ns;          /* an arm is made ready from then on */
  uint64_t key;               /* tt_learnt_key, on rank 0 */
  const struct tt_heap *heap; /* whose memory peers read where it lies; NULL: none do */
};

#define TT_COMM_REDOPS 4096 /* operations with a scalar that live at once */

/* ---- the communicator: five structs, each for one purpose ---- */

/* The beginning and end of a communicator, and the threads that are inside meanwhile. */
struct tt_comm_life {
  uint32_t magic;     /* 0: it is gone, except for ops that a group still holds */
  _Atomic int state;  /* enum tt_comm_state */
  _Atomic int inside; /* calls of the user's thread that may block; tuttiCommAbort waits for them */
  _Atomic int served; /* the progress thread works on it; likewise */
  _Atomic int aborting;
  int was_aborted;    /* by tuttiCommAbort */
  _Atomic int revoked; /* by this rank */
  _Atomic int revoking; /* calls of tuttiCommRevoke under way; the thread that frees it waits for them */
  int children;       /* communicators that are being made from it, which need its watch; with `ended` guarded by */
  int ended;          /* tt_process.mutex: the last of them frees it */
  _Atomic int refs;   /* 1 while it lives, and 1 for each op taken: a group may outlive its communicator */
  int is_dumped;      /* its last calls were written to a file, or could not be */
  int joined_cuda;    /* 1: it is counted by cuda */
  int holds_progress;
  struct tt_creation *creation; /* until ready */
  tuttiResult_t creation_code;      /* why creation failed */
  char creation_error[TT_SENTENCE_BYTES];
  int is_none;     /* a split without color: there is no communicator; state is TT_COMM_NOT_CREATED */
  struct tt_shrinks *shrinks; /* one for each set of ranks to which shrinks were tried; none is forgotten, as ranks */
  uint32_t nshrinks;          /* in fewer sets would remember more of them */
};

/* More than 25 fields: all parts that a creation makes and the end of the communicator frees. */
struct tt_comm_parts {
  struct tt_credentials credentials;
  struct tt_listener *ip_listener, *local_listener;
  uint8_t *listeners;  /* packed address of the IP listener of each rank, or of its local one if it has none */
  uint8_t secret[TT_KEY_BYTES]; /* of this rank's X25519 keys, by which it shares one with each other rank */
  uint8_t *publics;    /* of all ranks */
  uint64_t *hosts;
  int32_t *pids;
  char *rank_infos;    /* of all ranks: struct rank_info, tt_rank_info_bytes apart */
  struct tt_transport_spec spec; /* the input from which the transports were made */
  struct tt_transport *transports[TT_COMM_TRANSPORTS];
  int ntransports;
  struct tt_watch *watch;
  struct tt_exec *exec;
  struct tt_run *run;
  struct tt_mail *mail;              /* of one that carries frames; else NULL */
  struct tt_meeting *meeting;        /* with other ranks of this process on this GPU; NULL: there are none */
  int place;                         /* there */
  struct tt_views *views;            /* with fault_level 1 or 3; else NULL */
  struct tt_slots *slots;            /* where this rank meets its GPU; NULL: it has none */
  struct tt_slots *own;              /* the same for calls without a stream */
  struct tt_topology topology;       /* where the ranks are */
  struct tt_arrangement arrangement; /* groups of near ranks; the order of the ranks on the wire */
  int32_t position;                  /* of this rank in that order */
  struct tt_cluster cluster;         /* rank 0: the facts on which prices depend */
  struct tt_corrected {
    const char *transport;           /* NULL: nothing is known */
    struct tt_correction by;
  } corrected[TT_LINK_KINDS];        /* corrections by pairs; the same on all ranks */
};

/* Operations that wait, and their numbers. */
struct tt_comm_queue {
  _Atomic int owner;  /* 1: a thread moves this communicator now */
  _Atomic int queued; /* operations in the queue; one more if some are in graphs (replay.c) */
  struct tt_op *first, *last;  /* the queue; guarded by tt_process.mutex */
  struct tt_op *spare;         /* ops to use again; same guard */
  uint64_t last_op;            /* number of the newest collective */
  uint32_t last_turn;          /* of the newest op that meets a GPU; the caller's */
  struct tt_call round;        /* that it is in; op 0: none */
  uint64_t *sent, *received; /* messages to and from each rank */
  struct tt_op *fetching;       /* the op whose caller uses the slots; NULL: none; the caller's */
  uint64_t look_ns;             /* time at which the progress thread next compares calls */
  struct tuttiComm *next_busy; /* in the progress thread's list; same guard */
  int busy;
};

/* Messages with tags, which go beside operations (message.c). */
struct tt_comm_messages {
  struct tt_messages *engine;   /* the owner's; NULL: there has been no message yet */
  struct tt_message *posted, **last; /* messages that the owner has not seen; guarded by tt_process.mutex */
  _Atomic int n;                /* messages that are not over; the queue counts them, too */
  _Atomic int is_free;          /* 1: all calls that are inside go through the queue, so owners may move messages */
  _Atomic int callers;          /* threads inside functions of messages */
  _Atomic int has_progress;     /* 1: it holds the progress thread */
};

/* Memory that grows as it is needed. */
struct tt_room {
  void *memory;
  size_t bytes;
};

/* The buffers of coded reductions. */
struct tt_codes {
  struct tt_room sent, received, values, sums;
};

/* The means of carrying calls out, and their observers. */
struct tt_comm_calls {
  struct tt_table table;
  struct tt_plan_entry plans[TT_COMM_PLANS];
  int nplans;
  struct tt_learning *learning;  /* NULL: nothing is learnt or remembered */
  struct tt_learn_cell *learns;  /* that of the call under way, if its learner is told of it; else NULL */
  uint8_t barrier;        /* the byte that barriers combine */
  struct tt_codes codes;
  uint32_t ncoded;        /* coded reductions so far that were not numbered by their callers */
  struct tt_op *captured, *last_captured; /* operations in graphs; guarded by tt_process.mutex, as the next one */
  struct tt_op *replayed; /* that of the last replay, behind which the next one mostly stands; NULL: none */
  struct tt_redop *redops;
  int nredops;            /* entries of redops, used or not */
  struct tt_registration *registrations; /* memory.c; the owner's */
  struct tt_explainer *explainer;    /* rank 0 with TUTTI_EXPLAIN; else NULL */
  int is_observed;                   /* 1: by the explainer, or by a trace (TUTTI_TIMELINE) */
  int is_counted;                    /* 1: for TUTTI_METRICS, by these transports: bits as in tt_transports */
  int transports_used;
  struct tuttiComm *next_counted;
  uint64_t span_ns;                  /* start of the operation under way, for the trace; 0: there is none */
};

struct tuttiComm {
  struct tt_comm_facts facts;
  struct tt_comm_life life;
  struct tt_comm_queue queue;
  struct tt_comm_parts parts;
  struct tt_comm_calls calls;
  struct tt_comm_messages messages;
};

_Static_assert(offsetof(struct tuttiComm, facts) == 0, "tt_comm_facts looks for them there");

/* ---- create.c ---- */

/* Moves a creation one stage on if it can go on; poll until the result is not tuttiInProgress. */
tuttiResult_t tt_comm_create_poll(struct tuttiComm *comm);
/* Sleeps until a creation under way may go on, or for 2 ms. 0: no descriptor tells of that, and it has not slept. */
int tt_comm_create_nap(const struct tuttiComm *comm);
/* Before a communicator is freed: if it is being created, tells the other ranks that this one has given up. */
void tt_creation_quit(struct tuttiComm *comm);
void tt_creation_destroy(struct tt_creation *creation);

/* ---- op.c ---- */

/* A fresh op for the communicator, from its spares; NULL if out of memory. */
struct tt_op *tt_op_take(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding);
void tt_op_give(struct tt_op *op);
void tt_op_free(struct tt_op *op);
/* Numbers the collective that op->binding is, and starts it on the communicator's run. */
tuttiResult_t tt_op_start(struct tt_op *op);
/* 1: a submitted op, for which the caller waits, has ended, and with it the caller's part. */
int tt_op_is_over(struct tt_op *op);
/* Waits for a submitted op, which the caller helps to move; returns as tt_op_end. */
tuttiResult_t tt_op_await(struct tt_op *op);
/* Abandons a submitted op without a stream, for which no caller waits any more: it gives itself back. */
void tt_op_abandon(struct tt_op *op);
/* Frees the struct itself with its last reference; all its parts are freed already. */
void tt_comm_drop(struct tuttiComm *comm);

/* Puts ops (linked by next_of_group) in the queues of their communicators and streams, all at once. */
void tt_ops_submit(struct tt_op *first);

/* Binds the call to a choice, and finds its plan or makes it. Errors: tuttiSystemError; the schedule's own. */
tuttiResult_t tt_plan_bind(struct tuttiComm *comm, struct tt_binding *binding, const struct tt_choice *choice,
                           struct tt_plan **plan);

/* As tt_op_drive. */
int tt_comm_drive(struct tuttiComm *comm, int look);

/* For waiters of one operation of a communicator (struct tt_waiter: sleep): sleeps until that may go on. */
enum tt_slept tt_comm_sleep(void *comm, uint64_t ns);

/* Ends all queued operations of a communicator that has failed or is being aborted, whatever their streams wait for. */
void tt_comm_flush(struct tuttiComm *comm);

/* The reason why an operation failed: the communicator's first error, or that it was aborted. Its sentence becomes the
 * calling thread's. */
tuttiResult_t tt_comm_why(const struct tuttiComm *comm);

/* The operation or the messages have failed: before the caller learns it, peers lose sight of its memory. Returns
 * result. */
tuttiResult_t tt_comm_halt(struct tuttiComm *comm, tuttiResult_t result);

/* Runs a collective on the calling thread, whatever is queued. */
tuttiResult_t tt_comm_run_here(struct tuttiComm *comm, struct tt_binding *binding);

/* ---- end.c ---- */

/* Frees the means of carrying calls out: none is made on it any more. Nobody is inside. */
void tt_comm_means_free(struct tuttiComm *comm);

/* ---- views.c: fault_level 1 and 3 ---- */

/* From now on calls of this rank end with tuttiInvalidUsage and the sentence. Any thread. */
void tt_views_revoke(struct tuttiComm *comm, const char *sentence);

/* In a creation: makes the views; and the first view, of all ranks, once their hosts are known. Errors:
 * tuttiSystemError; those of tt_view_create. */
tuttiResult_t tt_views_create(struct tuttiComm *comm);
tuttiResult_t tt_views_meet(struct tuttiComm *comm);
/* The communicator is about to be ready: the program sees logical ranks with fault_level 3. */
void tt_views_ready(struct tuttiComm *comm);
void tt_views_destroy(struct tt_views *views); /* NULL is allowed, as are communicators without views below */

/* Runs a collective in the present view, and then its commit barrier; agrees on how it has ended if a rank is lost
 * meanwhile. Errors: tuttiRemoteError: it failed on all ranks that are left, which go on; or they have gone on without
 * this one, or waited for it too long. The code of a rank that gave up. */
tuttiResult_t tt_views_run(struct tuttiComm *comm, struct tt_binding *binding);

/* tuttiSuccess, or the error that has ended the communicator for this rank. Any thread. */
tuttiResult_t tt_views_standing(const struct tuttiComm *comm);

/* The communicator is being aborted by another thread: ends the operation under way. */
void tt_views_interrupt(struct tuttiComm *comm);
/* Ends the communicator that carries operations out; nobody is inside. */
void tt_views_end(struct tuttiComm *comm, int aborts);

/* ---- message.c ---- */

/* Moves messages: for the owner, while messages.n is not 0. */
void tt_messages_move(struct tuttiComm *comm, int look, int *moved);

/* The same for a thread that is in an operation without the owner word, and beside which no other moves messages. */
void tt_messages_move_beside(struct tuttiComm *comm);

/* 1: a thread that is in no operation may move them. */
int tt_messages_are_free(struct tuttiComm *comm);

/* Ends receives for which nothing has begun to come, and waits until all other messages are over, within the limits of
 * one that is waited for. */
tuttiResult_t tt_messages_complete(struct tuttiComm *comm);

/* Ends all messages, with the reason why the communicator has failed; or, if it has not, as unfinished. */
void tt_messages_finish(struct tuttiComm *comm);

/* As tt_comm_drive, for threads that are not inside the communicator. */
int tt_comm_serve(struct tuttiComm *comm, int look);

/* ---- coded.c ---- */

/* Moves a coded reduction, which the communicator's oldest op is; tuttiInProgress while it is not done. Errors end the
 * communicator. */
tuttiResult_t tt_coded_move(struct tt_op *op, int *moved);

/* Frees the buffers; tt_codes_held: their bytes. */
void tt_codes_free(struct tt_codes *codes);
size_t tt_codes_held(const struct tt_codes *codes);

/* ---- explain.c ---- */

/* *pricing is taken over, and is NULL then. table: the file of rules, "" if there is none.
 * Errors: tuttiSystemError: no memory. As tt_rules_load. */
tuttiResult_t tt_explainer_create(struct tt_explainer **explainer, struct tt_pricing **pricing, const char *table);
void tt_explainer_destroy(struct tt_explainer *explainer);

/* Called around an operation, by the owner of a communicator with an explainer. If the shape of the call is new (its
 * collective, type, and bytes in half powers of two), logs the choice, the predicted time and the measured time. */
void tt_explain_begin(struct tuttiComm *comm, const struct tt_call *call);
void tt_explain_end(struct tuttiComm *comm, tuttiResult_t result);

/* Tells what is predicted for a choice that is settled, and for others; NULL: without an explainer. */
const char *tt_explain_choice(const struct tuttiComm *comm, const struct tt_learnt *learnt);

/* ---- learning.c ---- */

/* Before the last round of a creation, and once the table is known. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_learning_create(struct tuttiComm *comm);
void tt_learning_begin(struct tuttiComm *comm);
void tt_learning_destroy(struct tuttiComm *comm);

/* On rank 0, at the end of a communicator that has not failed: what is settled goes into the cache of the host. */
void tt_learning_keep(const struct tuttiComm *comm);

/* A hash of all on which a learnt choice depends beside machine and version: number and places of the ranks,
 * transports, settings of the wire. For rank 0. */
uint64_t tt_learnt_key(const struct tuttiComm *comm);

/* The cell of a call; NULL: such calls are not learnt. size: of an element of the wire type. */
static inline struct tt_learn_cell *tt_learning_cell(struct tt_learning *learning, int collective, size_t size,
                                                     uint64_t bytes)
{
  int row = tt_arms_row(collective), size_class = tt_size_class(bytes);
  if (row < 0 || !bytes || size_class < 0) return NULL;
  return &learning->cells[row][__builtin_ctzll(size)][size_class];
}

/* Before a call whose cell says so: sets the cell's choice. tuttiInProgress: ranks exchange facts (tt_learning_call is
 * that operation, else NULL) and the call waits: call it again. *moved is set as by tt_run_poll. Errors: the
 * communicator's. */
tuttiResult_t tt_learning_turn(struct tuttiComm *comm, struct tt_learn_cell *cell, const struct tt_binding *binding,
                               int *moved);
const struct tt_call *tt_learning_call(const struct tuttiComm *comm);

/* After it, if calls.learns is set. */
void tt_learning_end(struct tuttiComm *comm);

/* The kind of memory by which calls like this one are made. */
enum tt_memory tt_comm_memory(const struct tuttiComm *comm, int collective, size_t size, uint64_t bytes);

/* The choice for calls like this one: until tt_learning_end, that of the call under way. */
const struct tt_choice *tt_comm_choice(const struct tuttiComm *comm, int collective, size_t size, uint64_t bytes);

/* ---- observe.c ---- */

/* Opens the trace of this process if there is to be one. Errors: as tt_timeline_open. */
tuttiResult_t tt_observe_start(struct tuttiComm *comm);

/* Called around an operation, by the owner of a communicator that is observed: passes it on to the explainer and to the
 * trace of this process (base/timeline.h). An end without a beginning is none. */
void tt_observe_begin(struct tuttiComm *comm, const struct tt_call *call);
void tt_observe_end(struct tuttiComm *comm, const struct tt_binding *binding, tuttiResult_t result);

/* ---- dump.c ---- */

/* Writes the last calls of a communicator that has failed to the file that TUTTI_DUMP names, once. The owner calls it,
 * or the thread that frees the communicator. A file that cannot be written is a warning. */
void tt_comm_dump(struct tuttiComm *comm);

/* ---- metrics.c ---- */

/* Has the calls of a communicator that is ready counted for TUTTI_METRICS, and, before its watch is destroyed, no more.
 * Errors of the first: tuttiSystemError: no memory, no thread; tuttiInvalidArgument: the file's name is too long. */
tuttiResult_t tt_metrics_begin(struct tuttiComm *comm);
void tt_metrics_end(struct tuttiComm *comm);

/* ---- group.c ---- */

tuttiResult_t tt_group_add_op(struct tt_op *op);

/* ---- trigger.c: operations on CUDA streams ---- */

/* Makes a fresh op, whose binding is set, one of a CUDA stream. Asks the driver about buffers and stream. Errors:
 * tuttiInvalidUsage: what CUDA streams do not take; those of the driver. */
tuttiResult_t tt_trigger_prepare(struct tt_op *op, void *stream);

/* Errors: as above. */
tuttiResult_t tt_trigger_check(const struct tuttiComm *comm, void *stream, uint64_t *capture);
/* Makes a fresh op of messages, or one that only names a stream, one of a CUDA stream that was checked. */
void tt_trigger_messages(struct tt_op *op, void *stream, uint64_t capture);
/* Sets data and gpu of a message of such an op. */
void tt_trigger_message(const struct tt_op *op, struct tt_transfer *message);
/* Triggers an op like another one. */
void tt_trigger_copy(struct tt_op *op, const struct tt_op *like);

/* Makes a fresh op of a communicator with slots of its own, whose binding is set, one that is fetched. */
void tt_trigger_fetch(struct tt_op *op);

/* Enqueues the copies into the slot of a piece of a collective, and what tells of them; and those out of it. The
 * context is entered. Errors: those of the driver. */
tuttiResult_t tt_trigger_bring(struct tt_op *op, uint32_t p);
tuttiResult_t tt_trigger_take(struct tt_op *op, uint32_t p);

/* Errors: tuttiInvalidUsage: triggered ops of one communicator in the list are not all live, or all of one graph; or
 * those of ranks on one GPU are of different kinds. */
tuttiResult_t tt_triggers_check(const struct tt_op *first);

/* Numbers those of the list that are triggered, before they are queued; after that enqueues what their GPUs have to do.
 * The communicators are entered. An error ends the communicator that has met it, on all ranks, and is returned. */
void tt_triggers_number(struct tt_op *first);
tuttiResult_t tt_triggers_enqueue(struct tt_op *first);

/* 1: the data of a triggered op are there, or it will end at once, as the communicator has failed. */
int tt_trigger_lets_start(const struct tt_op *op);
/* A triggered op has ended so. */
void tt_trigger_end(const struct tt_op *op, tuttiResult_t result);
/* The communicator has failed, by no wish of this rank, while its GPU may wait. */
void tt_trigger_fail(const struct tuttiComm *comm);

/* Releases whatever waits on the GPU for this rank of a communicator that is over: stores, no more. Any thread. */
void tt_trigger_release(struct tuttiComm *comm);

/* ---- fetch.c: calls without a stream on memory of GPUs ---- */

int tt_fetch_looks(const struct tt_binding *binding);

/* 1: the call has such memory. One load while there is none in the process. */
static inline int tt_fetch_is_wanted(const struct tt_binding *binding)
{
  if (__builtin_expect(!atomic_load_explicit(&tt_process.cuda, memory_order_relaxed), 1)) return 0;
  return tt_fetch_looks(binding);
}

/* Makes a fresh op, whose binding is set, one that is fetched. Errors: tuttiInvalidUsage: the communicator belongs to
 * no CUDA context, or is one of those that take no memory of GPUs; tuttiUnhandledCudaError. */
tuttiResult_t tt_fetch_prepare(struct tt_op *op);

/* Runs such a call. Errors: those of the communicator, which a failure of the driver ends. */
tuttiResult_t tt_fetch_run(struct tuttiComm *comm, const struct tt_binding *binding);

/* Goes on with the calling thread's part of the fetched ops of a list (next_of_group), each communicator's in their
 * order. *moved is set as by tt_run_poll. */
void tt_fetch_move(struct tt_op *first, int *moved);

/* 1: such an op is done, and the GPU has finished with it, or nobody waits for that any more. Its result counts. */
int tt_fetch_is_over(struct tt_op *op);

/* ---- replay.c: operations in graphs ---- */

/* Keeps an op, instead of putting it into the queue. The caller holds the mutex, as in the next one. */
void tt_captured_add_locked(struct tt_op *op);
/* The operation that a graph wants done now, put in front of the queue; else `first`, which has not begun. */
struct tt_op *tt_replayed_locked(struct tuttiComm *comm, struct tt_op *first);
void tt_captured_free(struct tuttiComm *comm);

/* ---- meeting.c: ranks of one communicator in one process on one GPU ---- */

/* Joins the others: place: of this rank among them. Nothing is done for a rank that is alone. Errors:
 * tuttiSystemError: no memory. */
tuttiResult_t tt_meeting_join(struct tuttiComm *comm, int ranks, int place);
void tt_meeting_leave(struct tuttiComm *comm);

/* This rank has enqueued so many pieces, or all, of its op of that turn; waits until all others have. Errors: the
 * communicator's, which ends the waiting; tuttiInvalidUsage: the calling thread has the other rank, too, and has waited
 * for twice TUTTI_LATE_WARN_MS; tuttiRemoteError: TUTTI_TIMEOUT_MS has passed. */
void tt_meeting_tell(const struct tuttiComm *comm, uint32_t turn, uint32_t pieces, int is_all);
tuttiResult_t tt_meeting_await(const struct tuttiComm *comm, uint32_t turn, uint32_t pieces);

/* ---- waves.c ---- */

/* Cuts the messages of an op of a group, if the communicator's messages are cut at all; the op may become several,
 * which follow it in its list. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_waves_make(struct tt_op *op);

/* ---- stream.c ---- */

struct tuttiStream {
  uint32_t magic;
  int is_cuda;                /* 1: it stands for a stream of CUDA, and the rest but `cuda` is not used */
  void *cuda;
  _Atomic int pending;        /* operations not done */
  _Atomic int error;          /* first error, a tuttiResult_t */
  struct tt_op *first, *last; /* guarded by tt_process.mutex */
  uint64_t batch;             /* the newest; same guard */
  struct tuttiEvent *events;  /* that have not ended, by their batches; same guard */
  struct {
    uint64_t batch;
    tuttiResult_t code;
    char sentence[TT_SENTENCE_BYTES];
  } failed;                   /* the first error of the newest batch, if it is of that batch; same guard */
  char sentence[TT_SENTENCE_BYTES];
};

#define TT_STREAM_MAGIC 0x53747265u

/* The progress thread that serves the communicator, its GPU's or the one for all without a GPU, exists while it is
 * held. */
tuttiResult_t tt_progress_hold(const struct tuttiComm *comm);
void tt_progress_release(const struct tuttiComm *comm);
/* Tells the progress thread that the communicator has work (queued operations, or its creation). The caller holds
 * tt_process.mutex. */
void tt_progress_add_locked(struct tuttiComm *comm);
void tt_progress_remove(struct tuttiComm *comm);

/* ---- event.c; the caller holds tt_process.mutex ---- */

/* An operation of that batch of the stream has failed. */
void tt_events_fail_locked(struct tuttiStream *stream, uint64_t batch, tuttiResult_t code, const char *sentence);
/* Takes the events whose operations have all left the stream out of its list; they are linked by `next`. */
struct tuttiEvent *tt_events_take_locked(struct tuttiStream *stream);
/* Ends those, or none if `first` is NULL. */
void tt_events_end_locked(struct tuttiEvent *first);

/* ---- memory.c ---- */

void tt_registrations_free(struct tuttiComm *comm); /* frees the records; the transports free their own parts */

/* Transports and the run are used by one thread at a time, the owner of the communicator. These functions take and give
 * back ownership outside operations. */
void tt_comm_own(struct tuttiComm *comm);
void tt_comm_disown(struct tuttiComm *comm);

/* ---- end.c ---- */

/* A child that is being made holds its parent, which is then freed after it. */
void tt_parent_hold(struct tuttiComm *parent);
void tt_parent_release(struct tuttiComm *parent);

/* Entry and exit of calls that may block, so that an abort can wait for them. tt_comm_enter
 * returns 0 if the communicator is being aborted. */
static inline int tt_comm_enter(struct tuttiComm *comm)
{
  /* Only one thread at a time counts here: a load and a store, and the fence is the aborting thread's. */
  int before = atomic_load_explicit(&comm->life.inside, memory_order_relaxed);
  tt_light_store(&comm->life.inside, before + 1);
  if (!atomic_load_explicit(&comm->life.aborting, memory_order_acquire)) return 1;
  atomic_store_explicit(&comm->life.inside, before, memory_order_release);
  return 0;
}
static inline void tt_comm_exit(struct tuttiComm *comm)
{
  int before = atomic_load_explicit(&comm->life.inside, memory_order_relaxed);
  atomic_store_explicit(&comm->life.inside, before - 1, memory_order_release);
}
tuttiResult_t tt_comm_aborted(const struct tuttiComm *comm);

#endif
