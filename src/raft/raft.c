/* SPDX-License-Identifier: BSD-3-Clause */
#include "raft/raft.h"

static int is_majority(const struct tt_raft *raft, int n)
{
  return 2 * n > raft->n;
}

static void say(struct tt_raft *raft)
{
  raft->said.number++;
  raft->says = 1;
}

/* Later entries are those of later terms. */
static int is_behind(const struct tt_raft_entry *a, const struct tt_raft_entry *b)
{
  return a->term < b->term || (a->term == b->term && a->index < b->index);
}

static void commit(struct tt_raft *raft)
{
  raft->said.committed = raft->said.last.index;
  raft->commits = 1;
}

/* A candidate counts its votes. */
static void votes_count(struct tt_raft *raft)
{
  struct tt_raft_word *said = &raft->said;
  int n = 1;
  if (said->leads || said->vote != 1 + (uint64_t)raft->self) return;
  for (int r = 0; r < raft->n; r++)
    n += r != raft->self && raft->heard[r].term == said->term && raft->heard[r].vote == said->vote;
  if (!is_majority(raft, n)) return;
  said->leads = 1;
  raft->wins = 1;
  said->last.term = said->term;
  say(raft);
}

/* A leader counts who has its entry. */
static void holders_count(struct tt_raft *raft)
{
  const struct tt_raft_word *said = &raft->said;
  int n = 1;
  if (!said->leads || said->committed == said->last.index) return;
  for (int r = 0; r < raft->n; r++) {
    const struct tt_raft_word *word = &raft->heard[r];
    n += r != raft->self && word->term == said->term && word->last.term == said->term &&
         word->last.index == said->last.index;
  }
  if (!is_majority(raft, n)) return;
  commit(raft);
  say(raft);
}

void tt_raft_campaign(struct tt_raft *raft)
{
  raft->said.term++;
  raft->said.vote = 1 + (uint64_t)raft->self;
  raft->said.leads = 0;
  say(raft);
  votes_count(raft);
  holders_count(raft);
}

/* ---- elections among those that live ---- */

static const struct tt_raft_word *word_of(const struct tt_raft *raft, int r)
{
  return r == raft->self ? &raft->said : &raft->heard[r];
}

static int is_same(const struct tt_raft_entry *a, const struct tt_raft_entry *b)
{
  return a->term == b->term && a->index == b->index;
}

/* 1: all that are there have the leader's entry. */
static int is_settled(const struct tt_raft *raft, unsigned there)
{
  const struct tt_raft_word *said = &raft->said;
  if (said->last.term != said->term) return 0;
  for (int r = 0; r < raft->n; r++) {
    const struct tt_raft_word *word = word_of(raft, r);
    if (there >> r & 1 && (word->term != said->term || !is_same(&word->last, &said->last))) return 0;
  }
  return 1;
}

int tt_raft_elect(struct tt_raft *raft, unsigned there, unsigned here)
{
  int leader = tt_raft_leader(raft), best = raft->self;
  if (there & ~here & ~(1u << raft->self)) return 0;
  if (leader >= 0 && there >> leader & 1) return is_settled(raft, there);
  for (int r = raft->n - 1; r >= 0; r--) {
    if (!(there >> r & 1)) continue;
    const struct tt_raft_word *word = word_of(raft, r);
    if (word->term != raft->said.term) return 0;
    if (!is_behind(&word->last, &word_of(raft, best)->last)) best = r;
  }
  if (best == raft->self) tt_raft_campaign(raft);
  return 0;
}

uint64_t tt_raft_propose(struct tt_raft *raft, uint64_t value)
{
  struct tt_raft_word *said = &raft->said;
  if (!said->leads || said->committed != said->last.index || said->last.index == UINT64_MAX) return 0;
  said->last = (struct tt_raft_entry){said->term, said->last.index + 1, value};
  say(raft);
  holders_count(raft);
  return said->last.index;
}

/* The leader of this term has this entry. It lacks none that was committed: a word that says so is damaged. */
static void follow(struct tt_raft *raft, const struct tt_raft_entry *last, uint64_t committed)
{
  struct tt_raft_word *said = &raft->said;
  if (last->term != said->term || last->index < said->committed) return;
  if (is_behind(&said->last, last)) {
    said->last = *last;
    say(raft);
  }
  if (is_same(&said->last, last) && committed == last->index && said->committed != committed) commit(raft);
}

void tt_raft_shown(struct tt_raft *raft, const struct tt_raft_entry *entry, uint64_t committed)
{
  if (!raft->said.leads) follow(raft, entry, committed);
}

void tt_raft_acked(struct tt_raft *raft, int replica, const struct tt_raft_entry *entry)
{
  if (replica < 0 || replica >= raft->n || replica == raft->self || entry->term != raft->said.term) return;
  struct tt_raft_word *word = &raft->heard[replica];
  if (word->term != entry->term) word->vote = word->leads = 0; /* they were those of an earlier term */
  word->term = entry->term;
  if (is_behind(&word->last, entry)) word->last = *entry;
  holders_count(raft);
}

void tt_raft_hear(struct tt_raft *raft, int replica, const struct tt_raft_word *word)
{
  struct tt_raft_word *said = &raft->said;
  if (replica < 0 || replica >= raft->n || replica == raft->self) return;
  if (word->number <= raft->heard[replica].number) return;
  raft->heard[replica] = *word;
  if (word->term > said->term) {
    said->term = word->term;
    said->vote = said->leads = 0;
    say(raft);
  }
  if (word->term < said->term) return;
  if (word->leads) follow(raft, &word->last, word->committed);
  int is_candidate = !word->leads && word->vote == 1 + (uint64_t)replica;
  if (is_candidate && !said->vote && !is_behind(&word->last, &said->last)) {
    said->vote = word->vote;
    say(raft);
  }
  votes_count(raft);
  holders_count(raft);
}

enum tt_raft_act tt_raft_next(struct tt_raft *raft)
{
  int says = raft->says, wins = raft->wins, commits = raft->commits;
  raft->says = 0;
  if (says) return TT_RAFT_SAY;
  raft->wins = 0;
  if (wins) return TT_RAFT_WINS;
  raft->commits = 0;
  return commits ? TT_RAFT_COMMITTED : TT_RAFT_NOTHING;
}

int tt_raft_leader(const struct tt_raft *raft)
{
  if (raft->said.leads) return raft->self;
  for (int r = 0; r < raft->n; r++)
    if (r != raft->self && raft->heard[r].leads && raft->heard[r].term == raft->said.term) return r;
  return -1;
}
