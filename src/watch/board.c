/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/board.h"

#include <string.h>

#define BOARD_MAGIC 0x3164726f62747474u /* "tttbord1" */

static size_t gone_len(int nranks)
{
  size_t len = (size_t)nranks * sizeof(_Atomic uint64_t);
  return (len + TT_LINE - 1) / TT_LINE * TT_LINE;
}

size_t tt_board_len(int nranks, int nseats)
{
  return sizeof(struct tt_board_head) + 2 * gone_len(nranks) + (size_t)nseats * sizeof(struct tt_seat);
}

void tt_board_format(void *memory, int nranks, int nseats)
{
  struct tt_board_head *head = memory;
  head->magic = BOARD_MAGIC;
  head->nranks = (uint32_t)nranks;
  head->nseats = (uint32_t)nseats;
}

int tt_board_view(struct tt_board *board, void *memory, int nranks, int nseats)
{
  struct tt_board_head *head = memory;
  if (head->magic != BOARD_MAGIC || head->nranks != (uint32_t)nranks ||
      head->nseats != (uint32_t)nseats)
    return 0;
  char *words = (char *)(head + 1);
  *board = (struct tt_board){.head = head,
                             .gone = (_Atomic uint64_t *)words,
                             .lost = (_Atomic uint64_t *)(words + gone_len(nranks)),
                             .seats = (struct tt_seat *)(words + 2 * gone_len(nranks)),
                             .nranks = nranks,
                             .nseats = nseats};
  return 1;
}

void tt_board_leave(struct tt_board *board, int rank, uint64_t gone)
{
  uint64_t in = 0;
  atomic_compare_exchange_strong_explicit(&board->gone[rank], &in, gone, memory_order_release,
                                          memory_order_relaxed);
}

void tt_board_lose(struct tt_board *board, int rank, uint64_t lost)
{
  uint64_t none = 0;
  atomic_compare_exchange_strong_explicit(&board->lost[rank], &none, lost, memory_order_release,
                                          memory_order_relaxed);
}

/* ---- notices ---- */

void tt_seat_notice(struct tt_seat *seat, const struct tt_notice *notice)
{
  uint32_t n = atomic_load_explicit(&seat->notices, memory_order_relaxed);
  seat->notice[n % TT_NOTICES] = *notice;
  atomic_store_explicit(&seat->notices, n + 1, memory_order_release);
}

int tt_seat_notice_find(const struct tt_seat *seat, uint64_t key, struct tt_notice *notice)
{
  uint32_t n = atomic_load_explicit(&seat->notices, memory_order_acquire);
  for (uint32_t i = n >= TT_NOTICES ? n - TT_NOTICES + 1 : 0; i != n; i++) { /* the oldest one may be half gone */
    if (!tt_notice_is(&seat->notice[i % TT_NOTICES], key)) continue;
    *notice = seat->notice[i % TT_NOTICES];
    atomic_thread_fence(memory_order_acquire);
    /* The next one may be half written by now. */
    if (atomic_load_explicit(&seat->notices, memory_order_relaxed) - i < TT_NOTICES && tt_notice_is(notice, key))
      return 1;
  }
  return 0;
}

/* ---- targets ---- */

void tt_seat_target_set(struct tt_seat *seat, const struct tt_target *target)
{
  /* As with calls, each store releases the ones before it. The key stays while the members do. */
  if (atomic_load_explicit(&seat->target_key, memory_order_relaxed) != target->key)
    atomic_store_explicit(&seat->target_key, 0, memory_order_relaxed);
  for (int i = 0; i < TT_TARGET_WORDS; i++)
    atomic_store_explicit(&seat->target_members[i], target->members[i], memory_order_release);
  atomic_store_explicit(&seat->target_against, target->against, memory_order_release);
  atomic_store_explicit(&seat->target_key, target->key, memory_order_release);
}

int tt_seat_target_get(const struct tt_seat *seat, struct tt_target *target)
{
  target->key = atomic_load_explicit(&seat->target_key, memory_order_acquire);
  if (!target->key) return 0;
  target->against = atomic_load_explicit(&seat->target_against, memory_order_acquire);
  for (int i = 0; i < TT_TARGET_WORDS; i++)
    target->members[i] = atomic_load_explicit(&seat->target_members[i], memory_order_acquire);
  return atomic_load_explicit(&seat->target_key, memory_order_relaxed) == target->key;
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

void tt_seat_publish(struct tt_seat *seat, const struct tt_call *call)
{
  struct tt_call_line *line = &seat->calls[call->op % TT_CALLS];
  /* Each store releases the ones before it: whoever reads a new field also sees the cleared number. */
  atomic_store_explicit(&line->op, 0, memory_order_relaxed);
  atomic_store_explicit(&line->count, call->count, memory_order_release);
  atomic_store_explicit(&line->kind, kind_pack(call), memory_order_release);
  atomic_store_explicit(&line->form, call->form, memory_order_release);
  atomic_store_explicit(&line->op, call->op, memory_order_release);
  atomic_store_explicit(&seat->entered, call->op, memory_order_release);
}

int tt_seat_call(const struct tt_seat *seat, uint64_t op, struct tt_call *call)
{
  const struct tt_call_line *line = &seat->calls[op % TT_CALLS];
  if (op == 0 || atomic_load_explicit(&line->op, memory_order_acquire) != op) return 0;
  struct tt_call copy = {.op = op};
  copy.count = atomic_load_explicit(&line->count, memory_order_acquire);
  kind_unpack(&copy, atomic_load_explicit(&line->kind, memory_order_acquire));
  copy.form = atomic_load_explicit(&line->form, memory_order_acquire);
  if (atomic_load_explicit(&line->op, memory_order_relaxed) != op) return 0;
  *call = copy;
  return 1;
}

int tt_seat_latest(const struct tt_seat *seat, struct tt_call *call)
{
  /* The writer can lap a reader only by publishing TT_CALLS calls during one copy: look again then. */
  for (int attempt = 0; attempt < 4; attempt++)
    if (tt_seat_call(seat, tt_seat_entered(seat), call)) return 1;
  return 0;
}

/* ---- the failure record ---- */

void tt_board_record(struct tt_board *board, int seat, const struct tt_failure *failure)
{
  struct tt_slip *slip = &board->seats[seat].slip;
  slip->code = (int32_t)failure->code;
  slip->culprit = failure->culprit;
  slip->detector = failure->detector;
  slip->op = failure->op;
  memcpy(slip->sentence, failure->sentence, sizeof slip->sentence);
  uint32_t nobody = 0;
  atomic_compare_exchange_strong_explicit(&board->head->winner, &nobody, (uint32_t)seat + 1,
                                          memory_order_release, memory_order_acquire);
}

int tt_board_winner(const struct tt_board *board)
{
  uint32_t winner = atomic_load_explicit(&board->head->winner, memory_order_acquire);
  if (winner == 0) return -1;
  return winner <= (uint32_t)board->nseats ? (int)winner - 1 : board->nseats;
}

int tt_board_slip(const struct tt_board *board, int seat, struct tt_failure *failure)
{
  struct tt_slip slip;
  if (seat < 0 || seat >= board->nseats) return 0;
  memcpy(&slip, &board->seats[seat].slip, sizeof slip);
  failure->code = (tuttiResult_t)slip.code;
  failure->culprit = slip.culprit;
  failure->detector = slip.detector;
  failure->op = slip.op;
  memcpy(failure->sentence, slip.sentence, sizeof failure->sentence);
  return tt_failure_check(failure, board->nranks);
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
