/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs. A launch puts the nodes on its stream in an order drawn anew from all that their dependencies allow. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>


static void *room_for(void *list, int count, size_t size)
{
  void *more = realloc(list, (size_t)(count ? count : 1) * size);
  if (!more) abort();
  return more;
}

void tips_set(struct node ***tips, int *ntips, struct node *const *nodes, int nnodes)
{
  struct node **list = room_for(NULL, nnodes, sizeof *list);
  if (nnodes) memcpy(list, nodes, (size_t)nnodes * sizeof *list);
  free(*tips);
  *tips = list;
  *ntips = nnodes;
}

void tips_add(struct node ***tips, int *ntips, struct node *const *more, int nmore)
{
  for (int m = 0; m < nmore; m++) {
    int t = 0;
    while (t < *ntips && (*tips)[t] != more[m]) t++;
    if (t < *ntips) continue;
    *tips = room_for(*tips, *ntips + 1, sizeof **tips);
    (*tips)[(*ntips)++] = more[m];
  }
}

struct graph *graph_new(void)
{
  struct graph *graph = calloc(1, sizeof *graph);
  if (!graph) abort();
  return graph;
}

struct node *graph_add(struct graph *graph, struct work *work, struct node *const *deps, int ndeps)
{
  struct node *node = calloc(1, sizeof *node);
  if (!node) abort();
  node->work = work;
  node->number = graph->count;
  tips_set(&node->deps, &node->ndeps, deps, ndeps);
  if (graph->count == graph->room) {
    graph->room = graph->room ? 2 * graph->room : 16;
    graph->nodes = room_for(graph->nodes, graph->room, sizeof *graph->nodes);
  }
  graph->nodes[graph->count++] = node;
  return node;
}

/* Dependencies have lower numbers than what depends on them. */
int graph_reaches(const struct graph *graph, struct node *const *tips, int ntips, struct node *const *nodes, int nnodes)
{
  int are_there = 1;
  char *marks = calloc(1, (size_t)graph->count + 1);
  if (!marks) abort();
  for (int t = 0; t < ntips; t++) marks[tips[t]->number] = 1;
  for (int n = graph->count - 1; n >= 0; n--)
    for (int d = 0; marks[n] && d < graph->nodes[n]->ndeps; d++) marks[graph->nodes[n]->deps[d]->number] = 1;
  for (int n = 0; n < nnodes; n++) are_there &= marks[nodes[n]->number];
  free(marks);
  return are_there;
}

/* ---- user objects ---- */

struct object {
  long count;
  void (*destroy)(void *argument);
  void *argument;
};

/* By a thread of the driver some time later, in which the driver may not be called. */
static void *destroy(void *argument)
{
  struct object *object = argument;
  is_callback = 1;
  object->destroy(object->argument);
  free(object);
  return NULL;
}

static void object_release(struct object *object, unsigned count)
{
  pthread_t thread;
  if (__atomic_sub_fetch(&object->count, (long)count, __ATOMIC_ACQ_REL) > 0) return;
  if (pthread_create(&thread, NULL, destroy, object) != 0) abort();
  pthread_detach(thread);
}

static void object_add(struct graph *graph, struct object *object)
{
  graph->objects = room_for(graph->objects, graph->nobjects + 1, sizeof *graph->objects);
  graph->objects[graph->nobjects++] = object;
}

void graph_free(struct graph *graph)
{
  for (int n = 0; n < graph->count; n++) {
    work_free(graph->nodes[n]->work);
    free(graph->nodes[n]->deps);
    free(graph->nodes[n]);
  }
  for (int o = 0; o < graph->nobjects; o++) object_release(graph->objects[o], 1);
  free(graph->objects);
  free(graph->nodes);
  free(graph);
}

/* A program may have one object for each of its graphs, so they are not counted among the things of the report. */
EXPORT int cuUserObjectCreate(struct object **object, void *pointer, void (*function)(void *argument), unsigned count,
                              unsigned flags)
{
  int code = enter("cuUserObjectCreate", 0);
  if (code != SUCCESS) return code;
  if (flags != 1 || !count) return leave(INVALID_VALUE);
  *object = calloc(1, sizeof **object);
  if (!*object) abort();
  **object = (struct object){(long)count, function, pointer};
  return leave(SUCCESS);
}

EXPORT int cuUserObjectRetain(struct object *object, unsigned count)
{
  int code = enter("cuUserObjectRetain", 0);
  if (code != SUCCESS) return code;
  __atomic_add_fetch(&object->count, (long)count, __ATOMIC_RELAXED);
  return leave(SUCCESS);
}

EXPORT int cuUserObjectRelease(struct object *object, unsigned count)
{
  int code = enter("cuUserObjectRelease", 0);
  if (code != SUCCESS) return code;
  object_release(object, count);
  return leave(SUCCESS);
}

EXPORT int cuGraphRetainUserObject(struct graph *graph, struct object *object, unsigned count, unsigned flags)
{
  int code = enter("cuGraphRetainUserObject", 0);
  if (code != SUCCESS) return code;
  if (flags > 1) return leave(INVALID_VALUE);
  if (!flags) __atomic_add_fetch(&object->count, (long)count, __ATOMIC_RELAXED);
  pthread_mutex_lock(&hardware);
  for (unsigned c = 0; c < count; c++) object_add(graph, object);
  pthread_mutex_unlock(&hardware);
  return leave(SUCCESS);
}

