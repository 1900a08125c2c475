/* SPDX-License-Identifier: BSD-3-Clause */
/* The same all-reduce loop for every library: float, sum, in place, ranks as processes. Rank 0 prints a line a size:
 *
 *   BYTES MEDIAN_US MIN_US OPERATIONS LO_BYTES SENT_BYTES RECEIVED_BYTES
 *
 * The median and minimum are of batches, per operation. Behind them: how many operations there were in all, and what
 * the loopback interface and all other interfaces of this host carried meanwhile (as far as its network namespace
 * goes). An operation that takes longer than MOST_US is measured twice only.
 *
 * usage: loop BYTES[:MOST_US]... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loop.h"

#define BATCHES 9
#define BATCH_US 4000.0   /* a batch takes about this long */
#define SIZE_US 1500000.0 /* long operations get fewer batches: they should take no longer together */
#define OPERATIONS_MAX 20000

struct bytes {
  double lo, sent, received;
};

static int rank, nranks;
static int noperations; /* since it was set to 0 */

void fail(const char *what)
{
  fprintf(stderr, "loop: rank %d: %s\n", rank, what);
  exit(1);
}

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The bytes of all interfaces; zeros where /proc does not tell. */
static struct bytes bytes_read(void)
{
  struct bytes bytes = {0};
  char line[512], name[64];
  FILE *file = fopen("/proc/net/dev", "r");
  if (!file) return bytes;
  while (fgets(line, sizeof line, file)) {
    double received, sent;
    if (sscanf(line, " %63[^: ]: %lf %*f %*f %*f %*f %*f %*f %*f %lf", name, &received, &sent) != 3) continue;
    if (strcmp(name, "lo") == 0) {
      bytes.lo += sent;
    } else {
      bytes.sent += sent;
      bytes.received += received;
    }
  }
  fclose(file);
  return bytes;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Time of an operation among `times` in a row. */
static double batch(int times)
{
  peer_sum(0);
  double begin = now_us();
  for (int i = 0; i < times; i++) peer_all_reduce();
  noperations += times;
  return (now_us() - begin) / times;
}

/* Rank 0's, on all ranks: what is decided by it must be the same. */
static double agree(double value)
{
  return (double)peer_sum(rank == 0 ? (float)value : 0);
}

static double check(float *data, size_t count)
{
  for (size_t i = 0; i < count; i++) data[i] = (float)(rank + (int)(i % 7));
  double us = batch(1);
  float ranks = (float)(nranks * (nranks - 1) / 2);
  for (size_t i = 0; i < count; i++)
    if (data[i] != ranks + (float)nranks * (float)(i % 7)) fail("wrong result");
  memset(data, 0, count * sizeof *data); /* stays 0: no slow numbers */
  return us;
}

/* Fills `times`, ascending; how many there are. */
static int batches_measure(double *times, double most_us)
{
  double us = agree(batch(1));
  if (us > most_us) { /* once more: the first may have met something else */
    double again = agree(batch(1));
    us = again < us ? again : us;
  }
  times[0] = us;
  if (us > most_us) return 1;
  if (us < BATCH_US) us = agree(batch(3));
  double wanted = BATCH_US / us, batches = SIZE_US / (us > BATCH_US ? us : BATCH_US);
  int each = wanted < 1 ? 1 : wanted > OPERATIONS_MAX ? OPERATIONS_MAX : (int)wanted;
  int n = batches < 1 ? 1 : batches > BATCHES ? BATCHES : (int)batches;
  for (int b = 0; b < n; b++) times[b] = batch(each);
  qsort(times, (size_t)n, sizeof *times, by_value);
  return n;
}

static void measure(size_t bytes, double most_us)
{
  size_t count = bytes / sizeof(float);
  const char *memory = getenv("LOOP_MEMORY");
  int is_plain = memory && strcmp(memory, "malloc") == 0;
  float *data = is_plain ? malloc(bytes) : peer_memory_alloc(bytes);
  double times[BATCHES];
  if (!data) fail("no memory");
  peer_prepare(data, count);
  noperations = 0;
  peer_sum(0);
  struct bytes before = bytes_read();
  check(data, count);
  int n = batches_measure(times, most_us);
  struct bytes after = bytes_read();
  if (rank == 0) {
    printf("%zu %.4f %.4f %d %.0f %.0f %.0f\n", bytes, times[n / 2], times[0], noperations, after.lo - before.lo,
           after.sent - before.sent, after.received - before.received);
    fflush(stdout);
  }
  peer_sum(0);
  peer_prepare(NULL, 0);
  if (is_plain) free(data);
  else peer_memory_free(data);
}

int main(int argc, char **argv)
{
  peer_start(&argc, &argv, &rank, &nranks);
  for (int a = 1; a < argc; a++) {
    char *end;
    size_t bytes = strtoull(argv[a], &end, 10);
    if (bytes < sizeof(float)) fail("usage: loop BYTES[:MOST_US]...");
    measure(bytes / sizeof(float) * sizeof(float), *end == ':' ? strtod(end + 1, NULL) : 1e12);
  }
  peer_finish();
  return 0;
}
