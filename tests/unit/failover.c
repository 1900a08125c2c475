/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths of ranks that serve without a quorum, simulated by seed: ranks that contribute and serve shards (the real
 * servers), links that take drawn times and lose what a dead rank had sent, deaths at any time, of which ranks hear one
 * after the other. A shard's weights are the sets of steps of each rank that are in them, so the promises of failover.h
 * are read from the weights. At some moment of each job, and at its end, some of the live ranks go on as another set:
 * what move.h promises.
 * "--seed N": the first seed; "--seeds N": so many of each rule; "--only TEST".
 * Labels: serial, planner. */
#include "server/failover.h"
#include "server/move.h"
#include "server/server.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "simulated.h"

#define RANKS 6
#define SHARDS 2     /* of a share, at most */
#define STEPS 8
#define NOTES 400000 /* more of them, and there is no end */

static uint64_t first_seed = 1;
static int nseeds = IS_SLOW ? 100 : 1000;

/* A shard as it is after some updates: by rank, bits of the steps that are in it; and the set that answers have. */
struct weights {
  uint64_t version, in[RANKS], set;
};

enum what { COMPUTED, DIES, HEARS, CONTRIBUTES, ANSWERS, OFFERS }; /* three are a rank's own */

struct note {
  enum what what;
  int from, to, share, shard, rank; /* rank: HEARS: the dead one */
  uint64_t step, version;
  int is_odd, is_refused; /* OFFERS; ANSWERS */
  struct weights weights;
};

struct share {
  struct tt_server *server; /* NULL: another rank serves it */
  struct weights now[SHARDS];
  uint64_t refused[SHARDS]; /* ranks whose last contribution was, and that were not told so yet */
};

struct rank {
  int is_dead, is_busy, slowness;
  uint64_t step;      /* that it makes, or is to make */
  int sent[SHARDS];   /* in this step it has contributed to these shards of all shares */
  uint64_t hears;     /* deaths that it has heard of */
  int owed[RANKS][SHARDS], is_odd[RANKS][SHARDS]; /* is_odd: the number of its contributions that counted */
  struct weights copies[RANKS][SHARDS]; /* as they were answered last */
  struct share shares[RANKS];
  struct tt_failover *failover;
  struct agenda later; /* of shares that it does not serve yet */
  int is_cut_off[RANKS];
};

static struct world {
  uint64_t seed, chance, now, dead;
  enum tt_server_kind kind;
  int nranks, quorum, nshards;
  uint64_t staleness;
  struct rank ranks[RANKS];
  struct agenda agenda;
  uint64_t free_at[RANKS][RANKS];               /* links keep the order */
  uint64_t kept[RANKS][RANKS][SHARDS];          /* of a rank, a share and a shard: bits of steps that any server kept */
  int ntaken;
} w;

/* ---- time and links ---- */

static void note_at(uint64_t time, const struct note *note)
{
  agenda_add(&w.agenda, time, note, sizeof *note);
}

static void send(int from, int to, struct note note)
{
  uint64_t *free_at = &w.free_at[from][to], at = w.now + (from == to ? 0 : 1 + below(&w.chance, 40));
  if (from != to && below(&w.chance, 10) == 0) at += 400;
  note.from = from;
  note.to = to;
  note_at(link_time(free_at, at), &note);
}

/* ---- members ---- */

static void contribute(int r, int share, int shard)
{
  struct rank *rank = &w.ranks[r];
  send(r, tt_failover_owner(rank->failover, share),
       (struct note){.what = CONTRIBUTES, .share = share, .shard = shard, .step = rank->step,
                     .version = rank->copies[share][shard].version});
}

