/* SPDX-License-Identifier: BSD-3-Clause */
/* Kills of ranks, drawn by seed: how a rank ends (SIGKILL, SIGSTOP, abort, a fault, exit at once or between calls),
 * when (start-up, collectives, groups, messages, streams, split, shrink, the end of a communicator, steps of a fusion,
 * idle), how many, over which transport, on one host or several. Each survivor ends within HANG_S by an error that
 * names a rank which was killed, no result is wrong, and the survivors make a communicator that works. Prints the times
 * from the kill to the verdict of each survivor.
 *
 *   test_fault_kills [--seed N] [--rounds N] [--seconds N] [PHASE...]
 *
 * Several hosts are TUTTI_HOSTID on one machine or, with TEST_NAMESPACES (harness/ranks.h), network namespaces.
 * Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "campaign.h"
#include "chance.h"
#include "exact.h"
#include "meeting.h"
#include "ranks.h"

enum { RANKS = 6, MOST = 100000, HANG_S = 40, FROZEN_MS = 600, LATE_US = 1000000, TIMES = 400000 };
enum phase { START, COLLECTIVES, GROUPS, MESSAGES, STREAMS, SPLIT, SHRINK, DESTROY, FUSION, IDLE, PHASES };
enum way { KILL, STOP, ABORT, FAULT, EXIT, LEAVE, WAYS };

static const char *const phases[] = {"start-up", "collectives", "groups",  "messages", "streams",
                                     "split",    "shrink",      "destroy", "fusion",   "idle"};
static const char *const ways[] = {"SIGKILL", "SIGSTOP", "abort", "SIGSEGV", "_exit", "exit"};

/* Shared by the processes of a round. */
struct world {
  uint64_t seed;
  enum phase phase;
  enum way way;
  int nranks, nhosts, nvictims, victims[RANKS];
  const char *transports;
  struct meeting *meeting;
  _Atomic int are_dead; /* all victims */
  _Atomic long killed_us, knew_us[RANKS];
  _Atomic int code[RANKS];          /* 1 + the result that ended it */
  const char *_Atomic where[RANKS]; /* for one that hangs */
  char sentence[RANKS][512], wrong[RANKS][512];
};

static struct world *own; /* of this process */
static volatile sig_atomic_t leaves;

/* The environment says on which host each rank is. */
static int is_placed(void)
{
  return getenv("TEST_NAMESPACES") || getenv("TEST_INTERFACES");
}

static int is_victim(const struct world *world, int rank)
{
  for (int v = 0; v < world->nvictims; v++)
    if (world->victims[v] == rank) return 1;
  return 0;
}

/* ---- a rank ---- */

struct place {
  const struct ranks *self;
  struct exact_room room;
  tuttiStream_t stream;
  tuttiFusion_t fusion;
  uint64_t chance; /* the same on all ranks */
};

static void end_oneself(int signal_number)
{
  (void)signal_number;
  if (own->way == LEAVE && own->phase != START && own->phase != DESTROY) {
    leaves = 1; /* between two calls */
    return;
  }
  atomic_store(&own->killed_us, meeting_now_us());
  if (own->way == ABORT) abort();
  if (own->way == FAULT) raise(SIGSEGV);
  _exit(3);
}

#define WRONG(...) snprintf(own->wrong[place->self->rank], sizeof own->wrong[0], __VA_ARGS__)
#define IN(what) atomic_store(&own->where[place->self->rank], what)

static tuttiResult_t children(struct place *place)
{
  struct world *world = own;
  tuttiComm_t child = NULL;
  int dead[] = {world->nranks - 1}, rank = place->self->rank, x = 1, n = 0;
  tuttiResult_t result = world->phase == SPLIT
                             ? tuttiCommSplit(place->room.comm, rank % 2, rank, &child, NULL)
                             : tuttiCommShrink(place->room.comm, dead, 1, &child, NULL, TUTTI_SHRINK_ABORT);
  if (result != tuttiSuccess) return result;
  tuttiCommCount(child, &n);
  result = tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, child, NULL);
  if (result == tuttiSuccess && x != n) WRONG("a sum of a child is wrong");
  tuttiResult_t ended = tuttiCommDestroy(child);
  return result == tuttiSuccess ? ended : result;
}

static tuttiResult_t fusion_step(struct place *place)
{
  tuttiResult_t result = tuttiSuccess;
  if (!place->fusion) result = tuttiFusionCreate(&place->fusion, place->room.comm, exact_tensors, EXACT_TENSORS, NULL);
  return result == tuttiSuccess ? exact_step(&place->room, place->fusion) : result;
}

static tuttiResult_t idle(const struct place *place)
{
  tuttiResult_t result;
  usleep(500);
  if (tuttiCommGetAsyncError(place->room.comm, &result) != tuttiSuccess) return tuttiInternalError;
  return result;
}

