/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank. Every process brings a few ranks as threads; rank 0 prints. Ranks exchange data (times, wrong elements,
 * their places) by all-reduces of the same communicator. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perf.h"
#include "tutti_fusion.h"

struct rank {
  const struct options *options;
  const tuttiLaunch_t *launch;
  struct report *report; /* filled by rank 0 */
  int rank, nranks;
  int status; /* exit status of this rank */
  char error[1024];
  tuttiComm_t comm; /* of the operations that are measured */
  tuttiComm_t own;  /* of what ranks tell each other: another one where a trace is to tell it apart, else comm */
  tuttiStream_t stream;
  tuttiFusion_t fusion; /* of the row, with --codec */
  float *gradients;     /* for its iterations */
  size_t ngiven;        /* iterations that have got theirs */
  double pauses_us;     /* time that it took, which is none of the operations */
  char *send, *recv;
  double *samples; /* one per iteration, with -I */
  double told_us;  /* when progress was told, or a row was printed */
  int is_shown;    /* a line of progress is on the terminal */
};

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Keeps the first error of this rank, whose sentence the library has logged; returns whether all is well. */
static int check(struct rank *self, tuttiResult_t result)
{
  if (result == tuttiSuccess) return 1;
  if (self->status == 0)
    snprintf(self->error, sizeof self->error, "rank %d: %s", self->rank, tuttiGetErrorString(result));
  self->status = 1;
  return 0;
}

static int combine(struct rank *self, double *values, size_t n, tuttiRedOp_t op)
{
  return check(self, tuttiAllReduce(values, values, n, tuttiDouble, op, self->own, NULL));
}

static int barrier(struct rank *self)
{
  double nothing = 0;
  return combine(self, &nothing, 1, tuttiSum);
}

/* ---- progress ---- */

#define LONG_BYTES (4 << 20) /* rows from this size on tell of each of their parts */

/* On a terminal a line that is written again and again, elsewhere one where nothing came for 10 s, which no script
 * takes for a row: on stderr, and by rank 0. */
static void progress_tell(struct rank *self, const struct work *work, const char *what, int done)
{
  static const char units[] = {'B', 'K', 'M', 'G'};
  const struct options *o = self->options;
  size_t bytes = work_elements(work) * type_sizes[work->type];
  double now = now_us(), shown = (double)bytes;
  int is_terminal = isatty(STDERR_FILENO), is_long = bytes >= LONG_BYTES, unit = 0;
  if (self->rank || now - self->told_us < (!is_terminal ? 10e6 : is_long && !done ? 0 : 0.2e6)) return;
  for (; unit < 3 && shown >= 1024; unit++) shown /= 1024;
  fprintf(stderr, "%s%s: %.4g %c, %s place: %s", is_terminal ? "\r" : "# ", o->program, shown, units[unit],
          work->in_place ? "in" : "out of", what);
  if (done) fprintf(stderr, ", %d of %d", done, o->iters);
  fputs(is_terminal ? "\033[K" : "\n", stderr);
  self->told_us = now;
  self->is_shown = is_terminal;
}

static void progress_end(struct rank *self)
{
  if (self->is_shown) fputs("\r\033[K", stderr);
  self->is_shown = 0;
  self->told_us = now_us();
}

/* ---- one row ---- */

struct plan {
  struct work work;
  struct call call;      /* but for the buffers */
  size_t *counts;        /* that the call points to; NULL: shares are equal */
  size_t bytes;          /* of the larger buffer */
  size_t room;           /* bytes of the buffers: operations move through them */
  size_t shift;          /* bytes at their beginning that are left out */
  size_t in_at, out_at;  /* bytes behind the beginning of an operation's place */
};

/* With an operation made and destroyed for this call alone, as nccl-tests does. */
static tuttiResult_t operate_scaled(struct plan *plan)
{
  struct call *call = &plan->call;
  uint64_t scalar = data_scalar((int)call->type, call->rank);
  tuttiResult_t result =
      tuttiRedOpCreatePreMulSum(&call->op, &scalar, call->type, tuttiScalarHostImmediate, call->comm);
  if (result != tuttiSuccess) return result;
  result = plan->work.collective->call(call);
  tuttiResult_t ended = tuttiRedOpDestroy(call->op, call->comm);
  return result != tuttiSuccess ? result : ended;
}

/* The row's elements are the one tensor of a fusion. */
static tuttiResult_t operate_coded(const struct rank *self, const struct call *call)
{
  tuttiResult_t result = tuttiFusionPush(self->fusion, 0, call->in, call->out, call->count, call->type, NULL);
  return result == tuttiSuccess ? tuttiFusionWait(self->fusion, 0) : result;
}

#define GRADIENTS_SHIFT 4099 /* so many elements later the next iteration begins */

