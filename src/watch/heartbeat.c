/* SPDX-License-Identifier: BSD-3-Clause */
/* Beats, and the treatment of ranks of this host whose beat stands still.
 *
 * The ranks of a host form a ring. Each rank looks after the next CLOSE ranks that are well, and after the unwell ranks
 * between itself and them. So each unwell rank is looked after by some rank that is well, however many are unwell. A
 * host of P ranks costs P looks a tick, not P^2, and few reads of /proc where ranks have too few cores to beat in time:
 * 256 ranks on 2 cores spent two thirds of their start there.
 *
 * The kernel tells the end of a process at once (a pidfd), which beats tell after 50 ms. On the only host of a
 * communicator of few ranks each rank asks it for that of the next process in the ring, and, when that one has ended or
 * left, of the one behind it: so the ends of several are told one after the other, for a descriptor in each
 * communicator. Where a rank that lives may have all that it needs of the dead one (tt_end_counts), where the kernel
 * does not tell, in a fusion, and with GPUs, beats do. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "watch/private.h"

#define CLOSE 4
#define PROBE_NS 20000000u       /* period of reads of /proc for a rank that does not beat, at first ... */
#define PROBE_LAST_NS 200000000u /* ... and at last, after ever longer pauses */
#define EARLY_NS 50000000u       /* the same before the status page is there */
#define FOLLOWED 64              /* ranks of a host up to which ends are judged: each looks at all others then */
#define LIES 3                   /* once /proc was wrong so often about a beating rank, it is not asked any more */

static enum tt_life life_of(const struct tt_watch *watch, int rank)
{
  const struct tt_member *member = &watch->members[rank];
  const struct tt_member *self = &watch->members[watch->rank];
  if (member->pid_namespace == 0 || member->pid_namespace != self->pid_namespace) return TT_LIFE_UNKNOWN;
  if (member->pid == self->pid && member->start == self->start) return TT_LIFE_ALIVE;
  if (watch->peers[rank].lies >= LIES) return TT_LIFE_UNKNOWN;
  return tt_process_life(member->pid, member->start);
}

/* The rank beats, so /proc must know it. If /proc does not (hidden, or another clock of start times), it cannot be
 * trusted about the rank's end either. */
static void prove(struct tt_watch *watch, int rank)
{
  struct tt_peer *peer = &watch->peers[rank];
  if (peer->trusted || peer->lies >= LIES) return;
  enum tt_life life = life_of(watch, rank);
  if (life != TT_LIFE_DEAD)
    peer->trusted = 1;
  else if (++peer->lies == LIES)
    tt_log(TT_LOG_INFO, "/proc does not show rank %d (pid %d), which is alive: its end will be noticed after %llu ms",
           rank, (int)watch->members[rank].pid,
           (unsigned long long)(watch->limits.unreachable_ns / 1000000u));
}

static void warn_traced(struct tt_watch *watch, int rank)
{
  char name[TT_RANK_TEXT_BYTES];
  struct tt_peer *peer = &watch->peers[rank];
  if (!peer->traced_warned)
    tt_log(watch->is_second ? TT_LOG_INFO : TT_LOG_WARN, "%s is held by a debugger: waiting for it",
           tt_watch_rank_text(watch, rank, name, sizeof name));
  peer->traced_warned = 1;
}

static void act(struct tt_watch *watch, int rank, enum tt_life_verdict verdict)
{
  static const enum tt_lost lost[] = {[TT_VERDICT_DEAD] = TT_LOST_DEAD,
                                      [TT_VERDICT_FROZEN] = TT_LOST_FROZEN,
                                      [TT_VERDICT_UNREACHABLE] = TT_LOST_UNREACHABLE};
  char text[TT_SENTENCE_BYTES];
  switch (verdict) {
  case TT_VERDICT_FINE: return;
  case TT_VERDICT_TRACED: warn_traced(watch, rank); return;
  case TT_VERDICT_DEAD:
    /* The rank may have said farewell between our look at the status page and our look at /proc. */
    if (watch->own && tt_page_gone(&watch->page, rank)) return;
    tt_died_text(watch, rank, text);
    break;
  case TT_VERDICT_FROZEN: tt_frozen_text(watch, rank, text); break;
  case TT_VERDICT_UNREACHABLE: tt_unreachable_text(watch, rank, text); break;
  }
  tt_lost_set(watch, rank, lost[verdict]);
  tt_record_found(watch, tuttiRemoteError, rank, text);
}

