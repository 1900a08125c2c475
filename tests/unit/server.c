/* SPDX-License-Identifier: BSD-3-Clause */
/* The shard server, simulated by seed: servers and ranks with links that take drawn times, ranks that are slow, send
 * twice and die. What server.h promises is checked by a record of every contribution, of which the server knows
 * no more than a number.
 * "--seed N": the first seed; "--seeds N": so many of each rule; "--only TEST".
 * Labels: serial, planner. */
#include "server/server.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "simulated.h"

#define RANKS 6
#define SERVERS 3
#define SHARDS 6
#define STEPS 6        /* of each rank */
#define NOTES 200000 /* more of them, and there is no end */

static uint64_t first_seed = 1;
static int nseeds = IS_SLOW ? 100 : 1000;

enum fate { NOT_KEPT, KEPT, COUNTED, DROPPED };

/* The contribution of a rank to a shard in a step. */
struct record {
  uint64_t from;
  enum fate fate;
};

struct rank {
  uint64_t step, next_version[SHARDS], from[SHARDS];
  int unsent;            /* shards of this step to which it has not contributed: the last ones first */
  int is_busy, is_dead, slowness;
  int owed[SHARDS];      /* an answer */
  uint64_t clock[SHARDS]; /* steps that its server has seen, kept or stale */
  uint64_t seen;         /* by decision: the version that it has had completely last */
  int is_lost[SERVERS];  /* 1: what had not arrived there when it died is lost */
};

struct server {
  struct tt_server *server;
  int first, nshards;    /* its shards */
  int is_busy, has_failed, is_dead[RANKS], ndead;
  uint64_t ndecided;     /* steps that it knows to be decided */
  int64_t urgency;       /* of the last action of a shard since the last event */
};

/* The first three: to a rank. */
enum what { COMPUTED, DIES, ANSWER, ARRIVES, HELD, SEEN, DECIDED, SHOW, DEAD, FREE };

struct note {
  enum what what;
  int rank, server, shard; /* HELD: shard: the server that says it */
  uint64_t step, from, set, gets;
};

static struct world {
  uint64_t seed, chance, now;
  struct tt_server_spec spec;
  int nshards, by_decision;
  int32_t urgency[SHARDS];
  struct rank ranks[RANKS];
  struct server servers[SERVERS];
  struct agenda agenda;
  uint64_t free_at[RANKS + SERVERS][RANKS + SERVERS]; /* links keep the order */
  struct record records[RANKS][4 * STEPS][SHARDS];
  uint64_t done[SHARDS], answered[SHARDS];  /* updates; synchronous: versions that were sent to all */
  int outstanding[SHARDS];                  /* kept, neither counted nor dropped */
  uint64_t sets[4 * STEPS];                 /* that were decided; 0: not yet */
  int told[RANKS], ntold;                   /* servers that have told the decider */
  uint64_t decided;
} w;

/* ---- time and links ---- */

static void note_at(uint64_t time, struct note note)
{
  agenda_add(&w.agenda, time, &note, sizeof note);
}

/* Sends over the link from one end to another: ranks have the numbers below RANKS. */
static void send(int from, int to, struct note note)
{
  uint64_t *free_at = &w.free_at[from][to], at = w.now + 1 + below(&w.chance, 40);
  if (below(&w.chance, 20) == 0) at += 300;
  note_at(link_time(free_at, at), note);
}

static int server_of(int shard)
{
  int s = 0;
  while (shard >= w.servers[s].first + w.servers[s].nshards) s++;
  return s;
}

static int is_sync(void)
{
  return w.spec.kind == TT_SERVER_SYNCHRONOUS;
}

/* ---- ranks ---- */

/* Begins the next step, if the rank has the weights for it. */
static void rank_go_on(int r)
{
  struct rank *rank = &w.ranks[r];
  if (rank->is_busy || rank->is_dead) return;
  for (int s = 0; s < w.nshards; s++) {
    if (rank->owed[s]) return;
    if (is_sync() && (rank->next_version[s] != rank->next_version[0] || rank->next_version[s] < rank->step)) return;
  }
  if (is_sync()) rank->step = rank->next_version[0];
  if (rank->step == STEPS) return;
  memcpy(rank->from, rank->next_version, sizeof rank->from);
  rank->is_busy = 1;
  rank->unsent = w.nshards;
  note_at(w.now + 1 + below(&w.chance, 50) * (uint64_t)rank->slowness, (struct note){.what = COMPUTED, .rank = r});
}

