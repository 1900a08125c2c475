/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of a time line, as JSON. */
#include <math.h>

#include "plan/layers_private.h"

#define MESSAGES_DRAWN 4000 /* more: those of one group that follow one another are one */

struct drawing {
  FILE *out;
  const struct tt_planned *planned;
  const struct tt_layers *layers;
};

/* Each layer's share of backward ends when its gradient is ready. */
static void backward_print(const struct drawing *d)
{
  const struct tt_fusion_plan *plan = &d->planned->plan;
  double before_us = 0;
  for (int32_t i = 0; i < plan->ntensors; i++) {
    double ready_us = d->layers->net.tensors[plan->order[i]].ready_us;
    fprintf(d->out, "%s[%d, %.15g, %.15g]", i ? ", " : "", (int)plan->order[i] + 1, before_us, ready_us);
    before_us = ready_us;
  }
}

/* The message behind those that are drawn as one with this one. */
static int64_t messages_end(const struct tt_played *played, int64_t begin)
{
  int64_t end = begin + 1;
  while (played->nmessages > MESSAGES_DRAWN && end < played->nmessages &&
         played->messages[end].group == played->messages[begin].group &&
         played->messages[end].start_us <= played->messages[end - 1].end_us)
    end++;
  return end;
}

static void messages_print(const struct drawing *d)
{
  const struct tt_fusion_plan *plan = &d->planned->plan;
  const struct tt_played *played = &d->planned->played;
  for (int64_t m = 0, end; m < played->nmessages; m = end) {
    const struct tt_played_message *first = &played->messages[m];
    const struct tt_fusion_group *group = &plan->groups[first->group];
    end = messages_end(played, m);
    fprintf(d->out, "%s[%d, %d, %.15g, %.15g]", m ? ", " : "", (int)plan->members[group->first] + 1,
            (int)plan->members[group->first + group->n - 1] + 1, first->start_us, played->messages[end - 1].end_us);
  }
}

static void forward_print(const struct drawing *d)
{
  for (int32_t l = 0; l < d->layers->net.n; l++) {
    double start_us = d->planned->played.forward_us[l];
    fprintf(d->out, "%s[%d, %.15g, %.15g]", l ? ", " : "", (int)l + 1, start_us,
            start_us + d->layers->net.tensors[l].forward_us);
  }
}

void tt_planned_data(FILE *out, const struct tt_planned *planned, const struct tt_layers *layers,
                     const char *cost_text)
{
  const struct drawing d = {out, planned, layers};
  const struct tt_played *played = &planned->played;
  fprintf(out, "{\"picture\": \"plan\", \"policy\": \"%s\", \"cost\": \"%s\", \"order\": \"%s\",\n \"layers\": %d, "
               "\"groups\": %d, \"sent\": %lld,\n \"iteration_us\": %.15g, \"exposed_us\": %.15g, \"bound_us\": %.15g, "
               "\"end_us\": %.15g,\n \"backward\": [", planned->name, cost_text,
          planned->plan.by_priority ? "by priority" : "sent as they are ready", (int)layers->net.n,
          (int)planned->plan.ngroups, (long long)played->nmessages, played->iteration_us, played->exposed_us,
          planned->bound_us, fmax(played->iteration_us, played->messages_end_us));
  backward_print(&d);
  fprintf(out, "],\n \"messages\": [");
  messages_print(&d);
  fprintf(out, "],\n \"forward\": [");
  forward_print(&d);
  fprintf(out, "]}\n");
}
