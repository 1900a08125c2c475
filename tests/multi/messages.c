/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between pairs of ranks: to oneself, of no bytes, in any order, to many, of several MiB, with collectives and
 * other communicators in one group, on streams, outside of groups.
 *
 *   test_multi_messages [--seed N]
 * Labels: processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "chance.h"
#include "meeting.h"
#include "ranks.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST 8          /* ranks with random traffic */
#define MESSAGES 6      /* of a pair in a group, at most */
#define GUARD 32
#define PAINT 0x5a
#define LIMIT_S 120

static uint64_t seed;

/* ---- random traffic, drawn alike on all ranks ---- */

struct message {
  int from, to, order;
  size_t bytes;
  char *memory; /* of this rank's end */
  int sends;
};

static uint8_t byte_of(const struct message *message, size_t i)
{
  return (uint8_t)((i * 131 + i / 4099) ^ (size_t)(message->from * 29 + message->to * 7 + message->order * 53));
}

static void fill(const struct message *message, char *at)
{
  for (size_t i = 0; i < message->bytes; i++) at[i] = (char)byte_of(message, i);
}

static int prepare(const struct ranks *self, struct message *message)
{
  message->memory = malloc(message->bytes + 2 * GUARD);
  RANKS_CHECK(message->memory);
  memset(message->memory, PAINT, message->bytes + 2 * GUARD);
  if (message->sends) fill(message, message->memory + GUARD);
  return 0;
}

static int check(const struct ranks *self, struct message *message)
{
  char *want = malloc(message->bytes + 2 * GUARD);
  RANKS_CHECK(want);
  memset(want, PAINT, message->bytes + 2 * GUARD);
  fill(message, want + GUARD);
  RANKS_CHECK(memcmp(want, message->memory, message->bytes + 2 * GUARD) == 0);
  free(want);
  free(message->memory);
  return 0;
}

static size_t bytes_pick(uint64_t *chance)
{
  switch (below(chance, 8)) {
  case 0: return 0;
  case 1: return 1;
  case 2: return 1 + below(chance, 40);
  case 3: return 200000 + below(chance, 400000); /* two stripes, or three */
  case 4: return below(chance, 16) ? 5000 : 3000000 + below(chance, 1000);
  default: return below(chance, 20000);
  }
}

static int call(const struct ranks *self, const struct message *message, tuttiComm_t comm, tuttiStream_t stream)
{
  char *at = message->bytes ? message->memory + GUARD : NULL;
  tuttiResult_t result = message->sends
                             ? tuttiSend(at, message->bytes, tuttiUint8, message->to, comm, stream)
                             : tuttiRecv(at, message->bytes, tuttiUint8, message->from, comm, stream);
  RANKS_CHECK(result == tuttiSuccess);
  return 0;
}

/* This rank's ends of all messages of a round. */
static int ends_draw(const struct ranks *self, uint64_t *chance, struct message *ends)
{
  int n = 0, density = (int)below(chance, 4);
  for (int from = 0; from < self->nranks; from++)
    for (int to = 0; to < self->nranks; to++) {
      int several = density && below(chance, 4) < (size_t)density ? 1 + (int)below(chance, MESSAGES - 1) : 0;
      for (int k = 0; k < several; k++) {
        struct message message = {.from = from, .to = to, .order = k, .bytes = bytes_pick(chance)};
        for (message.sends = 0; message.sends < 2; message.sends++)
          if ((message.sends ? from : to) == self->rank) ends[n++] = message;
      }
    }
  return n;
}

/* Any order, but for that of the messages of one pair and direction. */
static void ends_shuffle(struct message *ends, int n, uint64_t *own)
{
  for (int i = n - 1; i > 0; i--) {
    int k = (int)below(own, (size_t)i + 1);
    struct message kept = ends[i];
    ends[i] = ends[k];
    ends[k] = kept;
  }
  for (int i = 0; i < n; i++)
    for (int k = i + 1; k < n; k++) {
      int same = ends[i].from == ends[k].from && ends[i].to == ends[k].to && ends[i].sends == ends[k].sends;
      if (!same || ends[i].order < ends[k].order) continue;
      struct message kept = ends[i];
      ends[i] = ends[k];
      ends[k] = kept;
    }
}

#define STREAMS 3 /* the first is NULL */

