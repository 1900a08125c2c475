/* SPDX-License-Identifier: BSD-3-Clause */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "auth/auth.h"
#include "auth/hash_private.h"
#include "auth/wire.h"

#define MAC_BYTES 32

static const uint8_t magic[8] = {'T', 'u', 't', 't', 'i', 0xaa, 0x0d, 0x0a};

/* Offsets in the client's message; everything before the MAC is under the MAC. */
enum {
  AT_VERSION = 8,
  AT_KIND = 12,
  AT_LANE = 14,
  AT_SRC = 16,
  AT_DST = 20,
  AT_EPOCH = 24,
  AT_NONCE = 32,
  AT_JOB = 56,
  AT_LIBRARY = 72,
  AT_EXCHANGE = 80,
  AT_MAC = 112
};
enum { VERDICT_EXCHANGE = 8, VERDICT_VERSION = 8, VERDICT_LIBRARY = 12, VERDICT_MAC = 40 };
_Static_assert(AT_MAC + MAC_BYTES == TT_REPLY_BYTES, "the layout of auth.h");
_Static_assert(AT_NONCE + TT_NONCE_BYTES == AT_JOB && AT_JOB + TT_JOB_BYTES == AT_LIBRARY,
               "the layout of auth.h");
_Static_assert(sizeof magic + TT_NONCE_BYTES == TT_CHALLENGE_BYTES, "the layout of auth.h");
_Static_assert(VERDICT_MAC + MAC_BYTES == TT_VERDICT_BYTES, "the layout of auth.h");

static void reply_mac(uint8_t mac[MAC_BYTES], const uint8_t *reply, const uint8_t *ns,
                      const struct tt_credentials *credentials)
{
  const struct tt_piece pieces[] = {{"C", 1}, {ns, TT_NONCE_BYTES}, {reply, AT_MAC}};
  tt_hash(mac, credentials->key, pieces, 3);
}

static void verdict_mac(uint8_t mac[MAC_BYTES], const uint8_t *ns, const uint8_t *reply, const uint8_t *verdict,
                        const struct tt_credentials *credentials)
{
  const struct tt_piece pieces[] = {
      {"S", 1}, {ns, TT_NONCE_BYTES}, {reply, TT_REPLY_BYTES}, {verdict, VERDICT_MAC}};
  tt_hash(mac, credentials->key, pieces, 4);
}

/* Whether a reply, authentic or not, is of a kind that has keys. */
static int has_keys(const uint8_t *reply)
{
  return tt_hello_has_keys((enum tt_hello_kind)tt_wire_get(reply + AT_KIND, 2));
}

struct tt_versions tt_versions_ours(void)
{
  return (struct tt_versions){TT_WIRE_VERSION, TT_LIBRARY_VERSION};
}

const char *tt_versions_text(struct tt_versions versions, char text[TT_VERSIONS_TEXT_BYTES])
{
  uint32_t code = versions.library;
  if (!code) snprintf(text, TT_VERSIONS_TEXT_BYTES, "an older Tutti (protocol %u)", versions.wire);
  else
    snprintf(text, TT_VERSIONS_TEXT_BYTES, "Tutti %u.%u.%u (protocol %u)", code / 10000, code / 100 % 100, code % 100,
             versions.wire);
  return text;
}

void tt_challenge_make(uint8_t message[TT_CHALLENGE_BYTES], uint8_t ns[TT_NONCE_BYTES])
{
  tt_random(ns, TT_NONCE_BYTES);
  memcpy(message, magic, sizeof magic);
  memcpy(message + sizeof magic, ns, TT_NONCE_BYTES);
}

tuttiResult_t tt_reply_make(uint8_t message[TT_REPLY_BYTES],
                            const uint8_t challenge[TT_CHALLENGE_BYTES],
                            const struct tt_credentials *credentials, const struct tt_hello *hello,
                            uint8_t secret[TT_KEY_BYTES])
{
  if (memcmp(challenge, magic, sizeof magic) != 0) return tuttiRemoteError;
  memcpy(message, magic, sizeof magic);
  tt_wire_put(message + AT_VERSION, 4, TT_WIRE_VERSION);
  tt_wire_put(message + AT_KIND, 2, hello->kind);
  tt_wire_put(message + AT_LANE, 2, hello->lane);
  tt_wire_put(message + AT_SRC, 4, hello->src);
  tt_wire_put(message + AT_DST, 4, hello->dst);
  tt_wire_put(message + AT_EPOCH, 8, credentials->epoch);
  tt_random(message + AT_NONCE, TT_NONCE_BYTES);
  memcpy(message + AT_JOB, credentials->job, TT_JOB_BYTES);
  memset(message + AT_LIBRARY, 0, AT_MAC - AT_LIBRARY);
  tt_wire_put(message + AT_LIBRARY, 4, tt_versions_ours().library);
  memset(secret, 0, TT_KEY_BYTES);
  if (has_keys(message)) tt_exchange_make(secret, message + AT_EXCHANGE);
  reply_mac(message + AT_MAC, message, challenge + sizeof magic, credentials);
  return tuttiSuccess;
}

int tt_reply_plausible(const uint8_t *start, size_t len)
{
  return memcmp(start, magic, len < sizeof magic ? len : sizeof magic) == 0;
}

int tt_reply_is_foreign(const uint8_t *start, size_t len)
{
  return len >= AT_KIND && tt_wire_get(start + AT_VERSION, 4) != TT_WIRE_VERSION;
}

