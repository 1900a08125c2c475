/* SPDX-License-Identifier: BSD-3-Clause */
/* The root: the place where all ranks of one communicator meet. It lives on the service thread and frees itself, see
 * root.c. client.c moves its bytes, slot.c interprets them. Everything here runs under the service lock. Private to
 * this folder. */
#ifndef TT_BOOTSTRAP_ROOT_H
#define TT_BOOTSTRAP_ROOT_H

#include "bootstrap/wire_private.h"

enum slot_state {
  SLOT_EMPTY, /* this rank has not come */
  SLOT_TAKEN, /* it is here */
  SLOT_LEFT,  /* it said bye */
  SLOT_LOST   /* its connection ended without a bye */
};

struct slot {
  enum slot_state state;
  uint32_t rounds;       /* peer infos that the rank gave */
  struct client *client; /* while TAKEN */
  struct tt_record record;
};

enum client_stage { CLIENT_RECORD, CLIENT_HEAD, CLIENT_PEER_INFO, CLIENT_REASON };

/* One connection. Closed ones (fd -1) stay in the list until the callback ends. */
struct client {
  struct tt_watcher watcher; /* first member: callbacks get a pointer to it */
  struct tt_root *root;
  struct client *next;
  uint32_t rank; /* as the handshake proved it */
  int has_slot;  /* it owns slots[rank] */
  int told;      /* the last frame is on its way; bytes that still come in are thrown away */
  int told_next; /* enum tt_start_frame_kind to send after the bytes that are going out now, or 0 */
  enum client_stage stage;
  struct tt_intake in;
  struct tt_session session;
  struct tt_record record, self; /* the client's, and the root's as it is sent to it */
  struct tt_start_frame head_in, head_out;
  struct tt_outlet out;
  int full;       /* the socket takes no more: EPOLLOUT is awaited */
  char *reason;   /* TT_SENTENCE_BYTES, allocated when the client announces a reason */
  char *sentence; /* for this client alone, if it is refused; NULL: the root's sentence counts */
  uint32_t code;  /* goes with sentence */
};

/* More than 25 fields: the id, the clients, the round under way and the reason of a failure belong together. */
struct tt_root {
  struct tt_timer timer;
  struct tt_listener *listener; /* NULL once shut */
  struct tt_root *next; /* in tt_process.roots */
  uint8_t job[TT_JOB_BYTES];
  uint64_t nonce;      /* of the id */
  struct tt_address where;
  int fixed, derived;   /* kind of the id */
  int ticking;
  int shut;             /* over: the listener is closed, the last clients are leaving */
  struct tt_record self; /* its secret as it is */
  uint64_t timeout_ns, late_warn_ns;
  int64_t unreachable_ms;
  uint64_t first_ns, log_ns; /* first client; next log line */
  int warned;                /* of late ranks */
  uint64_t over_ns;          /* when a failed root shuts; when a shut root ends */
  struct client *clients;
  uint32_t client_count;
  uint32_t nranks;    /* 0: no rank has said yet */
  uint32_t least;     /* the smallest nranks that any rank said; unlike ones are a failure */
  uint32_t reference; /* the rank that the others are compared with */
  struct slot *slots;
  uint32_t came, left, lost;
  uint64_t unlike;             /* a bit for each rank below 64 of another version that came: they have no slot */
  uint32_t rounds, arrived;    /* complete rounds; peer infos of the round under way */
  size_t len;                  /* bytes of a peer info in the round under way */
  int is_broadcast;            /* rank 0 alone gives a peer info in this round */
  uint8_t *peer_infos[2];      /* by the round's last bit: one is going out while the other fills */
  size_t room[2];
  uint32_t look;               /* the next rank whose process is looked at */
  struct tt_refusals refusals; /* of the listener, before this root */
  char twice[96];              /* note about a rank that was claimed twice, "" if none */
  struct tt_ended ended;       /* the first process that ended before it had joined; pid 0: none */
  tuttiResult_t code;          /* tuttiSuccess until the start-up has failed */
  char sentence[TT_SENTENCE_BYTES];
};

/* Opens the root of `id` (mixed) at `where` and writes its real address to *at. With TT_ID_FIXED:
 * tuttiInProgress while an earlier root of this process is still needed at the same address. With TT_ID_DERIVED
 * `members` has the credentials of each of nmembers ranks (rank 0's are those of the id), else it is NULL.
 * Errors: tuttiSystemError. */
tuttiResult_t tt_root_open(const struct tt_id *id, const struct tt_credentials *members, int nmembers,
                           const struct tt_address *where, const struct tt_settings *settings, struct tt_address *at);

/* ---- root.c ---- */
/* Rank 0 waits for the others for so long: the root does, too, if the id was made in this process. */
void tt_root_wait(const struct tt_id *id, uint64_t timeout_ns);
/* The start-up has failed: every client is told, and so are clients that come later. */
void tt_root_fail(struct tt_root *root, tuttiResult_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Rank 0 gives up the root that it has opened, without having joined: a fixed address becomes free for the next
 * start-up, and ranks that wait there are told. */
void tt_root_abandon(const struct tt_id *id);

/* Whether the root of this process has failed, and ranks are about to come that could still hear it: those that have
 * connected, and, if ranks are unlike, all others. */
int tt_root_is_early(const struct tt_id *id);

/* Fails the start-up if a process that has ended is needed in it. */
void tt_root_miss(struct tt_root *root);

/* A client is here: time runs from the first one. */
void tt_root_first(struct tt_root *root);
/* Call at the end of every callback: frees closed clients, and the root when it is over. */
void tt_root_settle(struct tt_root *root);

/* ---- client.c ---- */
void tt_client_come(void *root, const struct tt_hello *hello, const struct tt_session *session, int fd);
void tt_client_close(struct client *client);
/* Frees closed clients. */
void tt_clients_sweep(struct tt_root *root);
/* The last frame for this client: FAILURE or LATER. */
void tt_client_tell(struct client *client, enum tt_start_frame_kind kind);
/* Reads and handles the bytes that are already there. */
void tt_client_drain(struct client *client);
void tt_client_send_peer_infos(struct client *client, const struct tt_start_frame *head, const uint8_t *peer_infos);

/* ---- slot.c ---- */
/* Each is called when a part of the client's bytes is complete: its record, a frame head, its peer info, its reason. */
void tt_rank_slot_claim(struct client *client);
void tt_rank_slot_head(struct client *client);
void tt_rank_slot_peer_info(struct client *client);
void tt_rank_slot_reason(struct client *client);
/* The client's connection ended, or its process died. */
void tt_rank_slot_lose(struct client *client, const char *how);
/* 1 if the rank has done its part of the step that all wait for. */
int tt_rank_slot_is_in(const void *root, uint32_t rank);

/* "rank 3 (pid 123 on host)" */
#define TT_RANK_NAME_BYTES 128
const char *tt_rank_name(uint32_t rank, const struct tt_record *record, char *text);

#endif
