/* SPDX-License-Identifier: BSD-3-Clause */
/* A hash table with linear probing, in which an entry lives only while something waits. */
#include "sim/private.h"

static int is_same(const struct tt_sim_box *a, const struct tt_sim_box *b)
{
  return a->to == b->to && a->from == b->from && a->lane_channel == b->lane_channel;
}

static size_t home(const struct tt_sim_mail *mail, const struct tt_sim_box *box)
{
  uint64_t key = (uint64_t)(uint32_t)box->to << 32 | (uint32_t)box->from;
  key = (key ^ (uint64_t)box->lane_channel << 20) * 0x9e3779b97f4a7c15u;
  return (size_t)(key ^ key >> 29) & (mail->room - 1);
}

/* The entry, or the free place where it would be. */
static struct tt_sim_box *find(const struct tt_sim_mail *mail, const struct tt_sim_box *where)
{
  size_t at = home(mail, where);
  while (mail->boxes[at].there && !is_same(&mail->boxes[at], where)) at = (at + 1) & (mail->room - 1);
  return &mail->boxes[at];
}

static int grow(struct tt_sim_mail *mail)
{
  struct tt_sim_mail larger = {.n = mail->n, .room = mail->room ? 2 * mail->room : 1024};
  larger.boxes = tt_alloc(larger.room, sizeof *larger.boxes);
  if (!larger.boxes) return 0;
  for (size_t i = 0; i < mail->room; i++)
    if (mail->boxes[i].there) *find(&larger, &mail->boxes[i]) = mail->boxes[i];
  tt_free(mail->boxes);
  *mail = larger;
  return 1;
}

static int add(struct tt_sim_mail *mail, struct tt_sim_box *box, const struct tt_sim_box *where, int32_t there)
{
  *box = *where;
  box->there = there;
  return ++mail->n < mail->room / 2 || grow(mail);
}

/* Moves up the entries after the hole that were displaced by the erased one. */
static void erase(struct tt_sim_mail *mail, struct tt_sim_box *box)
{
  size_t mask = mail->room - 1, hole = (size_t)(box - mail->boxes);
  for (size_t at = (hole + 1) & mask; mail->boxes[at].there; at = (at + 1) & mask) {
    size_t from_home = (at - home(mail, &mail->boxes[at])) & mask, from_hole = (at - hole) & mask;
    if (from_home < from_hole) continue;
    mail->boxes[hole] = mail->boxes[at];
    hole = at;
  }
  mail->boxes[hole].there = 0;
  mail->n--;
}

int32_t tt_sim_mail_put(struct tt_sim_mail *mail, const struct tt_sim_box *where)
{
  if (!mail->room && !grow(mail)) return -2;
  struct tt_sim_box *box = find(mail, where);
  if (box->there < 0) {
    int32_t step = -1 - box->there;
    erase(mail, box);
    return step;
  }
  if (box->there) {
    box->there++;
    return -1;
  }
  return add(mail, box, where, 1) ? -1 : -2;
}

int tt_sim_mail_take(struct tt_sim_mail *mail, const struct tt_sim_box *where, int32_t step)
{
  if (!mail->room && !grow(mail)) return -1;
  struct tt_sim_box *box = find(mail, where);
  if (box->there > 0) {
    if (box->there > 1) box->there--;
    else erase(mail, box);
    return 1;
  }
  return add(mail, box, where, -1 - step) ? 0 : -1;
}
