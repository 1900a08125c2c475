/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of the links, and the time of each all-reduce algorithm beside them: one process a rank, started by the
 * script `bound`, which reads what rank 0 prints, a line an event:
 *
 *   limit ROUND alpha_us beta_us_per_mib shift_us shift_us_per_mib
 *   settled BYTES CALLS SECONDS DONE                 what calls of that size took to learn; DONE: 0: it goes on
 *   time ROUND ALGORITHM BYTES ITERATIONS US IDLE     one measurement; IDLE: share of the cores' time
 *   illegal ALGORITHM
 *
 * Every algorithm gets a communicator of its own, in every round a new one, and goes through all sizes; rounds are
 * interleaved, so that slow phases of the machine meet everybody. Decisions on the way (iterations, points left out)
 * follow from times that all ranks agreed on, so all decide alike.
 *
 * usage: bound_ranks SECONDS ROUNDS MEMORY SETTLE_SECONDS ALGORITHM,... BYTES...
 *
 * MEMORY is malloc or tutti (tuttiMemAlloc). "chosen" is the library's own choice by its predictions, "settled" the one
 * that calls of the first round have learnt: for each size they go on until the log says so (rank 0's TUTTI_DEBUG_FILE,
 * where there is one), but no longer than SETTLE_SECONDS, which SECONDS are without. For later rounds it has to be kept
 * (TUTTI_CACHE). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tutti.h"

#define ALGORITHMS_MAX 64
#define SIZES_MAX 64
#define STREAM_BYTES (1u << 20) /* messages that show what a link carries */
#define LIMIT_US 150000.0       /* time for each of the four limits, in each round */
#define BATCH_US 20000.0        /* a shorter batch says little */
#define ITERATIONS_MAX 20000
#define SETTLE_LOOK_US 50000.0  /* between two looks whether calls of a size have learnt enough */
#define SETTLE_BATCH 20000      /* calls between them, at most */
#define HOPELESS 4.0            /* times slower than the best of its size, */
#define HOPELESS_US 100000.0    /* and this slow: seen once is enough */
#define MIB (1024.0 * 1024.0)

struct bound {
  int rank, nranks;
  tuttiComm_t control; /* how the ranks agree; never measured */
  double end_us;       /* when all should be over */
  double settle_us;    /* for each size */
  FILE *log;           /* rank 0's, where it says what has settled; NULL: there is none */
  int rounds, round;
  int nalgorithms, nsizes;
  char *algorithms[ALGORITHMS_MAX];
  int is_illegal[ALGORITHMS_MAX];
  size_t bytes[SIZES_MAX]; /* ascending */
  double us[ALGORITHMS_MAX][SIZES_MAX]; /* of an operation, as last seen; 0: never */
  int left; /* points */
  float *data;
  int is_malloc;
};

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void check(const struct bound *b, tuttiComm_t comm, tuttiResult_t result)
{
  if (result == tuttiSuccess) return;
  fprintf(stderr, "bound_ranks: rank %d: %s: %s\n", b->rank, tuttiGetErrorString(result), tuttiGetLastError(comm));
  exit(1);
}

/* The same on all ranks afterwards; also a barrier. */
static double agree(const struct bound *b, double value, tuttiRedOp_t op)
{
  check(b, b->control, tuttiAllReduce(&value, &value, 1, tuttiDouble, op, b->control, NULL));
  return value;
}

/* ---- what the links can do ---- */

/* Rank 0's message to rank 1 and the answer of one byte. */
static void ping(const struct bound *b, size_t bytes)
{
  char answer = 0;
  if (b->rank == 0) {
    check(b, b->control, tuttiSend(b->data, bytes, tuttiUint8, 1, b->control, NULL));
    check(b, b->control, tuttiRecv(&answer, 1, tuttiUint8, 1, b->control, NULL));
  } else if (b->rank == 1) {
    check(b, b->control, tuttiRecv(b->data, bytes, tuttiUint8, 0, b->control, NULL));
    check(b, b->control, tuttiSend(&answer, 1, tuttiUint8, 0, b->control, NULL));
  }
}

