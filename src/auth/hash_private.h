/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside auth only: the one primitive, over a message in pieces. */
#ifndef TT_AUTH_HASH_H
#define TT_AUTH_HASH_H

#include <stddef.h>
#include <stdint.h>

struct tt_piece {
  const void *data;
  size_t len;
};

/* out = BLAKE2b-256(key, pieces in order); key is TT_KEY_BYTES long, or NULL for none. */
void tt_hash(uint8_t out[32], const uint8_t *key, const struct tt_piece *pieces, int count);

#endif
