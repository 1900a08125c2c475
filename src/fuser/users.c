/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's side: pushing and waiting. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuser/private.h"

#define WAKE_BYTES ((uint64_t)1 << 20) /* so much that could be copied is worth waking the engine */
#define LOOK_NS 50000000               /* who waits looks this often for what is late */

static tuttiResult_t first_error(const struct tuttiFusion *fuser)
{
  return fuser->failed == tuttiSuccess ? tuttiSuccess : tt_fail_quiet(fuser->failed, fuser->sentence);
}

static const struct tensor *not_pushed(const struct tuttiFusion *fuser)
{
  for (int i = 0; i < fuser->n; i++)
    if (fuser->tensors[i].pushed < fuser->step) return &fuser->tensors[i];
  return NULL;
}

static int index_of(const struct tuttiFusion *fuser, const struct tensor *tensor)
{
  return (int)(tensor - fuser->tensors);
}

/* ---- pushing ---- */

static tuttiResult_t push_check(const struct tuttiFusion *fuser, int index, const struct tt_pushed *pushed)
{
  const struct tensor *tensor = &fuser->tensors[index];
  if (pushed->count != tensor->count)
    return tt_fail(tuttiInvalidArgument, "count is %zu, but tensor %d (%s) was registered with %llu elements: push "
                   "that many", pushed->count, index, tensor->name, (unsigned long long)tensor->count);
  if (pushed->type != tensor->type)
    return tt_fail(tuttiInvalidArgument, "type is %s (%d), but tensor %d (%s) was registered as %s: push that",
                   tt_type_name(pushed->type), pushed->type, index, tensor->name, tt_type_name(tensor->type));
  if (tensor->count && (!pushed->send || !pushed->recv))
    return tt_fail(tuttiInvalidArgument, "%s is NULL: tensor %d (%s) has %llu elements",
                   pushed->send ? "recvbuff" : "sendbuff", index, tensor->name, (unsigned long long)tensor->count);
  uintptr_t send = (uintptr_t)pushed->send, recv = (uintptr_t)pushed->recv;
  if (send != recv && send < recv + tensor->bytes && recv < send + tensor->bytes)
    return tt_fail(tuttiInvalidArgument, "recvbuff %p overlaps sendbuff %p of tensor %d (%s, %zu bytes): pass the same "
                   "pointer for in place, or separate buffers", pushed->recv, pushed->send, index, tensor->name,
                   tensor->bytes);
  return tuttiSuccess;
}

/* Whether it may be pushed now; begins a step with the first one. */
static tuttiResult_t push_begin(struct tuttiFusion *fuser, int index, uint64_t now_ns)
{
  const struct tensor *tensor = &fuser->tensors[index], *missing;
  int is_begun = fuser->npushed < fuser->n && fuser->step;
  if (is_begun && tensor->pushed < fuser->step) return tuttiSuccess;
  if (tensor->pushed > tensor->waited)
    return tt_fail(tuttiInvalidUsage, "tensor %d (%s) was pushed already and not waited for since: call "
                   "tuttiFusionWait or tuttiFusionWaitAll first", index, tensor->name);
  if (is_begun) {
    missing = not_pushed(fuser);
    return tt_fail(tuttiInvalidUsage, "tensor %d (%s) is pushed for the next step, but tensor %d (%s) was not pushed "
                   "in this one: push that first, zeros if it has no gradient", index, tensor->name,
                   index_of(fuser, missing), missing->name);
  }
  tt_fuser_step_begins(fuser, now_ns);
  return tuttiSuccess;
}

static void push_trace(const struct tuttiFusion *fuser, const struct tensor *tensor)
{
  char track[48], args[64];
  snprintf(track, sizeof track, "fusion %u: pushes", fuser->channel[0]->serial);
  snprintf(args, sizeof args, "\"step\":%llu,\"tensor\":%d", (unsigned long long)tensor->pushed,
           index_of(fuser, tensor));
  tt_timeline_add(&(struct tt_span){track, tensor->name, tensor->push_ns, tensor->push_ns, args});
}

void tt_fuser_ready(struct tuttiFusion *fuser, struct tensor *tensor)
{
  tensor->push_ns = tt_now_ns();
  if (tt_timeline_wanted()) push_trace(fuser, tensor);
  atomic_store_explicit(&tensor->ready, tensor->pushed, memory_order_release);
  fuser->pushes++;
  fuser->slept_bytes += tensor->bytes;
  if (tensor->pushed != fuser->engine_step) return;
  int32_t missing = --fuser->missing[tensor->group];
  if (!fuser->asleep) return;
  if ((missing == 0 && tensor->group == fuser->wanted) || fuser->slept_bytes >= WAKE_BYTES) {
    fuser->asleep = 0;
    pthread_cond_signal(&fuser->wake);
  }
}

