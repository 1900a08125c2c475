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

/* One run of the handshake, kept so that a test can bend any part of it. */
struct talk {
  struct tt_credentials credentials;
  struct tt_hello hello;
  uint8_t challenge[TT_CHALLENGE_BYTES], ns[TT_NONCE_BYTES];
  uint8_t reply[TT_REPLY_BYTES], nc[TT_NONCE_BYTES];
  uint8_t verdict[TT_VERDICT_BYTES];
};

static void talk_make(struct talk *talk)
{
  memset(talk, 0, sizeof *talk);
  for (int i = 0; i < TT_KEY_BYTES; i++) talk->credentials.key[i] = (uint8_t)i;
  for (int i = 0; i < TT_JOB_BYTES; i++) talk->credentials.job[i] = (uint8_t)(50 + i);
  talk->credentials.epoch = 6;
  talk->hello = (struct tt_hello){.kind = 2, .lane = 3, .src = 4, .dst = 5};
  tt_challenge_make(talk->challenge, talk->ns);
  assert_int_equal(
      tt_reply_make(talk->reply, talk->challenge, &talk->credentials, &talk->hello, talk->nc),
      tuttiSuccess);
  tt_verdict_make(talk->verdict, TT_WELCOME, talk->reply, talk->ns, &talk->credentials);
}

static int accepts(const struct talk *talk)
{
  struct tt_hello hello;
  return tt_reply_check(talk->reply, talk->ns, &talk->credentials, &hello);
}

static int believes(const struct talk *talk)
{
  uint64_t status;
  return tt_verdict_check(talk->verdict, talk->challenge, talk->nc, &talk->credentials, &status);
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
      tt_verdict_check(talk.verdict, talk.challenge, talk.nc, &talk.credentials, &status), 1);
  assert_int_equal(status, TT_WELCOME);
  tt_verdict_make(talk.verdict, TT_STATUS_UNKNOWN, talk.reply, talk.ns, &talk.credentials);
  assert_int_equal(
      tt_verdict_check(talk.verdict, talk.challenge, talk.nc, &talk.credentials, &status), 1);
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
      tt_reply_make(talk.reply, talk.challenge, &talk.credentials, &talk.hello, talk.nc), tuttiSuccess);
  assert_int_equal(believes(&talk), 0);
}

static void a_reflected_mac_is_no_verdict(void **state)
{
  (void)state;
  struct talk talk;
  talk_make(&talk);
  memcpy(talk.verdict + 8, talk.reply + 80, 32);
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
      tt_reply_make(talk.reply, talk.challenge, &talk.credentials, &talk.hello, talk.nc), tuttiRemoteError);
}

static void a_reply_of_another_version_claims_nothing(void **state)
{
  (void)state;
  struct talk talk;
  uint8_t job[TT_JOB_BYTES];
  uint64_t epoch;
  talk_make(&talk);
  talk.reply[8]++;
  assert_int_equal(tt_reply_claim(talk.reply, job, &epoch), 0);
  assert_int_equal(accepts(&talk), 0);
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
  tt_verdict_refuse(talk.verdict);
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
 *   first = b'Tutti\xaa\r\n' + struct.pack('<IHHIIQ', 2, 2, 3, 4, 5, 6) + nc + job + bytes(8)
 *   hashlib.blake2b(b'C' + ns + first, key=key, digest_size=32).hexdigest(), and so on */
static void bytes_on_the_wire_are_those_of_an_independent_implementation(void **state)
{
  (void)state;
  static const uint8_t mac[] = {0x4b, 0x7f, 0xb3, 0xc1, 0xba, 0x35, 0x6d, 0x4f, 0x53, 0x44, 0x15,
                                0x93, 0x05, 0xbe, 0xff, 0x3f, 0xdd, 0xff, 0x07, 0xbe, 0x39, 0xca,
                                0x38, 0xe3, 0xcc, 0x8c, 0xa6, 0xae, 0xf0, 0xcf, 0xc4, 0x70};
  static const uint8_t head[] = {'T', 'u', 't', 't', 'i', 0xaa, 13, 10, 2, 0, 0, 0, 2, 0, 3, 0,
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
  memcpy(talk.reply + 80, mac, sizeof mac);
  assert_int_equal(accepts(&talk), 1);
  tt_verdict_make(talk.verdict, TT_STATUS_UNKNOWN, talk.reply, talk.ns, &talk.credentials);
  hex_check(talk.verdict + 8, 32, "a63f3bde88b872453bdf894e7857227ac13a865a268f195fe4c1e6e338adda6e");
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
      cmocka_unit_test(a_reply_of_another_version_claims_nothing),
      cmocka_unit_test(strangers_are_told_apart_by_their_first_byte),
      cmocka_unit_test(a_refusal_is_never_authentic),
      cmocka_unit_test(bytes_on_the_wire_are_those_of_an_independent_implementation),
      cmocka_unit_test(derived_keys_are_those_of_an_independent_implementation),
      cmocka_unit_test(label_and_data_do_not_run_into_each_other),
      cmocka_unit_test(a_key_file_is_hashed),
      cmocka_unit_test(a_key_file_that_others_may_read_is_refused),
      cmocka_unit_test(a_key_file_of_the_wrong_size_or_kind_is_refused),
      cmocka_unit_test(a_key_file_of_somebody_else_is_refused),
  };
  return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
