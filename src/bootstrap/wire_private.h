/* SPDX-License-Identifier: BSD-3-Clause */
/* What root and ranks say to each other after the handshake, and how it gets through a
 * non-blocking socket. Private to this folder.
 *
 *   root -> rank   record (who the root is), then frames PEER INFOS, FAILURE, LATER
 *   rank -> root   record (who the rank is) once the root's is here, then frames PEER INFO, SHARE, BYE, FAILURE
 *
 * A record and a frame head have fixed sizes. The length of what follows a head is known to the
 * receiver from its own state; the length on the wire is only compared with it. Integers are little
 * endian. All of it has CRC32C checksums: the handshake proves who speaks, these that it came as it was said.
 * With a damaged record the rank comes again on a new connection, for nothing has been agreed yet; a damaged frame
 * ends the start-up on all ranks. The layout of the record is the same in all versions of the library. */
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
  uint64_t agreement, host, sight, start;
  uint8_t marks[TT_SETTINGS_MARKS]; /* of the settings: to name those that differ */
  char host_name[TT_HOST_NAME_BYTES];
  uint32_t zero, sum; /* of all before it */
};
_Static_assert(sizeof(struct tt_record) == 136, "fixed on the wire");

enum tt_start_frame_kind {
  TT_START_PEER_INFO = 1, /* rank: my bytes for this round */
  TT_START_PEER_INFOS,    /* root: those of all ranks, or of rank 0 */
  TT_START_BYE,      /* rank: done, in good order */
  TT_START_FAILURE,  /* both: code and a sentence of TT_SENTENCE_BYTES */
  TT_START_LATER,    /* root: come again, an earlier communicator is still here */
  TT_START_SHARE     /* rank: my bytes for all if I am rank 0; no bytes follow that of another */
};

struct tt_start_frame {
  uint32_t kind, code; /* code: a tuttiResult_t with FAILURE, else 0 */
  uint64_t len;        /* bytes behind this head; of a SHARE those of rank 0 */
  uint32_t body_sum;   /* of what follows */
  uint32_t sum;        /* of the head before it */
};
_Static_assert(sizeof(struct tt_start_frame) == 24, "fixed on the wire");

/* A fixed number of bytes on their way in. */
struct tt_intake {
  void *at;
  size_t want, got;
};
void tt_intake_set(struct tt_intake *intake, void *at, size_t want);
/* 1: all there; 0: not yet; -1: the connection has ended (errno, 0 at its end in good order). */
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

/* Sets the checksums of a head, last of all, and of the body behind it. */
void tt_frame_seal(struct tt_start_frame *head, const void *body, size_t len);
/* 1 if the head came as it was sent; if its body did. */
int tt_frame_is_whole(const struct tt_start_frame *head);
int tt_frame_fits(const struct tt_start_frame *head, const void *body, size_t len);

/* Makes the kernel notice another host that is gone within about `unreachable_ms`, and send small
 * frames at once. Failure changes nothing. */
void tt_socket_guard(int fd, int64_t unreachable_ms);

/* Equal in processes that see each other's pids; 0: nobody can tell. */
uint64_t tt_sight(void);

/* Fills pid, start, sight, host name and version; the rest is 0. */
void tt_record_fill(struct tt_record *record);
/* Sets its checksum, last of all; 1 if what came has the right one. */
void tt_record_seal(struct tt_record *record);
int tt_record_is_whole(const struct tt_record *record);
/* Makes the strings of a received record safe to print. */
void tt_record_clean(struct tt_record *record);
/* 1 if the process behind `other` is seen from here and is dead. */
int tt_record_is_dead(const struct tt_record *other, const struct tt_record *self);

/* Ends text within size and replaces what does not belong into a log line. */
void tt_text_clean(char *text, size_t size);

/* "ranks 2, 5-7 of 8": those for which is_in(owner, rank) is 0; cut with "..." if too long.
 * Returns text. */
const char *tt_ranks_text(int (*is_in)(const void *owner, uint32_t rank), const void *owner,
                          uint32_t nranks, char *text, size_t size);

#endif
