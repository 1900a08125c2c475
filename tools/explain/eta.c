/* SPDX-License-Identifier: BSD-3-Clause */
/* Eta, the size below which the hierarchical all-reduce takes less time than the ring (Jia et al. 2018): with a for
 * what a message of no bytes takes and b for each byte, eta = (a_r - a_h) / (b_h - b_r). Here times are no straight
 * lines, so the size is searched for, and there may be several. */
#include "explain/eta_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- predicted ---- */

/* Returns the time of ring less that of hierarchical; result is set on an error. */
static double lead_us(const struct tt_explained *e, const struct tt_choice *ring, const struct tt_choice *levels,
                      uint64_t bytes, tuttiResult_t *result)
{
  const struct tt_choice *choices[2] = {ring, levels};
  double us[2] = {0, 0};
  for (int k = 0; k < 2 && *result == tuttiSuccess; k++)
    *result = tt_costs_us(e->costs, tt_costs_find(e->costs, choices[k]), bytes, &us[k]);
  return us[0] - us[1];
}

/* Between two sizes at which it has not the same sign. */
static uint64_t crossing_find(const struct tt_explained *e, const struct tt_choice *ring,
                              const struct tt_choice *levels, uint64_t low, tuttiResult_t *result)
{
  uint64_t high = 4 * low;
  int sign = lead_us(e, ring, levels, low, result) > 0;
  while (high - low > low / 32 + 1 && *result == tuttiSuccess) {
    uint64_t middle = low + (high - low) / 2;
    if ((lead_us(e, ring, levels, middle, result) > 0) == sign) low = middle;
    else high = middle;
  }
  return high;
}

#define ETA_FROM 8u
#define ETA_TO (1u << 30)

/* The candidate of an algorithm that counts here, whatever size is asked for: the one of the usual block. */
static const struct tt_choice *usual_find(const struct tt_explained *e, const struct tt_algo *algo)
{
  const struct tt_choice *first = NULL;
  for (int c = 0; c < e->n; c++) {
    const struct tt_choice *choice = &e->candidates[c].choice;
    if (&tt_algos[choice->algo] != algo) continue;
    if (choice->block_bytes == e->tuning->cluster->block_bytes) return choice;
    if (!first) first = choice;
  }
  return first;
}

/* "hierarchical up to 344 KiB, ring up to 1 GiB" */
static tuttiResult_t crossings_print(const struct tt_explained *e, const struct tt_choice *ring,
                                     const struct tt_choice *levels, FILE *out)
{
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES];
  tuttiResult_t result = tuttiSuccess;
  int leads = lead_us(e, ring, levels, ETA_FROM, &result) > 0;
  fprintf(out, "  ring or %s: ", tt_choice_text(levels, name));
  for (uint64_t bytes = ETA_FROM; bytes < ETA_TO && result == tuttiSuccess; bytes *= 4) {
    int is = lead_us(e, ring, levels, 4 * bytes, &result) > 0;
    if (is == leads || result != tuttiSuccess) continue;
    fprintf(out, "%s up to %s, ", leads ? name : "ring",
            tt_bytes_text(crossing_find(e, ring, levels, bytes, &result), size));
    leads = is;
  }
  fprintf(out, "%s up to 1 GiB\n", leads ? name : "ring");
  return result;
}

/* ---- measured ---- */

/* The times that a profile has of both, at a size. */
struct both {
  uint64_t bytes;
  double ring_us, levels_us; /* 0: none */
};

#define SIZES 64 /* more do not count */

/* Both at all sizes, measured with as many ranks on as many nodes as here. */
struct measured {
  struct both at[SIZES];
  int n;
};

static int is_here(const struct tt_profile_anchor *anchor, const struct tt_explained *e)
{
  const struct tt_cluster *cluster = e->tuning->cluster;
  return anchor->collective == TT_ALL_REDUCE && anchor->nranks == e->tuning->nranks &&
         anchor->nnodes == cluster->topology->nnodes &&
         strcmp(anchor->transport, cluster->transport[TT_LINK_NET] ? cluster->transport[TT_LINK_NET] : "") == 0;
}

