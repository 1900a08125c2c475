/* SPDX-License-Identifier: BSD-3-Clause */
/* The core of views, simulated by seed: ranks carry out operations over links that take drawn times, die at any moment,
 * also in the middle of telling others, give up, or are taken for lost while they live, one by one or, as a network is
 * cut, in two parts. The data plane is three kinds
 * of operation and the commit barrier, message by message. The contract is checked for every rank and operation.
 * "--seed N": the first seed; "--seeds N": so many of each test; "--only TEST".
 * Labels: serial, planner. */
#include "slow.h"
#include "view/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "simulated.h"

#define RANKS 7
#define OPS 8
#define VIEWS (RANKS + 2)
#define NOTES 200000 /* more of them, and there is no end */

static uint64_t first_seed = 1;
static int nseeds = IS_SLOW ? 300 : 3000;

enum outcome { UNKNOWN, SUCCESS, FAILURE, OUTSIDE }; /* OUTSIDE: the rank is in no view any more */

struct rank {
  struct tt_view *view;
  int is_dead, is_in, has_stopped, is_lost, is_out; /* is_lost: told to the others; is_out: it was expelled */
  int side;                       /* of a network that is cut, 0 or 1 */
  int most;                       /* actions until it dies; -1: it does not */
  uint64_t op, done;              /* under way or last; ended */
  enum outcome outcomes[OPS + 1];
  uint64_t held_in[OPS + 1];      /* the view in which it got the whole result; 0: it has not */
  struct tt_rank_set members[VIEWS + 1]; /* of views that it has installed */
  uint64_t last[VIEWS + 1];       /* operation before these */
  int failed[VIEWS + 1];          /* its data plane has failed */
  uint32_t data[VIEWS + 1][OPS + 1], marks[VIEWS + 1][OPS + 1]; /* ranks from which it has them */
};

enum what { CALL, DATA, MARK, WORD, LOST, FAILED, DIES, GIVES_UP, CUT };

struct note {
  enum what what;
  int from, to, is_dead;      /* is_dead: the lost one is known to be */
  uint64_t view, op;
  struct tt_view_word word;
};

static struct world {
  uint64_t seed, chance, now;
  int n, nlost, nleft, ngive, is_freezing, nfailed;
  int may_part, parts, is_cut;
  uint64_t nops;
  uint64_t decided;           /* views that have ended somewhere */
  struct rank ranks[RANKS];
  struct agenda agenda;
} w;

static void note_at(uint64_t time, struct note note)
{
  agenda_add(&w.agenda, time, &note, sizeof note);
}

static uint64_t soon(void)
{
  uint64_t at = w.now + 1 + below(&w.chance, 40);
  return below(&w.chance, 12) ? at : at + 400;
}

/* Two ranks that cannot hear each other. */
static int are_apart(int a, int b)
{
  return w.is_cut && w.ranks[a].side != w.ranks[b].side;
}

/* The others are told that the rank is lost. leaves: all also that it left, else some that it is dead. */
static void lose(int r, uint64_t from, int leaves)
{
  for (int to = 0; to < w.n && !w.ranks[r].is_lost; to++)
    if (to != r && !are_apart(r, to))
      note_at(from + below(&w.chance, 300),
              (struct note){.what = LOST, .from = r, .to = to, .is_dead = leaves || below(&w.chance, 3) == 0});
  w.ranks[r].is_lost = 1;
}

/* One act of a rank that others may notice. 0: it has died before. */
static int acts(int r)
{
  struct rank *rank = &w.ranks[r];
  if (rank->is_dead) return 0;
  if (rank->most < 0 || rank->most--) return 1;
  rank->is_dead = 1;
  lose(r, w.now + 1, !w.parts);
  return 0;
}

static void tell(int from, int to, struct note note)
{
  if (from == to || !acts(from) || are_apart(from, to)) return;
  note.from = from;
  note.to = to;
  note_at(soon(), note);
}

static uint32_t mask_of(const struct tt_rank_set *set)
{
  return (uint32_t)set->bits[0];
}

/* In any order, so that the ranks told by a dying one are any. */
static void tell_all(int from, uint32_t ranks, struct note note)
{
  int first = (int)below(&w.chance, (size_t)w.n);
  for (int k = 0; k < w.n; k++) {
    int to = (first + k) % w.n;
    if (ranks >> to & 1) tell(from, to, note);
  }
}

