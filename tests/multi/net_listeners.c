/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners over IPv4, IPv6 and local sockets, with real processes. */
#include "net_host.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>

static void clients_come_in_and_can_talk(void **state)
{
  (void)state;
  int before = census_descriptors();
  for (int i = 0; i < 3; i++) {
    struct tt_credentials credentials = credentials_make();
    struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 7, .src = 3, .dst = 2, .versions = tt_versions_ours()};
    struct host host = {.count = 0};
    struct tt_listener *listener = listener_at(places[i]);
    int fd = -1, on = 0;
    char word[8] = "";
    socklen_t size = sizeof on;
    assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 2, welcome, &host), tuttiSuccess);
    assert_int_equal(dialer(tt_listener_address(listener), &credentials, &hello, 60 * SECOND, &fd), tuttiSuccess);
    wait_for(&host.count, 1);
    assert_memory_equal(&host.hello[0], &hello, sizeof hello);
    assert_int_equal(send(fd, "hello", 6, MSG_NOSIGNAL), 6);
    struct pollfd one = {.fd = host.fd[0], .events = POLLIN};
    assert_int_equal(poll(&one, 1, 60000), 1);
    assert_int_equal(recv(host.fd[0], word, sizeof word, 0), 6);
    assert_string_equal(word, "hello");
    int ends[2] = {fd, host.fd[0]};
    for (int k = 0; k < 2; k++) {
      assert_true(fcntl(ends[k], F_GETFL) & O_NONBLOCK);
      assert_true(fcntl(ends[k], F_GETFD) & FD_CLOEXEC);
      if (!places[i]) continue;
      assert_int_equal(getsockopt(ends[k], IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
      assert_int_not_equal(on, 0);
    }
    close(fd);
    close(host.fd[0]);
    tt_listener_dismiss(listener, &host);
    tt_listener_close(listener);
  }
  assert_int_equal(census_descriptors(), before);
}

/* A process of its own, forked before this one used the library: dials and says its rank. */
static void child_run(int road, uint32_t rank)
{
  struct {
    struct tt_address to;
    struct tt_credentials credentials;
  } task;
  struct tt_hello hello = {.kind = TT_HELLO_CONTROL, .lane = 0, .src = rank, .dst = 0};
  int fd = -1;
  alarm(120);
  if (read(road, &task, sizeof task) != sizeof task) _exit(2);
  struct tt_dialer *made;
  if (tt_dialer_start(&made, &task.to, &task.credentials, &hello, tt_now_ns() + 60 * SECOND)) _exit(3);
  tuttiResult_t result;
  while ((result = tt_dialer_poll(made, &fd)) == tuttiInProgress) tt_sleep_ns(MS / 10);
  if (result != tuttiSuccess) _exit(4);
  char byte;
  struct pollfd one = {.fd = fd, .events = POLLIN};
  if (poll(&one, 1, 60000) != 1 || recv(fd, &byte, 1, 0) != 1) _exit(5);
  _exit(byte == (char)rank ? 0 : 6);
}

#define CHILDREN 6

/* Runs in a child, so that its own children are forked before it uses the library. */
static int family_run(const char *place)
{
  struct {
    struct tt_address to;
    struct tt_credentials credentials;
  } task;
  int road[2];
  struct host host = {.count = 0};
  if (pipe(road) != 0) return 1;
  for (uint32_t i = 0; i < CHILDREN; i++)
    if (fork() == 0) child_run(road[0], i);
  memset(&task, 0, sizeof task);
  task.credentials = credentials_make();
  struct tt_listener *listener = listener_at(place);
  task.to = *tt_listener_address(listener);
  if (tt_listener_admit(listener, &task.credentials, TT_HELLO_CONTROL, 0, welcome, &host)) return 2;
  for (int i = 0; i < CHILDREN; i++)
    if (write(road[1], &task, sizeof task) != sizeof task) return 3;
  wait_for(&host.count, CHILDREN);
  for (int i = 0; i < CHILDREN; i++) {
    char byte = (char)host.hello[i].src;
    if (send(host.fd[i], &byte, 1, MSG_NOSIGNAL) != 1) return 4;
  }
  int status, bad = 0;
  for (int i = 0; i < CHILDREN; i++)
    if (wait(&status) < 0 || status != 0) bad = 5;
  for (int i = 0; i < CHILDREN; i++) close(host.fd[i]);
  tt_listener_dismiss(listener, &host);
  tt_listener_close(listener);
  return bad;
}

