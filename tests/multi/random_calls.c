/* SPDX-License-Identifier: BSD-3-Clause */
/* Random calls in random worlds: ranks, transports, hosts, settings, types, operations, counts, alignments, streams,
 * groups, two communicators, wire types, last factors and overflow reports. Every result is compared exactly, with
 * every byte around it, and all ranks must hold the same bits. The seed is printed; a world that fails is run again
 * by it.
 *
 *   test_multi_random_calls [--long] [--seconds S] [--seed N]
 *
 * --long: one hour if not told otherwise, up to 256 MiB a buffer, and one vector of more than 2^31 elements. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "chance.h"
#include "base/base.h"
#include "meeting.h"
#include "ranks.h"
#include "reduce/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 8
#define PERIOD 251 /* elements after which contributions repeat: a prime, so that no block looks like another */
#define GUARD 64
#define ROUNDS 16  /* in a world */
#define BATCH 5    /* calls of a round, at most */
#define PAINT 0x5a

static int seconds = 14;
static int is_long;
static uint64_t seed;

/* ---- one call ---- */

struct call {
  int type, op;
  size_t count;
  int noise;   /* arbitrary bits: only compared between ranks */
  int of_comm; /* which communicator */
  int wire, reports;
  int bad_rank; /* whose element bad_at is NaN; -1: nobody's */
  size_t bad_at;
  float after;
  /* of this rank alone */
  int in_place, shift[2], stream; /* stream: 0 is NULL */
  int overflow;
  char *memory[2], *in, *out;
  int is_in_heap[2];
};

static size_t count_pick(uint64_t *chance, size_t element, size_t most_bytes)
{
  static const size_t primes[] = {2, 3, 5, 7, 13, 61, 127, 509, 1021, 4093, 16381, 65521};
  size_t large = is_long && below(chance, 40) == 0 ? 128 : 1, most = most_bytes * large / element, count;
  switch (below(chance, 8)) {
  case 0: return below(chance, 2);
  case 1: count = primes[below(chance, sizeof primes / sizeof primes[0])]; break;
  case 2:
  case 3: count = ((size_t)1 << below(chance, is_long ? 28 : 19)) + below(chance, 3) - 1; break;
  case 4: count = below(chance, most); break;
  default: count = below(chance, 5000);
  }
  return count < most ? count : most;
}

/* Exact in any order of summation, for every type: at most 8 ranks. */
static double contribution(const struct call *call, int rank, size_t i)
{
  int is_small = tt_type_is_float(call->type) && tt_type_size(call->type) == 1;
  int has_sign = tt_type_is_float(call->type) || call->type == tuttiInt8 || call->type == tuttiInt16 ||
                 call->type == tuttiInt32 || call->type == tuttiInt64;
  int pick = (int)((i * 7 + (size_t)rank * 3 + (i * i) % 5) % 11);
  if (call->op == tuttiProd) return (i + (size_t)rank) % 3 == 0 ? 2 : 1;
  if (call->op == tuttiMax || call->op == tuttiMin) return has_sign ? pick - 5 : pick;
  if (call->op == tuttiAvg) return (double)((i % 2) * 8); /* the same on all ranks */
  return is_small ? pick % 2 : pick;
}

static double expected(const struct call *call, int nranks, size_t i)
{
  double result = contribution(call, 0, i);
  for (int r = 1; r < nranks; r++) {
    double x = contribution(call, r, i);
    if (call->op == tuttiSum) result += x;
    if (call->op == tuttiProd) result *= x;
    if (call->op == tuttiMax && x > result) result = x;
    if (call->op == tuttiMin && x < result) result = x;
  }
  return result * (double)call->after;
}

