/* SPDX-License-Identifier: BSD-3-Clause */
/* Prices without a play, for schedules that are too long for one.
 *
 * The messages of some ranks are counted over each kind of link; the row claims how many messages follow one another. A
 * rank takes the latency of those; the time that its ports, or those of its node, are busy, or, if that is more, the
 * time of the messages that follow one another; and its reductions and copies. The slowest rank counts. */
#include <math.h>

#include "tuner/private.h"

#define LOOKED_AT 16 /* ranks */
#define MIB 1048576.0

enum way { OUT, IN, WAYS };

struct sight {
  int64_t messages[WAYS][TT_LINK_KINDS], blocks[WAYS][TT_LINK_KINDS]; /* by kind of link */
  int64_t reductions, copies;                                         /* in blocks */
};

struct tt_estimate {
  int32_t nblocks, nranks, node_ranks; /* ranks that were looked at; the first ones are of one node */
  double node_share;                   /* the part of that node's ranks that was looked at */
  int64_t rounds, far_rounds;          /* messages that follow one another; of them between nodes */
  struct sight of[LOOKED_AT], all;     /* all: their sum */
};

static void step_count(struct sight *sight, const struct tt_schedule *schedule, const struct tt_step *step,
                       const struct tt_tuning *tuning, const int32_t *order)
{
  const struct tt_topology *topology = tuning->cluster->topology;
  int32_t me = order ? order[schedule->shape.rank] : schedule->shape.rank;
  int has_message = 0;
  for (int k = 0; k < step->nto + step->nsrc; k++) {
    const struct tt_operand *source = k < step->nto ? NULL : &schedule->operands[step->src + k - step->nto];
    if (source && source->place != TT_MESSAGE) continue;
    int32_t peer = source ? source->at : schedule->peers[step->to + k];
    enum tt_link_kind kind = tt_topology_kind(topology, me, order ? order[peer] : peer);
    sight->messages[source ? IN : OUT][kind]++;
    sight->blocks[source ? IN : OUT][kind] += step->nblocks;
    has_message |= source != NULL;
  }
  sight->reductions += (int64_t)step->nblocks * (step->nsrc - 1);
  if (step->nsrc == 1 && !has_message && step->dst.place != TT_NOWHERE) sight->copies += step->nblocks;
}

static void sight_add(struct sight *sum, const struct sight *more)
{
  for (int way = OUT; way < WAYS; way++)
    for (int kind = 0; kind < TT_LINK_KINDS; kind++) {
      sum->messages[way][kind] += more->messages[way][kind];
      sum->blocks[way][kind] += more->blocks[way][kind];
    }
}

static tuttiResult_t rank_look(struct tt_estimate *estimate, const struct tt_choice *choice,
                               const struct tt_tuning *tuning, int32_t rank)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const struct tt_kind *kind = &tt_kinds[algo->collective];
  struct tt_shape shape = tt_choice_shape(choice, tuning, rank, kind->has_root ? 0 : -1);
  struct tt_schedule schedule;
  tt_schedule_init(&schedule, &shape);
  algo->generate(&schedule, &shape);
  tuttiResult_t result = schedule.error;
  for (int32_t s = 0; s < schedule.nsteps; s++)
    step_count(&estimate->of[estimate->nranks], &schedule, &schedule.steps[s], tuning,
               kind->is_shared ? NULL : tuning->order);
  tt_schedule_destroy(&schedule);
  sight_add(&estimate->all, &estimate->of[estimate->nranks++]);
  return result;
}

/* Looks at ranks of the first one's node, as many as there is room for, and then at some others. */
static tuttiResult_t ranks_look(struct tt_estimate *estimate, const struct tt_choice *choice,
                                const struct tt_tuning *tuning)
{
  const struct tt_topology *topology = tuning->cluster->topology;
  const int32_t *order = tt_kinds[tt_algos[choice->algo].collective].is_shared ? NULL : tuning->order;
  const int32_t others[] = {1, tuning->nranks / 2, tuning->nranks - 1};
  tuttiResult_t result = tuttiSuccess;
  int32_t there = 0;
  for (int32_t rank = 0; rank < tuning->nranks && result == tuttiSuccess; rank++) {
    if (topology->node[order ? order[rank] : rank] != topology->node[order ? order[0] : 0]) continue;
    if (++there <= LOOKED_AT - 3) result = rank_look(estimate, choice, tuning, rank);
  }
  estimate->node_ranks = estimate->nranks;
  estimate->node_share = (double)estimate->node_ranks / there;
  for (int k = 0; k < 3 && tuning->nranks > 1 && result == tuttiSuccess; k++)
    result = rank_look(estimate, choice, tuning, others[k]);
  return result;
}

