/* SPDX-License-Identifier: BSD-3-Clause */
/* Pending connections of a listener: accepts, challenges, checks, and hands authenticated clients over.
 * All in the service thread, under its lock. A connection costs a fixed slot for TIME_NS at
 * most, two small sends, and no allocation. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/private.h"

#define MS 1000000u
#define TIME_NS (2000u * MS)   /* from accept to a right reply */
#define SCAN_NS (100u * MS)    /* period of the search for slots past TIME_NS */
#define GRACE_NS (25u * MS)    /* no eviction before this age: an honest client has answered by then */
#define PAUSE_NS (10u * MS)    /* pause of accepting without descriptors, or if all slots are younger than GRACE_NS */
#define LOG_NS (10000u * (uint64_t)MS)
#define ACCEPT_MOST 16         /* connections at once, so that replies are read in between */

/* ---- refusals ---- */

void tt_listener_refusals(const struct tt_listener *listener, struct tt_refusals *refusals)
{
  *refusals = listener->refusals;
}

const char *tt_listener_refusals_text(const struct tt_listener *listener, const struct tt_refusals *since, char *text,
                                      size_t size)
{
  static const char *const reasons[TT_REFUSALS] = {
      [TT_REFUSED_KEY] = "with another key", [TT_REFUSED_ID] = "with another id",
      [TT_REFUSED_VERSION] = "of another version or build of this library", [TT_REFUSED_USER] = "of another user",
      [TT_REFUSED_STRANGER] = "that spoke another protocol or nothing",
      [TT_REFUSED_STARVED] = "for lack of descriptors here (see `ulimit -n`)"};
  size_t used = 0;
  text[0] = 0;
  for (int r = 0; r < TT_REFUSALS && used + 1 < size; r++) {
    uint64_t count = listener->refusals.count[r] - since->count[r];
    if (!reasons[r] || !count) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%llu connection%s %s, the last from %s",
                             used ? "; " : " (refused: ", (unsigned long long)count, count == 1 ? "" : "s", reasons[r],
                             listener->refused_last[r]);
  }
  if (used && used + 1 < size) snprintf(text + used, size - used, ")");
  return text;
}

/* ---- slots ---- */

static void slot_free(struct tt_pending *slot)
{
  tt_watcher_remove(&slot->watcher);
  slot->watcher.fd = -1;
  if (--slot->listener->pending == 0) tt_timer_remove(&slot->listener->limit);
}

/* "192.0.2.1", "process 4711 of uid 1000" */
static void peer_text(int fd, char *text, size_t size)
{
  struct tt_address peer;
  char name[TT_ADDRESS_TEXT_BYTES], *port;
  socklen_t len = sizeof peer - offsetof(struct tt_address, any);
  memset(&peer, 0, sizeof peer);
  snprintf(text, size, "an unknown place");
  if (fd < 0 || getpeername(fd, &peer.any, &len) != 0) return;
  peer.len = len;
  if (peer.any.sa_family == AF_UNIX) {
    tt_user_is_ours(fd, text, size);
    return;
  }
  tt_address_text(&peer, name, sizeof name);
  port = strrchr(name, ':');
  snprintf(text, size, "%.*s", port ? (int)(port - name) : 0, name);
}

static void refused_count(struct tt_listener *listener, enum tt_refusal why, int fd)
{
  uint64_t refused = atomic_fetch_add(&listener->refused, 1) + 1, now = tt_now_ns();
  listener->refusals.count[why]++;
  peer_text(fd, listener->refused_last[why], sizeof listener->refused_last[why]);
  if (!tt_log_wants(TT_LOG_INFO) || (listener->logged_ns && now - listener->logged_ns < LOG_NS)) return;
  char text[TT_ADDRESS_TEXT_BYTES], which[256];
  tt_log(TT_LOG_INFO, "listener %s refused %llu connection%s%s", tt_address_text(&listener->address, text, sizeof text),
         (unsigned long long)(refused - listener->logged), refused - listener->logged == 1 ? "" : "s",
         tt_listener_refusals_text(listener, &listener->logged_refusals, which, sizeof which));
  listener->logged_ns = now;
  listener->logged = refused;
  listener->logged_refusals = listener->refusals;
}

