/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor: runs the schedule of one rank on any transport, in memory of the host.
 *
 * A *plan* is a schedule made ready: its order is derived and its peers are numbered. It depends on ranks and blocks
 * only and is made once. A *run* binds a plan to one call. A long vector is cut into segments. Each segment runs the
 * plan on one of a few lanes, over the links of that lane: segment s on lane s mod lanes, after the earlier segments of
 * that lane. A segment is a range of elements of every share. Lanes are independent of each other, so the verifier's
 * proof of one segment holds for all.
 *
 * Contributions to an average or a pre-multiplied sum are scaled whenever IN is read: by the reduction that reads it,
 * or on the way into a message. Averages of integers are divided once, segment by segment, at the end. Results are
 * likewise multiplied at the end if the form of the call says so.
 *
 * A call may have a wire type other than its type (tt_call_wire_type): fp32 elements are then combined and travel as
 * fp16 or bf16. Scratch and messages hold elements of the wire type, and IN and OUT hold fp32. IN is scaled and rounded
 * whenever it is read. Every value that is written to OUT is a value of the wire type, so reading it back rounds
 * nothing. Lengths of steps and blocks are lengths in the wire type. The result therefore has the bits that the same
 * schedule makes of data converted beforehand. Only collectives that reduce convert. A kernel converts one source, so a
 * step reads IN or OUT at most once.
 *
 * Overflow report: a rank sets TT_WORD_OVERFLOW in the words of all messages that it begins after one of its kernels
 * wrote an infinity or NaN, or after it received a word with that bit (seen_word of the link). A message begins after
 * its data were computed, so its word covers them. A contribution that is sent unchanged need not be covered, because
 * its receiver combines it and checks it. Sums keep infinities and NaN, so every rank that has a result also has the
 * report: in an all-reduce, every rank. Copies of IN are checked too.
 *
 * tt_run_poll never blocks. All functions of one `tt_exec` are called by one thread at a time. */
#ifndef TT_EXEC_H
#define TT_EXEC_H

#include "reduce/reduction.h"
#include "sched/sched.h"
#include "transport/transport.h"
#include "watch/watch.h"

/* The executor of a communicator: the transport that leads to each rank, and the open links. */
struct tt_exec;

struct tt_exec_spec {
  int nranks, rank;
  int lanes; /* of operations; the transports have one more, that of messages with tags */
  struct tt_transport **transports; /* in order of preference; borrowed; all connected */
  int ntransports;
  struct tt_watch *watch; /* borrowed */
  size_t piece_bytes;     /* calls are cut into pieces that fit in so many bytes (tt_piece_count); 0: they are not */
};

/* Errors: tuttiSystemError; tuttiInvalidUsage if no transport reaches a rank, which the sentence names. */
tuttiResult_t tt_exec_create(struct tt_exec **exec, const struct tt_exec_spec *spec);
void tt_exec_destroy(struct tt_exec *exec); /* NULL is allowed; the transports stay */

/* The transport that leads to `peer`. */
const struct tt_transport *tt_exec_route(const struct tt_exec *exec, int peer);

struct tt_plan;

/* Goes on with the links that a call by this plan lacks, with so many bytes in a share, one link after the other, while
 * no rank waits for them (tt_transport_ops.prepare). tuttiSuccess: this rank has nothing left to do. Errors: those of
 * tt_transport_ops.prepare; a call may open the links all the same. */
tuttiResult_t tt_plan_prepare(struct tt_exec *exec, const struct tt_plan *plan, uint64_t bytes, size_t block_bytes);

/* Makes a plan and takes over the schedule, which is then zeroed. Errors: the schedule's own; tuttiSystemError;
 * tuttiInternalError if this executor cannot run a step: one that sends anything but one span, both stores and sends
 * its result, or reads IN or OUT twice. */
tuttiResult_t tt_plan_create(struct tt_plan **plan, struct tt_schedule *schedule);
void tt_plan_destroy(struct tt_plan *plan);

