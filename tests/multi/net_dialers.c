/* SPDX-License-Identifier: BSD-3-Clause */
/* Dials: patience, servers of other kinds, and an end at any time. */
#include "net_host.h"

#include <stdlib.h>

/* Sends at once what comes behind the verdict. */
static void greet(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  if (send(fd, "greeting", 8, MSG_NOSIGNAL) == 8) welcome(owner, hello, session, fd);
}

static void bytes_behind_the_verdict_are_the_callers(void **state)
{
  (void)state;
  struct tt_credentials credentials = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
  struct host host = {.count = 0};
  struct tt_listener *listener = listener_at(places[0]);
  struct tt_dialer *made;
  int fd = -1;
  char word[16] = "";
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 0, greet, &host), tuttiSuccess);
  assert_int_equal(
      tt_dialer_start(&made, tt_listener_address(listener), &credentials, &hello, tt_now_ns() + 60 * SECOND),
      tuttiSuccess);
  for (int came = 0; !came; tt_sleep_ns(MS)) {
    tt_service_lock(); /* no verdict before this poll, so that both words lie in one buffer then */
    came = atomic_load(&host.count);
    tuttiResult_t result = came ? tuttiInProgress : tt_dialer_poll(made, &fd);
    tt_service_unlock();
    assert_int_equal(result, tuttiInProgress);
  }
  assert_int_equal(tt_dialer_poll(made, &fd), tuttiSuccess);
  tt_dialer_destroy(made);
  assert_int_equal(recv(fd, word, sizeof word, 0), 8);
  assert_string_equal(word, "greeting");
  close(fd);
  close(host.fd[0]);
  tt_listener_dismiss(listener, &host);
  tt_listener_close(listener);
}

static void a_dial_waits_for_its_listener(void **state)
{
  (void)state;
  struct tt_credentials credentials = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .lane = 0, .src = 1, .dst = 0};
  struct host host = {.count = 0};
  struct tt_listener *listener = listener_at("127.0.0.1:0");
  struct tt_address where = *tt_listener_address(listener);
  struct tt_dialer *made;
  int fd = -7;
  tt_listener_close(listener);
  assert_int_equal(dialer(&where, &credentials, &hello, SECOND / 2, &fd), tuttiRemoteError);
  assert_non_null(strstr(tt_last_sentence(), "refused"));
  assert_int_equal(tt_dialer_start(&made, &where, &credentials, &hello, tt_now_ns() + 60 * SECOND),
                   tuttiSuccess);
  for (int i = 0; i < 50; i++, tt_sleep_ns(MS))
    assert_int_equal(tt_dialer_poll(made, &fd), tuttiInProgress);
  assert_int_equal(tt_listener_open(&listener, &where), tuttiSuccess);
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_RENDEZVOUS, 0, welcome, &host), tuttiSuccess);
  tuttiResult_t result;
  while ((result = tt_dialer_poll(made, &fd)) == tuttiInProgress) tt_sleep_ns(MS);
  assert_int_equal(result, tuttiSuccess);
  assert_int_equal(tt_dialer_poll(made, &fd), tuttiInternalError);
  tt_dialer_destroy(made);
  wait_for(&host.count, 1);
  close(fd);
  close(host.fd[0]);
  tt_listener_dismiss(listener, &host);
  tt_listener_close(listener);
}

/* What a server may say instead of the handshake, within this time: 1 if the dial understands it so. */
static int is_understood(uint64_t patience_ns, const void *words, size_t len, size_t wait_for_bytes,
                         tuttiResult_t wanted, const char *sentence)
{
  struct tt_credentials credentials = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
  struct tt_address at;
  socklen_t size = sizeof at.v4;
  struct tt_dialer *made;
  int fd = -7, before = census_descriptors(), listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  uint8_t got[TT_REPLY_BYTES], challenge[TT_CHALLENGE_BYTES], ns[TT_NONCE_BYTES];
  assert_int_equal(tt_address_parse(&at, "127.0.0.1:0"), tuttiSuccess);
  assert_int_equal(bind(listener, &at.any, at.len), 0);
  assert_int_equal(listen(listener, 5), 0);
  assert_int_equal(getsockname(listener, &at.any, &size), 0);
  assert_int_equal(tt_dialer_start(&made, &at, &credentials, &hello, tt_now_ns() + patience_ns), tuttiSuccess);
  tuttiResult_t result;
  while ((result = tt_dialer_poll(made, &fd)) == tuttiInProgress) {
    int peer = accept(listener, NULL, NULL);
    tt_sleep_ns(MS);
    if (peer < 0) continue;
    tt_challenge_make(challenge, ns);
    if (wait_for_bytes) {
      send(peer, challenge, sizeof challenge, MSG_NOSIGNAL);
      for (int i = 0; i < 20; i++, tt_sleep_ns(MS)) tt_dialer_poll(made, &fd);
      recv(peer, got, sizeof got, MSG_DONTWAIT);
    }
    send(peer, words, len, MSG_NOSIGNAL);
    close(peer);
  }
  assert_int_equal(tt_dialer_poll(made, &fd), result);
  assert_int_equal(fd, -7);
  int is = result == wanted && strstr(tt_last_sentence(), sentence);
  tt_dialer_destroy(made);
  close(listener);
  assert_int_equal(census_descriptors(), before);
  return is;
}