/* Contributes to the next shard; sometimes twice. */
static void rank_send(int r)
{
  struct rank *rank = &w.ranks[r];
  if (rank->is_dead) return;
  int shard = --rank->unsent, server = server_of(shard);
  struct note note = {ARRIVES, r, server, shard, rank->step, rank->from[shard], 0, 0};
  w.records[r][rank->step][shard] = (struct record){rank->from[shard], NOT_KEPT};
  rank->owed[shard] = !is_sync();
  send(r, RANKS + server, note);
  if (below(&w.chance, 8) == 0) send(r, RANKS + server, note);
  if (rank->unsent) {
    note_at(w.now + below(&w.chance, 20) * (uint64_t)rank->slowness, (struct note){.what = COMPUTED, .rank = r});
    return;
  }
  rank->is_busy = 0;
  rank->step++;
  rank_go_on(r);
}

static void rank_dies(int r)
{
  struct rank *rank = &w.ranks[r];
  if (rank->is_dead) return;
  rank->is_dead = 1;
  for (int s = 0; s < w.spec.nservers; s++) {
    rank->is_lost[s] = (int)below(&w.chance, 2);
    note_at(w.now + 1 + below(&w.chance, 200), (struct note){.what = DEAD, .rank = r, .server = s});
  }
}

/* By decision one version at a time comes, in all shards; the rank tells the decider. */
static void version_check(int r)
{
  struct rank *rank = &w.ranks[r];
  uint64_t newest = 0;
  int n = 0;
  for (int s = 0; s < w.nshards; s++)
    if (rank->next_version[s] > newest) newest = rank->next_version[s];
  for (int s = 0; s < w.nshards; s++) {
    uint64_t its = rank->next_version[s];
    n += its == newest;
    CHECK(its == newest || its == rank->seen, "two versions are on their way to rank %d", r);
  }
  if (n < w.nshards || rank->is_dead) return;
  CHECK(newest > rank->seen, "rank %d gets a version twice", r);
  rank->seen = newest;
  send(r, RANKS, (struct note){.what = SEEN, .rank = r, .step = newest});
}

static void rank_is_answered(const struct note *note)
{
  struct rank *rank = &w.ranks[note->rank];
  CHECK(note->from >= rank->next_version[note->shard], "rank %d gets older weights", note->rank);
  rank->next_version[note->shard] = note->from;
  rank->owed[note->shard] = 0;
  if (w.by_decision) version_check(note->rank);
  rank_go_on(note->rank);
}

/* ---- what the server says ---- */

static enum tt_server_verdict verdict_wanted(const struct note *note, const struct record *record)
{
  const struct rank *rank = &w.ranks[note->rank];
  if (w.servers[note->server].is_dead[note->rank]) return TT_GONE;
  if (note->step < rank->clock[note->shard]) return TT_REPEATED;
  if (is_sync()) {
    uint64_t step = w.by_decision ? w.servers[note->server].ndecided : w.done[note->shard];
    return note->step < step ? TT_LATE : TT_KEPT;
  }
  uint64_t age = w.done[note->shard] + (uint64_t)(w.outstanding[note->shard] / w.spec.quorum) - record->from;
  int has_bound = w.spec.kind == TT_SERVER_ASGD || w.spec.kind == TT_SERVER_SOFTSYNC;
  return has_bound && age > w.spec.staleness ? TT_STALE : TT_KEPT;
}

static uint64_t tag_of(const struct note *note)
{
  return ((uint64_t)note->rank * 4 * STEPS + note->step) * SHARDS + (uint64_t)note->shard + 1;
}

