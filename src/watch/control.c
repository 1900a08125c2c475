/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/control.h"

#include <string.h>
#include <unistd.h>

#include "watch/private.h"

#define BEAT_NS 100000000u /* period of beats between hosts */

int tt_control_peers(int rank, int nranks, int peers[TT_CONTROL_LINKS])
{
  static const int steps[TT_CONTROL_LINKS] = {1, 2, -1, -2};
  int n = 0;
  for (int i = 0; i < TT_CONTROL_LINKS; i++) {
    int peer = ((rank + steps[i]) % nranks + nranks) % nranks, known = peer == rank;
    for (int j = 0; j < n; j++) known |= peers[j] == peer;
    if (!known) peers[n++] = peer;
  }
  return n;
}

/* ---- what is passed on ---- */

static void tell_gone(struct tt_watch *watch, int rank)
{
  uint64_t gone = tt_board_gone(&watch->board, rank);
  if (!gone || watch->peers[rank].gone_told) return;
  struct tt_frame frame = {.type = TT_FRAME_GONE, .rank = rank, .gone = gone};
  for (int i = 0; i < watch->control.nlinks; i++)
    if (watch->control.links[i].peer != rank) tt_link_send(&watch->control.links[i], &frame);
  watch->peers[rank].gone_told = 1;
}

void tt_control_tell(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  if (!control->nlinks || !watch->own) return;
  for (int rank = 0; rank < watch->nranks; rank++) tell_gone(watch, rank);
  if (!atomic_load_explicit(&watch->failed, memory_order_relaxed)) return;
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
    if (link->peer == rank) link->heard_ns = watch->clock_ns;
    if (link->out_begin == link->out_end) tt_link_send(link, &frame);
  }
}

void tt_control_vouch(struct tt_watch *watch, int rank)
{
  /* All ranks of the host make the same stamp, so that only the first of them is passed on. */
  if (watch->control.nlinks) tt_control_pass(watch, rank, watch->now_ns / (watch->limits.unreachable_ns / 8));
}

/* ---- links ---- */

static void admit(void *owner, const struct tt_hello *hello, int fd)
{
  struct tt_watch *watch = owner;
  for (int i = 0; i < watch->control.nlinks; i++) {
    struct tt_control_link *link = &watch->control.links[i];
    if ((uint32_t)link->peer != hello->src || link->peer > watch->rank || link->spoke) continue;
    tt_link_close(link); /* a second connection before the first one spoke: the dialler tried again */
    link->state = TT_CONTROL_AWAITED;
    link->watcher.fd = fd;
    return;
  }
  close(fd);
}

tuttiResult_t tt_control_create(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  int peers[TT_CONTROL_LINKS];
  if (watch->nlocal == watch->nranks) return tuttiSuccess;
  int n = tt_control_peers(watch->rank, watch->nranks, peers);
  size_t len = (size_t)n * sizeof *control->links;
  control->memory = tt_alloc(len + TT_LINE, 1); /* seats start at cache lines */
  if (!control->memory) return tt_fail(tuttiSystemError, "no memory for control links (%zu bytes)", len);
  control->links = (void *)(((uintptr_t)control->memory + TT_LINE - 1) / TT_LINE * TT_LINE);
  for (int i = 0; i < n; i++) {
    control->nlinks = i + 1;
    tuttiResult_t result = tt_link_create(watch, &control->links[i], peers[i]);
    if (result != tuttiSuccess) return result;
  }
  return tt_door_admit(watch->ip_door, &watch->pass, TT_HELLO_CONTROL, (uint32_t)watch->rank, admit, watch);
}

/* One link of the set-up a step further. */
static tuttiResult_t advance(struct tt_control_link *link)
{
  int fd = link->watcher.fd;
  if (link->state != TT_CONTROL_AWAITED) return tuttiSuccess;
  if (link->dial) {
    tuttiResult_t result = tt_dial_poll(link->dial, &fd);
    if (result == tuttiInProgress) return result;
    if (result != tuttiSuccess) return tt_setup_fail(link->watch, result, link->peer, "no control link to");
    tt_dial_destroy(link->dial);
    link->dial = NULL;
  }
  return fd < 0 ? tuttiInProgress : tt_link_begin(link, fd);
}

tuttiResult_t tt_control_poll(struct tt_watch *watch)
{
  tuttiResult_t all = tuttiSuccess;
  for (int i = 0; i < watch->control.nlinks; i++) {
    tuttiResult_t result = advance(&watch->control.links[i]);
    if (result != tuttiSuccess && result != tuttiInProgress) return result;
    if (result == tuttiInProgress) all = result;
  }
  return all;
}

static void judge(struct tt_watch *watch, struct tt_control_link *link)
{
  char text[TT_SENTENCE_BYTES];
  if (link->state == TT_CONTROL_AWAITED || tt_board_gone(&watch->board, link->peer)) return;
  if (link->state == TT_CONTROL_ENDED) {
    if (watch->clock_ns - link->ended_ns < TT_GRACE_NS) return;
    tt_lost_text(watch, link->peer, link->how, text);
  } else {
    /* Before its first frame a rank may still be waiting for its own start-up. */
    if (!link->spoke && watch->now_ns < watch->deadline_ns) return;
    if (watch->clock_ns - link->heard_ns < watch->limits.unreachable_ns) return;
    tt_unreachable_text(watch, link->peer, text);
  }
  tt_record_found(watch, tuttiRemoteError, link->peer, text);
}

void tt_control_tick(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  if (!control->nlinks || !watch->own) return;
  int show = atomic_exchange_explicit(&control->show, 0, memory_order_relaxed);
  for (int i = 0; i < control->nlinks; i++) {
    struct tt_control_link *link = &control->links[i];
    tt_link_flush(link);
    if (show || watch->now_ns - link->beat_ns >= BEAT_NS) tt_link_beat(link);
    if (!atomic_load_explicit(&watch->failed, memory_order_relaxed)) judge(watch, link);
  }
  tt_control_tell(watch);
}

void tt_control_destroy(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  if (watch->ip_door && control->nlinks) tt_door_dismiss(watch->ip_door, watch);
  for (int i = 0; i < control->nlinks; i++) {
    tt_dial_destroy(control->links[i].dial);
    tt_link_destroy(&control->links[i]);
  }
  tt_free(control->memory);
  control->nlinks = 0;
}
