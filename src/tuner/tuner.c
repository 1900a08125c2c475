/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "tuner/private.h"

struct tt_shape tt_choice_shape(const struct tt_choice *choice, const struct tt_tuning *tuning, int32_t rank,
                                int32_t root)
{
  struct tt_shape shape = {.nranks = tuning->nranks,
                           .rank = rank,
                           .root = root,
                           .radix = choice->radix,
                           .middle = choice->middle,
                           .groups = tuning->groups};
  tt_algo_shape(&tt_algos[choice->algo], &shape);
  return shape;
}

struct tt_shape tt_choice_shape_priced(const struct tt_choice *choice, const struct tt_tuning *tuning, int32_t rank)
{
  return tt_choice_shape(choice, tuning, rank, tt_kinds[tt_algos[choice->algo].collective].has_root ? 0 : -1);
}

const char *tt_choice_impossible(const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  struct tt_shape shape = tt_choice_shape_priced(choice, tuning, 0);
  return tt_algos[choice->algo].illegal ? tt_algos[choice->algo].illegal(&shape) : NULL;
}

static int middle_valid(int middle)
{
  if (middle < 0 || middle >= tt_algo_count) return middle == -1;
  return tt_algos[middle].collective == TT_ALL_REDUCE && !tt_algos[middle].has_middle;
}

/* A choice that is valid is possible for any number of ranks and any groups. */
static int choice_valid(const struct tt_choice *choice, int collective)
{
  return choice->algo < tt_algo_count && tt_algos[choice->algo].collective == collective &&
         middle_valid(choice->middle) && choice->radix != 1 && choice->block_bytes - 1 < (uint32_t)1 << 30;
}

static int arms_valid(const struct tt_arms *arms, int collective)
{
  int is_valid = arms->n <= TT_ARM_CHOICES;
  for (int c = 0; c < arms->n && is_valid; c++) is_valid = choice_valid(&arms->choices[c], collective);
  for (int k = 0; k < TT_SIZE_CLASSES && is_valid; k++)
    for (int a = 0; a < TT_LEARN_ARMS; a++) is_valid &= arms->of[k][a] <= arms->n;
  return is_valid;
}

static int rows_valid(const struct tt_table_row rows[TT_TABLE_ROWS], int collective)
{
  int r = 0;
  while (r < TT_TABLE_ROWS && choice_valid(&rows[r].choice, collective) && rows[r].up_to_bytes != UINT64_MAX) r++;
  return r < TT_TABLE_ROWS && choice_valid(&rows[r].choice, collective);
}

int tt_learnt_valid(const struct tt_learnt *learnt)
{
  return learnt->collective < TT_COLLECTIVES && tt_arms_row(learnt->collective) >= 0 &&
         learnt->size_class < TT_SIZE_CLASSES && learnt->width < TT_WIDTHS && learnt->memory < TT_MEMORIES &&
         learnt->ns > 0 && choice_valid(&learnt->choice, learnt->collective);
}

int tt_table_valid(const struct tt_table *table)
{
  if (table->nlearnt < 0 || table->nlearnt > TT_LEARNT_MOST) return 0;
  for (int k = 0; k < table->nlearnt; k++)
    if (!tt_learnt_valid(&table->learnt[k])) return 0;
  for (int collective = 0; collective < TT_COLLECTIVES; collective++) {
    if (!tt_kinds[collective].name) continue;
    if (!rows_valid(table->rows[collective], collective)) return 0;
    int row = tt_arms_row(collective);
    if (tt_table_has_tutti(table, collective) && !rows_valid(table->tutti_rows[row], collective)) return 0;
    for (int memory = 0; memory < TT_MEMORIES && row >= 0; memory++)
      if (!arms_valid(&table->arms[memory][row], collective)) return 0;
  }
  return 1;
}

void tt_table_text(const struct tt_table *table, int collective, char *text, size_t size)
{
  const struct tt_table_row *row = table->rows[collective];
  uint32_t block_bytes = row->choice.block_bytes;
  size_t used = 0;
  if (size) text[0] = 0;
  for (int is_last = 0; !is_last && used < size; row++) {
    int middle = row->choice.middle, n;
    char radix[8] = "", block[32] = "";
    is_last = row->up_to_bytes == UINT64_MAX;
    if (row->choice.radix && tt_algos[row->choice.algo].has_radix)
      snprintf(radix, sizeof radix, "/%d", row->choice.radix);
    if (row->choice.block_bytes != block_bytes) {
      block_bytes = row->choice.block_bytes;
      if (block_bytes % 1024) snprintf(block, sizeof block, " in blocks of %u B", (unsigned)block_bytes);
      else snprintf(block, sizeof block, " in blocks of %u KiB", (unsigned)(block_bytes / 1024));
    }
    n = snprintf(text + used, size - used, "%s%s%s%s%s%s", used ? is_last ? ", then " : ", " : "",
                 tt_algos[row->choice.algo].name, middle < 0 ? "" : "+", middle < 0 ? "" : tt_algos[middle].name,
                 radix, block);
    used += n > 0 ? (size_t)n : 0;
    if (is_last || used >= size) continue;
    n = snprintf(text + used, size - used, " up to %llu B", (unsigned long long)row->up_to_bytes);
    used += n > 0 ? (size_t)n : 0;
  }
}
