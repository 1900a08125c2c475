/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's side: pushing and waiting. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fusion/private.h"
#include "fusion/served_private.h"

#define WAKE_BYTES ((uint64_t)1 << 20) /* this much to copy is worth waking the engine */
#define LOOK_NS 50000000               /* interval at which a waiting thread looks for late tensors */
#define TENSOR_BYTES 160               /* index and name */

static tuttiResult_t first_error(const struct shared *shared)
{
  return shared->failed == tuttiSuccess ? tuttiSuccess : tt_fail_quiet(shared->failed, shared->sentence);
}

/* True if some tensors of the last step begun are not pushed yet. */
static int is_open(const struct config *config, const struct shared *shared)
{
  return shared->step && shared->npushed < config->n;
}

/* Returns the first of these tensors. */
static int not_pushed(const struct shared *shared)
{
  int i = 0;
  while (shared->gradients[i].pushed == shared->step) i++;
  return i;
}

/* ---- pushing ---- */

static tuttiResult_t push_check(const struct config *config, int index, const struct tt_pushed *pushed)
{
  const struct tensor *tensor = &config->tensors[index];
  if (pushed->count != tensor->count)
    return tt_fail(tuttiInvalidArgument, "count is %zu, but tensor %d (%s) was registered with %llu elements: push "
                   "that many", pushed->count, index, tensor->name, (unsigned long long)tensor->count);
  if (pushed->type != tensor->type)
    return tt_fail(tuttiInvalidArgument, "type is %s (%d), but tensor %d (%s) was registered as %s: push that",
                   tt_type_name(pushed->type), pushed->type, index, tensor->name, tt_type_name(tensor->type));
  if (tensor->count && (!pushed->send || !pushed->recv))
    return tt_fail(tuttiInvalidArgument, "%s is NULL: tensor %d (%s) has %llu elements",
                   pushed->send ? "recvbuff" : "sendbuff", index, tensor->name, (unsigned long long)tensor->count);
  if (tensor->is_coded && ((uintptr_t)pushed->send | (uintptr_t)pushed->recv) % (size_t)tensor->element)
    return tt_fail(tuttiInvalidArgument, "sendbuff %p or recvbuff %p of tensor %d (%s) is no multiple of %d: codecs "
                   "and updates take aligned floats", pushed->send, pushed->recv, index, tensor->name,
                   tensor->element);
  uintptr_t send = (uintptr_t)pushed->send, recv = (uintptr_t)pushed->recv;
  if (send != recv && send < recv + tensor->bytes && recv < send + tensor->bytes)
    return tt_fail(tuttiInvalidArgument, "recvbuff %p overlaps sendbuff %p of tensor %d (%s, %zu bytes): pass the same "
                   "pointer for in place, or separate buffers", pushed->recv, pushed->send, index, tensor->name,
                   tensor->bytes);
  return tuttiSuccess;
}

/* Checks that the tensor may be pushed now; begins a step with the first one. */
static tuttiResult_t push_begin(const struct config *config, struct shared *shared, int index)
{
  const struct gradient *gradient = &shared->gradients[index];
  if (gradient->is_copied)
    return tt_fail(tuttiInvalidUsage, "tensor %d (%s) is being pushed by another thread: push it once in a step", index,
                   config->tensors[index].name);
  if (gradient->pushed > gradient->waited)
    return tt_fail(tuttiInvalidUsage, "tensor %d (%s) was pushed already and not waited for since: call "
                   "tuttiFusionWait or tuttiFusionWaitAll first", index, config->tensors[index].name);
  if (is_open(config, shared) && gradient->pushed < shared->step) return tuttiSuccess;
  if (is_open(config, shared)) {
    int missing = not_pushed(shared);
    return tt_fail(tuttiInvalidUsage, "tensor %d (%s) is pushed for the next step, but tensor %d (%s) was not pushed "
                   "in this one: push that first, zeros if it has no gradient", index, config->tensors[index].name,
                   missing, config->tensors[missing].name);
  }
  tt_fusion_step_begins(config, shared, tt_now_ns());
  return tuttiSuccess;
}

