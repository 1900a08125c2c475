/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths of ranks that serve, simulated by seed: ranks that contribute and serve shards (the real servers), links that
 * take drawn times and lose what a dead rank had sent, deaths at any time, also while others are dealt with, that ranks
 * hear of one after the other. A shard's weights are the list of those that contributed to each of its steps, so what
 * takeover.h promises is read from the weights. At some moment of each job, and at its end, some of the live ranks, and
 * new ones, go on as another set: what move.h promises.
 * "--seed N": the first seed; "--seeds N": so many of each test; "--only TEST".
 * Labels: serial, planner. */
#include "server/move.h"
#include "server/server.h"
#include "server/takeover.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "simulated.h"

#define RANKS 7
#define SHARDS 2      /* of a share, at most */
#define STEPS 6
#define NOTES 400000 /* more of them, and there is no end */

static uint64_t first_seed = 1;
static int nseeds = IS_SLOW ? 100 : 1000;

/* A shard as it is after some updates: the contributors to each of them. */
struct weights {
  uint64_t version, sets[STEPS];
};

/* The first three are a rank's own. */
enum what { COMPUTED, DIES, HEARS, CONTRIBUTES, HOLDS, SEES, DECIDES, SHOWS, ANSWERS, REPORTS, ORDERS };

struct note {
  enum what what;
  int from, to, epoch, share, shard, rank; /* rank: HEARS: the dead one; HOLDS: the contributor */
  uint64_t step, set, gets, dead, holders, serves, least;
  int32_t owners[RANKS];
  struct weights weights;
};

/* The weights of one version, of all shares; some are missing still. */
struct cut {
  uint64_t version;
  int nleft; /* all: none has come, and the version is not known */
  struct weights weights[RANKS][SHARDS];
};

struct share {
  struct tt_server *server; /* NULL: another rank serves it */
  struct weights now[SHARDS], before[SHARDS]; /* before: the last update; version UINT64_MAX: there is none to forget */
};

struct rank {
  int is_dead, is_over, is_busy, slowness;
  uint64_t step;          /* version of the weights that its last step gave */
  int has_sent;           /* it has contributed to the step since then */
  uint64_t hears;         /* deaths that it has heard of */
  struct tt_takeover *takeover;
  struct cut cut, next;
  struct share shares[RANKS];
  struct agenda later;    /* of an epoch that has not begun here */
  int is_cut_off[RANKS];  /* what had not arrived there when it died is lost */
};

static struct world {
  uint64_t seed, chance, now, dead, far; /* far: ranks to which links are slow */
  int nranks, quorum, nshards, may_lose;
  struct rank ranks[RANKS];
  struct agenda agenda;
  uint64_t free_at[RANKS][RANKS]; /* links keep the order */
  int ndoomed, nlost;
} w;

/* ---- time and links ---- */

static void note_at(uint64_t time, const struct note *note)
{
  agenda_add(&w.agenda, time, note, sizeof *note);
}

/* Sends a note of the sender's epoch. */
static void send(int from, int to, struct note note)
{
  uint64_t *free_at = &w.free_at[from][to], at = w.now + (from == to ? 0 : 1 + below(&w.chance, 40));
  if (from != to && below(&w.chance, 20) == 0) at += 300;
  if (from != to && has(w.far, to)) at += 500;
  note.from = from;
  note.to = to;
  note.epoch = tt_takeover_epoch(w.ranks[from].takeover);
  note_at(link_time(free_at, at), &note);
}

/* ---- members ---- */

static void rank_go_on(int r)
{
  struct rank *rank = &w.ranks[r];
  if (rank->is_busy || rank->is_dead || rank->is_over || rank->has_sent || rank->step == STEPS) return;
  rank->is_busy = 1;
  note_at(w.now + 1 + below(&w.chance, 60) * (uint64_t)rank->slowness, &(struct note){.what = COMPUTED, .to = r});
}

