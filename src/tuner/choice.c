/* SPDX-License-Identifier: BSD-3-Clause */
/* The candidates: all legal algorithms of a collective, or those of them that TUTTI_ALGO leaves. */
#include <stdio.h>
#include <string.h>

#include "tuner/choice.h"
#include "tuner/private.h"

const char *tt_choice_illegal(const struct tt_choice *choice, const struct tt_settings *settings,
                              const struct tt_tuning *tuning)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const char *why = tt_choice_impossible(choice, tuning);
  if (!why && settings->deterministic && tt_kinds[algo->collective].reduces && tuning->nranks > 2 &&
      !algo->has_one_tree)
    why = "its bits depend on the size of the vector or on the place in it (TUTTI_DETERMINISTIC)";
  return why;
}

/* ---- choices with the same schedule ---- */

struct look { /* the facts of a choice that are cheap to find */
  int32_t nblocks;
  struct tt_cost cost; /* of rank 0 */
};

static struct look look_at(const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  struct tt_shape shape = tt_choice_shape_priced(choice, tuning, 0);
  struct look look = {.nblocks = shape.nblocks};
  tt_algos[choice->algo].claim(&shape, &look.cost);
  return look;
}

static int is_alike(const struct look *a, const struct look *b)
{
  return a->nblocks == b->nblocks && a->cost.messages == b->cost.messages && a->cost.blocks == b->cost.blocks &&
         a->cost.reductions == b->cost.reductions && a->cost.slots == b->cost.slots && a->cost.rounds == b->cost.rounds;
}

static int same_operand(const struct tt_operand *a, const struct tt_operand *b)
{
  return a->place == b->place && a->at == b->at;
}

static int same_steps(const struct tt_schedule *a, const struct tt_schedule *b)
{
  int same = !a->error && !b->error && a->nsteps == b->nsteps && a->noperands == b->noperands && a->npeers == b->npeers;
  for (int32_t s = 0; same && s < a->nsteps; s++) {
    const struct tt_step *one = &a->steps[s], *other = &b->steps[s];
    same = one->first == other->first && one->nblocks == other->nblocks && one->channel == other->channel &&
           one->nsrc == other->nsrc && one->nto == other->nto && same_operand(&one->dst, &other->dst);
  }
  for (int32_t k = 0; same && k < a->noperands; k++) same = same_operand(&a->operands[k], &b->operands[k]);
  for (int32_t k = 0; same && k < a->npeers; k++) same = a->peers[k] == b->peers[k];
  return same;
}

static int same_for_rank(const struct tt_choice *a, const struct tt_choice *b, const struct tt_tuning *tuning,
                         int32_t rank)
{
  const struct tt_choice *choices[2] = {a, b};
  struct tt_schedule schedules[2];
  for (int k = 0; k < 2; k++) {
    struct tt_shape shape = tt_choice_shape_priced(choices[k], tuning, rank);
    tt_schedule_init(&schedules[k], &shape);
    tt_algos[choices[k]->algo].generate(&schedules[k], &shape);
  }
  int same = same_steps(&schedules[0], &schedules[1]);
  for (int k = 0; k < 2; k++) tt_schedule_destroy(&schedules[k]);
  return same;
}

static int same_schedules(const struct tt_choice *a, const struct tt_choice *b, const struct tt_tuning *tuning)
{
  int64_t n = tuning->nranks, looks = n < DUPLICATE_RANKS ? n : DUPLICATE_RANKS;
  for (int64_t k = 0; k < looks; k++)
    if (!same_for_rank(a, b, tuning, (int32_t)(looks > 1 ? k * (n - 1) / (looks - 1) : 0))) return 0;
  return 1;
}

int tt_choices_duplicate(const struct tt_choice *a, const struct tt_choice *b, const struct tt_tuning *tuning)
{
  struct look one = look_at(a, tuning), other = look_at(b, tuning);
  return is_alike(&one, &other) && same_schedules(a, b, tuning);
}

/* ---- candidates ---- */

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

/* If groups differ in size, the cost of a hierarchical row is found by playing its middle step. For so many ranks this
 * takes seconds, while all wait for rank 0's table. */
int tt_choice_slow(int algo, const struct tt_tuning *tuning)
{
  return tt_algos[algo].has_middle && tuning->nranks > TT_PLAYED_RANKS;
}

struct finder {
  struct tt_choice *choices;
  struct look looks[TT_CHOICES]; /* of each */
  int n;
  int collective;
  const struct tt_algo_filter_list *filters;
  const struct tt_settings *settings;
  const struct tt_tuning *tuning;
  char why[384]; /* the illegal choices, and the reasons */
};

