/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags (tutti_message.h) on every transport, bare and decorated: each is received once, whole, by whoever
 * wants its sender and tag, in the order of sending, whatever the order of receives; operations and other threads go on
 * beside them; more urgent ones overtake; a damaged head, a rank that dies, and a room that is too small are errors
 * that name it.
 *
 *   test_multi_tags [--seed N] [--rounds N]
 * Labels: processes. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "chance.h"
#include "comm/private.h"
#include "decorations.h"
#include "exec/private.h"
#include "ranks.h"
#include "slow.h"
#include "tutti_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { MOST_RANKS = 4, MESSAGES = 160, TAGS = 3, LIMIT_S = 60 };

static uint64_t seed = 1;
static int rounds = IS_SLOW ? 1 : 2;

static void set(const char *name, const char *value)
{
  if (value) setenv(name, value, 1);
  else unsetenv(name);
}

static void on_all(int nranks, ranks_body body, void *argument, int ndecorations)
{
  set("TUTTI_DEBUG", "NONE");
  for (int t = 0; ranks_transports(t); t++)
    for (int d = 0; d < ndecorations; d++) {
      set("TUTTI_TRANSPORTS", ranks_transports(t));
      set("TUTTI_TRACE", decorations[d].trace);
      set("TUTTI_FAULT", decorations[d].fault);
      int bad = ranks_run_processes(nranks, body, argument, LIMIT_S);
      set("TUTTI_TRACE", NULL);
      set("TUTTI_FAULT", NULL);
      if (bad) fail_msg("%s%s", ranks_transports(t), decorations[d].name);
    }
}

static int comm_get(const struct ranks *self, tuttiComm_t *comm)
{
  RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  return 0;
}

/* ---- drawn traffic, the same on all ranks ---- */

enum wants { WANTS_BOTH, WANTS_TAG, WANTS_SOURCE, WANTS_ANY, WANTS };

struct letter {
  int from, to, tag, is_taken;
  size_t bytes;
  uint8_t *data;
  tuttiMessage_t sent;
};

struct receive {
  int source, tag;
  uint8_t *data;
  tuttiMessage_t message;
};

struct traffic {
  struct letter letters[MESSAGES];
  struct receive receives[MESSAGES];
  int nreceives;
  size_t longest;
  uint64_t chance;
};

static uint8_t byte_of(int k, size_t i)
{
  return (uint8_t)(i * 7 + i / 251 + (size_t)k * 31);
}

static size_t bytes_draw(uint64_t *chance)
{
  switch (below(chance, 6)) {
  case 0: return 0;
  case 1: return 1 + below(chance, 40);
  case 2: return TT_SLICE_BYTES + below(chance, 3) - 1;
  case 3: return below(chance, 10) ? below(chance, 70000) : 2000000 + below(chance, 1000);
  default: return below(chance, 3000);
  }
}

static void traffic_draw(struct traffic *traffic, int nranks, enum wants wants, int rank)
{
  for (int k = 0; k < MESSAGES; k++) {
    struct letter *letter = &traffic->letters[k];
    *letter = (struct letter){.from = (int)below(&traffic->chance, (size_t)nranks),
                              .to = (int)below(&traffic->chance, (size_t)nranks),
                              .tag = (int)below(&traffic->chance, TAGS),
                              .bytes = bytes_draw(&traffic->chance)};
    if (letter->bytes > traffic->longest) traffic->longest = letter->bytes;
    if (letter->to != rank) continue;
    traffic->receives[traffic->nreceives++] = (struct receive){
        .source = wants == WANTS_TAG || wants == WANTS_ANY ? TUTTI_ANY_SOURCE : letter->from,
        .tag = wants == WANTS_SOURCE || wants == WANTS_ANY ? TUTTI_ANY_TAG : letter->tag};
  }
}

static int letter_send(const struct ranks *self, tuttiComm_t comm, struct letter *letter, int k)
{
  if (letter->from != self->rank) return 0;
  letter->data = malloc(letter->bytes + 1);
  RANKS_CHECK(letter->data);
  for (size_t i = 0; i < letter->bytes; i++) letter->data[i] = byte_of(k, i);
  RANKS_CHECK(tuttiIsendTag(letter->data, letter->bytes, tuttiUint8, letter->to, letter->tag, comm, &letter->sent) ==
              tuttiSuccess);
  return 0;
}

