/* SPDX-License-Identifier: BSD-3-Clause */
/* ncclConfig_t of any version: fields that the program does not know keep their defaults, fields that it sets are
 * checked.
 *
 * Blocking and name have a meaning here; the other fields steer NCCL's kernels and networks and have none. */
#include <stdio.h>
#include <string.h>

#include "nccl/shim.h"

struct field {
  const char *name;
  size_t offset;
  unsigned since; /* version that added it: an older program has other bytes, or none, in its place */
  int lowest, highest;
};

#define FIELD(name, since, lowest, highest) {#name, offsetof(ncclConfig_t, name), since, lowest, highest}

static const struct field fields[] = {
    FIELD(blocking, 21400, 0, 1),
    FIELD(cgaClusterSize, 21700, 0, INT_MAX),
    FIELD(minCTAs, 21700, 1, INT_MAX),
    FIELD(maxCTAs, 21700, 1, INT_MAX),
    FIELD(splitShare, 21800, 0, 1),
    FIELD(trafficClass, 22600, INT_MIN, INT_MAX),
    FIELD(collnetEnable, 22700, 0, 1),
    FIELD(CTAPolicy, 22700, 0, 3),
    FIELD(shrinkShare, 22700, 0, 1),
    FIELD(nvlsCTAs, 22700, 1, INT_MAX),
    FIELD(nChannelsPerNetPeer, 22800, 1, INT_MAX),
    FIELD(nvlinkCentricSched, 22800, 0, 1),
    FIELD(graphUsageMode, 22900, 0, 2),
    FIELD(numRmaCtx, 22900, 0, INT_MAX),
    FIELD(maxP2pPeers, 23000, 1, INT_MAX),
    FIELD(graphStreamOrdering, 23000, 0, 1),
};

#define FIELD_COUNT (sizeof fields / sizeof fields[0])

static int *field_at(ncclConfig_t *config, const struct field *field)
{
  return (int *)((char *)config + field->offset);
}

static void defaults(ncclConfig_t *config)
{
  *config = (ncclConfig_t){.size = sizeof *config, .magic = NCCL_CONFIG_MAGIC, .version = NCCL_VERSION_CODE};
  for (size_t f = 0; f < FIELD_COUNT; f++) *field_at(config, &fields[f]) = NCCL_CONFIG_UNDEF_INT;
}

/* Resets fields that the program's version did not have: there its struct has padding between or after its fields. */
static void forget_newer(ncclConfig_t *config)
{
  for (size_t f = 0; f < FIELD_COUNT; f++)
    if (config->version < fields[f].since) *field_at(config, &fields[f]) = NCCL_CONFIG_UNDEF_INT;
  if (config->version < 21700) config->netName = NULL;
  if (config->version < 22700) config->commName = NULL;
}

static ncclResult_t check(ncclConfig_t *config)
{
  for (size_t f = 0; f < FIELD_COUNT; f++) {
    int value = *field_at(config, &fields[f]);
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= fields[f].lowest && value <= fields[f].highest)) continue;
    return tt_nccl_refuse(tuttiInvalidArgument, "config.%s is %d: it must be from %d to %d, or undefined",
                          fields[f].name, value, fields[f].lowest, fields[f].highest);
  }
  if (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      config->minCTAs > config->maxCTAs)
    return tt_nccl_refuse(tuttiInvalidArgument, "config.minCTAs is %d, more than config.maxCTAs, which is %d",
                          config->minCTAs, config->maxCTAs);
  return tuttiSuccess;
}

/* NCCL accepts any name; Tutti writes the name into log lines, so it is made short and printable. */
static void name_take(char *out, size_t size, const char *name)
{
  snprintf(out, size, "%s", name);
  for (; *out; out++)
    if ((unsigned char)*out < ' ') *out = '?';
}

ncclResult_t tt_nccl_config(struct tt_nccl_config *storage, tuttiConfig_t **out, const ncclConfig_t *config)
{
  *out = NULL;
  if (!config) return tuttiSuccess;
  ncclConfig_t copy;
  defaults(&copy);
  memcpy(&copy, config, config->size < sizeof copy ? config->size : sizeof copy);
  if (copy.magic != NCCL_CONFIG_MAGIC)
    return tt_nccl_refuse(tuttiInvalidArgument,
                          "config was not initialised: begin with ncclConfig_t config = NCCL_CONFIG_INITIALIZER");
  forget_newer(&copy);
  ncclResult_t result = check(&copy);
  if (result != tuttiSuccess) return result;
  storage->config = (tuttiConfig_t)TUTTI_CONFIG_INITIALIZER;
  storage->config.blocking = copy.blocking == NCCL_CONFIG_UNDEF_INT ? TUTTI_CONFIG_UNDEF_INT : copy.blocking;
  if (copy.commName) {
    name_take(storage->name, sizeof storage->name, copy.commName);
    storage->config.name = storage->name;
  }
  *out = &storage->config;
  return tuttiSuccess;
}
