/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration that a program gives to a communicator, and the GPU to which it belongs. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/process.h"
#include "comm/creation_private.h"
#include "cuda/stream.h"

/* settings are this communicator's own, or already its parent's. */
static void deterministic_apply(struct tt_settings *settings, const tuttiConfig_t *config, int is_child)
{
  int said = config ? config->deterministic : TUTTI_CONFIG_UNDEF_INT;
  if (!is_child) { /* choices: config, 0, 1 */
    int choice = settings->deterministic;
    settings->deterministic = choice ? choice == 2 : said == 1;
  } else if (said != TUTTI_CONFIG_UNDEF_INT && !tt_env("TUTTI_DETERMINISTIC")) settings->deterministic = said;
}

/* Likewise. The effective choice stays in the settings, as one of those of the environment. */
static void learn_apply(struct tt_settings *settings, const tuttiConfig_t *config, int is_child)
{
  static const int choices[] = {TT_LEARN_OFF, TT_LEARN_ON, TT_LEARN_FREEZE}; /* by the value of config->learn */
  const char *forced = tt_env("TUTTI_LEARN");
  int takes = is_child ? !forced || !strcasecmp(forced, "config") : settings->learn == TT_LEARN_CONFIG;
  if (takes && config && config->learn != TUTTI_CONFIG_UNDEF_INT) settings->learn = choices[config->learn];
  if (settings->learn == TT_LEARN_CONFIG) settings->learn = TT_LEARN_ON;
}

/* Likewise. The effective type stays in the settings, as one of their choices: all ranks must have the same. */
static void wire_type_apply(struct tuttiComm *comm, const tuttiConfig_t *config, int is_child)
{
  static const int choices[] = {TUTTI_CONFIG_UNDEF_INT, tuttiFloat32, tuttiFloat16, tuttiBfloat16};
  const char *forced = tt_env("TUTTI_WIRE_TYPE");
  int said = config ? config->wire_type : TUTTI_CONFIG_UNDEF_INT;
  int *choice = &comm->facts.settings.wire_type;
  int takes = is_child ? !forced || !strcasecmp(forced, "config") : !*choice;
  for (int c = 1; takes && c < 4; c++)
    if (choices[c] == said) *choice = c;
  if (!*choice) *choice = 1;
  comm->facts.wire_type = choices[*choice];
}

/* Likewise. Levels are choices less one. */
static tuttiResult_t fault_level_apply(struct tt_settings *settings, const tuttiConfig_t *config, int is_child)
{
  const char *forced = tt_env("TUTTI_FAULT_LEVEL");
  int said = config ? config->fault_level : TUTTI_CONFIG_UNDEF_INT;
  int takes = is_child ? !forced || !strcasecmp(forced, "config") : !settings->fault_level;
  if (takes && said != TUTTI_CONFIG_UNDEF_INT) settings->fault_level = 1 + said;
  if (!settings->fault_level) settings->fault_level = 1;
  int level = settings->fault_level - 1;
  if (level != 2) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "fault_level is 2, and holder groups are not there yet: set it to 0, 1 or 3%s",
                 forced ? " (TUTTI_FAULT_LEVEL)" : "");
}

static void name_apply(struct tuttiComm *comm, const char *name)
{
  if (name) {
    snprintf(comm->facts.name, sizeof comm->facts.name, "%s", name);
    snprintf(comm->facts.label, sizeof comm->facts.label, "communicator \"%s\"", comm->facts.name);
  } else snprintf(comm->facts.label, sizeof comm->facts.label, "communicator of %d ranks", comm->facts.nranks);
}

tuttiResult_t tt_config_apply(struct tuttiComm *comm, const tuttiConfig_t *config, int is_child)
{
  comm->life.creation->is_named = tt_env("TUTTI_TRANSPORTS") || (config && config->transports);
  deterministic_apply(&comm->facts.settings, config, is_child);
  wire_type_apply(comm, config, is_child);
  learn_apply(&comm->facts.settings, config, is_child);
  int is_fusions = comm->life.creation->is_second; /* which learns times of messages itself */
  if (is_fusions && comm->facts.settings.learn == TT_LEARN_ON) comm->facts.settings.learn = TT_LEARN_FREEZE;
  name_apply(comm, config ? config->name : NULL);
  tuttiResult_t result = fault_level_apply(&comm->facts.settings, config, is_child);
  if (!config || result != tuttiSuccess) return result;
  if (config->timeout_ms != TUTTI_CONFIG_UNDEF_INT && !tt_env("TUTTI_TIMEOUT_MS"))
    comm->facts.settings.timeout_ms = config->timeout_ms;
  if (config->init_timeout_ms != TUTTI_CONFIG_UNDEF_INT && !tt_env("TUTTI_INIT_TIMEOUT_MS"))
    comm->facts.settings.init_timeout_ms = config->init_timeout_ms;
  if (config->transports && !tt_env("TUTTI_TRANSPORTS")) {
    if (strlen(config->transports) >= TT_SETTING_TEXT_BYTES)
      return tt_fail(tuttiInvalidArgument, "config.transports has %zu bytes: at most %d are allowed",
                     strlen(config->transports), TT_SETTING_TEXT_BYTES - 1);
    strcpy(comm->facts.settings.transports, config->transports);
  }
  return tuttiSuccess;
}

int tt_config_costs(const struct tuttiComm *comm, const struct tt_transport_ops *ops)
{
  struct tt_settings without = comm->facts.settings;
  char why[TT_SENTENCE_BYTES];
  if (comm->facts.rank || without.auth < TT_AUTH_DATA) return 0;
  without.auth = TT_AUTH_KEY;
  return !ops->unusable(&without, why, sizeof why) && !atomic_exchange(&tt_process.auth_warned, 1);
}

#define SLOT_BYTES_OF_RANK 32 /* so that each rank has room for an element of IN and of OUT, whatever its type */

tuttiResult_t tt_slots_apply(struct tuttiComm *comm, const struct tt_comm_spec *spec)
{
  struct tt_comm_facts *facts = &comm->facts;
  size_t page = 4096, most = ((size_t)spec->nranks * SLOT_BYTES_OF_RANK + page - 1) / page * page;
  facts->slot_bytes = (size_t)facts->settings.cuda_slot_bytes / page * page;
  if (facts->slot_bytes < most) facts->slot_bytes = most;
  if (spec->parent && !spec->grows) facts->slot_bytes = spec->parent->facts.slot_bytes;
  if (spec->is_second)
    return spec->parent->parts.slots ? tt_slots_make_own(&comm->parts.own, spec->parent->parts.slots) : tuttiSuccess;
  tuttiResult_t result = tt_slots_make(&comm->parts.slots, facts->slot_bytes, facts->device,
                                       spec->parent ? spec->parent->parts.slots : NULL);
  if (result != tuttiSuccess || !comm->parts.slots) return result;
  facts->device = comm->parts.slots->ordinal;
  if (facts->settings.cuda_on_error) result = tt_slots_set_trap(comm->parts.slots);
  if (result == tuttiSuccess) result = tt_slots_make_own(&comm->parts.own, comm->parts.slots);
  if (result != tuttiSuccess) return result;
  result = tt_progress_hold(comm);
  comm->life.holds_progress = result == tuttiSuccess;
  return result;
}
