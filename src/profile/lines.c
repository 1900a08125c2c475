/* SPDX-License-Identifier: BSD-3-Clause */
#include "profile/lines.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 1e12
#define COUNT_MAX 1e9

#define FIELD(type, member) offsetof(struct type, member)
#define TEXT(name, type, member) {name, TT_VALUE_TEXT, 0, FIELD(type, member), 0, 0}
#define NAME(name, type, member) {name, TT_VALUE_NAME, 1, FIELD(type, member), 0, 0}
#define LABEL(name, type, member) {name, TT_VALUE_LABEL, 1, FIELD(type, member), 0, 0}
#define NAMED(name, value, type, member) {name, value, 1, FIELD(type, member), 0, 0}
#define COUNT(name, type, member, low, high) {name, TT_VALUE_COUNT, 1, FIELD(type, member), low, high}
#define BYTES(name, type, member) {name, TT_VALUE_SIZE, 1, FIELD(type, member), 0, 0}
#define NUMBER(name, type, member, low) {name, TT_VALUE_NUMBER, 0, FIELD(type, member), low, NUMBER_MAX}
#define FLOW(type)                                                                                       \
  NAMED("kind", TT_VALUE_KIND, type, flow.kind), NAME("transport", type, flow.transport),                \
      LABEL("interface", type, flow.interface),                                                          \
      COUNT("flows", type, flow.flows, 1, TT_PROFILE_MAX_FLOWS), COUNT("ways", type, flow.ways, 1, 2)

#define SHORTEST 1e-6 /* least value of times that others are divided by */

static const struct tt_profile_key machine[] = {
    TEXT("host", tt_profile, host),
    TEXT("cpu", tt_profile, cpu),
    {"cores", TT_VALUE_COUNT, 0, FIELD(tt_profile, cores), 0, COUNT_MAX},
    TEXT("memory", tt_profile, memory),
    TEXT("kernel", tt_profile, kernel),
};

static const struct tt_profile_key measured[] = {
    {"date", TT_VALUE_TEXT, 1, FIELD(tt_profile_measured, date), 0, 0},
    {"command", TT_VALUE_TEXT, 1, FIELD(tt_profile_measured, command), 0, 0},
    TEXT("version", tt_profile_measured, version),
    NUMBER("load", tt_profile_measured, load, 0),
};

static const struct tt_profile_key missing_keys[] = {
    COUNT("ranks", tt_profile_missing, nranks, 1, TT_TOPOLOGY_MAX_RANKS),
    COUNT("nodes", tt_profile_missing, nnodes, 1, TT_TOPOLOGY_MAX_RANKS),
    NAME("transport", tt_profile_missing, transport),
    TEXT("from", tt_profile_missing, from),
};

static const struct tt_profile_key link_keys[] = {
    FLOW(tt_profile_link),
    BYTES("from", tt_profile_link, from),
    {"to", TT_VALUE_LIMIT, 0, FIELD(tt_profile_link, to), 0, 0},
    NUMBER("alpha_us", tt_profile_link, alpha_us, 0),
    NUMBER("beta_us_per_mib", tt_profile_link, beta_us_per_mib, 0),
    NUMBER("overhead_us", tt_profile_link, overhead_us, 0),
    {"points", TT_VALUE_COUNT, 0, FIELD(tt_profile_link, points), 0, COUNT_MAX},
    NUMBER("error_percent", tt_profile_link, error_percent, 0),
};

static const struct tt_profile_key point_keys[] = {
    FLOW(tt_profile_point),
    BYTES("bytes", tt_profile_point, bytes),
    NUMBER("us", tt_profile_point, us, SHORTEST),
    NUMBER("low_us", tt_profile_point, low_us, SHORTEST),
    NUMBER("high_us", tt_profile_point, high_us, SHORTEST),
};

static const struct tt_profile_key reduce_keys[] = {
    NAMED("type", TT_VALUE_TYPE, tt_profile_reduce, type),
    NAMED("op", TT_VALUE_OP, tt_profile_reduce, op),
    COUNT("sources", tt_profile_reduce, nsrc, 2, 1024),
    NAMED("level", TT_VALUE_LEVEL, tt_profile_reduce, level),
    BYTES("bytes", tt_profile_reduce, bytes),
    NUMBER("gamma_us_per_mib", tt_profile_reduce, gamma_us_per_mib, 0),
    NUMBER("error_percent", tt_profile_reduce, error_percent, 0),
};

/* Where an operation was measured, and what it took. */
#define OPERATION_PLACE(type, at) \
  COUNT("ranks", type, at nranks, 1, TT_TOPOLOGY_MAX_RANKS),                      \
      COUNT("nodes", type, at nnodes, 1, TT_TOPOLOGY_MAX_RANKS),                  \
      COUNT("cores", type, at cores, 1, COUNT_MAX), NAME("transport", type, at transport), \
      NAMED("memory", TT_VALUE_MEMORY, type, at memory), BYTES("bytes", type, at bytes), \
      NUMBER("us", type, at us, SHORTEST)

static const struct tt_profile_key anchor_keys[] = {
    NAMED("collective", TT_VALUE_COLLECTIVE, tt_profile_anchor, collective),
    NAME("algo", tt_profile_anchor, algo),
    COUNT("radix", tt_profile_anchor, radix, 0, UINT16_MAX),
    {"block", TT_VALUE_BLOCK, 1, FIELD(tt_profile_anchor, block_bytes), 1, 1 << 30},
    OPERATION_PLACE(tt_profile_anchor, ),
};

