/* SPDX-License-Identifier: BSD-3-Clause */
#include "nets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"

const char *const merging[MERGING] = {"wfbp", "single", "threshold:0", "threshold:50", "threshold:300,20",
                                      "threshold:1K", "horovod:0", "horovod:100", "horovod:1M", "mgwfbp", "optimal"};

static void check(int is_fine, const char *what)
{
  if (is_fine) return;
  fprintf(stderr, "%s: %s\n", what, tuttiGetLastError(NULL));
  abort();
}

void net_draw(struct drawn *d, uint64_t *state, int32_t n)
{
  double now_us = 0;
  size_t time = 1 + below(state, 40), size = 1 + below(state, 60), forward = below(state, 30);
  for (int32_t l = n - 1; l >= 0; l--) {
    size_t count = below(state, 8) ? below(state, size) : below(state, 20 * size);
    now_us += (double)(below(state, 6) ? below(state, time) : below(state, 8 * time));
    d->tensors[l] = (struct tt_tensor){.count = count, .bytes = 4 * count, .ready_us = now_us,
                                       .forward_us = (double)below(state, forward + 1)};
  }
  d->net = (struct tt_model){n, d->tensors, now_us};
}

/* Up and down through points whose distances are powers of two, so that slopes are exact. */
static void points_draw(struct drawn *d, uint64_t *state)
{
  uint64_t bytes[8];
  double us[8];
  int32_t n = 2 + (int32_t)below(state, 7);
  for (int32_t k = 0; k < n; k++) {
    bytes[k] = (uint64_t)8 << k;
    us[k] = (double)below(state, 300);
  }
  d->cost = tt_message_cost_points(bytes, us, n);
}

void cost_draw(struct drawn *d, uint64_t *state)
{
  uint64_t from = 0;
  if (below(state, 3) == 0) {
    points_draw(d, state);
    return;
  }
  d->cost = tt_message_cost_line((double)below(state, 60), (double)below(state, 4));
  for (size_t k = below(state, 2) ? below(state, 8) : 0; k; k--) {
    from += 1 + below(state, 200);
    double slope = (double)below(state, 4) - 1;
    struct tt_message_cost_piece *piece = &d->cost.pieces[d->cost.n++];
    *piece = (struct tt_message_cost_piece){from, (double)below(state, 200), slope < 0 ? 0 : slope};
    if (slope < 0 && below(state, 2)) piece->a_us = 0; /* longer ones cost nothing */
  }
}

void overlap_draw(struct drawn *d, uint64_t *state)
{
  if (below(state, 2)) return;
  d->cost.free = below(state, 2) ? 1 : 0.5;
  d->cost.byte_us = 0.25 * (double)below(state, 8);
  d->cost.channels = 1 + (int32_t)below(state, 9);
}

double net_forward_us(const struct drawn *d)
{
  double sum = 0;
  for (int32_t l = 0; l < d->net.n; l++) sum += d->tensors[l].forward_us;
  return sum;
}

struct tt_fusion_plan plan_of(const char *text, const struct drawn *d)
{
  struct tt_policy policy;
  struct tt_fusion_plan plan;
  check(tt_policy_parse(&policy, text) == tuttiSuccess, "a plan of a network drawn");
  check(tt_model_check(&d->net) == tuttiSuccess, "a plan of a network drawn");
  check(tt_fusion_plan_make(&plan, &policy, &d->net, &d->cost) == tuttiSuccess, "a plan of a network drawn");
  return plan;
}

double played_us(const struct tt_fusion_plan *plan, const struct drawn *d)
{
  struct tt_played played;
  check(tt_fusion_plan_play(&played, plan, &d->net, &d->cost) == tuttiSuccess, "a plan of a network drawn");
  double us = played.iteration_us;
  tt_played_destroy(&played);
  return us;
}

double us_of(const char *text, const struct drawn *d)
{
  struct tt_fusion_plan plan = plan_of(text, d);
  double us = played_us(&plan, d);
  tt_fusion_plan_destroy(&plan);
  return us;
}

void groups_text(char *text, size_t size, const struct tt_fusion_plan *plan)
{
  text[0] = 0;
  for (int32_t g = 0; g < plan->ngroups; g++)
    for (int32_t k = 0; k < plan->groups[g].n; k++)
      snprintf(text + strlen(text), size - strlen(text), "%s%d", k ? " " : g ? "|" : "",
               (int)plan->members[plan->groups[g].first + k] + 1);
}

void net_make(struct drawn *d, int32_t n, const double *backward, const uint64_t *bytes, const double *forward)
{
  double now_us = 0;
  for (int32_t l = n - 1; l >= 0; l--) {
    now_us += backward[l];
    d->tensors[l] = (struct tt_tensor){.count = bytes[l], .bytes = bytes[l], .ready_us = now_us,
                                       .forward_us = forward ? forward[l] : 0};
  }
  d->net = (struct tt_model){n, d->tensors, now_us};
}
