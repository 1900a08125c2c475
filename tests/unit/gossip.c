/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous gossip, simulated by seed: each rank is the server of its own weights, which are whole numbers, so that
 * the sum over all ranks is exact at any time. Links take drawn times, messages come twice, ranks are slow, stop for
 * ever or leave early; the others go on.
 * "--seed N": the first seed; "--seeds N": so many; "--only TEST".
 * Labels: serial, planner. */
#include "server/server.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "simulated.h"

#define RANKS 7
#define SHARDS 3
#define STEPS 12
#define QUIET_STEPS 64 /* of ranks that only exchange */
#define NOTES 200000   /* more of them, and there is no end */

static uint64_t first_seed = 1;
static int nseeds = IS_SLOW ? 100 : 1000;

struct rank {
  struct tt_server *server;
  int64_t y[SHARDS], unseen[SHARDS], x[SHARDS]; /* x: the program's */
  uint64_t version[RANKS][SHARDS];              /* that it has seen of others */
  uint64_t step, steps, clock[RANKS][SHARDS];   /* clock: of the contributions that came */
  int accepted[SHARDS], partner[SHARDS];        /* since its own push; -1: it waits for nobody */
  int64_t answers[RANKS][SHARDS];               /* differences that were not sent yet */
  int has_left, knows_left[RANKS], slowness;
};

enum what { COMPUTED, ARRIVES, ANSWER, LEFT };

struct note {
  enum what what;
  int rank, from, shard;
  uint64_t step, version;
  int64_t value;
};

static struct world {
  uint64_t seed, chance, now;
  int nranks, nshards, trains, stopped; /* stopped: a rank that never computes its last step; -1: none */
  uint64_t staleness;
  struct rank ranks[RANKS];
  struct agenda agenda;
  uint64_t free_at[RANKS][RANKS]; /* links keep the order */
  int64_t sum[SHARDS];            /* of all weights, as they were given and trained */
  int64_t lost[SHARDS];           /* differences that a server has gained, and the rank that asked has not lost yet */
  int refusals;
} w;

/* ---- time and links ---- */

static void note_at(uint64_t time, struct note note)
{
  agenda_add(&w.agenda, time, &note, sizeof note);
}

static void send(struct note note)
{
  uint64_t *free_at = &w.free_at[note.from][note.rank], at = w.now + 1 + below(&w.chance, 40);
  if (below(&w.chance, 20) == 0) at += 300;
  note_at(link_time(free_at, at), note);
}

/* ---- a rank's program ---- */

static void compute(int r)
{
  struct rank *rank = &w.ranks[r];
  if (rank->step == rank->steps) {
    rank->has_left = 1;
    for (int q = 0; q < w.nranks; q++) send((struct note){.what = LEFT, .rank = q, .from = r});
    return;
  }
  if (r == w.stopped && rank->step + 1 == rank->steps) return;
  note_at(w.now + 1 + below(&w.chance, 50) * (uint64_t)rank->slowness, (struct note){.what = COMPUTED, .rank = r});
}

/* The program has the weights of a shard; with the last one it goes on. */
static void give(int r, int s)
{
  struct rank *rank = &w.ranks[r];
  rank->x[s] = rank->y[s];
  rank->unseen[s] = 0;
  rank->partner[s] = -1;
  for (int k = 0; k < w.nshards; k++)
    if (rank->partner[k] >= 0) return;
  rank->step++;
  compute(r);
}

/* Pushes what the program has made of its weights. */
static void computed(int r)
{
  struct rank *rank = &w.ranks[r];
  uint64_t step = rank->step;
  int partner = tt_server_neighbour(rank->server, r, step), others = 0;
  for (int q = 0; q < w.nranks; q++) others += q != r && !rank->knows_left[q];
  CHECK(others ? partner >= 0 && partner < w.nranks && partner != r && !rank->knows_left[partner] : partner == -1,
        "rank %d exchanges with %d", r, partner);
  for (int s = 0; s < w.nshards; s++) rank->partner[s] = w.nranks;
  for (int s = 0; s < w.nshards; s++) {
    int64_t trained = w.trains ? (int64_t)below(&w.chance, 1000) - 500 : 0;
    w.sum[s] += trained;
    rank->y[s] = rank->x[s] + trained + rank->unseen[s];
    rank->accepted[s] = 0;
    rank->partner[s] = partner < 0 ? w.nranks : partner;
    tt_server_renew(rank->server, s);
    struct note note = {ARRIVES, partner, r, s, step, 0, rank->y[s]};
    if (partner < 0) continue;
    note.version = rank->version[partner][s];
    send(note);
    if (below(&w.chance, 8) == 0) send(note);
  }
  for (int s = 0; s < w.nshards && partner < 0; s++) give(r, s);
}

