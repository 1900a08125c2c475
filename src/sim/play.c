/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps start, messages pass ports, steps finish. */
#include "sim/world_private.h"

/* ---- lengths and prices ------------------------------------------------------------ */

/* Elements before block x of all shares. */
static size_t elements_before(const struct world *world, const struct lane *lane, size_t x)
{
  size_t nblocks = world->nblocks, rest = x % nblocks, nranks = (size_t)world->play->shape.nranks;
  if (lane->starts) return x <= nranks ? lane->starts[x] : lane->starts[nranks] + lane->starts[x - nranks];
  return x * lane->base + x / nblocks * lane->more + (rest < lane->more ? rest : lane->more);
}

/* A span that goes on at block 0 is as long as one that goes on after the last share. */
static size_t step_bytes(const struct world *world, const struct lane *lane, const struct tt_step *step)
{
  size_t first = (size_t)step->first, end = first + (size_t)step->nblocks;
  return (elements_before(world, lane, end) - elements_before(world, lane, first)) * world->play->element_bytes;
}

static const struct tt_step *step_at(const struct lane *lane, int32_t i)
{
  return &lane->program->schedule.steps[i - lane->program->from];
}

static uint64_t bit_of(const struct lane *lane, int32_t i)
{
  return 1ull << (63 - (i - lane->oldest));
}

/* A total that overflows stays at the largest number. */
static void add(int64_t *total, size_t bytes, int times)
{
  int64_t more;
  if (__builtin_mul_overflow(bytes, times, &more) || __builtin_add_overflow(*total, more, total)) *total = INT64_MAX;
}

/* ---- ports --------------------------------------------------------------------------- */

static void push(struct world *world, double at_us, enum tt_sim_event_kind kind, int32_t rank, int32_t what,
                 uint32_t lane_channel)
{
  const struct tt_sim_event event = {.at_us = at_us, .rank = rank, .what = what, .kind = (uint8_t)kind,
                                     .lane = (uint16_t)(lane_channel >> 8), .channel = (uint8_t)lane_channel};
  if (!tt_sim_push(&world->events, &event)) world->is_broke = 1;
}

/* The index of the step's next peer from `k` on whose message goes this way; nto: none. */
static int peer_next(const struct world *world, int32_t rank, const struct tt_schedule *schedule,
                     const struct tt_step *step, int k, enum way way)
{
  for (; k < step->nto; k++)
    if ((tt_sim_kind(world->play, rank, schedule->peers[step->to + k]) == TT_LINK_NET) == (way == FAR)) break;
  return k;
}

/* Chooses the step to send next this way: the oldest one that has messages left. 0: none. */
static int sending_choose(struct world *world, int32_t rank, enum way way)
{
  struct actor *actor = &world->actors[rank];
  struct outlet *out = &actor->out[way];
  const struct lane *best = NULL;
  if (out->step >= 0) return 1;
  for (int32_t l = 0; l < world->nlanes; l++) {
    const struct lane *lane = &actor->lanes[l];
    if (lane->offering[way] && (!best || lane->segment < best->segment)) best = lane;
  }
  if (!best) return 0;
  out->step = best->oldest + __builtin_clzll(best->offering[way]);
  out->lane = (uint16_t)(best - actor->lanes);
  out->peer = peer_next(world, rank, &best->program->schedule, step_at(best, out->step), 0, way);
  return 1;
}

static void message_start(struct world *world, int32_t rank, enum way way)
{
  struct actor *actor = &world->actors[rank];
  struct outlet *out = &actor->out[way];
  const struct lane *lane = &actor->lanes[out->lane];
  const struct tt_step *step = step_at(lane, out->step);
  int32_t to = lane->program->schedule.peers[step->to + out->peer];
  size_t bytes = step_bytes(world, lane, step);
  enum tt_link_kind kind = tt_sim_kind(world->play, rank, to);
  const struct tt_curve *curve = &world->play->prices->link[kind];
  double head_us = world->now_us + tt_curve_latency_us(curve), busy = tt_curve_busy_us(curve, bytes);
  uint32_t lane_channel = (uint32_t)out->lane << 8 | step->channel;
  out->is_busy = 1;
  actor->in_flight++;
  (way == FAR ? &actor->node->port : &actor->port)->out_us += busy;
  world->result.messages++;
  add(&world->result.bytes, bytes, 1);
  push(world, head_us, TT_HEAD, to, rank, lane_channel);
  push(world, world->now_us + busy, way == FAR ? TT_LEFT_NODE : TT_LEFT, rank, out->step, lane_channel);
  if (!world->play->watcher.message) return;
  const struct tt_sim_message message = {rank, to, &lane->program->schedule, step, world->now_us, head_us + busy,
                                         bytes};
  world->play->watcher.message(world->play->watcher.context, &message);
}

