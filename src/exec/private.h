/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef TT_EXEC_PRIVATE_H
#define TT_EXEC_PRIVATE_H

#include "exec/exec.h"

#define BOUNCE_BYTES 65536 /* bounce buffer of one step, for bytes that must not be sent as they lie */

/* A peer and channel that the plan uses. */
struct plan_link {
  int32_t peer;
  int32_t channel;
};

/* The caller's memory that a step touches, as a source or, OUT, as dst. Bits. */
enum touch { TOUCHES_IN = 1, TOUCHES_OUT = 2 };

/* Kinds of steps, of which two have a shortcut. */
enum action { ACTION_GENERAL, ACTION_SEND, ACTION_RECV };

/* Data for running a plan at once (quick.c). The links are those of the plan's communicator. */
struct quick {
  uint8_t order[TT_WINDOW]; /* the steps as they run: sends as early as they may go */
  struct tt_link **links;   /* per plan link, on lane 0 */
  size_t longest;           /* longest message that all links take at once; 0: they are not open yet */
};

/* The executor's own facts about step i of the schedule. */
struct plan_step {
  uint64_t wait;        /* bit k: step i - 1 - k must have finished */
  int32_t link;         /* the only link of a step with a shortcut */
  int16_t own_source;   /* the source that is IN or OUT; -1: none */
  uint8_t action : 2;   /* enum action */
  uint8_t touches : 2;  /* bits of enum touch */
  uint8_t is_plain : 1; /* each span of the step is one piece of memory */
};

struct tt_plan {
  struct tt_schedule schedule;
  struct quick *quick;       /* NULL: the plan cannot run at once */
  struct plan_step *steps;   /* [schedule.nsteps] */
  int32_t *source_link;      /* per operand: index into links if it is a MESSAGE, else -1 */
  int32_t *peer_link;        /* per entry of schedule.peers: index into links; allocated with source_link */
  struct plan_link *links;
  int32_t nlinks, nchannels;
  int32_t nblocks;             /* of all shares */
  int32_t nshares;
  int32_t in_share, out_share; /* the first share that exists in IN and in OUT */
  int32_t *slot_share;         /* as in tt_slot_shares; NULL: all slots are as long as the longest share */
  int out_is_there;            /* 1: this rank has a part of OUT */
};

/* Progress of one step. */
struct cursor {
  char *at;         /* start of dst, or of the span that is sent, if it lies in one piece; else NULL */
  size_t len;       /* bytes of the step in this segment */
  size_t done;      /* of these: written to dst; staged send: sent from earlier fills; shortcut: moved */
  size_t staged;    /* staged send: bytes in the bounce buffer */
};

/* The segment's parts of unequal shares, in elements. One allocation, which begins with `starts`. */
struct cuts {
  size_t *starts; /* [nshares + 1]: of the parts, in one line of all of them */
  size_t *skips;  /* [nshares]: elements of each share in earlier segments */
  size_t *homes;  /* [nshares]: of each part in the slot of its piece, if the call has slots */
  size_t *slots;  /* [nslots]: starts of the slots in scratch */
};

/* One segment under way on one lane. */
struct lane {
  int32_t head;              /* oldest unfinished step */
  uint64_t active, finished; /* bit k: step head + k */
  size_t segment;            /* number of the segment; next one is segment + lanes */
  size_t start, count;       /* first element and number of elements */
  size_t base, more;         /* a block has base elements, each of the first `more` blocks of a share one more */
  char *in, *out;            /* where the segment begins in IN and in OUT, unless shares are unequal */
  size_t in_stride, out_stride; /* bytes from one share to the next there */
  int waits;                 /* 1: its segment is not bound yet, because the piece is not open */
  char *scratch;
  char *bounce;                     /* TT_WINDOW bounce buffers of BOUNCE_BYTES each; NULL: not needed yet */
  struct tt_link **links;           /* per plan link, on this lane */
  size_t *sent;                     /* per entry of schedule.peers: bytes handed over */
  struct cuts cuts;                 /* if the call has unequal shares */
  struct cursor cursors[TT_WINDOW]; /* step i uses entry i mod TT_WINDOW */
};

/* Operations of a run on elements other than moving and combining them (numbers.c). */
struct numbers {
  uint8_t type, redop; /* of kernels, messages and scratch */
  uint8_t converts;    /* enum touch: steps that touch these cannot move bytes as they lie */
  uint8_t computes;    /* enum touch: steps that touch these, even copies, are done by a kernel */
  uint8_t scales;      /* 1: contributions are scaled */
  uint8_t is_wide;     /* 1: elements of IN and OUT are twice as long as those of messages and scratch */
  uint8_t divides;     /* 1: results are divided at the end */
  uint8_t multiplies;  /* 1: results are multiplied at the end */
};

/* How a call is cut into pieces, and how far they are. */
struct cut {
  size_t count;             /* elements of a share in a full piece */
  size_t each;              /* segments of a full piece */
  uint32_t npieces;         /* 1: the whole call is one */
  uint32_t done;            /* pieces done so far, of a call with slots */
  uint32_t ended[TT_PIECES]; /* segments of piece p that are done, at p mod TT_PIECES */
};

