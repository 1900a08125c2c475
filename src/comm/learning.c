/* SPDX-License-Identifier: BSD-3-Clause */
/* The learners of a communicator (tuner/learn.h): one for each shape of which enough calls have been made. They decide
 * by which choice a call goes, take its time, and exchange what they know before a call whose number all ranks know.
 *
 * All that decides on a choice is the same on all ranks: the order of calls, the table, and facts that all have taken.
 * A call that needs nothing costs a count.
 *
 * Kinds of memory. Where the table has rows for memory of tuttiMemAlloc, ranks agree before the first call of a shape
 * of more than 12 KiB: it goes by these rows and arms if that call's data are in such memory on all ranks. This is one
 * exchange of facts. Beyond that the kind of memory is a rank's own affair: calls in another kind than most are made
 * like all of their shape, but their times do not count. With the facts of times ranks tell the kind of the calls that
 * have counted: if that is not the one they agreed on, as when a job warms up in other memory, nothing of the shape is
 * kept. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "comm/private.h"
#include "memory/memory.h"
#include "tuner/cache.h"
#include "tuner/explain.h"

#define FIRST_CALLS 940 /* of a shape: by its price. A short job pays nothing */
#define LONG_CALLS 40   /* likewise, of calls of LONG_BYTES or more, of which a short job makes few */
#define LONG_BYTES 131072
#define NEVER UINT32_MAX
#define OTHER_MEMORY TT_LEARN_FACTS /* the fact behind the learner's: 1 if peers do not read IN and OUT in place */
#define BOTH 3          /* IN and OUT, of in_place */
#define PACE_NS 10000000u /* from one step of making an arm ready to the next: a connection takes some 4, of 50 us */

/* ---- a learner for each shape ---- */

/* Finds what is remembered of the shape; NULL: nothing. */
static const struct tt_learnt *learnt_find(const struct tt_table *table, const struct tt_learn_shape *shape)
{
  for (int64_t k = 0; k < table->nlearnt; k++) {
    const struct tt_learnt *learnt = &table->learnt[k];
    if (learnt->collective == shape->collective && learnt->width == shape->width &&
        learnt->size_class == shape->size_class && learnt->memory == shape->memory_kind)
      return learnt;
  }
  return NULL;
}

static void shape_name(struct tt_learn_shape *shape, const struct tt_learning *learning,
                       const struct tt_learn_cell *cell)
{
  int n = (int)(cell - &learning->cells[0][0][0]), row = n / (TT_WIDTHS * TT_SIZE_CLASSES);
  shape->collective = (uint8_t)(row ? TT_REDUCE_SCATTER + row - 1 : TT_ALL_REDUCE);
  shape->width = (uint8_t)(n / TT_SIZE_CLASSES % TT_WIDTHS);
  shape->size_class = (uint8_t)(n % TT_SIZE_CLASSES);
  shape->memory_kind = cell->memory;
}

static uint32_t first_calls(int size_class)
{
  return tt_size_class_bytes(size_class) < LONG_BYTES ? FIRST_CALLS : LONG_CALLS;
}

static void arm_add(struct tt_learn_shape *shape, int *n, const struct tt_choice *choice)
{
  for (int a = 0; a < *n; a++)
    if (tt_choices_same(&shape->arms[a], choice)) return;
  if (*n < TT_LEARN_ARMS) shape->arms[(*n)++] = *choice;
}

