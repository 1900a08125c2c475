/* SPDX-License-Identifier: BSD-3-Clause */
/* Dialers: connect and handshake as a state machine that the caller's polls drive. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/private.h"

#define MS 1000000u
#define PAUSE_FIRST_NS MS /* ranks that start together are ready within a few ms of each other */
#define PAUSE_LAST_NS (500u * MS)
#define REFUSAL_NS (25u * MS)
#define ATTEMPT_NS (10000u * (uint64_t)MS) /* a queue full of strangers may take this long */
#define UNPROVED_MOST 5 /* verdicts with a wrong MAC: one may be damaged on the way, this many mean another key */

enum state { PAUSED, CONNECTING, CHALLENGED, JUDGED, OVER };

/* The result of a step: nothing to do now, go on, begin anew, connected, or given up. */
enum step { WAIT, ON, AGAIN, DONE, FAILED };

struct tt_dialer {
  enum state state;
  int fd;
  struct tt_address to;
  struct tt_credentials credentials;
  struct tt_hello hello;
  uint64_t started_ns, deadline_ns;
  uint64_t attempt_ns; /* start of this attempt; while PAUSED: of the next */
  uint64_t pause_ns;
  unsigned attempts;
  uint64_t patience_ns;    /* see tt_dialer_limit; 0: until the deadline */
  uint64_t turned_away_ns; /* since then every attempt was turned away; 0: the last one was not */
  int is_turned_away;      /* this attempt was: no listener is there, or none for us */
  int is_users, is_warned; /* see tt_dialer_same_user */
  unsigned unproved;       /* verdicts with a wrong MAC so far */
  uint32_t got;            /* bytes of the challenge or verdict */
  uint8_t challenge[TT_CHALLENGE_BYTES], reply[TT_REPLY_BYTES], verdict[TT_VERDICT_BYTES];
  uint8_t secret[TT_KEY_BYTES]; /* of this attempt */
  struct tt_session session;
  tuttiResult_t code; /* once OVER */
  char from[TT_ADDRESS_TEXT_BYTES];
  char cause[160]; /* why the last attempt ended */
};

tuttiResult_t tt_dialer_start(struct tt_dialer **dialer, const struct tt_address *to,
                              const struct tt_credentials *credentials, const struct tt_hello *hello,
                              uint64_t deadline_ns)
{
  tuttiResult_t result = tt_auth_init();
  if (result != tuttiSuccess) return result;
  if (to->len == 0) return tt_fail(tuttiInternalError, "a dialer without an address");
  struct tt_dialer *made = tt_alloc(1, sizeof *made);
  if (!made) return tt_fail(tuttiSystemError, "out of memory for a connection");
  made->fd = -1;
  made->to = *to;
  made->credentials = *credentials;
  made->hello = *hello;
  made->started_ns = made->attempt_ns = tt_now_ns();
  made->deadline_ns = deadline_ns;
  made->pause_ns = PAUSE_FIRST_NS;
  snprintf(made->from, sizeof made->from, "here");
  snprintf(made->cause, sizeof made->cause, "no answer");
  *dialer = made;
  return tuttiSuccess;
}

void tt_dialer_limit(struct tt_dialer *dialer, uint64_t patience_ns)
{
  dialer->patience_ns = patience_ns;
}

void tt_dialer_until(struct tt_dialer *dialer, uint64_t deadline_ns)
{
  dialer->deadline_ns = deadline_ns;
}

void tt_dialer_same_user(struct tt_dialer *dialer)
{
  dialer->is_users = 1;
}

static enum step again(struct tt_dialer *dialer, const char *cause)
{
  snprintf(dialer->cause, sizeof dialer->cause, "%s", cause);
  return AGAIN;
}

/* No listener is there, or none for us. */
static enum step turned_away(struct tt_dialer *dialer, const char *cause)
{
  dialer->is_turned_away = 1;
  return again(dialer, cause);
}

static enum step fail(struct tt_dialer *dialer, tuttiResult_t code, const char *why)
{
  char to[TT_ADDRESS_TEXT_BYTES];
  dialer->code = tt_fail(code, "connection from %s to %s: %s", dialer->from,
                       tt_address_text(&dialer->to, to, sizeof to), why);
  return FAILED;
}

