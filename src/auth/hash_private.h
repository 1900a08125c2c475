/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside auth only: the hash over a message in pieces, and keys of connections. */
#ifndef TT_AUTH_HASH_H
#define TT_AUTH_HASH_H

#include "auth/auth.h"

struct tt_piece {
  const void *data;
  size_t len;
};

/* out = BLAKE2b-256(key, pieces in order); key is TT_KEY_BYTES long, or NULL for none. */
void tt_hash(uint8_t out[32], const uint8_t *key, const struct tt_piece *pieces, int count);

/* The whole of a handshake, and the key that authenticated it. */
struct tt_handshake {
  const uint8_t *key, *ns, *reply, *verdict;
};

/* The keys of a connection; `secret` is this end's, `other` the other end's X25519 key. */
void tt_session_make(struct tt_session *session, int is_server, const struct tt_handshake *handshake,
                     const uint8_t *secret, const uint8_t *other);

#endif
