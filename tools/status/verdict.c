/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict: the first of the sentences below that is true. Those about a rank that holds up the others come before
 * those about all. */
#include "status/status.h"

#include <stdarg.h>
#include <string.h>

#define NAMED_MOST 4 /* ranks in one sentence; of others there is the number */

/* A sentence that grows until it is full. */
struct sentence {
  char *text;
  size_t used;
};

static __attribute__((format(printf, 2, 3))) void say(struct sentence *sentence, const char *format, ...)
{
  va_list args;
  if (sentence->used + 1 >= TT_JUDGED_BYTES) return;
  va_start(args, format);
  int n = vsnprintf(sentence->text + sentence->used, TT_JUDGED_BYTES - sentence->used, format, args);
  va_end(args);
  if (n > 0) sentence->used += (size_t)n;
}

const char *tt_status_rank_name(const struct tt_rank_status *rank, char text[TT_RANK_NAME_BYTES])
{
  snprintf(text, TT_RANK_NAME_BYTES, "rank %d (pid %d on %s)", (int)rank->rank, (int)rank->pid, rank->host);
  return text;
}

const char *tt_age_text(uint64_t ns, char text[TT_AGE_BYTES])
{
  double seconds = (double)ns / 1e9;
  if (seconds < 10) snprintf(text, TT_AGE_BYTES, "%.1f s", seconds);
  else if (seconds < 120) snprintf(text, TT_AGE_BYTES, "%.0f s", seconds);
  else if (seconds < 7200) snprintf(text, TT_AGE_BYTES, "%.0f min", seconds / 60);
  else snprintf(text, TT_AGE_BYTES, "%.0f h", seconds / 3600);
  return text;
}

/* "AllReduce #12 (count 8, float, sum)", or "operation #12" where only the number is known. */
static const char *call_name(const struct tt_call *call, char text[TT_CALL_TEXT_BYTES])
{
  if (call->collective && call->collective < TT_COLLECTIVES) return tt_call_text(call, text, TT_CALL_TEXT_BYTES);
  snprintf(text, TT_CALL_TEXT_BYTES, "operation #%llu", (unsigned long long)call->op);
  return text;
}

/* A lost rank is a failure, or the others go on without it (fault_level, a fusion that survives deaths). */
static int takes_part(const struct tt_rank_status *rank)
{
  return rank->seen != TT_SEEN_NOT && !rank->gone && !rank->lost;
}

/* Says "rank 1 (pid ...) and rank 3 (pid ...)": the ranks for which `is_one` is true; returns the first of them. */
static const struct tt_rank_status *ranks_say(struct sentence *sentence, const struct tt_comm_status *now,
                                              int (*is_one)(const struct tt_rank_status *, const void *),
                                              const void *context)
{
  char name[TT_RANK_NAME_BYTES];
  const struct tt_rank_status *first = NULL;
  int all = 0, said = 0;
  for (int r = 0; r < now->nranks; r++) all += is_one(&now->ranks[r], context) != 0;
  int named = all <= NAMED_MOST ? all : NAMED_MOST - 1;
  for (int r = 0; r < now->nranks && said < named; r++) {
    if (!is_one(&now->ranks[r], context)) continue;
    if (!first) first = &now->ranks[r];
    int is_last = said + 1 == all;
    say(sentence, "%s%s", !said ? "" : is_last ? " and " : ", ", tt_status_rank_name(&now->ranks[r], name));
    said++;
  }
  if (all > named) say(sentence, " and %d more ranks", all - named);
  return first;
}

/* ---- a process has ended, or is stopped ---- */

static int is_dead(const struct tt_rank_status *rank, const void *context)
{
  (void)context;
  return takes_part(rank) && rank->thread.state == 'X';
}

static int dead_say(struct sentence *sentence, const struct tt_comm_status *now)
{
  int all = 0;
  for (int r = 0; r < now->nranks; r++) all += is_dead(&now->ranks[r], NULL);
  if (!all) return 0;
  ranks_say(sentence, now, is_dead, NULL);
  say(sentence, all == 1 ? " has ended without saying farewell" : " have ended without saying farewell");
  return 1;
}

static int is_stopped(const struct tt_rank_status *rank)
{
  return takes_part(rank) && (rank->thread.state == 'T' || rank->thread.state == 't');
}

static void place_say(struct sentence *sentence, const struct tt_rank_status *rank)
{
  char call[TT_CALL_TEXT_BYTES];
  if (rank->is_inside) say(sentence, " in %s", call_name(&rank->call, call));
  else if (rank->entered) say(sentence, " after %s", call_name(&rank->call, call));
  else say(sentence, " before its first call");
}

