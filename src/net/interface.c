/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the interface on which others reach this process. The syntax of TUTTI_SOCKET_IFNAME is NCCL's. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "net/private.h"

#define LIST_MOST 256

/* TUTTI_SOCKET_IFNAME, parsed. */
struct rule {
  int exclude, exact;
  const char *names; /* comma separated */
};

static struct rule rule_parse(const char *spec)
{
  struct rule rule = {.names = spec ? spec : ""};
  if (*rule.names == '^') {
    rule.exclude = 1;
    rule.names++;
  }
  if (*rule.names == '=') {
    rule.exact = 1;
    rule.names++;
  }
  return rule;
}

static int names_hold(const struct rule *rule, const char *name)
{
  for (const char *at = rule->names; *at;) {
    size_t len = strcspn(at, ",");
    if (len > 0 && strncmp(at, name, len) == 0 && (!rule->exact || name[len] == 0)) return 1;
    at += len + (at[len] == ',');
  }
  return 0;
}

static int is_link_local(const struct tt_address *address)
{
  return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr);
}

/* The lower the better; -1: not allowed. Link-local addresses are of use on one link only, docker
 * bridges and the loopback on this host only; an interface without a carrier reaches nobody at all. */
static int class_of(const struct tt_interface *one, const struct rule *rule, int family)
{
  if (!one->up || (family && one->address.any.sa_family != family)) return -1;
  if (*rule->names && names_hold(rule, one->name) == rule->exclude) return -1;
  int link_local = is_link_local(&one->address);
  if (*rule->names && !rule->exclude) return link_local; /* asked for by name */
  if (!one->running) return 5;
  if (one->loopback) return 4;
  return (strncmp(one->name, "docker", 6) == 0 ? 2 : 0) + link_local;
}

int tt_interface_select(const struct tt_interface *list, int count, const char *spec, int family)
{
  struct rule rule = rule_parse(spec);
  int best = -1, best_class = 0;
  for (int i = 0; i < count; i++) {
    int class = class_of(&list[i], &rule, family);
    if (class < 0 || (best >= 0 && class >= best_class)) continue;
    best = i;
    best_class = class;
  }
  return best;
}

/* IPv4 and IPv6 addresses of all interfaces, in the system's order; at most `most`. */
static int list_fill(struct tt_interface *list, int most, const struct ifaddrs *all)
{
  int count = 0;
  memset(list, 0, sizeof *list * (size_t)most);
  for (const struct ifaddrs *at = all; at && count < most; at = at->ifa_next) {
    if (!at->ifa_addr) continue;
    int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    struct tt_interface *one = &list[count++];
    snprintf(one->name, sizeof one->name, "%s", at->ifa_name);
    one->up = (at->ifa_flags & IFF_UP) != 0;
    one->running = (at->ifa_flags & IFF_RUNNING) != 0;
    one->loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    one->address.len = family == AF_INET ? sizeof one->address.v4 : sizeof one->address.v6;
    memcpy(&one->address.any, at->ifa_addr, one->address.len);
  }
  return count;
}

/* "lo 127.0.0.1:0, eth0 ..." without the ports. */
static void list_text(const struct tt_interface *list, int count, char *text, size_t size)
{
  size_t used = 0;
  snprintf(text, size, "none");
  for (int i = 0; i < count && used < size; i++) {
    char address[TT_ADDRESS_TEXT_BYTES];
    tt_address_text(&list[i].address, address, sizeof address);
    *strrchr(address, ':') = 0;
    int n = snprintf(text + used, size - used, "%s%s %s%s", i ? ", " : "", list[i].name, address,
                     list[i].up ? "" : " (down)");
    used += (size_t)n;
  }
}

static int is_any_up(const struct tt_interface *list, int count)
{
  for (int i = 0; i < count; i++)
    if (list[i].up) return 1;
  return 0;
}

static tuttiResult_t refuse(const struct tt_settings *settings, const struct tt_interface *list,
                            int count)
{
  static const char *const families[] = {"any", "AF_INET", "AF_INET6"};
  char there[300];
  list_text(list, count, there, sizeof there);
  return tt_fail(tuttiSystemError,
                 "no interface fits TUTTI_SOCKET_IFNAME \"%.64s\" and TUTTI_SOCKET_FAMILY %s: "
                 "there are %s%s",
                 settings->socket_ifname, families[settings->socket_family], there,
                 is_any_up(list, count) ? "" : "; `ip link set lo up` gives this host its own");
}

int tt_interface_there(const char *name, char *names, size_t size)
{
  struct if_nameindex *all = if_nameindex();
  size_t used = 0;
  int is_there = 0;
  names[0] = 0;
  for (const struct if_nameindex *at = all; at && at->if_index; at++) {
    is_there |= strcmp(at->if_name, name) == 0;
    if (used < size) used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "", at->if_name);
  }
  if (all) if_freenameindex(all);
  return is_there;
}

/* In a sandbox that forbids getifaddrs, ranks of one host can still meet. */
static tuttiResult_t loopback_take(struct tt_address *address, char name[16], int family)
{
  tt_log(TT_LOG_INFO, "getifaddrs: %s: only ranks on this host can be reached", strerror(errno));
  tuttiResult_t result = tt_address_parse(address, family == AF_INET6 ? "[::1]:0" : "127.0.0.1:0");
  if (result == tuttiSuccess) strcpy(name, "lo");
  return result;
}

tuttiResult_t tt_interface_choose(const struct tt_settings *settings, struct tt_address *address,
                                  char name[16])
{
  static const int families[] = {0, AF_INET, AF_INET6};
  struct ifaddrs *all = NULL;
  if (getifaddrs(&all) != 0) {
    if (*settings->socket_ifname)
      return tt_fail(tuttiSystemError, "getifaddrs: %s: TUTTI_SOCKET_IFNAME cannot be followed",
                     strerror(errno));
    return loopback_take(address, name, families[settings->socket_family]);
  }
  tuttiResult_t result = tuttiSuccess;
  struct tt_interface *list = tt_alloc(LIST_MOST, sizeof *list);
  if (!list) {
    freeifaddrs(all);
    return tt_fail(tuttiSystemError, "out of memory for the list of interfaces");
  }
  int count = list_fill(list, LIST_MOST, all);
  int chosen = tt_interface_select(list, count, settings->socket_ifname,
                                   families[settings->socket_family]);
  int is_asked_for = settings->socket_ifname[0] || settings->socket_family;
  if (chosen < 0 && !is_asked_for && !is_any_up(list, count)) {
    memset(address, 0, sizeof *address);
    name[0] = 0;
  } else if (chosen < 0) {
    result = refuse(settings, list, count);
  } else {
    *address = list[chosen].address;
    memcpy(name, list[chosen].name, sizeof list[chosen].name);
  }
  tt_free(list);
  freeifaddrs(all);
  return result;
}
