/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines as sysfs shows them, and where a process is in them. */
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

#include "fake_sysfs.h"
#include "topo/machine_private.h"

static const struct fake_machine server = {.sockets = 2, .numas = 1, .caches = 2, .cores = 4, .threads = 1};

static struct tt_machine *read_at(const char *root)
{
  char sys[FAKE_ROOT_BYTES + 8], why[TT_WHY_BYTES] = "";
  struct tt_machine *machine = NULL;
  snprintf(sys, sizeof sys, "%s/sys", root);
  assert_int_equal(tt_machine_sysfs(&machine, sys, why), tuttiSuccess);
  if (!machine) fail_msg("%s", why);
  return machine;
}

static struct tt_machine *read_fake(const struct fake_machine *fake)
{
  char root[FAKE_ROOT_BYTES];
  fake_sysfs_create(root, fake);
  struct tt_machine *machine = read_at(root);
  fake_sysfs_destroy(root);
  return machine;
}

static void row_is(const struct tt_machine *m, int p, int socket, int numa, int cache, int core)
{
  assert_true(p < m->nprocessors);
  assert_int_equal(m->processor[p].is_online, 1);
  assert_int_equal(m->processor[p].socket, socket);
  assert_int_equal(m->processor[p].numa, numa);
  assert_int_equal(m->processor[p].cache, cache);
  assert_int_equal(m->processor[p].core, core);
}

static void counts_are(const struct tt_machine *m, const struct tt_processors *set, const int32_t wanted[5])
{
  struct tt_machine_counts counts = tt_machine_count(m, set);
  const int32_t got[] = {counts.sockets, counts.numas, counts.caches, counts.cores, counts.processors};
  assert_memory_equal(got, wanted, sizeof got);
}

static struct tt_processors set_of(uint64_t low)
{
  struct tt_processors set = {{low}};
  return set;
}

static void sockets_caches_and_cores_are_seen(void **state)
{
  (void)state;
  struct tt_machine *m = read_fake(&server);
  assert_int_equal(m->nprocessors, 16);
  for (int p = 0; p < 16; p++) row_is(m, p, p / 8 * 8, p / 8, p / 4 * 4, p);
  counts_are(m, NULL, (int32_t[]){2, 2, 4, 16, 16});
  tt_free(m);
}

static void threads_of_a_core_and_several_numa_nodes_of_a_socket_are_seen(void **state)
{
  (void)state;
  for (int old_names = 0; old_names < 2; old_names++) {
    struct tt_machine *m =
        read_fake(&(struct fake_machine){2, 2, 2, 2, 2, .old_names = old_names});
    assert_int_equal(m->nprocessors, 32);
    for (int p = 0; p < 32; p++) row_is(m, p, p / 16 * 16, p / 8, p / 4 * 4, p / 2 * 2);
    counts_are(m, NULL, (int32_t[]){2, 4, 8, 16, 32});
    tt_free(m);
  }
}

static void offline_processors_are_left_out(void **state)
{
  (void)state;
  struct fake_machine fake = server;
  fake.offline = 1 << 0 | 1 << 5 | 1 << 15;
  struct tt_machine *m = read_fake(&fake);
  assert_int_equal(m->nprocessors, 15);
  assert_int_equal(m->processor[0].is_online, 0);
  assert_int_equal(m->processor[0].numa, -1);
  assert_int_equal(m->processor[5].is_online, 0);
  row_is(m, 1, 1, 0, 1, 1); /* named by the lowest that is online */
  row_is(m, 3, 1, 0, 1, 3);
  row_is(m, 4, 1, 0, 4, 4);
  row_is(m, 14, 8, 1, 12, 14);
  counts_are(m, NULL, (int32_t[]){2, 2, 4, 13, 13});
  tt_free(m);
}

