/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks agree, and what they move while they are timed. */
#include "measure/private.h"

void give_up(struct measure *m, tuttiResult_t code)
{
  if (code != tuttiSuccess && !m->result) m->result = tt_comm_give_up(m->comm, code, 0);
}

static struct tt_binding binding_of(int collective, int type, size_t count)
{
  return (struct tt_binding){.call = {.collective = (uint8_t)collective,
                                      .type = (uint8_t)type,
                                      .count = count,
                                      .redop = (uint8_t)(collective == TT_ALL_REDUCE ? tuttiMax : tuttiSum),
                                      .root = -1},
                             .before = 1};
}

void agree_all(struct measure *m, double *values, size_t n)
{
  struct tt_binding binding = binding_of(TT_ALL_REDUCE, tuttiFloat64, n);
  binding.in = binding.out = values;
  if (!m->result) m->result = tt_comm_run(m->comm, &binding);
  for (size_t i = 0; m->result && i < n; i++) values[i] = 0;
}

double agree(struct measure *m, double value)
{
  agree_all(m, &value, 1);
  return value;
}

double agree_timed(struct measure *m, double value, double end_us)
{
  double now = now_us(), left = end_us - now, limit = m->limit_us - now;
  double values[3] = {value, left > 0 ? left : 0, limit > 0 ? limit : 0};
  if (m->facts->rank != 0) values[1] = values[2] = 0;
  agree_all(m, values, 3);
  m->left_us = values[1];
  if (m->facts->rank != 0) m->limit_us = now_us() + values[2];
  m->is_over |= !m->result && values[2] <= 0;
  return values[0];
}

void messages_run(struct measure *m, struct tt_transfer *transfers, int n)
{
  struct tt_binding binding = {.call = {.collective = TT_PAIRS, .root = -1}, .transfers = transfers, .ntransfers = n};
  if (!m->result) m->result = tt_comm_run(m->comm, &binding);
}

/* Chooses IN and OUT among the data: in place; if there are shares of several ranks, in this rank's own. */
static void buffers_bind(const struct measure *m, struct tt_binding *binding)
{
  char *own = m->data + (size_t)m->facts->rank * binding->call.count * sizeof(float);
  int collective = binding->call.collective;
  binding->in = collective == TT_ALL_GATHER ? own : m->data;
  binding->out = collective == TT_REDUCE_SCATTER ? own : m->data;
  if (!tt_kinds[collective].has_root) return;
  binding->call.root = 0;
  if (m->facts->rank != 0 && collective != TT_REDUCE) binding->in = NULL;
}

void collective_run(struct measure *m, int collective, size_t count)
{
  struct tt_binding binding = binding_of(collective, tuttiFloat32, count);
  binding.call.redop = tuttiSum;
  buffers_bind(m, &binding);
  if (!m->result) m->result = tt_comm_run(m->comm, &binding);
}

void gather_all(struct measure *m, const void *own, void *all, size_t len)
{
  struct tt_binding binding = binding_of(TT_ALL_GATHER, tuttiUint8, len);
  binding.in = own;
  binding.out = all;
  if (!m->result) m->result = tt_comm_run(m->comm, &binding);
}

void progress_tell(const struct measure *m, double done, const char *what)
{
  if (m->facts->rank || !m->options->progress || m->result) return;
  if (done > 1) done = 1;
  m->options->progress(m->options->context, m->progress_from + done * m->progress_part, what);
}
