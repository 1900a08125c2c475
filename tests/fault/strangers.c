/* SPDX-License-Identifier: BSD-3-Clause */
/* Strangers at a listener: whatever they do, the right clients come in, nobody else does, and the
 * process has neither allocated for them nor kept a descriptor of theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "census.h"
#include "net/net.h"

#define MS 1000000u
#define SECOND (1000u * (uint64_t)MS)
#define CLIENTS 20
#define MANY 1000000000 /* more allocations than any test makes */

/* What all tests need: a listener, who may come in, and who came. */
struct scene {
  struct tt_listener *listener;
  struct tt_address at;
  struct tt_credentials credentials;
  _Atomic int count;
  int seen[CLIENTS];
  int fd[CLIENTS];
};

/* The only place where a stranger could show up: every rank comes once, and nobody else. */
static void welcome(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  (void)session;
  struct scene *scene = owner;
  if (hello->src >= CLIENTS || scene->seen[hello->src]) abort();
  scene->seen[hello->src] = 1;
  scene->fd[hello->src] = fd;
  atomic_fetch_add(&scene->count, 1);
}

static void scene_open(struct scene *scene, const char *place)
{
  struct tt_address where;
  memset(scene, 0, sizeof *scene);
  memset(&where, 0, sizeof where);
  if (place) assert_int_equal(tt_address_parse(&where, place), tuttiSuccess);
  assert_int_equal(tt_listener_open(&scene->listener, &where), tuttiSuccess);
  scene->at = *tt_listener_address(scene->listener);
  tt_random(&scene->credentials, sizeof scene->credentials);
  assert_int_equal(
      tt_listener_admit(scene->listener, &scene->credentials, TT_HELLO_LINK, 0, welcome, scene), tuttiSuccess);
}

static void scene_close(struct scene *scene)
{
  for (int i = 0; i < CLIENTS; i++)
    if (scene->seen[i]) close(scene->fd[i]);
  tt_listener_dismiss(scene->listener, scene);
  tt_listener_close(scene->listener);
}

/* All clients dial at once and must all come in. */
static void clients_come(struct scene *scene)
{
  struct tt_dialer *dialer[CLIENTS];
  int fd[CLIENTS], in = 0;
  for (uint32_t i = 0; i < CLIENTS; i++) {
    struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = i, .dst = 0};
    assert_int_equal(
        tt_dialer_start(&dialer[i], &scene->at, &scene->credentials, &hello, tt_now_ns() + 60 * SECOND),
        tuttiSuccess);
  }
  while (in < CLIENTS) {
    tt_sleep_ns(MS / 5);
    for (int i = 0; i < CLIENTS; i++) {
      if (!dialer[i]) continue;
      tuttiResult_t result = tt_dialer_poll(dialer[i], &fd[i]);
      if (result == tuttiInProgress) continue;
      if (result != tuttiSuccess) fail_msg("%s", tt_last_sentence());
      tt_dialer_destroy(dialer[i]);
      dialer[i] = NULL;
      in++;
    }
  }
  while (atomic_load(&scene->count) < CLIENTS) tt_sleep_ns(MS / 5);
  for (int i = 0; i < CLIENTS; i++) close(fd[i]);
}

/* ---- strangers: each takes a fresh connection (blocking) and may leave it open ---- */

static int stranger_connect(const struct tt_address *to)
{
  int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval patience = {.tv_sec = 5};
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(fd, &to->any, to->len) == 0) return fd;
  close(fd);
  return -1;
}

static void say(int fd, const void *words, size_t len)
{
  ssize_t n = send(fd, words, len, MSG_NOSIGNAL);
  (void)n;
}

/* A right reply to whatever the listener asks on fd; 0 if there was no question. */
static int reply_right(const struct scene *scene, int fd, uint8_t reply[TT_REPLY_BYTES])
{
  uint8_t challenge[TT_CHALLENGE_BYTES], secret[TT_KEY_BYTES];
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .src = CLIENTS}; /* its coming in would be noticed */
  if (recv(fd, challenge, sizeof challenge, MSG_WAITALL) != sizeof challenge) return 0;
  return tt_reply_make(reply, challenge, &scene->credentials, &hello, secret) == tuttiSuccess;
}

static void be_silent(const struct scene *scene, int fd, int turn)
{
  (void)scene, (void)fd, (void)turn;
}