static int receive_begin(const struct ranks *self, tuttiComm_t comm, struct receive *receive, size_t longest)
{
  receive->data = malloc(longest + 1);
  RANKS_CHECK(receive->data);
  RANKS_CHECK(tuttiIrecvTag(receive->data, longest, tuttiUint8, receive->source, receive->tag, comm,
                            &receive->message) == tuttiSuccess);
  return 0;
}

/* It is the first one from there with that tag that was not taken: receives are waited for in their order. If the
 * receive wants any tag, it is the first one from there at all. */
static int receive_end(const struct ranks *self, struct traffic *traffic, struct receive *receive)
{
  tuttiMessageInfo_t info = {.size = sizeof info};
  RANKS_CHECK(tuttiMessageWait(&receive->message, -1, &info) == tuttiSuccess && !receive->message);
  int k = 0;
  for (; k < MESSAGES; k++) {
    const struct letter *letter = &traffic->letters[k];
    if (letter->to != self->rank || letter->is_taken || letter->from != info.source) continue;
    if (receive->tag == TUTTI_ANY_TAG || letter->tag == info.tag) break;
  }
  RANKS_CHECK(k < MESSAGES && traffic->letters[k].tag == info.tag && traffic->letters[k].bytes == info.bytes);
  RANKS_CHECK(receive->source == TUTTI_ANY_SOURCE || receive->source == info.source);
  RANKS_CHECK(receive->tag == TUTTI_ANY_TAG || receive->tag == info.tag);
  for (size_t i = 0; i < info.bytes; i++) RANKS_CHECK(receive->data[i] == byte_of(k, i));
  traffic->letters[k].is_taken = 1;
  free(receive->data);
  return 0;
}

/* Sends and receives in turn, with operations between; each rank in another order of both. */
static int traffic_run(const struct ranks *self, tuttiComm_t comm, struct traffic *traffic)
{
  uint64_t chance = traffic->chance + (uint64_t)self->rank, common = traffic->chance;
  int sent = 0, begun = 0;
  while (sent < MESSAGES || begun < traffic->nreceives) {
    int sends = begun == traffic->nreceives || (sent < MESSAGES && below(&chance, 2));
    if (sends && letter_send(self, comm, &traffic->letters[sent], sent)) return 1;
    if (!sends && receive_begin(self, comm, &traffic->receives[begun], traffic->longest)) return 1;
    if (sends) sent++;
    else begun++;
    if (below(&chance, 16) == 0) sched_yield();
    if (sends && below(&common, 20) == 0 && comm_try(self, comm, self->nranks)) return 1;
  }
  for (int k = 0; k < traffic->nreceives; k++)
    if (receive_end(self, traffic, &traffic->receives[k])) return 1;
  for (int k = 0; k < MESSAGES; k++) {
    struct letter *letter = &traffic->letters[k];
    if (letter->from != self->rank) continue;
    RANKS_CHECK(tuttiMessageWait(&letter->sent, -1, NULL) == tuttiSuccess);
    free(letter->data);
  }
  return 0;
}

