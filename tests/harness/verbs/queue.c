/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and channels. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "state.h"

static struct cq *of(const struct ibv_cq *cq)
{
  return &fake_segment->cqs[((const struct fake_cq *)cq)->slot];
}

/* ---- channels ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
  if (fake_fails("ibv_create_comp_channel")) return NULL;
  struct fake_channel *made = calloc(1, sizeof *made);
  int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  if (!made || fd < 0) {
    free(made);
    return NULL;
  }
  made->channel.context = context;
  made->channel.fd = fd;
  fake_lock();
  COUNTS.channels++;
  fake_context_use(context, 1);
  fake_unlock();
  return &made->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
  int code = fake_fails_late("ibv_destroy_comp_channel");
  fake_lock();
  if (channel->refcnt) {
    fake_breach("a completion channel is destroyed while %d completion queues use it", channel->refcnt);
    fake_unlock();
    return EBUSY;
  }
  COUNTS.channels--;
  fake_context_use(channel->context, -1);
  fake_unlock();
  close(channel->fd);
  free(channel);
  return code;
}

/* ---- completion queues ---- */

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *cq_context, struct ibv_comp_channel *channel,
                             int vector)
{
  int slot = 0;
  if (fake_fails("ibv_create_cq")) return NULL;
  if (size < 1 || size > SETTINGS.max_cqe || size > CQES || vector < 0 || vector >= context->num_comp_vectors) {
    errno = EINVAL;
    return NULL;
  }
  struct fake_cq *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  fake_lock();
  while (slot < CQS && !fake_is_free(&fake_segment->cqs[slot].owner)) slot++;
  if (slot == CQS) {
    fake_unlock();
    free(made);
    errno = ENOMEM;
    return NULL;
  }
  struct cq *cq = &fake_segment->cqs[slot];
  fake_own(&cq->owner, made);
  cq->fd = channel ? channel->fd : -1;
  cq->context = fake_context_slot(context);
  cq->armed = cq->is_overrun = 0;
  cq->untold = cq->told = cq->fetched = cq->acked = 0;
  cq->size = size;
  cq->in = cq->out = 0;
  made->slot = slot;
  made->cq.context = context;
  made->cq.channel = channel;
  made->cq.cq_context = cq_context;
  made->cq.cqe = size;
  made->cq.handle = (uint32_t)slot;
  if (channel) channel->refcnt++;
  COUNTS.cqs++;
  fake_context_use(context, 1);
  fake_unlock();
  return &made->cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int size)
{
  (void)cq, (void)size;
  return ENOSYS;
}

static int is_in_use(int slot)
{
  for (int q = 0; q < QPS; q++) {
    const struct qp *qp = &fake_segment->qps[q];
    if (!fake_is_free(&qp->owner) && (qp->send_cq == slot || qp->recv_cq == slot)) return 1;
  }
  return 0;
}

int ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
  struct cq *cq = of(ibv_cq);
  int code = fake_fails_late("ibv_destroy_cq");
  fake_lock();
  if (is_in_use((int)ibv_cq->handle)) {
    fake_breach("a completion queue is destroyed while queue pairs use it");
    fake_unlock();
    return EBUSY;
  }
  if (cq->fetched != cq->acked)
    fake_breach("a completion queue is destroyed with %ld events not acknowledged: the library would wait for ever",
                cq->fetched - cq->acked);
  cq->owner.pid = 0;
  fake_event_forget(cq->context, IBV_EVENT_CQ_ERR, (int)ibv_cq->handle);
  if (ibv_cq->channel) ibv_cq->channel->refcnt--;
  COUNTS.cqs--;
  fake_context_use(ibv_cq->context, -1);
  fake_unlock();
  free(ibv_cq);
  return code;
}

/* ---- events ---- */

/* Told to one descriptor as often as it is owed. */
static long tell(int fd, long owed)
{
  uint64_t n = (uint64_t)owed;
  return write(fd, &n, sizeof n) == sizeof n ? owed : 0;
}