static void contribution_arrives(const struct note *note)
{
  struct server *server = &w.servers[note->server];
  struct rank *rank = &w.ranks[note->rank];
  struct record *record = &w.records[note->rank][note->step][note->shard];
  if (rank->is_lost[note->server]) return;
  enum tt_server_verdict wanted = verdict_wanted(note, record);
  enum tt_server_verdict verdict = tt_server_contribute(
      server->server, &(struct tt_contribution){note->rank, note->shard - server->first, note->step, record->from,
                                                tag_of(note)});
  CHECK(verdict == wanted, "rank %d, step %llu, shard %d: verdict %d, not %d", note->rank,
        (unsigned long long)note->step, note->shard, (int)verdict, (int)wanted);
  if (verdict == TT_KEPT || verdict == TT_STALE) rank->clock[note->shard] = note->step + 1;
  if (verdict != TT_KEPT) return;
  record->fate = KEPT;
  w.outstanding[note->shard]++;
}

/* Checks one contribution of an action, which is over with it. */
static const struct record *counted_check(int shard, const struct tt_counted *counted, enum fate fate)
{
  uint64_t k = counted->tag - 1;
  int in = (int)(k % SHARDS), r = (int)(k / SHARDS / (4 * STEPS));
  uint64_t step = k / SHARDS % (4 * STEPS);
  struct record *record = &w.records[r][step][in];
  CHECK(in == shard && r == counted->rank && step == counted->step, "the contribution is another one's");
  CHECK(record->fate == KEPT, "rank %d, step %llu, shard %d is over a second time", r, (unsigned long long)step, in);
  record->fate = fate;
  w.outstanding[shard]--;
  return record;
}

static void update_check(int shard, const struct tt_server_action *action)
{
  uint64_t before = w.done[shard]++, set = 0;
  int is_all = is_sync() || w.spec.kind == TT_SERVER_SOFTSYNC;
  CHECK(action->version == before + 1, "version %llu", (unsigned long long)action->version);
  CHECK(action->ncounted >= (is_all ? w.spec.quorum : 1), "%d are counted", action->ncounted);
  CHECK(is_sync() || action->ncounted == w.spec.quorum, "%d are counted", action->ncounted);
  for (int k = 0; k < action->ncounted; k++) {
    const struct tt_counted *counted = &action->counted[k];
    const struct record *record = counted_check(shard, counted, COUNTED);
    int has_bound = is_sync() || w.spec.kind == TT_SERVER_ASGD || w.spec.kind == TT_SERVER_SOFTSYNC;
    CHECK(counted->staleness == before - record->from, "the staleness is not %llu",
          (unsigned long long)counted->staleness);
    CHECK(!has_bound || counted->staleness <= w.spec.staleness, "%llu is stale",
          (unsigned long long)counted->staleness);
    CHECK(!is_sync() || counted->step == before, "step %llu counts in another", (unsigned long long)counted->step);
    CHECK(!is_sync() || !(set >> counted->rank), "ranks are not in their order");
    set |= (uint64_t)1 << counted->rank;
  }
  CHECK(!w.by_decision || set == w.sets[before], "shard %d has another set in step %llu", shard,
        (unsigned long long)before);
}

/* ssp: the weights have all updates of live ranks before these steps. */
static void bound_check(int r, int shard)
{
  const struct server *server = &w.servers[server_of(shard)];
  for (int q = 0; q < w.spec.nranks; q++) {
    if (server->is_dead[q]) continue;
    for (uint64_t step = 0; step + w.spec.staleness < w.ranks[r].clock[shard]; step++)
      CHECK(w.records[q][step][shard].fate == COUNTED, "rank %d is answered before rank %d", r, q);
  }
}

