/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server.h"

#include <string.h>

#include "base/priority.h"

#define WORD_BITS 64
#define SETS 9 /* of ranks, of a server */

struct shard {
  int index;
  uint64_t version;          /* updates that were taken */
  uint64_t renewed;          /* gossip: the version with which the own rank's weights came last */
  struct tt_counted *kept;   /* contributions that were not taken yet: in the order in which they came, or of ranks */
  int nkept;
  int is_decided;            /* 1: an update with those of `kept` that are in the decided set is due */
  int is_new;                /* synchronous: 1: the weights are to go to all, by decision to `gets` */
  int is_listed;             /* 1: it is in `due` */
  uint64_t *clocks;          /* of each rank: its last step here + 1; 0: none yet */
  uint64_t *waiting, *answers; /* ranks that wait for an answer; those of them that are to get it */
  uint64_t *owed;            /* ranks whose last step is in the version that was restored, and was not answered */
  uint64_t *odd;             /* ranks of which an odd number of contributions was kept */
};

/* The decider's part: the step that is to be decided next. */
struct decider {
  uint64_t step;
  int *held;        /* by rank: servers that hold all its contributions, */
  uint64_t *by;     /* and the set of them, `nwords` words */
  int nwords;
  uint64_t *in;     /* ranks whose contributions all servers hold */
  int n;            /* of them */
  uint64_t *shown;  /* by rank: the version that it was sent last */
  uint64_t *busy, *behind; /* sets: it is on its way to these; these have got it, and it is not the newest */
};

struct tt_server {
  struct tt_server_spec spec;
  int nwords;                /* of a set of ranks */
  int by_decision;           /* 1: synchronous with fewer than all ranks */
  struct shard *shards;
  struct tt_priority_queue due;        /* shards that have an action */
  struct tt_counted *kept, *counted; /* memory of `kept` of all shards; of an action */
  uint64_t *numbers, *sets;  /* memory of clocks; of sets of ranks */
  uint64_t *dead, *decided, *gets, *told; /* sets: dead ranks; the last decision, and who gets it; HELD to be said */
  uint64_t *set, *receivers; /* those of an action */
  int *complete;             /* by rank: shards that have its contribution to the present step; then decider.held */
  uint64_t step;             /* that the decider has not decided yet, as far as this server knows */
  int ndead, has_failed;     /* has_failed: 1: it is to be said; 2: it was */
  struct decider decider;
};

/* ---- sets of ranks ---- */

static int has(const uint64_t *set, int rank)
{
  return (int)(set[rank / WORD_BITS] >> (rank % WORD_BITS) & 1);
}

static void add(uint64_t *set, int rank)
{
  set[rank / WORD_BITS] |= (uint64_t)1 << (rank % WORD_BITS);
}

static void take(uint64_t *set, int rank)
{
  set[rank / WORD_BITS] &= ~((uint64_t)1 << (rank % WORD_BITS));
}

/* Returns the first rank of the set; -1: it is empty. */
static int first_of(const uint64_t *set, int nwords)
{
  for (int w = 0; w < nwords; w++)
    if (set[w]) return w * WORD_BITS + __builtin_ctzll(set[w]);
  return -1;
}

/* ---- create, destroy ---- */

static tuttiResult_t spec_check(const struct tt_server_spec *spec)
{
  int has_quorum = spec->kind == TT_SERVER_SYNCHRONOUS || spec->kind == TT_SERVER_SOFTSYNC;
  int has_bound = spec->kind != TT_SERVER_SYNCHRONOUS && spec->kind != TT_SERVER_EASGD;
  int most = has_quorum ? spec->nranks : 1;
  if (spec->nranks < 1 || spec->nshards < 1 || spec->nservers < 1)
    return tt_fail(tuttiInvalidArgument, "%d ranks, %d servers, %d shards: give one of each at least", spec->nranks,
                   spec->nservers, spec->nshards);
  if (spec->quorum < 1 || spec->quorum > most)
    return tt_fail(tuttiInvalidArgument, "the quorum is %d: set it to 1 .. %d", spec->quorum, most);
  if (spec->staleness && !has_bound)
    return tt_fail(tuttiInvalidArgument, "the staleness is %llu, and this rule has none: set it to 0",
                   (unsigned long long)spec->staleness);
  return tuttiSuccess;
}