static void processes_come_in_at_once(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(120);
      _exit(family_run(places[i]));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
}

/* Connects and answers the challenge by hand; blocking. */
static int reply_by_hand(const struct tt_address *to, const struct tt_credentials *credentials,
                         const struct tt_hello *hello, const char *more)
{
  uint8_t challenge[TT_CHALLENGE_BYTES], message[TT_REPLY_BYTES + 64], secret[TT_KEY_BYTES];
  int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, &to->any, to->len), 0);
  assert_int_equal(recv(fd, challenge, sizeof challenge, MSG_WAITALL), sizeof challenge);
  assert_int_equal(tt_reply_make(message, challenge, credentials, hello, secret), tuttiSuccess);
  strcpy((char *)message + TT_REPLY_BYTES, more);
  size_t len = TT_REPLY_BYTES + strlen(more);
  assert_int_equal(send(fd, message, len, MSG_NOSIGNAL), len);
  return fd;
}

static void bytes_behind_the_reply_are_the_clients(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct tt_credentials credentials = credentials_make();
    struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
    struct host host = {.count = 0};
    struct tt_listener *listener = listener_at(places[i]);
    char word[16] = "";
    assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 0, welcome, &host), tuttiSuccess);
    int fd = reply_by_hand(tt_listener_address(listener), &credentials, &hello, "early words");
    wait_for(&host.count, 1);
    assert_int_equal(recv(host.fd[0], word, sizeof word, 0), 11);
    assert_string_equal(word, "early words");
    close(fd);
    close(host.fd[0]);
    tt_listener_dismiss(listener, &host);
    tt_listener_close(listener);
  }
}

static void a_wrong_key_is_told_soon_and_never_comes_in(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct tt_credentials credentials = credentials_make(), wrong = credentials;
    struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
    struct host host = {.count = 0};
    struct tt_listener *listener = listener_at(places[i]);
    int fd = -7;
    char text[TT_ADDRESS_TEXT_BYTES];
    wrong.key[31] ^= 0x80;
    assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 0, welcome, &host), tuttiSuccess);
    assert_int_equal(dialer(tt_listener_address(listener), &wrong, &hello, 200 * SECOND, &fd), tuttiInvalidUsage);
    assert_int_equal(fd, -7);
    assert_non_null(strstr(tt_last_sentence(), "another key"));
    assert_non_null(
        strstr(tt_last_sentence(), tt_address_text(tt_listener_address(listener), text, sizeof text)));
    assert_int_equal(tt_listener_refused(listener), 5); /* one alone may have come damaged */
    assert_int_equal(atomic_load(&host.count), 0);
    tt_listener_dismiss(listener, &host);
    tt_listener_close(listener);
  }
}

static void another_job_is_not_answered_until_the_deadline(void **state)
{
  (void)state;
  struct tt_credentials credentials = credentials_make(), other = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
  struct host host = {.count = 0};
  struct tt_listener *listener = listener_at(places[0]);
  int fd = -7;
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 0, welcome, &host), tuttiSuccess);
  for (uint64_t patience_ns = SECOND / 5; tt_listener_refused(listener) < 2 && patience_ns < 10 * SECOND;
       patience_ns *= 4)
    assert_int_equal(dialer(tt_listener_address(listener), &other, &hello, patience_ns, &fd), tuttiRemoteError);
  assert_int_equal(fd, -7);
  assert_non_null(strstr(tt_last_sentence(), "another job"));
  assert_non_null(strstr(tt_last_sentence(), "127.0.0.1:"));
  assert_true(tt_listener_refused(listener) >= 2);
  other = credentials;
  other.epoch++;
  assert_int_equal(dialer(tt_listener_address(listener), &other, &hello, SECOND / 5, &fd), tuttiRemoteError);
  assert_int_equal(atomic_load(&host.count), 0);
  tt_listener_dismiss(listener, &host);
  tt_listener_close(listener);
}

