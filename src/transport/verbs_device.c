/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the RDMA device, port and GID of this rank. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/verbs_private.h"

static int refuse(char *why, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int refuse(char *why, size_t size, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, size, format, arguments);
  va_end(arguments);
  return 0;
}

/* One entry "name[:port]" of the list. */
static int entry_fits(const char *entry, size_t len, int is_exact, const char *name, int port)
{
  const char *colon = memchr(entry, ':', len);
  size_t name_len = colon ? (size_t)(colon - entry) : len;
  if (colon && atoi(colon + 1) != port) return 0;
  return name_len > 0 && strncmp(entry, name, name_len) == 0 && (!is_exact || name[name_len] == 0);
}

int tt_verbs_hca_fits(const char *list, const char *name, int port)
{
  int is_excluding = *list == '^';
  list += is_excluding;
  int is_exact = *list == '=';
  list += is_exact;
  if (!*list) return 1;
  for (const char *at = list; *at;) {
    size_t len = strcspn(at, ",");
    if (entry_fits(at, len, is_exact, name, port)) return !is_excluding;
    at += len + (at[len] == ',');
  }
  return is_excluding;
}

/* ---- the device ---- */

/* Sets name and port of the device to those of the one that has the address; if none has, they stay as they are. */
static void device_at(struct verbs_device *device, struct tt_address *address, const char *interface)
{
  const struct verbs_api *api = &device->api;
  struct rdma_cm_id *id = NULL;
  struct rdma_event_channel *channel = api->cm_create_event_channel();
  if (channel && api->cm_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0 &&
      api->cm_bind_addr(id, &address->any) == 0 && id->verbs) {
    snprintf(device->name, sizeof device->name, "%s", api->get_device_name(id->verbs->device));
    device->port = id->port_num;
  } else {
    tt_log(TT_LOG_INFO, "no RDMA device has the address of %s: the first with an active port is used. TUTTI_IB_HCA "
           "chooses another (ibv_devinfo lists them)", interface);
  }
  if (id) api->cm_destroy_id(id);
  if (channel) api->cm_destroy_event_channel(channel);
}

/* ---- its port and GID ---- */

static int is_ipv4(const union ibv_gid *gid)
{
  static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(gid->raw, prefix, sizeof prefix) == 0;
}

/* How good an entry is for RoCE: routable (version 2) counts most, then our own address, then IPv4 before IPv6. */
static int gid_rank(const struct ibv_gid_entry *entry, const struct tt_address *address)
{
  int is_ours = address->any.sa_family == AF_INET
                    ? is_ipv4(&entry->gid) && memcmp(entry->gid.raw + 12, &address->v4.sin_addr, 4) == 0
                    : memcmp(entry->gid.raw, &address->v6.sin6_addr, 16) == 0;
  return 4 * (entry->gid_type == IBV_GID_TYPE_ROCE_V2) + 2 * is_ours + is_ipv4(&entry->gid);
}

static int gid_find(struct verbs_device *device, const struct tt_settings *settings, const struct tt_address *address)
{
  struct ibv_gid_entry entry;
  int best = -1;
  for (uint32_t i = 0; i < (uint32_t)device->attributes.gid_tbl_len; i++) {
    static const union ibv_gid none;
    if (settings->ib_gid_index >= 0 && i != (uint32_t)settings->ib_gid_index) continue;
    if (device->api.query_gid_ex(device->context, device->port, i, &entry, 0, sizeof entry) != 0) continue;
    if (memcmp(&entry.gid, &none, sizeof none) == 0) continue;
    int rank = device->attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? gid_rank(&entry, address) : 0;
    if (rank <= best) continue;
    best = rank;
    device->gid = entry.gid;
    device->gid_index = i;
  }
  return best >= 0;
}

static int port_query(struct verbs_device *device)
{
  memset(&device->attributes, 0, sizeof device->attributes);
  return device->api.query_port(device->context, device->port, (struct _compat_ibv_port_attr *)&device->attributes);
}