/* One group: the messages, perhaps a collective on the same communicator, nested groups, streams. */
static int round_run(const struct ranks *self, tuttiComm_t comm, tuttiStream_t streams[STREAMS], uint64_t *chance,
                     uint64_t *own)
{
  static struct message ends[4 * MOST * MESSAGES];
  int n = ends_draw(self, chance, ends), with_collective = below(chance, 3) == 0;
  int nstreams = 1 + (int)below(own, STREAMS), sum = self->rank + 1;
  for (int i = 0; i < n; i++)
    if (prepare(self, &ends[i])) return 1;
  ends_shuffle(ends, n, own);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int i = 0; i < n; i++) {
    int nests = below(own, 4) == 0;
    if (nests) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    if (call(self, &ends[i], comm, streams[below(own, (size_t)nstreams)])) return 1;
    if (nests) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    if (with_collective && i == n / 2)
      RANKS_CHECK(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess);
  }
  if (with_collective && !n)
    RANKS_CHECK(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  for (int s = 1; s < STREAMS; s++) RANKS_CHECK(tuttiStreamSynchronize(streams[s]) == tuttiSuccess);
  RANKS_CHECK(!with_collective || sum == self->nranks * (self->nranks + 1) / 2);
  for (int i = 0; i < n; i++)
    if (check(self, &ends[i])) return 1;
  return 0;
}

static int random_traffic_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiStream_t streams[STREAMS] = {NULL};
  uint64_t chance = seed + (uint64_t)self->nranks, own = chance * 31 + (uint64_t)self->rank;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int s = 1; s < STREAMS; s++) RANKS_CHECK(tuttiStreamCreate(&streams[s]) == tuttiSuccess);
  for (int k = 0; k < 12; k++)
    if (round_run(self, comm, streams, &chance, &own)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess); /* before others have taken all that was sent */
  for (int s = 1; s < STREAMS; s++) RANKS_CHECK(tuttiStreamDestroy(streams[s]) == tuttiSuccess);
  return 0;
}

static void run_on(const char *transport, int nranks, ranks_body body)
{
  setenv("TUTTI_TRANSPORTS", transport, 1);
  int bad = ranks_run_processes(nranks, body, NULL, LIMIT_S);
  if (bad) fprintf(stderr, "%d ranks over %s, seed %llu\n", nranks, transport, (unsigned long long)seed);
  assert_int_equal(bad, 0);
}

static void run_on_all_transports(int nranks, ranks_body body)
{
  run_on("shm", nranks, body);
  run_on("tcp", nranks, body);
}

static void random_messages_in_groups_arrive(void **state)
{
  (void)state;
  int is_odd = 0; /* where IS_SLOW each number of ranks is tried on one of the two */
  for (int nranks = 1; nranks <= MOST; nranks += nranks < 4 ? 1 : 2, is_odd = !is_odd) {
    if (!IS_SLOW || !is_odd) run_on("shm", nranks, random_traffic_body);
    if (!IS_SLOW || is_odd) run_on("tcp", nranks, random_traffic_body);
  }
}

/* ---- outside of groups ---- */

