/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology_text.h"

#include <errno.h>
#include <locale.h>
#include <string.h>

#include "profiles/order_private.h"
#include "topo/number_private.h"

/* Ascending ranks as "0-3,7". */
static void ranks_print(const int32_t *ranks, int32_t n, FILE *out)
{
  for (int32_t i = 0, last; i < n; i = last + 1) {
    for (last = i; last + 1 < n && ranks[last + 1] == ranks[last] + 1;) last++;
    fprintf(out, i ? ",%d" : "%d", (int)ranks[i]);
    if (last > i) fprintf(out, "-%d", (int)ranks[last]);
  }
  fprintf(out, "\n");
}

/* "node 3", "numa 3/7" or "cache 3/7/15": the place of kind `depth` that `rank` is in. */
static void place_print(const struct tt_topology *topology, int depth, int32_t rank, FILE *out)
{
  static const char *const words[] = {"node", "numa", "cache"};
  fprintf(out, "%s %d", words[depth], (int)topology->node[rank]);
  if (depth > 0 && topology->numa[rank] < 0) fprintf(out, "/-");
  else if (depth > 0) fprintf(out, "/%d", (int)topology->numa[rank]);
  if (depth > 1) fprintf(out, "/%d", (int)topology->cache[rank]);
  fprintf(out, " ranks ");
}

static void places_print(const struct tt_topology *topology, int32_t *start, int32_t *members, FILE *out)
{
  const int32_t *const numbers[] = {topology->node, topology->numa, topology->cache};
  const int32_t counts[] = {topology->nnodes, topology->nnumas, topology->ncaches};
  for (int depth = 0; depth < 3; depth++) {
    tt_ranks_sort(topology->nranks, numbers[depth], counts[depth], NULL, start, members);
    for (int32_t p = 0; p < counts[depth]; p++) {
      place_print(topology, depth, members[start[p]], out);
      ranks_print(members + start[p], start[p + 1] - start[p], out);
    }
  }
}

static void prices_print(const struct tt_link_prices *prices, FILE *out)
{
  for (int kind = 0; kind < TT_LINK_KINDS; kind++) {
    fprintf(out, "link %s alpha_us ", tt_link_names[kind]);
    tt_number_print(prices->link[kind].part[0].alpha_us, out);
    fprintf(out, " beta_us_per_mib ");
    tt_number_print(prices->link[kind].part[0].beta_us_per_mib, out);
    fprintf(out, "\n");
  }
  fprintf(out, "gamma_us_per_mib ");
  tt_number_print(prices->gamma_us_per_mib, out);
  fprintf(out, "\n");
}

tuttiResult_t topology_print(const struct tt_topology *topology, FILE *out)
{
  int32_t *start = tt_alloc((size_t)topology->nranks + 1, sizeof *start);
  int32_t *members = tt_alloc((size_t)topology->nranks, sizeof *members);
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* decimal points, see parse.c */
  int has_all = start && members && plain;
  if (has_all) {
    locale_t before = uselocale(plain);
    fprintf(out, "tutti topology 1\n");
    places_print(topology, start, members, out);
    prices_print(&topology->prices, out);
    uselocale(before);
  }
  if (plain) freelocale(plain);
  tt_free(start);
  tt_free(members);
  if (!has_all) return tt_fail(tuttiSystemError, "no memory to print a topology: give the process more");
  if (ferror(out)) return tt_fail(tuttiSystemError, "cannot write a topology: %s", strerror(errno));
  return tuttiSuccess;
}