static tuttiResult_t memory_get(struct tt_server *server)
{
  size_t n = (size_t)server->spec.nranks, s = (size_t)server->spec.nshards, words = (size_t)server->nwords;
  size_t room = n + (size_t)server->spec.quorum; /* each rank has one contribution without an answer, at most */
  server->shards = tt_alloc(s, sizeof *server->shards);
  server->kept = tt_alloc(s * room, sizeof *server->kept);
  server->counted = tt_alloc(room, sizeof *server->counted);
  server->numbers = tt_alloc((s + 1) * n, sizeof *server->numbers);
  server->sets = tt_alloc((SETS + 4 * s) * words, sizeof *server->sets);
  server->decider.nwords = (server->spec.nservers + WORD_BITS - 1) / WORD_BITS;
  server->decider.by = tt_alloc(n * (size_t)server->decider.nwords, sizeof *server->decider.by);
  server->complete = tt_alloc(2 * n, sizeof *server->complete);
  if (!server->shards || !server->kept || !server->counted || !server->numbers || !server->sets || !server->complete ||
      !server->decider.by || !tt_priority_reserve(&server->due, s))
    return tt_fail(tuttiSystemError, "out of memory for %zu shards of %zu ranks", s, n);
  uint64_t **sets[SETS] = {&server->dead, &server->decided, &server->gets, &server->told, &server->set,
                           &server->receivers, &server->decider.in, &server->decider.busy, &server->decider.behind};
  for (size_t k = 0; k < SETS; k++) *sets[k] = server->sets + k * words;
  for (size_t k = 0; k < s; k++)
    server->shards[k] = (struct shard){.index = (int)k,
                                       .version = server->spec.version,
                                       .kept = server->kept + k * room,
                                       .clocks = server->numbers + k * n,
                                       .waiting = server->sets + (SETS + 4 * k) * words,
                                       .answers = server->sets + (SETS + 4 * k + 1) * words,
                                       .owed = server->sets + (SETS + 4 * k + 2) * words,
                                       .odd = server->sets + (SETS + 4 * k + 3) * words};
  server->decider.held = server->complete + n;
  server->decider.shown = server->numbers + s * n;
  for (int r = 0; r < server->spec.nranks; r++) {
    server->decider.shown[r] = server->spec.version;
    if (server->spec.holders && !has(server->spec.holders, r)) add(server->decider.busy, r);
  }
  server->spec.holders = NULL;
  return tuttiSuccess;
}

tuttiResult_t tt_server_create(struct tt_server **out, const struct tt_server_spec *spec)
{
  tuttiResult_t result = spec_check(spec);
  if (result != tuttiSuccess) return result;
  struct tt_server *server = tt_alloc(1, sizeof *server);
  int32_t *urgency = tt_alloc((size_t)spec->nshards, sizeof *urgency);
  if (!server || !urgency) {
    tt_free(server);
    tt_free(urgency);
    return tt_fail(tuttiSystemError, "out of memory for %d shards", spec->nshards);
  }
  memcpy(urgency, spec->urgency, (size_t)spec->nshards * sizeof *urgency);
  server->spec = *spec;
  server->spec.urgency = urgency;
  server->nwords = (spec->nranks + WORD_BITS - 1) / WORD_BITS;
  server->by_decision =
      spec->kind == TT_SERVER_SYNCHRONOUS && (spec->by_decision || spec->quorum < spec->nranks);
  server->step = server->decider.step = spec->version;
  result = memory_get(server);
  if (result == tuttiSuccess) *out = server;
  else tt_server_destroy(server);
  return result;
}

void tt_server_destroy(struct tt_server *server)
{
  if (!server) return;
  tt_free((void *)(uintptr_t)server->spec.urgency);
  tt_free(server->shards);
  tt_free(server->kept);
  tt_free(server->counted);
  tt_free(server->numbers);
  tt_free(server->sets);
  tt_free(server->complete);
  tt_free(server->decider.by);
  tt_priority_free(&server->due);
  tt_free(server);
}

/* ---- events ---- */

/* The number of contributions that the update takes that is due; 0: none is due. */
static int due_of(const struct tt_server *server, const struct shard *shard)
{
  if (server->by_decision) return shard->is_decided ? shard->nkept : 0;
  return shard->nkept >= server->spec.quorum ? server->spec.quorum : 0;
}

/* Puts a shard into `due` if it has an action. */
static void list(struct tt_server *server, struct shard *shard)
{
  int has_any = due_of(server, shard) || shard->is_new || first_of(shard->answers, server->nwords) >= 0;
  if (shard->is_listed || !has_any) return;
  shard->is_listed = 1;
  tt_priority_push(&server->due, (uint64_t)server->spec.urgency[shard->index], (uint64_t)shard->index, shard);
}

