/* SPDX-License-Identifier: BSD-3-Clause */
/* What was measured, and what ranks agree on of it. All ranks must come to the same plan, so that from here on there is
 * nothing but sums and products in one order, and no function of a library that differs from host to host. */
#include <stdlib.h>
#include <string.h>

#include "fuser/private.h"

#define TOLD 4096    /* messages of which ranks tell each other what they took; of later ones they do not */
#define CLASSES 64   /* sizes: powers of two from 64 bytes on, and in the middle between two */

/* ---- taking times: the mutex is held ---- */

static double us_between(uint64_t from_ns, uint64_t to_ns)
{
  return to_ns > from_ns ? (double)(to_ns - from_ns) / 1000 : 0;
}

/* Tensors that were not waited for yet count as waited for now. */
void tt_fuser_times_take(struct tuttiFusion *fuser, uint64_t now_ns)
{
  int slot = (int)(fuser->step % HISTORY);
  uint64_t first_ns = now_ns, last_ns = 0;
  if (fuser->timed == fuser->step) return;
  for (int i = 0; i < fuser->n; i++) {
    struct tensor *tensor = &fuser->tensors[i];
    if (tensor->waited < fuser->step) tensor->wait_ns = tensor->waited_ns = now_ns;
    tensor->ready_us[slot] = (float)us_between(fuser->first_push_ns, tensor->push_ns);
    if (i) tensor[-1].forward_us[slot] = (float)us_between(tensor[-1].waited_ns, tensor->wait_ns);
    if (tensor->wait_ns < first_ns) first_ns = tensor->wait_ns;
    if (tensor->waited_ns > last_ns) last_ns = tensor->waited_ns;
  }
  fuser->backward_us[slot] = (float)us_between(fuser->first_push_ns, first_ns);
  fuser->last_wait_ns = last_ns;
  fuser->timed = fuser->step;
}

/* Forward of the last layer ends with the first push of the next step: what is before that is the same whatever is
 * planned. */
void tt_fuser_step_begins(struct tuttiFusion *fuser, uint64_t now_ns)
{
  if (fuser->step) {
    tt_fuser_times_take(fuser, now_ns);
    fuser->tensors[fuser->n - 1].forward_us[fuser->step % HISTORY] = (float)us_between(fuser->last_wait_ns, now_ns);
    fuser->iteration_us = us_between(fuser->first_push_ns, now_ns);
    fuser->exposed_us = (double)fuser->wait_sum_ns / 1000;
    fuser->iterations_us[fuser->step % HISTORY] = (float)fuser->iteration_us;
    fuser->recorded = fuser->step;
  }
  fuser->step++;
  fuser->npushed = 0;
  fuser->first_push_ns = now_ns;
  fuser->wait_sum_ns = 0;
  fuser->step_before[fuser->step % 2] = fuser->before;
  fuser->step_after[fuser->step % 2] = fuser->after;
}

/* ---- what a rank tells ---- */

