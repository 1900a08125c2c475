/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/wire.h"
#include "net/net.h"

static const char *local_text(const struct tt_address *address, char *text, size_t size)
{
  size_t len = address->len - offsetof(struct sockaddr_un, sun_path);
  const char *path = address->local.sun_path;
  if (len == 0) snprintf(text, size, "local");
  else if (*path == 0) snprintf(text, size, "@%.*s", (int)len - 1, path + 1);
  else snprintf(text, size, "%.*s", (int)len, path);
  return text;
}

/* The scope id of a link-local address has no meaning beyond this host. */
static int is_link_local(const struct in6_addr *ip)
{
  return IN6_IS_ADDR_LINKLOCAL(ip) || IN6_IS_ADDR_MC_LINKLOCAL(ip);
}

/* Only in a link-local address is an interface understood by its name. */
static const char *v6_text(const struct tt_address *address, char *text, size_t size)
{
  char ip[INET6_ADDRSTRLEN] = "?", name[IF_NAMESIZE], scope[IF_NAMESIZE + 16] = "";
  uint32_t index = address->v6.sin6_scope_id;
  inet_ntop(AF_INET6, &address->v6.sin6_addr, ip, sizeof ip);
  if (index && is_link_local(&address->v6.sin6_addr) && if_indextoname(index, name))
    snprintf(scope, sizeof scope, "%%%s", name);
  else if (index)
    snprintf(scope, sizeof scope, "%%%u", index);
  snprintf(text, size, "[%s%s]:%u", ip, scope, ntohs(address->v6.sin6_port));
  return text;
}

const char *tt_address_text(const struct tt_address *address, char *text, size_t size)
{
  char ip[INET_ADDRSTRLEN] = "?";
  if (address->len == 0) {
    snprintf(text, size, "no address");
    return text;
  }
  switch (address->any.sa_family) {
  case AF_INET:
    inet_ntop(AF_INET, &address->v4.sin_addr, ip, sizeof ip);
    snprintf(text, size, "%s:%u", ip, ntohs(address->v4.sin_port));
    return text;
  case AF_INET6: return v6_text(address, text, size);
  case AF_UNIX: return local_text(address, text, size);
  default: snprintf(text, size, "family %u", address->any.sa_family); return text;
  }
}

enum { AT_FAMILY = 0, AT_PORT = 2, AT_SCOPE = 4, AT_IP = 8, AT_NAME = 8 };
#define LOCAL_NAME (offsetof(struct sockaddr_un, sun_path) + 1) /* abstract names begin with a NUL */

void tt_address_pack(const struct tt_address *address, uint8_t out[TT_ADDRESS_PACKED_BYTES])
{
  memset(out, 0, TT_ADDRESS_PACKED_BYTES);
  if (address->len == 0) return;
  if (address->any.sa_family == AF_INET) {
    tt_wire_put(out + AT_FAMILY, 2, 4);
    tt_wire_put(out + AT_PORT, 2, ntohs(address->v4.sin_port));
    memcpy(out + AT_IP, &address->v4.sin_addr, 4);
  } else if (address->any.sa_family == AF_INET6) {
    tt_wire_put(out + AT_FAMILY, 2, 6);
    tt_wire_put(out + AT_PORT, 2, ntohs(address->v6.sin6_port));
    if (!is_link_local(&address->v6.sin6_addr))
      tt_wire_put(out + AT_SCOPE, 4, address->v6.sin6_scope_id);
    memcpy(out + AT_IP, &address->v6.sin6_addr, 16);
  } else if (address->any.sa_family == AF_UNIX) {
    size_t len = address->len - LOCAL_NAME;
    if (len > TT_ADDRESS_PACKED_BYTES - AT_NAME) return;
    tt_wire_put(out + AT_FAMILY, 2, 1);
    memcpy(out + AT_NAME, address->local.sun_path + 1, len);
  }
}

/* The interface over which this process reaches link-local peers. */
static tuttiResult_t scope_find(uint32_t *scope)
{
  struct tt_settings settings;
  struct tt_address address;
  char name[16];
  tuttiResult_t result = tt_settings_load(&settings);
  if (result == tuttiSuccess) result = tt_interface_choose(&settings, &address, name);
  if (result == tuttiSuccess) *scope = if_nametoindex(name);
  return result;
}

