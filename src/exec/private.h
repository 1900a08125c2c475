/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef TT_EXEC_PRIVATE_H
#define TT_EXEC_PRIVATE_H

#include "exec/exec.h"

#define BOUNCE_BYTES 65536 /* staging of one step, for what must not be sent as it lies */

/* A (peer, channel) that the plan uses. */
struct plan_link {
  int32_t peer;
  int32_t channel;
};

/* What of the caller's memory a step touches: as source, or also as dst. Bits. */
enum touch { TOUCHES_IN = 1, TOUCHES_OUT = 2 };

/* Kinds of steps that host memory has a short way for. */
enum action { ACTION_GENERAL, ACTION_SEND, ACTION_RECV };

/* What running a plan at once takes (quick.c); of the plan's communicator. */
struct quick {
  uint8_t order[TT_WINDOW]; /* steps, sends as early as they may go */
  struct tt_link **links;   /* per plan link, on lane 0 */
  size_t longest;           /* message that all of them take at once; 0: they are not open */
};

/* What the executor adds to step i of the schedule. */
struct plan_step {
  uint64_t wait;        /* bit k: step i - 1 - k must have finished */
  int32_t link;         /* of a short way: its one link */
  int16_t own_source;   /* which of its sources is IN or OUT; -1: none */
  uint8_t action : 2;   /* enum action */
  uint8_t touches : 2;  /* bits of enum touch */
  uint8_t is_plain : 1; /* every span of it is one piece of memory */
};

struct tt_plan {
  struct tt_schedule schedule;
  struct quick *quick;       /* NULL: not for this plan */
  struct plan_step *steps;   /* [schedule.nsteps] */
  int32_t *source_link;      /* per operand: index into links if it is a MESSAGE, else -1 */
  int32_t *peer_link;        /* per entry of schedule.peers: index into links; lies behind source_link */
  struct plan_link *links;
  int32_t nlinks, nchannels;
  int32_t nblocks;      /* of all shares */
  int32_t nshares;
  int32_t in_share, out_share; /* the first one that is there */
  int out_is_there;
};

/* Progress of one step. */
struct cursor {
  char *at;         /* dst, or what is sent, if it lies in one piece; else NULL */
  size_t len;       /* bytes of the step in this segment */
  size_t done;      /* of these: in dst; of a send that is staged: staged before; of a send to one peer: handed over */
  tt_ticket ticket; /* device work under way, for the next `pending` bytes */
  size_t pending;
};

/* One segment under way on one lane. */
struct lane {
  int32_t head;              /* oldest unfinished step */
  uint64_t active, finished; /* bit k: step head + k */
  size_t segment;            /* number of the segment; next one is segment + lanes */
  size_t start, count;       /* its elements */
  size_t base, more;         /* its blocks: base elements each, the first `more` of a share one more */
  int ending;                /* all steps are done, what is left to do to results has begun */
  tt_ticket end_ticket;
  char *scratch;
  char *bounce;                     /* TT_WINDOW pieces of BOUNCE_BYTES; NULL: not needed yet */
  struct tt_link **links;           /* per plan link, on this lane */
  size_t *sent;                     /* per entry of schedule.peers: bytes handed over */
  struct cursor cursors[TT_WINDOW]; /* of step i at i mod TT_WINDOW */
};

/* What a run does to elements beside moving and combining them (numbers.c). */
struct numbers {
  uint8_t type, redop; /* of kernels, messages and scratch */
  uint8_t converts;    /* enum touch: steps that touch these do not move bytes as they lie */
  uint8_t computes;    /* enum touch: steps that touch these, even copies, are a kernel's work */
  uint8_t scales;      /* 1: contributions are scaled */
  uint8_t is_wide;     /* 1: elements of IN and OUT are twice as long as those of messages and scratch */
  uint8_t divides;     /* 1: results are divided at the end */
  uint8_t multiplies;  /* 1: results are multiplied at the end */
};

enum run_state { RUN_IDLE, RUN_COPYING, RUN_OPENING, RUN_MOVING, RUN_PAIRS, RUN_SUSPECT };

struct pairs; /* pairs.c */

/* More than 25 fields: one operation, and memory that is kept from one to the next, are not divided. */
struct tt_run {
  struct tt_exec *exec;
  const struct tt_plan *plan;
  const struct tt_device *device;
  enum run_state state;
  const struct tt_binding *binding;
  struct tt_head head;
  uint64_t history; /* of the collective calls before, see tt_history_add */
  const char *in;
  size_t element;       /* bytes, in messages and scratch */
  size_t share_bytes;   /* of the whole call, in IN or OUT */
  struct numbers numbers;
  struct tt_reduce_arg arg; /* where elements are converted or only looked at */
  int overflow;         /* an infinity or NaN was seen */
  int *looks;           /* &overflow, or NULL: nobody asked */
  size_t segment_count; /* elements of a full segment */
  size_t nsegments;
  size_t slot_bytes; /* of scratch */
  int nlanes;      /* lanes this run uses */
  int busy;          /* lanes not done yet */
  int opened;        /* lanes whose links are open */
  struct tt_link *broken;
  char *in_copy;          /* copy of IN, where in place would spoil it */
  size_t in_copy_room;
  const struct tt_device *in_copy_device;
  tt_ticket in_copy_ticket;
  struct pairs *pairs;
  struct tt_call *pairs_call; /* of the binding */
  uint64_t suspect_op; /* the operation that met the broken link */
  int32_t link_room, peer_room; /* of each lane */
  size_t scratch_room;          /* bytes of each lane, on scratch_device */
  const struct tt_device *scratch_device;
  struct lane lanes[TT_MAX_LANES];
};