/* Shards are contributed to one after the other, and each is waited for before the next. */
static void rank_go_on(int r)
{
  struct rank *rank = &w.ranks[r];
  if (rank->is_busy || rank->is_dead) return;
  for (int share = 0; share < w.nranks; share++)
    for (int shard = 0; shard < w.nshards; shard++)
      if (rank->owed[share][shard]) return;
  int n = 0;
  while (n < w.nshards && rank->sent[n]) n++;
  if (n == w.nshards) {
    rank->step++;
    memset(rank->sent, 0, sizeof rank->sent);
  }
  if (rank->step == STEPS) return;
  rank->is_busy = 1;
  note_at(w.now + 1 + below(&w.chance, 60) * (uint64_t)rank->slowness, &(struct note){.what = COMPUTED, .to = r});
}

static void computed(int r)
{
  struct rank *rank = &w.ranks[r];
  int shard = 0;
  rank->is_busy = 0;
  while (rank->sent[shard]) shard++;
  rank->sent[shard] = 1;
  for (int share = 0; share < w.nranks; share++) {
    rank->owed[share][shard] = 1;
    contribute(r, share, shard);
  }
}

/* What was in the weights before is in them now, and so is the rank's own contribution, unless that was refused. */
static void answer_check(int r, const struct note *note)
{
  const struct rank *rank = &w.ranks[r];
  const struct weights *old = &rank->copies[note->share][note->shard], *now = &note->weights;
  uint64_t bit = (uint64_t)1 << rank->step;
  CHECK(rank->owed[note->share][note->shard], "rank %d is answered twice", r);
  CHECK(now->version >= old->version, "rank %d: version %llu, and then %llu", r, (unsigned long long)old->version,
        (unsigned long long)now->version);
  if (w.kind == TT_SERVER_EASGD) return;
  for (int q = 0; q < w.nranks; q++) CHECK(!(old->in[q] & ~now->in[q]), "rank %d: an update is gone", r);
  CHECK(w.kind == TT_SERVER_SOFTSYNC || note->is_refused || now->in[r] & bit, "rank %d: its step %llu is not in", r,
        (unsigned long long)rank->step);
  CHECK(!note->is_refused || !(now->in[r] & bit), "rank %d: its step %llu is refused, and in", r,
        (unsigned long long)rank->step);
  for (int q = 0; q < w.nranks && w.kind == TT_SERVER_SSP; q++)
    for (uint64_t step = 0; step + w.staleness <= rank->step && !has(w.dead, q); step++)
      CHECK(now->in[q] >> step & 1, "rank %d is answered before rank %d", r, q);
}

static void answered(int r, const struct note *note)
{
  struct rank *rank = &w.ranks[r];
  answer_check(r, note);
  rank->copies[note->share][note->shard] = note->weights;
  rank->owed[note->share][note->shard] = 0;
  rank->is_odd[note->share][note->shard] ^= !note->is_refused;
  rank_go_on(r);
}

/* ---- servers ---- */

static void update(struct share *share, const struct tt_server_action *action)
{
  struct weights *now = &share->now[action->shard];
  CHECK(action->version == now->version + 1, "version %llu", (unsigned long long)action->version);
  now->version++;
  for (int k = 0; k < action->ncounted; k++) {
    const struct tt_counted *counted = &action->counted[k];
    uint64_t bit = (uint64_t)1 << counted->step;
    CHECK(w.kind == TT_SERVER_EASGD || !(now->in[counted->rank] & bit), "step %llu of rank %d is in twice",
          (unsigned long long)counted->step, counted->rank);
    now->in[counted->rank] |= bit;
  }
}

static void server_acts(int r, int s)
{
  struct share *share = &w.ranks[r].shares[s];
  struct tt_server_action action;
  while (tt_server_next(share->server, &action)) {
    if (action.act == TT_UPDATE) update(share, &action);
    else if (action.act == TT_ANSWER) {
      struct note note = {.what = ANSWERS, .share = s, .shard = action.shard, .weights = share->now[action.shard]};
      note.is_refused = has(share->refused[action.shard], action.rank);
      share->refused[action.shard] &= ~((uint64_t)1 << action.rank);
      note.weights.set = 0;
      for (int q = 0; q < w.nranks; q++)
        note.weights.set |= (uint64_t)tt_server_is_odd(share->server, action.shard, q) << q;
      send(r, action.rank, note);
    } else CHECK(0, "action %d", (int)action.act);
  }
}

