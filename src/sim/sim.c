/* SPDX-License-Identifier: BSD-3-Clause */
/* The play: steps start, messages pass ports, steps finish. */
#include <string.h>

#include "sim/stage.h"

#define MIB 1048576.0
#define PROGRESS_STEPS 65536
#define KEPT_BYTES ((int64_t)128 << 20) /* of the programs of all ranks together, while TT_SIM_KEEP allows */
#define STEP_BYTES 64                   /* of a step with its operands, about */

enum way { NEAR, FAR, WAYS }; /* through the port of the rank, or of its node */

/* One lane of one rank. Bit 63 - j of the masks stands for step oldest + j. */
struct strand {
  struct tt_sim_program *program;
  struct tt_sim_program own; /* where the rank's program does not hold all */
  size_t segment;
  size_t base, more; /* elements of a block; the first `more` blocks of a share have one more */
  int32_t oldest;
  uint64_t started, finished;
  uint64_t offering[WAYS]; /* made; messages that go this way have not left yet */
  int16_t missing[TT_WINDOW]; /* by step mod TT_WINDOW: messages that no port has drawn */
  double arrived_us[TT_WINDOW]; /* likewise: when the last one that was drawn is there */
};

/* What a rank sends one way. */
struct outlet {
  int32_t step, peer; /* whose messages go now, -1: none; index of its peer */
  uint16_t lane;
  uint8_t is_busy;    /* with a message of this rank */
  uint8_t is_waiting; /* for the node's port */
};

/* A pair of ports: when the one in is free again; how long both were occupied. */
struct port {
  double in_free_us, out_us, in_us;
};

struct node {
  struct port port;
  int32_t first, last; /* ranks that wait for the port out; first -1: none */
  uint8_t is_busy;     /* the port out */
};

struct actor {
  struct tt_sim_program program;
  struct strand *strands;
  int32_t lanes; /* with segments left */
  int32_t in_flight;
  struct outlet out[WAYS];
  struct port port;
  struct node *node;
  int32_t next_waiting;        /* rank; -1: none */
  double cpu_free_us, cpu_us; /* the processor, likewise */
};

struct world {
  const struct tt_sim_play *play;
  struct actor *actors;
  struct node *nodes;
  struct strand *strands; /* of all actors */
  struct tt_sim_maker maker;
  struct tt_sim_events events;
  struct tt_sim_mail mail;
  double now_us, gamma_us; /* gamma: per byte */
  size_t nblocks, segment_count, nsegments; /* blocks of a share, after passes */
  int32_t lanes;
  int is_broke; /* no memory */
  struct tt_sim_progress progress;
  struct tt_sim_result result;
};

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
  while (k < step->nto && (tt_sim_kind(world->play, rank, schedule->peers[step->to + k]) == TT_LINK_NET) != (way == FAR)) k++;
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
  if (world->result.steps % PROGRESS_STEPS || !world->play->watcher.progress) return;
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
static int segment_begin(struct world *world, struct strand *strand, size_t segment)
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

static void lane_end(struct world *world, int32_t rank)
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
    if (!segment_begin(world, strand, strand->segment + (size_t)world->lanes)) {
      lane_end(world, rank);
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

static tuttiResult_t strand_go(struct world *world, int32_t rank, struct strand *strand)
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

static tuttiResult_t event_play(struct world *world, const struct tt_sim_event *event)
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
  return finished ? strand_go(world, event->rank, strand) : tuttiSuccess;
}

/* ---- the whole ------------------------------------------------------------------------- */

static tuttiResult_t no_memory(const struct world *world)
{
  return tt_fail(tuttiSystemError, "no memory to play %d ranks: give the process more",
                 (int)world->play->shape.nranks);
}

static tuttiResult_t actor_make(struct world *world, int32_t rank)
{
  struct actor *actor = &world->actors[rank];
  tuttiResult_t code = tt_sim_program_load(&actor->program, &world->maker, rank, 0);
  if (code) return code;
  int holds_all = actor->program.schedule.nsteps == actor->program.schedule.total;
  actor->strands = world->strands + (size_t)rank * (size_t)world->lanes;
  actor->lanes = world->lanes;
  actor->out[NEAR].step = actor->out[FAR].step = -1;
  actor->node = &world->nodes[tt_sim_node(world->play, rank)];
  for (int32_t lane = 0; lane < world->lanes; lane++)
    actor->strands[lane].program = holds_all ? &actor->program : &actor->strands[lane].own;
  world->progress.total += actor->program.schedule.total;
  world->nblocks = (size_t)actor->program.schedule.shape.nblocks;
  if (holds_all) return tuttiSuccess;
  actor->strands[0].own = actor->program; /* the first lane takes it over */
  actor->program = (struct tt_sim_program){.from = 0};
  return tuttiSuccess;
}

/* The number of segments follows from the number of blocks, which passes may change. */
static void segments_cut(struct world *world)
{
  const struct tt_sim_play *play = world->play;
  size_t nblocks = world->nblocks;
  size_t block_count = play->block_bytes / play->element_bytes;
  world->segment_count = play->count ? play->count : 1;
  if (play->block_bytes && play->count / nblocks >= (block_count ? block_count : 1))
    world->segment_count = (block_count ? block_count : 1) * nblocks;
  world->nsegments = (play->count + world->segment_count - 1) / world->segment_count;
  world->progress.total *= (int64_t)world->nsegments;
}