static void say_one_byte(const struct scene *scene, int fd, int turn)
{
  (void)scene, (void)turn;
  say(fd, "T", 1);
}

static void say_other_protocols(const struct scene *scene, int fd, int turn)
{
  static const char http[] = "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: healthcheck\r\n\r\n";
  static const char ssh[] = "SSH-2.0-OpenSSH_9.2p1\r\n";
  static const char tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
  static const char nccl[] = "TEG magt";
  (void)scene;
  if (turn % 4 == 0) say(fd, http, sizeof http - 1);
  if (turn % 4 == 1) say(fd, ssh, sizeof ssh - 1);
  if (turn % 4 == 2) say(fd, tls, sizeof tls - 1);
  if (turn % 4 == 3) say(fd, nccl, sizeof nccl - 1);
}

static void say_garbage(const struct scene *scene, int fd, int turn)
{
  static const uint8_t zeros[65536] = {0};
  uint8_t start[512];
  (void)scene, (void)turn;
  tt_random(start, sizeof start);
  say(fd, start, sizeof start);
  for (int i = 0; i < 128; i++) /* 8 MiB */
    if (send(fd, zeros, sizeof zeros, MSG_NOSIGNAL) < 0) return;
}

static void say_wrong_mac(const struct scene *scene, int fd, int turn)
{
  uint8_t reply[TT_REPLY_BYTES], verdict[TT_VERDICT_BYTES];
  if (!reply_right(scene, fd, reply)) return;
  reply[turn % 2 ? 112 + turn % 32 : 12] ^= 1; /* the MAC, or what is under it */
  say(fd, reply, sizeof reply);
  ssize_t n = recv(fd, verdict, sizeof verdict, MSG_WAITALL);
  (void)n;
}

static void say_other_job(const struct scene *scene, int fd, int turn)
{
  uint8_t reply[TT_REPLY_BYTES];
  (void)turn;
  if (!reply_right(scene, fd, reply)) return;
  reply[60] ^= 1;
  say(fd, reply, sizeof reply);
}

static void replay(const struct scene *scene, int fd, int turn)
{
  uint8_t reply[TT_REPLY_BYTES];
  (void)turn;
  if (!reply_right(scene, fd, reply)) return; /* recorded here, used there */
  int other = stranger_connect(&scene->at);
  if (other < 0) return;
  say(other, reply, sizeof reply);
  close(other);
}

/* Sends turn % 144 bytes of a right reply, then resets the connection. */
static void reset_midway(const struct scene *scene, int fd, int turn)
{
  uint8_t reply[TT_REPLY_BYTES];
  struct linger now = {.l_onoff = 1, .l_linger = 0};
  if (turn % TT_REPLY_BYTES && reply_right(scene, fd, reply))
    say(fd, reply, (size_t)(turn % TT_REPLY_BYTES));
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

typedef void (*stranger_fn)(const struct scene *scene, int fd, int turn);

/* A crowd comes one after the other; the last `keep` connections stay open. */
struct crowd {
  const struct scene *scene;
  stranger_fn act;
  int most, keep;
  _Atomic int stop;
  _Atomic int came;
};

static void *crowd_run(void *argument)
{
  struct crowd *crowd = argument;
  int open[512];
  for (int i = 0; i < crowd->keep; i++) open[i] = -1;
  for (int turn = 0; turn < crowd->most && !atomic_load(&crowd->stop); turn++) {
    int fd = stranger_connect(&crowd->scene->at);
    if (fd < 0) continue;
    crowd->act(crowd->scene, fd, turn);
    int *place = &open[turn % crowd->keep];
    if (*place >= 0) close(*place);
    *place = fd;
    atomic_fetch_add(&crowd->came, 1);
  }
  for (int i = 0; i < crowd->keep; i++)
    if (open[i] >= 0) close(open[i]);
  return NULL;
}

/* Clients come while two such crowds are there; at least `least` strangers must have come. */
static void clients_come_through(const char *place, stranger_fn act, int least, int keep)
{
  int before = census_descriptors();
  struct scene scene;
  scene_open(&scene, place);
  struct crowd crowd = {.scene = &scene, .act = act, .most = 100000, .keep = keep};
  pthread_t threads[2];
  tt_alloc_fail_at(MANY);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowd), 0);
  while (atomic_load(&crowd.came) < least) tt_sleep_ns(MS);
  assert_int_equal(atomic_load(&tt_process.alloc_countdown), MANY);
  clients_come(&scene);
  atomic_store(&crowd.stop, 1);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&tt_process.alloc_countdown), MANY - CLIENTS); /* the dials */
  tt_alloc_fail_at(0);
  assert_int_equal(atomic_load(&scene.count), CLIENTS);
  scene_close(&scene);
  assert_int_equal(census_descriptors(), before);
}

