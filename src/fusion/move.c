/* SPDX-License-Identifier: BSD-3-Clause */
/* A fusion that goes on over another communicator, after a shrink or a grow.
 *
 * It is another fusion with the same tensors and options, so plans, owners and links are made anew, and it takes over
 * the state of the old one before its engine begins. Ranks may have come one step further than others when the old one
 * failed. All go on from the lowest step that one of them is at: planes are kept twice, so the others still have theirs
 * of that step, unless they have encoded contributions of the step after the last one. So whatever a rank has pushed
 * counts once: in results of steps up to that one, or in planes.
 *
 * Planes of contributions stay on their ranks. Planes of owners are zeros outside of what a rank owns: their sum is the
 * whole plane, of which each rank takes what it owns now. So all ranks have to bring the same fusion: a move that has
 * failed on some of them alone has left these with the one before, in which elements have other owners.
 *
 * A fusion with servers ends before its state is read, as by tuttiFusionDestroy: until all of its ranks have come here,
 * or have left it, they serve each other. If the new one fails meanwhile, some never come: so the old one fails, on all
 * ranks. Its channel ends before this rank waits for others over the new one: so what they send to this rank over the
 * old one ends, too, and nobody waits here for a rank that waits there. Its weights move in served_move.c. */
#include <stdio.h>
#include <string.h>

#include "fusion/served_private.h"
#include "reduce/fpenv.h"

/* A rank's message to the others. */
struct said {
  uint64_t step, made;
  int32_t has_come, kept;
  float planes_after;     /* in whose units planes are */
  float next_after, rate; /* of the next step */
};

/* Their conclusion, the same on all ranks. */
struct agreed {
  uint64_t step;                        /* whose state counts */
  float planes_after, next_after, rate; /* those of the first rank that has moved */
};

/* 1: ranks are at their own steps. */
static int has_own_steps(const struct tuttiFusion *fusion)
{
  return fusion->served && !(fusion->served->kind == TT_SERVER_SYNCHRONOUS && !fusion->served->shards.by_decision);
}

static uint64_t step_of(const struct tuttiFusion *fusion)
{
  return fusion->coding.past.steps + fusion->coding.step;
}

/* 1: the last step has ended, and what codecs have left out in it is in the other copies still. */
static int is_half_ended(const struct tuttiFusion *fusion)
{
  return fusion->served && fusion->served->member.nsent && fusion->served->member.nfinished == fusion->config.n;
}

static enum kept kept_of(const struct tuttiFusion *fusion)
{
  return is_half_ended(fusion) ? KEPT_SAME : fusion->coding.past.kept;
}

/* All ranks find the same. */
static tuttiResult_t said_look(const struct said *said, int n, struct agreed *agreed)
{
  int lowest = -1, first = -1;
  for (int r = 0; r < n; r++) {
    if (!said[r].has_come) continue;
    if (first < 0) first = r;
    if (lowest < 0 || said[r].step < said[lowest].step) lowest = r;
  }
  if (first < 0)
    return tt_fail(tuttiInternalError, "no rank brings a fusion, and one said before that it does: its memory is "
                   "damaged");
  for (int r = 0; r < n; r++) {
    if (!said[r].has_come || said[r].made == said[first].made) continue;
    return tt_fail(tuttiInvalidUsage, "ranks %d and %d bring fusions that two calls have made, as after a "
                   "tuttiFusionMove that has failed on some ranks alone: create a fusion, and give it the weights by "
                   "tuttiFusionState", first, r);
  }
  for (int r = 0; r < n; r++) {
    uint64_t step = said[r].step, low = said[lowest].step;
    if (!said[r].has_come || step == low || (step == low + 1 && said[r].kept != KEPT_NOTHING)) continue;
    return tt_fail(tuttiInvalidUsage, "rank %d has the state of step %llu, and not that of step %llu any more, which "
                   "rank %d has: create a fusion, and give it by tuttiFusionState what is to go on", r,
                   (unsigned long long)step, (unsigned long long)low, lowest);
  }
  *agreed = (struct agreed){said[lowest].step, said[first].planes_after, said[first].next_after, said[first].rate};
  return tuttiSuccess;
}

