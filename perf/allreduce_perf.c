/* SPDX-License-Identifier: BSD-3-Clause */
/* Times tuttiAllReduce. Every process brings a few ranks as threads; rank 0 prints. What ranks tell each
 * other (times, wrong elements, who they are) goes through all-reduces of the same communicator. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perf.h"

struct rank {
  const struct options *options;
  const tuttiLaunch_t *launch;
  struct report *report; /* filled by rank 0 */
  int rank, nranks;
  int status; /* exit status of this rank */
  char error[1024];
  tuttiComm_t comm;
  tuttiStream_t stream;
  char *send, *recv;
  double *samples; /* one per iteration, with -I */
};

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Keeps the first error of this rank; returns whether all is well. */
static int check(struct rank *self, tuttiResult_t result)
{
  if (result == tuttiSuccess) return 1;
  if (self->status == 0)
    snprintf(self->error, sizeof self->error, "rank %d: %s: %s", self->rank, tuttiGetErrorString(result),
             tuttiGetLastError(self->comm));
  self->status = 1;
  return 0;
}

static int combine(struct rank *self, double *values, size_t n, tuttiRedOp_t op)
{
  return check(self, tuttiAllReduce(values, values, n, tuttiDouble, op, self->comm, NULL));
}

static int barrier(struct rank *self)
{
  double nothing = 0;
  return combine(self, &nothing, 1, tuttiSum);
}

/* ---- one row ---- */

struct plan {
  size_t bytes, count;
  int type, op, in_place;
  size_t room; /* bytes of the buffers: operations move through them */
};

/* One iteration: agg_iters operations, in one group if there are several. */
static int iterate(struct rank *self, const struct plan *plan, int iteration)
{
  const struct options *o = self->options;
  size_t shift = (size_t)o->unalign * type_sizes[plan->type];
  size_t places = plan->bytes ? plan->room / plan->bytes : 1;
  tuttiResult_t result = o->agg_iters > 1 ? tuttiGroupStart() : tuttiSuccess;
  for (int a = 0; a < o->agg_iters && result == tuttiSuccess; a++) {
    size_t place = ((size_t)iteration * (size_t)o->agg_iters + (size_t)a) % (places ? places : 1) * plan->bytes + shift;
    char *out = self->recv + place, *in = plan->in_place ? out : self->send + place;
    result = tuttiAllReduce(in, out, plan->count, (tuttiDataType_t)plan->type, (tuttiRedOp_t)plan->op, self->comm,
                            self->stream);
  }
  if (o->agg_iters > 1) {
    tuttiResult_t ended = tuttiGroupEnd();
    if (result == tuttiSuccess) result = ended;
  }
  return check(self, result);
}

