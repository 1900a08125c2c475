/* SPDX-License-Identifier: BSD-3-Clause */
/* What the `tutti` command, other launchers and bindings need beyond tutti.h. */
#ifndef TUTTI_TOOLS_H
#define TUTTI_TOOLS_H

#include <stdio.h>

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prints what library and machine have. These are version, build options, every setting with value, source and range,
 * the hardware, the chosen interface, the reduce kernels, and each transport with the reason if it is unusable, to
 * `out`.
 *
 * Errors: tuttiInvalidArgument: out is NULL, or a setting is out of range. */
TUTTI_API tuttiResult_t tuttiInfo(FILE *out);

/* Hands an id on to child processes. It is put into a descriptor that they inherit (sealed, not close-on-exec),
 * which is written to *fd. A child finds the job through tuttiGetLaunch if its environment has
 * TUTTI_LAUNCH_FD (that number), TUTTI_LAUNCH_NPROCS, TUTTI_LAUNCH_PROC,
 * TUTTI_LAUNCH_LOCAL_NPROCS and TUTTI_LAUNCH_LOCAL_PROC.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL. tuttiSystemError: no descriptor. */
TUTTI_API tuttiResult_t tuttiLaunchDescriptor(const tuttiUniqueId *id, int *fd);

/* Tells a start-up that a child of this process has ended. It is that of id, whose rendezvous is in this process; the
 * child was process proc of nprocs, and status is that of waitpid. Ranks that wait for one that can no longer come hear
 * it at once: if the process has not joined, and the communicator has at least nprocs ranks, the start-up fails on
 * all of them with tuttiRemoteError, and the sentence names the process and its status. A communicator with fewer
 * ranks may be made without it: then it is named only if ranks wait in vain. To be called when the child's own
 * children, which may be ranks, are gone as well (its output is at its end).
 *
 * Errors: tuttiInvalidArgument: id NULL or not made by this library, proc outside 0 .. nprocs-1. */
TUTTI_API tuttiResult_t tuttiLaunchEnded(const tuttiUniqueId *id, int proc, int nprocs, int pid, int status);

/* ---- profiles: what was measured on a machine (tutti tune, tutti profile) ---- */

/* A profile that is being measured or was read. One thread at a time. */
typedef struct tuttiProfile *tuttiProfile_t;

/* Makes an empty profile, or reads that of a file. It reads if path is not NULL.
 *
 * Errors: tuttiInvalidArgument: profile is NULL; the file cannot be read or is no profile (the sentence names the line
 * and what was wanted). tuttiSystemError: no memory. */
TUTTI_API tuttiResult_t tuttiProfileOpen(tuttiProfile_t *profile, const char *path);

/* Writes a profile as text. Its format is described in src/tuner/profile.h.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL. tuttiSystemError: it cannot be written, or no memory. */
TUTTI_API tuttiResult_t tuttiProfileWrite(tuttiProfile_t profile, FILE *out);

/* Writes a profile as tables. In them a person finds the numbers: latency, GB/s and error of messages, GB/s of
 * reductions, how many whole operations of each algorithm were measured.
 *
 * Errors: as tuttiProfileWrite. */
TUTTI_API tuttiResult_t tuttiProfileShow(tuttiProfile_t profile, FILE *out);

/* Writes a profile as a drawing. It is a gnuplot script with its data that draws the measured points and the fitted
 * lines as SVG to `svg`, the name of a file.
 *
 * Errors: as tuttiProfileWrite; also tuttiInvalidArgument: svg has control characters; tuttiInvalidUsage: the profile
 * has no points. */
TUTTI_API tuttiResult_t tuttiProfileDraw(tuttiProfile_t profile, const char *svg, FILE *out);

/* Tells what of a profile this library has not. It writes a sentence, "FILE, 9 lines from 12 to 20: ...", for each
 * algorithm or transport of which there are lines and that this library has not (if verbose is not 0: for each such
 * line), and how many such lines there were to *unknown. They are no error: a profile may be older or newer than the
 * library, which passes such lines over.
 *
 * Errors: as tuttiProfileWrite. */
TUTTI_API tuttiResult_t tuttiProfileCheck(tuttiProfile_t profile, int verbose, FILE *out, int *unknown);

/* Frees a profile. NULL is allowed. */
TUTTI_API tuttiResult_t tuttiProfileClose(tuttiProfile_t profile);

/* How it is measured. Set all to 0, then what matters. */
typedef struct {
  double seconds;  /* about how long one call of tuttiTune may take; 0: 10 */
  int no_inside, no_between, no_kernels, no_anchors; /* 1: leave these out: links between ranks of one host, links
                                                        between hosts, reduce kernels, algorithms */
  const char *command; /* that is noted in the profile, with date, version and load; NULL: none */
  int continues;       /* 1: this belongs to what the profile says was measured last; nothing more is noted */
  void (*progress)(void *context, double done, const char *what); /* on rank 0; done: 0 to 1; may be NULL */
  void *context;
} tuttiTuneOptions_t;

/* Measures a machine into a profile. That is: the links between the ranks of a communicator, each kind by itself
 * (between hosts those of the interface that comm uses), by one pair and by several at once; the reduce kernels and
 * copies of rank 0's core; and each algorithm at a few sizes. Adds all that to rank 0's profile, in place of what that
 * says of the same flows, kernels and anchors; other ranks may pass NULL. Collective: all ranks of comm call it with
 * equal options (seconds, command, continues, progress and context are rank 0's), and nothing else on comm meanwhile.
 * What comm chooses is the same before and after.
 *
 * Errors: tuttiInvalidArgument: an argument is wrong. tuttiInvalidUsage: ranks leave out different parts, comm has more
 * than 4,096 ranks, a group is open, or the profile is of another machine or kernel than rank 0's. tuttiSystemError:
 * no memory. What a collective returns. */
TUTTI_API tuttiResult_t tuttiTune(tuttiComm_t comm, const tuttiTuneOptions_t *options, tuttiProfile_t profile);

/* ---- for layers above this library ---- */

/* Reads a size as Tutti's settings, files and tools take them. Text is a decimal number, with a fraction and an
 * exponent if need be, alone or with B, K, M or G behind it, or KiB, MiB, GiB: powers of 1,024. What it says must be a
 * whole number of bytes: 4096, 64K, 1.5M and 1e6 are sizes, 1.5, 0.1K and 1e-3 are none.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL; the text is anything else (a sign, hexadecimal digits, inf or nan,
 * other letters or blanks), is not whole, is more than SIZE_MAX / 4, or has more than 19 digits between its first and
 * last that are not 0. *size is left as it is. That is neither logged nor kept for tuttiGetLastError: who asks knows
 * what the number was for, and should say which values it may have. */
TUTTI_API tuttiResult_t tuttiReadSize(const char *text, size_t *size);

/* Refuses a call on behalf of a layer above this library. That one checks arguments of its own; the call is refused as
 * this library refuses one: it logs the sentence, keeps it for tuttiGetLastError (cut at 511 bytes), and, if the
 * calling thread has a group open, none of the group's calls starts and tuttiGroupEnd returns the first refusal.
 * Returns code.
 *
 * Errors: code; tuttiInvalidArgument: sentence is NULL, or code is no error. */
TUTTI_API tuttiResult_t tuttiRefuse(tuttiResult_t code, const char *sentence);

#ifdef __cplusplus
}
#endif
#endif
