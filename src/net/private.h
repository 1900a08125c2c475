/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of net only: the structs of a listener, and the choice of an interface
 * as a pure function. */
#ifndef TT_NET_PRIVATE_H
#define TT_NET_PRIVATE_H

#include <stdatomic.h>

#include "net/net.h"

/* ---- interfaces (interface.c) ---- */

struct tt_interface {
  char name[16];
  int up, running, loopback;
  struct tt_address address; /* port 0 */
};

/* Index of the interface that `spec` (TUTTI_SOCKET_IFNAME) and family (0, AF_INET, AF_INET6) choose, or -1. */
int tt_interface_select(const struct tt_interface *list, int count, const char *spec, int family);

/* ---- users (user.c) ---- */

/* 1 if the other end of a connected local socket runs, or ran when it connected or began to listen, as our effective
 * user. `who` gets "process 4711 of uid 1000". */
int tt_user_is_ours(int socket, char *who, size_t size);

/* ---- listeners (listener.c, pending.c) ---- */

#define TT_LISTENER_SLOTS 64

/* A connection that has not proved anything yet. */
struct tt_pending {
  struct tt_watcher watcher; /* first: the callback gets it; fd -1: free */
  struct tt_listener *listener;
  uint64_t since_ns; /* time of accept */
  uint32_t got;      /* bytes of the reply */
  uint8_t ns[TT_NONCE_BYTES];
  uint8_t reply[TT_REPLY_BYTES];
};

struct tt_admission {
  struct tt_admission *next;
  struct tt_credentials credentials;
  enum tt_hello_kind kind;
  uint32_t dst;
  tt_client_fn client;
  void *owner;
};

/* Everything is guarded by the service lock. */
struct tt_listener {
  struct tt_watcher watcher; /* the listening socket; first: the callback gets it */
  struct tt_listener *next;  /* in the list of the process */
  struct tt_address asked, address;
  int shared, users;
  int is_users;          /* only processes of our own user may connect, because the key may be no secret */
  int reserve;           /* a descriptor to give up when there are no more; -1: lost */
  struct tt_timer pause; /* no accepting until it fires */
  struct tt_timer limit; /* looks for slots past their time; runs while any is in use */
  int pending;           /* slots in use */
  struct tt_admission *admissions;
  _Atomic uint64_t refused;
  struct tt_refusals refusals;
  char refused_last[TT_REFUSALS][64]; /* address or process of the last one */
  uint64_t logged_ns, logged;         /* time of the last log line, and `refused` then */
  struct tt_refusals logged_refusals;
  struct tt_pending slots[TT_LISTENER_SLOTS];
};

/* The listeners of this process; under the lock. */
struct tt_listener **tt_service_listeners(void);

/* Open starts to accept at the listening socket; close ends all pending connections and stops. */
tuttiResult_t tt_pending_open(struct tt_listener *listener);
void tt_pending_close(struct tt_listener *listener);

#endif