static void put(char *at, int type, double value)
{
  float single = (float)value;
  int64_t integer = (int64_t)value;
  uint32_t bits;
  switch (type) {
  case tuttiFloat32: memcpy(at, &single, 4); return;
  case tuttiFloat64: memcpy(at, &value, 8); return;
  case tuttiFloat16:
  case tuttiBfloat16:
  case tuttiFloat8e4m3:
  case tuttiFloat8e5m2:
    bits = tt_float_from_fp32(type, single);
    memcpy(at, &bits, tt_type_size(type));
    return;
  default: memcpy(at, &integer, tt_type_size(type));
  }
}

/* Repeats the period through len bytes, or compares with it. */
static void spread(char *to, size_t len, const char *period, size_t size)
{
  for (size_t at = 0; at < len; at += size) memcpy(to + at, period, len - at < size ? len - at : size);
}

static int is_spread(const char *from, size_t len, const char *period, size_t size)
{
  for (size_t at = 0; at < len; at += size)
    if (memcmp(from + at, period, len - at < size ? len - at : size) != 0) return 0;
  return 1;
}

static size_t input_period(const struct call *call, int rank, char period[PERIOD * 8])
{
  size_t size = tt_type_size(call->type);
  uint64_t bits = (uint64_t)rank * 1000003u + call->count * 31u + (uint64_t)call->op;
  for (size_t i = 0; i < PERIOD; i++) {
    uint64_t word = next(&bits);
    if (call->noise) memcpy(period + i * size, &word, size);
    else put(period + i * size, call->type, contribution(call, rank, i));
  }
  return PERIOD * size;
}

static int is_guarded(const char *data, size_t len)
{
  for (int g = 1; g <= GUARD; g++)
    if (data[-g] != PAINT || data[len + (size_t)g - 1] != PAINT) return 0;
  return 1;
}

/* What all ranks share of it, drawn alike on all. */
static void call_pick(struct call *call, uint64_t *chance, int nranks, size_t most)
{
  static const int wires[] = {TUTTI_CONFIG_UNDEF_INT, tuttiFloat16, tuttiBfloat16, tuttiFloat32};
  memset(call, 0, sizeof *call);
  call->type = (int)below(chance, tuttiBool);
  call->op = (int)below(chance, tuttiAvg + 1);
  call->count = count_pick(chance, tt_type_size(call->type), most);
  call->noise = below(chance, 4) == 0;
  call->of_comm = (int)below(chance, 2);
  call->wire = wires[below(chance, 4)];
  int is_float = tt_type_is_float(call->type), is_sum = call->op == tuttiSum || call->op == tuttiAvg;
  call->after = is_float && below(chance, 3) == 0 ? 0.5f : 1;
  call->reports = is_sum && below(chance, 2);
  /* Averages of floats over thirds round at every step: then only the ranks are compared. */
  if (call->op == tuttiAvg && is_float && (nranks & (nranks - 1))) call->noise = 1;
  int is_bad = is_float && is_sum && !call->noise && call->count && below(chance, 2);
  call->bad_rank = is_bad ? (int)below(chance, (size_t)nranks) : -1;
  call->bad_at = is_bad ? below(chance, call->count) : 0;
}

static void bad_put(const struct call *call, char *data, double value)
{
  put(data + call->bad_at * tt_type_size(call->type), call->type, value);
}

static int call_prepare(const struct ranks *self, struct call *call, uint64_t *own)
{
  static _Thread_local char period[PERIOD * 8];
  size_t len = call->count * tt_type_size(call->type);
  call->in_place = (int)below(own, 2);
  call->stream = (int)below(own, 3);
  call->overflow = 77;
  for (int b = 0; b < 2; b++) {
    call->shift[b] = (int)below(own, 3) ? (int)below(own, 64) : 0;
    call->is_in_heap[b] = (int)below(own, 2);
    if (!call->is_in_heap[b]) call->memory[b] = malloc(len + 2 * GUARD + 64);
    else RANKS_CHECK(tuttiMemAlloc((void **)&call->memory[b], len + 2 * GUARD + 64) == tuttiSuccess);
    RANKS_CHECK(call->memory[b]);
    memset(call->memory[b], PAINT, len + 2 * GUARD + 64);
  }
  call->in = call->memory[0] + GUARD + call->shift[0];
  call->out = call->in_place ? call->in : call->memory[1] + GUARD + call->shift[1];
  spread(call->in, len, period, input_period(call, self->rank, period));
  if (call->bad_rank == self->rank) bad_put(call, call->in, (double)NAN);
  return 0;
}

