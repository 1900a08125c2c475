/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of collectives: each row says its facts, they agree with each other, and what follows from them. */
#include <string.h>

#include "base/base.h"
#include "watch/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void each_row_says_facts_that_agree(void **state)
{
  (void)state;
  for (int c = TT_NO_COLLECTIVE + 1; c < TT_PAIRS; c++) {
    const struct tt_kind *kind = &tt_kinds[c];
    assert_true(kind->called && kind->called[0] && kind->name && kind->name[0]);
    assert_int_equal(tt_kind_find(kind->name), c);
    assert_true(kind->in && kind->out && kind->from);
    if (kind->in == TT_COVER_OWN || kind->out == TT_COVER_OWN || kind->from == TT_FROM_SHARE || kind->is_apart)
      assert_true(kind->is_shared);
    assert_int_equal(kind->in == TT_COVER_ROOT, kind->from == TT_FROM_ROOT);
    assert_false(kind->in == TT_COVER_ROOT && kind->out == TT_COVER_ROOT);
    for (int d = 0; d < c; d++) assert_string_not_equal(tt_kinds[d].called, kind->called);
  }
  for (int c = 0; c < TT_COLLECTIVES; c++)
    if (!tt_kinds[c].name) assert_true(tt_kinds[c].called && !tt_kinds[c].from && !tt_kinds[c].in && !tt_kinds[c].out);
}

static void names_are_found_however_they_are_written(void **state)
{
  char text[TT_KIND_NAMES_BYTES], cut[20];
  (void)state;
  assert_int_equal(tt_kind_find("All-Reduce"), TT_ALL_REDUCE);
  assert_int_equal(tt_kind_find("alltoall"), TT_ALL_TO_ALL);
  assert_int_equal(tt_kind_find("pairs"), TT_NO_COLLECTIVE);
  assert_int_equal(tt_kind_find(""), TT_NO_COLLECTIVE);
  assert_string_equal(tt_kind_names(cut, sizeof cut), "all_reduce, reduce,");
  tt_kind_names(text, sizeof text);
  assert_true(strlen(text) + 1 < sizeof text); /* all of them */
  for (int c = TT_NO_COLLECTIVE + 1; c < TT_PAIRS; c++) assert_non_null(strstr(text, tt_kinds[c].name));
}

/* 3 is the peer. A rank is late for a call that others have ended only where they could not have ended it alone. */
static void who_needs_all_ranks_follows_from_the_facts(void **state)
{
  static const int all[] = {TT_ALL_REDUCE, TT_REDUCE_SCATTER, TT_ALL_GATHER, TT_ALL_TO_ALL};
  static const int root[] = {TT_REDUCE, TT_GATHER};
  static const int nobody[] = {TT_BROADCAST, TT_SCATTER, TT_PAIRS, TT_NO_COLLECTIVE, TT_COLLECTIVES, 255};
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    assert_true(tt_call_needs_all(&(struct tt_call){.collective = (uint8_t)all[i], .root = -1}, 3));
  for (size_t i = 0; i < sizeof root / sizeof *root; i++)
    for (int r = 0; r < 5; r++)
      assert_int_equal(tt_call_needs_all(&(struct tt_call){.collective = (uint8_t)root[i], .root = r}, 3), r == 3);
  for (size_t i = 0; i < sizeof nobody / sizeof *nobody; i++)
    assert_false(tt_call_needs_all(&(struct tt_call){.collective = (uint8_t)nobody[i], .root = 3}, 3));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_row_says_facts_that_agree),
      cmocka_unit_test(names_are_found_however_they_are_written),
      cmocka_unit_test(who_needs_all_ranks_follows_from_the_facts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
