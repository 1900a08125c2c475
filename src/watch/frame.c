/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/frame_private.h"

#include <endian.h>
#include <string.h>

#include "watch/page.h"

#define FRAME_MAGIC 0x33637474u /* "ttc3" */
#define HEAD_BYTES ((size_t)(TT_FRAME_BYTES - TT_TAG_BYTES))

/* Cursor over the first 64 bytes; all fields lie at fixed places, so nothing can run over. */
static uint8_t *put4(uint8_t *at, uint32_t value)
{
  value = htole32(value);
  memcpy(at, &value, 4);
  return at + 4;
}

static uint8_t *put8(uint8_t *at, uint64_t value)
{
  value = htole64(value);
  memcpy(at, &value, 8);
  return at + 8;
}

static uint32_t get4(const uint8_t *at)
{
  uint32_t value;
  memcpy(&value, at, 4);
  return le32toh(value);
}

static uint64_t get8(const uint8_t *at)
{
  uint64_t value;
  memcpy(&value, at, 8);
  return le64toh(value);
}

static void put_call(uint8_t *at, const struct tt_call *call)
{
  at = put8(at, call->op);
  at = put8(at, call->count);
  *at++ = call->collective;
  *at++ = call->type;
  *at++ = call->redop;
  *at++ = call->algo;
  at = put4(at, (uint32_t)call->root);
  put8(at, call->form);
}

static void get_call(const uint8_t *at, struct tt_call *call)
{
  call->op = get8(at);
  call->count = get8(at + 8);
  call->collective = at[16];
  call->type = at[17];
  call->redop = at[18];
  call->algo = at[19];
  call->root = (int32_t)get4(at + 20);
  call->form = get8(at + 24);
}

_Static_assert(sizeof((struct tt_target *)0)->members == TT_SENTENCE_BYTES, "behind a frame there is room for it");

/* Returns the length without the tag. */
static size_t body_put(const struct tt_frame *frame, uint8_t *bytes)
{
  memset(bytes, 0, HEAD_BYTES);
  uint8_t *at = put4(bytes, FRAME_MAGIC);
  at = put4(at, frame->type);
  put4(at, (uint32_t)frame->rank);
  uint8_t *body = bytes + 16;
  switch (frame->type) {
  case TT_FRAME_BEAT:
    put_call(body, &frame->beat.call);
    put8(body + 32, frame->beat.finished);
    break;
  case TT_FRAME_GONE: put8(body, frame->gone); break;
  case TT_FRAME_VOUCH: put8(body, frame->stamp); break;
  case TT_FRAME_LOST: put8(body, frame->lost); break;
  case TT_FRAME_NOTICE:
    body = put8(body, frame->notice.key);
    body = put4(body, frame->notice.number);
    body = put4(body, (uint32_t)frame->notice.code);
    put8(body, frame->notice.other);
    memcpy(bytes + HEAD_BYTES, frame->notice.sentence, TT_SENTENCE_BYTES);
    return HEAD_BYTES + TT_SENTENCE_BYTES;
  case TT_FRAME_TARGET:
    body = put8(body, frame->target.key);
    put8(body, frame->target.against);
    for (int i = 0; i < TT_TARGET_WORDS; i++) put8(bytes + HEAD_BYTES + 8 * i, frame->target.members[i]);
    return HEAD_BYTES + TT_SENTENCE_BYTES;
  case TT_FRAME_WORDS:
    put8(body, frame->said.number);
    for (int i = 0; i < TT_SAID_WORDS; i++) put8(bytes + HEAD_BYTES + 8 * i, frame->said.words[i]);
    return HEAD_BYTES + TT_SENTENCE_BYTES;
  case TT_FRAME_RECORD:
    body = put4(body, (uint32_t)frame->record.code);
    body = put4(body, (uint32_t)frame->record.culprit);
    put8(body, frame->record.op);
    memcpy(bytes + HEAD_BYTES, frame->record.sentence, TT_SENTENCE_BYTES);
    return HEAD_BYTES + TT_SENTENCE_BYTES;
  }
  return HEAD_BYTES;
}

size_t tt_frame_encode(const struct tt_frame *frame, struct tt_seal *out, uint8_t bytes[TT_FRAME_MAX_BYTES])
{
  size_t len = body_put(frame, bytes);
  tt_seal_make(out, bytes, len, bytes + len);
  return len + TT_TAG_BYTES;
}