static tuttiResult_t agree(const struct tuttiFusion *fusion, const struct tuttiFusion *from, struct agreed *agreed)
{
  const struct config *config = &fusion->config;
  struct said *said = tt_alloc((size_t)config->nranks, sizeof *said);
  tuttiResult_t result = said ? tuttiSuccess : tuttiSystemError;
  if (!said) tt_fail(result, "out of memory for the steps of %d ranks", config->nranks);
  if (said && from && from->coding.codec.row != fusion->coding.codec.row)
    result = tt_fail(tuttiInvalidUsage, "the fusion that moves has another codec than TUTTI_FUSION_CODEC says: leave "
                     "that out, or create a fusion");
  result = tt_fusion_told(config, result);
  if (result == tuttiSuccess && from)
    said[config->rank] = (struct said){.step = has_own_steps(from) ? 0 : step_of(from),
                                       .made = from->config.moving.made, .has_come = 1,
                                       .kept = (int32_t)kept_of(from), .planes_after = from->coding.after,
                                       .next_after = from->shared.scale.after, .rate = from->shared.scale.rate};
  if (result == tuttiSuccess) result = tt_fusion_run(config, TT_ALL_GATHER, said, sizeof *said, tuttiUint8, tuttiSum);
  if (result == tuttiSuccess) result = said_look(said, config->nranks, agreed);
  tt_free(said);
  return result;
}

/* Planes are in units of results before a factor, which may have been another one on this rank. */
static void copy(float *to, const float *values, uint64_t count, float factor)
{
  if (factor == 1) {
    memcpy(to, values, count * sizeof *to);
    return;
  }
  fpenv env = fpenv_enter();
  for (uint64_t e = 0; e < count; e++) to[e] = values[e] * factor;
  fpenv_leave(env);
}

struct move {
  struct tuttiFusion *fusion;
  const struct tuttiFusion *from; /* NULL: this rank is new */
  int is_back;                    /* 1: the other copies of its planes count */
  float factor;                   /* of its planes of codecs */
  float *whole;                   /* room for a tensor */
};

/* Adds up what each rank has owned of a plane (before NULL: this one has none), and takes what it owns now. */
static tuttiResult_t owned_move(const struct move *move, int tensor, const float *before, float *now, float factor)
{
  const struct config *config = &move->fusion->config;
  uint64_t n, count = config->tensors[tensor].count;
  memset(move->whole, 0, count * sizeof *move->whole);
  if (before) {
    const struct tuttiFusion *from = move->from;
    const struct tt_fusion_share share = tt_fusion_share(from, tensor, from->config.rank);
    for (uint64_t first = 0; (n = tt_fusion_share_next(&from->config, &share, &first)) > 0; first += share.unit)
      copy(move->whole + first, before + first, n, factor);
  }
  tuttiResult_t result = tt_fusion_run(config, TT_ALL_REDUCE, move->whole, count, tuttiUint32, tuttiSum);
  const struct tt_fusion_share share = tt_fusion_share(move->fusion, tensor, config->rank);
  for (uint64_t first = 0; (n = tt_fusion_share_next(config, &share, &first)) > 0; first += share.unit)
    memcpy(now + first, move->whole + first, n * sizeof *now);
  return result;
}

/* Moves what the codec keeps. */
static tuttiResult_t code_move(const struct move *move, int tensor)
{
  struct tensor_code *code = &move->fusion->coding.tensors[tensor];
  const struct tensor_code *old = move->from ? &move->from->coding.tensors[tensor] : NULL;
  tuttiResult_t result = tuttiSuccess;
  for (int p = 0; p < TT_CODEC_PLANES && result == tuttiSuccess; p++) {
    const float *mine[2] = {NULL, NULL};
    for (int stage = 0; old && stage < 2; stage++)
      mine[stage] = move->is_back ? old->changed[stage][p] : old->planes[stage][p];
    float *contributions = code->planes[TT_CODEC_CONTRIBUTION][p], *results = code->planes[TT_CODEC_RESULT][p];
    if (contributions && mine[TT_CODEC_CONTRIBUTION])
      copy(contributions, mine[TT_CODEC_CONTRIBUTION], move->fusion->config.tensors[tensor].count, move->factor);
    if (results) result = owned_move(move, tensor, mine[TT_CODEC_RESULT], results, move->factor);
  }
  return result;
}

