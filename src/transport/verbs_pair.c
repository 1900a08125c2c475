/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, connecting and ending the queue pair of a link. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "transport/verbs_private.h"

_Static_assert(sizeof(struct verbs_record) == 56, "the record is a wire format");
_Static_assert(sizeof(struct verbs_head) == 48, "the head is a wire format");
_Static_assert(sizeof(struct verbs_answer) == 24, "the answer is a wire format");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "heads and records are sent as they lie in memory, which has to be little endian"
#endif

const char *tt_verbs_locked_text(char *text, size_t size)
{
  struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
  char most[48];
  getrlimit(RLIMIT_MEMLOCK, &limit);
  snprintf(most, sizeof most, "a limit of %llu KiB", (unsigned long long)(limit.rlim_cur >> 10));
  snprintf(text, size, ": this process has %s for locked memory (ulimit -l): raise it (ulimit -l unlimited, or memlock "
           "in /etc/security/limits.conf)",
           limit.rlim_cur == RLIM_INFINITY ? "no limit" : most);
  return text;
}

tuttiResult_t tt_verbs_fail(const struct verbs_device *device, const char *verb, int error)
{
  const char *remedy = "", *other = "";
  char locked[256];
  if (error == ENOMEM) {
    remedy = tt_verbs_locked_text(locked, sizeof locked);
    other = ", or make TUTTI_IB_SLOTS or TUTTI_IB_SLOT_BYTES smaller";
  }
  if (error == EINVAL && strcmp(verb, "ibv_create_qp") == 0)
    remedy = ": the device may not have queues so long: make TUTTI_IB_SLOTS smaller";
  if (error == ETIMEDOUT || error == EHOSTUNREACH)
    remedy = ": the peer's address is not reached from this device: see TUTTI_IB_GID_INDEX and TUTTI_IB_HCA, or do "
             "without (TUTTI_TRANSPORTS=shm,tcp)";
  char text[TT_SENTENCE_BYTES];
  snprintf(text, sizeof text, "%s failed on %s port %d: %s%s%s", verb, device->name, device->port, strerror(error),
           remedy, other);
  return tt_fail_quiet(tuttiSystemError, text);
}

size_t tt_verbs_link_bytes(const struct verbs_link *link)
{
  return 2 * (link->slots * link->slot_bytes + VERBS_ANSWER_BYTES);
}

/* Allocates all memory of the link, in one region. It lies outside of the heap, so that no page of it has other data,
 * and forked children do not inherit it. */
