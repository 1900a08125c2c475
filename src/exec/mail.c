/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames: messages of one length for which no rank waits. They have the links of lane 0 to themselves. */
#include <string.h>

#include "base/copy.h"
#include "exec/private.h"

/* One direction of one link. */
struct way {
  struct tt_call call; /* of the present frame: the one that is under way, or was last */
  struct tt_head head; /* likewise */
  size_t done;         /* bytes of the present frame that were moved */
  int is_begun;        /* 1: the present frame is under way or, in, has arrived and was not taken */
  char *data;          /* out: a ring of TT_MAIL_FRAMES frames; in: one frame */
  int first, n;        /* out: n frames wait in the ring, the oldest at `first` */
};

struct mail_peer {
  int32_t peer;
  struct tt_link *link; /* NULL: not open yet */
  int is_lost;          /* 1: the link is broken. The rank may have left in good order */
  struct way in, out;
};

struct tt_mail {
  struct tt_exec *exec;
  size_t bytes;
  int npeers, turn;         /* turn: the peer that the next glance looks at */
  struct mail_peer *peers;
  char *data;               /* of all peers: a frame in, and the ring out */
};

tuttiResult_t tt_mail_create(struct tt_mail **out, struct tt_exec *exec, const int32_t *peers, int npeers,
                             size_t bytes)
{
  struct tt_mail *mail = tt_alloc(1, sizeof *mail);
  size_t each = (TT_MAIL_FRAMES + 1) * bytes;
  if (mail) *mail = (struct tt_mail){.exec = exec, .bytes = bytes, .npeers = npeers};
  if (mail) mail->peers = tt_alloc((size_t)npeers, sizeof *mail->peers);
  if (mail) mail->data = tt_alloc((size_t)npeers, each);
  if (!mail || !mail->peers || !mail->data) {
    tt_mail_destroy(mail);
    return tt_fail(tuttiSystemError, "out of memory for frames of %zu bytes to %d ranks", bytes, npeers);
  }
  for (int p = 0; p < npeers; p++) {
    char *data = mail->data + (size_t)p * each;
    mail->peers[p] = (struct mail_peer){.peer = peers[p], .in.data = data, .out.data = data + bytes};
  }
  *out = mail;
  return tuttiSuccess;
}

void tt_mail_destroy(struct tt_mail *mail)
{
  if (!mail) return;
  tt_free(mail->peers);
  tt_free(mail->data);
  tt_free(mail);
}

tuttiResult_t tt_mail_open(struct tt_mail *mail)
{
  tuttiResult_t all = tuttiSuccess;
  for (int p = 0; p < mail->npeers; p++) {
    struct mail_peer *peer = &mail->peers[p];
    tuttiResult_t result = peer->link ? tuttiSuccess : tt_exec_link(mail->exec, peer->peer, 0, &peer->link);
    if (result != tuttiSuccess) peer->link = NULL;
    if (result == tuttiInProgress) all = result;
    else if (result != tuttiSuccess) return tt_exec_refused(mail->exec, result, peer->peer, 0);
  }
  return all;
}

/* Begins the next frame of this direction. Frames are numbered, so that a lost one is noticed. */
static void way_begin(const struct tt_mail *mail, struct way *way)
{
  way->call = (struct tt_call){
      .op = way->call.op + 1, .count = mail->bytes, .collective = TT_PAIRS, .type = tuttiUint8, .root = -1};
  way->head = (struct tt_head){tt_call_word(&way->call), mail->bytes, &way->call, 0};
  way->done = 0;
  way->is_begun = 1;
}

/* Handles the error of a link function. A broken link is no error yet. */
static tuttiResult_t link_failed(const struct tt_mail *mail, struct mail_peer *peer, ssize_t code)
{
  const struct tt_link *link = peer->link;
  peer->is_lost = code == TT_LINK_BROKEN;
  if (peer->is_lost) return tuttiSuccess;
  return tt_watch_mismatch(mail->exec->watch, &peer->in.call, peer->peer, link->seen_word,
                           link->seen_call.op ? &link->seen_call : NULL);
}

