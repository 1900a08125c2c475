/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer of a verbs link writes the record about its queue pair, fragments into this side's ring, and immediate data
 * with each completion. The device itself does what verbs say: it completes what was posted, and writes nowhere
 * else. */
#include "fuzz.h"

#ifdef TT_HAVE_VERBS

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "transport/verbs_private.h"

enum { SLOTS = 4, SLOT_BYTES = 128, SENDS = 64, LEN_MOST = 400 };

static const struct tt_call call = {12, 1024, TT_ALL_REDUCE, tuttiFloat32, tuttiSum, 0, -1, 0};

/* The device: completions that it has for the link. */
static struct completions {
  struct ibv_wc done[2 * SENDS];
  int n;
} device;

static int poll_some(struct ibv_cq *cq, int most, struct ibv_wc *done)
{
  (void)cq;
  int n = most < device.n ? most : device.n;
  memcpy(done, device.done, (size_t)n * sizeof *done);
  device.n -= n;
  memmove(device.done, device.done + n, (size_t)device.n * sizeof *done);
  return n;
}

static int recv_post(struct ibv_qp *qp, struct ibv_recv_wr *requests, struct ibv_recv_wr **bad)
{
  (void)qp, (void)requests, (void)bad;
  return 0;
}

static int send_post(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
  (void)qp, (void)bad;
  FUZZ_CHECK(device.n < 2 * SENDS);
  device.done[device.n++] = (struct ibv_wc){.wr_id = request->wr_id};
  return 0;
}

static int no_event(struct ibv_context *context, struct ibv_async_event *event)
{
  (void)context, (void)event;
  return -1;
}

static const char *status_text(enum ibv_wc_status status)
{
  (void)status;
  return "a failure";
}

struct pair {
  struct verbs_device device;
  struct ibv_context context;
  struct ibv_cq cq;
  struct ibv_qp qp;
  struct ibv_mr mr;
  struct verbs_link link;
};

static void pair_make(struct pair *pair)
{
  struct verbs_link *link = &pair->link;
  memset(pair, 0, sizeof *pair);
  device.n = 0;
  pair->context.ops.poll_cq = poll_some;
  pair->context.ops.post_recv = recv_post;
  pair->context.ops.post_send = send_post;
  pair->cq.context = pair->qp.context = &pair->context;
  pair->device.context = &pair->context;
  pair->device.api.get_async_event = no_event;
  pair->device.api.wc_status_str = status_text;
  *link = (struct verbs_link){.device = &pair->device, .cq = &pair->cq, .qp = &pair->qp, .mr = &pair->mr,
                              .slot_bytes = SLOT_BYTES, .slots = SLOTS, .sends = SENDS, .direct_bytes = 1,
                              .signal_every = 1};
  link->base.ops = &tt_verbs_link_ops;
  link->out.room = SENDS;
  link->memory = calloc(1, tt_verbs_link_bytes(link));
  link->in.lens = calloc(SLOTS, sizeof *link->in.lens);
  link->out.posted_as = calloc(SLOTS, sizeof *link->out.posted_as);
  link->out.pieces = calloc(SENDS, sizeof *link->out.pieces);
  FUZZ_CHECK(link->memory && link->in.lens && link->out.posted_as && link->out.pieces);
}

static void pair_end(struct pair *pair)
{
  free(pair->link.memory);
  free(pair->link.in.lens);
  free(pair->link.out.posted_as);
  free(pair->link.out.pieces);
}

/* Receives on, by `recv` or `peek`; begins the next message. Returns 0 if the link is of no use any more. */
static int receive(struct verbs_link *link, size_t *left, int peeks)
{
  static uint8_t data[LEN_MOST];
  const struct tt_head head = {tt_call_word(&call), 48 + *left % 320, &call, 0};
  const void *shown = NULL;
  if (!link->in.left) {
    *left = head.len;
    link->base.ops->recv_begin(&link->base, &head);
  }
  ssize_t n = peeks ? link->base.ops->peek(&link->base, &shown, 4) : link->base.ops->recv(&link->base, data, *left);
  FUZZ_CHECK(n < 0 || (size_t)n <= *left);
  if (n > 0 && peeks) {
    memcpy(data, shown, (size_t)n);
    link->base.ops->consume(&link->base, (size_t)n);
  }
  *left -= n > 0 ? (size_t)n : 0;
  FUZZ_CHECK(n < 0 || *left == link->in.left);
  return n >= 0;
}