/* ssp: the steps that all live ranks have behind them. */
static uint64_t slowest(const struct tt_server *server, const struct shard *shard)
{
  uint64_t least = UINT64_MAX;
  for (int r = 0; r < server->spec.nranks; r++)
    if (!has(server->dead, r) && shard->clocks[r] < least) least = shard->clocks[r];
  return least;
}

/* Lets ranks have their answers that need not wait any more. */
static void answers_find(struct tt_server *server, struct shard *shard)
{
  int by_steps = server->spec.kind == TT_SERVER_SSP;
  uint64_t least = by_steps ? slowest(server, shard) : 0;
  for (int r = 0; r < server->spec.nranks; r++) {
    if (!has(shard->waiting, r)) continue;
    if (!by_steps || shard->clocks[r] - least <= server->spec.staleness) add(shard->answers, r);
  }
}

/* Adds a contribution: synchronous ones in the order of ranks. */
static void keep(struct tt_server *server, struct shard *shard, const struct tt_counted *counted)
{
  int at = shard->nkept++;
  for (; server->spec.kind == TT_SERVER_SYNCHRONOUS && at && shard->kept[at - 1].rank > counted->rank; at--)
    shard->kept[at] = shard->kept[at - 1];
  shard->kept[at] = *counted;
  (has(shard->odd, counted->rank) ? take : add)(shard->odd, counted->rank);
  if (server->by_decision && ++server->complete[counted->rank] == server->spec.nshards)
    add(server->told, counted->rank);
}

/* The staleness of a contribution, if it is kept: updates that are due count as taken. */
static uint64_t age_of(const struct tt_server *server, const struct shard *shard, uint64_t from)
{
  uint64_t version = shard->version + (uint64_t)(shard->nkept / server->spec.quorum);
  if (server->spec.kind == TT_SERVER_SYNCHRONOUS) return 0;
  return server->spec.kind == TT_SERVER_GOSSIP ? version + 1 - shard->renewed : version - from;
}

static enum tt_server_verdict judge(const struct tt_server *server, const struct tt_contribution *c)
{
  if (c->rank < 0 || c->rank >= server->spec.nranks || c->shard < 0 || c->shard >= server->spec.nshards)
    return TT_WRONG;
  const struct shard *shard = &server->shards[c->shard];
  if (has(server->dead, c->rank)) return TT_GONE;
  if (has(shard->owed, c->rank) && c->step + 1 == shard->clocks[c->rank]) return TT_TAKEN;
  if (c->step < shard->clocks[c->rank]) return TT_REPEATED;
  if (c->from > shard->version) return TT_WRONG;
  if (server->spec.kind == TT_SERVER_SYNCHRONOUS) {
    if (c->from != c->step) return TT_WRONG;
    return c->step < shard->version + (uint64_t)shard->is_decided ? TT_LATE : TT_KEPT;
  }
  if (has(shard->waiting, c->rank)) return TT_WRONG;
  int has_bound = server->spec.kind == TT_SERVER_ASGD || server->spec.kind == TT_SERVER_SOFTSYNC ||
                  (server->spec.kind == TT_SERVER_GOSSIP && server->spec.staleness);
  return has_bound && age_of(server, shard, c->from) > server->spec.staleness ? TT_STALE : TT_KEPT;
}

enum tt_server_verdict tt_server_contribute(struct tt_server *server, const struct tt_contribution *c)
{
  enum tt_server_verdict verdict = judge(server, c);
  if (verdict != TT_KEPT && verdict != TT_STALE && verdict != TT_TAKEN) return verdict;
  struct shard *shard = &server->shards[c->shard];
  take(shard->owed, c->rank);
  uint64_t age = age_of(server, shard, c->from);
  shard->clocks[c->rank] = c->step + 1;
  if (server->spec.kind != TT_SERVER_SYNCHRONOUS) add(shard->waiting, c->rank);
  if (verdict == TT_KEPT) keep(server, shard, &(struct tt_counted){c->rank, c->step, age, c->tag});
  answers_find(server, shard);
  list(server, shard);
  return verdict;
}

void tt_server_died(struct tt_server *server, int rank)
{
  int most = server->spec.kind == TT_SERVER_SYNCHRONOUS ? server->spec.nranks - server->spec.quorum
                                                        : server->spec.nranks - 1;
  if (rank < 0 || rank >= server->spec.nranks || has(server->dead, rank)) return;
  add(server->dead, rank);
  if (++server->ndead > most) server->has_failed = 1;
  for (int s = 0; s < server->spec.nshards; s++) {
    struct shard *shard = &server->shards[s];
    take(shard->waiting, rank);
    take(shard->answers, rank);
    answers_find(server, shard);
    list(server, shard);
  }
}