static int stopped_say(struct sentence *sentence, const struct tt_comm_status *now)
{
  char name[TT_RANK_NAME_BYTES], state[192];
  const struct tt_rank_status *first = NULL;
  int all = 0;
  for (int r = 0; r < now->nranks; r++) {
    if (!is_stopped(&now->ranks[r])) continue;
    if (!all++) first = &now->ranks[r];
  }
  if (!all) return 0;
  say(sentence, "%s is", tt_status_rank_name(first, name));
  place_say(sentence, first);
  say(sentence, ": %s", tt_main_thread_text(first, state, sizeof state));
  if (all > 1) say(sentence, "; %d more %s stopped, too", all - 1, all == 2 ? "is" : "are");
  return 1;
}

/* ---- calls differ ---- */

static int unlike_say(struct sentence *sentence, const struct tt_comm_status *now)
{
  char name[TT_RANK_NAME_BYTES], mine[TT_CALL_TEXT_BYTES], theirs[TT_CALL_TEXT_BYTES];
  const struct tt_rank_status *odd = NULL;
  for (int r = 0; r < now->nranks; r++) {
    const struct tt_rank_status *rank = &now->ranks[r];
    if (rank->unlike < 0 || !takes_part(rank)) continue;
    if (!odd || rank->nalike <= odd->nalike) odd = rank;
  }
  if (!odd) return 0;
  say(sentence, "%s %s in %s where ", tt_status_rank_name(odd, name), odd->is_inside ? "is" : "was",
      call_name(&odd->call, mine));
  if (now->nranks == 2) say(sentence, "rank %d is", (int)odd->unlike);
  else say(sentence, "the others are");
  say(sentence, " in %s", call_name(&odd->other, theirs));
  return 1;
}

/* ---- calls go on ---- */

static int goes_on_say(struct sentence *sentence, const struct tt_comm_status *before, const struct tt_comm_status *now)
{
  char call[TT_CALL_TEXT_BYTES];
  const struct tt_rank_status *first = NULL;
  uint64_t more = 0;
  for (int r = 0; r < now->nranks; r++) {
    uint64_t ended = now->ranks[r].finished - before->ranks[r].finished;
    if (now->ranks[r].seen != TT_SEEN_HERE || now->ranks[r].gone || ended <= more) continue;
    more = ended;
    first = &now->ranks[r];
  }
  if (!more) return 0;
  say(sentence, "calls go on: rank %d ended %llu of them while it was watched, and is", (int)first->rank,
      (unsigned long long)more);
  if (first->is_inside) say(sentence, " in %s", call_name(&first->call, call));
  else say(sentence, " after %s", call_name(&first->call, call));
  return 1;
}

/* ---- a rank has not entered ---- */

/* The lowest call that a rank waits in or beyond, and that another rank has not entered; 0: there is none. */
static uint64_t missed_call(const struct tt_comm_status *now)
{
  uint64_t newest = 0, missed = 0;
  for (int r = 0; r < now->nranks; r++)
    if (takes_part(&now->ranks[r]) && now->ranks[r].is_inside && now->ranks[r].entered > newest)
      newest = now->ranks[r].entered;
  for (int r = 0; r < now->nranks; r++) {
    const struct tt_rank_status *rank = &now->ranks[r];
    if (!takes_part(rank) || rank->is_inside || rank->entered >= newest) continue;
    if (!missed || rank->entered + 1 < missed) missed = rank->entered + 1;
  }
  return missed;
}

static int is_late(const struct tt_rank_status *rank, const void *context)
{
  const uint64_t *missed = context;
  return takes_part(rank) && !rank->is_inside && rank->entered + 1 == *missed;
}

static int lack_alike(const struct tt_lacks *a, const struct tt_lacks *b)
{
  return a->step && a->step == b->step && a->tensor == b->tensor && a->missing == b->missing;
}

/* Says " has not pushed tensor 1 (w) of step 3, so it": of a fusion whose late ranks, of which `first` is one, lack the
 * same. */
static void lacks_say(struct sentence *sentence, const struct tt_comm_status *now, const struct tt_rank_status *first,
                     const uint64_t *missed, int all)
{
  const struct tt_lacks *lacks = &first->lacks;
  const char *have = all == 1 ? "has" : "have";
  for (int r = 0; r < now->nranks; r++)
    if (is_late(&now->ranks[r], missed) && !lack_alike(&now->ranks[r].lacks, lacks)) return;
  if (lacks->missing == lacks->all && lacks->all > 1)
    say(sentence, " %s pushed none of the %u tensors of step %llu", have, lacks->all, (unsigned long long)lacks->step);
  else {
    say(sentence, " %s not pushed tensor %u (%s)", have, lacks->tensor, lacks->name);
    if (lacks->missing > 1) say(sentence, " and %u more", lacks->missing - 1);
    say(sentence, " of step %llu", (unsigned long long)lacks->step);
  }
  say(sentence, all == 1 ? ", so it" : ", so they");
}