/* ---- the data plane ---- */

static uint64_t view_of(const struct rank *rank)
{
  return tt_view_said(rank->view)->view;
}

/* 0: all need all; 1: all need the root; 2: the root needs all. */
static uint32_t needs(int r, uint64_t op, uint32_t members)
{
  uint64_t chance = w.seed * 1000 + op;
  int kind = (int)below(&chance, 3), root = (int)below(&chance, (size_t)w.n);
  while (!(members >> root & 1)) root = (root + 1) % w.n;
  if (kind == 1) return 1u << root;
  return kind == 0 || r == root ? members : 1u << r;
}

static void op_end(int r, enum outcome outcome)
{
  struct rank *rank = &w.ranks[r];
  uint64_t op = rank->op;
  rank->is_in = 0;
  rank->done = op;
  rank->outcomes[op] = outcome;
  w.nfailed += outcome == FAILURE;
  const struct tt_view_decision *decided = &tt_view_said(rank->view)->decided;
  CHECK(!decided->ends || op <= decided->last + 1 || outcome == OUTSIDE, "rank %d goes on after the end", r);
  if (decided->ends == TT_VIEW_PART && outcome == FAILURE) rank->outcomes[op] = OUTSIDE;
  if (outcome != OUTSIDE && op < w.nops) note_at(w.now + below(&w.chance, 60), (struct note){.what = CALL, .to = r});
  else {
    w.nleft += outcome != OUTSIDE;
    lose(r, soon(), 1);
  }
}

static void actions_take(int r);

static void stop(int r, tuttiResult_t ends)
{
  struct rank *rank = &w.ranks[r];
  uint64_t view = view_of(rank);
  rank->has_stopped = 1;
  tt_view_stop(rank->view, ends);
  tell_all(r, (1u << w.n) - 1, (struct note){.what = FAILED, .view = view});
  actions_take(r);
}

/* Moves the operation under way as far as it goes. */
static void op_move(int r)
{
  struct rank *rank = &w.ranks[r];
  uint64_t view = view_of(rank), op = rank->op;
  if (rank->is_dead || !rank->is_in || rank->has_stopped) return;
  uint32_t members = mask_of(tt_view_members(rank->view));
  if (rank->failed[view] && tt_view_is_stopping(rank->view)) {
    stop(r, 0);
    return;
  }
  uint32_t wanted = needs(r, op, members);
  if (!rank->held_in[op] && (rank->data[view][op] & wanted) == wanted) {
    rank->held_in[op] = view;
    rank->marks[view][op] |= 1u << r;
    tt_view_held(rank->view);
    tell_all(r, members, (struct note){.what = MARK, .view = view, .op = op});
  }
  if (!rank->is_dead && rank->held_in[op] && (rank->marks[view][op] & members) == members) op_end(r, SUCCESS);
}

static void call(int r)
{
  struct rank *rank = &w.ranks[r];
  enum tt_view_fate fate = tt_view_begin(rank->view);
  uint64_t view = view_of(rank), op = ++rank->op;
  rank->is_in = 1;
  rank->has_stopped = 0;
  if (fate != TT_VIEW_RUNS) {
    op_end(r, fate == TT_VIEW_FAILS ? FAILURE : OUTSIDE);
    return;
  }
  rank->data[view][op] |= 1u << r;
  tell_all(r, mask_of(tt_view_members(rank->view)), (struct note){.what = DATA, .view = view, .op = op});
}

/* ---- the view ---- */

/* 1: without deaths, and if all were members, the part of this rank has more than half of them, or half with rank 0. */
static int is_main(int rank)
{
  int n = 0;
  for (int r = 0; r < w.n; r++) n += !are_apart(r, rank);
  return 2 * n > w.n || (2 * n == w.n && !are_apart(0, rank));
}