int tt_reply_claim(const uint8_t reply[TT_REPLY_BYTES], uint8_t job[TT_JOB_BYTES], uint64_t *epoch)
{
  if (memcmp(reply, magic, sizeof magic) != 0) return 0;
  memcpy(job, reply + AT_JOB, TT_JOB_BYTES);
  *epoch = tt_wire_get(reply + AT_EPOCH, 8);
  return 1;
}

enum tt_claim tt_reply_seems(const uint8_t reply[TT_REPLY_BYTES])
{
  if (memcmp(reply, magic, sizeof magic) != 0) return TT_CLAIM_NONE;
  if (tt_reply_is_foreign(reply, TT_REPLY_BYTES)) return TT_CLAIM_VERSION;
  return tt_wire_get(reply + AT_KIND, 2) == TT_HELLO_RENDEZVOUS ? TT_CLAIM_START : TT_CLAIM_OTHER;
}

int tt_reply_check(const uint8_t reply[TT_REPLY_BYTES], const uint8_t ns[TT_NONCE_BYTES],
                   const struct tt_credentials *credentials, struct tt_hello *hello)
{
  uint8_t job[TT_JOB_BYTES], mac[MAC_BYTES];
  uint64_t epoch;
  if (!tt_reply_claim(reply, job, &epoch)) return 0;
  if (epoch != credentials->epoch || memcmp(job, credentials->job, TT_JOB_BYTES) != 0) return 0;
  reply_mac(mac, reply, ns, credentials);
  if (sodium_memcmp(mac, reply + AT_MAC, MAC_BYTES) != 0) return 0;
  hello->kind = (uint16_t)tt_wire_get(reply + AT_KIND, 2);
  hello->lane = (uint16_t)tt_wire_get(reply + AT_LANE, 2);
  hello->src = (uint32_t)tt_wire_get(reply + AT_SRC, 4);
  hello->dst = (uint32_t)tt_wire_get(reply + AT_DST, 4);
  hello->versions.wire = (uint32_t)tt_wire_get(reply + AT_VERSION, 4);
  hello->versions.library = (uint32_t)tt_wire_get(reply + AT_LIBRARY, 4);
  return 1;
}

void tt_verdict_make(uint8_t message[TT_VERDICT_BYTES], uint64_t status,
                     const uint8_t reply[TT_REPLY_BYTES], const uint8_t ns[TT_NONCE_BYTES],
                     const struct tt_credentials *credentials, struct tt_session *session)
{
  uint8_t secret[TT_KEY_BYTES];
  int keyed = status == TT_WELCOME && has_keys(reply);
  memset(session, 0, sizeof *session);
  memset(message, 0, TT_VERDICT_BYTES);
  tt_wire_put(message, 8, status);
  if (keyed) tt_exchange_make(secret, message + VERDICT_EXCHANGE);
  if (status == TT_STATUS_VERSION) {
    tt_wire_put(message + VERDICT_VERSION, 4, tt_versions_ours().wire);
    tt_wire_put(message + VERDICT_LIBRARY, 4, tt_versions_ours().library);
  }
  verdict_mac(message + VERDICT_MAC, ns, reply, message, credentials);
  if (!keyed) return;
  const struct tt_handshake handshake = {credentials->key, ns, reply, message};
  tt_session_make(session, 1, &handshake, secret, reply + AT_EXCHANGE);
  tt_wipe(secret, sizeof secret);
}

void tt_verdict_refuse(uint8_t message[TT_VERDICT_BYTES], enum tt_status status)
{
  memset(message, 0, TT_VERDICT_BYTES);
  tt_wire_put(message, 8, status);
}

uint64_t tt_verdict_seems(const uint8_t verdict[TT_VERDICT_BYTES])
{
  return tt_wire_get(verdict, 8);
}

struct tt_versions tt_verdict_versions(const uint8_t verdict[TT_VERDICT_BYTES])
{
  return (struct tt_versions){(uint32_t)tt_wire_get(verdict + VERDICT_VERSION, 4),
                              (uint32_t)tt_wire_get(verdict + VERDICT_LIBRARY, 4)};
}

int tt_verdict_check(const uint8_t verdict[TT_VERDICT_BYTES],
                     const uint8_t challenge[TT_CHALLENGE_BYTES], const uint8_t reply[TT_REPLY_BYTES],
                     const struct tt_credentials *credentials, uint64_t *status)
{
  uint8_t mac[MAC_BYTES];
  verdict_mac(mac, challenge + sizeof magic, reply, verdict, credentials);
  if (sodium_memcmp(mac, verdict + VERDICT_MAC, MAC_BYTES) != 0) return 0;
  *status = tt_wire_get(verdict, 8);
  return 1;
}

void tt_session_join(struct tt_session *session, const uint8_t verdict[TT_VERDICT_BYTES],
                     const uint8_t challenge[TT_CHALLENGE_BYTES], const uint8_t reply[TT_REPLY_BYTES],
                     const struct tt_credentials *credentials, const uint8_t secret[TT_KEY_BYTES])
{
  const struct tt_handshake handshake = {credentials->key, challenge + sizeof magic, reply, verdict};
  memset(session, 0, sizeof *session);
  if (has_keys(reply)) tt_session_make(session, 0, &handshake, secret, verdict + VERDICT_EXCHANGE);
}
