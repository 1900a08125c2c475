/* SPDX-License-Identifier: BSD-3-Clause */
/* The one failure record: in this process, on its host's status page, and on other hosts by way of control links. */
#include <stdio.h>
#include <string.h>

#include "watch/private.h"

#define RETURN_NS 2000000000u /* for a host that the others have given up to find that out (tt_control_given_up) */

/* The record that counts is known: shows it to this process and passes it on. */
static void settle(struct tt_watch *watch, const struct tt_failure *failure)
{
  watch->failure = *failure;
  atomic_store_explicit(&watch->failed, 1, memory_order_release);
  tt_watch_wake(watch);
  tt_control_tell(watch);
}

static int has_failed(const struct tt_watch *watch)
{
  return atomic_load_explicit(&watch->failed, memory_order_acquire);
}

/* Reads the status page's record. A failure slot that makes no sense still means that a rank gave up. */
static void page_read(struct tt_watch *watch, int slot, struct tt_failure *failure)
{
  if (tt_page_failure_slot(&watch->page, slot, failure)) return;
  *failure = (struct tt_failure){
      .code = tuttiInternalError, .culprit = -1, .detector = watch->rank, .op = tt_current_op(watch)};
  snprintf(failure->sentence, sizeof failure->sentence,
           "the failure record shared by the ranks of this host is damaged");
}

static void learned_log(const struct tt_failure *failure)
{
  tt_log(TT_LOG_INFO, "learned of a failure from rank %d: %s", failure->detector, failure->sentence);
}

void tt_record_exclude(struct tt_watch *watch)
{
  char rank[TT_RANK_TEXT_BYTES];
  if (has_failed(watch) || !tt_is_excluded(watch)) return;
  struct tt_failure failure = {.code = tuttiRemoteError, .culprit = watch->rank, .detector = watch->rank};
  snprintf(failure.sentence, sizeof failure.sentence, "%s was taken for dead, and the others go on without it (%s)",
           tt_watch_rank_text(watch, watch->rank, rank, sizeof rank), watch->label);
  settle(watch, &failure);
  tt_log(TT_LOG_WARN, "%s", failure.sentence);
}

int tt_record_set(struct tt_watch *watch, const struct tt_failure *failure)
{
  tt_record_exclude(watch);
  if (has_failed(watch)) return 0;
  struct tt_failure counts = *failure;
  int own = 1;
  if (watch->own) {
    tt_page_record(&watch->page, watch->slot_index, failure);
    int winner = tt_page_winner(&watch->page);
    own = winner == watch->slot_index;
    if (!own) page_read(watch, winner, &counts);
  }
  settle(watch, &counts);
  if (!own) learned_log(&counts);
  return own;
}

void tt_record_adopt(struct tt_watch *watch)
{
  int winner = watch->own ? tt_page_winner(&watch->page) : -1;
  if (winner < 0 || has_failed(watch)) return;
  struct tt_failure failure;
  page_read(watch, winner, &failure);
  settle(watch, &failure);
  learned_log(&failure);
}

/* Records `failure` as found by this rank; `level` is that of its log line if it counts. */
static tuttiResult_t record(struct tt_watch *watch, struct tt_failure failure, const char *sentence,
                            enum tt_log_level level, enum tt_lost how)
{
  char when[48];
  failure.detector = watch->rank;
  snprintf(failure.sentence, sizeof failure.sentence, "%.370s (%s, %s)", sentence, watch->label,
           tt_now_text(when, sizeof when));
  tt_service_lock();
  int own = tt_record_set(watch, &failure);
  if (own && how) tt_lost_set(watch, failure.culprit, how); /* of two that suspect each other one is lost */
  tt_service_unlock();
  /* The record never changes from here on. */
  if (own) tt_log(level, "%s", watch->failure.sentence);
  return tt_fail_quiet(watch->failure.code, watch->failure.sentence);
}

void tt_record_found(struct tt_watch *watch, tuttiResult_t code, int culprit, const char *sentence)
{
  if (tt_spares(watch) && culprit != watch->rank) {
    tt_log(TT_LOG_INFO, "%s (%s)", sentence, watch->label);
    return;
  }
  record(watch, (struct tt_failure){.code = code, .culprit = culprit, .op = tt_current_op(watch)}, sentence,
         watch->is_second ? TT_LOG_INFO : TT_LOG_WARN, 0);
}