static void installed(int r)
{
  struct rank *rank = &w.ranks[r];
  const struct tt_view_decision *decided = &tt_view_said(rank->view)->decided;
  uint64_t view = view_of(rank);
  CHECK(view <= VIEWS, "view %d of %d ranks", (int)view, w.n);
  if (view - 1 > w.decided) w.decided = view - 1;
  for (int k = 0; k < w.n; k++)
    CHECK(!tt_rank_set_has(&decided->lost, k) || w.ranks[k].is_lost || are_apart(r, k),
          "rank %d left rank %d behind, which lives", r, k);
  CHECK(mask_of(&decided->lost) || decided->ends, "rank %d: a view ended without a cause", r);
  CHECK(mask_of(tt_view_members(rank->view)) == (mask_of(&rank->members[view - 1]) ^ mask_of(&decided->lost)),
        "rank %d: view %d is not the one before without the lost ones", r, (int)view);
  CHECK(decided->ends != TT_VIEW_PART || w.nlost || w.nleft || !is_main(r), "the main part of rank %d ends", r);
  rank->members[view] = *tt_view_members(rank->view);
  rank->last[view] = decided->last;
  for (int k = 0; k < w.n; k++) {
    const struct rank *other = &w.ranks[k];
    if (!mask_of(&other->members[view])) continue;
    const struct tt_view_decision *theirs = &tt_view_said(other->view)->decided;
    if (mask_of(&other->members[view]) != mask_of(&rank->members[view]) && are_apart(r, k)) {
      CHECK(view_of(other) != view || theirs->ends || decided->ends, "parts %x and %x go on",
            mask_of(&rank->members[view]), mask_of(&other->members[view]));
      continue;
    }
    int nparts = (decided->ends == TT_VIEW_PART) + (view_of(other) == view && theirs->ends == TT_VIEW_PART);
    if (nparts == 2) continue; /* before one of them decided it had heard of one more loss */
    if (nparts == 1 && (other->is_lost || rank->is_lost)) continue; /* without it the others are fewer than half */
    CHECK(view_of(other) != view || theirs->ends == decided->ends, "view %d ends with %d on rank %d, %d on rank %d",
          (int)view - 1, (int)decided->ends, r, (int)theirs->ends, k);
    CHECK(mask_of(&other->members[view]) == mask_of(&rank->members[view]) && other->last[view] == rank->last[view],
          "ranks %d and %d disagree about view %d: %x and %x, operations %d and %d", r, k, (int)view,
          mask_of(&rank->members[view]), mask_of(&other->members[view]), (int)rank->last[view],
          (int)other->last[view]);
  }
  if (tt_view_is_stopping(rank->view)) note_at(soon(), (struct note){.what = FAILED, .from = r, .to = r, .view = view});
  if (rank->is_in && rank->has_stopped) op_end(r, tt_view_succeeds(rank->view) ? SUCCESS : FAILURE);
}

static void actions_take(int r)
{
  struct rank *rank = &w.ranks[r];
  for (enum tt_view_act act; !rank->is_dead && (act = tt_view_next(rank->view)) != TT_VIEW_NOTHING;) {
    if (act == TT_VIEW_SAY)
      tell_all(r, (1u << w.n) - 1, (struct note){.what = WORD, .word = *tt_view_said(rank->view)});
    else if (act == TT_VIEW_CHANGED) {
      if (acts(r)) installed(r);
    } else {
      CHECK(rank->is_lost, "rank %d was expelled, and nobody said that it is lost", r);
      rank->is_out = 1;
      if (rank->is_in) op_end(r, OUTSIDE);
    }
  }
}

/* ---- what happens ---- */

static void hear(const struct note *note)
{
  struct rank *rank = &w.ranks[note->to];
  uint64_t view = note->what == LOST ? view_of(rank) : note->view;
  if (note->what == WORD) tt_view_hear(rank->view, note->from, &note->word);
  if (note->what == LOST) tt_view_lose(rank->view, note->from, note->is_dead);
  if (note->what == DATA) rank->data[view][note->op] |= 1u << note->from;
  if (note->what == MARK) rank->marks[view][note->op] |= 1u << note->from;
  if (note->what == LOST && tt_view_is_stopping(rank->view)) /* the data plane notices it a little later */
    note_at(soon(), (struct note){.what = FAILED, .from = note->to, .to = note->to, .view = view});
  if (note->what == FAILED) rank->failed[view] = 1;
  actions_take(note->to);
}

/* From now on each rank hears its side only, and takes the others for lost. */
static void cut(void)
{
  w.is_cut = 1;
  for (int r = 0; r < w.n; r++) w.ranks[r].side = below(&w.chance, 2) != 0;
  for (int from = 0; from < w.n; from++)
    for (int to = 0; to < w.n; to++)
      if (are_apart(from, to))
        note_at(w.now + below(&w.chance, 300), (struct note){.what = LOST, .from = from, .to = to});
}