/* ---- launches ---- */

struct exec {
  struct graph *graph;
  struct stream *stream; /* of the newest launch */
  uint64_t number;
};

static struct graph *graph_copy(const struct graph *graph)
{
  struct graph *copy = graph_new();
  for (int n = 0; n < graph->count; n++) {
    const struct node *from = graph->nodes[n];
    struct node *node = graph_add(copy, work_copy(from->work), from->deps, from->ndeps);
    for (int d = 0; d < node->ndeps; d++) node->deps[d] = copy->nodes[node->deps[d]->number];
  }
  for (int o = 0; o < graph->nobjects; o++) {
    __atomic_add_fetch(&graph->objects[o]->count, 1, __ATOMIC_RELAXED);
    object_add(copy, graph->objects[o]);
  }
  return copy;
}

EXPORT int cuGraphInstantiateWithFlags(struct exec **exec, struct graph *graph, unsigned long long flags)
{
  (void)flags;
  int code = enter("cuGraphInstantiate", NEEDS_CONTEXT | CREATES);
  if (code != SUCCESS) return code;
  *exec = calloc(1, sizeof **exec);
  if (!*exec) abort();
  pthread_mutex_lock(&hardware);
  (*exec)->graph = graph_copy(graph);
  pthread_mutex_unlock(&hardware);
  count_thing("execs", 1, 0);
  return leave(SUCCESS);
}

/* A node whose dependencies are done and that is not; drawn. `done` of each node. */
static struct node *next_node(struct stream *stream, const struct graph *graph, const char *done, int first)
{
  struct node *ready = NULL;
  uint64_t many = 0;
  for (int n = first; n < graph->count && n < first + 64; n++) {
    const struct node *node = graph->nodes[n];
    int is_ready = !done[n];
    for (int d = 0; is_ready && d < node->ndeps; d++) is_ready = done[node->deps[d]->number];
    if (is_ready && draw(&stream->random, ++many) == 0) ready = graph->nodes[n];
  }
  return ready;
}

/* `hardware` is held. The queue's limit is not for graphs, which are uploaded as a whole. */
static void launch(struct exec *exec, struct stream *stream)
{
  const struct graph *graph = exec->graph;
  char *done = calloc(1, (size_t)graph->count + 1);
  struct work after = {.kind = WORK_AFTER, .after = {.stream = exec->stream, .number = exec->number}};
  if (!done) abort();
  if (exec->stream) channel_put(stream, work_copy(&after));
  for (int left = graph->count, first = 0; left; left--) {
    struct node *node = next_node(stream, graph, done, first);
    channel_put(stream, work_copy(node->work));
    done[node->number] = 1;
    while (first < graph->count && done[first]) first++;
  }
  exec->stream = stream;
  exec->number = stream->submitted;
  free(done);
}

EXPORT int cuGraphLaunch(struct exec *exec, void *handle)
{
  int code = enter("cuGraphLaunch", NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  struct work nothing = {.kind = WORK_NOTHING};
  if (stream->capture) return leave(NOT_SUPPORTED); /* a graph in a graph */
  code = submit(stream, work_copy(&nothing)); /* the order of the legacy stream */
  if (code != SUCCESS) return leave(code);
  pthread_mutex_lock(&hardware);
  launch(exec, stream);
  pthread_mutex_unlock(&hardware);
  return leave(SUCCESS);
}

EXPORT int cuGraphExecDestroy(struct exec *exec)
{
  int code = enter("cuGraphExecDestroy", ENDS);
  if (code != SUCCESS) return code;
  pthread_mutex_lock(&hardware);
  graph_free(exec->graph);
  pthread_mutex_unlock(&hardware);
  free(exec);
  count_thing("execs", 0, 1);
  return leave(SUCCESS);
}

EXPORT int cuGraphDestroy(struct graph *graph)
{
  int code = enter("cuGraphDestroy", ENDS);
  if (code != SUCCESS) return code;
  pthread_mutex_lock(&hardware);
  graph_free(graph);
  pthread_mutex_unlock(&hardware);
  count_thing("graphs", 0, 1);
  return leave(SUCCESS);
}

EXPORT int cuGraphGetNodes(struct graph *graph, struct node **nodes, size_t *count)
{
  int code = enter("cuGraphGetNodes", 0);
  if (code != SUCCESS) return code;
  for (int n = 0; nodes && n < graph->count && n < (int)*count; n++) nodes[n] = graph->nodes[n];
  *count = (size_t)graph->count;
  return leave(SUCCESS);
}

EXPORT int cuGraphAddBatchMemOpNode(struct node **node, struct graph *graph, struct node *const *deps, size_t ndeps,
                                    const struct batch_params *params)
{
  int code = enter("cuGraphAddBatchMemOpNode", 0);
  if (code != SUCCESS) return code;
  struct work work = {.kind = WORK_MEMOPS, .memops = {params->count, (struct memop *)(uintptr_t)params->list}};
  if (!params->count || params->count > 255 || params->flags || !context_of(params->context))
    return leave(INVALID_VALUE);
  pthread_mutex_lock(&hardware);
  *node = graph_add(graph, work_copy(&work), deps, (int)ndeps);
  pthread_mutex_unlock(&hardware);
  return leave(SUCCESS);
}