static void push_trace(const struct config *config, const struct gradient *gradient, int index)
{
  char track[48], args[64];
  snprintf(track, sizeof track, "fusion %u: pushes", tt_comm_facts(config->channel[0])->serial);
  snprintf(args, sizeof args, "\"step\":%llu,\"tensor\":%d", (unsigned long long)gradient->pushed, index);
  tt_timeline_add(
      &(struct tt_span){track, config->tensors[index].name, gradient->push_ns, gradient->push_ns, args, "fusion"});
}

void tt_fusion_ready(struct tuttiFusion *fusion, int index)
{
  struct shared *shared = &fusion->shared;
  struct gradient *gradient = &shared->gradients[index];
  gradient->push_ns = tt_now_ns();
  if (tt_timeline_wanted()) push_trace(&fusion->config, gradient, index);
  atomic_store_explicit(&gradient->ready, gradient->pushed, memory_order_release);
  shared->pushes++;
  shared->sleep.bytes += fusion->config.tensors[index].bytes;
  if (fusion->served) tt_served_wake(fusion);
  if (fusion->served || gradient->pushed != shared->finished + 1) return;
  int32_t group = shared->planned.plan->cuts[index].group, missing = --shared->missing[group];
  if (missing == 0) shared->complete[shared->ncomplete++] = group;
  if (!shared->sleep.is_asleep) return;
  if (missing == 0 || shared->sleep.bytes >= WAKE_BYTES) {
    shared->sleep.is_asleep = 0;
    pthread_cond_signal(&shared->wake);
  }
}

static void push(struct tuttiFusion *fusion, int index, const struct tt_pushed *pushed)
{
  struct shared *shared = &fusion->shared;
  struct gradient *gradient = &shared->gradients[index];
  gradient->pushed = shared->step;
  gradient->send = pushed->send;
  gradient->recv = pushed->recv;
  gradient->gpu = pushed->gpu;
  gradient->wait_ns = 0;
  shared->npushed++;
  if (!pushed->stream) {
    tt_fusion_ready(fusion, index);
    return;
  }
  gradient->stream = pushed->stream;
  gradient->stream_mark = tt_stream_mark(pushed->stream);
  shared->nstreams++;
  shared->pushes++;
  shared->sleep.is_asleep = 0;
  pthread_cond_signal(&shared->wake);
}

static tuttiResult_t weights_check(const struct tuttiFusion *fusion, int index)
{
  if (!fusion->coding.owned || fusion->coding.owned[index].is_given) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "tensor %d (%s) has no weights that an update could start from: give them by "
                 "tuttiFusionState (plane 0), the same on all ranks", index, fusion->config.tensors[index].name);
}

/* Under the mutex. */
static tuttiResult_t push_may(struct tuttiFusion *fusion, int index, const struct tt_pushed *pushed)
{
  const struct config *config = &fusion->config;
  struct shared *shared = &fusion->shared;
  tuttiResult_t result = first_error(shared);
  if (result == tuttiSuccess) result = tt_fusion_range_check(config, shared, index, pushed);
  if (result == tuttiSuccess) result = weights_check(fusion, index);
  return result == tuttiSuccess ? push_begin(config, shared, index) : result;
}

