/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of fusions with servers without a decision: a rank counts its steps in elements of its own, so that a
 * weight tells how many of whose contributions are in it. Where ranks exchange their weights all have the same ones at
 * first, and keep them. */
#ifndef COUNTED_RANKS_H
#define COUNTED_RANKS_H

#include "fusion_ranks.h"

static const struct rule {
  const char *name, *update;
  int quorum, staleness;
} rules[] = {
    {"asgd", "function", 1, 1000000}, {"ssp", "function", 0, 3}, {"easgd", "easgd", 0, 0}, {"gossip", "gossip", 0, 0}};
enum { RULES = sizeof rules / sizeof *rules, EXCHANGES = 2 /* and those behind it */ };

#define COUNT 20000 /* so that a share of four ranks does not fit into 4 slots of 4 KiB */
#define COUNTERS 5 /* an element is that of one of these, in turn, or nobody's */
#define SAME 5.0f  /* of all elements, where ranks exchange their weights */

static const tuttiFusionTensor_t counted[] = {{"long", COUNT, tuttiFloat32}, {"short", 3, tuttiFloat32}};
enum { COUNTED = sizeof counted / sizeof *counted };

/* The state of a rank of this process. */
struct counter {
  const struct rule *rule;
  int number;         /* of this rank's elements */
  _Atomic int *began; /* of each counter: steps that were begun; shared by all ranks */
  tuttiFusion_t fusion;
  int steps;
  float in[COUNTED][COUNT], out[COUNTED][COUNT];
};

static inline int counter_of(size_t e)
{
  int number = (int)(e % (COUNTERS + 1));
  return number == COUNTERS ? -1 : number;
}

static inline int exchanges(const struct counter *c)
{
  return c->rule >= &rules[EXCHANGES];
}

static inline tuttiResult_t count(void *context, const tuttiFusionShard_t *shard)
{
  (void)context;
  for (size_t i = 0; i < shard->count; i++) shard->planes[0][i] += shard->gradient[i];
  return tuttiSuccess;
}

/* joins: the others have weights already; with gossip a rank has its own. */
static inline int counter_make(const struct ranks *self, struct counter *c, tuttiComm_t comm, int joins)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = c->rule->update;
  config.function = exchanges(c) ? NULL : count;
  config.quorum = c->rule->quorum;
  config.staleness = c->rule->staleness;
  RANKS_CHECK(tuttiFusionCreate(&c->fusion, comm, counted, COUNTED, &config) == tuttiSuccess);
  for (int t = 0; t < COUNTED; t++)
    for (size_t e = 0; e < counted[t].count; e++) c->out[t][e] = exchanges(c) ? SAME : 0;
  for (int t = 0; t < COUNTED && (!joins || strcmp(config.update, "gossip") == 0); t++)
    RANKS_CHECK(tuttiFusionState(c->fusion, t, 0, c->out[t], counted[t].count, 1) == tuttiSuccess);
  return 0;
}

/* Gradients: `value` for the rank's own elements, 1 or 0. Exchanges: its weights. */
static inline int counter_step(const struct ranks *self, struct counter *c, float value)
{
  atomic_store(&c->began[c->number], c->steps + (value > 0));
  for (int t = 0; t < COUNTED; t++) {
    for (size_t e = 0; e < counted[t].count; e++)
      c->in[t][e] = exchanges(c) ? c->out[t][e] : counter_of(e) == c->number ? value : 0;
    RANKS_CHECK(tuttiFusionPush(c->fusion, t, c->in[t], c->out[t], counted[t].count, tuttiFloat32, NULL) ==
                tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(c->fusion) == tuttiSuccess);
  c->steps += value > 0;
  for (int t = 0; t < COUNTED; t++)
    for (size_t e = 0; e < counted[t].count; e++) {
      int number = counter_of(e);
      float its = c->out[t][e];
      if (exchanges(c)) RANKS_CHECK(its == SAME);
      else if (number == c->number) RANKS_CHECK(its == (float)c->steps);
      else RANKS_CHECK(number < 0 ? its == 0 : its >= 0 && its <= (float)atomic_load(&c->began[number]));
    }
  return 0;
}

static inline int counter_steps(const struct ranks *self, struct counter *c, int n)
{
  for (int k = 0; k < n; k++) RANKS_CHECK(counter_step(self, c, 1) == 0);
  return 0;
}

/* Once all have made their steps: an answer has all that was answered before. steps: of each counter; -1: it is dead,
 * and has as many as it may have, and nobody knows more. */
static inline int counter_end(const struct ranks *self, struct counter *c, const int steps[COUNTERS])
{
  RANKS_CHECK(counter_step(self, c, 0) == 0);
  for (int t = 0; t < COUNTED && !exchanges(c); t++)
    for (size_t e = 0; e < counted[t].count; e++) {
      int number = counter_of(e);
      RANKS_CHECK(number < 0 || steps[number] < 0 || c->out[t][e] == (float)steps[number]);
    }
  return 0;
}

#endif