/* Counts the elements of all tensors whose masters are here still. */
static tuttiResult_t covered_count(const struct move *move, uint64_t *covered)
{
  const struct config *config = &move->fusion->config;
  const struct tuttiFusion *from = move->from;
  for (int i = 0; from && i < config->n; i++) {
    const struct tt_fusion_share share = tt_fusion_share(from, i, from->config.rank);
    uint64_t n, first = 0;
    if (!share.count || !from->coding.owned[i].is_given) continue;
    for (; (n = tt_fusion_share_next(&from->config, &share, &first)) > 0; first += share.unit) covered[i] += n;
  }
  return tt_fusion_run(config, TT_ALL_REDUCE, covered, (size_t)config->n, tuttiUint64, tuttiSum);
}

static tuttiResult_t masters_move(const struct move *move, uint64_t *covered)
{
  const struct config *config = &move->fusion->config;
  uint64_t lost = 0;
  tuttiResult_t result = covered_count(move, covered);
  for (int i = 0; i < config->n && result == tuttiSuccess; i++) {
    const struct masters *old = move->from ? &move->from->coding.owned[i] : NULL;
    struct masters *owned = &move->fusion->coding.owned[i];
    uint64_t count = config->tensors[i].count;
    for (int p = 0; p < config->rule.planes && count && result == tuttiSuccess; p++) {
      const float *mine = !old ? NULL : move->is_back ? old->changed[p] : old->planes[p];
      result = owned_move(move, i, mine, owned->planes[p], 1);
    }
    owned->is_given = covered[i] == count;
    lost += count - covered[i];
  }
  if (result == tuttiSuccess && lost && config->rank == 0)
    tt_log(TT_LOG_WARN, "fusion: the masters of %llu elements are lost with their owners: give the weights again by "
           "tuttiFusionState (plane 0), on all ranks; what else updates keep for these elements begins as zeros",
           (unsigned long long)lost);
  return result;
}

static tuttiResult_t state_move(struct move *move, uint64_t most)
{
  struct tuttiFusion *fusion = move->fusion;
  const struct config *config = &fusion->config;
  move->whole = tt_alloc(most, sizeof *move->whole);
  uint64_t *covered = tt_alloc((size_t)config->n, sizeof *covered);
  tuttiResult_t result = tuttiSuccess;
  if (!move->whole || !covered)
    result = tt_fail(tuttiSystemError, "out of memory to move the state of %d tensors", config->n);
  result = tt_fusion_told(config, result);
  for (int i = 0; i < config->n && result == tuttiSuccess; i++)
    if (config->tensors[i].has_codec) result = code_move(move, i);
  if (result == tuttiSuccess && fusion->coding.owned && !fusion->served) result = masters_move(move, covered);
  tt_free(move->whole);
  tt_free(covered);
  return result;
}

/* Scales and rates are a rank's own where its steps are. */
static void scales_take(struct move *move, const struct agreed *agreed)
{
  const struct tuttiFusion *from = move->from;
  struct tuttiFusion *fusion = move->fusion;
  int is_own = from && has_own_steps(from);
  move->factor = from && !is_own ? from->coding.after / agreed->planes_after : 1;
  fusion->coding.after = is_own ? from->coding.after : agreed->planes_after;
  fusion->shared.scale = (struct scale){from ? from->shared.scale.before : 1, agreed->next_after, agreed->rate};
  if (is_own) fusion->shared.scale = from->shared.scale;
}

tuttiResult_t tt_fusion_take(struct tuttiFusion *fusion, struct tuttiFusion *from)
{
  const struct config *config = &fusion->config;
  struct agreed agreed = {0, 1, 1, 0};
  uint64_t most = 1;
  int is_counted = 0;
  for (int i = 0; i < config->n; i++)
    if (config->tensors[i].is_coded && config->tensors[i].count > most) most = config->tensors[i].count;
  if (from && from->served) {
    from->served->heir = config->channel[0];
    tt_fusion_stop(from); /* an error of it is known */
    from->served->heir = NULL;
  }
  tuttiResult_t result = agree(fusion, from, &agreed);
  if (result != tuttiSuccess) return result;
  struct move move = {.fusion = fusion, .from = from};
  scales_take(&move, &agreed);
  fusion->coding.past = (struct past){.steps = agreed.step, .kept = KEPT_SAME};
  if (fusion->served) result = tt_served_take(fusion, from, &is_counted);
  if (result != tuttiSuccess) return result;
  int is_half = from && is_half_ended(from), is_ahead = from && !has_own_steps(from) && step_of(from) > agreed.step;
  move.is_back = (is_ahead && (is_half || from->coding.past.kept == KEPT_BEFORE)) != (is_half || is_counted);
  return state_move(&move, most);
}