static tuttiResult_t step(struct place *place)
{
  if (leaves) {
    atomic_store(&own->killed_us, meeting_now_us());
    exit(3);
  }
  struct exact_room *room = &place->room;
  uint64_t *chance = &place->chance;
  switch (own->phase) {
  case GROUPS: return exact_calls(room, chance, 1 + (int)below(chance, EXACT_CALLS), 1, NULL);
  case MESSAGES: return exact_message(room, chance);
  case STREAMS: return exact_calls(room, chance, 1 + (int)below(chance, EXACT_CALLS), 0, place->stream);
  case SPLIT:
  case SHRINK: return children(place);
  case FUSION: return fusion_step(place);
  case IDLE: return idle(place);
  default: return exact_calls(room, chance, 1, 0, NULL);
  }
}

static void verdict(struct place *place, tuttiResult_t result)
{
  int rank = place->self->rank;
  atomic_store(&own->knew_us[rank], meeting_now_us());
  const char *sentence = tuttiGetLastError(own->phase == IDLE ? place->room.comm : NULL);
  snprintf(own->sentence[rank], sizeof own->sentence[rank], "%s", sentence);
  atomic_store(&own->code[rank], 1 + (int)result);
}

/* The survivors make a communicator without the dead, and it works. */
static void go_on(struct place *place)
{
  struct world *world = own;
  int dead[RANKS], n = world->nvictims, x = 1;
  tuttiComm_t child = NULL;
  memcpy(dead, world->victims, sizeof dead);
  if (world->phase == SHRINK) dead[n++] = world->nranks - 1;
  IN("waiting for the end of the victims");
  while (!atomic_load(&world->are_dead)) usleep(200);
  IN("the last shrink");
  tuttiResult_t result = tuttiCommShrink(place->room.comm, dead, n, &child, NULL, TUTTI_SHRINK_ABORT);
  if (result == tuttiSuccess) result = tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, child, NULL);
  if (result != tuttiSuccess) WRONG("the survivors cannot go on: %s", tuttiGetLastError(NULL));
  else if (x != world->nranks - n) WRONG("the survivors add up to %d instead of %d", x, world->nranks - n);
  IN("destroying the last communicator");
  if (child && tuttiCommDestroy(child) != tuttiSuccess && result == tuttiSuccess)
    WRONG("the new one ends with an error");
}

static int rank_run(const struct ranks *self, struct world *world, struct place *place)
{
  if (world->phase == START) RANKS_CHECK(meeting_wait(world->meeting));
  IN("start-up");
  tuttiResult_t result = tuttiCommInitRank(&place->room.comm, self->nranks, self->id, self->rank);
  RANKS_CHECK(world->phase == START || result == tuttiSuccess);
  if (world->phase == STREAMS) RANKS_CHECK(tuttiStreamCreate(&place->stream) == tuttiSuccess);
  if (world->phase != START) RANKS_CHECK(meeting_wait(world->meeting));
  if (world->phase == SHRINK && self->rank == world->nranks - 1) raise(SIGKILL);
  IN(phases[world->phase]);
  if (world->phase == DESTROY) {
    for (int k = 0; k < 5 && result == tuttiSuccess; k++)
      result = exact_calls(&place->room, &place->chance, 1, 0, NULL);
    if (result == tuttiSuccess) usleep((useconds_t)(world->seed * 7 + (uint64_t)self->rank * 5) % 3000);
    tuttiResult_t ended = tuttiCommDestroy(place->room.comm);
    verdict(place, result == tuttiSuccess ? ended : result);
    return 0;
  }
  while (result == tuttiSuccess && !place->room.wrong[0]) result = step(place);
  verdict(place, result);
  if (place->room.wrong[0]) WRONG("%s", place->room.wrong);
  if (is_victim(world, self->rank)) return 0; /* it was stopped, and goes on */
  IN("ends of streams and fusions");
  if (place->fusion) (void)tuttiFusionDestroy(place->fusion);
  if (world->phase != START) go_on(place); /* there some may have no communicator */
  if (place->stream) (void)tuttiStreamDestroy(place->stream);
  IN("destroying the first communicator");
  if (place->room.comm) (void)tuttiCommDestroy(place->room.comm);
  return 0;
}

static int body(const struct ranks *self)
{
  struct world *world = self->argument;
  struct place place = {.self = self, .chance = world->seed};
  char host[16];
  own = world;
  snprintf(host, sizeof host, "host%d", self->rank % world->nhosts);
  if (world->nhosts > 1 && !is_placed()) setenv("TUTTI_HOSTID", host, 1);
  signal(SIGUSR1, end_oneself);
  RANKS_CHECK(exact_room_make(&place.room, self->nranks, self->rank, MOST));
  int status = rank_run(self, world, &place);
  exact_room_free(&place.room);
  return status;
}

