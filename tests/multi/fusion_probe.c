/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages are thought to take before anything was pushed, where one of them is late by chance.
 * Labels: plain. */
#include "fusion/private.h"
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define BYTES 2048 /* of the shortest messages that are tried, 16 in a row */
#define CLASS 10   /* theirs */
#define LATE_US 640000 /* so that a row in which nothing is late may be slow by chance */

static int late_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensors[] = {{"w", 1 << 20, tuttiFloat32}};
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, 1, NULL) == tuttiSuccess);
  double us = fusion->engine.known.ratios[CLASS] * tt_message_us(&fusion->config.priced, BYTES);
  if (!(us < LATE_US / 32)) fprintf(stderr, "%s: %d bytes take %.0f us\n", getenv("TUTTI_FAULT"), BYTES, us);
  RANKS_CHECK(us > 0 && us < LATE_US / 32);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
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
  assert_int_equal(bad, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_late_message_does_not_make_its_size_dear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
