/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks may push in any order, from several threads, wait as they like, and use other communicators and fusions
 * meanwhile: nobody waits for ever, and no tensor is summed up with another one, another step or another rank's.
 * Labels: slow. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define STEPS (IS_SLOW ? 24 : 100) /* plans are made again after the 3rd, 6th, 12th, 24th .. step */

static const tuttiFusionTensor_t tensors[] = {
    {"w0", 400, tuttiFloat32},  {"b0", 3, tuttiFloat32},   {"w1", 1500, tuttiFloat32}, {"b1", 3, tuttiFloat32},
    {"w2", 1500, tuttiFloat32}, {"ids", 90, tuttiInt64},   {"b2", 3, tuttiFloat32},    {"w3", 1500, tuttiFloat32},
    {"w4", 1, tuttiFloat64},    {"w5", 400, tuttiFloat32}, {"ids.more", 90, tuttiInt64}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

/* ---- one thread a rank ---- */

enum waits { ALL, FORWARD, ANY_ORDER, QUERIES, WAITS };

static int wait_by_queries(const struct ranks *self, tuttiFusion_t fusion)
{
  int left = TENSORS, is_there[TENSORS] = {0};
  while (left) {
    for (int t = 0; t < TENSORS; t++) {
      tuttiResult_t result = is_there[t] ? tuttiInProgress : tuttiFusionQuery(fusion, t);
      RANKS_CHECK(result == tuttiSuccess || result == tuttiInProgress);
      if (result == tuttiInProgress) continue;
      is_there[t] = 1;
      left--;
    }
    sched_yield();
  }
  return 0;
}

static int wait_somehow(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step,
                        uint64_t *state)
{
  int order[TENSORS], how = (int)below(state, WAITS);
  shuffled(order, TENSORS, state);
  if (how == ALL) RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  if (how == QUERIES && wait_by_queries(self, fusion)) return 1;
  for (int k = 0; k < TENSORS && (how == FORWARD || how == ANY_ORDER); k++) {
    int t = how == FORWARD ? k : order[k];
    RANKS_CHECK(tuttiFusionWait(fusion, t) == tuttiSuccess);
    if (gradient_check(self, g, t, step, 1)) return 1; /* it need not wait for the others */
    if (k % 3 == 0) RANKS_CHECK(tuttiFusionWait(fusion, t) == tuttiSuccess);
  }
  return 0;
}

static int orders(const struct ranks *self, tuttiComm_t comm, const char *policy)
{
  tuttiFusion_t fusion;
  struct gradients g[2];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusionInfo_t info = {.size = sizeof info};
  uint64_t state = (uint64_t)self->rank; /* every rank has orders of its own */
  config.policy = policy;
  RANKS_CHECK(gradients_make(&g[0], tensors, TENSORS, FUSION_GAP, 0) && gradients_make(&g[1], tensors, TENSORS, 0, 1));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  for (uint64_t step = 0; step < (uint64_t)STEPS; step++) {
    const struct gradients *own = &g[below(&state, 2)];
    int order[TENSORS];
    shuffled(order, TENSORS, &state);
    for (int k = 0; k < TENSORS; k++) {
      gradient_fill(own, order[k], self->rank, step);
      RANKS_CHECK(gradient_push(fusion, own, order[k], NULL) == tuttiSuccess);
      if (below(&state, 200) == 0) usleep(2000);
    }
    if (wait_somehow(self, fusion, own, step, &state) || gradients_check(self, own, step, 1)) return 1;
  }
  RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess && info.steps == (uint64_t)STEPS);
  RANKS_CHECK(info.plans > 0 && info.planned_step <= (uint64_t)STEPS + 1);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  gradients_free(&g[0]);
  gradients_free(&g[1]);
  return 0;
}

static int orders_body(const struct ranks *self)
{
  static const char *const policies[] = {"auto", "p3:500", "threshold:4K", "horovod:8K"};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int p = self->nranks / 2 % 2; p < 4; p += 2)
    if (orders(self, comm, policies[p])) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void ranks_may_push_in_different_orders(void **state)
{
  (void)state;
  for (int t = 0; !IS_TSAN && ranks_transports(t); t++)
    for (int nranks = ranks_first(2, t); nranks <= 5; nranks += ranks_step())
      assert_int_equal(run_fusion(ranks_transports(t), nranks, orders_body, NULL), 0);
}

/* ---- the next step begins while this one is under way ---- */

static int overlap_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, self->rank ? FUSION_GAP : 0, 1));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
  for (uint64_t step = 0; step <= 60; step++) {
    uint64_t state = step * 8 + (uint64_t)self->rank % 2;
    int order[TENSORS];
    shuffled(order, TENSORS, &state);
    for (int k = 0; k < TENSORS; k++) {
      int t = order[k];
      if (step > 0) RANKS_CHECK(tuttiFusionWait(fusion, t) == tuttiSuccess);
      if (step > 0 && gradient_check(self, &g, t, step - 1, 1)) return 1;
      if (step == 60) continue;
      gradient_fill(&g, t, self->rank, step);
      RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
    }
  }
  RANKS_CHECK(gaps_check(self, &g) == 0);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void a_tensor_may_be_pushed_again_before_the_others_were_waited_for(void **state)
{
  (void)state;
  for (int t = 0; !IS_TSAN && ranks_transports(t); t++)
    for (int nranks = ranks_first(1, t); nranks <= 4; nranks += ranks_step())
      assert_int_equal(run_fusion(ranks_transports(t), nranks, overlap_body, NULL), 0);
}

