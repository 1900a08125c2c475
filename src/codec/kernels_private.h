/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of the codecs: one table for each instruction set that has one of its own, all with the same bits. They work
 * on blocks of n elements in rows of LANES; the last row may be shorter, and then its missing elements count as zeros.
 * Private to codec.
 *
 * Sums are taken in LANES lanes, element i in lane i modulo LANES; the upper half is added to the lower half until one
 * lane is left. Bits of elements are stored in rows, too: a word of 16 bits for each bit of the elements, the lowest
 * first, and in each word element i of the row at bit i. No pointer is aligned. */
#ifndef TT_CODEC_KERNELS_H
#define TT_CODEC_KERNELS_H

#include "codec/private.h"
#include "codec/random_private.h"

/* A row's elements as bytes, and as words of 16 bits. */
typedef uint8_t byte_row __attribute__((vector_size(LANES)));
typedef uint16_t word_row __attribute__((vector_size(2 * LANES)));

/* The sides of a block of error + values. */
struct tt_sides {
  float negative, positive; /* sums */
  uint32_t nnegative;
  uint32_t peak; /* bits of the greatest magnitude */
};

/* Facts about the sums of a block. */
struct tt_outlook {
  uint32_t peak; /* bits of the greatest magnitude */
  uint32_t npositive, nnegative;
};

/* The levels of a block: value v has level l, 0 to `most`, of the sign of v: |v|, or `limit` if that is less, times
 * `inverse` is rounded to a whole number. Bit b of elements is bit b of l, and the last one the sign, 0 if l is 0. */
struct tt_levels {
  float limit, inverse;
  int most, bits;
  int is_random; /* rounded up if a random number from [0, 1) is below the rest of rounding down; else if 1/2 is */
  struct tt_codec_random random;
  uint32_t start; /* number of the first element in its stream: a multiple of LANES * STREAM_ROWS */
};

struct tt_codec_kernels {
  const char *name; /* that of the table of reduce kernels that it goes with */

  /* The sides of error[i] + values[i]. -0 is positive. */
  void (*sides)(struct tt_sides *sides, const float *error, const float *values, size_t n);

  /* Sets the bit of each element whose error + value is negative, and leaves error + value - means[bit] in error. */
  void (*signs_put)(uint8_t *to, float *error, const float *values, size_t n, const float means[2]);

  /* sum[i] += means[bit i]. */
  void (*signs_add)(float *sum, const uint8_t *from, size_t n, const float means[2]);

  /* The bits of the greatest magnitude. */
  uint32_t (*peak)(const float *values, size_t n);

  /* The same of error[i] + values[i]; and how many of them are on each side. */
  uint32_t (*sums_peak)(const float *error, const float *values, size_t n);
  void (*sums_look)(struct tt_outlook *outlook, const float *error, const float *values, size_t n);

  /* Sets the bit of each element whose magnitude has bits of at least `bound`. */
  void (*above_put)(uint8_t *to, const float *values, size_t n, uint32_t bound);

  /* Writes levels as words of bits. With a finite limit and an inverse of 0 all are 0, whatever the values. */
  void (*levels_put)(uint8_t *to, const float *values, size_t n, const struct tt_levels *levels);

  /* sum[i] += level i times unit. 0: a level was above `most`, or a 0 had a sign; such ones are added, too. */
  int (*levels_add)(float *sum, const uint8_t *from, size_t n, const struct tt_levels *levels, float unit);

  /* Writes values times `inverse` as whole numbers from -127 to 127, rounded to nearest even. */
  void (*bytes_put)(uint8_t *to, const float *values, size_t n, float inverse);

  /* sum[i] += number i times unit. 0: a number was -128. */
  int (*bytes_add)(float *sum, const uint8_t *from, size_t n, float unit);
};

/* The functions of a file by these names. */
#define TT_CODEC_KERNELS(table)                                                                                      \
  {                                                                                                                  \
    .name = table, .sides = sides, .signs_put = signs_put, .signs_add = signs_add, .peak = peak,                     \
    .sums_peak = sums_peak, .sums_look = sums_look, .above_put = above_put, .levels_put = levels_put,                \
    .levels_add = levels_add, .bytes_put = bytes_put, .bytes_add = bytes_add                                         \
  }

extern const struct tt_codec_kernels tt_codec_plain;
extern const struct tt_codec_kernels tt_codec_sse2, tt_codec_avx2, tt_codec_avx512; /* x86-64 */
extern const struct tt_codec_kernels tt_codec_neon;                                 /* AArch64 */

/* Those that go with the table of reduce kernels in use. */
const struct tt_codec_kernels *tt_codec_kernels(void);

/* The sum of lanes, which are changed. */
static inline float lanes_sum(float lane[LANES])
{
  for (int half = LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++) lane[l] += lane[l + half];
  return lane[0];
}

#endif
