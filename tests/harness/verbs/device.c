/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, their ports and GIDs, contexts and their events. */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "state.h"

#undef ibv_query_port
#undef ibv_get_device_list

#define DEVICES 2
#define FORGOTTEN UINT32_MAX
#define ADDRESSES 8 /* of this host, with a GID */

static struct ibv_device devices[DEVICES] = {
    {.node_type = IBV_NODE_CA,
     .transport_type = IBV_TRANSPORT_IB,
     .name = "fake0",
     .dev_name = "uverbs0",
     .dev_path = "/sys/class/infiniband_verbs/uverbs0",
     .ibdev_path = "/sys/class/infiniband/fake0"},
    {.node_type = IBV_NODE_CA,
     .transport_type = IBV_TRANSPORT_IB,
     .name = "fake1",
     .dev_name = "uverbs1",
     .dev_path = "/sys/class/infiniband_verbs/uverbs1",
     .ibdev_path = "/sys/class/infiniband/fake1"},
};

struct ibv_device **ibv_get_device_list(int *n)
{
  if (fake_fails_late("ibv_get_device_list")) return NULL;
  int there = SETTINGS.removed ? 0 : (int)SETTINGS.devices;
  struct ibv_device **list = calloc(DEVICES + 1, sizeof *list);
  for (int d = 0; list && d < there && d < DEVICES; d++) list[d] = &devices[d];
  if (n) *n = list ? there : 0;
  return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
  free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
  return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
  return (int)(device - devices);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
  uint64_t guid = 0x0102030405060700u + (uint64_t)(device - devices);
  return __builtin_bswap64(guid);
}

/* ---- contexts ---- */

static struct fake_context *of(const struct ibv_context *context)
{
  return (struct fake_context *)((char *)context - offsetof(struct fake_context, verbs.context));
}

int fake_context_slot(const struct ibv_context *context)
{
  return of(context)->slot;
}

void fake_context_use(const struct ibv_context *context, long change)
{
  of(context)->users += change;
}

static int port_count(int device)
{
  return device + 1;
}

