/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of libnccl.so.2 in one process: communicators of up to three ranks, and a call that shows that they work.
 * To be included behind nccl/abi.h and cmocka.h. */
#ifndef NCCL_COMMS_H
#define NCCL_COMMS_H

static ncclComm_t comms[3];

static inline void comms_make(int count)
{
  assert_int_equal(pncclCommInitAll(comms, count, NULL), tuttiSuccess);
}

static inline void comms_end(int count)
{
  for (int c = 0; c < count; c++) assert_int_equal(pncclCommDestroy(comms[c]), tuttiSuccess);
}

static inline void sum_is_right(int count)
{
  int x[3] = {1, 2, 4};
  assert_int_equal(pncclGroupStart(), tuttiSuccess);
  for (int c = 0; c < count; c++)
    assert_int_equal(pncclAllReduce(&x[c], &x[c], 1, tuttiInt, tuttiSum, comms[c], NULL), tuttiSuccess);
  assert_int_equal(pncclGroupEnd(), tuttiSuccess);
  for (int c = 0; c < count; c++) assert_int_equal(x[c], (1 << count) - 1);
}

/* Waits until a communicator is no longer in progress. */
static inline void comm_await(ncclComm_t comm)
{
  ncclResult_t now = tuttiInProgress;
  while (now == tuttiInProgress) {
    usleep(500);
    assert_int_equal(pncclCommGetAsyncError(comm, &now), tuttiSuccess);
  }
  assert_int_equal(now, tuttiSuccess);
}

#endif