/* One call of send or receive, or a message of an all-to-all. */
struct tt_transfer {
  int32_t peer; /* may be this rank itself */
  int32_t sends;
  uint64_t number; /* 1, 2, ...: of the message among all from its sender to its receiver on this communicator */
  void *data;
  size_t bytes; /* 0: still a message */
  size_t whole; /* bytes of the message of which it is a chunk; 0: it is whole */
  void *gpu;    /* for comm: memory of a GPU for which data stands; NULL: data is the caller's */
  uint64_t form; /* of its call: 0, or TT_FORM_COUNTS */
};

/* Shares of unequal lengths, one for each rank. */
struct tt_shares {
  const size_t *counts; /* elements */
  const size_t *starts; /* where each begins in a buffer that has all of them, in elements; any order, any gaps */
};

#define TT_PIECES 16 /* pieces of a call that can be under way */

/* A trigger: somebody else, such as a GPU, says when the data of a call are there, and learns that they may be used. A
 * long call is cut into pieces (tt_piece_count), each of which has a turn of its own. Words are compared cyclically.
 *
 * A call with slots finds its data there: piece p in slot p mod nslots, the parts of all shares one after the other.
 * Where that leaves room in one slot for one of the two, IN and OUT lie as in a call in place. */
struct tt_trigger {
  int is_replayed; /* 1: the same numbers come again and again: `ready` is first + p only while piece p is to be done,
                      and `done` has bits of enum tt_turn */
  const _Atomic uint32_t *ready; /* piece p may be touched once this has come to first + p */
  _Atomic uint32_t *done;        /* comes to first + p when pieces 0 to p are done; not touched by a call that fails */
  uint32_t first;
  uint32_t npieces;              /* 0: it waits for nothing and tells nobody */
  char *slots;                   /* NULL: IN and OUT lie where the binding says, and there is one piece */
  size_t slot_bytes;             /* from one slot to the next */
  uint32_t nslots;               /* <= TT_PIECES */
  int32_t in_share, out_share;   /* the share at which IN and OUT begin in a slot; -1: where the binding says */
  size_t out_at;                 /* bytes of a slot before OUT */
};

/* The words of replayed triggers, which only the host writes to `done`. A device waits for the first bit before it
 * takes a piece, says TT_TURN_TAKEN in `ready` then, and waits for the second. So both bits let it go on for ever. */
enum tt_turn { TT_TURN_DONE = 1, TT_TURN_NEXT = 2 };
#define TT_TURN_TAKEN ((uint32_t)1 << 31)

/* Stores after the bytes, also for a device that reads them. */
static inline void tt_word_store(_Atomic uint32_t *word, uint32_t value)
{
#ifdef __aarch64__
  __asm__ volatile("dmb osh" ::: "memory"); /* a release orders stores for the cores only */
#endif
  atomic_store_explicit(word, value, memory_order_release);
}

/* The piece that a device wants done by replayed triggers; TT_TURN_TAKEN, to which this is the answer, or 0: none. */
static inline uint32_t tt_turn_look(const _Atomic uint32_t *ready, _Atomic uint32_t *done)
{
  uint32_t number = atomic_load_explicit(ready, memory_order_acquire);
  if (number == TT_TURN_TAKEN) tt_word_store(done, TT_TURN_NEXT);
  return number;
}

/* 1: the piece may be touched. */
static inline int tt_trigger_is_open(const struct tt_trigger *trigger, uint32_t piece)
{
  if (!trigger->npieces) return 1;
  if (trigger->is_replayed) return tt_turn_look(trigger->ready, trigger->done) == trigger->first + piece;
  uint32_t ready = atomic_load_explicit(trigger->ready, memory_order_acquire);
  return (int32_t)(ready - (trigger->first + piece)) >= 0;
}

/* Says that pieces 0 to `piece` are done. */
static inline void tt_trigger_tell(const struct tt_trigger *trigger, uint32_t piece)
{
  tt_word_store(trigger->done, trigger->is_replayed ? TT_TURN_DONE : trigger->first + piece);
}

