/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that end in the middle of something. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tcp_pair.h"

#define MESSAGE_BYTES ((size_t)64 << 20)

static struct tt_call a_call = {4, 16 << 20, TT_ALL_REDUCE, tuttiFloat32, tuttiSum, 0, -1, 0};
static uint8_t *bytes;

static void pair_open(struct tcp_pair *pair, struct tt_link *links[2])
{
  struct tt_head head = {tt_call_word(&a_call), MESSAGE_BYTES, &a_call, 0};
  assert_int_equal(tcp_pair_prepare(pair, "127.0.0.1:0"), 0);
  assert_int_equal(tcp_pair_start(pair), 0);
  assert_int_equal(tcp_pair_open(pair, 0, links), 0);
  for (int i = 0; i < 2; i++) {
    links[i]->ops->send_begin(links[i], &head);
    links[i]->ops->recv_begin(links[i], &head);
  }
}

static size_t send_some(struct tt_link *link, size_t most)
{
  size_t sent = 0;
  ssize_t n = 1;
  while (n > 0 && sent < most) {
    n = link->ops->send(link, bytes + sent, most - sent);
    if (n > 0) sent += (size_t)n;
  }
  return sent;
}

/* What the kernel does not take yet, later. */
static void send_whole(struct tt_link *link, size_t len)
{
  size_t sent = 0;
  while (sent < len) {
    ssize_t n = link->ops->send(link, bytes + sent, len - sent);
    assert_true(n >= 0);
    sent += (size_t)n;
    if (!n) sched_yield();
  }
}

/* Receives until the link says something else than bytes or nothing. */
static ssize_t recv_until_lost(struct tt_link *link)
{
  size_t got = 0;
  ssize_t n = 0;
  while (n >= 0 && got < MESSAGE_BYTES) {
    n = link->ops->recv(link, bytes + got, MESSAGE_BYTES - got);
    if (n > 0) got += (size_t)n;
  }
  return n;
}

