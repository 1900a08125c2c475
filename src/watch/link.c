/* SPDX-License-Identifier: BSD-3-Clause */
/* One control link: frames out, frames in, and its two ends. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "watch/private.h"

/* ---- sending ---- */

void tt_link_flush(struct tt_control_link *link)
{
  while (link->watcher.fd >= 0 && link->out_begin < link->out_end) {
    ssize_t n = send(link->watcher.fd, link->out + link->out_begin, link->out_end - link->out_begin,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      link->out_begin += (size_t)n;
      continue;
    }
    if (errno == EINTR) continue;
    /* A broken connection is noticed by reading, once the peer's last frames are read. */
    return;
  }
  link->out_begin = link->out_end = 0;
}

/* Returns 0 if there is no room. */
int tt_link_send(struct tt_control_link *link, const struct tt_frame *frame)
{
  if (link->state != TT_CONTROL_UP) return 0;
  if (link->out_size - link->out_end < TT_FRAME_MAX_BYTES) {
    memmove(link->out, link->out + link->out_begin, link->out_end - link->out_begin);
    link->out_end -= link->out_begin;
    link->out_begin = 0;
  }
  if (link->out_size - link->out_end < TT_FRAME_MAX_BYTES) return 0;
  link->out_end += tt_frame_encode(frame, &link->session.out, link->out + link->out_end);
  tt_link_flush(link);
  return 1;
}

void tt_link_beat(struct tt_control_link *link)
{
  struct tt_watch *watch = link->watch;
  struct tt_frame frame = {.type = TT_FRAME_BEAT, .rank = watch->rank};
  if (link->out_begin < link->out_end) return; /* the socket is full: no beat is better than a queue of them */
  frame.beat.finished = tt_rank_slot_finished(watch->own);
  if (!tt_rank_slot_latest(watch->own, &frame.beat.call)) frame.beat.call.op = 0;
  link->beat_ns = watch->now_ns;
  tt_link_send(link, &frame);
  frame = (struct tt_frame){.type = TT_FRAME_TARGET, .rank = watch->rank};
  int has_target = tt_rank_slot_target_get(watch->own, &frame.target);
  if (has_target || link->target_told) tt_link_send(link, &frame);
  link->target_told = has_target;
}

/* ---- the end of a link ---- */

void tt_link_close(struct tt_control_link *link)
{
  if (link->watcher.fd < 0) return;
  if (link->state == TT_CONTROL_UP) tt_watcher_remove(&link->watcher);
  close(link->watcher.fd);
  link->watcher.fd = -1;
}

void tt_link_end(struct tt_control_link *link, const char *how)
{
  struct tt_watch *watch = link->watch;
  tt_link_close(link);
  tt_knock_end(link);
  tt_dialer_destroy(link->dialer);
  link->dialer = NULL;
  link->ended_ns = watch->clock_ns;
  snprintf(link->how, sizeof link->how, "%s", how);
  /* If our answer was lost on the way, the dialer gives up and dials again. */
  int again = !watch->ready && !link->spoke && watch->rank > link->peer;
  link->state = again ? TT_CONTROL_AWAITED : TT_CONTROL_ENDED;
}

/* ---- receiving ---- */

static void take_beat(struct tt_control_link *link, const struct tt_frame *frame)
{
  struct tt_watch *watch = link->watch;
  const struct tt_call *theirs = &frame->beat.call;
  struct tt_call ours;
  if (!watch->peers[link->peer].local) tt_page_hear(&watch->page, link->peer, theirs->op, frame->beat.finished);
  if (!link->slot) return;
  if (theirs->op > tt_rank_slot_entered(link->slot)) tt_rank_slot_publish(link->slot, theirs);
  tt_rank_slot_finish(link->slot, frame->beat.finished);
  /* We may have left that call long ago, without noticing that it differed. */
  if (tt_rank_slot_call(watch->own, theirs->op, &ours) && tt_calls_differ(&ours, theirs)) {
    char text[TT_SENTENCE_BYTES];
    tt_differ_text(watch, &ours, link->peer, theirs, text);
    tt_watch_fail(watch, tuttiInvalidUsage, link->peer, tt_current_op(watch), text);
  }
}

static void take_record(struct tt_control_link *link, const struct tt_frame *frame)
{
  link->record_told = 1; /* the peer need not get the record back */
  if (tt_spares(link->watch) && tt_is_lost(link->watch, frame->record.detector)) return; /* the others go on */
  if (tt_record_set(link->watch, &frame->record))
    tt_log(TT_LOG_INFO, "learned of a failure from rank %d: %s", frame->record.detector,
           frame->record.sentence);
}

void tt_link_hear(struct tt_control_link *link)
{
  struct tt_watch *watch = link->watch;
  link->heard_ns = watch->clock_ns;
  if (!watch->peers[link->peer].local) atomic_fetch_add_explicit(&watch->own->heard, 1, memory_order_relaxed);
}

