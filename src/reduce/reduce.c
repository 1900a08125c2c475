/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce/reduce.h"

#include "reduce/convert.h"
#include "reduce/fpenv.h"
#include "reduce/table.h"

/* Fastest first. */
static const struct tt_reduce_table *const tables[] = {&tt_reduce_generic};

tt_reduce_fn tt_reduce_kernel(int redop, int type)
{
  if (redop < 0 || redop >= tuttiNumOps || type < 0 || type >= tuttiNumTypes) return NULL;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (tables[i]->kernels[redop][type] && tables[i]->usable())
      return tables[i]->kernels[redop][type];
  return NULL;
}

void tt_reduce_arg_make(struct tt_reduce_arg *arg, int redop, int nranks, uint32_t raw,
                        int is_final)
{
  *arg = (struct tt_reduce_arg){.raw = 0, .divisor = 1, .scale = 1};
  if (redop != tuttiAvg) return;
  fpenv env = fpenv_enter();
  volatile double one = 1; /* volatile: divided here, not before the environment is set */
  arg->scale = one / nranks;
  fpenv_leave(env);
  arg->raw = raw;
  arg->divisor = is_final ? nranks : 1;
}

float tt_float_to_fp32(int type, uint32_t bits)
{
  fpenv env = fpenv_enter();
  volatile float value = 0;
  switch (type) {
  case tuttiFloat16: value = widen_fp16((uint16_t)bits); break;
  case tuttiBfloat16: value = widen_bf16((uint16_t)bits); break;
  case tuttiFloat8e4m3: value = widen_e4m3((uint8_t)bits); break;
  case tuttiFloat8e5m2: value = widen_e5m2((uint8_t)bits); break;
  case tuttiFloat32: value = fp32_of(bits); break;
  default: break;
  }
  fpenv_leave(env);
  return value;
}

uint32_t tt_float_from_fp32(int type, float value)
{
  fpenv env = fpenv_enter();
  volatile uint32_t bits = 0;
  volatile float input = value;
  switch (type) {
  case tuttiFloat16: bits = narrow_fp16(input); break;
  case tuttiBfloat16: bits = narrow_bf16(input); break;
  case tuttiFloat8e4m3: bits = narrow_e4m3(input); break;
  case tuttiFloat8e5m2: bits = narrow_e5m2(input); break;
  case tuttiFloat32: bits = fp32_bits(input); break;
  default: break;
  }
  fpenv_leave(env);
  return bits;
}