/* Closed with data unread and no time to linger: the peer gets a reset. */
static void reset(struct tcp_pair *pair, struct tt_link *link)
{
  struct linger now = {1, 0};
  uint32_t events;
  assert_int_equal(setsockopt(link->ops->descriptor(link, &events), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  tt_transport_tcp.destroy(pair->end[1].transport);
  pair->end[1].transport = NULL;
}

static void a_reset_in_the_middle_ends_both_directions(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  const void *data;
  for (int sends = 0; sends < 2; sends++) {
    pair_open(&pair, links);
    assert_true(send_some(links[0], MESSAGE_BYTES) < MESSAGE_BYTES);
    send_whole(links[1], 1000);
    reset(&pair, links[1]);
    ssize_t n = 0;
    while (n >= 0) n = sends ? links[0]->ops->send(links[0], bytes, 1) : recv_until_lost(links[0]);
    assert_int_equal(n, TT_LINK_BROKEN);
    assert_non_null(strstr(links[0]->why, "Connection reset by peer"));
    assert_int_equal(recv_until_lost(links[0]), TT_LINK_BROKEN); /* behind what came before */
    assert_int_equal(links[0]->ops->peek(links[0], &data, 1), TT_LINK_BROKEN);
    assert_int_equal(links[0]->ops->send(links[0], bytes, 1), TT_LINK_BROKEN);
    tcp_pair_destroy(&pair);
  }
}

static void a_peer_that_closes_in_the_middle_breaks_the_link(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  pair_open(&pair, links);
  send_whole(links[1], 300000);
  tt_transport_tcp.destroy(pair.end[1].transport);
  pair.end[1].transport = NULL;
  assert_int_equal(recv_until_lost(links[0]), TT_LINK_BROKEN);
  assert_non_null(strstr(links[0]->why, "closed"));
  tcp_pair_destroy(&pair);
}

/* A real rank: rank 1 runs in a child, which is killed while both send. The library refuses to work in a child of
 * a process that has used it, so this test is the first. */
static void child_main(struct tcp_pair *pair, int ready)
{
  struct tt_link *link;
  struct tt_head head = {tt_call_word(&a_call), MESSAGE_BYTES, &a_call, 0};
  struct tcp_end *end = &pair->end[1];
  uint8_t *peer_infos = pair->peer_infos[0];
  tuttiResult_t result;
  alarm(60);
  if (tt_listener_open(&end->spec.ip_listener, &end->where) != tuttiSuccess) _exit(1);
  if (tt_transport_tcp.create(&end->transport, &end->spec, pair->peer_infos[1]) != tuttiSuccess) _exit(1);
  if (write(ready, pair->peer_infos[1], sizeof pair->peer_infos[1]) != sizeof pair->peer_infos[1]) _exit(1);
  if (read(ready, peer_infos, sizeof pair->peer_infos[0]) != sizeof pair->peer_infos[0]) _exit(1);
  if (tt_transport_tcp.connect(end->transport, pair->peer_infos, sizeof pair->peer_infos[0]) != tuttiSuccess) _exit(1);
  while ((result = tt_transport_tcp.open(end->transport, 0, 0, &link)) == tuttiInProgress) sched_yield();
  if (result != tuttiSuccess) _exit(1);
  link->ops->send_begin(link, &head);
  link->ops->recv_begin(link, &head);
  (void)send_some(link, 200000);
  if (write(ready, "x", 1) != 1) _exit(1);
  for (;;) pause();
}

static void parent_start(struct tcp_pair *pair, int ready, struct tt_link **link)
{
  struct tcp_end *end = &pair->end[0];
  tuttiResult_t result;
  char go;
  assert_int_equal(tt_listener_open(&end->spec.ip_listener, &end->where), tuttiSuccess);
  assert_int_equal(tt_transport_tcp.create(&end->transport, &end->spec, pair->peer_infos[0]), tuttiSuccess);
  assert_int_equal(write(ready, pair->peer_infos[0], sizeof pair->peer_infos[0]), sizeof pair->peer_infos[0]);
  assert_int_equal(read(ready, pair->peer_infos[1], sizeof pair->peer_infos[1]), sizeof pair->peer_infos[1]);
  assert_int_equal(tt_transport_tcp.connect(end->transport, pair->peer_infos, sizeof pair->peer_infos[0]),
                   tuttiSuccess);
  while ((result = tt_transport_tcp.open(end->transport, 1, 0, link)) == tuttiInProgress) sched_yield();
  assert_int_equal(result, tuttiSuccess);
  assert_int_equal(read(ready, &go, 1), 1);
}

static void a_killed_process_breaks_its_links(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *link = NULL;
  struct tt_head head = {tt_call_word(&a_call), MESSAGE_BYTES, &a_call, 0};
  int ready[2];
  assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ready), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) child_main(&pair, ready[1]);
  close(ready[1]);
  parent_start(&pair, ready[0], &link);
  link->ops->send_begin(link, &head);
  link->ops->recv_begin(link, &head);
  (void)send_some(link, MESSAGE_BYTES);
  kill(child, SIGKILL);
  assert_int_equal(recv_until_lost(link), TT_LINK_BROKEN);
  assert_true(strlen(link->why) > 0);
  waitpid(child, NULL, 0);
  tcp_pair_destroy(&pair);
  close(ready[0]);
}

static int make_bytes(void **state)
{
  (void)state;
  bytes = calloc(1, MESSAGE_BYTES);
  return bytes ? 0 : -1;
}

static int free_bytes(void **state)
{
  (void)state;
  free(bytes);
  return 0;
}

int main(void)
{
  alarm(60);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_killed_process_breaks_its_links),
      cmocka_unit_test(a_reset_in_the_middle_ends_both_directions),
      cmocka_unit_test(a_peer_that_closes_in_the_middle_breaks_the_link),
  };
  return cmocka_run_group_tests(tests, make_bytes, free_bytes);
}
