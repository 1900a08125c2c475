/* SPDX-License-Identifier: BSD-3-Clause */
/* The frame of campaigns: rounds that are drawn by seed, as many as asked for or as fit into a time, and at the end one
 * line with counts and the seeds of those that failed. A round is drawn from its seed alone, so that
 * `--seed SEED --rounds 1` runs it again. Rounds can run side by side, and counts be summed over runs in a file. */
#ifndef CAMPAIGN_H
#define CAMPAIGN_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CAMPAIGN_SEEDS 12 /* of failures, that the last line names */

struct campaign {
  const char *name;
  uint64_t first, seed; /* of the first round, of the present one */
  long rounds, seconds; /* it ends after so many; seconds 0: there is no limit */
  long done, failed;
  long began_ms;
  int is_failed; /* the present round is */
  uint64_t seeds[CAMPAIGN_SEEDS];
  int jobs;              /* processes that run rounds at the same time */
  _Atomic long *claimed; /* rounds that one of these has taken; NULL: this process takes all */
  const char *totals;    /* a file; NULL: none */
};

/* Takes --seed N, --rounds N, --seconds N, --jobs N and --totals FILE out of argv; without --rounds there are `rounds`
 * of them or, if a time is given, as many as fit into that. Returns the new argc. Ends the program with 2 if a number
 * is missing. */
int campaign_read(struct campaign *campaign, const char *name, long rounds, int argc, char **argv);

/* 1: there is a round, of campaign->seed. */
int campaign_next(struct campaign *campaign);

/* Has `work` run rounds in as many processes as --jobs asks for; each counts in memory of its own, `bytes` long and
 * zeroed. Returns the memory of all, one behind the other; *campaign has the sum of their rounds. */
void *campaign_spread(struct campaign *campaign, size_t bytes, void (*work)(struct campaign *campaign, void *counts));

/* Says what is wrong with the present round. */
void campaign_fail(struct campaign *campaign, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints "NAME: 300 rounds from seed 1 in 12 s, 0 failed; COUNTS". Returns the exit status: 1 if a round failed. */
int campaign_end(const struct campaign *campaign, const char *counts, ...) __attribute__((format(printf, 2, 3)));

/* Adds a line to the file of --totals: "date=... commit=... kind=kills seed=1 rounds=300 failed=0 seconds=12.5 COUNTS".
 * The commit is what CAMPAIGN_COMMIT in the environment says. scripts/totals adds up such lines. */
void campaign_total(const struct campaign *campaign, const char *counts, ...) __attribute__((format(printf, 2, 3)));

/* Sorts n numbers, and returns the one that `permille` of them do not exceed; 0 if n is 0. */
long campaign_quantile(long *numbers, int n, int permille);

#endif
