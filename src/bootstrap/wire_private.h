/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages between root and ranks after the handshake, and their way through a non-blocking socket. Private to this
 * folder.
 *
 *   root -> rank   record (of the root), then frames PEER INFOS, FAILURE, LATER
 *   rank -> root   record (of the rank) once the root's is here, then frames PEER INFO, SHARE, BYE, FAILURE
 *
 * A record and a frame head have fixed sizes. The receiver knows the length of the body after a head from its own
 * state; the length on the wire is only compared with it. Integers are little endian. Records and heads have tags by
 * the keys of the connection, and a head has the digest of its body: so each comes as it was sent, once and in order,
 * or is noticed. After a damaged record the rank comes again on a new connection, because nothing has been agreed yet;
 * a damaged frame ends the start-up on all ranks. The layout of the record is the same in all versions of the library
 * that have the same version of the handshake. */
#ifndef TT_BOOTSTRAP_WIRE_H
#define TT_BOOTSTRAP_WIRE_H

#include "bootstrap/bootstrap.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are sent as they lie in memory");

#define TT_LOOK_NS 20000000u /* between two looks at another process of this host */

struct tt_record {
  uint32_t version; /* TUTTI_VERSION_CODE */
  uint32_t nranks;  /* 0 from the root */
  uint32_t rank;    /* 0 from the root */
  int32_t pid;
  uint64_t agreement, host, pid_scope, start;
  uint8_t marks[TT_SETTINGS_MARKS]; /* of the settings, to name those that differ */
  char host_name[TT_HOST_NAME_BYTES];
  uint8_t secret[TT_KEY_BYTES]; /* from the root, masked (tt_seal_mask): of which ranks make the communicator's key */
  uint8_t tag[TT_TAG_BYTES];    /* of all before it */
};
_Static_assert(sizeof(struct tt_record) == 184, "fixed on the wire");

enum tt_start_frame_kind {
  TT_START_PEER_INFO = 1, /* rank: its bytes for this round */
  TT_START_PEER_INFOS,    /* root: the bytes of all ranks, or of rank 0 */
  TT_START_BYE,           /* rank: done, in good order */
  TT_START_FAILURE,       /* both: code and a sentence of TT_SENTENCE_BYTES */
  TT_START_LATER,         /* root: come again, an earlier communicator is still here */
  TT_START_SHARE          /* rank: its bytes for all if it is rank 0; other ranks send no bytes after the head */
};

struct tt_start_frame {
  uint32_t kind, code; /* code: a tuttiResult_t with FAILURE, else 0 */
  uint64_t len;        /* bytes after this head; with SHARE the number that rank 0 sends */
  uint8_t digest[TT_KEY_BYTES]; /* tt_digest of the bytes after this head */
  uint8_t tag[TT_TAG_BYTES];    /* of the head before it */
};
_Static_assert(sizeof(struct tt_start_frame) == 64, "fixed on the wire");

/* A fixed number of bytes on their way in. */
struct tt_intake {
  void *at;
  size_t want, got;
};
void tt_intake_set(struct tt_intake *intake, void *at, size_t want);
/* 1: all are there; 0: not yet; -1: the connection has ended (errno, 0 if the peer closed it in order). */
int tt_intake_read(struct tt_intake *intake, int fd);

/* Head and body on their way out; both must live until all is sent. */
struct tt_outlet {
  const void *part[2];
  size_t len[2], sent;
};
void tt_outlet_set(struct tt_outlet *outlet, const void *head, size_t head_len, const void *body,
                   size_t body_len);
int tt_outlet_busy(const struct tt_outlet *outlet);
/* 1: all sent; 0: not yet; -1: the connection is broken. */
int tt_outlet_write(struct tt_outlet *outlet, int fd);

/* Sets the digest of the body; then, last and in the order of sending, the tag of the head. */
void tt_frame_digest(struct tt_start_frame *head, const void *body, size_t len);
void tt_frame_seal(struct tt_start_frame *head, struct tt_seal *out);
/* 1 if the head came as it was sent; 1 if its body did. */
int tt_frame_is_whole(const struct tt_start_frame *head, struct tt_seal *in);
int tt_frame_fits(const struct tt_start_frame *head, const void *body, size_t len);

/* Makes the kernel notice within about `unreachable_ms` that another host is gone, and send small
 * frames at once. A failure is ignored. */
void tt_socket_guard(int fd, int64_t unreachable_ms);

/* A number that is equal in processes that see each other's pids; 0: this is not known. */
uint64_t tt_pid_scope(void);

/* Fills pid, start, pid_scope, host name and version; the rest is 0. */
void tt_record_fill(struct tt_record *record);
/* Masks the record's secret and sets its tag, last of all. is_whole: 1 if a received record came as it was sent; its
 * secret is shown then. */
void tt_record_seal(struct tt_record *record, struct tt_seal *out);
int tt_record_is_whole(struct tt_record *record, struct tt_seal *in);

/* The end of a sentence about bytes that came otherwise than they were sent. */
#define TT_DAMAGED \
  "came damaged (its tag does not fit, see TUTTI_AUTH): the network, a device or somebody on the way changes data"
/* Makes the strings of a received record safe to print. */
void tt_record_clean(struct tt_record *record);
/* 1 if the process of `other` can be seen from here and is dead. */
int tt_record_is_dead(const struct tt_record *other, const struct tt_record *self);

/* Ends the text within size and replaces control characters, which do not belong in a log line. */
void tt_text_clean(char *text, size_t size);

/* Writes "ranks 2, 5-7 of 8", the ranks for which is_in(owner, rank) is 0; cut with "..." if too long.
 * Returns text. */
const char *tt_ranks_text(int (*is_in)(const void *owner, uint32_t rank), const void *owner,
                          uint32_t nranks, char *text, size_t size);

#endif