static int traffic_body(const struct ranks *self)
{
  tuttiComm_t comm;
  if (comm_get(self, &comm)) return 1;
  for (int round = 0; round < rounds * WANTS; round++) {
    struct traffic *traffic = calloc(1, sizeof *traffic);
    traffic->chance = seed * 1000 + (uint64_t)round;
    traffic_draw(traffic, self->nranks, (enum wants)(round % WANTS), self->rank);
    if (traffic_run(self, comm, traffic)) return 1;
    free(traffic);
    RANKS_CHECK(comm_try(self, comm, self->nranks) == 0); /* or messages of two rounds are mixed */
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void messages_come_once_to_the_first_that_wants_them(void **state)
{
  (void)state;
  on_all(3, traffic_body, NULL, DECORATIONS);
}

/* ---- one message at a time ---- */

static int calls_body(const struct ranks *self)
{
  tuttiComm_t comm;
  int32_t in[2] = {0, 0}, out[2] = {self->rank, 7};
  int peer = 1 - self->rank;
  tuttiMessageInfo_t info = {.size = sizeof info};
  if (comm_get(self, &comm)) return 1;
  /* to oneself, also before it is wanted */
  RANKS_CHECK(tuttiSendTag(out, 2, tuttiInt32, self->rank, 4, comm) == tuttiSuccess);
  RANKS_CHECK(tuttiRecvTag(in, 2, tuttiInt32, TUTTI_ANY_SOURCE, 4, comm, &info) == tuttiSuccess);
  RANKS_CHECK(in[0] == self->rank && in[1] == 7 && info.source == self->rank && info.tag == 4 && info.bytes == 8);
  for (int k = 0; k < 300; k++) { /* there and back */
    out[0] = k;
    if (self->rank == 0) RANKS_CHECK(tuttiSendTag(out, 2, tuttiInt32, peer, k, comm) == tuttiSuccess);
    RANKS_CHECK(tuttiRecvTag(in, 2, tuttiInt32, peer, k, comm, NULL) == tuttiSuccess && in[0] == k);
    if (self->rank == 1) RANKS_CHECK(tuttiSendTag(in, 2, tuttiInt32, peer, k, comm) == tuttiSuccess);
  }
  if (self->rank == 0) { /* the receiver is asleep by then */
    usleep(60000);
    RANKS_CHECK(tuttiSendTag(NULL, 0, tuttiInt32, peer, 1, comm) == tuttiSuccess);
    RANKS_CHECK(tuttiSendTag(out, 2, tuttiInt32, peer, 2, comm) == tuttiSuccess);
    RANKS_CHECK(tuttiSendTag(out, 2, tuttiInt32, peer, 3, comm) == tuttiSuccess);
  } else {
    RANKS_CHECK(tuttiRecvTag(in, 2, tuttiInt32, peer, 3, comm, &info) == tuttiSuccess && info.tag == 3);
    RANKS_CHECK(tuttiRecvTag(in, 1, tuttiInt32, peer, 2, comm, &info) == tuttiInvalidArgument);
    RANKS_CHECK(info.tag == 2 && info.bytes == 8);
    RANKS_CHECK(says("the message of rank 0 with tag 2 has 8 bytes, and there is room for 4"));
    RANKS_CHECK(tuttiRecvTag(in, 2, tuttiInt32, peer, TUTTI_ANY_TAG, comm, &info) == tuttiSuccess && info.tag == 1);
    RANKS_CHECK(info.bytes == 0);
  }
  if (comm_try(self, comm, 2)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void calls_wait_for_their_own_message(void **state)
{
  (void)state;
  on_all(2, calls_body, NULL, 1);
}

static int refused_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiMessage_t message = NULL;
  char x = 0;
  if (comm_get(self, &comm)) return 1;
  RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 2, 0, comm) == tuttiInvalidArgument && says("peer is 2"));
  RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, TUTTI_ANY_SOURCE, 0, comm) == tuttiInvalidArgument && says("peer is -1"));
  RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 0, TUTTI_ANY_TAG, comm) == tuttiInvalidArgument && says("tag is -1"));
  RANKS_CHECK(tuttiSendTag(NULL, 1, tuttiUint8, 0, 0, comm) == tuttiInvalidArgument && says("sendbuff is NULL"));
  RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, -2, 0, comm, NULL) == tuttiInvalidArgument && says("peer is -2"));
  RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, 0, -2, comm, NULL) == tuttiInvalidArgument && says("tag is -2"));
  RANKS_CHECK(tuttiRecvTag(&x, 1, (tuttiDataType_t)99, 0, 0, comm, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, 0, 0, comm, &(tuttiMessageInfo_t){0}) == tuttiInvalidArgument &&
              says("info.size is 0"));
  RANKS_CHECK(tuttiIrecvTag(&x, 1, tuttiUint8, 0, 0, comm, NULL) == tuttiInvalidArgument && says("message is NULL"));
  RANKS_CHECK(tuttiMessageWait(&message, 0, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiMessageFree(&message) == tuttiSuccess && tuttiMessageFree(NULL) == tuttiSuccess);
  /* one that never comes */
  RANKS_CHECK(tuttiIrecvTag(&x, 1, tuttiUint8, self->rank, 0, comm, &message) == tuttiSuccess);
  RANKS_CHECK(tuttiMessageWait(&message, 5, NULL) == tuttiInProgress && message);
  if (comm_try(self, comm, 2)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiMessageWait(&message, -1, NULL) == tuttiInvalidUsage && !message);
  RANKS_CHECK(says("the communicator has ended, and this message with tag 0 has not"));
  return 0;
}

