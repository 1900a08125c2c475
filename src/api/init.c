/* SPDX-License-Identifier: BSD-3-Clause */
/* tuttiCommInit*: check, then create now, in the group, or on the progress thread. */
#include <stdio.h>
#include <string.h>

#include "api/form_private.h"
#include "bootstrap/bootstrap.h"

static tuttiResult_t config_check(const tuttiConfig_t *config)
{
  if (!config) return tuttiSuccess;
  if (config->magic != TUTTI_CONFIG_MAGIC || config->size < offsetof(tuttiConfig_t, blocking))
    return tt_fail(tuttiInvalidArgument,
                   "config was not initialised: begin with tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER");
  if (config->blocking != TUTTI_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1)
    return tt_fail(tuttiInvalidArgument, "config.blocking is %d: set it to 0 or 1", config->blocking);
  if (config->timeout_ms != TUTTI_CONFIG_UNDEF_INT && config->timeout_ms < 0)
    return tt_fail(tuttiInvalidArgument, "config.timeout_ms is %d: set it to 0 (never) or more", config->timeout_ms);
  if (config->deterministic != TUTTI_CONFIG_UNDEF_INT && config->deterministic != 0 && config->deterministic != 1)
    return tt_fail(tuttiInvalidArgument, "config.deterministic is %d: set it to 0 or 1", config->deterministic);
  if (!tt_is_wire_type(config->wire_type))
    return tt_fail(tuttiInvalidArgument, "config.wire_type is %d: set it to " TT_WIRE_TYPES_TEXT, config->wire_type);
  if (config->learn != TUTTI_CONFIG_UNDEF_INT && (config->learn < 0 || config->learn > 2))
    return tt_fail(tuttiInvalidArgument, "config.learn is %d: set it to 0, 1 or 2", config->learn);
  if (config->init_timeout_ms != TUTTI_CONFIG_UNDEF_INT && config->init_timeout_ms < 1)
    return tt_fail(tuttiInvalidArgument, "config.init_timeout_ms is %d: set it to 1 or more", config->init_timeout_ms);
  if (config->device != TUTTI_CONFIG_UNDEF_INT && config->device < 0)
    return tt_fail(tuttiInvalidArgument, "config.device is %d: set it to the number of a GPU, from 0", config->device);
  if (config->fault_level != TUTTI_CONFIG_UNDEF_INT && (config->fault_level < 0 || config->fault_level > 3))
    return tt_fail(tuttiInvalidArgument, "config.fault_level is %d: set it to 0, 1 or 3", config->fault_level);
  if (config->name && strlen(config->name) > 63)
    return tt_fail(tuttiInvalidArgument, "config.name has %zu bytes: at most 63 are allowed", strlen(config->name));
  for (const char *at = config->name; at && *at; at++)
    if ((unsigned char)*at < ' ')
      return tt_fail(tuttiInvalidArgument, "config.name has the control character %#x: it would break log lines", *at);
  return tuttiSuccess;
}

/* In what a program gives that was compiled without a field, the field is not there: it begins where those of then
 * ended, padding included. */
_Static_assert(offsetof(tuttiConfig_t, deterministic) == 40 && offsetof(tuttiConfig_t, wire_type) == 48 &&
                   offsetof(tuttiConfig_t, learn) == 56 && offsetof(tuttiConfig_t, init_timeout_ms) == 64 &&
                   offsetof(tuttiConfig_t, device) == 72 && offsetof(tuttiConfig_t, fault_level) == 80,
               "sizes of the struct as it was before each field");

/* A copy that has all fields of this version, whatever size the program knew. */
static tuttiResult_t config_take(tuttiConfig_t *copy, const tuttiConfig_t *config)
{
  *copy = (tuttiConfig_t)TUTTI_CONFIG_INITIALIZER;
  if (!config) return tuttiSuccess;
  size_t size = config->size < sizeof *copy ? config->size : sizeof *copy;
  if (config->magic != TUTTI_CONFIG_MAGIC || size < offsetof(tuttiConfig_t, blocking)) return config_check(config);
  memcpy(copy, config, size);
  return config_check(copy);
}

