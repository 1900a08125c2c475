/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are lost, besides the one record and also after it; and notices about communicators that are being made
 * from this one. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "watch/private.h"

#define LOOK_NS 5000000u       /* between two looks of a start-up ... */
#define LOOK_MEMBER_NS 100000u /* ... and so much more for each member */
#define LATE_NS \
  500000000u /* a message that the lost member's last peer info made possible may be on its way for so long */

static const char *const hows[] = {"", "died", "was stopped for too long", "could not be reached", "was lost",
                                   "was late"};

/* ---- lost ranks ---- */

static uint64_t wall_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

const char *tt_time_text(uint64_t ms, char *text, size_t size)
{
  time_t seconds = (time_t)(ms / 1000);
  struct tm parts;
  char date[32] = "";
  if (gmtime_r(&seconds, &parts)) strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts);
  snprintf(text, size, "%s.%03d UTC", date, (int)(ms % 1000));
  return text;
}

const char *tt_now_text(char *text, size_t size)
{
  return tt_time_text(wall_ms(), text, size);
}

void tt_lost_set(struct tt_watch *watch, int rank, enum tt_lost how)
{
  if (!watch->own || rank < 0 || rank == watch->rank) return;
  tt_page_lose(&watch->page, rank, tt_lost_make(wall_ms(), how));
  tt_control_tell(watch);
}

int tt_watch_lost(struct tt_watch *watch, int *ranks, int size)
{
  int n = 0;
  tt_service_lock();
  for (int rank = 0; watch->own && rank < watch->nranks; rank++) {
    if (rank == watch->rank) continue;
    if (!tt_page_lost(&watch->page, rank) && !tt_page_gone(&watch->page, rank)) continue;
    if (n < size) ranks[n] = rank;
    n++;
  }
  tt_service_unlock();
  return n;
}

enum tt_left tt_watch_left(const struct tt_watch *watch, int rank)
{
  uint64_t gone = watch->own ? tt_page_gone(&watch->page, rank) : 0;
  if (tt_spares(watch) && tt_is_lost(watch, rank)) return TT_LEFT_LOST;
  if (!gone) return TT_LEFT_NOT;
  /* It may have left behind a failure, of which this process hears in the next tick, or has heard since it looked. */
  if (tt_page_winner(&watch->page) >= 0) return TT_LEFT_NOT;
  return tt_gone_aborted(gone) ? TT_LEFT_ABORTED : TT_LEFT_DONE;
}

int tt_watch_exclude(struct tt_watch *watch, const int *ranks, int n)
{
  int dead = 0;
  tt_service_lock();
  for (int i = 0; watch->own && i < n; i++) dead |= tt_heartbeat_look(watch, ranks[i]);
  tt_service_unlock();
  return dead;
}

void tt_watch_spare(struct tt_watch *watch)
{
  tt_service_lock(); /* a loss that is being found is a failure before this returns, or it is none */
  atomic_store(&watch->spares, 1);
  tt_service_unlock();
}

/* ---- notices ---- */

/* A rank's notices are numbered, so that one that comes round again is recognised. */
void tt_notice_take(struct tt_watch *watch, int rank, const struct tt_notice *notice)
{
  struct tt_peer *peer = &watch->peers[rank];
  if (notice->number <= peer->notices) return;
  peer->notices = notice->number;
  if (!watch->heard) watch->heard = tt_alloc(TT_HEARD, sizeof *watch->heard);
  if (watch->heard) watch->heard[watch->nheard++ % TT_HEARD] = (struct tt_heard){rank, *notice};
  struct tt_frame frame = {.type = TT_FRAME_NOTICE, .rank = rank, .notice = *notice};
  for (int i = 0; i < watch->control.nlinks; i++)
    if (watch->control.links[i].peer != rank) tt_link_send(&watch->control.links[i], &frame);
}

void tt_notice_give(struct tt_watch *watch, struct tt_notice *notice)
{
  notice->number = watch->peers[watch->rank].notices + 1;
  tt_rank_slot_notice(watch->own, notice);
  tt_notice_take(watch, watch->rank, notice);
}

void tt_watch_notice(struct tt_watch *watch, uint64_t key, tuttiResult_t code, const char *sentence)
{
  struct tt_notice notice = {.key = key, .code = (int32_t)code};
  snprintf(notice.sentence, sizeof notice.sentence, "%s", sentence);
  tt_service_lock();
  if (watch->own) tt_notice_give(watch, &notice);
  tt_service_unlock();
}

void tt_watch_told(struct tt_watch *watch)
{
  if (atomic_load(&tt_process.forked)) return; /* the status page is not mapped there */
  tt_service_lock();
  if (watch->own) atomic_store_explicit(&watch->own->told, 1, memory_order_release);
  tt_service_unlock();
}

/* Finds the notice that `rank` has given about the communicator of this key. */
static int notice_find(const struct tt_watch *watch, int rank, uint64_t key, struct tt_notice *notice)
{
  const struct tt_peer *peer = &watch->peers[rank];
  if (peer->local && tt_rank_slot_notice_find(&watch->page.slots[tt_rank_slot_of(watch, rank)], key, notice)) return 1;
  for (uint32_t i = 0; watch->heard && i < TT_HEARD; i++) {
    const struct tt_heard *heard = &watch->heard[i];
    if (!heard->notice.number || heard->rank != rank || !tt_notice_is(&heard->notice, key)) continue;
    *notice = heard->notice;
    return 1;
  }
  return 0;
}

