/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/page_private.h"

#include <string.h>

#define PAGE_MAGIC 0x3164726f62747474u /* "tttbord1" */

static size_t gone_len(int nranks)
{
  size_t len = (size_t)nranks * sizeof(_Atomic uint64_t);
  return (len + TT_LINE - 1) / TT_LINE * TT_LINE;
}

size_t tt_page_len(int nranks, int nslots)
{
  return sizeof(struct tt_page_head) + 2 * gone_len(nranks) + (size_t)nslots * sizeof(struct tt_rank_slot);
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
  char *words = (char *)(head + 1);
  *page = (struct tt_page){.head = head,
                             .gone = (_Atomic uint64_t *)words,
                             .lost = (_Atomic uint64_t *)(words + gone_len(nranks)),
                             .slots = (struct tt_rank_slot *)(words + 2 * gone_len(nranks)),
                             .nranks = nranks,
                             .nslots = nslots};
  return 1;
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

/* ---- calls: collective, type, redop, algo and root share a word ---- */

static uint64_t kind_pack(const struct tt_call *call)
{
  return (uint64_t)call->collective | (uint64_t)call->type << 8 | (uint64_t)call->redop << 16 |
         (uint64_t)call->algo << 24 | (uint64_t)(uint32_t)call->root << 32;
}

static void kind_unpack(struct tt_call *call, uint64_t kind)
{
  call->collective = (uint8_t)kind;
  call->type = (uint8_t)(kind >> 8);
  call->redop = (uint8_t)(kind >> 16);
  call->algo = (uint8_t)(kind >> 24);
  call->root = (int32_t)(uint32_t)(kind >> 32);
}

void tt_rank_slot_publish(struct tt_rank_slot *slot, const struct tt_call *call)
{
  struct tt_call_line *line = &slot->calls[call->op % TT_CALLS];
  /* Each store releases the ones before it, so a reader of a new field also sees the cleared number. */
  atomic_store_explicit(&line->op, 0, memory_order_relaxed);
  atomic_store_explicit(&line->count, call->count, memory_order_release);
  atomic_store_explicit(&line->kind, kind_pack(call), memory_order_release);
  atomic_store_explicit(&line->form, call->form, memory_order_release);
  atomic_store_explicit(&line->op, call->op, memory_order_release);
  atomic_store_explicit(&slot->entered, call->op, memory_order_release);
}

int tt_rank_slot_call(const struct tt_rank_slot *slot, uint64_t op, struct tt_call *call)
{
  const struct tt_call_line *line = &slot->calls[op % TT_CALLS];
  if (op == 0 || atomic_load_explicit(&line->op, memory_order_acquire) != op) return 0;
  struct tt_call copy = {.op = op};
  copy.count = atomic_load_explicit(&line->count, memory_order_acquire);
  kind_unpack(&copy, atomic_load_explicit(&line->kind, memory_order_acquire));
  copy.form = atomic_load_explicit(&line->form, memory_order_acquire);
  if (atomic_load_explicit(&line->op, memory_order_relaxed) != op) return 0;
  *call = copy;
  return 1;
}

int tt_rank_slot_latest(const struct tt_rank_slot *slot, struct tt_call *call)
{
  /* The writer can lap a reader only by publishing TT_CALLS calls during one copy. Then the reader looks again. */
  for (int attempt = 0; attempt < 4; attempt++)
    if (tt_rank_slot_call(slot, tt_rank_slot_entered(slot), call)) return 1;
  return 0;
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
