/* SPDX-License-Identifier: BSD-3-Clause */
#include "victims.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chance.h"
#include "exact.h"
#include "meeting.h"

#define MOST 40000 /* elements of a share */

const char *const victims_phases[] = {"start-up", "collectives", "groups",  "messages", "streams",
                                      "split",    "shrink",      "destroy", "fusion",   "idle"};
const char *const victims_ways[] = {"SIGKILL", "SIGSTOP", "abort", "SIGSEGV", "_exit", "exit"};

static struct world *own; /* of this process */
static struct epoch *now; /* likewise, the present one */
static volatile sig_atomic_t leaves;

long victims_waited_us(int pid, long *main_us)
{
  char path[64 + sizeof(((struct dirent *)0)->d_name)];
  long long sum = 0, waited;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, task->d_name);
    FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (file && fscanf(file, "%*d %lld", &waited) == 1) {
      sum += waited;
      if (main_us && atoi(task->d_name) == pid) *main_us = (long)(waited / 1000);
    }
    if (file) fclose(file);
  }
  if (tasks) closedir(tasks);
  return (long)(sum / 1000);
}

int victims_are_placed(void)
{
  return getenv("TEST_NAMESPACES") || getenv("TEST_INTERFACES");
}

int victims_host(const struct world *world, int rank)
{
  const char *names = getenv("TEST_NAMESPACES") ? getenv("TEST_NAMESPACES") : getenv("TEST_INTERFACES");
  int nhosts = names ? 1 : world->nhosts;
  for (; names && *names; names++) nhosts += *names == ',';
  return rank % nhosts;
}

static int is_victim(const struct epoch *epoch, int rank)
{
  return (epoch->nvictims > 0 && epoch->victims[0] == rank) || (epoch->nvictims > 1 && epoch->victims[1] == rank);
}

int victims_has(const struct epoch *epoch, int rank)
{
  return is_victim(epoch, rank) || rank == epoch->ended;
}

struct place {
  const struct ranks *self;
  struct exact_room room; /* its rank and number of ranks are those of the present communicator */
  tuttiStream_t stream;
  tuttiFusion_t fusion;
  uint64_t chance; /* the same on all ranks */
  long waited_us[2]; /* at its arrival: all threads, the main one */
};

static void end_oneself(int signal_number)
{
  (void)signal_number;
  if (now->way == LEAVE && now->phase != START && now->phase != DESTROY) {
    leaves = 1; /* between two calls */
    return;
  }
  atomic_store(&now->killed_us, meeting_now_us());
  if (now->way == ABORT) abort();
  if (now->way == FAULT) raise(SIGSEGV);
  _exit(3);
}

#define WRONG(...) snprintf(own->wrong[place->self->rank], sizeof own->wrong[0], __VA_ARGS__)
#define IN(what) atomic_store(&own->where[place->self->rank], what)

static tuttiResult_t children(struct place *place)
{
  tuttiComm_t child = NULL;
  struct exact_room *room = &place->room;
  int dead[] = {room->nranks - 1}, rank = room->rank, x = 1, n = 0;
  tuttiResult_t result = now->phase == SPLIT
                             ? tuttiCommSplit(room->comm, rank % 2, rank, &child, NULL)
                             : tuttiCommShrink(room->comm, dead, 1, &child, NULL, TUTTI_SHRINK_ABORT);
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
    atomic_store(&now->killed_us, meeting_now_us());
    exit(3);
  }
  struct exact_room *room = &place->room;
  uint64_t *chance = &place->chance;
  switch (now->phase) {
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
  atomic_store(&now->knew_us[rank], meeting_now_us());
  const char *sentence = tuttiGetLastError(now->phase == IDLE ? place->room.comm : NULL);
  snprintf(now->sentence[rank], sizeof now->sentence[rank], "%s", sentence);
  if (place->room.wrong[0]) WRONG("%s", place->room.wrong);
  /* Threads that have ended meanwhile are not counted any more. */
  long main_us = 0, all_us = victims_waited_us(getpid(), &main_us) - place->waited_us[0];
  main_us -= place->waited_us[1];
  now->waited_us[rank] = all_us > main_us ? all_us : main_us;
  atomic_store(&now->code[rank], 1 + (int)result);
}

/* 1: all members have come to this epoch. Only who starts ranks gives up. */
static int arrive(struct place *place)
{
  IN("waiting for the others");
  place->waited_us[0] = victims_waited_us(getpid(), &place->waited_us[1]);
  atomic_fetch_add(&now->arrived, 1);
  while (atomic_load(&now->arrived) < now->nmembers) usleep(200);
  return 1;
}