int tt_watch_was_unlike(struct tt_watch *watch, uint64_t key)
{
  struct tt_notice notice;
  int was = 0;
  tt_service_lock();
  for (int rank = 0; watch->own && rank < watch->nranks && !was; rank++)
    was = notice_find(watch, rank, key, &notice) && notice.other;
  tt_service_unlock();
  return was;
}

/* ---- start-ups ---- */

static tuttiResult_t notice_fail(struct tt_notice *notice)
{
  int is_error = notice->code > tuttiSuccess && notice->code < tuttiInProgress;
  notice->sentence[TT_SENTENCE_BYTES - 1] = 0;
  for (char *at = notice->sentence; *at; at++)
    if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
  return tt_fail_quiet(is_error ? (tuttiResult_t)notice->code : tuttiRemoteError, notice->sentence);
}

static tuttiResult_t lost_fail(const struct tt_watch *watch, const struct tt_startup *startup, int rank)
{
  char name[TT_RANK_TEXT_BYTES], when[48], text[TT_SENTENCE_BYTES];
  uint64_t lost = tt_page_lost(&watch->page, rank);
  tt_watch_rank_text(watch, rank, name, sizeof name);
  int exits = lost && tt_lost_how(lost) == TT_LOST_DEAD && tt_exits(watch, rank);
  if (lost)
    snprintf(text, sizeof text, "%s %s at %s, in the start-up of the %.100s or before", name,
             exits ? "exited without tuttiCommDestroy" : hows[tt_lost_how(lost)],
             tt_time_text(tt_lost_ms(lost), when, sizeof when), startup->label);
  else
    snprintf(text, sizeof text, "%s left the %.100s (%s) in the start-up of the %.100s or before", name, watch->label,
             tt_gone_aborted(tt_page_gone(&watch->page, rank)) ? "aborted" : "destroyed", startup->label);
  return tt_fail_quiet(tuttiRemoteError, text);
}

/* A rank that was late may still come, and a rank that left once it was done has done its part. */
static int is_missing(const struct tt_watch *watch, int rank, int is_last)
{
  uint64_t lost = tt_page_lost(&watch->page, rank);
  if (lost && tt_lost_how(lost) != TT_LOST_LATE) return 1;
  return !is_last && tt_page_gone(&watch->page, rank) != 0;
}

/* A member that gave up a split in the all-gather before it told all ranks so, by the failure of this watch. */
static tuttiResult_t failure_look(const struct tt_watch *watch, const struct tt_startup *startup)
{
  if (startup->is_shrink || startup->is_last || !atomic_load_explicit(&watch->failed, memory_order_acquire))
    return tuttiSuccess;
  for (int i = 0; i < startup->nmembers; i++)
    if (startup->members[i] == watch->failure.culprit)
      return tt_fail_quiet(watch->failure.code, watch->failure.sentence);
  return tuttiSuccess;
}

static tuttiResult_t look(const struct tt_watch *watch, struct tt_startup *startup, uint64_t now)
{
  struct tt_notice notice;
  int missing = -1; /* the member that was lost first, as all ranks of this host see it */
  uint64_t since = UINT64_MAX;
  for (int i = 0; i < startup->nmembers; i++) {
    int rank = startup->members[i];
    if (rank == watch->rank) continue;
    if (notice_find(watch, rank, startup->key, &notice)) return notice_fail(&notice);
    if (!is_missing(watch, rank, startup->is_last)) continue;
    uint64_t lost = tt_page_lost(&watch->page, rank);
    if (missing >= 0 && (lost ? lost : UINT64_MAX) >= since) continue;
    since = lost ? lost : UINT64_MAX;
    missing = rank;
  }
  if (missing < 0) return failure_look(watch, startup);
  if (!startup->missed_ns) startup->missed_ns = now;
  if (startup->is_last && now - startup->missed_ns < LATE_NS) return tuttiSuccess;
  return lost_fail(watch, startup, missing);
}

tuttiResult_t tt_watch_startup(struct tt_watch *watch, struct tt_startup *startup)
{
  uint64_t now = tt_now_ns();
  tuttiResult_t result = tuttiSuccess;
  if (now < startup->next_ns) return result;
  startup->next_ns = now + LOOK_NS + LOOK_MEMBER_NS * (uint64_t)startup->nmembers;
  tt_service_lock();
  if (watch->own) result = look(watch, startup, now);
  if (watch->own && startup->is_shrink && result == tuttiSuccess) result = tt_unlike_look(watch, startup);
  tt_service_unlock();
  return result;
}

int tt_watch_startup_has(struct tt_watch *watch, const struct tt_startup *startup, int rank)
{
  struct tt_target target = {.key = 0};
  struct tt_notice notice;
  tt_service_lock();
  const struct tt_rank_slot *slot = watch->own ? watch->peers[rank].slot : NULL;
  int has = slot && tt_rank_slot_target_get(slot, &target) && target.key == startup->key;
  has = has || (slot && notice_find(watch, rank, startup->key, &notice));
  tt_service_unlock();
  return has;
}
