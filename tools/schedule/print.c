/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule/text_private.h"

#include <errno.h>
#include <string.h>

static const char *const place_names[] = {"nowhere", "in", "out", "scratch", "msg"};

const char *tt_step_word(const struct tt_step *step, const struct tt_operand *sources)
{
  if (step->nsrc > 1) return "reduce";
  if (sources[0].place == TT_MESSAGE) return step->nto ? "pass" : "recv";
  return step->nto ? "send" : "copy";
}

static void operand_print(struct tt_operand operand, FILE *out)
{
  fprintf(out, "%s:%d", place_names[operand.place], (int)operand.at);
}

static void step_print(const struct tt_schedule *schedule, int32_t i, FILE *out)
{
  const struct tt_step *step = &schedule->steps[i];
  const struct tt_operand *sources = schedule->operands + step->src;
  const char *before = "";
  fprintf(out, "%3d  %-6s  [%d,%d)  ", (int)i, tt_step_word(step, sources), (int)step->first,
          (int)(step->first + step->nblocks));
  for (int k = 0; k < step->nsrc; k++) {
    fprintf(out, "%s", k ? " + " : "");
    operand_print(sources[k], out);
  }
  fprintf(out, " -> ");
  if (step->dst.place != TT_NOWHERE) {
    operand_print(step->dst, out);
    before = ", ";
  }
  for (int k = 0; k < step->nto; k++, before = ", ")
    fprintf(out, "%srank %d", before, (int)schedule->peers[step->to + k]);
  if (step->channel) fprintf(out, "  channel %d", (int)step->channel);
  fprintf(out, "\n");
}

tuttiResult_t tt_schedule_print(const struct tt_schedule *schedule, FILE *out)
{
  const struct tt_shape *shape = &schedule->shape;
  fprintf(out, "schedule %s ranks %d rank %d blocks %d", tt_kinds[shape->collective].name, (int)shape->nranks,
          (int)shape->rank, (int)shape->nblocks);
  if (shape->root != -1) fprintf(out, " root %d", (int)shape->root);
  if (shape->radix) fprintf(out, " radix %d", (int)shape->radix);
  fprintf(out, " scratch %d steps %d\n", (int)schedule->nslots, (int)schedule->nsteps);
  for (int32_t i = 0; i < schedule->nsteps; i++) step_print(schedule, i, out);
  if (ferror(out)) return tt_fail(tuttiSystemError, "cannot write a schedule: %s", strerror(errno));
  return tuttiSuccess;
}
