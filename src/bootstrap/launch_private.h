/* SPDX-License-Identifier: BSD-3-Clause */
/* The launcher of this process: recognised and asked. Private to this folder. */
#ifndef TT_BOOTSTRAP_LAUNCH_H
#define TT_BOOTSTRAP_LAUNCH_H

#include "bootstrap/bootstrap.h"

enum tt_launcher { TT_LAUNCHER_NONE, TT_LAUNCHER_TUTTI, TT_LAUNCHER_COMM_ID, TT_LAUNCHER_PMIX, TT_LAUNCHER_PMI,
                   TT_LAUNCHER_TORCHRUN };

/* The launcher and its numbers, as the environment gives them. */
struct tt_launch_plan {
  enum tt_launcher launcher;
  int nprocs, proc, local_nprocs, local_proc; /* not for PMIx: the library is asked */
  int fd;                                     /* tutti: TUTTI_LAUNCH_FD; pmi: PMI_FD */
  char address[TT_SETTING_TEXT_BYTES + 16];   /* comm_id and torchrun: "host:port"; else "" */
};

/* The value of a variable, NULL if unset or empty. */
typedef const char *(*tt_lookup_fn)(const void *owner, const char *name);

/* Reads the environment through `lookup`; pure. Errors: tuttiInvalidArgument naming the variable
 * that is malformed, missing or contradicts another, and its value; tuttiInvalidUsage: a launcher started several
 * processes, but gave them nothing by which they can meet. */
tuttiResult_t tt_launch_plan(struct tt_launch_plan *plan, const struct tt_settings *settings,
                             tt_lookup_fn lookup, const void *owner);

/* Asks PMIx for sizes and id. Errors: tuttiSystemError: not built in, libpmix.so.2 not
 * found, or no answer; tuttiRemoteError: process 0 could not make the id. */
tuttiResult_t tt_launch_pmix(tuttiLaunch_t *launch, const struct tt_settings *settings);

/* Asks PMI-1 over `fd`; launch->proc is known. Errors: tuttiSystemError: no answer, or none within
 * TUTTI_INIT_TIMEOUT_MS; tuttiRemoteError as above. */
tuttiResult_t tt_launch_pmi(tuttiLaunch_t *launch, int fd, const struct tt_settings *settings);

#endif
