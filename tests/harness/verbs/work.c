/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests: posted, done in drawn order, told. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

static struct fake_qp *all; /* of this process, under the segment's mutex */

static struct qp *of(const struct fake_qp *qp)
{
  return &fake_segment->qps[qp->slot];
}

static struct send *entry(const struct fake_qp *qp, uint64_t n)
{
  return &qp->ring[n % (qp->cap.max_send_wr ? qp->cap.max_send_wr : 1)];
}

void fake_qp_add(struct fake_qp *qp)
{
  qp->next = all;
  all = qp;
}

void fake_qp_remove(struct fake_qp *qp)
{
  struct fake_qp **at = &all;
  while (*at && *at != qp) at = &(*at)->next;
  if (*at) *at = qp->next;
}

struct qp *fake_qp_of(uint32_t number)
{
  struct qp *qp = &fake_segment->qps[number % QPS];
  return qp->number == number && !fake_is_free(&qp->owner) ? qp : NULL;
}

void fake_qp_break(struct qp *qp)
{
  qp->state = IBV_QPS_ERR;
  fake_poke(); /* its process flushes what it has posted */
}

/* ---- posting ---- */

static int is_send_bad(const struct fake_qp *qp, const struct ibv_send_wr *wr, uint64_t len)
{
  if (wr->num_sge < 0 || wr->num_sge > (int)qp->cap.max_send_sge) return EINVAL;
  if (wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM && wr->opcode != IBV_WR_SEND &&
      wr->opcode != IBV_WR_SEND_WITH_IMM && wr->opcode != IBV_WR_RDMA_READ)
    return EINVAL;
  if ((wr->send_flags & IBV_SEND_INLINE) && (len > qp->cap.max_inline_data || wr->opcode == IBV_WR_RDMA_READ))
    return EINVAL;
  if (qp->posted - qp->freed >= qp->cap.max_send_wr) return ENOMEM;
  return len > 1u << 30 ? EINVAL : 0;
}

static int take_send(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
  uint64_t len = 0, now = fake_now_ns();
  for (int i = 0; i < wr->num_sge; i++) len += wr->sg_list[i].length;
  int code = is_send_bad(qp, wr, len);
  if (code) return code;
  struct send *send = entry(qp, qp->posted);
  memset(send, 0, offsetof(struct send, bytes));
  send->id = wr->wr_id;
  send->serial = ++fake_segment->serial;
  send->opcode = (int)wr->opcode;
  send->flags = (int)wr->send_flags;
  send->imm = wr->imm_data;
  send->address = wr->wr.rdma.remote_addr;
  send->rkey = wr->wr.rdma.rkey;
  send->len = len;
  send->nsge = wr->num_sge;
  char *bytes = send->bytes;
  for (int i = 0; i < wr->num_sge; i++) {
    send->sge[i] = wr->sg_list[i];
    if (!(wr->send_flags & IBV_SEND_INLINE)) continue;
    memcpy(bytes, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
    bytes += wr->sg_list[i].length;
  }
  send->move_ns = now + fake_draw(1000 * (uint64_t)SETTINGS.delay_us + 1);
  qp->posted++;
  COUNTS.sends++;
  COUNTS.inlines += (wr->send_flags & IBV_SEND_INLINE) != 0;
  if (SETTINGS.scribble && of(qp)->state == IBV_QPS_RTS) fake_scribble(qp, send);
  return 0;
}

int fake_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
  struct fake_qp *qp = (struct fake_qp *)ibv_qp;
  int code = fake_fails("ibv_post_send");
  fake_lock();
  int state = of(qp)->state;
  if (!code && state != IBV_QPS_RTS && state != IBV_QPS_ERR) code = EINVAL;
  for (; wr && !code; wr = wr->next) {
    code = take_send(qp, wr);
    if (code) break;
  }
  if (code) *bad = wr;
  fake_unlock();
  fake_poke();
  return code;
}

int fake_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
  struct fake_qp *mine = (struct fake_qp *)ibv_qp;
  struct qp *qp = of(mine);
  int code = fake_fails("ibv_post_recv");
  fake_lock();
  if (!code && qp->state == IBV_QPS_RESET) code = EINVAL;
  for (; wr && !code; wr = wr->next) {
    if (qp->posted - qp->freed >= (uint64_t)qp->depth) code = ENOMEM;
    if (wr->num_sge < 0 || wr->num_sge > (int)mine->cap.max_recv_sge) code = EINVAL;
    if (code) break;
    struct receive *receive = &qp->ring[qp->posted++ % DEPTH];
    receive->id = wr->wr_id;
    receive->nsge = wr->num_sge;
    for (int i = 0; i < wr->num_sge; i++) receive->sge[i] = wr->sg_list[i];
    COUNTS.receives++;
  }
  if (code) *bad = wr;
  fake_unlock();
  fake_poke();
  return code;
}

/* Its places are free. */
void fake_polled(const struct cqe *cqe)
{
  struct qp *qp = fake_qp_of(cqe->wc.qp_num);
  if (!qp) return;
  if (cqe->is_recv) {
    if (qp->freed < cqe->end) qp->freed = cqe->end;
    return;
  }
  struct fake_qp *mine = qp->owner.object;
  if (mine->freed < cqe->end) mine->freed = cqe->end;
}

