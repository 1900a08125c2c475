/* SPDX-License-Identifier: BSD-3-Clause */
/* Measured times, and the agreement of ranks on them. All ranks must come to the same plan. So from here on there are
 * only sums and products in one order, and no function of a library that differs from host to host. */
#include <stdlib.h>
#include <string.h>

#include "fusion/private.h"
#include "tuner/probe.h"

#define TOLD 4096    /* messages whose times ranks report to each other; later ones are left out */
#define MOST_US 1e12 /* that anything takes */

/* ---- taking times: the mutex is held ---- */

static double us_between(uint64_t from_ns, uint64_t to_ns)
{
  return to_ns > from_ns ? (double)(to_ns - from_ns) / 1000 : 0;
}

/* Takes the times of the step. Tensors that were not waited for yet count as waited for now. */
void tt_fusion_times_take(const struct config *config, struct shared *shared, uint64_t now_ns)
{
  struct times *times = &shared->times;
  int slot = (int)(shared->step % HISTORY);
  uint64_t first_ns = now_ns, last_ns = 0;
  if (times->timed == shared->step) return;
  for (int i = 0; i < config->n; i++) {
    struct gradient *gradient = &shared->gradients[i];
    if (gradient->waited < shared->step) gradient->wait_ns = gradient->waited_ns = now_ns;
    gradient->ready_us[slot] = (float)us_between(times->first_push_ns, gradient->push_ns);
    if (i) gradient[-1].forward_us[slot] = (float)us_between(gradient[-1].waited_ns, gradient->wait_ns);
    if (gradient->wait_ns < first_ns) first_ns = gradient->wait_ns;
    if (gradient->waited_ns > last_ns) last_ns = gradient->waited_ns;
  }
  times->backward_us[slot] = (float)us_between(times->first_push_ns, first_ns);
  times->last_wait_ns = last_ns;
  times->timed = shared->step;
}

/* Begins a step. Forward of the last layer ends with the first push of the next step, because the time until then is
 * the same for any plan. */
void tt_fusion_step_begins(const struct config *config, struct shared *shared, uint64_t now_ns)
{
  struct times *times = &shared->times;
  if (shared->step) {
    int slot = (int)(shared->step % HISTORY);
    tt_fusion_times_take(config, shared, now_ns);
    shared->gradients[config->n - 1].forward_us[slot] = (float)us_between(times->last_wait_ns, now_ns);
    times->iteration_us = us_between(times->first_push_ns, now_ns);
    times->exposed_us = (double)times->wait_sum_ns / 1000;
    times->iterations_us[slot] = (float)times->iteration_us;
    times->recorded = shared->step;
  }
  shared->step++;
  shared->npushed = 0;
  shared->steps[shared->step % 2].scale = shared->scale;
  times->first_push_ns = now_ns;
  times->wait_sum_ns = 0;
}

/* ---- the times that a rank reports ---- */

