/* SPDX-License-Identifier: BSD-3-Clause */
/* hwloc and sysfs say the same, here and about machines that do not exist.
 * Labels: serial. */
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

/* hwloc's plugins and what they load may keep a few bytes; leaks of ours still fail the test. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void) { return "leak:libhwloc\nleak:libOpenCL\nleak:dlopen\n"; }
const char *__lsan_default_options(void) { return "print_suppressions=0"; }

static struct tt_machine *hwloc_read(void)
{
  char why[TT_WHY_BYTES] = "";
  struct tt_machine *machine = NULL;
  assert_int_equal(tt_machine_hwloc(&machine, why), tuttiSuccess);
  if (!machine) fail_msg("%s", why);
  assert_string_equal(machine->method, "hwloc");
  return machine;
}

static void agree(const char *sys)
{
  char why[TT_WHY_BYTES] = "";
  struct tt_machine *a = hwloc_read(), *b = NULL;
  assert_int_equal(tt_machine_sysfs(&b, sys, why), tuttiSuccess);
  if (!b) fail_msg("%s", why);
  assert_int_equal(a->nprocessors, b->nprocessors);
  for (int32_t p = 0; p < a->nprocessors; p++) {
    const struct tt_processor *x = &a->processor[p], *y = &b->processor[p];
    if (memcmp(x, y, sizeof *x) != 0)
      fail_msg("processor %d: hwloc says online %d socket %d numa %d cache %d core %d, sysfs %d %d %d %d %d", (int)p,
               (int)x->is_online, (int)x->socket, (int)x->numa, (int)x->cache, (int)x->core, (int)y->is_online,
               (int)y->socket, (int)y->numa, (int)y->cache, (int)y->core);
  }
  tt_free(a);
  tt_free(b);
}

static void hwloc_and_sysfs_agree_about_this_machine(void **state)
{
  (void)state;
  agree("/sys");
}

/* hwloc looks for sysfs below HWLOC_FSROOT; HWLOC_THISSYSTEM makes it (and us) believe what it finds. */
static void hwloc_and_sysfs_agree_about_other_machines(void **state)
{
  (void)state;
  static const struct fake_machine fakes[] = {
      {2, 1, 2, 4, 1, 0, 0},
      {2, 2, 2, 2, 2, 0, 0},
      {1, 4, 1, 4, 1, 0, 1},
      {2, 1, 2, 4, 1, 1 << 3 | 1 << 4 | 1 << 15, 0},
      {4, 1, 1, 1, 2, 1 << 0, 0},
  };
  setenv("HWLOC_THISSYSTEM", "1", 1);
  for (size_t f = 0; f < sizeof fakes / sizeof fakes[0]; f++) {
    char root[FAKE_ROOT_BYTES], sys[FAKE_ROOT_BYTES + 8];
    fake_sysfs_create(root, &fakes[f]);
    snprintf(sys, sizeof sys, "%s/sys", root);
    setenv("HWLOC_FSROOT", root, 1);
    agree(sys);
    unsetenv("HWLOC_FSROOT");
    fake_sysfs_destroy(root);
  }
  unsetenv("HWLOC_THISSYSTEM");
}

static void another_machine_in_the_environment_is_not_believed(void **state)
{
  (void)state;
  char why[TT_WHY_BYTES] = "";
  struct tt_machine *m = NULL;
  setenv("HWLOC_SYNTHETIC", "package:2 l3:2 core:4 pu:1", 1);
  assert_int_equal(tt_machine_hwloc(&m, why), tuttiSuccess);
  unsetenv("HWLOC_SYNTHETIC");
  assert_null(m);
  assert_non_null(strstr(why, "another machine"));
}

static void a_failed_allocation_is_told(void **state)
{
  (void)state;
  char why[TT_WHY_BYTES] = "";
  struct tt_machine *m = NULL;
  tt_alloc_fail_at(1);
  assert_int_equal(tt_machine_hwloc(&m, why), tuttiSystemError);
  tt_alloc_fail_at(0);
  assert_null(m);
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  char why[TT_WHY_BYTES] = "";
  struct tt_machine *machine = NULL;
  if (tt_machine_hwloc(&machine, why) == tuttiSuccess && !machine) {
    printf("skipped: %s\n", why);
    return 77;
  }
  tt_free(machine);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hwloc_and_sysfs_agree_about_this_machine),
      cmocka_unit_test(hwloc_and_sysfs_agree_about_other_machines),
      cmocka_unit_test(another_machine_in_the_environment_is_not_believed),
      cmocka_unit_test(a_failed_allocation_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
