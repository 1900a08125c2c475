/* SPDX-License-Identifier: BSD-3-Clause */
/* TUTTI_EXPLAIN: for each shape of a call rank 0 logs the choice, the predicted time and the measured time.
 *
 * The first call of a shape opens links and makes plans, so the second one is timed. The prediction is made after the
 * first one, which takes long anyway, and kept: a program that times its calls has it in none that it counts. When a
 * shape has settled (learning.c) its prediction is logged as well. */
#include "tuner/explain.h"

#include <stdio.h>
#include <string.h>

#include "comm/private.h"

#define HALF_POWERS 128 /* of two */
#define TYPES 32
#define TIMED 2 /* which call of a shape */

/* The prediction for a shape that was called once. */
struct kept {
  struct kept *next;
  const uint8_t *shape;
  struct tt_choice choice;
  char text[TT_SENTENCE_BYTES / 2];
};

struct tt_explainer {
  struct tt_pricing *pricing;
  struct tt_rules rules;
  uint8_t calls[TT_COLLECTIVES][TYPES][HALF_POWERS]; /* of a shape, up to TIMED */
  uint8_t *shape;    /* of the operation under way, in `calls`; NULL: it is told nothing of */
  struct kept *kept;
  uint64_t began_ns; /* of that operation */
  struct tt_call call;
  uint64_t bytes;
  char text[TT_SENTENCE_BYTES / 2];
};

tuttiResult_t tt_explainer_create(struct tt_explainer **explainer, struct tt_pricing **pricing, const char *table)
{
  struct tt_explainer *made = tt_alloc(1, sizeof *made);
  if (!made) return tt_fail(tuttiSystemError, "no memory to explain choices (TUTTI_EXPLAIN): give the process more");
  tuttiResult_t result = table[0] ? tt_rules_load(&made->rules, table) : tuttiSuccess;
  if (result != tuttiSuccess) {
    tt_free(made);
    return result;
  }
  made->pricing = *pricing;
  *pricing = NULL;
  *explainer = made;
  return tuttiSuccess;
}

void tt_explainer_destroy(struct tt_explainer *explainer)
{
  if (!explainer) return;
  for (struct kept *kept = explainer->kept, *next; kept; kept = next) {
    next = kept->next;
    tt_free(kept);
  }
  tt_pricing_destroy(explainer->pricing);
  tt_rules_destroy(&explainer->rules);
  tt_free(explainer);
}

/* Numbers sizes by the half power of two that is at most as large. */
static int half_power(uint64_t bytes)
{
  if (!bytes) return 0;
  int power = 63 - __builtin_clzll(bytes);
  return 2 * power + ((double)bytes * (double)bytes >= 2.0 * (double)(1ull << power) * (double)(1ull << power));
}

void tt_explain_begin(struct tuttiComm *comm, const struct tt_call *call)
{
  struct tt_explainer *explainer = comm->calls.explainer;
  explainer->shape = NULL;
  if (call->collective == TT_PAIRS || call->collective == TT_NO_COLLECTIVE) return;
  explainer->bytes = call->count * tt_type_size(tt_call_wire_type(call));
  uint8_t *calls = &explainer->calls[call->collective][call->type % TYPES][half_power(explainer->bytes)];
  if (*calls == TIMED) return;
  ++*calls;
  explainer->shape = calls;
  explainer->call = *call;
  explainer->began_ns = tt_now_ns();
}

static tuttiResult_t prediction_write(const struct tuttiComm *comm, const struct tt_call *call,
                                      const struct tt_choice *choice, enum tt_memory memory)
{
  struct tt_explainer *explainer = comm->calls.explainer;
  struct tt_tuning tuning = *tt_pricing_tuning(explainer->pricing);
  tuning.memory = memory;
  const struct tt_decision decision = {.call = call, .choice = choice, .rules = &explainer->rules};
  return tt_explain_short(explainer->text, sizeof explainer->text, &decision, &comm->facts.settings,
                          &tuning);
}

