/* SPDX-License-Identifier: BSD-3-Clause */
/* The root of a start-up dies while it sends its last frames: rank 1 has its communicator, rank 2 has none. Rank 1
 * hears of the death, and not that rank 2 had left.
 * Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/wire_private.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 3, ROUNDS = 3, LIMIT_S = 60 };

struct facts {
  _Atomic int is_root, pid; /* is_root: pid of the process that counts frames */
  _Atomic int frames;       /* with the bytes of all ranks, sent so far */
};

static struct facts *facts;

/* Instead of the C library's: the last frame, which is for rank 2, is never sent. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  struct tt_start_frame head;
  if (facts && atomic_load(&facts->is_root) == getpid() && message->msg_iov[0].iov_len == sizeof head) {
    memcpy(&head, message->msg_iov[0].iov_base, sizeof head);
    if (head.kind == TT_START_PEER_INFOS && atomic_fetch_add(&facts->frames, 1) == ROUNDS * RANKS - 1) raise(SIGKILL);
  }
  return syscall(SYS_sendmsg, fd, message, flags);
}

static int body(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  char pid[24];
  int x = 1;
  static const char *const hosts[] = {"a", "b", "c"}; /* what has become of a rank is known there after a while */
  setenv("TUTTI_HOSTID", hosts[self->rank], 1);
  if (self->rank == 0) atomic_store(&facts->pid, getpid());
  if (self->rank == 0) atomic_store(&facts->is_root, getpid());
  tuttiResult_t result = tuttiCommInitRank(&comm, self->nranks, self->id, self->rank);
  RANKS_CHECK(self->rank == 1 ? result == tuttiSuccess : result == tuttiRemoteError);
  if (self->rank == 1) raise(SIGSTOP); /* its clocks stand still until rank 2 has ended */
  while (result == tuttiSuccess) result = tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiMax, comm, NULL);
  snprintf(pid, sizeof pid, "pid %d ", atomic_load(&facts->pid));
  RANKS_CHECK(result == tuttiRemoteError && says(pid));
  if (comm) tuttiCommDestroy(comm);
  return 0;
}

static void a_death_at_the_end_of_a_start_up_is_known_to_all(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 0);
  int pids[RANKS], status;
  facts = ranks_shared(sizeof *facts);
  assert_int_equal(ranks_start(RANKS, body, NULL, pids), 0);
  assert_int_equal(ranks_wait(pids[0], LIMIT_S), 128 + SIGKILL);
  assert_true(waitpid(pids[1], &status, WUNTRACED) == pids[1] && WIFSTOPPED(status));
  assert_int_equal(ranks_wait(pids[2], LIMIT_S), 0);
  kill(pids[1], SIGCONT);
  assert_int_equal(ranks_wait(pids[1], LIMIT_S), 0);
  assert_int_equal(atomic_load(&facts->frames), ROUNDS * RANKS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_death_at_the_end_of_a_start_up_is_known_to_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
