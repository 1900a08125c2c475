/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets between the ranks of a fusion with servers. Of two ranks, which are threads, one sends what the input says,
 * beside what its own fusion sends; then the fusion goes on, or ends with an error. */
#include <pthread.h>
#include <string.h>

#include "base/time.h"
#include "fusion/served_private.h"
#include "fuzz.h"
#include "tutti_fusion.h"

enum { RANKS = 2, TENSORS = 2, PACKETS = 6, PAYLOAD = 1024, COUNT = 50 };
#define PATIENCE_NS 20000000 /* what has come has been taken by then */

static const tuttiFusionTensor_t tensors[TENSORS] = {{"a", COUNT, tuttiFloat32}, {"b", 3, tuttiFloat32}};
static const struct rules {
  const char *update;
  int quorum, staleness;
} rules[] = {{"sgd", 1, 0}, {"sgd", 1, 9}, {"easgd:0.5", 0, 0}, {"gossip", 0, 0}};

struct words {
  struct tuttiMessage message;
  struct packet_head head;
  uint8_t payload[PAYLOAD];
};

static struct world {
  tuttiComm_t comms[RANKS];
  const struct rules *rules;
  struct fuzz_bytes input;
  struct words messages[PACKETS];
  pthread_barrier_t made; /* a fusion that one rank aborts is not made on the other one */
} world;

/* Bytes that a packet with this head has. */
static size_t payload_of(const struct tuttiFusion *fusion, const struct packet_head *head)
{
  int is_of_shard = head->tensor >= 0 && head->tensor < TENSORS && head->share >= 0 && head->share < RANKS;
  if (head->kind == DECIDED || head->kind == REPORT || head->kind == ORDER)
    return tt_sets_bytes(fusion, (enum packet_kind)head->kind);
  if (head->kind == CONTRIBUTION) return is_of_shard ? tt_contribution_bytes(fusion, head) : 0;
  if (head->kind == WEIGHTS) return is_of_shard ? tt_weights_bytes(fusion, head->tensor, head->share) : 0;
  return head->kind == OFFER && is_of_shard ? tt_offer_bytes(fusion, head->tensor, head->share) : 0;
}

static int32_t small_take(void)
{
  uint64_t number = fuzz_take(&world.input, 1);
  return number < 250 ? (int32_t)(number % 5) - 1 : (int32_t)fuzz_take(&world.input, 4);
}

static void send_one(const struct tuttiFusion *fusion, struct words *message)
{
  struct packet_head *head = &message->head;
  int how = (int)fuzz_take(&world.input, 1);
  head->kind = how % (PACKET_KINDS + 1);
  head->step = (uint64_t)(small_take() + 1);
  head->version = (uint64_t)(small_take() + 1);
  head->tensor = small_take();
  head->rank = small_take();
  head->share = small_take();
  head->epoch = small_take();
  head->is_refused = how >> 6 & 1;
  head->capacity = how >> 7 ? (uint32_t)small_take() : 0;
  head->rate = head->after = 1;
  size_t bytes = payload_of(fusion, head);
  if (how > 250 || bytes > PAYLOAD) bytes = fuzz_take(&world.input, 2) % PAYLOAD;
  fuzz_fill(&world.input, message->payload, bytes);
  message->message.message = (struct tt_message){.peer = 0, .tag = head->kind, .sends = 1, .data = head,
                                                 .bytes = sizeof *head + bytes};
  (void)tt_message_post(fusion->config.channel[0], &message->message);
}

static void *rank_run(void *argument)
{
  int rank = (int)(intptr_t)argument, is_over = 0;
  float weights[COUNT] = {1}, pushed[TENSORS][COUNT] = {{2}};
  tuttiFusion_t fusion;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = world.rules->update;
  config.quorum = world.rules->quorum;
  config.staleness = world.rules->staleness;
  FUZZ_CHECK(tuttiFusionCreate(&fusion, world.comms[rank], tensors, TENSORS, &config) == tuttiSuccess);
  pthread_barrier_wait(&world.made);
  for (int t = 0; t < TENSORS; t++) (void)tuttiFusionState(fusion, t, 0, weights, tensors[t].count, 1);
  for (int k = 0; rank == 1 && k < PACKETS && world.input.left; k++) send_one(fusion, &world.messages[k]);
  for (int t = 0; t < TENSORS; t++)
    (void)tuttiFusionPush(fusion, t, pushed[t], pushed[t], tensors[t].count, tuttiFloat32, NULL);
  for (uint64_t began_ns = tt_now_ns(); !is_over && tt_now_ns() - began_ns < PATIENCE_NS; tt_sleep_ns(100000)) {
    is_over = 1;
    for (int t = 0; t < TENSORS; t++) is_over &= tuttiFusionQuery(fusion, t) != tuttiInProgress;
  }
  (void)tuttiFusionAbort(fusion);
  (void)tuttiFusionDestroy(fusion);
  return NULL;
}

static void packets_run(const uint8_t *bytes, size_t len)
{
  pthread_t threads[RANKS];
  world.input = (struct fuzz_bytes){bytes, len};
  world.rules = &rules[fuzz_take(&world.input, 1) % 4];
  memset(world.messages, 0, sizeof world.messages);
  FUZZ_CHECK(pthread_barrier_init(&world.made, NULL, RANKS) == 0);
  FUZZ_CHECK(tuttiCommInitAll(world.comms, RANKS, NULL) == tuttiSuccess);
  for (int rank = 0; rank < RANKS; rank++)
    FUZZ_CHECK(pthread_create(&threads[rank], NULL, rank_run, (void *)(intptr_t)rank) == 0);
  for (int rank = 0; rank < RANKS; rank++) pthread_join(threads[rank], NULL);
  pthread_barrier_destroy(&world.made);
  for (int rank = 0; rank < RANKS; rank++) (void)tuttiCommAbort(world.comms[rank]);
}

/* Each kind, to each rule, with both tensors and shares. */
static size_t packets_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  uint8_t *to = bytes;
  if (number >= 4 * 6) return 0;
  *to++ = (uint8_t)(number % 4);
  for (int k = 0; k < 3; k++) {
    const uint8_t head[] = {(uint8_t)((number / 4 * 2 + k) % (PACKET_KINDS + 1)), 1, 1, (uint8_t)(1 + k % 2), 2,
                            (uint8_t)(1 + number % 2), 1};
    memcpy(to, head, sizeof head);
    memset(to + sizeof head, 1, 40);
    to += sizeof head + 40;
  }
  return (size_t)(to - bytes);
}

const struct fuzz_target fuzz_packets[] = {
    {"packets", packets_run, NULL, packets_make, 100},
    {NULL, NULL, NULL, NULL, 0},
};
