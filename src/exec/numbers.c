/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of a run on elements other than moving and combining them: scaling, wire types, the division or
 * multiplication at the end, the overflow report. */
#include "exec/private.h"

/* Binds a call whose fp32 elements are combined and travel in two bytes. */
static tuttiResult_t wire_bind(struct tt_run *run)
{
  const struct tt_call *call = &run->binding->call;
  int wire = tt_call_wire_type(call);
  if (wire == call->type) return tuttiSuccess;
  if (call->type != tuttiFloat32 || (wire != tuttiFloat16 && wire != tuttiBfloat16))
    return tt_fail(tuttiInternalError, "%s cannot travel as %s (type %d)", tt_type_name(call->type),
                   tt_type_name(wire), wire);
  run->numbers.type = (uint8_t)wire;
  run->numbers.is_wide = 1;
  run->element = tt_type_size(wire);
  run->numbers.converts = run->numbers.computes = TOUCHES_IN | TOUCHES_OUT;
  return tuttiSuccess;
}

static void scale_bind(struct tt_run *run)
{
  const struct tt_binding *binding = run->binding;
  int redop = binding->call.redop, type = binding->call.type, nranks = run->exec->nranks;
  if (binding->before == 1) tt_reduce_arg_make(&run->arg, redop, type, nranks, binding->scalar, -1);
  else tt_reduce_arg_before(&run->arg, redop, type, nranks, binding->scalar, binding->before);
  run->numbers.scales = binding->before != 1 || tt_reduce_scales(redop, type);
  if (run->numbers.scales) run->numbers.converts = TOUCHES_IN;
  else run->numbers.divides = run->plan->out_is_there && tt_reduce_finishes(redop, type, nranks);
  if (redop == tuttiSum && run->numbers.scales) run->numbers.redop = TT_PREMUL_SUM;
}

static tuttiResult_t form_bind(struct tt_run *run)
{
  uint64_t form = run->binding->call.form;
  run->numbers.multiplies = run->plan->out_is_there && tt_call_after(&run->binding->call) != 1;
  if (form & TT_FORM_REPORT) {
    run->overflow = 0;
    run->looks = &run->overflow;
    run->numbers.computes |= TOUCHES_IN; /* copies are checked as well */
  }
  return wire_bind(run);
}

tuttiResult_t tt_numbers_bind_more(struct tt_run *run)
{
  const struct tt_call *call = &run->binding->call;
  if (!tt_kinds[call->collective].reduces) return tuttiSuccess;
  scale_bind(run);
  run->numbers.computes = run->numbers.converts;
  return call->form ? form_bind(run) : tuttiSuccess;
}

void tt_numbers_arg(const struct tt_run *run, int32_t index, struct tt_reduce_arg *arg)
{
  const struct plan_step *step = &run->plan->steps[index];
  *arg = run->arg;
  if (run->numbers.scales && step->touches & TOUCHES_IN) arg->scaled = step->own_source;
  if (!run->numbers.is_wide) return;
  arg->wide = step->own_source;
  arg->dst_wide = run->plan->schedule.steps[index].dst.place == TT_OUT;
}

/* Divides or multiplies the results of the segment, in the type of the call. */
static tuttiResult_t end_do(const struct tt_run *run, const struct lane *lane)
{
  const struct tt_call *call = &run->binding->call;
  char *out = lane->out;
  if (run->binding->shares) out = tt_shares_result(run, lane);
  const void *sources[1] = {out};
  struct tt_reduce_arg arg;
  struct tt_reduction what = {call->redop, call->type, out, sources, 1, lane->count, &arg, run->looks};
  if (run->numbers.divides) tt_reduce_arg_finish(&arg, run->exec->nranks);
  else {
    what.redop = TT_PREMUL_SUM;
    tt_reduce_arg_make(&arg, what.redop, tuttiFloat32, 1, call->form >> TT_FORM_AFTER_SHIFT, 0);
  }
  return tt_reduce_run(&what);
}

tuttiResult_t tt_numbers_end(struct tt_run *run, struct lane *lane)
{
  if (!(run->numbers.divides | run->numbers.multiplies) || !lane->count) return tuttiSuccess;
  return end_do(run, lane);
}

/* The data of a message were computed before the message began, and by then its sender had taken over the reports that
 * it received itself. So the word of the message covers its data. */
void tt_numbers_report(struct tt_run *run, const struct lane *lane, uint64_t steps)
{
  const struct tt_plan *plan = run->plan;
  for (; steps; steps &= steps - 1) {
    const struct tt_step *step = &plan->schedule.steps[lane->head + __builtin_ctzll(steps)];
    for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
      if (plan->source_link[k] < 0) continue;
      if (lane->links[plan->source_link[k]]->seen_word & TT_WORD_OVERFLOW) run->overflow = 1;
    }
  }
  if (run->overflow) run->head.word |= TT_WORD_OVERFLOW;
}
