/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are made to end, one after the other (fault/kills.c): what they do until then, what they hear when others
 * end, and how the survivors go on. By the public interface alone. */
#ifndef VICTIMS_H
#define VICTIMS_H

#include <stdatomic.h>
#include <stdint.h>

#include "ranks.h"

#define VICTIMS_RANKS 8
#define VICTIMS_EPOCHS 6

/* The phases in which a rank ends, and the ways in which it does. */
enum phase { START, COLLECTIVES, GROUPS, MESSAGES, STREAMS, SPLIT, SHRINK, DESTROY, FUSION, IDLE, PHASES };
enum way { KILL, STOP, ABORT, FAULT, EXIT, LEAVE, WAYS };
extern const char *const victims_phases[PHASES], *const victims_ways[WAYS];

/* The end of one member of a communicator, or of two at once, and what the others hear. Ranks are those of the first
 * communicator. */
struct epoch {
  enum phase phase;
  enum way way;
  int nmembers, members[VICTIMS_RANKS]; /* ascending */
  int nvictims, victims[2];
  int ended;                     /* SHRINK: the last member, which ended before; -1: none */
  _Atomic int arrived, are_dead; /* members; all victims */
  _Atomic long killed_us, knew_us[VICTIMS_RANKS];
  _Atomic int code[VICTIMS_RANKS]; /* 1 + the result that ended it */
  long waited_us[VICTIMS_RANKS];   /* its threads waited for a processor so long until then, from its arrival on */
  char sentence[VICTIMS_RANKS][512];
};

/* Shared by the processes of a job. */
struct world {
  uint64_t seed;
  int nranks, nhosts, nepochs;
  const char *transports;
  struct epoch epochs[VICTIMS_EPOCHS];
  const char *_Atomic where[VICTIMS_RANKS]; /* for one that hangs */
  char wrong[VICTIMS_RANKS][512];
};

/* The body of each rank, with a world as argument. Victims but those of KILL and STOP end by SIGUSR1. */
int victims_body(const struct ranks *self);

/* 1: the rank is to end in this epoch. */
int victims_has(const struct epoch *epoch, int rank);

/* The environment says on which host each rank is. */
int victims_are_placed(void);

/* The number of the rank's host. */
int victims_host(const struct world *world, int rank);

/* For so long threads of the process have been ready to run, and did not; the main one, if that is asked for. */
long victims_waited_us(int pid, long *main_us);

#endif
