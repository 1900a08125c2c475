/* SPDX-License-Identifier: BSD-3-Clause */
/* In front of a door: accepts, challenges, checks, and hands authenticated guests over. All
 * in the service thread, under its lock. Whoever comes costs a fixed slot for TIME_NS at
 * most, two small sends, and no allocation. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/inside.h"

#define MS 1000000u
#define TIME_NS (2000u * MS)   /* from accept to a right reply */
#define SCAN_NS (100u * MS)    /* how often slots over their time are looked for */
#define GRACE_NS (25u * MS)    /* no eviction before: an honest client has answered by then */
#define PAUSE_NS (10u * MS)    /* no accepting: no descriptors, or all slots younger than GRACE_NS */
#define LOG_NS (10000u * (uint64_t)MS)
#define ACCEPT_MOST 16         /* at once, so that replies are read in between */

/* ---- who was refused ---- */

void tt_door_refusals(const struct tt_door *door, struct tt_refusals *refusals)
{
  *refusals = door->refusals;
}

const char *tt_door_refusals_text(const struct tt_door *door, const struct tt_refusals *since, char *text, size_t size)
{
  static const char *const reasons[TT_REFUSALS] = {
      [TT_REFUSED_KEY] = "with another key", [TT_REFUSED_ID] = "with another id",
      [TT_REFUSED_VERSION] = "of another version of this library", [TT_REFUSED_USER] = "of another user",
      [TT_REFUSED_STRANGER] = "that spoke another protocol or nothing",
      [TT_REFUSED_STARVED] = "for lack of descriptors here (see `ulimit -n`)"};
  size_t used = 0;
  text[0] = 0;
  for (int r = 0; r < TT_REFUSALS && used + 1 < size; r++) {
    uint64_t count = door->refusals.count[r] - since->count[r];
    if (!reasons[r] || !count) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%llu connection%s %s, the last from %s",
                             used ? "; " : " (refused: ", (unsigned long long)count, count == 1 ? "" : "s", reasons[r],
                             door->refused_last[r]);
  }
  if (used && used + 1 < size) snprintf(text + used, size - used, ")");
  return text;
}

/* ---- slots ---- */

static void slot_free(struct tt_pending *slot)
{
  tt_watcher_remove(&slot->watcher);
  slot->watcher.fd = -1;
  if (--slot->door->pending == 0) tt_timer_remove(&slot->door->limit);
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

static void refused_count(struct tt_door *door, enum tt_refusal why, int fd)
{
  uint64_t refused = atomic_fetch_add(&door->refused, 1) + 1, now = tt_now_ns();
  door->refusals.count[why]++;
  peer_text(fd, door->refused_last[why], sizeof door->refused_last[why]);
  if (!tt_log_wants(TT_LOG_INFO) || (door->logged_ns && now - door->logged_ns < LOG_NS)) return;
  char text[TT_ADDRESS_TEXT_BYTES], which[256];
  tt_log(TT_LOG_INFO, "door %s refused %llu connections%s", tt_address_text(&door->address, text, sizeof text),
         (unsigned long long)(refused - door->logged),
         tt_door_refusals_text(door, &door->logged_refusals, which, sizeof which));
  door->logged_ns = now;
  door->logged = refused;
  door->logged_refusals = door->refusals;
}

static void slot_refuse(struct tt_pending *slot, enum tt_refusal why)
{
  int fd = slot->watcher.fd;
  refused_count(slot->door, why, fd); /* before the peer can see it */
  slot_free(slot);
  close(fd);
}

/* ---- the reply ---- */

static const struct tt_admission *admission_find(const struct tt_door *door,
                                                 const struct tt_pass *pass,
                                                 const struct tt_hello *hello)
{
  for (const struct tt_admission *at = door->admissions; at; at = at->next)
    if (at->kind == hello->kind && at->dst == hello->dst && at->pass.epoch == pass->epoch &&
        memcmp(at->pass.job, pass->job, TT_JOB_BYTES) == 0 &&
        memcmp(at->pass.key, pass->key, TT_KEY_BYTES) == 0)
      return at;
  return NULL;
}

/* The pass that a reply proves to hold, or NULL; *known: its job and epoch are ours. One job and
 * epoch may have several keys; each is tried once in a row of equal ones. */
static const struct tt_pass *pass_find(const struct tt_pending *slot, struct tt_hello *hello,
                                       int *known)
{
  uint8_t job[TT_JOB_BYTES];
  uint64_t epoch;
  const struct tt_pass *tried = NULL;
  if (!tt_reply_claim(slot->reply, job, &epoch)) return NULL;
  for (const struct tt_admission *at = slot->door->admissions; at; at = at->next) {
    if (at->pass.epoch != epoch || memcmp(at->pass.job, job, TT_JOB_BYTES) != 0) continue;
    *known = 1;
    if (tried && memcmp(tried->key, at->pass.key, TT_KEY_BYTES) == 0) continue;
    tried = &at->pass;
    if (tt_reply_check(slot->reply, slot->ns, tried, hello)) return tried;
  }
  return NULL;
}

/* The socket is fresh and holds two small messages: what does not fit at once never will. */
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
  case TT_CLAIM_VERSION: return TT_REFUSED_VERSION;
  case TT_CLAIM_START: return TT_REFUSED_ID;
  default: return TT_REFUSED_OTHER; /* a link to what is not there yet, or no more: it comes again or ends */
  }
}