static int by_size(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Of the slots of the last steps up to and with `last`, but of none before `since`. */
static double median(const float slots[HISTORY], uint64_t since, uint64_t last)
{
  float sorted[HISTORY];
  int n = 0;
  for (uint64_t step = last; step >= since && n < HISTORY; step--) sorted[n++] = slots[step % HISTORY];
  if (!n) return 0;
  qsort(sorted, (size_t)n, sizeof *sorted, by_size);
  return ((double)sorted[(n - 1) / 2] + (double)sorted[n / 2]) / 2;
}

static int told_of(const struct tuttiFusion *fuser)
{
  return fuser->nmessages < TOLD ? (int)fuser->nmessages : TOLD;
}

_Static_assert(TT_TRIAL_STEPS <= HISTORY, "a trial's steps are kept");

/* The shortest of the last iterations in which all was sent as planned now; 0: there was none. */
static double shortest(const struct tuttiFusion *fuser)
{
  double least = 0;
  int n = 0;
  for (uint64_t step = fuser->recorded; step > fuser->planned_step && n < TT_TRIAL_STEPS; step--, n++) {
    double us = fuser->iterations_us[step % HISTORY];
    if (n == 0 || us < least) least = us;
  }
  return least;
}

/* ready, forward, backward, iteration: of these the most counts; and messages, of which the mean does: what one rank
 * seems to wait less, because it was late for the message before, another one waits more. */
static void facts_tell(struct tuttiFusion *fuser, double *facts)
{
  size_t n = (size_t)fuser->n;
  uint64_t first = fuser->planned_step > 2 ? fuser->planned_step : 2;
  for (size_t i = 0; i < n; i++) { /* nobody who pushes has to wait for all of them */
    pthread_mutex_lock(&fuser->mutex);
    facts[i] = median(fuser->tensors[i].ready_us, 2, fuser->recorded);
    facts[n + i] = median(fuser->tensors[i].forward_us, 2, fuser->recorded);
    pthread_mutex_unlock(&fuser->mutex);
  }
  pthread_mutex_lock(&fuser->mutex);
  facts[2 * n] = median(fuser->backward_us, 2, fuser->recorded);
  facts[2 * n + 1] = shortest(fuser);
  for (int m = 0; m < told_of(fuser); m++)
    facts[2 * n + 2 + (size_t)m] = median(fuser->messages[m].took_us, first, fuser->engine_step);
  pthread_mutex_unlock(&fuser->mutex);
}

static void net_take(struct tuttiFusion *fuser, const double *facts)
{
  size_t n = (size_t)fuser->n;
  double last_us = facts[2 * n];
  for (size_t i = 0; i < n; i++) {
    fuser->facts[i].ready_us = facts[i];
    fuser->facts[i].forward_us = facts[n + i];
    if (facts[i] > last_us) last_us = facts[i];
  }
  fuser->net.backward_us = last_us;
}

/* 2 k for messages from 2^(k+6) bytes on, 2 k + 1 from one and a half times that on. */
static int class_of(uint64_t bytes)
{
  if (bytes < 64) return 0;
  int power = 63 - __builtin_clzll(bytes);
  int class = 2 * (power - 6) + (int)(bytes >> (power - 1) & 1);
  return class < CLASSES - 2 ? class : CLASSES - 3;
}

static uint64_t class_bytes(int class)
{
  uint64_t power = (uint64_t)64 << class / 2;
  return class % 2 ? power + power / 2 : power;
}

/* Measured / priced of the messages of each size; took: on all ranks together. A plan may have only one of a size of
 * which others had many: at each agreement what was known counts half. */
static void ratios_take(struct tuttiFusion *fuser, const double *took)
{
  double measured[CLASSES] = {0}, priced[CLASSES] = {0};
  for (int m = 0; m < told_of(fuser); m++) {
    const struct message *message = &fuser->messages[m];
    int class = class_of(message->wire_bytes);
    measured[class] += took[m];
    priced[class] += tt_message_us(&fuser->priced, message->wire_bytes) * fuser->nranks;
  }
  for (int c = 0; c < CLASSES - 2; c++) {
    if (!(measured[c] > 0 && priced[c] > 0)) continue;
    double weight = fuser->known_us[c] / 2;
    fuser->ratios[c] = (measured[c] + weight * fuser->ratios[c]) / (priced[c] + weight);
    fuser->known_us[c] = priced[c] + weight;
  }
}

/* Between two known ratios on a straight line over the classes, beyond them the nearest; 1: none is known. */
static double ratio_at(const struct tuttiFusion *fuser, int class)
{
  int below = class, above = class;
  while (below >= 0 && !(fuser->ratios[below] > 0)) below--;
  while (above < CLASSES - 2 && !(fuser->ratios[above] > 0)) above++;
  if (below < 0 && above >= CLASSES - 2) return 1;
  if (below < 0) return fuser->ratios[above];
  if (above >= CLASSES - 2 || above == below) return fuser->ratios[below];
  double part = (double)(class - below) / (double)(above - below);
  return fuser->ratios[below] + (fuser->ratios[above] - fuser->ratios[below]) * part;
}

static void cost_make(struct tuttiFusion *fuser)
{
  uint64_t bytes[CLASSES];
  double us[CLASSES];
  int n = 0;
  for (int c = 0; c < CLASSES - 2 && n < TT_COST_PIECES - 1; c++, n++) {
    bytes[n] = class_bytes(c);
    us[n] = tt_message_us(&fuser->priced, bytes[n]) * ratio_at(fuser, c);
  }
  /* A link's burst lets single short ones pass quickly, but not a row of them: a byte takes no less than it does at
   * best in longer ones. */
  double byte_us = us[n - 1] / (double)bytes[n - 1];
  for (int c = n - 2; c >= 0; c--) {
    if (us[c] < byte_us * (double)bytes[c]) us[c] = byte_us * (double)bytes[c];
    else byte_us = us[c] / (double)bytes[c] < byte_us ? us[c] / (double)bytes[c] : byte_us;
  }
  fuser->cost = tt_message_cost_points(bytes, us, n);
}

/* ---- before anything was sent ---- */

#define PROBES 3
#define PROBE_ROWS 2
#define PROBE_MOST_US 200000 /* longer ones are not tried if they would take so long */

/* So many messages of so many bytes in a row: the mean time of one, over all ranks, in the quicker of two rows: in one
 * a rank may have been stopped, and sizes that seem that dear are not sent, nor measured again. The first messages open
 * links and make plans. */
static tuttiResult_t probe(struct tuttiFusion *fuser, size_t bytes, int messages, double *us)
{
  tuttiResult_t result = tt_fuser_row(fuser, bytes, fuser->nchannels);
  for (int k = 0; k < PROBE_ROWS && result == tuttiSuccess; k++) {
    uint64_t began_ns = tt_now_ns();
    result = tt_fuser_row(fuser, bytes, messages);
    double row_us = us_between(began_ns, tt_now_ns()) / messages / fuser->nranks;
    if (result == tuttiSuccess) result = tt_fuser_run(fuser, TT_ALL_REDUCE, &row_us, 1, tuttiFloat64, tuttiSum);
    if (k == 0 || row_us < *us) *us = row_us;
  }
  return result;
}

tuttiResult_t tt_fuser_probe(struct tuttiFusion *fuser)
{
  static const struct {
    size_t bytes;
    int messages;
  } probes[PROBES] = {{2048, 16}, {32768, 8}, {524288, 4}};
  tuttiResult_t result = tuttiSuccess;
  double us = 0;
  for (int k = 0; k < PROBES && result == tuttiSuccess; k++) {
    if (probes[k].bytes * (size_t)fuser->nchannels > fuser->buffer_bytes) break;
    if (us * 16 * PROBE_ROWS * probes[k].messages > PROBE_MOST_US) break;
    result = probe(fuser, probes[k].bytes, probes[k].messages, &us);
    double priced_us = tt_message_us(&fuser->priced, probes[k].bytes);
    if (!(us > 0 && priced_us > 0)) continue;
    fuser->ratios[class_of(probes[k].bytes)] = us / priced_us;
    fuser->known_us[class_of(probes[k].bytes)] = priced_us * fuser->nranks * probes[k].messages;
  }
  cost_make(fuser);
  return result;
}

tuttiResult_t tt_fuser_agree(struct tuttiFusion *fuser)
{
  size_t n = (size_t)fuser->n, count = 2 * n + 2 + (size_t)told_of(fuser);
  double *facts = tt_alloc(count, sizeof *facts);
  if (!facts) return tt_fail(tuttiSystemError, "out of memory for the times of %d tensors", fuser->n);
  facts_tell(fuser, facts);
  double *took = facts + 2 * n + 2;
  tuttiResult_t result = tt_fuser_run(fuser, TT_ALL_REDUCE, facts, 2 * n + 2, tuttiFloat64, tuttiMax);
  if (result == tuttiSuccess)
    result = tt_fuser_run(fuser, TT_ALL_REDUCE, took, (size_t)told_of(fuser), tuttiFloat64, tuttiSum);
  if (result == tuttiSuccess) {
    pthread_mutex_lock(&fuser->mutex);
    net_take(fuser, facts);
    ratios_take(fuser, took);
    cost_make(fuser);
    fuser->agreements++;
    pthread_mutex_unlock(&fuser->mutex);
    result = tt_fuser_plan_renew(fuser, facts[2 * n + 1]);
    fuser->agree_step = tt_trial_next(&fuser->trial, fuser->engine_step);
  }
  tt_free(facts);
  return result;
}