static void slot_refuse(struct tt_pending *slot, enum tt_refusal why)
{
  int fd = slot->watcher.fd;
  refused_count(slot->listener, why, fd); /* before the peer can see the refusal */
  slot_free(slot);
  close(fd);
}

/* ---- the reply ---- */

static const struct tt_admission *admission_find(const struct tt_listener *listener,
                                                 const struct tt_credentials *credentials,
                                                 const struct tt_hello *hello)
{
  for (const struct tt_admission *at = listener->admissions; at; at = at->next)
    if (at->kind == hello->kind && at->dst == hello->dst && at->credentials.epoch == credentials->epoch &&
        memcmp(at->credentials.job, credentials->job, TT_JOB_BYTES) == 0 &&
        memcmp(at->credentials.key, credentials->key, TT_KEY_BYTES) == 0)
      return at;
  return NULL;
}

/* The credentials that the reply proves, or NULL; *known: its job and epoch are ours. One job and
 * epoch may have several keys; of admissions in a row with the same key only the first is tried. */
static const struct tt_credentials *credentials_find(const struct tt_pending *slot, struct tt_hello *hello,
                                                     int *known)
{
  uint8_t job[TT_JOB_BYTES];
  uint64_t epoch;
  const struct tt_credentials *tried = NULL;
  if (!tt_reply_claim(slot->reply, job, &epoch)) return NULL;
  for (const struct tt_admission *at = slot->listener->admissions; at; at = at->next) {
    if (at->credentials.epoch != epoch || memcmp(at->credentials.job, job, TT_JOB_BYTES) != 0) continue;
    *known = 1;
    if (tried && memcmp(tried->key, at->credentials.key, TT_KEY_BYTES) == 0) continue;
    tried = &at->credentials;
    if (tt_reply_check(slot->reply, slot->ns, tried, hello)) return tried;
  }
  return NULL;
}

/* The socket is new and has room for two small messages: if one does not fit at once, it never will. */
static int send_all(int fd, const void *data, size_t len)
{
  ssize_t n;
  do n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)len;
}

static enum tt_refusal refusal_of(const struct tt_pending *slot, int is_known)
{
  if (is_known) return TT_REFUSED_KEY;
  switch (tt_reply_seems(slot->reply)) {
  case TT_CLAIM_NONE: return TT_REFUSED_STRANGER;
  case TT_CLAIM_START: return TT_REFUSED_ID;
  default: return TT_REFUSED_OTHER; /* for something not there yet, or no more: the peer tries again or ends */
  }
}

/* Its reply may be longer or shorter than ours, or have no key that we know. */
static void version_refuse(struct tt_pending *slot)
{
  uint8_t verdict[TT_VERDICT_BYTES];
  tt_verdict_refuse(verdict, TT_STATUS_VERSION);
  send_all(slot->watcher.fd, verdict, sizeof verdict);
  slot_refuse(slot, TT_REFUSED_VERSION);
}

/* A client of another version that holds the key: both ends are told. */
static void foreign_refuse(struct tt_pending *slot, const struct tt_credentials *credentials,
                           const struct tt_admission *admission, const struct tt_hello *hello)
{
  static const struct tt_session none;
  uint8_t verdict[TT_VERDICT_BYTES];
  struct tt_session session;
  if (!hello->versions.library) tt_verdict_refuse(verdict, TT_STATUS_VERSION); /* such an old one knows only that */
  else tt_verdict_make(verdict, TT_STATUS_VERSION, slot->reply, slot->ns, credentials, &session);
  send_all(slot->watcher.fd, verdict, sizeof verdict);
  slot_refuse(slot, TT_REFUSED_VERSION);
  if (admission && hello->kind == TT_HELLO_RENDEZVOUS) admission->client(admission->owner, hello, &none, -1);
}

