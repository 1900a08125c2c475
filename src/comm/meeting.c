/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one communicator in one process on one GPU. A GPU may do all that they enqueue one after the other, so no
 * rank may enqueue a wait before the others have enqueued the part that it waits for: their calls meet. Each rank tells
 * how far it is, its collective and the pieces of it that are on their way, and looks at the others. Messages concern
 * two ranks: each tells how many chunks to and from the other are on their way, and looks at that one. */
#include <string.h>

#include "comm/creation_private.h"
#include "comm/private.h"

struct tt_meeting {
  struct tt_meeting *next;
  uint8_t job[TT_JOB_BYTES];
  int device, ranks, references; /* references: under tt_process.mutex, with the list */
  const int32_t *members;        /* in the communicator; behind the counts */
  _Atomic uint64_t told[];       /* of each: collective << 32 | pieces; then the counts of chunks, see count_of */
};

/* Chunks that the rank at one place has enqueued of messages with that at another place, to it or from it. */
static _Atomic uint64_t *count_of(struct tt_meeting *meeting, int place, int other, int sends)
{
  return &meeting->told[meeting->ranks + 2 * (place * meeting->ranks + other) + sends];
}

/* -1: the rank is not here. */
static int place_of(const struct tt_meeting *meeting, int32_t rank)
{
  for (int p = 0; p < meeting->ranks; p++)
    if (meeting->members[p] == rank) return p;
  return -1;
}

#define ALL_PIECES UINT32_MAX

static struct tt_meeting *find_locked(const struct tuttiComm *comm)
{
  struct tt_meeting *meeting = tt_process.meetings;
  while (meeting && (memcmp(meeting->job, comm->parts.credentials.job, TT_JOB_BYTES) != 0 ||
                     meeting->device != comm->facts.device))
    meeting = meeting->next;
  return meeting;
}

static struct tt_meeting *make_locked(const struct tuttiComm *comm, const int32_t *members, int ranks)
{
  size_t n = (size_t)ranks, counts = n + 2 * n * n;
  struct tt_meeting *meeting = tt_alloc(1, sizeof *meeting + counts * sizeof meeting->told[0] + n * sizeof *members);
  if (!meeting) return NULL;
  meeting->members = memcpy(&meeting->told[counts], members, n * sizeof *members);
  memcpy(meeting->job, comm->parts.credentials.job, TT_JOB_BYTES);
  meeting->device = comm->facts.device;
  meeting->ranks = ranks;
  meeting->next = tt_process.meetings;
  tt_process.meetings = meeting;
  return meeting;
}

tuttiResult_t tt_meeting_join(struct tuttiComm *comm, const int32_t *members, int ranks)
{
  if (ranks < 2) return tuttiSuccess;
  pthread_mutex_lock(&tt_process.mutex);
  struct tt_meeting *meeting = find_locked(comm);
  if (!meeting) meeting = make_locked(comm, members, ranks);
  if (meeting) meeting->references++;
  pthread_mutex_unlock(&tt_process.mutex);
  if (!meeting) return tt_fail(tuttiSystemError, "out of memory for the ranks of a GPU");
  comm->parts.meeting = meeting;
  comm->parts.place = place_of(meeting, comm->facts.rank);
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
  if (meeting) atomic_store_explicit(&meeting->told[comm->parts.place], told, memory_order_release);
}

/* Waits until another rank's number has come so far. */
static tuttiResult_t number_await(const struct tuttiComm *comm, const _Atomic uint64_t *number, uint64_t wanted)
{
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  while (atomic_load_explicit(number, memory_order_acquire) < wanted) {
    if (atomic_load(&comm->life.aborting) || tt_comm_has_failed(comm)) return tt_comm_why(comm);
    tt_waiter_pause(&waiter, 0);
  }
  return tuttiSuccess;
}

tuttiResult_t tt_meeting_await(const struct tuttiComm *comm, uint32_t turn, uint32_t pieces)
{
  const struct tt_meeting *meeting = comm->parts.meeting;
  tuttiResult_t result = tuttiSuccess;
  for (int r = 0; meeting && r < meeting->ranks && result == tuttiSuccess; r++)
    result = number_await(comm, &meeting->told[r], (uint64_t)turn << 32 | pieces);
  return result;
}

void tt_meeting_tell_messages(const struct tuttiComm *comm, const struct tt_transfer *chunks, int n)
{
  struct tt_meeting *meeting = comm->parts.meeting;
  for (int i = 0; meeting && i < n; i++) {
    int other = place_of(meeting, chunks[i].peer);
    if (other < 0) continue;
    atomic_fetch_add_explicit(count_of(meeting, comm->parts.place, other, chunks[i].sends), 1, memory_order_release);
  }
}

tuttiResult_t tt_meeting_await_messages(const struct tuttiComm *comm, const struct tt_transfer *chunks, int n)
{
  struct tt_meeting *meeting = comm->parts.meeting;
  tuttiResult_t result = tuttiSuccess;
  for (int i = 0; meeting && i < n && result == tuttiSuccess; i++) {
    int other = place_of(meeting, chunks[i].peer), sends = chunks[i].sends;
    if (other < 0) continue;
    uint64_t mine = atomic_load(count_of(meeting, comm->parts.place, other, sends));
    result = number_await(comm, count_of(meeting, other, comm->parts.place, !sends), mine);
  }
  return result;
}