/* ---- the caller's side ---- */

/* Room for the options of a fusion, as they are given to create one. */
struct again {
  tuttiFusionConfig_t config;
  tuttiFusionTensor_t *tensors;
  uint32_t *rows;
  uint8_t *exempt;
  char codec[TT_CODEC_TEXT_BYTES], rule[RULE_BYTES];
};

/* All stays all; of fewer ranks than the call wanted all are needed. */
static void serving_make(struct again *again, const struct serving *serving, int nranks)
{
  int fewer = serving->asked < nranks ? serving->asked : nranks;
  again->config.quorum = serving->wants_all ? nranks : fewer;
  again->config.staleness = serving->staleness;
}

static int again_make(struct again *again, const struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  size_t n = (size_t)config->n;
  again->tensors = tt_alloc(n, sizeof *again->tensors);
  again->rows = tt_alloc(n, sizeof *again->rows);
  again->exempt = tt_alloc(n, sizeof *again->exempt);
  if (!again->tensors || !again->rows || !again->exempt) return 0;
  for (size_t i = 0; i < n; i++) {
    const struct tensor *tensor = &config->tensors[i];
    again->tensors[i] = (tuttiFusionTensor_t){tensor->name, tensor->count, (tuttiDataType_t)tensor->type};
    again->rows[i] = tensor->row;
    again->exempt[i] = (uint8_t)tensor->is_exempt;
  }
  again->config = (tuttiFusionConfig_t)TUTTI_FUSION_CONFIG_INITIALIZER;
  again->config.policy = config->policy_text;
  again->config.buffer_bytes = config->asked_bytes;
  again->config.op = config->redop;
  again->config.wire_type = config->wire;
  again->config.overflow = config->reports;
  again->config.norms = config->norms;
  again->config.codec = tt_fusion_codec_text(&fusion->coding.codec, again->codec);
  again->config.codec_least = config->codec_least;
  again->config.rows = again->rows;
  int is_plain = config->rule.kind == EASGD && !config->rule.is_alpha_given;
  again->config.update = is_plain ? "easgd" : tt_fusion_rule_text(&config->rule, again->rule);
  again->config.function = config->rule.function;
  again->config.context = config->rule.context;
  again->config.rate = fusion->shared.scale.rate;
  again->config.weights_type = config->rule.weights;
  again->config.exempt = again->exempt;
  return 1;
}

/* The engine has ended for a move that failed then: the next call of the caller is told. */
static void end_note(struct tuttiFusion *fusion, tuttiResult_t result)
{
  struct shared *shared = &fusion->shared;
  if (!fusion->served || fusion->has_thread) return;
  pthread_mutex_lock(&shared->mutex);
  if (shared->failed == tuttiSuccess) {
    shared->failed = result;
    snprintf(shared->sentence, sizeof shared->sentence, "%s", tt_last_sentence());
  }
  pthread_mutex_unlock(&shared->mutex);
}

tuttiResult_t tt_fusion_move(struct tuttiFusion **moved, struct tuttiComm *comm)
{
  struct tuttiFusion *fusion = *moved, *made = NULL;
  struct again again = {.tensors = NULL};
  tuttiResult_t result = tt_fusion_rest(fusion);
  if (result != tuttiSuccess) return result;
  if (again_make(&again, fusion)) {
    serving_make(&again, &fusion->config.serving, tt_comm_facts(comm)->nranks);
    struct tt_fusion_spec spec = {comm, again.tensors, fusion->config.n, &again.config, fusion};
    result = tt_fusion_create(&made, &spec);
  } else result = tt_comm_give_up(comm, tt_fail(tuttiSystemError, "out of memory for a fusion"), 0);
  tt_free(again.tensors);
  tt_free(again.rows);
  tt_free(again.exempt);
  if (result != tuttiSuccess) {
    end_note(fusion, result);
    return result;
  }
  tt_fusion_destroy(fusion); /* an error of it is known */
  *moved = made;
  return tuttiSuccess;
}
