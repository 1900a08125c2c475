/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells from the environment which launcher started this process. Pure. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/launch_private.h"

struct reader {
  tt_lookup_fn lookup;
  const void *owner;
};

static const char *look(const struct reader *reader, const char *name)
{
  return reader->lookup(reader->owner, name);
}

static tuttiResult_t number_read(const struct reader *reader, const char *name, long low, long high,
                                 int *out)
{
  const char *text = look(reader, name);
  if (!text)
    return tt_fail(tuttiInvalidArgument,
                   "%s is not set, but the variables beside it are: the launcher sets all or none", name);
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno || *end || end == text || value < low || value > high)
    return tt_fail(tuttiInvalidArgument, "%s is \"%s\": a number from %ld to %ld was expected", name,
                   text, low, high);
  *out = (int)value;
  return tuttiSuccess;
}

#define PROCS_MAX (1 << 24)

/* A size and a position in it, such as WORLD_SIZE and RANK. */
static tuttiResult_t place_read(const struct reader *reader, const char *size_name,
                                const char *place_name, int *size, int *place)
{
  int got_size = 0, got_place = 0;
  tuttiResult_t result = number_read(reader, size_name, 1, PROCS_MAX, &got_size);
  if (result == tuttiSuccess) result = number_read(reader, place_name, 0, PROCS_MAX, &got_place);
  if (result != tuttiSuccess) return result;
  if (got_place >= got_size)
    return tt_fail(tuttiInvalidArgument, "%s is %d, but %s is %d: at most %d is possible", place_name,
                   got_place, size_name, got_size, got_size - 1);
  *size = got_size;
  *place = got_place;
  return tuttiSuccess;
}

static tuttiResult_t local_check(const struct tt_launch_plan *plan, const char *local, const char *all)
{
  if (plan->local_nprocs <= plan->nprocs) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "%s is %d, but %s is %d: there cannot be more on one host than in all",
                 local, plan->local_nprocs, all, plan->nprocs);
}

static tuttiResult_t tutti_plan(struct tt_launch_plan *plan, const struct reader *reader)
{
  tuttiResult_t result = number_read(reader, "TUTTI_LAUNCH_FD", 0, 1 << 20, &plan->fd);
  if (result == tuttiSuccess)
    result = place_read(reader, "TUTTI_LAUNCH_NPROCS", "TUTTI_LAUNCH_PROC", &plan->nprocs, &plan->proc);
  if (result == tuttiSuccess)
    result = place_read(reader, "TUTTI_LAUNCH_LOCAL_NPROCS", "TUTTI_LAUNCH_LOCAL_PROC",
                        &plan->local_nprocs, &plan->local_proc);
  if (result == tuttiSuccess)
    result = local_check(plan, "TUTTI_LAUNCH_LOCAL_NPROCS", "TUTTI_LAUNCH_NPROCS");
  plan->launcher = TT_LAUNCHER_TUTTI;
  return result;
}

/* RANK, WORLD_SIZE, and if both are there LOCAL_RANK and LOCAL_WORLD_SIZE. */
static tuttiResult_t world_plan(struct tt_launch_plan *plan, const struct reader *reader)
{
  tuttiResult_t result = place_read(reader, "WORLD_SIZE", "RANK", &plan->nprocs, &plan->proc);
  if (result != tuttiSuccess) return result;
  if (!look(reader, "LOCAL_RANK") || !look(reader, "LOCAL_WORLD_SIZE")) return tuttiSuccess;
  result = place_read(reader, "LOCAL_WORLD_SIZE", "LOCAL_RANK", &plan->local_nprocs, &plan->local_proc);
  return result == tuttiSuccess ? local_check(plan, "LOCAL_WORLD_SIZE", "WORLD_SIZE") : result;
}

static tuttiResult_t torch_address(struct tt_launch_plan *plan, const struct reader *reader,
                                   const struct tt_settings *settings)
{
  const char *host = look(reader, "MASTER_ADDR");
  int port = (int)settings->port;
  if (!host)
    return tt_fail(tuttiInvalidArgument,
                   "WORLD_SIZE is %d, but neither MASTER_ADDR nor TUTTI_COMM_ID says where to meet",
                   plan->nprocs);
  if (!port) {
    tuttiResult_t result = number_read(reader, "MASTER_PORT", 1, 65534, &port);
    if (result != tuttiSuccess) return result;
    port++; /* the launcher's own store has MASTER_PORT */
  }
  if (strlen(host) >= TT_SETTING_TEXT_BYTES)
    return tt_fail(tuttiInvalidArgument, "MASTER_ADDR has %zu bytes: that is no address", strlen(host));
  int bare_v6 = strchr(host, ':') && host[0] != '[';
  snprintf(plan->address, sizeof plan->address, bare_v6 ? "[%s]:%d" : "%s:%d", host, port);
  return tuttiSuccess;
}

