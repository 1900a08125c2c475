/* SPDX-License-Identifier: BSD-3-Clause */
/* Mixed operations for long, drawn by seed, in the same processes: collectives, groups, messages, streams, children and
 * steps of fusions, over shm and tcp, on one host and two. Every value is exact, and at the end the processes hold no
 * more memory, descriptors and threads than after the first rounds. A round is OPERATIONS of them.
 *
 *   test_fault_soak [--seed N] [--rounds N] [--seconds N] [--totals FILE]
 *
 * Labels: processes, plain. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "campaign.h"
#include "census.h"
#include "chance.h"
#include "exact.h"
#include "meeting.h"
#include "ranks.h"

enum { RANKS = 4, MOST = 30000, SELDOM = 20, OPERATIONS = 200 }; /* SELDOM: in soaks, one in so many is long */
enum { WARM = 10, FEW = 100, LOOKS = 24, HEAP_SLACK = 65536, LIMIT_S = 60 };
enum { KEPT_MOST = 4 << 20 }; /* bytes that operations on MOST elements keep for the next ones */

static const struct {
  const char *transports;
  int hosts;
} worlds[] = {{"shm,tcp", 1}, {"tcp", 1}, {"shm,tcp", 2}};
enum { WORLDS = sizeof worlds / sizeof *worlds };

/* Shared by the processes of one of these worlds and the one that started them. */
struct world {
  struct meeting *meeting; /* of the ranks and that one */
  int number;
  uint64_t seed; /* of the round */
  int is_over, is_warm;
  size_t seldom;
  char wrong[RANKS][512];
  struct census before, after; /* of rank 0 */
  int nlooks;
  long heaps[LOOKS]; /* likewise, bytes more than `before` after 2 WARM rounds, 4 WARM, 8 WARM, ...: a leak doubles */
};

static tuttiResult_t child_use(struct exact_room *room, uint64_t *chance)
{
  struct exact_room of_child = *room;
  tuttiComm_t child = NULL;
  tuttiResult_t result = tuttiCommSplit(room->comm, below(chance, 2) ? room->rank % 2 : 0, -room->rank, &child, NULL);
  if (result != tuttiSuccess) return result;
  of_child.comm = child;
  tuttiCommCount(child, &of_child.nranks);
  tuttiCommUserRank(child, &of_child.rank);
  result = exact_calls(&of_child, chance, 2, 0, NULL);
  memcpy(room->wrong, of_child.wrong, sizeof room->wrong);
  tuttiResult_t ended = tuttiCommDestroy(child);
  return result == tuttiSuccess ? ended : result;
}

/* One operation, or a few at once, counted. */
static tuttiResult_t one(struct exact_room *room, uint64_t *chance, tuttiStream_t stream, tuttiFusion_t fusion, int *n)
{
  size_t what = below(chance, 200);
  int calls = 1 + (int)below(chance, EXACT_CALLS);
  *n += what < 20 ? calls + 2 : what < 50 ? calls : 1;
  if (what < 20) return exact_calls(room, chance, calls, 1, NULL);
  if (what < 50) return exact_calls(room, chance, calls, 0, stream);
  if (what < 80) return exact_message(room, chance);
  if (what < 84) return exact_step(room, fusion);
  if (what < 85) return child_use(room, chance);
  return exact_calls(room, chance, 1, 0, NULL);
}

static void round_run(const struct ranks *self, struct world *world, struct exact_room *room, tuttiStream_t stream,
                      tuttiFusion_t fusion)
{
  uint64_t chance = world->seed;
  tuttiResult_t result = tuttiSuccess;
  int n = 0;
  while (n < OPERATIONS && result == tuttiSuccess && !room->wrong[0]) result = one(room, &chance, stream, fusion, &n);
  if (result != tuttiSuccess)
    snprintf(world->wrong[self->rank], sizeof world->wrong[0], "operation %d: %s", n, tuttiGetLastError(NULL));
  else if (room->wrong[0])
    snprintf(world->wrong[self->rank], sizeof world->wrong[0], "operation %d: %s", n, room->wrong);
}

/* Operations keep memory for the next ones, as much as the greediest one has needed, in whichever round that was: it is
 * looked at by itself, and given back before memory is counted. */
static int count_memory(tuttiComm_t comm, struct census *census)
{
  uint64_t kept = 0;
  if (tuttiCommMemStats(comm, tuttiStatMemSuspend, &kept) != tuttiSuccess || kept > KEPT_MOST) return 0;
  if (tuttiCommSuspend(comm, TUTTI_SUSPEND_MEM) != tuttiSuccess || tuttiCommResume(comm) != tuttiSuccess) return 0;
  census_take(census);
  return 1;
}

