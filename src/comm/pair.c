/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures what messages take between two ranks while a communicator is being created, within some milliseconds.
 *
 * Both send and receive at once, message after message. The first rank leads: it alone looks at the clock. Before each
 * batch both exchange 8 bytes, in which it says how many messages of which length follow; so the batch begins at both
 * ends at once, and no more is agreed. The messages are those of tuner/probe.h. */
#include <string.h>

#include "comm/creation_private.h"
#include "memory/memory.h"
#include "tuner/probe.h"

#define LONG_BYTES (128u << 10) /* on one lane */
#define BATCH_TIMES 64          /* messages in a batch, at most */
#define POLL_NS 1000000u        /* without a break */

struct order {
  uint32_t bytes, times; /* times 0: that was all */
};

enum point { SHORT, LONG, POINTS };

/* Some first messages of 16 KiB show how fast the link is at all. */
static const struct tt_probe_point points[POINTS] = {
    [SHORT] = {.bytes = 8, .first_bytes = 8, .first_times = 4},
    [LONG] = {.bytes = LONG_BYTES, .first_bytes = 16 << 10, .first_times = 1},
};

static const struct tt_probe_budget budget = {
    .batch_us = 60, .times_most = BATCH_TIMES, .batches = 16, .batches_slow = 3, .nearly = 1.1, .slow_us = 3000,
    .all_us = 50000, /* for a pair that does not settle, or is very slow */
};

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
  struct tt_probe probe; /* on the leader */
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

static struct order order_of(const struct tt_probe *probe)
{
  return (struct order){probe->bytes, probe->times};
}

static void batch_end(struct measuring *m)
{
  uint64_t now = tt_now_ns();
  tt_probe_took(&m->probe, (double)(now - m->batch_ns) / 1e3 / m->order.times, (double)(now - m->began_ns) / 1e3);
  m->order = order_of(&m->probe);
}

static void pair_conclude(struct tuttiComm *comm, const struct measuring *m)
{
  const char *transport = comm->life.creation->wanted[comm->life.creation->pairs[m->kind].transport]->name;
  struct tt_correction *found = &comm->parts.corrected[m->kind].by;
  const struct tt_probe_row *row = m->probe.rows;
  double us = (double)(tt_now_ns() - m->began_ns) / 1e3;
  *found = TT_CORRECTION_NONE;
  if (row[SHORT].is_done && row[LONG].is_done)
    *found = tt_correction_make((enum tt_link_kind)m->kind, transport, row[SHORT].least_us, row[LONG].bytes,
                                row[LONG].least_us);
  if (!tt_correction_known(*found)) {
    tt_log(TT_LOG_INFO, "%s over %s, ranks %d and %d: not measured: too slow or too uneven after %.0f us",
           tt_link_names[m->kind], transport, comm->facts.rank, (int)m->peer, us);
    return;
  }
  tt_log(TT_LOG_INFO,
         "%s over %s, ranks %d and %d: measured in %.0f us: %.3g us for %u B, %.4g us for %u B both ways: "
         "corrections %d and %d",
         tt_link_names[m->kind], transport, comm->facts.rank, (int)m->peer, us, row[SHORT].least_us,
         row[SHORT].bytes, row[LONG].least_us, row[LONG].bytes, found->alpha, found->beta);
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
  tt_probe_begin(&m->probe, &budget, points, POINTS);
  m->order = order_of(&m->probe);
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