/* ---- its server ---- */

static void server_acts(int r)
{
  struct rank *rank = &w.ranks[r];
  struct tt_server_action action;
  while (tt_server_next(rank->server, &action)) {
    if (action.act == TT_FAIL) return; /* all have left */
    int s = action.shard, from = action.act == TT_UPDATE ? action.counted->rank : action.rank;
    CHECK(from >= 0 && from != r, "rank %d answers rank %d", r, from);
    if (action.act == TT_UPDATE) {
      int64_t d = ((int64_t)action.counted->tag - rank->y[s]) / 2;
      CHECK((uint64_t)++rank->accepted[s] == action.counted->staleness, "staleness %llu is not %d",
            (unsigned long long)action.counted->staleness, rank->accepted[s]);
      CHECK(!w.staleness || (uint64_t)rank->accepted[s] <= w.staleness, "%d exchanges in a step", rank->accepted[s]);
      rank->y[s] += d;
      rank->unseen[s] += d;
      rank->answers[from][s] = d;
      w.lost[s] += d;
    } else {
      CHECK(action.act == TT_ANSWER, "action %d", (int)action.act);
      send((struct note){ANSWER, from, r, s, 0, action.version, rank->answers[from][s]});
      rank->answers[from][s] = 0;
    }
  }
}

static void arrives(const struct note *note)
{
  struct rank *rank = &w.ranks[note->rank];
  int s = note->shard;
  int is_again = note->step < rank->clock[note->from][s];
  enum tt_server_verdict verdict = tt_server_contribute(
      rank->server, &(struct tt_contribution){note->from, s, note->step, note->version, (uint64_t)note->value});
  if (rank->knows_left[note->from]) CHECK(verdict == TT_GONE, "verdict %d of one that has left", (int)verdict);
  else if (is_again) CHECK(verdict == TT_REPEATED, "verdict %d of what came before", (int)verdict);
  else {
    int is_over = w.staleness && (uint64_t)rank->accepted[s] >= w.staleness;
    CHECK(verdict == (is_over ? TT_STALE : TT_KEPT), "verdict %d with %d exchanges", (int)verdict, rank->accepted[s]);
    rank->clock[note->from][s] = note->step + 1;
    w.refusals += is_over;
  }
  server_acts(note->rank);
}

static void answered(const struct note *note)
{
  struct rank *rank = &w.ranks[note->rank];
  CHECK(rank->partner[note->shard] == note->from, "rank %d does not wait for rank %d", note->rank, note->from);
  rank->version[note->from][note->shard] = note->version;
  rank->y[note->shard] -= note->value;
  w.lost[note->shard] -= note->value;
  give(note->rank, note->shard);
}

/* Rank q has left, and does not ask any more: its server answers still. */
static void left(int r, int q)
{
  w.ranks[r].knows_left[q] = 1;
  tt_server_died(w.ranks[r].server, q);
  server_acts(r);
}

static void happen(const struct note *note)
{
  if (note->what == COMPUTED) computed(note->rank);
  else if (note->what == ARRIVES) arrives(note);
  else if (note->what == ANSWER) answered(note);
  else left(note->rank, note->from);
  for (int s = 0; s < w.nshards; s++) {
    int64_t sum = -w.lost[s];
    for (int r = 0; r < w.nranks; r++) sum += w.ranks[r].y[s];
    for (int r = 0; r < w.nranks; r++) /* computing: what the program has is y without the unseen part */
      CHECK(w.ranks[r].partner[s] >= 0 || w.ranks[r].x[s] + w.ranks[r].unseen[s] == w.ranks[r].y[s],
            "rank %d has lost track of shard %d", r, s);
    CHECK(sum == w.sum[s], "the sum of shard %d has changed by %lld", s, (long long)(sum - w.sum[s]));
  }
}

