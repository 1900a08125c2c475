/* SPDX-License-Identifier: BSD-3-Clause */
/* On the double of libibverbs: who looks late, or has no place for what it owes the peer, makes up for it: receives do
 * not run out, credits and answers go when there is a place, and no sleeper misses what another look has taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_verbs.h"
#include "transport/verbs_private.h"
#include "transport_pair.h"

#define SHORT 64
#define LONG 40000

static const struct fake_verbs *fake;

static void begin(struct tt_link *link, int sends, size_t len, struct tt_head *head, struct tt_call *call)
{
  *call = (struct tt_call){.op = 1, .count = len, .type = tuttiUint8};
  *head = (struct tt_head){tt_call_word(call), len, call, 0};
  if (sends) link->ops->send_begin(link, head);
  else link->ops->recv_begin(link, head);
}

/* From rank 0 to rank 1. */
static void pass(struct world_rank *me, struct tt_link *link, int messages)
{
  for (int i = 0; i < messages; i++) {
    char data[SHORT] = "abc";
    struct tt_head head;
    struct tt_call call;
    begin(link, me->rank == 0, SHORT, &head, &call);
    for (size_t done = 0; done < SHORT && !world_is_over(me);) {
      ssize_t n = me->rank == 0 ? link->ops->send(link, data + done, SHORT - done)
                                : link->ops->recv(link, data + done, SHORT - done);
      if (n < 0) world_complain(me, "%s", link->why);
      if (n > 0) done += (size_t)n;
    }
  }
}

static void expect_ok(int slots, world_body body)
{
  struct world world = {
      .ops = &tt_transport_verbs, .nranks = 2, .lanes = 1, .slots = slots, .direct_bytes = LONG, .body = body};
  fake->reset();
  const char *complaint = world_run(&world);
  if (complaint) fail_msg("%s", complaint);
  assert_true(fake->is_clean());
}

/* ---- receives ---- */

#define MANY 64

static void burst(struct world_rank *me)
{
  struct tt_link *link = world_open(me, !me->rank, 0);
  if (!link) return;
  for (int round = 0; round < 4; round++) {
    if (me->rank == 0) pass(me, link, MANY);
    world_barrier(me); /* all of them have arrived before rank 1 looks */
    if (me->rank == 1) pass(me, link, MANY);
    world_barrier(me);
  }
  WORLD_CHECK(me, fake->count().not_ready == 0);
}

static void a_full_ring_at_once_finds_receives(void **state)
{
  (void)state;
  expect_ok(MANY, burst);
}

/* ---- places ---- */

#define FEW 4

static void owe_credits(struct world_rank *me)
{
  struct tt_link *link = world_open(me, !me->rank, 0);
  struct verbs_link *verbs = (struct verbs_link *)link;
  if (!link) return;
  if (me->rank == 0) pass(me, link, FEW);
  world_barrier(me);
  if (me->rank == 1) {
    uint32_t sends = verbs->sends;
    verbs->sends = 0; /* as if all places were taken */
    pass(me, link, FEW);
    WORLD_CHECK(me, verbs->in.freed - verbs->in.told == FEW);
    verbs->sends = sends;
    WORLD_CHECK(me, tt_verbs_link_pull(verbs) >= 0 && verbs->in.freed == verbs->in.told);
  }
  world_barrier(me);
  pass(me, link, FEW);
}

static void credits_without_a_place_go_later(void **state)
{
  (void)state;
  expect_ok(FEW, owe_credits);
}

static void peek_one(struct world_rank *me, struct tt_link *link)
{
  struct verbs_link *verbs = (struct verbs_link *)link;
  uint32_t sends = verbs->sends;
  const void *data;
  verbs->sends = 0;
  while (link->ops->peek(link, &data, 1) == 0 && !world_is_over(me)) {}
  WORLD_CHECK(me, verbs->in.answer == VERBS_REFUSAL);
  verbs->sends = sends;
  WORLD_CHECK(me, link->ops->peek(link, &data, 1) > 0 && !verbs->in.answer); /* though nothing was consumed */
  for (size_t done = 0; done < LONG && !world_is_over(me);) {
    ssize_t n = link->ops->peek(link, &data, 1);
    WORLD_CHECK(me, n >= 0);
    if (n > 0) link->ops->consume(link, (size_t)n);
    done += (size_t)n;
  }
}

static void owe_an_answer(struct world_rank *me)
{
  struct tt_link *link = world_open(me, !me->rank, 0);
  struct tt_head head;
  struct tt_call call;
  void *data;
  if (!link) return;
  WORLD_CHECK(me, tt_heap_alloc(&data, LONG) == tuttiSuccess);
  begin(link, me->rank == 0, LONG, &head, &call);
  if (me->rank == 1) peek_one(me, link);
  for (size_t done = 0; me->rank == 0 && done < LONG && !world_is_over(me);) {
    ssize_t n = link->ops->send(link, (char *)data + done, LONG - done);
    WORLD_CHECK(me, n >= 0);
    done += (size_t)n;
  }
  world_barrier(me);
  tt_heap_free(data);
}

static void an_answer_without_a_place_goes_later(void **state)
{
  (void)state;
  expect_ok(FEW, owe_an_answer);
}

/* ---- sleepers ---- */

static void look_elsewhere(struct world_rank *me)
{
  struct tt_link *link = world_open(me, !me->rank, 0);
  uint32_t events = 0;
  if (!link) return;
  if (me->rank == 0) pass(me, link, 1);
  world_barrier(me);
  if (me->rank == 1) {
    while (tt_verbs_link_pull((struct verbs_link *)link) == 0 && !world_is_over(me)) {}
    WORLD_CHECK(me, link->ops->descriptor(link, &events) < 0 && events);
    pass(me, link, 1);
  }
  world_barrier(me);
}

static void a_sleeper_hears_of_what_another_look_took(void **state)
{
  (void)state;
  expect_ok(FEW, look_elsewhere);
}

int main(void)
{
  fake = fake_verbs();
  setenv("TUTTI_DEBUG", "NONE", 1);
  if (tt_auth_init() != tuttiSuccess) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_full_ring_at_once_finds_receives),
      cmocka_unit_test(credits_without_a_place_go_later),
      cmocka_unit_test(an_answer_without_a_place_goes_later),
      cmocka_unit_test(a_sleeper_hears_of_what_another_look_took),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
