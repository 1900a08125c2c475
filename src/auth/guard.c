/* SPDX-License-Identifier: BSD-3-Clause */
/* Tags and encryption of frames of data. */
#include <sodium.h>
#include <string.h>

#include "auth/auth.h"
#include "auth/wire.h"

#define BLOCK_BYTES 64

_Static_assert(sizeof(crypto_onetimeauth_state) <= sizeof((struct tt_guard *)0)->state, "room for Poly1305");
_Static_assert(crypto_stream_chacha20_ietf_NONCEBYTES == sizeof((struct tt_guard *)0)->nonce, "nonce of RFC 8439");
_Static_assert(crypto_onetimeauth_BYTES == TT_TAG_BYTES, "tag of Poly1305");

static crypto_onetimeauth_state *mac_of(struct tt_guard *guard)
{
  return (crypto_onetimeauth_state *)(void *)guard->state;
}

void tt_guard_open(struct tt_guard *guard, struct tt_seal *seal)
{
  uint8_t block[BLOCK_BYTES];
  memset(guard->nonce, 0, 4);
  tt_wire_put(guard->nonce + 4, 8, seal->count++);
  memcpy(guard->key, seal->key, sizeof guard->key);
  guard->at = 0;
  crypto_stream_chacha20_ietf(block, sizeof block, guard->nonce, guard->key);
  crypto_onetimeauth_init(mac_of(guard), block);
  memcpy(guard->head_key, block + crypto_onetimeauth_KEYBYTES, sizeof guard->head_key);
}

void tt_guard_head(const struct tt_guard *guard, const void *head, size_t len, uint8_t tag[TT_TAG_BYTES])
{
  crypto_onetimeauth(tag, head, len, guard->head_key);
}

int tt_guard_head_fits(const struct tt_guard *guard, const void *head, size_t len, const uint8_t tag[TT_TAG_BYTES])
{
  return crypto_onetimeauth_verify(tag, head, len, guard->head_key) == 0;
}

static uint32_t block_at(uint64_t at)
{
  return 1 + (uint32_t)(at / BLOCK_BYTES);
}

/* The rest of a block that was begun, or all bytes if they are fewer. */
static size_t rest_cover(struct tt_guard *guard, uint8_t *out, const uint8_t *in, size_t len)
{
  static const uint8_t zero[BLOCK_BYTES];
  uint8_t block[BLOCK_BYTES];
  size_t used = guard->at % BLOCK_BYTES, rest = used ? BLOCK_BYTES - used : 0;
  if (rest > len) rest = len;
  if (rest == 0) return 0;
  crypto_stream_chacha20_ietf_xor_ic(block, zero, sizeof block, guard->nonce, block_at(guard->at), guard->key);
  for (size_t i = 0; i < rest; i++) out[i] = in[i] ^ block[used + i];
  guard->at += rest;
  return rest;
}

void tt_guard_cover(struct tt_guard *guard, void *out, const void *in, size_t len)
{
  size_t done = rest_cover(guard, out, in, len);
  crypto_stream_chacha20_ietf_xor_ic((uint8_t *)out + done, (const uint8_t *)in + done, len - done, guard->nonce,
                                     block_at(guard->at), guard->key);
  guard->at += len - done;
}

void tt_guard_add(struct tt_guard *guard, const void *data, size_t len)
{
  crypto_onetimeauth_update(mac_of(guard), data, len);
}

void tt_guard_tag(struct tt_guard *guard, uint8_t tag[TT_TAG_BYTES])
{
  crypto_onetimeauth_final(mac_of(guard), tag);
}

int tt_guard_fits(struct tt_guard *guard, const uint8_t tag[TT_TAG_BYTES])
{
  uint8_t found[TT_TAG_BYTES];
  tt_guard_tag(guard, found);
  return sodium_memcmp(found, tag, TT_TAG_BYTES) == 0;
}
