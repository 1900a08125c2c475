/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the benchmarks: one source, a program for each collective. They keep the flags, the
 * table and the check of nccl-tests, so that its users and their scripts feel at home. */
#ifndef PERF_H
#define PERF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tutti.h"

/* Operations beside tuttiRedOp_t: a sum of what each rank multiplied by a number of its own, and no operation. */
enum { OP_MULSUM = tuttiNumOps, OP_NONE, OPS };

/* ---- collectives.c ---- */

/* Arguments of one operation. */
struct call {
  const void *in;
  void *out;
  size_t count;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  int rank, nranks, root;
  const size_t *counts[2]; /* [nranks] each: elements of the shares in the input and in the output; NULL: all have
                              `count` */
  tuttiComm_t comm;
  tuttiStream_t stream;
};

/* A buffer of a collective has `count` elements on every rank, unless: */
enum { PER_RANK = 1 /* it has nranks * count of them */, ROOT_ONLY = 2 /* others have none */ };

/* The ranks whose elements make a result. */
enum source { ALL_RANKS /* reduced */, ROOT, RANK_OF_SHARE /* share r has those of rank r */, RANK_BEFORE };

struct collective {
  const char *program;
  const char *title;     /* in sentences */
  const char *algo_name; /* in TUTTI_ALGO; NULL: it has no algorithms */
  tuttiResult_t (*call)(const struct call *call);
  int in, out; /* PER_RANK, ROOT_ONLY */
  enum source source;
  int takes_counts;       /* shares may be unequal; then never in place if both buffers have all of them */
  int never_in_place;
  int has_steps;          /* each needs what came in the one before: operations cannot be in one group */
  int needs_power_of_two; /* of ranks */
  int skips_own;          /* bandwidths do not count the share that a rank has, as nccl-tests reckons */
  int bus_share; /* bus bandwidth is that many times (n - 1) / n of the algorithm's; 0: it is the same */
};

/* NULL if there is none. */
const struct collective *collective_find(const char *program);

int collective_reduces(const struct collective *collective);
int collective_has_root(const struct collective *collective);

/* One operation as one rank sees it. */
struct work {
  const struct collective *collective;
  int rank, nranks, root;
  int type, op, in_place;
  int wire; /* type in which floats are combined and travel; any other type, or tuttiFloat32: as they are */
  size_t count;
  int uneven;    /* shares are unequal: `count` is their average, about */
  int parts;     /* of an element: 2 if `count` is that of the parts of complex numbers; 0: 1 */
  uint64_t seed; /* of the data */
};

/* Elements of the share that goes from one rank to another, of which one is this rank. With `uneven` that of rank r is
 * 2 r / (n - 1) of the average, so the first one is empty; in an all-to-all it is the share for the rank r behind. */
size_t work_share(const struct work *work, int from, int to);

/* Elements before the share of rank r in this rank's buffer that has all of them: the input, or the output (1). */
size_t work_start(const struct work *work, int is_out, int r);

/* Elements that the larger of the two buffers has. */
size_t work_elements(const struct work *work);

/* Elements per rank that are moved where all have at most `elements`, as nccl-tests rounds. */
size_t collective_count(const struct collective *collective, size_t elements, size_t type_size, int nranks);

/* First element of the input in its buffer (in place: in the receive buffer), and of the output. */
void work_offsets(const struct work *work, size_t *in, size_t *out);

double bus_factor(const struct collective *collective, int nranks);

/* ---- options.c ---- */

enum average { AVERAGE_RANK0, AVERAGE_MEAN, AVERAGE_MIN, AVERAGE_MAX };

