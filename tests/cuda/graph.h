/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs: what captures make and launches carry out. `hardware` is held in all of these. */
#ifndef DOUBLE_GRAPH_H
#define DOUBLE_GRAPH_H

#include "double.h"

struct node {
  struct work *work;
  int number; /* in its graph */
  int ndeps;
  struct node **deps; /* malloc */
};

struct graph {
  struct node **nodes;
  int count, room;
  struct object **objects; /* each once for every reference */
  int nobjects;
};

struct graph *graph_new(void);
void graph_free(struct graph *graph);

/* Takes the work; deps are copied. */
struct node *graph_add(struct graph *graph, struct work *work, struct node *const *deps, int ndeps);

/* 1 if all of the nodes come before, or are among, the tips. */
int graph_reaches(const struct graph *graph, struct node *const *tips, int ntips, struct node *const *nodes,
                  int nnodes);

/* Adds nodes to a list that has not got them. */
void tips_add(struct node ***tips, int *ntips, struct node *const *more, int nmore);
void tips_set(struct node ***tips, int *ntips, struct node *const *nodes, int nnodes);

#endif
