/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/transport.h"

#define LONG 200001 /* several times round the ring */

static struct tt_transport *transport;
static struct tt_link *link_;
static unsigned char data[LONG], got[LONG];

static int start(void **state)
{
  (void)state;
  static const struct tt_transport_spec spec = {.nranks = 1, .lanes = 1};
  static char peer_info[TT_TRANSPORT_PEER_INFO_BYTES];
  for (size_t i = 0; i < LONG; i++) data[i] = (unsigned char)(i * 31 + i / 251);
  if (tt_transport_self.create(&transport, &spec, peer_info) != tuttiSuccess) return -1;
  return transport->ops->open(transport, 0, 0, &link_) == tuttiSuccess ? 0 : -1;
}

static int stop(void **state)
{
  (void)state;
  transport->ops->destroy(transport);
  return 0;
}

/* A send that fills all room after every odd receive: bytes not yet read must never be written over. */
static void odd_receives_leave_nothing_overwritten(void **state)
{
  (void)state;
  for (size_t step = 1; step < 40; step++) {
    struct tt_head head = {.word = step, .len = 65536 + step}; /* one receive makes just the room for its end */
    size_t sent = 0, received = 0;
    link_->ops->recv_begin(link_, &head);
    link_->ops->send_begin(link_, &head);
    for (int next = 0; received < head.len;) {
      size_t most = received < 2000 ? step : LONG;
      ssize_t n = link_->ops->send(link_, data + sent, head.len - sent);
      assert_true(n >= 0);
      sent += (size_t)n;
      if (sent == head.len && !next) { /* the next message queues up behind this one */
        next = 1;
        sent = 0;
        link_->ops->send_begin(link_, &head);
      }
      if (most > head.len - received) most = head.len - received;
      ssize_t m = link_->ops->recv(link_, got + received, most);
      assert_true(m >= 0);
      received += (size_t)m;
    }
    assert_memory_equal(got, data, head.len);
    link_->ops->recv_begin(link_, &head);
    for (received = 0; received < head.len;) {
      ssize_t n = sent < head.len ? link_->ops->send(link_, data + sent, head.len - sent) : 0;
      ssize_t m = link_->ops->recv(link_, got + received, head.len - received);
      assert_true(n >= 0 && m >= 0);
      sent += (size_t)n;
      received += (size_t)m;
    }
    assert_memory_equal(got, data, head.len);
  }
}

static void another_message_is_a_mismatch(void **state)
{
  (void)state;
  const void *shown;
  struct tt_head sent = {.word = 7, .len = 24}, other_word = {.word = 8, .len = 24}, other_len = {.word = 7, .len = 25};
  link_->ops->send_begin(link_, &sent);
  assert_int_equal(link_->ops->send(link_, data, 24), 24);
  link_->ops->recv_begin(link_, &other_word);
  assert_int_equal(link_->ops->peek(link_, &shown, 8), TT_LINK_MISMATCH);
  assert_int_equal(link_->seen_word, 7);
  link_->ops->recv_begin(link_, &other_len);
  assert_int_equal(link_->ops->recv(link_, got, 25), TT_LINK_MISMATCH);
  link_->ops->recv_begin(link_, &sent);
  assert_int_equal(link_->ops->peek(link_, &shown, 8), 24);
  assert_memory_equal(shown, data, 24);
  link_->ops->consume(link_, 24);
}

static void it_reaches_itself_only(void **state)
{
  (void)state;
  assert_true(transport->ops->reaches(transport, 0));
  assert_false(transport->ops->reaches(transport, 1));
}

int main(void)
{
  alarm(20);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(odd_receives_leave_nothing_overwritten, start, stop),
      cmocka_unit_test_setup_teardown(another_message_is_a_mismatch, start, stop),
      cmocka_unit_test_setup_teardown(it_reaches_itself_only, start, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
