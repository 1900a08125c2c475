/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the plan of a fusion. */
#include <errno.h>
#include <string.h>

#include "fusion/private.h"

#define NAMES_BYTES 48
#define MOST 200 /* lines */

/* "fc.bias .. conv1.weight (12)": the first and the last tensor of a message, and the number of its parts. */
static const char *names_text(const struct config *config, const struct plan *plan, const struct message *message,
                              char text[NAMES_BYTES])
{
  const struct part *first = &plan->parts[message->first_part], *last = first + message->nparts - 1;
  const char *names[2] = {config->tensors[first->tensor].name, config->tensors[last->tensor].name};
  if (message->nparts == 1) snprintf(text, NAMES_BYTES, "%.47s", names[0]);
  else snprintf(text, NAMES_BYTES, "%.17s .. %.17s (%d)", names[0], names[1], message->nparts);
  return text;
}

static double us_after(uint64_t from_ns, uint64_t to_ns)
{
  return ((double)to_ns - (double)from_ns) / 1000;
}

static void table_print(const struct config *config, const struct shared *shared, FILE *out)
{
  const struct planned *planned = &shared->planned;
  const struct plan *plan = planned->plan;
  char names[NAMES_BYTES];
  fprintf(out, "%7s  %-46s %12s %25s %25s\n", "message", "tensors", "wire bytes", "expected begin and end us",
          "the last step's");
  for (int32_t m = 0; m < plan->nmessages && m < MOST; m++) {
    const struct message *message = &plan->messages[m];
    const struct tt_played_message *expected = &planned->expected.messages[message->played];
    fprintf(out, "%7d  %-46s %12llu", (int)m + 1, names_text(config, plan, message, names),
            (unsigned long long)message->wire_bytes);
    if (planned->is_measured) fprintf(out, " %12.0f %12.0f", expected->start_us, expected->end_us);
    else fprintf(out, " %12s %12s", "-", "-");
    if (planned->sent[m].end_ns)
      fprintf(out, " %12.0f %12.0f", us_after(shared->times.first_push_ns, planned->sent[m].begin_ns),
              us_after(shared->times.first_push_ns, planned->sent[m].end_ns));
    fputc('\n', out);
  }
  if (plan->nmessages > MOST) fprintf(out, "    ... and %d messages more\n", (int)plan->nmessages - MOST);
}

static void update_print(const struct config *config, FILE *out)
{
  char text[RULE_BYTES];
  if (!config->rule.planes) return;
  fprintf(out, "update %s at owners, whose wire bytes are those of an all-reduce that moves as many\n",
          tt_fusion_rule_text(&config->rule, text));
}

static void codec_print(const struct tuttiFusion *fusion, FILE *out)
{
  char text[TT_CODEC_TEXT_BYTES];
  int n = 0;
  for (int i = 0; i < fusion->config.n; i++) n += fusion->config.tensors[i].has_codec;
  if (!fusion->coding.codec.row) return;
  fprintf(out, "codec %s of %d tensor%s, whose wire bytes are those of an all-reduce that moves as many\n",
          tt_fusion_codec_text(&fusion->coding.codec, text), n, n == 1 ? "" : "s");
}

static void plan_print(const struct config *config, const struct shared *shared, FILE *out)
{
  const struct planned *planned = &shared->planned;
  const struct plan *plan = planned->plan;
  fprintf(out, "%s: %d tensor%s in %d group%s and %d message%s, %s, since step %llu", config->policy_text, config->n,
          config->n == 1 ? "" : "s", (int)plan->fusion.ngroups, plan->fusion.ngroups == 1 ? "" : "s",
          (int)plan->nmessages, plan->nmessages == 1 ? "" : "s",
          plan->fusion.by_priority ? "by priority" : "as they come",
          (unsigned long long)(planned->step ? planned->step : 1));
  if (plan->fusion.credit) fprintf(out, "; another begins while fewer than %llu bytes are in flight",
                                   (unsigned long long)plan->fusion.credit);
  fputc('\n', out);
  if (!planned->is_measured) fprintf(out, "nothing is measured yet: the plan is of sizes alone\n");
  else
    fprintf(out, "iteration %.0f us expected, %.0f us the last one; not hidden %.0f us expected, %.0f the last one\n",
            planned->expected.iteration_us, shared->times.iteration_us, planned->expected.exposed_us,
            shared->times.exposed_us);
  if (planned->bound_us > 0)
    fprintf(out, "no plan takes less than %.0f us, if all takes as long as expected\n", planned->bound_us);
  fprintf(out, "fusion buffer %zu bytes; %llu bytes copied in the last step\n\n", config->buffer_bytes,
          (unsigned long long)shared->steps[shared->ended % 2].copied);
  table_print(config, shared, out);
}

/* Prints the plan as JSON, for programs. */
static void json_print(const struct config *config, const struct planned *planned, FILE *out)
{
  struct tt_planned told = {.name = config->policy_text,
                            .plan = planned->plan->fusion,
                            .played = planned->expected,
                            .bound_us = planned->bound_us};
  if (!planned->is_measured) told.played.iteration_us = 0; /* its times are invented */
  tt_planned_json(out, &told);
  fputc('\n', out);
}

tuttiResult_t tt_fusion_print(struct tuttiFusion *fusion, FILE *out, int json)
{
  if (fusion->served)
    return tt_fail(tuttiInvalidUsage, "a fusion with a quorum or a staleness has no plan: contributions go as they are "
                   "pushed, see tuttiFusionGetInfo");
  struct shared *shared = &fusion->shared;
  tuttiResult_t result = tuttiSuccess;
  pthread_mutex_lock(&shared->mutex);
  if (shared->failed != tuttiSuccess) result = tt_fail_quiet(shared->failed, shared->sentence);
  else if (shared->ended < shared->step)
    result = tt_fail(tuttiInvalidUsage, "a step is under way: print when all of its tensors were waited for");
  else if (json) json_print(&fusion->config, &shared->planned, out);
  else {
    codec_print(fusion, out);
    update_print(&fusion->config, out);
    plan_print(&fusion->config, shared, out);
  }
  pthread_mutex_unlock(&shared->mutex);
  if (result == tuttiSuccess && (fflush(out) != 0 || ferror(out)))
    result = tt_fail(tuttiSystemError, "the plan cannot be written: %s", strerror(errno));
  return result;
}
