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

#define PIECE 4096 /* elements that are looked at and then added, while they are near */

uint64_t tt_sparse_errors_add(float *error, const float *values, uint64_t count)
{
  for (uint64_t at = 0, n; at < count; at += n) {
    const void *both[2] = {error + at, values + at};
    n = count - at < PIECE ? count - at : PIECE;
    if (tt_codec_kernels()->sums_peak(error + at, values + at, n) >= FP32_HUGE) return at;
    tt_reduce_kernel(tuttiSum, tuttiFloat32)(error + at, both, 2, n, NULL);
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

/* ---- selection, by digits of a key, the highest first ---- */

#define FIRST_BITS 10 /* of the key's 32, the sign or another side among them */
#define DIGITS (1 << FIRST_BITS)
#define DIGIT_BITS 11
#define SAMPLE_EVERY 64
#define SAMPLE_LEAST 16

/* A number for a value, greater for greater magnitudes; the highest bit is set for those of the other side. */
struct key {
  uint32_t flip, mask;
};

static const struct key keys[] = {
    [TT_SPARSE_BOTH] = {0, 0x7fffffffu}, [TT_SPARSE_POSITIVE] = {0, ~0u}, [TT_SPARSE_NEGATIVE] = {0x80000000u, ~0u}};

static uint32_t key_of(struct key key, float value)
{
  return (bits_of(value) ^ key.flip) & key.mask;
}

/* Takes the digit with which there are enough values, from `most` down; *wanted: how many of them. */
static uint32_t digit_take(const uint32_t *counts, uint32_t most, uint64_t *wanted)
{
  uint32_t digit = most;
  for (; digit && counts[digit] < *wanted; digit--) *wanted -= counts[digit];
  return digit;
}

/* The first digit of the value at the bound, by a sample: so that there are some more values than are wanted. 0: there
 * is no telling, or they would be many. */
static uint32_t digit_guess(const float *values, uint64_t count, struct key key, uint64_t wanted)
{
  uint32_t counts[DIGITS] = {0};
  uint64_t sampled = 2 * wanted / SAMPLE_EVERY + SAMPLE_LEAST;
  if (wanted > count / 16) return 0;
  for (uint64_t i = 0; i < count; i += SAMPLE_EVERY) counts[key_of(key, values[i]) >> (32 - FIRST_BITS)]++;
  return digit_take(counts, DIGITS / 2 - 1, &sampled);
}

/* The first digit, of the values that are not below the guess. 0: there are too few. */
static uint32_t guessed_digit(const float *values, uint64_t count, struct key key, uint64_t *wanted)
{
  uint32_t counts[DIGITS] = {0}, guess = digit_guess(values, count, key, *wanted);
  uint64_t left = *wanted;
  if (!guess) return 0;
  struct tt_sparse_scan scan = tt_sparse_scan_begin(values, count, guess << (32 - FIRST_BITS));
  for (uint64_t i; tt_sparse_scan_next(&scan, &i);) counts[key_of(key, values[i]) >> (32 - FIRST_BITS)]++;
  uint32_t digit = digit_take(counts, DIGITS / 2 - 1, &left);
  if (digit) *wanted = left;
  return digit;
}

/* The first digit. Neighbours are often alike, so they have counters of their own. */
static uint32_t first_digit(const float *values, uint64_t count, struct key key, uint64_t *wanted)
{
  enum { STRANDS = 4 };
  uint32_t counts[STRANDS][DIGITS] = {{0}}, guessed = guessed_digit(values, count, key, wanted);
  if (guessed) return guessed;
  for (uint64_t i = 0; i < count; i++) counts[i % STRANDS][key_of(key, values[i]) >> (32 - FIRST_BITS)]++;
  for (int strand = 1; strand < STRANDS; strand++)
    for (int digit = 0; digit < DIGITS; digit++) counts[0][digit] += counts[strand][digit];
  return digit_take(counts[0], DIGITS / 2 - 1, wanted);
}

/* The next one: of values that have all digits before. */
static uint32_t next_digit(const float *values, uint64_t count, struct key key, const uint32_t above[2],
                           uint64_t *wanted)
{
  uint32_t counts[1 << DIGIT_BITS] = {0};
  const uint32_t before = above[0], shift = above[1];
  struct tt_sparse_scan scan = tt_sparse_scan_begin(values, count, before << (shift + DIGIT_BITS));
  for (uint64_t i; tt_sparse_scan_next(&scan, &i);) {
    uint32_t digits = key_of(key, values[i]) >> shift;
    if (digits >> DIGIT_BITS == before) counts[digits & ((1u << DIGIT_BITS) - 1)]++;
  }
  return digit_take(counts, (1u << DIGIT_BITS) - 1, wanted);
}

struct tt_sparse_top tt_sparse_top(const float *values, uint64_t count, enum tt_sparse_side side, uint64_t wanted)
{
  uint32_t bound = first_digit(values, count, keys[side], &wanted);
  for (uint32_t shift = 2 * DIGIT_BITS; shift;) {
    shift -= DIGIT_BITS;
    bound = bound << DIGIT_BITS | next_digit(values, count, keys[side], (const uint32_t[2]){bound, shift}, &wanted);
  }
  return (struct tt_sparse_top){bound, wanted};
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
