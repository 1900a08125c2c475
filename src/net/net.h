/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets of this process: interface choice, the one service thread, listeners that let
 * authenticated clients in, and dialers that connect to listeners. All sockets are non-blocking and
 * close-on-exec; nothing here blocks. MSG_NOSIGNAL everywhere. */
#ifndef TT_NET_H
#define TT_NET_H

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "auth/auth.h"
#include "base/base.h"

/* ---- addresses (address.c) --------------------------------------------------------- */

/* An IPv4, IPv6 or abstract AF_UNIX address. */
struct tt_address {
  socklen_t len; /* 0: no address */
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
  };
};

#define TT_ADDRESS_TEXT_BYTES 128
/* "192.0.2.1:4711", "[fe80::1%eth0]:4711", "@tutti-1a2b"; returns text. */
const char *tt_address_text(const struct tt_address *address, char *text, size_t size);

/* Fixed 32-byte form for peer infos and ids: family 2 (4 or 6, 0: no address) | port 2 | scope 4 |
 * ip 16 | zero 8, little endian; or family 2 (1: a local listener) | zero 6 | abstract name 24, padded
 * with zeros. Any other address packs as no address, which unpacks to len 0. The scope id of a link-local address
 * means nothing on another host: pack writes 0, and unpack sets it from the interface that
 * TUTTI_SOCKET_IFNAME chooses there.
 * Errors of unpack: tuttiInvalidArgument: unknown family. */
#define TT_ADDRESS_PACKED_BYTES 32
void tt_address_pack(const struct tt_address *address, uint8_t out[TT_ADDRESS_PACKED_BYTES]);
tuttiResult_t tt_address_unpack(struct tt_address *address,
                                const uint8_t in[TT_ADDRESS_PACKED_BYTES]);

/* Parses "host:port" or "[v6]:port"; a name is resolved (this may block). Port 0 is allowed and means any
 * port, for a listener. tuttiInProgress: nobody knows the name so far; the last sentence says so, and is not logged.
 * Errors: tuttiInvalidArgument with the text and the form wanted, or that it is neither an address nor a legal name. */
tuttiResult_t tt_address_parse(struct tt_address *address, const char *text);

int tt_address_is_loopback(const struct tt_address *address);

/* Makes the abstract local address, e.g. "@tutti-127.0.0.1:4711", that stands for a loopback one. It belongs to the
 * same network namespace, and the kernel tells each end the other's user, unlike with TCP. */
void tt_address_local(struct tt_address *local, const struct tt_address *loopback);

/* The address of the interface that TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY choose,
 * port 0; NCCL's rules: list of prefixes, leading '^' excludes, leading '=' is exact; without the
 * setting the first interface that is up and not lo or docker*, which are the last
 * resort. `name` gets the interface's name. If no interface has an address and is up, and neither
 * setting asks for one, that is no error: the address has len 0, the name is "". Errors:
 * tuttiSystemError naming the setting and the interfaces there are. */
tuttiResult_t tt_interface_choose(const struct tt_settings *settings, struct tt_address *address,
                                  char name[16]);

/* The sentence that explains an address of len 0 from tt_interface_choose. */
#define TT_NO_NETWORK \
  "no network interface has an address and is up, so only shared memory is there: `ip link set lo up` is enough " \
  "for TCP within a host"

/* 1 if this host has an interface of that name. `names` gets the names of all, separated by ", " and cut at size. */
int tt_interface_there(const char *name, char *names, size_t size);

/* Announces that this process may need `count` descriptors. From 256 on the soft limit is raised as far as needed and
 * as the hard one allows; fewer are left to the program. If the limit stays too low, later errors say so, and name
 * `ulimit -n`. */
void tt_descriptors_want(size_t count);

/* ---- the service thread (service.c) -------------------------------------------------- */

/* One thread per process, all signals blocked, named "tutti-service": an epoll loop for
 * listeners, rendezvous, beats and control links. It exists while it is held. Callbacks
 * run in it under the service lock, and must not block. */
struct tt_watcher {
  int fd;
  void (*ready)(struct tt_watcher *watcher, uint32_t events); /* EPOLLIN ... */
  uint64_t id;             /* used by the service; 0: not added. Zero it before the first add. */
  struct tt_watcher *next; /* used by the service */
};

/* Fires every period_ns (late ones are skipped, not caught up) until it is removed. */
struct tt_timer {
  uint64_t period_ns; /* > 0 */
  void (*fire)(struct tt_timer *timer);
  uint64_t due_ns;         /* used by the service */
  struct tt_timer *next;   /* used by the service */
};

/* Starts the thread if it is not running; every hold needs one release. The last release
 * stops and joins it; under the lock (so also inside a callback) it only tells the thread to end
 * soon. All other functions of this section need a hold. In a forked child hold fails
 * (tuttiInvalidUsage) and everything else does nothing: the sockets are the parent's. */
