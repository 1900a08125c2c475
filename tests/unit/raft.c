/* SPDX-License-Identifier: BSD-3-Clause */
/* The core of Raft, simulated by seed: replicas say words over links that lose them, take drawn times and are cut for a
 * while; some entries and acknowledgements go without words, as with data; replicas die at any moment, also in the
 * middle of telling others, and want to lead at drawn times, whether the leader lives or not. Each commit, on any
 * replica, and each election is held against all that were seen before. From the state of a drawn moment of this those
 * that live hold an election, which ends for all of them, though those for which it has ended hear no more.
 * "--seed N": the first seed; "--seeds N": so many of each test; "--only TEST".
 * Labels: serial, planner. */
#include "raft/raft.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "simulated.h"

#define N TT_RAFT_REPLICAS
#define STORM 2000  /* until then links lose words, and replicas die and campaign for no reason */
#define END 8000
#define TICK 40
#define INDICES 2000
#define TERMS 2000

static uint64_t first_seed = 1;
static int nseeds = IS_SLOW ? 100 : 2000;

struct replica {
  struct tt_raft raft;
  int is_dead;
  int most; /* words until it dies; -1: it does not */
};

enum what { TICKS, WORD, SHOWN, ACKED, DIES, CUT, STEP };

struct note {
  enum what what;
  int from, to;
  int is_elections; /* the word was said in the election */
  struct tt_raft_word word;
};

static struct world {
  uint64_t seed, chance, now;
  int n;
  uint64_t values;            /* proposed so far */
  uint64_t last, calm;        /* highest index that was committed; at the end of the storm */
  uint64_t last_term;         /* in which that was */
  uint64_t committed[INDICES]; /* values; 0: none yet */
  int leaders[TERMS];         /* 1 + the leader of each term */
  int side[N];                /* replicas of other sides are not heard */
  struct replica replicas[N];
  struct agenda agenda;
} w;

static void note_at(uint64_t time, struct note note)
{
  agenda_add(&w.agenda, time, &note, sizeof note);
}

/* The word, or some of it without the rest: what a leader shows, and what its follower has. */
static struct note note_of(int from, int to)
{
  const struct tt_raft *raft = &w.replicas[from].raft;
  struct note note = {.what = WORD, .from = from, .to = to, .word = raft->said};
  int is_entry = raft->said.last.term == raft->said.term && raft->said.last.index && below(&w.chance, 3) == 0;
  if (is_entry && raft->said.leads) note.what = SHOWN;
  else if (is_entry && tt_raft_leader(raft) == to) note.what = ACKED;
  return note;
}

/* In any order, so that those that a dying one tells are any. */
static void tell_all(int from)
{
  struct replica *replica = &w.replicas[from];
  int first = (int)below(&w.chance, (size_t)w.n), is_storm = w.now < STORM;
  for (int k = 0; k < w.n && !replica->is_dead; k++) {
    int to = (first + k) % w.n;
    if (to == from) continue;
    if (replica->most >= 0 && replica->most-- == 0) replica->is_dead = 1;
    if (replica->is_dead || (is_storm && below(&w.chance, 5) == 0)) continue;
    uint64_t takes = 1 + below(&w.chance, is_storm && below(&w.chance, 8) == 0 ? 400 : 20);
    note_at(w.now + takes, note_of(from, to));
  }
}

static void committed_check(int r)
{
  const struct tt_raft_entry *last = &w.replicas[r].raft.said.last;
  uint64_t *value = &w.committed[last->index % INDICES];
  CHECK(last->index && last->index < INDICES && last->value, "replica %d commits nothing at %d", r, (int)last->index);
  CHECK(!*value || *value == last->value, "index %d has value %d on replica %d, and %d elsewhere", (int)last->index,
        (int)last->value, r, (int)*value);
  CHECK(last->index == 1 || w.committed[last->index - 1], "index %d is committed before the one before it",
        (int)last->index);
  *value = last->value;
  if (last->index <= w.last) return;
  w.last = last->index;
  w.last_term = last->term;
}

static void win_check(int r)
{
  const struct tt_raft_word *said = &w.replicas[r].raft.said;
  CHECK(said->term < TERMS, "term %d", (int)said->term);
  CHECK(!w.leaders[said->term], "term %d has leaders %d and %d", (int)said->term, w.leaders[said->term] - 1, r);
  w.leaders[said->term] = 1 + r;
  if (said->term < w.last_term) return; /* its votes were slow, and a later term goes on */
  CHECK(said->last.index >= w.last, "leader %d has %d entries, and %d were committed", r, (int)said->last.index,
        (int)w.last);
  CHECK(said->last.index != w.last || !w.last || w.committed[w.last] == said->last.value,
        "leader %d has another value at %d than was committed", r, (int)w.last);
}