static tuttiResult_t memory_make(struct verbs_link *link)
{
  struct verbs_device *device = link->device;
  void *map = NULL;
  int fd;
  tuttiResult_t result = tt_memory_create("tutti-verbs", tt_verbs_link_bytes(link), &fd, &map);
  if (result != tuttiSuccess) return result;
  close(fd);
  link->memory = map;
  link->mr = device->api.reg_mr(device->pd, map, tt_verbs_link_bytes(link),
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  return link->mr ? tuttiSuccess : tt_verbs_fail(device, "ibv_reg_mr", errno);
}

/* The next size to try: some devices take fewer bytes inline, or none. Less than a head and an element is of no use. */
static uint32_t fewer_inline(uint32_t bytes)
{
  return bytes / 2 > VERBS_FIRST_BYTES ? bytes / 2 : 0;
}

/* Places in the send queue. */
static uint32_t sends_of(uint32_t slots)
{
  return 2 * slots + 2 * VERBS_SIGNAL_MOST;
}

static tuttiResult_t queues_make(struct verbs_link *link)
{
  struct verbs_device *device = link->device;
  uint32_t receives = tt_verbs_receives(link->slots);
  link->sends = sends_of(link->slots);
  link->signal_every = link->slots / 4 < VERBS_SIGNAL_MOST ? link->slots / 4 : VERBS_SIGNAL_MOST;
  link->cq = device->api.create_cq(device->context, (int)(link->sends + receives), link, device->channel, 0);
  if (!link->cq) return tt_verbs_fail(device, "ibv_create_cq", errno);
  struct ibv_qp_init_attr wanted = {
      .qp_context = link, .send_cq = link->cq, .recv_cq = link->cq, .qp_type = IBV_QPT_RC};
  for (uint32_t inlined = VERBS_INLINE_BYTES; !link->qp; inlined = fewer_inline(inlined)) {
    wanted.cap = (struct ibv_qp_cap){.max_send_wr = link->sends,
                                     .max_recv_wr = receives,
                                     .max_send_sge = 2,
                                     .max_recv_sge = 1,
                                     .max_inline_data = inlined};
    link->qp = device->api.create_qp(device->pd, &wanted);
    if (!link->qp && inlined == 0) return tt_verbs_fail(device, "ibv_create_qp", errno);
  }
  link->inlined = wanted.cap.max_inline_data;
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT,
                           .pkey_index = 0,
                           .port_num = device->port,
                           .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  int error = device->api.modify_qp(link->qp, &to,
                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error ? tt_verbs_fail(device, "ibv_modify_qp (to INIT)", error) : tuttiSuccess;
}

static void record_make(const struct verbs_link *link, struct verbs_record *record)
{
  const struct verbs_device *device = link->device;
  uint32_t psn;
  tt_random(&psn, sizeof psn);
  *record = (struct verbs_record){.magic = VERBS_MAGIC,
                                  .qpn = link->qp->qp_num,
                                  .psn = psn & 0xffffffu,
                                  .lid = device->attributes.lid,
                                  .mtu = (uint8_t)device->attributes.active_mtu,
                                  .layer = device->attributes.link_layer,
                                  .rkey = link->mr->rkey,
                                  .ring = (uintptr_t)link->memory,
                                  .slots = link->slots,
                                  .slot_bytes = (uint32_t)link->slot_bytes};
  memcpy(record->gid, device->gid.raw, sizeof record->gid);
}

tuttiResult_t tt_verbs_link_create(struct verbs_link **out, struct verbs_device *device,
                                   const struct tt_settings *settings, struct verbs_record *record)
{
  struct verbs_link *link = tt_alloc(1, sizeof *link);
  uint32_t *lens = tt_alloc((size_t)settings->ib_slots, sizeof *lens);
  uint64_t *posted_as = tt_alloc((size_t)settings->ib_slots, sizeof *posted_as);
  struct verbs_piece *pieces = tt_alloc(sends_of((uint32_t)settings->ib_slots), sizeof *pieces);
  if (!link || !lens || !posted_as || !pieces) {
    tt_free(link);
    tt_free(lens);
    tt_free(posted_as);
    tt_free(pieces);
    return tt_fail(tuttiSystemError, "no memory for a verbs link");
  }
  link->base.ops = &tt_verbs_link_ops;
  link->device = device;
  link->slots = (uint32_t)settings->ib_slots;
  link->slot_bytes = (size_t)settings->ib_slot_bytes / 64 * 64;
  link->in.lens = lens;
  link->out.posted_as = posted_as;
  link->out.pieces = pieces;
  link->out.room = sends_of(link->slots);
  link->direct_bytes = (size_t)settings->ib_direct_bytes;
  size_t quick = link->slot_bytes - VERBS_FIRST_BYTES;
  link->base.quick_bytes = quick < TT_QUICK_BYTES ? quick : TT_QUICK_BYTES;
  tuttiResult_t result = memory_make(link);
  if (result == tuttiSuccess) result = queues_make(link);
  if (result != tuttiSuccess) {
    tt_verbs_link_destroy(link);
    return result;
  }
  record_make(link, record);
  *out = link;
  return tuttiSuccess;
}

/* ---- connecting ---- */

static tuttiResult_t record_check(const struct verbs_link *link, const struct verbs_record *mine,
                                  const struct verbs_record *theirs)
{
  int peer = link->base.peer;
  if (theirs->magic != VERBS_MAGIC || theirs->qpn > 0xffffffu || theirs->psn > 0xffffffu ||
      theirs->mtu < IBV_MTU_256 || theirs->mtu > IBV_MTU_4096 || theirs->layer != mine->layer)
    return tt_fail(tuttiRemoteError,
                   "rank %d wrote nonsense about its queue pair: does it run another version of Tutti?", peer);
  if (theirs->slots == mine->slots && theirs->slot_bytes == mine->slot_bytes) return tuttiSuccess;
  return tt_fail(tuttiRemoteError, "rank %d has a ring of %u slots of %u bytes, this rank one of %u slots of %u bytes: "
                 "TUTTI_IB_SLOTS and TUTTI_IB_SLOT_BYTES must be the same everywhere", peer, theirs->slots,
                 theirs->slot_bytes, mine->slots, mine->slot_bytes);
}

/* The path to the peer. Routed (with GIDs) if LIDs are not enough. */
static struct ibv_ah_attr way_make(const struct verbs_device *device, const struct tt_settings *settings,
                                   const struct verbs_record *theirs)
{
  struct ibv_ah_attr way = {.dlid = theirs->lid, .sl = (uint8_t)settings->ib_sl, .port_num = device->port};
  way.is_global = theirs->layer == IBV_LINK_LAYER_ETHERNET || (device->attributes.flags & IBV_QPF_GRH_REQUIRED) ||
                  memcmp(theirs->gid, device->gid.raw, 8) != 0;
  if (!way.is_global) return way;
  memcpy(way.grh.dgid.raw, theirs->gid, sizeof theirs->gid);
  way.grh.sgid_index = (uint8_t)device->gid_index;
  way.grh.hop_limit = 255;
  way.grh.traffic_class = (uint8_t)settings->ib_tc;
  return way;
}

tuttiResult_t tt_verbs_link_join(struct verbs_link *link, const struct tt_settings *settings,
                                 const struct verbs_record *mine, const struct verbs_record *theirs)
{
  struct verbs_device *device = link->device;
  tuttiResult_t result = record_check(link, mine, theirs);
  if (result != tuttiSuccess) return result;
  link->ring = theirs->ring;
  link->rkey = theirs->rkey;
  int error = tt_verbs_receives_post(link, tt_verbs_receives(link->slots));
  if (error) return tt_verbs_fail(device, "ibv_post_recv", error);
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_RTR,
                           .path_mtu = theirs->mtu < mine->mtu ? theirs->mtu : mine->mtu,
                           .dest_qp_num = theirs->qpn,
                           .rq_psn = theirs->psn,
                           .max_dest_rd_atomic = 1,
                           .min_rnr_timer = 12,
                           .ah_attr = way_make(device, settings, theirs)};
  error = device->api.modify_qp(link->qp, &to,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error) return tt_verbs_fail(device, "ibv_modify_qp (to RTR)", error);
  to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                            .timeout = (uint8_t)settings->ib_timeout,
                            .retry_cnt = (uint8_t)settings->ib_retry_cnt,
                            .rnr_retry = 7,
                            .sq_psn = mine->psn,
                            .max_rd_atomic = 1};
  error = device->api.modify_qp(link->qp, &to,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_QP_RD_ATOMIC);
  return error ? tt_verbs_fail(device, "ibv_modify_qp (to RTS)", error) : tuttiSuccess;
}