/* The sentence says for how long it was tried, so that too short a deadline can be seen. */
static enum step fail_late(struct tt_dialer *dialer, uint64_t now)
{
  char why[400];
  snprintf(why, sizeof why, "given up after %u attempt%s in %.1f s, the last one: %s. %s",
           dialer->attempts, dialer->attempts == 1 ? "" : "s", (double)(now - dialer->started_ns) / 1e9, dialer->cause,
           dialer->is_users ? "Is rank 0 alive, in the same network namespace, of the same user, and, as here, "
                            "with neither TUTTI_KEY_FILE nor TUTTI_AUTH=none?"
           : dialer->to.any.sa_family == AF_UNIX
               ? "Is that process still alive, in the same network namespace?"
               : "Is that process still alive, and does a firewall let TCP through? "
                 "TUTTI_SOCKET_IFNAME chooses another interface");
  return fail(dialer, tuttiRemoteError, why);
}

/* ---- connecting ---- */

static void from_set(struct tt_dialer *dialer)
{
  struct tt_address from;
  socklen_t size = sizeof from - offsetof(struct tt_address, any);
  memset(&from, 0, sizeof from);
  if (getsockname(dialer->fd, &from.any, &size) != 0) return;
  from.len = size;
  tt_address_text(&from, dialer->from, sizeof dialer->from);
}

/* A connect to a port of this host without a listener can connect to itself. */
static int is_self(const struct tt_dialer *dialer)
{
  struct tt_address mine;
  socklen_t size = sizeof mine - offsetof(struct tt_address, any);
  memset(&mine, 0, sizeof mine);
  if (dialer->to.any.sa_family == AF_UNIX || getsockname(dialer->fd, &mine.any, &size) != 0) return 0;
  if (mine.any.sa_family == AF_INET)
    return mine.v4.sin_port == dialer->to.v4.sin_port &&
           mine.v4.sin_addr.s_addr == dialer->to.v4.sin_addr.s_addr;
  return mine.v6.sin6_port == dialer->to.v6.sin6_port &&
         IN6_ARE_ADDR_EQUAL(&mine.v6.sin6_addr, &dialer->to.v6.sin6_addr);
}

static enum step connect_failed(struct tt_dialer *dialer, int error)
{
  if (error == EAFNOSUPPORT || error == EINVAL || error == EPROTOTYPE)
    return fail(dialer, tuttiSystemError, strerror(error));
  if (error != ECONNREFUSED) return again(dialer, strerror(error));
  return turned_away(dialer, dialer->patience_ns ? "Connection refused: its process is gone, or the id was used before "
                                               "(each serves one communicator)"
                                             : strerror(error));
}

/* Another user's process has the address of rank 0: its messages are not for us. */
static enum step other_user(struct tt_dialer *dialer, const char *who)
{
  char cause[160], to[TT_ADDRESS_TEXT_BYTES];
  snprintf(cause, sizeof cause, "%s listens there, not one of uid %u", who, (unsigned)geteuid());
  if (!dialer->is_warned)
    tt_log(TT_LOG_WARN, "start-up at %s: %s: choose another port, or give all ranks one TUTTI_KEY_FILE",
           tt_address_text(&dialer->to, to, sizeof to), cause);
  dialer->is_warned = 1;
  return again(dialer, cause);
}

static enum step connected(struct tt_dialer *dialer)
{
  char who[96];
  from_set(dialer);
  if (is_self(dialer)) return again(dialer, strerror(ECONNREFUSED));
  if (dialer->is_users && !tt_user_is_ours(dialer->fd, who, sizeof who)) return other_user(dialer, who);
  dialer->state = CHALLENGED;
  dialer->got = 0;
  return ON;
}

