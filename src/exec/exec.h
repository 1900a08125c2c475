/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor: runs the schedule of one rank on any transport and any memory.
 *
 * A *plan* is a schedule made ready: order derived, peers numbered. It depends on ranks and blocks
 * only and is made once. A *run* binds a plan to one call. A long vector is cut into segments, which
 * run the same plan one after the other on each of a few lanes: segment s runs on lane s mod lanes, on
 * the links of that lane. A segment is a range of elements of every share. Lanes are independent of each other, so the
 * verifier's proof of one segment holds for all.
 *
 * Contributions to an average or a pre-multiplied sum are scaled whenever IN is read: by the reduction that reads it,
 * or on the way into a message. Averages of integers are divided once, segment by segment, at the end; likewise
 * results are multiplied at the end where the form of the call says so.
 *
 * A call may have a wire type other than its type (tt_call_wire_type): fp32 that is combined and travels as fp16 or
 * bf16. Scratch and messages then hold elements of the wire type, IN and OUT fp32: IN is scaled and rounded whenever it
 * is read, and what is written to OUT is a value of the wire type, so that nothing is rounded when it is read from
 * there. Lengths of steps and blocks are those of the wire type. So the bits are those of the same schedule on
 * data that was converted before. Only collectives that reduce convert. A kernel converts one source, so a step
 * reads IN or OUT once at most.
 *
 * Overflow report: a rank whose kernels wrote an infinity or NaN sets TT_WORD_OVERFLOW in the words of the messages it
 * begins from then on, and takes it over from messages (seen_word of their links). A message is begun after what it
 * sends was computed, so the word knows of all it brings; of a contribution that is sent as it was given it need not
 * know, for who receives it combines it, and looks. A sum keeps infinities and NaN, so whoever has a result was told:
 * in an all-reduce every rank. Copies of IN are looked at too.
 *
 * tt_run_poll never blocks. Everything of one `tt_exec` is called by one thread at a time. */
#ifndef TT_EXEC_H
#define TT_EXEC_H

#include "device/device.h"
#include "sched/sched.h"
#include "transport/transport.h"
#include "watch/watch.h"

/* Which transport leads to which rank, and the links that are open. */
struct tt_exec;

struct tt_exec_spec {
  int nranks, rank, lanes;
  struct tt_transport **transports; /* in order of preference; borrowed; all connected */
  int ntransports;
  struct tt_watch *watch; /* borrowed */
};

/* Errors: tuttiSystemError; tuttiInvalidUsage if no transport reaches some rank (named). */
tuttiResult_t tt_exec_create(struct tt_exec **exec, const struct tt_exec_spec *spec);
void tt_exec_destroy(struct tt_exec *exec); /* NULL is allowed; the transports stay */

/* The transport that leads to `peer`. */
const struct tt_transport *tt_exec_route(const struct tt_exec *exec, int peer);

struct tt_plan;

/* Makes a plan; takes the schedule over (it is zeroed). Errors: the schedule's own; tuttiSystemError;
 * tuttiInternalError for a step that this executor cannot run: one that sends anything but one span, sends and
 * keeps at once, or reads IN or OUT twice. */
tuttiResult_t tt_plan_create(struct tt_plan **plan, struct tt_schedule *schedule);
void tt_plan_destroy(struct tt_plan *plan);

/* One call of send or receive. */
struct tt_transfer {
  int32_t peer; /* may be this rank itself */
  int32_t sends;
  uint64_t number; /* 1, 2, ...: of the message among those from the one to the other on this communicator */
  void *data;
  size_t bytes; /* 0: a message all the same */
};

/* What a run is bound to. */
struct tt_binding {
  struct tt_call call; /* call.op is set; call.count: elements of a share */
  const void *in;      /* the shares of IN that are there, one behind the other; NULL if none is */
  void *out;           /* likewise */
  uint64_t scalar;     /* of TT_PREMUL_SUM: bits of one element, this rank's own */
  const void *scalar_at; /* comm's: where it is read from before the start; NULL: it is there */
  float before;        /* sum, avg, TT_PREMUL_SUM of floats: this rank's contributions are multiplied by it; else 1 */
  int *overflow;       /* of call.form & TT_FORM_REPORT: set to 0 or 1 when the run has succeeded */
  size_t block_bytes;  /* longest block of a segment, agreed by all ranks, > 0 */
  struct tt_transfer *transfers; /* collective TT_PAIRS: these, and of the rest nothing */
  int ntransfers;
};