void tt_server_renew(struct tt_server *server, int shard)
{
  server->shards[shard].renewed = server->shards[shard].version + (uint64_t)server->shards[shard].nkept;
}

int tt_server_neighbour(const struct tt_server *server, int rank, uint64_t step)
{
  uint64_t n = (uint64_t)server->spec.nranks, levels = 1;
  while ((uint64_t)1 << levels < n) levels++;
  uint64_t first = (uint64_t)1 << step % levels;
  for (uint64_t k = first; k < first + n; k++) {
    int other = (int)(((uint64_t)rank + k) % n);
    if (other != rank && !has(server->dead, other)) return other;
  }
  return -1;
}

void tt_server_restore(struct tt_server *server, int shard, uint64_t version)
{
  server->shards[shard].version = version;
}

void tt_server_restore_rank(struct tt_server *server, int shard, int rank, const struct tt_server_progress *progress)
{
  server->shards[shard].clocks[rank] = progress->steps;
  if (progress->is_odd) add(server->shards[shard].odd, rank);
  if (progress->is_owed) add(server->shards[shard].owed, rank);
}

int tt_server_is_odd(const struct tt_server *server, int shard, int rank)
{
  return has(server->shards[shard].odd, rank);
}

uint64_t tt_server_steps(const struct tt_server *server, int rank)
{
  uint64_t least = UINT64_MAX;
  for (int s = 0; s < server->spec.nshards; s++)
    if (server->shards[s].clocks[rank] < least) least = server->shards[s].clocks[rank];
  return least;
}

int tt_server_held(struct tt_server *server, int from, int rank, uint64_t step)
{
  struct decider *decider = &server->decider;
  const struct tt_server_spec *spec = &server->spec;
  if (!server->by_decision || !spec->is_decider || from < 0 || from >= spec->nservers || rank < 0 ||
      rank >= spec->nranks || step > decider->step)
    return 0;
  if (step < decider->step) return 1; /* decided without it */
  uint64_t *by = decider->by + (size_t)rank * (size_t)decider->nwords;
  if (has(by, from)) return 0;
  add(by, from);
  if (++decider->held[rank] != spec->nservers) return 1;
  add(decider->in, rank);
  decider->n++;
  return 1;
}

int tt_server_seen(struct tt_server *server, int rank, uint64_t version)
{
  struct decider *decider = &server->decider;
  if (!server->by_decision || !server->spec.is_decider || rank < 0 || rank >= server->spec.nranks ||
      !has(decider->busy, rank) || version != decider->shown[rank])
    return 0;
  take(decider->busy, rank);
  if (version < decider->step) add(decider->behind, rank);
  return 1;
}

/* 1: the set has ranks alone, and so many at least. */
static int is_set(const struct tt_server_spec *spec, const uint64_t *set, int least)
{
  int n = 0, last = spec->nranks % WORD_BITS, nwords = (spec->nranks + WORD_BITS - 1) / WORD_BITS;
  for (int w = 0; w < nwords; w++) n += __builtin_popcountll(set[w]);
  return n >= least && (!last || !(set[nwords - 1] >> last));
}

/* Its answers go out before another update is decided: for that, ranks contribute that have got this version of all
 * shards, and whatever is due of one version when the last shard has it is answered at once. */
int tt_server_show(struct tt_server *server, int rank, uint64_t version)
{
  if (!server->by_decision || rank < 0 || rank >= server->spec.nranks || version != server->step) return 0;
  for (int s = 0; s < server->spec.nshards && !has(server->dead, rank); s++) {
    add(server->shards[s].answers, rank);
    list(server, &server->shards[s]);
  }
  return 1;
}

int tt_server_decided(struct tt_server *server, uint64_t step, const uint64_t *set, const uint64_t *gets)
{
  if (!server->by_decision || step != server->step || !is_set(&server->spec, set, server->spec.quorum) ||
      !is_set(&server->spec, gets, 0))
    return 0;
  for (int r = 0; r < server->spec.nranks; r++)
    if (has(set, r) && server->complete[r] < server->spec.nshards) return 0;
  server->step++;
  memcpy(server->decided, set, (size_t)server->nwords * sizeof *set);
  memcpy(server->gets, gets, (size_t)server->nwords * sizeof *gets);
  memset(server->complete, 0, (size_t)server->spec.nranks * sizeof *server->complete);
  memset(server->told, 0, (size_t)server->nwords * sizeof *server->told);
  for (int s = 0; s < server->spec.nshards; s++) {
    server->shards[s].is_decided = 1;
    list(server, &server->shards[s]);
  }
  return 1;
}

/* ---- actions ---- */

