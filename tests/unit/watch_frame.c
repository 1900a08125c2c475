/* SPDX-License-Identifier: BSD-3-Clause */
/* Control frames: what is encoded comes back, however it is cut; garbage is refused, never believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "watch/frame_private.h"

#define NRANKS 5

static uint64_t seed = 0x2545f4914f6cdd1du;

static uint64_t random_next(void)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

static struct tt_frame frame_of(uint32_t type)
{
  struct tt_frame frame = {.type = type, .rank = 3};
  const struct tt_call call = {.op = 1ull << 40, .count = 77, .collective = TT_ALL_REDUCE, .type = 7,
                               .redop = 4, .algo = 2, .root = -1, .form = 9};
  switch (type) {
  case TT_FRAME_BEAT:
    frame.beat.call = call;
    frame.beat.finished = call.op - 1;
    break;
  case TT_FRAME_GONE: frame.gone = 0x123456789abcdefu; break;
  case TT_FRAME_VOUCH: frame.stamp = 42; break;
  case TT_FRAME_LOST: frame.lost = tt_lost_make(1795407482123u, TT_LOST_DEAD); break;
  case TT_FRAME_NOTICE:
    frame.notice = (struct tt_notice){.key = ~7ull, .other = ~9ull, .number = 3, .code = tuttiSystemError};
    strcpy(frame.notice.sentence, "rank 3 gave up: no descriptor is left");
    break;
  case TT_FRAME_TARGET:
    frame.target = (struct tt_target){.key = ~11ull, .against = 2};
    for (int i = 0; i < TT_TARGET_WORDS; i++) frame.target.members[i] = UINT64_MAX / (uint64_t)(i + 3);
    break;
  case TT_FRAME_WORDS:
    frame.said.number = 12;
    for (int i = 0; i < TT_SAID_WORDS; i++) frame.said.words[i] = UINT64_MAX / (uint64_t)(i + 3);
    break;
  default:
    frame.record.code = tuttiRemoteError;
    frame.record.culprit = -1;
    frame.record.detector = 3;
    frame.record.op = 12;
    strcpy(frame.record.sentence, "rank 2 (pid 4711 on node-a) died during AllReduce #12");
  }
  return frame;
}

static size_t encode(const struct tt_frame *frame, uint8_t bytes[TT_FRAME_MAX_BYTES])
{
  struct tt_seal first = {.count = 0};
  return tt_frame_encode(frame, &first, bytes);
}

/* Feeds `bytes` in pieces of at most `piece`; returns how many frames came out, -1 if refused. */
static int feed(const uint8_t *bytes, size_t len, size_t piece, struct tt_frame *last)
{
  struct tt_frame_reader reader = {0};
  struct tt_seal in = {.count = 0};
  int frames = 0;
  for (size_t at = 0; at < len;) {
    size_t n = len - at < piece ? len - at : piece, left = n;
    const uint8_t *data = bytes + at;
    int step;
    while ((step = tt_frame_step(&reader, &in, &data, &left, NRANKS, last)) == 1) frames++;
    if (step < 0) return step;
    assert_int_equal(left, 0);
    at += n;
  }
  return frames;
}

static void frames_come_back_as_they_were_however_they_are_cut(void **state)
{
  (void)state;
  for (uint32_t type = TT_FRAME_BEAT; type <= TT_FRAME_WORDS; type++) {
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    struct tt_frame sent = frame_of(type), got;
    size_t len = encode(&sent, bytes);
    for (size_t piece = 1; piece <= len; piece += 7) {
      memset(&got, 0xaa, sizeof got);
      assert_int_equal(feed(bytes, len, piece, &got), 1);
      assert_memory_equal(&got, &sent, sizeof sent);
    }
  }
}

static void many_frames_in_one_piece_all_come_out(void **state)
{
  (void)state;
  uint8_t bytes[10 * TT_FRAME_MAX_BYTES];
  struct tt_frame got;
  struct tt_seal out = {.count = 0};
  size_t len = 0;
  for (uint32_t i = 0; i < 10; i++) {
    struct tt_frame frame = frame_of(1 + i % 4);
    len += tt_frame_encode(&frame, &out, bytes + len);
  }
  assert_int_equal(feed(bytes, len, len, &got), 10);
  assert_int_equal(feed(bytes, len, 100, &got), 10);
}

static int refused(struct tt_frame frame)
{
  uint8_t bytes[TT_FRAME_MAX_BYTES];
  struct tt_frame got;
  return feed(bytes, encode(&frame, bytes), sizeof bytes, &got) == -1;
}

static void values_out_of_range_are_refused(void **state)
{
  (void)state;
  struct tt_frame frame = frame_of(TT_FRAME_BEAT);
  frame.rank = NRANKS;
  assert_true(refused(frame));
  frame.rank = -1;
  assert_true(refused(frame));
  frame = frame_of(TT_FRAME_GONE);
  frame.gone = 0;
  assert_true(refused(frame));
  frame = frame_of(TT_FRAME_WORDS);
  frame.said.number = 0;
  assert_true(refused(frame));
  const int codes[] = {tuttiSuccess, tuttiInProgress, tuttiNumResults, -1, 1 << 30};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    frame = frame_of(TT_FRAME_RECORD);
    frame.record.code = (tuttiResult_t)codes[i];
    assert_true(refused(frame));
  }
  frame = frame_of(TT_FRAME_RECORD);
  frame.record.culprit = NRANKS;
  assert_true(refused(frame));
  frame.record.culprit = -2;
  assert_true(refused(frame));
}

