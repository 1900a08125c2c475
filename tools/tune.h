/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti tune`: what its two files share. tune.c has the command and the measurement of one job, worlds.c that of a
 * host: one job after the other, each a world of `tutti tune` again. */
#ifndef TUTTI_TUNE_H
#define TUTTI_TUNE_H

#include "profile/profile.h"

struct tune {
  const char *out, *transports, *interfaces;
  int ranks, append, no_kernels, continues, from_cache, names_out;
  double seconds, limit;    /* limit: after so many it ends with what it has; 0: not said */
  long long until_ms;       /* when that is, by tune_now_ms; 0: not known yet */
  int inner_fd;             /* of a world's rank 0: where it tells of its progress; -1: it is none */
  char command[256];        /* as it is noted */
};

struct world {
  int ranks;
  char transport[32];
  int is_done; /* it was measured, or says itself what is missing */
};

struct screen {
  int is_terminal, world, nworlds;
  const struct world *of; /* NULL: a job that somebody else started */
  const char *interface;  /* of which the links between hosts are measured; NULL: all is */
  long long told_ms;
  double seconds;         /* for the world at hand */
  long long until_ms;     /* likewise: when it is to end by itself */
};

/* ---- tune.c ---- */

long long tune_now_ms(void);

/* SIGINT, SIGTERM and SIGHUP, but for those that are ignored. */
void signals_take(void (*handler)(int));

/* On a terminal one line that is written again and again; else a line for each world. done: of this world. */
void screen_show(struct screen *screen, double done, const char *what);
void screen_end(const struct screen *screen);

/* Sets how long all may take, from now on, where no option has: `seconds` by default. */
void tune_times(struct tune *tune, double seconds);

/* 1, the exit status. */
int tune_complain(void);

/* 0: no file can be written there, as was said: better now than when all is measured. */
int out_check(const char *path);

/* Writes it beside the file, and then puts it in its place, so that there never is half a profile. 0: it cannot be
 * written, as was said. */
int profile_write(const struct tt_profile *profile, const char *path);

/* Says how good the profile is that was written. The exit status. */
int last_words(const char *out);

/* ---- worlds.c ---- */

/* Measures this host. The exit status. */
int host_measure(struct tune *tune);

#endif
