/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one communicator in one process on one GPU. A GPU may do all that they enqueue one after the other, so no
 * rank may enqueue a wait before the others have enqueued the part that it waits for: their calls meet. Each rank tells
 * how far it is, its operation and the pieces of it that are on their way, and looks at the others. */
#include <string.h>

#include "comm/creation_private.h"
#include "comm/private.h"

struct place {
  _Atomic uint64_t told;    /* operation << 32 | pieces */
  _Atomic uintptr_t thread; /* that has told it; 0: there was no operation yet */
  _Atomic uint32_t calls;   /* operations that this thread has told without another one between them */
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
  uintptr_t self = (uintptr_t)pthread_self();
  if (atomic_load_explicit(&place->thread, memory_order_relaxed) != self) {
    atomic_store_explicit(&place->calls, 1, memory_order_relaxed);
    atomic_store_explicit(&place->thread, self, memory_order_relaxed);
  } else if (atomic_load_explicit(&place->told, memory_order_relaxed) >> 32 != turn) {
    atomic_fetch_add_explicit(&place->calls, 1, memory_order_relaxed);
  }
  atomic_store_explicit(&place->told, told, memory_order_release);
}

/* A rank that this very thread calls cannot come while the thread waits for it. Others may be late for long. The
 * thread that made both may have handed one to another thread: a missing first call is only told. */
static tuttiResult_t missing(const struct tuttiComm *comm, struct place *place, uint64_t waited_ns, int *is_told)
{
  const struct tt_settings *settings = &comm->facts.settings;
  const uint64_t ms = 1000000, limit = (uint64_t)settings->timeout_ms * ms;
  struct place *own = &comm->parts.meeting->places[comm->parts.place];
  int rank = atomic_load(&place->rank), is_late = waited_ns > 2 * ms * (uint64_t)settings->late_warn_ms;
  uintptr_t thread = atomic_load_explicit(&place->thread, memory_order_relaxed);
  int is_own = thread == (uintptr_t)pthread_self() && atomic_load_explicit(&own->calls, memory_order_relaxed) > 1;
  if (is_late && is_own)
    return tt_fail(tuttiInvalidUsage, "%s: a call of rank %d on a CUDA stream waits for one of rank %d, which this "
                   "thread has on the same GPU: call both in one group", comm->facts.label, comm->facts.rank, rank);
  if (is_late && !thread && !*is_told) {
    *is_told = 1;
    tt_log(TT_LOG_WARN, "%s: a call of rank %d on a CUDA stream waits for the first one of rank %d, which this process "
           "has on the same GPU: if one thread has both, it must call both in one group", comm->facts.label,
           comm->facts.rank, rank);
  }
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
  for (int r = 0; meeting && r < meeting->ranks && result == tuttiSuccess; r++) {
    struct place *place = &meeting->places[r];
    struct tt_waiter waiter;
    int is_told = 0;
    tt_waiter_init(&waiter, 1);
    while (result == tuttiSuccess && atomic_load_explicit(&place->told, memory_order_acquire) < wanted) {
      if (atomic_load(&comm->life.aborting) || tt_comm_has_failed(comm)) return tt_comm_why(comm);
      if (tt_waiter_pause(&waiter, 0)) result = missing(comm, place, tt_now_ns() - waiter.since_ns, &is_told);
    }
  }
  return result;
}
