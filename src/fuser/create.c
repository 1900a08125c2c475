/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a fuser: channels, the same tensors on all ranks, rank 0's prices, and the engine; and its end. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fuser/private.h"
#include "fusion/price.h"

/* ---- channels ---- */

static tuttiResult_t channel_make(struct tuttiFusion *fuser, struct tuttiComm *parent, struct tuttiComm **channel)
{
  char name[64];
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  struct tt_settings settings = parent->settings;
  struct tt_comm_spec spec = {.parent = parent, .color = 0, .key = parent->rank, .device = parent->device};
  snprintf(name, sizeof name, "%.40s%sfusion %d", parent->name, parent->name[0] ? " " : "", fuser->nchannels + 1);
  config.name = name;
  spec.config = &config;
  spec.settings = &settings;
  tuttiResult_t result = tt_comm_create(channel, &spec);
  if (result != tuttiSuccess) return result;
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  while ((result = tt_comm_create_poll(*channel)) == tuttiInProgress) tt_waiter_pause(&waiter, 0);
  return result;
}

static tuttiResult_t channels_make(struct tuttiFusion *fuser, struct tuttiComm *parent)
{
  int wanted = (int)parent->settings.fusion_channels;
  tuttiResult_t result = tuttiSuccess;
  while (fuser->nchannels < wanted && result == tuttiSuccess) {
    struct tuttiComm *channel = NULL;
    result = channel_make(fuser, parent, &channel);
    if (channel) fuser->channel[fuser->nchannels++] = channel;
  }
  return result;
}

/* ---- the same on all ranks ---- */

/* What rank 0 says of itself. */
struct said {
  int64_t result; /* tuttiResult_t: of its prices */
  int64_t n, redop, wire, reports, norms;
  uint64_t buffer_bytes;
  char policy[sizeof ((struct tuttiFusion *)0)->policy_text];
  struct tt_message_cost cost;
};

struct said_tensor {
  uint64_t count, name; /* a hash */
  int64_t type;
};

enum differs { ALIKE, NUMBER, OP, WIRE, OVERFLOW_, NORMS, BUFFER, POLICY, NOTHING, TENSOR };

static uint64_t hash_of(const char *text)
{
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return hash;
}

static void say(const struct tuttiFusion *fuser, struct said *said)
{
  memset(said, 0, sizeof *said);
  said->n = fuser->n;
  said->redop = fuser->redop;
  said->wire = fuser->wire;
  said->reports = fuser->reports;
  said->norms = fuser->norms;
  said->buffer_bytes = fuser->asked_bytes;
  memcpy(said->policy, fuser->policy_text, sizeof said->policy);
}

static enum differs options_compare(const struct said *mine, const struct said *first)
{
  if (mine->n != first->n) return NUMBER;
  if (mine->redop != first->redop) return OP;
  if (mine->wire != first->wire) return WIRE;
  if (mine->reports != first->reports) return OVERFLOW_;
  if (mine->norms != first->norms) return NORMS;
  if (mine->buffer_bytes != first->buffer_bytes) return BUFFER;
  return memcmp(mine->policy, first->policy, sizeof mine->policy) == 0 ? ALIKE : POLICY;
}

/* The first tensor that is not that of rank 0, as TENSOR + index. */
static tuttiResult_t tensors_compare(struct tuttiFusion *fuser, size_t n, int64_t *differs)
{
  struct said_tensor *tensors = tt_alloc(n, sizeof *tensors);
  if (!tensors) return tt_fail(tuttiSystemError, "out of memory to compare %zu tensors", n);
  for (size_t i = 0; i < n && fuser->rank == 0; i++) {
    const struct tensor *tensor = &fuser->tensors[i];
    tensors[i] = (struct said_tensor){tensor->count, hash_of(tensor->name), tensor->type};
  }
  tuttiResult_t result = tt_fuser_run(fuser, TT_BROADCAST, tensors, n * sizeof *tensors, tuttiUint8, tuttiSum);
  for (size_t i = 0; i < n && result == tuttiSuccess && *differs == ALIKE; i++) {
    const struct tensor *tensor = &fuser->tensors[i];
    if (tensors[i].count != tensor->count || tensors[i].type != tensor->type ||
        tensors[i].name != hash_of(tensor->name))
      *differs = TENSOR + (int64_t)i;
  }
  tt_free(tensors);
  return result;
}

