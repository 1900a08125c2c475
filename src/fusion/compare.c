/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that options and tensors are the same on all ranks. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "fusion/private.h"

/* ---- options ---- */

enum option {
  NUMBER, OP, WIRE, OVERFLOW_, NORMS, BUFFER, LEAST, WEIGHTS, QUORUM, STALENESS, POLICY, CODEC, UPDATE, OPTIONS
};

/* The options of a rank, as all ranks get them. */
struct said {
  int64_t numbers[POLICY]; /* options that are numbers */
  char policy[sizeof ((struct config *)0)->policy_text];
  char codec[TT_CODEC_TEXT_BYTES];
  char update[RULE_BYTES];
  int32_t has_come; /* beside the options, as is: */
  int32_t asked, wants_all; /* of the quorum; those of the first rank that has a fusion count, */
  uint64_t made;            /* and of this rank 0's */
};

static void options_say(const struct config *config, struct said *said)
{
  said->numbers[NUMBER] = config->n;
  said->numbers[OP] = config->redop;
  said->numbers[WIRE] = config->wire;
  said->numbers[OVERFLOW_] = config->reports;
  said->numbers[NORMS] = config->norms;
  said->numbers[BUFFER] = (int64_t)config->asked_bytes;
  said->numbers[LEAST] = (int64_t)config->codec_least;
  said->numbers[WEIGHTS] = config->rule.weights;
  said->numbers[QUORUM] = config->serving.quorum;
  said->numbers[STALENESS] = config->serving.staleness;
  tt_fusion_codec_text(&config->codec, said->codec);
  tt_fusion_rule_text(&config->rule, said->update);
  said->has_come = config->moving.has_come;
  said->asked = config->serving.asked;
  said->wants_all = config->serving.wants_all;
  said->made = tt_now_ns() ^ (uint64_t)getpid() << 40;
  memcpy(said->policy, config->policy_text, sizeof said->policy);
}

static const char *option_text(const struct said *said, enum option option, char *text, size_t size)
{
  if (option == POLICY) snprintf(text, size, "%.63s", said->policy);
  else if (option == CODEC) snprintf(text, size, "%.79s", said->codec);
  else if (option == UPDATE) snprintf(text, size, "%.79s", said->update);
  else if (option == OP) snprintf(text, size, "%s", tt_redop_name((int)said->numbers[option]));
  else if (option == WIRE || option == WEIGHTS) snprintf(text, size, "%s", tt_type_name((int)said->numbers[option]));
  else snprintf(text, size, "%lld", (long long)said->numbers[option]);
  return text;
}

static enum option first_unlike(const struct said *a, const struct said *b)
{
  enum option option = 0;
  while (option < POLICY && a->numbers[option] == b->numbers[option]) option++;
  if (option < POLICY || memcmp(a->policy, b->policy, sizeof a->policy) != 0) return option;
  if (memcmp(a->codec, b->codec, sizeof a->codec) != 0) return CODEC;
  return memcmp(a->update, b->update, sizeof a->update) == 0 ? OPTIONS : UPDATE;
}

/* All ranks find the same difference, because they compare the same options. */
static tuttiResult_t said_compare(const struct said *said, int nranks)
{
  static const char *const names[OPTIONS] = {"ntensors", "op", "wire_type", "overflow", "norms",
                                             "buffer_bytes (TUTTI_FUSION_BYTES)", "codec_least",
                                             "weights_type", "quorum", "staleness", "policy (TUTTI_FUSION_POLICY)",
                                             "codec (TUTTI_FUSION_CODEC)", "update"};
  char its[80], first[80];
  for (int r = 1; r < nranks; r++) {
    enum option option = first_unlike(&said[r], &said[0]);
    if (option == OPTIONS) continue;
    return tt_fail(tuttiInvalidUsage, "%s is %s on rank %d and %s on rank 0: create the fusion with the same on all "
                   "ranks", names[option], option_text(&said[r], option, its, sizeof its), r,
                   option_text(&said[0], option, first, sizeof first));
  }
  return tuttiSuccess;
}

static tuttiResult_t options_compare(struct config *config)
{
  struct said *said = tt_alloc((size_t)config->nranks, sizeof *said);
  if (!said)
    return tt_fusion_told(config,
                         tt_fail(tuttiSystemError, "out of memory for the options of %d ranks", config->nranks));
  options_say(config, &said[config->rank]);
  tuttiResult_t result = tt_fusion_run(config, TT_ALL_GATHER, said, sizeof *said, tuttiUint8, tuttiSum);
  if (result == tuttiSuccess) result = said_compare(said, config->nranks);
  for (int r = config->nranks - 1; r >= 0 && result == tuttiSuccess; r--) {
    config->moving.is_any |= said[r].has_come;
    if (!said[r].has_come) continue;
    config->serving.asked = said[r].asked;
    config->serving.wants_all = said[r].wants_all;
  }
  config->moving.made = said[0].made;
  tt_free(said);
  return result;
}