static void answer_check(int shard, const struct tt_server_action *action)
{
  CHECK(action->version == w.done[shard], "shard %d has version %llu", shard, (unsigned long long)w.done[shard]);
  struct note note = {ANSWER, action->rank, 0, shard, 0, action->version, 0, 0};
  CHECK(w.by_decision || is_sync() == (action->rank < 0), "the answer goes to rank %d", action->rank);
  CHECK(!action->gets == !w.by_decision, "some ranks get it");
  int first = action->rank < 0 ? 0 : action->rank, last = action->rank < 0 ? w.spec.nranks - 1 : action->rank;
  if (is_sync() && action->rank < 0)
    CHECK(++w.answered[shard] == action->version, "not every version is told once");
  else if (is_sync()) CHECK(w.answered[shard] == action->version, "rank %d gets it before the others", first);
  else {
    uint64_t step = w.ranks[first].clock[shard] - 1;
    enum fate fate = w.records[first][step][shard].fate;
    CHECK(!w.servers[server_of(shard)].is_dead[first], "rank %d is dead, and answered", first);
    CHECK(w.ranks[first].owed[shard] == 1, "rank %d is answered twice", first);
    CHECK(fate != KEPT || w.spec.kind == TT_SERVER_SOFTSYNC, "rank %d is answered before it counts", first);
    w.ranks[first].owed[shard] = 2;
    if (w.spec.kind == TT_SERVER_SSP) bound_check(first, shard);
  }
  for (note.rank = first; note.rank <= last; note.rank++)
    if (action->rank >= 0 || !action->gets || action->gets[0] >> note.rank & 1)
      send(RANKS + server_of(shard), note.rank, note);
}

static void decision_check(const struct tt_server_action *action)
{
  uint64_t set = action->set[0];
  int n = 0;
  CHECK(w.by_decision && action->step == w.decided++, "step %llu is decided", (unsigned long long)action->step);
  for (int r = 0; r < w.spec.nranks; r++) {
    int is_in = (int)(set >> r & 1);
    n += is_in;
    for (int s = 0; is_in && s < w.nshards; s++)
      CHECK(w.records[r][action->step][s].fate == KEPT, "rank %d counts, and shard %d does not have it", r, s);
  }
  CHECK(n >= w.spec.quorum, "%d are decided", n);
  w.sets[action->step] = set;
  memset(w.told, 0, sizeof w.told);
  w.ntold = 0;
  for (int s = 0; s < w.spec.nservers; s++)
    send(RANKS, RANKS + s, (struct note){.what = DECIDED, .server = s, .step = action->step, .set = set,
                                         .gets = action->gets[0]});
}

static void show(const struct tt_server_action *action)
{
  CHECK(w.by_decision && action->version == w.decided, "version %llu is shown", (unsigned long long)action->version);
  for (int s = 0; s < w.spec.nservers; s++)
    send(RANKS, RANKS + s,
         (struct note){.what = SHOW, .server = s, .rank = action->rank, .step = action->version});
}

static void failure_check(struct server *server, const struct tt_server_action *action)
{
  int most = w.spec.nranks - (is_sync() ? w.spec.quorum : 1);
  CHECK(server->ndead > most && !server->has_failed, "it fails with %d dead", server->ndead);
  for (int r = 0; r < w.spec.nranks; r++)
    CHECK((int)(action->set[0] >> r & 1) == server->is_dead[r], "rank %d is named", r);
  server->has_failed = 1;
}

/* All servers have told the decider of enough ranks. */
static int is_decidable(void)
{
  return w.by_decision && w.ntold >= w.spec.quorum;
}

/* The server takes its actions: an update takes a while. */
static void server_acts(int s)
{
  struct server *server = &w.servers[s];
  struct tt_server_action action;
  while (!server->is_busy && tt_server_next(server->server, &action)) {
    int shard = server->first + action.shard;
    CHECK(!server->has_failed || (w.by_decision && action.act != TT_DECIDE && action.act != TT_FAIL),
          "action %d behind the failure", (int)action.act);
    if (action.act >= TT_UPDATE && action.act <= TT_DROP) {
      CHECK(w.urgency[shard] >= server->urgency, "shard %d should have been earlier", shard);
      server->urgency = w.urgency[shard];
    }
    if (action.act == TT_HELD)
      send(RANKS + s, RANKS, (struct note){.what = HELD, .rank = action.rank, .shard = s, .step = action.step});
    else if (action.act == TT_DECIDE) decision_check(&action);
    else if (action.act == TT_SHOW) show(&action);
    else if (action.act == TT_FAIL) failure_check(server, &action);
    else if (action.act == TT_ANSWER) answer_check(shard, &action);
    else if (action.act == TT_DROP) {
      CHECK(w.by_decision && action.ncounted == 1, "a contribution is dropped");
      counted_check(shard, action.counted, DROPPED);
      CHECK(!(w.sets[action.counted->step] >> action.counted->rank & 1), "one of the set is dropped");
    } else {
      update_check(shard, &action);
      server->is_busy = 1;
      note_at(w.now + 1 + below(&w.chance, 30), (struct note){.what = FREE, .server = s});
    }
  }
  int most = w.spec.nranks - (is_sync() ? w.spec.quorum : 1);
  CHECK(server->is_busy || server->has_failed == (server->ndead > most), "%d are dead", server->ndead);
  CHECK(s || server->is_busy || server->has_failed || !is_decidable(), "the decider waits for nobody");
}

