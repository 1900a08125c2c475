/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/sparse_private.h"

#include <math.h>

#include "codec/kernels_private.h"
#include "reduce/reduce.h"

void tt_sparse_head_put(uint8_t *code, const struct tt_sparse_head *head)
{
  memcpy(code, head, HEAD_BYTES);
}

struct tt_sparse_head tt_sparse_head_get(const uint8_t *code)
{
  struct tt_sparse_head head;
  memcpy(&head, code, HEAD_BYTES);
  return head;
}

uint32_t tt_sparse_share(double share, uint64_t count)
{
  double wanted = ceil(share * (double)count * (1 - 1e-9));
  if (wanted < 1) wanted = 1;
  return wanted < (double)count ? (uint32_t)wanted : (uint32_t)count;
}

/* A quarter more than was wanted in the step before, or one of 64 elements. */
uint32_t tt_sparse_capacity(const struct tt_codec *codec, uint64_t count, uint32_t wanted)
{
  uint64_t entries = wanted ? wanted + (uint64_t)wanted / 4 : count / 64;
  (void)codec;
  entries = (entries / 64 + 1) * 64;
  return (uint32_t)(entries < count ? entries : count);
}

#define PIECE 2048 /* elements that are looked at and then added, while they are near */

uint64_t tt_sparse_errors_add(float *error, const float *values, uint64_t count, uint64_t *sides)
{
  const struct tt_codec_kernels *kernels = tt_codec_kernels();
  for (uint64_t at = 0, n; at < count; at += n) {
    const void *both[2] = {error + at, values + at};
    struct tt_outlook look = {0, 0, 0};
    n = count - at < PIECE ? count - at : PIECE;
    if (sides) kernels->sums_look(&look, error + at, values + at, n);
    else look.peak = kernels->sums_peak(error + at, values + at, n);
    if (look.peak >= FP32_HUGE) return at;
    tt_reduce_kernel(tuttiSum, tuttiFloat32)(error + at, both, 2, n, NULL);
    if (!sides) continue;
    sides[0] += look.npositive;
    sides[1] += look.nnegative;
  }
  return count;
}

/* ---- scans ---- */

struct tt_sparse_scan tt_sparse_scan_begin(const float *values, uint64_t count, uint32_t bound)
{
  return (struct tt_sparse_scan){.values = values, .count = count, .bound = bound};
}

/* Makes bits of further elements; 0: there are none. */
static int scan_go_on(struct tt_sparse_scan *scan)
{
  uint64_t n = scan->count - scan->next;
  if (!n) return 0;
  if (n > SCAN_WORDS * 64) n = SCAN_WORDS * 64;
  memset(scan->words, 0, sizeof scan->words);
  tt_codec_kernels()->above_put((uint8_t *)scan->words, scan->values + scan->next, n, scan->bound);
  scan->first = scan->next;
  scan->next += n;
  scan->word = 0;
  return 1;
}

int tt_sparse_scan_next(struct tt_sparse_scan *scan, uint64_t *element)
{
  while (!scan->words[scan->word]) {
    if (++scan->word < SCAN_WORDS) continue;
    scan->word = SCAN_WORDS - 1; /* which is empty */
    if (!scan_go_on(scan)) return 0;
  }
  uint64_t *word = &scan->words[scan->word];
  *element = scan->first + (uint64_t)scan->word * 64 + (uint64_t)__builtin_ctzll(*word);
  *word &= *word - 1;
  return 1;
}

uint64_t tt_sparse_scan_rest(struct tt_sparse_scan *scan)
{
  uint64_t n = 0;
  do {
    for (; scan->word < SCAN_WORDS; scan->word++) n += (uint64_t)__builtin_popcountll(scan->words[scan->word]);
    memset(scan->words, 0, sizeof scan->words);
    scan->word = SCAN_WORDS - 1;
  } while (scan_go_on(scan));
  return n;
}

/* ---- selection, by digits of magnitudes, the highest first ---- */

#define FIRST_SHIFT 22 /* the first digit is above it: 9 bits, and the sign */
#define FIRST_DIGITS 512
#define NEXT_SHIFT 11 /* the other two have so many bits */
#define TALLY 4096    /* digits that are counted at once */
#define SAMPLE_EVERY 64
#define SAMPLE_LEAST 16
#define NO_VALUE 0x80000000u /* above all magnitudes */

/* The bounds as far as they are known: by side the least magnitude that begins with the digits found so far, and how
 * many of those that begin so are still to be taken. */
