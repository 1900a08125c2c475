/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and collectives called wrongly: each is refused with the reason, or told on the ranks concerned, and nobody
 * waits for ever.
 * Labels: slow. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "meeting.h"
#include "ranks.h"
#include "sched/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 30
#define MOST_RANKS 3

/* On all transports at once: these ranks mostly wait. The last rank ends with `last`, the others with 0. */
static void run_and_expect(int nranks, ranks_body body, void *argument, int last)
{
  int pids[2][MOST_RANKS];
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; t < 2; t++) {
    setenv("TUTTI_TRANSPORTS", t ? "tcp" : "shm", 1);
    assert_int_equal(ranks_start(nranks, body, argument, pids[t]), 0);
  }
  for (int t = 0; t < 2; t++)
    for (int r = 0; r < nranks; r++)
      assert_int_equal(ranks_wait(pids[t][r], LIMIT_S), r == nranks - 1 ? last : 0);
}

static void run_on_all_transports(int nranks, ranks_body body, void *argument)
{
  run_and_expect(nranks, body, argument, 0);
}

/* ---- ends that do not fit ---- */

struct sizes {
  size_t sent, taken;
};

static int sizes_differ_body(const struct ranks *self)
{
  const struct sizes *sizes = self->argument;
  static char data[2000000];
  tuttiComm_t comm;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_ms = 20000;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 2, self->id, self->rank, &config) == tuttiSuccess);
  tuttiResult_t result = self->rank ? tuttiRecv(data, sizes->taken, tuttiUint8, 0, comm, NULL)
                                    : tuttiSend(data, sizes->sent, tuttiUint8, 1, comm, NULL);
  if (!self->rank && result == tuttiSuccess) /* it was handed over; what became of it is told later */
    result = tuttiRecv(data, 1, tuttiUint8, 1, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage);
  RANKS_CHECK(comm_says(comm, "calls differ") && comm_says(comm, "rank 0") && comm_says(comm, "rank 1"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  return 0;
}

static void messages_of_unlike_sizes_are_told_on_both_ends(void **state)
{
  static struct sizes kinds[] = {{10, 11}, {0, 1}, {1, 0}, {2, 1}, {5000, 100}, {1000, 100000}, {2000000, 10},
                                 {300000, 299999}, {1000000, 1000001}};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) run_on_all_transports(2, sizes_differ_body, &kinds[k]);
}

static tuttiResult_t collective_call(int collective, void *in, void *out, tuttiComm_t comm)
{
  enum { COUNT = 100 };
  switch (collective) {
  case TT_ALL_REDUCE: return tuttiAllReduce(in, out, COUNT, tuttiInt32, tuttiSum, comm, NULL);
  case TT_REDUCE: return tuttiReduce(in, out, COUNT, tuttiInt32, tuttiSum, 1, comm, NULL);
  case TT_BROADCAST: return tuttiBroadcast(in, out, COUNT, tuttiInt32, 0, comm, NULL);
  case TT_REDUCE_SCATTER: return tuttiReduceScatter(in, out, COUNT, tuttiInt32, tuttiSum, comm, NULL);
  case TT_ALL_GATHER: return tuttiAllGather(in, out, COUNT, tuttiInt32, comm, NULL);
  case TT_ALL_TO_ALL: return tuttiAlltoAll(in, out, COUNT, tuttiInt32, comm, NULL);
  case TT_GATHER: return tuttiGather(in, out, COUNT, tuttiInt32, 1, comm, NULL);
  default: return tuttiScatter(in, out, COUNT, tuttiInt32, 0, comm, NULL);
  }
}

struct crossing {
  int collective;
  struct meeting *over; /* all ranks of both transports know */
};