/* ---- the round ---- */

struct times {
  long us[TIMES];
  int n;
};

static struct counts {
  struct times here, apart, frozen; /* on one host, on several; of ranks that were stopped */
  long kills, late, disagreed, missing, by_phase[PHASES];
} counts;

static void world_draw(struct world *world, uint64_t seed, uint64_t phases_wanted)
{
  uint64_t chance = seed;
  int is_given = ranks_transports(1) == NULL, is_apart = is_placed();
  world->seed = seed;
  do world->phase = (enum phase)below(&chance, PHASES);
  while (!(phases_wanted >> world->phase & 1));
  world->way = below(&chance, 2) ? KILL : (enum way)below(&chance, WAYS);
  world->nranks = 3 + (int)below(&chance, RANKS - 2);
  world->nhosts = is_apart || below(&chance, 2) ? 2 + (int)below(&chance, 2) : 1;
  world->transports = is_given ? ranks_transports(0) : below(&chance, 2) ? "shm,tcp" : "tcp";
  int most = world->nranks - (world->phase == SHRINK); /* the last one is dead already */
  world->nvictims = most > 3 && below(&chance, 5) == 0 ? 2 : 1;
  world->victims[0] = (int)below(&chance, (size_t)most);
  world->victims[1] = (world->victims[0] + 1 + (int)below(&chance, (size_t)most - 1)) % most;
  if (world->way == STOP && (world->phase == START || world->phase == DESTROY)) world->way = KILL;
  if (world->way == STOP) world->nvictims = 1; /* whoever hears neither of two hosts takes itself to be cut off */
}

static void victims_end(struct world *world, const int *pids, uint64_t *chance)
{
  static const int gaps[] = {0, 0, 300, 2000};
  long spread = world->phase == START ? 30000 : world->phase == DESTROY ? 4000 : 60000;
  usleep((useconds_t)below(chance, (size_t)spread) + (world->phase == SHRINK ? 100000 : 0));
  int signal_number = world->way == KILL ? SIGKILL : world->way == STOP ? SIGSTOP : SIGUSR1;
  if (signal_number != SIGUSR1) atomic_store(&world->killed_us, meeting_now_us());
  for (int v = 0; v < world->nvictims; v++) {
    kill(pids[world->victims[v]], signal_number);
    usleep((useconds_t)gaps[below(chance, 4)]);
  }
  if (world->way == STOP) return;
  for (int v = 0; v < world->nvictims; v++) ranks_wait(pids[world->victims[v]], HANG_S);
}

/* Which victim the sentence names, by its process; -1: none. A rank that had not come to a start-up is known to nobody:
 * the time-out names it by its number. */
static int named(const struct world *world, const int *pids, const char *sentence, int *by_number)
{
  char name[32];
  *by_number = 0;
  for (int v = 0; v < world->nvictims + (world->phase == SHRINK); v++) {
    int rank = v < world->nvictims ? world->victims[v] : world->nranks - 1;
    snprintf(name, sizeof name, "pid %d", pids[rank]);
    if (strstr(sentence, name)) return rank;
    snprintf(name, sizeof name, "rank %d", rank);
    *by_number |= world->phase == START && strstr(sentence, name) != NULL;
  }
  *by_number |= world->phase == START && (strstr(sentence, "its process is gone") || /* that of the root */
                                          strstr(sentence, "did not come within"));
  return -1;
}

static void survivor_judge(struct campaign *campaign, const struct world *world, const int *pids, int rank, int status,
                           int *first)
{
  const char *text = world->sentence[rank];
  int code = atomic_load(&world->code[rank]) - 1, by_number;
  if (status == -1) campaign_fail(campaign, "rank %d hangs: %s", rank, atomic_load(&world->where[rank]));
  else if (status) campaign_fail(campaign, "rank %d ends with %d: %s", rank, status, atomic_load(&world->where[rank]));
  if (world->wrong[rank][0]) campaign_fail(campaign, "rank %d: %s", rank, world->wrong[rank]);
  if (code <= 0) return; /* it ended its communicator before it could know */
  int name = named(world, pids, text, &by_number);
  counts.missing += name < 0 && by_number;
  if (name < 0 && !by_number) campaign_fail(campaign, "rank %d has an error that names no victim: %s", rank, text);
  if (name < 0) return;
  counts.disagreed += *first >= 0 && name != *first;
  *first = name;
  long took = atomic_load(&world->knew_us[rank]) - atomic_load(&world->killed_us);
  struct times *times = world->way == STOP ? &counts.frozen : world->nhosts > 1 ? &counts.apart : &counts.here;
  if (times->n < TIMES) times->us[times->n++] = took < 0 ? 0 : took;
  if (world->way == STOP || took <= (world->nhosts > 1 ? LATE_US * 7 / 2 : LATE_US)) return;
  counts.late++;
  printf("  seed %llu, %s: rank %d knew after %ld ms: %s\n", (unsigned long long)world->seed, phases[world->phase],
         rank, took / 1000, text);
}

