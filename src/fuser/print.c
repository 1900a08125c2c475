/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fusion says of its plan. */
#include <string.h>

#include "fuser/private.h"

#define NAMES_BYTES 48
#define MOST 200 /* lines */

/* "fc.bias .. conv1.weight (12)": of the parts of a message the first, the last, and how many. */
static const char *names_text(const struct tuttiFusion *fuser, const struct message *message, char text[NAMES_BYTES])
{
  const struct part *first = &fuser->parts[message->first_part], *last = first + message->nparts - 1;
  const char *names[2] = {fuser->tensors[first->tensor].name, fuser->tensors[last->tensor].name};
  if (message->nparts == 1) snprintf(text, NAMES_BYTES, "%.47s", names[0]);
  else snprintf(text, NAMES_BYTES, "%.17s .. %.17s (%d)", names[0], names[1], message->nparts);
  return text;
}

static double us_after(uint64_t from_ns, uint64_t to_ns)
{
  return ((double)to_ns - (double)from_ns) / 1000;
}

static void table_print(const struct tuttiFusion *fuser, FILE *out)
{
  char names[NAMES_BYTES];
  fprintf(out, "%7s  %-46s %12s %25s %25s\n", "message", "tensors", "wire bytes", "expected begin and end us",
          "the last step's");
  for (int32_t m = 0; m < fuser->nmessages && m < MOST; m++) {
    const struct message *message = &fuser->messages[m];
    const struct tt_played_message *played = &fuser->played.messages[message->played];
    fprintf(out, "%7d  %-46s %12llu", (int)m + 1, names_text(fuser, message, names),
            (unsigned long long)message->wire_bytes);
    if (fuser->is_measured) fprintf(out, " %12.0f %12.0f", played->start_us, played->end_us);
    else fprintf(out, " %12s %12s", "-", "-");
    if (message->last_end_ns)
      fprintf(out, " %12.0f %12.0f", us_after(fuser->first_push_ns, message->last_begin_ns),
              us_after(fuser->first_push_ns, message->last_end_ns));
    fputc('\n', out);
  }
  if (fuser->nmessages > MOST) fprintf(out, "    ... and %d messages more\n", (int)fuser->nmessages - MOST);
}

static void plan_print(const struct tuttiFusion *fuser, double bound_us, FILE *out)
{
  fprintf(out, "%s: %d tensors in %d group%s and %d message%s, %s, since step %llu\n", fuser->policy_text, fuser->n,
          (int)fuser->plan.ngroups, fuser->plan.ngroups == 1 ? "" : "s", (int)fuser->nmessages,
          fuser->nmessages == 1 ? "" : "s", fuser->plan.by_priority ? "by priority" : "as they come",
          (unsigned long long)(fuser->planned_step ? fuser->planned_step : 1));
  if (!fuser->is_measured) fprintf(out, "nothing is measured yet: the plan is of sizes alone\n");
  else
    fprintf(out, "iteration %.0f us expected, %.0f us the last one; not hidden %.0f us expected, %.0f the last one\n",
            fuser->predicted_us, fuser->iteration_us, fuser->predicted_exposed_us, fuser->exposed_us);
  if (bound_us > 0) fprintf(out, "no plan takes less than %.0f us, as far as is known\n", bound_us);
  fprintf(out, "fusion buffer %zu bytes; %llu bytes copied in the last step\n\n", fuser->buffer_bytes,
          (unsigned long long)fuser->copied[fuser->ended % 2]);
  table_print(fuser, out);
}

tuttiResult_t tt_fuser_print(struct tuttiFusion *fuser, FILE *out, int json)
{
  tuttiResult_t result = tuttiSuccess;
  double bound_us = -1;
  pthread_mutex_lock(&fuser->mutex);
  if (fuser->failed != tuttiSuccess) result = tt_fail_quiet(fuser->failed, fuser->sentence);
  if (result == tuttiSuccess && fuser->ended < fuser->step)
    result = tt_fail(tuttiInvalidUsage, "a step is under way: print when all of its tensors were waited for");
  if (result == tuttiSuccess && fuser->is_measured) result = tt_fusion_bound(&fuser->net, &fuser->cost, &bound_us);
  if (result == tuttiSuccess && json) {
    struct tt_planned planned = {
        .name = fuser->policy_text, .plan = fuser->plan, .played = fuser->played, .bound_us = bound_us};
    if (!fuser->is_measured) planned.played.iteration_us = 0; /* of invented times */
    tt_planned_json(out, &planned);
    fputc('\n', out);
  } else if (result == tuttiSuccess) {
    plan_print(fuser, bound_us, out);
  }
  pthread_mutex_unlock(&fuser->mutex);
  if (result == tuttiSuccess && (fflush(out) != 0 || ferror(out)))
    result = tt_fail(tuttiSystemError, "the plan cannot be written: %m");
  return result;
}
