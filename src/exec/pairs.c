/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between pairs of ranks. Sends and receives do not wait for each other, except that those with the same peer
 * and direction go in order. Both ends cut a long message alike into stripes, one for each lane that it uses. */
#include "exec/private.h"

#define STRIPE_BYTES 262144 /* longer messages use more lanes */

/* A part of a message, on one lane. */
struct stripe {
  struct stripe *next; /* on the same link, in the same direction */
  struct tt_link *link;
  char *data;
  size_t len, done;
  int sends, begun, is_chunk; /* is_chunk: of a message that is cut */
  int32_t peer, lane;
  struct tt_call call; /* the message's call; travels with it */
  struct tt_head head;
};

struct pairs {
  struct stripe *stripes;
  int room, n;
  struct stripe **first, **last; /* queues by (lane, peer, direction); the stripe in `first` is under way */
  int32_t *used;                 /* numbers of the queues that are not empty */
  int nused, turn;
  size_t nqueues;
  char empty[2]; /* the byte that a message of 0 bytes carries: received, sent */
  int left[2];   /* queues that are not empty, of receives and of sends */
};

void tt_pairs_destroy(struct pairs *pairs)
{
  if (!pairs) return;
  tt_free(pairs->stripes);
  tt_free(pairs->first);
  tt_free(pairs->last);
  tt_free(pairs->used);
  tt_free(pairs);
}

static tuttiResult_t no_memory(int n)
{
  return tt_fail(tuttiSystemError, "out of memory for %d messages", n);
}

/* Allocates the arrays that depend on ranks and lanes only. */
static struct pairs *pairs_get(struct tt_run *run)
{
  if (run->pairs) return run->pairs;
  struct pairs *pairs = tt_alloc(1, sizeof *pairs);
  if (!pairs) return NULL;
  pairs->nqueues = (size_t)run->exec->nranks * (size_t)run->exec->lanes * 2;
  pairs->first = tt_alloc(pairs->nqueues, sizeof *pairs->first);
  pairs->last = tt_alloc(pairs->nqueues, sizeof *pairs->last);
  pairs->used = tt_alloc(pairs->nqueues, sizeof *pairs->used);
  if (!pairs->first || !pairs->last || !pairs->used) {
    tt_pairs_destroy(pairs);
    return NULL;
  }
  run->pairs = pairs;
  return pairs;
}

/* Returns the number of lanes of a message, the same at both ends. */
static int lanes_of(const struct tt_run *run, size_t bytes)
{
  size_t lanes = bytes / STRIPE_BYTES + 1;
  return lanes < (size_t)run->exec->lanes ? (int)lanes : run->exec->lanes;
}

static void queue_add(struct tt_run *run, struct stripe *stripe)
{
  struct pairs *pairs = run->pairs;
  size_t q = ((size_t)stripe->lane * (size_t)run->exec->nranks + (size_t)stripe->peer) * 2 + (size_t)stripe->sends;
  if (pairs->first[q]) pairs->last[q]->next = stripe;
  else {
    pairs->first[q] = stripe;
    pairs->used[pairs->nused++] = (int32_t)q;
    pairs->left[stripe->sends]++;
  }
  pairs->last[q] = stripe;
}

static void transfer_cut(struct tt_run *run, const struct tt_transfer *transfer)
{
  struct pairs *pairs = run->pairs;
  int lanes = lanes_of(run, transfer->bytes);
  size_t each = (transfer->bytes / (size_t)lanes + 63) & ~(size_t)63;
  struct tt_call call = {.op = transfer->number,
                         .count = transfer->whole ? transfer->whole : transfer->bytes,
                         .collective = TT_PAIRS,
                         .type = tuttiUint8,
                         .root = -1,
                         .form = transfer->form};
  for (int lane = 0; lane < lanes; lane++) {
    size_t start = each * (size_t)lane, len = transfer->bytes - start;
    struct stripe *stripe = &pairs->stripes[pairs->n++];
    if (lane < lanes - 1) len = each;
    /* A transfer without bytes may have no data; one byte says that it took place. */
    *stripe = (struct stripe){.data = len ? (char *)transfer->data + start : &pairs->empty[transfer->sends],
                              .len = len ? len : 1,
                              .call = call,
                              .lane = lane,
                              .sends = transfer->sends,
                              .is_chunk = transfer->whole > transfer->bytes,
                              .peer = transfer->peer};
    stripe->head = (struct tt_head){tt_call_word(&stripe->call), stripe->len, &stripe->call, 0};
    queue_add(run, stripe);
  }
}

/* Makes room for the stripes of all transfers; returns 0 if there is no memory. */
static int stripes_ensure(struct tt_run *run, const struct tt_binding *binding)
{
  struct pairs *pairs = run->pairs;
  int stripes = 0;
  for (int i = 0; i < binding->ntransfers; i++) stripes += lanes_of(run, binding->transfers[i].bytes);
  if (stripes <= pairs->room) return 1;
  tt_free(pairs->stripes);
  pairs->room = 0;
  pairs->stripes = tt_alloc((size_t)stripes, sizeof *pairs->stripes);
  if (pairs->stripes) pairs->room = stripes;
  return pairs->room;
}

/* Sets the call that the operation waits for, for tt_watch_compare. */
static void waits_for(struct tt_run *run, const struct stripe *stripe)
{
  const struct pairs *pairs = run->pairs;
  int is_lone = !pairs->left[0] || !pairs->left[1];
  *run->pairs_call = stripe->call;
  run->pairs_call->root = stripe->peer;
  run->pairs_call->form |= (stripe->sends ? TT_FORM_SENDS : TT_FORM_RECVS) | (is_lone ? TT_FORM_LONE : 0) |
                           (stripe->is_chunk ? TT_FORM_CHUNK : 0);
}

