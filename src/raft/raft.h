/* SPDX-License-Identifier: BSD-3-Clause */
/* Raft (Ongaro and Ousterhout, USENIX ATC 2014) for the 1 to 5 replicas of one logical rank, as a pure step function:
 * one replica's part in electing a leader and in agreeing on a log. Events go in; the caller takes actions out.
 *
 * The log keeps its tail only: an entry is proposed when the one before is committed, so a replica that lacks older
 * ones takes the newest, and all that one replica says to the others is one fixed-size word (struct tt_raft_word), the
 * newest of which counts. Candidates, votes, entries and acknowledgements are read from words:
 *   - a replica whose vote is its own asks for votes, and all with the same term and that vote are for it;
 *   - a leader's word shows the entry that the others take over; their words show that they have;
 *   - a higher term in a word ends whatever its hearer was.
 * A new leader proposes the entry that it has once more, in its own term: with the value that it has, so a value that
 * was committed stays.
 *
 * Replicas that died do not come back, so nothing is kept on disk. No clock, and no time-outs as in the paper's section
 * 5.2: an election is among replicas that are known to live (tt_raft_elect), so all that they say is heard, and all can
 * work out from the same words whose turn it is. The time of a campaign decides how soon there is a leader, never
 * whether two replicas disagree.
 *
 * Invariants, which tests/unit/raft.c simulates by seed:
 *   - a term has one leader at most;
 *   - a value that is committed at an index, for any replica, is the only one that is ever committed there;
 *   - a leader has every entry that was committed before its term;
 *   - while a majority lives and hears each other, somebody is elected and commits;
 *   - an election ends for all that are in it, with one leader, from any state, also if those for which it has ended
 *     hear no more: within 13 ways of a word, each as long as the longest.
 *
 * One thread at a time. */
#ifndef TT_RAFT_H
#define TT_RAFT_H

#include <stdint.h>

#define TT_RAFT_REPLICAS 5 /* at most */

struct tt_raft_entry {
  uint64_t term;  /* in which it was proposed last */
  uint64_t index; /* 1, 2, 3, ...; 0: there is none */
  uint64_t value; /* the caller's */
};

/* The newest news of one replica, for the others. It is sent as it is. */
struct tt_raft_word {
  uint64_t number;           /* of the replica's words, from 1 on */
  uint64_t term;
  uint64_t vote;             /* 1 + the replica that has its vote in this term; 0: none has */
  uint64_t leads;            /* 1: it is the leader of this term */
  uint64_t committed;        /* index up to which it knows entries to be committed */
  struct tt_raft_entry last; /* its newest entry */
};

/* Zeroed memory with n and self is a replica; fields are private but for these two. */
struct tt_raft {
  int n, self; /* replicas, 1 to TT_RAFT_REPLICAS; this one, 0 .. n - 1 */
  int says, wins, commits; /* actions that are due */
  struct tt_raft_word said, heard[TT_RAFT_REPLICAS];
};

/* ---- events ---- */

/* This replica wants to be the leader of a new term. At any time. */
void tt_raft_campaign(struct tt_raft *raft);

/* An election among the replicas that live and are in it, a bit each in `there`: more than half of all. To be called
 * until it returns 1, each time after what has come is heard, with the actions taken after each call. `here`: those
 * whose newest word that was heard was said in this election. Words of others are not to be heard in it: one of a later
 * term could keep a replica in an election that is over for all others. If a replica dies, another election follows.
 *
 * Once all are here, and have reached the same term, and none of them leads in it, the one with the latest entry
 * campaigns, of several the lowest: so all can vote for it. 1: the election is over for this replica. One of them
 * leads, and all have said that they have its entry: none campaigns any more, so none needs to be heard. */
int tt_raft_elect(struct tt_raft *raft, unsigned there, unsigned here);

/* Another replica has said this. Older words than the newest one are ignored. */
void tt_raft_hear(struct tt_raft *raft, int replica, const struct tt_raft_word *word);

/* The leader appends an entry. Returns its index; 0: this replica does not lead, or its last entry is not committed. */
uint64_t tt_raft_propose(struct tt_raft *raft, uint64_t value);

/* The same where an entry travels with data, and its acknowledgement with those of the data, instead of in words: the
 * leader of entry->term has this entry, and knows entries up to `committed` to be so; a replica has taken it over. An
 * entry of another term than this replica's is ignored. */
void tt_raft_shown(struct tt_raft *raft, const struct tt_raft_entry *entry, uint64_t committed);
void tt_raft_acked(struct tt_raft *raft, int replica, const struct tt_raft_entry *entry);

/* ---- actions ---- */

enum tt_raft_act {
  TT_RAFT_NOTHING,
  TT_RAFT_SAY,       /* tell all other replicas raft->said */
  TT_RAFT_WINS,      /* this replica leads from now on */
  TT_RAFT_COMMITTED  /* its last entry is committed; also on replicas that do not lead */
};

/* Takes the next action; a word comes before what follows from it. */
enum tt_raft_act tt_raft_next(struct tt_raft *raft);

/* ---- facts ---- */

/* The leader of this replica's term, as far as it knows; -1: none. */
int tt_raft_leader(const struct tt_raft *raft);

#endif