static tuttiResult_t world_make(struct world *world)
{
  const struct tt_sim_play *play = world->play;
  size_t nranks = (size_t)play->shape.nranks, nnodes = play->topology ? (size_t)play->topology->nnodes : nranks;
  int64_t keep = KEPT_BYTES / STEP_BYTES / ((int64_t)play->shape.nranks * world->lanes);
  if (play->keep) keep = play->keep < TT_WINDOW ? TT_WINDOW : play->keep;
  else if (keep < TT_SIM_KEEP) keep = TT_SIM_KEEP;
  if (!play->is_whole) world->maker.keep = keep < INT32_MAX ? (int32_t)keep : INT32_MAX;
  world->maker.play = play;
  world->gamma_us = play->prices->gamma_us_per_mib / MIB;
  world->actors = tt_alloc(nranks, sizeof *world->actors);
  world->nodes = tt_alloc(nnodes, sizeof *world->nodes);
  world->strands = tt_alloc(nranks * (size_t)world->lanes, sizeof *world->strands);
  if (!world->actors || !world->nodes || !world->strands) return no_memory(world);
  for (size_t node = 0; node < nnodes; node++) world->nodes[node].first = -1;
  for (int32_t rank = 0; rank < play->shape.nranks; rank++) {
    tuttiResult_t code = actor_make(world, rank);
    if (code) return code;
  }
  segments_cut(world);
  return tuttiSuccess;
}

static void world_free(struct world *world)
{
  for (int32_t rank = 0; world->actors && rank < world->play->shape.nranks; rank++)
    tt_sim_program_free(&world->actors[rank].program);
  for (int64_t s = 0; world->strands && s < (int64_t)world->play->shape.nranks * world->lanes; s++)
    tt_sim_program_free(&world->strands[s].own);
  tt_free(world->actors);
  tt_free(world->nodes);
  tt_free(world->strands);
  tt_free(world->maker.order);
  tt_free(world->events.heap);
  tt_free(world->mail.boxes);
}

static tuttiResult_t world_start(struct world *world)
{
  for (int32_t rank = 0; rank < world->play->shape.nranks; rank++)
    for (int32_t lane = 0; lane < world->lanes; lane++) {
      struct strand *strand = &world->actors[rank].strands[lane];
      tuttiResult_t code = tuttiSuccess;
      if (!segment_begin(world, strand, (size_t)lane)) {
        lane_end(world, rank);
        continue;
      }
      int is_empty = strand->program == &strand->own && lane;
      if (is_empty) code = tt_sim_program_load(&strand->own, &world->maker, rank, 0);
      if (!code) code = strand_go(world, rank, strand);
      if (code) return code;
    }
  return tuttiSuccess;
}

static tuttiResult_t world_play(struct world *world)
{
  tuttiResult_t code = world_start(world);
  while (!code && world->events.n && !world->is_broke) {
    struct tt_sim_event event = tt_sim_pop(&world->events);
    world->now_us = event.at_us;
    code = event_play(world, &event);
  }
  return code ? code : world->is_broke ? no_memory(world) : tuttiSuccess;
}

static void busiest_note(struct tt_sim_result *result, int32_t rank, const struct port *port)
{
  double most = port->out_us > port->in_us ? port->out_us : port->in_us;
  if (most <= result->busiest_us) return;
  result->busiest_us = most;
  result->busiest_rank = rank;
  result->busiest_is_out = port->out_us >= port->in_us;
}

static tuttiResult_t world_judge(struct world *world)
{
  struct tt_sim_result *result = &world->result;
  for (int32_t rank = 0; rank < world->play->shape.nranks; rank++) {
    const struct actor *actor = &world->actors[rank];
    for (int32_t lane = 0; actor->lanes && lane < world->lanes; lane++)
      if (actor->strands[lane].oldest < actor->strands[lane].program->schedule.total)
        return tt_fail(tuttiInternalError, "rank %d waits for ever at step %d of a %s", (int)rank,
                       (int)actor->strands[lane].oldest, tt_kinds[world->play->shape.collective].name);
    if (actor->cpu_us > result->processor_us) result->processor_us = actor->cpu_us;
    busiest_note(result, rank, &actor->port);
    busiest_note(result, rank, &actor->node->port);
  }
  result->time_us = world->now_us;
  result->peak_events = world->events.peak;
  return tuttiSuccess;
}

static tuttiResult_t play_check(const struct tt_sim_play *play)
{
  size_t shares = tt_kinds[play->shape.collective].is_shared ? (size_t)play->shape.nranks : 1, bytes;
  if (play->lanes < 0 || play->lanes > TT_SIM_MAX_LANES)
    return tt_fail(tuttiInvalidArgument, "lanes is %d: give 1 to %d", (int)play->lanes, TT_SIM_MAX_LANES);
  if (__builtin_mul_overflow(play->count, play->element_bytes, &bytes) ||
      __builtin_mul_overflow(bytes, shares, &bytes) || bytes > TT_SIM_MAX_BYTES)
    return tt_fail(tuttiInvalidArgument, "%zu elements of %zu bytes, %zu times, are too many: at most 2^60 bytes",
                   play->count, play->element_bytes, shares);
  return tuttiSuccess;
}

tuttiResult_t tt_simulate(const struct tt_sim_play *play, struct tt_sim_result *result)
{
  struct world world = {.play = play, .lanes = play->lanes ? play->lanes : 1};
  tuttiResult_t code = play_check(play);
  if (code) return code;
  code = world_make(&world);
  if (!code) code = world_play(&world);
  if (!code) code = world_judge(&world);
  if (!code && play->watcher.progress) {
    world.progress.steps = world.result.steps;
    world.progress.time_us = world.now_us;
    play->watcher.progress(play->watcher.context, &world.progress);
  }
  if (!code) *result = world.result;
  world_free(&world);
  return code;
}