struct choice {
  const float *values;
  uint64_t count;
  int nsides;
  uint32_t low[2]; /* NO_VALUE: nothing is wanted of the side */
  uint64_t wanted[2];
};

static uint32_t side_of(const struct choice *choice, float value)
{
  return choice->nsides == 2 ? bits_of(value) >> 31 : 0;
}

/* Takes the digit with which there are enough values, from the highest down; *wanted: how many of them. Below 0: there
 * are too few. */
static int digit_take(const uint32_t *counts, int ndigits, uint64_t *wanted)
{
  for (int digit = ndigits - 1; digit >= 0; digit--) {
    if (counts[digit] >= *wanted) return digit;
    *wanted -= counts[digit];
  }
  return -1;
}

/* Counts values from `low` on, by the digit above `shift`. The last digit stands for all further ones, too. */
static void tally(const struct choice *choice, int shift, uint32_t counts[2][TALLY])
{
  uint32_t least = choice->low[0] < choice->low[1] ? choice->low[0] : choice->low[1];
  struct tt_sparse_scan scan = tt_sparse_scan_begin(choice->values, choice->count, least);
  memset(counts, 0, 2 * sizeof counts[0]);
  for (uint64_t i; tt_sparse_scan_next(&scan, &i);) {
    uint32_t side = side_of(choice, choice->values[i]), magnitude = magnitude_of(choice->values[i]);
    if (magnitude < choice->low[side]) continue;
    uint32_t digit = (magnitude - choice->low[side]) >> shift;
    counts[side][digit < TALLY ? digit : TALLY - 1]++;
  }
}

/* Goes on to the next digit, one of ndigits. 0: it is none of these. */
static int digits_take(struct choice *choice, int shift, int ndigits, uint32_t counts[2][TALLY])
{
  for (int side = 0; side < choice->nsides; side++) {
    if (choice->low[side] == NO_VALUE) continue;
    int digit = digit_take(counts[side], ndigits, &choice->wanted[side]);
    if (digit < 0 || digit == TALLY - 1) return 0;
    choice->low[side] += (uint32_t)digit << shift;
  }
  return 1;
}

/* First digits by a sample: so that there are some more values than are wanted. 0: there is no telling, or they would
 * be many. */
static int digits_guess(struct choice *choice)
{
  uint32_t counts[2][FIRST_DIGITS] = {{0}};
  for (int side = 0; side < choice->nsides; side++)
    if (choice->wanted[side] > choice->count / 16) return 0;
  for (uint64_t i = 0; i < choice->count; i += SAMPLE_EVERY)
    counts[side_of(choice, choice->values[i])][magnitude_of(choice->values[i]) >> FIRST_SHIFT]++;
  for (int side = 0; side < choice->nsides; side++) {
    uint64_t sampled = 2 * choice->wanted[side] / SAMPLE_EVERY + SAMPLE_LEAST;
    if (choice->low[side] == NO_VALUE) continue;
    int digit = digit_take(counts[side], FIRST_DIGITS, &sampled);
    if (digit <= 0) return 0;
    choice->low[side] = (uint32_t)digit << FIRST_SHIFT;
  }
  return 1;
}

/* The first two digits, of the values that are not below the guess. 0: the guess was of no use. */
static int digits_guessed(struct choice *choice, uint32_t counts[2][TALLY])
{
  struct choice guess = *choice;
  if (!digits_guess(&guess)) return 0;
  tally(&guess, NEXT_SHIFT, counts);
  if (!digits_take(&guess, NEXT_SHIFT, TALLY, counts)) return 0;
  *choice = guess;
  return 1;
}

/* The first digit, of all values. Neighbours are often alike, so they have counters of their own. */
static void digits_first(struct choice *choice, uint32_t counts[2][TALLY])
{
  enum { STRANDS = 4 };
  uint32_t strands[STRANDS][2 * FIRST_DIGITS] = {{0}};
  for (uint64_t i = 0; i < choice->count; i++) strands[i % STRANDS][bits_of(choice->values[i]) >> FIRST_SHIFT]++;
  memset(counts, 0, 2 * sizeof counts[0]);
  for (int strand = 0; strand < STRANDS; strand++)
    for (int digit = 0; digit < 2 * FIRST_DIGITS; digit++)
      counts[choice->nsides == 2 ? digit / FIRST_DIGITS : 0][digit % FIRST_DIGITS] += strands[strand][digit];
  digits_take(choice, FIRST_SHIFT, FIRST_DIGITS, counts);
}