/* A whole reply is here. Last of all calls the guest function, which may close the door. */
static void reply_judge(struct tt_pending *slot)
{
  struct tt_hello hello;
  uint8_t verdict[TT_VERDICT_BYTES];
  int known = 0, fd = slot->watcher.fd;
  const struct tt_pass *pass = pass_find(slot, &hello, &known);
  if (!pass) {
    tt_verdict_refuse(verdict);
    if (known) send_all(fd, verdict, sizeof verdict);
    slot_refuse(slot, refusal_of(slot, known));
    return;
  }
  const struct tt_admission *admission = admission_find(slot->door, pass, &hello);
  tt_verdict_make(verdict, admission ? TT_WELCOME : TT_STATUS_UNKNOWN, slot->reply, slot->ns, pass);
  int sent = send_all(fd, verdict, sizeof verdict);
  slot_free(slot);
  if (!sent || !admission) {
    close(fd);
    return;
  }
  admission->guest(admission->owner, &hello, fd);
}

static void slot_ready(struct tt_watcher *watcher, uint32_t events)
{
  struct tt_pending *slot = (struct tt_pending *)(void *)watcher;
  (void)events;
  ssize_t n = recv(watcher->fd, slot->reply + slot->got, TT_REPLY_BYTES - slot->got, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    slot_refuse(slot, slot->got ? TT_REFUSED_STRANGER : TT_REFUSED_OTHER); /* who dials may give up at any time */
    return;
  }
  slot->got += (uint32_t)n;
  if (!tt_reply_plausible(slot->reply, slot->got)) slot_refuse(slot, TT_REFUSED_STRANGER);
  else if (slot->got == TT_REPLY_BYTES) reply_judge(slot);
}

/* ---- accepting ---- */

static void pause_accepting(struct tt_door *door)
{
  tt_watcher_change(&door->watcher, 0);
  tt_timer_add(&door->pause);
}

static void pause_over(struct tt_timer *timer)
{
  struct tt_door *door = (struct tt_door *)(void *)((char *)timer - offsetof(struct tt_door, pause));
  tt_timer_remove(timer);
  tt_watcher_change(&door->watcher, EPOLLIN);
}

static void limit_check(struct tt_timer *timer)
{
  struct tt_door *door = (struct tt_door *)(void *)((char *)timer - offsetof(struct tt_door, limit));
  uint64_t now = tt_now_ns();
  for (int i = 0; i < TT_DOOR_SLOTS; i++) {
    struct tt_pending *slot = &door->slots[i];
    if (slot->watcher.fd >= 0 && now - slot->since_ns > TIME_NS) slot_refuse(slot, TT_REFUSED_STRANGER);
  }
}

