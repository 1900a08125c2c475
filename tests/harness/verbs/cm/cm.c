/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm.so.1: finds the device that has an address, and goes no further. Every address of this host is fake0's. */
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "state.h"

#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

struct channel {
  struct rdma_event_channel channel;
  struct rdma_cm_event *first; /* one at most: ids do one thing at a time */
  long users;
};

struct id {
  struct rdma_cm_id id;
  struct ibv_pd *pd;
};

/* Returned through errno. */
static int say(int code)
{
  errno = code;
  return code ? -1 : 0;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
  if (fake_fails("rdma_create_event_channel")) return NULL;
  struct channel *made = calloc(1, sizeof *made);
  int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  if (!made || fd < 0) {
    free(made);
    return NULL;
  }
  made->channel.fd = fd;
  fake_lock();
  COUNTS.id_channels++;
  fake_unlock();
  return &made->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
  struct channel *of_it = (struct channel *)channel;
  fake_lock();
  if (of_it->users) fake_breach("an event channel is destroyed with %ld identifiers alive", of_it->users);
  COUNTS.id_channels--;
  fake_unlock();
  close(channel->fd);
  free(of_it->first);
  free(of_it);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
  if (fake_fails("rdma_create_id")) return -1;
  struct id *made = calloc(1, sizeof *made);
  if (!made) return -1;
  made->id.channel = channel;
  made->id.context = context;
  made->id.ps = ps;
  made->id.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
  fake_lock();
  if (channel) ((struct channel *)channel)->users++;
  COUNTS.ids++;
  fake_unlock();
  *id = &made->id;
  return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
  struct id *of_it = (struct id *)id;
  int code = fake_fails_late("rdma_destroy_id");
  fake_lock();
  if (id->channel) ((struct channel *)id->channel)->users--;
  COUNTS.ids--;
  COUNTS.pds -= of_it->pd != NULL; /* the real library keeps a domain of its own for each device */
  fake_unlock();
  if (of_it->pd) free(of_it->pd);
  if (id->verbs) {
    if (of_it->pd) fake_context_use(id->verbs, -1);
    fake_close(id->verbs);
  }
  free(of_it);
  return say(code);
}

static int is_address(const struct sockaddr *wanted)
{
  struct ifaddrs *list = NULL;
  int found = 0;
  if (getifaddrs(&list) != 0) return 0;
  for (const struct ifaddrs *a = list; a && !found; a = a->ifa_next) {
    if (!a->ifa_addr || a->ifa_addr->sa_family != wanted->sa_family) continue;
    const struct sockaddr_in *in = (const void *)wanted, *in_have = (const void *)a->ifa_addr;
    const struct sockaddr_in6 *in6 = (const void *)wanted, *in6_have = (const void *)a->ifa_addr;
    found = wanted->sa_family == AF_INET    ? in->sin_addr.s_addr == in_have->sin_addr.s_addr
            : wanted->sa_family == AF_INET6 ? memcmp(&in6->sin6_addr, &in6_have->sin6_addr, 16) == 0
                                            : 0;
  }
  freeifaddrs(list);
  return found;
}

static void fill_gid(struct rdma_cm_id *id, const struct sockaddr *address)
{
  uint8_t *gid = id->route.addr.addr.ibaddr.sgid.raw;
  if (address->sa_family == AF_INET6) {
    memcpy(gid, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    return;
  }
  memset(gid + 10, 0xff, 2);
  memcpy(gid + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
}

static int bind_to(struct rdma_cm_id *id, const struct sockaddr *address)
{
  size_t len = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
  if (SETTINGS.removed || SETTINGS.devices < 1) return ENODEV;
  if (!is_address(address)) return EADDRNOTAVAIL;
  if (id->verbs) return EINVAL;
  struct ibv_pd *pd = calloc(1, sizeof(struct fake_pd));
  struct ibv_context *context = pd ? fake_open(0, 1) : NULL;
  if (!context) {
    free(pd);
    return ENOMEM;
  }
  pd->context = context;
  fake_lock();
  ((struct fake_pd *)pd)->number = (int)++fake_segment->pds;
  COUNTS.pds++;
  fake_context_use(context, 1);
  fake_unlock();
  ((struct id *)id)->pd = id->pd = pd;
  id->verbs = context;
  id->port_num = 1;
  memcpy(&id->route.addr.src_storage, address, len);
  fill_gid(id, address);
  id->route.addr.addr.ibaddr.pkey = 0xffff;
  return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
  return fake_fails("rdma_bind_addr") ? -1 : say(bind_to(id, address));
}

/* ---- events ---- */

static int raise_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
  struct channel *channel = (struct channel *)id->channel;
  uint64_t one = 1;
  if (!channel) return 0;
  struct rdma_cm_event *event = calloc(1, sizeof *event);
  if (!event || channel->first) {
    free(event);
    return ENOMEM;
  }
  event->id = id;
  event->event = type;
  event->status = status;
  channel->first = event;
  return write(channel->channel.fd, &one, sizeof one) == sizeof one ? 0 : EIO;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
  (void)timeout_ms;
  if (fake_fails("rdma_resolve_addr")) return -1;
  int code = from && !id->verbs ? bind_to(id, from) : 0;
  if (!code && !id->verbs) code = bind_to(id, to);
  if (code) return say(raise_event(id, RDMA_CM_EVENT_ADDR_ERROR, -code));
  memcpy(&id->route.addr.dst_storage, to,
         to->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
  return say(raise_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0));
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
  (void)timeout_ms;
  return fake_fails("rdma_resolve_route") ? -1 : say(raise_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0));
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
  uint64_t one;
  if (fake_fails_late("rdma_get_cm_event")) return -1;
  if (read(channel->fd, &one, sizeof one) != sizeof one) return -1;
  *event = ((struct channel *)channel)->first;
  ((struct channel *)channel)->first = NULL;
  return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
  free(event);
  return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
  return type == RDMA_CM_EVENT_ADDR_RESOLVED    ? "RDMA_CM_EVENT_ADDR_RESOLVED"
         : type == RDMA_CM_EVENT_ADDR_ERROR     ? "RDMA_CM_EVENT_ADDR_ERROR"
         : type == RDMA_CM_EVENT_ROUTE_RESOLVED ? "RDMA_CM_EVENT_ROUTE_RESOLVED"
                                                : "unknown event";
}

/* ---- devices ---- */

static struct ibv_context *listed; /* until the list is given back; one list at a time is enough */

struct ibv_context **rdma_get_devices(int *n)
{
  if (fake_fails("rdma_get_devices")) return NULL;
  struct ibv_context **list = calloc(2, sizeof *list);
  if (list && SETTINGS.devices > 0) list[0] = listed = fake_open(0, 1);
  if (n) *n = list && list[0] ? 1 : 0;
  return list;
}

void rdma_free_devices(struct ibv_context **list)
{
  if (listed) fake_close(listed);
  listed = NULL;
  free(list);
}