/* ---- worlds ---- */

static void world_make(uint64_t seed, int trains, uint64_t steps)
{
  static const int32_t urgency[SHARDS];
  memset(&w, 0, sizeof w);
  w.seed = w.chance = seed;
  w.trains = trains;
  w.nranks = 1 + (int)below(&w.chance, RANKS);
  w.nshards = 1 + (int)below(&w.chance, SHARDS);
  w.stopped = trains && below(&w.chance, 3) == 0 ? (int)below(&w.chance, (size_t)w.nranks) : -1;
  w.staleness = trains ? below(&w.chance, 4) : 0;
  struct tt_server_spec spec = {.kind = TT_SERVER_GOSSIP, .nranks = w.nranks, .quorum = 1, .staleness = w.staleness,
                                .nservers = w.nranks, .nshards = w.nshards, .urgency = urgency};
  for (int r = 0; r < w.nranks; r++) {
    struct rank *rank = &w.ranks[r];
    assert_int_equal(tt_server_create(&rank->server, &spec), tuttiSuccess);
    rank->slowness = trains && below(&w.chance, 4) == 0 ? 20 : 1;
    rank->steps = trains && below(&w.chance, 4) == 0 ? below(&w.chance, steps + 1) : steps;
    for (int s = 0; s < w.nshards; s++) {
      rank->partner[s] = -1;
      rank->x[s] = rank->y[s] = trains ? (int64_t)below(&w.chance, 1 << 20) : (int64_t)1 << 40 << r;
      w.sum[s] += rank->y[s];
    }
  }
  for (int r = 0; r < w.nranks; r++) compute(r);
}

static void world_run(uint64_t seed, int trains, uint64_t steps)
{
  world_make(seed, trains, steps);
  for (const struct note *note; (note = agenda_next(&w.agenda, &w.now));) {
    happen(note);
    CHECK(w.agenda.n < NOTES, "no end");
  }
  for (int r = 0; r < w.nranks; r++) {
    const struct rank *rank = &w.ranks[r];
    uint64_t wanted = r == w.stopped && rank->steps ? rank->steps - 1 : rank->steps;
    CHECK(rank->step == wanted, "rank %d waits in step %llu", r, (unsigned long long)rank->step);
    for (int s = 0; s < w.nshards; s++) CHECK(!w.lost[s], "an answer of shard %d is missing", s);
  }
  trace_end(seed, w.chance);
  for (int r = 0; r < w.nranks; r++) tt_server_destroy(w.ranks[r].server);
}

/* ---- tests ---- */

static void the_sum_stays_and_nobody_waits_for_a_rank_that_stops(void **state)
{
  int refusals = 0;
  (void)state;
  for (int k = 0; k < nseeds; k++) {
    world_run(first_seed + (uint64_t)k, 1, STEPS);
    refusals += w.refusals;
  }
  assert_true(refusals > 0 || nseeds < 100);
}

static void ranks_that_only_exchange_get_the_mean(void **state)
{
  (void)state;
  for (int k = 0; k < nseeds / 10 + 1; k++) {
    world_run(first_seed + (uint64_t)k, 0, QUIET_STEPS);
    for (int r = 0; r < w.nranks; r++)
      for (int s = 0; s < w.nshards; s++) {
        int64_t off = w.ranks[r].y[s] * w.nranks - w.sum[s], whole = w.sum[s];
        CHECK(off < whole / 1000 && -off < whole / 1000, "rank %d is %lld from the mean", r,
              (long long)(off / w.nranks));
      }
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_sum_stays_and_nobody_waits_for_a_rank_that_stops),
                                     cmocka_unit_test(ranks_that_only_exchange_get_the_mean)};
  seeds_read(argc, argv, "--seeds", &first_seed, &nseeds);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
