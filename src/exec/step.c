/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves one step: combines sources (spans and arriving messages) into a span, or sends a span to one or several
 * peers. */
#include <string.h>

#include "base/copy.h"
#include "exec/private.h"

/* Finds a span in IN or OUT. The segment's parts of all shares form one line of bytes, and a span may wrap from its end
 * to its beginning. */
static char *share_look(const struct tt_run *run, const struct lane *lane, struct tt_operand operand, size_t done,
                        size_t *n)
{
  const struct tt_plan *plan = run->plan;
  size_t part = lane->count * run->element, total = part * (size_t)plan->nshares;
  size_t at = block_start(run, lane, operand.at) * run->element + done, share = 0;
  int is_in = operand.place == TT_IN;
  if (at >= total) at -= total;
  size_t left = total - at;
  if (plan->nshares > 1) {
    share = at / part;
    at -= share * part;
    if (run->nsegments > 1) left = part - at;
    share -= (size_t)(is_in ? plan->in_share : plan->out_share);
  }
  if (left < *n) *n = left;
  return (is_in ? lane->in + share * lane->in_stride : lane->out + share * lane->out_stride) +
         (at << run->numbers.is_wide);
}

/* Returns the distance between slots. If each rank has a share of one block, spans are put together and taken apart in
 * scratch, so slots have no gaps. */
static size_t slot_stride(const struct tt_run *run, const struct lane *lane)
{
  int is_full = run->plan->nshares > 1 && run->plan->schedule.shape.nblocks == 1;
  return is_full ? lane->count * run->element : run->slot_bytes;
}

char *tt_span_look(const struct tt_run *run, const struct lane *lane, struct tt_operand operand, size_t done,
                   size_t *n)
{
  if (run->binding->shares) return tt_shares_look(run, lane, operand, done, n);
  if (operand.place == TT_SCRATCH) return lane->scratch + (size_t)operand.at * slot_stride(run, lane) + done;
  return share_look(run, lane, operand, done, n);
}

/* Returns the span that a step writes or, if it has no dst, sends. */
static struct tt_operand span_of(const struct tt_run *run, const struct tt_step *step)
{
  return step->dst.place != TT_NOWHERE ? step->dst : run->plan->schedule.operands[step->src];
}

/* True if the step moves bytes as they lie: nothing that it touches is converted. */
static int moves_bytes(const struct tt_run *run, int32_t index)
{
  return !run->numbers.converts || !(run->numbers.converts & run->plan->steps[index].touches);
}

void tt_step_begin(struct tt_run *run, struct lane *lane, int32_t index, size_t bytes)
{
  const struct tt_plan *plan = run->plan;
  const struct tt_step *step = &plan->schedule.steps[index];
  struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  if (step_is_plain(run, index)) cursor->at = plain_look(run, lane, span_of(run, step));
  else {
    size_t whole = bytes;
    struct tt_operand span = span_of(run, step);
    cursor->at = tt_span_look(run, lane, span, 0, &whole);
    if (whole < bytes || (run->numbers.is_wide && span.place != TT_SCRATCH)) cursor->at = NULL;
  }
  cursor->len = run->head.len = bytes;
  run->head.same = step->nto > 1 ? ++run->exec->same : 0;
  cursor->done = cursor->staged = 0;
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    if (plan->source_link[k] < 0) continue;
    struct tt_link *link = lane->links[plan->source_link[k]];
    link->ops->recv_begin(link, &run->head);
  }
  for (int32_t k = step->to; k < step->to + step->nto; k++) {
    struct tt_link *link = lane->links[plan->peer_link[k]];
    lane->sent[k] = 0;
    link->ops->send_begin(link, &run->head);
  }
}

/* Handles the error of a link function: a mismatch is recorded at once, and run.c examines a broken link. */
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

/* Offers the n bytes at `data` to peer k of the schedule, and counts in lane->sent the bytes that its link takes. */
static enum tried hand_over(struct tt_run *run, struct lane *lane, int32_t k, const char *data, size_t n,
                            tuttiResult_t *result)
{
  struct tt_link *link = lane->links[run->plan->peer_link[k]];
  ssize_t taken = link->ops->send(link, data, n);
  if (taken < 0) return link_failed(run, link, taken, result);
  lane->sent[k] += (size_t)taken;
  return taken ? TRIED_MOVED : TRIED_NOTHING;
}

/* Returns the number of bytes that every peer of the step has got. */
static size_t sent_to_all(const struct lane *lane, const struct tt_step *step, size_t len)
{
  for (int32_t k = step->to; k < step->to + step->nto; k++)
    if (lane->sent[k] < len) len = lane->sent[k];
  return len;
}

