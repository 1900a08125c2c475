/* SPDX-License-Identifier: BSD-3-Clause */
/* The grammar, a statement a line; {} repeats, [] is optional, | chooses, # begins a comment to the end of the line:
 *   tutti topology 1
 *   node NODE ranks LIST
 *   numa NODE/NUMA ranks LIST
 *   cache NODE/NUMA/CACHE ranks LIST         NUMA may be - for unknown
 *   nodes N ranks N each [numa N each] [cache N each] [cyclic]
 *   link KIND {alpha_us X | beta_us_per_mib X}
 *   gamma_us_per_mib X
 * LIST: FIRST or FIRST-LAST, {, more}. Names are any words without '/' and ','; they are kept as 64-bit hashes. */
#include <errno.h>
#include <string.h>

#include "base/scan.h"
#include "topo/number_private.h"

#define PRICE_MAX 1e12

struct reader {
  struct tt_scan scan;
  struct tt_location *locations;
  int32_t nranks, room;    /* 1 + the highest rank so far; ranks that fit into `locations` */
  uint64_t made_names;     /* nodes that a `nodes` line has made */
  struct tt_link_prices prices;
  unsigned prices_seen;    /* bit 2 kind: alpha, bit 2 kind + 1: beta, the next one: gamma */
};

static void wrong_rank(struct reader *r, int32_t rank, const char *what)
{
  tt_scan_fail(&r->scan, r->scan.line, "rank %d %s", (int)rank, what);
}

static void no_memory(struct reader *r)
{
  if (r->scan.failed) return;
  r->scan.failed = tt_fail(tuttiSystemError, "no memory to read a topology: give the process more");
}

static int32_t count(struct reader *r, const char *noun)
{
  return (int32_t)tt_scan_whole(&r->scan, noun, 1, TT_TOPOLOGY_MAX_RANKS);
}

/* A rank at *text, which moves past it; -1: there is none. */
static int32_t rank_read(const char **text)
{
  const char *begin = *text;
  uint64_t rank = tt_digits(text, TT_TOPOLOGY_MAX_RANKS);
  return *text == begin || rank >= TT_TOPOLOGY_MAX_RANKS ? -1 : (int32_t)rank;
}

/* ---- places of ranks ---- */

static uint64_t name_hash(const char *text, size_t len)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return hash ? hash : 1;
}

/* Reads `depth` names with '/' between them: a place, after the places that it lies in. */
static struct tt_location path(struct reader *r, int depth, const char *wanted)
{
  struct tt_location place = {0, 0, 0};
  uint64_t *const parts[] = {&place.node, &place.numa, &place.cache};
  const char *names = r->scan.token;
  size_t at = 0;
  for (int d = 0; d < depth && !r->scan.failed; d++) {
    size_t len = strcspn(names + at, "/");
    int is_last = d == depth - 1, is_dash = len == 1 && names[at] == '-' && d == 1;
    if (len == 0 || (names[at + len] == '/') == is_last || names[0] == ',' || (is_dash && is_last))
      tt_scan_wrong(&r->scan, wanted);
    *parts[d] = is_dash ? 0 : name_hash(names, at + len);
    at += len + 1;
  }
  tt_scan_next(&r->scan);
  return place;
}

/* Makes r->locations[rank] exist. */
static int rank_reach(struct reader *r, int32_t rank)
{
  if (rank >= r->room) {
    int32_t room = rank < TT_TOPOLOGY_MAX_RANKS / 2 ? 2 * rank + 64 : TT_TOPOLOGY_MAX_RANKS;
    struct tt_location *locations = tt_alloc((size_t)room, sizeof *locations);
    if (!locations) {
      no_memory(r);
      return 0;
    }
    if (r->nranks) memcpy(locations, r->locations, (size_t)r->nranks * sizeof *locations);
    tt_free(r->locations);
    r->locations = locations;
    r->room = room;
  }
  if (rank >= r->nranks) r->nranks = rank + 1;
  return 1;
}

