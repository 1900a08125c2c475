/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that writes nonsense to its own outbox: it is refused and named, and nothing outside of the
 * outbox is ever touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/shm_private.h"
#include "transport_pair.h"

#define WORD 0x500000001u
#define WANTED 100000u /* bytes of the message that the victim expects */

static const struct tt_head head = {.word = WORD, .len = WANTED, .call = NULL};

struct nonsense {
  uint64_t word;
  uint32_t len, place;
  ssize_t answer;
  uint64_t offset; /* the first bytes of the line */
};

/* What the writer of `l` would do for a line of that shape; at the ring's place `sequence`. */
static void forge(struct tt_shm_link *l, uint64_t sequence, uint64_t word, uint64_t shape)
{
  struct tt_shm_line *line = &l->ring[(sequence - 1) % TT_SHM_DEPTH];
  atomic_store(&line->word, word);
  atomic_store(&line->shape, shape);
  atomic_store_explicit(&line->sequence, sequence, memory_order_release);
}

static void line_body(struct world_rank *me)
{
  const struct nonsense *nonsense = me->world->argument;
  struct tt_link *link = world_open(me, !me->rank, 0);
  WORLD_CHECK(me, link);
  if (me->rank == 1) memcpy(((struct tt_shm_link *)link)->ring[0].bytes, &nonsense->offset, sizeof nonsense->offset);
  if (me->rank == 1)
    forge((struct tt_shm_link *)link, 1, nonsense->word, nonsense->len | (uint64_t)nonsense->place << 32);
  world_barrier(me);
  if (me->rank == 0) {
    const void *data;
    WORLD_CHECK(me, !nonsense->len || !link->ops->look(link, WORD, nonsense->len)); /* none is a whole message */
    link->ops->recv_begin(link, &head);
    ssize_t answer = link->ops->peek(link, &data, 8);
    if (answer != nonsense->answer)
      world_complain(me, "length %u place %#x: %zd instead of %zd", nonsense->len, nonsense->place, answer,
                     nonsense->answer);
    WORLD_CHECK(me, answer != TT_LINK_BROKEN || strstr(link->why, "rank 1"));
    WORLD_CHECK(me, answer != TT_LINK_MISMATCH || link->seen_word == nonsense->word);
    WORLD_CHECK(me, link->ops->peek(link, &data, 8) == answer);
    if (answer == TT_LINK_BROKEN) {
      link->ops->send_begin(link, &head);
      WORLD_CHECK(me, link->ops->send(link, &head, 16) == TT_LINK_BROKEN);
      WORLD_CHECK(me, link->ops->recv(link, &(char){0}, 1) == TT_LINK_BROKEN);
      WORLD_CHECK(me, !link->ops->put(link, &head, &head) && !link->ops->look(link, WORD, nonsense->len));
    }
  }
  world_barrier(me);
}

static void run(world_body body, const void *argument)
{
  struct world world = {.ops = &tt_transport_shm, .nranks = 2, .lanes = 1, .body = body};
  world.slots = 8;
  world.slot_bytes = 4096;
  world.direct_bytes = 16384;
  world.argument = argument;
  for (world.is_forked = 0; world.is_forked < 2; world.is_forked++) {
    const char *complaint = world_run(&world);
    if (complaint) fail_msg("%s", complaint);
  }
}