static void contribute(int r)
{
  struct rank *rank = &w.ranks[r];
  if (!rank->has_sent || rank->cut.version > rank->step) return;
  for (int share = 0; share < w.nranks; share++)
    for (int shard = 0; shard < w.nshards; shard++)
      send(r, tt_takeover_owner(rank->takeover, share),
           (struct note){.what = CONTRIBUTES, .share = share, .shard = shard, .step = rank->step});
}

/* A step ends with the newest weights; those who come late skip some. */
static void step_look(int r)
{
  struct rank *rank = &w.ranks[r];
  if (!rank->has_sent || rank->cut.version == rank->step) return;
  rank->step = rank->cut.version;
  rank->has_sent = 0;
  rank_go_on(r);
}

static void cut_begin(struct rank *rank)
{
  rank->next.nleft = w.nranks * w.nshards;
}

/* All shards of one version are there: they have the same contributors, and the same as before. */
static void cut_check(int r, const struct cut *old, const struct cut *cut)
{
  const struct weights *first = &cut->weights[0][0];
  for (uint64_t s = 0; s < cut->version; s++) {
    CHECK(__builtin_popcountll(first->sets[s]) >= w.quorum, "step %llu has too few", (unsigned long long)s);
    CHECK(s >= old->version || first->sets[s] == old->weights[0][0].sets[s], "rank %d: step %llu has changed", r,
          (unsigned long long)s);
    for (int share = 0; share < w.nranks; share++)
      for (int shard = 0; shard < w.nshards; shard++)
        CHECK(cut->weights[share][shard].sets[s] == first->sets[s], "rank %d: share %d has others in step %llu", r,
              share, (unsigned long long)s);
  }
}

static int decider_of(const struct rank *rank)
{
  return tt_takeover_owner(rank->takeover, 0);
}

/* At most one version is on its way to a rank. */
static void weights_take(struct rank *rank, const struct note *note)
{
  struct cut *next = &rank->next;
  int r = (int)(rank - w.ranks), is_first = next->nleft == w.nranks * w.nshards;
  CHECK(note->weights.version > rank->cut.version, "rank %d gets older weights", r);
  if (is_first) next->version = note->weights.version;
  CHECK(note->weights.version == next->version, "versions %llu and %llu are on their way to rank %d",
        (unsigned long long)next->version, (unsigned long long)note->weights.version, r);
  next->weights[note->share][note->shard] = note->weights;
  if (--next->nleft) return;
  cut_check(r, &rank->cut, next);
  rank->cut = *next;
  cut_begin(rank);
  if (w.quorum < w.nranks) send(r, decider_of(rank), (struct note){.what = SEES, .step = rank->cut.version});
  step_look(r);
}

/* ---- servers ---- */

static uint64_t tag_of(int epoch, const struct tt_counted *counted)
{
  return ((uint64_t)epoch * STEPS + counted->step) * RANKS + (uint64_t)counted->rank + 1;
}

static void update(int r, struct share *share, const struct tt_server_action *action)
{
  struct weights *now = &share->now[action->shard];
  uint64_t set = 0;
  CHECK(action->version == now->version + 1, "version %llu", (unsigned long long)action->version);
  for (int k = 0; k < action->ncounted; k++) {
    const struct tt_counted *counted = &action->counted[k];
    CHECK(counted->step == now->version, "step %llu counts in another", (unsigned long long)counted->step);
    CHECK(counted->tag == tag_of(tt_takeover_epoch(w.ranks[r].takeover), counted), "one of another epoch counts");
    set |= (uint64_t)1 << counted->rank;
  }
  share->before[action->shard] = *now;
  now->sets[now->version++] = set;
}

static void answer(int r, int share, int shard, int to)
{
  struct note note = {.what = ANSWERS, .share = share, .shard = shard,
                      .weights = w.ranks[r].shares[share].now[shard]};
  send(r, to, note);
}