tuttiResult_t tt_mail_post(struct tt_mail *mail, int p, const void *data)
{
  struct way *out = &mail->peers[p].out;
  if (out->n == TT_MAIL_FRAMES)
    return tt_fail(tuttiInternalError, "%d frames to rank %d wait to be sent", out->n, (int)mail->peers[p].peer);
  memcpy(out->data + (size_t)((out->first + out->n++) % TT_MAIL_FRAMES) * mail->bytes, data, mail->bytes);
  return tuttiSuccess;
}

/* Sends as much of the posted frames as the link takes. */
static tuttiResult_t out_move(struct tt_mail *mail, struct mail_peer *peer, int *moved)
{
  struct way *out = &peer->out;
  while (out->n) {
    if (!out->is_begun) {
      way_begin(mail, out);
      peer->link->ops->send_begin(peer->link, &out->head);
    }
    const char *data = out->data + (size_t)out->first * mail->bytes;
    ssize_t n = peer->link->ops->send(peer->link, data + out->done, mail->bytes - out->done);
    if (n < 0) return link_failed(mail, peer, n);
    if (n == 0) break;
    *moved = 1;
    out->done += (size_t)n;
    if (out->done < mail->bytes) continue;
    out->is_begun = 0;
    out->first = (out->first + 1) % TT_MAIL_FRAMES;
    out->n--;
  }
  return tuttiSuccess;
}

/* Receives up to the end of the present frame. */
static tuttiResult_t in_move(struct tt_mail *mail, struct mail_peer *peer, int *moved)
{
  struct way *in = &peer->in;
  if (!in->is_begun) {
    way_begin(mail, in);
    peer->link->ops->recv_begin(peer->link, &in->head);
  }
  while (in->done < mail->bytes) {
    const void *data;
    ssize_t n = peer->link->ops->peek(peer->link, &data, 8);
    if (n < 0) return link_failed(mail, peer, n);
    if (n == 0) break;
    tt_memcpy(in->data + in->done, data, (size_t)n);
    if (peer->link->ops->consume(peer->link, (size_t)n) < 0) return link_failed(mail, peer, TT_LINK_BROKEN);
    in->done += (size_t)n;
    *moved = 1;
  }
  return tuttiSuccess;
}

static tuttiResult_t peer_move(struct tt_mail *mail, struct mail_peer *peer, int waits, int *moved)
{
  tuttiResult_t result = tuttiSuccess;
  if (!peer->is_lost) result = out_move(mail, peer, moved);
  if (!peer->is_lost && result == tuttiSuccess) result = in_move(mail, peer, moved);
  if (!peer->is_lost || !waits) return result;
  /* It may have ended this round, which waits for a third rank: then its frames have come. If it has not, who looks for
   * its call finds that. */
  if (tt_watch_left(mail->exec->watch, peer->peer) == TT_LEFT_DONE) return result;
  return tt_watch_suspect(mail->exec->watch, peer->peer, 0, peer->link->why);
}

tuttiResult_t tt_mail_poll(struct tt_mail *mail, int waits, int *moved)
{
  tuttiResult_t result = tuttiSuccess;
  for (int p = 0; p < mail->npeers && result == tuttiSuccess; p++)
    result = peer_move(mail, &mail->peers[p], waits, moved);
  return result;
}

tuttiResult_t tt_mail_glance(struct tt_mail *mail, int waits, int *moved)
{
  if (!mail->npeers) return tuttiSuccess;
  struct mail_peer *peer = &mail->peers[mail->turn];
  mail->turn = mail->turn + 1 < mail->npeers ? mail->turn + 1 : 0;
  return peer_move(mail, peer, waits, moved);
}

int tt_mail_is_sent(const struct tt_mail *mail)
{
  int n = 0;
  for (int p = 0; p < mail->npeers; p++) n += mail->peers[p].is_lost ? 0 : mail->peers[p].out.n;
  return n == 0;
}

const void *tt_mail_take(struct tt_mail *mail, int *p)
{
  for (*p = 0; *p < mail->npeers; ++*p) {
    struct way *in = &mail->peers[*p].in;
    if (!in->is_begun || in->done < mail->bytes) continue;
    in->is_begun = 0;
    return in->data;
  }
  return NULL;
}
