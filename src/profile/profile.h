/* SPDX-License-Identifier: BSD-3-Clause */
/* A profile: the measurements of a machine, as a text file that people read, compare and edit. Pure.
 *
 * The first line is `tutti profile 3`. Every other line is a word that gives its kind, and then pairs of a key and a
 * value, in any order; text after a '#' is a comment, and empty lines are ignored. A value with blanks is in double
 * quotes, and has none in it. Sizes are bytes up to 2^60 as in settings (64K, 1.5M, 1e6: tt_bytes_read); `inf` is no
 * limit. Times are in us, slopes in us per MiB (2^20 bytes). No key is optional. Lines may have any order, but the last
 * one is `end`, without which the text counts as cut off. The line machine is there once; unknown values are "" and
 * cores 0:
 *
 *   machine   host NAME cpu "MODEL" cores N memory "TEXT" kernel "LINUX RELEASE"     the machine that was measured
 *   measured  date 2026-11-20T18:40:00Z command "tutti tune -n 4" version 0.1.0 load 0.3
 *             Time and command of a measurement, a line for each time that lines were added. Other lines do not say
 *             which time they are of, but all are of this machine. load: tasks that wanted to run on its busiest host
 *             just before, on average over a minute; more than TT_PROFILE_BUSY spoils times.
 *   missing   ranks 4 nodes 1 transport tcp from "algorithms of all_reduce in malloc memory"
 *             The measurement of such a job was ended before its end: this part, and all that `tutti tune` measures
 *             after it, is not there, or is of an earlier measurement. A profile with such a line is partial; where it
 *             has nothing the built-in one counts.
 *   link      kind net transport tcp interface eth0 flows 1 ways 2 from 0 to 2K alpha_us 21 beta_us_per_mib 910
 *             overhead_us 2.8 points 9 error_percent 3.1
 *             A message of m bytes, from < m <= to (in the first line also m = 0), takes alpha + m beta. kind: the kind
 *             of link between the two ranks (tt_link_names; for two ranks of one process by what their cores share, as
 *             for any two ranks, because their messages take the same way); interface: of the network, with its name on
 *             the host of rank 0; "" if the transport has none, if both ranks are on one host, whose packets pass no
 *             interface, or if it does not matter; flows: pairs of ranks of this kind on a host that talk at once;
 *             ways 1: one rank sends and the other one answers; 2: both send at once. overhead_us: the time for which a
 *             short message occupies its sender. points: number of measured sizes that the line was fitted to, 0 if it
 *             was not measured; error_percent: nine in ten of them are at most so far from the line.
 *             Each (kind, transport, interface, flows, ways) has 1 to TT_CURVE_PARTS lines: the first begins at 0, each
 *             other one where the one below it ends, and the last ends at inf; times do not fall from one to the next
 *             by more than a thousandth.
 *   point     kind cache transport shm interface "" flows 1 ways 2 bytes 4K us 0.52 low_us 0.50 high_us 0.60
 *             A measured size that a line was fitted to: median, lower and upper quartile of the samples. Only drawn.
 *   reduce    type float op sum sources 2 level L2 bytes 512K gamma_us_per_mib 14.2 error_percent 2
 *             A combination of `sources` vectors takes gamma for each MiB of each source beyond the first, if all data
 *             that it touches have `bytes` bytes. level: L1, L2, L3 or memory; type and op as in tt_type_name and
 *             tt_redop_name.
 *   anchor    collective all_reduce algo hierarchical+ring radix 0 block 128K ranks 8 nodes 1 cores 2
 *             transport shm memory malloc bytes 64K us 44.1
 *             One operation as measured, from the moment when all began to the last rank's end. cores: those that the
 *             ranks of a node may use; transport: the one between most ranks; memory: the kind that all data were in
 *             (tt_memory_names). radix and block as in tt_choice.
 *   learnt    collective all_reduce element 4 algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm
 *             memory malloc bytes 64K us 44.1 date 2026-11-24
 *             Of calls of that collective with elements of so many bytes, and as many bytes as those of its size class
 *             (tt_size_class), jobs in such a cluster have found this choice the quickest, on that day, and take that
 *             time. It says what to choose, not what a choice takes: waits for late ranks are in the time.
 *
 * Another word or key is an error, because its meaning is unknown. So is a line that is broken or out of its range, or
 * that says again what another line says. The sentence has the file, the line, the text there, and the text wanted.
 *
 * Profiles are written, shown and checked by tools/profiles. */
#ifndef TT_PROFILE_H
#define TT_PROFILE_H

#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "topo/topo.h"

#define TT_PROFILE_VERSION 3
#define TT_PROFILE_TEXT 96  /* longest text, with its NUL */
#define TT_PROFILE_NAME 48  /* of an algorithm with its middle, a transport, or an interface */
#define TT_PROFILE_LINES 65536
#define TT_PROFILE_MAX_FLOWS 1024
#define TT_PROFILE_BUSY 1.0

enum tt_level { TT_LEVEL_L1, TT_LEVEL_L2, TT_LEVEL_L3, TT_LEVEL_MEMORY, TT_LEVELS };

extern const char *const tt_level_names[TT_LEVELS]; /* "L1", "L2", "L3", "memory" */

/* Kinds of memory, as far as they make a difference to algorithms. Peers on one host read memory of tuttiMemAlloc where
 * it lies; all other memory of the host is like malloc's. */
enum tt_memory { TT_MEMORY_MALLOC, TT_MEMORY_TUTTI, TT_MEMORIES };

extern const char *const tt_memory_names[TT_MEMORIES]; /* "malloc", "tutti" */

