/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator's worth of watches, each in a forked process: the member table that a rendezvous would exchange is
 * made by hand in shared memory. The parent starts, kills and asks; it has no watch itself. */
#ifndef WATCH_WORLD_H
#define WATCH_WORLD_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watch/watch.h"

#define WORLD_RANKS 20
#define MS 1000000ull
#define PATIENCE_MS 60000 /* of the parent; no promise is that slow, unless something holds the ranks up */

struct party; /* a rank, in its process */
typedef void (*party_script)(struct party *party);

/* Shared by all processes. */
struct world {
  int nranks, nhosts; /* hosts own equal runs of ranks */
  struct tt_settings settings;
  int64_t timeout_ms, setup_ms;
  party_script script;
  struct tt_credentials credentials;
  struct tt_member members[WORLD_RANKS];
  _Atomic int joined;            /* ranks whose listeners are open */
  _Atomic int go, finish;        /* said by the parent */
  _Atomic int stays_out[WORLD_RANKS]; /* joins and makes no watch, unless `outside` does; NULL: nothing is done */
  party_script outside;
  _Atomic int gives_up[WORLD_RANKS];  /* makes its watch, and destroys it without farewell */
  _Atomic int asked[WORLD_RANKS][WORLD_RANKS]; /* for scripts: who has asked /proc about whom */
  struct report {
    pid_t pid;
    _Atomic int ready, step;     /* step: what the script wants the parent to know */
    _Atomic int failed;          /* the rest is valid then */
    uint64_t failed_ns;
    struct tt_failure failure;
  } reports[WORLD_RANKS];
};

struct party {
  struct world *world;
  int rank;
  struct tt_watch *watch;
  struct tt_listener *ip_listener, *local_listener;
};

static inline struct world *world_new(int nranks, int nhosts, party_script script)
{
  struct world *world =
      mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(world, MAP_FAILED);
  world->nranks = nranks;
  world->nhosts = nhosts;
  world->script = script;
  world->setup_ms = PATIENCE_MS;
  assert_int_equal(tt_settings_load(&world->settings), tuttiSuccess);
  memset(&world->credentials, 7, sizeof world->credentials);
  world->credentials.epoch = 1;
  return world;
}

/* ---- in a rank ---- */

static inline void party_note(struct party *party)
{
  struct report *report = &party->world->reports[party->rank];
  if (atomic_load(&report->failed)) return;
  report->failed_ns = tt_now_ns();
  report->failure = *tt_watch_failure(party->watch);
  atomic_store(&report->failed, 1);
}

static inline int party_over(const struct party *party)
{
  return atomic_load(&party->world->finish);
}

/* Idle until the watch fails, which is reported, or the parent says finish. */
static inline void party_idle(struct party *party)
{
  const _Atomic int *failed = tt_watch_failed(party->watch);
  while (!party_over(party)) {
    if (atomic_load_explicit(failed, memory_order_relaxed)) party_note(party);
    tt_sleep_ns(MS);
  }
}

static inline struct tt_call party_call(uint64_t op, uint64_t count)
{
  return (struct tt_call){.op = op, .count = count, .collective = TT_ALL_REDUCE, .type = tuttiFloat, .root = -1};
}

/* Enters the call; says so by step 1. */
static inline void party_enter(struct party *party, const struct tt_call *call)
{
  tt_watch_publish(party->watch, call);
  atomic_store(&party->world->reports[party->rank].step, 1);
}

/* Waits in it in the way of the executor. */
static inline void party_stay(struct party *party, const struct tt_call *call)
{
  const _Atomic int *failed = tt_watch_failed(party->watch);
  uint64_t since = tt_now_ns();
  while (!party_over(party)) {
    tt_watch_compare(party->watch, call, since);
    if (atomic_load_explicit(failed, memory_order_relaxed)) party_note(party);
    tt_sleep_ns(MS);
  }
}

static inline void party_wait(struct party *party, const struct tt_call *call)
{
  party_enter(party, call);
  party_stay(party, call);
}

static inline void party_join(struct party *party)
{
  struct world *world = party->world;
  struct tt_member *member = &world->members[party->rank];
  struct tt_address nowhere = {0}, loopback = {.len = sizeof loopback.v4};
  loopback.v4.sin_family = AF_INET;
  loopback.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (tt_listener_open(&party->local_listener, &nowhere) != tuttiSuccess) _exit(10);
  if (tt_listener_open(&party->ip_listener, &loopback) != tuttiSuccess) _exit(11);
  member->pid = getpid();
  member->start = tt_process_start(getpid());
  member->pid_namespace = tt_pid_namespace();
  member->host_index = party->rank * world->nhosts / world->nranks;
  snprintf(member->host_name, sizeof member->host_name, "node-%c", 'a' + member->host_index);
  member->local = *tt_listener_address(party->local_listener);
  member->control = *tt_listener_address(party->ip_listener);
  atomic_fetch_add(&world->joined, 1);
  while (atomic_load(&world->joined) < world->nranks) tt_sleep_ns(MS);
}

