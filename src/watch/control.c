/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/control_private.h"

#include <string.h>
#include <unistd.h>

#include "watch/private.h"

#define BEAT_NS 100000000u  /* period of beats between hosts */
#define ALONE_NS 500000000u /* no sign of any other host for so long */
#define ANSWER_NS 400000000u /* for an answer to a knock, see knock.c, to come after an outage */

int tt_control_peers(int rank, int nranks, const struct tt_watch *watch, int peers[TT_CONTROL_LINKS])
{
  int n = 0;
  for (int step = 1; step >= -1; step -= 2) {
    int peer = rank;
    for (int found = 0; found < TT_CONTROL_LINKS / 2; found++) {
      int known = 0;
      do peer = (peer + step + nranks) % nranks;
      while (watch && peer != rank && tt_has_left(watch, peer));
      if (peer == rank) break;
      for (int i = 0; i < n; i++) known |= peers[i] == peer;
      if (!known) peers[n++] = peer;
    }
  }
  return n;
}

/* ---- passing on ---- */

static void tell_gone(struct tt_watch *watch, int rank)
{
  uint64_t gone = tt_page_gone(&watch->page, rank);
  if (!gone || watch->peers[rank].gone_told) return;
  struct tt_frame frame = {.type = TT_FRAME_GONE, .rank = rank, .gone = gone};
  for (int i = 0; i < watch->control.nlinks; i++)
    if (watch->control.links[i].peer != rank) tt_link_send(&watch->control.links[i], &frame);
  watch->peers[rank].gone_told = 1;
}

static void tell_lost(struct tt_watch *watch, int rank)
{
  uint64_t lost = tt_page_lost(&watch->page, rank);
  if (!lost || watch->peers[rank].lost_told) return;
  struct tt_frame frame = {.type = TT_FRAME_LOST, .rank = rank, .lost = lost};
  for (int i = 0; i < watch->control.nlinks; i++)
    if (watch->control.links[i].peer != rank) tt_link_send(&watch->control.links[i], &frame);
  watch->peers[rank].lost_told = 1;
}

static void tell_words(struct tt_watch *watch, int rank)
{
  struct tt_control_words *words = &watch->control.words[rank];
  struct tt_frame frame = {.type = TT_FRAME_WORDS, .rank = rank};
  uint64_t number = atomic_load_explicit(&words->said.number, memory_order_relaxed) / 2;
  for (int i = 0; i < watch->control.nlinks; i++) {
    struct tt_control_link *link = &watch->control.links[i];
    if (link->peer == rank || words->told[i] >= number) continue;
    frame.said.number = tt_said_get(&words->said, frame.said.words, TT_SAID_WORDS);
    if (tt_link_send(link, &frame)) words->told[i] = number;
  }
}

void tt_control_words(struct tt_watch *watch, const struct tt_frame *frame, struct tt_control_link *link)
{
  struct tt_control *control = &watch->control;
  uint64_t older[TT_SAID_WORDS];
  if (!control->words) control->words = tt_alloc((size_t)watch->nranks, sizeof *control->words);
  if (!control->words) return;
  struct tt_control_words *words = &control->words[frame->rank];
  if (link && words->told[link - control->links] < frame->said.number)
    words->told[link - control->links] = frame->said.number;
  if (tt_said_get(&words->said, older, TT_SAID_WORDS) >= frame->said.number) return;
  tt_said_set(&words->said, frame->said.number, frame->said.words, TT_SAID_WORDS);
  tell_words(watch, frame->rank);
}

void tt_control_tell(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  if (!control->nlinks || !watch->own) return;
  for (int rank = 0; rank < watch->nranks; rank++) {
    if (control->words) tell_words(watch, rank); /* before its farewell: what it has said counts */
    tell_gone(watch, rank);
    tell_lost(watch, rank);
  }
  if (!atomic_load_explicit(&watch->failed, memory_order_relaxed) || tt_is_excluded(watch)) return;
  struct tt_frame frame = {.type = TT_FRAME_RECORD, .rank = watch->failure.detector};
  frame.record = watch->failure;
  for (int i = 0; i < control->nlinks; i++) {
    struct tt_control_link *link = &control->links[i];
    if (!link->record_told) link->record_told = tt_link_send(link, &frame);
  }
}

