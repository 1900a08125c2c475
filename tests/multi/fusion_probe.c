/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages are thought to take where something is late: before anything was pushed, one of them by chance; later,
 * ranks with their tensors.
 * Labels: slow, plain. */
#include "fusion/private.h"
#include "fusion_ranks.h"

#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define BYTES 2048 /* of the shortest messages that are tried, 16 in a row */
#define LATE_US 640000 /* so that a row in which nothing is late may be slow by chance */
#define TRIES 4        /* of a machine so busy that two rows are; what is wrong is so in each */

static int late_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensors[] = {{"w", 1 << 20, tuttiFloat32}};
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  double us = LATE_US; /* the same on both ranks */
  for (int k = 0; k < TRIES && us >= LATE_US / 32; k++) {
    RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, 1, NULL) == tuttiSuccess);
    us = fusion->engine.known.ratios[tt_size_class(BYTES)] * tt_message_us(&fusion->config.priced, BYTES);
    if (!(us < LATE_US / 32)) fprintf(stderr, "%s: %d bytes take %.0f us\n", getenv("TUTTI_FAULT"), BYTES, us);
    RANKS_CHECK(us > 0);
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  }
  RANKS_CHECK(us < LATE_US / 32);
  return 0;
}

/* The n-th of a rank, whichever that is: each channel counts its own, so there is only one. */
static void one_late_message_does_not_make_its_size_dear(void **state)
{
  char rule[64];
  int bad = 0;
  (void)state;
  setenv("TUTTI_FUSION_CHANNELS", "1", 1);
  for (int nth = 1; nth <= 40; nth += 3) {
    snprintf(rule, sizeof rule, "rank=1,peer=0,nth=%d,action=delay:%dus", nth, LATE_US);
    setenv("TUTTI_FAULT", rule, 1);
    bad += run_fusion("tcp", 2, late_body, NULL) != 0;
  }
  unsetenv("TUTTI_FAULT");
  unsetenv("TUTTI_FUSION_CHANNELS");
  assert_int_equal(bad, 0);
}

/* ---- late ranks ---- */

#define WAIT_US 400000
#define MORE_US 100000 /* so that not all late tensors come at once */
#define STEPS 14 /* ranks agree after the 3rd, 6th and 12th, and look after the next one */
#define MOST 3   /* ranks */

enum who { ONE, ALL, IN_TURN, WHO };

/* The tensor that the rank pushes late in this step; -1: none. Times of the first step are not taken. */
static int late_of(const struct ranks *self, uint64_t step)
{
  enum who who = *(const enum who *)self->argument;
  if (step % 3 == 0) return -1;
  if (who == ONE) return self->rank == 1 ? 1 : -1;
  return who == ALL ? self->rank : (int)((step + (uint64_t)self->rank) % (uint64_t)self->nranks);
}

/* 1: no message is thought to take anywhere near as long as a wait. All ranks think the same. */
static int takes_little(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g)
{
  int is_little = 1;
  for (int t = 0; t < MOST; t++) {
    double us = tt_message_us(&fusion->engine.known.cost, gradient_bytes(g, t));
    if (us < WAIT_US / 4) continue;
    fprintf(stderr, "%d ranks, tensor %d: a message is thought to take %.0f us\n", self->nranks, t, us);
    is_little = 0;
  }
  return is_little;
}

/* On a machine so busy that messages do take as long, the next agreement may know better; waits are in most steps. */
static int wait_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensors[MOST] = {
      {"a", 300, tuttiFloat32}, {"b", 5000, tuttiFloat32}, {"c", 40000, tuttiFloat32}};
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = "wfbp";
  RANKS_CHECK(gradients_make(&g, tensors, MOST, 0, 1));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, MOST, &config) == tuttiSuccess);
  int is_little = 0;
  for (uint64_t step = 0; step < STEPS && !is_little; step++) {
    int late = late_of(self, step);
    for (int t = 0; t < MOST; t++) gradient_fill(&g, t, self->rank, step);
    for (int t = MOST - 1; t >= 0; t--)
      if (t != late) RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
    if (late >= 0) usleep(WAIT_US + (unsigned)late * MORE_US);
    if (late >= 0) RANKS_CHECK(gradient_push(fusion, &g, late, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
    if (gradients_check(self, &g, step, 1)) return 1;
    is_little = step && step % 3 == 0 && takes_little(self, fusion, &g);
  }
  RANKS_CHECK(is_little);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void a_wait_for_a_late_rank_is_not_what_messages_take(void **state)
{
  (void)state;
  for (enum who who = ONE; who < WHO; who++)
    for (int nranks = 2; nranks <= MOST; nranks++)
      assert_int_equal(run_fusion(nranks % 2 ? "shm" : "tcp", nranks, wait_body, &who), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_late_message_does_not_make_its_size_dear),
      cmocka_unit_test(a_wait_for_a_late_rank_is_not_what_messages_take),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