static struct tt_transfer message_of(const struct tt_exchange *exchange, int peer, int sends)
{
  const struct tt_shares *shares = sends ? &exchange->ins : &exchange->outs;
  char *base = sends ? (char *)(uintptr_t)exchange->in : exchange->out;
  size_t count = shares->counts[peer];
  return (struct tt_transfer){.peer = peer,
                              .sends = sends,
                              .data = count ? base + shares->starts[peer] * exchange->element : NULL,
                              .bytes = count * exchange->element,
                              .form = TT_FORM_COUNTS};
}

void tt_exchange_write(struct tt_transfer *transfers, const struct tt_exchange *exchange, int nranks, int rank)
{
  for (int distance = 0; distance < nranks; distance++) {
    transfers[2 * distance] = message_of(exchange, (rank + distance + 1) % nranks, 1);
    transfers[2 * distance + 1] = message_of(exchange, (rank - distance - 1 + nranks) % nranks, 0);
  }
}

tuttiResult_t tt_run_start_pairs(struct tt_run *run, struct tt_binding *binding)
{
  struct pairs *pairs = pairs_get(run);
  if (!pairs || !stripes_ensure(run, binding)) return no_memory(binding->ntransfers);
  pairs->n = pairs->nused = 0; /* the queues are empty: nothing is started any more after a failure */
  pairs->left[0] = pairs->left[1] = 0;
  for (int i = 0; i < binding->ntransfers; i++) transfer_cut(run, &binding->transfers[i]);
  run->pairs_call = &binding->call;
  if (pairs->nused) waits_for(run, pairs->first[pairs->used[0]]);
  run->broken = NULL;
  run->state = RUN_PAIRS;
  tt_watch_unnumbered(run->exec->watch);
  return tuttiSuccess;
}

/* Opens the link of this stripe only: links to other peers may have to wait until those peers come. */
static tuttiResult_t stripe_open(struct tt_run *run, struct stripe *stripe)
{
  if (stripe->link) return tuttiSuccess;
  tuttiResult_t result = tt_exec_link(run->exec, stripe->peer, stripe->lane, &stripe->link);
  if (result == tuttiSuccess || result == tuttiInProgress) return result;
  return tt_exec_refused(run->exec, result, stripe->peer, stripe->call.op);
}

/* Returns the bytes moved, or the error of a link function. */
static ssize_t stripe_move(struct stripe *stripe)
{
  const struct tt_link_ops *ops = stripe->link->ops;
  if (!stripe->begun) {
    if (stripe->sends) ops->send_begin(stripe->link, &stripe->head);
    else ops->recv_begin(stripe->link, &stripe->head);
    stripe->begun = 1;
  }
  char *at = stripe->data + stripe->done;
  size_t left = stripe->len - stripe->done;
  return stripe->sends ? ops->send(stripe->link, at, left) : ops->recv(stripe->link, at, left);
}

static tuttiResult_t stripe_failed(struct tt_run *run, struct stripe *stripe, ssize_t code)
{
  struct tt_link *link = stripe->link;
  if (code == TT_LINK_MISMATCH) {
    const struct tt_call *theirs = link->seen_call.op ? &link->seen_call : NULL;
    return tt_watch_mismatch(run->exec->watch, &stripe->call, link->peer, link->seen_word, theirs);
  }
  run->broken = link;
  waits_for(run, stripe);
  run->suspect_op = run->pairs_call->op;
  run->state = RUN_SUSPECT;
  return tuttiInProgress;
}

/* Moves the first stripes of a queue. Returns 1 if the queue is empty now. */
static int queue_move(struct tt_run *run, int32_t q, int *moved, tuttiResult_t *result)
{
  struct pairs *pairs = run->pairs;
  while (pairs->first[q]) {
    struct stripe *stripe = pairs->first[q];
    tuttiResult_t opened = stripe_open(run, stripe);
    if (opened != tuttiSuccess) {
      *result = opened == tuttiInProgress ? tuttiSuccess : opened;
      return 0;
    }
    ssize_t n = stripe_move(stripe);
    if (n < 0) {
      *result = stripe_failed(run, stripe, n);
      return 0;
    }
    if (n == 0) return 0;
    *moved = 1;
    stripe->done += (size_t)n;
    if (stripe->done < stripe->len) return 0;
    pairs->first[q] = stripe->next;
  }
  return 1;
}

int tt_pairs_waits(const struct pairs *pairs, int i, struct tt_link **link)
{
  if (i >= pairs->nused) return 0;
  *link = pairs->first[pairs->used[i]]->link;
  return 1;
}

tuttiResult_t tt_pairs_poll(struct tt_run *run, int *moved)
{
  struct pairs *pairs = run->pairs;
  for (int i = 0; i < pairs->nused;) {
    tuttiResult_t result = tuttiSuccess;
    if (queue_move(run, pairs->used[i], moved, &result)) {
      pairs->left[pairs->used[i] % 2]--;
      pairs->used[i] = pairs->used[--pairs->nused];
      continue;
    }
    if (result != tuttiSuccess) return result;
    i++;
  }
  if (pairs->nused) {
    if (++pairs->turn >= pairs->nused) pairs->turn = 0; /* the queues are compared in turn */
    waits_for(run, pairs->first[pairs->used[pairs->turn]]);
    return tuttiInProgress;
  }
  tt_watch_waits_no_more(run->exec->watch);
  run->state = RUN_IDLE;
  return tuttiSuccess;
}