static void held_arrives(const struct note *note)
{
  CHECK(tt_server_held(w.servers[0].server, note->shard, note->rank, note->step), "HELD is not taken");
  if (note->step == w.decided && ++w.told[note->rank] == w.spec.nservers) w.ntold++;
}

static void happen_at_server(const struct note *note)
{
  struct server *server = &w.servers[note->server];
  if (note->what == FREE) server->is_busy = 0;
  else server->urgency = INT64_MIN;
  if (note->what == ARRIVES) contribution_arrives(note);
  else if (note->what == HELD) held_arrives(note);
  else if (note->what == DEAD) {
    server->ndead += !server->is_dead[note->rank];
    server->is_dead[note->rank] = 1;
    tt_server_died(server->server, note->rank);
  } else if (note->what == DECIDED) {
    CHECK(tt_server_decided(server->server, note->step, &note->set, &note->gets), "the decision is not taken");
    server->ndecided++;
  } else if (note->what == SEEN)
    CHECK(tt_server_seen(server->server, note->rank, note->step), "SEEN is not taken");
  else if (note->what == SHOW)
    CHECK(tt_server_show(server->server, note->rank, note->step), "SHOW is not taken");
  server_acts(note->server);
}

static void happen(const struct note *note)
{
  if (note->what == COMPUTED) rank_send(note->rank);
  else if (note->what == DIES) rank_dies(note->rank);
  else if (note->what == ANSWER) rank_is_answered(note);
  else happen_at_server(note);
}

/* ---- worlds ---- */

static size_t drawn(size_t low, size_t high)
{
  return low + below(&w.chance, high - low + 1);
}

static void servers_make(void)
{
  w.nshards = (int)drawn((size_t)w.spec.nservers, SHARDS);
  for (int s = 0; s < w.nshards; s++) w.urgency[s] = (int32_t)below(&w.chance, 4);
  for (int s = 0; s < w.spec.nservers; s++) {
    struct server *server = &w.servers[s];
    int end = w.nshards * (s + 1) / w.spec.nservers;
    server->first = w.nshards * s / w.spec.nservers;
    server->nshards = end - server->first;
    struct tt_server_spec spec = w.spec;
    spec.is_decider = w.by_decision && s == 0;
    spec.nshards = server->nshards;
    spec.urgency = w.urgency + server->first;
    assert_int_equal(tt_server_create(&server->server, &spec), tuttiSuccess);
  }
}

static void ranks_make(void)
{
  size_t most = (size_t)(is_sync() ? w.spec.nranks - w.spec.quorum + 1 : w.spec.nranks);
  size_t ndead = below(&w.chance, 3) ? below(&w.chance, most + 1) : 0;
  if (below(&w.chance, 3) && ndead == most) ndead--;
  for (int r = 0; r < w.spec.nranks; r++) {
    w.ranks[r].slowness = below(&w.chance, 4) ? 1 : 20;
    rank_go_on(r);
  }
  for (size_t k = 0; k < ndead; k++)
    note_at(below(&w.chance, 2500), (struct note){.what = DIES, .rank = (int)((w.seed + k) % (size_t)w.spec.nranks)});
}