tuttiResult_t tt_verbs_link_prove(struct verbs_link *link)
{
  static const struct verbs_write empty = {.is_signaled = 1};
  char text[TT_SENTENCE_BYTES];
  if (!link->out.posted) tt_verbs_post(link, VERBS_CREDIT, &empty);
  if (tt_verbs_link_pull(link) >= 0) return link->out.retired ? tuttiSuccess : tuttiInProgress;
  snprintf(text, sizeof text, "%s. Nothing has come through: if there is no way between the two devices, choose others "
           "(TUTTI_IB_HCA, TUTTI_IB_GID_INDEX) or do without (TUTTI_TRANSPORTS=shm,tcp)", link->base.why);
  return tt_fail_quiet(tuttiSystemError, text);
}

/* ---- ending ---- */

/* Destroys the queue pair, because it then has no work under way, neither its own nor the peer's: in the error state
 * some devices still have. */
void tt_verbs_link_halt(struct verbs_link *link)
{
  link->is_broken = 1;
  if (link->qp) link->device->api.destroy_qp(link->qp);
  link->qp = NULL;
}

void tt_verbs_link_destroy(struct verbs_link *link)
{
  if (!link) return;
  const struct verbs_api *api = &link->device->api;
  if (link->qp) api->destroy_qp(link->qp);
  if (link->cq) {
    tt_verbs_link_acknowledge(link);
    api->destroy_cq(link->cq);
  }
  if (link->mr) api->dereg_mr(link->mr);
  if (link->memory) munmap(link->memory, tt_verbs_link_bytes(link));
  tt_free(link->in.lens);
  tt_free(link->out.posted_as);
  tt_free(link->out.pieces);
  tt_free(link);
}
