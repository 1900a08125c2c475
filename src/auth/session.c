/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of one connection, and the tags of its frames. */
#include <sodium.h>
#include <string.h>

#include "auth/auth.h"
#include "auth/hash_private.h"
#include "auth/wire.h"

_Static_assert(crypto_scalarmult_BYTES == TT_KEY_BYTES && crypto_scalarmult_SCALARBYTES == TT_KEY_BYTES,
               "X25519 keys are keys");

void tt_exchange_make(uint8_t secret[TT_KEY_BYTES], uint8_t public[TT_KEY_BYTES])
{
  tt_random(secret, TT_KEY_BYTES);
  crypto_scalarmult_base(public, secret);
}

int tt_exchange_share(uint8_t out[TT_KEY_BYTES], const uint8_t secret[TT_KEY_BYTES], const uint8_t public[TT_KEY_BYTES])
{
  return crypto_scalarmult(out, secret, public) == 0;
}

/* Authentic keys share a secret: if they do not, each end gets a key that the other one has not, and no frame fits. */
static void shared_get(uint8_t out[TT_KEY_BYTES], const uint8_t *secret, const uint8_t *other)
{
  if (!tt_exchange_share(out, secret, other)) tt_random(out, TT_KEY_BYTES);
}

void tt_session_make(struct tt_session *session, int is_server, const struct tt_handshake *handshake,
                     const uint8_t *secret, const uint8_t *other)
{
  uint8_t shared[TT_KEY_BYTES];
  shared_get(shared, secret, other);
  struct tt_piece pieces[] = {{"to server", 9},
                              {handshake->ns, TT_NONCE_BYTES},
                              {handshake->reply, TT_REPLY_BYTES},
                              {handshake->verdict, TT_VERDICT_BYTES},
                              {shared, sizeof shared}};
  memset(session, 0, sizeof *session);
  tt_hash(is_server ? session->in.key : session->out.key, handshake->key, pieces, 5);
  pieces[0].data = "to client";
  tt_hash(is_server ? session->out.key : session->in.key, handshake->key, pieces, 5);
  tt_wipe(shared, sizeof shared);
}

void tt_seal_mask(const struct tt_seal *seal, uint8_t secret[TT_KEY_BYTES])
{
  uint8_t mask[TT_KEY_BYTES];
  tt_key_derive(mask, seal->key, "tutti-mask", NULL, 0);
  for (int i = 0; i < TT_KEY_BYTES; i++) secret[i] ^= mask[i];
  tt_wipe(mask, sizeof mask);
}

static void tag_make(struct tt_seal *seal, const void *frame, size_t len, uint8_t hash[32])
{
  uint8_t count[8];
  const struct tt_piece pieces[] = {{count, sizeof count}, {frame, len}};
  tt_wire_put(count, 8, seal->count++);
  tt_hash(hash, seal->key, pieces, 2);
}

void tt_seal_make(struct tt_seal *seal, const void *frame, size_t len, uint8_t tag[TT_TAG_BYTES])
{
  uint8_t hash[32];
  tag_make(seal, frame, len, hash);
  memcpy(tag, hash, TT_TAG_BYTES);
}

int tt_seal_fits(struct tt_seal *seal, const void *frame, size_t len, const uint8_t tag[TT_TAG_BYTES])
{
  uint8_t hash[32];
  tag_make(seal, frame, len, hash);
  return sodium_memcmp(hash, tag, TT_TAG_BYTES) == 0;
}
