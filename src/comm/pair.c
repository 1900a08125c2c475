/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures what messages take between two ranks while a communicator is being created, within some milliseconds.
 *
 * Both send and receive at once, message after message. The first rank leads: it alone looks at the clock. Before each
 * batch both exchange 8 bytes, in which it says how many messages of which length follow; so the batch begins at both
 * ends at once, and no more is agreed. The result is the fastest batch, once a second one was nearly as fast. */
#include <math.h>
#include <string.h>

#include "comm/creation_private.h"
#include "memory/memory.h"

#define SHORT_BYTES 8
#define TRIAL_BYTES (16u << 10) /* how fast is it at all? */
#define LONG_BYTES (128u << 10) /* on one lane */
#define BATCH_US 60.0
#define BATCH_TIMES 64          /* messages in a batch, at most */
#define BATCHES 16              /* at least */
#define BATCHES_SLOW 3          /* of a message in more than BATCH_US */
#define NEARLY 1.1              /* as fast */
#define SLOW_US 3000.0          /* such a link is too slow for messages longer than that one */
#define LIMIT_NS 50000000u      /* for a pair that does not settle, or is very slow */
#define POLL_NS 1000000u        /* without a break */

struct order {
  uint32_t bytes, times; /* times 0: that was all */
};

struct samples {
  int n;
  double least, second; /* us */
};

enum phase { WARM, SHORT, TRIAL, LONG, OVER };

struct measuring {
  int kind;             /* enum tt_link_kind, whose pair is at it */
  int is_open;          /* this rank is one of that pair, and has begun */
  int is_answered;      /* the partner is there */
  int is_batch;         /* what is under way are messages of a batch, not the 8 bytes before it */
  int leads;
  int32_t peer;
  uint32_t left;        /* messages of the batch */
  struct order order;
  uint64_t number;      /* of messages; the first one of a user is the first again */
  uint64_t began_ns, batch_ns;
  enum phase phase;     /* on the leader */
  uint32_t long_bytes;
  struct samples short_us, long_us;
  struct tt_transfer transfers[2];
  struct tt_binding binding;
  char data[2][LONG_BYTES]; /* sent, received */
};

void tt_measuring_destroy(struct measuring *measuring)
{
  tt_heap_free(measuring);
}

/* ---- one message each way ---- */

static tuttiResult_t exchange_start(struct tuttiComm *comm, struct measuring *m)
{
  size_t bytes = m->is_batch ? m->order.bytes : sizeof m->order;
  if (!m->is_batch) memcpy(m->data[0], &m->order, sizeof m->order);
  m->number++;
  for (int k = 0; k < 2; k++)
    m->transfers[k] = (struct tt_transfer){
        .peer = m->peer, .sends = !k, .number = m->number, .data = m->data[k], .bytes = bytes};
  m->binding = (struct tt_binding){.call = {.collective = TT_PAIRS, .type = tuttiUint8, .root = -1},
                                   .transfers = m->transfers,
                                   .ntransfers = 2};
  return tt_run_start_pairs(comm->parts.run, &m->binding);
}

/* ---- the leader ---- */

static void sample_add(struct samples *samples, double us)
{
  if (!samples->n++) {
    samples->least = us;
    samples->second = INFINITY;
  } else if (us < samples->least) {
    samples->second = samples->least;
    samples->least = us;
  } else if (us < samples->second) samples->second = us;
}

static int is_settled(const struct samples *samples)
{
  int enough = samples->least > BATCH_US ? BATCHES_SLOW : BATCHES;
  return samples->n >= enough && samples->second <= NEARLY * samples->least;
}

static struct order order_of(uint32_t bytes, double us)
{
  return (struct order){bytes, (uint32_t)fmin(fmax(BATCH_US / us, 1), BATCH_TIMES)};
}

/* A message of the batch took `us`: what comes next. */
static void phase_go_on(struct measuring *m, double us)
{
  switch (m->phase) {
  case WARM:
    m->phase = us > SLOW_US ? OVER : SHORT;
    m->order = order_of(SHORT_BYTES, us);
    break;
  case SHORT:
    sample_add(&m->short_us, us);
    if (!is_settled(&m->short_us)) break;
    m->phase = TRIAL;
    m->order = (struct order){TRIAL_BYTES, 1};
    break;
  case TRIAL:
    m->phase = LONG;
    m->long_bytes = us > SLOW_US ? TRIAL_BYTES : LONG_BYTES;
    m->order = order_of(m->long_bytes, us * m->long_bytes / TRIAL_BYTES);
    break;
  default:
    sample_add(&m->long_us, us);
    if (is_settled(&m->long_us)) m->phase = OVER;
  }
}

static void batch_end(struct measuring *m)
{
  uint64_t now = tt_now_ns();
  phase_go_on(m, (double)(now - m->batch_ns) / 1e3 / m->order.times);
  if (now - m->began_ns > LIMIT_NS) m->phase = OVER;
  if (m->phase == OVER) m->order.times = 0;
}

