/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans as text. */
#include "plan/layers_private.h"

#define LAYERS_BYTES 40
#define MANY 200 /* messages: more of one group in a row are one line */

/* "7", "7..3", "7, 5, ..." */
static const char *layers_text(const struct tt_fusion_plan *plan, const struct tt_fusion_group *group,
                               char text[LAYERS_BYTES])
{
  const int32_t *tensor = plan->members + group->first;
  int is_run = 1;
  for (int32_t k = 1; k < group->n; k++) is_run &= tensor[k] == tensor[k - 1] - 1;
  if (group->n == 1) snprintf(text, LAYERS_BYTES, "%d", (int)tensor[0] + 1);
  else if (is_run) snprintf(text, LAYERS_BYTES, "%d..%d", (int)tensor[0] + 1, (int)tensor[group->n - 1] + 1);
  else snprintf(text, LAYERS_BYTES, "%d, %d, ...", (int)tensor[0] + 1, (int)tensor[1] + 1);
  return text;
}

static double ready_us_of(const struct tt_fusion_plan *plan, const struct tt_fusion_group *group,
                          const struct tt_model *net)
{
  return net->tensors[plan->members[group->first + group->n - 1]].ready_us;
}

void tt_planned_print(FILE *out, const struct tt_planned *planned, const struct tt_layers *layers)
{
  const struct tt_fusion_plan *plan = &planned->plan;
  const struct tt_played *played = &planned->played;
  char group_text[LAYERS_BYTES];
  fprintf(out, "%s: %d group%s in %lld message%s, %s", planned->name, (int)plan->ngroups,
          plan->ngroups == 1 ? "" : "s", (long long)played->nmessages, played->nmessages == 1 ? "" : "s",
          plan->by_priority ? "by priority: what forward needs first goes first" : "sent as their gradients are ready");
  if (plan->credit) fprintf(out, "; another begins while fewer than %llu bytes are in flight",
                            (unsigned long long)plan->credit);
  fputc('\n', out);
  fprintf(out, "iteration %.3f us = backward %.3f + forward %.3f + communication that is not hidden %.3f\n",
          played->iteration_us, layers->net.backward_us, layers->forward_us, played->exposed_us);
  fprintf(out, "no plan takes less than %.3f us\n\n", planned->bound_us);
  fprintf(out, "%7s  %-18s %13s %15s %15s %15s\n", "message", "layers", "bytes", "ready us", "start us", "end us");
  for (int64_t m = 0, next; m < played->nmessages; m = next) {
    const struct tt_played_message *first = &played->messages[m], *last = first;
    const struct tt_fusion_group *group = &plan->groups[first->group];
    uint64_t bytes = first->bytes;
    for (next = m + 1; played->nmessages > MANY && next < played->nmessages; next++) {
      if (played->messages[next].group != first->group || played->messages[next].start_us > last->end_us) break;
      last = &played->messages[next];
      bytes += last->bytes;
    }
    fprintf(out, "%7lld  %-18s %13llu %15.3f %15.3f %15.3f", (long long)m + 1, layers_text(plan, group, group_text),
            (unsigned long long)bytes, ready_us_of(plan, group, &layers->net), first->start_us, last->end_us);
    if (next > m + 1) fprintf(out, "  %lld slices", (long long)(next - m));
    fputc('\n', out);
  }
}

void tt_planned_compare(FILE *out, const struct tt_planned *planned, int n, const struct tt_layers *layers)
{
  double best_us = planned[0].played.iteration_us, bound_us = planned[0].bound_us;
  double exposed_us = bound_us - layers->net.backward_us - layers->forward_us;
  for (int k = 1; k < n; k++)
    if (planned[k].played.iteration_us < best_us) best_us = planned[k].played.iteration_us;
  fprintf(out, "%d layers, backward %.3f us, forward %.3f us\n", (int)layers->net.n, layers->net.backward_us,
          layers->forward_us);
  fprintf(out, "iteration = backward + next forward + communication not hidden behind them; ratio: to the shortest\n"
          "groups: of layers whose gradients go together; !: sent by priority, a group in several messages\n\n");
  fprintf(out, "%-22s %7s %9s %16s %8s %16s\n", "policy", "groups", "messages", "iteration us", "ratio",
          "not hidden us");
  for (int k = 0; k < n; k++)
    fprintf(out, "%-22s %7d %9lld%c%16.3f %8.4f %16.3f\n", planned[k].name, (int)planned[k].plan.ngroups,
            (long long)planned[k].played.nmessages, planned[k].plan.by_priority ? '!' : ' ',
            planned[k].played.iteration_us, best_us > 0 ? planned[k].played.iteration_us / best_us : 1,
            planned[k].played.exposed_us);
  fprintf(out, "%-22s %7s %9s %16.3f %8.4f %16.3f\n", "(no plan takes less)", "", "", bound_us,
          best_us > 0 ? bound_us / best_us : 1, exposed_us > 0 ? exposed_us : 0);
}