static void silent_strangers_do_not_stop_clients(void **state)
{
  (void)state;
  clients_come_through("127.0.0.1:0", be_silent, 200, 100);
  clients_come_through(NULL, be_silent, 200, 100);
}

static void half_said_words_do_not_stop_clients(void **state)
{
  (void)state;
  clients_come_through("127.0.0.1:0", say_one_byte, 200, 100);
}

static void other_protocols_do_not_stop_clients(void **state)
{
  (void)state;
  clients_come_through("127.0.0.1:0", say_other_protocols, 200, 10);
  clients_come_through("[::1]:0", say_other_protocols, 200, 10);
}

static void megabytes_of_garbage_do_not_stop_clients(void **state)
{
  (void)state;
  clients_come_through("127.0.0.1:0", say_garbage, 50, 10);
  clients_come_through(NULL, say_garbage, 50, 10);
}

static void wrong_macs_do_not_come_in(void **state)
{
  (void)state;
  clients_come_through("127.0.0.1:0", say_wrong_mac, 100, 10);
  clients_come_through("127.0.0.1:0", say_other_job, 100, 10);
}

static void replays_do_not_come_in(void **state)
{
  (void)state;
  clients_come_through("127.0.0.1:0", replay, 100, 10);
}

static void resets_at_every_byte_do_not_stop_clients(void **state)
{
  (void)state;
  clients_come_through("127.0.0.1:0", reset_midway, 2 * TT_REPLY_BYTES, 1);
}

static void five_hundred_silent_at_once_do_not_stop_clients(void **state)
{
  (void)state;
  int before = census_descriptors(), crowd[500];
  struct scene scene;
  scene_open(&scene, "127.0.0.1:0");
  for (int i = 0; i < 500; i++) crowd[i] = stranger_connect(&scene.at);
  uint64_t start = tt_now_ns();
  clients_come(&scene);
  /* A second is what strangers may cost, if nothing holds the process up; 16 s if each had its 2 s. */
  assert_true(tt_now_ns() - start < 15 * SECOND);
  assert_int_equal(atomic_load(&scene.count), CLIENTS);
  for (int i = 0; i < 500; i++)
    if (crowd[i] >= 0) close(crowd[i]);
  scene_close(&scene);
  assert_int_equal(census_descriptors(), before);
}

/* As recv with MSG_WAITALL, whoever stops and continues this process meanwhile. */
static ssize_t recv_all(int fd, uint8_t *bytes, size_t len)
{
  size_t got = 0;
  while (got < len) {
    ssize_t n = recv(fd, bytes + got, len - got, 0);
    if (n == 0 || (n < 0 && errno != EINTR)) return n < 0 ? n : (ssize_t)got;
    if (n > 0) got += (size_t)n;
  }
  return (ssize_t)got;
}

static void the_silent_are_shown_out(void **state)
{
  (void)state;
  struct scene scene;
  uint8_t bytes[64];
  scene_open(&scene, "127.0.0.1:0");
  uint64_t start = tt_now_ns();
  int fd = stranger_connect(&scene.at);
  struct timeval patience = {.tv_sec = 30};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  assert_int_equal(recv_all(fd, bytes, TT_CHALLENGE_BYTES), TT_CHALLENGE_BYTES);
  assert_int_equal(recv_all(fd, bytes, sizeof bytes), 0);
  assert_true(tt_now_ns() - start < 20 * SECOND); /* 2 s are promised */
  assert_true(tt_now_ns() - start > SECOND);      /* a slow client has its time */
  assert_int_equal(tt_listener_refused(scene.listener), 1);
  close(fd);
  scene_close(&scene);
}