static void impossible_lines_break_the_link(void **state)
{
  (void)state;
  static const struct nonsense all[] = {
      {WORD, 16, 9, TT_LINK_BROKEN, 0},                      /* slot 8 of 8 */
      {WORD, 16, 0x7fffffff, TT_LINK_BROKEN, 0},
      {WORD, 16, TT_SHM_LAST | 0x7fffffff, TT_LINK_BROKEN, 0},
      {WORD, 0, 1, TT_LINK_BROKEN, 0},
      {WORD, 0, TT_SHM_LAST, TT_LINK_BROKEN, 0},
      {WORD, 48, 0, TT_LINK_BROKEN, 0},                      /* inline, but longer than a line */
      {WORD, 48, TT_SHM_LAST, TT_LINK_BROKEN, 0},
      {WORD, 4112, 8, TT_LINK_BROKEN, 0},                    /* longer than the last slot: beyond the outbox */
      {WORD, 8208, 7, TT_LINK_BROKEN, 0},                    /* longer than the last two */
      {WORD, 32784, 1, TT_LINK_BROKEN, 0},                   /* longer than all */
      {WORD, 4112, TT_SHM_LAST | 8, TT_LINK_BROKEN, 0},
      {WORD, 16, TT_SHM_LAST | 9, TT_LINK_BROKEN, 0},
      {WORD, 0xfffffff0u, 1, TT_LINK_BROKEN, 0},
      {WORD, 40, 0, TT_LINK_BROKEN, 0},                      /* would cut an element */
      {WORD, 4095, 1, TT_LINK_BROKEN, 0},
      {WORD + 1, 16, 1, TT_LINK_MISMATCH, 0},
      {WORD + 4, 16, TT_SHM_LAST | 1, TT_LINK_MISMATCH, 0},  /* ends too early, and is of another call */
      {WORD, 4096, 8, 4096, 0},                              /* right, the last slot */
      {WORD, 8192, 7, 8192, 0},                              /* right, the last two */
      {WORD, 32768, 1, 32768, 0},                            /* right, all */
      {WORD, 32, 0, 32, 0},
      {WORD, 4096, TT_SHM_HEAP, TT_LINK_BROKEN, UINT64_MAX},
      {WORD, 4096, TT_SHM_HEAP, TT_LINK_BROKEN, UINT64_MAX - 4095},
      {WORD, 4096, TT_SHM_HEAP, TT_LINK_BROKEN, (uint64_t)1 << 62},
      {WORD, 0, TT_SHM_HEAP, TT_LINK_BROKEN, 0},
      {WORD, 40, TT_SHM_HEAP, TT_LINK_BROKEN, 0},
      {WORD, 4096, TT_SHM_HEAP | 1, TT_LINK_BROKEN, 0},
      {WORD, 4096, TT_SHM_HEAP, 4096, 0}, /* right: a place in the heap, though nothing was allocated there */
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) run(line_body, &all[i]);
}

/* Of the line that comes next. */
static uint64_t shape_there(const struct tt_shm_link *l)
{
  return atomic_load(&l->lines[(l->next - 1) % TT_SHM_DEPTH].shape);
}

/* Rank 0 reads whatever rank 1 forges, and touches all that it is shown. */
static void fuzz_body(struct world_rank *me)
{
  struct tt_shm_link *l = (struct tt_shm_link *)world_open(me, !me->rank, 0);
  WORLD_CHECK(me, l);
  struct tt_link *link = &l->link;
  unsigned char seen[8 * 4096];
  for (uint64_t i = 1; i <= 3000 && !world_is_over(me); i++) {
    uint64_t shape = world_random(me, UINT64_MAX);
    if (i % 2) shape = world_random(me, 9 * 4096) | (world_random(me, 12) | world_random(me, 2) << 31) << 32;
    if (me->rank == 1) {
      forge(l, i, WORD, shape);
      while (atomic_load(&l->acknowledged->consumed) < i && !world_is_over(me)) sched_yield();
      continue;
    }
    const void *data;
    ssize_t n;
    link->ops = &tt_shm_link_ops;
    link->ops->recv_begin(link, &head);
    while ((n = link->ops->peek(link, &data, 1)) == 0 && !world_is_over(me)) sched_yield();
    WORLD_CHECK(me, n <= (ssize_t)sizeof seen || shape_there(l) >> 32 & TT_SHM_HEAP);
    if (n > 0) memcpy(seen, data, n < (ssize_t)sizeof seen ? (size_t)n : sizeof seen);
    link->ops = &tt_shm_link_ops;
    uint32_t len = (uint32_t)shape_there(l);
    data = len ? link->ops->look(link, WORD, len) : NULL;
    WORLD_CHECK(me, !data || len <= sizeof seen);
    if (data) memcpy(seen, data, len);
    l->shown = 0;
    l->next = i + 1;
    atomic_store_explicit(&l->ack->consumed, i, memory_order_release);
  }
  world_barrier(me);
}