static void pair_conclude(struct tuttiComm *comm, const struct measuring *m)
{
  const char *transport = comm->life.creation->wanted[comm->life.creation->pairs[m->kind].transport]->name;
  struct tt_correction *found = &comm->parts.corrected[m->kind].by;
  double us = (double)(tt_now_ns() - m->began_ns) / 1e3;
  *found = TT_CORRECTION_NONE;
  if (is_settled(&m->short_us) && is_settled(&m->long_us))
    *found = tt_correction_make((enum tt_link_kind)m->kind, transport, m->short_us.least, m->long_bytes,
                                m->long_us.least);
  if (!tt_correction_known(*found)) {
    tt_log(TT_LOG_INFO, "%s over %s, ranks %d and %d: not measured: too slow or too uneven after %.0f us",
           tt_link_names[m->kind], transport, comm->facts.rank, (int)m->peer, us);
    return;
  }
  tt_log(TT_LOG_INFO,
         "%s over %s, ranks %d and %d: measured in %.0f us: %.3g us for %d B, %.4g us for %u B both ways: "
         "corrections %d and %d",
         tt_link_names[m->kind], transport, comm->facts.rank, (int)m->peer, us, m->short_us.least, SHORT_BYTES,
         m->long_us.least, m->long_bytes, found->alpha, found->beta);
}

/* ---- both ---- */

static tuttiResult_t order_take(struct measuring *m)
{
  if (!m->leads) memcpy(&m->order, m->data[1], sizeof m->order);
  if (m->order.bytes <= LONG_BYTES && m->order.times <= BATCH_TIMES) return tuttiSuccess;
  return tt_fail(tuttiInternalError, "rank %d wants to measure %u messages of %u bytes", (int)m->peer, m->order.times,
                 m->order.bytes);
}

/* A message went each way: tuttiSuccess if that was the last one. */
static tuttiResult_t exchange_end(struct tuttiComm *comm, struct measuring *m)
{
  if (m->is_batch) {
    m->is_batch = --m->left > 0;
    if (!m->is_batch && m->leads) batch_end(m);
    return tuttiInProgress;
  }
  tuttiResult_t result = order_take(m);
  if (result != tuttiSuccess) return result;
  if (m->order.times == 0) {
    if (m->leads) pair_conclude(comm, m);
    return tuttiSuccess;
  }
  m->batch_ns = tt_now_ns();
  if (!m->is_answered) m->began_ns = m->batch_ns;
  m->is_answered = m->is_batch = 1;
  m->left = m->order.times;
  return tuttiInProgress;
}

static tuttiResult_t pair_open(struct tuttiComm *comm, struct measuring *m, const struct pair *pair)
{
  int kind = m->kind;
  m->leads = pair->ranks[0] == comm->facts.rank;
  m->peer = pair->ranks[m->leads];
  m->is_open = 1;
  m->is_answered = m->is_batch = 0;
  m->number = 0;
  m->phase = WARM;
  m->order = (struct order){SHORT_BYTES, 4};
  m->short_us = m->long_us = (struct samples){.n = 0};
  memset(m->data, 1, sizeof m->data); /* never written, all pages would be one */
  comm->parts.corrected[kind].by = TT_CORRECTION_NONE;
  return exchange_start(comm, m);
}

static tuttiResult_t late(const struct tuttiComm *comm, const struct measuring *m)
{
  char rank[128];
  return tt_fail(tuttiRemoteError,
                 "%s did not answer rank %d within TUTTI_INIT_TIMEOUT_MS (%lld ms), to measure their link: see "
                 "whether it is stopped, or set TUTTI_CACHE=none",
                 tt_watch_rank_text(comm->parts.watch, m->peer, rank, sizeof rank), comm->facts.rank,
                 (long long)comm->facts.settings.init_timeout_ms);
}

/* Moves the pair until nothing comes for a while; tuttiSuccess: it is done. */
static tuttiResult_t pair_move(struct tuttiComm *comm, struct measuring *m)
{
  uint64_t until_ns = tt_now_ns() + POLL_NS;
  for (uint32_t looks = 1;; looks++) {
    int moved = 0;
    tuttiResult_t result = tt_run_poll(comm->parts.run, &moved);
    if (result == tuttiSuccess) {
      result = exchange_end(comm, m);
      if (result != tuttiInProgress) return result;
      result = exchange_start(comm, m);
      if (result != tuttiSuccess) return result;
    } else if (result != tuttiInProgress) return result;
    if (!m->is_answered) return tuttiInProgress;
    if (looks % 16 == 0 && tt_now_ns() > until_ns) return tuttiInProgress;
  }
}

tuttiResult_t tt_pair_poll(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  struct measuring *m = creation->measuring;
  if (!m) {
    void *memory = NULL;
    tuttiResult_t result = tt_heap_alloc(&memory, sizeof *m); /* as what is measured beforehand */
    if (result != tuttiSuccess) return result;
    m = creation->measuring = memory;
  }
  for (; m->kind < TT_LINK_KINDS; m->kind++, m->is_open = 0) {
    const struct pair *pair = &creation->pairs[m->kind];
    if (!pair->is_measured || (pair->ranks[0] != comm->facts.rank && pair->ranks[1] != comm->facts.rank)) continue;
    tuttiResult_t result = m->is_open ? tuttiSuccess : pair_open(comm, m, pair);
    if (result == tuttiSuccess) result = pair_move(comm, m);
    if (result == tuttiInProgress && tt_now_ns() > creation->deadline_ns) return late(comm, m);
    if (result != tuttiSuccess) return result;
  }
  return tuttiSuccess;
}