/* Queues the rank for the port of its node, after the ranks that wait already. */
static void port_wait(struct world *world, int32_t rank)
{
  struct actor *actor = &world->actors[rank];
  struct node *node = actor->node;
  if (actor->out[FAR].is_waiting) return;
  actor->out[FAR].is_waiting = 1;
  actor->next_waiting = -1;
  if (node->first < 0) node->first = rank;
  else world->actors[node->last].next_waiting = rank;
  node->last = rank;
}

/* Starts a message if it can. 1 if one has started. */
static int port_go(struct world *world, int32_t rank, enum way way)
{
  struct actor *actor = &world->actors[rank];
  if (actor->out[way].is_busy || actor->in_flight >= TT_SIM_FLIGHT || !sending_choose(world, rank, way)) return 0;
  if (way == FAR && actor->node->is_busy) {
    port_wait(world, rank);
    return 0;
  }
  if (way == FAR) actor->node->is_busy = 1;
  message_start(world, rank, way);
  return 1;
}

/* A message of `rank` has left the port of its node: the port goes to the next rank in turn, this one being last. */
static void port_pass(struct world *world, int32_t rank)
{
  struct node *node = world->actors[rank].node;
  int has_started = 0;
  port_go(world, rank, FAR);
  node->is_busy = 0;
  while (!has_started && node->first >= 0) {
    int32_t first = node->first;
    node->first = world->actors[first].next_waiting;
    world->actors[first].out[FAR].is_waiting = 0;
    has_started = port_go(world, first, FAR);
  }
}

/* The port in draws a message for a step that has started. When the last one has arrived, the step is ready. */
static void draw(struct world *world, int32_t rank, int32_t from, uint32_t lane_channel, int32_t i)
{
  struct actor *actor = &world->actors[rank];
  struct lane *lane = &actor->lanes[lane_channel >> 8];
  enum tt_link_kind kind = tt_sim_kind(world->play, from, rank);
  struct port *port = kind == TT_LINK_NET ? &actor->node->port : &actor->port;
  double busy = tt_curve_busy_us(&world->play->prices->link[kind], step_bytes(world, lane, step_at(lane, i)));
  if (port->in_free_us < world->now_us) port->in_free_us = world->now_us;
  port->in_free_us += busy;
  port->in_us += busy;
  if (lane->arrived_us[i % TT_WINDOW] < port->in_free_us) lane->arrived_us[i % TT_WINDOW] = port->in_free_us;
  if (--lane->missing[i % TT_WINDOW] == 0)
    push(world, lane->arrived_us[i % TT_WINDOW], TT_READY, rank, i, lane_channel);
}

/* ---- steps --------------------------------------------------------------------------- */

static void step_finish(struct world *world, struct lane *lane, int32_t i, size_t bytes)
{
  const struct tt_step *step = step_at(lane, i);
  lane->finished |= bit_of(lane, i);
  world->result.steps++;
  add(&world->result.reduced, bytes, step->nsrc - 1);
  if (world->play->watcher.step) {
    const struct tt_sim_step told = {&lane->program->schedule, step, lane->segment, world->now_us, bytes};
    world->play->watcher.step(world->play->watcher.context, &told);
  }
  if (world->result.steps % TT_SIM_PROGRESS_STEPS || !world->play->watcher.progress) return;
  world->progress.steps = world->result.steps;
  world->progress.time_us = world->now_us;
  world->play->watcher.progress(world->play->watcher.context, &world->progress);
}

/* The result of a step is made: 1 if that finishes the step. */
static int step_made(struct world *world, int32_t rank, struct lane *lane, int32_t i)
{
  const struct tt_step *step = step_at(lane, i);
  if (step->nto == 0) {
    step_finish(world, lane, i, step_bytes(world, lane, step));
    return 1;
  }
  for (int way = NEAR; way < WAYS; way++) {
    if (peer_next(world, rank, &lane->program->schedule, step, 0, (enum way)way) == step->nto) continue;
    lane->offering[way] |= bit_of(lane, i);
  }
  for (int way = NEAR; way < WAYS; way++) port_go(world, rank, (enum way)way);
  return 0;
}

