/* SPDX-License-Identifier: BSD-3-Clause */
/* The grammar, a statement a line, where {} repeats, [] is optional and | chooses; # to the end of line is comment:
 *   tutti topology 1
 *   node NODE ranks LIST
 *   numa NODE/NUMA ranks LIST
 *   cache NODE/NUMA/CACHE ranks LIST         NUMA may be - for unknown
 *   nodes N ranks N each [numa N each] [cache N each] [cyclic]
 *   link KIND {alpha_us X | beta_us_per_mib X}
 *   gamma_us_per_mib X
 * LIST: FIRST or FIRST-LAST, {, more}. Names are any words without '/' and ','; they are kept as 64-bit hashes. */
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "topo/number_private.h"

#define TOKEN_BYTES 128
#define PRICE_MAX 1e12
#define NAME_SHOWN 200 /* of the text's name, so that the rest of a sentence has room */

struct reader {
  FILE *in;
  const char *name;
  int line;
  tuttiResult_t failed;    /* the first error is kept; after it nothing is read */
  char token[TOKEN_BYTES]; /* "\n" at the end of a line, "" at the end of the text */
  struct tt_location *locations;
  int32_t nranks, room;    /* ranks seen so far: the highest and 1 */
  uint64_t made_names;     /* nodes that a `nodes` line has made */
  struct tt_link_prices prices;
  unsigned prices_seen;    /* bit 2 kind: alpha, bit 2 kind + 1: beta, the next one: gamma */
};

static void wrong(struct reader *r, const char *wanted)
{
  const char *token = r->token[0] == '\n' ? "the end of the line" : r->token[0] ? r->token : "the end of the text";
  if (r->failed) return;
  r->failed = tt_fail(tuttiInvalidArgument, "%.*s, line %d: wanted %s, not '%s'", NAME_SHOWN, r->name, r->line,
                      wanted, token);
}

static void wrong_rank(struct reader *r, int32_t rank, const char *what)
{
  if (r->failed) return;
  r->failed = tt_fail(tuttiInvalidArgument, "%.*s, line %d: rank %d %s", NAME_SHOWN, r->name, r->line, (int)rank,
                      what);
}

static void no_memory(struct reader *r)
{
  if (!r->failed) r->failed = tt_fail(tuttiSystemError, "no memory to read a topology: give the process more");
}

/* The next character; a comment counts as the end of its line. */
static int character(struct reader *r)
{
  int c = getc(r->in);
  if (c == '#')
    while (c != '\n' && c != EOF) c = getc(r->in);
  return c;
}

/* Reads the next token into r->token. A comma stands alone. */
static void next(struct reader *r)
{
  size_t n = 0;
  int is_text = 1, c;
  if (r->token[0] == '\n') r->line++;
  do c = character(r);
  while (c == ' ' || c == '\t' || c == '\r');
  if (c == EOF && ferror(r->in) && !r->failed)
    r->failed = tt_fail(tuttiInvalidArgument, "%.*s cannot be read: %s", NAME_SHOWN, r->name, strerror(errno));
  int stands_alone = c == '\n' || c == ',';
  while (c != EOF && n + 1 < TOKEN_BYTES) {
    int is_fine = stands_alone || (c >= ' ' && c != 0x7f);
    r->token[n++] = is_fine ? (char)c : '?';
    is_text &= is_fine;
    if (stands_alone) break;
    c = character(r);
    if (c == EOF || isspace(c) || c == ',') break;
  }
  if (!stands_alone && c != EOF) ungetc(c, r->in);
  r->token[n] = 0;
  if (!is_text) wrong(r, "text without control characters");
  if (n + 1 == TOKEN_BYTES) wrong(r, "a word of at most 126 characters");
}

static int took(struct reader *r, const char *text)
{
  if (r->failed || strcmp(r->token, text) != 0) return 0;
  next(r);
  return 1;
}

static void expect(struct reader *r, const char *text, const char *wanted)
{
  if (!took(r, text)) wrong(r, wanted);
}

/* The number at *text, digits only, at most TT_TOPOLOGY_MAX_RANKS; -1: it is not. *text moves behind it. */
static int32_t digits(const char **text)
{
  int64_t value = 0;
  if (!isdigit((unsigned char)**text)) return -1;
  for (; isdigit((unsigned char)**text); (*text)++)
    if (value <= TT_TOPOLOGY_MAX_RANKS) value = 10 * value + (**text - '0');
  return value > TT_TOPOLOGY_MAX_RANKS ? -1 : (int32_t)value;
}

