/* SPDX-License-Identifier: BSD-3-Clause */
/* A watch from its start to its end, and the tick that drives it in the service thread. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "watch/private.h"

#define EXIT_WAIT_MS 100 /* a process that exits does not wait longer for the lock */
#define PAGE_EPOCH (1ull << 63) /* keeps the page's credentials apart from the transports' at the same listeners */

/* ---- set-up ---- */

/* Others come to this rank: the service thread lets them in, and wakes the thread that sets up. */
static tuttiResult_t wake_open(struct tt_watch *watch)
{
  int awaits = watch->nlocal < watch->nranks || (watch->nlocal > 1 && watch->leader == watch->rank);
  if (!awaits) return tuttiSuccess;
  watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (watch->wake >= 0) return tuttiSuccess;
  return tt_fail(tuttiSystemError, "no descriptor for the start-up of a communicator: %s (see `ulimit -n`)",
                 strerror(errno));
}

static void wake_close(struct tt_watch *watch)
{
  if (watch->wake >= 0) close(watch->wake);
  watch->wake = -1;
}

void tt_watch_wake(const struct tt_watch *watch)
{
  uint64_t one = 1;
  if (watch->wake < 0) return;
  ssize_t n = write(watch->wake, &one, sizeof one);
  (void)n; /* if the eventfd is full, the thread will wake anyway */
}

/* The caller looks next at what has come so far. */
static void wake_take(const struct tt_watch *watch)
{
  uint64_t count;
  if (watch->wake < 0) return;
  ssize_t n = read(watch->wake, &count, sizeof count);
  (void)n; /* nothing has come */
}

/* Names the ranks the set-up still waits for. */
static void missing_text(const struct tt_watch *watch, char text[TT_SENTENCE_BYTES])
{
  char name[TT_RANK_TEXT_BYTES];
  int used = snprintf(text, TT_SENTENCE_BYTES, "start-up timed out waiting for");
  int left = 4;
  for (int rank = 0; rank < watch->nranks && left > 0; rank++) {
    const struct tt_peer *peer = &watch->peers[rank];
    int wanted = watch->own ? peer->local && !peer->served && watch->rank == watch->leader
                            : rank == watch->leader;
    for (int i = 0; watch->own && i < watch->control.nlinks; i++)
      wanted |= watch->control.links[i].peer == rank && watch->control.links[i].state == TT_CONTROL_AWAITED;
    if (!wanted) continue;
    used += snprintf(text + used, TT_SENTENCE_BYTES - (size_t)used, " %s",
                     tt_watch_rank_text(watch, rank, name, sizeof name));
    left--;
  }
}

tuttiResult_t tt_setup_fail(const struct tt_watch *watch, tuttiResult_t code, int peer, const char *what)
{
  char name[TT_RANK_TEXT_BYTES], text[TT_SENTENCE_BYTES];
  snprintf(text, sizeof text, "%s %s: %.350s", what, tt_watch_rank_text(watch, peer, name, sizeof name),
           tt_last_sentence());
  return tt_fail_quiet(code, text);
}

/* A rank that leaves before all are ready has aborted, so waiting on would be in vain. */
static void check_aborted(struct tt_watch *watch)
{
  char name[TT_RANK_TEXT_BYTES], text[TT_SENTENCE_BYTES];
  for (int rank = 0; watch->own && rank < watch->nranks; rank++) {
    if (rank == watch->rank || !tt_gone_aborted(tt_page_gone(&watch->page, rank))) continue;
    snprintf(text, sizeof text, "%s left the communicator (aborted) during start-up",
             tt_watch_rank_text(watch, rank, name, sizeof name));
    tt_watch_fail(watch, tuttiRemoteError, rank, tt_current_op(watch), text);
    return;
  }
}

static void check_deadline(struct tt_watch *watch)
{
  char text[TT_SENTENCE_BYTES];
  if (watch->now_ns < watch->deadline_ns) return;
  missing_text(watch, text);
  tt_watch_fail(watch, tuttiRemoteError, -1, tt_current_op(watch), text);
}

/* Records a failure of the set-up, whose sentence is already logged. */
static void set_up_failed(struct tt_watch *watch, tuttiResult_t result)
{
  struct tt_failure failure = {.code = result, .culprit = -1, .detector = watch->rank};
  snprintf(failure.sentence, sizeof failure.sentence, "%s", tt_last_sentence());
  tt_record_set(watch, &failure);
}

