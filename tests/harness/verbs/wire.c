/* SPDX-License-Identifier: BSD-3-Clause */
/* From one queue pair to the other: what is checked, what is copied, and how it fails. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "state.h"

/* ---- memory of another process, or of this one ---- */

static int put(int pid, char *dst, const char *src, size_t len)
{
  struct iovec from = {(void *)(uintptr_t)src, len}, to = {dst, len};
  if (pid == getpid()) memmove(dst, src, len);
  else if (process_vm_writev(pid, &from, 1, &to, 1, 0) != (ssize_t)len) return 0;
  return 1;
}

static int get(int pid, char *dst, const char *src, size_t len)
{
  struct iovec to = {dst, len}, from = {(void *)(uintptr_t)src, len};
  if (pid == getpid()) memmove(dst, src, len);
  else if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)len) return 0;
  return 1;
}

/* ---- the sender's pieces ---- */

static char *piece(struct fake_qp *qp, const struct send *send, int i)
{
  unsigned access = send->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
  const struct ibv_sge *sge = &send->sge[i];
  if (send->flags & IBV_SEND_INLINE) {
    const char *at = send->bytes;
    for (int k = 0; k < i; k++) at += send->sge[k].length;
    return (char *)(uintptr_t)at;
  }
  int pd = fake_segment->qps[qp->slot].pd;
  return fake_reach(fake_region(sge->lkey, 0), pd, sge->addr, sge->length, access);
}

static int are_pieces_there(struct fake_qp *qp, const struct send *send)
{
  for (int i = 0; i < send->nsge; i++)
    if (!piece(qp, send, i)) return 0;
  return 1;
}