static int by_size(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Sorts the slots of at most `most` steps up to and with `last`, without those before `since`. Returns how many. */
static int slots_sort(const float slots[HISTORY], uint64_t since, uint64_t last, int most, float sorted[HISTORY])
{
  int n = 0;
  for (uint64_t step = last; step >= since && n < most; step--) sorted[n++] = slots[step % HISTORY];
  qsort(sorted, (size_t)n, sizeof *sorted, by_size);
  return n;
}

static double median(const float slots[HISTORY], uint64_t since, uint64_t last)
{
  float sorted[HISTORY];
  int n = slots_sort(slots, since, last, HISTORY, sorted);
  return n ? ((double)sorted[(n - 1) / 2] + (double)sorted[n / 2]) / 2 : 0;
}

/* Half of what is between the quartiles. */
static double spread(const float slots[HISTORY], uint64_t since, uint64_t last)
{
  float sorted[HISTORY];
  int n = slots_sort(slots, since, last, HISTORY, sorted);
  return n ? ((double)sorted[n - 1 - n / 4] - (double)sorted[n / 4]) / 2 : 0;
}

static int told_of(const struct plan *plan)
{
  return plan->nmessages < TOLD ? plan->nmessages : TOLD;
}

_Static_assert(TT_TRIAL_STEPS <= HISTORY, "a trial's steps are kept");

/* Returns the time of an iteration, by the last ones in which all was sent by the present plan; 0: there was none. */
static double iteration(const struct shared *shared)
{
  float sorted[HISTORY];
  const struct times *times = &shared->times;
  int n = slots_sort(times->iterations_us, shared->planned.step + 1, times->recorded, TT_TRIAL_STEPS, sorted);
  return tt_trial_us(sorted, n);
}

/* Reports ready times and their spread, forward, backward and iteration times, of which the longest of any rank counts,
 * and times of messages in each of the last steps, below 0, so that the shortest counts: that of the rank which began
 * the message last in that step. The others waited for it. */
static void facts_tell(struct tuttiFusion *fusion, double *facts)
{
  struct shared *shared = &fusion->shared;
  const struct engine *engine = &fusion->engine;
  size_t n = (size_t)fusion->config.n;
  for (size_t i = 0; i < n; i++) { /* so that no push has to wait for all of them */
    pthread_mutex_lock(&shared->mutex);
    facts[i] = median(shared->gradients[i].ready_us, 2, shared->times.recorded);
    facts[n + i] = median(shared->gradients[i].forward_us, 2, shared->times.recorded);
    facts[2 * n + i] = spread(shared->gradients[i].ready_us, 2, shared->times.recorded);
    pthread_mutex_unlock(&shared->mutex);
  }
  pthread_mutex_lock(&shared->mutex);
  facts[3 * n] = median(shared->times.backward_us, 2, shared->times.recorded);
  facts[3 * n + 1] = iteration(shared);
  pthread_mutex_unlock(&shared->mutex);
  double *told = facts + 3 * n + 2;
  for (int m = 0; m < told_of(engine->used); m++)
    for (int k = 0; k < HISTORY; k++) *told++ = -engine->messages[m].took_us[k];
}

/* Times come from other ranks, whose memory may be damaged: a plan is made of nothing else than times. */
static double sane_us(double us)
{
  return us > 0 ? us < MOST_US ? us : MOST_US : 0;
}

static void model_take(struct known *known, const double *facts)
{
  size_t n = (size_t)known->model.n;
  double last_us = sane_us(facts[3 * n]);
  for (size_t i = 0; i < n; i++) {
    known->facts[i].ready_us = sane_us(facts[i]);
    known->facts[i].forward_us = sane_us(facts[n + i]);
    known->facts[i].spread_us = sane_us(facts[2 * n + i]);
    if (known->facts[i].ready_us > last_us) last_us = known->facts[i].ready_us;
  }
  known->model.backward_us = last_us;
}

/* Longer messages are of the last class. */
static int class_of(uint64_t bytes)
{
  int class = tt_size_class(bytes);
  return class < 0 ? TT_SIZE_CLASSES - 1 : class;
}

/* Adds up measured and priced times of the messages of each size; told: what they took in each step, below 0. */
static void took_add(const struct tuttiFusion *fusion, const double *told, double *measured, double *priced)
{
  const struct plan *plan = fusion->engine.used;
  uint64_t first = fusion->shared.planned.step > 2 ? fusion->shared.planned.step : 2;
  for (int m = 0; m < told_of(plan); m++) {
    const struct message *message = &plan->messages[m];
    int class = class_of(message->wire_bytes);
    float took_us[HISTORY];
    for (int k = 0; k < HISTORY; k++) took_us[k] = (float)sane_us(-*told++);
    if (!message->count) continue; /* it was not sent */
    measured[class] += median(took_us, first, fusion->engine.step);
    priced[class] += tt_message_us(&fusion->config.priced, message->wire_bytes);
  }
}

/* Takes measured / priced times of the messages of each size. A plan may have only one message of a size of which
 * others had many, so older measurements count half at each agreement. */
static void ratios_take(struct tuttiFusion *fusion, const double *told)
{
  struct known *known = &fusion->engine.known;
  double measured[TT_SIZE_CLASSES] = {0}, priced[TT_SIZE_CLASSES] = {0};
  took_add(fusion, told, measured, priced);
  for (int c = 0; c < TT_SIZE_CLASSES; c++) {
    if (!(measured[c] > 0 && priced[c] > 0)) continue;
    double weight = known->known_us[c] / 2;
    known->ratios[c] = (measured[c] + weight * known->ratios[c]) / (priced[c] + weight);
    known->known_us[c] = priced[c] + weight;
  }
}

static void cost_make(const struct config *config, struct known *known)
{
  uint64_t bytes[TT_SIZE_CLASSES];
  double us[TT_SIZE_CLASSES];
  const int n = TT_SIZE_CLASSES;
  for (int c = 0; c < n; c++) {
    double ratio = tt_ratio_at(known->ratios, c);
    bytes[c] = tt_size_class_bytes(c);
    us[c] = sane_us(tt_message_us(&config->priced, bytes[c]) * (ratio > 0 ? ratio : 1));
  }
  /* A link's burst lets single short messages pass quickly, but not a row of them: a byte takes no less than it does at
   * best in longer ones. */
  double byte_us = us[n - 1] / (double)bytes[n - 1];
  for (int c = n - 2; c >= 0; c--) {
    if (us[c] < byte_us * (double)bytes[c]) us[c] = byte_us * (double)bytes[c];
    else byte_us = us[c] / (double)bytes[c] < byte_us ? us[c] / (double)bytes[c] : byte_us;
  }
  known->cost = tt_message_cost_points(bytes, us, n);
  known->cost.free = known->free;
  known->cost.channels = config->nplanned;
}

/* ---- before anything was sent ---- */

#define PROBES 3
#define FREE_LEAST 0.15 /* where nothing is free, 2 ranks on 2 cores, 3 of 36 fusions measured 0.11 to 0.22 */

/* A rank may have been stopped in one of the batches, and sizes that seem that expensive are not sent, nor measured
 * again. */
static const struct tt_probe_budget budget = {.batches = 2, .point_us = 200000};

static const struct tt_probe_point points[PROBES] = {
    {.bytes = 2048, .times = 16}, {.bytes = 32768, .times = 8}, {.bytes = 524288, .times = 4}};

/* Sends rows of the messages of the first n points; times are means over all ranks. */
static tuttiResult_t rows_probe(const struct config *config, int n, int is_full, struct tt_probe *probe)
{
  struct tt_probe_point some[PROBES];
  tuttiResult_t result = tuttiSuccess;
  for (int k = 0; k < n; k++) {
    some[k] = points[k];
    some[k].first_bytes = points[k].bytes;
    some[k].first_times = (uint32_t)config->nplanned;
  }
  tt_probe_begin(probe, &budget, some, n);
  while (probe->times && result == tuttiSuccess) {
    uint64_t began_ns = tt_now_ns();
    result = tt_fusion_row(config, probe->bytes, (int)probe->times, is_full);
    double us = us_between(began_ns, tt_now_ns()) / probe->times / config->nranks;
    if (result == tuttiSuccess) result = tt_fusion_run(config, TT_ALL_REDUCE, &us, 1, tuttiFloat64, tuttiSum);
    tt_probe_took(probe, sane_us(us), 0);
  }
  return result;
}

/* Finds the part of a start-up in which the links are free for other messages (flight.h): that by which one of the
 * shortest messages takes less time in a row with all channels in use than in a row of one after the other. */
static tuttiResult_t free_probe(const struct config *config, struct known *known)
{
  struct tt_probe probe;
  double alone_us = tt_message_us(&known->cost, points[0].bytes);
  double startup_us = alone_us - known->cost.byte_us * (double)points[0].bytes;
  if (config->nplanned < 2 || !(startup_us > 0)) return tuttiSuccess;
  tuttiResult_t result = rows_probe(config, 1, 1, &probe);
  if (result != tuttiSuccess) return result;
  double us = probe.rows[0].least_us, free = (alone_us - us) / startup_us;
  known->free = free < FREE_LEAST ? 0 : free > 1 ? 1 : free;
  if (config->rank == 0)
    tt_log(TT_LOG_INFO, "fusion: a message of %u bytes takes %.1f us, or %.1f with %d in flight: links are free in "
           "%.0f %% of its start-up", points[0].bytes, alone_us, us, config->nplanned, 100 * known->free);
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_probe(const struct config *config, struct known *known)
{
  struct tt_probe probe;
  int n = 0;
  while (n < PROBES && points[n].bytes * (size_t)config->nplanned <= config->buffer_bytes) n++;
  tuttiResult_t result = n ? rows_probe(config, n, 0, &probe) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  for (int k = 0; k < n && probe.rows[k].is_done; k++) {
    double us = probe.rows[k].least_us, priced_us = tt_message_us(&config->priced, points[k].bytes);
    if (!(us > 0 && priced_us > 0)) continue;
    known->ratios[class_of(points[k].bytes)] = us / priced_us;
    known->known_us[class_of(points[k].bytes)] = priced_us * points[k].times;
  }
  cost_make(config, known);
  if (known->known_us[class_of(points[0].bytes)] > 0) result = free_probe(config, known);
  known->cost.free = known->free;
  return result;
}

tuttiResult_t tt_fusion_agree(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct engine *engine = &fusion->engine;
  size_t n = (size_t)config->n, count = 3 * n + 2 + (size_t)told_of(engine->used) * HISTORY;
  double *facts = tt_alloc(count, sizeof *facts);
  if (!facts) return tt_fail(tuttiSystemError, "out of memory for the times of %d tensors", config->n);
  facts_tell(fusion, facts);
  tuttiResult_t result = tt_fusion_run(config, TT_ALL_REDUCE, facts, count, tuttiFloat64, tuttiMax);
  if (result == tuttiSuccess) {
    model_take(&engine->known, facts);
    ratios_take(fusion, facts + 3 * n + 2);
    cost_make(config, &engine->known);
    engine->agreements++;
    result = tt_fusion_plans_renew(fusion, sane_us(facts[3 * n + 1]));
    engine->agree_step = tt_trial_next(&engine->trial, engine->step);
  }
  tt_free(facts);
  return result;
}
