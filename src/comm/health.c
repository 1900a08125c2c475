/* SPDX-License-Identifier: BSD-3-Clause */
/* The health of a communicator: its state and first error, and the errors that this rank adds. */
#include <stdio.h>

#include "comm/private.h"

tuttiResult_t tt_comm_aborted(const struct tuttiComm *comm)
{
  char sentence[TT_SENTENCE_BYTES];
  tuttiResult_t over = comm->parts.views ? tt_views_standing(comm) : tuttiSuccess;
  if (over != tuttiSuccess) return over;
  snprintf(sentence, sizeof sentence, "the communicator%s%s of rank %d was aborted", comm->facts.name[0] ? " " : "",
           comm->facts.name, comm->facts.rank);
  return tt_fail_quiet(tuttiRemoteError, sentence);
}

tuttiResult_t tt_comm_health(const struct tuttiComm *comm)
{
  switch (atomic_load_explicit(&comm->life.state, memory_order_acquire)) {
  case TT_COMM_CREATING: return tuttiInProgress;
  case TT_COMM_NOT_CREATED: return tt_fail_quiet(comm->life.creation_code, comm->life.creation_error);
  default: break;
  }
  if (!atomic_load_explicit(tt_watch_failed(comm->parts.watch), memory_order_acquire)) return tuttiSuccess;
  const struct tt_failure *failure = tt_watch_failure(comm->parts.watch);
  return tt_fail_quiet(failure->code, failure->sentence);
}

void tt_comm_show_lacks(struct tuttiComm *comm, const struct tt_lacks *lacks)
{
  tt_watch_show_lacks(comm->parts.watch, lacks);
}

tuttiResult_t tt_comm_async_error(const struct tuttiComm *comm)
{
  return atomic_load(&comm->life.revoked) && !comm->parts.views ? tuttiSuccess : tt_comm_standing(comm);
}

tuttiResult_t tt_comm_standing(const struct tuttiComm *comm)
{
  int state = atomic_load_explicit(&comm->life.state, memory_order_acquire);
  int is_made = state != TT_COMM_CREATING && state != TT_COMM_NOT_CREATED;
  return comm->parts.views && is_made ? tt_views_standing(comm) : tt_comm_health(comm);
}

int tt_comm_has_failed(const struct tuttiComm *comm)
{
  return atomic_load(tt_watch_failed(comm->parts.watch)) != 0;
}

int tt_comm_lost(const struct tuttiComm *comm, int *ranks, int most)
{
  int state = atomic_load_explicit(&comm->life.state, memory_order_acquire);
  int has_watch = state != TT_COMM_CREATING && state != TT_COMM_NOT_CREATED;
  return has_watch ? tt_watch_lost(comm->parts.watch, ranks, most) : 0;
}

void tt_comm_spare(struct tuttiComm *comm)
{
  tt_watch_spare(comm->parts.watch);
}

int tt_comm_is_lost(const struct tuttiComm *comm, int rank)
{
  return tt_watch_left(comm->parts.watch, rank) == TT_LEFT_LOST;
}

int tt_comm_has_left(const struct tuttiComm *comm, int rank)
{
  return tt_watch_left(comm->parts.watch, rank) == TT_LEFT_DONE;
}

const char *tt_comm_rank_text(const struct tuttiComm *comm, int rank, char *text, size_t size)
{
  return tt_watch_rank_text(comm->parts.watch, rank, text, size);
}

tuttiResult_t tt_comm_why(const struct tuttiComm *comm)
{
  tuttiResult_t health = tt_comm_health(comm);
  return health == tuttiSuccess ? tt_comm_aborted(comm) : health;
}

tuttiResult_t tt_comm_give_up(struct tuttiComm *comm, tuttiResult_t code, uint64_t op)
{
  char sentence[TT_SENTENCE_BYTES], rank[128];
  snprintf(sentence, sizeof sentence, "%s gives up: %.360s",
           tt_watch_rank_text(comm->parts.watch, comm->facts.first_rank, rank, sizeof rank), tt_last_sentence());
  return tt_watch_fail(comm->parts.watch, code, comm->facts.first_rank, op, sentence);
}

void tt_comm_fail(struct tuttiComm *comm, tuttiResult_t code, const char *sentence, int is_told)
{
  if (is_told) tt_watch_fail_too(comm->parts.watch, code, comm->facts.first_rank, sentence);
  else tt_watch_fail(comm->parts.watch, code, comm->facts.first_rank, 0, sentence);
}