static int by_bytes(const void *a, const void *b)
{
  const struct both *x = a, *y = b;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* It is of this algorithm, whatever its middle. */
static int is_of(const struct tt_profile_anchor *anchor, const char *algo)
{
  size_t len = strlen(algo);
  return strncmp(anchor->algo, algo, len) == 0 && (anchor->algo[len] == 0 || anchor->algo[len] == '+');
}

/* Takes the least time of a size, over middles, blocks and numbers of cores. */
static void time_take(struct measured *measured, const struct tt_profile_anchor *anchor, int is_ring)
{
  int k = 0;
  while (k < measured->n && measured->at[k].bytes != anchor->bytes) k++;
  if (k == SIZES) return;
  if (k == measured->n) measured->at[measured->n++] = (struct both){.bytes = anchor->bytes};
  double *us = is_ring ? &measured->at[k].ring_us : &measured->at[k].levels_us;
  if (*us == 0 || anchor->us < *us) *us = anchor->us;
}

/* Sizes at which both were measured, ascending. */
static void measured_find(struct measured *measured, const struct tt_profile *profile, const struct tt_explained *e,
                          const char *const names[2])
{
  int n = 0;
  for (int32_t i = 0; i < profile->nanchors; i++) {
    const struct tt_profile_anchor *anchor = &profile->anchors[i];
    int is_ring = is_of(anchor, names[0]);
    if (is_here(anchor, e) && (is_ring || is_of(anchor, names[1]))) time_take(measured, anchor, is_ring);
  }
  for (int k = 0; k < measured->n; k++)
    if (measured->at[k].ring_us > 0 && measured->at[k].levels_us > 0) measured->at[n++] = measured->at[k];
  measured->n = n;
  qsort(measured->at, (size_t)n, sizeof measured->at[0], by_bytes);
}

/* The logarithm of how many times as long ring takes. */
static double lead(const struct both *both)
{
  return log(both->ring_us / both->levels_us);
}

/* "measured (two.profile): hierarchical up to 118 KiB, ring up to 16 MiB": between two sizes the logarithm of the ratio
 * is taken for a straight line over that of the size. */
static void measured_print(const struct tt_explained *e, const struct tt_choice *ring, const struct tt_choice *levels,
                           FILE *out)
{
  const struct tt_profile *profile = e->prices.profile ? e->prices.profile : tt_profile_shipped();
  struct measured measured = {.n = 0};
  char size[TT_BYTES_TEXT_BYTES];
  const char *const names[2] = {tt_algos[ring->algo].name, tt_algos[levels->algo].name};
  if (profile) measured_find(&measured, profile, e, names);
  if (!measured.n) {
    fprintf(out, "    measured: no profile in use has both for so many ranks and nodes: `tutti tune` in such a job "
            "makes one\n");
    return;
  }
  const struct both *at = measured.at, *last = &at[measured.n - 1];
  fprintf(out, "    measured (%s): ", profile->name);
  for (; at < last; at++) {
    double here = lead(&at[0]), next = lead(&at[1]);
    if ((here > 0) == (next > 0)) continue;
    double bytes = (double)at[0].bytes * pow((double)at[1].bytes / (double)at[0].bytes, here / (here - next));
    fprintf(out, "%s up to %s, ", names[here > 0], tt_bytes_text((uint64_t)(bytes + 0.5), size));
  }
  fprintf(out, "%s up to %s\n", names[lead(last) > 0], tt_bytes_text(last->bytes, size));
}

/* ---- all ---- */

tuttiResult_t tt_explain_eta(FILE *out, const struct tt_explained *e)
{
  const struct tt_choice *levels, *ring = usual_find(e, tt_algo_find(TT_ALL_REDUCE, "ring"));
  tuttiResult_t result = tuttiSuccess;
  int n = 0;
  if (e->collective != TT_ALL_REDUCE || e->tuning->cluster->topology->nnodes == 1) return result;
  fprintf(out, "\nring or hierarchical (eta of Jia et al. is the size at which both take the same):\n");
  for (int a = 0; a < tt_algo_count && ring && result == tuttiSuccess; a++) {
    if (!tt_algos[a].has_middle || !(levels = usual_find(e, &tt_algos[a]))) continue;
    result = crossings_print(e, ring, levels, out);
    if (result == tuttiSuccess) measured_print(e, ring, levels, out);
    n++;
  }
  if (!n) fprintf(out, "  one of them is not to be chosen\n");
  return result;
}