static void push(struct tuttiFusion *fuser, struct tensor *tensor, const struct tt_pushed *pushed)
{
  tt_fuser_range_take(fuser, index_of(fuser, tensor), pushed);
  tensor->pushed = fuser->step;
  tensor->send = pushed->send;
  tensor->recv = pushed->recv;
  tensor->wait_ns = 0;
  fuser->npushed++;
  if (!pushed->stream) {
    tt_fuser_ready(fuser, tensor);
    return;
  }
  tensor->stream = pushed->stream;
  tensor->stream_mark = tt_stream_mark(pushed->stream);
  fuser->nstreams++;
  fuser->pushes++;
  fuser->asleep = 0;
  pthread_cond_signal(&fuser->wake);
}

tuttiResult_t tt_fuser_push(struct tuttiFusion *fuser, int index, const struct tt_pushed *pushed)
{
  tuttiResult_t result = push_check(fuser, index, pushed);
  if (result != tuttiSuccess) return result;
  pthread_mutex_lock(&fuser->mutex);
  result = first_error(fuser);
  if (result == tuttiSuccess) result = tt_fuser_range_check(fuser, index, pushed);
  if (result == tuttiSuccess) result = push_begin(fuser, index, tt_now_ns());
  if (result == tuttiSuccess) push(fuser, &fuser->tensors[index], pushed);
  pthread_mutex_unlock(&fuser->mutex);
  return result;
}

/* ---- waiting: the mutex is held ---- */

/* Each thread has a row: waits of several overlap. */
static void wait_trace(const struct tuttiFusion *fuser, const struct tensor *tensor, uint64_t began_ns, uint64_t now_ns)
{
  char track[48];
  if (!began_ns || !tt_timeline_wanted()) return;
  snprintf(track, sizeof track, "fusion %u: waits of thread %d", fuser->channel[0]->serial, (int)gettid());
  tt_timeline_add(&(struct tt_span){track, tensor ? tensor->name : "all", began_ns, now_ns, NULL});
}

/* The caller has seen that the tensor is there. */
static void waited_set(struct tuttiFusion *fuser, struct tensor *tensor, uint64_t began_ns, uint64_t now_ns)
{
  if (tensor->waited == tensor->pushed) return;
  if (!tensor->wait_ns) tensor->wait_ns = began_ns;
  tensor->waited = tensor->pushed;
  tensor->waited_ns = now_ns;
  int *nwaited = &fuser->nwaited[tensor->waited % 2];
  if (++*nwaited < fuser->n) return;
  *nwaited = 0;
  fuser->ended = tensor->waited;
  if (fuser->ended == fuser->step) tt_fuser_times_take(fuser, now_ns); /* else the next one's first push has */
}

/* The tensors that this rank has still to push in the step; the first one, and how many. */
static const struct tensor *holds_up(const struct tuttiFusion *fuser, uint64_t step, int *n)
{
  const struct tensor *first = NULL;
  *n = 0;
  if (fuser->npushed == fuser->n && !fuser->nstreams) return NULL;
  for (int i = 0; i < fuser->n; i++) {
    if (fuser->tensors[i].ready >= step) continue;
    if (!first) first = &fuser->tensors[i];
    ++*n;
  }
  return first;
}

/* The wait for tensors of the step has lasted for waited_ns. */
static tuttiResult_t late_look(struct tuttiFusion *fuser, uint64_t step, uint64_t waited_ns, int *is_warned)
{
  int n;
  int is_error = fuser->timeout_ns && waited_ns > fuser->timeout_ns;
  if (!is_error && (*is_warned || waited_ns < fuser->warn_ns)) return tuttiSuccess;
  const struct tensor *first = holds_up(fuser, step, &n);
  if (!first) return tuttiSuccess; /* then another rank is late, and the channel knows that */
  const char *how = first->pushed < step ? "was not pushed in this step" : "still waits for its stream";
  if (is_error)
    return tt_fail(tuttiInvalidUsage, "waited %.1f s (TUTTI_TIMEOUT_MS), but tensor %d (%s) %s, %d in all: messages "
                   "are sent in the order of the plan, so push all tensors", (double)waited_ns / 1e9,
                   index_of(fuser, first), first->name, how, n);
  tt_log(TT_LOG_WARN, "rank %d waits for %.1f s: tensor %d (%s) %s, %d in all", fuser->rank, (double)waited_ns / 1e9,
         index_of(fuser, first), first->name, how, n);
  *is_warned = 1;
  return tuttiSuccess;
}

