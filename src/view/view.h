/* SPDX-License-Identifier: BSD-3-Clause */
/* Views: one rank's part in agreeing with the other survivors on who is left of a communicator, and on the outcome of
 * each operation, as a pure step function. Events go in; the caller takes actions out and carries them out: it moves
 * data and words, and asks the watch who is lost.
 *
 * A *view* is the set of ranks that carry out operations together. The first one has all ranks and number 1. Ranks call
 * the same operations in the same order; their numbers are 1, 2, 3, ... An operation of a rank passes through
 *
 *   tt_view_begin    the data moves
 *   tt_view_held     this rank has the whole result, and tells all members of the view
 *   (end)            all members have told it: the operation has succeeded. The caller waits for that: it is the commit
 *                    barrier, a collective that ends on no rank before all have entered it
 *
 * or tt_view_stop: the data plane of the view has failed, and the view changes. Survivors tell each other in words whom
 * they know to be lost, their operation, and the last one whose result they hold. Once all survivors have said the same
 * set of lost ranks, each computes the decision and promises it; once all survivors have promised it, it counts. A
 * further loss begins another round, in which an earlier promise is the decision, if any survivor has made one. Sets
 * only grow, and each round is heard by all of its survivors, so their promises are all the same. So a decision that
 * counts for any rank, also one that is lost right after, is in the promises of all survivors, and no round decides
 * anything else. With a detector of losses that is never wrong this takes no majority (Chandra and Toueg, JACM 43(2),
 * 1996).
 *
 * Between hosts (`may_part`) two parts of the ranks may take each other for lost, as the network between them is down;
 * each is the survivors of its own rounds. So the survivors of the last round go on only if they are more than half of
 * the ranks of the view that ends, or half of them with the lowest one. Ranks that one of these survivors knows to have
 * died, or left, do not count: each report says who they are, and all survivors have heard the same reports, so all
 * come to the same answer, whatever was promised before, and whatever a rank has decided that they have left behind
 * since: they were enough with it, and may be too few without. In a part that does not go on an operation succeeds if a
 * survivor has seen it do so.
 *
 * The decision: let k be the smallest number of an operation that a survivor is in. If all survivors hold the result of
 * k, k succeeds on all of them; else k fails on all. The operation after the last one that succeeds fails on all ranks
 * that are left, also on those that had not begun it: each change of the view fails exactly one operation. The next one
 * is the first of the new view. A rank in operation k + 1 proves that all members hold the result of k, so ranks are in
 * two different operations at most, and no rank that has seen k succeed is contradicted.
 *
 * Invariants, which tests/unit/view.c simulates by seed:
 *   - all ranks for which an operation ends, also those that are lost afterwards, see the same outcome;
 *   - on success every member of the view that is not lost holds the result;
 *   - all ranks that install a view have the same members in it, and the same last operation before it;
 *   - an operation fails only if a rank was lost, or gave up, and no more operations fail than views end;
 *   - while one rank lives, it goes on: it waits for no lost rank;
 *   - a rank that was taken for lost wrongly ends, and contradicts nobody;
 *   - of two parts that take each other for lost at most one goes on, and without deaths exactly one; all survivors of
 *     a part go on, or none does.
 * Requires: a lost rank is told to all survivors, and to itself before them if it lives; words of a rank that is not
 * lost reach all others. A rank that calls no more operations leaves, and is lost then.
 *
 * Nothing here reads a clock or moves a byte. One thread at a time. */
#ifndef TT_VIEW_H
#define TT_VIEW_H

#include <stdint.h>

#include "base/base.h"

#define TT_VIEW_RANKS 256 /* at most, of the first view */

struct tt_rank_set {
  uint64_t bits[TT_VIEW_RANKS / 64];
};

static inline int tt_rank_set_has(const struct tt_rank_set *set, int rank)
{
  return set->bits[rank / 64] >> rank % 64 & 1;
}

#define TT_VIEW_PART 1000 /* as the end of the last view: the survivors are a part that does not go on */