/* Judges a whole reply. Calls the client function last, because that may close the listener. */
static void reply_judge(struct tt_pending *slot)
{
  struct tt_hello hello;
  struct tt_session session;
  uint8_t verdict[TT_VERDICT_BYTES];
  int known = 0, fd = slot->watcher.fd;
  const struct tt_credentials *credentials = credentials_find(slot, &hello, &known);
  if (!credentials && tt_reply_is_foreign(slot->reply, slot->got)) {
    version_refuse(slot);
    return;
  }
  if (!credentials) {
    tt_verdict_refuse(verdict, TT_STATUS_KEY);
    if (known) send_all(fd, verdict, sizeof verdict);
    slot_refuse(slot, refusal_of(slot, known));
    return;
  }
  const struct tt_admission *admission = admission_find(slot->listener, credentials, &hello);
  if (tt_reply_is_foreign(slot->reply, slot->got)) {
    foreign_refuse(slot, credentials, admission, &hello);
    return;
  }
  tt_verdict_make(verdict, admission ? TT_WELCOME : TT_STATUS_UNKNOWN, slot->reply, slot->ns, credentials,
                  &session);
  int sent = send_all(fd, verdict, sizeof verdict);
  slot_free(slot);
  if (sent && admission) admission->client(admission->owner, &hello, &session, fd);
  else close(fd);
  tt_wipe(&session, sizeof session);
}

/* The rest of a reply does not come. */
static void slot_give_up(struct tt_pending *slot)
{
  if (tt_reply_is_foreign(slot->reply, slot->got)) version_refuse(slot);
  else slot_refuse(slot, TT_REFUSED_STRANGER);
}

static void slot_ready(struct tt_watcher *watcher, uint32_t events)
{
  struct tt_pending *slot = (struct tt_pending *)(void *)watcher;
  (void)events;
  ssize_t n = recv(watcher->fd, slot->reply + slot->got, TT_REPLY_BYTES - slot->got, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    if (slot->got) slot_give_up(slot);
    else slot_refuse(slot, TT_REFUSED_OTHER); /* a dialer may give up at any time */
    return;
  }
  slot->got += (uint32_t)n;
  if (!tt_reply_plausible(slot->reply, slot->got)) slot_refuse(slot, TT_REFUSED_STRANGER);
  else if (slot->got == TT_REPLY_BYTES) reply_judge(slot);
}

/* ---- accepting ---- */

static void pause_accepting(struct tt_listener *listener)
{
  tt_watcher_change(&listener->watcher, 0);
  tt_timer_add(&listener->pause);
}

static void pause_over(struct tt_timer *timer)
{
  struct tt_listener *listener = (struct tt_listener *)(void *)((char *)timer - offsetof(struct tt_listener, pause));
  tt_timer_remove(timer);
  tt_watcher_change(&listener->watcher, EPOLLIN);
}

static void limit_check(struct tt_timer *timer)
{
  struct tt_listener *listener = (struct tt_listener *)(void *)((char *)timer - offsetof(struct tt_listener, limit));
  uint64_t now = tt_now_ns();
  for (int i = 0; i < TT_LISTENER_SLOTS; i++) {
    struct tt_pending *slot = &listener->slots[i];
    if (slot->watcher.fd >= 0 && now - slot->since_ns > TIME_NS) slot_give_up(slot);
  }
}

/* A free slot, else the oldest one in use; NULL if even that is younger than GRACE_NS. */
static struct tt_pending *slot_find(struct tt_listener *listener, uint64_t now)
{
  struct tt_pending *oldest = NULL;
  for (int i = 0; i < TT_LISTENER_SLOTS; i++) {
    struct tt_pending *slot = &listener->slots[i];
    if (slot->watcher.fd < 0) return slot;
    if (!oldest || slot->since_ns < oldest->since_ns) oldest = slot;
  }
  return now - oldest->since_ns < GRACE_NS ? NULL : oldest;
}