/* One choice for each shape. */
static const struct tt_profile_key learnt_keys[] = {
    NAMED("collective", TT_VALUE_COLLECTIVE, tt_profile_learnt, is.collective),
    COUNT("element", tt_profile_learnt, element, 1, 1 << 10),
    {"algo", TT_VALUE_NAME, 0, FIELD(tt_profile_learnt, is.algo), 0, 0},
    {"radix", TT_VALUE_COUNT, 0, FIELD(tt_profile_learnt, is.radix), 0, UINT16_MAX},
    {"block", TT_VALUE_BLOCK, 0, FIELD(tt_profile_learnt, is.block_bytes), 1, 1 << 30},
    OPERATION_PLACE(tt_profile_learnt, is.),
    TEXT("date", tt_profile_learnt, date),
};

#define LINE(word, comment, type, keys) \
  {word, comment, sizeof(struct type), FIELD(type, line), keys, sizeof keys / sizeof keys[0]}

const struct tt_profile_line tt_profile_lines[TT_PROFILE_WORDS] = {
    [TT_PROFILE_MACHINE] = {"machine", "who was measured", 0, 0, machine, sizeof machine / sizeof machine[0]},
    [TT_PROFILE_MEASURED] = LINE("measured", "When and how; load: tasks that wanted to run just before, beside these.",
                                 tt_profile_measured, measured),
    [TT_PROFILE_MISSING] = LINE("missing", "Partial: of such jobs this part and all parts behind it are missing.",
                                tt_profile_missing, missing_keys),
    [TT_PROFILE_LINK] = LINE("link", "A message of more than `from` and up to `to` bytes takes alpha + bytes * beta.\n"
                             "# flows: pairs of ranks of a host that talk at once; ways: 2 if both ranks send.",
                          tt_profile_link, link_keys),
    [TT_PROFILE_POINT] = LINE("point", "What was measured: the median, and a quarter of the samples below and above.",
                              tt_profile_point, point_keys),
    [TT_PROFILE_REDUCE] = LINE("reduce", "Combining takes gamma for each MiB of each source beyond the first.",
                               tt_profile_reduce, reduce_keys),
    [TT_PROFILE_ANCHOR] = LINE("anchor", "Whole operations, from the moment when all began to the last rank's end.",
                               tt_profile_anchor, anchor_keys),
    [TT_PROFILE_LEARNT] = {"learnt", "The choice that jobs have found the quickest, in calls like these.",
                           sizeof(struct tt_profile_learnt), FIELD(tt_profile_learnt, is.line), learnt_keys,
                           sizeof learnt_keys / sizeof learnt_keys[0]},
};

static const char *name_of_index(const char *name, int index, int n)
{
  return index >= 0 && index < n ? name : NULL;
}

const char *tt_profile_name(enum tt_profile_value value, int index)
{
  if (value == TT_VALUE_KIND) return index >= 0 && index < TT_LINK_KINDS ? tt_link_names[index] : NULL;
  if (value == TT_VALUE_LEVEL) return index >= 0 && index < TT_LEVELS ? tt_level_names[index] : NULL;
  if (value == TT_VALUE_MEMORY) return index >= 0 && index < TT_MEMORIES ? tt_memory_names[index] : NULL;
  if (value == TT_VALUE_TYPE) return name_of_index(tt_type_name(index), index, tuttiNumTypes);
  if (value == TT_VALUE_OP) return name_of_index(tt_redop_name(index), index, TT_REDOPS);
  if (value != TT_VALUE_COLLECTIVE || index < 0 || index >= TT_COLLECTIVES) return NULL;
  return tt_kinds[index].name ? tt_kinds[index].name : "";
}

void *tt_profile_items(const struct tt_profile *profile, enum tt_profile_word word, int32_t *n)
{
  *n = 0;
  if (word == TT_PROFILE_MEASURED) return *n = profile->nmeasured, profile->measured;
  if (word == TT_PROFILE_MISSING) return *n = profile->nmissing, profile->missing;
  if (word == TT_PROFILE_LINK) return *n = profile->nlinks, profile->links;
  if (word == TT_PROFILE_POINT) return *n = profile->npoints, profile->points;
  if (word == TT_PROFILE_REDUCE) return *n = profile->nreduces, profile->reduces;
  if (word == TT_PROFILE_ANCHOR) return *n = profile->nanchors, profile->anchors;
  if (word == TT_PROFILE_LEARNT) return *n = profile->nlearnt, profile->learnt;
  return NULL;
}

static int value_compare(const char *a, const char *b, enum tt_profile_value value)
{
  if (value == TT_VALUE_TEXT || value == TT_VALUE_NAME || value == TT_VALUE_LABEL) return strcmp(a, b);
  if (value == TT_VALUE_SIZE) {
    uint64_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return (left > right) - (left < right);
  }
  int32_t left, right;
  memcpy(&left, a, sizeof left);
  memcpy(&right, b, sizeof right);
  return (left > right) - (left < right);
}

int tt_profile_compare(const void *a, const void *b, enum tt_profile_word word)
{
  const struct tt_profile_line *line = &tt_profile_lines[word];
  int order = 0;
  for (int k = 0; k < line->nkeys && !order; k++) {
    const struct tt_profile_key *key = &line->keys[k];
    const char *left = (const char *)a + key->offset, *right = (const char *)b + key->offset;
    if (key->is_identity) order = value_compare(left, right, key->value);
  }
  return order;
}

static int items_compare(const void *a, const void *b, void *context)
{
  const enum tt_profile_word *word = context;
  return tt_profile_compare(a, b, *word);
}

void tt_profile_sort(struct tt_profile *profile)
{
  for (int w = 0; w < TT_PROFILE_WORDS; w++) {
    enum tt_profile_word word = (enum tt_profile_word)w;
    int32_t n;
    void *items = tt_profile_items(profile, word, &n);
    if (n) qsort_r(items, (size_t)n, tt_profile_lines[word].size, items_compare, &word);
  }
}
