/* SPDX-License-Identifier: BSD-3-Clause */
/* Links: pairs of ranks that talk at once, by size of the message and by ways.
 *
 * The ranks of a flow agree by messages among themselves. All others wait in an all-reduce meanwhile, and
 * sleep after a while, so that they take no core from those that are timed. */
#include <stdio.h>
#include <string.h>

#include "measure/private.h"

#define SIZES 22             /* 8 B, 16 B, .. 16 MiB */
#define SIZES_LEAST 4        /* so many are measured however slow they are */
#define ROUNDS 3
#define SHORT_S 0.5          /* 1 round has to do */
#define BATCHES 3            /* of a point, in a round */
#define SAMPLES (ROUNDS * BATCHES)
#define TIMES_MOST 2000      /* in a batch */
#define TRAIN 16             /* messages sent back to back */
#define TRAINS 8             /* in a batch */
#define WARM_US 25000.0      /* after that those who wait sleep */
#define POINT_US 400.0       /* with less than that for a point, every third size has to do */

struct flow {
  enum tt_link_kind kind;
  const struct tt_transport_ops *transport;
  int32_t flows, nmembers;
  int32_t *members; /* ranks 2p and 2p + 1 of it are pair p; the first one leads */
  int place;        /* this rank's among them; -1: it waits */
  int is_over;      /* a member is past the limit, as all members know */
  int nsizes[2];    /* by ways: how many sizes are not too slow */
  double once[2][SIZES];
  double us[2][SIZES][SAMPLES];
  int n[2][SIZES];
  double one[SAMPLES], train[SAMPLES]; /* to send one short message and have the answer; and to send TRAIN of them */
  int ntrains;
};

static size_t bytes_of(int size)
{
  return (size_t)8 << size;
}

/* ---- among the ranks of a flow ---- */

/* The largest of all members' values, at all of them, and whether one of them is past the limit; also a barrier. */
static double team_agree(struct measure *m, struct flow *flow, double value)
{
  double values[2] = {value, now_us() > m->limit_us}, others[2] = {0, 0};
  struct tt_transfer transfer = {.peer = flow->members[0], .sends = 1, .data = values, .bytes = sizeof values};
  if (flow->place) {
    messages_run(m, &transfer, 1);
    transfer.sends = 0;
    messages_run(m, &transfer, 1);
  }
  for (int i = 1; !flow->place && i < flow->nmembers; i++) {
    struct tt_transfer from = {.peer = flow->members[i], .data = others, .bytes = sizeof others};
    messages_run(m, &from, 1);
    for (int k = 0; k < 2; k++)
      if (others[k] > values[k]) values[k] = others[k];
  }
  for (int i = 1; !flow->place && i < flow->nmembers; i++) {
    transfer.peer = flow->members[i];
    messages_run(m, &transfer, 1);
  }
  flow->is_over = values[1] > 0;
  return m->result ? 0 : values[0];
}

static int32_t partner(const struct flow *flow)
{
  return flow->members[flow->place ^ 1];
}

static struct tt_transfer transfer_of(const struct measure *m, const struct flow *flow, int sends, size_t bytes)
{
  return (struct tt_transfer){
      .peer = partner(flow), .sends = sends, .data = m->data + (sends ? 0 : DATA_BYTES), .bytes = bytes};
}

/* One message to the partner and one from there: one after the other, or both at once. */
static void message_move(struct measure *m, const struct flow *flow, size_t bytes, int ways)
{
  int sends_first = !(flow->place & 1);
  struct tt_transfer both[2] = {transfer_of(m, flow, sends_first, bytes), transfer_of(m, flow, !sends_first, bytes)};
  if (ways == 2) {
    messages_run(m, both, 2);
    return;
  }
  messages_run(m, &both[0], 1);
  messages_run(m, &both[1], 1);
}

/* The time of one message, of `times` in a row. */
static double batch(struct measure *m, struct flow *flow, int size, int ways, int times)
{
  team_agree(m, flow, 0);
  double begin = now_us();
  for (int i = 0; i < times; i++) message_move(m, flow, bytes_of(size), ways);
  return team_agree(m, flow, (now_us() - begin) / times / (ways == 1 ? 2 : 1));
}

/* `n` short messages one way and then one back. */
static double train_batch(struct measure *m, struct flow *flow, int n)
{
  struct tt_transfer train[TRAIN];
  int sends = !(flow->place & 1);
  team_agree(m, flow, 0);
  double begin = now_us();
  for (int i = 0; i < TRAINS; i++) {
    struct tt_transfer answer = transfer_of(m, flow, !sends, bytes_of(0));
    for (int k = 0; k < n; k++) train[k] = transfer_of(m, flow, sends, bytes_of(0));
    messages_run(m, train, n);
    messages_run(m, &answer, 1);
  }
  return team_agree(m, flow, (now_us() - begin) / TRAINS);
}

