/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving one step: sources from spans and arriving messages combined into a span, or a span sent to
 * one or several peers. */
#include <string.h>

#include "exec/internal.h"

static char *place(const struct tt_run *run, const struct strand *strand, const struct tt_operand *operand)
{
  size_t block = (size_t)operand->at;
  switch (operand->place) {
  case TT_IN: return (char *)run->binding->in + (strand->start + step_start(strand, operand->at)) * run->element;
  case TT_OUT: return (char *)run->binding->out + (strand->start + step_start(strand, operand->at)) * run->element;
  case TT_SCRATCH: return strand->scratch + block * run->slot_bytes;
  default: return NULL;
  }
}

void tt_step_begin(struct tt_run *run, struct strand *strand, int32_t index, size_t bytes)
{
  const struct tt_plan *plan = run->plan;
  const struct tt_step *step = &plan->schedule.steps[index];
  struct cursor *cursor = &strand->cursors[index % TT_WINDOW];
  int keeps = step->dst.place != TT_NOWHERE;
  cursor->at = place(run, strand, keeps ? &step->dst : &plan->schedule.operands[step->src]);
  cursor->len = run->head.len = bytes;
  cursor->done = cursor->pending = 0;
  cursor->ticket = 0;
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    if (plan->source_link[k] < 0) continue;
    struct tt_link *link = strand->links[plan->source_link[k]];
    link->ops->recv_begin(link, &run->head);
  }
  for (int32_t k = step->to; k < step->to + step->nto; k++) {
    struct tt_link *link = strand->links[plan->peer_link[k]];
    strand->sent[k] = 0;
    link->ops->send_begin(link, &run->head);
  }
}

/* A link function failed: a mismatch is recorded at once, a broken link is looked into by run.c. */
static enum tried link_failed(struct tt_run *run, struct tt_link *link, ssize_t code, tuttiResult_t *result)
{
  if (code == TT_LINK_MISMATCH) {
    const struct tt_call *theirs = link->seen_call.op ? &link->seen_call : NULL;
    *result = tt_watch_mismatch(run->exec->watch, &run->binding->call, link->peer, link->seen_word, theirs);
    return TRIED_ERROR;
  }
  run->broken = link;
  *result = tuttiInProgress;
  return TRIED_ERROR;
}

/* What lies ready to be sent: bytes [base, ready) of the message, at `data`. */
struct piece {
  const char *data;
  size_t base, ready;
};

/* Offers the piece to every peer of the step that has not got it. */
static enum tried offer(struct tt_run *run, struct strand *strand, const struct tt_step *step, struct piece piece,
                        tuttiResult_t *result)
{
  enum tried tried = TRIED_NOTHING;
  for (int32_t k = step->to; k < step->to + step->nto; k++) {
    size_t *sent = &strand->sent[k];
    if (*sent >= piece.ready) continue;
    struct tt_link *link = strand->links[run->plan->peer_link[k]];
    ssize_t n = link->ops->send(link, piece.data + (*sent - piece.base), piece.ready - *sent);
    if (n < 0) return link_failed(run, link, n, result);
    if (n > 0) tried = TRIED_MOVED;
    *sent += (size_t)n;
  }
  return tried;
}

/* Bytes that every peer of the step has got. */
static size_t sent_to_all(const struct strand *strand, const struct tt_step *step, size_t len)
{
  for (int32_t k = step->to; k < step->to + step->nto; k++)
    if (strand->sent[k] < len) len = strand->sent[k];
  return len;
}

/* Device work under way: 1 when it is done (or there was none), 0 if not yet, -1 on error. */
static int ticket_done(struct tt_run *run, struct cursor *cursor, tuttiResult_t *result)
{
  if (!cursor->ticket) return 1;
  tuttiResult_t polled = run->device->poll(run->device, cursor->ticket);
  if (polled == tuttiInProgress) return 0;
  cursor->ticket = 0;
  if (polled == tuttiSuccess) return 1;
  *result = polled;
  return -1;
}

/* A plain send from memory the CPU cannot touch: piece by piece through the bounce buffer. */
static enum tried send_staged(struct tt_run *run, struct strand *strand, int32_t index, tuttiResult_t *result)
{
  const struct tt_step *step = &run->plan->schedule.steps[index];
  struct cursor *cursor = &strand->cursors[index % TT_WINDOW];
  char *bounce = strand->bounce + (size_t)(index % TT_WINDOW) * BOUNCE_BYTES;
  size_t len = cursor->len, sent = sent_to_all(strand, step, len);
  if (sent == len) return TRIED_FINISHED;
  if (sent == cursor->done && !cursor->pending) { /* all that was staged is away: next piece */
    cursor->pending = len - sent < BOUNCE_BYTES ? len - sent : BOUNCE_BYTES;
    *result = run->device->copy(run->device, bounce, cursor->at + sent, cursor->pending, &cursor->ticket);
    if (*result != tuttiSuccess) return TRIED_ERROR;
  }
  if (cursor->pending) {
    int done = ticket_done(run, cursor, result);
    if (done <= 0) return done < 0 ? TRIED_ERROR : TRIED_NOTHING;
    cursor->done += cursor->pending;
    cursor->pending = 0;
  }
  struct piece piece = {bounce, (cursor->done - 1) / BOUNCE_BYTES * BOUNCE_BYTES, cursor->done};
  enum tried tried = offer(run, strand, step, piece, result);
  if (tried != TRIED_ERROR && sent_to_all(strand, step, len) == len) return TRIED_FINISHED;
  return tried;
}

