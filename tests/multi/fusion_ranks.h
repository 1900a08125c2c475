/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of the fusion: gradients of which each value tells tensor, rank, step and place (up to a period), and whose
 * sums are exact in every type, with all bytes around them watched; steps. */
#ifndef FUSION_RANKS_H
#define FUSION_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "chance.h"
#include "meeting.h"
#include "ranks.h"
#include "reduce/reduce.h"
#include "slow.h"
#include "tutti_fusion.h"

#define FUSION_GAP 64 /* bytes before, between and behind tensors that do not lie together */
#define FUSION_FILL 0x5a
#define FUSION_PERIOD 251 /* elements after which values repeat: a prime, so that no part looks like another */

/* ---- values ---- */

static inline void element_put(void *at, int type, double x)
{
  int64_t integer = (int64_t)x;
  uint32_t bits;
  size_t half = tt_type_size(type) / 2;
  if (tt_type_part(type) != type) memset((char *)at + half, 0, half); /* the imaginary part */
  type = tt_type_part(type);
  if (type == tuttiFloat64) memcpy(at, &x, 8);
  else if (!tt_type_is_float(type)) memcpy(at, &integer, tt_type_size(type)); /* little-endian */
  else {
    bits = tt_float_from_fp32(type, (float)x);
    memcpy(at, &bits, tt_type_size(type));
  }
}

static inline int type_is_signed(int type)
{
  return type != tuttiUint8 && type != tuttiUint16 && type != tuttiUint32 && type != tuttiUint64;
}

/* How many values elements have: sums over 5 ranks are exact. */
static inline size_t values_of(int type)
{
  if (type == tuttiFloat8e4m3 || type == tuttiFloat8e5m2) return 3;
  if (tt_type_size(type) <= 2) return 50;
  return 1 << 20;
}

/* ---- gradients ---- */

struct gradients {
  const tuttiFusionTensor_t *tensors;
  int n;
  size_t values; /* how many values elements have; 0: values_of their type */
  size_t gap;
  char *in, *out; /* the same: in place */
  size_t *at;     /* of each tensor in both, in bytes; at[n] is the end */
};

static inline size_t gradient_bytes(const struct gradients *g, int tensor)
{
  return g->tensors[tensor].count * tt_type_size((int)g->tensors[tensor].type);
}

static inline double gradient_value(const struct gradients *g, int tensor, int rank, uint64_t step, size_t i)
{
  int type = (int)g->tensors[tensor].type;
  size_t values = g->values ? g->values : values_of(type);
  uint64_t state = (((uint64_t)tensor * 64 + (uint64_t)rank) * 4096 + step % 4096) * ((uint64_t)1 << 24) + i;
  double x = (double)below(&state, values);
  return type_is_signed(type) ? x - (double)(values / 2) : x;
}

static inline double gradient_sum(const struct gradients *g, int tensor, int nranks, uint64_t step, size_t i)
{
  double sum = 0;
  for (int r = 0; r < nranks; r++) sum += gradient_value(g, tensor, r, step, i);
  return sum;
}

static inline void gradients_free(struct gradients *g)
{
  if (g->out != g->in) free(g->out);
  free(g->in);
  free(g->at);
}

/* gap 0: the tensors lie together. 0: no memory; free it in any case. */
static inline int gradients_make(struct gradients *g, const tuttiFusionTensor_t *tensors, int n, size_t gap,
                                 int in_place)
{
  *g = (struct gradients){.tensors = tensors, .n = n, .gap = gap, .at = calloc((size_t)n + 1, sizeof(size_t))};
  if (!g->at) return 0;
  g->at[0] = FUSION_GAP;
  for (int t = 0; t < n; t++) g->at[t + 1] = g->at[t] + gradient_bytes(g, t) + gap;
  g->in = malloc(g->at[n] + FUSION_GAP);
  g->out = in_place ? g->in : malloc(g->at[n] + FUSION_GAP);
  if (!g->in || !g->out) return 0;
  memset(g->in, FUSION_FILL, g->at[n] + FUSION_GAP);
  memset(g->out, FUSION_FILL, g->at[n] + FUSION_GAP);
  return 1;
}

/* The first elements of a tensor at `to`, again and again until it ends. */
static inline void period_repeat(const struct gradients *g, int tensor, char *to)
{
  size_t len = gradient_bytes(g, tensor), done = FUSION_PERIOD * tt_type_size((int)g->tensors[tensor].type);
  for (size_t n; done < len; done += n) {
    n = len - done < done ? len - done : done;
    memcpy(to + done, to, n);
  }
}

static inline size_t period_of(const struct gradients *g, int tensor)
{
  return g->tensors[tensor].count < FUSION_PERIOD ? g->tensors[tensor].count : FUSION_PERIOD;
}

/* What the rank gives. */
static inline void values_put(const struct gradients *g, int tensor, int rank, uint64_t step, char *to)
{
  int type = (int)g->tensors[tensor].type;
  for (size_t i = 0; i < period_of(g, tensor); i++)
    element_put(to + i * tt_type_size(type), type, gradient_value(g, tensor, rank, step, i));
  period_repeat(g, tensor, to);
}

static inline void gradient_fill(const struct gradients *g, int tensor, int rank, uint64_t step)
{
  values_put(g, tensor, rank, step, g->in + g->at[tensor]);
}

