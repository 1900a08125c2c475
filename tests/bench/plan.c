/* SPDX-License-Identifier: BSD-3-Clause */
/* How long it takes to plan: 200 networks by chance of 1,000 tensors (or so many as the argument says), at costs of a
 * line and of 25 pieces. Prints median and longest in ms for each policy. */
#include "base/base.h"
#include "bench.h"
#include "chance.h"
#include "planner/plan.h"

#define NETS 200

/* From 64 parameters to some millions; backward of about 300 ms, forward of half of that. */
static void net_fill(struct tt_model *net, struct tt_tensor *tensors, uint64_t *state)
{
  double at_us = 0;
  for (int32_t l = net->n - 1; l >= 0; l--) {
    uint64_t count = (uint64_t)64 << below(state, below(state, 8) ? 10 : 17);
    at_us += 1 + 0.1 * (double)below(state, 6000000u / (size_t)net->n);
    tensors[l] = (struct tt_tensor){.count = count, .bytes = 4 * count, .ready_us = at_us,
                                    .forward_us = 0.1 * (double)below(state, 3000000u / (size_t)net->n)};
  }
  net->tensors = tensors;
  net->backward_us = at_us;
}

static struct tt_message_cost cost_make(int is_line, uint64_t *state)
{
  uint64_t bytes[25];
  double us[25], a = 10 + (double)below(state, 1000), b = 1e-4 * (double)(1 + below(state, 30));
  if (is_line) return tt_message_cost_line(a, b);
  for (int k = 0; k < 25; k++) {
    bytes[k] = (uint64_t)64 << k;
    us[k] = (a + b * (double)bytes[k]) * (0.8 + 0.01 * (double)below(state, 40));
  }
  return tt_message_cost_points(bytes, us, 25);
}

static void policy_time(const char *name, int32_t n, struct tt_tensor *tensors)
{
  struct tt_policy policy;
  double ms[NETS];
  uint64_t chance = 1;
  tt_policy_parse(&policy, name);
  for (int k = 0; k < NETS; k++) {
    struct tt_model net = {.n = n};
    struct tt_fusion_plan plan;
    net_fill(&net, tensors, &chance);
    struct tt_message_cost cost = cost_make(k % 2, &chance);
    double begin_us = now_us();
    if (tt_fusion_plan_make(&plan, &policy, &net, &cost) != tuttiSuccess) exit(1);
    ms[k] = (now_us() - begin_us) / 1e3;
    tt_fusion_plan_destroy(&plan);
  }
  sort(ms, NETS);
  printf("%-16s %8.3f %8.3f\n", name, ms[NETS / 2], ms[NETS - 1]);
}

int main(int argc, char **argv)
{
  static const char *const names[] = {"wfbp", "threshold:25M", "horovod:128M", "mgwfbp", "optimal", "p3", "auto"};
  int32_t n = argc > 1 ? atoi(argv[1]) : 1000;
  if (n < 1 || n > TT_PLAN_TENSORS) return 2;
  struct tt_tensor *tensors = calloc((size_t)n, sizeof *tensors);
  if (!tensors) return 1;
  printf("%d tensors     median ms  longest\n", (int)n);
  for (size_t p = 0; p < sizeof names / sizeof names[0]; p++) policy_time(names[p], n, tensors);
  free(tensors);
  return 0;
}