/* Puts a rank at `place`, which must refine the rank's location so far by one level. */
static void rank_put(struct reader *r, int32_t rank, const struct tt_location *place)
{
  int is_node = !place->numa && !place->cache;
  if (r->scan.failed || !rank_reach(r, rank)) return;
  struct tt_location *location = &r->locations[rank];
  if (is_node && location->node) wrong_rank(r, rank, "is on a node already: each rank is on one");
  else if (!is_node && location->node != place->node) wrong_rank(r, rank, "is not on this node: say so above");
  else if (location->cache)
    wrong_rank(r, rank, "has a cache already: each has one at most, and numa stands above cache");
  else if (place->cache && location->numa != place->numa) wrong_rank(r, rank, "is not in this NUMA node: say so above");
  else if (!place->cache && location->numa) wrong_rank(r, rank, "is in a NUMA node already: each is in one at most");
  if (!r->scan.failed) *location = *place;
}

static void place_parse(struct reader *r, int depth, const char *wanted)
{
  struct tt_scan *scan = &r->scan;
  struct tt_location place = path(r, depth, wanted);
  tt_scan_expect(scan, "ranks", "'ranks'");
  do {
    const char *text = scan->token;
    int32_t first = rank_read(&text), last = first;
    if (*text == '-') {
      text++;
      last = rank_read(&text);
    }
    if (first < 0 || last < first || *text) tt_scan_wrong(scan, "a rank or FIRST-LAST, up to 1048575");
    for (int32_t rank = first; rank <= last && !scan->failed; rank++) rank_put(r, rank, &place);
    tt_scan_next(scan);
  } while (tt_scan_took(scan, ","));
}

/* Reads "WORD N each" and returns N, or 0 if the word is not there. */
static int32_t each(struct reader *r, const char *word, const char *noun)
{
  if (!tt_scan_took(&r->scan, word)) return 0;
  int32_t n = count(r, noun);
  tt_scan_expect(&r->scan, "each", "'each'");
  return n;
}

/* The part, of n, in which item i of `total` is: the inverse of tt_block_start. */
static int32_t part_of(int32_t i, int32_t total, int32_t n)
{
  int32_t small = total / n, large = total % n;
  return i < large * (small + 1) ? i / (small + 1) : large + (i - large * (small + 1)) / small;
}

/* Places in a node of a `nodes` line, by number, with names that no line can spell. */
static struct tt_location made_location(uint64_t node, int32_t numa, int32_t cache)
{
  char text[64];
  struct tt_location location = {0, 0, 0};
  int n = snprintf(text, sizeof text, "/%llu", (unsigned long long)node);
  location.node = name_hash(text, (size_t)n);
  if (numa >= 0) location.numa = (uint64_t)numa + 1;
  if (cache >= 0) location.cache = (uint64_t)cache + 1;
  return location;
}

static void nodes_parse(struct reader *r)
{
  int32_t nnodes = count(r, "a number of nodes"), first = r->nranks;
  int32_t nranks = each(r, "ranks", "a number of ranks");
  if (!nranks) tt_scan_wrong(&r->scan, "'ranks N each'");
  int32_t nnumas = each(r, "numa", "a number of NUMA nodes"), ncaches = each(r, "cache", "a number of caches");
  int is_cyclic = tt_scan_took(&r->scan, "cyclic");
  int32_t nparts = nnumas ? nnumas : 1;
  if ((int64_t)nnodes * nranks > TT_TOPOLOGY_MAX_RANKS - first)
    tt_scan_wrong(&r->scan, "at most 1048576 ranks in all");
  if ((int64_t)nparts * (ncaches ? ncaches : 1) > nranks)
    tt_scan_wrong(&r->scan, "at least as many ranks on a node as caches and NUMA nodes");
  if (r->scan.failed || !rank_reach(r, first + nnodes * nranks - 1)) return;
  for (int32_t i = 0; i < nnodes * nranks; i++) {
    int32_t node = is_cyclic ? i % nnodes : i / nranks, local = is_cyclic ? i / nnodes : i % nranks;
    int32_t numa = part_of(local, nranks, nparts);
    int32_t begin = (int32_t)tt_block_start((size_t)nranks, nparts, numa);
    int32_t size = (int32_t)tt_blocks_count((size_t)nranks, nparts, numa, 1);
    int32_t cache = ncaches ? part_of(local - begin, size, ncaches) : -1;
    r->locations[first + i] = made_location(r->made_names + (uint64_t)node, nnumas ? numa : -1, cache);
  }
  r->made_names += (uint64_t)nnodes;
}

/* ---- prices ---- */

static void price_set(struct reader *r, double *where, unsigned bit)
{
  if (r->prices_seen & 1u << bit) tt_scan_wrong(&r->scan, "each price once");
  r->prices_seen |= 1u << bit;
  *where = tt_scan_number(&r->scan, "a number of microseconds", 0, PRICE_MAX);
}