/* Each rank says in what it differs from rank 0; all hear of the first one that does. */
static tuttiResult_t differs_tell(struct tuttiFusion *fuser, int64_t mine)
{
  static const char *const what[] = {[NUMBER] = "another number of tensors", [OP] = "another op",
                                     [WIRE] = "another wire_type", [OVERFLOW_] = "another setting of overflow",
                                     [NORMS] = "another setting of norms",
                                     [BUFFER] = "another buffer_bytes (TUTTI_FUSION_BYTES)",
                                     [POLICY] = "another policy (TUTTI_FUSION_POLICY)"};
  int64_t worst = mine == ALIKE ? 0 : -(int64_t)(fuser->rank * (int64_t)(2 * TUTTI_FUSION_TENSORS) + mine);
  worst = worst ? worst : INT64_MIN / 2;
  tuttiResult_t result = tt_fuser_run(fuser, TT_ALL_REDUCE, &worst, 1, tuttiInt64, tuttiMax);
  if (result != tuttiSuccess || worst == INT64_MIN / 2) return result;
  int rank = (int)(-worst / (2 * TUTTI_FUSION_TENSORS)), how = (int)(-worst % (2 * TUTTI_FUSION_TENSORS));
  if (how < TENSOR)
    return tt_fail(tuttiInvalidUsage, "rank %d has %s than rank 0: create the fusion with the same on all ranks", rank,
                   what[how]);
  int index = how - TENSOR;
  const struct tensor *tensor = index < fuser->n ? &fuser->tensors[index] : NULL;
  return tt_fail(tuttiInvalidUsage, "rank %d and rank 0 registered tensor %d differently (here it is %s, %llu elements "
                 "of %s): register the same names, counts and types on all ranks, in the same order", rank, index,
                 tensor ? tensor->name : "none", tensor ? (unsigned long long)tensor->count : 0,
                 tensor ? tt_type_name(tensor->type) : "nothing");
}

/* Prices of rank 0; the others' are empty. */
static tuttiResult_t prices_find(const struct tuttiFusion *fuser, struct said *said)
{
  struct tt_pricing *pricing = tt_alloc(1, sizeof *pricing);
  if (!pricing) return tt_fail(tuttiSystemError, "out of memory for the prices of messages");
  tuttiResult_t result = tt_pricing_make(pricing, fuser->channel[0]);
  if (result == tuttiSuccess)
    result = tt_message_cost_price(&said->cost, &fuser->channel[0]->settings, &pricing->tuning);
  tt_pricing_destroy(pricing);
  tt_free(pricing);
  return result;
}

static tuttiResult_t agree(struct tuttiFusion *fuser)
{
  struct said mine, first;
  int64_t differs;
  say(fuser, &mine);
  if (fuser->rank == 0) mine.result = (int64_t)prices_find(fuser, &mine);
  first = mine;
  tuttiResult_t result = tt_fuser_run(fuser, TT_BROADCAST, &first, sizeof first, tuttiUint8, tuttiSum);
  if (result != tuttiSuccess) return result;
  if (first.result != tuttiSuccess)
    return fuser->rank == 0 ? (tuttiResult_t)first.result
                            : tt_fail((tuttiResult_t)first.result, "rank 0 has no prices of messages: see its log");
  differs = options_compare(&mine, &first);
  result = tensors_compare(fuser, (size_t)(differs == NUMBER ? first.n : fuser->n), &differs);
  if (result == tuttiSuccess) result = differs_tell(fuser, differs);
  fuser->priced = first.cost;
  return result;
}

/* ---- making ---- */

static tuttiResult_t tensors_take(struct tuttiFusion *fuser, const tuttiFusionTensor_t *tensors)
{
  for (int i = 0; i < fuser->n; i++) {
    struct tensor *tensor = &fuser->tensors[i];
    if (tensors[i].name) snprintf(tensor->name, NAME_BYTES, "%s", tensors[i].name);
    else snprintf(tensor->name, NAME_BYTES, "tensor %d", i);
    tensor->count = tensors[i].count;
    tensor->type = (int)tensors[i].type;
    tensor->element = (int)tt_type_size(tensor->type);
    tensor->bytes = tensor->count * (size_t)tensor->element;
    tensor->wire_element =
        (int)tt_type_size(tensor->type == tuttiFloat32 && fuser->wire != tuttiFloat32 ? fuser->wire : tensor->type);
  }
  return tuttiSuccess;
}

