/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes what a status page shows. The page is written meanwhile, and its writers may have any fault: each word is read
 * once, and nothing that was read is an index before it was checked. */
#include "status/status.h"

#include <string.h>

#define COMPARED_MOST 64 /* ranks with whose calls those of each rank are compared */

/* The bytes of the character of UTF-8 that begins here, if it is none that a terminal obeys; 0: it is, or is none. */
static int character_bytes(const char *text)
{
  const unsigned char *at = (const unsigned char *)text;
  if (at[0] < 0x80) return at[0] >= 0x20 && at[0] != 0x7f;
  int n = at[0] < 0xc2 || at[0] > 0xf4 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
  for (int k = 1; k < n; k++)
    if ((at[k] & 0xc0) != 0x80) return 0;
  int is_control = at[0] == 0xc2 && at[1] < 0xa0, is_half = at[0] == 0xed && at[1] > 0x9f;
  int is_long = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
  return is_control || is_half || is_long || (at[0] == 0xf4 && at[1] > 0x8f) ? 0 : n;
}

/* Other processes wrote it: bytes that would disturb a terminal, or are no text, become '?'. */
static void text_clean(char *text)
{
  while (*text) {
    int n = character_bytes(text);
    if (!n) *text = '?';
    text += n ? n : 1;
  }
}

static void text_take(char *to, const char *from, size_t size)
{
  memcpy(to, from, size);
  to[size - 1] = 0;
  text_clean(to);
}

/* A page, and the slots of its ranks: NULL for those of other hosts. */
struct view {
  const struct tt_page *page;
  const struct tt_rank_slot **slots;
  uint64_t now_ns;
};

static int view_make(struct view *view, const struct tt_page *page)
{
  *view = (struct view){page, tt_alloc((size_t)page->nranks, sizeof *view->slots), tt_now_ns()};
  int32_t host = page->head->host;
  for (int rank = 0, slot = 0; view->slots && rank < page->nranks; rank++)
    if (page->names[rank].host == host && slot < page->nslots) view->slots[rank] = &page->slots[slot++];
  return view->slots != NULL;
}

static uint64_t age_of(const struct tt_rank_slot *slot, uint64_t ticks, uint64_t now)
{
  uint64_t ns = tt_rank_slot_ns(slot, ticks);
  return ns && ns < now ? now - ns : 0;
}

static void lacks_take(struct tt_rank_status *rank, const struct tt_rank_slot *slot)
{
  uint64_t words[TT_LACKS_WORDS];
  struct tt_lacks lacks;
  if (!tt_said_get(&slot->said, words, TT_LACKS_WORDS)) return;
  memcpy(&lacks, words, sizeof lacks);
  if (lacks.magic != TT_LACKS_MAGIC || !lacks.missing || lacks.missing > lacks.all) return;
  rank->lacks = lacks;
  text_take(rank->lacks.name, lacks.name, sizeof lacks.name);
}

static void here_take(struct tt_rank_status *rank, const struct tt_rank_slot *slot, uint64_t now)
{
  struct tt_call_times times;
  rank->seen = TT_SEEN_HERE;
  rank->finished = tt_rank_slot_finished(slot);
  rank->entered = tt_rank_slot_entered(slot);
  rank->beat = atomic_load_explicit(&slot->beat, memory_order_relaxed);
  rank->moves = atomic_load_explicit(&slot->moves, memory_order_relaxed);
  uint64_t waits = atomic_load_explicit(&slot->waits, memory_order_relaxed);
  rank->waits_for = tt_waits_peer(waits);
  rank->sends = tt_waits_sends(waits);
  rank->is_inside = rank->entered > rank->finished;
  if (!tt_rank_slot_record(slot, rank->entered, &rank->call, &times)) return;
  rank->age_ns = age_of(slot, rank->is_inside ? times.began : times.ended, now);
}

/* In a container times may begin elsewhere. */
static void process_take(struct tt_rank_status *rank, const struct tt_page_name *name)
{
  pid_t here = tt_process_here(name->pid_namespace, name->pid);
  if (!here) return;
  rank->pid = here;
  tt_main_thread_read(&rank->thread, here, name->pid_namespace == tt_pid_namespace() ? name->start : 0);
}

