/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake as pure functions, keys, and the key file.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth.h"
#include "auth/hash_private.h"

/* One run of the handshake, kept so that a test can bend any part of it. */
struct talk {
  struct tt_credentials credentials;
  struct tt_hello hello;
  uint8_t challenge[TT_CHALLENGE_BYTES], ns[TT_NONCE_BYTES];
  uint8_t reply[TT_REPLY_BYTES], secret[TT_KEY_BYTES];
  uint8_t verdict[TT_VERDICT_BYTES];
  struct tt_session server; /* as the server has it */
};

static void talk_make(struct talk *talk)
{
  memset(talk, 0, sizeof *talk);
  for (int i = 0; i < TT_KEY_BYTES; i++) talk->credentials.key[i] = (uint8_t)i;
  for (int i = 0; i < TT_JOB_BYTES; i++) talk->credentials.job[i] = (uint8_t)(50 + i);
  talk->credentials.epoch = 6;
  talk->hello = (struct tt_hello){.kind = TT_HELLO_LINK, .lane = 3, .src = 4, .dst = 5, .versions = tt_versions_ours()};
  tt_challenge_make(talk->challenge, talk->ns);
  assert_int_equal(
      tt_reply_make(talk->reply, talk->challenge, &talk->credentials, &talk->hello, talk->secret),
      tuttiSuccess);
  tt_verdict_make(talk->verdict, TT_WELCOME, talk->reply, talk->ns, &talk->credentials, &talk->server);
}

static int accepts(const struct talk *talk)
{
  struct tt_hello hello;
  return tt_reply_check(talk->reply, talk->ns, &talk->credentials, &hello);
}

static int believes(const struct talk *talk)
{
  uint64_t status;
  return tt_verdict_check(talk->verdict, talk->challenge, talk->reply, &talk->credentials, &status);
}

static void holders_of_one_key_understand_each_other(void **state)
{
  (void)state;
  struct talk talk;
  struct tt_hello hello = {0};
  uint8_t job[TT_JOB_BYTES];
  uint64_t epoch = 0, status = 9;
  talk_make(&talk);
  assert_int_equal(tt_reply_claim(talk.reply, job, &epoch), 1);
  assert_int_equal(epoch, 6);
  assert_memory_equal(job, talk.credentials.job, TT_JOB_BYTES);
  assert_int_equal(tt_reply_check(talk.reply, talk.ns, &talk.credentials, &hello), 1);
  assert_memory_equal(&hello, &talk.hello, sizeof hello);
  assert_int_equal(
      tt_verdict_check(talk.verdict, talk.challenge, talk.reply, &talk.credentials, &status), 1);
  assert_int_equal(status, TT_WELCOME);
  tt_verdict_make(talk.verdict, TT_STATUS_UNKNOWN, talk.reply, talk.ns, &talk.credentials, &talk.server);
  assert_int_equal(
      tt_verdict_check(talk.verdict, talk.challenge, talk.reply, &talk.credentials, &status), 1);
  assert_int_equal(status, TT_STATUS_UNKNOWN);
}