/* The messages that a line is about. */
struct tt_flow {
  enum tt_link_kind kind;
  char transport[TT_PROFILE_NAME];
  int32_t flows, ways;
  char interface[TT_PROFILE_NAME]; /* "": none, or any */
};

struct tt_profile_measured {
  char date[TT_PROFILE_TEXT], command[TT_PROFILE_TEXT], version[TT_PROFILE_TEXT];
  double load;
  int32_t line; /* in the file that was read; 0: in none */
};

/* A job that was not measured to its end. */
struct tt_profile_missing {
  int32_t nranks, nnodes;
  char transport[TT_PROFILE_NAME], from[TT_PROFILE_TEXT]; /* from: the first part that is not there */
  int32_t line;
};

struct tt_profile_link {
  struct tt_flow flow;
  uint64_t from, to; /* to: UINT64_MAX for inf */
  double alpha_us, beta_us_per_mib, overhead_us, error_percent;
  int32_t points;
  int32_t line; /* in the file that was read; 0: in none */
};

struct tt_profile_point {
  struct tt_flow flow;
  uint64_t bytes;
  double us, low_us, high_us;
  int32_t line;
};

struct tt_profile_reduce {
  int32_t type, op, nsrc; /* tuttiDataType_t, tuttiRedOp_t */
  enum tt_level level;
  uint64_t bytes;
  double gamma_us_per_mib, error_percent;
  int32_t line;
};

struct tt_profile_anchor {
  int32_t collective; /* enum tt_collective */
  char algo[TT_PROFILE_NAME]; /* NAME or NAME+MIDDLE, not looked up: a profile may be older or newer than the library */
  int32_t radix;
  uint32_t block_bytes;
  int32_t nranks, nnodes, cores;
  char transport[TT_PROFILE_NAME];
  enum tt_memory memory;
  uint64_t bytes;
  double us;
  int32_t line;
};

/* A choice that was the quickest, as jobs have learnt. */
struct tt_profile_learnt {
  struct tt_profile_anchor is;
  int32_t element;
  char date[TT_PROFILE_TEXT];
};

struct tt_profile {
  char host[TT_PROFILE_TEXT], cpu[TT_PROFILE_TEXT], memory[TT_PROFILE_TEXT], kernel[TT_PROFILE_TEXT];
  int32_t cores;
  char name[TT_PROFILE_TEXT]; /* of the file, for messages; "built in" for the shipped one */
  /* a caller may remove lines and lower these */
  int32_t nmeasured, nmissing, nlinks, npoints, nreduces, nanchors, nlearnt;
  struct tt_profile_measured *measured; /* the oldest first in a profile that was read */
  struct tt_profile_missing *missing;
  struct tt_profile_link *links;
  struct tt_profile_point *points;
  struct tt_profile_reduce *reduces;
  struct tt_profile_anchor *anchors;
  struct tt_profile_learnt *learnt;
};

/* Reads a profile; *profile is written only on success, its lines sorted as they are printed: the lines of one flow
 * together, by ascending sizes. name: the text's name in errors.
 * Errors: tuttiInvalidArgument naming the file, the line and the text wanted. tuttiSystemError: no memory. */
tuttiResult_t tt_profile_parse(struct tt_profile *profile, FILE *in, const char *name);

/* The same from a file. Also tuttiInvalidArgument: the file cannot be read. */
tuttiResult_t tt_profile_load(struct tt_profile *profile, const char *path);

/* The built-in profile (shipped.profile), which counts where nothing was measured. Read once; it
 * lives for ever. NULL: no memory, which is logged. */
const struct tt_profile *tt_profile_shipped(void);

/* Append a line, in any order; the profile starts zeroed. Errors: tuttiSystemError: no memory, or TT_PROFILE_LINES
 * lines of this kind are there. */
tuttiResult_t tt_profile_add_measured(struct tt_profile *profile, const struct tt_profile_measured *measured);
tuttiResult_t tt_profile_add_missing(struct tt_profile *profile, const struct tt_profile_missing *missing);
tuttiResult_t tt_profile_add_link(struct tt_profile *profile, const struct tt_profile_link *link);
tuttiResult_t tt_profile_add_point(struct tt_profile *profile, const struct tt_profile_point *point);
tuttiResult_t tt_profile_add_reduce(struct tt_profile *profile, const struct tt_profile_reduce *reduce);
tuttiResult_t tt_profile_add_anchor(struct tt_profile *profile, const struct tt_profile_anchor *anchor);
tuttiResult_t tt_profile_add_learnt(struct tt_profile *profile, const struct tt_profile_learnt *learnt);

/* Removes the line `missing` about such a job, if there is one. */
void tt_profile_remove_missing(struct tt_profile *profile, int32_t nranks, int32_t nnodes, const char *transport);

/* The busiest of the times at which it was measured, if the machine was so busy that times are spoilt; else NULL. */
const struct tt_profile_measured *tt_profile_busiest(const struct tt_profile *profile);

/* "the profile FILE was measured while the machine was busy (load 4.7 on 2 cores, at DATE): ...", with the remedy; ""
 * if it was not. Returns text. */
const char *tt_profile_busy_text(const struct tt_profile *profile, char text[TT_SENTENCE_BYTES]);

/* NULL and a zeroed one are allowed. */
void tt_profile_destroy(struct tt_profile *profile);

int tt_flow_same(const struct tt_flow *a, const struct tt_flow *b);

/* "cache over shm", "net over tcp on eth0"; returns text. */
#define TT_FLOW_TEXT (2 * TT_PROFILE_NAME + 32)
const char *tt_flow_text(const struct tt_flow *flow, char text[TT_FLOW_TEXT]);

#endif
