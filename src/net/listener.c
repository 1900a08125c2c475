/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners: listening sockets, shared within the process, and their admissions. Connections that
 * have not proved a key yet are in pending.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/private.h"

static int is_local(const struct tt_address *address)
{
  return address->len == 0;
}

static int port_of(const struct tt_address *address)
{
  if (address->any.sa_family == AF_UNIX) return -1; /* it has a name, no port */
  return address->any.sa_family == AF_INET ? ntohs(address->v4.sin_port)
                                           : ntohs(address->v6.sin6_port);
}

/* "@tutti-<16 hex digits>": abstract, so nothing is left behind in a file system. */
static void local_name(struct tt_address *address)
{
  uint64_t number;
  tt_random(&number, sizeof number);
  memset(address, 0, sizeof *address);
  address->local.sun_family = AF_UNIX;
  int n = snprintf(address->local.sun_path + 1, sizeof address->local.sun_path - 1, "tutti-%016llx",
                   (unsigned long long)number);
  address->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Names the process that has our address: another user's may have taken it before us. */
static void holder_text(const struct tt_address *at, char *text, size_t size)
{
  char who[96];
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  snprintf(who, sizeof who, "another process");
  int is_theirs = fd >= 0 && connect(fd, &at->any, at->len) == 0 && !tt_user_is_ours(fd, who, sizeof who);
  if (fd >= 0) close(fd);
  snprintf(text, size, "%s has this address; TUTTI_PORT, MASTER_PORT or TUTTI_COMM_ID chooses another one%s", who,
           is_theirs ? ", and one TUTTI_KEY_FILE for all ranks does without it" : "");
}

static tuttiResult_t listen_failed(const struct tt_address *at, int error)
{
  char text[TT_ADDRESS_TEXT_BYTES], why[256] = "this host has no such address";
  tt_address_text(at, text, sizeof text);
  if (error == EADDRINUSE && at->any.sa_family == AF_UNIX) holder_text(at, why, sizeof why);
  else if (error == EADDRINUSE)
    snprintf(why, sizeof why,
             "another process has this port; TUTTI_PORT, MASTER_PORT or TUTTI_COMM_ID chooses another one");
  else if (error != EADDRNOTAVAIL) return tt_fail(tuttiSystemError, "listening at %s: %s", text, strerror(error));
  return tt_fail(tuttiSystemError, "listening at %s: %s: %s", text, strerror(error), why);
}

static tuttiResult_t listen_at(struct tt_listener *listener)
{
  struct tt_address *at = &listener->address;
  char text[TT_ADDRESS_TEXT_BYTES];
  int one = 1;
  *at = listener->asked;
  if (is_local(at)) local_name(at);
  int fd = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return tt_fail(tuttiSystemError, "socket for %s: %s (see `ulimit -n`)",
                   tt_address_text(at, text, sizeof text), strerror(errno));
  listener->watcher.fd = fd;
  tt_process_socket(fd);
  /* A fixed port must be free again as soon as the previous job has ended. */
  if (!listener->shared) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  socklen_t size = sizeof *at - offsetof(struct tt_address, any);
  if (bind(fd, &at->any, at->len) != 0 || listen(fd, INT_MAX) != 0 || /* cut to somaxconn */
      getsockname(fd, &at->any, &size) != 0)
    return listen_failed(at, errno);
  at->len = size;
  return tuttiSuccess;
}

static void listener_free(struct tt_listener *listener)
{
  tt_pending_close(listener);
  if (listener->watcher.fd >= 0) close(listener->watcher.fd);
  if (listener->reserve >= 0) close(listener->reserve);
  while (listener->admissions) {
    struct tt_admission *gone = listener->admissions;
    listener->admissions = gone->next;
    tt_wipe(gone, sizeof *gone);
    tt_free(gone);
  }
  tt_free(listener);
}

static tuttiResult_t listener_make(struct tt_listener **out, const struct tt_address *where)
{
  struct tt_listener *listener = tt_alloc(1, sizeof *listener);
  if (!listener) return tt_fail(tuttiSystemError, "out of memory for a listener of %zu bytes", sizeof *listener);
  listener->asked = *where;
  listener->shared = is_local(where) || port_of(where) == 0;
  listener->is_users = where->any.sa_family == AF_UNIX;
  listener->users = 1;
  listener->watcher.fd = -1;
  for (int i = 0; i < TT_LISTENER_SLOTS; i++) listener->slots[i].watcher.fd = -1;
  listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
  tuttiResult_t result = listen_at(listener);
  if (result == tuttiSuccess) result = tt_pending_open(listener);
  if (result != tuttiSuccess) {
    listener_free(listener);
    return result;
  }
  *out = listener;
  return tuttiSuccess;
}

static int same_place(const struct tt_address *a, const struct tt_address *b)
{
  if (is_local(a) || is_local(b)) return is_local(a) && is_local(b);
  if (a->any.sa_family != b->any.sa_family) return 0;
  if (a->any.sa_family == AF_INET) return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
  return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr) &&
         a->v6.sin6_scope_id == b->v6.sin6_scope_id;
}

