/* SPDX-License-Identifier: BSD-3-Clause */
/* Damaged codes, of every codec: decoding neither reads nor writes outside, and refuses or gives finite values or NaN.
 *
 * test_unit_codec_damage [--long]: 10,000 damaged codes of each codec, or a million.
 * Labels: serial. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "chance.h"
#include "codecs.h"
#include "slow.h"

#define PAGE 65536
#define MOST 600 /* elements */

static int ntries = IS_SLOW ? 2000 : 10000;

/* A page between two that cannot be touched. */
static char *page_new(void)
{
  char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(pages != MAP_FAILED);
  assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
  return pages + PAGE;
}

struct victim {
  struct tt_codec codec;
  struct tt_codec_piece piece;
  uint8_t code[MOST * 24];
  uint64_t bytes;
};

/* A good code of a tensor of drawn length and values. */
static void victim_make(struct victim *victim, const char *text, uint64_t *state)
{
  float values[MOST], planes[2][MOST] = {{0}}, *both[] = {planes[0], planes[1]};
  uint64_t count = below(state, 4) ? below(state, 80) : below(state, MOST + 1);
  victim->codec = codec_of(text);
  victim->piece = (struct tt_codec_piece){.nranks = 1 + (int32_t)below(state, 9), .count = count};
  victim->piece.capacity = tt_codec_capacity(&victim->codec, count, (uint32_t)below(state, 100));
  if (tt_codec_route(&victim->codec) == TT_CODEC_OWNER && below(state, 2)) victim->piece.stage = TT_CODEC_RESULT;
  floats_draw(values, count, state);
  if (tt_codec_prepares(&victim->codec)) tt_codec_prepare(&victim->codec, values, count, &victim->piece.facts);
  victim->bytes = tt_codec_bytes(&victim->codec, &victim->piece);
  assert_true(victim->bytes <= sizeof victim->code);
  tt_codec_encode(&victim->codec, &victim->piece, values, both, victim->code);
}

/* Bits, bytes or words are changed, some of them in the first bytes, which are heads. */
static void damage(uint8_t *code, uint64_t bytes, uint64_t *state)
{
  static const uint32_t evil[] = {0, ~0u, 0x7fffffffu, 0x80000000u, 0x7f800000u, 0x7fc00000u, 0xffff, 1};
  for (size_t n = 1 + below(state, 4); n && bytes; n--) {
    size_t at = below(state, below(state, 2) && bytes > 16 ? 16 : bytes);
    uint32_t word = evil[below(state, sizeof evil / sizeof evil[0])];
    size_t kind = below(state, 4), room = bytes - at < sizeof word ? bytes - at : sizeof word;
    if (kind == 0) code[at] ^= (uint8_t)(1u << below(state, 8));
    else if (kind == 1) code[at] = (uint8_t)next(state);
    else if (kind == 2) memcpy(code + at, &word, room);
    else for (; at < bytes; at++) code[at] = (uint8_t)next(state);
  }
}

static void codec_judge(const char *text, char *code_page, char *sum_page)
{
  struct victim *victim = malloc(sizeof *victim);
  uint64_t state = 11;
  int nrefused = 0;
  assert_non_null(victim);
  for (int i = 0; i < ntries; i++) {
    if (i % 8 == 0) victim_make(victim, text, &state);
    uint64_t count = victim->piece.count;
    int is_at_end = i & 1;
    uint8_t *code = (uint8_t *)code_page + (is_at_end ? PAGE - victim->bytes : 0);
    float *sum = (float *)(void *)(sum_page + (is_at_end ? PAGE - count * sizeof(float) : 0));
    memcpy(code, victim->code, victim->bytes);
    damage(code, victim->bytes, &state);
    memset(sum, 0, count * sizeof *sum);
    tuttiResult_t result = tt_codec_decode_add(&victim->codec, &victim->piece, code, victim->bytes, sum);
    nrefused += result != tuttiSuccess;
    assert_true(result == tuttiSuccess || result == tuttiInvalidArgument);
  }
  printf("%-16s %d of %d refused\n", text, nrefused, ntries);
  free(victim);
}