tuttiResult_t tt_service_hold(void);
void tt_service_release(void);

/* The recursive lock under which callbacks run. Code that shares data with callbacks takes
 * it. It is never taken on the data path. */
void tt_service_lock(void);
void tt_service_unlock(void);

/* Takes the lock if that is possible within so many milliseconds. 0: it is not, or there is no service. */
int tt_service_try_lock(int ms);

/* Add watches watcher->fd for `events` (level-triggered), change replaces the events, remove stops. After
 * remove returns, no callback of the watcher runs or will run; remove it before the fd is closed. Removing a
 * watcher that was not added does nothing. Any thread may call these; they do not allocate. A callback may
 * remove and free its own watcher or any other. */
tuttiResult_t tt_watcher_add(struct tt_watcher *watcher, uint32_t events);
tuttiResult_t tt_watcher_change(struct tt_watcher *watcher, uint32_t events);
void tt_watcher_remove(struct tt_watcher *watcher);

/* A timer first fires one period from now. Adding it again restarts its period. Otherwise as for watchers. */
void tt_timer_add(struct tt_timer *timer);
void tt_timer_remove(struct tt_timer *timer);

/* ---- listeners (listener.c) ------------------------------------------------------------------- */

/* A listening socket whose clients must pass the handshake of auth.h. Strangers cost a bounded
 * number of slots for 2 s at most, and neither memory nor a log line each. A client sees:
 *   job and epoch not known here, not our protocol, too slow, evicted: the connection ends;
 *   they are known, but the MAC is wrong, or the version: tt_verdict_refuse;
 *   authentic, but of another version: TT_STATUS_VERSION, authentic;
 *   authentic, but there is no admission for this (kind, dst): TT_STATUS_UNKNOWN;
 *   else TT_WELCOME, and the connection belongs to the client function: no byte after the
 *   reply has been read. */
struct tt_listener;

/* Called in the service thread, under its lock, with an authenticated connection. The
 * function owns fd: it keeps it or closes it. *session is zero if the kind of connection has no keys; it is copied, if
 * wanted.
 * A client of another version ends at the listener, but if it has the key, a root (TT_HELLO_RENDEZVOUS) is told of it,
 * by fd -1 and hello->versions. */
typedef void (*tt_client_fn)(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd);

/* Opens a listener at `where`: an IP address (port 0: any port), or where->len == 0 for an abstract
 * local socket of random name. Listeners at the same IP address with port 0 are one listener, shared and
 * counted; so are local ones of random name. At an address of tt_address_local only processes of our own user get
 * as far as the handshake. A listener holds the service. Errors: tuttiSystemError, for a local address also with the
 * uid of the process that has it. The last close frees the listener and ends unfinished handshakes; dismiss first. */
tuttiResult_t tt_listener_open(struct tt_listener **listener, const struct tt_address *where);
void tt_listener_close(struct tt_listener *listener); /* NULL is allowed */

/* The address under which others reach the listener, with its actual port. */
const struct tt_address *tt_listener_address(const struct tt_listener *listener);

/* Admits clients that prove to hold `credentials` (copied) and say kind and dst. Clients with a right key but an
 * unknown (kind, dst) get TT_STATUS_UNKNOWN and may try again later. One (credentials, kind, dst) has one
 * owner at a time: a second is tuttiInvalidUsage. One admission lets in any number of clients; the client
 * function refuses a repeated (src, lane) by closing it. A local listener also requires the
 * peer's uid to be ours (or root's). */
tuttiResult_t tt_listener_admit(struct tt_listener *listener, const struct tt_credentials *credentials,
                                enum tt_hello_kind kind, uint32_t dst, tt_client_fn client, void *owner);

/* Forgets all admissions of `owner`; afterwards none of its callbacks runs. */
void tt_listener_dismiss(struct tt_listener *listener, const void *owner);

/* Connections refused so far (wrong key, garbage, silence); for tests and `tutti info`. */
uint64_t tt_listener_refused(const struct tt_listener *listener);

/* The same by reason; TT_REFUSED_OTHER counts reasons that are of no use to an operator. Under the service lock. */
enum tt_refusal {
  TT_REFUSED_KEY,      /* a right id, a wrong key */
  TT_REFUSED_ID,       /* a rank that looks for another root */
  TT_REFUSED_VERSION,
  TT_REFUSED_USER,
  TT_REFUSED_STRANGER, /* another protocol, or silence */
  TT_REFUSED_STARVED,  /* no descriptors here */
  TT_REFUSED_OTHER,
  TT_REFUSALS
};
struct tt_refusals {
  uint64_t count[TT_REFUSALS];
};
void tt_listener_refusals(const struct tt_listener *listener, struct tt_refusals *refusals);
/* Writes " (refused: 2 connections with another key, the last from 192.0.2.1)" if there are more than in `since`, else
 * "". Returns text. */
