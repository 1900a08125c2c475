/* SPDX-License-Identifier: BSD-3-Clause */
/* codec_perf: GB/s of fp32 that one core encodes and decodes, by each codec, beside memcpy. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codec/codec.h"
#include "reduce/reduce.h"

#define COUNT (1u << 20)
#define ROUNDS 15
#define SHIFT 4096 /* so many elements later each round begins, so that errors do not grow in the same direction */
#define DRAWN (COUNT + ROUNDS * SHIFT)
#define MOST 64

static const char help[] =
    "usage: codec_perf [CODEC...]\n\n"
    "Measures how fast one core encodes and decodes with each CODEC (int8, qsgd:4, dgc:0.99 ...; default: some of\n"
    "each kind), beside memcpy. In each round a tensor of 4 MiB is encoded as a contribution, and added to a sum.\n"
    "Figures are medians of interleaved rounds, in GB/s: 10^9 bytes of fp32 a second.\n\n"
    "  -h, --help   this text\n";

static const char *const some[] = {"fp16",   "bf16",   "int8",     "1bit", "1bit:1024", "qsgd:2",
                                   "qsgd:4", "qsgd:8", "terngrad", "threshold:2.5", "drop:0.99", "dryden:0.01",
                                   "adacomp", "dgc:0.999", NULL};

struct timed {
  struct tt_codec codec;
  struct tt_codec_piece piece;
  float *planes[TT_CODEC_PLANES];
  uint64_t bytes;
  uint32_t wanted; /* entries, in the round before */
  double encode[ROUNDS], decode[ROUNDS]; /* seconds */
};

/* Time of the processor, so that other processes do not count. */
static double now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *memory(size_t bytes)
{
  void *made = calloc(1, bytes);
  if (made) return made;
  fprintf(stderr, "codec_perf: no memory for %zu bytes\n", bytes);
  exit(1);
}

/* The distribution is about normal, with a deviation of 1. */
static void gradients_draw(float *values)
{
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < DRAWN; i++) {
    float sum = 0;
    for (int k = 0; k < 12; k++) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      sum += (float)(state >> 40) * 0x1p-24f;
    }
    values[i] = sum - 6;
  }
}

static void timed_make(struct timed *timed, const char *text, const float *values)
{
  *timed = (struct timed){.bytes = 0};
  if (tt_codec_parse(&timed->codec, text) != tuttiSuccess) exit(2);
  timed->piece = (struct tt_codec_piece){.nranks = 8, .seed = 1, .count = COUNT};
  if (tt_codec_prepares(&timed->codec)) tt_codec_prepare(&timed->codec, values, COUNT, &timed->piece.facts);
  for (int p = 0; p < tt_codec_planes(&timed->codec, TT_CODEC_CONTRIBUTION); p++)
    timed->planes[p] = memory(COUNT * sizeof(float));
}

/* Room as in a fusion: for what was wanted in the round before. */
static void room_set(struct timed *timed)
{
  if (tt_codec_route(&timed->codec) == TT_CODEC_GATHER)
    timed->piece.capacity = tt_codec_capacity(&timed->codec, COUNT, timed->wanted);
  timed->bytes = tt_codec_bytes(&timed->codec, &timed->piece);
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double gbs(double seconds[ROUNDS])
{
  qsort(seconds, ROUNDS, sizeof seconds[0], by_value);
  return COUNT * sizeof(float) / seconds[ROUNDS / 2] * 1e-9;
}

int main(int argc, char **argv)
{
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) return fputs(help, stdout) < 0;
  const char *const *texts = argc > 1 ? (const char *const *)argv + 1 : some;
  float *values = memory(DRAWN * sizeof(float)), *sum = memory(COUNT * sizeof(float));
  struct timed *timed = memory(MOST * sizeof *timed);
  uint8_t *code = memory(COUNT * 8);
  double copied[ROUNDS];
  int n = 0;
  gradients_draw(values);
  for (; texts[n] && n < MOST; n++) timed_make(&timed[n], texts[n], values);
  for (int round = 0; round < ROUNDS; round++) {
    double begin = now();
    memcpy(sum, values, COUNT * sizeof(float));
    copied[round] = now() - begin;
    for (int i = 0; i < n; i++) {
      struct timed *t = &timed[i];
      t->piece.step = (uint32_t)round;
      room_set(t);
      begin = now();
      tt_codec_encode(&t->codec, &t->piece, values + round * SHIFT, t->planes, code);
      t->encode[round] = now() - begin;
      begin = now();
      if (tt_codec_decode_add(&t->codec, &t->piece, code, t->bytes, sum) != tuttiSuccess) return 1;
      t->decode[round] = now() - begin;
      t->wanted = tt_codec_route(&t->codec) == TT_CODEC_GATHER ? tt_codec_wanted(code) : 0;
    }
  }
  printf("kernels %s, memcpy %.2f GB/s\n%-20s %8s %8s %8s\n", tt_reduce_table()->name, gbs(copied), "codec", "ratio",
         "encode", "decode");
  for (int i = 0; i < n; i++)
    printf("%-20s %8.1f %8.2f %8.2f\n", texts[i], COUNT * 4.0 / (double)timed[i].bytes, gbs(timed[i].encode),
           gbs(timed[i].decode));
  return 0;
}
