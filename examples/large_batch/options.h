/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the program. */
#ifndef LARGE_BATCH_OPTIONS_H
#define LARGE_BATCH_OPTIONS_H

struct options {
  int threads;
  int epochs;
  int batch;      /* images of a step, of all ranks */
  int linear;     /* the rate is that of 64 images, times batch / 64 */
  int warmup;     /* epochs */
  int half;
  int no_master;
  int update;     /* by owners */
  int elastic;    /* steps between two exchanges; 0: not */
  int gossip;
  int seed;
  double rate, momentum, lars, decay;
  const char *data;
};

/* Reads the command line; says what is wrong with it and ends the process with 2. */
void options_read(struct options *o, int argc, char **argv);

#endif