static void unknown_types_are_refused(void **state)
{
  (void)state;
  uint8_t bytes[TT_FRAME_MAX_BYTES] = {0};
  struct tt_frame frame = frame_of(TT_FRAME_GONE), got;
  frame.gone = tuttiRemoteError; /* would do as a record, too */
  size_t len = encode(&frame, bytes);
  for (int type = 0; type < 256; type++) {
    bytes[4] = (uint8_t)type;
    int known = type >= TT_FRAME_BEAT && type <= TT_FRAME_WORDS;
    if (!known) assert_int_equal(feed(bytes, len, len, &got), -2);
  }
}

static void a_hostile_sentence_is_ended_and_made_printable(void **state)
{
  (void)state;
  uint8_t bytes[TT_FRAME_MAX_BYTES];
  struct tt_frame frame = frame_of(TT_FRAME_RECORD), got;
  memset(frame.record.sentence, 'x', sizeof frame.record.sentence);
  frame.record.sentence[3] = '\x1b';
  frame.record.sentence[4] = '\n';
  assert_int_equal(feed(bytes, encode(&frame, bytes), sizeof bytes, &got), 1);
  assert_int_equal(strnlen(got.record.sentence, TT_SENTENCE_BYTES), TT_SENTENCE_BYTES - 1);
  assert_memory_equal(got.record.sentence, "xxx??x", 6);
}

static void random_bytes_never_make_a_frame(void **state)
{
  (void)state;
  for (int round = 0; round < 2000; round++) {
    uint8_t bytes[700];
    struct tt_frame got;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)random_next();
    assert_int_equal(feed(bytes, sizeof bytes, 1 + random_next() % 700, &got), -2);
  }
}

static void frames_twice_left_out_or_out_of_turn_are_noticed(void **state)
{
  (void)state;
  uint8_t bytes[3][TT_FRAME_BYTES], stream[3 * TT_FRAME_BYTES];
  struct tt_frame got;
  struct tt_seal out = {.count = 0};
  static const struct {
    int order[3], result;
  } cases[] = {{{0, 1, 2}, 3}, {{0, 0, 1}, -2}, {{1, 0, 2}, -2}, {{0, 2, 1}, -2}, {{1, 2, 0}, -2}};
  for (int i = 0; i < 3; i++) {
    uint8_t whole[TT_FRAME_MAX_BYTES];
    struct tt_frame frame = frame_of(TT_FRAME_BEAT);
    assert_int_equal(tt_frame_encode(&frame, &out, whole), TT_FRAME_BYTES);
    memcpy(bytes[i], whole, TT_FRAME_BYTES);
  }
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    for (int i = 0; i < 3; i++) memcpy(stream + i * TT_FRAME_BYTES, bytes[cases[c].order[i]], TT_FRAME_BYTES);
    assert_int_equal(feed(stream, sizeof stream, sizeof stream, &got), cases[c].result);
  }
}

/* A flip in the type may make the frame a longer one: then it is not whole yet. */
static void every_flipped_bit_of_a_frame_is_noticed(void **state)
{
  (void)state;
  for (uint32_t type = TT_FRAME_BEAT; type <= TT_FRAME_WORDS; type++) {
    uint8_t bytes[2 * TT_FRAME_MAX_BYTES];
    struct tt_frame frame = frame_of(type), got;
    size_t len = encode(&frame, bytes);
    memset(bytes + len, 0, sizeof bytes - len);
    for (size_t bit = 0; bit < 8 * len; bit++) {
      bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
      assert_int_equal(feed(bytes, sizeof bytes, sizeof bytes, &got), -2);
      if (bit / 8 < 4 || bit / 8 >= 8) assert_int_equal(feed(bytes, len, len, &got), -2);
      bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
  }
}

/* Right frames with a few bytes changed: whatever is accepted is in range. */
static void damaged_frames_are_refused_or_harmless(void **state)
{
  (void)state;
  for (int round = 0; round < 20000; round++) {
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    struct tt_frame frame = frame_of(1 + (uint32_t)(random_next() % 4)), got;
    size_t len = encode(&frame, bytes);
    for (int i = 0; i < 3; i++) bytes[random_next() % len] = (uint8_t)random_next();
    if (feed(bytes, len, 1 + random_next() % len, &got) != 1) continue;
    assert_in_range(got.rank, 0, NRANKS - 1);
    if (got.type != TT_FRAME_RECORD) continue;
    assert_in_range(got.record.culprit + 1, 0, NRANKS);
    assert_in_range(got.record.code, tuttiSuccess + 1, tuttiRemoteError);
    assert_true(memchr(got.record.sentence, 0, TT_SENTENCE_BYTES) != NULL);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_come_back_as_they_were_however_they_are_cut),
      cmocka_unit_test(many_frames_in_one_piece_all_come_out),
      cmocka_unit_test(values_out_of_range_are_refused),
      cmocka_unit_test(unknown_types_are_refused),
      cmocka_unit_test(a_hostile_sentence_is_ended_and_made_printable),
      cmocka_unit_test(random_bytes_never_make_a_frame),
      cmocka_unit_test(frames_twice_left_out_or_out_of_turn_are_noticed),
      cmocka_unit_test(every_flipped_bit_of_a_frame_is_noticed),
      cmocka_unit_test(damaged_frames_are_refused_or_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