static int ping_pong_body(const struct ranks *self)
{
  static const size_t counts[] = {0, 1, 10, 5000, 1000000};
  static int data[1000000];
  tuttiComm_t comm;
  int peer = !self->rank;
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
    for (int k = 0; k < 10; k++) {
      for (size_t i = 0; i < counts[c] && !self->rank; i++) data[i] = (int)i + k;
      if (!self->rank) RANKS_CHECK(tuttiSend(data, counts[c], tuttiInt32, peer, comm, NULL) == tuttiSuccess);
      RANKS_CHECK(tuttiRecv(data, counts[c], tuttiInt32, peer, comm, NULL) == tuttiSuccess);
      for (size_t i = 0; i < counts[c]; i++) {
        RANKS_CHECK(data[i] == (int)i + k + !self->rank);
        data[i]++;
      }
      if (self->rank) RANKS_CHECK(tuttiSend(data, counts[c], tuttiInt32, peer, comm, NULL) == tuttiSuccess);
    }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void messages_outside_of_groups_go_to_and_fro(void **state)
{
  (void)state;
  run_on_all_transports(2, ping_pong_body);
}

/* The sender is gone when the receiver comes. */
static int late_body(const struct ranks *self)
{
  enum { COUNT = 3000 };
  int data[COUNT], peer = !self->rank;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  for (int round = 0; round < 3; round++) {
    if (self->rank) usleep(300000);
    for (int i = 0; i < COUNT; i++) data[i] = self->rank ? 0 : i + round;
    if (self->rank) RANKS_CHECK(tuttiRecv(data, COUNT, tuttiInt32, peer, comm, NULL) == tuttiSuccess);
    else RANKS_CHECK(tuttiSend(data, COUNT, tuttiInt32, peer, comm, NULL) == tuttiSuccess);
    for (int i = 0; i < COUNT; i++) RANKS_CHECK(data[i] == i + round);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void what_a_rank_sent_before_it_left_arrives(void **state)
{
  (void)state;
  run_on_all_transports(2, late_body);
}

/* One end in a group, the other call by call, of sizes that use more and fewer lanes. */
static int unlike_groups_body(const struct ranks *self)
{
  static const size_t counts[] = {1, 300000, 0, 5, 700000, 17, 90000, 2};
  enum { MANY = sizeof counts / sizeof counts[0] };
  static int data[MANY][700000];
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  for (int grouped = 0; grouped < 2; grouped++) { /* whose calls are grouped */
    if (self->rank == grouped) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int m = 0; m < MANY; m++) {
      for (size_t i = 0; i < counts[m]; i++) data[m][i] = self->rank ? -1 : m * 1000000 + (int)i;
      tuttiResult_t result = self->rank ? tuttiRecv(data[m], counts[m], tuttiInt32, 0, comm, NULL)
                                        : tuttiSend(data[m], counts[m], tuttiInt32, 1, comm, NULL);
      RANKS_CHECK(result == tuttiSuccess);
    }
    if (self->rank == grouped) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    for (int m = 0; m < MANY; m++)
      for (size_t i = 0; i < counts[m]; i++) RANKS_CHECK(data[m][i] == m * 1000000 + (int)i);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void the_ends_of_messages_may_be_grouped_unlike(void **state)
{
  (void)state;
  run_on_all_transports(2, unlike_groups_body);
}

/* Rank 0 sends to 1 and 2 at once; 2 waits for 1 first, which waits for rank 0's message. */
static int no_third_rank_body(const struct ranks *self)
{
  int x = 7, y = 0;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, 3, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 0) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int peer = 2; peer > 0; peer--)
      RANKS_CHECK(tuttiSend(&x, 1, tuttiInt32, peer, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  } else {
    if (self->rank == 2) RANKS_CHECK(tuttiRecv(&y, 1, tuttiInt32, 1, comm, NULL) == tuttiSuccess && y == 7);
    RANKS_CHECK(tuttiRecv(&y, 1, tuttiInt32, 0, comm, NULL) == tuttiSuccess && y == 7);
    if (self->rank == 1) RANKS_CHECK(tuttiSend(&y, 1, tuttiInt32, 2, comm, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_message_waits_for_no_third_rank(void **state)
{
  (void)state;
  run_on_all_transports(3, no_third_rank_body);
}

/* ---- a ring; several communicators ---- */

static int ring_body(const struct ranks *self)
{
  enum { COUNT = 50000 };
  static int token[COUNT], came[COUNT];
  tuttiComm_t comm;
  int n = self->nranks, right = (self->rank + 1) % n, left = (self->rank + n - 1) % n;
  RANKS_CHECK(tuttiCommInitRank(&comm, n, self->id, self->rank) == tuttiSuccess);
  for (int i = 0; i < COUNT; i++) token[i] = self->rank * COUNT + i;
  for (int step = 0; step < n; step++) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    RANKS_CHECK(tuttiSend(token, COUNT, tuttiInt32, right, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiRecv(came, COUNT, tuttiInt32, left, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    memcpy(token, came, sizeof token);
  }
  for (int i = 0; i < COUNT; i++) RANKS_CHECK(token[i] == self->rank * COUNT + i); /* round once */
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_ring_of_twelve_turns_once(void **state)
{
  (void)state;
  run_on_all_transports(12, ring_body);
}

/* All ranks live in one process: one thread calls for all of them, on two communicators, in one group. */
static int several_communicators_body(const struct ranks *self)
{
  enum { RANKS = 4, COUNT = 20000 };
  static int in[2][RANKS][COUNT], out[2][RANKS][COUNT], sum[2][RANKS];
  tuttiComm_t comms[2][RANKS];
  tuttiStream_t stream;
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  for (int c = 0; c < 2; c++) RANKS_CHECK(tuttiCommInitAll(comms[c], RANKS, NULL) == tuttiSuccess);
  for (int round = 0; round < 10; round++) {
    memset(out, 0, sizeof out);
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int c = 0; c < 2; c++)
      for (int r = 0; r < RANKS; r++) {
        tuttiStream_t at = c && r % 2 ? stream : NULL;
        sum[c][r] = r;
        for (int i = 0; i < COUNT; i++) in[c][r][i] = c * 7919 + r * COUNT + i + round;
        RANKS_CHECK(tuttiSend(in[c][r], COUNT, tuttiInt32, (r + c + 1) % RANKS, comms[c][r], at) == tuttiSuccess);
        RANKS_CHECK(tuttiAllReduce(&sum[c][r], &sum[c][r], 1, tuttiInt32, tuttiSum, comms[c][r], at) == tuttiSuccess);
        int from = (r + RANKS - c - 1) % RANKS;
        RANKS_CHECK(tuttiRecv(out[c][r], COUNT, tuttiInt32, from, comms[c][r], at) == tuttiSuccess);
      }
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess && tuttiStreamSynchronize(stream) == tuttiSuccess);
    for (int c = 0; c < 2; c++)
      for (int r = 0; r < RANKS; r++) {
        RANKS_CHECK(sum[c][r] == 6);
        RANKS_CHECK(memcmp(out[c][r], in[c][(r + RANKS - c - 1) % RANKS], sizeof out[c][r]) == 0);
      }
  }
  for (int c = 0; c < 2; c++)
    for (int r = 0; r < RANKS; r++) RANKS_CHECK(tuttiCommDestroy(comms[c][r]) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  return 0;
}

static void messages_of_several_communicators_share_a_group(void **state)
{
  (void)state;
  run_on_all_transports(1, several_communicators_body);
}

/* ---- streams ---- */

static int streams_body(const struct ranks *self)
{
  enum { COUNT = 1000, ROUNDS = 50 };
  static int data[ROUNDS][COUNT], came[ROUNDS][COUNT];
  tuttiComm_t comm;
  tuttiStream_t streams[2];
  int n = self->nranks, right = (self->rank + 1) % n, left = (self->rank + n - 1) % n;
  RANKS_CHECK(tuttiCommInitRank(&comm, n, self->id, self->rank) == tuttiSuccess);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamCreate(&streams[s]) == tuttiSuccess);
  for (int k = 0; k < ROUNDS; k++) {
    for (int i = 0; i < COUNT; i++) data[k][i] = self->rank * 1000000 + k * COUNT + i;
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    RANKS_CHECK(tuttiRecv(came[k], COUNT, tuttiInt32, left, comm, streams[k % 2]) == tuttiSuccess);
    RANKS_CHECK(tuttiSend(data[k], COUNT, tuttiInt32, right, comm, streams[k / 2 % 2]) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    if (k % 7 == 3)
      RANKS_CHECK(tuttiAllReduce(came[k], came[k], COUNT, tuttiInt32, tuttiMax, comm, streams[k % 2]) ==
                  tuttiSuccess);
  }
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamSynchronize(streams[s]) == tuttiSuccess);
  for (int k = 0; k < ROUNDS; k++)
    for (int i = 0; i < COUNT; i++)
      RANKS_CHECK(came[k][i] == (k % 7 == 3 ? n - 1 : left) * 1000000 + k * COUNT + i);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamDestroy(streams[s]) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void messages_on_streams_keep_their_order(void **state)
{
  (void)state;
  run_on_all_transports(3, streams_body);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_messages_in_groups_arrive),
      cmocka_unit_test(messages_outside_of_groups_go_to_and_fro),
      cmocka_unit_test(what_a_rank_sent_before_it_left_arrives),
      cmocka_unit_test(the_ends_of_messages_may_be_grouped_unlike),
      cmocka_unit_test(a_message_waits_for_no_third_rank),
      cmocka_unit_test(a_ring_of_twelve_turns_once),
      cmocka_unit_test(messages_of_several_communicators_share_a_group),
      cmocka_unit_test(messages_on_streams_keep_their_order),
  };
  seed = (uint64_t)time(NULL) * 1000;
  if (argc > 2 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
  printf("seed %llu\n", (unsigned long long)seed);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