static void early_clients_come_in_once_they_are_admitted(void **state)
{
  (void)state;
  struct tt_credentials credentials = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 4};
  struct host host = {.count = 0};
  struct tt_listener *listener = listener_at(places[2]);
  struct tt_dialer *made;
  int fd = -1;
  tuttiResult_t result;
  /* The pass is known, this kind or this rank is not. */
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 3, welcome, &host), tuttiSuccess);
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_SHARE, 4, welcome, &host), tuttiSuccess);
  for (uint64_t patience_ns = SECOND / 5; !tt_listener_refused(listener) && patience_ns < 10 * SECOND; patience_ns *= 4)
    assert_int_equal(dialer(tt_listener_address(listener), &credentials, &hello, patience_ns, &fd), tuttiRemoteError);
  assert_non_null(strstr(tt_last_sentence(), "does not wait for this connection"));
  assert_int_equal(
      tt_dialer_start(&made, tt_listener_address(listener), &credentials, &hello, tt_now_ns() + 60 * SECOND),
      tuttiSuccess);
  for (int i = 0; i < 50; i++, tt_sleep_ns(MS))
    assert_int_equal(tt_dialer_poll(made, &fd), tuttiInProgress);
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 4, welcome, &host), tuttiSuccess);
  while ((result = tt_dialer_poll(made, &fd)) == tuttiInProgress) tt_sleep_ns(MS);
  assert_int_equal(result, tuttiSuccess);
  wait_for(&host.count, 1);
  assert_int_equal(host.hello[0].dst, 4);
  tt_dialer_destroy(made);
  close(fd);
  close(host.fd[0]);
  tt_listener_dismiss(listener, &host);
  tt_listener_close(listener);
}

static void several_keys_of_one_job_are_told_apart(void **state)
{
  (void)state;
  struct tt_credentials passes[3];
  struct host hosts[3] = {{.count = 0}, {.count = 0}, {.count = 0}};
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
  struct tt_listener *listener = listener_at(places[2]);
  passes[0] = credentials_make();
  for (int i = 0; i < 3; i++) {
    passes[i] = passes[0];
    passes[i].key[0] ^= (uint8_t)i;
    assert_int_equal(tt_listener_admit(listener, &passes[i], TT_HELLO_LINK, 0, welcome, &hosts[i]),
                     tuttiSuccess);
  }
  for (int i = 0; i < 3; i++) {
    int fd = -1;
    assert_int_equal(dialer(tt_listener_address(listener), &passes[i], &hello, 60 * SECOND, &fd), tuttiSuccess);
    wait_for(&hosts[i].count, 1);
    close(fd);
    close(hosts[i].fd[0]);
  }
  for (int i = 0; i < 3; i++) {
    assert_int_equal(atomic_load(&hosts[i].count), 1);
    tt_listener_dismiss(listener, &hosts[i]);
  }
  tt_listener_close(listener);
}

static void a_second_owner_of_one_admission_is_refused(void **state)
{
  (void)state;
  struct tt_credentials credentials = credentials_make();
  struct host host = {.count = 0}, other = {.count = 0};
  struct tt_listener *listener = listener_at(places[2]);
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 9, welcome, &host), tuttiSuccess);
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 9, welcome, &other), tuttiInvalidUsage);
  assert_non_null(strstr(tt_last_sentence(), "rank 9"));
  tt_listener_dismiss(listener, &host);
  assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 9, welcome, &other), tuttiSuccess);
  tt_listener_dismiss(listener, &other);
  tt_listener_close(listener);
}

