/* SPDX-License-Identifier: BSD-3-Clause */
/* Straight into place: the question, its answer, and the writes, as verbs_private.h specifies them. */
#include <string.h>

#include "transport/verbs_private.h"

static size_t answer_at(const struct verbs_link *link, int is_outgoing)
{
  return 2 * link->slots * link->slot_bytes + (is_outgoing ? VERBS_ANSWER_BYTES : 0);
}

/* ---- sending ---- */

void tt_verbs_refusals_begin(struct verbs_refusals *refusals, uint64_t word)
{
  uint32_t shape = (uint32_t)(word & ~TT_WORD_OVERFLOW), op = tt_word_op(word);
  if (shape != refusals->shape) *refusals = (struct verbs_refusals){.shape = shape, .op = op};
  else if (op != refusals->op) refusals->number = 0;
  else refusals->number++;
  refusals->op = op;
}

static void refusals_learn(struct verbs_refusals *refusals)
{
  uint32_t number = refusals->number;
  if (number / 64 < VERBS_REFUSALS_WORDS) refusals->reduced[number / 64] |= (uint64_t)1 << number % 64;
}

/* 1: the message of this number was reduced before. */
static int is_reduced(const struct verbs_refusals *refusals)
{
  uint32_t number = refusals->number;
  return number / 64 < VERBS_REFUSALS_WORDS && (refusals->reduced[number / 64] >> number % 64 & 1);
}

int tt_verbs_should_ask(const struct verbs_link *link, const void *data, size_t len)
{
  const struct verbs_sender *out = &link->out;
  return out->asked == VERBS_MAY_ASK && link->direct_bytes && len >= link->direct_bytes && len == out->len &&
         !is_reduced(&out->refusals) && len >= 32 && /* a question carries 16 bytes, and leaves some */
         tt_verbs_memory_find(link->device->memory, data, len);
}

ssize_t tt_verbs_answer_take(struct verbs_link *link, enum verbs_kind kind, uint32_t number)
{
  struct verbs_sender *out = &link->out;
  struct verbs_answer answer;
  if (out->asked != VERBS_ASKED) return tt_verbs_break(link, "the peer answered what it was not asked");
  out->asked = VERBS_NO_MORE;
  if (kind == VERBS_REFUSAL && number == VERBS_REDUCES) refusals_learn(&out->refusals);
  if (kind == VERBS_REFUSAL) return 1;
  memcpy(&answer, link->memory + answer_at(link, 0), sizeof answer);
  if (answer.len != out->left)
    return tt_verbs_break(link, "the peer has room for %llu bytes where %llu are left", (unsigned long long)answer.len,
                          (unsigned long long)out->left);
  out->to = answer.address;
  out->key = answer.rkey;
  out->asked = VERBS_GRANTED;
  return 1;
}

ssize_t tt_verbs_direct_write(struct verbs_link *link, const void *data, size_t len)
{
  struct verbs_sender *out = &link->out;
  if (len > VERBS_WRITE_BYTES) len = VERBS_WRITE_BYTES;
  if (!tt_verbs_has_place(link, VERBS_SIGNAL_MOST)) {
    ssize_t n = tt_verbs_link_pull(link);
    if (n < 0 || !tt_verbs_has_place(link, VERBS_SIGNAL_MOST)) return n < 0 ? n : 0;
  }
  struct ibv_mr *mr = tt_verbs_memory_find(link->device->memory, data, len);
  if (!mr) return tt_verbs_break(link, "memory at %p was taken away while it was sent", data);
  int is_last = len == out->left;
  struct verbs_write write = {
      .pieces = {{(uintptr_t)data, (uint32_t)len, mr->lkey}}, .to = out->to, .key = out->key, .is_signaled = 1};
  if (tt_verbs_post(link, is_last ? VERBS_WRITTEN : VERBS_SILENT, &write) < 0) return TT_LINK_BROKEN;
  if (is_last) out->ended = out->posted;
  out->left -= len;
  out->to += len;
  out->directs += (uint64_t)is_last;
  tt_verbs_lend(out, out->posted, len);
  return (ssize_t)len;
}

/* ---- receiving ---- */

void tt_verbs_answer(struct verbs_link *link, void *to, size_t room)
{
  struct verbs_receiver *in = &link->in;
  struct ibv_mr *mr = NULL;
  in->asked = 0;
  if (to && room >= in->left && link->direct_bytes) mr = tt_verbs_memory_find(link->device->memory, to, in->left);
  in->answer = mr ? VERBS_GRANT : VERBS_REFUSAL;
  in->is_reducing = !to;
  if (mr) {
    in->granted = in->left - in->shown;
    in->grant = (struct verbs_answer){(uintptr_t)to + in->shown, in->granted, mr->rkey, 0};
  }
  tt_verbs_answer_post(link);
}

/* The device may read the place of the previous answer until that answer's completion is there. */
void tt_verbs_answer_post(struct verbs_link *link)
{
  struct verbs_receiver *in = &link->in;
  enum verbs_kind kind = in->answer;
  if (link->is_broken || !tt_verbs_has_place(link, 0) || link->out.retired < in->answered) return;
  struct verbs_write write = {.is_signaled = 1};
  if (kind == VERBS_GRANT) {
    uint8_t *place = link->memory + answer_at(link, 1);
    memcpy(place, &in->grant, sizeof in->grant);
    write.pieces[0] = (struct ibv_sge){(uintptr_t)place, sizeof in->grant, link->mr->lkey};
    write.to = link->ring + answer_at(link, 0);
    write.key = link->rkey;
  }
  in->answer = 0;
  if (tt_verbs_post(link, kind, &write) > 0) in->answered = link->out.posted;
}

ssize_t tt_verbs_written_take(struct verbs_link *link, size_t len)
{
  struct verbs_receiver *in = &link->in;
  if (!in->granted || in->answer || in->is_written || len > in->granted)
    return tt_verbs_break(link, "the peer wrote %zu bytes into place that nobody had granted", len);
  in->is_written = 1;
  return 1;
}