static void random_lines_never_reach_outside(void **state)
{
  (void)state;
  run(fuzz_body, NULL);
}

/* What rank 1 acknowledges; rank 0 sends piece by piece, or whole messages until that is refused. */
struct ack {
  uint64_t consumed;
  int puts;
};

static void ack_body(struct world_rank *me)
{
  struct tt_shm_link *l = (struct tt_shm_link *)world_open(me, !me->rank, 0);
  const struct ack *forged = me->world->argument;
  WORLD_CHECK(me, l);
  if (me->rank == 1) atomic_store_explicit(&l->ack->consumed, forged->consumed, memory_order_release);
  world_barrier(me);
  if (me->rank == 0) {
    ssize_t n = 1;
    struct tt_link *link = &l->link;
    static const char data[8];
    struct tt_head small = {.word = WORD, .len = 8, .call = NULL};
    int put = 0;
    while (forged->puts && put < 40 && link->ops->put(link, &small, data)) put++;
    WORLD_CHECK(me, put == (forged->puts ? TT_SHM_DEPTH : 0));
    for (int i = 0; i < 40 && n > 0; i++) {
      link->ops->send_begin(link, &small);
      n = link->ops->send(link, data, 8);
    }
    WORLD_CHECK(me, n == TT_LINK_BROKEN && strstr(link->why, "rank 1") && strstr(link->why, "acknowledgement"));
  }
  world_barrier(me);
}

static void impossible_acknowledgements_break_the_link(void **state)
{
  (void)state;
  static const uint64_t forged[] = {17, 1000, UINT64_MAX, 1ull << 63};
  for (size_t i = 0; i < 2 * sizeof forged / sizeof forged[0]; i++)
    run(ack_body, &(struct ack){forged[i / 2], (int)(i % 2)});
}

/* Rank 1 never reads what rank 0 sends; of eight slots one is left for the first message to rank 2. */
static void greedy_body(struct world_rank *me)
{
  static const char data[20000];
  struct tt_link *deaf = world_open(me, me->rank == 0 ? 1 : 0, 0), *other = world_open(me, me->rank == 2 ? 1 : 2, 0);
  WORLD_CHECK(me, deaf && other);
  if (me->rank == 0) {
    struct tt_head endless = {.word = WORD, .len = 1 << 30, .call = NULL};
    deaf->ops->send_begin(deaf, &endless);
    for (int i = 0; i < 100; i++) WORLD_CHECK(me, deaf->ops->send(deaf, data, sizeof data) >= 0);
    other->ops->send_begin(other, &head);
    WORLD_CHECK(me, other->ops->send(other, data, 4096) == 4096);
    WORLD_CHECK(me, (uint32_t)atomic_load(&((struct tt_shm_link *)other)->ring[0].shape) == 4096);
  }
  world_barrier(me);
}

static void a_deaf_reader_leaves_slots_to_others(void **state)
{
  (void)state;
  struct world world = {
      .ops = &tt_transport_shm, .nranks = 3, .lanes = 1, .slots = 8, .slot_bytes = 4096, .body = greedy_body};
  const char *complaint = world_run(&world);
  if (complaint) fail_msg("%s", complaint);
}

