/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be chosen: all legal algorithms of a collective, or the one that is forced. */
#include <stdio.h>
#include <string.h>

#include "tuner/tuner.h"

/* A part of TUTTI_ALGO: [collective:]name[+middle]. */
struct wish {
  int collective;
  char name[64], middle[64];
};

static const char *why_illegal(const struct tt_choice *choice, const struct tt_settings *settings,
                               const struct tt_tuning *tuning)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  int32_t root = tt_kinds[algo->collective].has_root ? 0 : -1;
  struct tt_shape shape = tt_choice_shape(choice, tuning, 0, root);
  const char *why = algo->illegal ? algo->illegal(&shape) : NULL;
  if (!why && settings->deterministic && tt_kinds[algo->collective].reduces && tuning->nranks > 2 &&
      !algo->has_one_tree)
    why = "its bits depend on the size of the vector or on the place in it (TUTTI_DETERMINISTIC)";
  return why;
}

/* "ring, binary_tree, ..." */
static void names_list(int collective, char *list, size_t size)
{
  size_t used = 0;
  list[0] = 0;
  for (int a = 0; a < tt_algo_count && used < size; a++) {
    if (tt_algos[a].collective != collective) continue;
    int n = snprintf(list + used, size - used, "%s%s", used ? ", " : "", tt_algos[a].name);
    used += n > 0 ? (size_t)n : 0;
  }
}

/* Copies what stands before any of `ends`; 0 if that is too long. */
static int word_take(const char **at, const char *ends, char *word, size_t size)
{
  size_t len = strcspn(*at, ends);
  if (len >= size) return 0;
  memcpy(word, *at, len);
  word[len] = 0;
  *at += len;
  return 1;
}

/* Reads the next part of the list; 0 if it is malformed. */
static int wish_read(const char **at, struct wish *wish)
{
  size_t colon = strcspn(*at, ":;");
  *wish = (struct wish){.collective = TT_ALL_REDUCE};
  if ((*at)[colon] == ':') {
    if (!word_take(at, ":", wish->name, sizeof wish->name)) return 0;
    wish->collective = tt_kind_find(wish->name);
    ++*at;
  }
  if (!word_take(at, "+;", wish->name, sizeof wish->name)) return 0;
  if (**at == '+') {
    ++*at;
    if (!word_take(at, ";", wish->middle, sizeof wish->middle)) return 0;
  }
  if (**at == ';') ++*at;
  return wish->collective != TT_NO_COLLECTIVE;
}

static tuttiResult_t wish_find(const struct wish *wish, const struct tt_settings *settings,
                               const struct tt_tuning *tuning, struct tt_choice *choice)
{
  char list[512];
  const char *collective = tt_kinds[wish->collective].name;
  const struct tt_algo *algo = tt_algo_find(wish->collective, wish->name), *middle = NULL;
  if (!algo) {
    names_list(wish->collective, list, sizeof list);
    return tt_fail(tuttiInvalidArgument,
                   "TUTTI_ALGO is \"%s\", but %s has no algorithm \"%s\": set it to one of %s, or "
                   "leave it empty",
                   settings->algo, collective, wish->name, list);
  }
  if (wish->middle[0]) {
    middle = tt_algo_find(TT_ALL_REDUCE, wish->middle);
    if (!algo->has_middle)
      return tt_fail(tuttiInvalidArgument,
                     "TUTTI_ALGO is \"%s\": %s %s runs no other algorithm among leaders: leave \"+%s\" out",
                     settings->algo, collective, wish->name, wish->middle);
    if (!middle) {
      names_list(TT_ALL_REDUCE, list, sizeof list);
      return tt_fail(tuttiInvalidArgument,
                     "TUTTI_ALGO is \"%s\", but there is no all_reduce \"%s\" to run among the leaders: take one of %s",
                     settings->algo, wish->middle, list);
    }
  }
  choice->algo = (uint8_t)(algo - tt_algos);
  choice->middle = middle ? (int8_t)(middle - tt_algos) : -1;
  const char *why = why_illegal(choice, settings, tuning);
  if (!why) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO=%s: %s is not legal for %s of %d ranks: %s", settings->algo,
                 wish->name, collective, (int)tuning->nranks, why);
}

/* The forced algorithm, if the list has one for this collective; *found says so. The whole list is checked. */
static tuttiResult_t forced_find(struct tt_choice *choice, int collective, const struct tt_settings *settings,
                                 const struct tt_tuning *tuning, int *found)
{
  const char *at = settings->algo;
  *found = 0;
  while (*at) {
    struct wish wish;
    struct tt_choice wished = *choice;
    if (!wish_read(&at, &wish))
      return tt_fail(tuttiInvalidArgument,
                     "TUTTI_ALGO is \"%s\": wanted [COLLECTIVE:]NAME[+MIDDLE], more behind ';', "
                     "with COLLECTIVE one of all_reduce, reduce, broadcast, reduce_scatter, all_gather, all_to_all, "
                     "gather, scatter",
                     settings->algo);
    tuttiResult_t result = wish_find(&wish, settings, tuning, &wished);
    if (result != tuttiSuccess) return result;
    if (wish.collective != collective) continue;
    *choice = wished;
    *found = 1;
  }
  return tuttiSuccess;
}

#define SEGMENT_BYTES (4u << 20) /* of all shares together: scratch is a part of it */
#define SHORTEST_BYTES (8u << 10)

static uint32_t block_find(int collective, const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  uint32_t block = tuning->prices->block_bytes;
  if (settings->segment_bytes) return (uint32_t)settings->segment_bytes;
  if (!tt_kinds[collective].is_shared) return block;
  while (block > SHORTEST_BYTES && (uint64_t)block * (uint64_t)tuning->nranks > SEGMENT_BYTES) block /= 2;
  return block;
}

/* Where groups differ in size, what a hierarchical row costs is found by playing its middle step: seconds for so many
 * ranks, while all wait for rank 0's table. */
static int is_priced_slowly(const struct tt_algo *algo, const struct tt_tuning *tuning)
{
  return algo->has_middle && tuning->nranks > TT_PLAYED_RANKS;
}

tuttiResult_t tt_choices_find(struct tt_choice *choices, int *n, int collective, const struct tt_settings *settings,
                              const struct tt_tuning *tuning)
{
  struct tt_choice plain = {
      .middle = -1, .radix = (uint16_t)settings->radix, .block_bytes = block_find(collective, settings, tuning)};
  int found;
  choices[0] = plain;
  *n = 1;
  tuttiResult_t result = forced_find(&choices[0], collective, settings, tuning, &found);
  if (result != tuttiSuccess || found) return result;
  *n = 0;
  for (int a = 0; a < tt_algo_count && *n < TT_CHOICES; a++) {
    if (tt_algos[a].collective != collective || is_priced_slowly(&tt_algos[a], tuning)) continue;
    plain.algo = (uint8_t)a;
    if (!why_illegal(&plain, settings, tuning)) choices[(*n)++] = plain;
  }
  if (*n) return result;
  return tt_fail(tuttiInternalError, "no algorithm of %s is legal for %d ranks%s", tt_kinds[collective].name,
                 (int)tuning->nranks, settings->deterministic ? " with TUTTI_DETERMINISTIC" : "");
}