static void act(int r, int s, const struct tt_server_action *action)
{
  struct rank *rank = &w.ranks[r];
  struct share *share = &rank->shares[s];
  int is_of_step = action->act == TT_HELD || action->act == TT_DECIDE;
  CHECK(!is_of_step || action->step >= share->now[0].version, "step %llu again", (unsigned long long)action->step);
  if (action->act == TT_UPDATE) update(r, share, action);
  else if (action->act == TT_ANSWER)
    for (int to = 0; to < w.nranks; to++) {
      if (action->rank >= 0 ? to == action->rank : !action->gets || has(action->gets[0], to))
        answer(r, s, action->shard, to);
    }
  else if (action->act == TT_HELD)
    send(r, decider_of(rank), (struct note){.what = HOLDS, .share = s, .rank = action->rank, .step = action->step});
  else if (action->act == TT_DECIDE)
    for (int share_to = 0; share_to < w.nranks; share_to++)
      send(r, tt_takeover_owner(rank->takeover, share_to),
           (struct note){.what = DECIDES, .share = share_to, .step = action->step, .set = action->set[0],
                         .gets = action->gets[0]});
  else if (action->act == TT_SHOW)
    for (int share_to = 0; share_to < w.nranks; share_to++)
      send(r, tt_takeover_owner(rank->takeover, share_to),
           (struct note){.what = SHOWS, .share = share_to, .step = action->version, .rank = action->rank});
}

static void server_acts(int r, int share)
{
  struct tt_server_action action;
  while (tt_server_next(w.ranks[r].shares[share].server, &action)) act(r, share, &action);
}

static void server_make(int r, int s, uint64_t version, uint64_t dead, const uint64_t *holders)
{
  static const int32_t urgency[SHARDS] = {0, 1};
  struct rank *rank = &w.ranks[r];
  struct tt_server_spec spec = {.kind = TT_SERVER_SYNCHRONOUS, .nranks = w.nranks, .quorum = w.quorum,
                                .version = version, .holders = holders, .nservers = w.nranks, .is_decider = s == 0,
                                .nshards = w.nshards, .urgency = urgency};
  tt_server_destroy(rank->shares[s].server);
  rank->shares[s].server = NULL;
  assert_int_equal(tt_server_create(&rank->shares[s].server, &spec), tuttiSuccess);
  for (int q = 0; q < w.nranks; q++)
    if (has(dead, q)) tt_server_died(rank->shares[s].server, q);
}

static void served_take(struct rank *rank, const struct note *note)
{
  int s = note->what == HOLDS || note->what == SEES ? 0 : note->share; /* the decider's */
  struct share *share = &rank->shares[s];
  CHECK(share->server, "rank %d does not serve share %d", note->to, s);
  if (note->what == CONTRIBUTES) {
    struct tt_counted counted = {.rank = note->from, .step = note->step};
    enum tt_server_verdict verdict = tt_server_contribute(
        share->server, &(struct tt_contribution){note->from, note->shard, note->step, note->step,
                                                 tag_of(note->epoch, &counted)});
    CHECK(verdict == TT_KEPT || verdict == TT_LATE, "verdict %d", (int)verdict);
  } else if (note->what == HOLDS)
    CHECK(tt_server_held(share->server, note->share, note->rank, note->step), "HELD is not taken");
  else if (note->what == SEES)
    CHECK(tt_server_seen(share->server, note->from, note->step), "SEEN is not taken");
  else if (note->what == SHOWS)
    CHECK(tt_server_show(share->server, note->rank, note->step), "SHOW is not taken");
  else CHECK(tt_server_decided(share->server, note->step, &note->set, &note->gets), "the decision is not taken");
  server_acts((int)(rank - w.ranks), s);
}

/* ---- deaths ---- */