static int record_get(const uint8_t *bytes, int nranks, struct tt_frame *frame)
{
  const uint8_t *body = bytes + 16;
  frame->record.code = (tuttiResult_t)get4(body);
  frame->record.culprit = (int32_t)get4(body + 4);
  frame->record.op = get8(body + 8);
  frame->record.detector = frame->rank;
  memcpy(frame->record.sentence, bytes + HEAD_BYTES, TT_SENTENCE_BYTES);
  return tt_failure_check(&frame->record, nranks);
}

static int notice_get(const uint8_t *bytes, struct tt_frame *frame)
{
  const uint8_t *body = bytes + 16;
  frame->notice.key = get8(body);
  frame->notice.number = get4(body + 8);
  frame->notice.code = (int32_t)get4(body + 12);
  frame->notice.other = get8(body + 16);
  memcpy(frame->notice.sentence, bytes + HEAD_BYTES, TT_SENTENCE_BYTES);
  return frame->notice.number != 0;
}

static int words_get(const uint8_t *bytes, struct tt_frame *frame)
{
  frame->said.number = get8(bytes + 16);
  for (int i = 0; i < TT_SAID_WORDS; i++) frame->said.words[i] = get8(bytes + HEAD_BYTES + 8 * i);
  return frame->said.number != 0 && frame->said.number <= UINT64_MAX / 2;
}

static int decode(const uint8_t *bytes, int nranks, struct tt_frame *frame)
{
  const uint8_t *body = bytes + 16;
  switch (frame->type) {
  case TT_FRAME_BEAT:
    get_call(body, &frame->beat.call);
    frame->beat.finished = get8(body + 32);
    return 1;
  case TT_FRAME_GONE:
    frame->gone = get8(body);
    return frame->gone != 0;
  case TT_FRAME_VOUCH:
    frame->stamp = get8(body);
    return 1;
  }
  if (frame->type == TT_FRAME_WORDS) return words_get(bytes, frame);
  if (frame->type == TT_FRAME_RECORD) return record_get(bytes, nranks, frame);
  if (frame->type == TT_FRAME_LOST) {
    frame->lost = get8(body);
    return frame->lost != 0;
  }
  if (frame->type == TT_FRAME_NOTICE) return notice_get(bytes, frame);
  frame->target.key = get8(body);
  frame->target.against = get8(body + 8);
  for (int i = 0; i < TT_TARGET_WORDS; i++) frame->target.members[i] = get8(bytes + HEAD_BYTES + 8 * i);
  return 1;
}

/* Length of the frame whose first 8 bytes are there; 0 if they are wrong. */
static size_t frame_len(const uint8_t *bytes)
{
  uint32_t type = get4(bytes + 4);
  if (get4(bytes) != FRAME_MAGIC) return 0;
  if (type < TT_FRAME_BEAT || type > TT_FRAME_WORDS) return 0;
  return type >= TT_FRAME_NOTICE ? TT_FRAME_MAX_BYTES : TT_FRAME_BYTES;
}

static int fill(struct tt_frame_reader *reader, const uint8_t **data, size_t *len, size_t want)
{
  size_t missing = want - reader->have, n = *len < missing ? *len : missing;
  memcpy(reader->bytes + reader->have, *data, n);
  reader->have += n;
  *data += n;
  *len -= n;
  return reader->have == want;
}

int tt_frame_step(struct tt_frame_reader *reader, struct tt_seal *in, const uint8_t **data, size_t *len, int nranks,
                  struct tt_frame *frame)
{
  if (reader->have < TT_FRAME_BYTES && !fill(reader, data, len, TT_FRAME_BYTES)) return 0;
  size_t want = frame_len(reader->bytes);
  if (want == 0) return -2; /* who has the key begins no frame so */
  if (!fill(reader, data, len, want)) return 0;
  if (!tt_seal_fits(in, reader->bytes, want - TT_TAG_BYTES, reader->bytes + want - TT_TAG_BYTES)) return -2;
  reader->have = 0;
  memset(frame, 0, sizeof *frame);
  frame->type = get4(reader->bytes + 4);
  frame->rank = (int32_t)get4(reader->bytes + 8);
  return frame->rank >= 0 && frame->rank < nranks && decode(reader->bytes, nranks, frame) ? 1 : -1;
}