static inline void party_create(struct party *party)
{
  struct world *world = party->world;
  struct tt_watch_spec spec = {.nranks = world->nranks,
                               .rank = party->rank,
                               .members = world->members,
                               .credentials = &world->credentials,
                               .settings = &world->settings,
                               .ip_listener = world->nhosts > 1 ? party->ip_listener : NULL,
                               .local_listener = party->local_listener,
                               .label = "communicator",
                               .timeout_ms = world->timeout_ms,
                               .deadline_ns = tt_now_ns() + (uint64_t)world->setup_ms * MS};
  if (tt_watch_create(&party->watch, &spec) != tuttiSuccess) _exit(12);
}

static inline tuttiResult_t party_watch(struct party *party)
{
  tuttiResult_t result;
  party_create(party);
  while ((result = tt_watch_poll(party->watch)) == tuttiInProgress) tt_sleep_ns(MS / 2);
  return result;
}

static inline void party_part(struct party *party)
{
  tt_watch_destroy(party->watch);
  tt_listener_close(party->ip_listener);
  tt_listener_close(party->local_listener);
}

/* A rank that is quicker than the others must not fail the communicator before they are ready. */
static inline void party_gather(struct party *party)
{
  for (int rank = 0; rank < party->world->nranks; rank++)
    while (!atomic_load(&party->world->reports[rank].ready) && !party_over(party)) {
      if (atomic_load(tt_watch_failed(party->watch))) party_note(party);
      tt_sleep_ns(MS);
    }
}

static inline void party_run(struct world *world, int rank)
{
  struct party party = {.world = world, .rank = rank};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(100);
  party_join(&party);
  if (atomic_load(&world->stays_out[rank])) {
    if (world->outside) world->outside(&party);
    while (!party_over(&party)) tt_sleep_ns(MS);
    _exit(0);
  }
  if (party_watch(&party) != tuttiSuccess) {
    party_note(&party);
    while (!party_over(&party)) tt_sleep_ns(MS); /* a leader that ends takes its status page along */
  } else if (!atomic_load(&world->gives_up[rank])) {
    atomic_store(&world->reports[rank].ready, 1);
    party_gather(&party);
    world->script(&party);
    tt_watch_leave(party.watch, 0);
  }
  party_part(&party);
  _exit(0);
}

/* ---- in the parent ---- */

static inline void world_start(struct world *world)
{
  fflush(NULL);
  for (int rank = 0; rank < world->nranks; rank++) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) party_run(world, rank);
    world->reports[rank].pid = pid;
  }
}

/* Waits until the word is at least `value`; 0 if it does not come. */
static inline int world_await(const _Atomic int *word, int value)
{
  for (uint64_t end = tt_now_ns() + PATIENCE_MS * MS; tt_now_ns() < end; tt_sleep_ns(MS))
    if (atomic_load(word) >= value) return 1;
  return 0;
}

static inline void world_ready(struct world *world)
{
  world_start(world);
  for (int rank = 0; rank < world->nranks; rank++) assert_true(world_await(&world->reports[rank].ready, 1));
}

/* All ranks of the mask have said step 1. */
static inline void world_stepped(struct world *world, unsigned ranks)
{
  for (int rank = 0; rank < world->nranks; rank++)
    if (ranks >> rank & 1) assert_true(world_await(&world->reports[rank].step, 1));
}

static inline void world_signal(struct world *world, int rank, int number)
{
  assert_int_equal(kill(world->reports[rank].pid, number), 0);
}

/* All ranks but those in the mask of victims must have failed. Returns the milliseconds from since_ns to the last. */
static inline double world_failed(struct world *world, unsigned victims, uint64_t since_ns)
{
  uint64_t last = since_ns;
  for (int rank = 0; rank < world->nranks; rank++) {
    struct report *report = &world->reports[rank];
    if (victims >> rank & 1) continue;
    if (!world_await(&report->failed, 1)) fail_msg("rank %d learned of no failure", rank);
    if (report->failed_ns > last) last = report->failed_ns;
  }
  return (double)(last - since_ns) / 1e6;
}

static inline void world_healthy(struct world *world)
{
  for (int rank = 0; rank < world->nranks; rank++) {
    struct report *report = &world->reports[rank];
    if (atomic_load(&report->failed)) fail_msg("rank %d: %s", rank, report->failure.sentence);
  }
}

/* Every rank but the victims says the same code, culprit and part of the sentence. */
static inline void world_says(struct world *world, unsigned victims, tuttiResult_t code, int culprit, const char *part)
{
  for (int rank = 0; rank < world->nranks; rank++) {
    const struct tt_failure *failure = &world->reports[rank].failure;
    if (victims >> rank & 1) continue;
    assert_int_equal(failure->code, code);
    if (culprit >= -1) assert_int_equal(failure->culprit, culprit);
    if (!strstr(failure->sentence, part))
      fail_msg("rank %d says \"%s\", without \"%s\"", rank, failure->sentence, part);
  }
}

/* Ends all; ranks that were not killed must end well. pid 0: was waited for already. */
static inline void world_end(struct world *world)
{
  atomic_store(&world->finish, 1);
  for (int rank = 0; rank < world->nranks; rank++) {
    int status;
    if (world->reports[rank].pid == 0) continue;
    assert_int_equal(waitpid(world->reports[rank].pid, &status, 0), world->reports[rank].pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("rank %d ended with status %#x", rank, status);
  }
  munmap(world, sizeof *world);
}

#endif