void tt_sparse_tops(struct tt_sparse_top *tops, int nsides, const float *values, uint64_t count,
                    const uint64_t *wanted)
{
  struct choice choice = {values, count, nsides, {NO_VALUE, NO_VALUE}, {0, 0}};
  uint32_t counts[2][TALLY];
  uint64_t all = 0;
  for (int side = 0; side < nsides; side++) {
    tops[side] = (struct tt_sparse_top){FP32_HUGE, 0};
    choice.low[side] = wanted[side] ? 0 : NO_VALUE;
    all += choice.wanted[side] = wanted[side];
  }
  if (!all) return;
  if (!digits_guessed(&choice, counts)) {
    digits_first(&choice, counts);
    tally(&choice, NEXT_SHIFT, counts);
    digits_take(&choice, NEXT_SHIFT, 1 << NEXT_SHIFT, counts);
  }
  tally(&choice, 0, counts);
  digits_take(&choice, 0, 1 << NEXT_SHIFT, counts);
  for (int side = 0; side < nsides; side++)
    if (wanted[side]) tops[side] = (struct tt_sparse_top){choice.low[side], choice.wanted[side]};
}

/* ---- values ---- */

uint64_t tt_sparse_values_bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  (void)codec;
  return HEAD_BYTES + VALUE_BYTES * (piece->capacity + piece->count / GAP_SKIP);
}

static void pair_put(struct tt_sparse_writer *writer, uint32_t gap, float value)
{
  uint16_t narrow = (uint16_t)gap;
  memcpy(writer->at, &narrow, sizeof narrow);
  put_float(writer->at + sizeof narrow, value);
  writer->at += VALUE_BYTES;
  writer->count++;
}

void tt_sparse_value_put(struct tt_sparse_writer *writer, uint64_t element, float value)
{
  for (; element - writer->next >= GAP_SKIP; writer->next += GAP_SKIP) pair_put(writer, GAP_SKIP, 0);
  pair_put(writer, (uint32_t)(element - writer->next), value);
  writer->next = element + 1;
}

int tt_sparse_values_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                         float *sum)
{
  struct tt_sparse_head head = tt_sparse_head_get(code);
  uint64_t next = 0;
  (void)codec;
  if (head.wanted > piece->count || head.count > piece->capacity + piece->count / GAP_SKIP) return 0;
  code += HEAD_BYTES;
  for (uint32_t i = 0; i < head.count; i++, code += VALUE_BYTES) {
    uint16_t gap;
    float value = get_float(code + sizeof gap);
    memcpy(&gap, code, sizeof gap);
    next += gap;
    if (gap == GAP_SKIP && !bits_of(value)) continue;
    if (gap == GAP_SKIP || next >= piece->count || (is_huge(value) && bits_of(value) != FP32_NAN)) return 0;
    entry_add(&sum[next++], value);
  }
  return 1;
}

/* ---- marks ---- */

uint64_t tt_sparse_marks_bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  (void)codec;
  return HEAD_BYTES + MARK_BYTES * (uint64_t)piece->capacity;
}

void tt_sparse_mark_put(struct tt_sparse_writer *writer, uint64_t element, int is_b)
{
  uint32_t mark = (uint32_t)element | (uint32_t)is_b << 31;
  memcpy(writer->at, &mark, sizeof mark);
  writer->at += MARK_BYTES;
  writer->count++;
}

void tt_sparse_marks_spoil(const struct tt_codec_piece *piece, const float *values, float *error,
                           uint64_t from, struct tt_sparse_writer *writer, struct tt_sparse_head *head)
{
  for (uint64_t i = from; i < piece->count; i++)
    if (error_add(&error[i], values[i]) && head->wanted++ < piece->capacity) tt_sparse_mark_put(writer, i, 0);
  head->a = head->b = float_of(FP32_NAN);
}

int tt_sparse_marks_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                        float *sum)
{
  struct tt_sparse_head head = tt_sparse_head_get(code);
  uint64_t next = 0;
  (void)codec;
  int is_nan = bits_of(head.a) == FP32_NAN && bits_of(head.b) == FP32_NAN;
  if (head.wanted > piece->count || head.count > piece->capacity) return 0;
  if (!is_nan && (is_huge(head.a) || is_huge(head.b) || head.a < 0 || head.b > 0)) return 0;
  code += HEAD_BYTES;
  for (uint32_t i = 0; i < head.count; i++, code += MARK_BYTES) {
    uint32_t mark;
    memcpy(&mark, code, sizeof mark);
    uint64_t element = mark & 0x7fffffffu;
    if (element < next || element >= piece->count) return 0;
    entry_add(&sum[element], mark >> 31 ? head.b : head.a);
    next = element + 1;
  }
  return 1;
}
