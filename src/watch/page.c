/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/page.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/call.h"
#include "base/time.h"

#define PAGE_MAGIC 0x3564726f62747474u /* "tttbord5"; the digit is the version's */
#define PAGE_NAME_BYTES 7
#define PAGE_RANKS 1048576

/* n structs, as whole cache lines. */
static size_t lines_len(int n, size_t size)
{
  return ((size_t)n * size + TT_LINE - 1) / TT_LINE * TT_LINE;
}

size_t tt_page_len(int nranks, int nslots)
{
  return sizeof(struct tt_page_head) + 2 * lines_len(nranks, sizeof(uint64_t)) +
         lines_len(nranks, sizeof(struct tt_page_name)) + lines_len(nranks, sizeof(struct tt_page_news)) +
         (size_t)nslots * sizeof(struct tt_rank_slot);
}

void tt_page_format(void *memory, int nranks, int nslots)
{
  struct tt_page_head *head = memory;
  head->magic = PAGE_MAGIC;
  head->nranks = (uint32_t)nranks;
  head->nslots = (uint32_t)nslots;
}

int tt_page_view(struct tt_page *page, void *memory, int nranks, int nslots)
{
  struct tt_page_head *head = memory;
  if (head->magic != PAGE_MAGIC || head->nranks != (uint32_t)nranks ||
      head->nslots != (uint32_t)nslots)
    return 0;
  char *at = (char *)(head + 1);
  *page = (struct tt_page){.head = head, .nranks = nranks, .nslots = nslots};
  page->gone = (_Atomic uint64_t *)at;
  at += lines_len(nranks, sizeof *page->gone);
  page->lost = (_Atomic uint64_t *)at;
  at += lines_len(nranks, sizeof *page->lost);
  page->names = (struct tt_page_name *)at;
  at += lines_len(nranks, sizeof *page->names);
  page->news = (struct tt_page_news *)at;
  at += lines_len(nranks, sizeof *page->news);
  page->slots = (struct tt_rank_slot *)at;
  return 1;
}

int tt_page_read(struct tt_page *page, void *memory, size_t len)
{
  const struct tt_page_head *head = memory;
  if (len < sizeof *head) return 0;
  uint32_t nranks = head->nranks, nslots = head->nslots;
  if (nranks < 1 || nranks > PAGE_RANKS || nslots < 1 || nslots > nranks) return 0;
  return tt_page_len((int)nranks, (int)nslots) == len && tt_page_view(page, memory, (int)nranks, (int)nslots);
}

int tt_page_is_other(const void *memory, size_t len)
{
  const uint64_t magic = PAGE_MAGIC;
  return len >= sizeof magic && memcmp(memory, &magic, PAGE_NAME_BYTES) == 0 &&
         memcmp(memory, &magic, sizeof magic) != 0;
}

void tt_page_introduce(struct tt_page *page, const struct tt_member *members, int rank, const char *label,
                       int is_second)
{
  page->head->host = members[rank].host_index;
  page->head->is_second = is_second;
  snprintf(page->head->label, sizeof page->head->label, "%s", label);
  for (int r = 0; r < page->nranks; r++) {
    struct tt_page_name *name = &page->names[r];
    *name = (struct tt_page_name){.pid = members[r].pid,
                                  .host = members[r].host_index,
                                  .start = members[r].start,
                                  .pid_namespace = members[r].pid_namespace};
    snprintf(name->host_name, sizeof name->host_name, "%s", members[r].host_name);
  }
}

/* Several ranks of the host may write, the same or nearly. */
void tt_page_hear(struct tt_page *page, int rank, uint64_t entered, uint64_t finished)
{
  struct tt_page_news *news = &page->news[rank];
  if (entered > atomic_load_explicit(&news->entered, memory_order_relaxed))
    atomic_store_explicit(&news->entered, entered, memory_order_relaxed);
  if (finished > atomic_load_explicit(&news->finished, memory_order_relaxed))
    atomic_store_explicit(&news->finished, finished, memory_order_relaxed);
  atomic_store_explicit(&news->heard_ns, tt_now_ns(), memory_order_release);
}

void tt_page_leave(struct tt_page *page, int rank, uint64_t gone)
{
  uint64_t in = 0;
  atomic_compare_exchange_strong_explicit(&page->gone[rank], &in, gone, memory_order_release,
                                          memory_order_relaxed);
}

void tt_page_lose(struct tt_page *page, int rank, uint64_t lost)
{
  uint64_t none = 0;
  atomic_compare_exchange_strong_explicit(&page->lost[rank], &none, lost, memory_order_release,
                                          memory_order_relaxed);
}