/* A free slot, else that of the oldest stranger; NULL if even that one came just now. */
static struct tt_pending *slot_find(struct tt_door *door, uint64_t now)
{
  struct tt_pending *oldest = NULL;
  for (int i = 0; i < TT_DOOR_SLOTS; i++) {
    struct tt_pending *slot = &door->slots[i];
    if (slot->watcher.fd < 0) return slot;
    if (!oldest || slot->since_ns < oldest->since_ns) oldest = slot;
  }
  return now - oldest->since_ns < GRACE_NS ? NULL : oldest;
}

static int is_ours(const struct tt_door *door, int fd)
{
  struct ucred peer;
  socklen_t size = sizeof peer;
  char who[96];
  if (door->is_users) return tt_user_is_ours(fd, who, sizeof who);
  if (door->address.any.sa_family != AF_UNIX) return 1;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.uid == geteuid() || peer.uid == 0;
}

static void slot_fill(struct tt_door *door, struct tt_pending *slot, int fd, uint64_t now)
{
  uint8_t challenge[TT_CHALLENGE_BYTES];
  int one = 1;
  if (door->address.any.sa_family != AF_UNIX)
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  tt_process_socket(fd);
  tt_challenge_make(challenge, slot->ns);
  slot->watcher.fd = fd;
  slot->watcher.ready = slot_ready;
  slot->door = door;
  slot->since_ns = now;
  slot->got = 0;
  if (door->pending++ == 0) tt_timer_add(&door->limit);
  if (!is_ours(door, fd)) slot_refuse(slot, TT_REFUSED_USER);
  else if (!send_all(fd, challenge, sizeof challenge) || tt_watcher_add(&slot->watcher, EPOLLIN) != tuttiSuccess)
    slot_refuse(slot, TT_REFUSED_OTHER);
}

/* No descriptors: frees the reserve to turn one client away (it comes again) rather than
 * leaving all of them in the queue without a word. */
static void accept_starved(struct tt_door *door)
{
  if (door->reserve >= 0) {
    close(door->reserve);
    int fd = accept4(door->watcher.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      refused_count(door, TT_REFUSED_STARVED, fd);
      close(fd);
    }
  }
  door->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* What accept(2) says of one connection, or of the network, is over with the next call. */
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
  struct tt_door *door = (struct tt_door *)(void *)watcher;
  (void)events;
  for (int i = 0; i < ACCEPT_MOST; i++) {
    uint64_t now = tt_now_ns();
    struct tt_pending *slot = slot_find(door, now);
    if (!slot) {
      pause_accepting(door);
      return;
    }
    int fd = accept4(watcher->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int error = errno;
    if (fd >= 0) {
      if (slot->watcher.fd >= 0) slot_refuse(slot, TT_REFUSED_STRANGER);
      slot_fill(door, slot, fd, now);
      continue;
    }
    if (error == EAGAIN) return;
    if (is_about_one(error)) continue;
    if (error == EMFILE || error == ENFILE) accept_starved(door);
    pause_accepting(door);
    return;
  }
}

tuttiResult_t tt_gate_open(struct tt_door *door)
{
  door->pause = (struct tt_timer){.period_ns = PAUSE_NS, .fire = pause_over};
  door->limit = (struct tt_timer){.period_ns = SCAN_NS, .fire = limit_check};
  door->watcher.ready = accept_ready;
  return tt_watcher_add(&door->watcher, EPOLLIN);
}

void tt_gate_close(struct tt_door *door)
{
  for (int i = 0; i < TT_DOOR_SLOTS; i++) {
    struct tt_pending *slot = &door->slots[i];
    if (slot->watcher.fd < 0) continue;
    int fd = slot->watcher.fd;
    slot_free(slot);
    close(fd);
  }
  tt_timer_remove(&door->pause);
  tt_timer_remove(&door->limit);
  tt_watcher_remove(&door->watcher);
}