const char *tt_listener_refusals_text(const struct tt_listener *listener, const struct tt_refusals *since, char *text,
                                      size_t size);

/* ---- dialers (dialer.c) ------------------------------------------------------------------- */

/* An outgoing connection: connect, handshake, and both again after a pause (1 ms, doubling
 * to 500 ms, with jitter) until the deadline. The caller's polls drive it; it needs no service
 * thread. Some failures are tried again:
 *   - No listener, unreachable, reset, end of connection at any point, no answer for 10 s, no challenge
 *     of our protocol, TT_STATUS_UNKNOWN, TT_STATUS_FULL: again. The other side may not be ready
 *     yet, and then does not know our job, or it may have evicted us for a stranger.
 *   - A whole verdict with a wrong MAC: again, because nothing proves it, and a bit of it or of our reply may
 *     have been changed on the way; the fifth is tuttiInvalidUsage. The server knows our job and epoch and says that
 *     our key is wrong, or it does not hold the key itself.
 *   - TT_STATUS_TAKEN or TT_STATUS_VERSION, authentic: tuttiInvalidUsage at once. */
struct tt_dialer;

tuttiResult_t tt_dialer_start(struct tt_dialer **dialer, const struct tt_address *to,
                              const struct tt_credentials *credentials, const struct tt_hello *hello,
                              uint64_t deadline_ns);

/* For a listener that was open before we knew its address: once it is closed, it will not come back. The dialer then
 * gives up, with tuttiRemoteError, when for patience_ns every attempt was refused, or closed on our reply sooner than a
 * busy listener does it. Without this call only the deadline counts. */
void tt_dialer_limit(struct tt_dialer *dialer, uint64_t patience_ns);

/* Another deadline than that of tt_dialer_start. */
void tt_dialer_until(struct tt_dialer *dialer, uint64_t deadline_ns);

/* For an address of tt_address_local with a key that is no secret: only a process of our own user may listen there. A
 * listener of another user is warned about once, and the dialer tries again. */
void tt_dialer_same_user(struct tt_dialer *dialer);

/* Returns tuttiInProgress; tuttiSuccess: *fd is the caller's, no byte after the verdict has been read;
 * else the error with both addresses in its sentence: tuttiRemoteError (deadline, no listener),
 * tuttiInvalidUsage (the other side does not hold the key, or refuses ours), tuttiSystemError.
 * After anything but tuttiInProgress only destroy is of use (a failed dialer repeats its code). */
tuttiResult_t tt_dialer_poll(struct tt_dialer *dialer, int *fd);
/* After success: the connection's keys, zero if its kind has none; valid until destroy. */
const struct tt_session *tt_dialer_session(const struct tt_dialer *dialer);
void tt_dialer_destroy(struct tt_dialer *dialer); /* at any time; NULL is allowed */

/* ---- sleeping (pollset.c) ---------------------------------------------------------------------- */

/* The conditions that end a thread's sleep: one of the descriptors is ready, or the time has come. A thread that waits
 * for several things lets each of them add to one pollset. */
#define TT_POLLSET_MOST 64 /* the channels of a fusion are made at once, and each waits for up to 6 */
struct tt_pollset {
  struct pollfd polls[TT_POLLSET_MOST];
  int n;
  uint64_t until_ns;
};
void tt_pollset_add(struct tt_pollset *pollset, int fd, short events); /* without room the sleep ends at once */
void tt_pollset_limit(struct tt_pollset *pollset, uint64_t until_ns);
void tt_pollset_sleep(struct tt_pollset *pollset);

/* Adds the conditions for which the dialer waits after tt_dialer_poll returned tuttiInProgress. */
void tt_dialer_pollset(const struct tt_dialer *dialer, struct tt_pollset *pollset);

/* ---- outages (endure.c) -------------------------------------------------------------------- */

/* Makes a connection go on soon after an outage of its network. The kernel sends lost data again at even intervals, and
 * then after pauses of an eighth of limit_ms at most (1 s or more) if it can (Linux 6.15); otherwise it doubles them.
 * Returns the nanoseconds from the end of an outage of at most limit_ms within which the first data arrives. */
uint64_t tt_socket_endure(int fd, int64_t limit_ms);

/* ---- descriptors over local sockets (descriptors.c) ---------------------------------------------- */

/* Send passes one descriptor with 8 bytes of length over a connected local socket; it returns
 * tuttiInProgress while the socket is full. Receive returns tuttiInProgress until a message is there, then reads
 * exactly one; tuttiRemoteError if the other side closed or sent anything else. The received
 * descriptor is close-on-exec and the caller's. `len` is the sender's claim: tt_memory_map checks it. */
tuttiResult_t tt_fd_send(int socket, int fd, uint64_t len);
tuttiResult_t tt_fd_recv(int socket, int *fd, uint64_t *len);

#endif