/* The arguments of one call, to which a run binds a plan. */
struct tt_binding {
  struct tt_call call; /* call.op is set; call.count: elements of a share */
  const void *in;      /* the shares of IN that exist, one after the other; NULL if none does */
  void *out;           /* likewise */
  uint64_t scalar;     /* of TT_PREMUL_SUM: bits of one element, this rank's own */
  const void *scalar_at; /* for comm: the address from which it reads scalar before the start; NULL: scalar is set */
  int is_host;         /* for comm: 1: all of it is memory of the host, so no driver of GPUs is asked */
  float before;        /* factor of this rank's contributions to a sum, avg or TT_PREMUL_SUM of floats; else 1 */
  int *overflow;       /* if call.form & TT_FORM_REPORT: set to 0 or 1 when the run succeeds */
  const struct tt_shares *shares; /* of all-gather and reduce-scatter between several ranks, if they are unequal: IN or
                                     OUT, whichever has all of them, has each where `starts` says. NULL: all have
                                     call.count elements */
  size_t block_bytes;  /* longest block of a segment, agreed by all ranks, > 0 */
  const struct tt_trigger *trigger; /* NULL: the data are there. Else the first piece is open when the run starts */
  struct tt_transfer *transfers; /* collective TT_PAIRS: its messages; the fields above but call are not used */
  int ntransfers;
};

struct tt_run; /* the state of one operation; reusable: starting it again allocates nothing */

/* Makes a run object for the operations of `exec`, one at a time. */
tuttiResult_t tt_run_create(struct tt_run **run, struct tt_exec *exec);
void tt_run_destroy(struct tt_run *run); /* NULL is allowed */

/* tt_run_held returns the bytes of the buffers that a run keeps for the next call: scratch, bounce buffers, a copy of
 * IN. tt_run_trim frees those of an idle run; the next call allocates them again. */
size_t tt_run_held(const struct tt_run *run);
void tt_run_trim(struct tt_run *run);

/* Binds the run to a plan and a call, and publishes the call. The plan, the binding and the buffers must live until
 * tt_run_poll returns anything but tuttiInProgress. Errors: tuttiSystemError if scratch has to grow and cannot;
 * tuttiInvalidUsage if there are fewer lanes than the plan has channels; tuttiInternalError if the type cannot travel
 * as the wire type. */
tuttiResult_t tt_run_start(struct tt_run *run, const struct tt_plan *plan, const struct tt_binding *binding);

struct tt_waiter;

/* Does the same for a caller that may block for a while: a short call runs at once, and *done is set to 1 if it has
 * ended; then there is nothing to poll. If a message is still missing when tt_waiter_pause says that calls are to be
 * compared, tt_run_poll does the rest. A call is short if it moves up to TT_QUICK_BYTES, concerns one
 * vector that all ranks share, does nothing but combine, and has links with a quick way to all its peers. Its steps run
 * one after the other, none beside another. */
tuttiResult_t tt_run_at_once(struct tt_run *run, const struct tt_plan *plan, const struct tt_binding *binding,
                             struct tt_waiter *waiter, int *done);

/* Goes on as far as it can. Returns tuttiInProgress, tuttiSuccess when the run is done, or else the communicator's
 * failure, which the watch has recorded. *moved is set to 1 if anything went on, and is otherwise left alone. */
tuttiResult_t tt_run_poll(struct tt_run *run, int *moved);

/* 1 if all lanes are at the last steps of their last segments: the links will soon be free. */
int tt_run_ending(const struct tt_run *run);

/* ---- messages between pairs of ranks (pairs.c) ---- */

/* Starts all transfers of the binding; the run needs no plan. Transfers with the same peer and direction go in the
 * order of the array; others do not wait for each other. The binding and the buffers must live until tt_run_poll
 * returns anything but tuttiInProgress. Nothing is published: binding->call is always the call of an unfinished
 * transfer, with its peer as root, for tt_watch_compare. Errors: tuttiSystemError. */
tuttiResult_t tt_run_start_pairs(struct tt_run *run, struct tt_binding *binding);

/* Buffers of an all-to-all whose shares have any lengths. */
struct tt_exchange {
  const void *in;
  void *out;
  struct tt_shares ins, outs; /* of `in`: the share for each rank; of `out`: the share from each rank */
  size_t element;             /* bytes */
};