/* No more than would hold all tensors in two messages. */
static void buffer_cut(struct tuttiFusion *fuser)
{
  size_t most = 4096, all;
  for (int i = 0; i < fuser->n; i++)
    if (__builtin_add_overflow(most, 2 * fuser->tensors[i].bytes + 128, &most)) most = SIZE_MAX / 2;
  all = fuser->buffer_bytes < most ? fuser->buffer_bytes : most;
  fuser->buffer_bytes = (all + 4095) & ~(size_t)4095;
}

static tuttiResult_t policy_take(struct tuttiFusion *fuser, const struct tuttiComm *comm,
                                 const tuttiFusionConfig_t *config)
{
  const char *text = comm->settings.fusion_policy;
  if (!text[0]) text = config->policy ? config->policy : "auto";
  if (strlen(text) >= sizeof fuser->policy_text)
    return tt_fail(tuttiInvalidArgument, "policy '%.40s...' is too long: at most %zu bytes", text,
                   sizeof fuser->policy_text - 1);
  strcpy(fuser->policy_text, text);
  tuttiResult_t result = tt_policy_parse(&fuser->policy, text);
  fuser->agree_step = tt_trial_next(&fuser->trial, 0);
  return result;
}

static tuttiResult_t fields_set(struct tuttiFusion *fuser, struct tuttiComm *comm, const tuttiFusionConfig_t *config)
{
  size_t bytes = (size_t)comm->settings.fusion_bytes;
  if (!bytes) bytes = config->buffer_bytes ? config->buffer_bytes : (size_t)64 << 20;
  fuser->buffer_bytes = fuser->asked_bytes = bytes;
  fuser->nranks = comm->nranks;
  fuser->rank = comm->rank;
  fuser->redop = config->op;
  fuser->wire = config->wire_type == TUTTI_CONFIG_UNDEF_INT ? comm->wire_type : config->wire_type;
  fuser->reports = config->overflow;
  fuser->norms = config->norms;
  fuser->before = fuser->after = 1;
  fuser->engine_step = 1;
  fuser->timeout_ns = (uint64_t)comm->settings.timeout_ms * 1000000;
  fuser->warn_ns = (uint64_t)comm->settings.late_warn_ms * 1000000;
  return policy_take(fuser, comm, config);
}

static void locks_init(struct tuttiFusion *fuser)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&fuser->mutex, NULL);
  pthread_cond_init(&fuser->wake, &monotonic);
  pthread_cond_init(&fuser->done, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static tuttiResult_t engine_start(struct tuttiFusion *fuser)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* the application's handlers stay out of it */
  int error = pthread_create(&fuser->thread, NULL, tt_fuser_main, fuser);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error)
    return tt_fail(tuttiSystemError, "no thread for the fusion: %s; raise the limit of processes (ulimit -u)",
                   strerror(error));
  pthread_setname_np(fuser->thread, "tutti-fusion");
  fuser->has_thread = 1;
  return tuttiSuccess;
}

static tuttiResult_t fuser_fill(struct tuttiFusion *fuser, struct tuttiComm *comm, const tuttiFusionTensor_t *tensors,
                                const tuttiFusionConfig_t *config)
{
  tuttiResult_t result = fields_set(fuser, comm, config);
  if (result != tuttiSuccess) return result;
  fuser->tensors = tt_alloc((size_t)fuser->n, sizeof *fuser->tensors);
  fuser->facts = tt_alloc((size_t)fuser->n, sizeof *fuser->facts);
  if (!fuser->tensors || !fuser->facts)
    return tt_fail(tuttiSystemError, "out of memory for a fusion of %d tensors", fuser->n);
  result = tensors_take(fuser, tensors);
  buffer_cut(fuser);
  void *buffer = NULL;
  if (result == tuttiSuccess) result = tt_heap_alloc(&buffer, fuser->buffer_bytes);
  fuser->buffer = buffer;
  if (result == tuttiSuccess) result = channels_make(fuser, comm);
  if (result == tuttiSuccess) result = agree(fuser);
  if (result == tuttiSuccess) result = tt_fuser_probe(fuser);
  if (result == tuttiSuccess) result = tt_fuser_plan_first(fuser);
  if (result == tuttiSuccess) result = engine_start(fuser);
  return result;
}