/* Finds the shared listener that exists already, or makes a new one. Under the lock. */
static tuttiResult_t find_or_make(struct tt_listener **out, const struct tt_address *where)
{
  struct tt_listener **listeners = tt_service_listeners();
  int shared = is_local(where) || port_of(where) == 0;
  for (struct tt_listener *listener = *listeners; shared && listener; listener = listener->next) {
    if (!listener->shared || !same_place(&listener->asked, where)) continue;
    listener->users++;
    *out = listener;
    return tuttiSuccess;
  }
  tuttiResult_t result = listener_make(out, where);
  if (result != tuttiSuccess) return result;
  (*out)->next = *listeners;
  *listeners = *out;
  return tuttiSuccess;
}

tuttiResult_t tt_listener_open(struct tt_listener **listener, const struct tt_address *where)
{
  tuttiResult_t result = tt_auth_init();
  if (result != tuttiSuccess) return result;
  int family = where->any.sa_family;
  if (!is_local(where) && family != AF_INET && family != AF_INET6 && family != AF_UNIX)
    return tt_fail(tuttiInternalError, "a listener at an address of family %d", family);
  result = tt_service_hold();
  if (result != tuttiSuccess) return result;
  tt_service_lock();
  result = find_or_make(listener, where);
  tt_service_unlock();
  if (result != tuttiSuccess) tt_service_release();
  return result;
}

void tt_listener_close(struct tt_listener *listener)
{
  if (!listener || atomic_load(&tt_process.forked)) return;
  tt_service_lock();
  if (--listener->users == 0) {
    struct tt_listener **at = tt_service_listeners();
    while (*at && *at != listener) at = &(*at)->next;
    if (*at) *at = listener->next;
    listener_free(listener);
  }
  tt_service_unlock();
  tt_service_release();
}

const struct tt_address *tt_listener_address(const struct tt_listener *listener)
{
  return &listener->address;
}

uint64_t tt_listener_refused(const struct tt_listener *listener)
{
  return atomic_load(&listener->refused);
}

static int same_credentials(const struct tt_credentials *a, const struct tt_credentials *b)
{
  return a->epoch == b->epoch && memcmp(a->job, b->job, TT_JOB_BYTES) == 0 &&
         memcmp(a->key, b->key, TT_KEY_BYTES) == 0;
}

/* An owner may admit very many in a row, each with a key of its own: then only its first one is looked for. */
static int is_admitted(const struct tt_listener *listener, const struct tt_admission *made)
{
  for (const struct tt_admission *at = listener->admissions; at; at = at->next) {
    if (at->kind == made->kind && at->dst == made->dst && same_credentials(&at->credentials, &made->credentials))
      return 1;
    if (at == listener->admissions && at->owner == made->owner && at->kind == made->kind) return 0;
  }
  return 0;
}

tuttiResult_t tt_listener_admit(struct tt_listener *listener, const struct tt_credentials *credentials,
                                enum tt_hello_kind kind, uint32_t dst, tt_client_fn client, void *owner)
{
  struct tt_admission *made = tt_alloc(1, sizeof *made);
  if (!made) return tt_fail(tuttiSystemError, "out of memory for an admission");
  *made = (struct tt_admission){
      .credentials = *credentials, .kind = kind, .dst = dst, .client = client, .owner = owner};
  tt_service_lock();
  int taken = is_admitted(listener, made);
  if (!taken) {
    made->next = listener->admissions;
    listener->admissions = made;
  }
  tt_service_unlock();
  if (!taken) return tuttiSuccess;
  tt_wipe(made, sizeof *made);
  tt_free(made);
  return tt_fail(tuttiInvalidUsage,
                 "rank %u of this communicator exists twice in this process: one unique id makes "
                 "one communicator, and each rank joins once",
                 dst);
}

void tt_listener_dismiss(struct tt_listener *listener, const void *owner)
{
  tt_service_lock();
  for (struct tt_admission **at = &listener->admissions; *at;) {
    struct tt_admission *one = *at;
    if (one->owner != owner) {
      at = &one->next;
      continue;
    }
    *at = one->next;
    tt_wipe(one, sizeof *one);
    tt_free(one);
  }
  tt_service_unlock();
}
