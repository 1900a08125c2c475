/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/kernels_private.h"

#include "reduce/reduce.h"

static const struct tt_codec_kernels *const tables[] = {
#if defined(TT_PLAIN_KERNELS) /* a build without the others */
#elif defined(__x86_64__)
    &tt_codec_avx512, &tt_codec_avx2, &tt_codec_sse2,
#elif defined(__aarch64__)
    &tt_codec_neon,
#endif
    &tt_codec_plain};

const struct tt_codec_kernels *tt_codec_kernels(void)
{
  const char *name = tt_reduce_table()->name;
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    if (!strcmp(tables[i]->name, name)) return tables[i];
  return &tt_codec_plain;
}