/* ---- notices ---- */

void tt_rank_slot_notice(struct tt_rank_slot *slot, const struct tt_notice *notice)
{
  uint32_t n = atomic_load_explicit(&slot->notices, memory_order_relaxed);
  slot->notice[n % TT_NOTICES] = *notice;
  atomic_store_explicit(&slot->notices, n + 1, memory_order_release);
}

int tt_rank_slot_notice_find(const struct tt_rank_slot *slot, uint64_t key, struct tt_notice *notice)
{
  uint32_t n = atomic_load_explicit(&slot->notices, memory_order_acquire);
  for (uint32_t i = n >= TT_NOTICES ? n - TT_NOTICES + 1 : 0; i != n; i++) { /* the oldest one may be half gone */
    if (!tt_notice_is(&slot->notice[i % TT_NOTICES], key)) continue;
    *notice = slot->notice[i % TT_NOTICES];
    atomic_thread_fence(memory_order_acquire);
    /* The next one may be half written by now. */
    if (atomic_load_explicit(&slot->notices, memory_order_relaxed) - i < TT_NOTICES && tt_notice_is(notice, key))
      return 1;
  }
  return 0;
}

/* ---- targets ---- */

void tt_rank_slot_target_set(struct tt_rank_slot *slot, const struct tt_target *target)
{
  /* As with calls, each store releases the ones before it. An unchanged key stays, since its members do not change. */
  if (atomic_load_explicit(&slot->target_key, memory_order_relaxed) != target->key)
    atomic_store_explicit(&slot->target_key, 0, memory_order_relaxed);
  for (int i = 0; i < TT_TARGET_WORDS; i++)
    atomic_store_explicit(&slot->target_members[i], target->members[i], memory_order_release);
  atomic_store_explicit(&slot->target_against, target->against, memory_order_release);
  atomic_store_explicit(&slot->target_key, target->key, memory_order_release);
}

int tt_rank_slot_target_get(const struct tt_rank_slot *slot, struct tt_target *target)
{
  target->key = atomic_load_explicit(&slot->target_key, memory_order_acquire);
  if (!target->key) return 0;
  target->against = atomic_load_explicit(&slot->target_against, memory_order_acquire);
  for (int i = 0; i < TT_TARGET_WORDS; i++)
    target->members[i] = atomic_load_explicit(&slot->target_members[i], memory_order_acquire);
  return atomic_load_explicit(&slot->target_key, memory_order_relaxed) == target->key;
}

/* ---- words for a layer above ---- */

void tt_said_set(struct tt_said *said, uint64_t number, const uint64_t *words, int n)
{
  atomic_store_explicit(&said->number, 2 * number - 1, memory_order_relaxed);
  for (int i = 0; i < n; i++) atomic_store_explicit(&said->words[i], words[i], memory_order_release);
  atomic_store_explicit(&said->number, 2 * number, memory_order_release);
}

uint64_t tt_said_get(const struct tt_said *said, uint64_t *words, int n)
{
  uint64_t number = atomic_load_explicit(&said->number, memory_order_acquire);
  if (!number || number % 2) return 0;
  for (int i = 0; i < n; i++) words[i] = atomic_load_explicit(&said->words[i], memory_order_acquire);
  return atomic_load_explicit(&said->number, memory_order_relaxed) == number ? number / 2 : 0;
}

/* ---- calls: collective, type, redop, algo and root share a word ---- */

#define KIND offsetof(struct tt_call, collective)
_Static_assert(offsetof(struct tt_call, root) + sizeof(int32_t) == KIND + sizeof(uint64_t), "they are one word");

static inline uint64_t kind_pack(const struct tt_call *call)
{
  uint64_t kind;
  memcpy(&kind, (const char *)call + KIND, sizeof kind);
  return kind;
}

static void kind_unpack(struct tt_call *call, uint64_t kind)
{
  memcpy((char *)call + KIND, &kind, sizeof kind);
}

/* Each store releases the ones before it, so a reader of a new field also sees the cleared number. */
static inline struct tt_call_line *line_write(struct tt_rank_slot *slot, const struct tt_call *call, uint64_t began)
{
  struct tt_call_line *line = &slot->calls[call->op % TT_CALLS];
  atomic_store_explicit(&line->op, 0, memory_order_relaxed);
  atomic_store_explicit(&line->count, call->count, memory_order_release);
  atomic_store_explicit(&line->kind, kind_pack(call), memory_order_release);
  atomic_store_explicit(&line->form, call->form, memory_order_release);
  atomic_store_explicit(&line->began, began, memory_order_release);
  return line;
}

