/* SPDX-License-Identifier: BSD-3-Clause */
#include "view/view.h"

#include <string.h>

struct tt_view {
  int nranks, rank, may_part;
  int is_over, succeeds;
  int says, is_changed, is_expelled; /* actions that are due */
  uint64_t fails;                    /* the operation that failed with the last view */
  struct tt_rank_set members;        /* of the present view */
  struct tt_rank_set lost, dead;     /* of all ranks */
  struct tt_view_word said;
  struct tt_view_word heard[];       /* of each rank */
};

/* ---- sets ---- */

static void add(struct tt_rank_set *set, int rank)
{
  set->bits[rank / 64] |= 1ull << rank % 64;
}

static struct tt_rank_set join(struct tt_rank_set a, const struct tt_rank_set *b)
{
  for (int k = 0; k < TT_VIEW_RANKS / 64; k++) a.bits[k] |= b->bits[k];
  return a;
}

static struct tt_rank_set meet(struct tt_rank_set a, const struct tt_rank_set *b)
{
  for (int k = 0; k < TT_VIEW_RANKS / 64; k++) a.bits[k] &= b->bits[k];
  return a;
}

static struct tt_rank_set without(struct tt_rank_set a, const struct tt_rank_set *b)
{
  for (int k = 0; k < TT_VIEW_RANKS / 64; k++) a.bits[k] &= ~b->bits[k];
  return a;
}

static int same(const struct tt_rank_set *a, const struct tt_rank_set *b)
{
  return memcmp(a, b, sizeof *a) == 0;
}

static int is_empty(const struct tt_rank_set *set)
{
  uint64_t bits = 0;
  for (int k = 0; k < TT_VIEW_RANKS / 64; k++) bits |= set->bits[k];
  return !bits;
}

/* ---- from the beginning to the end ---- */

tuttiResult_t tt_view_create(struct tt_view **out, int nranks, int rank, int may_part)
{
  if (nranks > TT_VIEW_RANKS)
    return tt_fail(tuttiInvalidArgument, "fault_level 1 has %d ranks at most, and nranks is %d: set it to 0",
                   TT_VIEW_RANKS, nranks);
  struct tt_view *view = tt_alloc(1, sizeof *view + (size_t)nranks * sizeof view->heard[0]);
  if (!view) return tt_fail(tuttiSystemError, "no memory for a view of %d ranks", nranks);
  view->nranks = nranks;
  view->rank = rank;
  view->may_part = may_part;
  view->said.view = 1;
  for (int r = 0; r < nranks; r++) add(&view->members, r);
  *out = view;
  return tuttiSuccess;
}

void tt_view_destroy(struct tt_view *view)
{
  tt_free(view);
}

static void say(struct tt_view *view)
{
  view->said.number++;
  view->says = 1;
}

static void expel(struct tt_view *view)
{
  if (view->is_over) return;
  view->said.phase = TT_VIEW_WORKS;
  view->is_over = view->is_expelled = 1;
}

/* The decision counts: the view ends. */
static void decide(struct tt_view *view, const struct tt_view_decision *decision)
{
  struct tt_view_word *said = &view->said;
  if (tt_rank_set_has(&decision->lost, view->rank)) {
    expel(view);
    return;
  }
  view->members = without(view->members, &decision->lost);
  view->succeeds = said->op <= decision->last;
  view->fails = decision->last + 1;
  view->is_over = decision->ends != 0;
  view->is_changed = 1;
  *said = (struct tt_view_word){.number = said->number,
                                .view = said->view + 1,
                                .op = said->op,
                                .held = said->held,
                                .decided = *decision};
  say(view);
}

/* ---- a change ---- */

/* The word of a rank that has stopped in this rank's view; NULL: there is none. */
static const struct tt_view_word *report_of(const struct tt_view *view, int rank)
{
  const struct tt_view_word *word = rank == view->rank ? &view->said : &view->heard[rank];
  return word->view == view->said.view && word->phase != TT_VIEW_WORKS ? word : NULL;
}

