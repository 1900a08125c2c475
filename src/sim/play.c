/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps start, messages pass ports, steps finish. */
#include "sim/world.h"

/* ---- lengths and prices ------------------------------------------------------------ */

/* Elements before block x of all shares. */
static size_t elements_before(const struct strand *strand, size_t nblocks, size_t x)
{
  size_t rest = x % nblocks;
  return x * strand->base + x / nblocks * strand->more + (rest < strand->more ? rest : strand->more);
}

/* A span that goes on at block 0 is as long as one that goes on behind the last share. */
static size_t step_bytes(const struct world *world, const struct strand *strand, const struct tt_step *step)
{
  size_t first = (size_t)step->first, end = first + (size_t)step->nblocks;
  return (elements_before(strand, world->nblocks, end) - elements_before(strand, world->nblocks, first)) *
         world->play->element_bytes;
}

static const struct tt_step *step_at(const struct strand *strand, int32_t i)
{
  return &strand->program->schedule.steps[i - strand->program->from];
}

static uint64_t bit_of(const struct strand *strand, int32_t i)
{
  return 1ull << (63 - (i - strand->oldest));
}

/* A total that is too large to be told stays at the largest number. */
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

/* What goes next this way: the oldest step that has messages to give. 0: nothing. */
static int sending_choose(struct world *world, int32_t rank, enum way way)
{
  struct actor *actor = &world->actors[rank];
  struct outlet *out = &actor->out[way];
  const struct strand *best = NULL;
  if (out->step >= 0) return 1;
  for (int32_t lane = 0; lane < world->lanes; lane++) {
    const struct strand *strand = &actor->strands[lane];
    if (strand->offering[way] && (!best || strand->segment < best->segment)) best = strand;
  }
  if (!best) return 0;
  out->step = best->oldest + __builtin_clzll(best->offering[way]);
  out->lane = (uint16_t)(best - actor->strands);
  out->peer = peer_next(world, rank, &best->program->schedule, step_at(best, out->step), 0, way);
  return 1;
}

static void message_start(struct world *world, int32_t rank, enum way way)
{
  struct actor *actor = &world->actors[rank];
  struct outlet *out = &actor->out[way];
  const struct strand *strand = &actor->strands[out->lane];
  const struct tt_step *step = step_at(strand, out->step);
  int32_t to = strand->program->schedule.peers[step->to + out->peer];
  size_t bytes = step_bytes(world, strand, step);
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
  const struct tt_sim_message message = {rank, to, &strand->program->schedule, step, world->now_us, head_us + busy,
                                         bytes};
  world->play->watcher.message(world->play->watcher.context, &message);
}

/* Waits for the port of the node behind those who do already. */
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

/* 1 if a message has started. */
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

/* A message of `rank` has left the port of its node: the next rank in turn has it, this one last. */
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

/* The port in takes a message for a step that has started; after the last one the step is ready when it has arrived. */
static void draw(struct world *world, int32_t rank, int32_t from, uint32_t lane_channel, int32_t i)
{
  struct actor *actor = &world->actors[rank];
  struct strand *strand = &actor->strands[lane_channel >> 8];
  enum tt_link_kind kind = tt_sim_kind(world->play, from, rank);
  struct port *port = kind == TT_LINK_NET ? &actor->node->port : &actor->port;
  double busy = tt_curve_busy_us(&world->play->prices->link[kind], step_bytes(world, strand, step_at(strand, i)));
  if (port->in_free_us < world->now_us) port->in_free_us = world->now_us;
  port->in_free_us += busy;
  port->in_us += busy;
  if (strand->arrived_us[i % TT_WINDOW] < port->in_free_us) strand->arrived_us[i % TT_WINDOW] = port->in_free_us;
  if (--strand->missing[i % TT_WINDOW] == 0)
    push(world, strand->arrived_us[i % TT_WINDOW], TT_READY, rank, i, lane_channel);
}

/* ---- steps --------------------------------------------------------------------------- */