/* Rank 0 waits for a message of rank 1, which waits in a collective that needs rank 0. */
static int crossed_body(const struct ranks *self)
{
  static int in[1000], out[1000];
  const struct crossing *crossing = self->argument;
  int collective = crossing->collective;
  tuttiComm_t comm;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_ms = 20000; /* which is another error */
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 3, self->id, self->rank, &config) == tuttiSuccess);
  tuttiResult_t result = self->rank ? collective_call(collective, in, out, comm)
                                    : tuttiRecv(in, 10, tuttiInt32, 1, comm, NULL);
  int rooted_apart = self->rank == 2 && result == tuttiSuccess; /* its part needs nobody */
  if (!rooted_apart) {
    RANKS_CHECK(result == tuttiInvalidUsage);
    RANKS_CHECK(comm_says(comm, "calls differ") && comm_says(comm, "rank 0") && comm_says(comm, "rank 1"));
    RANKS_CHECK(comm_says(comm, "Recv") || comm_says(comm, "essage"));
  }
  RANKS_CHECK(meeting_wait(crossing->over)); /* nobody was told because somebody left */
  tuttiCommDestroy(comm);
  return 0;
}

static void a_receive_across_a_collective_is_told(void **state)
{
  (void)state;
  struct crossing crossing = {.over = meeting_make(2 * 3)};
  assert_non_null(crossing.over);
  for (crossing.collective = TT_ALL_REDUCE; crossing.collective < TT_PAIRS; crossing.collective++)
    run_on_all_transports(3, crossed_body, &crossing);
  meeting_free(crossing.over);
}

/* ---- ends that do not come ---- */

enum end { IS_KILLED, LEAVES, ABORTS, SENDS_ELSEWHERE, SLEEPS, ENDS };

struct missing {
  enum end how;
  _Atomic int told; /* ranks of both transports that know */
};

static int no_end_body(const struct ranks *self)
{
  struct missing *missing = self->argument;
  enum end how = missing->how;
  static int data[200000];
  tuttiComm_t comm;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_ms = 1500;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 3, self->id, self->rank, &config) == tuttiSuccess);
  if (self->rank == 2) {
    usleep(200000);
    if (how == IS_KILLED) raise(SIGKILL);
    if (how == LEAVES) tuttiCommDestroy(comm);
    if (how == ABORTS) tuttiCommAbort(comm);
    if (how == SENDS_ELSEWHERE) tuttiSend(data, 1, tuttiInt32, 1, comm, NULL);
    if (how >= SENDS_ELSEWHERE) {
      while (atomic_load(&missing->told) < 2 * 2) usleep(1000);
      tuttiCommAbort(comm);
    }
    return 0;
  }
  tuttiResult_t result = self->rank ? tuttiSend(data, 200000, tuttiInt32, 2, comm, NULL)
                                    : tuttiRecv(data, 200000, tuttiInt32, 2, comm, NULL);
  if (self->rank && result == tuttiSuccess) result = tuttiRecv(data, 200000, tuttiInt32, 2, comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError || (how == SENDS_ELSEWHERE && result == tuttiInvalidUsage));
  atomic_fetch_add(&missing->told, 1);
  RANKS_CHECK(comm_says(comm, "rank 2"));
  tuttiCommDestroy(comm);
  return 0;
}

static void an_end_that_does_not_come_is_named(void **state)
{
  (void)state;
  struct missing *missing = ranks_shared(sizeof *missing);
  assert_non_null(missing);
  for (missing->how = 0; missing->how < ENDS; missing->how++) {
    atomic_store(&missing->told, 0);
    run_and_expect(3, no_end_body, missing, missing->how == IS_KILLED ? 128 + SIGKILL : 0);
  }
}

/* ---- to oneself ---- */

