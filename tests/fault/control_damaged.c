/* SPDX-License-Identifier: BSD-3-Clause */
/* A control frame is changed, repeated or left out on its way to another host, or a frame of data is changed: both
 * ranks hear that, and not that somebody died. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* Places of a frame's magic, type, rank and body are changed. */
enum deed { NOTHING, CHANGE_MAGIC, CHANGE_TYPE, CHANGE_RANK, CHANGE_BODY, REPEAT, LEAVE_OUT, CHANGE_DATA };
static const int places[] = {
    [CHANGE_MAGIC] = 2, [CHANGE_TYPE] = 6, [CHANGE_RANK] = 9, [CHANGE_BODY] = 50, [CHANGE_DATA] = 20};
static _Atomic int next_deed;

/* Instead of the C library's. A control frame has 80 bytes and begins with "ttc", one of data with "TT". */
ssize_t send(int fd, const void *data, size_t len, int flags)
{
  uint8_t changed[128];
  int is_meant = atomic_load(&next_deed) == CHANGE_DATA ? len <= sizeof changed && memcmp(data, "TT", 2) == 0
                                                        : len == 80 && memcmp(data, "ttc", 3) == 0;
  enum deed deed = is_meant ? (enum deed)atomic_exchange(&next_deed, NOTHING) : NOTHING;
  if (deed == LEAVE_OUT) return (ssize_t)len;
  if (deed == REPEAT) syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
  if (deed == NOTHING || deed == REPEAT) return syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
  memcpy(changed, data, len);
  changed[places[deed]] ^= 4;
  return syscall(SYS_sendto, fd, changed, len, flags, NULL, 0);
}

static int meet_a_change(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiResult_t result;
  float x = 1;
  setenv("TUTTI_HOSTID", self->rank ? "there" : "here", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  result = tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL);
  RANKS_CHECK(result == tuttiSuccess || self->rank > 0); /* rank 0 may go on while rank 1 is in this call */
  atomic_store(&next_deed, self->rank == 0 ? *(const int *)self->argument : NOTHING);
  while (result == tuttiSuccess) result = tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiMax, comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError);
  fprintf(stderr, "rank %d: %s\n", self->rank, tuttiGetLastError(comm));
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "rank 0") && strstr(tuttiGetLastError(comm), "on the way changes data"));
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "TUTTI_AUTH"));
  tuttiCommAbort(comm);
  return 0;
}

static void a_control_frame_otherwise_than_sent_is_told_on_both_sides(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 0);
  for (int deed = CHANGE_MAGIC; deed <= LEAVE_OUT; deed++)
    assert_int_equal(ranks_run_processes(2, meet_a_change, &deed, 60), 0);
}

static void a_frame_of_data_otherwise_than_sent_is_told_on_both_sides(void **state)
{
  (void)state;
  int deed = CHANGE_DATA;
  setenv("TUTTI_AUTH", "data", 1);
  assert_int_equal(ranks_run_processes(2, meet_a_change, &deed, 60), 0);
  setenv("TUTTI_AUTH", "encrypt", 1);
  assert_int_equal(ranks_run_processes(2, meet_a_change, &deed, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_control_frame_otherwise_than_sent_is_told_on_both_sides),
      cmocka_unit_test(a_frame_of_data_otherwise_than_sent_is_told_on_both_sides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