void tt_fuser_doze(struct tuttiFusion *fuser, pthread_cond_t *until_told, uint64_t ns)
{
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long)ns; /* less than a second */
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(until_told, &fuser->mutex, &until);
}

static int is_done(const struct tuttiFusion *fuser, const struct tensor *tensor, uint64_t step)
{
  if (tensor) return tensor->done >= step;
  return fuser->engine_step > step || (fuser->engine_step == step && fuser->ndone == fuser->n);
}

/* Until the tensor, or with NULL all of them, is there, as it was pushed last: another thread may wait for it, too, and
 * push it again at once. *began_ns: 0 if it was there already. */
static tuttiResult_t await(struct tuttiFusion *fuser, struct tensor *tensor, uint64_t *began_ns)
{
  int is_warned = 0;
  uint64_t step = tensor ? tensor->pushed : fuser->step;
  tuttiResult_t result = first_error(fuser);
  *began_ns = 0;
  if (tensor && !tensor->wait_ns) tensor->wait_ns = tt_now_ns();
  while (result == tuttiSuccess && !is_done(fuser, tensor, step)) {
    if (!*began_ns) *began_ns = tt_now_ns();
    if (tensor) tensor->waiters++;
    else fuser->all_waiters++;
    tt_fuser_doze(fuser, &fuser->done, LOOK_NS);
    if (tensor) tensor->waiters--;
    else fuser->all_waiters--;
    result = first_error(fuser);
    if (result == tuttiSuccess) result = late_look(fuser, step, tt_now_ns() - *began_ns, &is_warned);
  }
  return result;
}

static tuttiResult_t wait_check(const struct tuttiFusion *fuser, int index)
{
  const struct tensor *tensor = &fuser->tensors[index];
  int is_begun = fuser->step && fuser->npushed < fuser->n;
  if (tensor->pushed && (!is_begun || tensor->pushed == fuser->step || tensor->pushed > tensor->waited))
    return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "tensor %d (%s) was not pushed in this step: call tuttiFusionPush first", index,
                 tensor->name);
}

static tuttiResult_t wait_one(struct tuttiFusion *fuser, int index, int blocks)
{
  struct tensor *tensor = &fuser->tensors[index];
  uint64_t began_ns, step = tensor->pushed;
  tuttiResult_t result = first_error(fuser);
  if (result == tuttiSuccess) result = wait_check(fuser, index);
  if (result != tuttiSuccess || tensor->waited == tensor->pushed) return result;
  if (!blocks && tensor->done < tensor->pushed) return tuttiInProgress;
  result = await(fuser, tensor, &began_ns);
  if (result != tuttiSuccess) return result;
  uint64_t now_ns = tt_now_ns();
  if (began_ns) fuser->wait_sum_ns += now_ns - began_ns;
  wait_trace(fuser, tensor, began_ns, now_ns);
  if (tensor->pushed == step) waited_set(fuser, tensor, now_ns, now_ns);
  return tuttiSuccess;
}

tuttiResult_t tt_fuser_wait(struct tuttiFusion *fuser, int index, int blocks)
{
  pthread_mutex_lock(&fuser->mutex);
  tuttiResult_t result = wait_one(fuser, index, blocks);
  pthread_mutex_unlock(&fuser->mutex);
  if (result == tuttiInProgress) sched_yield(); /* who asks again and again would keep the engine from the mutex */
  return result;
}

static tuttiResult_t missing_check(const struct tuttiFusion *fuser)
{
  if (fuser->npushed == fuser->n) return tuttiSuccess;
  const struct tensor *first = not_pushed(fuser);
  int n = fuser->n - fuser->npushed;
  return tt_fail(tuttiInvalidUsage, "tensor %d (%s) was not pushed in this step, %d in all: push them, zeros if they "
                 "have no gradient", index_of(fuser, first), first->name, n);
}

tuttiResult_t tt_fuser_wait_all(struct tuttiFusion *fuser)
{
  uint64_t began_ns, called_ns = tt_now_ns();
  pthread_mutex_lock(&fuser->mutex);
  tuttiResult_t result = first_error(fuser);
  int is_open = fuser->step && fuser->ended < fuser->step;
  if (result == tuttiSuccess && is_open) result = missing_check(fuser);
  if (result == tuttiSuccess && is_open) result = await(fuser, NULL, &began_ns);
  if (result == tuttiSuccess && is_open) {
    uint64_t now_ns = tt_now_ns();
    if (began_ns) fuser->wait_sum_ns += now_ns - began_ns;
    wait_trace(fuser, NULL, began_ns, now_ns);
    for (int i = 0; i < fuser->n; i++) waited_set(fuser, &fuser->tensors[i], called_ns, now_ns);
  }
  pthread_mutex_unlock(&fuser->mutex);
  return result;
}

