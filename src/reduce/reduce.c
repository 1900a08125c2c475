/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce/reduce.h"

#include "reduce/convert.h"
#include "reduce/fpenv.h"
#include "reduce/table.h"

/* Fastest first. */
static const struct tt_reduce_table *const tables[] = {&tt_reduce_generic};

tt_reduce_fn tt_reduce_kernel(int redop, int type)
{
  if (redop < 0 || redop >= TT_REDOPS || type < 0 || type >= tuttiNumTypes) return NULL;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (tables[i]->kernels[redop][type] && tables[i]->usable())
      return tables[i]->kernels[redop][type];
  return NULL;
}

static int is_float(int type)
{
  return type >= tuttiFloat16;
}

int tt_reduce_scales(int redop, int type)
{
  return redop == TT_PREMUL_SUM || (redop == tuttiAvg && is_float(type));
}

int tt_reduce_finishes(int redop, int type)
{
  return redop == tuttiAvg && !is_float(type);
}

/* Volatile here and below: computed here, not before the environment is set. Rounding 1 / nranks to fp64
 * first changes no bit of it in fp32. */
static double reciprocal(int type, int nranks)
{
  fpenv env = fpenv_enter();
  volatile double one = 1;
  volatile double wide = one / nranks;
  volatile float narrow = (float)wide;
  volatile double result = type == tuttiFloat64 ? wide : (double)narrow;
  fpenv_leave(env);
  return result;
}

static double value_of(int type, uint64_t bits)
{
  if (type == tuttiFloat64) return fp64_of(bits);
  volatile float narrow = tt_float_to_fp32(type, (uint32_t)bits);
  fpenv env = fpenv_enter();
  volatile double wide = narrow;
  fpenv_leave(env);
  return wide;
}

static const struct tt_reduce_arg identity = {.scaled = -1, .divisor = 1, .scale = 1, .multiplier = 1};

void tt_reduce_arg_make(struct tt_reduce_arg *arg, int redop, int type, int nranks, uint64_t scalar,
                        int scaled)
{
  *arg = identity;
  if (!tt_reduce_scales(redop, type)) return;
  arg->scaled = scaled;
  if (!is_float(type)) arg->multiplier = scalar;
  else arg->scale = redop == tuttiAvg ? reciprocal(type, nranks) : value_of(type, scalar);
}

void tt_reduce_arg_finish(struct tt_reduce_arg *arg, int nranks)
{
  *arg = identity;
  arg->divisor = nranks;
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
