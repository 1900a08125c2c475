/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process sees of this machine, whatever it is. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/machine_private.h"

#define THREADS 4

/* Binds the calling thread to one processor and asks. */
static struct tt_locality ask_on(int processor)
{
  cpu_set_t set;
  struct tt_locality here = {-7, -7};
  CPU_ZERO(&set);
  CPU_SET((size_t)processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0 && tt_topo_here(&here) != tuttiSuccess) here.numa = -8;
  return here;
}

struct asker {
  pthread_t thread;
  int processor;
  struct tt_locality here;
};

static void *asker_main(void *argument)
{
  struct asker *asker = argument;
  asker->here = ask_on(asker->processor);
  return NULL;
}

static int processors(int list[CPU_SETSIZE])
{
  cpu_set_t set;
  int n = 0;
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  for (size_t p = 0; p < CPU_SETSIZE; p++)
    if (CPU_ISSET(p, &set)) list[n++] = (int)p;
  return n;
}

/* Must be the first: the threads meet where the hardware is read for the first time. */
static void threads_bound_apart_each_see_their_own_place(void **state)
{
  (void)state;
  static int list[CPU_SETSIZE];
  int n = processors(list);
  struct asker askers[THREADS];
  struct tt_machine *machine = NULL;
  for (int i = 0; i < THREADS; i++) {
    askers[i].processor = list[i % n];
    assert_int_equal(pthread_create(&askers[i].thread, NULL, asker_main, &askers[i]), 0);
  }
  assert_int_equal(tt_machine_read(&machine), tuttiSuccess);
  for (int i = 0; i < THREADS; i++) {
    int p = askers[i].processor;
    pthread_join(askers[i].thread, NULL);
    assert_int_equal(askers[i].here.numa, p < machine->nprocessors ? machine->processor[p].numa : -1);
    assert_int_equal(askers[i].here.cache, p < machine->nprocessors ? machine->processor[p].cache : -1);
  }
  tt_free(machine);
}

static void an_unbound_process_is_where_all_processors_are(void **state)
{
  (void)state;
  static int list[CPU_SETSIZE];
  int n = processors(list);
  struct tt_locality here, one;
  struct tt_processors usable;
  assert_int_equal(tt_topo_here(&here), tuttiSuccess);
  tt_processors_usable(&usable);
  for (int p = 0, i = 0; p < TT_MAX_PROCESSORS; p++) {
    int is_mine = i < n && list[i] == p;
    assert_int_equal(tt_processor_is_in(&usable, p), is_mine);
    i += is_mine;
  }
  cpu_set_t before;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  one = ask_on(list[0]);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  if (here.numa >= 0) assert_int_equal(here.numa, one.numa);
  if (here.cache >= 0) assert_int_equal(here.cache, one.cache);
  if (n == 1) assert_memory_equal(&here, &one, sizeof here);
}

/* On a machine where every processor is a place of its own. */
static void the_calling_threads_affinity_decides(void **state)
{
  (void)state;
  static int list[CPU_SETSIZE];
  int n = processors(list);
  cpu_set_t before;
  struct tt_machine *apart = tt_machine_create("test", list[n - 1] + 1);
  for (int32_t p = 0; p < apart->nprocessors; p++) apart->processor[p] = (struct tt_processor){1, p, p, p, p};
  const void *real = atomic_exchange(&tt_process.machine, apart);
  struct tt_locality here;
  assert_int_equal(tt_topo_here(&here), tuttiSuccess);
  assert_int_equal(here.cache, n == 1 ? list[0] : -1);
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  for (int i = 0; i < n; i++) {
    here = ask_on(list[i]);
    assert_int_equal(here.numa, list[i]);
    assert_int_equal(here.cache, list[i]);
  }
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  atomic_store(&tt_process.machine, real);
  tt_free(apart);
}

static void the_machine_is_told_in_two_lines(void **state)
{
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct tt_listing listing = {.out = out};
  tt_topo_list_here(&listing);
  fclose(out);
  int lines = 0;
  for (const char *at = text; (at = strchr(at, '\n')); at++) lines++;
  if (strstr(text, "unknown")) assert_int_equal(lines, 1);
  else assert_int_equal(lines, 2);
  assert_true(strncmp(text, "  machine        ", 17) == 0);
  if (lines == 2) assert_non_null(strstr(text, "\n  usable         "));
  if (lines == 2) assert_true(strstr(text, "(found by hwloc)\n") || strstr(text, "(found by sysfs)\n"));
  free(text);
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_bound_apart_each_see_their_own_place),
      cmocka_unit_test(an_unbound_process_is_where_all_processors_are),
      cmocka_unit_test(the_calling_threads_affinity_decides),
      cmocka_unit_test(the_machine_is_told_in_two_lines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