/* ---- several threads a rank ---- */

#define THREADS 3

struct crew {
  const struct ranks *self;
  tuttiFusion_t fusion;
  struct gradients g;
  pthread_barrier_t barrier;
  int waits_together; /* 1: no thread pushes for the next step before all have waited for this one */
  _Atomic int bad;
};

struct hand {
  struct crew *crew;
  int number;
};

static int hand_step(const struct hand *hand, uint64_t step, uint64_t *chance)
{
  const struct crew *crew = hand->crew;
  const struct ranks *self = crew->self;
  int order[TENSORS];
  shuffled(order, TENSORS, chance);
  for (int k = 0; k < TENSORS; k++) {
    if (order[k] % THREADS != hand->number) continue;
    gradient_fill(&crew->g, order[k], self->rank, step);
    RANKS_CHECK(gradient_push(crew->fusion, &crew->g, order[k], NULL) == tuttiSuccess);
  }
  if (!crew->waits_together) pthread_barrier_wait(&hand->crew->barrier);
  for (int k = TENSORS - 1; k >= 0; k--) {
    tuttiResult_t result = tuttiInProgress;
    if (order[k] % THREADS != hand->number) continue;
    if (below(chance, 2)) result = tuttiFusionWait(crew->fusion, order[k]);
    while (result == tuttiInProgress) {
      result = tuttiFusionQuery(crew->fusion, order[k]);
      sched_yield();
    }
    RANKS_CHECK(result == tuttiSuccess);
    if (gradient_check(self, &crew->g, order[k], step, 1)) return 1;
  }
  if (crew->waits_together) pthread_barrier_wait(&hand->crew->barrier);
  return 0;
}

static void *hand_main(void *argument)
{
  const struct hand *hand = argument;
  uint64_t chance = (uint64_t)(hand->crew->self->rank * THREADS + hand->number + 1) << 20;
  for (uint64_t step = 0; step < (uint64_t)STEPS / 2 && !hand->crew->bad; step++)
    if (hand_step(hand, step, &chance)) {
      hand->crew->bad = 1;
      exit(1); /* the others wait at the barrier */
    }
  return NULL;
}

static int crew_run(const struct ranks *self, tuttiComm_t comm, int waits_together)
{
  struct crew crew = {.self = self, .waits_together = waits_together};
  pthread_t threads[THREADS];
  struct hand hands[THREADS];
  RANKS_CHECK(gradients_make(&crew.g, tensors, TENSORS, FUSION_GAP, self->rank % 2));
  RANKS_CHECK(tuttiFusionCreate(&crew.fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
  RANKS_CHECK(pthread_barrier_init(&crew.barrier, NULL, THREADS) == 0);
  for (int k = 0; k < THREADS; k++) {
    hands[k] = (struct hand){&crew, k};
    RANKS_CHECK(pthread_create(&threads[k], NULL, hand_main, &hands[k]) == 0);
  }
  for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
  RANKS_CHECK(gaps_check(self, &crew.g) == 0);
  RANKS_CHECK(tuttiFusionWaitAll(crew.fusion) == tuttiSuccess); /* of what was waited for */
  RANKS_CHECK(tuttiFusionDestroy(crew.fusion) == tuttiSuccess);
  pthread_barrier_destroy(&crew.barrier);
  gradients_free(&crew.g);
  return 0;
}

static int crew_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (crew_run(self, comm, 1) || crew_run(self, comm, 0)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void several_threads_may_push_and_wait(void **state)
{
  (void)state;
  for (int t = 0; !IS_TSAN && ranks_transports(t); t++)
    for (int nranks = ranks_first(1, t); nranks <= 3; nranks += ranks_step())
      assert_int_equal(run_fusion(ranks_transports(t), nranks, crew_body, NULL), 0);
}

/* ---- streams ---- */

/* Each gradient is itself a sum, made by an operation of a stream: when it is pushed there is something else in its
 * place. */
static int streams_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t floats[] = {
      {"w0", 20000, tuttiFloat32}, {"b0", 7, tuttiFloat32}, {"w1", 30000, tuttiFloat32}, {"b1", 1, tuttiFloat32}};
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  tuttiStream_t streams[2];
  struct gradients given, g;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&streams[0]) == tuttiSuccess && tuttiStreamCreate(&streams[1]) == tuttiSuccess);
  RANKS_CHECK(gradients_make(&given, floats, 4, 0, 1) && gradients_make(&g, floats, 4, self->rank ? 0 : FUSION_GAP, 1));
  given.values = g.values = 1000;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, floats, 4, NULL) == tuttiSuccess);
  for (uint64_t step = 0; step < 20; step++) {
    for (int t = 3; t >= 0; t--) {
      char *to = g.in + g.at[t];
      tuttiStream_t stream = streams[((uint64_t)t + step) % 2];
      gradient_fill(&given, t, self->rank, step);
      memset(to, 0x7f, gradient_bytes(&g, t));
      if (t == 1) memcpy(to, given.in + given.at[t], gradient_bytes(&g, t)); /* ready at once: no stream */
      else
        RANKS_CHECK(tuttiAllReduce(given.in + given.at[t], to, floats[t].count, tuttiFloat, tuttiSum, comm, stream) ==
                    tuttiSuccess);
      RANKS_CHECK(gradient_push(fusion, &g, t, t == 1 ? NULL : stream) == tuttiSuccess);
    }
    for (int t = 0; t < 4; t++) {
      RANKS_CHECK(tuttiFusionWait(fusion, t) == tuttiSuccess);
      if (gradient_check(self, &g, t, step, t == 1 ? 1 : self->nranks)) return 1;
    }
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(streams[0]) == tuttiSuccess && tuttiStreamDestroy(streams[1]) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&given);
  gradients_free(&g);
  return 0;
}

