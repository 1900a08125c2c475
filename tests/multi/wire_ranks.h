/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of floats that travel as fp16 or bf16: values, conversions, communicators. */
#ifndef WIRE_RANKS_H
#define WIRE_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/algos.h"
#include "base/base.h"
#include "chance.h"
#include "meeting.h"
#include "ranks.h"
#include "reduce/reduce.h"
#include "slow.h"

static const int wires[2] = {tuttiFloat16, tuttiBfloat16};

/* The value of the 16-bit type that is nearest to x, as fp32. */
static inline float rounded(int wire, float x)
{
  return tt_float_to_fp32(wire, tt_float_from_fp32(wire, x));
}

static inline float of_bits(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Exponents from -8 to 8, both signs, all 24 bits of the significand in use. */
static inline float mixed_value(int rank, size_t i)
{
  uint64_t state = ((uint64_t)rank << 40) + i, bits = next(&state);
  float fraction = 1 + (float)(bits >> 41) / 8388608.0f;
  int exponent = (int)(bits % 17) - 8;
  return (bits >> 20 & 1 ? -fraction : fraction) *
         (exponent < 0 ? 1.0f / (float)(1 << -exponent) : (float)(1 << exponent));
}

/* Infinities, NaN of all kinds, zeros, subnormals of each type, what rounds to infinity and what just does not, ties,
 * and any bits. */
static inline float hostile_value(int rank, size_t i)
{
  static const uint32_t bits[] = {
      0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x00000000, 0x80000000, 0x00000001, 0x807fffff,
      0x33000000, 0x33000001, 0x33800000, 0xb3c00000, 0x387fc000, 0x387fe000, 0x477fe000, 0x477fefff, 0x477ff000,
      0xc77ff000, 0x7f7f0000, 0x7f7f7fff, 0x7f7f8000, 0xff7fffff, 0x3f801000, 0x3f803000, 0x3f808000, 0x3f818000};
  uint64_t state = ((uint64_t)rank << 40) + i, chance = next(&state);
  if (chance % 4 == 0) return of_bits((uint32_t)(chance >> 32));
  return chance % 4 == 1 ? mixed_value(rank, i) : of_bits(bits[(chance >> 8) % (sizeof bits / sizeof *bits)]);
}

/* A communicator of this test's ranks: algorithm "" and segment 0 leave that to the library; wire -1: not said. */
static inline int wire_comm(const struct ranks *self, struct meeting *meeting, const char *algo, int segment, int wire,
                            tuttiComm_t *comm)
{
  char text[16];
  tuttiUniqueId id;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  if (wire >= 0) config.wire_type = wire;
  snprintf(text, sizeof text, "%d", segment);
  setenv("TUTTI_SEGMENT_BYTES", text, 1);
  setenv("TUTTI_ALGO", algo, 1);
  RANKS_CHECK(meeting_id(meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRankConfig(comm, self->nranks, id, self->rank, &config) == tuttiSuccess);
  return 0;
}

/* All ranks gave the same number. */
static inline int same_number(const struct ranks *self, tuttiComm_t comm, uint64_t number)
{
  uint64_t high = number, low = number;
  RANKS_CHECK(tuttiAllReduce(&high, &high, 1, tuttiUint64, tuttiMax, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&low, &low, 1, tuttiUint64, tuttiMin, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(high == low);
  return 0;
}

static inline uint64_t hash_of(const void *data, size_t len)
{
  const unsigned char *at = data;
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < len; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}

/* Names of the all-reduce algorithms, the library's own choice ("") first; NULL behind the last. A third of them where
 * tests are slow, others for another number of ranks. */
static inline const char *wire_algo(int index, int nranks)
{
  if (IS_SLOW) index = 3 * index + nranks % 3;
  if (index == 0) return "";
  for (int a = 0; a < tt_algo_count; a++)
    if (tt_algos[a].collective == TT_ALL_REDUCE && --index == 0) return tt_algos[a].name;
  return NULL;
}

/* Few ranks take half of the algorithms on one transport, and the others on the other one. */
static inline int algo_is_left_out(int index, int nranks)
{
  int is_second = strcmp(getenv("TUTTI_TRANSPORTS"), "tcp") == 0;
  return !IS_SLOW && nranks <= 6 && (index + nranks + is_second) % 2;
}

static inline int run_wire(const char *transport, int nranks, ranks_body body, struct meeting *meeting)
{
  setenv("TUTTI_TRANSPORTS", transport, 1);
  return ranks_run_processes(nranks, body, meeting, 120);
}

#endif
