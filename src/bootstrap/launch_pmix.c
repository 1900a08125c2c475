/* SPDX-License-Identifier: BSD-3-Clause */
/* PMIx launchers: Open MPI's mpirun, srun --mpi=pmix, prterun. libpmix is loaded when it is needed, so
 * that one binary serves every host; its symbols stay out of the program's (RTLD_LOCAL). PMIx is finalized
 * right after the exchange: then the library's threads are gone, and the process may end later in any way
 * without a word to the launcher. PMIx counts its users, so this is harmless after MPI_Init; but Open
 * MPI 4.1 cannot start PMIx again after the last user has left, so MPI_Init must come first. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/launch_private.h"

#ifdef TT_HAVE_PMIX
#include <pmix.h>

#define LIBRARY "libpmix.so.2"
#define KEY "tutti.unique.id"

struct pmix {
  __typeof__(PMIx_Init) *init;
  __typeof__(PMIx_Finalize) *finalize;
  __typeof__(PMIx_Put) *put;
  __typeof__(PMIx_Commit) *commit;
  __typeof__(PMIx_Fence) *fence;
  __typeof__(PMIx_Get) *get;
  __typeof__(PMIx_Error_string) *text;
};

/* The value that process 0 publishes; result != tuttiSuccess: it could not make an id. */
struct published {
  int32_t result;
  tuttiUniqueId id;
};

static tuttiResult_t pmix_load(struct pmix *pmix)
{
  /* Never closed, because its plugins and threads do not survive that. */
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return tt_fail(tuttiSystemError,
                   "a PMIx launcher started this process, but %s cannot be loaded (%s): install it "
                   "(Debian: libpmix2), or set TUTTI_COMM_ID, RANK and WORLD_SIZE",
                   LIBRARY, dlerror());
  const struct {
    const char *name;
    void **slot;
  } wanted[] = {
      {"PMIx_Init", (void **)&pmix->init},     {"PMIx_Finalize", (void **)&pmix->finalize},
      {"PMIx_Put", (void **)&pmix->put},       {"PMIx_Commit", (void **)&pmix->commit},
      {"PMIx_Fence", (void **)&pmix->fence},   {"PMIx_Get", (void **)&pmix->get},
      {"PMIx_Error_string", (void **)&pmix->text},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    *wanted[i].slot = dlsym(library, wanted[i].name);
    if (!*wanted[i].slot)
      return tt_fail(tuttiSystemError, "%s has no %s: PMIx 3 or later is needed", LIBRARY, wanted[i].name);
  }
  return tuttiSuccess;
}

static tuttiResult_t pmix_fail(const struct pmix *pmix, const char *call, pmix_status_t status)
{
  return tt_fail(tuttiSystemError, "the PMIx launcher does not answer: %s: %s", call, pmix->text(status));
}

static void value_free(pmix_value_t *value)
{
  if (value->type == PMIX_BYTE_OBJECT) tt_free(value->data.bo.bytes); /* PMIx uses malloc, as tt_free expects */
  tt_free(value);
}

/* Gets a number of the job (rank PMIX_RANK_WILDCARD) or of one process. If the launcher does not tell it, `missing`
 * is used if it is >= 0. */
static tuttiResult_t number_get(const struct pmix *pmix, const pmix_proc_t *self, pmix_rank_t rank,
                                const char *key, int *number, int missing)
{
  pmix_proc_t whom = *self;
  pmix_value_t *value = NULL;
  whom.rank = rank;
  pmix_status_t status = pmix->get(&whom, key, NULL, 0, &value);
  if (status != PMIX_SUCCESS || !value) {
    *number = missing;
    return missing >= 0 ? tuttiSuccess : pmix_fail(pmix, key, status);
  }
  *number = value->type == PMIX_UINT16 ? (int)value->data.uint16 : (int)value->data.uint32;
  value_free(value);
  return tuttiSuccess;
}

static void info_set(pmix_info_t *info, const char *key, pmix_data_type_t type)
{
  memset(info, 0, sizeof *info);
  snprintf(info->key, sizeof info->key, "%s", key);
  info->value.type = type;
}

