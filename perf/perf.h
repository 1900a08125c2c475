/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the benchmark. It keeps the flags, the table and the check of
 * nccl-tests, so that its users and their scripts feel at home. */
#ifndef PERF_H
#define PERF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tutti.h"

#define PERF_NAME "allreduce_perf"

/* ---- options.c ---- */

enum average { AVERAGE_RANK0, AVERAGE_MEAN, AVERAGE_MIN, AVERAGE_MAX };

struct options {
  int threads, gpus; /* both are ranks as threads of each process */
  size_t min_bytes, max_bytes, step_bytes;
  double step_factor;                         /* > 1; 0: step by bytes */
  int iters, agg_iters, warmup_iters, cycles; /* cycles 0: for ever */
  int check;                                  /* checked iterations per row */
  int op, type;                               /* -1: all */
  int average;                                /* enum average */
  int timeout_s;                              /* 0: the library's default */
  int unalign;                                /* elements that buffers are shifted by */
  int per_iteration, skip_iterations;         /* -I, -K */
  int stream;                                 /* 1: on a host stream instead of the calling thread */
  const char *json_file;
  const char *algo, *transport; /* NULL: chosen by the library */
  char ignored[64];             /* letters of given flags that mean nothing on host memory */
};

/* -1: go on; else the exit status. */
int options_parse(struct options *options, int argc, char **argv);

/* ---- data.c ---- */

extern const char *const type_names[tuttiNumTypes];
extern const char *const op_names[tuttiNumOps];
extern const size_t type_sizes[tuttiNumTypes];

/* What is reduced: `count` elements of each of `nranks` ranks. */
struct work {
  int nranks, type, op;
  size_t count;
  uint64_t seed;
};

/* The contribution of `rank`: chosen so that the result is exact whatever the order of summation (for avg: within
 * 2 units of the last place). */
void data_fill(const struct work *work, int rank, void *buffer);

/* How many elements of `buffer` are not the result. */
size_t data_wrong(const struct work *work, const void *buffer);

/* ---- report.c and json.c ---- */

struct timing {
  double us;          /* per operation */
  double per_iter[5]; /* min, p50, p95, p99, max in us; with -I */
  long wrong;         /* elements, over all ranks; -1: not checked */
};

struct row {
  size_t bytes, count;
  int type, op;
  struct timing out_of_place, in_place;
};

struct device_line {
  int rank, group, pid;
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

double algbw_of(const struct row *row, const struct timing *timing); /* GB/s */
double busbw_of(const struct report *report, const struct row *row, const struct timing *timing);

void report_head(struct report *report);
void report_row(struct report *report, const struct row *row);
/* Prints the footer, writes the JSON file; returns the exit status. */
int report_end(struct report *report, const char *error);

/* NCCL_TESTS_MIN_BW: 1 unless the average is below 0.9 of it. */
int bandwidth_okay(const struct report *report, double *wanted);

/* 0 on success. */
int json_possible(const char *name);
int json_write(const struct report *report, const char *error);
void time_text(char text[32]);

#endif