static void wrong_arguments_are_refused_and_nothing_is_left(void **state)
{
  (void)state;
  on_all(2, refused_body, NULL, 1);
}

/* ---- beside operations ---- */

#define LONG_BYTES 6000000

/* A message that was begun moves while its receiver is in a collective, and so does what another thread does. */
static void *thread_run(void *argument)
{
  tuttiComm_t comm = argument;
  int32_t x = 5, y = 0;
  tuttiResult_t result = tuttiSendTag(&x, 1, tuttiInt32, 1, 8, comm);
  if (result == tuttiSuccess) result = tuttiRecvTag(&y, 1, tuttiInt32, 1, 9, comm, NULL);
  return result == tuttiSuccess && y == 6 ? argument : NULL;
}

static int beside_body(const struct ranks *self)
{
  tuttiComm_t comm;
  pthread_t thread;
  tuttiMessage_t message;
  void *said;
  int32_t x = 0;
  char *memory = calloc(1, LONG_BYTES);
  RANKS_CHECK(memory);
  if (comm_get(self, &comm) || comm_try(self, comm, 2)) return 1;
  if (self->rank == 0) {
    RANKS_CHECK(tuttiIrecvTag(memory, LONG_BYTES, tuttiUint8, 1, 1, comm, &message) == tuttiSuccess);
    if (comm_try(self, comm, 2)) return 1;
    RANKS_CHECK(tuttiMessageWait(&message, -1, NULL) == tuttiSuccess && memory[LONG_BYTES - 1] == 3);
    RANKS_CHECK(pthread_create(&thread, NULL, thread_run, comm) == 0);
    for (int k = 0; k < 20; k++)
      if (comm_try(self, comm, 2)) return 1;
    RANKS_CHECK(pthread_join(thread, &said) == 0 && said);
  } else {
    memory[LONG_BYTES - 1] = 3;
    RANKS_CHECK(tuttiSendTag(memory, LONG_BYTES, tuttiUint8, 0, 1, comm) == tuttiSuccess);
    if (comm_try(self, comm, 2)) return 1;
    for (int k = 0; k < 10; k++)
      if (comm_try(self, comm, 2)) return 1;
    usleep(30000); /* rank 0 waits in an operation by now */
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiInt32, 0, 8, comm, NULL) == tuttiSuccess && x == 5);
    x = 6;
    RANKS_CHECK(tuttiSendTag(&x, 1, tuttiInt32, 0, 9, comm) == tuttiSuccess);
    for (int k = 0; k < 10; k++)
      if (comm_try(self, comm, 2)) return 1;
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  free(memory);
  return 0;
}

static void messages_and_operations_go_on_beside_each_other(void **state)
{
  (void)state;
  on_all(2, beside_body, NULL, 1);
}

/* ---- two engines in one thread ---- */

struct both {
  tuttiComm_t comms[2];
  struct tt_messages *engines[2];
};

static int both_poll(struct both *both)
{
  int moved = 0;
  for (int e = 0; e < 2; e++) tt_messages_poll(both->engines[e], &moved);
  return moved;
}

static void poll_until_over(struct both *both, int e, const struct tt_message *wanted)
{
  for (;;) {
    struct tt_message *over = tt_messages_over(both->engines[e]);
    if (over == wanted) return;
    assert_null(over);
    both_poll(both);
  }
}