enum run_state { RUN_IDLE, RUN_OPENING, RUN_MOVING, RUN_PAIRS, RUN_SUSPECT };

struct pairs; /* pairs.c */

/* More than 25 fields: the state of one operation and the memory kept for the next one are not divided. */
struct tt_run {
  struct tt_exec *exec;
  const struct tt_plan *plan;
  enum run_state state;
  const struct tt_binding *binding;
  struct tt_head head;
  uint64_t history; /* of the earlier collective calls, see tt_history_add */
  const char *in;
  size_t element;     /* bytes, in messages and scratch */
  size_t share_bytes; /* of the whole call, in IN or OUT */
  struct numbers numbers;
  struct tt_reduce_arg arg; /* of kernels that convert elements or only check them */
  int overflow;             /* 1: an infinity or NaN was seen */
  int *looks;               /* &overflow, or NULL if no report is wanted */
  size_t segment_count;     /* elements of a full segment */
  size_t nsegments;
  struct cut cut;
  size_t slot_bytes; /* of scratch */
  int nlanes;        /* lanes that this run uses */
  int busy;          /* lanes not done yet */
  int opened;        /* lanes whose links are open */
  struct tt_link *broken;
  char *in_copy; /* copy of IN, if a call in place would overwrite it */
  size_t in_copy_room;
  struct pairs *pairs;
  struct tt_call *pairs_call;   /* in the binding */
  uint64_t suspect_op;          /* the operation that met the broken link */
  int32_t link_room, peer_room; /* entries of links and sent in each lane */
  size_t cut_room;              /* entries of the cuts in each lane that has them */
  size_t scratch_room;          /* bytes of each lane */
  struct lane lanes[TT_MAX_LANES];
};

struct tt_exec {
  int nranks, rank, lanes;
  size_t piece_bytes;
  struct tt_watch *watch;
  const _Atomic int *failed;
  struct tt_transport **transports; /* [ntransports], borrowed */
  int ntransports;
  int *routes;           /* per rank: the first transport that leads there */
  struct tt_link **open; /* [lane * nranks + peer] */
  uint64_t same;         /* steps so far that send to several peers; numbers them in tt_head.same */
  int refuser;           /* the peer to which no link could be opened first ... */
  char refusal[TT_SENTENCE_BYTES]; /* ... and why; "": there is none */
};

/* Finds the link to `peer` on `lane`; tuttiInProgress until it is open. If both ends have agreed that a transport has
 * no link between them, the next transport that leads to the peer is tried. Errors: those of tt_transport_ops.open;
 * tuttiSystemError if no transport is left. */
tuttiResult_t tt_exec_link(struct tt_exec *exec, int peer, int lane, struct tt_link **link);

/* To be called with an error of the former. tuttiRemoteError: as tt_watch_refused does, so poll on while it returns
 * tuttiInProgress. Else a failure at once. */
tuttiResult_t tt_exec_refused(struct tt_exec *exec, tuttiResult_t code, int peer, uint64_t op);

/* Does the same before anybody waits for the link, as far as it goes: tt_transport_ops.prepare. */
tuttiResult_t tt_exec_prepare(struct tt_exec *exec, int peer, int lane);

/* step.c: the outcome of trying to move a step. */
enum tried { TRIED_NOTHING, TRIED_MOVED, TRIED_FINISHED, TRIED_ERROR };

/* Starts the messages of a step that may now run. Its length is `bytes` > 0. */
void tt_step_begin(struct tt_run *run, struct lane *lane, int32_t index, size_t bytes);

/* Moves a step. On TRIED_ERROR *result is the code, or tuttiInProgress with run->broken set. */
enum tried tt_step_move(struct tt_run *run, struct lane *lane, int32_t index, tuttiResult_t *result);

/* Returns the element at which a block begins, counted over the parts of all shares in the segment, one after the
 * other. */
static inline size_t block_start(const struct tt_run *run, const struct lane *lane, int32_t block)
{
  size_t b = (size_t)block, shares = 0;
  if (run->plan->nshares > 1) {
    if (run->binding->shares) return lane->cuts.starts[block];
    size_t each = (size_t)run->plan->schedule.shape.nblocks;
    shares = b / each;
    b -= shares * each;
  }
  return shares * lane->count + lane->base * b + (b < lane->more ? b : lane->more);
}

/* Returns the bytes of the step in this segment. Short messages are sensitive to the time of this function, so it has
 * shortcuts. */
static inline size_t step_bytes(const struct tt_run *run, const struct lane *lane, const struct tt_step *step)
{
  int32_t end = step->first + step->nblocks, total = run->plan->nblocks;
  if (total == 1) return lane->count * run->element;
  if (run->plan->nshares == 1 && end <= total) {
    size_t a = (size_t)step->first, b = (size_t)end;
    size_t more = (b < lane->more ? b : lane->more) - (a < lane->more ? a : lane->more);
    return (lane->base * (b - a) + more) * run->element;
  }
  size_t start = block_start(run, lane, step->first);
  if (end <= total) return (block_start(run, lane, end) - start) * run->element;
  return (block_start(run, lane, total) - start + block_start(run, lane, end - total)) * run->element;
}