static tuttiResult_t end(struct place *place)
{
  tuttiResult_t result = tuttiSuccess;
  for (int k = 0; k < 5 && result == tuttiSuccess; k++)
    result = exact_calls(&place->room, &place->chance, 1, 0, NULL);
  if (result == tuttiSuccess) usleep((useconds_t)(own->seed * 7 + (uint64_t)place->self->rank * 5) % 3000);
  tuttiResult_t ended = tuttiCommDestroy(place->room.comm);
  place->room.comm = NULL;
  return result == tuttiSuccess ? ended : result;
}

/* Makes the communicator of the survivors the present one. */
static int go_on(struct place *place)
{
  struct exact_room *room = &place->room;
  int dead[VICTIMS_RANKS], n = 0, x = 1, nleft = now->nmembers, rank = -1;
  tuttiComm_t child = NULL;
  for (int m = 0; m < now->nmembers; m++)
    if (victims_has(now, now->members[m])) dead[n++] = m;
  IN("waiting for the end of the victims");
  while (!atomic_load(&now->are_dead)) usleep(200);
  IN("the shrink to the survivors");
  tuttiResult_t result = tuttiCommShrink(room->comm, dead, n, &child, NULL, TUTTI_SHRINK_ABORT);
  if (result == tuttiSuccess) result = tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, child, NULL);
  if (result == tuttiSuccess) result = tuttiCommCount(child, &nleft);
  if (result == tuttiSuccess) result = tuttiCommUserRank(child, &rank);
  if (result != tuttiSuccess) WRONG("the survivors cannot go on: %s", tuttiGetLastError(NULL));
  else if (x != now->nmembers - n || nleft != x)
    WRONG("the survivors add up to %d of %d instead of %d", x, nleft, now->nmembers - n);
  IN("destroying the communicator that has failed");
  (void)tuttiCommDestroy(room->comm);
  room->comm = child;
  room->nranks = nleft;
  room->rank = rank;
  return !own->wrong[place->self->rank][0];
}

/* 1: there may be another one. */
static int epoch_run(struct place *place)
{
  tuttiResult_t result = tuttiSuccess;
  place->chance = own->seed + (uint64_t)(now - own->epochs);
  if (now->phase == STREAMS && tuttiStreamCreate(&place->stream) != tuttiSuccess) WRONG("there is no stream");
  arrive(place);
  if (place->self->rank == now->ended) raise(SIGKILL);
  IN(victims_phases[now->phase]);
  if (now->phase == DESTROY) result = end(place);
  else
    while (result == tuttiSuccess && !place->room.wrong[0]) result = step(place);
  verdict(place, result);
  if (now->phase == DESTROY || is_victim(now, place->self->rank)) return 0; /* one that was stopped, and goes on */
  IN("ends of streams and fusions");
  if (place->fusion) (void)tuttiFusionDestroy(place->fusion);
  int is_well = go_on(place);
  if (place->stream) (void)tuttiStreamDestroy(place->stream);
  place->fusion = NULL;
  place->stream = NULL;
  return is_well;
}

/* There some may have no communicator, so nobody goes on. */
static void start(struct place *place)
{
  const struct ranks *self = place->self;
  tuttiComm_t *comm = &place->room.comm;
  place->chance = own->seed;
  if (now->phase == START) arrive(place);
  IN("start-up");
  tuttiResult_t result = tuttiCommInitRank(comm, self->nranks, self->id, self->rank);
  if (now->phase != START && result != tuttiSuccess) WRONG("no communicator: %s", tuttiGetLastError(NULL));
  if (now->phase != START) return;
  while (result == tuttiSuccess && !place->room.wrong[0]) result = step(place);
  verdict(place, result);
}

int victims_body(const struct ranks *self)
{
  struct world *world = self->argument;
  struct place place_of_this = {.self = self}, *place = &place_of_this;
  char host[16];
  own = world;
  now = world->epochs;
  snprintf(host, sizeof host, "host%d", victims_host(world, self->rank));
  if (world->nhosts > 1 && !victims_are_placed()) setenv("TUTTI_HOSTID", host, 1);
  signal(SIGUSR1, end_oneself);
  RANKS_CHECK(exact_room_make(&place->room, self->nranks, self->rank, MOST));
  start(place);
  while (place->room.comm && now->phase != START && epoch_run(place) && now - world->epochs + 1 < world->nepochs) now++;
  IN("destroying the last communicator");
  if (place->room.comm) {
    tuttiResult_t result = tuttiCommDestroy(place->room.comm);
    int is_over = now->phase == START || is_victim(now, self->rank) || world->wrong[self->rank][0];
    if (result != tuttiSuccess && !is_over) WRONG("the last one ends with an error: %s", tuttiGetLastError(NULL));
  }
  if (place->stream) (void)tuttiStreamDestroy(place->stream);
  exact_room_free(&place->room);
  return 0;
}
