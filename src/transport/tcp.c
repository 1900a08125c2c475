/* SPDX-License-Identifier: BSD-3-Clause */
/* The tcp transport: one connection per peer and lane. The lower rank dials the higher one's
 * listener when the link is first opened. Framing and data are in tcp_link_private.h. */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/tcp_link_private.h"

/* The link to one peer on one lane, in the making or open. */
struct slot {
  struct tcp_link *link;
  struct tt_dialer *dialer;
  int client;           /* a socket that waits for open; -1: none. Under the service lock, as are: */
  int is_taken;         /* open has taken its client */
  struct tt_session session; /* the connection's keys, if its kind has any */
  uint64_t deadline_ns; /* of open; 0: not asked for yet */
  tuttiResult_t failed;
};

struct tcp {
  struct tt_transport base;
  const struct tt_transport_spec *spec;
  struct tt_address here;     /* len 0: no listener */
  struct tt_address *peers;   /* [nranks], from connect on */
  struct slot *slots;         /* [nranks * lanes] */
};

static struct slot *slot_at(const struct tcp *tcp, int peer, int lane)
{
  return &tcp->slots[(size_t)peer * (size_t)tcp->spec->lanes + (size_t)lane];
}

static const char *unusable(const struct tt_settings *settings, char *why, size_t size)
{
  struct tt_address address;
  char name[16];
  tuttiResult_t result = tt_interface_choose(settings, &address, name);
  if (result == tuttiSuccess && address.len) return NULL;
  snprintf(why, size, "%s", result == tuttiSuccess ? TT_NO_NETWORK : tt_last_sentence());
  return why;
}

/* ---- clients: in the service thread, under its lock ------------------------------------------- */

static void client_arrives(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  struct tcp *tcp = owner;
  if (hello->src >= (uint32_t)tcp->spec->rank || hello->lane >= tcp->spec->lanes) {
    close(fd);
    return;
  }
  struct slot *slot = slot_at(tcp, (int)hello->src, hello->lane);
  /* If two clients wait, the second counts: its dialer has given up the first, whose welcome was lost. */
  int unwanted = slot->is_taken ? fd : slot->client;
  if (!slot->is_taken) {
    slot->client = fd;
    slot->session = *session;
  }
  if (unwanted >= 0) close(unwanted);
}