tuttiResult_t tt_fusion_push(struct tuttiFusion *fusion, int index, const struct tt_pushed *pushed)
{
  struct shared *shared = &fusion->shared;
  struct tt_pushed placed = *pushed;
  tuttiResult_t result = push_check(&fusion->config, index, pushed);
  if (result != tuttiSuccess) return result;
  pthread_mutex_lock(&shared->mutex);
  result = push_may(fusion, index, pushed);
  if (result == tuttiSuccess && __builtin_expect(atomic_load(&tt_process.cuda) != NULL, 0)) {
    shared->gradients[index].is_copied = 1;
    pthread_mutex_unlock(&shared->mutex);
    result = tt_fusion_shadow_in(fusion, index, &placed);
    pthread_mutex_lock(&shared->mutex);
    shared->gradients[index].is_copied = 0;
    if (result == tuttiSuccess) result = push_may(fusion, index, pushed);
  }
  if (result == tuttiSuccess) {
    tt_fusion_range_take(&fusion->config, shared, index, pushed);
    push(fusion, index, &placed);
  }
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

/* ---- waiting: the mutex is held ---- */

#define ALL (-1) /* tensors */

/* Each thread has a row, because waits of several threads overlap. */
static void wait_trace(const struct config *config, int index, uint64_t began_ns, uint64_t now_ns)
{
  char track[48];
  if (!began_ns || !tt_timeline_wanted()) return;
  uint32_t serial = tt_comm_facts(config->channel[0])->serial;
  snprintf(track, sizeof track, "fusion %u: waits of thread %d", serial, (int)gettid());
  tt_timeline_add(
      &(struct tt_span){track, index == ALL ? "all" : config->tensors[index].name, began_ns, now_ns, NULL, "fusion"});
}

/* Notes that the caller has seen the tensor's sum. */
static void waited_set(const struct config *config, struct shared *shared, int index, uint64_t began_ns,
                       uint64_t now_ns)
{
  struct gradient *gradient = &shared->gradients[index];
  if (gradient->waited == gradient->pushed) return;
  if (!gradient->wait_ns) gradient->wait_ns = began_ns;
  gradient->waited = gradient->pushed;
  gradient->waited_ns = now_ns;
  int *nwaited = &shared->steps[gradient->waited % 2].nwaited;
  if (++*nwaited < config->n) return;
  *nwaited = 0;
  shared->ended = gradient->waited;
  if (shared->ended == shared->step) tt_fusion_times_take(config, shared, now_ns); /* else the next step's push has */
}

/* Returns how many tensors this rank has still to push in the step, and in *first the first of them: of those that are
 * sent together with the tensor, if there are any. */
static int holds_up(const struct config *config, const struct shared *shared, int index, uint64_t step, int *first)
{
  const struct cut *cuts = shared->planned.plan ? shared->planned.plan->cuts : NULL;
  int n = 0, is_together = 0;
  if (shared->npushed == config->n && !shared->nstreams) return 0;
  for (int i = 0; i < config->n; i++) {
    if (shared->gradients[i].ready >= step) continue;
    int together = index != ALL && cuts && cuts[i].group == cuts[index].group;
    if (n++ && together <= is_together) continue;
    *first = i;
    is_together = together;
  }
  return n;
}

struct late {
  int index; /* of the tensor that is waited for, or ALL */
  uint64_t step, waited_ns;
  int is_warned;
};

/* Warns or fails if a wait is too long. Another rank may be late, not this one, if this one has pushed all that is sent
 * together with the tensor. */
static tuttiResult_t late_look(const struct config *config, const struct shared *shared, struct late *late)
{
  const struct cut *cuts = shared->planned.plan ? shared->planned.plan->cuts : NULL;
  const double waited_s = (double)late->waited_ns / 1e9;
  char awaited[TENSOR_BYTES] = "all tensors";
  int first = 0, is_error = config->timeout_ns && late->waited_ns > config->timeout_ns;
  if (!is_error && (late->is_warned || late->waited_ns < config->warn_ns)) return tuttiSuccess;
  int n = holds_up(config, shared, late->index, late->step, &first);
  if (!n) return tuttiSuccess; /* then another rank is late, and the channel, or the engine with servers, knows that */
  int is_together = late->index != ALL && cuts && cuts[first].group == cuts[late->index].group;
  if (late->index != ALL)
    snprintf(awaited, sizeof awaited, "tensor %d (%s)", late->index, config->tensors[late->index].name);
  const char *which = is_together ? "is sent together with others" : "may be late on another rank";
  const char *name = config->tensors[first].name;
  const char *how = shared->gradients[first].pushed < late->step ? "was not pushed in this step"
                                                                 : "still waits for its stream";
  if (is_error)
    return tt_fail(tuttiInvalidUsage, "waited %.1f s (TUTTI_TIMEOUT_MS) for %s, which %s; on rank %d tensor %d (%s) "
                   "%s, %d in all: push all of them", waited_s, awaited, which, config->rank, first, name, how, n);
  tt_log(TT_LOG_WARN, "rank %d has waited %.1f s for %s, which %s; here tensor %d (%s) %s, %d in all", config->rank,
         waited_s, awaited, which, first, name, how, n);
  late->is_warned = 1;
  return tuttiSuccess;
}

void tt_fusion_idle(struct shared *shared, pthread_cond_t *until_told, uint64_t ns)
{
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long)ns; /* less than a second */
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(until_told, &shared->mutex, &until);
}