/* ---- one flow, in one round ---- */

static void warm_up(struct measure *m, struct flow *flow, double limit_us)
{
  double begin = now_us(), spent = 0, us = m->facts->nranks > flow->nmembers ? WARM_US : WARM_US / 10;
  if (us > limit_us) us = limit_us;
  while (!m->result && !flow->is_over && spent < us) {
    batch(m, flow, 0, 2, 16);
    spent = team_agree(m, flow, now_us() - begin);
  }
}

/* Each size once, to open the links, and once more: how long that takes. Sizes behind two that are too slow are left
 * out: one may have met a slow moment. */
static void sizes_try(struct measure *m, struct flow *flow, int ways, double point_us)
{
  int stride = point_us < POINT_US ? 3 : 1, w = ways - 1, slow = 0;
  for (int size = 0; size < SIZES && !flow->is_over; size += stride) {
    batch(m, flow, size, ways, 1);
    flow->once[w][size] = batch(m, flow, size, ways, 2);
    flow->nsizes[w] = size + 1;
    slow = flow->once[w][size] > point_us ? slow + 1 : 0;
    if (size >= SIZES_LEAST * stride && slow >= 2) return;
  }
}

static void point_measure(struct measure *m, struct flow *flow, int ways, int size, double point_us)
{
  int w = ways - 1, *n = &flow->n[w][size];
  double once = flow->once[w][size] * (ways == 1 ? 2 : 1), times = once > 0 ? point_us / BATCHES / once : 0;
  if (once <= 0) return; /* not among those that are measured */
  if (times > TIMES_MOST) times = TIMES_MOST;
  int batches = times >= 1 ? BATCHES : (int)(point_us / once);
  for (int b = 0; b < (batches > 1 ? batches : 1) && *n < SAMPLES; b++)
    flow->us[w][size][(*n)++] = batch(m, flow, size, ways, times < 1 ? 1 : (int)times);
}

static void flow_measure(struct measure *m, struct flow *flow, int round, double budget_us)
{
  int32_t order[2 * SIZES];
  double begin = now_us();
  flow->is_over = 0;
  warm_up(m, flow, budget_us / 8);
  double point_us = (budget_us - (now_us() - begin)) / (2 * SIZES + 2);
  point_us = team_agree(m, flow, point_us > 0 ? point_us : 0);
  for (int ways = 1; round == 0 && ways <= 2; ways++) sizes_try(m, flow, ways, point_us);
  order_mix(order, 2 * SIZES, (uint32_t)round);
  for (int i = 0; i < 2 * SIZES && !m->result && !flow->is_over; i++) {
    int w = order[i] % 2, size = order[i] / 2;
    if (size < flow->nsizes[w]) point_measure(m, flow, w + 1, size, point_us);
  }
  for (int b = 0; b < BATCHES && flow->ntrains < SAMPLES && !flow->is_over; b++) {
    flow->one[flow->ntrains] = train_batch(m, flow, 1);
    flow->train[flow->ntrains++] = train_batch(m, flow, TRAIN);
  }
}

/* ---- results: the leader has them, rank 0 gets them ---- */

struct told {
  double us[2][SIZES][3]; /* median, low, high; 0: not measured */
  double overhead_us;
};

static void flow_summarise(struct flow *flow, struct told *told)
{
  for (int w = 0; w < 2; w++)
    for (int size = 0; size < SIZES; size++) {
      if (!flow->n[w][size]) continue;
      struct summary sum = samples_summarise(flow->us[w][size], flow->n[w][size]);
      told->us[w][size][0] = sum.median;
      told->us[w][size][1] = sum.low;
      told->us[w][size][2] = sum.high;
    }
  double one = samples_summarise(flow->one, flow->ntrains).median;
  double train = samples_summarise(flow->train, flow->ntrains).median;
  told->overhead_us = train > one ? (train - one) / (TRAIN - 1) : 0;
}

static void flow_store(struct measure *m, struct flow *flow)
{
  struct told told;
  memset(&told, 0, sizeof told);
  if (flow->place == 0 && !m->result && flow->ntrains) flow_summarise(flow, &told); /* else it was cut off */
  agree_all(m, &told.us[0][0][0], sizeof told / sizeof(double));
  for (int w = 0; w < 2 && !m->result; w++) {
    struct tt_profile_point points[SIZES];
    int n = 0;
    memset(points, 0, sizeof points);
    for (int size = 0; size < SIZES; size++) {
      const double *us = told.us[w][size];
      if (us[0] <= 0) continue;
      struct tt_profile_point *point = &points[n++];
      *point = (struct tt_profile_point){.bytes = bytes_of(size), .us = us[0], .low_us = us[1], .high_us = us[2]};
      point->flow = (struct tt_flow){.kind = flow->kind, .flows = flow->flows, .ways = w + 1};
      strncpy(point->flow.transport, flow->transport->name, TT_PROFILE_NAME - 1);
      if (flow->kind == TT_LINK_NET && flow->transport->uses_interface)
        snprintf(point->flow.interface, TT_PROFILE_NAME, "%s", m->facts->interface);
    }
    if (n) store_flow(m, points, n, told.overhead_us);
  }
}