/* Rank 0 fills slots for two readers by turns, who free them one after the other: 2, then 1. */
static void mixed_body(struct world_rank *me)
{
  static const char data[8192];
  struct tt_head head_of_one = {.word = WORD, .len = 4096}, head_of_two = {.word = WORD, .len = 8192};
  struct tt_shm_link *links[3] = {0};
  for (int peer = 0; peer < 3; peer++)
    if (peer != me->rank) links[peer] = (struct tt_shm_link *)world_open(me, peer, 0);
  for (int i = 0; me->rank == 0 && i < 6; i++) {
    struct tt_link *link = &links[1 + i % 2]->link;
    link->ops->send_begin(link, &head_of_one);
    WORLD_CHECK(me, link->ops->send(link, data, 4096) == 4096);
  }
  world_barrier(me);
  for (int i = 0; me->rank > 0 && i < 3; i++) links[0]->link.ops->take(&links[0]->link);
  for (int round = 0; round < 5; round++) {
    world_barrier(me);
    for (int peer = 2; me->rank == 0 && peer > 0; peer--) {
      struct tt_link *link = &links[peer]->link;
      link->ops->send_begin(link, &head_of_two);
      WORLD_CHECK(me, link->ops->send(link, data, 8192) == 8192);
      uint32_t len = (uint32_t)atomic_load(&links[peer]->ring[3 + round].shape);
      if (len != 8192) world_complain(me, "round %d, to rank %d: a fragment of %u bytes", round, peer, len);
    }
    world_barrier(me);
    if (me->rank > 0) links[0]->link.ops->take(&links[0]->link);
  }
  world_barrier(me);
}

static void slots_that_lie_together_are_one_fragment_again(void **state)
{
  (void)state;
  struct world world = {
      .ops = &tt_transport_shm, .nranks = 3, .lanes = 1, .slots = 8, .slot_bytes = 4096, .body = mixed_body};
  const char *complaint = world_run(&world);
  if (complaint) fail_msg("%s", complaint);
}

/* Rank 1 lends memory and gives up while rank 0 reads it: what was consumed before is right, the rest is an error. */
static void give_up_body(struct world_rank *me)
{
  struct tt_link *link = world_open(me, !me->rank, 0);
  uint8_t *data = NULL, got[WANTED];
  const void *shown;
  WORLD_CHECK(me, link && tt_heap_alloc((void **)&data, WANTED) == tuttiSuccess);
  if (me->rank == 1) {
    memset(data, 7, WANTED);
    link->ops->send_begin(link, &head);
    WORLD_CHECK(me, link->ops->send(link, data, WANTED) == 0);
  }
  world_barrier(me);
  int peeks = *(const int *)me->world->argument;
  if (me->rank == 0) {
    link->ops->recv_begin(link, &head);
    if (peeks) WORLD_CHECK(me, link->ops->peek(link, &shown, 8) == WANTED && link->ops->consume(link, 4096) == 0);
    else WORLD_CHECK(me, link->ops->recv(link, got, 4096) == 4096 && got[0] == 7 && got[4095] == 7);
  }
  world_barrier(me);
  if (me->rank == 1) {
    WORLD_CHECK(me, link->ops->send(link, data, WANTED) == 0);
    me->transport->ops->halt(me->transport);
    memset(data, 8, WANTED);
  }
  world_barrier(me);
  if (me->rank == 0) {
    ssize_t after = peeks ? link->ops->consume(link, 4096) : link->ops->recv(link, got, 4096);
    WORLD_CHECK(me, after == TT_LINK_BROKEN && strstr(link->why, "rank 1 gave up"));
    WORLD_CHECK(me, link->ops->peek(link, &shown, 8) == TT_LINK_BROKEN);
  }
  world_barrier(me);
  tt_heap_free(data);
}

static void what_a_rank_that_gave_up_has_lent_is_not_believed(void **state)
{
  (void)state;
  run(give_up_body, &(int){0});
  run(give_up_body, &(int){1});
}

int main(void)
{
  alarm(200);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(impossible_lines_break_the_link),
      cmocka_unit_test(random_lines_never_reach_outside),
      cmocka_unit_test(impossible_acknowledgements_break_the_link),
      cmocka_unit_test(a_deaf_reader_leaves_slots_to_others),
      cmocka_unit_test(slots_that_lie_together_are_one_fragment_again),
      cmocka_unit_test(what_a_rank_that_gave_up_has_lent_is_not_believed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