static void happen(const struct note *note)
{
  struct rank *rank = &w.ranks[note->to];
  if (note->what == CUT) cut();
  if (rank->is_dead || note->what == CUT) return;
  if (note->what == CALL) call(note->to);
  else if (note->what == DIES) {
    if (w.is_freezing) { /* it lives, and finds that the others take it for lost */
      tt_view_lose(rank->view, note->to, 0);
      lose(note->to, w.now + 1, 1);
      actions_take(note->to);
    } else {
      rank->most = (int)below(&w.chance, 12); /* somewhere within its next acts */
      if (rank->most < 6) rank->most = 0;
      if (!rank->most) acts(note->to);
    }
  } else if (note->what == GIVES_UP) {
    if (rank->is_in && !rank->has_stopped) stop(note->to, tuttiSystemError);
  } else hear(note);
  op_move(note->to);
}

static void end_check(void)
{
  for (int r = 0; r < w.n; r++) {
    const struct rank *rank = &w.ranks[r];
    int failures = 0, is_over = 0;
    for (uint64_t op = 1; op <= w.nops; op++) {
      enum outcome outcome = rank->outcomes[op];
      failures += outcome == FAILURE;
      is_over |= outcome == OUTSIDE;
      for (int k = 0; k < r; k++) {
        enum outcome other = w.ranks[k].outcomes[op];
        int are_known = outcome && other && outcome != OUTSIDE && other != OUTSIDE;
        CHECK(!are_known || outcome == other, "operation %d: outcome %d on rank %d, %d on rank %d", (int)op, outcome, r,
              other, k);
      }
      CHECK(outcome != SUCCESS || rank->held_in[op], "operation %d succeeds on rank %d, which has no result", (int)op,
            r);
      for (int k = 0; k < w.n && outcome == SUCCESS; k++)
        CHECK(w.ranks[k].is_lost || are_apart(r, k) || !tt_rank_set_has(&rank->members[rank->held_in[op]], k) ||
                  w.ranks[k].held_in[op] == rank->held_in[op],
              "operation %d succeeds on rank %d, and rank %d never held the result", (int)op, r, k);
    }
    CHECK(failures <= (int)w.decided, "rank %d: %d operations failed in %d changes", r, failures, (int)w.decided);
    int has_parted = tt_view_said(rank->view)->decided.ends == TT_VIEW_PART;
    CHECK(!is_over || w.ngive || rank->is_out || has_parted, "rank %d is in no view", r);
    CHECK(!has_parted || w.parts, "rank %d is a part of its own, and has all that are not dead", r);
    CHECK(rank->is_dead || is_over || rank->done == w.nops, "rank %d waits in operation %d for ever", r,
          (int)rank->op);
  }
}

enum kind { DEATHS = 1, FREEZES = 2, PARTS = 4 };

static void world_begin(uint64_t seed, int kinds, int gives)
{
  w = (struct world){.seed = seed, .chance = seed, .ngive = gives, .parts = (kinds & PARTS) != 0};
  w.is_freezing = (kinds & FREEZES) != 0;
  w.may_part = w.parts || (kinds == DEATHS && seed % 2);
  w.n = 1 + (int)below(&w.chance, RANKS);
  w.nops = 1 + below(&w.chance, OPS);
  w.nlost = kinds & DEATHS ? (int)below(&w.chance, (size_t)w.n) : 0;
  for (int r = 0; r < w.n; r++) {
    struct rank *rank = &w.ranks[r];
    assert_int_equal(tt_view_create(&rank->view, w.n, r, w.may_part), tuttiSuccess);
    rank->most = -1;
    rank->members[1] = *tt_view_members(rank->view);
    note_at(below(&w.chance, 60), (struct note){.what = CALL, .to = r});
  }
  uint64_t span = 60 + 120 * w.nops; /* deaths are near each other, or spread */
  uint64_t around = below(&w.chance, span), near = below(&w.chance, 2) ? 150 : span;
  for (int k = 0, r = (int)below(&w.chance, (size_t)w.n); k < w.nlost; k++)
    note_at(around + below(&w.chance, near), (struct note){.what = DIES, .to = (r + k) % w.n});
  for (int k = 0; k < gives; k++)
    note_at(below(&w.chance, span), (struct note){.what = GIVES_UP, .to = (int)below(&w.chance, (size_t)w.n)});
  if (w.parts) note_at(around + below(&w.chance, near), (struct note){.what = CUT});
}

