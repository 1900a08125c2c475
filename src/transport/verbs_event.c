/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of a device: completions for which a link sleeps, and failures and changes of queue pairs, the port and the
 * device itself. */
#include <string.h>
#include <sys/epoll.h>

#include "transport/verbs_private.h"

#define ACKS_AT_ONCE 16 /* events are acknowledged in bunches of so many, because each time takes a lock */

/* ---- the device, its port and its queue pairs ---- */

static void port_went(struct verbs_device *device, int is_down)
{
  if (device->is_port_down == is_down) return;
  device->is_port_down = is_down;
  device->port_downs += (unsigned)is_down;
  if (is_down && device->port_downs == 1)
    tt_log(TT_LOG_WARN, "port %d of %s is down: what is under way waits for it as long as the device tries "
           "(TUTTI_IB_TIMEOUT, TUTTI_IB_RETRY_CNT): see ibv_devinfo and the cable", device->port, device->name);
  else
    tt_log(TT_LOG_INFO, "port %d of %s is %s again", device->port, device->name, is_down ? "down" : "up");
}

static void link_failed(struct verbs_link *link, enum ibv_event_type type)
{
  if (!link->failing_ns) link->failing_ns = tt_now_ns();
  link->event = link->device->api.event_type_str(type);
}

static void event_take(struct verbs_device *device, const struct ibv_async_event *event)
{
  switch (event->event_type) {
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR: link_failed(event->element.qp->qp_context, event->event_type); break;
  case IBV_EVENT_CQ_ERR: link_failed(event->element.cq->cq_context, event->event_type); break;
  case IBV_EVENT_DEVICE_FATAL: device->lost = device->api.event_type_str(event->event_type); break;
  case IBV_EVENT_PORT_ERR:
  case IBV_EVENT_PORT_ACTIVE:
    if (event->element.port_num == device->port) port_went(device, event->event_type == IBV_EVENT_PORT_ERR);
    break;
  default: break;
  }
}

void tt_verbs_device_look(struct verbs_device *device)
{
  struct ibv_async_event event;
  while (device->api.get_async_event(device->context, &event) == 0) {
    event_take(device, &event);
    device->api.ack_async_event(&event);
  }
}

/* ---- completions, for sleepers ---- */

void tt_verbs_link_acknowledge(struct verbs_link *link)
{
  if (link->unacknowledged) link->device->api.ack_cq_events(link->cq, link->unacknowledged);
  link->unacknowledged = 0;
}

/* Takes the completion events of all links of the device, which share the channel. Returns how many there were. */
static int completions_told(struct verbs_device *device)
{
  struct ibv_cq *cq;
  void *context;
  int told = 0;
  for (; device->api.get_cq_event(device->channel, &cq, &context) == 0; told++) {
    struct verbs_link *link = context;
    link->is_armed = 0;
    if (++link->unacknowledged == ACKS_AT_ONCE) tt_verbs_link_acknowledge(link);
  }
  return told;
}

/* A completion that comes before the queue is armed brings no event, so the queue is polled once more after that. The
 * waiter looks again if completions were taken since the last call, perhaps by a send after the waiter had looked for
 * arrivals. It also looks again if an event was taken here: that may belong to another link, whose waiter has called
 * this already and would sleep through it. */
int tt_verbs_link_descriptor(struct tt_link *base, uint32_t *events)
{
  struct verbs_link *link = (struct verbs_link *)base;
  struct verbs_device *device = link->device;
  *events = EPOLLIN;
  tt_verbs_device_look(device);
  int told = completions_told(device);
  if (!link->is_armed && ibv_req_notify_cq(link->cq, 0) != 0) {
    *events = 0;
    return -1;
  }
  link->is_armed = 1;
  int is_over = tt_verbs_link_pull(link) < 0, has_news = link->has_news;
  link->has_news = 0;
  return told || is_over || has_news ? -1 : device->channel->fd;
}