static int client_take(struct slot *slot)
{
  tt_service_lock();
  int fd = slot->client;
  slot->client = -1;
  slot->is_taken = fd >= 0;
  tt_service_unlock();
  return fd;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void slot_close(struct slot *slot)
{
  tt_tcp_link_destroy(slot->link);
  tt_wipe(&slot->session, sizeof slot->session);
  tt_dialer_destroy(slot->dialer);
  if (slot->client >= 0) close(slot->client);
}

static void destroy(struct tt_transport *transport)
{
  struct tcp *tcp = (struct tcp *)transport;
  if (!tcp) return;
  if (tcp->spec->ip_listener) tt_listener_dismiss(tcp->spec->ip_listener, tcp);
  size_t count = tcp->slots ? (size_t)tcp->spec->nranks * (size_t)tcp->spec->lanes : 0;
  for (size_t i = 0; i < count; i++) slot_close(&tcp->slots[i]);
  tt_free(tcp->slots);
  tt_free(tcp->peers);
  tt_free(tcp);
}

/* All ranks have the same TUTTI_AUTH: one with another value is no client. */
static enum tt_hello_kind kind_of(const struct tcp *tcp)
{
  return tcp->spec->settings->auth >= TT_AUTH_DATA ? TT_HELLO_KEYED_LINK : TT_HELLO_LINK;
}

/* Clients are admitted before the peers can know the address, so that none comes too early. */
static tuttiResult_t listener_use(struct tcp *tcp, void *peer_info)
{
  const struct tt_transport_spec *spec = tcp->spec;
  if (!spec->ip_listener) return tuttiSuccess;
  tcp->here = *tt_listener_address(spec->ip_listener);
  tt_address_pack(&tcp->here, peer_info);
  return tt_listener_admit(spec->ip_listener, spec->credentials, kind_of(tcp), (uint32_t)spec->rank, client_arrives,
                           tcp);
}

static tuttiResult_t create(struct tt_transport **transport, const struct tt_transport_spec *spec, void *peer_info)
{
  size_t count = (size_t)spec->nranks * (size_t)spec->lanes;
  struct tcp *tcp = tt_alloc(1, sizeof *tcp);
  if (!tcp) return tt_fail(tuttiSystemError, "no memory for the TCP transport");
  tcp->base.ops = &tt_transport_tcp;
  tcp->spec = spec;
  tcp->slots = tt_alloc(count, sizeof *tcp->slots);
  tcp->peers = tt_alloc((size_t)spec->nranks, sizeof *tcp->peers);
  for (size_t i = 0; tcp->slots && i < count; i++) tcp->slots[i].client = -1;
  tuttiResult_t result = tuttiSuccess;
  if (!tcp->slots || !tcp->peers)
    result = tt_fail(tuttiSystemError, "no memory for the TCP transport of %d ranks", spec->nranks);
  memset(peer_info, 0, TT_TRANSPORT_PEER_INFO_BYTES);
  if (result == tuttiSuccess) result = listener_use(tcp, peer_info);
  if (result != tuttiSuccess) {
    destroy(&tcp->base);
    return result;
  }
  *transport = &tcp->base;
  return tuttiSuccess;
}

static tuttiResult_t connect_all(struct tt_transport *transport, const void *peer_infos, size_t stride)
{
  static const uint8_t none[TT_ADDRESS_PACKED_BYTES];
  struct tcp *tcp = (struct tcp *)transport;
  for (int peer = 0; peer < tcp->spec->nranks; peer++) {
    const uint8_t *peer_info = (const uint8_t *)peer_infos + (size_t)peer * stride;
    tcp->peers[peer].len = 0;
    if (memcmp(peer_info, none, sizeof none) == 0) continue;
    tuttiResult_t result = tt_address_unpack(&tcp->peers[peer], peer_info);
    if (result != tuttiSuccess) return result;
  }
  return tuttiSuccess;
}

static int reaches(const struct tt_transport *transport, int peer)
{
  const struct tcp *tcp = (const struct tcp *)transport;
  return peer != tcp->spec->rank && tcp->here.len > 0 && tcp->peers[peer].len > 0;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int same_ip(const struct tt_address *a, const struct tt_address *b)
{
  if (a->any.sa_family != b->any.sa_family) return 0;
  if (a->any.sa_family == AF_INET) return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
  return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

/* Both sides must decide alike, so only settings that are the same everywhere and the two peer infos count. */
static enum tcp_check check_of(const struct tcp *tcp, int peer)
{
  enum { AUTO, ON, OFF };
  const struct tt_settings *settings = tcp->spec->settings;
  const struct tt_address *here = &tcp->here, *there = &tcp->peers[peer];
  if (settings->auth >= TT_AUTH_DATA) return settings->auth == TT_AUTH_DATA ? TCP_GUARDED : TCP_ENCRYPTED;
  int is_within = same_ip(here, there) || (tt_address_is_loopback(here) && tt_address_is_loopback(there));
  int has_crc = settings->tcp_crc == AUTO ? !is_within : settings->tcp_crc == ON;
  return has_crc ? TCP_CRC : TCP_UNCHECKED;
}

static void option_set(int fd, int level, int name, int value)
{
  /* A kernel that does not know an option only costs speed, or a later notice of a lost peer. */
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* BBR finds the rate of one steady flow. A collective sends to several ranks at once, or by turns, and after pauses:
 * there it paces below what the links allow (docs/tuning.md has the figures), so cubic takes its place by default. */
const char *tt_tcp_congestion(const char *wanted, const char *now)
{
  if (strcmp(wanted, "auto") == 0) return strcmp(now, "bbr") == 0 ? "cubic" : "";
  return strcmp(wanted, "system") == 0 ? "" : wanted;
}

static tuttiResult_t congestion_set(const struct tt_settings *settings, int fd)
{
  char now[32] = "";
  socklen_t len = sizeof now - 1;
  (void)getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &len);
  const char *name = tt_tcp_congestion(settings->tcp_congestion, now);
  if (!*name || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0) return tuttiSuccess;
  if (name != settings->tcp_congestion) return tuttiSuccess; /* a system may forbid cubic: then its own stays */
  return tt_fail(tuttiSystemError,
                 "TUTTI_TCP_CONGESTION is \"%s\": %s; take auto, system, or one that "
                 "/proc/sys/net/ipv4/tcp_allowed_congestion_control lists",
                 name, strerror(errno));
}

/* Buffer sizes are left to the kernel, whose autotuning was as fast as any fixed size on loopback and knows the
 * network's. TCP_QUICKACK would only add packets: answers carry the acknowledgements.
 *
 * TCP_USER_TIMEOUT is not set: it also ends connections to a healthy peer that does not read for
 * so long, and a rank may be late by `timeout_ms`. The control links of watch notice hosts that vanish while data is
 * under way; keepalive notices those that vanish from idle links, later than watch notices neighbours. */
static tuttiResult_t options_set(const struct tt_settings *settings, int fd)
{
  int seconds = 2 * (int)(settings->unreachable_ms / 1000) + 2, pause = 1 + seconds / 120;
  option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause);
  option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, seconds / pause + 1);
  option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  tt_socket_endure(fd, settings->unreachable_ms);
  return congestion_set(settings, fd);
}

/* Makes the link over a connected socket, which it closes on failure. */
static tuttiResult_t link_make(struct tcp *tcp, int peer, int lane, int fd)
{
  struct slot *slot = slot_at(tcp, peer, lane);
  tuttiResult_t result = options_set(tcp->spec->settings, fd);
  if (result == tuttiSuccess) result = tt_tcp_link_create(&slot->link, fd, check_of(tcp, peer), &slot->session);
  tt_wipe(&slot->session, sizeof slot->session);
  if (result != tuttiSuccess) {
    close(fd);
    return result;
  }
  slot->link->base.transport = &tcp->base;
  slot->link->base.peer = peer;
  slot->link->base.lane = lane;
  return tuttiSuccess;
}

static tuttiResult_t dial_go(struct tcp *tcp, int peer, int lane, int *fd)
{
  const struct tt_transport_spec *spec = tcp->spec;
  struct slot *slot = slot_at(tcp, peer, lane);
  if (!slot->dialer) {
    struct tt_hello hello = {.kind = (uint16_t)kind_of(tcp), .lane = (uint16_t)lane, .src = (uint32_t)spec->rank,
                             .dst = (uint32_t)peer};
    uint64_t deadline_ns = slot->deadline_ns ? slot->deadline_ns : UINT64_MAX;
    tuttiResult_t result =
        tt_dialer_start(&slot->dialer, &tcp->peers[peer], spec->credentials, &hello, deadline_ns);
    if (result != tuttiSuccess) return result;
  }
  tuttiResult_t result = tt_dialer_poll(slot->dialer, fd);
  if (result == tuttiInProgress) return result;
  slot->session = *tt_dialer_session(slot->dialer);
  tt_dialer_destroy(slot->dialer);
  slot->dialer = NULL;
  return result;
}

static tuttiResult_t client_await(struct tcp *tcp, int peer, int lane, int *fd)
{
  struct slot *slot = slot_at(tcp, peer, lane);
  char here[TT_ADDRESS_TEXT_BYTES], there[TT_ADDRESS_TEXT_BYTES];
  int came = client_take(slot);
  if (came >= 0) {
    *fd = came;
    return tuttiSuccess;
  }
  if (tt_lane_is_patient(tcp->spec, lane) || tt_now_ns() < slot->deadline_ns) return tuttiInProgress;
  return tt_fail(tuttiRemoteError,
                 "rank %d (%s) did not connect to rank %d (%s) on lane %d within %lld ms: see whether it lives, "
                 "whether a firewall is between them, or raise TUTTI_INIT_TIMEOUT_MS",
                 peer, tt_address_text(&tcp->peers[peer], there, sizeof there), tcp->spec->rank,
                 tt_address_text(&tcp->here, here, sizeof here), lane,
                 (long long)tcp->spec->settings->init_timeout_ms);
}

static tuttiResult_t open_step(struct tcp *tcp, int peer, int lane)
{
  int fd;
  tuttiResult_t result =
      peer > tcp->spec->rank ? dial_go(tcp, peer, lane, &fd) : client_await(tcp, peer, lane, &fd);
  return result == tuttiSuccess ? link_make(tcp, peer, lane, fd) : result;
}

static tuttiResult_t open_link(struct tt_transport *transport, int peer, int lane, struct tt_link **link)
{
  struct tcp *tcp = (struct tcp *)transport;
  if (peer < 0 || peer >= tcp->spec->nranks || lane < 0 || lane >= tcp->spec->lanes || !reaches(transport, peer))
    return tt_fail(tuttiInternalError, "TCP link from rank %d to rank %d on lane %d: there is none", tcp->spec->rank,
                   peer, lane);
  struct slot *slot = slot_at(tcp, peer, lane);
  if (slot->failed != tuttiSuccess) return slot->failed;
  if (slot->deadline_ns == 0) {
    slot->deadline_ns = tt_now_ns() + (uint64_t)tcp->spec->settings->init_timeout_ms * 1000000u;
    if (slot->dialer) tt_dialer_until(slot->dialer, slot->deadline_ns);
  }
  if (!slot->link) {
    tuttiResult_t result = open_step(tcp, peer, lane);
    if (result == tuttiInProgress) return result;
    slot->failed = result;
    if (result != tuttiSuccess) return result;
  }
  *link = &slot->link->base;
  return tuttiSuccess;
}

/* The lower rank dials. On the other side the client waits in its slot for open. */
static tuttiResult_t prepare(struct tt_transport *transport, int peer, int lane)
{
  struct tcp *tcp = (struct tcp *)transport;
  struct slot *slot = slot_at(tcp, peer, lane);
  int fd;
  if (slot->link || slot->failed != tuttiSuccess || peer < tcp->spec->rank) return tuttiSuccess;
  tuttiResult_t result = dial_go(tcp, peer, lane, &fd);
  return result == tuttiSuccess ? link_make(tcp, peer, lane, fd) : result;
}

/* ---- information ----------------------------------------------------------------------------- */

static int descriptors(const struct tt_transport *transport)
{
  const struct tcp *tcp = (const struct tcp *)transport;
  size_t count = (size_t)tcp->spec->nranks * (size_t)tcp->spec->lanes;
  int used = 0;
  tt_service_lock();
  for (size_t i = 0; i < count; i++) {
    const struct slot *slot = &tcp->slots[i];
    used += (slot->link != NULL) + (slot->dialer != NULL) + (slot->client >= 0);
  }
  tt_service_unlock();
  return used;
}

/* Name of the interface that has the address; "?" if there is none. */
static void interface_name(const struct tt_address *address, char name[16])
{
  struct ifaddrs *list = NULL;
  strcpy(name, "?");
  if (getifaddrs(&list) != 0) return;
  for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
    struct tt_address one = {0};
    if (!at->ifa_addr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6)) continue;
    memcpy(&one.any, at->ifa_addr, at->ifa_addr->sa_family == AF_INET ? sizeof one.v4 : sizeof one.v6);
    if (!same_ip(&one, address)) continue;
    snprintf(name, 16, "%.15s", at->ifa_name);
    break;
  }
  freeifaddrs(list);
}

