/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks of a launcher send to each other what perftest's programs send:
 * usage: bench_pair latency|bandwidth|rate BYTES COUNT [heap|malloc|tags].
 *
 * latency: BYTES go there and back COUNT times; prints half the median time of that in us, as ib_send_lat does.
 * bandwidth: COUNT messages of BYTES go one way, WINDOW of them in a group, and one answer comes back at the end;
 * prints MB/s of 10^6 bytes (those of ib_write_bw are of 2^20). rate: likewise in messages a second, each by itself.
 * heap (default): memory of tuttiMemAlloc. tags: in such memory, by the functions of tutti_message.h, which have no
 * groups. */
#include <string.h>

#include "bench.h"
#include "tutti_message.h"

#define WINDOW 16

struct pair {
  tuttiComm_t comm;
  int rank;
  char *data;
  size_t len;
  int count;
  int has_tags, by_call;
};

static void send(const struct pair *pair, size_t len)
{
  if (pair->has_tags) must(tuttiSendTag(pair->data, len, tuttiUint8, !pair->rank, 1, pair->comm));
  else must(tuttiSend(pair->data, len, tuttiUint8, !pair->rank, pair->comm, NULL));
}

static void receive(const struct pair *pair, size_t len)
{
  if (pair->has_tags) must(tuttiRecvTag(pair->data, len, tuttiUint8, !pair->rank, 1, pair->comm, NULL));
  else must(tuttiRecv(pair->data, len, tuttiUint8, !pair->rank, pair->comm, NULL));
}

static double latency_us(const struct pair *pair)
{
  double *times = malloc((size_t)pair->count * sizeof *times), half;
  if (!times) exit(1);
  for (int i = 0; i < pair->count; i++) {
    double begin = now_us();
    if (pair->rank == 0) send(pair, pair->len);
    receive(pair, pair->len);
    if (pair->rank == 1) send(pair, pair->len);
    times[i] = now_us() - begin;
  }
  sort(times, pair->count);
  half = times[pair->count / 2] / 2;
  free(times);
  return half;
}

static double bandwidth_mb(const struct pair *pair)
{
  double begin = now_us();
  for (int left = pair->count; left > 0; left -= WINDOW) {
    if (!pair->by_call) must(tuttiGroupStart());
    for (int i = 0; i < WINDOW && i < left; i++)
      if (pair->rank == 0) send(pair, pair->len);
      else receive(pair, pair->len);
    if (!pair->by_call) must(tuttiGroupEnd());
  }
  if (pair->rank == 0) receive(pair, 1);
  else send(pair, 1);
  return (double)pair->len * pair->count / (now_us() - begin);
}

static double rate(const struct pair *pair)
{
  return 1e6 * bandwidth_mb(pair) / (double)pair->len;
}

int main(int argc, char **argv)
{
  tuttiLaunch_t launch;
  int is_latency = argc > 1 && strcmp(argv[1], "latency") == 0, is_rate = argc > 1 && strcmp(argv[1], "rate") == 0;
  struct pair pair = {.len = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, .count = argc > 3 ? atoi(argv[3]) : 0};
  must(tuttiGetLaunch(&launch));
  int is_known = is_latency || is_rate || (argc > 1 && strcmp(argv[1], "bandwidth") == 0);
  if (!pair.len || pair.count < 1 || launch.nprocs != 2 || !is_known) {
    fprintf(stderr, "usage: tutti run -n 2 -- bench_pair latency|bandwidth|rate BYTES COUNT [heap|malloc|tags]\n");
    return 2;
  }
  pair.rank = launch.proc;
  pair.has_tags = argc > 4 && strcmp(argv[4], "tags") == 0;
  pair.by_call = is_rate || pair.has_tags;
  must(tuttiCommInitRank(&pair.comm, 2, launch.id, pair.rank));
  if (argc > 4 && strcmp(argv[4], "malloc") == 0) pair.data = malloc(pair.len);
  else must(tuttiMemAlloc((void **)&pair.data, pair.len));
  memset(pair.data, 1, pair.len);
  double (*measure)(const struct pair *) = is_latency ? latency_us : is_rate ? rate : bandwidth_mb;
  struct pair warm = pair;
  warm.count = WINDOW;
  measure(&warm);
  double figure = measure(&pair);
  if (pair.rank == 0) printf("%.2f\n", figure);
  must(tuttiCommDestroy(pair.comm));
  return 0;
}