static uint64_t least_of(const struct rank *rank)
{
  uint64_t least = 0;
  for (int s = 0; s < w.nranks; s++)
    for (int k = 0; rank->shares[s].server && k < w.nshards; k++) {
      int goes_back = rank->shares[s].before[k].version != UINT64_MAX;
      uint64_t its = rank->shares[s].now[k].version - (uint64_t)goes_back;
      if (its > least) least = its;
    }
  return least;
}

static void share_begin(int r, int s, const struct tt_takeover_order *order)
{
  struct rank *rank = &w.ranks[r];
  struct share *share = &rank->shares[s];
  for (int k = 0; k < w.nshards; k++) {
    struct weights *now = &share->now[k];
    if (!share->server) {
      CHECK(has(order->dead[0], s), "share %d is served twice", s);
      CHECK(rank->cut.version == order->version, "rank %d takes over what it does not hold", r);
      *now = rank->cut.weights[s][k];
      share->before[k].version = UINT64_MAX;
    } else if (now->version != order->version) {
      CHECK(share->before[k].version == order->version, "share %d cannot go back to %llu", s,
            (unsigned long long)order->version);
      *now = share->before[k];
      share->before[k].version = UINT64_MAX;
    }
    CHECK(now->version == order->version, "share %d has another version", s);
  }
  server_make(r, s, order->version, order->dead[0], order->holders);
  for (int to = 0; to < w.nranks; to++)
    for (int k = 0; k < w.nshards; k++)
      if (!has(order->dead[0], to) && !has(order->holders[0], to)) answer(r, s, k, to);
}

static void deliver(const void *note);

static void epoch_begin(int r, const struct tt_takeover_order *order)
{
  struct rank *rank = &w.ranks[r];
  CHECK(rank->cut.version <= order->version, "rank %d has seen more", r);
  CHECK(has(order->holders[0], r) == (rank->cut.version == order->version), "rank %d holds it, or not", r);
  cut_begin(rank);
  for (int s = 0; s < w.nranks; s++) {
    int owner = tt_takeover_owner(rank->takeover, s);
    CHECK(!has(order->dead[0], owner), "share %d is served by rank %d, which is dead", s, owner);
    CHECK(owner == r || !rank->shares[s].server, "share %d leaves rank %d, which lives", s, r);
    if (owner == r) share_begin(r, s, order);
  }
  contribute(r);
  agenda_deliver(&rank->later, deliver);
}

static void takeover_acts(int r)
{
  struct rank *rank = &w.ranks[r];
  struct tt_takeover_action action;
  while (tt_takeover_next(rank->takeover, &action)) {
    if (action.act == TT_BEGIN) epoch_begin(r, &action.order);
    else if (action.act == TT_REPORT)
      send(r, action.to, (struct note){.what = REPORTS, .dead = action.order.dead[0], .serves = action.serves[0],
                                       .step = rank->cut.version, .least = least_of(rank)});
    else if (action.act == TT_ORDER) {
      struct note note = {.what = ORDERS, .dead = action.order.dead[0], .holders = action.order.holders[0],
                          .step = action.order.version};
      memcpy(note.owners, action.order.owners, (size_t)w.nranks * sizeof *note.owners);
      send(r, action.to, note);
    } else {
      int most = w.nranks - w.quorum, ndead = __builtin_popcountll(rank->hears);
      CHECK(action.is_lost ? w.may_lose : ndead > most, "rank %d gives up with %d dead", r, ndead);
      CHECK(action.order.dead[0] == rank->hears, "others are named");
      CHECK(!rank->is_over, "it gives up twice");
      rank->is_over = 1;
      w.nlost += action.is_lost;
      w.ndoomed++;
    }
  }
}

/* ---- notes ---- */

/* A message of an epoch has an effect in this epoch alone. */
static void epoch_deliver(struct rank *rank, const struct note *note)
{
  int epoch = tt_takeover_epoch(rank->takeover);
  if (note->epoch > epoch) agenda_put_off(&rank->later, note, sizeof *note);
  else if (note->epoch < epoch || tt_takeover_is_stopped(rank->takeover)) return;
  else if (note->what == ANSWERS) weights_take(rank, note);
  else served_take(rank, note);
}