/* Appends the next piece of the span that is sent to the bounce buffer, converted. */
static tuttiResult_t stage(struct tt_run *run, struct lane *lane, int32_t index, char *bounce)
{
  struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  size_t at = cursor->done + cursor->staged, n = cursor->len - at;
  if (n > BOUNCE_BYTES - cursor->staged) n = BOUNCE_BYTES - cursor->staged;
  const struct tt_operand from = run->plan->schedule.operands[run->plan->schedule.steps[index].src];
  const void *data = tt_span_look(run, lane, from, at, &n);
  struct tt_reduce_arg arg;
  tt_numbers_arg(run, index, &arg);
  const struct tt_reduction what = {run->numbers.redop, run->numbers.type, bounce + cursor->staged, &data, 1,
                                    n / run->element,   &arg,              run->looks};
  cursor->staged += n;
  return tt_reduce_run(&what);
}

/* Fills the bounce buffer, piece by piece, because a link may take nothing before it is offered more than a small
 * piece. */
static tuttiResult_t stage_all(struct tt_run *run, struct lane *lane, int32_t index)
{
  const struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  char *bounce = lane->bounce + (size_t)(index % TT_WINDOW) * BOUNCE_BYTES;
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess && cursor->staged < BOUNCE_BYTES && cursor->done + cursor->staged < cursor->len)
    result = stage(run, lane, index, bounce);
  return result;
}

/* Sends through the bounce buffer a span that must not be sent as it lies. cursor->done: bytes sent from earlier fills
 * of the buffer; cursor->staged: bytes of this fill. */
static enum tried send_staged(struct tt_run *run, struct lane *lane, int32_t index, tuttiResult_t *result)
{
  const struct tt_step *step = &run->plan->schedule.steps[index];
  struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  const char *bounce = lane->bounce + (size_t)(index % TT_WINDOW) * BOUNCE_BYTES;
  enum tried tried = TRIED_NOTHING;
  if (sent_to_all(lane, step, cursor->len) == cursor->done + cursor->staged) { /* there is room for the next fill */
    cursor->done += cursor->staged;
    cursor->staged = 0;
  }
  *result = stage_all(run, lane, index);
  if (*result != tuttiSuccess) return TRIED_ERROR;
  for (int32_t k = step->to; k < step->to + step->nto; k++) {
    size_t at = lane->sent[k] - cursor->done;
    if (at == cursor->staged) continue;
    enum tried one = hand_over(run, lane, k, bounce + at, cursor->staged - at, result);
    if (one == TRIED_ERROR) return one;
    if (one == TRIED_MOVED) tried = one;
  }
  return sent_to_all(lane, step, cursor->len) == cursor->len ? TRIED_FINISHED : tried;
}

#define GATHER_BYTES 512

/* Returns the bytes that follow byte `sent` of the span, *n of them: where they lie or, if only a few lie there in one
 * piece, gathered in `buffer` of GATHER_BYTES. */
static const char *send_look(const struct tt_run *run, const struct lane *lane, struct tt_operand from, size_t sent,
                             size_t *n, char *buffer)
{
  size_t left = *n, filled = 0;
  const char *data = tt_span_look(run, lane, from, sent, n);
  if (*n == left || *n >= GATHER_BYTES) return data;
  size_t wanted = left < GATHER_BYTES ? left : GATHER_BYTES;
  while (filled < wanted) {
    size_t piece = wanted - filled;
    data = tt_span_look(run, lane, from, sent + filled, &piece);
    memcpy(buffer + filled, data, piece);
    filled += piece;
  }
  *n = filled;
  return buffer;
}

static enum tried send_plain(struct tt_run *run, struct lane *lane, int32_t index, tuttiResult_t *result)
{
  const struct tt_step *step = &run->plan->schedule.steps[index];
  const struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  enum tried tried = TRIED_NOTHING;
  for (int32_t k = step->to; k < step->to + step->nto; k++) {
    char buffer[GATHER_BYTES];
    size_t sent = lane->sent[k], n = cursor->len - sent;
    if (!n) continue;
    const char *data = send_look(run, lane, run->plan->schedule.operands[step->src], sent, &n, buffer);
    enum tried one = hand_over(run, lane, k, data, n, result);
    if (one == TRIED_ERROR) return one;
    if (one == TRIED_MOVED) tried = one;
  }
  return sent_to_all(lane, step, cursor->len) == cursor->len ? TRIED_FINISHED : tried;
}

