/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce/reduce.h"

#include "reduce/convert_private.h"
#include "reduce/fpenv.h"
#include "reduce/table_private.h"

#include <stdio.h>
#include <string.h>

const struct tt_reduce_table *const tt_reduce_tables[] = {
#if defined(TT_PLAIN_KERNELS) /* a build without the others */
#elif defined(__x86_64__)
    &tt_reduce_avx512, &tt_reduce_avx2, &tt_reduce_sse2,
#elif defined(__aarch64__)
    &tt_reduce_neon,
#endif
    &tt_reduce_plain,  NULL};

static const struct tt_reduce_table *fastest(void)
{
  int i = 0;
  while (!tt_reduce_tables[i]->usable()) i++;
  return tt_reduce_tables[i];
}

const struct tt_reduce_table *tt_reduce_table(void)
{
  const void *chosen = atomic_load_explicit(&tt_process.kernels, memory_order_acquire);
  if (chosen) return chosen;
  const struct tt_reduce_table *table = fastest();
  /* Another thread may just have chosen; its choice stays. */
  return atomic_compare_exchange_strong(&tt_process.kernels, &chosen, table) ? table : chosen;
}

static tuttiResult_t refuse(const char *name)
{
  char usable[128] = "";
  for (int i = 0; tt_reduce_tables[i]; i++)
    if (tt_reduce_tables[i]->usable())
      snprintf(usable + strlen(usable), sizeof usable - strlen(usable), ", %s", tt_reduce_tables[i]->name);
  return tt_fail(tuttiInvalidArgument, "TUTTI_KERNELS is %s: this library on this CPU has auto%s", name, usable);
}

tuttiResult_t tt_reduce_choose(const char *name)
{
  const struct tt_reduce_table *table = strcmp(name, "auto") ? NULL : fastest();
  for (int i = 0; !table && tt_reduce_tables[i]; i++)
    if (!strcmp(tt_reduce_tables[i]->name, name) && tt_reduce_tables[i]->usable()) table = tt_reduce_tables[i];
  if (!table) return refuse(name);
  atomic_store_explicit(&tt_process.kernels, table, memory_order_release);
  return tuttiSuccess;
}

tt_reduce_fn tt_reduce_kernel(int redop, int type)
{
  if (redop < 0 || redop >= TT_REDOPS || type < 0 || type >= tuttiNumTypes) return NULL;
  return tt_reduce_table()->kernels[redop][type];
}

int tt_reduce_scales(int redop, int type)
{
  return redop == TT_PREMUL_SUM || (redop == tuttiAvg && tt_type_is_float(type));
}

int tt_reduce_finishes(int redop, int type, int nranks)
{
  if (type == tuttiBool) return nranks == 1;
  return redop == tuttiAvg && !tt_type_is_float(type);
}

/* Volatile, here and below, keeps the computation behind the change of the environment. Rounding the quotient to fp64
 * first changes no bit of it in fp32. */
static double quotient(int type, double value, int divisor)
{
  fpenv env = fpenv_enter();
  volatile double dividend = value;
  volatile double wide = dividend / divisor;
  volatile float narrow = (float)wide;
  volatile double result = tt_type_part(type) == tuttiFloat64 ? wide : (double)narrow;
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

const struct tt_reduce_arg tt_reduce_plainly = {
    .also = NULL, .wide = -1, .dst_wide = 0, .scaled = -1, .divisor = 1, .scale = 1, .multiplier = 1};

void tt_reduce_arg_make(struct tt_reduce_arg *arg, int redop, int type, int nranks, uint64_t scalar, int scaled)
{
  *arg = tt_reduce_plainly;
  if (!tt_reduce_scales(redop, type)) return;
  arg->scaled = scaled;
  if (!tt_type_is_float(type)) arg->multiplier = scalar;
  else arg->scale = redop == tuttiAvg ? quotient(type, 1, nranks) : value_of(tt_type_part(type), scalar);
}

void tt_reduce_arg_before(struct tt_reduce_arg *arg, int redop, int type, int nranks, uint64_t scalar, float before)
{
  double own = redop == TT_PREMUL_SUM ? value_of(tt_type_part(type), scalar) : 1;
  volatile float narrow = before;
  fpenv env = fpenv_enter();
  volatile double factor = narrow;
  volatile double product = factor * own;
  fpenv_leave(env);
  *arg = tt_reduce_plainly;
  arg->scale = quotient(type, product, redop == tuttiAvg ? nranks : 1);
}

void tt_reduce_arg_finish(struct tt_reduce_arg *arg, int nranks)
{
  *arg = tt_reduce_plainly;
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