static void world_make(uint64_t seed, enum tt_server_kind kind)
{
  memset(&w, 0, sizeof w);
  w.seed = w.chance = seed;
  w.spec = (struct tt_server_spec){.kind = kind, .nranks = (int)drawn(1, RANKS), .quorum = 1,
                                   .nservers = (int)drawn(1, SERVERS)};
  if (kind == TT_SERVER_SYNCHRONOUS || kind == TT_SERVER_SOFTSYNC)
    w.spec.quorum = (int)drawn(1, (size_t)w.spec.nranks);
  if (kind == TT_SERVER_SYNCHRONOUS && below(&w.chance, 4) == 0) w.spec.quorum = w.spec.nranks;
  if (kind == TT_SERVER_ASGD || kind == TT_SERVER_SOFTSYNC || kind == TT_SERVER_SSP)
    w.spec.staleness = below(&w.chance, 5);
  w.by_decision = kind == TT_SERVER_SYNCHRONOUS && (w.spec.quorum < w.spec.nranks || seed % 3 == 0);
  w.spec.by_decision = w.by_decision && seed % 3 == 0;
  servers_make();
  ranks_make();
}

/* Everything has come that was under way: all live ranks have made their steps, or too many are dead. */
static void end_check(void)
{
  int ndead = 0;
  for (int r = 0; r < w.spec.nranks; r++) ndead += w.ranks[r].is_dead;
  for (int s = 0; s < w.nshards && w.by_decision; s++)
    for (int r = 0; r < w.spec.nranks; r++)
      CHECK(w.ranks[r].is_dead || w.ranks[r].next_version[s] == w.done[s],
            "rank %d does not get the last version of shard %d", r, s);
  if (ndead > w.spec.nranks - (is_sync() ? w.spec.quorum : 1)) {
    for (int s = 0; s < w.spec.nservers; s++) CHECK(w.servers[s].has_failed, "server %d has not failed", s);
    return;
  }
  for (int s = 0; s < w.nshards; s++) {
    int most = w.spec.kind == TT_SERVER_SOFTSYNC ? w.spec.quorum - 1 : 0;
    CHECK(w.outstanding[s] <= most, "shard %d: %d contributions are left", s, w.outstanding[s]);
    CHECK(!is_sync() || w.done[s] == STEPS, "shard %d has version %llu", s, (unsigned long long)w.done[s]);
    for (int r = 0; r < w.spec.nranks; r++)
      CHECK(w.ranks[r].is_dead || is_sync() || (w.ranks[r].step == STEPS && !w.ranks[r].owed[s]),
            "rank %d waits for shard %d in step %llu", r, s, (unsigned long long)w.ranks[r].step);
  }
}

static void world_run(uint64_t seed, enum tt_server_kind kind)
{
  world_make(seed, kind);
  for (const struct note *note; (note = agenda_next(&w.agenda, &w.now));) {
    happen(note);
    CHECK(w.agenda.n < NOTES, "no end");
  }
  end_check();
  trace_end(seed, w.chance);
  for (int s = 0; s < w.spec.nservers; s++) tt_server_destroy(w.servers[s].server);
}

static void worlds_run(enum tt_server_kind kind)
{
  for (int k = 0; k < nseeds; k++) world_run(first_seed + (uint64_t)k, kind);
}

/* ---- tests ---- */

static void synchronous_updates_have_one_step_and_one_set(void **state)
{
  (void)state;
  worlds_run(TT_SERVER_SYNCHRONOUS);
}

static void asgd_counts_nothing_that_is_older_than_the_bound(void **state)
{
  (void)state;
  worlds_run(TT_SERVER_ASGD);
}

static void softsync_updates_after_so_many_contributions(void **state)
{
  (void)state;
  worlds_run(TT_SERVER_SOFTSYNC);
}

static void ssp_lets_no_rank_run_ahead(void **state)
{
  (void)state;
  worlds_run(TT_SERVER_SSP);
}

static void easgd_answers_each_exchange_by_itself(void **state)
{
  (void)state;
  worlds_run(TT_SERVER_EASGD);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(synchronous_updates_have_one_step_and_one_set),
    cmocka_unit_test(asgd_counts_nothing_that_is_older_than_the_bound),
    cmocka_unit_test(softsync_updates_after_so_many_contributions),
    cmocka_unit_test(ssp_lets_no_rank_run_ahead),
    cmocka_unit_test(easgd_answers_each_exchange_by_itself)};
  seeds_read(argc, argv, "--seeds", &first_seed, &nseeds);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