/* Events: the peer writes into its ring, or a place of answers; a completion; this side receives, or sends. */
static void verbs_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  struct pair pair;
  struct verbs_link *link = &pair.link;
  const struct tt_head head = {tt_call_word(&call), 256, &call, 0};
  static const uint8_t data[256];
  size_t left = 0;
  int goes_on = 1;
  pair_make(&pair);
  while (input.left && goes_on) {
    int what = (int)fuzz_take(&input, 1);
    size_t at = (size_t)fuzz_take(&input, 2) % tt_verbs_link_bytes(link), n = (size_t)fuzz_take(&input, 1);
    switch (what % 4) {
    case 0:
      if (n > tt_verbs_link_bytes(link) - at) n = tt_verbs_link_bytes(link) - at;
      fuzz_fill(&input, link->memory + at, n);
      break;
    case 1:
      if (device.n >= SENDS) break; /* as many places are for what this side posts */
      device.done[device.n++] = (struct ibv_wc){.status = what == 253 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS,
                                                .opcode = what == 249 ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
                                                .imm_data = htonl((uint32_t)fuzz_take(&input, 4)),
                                                .byte_len = (uint32_t)(n % (SLOT_BYTES + 1))};
      break;
    case 2: goes_on = receive(link, &left, what & 64); break;
    default:
      if (!link->out.left && !link->out.lent_bytes) link->base.ops->send_begin(&link->base, &head);
      if (what & 64 && link->out.asked == VERBS_MAY_ASK) link->out.asked = VERBS_ASKED; /* of memory that is not lent */
      if (link->out.asked != VERBS_GRANTED) goes_on = link->base.ops->send(&link->base, data, link->out.left) >= 0;
      else link->out.asked = VERBS_NO_MORE;
    }
    FUZZ_CHECK(link->in.arrived - link->in.freed <= SLOTS && link->out.written - link->out.freed <= SLOTS);
  }
  pair_end(&pair);
}

/* A message of two fragments, the first of which may ask, and a credit. */
static size_t verbs_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  uint8_t *to = bytes;
  const size_t first = 48, second = number % 2 ? 32 : 0;
  const uint64_t word = tt_call_word(&call);
  const struct verbs_head head = {word, first + second, call}, later = {word, first, call};
  if (number > 5) return 0;
  const uint32_t kinds[] = {number == 2 ? VERBS_ASK : VERBS_FRAGMENT, VERBS_FRAGMENT, VERBS_CREDIT + (unsigned)number};
  const size_t lens[] = {sizeof head + first, second ? VERBS_LATER_BYTES + second : 0, 0};
  for (uint32_t k = 0; k < 3; k++) {
    if (k == 1 && !second) continue;
    size_t head_len = k == 0 ? sizeof head : VERBS_LATER_BYTES;
    uint32_t immediate = kinds[k] << VERBS_KIND_SHIFT | (k < 2 ? k : 0) << VERBS_NUMBER_SHIFT;
    const uint8_t write[] = {0, (uint8_t)(k * SLOT_BYTES), (uint8_t)(k * SLOT_BYTES >> 8), (uint8_t)lens[k]};
    if (lens[k]) {
      memcpy(to, write, sizeof write);
      memset(to + sizeof write, 7, lens[k]);
      memcpy(to + sizeof write, k == 0 ? &head : &later, head_len);
      to += sizeof write + lens[k];
    }
    const uint8_t completion[] = {1, 0, 0, (uint8_t)lens[k]};
    memcpy(to, completion, sizeof completion);
    memcpy(to + sizeof completion, &immediate, sizeof immediate);
    to += sizeof completion + sizeof immediate;
    const uint8_t receives[] = {(uint8_t)(2 + (number > 3 ? 64 : 0)), (uint8_t)second, 0, 0, 3, 0, 0, 0};
    memcpy(to, receives, sizeof receives);
    to += sizeof receives;
  }
  return (size_t)(to - bytes);
}

/* ---- the record of a queue pair ---- */

static const struct verbs_record mine = {.magic = VERBS_MAGIC, .qpn = 17, .psn = 77, .mtu = IBV_MTU_1024,
                                         .layer = IBV_LINK_LAYER_ETHERNET, .ring = 4096, .slots = SLOTS,
                                         .slot_bytes = SLOT_BYTES};

/* A device takes numbers of 24 bits, and a length of frames that there is. */
static int queue_pair_modify(struct ibv_qp *qp, struct ibv_qp_attr *to, int mask)
{
  (void)qp;
  if (mask & IBV_QP_DEST_QPN) FUZZ_CHECK(to->dest_qp_num <= 0xffffff);
  if (mask & IBV_QP_RQ_PSN) FUZZ_CHECK(to->rq_psn <= 0xffffff);
  if (mask & IBV_QP_PATH_MTU) FUZZ_CHECK(to->path_mtu >= IBV_MTU_256 && to->path_mtu <= IBV_MTU_1024);
  return 0;
}

static void record_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  struct tt_settings settings;
  struct verbs_record theirs;
  struct pair pair;
  FUZZ_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  pair_make(&pair);
  pair.device.api.modify_qp = queue_pair_modify;
  fuzz_fill(&input, &theirs, sizeof theirs);
  if (tt_verbs_link_join(&pair.link, &settings, &mine, &theirs) == tuttiSuccess)
    FUZZ_CHECK(theirs.slots == SLOTS && theirs.slot_bytes == SLOT_BYTES && theirs.layer == mine.layer &&
               pair.link.ring == theirs.ring && pair.link.rkey == theirs.rkey);
  pair_end(&pair);
}

static size_t record_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  struct verbs_record theirs = mine;
  if (number > 2) return 0;
  theirs.mtu = (uint8_t)(IBV_MTU_256 + number);
  theirs.gid[0] = (uint8_t)number;
  memcpy(bytes, &theirs, sizeof theirs);
  return sizeof theirs;
}

const struct fuzz_target fuzz_verbs[] = {
    {"verbs", verbs_run, NULL, verbs_make, 0},
    {"record", record_run, NULL, record_make, 0},
    {NULL, NULL, NULL, NULL, 0},
};

#else

const struct fuzz_target fuzz_verbs[] = {{NULL, NULL, NULL, NULL, 0}};

#endif