static void step_finish(struct world *world, struct strand *strand, int32_t i, size_t bytes)
{
  const struct tt_step *step = step_at(strand, i);
  strand->finished |= bit_of(strand, i);
  world->result.steps++;
  add(&world->result.reduced, bytes, step->nsrc - 1);
  if (world->play->watcher.step) {
    const struct tt_sim_step told = {&strand->program->schedule, step, strand->segment, world->now_us, bytes};
    world->play->watcher.step(world->play->watcher.context, &told);
  }
  if (world->result.steps % TT_SIM_PROGRESS_STEPS || !world->play->watcher.progress) return;
  world->progress.steps = world->result.steps;
  world->progress.time_us = world->now_us;
  world->play->watcher.progress(world->play->watcher.context, &world->progress);
}

/* The result of a step is there: 1 if that is all. */
static int step_made(struct world *world, int32_t rank, struct strand *strand, int32_t i)
{
  const struct tt_step *step = step_at(strand, i);
  if (step->nto == 0) {
    step_finish(world, strand, i, step_bytes(world, strand, step));
    return 1;
  }
  for (int way = NEAR; way < WAYS; way++) {
    if (peer_next(world, rank, &strand->program->schedule, step, 0, (enum way)way) == step->nto) continue;
    strand->offering[way] |= bit_of(strand, i);
  }
  for (int way = NEAR; way < WAYS; way++) port_go(world, rank, (enum way)way);
  return 0;
}

static double work_us(const struct world *world, const struct strand *strand, const struct tt_step *step)
{
  size_t bytes = step_bytes(world, strand, step);
  if (step->nsrc > 1) return (double)bytes * (step->nsrc - 1) * world->gamma_us;
  int is_copy = step->dst.place != TT_NOWHERE &&
                strand->program->schedule.operands[step->src].place != TT_MESSAGE;
  return is_copy ? tt_curve_us(&world->play->prices->link[TT_LINK_SELF], bytes) : 0;
}

/* All sources are there: 1 if the step is finished at once. */
static int step_combine(struct world *world, int32_t rank, struct strand *strand, int32_t i)
{
  struct actor *actor = &world->actors[rank];
  double us = work_us(world, strand, step_at(strand, i));
  if (us <= 0) return step_made(world, rank, strand, i);
  if (actor->cpu_free_us < world->now_us) actor->cpu_free_us = world->now_us;
  actor->cpu_free_us += us;
  actor->cpu_us += us;
  push(world, actor->cpu_free_us, TT_MADE, rank, i, (uint32_t)(strand - actor->strands) << 8);
  return 0;
}

static int step_start(struct world *world, int32_t rank, struct strand *strand, int32_t i)
{
  const struct tt_step *step = step_at(strand, i);
  const struct tt_operand *sources = strand->program->schedule.operands + step->src;
  uint32_t lane_channel = (uint32_t)(strand - world->actors[rank].strands) << 8 | step->channel;
  int16_t messages = 0;
  strand->started |= bit_of(strand, i);
  if (step_bytes(world, strand, step) == 0) {
    step_finish(world, strand, i, 0);
    return 1;
  }
  for (int k = 0; k < step->nsrc; k++) messages = (int16_t)(messages + (sources[k].place == TT_MESSAGE));
  if (!messages) return step_combine(world, rank, strand, i);
  strand->missing[i % TT_WINDOW] = messages;
  strand->arrived_us[i % TT_WINDOW] = 0;
  for (int k = 0; k < step->nsrc; k++) {
    if (sources[k].place != TT_MESSAGE) continue;
    const struct tt_sim_box where = {.to = rank, .from = sources[k].at, .lane_channel = lane_channel};
    int is_there = tt_sim_mail_take(&world->mail, &where, i);
    if (is_there < 0) world->is_broke = 1;
    if (is_there > 0) draw(world, rank, sources[k].at, lane_channel, i);
  }
  return 0;
}

/* ---- strands ------------------------------------------------------------------------- */

/* Takes the next segment; 0: there is none. */
int tt_sim_segment_begin(struct world *world, struct strand *strand, size_t segment)
{
  if (segment >= world->nsegments) return 0;
  size_t nblocks = world->nblocks;
  size_t left = world->play->count - segment * world->segment_count;
  size_t count = left < world->segment_count ? left : world->segment_count;
  strand->segment = segment;
  strand->base = count / nblocks;
  strand->more = count % nblocks;
  strand->oldest = 0;
  strand->started = strand->finished = strand->offering[NEAR] = strand->offering[FAR] = 0;
  return 1;
}

