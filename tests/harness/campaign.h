/* SPDX-License-Identifier: BSD-3-Clause */
/* The frame of campaigns: rounds that are drawn by seed, as many as asked for or as fit into a time, and at the end one
 * line with counts and the seeds of those that failed. A round is drawn from its seed alone, so that
 * `--seed SEED --rounds 1` runs it again. */
#ifndef CAMPAIGN_H
#define CAMPAIGN_H

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
};

/* Takes --seed N, --rounds N and --seconds N out of argv; without --rounds there are `rounds` of them or, if a time is
 * given, as many as fit into that. Returns the new argc. Ends the program with 2 if a number is missing. */
int campaign_read(struct campaign *campaign, const char *name, long rounds, int argc, char **argv);

/* 1: there is a round, of campaign->seed. */
int campaign_next(struct campaign *campaign);

/* Says what is wrong with the present round. */
void campaign_fail(struct campaign *campaign, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints "NAME: 300 rounds from seed 1 in 12 s, 0 failed; COUNTS". Returns the exit status: 1 if a round failed. */
int campaign_end(const struct campaign *campaign, const char *counts, ...) __attribute__((format(printf, 2, 3)));

/* Sorts n numbers, and returns the one that `permille` of them do not exceed; 0 if n is 0. */
long campaign_quantile(long *numbers, int n, int permille);

#endif