static int32_t count(struct reader *r, const char *wanted)
{
  const char *text = r->token;
  int32_t value = digits(&text);
  if (value < 1 || *text) wrong(r, wanted);
  if (r->failed) return 1;
  next(r);
  return value;
}

static double price(struct reader *r)
{
  char *end = r->token;
  double value = 0;
  /* strtod knows more than decimal numbers. */
  if (strspn(r->token, "0123456789.eE+-") == strlen(r->token)) value = strtod(r->token, &end);
  if (end == r->token || *end || !(value >= 0 && value <= PRICE_MAX) || r->token[0] == '-')
    wrong(r, "a number of microseconds from 0 to 1e12");
  if (!r->failed) next(r);
  return value;
}

/* ---- who is where ---- */

static uint64_t name_hash(const char *text, size_t len)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return hash ? hash : 1;
}

/* Reads `depth` names with '/' between them: the place of the rank, and what it lies in. */
static struct tt_location path(struct reader *r, int depth, const char *wanted)
{
  struct tt_location place = {0, 0, 0};
  uint64_t *const parts[] = {&place.node, &place.numa, &place.cache};
  size_t at = 0;
  for (int d = 0; d < depth && !r->failed; d++) {
    size_t len = strcspn(r->token + at, "/");
    int is_last = d == depth - 1, is_dash = len == 1 && r->token[at] == '-' && d == 1;
    if (len == 0 || (r->token[at + len] == '/') == is_last || r->token[0] == '\n' || r->token[0] == ',' ||
        (is_dash && is_last))
      wrong(r, wanted);
    *parts[d] = is_dash ? 0 : name_hash(r->token, at + len);
    at += len + 1;
  }
  if (!r->failed) next(r);
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

/* Puts a rank where `place` says, on one level more than it is. */
static void rank_put(struct reader *r, int32_t rank, const struct tt_location *place)
{
  int is_node = !place->numa && !place->cache;
  if (r->failed || !rank_reach(r, rank)) return;
  struct tt_location *location = &r->locations[rank];
  if (is_node && location->node) wrong_rank(r, rank, "is on a node already: each rank is on one");
  else if (!is_node && location->node != place->node) wrong_rank(r, rank, "is not on this node: say so above");
  else if (location->cache)
    wrong_rank(r, rank, "has a cache already: each has one at most, and numa stands above cache");
  else if (place->cache && location->numa != place->numa) wrong_rank(r, rank, "is not in this NUMA node: say so above");
  else if (!place->cache && location->numa) wrong_rank(r, rank, "is in a NUMA node already: each is in one at most");
  if (!r->failed) *location = *place;
}

static void place_parse(struct reader *r, int depth, const char *wanted)
{
  static const char range_wanted[] = "a rank or FIRST-LAST, up to 1048575";
  struct tt_location place = path(r, depth, wanted);
  expect(r, "ranks", "'ranks'");
  do {
    const char *text = r->token;
    int32_t first = digits(&text), last = first;
    if (*text == '-') {
      text++;
      last = digits(&text);
    }
    if (first < 0 || last < first || last >= TT_TOPOLOGY_MAX_RANKS || *text) wrong(r, range_wanted);
    for (int32_t rank = first; rank <= last && !r->failed; rank++) rank_put(r, rank, &place);
    if (!r->failed) next(r);
  } while (took(r, ","));
}

/* "WORD N each", or 0 if there is no such word. */
static int32_t each(struct reader *r, const char *word, const char *wanted)
{
  if (!took(r, word)) return 0;
  int32_t n = count(r, wanted);
  expect(r, "each", "'each'");
  return n;
}

/* Which of n parts item i of `total` is in: the inverse of tt_block_start. */
static int32_t part_of(int32_t i, int32_t total, int32_t n)
{
  int32_t small = total / n, large = total % n;
  return i < large * (small + 1) ? i / (small + 1) : large + (i - large * (small + 1)) / small;
}

/* Names that no line can spell: parts of a made node by number. */
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
  if (!nranks) wrong(r, "'ranks N each'");
  int32_t nnumas = each(r, "numa", "a number of NUMA nodes"), ncaches = each(r, "cache", "a number of caches");
  int is_cyclic = took(r, "cyclic");
  int32_t nparts = nnumas ? nnumas : 1;
  if (!r->failed && (int64_t)nnodes * nranks > TT_TOPOLOGY_MAX_RANKS - first) wrong(r, "at most 1048576 ranks in all");
  if ((int64_t)nparts * (ncaches ? ncaches : 1) > nranks)
    wrong(r, "at least as many ranks on a node as caches and NUMA nodes");
  if (r->failed || !rank_reach(r, first + nnodes * nranks - 1)) return;
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
  if (r->prices_seen & 1u << bit) wrong(r, "each price once");
  r->prices_seen |= 1u << bit;
  *where = price(r);
}