/* Begins to learn a shape, if it has several arms and there is room for it. */
static void shape_begin(struct tuttiComm *comm, struct tt_learn_cell *cell)
{
  struct tt_learning *learning = comm->calls.learning;
  const struct tt_table *table = &comm->calls.table;
  struct tt_learn_shape *shape = &learning->shapes[learning->nshapes];
  int n = 0;
  if (comm->facts.settings.learn != TT_LEARN_ON || learning->nshapes == TT_LEARN_SHAPES) return;
  *shape = (struct tt_learn_shape){.calls = 0};
  shape_name(shape, learning, cell);
  shape->calls = first_calls(shape->size_class);
  const struct tt_learnt *learnt = learnt_find(table, shape);
  const struct tt_arms *arms = &table->arms[shape->memory_kind][tt_arms_row(shape->collective)];
  if (learnt) arm_add(shape, &n, &learnt->choice);
  for (int a = 0; a < TT_LEARN_ARMS && arms->of[shape->size_class][a]; a++)
    arm_add(shape, &n, &arms->choices[arms->of[shape->size_class][a] - 1]);
  if (n < 2) return;
  if (learnt) tt_learn_resume(&shape->learn, n, learnt->ns);
  else tt_learn_init(&shape->learn, n);
  cell->shape = (uint16_t)++learning->nshapes;
}

/* The choice of the first calls: as is remembered, else the table's. */
static void cell_choose(struct tt_learning *learning, const struct tt_table *table, struct tt_learn_cell *cell)
{
  struct tt_learn_shape shape;
  shape_name(&shape, learning, cell);
  const struct tt_learnt *learnt = learnt_find(table, &shape);
  uint64_t bytes = tt_size_class_bytes(shape.size_class);
  cell->choice = learnt ? learnt->choice : *tt_table_choice_in(table, cell->memory, shape.collective, bytes);
}

/* 1 if the kind of memory matters to calls of the shape. */
static int has_kinds(const struct tt_table *table, const struct tt_learn_shape *shape)
{
  return tt_size_class_bytes(shape->size_class) > TT_MEMORY_ALIKE && tt_table_has_tutti(table, shape->collective);
}

static void cells_fill(struct tt_learning *learning, const struct tt_table *table)
{
  struct tt_learn_cell *first = &learning->cells[0][0][0];
  for (size_t k = 0; k < sizeof learning->cells / sizeof *first; k++) {
    struct tt_learn_shape shape;
    shape_name(&shape, learning, &first[k]);
    first[k].is_agreed = !has_kinds(table, &shape);
    first[k].quiet = first[k].is_agreed ? first_calls(shape.size_class) + 1 : 1;
    cell_choose(learning, table, &first[k]);
  }
}

tuttiResult_t tt_learning_create(struct tuttiComm *comm)
{
  int is_timed = !comm->facts.piece_bytes; /* times of calls that wait for a GPU say nothing */
  if (comm->facts.nranks == 1 || !is_timed) return tuttiSuccess;
  comm->calls.learning = tt_alloc(1, sizeof *comm->calls.learning);
  if (comm->calls.learning) return tuttiSuccess;
  return tt_fail(tuttiSystemError, "no memory to learn algorithms (TUTTI_LEARN): give the process more");
}

/* The heap that the transport within the host holds. Without such a transport it belongs to others, and may not be
 * looked at without its mutex: the result is NULL. */
static struct tt_heap *heap_find(const struct tuttiComm *comm)
{
  for (int t = 1; t < comm->parts.ntransports; t++)
    if (comm->parts.transports[t]->ops->is_same_host) return tt_process.heap;
  return NULL;
}

void tt_learning_begin(struct tuttiComm *comm)
{
  const struct tt_table *table = &comm->calls.table;
  struct tt_learning *learning = comm->calls.learning;
  int narms = 0, is_needed = table->nlearnt > 0;
  for (int row = 0; row < TT_ARM_ROWS; row++) {
    narms += table->arms[TT_MEMORY_MALLOC][row].n + table->arms[TT_MEMORY_TUTTI][row].n;
    is_needed |= table->tutti_rows[row][0].up_to_bytes != 0;
  }
  if (comm->facts.settings.learn != TT_LEARN_ON) narms = 0;
  if (!narms && !is_needed) tt_learning_destroy(comm);
  if (!comm->calls.learning) return;
  learning->heap = heap_find(comm);
  if (!comm->facts.rank) learning->key = tt_learnt_key(comm);
  cells_fill(learning, table);
}

