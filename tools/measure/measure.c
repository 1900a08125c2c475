/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "measure/private.h"

#define SECONDS 10.0         /* if the caller says nothing */
#define NO_LIMIT_US 1e18
#define KERNELS_MOST_S 3.0
#define KERNELS_PART 0.15
#define LINKS_PART 0.45      /* of what kernels leave, if there are anchors too */

/* All ranks must leave out the same; seconds are rank 0's. */
static double options_agree(struct measure *m)
{
  const struct tt_measure_options *options = m->options;
  int leaves = !!options->no_inside + 2 * !!options->no_kernels + 4 * !!options->no_anchors + 8 * !!options->no_between;
  double values[3] = {leaves, -leaves, m->facts->rank == 0 ? options->seconds : 0};
  agree_all(m, values, 3);
  if (!m->result && values[0] + values[1] != 0)
    m->result = tt_fail(tuttiInvalidUsage,
                        "tune: ranks were called with different options: give all the same no_inside, "
                        "no_between, no_kernels and no_anchors");
  return values[2] > 0 ? values[2] : SECONDS;
}

struct part {
  void (*run)(struct measure *, double seconds);
  const char *name;
  double seconds; /* 0: it is left out */
};

static void part_run(struct measure *m, const struct part *part, double total)
{
  m->progress_part = part->seconds / total;
  store_missing(m, part->name);
  if (!m->result) part->run(m, part->seconds);
  store_keep(m);
  m->progress_from += m->progress_part;
}

/* There is no time at all. The line of an earlier call, which has used it up, stays as it is. */
static void all_cut(struct measure *m, const char *from)
{
  m->is_cut = 1;
  for (int32_t i = 0; m->profile && i < m->profile->nmissing; i++) {
    const struct tt_profile_missing *missing = &m->profile->missing[i];
    if (missing->nranks == m->facts->nranks && missing->nnodes == m->topology->nnodes &&
        !strcmp(missing->transport, m->transport))
      return;
  }
  store_missing(m, from);
}

static void parts_run(struct measure *m, double total)
{
  const struct tt_measure_options *options = m->options;
  int links = !(options->no_inside && options->no_between) && m->facts->nranks > 1;
  int anchors = !options->no_anchors && m->facts->nranks > 1;
  double kernels = options->no_kernels ? 0 : total * (links || anchors ? KERNELS_PART : 1);
  if (kernels > KERNELS_MOST_S) kernels = KERNELS_MOST_S;
  double links_s = !links ? 0 : (total - kernels) * (anchors ? LINKS_PART : 1);
  const struct part parts[] = {{kernels_measure, "reduce kernels", kernels},
                               {links_measure, "links", links_s},
                               {anchors_measure, "algorithms", anchors ? total - kernels - links_s : 0}};
  agree_timed(m, 0, 0);
  if (m->is_over) all_cut(m, parts[kernels > 0 ? 0 : links ? 1 : 2].name);
  for (int p = 0; p < 3 && !m->is_cut; p++)
    if (parts[p].seconds > 0) part_run(m, &parts[p], total);
  if (!m->is_cut) store_missing(m, NULL);
}

tuttiResult_t tt_measure(struct tuttiComm *comm, const struct tt_measure_options *options, struct tt_profile *profile)
{
  struct measure m = {
      .comm = comm, .facts = tt_comm_facts(comm), .topology = tt_comm_topology(comm), .options = options};
  if (m.facts->rank == 0) m.profile = profile;
  m.limit_us = options->limit_s > 0 ? now_us() + options->limit_s * 1e6 : NO_LIMIT_US;
  m.result = tt_comm_drain(comm);
  m.table = *tt_comm_table(comm);
  double seconds = options_agree(&m);
  if (!m.result && m.facts->nranks > TT_MEASURE_RANKS)
    m.result = tt_fail(tuttiInvalidUsage, "tune: the communicator has %d ranks: measure on at most %d of them",
                       m.facts->nranks, TT_MEASURE_RANKS);
  world_find(&m);
  store_machine(&m);
  if (!m.result) parts_run(&m, seconds);
  tt_comm_table_set(comm, &m.table);
  agree(&m, 0);
  m.progress_part = 0;
  if (!m.result) progress_tell(&m, 1, "done");
  tt_free(m.route);
  tt_free(m.memory[TT_MEMORY_MALLOC]);
  tuttiMemFree(m.memory[TT_MEMORY_TUTTI]);
  return m.result;
}