static int64_t larger(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* The number of rounds that go between nodes. In a hierarchy: as many messages as the rank with most of them sends or
 * receives. If no rank has a message for each round, as in trees: as many as the rank with most of them sends and
 * receives together. Else rounds go round all ranks: the average of the ranks of a node. */
static int64_t far_rounds_of(const struct tt_estimate *estimate, int has_middle)
{
  int64_t most = 0, both = 0, sum = 0, sent = 0;
  for (int32_t k = 0; k < estimate->node_ranks; k++) {
    const struct sight *sight = &estimate->of[k];
    int64_t out = sight->messages[OUT][TT_LINK_NET], in = sight->messages[IN][TT_LINK_NET], all = 0;
    for (int kind = 0; kind < TT_LINK_KINDS; kind++) all += sight->messages[OUT][kind];
    sent = larger(sent, all);
    both = larger(both, out + in);
    most = larger(most, larger(out, in));
    sum += out < estimate->rounds ? out : estimate->rounds;
  }
  if (has_middle) return most;
  return sent < estimate->rounds ? both : (sum + estimate->node_ranks - 1) / estimate->node_ranks;
}

tuttiResult_t tt_estimate_make(struct tt_estimate **estimate, const struct tt_choice *choice,
                               const struct tt_tuning *tuning)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  struct tt_shape shape = tt_choice_shape(choice, tuning, 0, tt_kinds[algo->collective].has_root ? 0 : -1);
  struct tt_estimate *made = tt_alloc(1, sizeof *made);
  struct tt_cost cost = {0};
  if (!made)
    return tt_fail(tuttiSystemError, "no memory for the prices of %d ranks: give the process more",
                   (int)tuning->nranks);
  algo->claim(&shape, &cost);
  made->nblocks = shape.nblocks;
  made->rounds = cost.rounds;
  tuttiResult_t result = ranks_look(made, choice, tuning);
  made->far_rounds = far_rounds_of(made, algo->has_middle);
  if (result == tuttiSuccess) *estimate = made;
  else tt_estimate_destroy(made);
  return result;
}

void tt_estimate_destroy(struct tt_estimate *estimate)
{
  tt_free(estimate);
}

/* The time of one message of those that a rank sends or receives over a kind of link. */
static double message_us(const struct sight *sight, enum way way, int kind, const struct tt_prices *prices,
                         double block)
{
  double each = (double)sight->blocks[way][kind] / (double)sight->messages[way][kind] * block;
  return tt_curve_busy_us(&prices->links.link[kind], (uint64_t)llround(each));
}

/* Adds how long messages occupy the ports of the rank, near, and of its node, far. */
static void ports_add(const struct sight *sight, const struct tt_prices *prices, double block, double near[WAYS],
                      double far[WAYS])
{
  for (int way = OUT; way < WAYS; way++)
    for (int kind = 0; kind < TT_LINK_KINDS; kind++)
      if (sight->messages[way][kind])
        (kind == TT_LINK_NET ? far : near)[way] +=
            (double)sight->messages[way][kind] * message_us(sight, (enum way)way, kind, prices, block);
}

/* The time of the messages that follow one another: those between nodes, then as many as there are of the farthest
 * kind, then of the next. */
static double chain_us(const struct tt_estimate *estimate, const struct sight *sight, const struct tt_prices *prices,
                       double block, double *latency_us)
{
  int64_t rounds = estimate->rounds;
  double busy = 0;
  *latency_us = 0;
  for (int kind = TT_LINK_KINDS - 1; kind >= 0 && rounds > 0; kind--) {
    enum way way = sight->messages[OUT][kind] >= sight->messages[IN][kind] ? OUT : IN;
    int64_t n = sight->messages[way][kind];
    int is_nearest = 1;
    for (int nearer = 0; nearer < kind; nearer++)
      is_nearest &= !sight->messages[OUT][nearer] && !sight->messages[IN][nearer];
    if (!n) continue;
    if (kind == TT_LINK_NET && !is_nearest) n = estimate->far_rounds;
    if (n > rounds || is_nearest) n = rounds;
    rounds -= n;
    *latency_us += (double)n * tt_curve_latency_us(&prices->links.link[kind]);
    busy += (double)n * message_us(&estimate->all, way, kind, prices, block);
  }
  return busy;
}

double tt_estimate_us(const struct tt_estimate *estimate, const struct tt_prices *prices, double bytes, double *busy_us)
{
  double block = bytes / estimate->nblocks, node[WAYS] = {0, 0}, ignored[WAYS] = {0, 0}, slowest = 0;
  *busy_us = 0;
  for (int32_t k = 0; k < estimate->node_ranks; k++) ports_add(&estimate->of[k], prices, block, ignored, node);
  for (int32_t k = 0; k < estimate->nranks; k++) {
    const struct sight *sight = &estimate->of[k];
    double near[WAYS] = {0, 0}, far[WAYS] = {0, 0}, latency;
    ports_add(sight, prices, block, near, far);
    double chain = chain_us(estimate, sight, prices, block, &latency);
    double port = fmax(fmax(near[OUT], near[IN]), fmax(far[OUT], far[IN]));
    if (k < estimate->node_ranks) port = fmax(port, fmax(node[OUT], node[IN]) / estimate->node_share);
    double work = (double)sight->reductions * block / MIB * prices->links.gamma_us_per_mib +
                  (double)sight->copies * tt_curve_us(&prices->links.link[TT_LINK_SELF], (uint64_t)block);
    *busy_us = fmax(*busy_us, fmax(port, work));
    slowest = fmax(slowest, latency + fmax(port, chain) + work);
  }
  return slowest;
}