static int alone_body(const struct ranks *self)
{
  int x[4] = {1, 2, 3, 4}, y[4] = {0};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiSend(x, 4, tuttiInt32, 0, comm, NULL) == tuttiInvalidUsage && says("to itself"));
  RANKS_CHECK(tuttiRecv(x, 4, tuttiInt32, 0, comm, NULL) == tuttiInvalidUsage && says("itself"));
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiSend(x, 4, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiRecv(y, 3, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidUsage && says("size") && !y[0]);
  for (int k = 0; k < 2; k++) { /* nothing is lost */
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    RANKS_CHECK(tuttiRecv(y, 4, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiSend(x, 4, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess && y[3] == 4);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_send_to_oneself_needs_its_receive(void **state)
{
  (void)state;
  run_on_all_transports(1, alone_body, NULL);
}

/* ---- groups left open ---- */

static int open_group_body(const struct ranks *self)
{
  static int x[100], y[100];
  tuttiUniqueId id;
  tuttiComm_t comm, other;
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidUsage && says("tuttiGroupStart"));
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess);
  RANKS_CHECK(tuttiCommInitRank(&other, 1, id, 0) == tuttiSuccess);
  for (int aborts = 0; aborts < 2; aborts++) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(x, y, 100, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiSend(x, 100, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiRecv(y, 100, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiCommFinalize(comm) == tuttiInvalidUsage && says("tuttiGroupEnd")); /* it was forgotten */
    if (aborts) RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
    else RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage && says("3 calls wait"));
    x[0] = 5;
    RANKS_CHECK(tuttiAllReduce(x, y, 100, tuttiInt32, tuttiSum, other, NULL) == tuttiSuccess); /* still inside */
    RANKS_CHECK(y[0] == 0);
    RANKS_CHECK(tuttiGroupEnd() == tuttiRemoteError && says("aborted"));
    RANKS_CHECK(tuttiAllReduce(x, y, 100, tuttiInt32, tuttiSum, other, NULL) == tuttiSuccess && y[0] == 5);
    y[0] = 0;
    RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess);
    RANKS_CHECK(tuttiCommInitRank(&comm, 1, id, 0) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess && tuttiCommDestroy(other) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess); /* left open at the end of the process */
  return 0;
}

static void a_group_left_open_harms_nobody(void **state)
{
  (void)state;
  run_on_all_transports(1, open_group_body, NULL);
}

/* ---- arguments ---- */

static int refused(tuttiResult_t result, tuttiResult_t wanted, const char *words)
{
  if (result != wanted) fprintf(stderr, "result is %d, wanted %d\n", result, wanted);
  return result == wanted && says(words);
}

#define REFUSED(call, words) RANKS_CHECK(refused(call, tuttiInvalidArgument, words))
#define HUGE (SIZE_MAX / 8)

static int counts_and_roots(const struct ranks *self, tuttiComm_t comm)
{
  static int a[64], b[64];
  for (int k = 0; k < 2; k++) {
    int root = k ? 2 : -1;
    const char *words = k ? "root is 2" : "root is -1";
    REFUSED(tuttiReduce(a, b, 4, tuttiInt32, tuttiSum, root, comm, NULL), words);
    REFUSED(tuttiBroadcast(a, b, 4, tuttiInt32, root, comm, NULL), words);
    REFUSED(tuttiBcast(a, 4, tuttiInt32, root, comm, NULL), words);
    REFUSED(tuttiGather(a, b, 4, tuttiInt32, root, comm, NULL), words);
    REFUSED(tuttiScatter(a, b, 4, tuttiInt32, root, comm, NULL), words);
    words = k ? "peer is 2" : "peer is -1";
    REFUSED(tuttiSend(a, 4, tuttiInt32, root, comm, NULL), words);
    REFUSED(tuttiRecv(a, 4, tuttiInt32, root, comm, NULL), words);
  }
  REFUSED(tuttiAllReduce(a, b, HUGE, tuttiInt64, tuttiSum, comm, NULL), "count is");
  REFUSED(tuttiReduceScatter(a, b, HUGE / 2, tuttiInt64, tuttiSum, comm, NULL), "count is");
  REFUSED(tuttiAllGather(a, b, HUGE / 2, tuttiInt64, comm, NULL), "count is");
  REFUSED(tuttiAlltoAll(a, b, HUGE / 2, tuttiInt64, comm, NULL), "count is");
  REFUSED(tuttiGather(a, b, HUGE / 2, tuttiInt64, 0, comm, NULL), "count is");
  REFUSED(tuttiScatter(a, b, HUGE / 2, tuttiInt64, 0, comm, NULL), "count is");
  REFUSED(tuttiSend(a, HUGE, tuttiInt64, 0, comm, NULL), "count is");
  REFUSED(tuttiRecv(a, HUGE, tuttiInt64, 0, comm, NULL), "count is");
  return 0;
}

static int types_and_buffers(const struct ranks *self, tuttiComm_t comm)
{
  static int a[64], b[64];
  int other = !self->rank;
  for (int k = 0; k < 2; k++) {
    tuttiDataType_t type = (tuttiDataType_t)(k ? tuttiNumTypes : -1);
    REFUSED(tuttiReduce(a, b, 4, type, tuttiSum, 0, comm, NULL), "type is");
    REFUSED(tuttiBroadcast(a, b, 4, type, 0, comm, NULL), "type is");
    REFUSED(tuttiReduceScatter(a, b, 4, type, tuttiSum, comm, NULL), "type is");
    REFUSED(tuttiAllGather(a, b, 4, type, comm, NULL), "type is");
    REFUSED(tuttiAlltoAll(a, b, 4, type, comm, NULL), "type is");
    REFUSED(tuttiGather(a, b, 4, type, 0, comm, NULL), "type is");
    REFUSED(tuttiScatter(a, b, 4, type, 0, comm, NULL), "type is");
    REFUSED(tuttiSend(a, 4, type, other, comm, NULL), "type is");
    REFUSED(tuttiRecv(a, 4, type, other, comm, NULL), "type is");
  }
  REFUSED(tuttiReduce(NULL, b, 4, tuttiInt32, tuttiSum, 0, comm, NULL), "sendbuff");
  REFUSED(tuttiReduce(a, NULL, 4, tuttiInt32, tuttiSum, self->rank, comm, NULL), "recvbuff");
  REFUSED(tuttiBroadcast(NULL, b, 4, tuttiInt32, self->rank, comm, NULL), "sendbuff");
  REFUSED(tuttiBroadcast(a, NULL, 4, tuttiInt32, other, comm, NULL), "recvbuff");
  REFUSED(tuttiReduceScatter(NULL, b, 4, tuttiInt32, tuttiSum, comm, NULL), "sendbuff");
  REFUSED(tuttiAllGather(a, NULL, 4, tuttiInt32, comm, NULL), "recvbuff");
  REFUSED(tuttiAlltoAll(NULL, b, 4, tuttiInt32, comm, NULL), "sendbuff");
  REFUSED(tuttiGather(NULL, b, 4, tuttiInt32, other, comm, NULL), "sendbuff");
  REFUSED(tuttiGather(a, NULL, 4, tuttiInt32, self->rank, comm, NULL), "recvbuff");
  REFUSED(tuttiScatter(NULL, b, 4, tuttiInt32, self->rank, comm, NULL), "sendbuff");
  REFUSED(tuttiScatter(a, NULL, 4, tuttiInt32, other, comm, NULL), "recvbuff");
  REFUSED(tuttiSend(NULL, 4, tuttiInt32, other, comm, NULL), "sendbuff");
  REFUSED(tuttiRecv(NULL, 4, tuttiInt32, other, comm, NULL), "recvbuff");
  return 0;
}

/* Two ranks, shares of 4: whatever is not in place to the letter is refused. */
static int overlaps(const struct ranks *self, tuttiComm_t comm)
{
  static int a[64];
  int r = self->rank, *own = a + 16 + 4 * r, *wrong = a + 16 + 4 * !r, *all = a + 16;
  REFUSED(tuttiReduce(all, all + 1, 4, tuttiInt32, tuttiSum, r, comm, NULL), "overlaps");
  REFUSED(tuttiBroadcast(all, all + 3, 4, tuttiInt32, r, comm, NULL), "overlaps");
  REFUSED(tuttiReduceScatter(all, wrong, 4, tuttiInt32, tuttiSum, comm, NULL), "overlaps");
  REFUSED(tuttiReduceScatter(all, all - 3, 4, tuttiInt32, tuttiSum, comm, NULL), "overlaps");
  REFUSED(tuttiAllGather(wrong, all, 4, tuttiInt32, comm, NULL), "overlaps");
  REFUSED(tuttiAllGather(all + 7, all, 4, tuttiInt32, comm, NULL), "overlaps");
  REFUSED(tuttiAlltoAll(all, all + 1, 4, tuttiInt32, comm, NULL), "overlaps");
  REFUSED(tuttiAlltoAll(all, all + 7, 4, tuttiInt32, comm, NULL), "overlaps");
  REFUSED(tuttiGather(wrong, all, 4, tuttiInt32, r, comm, NULL), "overlaps");
  REFUSED(tuttiScatter(all, wrong, 4, tuttiInt32, r, comm, NULL), "overlaps");
  (void)own;
  return 0;
}

/* What only looks like an overlap, or touches what is not looked at. */
static int no_overlaps(const struct ranks *self, tuttiComm_t comm)
{
  static int a[64];
  int r = self->rank, *own = a + 16 + 4 * r, *all = a + 16;
  RANKS_CHECK(tuttiReduce(all, r ? all + 1 : all, 4, tuttiInt32, tuttiSum, 0, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiBroadcast(r ? all + 1 : all, all, 4, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiReduceScatter(all, own, 4, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiReduceScatter(all, all + 8, 4, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiReduceScatter(all, all - 4, 4, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllGather(own, all, 4, tuttiInt32, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllGather(all - 4, all, 4, tuttiInt32, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAlltoAll(all, all, 4, tuttiInt32, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAlltoAll(all, all + 8, 4, tuttiInt32, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGather(r ? all : own, all, 4, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiScatter(all, r ? all + 1 : own, 4, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
  return 0;
}

static int redops(const struct ranks *self, tuttiComm_t comm)
{
  static int a[64], b[64];
  int three = 3;
  tuttiComm_t other;
  tuttiRedOp_t op = tuttiSum, kept;
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &other, NULL) == tuttiSuccess);
  REFUSED(tuttiRedOpCreatePreMulSum(NULL, &three, tuttiInt32, tuttiScalarHostImmediate, comm), "op");
  REFUSED(tuttiRedOpCreatePreMulSum(&op, NULL, tuttiInt32, tuttiScalarHostImmediate, comm), "scalar");
  REFUSED(tuttiRedOpCreatePreMulSum(&op, &three, tuttiNumTypes, tuttiScalarHostImmediate, comm), "type is");
  REFUSED(tuttiRedOpCreatePreMulSum(&op, &three, tuttiInt32, (tuttiScalarResidence_t)2, comm), "residence is 2");
  REFUSED(tuttiRedOpCreatePreMulSum(&op, &three, tuttiInt32, tuttiScalarHostImmediate, NULL), "comm");
  RANKS_CHECK(op == tuttiSum);
  RANKS_CHECK(tuttiRedOpCreatePreMulSum(&op, &three, tuttiInt32, tuttiScalarHostImmediate, comm) == tuttiSuccess);
  REFUSED(tuttiAllReduce(a, b, 4, tuttiInt32, op, other, NULL), "op is");
  REFUSED(tuttiReduce(a, b, 4, tuttiFloat, op, 0, comm, NULL), "float");
  REFUSED(tuttiReduceScatter(a, b, 4, tuttiInt64, op, comm, NULL), "int64");
  REFUSED(tuttiRedOpDestroy(op, other), "op is");
  REFUSED(tuttiRedOpDestroy(tuttiSum, comm), "op is");
  kept = op;
  a[0] = 2;
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(a, b, 4, tuttiInt32, op, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiRedOpDestroy(op, comm) == tuttiSuccess); /* a call already made is not affected */
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess && b[0] == 12);
  REFUSED(tuttiRedOpDestroy(kept, comm), "op is");
  REFUSED(tuttiAllReduce(a, b, 4, tuttiInt32, kept, comm, NULL), "op is");
  REFUSED(tuttiAllReduce(a, b, 4, tuttiInt32, (tuttiRedOp_t)tuttiNumOps, comm, NULL), "op is");
  REFUSED(tuttiAllReduce(a, b, 4, tuttiInt32, (tuttiRedOp_t)-1, comm, NULL), "op is -1");
  RANKS_CHECK(tuttiCommDestroy(other) == tuttiSuccess);
  return 0;
}

static int arguments_body(const struct ranks *self)
{
  int x = 1;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  if (counts_and_roots(self, comm) || types_and_buffers(self, comm) || overlaps(self, comm)) return 1;
  if (no_overlaps(self, comm) || redops(self, comm)) return 1;
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess && x == 2);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_arguments_are_refused_and_nothing_is_lost(void **state)
{
  (void)state;
  run_on_all_transports(2, arguments_body, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_arguments_are_refused_and_nothing_is_lost),
      cmocka_unit_test(a_send_to_oneself_needs_its_receive),
      cmocka_unit_test(a_group_left_open_harms_nobody),
      cmocka_unit_test(messages_of_unlike_sizes_are_told_on_both_ends),
      cmocka_unit_test(a_receive_across_a_collective_is_told),
      cmocka_unit_test(an_end_that_does_not_come_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