/* ---- all flows ---- */

#define FLOWS_MOST 128

struct flows {
  int n, nrounds;
  struct flow *list[FLOWS_MOST];
};

static void flow_add(struct measure *m, struct flows *flows, const struct pairs_of_kind *of, int32_t npairs)
{
  struct flow *flow = flows->n < FLOWS_MOST ? tt_alloc(1, sizeof *flow) : NULL;
  int32_t *members = tt_alloc((size_t)npairs * 2, sizeof *members);
  if (!flow || !members) {
    tt_free(flow);
    tt_free(members);
    give_up(m, tt_fail(tuttiSystemError, "tune: out of memory for %d pairs", (int)npairs));
    return;
  }
  *flow = (struct flow){.kind = of->kind,
                        .transport = tt_comm_transport(m->comm, of->transport),
                        .flows = npairs,
                        .nmembers = npairs * 2,
                        .members = members,
                        .place = -1};
  for (int32_t i = 0; i < npairs * 2; i++) {
    members[i] = of->pairs[i / 2][i % 2];
    if (members[i] == m->facts->rank) flow->place = i;
  }
  flows->list[flows->n++] = flow;
}

/* One pair, 2, 4, .. and as many as there are. */
static void flows_find(struct measure *m, struct flows *flows)
{
  struct pairs_of_kind of = {.pairs = tt_alloc((size_t)m->facts->nranks / 2 + 1, sizeof *of.pairs)};
  if (!of.pairs) give_up(m, tt_fail(tuttiSystemError, "tune: out of memory for pairs"));
  int least = m->options->no_inside ? TT_LINK_NET : TT_LINK_CACHE;
  int most = m->options->no_between ? TT_LINK_NODE : TT_LINK_NET;
  for (int kind = least; kind <= most && !m->result; kind++)
    for (of.transport = 0; tt_comm_transport(m->comm, of.transport) && !m->result; of.transport++) {
      of.kind = (enum tt_link_kind)kind;
      pairs_find(m, &of);
      if (of.n > TT_PROFILE_MAX_FLOWS) of.n = TT_PROFILE_MAX_FLOWS;
      for (int32_t npairs = 1; npairs <= of.n && !m->result; npairs *= 2) flow_add(m, flows, &of, npairs);
      if (of.n & (of.n - 1)) flow_add(m, flows, &of, of.n);
    }
  tt_free(of.pairs);
}

static void round_measure(struct measure *m, struct flows *flows, int round, double end_us)
{
  for (int f = 0; f < flows->n && !m->result && !m->is_over; f++) {
    struct flow *flow = flows->list[f];
    char what[96];
    snprintf(what, sizeof what, "links: %s over %s, %d %s", tt_link_names[flow->kind], flow->transport->name,
             (int)flow->flows, flow->flows == 1 ? "pair" : "pairs at once");
    progress_tell(m, (round * flows->n + f) / (double)(flows->nrounds * flows->n), what);
    agree_timed(m, 0, end_us);
    if (m->is_over) break;
    if (flow->place >= 0) flow_measure(m, flow, round, m->left_us / ((flows->nrounds - round) * flows->n - f));
    flow_store(m, flow);
    store_keep(m);
  }
  int lacks = 0;
  for (int f = 0; f < flows->n; f++) lacks |= flows->list[f]->place >= 0 && !flows->list[f]->ntrains;
  m->is_cut |= agree_timed(m, lacks, end_us) > 0;
  if (!round && !m->is_cut) store_missing(m, m->options->no_anchors ? NULL : "algorithms");
}

/* Sent pages that were never written would all be one page of zeros. */
static void data_touch(struct measure *m)
{
  memset(m->data, 1, 2 * DATA_BYTES);
}

void links_measure(struct measure *m, double seconds)
{
  struct flows flows = {.nrounds = seconds < SHORT_S ? 1 : ROUNDS};
  double end_us = now_us() + seconds * 1e6;
  flows_find(m, &flows);
  if (flows.n) data_touch(m);
  for (int round = 0; round < flows.nrounds && flows.n && !m->result && !m->is_over; round++)
    round_measure(m, &flows, round, end_us);
  for (int f = 0; f < flows.n; f++) {
    tt_free(flows.list[f]->members);
    tt_free(flows.list[f]);
  }
}
