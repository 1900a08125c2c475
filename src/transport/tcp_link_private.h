/* SPDX-License-Identifier: BSD-3-Clause */
/* One TCP connection as a link: framing, checks, and the two directions. Private to
 * the tcp transport and its tests.
 *
 * A message travels as frames. With CRC or tags a frame has at most TCP_FRAME_BYTES of payload, without them
 * as much as the sender had at once, up to TCP_PLAIN_BYTES. The first frame's
 * head carries the whole call, so that a receiver that expects another one can name both:
 *
 *   0  magic 2 | flags 2 | len 4     len: payload of this frame, never 0
 *   8  word 8                        the message's
 *  16  at 8                          first frame: length of the message; later: place in it
 *  24  payload_crc 4 | head_crc 4    CRC32C, 0 without TCP_FLAG_CRC; head_crc counts as 0 in itself
 *  32  call 32                       first frames only
 *   then, with TCP_FLAG_GUARDED, tag of the payload 16 | tag of the head and that 16 (auth/auth.h, "frames of data")
 *
 * Integers are little endian. No field from the wire determines a size or a place: each one
 * is compared with the value that the receiver itself expects. */
#ifndef TT_TRANSPORT_TCP_LINK_H
#define TT_TRANSPORT_TCP_LINK_H

#include <stdalign.h>

#include "transport/transport.h"

#define TCP_MAGIC 0x5454u    /* "TT" */
#define TCP_FLAG_FIRST 0x01u /* of a message */
#define TCP_FLAG_CRC 0x02u   /* both CRC fields are set */
#define TCP_FLAG_GUARDED 0x04u /* tags follow the head */
#define TCP_FLAG_ENCRYPTED 0x08u

/* The checks of a frame by its receiver, and whether its payload is encrypted; the same at both ends. */
enum tcp_check { TCP_UNCHECKED, TCP_CRC, TCP_GUARDED, TCP_ENCRYPTED };

struct tcp_head {
  uint16_t magic, flags;
  uint32_t len;
  uint64_t word;
  uint64_t at;
  uint32_t payload_crc, head_crc;
  struct tt_call call;
};

#define TCP_FIRST_BYTES sizeof(struct tcp_head)
#define TCP_LATER_BYTES offsetof(struct tcp_head, call)
#define TCP_TAGS_BYTES ((size_t)2 * TT_TAG_BYTES)

/* Largest payload of a frame with CRC or tags, which the receiver keeps in cache until it is verified; also the most
 * payload that is staged. */
#define TCP_FRAME_BYTES ((size_t)256 * 1024)

/* Largest payload of a frame without either. Each frame costs a last segment that is not full and one more system call
 * at the receiver: messages of 512 KiB over the loopback took 1 to 3 % longer in frames of 256 KiB, at equal turns. */
#define TCP_PLAIN_BYTES ((size_t)1 << 30)

/* A call moves about this much before the caller turns to its other links. On loopback 256 KiB are 5 to 10 % slower for
 * messages of 512 KiB. */
#define TCP_TURN_BYTES ((size_t)1 << 20)

/* Payload up to this length is copied after its head and leaves with a plain send(2), which
 * costs less than gathering two pieces. */
#define TCP_INLINE_BYTES ((size_t)2048)

/* Bytes read ahead when the next frame is not known: a small message with its head in one recv(2). */
#define TCP_AHEAD_BYTES (TCP_FIRST_BYTES + (size_t)8192)

/* A message up to this length that is shown in place is read with its head in one recv(2). Measured on loopback: this
 * saves 2 % at 16 and 32 KiB; at 64 KiB it saves 1 % or costs 5 %, by algorithm; at 512 KiB it costs up to 5 %. */
#define TCP_WHOLE_BYTES ((size_t)48 * 1024)

/* Longest element that peek keeps whole. */
#define TCP_GRAIN_MAX ((size_t)256)

