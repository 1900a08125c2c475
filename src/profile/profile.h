/* SPDX-License-Identifier: BSD-3-Clause */
/* A profile: what was measured on a machine, as a text file that people read, compare and edit. Pure.
 *
 * The first line is `tutti profile 2`. Every other line is a word that says what it is, and then pairs of a key and a
 * value, in any order; what follows a '#' is a comment, and so is an empty line. A value with blanks stands in double
 * quotes, and has none in it. Sizes are bytes up to 2^60 as settings have them (64K, 1.5M, 1e6: tt_bytes_read); `inf`
 * is no limit. Times are in us, slopes in us per MiB (2^20 bytes). No key is optional; lines stand in any order, but
 * the last one is `end`, without which the text was cut off; machine is there once, with "" and cores 0 where nobody
 * knows:
 *
 *   machine   host NAME cpu "MODEL" cores N memory "TEXT" kernel "LINUX RELEASE"     who was measured
 *   measured  date 2026-11-20T18:40:00Z command "tutti tune -n 4" version 0.1.0 load 0.3
 *             When and how, a line for each time that something was added; other lines do not say which time they are
 *             of, but all are of this machine. load: tasks that wanted to run on its busiest host just before, on
 *             average over a minute; more than TT_PROFILE_BUSY spoils times.
 *   link      kind net transport tcp interface eth0 flows 1 ways 2 from 0 to 2K alpha_us 21 beta_us_per_mib 910
 *             overhead_us 2.8 points 9 error_percent 3.1
 *             A message of m bytes, from < m <= to (or none, by the first line), takes alpha + m beta. kind: what lies
 *             between the two ranks (tt_link_names; two ranks of one process have what their cores share between them,
 *             like any two: nothing they send goes another way); interface: of the network, as the host of rank 0 calls
 *             it; "" where the transport has none or both ranks are on one host, whose packets pass no interface, and
 *             where it does not matter; flows: pairs of ranks of this kind on a host that talk at once;
 *             ways 1: one rank sends and the other one answers; 2: both send at once. overhead_us: how long a sender
 *             is occupied by a short message. points: measured sizes behind the line, 0 if it was
 *             not measured; error_percent: of nine in ten of them the distance from the line is at most this.
 *             Of one (kind, transport, interface, flows, ways) there are 1 to TT_CURVE_PARTS lines, the first from 0,
 *             each other one from where that below ends, the last to inf; times do not fall from one to the next by
 *             more than a thousandth.
 *   point     kind cache transport shm interface "" flows 1 ways 2 bytes 4K us 0.52 low_us 0.50 high_us 0.60
 *             What a line was fitted to: median, and the quarter of the samples below and above. Only drawn.
 *   reduce    type float op sum sources 2 level L2 bytes 512K gamma_us_per_mib 14.2 error_percent 2
 *             A combination of `sources` vectors takes gamma for each MiB of each source beyond the first, where all
 *             that it touches takes up `bytes`. level: L1, L2, L3 or memory; type and op as tt_type_name and
 *             tt_redop_name.
 *   anchor    collective all_reduce algo hierarchical+ring radix 0 block 128K ranks 8 nodes 1 cores 2
 *             transport shm bytes 64K us 44.1
 *             One operation as it was measured, from the moment when all began to the last rank's end. cores: that the
 *             ranks of a node may use; transport: the one between most ranks. radix and block as in tt_choice.
 *
 * What another word or key means nobody knows, so it is an error, like a line that is broken, out of its range, or
 * about what another line is about: it says the file, the line, what stands there and what was wanted.
 *
 * Profiles are written, shown and checked by tools/profiles. */
#ifndef TT_PROFILE_H
#define TT_PROFILE_H

#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "topo/topo.h"

#define TT_PROFILE_VERSION 2
#define TT_PROFILE_TEXT 96  /* longest text, with its end */
#define TT_PROFILE_NAME 48  /* of an algorithm with its middle, a transport, or an interface */
#define TT_PROFILE_LINES 65536
#define TT_PROFILE_MAX_FLOWS 1024
#define TT_PROFILE_BUSY 1.0

enum tt_level { TT_LEVEL_L1, TT_LEVEL_L2, TT_LEVEL_L3, TT_LEVEL_MEMORY, TT_LEVELS };

extern const char *const tt_level_names[TT_LEVELS]; /* "L1", "L2", "L3", "memory" */

/* Which messages are meant. */
struct tt_flow {
  enum tt_link_kind kind;
  char transport[TT_PROFILE_NAME];
  int32_t flows, ways;
  char interface[TT_PROFILE_NAME]; /* "": none, or whichever */
};

struct tt_profile_measured {
  char date[TT_PROFILE_TEXT], command[TT_PROFILE_TEXT], version[TT_PROFILE_TEXT];
  double load;
  int32_t line; /* in the file that was read; 0: in none */
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
  uint64_t bytes;
  double us;
  int32_t line;
};

struct tt_profile {
  char host[TT_PROFILE_TEXT], cpu[TT_PROFILE_TEXT], memory[TT_PROFILE_TEXT], kernel[TT_PROFILE_TEXT];
  int32_t cores;
  char name[TT_PROFILE_TEXT]; /* of the file, for messages; "built in" for the shipped one */
  int32_t nmeasured, nlinks, npoints, nreduces, nanchors; /* a caller may take lines out, and set these lower */
  struct tt_profile_measured *measured; /* when the profile was read: the oldest first */
  struct tt_profile_link *links;
  struct tt_profile_point *points;
  struct tt_profile_reduce *reduces;
  struct tt_profile_anchor *anchors;
};

/* Reads one; *profile is written on success only, its lines sorted as they are printed: those of one flow together, by
 * ascending sizes. name: what errors call it.
 * Errors: tuttiInvalidArgument naming the file, the line and what was wanted. tuttiSystemError: no memory. */
tuttiResult_t tt_profile_parse(struct tt_profile *profile, FILE *in, const char *name);

/* The same from a file. Also tuttiInvalidArgument: it cannot be read. */
tuttiResult_t tt_profile_load(struct tt_profile *profile, const char *path);

/* The one that is built in (shipped.profile): what holds where nothing was measured. Read once; it
 * lives for ever. NULL: no memory, as was said. */
const struct tt_profile *tt_profile_shipped(void);

/* Append a line, in any order; the profile starts zeroed. Errors: tuttiSystemError: no memory or TT_PROFILE_LINES. */
tuttiResult_t tt_profile_add_measured(struct tt_profile *profile, const struct tt_profile_measured *measured);
tuttiResult_t tt_profile_add_link(struct tt_profile *profile, const struct tt_profile_link *link);
tuttiResult_t tt_profile_add_point(struct tt_profile *profile, const struct tt_profile_point *point);
tuttiResult_t tt_profile_add_reduce(struct tt_profile *profile, const struct tt_profile_reduce *reduce);
tuttiResult_t tt_profile_add_anchor(struct tt_profile *profile, const struct tt_profile_anchor *anchor);

/* NULL and a zeroed one are allowed. */
void tt_profile_destroy(struct tt_profile *profile);

int tt_flow_same(const struct tt_flow *a, const struct tt_flow *b);

/* "cache over shm", "net over tcp on eth0"; returns text. */
#define TT_FLOW_TEXT (2 * TT_PROFILE_NAME + 32)
const char *tt_flow_text(const struct tt_flow *flow, char text[TT_FLOW_TEXT]);

#endif
