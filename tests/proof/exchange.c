/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of an all-to-all with counts, for random matrices of 1 to 130 ranks: those of each pair and direction
 * are the same at both ends, in the order in which a link carries them, and together they take each share from its
 * place and put it into its place. Nothing waits for anything else, so no order of the ranks can stop them.
 *
 *   test_proof_exchange [--seed N]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "chance.h"
#include "exec/exec.h"

enum { RANKS = 130, CALLS = 3, ELEMENT = 8 };

static uint64_t seed = 7;

/* One call: matrix[from][to], and where each rank has the shares that it sends and receives. */
struct world {
  int nranks;
  size_t matrix[RANKS][RANKS], in[RANKS][RANKS], out[RANKS][RANKS]; /* in[rank][to], out[rank][from] */
};

static void world_draw(struct world *world, int nranks, uint64_t *chance)
{
  size_t kind = below(chance, 4), one = below(chance, (size_t)nranks);
  world->nranks = nranks;
  for (int a = 0; a < nranks; a++)
    for (int b = 0; b < nranks; b++) {
      size_t any = below(chance, 1000000);
      int is_there = kind == 0 ? 0 : kind == 1 ? a == (int)one : below(chance, 2) == 0;
      world->matrix[a][b] = is_there ? any : 0;
      world->in[a][b] = below(chance, 1u << 30);
      world->out[a][b] = below(chance, 1u << 30);
    }
}

static struct tt_transfer *transfers_of(const struct world *world, int rank)
{
  static size_t ins[RANKS], outs[RANKS];
  struct tt_transfer *transfers = tt_alloc(2 * (size_t)world->nranks, sizeof *transfers);
  assert_non_null(transfers);
  for (int peer = 0; peer < world->nranks; peer++) {
    ins[peer] = world->matrix[rank][peer];
    outs[peer] = world->matrix[peer][rank];
  }
  const struct tt_exchange exchange = {.in = (const void *)(uintptr_t)(1u << 20),
                                       .out = (void *)(uintptr_t)(1u << 24),
                                       .ins = {ins, world->in[rank]},
                                       .outs = {outs, world->out[rank]},
                                       .element = ELEMENT};
  tt_exchange_write(transfers, &exchange, world->nranks, rank);
  return transfers;
}

/* Each of the rank's messages is that of one share, and each share has one. Notes the bytes by pair and direction. */
static void rank_check(const struct world *world, int rank, size_t sent[RANKS][RANKS], size_t received[RANKS][RANKS])
{
  struct tt_transfer *transfers = transfers_of(world, rank);
  static int seen[2][RANKS];
  memset(seen, 0, sizeof seen);
  for (int k = 0; k < 2 * world->nranks; k++) {
    const struct tt_transfer *transfer = &transfers[k];
    assert_true(transfer->peer >= 0 && transfer->peer < world->nranks && !seen[transfer->sends][transfer->peer]++);
    size_t count = transfer->sends ? world->matrix[rank][transfer->peer] : world->matrix[transfer->peer][rank];
    size_t start = transfer->sends ? world->in[rank][transfer->peer] : world->out[rank][transfer->peer];
    uintptr_t base = transfer->sends ? 1u << 20 : 1u << 24;
    assert_int_equal(transfer->bytes, count * ELEMENT);
    assert_int_equal((uintptr_t)transfer->data, count ? base + start * ELEMENT : 0);
    assert_int_equal(transfer->form, TT_FORM_COUNTS);
    if (transfer->sends) sent[rank][transfer->peer] = transfer->bytes;
    else received[transfer->peer][rank] = transfer->bytes;
  }
  tt_free(transfers);
}

/* Several calls in a row, as in one group: a link carries their messages in the order of the calls. */
static void both_ends_of_every_message_agree(void **state)
{
  static struct world world;
  static size_t sent[RANKS][RANKS], received[RANKS][RANKS];
  uint64_t chance = seed;
  (void)state;
  for (int nranks = 1; nranks <= RANKS; nranks += nranks < 20 ? 1 : 11)
    for (int call = 0; call < CALLS; call++) {
      world_draw(&world, nranks, &chance);
      for (int rank = 0; rank < nranks; rank++) rank_check(&world, rank, sent, received);
      for (int a = 0; a < nranks; a++)
        for (int b = 0; b < nranks; b++) assert_int_equal(sent[a][b], received[a][b]);
    }
}

/* In round d all ranks send to different ones. */
static void no_two_ranks_send_to_one_at_a_time(void **state)
{
  static struct world world;
  uint64_t chance = seed;
  (void)state;
  for (int nranks = 1; nranks <= RANKS; nranks += 43) {
    struct tt_transfer *transfers[RANKS];
    world_draw(&world, nranks, &chance);
    for (int rank = 0; rank < nranks; rank++) transfers[rank] = transfers_of(&world, rank);
    for (int k = 0; k < 2 * nranks; k++) {
      int times[RANKS] = {0};
      for (int rank = 0; rank < nranks; rank++) assert_int_equal(times[transfers[rank][k].peer]++, 0);
    }
    for (int rank = 0; rank < nranks; rank++) tt_free(transfers[rank]);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_ends_of_every_message_agree),
      cmocka_unit_test(no_two_ranks_send_to_one_at_a_time),
  };
  if (argc > 2 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