static void judge(struct campaign *campaign, struct world *world, const int *pids)
{
  int first = -1, is_stopped = world->way == STOP;
  for (int r = 0; r < world->nranks; r++) {
    if (is_victim(world, r) || (world->phase == SHRINK && r == world->nranks - 1)) continue;
    int status = ranks_wait(pids[r], HANG_S);
    survivor_judge(campaign, world, pids, r, status, &first);
  }
  for (int v = 0; v < world->nvictims && is_stopped; v++) {
    int rank = world->victims[v];
    kill(pids[rank], SIGCONT); /* the others have gone on without it, and it hears that */
    int status = ranks_wait(pids[rank], HANG_S);
    if (status)
      campaign_fail(campaign, "rank %d, which was stopped, ends with %d: %s", rank, status,
                    atomic_load(&world->where[rank]));
  }
  if (world->phase == SHRINK) ranks_wait(pids[world->nranks - 1], HANG_S);
  counts.kills += world->nvictims + (world->phase == SHRINK);
  counts.by_phase[world->phase]++;
}

static void round_run(struct campaign *campaign, uint64_t phases_wanted)
{
  int pids[RANKS];
  uint64_t chance = campaign->seed ^ 0x51ed270b;
  struct world *world = ranks_shared(sizeof *world);
  if (!world) exit(2);
  world_draw(world, campaign->seed, phases_wanted);
  world->meeting = meeting_make(world->nranks);
  setenv("TUTTI_TRANSPORTS", world->transports, 1);
  if (world->phase == START) setenv("TUTTI_INIT_TIMEOUT_MS", "5000", 1);
  else unsetenv("TUTTI_INIT_TIMEOUT_MS");
  if (!world->meeting || ranks_start(world->nranks, body, world, pids) != 0) exit(2);
  for (long limit = meeting_now_us() + 60000000; meeting_now_us() < limit; usleep(100))
    if (atomic_load(&world->meeting->arrived) >= world->nranks) break;
  victims_end(world, pids, &chance);
  atomic_store(&world->are_dead, 1);
  judge(campaign, world, pids);
  if (campaign->is_failed)
    printf("  seed %llu: %s, %s of %d of %d ranks, %s, %d hosts\n", (unsigned long long)campaign->seed,
           phases[world->phase], ways[world->way], world->nvictims, world->nranks, world->transports, world->nhosts);
  meeting_free(world->meeting);
  munmap(world, sizeof *world);
}

static void tell(const char *what, struct times *times)
{
  if (!times->n) return;
  printf("  %-16s %7d verdicts, ms: p50 %.1f, p99 %.1f, most %.1f\n", what, times->n,
         (double)campaign_quantile(times->us, times->n, 500) / 1000,
         (double)campaign_quantile(times->us, times->n, 990) / 1000,
         (double)campaign_quantile(times->us, times->n, 1000) / 1000);
}

int main(int argc, char **argv)
{
  struct campaign campaign;
  uint64_t wanted = 0;
  const struct rlimit no_core = {0, 0};
  argc = campaign_read(&campaign, "kills", 12, argc, argv);
  for (int i = 1; i < argc; i++) {
    int p = 0;
    while (p < PHASES && strcmp(argv[i], phases[p]) != 0) p++;
    if (p == PHASES) return fprintf(stderr, "kills: there is no phase \"%s\"\n", argv[i]), 2;
    wanted |= 1ull << p;
  }
  setrlimit(RLIMIT_CORE, &no_core);
  setenv("TUTTI_DEBUG", "NONE", 0);
  char frozen[16];
  snprintf(frozen, sizeof frozen, "%d", FROZEN_MS);
  setenv("TUTTI_FROZEN_MS", frozen, 1);
  while (campaign_next(&campaign)) round_run(&campaign, wanted ? wanted : ~0ull);
  tell("one host", &counts.here);
  tell("several hosts", &counts.apart);
  tell("stopped ranks", &counts.frozen);
  for (int p = 0; p < PHASES; p++) printf("%s%s %ld", p ? ", " : "  rounds: ", phases[p], counts.by_phase[p]);
  printf("\n");
  return campaign_end(&campaign,
                      "%ld kills, %ld verdicts later than 1 s (several hosts: 3.5 s), %ld named another "
                      "victim than others, %ld missed one that had not come to a start-up",
                      counts.kills, counts.late, counts.disagreed, counts.missing);
}