/* Writes the messages of rank `rank` to transfers[2 * nranks], but for their numbers: one to each rank and one from
 * each rank, also of no bytes, so that both ends of each pair find out if their counts differ. A rank begins with the
 * rank after it, and receives from the rank before it, so that not all send to the same one. */
void tt_exchange_write(struct tt_transfer *transfers, const struct tt_exchange *exchange, int nranks, int rank);

/* Elements of a share in each piece of a call between nranks ranks, the last one excepted, if all of a piece has to fit
 * in `bytes`. A pure function of what all ranks agree on, so those cut alike that have no trigger. 0: there is no room
 * for a single one. */
size_t tt_piece_count(const struct tt_call *call, int nranks, size_t bytes);

/* The number of pieces of a call with unequal shares, each of which fits in `bytes`; 0: there is no room. Each piece
 * has the same part of every share, up to one element. */
uint32_t tt_pieces_of_shares(const struct tt_call *call, const struct tt_shares *shares, int nranks, size_t bytes);

/* The elements of a share of `count` in piece p of n, and those before them. */
static inline size_t tt_piece_part(size_t count, uint32_t p, uint32_t n, size_t *before)
{
  size_t each = count / n, more = count % n;
  *before = each * p + (p < more ? p : more);
  return each + (p < more);
}

/* Must be called before `plan` is destroyed, because an idle run keeps the links of its last plan. */
void tt_run_forget(struct tt_run *run, const struct tt_plan *plan);

/* ---- frames (mail.c) ---- */

#define TT_MAIL_FRAMES 8 /* that may wait to be sent to one rank */

/* Mail: frames of one length between ranks, in an exec that runs nothing else. No rank waits for a frame: each sender's
 * frames arrive in the order in which they were posted, and may be taken at any time later. */
struct tt_mail;

/* Makes the mail between this rank and these peers, each of which names this rank among its own. Errors:
 * tuttiSystemError: no memory. */
tuttiResult_t tt_mail_create(struct tt_mail **mail, struct tt_exec *exec, const int32_t *peers, int npeers,
                             size_t bytes);
void tt_mail_destroy(struct tt_mail *mail); /* NULL is allowed */

/* Opens the links, before anything else is done: tuttiInProgress until all of them are open. Errors are recorded in the
 * watch. */
tuttiResult_t tt_mail_open(struct tt_mail *mail);

/* Copies a frame, to be sent to peer p. Errors: tuttiInternalError: TT_MAIL_FRAMES wait already. */
tuttiResult_t tt_mail_post(struct tt_mail *mail, int p, const void *data);

/* Moves all frames that can be moved; never blocks. waits: this rank needs a frame from a peer, so that a lost link is
 * an error; otherwise the peer may have left. tuttiInProgress: a link is lost and the reason is not known yet: call
 * again. Errors are recorded in the watch. */
tuttiResult_t tt_mail_poll(struct tt_mail *mail, int waits, int *moved);

/* Does the same with one peer, a different one each time, because a look at a socket takes a while. */
tuttiResult_t tt_mail_glance(struct tt_mail *mail, int waits, int *moved);

/* 1: the links have taken all posted frames. */
int tt_mail_is_sent(const struct tt_mail *mail);

/* Takes a frame that has arrived, from peer *p; it is valid until the next poll or glance. NULL: there is none. */
const void *tt_mail_take(struct tt_mail *mail, int *p);

/* ---- messages with tags (message.c) ---- */

#define TT_ANY (-1) /* of a receive: any rank, any tag */
#define TT_SLICE_BYTES 262144 /* a message gives way to more urgent ones after so many bytes */

/* Messages between any two ranks, on links that have nothing else: on the lane behind those of operations. A message
 * goes in slices, each behind a head that says which message it belongs to and how long it is; so a receiver need not
 * know what comes. It is matched with the first receive, in their order, that wants its sender and its tag; until one
 * does it waits in memory here. Messages with the same sender and receiver and equal urgency are matched in the order
 * in which they were added. */
struct tt_messages;