static void server_make(int r, int s)
{
  static const int32_t urgency[SHARDS] = {0, 1};
  struct rank *rank = &w.ranks[r];
  struct tt_server_spec spec = {.kind = w.kind, .nranks = w.nranks, .quorum = w.quorum, .staleness = w.staleness,
                                .nservers = w.nranks, .nshards = w.nshards, .urgency = urgency};
  assert_int_equal(tt_server_create(&rank->shares[s].server, &spec), tuttiSuccess);
  for (int q = 0; q < w.nranks; q++)
    if (has(rank->hears, q)) tt_server_died(rank->shares[s].server, q);
}

static void contributed(int r, const struct note *note)
{
  struct share *share = &w.ranks[r].shares[note->share];
  enum tt_server_verdict verdict = tt_server_contribute(
      share->server, &(struct tt_contribution){note->from, note->shard, note->step, note->version, 1});
  CHECK(verdict == TT_KEPT || verdict == TT_STALE || verdict == TT_TAKEN || verdict == TT_GONE, "verdict %d",
        (int)verdict);
  if (verdict == TT_STALE) share->refused[note->shard] |= (uint64_t)1 << note->from;
  uint64_t *kept = &w.kept[note->from][note->share][note->shard], bit = (uint64_t)1 << note->step;
  if (verdict == TT_KEPT) *kept |= bit;
  CHECK(verdict != TT_TAKEN || *kept & bit, "step %llu of rank %d is taken for one that counts",
        (unsigned long long)note->step, note->from);
  w.ntaken += verdict == TT_TAKEN;
  CHECK(verdict != TT_TAKEN || w.kind != TT_SERVER_EASGD, "an exchange is not made");
  server_acts(r, note->share);
}

/* ---- deaths ---- */

static void offer(int r, int share, int to)
{
  struct rank *rank = &w.ranks[r];
  for (int shard = 0; shard < w.nshards; shard++) {
    int is_answered = rank->sent[shard] && !rank->owed[share][shard];
    send(r, to, (struct note){.what = OFFERS, .share = share, .shard = shard,
                              .step = rank->step + (uint64_t)is_answered, .is_odd = rank->is_odd[share][shard],
                              .weights = rank->copies[share][shard]});
  }
  for (int shard = 0; shard < w.nshards; shard++)
    if (rank->owed[share][shard]) contribute(r, share, shard);
}

static void deliver(const void *note);

static void serve(int r, int s)
{
  struct rank *rank = &w.ranks[r];
  CHECK(!rank->shares[s].server, "rank %d serves share %d already", r, s);
  server_make(r, s);
  for (int shard = 0; shard < w.nshards; shard++) {
    uint64_t version = tt_failover_version(rank->failover, s, shard);
    CHECK(version == rank->shares[s].now[shard].version, "share %d has another version", s);
    tt_server_restore(rank->shares[s].server, shard, version);
    for (int q = 0; q < w.nranks; q++) {
      const struct tt_server_progress progress = tt_failover_progress(rank->failover, s, shard, q);
      tt_server_restore_rank(rank->shares[s].server, shard, q, &progress);
    }
  }
}

static void failover_acts(int r)
{
  struct rank *rank = &w.ranks[r];
  struct tt_failover_action action;
  int serves = 0;
  while (tt_failover_next(rank->failover, &action)) {
    if (action.act == TT_OFFER) offer(r, action.share, action.to);
    else serve(r, action.share), serves = 1;
  }
  if (serves) agenda_deliver(&rank->later, deliver);
}

