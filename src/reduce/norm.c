/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce/norm.h"

#include <math.h>
#include <string.h>

#include "reduce/convert_private.h"
#include "reduce/fpenv.h"
#include "reduce/reduce.h"

#define ELEMENT_BYTES 8 /* at most */

/* Adds n elements to the lanes from `lane` on, as a row whose other elements are zeros, which change no sum. */
static void add_part(struct tt_norm *norm, int type, const void *data, size_t lane, size_t n)
{
  char row[TT_NORM_LANES * ELEMENT_BYTES] = {0};
  size_t size = tt_type_size(type);
  memcpy(row + lane * size, data, n * size);
  tt_reduce_table()->norm[type](norm->lane, row, 1);
}

void tt_norm_add(struct tt_norm *norm, int type, const void *data, uint64_t first, size_t count)
{
  const size_t parts = tt_type_part(type) == type ? 1 : 2; /* of a complex number */
  const char *from = data;
  type = tt_type_part(type);
  first *= parts;
  count *= parts;
  size_t size = tt_type_size(type), lane = first % TT_NORM_LANES;
  if (lane && count) {
    size_t n = count < TT_NORM_LANES - lane ? count : TT_NORM_LANES - lane;
    add_part(norm, type, from, lane, n);
    from += n * size;
    count -= n;
  }
  size_t rows = count / TT_NORM_LANES, rest = count % TT_NORM_LANES;
  if (rows) tt_reduce_table()->norm[type](norm->lane, from, rows);
  if (rest) add_part(norm, type, from + rows * TT_NORM_LANES * size, 0, rest);
}

double tt_norm_get(const struct tt_norm *norm)
{
  double sum[TT_NORM_LANES];
  fpenv env = fpenv_enter();
  memcpy(sum, norm->lane, sizeof sum);
  for (int half = TT_NORM_LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++) sum[l] += sum[l + half];
  volatile double root = one_nan_fp64(sqrt(sum[0])); /* computed before the environment is left */
  fpenv_leave(env);
  return root;
}