static void actions_take(int r)
{
  struct replica *replica = &w.replicas[r];
  for (enum tt_raft_act act; !replica->is_dead && (act = tt_raft_next(&replica->raft)) != TT_RAFT_NOTHING;) {
    if (act == TT_RAFT_SAY) tell_all(r);
    else if (act == TT_RAFT_WINS) win_check(r);
    else committed_check(r);
  }
}

/* Says its word again, and does what its caller would. */
static void tick(int r)
{
  struct replica *replica = &w.replicas[r];
  int leader = tt_raft_leader(&replica->raft), is_storm = w.now < STORM;
  int wants = leader < 0 || w.replicas[leader].is_dead ? below(&w.chance, 4) == 0
                                                        : is_storm && below(&w.chance, 30) == 0;
  if (wants) tt_raft_campaign(&replica->raft);
  else if (tt_raft_propose(&replica->raft, w.values + 1)) w.values++;
  else if (replica->raft.said.number) tell_all(r);
  actions_take(r);
  if (w.now < END) note_at(w.now + TICK / 2 + below(&w.chance, TICK), (struct note){.what = TICKS, .to = r});
}

static void happen(const struct note *note)
{
  struct replica *replica = &w.replicas[note->to];
  if (!w.calm && w.now >= STORM) {
    w.calm = 1 + w.last;
    memset(w.side, 0, sizeof w.side);
  }
  if (replica->is_dead) return;
  if (note->what == CUT)
    for (int r = 0; r < w.n && w.now < STORM; r++) w.side[r] = (int)below(&w.chance, 2);
  else if (note->what == DIES) replica->most = (int)below(&w.chance, 6);
  else if (note->what == TICKS) tick(note->to);
  else if (w.side[note->from] == w.side[note->to]) {
    if (note->what == SHOWN) tt_raft_shown(&replica->raft, &note->word.last, note->word.committed);
    else if (note->what == ACKED) tt_raft_acked(&replica->raft, note->from, &note->word.last);
    else tt_raft_hear(&replica->raft, note->from, &note->word);
    actions_take(note->to);
  }
}

static void world_begin(uint64_t seed, int are_any)
{
  w = (struct world){.seed = seed, .chance = seed};
  w.n = 1 + 2 * (int)below(&w.chance, 3);
  int most = are_any ? w.n : (w.n - 1) / 2, ndeaths = (int)below(&w.chance, (size_t)most + 1);
  for (int r = 0; r < w.n; r++) {
    w.replicas[r] = (struct replica){.raft = {.n = w.n, .self = r}, .most = -1};
    note_at(1 + below(&w.chance, TICK), (struct note){.what = TICKS, .to = r});
  }
  for (int k = 0, r = (int)below(&w.chance, (size_t)w.n); k < ndeaths; k++)
    note_at(below(&w.chance, STORM), (struct note){.what = DIES, .to = (r + k) % w.n});
  for (int k = (int)below(&w.chance, 6); k > 0; k--)
    note_at(below(&w.chance, STORM), (struct note){.what = CUT, .to = (int)below(&w.chance, (size_t)w.n)});
}

static void world_run(uint64_t seed, int are_any)
{
  world_begin(seed, are_any);
  for (const struct note *note; (note = agenda_next(&w.agenda, &w.now));) happen(note);
  int nlive = 0;
  for (int r = 0; r < w.n; r++) nlive += !w.replicas[r].is_dead && w.replicas[r].most < 0;
  CHECK(2 * nlive <= w.n || w.last >= w.calm, "%d of %d replicas live, and none commits (%d at the end)", nlive, w.n,
        (int)w.last);
  trace_end(seed, w.chance);
}

/* ---- elections ---- */

#define TERMS_MOST 3 /* the last one, that of a candidate from before, and one that either spoils */
#define WAYS (2 + 3 * TERMS_MOST + 2) /* all reach one term; campaign, votes, victory; acknowledgements and commit */
#define STEP_MOST 4 /* between two steps of a replica */

/* Of an election: the replicas that live, those for which it is over, and those that each has heard in it. */
static struct election {
  unsigned there, over, says, here[N];
  uint64_t most, last; /* that a word takes; time by which all are in it, and all older words were heard */
} e;

static void tell_there(int from)
{
  for (int to = 0; to < w.n; to++)
    if (to != from && e.there >> to & 1)
      note_at(w.now + 1 + below(&w.chance, e.most), (struct note){
          .what = WORD, .from = from, .to = to, .is_elections = 1, .word = w.replicas[from].raft.said});
}

/* It says its newest word in its next step. */
static void acts_check(int r)
{
  for (enum tt_raft_act act; (act = tt_raft_next(&w.replicas[r].raft)) != TT_RAFT_NOTHING;) {
    if (act == TT_RAFT_SAY) e.says |= 1u << r;
    if (act == TT_RAFT_WINS) win_check(r);
    if (act == TT_RAFT_COMMITTED) committed_check(r);
  }
}