void tt_control_pass(struct tt_watch *watch, int rank, uint64_t stamp)
{
  struct tt_frame frame = {.type = TT_FRAME_VOUCH, .rank = rank, .stamp = stamp};
  if (stamp <= watch->peers[rank].vouched) return;
  watch->peers[rank].vouched = stamp;
  for (int i = 0; i < watch->control.nlinks; i++) {
    struct tt_control_link *link = &watch->control.links[i];
    if (link->peer == rank) tt_link_hear(link);
    if (link->out_begin == link->out_end) tt_link_send(link, &frame);
  }
}

void tt_control_vouch(struct tt_watch *watch, int rank)
{
  /* All ranks of the host make the same stamp, so that only the first voucher is passed on. */
  if (watch->control.nlinks) tt_control_pass(watch, rank, watch->now_ns / (watch->limits.unreachable_ns / 8));
}

/* ---- links ---- */

static void admit(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  struct tt_watch *watch = owner;
  int is_lower = hello->src < (uint32_t)watch->rank;
  if (is_lower) tt_mend_expect(watch, (int)hello->src);
  for (int i = 0; i < watch->control.nlinks; i++) {
    struct tt_control_link *link = &watch->control.links[i];
    if (!is_lower || (uint32_t)link->peer != hello->src || link->spoke || !link->out) continue;
    tt_link_close(link); /* a second connection before the first one spoke: the dialer tried again */
    link->state = TT_CONTROL_AWAITED;
    link->watcher.fd = fd;
    link->session = *session;
    tt_watch_wake(watch);
    return;
  }
  close(fd);
}

tuttiResult_t tt_control_create(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  int peers[TT_CONTROL_LINKS];
  if (watch->nlocal == watch->nranks) return tuttiSuccess;
  int n = tt_control_peers(watch->rank, watch->nranks, NULL, peers);
  size_t len = (size_t)n * sizeof(struct tt_rank_slot);
  control->links = tt_alloc(TT_CONTROL_MOST, sizeof *control->links);
  control->memory = tt_alloc(len + TT_LINE, 1); /* slots start at cache lines */
  if (!control->links || !control->memory)
    return tt_fail(tuttiSystemError, "no memory for control links (%zu bytes)", len);
  struct tt_rank_slot *slots = (void *)(((uintptr_t)control->memory + TT_LINE - 1) / TT_LINE * TT_LINE);
  for (int i = 0; i < n; i++) {
    control->nlinks = i + 1;
    control->links[i].slot = &slots[i];
    tuttiResult_t result = tt_link_create(watch, &control->links[i], peers[i], watch->deadline_ns);
    if (result != tuttiSuccess) return result;
  }
  return tt_listener_admit(watch->ip_listener, &watch->credentials, TT_HELLO_CONTROL, (uint32_t)watch->rank, admit,
                           watch);
}

tuttiResult_t tt_control_advance(struct tt_control_link *link)
{
  int fd = link->watcher.fd;
  if (link->state != TT_CONTROL_AWAITED) return tuttiSuccess;
  if (link->dialer) {
    tuttiResult_t result = tt_dialer_poll(link->dialer, &fd);
    if (result == tuttiInProgress) return result;
    if (result != tuttiSuccess) return tt_setup_fail(link->watch, result, link->peer, "no control link to");
    link->session = *tt_dialer_session(link->dialer);
    tt_dialer_destroy(link->dialer);
    link->dialer = NULL;
  }
  return fd < 0 ? tuttiInProgress : tt_link_begin(link, fd);
}

tuttiResult_t tt_control_poll(struct tt_watch *watch)
{
  tuttiResult_t all = tuttiSuccess;
  for (int i = 0; i < watch->control.nlinks; i++) {
    tuttiResult_t result = tt_control_advance(&watch->control.links[i]);
    if (result != tuttiSuccess && result != tuttiInProgress) return result;
    if (result == tuttiInProgress) all = result;
  }
  return all;
}

/* ---- silence ---- */