static inline int gradient_complain(const struct ranks *self, const struct gradients *g, int tensor, uint64_t step,
                                    const char *is, const char *want)
{
  size_t size = tt_type_size((int)g->tensors[tensor].type), i = 0;
  while (memcmp(is + i * size, want + i * size, size) == 0) i++;
  fprintf(stderr, "rank %d of %d: step %llu: tensor %d (%zu of %s): element %zu is wrong\n", self->rank, self->nranks,
          (unsigned long long)step, tensor, g->tensors[tensor].count, tt_type_name((int)g->tensors[tensor].type), i);
  return 1;
}

/* 0: the tensor's sums, multiplied by `factor`, are there, and out of place what was given is still there. */
static inline int gradient_check(const struct ranks *self, const struct gradients *g, int tensor, uint64_t step,
                                 double factor)
{
  int type = (int)g->tensors[tensor].type, bad = 0;
  size_t len = gradient_bytes(g, tensor);
  const char *in = g->in + g->at[tensor], *out = g->out + g->at[tensor];
  char *want = malloc(len + 1);
  RANKS_CHECK(want);
  for (size_t i = 0; i < period_of(g, tensor); i++)
    element_put(want + i * tt_type_size(type), type, gradient_sum(g, tensor, self->nranks, step, i) * factor);
  period_repeat(g, tensor, want);
  if (memcmp(out, want, len) != 0) bad = gradient_complain(self, g, tensor, step, out, want);
  if (in != out && !bad) {
    values_put(g, tensor, self->rank, step, want);
    if (memcmp(in, want, len) != 0) bad = gradient_complain(self, g, tensor, step, in, want);
  }
  free(want);
  return bad;
}

/* Nobody wrote between the tensors. */
static inline int gaps_check(const struct ranks *self, const struct gradients *g)
{
  for (int t = 0; t <= g->n; t++) {
    size_t begin = t ? g->at[t - 1] + gradient_bytes(g, t - 1) : 0, end = t < g->n ? g->at[t] : g->at[t] + FUSION_GAP;
    for (size_t k = begin; k < end; k++) RANKS_CHECK(g->in[k] == FUSION_FILL && g->out[k] == FUSION_FILL);
  }
  return 0;
}

static inline tuttiResult_t gradient_push(tuttiFusion_t fusion, const struct gradients *g, int tensor,
                                          tuttiStream_t stream)
{
  const tuttiFusionTensor_t *as = &g->tensors[tensor];
  return tuttiFusionPush(fusion, tensor, g->in + g->at[tensor], g->out + g->at[tensor], as->count, as->type, stream);
}

/* ---- steps ---- */

static inline int gradients_check(const struct ranks *self, const struct gradients *g, uint64_t step, double factor)
{
  for (int t = 0; t < g->n; t++)
    if (gradient_check(self, g, t, step, factor)) return 1;
  return gaps_check(self, g);
}

/* One step, pushed as backward does it and waited for as a whole. */
static inline int fusion_step(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step)
{
  for (int t = g->n - 1; t >= 0; t--) {
    gradient_fill(g, t, self->rank, step);
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  return gradients_check(self, g, step, 1);
}

/* So many steps from step 0 on, up to the first error; tuttiNumResults: wrong data. */
static inline tuttiResult_t fusion_steps(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g,
                                         uint64_t n)
{
  tuttiResult_t result = tuttiSuccess;
  for (uint64_t step = 0; step < n && result == tuttiSuccess; step++) {
    for (int t = g->n - 1; t >= 0 && result == tuttiSuccess; t--) {
      gradient_fill(g, t, self->rank, step);
      result = gradient_push(fusion, g, t, NULL);
    }
    if (result == tuttiSuccess) result = tuttiFusionWaitAll(fusion);
    if (result == tuttiSuccess && gradients_check(self, g, step, 1)) result = tuttiNumResults;
  }
  return result;
}

/* 0 .. n - 1 in an order that depends on the state. */
static inline void shuffled(int *order, int n, uint64_t *state)
{
  for (int i = 0; i < n; i++) {
    int j = (int)below(state, (size_t)i + 1);
    order[i] = order[j];
    order[j] = i;
  }
}

/* ---- ranks ---- */

static const char *const fusion_policies[] = {"wfbp",    "single",  "threshold:6K,1K", "horovod:8K",
                                              "mgwfbp", "optimal", "p3:700",          "p3:300,1M", "auto"};
enum { FUSION_POLICIES = sizeof fusion_policies / sizeof *fusion_policies };

/* 1 in the tests on tcp, if there are others on shm: what they draw from many combinations are other ones then. */
static inline int is_second_transport(void)
{
  return ranks_transports(1) && strcmp(getenv("TUTTI_TRANSPORTS"), ranks_transports(1)) == 0;
}

/* Each number of ranks takes half of the policies, and the next one of the same transport the others. */
static inline int policy_is_left_out(int policy, int nranks)
{
  return ranks_step() > 1 && (policy + (nranks + is_second_transport()) / 2) % 2;
}

static inline int run_fusion(const char *transport, int nranks, ranks_body body, void *argument)
{
  setenv("TUTTI_TRANSPORTS", transport, 1);
  return ranks_run_processes(nranks, body, argument, 120);
}

/* The same without a log, where errors are what is wanted. */
static inline int run_fusion_quietly(const char *transport, int nranks, ranks_body body, void *argument)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  int nfailed = run_fusion(transport, nranks, body, argument);
  unsetenv("TUTTI_DEBUG");
  return nfailed;
}

#endif