/* ---- what a step was ---- */

static tuttiResult_t scale_check(const struct tuttiFusion *fuser, const char *name, float scale)
{
  if (!isfinite(scale) || scale == 0)
    return tt_fail(tuttiInvalidArgument, "%s is %g: set it to a finite number other than 0", name, (double)scale);
  for (int i = 0; i < fuser->n && scale != 1; i++)
    if (!tt_type_is_float(fuser->tensors[i].type))
      return tt_fail(tuttiInvalidArgument, "%s is %.9g, but tensor %d (%s) is %s: only floats are scaled, leave it 1",
                     name, (double)scale, i, fuser->tensors[i].name, tt_type_name(fuser->tensors[i].type));
  return tuttiSuccess;
}

tuttiResult_t tt_fuser_scale(struct tuttiFusion *fuser, float before, float after)
{
  tuttiResult_t result = scale_check(fuser, "before", before);
  if (result == tuttiSuccess) result = scale_check(fuser, "after", after);
  if (result != tuttiSuccess) return result;
  pthread_mutex_lock(&fuser->mutex);
  result = first_error(fuser);
  if (result == tuttiSuccess && fuser->step && fuser->npushed < fuser->n)
    result = tt_fail(tuttiInvalidUsage, "step %llu has begun, and %d of its %d tensors were not pushed yet: set scales "
                     "before the first push of a step", (unsigned long long)fuser->step, fuser->n - fuser->npushed,
                     fuser->n);
  if (result == tuttiSuccess) {
    fuser->before = before;
    fuser->after = after;
  }
  pthread_mutex_unlock(&fuser->mutex);
  return result;
}

static tuttiResult_t ended_check(const struct tuttiFusion *fuser, const char *what)
{
  tuttiResult_t result = first_error(fuser);
  if (result != tuttiSuccess) return result;
  if (!fuser->ended || fuser->ended < fuser->step)
    return tt_fail(tuttiInvalidUsage, "%s: call it when all tensors of a step were waited for",
                   fuser->step ? "a step is under way" : what);
  return tuttiSuccess;
}

tuttiResult_t tt_fuser_overflow(struct tuttiFusion *fuser, int *overflow)
{
  if (!fuser->reports)
    return tt_fail(tuttiInvalidUsage, "no overflow is looked for: set overflow = 1 in tuttiFusionConfig_t");
  pthread_mutex_lock(&fuser->mutex);
  tuttiResult_t result = ended_check(fuser, "no step has ended yet");
  if (result == tuttiSuccess) *overflow = fuser->overflow[fuser->ended % 2];
  pthread_mutex_unlock(&fuser->mutex);
  return result;
}

tuttiResult_t tt_fuser_norm(struct tuttiFusion *fuser, int index, double *norm)
{
  const struct tensor *tensor = &fuser->tensors[index];
  if (!fuser->norms)
    return tt_fail(tuttiInvalidUsage, "no norms are made: set norms = 1 in tuttiFusionConfig_t");
  pthread_mutex_lock(&fuser->mutex);
  tuttiResult_t result = first_error(fuser);
  if (result == tuttiSuccess && (!tensor->pushed || tensor->waited < tensor->pushed))
    result = tt_fail(tuttiInvalidUsage, "tensor %d (%s) is not there: call tuttiFusionWait for it first", index,
                     tensor->name);
  if (result == tuttiSuccess) *norm = tensor->norm;
  pthread_mutex_unlock(&fuser->mutex);
  return result;
}

void tt_fuser_info(struct tuttiFusion *fuser, tuttiFusionInfo_t *info)
{
  pthread_mutex_lock(&fuser->mutex);
  info->steps = fuser->ended;
  info->plans = fuser->plans;
  info->planned_step = fuser->planned_step;
  info->groups = fuser->plan.ngroups;
  info->messages = fuser->nmessages;
  info->is_by_priority = fuser->plan.by_priority;
  info->buffer_bytes = fuser->buffer_bytes;
  info->copied_bytes = fuser->copied[fuser->ended % 2];
  info->iteration_us = fuser->iteration_us;
  info->exposed_us = fuser->exposed_us;
  info->predicted_us = fuser->is_measured ? fuser->predicted_us : 0;
  info->predicted_exposed_us = fuser->is_measured ? fuser->predicted_exposed_us : 0;
  pthread_mutex_unlock(&fuser->mutex);
}
