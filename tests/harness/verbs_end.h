/* SPDX-License-Identifier: BSD-3-Clause */
/* One end of a queue pair on the double of libibverbs, with all it needs: for tests, which include cmocka before. */
#ifndef VERBS_END_H
#define VERBS_END_H

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "base/base.h"
#include "fake_verbs.h"

static const struct fake_verbs *fake; /* set by main */

#define BYTES 65536
#define WRS 16
#define WAIT_NS 5000000000ull

static const struct fake_verbs *fake;

struct end {
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_mr *mr;
  struct ibv_comp_channel *channel;
  struct ibv_cq *cq;
  struct ibv_qp *qp;
  char *memory;
};

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static inline void end_open(struct end *end)
{
  struct ibv_device **list = ibv_get_device_list(NULL);
  assert_non_null(list[0]);
  end->context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  assert_non_null(end->context);
  end->pd = ibv_alloc_pd(end->context);
  end->memory = calloc(1, BYTES);
  end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
  end->channel = ibv_create_comp_channel(end->context);
  end->cq = ibv_create_cq(end->context, 64, NULL, end->channel, 0);
  struct ibv_qp_init_attr attr = {.send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC};
  attr.cap = (struct ibv_qp_cap){.max_send_wr = WRS, .max_recv_wr = WRS, .max_send_sge = 2, .max_recv_sge = 2,
                                 .max_inline_data = 64};
  end->qp = ibv_create_qp(end->pd, &attr);
  assert_true(end->pd && end->mr && end->channel && end->cq && end->qp);
}

static inline void end_close(struct end *end)
{
  if (end->qp) assert_int_equal(ibv_destroy_qp(end->qp), 0);
  assert_int_equal(ibv_destroy_cq(end->cq), 0);
  assert_int_equal(ibv_destroy_comp_channel(end->channel), 0);
  assert_int_equal(ibv_dereg_mr(end->mr), 0);
  assert_int_equal(ibv_dealloc_pd(end->pd), 0);
  assert_int_equal(ibv_close_device(end->context), 0);
  free(end->memory);
}

/* To the number `peer`, by the values that both ends agree about. */
static inline void connect_to(struct end *end, uint32_t peer, int timeout, int rnr_retry)
{
  int index = 0;
  struct ibv_gid_entry gid;
  do assert_int_equal(ibv_query_gid_ex(end->context, 1, (uint32_t)++index, &gid, 0), 0);
  while (gid.gid_type != IBV_GID_TYPE_ROCE_V2);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)ALL_ACCESS};
  assert_int_equal(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                   0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 5};
  attr.max_dest_rd_atomic = 1;
  attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
  attr.ah_attr.grh.dgid = gid.gid;
  attr.ah_attr.grh.sgid_index = (uint8_t)index;
  assert_int_equal(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                                     IBV_QP_MIN_RNR_TIMER), 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 5, .max_rd_atomic = 1, .retry_cnt = 7};
  attr.timeout = (uint8_t)timeout;
  attr.rnr_retry = (uint8_t)rnr_retry;
  assert_int_equal(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static inline void pair_open(struct end *a, struct end *b)
{
  fake->reset();
  end_open(a);
  end_open(b);
  connect_to(a, b->qp->qp_num, 8, 7);
  connect_to(b, a->qp->qp_num, 8, 7);
}

static inline void pair_close(struct end *a, struct end *b)
{
  fake->reset();
  end_close(a);
  end_close(b);
  assert_true(fake->is_clean());
}

/* The same bytes of both memories. */
static inline struct ibv_send_wr work(struct ibv_sge *sge, const struct end *from, const struct end *to, size_t at,
                                      size_t len)
{
  *sge = (struct ibv_sge){(uintptr_t)from->memory + at, (uint32_t)len, from->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = at, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM};
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.imm_data = htonl((uint32_t)at);
  wr.wr.rdma.remote_addr = (uintptr_t)to->memory + at;
  wr.wr.rdma.rkey = to->mr->rkey;
  return wr;
}

static inline int post(const struct end *end, struct ibv_send_wr wr)
{
  struct ibv_send_wr *bad = NULL;
  int code = ibv_post_send(end->qp, &wr, &bad);
  assert_true(!code || bad == &wr);
  return code;
}

static inline int write_one(const struct end *from, const struct end *to, size_t at, size_t len)
{
  struct ibv_sge sge;
  return post(from, work(&sge, from, to, at, len));
}

static inline int expect(const struct end *end, uint64_t id)
{
  struct ibv_recv_wr wr = {.wr_id = id}, *bad;
  return ibv_post_recv(end->qp, &wr, &bad);
}

static inline struct ibv_wc next_of(const struct end *end)
{
  struct ibv_wc wc = {.wr_id = 0};
  uint64_t until = tt_now_ns() + WAIT_NS;
  int n;
  while ((n = ibv_poll_cq(end->cq, 1, &wc)) == 0 && tt_now_ns() < until) sched_yield();
  assert_int_equal(n, 1);
  return wc;
}

static inline int has_nothing(const struct end *end, int ms)
{
  struct ibv_wc wc;
  uint64_t until = tt_now_ns() + (uint64_t)ms * 1000000u;
  while (tt_now_ns() < until)
    if (ibv_poll_cq(end->cq, 1, &wc) != 0) return 0;
  return 1;
}

static inline void fill(char *memory, unsigned salt)
{
  for (unsigned i = 0; i < BYTES; i++) memory[i] = (char)(i * 7 + i / 251 + salt);
}

#endif