/* Every rank's message to its right, all at once. */
static void shift(const struct bound *b, size_t bytes)
{
  char *in = (char *)b->data, *out = in + STREAM_BYTES;
  check(b, b->control, tuttiGroupStart());
  check(b, b->control, tuttiSend(out, bytes, tuttiUint8, (b->rank + 1) % b->nranks, b->control, NULL));
  check(b, b->control, tuttiRecv(in, bytes, tuttiUint8, (b->rank + b->nranks - 1) % b->nranks, b->control, NULL));
  check(b, b->control, tuttiGroupEnd());
}

static double repeat(const struct bound *b, void (*move)(const struct bound *, size_t), size_t bytes, int times)
{
  agree(b, 0, tuttiMax);
  double begin = now_us();
  for (int i = 0; i < times; i++) move(b, bytes);
  return agree(b, b->rank < 2 ? (now_us() - begin) / times : 0, tuttiMax);
}

static double time_of(const struct bound *b, void (*move)(const struct bound *, size_t), size_t bytes)
{
  repeat(b, move, bytes, 1); /* opens links */
  double once = repeat(b, move, bytes, 2);
  int times = (int)(LIMIT_US / once);
  return repeat(b, move, bytes, times < 2 ? 2 : times);
}

static void limits_measure(const struct bound *b)
{
  double alpha = time_of(b, ping, 1) / 2, stream = time_of(b, ping, STREAM_BYTES) - alpha;
  double shift_alpha = time_of(b, shift, 1), shift_stream = time_of(b, shift, STREAM_BYTES);
  double mib = STREAM_BYTES / MIB;
  if (b->rank) return;
  printf("limit %d %.3f %.3f %.3f %.3f\n", b->round, alpha, (stream - alpha) / mib, shift_alpha,
         (shift_stream - shift_alpha) / mib);
  fflush(stdout);
}

/* ---- one point ---- */

struct ticks {
  double idle, all;
};

/* The time of all cores since boot; zeros where /proc does not tell. */
static struct ticks ticks_read(void)
{
  struct ticks ticks = {0};
  double values[8] = {0};
  FILE *file = fopen("/proc/stat", "r");
  if (!file) return ticks;
  int n = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &values[0], &values[1], &values[2], &values[3],
                 &values[4], &values[5], &values[6], &values[7]);
  fclose(file);
  for (int i = 0; i < n; i++) ticks.all += values[i];
  ticks.idle = values[3] + values[4];
  return ticks;
}

static double idle_since(const struct ticks *before)
{
  struct ticks now = ticks_read();
  return now.all > before->all ? (now.idle - before->idle) / (now.all - before->all) : 0;
}

static void reduce_times(const struct bound *b, tuttiComm_t comm, size_t count, int times)
{
  for (int i = 0; i < times; i++)
    check(b, comm, tuttiAllReduce(b->data, b->data, count, tuttiFloat, tuttiSum, comm, NULL));
}

/* Time of an operation among `times` in a row, on the last rank to have it. */
static double batch(const struct bound *b, tuttiComm_t comm, size_t count, int times)
{
  agree(b, 0, tuttiMax);
  double begin = now_us();
  reduce_times(b, comm, count, times);
  return agree(b, (now_us() - begin) / times, tuttiMax);
}

/* One operation whose result is known, wherever a block of it came from. */
static double proof(const struct bound *b, tuttiComm_t comm, const char *algorithm, size_t count)
{
  for (size_t i = 0; i < count; i++) b->data[i] = (float)(b->rank + (int)(i % 1009));
  double us = batch(b, comm, count, 1);
  float ranks = (float)(b->nranks * (b->nranks - 1) / 2);
  for (size_t i = 0; i < count; i++) {
    float right = ranks + (float)b->nranks * (float)(i % 1009);
    if (b->data[i] == right) continue;
    fprintf(stderr, "bound_ranks: %s: rank %d has %g instead of %g as element %zu of %zu\n", algorithm, b->rank,
            (double)b->data[i], (double)right, i, count);
    exit(1);
  }
  memset(b->data, 0, count * sizeof(float)); /* stays 0 while it is summed up again and again */
  return us;
}

