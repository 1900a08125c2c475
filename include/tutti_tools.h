/* SPDX-License-Identifier: BSD-3-Clause */
/* What the `tutti` command, other launchers and bindings need beyond tutti.h. */
#ifndef TUTTI_TOOLS_H
#define TUTTI_TOOLS_H

#include <stdio.h>

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prints version, build options, every setting with value, source and range, the
 * hardware, the chosen interface, and each transport with the reason if it is
 * unusable, to `out`.
 *
 * Errors: tuttiInvalidArgument: out is NULL, or a setting is out of range. */
TUTTI_API tuttiResult_t tuttiInfo(FILE *out);

/* Puts an id into a descriptor that child processes inherit (sealed, not close-on-exec) and
 * writes it to *fd. A child finds the job through tuttiGetLaunch if its environment has
 * TUTTI_LAUNCH_FD (that number), TUTTI_LAUNCH_NPROCS, TUTTI_LAUNCH_PROC,
 * TUTTI_LAUNCH_LOCAL_NPROCS and TUTTI_LAUNCH_LOCAL_PROC.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL. tuttiSystemError: no descriptor. */
TUTTI_API tuttiResult_t tuttiLaunchDescriptor(const tuttiUniqueId *id, int *fd);

/* Writes the name of the index-th all-reduce algorithm to *name; it lives for ever.
 *
 * Errors: tuttiInvalidArgument: name NULL or no such index. */
TUTTI_API tuttiResult_t tuttiAlgorithmName(int index, const char **name);

/* Refuses a call on behalf of a layer above this library that checks arguments of its own, as this library refuses
 * one: logs the sentence, keeps it for tuttiGetLastError (cut at 511 bytes), and, if the calling thread has a
 * group open, none of the group's calls starts and tuttiGroupEnd returns the first refusal. Returns code.
 *
 * Errors: code; tuttiInvalidArgument: sentence is NULL, or code is no error. */
TUTTI_API tuttiResult_t tuttiRefuse(tuttiResult_t code, const char *sentence);

#ifdef __cplusplus
}
#endif
#endif