/* The decision that follows from the reports of a round, which all survivors have heard. */
static struct tt_view_decision propose(const struct tt_view *view, const struct tt_rank_set *survivors)
{
  struct tt_view_decision decision = {.view = view->said.view, .last = UINT64_MAX, .lost = view->said.lost};
  uint64_t held = UINT64_MAX;
  for (int r = 0; r < view->nranks; r++) {
    if (!tt_rank_set_has(survivors, r)) continue;
    const struct tt_view_word *word = report_of(view, r);
    if (word->promised.view) return word->promised; /* all that survivors have promised are the same */
    if (word->op < decision.last) decision.last = word->op;
    if (word->held < held) held = word->held;
    if (word->ends > decision.ends) decision.ends = word->ends;
  }
  if (held < decision.last) decision.last--;
  return decision;
}

/* 1: the survivors may go on: of the members that are not dead they are more than half, or half with the lowest one. */
static int is_main_part(const struct tt_view *view, const struct tt_rank_set *survivors, const struct tt_rank_set *dead)
{
  struct tt_rank_set all = without(view->members, dead);
  int n = 0, nleft = 0, has_lowest = 0;
  for (int r = 0; r < view->nranks; r++) {
    int is_left = tt_rank_set_has(survivors, r);
    if (!is_left && !tt_rank_set_has(&all, r)) continue;
    has_lowest = n++ ? has_lowest : is_left;
    nleft += is_left;
  }
  return !view->may_part || 2 * nleft > n || (2 * nleft == n && has_lowest);
}

/* The end of the view for the survivors of a round, whose reports all of them have heard, and all promise the same. */
static struct tt_view_decision conclude(const struct tt_view *view, const struct tt_rank_set *survivors)
{
  struct tt_view_decision decision = view->said.promised;
  struct tt_rank_set dead = {{0}};
  uint64_t most = 0;
  for (int r = 0; r < view->nranks; r++) {
    if (!tt_rank_set_has(survivors, r)) continue;
    const struct tt_view_word *word = report_of(view, r);
    if (word->op > most) most = word->op;
    dead = join(dead, &word->dead);
  }
  if (decision.ends || is_main_part(view, survivors, &dead)) return decision;
  return (struct tt_view_decision){
      .view = view->said.view, .last = most - 1, .ends = TT_VIEW_PART, .lost = view->said.lost};
}

/* Takes over what the others know. Returns 1 if the view has ended, or this rank was expelled. */
static int learn(struct tt_view *view)
{
  struct tt_rank_set lost = join(view->said.lost, &view->lost), dead = view->dead;
  for (int r = 0; r < view->nranks; r++) {
    const struct tt_view_word *word = &view->heard[r];
    int is_member = r != view->rank && tt_rank_set_has(&view->members, r);
    if (!is_member || !word->number) continue;
    int is_other_part = word->decided.ends == TT_VIEW_PART && tt_rank_set_has(&word->decided.lost, view->rank);
    if (is_other_part) continue; /* it has ended, and says nothing about this one */
    int is_left = tt_rank_set_has(&view->said.lost, r); /* it counts in no round any more, whatever it decided, */
    int goes_on = word->decided.view == view->said.view && !word->decided.ends;
    if (is_left && goes_on && tt_rank_set_has(&word->decided.lost, view->rank)) { /* but that this rank is lost */
      expel(view);
      return 1;
    }
    if (word->decided.view == view->said.view && !is_left) {
      decide(view, &word->decided);
      return 1;
    }
    int is_past = word->view > view->said.view; /* two views on: no member falls behind so far */
    if (!is_left && (is_past || (report_of(view, r) && tt_rank_set_has(&word->lost, view->rank)))) {
      expel(view);
      return 1;
    }
    if (!report_of(view, r) || (is_left && tt_rank_set_has(&word->lost, view->rank))) continue; /* another part */
    lost = join(lost, &word->lost);
    dead = join(dead, &word->dead);
  }
  lost = meet(lost, &view->members);
  if (same(&lost, &view->said.lost)) return 0;
  view->said.lost = lost; /* the next round begins; a promise stays one */
  view->said.dead = meet(dead, &lost);
  say(view);
  return 0;
}