static void every_bit_of_the_key_counts(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  for (int bit = 0; bit < 8 * TT_KEY_BYTES; bit++) {
    talk.credentials.key[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(accepts(&talk), 0);
    assert_int_equal(believes(&talk), 0);
    talk.credentials.key[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  assert_int_equal(accepts(&talk), 1);
}

/* Kind, lane, source, destination, epoch, nonce and job are among these bits. */
static void every_flipped_bit_of_the_reply_is_refused(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  for (int bit = 0; bit < 8 * TT_REPLY_BYTES; bit++) {
    talk.reply[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(accepts(&talk), 0);
    talk.reply[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  assert_int_equal(accepts(&talk), 1);
}

static void every_flipped_bit_of_the_verdict_is_refused(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  for (int bit = 0; bit < 8 * TT_VERDICT_BYTES; bit++) {
    talk.verdict[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(believes(&talk), 0);
    talk.verdict[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  assert_int_equal(believes(&talk), 1);
}

static void a_recorded_reply_does_not_answer_another_challenge(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  tt_challenge_make(talk.challenge, talk.ns);
  assert_int_equal(accepts(&talk), 0);
}

static void a_recorded_verdict_does_not_answer_another_reply(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  assert_int_equal(
      tt_reply_make(talk.reply, talk.challenge, &talk.credentials, &talk.hello, talk.secret), tuttiSuccess);
  assert_int_equal(believes(&talk), 0);
}

static void a_reflected_mac_is_no_verdict(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  memcpy(talk.verdict + 40, talk.reply + 112, 32);
  assert_int_equal(believes(&talk), 0);
}

static void a_credentials_of_another_job_or_epoch_does_not_fit(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  talk.credentials.epoch++;
  assert_int_equal(accepts(&talk), 0);
  talk.credentials.epoch--;
  talk.credentials.job[0] ^= 1;
  assert_int_equal(accepts(&talk), 0);
}

static void a_challenge_of_another_protocol_is_not_answered(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  memcpy(talk.challenge, "SSH-2.0-", 8);
  assert_int_equal(
      tt_reply_make(talk.reply, talk.challenge, &talk.credentials, &talk.hello, talk.secret), tuttiRemoteError);
}

static void who_holds_the_key_and_is_of_another_version_is_told_both(void **state)
{
  (void)state;
  struct talk talk;
  struct tt_hello hello;
  uint64_t status = 0;
  char text[TT_VERSIONS_TEXT_BYTES];
  talk_make(&talk);
  assert_int_equal(tt_reply_is_foreign(talk.reply, TT_REPLY_BYTES), 0);
  talk.reply[8]++;
  talk.reply[72] = 0xe3, talk.reply[73] = 0x1d; /* 7651 */
  for (size_t len = 0; len <= TT_REPLY_BYTES; len++) assert_int_equal(tt_reply_is_foreign(talk.reply, len), len >= 12);
  assert_int_equal(tt_reply_seems(talk.reply), TT_CLAIM_VERSION);
  assert_int_equal(accepts(&talk), 0);
  const struct tt_piece pieces[] = {{"C", 1}, {talk.ns, TT_NONCE_BYTES}, {talk.reply, 112}};
  tt_hash(talk.reply + 112, talk.credentials.key, pieces, 3);
  assert_int_equal(tt_reply_check(talk.reply, talk.ns, &talk.credentials, &hello), 1);
  snprintf(text, sizeof text, "Tutti 0.76.51 (protocol %d)", TT_WIRE_VERSION + 1);
  assert_string_equal(tt_versions_text(hello.versions, (char[TT_VERSIONS_TEXT_BYTES]){0}), text);
  hello.versions.library = 0;
  assert_ptr_equal(strstr(tt_versions_text(hello.versions, text), "an older Tutti (protocol "), text);
  tt_verdict_make(talk.verdict, TT_STATUS_VERSION, talk.reply, talk.ns, &talk.credentials, &talk.server);
  assert_int_equal(tt_verdict_check(talk.verdict, talk.challenge, talk.reply, &talk.credentials, &status), 1);
  assert_int_equal(status, TT_STATUS_VERSION);
  assert_int_equal(tt_verdict_versions(talk.verdict).wire, TT_WIRE_VERSION);
  assert_int_equal(tt_verdict_versions(talk.verdict).library, TUTTI_VERSION_CODE);
}

static void strangers_are_told_apart_by_their_first_byte(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  for (size_t len = 0; len <= TT_REPLY_BYTES; len++)
    assert_int_equal(tt_reply_plausible(talk.reply, len), 1);
  assert_int_equal(tt_reply_plausible((const uint8_t *)"GET / HTTP/1.1", 1), 0);
  assert_int_equal(tt_reply_plausible((const uint8_t *)"\x16\x03\x01", 3), 0);
  assert_int_equal(tt_reply_plausible((const uint8_t *)"TutTi", 5), 0);
}

static void a_refusal_is_never_authentic(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  tt_verdict_refuse(talk.verdict, TT_STATUS_KEY);
  assert_int_equal(believes(&talk), 0);
  assert_int_equal(talk.verdict[0], TT_STATUS_KEY);
}

static void hex_check(const uint8_t *bytes, size_t len, const char *hex)
{
  char text[128];
  for (size_t i = 0; i < len; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
  assert_string_equal(text, hex);
}

/* Made with Python 3.11:
 *   key = bytes(range(32)); ns = bytes(range(100, 124)); nc = bytes(range(200, 224))
 *   first = b'Tutti\xaa\r\n' + struct.pack('<IHHIIQ', 5, 2, 3, 4, 5, 6) + nc + job + struct.pack('<I', 100) + bytes(36)
 *   hashlib.blake2b(b'C' + ns + first, key=key, digest_size=32).hexdigest(), and so on */
static void bytes_on_the_wire_are_those_of_an_independent_implementation(void **state)
{
  (void)state;
  static const uint8_t mac[] = {0xc7, 0x2d, 0x57, 0x20, 0xb2, 0x42, 0xe7, 0x44, 0x88, 0x17, 0x49,
                                0xd6, 0x80, 0xb7, 0x51, 0xdf, 0xa6, 0x57, 0xe4, 0x4b, 0x05, 0x10,
                                0xd4, 0xc9, 0xd1, 0xff, 0xbb, 0x85, 0x3e, 0x58, 0x0b, 0x02};
  static const uint8_t head[] = {'T', 'u', 't', 't', 'i', 0xaa, 13, 10, 5, 0, 0, 0, 2, 0, 3, 0,
                                 4,   0,   0,   0,   5,   0,    0,  0,  6, 0, 0, 0, 0, 0, 0, 0};
  struct talk talk;
  talk_make(&talk);
  memset(talk.reply, 0, sizeof talk.reply);
  memcpy(talk.reply, head, sizeof head);
  for (int i = 0; i < TT_NONCE_BYTES; i++) {
    talk.ns[i] = (uint8_t)(100 + i);
    talk.reply[32 + i] = (uint8_t)(200 + i);
  }
  memcpy(talk.reply + 56, talk.credentials.job, TT_JOB_BYTES);
  talk.reply[72] = 100;
  memcpy(talk.reply + 112, mac, sizeof mac);
  assert_int_equal(accepts(&talk), 1);
  tt_verdict_make(talk.verdict, TT_STATUS_UNKNOWN, talk.reply, talk.ns, &talk.credentials, &talk.server);
  hex_check(talk.verdict + 40, 32, "f0412c187bc5b6f311540224bec854f6827b33acb20686aa54a67306dd0367d3");
}

static void derived_keys_are_those_of_an_independent_implementation(void **state)
{
  (void)state;
  struct talk talk;
  uint8_t out[TT_KEY_BYTES];
  talk_make(&talk);
  tt_key_derive(out, talk.credentials.key, "link", "\1\2\3", 3);
  hex_check(out, sizeof out, "b0d6563560c5207e9b1a3d26f09d9337e04a817f3c12f7c5455ad2cda5930972");
  tt_key_derive(out, talk.credentials.key, "link", NULL, 0);
  hex_check(out, sizeof out, "49519ff9b3fe03c08f1ea4f303be85942da6f0c13bdb103b199f8e203f42f4ee");
}

static void label_and_data_do_not_run_into_each_other(void **state)
{
  (void)state;
  struct talk talk;
  uint8_t a[TT_KEY_BYTES], b[TT_KEY_BYTES];
  talk_make(&talk);
  tt_key_derive(a, talk.credentials.key, "ab", "c", 1);
  tt_key_derive(b, talk.credentials.key, "a", "bc", 2);
  assert_memory_not_equal(a, b, sizeof a);
}

/* ---- keys of connections ---- */

/* The handshake of a connection that has keys; *client is the client's side of them. */
static void keyed_talk_make(struct talk *talk, struct tt_session *client)
{
  talk_make(talk);
  talk->hello.kind = TT_HELLO_CONTROL;
  tt_reply_make(talk->reply, talk->challenge, &talk->credentials, &talk->hello, talk->secret);
  tt_verdict_make(talk->verdict, TT_WELCOME, talk->reply, talk->ns, &talk->credentials, &talk->server);
  assert_true(believes(talk));
  tt_session_join(client, talk->verdict, talk->challenge, talk->reply, &talk->credentials, talk->secret);
}

static int is_zero(const void *data, size_t len)
{
  const uint8_t *bytes = data;
  for (size_t i = 0; i < len; i++)
    if (bytes[i]) return 0;
  return 1;
}

static void both_ends_of_a_connection_have_a_key_for_each_direction(void **state)
{
  (void)state;
  struct talk talk, another;
  struct tt_session client, later;
  keyed_talk_make(&talk, &client);
  keyed_talk_make(&another, &later);
  assert_memory_equal(&client.out, &talk.server.in, sizeof client.out);
  assert_memory_equal(&client.in, &talk.server.out, sizeof client.in);
  assert_memory_not_equal(&client.out, &client.in, sizeof client.out);
  assert_memory_not_equal(client.out.key, later.out.key, TT_KEY_BYTES);
  assert_false(is_zero(client.out.key, TT_KEY_BYTES));
}

static void connections_of_other_kinds_have_none(void **state)
{
  (void)state;
  struct talk talk;
  struct tt_session client;
  talk_make(&talk); /* a link */
  tt_session_join(&client, talk.verdict, talk.challenge, talk.reply, &talk.credentials, talk.secret);
  assert_true(is_zero(&client, sizeof client) && is_zero(&talk.server, sizeof talk.server));
  assert_true(is_zero(talk.reply + 80, 32) && is_zero(talk.verdict + 8, 32));
  keyed_talk_make(&talk, &client);
  tt_verdict_make(talk.verdict, TT_STATUS_TAKEN, talk.reply, talk.ns, &talk.credentials, &talk.server);
  assert_true(is_zero(&talk.server, sizeof talk.server));
}

/* It has the job's key and every byte of the handshake, but not what only the ends know. */
static void who_relays_a_handshake_does_not_have_its_keys(void **state)
{
  (void)state;
  struct talk talk;
  struct tt_session client, relay;
  uint8_t secret[TT_KEY_BYTES], public[TT_KEY_BYTES];
  keyed_talk_make(&talk, &client);
  tt_exchange_make(secret, public);
  tt_session_join(&relay, talk.verdict, talk.challenge, talk.reply, &talk.credentials, secret);
  assert_memory_not_equal(relay.out.key, client.out.key, TT_KEY_BYTES);
  assert_memory_not_equal(relay.in.key, client.in.key, TT_KEY_BYTES);
}

static void a_sealed_frame_fits_once_in_its_turn_and_unchanged(void **state)
{
  (void)state;
  struct tt_seal out = {.count = 0}, in;
  uint8_t tag[2][TT_TAG_BYTES], frame[] = "frame";
  for (int i = 0; i < 32; i++) out.key[i] = (uint8_t)i;
  in = out;
  for (int i = 0; i < 2; i++) tt_seal_make(&out, frame, 5, tag[i]);
  hex_check(tag[0], TT_TAG_BYTES, "5f2c33f6ba8de5652fa40076a0f3490f"); /* blake2b(bytes(8) + b'frame', key) */
  hex_check(tag[1], TT_TAG_BYTES, "36c311cb294f571b601fb9cd4f612945");
  for (int bit = 0; bit < 8 * (5 + TT_TAG_BYTES); bit++) {
    struct tt_seal fresh = in;
    uint8_t *byte = bit < 40 ? &frame[bit / 8] : &tag[0][bit / 8 - 5];
    *byte ^= (uint8_t)(1 << bit % 8);
    assert_false(tt_seal_fits(&fresh, frame, 5, tag[0]));
    *byte ^= (uint8_t)(1 << bit % 8);
  }
  struct tt_seal fresh = in;
  assert_false(tt_seal_fits(&fresh, frame, 5, tag[1])); /* the first is left out, or comes later */
  assert_true(tt_seal_fits(&in, frame, 5, tag[0]));
  fresh = in;
  assert_false(tt_seal_fits(&fresh, frame, 5, tag[0])); /* twice */
  assert_true(tt_seal_fits(&in, frame, 5, tag[1]));
}

static void a_masked_secret_is_shown_by_the_same_key_alone(void **state)
{
  (void)state;
  struct talk talk;
  struct tt_session client;
  uint8_t secret[TT_KEY_BYTES], hidden[TT_KEY_BYTES];
  keyed_talk_make(&talk, &client);
  tt_random(secret, sizeof secret);
  memcpy(hidden, secret, sizeof secret);
  tt_seal_mask(&talk.server.out, hidden);
  assert_memory_not_equal(hidden, secret, sizeof secret);
  tt_seal_mask(&client.in, hidden);
  assert_memory_equal(hidden, secret, sizeof secret);
}

static void two_keys_share_a_secret_that_a_third_does_not(void **state)
{
  (void)state;
  uint8_t secret[3][TT_KEY_BYTES], public[3][TT_KEY_BYTES], shared[3][TT_KEY_BYTES];
  static const uint8_t none[TT_KEY_BYTES];
  for (int i = 0; i < 3; i++) tt_exchange_make(secret[i], public[i]);
  assert_true(tt_exchange_share(shared[0], secret[0], public[1]));
  assert_true(tt_exchange_share(shared[1], secret[1], public[0]));
  assert_true(tt_exchange_share(shared[2], secret[2], public[1]));
  assert_memory_equal(shared[0], shared[1], TT_KEY_BYTES);
  assert_memory_not_equal(shared[0], shared[2], TT_KEY_BYTES);
  assert_false(tt_exchange_share(shared[0], secret[0], none));
}

/* Made with Python's cryptography: ChaCha20(key, 1 4 | nonce) over the data, Poly1305 with both halves of block 0 as
 * keys. */
static void a_guarded_frame_is_that_of_an_independent_implementation(void **state)
{
  (void)state;
  uint8_t data[100], sent[100], tag[TT_TAG_BYTES], back[100];
  static const size_t cuts[] = {100, 1, 63, 64, 65, 7};
  for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
    struct tt_guard out, in;
    struct tt_seal seal = {.count = 7}, other;
    for (int i = 0; i < 32; i++) seal.key[i] = (uint8_t)i;
    for (int i = 0; i < 100; i++) data[i] = (uint8_t)(i * 3);
    other = seal;
    tt_guard_open(&out, &seal);
    tt_guard_open(&in, &other);
    assert_int_equal(seal.count, 8);
    for (size_t at = 0; at < 100; at += cuts[c]) {
      size_t len = 100 - at < cuts[c] ? 100 - at : cuts[c];
      tt_guard_cover(&out, sent + at, data + at, len);
      tt_guard_add(&out, sent + at, len);
      tt_guard_add(&in, sent + at, len);
      tt_guard_cover(&in, back + at, sent + at, len);
    }
    hex_check(sent, 16, "f10c82412ee7689c7a2d5012d8af3ab7");
    hex_check(sent + 84, 16, "11aa08b2773b7916c9451a0be39f3ec8");
    assert_memory_equal(back, data, sizeof data);
    tt_guard_head(&out, "head", 4, tag);
    hex_check(tag, sizeof tag, "34df7efec3b8357ba881453caf5edcbc");
    assert_true(tt_guard_head_fits(&in, "head", 4, tag));
    assert_false(tt_guard_head_fits(&in, "hear", 4, tag));
    tt_guard_tag(&out, tag);
    hex_check(tag, sizeof tag, "b88a47fc64c13ac2b8ab55a8c99c2e86");
    assert_true(tt_guard_fits(&in, tag));
  }
}

/* A directory with one file in it. */
static char folder[] = "/tmp/tutti-auth-XXXXXX", path[64], other[64];

static int folder_make(void **state)
{
  (void)state;
  if (tt_auth_init() != tuttiSuccess || !mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/key", folder);
  snprintf(other, sizeof other, "%s/other", folder);
  return 0;
}

static int folder_remove(void **state)
{
  (void)state;
  unlink(path);
  unlink(other);
  return rmdir(folder);
}

static void file_write(size_t len, mode_t mode)
{
  unlink(path); /* an old one may be read-only */
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (size_t i = 0; i < len; i++) fputc("0123456789abcdef"[i % 16], file);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(chmod(path, mode), 0);
}

static void file_refused(const char *name, const char *word)
{
  uint8_t out[TT_KEY_BYTES], before[TT_KEY_BYTES];
  memset(out, 0x5a, sizeof out);
  memcpy(before, out, sizeof out);
  assert_int_equal(tt_key_file_read(name, out), tuttiInvalidUsage);
  assert_memory_equal(out, before, sizeof out);
  assert_non_null(strstr(tt_last_sentence(), name));
  assert_non_null(strstr(tt_last_sentence(), word));
}

static void a_key_file_is_hashed(void **state)
{
  (void)state;
  uint8_t out[TT_KEY_BYTES];
  file_write(32, 0600);
  FILE *file = fopen(path, "a");
  assert_non_null(file);
  fputc('\n', file);
  fclose(file);
  assert_int_equal(tt_key_file_read(path, out), tuttiSuccess);
  hex_check(out, sizeof out, "5208d4262f211d81e2fcfaee50afdf402e69c4c8517a700b246d5ab724c061ad");
  file_write(4096, 0400);
  assert_int_equal(tt_key_file_read(path, out), tuttiSuccess);
}

static void a_key_file_that_others_may_read_is_refused(void **state)
{
  (void)state;
  static const mode_t modes[] = {0640, 0604, 0644, 0660, 0700, 04600};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    file_write(32, modes[i]);
    file_refused(path, "chmod 600");
  }
}

static void a_key_file_of_the_wrong_size_or_kind_is_refused(void **state)
{
  (void)state;
  file_write(15, 0600);
  file_refused(path, "15 bytes");
  file_write(4097, 0600);
  file_refused(path, "16 to 4096");
  unlink(path);
  file_refused(path, "cannot be opened");
  assert_int_equal(mkfifo(path, 0600), 0);
  file_refused(path, "regular file");
  unlink(path);
  file_refused(folder, "regular file");
  file_write(32, 0600);
  assert_int_equal(symlink(path, other), 0);
  file_refused(other, "link");
  unlink(other);
}

static void a_key_file_of_somebody_else_is_refused(void **state)
{
  (void)state;
  file_write(32, 0600);
  if (geteuid() != 0) {
    file_refused("/etc/passwd", "uid");
    return;
  }
  assert_int_equal(chown(path, 1, 1), 0);
  file_refused(path, "uid 1");
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holders_of_one_key_understand_each_other),
      cmocka_unit_test(every_bit_of_the_key_counts),
      cmocka_unit_test(every_flipped_bit_of_the_reply_is_refused),
      cmocka_unit_test(every_flipped_bit_of_the_verdict_is_refused),
      cmocka_unit_test(a_recorded_reply_does_not_answer_another_challenge),
      cmocka_unit_test(a_recorded_verdict_does_not_answer_another_reply),
      cmocka_unit_test(a_reflected_mac_is_no_verdict),
      cmocka_unit_test(a_credentials_of_another_job_or_epoch_does_not_fit),
      cmocka_unit_test(a_challenge_of_another_protocol_is_not_answered),
      cmocka_unit_test(who_holds_the_key_and_is_of_another_version_is_told_both),
      cmocka_unit_test(strangers_are_told_apart_by_their_first_byte),
      cmocka_unit_test(a_refusal_is_never_authentic),
      cmocka_unit_test(bytes_on_the_wire_are_those_of_an_independent_implementation),
      cmocka_unit_test(derived_keys_are_those_of_an_independent_implementation),
      cmocka_unit_test(label_and_data_do_not_run_into_each_other),
      cmocka_unit_test(both_ends_of_a_connection_have_a_key_for_each_direction),
      cmocka_unit_test(connections_of_other_kinds_have_none),
      cmocka_unit_test(who_relays_a_handshake_does_not_have_its_keys),
      cmocka_unit_test(a_sealed_frame_fits_once_in_its_turn_and_unchanged),
      cmocka_unit_test(a_guarded_frame_is_that_of_an_independent_implementation),
      cmocka_unit_test(a_masked_secret_is_shown_by_the_same_key_alone),
      cmocka_unit_test(two_keys_share_a_secret_that_a_third_does_not),
      cmocka_unit_test(a_key_file_is_hashed),
      cmocka_unit_test(a_key_file_that_others_may_read_is_refused),
      cmocka_unit_test(a_key_file_of_the_wrong_size_or_kind_is_refused),
      cmocka_unit_test(a_key_file_of_somebody_else_is_refused),
  };
  return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