tuttiResult_t tt_watch_fail(struct tt_watch *watch, tuttiResult_t code, int culprit, uint64_t op,
                            const char *sentence)
{
  return record(watch, (struct tt_failure){.code = code, .culprit = culprit, .op = op}, sentence, TT_LOG_WARN, 0);
}

tuttiResult_t tt_watch_fail_here(struct tt_watch *watch, tuttiResult_t code, int culprit, uint64_t op)
{
  char sentence[TT_SENTENCE_BYTES], rank[TT_RANK_TEXT_BYTES];
  if (code != tuttiSystemError) return tt_watch_fail(watch, code, culprit, op, tt_last_sentence());
  snprintf(sentence, sizeof sentence, "%s gives up: %.360s", tt_watch_rank_text(watch, watch->rank, rank, sizeof rank),
           tt_last_sentence());
  return tt_watch_fail(watch, code, watch->rank, op, sentence);
}

tuttiResult_t tt_watch_fail_too(struct tt_watch *watch, tuttiResult_t code, int culprit, const char *sentence)
{
  return record(watch, (struct tt_failure){.code = code, .culprit = culprit}, sentence, TT_LOG_INFO, 0);
}

const _Atomic int *tt_watch_failed(const struct tt_watch *watch)
{
  return &watch->failed;
}

const struct tt_failure *tt_watch_failure(const struct tt_watch *watch)
{
  /* Callers saw the word by a relaxed load; this acquiring one makes the record visible. */
  (void)has_failed(watch);
  return &watch->failure;
}

/* Either `how` the connection broke or, if there was none, the whole sentence. */
static tuttiResult_t suspect(struct tt_watch *watch, int peer, uint64_t op, const char *how, const char *sentence)
{
  if (has_failed(watch)) return tt_fail_quiet(watch->failure.code, watch->failure.sentence);
  /* While this process does not run, it does not look for the cause either. */
  uint64_t now = atomic_load_explicit(&watch->clock_ns, memory_order_relaxed), since = 0;
  _Atomic uint64_t *first = &watch->peers[peer].suspected_ns;
  if (atomic_compare_exchange_strong(first, &since, now)) since = now;
  /* The tick, which hears more, says whether this host was cut off, within two pauses of the kernel. */
  if (now - since < (tt_control_given_up(watch, peer, since) ? RETURN_NS : TT_GRACE_NS)) return tuttiInProgress;
  char text[TT_SENTENCE_BYTES];
  struct tt_call pair[2];
  if (!tt_spares(watch) && tt_differed(watch, peer, pair)) { /* the peer may have ended its call, and left */
    tt_differ_text(watch, &pair[0], peer, &pair[1], text);
    return tt_watch_fail(watch, tuttiInvalidUsage, peer, pair[0].op, text);
  }
  if (!sentence) tt_lost_text(watch, peer, how, text);
  else snprintf(text, sizeof text, "%s", sentence);
  if (tt_spares(watch)) {
    tt_log(TT_LOG_INFO, "%s (%s)", text, watch->label);
    tt_service_lock();
    tt_lost_set(watch, peer, TT_LOST_CONNECTION);
    tt_service_unlock();
    return tuttiInProgress;
  }
  int has_left = tt_watch_left(watch, peer) != TT_LEFT_NOT; /* while this thread slept: so its connection is closed */
  return record(watch, (struct tt_failure){.code = tuttiRemoteError, .culprit = peer, .op = op}, text, TT_LOG_WARN,
                has_left ? 0 : TT_LOST_CONNECTION);
}

tuttiResult_t tt_watch_suspect(struct tt_watch *watch, int peer, uint64_t op, const char *how)
{
  return suspect(watch, peer, op, how, NULL);
}

tuttiResult_t tt_watch_refused(struct tt_watch *watch, int peer, uint64_t op, const char *sentence)
{
  return suspect(watch, peer, op, NULL, sentence);
}

void tt_watch_leave(struct tt_watch *watch, int aborted)
{
  if (atomic_load(&tt_process.forked)) return;
  tt_service_lock();
  if (!watch->left && watch->own) {
    uint64_t finished = tt_rank_slot_finished(watch->own);
    int inside = tt_rank_slot_entered(watch->own) > finished;
    tt_page_leave(&watch->page, watch->rank, tt_gone_make(finished, inside, aborted));
    tt_control_tell(watch);
  }
  watch->left = 1;
  tt_service_unlock();
}