void tt_learning_destroy(struct tuttiComm *comm)
{
  tt_free(comm->calls.learning);
  comm->calls.learning = NULL;
  comm->calls.learns = NULL;
}

/* ---- kept for later jobs ---- */

static struct tt_learnt learnt_of(const struct tt_learn_shape *shape)
{
  const struct tt_learn_agreed *agreed = &shape->learn.agreed;
  return (struct tt_learnt){.collective = shape->collective,
                            .size_class = shape->size_class,
                            .width = shape->width,
                            .memory = shape->memory_kind,
                            .ns = agreed->reference_ns,
                            .choice = shape->arms[agreed->incumbent]};
}

/* 1 if the cache has to be changed. */
static int shape_keep(struct tt_cache *cache, const struct tuttiComm *comm, const struct tt_learn_shape *shape)
{
  const struct tt_learn_agreed *agreed = &shape->learn.agreed;
  const struct tt_learnt *known = learnt_find(&comm->calls.table, shape);
  const struct tt_learnt learnt = learnt_of(shape);
  if (agreed->state != TT_LEARN_SETTLED || learnt.ns <= 0 || shape->is_mixed) return 0;
  int is_as_long = known && 4 * known->ns < 5 * learnt.ns && 4 * learnt.ns < 5 * known->ns;
  if (is_as_long && tt_choices_same(&known->choice, &learnt.choice)) return 0;
  struct tt_cache_learnt line = {.key = comm->calls.learning->key,
                                 .ranks = comm->facts.nranks,
                                 .nodes = comm->parts.topology.nnodes,
                                 .cores = comm->parts.cluster.cores,
                                 .learnt = learnt};
  snprintf(line.transport, sizeof line.transport, "%s", tt_cluster_transport(&comm->parts.cluster));
  tt_cache_learn(cache, &line);
  return 1;
}

void tt_learning_keep(const struct tuttiComm *comm)
{
  const struct tt_learning *learning = comm->calls.learning;
  struct tt_cache cache;
  int n = 0;
  if (!learning || !learning->nshapes || comm->facts.rank || !tt_cache_wanted(&comm->facts.settings)) return;
  if (comm->parts.views) return; /* it may have fewer ranks by now than its times are of */
  tt_cache_load(&cache, &comm->facts.settings);
  for (int k = 0; k < learning->nshapes; k++) n += shape_keep(&cache, comm, &learning->shapes[k]);
  if (n) tt_cache_store(&cache, &comm->facts.settings);
}

/* ---- what the log says ---- */

/* "; others: circulant +12 %, direct +140 %" */
static void others_text(const struct tt_learn_shape *shape, char *text, size_t size)
{
  const struct tt_learn_agreed *agreed = &shape->learn.agreed;
  char name[TT_CHOICE_TEXT_BYTES];
  size_t used = 0;
  for (int a = 0; a < agreed->narms && used < size; a++) {
    if (a == agreed->incumbent) continue;
    int n = snprintf(text + used, size - used, "%s%s %+.0f %%", used ? ", " : "; others: ",
                     tt_choice_text(&shape->arms[a], name), (double)agreed->known_ppm[a] / 1e4);
    used += n > 0 ? (size_t)n : 0;
  }
}