static int is_foreign(const struct tt_watch *watch, int rank)
{
  return !watch->peers[rank].local;
}

/* If an operation that needs everybody's part has ended, everybody lives. One without elements sends nothing. */
static void hear_finished(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  struct tt_call call;
  uint64_t finished = tt_rank_slot_finished(watch->own);
  if (finished == control->finished) return;
  control->finished = finished;
  if (!tt_rank_slot_call(watch->own, finished, &call) || call.count == 0 || !tt_call_needs_all(&call, -1)) return;
  for (int i = 0; i < control->nlinks; i++)
    if (control->links[i].spoke) tt_link_hear(&control->links[i]);
}

/* While no rank of this host hears any other host, silence says nothing about any one of them: this host may be the one
 * that is cut off. */
static void count_signs(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  uint64_t signs = 0, step = watch->clock_ns - control->counted_ns;
  hear_finished(watch);
  for (int i = 0; i < watch->nlocal; i++)
    signs += atomic_load_explicit(&watch->page.slots[i].heard, memory_order_relaxed);
  if (signs != control->signs || !control->counted_ns)
    atomic_store_explicit(&control->signs_ns, watch->clock_ns, memory_order_relaxed);
  control->signs = signs;
  control->counted_ns = watch->clock_ns;
  if (watch->clock_ns - control->signs_ns < ALONE_NS) return;
  for (int i = 0; i < control->nlinks; i++)
    if (is_foreign(watch, control->links[i].peer)) control->links[i].heard_ns += step;
}

/* The number of other hosts that ranks of this one are linked with, at most 2. Ranks that left or are lost do not
 * count, on either side: nobody expects to hear them, and they hear nobody. */
static int hosts_linked(const struct tt_watch *watch)
{
  const struct tt_watch *mended = tt_mend_is_due(watch) ? watch : NULL;
  int peers[TT_CONTROL_LINKS], first = -1;
  for (int i = 0; i < watch->nlocal; i++) {
    int rank = watch->local[i], hears = rank == watch->rank || !tt_has_left(watch, rank);
    int n = hears ? tt_control_peers(rank, watch->nranks, mended, peers) : 0;
    for (int p = 0; p < n; p++) {
      if (!is_foreign(watch, peers[p]) || tt_has_left(watch, peers[p])) continue;
      int host = watch->members[peers[p]].host_index;
      if (first >= 0 && host != first) return 2;
      first = host;
    }
  }
  return first >= 0;
}

/* A silence as long as an outage that is none, and the time that it takes to hear something after that: much, if the
 * network was there again meanwhile. */
static uint64_t silence_limit(const struct tt_watch *watch)
{
  const struct tt_control *control = &watch->control;
  uint64_t limit = watch->limits.unreachable_ns;
  int is_back = control->answered_ns && watch->clock_ns - control->answered_ns < limit;
  return limit + (is_back || control->patience_ns < ANSWER_NS ? control->patience_ns : ANSWER_NS);
}

int tt_control_given_up(const struct tt_watch *watch, int peer, uint64_t ended_ns)
{
  uint64_t signs_ns = atomic_load_explicit(&watch->control.signs_ns, memory_order_relaxed);
  int is_silent = ended_ns > signs_ns && ended_ns - signs_ns >= watch->limits.unreachable_ns;
  return watch->control.links && is_foreign(watch, peer) && is_silent && hosts_linked(watch) > 1;
}

/* The rank to blame for the silence of the peer, which is on another host; -1: none, it is not too long yet. */
static int blame_silence(const struct tt_watch *watch, const struct tt_control_link *link)
{
  uint64_t limit = silence_limit(watch);
  if (watch->clock_ns - link->heard_ns >= limit) return link->peer;
  if (watch->clock_ns - watch->control.signs_ns < limit) return -1;
  return hosts_linked(watch) > 1 ? watch->rank : link->peer;
}

/* Some ranks of a host that cannot be reached may have no link to another host: with the last linked one all are lost.
 * Links to it that are heard still will be silent soon, or it is not the host. */