/* A launcher that started one process need not be asked. */
static tuttiResult_t pmi_plan(struct tt_launch_plan *plan, const struct reader *reader)
{
  tuttiResult_t result = place_read(reader, "PMI_SIZE", "PMI_RANK", &plan->nprocs, &plan->proc);
  if (result == tuttiSuccess) result = number_read(reader, "PMI_FD", 0, 1 << 20, &plan->fd);
  if (result != tuttiSuccess || plan->nprocs == 1) return result;
  plan->launcher = TT_LAUNCHER_PMI;
  if (!look(reader, "MPI_LOCALNRANKS") || !look(reader, "MPI_LOCALRANKID")) return tuttiSuccess;
  result = place_read(reader, "MPI_LOCALNRANKS", "MPI_LOCALRANKID", &plan->local_nprocs, &plan->local_proc);
  return result == tuttiSuccess ? local_check(plan, "MPI_LOCALNRANKS", "PMI_SIZE") : result;
}

/* RANK and WORLD_SIZE. A single process meets no other and needs no address. */
static tuttiResult_t torch_plan(struct tt_launch_plan *plan, const struct reader *reader,
                                const struct tt_settings *settings)
{
  tuttiResult_t result = world_plan(plan, reader);
  if (result != tuttiSuccess || (plan->nprocs == 1 && !look(reader, "MASTER_ADDR"))) return result;
  plan->launcher = TT_LAUNCHER_TORCHRUN;
  return torch_address(plan, reader, settings);
}

/* A process that no launcher speaks to is alone. If a variable shows that it is not, that is an error: otherwise each
 * process would silently be a job of one, with wrong sums. A batch script of Slurm has SLURM_NTASKS but is no step, so
 * it may be alone. */
static tuttiResult_t alone_check(const struct reader *reader, const struct tt_settings *settings)
{
  static const char *const sizes[] = {"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE",
                                      "MV2_COMM_WORLD_SIZE"};
  if (settings->comm_id[0])
    return tt_fail(tuttiInvalidUsage,
                   "TUTTI_COMM_ID is \"%s\", but neither RANK nor WORLD_SIZE says which of how many processes "
                   "this is: set both, or unset it for a job of one",
                   settings->comm_id);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const char *text = look(reader, sizes[i]);
    if (text && atoi(text) > 1)
      return tt_fail(tuttiInvalidUsage,
                     "%s is %s, but nothing that this launcher says lets the processes meet: each would be a job of "
                     "one. Use `tutti run`, mpirun of Open MPI or MPICH, srun --mpi=pmix or --mpi=pmi2, or set "
                     "TUTTI_COMM_ID, RANK and WORLD_SIZE (for jobs of one only RANK=0 and WORLD_SIZE=1)",
                     sizes[i], text);
  }
  return tuttiSuccess;
}

/* PMIx and PMI come before torchrun's variables, because images often set MASTER_ADDR for everybody. */
tuttiResult_t tt_launch_plan(struct tt_launch_plan *plan, const struct tt_settings *settings,
                             tt_lookup_fn lookup, const void *owner)
{
  struct reader reader = {lookup, owner};
  struct tt_launch_plan made = {.nprocs = 1, .local_nprocs = 1, .fd = -1};
  tuttiResult_t result = tuttiSuccess;
  int world = look(&reader, "RANK") || look(&reader, "WORLD_SIZE");
  int pmix = look(&reader, "PMIX_NAMESPACE") || look(&reader, "PMIX_RANK");
  if (look(&reader, "TUTTI_LAUNCH_FD")) {
    result = tutti_plan(&made, &reader);
  } else if (settings->comm_id[0] && world) {
    made.launcher = TT_LAUNCHER_COMM_ID;
    strcpy(made.address, settings->comm_id);
    result = world_plan(&made, &reader);
  } else if (pmix) {
    made.launcher = TT_LAUNCHER_PMIX;
  } else if (look(&reader, "PMI_FD")) {
    result = pmi_plan(&made, &reader);
  } else if (world) {
    result = torch_plan(&made, &reader, settings);
  } else {
    result = alone_check(&reader, settings);
  }
  if (result == tuttiSuccess) *plan = made;
  return result;
}