/* ---- doing ---- */

static void tell_send(struct fake_qp *qp, const struct send *send, int status)
{
  static const enum ibv_wc_opcode opcodes[] = {
      [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
      [IBV_WR_SEND] = IBV_WC_SEND,             [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
      [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ};
  qp->told++;
  if (status == IBV_WC_SUCCESS && !(send->flags & IBV_SEND_SIGNALED) && !qp->all_signaled) return;
  struct cqe cqe = {.wc = {.wr_id = send->id, .status = (enum ibv_wc_status)status, .qp_num = qp->qp.qp_num},
                    .end = qp->told};
  cqe.wc.opcode = opcodes[send->opcode];
  cqe.wc.byte_len = (uint32_t)send->len;
  fake_complete(of(qp)->send_cq, &cqe, 0);
}

/* All that is left of a queue pair in the error state, one after the other. */
static int flush(struct fake_qp *qp)
{
  struct qp *shared = of(qp);
  if (qp->told < qp->posted) {
    const struct send *send = entry(qp, qp->told);
    int status = qp->told < qp->moved && send->status ? send->status : IBV_WC_WR_FLUSH_ERR;
    if (qp->moved == qp->told) qp->moved++;
    tell_send(qp, send, status);
    return 1;
  }
  if (shared->taken == shared->posted) return 0;
  struct cqe cqe = {.is_recv = 1, .end = ++shared->taken};
  cqe.wc.wr_id = shared->ring[(shared->taken - 1) % DEPTH].id;
  cqe.wc.status = IBV_WC_WR_FLUSH_ERR;
  cqe.wc.qp_num = shared->number;
  fake_complete(shared->recv_cq, &cqe, 0);
  return 1;
}

static void note_overtaken(const struct fake_qp *mover, uint64_t serial)
{
  for (const struct fake_qp *qp = all; qp; qp = qp->next)
    if (qp != mover && qp->moved < qp->posted && entry(qp, qp->moved)->serial < serial) {
      COUNTS.overtaken++;
      return;
    }
}

static int move(struct fake_qp *qp, uint64_t now)
{
  struct send *send = entry(qp, qp->moved);
  if (qp->moved == qp->posted || send->move_ns > now || (SETTINGS.hold & 1)) return 0;
  if (qp->moved > qp->told && entry(qp, qp->moved - 1)->status) return 0; /* nothing comes after an error */
  if (!fake_move(qp, send, now)) return 0;
  note_overtaken(qp, send->serial);
  send->tell_ns = now + fake_draw(1000 * (uint64_t)SETTINGS.delay_us + 1);
  qp->moved++;
  return 1;
}

static int tell(struct fake_qp *qp, uint64_t now)
{
  const struct send *send = entry(qp, qp->told);
  if (qp->told == qp->moved || send->tell_ns > now || (SETTINGS.hold & 2)) return 0;
  if (!send->status && !(send->flags & IBV_SEND_INLINE) && !SETTINGS.early && fake_hash(qp, send) != send->hash)
    fake_breach("%llu bytes of queue pair %#x have changed before their completion", (unsigned long long)send->len,
                qp->qp.qp_num);
  if (send->status) fake_qp_break(of(qp));
  tell_send(qp, send, send->status);
  return 1;
}

static int step(struct fake_qp *qp, uint64_t now)
{
  int state = of(qp)->state;
  if (SETTINGS.removed) return 0;
  if (state == IBV_QPS_ERR) return SETTINGS.hold & 2 ? 0 : flush(qp);
  if (state != IBV_QPS_RTS) return 0;
  return fake_draw(2) ? tell(qp, now) || move(qp, now) : move(qp, now) || tell(qp, now);
}

static uint64_t due(const struct fake_qp *qp)
{
  uint64_t next = UINT64_MAX;
  if (qp->told < qp->moved) next = entry(qp, qp->told)->tell_ns;
  if (qp->moved < qp->posted && entry(qp, qp->moved)->move_ns < next) next = entry(qp, qp->moved)->move_ns;
  return next;
}

/* One round over the queue pairs, from a drawn one on; 1 if something was done. */
static int round_of_all(uint64_t now)
{
  size_t n = 0;
  for (const struct fake_qp *qp = all; qp; qp = qp->next) n++;
  size_t skip = fake_draw(n);
  struct fake_qp *first = all;
  while (skip-- > 0) first = first->next;
  struct fake_qp *qp = first;
  for (size_t k = 0; k < n; k++, qp = qp->next ? qp->next : all)
    if (step(qp, now)) return 1;
  return 0;
}

uint64_t fake_work(int most)
{
  uint64_t next = UINT64_MAX, now = fake_now_ns();
  int done = 0;
  while (done < most && round_of_all(now)) done++;
  if (done) fake_poke();
  for (const struct fake_qp *qp = all; qp; qp = qp->next)
    if (due(qp) < next) next = due(qp);
  return next;
}