static void hears(int r, int dead)
{
  struct rank *rank = &w.ranks[r];
  rank->hears |= (uint64_t)1 << dead;
  assert_int_equal(tt_failover_died(rank->failover, dead), tuttiSuccess);
  for (int s = 0; s < w.nranks; s++)
    if (rank->shares[s].server) tt_server_died(rank->shares[s].server, dead), server_acts(r, s);
  failover_acts(r);
  agenda_deliver(&rank->later, deliver);
}

static void offered(int r, const struct note *note)
{
  struct rank *rank = &w.ranks[r];
  const struct weights *weights = &note->weights;
  const struct tt_offer its = {note->share, note->shard, weights->version, note->step, note->is_odd, &weights->set};
  enum tt_offer_verdict verdict = tt_failover_offered(rank->failover, note->from, &its);
  CHECK(verdict != TT_OFFER_WRONG, "an offer of share %d is refused", note->share);
  if (verdict == TT_OFFER_EARLY) agenda_put_off(&rank->later, note, sizeof *note);
  if (verdict == TT_OFFER_NEWEST) rank->shares[note->share].now[note->shard] = *weights;
  failover_acts(r);
}

/* ---- notes ---- */

static void deliver(const void *what)
{
  const struct note *note = what;
  struct rank *rank = &w.ranks[note->to];
  int serves = tt_failover_serves(rank->failover, note->share);
  if (rank->is_dead || w.ranks[note->from].is_cut_off[note->to] || has(rank->hears, note->from)) return;
  if (note->what == OFFERS) offered(note->to, note);
  else if (note->what == ANSWERS) answered(note->to, note);
  else if (serves) contributed(note->to, note);
  else agenda_put_off(&rank->later, note, sizeof *note);
}

static void rank_dies(int r)
{
  struct rank *rank = &w.ranks[r];
  if (rank->is_dead) return;
  rank->is_dead = 1;
  w.dead |= (uint64_t)1 << r;
  for (int to = 0; to < w.nranks; to++) {
    rank->is_cut_off[to] = (int)below(&w.chance, 2);
    for (int twice = 0; to != r && twice <= (int)below(&w.chance, 2); twice++)
      note_at(w.now + 1 + below(&w.chance, 400), &(struct note){.what = HEARS, .to = to, .rank = r});
  }
}

static void happen(const struct note *note)
{
  if (note->what == DIES) rank_dies(note->to);
  else if (note->what > HEARS) deliver(note);
  else if (w.ranks[note->to].is_dead) return;
  else if (note->what == COMPUTED) computed(note->to);
  else hears(note->to, note->rank);
}

/* ---- worlds ---- */

static void world_make(uint64_t seed, enum tt_server_kind kind)
{
  int nshards[RANKS];
  memset(&w, 0, sizeof w);
  w.seed = w.chance = seed;
  w.kind = kind;
  w.nranks = 1 + (int)below(&w.chance, RANKS);
  w.nshards = 1 + (int)below(&w.chance, SHARDS);
  w.quorum = kind == TT_SERVER_SOFTSYNC ? 1 + (int)below(&w.chance, (size_t)w.nranks) : 1;
  if (kind != TT_SERVER_EASGD) w.staleness = below(&w.chance, 3) ? below(&w.chance, 5) : 1000;
  size_t ndead = below(&w.chance, (size_t)w.nranks);
  uint64_t moment = below(&w.chance, 1500);
  int is_burst = (int)below(&w.chance, 2), first = (int)below(&w.chance, (size_t)w.nranks);
  for (int r = 0; r < w.nranks; r++) nshards[r] = w.nshards;
  for (int r = 0; r < w.nranks; r++) {
    struct rank *rank = &w.ranks[r];
    rank->slowness = below(&w.chance, 4) ? 1 : 20;
    assert_int_equal(tt_failover_create(&rank->failover, w.nranks, r, nshards, kind == TT_SERVER_EASGD),
                     tuttiSuccess);
    server_make(r, r);
  }
  for (int r = 0; r < w.nranks; r++) rank_go_on(r);
  for (size_t k = 0; k < ndead; k++)
    note_at(is_burst ? moment + below(&w.chance, 300) : below(&w.chance, 2500),
            &(struct note){.what = DIES, .to = (first + (int)k) % w.nranks});
}