struct tt_run; /* state of one operation; reusable: starting it again allocates nothing */

/* Makes a run object for the operations of `exec`, one at a time. */
tuttiResult_t tt_run_create(struct tt_run **run, struct tt_exec *exec);
void tt_run_destroy(struct tt_run *run); /* NULL is allowed */

/* Bytes of the buffers that a run keeps for the next call: scratch, staging, a copy of IN. The trim of an idle run
 * frees them; the next call makes them anew. */
size_t tt_run_held(const struct tt_run *run);
void tt_run_trim(struct tt_run *run);

/* Binds the run. Publishes the call. The plan, the binding and the buffers must live until poll is not
 * tuttiInProgress. Errors: tuttiSystemError if scratch has to grow and cannot; tuttiInvalidUsage: fewer lanes than the
 * plan has channels; tuttiInternalError: a type that cannot travel as the other. */
tuttiResult_t tt_run_start(struct tt_run *run, const struct tt_plan *plan, const struct tt_binding *binding);

struct tt_waiter;

/* The same for who may be kept waiting: a short call is run at once, and *done is set to 1 if it is over then; there is
 * nothing to poll. If what it waits for does not come until tt_waiter_pause says that calls are to be compared,
 * tt_run_poll goes on with what is left. Short are calls of up to TT_QUICK_BYTES in host memory, of one vector that all
 * ranks share, that do nothing beside combining, where a link has a quick way to all peers: one step after the other,
 * without looking at others. */
tuttiResult_t tt_run_at_once(struct tt_run *run, const struct tt_plan *plan, const struct tt_binding *binding,
                             struct tt_waiter *waiter, int *done);

/* Moves what can be moved: tuttiInProgress; tuttiSuccess: done; else the communicator's failure,
 * which is recorded in watch. *moved is set to 1 if anything went on (else left alone). */
tuttiResult_t tt_run_poll(struct tt_run *run, int *moved);

/* 1 if all lanes are at the last steps of their last segments: the links will soon be free. */
int tt_run_ending(const struct tt_run *run);

/* ---- messages between pairs of ranks (pairs.c) ---- */

/* Starts the binding's transfers at once; those of one peer and direction go in the order of the array, others do not
 * wait for each other. Uses the run in place of a plan; binding and buffers must live until tt_run_poll is not
 * tuttiInProgress. Nothing is published: binding->call becomes that of a transfer that is not done, with its peer as
 * root, for tt_watch_compare. Memory that the CPU cannot touch is tuttiInvalidUsage. Errors: tuttiSystemError. */
tuttiResult_t tt_run_start_pairs(struct tt_run *run, struct tt_binding *binding);

/* The plan is about to be destroyed: an idle run keeps links of its last one. */
void tt_run_forget(struct tt_run *run, const struct tt_plan *plan);

enum tt_slept {
  TT_SLEPT_NOT,   /* there is nothing to sleep on */
  TT_SLEPT_LONG,  /* all the time that was asked for */
  TT_SLEPT_WOKEN, /* something may go on */
};

/* Sleeps for `ns` at most, until one of the links that the run waits for may go on. Not at all where a link has no
 * descriptor, or where the run waits for something else. */
enum tt_slept tt_run_sleep(const struct tt_run *run, uint64_t ns);

/* How a thread waits: spins, yields (early if ranks outnumber cores), then sleeps, longer and
 * longer, until woken if it has what wakes it; looks at the clock only after about 2 us. */
struct tt_waiter {
  enum tt_slept (*sleep)(void *sleeper, uint64_t ns); /* as tt_run_sleep; NULL: by the clock. Set after init */
  void *sleeper;
  int woken;         /* the last sleep was ended early */
  uint32_t idle;     /* looks in vain since something moved */
  int oversubscribed;       /* ranks of this machine for each of its cores; 0: they have one each */
  uint64_t since_ns; /* 0: clock not read yet */
  uint64_t look_ns;  /* next time to compare calls */
};

void tt_waiter_init(struct tt_waiter *waiter, int oversubscribed);

/* One pause. moved: something went on since the last one. Returns 1 about every millisecond after the first, or as
 * often as it wakes: then the caller should tt_watch_compare (since_ns says since when it waits). */
int tt_waiter_pause(struct tt_waiter *waiter, int moved);

#endif
