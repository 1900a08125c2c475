/* SPDX-License-Identifier: BSD-3-Clause */
/* Mismatches drawn by chance: one rank of 2 to 5 makes another call than the others, after some that are alike. Every
 * rank has tuttiInvalidUsage, from that call or from one of the next, by a sentence that names that rank. --long
 * [NUMBER [SEED [--totals FILE]]]: so many mismatches (10,000) instead of 48.
 * Labels: processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "campaign.h"
#include "chance.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { RANKS_MOST = 5, COUNT_MOST = 20000, CALLS_MOST = 100 };
enum collective { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, COLLECTIVES };

struct call {
  enum collective collective;
  size_t count;
  int type, op, root; /* op and root are 0 where the collective has none */
};

struct world {
  struct meeting *meeting;
  uint64_t seed; /* of its first mismatch; that of the next one is 1 more */
  int n;
};

static int number = 48;
static uint64_t first_seed = 1;
static const char *totals; /* a file (campaign.h) */

static struct call call_draw(uint64_t *chance, int nranks)
{
  static const size_t counts[] = {1, 2, 10, 1000, COUNT_MOST};
  static const int types[] = {tuttiInt8, tuttiInt32, tuttiInt64, tuttiFloat32};
  struct call call = {.collective = (enum collective)below(chance, COLLECTIVES)};
  call.count = counts[below(chance, 5)];
  call.type = types[below(chance, 4)];
  size_t op = below(chance, 4), root = below(chance, (size_t)nranks);
  if (call.collective != BROADCAST && call.collective != ALL_GATHER) call.op = (int)op;
  if (call.collective == REDUCE || call.collective == BROADCAST) call.root = (int)root;
  return call;
}

static int calls_are_alike(const struct call *a, const struct call *b)
{
  return a->collective == b->collective && a->count == b->count && a->type == b->type && a->op == b->op &&
         a->root == b->root;
}

static tuttiResult_t call_make(const struct call *call, char *in, char *out, tuttiComm_t comm)
{
  tuttiDataType_t type = (tuttiDataType_t)call->type;
  tuttiRedOp_t op = (tuttiRedOp_t)call->op;
  switch (call->collective) {
  case REDUCE: return tuttiReduce(in, out, call->count, type, op, call->root, comm, NULL);
  case BROADCAST: return tuttiBroadcast(in, out, call->count, type, call->root, comm, NULL);
  case ALL_GATHER: return tuttiAllGather(in, out, call->count, type, comm, NULL);
  case REDUCE_SCATTER: return tuttiReduceScatter(in, out, call->count, type, op, comm, NULL);
  default: return tuttiAllReduce(in, out, call->count, type, op, comm, NULL);
  }
}

/* Makes one communicator, and in it one mismatch. */
static int mismatch(const struct ranks *self, const struct world *world, uint64_t seed, char *in, char *out)
{
  static const struct call small = {.collective = ALL_REDUCE, .count = 1, .type = tuttiInt32};
  uint64_t chance = seed;
  struct call usual, other, before = call_draw(&chance, self->nranks);
  int odd = (int)below(&chance, (size_t)self->nranks), nbefore = (int)below(&chance, 4);
  char name[16];
  do {
    usual = call_draw(&chance, self->nranks);
    other = call_draw(&chance, self->nranks);
  } while (calls_are_alike(&usual, &other));
  tuttiUniqueId id;
  tuttiComm_t comm;
  RANKS_CHECK(meeting_id(world->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, id, self->rank) == tuttiSuccess);
  tuttiResult_t result = tuttiSuccess; /* of one before, too: a rank may still be inside when the others know */
  for (int k = 0; k < nbefore && result == tuttiSuccess; k++) result = call_make(&before, in, out, comm);
  if (result == tuttiSuccess) result = call_make(self->rank == odd ? &other : &usual, in, out, comm);
  for (int k = 0; k < CALLS_MOST && result == tuttiSuccess; k++) result = call_make(&small, in, out, comm);
  snprintf(name, sizeof name, "rank %d ", odd);
  RANKS_CHECK(result == tuttiInvalidUsage);
  RANKS_CHECK(comm_says(comm, "calls differ between ranks: ") && comm_says(comm, name));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  return 0;
}

static int body(const struct ranks *self)
{
  const struct world *world = self->argument;
  char *in = calloc(COUNT_MOST * RANKS_MOST, 8), *out = calloc(COUNT_MOST * RANKS_MOST, 8);
  int bad = !in || !out;
  for (int k = 0; k < world->n && !bad; k++) {
    bad = mismatch(self, world, world->seed + (uint64_t)k, in, out);
    if (bad) fprintf(stderr, "seed %llu, %d ranks\n", (unsigned long long)world->seed + (unsigned)k, self->nranks);
  }
  free(in);
  free(out);
  return bad;
}

static void a_rank_that_calls_differently_is_named_on_all_ranks(void **state)
{
  (void)state;
  int kinds = 2 * (RANKS_MOST - 1);
  struct campaign campaign = {.name = "mismatches", .first = first_seed, .done = number / kinds * kinds,
                              .began_ms = meeting_now_ms(), .totals = totals};
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int kind = 0; kind < kinds; kind++) {
    int nranks = 2 + kind / 2;
    struct world world = {meeting_make(nranks), first_seed + (uint64_t)(kind * number / kinds), number / kinds};
    assert_non_null(world.meeting);
    const char *transport = ranks_transports(kind % 2);
    setenv("TUTTI_TRANSPORTS", transport ? transport : ranks_transports(0), 1);
    assert_int_equal(ranks_run_processes(nranks, body, &world, 60 + number / 4), 0);
    meeting_free(world.meeting);
  }
  campaign_total(&campaign, "named=%ld", campaign.done);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_that_calls_differently_is_named_on_all_ranks)};
  if (argc > 1 && strcmp(argv[1], "--long") == 0) {
    number = argc > 2 ? atoi(argv[2]) : 10000;
    first_seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    printf("%d mismatches from seed %llu on\n", number, (unsigned long long)first_seed);
  }
  if (argc > 5 && strcmp(argv[4], "--totals") == 0) totals = argv[5];
  return cmocka_run_group_tests_name("fault.mismatches", tests, NULL, NULL);
}