static void deliver(const void *what)
{
  const struct note *note = what;
  struct rank *rank = &w.ranks[note->to];
  if (rank->is_dead || rank->is_over || w.ranks[note->from].is_cut_off[note->to]) return;
  const struct tt_takeover_report report = {&note->dead, &note->serves, note->step, note->least};
  const struct tt_takeover_order order = {&note->dead, &note->holders, note->owners, note->step};
  if (note->what == REPORTS) CHECK(tt_takeover_reported(rank->takeover, note->from, &report), "a report is refused");
  else if (note->what == ORDERS) CHECK(tt_takeover_ordered(rank->takeover, note->from, &order), "an order is refused");
  else epoch_deliver(rank, note);
  takeover_acts(note->to);
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
  struct rank *rank = &w.ranks[note->to];
  if (note->what == DIES) rank_dies(note->to);
  else if (note->what > HEARS) deliver(note);
  else if (rank->is_dead || rank->is_over) return;
  else if (note->what == COMPUTED) {
    rank->is_busy = 0;
    rank->has_sent = 1;
    if (!tt_takeover_is_stopped(rank->takeover)) contribute(note->to); /* else when the epoch begins */
    step_look(note->to);
  } else {
    rank->hears |= (uint64_t)1 << note->rank;
    tt_takeover_died(rank->takeover, note->rank);
    for (int s = 0; s < w.nranks; s++)
      if (rank->shares[s].server) tt_server_died(rank->shares[s].server, note->rank);
    takeover_acts(note->to);
  }
}

/* ---- worlds ---- */

static void world_make(uint64_t seed, int may_lose)
{
  memset(&w, 0, sizeof w);
  w.seed = w.chance = seed;
  w.may_lose = may_lose;
  w.nranks = 2 + (int)below(&w.chance, RANKS - 1);
  w.quorum = may_lose ? 1 + (int)below(&w.chance, (size_t)w.nranks / 2)
                      : w.nranks / 2 + 1 + (int)below(&w.chance, (size_t)(w.nranks - w.nranks / 2));
  w.nshards = 1 + (int)below(&w.chance, SHARDS);
  size_t most = (size_t)(w.nranks - w.quorum), ndead = below(&w.chance, most + 1);
  if (below(&w.chance, 4) == 0 && most + 1 < (size_t)w.nranks) ndead = most + 1;
  if (below(&w.chance, 3) == 0) w.far = next(&w.chance);
  uint64_t moment = below(&w.chance, 1500);
  int is_burst = (int)below(&w.chance, 2), first = (int)below(&w.chance, (size_t)w.nranks);
  for (int r = 0; r < w.nranks; r++) {
    struct rank *rank = &w.ranks[r];
    rank->slowness = below(&w.chance, 4) ? 1 : 20;
    assert_int_equal(tt_takeover_create(&rank->takeover, w.nranks, r, (int)most), tuttiSuccess);
    cut_begin(rank);
    for (int k = 0; k < SHARDS; k++) rank->shares[r].before[k].version = UINT64_MAX;
    server_make(r, r, 0, 0, NULL);
  }
  for (int r = 0; r < w.nranks; r++) rank_go_on(r);
  for (size_t k = 0; k < ndead; k++)
    note_at(is_burst ? moment + below(&w.chance, 300) : below(&w.chance, 2500),
            &(struct note){.what = DIES, .to = (first + (int)k) % w.nranks});
}