static enum tried send_plain(struct tt_run *run, struct strand *strand, int32_t index, tuttiResult_t *result)
{
  const struct tt_step *step = &run->plan->schedule.steps[index];
  const struct cursor *cursor = &strand->cursors[index % TT_WINDOW];
  enum tried tried = offer(run, strand, step, (struct piece){cursor->at, 0, cursor->len}, result);
  if (tried != TRIED_ERROR && sent_to_all(strand, step, cursor->len) == cursor->len) return TRIED_FINISHED;
  return tried;
}

/* The short ways: one link, host memory. */
static enum tried move_bytes(struct tt_run *run, struct strand *strand, int32_t index, tuttiResult_t *result)
{
  struct cursor *cursor = &strand->cursors[index % TT_WINDOW];
  struct tt_link *link = strand->links[run->plan->action_link[index]];
  size_t left = cursor->len - cursor->done;
  ssize_t n = run->plan->actions[index] == ACTION_SEND ? link->ops->send(link, cursor->at + cursor->done, left)
                                                       : link->ops->recv(link, cursor->at + cursor->done, left);
  if (n < 0) return link_failed(run, link, n, result);
  cursor->done += (size_t)n;
  if (cursor->done == cursor->len) return TRIED_FINISHED;
  return n ? TRIED_MOVED : TRIED_NOTHING;
}

/* Where the sources of a step lie at byte `done`, and how many bytes all of them have. */
static ssize_t sources_look(struct tt_run *run, struct strand *strand, const struct tt_step *step,
                            const struct cursor *cursor, const void **sources)
{
  size_t done = cursor->done, n = cursor->len - done;
  for (int k = 0; k < step->nsrc; k++) {
    int32_t l = run->plan->source_link[step->src + k];
    if (l < 0) {
      sources[k] = place(run, strand, &run->plan->schedule.operands[step->src + k]) + done;
      continue;
    }
    struct tt_link *link = strand->links[l];
    ssize_t there = link->ops->peek(link, &sources[k], run->element);
    if (there <= 0) {
      run->broken = there < 0 ? link : NULL;
      return there;
    }
    if ((size_t)there < n) n = (size_t)there;
  }
  return (ssize_t)n;
}

static void sources_consume(struct tt_run *run, struct strand *strand, const struct tt_step *step, size_t len)
{
  for (int k = 0; k < step->nsrc; k++) {
    int32_t l = run->plan->source_link[step->src + k];
    if (l < 0) continue;
    struct tt_link *link = strand->links[l];
    link->ops->consume(link, len);
  }
}

/* Starts combining the next n bytes. */
static tuttiResult_t combine(struct tt_run *run, const struct tt_step *step, char *dst, const void **sources,
                             struct cursor *cursor)
{
  const struct tt_device *device = run->device;
  size_t n = cursor->pending;
  if (step->nsrc == 1)
    return dst == sources[0] ? tuttiSuccess : device->copy(device, dst, sources[0], n, &cursor->ticket);
  int scaled = step->nsrc - 1;
  while (scaled >= 0 && run->plan->schedule.operands[step->src + scaled].place != TT_IN) scaled--;
  struct tt_reduce_arg arg;
  int redop = run->binding->call.redop, type = run->binding->call.type;
  tt_reduce_arg_make(&arg, redop, type, run->exec->nranks, 0, scaled);
  const struct tt_reduction what = {redop, type, dst, sources, step->nsrc, n / run->element, &arg};
  return device->reduce(device, &what, &cursor->ticket);
}

/* One piece of a step with a dst: sources -> dst. */
static enum tried fill(struct tt_run *run, struct strand *strand, int32_t index, tuttiResult_t *result)
{
  const struct tt_step *step = &run->plan->schedule.steps[index];
  struct cursor *cursor = &strand->cursors[index % TT_WINDOW];
  char *dst = cursor->at + cursor->done;
  if (!cursor->pending) {
    const void *sources[TT_MAX_SOURCES];
    ssize_t n = sources_look(run, strand, step, cursor, sources);
    if (n < 0) return link_failed(run, run->broken, n, result);
    if (n == 0) return TRIED_NOTHING;
    cursor->pending = (size_t)n;
    *result = combine(run, step, dst, sources, cursor);
    if (*result != tuttiSuccess) return TRIED_ERROR;
  }
  int done = ticket_done(run, cursor, result);
  if (done <= 0) return done < 0 ? TRIED_ERROR : TRIED_NOTHING;
  sources_consume(run, strand, step, cursor->pending);
  cursor->done += cursor->pending;
  cursor->pending = 0;
  return TRIED_MOVED;
}

enum tried tt_step_move(struct tt_run *run, struct strand *strand, int32_t index, tuttiResult_t *result)
{
  if (run->plan->actions[index] != ACTION_GENERAL && run->device->host) return move_bytes(run, strand, index, result);
  const struct tt_step *step = &run->plan->schedule.steps[index];
  if (step->dst.place == TT_NOWHERE)
    return run->device->host ? send_plain(run, strand, index, result) : send_staged(run, strand, index, result);
  enum tried tried = fill(run, strand, index, result);
  const struct cursor *cursor = &strand->cursors[index % TT_WINDOW];
  return tried != TRIED_ERROR && cursor->done == cursor->len ? TRIED_FINISHED : tried;
}
