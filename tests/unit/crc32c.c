/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* RFC 3720 B.4 and the check value of the CRC catalogue. */
static void known_answers_come_out(void **state)
{
  (void)state;
  uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
  memset(ones, 0xff, sizeof ones);
  for (int i = 0; i < 32; i++) {
    up[i] = (uint8_t)i;
    down[i] = (uint8_t)(31 - i);
  }
  uint32_t (*const both[])(uint32_t, const void *, size_t) = {tt_crc32c, tt_crc32c_portable};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(both[i](0, "123456789", 9), 0xe3069283u);
    assert_int_equal(both[i](0, zeros, 32), 0x8a9136aau);
    assert_int_equal(both[i](0, ones, 32), 0x62a8ab43u);
    assert_int_equal(both[i](0, up, 32), 0x46dd794eu);
    assert_int_equal(both[i](0, down, 32), 0x113fdb5cu);
    assert_int_equal(both[i](0, zeros, 0), 0);
  }
}

static uint8_t bytes[16384];

static void fill(void)
{
  uint32_t x = 1;
  for (size_t i = 0; i < sizeof bytes; i++) {
    x = x * 1664525u + 1013904223u;
    bytes[i] = (uint8_t)(x >> 24);
  }
}

/* Lengths around every border of the interleaved loops, and every alignment. */
static void the_instructions_agree_with_the_table_at_every_length(void **state)
{
  (void)state;
  fill();
  for (size_t len = 0; len <= 1200; len++)
    assert_int_equal(tt_crc32c(7, bytes + len % 8, len), tt_crc32c_portable(7, bytes + len % 8, len));
  for (size_t len = 3000; len <= 13000; len += 61)
    assert_int_equal(tt_crc32c(0, bytes + len % 8, len), tt_crc32c_portable(0, bytes + len % 8, len));
}

static void the_crc_of_parts_is_the_crc_of_the_whole(void **state)
{
  (void)state;
  fill();
  uint32_t whole = tt_crc32c(0, bytes, sizeof bytes);
  for (size_t cut = 0; cut <= sizeof bytes; cut += 127)
    assert_int_equal(tt_crc32c(tt_crc32c(0, bytes, cut), bytes + cut, sizeof bytes - cut), whole);
}

static void every_flipped_bit_changes_it(void **state)
{
  (void)state;
  fill();
  uint32_t whole = tt_crc32c(0, bytes, 4096);
  for (size_t bit = 0; bit < 4096 * 8; bit += 5) {
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_int_not_equal(tt_crc32c(0, bytes, 4096), whole);
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

int main(void)
{
  alarm(20);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_answers_come_out),
      cmocka_unit_test(the_instructions_agree_with_the_table_at_every_length),
      cmocka_unit_test(the_crc_of_parts_is_the_crc_of_the_whole),
      cmocka_unit_test(every_flipped_bit_changes_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