static void report(const struct tuttiComm *comm, const struct tt_learn_shape *shape, enum tt_learned learned)
{
  const struct tt_learn_agreed *agreed = &shape->learn.agreed;
  enum tt_log_level level = comm->facts.settings.explain ? TT_LOG_ASKED : TT_LOG_INFO;
  char others[320] = "", us[TT_US_BYTES], name[TT_CHOICE_TEXT_BYTES], bytes[TT_BYTES_TEXT_BYTES], time[48] = "";
  if (learned == TT_LEARNED_NOTHING || comm->facts.rank || !tt_log_wants(level)) return;
  const struct tt_learnt learnt = learnt_of(shape);
  const char *predicted = learned == TT_LEARNED_SETTLED ? tt_explain_choice(comm, &learnt) : NULL;
  if (learned == TT_LEARNED_SETTLED) others_text(shape, others, sizeof others);
  if (agreed->reference_ns)
    snprintf(time, sizeof time, ", measured %s us", tt_us_text((double)agreed->reference_ns / 1e3, us));
  tt_log(level, "LEARN %s of up to %s in elements of %d B in %s memory on %d ranks%s%s: %s %s after %llu calls%s%s%s%s",
         tt_kinds[shape->collective].name, tt_bytes_text(tt_size_class_bytes(shape->size_class), bytes),
         1 << shape->width, shape->is_mixed ? "mixed" : tt_memory_names[shape->memory_kind], comm->facts.nranks,
         comm->facts.name[0] ? " of " : "", comm->facts.name,
         learned == TT_LEARNED_SETTLED ? "settled on"
         : learned == TT_LEARNED_DRIFT ? "times have changed, all are tried again beside"
                                       : "goes on with",
         tt_choice_text(&shape->arms[agreed->incumbent], name), (unsigned long long)shape->calls, time, others,
         predicted ? "; by predictions: " : "", predicted ? predicted : "");
}

/* ---- the exchange ---- */

const struct tt_call *tt_learning_call(const struct tuttiComm *comm)
{
  const struct tt_learning *learning = comm->calls.learning;
  return learning && learning->is_exchanging ? &learning->exchange.call : NULL;
}

/* An all-reduce goes like the calls of its shape: its plan is made, its links are open, and it takes no longer than one
 * of them. Other shapes go by the table, whatever is learnt of such calls. */
static const struct tt_choice *exchange_choice(const struct tuttiComm *comm, const struct tt_learn_shape *shape)
{
  if (shape->collective == TT_ALL_REDUCE) return &shape->arms[shape->learn.agreed.incumbent];
  return tt_table_choice(&comm->calls.table, TT_ALL_REDUCE, sizeof comm->calls.learning->facts);
}

/* Exchanges learning->facts, which become the maxima of all ranks. */
static tuttiResult_t exchange_start(struct tuttiComm *comm, const struct tt_choice *choice,
                                    const struct tt_call *behind)
{
  struct tt_learning *learning = comm->calls.learning;
  struct tt_plan *plan;
  uint64_t began_ns = tt_now_ns();
  learning->exchange = (struct tt_binding){.call = {.op = ++comm->queue.last_op,
                                                    .count = TT_LEARN_FACTS + 1,
                                                    .collective = TT_ALL_REDUCE,
                                                    .type = tuttiInt64,
                                                    .redop = tuttiMax},
                                           .in = learning->facts,
                                           .out = learning->facts,
                                           .before = 1};
  tt_call_before(&learning->exchange.call, behind);
  tuttiResult_t result = tt_plan_bind(comm, &learning->exchange, choice, &plan);
  if (result == tuttiSuccess) result = tt_run_start(comm->parts.run, plan, &learning->exchange);
  if (result != tuttiSuccess) return tt_comm_give_up(comm, result, learning->exchange.call.op);
  learning->exchange_ns = began_ns;
  learning->is_exchanging = 1;
  return tuttiSuccess;
}

static enum tt_memory memory_told(const struct tt_learning *learning)
{
  return learning->facts[OTHER_MEMORY] ? TT_MEMORY_MALLOC : TT_MEMORY_TUTTI;
}

static tuttiResult_t exchange(struct tuttiComm *comm, struct tt_learn_shape *shape, const struct tt_call *behind,
                              int *moved)
{
  struct tt_learning *learning = comm->calls.learning;
  tuttiResult_t result = tuttiSuccess;
  if (!learning->is_exchanging) {
    tt_learn_tell(&shape->learn, learning->facts);
    learning->facts[OTHER_MEMORY] = shape->memory && (shape->memory - 1) % 4 != BOTH;
    result = exchange_start(comm, exchange_choice(comm, shape), behind);
  }
  if (result == tuttiSuccess) result = tt_run_poll(comm->parts.run, moved);
  if (result != tuttiSuccess) return result;
  tt_learn_exchanged(&shape->learn, tt_now_ns() - learning->exchange_ns);
  learning->is_exchanging = shape->is_due = 0;
  if (has_kinds(&comm->calls.table, shape)) shape->is_mixed |= memory_told(learning) != shape->memory_kind;
  if (!shape->nalike && shape->nother) shape->memory = 0; /* the job uses another kind by now */
  shape->nalike = shape->nother = 0;
  report(comm, shape, tt_learn_agree(&shape->learn, learning->facts));
  return tuttiSuccess;
}