static void damaged_codes_do_no_harm(void **state)
{
  char *code_page = page_new(), *sum_page = page_new();
  (void)state;
  for (int c = 0; codecs[c]; c++) codec_judge(codecs[c], code_page, sum_page);
  munmap(code_page - PAGE, 3 * PAGE);
  munmap(sum_page - PAGE, 3 * PAGE);
}

struct lie {
  const char *codec;
  size_t at;
  uint32_t word;
  size_t len;
};

/* A code of 100 elements in which one number is a lie that would lead outside, or is none that encode writes. */
static void lies_are_refused(void **state)
{
  static const struct lie lies[] = {
      {"1bit", 0, 0x3f800000u, 4},       /* negative mean above 0 */
      {"1bit", 4, 0xbf800000u, 4},       /* positive mean below 0 */
      {"1bit", 4, 0x7f800000u, 4},       /* infinite */
      {"1bit", 4, 0x7fc00000u, 4},       /* one mean NaN */
      {"int8", 0, 0x7f800000u, 4},
      {"int8", 0, 0xbf800000u, 4},       /* unit below 0 */
      {"int8", 0, 0x7fc00001u, 4},       /* another NaN */
      {"int8", 10, 0x80, 1},             /* -128 */
      {"qsgd:4", 0, 0x7e800000u, 4},     /* 7 units are infinite */
      {"terngrad", 0, 0x10000u, 4},      /* a 0 with a sign */
      {"threshold:0.01", 0, 101, 4},     /* more was wanted than there is */
      {"drop:0.9", 0, 101, 4},
      {"adacomp:50", 0, 101, 4},
      {"threshold:0.01", 4, 65, 4},      /* more entries than there is room for */
      {"threshold:0.01", 16, 100, 4},    /* element 100 of 100 */
      {"threshold:0.01", 20, 0, 4},      /* not ascending */
      {"threshold:0.01", 8, 0x7f800000u, 4},
      {"drop:0.9", 4, 12, 4},
      {"drop:0.9", 16, 100, 2},
      {"drop:0.9", 16, 65535, 2},        /* a skip with a value */
      {"drop:0.9", 18, 0x7f800000u, 4},
      {"dryden:0.1", 4, 100, 4},
      {"dryden:0.1", 8, 0xbf800000u, 4},
      {"adacomp:50", 4, 65, 4},
      {"adacomp:50", 4, 63, 4},          /* other than in bins */
      {"adacomp:50", 16, 51, 1},
      {"adacomp:50", 18, 0x72, 1},       /* place 50 of 50 */
      {"adacomp:50", 8, 0xbf800000u, 4},
      {"dgc:0.9", 16, 100, 2},
  };
  (void)state;
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    struct tt_codec codec = codec_of(lies[i].codec);
    float values[100], sum[100] = {0}, planes[2][100] = {{0}}, *both[] = {planes[0], planes[1]};
    uint8_t code[2000];
    uint64_t chance = 1;
    struct tt_codec_piece piece = {.nranks = 2, .count = 100, .capacity = tt_codec_capacity(&codec, 100, 0)};
    floats_draw(values, 100, &chance);
    if (tt_codec_prepares(&codec)) tt_codec_prepare(&codec, values, 100, &piece.facts);
    uint64_t bytes = tt_codec_bytes(&codec, &piece);
    tt_codec_encode(&codec, &piece, values, both, code);
    assert_int_equal(tt_codec_decode_add(&codec, &piece, code, bytes, sum), tuttiSuccess);
    memcpy(code + lies[i].at, &lies[i].word, lies[i].len); /* little endian */
    if (tt_codec_decode_add(&codec, &piece, code, bytes, sum) != tuttiInvalidArgument)
      fail_msg("lie %zu, of %s, is believed", i, lies[i].codec);
    assert_non_null(strstr(tt_last_sentence(), "is damaged"));
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(damaged_codes_do_no_harm),
      cmocka_unit_test(lies_are_refused),
  };
  setenv("TUTTI_DEBUG", "NONE", 1);
  if (argc > 1 && !strcmp(argv[1], "--long")) ntries = 1000000;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