static void rank_take(struct tt_rank_status *rank, const struct view *view, int number)
{
  const struct tt_page *page = view->page;
  const struct tt_page_name *name = &page->names[number];
  const struct tt_rank_slot *slot = view->slots[number];
  *rank = (struct tt_rank_status){.rank = number, .pid = name->pid, .waits_for = -1, .unlike = -1};
  text_take(rank->host, name->host_name, sizeof rank->host);
  rank->gone = tt_page_gone(page, number);
  rank->lost = tt_page_lost(page, number);
  if (slot) {
    here_take(rank, slot, view->now_ns);
    if (page->head->is_second == 1) lacks_take(rank, slot);
    process_take(rank, name);
  } else if (atomic_load_explicit(&page->news[number].heard_ns, memory_order_acquire)) {
    rank->seen = TT_SEEN_AFAR;
    rank->entered = atomic_load_explicit(&page->news[number].entered, memory_order_relaxed);
    rank->finished = atomic_load_explicit(&page->news[number].finished, memory_order_relaxed);
    rank->is_inside = rank->entered > rank->finished;
  }
  rank->call.op = rank->entered;
  if (rank->waits_for >= page->nranks) rank->waits_for = -1;
}

/* Notes what other ranks of the page say of the rank's last call, and of the next one: on a host with many ranks the
 * rank itself, so that a call of its own is counted, and some of the others. */
static void rank_compare(struct tt_rank_status *rank, const struct view *view)
{
  struct tt_call theirs;
  struct tt_call_times times;
  int step = view->page->nslots / COMPARED_MOST + 1;
  for (int number = 0, nth = 0; number < view->page->nranks; number++) {
    const struct tt_rank_slot *slot = view->slots[number];
    if (!slot || (nth++ % step && number != rank->rank)) continue;
    if (rank->call.collective && tt_rank_slot_call(slot, rank->entered, &theirs)) {
      int differs = tt_calls_differ(&theirs, &rank->call);
      rank->nalike += !differs;
      if (differs && rank->unlike < 0) rank->unlike = number;
      if (differs && rank->unlike == number) rank->other = theirs;
    }
    if (rank->seen == TT_SEEN_NOT || !tt_rank_slot_record(slot, rank->entered + 1, &theirs, &times)) continue;
    uint64_t age = age_of(slot, times.began, view->now_ns);
    if (age > rank->next_ns) rank->next_ns = age;
    rank->next = theirs;
  }
}

static void failure_take(struct tt_comm_status *status, const struct tt_page *page)
{
  int winner = tt_page_winner(page);
  status->has_failed = winner >= 0;
  status->goes_on = atomic_load_explicit(&page->head->goes_on, memory_order_relaxed) == 1;
  if (winner < 0) return;
  if (tt_page_failure_slot(page, winner, &status->failure)) text_clean(status->failure.sentence);
  else snprintf(status->failure.sentence, sizeof status->failure.sentence, "its failure record is damaged");
}

tuttiResult_t tt_status_take(struct tt_comm_status *status, const struct tt_page *page)
{
  struct view view;
  memset(status, 0, sizeof *status);
  status->ranks = tt_alloc((size_t)page->nranks, sizeof *status->ranks);
  if (!view_make(&view, page) || !status->ranks) {
    tt_free(view.slots);
    return tt_fail(tuttiSystemError, "no memory for %d ranks", page->nranks);
  }
  status->nranks = page->nranks;
  status->host = page->head->host;
  status->is_second = page->head->is_second == 1;
  text_take(status->label, page->head->label, sizeof status->label);
  for (int rank = 0; rank < page->nranks; rank++) {
    rank_take(&status->ranks[rank], &view, rank);
    status->nhosts += page->names[rank].host == rank;
  }
  for (int rank = 0; rank < page->nranks; rank++) rank_compare(&status->ranks[rank], &view);
  for (int c = 0; c < TT_COLLECTIVES; c++) tt_rank_slot_counted(&page->slots[0], c, &status->totals[c]);
  failure_take(status, page);
  tt_free(view.slots);
  return tuttiSuccess;
}

void tt_status_destroy(struct tt_comm_status *status)
{
  tt_free(status->ranks);
  memset(status, 0, sizeof *status);
}