/* A send or a receive, in memory of the caller, where it stays until it is over. */
struct tt_message {
  int32_t peer, tag;    /* >= 0; of a receive also TT_ANY, and those of the message once it is over */
  int sends;
  uint32_t urgency;     /* of a send: 0 goes first */
  void *data;           /* the caller leaves it alone until it is over */
  size_t bytes;         /* a receive: there is room for so many; once it is over, the length of the message */
  tuttiResult_t result; /* once it is over; tuttiInvalidArgument: the message was longer than the room, and is lost */
  struct tt_message *next; /* of the engine until it is over; then of the caller */
  uint64_t order, number;  /* the engine's, as the rest */
  size_t sent;
};

/* Errors: tuttiSystemError. */
tuttiResult_t tt_messages_create(struct tt_messages **messages, struct tt_exec *exec);
void tt_messages_destroy(struct tt_messages *messages); /* NULL is allowed */

/* Begins a message. Errors: tuttiSystemError; then it has not begun. */
tuttiResult_t tt_messages_add(struct tt_messages *messages, struct tt_message *message);

/* Moves what can be moved; never blocks. Links are opened as messages need them, a receive from TT_ANY all of them; one
 * that both ranks have not wanted yet is waited for. Errors are recorded in the watch: a link that is lost while a
 * message needs it, a head that no correct rank sends. tuttiInProgress: a link is lost, and it is not known why. */
tuttiResult_t tt_messages_poll(struct tt_messages *messages, int *moved);

/* To be called about every millisecond, after a poll: ends messages whose peer has left, with tuttiRemoteError: sends
 * at once; receives when all that it has sent has come; those from TT_ANY when all other ranks have left so. A rank
 * that has left is no failure. */
void tt_messages_look(struct tt_messages *messages);

/* Ends the receives for which nothing has begun to come, with this result; then none is added. From then on messages of
 * all ranks are taken, so that their sends can end, too. tt_messages_end: ends all messages. */
void tt_messages_cancel(struct tt_messages *messages, tuttiResult_t result);
void tt_messages_end(struct tt_messages *messages, tuttiResult_t result);

/* Takes a message that is over; NULL: there is none. */
struct tt_message *tt_messages_over(struct tt_messages *messages);

/* A message that is not over, once receives were ended: a send, or a receive that has begun to come; NULL: none is
 * left. */
struct tt_message *tt_messages_left(const struct tt_messages *messages);

/* Finds the next link, from the i-th on, over which messages may still come; NULL if it is not open yet. Returns the
 * number to go on with; 0: there are no more. */
int tt_messages_link(const struct tt_messages *messages, int i, struct tt_link **link);

enum tt_slept {
  TT_SLEPT_NOT,   /* there is nothing to sleep on */
  TT_SLEPT_LONG,  /* the whole time has passed */
  TT_SLEPT_WOKEN, /* a link may go on */
};

/* Sleeps for at most `ns`, until one of the links may go on that the run or the messages (NULL: there are none) wait
 * for, or the descriptor `wake` (-1: none) can be read. It does not sleep at all if a link has no descriptor, or if the
 * run waits for something else. */
enum tt_slept tt_run_sleep(const struct tt_run *run, const struct tt_messages *messages, int wake, uint64_t ns);

/* The way a thread waits: it spins, yields (early if ranks outnumber cores), then sleeps, longer and longer, or until
 * `sleep` wakes it. It reads the clock only after about 2 us. */
struct tt_waiter {
  enum tt_slept (*sleep)(void *sleeper, uint64_t ns); /* as tt_run_sleep; NULL: by the clock. Set after init */
  void *sleeper;
  int woken;          /* 1: the last sleep was ended early */
  uint32_t idle;      /* pauses since something moved */
  int oversubscribed; /* ranks of this machine per core; 0: each has a core of its own */
  uint64_t since_ns;  /* start of the wait; 0: clock not read yet */
  uint64_t look_ns;   /* next time to compare calls */
};

void tt_waiter_init(struct tt_waiter *waiter, int oversubscribed);

/* Pauses once. `moved`: something has gone on since the last pause. Returns 1 after the first millisecond and about
 * every millisecond from then on, or each time the thread wakes if it sleeps longer: then the caller should call
 * tt_watch_compare (the wait began at since_ns). */
int tt_waiter_pause(struct tt_waiter *waiter, int moved);

#endif
