/* SPDX-License-Identifier: BSD-3-Clause */
/* Dials: connect and handshake as a state machine that the caller's polls drive. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/inside.h"

#define MS 1000000u
#define PAUSE_FIRST_NS (10u * MS)
#define PAUSE_LAST_NS (500u * MS)
#define REFUSAL_NS (25u * MS)
#define ATTEMPT_NS (10000u * (uint64_t)MS) /* a queue full of strangers may take this long */
#define UNPROVED_MOST 5 /* verdicts with a wrong MAC: one may have come damaged, so many are another key */

enum state { PAUSED, CONNECTING, CHALLENGED, JUDGED, OVER };

/* What a step says: nothing to do now, go on, begin anew, connected, or given up. */
enum step { WAIT, ON, AGAIN, DONE, FAILED };

struct tt_dial {
  enum state state;
  int fd;
  struct tt_address to;
  struct tt_pass pass;
  struct tt_hello hello;
  uint64_t started_ns, deadline_ns;
  uint64_t attempt_ns; /* start of this attempt; while PAUSED: of the next */
  uint64_t pause_ns;
  unsigned attempts;
  uint64_t patience_ns;     /* see tt_dial_limit; 0: until the deadline */
  uint64_t turned_away_ns;  /* since then every attempt met nobody, or somebody else; 0: the last one did not */
  int is_turned_away;       /* the last one did */
  int is_users, is_warned; /* see tt_dial_same_user */
  unsigned unproved; /* verdicts with a wrong MAC so far */
  uint32_t got; /* bytes of the challenge or verdict */
  uint8_t challenge[TT_CHALLENGE_BYTES], verdict[TT_VERDICT_BYTES], nc[TT_NONCE_BYTES];
  tuttiResult_t code; /* once OVER */
  char from[TT_ADDRESS_TEXT_BYTES];
  char cause[160]; /* why the last attempt ended */
};

tuttiResult_t tt_dial_start(struct tt_dial **dial, const struct tt_address *to,
                            const struct tt_pass *pass, const struct tt_hello *hello,
                            uint64_t deadline_ns)
{
  tuttiResult_t result = tt_auth_init();
  if (result != tuttiSuccess) return result;
  if (to->len == 0) return tt_fail(tuttiInternalError, "a dial without an address");
  struct tt_dial *made = tt_alloc(1, sizeof *made);
  if (!made) return tt_fail(tuttiSystemError, "out of memory for a connection");
  made->fd = -1;
  made->to = *to;
  made->pass = *pass;
  made->hello = *hello;
  made->started_ns = made->attempt_ns = tt_now_ns();
  made->deadline_ns = deadline_ns;
  made->pause_ns = PAUSE_FIRST_NS;
  snprintf(made->from, sizeof made->from, "here");
  snprintf(made->cause, sizeof made->cause, "no answer");
  *dial = made;
  return tuttiSuccess;
}

void tt_dial_limit(struct tt_dial *dial, uint64_t patience_ns)
{
  dial->patience_ns = patience_ns;
}

void tt_dial_same_user(struct tt_dial *dial)
{
  dial->is_users = 1;
}

static enum step again(struct tt_dial *dial, const char *cause)
{
  snprintf(dial->cause, sizeof dial->cause, "%s", cause);
  return AGAIN;
}

/* Nobody listens there, or not for us. */
static enum step turned_away(struct tt_dial *dial, const char *cause)
{
  dial->is_turned_away = 1;
  return again(dial, cause);
}

static enum step fail(struct tt_dial *dial, tuttiResult_t code, const char *why)
{
  char to[TT_ADDRESS_TEXT_BYTES];
  dial->code = tt_fail(code, "connection from %s to %s: %s", dial->from,
                       tt_address_text(&dial->to, to, sizeof to), why);
  return FAILED;
}

/* Until when it was tried is in the sentence: with it, one sees a deadline that is too short. */
static enum step fail_late(struct tt_dial *dial, uint64_t now)
{
  char why[400];
  snprintf(why, sizeof why, "given up after %u attempts in %.1f s, the last one: %s. %s",
           dial->attempts, (double)(now - dial->started_ns) / 1e9, dial->cause,
           dial->is_users ? "Is rank 0 alive, in the same network namespace, of the same user, and with the same "
                            "TUTTI_KEY_FILE and TUTTI_AUTH (none here)?"
           : dial->to.any.sa_family == AF_UNIX
               ? "Is that process still alive, in the same network namespace?"
               : "Is that process still alive, and does a firewall let TCP through? "
                 "TUTTI_SOCKET_IFNAME chooses another interface");
  return fail(dial, tuttiRemoteError, why);
}

/* ---- connecting ---- */

static void from_set(struct tt_dial *dial)
{
  struct tt_address from;
  socklen_t size = sizeof from - offsetof(struct tt_address, any);
  memset(&from, 0, sizeof from);
  if (getsockname(dial->fd, &from.any, &size) != 0) return;
  from.len = size;
  tt_address_text(&from, dial->from, sizeof dial->from);
}