static enum step begin(struct tt_dialer *dialer)
{
  int one = 1;
  dialer->attempts++;
  dialer->attempt_ns = tt_now_ns();
  dialer->fd = socket(dialer->to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (dialer->fd < 0) {
    char why[96];
    snprintf(why, sizeof why, "no socket: %s (see `ulimit -n`)", strerror(errno));
    return fail(dialer, tuttiSystemError, why);
  }
  tt_process_socket(dialer->fd);
  if (dialer->to.any.sa_family != AF_UNIX)
    setsockopt(dialer->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  int error = connect(dialer->fd, &dialer->to.any, dialer->to.len) != 0 ? errno : 0;
  if (error == 0) return connected(dialer);
  if (error != EINPROGRESS && error != EINTR) return connect_failed(dialer, error);
  from_set(dialer);
  dialer->state = CONNECTING; /* until this attempt ends, the cause is that of the previous one */
  return ON;
}

static enum step step_paused(struct tt_dialer *dialer, uint64_t now)
{
  return now < dialer->attempt_ns ? WAIT : begin(dialer);
}

static enum step step_connecting(struct tt_dialer *dialer)
{
  struct pollfd one = {.fd = dialer->fd, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  if (poll(&one, 1, 0) <= 0) return WAIT;
  if (getsockopt(dialer->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error ? connect_failed(dialer, error) : connected(dialer);
}

/* ---- the handshake ---- */

/* True if the other side closed too soon for a timeout or an eviction: a listener gives every client 25 ms. */
static int is_refusal(const struct tt_dialer *dialer)
{
  struct tcp_info info = {0};
  socklen_t size = sizeof info;
  uint64_t lasted = tt_now_ns() - dialer->attempt_ns, way_ns = 0; /* round trip */
  if (getsockopt(dialer->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) way_ns = (uint64_t)info.tcpi_rtt * 1000u;
  return lasted < way_ns + REFUSAL_NS;
}

/* The two versions, and the remedy. */
static enum step other_version(struct tt_dialer *dialer)
{
  char why[256], theirs[TT_VERSIONS_TEXT_BYTES], ours[TT_VERSIONS_TEXT_BYTES];
  snprintf(why, sizeof why, "the other side has %s, and rank %u here has %s: install the same version everywhere",
           tt_versions_text(tt_verdict_versions(dialer->verdict), theirs), dialer->hello.src,
           tt_versions_text(tt_versions_ours(), ours));
  return fail(dialer, tuttiInvalidUsage, why);
}

/* Reads up to exactly `len` bytes in all: the bytes that follow belong to the caller. */
static enum step read_exactly(struct tt_dialer *dialer, uint8_t *buffer, uint32_t len)
{
  ssize_t n = recv(dialer->fd, buffer + dialer->got, len - dialer->got, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return WAIT;
  if (n < 0) return again(dialer, strerror(errno));
  if (n == 0 && dialer->state == CHALLENGED)
    return again(dialer, "closed by the other side before it said anything");
  if (n == 0) {
    static const char why[] = "closed by the other side on our reply: the id was used before (each serves one "
                              "communicator) or is of another job, or Tutti there is of another build";
    return is_refusal(dialer) ? turned_away(dialer, why) : again(dialer, why);
  }
  dialer->got += (uint32_t)n;
  return dialer->got == len ? DONE : ON;
}

static enum step step_challenged(struct tt_dialer *dialer)
{
  enum step step = read_exactly(dialer, dialer->challenge, TT_CHALLENGE_BYTES);
  if (step != DONE) return step;
  if (tt_reply_make(dialer->reply, dialer->challenge, &dialer->credentials, &dialer->hello, dialer->secret) !=
      tuttiSuccess)
    return again(dialer, "what listens there is not this library, or another version of it");
  /* The reply fits at once, because the socket is new. */
  ssize_t n = send(dialer->fd, dialer->reply, sizeof dialer->reply, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != (ssize_t)sizeof dialer->reply) return again(dialer, n < 0 ? strerror(errno) : "reply cut short");
  dialer->state = JUDGED;
  dialer->got = 0;
  return ON;
}

static enum step step_judged(struct tt_dialer *dialer)
{
  uint64_t status;
  enum step step = read_exactly(dialer, dialer->verdict, TT_VERDICT_BYTES);
  if (step != DONE) return step;
  if (!tt_verdict_check(dialer->verdict, dialer->challenge, dialer->reply, &dialer->credentials, &status)) {
    const char *why = tt_verdict_seems(dialer->verdict) == TT_STATUS_VERSION
                          ? "the other side is of another version or build of this library, with messages of its own: "
                            "install the same one everywhere"
                          : "the other side has the same job id but another key: give all ranks the same unique id and "
                            "the same TUTTI_KEY_FILE";
    return ++dialer->unproved < UNPROVED_MOST ? again(dialer, why) : fail(dialer, tuttiInvalidUsage, why);
  }
  switch (status) {
  case TT_WELCOME:
    tt_session_join(&dialer->session, dialer->verdict, dialer->challenge, dialer->reply, &dialer->credentials,
                    dialer->secret);
    return DONE;
  case TT_STATUS_TAKEN:
    return fail(dialer, tuttiInvalidUsage, "the other side has this connection already: does another "
                                         "process have the same rank?");
  case TT_STATUS_VERSION: return other_version(dialer);
  case TT_STATUS_UNKNOWN:
    return again(dialer, "the other side has the key, but does not wait for this connection (yet)");
  default: return again(dialer, "the other side has no room");
  }
}

static enum step step_once(struct tt_dialer *dialer, uint64_t now)
{
  switch (dialer->state) {
  case PAUSED: return step_paused(dialer, now);
  case CONNECTING: return step_connecting(dialer);
  case CHALLENGED: return step_challenged(dialer);
  default: return step_judged(dialer);
  }
}

/* Half of the pause is fixed, half random, so that many ranks do not try in step. */
static void attempt_end(struct tt_dialer *dialer, uint64_t now)
{
  uint64_t random;
  tt_random(&random, sizeof random);
  if (!dialer->is_turned_away) dialer->turned_away_ns = 0;
  else if (!dialer->turned_away_ns) dialer->turned_away_ns = now;
  dialer->is_turned_away = 0;
  close(dialer->fd);
  dialer->fd = -1;
  dialer->attempt_ns = now + dialer->pause_ns / 2 + random % (dialer->pause_ns / 2);
  if (dialer->pause_ns < PAUSE_LAST_NS) dialer->pause_ns *= 2;
  if (dialer->pause_ns > PAUSE_LAST_NS) dialer->pause_ns = PAUSE_LAST_NS;
  dialer->state = PAUSED;
}

static enum step step_waiting(struct tt_dialer *dialer, uint64_t now)
{
  int in_vain = dialer->patience_ns && dialer->turned_away_ns && now - dialer->turned_away_ns >= dialer->patience_ns;
  if (now >= dialer->deadline_ns || in_vain) return fail_late(dialer, now);
  if (dialer->state == PAUSED || now < dialer->attempt_ns + ATTEMPT_NS) return WAIT;
  snprintf(dialer->cause, sizeof dialer->cause,
           dialer->state == CONNECTING ? "no answer" : "connected, but no word came");
  attempt_end(dialer, now);
  return WAIT;
}

tuttiResult_t tt_dialer_poll(struct tt_dialer *dialer, int *fd)
{
  if (dialer->state == OVER) return dialer->code;
  uint64_t now = tt_now_ns();
  enum step step;
  while ((step = step_once(dialer, now)) == ON) {}
  if (step == AGAIN) {
    attempt_end(dialer, now);
    step = WAIT;
  }
  if (step == WAIT) step = step_waiting(dialer, now);
  if (step == WAIT) return tuttiInProgress;
  if (step == DONE) {
    *fd = dialer->fd;
    dialer->fd = -1;
    dialer->code = tuttiInternalError; /* if it is polled again */
  } else if (dialer->fd >= 0) {
    close(dialer->fd);
    dialer->fd = -1;
  }
  dialer->state = OVER;
  return step == DONE ? tuttiSuccess : dialer->code;
}

void tt_dialer_pollset(const struct tt_dialer *dialer, struct tt_pollset *pollset)
{
  tt_pollset_limit(pollset, dialer->state == PAUSED ? dialer->attempt_ns : dialer->attempt_ns + ATTEMPT_NS);
  if (dialer->fd >= 0) tt_pollset_add(pollset, dialer->fd, dialer->state == CONNECTING ? POLLOUT : POLLIN);
}

const struct tt_session *tt_dialer_session(const struct tt_dialer *dialer)
{
  return &dialer->session;
}

void tt_dialer_destroy(struct tt_dialer *dialer)
{
  if (!dialer) return;
  if (dialer->fd >= 0) close(dialer->fd);
  tt_wipe(dialer, sizeof *dialer);
  tt_free(dialer);
}