/* Gives a coded iteration gradients of its own, as a training step has: of equal ones a codec would add up the same
 * rest each time, and in place the sum would be the next contribution. Then all ranks begin together. */
static int gradients_give(struct rank *self, const struct plan *plan, size_t place)
{
  size_t count = plan->call.count, first = count ? self->ngiven++ * GRADIENTS_SHIFT % count : 0;
  char *to = (plan->work.in_place ? self->recv : self->send) + place + plan->in_at;
  double begin = now_us();
  memcpy(to, self->gradients + first, (count - first) * sizeof(float));
  memcpy(to + (count - first) * sizeof(float), self->gradients, first * sizeof(float));
  int is_well = barrier(self);
  self->pauses_us += now_us() - begin;
  return is_well;
}

static tuttiResult_t operate(const struct rank *self, struct plan *plan, size_t place)
{
  plan->call.in = (plan->work.in_place ? self->recv : self->send) + place + plan->in_at;
  plan->call.out = self->recv + place + plan->out_at;
  if (self->fusion) return operate_coded(self, &plan->call);
  return plan->work.op == OP_MULSUM ? operate_scaled(plan) : plan->work.collective->call(&plan->call);
}

/* One iteration: agg_iters operations, in one group if there are several that can be. */
static int iterate(struct rank *self, struct plan *plan, int iteration)
{
  const struct options *o = self->options;
  int is_group = o->agg_iters > 1 && !plan->work.collective->has_steps;
  size_t places = plan->bytes ? plan->room / plan->bytes : 1;
  tuttiResult_t result = is_group ? tuttiGroupStart() : tuttiSuccess;
  for (int a = 0; a < o->agg_iters && result == tuttiSuccess; a++) {
    size_t turn = (size_t)iteration * (size_t)o->agg_iters + (size_t)a;
    size_t place = turn % (places ? places : 1) * plan->bytes + plan->shift;
    if (self->fusion && !gradients_give(self, plan, place)) return 0;
    result = operate(self, plan, place);
  }
  if (is_group) {
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

/* Without the pauses. */
static double clock_us(const struct rank *self)
{
  return now_us() - self->pauses_us;
}

static int measure(struct rank *self, struct plan *plan, struct timing *timing)
{
  const struct options *o = self->options;
  if (!barrier(self)) return 0;
  double begin = clock_us(self), last = begin;
  for (int i = 0; i < o->iters; i++) {
    if (!iterate(self, plan, i)) return 0;
    if (plan->bytes >= LONG_BYTES) progress_tell(self, &plan->work, "measuring", i + 1);
    if (!o->per_iteration) continue;
    if (!settle(self)) return 0;
    double now = clock_us(self);
    self->samples[i] = (now - last) / o->agg_iters;
    last = now;
  }
  if (!settle(self)) return 0;
  timing->us = (clock_us(self) - begin) / o->iters / o->agg_iters;
  if (o->per_iteration) percentiles(self, timing);
  return average(self, &timing->us);
}

/* Elements of which some rank has other bits than this one; below 0: it could not be found. */
static double unlike_others(struct rank *self, const uint32_t *got, size_t count)
{
  uint32_t *most = calloc(2 * count + 1, sizeof *most), *least = most + count;
  double wrong = 0;
  if (!check(self, most ? tuttiSuccess : tuttiSystemError)) return -1;
  if (!check(self, tuttiAllReduce(got, most, count, tuttiUint32, tuttiMax, self->own, NULL)) ||
      !check(self, tuttiAllReduce(got, least, count, tuttiUint32, tuttiMin, self->own, NULL)))
    wrong = -1;
  for (size_t i = 0; i < count && wrong >= 0; i++) wrong += most[i] != least[i];
  free(most);
  return wrong;
}

/* -1 wrong elements: not checked. */
static int verify(struct rank *self, struct plan *plan, struct timing *timing)
{
  double wrong = 0;
  char *send = self->send + plan->shift, *recv = self->recv + plan->shift;
  for (int c = 0; c < self->options->check; c++) {
    plan->work.seed = (uint64_t)plan->bytes * 31 + (uint64_t)c;
    progress_tell(self, &plan->work, "checking", 0);
    data_fill(&plan->work, send, recv);
    if (!check(self, operate(self, plan, plan->shift)) || !settle(self)) return 0;
    double its = self->fusion ? unlike_others(self, (const uint32_t *)(const void *)recv, plan->call.count)
                              : (double)data_wrong(&plan->work, send, recv);
    if (its < 0) return 0;
    wrong += its;
  }
  if (!combine(self, &wrong, 1, tuttiSum)) return 0;
  timing->wrong = self->options->check ? (long)wrong : -1;
  return 1;
}

static void plan_make(const struct rank *self, struct plan *plan, const struct work *work)
{
  const struct options *o = self->options;
  size_t size = type_sizes[work->type];
  *plan = (struct plan){.work = *work, .room = o->max_bytes, .shift = (size_t)o->unalign * size};
  int is_apart = work->uneven && work->collective->in & work->collective->out & PER_RANK;
  if (work->collective->never_in_place || is_apart) plan->work.in_place = 0; /* the buffers stay apart; see row_run */
  work_offsets(&plan->work, &plan->in_at, &plan->out_at);
  plan->in_at *= size;
  plan->out_at *= size;
  plan->bytes = work_elements(work) * size;
  plan->call = (struct call){.count = work->count,
                             .type = (tuttiDataType_t)work->type,
                             .op = (tuttiRedOp_t)work->op,
                             .rank = work->rank,
                             .nranks = work->nranks,
                             .root = work->root,
                             .comm = self->comm,
                             .stream = self->stream};
  size_t n = (size_t)work->nranks;
  plan->counts = work->uneven ? calloc(2 * n, sizeof *plan->counts) : NULL;
  for (int r = 0; plan->counts && r < work->nranks; r++) {
    plan->counts[r] = work_share(work, work->rank, r);
    plan->counts[n + (size_t)r] = work_share(work, r, work->rank);
  }
  if (!plan->counts) return;
  plan->call.counts[0] = plan->counts;
  plan->call.counts[1] = plan->counts + n;
}

static int plan_run(struct rank *self, struct plan *plan, const struct work *work, struct timing *timing)
{
  progress_tell(self, work, "warming up", 0);
  for (int w = 0; w < self->options->warmup_iters; w++)
    if (!iterate(self, plan, w)) return 0;
  progress_tell(self, work, "measuring", 0);
  if (!settle(self) || !measure(self, plan, timing)) return 0;
  timing->wrong = -1;
  return plan->work.in_place != work->in_place || verify(self, plan, timing);
}

/* Half a row: one of the two places. */
static int half_run(struct rank *self, const struct work *work, struct timing *timing)
{
  struct plan plan;
  plan_make(self, &plan, work);
  int is_right = plan_run(self, &plan, work, timing);
  free(plan.counts);
  return is_right;
}

/* With --codec a row has a fusion of its own. */
static int fusion_make(struct rank *self, const struct work *work)
{
  const tuttiFusionTensor_t tensor = {"floats", work->count, tuttiFloat32};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.codec = self->options->codec;
  config.codec_least = 1;
  config.op = work->op;
  return check(self, tuttiFusionCreate(&self->fusion, self->comm, &tensor, 1, &config));
}

static int fusion_end(struct rank *self)
{
  tuttiResult_t result = tuttiFusionDestroy(self->fusion);
  self->fusion = NULL;
  return check(self, result);
}

static int row_run(struct rank *self, struct work work, size_t bytes)
{
  size_t size = type_sizes[work.type];
  work.count = collective_count(work.collective, bytes / size, size, work.nranks);
  struct row row = {.bytes = work_elements(&work) * size, .count = work.count, .type = work.type, .op = work.op,
                    .root = work.root};
  if (self->options->codec && !fusion_make(self, &work)) return 0;
  int is_well = half_run(self, &work, &row.out_of_place);
  work.in_place = 1;
  is_well = is_well && half_run(self, &work, &row.in_place);
  if (self->fusion && !fusion_end(self)) return 0;
  if (!is_well) return 0;
  if (self->rank == 0) {
    progress_end(self);
    report_row(self->report, &row);
  }
  return 1;
}

/* ---- the sweep ---- */

static size_t next_size(const struct options *o, size_t bytes)
{
  size_t next = o->step_factor > 0 ? (size_t)((double)bytes * o->step_factor) : bytes + o->step_bytes;
  return next > bytes ? next : bytes + 1;
}

static int sweep(struct rank *self, const struct work *work)
{
  const struct options *o = self->options;
  for (size_t bytes = o->min_bytes; bytes <= o->max_bytes; bytes = next_size(o, bytes))
    if (!row_run(self, *work, bytes)) return 0;
  return 1;
}

/* One value that was asked for, or all of 0 .. n - 1. */
struct range {
  int first, last;
};

static struct range range_of(int asked, int n)
{
  return asked < 0 ? (struct range){0, n - 1} : (struct range){asked, asked};
}

static int sweep_type(struct rank *self, int type)
{
  const struct options *o = self->options;
  const struct collective *collective = o->collective;
  struct range op = {OP_NONE, OP_NONE}, root = {-1, -1};
  if (collective_reduces(collective)) op = range_of(o->op, OP_NONE);
  if (collective_has_root(collective)) root = range_of(o->root, self->nranks);
  struct work work = {.collective = collective, .rank = self->rank, .nranks = self->nranks, .type = type,
                      .wire = o->wire_type, .uneven = o->uneven};
  int is_all = op.first < op.last || o->type < 0; /* what is asked for by name is left to the library to refuse */
  for (work.op = op.first; work.op <= op.last; work.op++)
    for (work.root = root.first; work.root <= root.last; work.root++)
      if ((!is_all || op_takes(work.op, type)) && !sweep(self, &work)) return 0;
  return 1;
}

static int sweep_all(struct rank *self)
{
  const struct options *o = self->options;
  struct range type = range_of(o->type, tuttiNumTypes);
  for (int cycle = 0; o->cycles == 0 || cycle < o->cycles; cycle++)
    for (int t = type.first; t <= type.last; t++)
      if (!sweep_type(self, t)) return 0;
  return 1;
}

/* 1: this rank writes a trace, and its communicator may be split. */
static int is_traced(void)
{
  const char *trace = getenv("TUTTI_TIMELINE");
  return trace && *trace && !getenv("TUTTI_FAULT_LEVEL");
}

static int comm_make(struct rank *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  if (self->options->timeout_s) config.timeout_ms = self->options->timeout_s * 1000;
  if (is_traced() && !self->own) config.name = ".measuring";
  if (self->own) return check(self, tuttiCommSplit(self->own, 0, self->rank, &self->comm, &config));
  int well =
      check(self, tuttiCommInitRankConfig(&self->own, self->nranks, self->launch->id, self->rank, &config));
  self->comm = self->own;
  return well;
}

/* Exchanges the places of ranks, for the head of the table: every rank fills its part of a zeroed array. */
static int introduce(struct rank *self)
{
  size_t n = (size_t)self->nranks, ntraced = 0;
  struct device_line *lines = calloc(n, sizeof *lines);
  if (!lines) return check(self, tuttiSystemError);
  struct device_line *mine = &lines[self->rank];
  mine->rank = self->rank;
  mine->group = self->launch->proc;
  mine->pid = getpid();
  mine->is_traced = is_traced();
  gethostname(mine->host, sizeof mine->host - 1);
  int well = check(self, tuttiAllReduce(lines, lines, n * sizeof *lines, tuttiUint8, tuttiSum, self->own, NULL));
  for (size_t r = 0; well && r < n; r++) ntraced += lines[r].is_traced != 0;
  if (well && ntraced == n) well = comm_make(self); /* else ranks would have different communicators */
  if (!well || self->rank) {
    free(lines);
    return well;
  }
  self->report->devices = lines;
  self->report->nranks = self->nranks;
  report_head(self->report);
  return 1;
}

static int buffer_alloc(struct rank *self, char **buffer, size_t len)
{
  if (!self->options->plain_buffers) return check(self, tuttiMemAlloc((void **)buffer, len));
  *buffer = malloc(len);
  return check(self, *buffer ? tuttiSuccess : tuttiSystemError);
}

static void buffer_free(const struct rank *self, char *buffer)
{
  if (self->options->plain_buffers) free(buffer);
  else tuttiMemFree(buffer);
}

static int prepare(struct rank *self)
{
  const struct options *o = self->options;
  if (!comm_make(self)) return 0;
  size_t len = o->max_bytes + (size_t)o->unalign * 8 + 8;
  if (o->stream && !check(self, tuttiStreamCreate(&self->stream))) return 0;
  self->samples = calloc((size_t)o->iters, sizeof(double));
  if (o->codec) self->gradients = data_gradients(o->max_bytes / sizeof(float), self->rank);
  if (o->codec && !check(self, self->gradients ? tuttiSuccess : tuttiSystemError)) return 0;
  return check(self, self->samples ? tuttiSuccess : tuttiSystemError) &&
         buffer_alloc(self, &self->send, len) && buffer_alloc(self, &self->recv, len) && introduce(self);
}

static void *rank_main(void *context)
{
  struct rank *self = context;
  int is_well = prepare(self);
  self->told_us = now_us();
  if (is_well) sweep_all(self);
  progress_end(self);
  if (self->rank == 0 && self->report->devices) {
    int status = report_end(self->report, self->status ? self->error : NULL);
    if (status) self->status = status;
    free(self->report->devices);
  } else if (self->status) {
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, self->error);
  }
  tuttiComm_t comms[2] = {self->comm, self->own != self->comm ? self->own : NULL};
  for (int c = 0; c < 2; c++)
    if (self->status) tuttiCommAbort(comms[c]); /* also ends what is queued on the stream */
    else tuttiCommDestroy(comms[c]);
  tuttiStreamDestroy(self->stream);
  buffer_free(self, self->send);
  buffer_free(self, self->recv);
  free(self->samples);
  free(self->gradients);
  return NULL;
}

int ranks_run(const struct options *options, const tuttiLaunch_t *launch, struct report *report)
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
      fprintf(stderr, "%s: no thread for rank %d (ulimit -u)\n", program_invocation_short_name, ranks[l].rank);
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