static tuttiResult_t spec_check(const tuttiComm_t *comm, int nranks, int rank)
{
  tuttiResult_t result = tt_process_check();
  if (result != tuttiSuccess) return result;
  if (!comm) return tt_null("comm");
  if (nranks < 1 || nranks > TT_RANKS_MAX)
    return tt_fail(tuttiInvalidArgument, "nranks is %d: it must be from 1 to %d", nranks, TT_RANKS_MAX);
  if (rank < 0 || rank >= nranks)
    return tt_fail(tuttiInvalidArgument, "rank is %d: it must be from 0 to nranks - 1 = %d", rank, nranks - 1);
  return tuttiSuccess;
}

enum { BLOCKING_CONFIG, BLOCKING_0, BLOCKING_1 }; /* choices of TUTTI_COMM_BLOCKING */

/* Puts config.blocking into the communicator's settings, which its children inherit. */
static void blocking_apply(struct tt_settings *settings, const tuttiConfig_t *config)
{
  const char *said = tt_env("TUTTI_COMM_BLOCKING");
  int is_forced = said && strcmp(said, "config") != 0;
  if (!is_forced && config->blocking != TUTTI_CONFIG_UNDEF_INT)
    settings->blocking = config->blocking ? BLOCKING_1 : BLOCKING_0;
}

static tuttiResult_t init(tuttiComm_t *out, const struct tt_comm_spec *spec)
{
  struct tuttiComm *comm = NULL;
  tuttiResult_t result = tt_comm_create(&comm, spec);
  if (result == tuttiSuccess) {
    int is_split = spec->parent && !spec->exclude && !spec->grows;
    int has_none = is_split && spec->color == TUTTI_SPLIT_NOCOLOR; /* no handle to poll */
    int blocking = has_none || spec->settings->blocking != BLOCKING_0;
    if (tt_group_active()) return tt_group_add_creation(comm, out, !blocking);
    result = blocking ? tt_comm_create_wait(comm) : tt_comm_create_later(comm);
  }
  if (result == tuttiSuccess || result == tuttiInProgress) *out = tt_comm_handle(comm);
  else if (comm) tt_comm_destroy(comm);
  return result;
}

static tuttiResult_t init_checked(tuttiComm_t *out, struct tt_comm_spec *spec, const tuttiConfig_t *config)
{
  struct tt_settings settings;
  tuttiConfig_t copy;
  tuttiResult_t result = spec_check(out, spec->nranks, spec->rank);
  if (result == tuttiSuccess) result = config_take(&copy, config);
  if (result == tuttiSuccess) result = tt_settings_load(&settings);
  if (result != tuttiSuccess) return result;
  blocking_apply(&settings, &copy);
  if (copy.device != TUTTI_CONFIG_UNDEF_INT) spec->device = copy.device;
  spec->config = &copy;
  spec->settings = &settings;
  return init(out, spec);
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t *comm, int nranks, tuttiUniqueId id, int rank, tuttiConfig_t *config)
{
  struct tt_comm_spec spec = {.id = &id, .nranks = nranks, .rank = rank, .device = -1};
  tuttiResult_t result = init_checked(comm, &spec, config);
  return result == tuttiSuccess || result == tuttiInProgress ? result : tt_group_refuse(result);
}

tuttiResult_t tuttiCommInitRank(tuttiComm_t *comm, int nranks, tuttiUniqueId id, int rank)
{
  return tuttiCommInitRankConfig(comm, nranks, id, rank, NULL);
}