static uint64_t hash(const char *data, size_t len)
{
  uint64_t h = len + 1, word = 0;
  size_t at = 0;
  for (; at + 8 <= len; at += 8) {
    memcpy(&word, data + at, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  for (; at < len; at++) h = (h ^ (uint8_t)data[at]) * 0x100000001b3u;
  return h;
}

static int call_check(const struct ranks *self, struct call *call, _Atomic uint64_t *hashed)
{
  static _Thread_local char period[PERIOD * 8];
  size_t size = tt_type_size(call->type), len = call->count * size;
  int is_finite = tt_reduce_table()->finite[call->type](call->out, call->count);
  RANKS_CHECK(is_guarded(call->in, len) && is_guarded(call->out, len));
  RANKS_CHECK(!call->reports || call->overflow == !is_finite);
  if (call->bad_rank >= 0) { /* told; all else is as ever */
    RANKS_CHECK(!is_finite);
    bad_put(call, call->in, contribution(call, self->rank, call->bad_at % PERIOD));
    bad_put(call, call->out, expected(call, self->nranks, call->bad_at % PERIOD));
  }
  if (!call->in_place) RANKS_CHECK(is_spread(call->in, len, period, input_period(call, self->rank, period)));
  for (size_t i = 0; i < PERIOD; i++) put(period + i * size, call->type, expected(call, self->nranks, i));
  if (!call->noise && !is_spread(call->out, len, period, PERIOD * size)) {
    fprintf(stderr, "wrong: %zu of %s, %s, %s, alignments %d and %d\n", call->count, tt_type_name(call->type),
            tt_redop_name(call->op), call->in_place ? "in place" : "out of place", call->shift[0], call->shift[1]);
    return 1;
  }
  atomic_store(hashed, hash(call->out, len));
  for (int b = 0; b < 2; b++) {
    if (call->is_in_heap[b]) tuttiMemFree(call->memory[b]);
    else free(call->memory[b]);
  }
  return 0;
}

/* ---- a world ---- */

struct world {
  uint64_t seed;
  int hosts; /* ranks are on so many, by rank modulo it */
  int threads;
  size_t most; /* bytes of a usual buffer; a few are longer with --long */
  _Atomic uint64_t hashes[ROUNDS * BATCH][RANKS];
  _Atomic uint64_t bytes;
};

struct place {
  tuttiComm_t comms[2];
  tuttiStream_t streams[3];
};

/* All calls of a round: in a group or not, as this rank likes. */
static int round_run(const struct ranks *self, struct place *place, struct call *calls, int n, int grouped)
{
  if (grouped) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int k = 0; k < n; k++) {
    struct call *call = &calls[k];
    tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
    options.wire_type = call->wire;
    options.scale_after = call->after;
    if (call->reports) options.overflow = &call->overflow;
    RANKS_CHECK(tuttiAllReduceWith(call->in, call->out, call->count, (tuttiDataType_t)call->type,
                                   (tuttiRedOp_t)call->op, &options, place->comms[call->of_comm],
                                   place->streams[call->stream]) == tuttiSuccess);
  }
  if (grouped) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  RANKS_CHECK(tuttiStreamSynchronize(place->streams[1]) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamSynchronize(place->streams[2]) == tuttiSuccess);
  return 0;
}

static int place_make(const struct ranks *self, struct place *place)
{
  char bytes[TUTTI_UNIQUE_ID_BYTES] = {0};
  tuttiUniqueId second;
  place->streams[0] = NULL;
  RANKS_CHECK(tuttiCommInitRank(&place->comms[0], self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 0) {
    RANKS_CHECK(tuttiGetUniqueId(&second) == tuttiSuccess);
    memcpy(bytes, &second, sizeof bytes);
  }
  RANKS_CHECK(tuttiAllReduce(bytes, bytes, sizeof bytes, tuttiUint8, tuttiSum, place->comms[0], NULL) ==
              tuttiSuccess);
  memcpy(&second, bytes, sizeof bytes);
  RANKS_CHECK(tuttiCommInitRank(&place->comms[1], self->nranks, second, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&place->streams[1]) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&place->streams[2]) == tuttiSuccess);
  return 0;
}

static int live(const struct ranks *self)
{
  struct world *world = self->argument;
  struct place place;
  uint64_t chance = world->seed, own = world->seed + 77u * (uint64_t)(self->rank + 1);
  char host[32];
  snprintf(host, sizeof host, "host%d", self->rank % (world->hosts ? world->hosts : 1));
  if (world->hosts) setenv("TUTTI_HOSTID", host, 1);
  if (place_make(self, &place)) return 1;
  for (int round = 0; round < ROUNDS; round++) {
    struct call calls[BATCH];
    int n = 1 + (int)below(&chance, BATCH), grouped = below(&own, 2) == 0;
    for (int k = 0; k < n; k++) {
      call_pick(&calls[k], &chance, self->nranks, world->most);
      if (call_prepare(self, &calls[k], &own)) return 1;
      atomic_fetch_add(&world->bytes, calls[k].count * tt_type_size(calls[k].type));
    }
    if (round_run(self, &place, calls, n, grouped)) return 1;
    for (int k = 0; k < n; k++)
      if (call_check(self, &calls[k], &world->hashes[round * BATCH + k][self->rank])) return 1;
  }
  for (int s = 1; s < 3; s++) RANKS_CHECK(tuttiStreamDestroy(place.streams[s]) == tuttiSuccess);
  for (int c = 0; c < 2; c++) RANKS_CHECK(tuttiCommDestroy(place.comms[c]) == tuttiSuccess);
  return 0;
}

static int live_as_threads(const struct ranks *self)
{
  struct world *world = self->argument;
  return ranks_run_threads(world->threads, live, world, is_long ? 600 : 100);
}

static const char *setting(const char *name, uint64_t *chance, const char *const values[], size_t n)
{
  const char *value = values[below(chance, n)];
  setenv(name, value, 1);
  if (*value) printf(" %s=%s", name, value);
  return value;
}
#define SETTING(name, chance, ...) \
  setting(name, chance, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Runs the world of this seed: 1 if all was right. */
static int world_run(uint64_t of)
{
  uint64_t chance = of;
  struct world *world = ranks_shared(sizeof *world);
  int nranks = 1 + (int)below(&chance, RANKS), as_threads = below(&chance, 5) == 0, wrong;
  assert_non_null(world);
  world->seed = of;
  printf("seed %llu: %d ranks%s", (unsigned long long)of, nranks, as_threads ? " as threads" : "");
  if (!as_threads && below(&chance, 3) == 0) world->hosts = 2 + (int)below(&chance, 2);
  if (world->hosts) printf(" on %d hosts", world->hosts);
  SETTING("TUTTI_TRANSPORTS", &chance, "shm,tcp", "shm,tcp", "tcp,shm", "tcp");
  SETTING("TUTTI_ALGO", &chance, "", "", "ring", "recursive_doubling", "direct", "hierarchical");
  SETTING("TUTTI_WIRE_TYPE", &chance, "", "", "half", "bfloat16");
  SETTING("TUTTI_LANES", &chance, "", "1", "3", "4");
  const char *segment = SETTING("TUTTI_SEGMENT_BYTES", &chance, "", "", "64", "1000", "70000");
  world->most = *segment ? (size_t)atoi(segment) * 600 : (size_t)2 << 20; /* else there are too many messages */
  if (world->most > (size_t)2 << 20) world->most = (size_t)2 << 20;
  SETTING("TUTTI_SHM_SLOTS", &chance, "", "", "4", "9");
  SETTING("TUTTI_SHM_SLOT_BYTES", &chance, "", "4096", "5000");
  SETTING("TUTTI_TCP_CRC", &chance, "", "on");
  SETTING("TUTTI_TRACE", &chance, "", "", "/dev/null");
  SETTING("TUTTI_TIMELINE", &chance, "", "", "/dev/null");
  const char *fault = SETTING("TUTTI_FAULT", &chance, "", "", "action=short:1008", "side=recv,action=short:496");
  if (*fault && world->most > (size_t)256 << 10) world->most = (size_t)256 << 10; /* likewise */
  fflush(stdout);
  long began_ms = meeting_now_ms();
  world->threads = nranks;
  if (as_threads) wrong = ranks_run_processes(1, live_as_threads, world, is_long ? 600 : 100);
  else wrong = ranks_run_processes(nranks, live, world, is_long ? 600 : 100);
  for (int k = 0; k < ROUNDS * BATCH && !wrong; k++)
    for (int r = 1; r < nranks; r++)
      if (atomic_load(&world->hashes[k][r]) != atomic_load(&world->hashes[k][0]) && !wrong++)
        fprintf(stderr, "call %d of round %d: ranks 0 and %d hold different bits\n", k % BATCH, k / BATCH, r);
  printf(": %.1f MiB, %ld ms%s\n", (double)atomic_load(&world->bytes) / 1048576.0, meeting_now_ms() - began_ms,
         wrong ? ": WRONG" : "");
  fflush(stdout);
  return !wrong;
}

static void random_calls_are_exact(void **state)
{
  (void)state;
  long end_ms = meeting_now_ms() + seconds * 1000L;
  setenv("TUTTI_DEBUG", "WARN", 1);
  for (uint64_t k = 0; k == 0 || meeting_now_ms() < end_ms; k++) assert_true(world_run(seed + k));
}

/* ---- more than 2^31 elements ---- */

#define HUGE_COUNT (((size_t)1 << 31) + 12345)

static int huge(const struct ranks *self)
{
  tuttiComm_t comm;
  char period[PERIOD], *data = malloc(HUGE_COUNT);
  RANKS_CHECK(data);
  for (int i = 0; i < PERIOD; i++) period[i] = (char)(i % 50 + self->rank);
  spread(data, HUGE_COUNT, period, PERIOD);
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(data, data, HUGE_COUNT, tuttiInt8, tuttiSum, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < PERIOD; i++) period[i] = (char)(i % 50 * 2 + 1);
  RANKS_CHECK(is_spread(data, HUGE_COUNT, period, PERIOD));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  free(data);
  return 0;
}

static long available_mib(void)
{
  FILE *file = fopen("/proc/meminfo", "r");
  char line[128];
  long kib = 0;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %ld", &kib) == 1) break;
  if (file) fclose(file);
  return kib / 1024;
}

static void more_than_2_to_the_31_elements_are_exact(void **state)
{
  (void)state;
  if (available_mib() < 6000) {
    printf("skipped: %ld MiB of memory are available, 6000 are needed\n", available_mib());
    skip();
  }
  for (int t = 0; t < 2; t++) {
    setenv("TUTTI_TRANSPORTS", t ? "tcp" : "shm", 1);
    assert_int_equal(ranks_run_processes(2, huge, NULL, 600), 0);
  }
}

static void options_parse(int argc, char **argv)
{
  seed = (uint64_t)time(NULL) * 1000;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--long") == 0) {
      is_long = 1;
      seconds = 3600;
    } else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = strtoull(argv[++i], NULL, 10);
    }
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls_are_exact)};
  const struct CMUnitTest huge_tests[] = {cmocka_unit_test(more_than_2_to_the_31_elements_are_exact)};
  options_parse(argc, argv);
  int failed = is_long ? cmocka_run_group_tests(huge_tests, NULL, NULL) : 0;
  return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