/* Returns 0 if the frame makes no sense. */
static int take(struct tt_control_link *link, const struct tt_frame *frame)
{
  struct tt_watch *watch = link->watch;
  link->spoke = 1;
  tt_link_hear(link);
  switch (frame->type) {
  case TT_FRAME_BEAT:
    if (frame->rank != link->peer) return 0;
    take_beat(link, frame);
    return 1;
  case TT_FRAME_TARGET:
    if (frame->rank != link->peer) return 0;
    if (link->slot) tt_rank_slot_target_set(link->slot, &frame->target);
    return 1;
  case TT_FRAME_GONE:
    if (frame->rank == watch->rank) return 1; /* our own farewell came round */
    tt_page_leave(&watch->page, frame->rank, frame->gone);
    tt_control_tell(watch);
    return 1;
  case TT_FRAME_VOUCH:
    tt_control_pass(watch, frame->rank, frame->stamp);
    return 1;
  case TT_FRAME_LOST:
    if (tt_mend_ignores(watch, link->peer)) return 1;
    if (frame->rank != watch->rank || tt_spares(watch)) tt_page_lose(&watch->page, frame->rank, frame->lost);
    tt_control_tell(watch);
    return 1;
  case TT_FRAME_WORDS:
    if (frame->rank != watch->rank) tt_control_words(watch, frame, link);
    return 1;
  case TT_FRAME_NOTICE:
    if (frame->rank != watch->rank) tt_notice_take(watch, frame->rank, &frame->notice);
    return 1;
  }
  take_record(link, frame);
  return 1;
}

/* Takes all frames in the bytes. Returns a phrase that says what is wrong with them, or NULL. */
static const char *digest(struct tt_control_link *link, const uint8_t *data, size_t len, int *is_damaged)
{
  struct tt_frame frame;
  int step;
  while ((step = tt_frame_step(&link->reader, &link->session.in, &data, &len, link->watch->nranks, &frame)) == 1)
    if (!take(link, &frame)) return "it sent control frames that make no sense";
  *is_damaged = step == -2;
  if (step == -2) return "a control frame of it came damaged, twice or not in its turn (wrong tag)";
  return step ? "what it sent are no control frames" : NULL;
}

/* Nothing that still comes on the link can be trusted, but frames that we send still arrive. */
static void end_by(struct tt_control_link *link, const char *wrong, int is_damaged)
{
  struct tt_watch *watch = link->watch;
  char text[TT_SENTENCE_BYTES];
  if (!is_damaged || !watch->ready) {
    tt_link_end(link, wrong);
    return;
  }
  tt_watcher_remove(&link->watcher);
  tt_damaged_text(watch, link->peer, text);
  tt_watch_fail(watch, tuttiRemoteError, link->peer, tt_current_op(watch), text);
}

static void link_ready(struct tt_watcher *watcher, uint32_t events)
{
  struct tt_control_link *link = (struct tt_control_link *)watcher;
  uint8_t bytes[4096];
  (void)events;
  for (int round = 0; round < 8; round++) {
    ssize_t n = recv(watcher->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) {
      tt_link_end(link, n == 0 ? "its control connection was closed without a farewell" : strerror(errno));
      return;
    }
    int is_damaged = 0;
    const char *wrong = digest(link, bytes, (size_t)n, &is_damaged);
    if (wrong) {
      end_by(link, wrong, is_damaged);
      return;
    }
  }
}

/* ---- the begin of a link ---- */

tuttiResult_t tt_link_create(struct tt_watch *watch, struct tt_control_link *link, int peer, uint64_t deadline_ns)
{
  link->watch = watch;
  link->peer = peer;
  link->watcher.fd = link->knock = -1;
  link->watcher.ready = link_ready;
  link->out_size = (size_t)(2 * watch->nranks + 4) * TT_FRAME_BYTES + 4 * TT_FRAME_MAX_BYTES;
  link->out = tt_alloc(link->out_size, 1);
  if (!link->out) return tt_fail(tuttiSystemError, "no memory for a control link (%zu bytes)", link->out_size);
  if (link->slot && !watch->peers[peer].local) watch->peers[peer].slot = link->slot;
  if (peer < watch->rank) return tuttiSuccess;
  struct tt_hello hello = {
      .kind = TT_HELLO_CONTROL, .src = (uint32_t)watch->rank, .dst = (uint32_t)peer};
  return tt_dialer_start(&link->dialer, &watch->members[peer].control, &watch->credentials, &hello, deadline_ns);
}

tuttiResult_t tt_link_begin(struct tt_control_link *link, int fd)
{
  struct tt_watch *watch = link->watch;
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch->control.patience_ns = tt_socket_endure(fd, (int64_t)(watch->limits.unreachable_ns / 1000000u));
  link->watcher.fd = fd;
  link->heard_ns = watch->clock_ns;
  link->reader.have = link->out_begin = link->out_end = 0;
  tuttiResult_t result = tt_watcher_add(&link->watcher, EPOLLIN);
  if (result != tuttiSuccess) return result;
  link->state = TT_CONTROL_UP;
  link->record_told = 0;
  for (int rank = 0; rank < watch->nranks; rank++) {
    if (watch->control.words) watch->control.words[rank].told[link - watch->control.links] = 0;
    uint64_t gone = tt_page_gone(&watch->page, rank), lost = tt_page_lost(&watch->page, rank);
    struct tt_frame frame = {.type = TT_FRAME_GONE, .rank = rank, .gone = gone};
    if (gone && rank != link->peer) tt_link_send(link, &frame);
    frame = (struct tt_frame){.type = TT_FRAME_LOST, .rank = rank, .lost = lost};
    if (lost && rank != link->peer) tt_link_send(link, &frame);
  }
  tt_link_beat(link);
  tt_control_tell(watch);
  return tuttiSuccess;
}


void tt_link_destroy(struct tt_control_link *link)
{
  uint8_t bytes[1024];
  int fd = link->watcher.fd;
  tt_dialer_destroy(link->dialer);
  tt_knock_end(link);
  if (fd >= 0 && link->state == TT_CONTROL_UP) {
    tt_link_flush(link);
    /* Closing a socket with unread bytes would reset the connection, and the farewell could be lost. */
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 64 && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0; i++) continue;
  }
  tt_link_close(link);
  tt_free(link->out);
}