/* Nothing is under way any more: all live ranks have made their steps, and each share has one server. */
static void end_check(void)
{
  for (int r = 0; r < w.nranks; r++) {
    const struct rank *rank = &w.ranks[r];
    if (rank->is_dead) continue;
    CHECK(rank->step == STEPS, "rank %d waits in step %llu", r, (unsigned long long)rank->step);
    CHECK(!rank->later.notes.n, "something waits at rank %d", r);
    for (int s = 0; s < w.nranks; s++) {
      int owner = tt_failover_owner(rank->failover, s);
      CHECK(!has(w.dead, owner), "share %d is served by rank %d, which is dead", s, owner);
      CHECK(!rank->shares[s].server == (owner != r), "share %d is served twice, or not", s);
    }
  }
}

/* A share goes on with all that ranks of the new set, `here`, were answered. */
static void shard_move_check(uint64_t here, int s, int k)
{
  uint64_t largest = 0;
  const struct rank *giver = NULL;
  for (int r = 0; r < w.nranks; r++) {
    const struct rank *rank = &w.ranks[r];
    const struct tt_move_shard shard = {rank->shares[s].server != NULL, 0, 1, rank->shares[s].now[k].version,
                                        rank->copies[s][k].version};
    uint64_t claim = has(here, r) ? tt_move_claim(TT_MOVE_OTHERS, 0, r, &shard) : 0;
    if (claim <= largest) continue;
    largest = claim;
    giver = rank;
  }
  CHECK(giver != NULL, "share %d has no giver", s);
  const struct weights *now = tt_move_is_served(largest) ? &giver->shares[s].now[k] : &giver->copies[s][k];
  CHECK(tt_move_claimed(largest) == now->version, "share %d moves with another version", s);
  for (int r = 0; r < w.nranks; r++) {
    const struct weights *old = &w.ranks[r].copies[s][k];
    if (!has(here, r)) continue;
    CHECK(old->version <= now->version, "rank %d was answered with a newer version", r);
    for (int q = 0; q < w.nranks && w.kind != TT_SERVER_EASGD; q++)
      CHECK(!(old->in[q] & ~now->in[q]), "rank %d: an update is gone with the move", r);
  }
}

static void move_check(uint64_t *chance)
{
  uint64_t here = next(chance) | next(chance);
  for (int r = 0; r < w.nranks; r++)
    if (w.ranks[r].is_dead) here &= ~((uint64_t)1 << r);
  here &= ((uint64_t)1 << w.nranks) - 1;
  for (int s = 0; s < w.nranks && here; s++)
    for (int k = 0; k < w.nshards; k++) shard_move_check(here, s, k);
}

static int world_run(uint64_t seed, enum tt_server_kind kind)
{
  uint64_t chance = ~seed, moment = below(&chance, 2000);
  world_make(seed, kind);
  for (const struct note *note; (note = agenda_next(&w.agenda, &w.now));) {
    happen(note);
    if (w.now > moment) move_check(&chance), moment = UINT64_MAX;
    CHECK(w.agenda.n < NOTES, "no end");
  }
  end_check();
  move_check(&chance);
  trace_end(seed, w.chance ^ chance);
  for (int r = 0; r < w.nranks; r++) {
    struct rank *rank = &w.ranks[r];
    for (int s = 0; s < w.nranks; s++) tt_server_destroy(rank->shares[s].server);
    tt_failover_destroy(rank->failover);
    agenda_free(&rank->later);
  }
  return w.ntaken;
}