#define TCP_STAGE_BYTES (TCP_FRAME_BYTES + TCP_AHEAD_BYTES + TCP_FIRST_BYTES + TCP_TAGS_BYTES + TCP_GRAIN_MAX)

struct tcp_sender {
  struct tt_head message;
  uint64_t unframed;  /* bytes of the message that are in no frame yet */
  size_t frame_len;   /* payload of the open frame */
  size_t frame_left;  /* of it, what the kernel has not taken */
  size_t head_len;    /* of the open frame */
  size_t head_left;   /* bytes of it not taken yet */
  int is_full;        /* the last send took less than offered */
  int is_broken;      /* for good; what has come before can still be received */
  alignas(64) union {
    struct tcp_head head;
    uint8_t bytes[TCP_FIRST_BYTES + TCP_TAGS_BYTES + TCP_INLINE_BYTES];
  } wire;
  uint8_t *cipher;    /* the open frame's payload encrypted, TCP_FRAME_BYTES; NULL: it is sent as it is */
};

/* stage[begin .. end) has been read and not yet been used: first `ready` bytes of payload of the
 * open frame (or leftovers of earlier frames, less than an element), then the bytes that follow on the
 * wire. While `unread` > 0, no bytes follow. */
struct tcp_receiver {
  struct tt_head message;
  uint64_t unframed; /* bytes of the message whose frame's head has not been read */
  uint64_t left;     /* bytes of the message that the caller has not got */
  size_t begin, end;
  size_t ready;
  size_t unread;     /* payload of the open frame still in the socket */
  size_t shown;      /* bytes that peek has shown since the last consume */
  uint32_t crc;      /* of the frame's payload so far */
  uint32_t crc_sent; /* the one in its head */
  int is_drained;    /* the socket had less than asked for, in this call */
  uint8_t *stage;    /* TCP_STAGE_BYTES */
  uint8_t tag[TT_TAG_BYTES]; /* of the open frame's payload */
  struct tt_guard guard;     /* of the open frame */
};

struct tcp_link {
  struct tt_link base;
  int fd;
  enum tcp_check check;
  unsigned flags; /* of all its frames */
  struct tt_session session; /* keys of guarded frames */
  int is_broken; /* for good; base.why says how */
  struct tcp_sender out;
  struct tcp_receiver in;
};

/* Makes a link over a connected stream socket, which it owns from then on and makes
 * non-blocking. `session` has the keys of guarded links, else it may be NULL. Errors: tuttiSystemError; the socket is
 * still the caller's then. */
tuttiResult_t tt_tcp_link_create(struct tcp_link **link, int fd, enum tcp_check check,
                                 const struct tt_session *session);
void tt_tcp_link_destroy(struct tcp_link *link); /* NULL is allowed */

/* Marks the link as lost for good, with its reason; returns TT_LINK_BROKEN. */
ssize_t tt_tcp_break(struct tcp_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Longest payload of a frame of this link. */
static inline size_t tt_tcp_frame_most(const struct tcp_link *link)
{
  return link->check ? TCP_FRAME_BYTES : TCP_PLAIN_BYTES;
}


/* CRC over a head whose head_crc is 0. */
uint32_t tt_tcp_head_crc(const struct tcp_head *head, size_t len);

/* The directions (tcp_send.c, tcp_recv.c): see struct tt_link_ops. */
void tt_tcp_send_begin(struct tt_link *link, const struct tt_head *head);
ssize_t tt_tcp_send(struct tt_link *link, const void *data, size_t len);
void tt_tcp_recv_begin(struct tt_link *link, const struct tt_head *head);
ssize_t tt_tcp_peek(struct tt_link *link, const void **data, size_t grain);
ssize_t tt_tcp_consume(struct tt_link *link, size_t len);
ssize_t tt_tcp_recv(struct tt_link *link, void *data, size_t len);

/* Congestion control to set on a connection that has `now`, by TUTTI_TCP_CONGESTION; "" to leave it. Pure. */
const char *tt_tcp_congestion(const char *wanted, const char *now);

#endif
