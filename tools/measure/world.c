/* SPDX-License-Identifier: BSD-3-Clause */
/* The links between ranks, and the number of cores. */
#include <string.h>

#include "measure/private.h"

/* The cores on which a rank may run, and the kernel they belong to. */
struct place {
  uint8_t cores[TT_CORE_MASK_BYTES];
  uint64_t kernel;
};

/* Containers of one machine are nodes of their own, but compete for its cores. */
static int same_cores(const struct measure *m, const struct place *places, int32_t a, int32_t b)
{
  const int32_t *node = m->topology->node;
  return places[a].kernel && places[b].kernel ? places[a].kernel == places[b].kernel : node[a] == node[b];
}

/* The cores of the machine with the fewest to a rank. */
static void cores_count(struct measure *m, const struct place *places)
{
  int32_t nranks = m->facts->nranks, its_ranks = 1;
  uint8_t counted[TT_MEASURE_RANKS] = {0};
  m->cores = 0;
  for (int32_t first = 0; first < nranks; first++) {
    uint8_t any[TT_CORE_MASK_BYTES] = {0};
    int32_t ranks = 0, cores = 0;
    for (int32_t r = first; r < nranks && !counted[first]; r++) {
      if (counted[r] || !same_cores(m, places, first, r)) continue;
      for (int b = 0; b < TT_CORE_MASK_BYTES; b++) any[b] |= places[r].cores[b];
      counted[r] = r > first;
      ranks++;
    }
    for (int b = 0; b < TT_CORE_MASK_BYTES; b++) cores += __builtin_popcount(any[b]);
    if (!ranks || (m->cores && (int64_t)cores * its_ranks >= (int64_t)m->cores * ranks)) continue;
    m->cores = cores;
    its_ranks = ranks;
  }
}

static const char *transport_of_most(const struct measure *m)
{
  size_t n = (size_t)m->facts->nranks, times[TT_COMM_TRANSPORTS] = {0};
  int most = 0;
  for (size_t a = 0; a < n; a++)
    for (size_t b = 0; b < n; b++)
      if (a != b) times[m->route[a * n + b] % TT_COMM_TRANSPORTS]++;
  for (int t = 1; tt_comm_transport(m->comm, t); t++)
    if (times[t] > times[most]) most = t;
  return tt_comm_transport(m->comm, most)->name;
}

/* Peers on this transport may read memory of tuttiMemAlloc where it lies. */
static int has_kinds(const struct measure *m)
{
  int t = 0;
  while (strcmp(tt_comm_transport(m->comm, t)->name, m->transport) != 0) t++;
  return tt_comm_transport(m->comm, t)->is_same_host;
}

static uint32_t block_bytes_find(const struct measure *m)
{
  size_t n = (size_t)m->facts->nranks;
  uint32_t longest = 0;
  for (size_t at = 0; at < n * n; at++) {
    uint32_t block = tt_comm_transport(m->comm, m->route[at])->block_bytes;
    if (at % (n + 1) && block > longest) longest = block;
  }
  return longest;
}

static void tutti_allocate(struct measure *m)
{
  void *data = NULL;
  (void)tuttiMemAlloc(&data, 2 * DATA_BYTES);
  m->memory[TT_MEMORY_TUTTI] = data;
  if (agree(m, !data) > 0 && !m->result)
    m->result = tt_fail(tuttiSystemError, "tune: out of memory of tuttiMemAlloc on %s",
                        data ? "another rank" : "this rank");
}

void world_find(struct measure *m)
{
  size_t n = (size_t)m->facts->nranks;
  uint8_t *own = tt_alloc(n, 1);
  struct place place = {.kernel = tt_kernel_id()}, *places = tt_alloc(n, sizeof place);
  m->route = tt_alloc(n, n);
  m->data = m->memory[TT_MEMORY_MALLOC] = tt_alloc(2, DATA_BYTES); /* as most programs have it */
  int lacks = !own || !places || !m->route || !m->data;
  if (agree(m, lacks) > 0 && !m->result)
    m->result = tt_fail(tuttiSystemError, "tune: out of memory on %s", lacks ? "this rank" : "another rank");
  for (int r = 0; !m->result && r < m->facts->nranks; r++) own[r] = (uint8_t)tt_comm_route(m->comm, r);
  tt_host_core_mask(place.cores);
  gather_all(m, own, m->route, n);
  gather_all(m, &place, places, sizeof place);
  if (!m->result) {
    cores_count(m, places);
    m->transport = transport_of_most(m);
    m->block_bytes = block_bytes_find(m);
    if (has_kinds(m)) tutti_allocate(m);
  }
  tt_free(own);
  tt_free(places);
}

static int is_of(const struct measure *m, const struct pairs_of_kind *of, int32_t a, int32_t b)
{
  size_t n = (size_t)m->facts->nranks;
  return m->route[(size_t)a * n + (size_t)b] == of->transport && tt_topology_kind(m->topology, a, b) == of->kind;
}

/* Pairs a rank of node `a` with one of node `b`, the lowest free ones first; how many there are. */
static int32_t pairs_match(const struct measure *m, const struct pairs_of_kind *of, int32_t a, int32_t b,
                           int32_t (*pairs)[2])
{
  const int32_t *node = m->topology->node;
  int32_t n = 0, nranks = m->facts->nranks;
  uint8_t used[TT_MEASURE_RANKS] = {0};
  for (int32_t r = 0; r < nranks; r++) {
    if (node[r] != a || used[r]) continue;
    for (int32_t s = a == b ? r + 1 : 0; s < nranks; s++) {
      if (node[s] != b || used[s] || !is_of(m, of, r, s)) continue;
      used[r] = used[s] = 1;
      pairs[n][0] = r;
      pairs[n++][1] = s;
      break;
    }
  }
  return n;
}

/* The node with most ranks, but for `other`. */
static int32_t node_largest(const struct measure *m, int32_t other)
{
  const struct tt_topology *topology = m->topology;
  int32_t best = -1, most = 0;
  for (int32_t node = 0; node < topology->nnodes; node++) {
    int32_t ranks = 0;
    for (int32_t r = 0; r < topology->nranks; r++) ranks += topology->node[r] == node;
    if (node == other || ranks <= most) continue;
    best = node;
    most = ranks;
  }
  return best;
}

void pairs_find(const struct measure *m, struct pairs_of_kind *of)
{
  int32_t nnodes = m->topology->nnodes, most = 0, best = -1, first = -1;
  int is_far = of->kind == TT_LINK_NET;
  of->n = 0;
  if (is_far && nnodes < 2) return;
  if (is_far) {
    first = node_largest(m, -1);
    best = node_largest(m, first);
    of->n = pairs_match(m, of, first, best, of->pairs);
    if (of->n) return;
  }
  for (int32_t node = 0; node < nnodes; node++) {
    if (node == first) continue;
    int32_t n = pairs_match(m, of, is_far ? first : node, node, of->pairs);
    if (n <= most) continue;
    most = n;
    best = node;
  }
  if (most) of->n = pairs_match(m, of, is_far ? first : best, best, of->pairs);
}