static void step(int r)
{
  e.here[r] |= 1u << r;
  int is_over = tt_raft_elect(&w.replicas[r].raft, e.there, e.here[r]);
  acts_check(r);
  if (e.says >> r & 1) tell_there(r);
  e.says &= ~(1u << r);
  if (is_over) e.over |= 1u << r;
  else note_at(w.now + 1 + below(&w.chance, STEP_MOST), (struct note){.what = STEP, .to = r});
}

/* Older words are on their way still; a replica that has not come yet hears those of the dead, too. Entries travel with
 * data no more. */
static void election_happen(const struct note *note)
{
  if (!(e.there >> note->to & 1) || e.over >> note->to & 1) return;
  if (note->what == STEP) step(note->to);
  int has_come = e.here[note->to] >> note->to & 1;
  if (note->what != WORD || (has_come && !(e.there >> note->from & 1))) return;
  tt_raft_hear(&w.replicas[note->to].raft, note->from, &note->word);
  acts_check(note->to);
  if (note->is_elections) e.here[note->to] |= 1u << note->from;
}

static void election_begin(void)
{
  const uint64_t most[] = {1, 20, 400};
  e = (struct election){.most = most[below(&w.chance, 3)]};
  for (int r = 0; r < w.n; r++) {
    struct replica *replica = &w.replicas[r];
    if (replica->is_dead || replica->most >= 0) continue;
    e.there |= 1u << r;
    e.says |= 1u << r;
    uint64_t comes = w.now + below(&w.chance, 3 * (size_t)e.most);
    note_at(comes, (struct note){.what = STEP, .to = r});
    if (comes > e.last) e.last = comes;
  }
  if (e.last < w.now + 400) e.last = w.now + 400; /* words of before */
}

/* Returns how many ways of a word it took. */
static uint64_t election_run(uint64_t seed)
{
  world_begin(seed, 0);
  uint64_t until = below(&w.chance, STORM);
  e = (struct election){.there = 0};
  for (const struct note *note; (!e.there || e.over != e.there) && (note = agenda_next(&w.agenda, &w.now));) {
    if (!e.there && w.now >= until) election_begin();
    if (e.there) election_happen(note);
    else happen(note);
    CHECK(!e.there || w.now <= e.last + WAYS * (e.most + STEP_MOST), "%d ways of a word, and it is over for %x of %x",
          WAYS, e.over, e.there);
  }
  uint64_t took = w.now > e.last ? (w.now - e.last + e.most + STEP_MOST - 1) / (e.most + STEP_MOST) : 0;
  int leader = tt_raft_leader(&w.replicas[__builtin_ctz(e.there)].raft);
  CHECK(leader >= 0 && e.there >> leader & 1, "the leader is %d of %x", leader, e.there);
  for (int r = 0; r < w.n; r++)
    CHECK(!(e.there >> r & 1) || tt_raft_leader(&w.replicas[r].raft) == leader, "replica %d follows %d, not %d", r,
          tt_raft_leader(&w.replicas[r].raft), leader);
  while (agenda_next(&w.agenda, &w.now)) {}
  trace_end(seed, w.chance);
  return took;
}

/* ---- tests ---- */

static void a_majority_goes_on_and_loses_nothing(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds; k++) world_run(first_seed + (uint64_t)k, 0);
}

static void without_a_majority_nothing_is_contradicted(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds; k++) world_run(first_seed + (uint64_t)k, 1);
}

static void an_election_ends_for_all_from_any_state(void **state)
{
  uint64_t longest = 0;
  (void)state;
  for (int k = 0; k < nseeds; k++) {
    uint64_t took = election_run(first_seed + (uint64_t)k);
    if (took > longest) longest = took;
  }
  printf("the longest of %d elections took %d ways of a word\n", nseeds, (int)longest);
}

/* No leader says so: a word of one that lacks what was committed is damaged. */
static void a_damaged_word_takes_back_nothing_that_was_committed(void **state)
{
  struct tt_raft raft = {.n = 3, .self = 0};
  struct tt_raft_word word = {.number = 1, .term = 1, .vote = 2, .leads = 1, .committed = 2, .last = {1, 2, 77}};
  (void)state;
  tt_raft_hear(&raft, 1, &word);
  assert_int_equal(raft.said.committed, 2);
  word = (struct tt_raft_word){.number = 1, .term = 2, .vote = 3, .leads = 1, .committed = 1, .last = {2, 1, 88}};
  tt_raft_hear(&raft, 2, &word);
  assert_int_equal(raft.said.term, 2);
  assert_int_equal(raft.said.committed, 2);
  assert_int_equal(raft.said.last.value, 77);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_majority_goes_on_and_loses_nothing),
                                     cmocka_unit_test(without_a_majority_nothing_is_contradicted),
                                     cmocka_unit_test(an_election_ends_for_all_from_any_state),
                                     cmocka_unit_test(a_damaged_word_takes_back_nothing_that_was_committed)};
  seeds_read(argc, argv, "--seeds", &first_seed, &nseeds);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