int tt_heartbeat_look(struct tt_watch *watch, int rank)
{
  const struct tt_peer *peer = &watch->peers[rank];
  if (!watch->own || !peer->local || rank == watch->rank || tt_is_lost(watch, rank)) return 0;
  if (!peer->trusted || tt_page_gone(&watch->page, rank)) return 0;
  if (life_of(watch, rank) != TT_LIFE_DEAD) return 0;
  act(watch, rank, TT_VERDICT_DEAD);
  return tt_is_lost(watch, rank);
}

/* The beat of `rank` has stood still for age_ns. */
static void probe(struct tt_watch *watch, int rank, uint64_t age_ns)
{
  struct tt_peer *peer = &watch->peers[rank];
  uint64_t clock = watch->clock_ns;
  struct tt_life_facts facts = {
      .age_ns = age_ns, .attached = peer->beat != 0, .life = life_of(watch, rank)};
  peer->probed_ns = clock;
  int is_silent = age_ns >= watch->limits.unreachable_ns / 4; /* a silent rank does not look after others either */
  peer->is_unwell = facts.life != TT_LIFE_ALIVE || is_silent;
  if (facts.life != TT_LIFE_FROZEN)
    peer->stopped_ns = 0;
  else if (peer->stopped_ns == 0)
    peer->stopped_ns = clock;
  if (peer->stopped_ns) facts.stopped_ns = clock - peer->stopped_ns;
  enum tt_life_verdict verdict = tt_life_judge(&facts, &watch->limits);
  act(watch, rank, verdict);
  int lives = facts.life != TT_LIFE_DEAD && facts.life != TT_LIFE_UNKNOWN;
  /* The other hosts are told that it lives long before they lose patience. */
  if (lives && is_silent) tt_control_vouch(watch, rank);
}

/* A quarter of the silence so far, within bounds; so other hosts are told that it lives before they lose patience. */
static uint64_t probe_pause(const struct tt_watch *watch, uint64_t age_ns)
{
  uint64_t most = watch->limits.unreachable_ns / 8, pause = age_ns / 4;
  if (most > PROBE_LAST_NS) most = PROBE_LAST_NS;
  if (pause > most) pause = most;
  return pause > PROBE_NS ? pause : PROBE_NS;
}

/* Looks at a rank's beat. 1: the rank is well. */
static int look_at(struct tt_watch *watch, int rank)
{
  struct tt_peer *peer = &watch->peers[rank];
  if (tt_page_gone(&watch->page, rank) || tt_is_lost(watch, rank)) return 0;
  uint64_t beat = atomic_load_explicit(&peer->slot->beat, memory_order_acquire);
  if (beat != peer->beat) {
    peer->beat = beat;
    peer->beat_ns = watch->clock_ns;
    peer->stopped_ns = 0;
    peer->is_unwell = peer->traced_warned = 0;
    prove(watch, rank);
    return 1;
  }
  uint64_t age = watch->clock_ns - peer->beat_ns;
  if (tt_life_fresh(age, &watch->limits)) return 1;
  if (watch->clock_ns - peer->probed_ns >= probe_pause(watch, age)) probe(watch, rank, age);
  return !peer->is_unwell;
}

/* Without the status page only a death can be seen. */
static int look_early(struct tt_watch *watch, int rank)
{
  struct tt_peer *peer = &watch->peers[rank];
  if (watch->clock_ns - peer->probed_ns < EARLY_NS) return !peer->is_unwell;
  enum tt_life life = life_of(watch, rank);
  peer->probed_ns = watch->clock_ns;
  peer->is_unwell = life != TT_LIFE_ALIVE;
  if (life == TT_LIFE_DEAD) act(watch, rank, TT_VERDICT_DEAD);
  return !peer->is_unwell;
}

/* ---- ends of processes ---- */