static void link_parse(struct reader *r)
{
  unsigned kind = 0;
  while (kind < TT_LINK_KINDS && strcmp(r->token, tt_link_names[kind]) != 0) kind++;
  if (kind == TT_LINK_KINDS) {
    wrong(r, "self, cache, numa, node or net");
    return;
  }
  next(r);
  do {
    if (took(r, "alpha_us")) price_set(r, &r->prices.link[kind].part[0].alpha_us, 2 * kind);
    else if (took(r, "beta_us_per_mib")) price_set(r, &r->prices.link[kind].part[0].beta_us_per_mib, 2 * kind + 1);
    else wrong(r, "alpha_us or beta_us_per_mib");
  } while (!r->failed && r->token[0] != '\n' && r->token[0]);
}

/* ---- the whole text ---- */

static void line_parse(struct reader *r)
{
  if (took(r, "node")) place_parse(r, 1, "a node's name, without '/'");
  else if (took(r, "numa")) place_parse(r, 2, "NODE/NUMA");
  else if (took(r, "cache")) place_parse(r, 3, "NODE/NUMA/CACHE");
  else if (took(r, "nodes")) nodes_parse(r);
  else if (took(r, "link")) link_parse(r);
  else if (took(r, "gamma_us_per_mib")) price_set(r, &r->prices.gamma_us_per_mib, 2 * TT_LINK_KINDS);
  else wrong(r, "node, nodes, numa, cache, link or gamma_us_per_mib");
  if (r->token[0] != '\n' && r->token[0]) wrong(r, "the end of the line");
}

static void ranks_check(struct reader *r, int32_t wanted)
{
  for (int32_t rank = 0; rank < r->nranks && !r->failed; rank++)
    if (!r->locations[rank].node)
      r->failed = tt_fail(tuttiInvalidArgument, "%.*s: rank %d is on no node, but rank %d is: put each of them on one",
                          NAME_SHOWN, r->name, (int)rank, (int)r->nranks - 1);
  if (!r->failed && wanted > 0 && r->nranks != wanted)
    r->failed = tt_fail(tuttiInvalidArgument, "%.*s is about %d ranks, but there are %d: give it as many",
                        NAME_SHOWN, r->name, (int)r->nranks, (int)wanted);
}

static void text_parse(struct reader *r, int32_t nranks)
{
  next(r);
  while (took(r, "\n")) continue;
  expect(r, "tutti", "'tutti topology 1' first");
  expect(r, "topology", "'tutti topology 1' first");
  expect(r, "1", "version 1");
  if (r->token[0] != '\n' && r->token[0]) wrong(r, "the end of the line");
  while (!r->failed && r->token[0]) {
    while (took(r, "\n")) continue;
    if (r->token[0]) line_parse(r);
  }
  if (r->nranks == 0) wrong(r, "a node with ranks");
  ranks_check(r, nranks);
}

tuttiResult_t tt_topology_parse(struct tt_topology *topology, FILE *in, const char *name, int32_t nranks)
{
  struct reader r = {.in = in, .name = name, .line = 1, .prices = tt_link_prices_default};
  struct tt_topology made;
  /* A program may have set a locale whose decimal point is a comma; this is about the calling thread alone. */
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = (locale_t)0;
  if (plain) before = uselocale(plain);
  else no_memory(&r);
  text_parse(&r, nranks);
  if (plain) {
    uselocale(before);
    freelocale(plain);
  }
  if (!r.failed) r.failed = tt_topology_number(&made, r.nranks, r.locations);
  tt_free(r.locations);
  if (r.failed) return r.failed;
  made.prices = r.prices;
  *topology = made;
  return tuttiSuccess;
}

tuttiResult_t tt_topology_load(struct tt_topology *topology, const char *path_name, int32_t nranks)
{
  FILE *in = fopen(path_name, "re");
  if (!in)
    return tt_fail(tuttiInvalidArgument, "the topology file %.*s cannot be opened: %s", NAME_SHOWN, path_name,
                   strerror(errno));
  tuttiResult_t result = tt_topology_parse(topology, in, path_name, nranks);
  fclose(in);
  return result;
}
