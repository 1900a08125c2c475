/* SPDX-License-Identifier: BSD-3-Clause */
/* A man in the middle: a relay between two ranks passes the handshake on as it is, and then flips a bit of the data,
 * repeats a frame, turns two around or cuts one short. With TUTTI_AUTH=key the data arrives wrong; with data and
 * encrypt the link ends with a sentence that names the rank and the setting, and no wrong byte is shown. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tcp_pair.h"
#include "transport/tcp_link_private.h"

#define LEN 100 /* of a message, which is one frame */

/* Stands where rank 0 looks for rank 1. */
struct relay {
  int listener, near, far; /* near: to rank 0 */
  struct tt_address at, to;
  size_t said;             /* bytes of rank 0 that came; those behind its reply are kept */
  uint8_t kept[4096];
  size_t nkept;
};

static void relay_open(struct relay *relay, const struct tt_address *to)
{
  socklen_t size = sizeof relay->at.v4;
  *relay = (struct relay){.near = -1, .far = -1, .to = *to};
  assert_int_equal(tt_address_parse(&relay->at, "127.0.0.1:0"), tuttiSuccess);
  relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_int_equal(bind(relay->listener, &relay->at.any, relay->at.len), 0);
  assert_int_equal(listen(relay->listener, 4), 0);
  assert_int_equal(getsockname(relay->listener, &relay->at.any, &size), 0);
}

static void relay_close(struct relay *relay)
{
  close(relay->listener);
  if (relay->near >= 0) close(relay->near);
  if (relay->far >= 0) close(relay->far);
}

static void relay_say(const struct relay *relay, const void *bytes, size_t len)
{
  assert_int_equal(send(relay->far, bytes, len, MSG_NOSIGNAL), len);
}

