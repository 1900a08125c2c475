/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator of the ranks of another one and new ones.
 *
 * New ranks join it as any communicator, by the id that they were given. The ranks of the parent tell each other the id
 * and the number of ranks by an all-gather over the parent, since only one of them need have the id, and then meet the
 * new ones at it, with their numbers of the parent. The parent's watch covers the start-up, as it does that of a split.
 * A rank that has the id joins before all else, so that the new ranks hear of it if the parent has failed or fails. */
#include <string.h>

#include "comm/creation_private.h"

/* The words of a rank of the parent. */
struct said {
  int32_t nranks, has_id;
  tuttiUniqueId id;
};

tuttiResult_t tt_creation_join(struct tuttiComm *comm, const tuttiUniqueId *id)
{
  struct tt_creation *creation = comm->life.creation;
  tuttiResult_t result = tt_id_unpack(&creation->id, id);
  if (result == tuttiSuccess) result = tt_id_mix(&creation->id, &comm->facts.settings);
  if (result == tuttiSuccess) result = tt_id_use(id, comm->facts.rank, &creation->used);
  return result == tuttiSuccess ? tt_creation_start(comm) : result;
}

tuttiResult_t tt_grow_start(struct tuttiComm *comm, const struct tt_comm_spec *spec)
{
  struct tuttiComm *parent = spec->parent;
  struct said mine = {.nranks = spec->nranks, .has_id = spec->id != NULL};
  if (spec->id) mine.id = *spec->id;
  if (!tt_comm_enter(parent)) return tt_comm_aborted(parent);
  tuttiResult_t result = spec->id ? tt_creation_join(comm, spec->id) : tuttiSuccess;
  if (result == tuttiSuccess) result = tt_comm_health(parent);
  if (result == tuttiSuccess) result = tt_child_gather(comm, TT_FORM_GROW, &mine, sizeof mine);
  tt_comm_exit(parent);
  tt_wipe(&mine, sizeof mine);
  return result;
}

/* All ranks of the parent find the same. *giver: the first rank that has the id. */
static tuttiResult_t said_check(const struct said *said, int n, int *giver)
{
  *giver = -1;
  for (int r = 0; r < n; r++) {
    if (said[r].nranks != said[0].nranks)
      return tt_fail(tuttiInvalidUsage, "nranks is %d on rank %d and %d on rank 0: give the same to tuttiCommGrow on "
                     "all ranks", said[r].nranks, r, said[0].nranks);
    if (!said[r].has_id) continue;
    if (*giver < 0) *giver = r;
    if (memcmp(&said[r].id, &said[*giver].id, sizeof said[r].id) != 0)
      return tt_fail(tuttiInvalidUsage, "ranks %d and %d gave different ids to tuttiCommGrow: one rank calls "
                     "tuttiCommGetUniqueId, and the others give NULL or the same", *giver, r);
  }
  if (*giver >= 0) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "all ranks gave the id NULL to tuttiCommGrow: the rank that has called "
                 "tuttiCommGetUniqueId gives its id; or `tutti run --restart` has no restart left");
}

tuttiResult_t tt_grow_take(struct tuttiComm *comm, const struct tt_op *op)
{
  struct tt_creation *creation = comm->life.creation;
  struct said *said = op->owned;
  const struct tt_child_context context = {.how = TT_GROW, .number = op->binding.call.op};
  int n = op->comm->facts.nranks, giver;
  tuttiResult_t result = said_check(said, n, &giver);
  for (int r = 0; r < n; r++) creation->ranks[r] = r;
  if (result == tuttiSuccess) result = tt_child_watch(comm, &context, n);
  if (result == tuttiSuccess && !creation->rendezvous) result = tt_creation_join(comm, &said[giver].id);
  if (result == tuttiSuccess) creation->stage = MEETING;
  return result;
}
