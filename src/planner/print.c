/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan as JSON. */
#include "planner/plan.h"

void tt_planned_json(FILE *out, const struct tt_planned *planned)
{
  const struct tt_fusion_plan *plan = &planned->plan;
  int ngroups = 0;
  fprintf(out, "{\"policy\": \"%s\", \"groups\": [", planned->name);
  for (int64_t m = 0; m < planned->played.nmessages; m++) {
    const struct tt_fusion_group *group = &plan->groups[planned->played.messages[m].group];
    if (planned->played.messages[m].offset) continue; /* of a group sent before */
    fprintf(out, "%s[", ngroups++ ? ", " : "");
    for (int32_t k = 0; k < group->n; k++)
      fprintf(out, "%s%d", k ? ", " : "", (int)plan->members[group->first + k] + 1);
    fputc(']', out);
  }
  fprintf(out, "], \"iteration_us\": %.15g", planned->played.iteration_us);
  if (planned->bound_us >= 0) fprintf(out, ", \"bound_us\": %.15g", planned->bound_us);
  fputc('}', out);
}