static inline void line_end(struct tt_call_line *line, struct tt_rank_slot *slot, uint64_t op)
{
  atomic_store_explicit(&line->op, op, memory_order_release);
  atomic_store_explicit(&slot->entered, op, memory_order_release);
}

void tt_rank_slot_publish(struct tt_rank_slot *slot, const struct tt_call *call)
{
  tt_rank_slot_enter(slot, call, 0);
}

void tt_rank_slot_enter(struct tt_rank_slot *slot, const struct tt_call *call, uint64_t began)
{
  struct tt_call_line *line = line_write(slot, call, began);
  atomic_store_explicit(&line->ended, 0, memory_order_release);
  line_end(line, slot, call->op);
}

/* One thread writes, so sums need no atomic additions. */
static inline void total_add(_Atomic uint64_t *total, uint64_t more)
{
  atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + more, memory_order_relaxed);
}

static inline struct tt_total *count(struct tt_rank_slot *slot, const struct tt_call *call, size_t bytes)
{
  struct tt_total *total = &slot->totals[call->collective];
  total_add(&total->calls, 1);
  total_add(&total->bytes, bytes);
  return total;
}

void tt_rank_slot_end(struct tt_rank_slot *slot, const struct tt_call *call, size_t bytes, uint64_t ended)
{
  struct tt_call_line *line = &slot->calls[call->op % TT_CALLS];
  uint64_t ticks = ended - atomic_load_explicit(&line->began, memory_order_relaxed);
  atomic_store_explicit(&line->ended, ended, memory_order_relaxed);
  total_add(&count(slot, call, bytes)->ticks, ticks);
  tt_rank_slot_finish(slot, call->op);
}

void tt_rank_slot_pass(struct tt_rank_slot *slot, const struct tt_call *call, size_t bytes, uint64_t began)
{
  struct tt_total *total = count(slot, call, bytes);
  if (!began) began = atomic_load_explicit(&slot->moments.ticks, memory_order_relaxed) | TT_COARSE | TT_BRIEF;
  else if (call->op % TT_TIMED_EVERY) began |= TT_BRIEF;
  struct tt_call_line *line = line_write(slot, call, began);
  if (!(began & TT_BRIEF)) {
    uint64_t ended = tt_watch_time();
    atomic_store_explicit(&line->ended, ended, memory_order_release);
    total_add(&total->ticks, TT_TIMED_EVERY * (ended - began));
  }
  line_end(line, slot, call->op);
  tt_rank_slot_finish(slot, call->op);
  __builtin_prefetch(line + 1, 1);
}

int tt_rank_slot_record(const struct tt_rank_slot *slot, uint64_t op, struct tt_call *call,
                        struct tt_call_times *times)
{
  const struct tt_call_line *line = &slot->calls[op % TT_CALLS];
  if (op == 0 || atomic_load_explicit(&line->op, memory_order_acquire) != op) return 0;
  struct tt_call copy = {.op = op};
  copy.count = atomic_load_explicit(&line->count, memory_order_acquire);
  kind_unpack(&copy, atomic_load_explicit(&line->kind, memory_order_acquire));
  copy.form = atomic_load_explicit(&line->form, memory_order_acquire);
  struct tt_call_times at = {.began = atomic_load_explicit(&line->began, memory_order_acquire)};
  at.ended = at.began & TT_BRIEF ? at.began | TT_COARSE : atomic_load_explicit(&line->ended, memory_order_acquire);
  if (atomic_load_explicit(&line->op, memory_order_relaxed) != op) return 0;
  *call = copy;
  *times = at;
  return 1;
}

int tt_rank_slot_call(const struct tt_rank_slot *slot, uint64_t op, struct tt_call *call)
{
  struct tt_call_times times;
  return tt_rank_slot_record(slot, op, call, &times);
}

int tt_rank_slot_latest(const struct tt_rank_slot *slot, struct tt_call *call)
{
  /* The writer can lap a reader only by publishing TT_CALLS calls during one copy. Then the reader looks again. */
  for (int attempt = 0; attempt < 4; attempt++)
    if (tt_rank_slot_call(slot, tt_rank_slot_entered(slot), call)) return 1;
  return 0;
}

/* ---- clocks ---- */