void tt_sim_lane_end(struct world *world, int32_t rank)
{
  if (--world->actors[rank].lanes) return;
  if (world->progress.ended++ == 0) world->result.first_us = world->now_us;
}

/* The window moves over finished steps, and to the next segment behind the last one. 0: the strand has ended. */
static int strand_advance(struct world *world, int32_t rank, struct strand *strand, tuttiResult_t *code)
{
  int finished = strand->finished == UINT64_MAX ? 64 : __builtin_clzll(~strand->finished);
  int all = finished == 64;
  strand->oldest += finished;
  strand->finished = all ? 0 : strand->finished << finished;
  strand->started = all ? 0 : strand->started << finished;
  for (int way = NEAR; way < WAYS; way++) strand->offering[way] = all ? 0 : strand->offering[way] << finished;
  while (strand->oldest == strand->program->schedule.total)
    if (!tt_sim_segment_begin(world, strand, strand->segment + (size_t)world->lanes)) {
      tt_sim_lane_end(world, rank);
      return 0;
    }
  if (!tt_sim_program_covers(strand->program, strand->oldest))
    *code = tt_sim_program_load(strand->program, &world->maker, rank, strand->oldest);
  return *code == tuttiSuccess;
}

/* All earlier steps that step oldest + behind waits for are finished. */
static int may_start(const struct strand *strand, int32_t behind)
{
  uint64_t past = behind ? strand->finished >> (64 - behind) | ~0ull << behind : ~0ull;
  return (strand->program->waits[strand->oldest + behind - strand->program->from] & ~past) == 0;
}

/* Starts what may start, once over the window: 1 if something was finished at that. */
static int window_start(struct world *world, int32_t rank, struct strand *strand)
{
  int32_t left = strand->program->schedule.total - strand->oldest;
  uint64_t waiting = ~strand->started & (left < 64 ? ~(UINT64_MAX >> left) : UINT64_MAX);
  int finished = 0;
  while (waiting) {
    int behind = __builtin_clzll(waiting);
    waiting &= ~(1ull << (63 - behind));
    if (may_start(strand, behind)) finished |= step_start(world, rank, strand, strand->oldest + behind);
  }
  return finished;
}

tuttiResult_t tt_sim_strand_go(struct world *world, int32_t rank, struct strand *strand)
{
  tuttiResult_t code = tuttiSuccess;
  while (strand_advance(world, rank, strand, &code))
    if (!window_start(world, rank, strand)) return code;
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
  struct strand *strand = &actor->strands[event->lane];
  const struct tt_step *step = step_at(strand, event->what);
  uint64_t bit = bit_of(strand, event->what);
  int is_last = 0;
  out->is_busy = 0;
  out->peer = peer_next(world, event->rank, &strand->program->schedule, step, out->peer + 1, way);
  if (out->peer == step->nto) {
    out->step = -1;
    strand->offering[way] &= ~bit;
    is_last = !((strand->offering[NEAR] | strand->offering[FAR]) & bit);
  }
  if (is_last) step_finish(world, strand, event->what, step_bytes(world, strand, step));
  if (way == FAR) port_pass(world, event->rank);
  else port_go(world, event->rank, NEAR);
  return is_last;
}

tuttiResult_t tt_sim_event_play(struct world *world, const struct tt_sim_event *event)
{
  struct strand *strand = &world->actors[event->rank].strands[event->lane];
  int finished = 0;
  switch (event->kind) {
  case TT_HEAD: head_arrives(world, event); break;
  case TT_READY: finished = step_combine(world, event->rank, strand, event->what); break;
  case TT_MADE: finished = step_made(world, event->rank, strand, event->what); break;
  case TT_LEFT: finished = message_leaves(world, event, NEAR); break;
  default: finished = message_leaves(world, event, FAR); break;
  }
  return finished ? tt_sim_strand_go(world, event->rank, strand) : tuttiSuccess;
}
