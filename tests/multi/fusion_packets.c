/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions with servers check each field of a packet before they use it: a rank that sends what no correct rank sends
 * ends the fusion with an error that names it.
 * Labels: processes. */
#include "fusion/served_private.h"
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 2
#define FEW 5 /* elements, without a codec */
#define MANY 5000

static const tuttiFusionTensor_t tensors[] = {
    {"few", FEW, tuttiFloat32}, {"none", 0, tuttiFloat32}, {"many", MANY, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

enum rules { ALL, QUORUM, ASGD, RULES }; /* of all ranks; by decision; with a failover */

/* What is wrong in a packet of rank 1 to rank 0. */
struct wrong {
  enum rules rules;
  enum packet_kind kind;
  int tensor, share, rank, capacity;
  uint64_t version;
  int more;         /* bytes of the payload, more than is right, or fewer */
  int is_empty;     /* no payload at all */
  int tag, is_cut;  /* tag: 1 + another one; is_cut: not even a head */
};

static const struct wrong wrongs[] = {
    {.kind = CONTRIBUTION, .tensor = -1},
    {.kind = CONTRIBUTION, .tensor = TENSORS},
    {.kind = CONTRIBUTION, .tensor = 1},
    {.kind = CONTRIBUTION, .share = -1},
    {.kind = CONTRIBUTION, .share = RANKS},
    {.kind = CONTRIBUTION, .more = -4},
    {.kind = CONTRIBUTION, .more = 4},
    {.kind = CONTRIBUTION, .is_empty = 1},
    {.kind = CONTRIBUTION, .capacity = 7, .is_empty = 1},
    {.kind = CONTRIBUTION, .tensor = 2, .capacity = -1, .is_empty = 1},
    {.rules = ASGD, .kind = CONTRIBUTION, .capacity = 7, .is_empty = 1},
    {.kind = CONTRIBUTION, .is_cut = 1},
    {.kind = CONTRIBUTION, .tag = 1 + WEIGHTS},
    {.kind = PACKET_KINDS, .is_empty = 1},
    {.kind = WEIGHTS, .is_empty = 1},
    {.kind = WEIGHTS, .more = 8},
    {.kind = LEAVES, .more = 4},
    {.kind = LEAVES, .version = UINT64_MAX, .is_empty = 1},
    {.kind = LIVES, .more = 4},
    {.kind = HELD, .is_empty = 1},
    {.kind = SEEN, .is_empty = 1},
    {.kind = SHOW, .is_empty = 1},
    {.kind = DECIDED},
    {.kind = REPORT},
    {.kind = ORDER},
    {.kind = OFFER},
    {.rules = QUORUM, .kind = HELD, .share = RANKS, .is_empty = 1},
    {.rules = QUORUM, .kind = HELD, .more = 4},
    {.rules = QUORUM, .kind = SEEN, .more = 4},
    {.rules = QUORUM, .kind = DECIDED, .more = -8},
    {.rules = QUORUM, .kind = DECIDED, .more = 8},
    {.rules = QUORUM, .kind = REPORT, .more = -8},
    {.rules = QUORUM, .kind = REPORT, .more = 8},
    {.rules = QUORUM, .kind = ORDER, .more = -8},
    {.rules = QUORUM, .kind = ORDER, .more = 8},
    {.rules = QUORUM, .kind = OFFER},
    {.rules = ASGD, .kind = OFFER, .more = -4},
    {.rules = ASGD, .kind = OFFER, .is_empty = 1},
    {.rules = ASGD, .kind = OFFER, .rank = 2},
};
enum { WRONGS = sizeof wrongs / sizeof *wrongs };

/* The length that the head would have with a right payload. */
static size_t right_bytes(const struct tuttiFusion *fusion, const struct wrong *wrong)
{
  struct packet_head head = {.kind = (int32_t)wrong->kind};
  int share = wrong->share < 0 || wrong->share >= RANKS ? 0 : wrong->share;
  head.tensor = wrong->tensor < 0 || wrong->tensor >= TENSORS ? 0 : wrong->tensor;
  head.share = share;
  if (wrong->is_empty) return 0;
  if (wrong->kind == CONTRIBUTION) return tt_contribution_bytes(fusion, &head);
  if (wrong->kind == WEIGHTS) return tt_weights_bytes(fusion, head.tensor, share);
  if (wrong->kind == OFFER) return tt_offer_bytes(fusion, head.tensor, share);
  if (wrong->kind == DECIDED || wrong->kind == REPORT || wrong->kind == ORDER)
    return tt_sets_bytes(fusion, wrong->kind);
  return 0;
}

static int packet_send(const struct ranks *self, struct tuttiFusion *fusion, const struct wrong *wrong)
{
  size_t bytes = right_bytes(fusion, wrong) + (size_t)(ptrdiff_t)wrong->more;
  struct packet *packet = tt_packet_make(wrong->kind, bytes);
  RANKS_CHECK(packet);
  packet->head.tensor = wrong->tensor;
  packet->head.share = wrong->share;
  packet->head.rank = wrong->rank;
  packet->head.capacity = (uint32_t)wrong->capacity;
  packet->head.version = wrong->version;
  struct tuttiMessage message = {.message = {.peer = 0,
                                             .tag = wrong->tag ? wrong->tag - 1 : packet->head.kind,
                                             .sends = 1,
                                             .data = &packet->head,
                                             .bytes = wrong->is_cut ? sizeof packet->head - 1 : packet->bytes}};
  tt_message_run(fusion->config.channel[0], &message);
  tt_packet_drop(packet);
  return 0;
}

static int fusion_make(const struct ranks *self, tuttiFusion_t *fusion, tuttiComm_t comm, enum rules rules)
{
  static float weights[MANY];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = "sgd";
  config.codec = "dryden:0.01";
  config.quorum = rules == ALL ? RANKS : 1;
  config.staleness = rules == ASGD ? 9 : 0;
  RANKS_CHECK(tuttiFusionCreate(fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++)
    RANKS_CHECK(tuttiFusionState(*fusion, t, 0, weights, tensors[t].count, 1) == tuttiSuccess);
  return 0;
}

/* Until the engine has ended. */
static int failure_await(const struct ranks *self, struct tuttiFusion *fusion)
{
  struct shared *shared = &fusion->shared;
  pthread_mutex_lock(&shared->mutex);
  while (shared->failed == tuttiSuccess) pthread_cond_wait(&shared->done, &shared->mutex);
  tuttiResult_t result = tt_fail_quiet(shared->failed, shared->sentence);
  pthread_mutex_unlock(&shared->mutex);
  RANKS_CHECK(result == tuttiRemoteError && says("rank 1") && says("a message that no correct rank sends"));
  return 0;
}

static int wrong_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < WRONGS; k++) {
    struct tuttiFusion *fusion;
    RANKS_CHECK(fusion_make(self, &fusion, comm, wrongs[k].rules) == 0);
    RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess); /* all have the weights before one sends what ends it */
    if (self->rank == 1) RANKS_CHECK(packet_send(self, fusion, &wrongs[k]) == 0);
    if (failure_await(self, fusion)) {
      fprintf(stderr, "wrong packet %d\n", k);
      return 1;
    }
    tuttiFusionDestroy(fusion);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_packet_with_one_wrong_field_is_refused(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    assert_int_equal(run_fusion_quietly(ranks_transports(t), RANKS, wrong_body, NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_packet_with_one_wrong_field_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