static void the_dismissed_get_no_clients(void **state)
{
  (void)state;
  struct tt_credentials credentials = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
  struct tt_listener *listener = listener_at(places[2]);
  for (int i = 0; i < 100; i++) {
    struct host *host = calloc(1, sizeof *host);
    struct tt_dialer *made;
    int fd = -1;
    assert_non_null(host);
    assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_LINK, 0, welcome, host), tuttiSuccess);
    assert_int_equal(
        tt_dialer_start(&made, tt_listener_address(listener), &credentials, &hello, tt_now_ns() + 60 * SECOND),
        tuttiSuccess);
    for (int k = 0; k < i; k++) tt_dialer_poll(made, &fd); /* anywhere in the handshake */
    tt_listener_dismiss(listener, host);
    int count = atomic_load(&host->count);
    for (int k = 0; k < count; k++) close(host->fd[k]);
    memset(host, 0xee, sizeof *host);
    free(host);
    tt_dialer_destroy(made);
    if (fd >= 0) close(fd);
  }
  tt_listener_close(listener);
}

static void one_place_is_one_listener(void **state)
{
  (void)state;
  int before = census_descriptors();
  for (int i = 0; i < 3; i++) {
    struct tt_listener *a = listener_at(places[i]), *b = listener_at(places[i]);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(listener_at(places[(i + 1) % 3]), a);
    tt_listener_close(a);
    struct tt_listener *c = listener_at(places[i]);
    assert_ptr_equal(c, b);
    tt_listener_close(b);
    tt_listener_close(c);
    struct tt_listener *other = listener_at(places[(i + 1) % 3]);
    tt_listener_close(other);
    tt_listener_close(other);
  }
  tt_listener_close(NULL);
  assert_int_equal(census_descriptors(), before);
}

static void a_fixed_port_is_a_listener_of_its_own(void **state)
{
  (void)state;
  struct tt_listener *shared = listener_at("127.0.0.1:0"), *fixed, *third;
  struct tt_address where = *tt_listener_address(shared);
  char text[TT_ADDRESS_TEXT_BYTES];
  assert_int_equal(tt_listener_open(&third, &where), tuttiSystemError);
  assert_non_null(strstr(tt_last_sentence(), tt_address_text(&where, text, sizeof text)));
  assert_non_null(strstr(tt_last_sentence(), "another process has this port"));
  tt_listener_close(shared);
  assert_int_equal(tt_listener_open(&fixed, &where), tuttiSuccess);
  assert_string_equal(tt_address_text(tt_listener_address(fixed), text, sizeof text),
                      tt_address_text(&where, (char[TT_ADDRESS_TEXT_BYTES]){0}, sizeof text));
  assert_int_equal(tt_listener_open(&third, &where), tuttiSystemError);
  shared = listener_at("127.0.0.1:0");
  assert_ptr_not_equal(shared, fixed);
  tt_listener_close(shared);
  tt_listener_close(fixed);
}

static void a_fixed_port_is_free_again_at_once(void **state)
{
  (void)state;
  struct tt_credentials credentials = credentials_make();
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .lane = 0, .src = 1, .dst = 0};
  struct tt_listener *listener = listener_at("127.0.0.1:0");
  struct tt_address where = *tt_listener_address(listener);
  tt_listener_close(listener);
  for (int i = 0; i < 3; i++) {
    struct host host = {.count = 0};
    int fd = -1;
    assert_int_equal(tt_listener_open(&listener, &where), tuttiSuccess);
    assert_int_equal(tt_listener_admit(listener, &credentials, TT_HELLO_RENDEZVOUS, 0, welcome, &host), tuttiSuccess);
    assert_int_equal(dialer(&where, &credentials, &hello, 60 * SECOND, &fd), tuttiSuccess);
    wait_for(&host.count, 1);
    close(host.fd[0]); /* first, so that this end has to wait in TIME_WAIT */
    close(fd);
    tt_listener_dismiss(listener, &host);
    tt_listener_close(listener);
  }
}

static void an_address_of_another_host_is_no_place_for_a_listener(void **state)
{
  (void)state;
  struct tt_address where;
  struct tt_listener *listener = NULL;
  int before = census_descriptors();
  assert_int_equal(tt_address_parse(&where, "198.51.100.77:0"), tuttiSuccess);
  assert_int_equal(tt_listener_open(&listener, &where), tuttiSystemError);
  assert_null(listener);
  assert_non_null(strstr(tt_last_sentence(), "no such address"));
  assert_int_equal(census_descriptors(), before);
}