static int port_check(struct verbs_device *device, const struct tt_settings *settings,
                      const struct tt_address *address, char *why, size_t size)
{
  if (device->attributes.state != IBV_PORT_ACTIVE)
    return refuse(why, size, "port %d of %s is not active: see ibv_devinfo, the cable and, on InfiniBand, the subnet "
                  "manager", device->port, device->name);
  if (gid_find(device, settings, address)) return 1;
  return refuse(why, size,
                  "port %d of %s has no GID%s: give its interface an address, or set TUTTI_IB_GID_INDEX to one "
                "of `ibv_devinfo -v`", device->port, device->name, settings->ib_gid_index >= 0 ? " of this index" : "");
}

/* ---- opening ---- */

/* The first port of the open device that TUTTI_IB_HCA admits and that is active. */
static int port_choose(struct verbs_device *device, const struct tt_settings *settings, const char *name)
{
  struct ibv_device_attr limits;
  if (device->api.query_device(device->context, &limits) != 0) return 0;
  for (int port = 1; port <= limits.phys_port_cnt; port++) {
    device->port = (uint8_t)port;
    if (tt_verbs_hca_fits(settings->ib_hca, name, port) && port_query(device) == 0 &&
        device->attributes.state == IBV_PORT_ACTIVE)
      return 1;
  }
  return 0;
}

/* Opens the device whose name is known, else the first that TUTTI_IB_HCA admits. */
static int context_open(struct verbs_device *device, const struct tt_settings *settings, char *why, size_t size)
{
  const struct verbs_api *api = &device->api;
  int count = 0;
  struct ibv_device **list = api->get_device_list(&count);
  int error = list ? 0 : errno;
  for (int i = 0; list && i < count && !device->context; i++) {
    const char *name = api->get_device_name(list[i]);
    if (device->name[0] && strcmp(name, device->name) != 0) continue;
    device->context = api->open_device(list[i]);
    if (!device->context) {
      error = errno;
    } else if (device->name[0] || port_choose(device, settings, name)) {
      snprintf(device->name, sizeof device->name, "%s", name);
    } else {
      api->close_device(device->context);
      device->context = NULL;
    }
  }
  if (list) api->free_device_list(list);
  if (device->context) return 1;
  if (error)
    return refuse(why, size, "an RDMA device cannot be opened: %s: see that /dev/infiniband/uverbs* may be opened",
                  strerror(error));
  if (count == 0)
    return refuse(why, size, "there is no RDMA device: see ibv_devinfo, and whether its driver is loaded");
  if (!settings->ib_hca[0])
    return refuse(why, size, "none of the %d RDMA devices has an active port: see ibv_devinfo and the cable", count);
  return refuse(why, size, "TUTTI_IB_HCA is \"%.60s\": none of the %d RDMA devices fits and has an active port",
                settings->ib_hca, count);
}

static int never_waits(int fd)
{
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

int tt_verbs_device_open(struct verbs_device *device, const struct tt_settings *settings, char *why, size_t size)
{
  struct tt_address address;
  char interface[16];
  *device = (struct verbs_device){.context = NULL};
  if (tt_interface_choose(settings, &address, interface) != tuttiSuccess)
    return refuse(why, size, "%s", tt_last_sentence());
  if (!address.len) return refuse(why, size, TT_NO_NETWORK);
  if (!tt_verbs_api_load(&device->api, why, size)) return 0;
  if (!settings->ib_hca[0]) device_at(device, &address, interface);
  if (!context_open(device, settings, why, size)) return 0;
  tt_verbs_fork_prepare(&device->api);
  int error = device->api.query_device(device->context, &device->limits);
  if (!error) error = port_query(device);
  if (error) refuse(why, size, "%s does not tell what it can: %s", device->name, strerror(error));
  if (error || !port_check(device, settings, &address, why, size)) {
    tt_verbs_device_close(device);
    return 0;
  }
  device->pd = device->api.alloc_pd(device->context);
  if (device->pd) device->channel = device->api.create_comp_channel(device->context);
  if (device->channel && never_waits(device->context->async_fd) && never_waits(device->channel->fd)) return 1;
  refuse(why, size, "%s gives no %s: %s", device->name, device->pd ? "completion channel" : "protection domain",
         strerror(errno));
  tt_verbs_device_close(device);
  return 0;
}

void tt_verbs_device_close(struct verbs_device *device)
{
  if (device->channel) device->api.destroy_comp_channel(device->channel);
  if (device->pd) device->api.dealloc_pd(device->pd);
  if (device->context) device->api.close_device(device->context);
  device->channel = NULL;
  device->pd = NULL;
  device->context = NULL;
}