static void world_run(uint64_t seed, int kinds, int gives)
{
  world_begin(seed, kinds, gives);
  for (const struct note *note; (note = agenda_next(&w.agenda, &w.now));) {
    happen(note);
    CHECK(w.agenda.n < NOTES, "no end");
  }
  end_check();
  trace_end(seed, w.chance);
  for (int r = 0; r < w.n; r++) tt_view_destroy(w.ranks[r].view);
}

/* ---- tests ---- */

static void without_a_loss_no_operation_fails(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds / 10; k++) {
    world_run(first_seed + (uint64_t)k, 0, 0);
    CHECK(w.nfailed == 0, "an operation failed");
  }
}

static void survivors_of_any_deaths_agree_and_go_on(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds; k++) world_run(first_seed + (uint64_t)k, DEATHS, 0);
}

static void ranks_that_give_up_end_all_alike(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds; k++) {
    uint64_t seed = first_seed + (uint64_t)k;
    world_run(seed, seed / 2 % 2 ? DEATHS : 0, 1 + (int)(seed % 3)); /* ranks may part, or not, by seed % 2 */
  }
}

static void ranks_taken_for_lost_contradict_nobody(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds; k++) world_run(first_seed + (uint64_t)k, DEATHS | FREEZES, 0);
}

static void of_two_parts_one_at_most_goes_on(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds; k++) {
    uint64_t seed = first_seed + (uint64_t)k;
    world_run(seed, seed % 2 ? PARTS : DEATHS | PARTS, 0);
  }
}

/* Rank 2 is cut off from ranks 0 and 1, or they from it; is_ahead: rank 1 has seen operation 1 succeed, which all hold.
 * Returns the last operation that succeeds in the view on rank 0. */
static uint64_t last_of(int nranks, int is_ahead)
{
  struct tt_view *views[2];
  for (int r = 0; r < 2; r++) {
    assert_int_equal(tt_view_create(&views[r], nranks, r, 1), tuttiSuccess);
    assert_int_equal(tt_view_begin(views[r]), TT_VIEW_RUNS);
    tt_view_held(views[r]);
    if (r && is_ahead) tt_view_begin(views[r]);
    for (int k = 2; k < nranks; k++) tt_view_lose(views[r], k, 0);
    tt_view_stop(views[r], tuttiSuccess);
  }
  for (int k = 0; k < 8; k++) {
    tt_view_hear(views[k % 2], !(k % 2), tt_view_said(views[!(k % 2)]));
    while (tt_view_next(views[k % 2]) != TT_VIEW_NOTHING) {}
  }
  const struct tt_view_decision *decided = &tt_view_said(views[0])->decided;
  uint64_t last = decided->last;
  assert_int_equal(decided->ends, nranks > 4 ? TT_VIEW_PART : 0);
  for (int r = 0; r < 2; r++) tt_view_destroy(views[r]);
  return last;
}

static void a_part_that_ends_tells_the_successes_that_it_saw(void **state)
{
  (void)state;
  assert_int_equal(last_of(3, 0), 1);
  assert_int_equal(last_of(5, 0), 0); /* those that it cannot hear may make it fail */
  assert_int_equal(last_of(5, 1), 1);
}

static void hears(struct tt_view *view, int from, const struct tt_view_word *word)
{
  tt_view_hear(view, from, word);
  while (tt_view_next(view) != TT_VIEW_NOTHING) {}
}

/* Of 7 ranks 1 and 4 are dead, and 0 and 3 out of reach. Rank 2 hears the promises of 5 and 6, by which three of five
 * go on, and dies; 5 hears of that before it hears of its decision. The two that are left are no part that goes on. */