static tuttiResult_t init_all(tuttiComm_t *comms, int ndev, const int *devlist)
{
  tuttiUniqueId id;
  tuttiResult_t result = tuttiGetUniqueId(&id);
  tt_group_start();
  for (int d = 0; d < ndev && result == tuttiSuccess; d++) {
    struct tt_comm_spec spec = {.id = &id, .nranks = ndev, .rank = d, .device = devlist ? devlist[d] : -1};
    result = init_checked(&comms[d], &spec, NULL);
  }
  if (result != tuttiSuccess) tt_group_refuse(result);
  tuttiResult_t ended = tt_group_end();
  return result == tuttiSuccess ? ended : result;
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t *comms, int ndev, const int *devlist)
{
  tuttiResult_t result = tt_process_check();
  if (result == tuttiSuccess && !comms) result = tt_null("comms");
  if (result == tuttiSuccess && ndev < 1)
    result = tt_fail(tuttiInvalidArgument, "ndev is %d: at least 1 rank is needed", ndev);
  return result == tuttiSuccess ? init_all(comms, ndev, devlist) : tt_group_refuse(result);
}

/* ---- from another communicator ---- */

static tuttiResult_t child_make(tuttiComm_t *out, struct tt_comm_spec *spec, const tuttiConfig_t *config)
{
  tuttiConfig_t copy;
  tuttiResult_t result = config_take(&copy, config);
  if (result != tuttiSuccess) return result;
  const struct tt_comm_facts *parent = tt_comm_facts(spec->parent);
  struct tt_settings settings = parent->settings;
  blocking_apply(&settings, &copy);
  spec->config = &copy;
  spec->settings = &settings;
  spec->device = parent->device;
  return init(out, spec);
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t *newcomm, tuttiConfig_t *config)
{
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_views_refuse(comm, "splits");
  if (result == tuttiSuccess && !newcomm) result = tt_null("newcomm");
  if (result == tuttiSuccess && color < 0 && color != TUTTI_SPLIT_NOCOLOR)
    result = tt_fail(tuttiInvalidArgument, "color is %d: it must be at least 0, or TUTTI_SPLIT_NOCOLOR (%d)", color,
                     TUTTI_SPLIT_NOCOLOR);
  if (result == tuttiSuccess) {
    struct tt_comm_spec spec = {.parent = comm, .color = color, .key = key};
    result = child_make(newcomm, &spec, config);
  }
  return result == tuttiSuccess || result == tuttiInProgress ? result : tt_group_refuse(result);
}

/* ---- with new ranks ---- */

tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId *id)
{
  struct tt_id made;
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_views_refuse(comm, "grows");
  if (result == tuttiSuccess && !id) result = tt_null("id");
  if (result == tuttiSuccess) result = tt_comm_health(comm);
  if (result == tuttiSuccess) result = tt_id_create(&made, &tt_comm_facts(comm)->settings);
  if (result == tuttiSuccess) tt_id_pack(&made, id);
  return result;
}

static tuttiResult_t parent_check(tuttiComm_t comm, int nranks, int rank)
{
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_views_refuse(comm, "grows");
  if (result != tuttiSuccess) return result;
  int has = tt_comm_facts(comm)->nranks;
  if (nranks <= has || nranks > TT_RANKS_MAX)
    return tt_fail(tuttiInvalidArgument, "nranks is %d: comm has %d ranks, so it must be from %d to %d", nranks, has,
                   has + 1, TT_RANKS_MAX);
  if (rank != -1)
    return tt_fail(tuttiInvalidArgument, "rank is %d: a rank of comm keeps its number, %d, so give -1", rank,
                   tt_comm_facts(comm)->rank);
  return tuttiSuccess;
}

tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId *id, int rank, tuttiComm_t *newcomm,
                            tuttiConfig_t *config)
{
  struct tt_comm_spec spec = {.parent = comm, .grows = comm != NULL, .id = id, .nranks = nranks, .rank = rank,
                              .device = -1};
  tuttiResult_t result = newcomm ? tuttiSuccess : tt_null("newcomm");
  if (result == tuttiSuccess && comm) result = parent_check(comm, nranks, rank);
  if (result == tuttiSuccess && !comm && !id) result = tt_null("id");
  if (result == tuttiSuccess && comm) {
    spec.rank = tt_comm_facts(comm)->rank;
    result = child_make(newcomm, &spec, config);
  } else if (result == tuttiSuccess) result = init_checked(newcomm, &spec, config);
  return result == tuttiSuccess || result == tuttiInProgress ? result : tt_group_refuse(result);
}

