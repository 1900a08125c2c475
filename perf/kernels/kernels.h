/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of kernel_perf, which times the reduce kernels beside what memory does. */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>
#include <stdio.h>

#include "reduce/reduce.h"

enum { L1, L2, L3, MEMORY, LEVELS };
enum limit { COPY, ADD, ACCUMULATE, LIMITS };
enum kind { KERNEL, PASSES, LOOP, LIMIT };
enum { SOURCES_MAX = 16, ROUNDS_MAX = 25 };

extern const char *const level_names[LEVELS];
extern const char *const limit_names[LIMITS];

/* ---- options.c ---- */

struct options {
  unsigned types, ops, levels, sources; /* bit n: number n */
  const char *table;                    /* NULL: the fastest; else a name or "all" */
  int quick, headline;
  double minutes; /* about how long all may take */
  const char *csv, *svg;
};

/* -1: go on; else the exit status. */
int options_parse(struct options *options, int argc, char **argv);

__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* ---- machine.c ---- */

struct level {
  size_t cache_bytes, set_bytes; /* set_bytes 0: this machine has no such level */
  int is_assumed;                /* the machine did not tell */
};

struct machine {
  char model[96];
  int cpu; /* the process stays there; -1: it cannot */
  double load;
  struct level levels[LEVELS];
};

void machine_read(struct machine *machine, int quick);
double now_us(void);

/* ---- limits.c ---- */

/* A way to move floats as fast as this CPU can. Counts are multiples of 64, pointers of 64 bytes. */
struct variant {
  const char *name;
  enum limit limit;
  int (*is_usable)(void);
  tt_reduce_fn run;
};
extern const struct variant limit_variants[]; /* ended by one without a name */

/* ---- loop.c ---- */

/* dst = sources[0] + sources[1] of fp16, as a plain loop; its name says of what. */
extern const char *const loop_name;
void loop_fp16_sum(void *dst, const void *const *sources, int nsrc, size_t count, const struct tt_reduce_arg *arg);

/* ---- items.c ---- */

/* How a kernel is called, beside the number of its sources. */
enum form { WHOLE, SCALED, DIVIDED, FROM_FLOAT, TO_FLOAT, BOTH_FLOAT, ALSO, FORMS };

/* A subject of timing. */
struct item {
  enum kind kind;
  const char *table;  /* of kernels; "limit", "loop" or "passes" */
  const char *op;
  char shape[24];     /* number of sources and form; of a limit: which way */
  int type, nsrc, in_place;
  enum form form;
  enum limit own;     /* moves memory in the same way; of a limit: which it is */
  unsigned levels;    /* bit n: measured at level n */
  tt_reduce_fn run;   /* of PASSES: two sources at a time, nsrc - 1 times */
  int is_refilled;    /* before each call, because the data would not last */
  struct tt_reduce_arg args[2];           /* calls alternate */
  size_t source_bytes[SOURCES_MAX];       /* of an element */
  size_t dst_bytes, also_bytes;           /* the same; also_bytes 0: none */
};

struct items {
  struct item *list;
  int n;
};

/* Tables that `options` ask for: 1 if table is one. */
int table_is_wanted(const struct options *options, const struct tt_reduce_table *table);

/* All that `options` ask for, limits first, then type by type. */
void items_make(struct items *items, const struct options *options);

struct subject {
  int type, op, nsrc, in_place;
  enum form form;
};

/* Each returns the number of what it added to `items`; item_add -1 if that makes no sense. A loop or passes that
 * items_make did not ask for are those of headlines. */
int item_add(struct items *items, const struct tt_reduce_table *table, const struct subject *subject, unsigned levels);
int item_add_passes(struct items *items, const struct tt_reduce_table *table, int type, int nsrc, unsigned levels);
int item_add_loop(struct items *items, unsigned levels);
void item_add_limits(struct items *items, unsigned levels);

/* Read and written by one call for each element; of elements in distinct buffers. */
size_t item_moves(const struct item *item);
size_t item_occupies(const struct item *item);

/* ---- measure.c ---- */

struct point {
  size_t count;
  int calls; /* of a sample */
  int n;
  double us[ROUNDS_MAX]; /* of a call */
};

struct results {
  const struct machine *machine;
  const struct items *items;
  struct point *points; /* items->n for each level */
  int rounds;
};

/* 0: no memory; told already. */
int measure(struct results *results, const struct options *options);

struct point *point_of(const struct results *results, int level, int item);
double point_us(const struct results *results, int level, int item);  /* median; 0: not measured */
double point_gbs(const struct results *results, int level, int item); /* 10^9 bytes a second, of the median */
int limit_best(const struct results *results, int level, enum limit limit); /* number of the item */

/* ---- report.c, headline.c, plot.c ---- */

void head_print(const struct results *results, const struct options *options);
void table_print(const struct results *results);
void csv_write(FILE *file, const struct results *results);

struct headline {
  int row, item, against; /* against: an item; -1: the item's own limit */
};
struct headlines {
  struct headline *list;
  int n;
};
/* Makes items as well. 0: no memory; told already. */
int headlines_make(struct headlines *headlines, struct items *items, const struct options *options);
void headlines_print(const struct headlines *headlines, const struct results *results);

int plot_possible(void);
int plot_write(const char *path, const struct results *results);

#endif
