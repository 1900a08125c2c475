/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one communicator in one process on one GPU. A GPU may do all that they enqueue one after the other, so no
 * rank may enqueue a wait before the others have enqueued the part that it waits for: their calls meet. Each rank tells
 * how far it is, its operation and the pieces of it that are on their way, and looks at the others. */
#include <string.h>

#include "comm/creation_private.h"
#include "comm/private.h"

struct place {
  _Atomic uint64_t told;    /* operation << 32 | pieces */
  _Atomic uintptr_t thread; /* that has told it; before the first operation, that has made the communicator */
  _Atomic int rank;
};

struct tt_meeting {
  struct tt_meeting *next;
  uint8_t job[TT_JOB_BYTES];
  int device, ranks, references; /* references: under tt_process.mutex, with the list */
  struct place places[];
};

#define ALL_PIECES UINT32_MAX

static struct tt_meeting *find_locked(const struct tuttiComm *comm)
{
  struct tt_meeting *meeting = tt_process.meetings;
  while (meeting && (memcmp(meeting->job, comm->parts.credentials.job, TT_JOB_BYTES) != 0 ||
                     meeting->device != comm->facts.device))
    meeting = meeting->next;
  return meeting;
}

static struct tt_meeting *make_locked(const struct tuttiComm *comm, int ranks)
{
  struct tt_meeting *meeting = tt_alloc(1, sizeof *meeting + (size_t)ranks * sizeof meeting->places[0]);
  if (!meeting) return NULL;
  memcpy(meeting->job, comm->parts.credentials.job, TT_JOB_BYTES);
  meeting->device = comm->facts.device;
  meeting->ranks = ranks;
  meeting->next = tt_process.meetings;
  tt_process.meetings = meeting;
  return meeting;
}

tuttiResult_t tt_meeting_join(struct tuttiComm *comm, int ranks, int place)
{
  if (ranks < 2) return tuttiSuccess;
  pthread_mutex_lock(&tt_process.mutex);
  struct tt_meeting *meeting = find_locked(comm);
  if (!meeting) meeting = make_locked(comm, ranks);
  if (meeting) meeting->references++;
  pthread_mutex_unlock(&tt_process.mutex);
  if (!meeting) return tt_fail(tuttiSystemError, "out of memory for the ranks of a GPU");
  comm->parts.meeting = meeting;
  comm->parts.place = place;
  atomic_store(&meeting->places[place].rank, comm->facts.rank);
  atomic_store(&meeting->places[place].thread, (uintptr_t)pthread_self());
  return tuttiSuccess;
}

void tt_meeting_leave(struct tuttiComm *comm)
{
  struct tt_meeting *meeting = comm->parts.meeting;
  if (!meeting) return;
  pthread_mutex_lock(&tt_process.mutex);
  int is_last = --meeting->references == 0;
  void **link = &tt_process.meetings;
  while (is_last && *link != meeting) link = (void **)&((struct tt_meeting *)*link)->next;
  if (is_last) *link = meeting->next;
  pthread_mutex_unlock(&tt_process.mutex);
  if (is_last) tt_free(meeting);
  comm->parts.meeting = NULL;
}

void tt_meeting_tell(const struct tuttiComm *comm, uint32_t turn, uint32_t pieces, int is_all)
{
  struct tt_meeting *meeting = comm->parts.meeting;
  uint64_t told = (uint64_t)turn << 32 | (is_all ? ALL_PIECES : pieces);
  if (!meeting) return;
  struct place *place = &meeting->places[comm->parts.place];
  atomic_store_explicit(&place->thread, (uintptr_t)pthread_self(), memory_order_relaxed);
  atomic_store_explicit(&place->told, told, memory_order_release);
}

/* A rank that this very thread calls cannot come while the thread waits for it. Others may be late for long. */
static tuttiResult_t missing(const struct tuttiComm *comm, struct place *place, uint64_t waited_ns)
{
  const struct tt_settings *settings = &comm->facts.settings;
  const uint64_t ms = 1000000, limit = (uint64_t)settings->timeout_ms * ms;
  int rank = atomic_load(&place->rank);
  int is_own = atomic_load_explicit(&place->thread, memory_order_relaxed) == (uintptr_t)pthread_self();
  if (is_own && waited_ns > 2 * ms * (uint64_t)settings->late_warn_ms)
    return tt_fail(tuttiInvalidUsage, "%s: a call of rank %d on a CUDA stream waits for one of rank %d, which this "
                   "thread has on the same GPU: call both in one group", comm->facts.label, comm->facts.rank, rank);
  if (limit && waited_ns > limit)
    return tt_fail(tuttiRemoteError, "%s: rank %d, on the GPU of rank %d, has not called what that has waited %lld ms "
                   "for: call the same on both, and messages in the same groups; TUTTI_TIMEOUT_MS sets the limit",
                   comm->facts.label, rank, comm->facts.rank, (long long)settings->timeout_ms);
  return tuttiSuccess;
}

tuttiResult_t tt_meeting_await(const struct tuttiComm *comm, uint32_t turn, uint32_t pieces)
{
  struct tt_meeting *meeting = comm->parts.meeting;
  uint64_t wanted = (uint64_t)turn << 32 | pieces;
  tuttiResult_t result = tuttiSuccess;
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  for (int r = 0; meeting && r < meeting->ranks && result == tuttiSuccess;) {
    if (atomic_load_explicit(&meeting->places[r].told, memory_order_acquire) >= wanted) r++;
    else if (atomic_load(&comm->life.aborting) || tt_comm_has_failed(comm)) return tt_comm_why(comm);
    else if (tt_waiter_pause(&waiter, 0)) result = missing(comm, &meeting->places[r], tt_now_ns() - waiter.since_ns);
  }
  return result;
}