static void link_parse(struct reader *r)
{
  unsigned kind = 0;
  while (kind < TT_LINK_KINDS && !tt_scan_took(&r->scan, tt_link_names[kind])) kind++;
  if (kind == TT_LINK_KINDS) {
    tt_scan_wrong(&r->scan, "self, cache, numa, node or net");
    return;
  }
  do {
    if (tt_scan_took(&r->scan, "alpha_us")) price_set(r, &r->prices.link[kind].part[0].alpha_us, 2 * kind);
    else if (tt_scan_took(&r->scan, "beta_us_per_mib"))
      price_set(r, &r->prices.link[kind].part[0].beta_us_per_mib, 2 * kind + 1);
    else tt_scan_wrong(&r->scan, "alpha_us or beta_us_per_mib");
  } while (tt_scan_has_word(&r->scan));
}

/* ---- the whole text ---- */

static void line_parse(struct reader *r)
{
  struct tt_scan *scan = &r->scan;
  if (tt_scan_took(scan, "node")) place_parse(r, 1, "a node's name, without '/'");
  else if (tt_scan_took(scan, "numa")) place_parse(r, 2, "NODE/NUMA");
  else if (tt_scan_took(scan, "cache")) place_parse(r, 3, "NODE/NUMA/CACHE");
  else if (tt_scan_took(scan, "nodes")) nodes_parse(r);
  else if (tt_scan_took(scan, "link")) link_parse(r);
  else if (tt_scan_took(scan, "gamma_us_per_mib")) price_set(r, &r->prices.gamma_us_per_mib, 2 * TT_LINK_KINDS);
  else tt_scan_wrong(scan, "node, nodes, numa, cache, link or gamma_us_per_mib");
  tt_scan_line_end(scan);
}

static void ranks_check(struct reader *r, int32_t wanted)
{
  struct tt_scan *scan = &r->scan;
  for (int32_t rank = 0; rank < r->nranks && !scan->failed; rank++)
    if (!r->locations[rank].node)
      scan->failed = tt_fail(tuttiInvalidArgument, "%.*s: rank %d is on no node, but rank %d is: put each of them on "
                             "one", TT_SOURCE_SHOWN, scan->source, (int)rank, (int)r->nranks - 1);
  if (!scan->failed && wanted > 0 && r->nranks != wanted)
    scan->failed = tt_fail(tuttiInvalidArgument, "%.*s is about %d ranks, but there are %d: give it as many",
                           TT_SOURCE_SHOWN, scan->source, (int)r->nranks, (int)wanted);
}

static void text_parse(struct reader *r, int32_t nranks)
{
  struct tt_scan *scan = &r->scan;
  tt_scan_line(scan);
  tt_scan_expect(scan, "tutti", "'tutti topology 1' first");
  tt_scan_expect(scan, "topology", "'tutti topology 1' first");
  tt_scan_expect(scan, "1", "version 1");
  tt_scan_line_end(scan);
  while (tt_scan_line(scan)) line_parse(r);
  if (r->nranks == 0) tt_scan_wrong(scan, "a node with ranks");
  ranks_check(r, nranks);
}

tuttiResult_t tt_topology_parse(struct tt_topology *topology, FILE *in, const char *name, int32_t nranks)
{
  struct reader r = {.prices = tt_link_prices_default};
  struct tt_topology made;
  tt_scan_begin(&r.scan, in, name, ",");
  text_parse(&r, nranks);
  tuttiResult_t result = tt_scan_end(&r.scan);
  if (result == tuttiSuccess) result = tt_topology_number(&made, r.nranks, r.locations);
  tt_free(r.locations);
  if (result != tuttiSuccess) return result;
  made.prices = r.prices;
  *topology = made;
  return tuttiSuccess;
}

tuttiResult_t tt_topology_load(struct tt_topology *topology, const char *path_name, int32_t nranks)
{
  FILE *in = fopen(path_name, "re");
  if (!in)
    return tt_fail(tuttiInvalidArgument, "the topology file %.*s cannot be opened: %s", TT_SOURCE_SHOWN, path_name,
                   strerror(errno));
  tuttiResult_t result = tt_topology_parse(topology, in, path_name, nranks);
  fclose(in);
  return result;
}