/* Where this process was held up, and the server too late, again with more time. */
static void server_says(const void *words, size_t len, size_t wait_for_bytes, tuttiResult_t wanted,
                        const char *sentence)
{
  uint64_t patience_ns = SECOND / 2;
  while (!is_understood(patience_ns, words, len, wait_for_bytes, wanted, sentence)) {
    patience_ns *= 4;
    if (patience_ns > 10 * SECOND) fail_msg("it is not \"%s\": %s", sentence, tt_last_sentence());
  }
}

/* The time until a dial that was told to give up after 200 ms gives up on a server that closes `after_ns` after
 * each reply, at most 2 s. */
static uint64_t given_up_after(uint64_t after_ns)
{
  struct tt_credentials credentials = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
  struct tt_address at;
  socklen_t size = sizeof at.v4;
  struct tt_dialer *made;
  int fd = -7, peer = -1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  uint8_t got[TT_REPLY_BYTES], challenge[TT_CHALLENGE_BYTES], ns[TT_NONCE_BYTES];
  assert_int_equal(tt_address_parse(&at, "127.0.0.1:0"), tuttiSuccess);
  assert_int_equal(bind(listener, &at.any, at.len), 0);
  assert_int_equal(listen(listener, 5), 0);
  assert_int_equal(getsockname(listener, &at.any, &size), 0);
  uint64_t began = tt_now_ns(), replied = 0;
  assert_int_equal(tt_dialer_start(&made, &at, &credentials, &hello, began + 2 * SECOND), tuttiSuccess);
  tt_dialer_limit(made, SECOND / 5);
  while (tt_dialer_poll(made, &fd) == tuttiInProgress) {
    if (peer < 0 && (peer = accept(listener, NULL, NULL)) >= 0) {
      tt_challenge_make(challenge, ns);
      send(peer, challenge, sizeof challenge, MSG_NOSIGNAL);
      replied = 0;
    }
    if (peer >= 0 && !replied && recv(peer, got, sizeof got, MSG_DONTWAIT) > 0) replied = tt_now_ns();
    if (peer < 0 || !replied || tt_now_ns() - replied < after_ns) continue;
    close(peer);
    peer = -1;
  }
  tt_dialer_destroy(made);
  if (peer >= 0) close(peer);
  close(listener);
  return tt_now_ns() - began;
}

static void a_busy_server_is_waited_for(void **state)
{
  (void)state;
  assert_true(given_up_after(30 * MS) >= 2 * SECOND);
  int tries = 0;
  while (given_up_after(0) >= 2 * SECOND) assert_true(++tries < 5); /* this process may be held up */
}

static void servers_of_another_kind_are_no_peers(void **state)
{
  (void)state;
  uint8_t verdict[TT_VERDICT_BYTES] = {0};
  server_says("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n", 40, 0, tuttiRemoteError,
              "not this library");
  server_says("", 0, 0, tuttiRemoteError, "before it said anything");
  server_says("", 0, 1, tuttiRemoteError, "on our reply");
  server_says("", 0, 1, tuttiRemoteError, "or Tutti there is of another build. "); /* builds before TUTTI_AUTH=data */
  server_says(verdict, 39, 1, tuttiRemoteError, "on our reply");
  server_says(verdict, sizeof verdict, 1, tuttiInvalidUsage, "another key");
}

static void a_dial_can_be_destroyed_at_any_time(void **state)
{
  (void)state;
  struct tt_credentials credentials = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
  struct host host = {.count = 0};
  struct tt_listener *listener = listener_at("127.0.0.1:0");
  int before = census_descriptors();
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 0, welcome, &host), tuttiSuccess);
  for (int polls = 0; polls < 30; polls++) {
    struct tt_dialer *made;
    int fd = -1;
    assert_int_equal(tt_dialer_start(&made, tt_listener_address(listener), &credentials, &hello, tt_now_ns() + SECOND),
                     tuttiSuccess);
    tuttiResult_t result = tuttiInProgress;
    for (int i = 0; i < polls && result == tuttiInProgress; i++) result = tt_dialer_poll(made, &fd);
    tt_dialer_destroy(made);
    if (result == tuttiSuccess) close(fd);
  }
  tt_dialer_destroy(NULL);
  tt_listener_dismiss(listener, &host);
  tt_listener_close(listener);
  for (int i = 0; i < atomic_load(&host.count); i++) close(host.fd[i]);
  assert_true(census_descriptors() < before);
}

int main(void)
{
  alarm(280);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_behind_the_verdict_are_the_callers),
      cmocka_unit_test(a_dial_waits_for_its_listener),
      cmocka_unit_test(a_busy_server_is_waited_for),
      cmocka_unit_test(servers_of_another_kind_are_no_peers),
      cmocka_unit_test(a_dial_can_be_destroyed_at_any_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