/* More than 25 fields: each is a letter that the programs take, or what follows from one. */
struct options {
  const struct collective *collective;
  const char *program; /* the name by which it was started */
  int threads, gpus; /* both are ranks as threads of each process */
  size_t min_bytes, max_bytes, step_bytes;
  double step_factor;                         /* > 1; 0: step by bytes */
  int iters, agg_iters, warmup_iters, cycles; /* cycles 0: for ever */
  int check;                                  /* checked iterations per row */
  int op, type, root;                         /* -1: all */
  int average;                                /* enum average */
  int timeout_s;                              /* 0: the library's default */
  int unalign;                                /* elements that buffers are shifted by */
  int per_iteration, skip_iterations;         /* -I, -K */
  int stream;                                 /* 1: on a host stream instead of the calling thread */
  int uneven;                                 /* 1: shares are unequal */
  int plain_buffers;                          /* 1: malloc's, not tuttiMemAlloc's */
  int deterministic;
  const char *json_file;
  const char *algo, *radix, *transport; /* NULL: chosen by the library */
  const char *wire;                     /* NULL: not said, TUTTI_WIRE_TYPE counts */
  int wire_type;                        /* what that means: a tuttiDataType_t */
  const char *codec;                    /* of a fusion that the operations are; NULL: none */
  char ignored[64];                     /* letters of given flags that mean nothing here */
};

/* -1: go on; else the exit status. */
int options_parse(struct options *options, const struct collective *collective, int argc, char **argv);

/* ---- data.c ---- */

extern const char *const type_names[tuttiNumTypes];
extern const char *const op_names[OPS];
extern const size_t type_sizes[tuttiNumTypes];

/* Whether elements of the type can be combined so. */
int op_takes(int op, int type);

/* Writes this rank's contribution, chosen so that the result is exact whatever the order of summation (for avg:
 * within 2 units of the last place), and a pattern into all else that the two buffers have. With another seed nearly
 * all is different. */
void data_fill(const struct work *work, void *send, void *recv);

/* How many elements of the two buffers are not what they have to be once the operation is done: the result, what a
 * rank has to leave as it was, and what is beyond its share. Each part of a complex number counts. */
size_t data_wrong(const struct work *work, const void *send, const void *recv);

/* Makes values as gradients are: about normal, with a mean of 0 and a deviation of 1, and one in 128 of them 32 times
 * as large; other ones on each rank. To be freed. NULL: no memory. */
float *data_gradients(size_t count, int rank);

/* The number this rank multiplies with for OP_MULSUM, an element of `type`. */
uint64_t data_scalar(int type, int rank);

/* ---- report.c and json.c ---- */

struct timing {
  double us;          /* per operation */
  double per_iter[5]; /* min, p50, p95, p99, max in us; with -I */
  long wrong;         /* elements, over all ranks; -1: not checked */
};

struct row {
  size_t bytes, count;
  int type, op, root;
  struct timing out_of_place, in_place;
};

struct device_line {
  int rank, group, pid;
  int is_traced; /* this rank writes a trace */
  char host[64];
};

struct report {
  const struct options *options;
  int argc;
  char **argv;
  int nranks;
  struct device_line *devices;
  struct row *rows;
  size_t nrows, room;
  long wrong;
  double busbw_sum;
  size_t busbw_n;
  char start_time[32];
};

double algbw_of(const struct report *report, const struct row *row, const struct timing *timing); /* GB/s */
double busbw_of(const struct report *report, const struct row *row, const struct timing *timing);

void report_head(struct report *report);
void report_row(struct report *report, const struct row *row);
/* Prints the footer, writes the JSON file; returns the exit status. */
int report_end(struct report *report, const char *error);

/* NCCL_TESTS_MIN_BW: 1 unless the average is below 0.9 of it. */
int bandwidth_okay(const struct report *report, double *wanted);

/* Whether a file of that name, or of one like it, can be created. */
int json_possible(const char *name);
/* 0 on success. */
int json_write(const struct report *report, const char *error);
void time_text(char text[32]);

/* ---- rank.c ---- */

/* Runs this process's ranks, the first on the calling thread; returns the exit status. */
int ranks_run(const struct options *options, const tuttiLaunch_t *launch, struct report *report);

#endif