/* Moves a step by its shortcut: one link. */
static enum tried move_bytes(struct tt_run *run, struct lane *lane, int32_t index, tuttiResult_t *result)
{
  struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  struct tt_link *link = lane->links[run->plan->steps[index].link];
  size_t left = cursor->len - cursor->done;
  ssize_t n = run->plan->steps[index].action == ACTION_SEND ? link->ops->send(link, cursor->at + cursor->done, left)
                                                       : link->ops->recv(link, cursor->at + cursor->done, left);
  if (n < 0) return link_failed(run, link, n, result);
  cursor->done += (size_t)n;
  if (cursor->done == cursor->len) return TRIED_FINISHED;
  return n ? TRIED_MOVED : TRIED_NOTHING;
}

/* Finds dst and the sources of a step at byte `done`. Returns how many bytes of all of them lie there in one piece, 0
 * if a message is missing, or the error of a link, which is run->broken then. */
static ssize_t sources_look(struct tt_run *run, struct lane *lane, int32_t index, const void **sources, char **dst)
{
  const struct tt_step *step = &run->plan->schedule.steps[index];
  const struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  int plain = step_is_plain(run, index);
  size_t done = cursor->done, n = cursor->len - done;
  *dst = cursor->at ? cursor->at + done : tt_span_look(run, lane, step->dst, done, &n);
  for (int k = 0; k < step->nsrc; k++) {
    int32_t l = run->plan->source_link[step->src + k];
    if (l < 0) {
      struct tt_operand operand = run->plan->schedule.operands[step->src + k];
      sources[k] = plain ? plain_look(run, lane, operand) + done : tt_span_look(run, lane, operand, done, &n);
      continue;
    }
    struct tt_link *link = lane->links[l];
    ssize_t there = link->ops->peek(link, &sources[k], run->element);
    if (there <= 0) {
      run->broken = there < 0 ? link : NULL;
      return there;
    }
    if ((size_t)there < n) n = (size_t)there;
  }
  return (ssize_t)n;
}

/* Releases `len` bytes of each message of a step. Returns the link that failed, or NULL. */
static struct tt_link *sources_consume(struct tt_run *run, struct lane *lane, const struct tt_step *step,
                                       size_t len)
{
  for (int k = 0; k < step->nsrc; k++) {
    int32_t l = run->plan->source_link[step->src + k];
    if (l < 0) continue;
    struct tt_link *link = lane->links[l];
    if (link->ops->consume(link, len) < 0) return link;
  }
  return NULL;
}

/* Combines the next n bytes. */
static tuttiResult_t combine(struct tt_run *run, int32_t index, char *dst, const void **sources, size_t n)
{
  const struct tt_step *step = &run->plan->schedule.steps[index];
  const int computes = run->numbers.computes;
  if (step->nsrc == 1 && !(computes && computes & run->plan->steps[index].touches)) {
    if (dst != sources[0]) tt_memcpy(dst, sources[0], n);
    return tuttiSuccess;
  }
  struct tt_reduction what = {run->numbers.redop, run->numbers.type, dst, sources, step->nsrc,
                              n / run->element,   NULL,              run->looks};
  struct tt_reduce_arg arg;
  if (computes) {
    tt_numbers_arg(run, index, &arg);
    what.arg = &arg;
  }
  return tt_reduce_run(&what);
}

/* Moves one piece of a step with a dst, from its sources to dst. */
static enum tried fill(struct tt_run *run, struct lane *lane, int32_t index, tuttiResult_t *result)
{
  const struct tt_step *step = &run->plan->schedule.steps[index];
  struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  const void *sources[TT_MAX_SOURCES];
  char *dst;
  ssize_t n = sources_look(run, lane, index, sources, &dst);
  if (n < 0) return link_failed(run, run->broken, n, result);
  if (n == 0) return TRIED_NOTHING;
  *result = combine(run, index, dst, sources, (size_t)n);
  if (*result != tuttiSuccess) return TRIED_ERROR;
  struct tt_link *broken = sources_consume(run, lane, step, (size_t)n);
  if (broken) return link_failed(run, broken, TT_LINK_BROKEN, result);
  cursor->done += (size_t)n;
  return TRIED_MOVED;
}

enum tried tt_step_move(struct tt_run *run, struct lane *lane, int32_t index, tuttiResult_t *result)
{
  const struct cursor *cursor = &lane->cursors[index % TT_WINDOW];
  int as_it_lies = moves_bytes(run, index);
  if (as_it_lies && cursor->at && run->plan->steps[index].action != ACTION_GENERAL)
    return move_bytes(run, lane, index, result);
  const struct tt_step *step = &run->plan->schedule.steps[index];
  if (step->dst.place == TT_NOWHERE)
    return as_it_lies ? send_plain(run, lane, index, result) : send_staged(run, lane, index, result);
  enum tried tried = fill(run, lane, index, result);
  return tried != TRIED_ERROR && cursor->done == cursor->len ? TRIED_FINISHED : tried;
}