/* The first rank of comm takes the join, for all. */
static tuttiResult_t launch_grow(tuttiComm_t comm, tuttiComm_t *newcomm, tuttiConfig_t *config)
{
  const struct tt_comm_facts *facts = tt_comm_facts(comm);
  tuttiUniqueId id;
  int has = 0;
  tuttiResult_t result = facts->rank == 0 ? tt_join_take(facts->nranks + 1, &id, &has) : tuttiSuccess;
  if (result != tuttiSuccess) return tt_group_refuse(result);
  return tuttiCommGrow(comm, facts->nranks + 1, has ? &id : NULL, -1, newcomm, config);
}

tuttiResult_t tuttiLaunchGrow(tuttiComm_t comm, tuttiComm_t *newcomm, tuttiConfig_t *config)
{
  struct tt_settings settings;
  tuttiUniqueId id;
  int nranks = 0;
  tuttiResult_t result = tt_process_check();
  if (result == tuttiSuccess && !newcomm) result = tt_null("newcomm");
  if (result == tuttiSuccess && comm) result = parent_check(comm, tt_comm_facts(comm)->nranks + 1, -1);
  if (result == tuttiSuccess && comm) result = tt_comm_health(comm);
  if (result == tuttiSuccess && comm) return launch_grow(comm, newcomm, config);
  if (result == tuttiSuccess) result = tt_settings_load(&settings);
  if (result == tuttiSuccess) result = tt_join_await((int)settings.init_timeout_ms, &id, &nranks);
  if (result != tuttiSuccess) return tt_group_refuse(result);
  return tuttiCommGrow(NULL, nranks, &id, nranks - 1, newcomm, config);
}

/* ---- without lost ranks ---- */

static tuttiResult_t exclude_check(const struct tt_comm_facts *parent, const int *exclude, int nexclude)
{
  if (nexclude < 0 || nexclude >= parent->nranks)
    return tt_fail(tuttiInvalidArgument, "nexclude is %d: it must be from 0 to nranks - 1 = %d", nexclude,
                   parent->nranks - 1);
  if (nexclude && !exclude) return tt_null("exclude");
  for (int i = 0; i < nexclude; i++) {
    if (exclude[i] < 0 || exclude[i] >= parent->nranks || exclude[i] == parent->rank)
      return tt_fail(tuttiInvalidArgument, "exclude[%d] is %d: it must be from 0 to nranks - 1 = %d, and not this rank",
                     i, exclude[i], parent->nranks - 1);
    for (int j = 0; j < i; j++)
      if (exclude[j] == exclude[i])
        return tt_fail(tuttiInvalidArgument, "exclude[%d] and exclude[%d] are both %d: name each rank once", j, i,
                       exclude[i]);
  }
  return tuttiSuccess;
}

static tuttiResult_t flags_check(int flags)
{
  if (flags == TUTTI_SHRINK_DEFAULT || flags == TUTTI_SHRINK_ABORT) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "flags is %d: it must be TUTTI_SHRINK_DEFAULT or TUTTI_SHRINK_ABORT", flags);
}

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, int *exclude, int nexclude, tuttiComm_t *newcomm, tuttiConfig_t *config,
                              int flags)
{
  static const int nobody;
  tuttiResult_t result = tt_comm_check(comm);
  if (result == tuttiSuccess && !newcomm) result = tt_null("newcomm");
  if (result == tuttiSuccess) result = exclude_check(tt_comm_facts(comm), exclude, nexclude);
  if (result == tuttiSuccess) result = flags_check(flags);
  if (result == tuttiSuccess) result = tt_shrink_check(comm, exclude, nexclude, flags == TUTTI_SHRINK_ABORT);
  if (result == tuttiSuccess) {
    struct tt_comm_spec spec = {.parent = comm, .exclude = nexclude ? exclude : &nobody, .nexclude = nexclude};
    result = child_make(newcomm, &spec, config);
  }
  return result == tuttiSuccess || result == tuttiInProgress ? result : tt_group_refuse(result);
}