static void fuser_free(struct tuttiFusion *fuser)
{
  fuser->magic = 0;
  tt_fuser_plan_free(fuser);
  if (fuser->buffer) tt_heap_free(fuser->buffer);
  tt_free(fuser->fetched);
  tt_free(fuser->tensors);
  tt_free(fuser->facts);
  pthread_cond_destroy(&fuser->done);
  pthread_cond_destroy(&fuser->wake);
  pthread_mutex_destroy(&fuser->mutex);
  tt_free(fuser);
}

tuttiResult_t tt_fuser_create(struct tuttiFusion **out, struct tuttiComm *comm, const tuttiFusionTensor_t *tensors,
                              int ntensors, const tuttiFusionConfig_t *config)
{
  struct tuttiFusion *fuser = tt_alloc(1, sizeof *fuser);
  if (!fuser) return tt_fail(tuttiSystemError, "out of memory for a fusion");
  fuser->n = ntensors;
  locks_init(fuser);
  tuttiResult_t result = fuser_fill(fuser, comm, tensors, config);
  fuser->magic = TT_FUSER_MAGIC;
  if (result == tuttiSuccess) {
    *out = fuser;
    return result;
  }
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  tt_fuser_destroy(fuser);
  return tt_fail_quiet(result, sentence);
}

/* ---- the end ---- */

int tt_fuser_is(const struct tuttiFusion *fuser)
{
  return fuser && fuser->magic == TT_FUSER_MAGIC;
}

int tt_fuser_tensors(const struct tuttiFusion *fuser)
{
  return fuser->n;
}

static void channels_abort(struct tuttiFusion *fuser)
{
  char rank[128], sentence[TT_SENTENCE_BYTES];
  for (int c = 0; c < fuser->nchannels; c++) {
    snprintf(sentence, sizeof sentence, "%s aborted the fusion",
             tt_watch_rank_text(fuser->channel[c]->watch, fuser->rank, rank, sizeof rank));
    tt_watch_fail(fuser->channel[c]->watch, tuttiRemoteError, fuser->rank, 0, sentence);
  }
}

tuttiResult_t tt_fuser_abort(struct tuttiFusion *fuser)
{
  pthread_mutex_lock(&fuser->mutex);
  int is_over = fuser->failed != tuttiSuccess;
  pthread_mutex_unlock(&fuser->mutex);
  if (is_over) return tuttiSuccess;
  channels_abort(fuser);
  pthread_mutex_lock(&fuser->mutex);
  fuser->asleep = 0;
  fuser->pushes++;
  pthread_cond_signal(&fuser->wake);
  while (fuser->failed == tuttiSuccess) pthread_cond_wait(&fuser->done, &fuser->mutex); /* what is under way ends */
  pthread_mutex_unlock(&fuser->mutex);
  return tuttiSuccess;
}

/* The engine ends, after what is under way; that is ended if it is not a whole step. */
static void engine_stop(struct tuttiFusion *fuser)
{
  if (!fuser->has_thread) return;
  pthread_mutex_lock(&fuser->mutex);
  int is_open = fuser->step && fuser->npushed < fuser->n, failed = fuser->failed != tuttiSuccess;
  pthread_mutex_unlock(&fuser->mutex);
  if (is_open && !failed) tt_fuser_abort(fuser);
  pthread_mutex_lock(&fuser->mutex);
  fuser->all_waiters++;
  while (fuser->failed == tuttiSuccess && (is_open || fuser->engine_step <= fuser->step))
    pthread_cond_wait(&fuser->done, &fuser->mutex);
  fuser->stopping = 1;
  pthread_cond_signal(&fuser->wake);
  pthread_mutex_unlock(&fuser->mutex);
  pthread_join(fuser->thread, NULL);
}

tuttiResult_t tt_fuser_destroy(struct tuttiFusion *fuser)
{
  tuttiResult_t result = tuttiSuccess;
  engine_stop(fuser);
  for (int c = 0; c < fuser->nchannels; c++) {
    tuttiResult_t destroyed = tt_comm_destroy(fuser->channel[c]);
    if (result == tuttiSuccess) result = destroyed;
  }
  fuser_free(fuser);
  return result;
}