static double work_us(const struct world *world, const struct lane *lane, const struct tt_step *step)
{
  size_t bytes = step_bytes(world, lane, step);
  if (step->nsrc > 1) return (double)bytes * (step->nsrc - 1) * world->gamma_us;
  int is_copy = step->dst.place != TT_NOWHERE &&
                lane->program->schedule.operands[step->src].place != TT_MESSAGE;
  return is_copy ? tt_curve_us(&world->play->prices->link[TT_LINK_SELF], bytes) : 0;
}

/* All sources are there: 1 if the step is finished at once. */
static int step_combine(struct world *world, int32_t rank, struct lane *lane, int32_t i)
{
  struct actor *actor = &world->actors[rank];
  double us = work_us(world, lane, step_at(lane, i));
  if (us <= 0) return step_made(world, rank, lane, i);
  if (actor->cpu_free_us < world->now_us) actor->cpu_free_us = world->now_us;
  actor->cpu_free_us += us;
  actor->cpu_us += us;
  push(world, actor->cpu_free_us, TT_MADE, rank, i, (uint32_t)(lane - actor->lanes) << 8);
  return 0;
}

static int step_start(struct world *world, int32_t rank, struct lane *lane, int32_t i)
{
  const struct tt_step *step = step_at(lane, i);
  const struct tt_operand *sources = lane->program->schedule.operands + step->src;
  uint32_t lane_channel = (uint32_t)(lane - world->actors[rank].lanes) << 8 | step->channel;
  int16_t messages = 0;
  lane->started |= bit_of(lane, i);
  if (step_bytes(world, lane, step) == 0) {
    step_finish(world, lane, i, 0);
    return 1;
  }
  for (int k = 0; k < step->nsrc; k++) messages = (int16_t)(messages + (sources[k].place == TT_MESSAGE));
  if (!messages) return step_combine(world, rank, lane, i);
  lane->missing[i % TT_WINDOW] = messages;
  lane->arrived_us[i % TT_WINDOW] = 0;
  for (int k = 0; k < step->nsrc; k++) {
    if (sources[k].place != TT_MESSAGE) continue;
    const struct tt_sim_box where = {.to = rank, .from = sources[k].at, .lane_channel = lane_channel};
    int is_there = tt_sim_mail_take(&world->mail, &where, i);
    if (is_there < 0) world->is_broke = 1;
    if (is_there > 0) draw(world, rank, sources[k].at, lane_channel, i);
  }
  return 0;
}

/* ---- lanes ------------------------------------------------------------------------- */

/* Each segment has the same part of every share, up to one element, as in the executor. */
static const size_t *starts_get(struct world *world, size_t segment)
{
  size_t n = world->nsegments, nranks = (size_t)world->play->shape.nranks;
  size_t *starts = world->starts[segment];
  if (starts) return starts;
  starts = world->starts[segment] = tt_alloc(nranks + 1, sizeof *starts);
  if (!starts) world->is_broke = 1;
  for (size_t share = 0; starts && share < nranks; share++) {
    size_t count = world->play->counts[share];
    starts[share + 1] = starts[share] + count / n + (segment < count % n);
  }
  return starts;
}

/* Takes the next segment; 0: there is none. */
int tt_sim_segment_begin(struct world *world, struct lane *lane, size_t segment)
{
  if (segment >= world->nsegments) return 0;
  size_t nblocks = world->nblocks;
  if (world->play->counts) lane->starts = starts_get(world, segment);
  size_t left = world->count - segment * world->segment_count;
  size_t count = left < world->segment_count ? left : world->segment_count;
  lane->segment = segment;
  lane->base = count / nblocks;
  lane->more = count % nblocks;
  lane->oldest = 0;
  lane->started = lane->finished = lane->offering[NEAR] = lane->offering[FAR] = 0;
  return 1;
}

void tt_sim_lane_end(struct world *world, int32_t rank)
{
  if (--world->actors[rank].busy_lanes) return;
  if (world->progress.ended++ == 0) world->result.first_us = world->now_us;
}

