/* SPDX-License-Identifier: BSD-3-Clause */
/* ncclCommGrow of libnccl.so.2, in one process, against our own header: NCCL 2.29's shape, in groups and without
 * blocking. */
#include <string.h>
#include <unistd.h>

#include "nccl/abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "comms.h"

/* NCCL 2.29: the root has the id, ranks of the parent have -1, new ones no parent. */
static void a_communicator_grows_by_new_ranks_in_a_group(void **state)
{
  (void)state;
  ncclUniqueId id;
  ncclComm_t grown[3] = {NULL, NULL, NULL};
  int rank = -1;
  comms_make(2);
  assert_int_equal(pncclCommGetUniqueId(NULL, &id), tuttiInvalidArgument);
  assert_int_equal(pncclCommGetUniqueId(comms[1], &id), tuttiSuccess);
  assert_int_equal(pncclCommGrow(NULL, 3, NULL, 2, &grown[2], NULL), tuttiInvalidArgument);
  assert_int_equal(pncclGroupStart(), tuttiSuccess);
  for (int c = 0; c < 3; c++)
    assert_int_equal(pncclCommGrow(c < 2 ? comms[c] : NULL, 3, c ? &id : NULL, c < 2 ? -1 : c, &grown[c], NULL),
                     tuttiSuccess);
  assert_int_equal(pncclGroupEnd(), tuttiSuccess);
  sum_is_right(2); /* the parent stays */
  comms_end(2);
  memcpy(comms, grown, sizeof grown);
  for (int c = 0; c < 3; c++) {
    assert_int_equal(pncclCommUserRank(comms[c], &rank), tuttiSuccess);
    assert_int_equal(rank, c);
  }
  sum_is_right(3);
  comms_end(3);
}

/* Programs wait for the parent while it grows. */
static void a_parent_is_in_progress_until_the_new_ranks_have_come(void **state)
{
  (void)state;
  ncclUniqueId id;
  ncclComm_t grown[2] = {NULL, NULL};
  ncclResult_t now = tuttiSuccess;
  ncclConfig_t config = {.size = 24, .magic = NCCL_CONFIG_MAGIC, .version = 21400, .blocking = 0};
  comms_make(1);
  assert_int_equal(pncclCommGetUniqueId(comms[0], &id), tuttiSuccess);
  assert_int_equal(pncclCommGrow(comms[0], 2, &id, -1, &grown[0], &config), tuttiInProgress);
  assert_int_equal(pncclCommGetAsyncError(comms[0], &now), tuttiSuccess);
  assert_int_equal(now, tuttiInProgress);
  assert_int_equal(pncclCommGrow(NULL, 2, &id, 1, &grown[1], &config), tuttiInProgress);
  comm_await(comms[0]);
  comm_await(grown[1]);
  comms_end(1);
  memcpy(comms, grown, sizeof grown);
  sum_is_right(2);
  comms_end(2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_communicator_grows_by_new_ranks_in_a_group),
      cmocka_unit_test(a_parent_is_in_progress_until_the_new_ranks_have_come),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