static int late_say(struct sentence *sentence, const struct tt_comm_status *now)
{
  char call[TT_CALL_TEXT_BYTES], age[TT_AGE_BYTES], state[192];
  uint64_t missed = missed_call(now);
  if (!missed) return 0;
  int all = 0;
  for (int r = 0; r < now->nranks; r++) all += is_late(&now->ranks[r], &missed);
  const struct tt_rank_status *first = ranks_say(sentence, now, is_late, &missed);
  struct tt_call next = first->next;
  next.op = missed;
  lacks_say(sentence, now, first, &missed, all);
  say(sentence, " %s not entered %s", all == 1 ? "has" : "have", call_name(&next, call));
  if (first->next_ns) say(sentence, " for %s", tt_age_text(first->next_ns, age));
  if (all > 1) say(sentence, "; of rank %d:", (int)first->rank);
  say(sentence, "%s %s", all > 1 ? "" : ";", tt_main_thread_text(first, state, sizeof state));
  return 1;
}

/* ---- a message is missing ---- */

static int message_say(struct sentence *sentence, const struct tt_comm_status *now)
{
  char name[TT_RANK_NAME_BYTES], other[TT_RANK_NAME_BYTES], state[192];
  for (int r = 0; r < now->nranks; r++) {
    const struct tt_rank_status *rank = &now->ranks[r];
    if (!takes_part(rank) || rank->waits_for < 0) continue;
    const struct tt_rank_status *peer = &now->ranks[rank->waits_for];
    if (peer->waits_for >= 0 && peer->waits_for != rank->rank) continue; /* that one waits, too: for another */
    say(sentence, "%s waits for %s to %s its message; ", tt_status_rank_name(rank, name),
        tt_status_rank_name(peer, other), rank->sends ? "receive" : "send");
    say(sentence, "of that one: %s", tt_main_thread_text(peer, state, sizeof state));
    return 1;
  }
  return 0;
}

/* ---- all ---- */

static int all_inside_say(struct sentence *sentence, const struct tt_comm_status *before,
                          const struct tt_comm_status *now)
{
  char call[TT_CALL_TEXT_BYTES], age[TT_AGE_BYTES];
  const struct tt_rank_status *first = NULL;
  int inside = 0, seen = 0, unseen = 0, moved = 0;
  for (int r = 0; r < now->nranks; r++) {
    const struct tt_rank_status *rank = &now->ranks[r];
    unseen += rank->seen == TT_SEEN_NOT && !rank->gone && !rank->lost;
    seen += takes_part(rank);
    if (!takes_part(rank) || !rank->is_inside) continue;
    inside++;
    moved += rank->moves != before->ranks[r].moves;
    if (!first || (rank->seen == TT_SEEN_HERE && first->seen != TT_SEEN_HERE)) first = rank;
  }
  if (!inside) return 0;
  call_name(&first->call, call);
  if (inside < seen) say(sentence, "%d of %d ranks %s still in %s", inside, seen, inside == 1 ? "is" : "are", call);
  else if (unseen) say(sentence, "all %d ranks that can be seen from here are in %s", inside, call);
  else say(sentence, "all %d ranks are in %s", inside, call);
  if (moved) say(sentence, " and bytes move");
  else if (first->age_ns) say(sentence, " for %s and no bytes move", tt_age_text(first->age_ns, age));
  else say(sentence, " and no bytes move");
  return 1;
}

static void idle_say(struct sentence *sentence, const struct tt_comm_status *now)
{
  char call[TT_CALL_TEXT_BYTES], age[TT_AGE_BYTES];
  const struct tt_rank_status *last = NULL;
  int left = 0;
  for (int r = 0; r < now->nranks; r++) {
    const struct tt_rank_status *rank = &now->ranks[r];
    left += rank->gone != 0;
    if (rank->seen == TT_SEEN_HERE && rank->entered && (!last || rank->entered > last->entered)) last = rank;
  }
  if (left == now->nranks) say(sentence, "all %d ranks have left", left);
  else say(sentence, "no rank is in a call");
  if (!last) return;
  say(sentence, "; the last %s was %s", left == now->nranks ? "call" : "one", call_name(&last->call, call));
  if (last->age_ns) say(sentence, ", which ended %s ago", tt_age_text(last->age_ns, age));
}

int tt_status_judge(const struct tt_comm_status *before, const struct tt_comm_status *now,
                    char text[TT_JUDGED_BYTES])
{
  struct sentence sentence = {text, 0};
  text[0] = 0;
  int is_over = now->has_failed && !now->goes_on;
  if (is_over) say(&sentence, "the communicator has failed: %s", now->failure.sentence);
  if (is_over || dead_say(&sentence, now) || unlike_say(&sentence, now)) return 1;
  if (stopped_say(&sentence, now)) return 1;
  if (goes_on_say(&sentence, before, now)) return 0;
  if (late_say(&sentence, now) || message_say(&sentence, now)) return 1;
  if (!all_inside_say(&sentence, before, now)) idle_say(&sentence, now);
  return 0;
}
