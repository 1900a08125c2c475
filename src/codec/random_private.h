/* SPDX-License-Identifier: BSD-3-Clause */
/* Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011): four random words that are a function of a key and a counter.
 * Private to codec.
 *
 * The numbers of an encoder have a key and half a counter of their own, drawn from the seed. Its elements lie in
 * streams, those of a grain or of a tensor; element i of a stream has word i / 16 % 4 of counter i / 64 * 16 + i % 16,
 * so that vectors of up to 16 elements are words of counters that follow one another. */
#ifndef TT_CODEC_RANDOM_H
#define TT_CODEC_RANDOM_H

#include "codec/private.h"

#define PHILOX_A 0xd2511f53u
#define PHILOX_B 0xcd9e8d57u
#define PHILOX_KEY_A 0x9e3779b9u
#define PHILOX_KEY_B 0xbb67ae85u
#define PHILOX_ROUNDS 10
#define STREAM_ROWS 4 /* of LANES elements that one counter per lane serves */

static inline void philox(uint32_t word[4], uint32_t key0, uint32_t key1)
{
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    uint64_t a = (uint64_t)PHILOX_A * word[0], b = (uint64_t)PHILOX_B * word[2];
    word[0] = (uint32_t)(b >> 32) ^ word[1] ^ key0;
    word[1] = (uint32_t)b;
    word[2] = (uint32_t)(a >> 32) ^ word[3] ^ key1;
    word[3] = (uint32_t)a;
    key0 += PHILOX_KEY_A;
    key1 += PHILOX_KEY_B;
  }
}

/* The random numbers of one stream. */
struct tt_codec_random {
  uint32_t key[2];
  uint32_t counter[3]; /* words 1 to 3; word 1 is the number of the stream */
};

static inline struct tt_codec_random random_of(const struct tt_codec_piece *piece)
{
  uint32_t is_result = piece->stage == TT_CODEC_RESULT;
  uint32_t word[4] = {piece->tensor, piece->step, is_result ? 0 : piece->rank, is_result};
  philox(word, (uint32_t)piece->seed, (uint32_t)(piece->seed >> 32));
  return (struct tt_codec_random){.key = {word[0], word[1]}, .counter = {0, word[2], word[3]}};
}

#endif