/* Opens, admits and dials with the n-th allocation failing. */
static tuttiResult_t all_steps(struct host *host, struct tt_listener **listener, struct tt_dialer **made)
{
  struct tt_address where;
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
  struct tt_credentials credentials = credentials_make();
  memset(&where, 0, sizeof where);
  tuttiResult_t result = tt_listener_open(listener, &where);
  if (result == tuttiSuccess)
    result = tt_listener_admit(*listener, &credentials, TT_HELLO_LINK, 0, welcome, host);
  if (result == tuttiSuccess)
    result = tt_dialer_start(made, tt_listener_address(*listener), &credentials, &hello, tt_now_ns() + SECOND);
  return result;
}

static void failed_allocations_are_errors_without_a_leak(void **state)
{
  (void)state;
  int before = census_descriptors(), n = 1;
  for (tuttiResult_t result = tuttiSystemError; result != tuttiSuccess; n++) {
    struct host host = {.count = 0};
    struct tt_listener *listener = NULL;
    struct tt_dialer *made = NULL;
    tt_alloc_fail_at(n);
    result = all_steps(&host, &listener, &made);
    tt_alloc_fail_at(0);
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
    tt_dialer_destroy(made);
    if (listener) tt_listener_dismiss(listener, &host);
    tt_listener_close(listener);
    assert_int_equal(census_descriptors(), before);
  }
  assert_true(n > 4);
}

static void the_listener_may_be_closed_by_its_client(void *owner, const struct tt_hello *hello,
                                                     const struct tt_session *session, int fd)
{
  struct {
    struct tt_listener *listener;
    _Atomic int done;
  } *both = owner;
  (void)hello, (void)session;
  close(fd);
  tt_listener_dismiss(both->listener, both);
  tt_listener_close(both->listener);
  atomic_store(&both->done, 1);
}

static void a_client_function_may_close_the_last_listener(void **state)
{
  (void)state;
  int before = census_descriptors();
  for (int i = 0; i < 50; i++) {
    struct {
      struct tt_listener *listener;
      _Atomic int done;
    } both = {.done = 0};
    struct tt_credentials credentials = credentials_make();
    struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 1, .dst = 0};
    both.listener = listener_at(places[i % 3]);
    struct tt_address where = *tt_listener_address(both.listener);
    int fd = -1;
    assert_int_equal(tt_listener_admit(both.listener, &credentials, TT_HELLO_LINK, 0,
                                   the_listener_may_be_closed_by_its_client, &both),
                     tuttiSuccess);
    assert_int_equal(dialer(&where, &credentials, &hello, 60 * SECOND, &fd), tuttiSuccess);
    wait_for(&both.done, 1);
    close(fd);
  }
  while (census_descriptors() > before) tt_sleep_ns(MS);
}

int main(void)
{
  alarm(280);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_come_in_at_once), /* first: forks before the library is in use */
      cmocka_unit_test(clients_come_in_and_can_talk),
      cmocka_unit_test(bytes_behind_the_reply_are_the_clients),
      cmocka_unit_test(a_wrong_key_is_told_soon_and_never_comes_in),
      cmocka_unit_test(another_job_is_not_answered_until_the_deadline),
      cmocka_unit_test(early_clients_come_in_once_they_are_admitted),
      cmocka_unit_test(several_keys_of_one_job_are_told_apart),
      cmocka_unit_test(a_second_owner_of_one_admission_is_refused),
      cmocka_unit_test(the_dismissed_get_no_clients),
      cmocka_unit_test(one_place_is_one_listener),
      cmocka_unit_test(a_fixed_port_is_a_listener_of_its_own),
      cmocka_unit_test(a_fixed_port_is_free_again_at_once),
      cmocka_unit_test(an_address_of_another_host_is_no_place_for_a_listener),
      cmocka_unit_test(failed_allocations_are_errors_without_a_leak),
      cmocka_unit_test(a_client_function_may_close_the_last_listener),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
