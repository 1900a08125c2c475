/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport_pair.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slow.h"

#define WORLD_SECONDS (IS_SLOW ? 180 : 60)

struct world_shared {
  _Atomic int complaints;
  _Atomic int arrived;
  uint64_t deadline_ns;
  char complaint[400];
  uint64_t hosts[WORLD_RANKS];
  int32_t pids[WORLD_RANKS];
  char peer_infos[WORLD_RANKS][TT_TRANSPORT_PEER_INFO_BYTES];
};

void world_complain(struct world_rank *me, const char *format, ...)
{
  if (atomic_fetch_add(&me->shared->complaints, 1) > 0) return;
  char text[360];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  snprintf(me->shared->complaint, sizeof me->shared->complaint, "rank %d: %s", me->rank, text);
}

int world_is_over(struct world_rank *me)
{
  if (atomic_load(&me->shared->complaints)) return 1;
  if (tt_now_ns() < me->shared->deadline_ns) return 0;
  world_complain(me, "still waiting after %d s", WORLD_SECONDS);
  return 1;
}

void world_barrier(struct world_rank *me)
{
  int ticket = atomic_fetch_add(&me->shared->arrived, 1);
  int wanted = (ticket / me->world->nranks + 1) * me->world->nranks;
  while (atomic_load(&me->shared->arrived) < wanted && !world_is_over(me)) sched_yield();
}

uint64_t world_random(struct world_rank *me, uint64_t below)
{
  me->random ^= me->random << 13;
  me->random ^= me->random >> 7;
  me->random ^= me->random << 17;
  return me->random % below;
}

struct tt_link *world_open(struct world_rank *me, int peer, int lane)
{
  struct tt_link *link = NULL;
  tuttiResult_t result;
  do {
    result = me->transport->ops->open(me->transport, peer, lane, &link);
    if (result == tuttiInProgress) sched_yield();
  } while (result == tuttiInProgress && !world_is_over(me));
  if (result == tuttiSuccess && link) return link;
  world_complain(me, "open(%d, %d): %s", peer, lane, tt_last_sentence());
  return NULL;
}

static int decorate(struct world_rank *me)
{
  struct tt_transport *outer = me->transport;
  if (me->world->trace && tt_trace_wrap(&outer, me->transport, &me->spec, me->world->trace) != tuttiSuccess) return -1;
  me->transport = outer;
  if (me->world->fault && tt_fault_wrap(&outer, me->transport, &me->spec, me->world->fault) != tuttiSuccess) return -1;
  me->transport = outer;
  return 0;
}

static int rank_start(struct world_rank *me)
{
  struct world_shared *shared = me->shared;
  const struct world *world = me->world;
  struct tt_address loopback, local = {.len = 0};
  if (tt_auth_init() != tuttiSuccess || tt_settings_load(&me->settings) != tuttiSuccess) return -1;
  if (world->slots) me->settings.shm_slots = world->slots;
  if (world->direct_bytes) me->settings.shm_direct_bytes = me->settings.ib_direct_bytes = world->direct_bytes;
  if (world->slot_bytes) me->settings.shm_slot_bytes = world->slot_bytes;
  if (world->slots) me->settings.ib_slots = world->slots;
  if (world->slot_bytes) me->settings.ib_slot_bytes = world->slot_bytes;
  me->settings.init_timeout_ms = 20000;
  if (tt_address_parse(&loopback, "127.0.0.1:0") != tuttiSuccess) return -1;
  if (tt_listener_open(&me->spec.ip_listener, &loopback) != tuttiSuccess) return -1;
  if (tt_listener_open(&me->spec.local_listener, &local) != tuttiSuccess) return -1;
  me->spec.nranks = world->nranks;
  me->spec.rank = me->rank;
  me->spec.lanes = world->lanes;
  me->spec.settings = &me->settings;
  me->spec.credentials = &me->credentials;
  me->spec.hosts = shared->hosts;
  me->spec.pids = shared->pids;
  if (world->ops->create(&me->transport, &me->spec, shared->peer_infos[me->rank]) != tuttiSuccess) return -1;
  shared->hosts[me->rank] = 1;
  shared->pids[me->rank] = (int32_t)getpid();
  world_barrier(me);
  if (world_is_over(me)) return 0;
  if (me->transport->ops->connect(me->transport, shared->peer_infos, TT_TRANSPORT_PEER_INFO_BYTES) != tuttiSuccess)
    return -1;
  return decorate(me);
}

