/* SPDX-License-Identifier: BSD-3-Clause */
/* How an algorithm does in a few calls among those of another one, on ranks of a launcher:
 * usage: bench_visits BYTES USUAL OTHER [SECONDS].
 *
 * One job has two communicators, each with one of both algorithms forced and without learning. It makes USUAL_CALLS
 * all-reduces by USUAL, then a visit of 4 to 1,000 calls by OTHER, whose length is drawn, and so on for SECONDS
 * (default 14). Prints mean us of calls in parts of a visit, by its length, and of calls by USUAL behind it. Times may
 * have levels that last for seconds, so rounds are told apart: those in which USUAL (median of 21 rounds) is nearer to
 * its least time, and those in which it is nearer to its greatest. */
#include <string.h>

#include "bench.h"
#include "chance.h"

#define USUAL_CALLS 204
#define BEHIND 20 /* calls by USUAL behind a visit that are left out */
#define ROUNDS_MOST 20000
#define AROUND 10 /* rounds on each side for a median */

static const int lengths[] = {4, 8, 20, 96, 1000}, ends[] = {2, 8, 20, 96, 1000};
enum { LENGTHS = sizeof lengths / sizeof *lengths, PARTS = sizeof ends / sizeof *ends };

struct round {
  int length;         /* of the visit, as an index */
  double first, last; /* us of a call by USUAL in each half of its calls */
  double part[PARTS]; /* of the visit; 0: it is not so long */
  double usual;       /* median of `last` around it */
};
static struct round rounds[ROUNDS_MOST];

static tuttiComm_t comm_of(const tuttiUniqueId *id, const tuttiLaunch_t *job, const char *algo)
{
  tuttiComm_t comm;
  setenv("TUTTI_ALGO", algo, 1);
  must(tuttiCommInitRank(&comm, job->nprocs, *id, job->proc));
  return comm;
}

/* us of a call, of `calls` of them */
static double time_calls(tuttiComm_t comm, float *data, size_t count, int calls)
{
  double begin = now_us();
  for (int i = 0; i < calls; i++) must(tuttiAllReduce(data, data, count, tuttiFloat, tuttiSum, comm, NULL));
  return (now_us() - begin) / calls;
}

static void round_run(struct round *round, tuttiComm_t usual, tuttiComm_t other, float *data, size_t count)
{
  time_calls(usual, data, count, BEHIND);
  round->first = time_calls(usual, data, count, USUAL_CALLS / 2 - BEHIND);
  round->last = time_calls(usual, data, count, USUAL_CALLS - USUAL_CALLS / 2);
  for (int p = 0, made = 0; p < PARTS && made < lengths[round->length]; p++) {
    int end = ends[p] < lengths[round->length] ? ends[p] : lengths[round->length];
    round->part[p] = time_calls(other, data, count, end - made);
    made = end;
  }
}

static void levels_find(int n)
{
  for (int i = 0; i < n; i++) {
    double around[2 * AROUND + 1];
    int m = 0;
    for (int k = i - AROUND; k <= i + AROUND; k++)
      if (k >= 0 && k < n) around[m++] = rounds[k].last;
    sort(around, m);
    rounds[i].usual = around[m / 2];
  }
}

static void level_print(int n, double from, double to)
{
  double sum = 0;
  int m = 0;
  for (int i = 0; i < n; i++)
    if (rounds[i].usual >= from && rounds[i].usual < to) sum += rounds[i].last, m++;
  if (!m) return;
  printf("%d rounds in which the usual one takes %.1f us\n", m, sum / m);
  for (int l = 0; l < LENGTHS; l++) {
    double parts[PARTS] = {0}, behind = 0;
    int visits = 0;
    for (int i = 0; i + 1 < n; i++) {
      if (rounds[i].length != l || rounds[i].usual < from || rounds[i].usual >= to) continue;
      for (int p = 0; p < PARTS; p++) parts[p] += rounds[i].part[p];
      behind += rounds[i + 1].first;
      visits++;
    }
    if (!visits) continue;
    printf("%6d calls, %4d visits:", lengths[l], visits);
    for (int p = 0; p < PARTS && parts[p] > 0; p++) printf(" to %d %.1f", ends[p], parts[p] / visits);
    printf("; behind it %.1f\n", behind / visits);
  }
}

int main(int argc, char **argv)
{
  tuttiLaunch_t job;
  tuttiUniqueId id;
  if (argc < 4 || argc > 5 || atol(argv[1]) < 4) {
    fprintf(stderr, "usage: bench_visits BYTES USUAL OTHER [SECONDS]\n");
    return 2;
  }
  size_t count = (size_t)atol(argv[1]) / sizeof(float);
  double stop_us = (argc > 4 ? atof(argv[4]) : 14) * 1e6;
  float *data = calloc(count, sizeof *data);
  setenv("TUTTI_LEARN", "0", 1);
  must(tuttiGetLaunch(&job));
  if (!data) return 1;
  tuttiComm_t usual = comm_of(&job.id, &job, argv[2]);
  if (job.proc == 0) must(tuttiGetUniqueId(&id));
  must(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, usual, NULL));
  tuttiComm_t other = comm_of(&id, &job, argv[3]);
  time_calls(other, data, count, 1000);
  time_calls(usual, data, count, 1000);
  int n = 0, is_over = 0;
  uint64_t chance = 1;
  for (double begin = now_us(); n < ROUNDS_MOST && !is_over; n++) {
    rounds[n].length = (int)below(&chance, n % 10 ? LENGTHS - 1 : LENGTHS);
    round_run(&rounds[n], usual, other, data, count);
    if (n % 50 < 49) continue;
    is_over = now_us() - begin > stop_us;
    must(tuttiBroadcast(&is_over, &is_over, 1, tuttiInt32, 0, usual, NULL));
  }
  levels_find(n);
  double least = rounds[0].usual, most = least;
  for (int i = 0; i < n; i++) {
    if (rounds[i].usual < least) least = rounds[i].usual;
    if (rounds[i].usual > most) most = rounds[i].usual;
  }
  if (job.proc == 0) {
    level_print(n, 0, (least + most) / 2);
    level_print(n, (least + most) / 2, 2 * most);
  }
  must(tuttiCommDestroy(other));
  must(tuttiCommDestroy(usual));
  free(data);
  return 0;
}
