/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/takeover.h"

#include <string.h>

#define WORD_BITS 64

/* A rank's last report. */
struct said {
  int is_there;
  uint64_t version, least;
  uint64_t *dead, *serves;
};

struct tt_takeover {
  int nranks, rank, most, nwords;
  struct said *said;      /* by rank */
  uint64_t *sets;         /* memory of sets */
  uint64_t *dead, *begun; /* the dead; those when the present epoch began, and */
  uint64_t *holders;      /* those of its version */
  uint64_t *serves;       /* shares that this rank serves in it */
  uint64_t *chosen;       /* the holders of an order */
  int32_t *owners, *next; /* who serves a share: in the present epoch; by an order */
  uint64_t version;       /* of the order */
  int ndead, epoch;
  int is_stopped;
  int reports, begins;    /* 1: that is the next action */
  int orders_to;          /* the next rank that is told the order; nranks: none */
  int has_failed, is_lost; /* has_failed: 1: it is to be said; 2: it was */
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

static int is_same(const struct tt_takeover *takeover, const uint64_t *a, const uint64_t *b)
{
  return memcmp(a, b, (size_t)takeover->nwords * sizeof *a) == 0;
}

static int is_of_ranks(const struct tt_takeover *takeover, const uint64_t *set)
{
  int last = takeover->nranks % WORD_BITS;
  return !last || !(set[takeover->nwords - 1] >> last);
}

static int count(const struct tt_takeover *takeover, const uint64_t *set)
{
  int n = 0;
  for (int w = 0; w < takeover->nwords; w++) n += __builtin_popcountll(set[w]);
  return n;
}

/* The first rank that is not in the set; nranks: all are. */
static int first_without(const struct tt_takeover *takeover, const uint64_t *set)
{
  int rank = 0;
  while (rank < takeover->nranks && has(set, rank)) rank++;
  return rank;
}

static void copy(const struct tt_takeover *takeover, uint64_t *to, const uint64_t *from)
{
  memcpy(to, from, (size_t)takeover->nwords * sizeof *to);
}

/* ---- create, destroy ---- */

tuttiResult_t tt_takeover_create(struct tt_takeover **out, int nranks, int rank, int most)
{
  if (nranks < 1 || rank < 0 || rank >= nranks || most < 0 || most >= nranks)
    return tt_fail(tuttiInvalidArgument, "rank %d of %d, and %d may die: give one rank at least that lives", rank,
                   nranks, most);
  struct tt_takeover *takeover = tt_alloc(1, sizeof *takeover);
  size_t n = (size_t)nranks, nwords = (n + WORD_BITS - 1) / WORD_BITS;
  if (takeover) {
    takeover->said = tt_alloc(n, sizeof *takeover->said);
    takeover->sets = tt_alloc((2 * n + 5) * nwords, sizeof *takeover->sets);
    takeover->owners = tt_alloc(2 * n, sizeof *takeover->owners);
  }
  if (!takeover || !takeover->said || !takeover->sets || !takeover->owners) {
    tt_takeover_destroy(takeover);
    return tt_fail(tuttiSystemError, "out of memory for what %d ranks report", nranks);
  }
  takeover->nranks = takeover->orders_to = nranks;
  takeover->rank = rank;
  takeover->most = most;
  takeover->nwords = (int)nwords;
  uint64_t **sets[] = {&takeover->dead, &takeover->begun, &takeover->holders, &takeover->serves, &takeover->chosen};
  for (size_t k = 0; k < 5; k++) *sets[k] = takeover->sets + k * nwords;
  takeover->next = takeover->owners + n;
  for (size_t r = 0; r < n; r++) {
    takeover->said[r].dead = takeover->sets + (5 + 2 * r) * nwords;
    takeover->said[r].serves = takeover->said[r].dead + nwords;
    takeover->owners[r] = (int32_t)r;
  }
  add(takeover->serves, rank);
  *out = takeover;
  return tuttiSuccess;
}

void tt_takeover_destroy(struct tt_takeover *takeover)
{
  if (!takeover) return;
  tt_free(takeover->said);
  tt_free(takeover->sets);
  tt_free(takeover->owners);
  tt_free(takeover);
}

/* ---- events ---- */

void tt_takeover_died(struct tt_takeover *takeover, int rank)
{
  if (rank < 0 || rank >= takeover->nranks || rank == takeover->rank || has(takeover->dead, rank)) return;
  add(takeover->dead, rank);
  takeover->reports = takeover->is_stopped = 1;
  if (++takeover->ndead > takeover->most && !takeover->has_failed) takeover->has_failed = 1;
}

/* The live rank that serves a share already, or else the next one that holds the version. */
static int owner_of(const struct tt_takeover *takeover, int share)
{
  int rank = share;
  for (int r = 0; r < takeover->nranks; r++)
    if (!has(takeover->dead, r) && has(takeover->said[r].serves, share)) return r;
  do rank = (rank + 1) % takeover->nranks;
  while (!has(takeover->chosen, rank) && rank != share);
  return rank;
}

/* All live ranks have reported these deaths: finds what they hold, and who serves what. */
static void order_make(struct tt_takeover *takeover)
{
  uint64_t least = 0;
  takeover->version = 0;
  for (int r = 0; r < takeover->nranks; r++) {
    const struct said *said = &takeover->said[r];
    if (has(takeover->dead, r)) continue;
    if (!said->is_there || !is_same(takeover, said->dead, takeover->dead)) return;
    if (said->version > takeover->version) takeover->version = said->version;
    if (said->least > least) least = said->least;
  }
  memset(takeover->chosen, 0, (size_t)takeover->nwords * sizeof *takeover->chosen);
  for (int r = 0; r < takeover->nranks && least <= takeover->version; r++)
    if (!has(takeover->dead, r) && takeover->said[r].version == takeover->version) add(takeover->chosen, r);
  for (int share = 0; share < takeover->nranks; share++) takeover->next[share] = owner_of(takeover, share);
  takeover->orders_to = first_without(takeover, takeover->dead);
}

int tt_takeover_reported(struct tt_takeover *takeover, int from, const struct tt_takeover_report *report)
{
  if (from < 0 || from >= takeover->nranks || !is_of_ranks(takeover, report->dead) ||
      !is_of_ranks(takeover, report->serves) || has(report->dead, from))
    return 0;
  struct said *said = &takeover->said[from];
  said->is_there = 1;
  said->version = report->version;
  said->least = report->least;
  copy(takeover, said->dead, report->dead);
  copy(takeover, said->serves, report->serves);
  int coordinates = first_without(takeover, takeover->dead) == takeover->rank;
  if (takeover->is_stopped && coordinates && !takeover->reports) order_make(takeover);
  return 1;
}

/* 1: each share has a server, which is not dead; that of a live rank is its own. Without a holder none is of use. */
static int are_owners(const struct tt_takeover *takeover, const struct tt_takeover_order *order)
{
  for (int share = 0; share < takeover->nranks && count(takeover, order->holders); share++) {
    int owner = order->owners[share];
    if (owner < 0 || owner >= takeover->nranks || has(order->dead, owner)) return 0;
    if (!has(order->dead, share) && owner != share) return 0;
  }
  return 1;
}

int tt_takeover_ordered(struct tt_takeover *takeover, int from, const struct tt_takeover_order *order)
{
  if (from < 0 || from >= takeover->nranks || !is_of_ranks(takeover, order->dead) ||
      !is_of_ranks(takeover, order->holders) || first_without(takeover, order->dead) != from ||
      !are_owners(takeover, order))
    return 0;
  for (int w = 0; w < takeover->nwords; w++)
    if (order->dead[w] & order->holders[w]) return 0;
  if (!takeover->is_stopped || !is_same(takeover, order->dead, takeover->dead)) return 1; /* one more has died since */
  memmove(takeover->chosen, order->holders, (size_t)takeover->nwords * sizeof *order->holders);
  memmove(takeover->next, order->owners, (size_t)takeover->nranks * sizeof *order->owners);
  takeover->version = order->version;
  takeover->is_lost = !count(takeover, takeover->chosen);
  if (takeover->is_lost && !takeover->has_failed) takeover->has_failed = 1;
  takeover->begins = 1;
  return 1;
}

/* ---- state ---- */

int tt_takeover_epoch(const struct tt_takeover *takeover)
{
  return takeover->epoch;
}

int tt_takeover_is_stopped(const struct tt_takeover *takeover)
{
  return takeover->is_stopped;
}

int tt_takeover_owner(const struct tt_takeover *takeover, int share)
{
  return takeover->owners[share];
}

/* ---- actions ---- */

static int begin(struct tt_takeover *takeover, struct tt_takeover_action *action)
{
  copy(takeover, takeover->begun, takeover->dead);
  copy(takeover, takeover->holders, takeover->chosen);
  memset(takeover->serves, 0, (size_t)takeover->nwords * sizeof *takeover->serves);
  for (int share = 0; share < takeover->nranks; share++) {
    takeover->owners[share] = takeover->next[share];
    if (takeover->owners[share] == takeover->rank) add(takeover->serves, share);
  }
  takeover->epoch = takeover->ndead;
  takeover->begins = takeover->is_stopped = 0;
  action->act = TT_BEGIN;
  action->order = (struct tt_takeover_order){takeover->begun, takeover->holders, takeover->owners, takeover->version};
  return 1;
}

int tt_takeover_next(struct tt_takeover *takeover, struct tt_takeover_action *action)
{
  *action = (struct tt_takeover_action){.order = {.dead = takeover->dead}};
  if (takeover->has_failed) {
    action->act = TT_DOOMED;
    action->is_lost = takeover->ndead <= takeover->most;
    return takeover->has_failed++ == 1;
  }
  if (takeover->reports) {
    takeover->reports = 0;
    action->act = TT_REPORT;
    action->serves = takeover->serves;
    action->to = first_without(takeover, takeover->dead);
    return 1;
  }
  while (takeover->orders_to < takeover->nranks && has(takeover->dead, takeover->orders_to)) takeover->orders_to++;
  if (takeover->orders_to < takeover->nranks) {
    action->act = TT_ORDER;
    action->to = takeover->orders_to++;
    action->order = (struct tt_takeover_order){takeover->dead, takeover->chosen, takeover->next, takeover->version};
    return 1;
  }
  return takeover->begins && begin(takeover, action);
}