uint64_t fake_hash(struct fake_qp *qp, const struct send *send)
{
  uint64_t hash = 0xcbf29ce484222325u;
  if (send->opcode == IBV_WR_RDMA_READ) return hash;
  for (int i = 0; i < send->nsge; i++) {
    const char *at = piece(qp, send, i);
    if (!at) {
      fake_breach("the source of queue pair %#x was deregistered before its completion", qp->qp.qp_num);
      return send->hash;
    }
    for (size_t k = 0; k < send->sge[i].length; k += 8) {
      uint64_t word = 0;
      size_t left = send->sge[i].length - k;
      memcpy(&word, at + k, left < 8 ? left : 8);
      hash = (hash ^ word) * 0x100000001b3u;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

/* ---- the other end ---- */

/* NULL: nothing that is sent arrives anywhere. */
static struct qp *other_end(const struct qp *qp)
{
  struct qp *peer = fake_qp_of(qp->peer);
  if (SETTINGS.port_down || !peer || (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS)) return NULL;
  if (peer->peer != qp->number || peer->rq_psn != qp->sq_psn) return NULL;
  return memcmp(&peer->gid, &qp->peer_gid, sizeof peer->gid) == 0 ? peer : NULL;
}

/* How long a queue pair tries in vain; UINT64_MAX: for ever. */
static uint64_t patience_ns(const struct qp *qp)
{
  return qp->timeout ? (4096ull << qp->timeout) * (qp->retry_cnt + 1u) : UINT64_MAX;
}

static uint64_t not_ready_ns(const struct qp *qp)
{
  return qp->rnr_retry == 7 ? UINT64_MAX : (qp->rnr_retry + 1u) * 1000000ull;
}

/* In vain: 1 if that was long enough, with this status. */
static int wait_for(struct send *send, uint64_t now, uint64_t most_ns, int status)
{
  if (!send->tried_ns) send->tried_ns = now;
  if (most_ns == UINT64_MAX || now - send->tried_ns < most_ns) return 0;
  send->status = status;
  return 1;
}

static int has_receive(const struct send *send)
{
  return send->opcode == IBV_WR_SEND || send->opcode == IBV_WR_SEND_WITH_IMM ||
         send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* The peer refuses: both ends are broken, and the peer has an event. */
static void refuse(struct send *send, struct qp *peer, int status)
{
  int is_access = status == IBV_WC_REM_ACCESS_ERR;
  send->status = status;
  fake_event(peer->context, is_access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR,
             (int)(peer - fake_segment->qps));
  fake_qp_break(peer);
}

/* The n-th one from when that was asked for. */
static int is_its_turn(_Atomic long *countdown)
{
  return *countdown > 0 && --*countdown == 0;
}

static void tell_receive(struct qp *peer, const struct send *send, int status)
{
  const struct receive *receive = &peer->ring[peer->taken % DEPTH];
  int is_write = send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  struct cqe cqe = {.is_recv = 1, .end = ++peer->taken};
  cqe.wc.wr_id = receive->id;
  cqe.wc.status = (enum ibv_wc_status)status;
  cqe.wc.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  cqe.wc.byte_len = (uint32_t)send->len;
  cqe.wc.imm_data = send->imm;
  cqe.wc.wc_flags = send->opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM;
  cqe.wc.qp_num = peer->number;
  cqe.wc.src_qp = peer->peer;
  fake_complete(peer->recv_cq, &cqe, (send->flags & IBV_SEND_SOLICITED) != 0);
}

/* ---- kinds of work ---- */

/* 1: copied; 0: the peer has refused. */
static int write_or_read(struct fake_qp *qp, struct send *send, struct qp *peer)
{
  int is_read = send->opcode == IBV_WR_RDMA_READ;
  unsigned access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  if ((peer->access & access) != access || (is_read && !fake_segment->qps[qp->slot].rd_atomic)) {
    refuse(send, peer, IBV_WC_REM_INV_REQ_ERR);
    return 0;
  }
  char *there = NULL;
  if (send->len) there = fake_reach(fake_region(send->rkey, 1), peer->pd, send->address, send->len, access);
  if (send->len && !there) {
    refuse(send, peer, IBV_WC_REM_ACCESS_ERR);
    return 0;
  }
  for (int i = 0; i < send->nsge; i++) {
    char *here = piece(qp, send, i);
    size_t len = send->sge[i].length;
    if (!(is_read ? get(peer->owner.pid, here, there, len) : put(peer->owner.pid, there, here, len))) {
      refuse(send, peer, IBV_WC_REM_OP_ERR);
      return 0;
    }
    there += len;
  }
  return 1;
}

static int scatter(struct fake_qp *qp, struct send *send, struct qp *peer)
{
  const struct receive *receive = &peer->ring[peer->taken % DEPTH];
  int at = 0;
  size_t used = 0;
  for (int i = 0; i < send->nsge; i++) {
    const char *here = piece(qp, send, i);
    for (size_t left = send->sge[i].length; left > 0;) {
      if (at == receive->nsge) {
        tell_receive(peer, send, IBV_WC_LOC_LEN_ERR);
        refuse(send, peer, IBV_WC_REM_INV_REQ_ERR);
        return 0;
      }
      const struct ibv_sge *sge = &receive->sge[at];
      char *there = fake_reach(fake_region(sge->lkey, 0), peer->pd, sge->addr, sge->length, IBV_ACCESS_LOCAL_WRITE);
      size_t n = sge->length - used < left ? sge->length - used : left;
      if (!there || !put(peer->owner.pid, there + used, here, n)) {
        tell_receive(peer, send, IBV_WC_LOC_PROT_ERR);
        refuse(send, peer, IBV_WC_REM_OP_ERR);
        return 0;
      }
      here += n;
      left -= n;
      used += n;
      if (used == sge->length) at++, used = 0;
    }
  }
  return 1;
}

/* A fault that was asked for: with some, the data has come nevertheless. */
static int inject(struct send *send, struct qp *peer)
{
  int status = (int)SETTINGS.send_status;
  if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR)
    refuse(send, peer, status);
  send->status = status;
  return 1;
}

int fake_move(struct fake_qp *qp, struct send *send, uint64_t now)
{
  const struct qp *mine = &fake_segment->qps[qp->slot];
  struct qp *peer = other_end(mine);
  if (!peer) return wait_for(send, now, patience_ns(mine), IBV_WC_RETRY_EXC_ERR);
  if (!are_pieces_there(qp, send)) {
    send->status = IBV_WC_LOC_PROT_ERR;
    return 1;
  }
  if (has_receive(send) && peer->taken == peer->posted) {
    COUNTS.not_ready += !send->tried_ns;
    return wait_for(send, now, not_ready_ns(mine), IBV_WC_RNR_RETRY_EXC_ERR);
  }
  if (is_its_turn(&SETTINGS.send_at)) return inject(send, peer);
  if (!(send->flags & IBV_SEND_INLINE)) send->hash = fake_hash(qp, send);
  int is_send = send->opcode == IBV_WR_SEND || send->opcode == IBV_WR_SEND_WITH_IMM;
  if (!(is_send ? scatter(qp, send, peer) : write_or_read(qp, send, peer))) return 1;
  COUNTS.copied += (long)send->len;
  if (COUNTS.longest < (long)send->len) COUNTS.longest = (long)send->len;
  if (!has_receive(send)) return 1;
  if (is_its_turn(&SETTINGS.recv_at)) {
    tell_receive(peer, send, (int)SETTINGS.recv_status);
    refuse(send, peer, IBV_WC_REM_OP_ERR);
    return 1;
  }
  tell_receive(peer, send, IBV_WC_SUCCESS);
  return 1;
}

/* A transfer may write whatever, wherever it will write, from the moment it is posted. */
void fake_scribble(struct fake_qp *qp, const struct send *send)
{
  static const char garbage[4096] = {0x5a, 0x3c, (char)0xa5, 0x11};
  struct qp *peer = other_end(&fake_segment->qps[qp->slot]);
  int is_write = send->opcode == IBV_WR_RDMA_WRITE || send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (!peer || !is_write || !send->len || !(peer->access & IBV_ACCESS_REMOTE_WRITE)) return;
  char *there =
      fake_reach(fake_region(send->rkey, 1), peer->pd, send->address, send->len, IBV_ACCESS_REMOTE_WRITE);
  for (uint64_t k = 0; there && k < send->len; k += sizeof garbage) {
    uint64_t n = send->len - k < sizeof garbage ? send->len - k : sizeof garbage;
    if (!put(peer->owner.pid, there + k, garbage, n)) return;
  }
}
