/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by views.c and replicas.c: fault_level 1, and 3 which rests on it. */
#ifndef TT_COMM_VIEWS_H
#define TT_COMM_VIEWS_H

#include "comm/private.h"
#include "raft/raft.h"
#include "view/view.h"

/* The words that ranks say over the watch. */
struct tt_views_said {
  struct tt_view_word view;
  struct tt_raft_word raft; /* with fault_level 3 */
};

#define TT_VIEWS_WORDS (int)(sizeof(struct tt_views_said) / sizeof(uint64_t))
_Static_assert(sizeof(struct tt_views_said) <= TT_SAID_WORDS * sizeof(uint64_t), "they are said over the watch");

/* With fault_level 3 ranks of the watch, here processes, are replicas of *logical ranks*, which the program sees as
 * ranks: process p is replica p % n of logical rank p / n. */
struct tt_replicas {
  int n;                        /* of each logical rank: 3 or 5 */
  struct tt_raft raft;          /* among those of this logical rank */
  uint64_t seen[TT_RAFT_REPLICAS]; /* the view in which each of them has said its newest word */
  struct tuttiComm *group;      /* of this view: its replicas of this logical rank */
  struct tuttiComm *leaders;    /* of this view: one process of each logical rank; NULL: this one follows */
  void *copy;                   /* the contribution to a call in place */
  size_t room;
};

struct tt_views {
  struct tt_view *view;
  struct tuttiComm *plane; /* NULL: it is to be made. Set under tt_process.mutex, for tt_views_interrupt */
  struct tt_replicas *replicas; /* with fault_level 3; else NULL */
  uint64_t ncalls;         /* collectives of the program so far */
  int is_due;              /* a view has begun of which the program does not know */
  int nvain;               /* changes of the view without a loss, in calls one after the other ... */
  uint64_t failed;         /* ... the last of which failed that operation of the view */
  char sentence[TT_SENTENCE_BYTES]; /* about the last view that has ended */
  char last[TT_SENTENCE_BYTES];     /* about the end of all; set under tt_process.mutex, before `over` */
  _Atomic int over;        /* the tuttiResult_t with which it has ended for this rank; 0: it goes on */
};

/* ---- views.c ---- */

/* Takes what other ranks say, and who is lost. */
void tt_views_hear(struct tuttiComm *comm);
/* Counts the operations of a communicator of the view for the collective under way, in sentences. */
void tt_views_count(const struct tuttiComm *comm, struct tuttiComm *part);
/* Says this rank's words. */
void tt_views_say(struct tuttiComm *comm);
/* Sets a communicator of the present view, for tt_views_interrupt; returns the one before. */
struct tuttiComm *tt_views_set(struct tuttiComm **slot, struct tuttiComm *comm);
/* The settings of such a communicator. */
struct tt_settings tt_views_settings(const struct tuttiComm *comm);
/* Runs a call on such a communicator, and a barrier. */
tuttiResult_t tt_views_carry(struct tuttiComm *on, struct tt_binding *binding);
tuttiResult_t tt_views_barrier(struct tuttiComm *on);

/* ---- replicas.c: fault_level 3 ---- */

/* In a creation, once the ranks are known. Errors: tuttiInvalidUsage: they are no multiple of the replicas;
 * tuttiSystemError. */
tuttiResult_t tt_replicas_create(struct tuttiComm *comm);
void tt_replicas_destroy(struct tt_replicas *replicas); /* NULL is allowed */

/* Refuses calls that are not carried out yet, and keeps the contribution to a call in place: *own is the binding with
 * it. Errors: tuttiInvalidUsage, tuttiSystemError. */
tuttiResult_t tt_replicas_keep(struct tuttiComm *comm, const struct tt_binding *binding, struct tt_binding *own);

/* For a new view: elects the leader of this logical rank, and makes the communicators of this one and of all leaders.
 * Errors end the view. */
tuttiResult_t tt_replicas_prepare(struct tuttiComm *comm);
/* Takes over losses that only the watch of this logical rank has noticed. */
void tt_replicas_losses(struct tuttiComm *comm);
/* Frees these; aborts: the view has failed. */
void tt_replicas_end(struct tt_replicas *replicas, int aborts);

/* Runs the call: leaders carry it out, and hand the result on. */
tuttiResult_t tt_replicas_run(struct tuttiComm *comm, struct tt_binding *binding);

/* The logical rank that has lost its majority; -1: none has. */
int tt_replicas_lacking(const struct tuttiComm *comm);

#endif