/* The next rank of another process that is here still; -1: there is none. */
static int next_rank(const struct tt_watch *watch)
{
  const struct tt_member *self = &watch->members[watch->rank];
  for (int i = 1; i < watch->nlocal; i++) {
    int rank = watch->local[(watch->slot_index + i) % watch->nlocal];
    const struct tt_member *member = &watch->members[rank];
    if (!(member->pid == self->pid && member->start == self->start) && !tt_has_left(watch, rank)) return rank;
  }
  return -1;
}

static void end_close(struct tt_watch *watch)
{
  if (watch->end.fd < 0) return;
  tt_watcher_remove(&watch->end);
  close(watch->end.fd);
  watch->end.fd = -1;
}

static void end_follow(struct tt_watch *watch);

static struct tt_end_facts end_facts(const struct tt_watch *watch, int rank)
{
  const struct tt_rank_slot *slot = watch->peers[rank].slot;
  struct tt_end_facts facts = {.unnumbered = atomic_load_explicit(&slot->unnumbered, memory_order_acquire) != 0,
                               .finished = tt_rank_slot_finished(slot),
                               .least_finished = UINT64_MAX};
  for (int i = 0; i < watch->nlocal; i++) {
    const struct tt_rank_slot *each = &watch->page.slots[i];
    if (tt_has_left(watch, watch->local[i])) continue;
    uint64_t finished = tt_rank_slot_finished(each);
    if (finished < facts.least_finished) facts.least_finished = finished;
    facts.has_cause |= tt_exits(watch, watch->local[i]) || atomic_load_explicit(&each->told, memory_order_acquire);
  }
  return facts;
}

/* The process of the rank that is followed has ended. */
static void end_judge(struct tt_watch *watch)
{
  struct tt_end_facts facts = end_facts(watch, watch->end_rank);
  if (tt_end_counts(&facts) && tt_heartbeat_look(watch, watch->end_rank)) end_follow(watch);
}

static void ended(struct tt_watcher *watcher, uint32_t events)
{
  struct tt_watch *watch = (struct tt_watch *)((char *)watcher - offsetof(struct tt_watch, end));
  (void)events;
  end_close(watch);
  watch->has_ended = 1;
  end_judge(watch);
}

/* Where descriptors may become scarce, those that communicators cannot do without come first. */
static int is_high(int fd)
{
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd > limit.rlim_cur / 2;
}

/* Asks for the end of the next process unless that was done. A rank is believed to be dead only once it was trusted. */
static void end_follow(struct tt_watch *watch)
{
  if (!watch->follows || (watch->end_rank >= 0 && !tt_has_left(watch, watch->end_rank))) return;
  int rank = next_rank(watch);
  end_close(watch);
  watch->has_ended = 0;
  watch->follows = rank >= 0;
  if (rank < 0 || !watch->peers[rank].trusted) return;
  watch->end_rank = rank;
  enum tt_life life = life_of(watch, rank);
  if (life == TT_LIFE_UNKNOWN) return;
  watch->end.ready = ended;
  watch->end.fd = tt_process_end_fd(watch->members[rank].pid, watch->members[rank].start);
  if (watch->end.fd >= 0 && !is_high(watch->end.fd) && tt_watcher_add(&watch->end, EPOLLIN) == tuttiSuccess) return;
  if (watch->end.fd >= 0) close(watch->end.fd);
  watch->end.fd = -1;
  watch->has_ended = life == TT_LIFE_DEAD;
  if (watch->has_ended) end_judge(watch);
}

void tt_heartbeat_create(struct tt_watch *watch, int may_follow)
{
  watch->follows = may_follow && watch->nlocal == watch->nranks && watch->nranks <= FOLLOWED;
}

void tt_heartbeat_destroy(struct tt_watch *watch)
{
  end_close(watch);
}

void tt_heartbeat_tick(struct tt_watch *watch)
{
  if (watch->own) {
    tt_rank_slot_beat(watch->own);
    end_follow(watch);
    if (watch->has_ended) end_judge(watch);
  }
  for (int i = 1, well = 0; i < watch->nlocal && well < CLOSE; i++) {
    int rank = watch->local[(watch->slot_index + i) % watch->nlocal];
    if (!watch->own && atomic_load_explicit(&watch->failed, memory_order_relaxed)) return;
    well += watch->own ? look_at(watch, rank) : look_early(watch, rank);
  }
}