static void both_make(struct both *both)
{
  tuttiUniqueId id;
  assert_int_equal(tuttiGetUniqueId(&id), tuttiSuccess);
  assert_int_equal(tuttiGroupStart(), tuttiSuccess);
  for (int r = 0; r < 2; r++) assert_int_equal(tuttiCommInitRank(&both->comms[r], 2, id, r), tuttiSuccess);
  assert_int_equal(tuttiGroupEnd(), tuttiSuccess);
  for (int r = 0; r < 2; r++)
    assert_int_equal(tt_messages_create(&both->engines[r], both->comms[r]->parts.exec), tuttiSuccess);
}

static void both_free(struct both *both)
{
  for (int r = 0; r < 2; r++) {
    tt_messages_destroy(both->engines[r]);
    tuttiCommDestroy(both->comms[r]);
  }
}

/* The long one is on its way when the urgent one comes. */
static void an_urgent_message_overtakes_at_a_slice(void **state)
{
  (void)state;
  struct both both;
  static char out[24 << 20], in[24 << 20];
  char x = 1, y = 0;
  set("TUTTI_TRANSPORTS", NULL);
  both_make(&both);
  struct tt_message longs = {.peer = 1, .tag = 1, .sends = 1, .urgency = 5, .data = out, .bytes = sizeof out};
  struct tt_message urgent = {.peer = 1, .tag = 2, .sends = 1, .urgency = 1, .data = &x, .bytes = 1};
  struct tt_message first = {.peer = 0, .tag = TT_ANY, .data = in, .bytes = sizeof in};
  struct tt_message second = {.peer = TT_ANY, .tag = TT_ANY, .data = &y, .bytes = 1};
  int moved = 0;
  assert_int_equal(tt_messages_add(both.engines[1], &first), tuttiSuccess);
  assert_int_equal(tt_messages_add(both.engines[1], &second), tuttiSuccess);
  assert_int_equal(tt_messages_add(both.engines[0], &longs), tuttiSuccess);
  while (!longs.sent) both_poll(&both);
  for (moved = 1; moved;) { /* until the link is full */
    moved = 0;
    assert_int_equal(tt_messages_poll(both.engines[0], &moved), tuttiSuccess);
  }
  assert_int_equal(tt_messages_add(both.engines[0], &urgent), tuttiSuccess);
  poll_until_over(&both, 1, &second);
  assert_int_equal(y, 1);
  assert_int_equal(second.tag, 2);
  poll_until_over(&both, 1, &first);
  assert_int_equal(first.bytes, sizeof in);
  both_free(&both);
}

struct wire_head {
  uint32_t magic, len;
  uint64_t number, total, start;
  int32_t tag, source;
  char small[24];
};

/* Sends a head over the link of messages, its op-th, as no correct rank does; returns what the receiver says to it. */
static tuttiResult_t head_send(struct both *both, const struct wire_head *head, uint64_t op)
{
  struct tt_exec *exec = both->comms[0]->parts.exec;
  struct tt_link *link;
  struct tt_call call = {.op = op, .count = sizeof *head, .collective = TT_PAIRS, .type = tuttiUint8, .root = -1};
  struct tt_head of_link = {tt_call_word(&call), sizeof *head, &call, 0};
  int moved = 0;
  while (tt_exec_link(exec, 1, exec->lanes, &link) == tuttiInProgress) tt_messages_poll(both->engines[1], &moved);
  link->ops->send_begin(link, &of_link);
  tuttiResult_t result = tuttiSuccess;
  for (size_t done = 0, idle = 0; result == tuttiSuccess && idle < 1000; idle++) {
    ssize_t n = done < sizeof *head ? link->ops->send(link, (const char *)head + done, sizeof *head - done) : 0;
    assert_true(n >= 0);
    done += (size_t)n;
    moved = 0;
    result = tt_messages_poll(both->engines[1], &moved);
    if (n || moved) idle = 0;
  }
  return result;
}