static int is_ours(const struct tt_listener *listener, int fd)
{
  struct ucred peer;
  socklen_t size = sizeof peer;
  char who[96];
  if (listener->is_users) return tt_user_is_ours(fd, who, sizeof who);
  if (listener->address.any.sa_family != AF_UNIX) return 1;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.uid == geteuid() || peer.uid == 0;
}

static void slot_fill(struct tt_listener *listener, struct tt_pending *slot, int fd, uint64_t now)
{
  uint8_t challenge[TT_CHALLENGE_BYTES];
  int one = 1;
  if (listener->address.any.sa_family != AF_UNIX)
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  tt_process_socket(fd);
  tt_challenge_make(challenge, slot->ns);
  slot->watcher.fd = fd;
  slot->watcher.ready = slot_ready;
  slot->listener = listener;
  slot->since_ns = now;
  slot->got = 0;
  if (listener->pending++ == 0) tt_timer_add(&listener->limit);
  if (!is_ours(listener, fd)) slot_refuse(slot, TT_REFUSED_USER);
  else if (!send_all(fd, challenge, sizeof challenge) || tt_watcher_add(&slot->watcher, EPOLLIN) != tuttiSuccess)
    slot_refuse(slot, TT_REFUSED_OTHER);
}

/* No descriptors are left: frees the reserve to turn one client away (it tries again) rather than
 * leave all of them in the queue without an answer. */
static void accept_starved(struct tt_listener *listener)
{
  if (listener->reserve >= 0) {
    close(listener->reserve);
    int fd = accept4(listener->watcher.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      refused_count(listener, TT_REFUSED_STARVED, fd);
      close(fd);
    }
  }
  listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Errors of accept(2) that concern one connection, or the network: the next call may succeed. */
static int is_about_one(int error)
{
  switch (error) {
  case EINTR: case ECONNABORTED: case EPROTO: case ENOPROTOOPT: case EOPNOTSUPP: case ENETDOWN:
  case ENETUNREACH: case EHOSTDOWN: case EHOSTUNREACH: case ENONET: case EPERM: return 1;
  default: return 0;
  }
}

static void accept_ready(struct tt_watcher *watcher, uint32_t events)
{
  struct tt_listener *listener = (struct tt_listener *)(void *)watcher;
  (void)events;
  for (int i = 0; i < ACCEPT_MOST; i++) {
    uint64_t now = tt_now_ns();
    struct tt_pending *slot = slot_find(listener, now);
    if (!slot) {
      pause_accepting(listener);
      return;
    }
    int fd = accept4(watcher->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int error = errno;
    if (fd >= 0) {
      if (slot->watcher.fd >= 0) slot_refuse(slot, TT_REFUSED_STRANGER);
      slot_fill(listener, slot, fd, now);
      continue;
    }
    if (error == EAGAIN) return;
    if (is_about_one(error)) continue;
    if (error == EMFILE || error == ENFILE) accept_starved(listener);
    pause_accepting(listener);
    return;
  }
}

tuttiResult_t tt_pending_open(struct tt_listener *listener)
{
  listener->pause = (struct tt_timer){.period_ns = PAUSE_NS, .fire = pause_over};
  listener->limit = (struct tt_timer){.period_ns = SCAN_NS, .fire = limit_check};
  listener->watcher.ready = accept_ready;
  return tt_watcher_add(&listener->watcher, EPOLLIN);
}

void tt_pending_close(struct tt_listener *listener)
{
  for (int i = 0; i < TT_LISTENER_SLOTS; i++) {
    struct tt_pending *slot = &listener->slots[i];
    if (slot->watcher.fd < 0) continue;
    int fd = slot->watcher.fd;
    slot_free(slot);
    close(fd);
  }
  tt_timer_remove(&listener->pause);
  tt_timer_remove(&listener->limit);
  tt_watcher_remove(&listener->watcher);
}