void fake_tell(void)
{
  int32_t me = getpid();
  for (int c = 0; c < CQS; c++) {
    struct cq *cq = &fake_segment->cqs[c];
    if (cq->owner.pid != me || !cq->untold || cq->fd < 0) continue;
    long n = tell(cq->fd, cq->untold);
    cq->untold -= n;
    cq->told += n;
  }
  for (int c = 0; c < CONTEXTS; c++) {
    struct context *context = &fake_segment->contexts[c];
    if (context->owner.pid == me && context->untold) context->untold -= tell(context->fd, context->untold);
  }
}

static void overrun(int slot, struct cq *cq)
{
  if (!cq->is_overrun) {
    fake_breach("a completion queue of %d entries is full", cq->size);
    fake_event(cq->context, IBV_EVENT_CQ_ERR, slot);
  }
  cq->is_overrun = 1;
  for (int q = 0; q < QPS; q++) {
    struct qp *qp = &fake_segment->qps[q];
    if (!fake_is_free(&qp->owner) && (qp->send_cq == slot || qp->recv_cq == slot)) fake_qp_break(qp);
  }
}

/* What a completion says of an error is its status: the rest is no value that anybody should look at. */
static void blur(struct ibv_wc *wc)
{
  if (wc->status == IBV_WC_SUCCESS) return;
  wc->opcode = (enum ibv_wc_opcode)0x7e;
  wc->byte_len = 0xeeeeeeee;
  wc->imm_data = 0xeeeeeeee;
  wc->wc_flags = 0xee;
  wc->vendor_err = 0x68;
}

void fake_complete(int slot, const struct cqe *cqe, int is_solicited)
{
  struct cq *cq = &fake_segment->cqs[slot];
  if (cq->in - cq->out == (uint64_t)cq->size) {
    overrun(slot, cq);
    return;
  }
  struct cqe *entry = &cq->ring[cq->in++ % CQES];
  *entry = *cqe;
  blur(&entry->wc);
  if (cq->armed == 1 || (cq->armed == 2 && (is_solicited || cqe->wc.status != IBV_WC_SUCCESS))) {
    cq->armed = 0;
    cq->untold += cq->fd >= 0;
    COUNTS.notified += cq->fd >= 0;
  }
}

int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
  int code = fake_fails("ibv_req_notify_cq");
  if (code) return code;
  fake_lock();
  if (of(cq)->armed != 1) of(cq)->armed = solicited_only ? 2 : 1;
  fake_unlock();
  return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
  uint64_t one;
  int found = 0;
  if (fake_fails_late("ibv_get_cq_event")) return -1;
  if (read(channel->fd, &one, sizeof one) != sizeof one) return -1;
  fake_lock();
  for (int c = 0; c < CQS && !found; c++) {
    struct cq *of_it = &fake_segment->cqs[c];
    if (of_it->owner.pid != getpid() || of_it->fd != channel->fd || !of_it->told) continue;
    found = 1;
    of_it->told--;
    of_it->fetched++;
    *cq = &((struct fake_cq *)of_it->owner.object)->cq;
    *cq_context = (*cq)->cq_context;
  }
  fake_unlock();
  if (found) return 0;
  errno = EAGAIN;
  return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
  fake_lock();
  of(cq)->acked += n;
  if (of(cq)->acked > of(cq)->fetched) fake_breach("more events are acknowledged than were fetched");
  fake_unlock();
}

/* ---- polling ---- */

int fake_poll_cq(struct ibv_cq *ibv_cq, int n, struct ibv_wc *wc)
{
  struct cq *cq = of(ibv_cq);
  int got = 0;
  if (fake_fails_late("ibv_poll_cq")) return -1;
  fake_lock();
  COUNTS.polls++;
  fake_work(SETTINGS.seed ? (int)fake_draw(4) : 64);
  if (cq->is_overrun) got = -1;
  while (got >= 0 && got < n && cq->out != cq->in) {
    const struct cqe *entry = &cq->ring[cq->out++ % CQES];
    fake_polled(entry);
    wc[got++] = entry->wc;
  }
  fake_tell();
  fake_unlock();
  return got;
}
