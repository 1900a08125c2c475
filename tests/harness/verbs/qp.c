/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs and their states. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

static struct qp *of(const struct ibv_qp *qp)
{
  return &fake_segment->qps[((const struct fake_qp *)qp)->slot];
}

static int are_caps_bad(const struct ibv_qp_init_attr *attr)
{
  const struct ibv_qp_cap *cap = &attr->cap;
  return attr->qp_type != IBV_QPT_RC || attr->srq || !attr->send_cq || !attr->recv_cq ||
         cap->max_inline_data > SETTINGS.max_inline || cap->max_inline_data > INLINE ||
         cap->max_send_wr > SETTINGS.max_qp_wr || cap->max_recv_wr > SETTINGS.max_qp_wr ||
         cap->max_send_wr > DEPTH || cap->max_recv_wr > DEPTH || cap->max_send_sge > SETTINGS.max_sge ||
         cap->max_recv_sge > SETTINGS.max_sge || cap->max_send_sge > SGES || cap->max_recv_sge > SGES;
}

static void fill(struct fake_qp *made, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr, int slot)
{
  struct qp *qp = &fake_segment->qps[slot];
  uint32_t generation = qp->owner.generation;
  memset(qp, 0, offsetof(struct qp, ring));
  qp->owner.generation = generation;
  fake_own(&qp->owner, made);
  qp->number = (qp->owner.generation * QPS + (uint32_t)slot) & 0xffffff;
  qp->context = fake_context_slot(pd->context);
  qp->pd = ((struct fake_pd *)pd)->number;
  qp->send_cq = (int)attr->send_cq->handle;
  qp->recv_cq = (int)attr->recv_cq->handle;
  qp->state = IBV_QPS_RESET;
  qp->depth = (int)attr->cap.max_recv_wr;
  made->slot = slot;
  made->cap = attr->cap;
  made->all_signaled = attr->sq_sig_all;
  made->qp.context = pd->context;
  made->qp.qp_context = attr->qp_context;
  made->qp.pd = pd;
  made->qp.send_cq = attr->send_cq;
  made->qp.recv_cq = attr->recv_cq;
  made->qp.handle = (uint32_t)slot;
  made->qp.qp_num = qp->number;
  made->qp.state = IBV_QPS_RESET;
  made->qp.qp_type = attr->qp_type;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
  int slot = 0;
  if (fake_fails("ibv_create_qp")) return NULL;
  if (are_caps_bad(attr)) {
    errno = EINVAL;
    return NULL;
  }
  struct fake_qp *made = calloc(1, sizeof *made);
  struct send *ring = calloc(attr->cap.max_send_wr + 1, sizeof *ring);
  fake_lock();
  while (slot < QPS && !fake_is_free(&fake_segment->qps[slot].owner)) slot++;
  if (!made || !ring || slot == QPS) {
    fake_unlock();
    free(ring);
    free(made);
    errno = ENOMEM;
    return NULL;
  }
  made->ring = ring;
  fill(made, pd, attr, slot);
  fake_qp_add(made);
  ((struct fake_pd *)pd)->users++;
  fake_context_use(pd->context, 1);
  COUNTS.qps++;
  fake_unlock();
  return &made->qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
  struct fake_qp *of_it = (struct fake_qp *)qp;
  int code = fake_fails_late("ibv_destroy_qp");
  fake_lock();
  fake_qp_remove(of_it);
  of(qp)->owner.pid = 0;
  of(qp)->state = IBV_QPS_RESET;
  for (int type = IBV_EVENT_QP_FATAL; type <= IBV_EVENT_PATH_MIG_ERR; type++)
    fake_event_forget(of(qp)->context, (enum ibv_event_type)type, of_it->slot);
  ((struct fake_pd *)qp->pd)->users--;
  fake_context_use(qp->context, -1);
  COUNTS.qps--;
  fake_unlock();
  free(of_it->ring);
  free(of_it);
  return code;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
  (void)qp;
  errno = EOPNOTSUPP;
  return NULL;
}

/* ---- states ---- */

/* What a reliable connection must be told on each step, and what it may be told. */
static const struct {
  int from, to, must, may;
} steps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
};

static int may_step(int from, int to, int mask)
{
  mask &= ~IBV_QP_STATE;
  if (to == IBV_QPS_ERR || to == IBV_QPS_RESET) return mask == 0;
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
    if (steps[i].from == from && steps[i].to == to)
      return (mask & steps[i].must) == steps[i].must && !(mask & ~(steps[i].must | steps[i].may));
  return 0;
}

