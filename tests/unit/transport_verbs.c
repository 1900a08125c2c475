/* SPDX-License-Identifier: BSD-3-Clause */
/* What of the verbs transport needs no device.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "transport/verbs_private.h"

#ifdef TT_HAVE_VERBS

static void hcas_are_chosen_as_in_nccl(void **state)
{
  (void)state;
  assert_true(tt_verbs_hca_fits("", "mlx5_0", 1));
  assert_true(tt_verbs_hca_fits("mlx5", "mlx5_10", 2));
  assert_true(tt_verbs_hca_fits("rxe,mlx5_1", "mlx5_10", 1));
  assert_false(tt_verbs_hca_fits("rxe,mlx4", "mlx5_1", 1));
  assert_false(tt_verbs_hca_fits("=mlx5_1", "mlx5_10", 1));
  assert_true(tt_verbs_hca_fits("=mlx5_0,mlx5_1", "mlx5_1", 1));
  assert_true(tt_verbs_hca_fits("mlx5_1:2", "mlx5_1", 2));
  assert_false(tt_verbs_hca_fits("mlx5_1:2", "mlx5_1", 1));
  assert_false(tt_verbs_hca_fits("^mlx5_1", "mlx5_1", 1));
  assert_true(tt_verbs_hca_fits("^mlx5_1:2", "mlx5_1", 1));
  assert_true(tt_verbs_hca_fits("^=mlx5_1,rxe0", "mlx5_10", 1));
  assert_false(tt_verbs_hca_fits("^=mlx5_1,rxe0", "rxe0", 1));
}

/* Who cannot use a device says what to do, whichever part is missing on this machine. */
static void what_is_missing_is_said(void **state)
{
  (void)state;
  struct tt_settings settings;
  char why[256] = "";
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  snprintf(settings.ib_hca, sizeof settings.ib_hca, "=nosuchdevice0");
  assert_ptr_equal(tt_transport_verbs.unusable(&settings, why, sizeof why), why);
  assert_true(why[0]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hcas_are_chosen_as_in_nccl),
      cmocka_unit_test(what_is_missing_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
  printf("the verbs transport is not part of this build\n");
  return 77;
}

#endif