static int is_done(const struct config *config, const struct shared *shared, int index, uint64_t step)
{
  if (index != ALL) return shared->gradients[index].done >= step;
  return shared->finished >= step || (shared->finished + 1 == step && shared->ndone == config->n);
}

/* Waits until the tensor, or all of them, is there as it was pushed last: another thread may wait for it, too, and push
 * it again at once. *began_ns is the start of the wait, or 0 if the tensor was there already. */
static tuttiResult_t await(const struct config *config, struct shared *shared, int index, uint64_t *began_ns)
{
  struct gradient *gradient = index == ALL ? NULL : &shared->gradients[index];
  int *waiters = gradient ? &gradient->waiters : &shared->all_waiters;
  uint64_t step = gradient ? gradient->pushed : shared->step;
  struct late late = {index, step, 0, 0};
  tuttiResult_t result = first_error(shared);
  *began_ns = 0;
  if (gradient && !gradient->wait_ns) gradient->wait_ns = tt_now_ns();
  while (result == tuttiSuccess && !is_done(config, shared, index, step)) {
    if (!*began_ns) *began_ns = tt_now_ns();
    ++*waiters;
    tt_fusion_idle(shared, &shared->done, LOOK_NS);
    --*waiters;
    result = first_error(shared);
    late.waited_ns = tt_now_ns() - *began_ns;
    if (result == tuttiSuccess) result = late_look(config, shared, &late);
  }
  return result;
}

static tuttiResult_t wait_check(const struct config *config, const struct shared *shared, int index)
{
  const struct gradient *gradient = &shared->gradients[index];
  if (gradient->pushed && (!is_open(config, shared) || gradient->pushed == shared->step ||
                           gradient->pushed > gradient->waited))
    return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "tensor %d (%s) was not pushed in this step: call tuttiFusionPush first", index,
                 config->tensors[index].name);
}

