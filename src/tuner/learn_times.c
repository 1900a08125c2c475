/* SPDX-License-Identifier: BSD-3-Clause */
/* The measurements that a rank makes of its calls, and the facts that it tells of them. */
#include <math.h>
#include <string.h>

#include "tuner/learn_private.h"

#define PRIOR 0.03      /* of the time: deviation of a sample, as FEWEST visits would have told it */
#define USUAL_MOST 4
#define CALL_MOST 4     /* a call counts as so many times the incumbent's usual time at most */

static float median(const float *values, int n)
{
  if (n < 3) return n == 2 ? (values[0] + values[1]) / 2 : values[0];
  return fmaxf(fminf(values[0], values[1]), fminf(fmaxf(values[0], values[1]), values[2]));
}

static float cut(float ns, float usual, float times)
{
  return fminf(fmaxf(ns, usual / times), usual * times);
}

/* A median of the incumbent, which changes the usual one by an eighth at most. */
static void incumbent_take(struct tt_learn_local *local, float ns)
{
  float usual = local->usual > 0 ? local->usual : ns;
  local->last = cut(ns, usual, 2);
  local->usual = cut(ns, usual, 1.125f);
  local->steady += cut(ns, usual, 1.5f);
  local->nsteady++;
}

/* The incumbent's time without waits, as far as is known. */
static float incumbent_ns(const struct tt_learn *learn)
{
  int64_t reference = learn->agreed.reference_ns;
  return reference ? (float)reference : learn->local.last;
}

/* Longer differences to the incumbent are cut off, if they are not usual. */
static float cut_ns(const struct tt_learn *learn)
{
  return tt_learn_stages[learn->agreed.race.stage].cut * incumbent_ns(learn);
}

/* Half of the differences are more than `spread`, as it grows and shrinks alike. */
void tt_learn_visit_end(struct tt_learn *learn)
{
  struct tt_learn_local *local = &learn->local;
  if (!local->nmeans || local->last <= 0) return;
  float most = fmaxf(cut_ns(learn), USUAL_MOST * local->spread);
  float difference = fminf(fmaxf(median(local->means, local->nmeans) - local->last, -most), most);
  float far = fabsf(difference);
  if (local->spread > 0) local->spread *= far > local->spread ? 1.125f : 1 / 1.125f;
  else local->spread = fminf(far, cut_ns(learn) / USUAL_MOST) + 1;
  local->arm += local->last + difference;
  local->incumbent += local->last;
  local->square += difference * difference;
  local->n++;
}

/* Calls next to both changes, or to one if it was a look. */
void tt_learn_edge_end(struct tt_learn_local *local)
{
  if (local->nedge >= SKIP) {
    local->edges += cut(local->edge / local->nedge, local->usual, 2);
    local->nedges++;
  }
  local->edge = 0;
  local->nedge = 0;
}

/* Ranks that wait for each other run ahead by turns: of two or three calls in a row one may take next to nothing, and
 * the others as much longer. So single calls mean little, and groups have a whole number of such turns. */
void tt_learn_sample(struct tt_learn *learn, float ns)
{
  const struct tt_learn_agreed *agreed = &learn->agreed;
  struct tt_learn_local *local = &learn->local;
  int visits = tt_learn_is_visit(agreed), is_race = agreed->state == TT_LEARN_RACE;
  int stage = is_race ? agreed->race.stage : LOOK;
  if (local->usual <= 0 && local->ngroup) ns = fminf(ns, CALL_MOST * local->group / local->ngroup);
  if (local->usual > 0) ns = fminf(ns, (visits && stage <= LONG_LOOK ? 2 * CALL_MOST : CALL_MOST) * local->usual);
  if (is_race && agreed->since < (visits ? tt_learn_stages[stage].skip : SKIP)) {
    local->edge += ns;
    local->nedge++;
    return;
  }
  local->group += ns;
  if (++local->ngroup < (visits ? tt_learn_stages[stage].group : TT_LEARN_GROUP)) return;
  local->means[local->nmeans++] = local->group / local->ngroup;
  local->group = 0;
  local->ngroup = 0;
  if (visits || local->nmeans < tt_learn_stages[stage].groups) return;
  incumbent_take(local, median(local->means, local->nmeans));
  local->nmeans = 0;
}

void tt_learn_samples_forget(struct tt_learn_local *local)
{
  local->arm = local->incumbent = local->square = local->edges = 0;
  local->spread = 0;
  local->n = local->nedges = 0;
  local->edge = 0;
  local->nedge = 0;
}

/* ---- facts ---- */

static int64_t mean_ns(float sum, uint32_t n)
{
  return n ? (int64_t)(sum / (float)n) : 0;
}

/* The standard error of the mean difference. Few samples may be alike by chance. */
static int64_t error_ns(const struct tt_learn *learn)
{
  const struct tt_learn_local *local = &learn->local;
  if (!local->n) return 0;
  double n = local->n, usual = incumbent_ns(learn), mean = (local->arm - local->incumbent) / n;
  double variance = fmax(local->square / n - mean * mean, 0) + FEWEST * PRIOR * PRIOR * usual * usual / n;
  return (int64_t)sqrt(variance / n);
}

void tt_learn_tell(const struct tt_learn *learn, int64_t facts[TT_LEARN_FACTS])
{
  const struct tt_learn_local *local = &learn->local;
  memset(facts, 0, TT_LEARN_FACTS * sizeof *facts);
  facts[READY] = -(int64_t)local->ready;
  facts[ARM] = mean_ns(local->arm, local->n);
  facts[INCUMBENT] = mean_ns(local->incumbent, local->n);
  facts[LEAST_INCUMBENT] = -facts[INCUMBENT];
  facts[ERROR] = error_ns(learn);
  facts[VISITS] = -(int64_t)local->n;
  facts[STEADY] = -mean_ns(local->steady, local->nsteady);
  facts[EDGES] = mean_ns(local->edges, local->nedges);
  facts[EXCHANGE] = -(int64_t)local->exchange;
}