static void host_lose(struct tt_watch *watch, const struct tt_control_link *silent, int culprit)
{
  const struct tt_control *control = &watch->control;
  int host = watch->members[culprit].host_index, is_whole = 1;
  uint64_t limit = watch->limits.unreachable_ns;
  for (int i = 0; i < control->nlinks; i++) {
    const struct tt_control_link *link = &control->links[i];
    if (link != silent && watch->members[link->peer].host_index == host && link->state == TT_CONTROL_UP)
      is_whole &= watch->clock_ns - link->heard_ns >= limit;
  }
  for (int rank = 0; rank < watch->nranks; rank++) {
    int is_there = watch->members[rank].host_index == host && !tt_page_gone(&watch->page, rank);
    if (rank == culprit || (is_whole && is_there)) tt_lost_set(watch, rank, TT_LOST_UNREACHABLE);
  }
}

static void judge(struct tt_watch *watch, struct tt_control_link *link)
{
  char text[TT_SENTENCE_BYTES];
  int culprit = link->peer;
  if (tt_has_left(watch, link->peer) || link->state == (link->slot ? TT_CONTROL_AWAITED : TT_CONTROL_ENDED)) return;
  if (link->state == TT_CONTROL_ENDED) {
    if (watch->clock_ns - link->ended_ns < TT_GRACE_NS) return;
    if (link->spoke && tt_control_given_up(watch, link->peer, link->ended_ns)) culprit = watch->rank;
    else tt_lost_text(watch, link->peer, link->how, text);
  } else {
    /* Before its first frame a rank may still be waiting for its own start-up. Ranks of this host beat on the status
     * page instead. */
    if (link->slot && !link->spoke && watch->now_ns < watch->deadline_ns) return;
    culprit = is_foreign(watch, link->peer) ? blame_silence(watch, link) : -1;
    if (culprit < 0) return;
    if (culprit != watch->rank) tt_unreachable_text(watch, culprit, text);
  }
  if (culprit == watch->rank) { /* its own fate comes first; then those that closed their connections are lost to it */
    int is_known = atomic_load_explicit(&watch->failed, memory_order_relaxed);
    if (is_known && link->state == TT_CONTROL_ENDED) tt_lost_set(watch, link->peer, TT_LOST_CONNECTION);
    if (is_known) return;
    tt_cut_off_text(watch, text);
  } else if (link->state == TT_CONTROL_ENDED) tt_lost_set(watch, culprit, TT_LOST_CONNECTION);
  else host_lose(watch, link, culprit);
  tt_record_found(watch, tuttiRemoteError, culprit, text);
}

/* Alone, this host counts no silence against a peer, but looks whether the network is there all the same. */
static void knock(struct tt_watch *watch, struct tt_control_link *link)
{
  uint64_t heard_ns = link->heard_ns < watch->control.signs_ns ? link->heard_ns : watch->control.signs_ns;
  int is_silent = is_foreign(watch, link->peer) && !tt_page_gone(&watch->page, link->peer) &&
                  !tt_is_lost(watch, link->peer);
  tt_knock_tick(link, is_silent ? watch->clock_ns - heard_ns : 0);
}

void tt_control_tick(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  if (!control->nlinks || !watch->own) return;
  count_signs(watch);
  int show = atomic_exchange_explicit(&control->show, 0, memory_order_relaxed);
  for (int i = 0; i < control->nlinks; i++) {
    struct tt_control_link *link = &control->links[i];
    tt_link_flush(link);
    if (show || watch->now_ns - link->beat_ns >= BEAT_NS) tt_link_beat(link);
    knock(watch, link);
    judge(watch, link);
  }
  tt_mend_tick(watch);
  tt_control_tell(watch);
}

void tt_control_destroy(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  if (watch->ip_listener && control->nlinks) tt_listener_dismiss(watch->ip_listener, watch);
  for (int i = 0; i < control->nlinks; i++) tt_link_destroy(&control->links[i]);
  if (control->nlinks) tt_wipe(control->links, (size_t)control->nlinks * sizeof *control->links);
  tt_free(control->links);
  tt_free(control->memory);
  tt_free(control->words);
  control->words = NULL;
  control->links = NULL;
  control->nlinks = 0;
}