/* ---- around a call ---- */

/* 1 if peers read messages of these bytes where they lie, as far as settings say. */
static unsigned is_in_place(const struct tuttiComm *comm, const void *data, size_t len)
{
  const struct tt_heap *heap = comm->calls.learning->heap;
  uint64_t offset;
  return heap && len >= (uint64_t)comm->facts.settings.shm_direct_bytes && tt_heap_has(heap, data, len, &offset);
}

/* The ranges of a call of which it is true: 1 for IN, 2 for OUT. Data that travel in another type are in buffers. */
static unsigned in_place(const struct tuttiComm *comm, const struct tt_binding *binding)
{
  const struct tt_call *call = &binding->call;
  size_t share = call->count * tt_type_size(call->type), all = share * (size_t)comm->facts.nranks;
  int is_whole = !binding->shares && call->collective != TT_ALL_REDUCE; /* one of the two has all shares, in a row */
  if (tt_call_wire_type(call) != call->type) return 0;
  size_t in = is_whole && call->collective != TT_ALL_GATHER ? all : share;
  size_t out = is_whole && call->collective != TT_REDUCE_SCATTER ? all : share;
  return is_in_place(comm, binding->in, in) | is_in_place(comm, binding->out, out) << 1;
}

/* A number for the kinds of memory of a call; not 0. */
static uintptr_t memory_of(const struct tuttiComm *comm, const struct tt_binding *binding)
{
  const struct tt_trigger *trigger = binding->trigger;
  uintptr_t in = trigger && trigger->slots && trigger->in_share >= 0; /* it is a GPU's */
  uintptr_t out = trigger && trigger->slots && trigger->out_share >= 0;
  return (in * 2 + out) * 4 + 1 + in_place(comm, binding);
}

/* Tells how calls of a size are done, for a user who wonders. */
static void memory_report(const struct tuttiComm *comm, const struct tt_learn_cell *cell, const struct tt_call *call)
{
  char size[TT_BYTES_TEXT_BYTES], algorithm[TT_CHOICE_TEXT_BYTES];
  if (comm->facts.rank || !tt_log_wants(TT_LOG_INFO)) return;
  tt_log(TT_LOG_INFO, "%s of %s: its buffers are in %s, so calls of its size begin with %s", tt_call_name(call),
         tt_bytes_text(call->count * tt_type_size(tt_call_wire_type(call)), size),
         cell->memory == TT_MEMORY_TUTTI ? "memory of tuttiMemAlloc, which peers read where it lies"
                                         : "other memory than that of tuttiMemAlloc on some rank, and are copied",
         tt_choice_text(&cell->choice, algorithm));
}

/* Before the first call of a shape: agrees on the kind of memory, and makes the choice for it. */
static tuttiResult_t memory_agree(struct tuttiComm *comm, struct tt_learn_cell *cell, const struct tt_binding *binding,
                                  int *moved)
{
  struct tt_learning *learning = comm->calls.learning;
  const struct tt_table *table = &comm->calls.table;
  tuttiResult_t result = tuttiSuccess;
  if (!learning->is_exchanging) {
    memset(learning->facts, 0, sizeof learning->facts);
    learning->facts[OTHER_MEMORY] = in_place(comm, binding) != BOTH;
    result = exchange_start(comm, tt_table_choice(table, TT_ALL_REDUCE, sizeof learning->facts), &binding->call);
  }
  if (result == tuttiSuccess) result = tt_run_poll(comm->parts.run, moved);
  cell->quiet = 1;
  if (result != tuttiSuccess) return result;
  learning->is_exchanging = 0;
  cell->is_agreed = 1;
  cell->memory = (uint8_t)memory_told(learning);
  cell->quiet = first_calls((int)((cell - &learning->cells[0][0][0]) % TT_SIZE_CLASSES));
  cell_choose(learning, table, cell);
  memory_report(comm, cell, &binding->call);
  return tuttiSuccess;
}