/* Nothing is under way any more: all live ranks have made their steps, and the same ones, or have given up. */
static void end_check(void)
{
  const struct rank *other = NULL;
  int is_over = __builtin_popcountll(w.dead) > w.nranks - w.quorum;
  for (int r = 0; r < w.nranks; r++) {
    const struct rank *rank = &w.ranks[r];
    if (rank->is_dead) continue;
    if (is_over || w.nlost) {
      CHECK(rank->is_over || !is_over, "rank %d has not given up", r);
      continue;
    }
    CHECK(rank->cut.version == STEPS && rank->step == STEPS, "rank %d waits in step %llu", r,
          (unsigned long long)rank->step);
    CHECK(!other || memcmp(other->cut.weights[0][0].sets, rank->cut.weights[0][0].sets,
                           sizeof rank->cut.weights[0][0].sets) == 0, "rank %d has other weights", r);
    other = rank;
    for (int s = 0; s < w.nranks; s++)
      CHECK(!rank->shares[s].server == (tt_takeover_owner(rank->takeover, s) != r), "share %d is served twice", s);
  }
}

/* ---- a move ---- */

/* Of all ranks; one of two that are new or missing has not come. */
static int moving_draw(uint64_t *chance, struct tt_move_rank ranks[RANKS])
{
  int n = 0;
  for (int r = 0; r < w.nranks; r++) {
    const struct rank *rank = &w.ranks[r];
    int comes = !rank->is_dead && below(chance, 4) > 0;
    ranks[r] = (struct tt_move_rank){comes, comes ? rank->step : 0, comes ? rank->cut.version : 0};
    n += comes;
  }
  return n;
}

/* The weights with which a shard goes on; NULL: it is lost. */
static const struct weights *weights_moved(enum tt_move_rule rule, const struct tt_move_rank ranks[RANKS],
                                           uint64_t version, int s, int k)
{
  uint64_t largest = 0;
  int giver = -1;
  for (int r = 0; r < w.nranks; r++) {
    const struct share *share = &w.ranks[r].shares[s];
    struct tt_move_shard shard = {share->server != NULL, share->before[k].version != UINT64_MAX,
                                  rule == TT_MOVE_BY_DECISION, share->now[k].version, w.ranks[r].cut.version};
    uint64_t claim = ranks[r].has_come ? tt_move_claim(rule, version, r, &shard) : 0;
    if (claim > largest) largest = claim, giver = r;
  }
  if (giver < 0) return NULL;
  const struct share *share = &w.ranks[giver].shares[s];
  CHECK(tt_move_claimed(largest) == version, "share %d moves with another version", s);
  if (!tt_move_is_served(largest)) return &w.ranks[giver].cut.weights[s][k];
  return share->now[k].version == version ? &share->now[k] : &share->before[k];
}

static void move_check(enum tt_move_rule rule, uint64_t *chance)
{
  struct tt_move_rank ranks[RANKS];
  if (!moving_draw(chance, ranks)) return;
  uint64_t version = tt_move_version(rule, ranks, w.nranks), sets[STEPS];
  int n = 0;
  for (int s = 0; s < w.nranks; s++)
    for (int k = 0; k < w.nshards; k++) {
      const struct weights *weights = weights_moved(rule, ranks, version, s, k);
      int serves = 0;
      for (int r = 0; r < w.nranks; r++) serves |= ranks[r].has_come && w.ranks[r].shares[s].server;
      CHECK(weights || (rule == TT_MOVE_ALL && !serves), "share %d is lost", s);
      if (!weights) continue;
      CHECK(weights->version == version, "share %d moves with version %llu", s, (unsigned long long)weights->version);
      CHECK(!n++ || memcmp(weights->sets, sets, version * sizeof *sets) == 0, "share %d has other contributors", s);
      memcpy(sets, weights->sets, sizeof sets);
    }
  for (int r = 0; r < w.nranks; r++) {
    const struct cut *cut = &w.ranks[r].cut;
    uint64_t common = cut->version < version ? cut->version : version;
    if (!ranks[r].has_come || !n) continue;
    CHECK(rule == TT_MOVE_ALL ? version <= w.ranks[r].step : cut->version <= version, "rank %d is elsewhere", r);
    CHECK(memcmp(cut->weights[0][0].sets, sets, common * sizeof *sets) == 0, "a step has changed for rank %d", r);
  }
}