static int query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr, size_t len)
{
  int code = fake_fails("ibv_query_port");
  if (code) return code;
  if (number < 1 || number > port_count((int)(context->device - devices))) return EINVAL;
  struct ibv_port_attr port = {
      .state = SETTINGS.port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
      .max_mtu = IBV_MTU_4096,
      .active_mtu = IBV_MTU_1024,
      .gid_tbl_len = 2 + 2 * ADDRESSES,
      .max_msg_sz = 1u << 30,
      .pkey_tbl_len = 1,
      .phys_state = SETTINGS.port_down ? 3 : 5,
      .active_width = 2,
      .active_speed = 32,
      .link_layer = IBV_LINK_LAYER_ETHERNET,
  };
  memset(attr, 0, len);
  memcpy(attr, &port, len < sizeof port ? len : sizeof port);
  return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *attr)
{
  return query_port(context, number, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

static void fill(struct fake_context *made, int device, int fd)
{
  struct ibv_context *context = &made->verbs.context;
  made->verbs.sz = sizeof made->verbs;
  made->verbs.query_port = query_port;
  context->device = &devices[device];
  context->async_fd = fd;
  context->cmd_fd = fd;
  context->num_comp_vectors = 1;
  context->abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->ops.post_send = fake_post_send;
  context->ops.post_recv = fake_post_recv;
  context->ops.poll_cq = fake_poll_cq;
  context->ops.req_notify_cq = fake_req_notify_cq;
  pthread_mutex_init(&context->mutex, NULL);
}

struct ibv_context *fake_open(int device, int is_of_cm)
{
  struct fake_context *made = calloc(1, sizeof *made);
  int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE), slot = 0;
  if (!made || fd < 0) {
    free(made);
    return NULL;
  }
  fill(made, device, fd);
  fake_lock();
  while (slot < CONTEXTS && !fake_is_free(&fake_segment->contexts[slot].owner)) slot++;
  if (slot == CONTEXTS) abort();
  struct context *context = &fake_segment->contexts[slot];
  made->slot = slot;
  fake_own(&context->owner, made);
  context->device = device;
  context->fd = fd;
  context->is_of_cm = is_of_cm;
  context->untold = context->in = context->out = 0;
  COUNTS.contexts += !is_of_cm;
  fake_unlock();
  fake_engine_start();
  return &made->verbs.context;
}

int fake_close(struct ibv_context *context)
{
  struct fake_context *made = of(context);
  fake_engine_stop();
  fake_lock();
  if (made->users) fake_breach("a context is closed with %ld objects alive", made->users);
  COUNTS.contexts -= !fake_segment->contexts[made->slot].is_of_cm;
  fake_segment->contexts[made->slot].owner.pid = 0;
  fake_unlock();
  close(context->async_fd);
  pthread_mutex_destroy(&context->mutex);
  free(made);
  return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
  return fake_fails("ibv_open_device") ? NULL : fake_open((int)(device - devices), 0);
}

int ibv_close_device(struct ibv_context *context)
{
  int code = fake_fails_late("ibv_close_device");
  fake_close(context);
  return code ? -1 : 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
  int code = fake_fails("ibv_query_device");
  if (code) return code;
  *attr = (struct ibv_device_attr){
      .fw_ver = "1",
      .node_guid = ibv_get_device_guid(context->device),
      .max_mr_size = UINT64_MAX,
      .page_size_cap = ~0xfffull,
      .max_qp = QPS,
      .max_qp_wr = (int)SETTINGS.max_qp_wr,
      .max_sge = (int)SETTINGS.max_sge,
      .max_cq = CQS,
      .max_cqe = (int)SETTINGS.max_cqe,
      .max_mr = MRS,
      .max_pd = 1 << 16,
      .max_qp_rd_atom = 16,
      .max_qp_init_rd_atom = 16,
      .max_pkeys = 1,
      .phys_port_cnt = (uint8_t)port_count((int)(context->device - devices)),
  };
  return 0;
}

int ibv_fork_init(void)
{
  return fake_fails_late("ibv_fork_init");
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
  return IBV_FORK_UNNEEDED;
}

/* ---- GIDs: of the port, then of each address of this host (fake0 only); each as RoCE v1 and v2 ---- */

static int address_gid(int which, union ibv_gid *gid)
{
  struct ifaddrs *list = NULL;
  int found = 0;
  if (getifaddrs(&list) != 0) return 0;
  for (struct ifaddrs *a = list; a && !found; a = a->ifa_next) {
    int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;
    if ((family != AF_INET && family != AF_INET6) || which-- > 0) continue;
    found = 1;
    if (family == AF_INET6) {
      memcpy(gid->raw, &((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr, 16);
    } else {
      memset(gid->raw, 0, 10);
      memset(gid->raw + 10, 0xff, 2);
      memcpy(gid->raw + 12, &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr, 4);
    }
  }
  freeifaddrs(list);
  return found;
}

int fake_gid(int device, int port, int index, struct ibv_gid_entry *entry)
{
  memset(entry, 0, sizeof *entry);
  entry->gid_index = (uint32_t)index;
  entry->port_num = (uint32_t)port;
  entry->gid_type = index % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
  entry->ndev_ifindex = 1;
  if (index < 0 || index >= 2 + 2 * ADDRESSES || port < 1 || port > port_count(device)) return EINVAL;
  if (index >= 2) return device == 0 && address_gid(index / 2 - 1, &entry->gid) ? 0 : ENODATA;
  entry->gid.raw[0] = 0xfe;
  entry->gid.raw[1] = 0x80;
  entry->gid.raw[14] = (uint8_t)(device + 1);
  entry->gid.raw[15] = (uint8_t)port;
  return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t len)
{
  int code = fake_fails("ibv_query_gid_ex");
  if (code || flags || len != sizeof *entry) return code ? code : EINVAL;
  return fake_gid((int)(context->device - devices), (int)port, (int)index, entry);
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t most, uint32_t flags,
                             size_t len)
{
  int device = (int)(context->device - devices), code = fake_fails("ibv_query_gid_table");
  size_t n = 0;
  if (code || flags || len != sizeof *entries) return code ? -code : -EINVAL;
  for (int port = 1; port <= port_count(device); port++)
    for (int index = 0; index < 2 + 2 * ADDRESSES && n < most; index++)
      n += fake_gid(device, port, index, &entries[n]) == 0;
  return (ssize_t)n;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
  struct ibv_gid_entry entry;
  int code = fake_fails("ibv_query_gid");
  if (!code) code = fake_gid((int)(context->device - devices), port, index, &entry);
  if (code && code != ENODATA) {
    errno = code;
    return -1;
  }
  memcpy(gid, &entry.gid, sizeof *gid); /* an empty place has a GID of zeros */
  return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
  (void)context;
  if (fake_fails("ibv_query_pkey") || port < 1 || index != 0) return -1;
  *pkey = 0xffff;
  return 0;
}

/* ---- asynchronous events ---- */

void fake_event(int slot, enum ibv_event_type type, int object)
{
  struct context *context = &fake_segment->contexts[slot];
  if (context->in - context->out == EVENTS) return;
  context->events[context->in++ % EVENTS] = (struct event){type, (uint32_t)object};
  context->untold++;
  fake_tell();
}

/* Stays in its place, and is passed over: the descriptor has been told already. */
void fake_event_forget(int slot, enum ibv_event_type type, int object)
{
  struct context *context = &fake_segment->contexts[slot];
  for (unsigned e = context->out; e != context->in; e++) {
    struct event *event = &context->events[e % EVENTS];
    if (event->type == type && event->slot == (uint32_t)object) event->slot = FORGOTTEN;
  }
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
  uint64_t one;
  struct event first;
  if (fake_fails_late("ibv_get_async_event")) return -1;
  do {
    if (read(context->async_fd, &one, sizeof one) != sizeof one) return -1;
    fake_lock();
    struct context *of_it = &fake_segment->contexts[of(context)->slot];
    first = of_it->events[of_it->out++ % EVENTS];
    fake_unlock();
  } while (first.slot == FORGOTTEN);
  fake_lock();
  memset(event, 0, sizeof *event);
  event->event_type = first.type;
  if (first.type == IBV_EVENT_CQ_ERR) event->element.cq = fake_segment->cqs[first.slot].owner.object;
  else if (first.type <= IBV_EVENT_PATH_MIG_ERR) event->element.qp = fake_segment->qps[first.slot].owner.object;
  else event->element.port_num = (int)first.slot;
  fake_unlock();
  return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
  (void)event;
}

/* ---- words ---- */

const char *ibv_node_type_str(enum ibv_node_type type)
{
  return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
  return state == IBV_PORT_ACTIVE ? "PORT_ACTIVE" : state == IBV_PORT_DOWN ? "PORT_DOWN" : "invalid state";
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
  switch (type) {
    case IBV_EVENT_CQ_ERR: return "CQ error";
    case IBV_EVENT_QP_FATAL: return "local work queue catastrophic error";
    case IBV_EVENT_QP_REQ_ERR: return "invalid request local work queue error";
    case IBV_EVENT_QP_ACCESS_ERR: return "local access violation work queue error";
    case IBV_EVENT_DEVICE_FATAL: return "local catastrophic error";
    case IBV_EVENT_PORT_ACTIVE: return "port active";
    case IBV_EVENT_PORT_ERR: return "port error";
    default: return "another event";
  }
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
  static const char *const words[] = {
      "success", "local length error", "local QP operation error", "local EE context operation error",
      "local protection error", "Work Request Flushed Error", "memory management operation error", "bad response error",
      "local access error", "remote invalid request error", "remote access error", "remote operation error",
      "transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
      "remote invalid RD request", "aborted error", "invalid EE context number", "invalid EE context state",
      "fatal error", "response timeout error", "general error"};
  return (unsigned)status < sizeof words / sizeof words[0] ? words[status] : "unknown";
}