/* 1: all survivors are in this round and in this phase, or further. */
static int have_all(const struct tt_view *view, const struct tt_rank_set *survivors, enum tt_view_phase phase)
{
  for (int r = 0; r < view->nranks; r++) {
    if (!tt_rank_set_has(survivors, r)) continue;
    const struct tt_view_word *word = report_of(view, r);
    if (!word || word->phase < (uint64_t)phase || !same(&word->lost, &view->said.lost)) return 0;
  }
  return 1;
}

static void go_on(struct tt_view *view)
{
  struct tt_view_word *said = &view->said;
  if (said->phase == TT_VIEW_WORKS || learn(view)) return;
  struct tt_rank_set survivors = without(view->members, &said->lost);
  if (said->phase == TT_VIEW_REPORTS && have_all(view, &survivors, TT_VIEW_REPORTS)) {
    said->promised = propose(view, &survivors);
    said->phase = TT_VIEW_PROMISES;
    say(view);
  }
  if (said->phase == TT_VIEW_PROMISES && have_all(view, &survivors, TT_VIEW_PROMISES)) {
    struct tt_view_decision decision = conclude(view, &survivors);
    decide(view, &decision);
  }
}

/* ---- events ---- */

enum tt_view_fate tt_view_begin(struct tt_view *view)
{
  uint64_t op = ++view->said.op;
  if (op == view->fails) return TT_VIEW_FAILS;
  return view->is_over ? TT_VIEW_OVER : TT_VIEW_RUNS;
}

void tt_view_held(struct tt_view *view)
{
  view->said.held = view->said.op;
}

void tt_view_stop(struct tt_view *view, tuttiResult_t ends)
{
  if (view->is_over || view->said.phase != TT_VIEW_WORKS) return;
  view->said.phase = TT_VIEW_REPORTS;
  view->said.ends = (uint64_t)ends;
  view->said.lost = meet(view->lost, &view->members);
  view->said.dead = meet(view->dead, &view->said.lost);
  say(view);
  go_on(view);
}

void tt_view_lose(struct tt_view *view, int rank, int is_dead)
{
  if (rank < 0 || rank >= view->nranks) return;
  add(&view->lost, rank);
  if (is_dead) add(&view->dead, rank);
  if (rank == view->rank) expel(view);
  else go_on(view);
}

void tt_view_hear(struct tt_view *view, int rank, const struct tt_view_word *word)
{
  if (rank < 0 || rank >= view->nranks || rank == view->rank) return;
  if (word->number <= view->heard[rank].number || word->phase > TT_VIEW_PROMISES) return;
  view->heard[rank] = *word;
  go_on(view);
}

/* ---- actions and facts ---- */

enum tt_view_act tt_view_next(struct tt_view *view)
{
  int says = view->says, is_changed = view->is_changed, is_expelled = view->is_expelled;
  view->says = 0;
  if (says) return TT_VIEW_SAY;
  view->is_changed = view->is_expelled = 0;
  return is_changed ? TT_VIEW_CHANGED : is_expelled ? TT_VIEW_EXPELLED : TT_VIEW_NOTHING;
}

const struct tt_view_word *tt_view_said(const struct tt_view *view)
{
  return &view->said;
}

const struct tt_rank_set *tt_view_members(const struct tt_view *view)
{
  return &view->members;
}

int tt_view_is_stopping(const struct tt_view *view)
{
  struct tt_rank_set lost = meet(view->lost, &view->members);
  int stops = !is_empty(&lost);
  for (int r = 0; r < view->nranks; r++)
    if (r != view->rank && tt_rank_set_has(&view->members, r))
      stops |= report_of(view, r) || view->heard[r].view > view->said.view;
  return stops;
}

int tt_view_awaits(const struct tt_view *view, int rank)
{
  int is_other = rank != view->rank && tt_rank_set_has(&view->members, rank);
  return is_other && !tt_rank_set_has(&view->lost, rank) && !report_of(view, rank);
}

int tt_view_succeeds(const struct tt_view *view)
{
  return view->succeeds;
}