static void why_add(struct finder *finder, const struct tt_choice *choice, const char *why)
{
  size_t used = strlen(finder->why);
  snprintf(finder->why + used, sizeof finder->why - used, "%s%s: %s", used ? "; " : "", tt_algos[choice->algo].name,
           why);
}

/* Adds the choice with other blocks: only measured ones, because the model does not know the gain of blocks. */
static void blocks_add(struct finder *finder, const struct tt_choice *choice)
{
  uint32_t blocks[BLOCKS_MOST];
  int n = 0;
  if (!finder->settings->segment_bytes) n = tt_calibration_blocks(blocks, BLOCKS_MOST, choice, finder->tuning);
  for (int k = 0; k < n && finder->n < TT_CHOICES; k++) {
    finder->looks[finder->n] = finder->looks[finder->n - 1];
    finder->choices[finder->n] = *choice;
    finder->choices[finder->n++].block_bytes = blocks[k];
  }
}

/* 1 if the same choice is there already: only noise would set them apart. */
static int has_duplicate(const struct finder *finder, const struct tt_choice *choice, const struct look *look)
{
  for (int c = 0; c < finder->n; c++)
    if (is_alike(&finder->looks[c], look) && same_schedules(&finder->choices[c], choice, finder->tuning)) return 1;
  return 0;
}

/* Adds the algorithm if it is legal, and not there under another name. */
static void filter_add(struct finder *finder, const struct tt_algo_filter *filter)
{
  struct tt_choice choice = {.algo = filter->algo,
                             .middle = filter->middle,
                             .radix = filter->radix ? filter->radix : (uint16_t)finder->settings->radix,
                             .block_bytes = tt_choice_block(finder->collective, finder->settings, finder->tuning)};
  const char *why = tt_choice_illegal(&choice, finder->settings, finder->tuning);
  if (why) why_add(finder, &choice, why);
  if (why || finder->n == TT_CHOICES) return;
  struct look look = look_at(&choice, finder->tuning);
  if (has_duplicate(finder, &choice, &look)) return;
  finder->looks[finder->n] = look;
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

/* Adds the algorithm as it is by default, and with other radices. */
static void filter_add_all(struct finder *finder, const struct tt_algo_filter *filter)
{
  const struct tt_choice choice = {.algo = filter->algo, .radix = (uint16_t)finder->settings->radix};
  int n = finder->settings->deterministic ? 0 : tt_choice_radices(&choice, finder->tuning->nranks);
  filter_add(finder, filter);
  for (int k = 0; k < n; k++) {
    struct tt_algo_filter other = *filter;
    other.radix = tt_choice_radix[k];
    filter_add(finder, &other);
  }
}

static tuttiResult_t none_left(const struct finder *finder)
{
  const char *collective = tt_kinds[finder->collective].name;
  if (!finder->filters->source)
    return tt_fail(tuttiInternalError, "no algorithm of %s is legal for %d ranks%s", collective,
                   (int)finder->tuning->nranks, finder->settings->deterministic ? " with TUTTI_DETERMINISTIC" : "");
  return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO=%s is not legal for %s of %d ranks: %s",
                 finder->settings->algo, collective, (int)finder->tuning->nranks,
                 finder->why[0] ? finder->why : "it excludes every algorithm");
}

tuttiResult_t tt_choices_find(struct tt_choice *choices, int *n, int collective, const struct tt_settings *settings,
                              const struct tt_tuning *tuning)
{
  struct tt_filters filters;
  tuttiResult_t result = tt_filters_parse(&filters, settings->algo);
  if (result != tuttiSuccess) return result;
  const struct tt_algo_filter_list *list = &filters.of[collective];
  struct finder finder = {.choices = choices, .collective = collective, .filters = list, .settings = settings,
                          .tuning = tuning};
  for (int w = 0; !list->is_inverse && w < list->n; w++) filter_add(&finder, &list->filter[w]);
  for (int a = 0; (!list->source || list->is_inverse) && a < tt_algo_count; a++) {
    struct tt_algo_filter filter = {.algo = (uint8_t)a, .middle = -1};
    if (tt_algos[a].collective != collective || tt_choice_slow(a, tuning)) continue;
    if (tt_algo_filter_allows(list, &filter)) filter_add_all(&finder, &filter);
  }
  *n = finder.n;
  return finder.n ? tuttiSuccess : none_left(&finder);
}
