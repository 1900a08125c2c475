/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of libibverbs and librdmacm, found by name at run time, so that one binary serves hosts with and
 * without them. Types are those of the headers it was built with. Functions that the headers define inline
 * (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) go through the context and are called as usual; the
 * others are called through this table only, by names without "ibv_", because some headers define macros of those
 * names. Private to the transport. */
#ifndef TT_TRANSPORT_VERBS_API_H
#define TT_TRANSPORT_VERBS_API_H

#ifdef TT_HAVE_VERBS
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* Member, symbol. */
#define VERBS_FUNCTIONS(X)                                  \
  X(fork_init, ibv_fork_init)                               \
  X(get_device_list, ibv_get_device_list)                   \
  X(free_device_list, ibv_free_device_list)                 \
  X(get_device_name, ibv_get_device_name)                   \
  X(open_device, ibv_open_device)                           \
  X(close_device, ibv_close_device)                         \
  X(query_device, ibv_query_device)                         \
  X(query_port, ibv_query_port)                             \
  X(query_gid_ex, _ibv_query_gid_ex)                        \
  X(get_async_event, ibv_get_async_event)                   \
  X(ack_async_event, ibv_ack_async_event)                   \
  X(event_type_str, ibv_event_type_str)                     \
  X(wc_status_str, ibv_wc_status_str)                       \
  X(alloc_pd, ibv_alloc_pd)                                 \
  X(dealloc_pd, ibv_dealloc_pd)                             \
  X(reg_mr, ibv_reg_mr)                                     \
  X(dereg_mr, ibv_dereg_mr)                                 \
  X(create_cq, ibv_create_cq)                               \
  X(destroy_cq, ibv_destroy_cq)                             \
  X(create_comp_channel, ibv_create_comp_channel)           \
  X(destroy_comp_channel, ibv_destroy_comp_channel)         \
  X(get_cq_event, ibv_get_cq_event)                         \
  X(ack_cq_events, ibv_ack_cq_events)                       \
  X(create_qp, ibv_create_qp)                               \
  X(modify_qp, ibv_modify_qp)                               \
  X(destroy_qp, ibv_destroy_qp)

#define VERBS_CM_FUNCTIONS(X)                               \
  X(cm_create_event_channel, rdma_create_event_channel)     \
  X(cm_destroy_event_channel, rdma_destroy_event_channel)   \
  X(cm_create_id, rdma_create_id)                           \
  X(cm_destroy_id, rdma_destroy_id)                         \
  X(cm_bind_addr, rdma_bind_addr)

struct verbs_api {
#define VERBS_MEMBER(member, symbol) __typeof__(symbol) *member;
  VERBS_FUNCTIONS(VERBS_MEMBER)
  VERBS_CM_FUNCTIONS(VERBS_MEMBER)
#undef VERBS_MEMBER
  /* ibv_reg_dmabuf_mr of rdma-core 34 and later, which headers may not have; NULL: the library has none. */
  struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access);
};

/* Loads the libraries if they are not loaded yet. They stay in the process (libibverbs keeps drivers and locks of its
 * own), so nothing is loaded if there is no device. 1 if all functions are there; else the reason and the remedy are
 * written to why. Repeated calls are cheap. */
int tt_verbs_api_load(struct verbs_api *api, char *why, size_t size);

/* To be called before memory is registered: if the kernel does not copy pinned pages at a fork by itself, this keeps
 * them the parent's. A failure is logged once. */
void tt_verbs_fork_prepare(const struct verbs_api *api);

#endif
#endif