/* 0 if the values are no way to another queue pair. */
static int is_path_good(const struct qp *qp, const struct ibv_qp_attr *attr)
{
  struct ibv_gid_entry own;
  int device = fake_segment->contexts[qp->context].device;
  const struct ibv_ah_attr *ah = &attr->ah_attr;
  return ah->is_global && ah->port_num == qp->port && fake_gid(device, ah->port_num, ah->grh.sgid_index, &own) == 0 &&
         own.gid_type == IBV_GID_TYPE_ROCE_V2 && attr->path_mtu >= IBV_MTU_256 && attr->path_mtu <= IBV_MTU_1024 &&
         attr->min_rnr_timer < 32 && attr->dest_qp_num < 1u << 24;
}

static void take_path(struct qp *qp, const struct ibv_qp_attr *attr)
{
  struct ibv_gid_entry own;
  fake_gid(fake_segment->contexts[qp->context].device, attr->ah_attr.port_num, attr->ah_attr.grh.sgid_index, &own);
  qp->gid = own.gid;
  qp->peer_gid = attr->ah_attr.grh.dgid;
  qp->peer = attr->dest_qp_num;
  qp->rq_psn = attr->rq_psn & 0xffffff;
  qp->min_rnr_timer = attr->min_rnr_timer;
}

static int take(struct qp *qp, const struct ibv_qp_attr *attr, int mask, int state)
{
  if (mask & IBV_QP_PORT) {
    struct ibv_gid_entry first;
    if (fake_gid(fake_segment->contexts[qp->context].device, attr->port_num, 0, &first) != 0) return EINVAL;
    qp->port = attr->port_num;
  }
  if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0) return EINVAL;
  if (mask & IBV_QP_ACCESS_FLAGS) qp->access = attr->qp_access_flags;
  if (state == IBV_QPS_RTR) {
    if (!is_path_good(qp, attr)) return EINVAL;
    take_path(qp, attr);
  }
  if (state == IBV_QPS_RTS && qp->state == IBV_QPS_RTR) {
    if (attr->timeout > 31 || attr->retry_cnt > 7 || attr->rnr_retry > 7) return EINVAL;
    qp->timeout = attr->timeout;
    qp->retry_cnt = attr->retry_cnt;
    qp->rnr_retry = attr->rnr_retry;
    qp->sq_psn = attr->sq_psn & 0xffffff;
    qp->rd_atomic = attr->max_rd_atomic;
  }
  return 0;
}

static void clear(struct fake_qp *of_it, struct qp *qp)
{
  of_it->posted = of_it->moved = of_it->told = of_it->freed = of_it->flushed = 0;
  qp->posted = qp->taken = qp->freed = 0;
}

int ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask)
{
  struct qp *qp = of(ibv_qp);
  int code = fake_fails("ibv_modify_qp");
  if (code) return code;
  fake_lock();
  int state = mask & IBV_QP_STATE ? (int)attr->qp_state : qp->state;
  code = may_step(qp->state, state, mask) ? take(qp, attr, mask, state) : EINVAL;
  if (!code && state == IBV_QPS_ERR) fake_qp_break(qp);
  if (!code && state == IBV_QPS_RESET) clear((struct fake_qp *)ibv_qp, qp);
  if (!code) ibv_qp->state = (enum ibv_qp_state)(qp->state = state);
  fake_unlock();
  fake_poke();
  return code;
}

int ibv_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
  const struct qp *qp = of(ibv_qp);
  (void)mask;
  int code = fake_fails("ibv_query_qp");
  if (code) return code;
  fake_lock();
  memset(attr, 0, sizeof *attr);
  memset(init, 0, sizeof *init);
  attr->qp_state = attr->cur_qp_state = (enum ibv_qp_state)qp->state;
  attr->dest_qp_num = qp->peer;
  attr->port_num = qp->port;
  attr->timeout = qp->timeout;
  attr->retry_cnt = qp->retry_cnt;
  attr->rnr_retry = qp->rnr_retry;
  init->cap = attr->cap = ((struct fake_qp *)ibv_qp)->cap;
  init->qp_type = IBV_QPT_RC;
  init->send_cq = ibv_qp->send_cq;
  init->recv_cq = ibv_qp->recv_cq;
  fake_unlock();
  return 0;
}