/* The window moves over finished steps, and to the next segment after the last one. 0: the lane has ended. */
static int lane_advance(struct world *world, int32_t rank, struct lane *lane, tuttiResult_t *code)
{
  int finished = lane->finished == UINT64_MAX ? 64 : __builtin_clzll(~lane->finished);
  int all = finished == 64;
  lane->oldest += finished;
  lane->finished = all ? 0 : lane->finished << finished;
  lane->started = all ? 0 : lane->started << finished;
  for (int way = NEAR; way < WAYS; way++) lane->offering[way] = all ? 0 : lane->offering[way] << finished;
  while (lane->oldest == lane->program->schedule.total)
    if (!tt_sim_segment_begin(world, lane, lane->segment + (size_t)world->nlanes)) {
      tt_sim_lane_end(world, rank);
      return 0;
    }
  if (!tt_sim_program_covers(lane->program, lane->oldest))
    *code = tt_sim_program_load(lane->program, &world->maker, rank, lane->oldest);
  return *code == tuttiSuccess;
}

/* All earlier steps that step oldest + behind waits for are finished. */
static int may_start(const struct lane *lane, int32_t behind)
{
  uint64_t past = behind ? lane->finished >> (64 - behind) | ~0ull << behind : ~0ull;
  return (lane->program->waits[lane->oldest + behind - lane->program->from] & ~past) == 0;
}

/* Starts all steps that may start, in one pass over the window: 1 if one of them is finished by that. */
static int window_start(struct world *world, int32_t rank, struct lane *lane)
{
  int32_t left = lane->program->schedule.total - lane->oldest;
  uint64_t waiting = ~lane->started & (left < 64 ? ~(UINT64_MAX >> left) : UINT64_MAX);
  int finished = 0;
  while (waiting) {
    int behind = __builtin_clzll(waiting);
    waiting &= ~(1ull << (63 - behind));
    if (may_start(lane, behind)) finished |= step_start(world, rank, lane, lane->oldest + behind);
  }
  return finished;
}

tuttiResult_t tt_sim_lane_go(struct world *world, int32_t rank, struct lane *lane)
{
  tuttiResult_t code = tuttiSuccess;
  while (lane_advance(world, rank, lane, &code))
    if (!window_start(world, rank, lane)) return code;
  return code;
}

/* ---- events --------------------------------------------------------------------------- */

static void head_arrives(struct world *world, const struct tt_sim_event *event)
{
  uint32_t lane_channel = (uint32_t)event->lane << 8 | event->channel;
  const struct tt_sim_box where = {.to = event->rank, .from = event->what, .lane_channel = lane_channel};
  int32_t i = tt_sim_mail_put(&world->mail, &where);
  if (i == -2) world->is_broke = 1;
  if (i >= 0) draw(world, event->rank, event->what, lane_channel, i);
  world->actors[event->what].in_flight--;
  for (int way = NEAR; way < WAYS; way++) port_go(world, event->what, (enum way)way);
}

/* 1 if a step has finished. */
static int message_leaves(struct world *world, const struct tt_sim_event *event, enum way way)
{
  struct actor *actor = &world->actors[event->rank];
  struct outlet *out = &actor->out[way];
  struct lane *lane = &actor->lanes[event->lane];
  const struct tt_step *step = step_at(lane, event->what);
  uint64_t bit = bit_of(lane, event->what);
  int is_last = 0;
  out->is_busy = 0;
  out->peer = peer_next(world, event->rank, &lane->program->schedule, step, out->peer + 1, way);
  if (out->peer == step->nto) {
    out->step = -1;
    lane->offering[way] &= ~bit;
    is_last = !((lane->offering[NEAR] | lane->offering[FAR]) & bit);
  }
  if (is_last) step_finish(world, lane, event->what, step_bytes(world, lane, step));
  if (way == FAR) port_pass(world, event->rank);
  else port_go(world, event->rank, NEAR);
  return is_last;
}

tuttiResult_t tt_sim_event_play(struct world *world, const struct tt_sim_event *event)
{
  struct lane *lane = &world->actors[event->rank].lanes[event->lane];
  int finished = 0;
  switch (event->kind) {
  case TT_HEAD: head_arrives(world, event); break;
  case TT_READY: finished = step_combine(world, event->rank, lane, event->what); break;
  case TT_MADE: finished = step_made(world, event->rank, lane, event->what); break;
  case TT_LEFT: finished = message_leaves(world, event, NEAR); break;
  default: finished = message_leaves(world, event, FAR); break;
  }
  return finished ? tt_sim_lane_go(world, event->rank, lane) : tuttiSuccess;
}