static void lists_may_name_offline_processors(void **state)
{
  (void)state;
  char root[FAKE_ROOT_BYTES];
  fake_sysfs_create(root, &(struct fake_machine){1, 1, 1, 4, 1, .offline = 1 << 0});
  fake_sysfs_write(root, "cpu/cpu1/cache/index2/shared_cpu_list", "0-3\n");
  fake_sysfs_write(root, "cpu/cpu1/topology/package_cpus_list", "0-3\n");
  fake_sysfs_write(root, "cpu/cpu1/topology/core_cpus_list", "0-1\n");
  fake_sysfs_write(root, "node/node0/cpulist", "0-3\n");
  struct tt_machine *m = read_at(root);
  assert_int_equal(m->processor[0].is_online, 0);
  assert_int_equal(m->processor[0].cache, -1);
  assert_int_equal(m->processor[0].numa, -1);
  for (int p = 1; p < 4; p++) row_is(m, p, 1, 0, 1, p);
  tt_free(m);
  fake_sysfs_destroy(root);
}

static void what_files_do_not_tell_is_unknown(void **state)
{
  (void)state;
  char root[FAKE_ROOT_BYTES];
  fake_sysfs_create(root, &(struct fake_machine){1, 1, 1, 4, 1, .offline = 0});
  fake_sysfs_write(root, "node/online", NULL);
  for (int p = 0; p < 4; p++) {
    char path[64];
    snprintf(path, sizeof path, "cpu/cpu%d/topology/package_cpus_list", p);
    fake_sysfs_write(root, path, p == 3 ? "nonsense\n" : NULL);
    snprintf(path, sizeof path, "cpu/cpu%d/topology/core_cpus_list", p);
    fake_sysfs_write(root, path, NULL);
    snprintf(path, sizeof path, "cpu/cpu%d/cache/index2/shared_cpu_list", p);
    fake_sysfs_write(root, path, p == 0 ? "0-1\n" : "0-\n");
    snprintf(path, sizeof path, "cpu/cpu%d/cache/index2/type", p);
    if (p == 3) fake_sysfs_write(root, path, NULL); /* so the level below is its last */
  }
  fake_sysfs_write(root, "cpu/cpu3/cache/index1/level", "4\n"); /* of instructions: that is no matter */
  fake_sysfs_write(root, "cpu/cpu3/cache/index1/shared_cpu_list", "2-3\n");
  struct tt_machine *m = read_at(root);
  row_is(m, 0, -1, 0, 0, 0); /* a kernel without NUMA has one node */
  row_is(m, 1, -1, 0, 0, 1);
  row_is(m, 2, -1, 0, -1, 2);
  row_is(m, 3, -1, 0, 3, 3);
  tt_free(m);
  fake_sysfs_destroy(root);
}

static void numa_nodes_may_have_no_processor_or_share_one(void **state)
{
  (void)state;
  char root[FAKE_ROOT_BYTES];
  fake_sysfs_create(root, &(struct fake_machine){1, 1, 1, 4, 1, .offline = 0});
  fake_sysfs_write(root, "node/online", "0,2-4,9999\n");
  fake_sysfs_write(root, "node/node0/cpulist", "\n");
  fake_sysfs_write(root, "node/node2/cpulist", "0-1\n");
  fake_sysfs_write(root, "node/node3/cpulist", "1-2,100,9999999999999999999999\n");
  struct tt_machine *m = read_at(root);
  assert_int_equal(m->nprocessors, 4);
  row_is(m, 0, 0, 2, 0, 0);
  row_is(m, 1, 0, 2, 0, 1);
  row_is(m, 2, 0, 3, 0, 2);
  row_is(m, 3, 0, -1, 0, 3);
  tt_free(m);
  fake_sysfs_destroy(root);
}