/* A connect to a port of this host where nobody listens can meet itself. */
static int is_self(const struct tt_dial *dial)
{
  struct tt_address mine;
  socklen_t size = sizeof mine - offsetof(struct tt_address, any);
  memset(&mine, 0, sizeof mine);
  if (dial->to.any.sa_family == AF_UNIX || getsockname(dial->fd, &mine.any, &size) != 0) return 0;
  if (mine.any.sa_family == AF_INET)
    return mine.v4.sin_port == dial->to.v4.sin_port &&
           mine.v4.sin_addr.s_addr == dial->to.v4.sin_addr.s_addr;
  return mine.v6.sin6_port == dial->to.v6.sin6_port &&
         IN6_ARE_ADDR_EQUAL(&mine.v6.sin6_addr, &dial->to.v6.sin6_addr);
}

static enum step connect_failed(struct tt_dial *dial, int error)
{
  if (error == EAFNOSUPPORT || error == EINVAL || error == EPROTOTYPE)
    return fail(dial, tuttiSystemError, strerror(error));
  if (error != ECONNREFUSED) return again(dial, strerror(error));
  return turned_away(dial, dial->patience_ns ? "Connection refused: its process is gone, or the id was used before "
                                               "(each serves one communicator)"
                                             : strerror(error));
}

/* Another user has the address that rank 0 was to have: whatever it says is not for us. */
static enum step other_user(struct tt_dial *dial, const char *who)
{
  char cause[160], to[TT_ADDRESS_TEXT_BYTES];
  snprintf(cause, sizeof cause, "%s listens there, not one of uid %u", who, (unsigned)geteuid());
  if (!dial->is_warned)
    tt_log(TT_LOG_WARN, "start-up at %s: %s: choose another port, or give all ranks one TUTTI_KEY_FILE",
           tt_address_text(&dial->to, to, sizeof to), cause);
  dial->is_warned = 1;
  return again(dial, cause);
}

static enum step connected(struct tt_dial *dial)
{
  char who[96];
  from_set(dial);
  if (is_self(dial)) return again(dial, strerror(ECONNREFUSED));
  if (dial->is_users && !tt_user_is_ours(dial->fd, who, sizeof who)) return other_user(dial, who);
  dial->state = CHALLENGED;
  dial->got = 0;
  return ON;
}

