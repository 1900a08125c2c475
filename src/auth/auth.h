/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and the handshake with which every connection starts. Pure: bytes in, bytes
 * out, no sockets and no clock; net drives it. Primitive: keyed BLAKE2b of libsodium.
 *
 *   S -> C   32 B  magic 8 | nonce Ns 24
 *   C -> S  144 B  magic 8 | version 4 | kind 2 | lane 2 | src 4 | dst 4 | epoch 8 |
 *                  nonce Nc 24 | job 16 | library 4 | zero 4 | Xc 32 | MACc 32
 *   S -> C   72 B  status 8 | Xs 32 | MACs 32
 *   MACc = BLAKE2b-256(K, "C" | Ns | the client's message before MACc)
 *   MACs = BLAKE2b-256(K, "S" | Ns | the client's message | the verdict before MACs)
 * The server is authenticated by MACs, the client by MACc; nonces on both sides rule
 * out replay, labels rule out reflection, and kind, ranks, lane and epoch are inside
 * the MAC. Integers are little endian. Comparisons take constant time.
 *
 * Xc and Xs are X25519 keys made for this connection if its kind has keys (tt_hello_has_keys), else zero. Both ends
 * then have a key for each direction:
 *   BLAKE2b-256(K, "to server" or "to client" | Ns | the client's message | the verdict | X25519(Xc, Xs))
 * Neither is known to one who relays the handshake, or who learns K later.
 *
 * Versions differ in what follows. These messages keep their lengths, magic, version, src, epoch, job, library and MAC
 * in all versions, so that a client of another version is told as one that holds the key: its verdict has
 * TT_STATUS_VERSION and, in place of Xs, the server's version 4 | library 4 | zero 24. */
#ifndef TT_AUTH_H
#define TT_AUTH_H

#include <stdalign.h>

#include "base/base.h"

/* The version of the handshake and of all that follows it: start-up, control frames, data frames, shared memory. To be
 * raised with any change of them, so that ranks of unlike builds are told, not misunderstood. */
#ifndef TT_WIRE_VERSION /* tests make libraries of other versions: tests/tools/versions */
#define TT_WIRE_VERSION 5
#endif
#ifndef TT_LIBRARY_VERSION
#define TT_LIBRARY_VERSION TUTTI_VERSION_CODE
#endif

#define TT_KEY_BYTES 32
#define TT_JOB_BYTES 16
#define TT_NONCE_BYTES 24
#define TT_CHALLENGE_BYTES 32
#define TT_REPLY_BYTES 144
#define TT_VERDICT_BYTES 72
#define TT_TAG_BYTES 16

/* The values of TUTTI_AUTH, in the order of base/settings.def. */
enum tt_auth_level { TT_AUTH_NONE, TT_AUTH_KEY, TT_AUTH_DATA, TT_AUTH_ENCRYPT };

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
  TT_HELLO_QUEUE_PAIR, /* exchanges the facts that two queue pairs of the verbs transport must know; lane says which */
  TT_HELLO_KEYED_LINK  /* a data link whose frames are authenticated (TUTTI_AUTH=data) */
};

/* Whether connections of a kind have keys of their own: not within a host, nor links whose data are in clear. Making
 * them costs each end about 0.1 ms. */
static inline int tt_hello_has_keys(enum tt_hello_kind kind)
{
  return kind != TT_HELLO_LINK && kind != TT_HELLO_SHARE && kind != TT_HELLO_OUTBOX;
}

/* The versions that one side runs. */
struct tt_versions {
  uint32_t wire;    /* TT_WIRE_VERSION */
  uint32_t library; /* TT_LIBRARY_VERSION; 0 where the handshake has no such field yet */
};
struct tt_versions tt_versions_ours(void);

/* "Tutti 0.1.0 (protocol 5)" */
#define TT_VERSIONS_TEXT_BYTES 48
const char *tt_versions_text(struct tt_versions versions, char text[TT_VERSIONS_TEXT_BYTES]);

struct tt_hello {
  uint16_t kind; /* enum tt_hello_kind */
  uint16_t lane;
  uint32_t src, dst; /* ranks */
  struct tt_versions versions; /* of the client, as tt_reply_check has found them; tt_reply_make says its own */
};

/* Makes libsodium ready. To be called before anything else here; cheap when repeated. */
tuttiResult_t tt_auth_init(void);

/* The keys of one connection, one for each direction, and how many frames they have sealed: a frame that is changed,
 * sent twice, left out or out of order does not fit. Zeroed memory is a session without a secret. */
struct tt_seal {
  uint8_t key[TT_KEY_BYTES];
  uint64_t count;
};
struct tt_session {
  struct tt_seal out, in;
};

void tt_random(void *out, size_t len);
void tt_wipe(void *secret, size_t len);

/* out = BLAKE2b-256(key, label | 0 | data): a key for one purpose. label is a C string; its NUL
 * keeps (label, data) pairs apart. data may be NULL if len is 0. */
void tt_key_derive(uint8_t out[TT_KEY_BYTES], const uint8_t key[TT_KEY_BYTES], const char *label,
                   const void *data, size_t len);

/* out = BLAKE2b-256 of the bytes, without a key. */
void tt_digest(uint8_t out[TT_KEY_BYTES], const void *data, size_t len);

/* An X25519 key pair; and the secret that two of them share: 0 if the other one is no key (all of its secrets are
 * zero). */
void tt_exchange_make(uint8_t secret[TT_KEY_BYTES], uint8_t public[TT_KEY_BYTES]);
int tt_exchange_share(uint8_t out[TT_KEY_BYTES], const uint8_t secret[TT_KEY_BYTES],
                      const uint8_t public[TT_KEY_BYTES]);

/* Reads TUTTI_KEY_FILE and hashes it into out. It must be a regular file owned by the effective user, of mode at most
 * 0600 and 16 to 4096 bytes; links are not followed. Errors: tuttiInvalidUsage with the path and the remedy. */
tuttiResult_t tt_key_file_read(const char *path, uint8_t out[TT_KEY_BYTES]);

/* Server: makes the challenge; ns keeps its nonce. */
void tt_challenge_make(uint8_t message[TT_CHALLENGE_BYTES], uint8_t ns[TT_NONCE_BYTES]);

/* Client: answers a challenge. The reply is kept for tt_verdict_check, and secret for tt_session_join. Errors:
 * tuttiRemoteError, without a sentence, if the challenge is not ours (wrong magic). */
tuttiResult_t tt_reply_make(uint8_t message[TT_REPLY_BYTES],
                            const uint8_t challenge[TT_CHALLENGE_BYTES],
                            const struct tt_credentials *credentials, const struct tt_hello *hello,
                            uint8_t secret[TT_KEY_BYTES]);

/* Server: 0 as soon as the first `len` bytes show that this is no reply of ours. */
int tt_reply_plausible(const uint8_t *start, size_t len);

/* Server: 1 as soon as the first `len` bytes of a plausible reply show that it is of another version. */
int tt_reply_is_foreign(const uint8_t *start, size_t len);

/* Server: reads the unauthenticated job and epoch of a reply, of any version, to find the credentials that it claims.
 * Returns 0 if the magic is not ours. */
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

/* Server: 1 and *hello filled if the reply is authentic, also if it is of another version (tt_reply_is_foreign);
 * else 0. */
int tt_reply_check(const uint8_t reply[TT_REPLY_BYTES], const uint8_t ns[TT_NONCE_BYTES],
                   const struct tt_credentials *credentials, struct tt_hello *hello);

/* Server: writes the verdict on an authentic reply; status 0 is welcome, any other a reason that the
 * client gets to see. A welcome fills *session if the reply is of a kind that has keys; else it is zero. The answer to
 * a reply of another version is TT_STATUS_VERSION. */
enum tt_status { TT_WELCOME, TT_STATUS_TAKEN, TT_STATUS_UNKNOWN, TT_STATUS_FULL, TT_STATUS_KEY, TT_STATUS_VERSION };
void tt_verdict_make(uint8_t message[TT_VERDICT_BYTES], uint64_t status,
                     const uint8_t reply[TT_REPLY_BYTES], const uint8_t ns[TT_NONCE_BYTES],
                     const struct tt_credentials *credentials, struct tt_session *session);

/* Server: writes the verdict on a reply that names a known job and epoch but has a wrong MAC: TT_STATUS_KEY; or on one
 * of another version: TT_STATUS_VERSION; and a MAC of zeros. No key is used, so strangers learn nothing from it. An
 * honest client sees a verdict that is not authentic; after a few of them it can say so, by tt_verdict_seems. */
void tt_verdict_refuse(uint8_t message[TT_VERDICT_BYTES], enum tt_status status);
uint64_t tt_verdict_seems(const uint8_t verdict[TT_VERDICT_BYTES]);

/* Client: the server's versions, of a verdict with TT_STATUS_VERSION that is authentic. */
struct tt_versions tt_verdict_versions(const uint8_t verdict[TT_VERDICT_BYTES]);

/* Client: 1 and *status filled if the verdict is authentic, else 0. */
int tt_verdict_check(const uint8_t verdict[TT_VERDICT_BYTES],
                     const uint8_t challenge[TT_CHALLENGE_BYTES],
                     const uint8_t reply[TT_REPLY_BYTES], const struct tt_credentials *credentials,
                     uint64_t *status);

/* Client: fills *session after an authentic welcome, as the server's verdict did. */
void tt_session_join(struct tt_session *session, const uint8_t verdict[TT_VERDICT_BYTES],
                     const uint8_t challenge[TT_CHALLENGE_BYTES], const uint8_t reply[TT_REPLY_BYTES],
                     const struct tt_credentials *credentials, const uint8_t secret[TT_KEY_BYTES]);

/* ---- frames of a connection that has keys (session.c) ---- */

/* Hides a secret that goes this way, or shows it again: XOR with a key that serves one secret for each direction. */
void tt_seal_mask(const struct tt_seal *seal, uint8_t secret[TT_KEY_BYTES]);

/* Writes the tag of the next frame of this direction: BLAKE2b-256(key, count 8 | frame), its first 16 bytes. */
void tt_seal_make(struct tt_seal *seal, const void *frame, size_t len, uint8_t tag[TT_TAG_BYTES]);
/* 1 if this is the next frame of this direction, as it was sealed; 0: it is not, and nothing that follows will be. */
int tt_seal_fits(struct tt_seal *seal, const void *frame, size_t len, const uint8_t tag[TT_TAG_BYTES]);

/* ---- frames of data, piece by piece (guard.c) ----
 * As ChaCha20-Poly1305 of RFC 8439 with the count of the frame as nonce, but head and payload have tags of their own,
 * so that a length in the head can be believed before the payload is there:
 *   block 0 of ChaCha20(key, nonce 0 4 | count 8) = key of the payload's Poly1305 32 | of the head's 32
 *   the payload is XORed with block 1 and those behind it, if it is encrypted; the tag is of the bytes that are sent
 * A key guards frames or seals them, not both. */
struct tt_guard {
  alignas(16) uint8_t state[256]; /* of the payload's Poly1305 */
  uint8_t key[TT_KEY_BYTES], head_key[TT_KEY_BYTES], nonce[12];
  uint64_t at; /* bytes of the payload covered so far */
};

/* Begins the next frame of this direction. */
void tt_guard_open(struct tt_guard *guard, struct tt_seal *seal);
void tt_guard_head(const struct tt_guard *guard, const void *head, size_t len, uint8_t tag[TT_TAG_BYTES]);
int tt_guard_head_fits(const struct tt_guard *guard, const void *head, size_t len, const uint8_t tag[TT_TAG_BYTES]);
/* Encrypts or decrypts the next bytes of the payload; out may be in. */
void tt_guard_cover(struct tt_guard *guard, void *out, const void *in, size_t len);
/* Adds the next bytes of the payload, as they are sent, to its tag; then says the tag, once. */
void tt_guard_add(struct tt_guard *guard, const void *data, size_t len);
void tt_guard_tag(struct tt_guard *guard, uint8_t tag[TT_TAG_BYTES]);
int tt_guard_fits(struct tt_guard *guard, const uint8_t tag[TT_TAG_BYTES]);

#endif