/* 1 if the time of the call is to count. */
static int counts(const struct tuttiComm *comm, struct tt_learn_shape *shape, const struct tt_binding *binding)
{
  if (!tt_learn_is_timed(&shape->learn)) return 0;
  uintptr_t memory = memory_of(comm, binding);
  if (!shape->memory) shape->memory = memory;
  shape->nalike += shape->memory == memory;
  shape->nother += shape->memory != memory;
  return shape->memory == memory;
}

/* Goes on with what the next arm needs, in few steps: each costs as much as many a call, on all ranks of a core. */
static void arm_prepare(struct tuttiComm *comm, struct tt_learn_shape *shape, const struct tt_binding *binding)
{
  int arm = tt_learn_unready(&shape->learn), crowd = comm->facts.oversubscribed;
  if (arm < 0 || shape->is_stuck) return;
  uint64_t now = tt_now_ns(), bytes = binding->call.count << shape->width;
  if (now < comm->calls.learning->ready_ns) return;
  struct tt_binding call = *binding;
  struct tt_plan *plan;
  tuttiResult_t result = tt_plan_bind(comm, &call, &shape->arms[arm], &plan);
  if (result == tuttiSuccess) result = tt_plan_prepare(comm->parts.exec, plan, bytes, call.block_bytes);
  if (result == tuttiSuccess) tt_learn_ready(&shape->learn);
  else if (result != tuttiInProgress) shape->is_stuck = 1;
  else comm->calls.learning->ready_ns = now + PACE_NS * (uint64_t)(crowd ? crowd : 1);
}

tuttiResult_t tt_learning_turn(struct tuttiComm *comm, struct tt_learn_cell *cell, const struct tt_binding *binding,
                               int *moved)
{
  struct tt_learning *learning = comm->calls.learning;
  if (!cell->is_agreed) return memory_agree(comm, cell, binding, moved);
  if (!cell->shape) shape_begin(comm, cell);
  if (!cell->shape) {
    cell->quiet = NEVER;
    return tuttiSuccess;
  }
  struct tt_learn_shape *shape = &learning->shapes[cell->shape - 1];
  tuttiResult_t result = shape->is_due ? exchange(comm, shape, &binding->call, moved) : tuttiSuccess;
  if (result != tuttiSuccess) {
    cell->quiet = 1;
    return result;
  }
  arm_prepare(comm, shape, binding);
  cell->choice = shape->arms[tt_learn_arm(&shape->learn)];
  comm->calls.learns = cell;
  learning->began_ns = counts(comm, shape, binding) ? tt_now_ns() : 0;
  return tuttiSuccess;
}

void tt_learning_end(struct tuttiComm *comm)
{
  struct tt_learning *learning = comm->calls.learning;
  struct tt_learn_cell *cell = comm->calls.learns;
  struct tt_learn_shape *shape = &learning->shapes[cell->shape - 1];
  uint64_t ns = learning->began_ns ? tt_now_ns() - learning->began_ns : 0;
  comm->calls.learns = NULL;
  shape->is_due = (uint8_t)tt_learn_step(&shape->learn, ns);
  shape->calls++;
  cell->quiet = 1;
  if (shape->is_due) return;
  uint32_t quiet = tt_learn_quiet(&shape->learn);
  tt_learn_skip(&shape->learn, quiet);
  shape->calls += quiet;
  cell->quiet += quiet;
  if (quiet) cell->choice = shape->arms[tt_learn_arm(&shape->learn)];
}