static void a_head_with_one_wrong_field_is_refused(void **state)
{
  (void)state;
  const struct wire_head right = {0x6761546du, 8, 1, 8, 0, 3, 0, {0}};
  static const char *const fields[] = {"magic", "slice", "number", "length", "start", "tag", "sender"};
  char x[8];
  for (int k = 0; k < 7; k++) {
    struct both both;
    struct wire_head head = right;
    struct tt_message receive = {.peer = 0, .tag = TT_ANY, .data = x, .bytes = sizeof x};
    uint32_t *words[] = {&head.magic, &head.len};
    uint64_t *longs[] = {&head.number, &head.total, &head.start};
    if (k < 2) *words[k] += 1;
    else if (k < 5) *longs[k - 2] += (uint64_t)1 << 63;
    else if (k == 5) head.tag = -3;
    else head.source = 1;
    both_make(&both);
    assert_int_equal(tt_messages_add(both.engines[1], &receive), tuttiSuccess);
    assert_int_equal(head_send(&both, &head, 1), tuttiRemoteError);
    assert_true(comm_says(both.comms[1], "message 1 from rank 0 to rank 1: its head is damaged, the"));
    assert_true(comm_says(both.comms[1], fields[k]));
    both_free(&both);
  }
}

/* Neither as it was nor as one more slice, of which nothing is left. */
static void a_head_that_comes_twice_is_refused(void **state)
{
  (void)state;
  for (int k = 0; k < 4; k++) {
    struct both both;
    uint64_t bytes = k / 2 ? 8 : 0;
    struct wire_head head = {0x6761546du, (uint32_t)bytes, 1, bytes, 0, 3, 0, {0}};
    struct tt_message receive = {.peer = 0, .tag = 4, .data = &head, .bytes = 0};
    both_make(&both);
    assert_int_equal(tt_messages_add(both.engines[1], &receive), tuttiSuccess);
    assert_int_equal(head_send(&both, &head, 1), tuttiSuccess);
    if (k % 2) {
      head.start = bytes;
      head.len = 0;
    }
    assert_int_equal(head_send(&both, &head, 2), tuttiRemoteError);
    assert_true(comm_says(both.comms[1], "its head is damaged, the number is 1 and should be 2"));
    both_free(&both);
  }
}

/* ---- ranks that die ---- */

static int killed_body(const struct ranks *self)
{
  _Atomic int *ready = self->argument;
  tuttiComm_t comm;
  char x = 1;
  if (comm_get(self, &comm)) return 1;
  if (self->rank == 1) {
    RANKS_CHECK(tuttiSendTag(&x, 1, tuttiUint8, 0, 1, comm) == tuttiSuccess);
    while (!*ready) usleep(1000);
    kill(getpid(), SIGKILL);
  }
  RANKS_CHECK(self->rank || tuttiRecvTag(&x, 1, tuttiUint8, 1, 1, comm, NULL) == tuttiSuccess);
  *ready = self->rank == 0 ? 1 : *ready;
  RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, self->rank ? 0 : TUTTI_ANY_SOURCE, 2, comm, NULL) == tuttiRemoteError);
  RANKS_CHECK(says("rank 1"));
  tuttiCommAbort(comm);
  return 0;
}

static void a_dead_rank_ends_all_messages(void **state)
{
  (void)state;
  _Atomic int *ready = ranks_shared(sizeof *ready);
  set("TUTTI_DEBUG", "NONE");
  for (int t = 0; ranks_transports(t); t++) {
    int pids[3];
    *ready = 0;
    set("TUTTI_TRANSPORTS", ranks_transports(t));
    ranks_start(3, killed_body, ready, pids);
    for (int r = 0; r < 3; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), r == 1 ? 128 + SIGKILL : 0);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(messages_come_once_to_the_first_that_wants_them),
    cmocka_unit_test(calls_wait_for_their_own_message),
    cmocka_unit_test(wrong_arguments_are_refused_and_nothing_is_left),
    cmocka_unit_test(messages_and_operations_go_on_beside_each_other),
    cmocka_unit_test(a_dead_rank_ends_all_messages),
    cmocka_unit_test(an_urgent_message_overtakes_at_a_slice), /* from here on this process uses Tutti */
    cmocka_unit_test(a_head_with_one_wrong_field_is_refused),
    cmocka_unit_test(a_head_that_comes_twice_is_refused)};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--rounds") == 0) rounds = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--only") == 0) cmocka_set_test_filter(argv[i + 1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
