/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/probe.h"

#include <math.h>
#include <string.h>

static void point_begin(struct tt_probe *probe, int at)
{
  const struct tt_probe_budget *budget = &probe->budget;
  const struct tt_probe_point *point = &probe->points[at];
  probe->times = 0;
  if (at == probe->npoints) return;
  if (at > 0 && budget->point_us > 0) {
    const struct tt_probe_row *before = &probe->rows[at - 1];
    double us = before->least_us * point->bytes / before->bytes;
    if (us * budget->batches * point->times > budget->point_us) return;
  }
  probe->at = at;
  probe->is_first = 1;
  probe->bytes = point->first_bytes;
  probe->times = point->first_times;
}

void tt_probe_begin(struct tt_probe *probe, const struct tt_probe_budget *budget, const struct tt_probe_point *points,
                    int npoints)
{
  memset(probe, 0, sizeof *probe);
  probe->budget = *budget;
  probe->npoints = npoints;
  memcpy(probe->points, points, (size_t)npoints * sizeof *points);
  point_begin(probe, 0);
}

static void first_took(struct tt_probe *probe, double us)
{
  const struct tt_probe_budget *budget = &probe->budget;
  const struct tt_probe_point *point = &probe->points[probe->at];
  int is_slow = budget->slow_us > 0 && us > budget->slow_us;
  probe->is_first = 0;
  probe->bytes = probe->rows[probe->at].bytes = is_slow ? point->first_bytes : point->bytes;
  probe->times = point->times;
  if (is_slow && point->first_bytes >= point->bytes) probe->times = 0;
  else if (!point->times)
    probe->times = (uint32_t)fmin(fmax(budget->batch_us / (us * probe->bytes / point->first_bytes), 1),
                                  budget->times_most);
}

static void row_add(struct tt_probe_row *row, double us)
{
  if (!row->n++) {
    row->least_us = us;
    row->second_us = INFINITY;
  } else if (us < row->least_us) {
    row->second_us = row->least_us;
    row->least_us = us;
  } else if (us < row->second_us) row->second_us = us;
}

static int is_enough(const struct tt_probe_budget *budget, const struct tt_probe_row *row)
{
  int is_slow = budget->batches_slow > 0 && row->least_us > budget->batch_us;
  if (row->n < (is_slow ? budget->batches_slow : budget->batches)) return 0;
  return budget->nearly <= 0 || row->second_us <= budget->nearly * row->least_us;
}

void tt_probe_took(struct tt_probe *probe, double us, double spent_us)
{
  struct tt_probe_row *row = &probe->rows[probe->at];
  if (probe->is_first) first_took(probe, us);
  else {
    row_add(row, us);
    row->is_done = is_enough(&probe->budget, row);
    if (row->is_done) point_begin(probe, probe->at + 1);
  }
  if (probe->budget.all_us > 0 && spent_us > probe->budget.all_us) probe->times = 0;
}
