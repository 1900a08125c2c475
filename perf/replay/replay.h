/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of train_replay: the network that is played, with a gradient for each layer. */
#ifndef REPLAY_H
#define REPLAY_H

#include <stddef.h>

#define NAME_BYTES 128 /* of a layer's name */

struct layer {
  char name[NAME_BYTES];
  size_t count;                   /* floats of its gradient */
  double backward_us, forward_us; /* its times */
  float *gradient;
};

struct network {
  int n;
  struct layer *layers; /* in forward order */
  float *memory;        /* of all gradients, if they lie together */
};

/* Reads a table whose columns are layer_index, name, params, bwd_time_us and fwd_time_us, in this order, and allocates
 * gradients of zeros: each where malloc puts it, as frameworks do, or one behind the other in forward order. 0 and a
 * message if that cannot be. */
int network_create(struct network *network, const char *path, int is_together);
void network_destroy(struct network *network);

/* Writes what rank `rank` contributes: whole numbers, so small that sums are exact also in fp16 on the wire, and others
 * for each layer and place. */
void network_fill(const struct network *network, int rank);

/* Zeros, which stay zeros however often they are summed up. */
void network_clear(const struct network *network);

/* Whether all gradients are the sums of what nranks ranks filled in, or zeros if nranks is 0. 0 and a message that
 * tells the first wrong element if they are not. */
int network_check(const struct network *network, int nranks, const char *who);

#endif