static size_t held(const struct tt_transport *transport)
{
  const struct tcp *tcp = (const struct tcp *)transport;
  size_t count = (size_t)tcp->spec->nranks * (size_t)tcp->spec->lanes, bytes = 0;
  size_t each = TCP_STAGE_BYTES + (tcp->spec->settings->auth == TT_AUTH_ENCRYPT ? TCP_FRAME_BYTES : 0);
  for (size_t i = 0; i < count; i++) bytes += tcp->slots[i].link ? each : 0;
  return bytes;
}

static const char *path(const struct tt_transport *transport, int peer, char *text, size_t size)
{
  static const char *const checks[] = {
      [TCP_UNCHECKED] = "", [TCP_CRC] = ", CRC32C", [TCP_GUARDED] = ", authenticated", [TCP_ENCRYPTED] = ", encrypted"};
  const struct tcp *tcp = (const struct tcp *)transport;
  char name[16], here[TT_ADDRESS_TEXT_BYTES], there[TT_ADDRESS_TEXT_BYTES];
  interface_name(&tcp->here, name);
  snprintf(text, size, "tcp %s %s -> %s%s", name, tt_address_text(&tcp->here, here, sizeof here),
           tt_address_text(&tcp->peers[peer], there, sizeof there), checks[check_of(tcp, peer)]);
  return text;
}

const struct tt_transport_ops tt_transport_tcp = {
    .name = "tcp",
    .block_bytes = TT_BLOCK_BYTES_SOCKET,
    .ends_links = 1,
    .uses_interface = 1,
    .unusable = unusable,
    .create = create,
    .connect = connect_all,
    .reaches = reaches,
    .open = open_link,
    .prepare = prepare,
    .descriptors = descriptors,
    .held = held,
    .path = path,
    .destroy = destroy,
};