/* 1: the decider's present step has enough contributions. */
static int can_decide(const struct tt_server *server)
{
  if (!server->spec.is_decider || !server->by_decision || server->has_failed) return 0;
  return server->decider.n >= server->spec.quorum;
}

static void decide(struct tt_server *server, struct tt_server_action *action)
{
  struct decider *decider = &server->decider;
  size_t bytes = (size_t)server->nwords * sizeof *decider->in;
  memcpy(server->set, decider->in, bytes);
  memset(decider->in, 0, bytes);
  memset(decider->held, 0, (size_t)server->spec.nranks * sizeof *decider->held);
  memset(decider->by, 0, (size_t)server->spec.nranks * (size_t)decider->nwords * sizeof *decider->by);
  *action = (struct tt_server_action){
      .act = TT_DECIDE, .step = decider->step++, .set = server->set, .gets = server->receivers};
  decider->n = 0;
  memset(server->receivers, 0, bytes);
  memset(decider->behind, 0, bytes);
  for (int r = 0; r < server->spec.nranks; r++) {
    if (has(decider->busy, r)) continue;
    add(server->receivers, r);
    add(decider->busy, r);
    decider->shown[r] = decider->step;
  }
}

/* A rank has got what it was sent, and there is something newer. */
static int show(struct tt_server *server, struct tt_server_action *action)
{
  struct decider *decider = &server->decider;
  int rank = first_of(decider->behind, server->nwords);
  if (rank < 0) return 0;
  take(decider->behind, rank);
  add(decider->busy, rank);
  decider->shown[rank] = decider->step;
  *action = (struct tt_server_action){.act = TT_SHOW, .rank = rank, .version = decider->step};
  return 1;
}

/* Moves contributions first .. first + n - 1 of a shard into the action. */
static void count(struct tt_server *server, struct shard *shard, int first, int n, struct tt_server_action *action)
{
  memcpy(server->counted, shard->kept + first, (size_t)n * sizeof *shard->kept);
  shard->nkept -= n;
  memmove(shard->kept + first, shard->kept + first + n, (size_t)(shard->nkept - first) * sizeof *shard->kept);
  action->counted = server->counted;
  action->ncounted = n;
}

static int drop(struct tt_server *server, struct shard *shard, struct tt_server_action *action)
{
  for (int k = 0; shard->is_decided && k < shard->nkept; k++) {
    if (has(server->decided, shard->kept[k].rank)) continue;
    action->act = TT_DROP;
    count(server, shard, k, 1, action);
    return 1;
  }
  return 0;
}

static int update(struct tt_server *server, struct shard *shard, struct tt_server_action *action)
{
  int n = due_of(server, shard);
  if (!n) return 0;
  count(server, shard, 0, n, action);
  action->act = TT_UPDATE;
  action->version = ++shard->version;
  shard->is_decided = 0;
  shard->is_new = server->spec.kind == TT_SERVER_SYNCHRONOUS;
  return 1;
}

static int answer(struct tt_server *server, struct shard *shard, struct tt_server_action *action)
{
  int rank = shard->is_new ? -1 : first_of(shard->answers, server->nwords);
  if (!shard->is_new && rank < 0) return 0;
  shard->is_new = 0;
  if (rank >= 0) {
    take(shard->waiting, rank);
    take(shard->answers, rank);
  }
  action->act = TT_ANSWER;
  action->rank = rank;
  if (server->by_decision) action->gets = server->gets;
  return 1;
}

/* Takes an action that is not a shard's. */
static int common(struct tt_server *server, struct tt_server_action *action)
{
  int rank = first_of(server->told, server->nwords);
  if (server->has_failed == 1) {
    *action = (struct tt_server_action){.act = TT_FAIL, .set = server->dead};
    server->has_failed = 2;
  } else if (can_decide(server)) decide(server, action);
  else if (show(server, action)) return 1;
  else if (rank >= 0) {
    take(server->told, rank);
    *action = (struct tt_server_action){.act = TT_HELD, .rank = rank, .step = server->step};
  } else return 0;
  return 1;
}

int tt_server_next(struct tt_server *server, struct tt_server_action *action)
{
  struct shard *shard;
  if (server->has_failed == 2 && !server->by_decision) return 0;
  if (common(server, action)) return 1;
  while ((shard = tt_priority_first(&server->due))) {
    *action = (struct tt_server_action){.shard = shard->index, .version = shard->version};
    if (drop(server, shard, action) || update(server, shard, action) || answer(server, shard, action)) return 1;
    tt_priority_pop(&server->due);
    shard->is_listed = 0;
  }
  return 0;
}