static void a_gradient_may_be_made_by_a_stream(void **state)
{
  (void)state;
  for (int t = 0; !IS_TSAN && ranks_transports(t); t++)
    for (int nranks = ranks_first(1, t); nranks <= 4; nranks += ranks_step())
      assert_int_equal(run_fusion(ranks_transports(t), nranks, streams_body, NULL), 0);
}

/* ---- beside each other ---- */

struct beside {
  const struct ranks *self;
  tuttiComm_t comm; /* not NULL: all-reduces on it */
  tuttiFusion_t fusion;
  int steps, first;
  int result;
};

static int beside_run(const struct beside *beside)
{
  const struct ranks *self = beside->self;
  struct gradients g;
  float x[1000];
  if (!beside->comm) RANKS_CHECK(gradients_make(&g, tensors, TENSORS, FUSION_GAP, 1));
  for (int step = beside->first; step < beside->first + beside->steps; step++) {
    if (!beside->comm) {
      if (fusion_step(self, beside->fusion, &g, (uint64_t)step)) return 1;
      continue;
    }
    for (int i = 0; i < 1000; i++) x[i] = (float)(self->rank + i + step);
    RANKS_CHECK(tuttiAllReduce(x, x, 1000, tuttiFloat, tuttiSum, beside->comm, NULL) == tuttiSuccess);
    for (int i = 0; i < 1000; i++)
      RANKS_CHECK(x[i] == (float)(self->nranks * (self->nranks - 1) / 2 + self->nranks * (i + step)));
  }
  if (!beside->comm) gradients_free(&g);
  return 0;
}

static void *beside_main(void *argument)
{
  struct beside *beside = argument;
  beside->result = beside_run(beside);
  return NULL;
}

static int beside_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusions[2];
  struct beside three[3];
  pthread_t threads[3];
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 2; k++)
    RANKS_CHECK(tuttiFusionCreate(&fusions[k], comm, tensors, TENSORS, NULL) == tuttiSuccess);
  for (int k = 0; k < 3; k++) {
    three[k] = (struct beside){self, k == 2 ? comm : NULL, k < 2 ? fusions[k] : NULL, k == 2 ? 300 : 60, 1000 * k, 0};
    RANKS_CHECK(pthread_create(&threads[k], NULL, beside_main, &three[k]) == 0);
  }
  for (int k = 0; k < 3; k++) pthread_join(threads[k], NULL);
  for (int k = 0; k < 3; k++) RANKS_CHECK(three[k].result == 0);
  RANKS_CHECK(tuttiFusionDestroy(fusions[self->rank % 2]) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionDestroy(fusions[(self->rank + 1) % 2]) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void two_fusions_and_the_communicator_do_not_disturb_each_other(void **state)
{
  (void)state;
  for (int t = 0; !IS_TSAN && ranks_transports(t); t++)
    for (int nranks = 2; nranks <= 3; nranks++)
      assert_int_equal(run_fusion(ranks_transports(t), nranks, beside_body, NULL), 0);
}

/* From here on this process itself uses the library, so nothing can be forked any more. */
static void ranks_may_be_threads(void **state)
{
  static const ranks_body bodies[] = {orders_body, overlap_body, crew_body, streams_body, beside_body};
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
      assert_int_equal(ranks_run_threads(2 + (int)(b + (size_t)t) % 2, bodies[b], NULL, 120), 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_may_push_in_different_orders),
      cmocka_unit_test(a_tensor_may_be_pushed_again_before_the_others_were_waited_for),
      cmocka_unit_test(several_threads_may_push_and_wait),
      cmocka_unit_test(a_gradient_may_be_made_by_a_stream),
      cmocka_unit_test(two_fusions_and_the_communicator_do_not_disturb_each_other),
      cmocka_unit_test(ranks_may_be_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