/* Dials as rank 0 until it comes in; forked before the process used the library. */
static void child_dial(int road)
{
  struct {
    struct tt_address to;
    struct tt_credentials credentials;
  } task;
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = 0, .dst = 0};
  struct tt_dialer *dialer;
  int fd = -1;
  alarm(120);
  if (read(road, &task, sizeof task) != sizeof task) _exit(2);
  if (tt_dialer_start(&dialer, &task.to, &task.credentials, &hello, tt_now_ns() + 60 * SECOND)) _exit(3);
  tuttiResult_t result;
  while ((result = tt_dialer_poll(dialer, &fd)) == tuttiInProgress) tt_sleep_ns(MS);
  _exit(result == tuttiSuccess ? 0 : 4);
}

static int child_road = -1;
static pid_t child = -1;

static int child_fork(void **state)
{
  (void)state;
  int road[2];
  if (tt_auth_init() != tuttiSuccess || pipe(road) != 0) return -1;
  child = fork();
  if (child == 0) child_dial(road[0]);
  close(road[0]);
  child_road = road[1];
  return child < 0 ? -1 : 0;
}

static int child_end(void **state)
{
  (void)state;
  close(child_road);
  return 0;
}

static void a_process_without_descriptors_recovers(void **state)
{
  (void)state;
  enum { MOST = 4096 };
  static int eaten[MOST];
  struct {
    struct tt_address to;
    struct tt_credentials credentials;
  } task;
  struct scene scene;
  struct rlimit old, low;
  int used = 0, status;
  scene_open(&scene, "127.0.0.1:0");
  memset(&task, 0, sizeof task);
  task.to = scene.at;
  task.credentials = scene.credentials;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
  low = old;
  low.rlim_cur = 256;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  while (used < MOST && (eaten[used] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) used++;
  assert_int_equal(errno, EMFILE);
  assert_int_equal(write(child_road, &task, sizeof task), sizeof task);
  while (tt_listener_refused(scene.listener) < 3) tt_sleep_ns(MS);
  assert_int_equal(atomic_load(&scene.count), 0);
  while (used > 0) close(eaten[--used]);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
  while (atomic_load(&scene.count) == 0) tt_sleep_ns(MS);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  scene_close(&scene);
}

/* In a child of another user, with the right pass: 0 if it was not let in. */
static int other_user_run(const struct scene *scene)
{
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = 0, .src = CLIENTS, .dst = 0};
  struct tt_dialer *dialer;
  int fd = -1;
  alarm(60);
  if (setuid(1) != 0) return 2;
  if (tt_dialer_start(&dialer, &scene->at, &scene->credentials, &hello, tt_now_ns() + 2 * SECOND)) return 3;
  tuttiResult_t result;
  while ((result = tt_dialer_poll(dialer, &fd)) == tuttiInProgress) tt_sleep_ns(MS);
  if (result != tuttiRemoteError) return 4;
  return strstr(tt_last_sentence(), "before it said anything") ? 0 : 5;
}

static void another_user_of_this_host_does_not_come_in(void **state)
{
  (void)state;
  struct scene scene;
  int status;
  if (geteuid() != 0) {
    print_message("skipped: only root can become another user\n");
    skip();
  }
  scene_open(&scene, NULL);
  pid_t other = fork();
  if (other == 0) _exit(other_user_run(&scene));
  assert_int_equal(waitpid(other, &status, 0), other);
  assert_int_equal(status, 0);
  assert_true(tt_listener_refused(scene.listener) > 0);
  assert_int_equal(atomic_load(&scene.count), 0);
  scene_close(&scene);
}

int main(void)
{
  alarm(280);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_process_without_descriptors_recovers),
      cmocka_unit_test(silent_strangers_do_not_stop_clients),
      cmocka_unit_test(half_said_words_do_not_stop_clients),
      cmocka_unit_test(other_protocols_do_not_stop_clients),
      cmocka_unit_test(megabytes_of_garbage_do_not_stop_clients),
      cmocka_unit_test(wrong_macs_do_not_come_in),
      cmocka_unit_test(replays_do_not_come_in),
      cmocka_unit_test(resets_at_every_byte_do_not_stop_clients),
      cmocka_unit_test(five_hundred_silent_at_once_do_not_stop_clients),
      cmocka_unit_test(the_silent_are_shown_out),
      cmocka_unit_test(another_user_of_this_host_does_not_come_in),
  };
  return cmocka_run_group_tests(tests, child_fork, child_end);
}