tuttiResult_t tt_address_unpack(struct tt_address *address,
                                const uint8_t in[TT_ADDRESS_PACKED_BYTES])
{
  struct tt_address made;
  memset(&made, 0, sizeof made);
  uint16_t port = htons((uint16_t)tt_wire_get(in + AT_PORT, 2));
  unsigned family = (unsigned)tt_wire_get(in + AT_FAMILY, 2);
  if (family == 4) {
    made.len = sizeof made.v4;
    made.v4.sin_family = AF_INET;
    made.v4.sin_port = port;
    memcpy(&made.v4.sin_addr, in + AT_IP, 4);
  } else if (family == 6) {
    made.len = sizeof made.v6;
    made.v6.sin6_family = AF_INET6;
    made.v6.sin6_port = port;
    made.v6.sin6_scope_id = (uint32_t)tt_wire_get(in + AT_SCOPE, 4);
    memcpy(&made.v6.sin6_addr, in + AT_IP, 16);
    if (is_link_local(&made.v6.sin6_addr)) {
      tuttiResult_t result = scope_find(&made.v6.sin6_scope_id);
      if (result != tuttiSuccess) return result;
    }
  } else if (family == 1) {
    made.local.sun_family = AF_UNIX;
    memcpy(made.local.sun_path + 1, in + AT_NAME, TT_ADDRESS_PACKED_BYTES - AT_NAME);
    made.len = (socklen_t)(LOCAL_NAME + strlen(made.local.sun_path + 1));
  } else if (family != 0) {
    return tt_fail(tuttiInvalidArgument,
                   "an address of family %u: only IPv4 (4), IPv6 (6) and local listeners (1) are known", family);
  }
  *address = made;
  return tuttiSuccess;
}

/* Splits "host:port" or "[host]:port"; 0 if the text is neither. */
static int split(const char *text, char *host, size_t size, const char **port)
{
  const char *end, *colon;
  if (*text == '[') {
    end = strchr(++text, ']');
    if (!end || end[1] != ':') return 0;
    colon = end + 1;
  } else {
    end = colon = strchr(text, ':'); /* a bare IPv6 address is ambiguous: it gives no port */
    if (!colon) return 0;
  }
  size_t len = (size_t)(end - text);
  if (len == 0 || len >= size) return 0;
  memcpy(host, text, len);
  host[len] = 0;
  *port = colon + 1;
  return 1;
}

static int port_parse(const char *text)
{
  char *end;
  if (*text < '0' || *text > '9') return -1;
  long port = strtol(text, &end, 10);
  return *end || port > 65535 ? -1 : (int)port;
}

/* Labels of 1 to 63 letters, digits, '-' and '_', the last one not only digits, as in a wrong IPv4 address. */
static int is_name(const char *host)
{
  static const char *const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  for (;;) {
    size_t len = strspn(host, legal);
    if (len == 0 || len > 63 || (host[len] && host[len] != '.')) return 0;
    if (!host[len] || !host[len + 1]) return strspn(host, "0123456789") < len;
    host += len + 1;
  }
}

static tuttiResult_t unknown(const char *host, const char *text, const char *why, int may_come)
{
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "host \"%.200s\" of \"%.200s\" (TUTTI_COMM_ID or MASTER_ADDR) is not known: %s",
           host, text, why);
  return may_come ? tt_fail_quiet(tuttiInProgress, sentence) : tt_fail(tuttiInvalidArgument, "%s", sentence);
}

tuttiResult_t tt_address_parse(struct tt_address *address, const char *text)
{
  char host[256];
  const char *port_text = "";
  int port = -1;
  if (split(text, host, sizeof host, &port_text)) port = port_parse(port_text);
  if (port < 0)
    return tt_fail(tuttiInvalidArgument,
                   "\"%.200s\" (TUTTI_COMM_ID, or MASTER_ADDR and its port) is no address: give host:port or "
                   "[v6]:port, with a port up to 65535",
                   text);
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
  int error = getaddrinfo(host, NULL, &hints, &found);
  if (error)
    return unknown(host, text, error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error), is_name(host));
  struct tt_address made;
  memset(&made, 0, sizeof made);
  made.len = found->ai_addrlen;
  memcpy(&made.any, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (made.any.sa_family == AF_INET) made.v4.sin_port = htons((uint16_t)port);
  else made.v6.sin6_port = htons((uint16_t)port);
  *address = made;
  return tuttiSuccess;
}

void tt_address_local(struct tt_address *local, const struct tt_address *loopback)
{
  char text[TT_ADDRESS_TEXT_BYTES];
  memset(local, 0, sizeof *local);
  local->local.sun_family = AF_UNIX;
  int n = snprintf(local->local.sun_path + 1, sizeof local->local.sun_path - 1, "tutti-%.80s",
                   tt_address_text(loopback, text, sizeof text));
  local->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int tt_address_is_loopback(const struct tt_address *address)
{
  if (address->len == 0) return 0;
  switch (address->any.sa_family) {
  case AF_UNIX: return 1;
  case AF_INET: return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
  case AF_INET6:
    if (IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr))
      return address->v6.sin6_addr.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
  default: return 0;
  }
}