static int worlds_run(enum tt_server_kind kind)
{
  int ntaken = 0;
  for (int k = 0; k < nseeds; k++) ntaken += world_run(first_seed + (uint64_t)k, kind);
  return ntaken;
}

/* ---- tests ---- */

static void asgd_keeps_what_a_live_rank_has_seen(void **state)
{
  (void)state;
  assert_true(worlds_run(TT_SERVER_ASGD) > 0 || nseeds < 100);
}

static void ssp_keeps_its_bound(void **state)
{
  (void)state;
  assert_true(worlds_run(TT_SERVER_SSP) > 0 || nseeds < 100);
}

static void softsync_keeps_what_was_updated(void **state)
{
  (void)state;
  worlds_run(TT_SERVER_SOFTSYNC);
}

static void easgd_goes_on(void **state)
{
  (void)state;
  worlds_run(TT_SERVER_EASGD);
}

static void wrong_words_change_nothing(void **state)
{
  struct tt_failover *failover, *none;
  struct tt_failover_action action;
  int nshards[] = {1, 2, 0};
  uint64_t set = 0;
  (void)state;
  assert_int_equal(tt_failover_create(&none, 3, 3, nshards, 0), tuttiInvalidArgument);
  assert_int_equal(tt_failover_create(&none, 0, 0, nshards, 0), tuttiInvalidArgument);
  assert_int_equal(tt_failover_create(&failover, 3, 2, nshards, 0), tuttiSuccess);
  assert_int_equal(tt_failover_offered(failover, 3, &(struct tt_offer){1, 0, 0, 0, 0, &set}), TT_OFFER_WRONG);
  assert_int_equal(tt_failover_offered(failover, 0, &(struct tt_offer){3, 0, 0, 0, 0, &set}), TT_OFFER_WRONG);
  assert_int_equal(tt_failover_offered(failover, 0, &(struct tt_offer){1, 2, 0, 0, 0, &set}), TT_OFFER_WRONG);
  assert_int_equal(tt_failover_offered(failover, 0, &(struct tt_offer){2, 0, 0, 0, 0, &set}), TT_OFFER_WRONG);
  assert_int_equal(tt_failover_offered(failover, 0, &(struct tt_offer){1, 1, 0, 0, 0, &set}), TT_OFFER_EARLY);
  assert_int_equal(tt_failover_died(failover, 1), tuttiSuccess);
  assert_int_equal(tt_failover_died(failover, 2), tuttiSuccess); /* itself */
  assert_int_equal(tt_failover_next(failover, &action), 1);
  assert_true(action.act == TT_OFFER && action.share == 1 && action.to == 2);
  assert_int_equal(tt_failover_next(failover, &action), 0);
  for (int from = 0; from < 3; from += 2)
    for (int shard = 0; shard < 2; shard++) {
      const struct tt_offer offer = {1, shard, (uint64_t)from, 4, 0, &set};
      assert_int_equal(tt_failover_serves(failover, 1), 0);
      assert_int_equal(tt_failover_offered(failover, from, &offer), TT_OFFER_NEWEST);
      assert_int_equal(tt_failover_offered(failover, from, &offer), TT_OFFER_WRONG); /* twice */
    }
  assert_int_equal(tt_failover_next(failover, &action), 1);
  assert_true(action.act == TT_SERVE && action.share == 1);
  assert_int_equal(tt_failover_serves(failover, 1), 1);
  assert_int_equal(tt_failover_version(failover, 1, 0), 2);
  tt_failover_destroy(failover);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(asgd_keeps_what_a_live_rank_has_seen), cmocka_unit_test(ssp_keeps_its_bound),
    cmocka_unit_test(softsync_keeps_what_was_updated), cmocka_unit_test(easgd_goes_on),
    cmocka_unit_test(wrong_words_change_nothing)};
  seeds_read(argc, argv, "--seeds", &first_seed, &nseeds);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