/* ---- tensors ---- */

struct listed {
  uint64_t count, name; /* a hash */
  int32_t type;
  uint32_t row;
  uint64_t is_exempt;
};

struct shown {
  uint64_t count;
  int32_t type;
  uint32_t row;
  int32_t is_exempt;
  char name[NAME_BYTES];
};

static struct listed list(const struct tensor *tensor)
{
  return (struct listed){tensor->count, tt_text_hash(0, tensor->name), tensor->type, tensor->row,
                         (uint64_t)tensor->is_exempt};
}

/* Finds the first tensor that differs from that of rank 0; *index is n if there is none. */
static tuttiResult_t lists_compare(const struct config *config, int *index)
{
  size_t n = (size_t)config->n;
  struct listed *first = tt_alloc(n, sizeof *first);
  if (!first) return tt_fusion_told(config, tt_fail(tuttiSystemError, "out of memory to compare %zu tensors", n));
  for (int i = 0; i < config->n && config->rank == 0; i++) first[i] = list(&config->tensors[i]);
  tuttiResult_t result = tt_fusion_run(config, TT_BROADCAST, first, n * sizeof *first, tuttiUint8, tuttiSum);
  for (*index = 0; result == tuttiSuccess && *index < config->n; ++*index) {
    struct listed mine = list(&config->tensors[*index]);
    if (memcmp(&first[*index], &mine, sizeof mine) != 0) break;
  }
  tt_free(first);
  return result;
}

/* ", rows of 64" or ", exempt", if the other one has not the same. */
static const char *rows_text(const struct shown *shown, const struct shown *other, char text[32])
{
  text[0] = '\0';
  if (shown->is_exempt != other->is_exempt) snprintf(text, 32, ", %sexempt", shown->is_exempt ? "" : "not ");
  if (shown->row != other->row) snprintf(text, 32, ", rows of %u", shown->row);
  return text;
}

/* Gathers the tensor of all ranks, and fails with the difference between that of `rank` and that of rank 0. */
static tuttiResult_t difference_show(const struct config *config, int rank, int index)
{
  const struct tensor *tensor = &config->tensors[index];
  char row[2][32];
  struct shown *shown = tt_alloc((size_t)config->nranks, sizeof *shown);
  if (!shown)
    return tt_fusion_told(config, tt_fail(tuttiSystemError, "out of memory for a tensor of %d ranks", config->nranks));
  shown[config->rank] = (struct shown){.count = tensor->count, .type = tensor->type, .row = tensor->row,
                                        .is_exempt = tensor->is_exempt};
  memcpy(shown[config->rank].name, tensor->name, NAME_BYTES);
  tuttiResult_t result = tt_fusion_run(config, TT_ALL_GATHER, shown, sizeof *shown, tuttiUint8, tuttiSum);
  if (result == tuttiSuccess)
    result = tt_fail(tuttiInvalidUsage, "tensor %d is %.127s (%llu elements of %s%s) on rank %d and %.127s "
                     "(%llu elements of %s%s) on rank 0: create the fusion with the same tensors on all ranks, in the "
                     "same order", index, shown[rank].name, (unsigned long long)shown[rank].count,
                     tt_type_name(shown[rank].type), rows_text(&shown[rank], &shown[0], row[0]), rank, shown[0].name,
                     (unsigned long long)shown[0].count, tt_type_name(shown[0].type),
                     rows_text(&shown[0], &shown[rank], row[1]));
  tt_free(shown);
  return result;
}

/* Finds the first rank that has another list, and reports its first difference. */
static tuttiResult_t tensors_compare(const struct config *config)
{
  int index = 0;
  tuttiResult_t result = lists_compare(config, &index);
  if (result != tuttiSuccess) return result;
  int64_t first = index < config->n ? (int64_t)config->rank * config->n + index : INT64_MAX;
  result = tt_fusion_run(config, TT_ALL_REDUCE, &first, 1, tuttiInt64, tuttiMin);
  if (result != tuttiSuccess || first == INT64_MAX) return result;
  if (first < 0 || first / config->n >= config->nranks)
    return tt_fusion_told(config, tt_fail(tuttiInternalError, "a rank says that tensor %lld of all ranks' is another "
                                          "one, and there are %d of %d ranks: its memory is damaged", (long long)first,
                                          config->n, config->nranks));
  return difference_show(config, (int)(first / config->n), (int)(first % config->n));
}

tuttiResult_t tt_fusion_compare(struct config *config)
{
  tuttiResult_t result = options_compare(config);
  return result == tuttiSuccess ? tensors_compare(config) : result;
}