/* The end of a view. */
struct tt_view_decision {
  uint64_t view;           /* which one ends; 0: there is no decision */
  uint64_t last;           /* the last operation that succeeds in it; the next one fails */
  uint64_t ends;           /* not 0: there is no next view: TT_VIEW_PART, or a rank gave up with this code */
  struct tt_rank_set lost; /* its members that are not in the next one */
};

/* The newest news of one rank, for all others. It is sent as it is. */
struct tt_view_word {
  uint64_t number;           /* of the rank's words, from 1 on */
  uint64_t view;             /* the view in which the rank is */
  uint64_t phase;            /* enum tt_view_phase */
  uint64_t op, held;         /* the operation begun last; the last one whose result it holds */
  uint64_t ends;             /* not 0: the rank gives up, with this code */
  struct tt_rank_set lost;   /* members that it knows to be lost */
  struct tt_rank_set dead;   /* those of them of which it knew, when it said so first, that they died or left */
  struct tt_view_decision promised; /* in this view; .view 0: nothing yet */
  struct tt_view_decision decided;  /* the newest decision that it knows to count */
};

enum tt_view_phase { TT_VIEW_WORKS, TT_VIEW_REPORTS, TT_VIEW_PROMISES };

struct tt_view;

/* Errors: tuttiInvalidArgument: nranks above TT_VIEW_RANKS; tuttiSystemError: no memory. */
tuttiResult_t tt_view_create(struct tt_view **view, int nranks, int rank, int may_part);
void tt_view_destroy(struct tt_view *view); /* NULL is allowed */

/* ---- events ---- */

enum tt_view_fate {
  TT_VIEW_RUNS,  /* the operation is carried out in the present view */
  TT_VIEW_FAILS, /* it has failed already: another rank was in it when the last view ended. It is over */
  TT_VIEW_OVER   /* this rank is in no view any more: it was expelled, or a rank gave up */
};

/* The next operation begins. Not during a change of the view. */
enum tt_view_fate tt_view_begin(struct tt_view *view);

/* This rank has the whole result of the operation under way. */
void tt_view_held(struct tt_view *view);

/* The operation under way cannot go on, as a member of the view is lost, or another rank has stopped. ends: 0, or the
 * code with which this rank gives up: then the last view ends. Once in a view; the outcome follows as TT_VIEW_CHANGED.
 */
void tt_view_stop(struct tt_view *view, tuttiResult_t ends);

/* A rank is lost: it will never say another word that counts. is_dead: it died or left, and is not just out of reach.
 * At any time, also again. A rank that is told this of itself is expelled. */
void tt_view_lose(struct tt_view *view, int rank, int is_dead);

/* Another rank has said this. Older words than the newest one are ignored, and so is what no correct rank says. */
void tt_view_hear(struct tt_view *view, int rank, const struct tt_view_word *word);

/* ---- actions ---- */

enum tt_view_act {
  TT_VIEW_NOTHING,
  TT_VIEW_SAY,     /* tell all other ranks tt_view_said */
  TT_VIEW_CHANGED, /* the view has ended, by tt_view_said()->decided; the outcome of the operation under way is known */
  TT_VIEW_EXPELLED /* the others have gone on without this rank: the operation under way fails */
};

/* Takes the next action; a word comes before what follows from it. */
enum tt_view_act tt_view_next(struct tt_view *view);

/* ---- facts ---- */

const struct tt_view_word *tt_view_said(const struct tt_view *view);
const struct tt_rank_set *tt_view_members(const struct tt_view *view);

/* 1: another member of the present view has stopped, as far as this rank has heard; or is lost. */
int tt_view_is_stopping(const struct tt_view *view);

/* 1: the change of the view waits for a word of this rank. */
int tt_view_awaits(const struct tt_view *view, int rank);

/* 1: the change of the view made the operation that was under way succeed. */
int tt_view_succeeds(const struct tt_view *view);

#endif