/* Keeps a prediction for the second call of the shape, which makes it by itself if there is no memory. */
static void prediction_keep(struct tuttiComm *comm, const struct tt_choice *choice, enum tt_memory memory)
{
  struct tt_explainer *explainer = comm->calls.explainer;
  struct kept *kept = tt_alloc(1, sizeof *kept);
  if (!kept) return;
  *kept = (struct kept){.next = explainer->kept, .shape = explainer->shape, .choice = *choice};
  explainer->kept = kept;
  if (prediction_write(comm, &explainer->call, choice, memory) != tuttiSuccess) return; /* it was said why */
  memcpy(kept->text, explainer->text, sizeof kept->text);
}

/* Brings what was kept to explainer->text; 0: there is nothing, or it is of another choice. */
static int prediction_take(struct tt_explainer *explainer, const struct tt_choice *choice)
{
  struct kept **at = &explainer->kept;
  while (*at && (*at)->shape != explainer->shape) at = &(*at)->next;
  struct kept *kept = *at;
  if (!kept) return 0;
  *at = kept->next;
  int is_same = tt_choices_same(choice, &kept->choice) && kept->text[0];
  memcpy(explainer->text, kept->text, sizeof kept->text);
  tt_free(kept);
  return is_same;
}

void tt_explain_end(struct tuttiComm *comm, tuttiResult_t result)
{
  struct tt_explainer *explainer = comm->calls.explainer;
  const struct tt_call *call = &explainer->call;
  if (!explainer->shape || result != tuttiSuccess) return;
  double us = (double)(tt_now_ns() - explainer->began_ns) / 1e3;
  const char *caution = comm->facts.oversubscribed ? "; caution: ranks share cores, which is not predicted" : "";
  int wire = tt_call_wire_type(call);
  size_t element = tt_type_size(wire);
  int is_plain = !(call->form & (TT_FORM_CODED | TT_FORM_COUNTS));
  enum tt_memory memory = is_plain ? tt_comm_memory(comm, call->collective, element, explainer->bytes)
                                   : TT_MEMORY_MALLOC;
  const struct tt_choice *by_table = tt_table_choice_in(&comm->calls.table, memory, call->collective, explainer->bytes);
  const struct tt_choice *choice =
      is_plain ? tt_comm_choice(comm, call->collective, element, explainer->bytes) : by_table;
  int is_learnt = !tt_choices_same(choice, by_table);
  if (*explainer->shape < TIMED) {
    prediction_keep(comm, choice, memory);
    return;
  }
  if (!prediction_take(explainer, choice) && prediction_write(comm, call, choice, memory) != tuttiSuccess) return;
  tt_log(TT_LOG_ASKED, "EXPLAIN %s of %llu B %s%s%s on %d ranks%s%s: %s%s; measured %.*f us, the second time%s",
         tt_kinds[call->collective].name, (unsigned long long)(call->count * tt_type_size(call->type)),
         tt_type_name(call->type), wire == call->type ? "" : " as ", wire == call->type ? "" : tt_type_name(wire),
         comm->facts.nranks, comm->facts.name[0] ? " of " : "", comm->facts.name, explainer->text,
         is_learnt ? "; the learner has found or tries it" : "", us < 100 ? 2 : 0, us, caution);
}

const char *tt_explain_choice(const struct tuttiComm *comm, const struct tt_learnt *learnt)
{
  static const uint8_t types[TT_WIDTHS] = {tuttiInt8, tuttiFloat16, tuttiFloat32, tuttiFloat64, tuttiComplexFloat64};
  struct tt_call call = {.collective = learnt->collective, .type = types[learnt->width], .redop = tuttiSum, .root = -1};
  call.count = tt_size_class_bytes(learnt->size_class) >> learnt->width;
  if (!comm->calls.explainer) return NULL;
  tuttiResult_t result = prediction_write(comm, &call, &learnt->choice, (enum tt_memory)learnt->memory);
  return result == tuttiSuccess ? comm->calls.explainer->text : NULL;
}