static void moves_check(uint64_t *chance)
{
  move_check(TT_MOVE_BY_DECISION, chance);
  if (w.quorum == w.nranks) move_check(TT_MOVE_ALL, chance);
}

static void world_free(void)
{
  for (int r = 0; r < w.nranks; r++) {
    struct rank *rank = &w.ranks[r];
    for (int s = 0; s < w.nranks; s++) tt_server_destroy(rank->shares[s].server);
    tt_takeover_destroy(rank->takeover);
    agenda_free(&rank->later);
  }
}

static int world_run(uint64_t seed, int may_lose)
{
  uint64_t chance = ~seed, moment = below(&chance, 2000);
  world_make(seed, may_lose);
  for (const struct note *note; (note = agenda_next(&w.agenda, &w.now));) {
    happen(note);
    if (w.now > moment) moves_check(&chance), moment = UINT64_MAX;
    CHECK(w.agenda.n < NOTES, "no end");
  }
  end_check();
  moves_check(&chance);
  trace_end(seed, w.chance ^ chance);
  int was_lost = w.nlost > 0;
  world_free();
  return was_lost;
}

/* ---- tests ---- */

static void live_ranks_go_on_with_all_that_they_have_seen(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds; k++) world_run(first_seed + (uint64_t)k, 0);
}

static void what_a_minority_has_done_is_kept_or_known_to_be_lost(void **state)
{
  int nlost = 0;
  (void)state;
  for (int k = 0; k < nseeds; k++) nlost += world_run(first_seed + (uint64_t)k, 1);
  assert_true(nlost <= nseeds / 20); /* they would have to be far ahead */
}

static void wrong_words_change_nothing(void **state)
{
  struct tt_takeover *takeover, *none;
  struct tt_takeover_action action;
  uint64_t all = 7, one = 2, self = 1, beyond = 8;
  (void)state;
  assert_int_equal(tt_takeover_create(&none, 3, 3, 1), tuttiInvalidArgument);
  assert_int_equal(tt_takeover_create(&none, 3, 0, 3), tuttiInvalidArgument);
  assert_int_equal(tt_takeover_create(&takeover, 3, 0, 2), tuttiSuccess);
  const struct tt_takeover_report reports[] = {{&one, &one, 0, 0}, {&beyond, &one, 0, 0}, {&one, &beyond, 0, 0}};
  static const int senders[] = {1, 2, 2};
  assert_int_equal(tt_takeover_reported(takeover, 3, &reports[0]), 0);
  for (int k = 0; k < 3; k++) assert_int_equal(tt_takeover_reported(takeover, senders[k], &reports[k]), 0);
  static const int32_t right[] = {0, 2, 2}, dead[] = {0, 1, 2}, taken[] = {2, 2, 2}, beside[] = {0, 3, 2};
  const struct tt_takeover_order orders[] = {{&one, &self, right, 0}, {&one, &all, right, 0}, {&one, &beyond, right, 0},
                                             {&one, &self, dead, 0}, {&one, &self, taken, 0}, {&one, &self, beside, 0}};
  static const int from[] = {1, 2, 0, 0, 0, 0};
  for (int k = 0; k < 6; k++) assert_int_equal(tt_takeover_ordered(takeover, from[k], &orders[k]), 0);
  assert_int_equal(tt_takeover_next(takeover, &action), 0);
  assert_int_equal(tt_takeover_owner(takeover, 1), 1);
  tt_takeover_destroy(takeover);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(live_ranks_go_on_with_all_that_they_have_seen),
    cmocka_unit_test(what_a_minority_has_done_is_kept_or_known_to_be_lost),
    cmocka_unit_test(wrong_words_change_nothing)};
  seeds_read(argc, argv, "--seeds", &first_seed, &nseeds);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