static void set_up(struct tt_watch *watch)
{
  if (watch->ready || atomic_load_explicit(&watch->failed, memory_order_relaxed)) return;
  wake_take(watch);
  tuttiResult_t result = tt_share_poll(watch);
  if (watch->own && (result == tuttiSuccess || result == tuttiInProgress)) {
    tuttiResult_t links = tt_control_poll(watch);
    if (links != tuttiSuccess) result = links;
  }
  watch->ready = result == tuttiSuccess;
  if (watch->ready) {
    wake_close(watch);
    return;
  }
  if (result != tuttiInProgress) {
    set_up_failed(watch, result);
    return;
  }
  check_aborted(watch);
  check_deadline(watch);
}

static void advance_clock(struct tt_watch *watch)
{
  uint64_t now = tt_now_ns(), step = now - watch->now_ns;
  watch->now_ns = now;
  /* A longer gap between ticks is our own pause, not the others' silence. */
  watch->clock_ns += step < watch->limits.stale_ns ? step : watch->limits.stale_ns;
}

static void tick(struct tt_timer *timer)
{
  struct tt_watch *watch = tt_watch_of_timer(timer);
  advance_clock(watch);
  tt_record_exclude(watch);
  tt_record_adopt(watch);
  tt_heartbeat_tick(watch);
  tt_control_tick(watch);
}

tuttiResult_t tt_watch_poll(struct tt_watch *watch)
{
  tt_service_lock();
  set_up(watch);
  int ready = watch->ready;
  tt_service_unlock();
  if (atomic_load_explicit(&watch->failed, memory_order_acquire))
    return tt_fail_quiet(watch->failure.code, watch->failure.sentence);
  return ready ? tuttiSuccess : tuttiInProgress;
}

/* Control links are not set up before the status page is there (set_up): until then nothing is waited for there. */
void tt_watch_pollset(struct tt_watch *watch, struct tt_pollset *pollset)
{
  tt_service_lock();
  tt_share_pollset(watch, pollset);
  for (int i = 0; watch->own && i < watch->control.nlinks; i++) {
    const struct tt_control_link *link = &watch->control.links[i];
    if (link->state == TT_CONTROL_AWAITED && link->dialer) tt_dialer_pollset(link->dialer, pollset);
  }
  if (watch->wake >= 0) tt_pollset_add(pollset, watch->wake, POLLIN);
  tt_service_unlock();
}

/* ---- create ---- */

/* Finds the ranks of this host, and the ranks that can be seen from here. */
static tuttiResult_t survey(struct tt_watch *watch)
{
  int linked[TT_CONTROL_LINKS], nlinked = 0;
  for (int rank = 0; rank < watch->nranks; rank++) {
    if (watch->members[rank].host_index != watch->members[watch->rank].host_index) continue;
    if (rank == watch->rank) watch->slot_index = watch->nlocal;
    watch->peers[rank].local = 1;
    watch->local[watch->nlocal++] = rank;
  }
  watch->leader = watch->local[0];
  watch->timer.period_ns = tt_beat_ns(watch->nlocal);
  watch->limits.stale_ns = TT_STALE_BEATS * watch->timer.period_ns;
  if (watch->nlocal < watch->nranks) nlinked = tt_control_peers(watch->rank, watch->nranks, NULL, linked);
  for (int rank = 0; rank < watch->nranks; rank++) {
    int seen = watch->peers[rank].local && rank != watch->rank;
    for (int i = 0; i < nlinked; i++) seen |= linked[i] == rank;
    if (seen) watch->seen[watch->nseen++] = rank;
  }
  if (nlinked && (!watch->ip_listener || !watch->members[watch->rank].control.len))
    return tt_fail(tuttiInternalError, "ranks of several hosts need an IP listener for their control links");
  if (watch->nlocal > 1 && !watch->local_listener)
    return tt_fail(tuttiInternalError, "several ranks of one host need a local listener for their status page");
  return tuttiSuccess;
}

static tuttiResult_t copy_members(struct tt_watch *watch, const struct tt_member *members)
{
  size_t n = (size_t)watch->nranks;
  watch->members = tt_alloc(n, sizeof *watch->members);
  watch->peers = tt_alloc(n, sizeof *watch->peers);
  watch->local = tt_alloc(n, sizeof *watch->local);
  watch->seen = tt_alloc(n, sizeof *watch->seen);
  if (!watch->members || !watch->peers || !watch->local || !watch->seen)
    return tt_fail(tuttiSystemError, "no memory to watch %zu ranks", n);
  memcpy(watch->members, members, n * sizeof *members);
  for (size_t i = 0; i < n; i++) watch->members[i].host_name[TT_HOST_NAME_BYTES - 1] = 0;
  return tuttiSuccess;
}