struct tt_exec {
  int nranks, rank, lanes;
  struct tt_watch *watch;
  const _Atomic int *failed;
  struct tt_transport **transports; /* [ntransports], borrowed */
  int ntransports;
  int *routes;                  /* per rank: the first transport that leads there */
  struct tt_link **open;        /* [lane * nranks + peer] */
  uint64_t same;                /* steps so far that send to several peers: numbers for the heads of their messages */
};

/* The link to `peer` on `lane`: tuttiInProgress until it is open. Where the two have agreed that their route has none,
 * the next transport that leads there has it. Errors: those of tt_transport_ops.open; tuttiSystemError: none has. */
tuttiResult_t tt_exec_link(struct tt_exec *exec, int peer, int lane, struct tt_link **link);

/* step.c: what came of trying to move a step. */
enum tried { TRIED_NOTHING, TRIED_MOVED, TRIED_FINISHED, TRIED_ERROR };

/* Starts the messages of a step of `bytes` > 0 that is now allowed to run. */
void tt_step_begin(struct tt_run *run, struct lane *lane, int32_t index, size_t bytes);

/* Moves a step; on TRIED_ERROR *result is the code, or tuttiInProgress with run->broken set. */
enum tried tt_step_move(struct tt_run *run, struct lane *lane, int32_t index, tuttiResult_t *result);

/* Element of the segment, all shares of it one behind the other, where a block begins. */
static inline size_t block_start(const struct tt_run *run, const struct lane *lane, int32_t block)
{
  size_t b = (size_t)block, shares = 0;
  if (run->plan->nshares > 1) {
    size_t each = (size_t)run->plan->schedule.shape.nblocks;
    shares = b / each;
    b -= shares * each;
  }
  return shares * lane->count + lane->base * b + (b < lane->more ? b : lane->more);
}

/* Bytes the step is about, in this segment. Short messages feel what is done here, so there are short ways. */
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

/* Every span of the step is one piece of memory, of elements as long as those of messages. */
static inline int step_is_plain(const struct tt_run *run, int32_t index)
{
  return run->plan->steps[index].is_plain && !run->numbers.is_wide;
}

/* Where a span of a plain step begins in memory. */
static inline char *plain_look(const struct tt_run *run, const struct lane *lane, struct tt_operand operand)
{
  size_t at = (size_t)operand.at;
  if (operand.place == TT_SCRATCH) return lane->scratch + at * run->slot_bytes;
  char *base = operand.place == TT_IN ? (char *)(uintptr_t)run->in : run->binding->out;
  return base + (lane->start + lane->base * at + (at < lane->more ? at : lane->more)) * run->element;
}

/* Where byte `done` of a span lies in memory; *n is lowered to what follows there in one piece. Both count bytes of
 * messages: in IN and OUT of a wide run these are twice as many. */
char *tt_span_look(const struct tt_run *run, const struct lane *lane, struct tt_operand operand, size_t done,
                   size_t *n);

/* numbers.c */

/* Of a call that does more than combine: the rest of run->numbers. */
tuttiResult_t tt_numbers_bind_more(struct tt_run *run);

/* Sets run->numbers, and what follows from them, from plan and binding. */
static inline tuttiResult_t tt_numbers_bind(struct tt_run *run)
{
  const struct tt_call *call = &run->binding->call;
  run->numbers = (struct numbers){.type = call->type, .redop = call->redop};
  run->element = tt_type_size(call->type);
  run->share_bytes = (size_t)call->count * run->element;
  run->looks = NULL;
  if (call->redop <= tuttiMin && call->form == 0 && run->binding->before == 1) return tuttiSuccess;
  return tt_numbers_bind_more(run);
}

/* The argument of a kernel that carries out a step. */
void tt_numbers_arg(const struct tt_run *run, int32_t index, struct tt_reduce_arg *arg);

/* All steps of the segment are done: does what is left to do to its results. TRIED_FINISHED: over. */
enum tried tt_numbers_end(struct tt_run *run, struct lane *lane, tuttiResult_t *result);

/* Of a run that looks: the steps head + k, for the bits k of `steps`, are finished; what was seen is said in all
 * messages that begin from now on. */
void tt_numbers_report(struct tt_run *run, const struct lane *lane, uint64_t steps);

/* quick.c */

/* Makes plan->quick if the plan can be run at once. 0: no memory. */
int tt_quick_make(struct tt_plan *plan);
void tt_quick_destroy(struct quick *quick); /* NULL is allowed */

/* The links of lane 0 are open. */
void tt_quick_links(const struct tt_plan *plan, struct tt_link *const *links);

/* How far a call has come at once. */
struct begun {
  uint64_t done; /* steps that are over */
  int32_t half;  /* a step of which the first `sent` peers have their message; sent 0: none */
  int32_t sent;
};

/* tt_run_start for what was begun at once (run.c). */
tuttiResult_t tt_run_take_up(struct tt_run *run, const struct tt_plan *plan, const struct tt_binding *binding,
                             const struct begun *begun);

/* pairs.c */
tuttiResult_t tt_pairs_poll(struct tt_run *run, int *moved);
void tt_pairs_destroy(struct pairs *pairs);

/* The i-th link that the transfers under way wait for, NULL: it is not open yet; 0: there are no more. */
int tt_pairs_waits(const struct pairs *pairs, int i, struct tt_link **link);

#endif
