/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames on control links. Pure: bytes in, bytes out. Integers are little endian.
 *
 *   every frame    80 B  magic 4 | type 4 | rank 4 | zero 4 | body 48 [| 512 B more] | tag 16
 *     BEAT               call 32 | finished 8 | zero 8
 *     GONE               word 8 (tt_gone_make) | zero 40
 *     VOUCH              stamp 8 | zero 40
 *     LOST               word 8 (tt_lost_make) | zero 40
 *     NOTICE             key 8 | number 4 | code 4 | other key 8 | zero 24, and 512 B of sentence
 *     TARGET             key 8 | against 8 | zero 32, and 512 B of members
 *     WORDS              number 8 | zero 40, and 320 B of words and 192 of zero
 *     RECORD             code 4 | culprit 4 | op 8 | zero 32, and 512 B of sentence
 * The tag is of all before it, by the key of the connection for this direction (tt_seal_make). */
#ifndef TT_WATCH_FRAME_H
#define TT_WATCH_FRAME_H

#include "watch/page.h"

#define TT_FRAME_BYTES 80
#define TT_FRAME_MAX_BYTES (TT_FRAME_BYTES + TT_SENTENCE_BYTES)

enum tt_frame_type {
  TT_FRAME_BEAT = 1, /* the sender is alive; its newest call */
  TT_FRAME_GONE,     /* a rank left; passed on once */
  TT_FRAME_VOUCH,    /* a rank of the same host says that a silent rank is alive; passed on once */
  TT_FRAME_LOST,     /* a rank is lost; passed on once */
  TT_FRAME_NOTICE,   /* about a communicator that is being made; passed on once */
  TT_FRAME_TARGET,   /* the ranks to which the sender is shrinking the communicator; sent with its beats */
  TT_FRAME_RECORD,   /* the failure record; passed on once */
  TT_FRAME_WORDS     /* the newest words of a rank for the layer above; passed on once */
};

struct tt_frame {
  uint32_t type;
  int32_t rank; /* BEAT, TARGET: sender; GONE, VOUCH, LOST: the rank in question; NOTICE, WORDS: author; RECORD:
                   detector */
  union {
    struct {
      struct tt_call call; /* op 0: none yet */
      uint64_t finished;
    } beat;
    uint64_t gone;
    uint64_t stamp;
    uint64_t lost;
    struct tt_notice notice;
    struct tt_target target; /* key 0: to none */
    struct tt_failure record;
    struct {
      uint64_t number; /* from 1 on */
      uint64_t words[TT_SAID_WORDS];
    } said;
  };
};

/* Writes the frame, which is sent after those before it, into `bytes`; returns its length. */
size_t tt_frame_encode(const struct tt_frame *frame, struct tt_seal *out, uint8_t bytes[TT_FRAME_MAX_BYTES]);

/* Collects the bytes of one frame. Zeroed memory is a new reader. */
struct tt_frame_reader {
  size_t have;
  uint8_t bytes[TT_FRAME_MAX_BYTES];
};

/* Takes bytes from *data, *len until a frame is whole. 1: *frame is written; 0: more bytes are wanted; -1: this is no
 * frame of ours, though its tag fits; -2: the frame came damaged, twice, or not in its turn. After -1 and -2 the stream
 * cannot be used. */
int tt_frame_step(struct tt_frame_reader *reader, struct tt_seal *in, const uint8_t **data, size_t *len, int nranks,
                  struct tt_frame *frame);

#endif
