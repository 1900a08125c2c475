/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be chosen: all legal algorithms of a collective, or those of them that TUTTI_ALGO leaves. */
#include <stdio.h>
#include <string.h>

#include "tuner/choice.h"

const char *tt_choice_illegal(const struct tt_choice *choice, const struct tt_settings *settings,
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

#define SEGMENT_BYTES (4u << 20) /* of all shares together: scratch is a part of it */
#define SHORTEST_BYTES (8u << 10)
#define BLOCKS_MOST 8

uint32_t tt_choice_block(int collective, const struct tt_settings *settings, const struct tt_tuning *tuning)
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

struct finder {
  struct tt_choice *choices;
  int n;
  int collective;
  const struct tt_wish_list *wishes;
  const struct tt_settings *settings;
  const struct tt_tuning *tuning;
  char why[384]; /* what is not legal, and the reasons */
};

static void why_add(struct finder *finder, const struct tt_choice *choice, const char *why)
{
  size_t used = strlen(finder->why);
  snprintf(finder->why + used, sizeof finder->why - used, "%s%s: %s", used ? "; " : "", tt_algos[choice->algo].name,
           why);
}

/* The same in other blocks: only those that were measured, for what blocks gain the model does not know. */
static void blocks_add(struct finder *finder, const struct tt_choice *choice)
{
  uint32_t blocks[BLOCKS_MOST];
  int n = 0;
  if (!finder->settings->segment_bytes) n = tt_factors_blocks(blocks, BLOCKS_MOST, choice, finder->tuning);
  for (int k = 0; k < n && finder->n < TT_CHOICES; k++) {
    finder->choices[finder->n] = *choice;
    finder->choices[finder->n++].block_bytes = blocks[k];
  }
}

/* Adds the algorithm if it is legal. */
static void wish_add(struct finder *finder, const struct tt_wish *wish)
{
  struct tt_choice choice = {.algo = wish->algo,
                             .middle = wish->middle,
                             .radix = wish->radix ? wish->radix : (uint16_t)finder->settings->radix,
                             .block_bytes = tt_choice_block(finder->collective, finder->settings, finder->tuning)};
  const char *why = tt_choice_illegal(&choice, finder->settings, finder->tuning);
  if (why) why_add(finder, &choice, why);
  if (why || finder->n == TT_CHOICES) return;
  finder->choices[finder->n++] = choice;
  blocks_add(finder, &choice);
}

const uint16_t tt_choice_radix[] = {3, 8};

int tt_choice_radices(const struct tt_choice *choice, int32_t nranks)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  int n = 0, most = (int)(sizeof tt_choice_radix / sizeof *tt_choice_radix);
  if (!algo->has_radix || algo->has_middle || choice->radix) return 0;
  while (n < most && tt_choice_radix[n] < nranks) n++;
  return n;
}

/* The algorithm as it is by default, and with other radices. */
static void wish_add_all(struct finder *finder, const struct tt_wish *wish)
{
  const struct tt_choice choice = {.algo = wish->algo, .radix = (uint16_t)finder->settings->radix};
  int n = finder->settings->deterministic ? 0 : tt_choice_radices(&choice, finder->tuning->nranks);
  wish_add(finder, wish);
  for (int k = 0; k < n; k++) {
    struct tt_wish other = *wish;
    other.radix = tt_choice_radix[k];
    wish_add(finder, &other);
  }
}

static tuttiResult_t none_left(const struct finder *finder)
{
  const char *collective = tt_kinds[finder->collective].name;
  if (!finder->wishes->source)
    return tt_fail(tuttiInternalError, "no algorithm of %s is legal for %d ranks%s", collective,
                   (int)finder->tuning->nranks, finder->settings->deterministic ? " with TUTTI_DETERMINISTIC" : "");
  return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO=%s is not legal for %s of %d ranks: %s",
                 finder->settings->algo, collective, (int)finder->tuning->nranks,
                 finder->why[0] ? finder->why : "it excludes every algorithm");
}

tuttiResult_t tt_choices_find(struct tt_choice *choices, int *n, int collective, const struct tt_settings *settings,
                              const struct tt_tuning *tuning)
{
  struct tt_wishes wishes;
  tuttiResult_t result = tt_wishes_parse(&wishes, settings->algo);
  if (result != tuttiSuccess) return result;
  const struct tt_wish_list *list = &wishes.of[collective];
  struct finder finder = {.choices = choices, .collective = collective, .wishes = list, .settings = settings,
                          .tuning = tuning};
  for (int w = 0; !list->is_inverse && w < list->n; w++) wish_add(&finder, &list->wish[w]);
  for (int a = 0; (!list->source || list->is_inverse) && a < tt_algo_count; a++) {
    struct tt_wish wish = {.algo = (uint8_t)a, .middle = -1};
    if (tt_algos[a].collective != collective || is_priced_slowly(&tt_algos[a], tuning)) continue;
    if (tt_wish_allows(list, &wish)) wish_add_all(&finder, &wish);
  }
  *n = finder.n;
  return finder.n ? tuttiSuccess : none_left(&finder);
}