static void *rank_main(void *argument)
{
  struct world_rank *me = argument;
  me->random = 88172645463325252u + (uint64_t)me->rank * 1000003u;
  if (rank_start(me) != 0)
    world_complain(me, "start: %s", tt_last_sentence());
  else if (!world_is_over(me))
    me->world->body(me);
  if (me->transport) me->transport->ops->destroy(me->transport);
  tt_listener_close(me->spec.local_listener);
  tt_listener_close(me->spec.ip_listener);
  return NULL;
}

static void run_threads(struct world_rank *ranks, int n)
{
  pthread_t threads[WORLD_RANKS];
  for (int i = 0; i < n; i++)
    if (pthread_create(&threads[i], NULL, rank_main, &ranks[i]) != 0) abort();
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static void run_processes(struct world_rank *ranks, int n)
{
  pid_t pids[WORLD_RANKS];
  fflush(NULL);
  for (int i = 0; i < n; i++) {
    pids[i] = fork();
    if (pids[i] < 0) abort();
    if (pids[i] == 0) {
      alarm(2 * WORLD_SECONDS);
      atomic_store(&tt_process.forked, 0); /* the parent uses nothing while it forks: this is a fresh process */
      rank_main(&ranks[i]);
      _exit(0);
    }
  }
  for (int i = 0; i < n; i++) {
    int status = 0;
    while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {}
    int may_die = ranks[i].world->may_die >> i & 1;
    if (status != 0 && !(may_die && WIFSIGNALED(status))) world_complain(&ranks[i], "wait status %#x", status);
  }
}

static int is_named(const char *list, const char *name)
{
  size_t len = strlen(name);
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == len && memcmp(at, name, len) == 0) return 1;
  return 0;
}

const struct tt_transport_ops *const *world_transports(void)
{
  static const struct tt_transport_ops *list[16];
  struct tt_settings settings;
  char why[256];
  if (list[0]) return list;
  if (tt_auth_init() != tuttiSuccess || tt_settings_load(&settings) != tuttiSuccess) abort();
  for (int t = 1, n = 0; tt_transports[t] && n < 15; t++) {
    if (getenv("TUTTI_TRANSPORTS") && !is_named(settings.transports, tt_transports[t]->name)) continue;
    const char *reason = tt_transports[t]->unusable(&settings, why, sizeof why);
    if (reason) printf("%s is not tested here: %s\n", tt_transports[t]->name, reason);
    else list[n++] = tt_transports[t];
  }
  if (!list[0]) { /* those that were asked for by name: nothing would be tested, and all pass */
    fprintf(stderr, "none of TUTTI_TRANSPORTS can be tested here\n");
    exit(1);
  }
  return list;
}

const char *world_run(const struct world *world)
{
  static char complaint[400];
  static struct world_rank ranks[WORLD_RANKS];
  struct world_shared *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || world->nranks > WORLD_RANKS) abort();
  shared->deadline_ns = tt_now_ns() + WORLD_SECONDS * 1000000000ull;
  struct tt_credentials credentials = {.epoch = 7};
  if (tt_auth_init() != tuttiSuccess) abort();
  tt_random(credentials.key, sizeof credentials.key);
  tt_random(credentials.job, sizeof credentials.job);
  for (int i = 0; i < world->nranks; i++)
    ranks[i] = (struct world_rank){.world = world, .shared = shared, .rank = i, .credentials = credentials};
  if (world->is_forked) run_processes(ranks, world->nranks);
  else run_threads(ranks, world->nranks);
  int failed = atomic_load(&shared->complaints);
  memcpy(complaint, shared->complaint, sizeof complaint);
  munmap(shared, sizeof *shared);
  return failed ? complaint : NULL;
}