static void copy_spec(struct tt_watch *watch, const struct tt_watch_spec *spec)
{
  const uint64_t ms = 1000000u;
  watch->nranks = spec->nranks;
  watch->rank = spec->rank;
  watch->credentials = *spec->credentials;
  watch->page_credentials = *spec->credentials;
  watch->page_credentials.epoch |= PAGE_EPOCH;
  tt_key_derive(watch->page_credentials.key, spec->credentials->key, "board", NULL, 0);
  watch->ip_listener = spec->ip_listener;
  watch->local_listener = spec->local_listener;
  snprintf(watch->label, sizeof watch->label, "%s", spec->label ? spec->label : "communicator");
  watch->is_second = spec->is_second;
  watch->limits.frozen_ns = (uint64_t)spec->settings->frozen_ms * ms;
  watch->limits.unreachable_ns = (uint64_t)spec->settings->unreachable_ms * ms;
  watch->late_warn_ns = (uint64_t)spec->settings->late_warn_ms * ms;
  watch->timeout_ns = (uint64_t)spec->timeout_ms * ms;
  watch->deadline_ns = spec->deadline_ns;
  watch->page_fd = watch->socket = watch->wake = watch->end.fd = watch->end_rank = -1;
  watch->timer.fire = tick;
  /* Not 0, because 0 means "never" in places. */
  watch->clock_ns = 1;
  watch->now_ns = tt_now_ns();
}

static tuttiResult_t start(struct tt_watch *watch, const struct tt_watch_spec *spec)
{
  tuttiResult_t result = copy_members(watch, spec->members);
  if (result != tuttiSuccess) return result;
  result = survey(watch);
  if (result == tuttiSuccess) tt_heartbeat_create(watch, !spec->is_second && !spec->has_gpu);
  if (result == tuttiSuccess) result = wake_open(watch);
  if (result != tuttiSuccess) return result;
  result = tt_service_hold();
  if (result != tuttiSuccess) return result;
  watch->held = 1;
  tt_service_lock();
  watch->next = tt_process.watches;
  tt_process.watches = watch;
  result = tt_share_create(watch);
  if (result == tuttiSuccess) result = tt_control_create(watch);
  if (result == tuttiSuccess) tt_timer_add(&watch->timer);
  tt_service_unlock();
  return result;
}

tuttiResult_t tt_watch_create(struct tt_watch **watch, const struct tt_watch_spec *spec)
{
  struct tt_watch *made = tt_alloc(1, sizeof *made);
  if (!made) return tt_fail(tuttiSystemError, "no memory for a watch (%zu bytes)", sizeof *made);
  copy_spec(made, spec);
  tuttiResult_t result = start(made, spec);
  if (result == tuttiSuccess)
    *watch = made;
  else
    tt_watch_destroy(made);
  return result;
}

static void list_leave(struct tt_watch *watch)
{
  struct tt_watch *before = tt_process.watches;
  if (before == watch) tt_process.watches = watch->next;
  while (before && before->next != watch) before = before->next;
  if (before) before->next = watch->next;
}

/* A process that ends by exit(), or by the end of main, shows it, so that others do not say that it died. */
__attribute__((destructor)) static void exit_show(void)
{
  if (!tt_service_try_lock(EXIT_WAIT_MS)) return;
  for (struct tt_watch *watch = tt_process.watches; watch; watch = watch->next)
    if (watch->own) atomic_store_explicit(&watch->own->exits, 1, memory_order_release);
  tt_service_unlock();
}

void tt_watch_destroy(struct tt_watch *watch)
{
  /* In a forked child the status page is not mapped, and the connections are the parent's. */
  if (!watch || atomic_load(&tt_process.forked)) return;
  if (watch->held) {
    tt_watch_leave(watch, 1); /* without effect after an earlier farewell */
    tt_service_lock();
    tt_timer_remove(&watch->timer);
    list_leave(watch);
    tt_heartbeat_destroy(watch);
    tt_control_destroy(watch);
    tt_share_destroy(watch);
    tt_service_unlock();
    tt_service_release();
  }
  wake_close(watch);
  tt_wipe(&watch->credentials, sizeof watch->credentials);
  tt_wipe(&watch->page_credentials, sizeof watch->page_credentials);
  tt_free(watch->members);
  tt_free(watch->peers);
  tt_free(watch->local);
  tt_free(watch->seen);
  tt_free(watch->heard);
  tt_free(watch);
}
