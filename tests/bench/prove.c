/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast the verifier is and what memory it needs: one row of the table for one number of ranks.
 *
 *   bench_prove all_reduce ring 1024 [PASSES]
 *
 * PASSES: letters m (merge), f (fuse), 2 (two channels). Seconds are the processor's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "algos/algos.h"
#include "schedule/proof_private.h"

struct subject {
  const struct tt_algo *algo;
  const char *passes;
  struct tt_shape shape;
};

static void generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  const struct subject *subject = context;
  struct tt_shape plain = subject->shape;
  plain.rank = shape->rank;
  tt_schedule_init(schedule, &plain);
  subject->algo->generate(schedule, &plain);
  for (const char *pass = subject->passes; *pass; pass++) {
    if (*pass == 'm') tt_pass_merge(schedule);
    if (*pass == 'f') tt_pass_fuse(schedule);
    if (*pass == '2') tt_pass_channels(schedule, 2);
  }
}

static double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
  struct subject subject = {.passes = argc > 4 ? argv[4] : "", .shape = {.root = 0, .middle = -1}};
  struct tt_proof proof = {.order = NULL};
  struct rusage usage;
  if (argc > 3) subject.algo = tt_algo_find(tt_kind_find(argv[1]), argv[2]);
  if (!subject.algo) return printf("usage: %s COLLECTIVE ALGO RANKS [PASSES]\n", argv[0]), 2;
  subject.shape.nranks = atoi(argv[3]);
  tt_algo_shape(subject.algo, &subject.shape);
  struct tt_shape shape = subject.shape;
  if (strchr(subject.passes, '2')) shape.nblocks *= 2;

  double start = seconds();
  for (shape.rank = 0; shape.rank < shape.nranks; shape.rank++) {
    struct tt_schedule schedule;
    generate(&schedule, &shape, &subject);
    tt_schedule_destroy(&schedule);
  }
  double made = seconds();
  tuttiResult_t code = tt_verify(&shape, generate, &subject, &proof);
  double proved = seconds();
  getrusage(RUSAGE_SELF, &usage);
  printf("%-14s %-24s %6d ranks %6d blocks %9lld steps %5lld rounds: generated in %.2f s, proved in %.2f s "
         "(%.2f M steps/s), %ld MiB%s%s\n",
         argv[1], argv[2], (int)shape.nranks, (int)tt_shape_blocks(&shape), (long long)proof.steps,
         (long long)proof.rounds, made - start, proved - made, 1e-6 * (double)proof.steps / (proved - made),
         usage.ru_maxrss / 1024, code ? ": " : "", proof.complaint);
  return code != tuttiSuccess;
}