static void what_a_rank_decided_before_its_loss_was_heard_of_counts_for_nobody_behind_it(void **state)
{
  (void)state;
  const int rank[3] = {2, 5, 6};
  struct tt_view *views[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tt_view_create(&views[i], 7, rank[i], 1), tuttiSuccess);
    assert_int_equal(tt_view_begin(views[i]), TT_VIEW_RUNS);
    for (int k = 0; k < 5; k++)
      if (k != 2) tt_view_lose(views[i], k, k == 1 || k == 4);
    tt_view_stop(views[i], tuttiSuccess);
    while (tt_view_next(views[i]) != TT_VIEW_NOTHING) {}
  }
  struct tt_view_word first = *tt_view_said(views[0]);
  for (int i = 1; i < 3; i++) {
    struct tt_view_word other = *tt_view_said(views[3 - i]);
    hears(views[i], rank[0], &first);
    hears(views[i], rank[3 - i], &other);
  }
  for (int i = 1; i < 3; i++) hears(views[0], rank[i], tt_view_said(views[i]));
  struct tt_view_word last = *tt_view_said(views[0]);
  assert_true(last.decided.view == 1 && last.decided.ends == 0);
  for (int i = 1; i < 3; i++) {
    tt_view_lose(views[i], rank[0], 1);
    while (tt_view_next(views[i]) != TT_VIEW_NOTHING) {}
  }
  hears(views[1], rank[0], &last);
  for (int k = 0; k < 4; k++) hears(views[1 + k % 2], rank[2 - k % 2], tt_view_said(views[2 - k % 2]));
  for (int i = 1; i < 3; i++) assert_int_equal(tt_view_said(views[i])->decided.ends, TT_VIEW_PART);
  for (int i = 0; i < 3; i++) tt_view_destroy(views[i]);
}

/* Rank 3 was cut off, took all others for lost, and is heard again while these agree that it is lost. */
static void what_a_lost_rank_says_of_others_costs_none_of_them(void **state)
{
  (void)state;
  struct tt_view *views[3];
  const struct tt_view_word report = {
      .number = 1, .view = 1, .phase = TT_VIEW_REPORTS, .op = 1, .lost = {.bits = {7}}};
  for (int r = 0; r < 3; r++) {
    assert_int_equal(tt_view_create(&views[r], 4, r, 1), tuttiSuccess);
    assert_int_equal(tt_view_begin(views[r]), TT_VIEW_RUNS);
    tt_view_lose(views[r], 3, 0);
    tt_view_stop(views[r], tuttiSuccess);
    hears(views[r], 3, &report);
  }
  for (int k = 0; k < 12; k++)
    for (int from = 0; from < 3; from++)
      if (from != k % 3) hears(views[k % 3], from, tt_view_said(views[from]));
  for (int r = 0; r < 3; r++) {
    const struct tt_view_decision *decided = &tt_view_said(views[r])->decided;
    assert_true(decided->view == 1 && decided->ends == 0 && decided->lost.bits[0] == 8);
    tt_view_destroy(views[r]);
  }
}

/* The others have gone on without this rank, and have left since. */
static void a_late_rank_does_not_go_on_alone(void **state)
{
  (void)state;
  struct tt_view *view;
  const struct tt_view_word word = {.number = 1, .view = 2, .op = 2, .decided = {.view = 1, .lost = {.bits = {16}}}};
  assert_int_equal(tt_view_create(&view, 5, 4, 1), tuttiSuccess);
  assert_int_equal(tt_view_begin(view), TT_VIEW_RUNS);
  for (int r = 0; r < 4; r++) tt_view_lose(view, r, 1);
  tt_view_hear(view, 0, &word);
  tt_view_stop(view, tuttiSuccess);
  enum tt_view_act act = tt_view_next(view);
  while (act == TT_VIEW_SAY) act = tt_view_next(view);
  assert_int_equal(act, TT_VIEW_EXPELLED);
  tt_view_destroy(view);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_a_lost_rank_says_of_others_costs_none_of_them),
    cmocka_unit_test(a_late_rank_does_not_go_on_alone),
    cmocka_unit_test(without_a_loss_no_operation_fails),
    cmocka_unit_test(survivors_of_any_deaths_agree_and_go_on),
    cmocka_unit_test(ranks_that_give_up_end_all_alike),
    cmocka_unit_test(ranks_taken_for_lost_contradict_nobody),
    cmocka_unit_test(of_two_parts_one_at_most_goes_on),
    cmocka_unit_test(a_part_that_ends_tells_the_successes_that_it_saw),
    cmocka_unit_test(what_a_rank_decided_before_its_loss_was_heard_of_counts_for_nobody_behind_it)};
  seeds_read(argc, argv, "--seeds", &first_seed, &nseeds);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
