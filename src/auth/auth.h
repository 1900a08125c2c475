/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and the handshake with which every connection starts. Pure: bytes in, bytes
 * out, no sockets and no clock; net drives it. Primitive: keyed BLAKE2b of libsodium.
 *
 *   S -> C   32 B  magic 8 | nonce Ns 24
 *   C -> S  112 B  magic 8 | version 4 | kind 2 | lane 2 | src 4 | dst 4 | epoch 8 |
 *                  nonce Nc 24 | job 16 | zero 8 | MACc 32
 *   S -> C   40 B  status 8 | MACs 32
 *   MACc = BLAKE2b-256(K, "C" | Ns | the first 80 bytes of the client's message)
 *   MACs = BLAKE2b-256(K, "S" | Ns | Nc | status)
 * The server is authenticated by MACs, the client by MACc; nonces on both sides rule
 * out replay, labels rule out reflection, and kind, ranks, lane and epoch are inside
 * the MAC. Integers are little endian. Comparisons take constant time. */
#ifndef TT_AUTH_H
#define TT_AUTH_H

#include "base/base.h"

#define TT_KEY_BYTES 32
#define TT_JOB_BYTES 16
#define TT_NONCE_BYTES 24
#define TT_CHALLENGE_BYTES 32
#define TT_REPLY_BYTES 112
#define TT_VERDICT_BYTES 40

/* The credentials that admit to a communicator. */
struct tt_credentials {
  uint8_t job[TT_JOB_BYTES];
  uint8_t key[TT_KEY_BYTES];
  uint64_t epoch; /* 0 at first; split and shrink make new ones */
};

enum tt_hello_kind {
  TT_HELLO_NONE,
  TT_HELLO_RENDEZVOUS, /* a rank to the root of the start-up; dst 0 */
  TT_HELLO_LINK,       /* data link of a transport; lane says which */
  TT_HELLO_CONTROL,    /* control link of watch */
  TT_HELLO_SHARE,      /* asks for a descriptor over a local socket; lane says which one */
  TT_HELLO_OUTBOX,     /* asks over a local socket for the outbox of the shm transport */
  TT_HELLO_QUEUE_PAIR  /* exchanges the facts that two queue pairs of the verbs transport must know; lane says which */
};

struct tt_hello {
  uint16_t kind; /* enum tt_hello_kind */
  uint16_t lane;
  uint32_t src, dst; /* ranks */
};

/* Makes libsodium ready. To be called before anything else here; cheap when repeated. */
tuttiResult_t tt_auth_init(void);

void tt_random(void *out, size_t len);
void tt_wipe(void *secret, size_t len);

/* out = BLAKE2b-256(key, label | 0 | data): a key for one purpose. label is a C string; its NUL
 * keeps (label, data) pairs apart. data may be NULL if len is 0. */
void tt_key_derive(uint8_t out[TT_KEY_BYTES], const uint8_t key[TT_KEY_BYTES], const char *label,
                   const void *data, size_t len);

/* Reads TUTTI_KEY_FILE and hashes it into out. It must be a regular file owned by the effective user, of mode at most
 * 0600 and 16 to 4096 bytes; links are not followed. Errors: tuttiInvalidUsage with the path and the remedy. */
tuttiResult_t tt_key_file_read(const char *path, uint8_t out[TT_KEY_BYTES]);

/* Server: makes the challenge; ns keeps its nonce. */
void tt_challenge_make(uint8_t message[TT_CHALLENGE_BYTES], uint8_t ns[TT_NONCE_BYTES]);

/* Client: answers a challenge. nc is remembered for tt_verdict_check. Errors:
 * tuttiRemoteError, without a sentence, if the challenge is not ours (wrong magic). */
tuttiResult_t tt_reply_make(uint8_t message[TT_REPLY_BYTES],
                            const uint8_t challenge[TT_CHALLENGE_BYTES],
                            const struct tt_credentials *credentials, const struct tt_hello *hello,
                            uint8_t nc[TT_NONCE_BYTES]);

/* Server: 0 as soon as the first `len` bytes show that this is no reply of ours. */
int tt_reply_plausible(const uint8_t *start, size_t len);

/* Server: reads the unauthenticated job and epoch of a reply, to find the credentials that it claims. Returns 0
 * if magic or version are not ours. */
int tt_reply_claim(const uint8_t reply[TT_REPLY_BYTES], uint8_t job[TT_JOB_BYTES],
                   uint64_t *epoch);

/* Server: the apparent purpose of a whole reply that is not authentic; nothing proves it. */
enum tt_claim {
  TT_CLAIM_NONE,    /* no reply of ours */
  TT_CLAIM_VERSION, /* of another version of the handshake */
  TT_CLAIM_START,   /* a rank on its way to a root */
  TT_CLAIM_OTHER
};
enum tt_claim tt_reply_seems(const uint8_t reply[TT_REPLY_BYTES]);

/* Server: 1 and *hello filled if the reply is authentic, else 0. */
int tt_reply_check(const uint8_t reply[TT_REPLY_BYTES], const uint8_t ns[TT_NONCE_BYTES],
                   const struct tt_credentials *credentials, struct tt_hello *hello);

/* Server: writes the verdict on an authentic reply; status 0 is welcome, any other a reason that the
 * client gets to see. */
enum tt_status { TT_WELCOME, TT_STATUS_TAKEN, TT_STATUS_UNKNOWN, TT_STATUS_FULL, TT_STATUS_KEY };
void tt_verdict_make(uint8_t message[TT_VERDICT_BYTES], uint64_t status,
                     const uint8_t reply[TT_REPLY_BYTES], const uint8_t ns[TT_NONCE_BYTES],
                     const struct tt_credentials *credentials);

/* Server: writes the verdict on a reply that names a known job and epoch but has a wrong MAC: TT_STATUS_KEY and a
 * MAC of zeros. No key is used, so strangers learn nothing from it. An honest client with another key
 * sees a verdict that is not authentic; after a few of them it can say so. */
void tt_verdict_refuse(uint8_t message[TT_VERDICT_BYTES]);

/* Client: 1 and *status filled if the verdict is authentic, else 0. */
int tt_verdict_check(const uint8_t verdict[TT_VERDICT_BYTES],
                     const uint8_t challenge[TT_CHALLENGE_BYTES],
                     const uint8_t nc[TT_NONCE_BYTES], const struct tt_credentials *credentials,
                     uint64_t *status);

#endif