static int settle(struct rank *self)
{
  return !self->stream || check(self, tuttiStreamSynchronize(self->stream));
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* min, p50, p95, p99 and max of what was kept. */
static void percentiles(struct rank *self, struct timing *timing)
{
  static const double shares[5] = {0, 0.5, 0.95, 0.99, 1};
  int skip = self->options->skip_iterations < self->options->iters ? self->options->skip_iterations : 0;
  int n = self->options->iters - skip;
  qsort(self->samples + skip, (size_t)n, sizeof(double), by_value);
  for (int p = 0; p < 5; p++) timing->per_iter[p] = self->samples[skip + (int)(shares[p] * (n - 1) + 0.5)];
}

/* This rank's time to the one that is reported. */
static int average(struct rank *self, double *us)
{
  static const tuttiRedOp_t ops[] = {
      [AVERAGE_RANK0] = tuttiSum, [AVERAGE_MEAN] = tuttiSum, [AVERAGE_MIN] = tuttiMin, [AVERAGE_MAX] = tuttiMax};
  int how = self->options->average;
  if (how == AVERAGE_RANK0 && self->rank) *us = 0;
  if (!combine(self, us, 1, ops[how])) return 0;
  if (how == AVERAGE_MEAN) *us /= self->nranks;
  return 1;
}

static int measure(struct rank *self, const struct plan *plan, struct timing *timing)
{
  const struct options *o = self->options;
  if (!barrier(self)) return 0;
  double begin = now_us(), last = begin;
  for (int i = 0; i < o->iters; i++) {
    if (!iterate(self, plan, i)) return 0;
    if (!o->per_iteration) continue;
    if (!settle(self)) return 0;
    double now = now_us();
    self->samples[i] = (now - last) / o->agg_iters;
    last = now;
  }
  if (!settle(self)) return 0;
  timing->us = (now_us() - begin) / o->iters / o->agg_iters;
  if (o->per_iteration) percentiles(self, timing);
  return average(self, &timing->us);
}

static int verify(struct rank *self, const struct plan *plan, struct timing *timing)
{
  size_t shift = (size_t)self->options->unalign * type_sizes[plan->type];
  double wrong = 0;
  for (int c = 0; c < self->options->check; c++) {
    struct work work = {self->nranks, plan->type, plan->op, plan->count, (uint64_t)plan->bytes * 31 + (uint64_t)c};
    char *out = self->recv + shift, *in = plan->in_place ? out : self->send + shift;
    memset(out, 0xa5, plan->bytes);
    data_fill(&work, self->rank, in);
    tuttiResult_t result = tuttiAllReduce(in, out, plan->count, (tuttiDataType_t)plan->type, (tuttiRedOp_t)plan->op,
                                          self->comm, self->stream);
    if (!check(self, result) || !settle(self)) return 0;
    wrong += (double)data_wrong(&work, out);
  }
  if (!combine(self, &wrong, 1, tuttiSum)) return 0;
  timing->wrong = self->options->check ? (long)wrong : -1;
  return 1;
}

static int run_row(struct rank *self, size_t bytes, int type, int op)
{
  struct plan plan = {.type = type, .op = op, .count = bytes / type_sizes[type], .room = self->options->max_bytes};
  plan.bytes = plan.count * type_sizes[type];
  struct row row = {.bytes = plan.bytes, .count = plan.count, .type = type, .op = op};
  for (plan.in_place = 0; plan.in_place < 2; plan.in_place++) {
    struct timing *timing = plan.in_place ? &row.in_place : &row.out_of_place;
    for (int w = 0; w < self->options->warmup_iters; w++)
      if (!iterate(self, &plan, w)) return 0;
    if (!settle(self) || !measure(self, &plan, timing) || !verify(self, &plan, timing)) return 0;
  }
  if (self->rank == 0) report_row(self->report, &row);
  return 1;
}

/* ---- the sweep ---- */

static size_t next_size(const struct options *o, size_t bytes)
{
  size_t next = o->step_factor > 0 ? (size_t)((double)bytes * o->step_factor) : bytes + o->step_bytes;
  return next > bytes ? next : bytes + 1;
}

static int sweep(struct rank *self, int type, int op)
{
  const struct options *o = self->options;
  for (size_t bytes = o->min_bytes; bytes <= o->max_bytes; bytes = next_size(o, bytes))
    if (!run_row(self, bytes, type, op)) return 0;
  return 1;
}

static int sweep_all(struct rank *self)
{
  const struct options *o = self->options;
  for (int cycle = 0; o->cycles == 0 || cycle < o->cycles; cycle++)
    for (int type = o->type < 0 ? 0 : o->type; type <= (o->type < 0 ? tuttiNumTypes - 1 : o->type); type++)
      for (int op = o->op < 0 ? 0 : o->op; op <= (o->op < 0 ? tuttiNumOps - 1 : o->op); op++)
        if (!sweep(self, type, op)) return 0;
  return 1;
}

/* Who is where, for the head of the table: every rank fills its part of a zeroed array. */
static int introduce(struct rank *self)
{
  size_t n = (size_t)self->nranks;
  struct device_line *lines = calloc(n, sizeof *lines);
  if (!lines) return check(self, tuttiSystemError);
  struct device_line *mine = &lines[self->rank];
  mine->rank = self->rank;
  mine->group = self->launch->proc;
  mine->pid = getpid();
  gethostname(mine->host, sizeof mine->host - 1);
  int well = check(self, tuttiAllReduce(lines, lines, n * sizeof *lines, tuttiUint8, tuttiSum, self->comm, NULL));
  if (!well || self->rank) {
    free(lines);
    return well;
  }
  self->report->devices = lines;
  self->report->nranks = self->nranks;
  report_head(self->report);
  return 1;
}

static int prepare(struct rank *self)
{
  const struct options *o = self->options;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  if (o->timeout_s) config.timeout_ms = o->timeout_s * 1000;
  if (!check(self, tuttiCommInitRankConfig(&self->comm, self->nranks, self->launch->id, self->rank, &config))) return 0;
  size_t len = o->max_bytes + (size_t)o->unalign * 8 + 8;
  if (o->stream && !check(self, tuttiStreamCreate(&self->stream))) return 0;
  self->samples = calloc((size_t)o->iters, sizeof(double));
  return check(self, self->samples ? tuttiSuccess : tuttiSystemError) &&
         check(self, tuttiMemAlloc((void **)&self->send, len)) &&
         check(self, tuttiMemAlloc((void **)&self->recv, len)) && introduce(self);
}

static void *rank_main(void *context)
{
  struct rank *self = context;
  if (prepare(self)) sweep_all(self);
  if (self->rank == 0 && self->report->devices) {
    int status = report_end(self->report, self->status ? self->error : NULL);
    if (status) self->status = status;
    free(self->report->devices);
  } else if (self->status) {
    fprintf(stderr, PERF_NAME ": %s\n", self->error);
  }
  if (self->status) tuttiCommAbort(self->comm); /* also ends what is queued on the stream */
  else tuttiCommDestroy(self->comm);
  tuttiStreamDestroy(self->stream);
  tuttiMemFree(self->send);
  tuttiMemFree(self->recv);
  free(self->samples);
  return NULL;
}

static int ranks_run(const struct options *options, const tuttiLaunch_t *launch, struct report *report)
{
  int local = options->threads * options->gpus, status = 0;
  struct rank *ranks = calloc((size_t)local, sizeof *ranks);
  pthread_t *threads = calloc((size_t)local, sizeof *threads);
  if (!ranks || !threads) return 1;
  for (int l = 0; l < local; l++) {
    ranks[l] = (struct rank){.options = options,
                             .launch = launch,
                             .report = report,
                             .rank = launch->proc * local + l,
                             .nranks = launch->nprocs * local};
    if (l && pthread_create(&threads[l], NULL, rank_main, &ranks[l]) != 0) {
      fprintf(stderr, PERF_NAME ": no thread for rank %d (ulimit -u)\n", ranks[l].rank);
      exit(1);
    }
  }
  rank_main(&ranks[0]); /* on this thread, so that one rank per process needs no other */
  for (int l = 0; l < local; l++) {
    if (l) pthread_join(threads[l], NULL);
    if (ranks[l].status) status = ranks[l].status;
  }
  free(ranks);
  free(threads);
  return status;
}

int main(int argc, char **argv)
{
  struct options options;
  int parsed = options_parse(&options, argc, argv);
  if (parsed >= 0) return parsed;
  if (options.algo) setenv("TUTTI_ALGO", options.algo, 1);
  if (options.transport) setenv("TUTTI_TRANSPORTS", options.transport, 1);
  tuttiLaunch_t launch;
  if (tuttiGetLaunch(&launch) != tuttiSuccess) {
    fprintf(stderr, PERF_NAME ": %s\n", tuttiGetLastError(NULL));
    return 1;
  }
  if (options.json_file && launch.proc == 0 && !json_possible(options.json_file)) return 1;
  struct report report = {.options = &options, .argc = argc, .argv = argv};
  return ranks_run(&options, &launch, &report);
}