static int body(const struct ranks *self)
{
  struct world *world = self->argument;
  struct exact_room room;
  struct census before, after;
  tuttiStream_t stream;
  tuttiFusion_t fusion;
  char host[16];
  snprintf(host, sizeof host, "host%d", self->rank % worlds[world->number].hosts);
  if (worlds[world->number].hosts > 1) setenv("TUTTI_HOSTID", host, 1);
  RANKS_CHECK(exact_room_make(&room, self->nranks, self->rank, MOST));
  RANKS_CHECK(tuttiCommInitRank(&room.comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, room.comm, exact_tensors, EXACT_TENSORS, NULL) == tuttiSuccess);
  for (int rounds = 0;; rounds++) {
    RANKS_CHECK(meeting_wait(world->meeting));
    if (world->is_over) break;
    if (rounds == WARM) RANKS_CHECK(count_memory(room.comm, &before));
    room.seldom = rounds < WARM ? 0 : world->seldom; /* what long ones need is there before */
    if (self->rank == 0 && world->nlooks < LOOKS && rounds == WARM * 2 << world->nlooks) {
      RANKS_CHECK(count_memory(room.comm, &after));
      world->heaps[world->nlooks++] = (long)after.heap - (long)before.heap;
    }
    round_run(self, world, &room, stream, fusion);
    RANKS_CHECK(meeting_wait(world->meeting));
  }
  if (world->is_warm) RANKS_CHECK(count_memory(room.comm, &after));
  if (world->is_warm) RANKS_CHECK(census_same(&before, &after, HEAP_SLACK));
  if (world->is_warm && self->rank == 0) world->before = before, world->after = after;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(room.comm) == tuttiSuccess);
  exact_room_free(&room);
  return 0;
}

static void tell(const struct world *world, long rounds)
{
  const struct census *before = &world->before, *after = &world->after;
  printf("  %-8s %d hosts: %ld rounds, then heap %+ld bytes, resident %+ld KiB, descriptors %+d, threads %+d\n",
         worlds[world->number].transports, worlds[world->number].hosts, rounds, (long)after->heap - (long)before->heap,
         ((long)after->resident - (long)before->resident) / 1024, after->descriptors - before->descriptors,
         after->threads - before->threads);
  for (int k = 0; k < world->nlooks; k++)
    printf("%s%+ld%s", k ? ", " : "    heap after 20, 40, 80, ... rounds: ", world->heaps[k],
           k + 1 < world->nlooks ? "" : "\n");
}

/* Rounds of the campaign in one world, up to its share of them; a few rounds are all of the last one. Returns the bytes
 * by which the heap of rank 0 has grown. */
static long world_run(struct campaign *campaign, struct world *world, int number)
{
  int pids[RANKS];
  long share = campaign->rounds, seconds = campaign->seconds, rounds = 0;
  campaign->rounds = campaign->rounds * (number + 1) / WORLDS;
  if (seconds) campaign->seconds = seconds * (number + 1) / WORLDS + 1;
  memset(world, 0, sizeof *world);
  world->number = number;
  world->seldom = share < FEW ? 0 : SELDOM;
  world->meeting = meeting_make(RANKS + 1);
  setenv("TUTTI_TRANSPORTS", ranks_transports(1) ? worlds[number].transports : ranks_transports(0), 1);
  if (!world->meeting || ranks_start(RANKS, body, world, pids) != 0) exit(2);
  int is_well = 1;
  while (is_well && campaign_next(campaign)) {
    world->seed = campaign->seed;
    is_well = meeting_wait(world->meeting) && meeting_wait(world->meeting);
    if (!is_well) campaign_fail(campaign, "a rank is away, or hangs");
    for (int r = 0; r < RANKS; r++)
      if (world->wrong[r][0]) campaign_fail(campaign, "%s, rank %d: %s", worlds[number].transports, r, world->wrong[r]);
    is_well = !campaign->is_failed;
    rounds++;
  }
  world->is_over = 1;
  world->is_warm = is_well && rounds > WARM;
  (void)meeting_wait(world->meeting);
  for (int r = 0; r < RANKS; r++) {
    int status = ranks_wait(pids[r], LIMIT_S);
    if (status && is_well) campaign_fail(campaign, "%s, rank %d ends with %d", worlds[number].transports, r, status);
  }
  if (world->is_warm) tell(world, rounds);
  campaign->rounds = share;
  campaign->seconds = seconds;
  meeting_free(world->meeting);
  return (long)world->after.heap - (long)world->before.heap;
}

int main(int argc, char **argv)
{
  struct campaign campaign;
  struct world *world = ranks_shared(sizeof *world);
  if (campaign_read(&campaign, "soak", 14, argc, argv) > 1 || !world) return 2;
  setenv("TUTTI_DEBUG", "NONE", 0);
  long grown = 0;
  for (int number = campaign.rounds < FEW ? WORLDS - 1 : 0; number < WORLDS; number++)
    grown += world_run(&campaign, world, number);
  campaign_total(&campaign, "operations=%ld heap_bytes=%ld", campaign.done * OPERATIONS, grown);
  return campaign_end(&campaign, "%ld operations", campaign.done * OPERATIONS);
}