/* 1 if the log says since the last look that a shape has settled. */
static int log_look(const struct bound *b)
{
  char line[2048];
  int found = 0;
  if (!b->log) return 0;
  clearerr(b->log);
  while (fgets(line, sizeof line, b->log)) found |= strstr(line, "LEARN ") && strstr(line, "settled on");
  return found;
}

/* Calls by which the library finds out which algorithm is the quickest. */
static void settle(struct bound *b, tuttiComm_t comm, size_t count, double us)
{
  double begin = now_us(), taken_us = 0;
  long calls = 0;
  int is_done = 0;
  log_look(b);
  while (!is_done && taken_us < b->settle_us) {
    double wanted = SETTLE_LOOK_US / us;
    int times = wanted < 1 ? 1 : wanted > SETTLE_BATCH ? SETTLE_BATCH : (int)wanted;
    us = batch(b, comm, count, times);
    calls += times;
    is_done = agree(b, log_look(b), tuttiMax) > 0;
    taken_us = agree(b, now_us() - begin, tuttiMax);
  }
  b->end_us += taken_us;
  if (b->rank) return;
  printf("settled %zu %ld %.1f %d\n", count * sizeof(float), calls, taken_us / 1e6, is_done);
  fflush(stdout);
}

static double best_of_size(const struct bound *b, int size)
{
  double best = 0;
  for (int a = 0; a < b->nalgorithms; a++) {
    double us = b->us[a][size];
    if (us > 0 && (best == 0 || us < best)) best = us;
  }
  return best;
}

/* Every point that is left gets the same time, if it can be had for that. */
static int iterations_for(const struct bound *b, double us)
{
  double each = agree(b, b->end_us - now_us(), tuttiMin) / b->left;
  double times = (each > BATCH_US ? each : BATCH_US) / us;
  return times < 1 ? 1 : times > ITERATIONS_MAX ? ITERATIONS_MAX : (int)times;
}

static void point_measure(struct bound *b, tuttiComm_t comm, int algorithm, int size)
{
  size_t count = b->bytes[size] / sizeof(float);
  double before = b->us[algorithm][size], best = best_of_size(b, size);
  if (b->round && before > HOPELESS_US && before > HOPELESS * best) return;
  double once = b->round ? before : proof(b, comm, b->algorithms[algorithm], count);
  if (!b->round && b->settle_us > 0 && !strcmp(b->algorithms[algorithm], "settled")) settle(b, comm, count, once);
  int times = iterations_for(b, once);
  if (times > 1) { /* the first is of links that are not used to this size yet */
    once = batch(b, comm, count, 1);
    times = iterations_for(b, once);
  }
  struct ticks ticks = ticks_read();
  double us = b->us[algorithm][size] = batch(b, comm, count, times), idle = idle_since(&ticks);
  if (b->rank) return;
  printf("time %d %s %zu %d %.3f %.3f\n", b->round, b->algorithms[algorithm], b->bytes[size], times, us, idle);
  fflush(stdout);
}

/* ---- rounds ---- */

/* A communicator with that algorithm; NULL where it is not legal for these ranks. Only rank 0 looks at the name. */
static tuttiComm_t comm_create(const struct bound *b, const char *algorithm)
{
  tuttiComm_t comm = NULL;
  tuttiUniqueId id;
  memset(&id, 0, sizeof id);
  int is_chosen = strcmp(algorithm, "chosen") == 0, is_settled = strcmp(algorithm, "settled") == 0;
  setenv("TUTTI_ALGO", is_chosen || is_settled ? "" : algorithm, 1);
  setenv("TUTTI_LEARN", is_settled ? "1" : "0", 1);
  if (b->rank == 0) check(b, NULL, tuttiGetUniqueId(&id));
  check(b, b->control, tuttiBcast(&id, sizeof id, tuttiUint8, 0, b->control, NULL));
  tuttiResult_t result = tuttiCommInitRank(&comm, b->nranks, id, b->rank);
  if (agree(b, result == tuttiSuccess, tuttiMin) > 0) return comm;
  if (b->rank == 0 && result != tuttiInvalidArgument) check(b, NULL, result);
  if (result == tuttiSuccess) tuttiCommAbort(comm);
  return NULL;
}

