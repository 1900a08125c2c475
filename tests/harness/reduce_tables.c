/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_tables.h"

#include <stdio.h>

static const struct tt_reduce_table *plain(void)
{
  int i = 0;
  while (tt_reduce_tables[i + 1]) i++;
  return tt_reduce_tables[i];
}

int tables_each(int (*run)(const char *table))
{
  int failed = 0;
  printf("tables of kernels:");
  for (int i = 0; tt_reduce_tables[i]; i++)
    printf(" %s%s", tt_reduce_tables[i]->name, tt_reduce_tables[i]->usable() ? "" : " (not tested: this CPU lacks it)");
  printf("\n");
  fflush(stdout);
  for (int i = 0; tt_reduce_tables[i]; i++) {
    if (!tt_reduce_tables[i]->usable()) continue;
    if (tt_reduce_choose(tt_reduce_tables[i]->name) != tuttiSuccess) failed++;
    else failed += run(tt_reduce_tables[i]->name);
  }
  return failed;
}

void tables_judge(const struct reference *call, void *dst, size_t count)
{
  if (tt_reduce_table() == plain()) reference_reduce(call, dst, count);
  else plain()->kernels[call->redop][call->type](dst, call->sources, call->nsrc, count, call->arg);
}

int tables_judge_finite(int type, const void *data, size_t count)
{
  return tt_reduce_table() == plain() ? reference_finite(type, data, count) : plain()->finite[type](data, count);
}