/* True if each span of the step is one piece of memory, with elements as long as those of messages. */
static inline int step_is_plain(const struct tt_run *run, int32_t index)
{
  return run->plan->steps[index].is_plain && !run->numbers.is_wide;
}

/* Returns the address of a span of a plain step. */
static inline char *plain_look(const struct tt_run *run, const struct lane *lane, struct tt_operand operand)
{
  size_t at = (size_t)operand.at;
  if (operand.place == TT_SCRATCH) return lane->scratch + at * run->slot_bytes;
  char *base = operand.place == TT_IN ? lane->in : lane->out;
  return base + (lane->base * at + (at < lane->more ? at : lane->more)) * run->element;
}

/* Returns the address of byte `done` of a span and lowers *n to the bytes that follow there in one piece. Both count
 * bytes of messages; in IN and OUT of a wide run they stand for twice as many bytes of memory. */
char *tt_span_look(const struct tt_run *run, const struct lane *lane, struct tt_operand operand, size_t done,
                   size_t *n);

/* pieces.c: calls that are cut into pieces. The segments of a piece are as long as each other, but for the last. */

/* Cuts the call, whose segments are cut already as if it was one piece: sets segment_count, nsegments and cut. */
tuttiResult_t tt_pieces_cut(struct tt_run *run);

/* Sets start and count of the lane's segment, and where IN and OUT are. Returns 0 if its piece is not open. */
int tt_pieces_bind(struct tt_run *run, struct lane *lane);

/* A segment of a call with a trigger is over; tt_pieces_end_all: the call is. */
void tt_pieces_end(struct tt_run *run, size_t segment);
void tt_pieces_end_all(const struct tt_run *run);

/* shares.c: calls with unequal shares */

/* Makes room for the cuts of all lanes in use. */
tuttiResult_t tt_shares_bind(struct tt_run *run);
void tt_shares_free(struct tt_run *run);

/* Cuts the shares for the lane's segment, of which start and count become those of this rank's own share. */
int tt_shares_cut(struct tt_run *run, struct lane *lane); /* 0: its piece is not open */

/* The results of the segment. */
char *tt_shares_result(const struct tt_run *run, const struct lane *lane);

/* As tt_span_look. */
char *tt_shares_look(const struct tt_run *run, const struct lane *lane, struct tt_operand operand, size_t done,
                     size_t *n);

/* numbers.c */

/* Sets the rest of run->numbers for a call that does more than combine. */
tuttiResult_t tt_numbers_bind_more(struct tt_run *run);

/* Sets run->numbers, and what follows from them, from plan and binding. */
static inline tuttiResult_t tt_numbers_bind(struct tt_run *run)
{
  const struct tt_call *call = &run->binding->call;
  run->numbers = (struct numbers){.type = call->type, .redop = call->redop};
  run->element = tt_type_size(call->type);
  run->share_bytes = (size_t)call->count * run->element;
  run->looks = NULL;
  int is_plain = call->redop <= tuttiMin && call->type != tuttiBool && call->form == 0;
  if (is_plain && run->binding->before == 1) return tuttiSuccess;
  return tt_numbers_bind_more(run);
}

/* Makes the argument of the kernel that carries out a step. */
void tt_numbers_arg(const struct tt_run *run, int32_t index, struct tt_reduce_arg *arg);

/* Ends a segment whose steps are all done: divides or multiplies its results if the call says so. Errors:
 * tuttiInternalError. */
tuttiResult_t tt_numbers_end(struct tt_run *run, struct lane *lane);

/* Takes over the overflow reports of the messages of finished steps (head + k for each bit k of `steps`), and sets the
 * report in all messages that begin from now on. Used if run->looks. */
void tt_numbers_report(struct tt_run *run, const struct lane *lane, uint64_t steps);

/* quick.c */

/* Makes plan->quick if the plan can run at once. Returns 0 if there is no memory. */
int tt_quick_make(struct tt_plan *plan);
void tt_quick_destroy(struct quick *quick); /* NULL is allowed */

/* Must be called when the links of lane 0 are open. piece_bytes: that of the exec. */
void tt_quick_links(const struct tt_plan *plan, struct tt_link *const *links, size_t piece_bytes);

/* The progress of a call that began at once. */
struct begun {
  uint64_t done; /* bit i: step i is over */
  int32_t half;  /* the step whose first `sent` peers have their message; sent 0: there is none */
  int32_t sent;
};

/* Does the same as tt_run_start for a call that began at once (run.c). */
tuttiResult_t tt_run_take_up(struct tt_run *run, const struct tt_plan *plan, const struct tt_binding *binding,
                             const struct begun *begun);

/* pairs.c */
tuttiResult_t tt_pairs_poll(struct tt_run *run, int *moved);
void tt_pairs_destroy(struct pairs *pairs);

/* Finds the i-th link that the transfers under way wait for; NULL if it is not open yet. Returns 0 if there are no
 * more. */
int tt_pairs_waits(const struct pairs *pairs, int i, struct tt_link **link);

#endif