static tuttiResult_t wait_one(struct tuttiFusion *fusion, int index, int blocks)
{
  const struct config *config = &fusion->config;
  struct shared *shared = &fusion->shared;
  const struct gradient *gradient = &shared->gradients[index];
  uint64_t began_ns, step = gradient->pushed;
  tuttiResult_t result = first_error(shared);
  if (result == tuttiSuccess) result = wait_check(config, shared, index);
  if (result != tuttiSuccess || gradient->waited == gradient->pushed) return result;
  if (!blocks && gradient->done < gradient->pushed) return tuttiInProgress;
  result = await(config, shared, index, &began_ns);
  if (result == tuttiSuccess) result = tt_fusion_shadow_out(fusion, index, step);
  if (result != tuttiSuccess) return result;
  uint64_t now_ns = tt_now_ns();
  if (began_ns) shared->times.wait_sum_ns += now_ns - began_ns;
  wait_trace(config, index, began_ns, now_ns);
  if (gradient->pushed == step) waited_set(config, shared, index, now_ns, now_ns);
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_wait(struct tuttiFusion *fusion, int index, int blocks)
{
  pthread_mutex_lock(&fusion->shared.mutex);
  tuttiResult_t result = wait_one(fusion, index, blocks);
  pthread_mutex_unlock(&fusion->shared.mutex);
  if (result == tuttiInProgress) sched_yield(); /* repeated calls would keep the engine from the mutex */
  return result;
}

static tuttiResult_t missing_check(const struct config *config, const struct shared *shared)
{
  if (shared->npushed == config->n) return tuttiSuccess;
  int first = not_pushed(shared);
  return tt_fail(tuttiInvalidUsage, "tensor %d (%s) was not pushed in this step, %d in all: push them, zeros if they "
                 "have no gradient", first, config->tensors[first].name, config->n - shared->npushed);
}

static tuttiResult_t wait_all(struct tuttiFusion *fusion, uint64_t called_ns)
{
  const struct config *config = &fusion->config;
  struct shared *shared = &fusion->shared;
  uint64_t began_ns;
  tuttiResult_t result = first_error(shared);
  if (result != tuttiSuccess || shared->ended == shared->step) return result;
  result = missing_check(config, shared);
  if (result == tuttiSuccess) result = await(config, shared, ALL, &began_ns);
  for (int i = 0; i < config->n && result == tuttiSuccess; i++)
    result = tt_fusion_shadow_out(fusion, i, shared->gradients[i].pushed);
  if (result != tuttiSuccess) return result;
  uint64_t now_ns = tt_now_ns();
  if (began_ns) shared->times.wait_sum_ns += now_ns - began_ns;
  wait_trace(config, ALL, began_ns, now_ns);
  for (int i = 0; i < config->n; i++) waited_set(config, shared, i, called_ns, now_ns);
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_wait_all(struct tuttiFusion *fusion)
{
  uint64_t called_ns = tt_now_ns();
  pthread_mutex_lock(&fusion->shared.mutex);
  tuttiResult_t result = wait_all(fusion, called_ns);
  pthread_mutex_unlock(&fusion->shared.mutex);
  return result;
}

/* ---- results of a step ---- */

static tuttiResult_t scale_check(const struct config *config, const char *name, float scale)
{
  if (!isfinite(scale) || scale == 0)
    return tt_fail(tuttiInvalidArgument, "%s is %g: set it to a finite number other than 0", name, (double)scale);
  for (int i = 0; i < config->n && scale != 1; i++)
    if (!tt_type_is_float(config->tensors[i].type))
      return tt_fail(tuttiInvalidArgument, "%s is %.9g, but tensor %d (%s) is %s: only floats are scaled, leave it 1",
                     name, (double)scale, i, config->tensors[i].name, tt_type_name(config->tensors[i].type));
  return tuttiSuccess;
}

/* No step is in the middle of its pushes. */
static tuttiResult_t begun_check(const struct config *config, const struct shared *shared, const char *what)
{
  if (!is_open(config, shared)) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "step %llu has begun, and %d of its %d tensors were not pushed yet: set %s "
                 "before the first push of a step", (unsigned long long)shared->step, config->n - shared->npushed,
                 config->n, what);
}

tuttiResult_t tt_fusion_scale(struct tuttiFusion *fusion, float before, float after)
{
  const struct config *config = &fusion->config;
  struct shared *shared = &fusion->shared;
  tuttiResult_t result = scale_check(config, "before", before);
  if (result == tuttiSuccess) result = scale_check(config, "after", after);
  if (result != tuttiSuccess) return result;
  if (config->rule.exchanges && (before != 1 || after != 1))
    return tt_fail(tuttiInvalidUsage, "before is %.9g and after %.9g, but ranks exchange their weights: leave both 1",
                   (double)before, (double)after);
  pthread_mutex_lock(&shared->mutex);
  result = first_error(shared);
  if (result == tuttiSuccess) result = begun_check(config, shared, "scales");
  if (result == tuttiSuccess) shared->scale = (struct scale){before, after, shared->scale.rate};
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

tuttiResult_t tt_fusion_rate(struct tuttiFusion *fusion, float rate)
{
  const struct config *config = &fusion->config;
  struct shared *shared = &fusion->shared;
  if (!isfinite(rate) || rate < 0)
    return tt_fail(tuttiInvalidArgument, "rate is %g: set it to a finite number from 0 on", (double)rate);
  if (!config->rule.planes)
    return tt_fail(tuttiInvalidUsage, "no weights are updated: set update in tuttiFusionConfig_t");
  pthread_mutex_lock(&shared->mutex);
  tuttiResult_t result = first_error(shared);
  if (result == tuttiSuccess) result = begun_check(config, shared, "the rate");
  if (result == tuttiSuccess) shared->scale.rate = rate;
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

static tuttiResult_t ended_check(const struct shared *shared, const char *what)
{
  tuttiResult_t result = first_error(shared);
  if (result != tuttiSuccess) return result;
  if (!shared->ended || shared->ended < shared->step)
    return tt_fail(tuttiInvalidUsage, "%s: call it when all tensors of a step were waited for",
                   shared->step ? "a step is under way" : what);
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_overflow(struct tuttiFusion *fusion, int *overflow)
{
  struct shared *shared = &fusion->shared;
  if (!fusion->config.reports)
    return tt_fail(tuttiInvalidUsage, "no overflow is looked for: set overflow = 1 in tuttiFusionConfig_t");
  pthread_mutex_lock(&shared->mutex);
  tuttiResult_t result = ended_check(shared, "no step has ended yet");
  if (result == tuttiSuccess) *overflow = shared->steps[shared->ended % 2].overflow;
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

tuttiResult_t tt_fusion_norm(struct tuttiFusion *fusion, int index, double *norm)
{
  struct shared *shared = &fusion->shared;
  const struct gradient *gradient = &shared->gradients[index];
  if (!fusion->config.norms)
    return tt_fail(tuttiInvalidUsage, "no norms are made: set norms = 1 in tuttiFusionConfig_t");
  pthread_mutex_lock(&shared->mutex);
  tuttiResult_t result = first_error(shared);
  if (result == tuttiSuccess && (!gradient->pushed || gradient->waited < gradient->pushed))
    result = tt_fail(tuttiInvalidUsage, "tensor %d (%s) is not there: call tuttiFusionWait for it first", index,
                     fusion->config.tensors[index].name);
  if (result == tuttiSuccess) *norm = gradient->norm;
  pthread_mutex_unlock(&shared->mutex);
  return result;
}

void tt_fusion_info(struct tuttiFusion *fusion, tuttiFusionInfo_t *info)
{
  struct shared *shared = &fusion->shared;
  pthread_mutex_lock(&shared->mutex);
  const struct planned *planned = &shared->planned;
  info->steps = fusion->coding.past.steps + shared->ended;
  info->updates = info->steps;
  info->state_step = fusion->coding.past.steps + fusion->coding.step;
  if (fusion->served) tt_fusion_served_info(fusion, info);
  info->plans = planned->plans;
  info->planned_step = planned->step;
  info->groups = planned->plan ? planned->plan->fusion.ngroups : 0;
  info->messages = planned->plan ? planned->plan->nmessages : 0;
  info->is_by_priority = !planned->plan || planned->plan->fusion.by_priority;
  info->buffer_bytes = fusion->config.buffer_bytes;
  info->copied_bytes = shared->steps[shared->ended % 2].copied;
  info->iteration_us = shared->times.iteration_us;
  info->exposed_us = shared->times.exposed_us;
  info->predicted_us = planned->is_measured ? planned->expected.iteration_us : 0;
  info->predicted_exposed_us = planned->is_measured ? planned->expected.exposed_us : 0;
  pthread_mutex_unlock(&shared->mutex);
}