/* Passes on what is there: of rank 0 the reply alone. */
static void relay_poll(struct relay *relay)
{
  uint8_t bytes[1024];
  ssize_t n;
  if (relay->near < 0) {
    relay->near = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (relay->near < 0) return;
    relay->far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(relay->far, &relay->to.any, relay->to.len), 0);
  }
  while ((n = recv(relay->far, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
    assert_int_equal(send(relay->near, bytes, (size_t)n, MSG_NOSIGNAL), n);
  size_t most = relay->said < TT_REPLY_BYTES ? TT_REPLY_BYTES - relay->said : sizeof bytes;
  while ((n = recv(relay->near, bytes, most, MSG_DONTWAIT)) > 0) {
    if (relay->said < TT_REPLY_BYTES) {
      relay_say(relay, bytes, (size_t)n);
    } else {
      memcpy(relay->kept + relay->nkept, bytes, (size_t)n);
      relay->nkept += (size_t)n;
    }
    relay->said += (size_t)n;
    most = relay->said < TT_REPLY_BYTES ? TT_REPLY_BYTES - relay->said : sizeof bytes;
  }
}

/* ---- two ranks and the relay, in one thread ---- */

struct scene {
  struct tcp_pair pair;
  struct relay relay;
  struct tt_link *links[2];
  uint8_t sent[2][LEN], got[2][LEN];
  struct tt_head head;
};

static struct tt_call a_call = {4, LEN, TT_ALL_REDUCE, tuttiUint8, tuttiSum, 0, -1, 0};

static void scene_open(struct scene *scene, int level)
{
  struct tcp_pair *pair = &scene->pair;
  struct tt_address far;
  tuttiResult_t result[2] = {tuttiInProgress, tuttiInProgress};
  memset(scene, 0, sizeof *scene);
  scene->head = (struct tt_head){tt_call_word(&a_call), LEN, &a_call, 0};
  assert_int_equal(tcp_pair_prepare(pair, "127.0.0.1:0"), 0);
  for (int i = 0; i < 2; i++) pair->end[i].settings.auth = level;
  assert_int_equal(tcp_pair_start(pair), 0);
  assert_int_equal(tt_address_unpack(&far, pair->peer_infos[1]), tuttiSuccess);
  relay_open(&scene->relay, &far);
  tt_address_pack(&scene->relay.at, pair->peer_infos[1]);
  assert_int_equal(tt_transport_tcp.connect(pair->end[0].transport, pair->peer_infos, sizeof pair->peer_infos[0]),
                   tuttiSuccess);
  while (result[0] == tuttiInProgress || result[1] == tuttiInProgress) {
    relay_poll(&scene->relay);
    for (int i = 0; i < 2; i++)
      if (result[i] == tuttiInProgress)
        result[i] = tt_transport_tcp.open(pair->end[i].transport, 1 - i, 0, &scene->links[i]);
    usleep(50);
  }
  assert_int_equal(result[0], tuttiSuccess);
  assert_int_equal(result[1], tuttiSuccess);
}

/* Rank 0 sends both messages, which the relay keeps; returns the bytes of one frame. */
static size_t scene_send(struct scene *scene)
{
  struct tt_link *link = scene->links[0];
  for (int m = 0; m < 2; m++) {
    for (int i = 0; i < LEN; i++) scene->sent[m][i] = (uint8_t)(i * 7 + m * 31 + 1);
    link->ops->send_begin(link, &scene->head);
    assert_int_equal(link->ops->send(link, scene->sent[m], LEN), LEN);
  }
  size_t len = sizeof(struct tcp_head) + (scene->pair.end[0].settings.auth >= TT_AUTH_DATA ? TCP_TAGS_BYTES : 0) + LEN;
  while (scene->relay.nkept < 2 * len) relay_poll(&scene->relay);
  return len;
}

/* Rank 1 receives both messages: how many of them came, or the error. */
static ssize_t scene_receive(struct scene *scene)
{
  struct tt_link *link = scene->links[1];
  for (int m = 0; m < 2; m++) {
    link->ops->recv_begin(link, &scene->head);
    for (size_t got = 0; got < LEN;) {
      const void *data;
      ssize_t n = link->ops->peek(link, &data, 1);
      if (n < 0) return n;
      if (n == 0) usleep(50);
      memcpy(scene->got[m] + got, data, (size_t)n);
      link->ops->consume(link, (size_t)n);
      got += (size_t)n;
    }
  }
  return 2;
}

static void scene_close(struct scene *scene)
{
  relay_close(&scene->relay);
  tcp_pair_destroy(&scene->pair);
}

/* ---- what the relay does with two frames of `len` bytes each ---- */

static void pass(struct relay *relay, size_t len)
{
  relay_say(relay, relay->kept, 2 * len);
}

static void flip(struct relay *relay, size_t len)
{
  relay->kept[len - LEN / 2] ^= 1;
  relay_say(relay, relay->kept, 2 * len);
}

static void repeat(struct relay *relay, size_t len)
{
  relay_say(relay, relay->kept, len);
  relay_say(relay, relay->kept, len);
}

static void turn_around(struct relay *relay, size_t len)
{
  relay_say(relay, relay->kept + len, len);
  relay_say(relay, relay->kept, len);
}

static void cut(struct relay *relay, size_t len)
{
  relay_say(relay, relay->kept, len - 1);
  relay_say(relay, relay->kept + len, len);
}

static const struct {
  const char *name;
  void (*act)(struct relay *relay, size_t len);
  ssize_t with_key; /* both messages, of which one is wrong, or the end of the link */
} acts[] = {{"flip", flip, 2}, {"repeat", repeat, 2}, {"turn around", turn_around, 2}, {"cut", cut, TT_LINK_BROKEN}};
enum { ACTS = sizeof acts / sizeof acts[0] };

static const char *const settings[] = {
    [TT_AUTH_NONE] = "none", [TT_AUTH_KEY] = "key", [TT_AUTH_DATA] = "data", [TT_AUTH_ENCRYPT] = "encrypt"};

static void a_relay_that_changes_nothing_is_not_noticed(void **state)
{
  (void)state;
  for (int level = TT_AUTH_NONE; level <= TT_AUTH_ENCRYPT; level++) {
    struct scene scene;
    scene_open(&scene, level);
    pass(&scene.relay, scene_send(&scene));
    assert_int_equal(scene_receive(&scene), 2);
    assert_memory_equal(scene.got, scene.sent, sizeof scene.sent);
    scene_close(&scene);
  }
}

static void a_relay_can_change_data_that_is_not_authenticated(void **state)
{
  (void)state;
  for (int a = 0; a < ACTS; a++) {
    struct scene scene;
    scene_open(&scene, TT_AUTH_KEY);
    acts[a].act(&scene.relay, scene_send(&scene));
    assert_int_equal(scene_receive(&scene), acts[a].with_key);
    assert_memory_not_equal(scene.got, scene.sent, sizeof scene.sent);
    scene_close(&scene);
  }
}

static void a_relay_that_changes_authenticated_data_ends_the_link(void **state)
{
  (void)state;
  for (int level = TT_AUTH_DATA; level <= TT_AUTH_ENCRYPT; level++) {
    for (int a = 0; a < ACTS; a++) {
      struct scene scene;
      char wanted[64];
      scene_open(&scene, level);
      acts[a].act(&scene.relay, scene_send(&scene));
      if (scene_receive(&scene) != TT_LINK_BROKEN) fail_msg("%s: not noticed with %s", acts[a].name, settings[level]);
      snprintf(wanted, sizeof wanted, "TUTTI_AUTH=%s", settings[level]);
      assert_non_null(strstr(scene.links[1]->why, "rank 0"));
      assert_non_null(strstr(scene.links[1]->why, wanted));
      scene_close(&scene);
    }
  }
}

static void a_relay_reads_data_unless_it_is_encrypted(void **state)
{
  (void)state;
  for (int level = TT_AUTH_KEY; level <= TT_AUTH_ENCRYPT; level++) {
    struct scene scene;
    scene_open(&scene, level);
    scene_send(&scene);
    int is_read = memmem(scene.relay.kept, scene.relay.nkept, scene.sent[1], 8) != NULL;
    assert_int_equal(is_read, level < TT_AUTH_ENCRYPT);
    scene_close(&scene);
  }
}

/* The frames of one connection mean nothing on another one, of the same ranks and with the same key of the job. */
static void frames_of_another_connection_do_not_fit(void **state)
{
  (void)state;
  for (int level = TT_AUTH_DATA; level <= TT_AUTH_ENCRYPT; level++) {
    struct scene scene, other;
    scene_open(&scene, level);
    scene_open(&other, level);
    size_t len = scene_send(&scene);
    relay_say(&other.relay, scene.relay.kept, 2 * len);
    assert_int_equal(scene_receive(&other), TT_LINK_BROKEN);
    scene_close(&scene);
    scene_close(&other);
  }
}

/* Each direction has its own key: what rank 0 sent is nothing that rank 1 could have sent. */
static void frames_sent_back_do_not_fit(void **state)
{
  (void)state;
  for (int level = TT_AUTH_DATA; level <= TT_AUTH_ENCRYPT; level++) {
    struct scene scene;
    const void *data;
    ssize_t n = 0;
    scene_open(&scene, level);
    size_t len = scene_send(&scene);
    assert_int_equal(send(scene.relay.near, scene.relay.kept, 2 * len, MSG_NOSIGNAL), 2 * len);
    scene.links[0]->ops->recv_begin(scene.links[0], &scene.head);
    for (; n == 0; usleep(50)) n = scene.links[0]->ops->peek(scene.links[0], &data, 1);
    assert_int_equal(n, TT_LINK_BROKEN);
    assert_non_null(strstr(scene.links[0]->why, "rank 1: a frame came changed, twice or out of turn"));
    assert_non_null(strstr(scene.links[0]->why, "something on the way changes data"));
    scene_close(&scene);
  }
}

int main(void)
{
  alarm(120);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_relay_that_changes_nothing_is_not_noticed),
      cmocka_unit_test(a_relay_can_change_data_that_is_not_authenticated),
      cmocka_unit_test(a_relay_that_changes_authenticated_data_ends_the_link),
      cmocka_unit_test(a_relay_reads_data_unless_it_is_encrypted),
      cmocka_unit_test(frames_of_another_connection_do_not_fit),
      cmocka_unit_test(frames_sent_back_do_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