/* A barrier that also spreads the values that were put. */
static tuttiResult_t exchange(const struct pmix *pmix, const pmix_proc_t *self,
                              const struct tt_settings *settings)
{
  pmix_proc_t all = *self;
  pmix_info_t infos[2];
  all.rank = PMIX_RANK_WILDCARD;
  info_set(&infos[0], PMIX_COLLECT_DATA, PMIX_BOOL);
  infos[0].value.data.flag = true;
  info_set(&infos[1], PMIX_TIMEOUT, PMIX_INT);
  infos[1].value.data.integer = (int)((settings->init_timeout_ms + 999) / 1000);
  pmix_status_t status = pmix->commit();
  if (status != PMIX_SUCCESS) return pmix_fail(pmix, "PMIx_Commit", status);
  status = pmix->fence(&all, 1, infos, 2);
  return status == PMIX_SUCCESS ? tuttiSuccess : pmix_fail(pmix, "PMIx_Fence", status);
}

/* Process 0 publishes its id, or its failure to make one, so that the others do not wait in vain. */
static tuttiResult_t id_publish(const struct pmix *pmix, struct published *mine,
                                const struct tt_settings *settings)
{
  struct tt_id id;
  tuttiResult_t result = tt_id_create(&id, settings);
  mine->result = (int32_t)result;
  if (result == tuttiSuccess) tt_id_pack(&id, &mine->id);
  pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
  value.data.bo.bytes = (char *)mine;
  value.data.bo.size = sizeof *mine;
  pmix_status_t status = pmix->put(PMIX_GLOBAL, KEY, &value);
  tt_wipe(&id, sizeof id);
  if (status != PMIX_SUCCESS && result == tuttiSuccess) result = pmix_fail(pmix, "PMIx_Put", status);
  return result;
}

static tuttiResult_t id_fetch(const struct pmix *pmix, const pmix_proc_t *self, tuttiUniqueId *id)
{
  pmix_proc_t first = *self;
  pmix_value_t *value = NULL;
  struct published got;
  first.rank = 0;
  pmix_status_t status = pmix->get(&first, KEY, NULL, 0, &value);
  if (status != PMIX_SUCCESS || !value) return pmix_fail(pmix, "PMIx_Get of the id", status);
  int is_whole = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == sizeof got;
  if (is_whole) memcpy(&got, value->data.bo.bytes, sizeof got);
  value_free(value);
  if (!is_whole)
    return tt_fail(tuttiInvalidUsage, "process 0 published an id of another version of Tutti: install the same "
                   "one everywhere");
  if (got.result != tuttiSuccess)
    return tt_fail(tuttiRemoteError, "process 0 could not make a unique id (%s): see what it logged",
                   got.result == tuttiSystemError ? "system error" : "wrong settings");
  *id = got.id;
  return tuttiSuccess;
}

static tuttiResult_t pmix_ask(const struct pmix *pmix, const pmix_proc_t *self, tuttiLaunch_t *launch,
                              const struct tt_settings *settings)
{
  struct published mine;
  memset(&mine, 0, sizeof mine);
  launch->proc = (int)self->rank;
  tuttiResult_t result =
      number_get(pmix, self, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &launch->nprocs, -1);
  if (result == tuttiSuccess)
    result = number_get(pmix, self, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &launch->local_nprocs, 1);
  if (result == tuttiSuccess)
    result = number_get(pmix, self, self->rank, PMIX_LOCAL_RANK, &launch->local_proc, 0);
  if (result != tuttiSuccess) return result;
  if (launch->proc == 0) result = id_publish(pmix, &mine, settings);
  tuttiResult_t exchanged = exchange(pmix, self, settings);
  if (result == tuttiSuccess) result = exchanged;
  if (result == tuttiSuccess && launch->proc != 0) result = id_fetch(pmix, self, &mine.id);
  if (result == tuttiSuccess) launch->id = mine.id;
  tt_wipe(&mine, sizeof mine);
  return result;
}

tuttiResult_t tt_launch_pmix(tuttiLaunch_t *launch, const struct tt_settings *settings)
{
  struct pmix pmix;
  pmix_proc_t self;
  tuttiResult_t result = pmix_load(&pmix);
  if (result != tuttiSuccess) return result;
  memset(&self, 0, sizeof self);
  pmix_status_t status = pmix.init(&self, NULL, 0);
  if (status != PMIX_SUCCESS) return pmix_fail(&pmix, "PMIx_Init", status);
  result = pmix_ask(&pmix, &self, launch, settings);
  pmix.finalize(NULL, 0);
  return result;
}

#else

tuttiResult_t tt_launch_pmix(tuttiLaunch_t *launch, const struct tt_settings *settings)
{
  (void)launch;
  (void)settings;
  return tt_fail(tuttiSystemError,
                 "a PMIx launcher started this process, but this library was built without PMIx: build it "
                 "where pmix.h is installed (Debian: libpmix-dev), or set TUTTI_COMM_ID, RANK and WORLD_SIZE");
}

#endif