static void without_a_list_of_processors_nothing_is_said(void **state)
{
  (void)state;
  static const char *const lists[] = {"", "\n", "x", "-1", "0-", "0-x", "0;1", "0,,1", "99999"};
  char root[FAKE_ROOT_BYTES], sys[FAKE_ROOT_BYTES + 8], why[TT_WHY_BYTES], *large = calloc(1, 70000);
  fake_sysfs_create(root, &(struct fake_machine){1, 1, 1, 1, 1, .offline = 0});
  snprintf(sys, sizeof sys, "%s/sys", root);
  for (size_t i = 0; i <= sizeof lists / sizeof lists[0] + 1; i++) {
    struct tt_machine *m = NULL;
    why[0] = 0;
    if (i < sizeof lists / sizeof lists[0]) fake_sysfs_write(root, "cpu/online", lists[i]);
    else if (i == sizeof lists / sizeof lists[0]) fake_sysfs_write(root, "cpu/online", memset(large, '1', 69999));
    else fake_sysfs_write(root, "cpu/online", NULL);
    assert_int_equal(tt_machine_sysfs(&m, sys, why), tuttiSuccess);
    assert_null(m);
    assert_non_null(strstr(why, sys));
  }
  free(large);
  fake_sysfs_destroy(root);
}

static void every_failed_allocation_is_told(void **state)
{
  (void)state;
  char root[FAKE_ROOT_BYTES], sys[FAKE_ROOT_BYTES + 8], why[TT_WHY_BYTES];
  fake_sysfs_create(root, &(struct fake_machine){1, 1, 1, 1, 1, .offline = 0});
  snprintf(sys, sizeof sys, "%s/sys", root);
  for (long n = 1; n <= 2; n++) {
    struct tt_machine *m = NULL;
    tt_alloc_fail_at(n);
    assert_int_equal(tt_machine_sysfs(&m, sys, why), tuttiSystemError);
    tt_alloc_fail_at(0);
    assert_null(m);
  }
  fake_sysfs_destroy(root);
}

/* ---- where a process is ---- */

static void locality_is(const struct tt_machine *m, uint64_t set, int numa, int cache)
{
  struct tt_processors processors = set_of(set);
  struct tt_locality where = tt_machine_locality(m, &processors);
  assert_int_equal(where.numa, numa);
  assert_int_equal(where.cache, cache);
}

static void a_process_is_where_all_its_processors_are(void **state)
{
  (void)state;
  struct fake_machine fake = server;
  fake.offline = 1 << 7;
  struct tt_machine *m = read_fake(&fake);
  locality_is(m, 0x0001, 0, 0);
  locality_is(m, 0x0008, 0, 0);
  locality_is(m, 0x000f, 0, 0);
  locality_is(m, 0x0010, 0, 4);
  locality_is(m, 0x0018, 0, -1);
  locality_is(m, 0xf000, 1, 12);
  locality_is(m, 0xff00, 1, -1);
  locality_is(m, 0x0810, -1, -1);
  locality_is(m, 0x0080, -1, -1);          /* offline */
  locality_is(m, 0x10001, -1, -1);         /* not in the table */
  locality_is(m, (uint64_t)1 << 63, -1, -1);
  locality_is(m, 0, -1, -1);
  struct tt_processors set = set_of(0x0810);
  counts_are(m, &set, (int32_t[]){2, 2, 2, 2, 2});
  set = set_of(0x00f1);
  counts_are(m, &set, (int32_t[]){1, 1, 2, 4, 4});
  tt_free(m);
}

static void a_machine_that_tells_nothing_is_no_error(void **state)
{
  (void)state;
  struct tt_machine *m = tt_machine_create("nothing", 0);
  locality_is(m, 3, -1, -1);
  counts_are(m, NULL, (int32_t[]){0, 0, 0, 0, 0});
  tt_free(m);
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sockets_caches_and_cores_are_seen),
      cmocka_unit_test(threads_of_a_core_and_several_numa_nodes_of_a_socket_are_seen),
      cmocka_unit_test(offline_processors_are_left_out),
      cmocka_unit_test(lists_may_name_offline_processors),
      cmocka_unit_test(what_files_do_not_tell_is_unknown),
      cmocka_unit_test(numa_nodes_may_have_no_processor_or_share_one),
      cmocka_unit_test(without_a_list_of_processors_nothing_is_said),
      cmocka_unit_test(every_failed_allocation_is_told),
      cmocka_unit_test(a_process_is_where_all_its_processors_are),
      cmocka_unit_test(a_machine_that_tells_nothing_is_no_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
