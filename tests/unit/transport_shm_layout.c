/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/shm_private.h"

static void parts_of_an_outbox_do_not_overlap(void **state)
{
  (void)state;
  for (uint32_t nlocal = 1; nlocal < 70; nlocal += 3)
    for (uint32_t lanes = 1; lanes <= TT_MAX_LANES; lanes++) {
      struct tt_shm_shape shape = {.nlocal = nlocal, .lanes = lanes, .slots = 5, .slot_bytes = 8192};
      size_t at = sizeof(struct tt_shm_header);
      for (uint32_t r = 0; r < nlocal; r++)
        for (uint32_t lane = 0; lane < lanes; lane++) {
          size_t ack = tt_shm_ack_at(&shape, (int)r, (int)lane);
          assert_true(ack >= at && ack % 64 == 0);
          at = ack + sizeof(struct tt_shm_ack);
        }
      for (uint32_t r = 0; r < nlocal; r++)
        for (uint32_t lane = 0; lane < lanes; lane++) {
          size_t ring = tt_shm_ring_at(&shape, (int)r, (int)lane);
          assert_true(ring >= at && ring % 128 == 0);
          at = ring + TT_SHM_DEPTH * sizeof(struct tt_shm_line);
        }
      for (uint32_t r = 0; r < nlocal; r++)
        for (uint32_t lane = 0; lane < lanes; lane++) {
          size_t said = tt_shm_said_at(&shape, (int)r, (int)lane);
          assert_true(said >= at && said % 64 == 0);
          at = said + sizeof(struct tt_shm_said);
        }
      assert_true(tt_shm_pool_at(&shape) >= at && tt_shm_pool_at(&shape) % TT_SHM_PAGE == 0);
      assert_int_equal(tt_shm_outbox_bytes(&shape), tt_shm_pool_at(&shape) + 5 * 8192);
    }
}

static void lines_and_acknowledgements_are_cache_lines(void **state)
{
  (void)state;
  assert_int_equal(sizeof(struct tt_shm_line), 64);
  assert_int_equal(sizeof(struct tt_shm_ack), 64);
}

int main(void)
{
  alarm(20);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_of_an_outbox_do_not_overlap),
      cmocka_unit_test(lines_and_acknowledgements_are_cache_lines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
