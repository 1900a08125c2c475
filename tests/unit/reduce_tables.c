/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tables of kernels there are, and how one is chosen. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduce/reduce.h"

static int tables(void)
{
  int n = 0;
  while (tt_reduce_tables[n]) n++;
  return n;
}

static const struct tt_reduce_table *fastest_usable(void)
{
  int i = 0;
  while (!tt_reduce_tables[i]->usable()) i++;
  return tt_reduce_tables[i];
}

static void the_fastest_usable_table_is_in_use_before_one_is_chosen(void **state)
{
  (void)state;
  assert_ptr_equal(tt_reduce_table(), fastest_usable());
}

static void the_last_table_is_plain_and_usable_everywhere(void **state)
{
  (void)state;
  assert_true(tables() >= 1);
  assert_string_equal(tt_reduce_tables[tables() - 1]->name, "plain");
  assert_true(tt_reduce_tables[tables() - 1]->usable());
}

/* Also those that this CPU lacks. */
static void every_table_has_every_kernel_and_a_name_of_its_own(void **state)
{
  (void)state;
  for (int i = 0; i < tables(); i++) {
    const struct tt_reduce_table *table = tt_reduce_tables[i];
    assert_string_not_equal(table->name, "auto");
    for (int j = 0; j < i; j++) assert_string_not_equal(table->name, tt_reduce_tables[j]->name);
    for (int type = 0; type < tuttiNumTypes; type++) {
      assert_non_null(table->finite[type]);
      for (int redop = 0; redop < TT_REDOPS; redop++)
        assert_int_equal(table->kernels[redop][type] == NULL, tt_redop_lacks(redop, type) != NULL);
    }
  }
}

static void a_table_is_usable_or_not_for_good(void **state)
{
  (void)state;
  for (int i = 0; i < tables(); i++) {
    int usable = tt_reduce_tables[i]->usable();
    for (int again = 0; again < 3; again++) assert_int_equal(tt_reduce_tables[i]->usable(), usable);
  }
}

static void check_in_use(const struct tt_reduce_table *table)
{
  assert_ptr_equal(tt_reduce_table(), table);
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      assert_true(tt_reduce_kernel(redop, type) == table->kernels[redop][type]);
}

static void each_usable_table_can_be_chosen_by_name(void **state)
{
  (void)state;
  for (int i = 0; i < tables(); i++) {
    if (!tt_reduce_tables[i]->usable()) continue;
    assert_int_equal(tt_reduce_choose(tt_reduce_tables[i]->name), tuttiSuccess);
    check_in_use(tt_reduce_tables[i]);
  }
}

static void auto_chooses_the_fastest_usable_table(void **state)
{
  (void)state;
  assert_int_equal(tt_reduce_choose("plain"), tuttiSuccess);
  assert_int_equal(tt_reduce_choose("auto"), tuttiSuccess);
  check_in_use(fastest_usable());
}

/* The sentence has the name, and what there is instead; the table stays. */
static void check_refused(const char *name)
{
  const struct tt_reduce_table *before = tt_reduce_table();
  assert_int_equal(tt_reduce_choose(name), tuttiInvalidArgument);
  check_in_use(before);
  const char *sentence = tt_last_sentence();
  assert_non_null(strstr(sentence, name));
  assert_non_null(strstr(sentence, "TUTTI_KERNELS"));
  const char *list = strstr(sentence, "has auto");
  assert_non_null(list);
  for (int i = 0; i < tables(); i++) {
    char item[40];
    snprintf(item, sizeof item, ", %s", tt_reduce_tables[i]->name);
    assert_int_equal(strstr(list, item) != NULL, tt_reduce_tables[i]->usable());
  }
}

static void what_is_not_there_is_refused_with_what_there_is(void **state)
{
  (void)state;
  const char *const names[] = {"avx1024", "", "Plain", "plain ", "plai", "plain,sse2", "automatic"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    assert_int_equal(tt_reduce_choose(i % 2 ? "plain" : "auto"), tuttiSuccess);
    check_refused(names[i]);
  }
}

/* Of this library, or of another machine's. */
static void what_this_cpu_lacks_is_refused_too(void **state)
{
  (void)state;
  const char *const names[] = {"avx512", "avx2", "sse2", "neon"};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
    int usable = 0;
    for (int i = 0; i < tables(); i++)
      usable |= !strcmp(tt_reduce_tables[i]->name, names[n]) && tt_reduce_tables[i]->usable();
    if (!usable) check_refused(names[n]);
  }
}

#define COUNT 1000

static void *choose_all_the_time(void *stop)
{
  for (int i = 0; !atomic_load_explicit((atomic_int *)stop, memory_order_acquire); i++)
    if (tt_reduce_tables[i % tables()]->usable()) tt_reduce_choose(tt_reduce_tables[i % tables()]->name);
  return NULL;
}

static void the_table_may_change_while_kernels_run(void **state)
{
  (void)state;
  static uint16_t values[2][COUNT], wanted[COUNT], got[COUNT];
  const void *sources[2] = {values[0], values[1]};
  atomic_int stop = 0;
  pthread_t thread;
  for (int i = 0; i < COUNT; i++) {
    values[0][i] = (uint16_t)(i * 37);
    values[1][i] = (uint16_t)(i * 4099);
  }
  tt_reduce_kernel(tuttiSum, tuttiFloat16)(wanted, sources, 2, COUNT, NULL);
  assert_int_equal(pthread_create(&thread, NULL, choose_all_the_time, &stop), 0);
  int different = 0;
  for (int i = 0; i < 2000; i++) {
    memset(got, 0, sizeof got);
    tt_reduce_kernel(tuttiSum, tuttiFloat16)(got, sources, 2, COUNT, NULL);
    different += memcmp(got, wanted, sizeof got) != 0;
  }
  atomic_store_explicit(&stop, 1, memory_order_release);
  pthread_join(thread, NULL);
  assert_int_equal(different, 0);
}

int main(void)
{
  alarm(60);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_fastest_usable_table_is_in_use_before_one_is_chosen),
      cmocka_unit_test(the_last_table_is_plain_and_usable_everywhere),
      cmocka_unit_test(every_table_has_every_kernel_and_a_name_of_its_own),
      cmocka_unit_test(a_table_is_usable_or_not_for_good),
      cmocka_unit_test(each_usable_table_can_be_chosen_by_name),
      cmocka_unit_test(auto_chooses_the_fastest_usable_table),
      cmocka_unit_test(what_is_not_there_is_refused_with_what_there_is),
      cmocka_unit_test(what_this_cpu_lacks_is_refused_too),
      cmocka_unit_test(the_table_may_change_while_kernels_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