/* As with calls: `ns` is cleared first and written last, and no two beats have the same. */
void tt_rank_slot_beat(struct tt_rank_slot *slot)
{
  struct tt_moments *moments = &slot->moments;
  uint64_t ticks = tt_ticks(), ns = tt_now_ns();
  if (!atomic_load_explicit(&moments->first_ns, memory_order_relaxed)) {
    atomic_store_explicit(&moments->first_ticks, ticks, memory_order_relaxed);
    atomic_store_explicit(&moments->first_ns, ns, memory_order_relaxed);
  }
  atomic_store_explicit(&moments->ns, 0, memory_order_relaxed);
  atomic_store_explicit(&moments->ticks, ticks, memory_order_release);
  atomic_store_explicit(&moments->ns, ns, memory_order_release);
  atomic_fetch_add_explicit(&slot->beat, 1, memory_order_release);
}

uint64_t tt_rank_slot_ns(const struct tt_rank_slot *slot, uint64_t ticks)
{
  const struct tt_moments *moments = &slot->moments;
  uint64_t ns = 0, last = 0;
  for (int attempt = 0; attempt < 4 && !ns; attempt++) {
    ns = atomic_load_explicit(&moments->ns, memory_order_acquire);
    last = atomic_load_explicit(&moments->ticks, memory_order_acquire);
    if (atomic_load_explicit(&moments->ns, memory_order_relaxed) != ns) ns = 0;
  }
  uint64_t first = atomic_load_explicit(&moments->first_ticks, memory_order_relaxed);
  uint64_t first_ns = atomic_load_explicit(&moments->first_ns, memory_order_relaxed);
  if (!ticks || !first_ns) return 0;
  if (ticks < first || last <= first || ns <= first_ns) return first_ns;
  double rate = (double)(ns - first_ns) / (double)(last - first);
  return ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - last) * rate);
}

void tt_rank_slot_counted(const struct tt_rank_slot *slot, int collective, struct tt_call_count *counted)
{
  const struct tt_total *total = &slot->totals[collective];
  uint64_t base = atomic_load_explicit(&slot->moments.first_ticks, memory_order_relaxed);
  uint64_t ticks = atomic_load_explicit(&total->ticks, memory_order_relaxed);
  uint64_t begin = tt_rank_slot_ns(slot, base), end = tt_rank_slot_ns(slot, base + ticks);
  counted->calls = atomic_load_explicit(&total->calls, memory_order_relaxed);
  counted->bytes = atomic_load_explicit(&total->bytes, memory_order_relaxed);
  counted->ns = begin && end > begin ? end - begin : 0;
}

/* ---- the failure record ---- */

void tt_page_record(struct tt_page *page, int slot, const struct tt_failure *failure)
{
  struct tt_failure_slot *failure_slot = &page->slots[slot].failure_slot;
  failure_slot->code = (int32_t)failure->code;
  failure_slot->culprit = failure->culprit;
  failure_slot->detector = failure->detector;
  failure_slot->op = failure->op;
  memcpy(failure_slot->sentence, failure->sentence, sizeof failure_slot->sentence);
  uint32_t nobody = 0;
  atomic_compare_exchange_strong_explicit(&page->head->winner, &nobody, (uint32_t)slot + 1,
                                          memory_order_release, memory_order_acquire);
}

int tt_page_winner(const struct tt_page *page)
{
  uint32_t winner = atomic_load_explicit(&page->head->winner, memory_order_acquire);
  if (winner == 0) return -1;
  return winner <= (uint32_t)page->nslots ? (int)winner - 1 : page->nslots;
}

int tt_page_failure_slot(const struct tt_page *page, int slot, struct tt_failure *failure)
{
  struct tt_failure_slot failure_slot;
  if (slot < 0 || slot >= page->nslots) return 0;
  memcpy(&failure_slot, &page->slots[slot].failure_slot, sizeof failure_slot);
  failure->code = (tuttiResult_t)failure_slot.code;
  failure->culprit = failure_slot.culprit;
  failure->detector = failure_slot.detector;
  failure->op = failure_slot.op;
  memcpy(failure->sentence, failure_slot.sentence, sizeof failure->sentence);
  return tt_failure_check(failure, page->nranks);
}

int tt_failure_check(struct tt_failure *failure, int nranks)
{
  int code = (int)failure->code;
  if (code <= tuttiSuccess || code >= tuttiNumResults || code == tuttiInProgress) return 0;
  if (failure->culprit < -1 || failure->culprit >= nranks) return 0;
  if (failure->detector < 0 || failure->detector >= nranks) return 0;
  char *text = failure->sentence;
  text[TT_SENTENCE_BYTES - 1] = 0;
  for (; *text; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
  return 1;
}