static enum step begin(struct tt_dial *dial)
{
  int one = 1;
  dial->attempts++;
  dial->attempt_ns = tt_now_ns();
  dial->fd = socket(dial->to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (dial->fd < 0) {
    char why[96];
    snprintf(why, sizeof why, "no socket: %s (see `ulimit -n`)", strerror(errno));
    return fail(dial, tuttiSystemError, why);
  }
  tt_process_socket(dial->fd);
  if (dial->to.any.sa_family != AF_UNIX)
    setsockopt(dial->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  int error = connect(dial->fd, &dial->to.any, dial->to.len) != 0 ? errno : 0;
  if (error == 0) return connected(dial);
  if (error != EINPROGRESS && error != EINTR) return connect_failed(dial, error);
  from_set(dial);
  dial->state = CONNECTING; /* what the attempt before ended with stays the cause for now */
  return ON;
}

static enum step step_paused(struct tt_dial *dial, uint64_t now)
{
  return now < dial->attempt_ns ? WAIT : begin(dial);
}

static enum step step_connecting(struct tt_dial *dial)
{
  struct pollfd one = {.fd = dial->fd, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  if (poll(&one, 1, 0) <= 0) return WAIT;
  if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error ? connect_failed(dial, error) : connected(dial);
}

/* ---- the handshake ---- */

/* True if the other side closed too soon to have done it for want of time or of room: a door gives everybody 25 ms. */
static int is_refusal(const struct tt_dial *dial)
{
  struct tcp_info info = {0};
  socklen_t size = sizeof info;
  uint64_t lasted = tt_now_ns() - dial->attempt_ns, way_ns = 0; /* there and back */
  if (getsockopt(dial->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) way_ns = (uint64_t)info.tcpi_rtt * 1000u;
  return lasted < way_ns + REFUSAL_NS;
}

/* Reads up to exactly `len` bytes in all: what follows belongs to the caller. */
static enum step read_exactly(struct tt_dial *dial, uint8_t *buffer, uint32_t len)
{
  ssize_t n = recv(dial->fd, buffer + dial->got, len - dial->got, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return WAIT;
  if (n < 0) return again(dial, strerror(errno));
  if (n == 0 && dial->state == CHALLENGED)
    return again(dial, "closed by the other side before it said anything");
  if (n == 0) {
    static const char why[] = "closed by the other side on our reply: the id was used before (each serves one "
                              "communicator), or is of another job";
    return is_refusal(dial) ? turned_away(dial, why) : again(dial, why);
  }
  dial->got += (uint32_t)n;
  return dial->got == len ? DONE : ON;
}

static enum step step_challenged(struct tt_dial *dial)
{
  enum step step = read_exactly(dial, dial->challenge, TT_CHALLENGE_BYTES);
  if (step != DONE) return step;
  uint8_t reply[TT_REPLY_BYTES];
  if (tt_reply_make(reply, dial->challenge, &dial->pass, &dial->hello, dial->nc) != tuttiSuccess)
    return again(dial, "what listens there is not this library, or another version of it");
  /* Fits at once: the socket is fresh. */
  ssize_t n = send(dial->fd, reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != (ssize_t)sizeof reply) return again(dial, n < 0 ? strerror(errno) : "reply cut short");
  dial->state = JUDGED;
  dial->got = 0;
  return ON;
}

static enum step step_judged(struct tt_dial *dial)
{
  uint64_t status;
  enum step step = read_exactly(dial, dial->verdict, TT_VERDICT_BYTES);
  if (step != DONE) return step;
  if (!tt_verdict_check(dial->verdict, dial->challenge, dial->nc, &dial->pass, &status)) {
    static const char why[] = "the other side has the same job id but another key: give all ranks the same "
                              "unique id and the same TUTTI_KEY_FILE";
    return ++dial->unproved < UNPROVED_MOST ? again(dial, why) : fail(dial, tuttiInvalidUsage, why);
  }
  switch (status) {
  case TT_WELCOME: return DONE;
  case TT_STATUS_TAKEN:
    return fail(dial, tuttiInvalidUsage, "the other side has this connection already: does another "
                                         "process have the same rank?");
  case TT_STATUS_UNKNOWN:
    return again(dial, "the other side has the key, but does not wait for this connection (yet)");
  default: return again(dial, "the other side has no room");
  }
}

static enum step step_once(struct tt_dial *dial, uint64_t now)
{
  switch (dial->state) {
  case PAUSED: return step_paused(dial, now);
  case CONNECTING: return step_connecting(dial);
  case CHALLENGED: return step_challenged(dial);
  default: return step_judged(dial);
  }
}

/* Half of the pause is fixed, half random, so that many ranks do not come in step. */
static void attempt_end(struct tt_dial *dial, uint64_t now)
{
  uint64_t random;
  tt_random(&random, sizeof random);
  if (!dial->is_turned_away) dial->turned_away_ns = 0;
  else if (!dial->turned_away_ns) dial->turned_away_ns = now;
  dial->is_turned_away = 0;
  close(dial->fd);
  dial->fd = -1;
  dial->attempt_ns = now + dial->pause_ns / 2 + random % (dial->pause_ns / 2);
  if (dial->pause_ns < PAUSE_LAST_NS) dial->pause_ns *= 2;
  if (dial->pause_ns > PAUSE_LAST_NS) dial->pause_ns = PAUSE_LAST_NS;
  dial->state = PAUSED;
}

static enum step step_waiting(struct tt_dial *dial, uint64_t now)
{
  int in_vain = dial->patience_ns && dial->turned_away_ns && now - dial->turned_away_ns >= dial->patience_ns;
  if (now >= dial->deadline_ns || in_vain) return fail_late(dial, now);
  if (dial->state == PAUSED || now < dial->attempt_ns + ATTEMPT_NS) return WAIT;
  snprintf(dial->cause, sizeof dial->cause,
           dial->state == CONNECTING ? "no answer" : "connected, but no word came");
  attempt_end(dial, now);
  return WAIT;
}

tuttiResult_t tt_dial_poll(struct tt_dial *dial, int *fd)
{
  if (dial->state == OVER) return dial->code;
  uint64_t now = tt_now_ns();
  enum step step;
  while ((step = step_once(dial, now)) == ON) {}
  if (step == AGAIN) {
    attempt_end(dial, now);
    step = WAIT;
  }
  if (step == WAIT) step = step_waiting(dial, now);
  if (step == WAIT) return tuttiInProgress;
  if (step == DONE) {
    *fd = dial->fd;
    dial->fd = -1;
    dial->code = tuttiInternalError; /* polled again */
  } else if (dial->fd >= 0) {
    close(dial->fd);
    dial->fd = -1;
  }
  dial->state = OVER;
  return step == DONE ? tuttiSuccess : dial->code;
}

void tt_dial_bed(const struct tt_dial *dial, struct tt_bed *bed)
{
  tt_bed_limit(bed, dial->state == PAUSED ? dial->attempt_ns : dial->attempt_ns + ATTEMPT_NS);
  if (dial->fd >= 0) tt_bed_add(bed, dial->fd, dial->state == CONNECTING ? POLLOUT : POLLIN);
}

void tt_dial_destroy(struct tt_dial *dial)
{
  if (!dial) return;
  if (dial->fd >= 0) close(dial->fd);
  tt_wipe(dial, sizeof *dial);
  tt_free(dial);
}