static void algorithm_measure(struct bound *b, int algorithm)
{
  if (b->is_illegal[algorithm]) return;
  tuttiComm_t comm = comm_create(b, b->algorithms[algorithm]);
  if (!comm) {
    b->is_illegal[algorithm] = 1;
    b->left -= b->nsizes * (b->rounds - b->round);
    if (b->rank == 0) printf("illegal %s\n", b->algorithms[algorithm]);
    return;
  }
  for (int s = 0; s < b->nsizes; s++) {
    point_measure(b, comm, algorithm, s);
    b->left--;
  }
  check(b, comm, tuttiCommDestroy(comm));
}

static void measure(struct bound *b)
{
  b->left = b->rounds * b->nalgorithms * b->nsizes;
  for (b->round = 0; b->round < b->rounds; b->round++) {
    limits_measure(b);
    for (int a = 0; a < b->nalgorithms; a++) algorithm_measure(b, (a + b->round) % b->nalgorithms);
  }
}

static int arguments_take(struct bound *b, int argc, char **argv)
{
  if (argc < 7 || argc - 6 > SIZES_MAX) return 0;
  b->end_us = now_us() + strtod(argv[1], NULL) * 1e6;
  b->rounds = atoi(argv[2]);
  b->is_malloc = strcmp(argv[3], "malloc") == 0;
  b->settle_us = strtod(argv[4], NULL) * 1e6;
  for (char *name = strtok(argv[5], ","); name && b->nalgorithms < ALGORITHMS_MAX; name = strtok(NULL, ","))
    b->algorithms[b->nalgorithms++] = name;
  for (int a = 6; a < argc; a++) b->bytes[b->nsizes++] = strtoull(argv[a], NULL, 10) / sizeof(float) * sizeof(float);
  return b->rounds >= 0 && b->nalgorithms > 0 && (b->is_malloc || strcmp(argv[3], "tutti") == 0);
}

static void data_make(struct bound *b)
{
  size_t longest = b->bytes[b->nsizes - 1], bytes = longest > 2 * STREAM_BYTES ? longest : 2 * STREAM_BYTES;
  if (!b->is_malloc) check(b, NULL, tuttiMemAlloc((void **)&b->data, bytes));
  else if (!(b->data = malloc(bytes))) {
    fprintf(stderr, "bound_ranks: no memory for %zu bytes: give fewer\n", bytes);
    exit(1);
  }
  memset(b->data, 0, bytes);
}

static int data_free(struct bound *b)
{
  if (!b->is_malloc) return tuttiMemFree(b->data) != tuttiSuccess;
  free(b->data);
  return 0;
}

int main(int argc, char **argv)
{
  static struct bound bound; /* too long for a stack */
  struct bound *b = &bound;
  tuttiLaunch_t launch;
  if (!arguments_take(b, argc, argv)) {
    fprintf(stderr, "usage: bound_ranks SECONDS ROUNDS MEMORY SETTLE_SECONDS ALGORITHM,... BYTES...\n");
    return 2;
  }
  check(b, NULL, tuttiGetLaunch(&launch));
  b->rank = launch.proc;
  b->nranks = launch.nprocs;
  if (b->nranks < 2) {
    fprintf(stderr, "bound_ranks: one rank has no links: give at least 2\n");
    return 2;
  }
  setenv("TUTTI_ALGO", "", 1);
  setenv("TUTTI_LEARN", "0", 1);
  check(b, NULL, tuttiCommInitRank(&b->control, b->nranks, launch.id, b->rank));
  unsetenv("TUTTI_COMM_ID"); /* would make all further ids this one */
  const char *log = getenv("TUTTI_DEBUG_FILE");
  if (b->rank == 0 && log && b->settle_us > 0) b->log = fopen(log, "a+");
  data_make(b);
  measure(b);
  check(b, b->control, tuttiCommDestroy(b->control));
  if (b->log) fclose(b->log);
  return data_free(b);
}
