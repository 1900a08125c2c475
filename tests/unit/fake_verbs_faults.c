/* SPDX-License-Identifier: BSD-3-Clause */
/* The double of libibverbs and librdmacm: each fault is what was asked for, and what must not be is found. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "verbs_end.h"

/* ---- waiting ---- */

static void an_event_comes_once_after_it_was_asked_for(void **state)
{
  struct end a, b;
  struct ibv_cq *cq;
  void *unused;
  (void)state;
  pair_open(&a, &b);
  struct pollfd event = {.fd = b.channel->fd, .events = POLLIN};
  for (int k = 0; k < 3; k++) assert_int_equal(expect(&b, 1), 0);
  assert_int_equal(write_one(&a, &b, 0, 8), 0);
  assert_int_equal(next_of(&a).status, IBV_WC_SUCCESS);
  assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
  assert_int_equal(poll(&event, 1, 20), 0); /* it came before */
  for (int k = 0; k < 2; k++) assert_int_equal(write_one(&a, &b, 0, 8), 0);
  assert_int_equal(poll(&event, 1, 5000), 1); /* nobody polls: data moves by itself */
  assert_int_equal(ibv_get_cq_event(b.channel, &cq, &unused), 0);
  assert_ptr_equal(cq, b.cq);
  assert_int_equal(poll(&event, 1, 20), 0);
  ibv_ack_cq_events(cq, 1);
  pair_close(&a, &b);
}

static void a_write_waits_for_a_receive(void **state)
{
  struct end a, b;
  (void)state;
  pair_open(&a, &b);
  assert_int_equal(write_one(&a, &b, 0, 8), 0);
  assert_true(has_nothing(&a, 20));
  assert_int_equal(fake->count().not_ready, 1);
  assert_int_equal(expect(&b, 1), 0);
  assert_int_equal(next_of(&a).status, IBV_WC_SUCCESS);
  pair_close(&a, &b);
  fake->reset();
  end_open(&a);
  end_open(&b);
  connect_to(&a, b.qp->qp_num, 8, 2);
  connect_to(&b, a.qp->qp_num, 8, 2);
  assert_int_equal(write_one(&a, &b, 0, 8), 0);
  assert_int_equal(next_of(&a).status, IBV_WC_RNR_RETRY_EXC_ERR);
  pair_close(&a, &b);
}

static void who_does_not_answer_is_given_up(void **state)
{
  (void)state;
  for (int k = 0; k < 3; k++) {
    struct end a, b;
    pair_open(&a, &b);
    assert_int_equal(expect(&b, 1), 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (k == 0) fake->port(0);
    if (k == 1) assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
    if (k == 2) ibv_destroy_qp(b.qp);
    if (k == 2) b.qp = NULL;
    assert_int_equal(write_one(&a, &b, 0, 8), 0);
    struct ibv_wc wc = next_of(&a);
    assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_true(wc.vendor_err != 0 && wc.opcode != IBV_WC_RDMA_WRITE);
    struct ibv_async_event event = {.event_type = 0};
    if (k == 0) assert_int_equal(ibv_get_async_event(b.context, &event), 0);
    if (k == 0) assert_true(event.event_type == IBV_EVENT_PORT_ERR && event.element.port_num == 1);
    pair_close(&a, &b);
  }
}

static void completions_are_held_back(void **state)
{
  struct end a, b;
  (void)state;
  pair_open(&a, &b);
  assert_int_equal(expect(&b, 1), 0);
  fake->settings->hold = 1;
  assert_int_equal(write_one(&a, &b, 0, 8), 0);
  assert_true(has_nothing(&b, 20));
  fake->settings->hold = 2;
  assert_int_equal(next_of(&b).status, IBV_WC_SUCCESS);
  assert_true(has_nothing(&a, 20));
  fake->settings->hold = 0;
  assert_int_equal(next_of(&a).status, IBV_WC_SUCCESS);
  pair_close(&a, &b);
}

/* ---- what it finds ---- */

static void a_source_that_changes_too_early_is_a_breach(void **state)
{
  struct end a, b;
  (void)state;
  pair_open(&a, &b);
  assert_int_equal(expect(&b, 1), 0);
  fake->settings->hold = 2;
  assert_int_equal(write_one(&a, &b, 0, 100), 0);
  assert_int_equal(next_of(&b).status, IBV_WC_SUCCESS);
  a.memory[99] ^= 1;
  fake->settings->hold = 0;
  next_of(&a);
  assert_int_equal(fake->count().breaches, 1);
  pair_close(&a, &b);
}

static void a_destination_holds_garbage_from_when_it_was_posted(void **state)
{
  struct end a, b;
  (void)state;
  pair_open(&a, &b);
  fake->settings->scribble = 1;
  fake->settings->hold = 1;
  assert_int_equal(expect(&b, 1), 0);
  assert_int_equal(write_one(&a, &b, 0, 100), 0);
  assert_true(b.memory[0] != 0 && b.memory[100] == 0);
  fake->settings->hold = 0;
  next_of(&b);
  assert_memory_equal(b.memory, a.memory, 100);
  next_of(&a);
  pair_close(&a, &b);
}

static void what_is_left_behind_is_told(void **state)
{
  struct end end;
  (void)state;
  fake->reset();
  end_open(&end);
  assert_false(fake->is_clean());
  assert_int_equal(ibv_destroy_cq(end.cq), EBUSY); /* used */
  assert_int_equal(fake->count().breaches, 1);
  fake->reset();
  end_close(&end);
  assert_true(fake->is_clean());
}

/* ---- faults ---- */

static void any_verb_fails_when_asked_to(void **state)
{
  struct end end;
  (void)state;
  fake->reset();
  end_open(&end);
  fake->break_at("ibv_alloc_pd", 2, ENOSPC);
  struct ibv_pd *pd = ibv_alloc_pd(end.context);
  assert_non_null(pd);
  errno = 0;
  assert_true(ibv_alloc_pd(end.context) == NULL && errno == ENOSPC);
  assert_string_equal(fake->failed(), "ibv_alloc_pd");
  assert_int_equal(ibv_dealloc_pd(pd), 0);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  fake->break_at(NULL, 1, EPERM);
  assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), EPERM);
  assert_string_equal(fake->failed(), "ibv_modify_qp");
  assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), 0);
  end_close(&end);
  assert_true(fake->is_clean());
}

static void any_work_ends_as_asked_for(void **state)
{
  (void)state;
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; status++) {
    struct end a, b;
    pair_open(&a, &b);
    for (int k = 0; k < 3; k++) assert_int_equal(expect(&b, 1), 0);
    fake->settings->send_status = status;
    fake->settings->send_at = 2;
    for (int k = 0; k < 2; k++) assert_int_equal(write_one(&a, &b, 0, 8), 0);
    assert_int_equal(next_of(&a).status, IBV_WC_SUCCESS);
    assert_int_equal(next_of(&a).status, status);
    assert_int_equal(next_of(&b).status, IBV_WC_SUCCESS);
    pair_close(&a, &b);
    pair_open(&a, &b);
    fake->settings->recv_status = status;
    fake->settings->recv_at = 1;
    assert_int_equal(expect(&b, 1), 0);
    assert_int_equal(write_one(&a, &b, 0, 8), 0);
    assert_int_equal(next_of(&b).status, status);
    assert_int_equal(next_of(&a).status, IBV_WC_REM_OP_ERR);
    pair_close(&a, &b);
  }
}

static void a_device_that_is_gone_does_nothing_more(void **state)
{
  struct end a, b;
  struct ibv_async_event event;
  (void)state;
  pair_open(&a, &b);
  fake->settings->hold = 1;
  assert_int_equal(expect(&b, 1), 0);
  assert_int_equal(write_one(&a, &b, 0, 8), 0);
  fake->remove();
  fake->settings->hold = 0;
  assert_int_equal(ibv_get_async_event(a.context, &event), 0);
  assert_int_equal(event.event_type, IBV_EVENT_DEVICE_FATAL);
  assert_true(has_nothing(&a, 50) && has_nothing(&b, 1));
  assert_int_equal(write_one(&a, &b, 0, 8), EIO);
  assert_null(ibv_alloc_pd(a.context));
  pair_close(&a, &b);
}

/* ---- librdmacm ---- */

static void an_address_tells_device_port_and_gid(void **state)
{
  struct sockaddr_in address = {.sin_family = AF_INET};
  struct rdma_cm_id *id;
  (void)state;
  fake->reset();
  struct rdma_event_channel *channel = rdma_create_event_channel();
  assert_non_null(channel);
  assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
  inet_pton(AF_INET, "192.0.2.77", &address.sin_addr);
  assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), -1);
  assert_true(errno == EADDRNOTAVAIL && !id->verbs);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
  assert_string_equal(ibv_get_device_name(id->verbs->device), "fake0");
  assert_int_equal(id->port_num, 1);
  struct ibv_gid_entry entries[32];
  ssize_t n = ibv_query_gid_table(id->verbs, entries, 32, 0), found = 0;
  for (ssize_t i = 0; i < n; i++)
    found += entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
             memcmp(&entries[i].gid, &id->route.addr.addr.ibaddr.sgid, sizeof entries[i].gid) == 0;
  assert_int_equal(found, 1);
  struct ibv_port_attr port;
  assert_int_equal(ibv_query_port(id->verbs, id->port_num, &port), 0);
  assert_true(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET);
  assert_int_equal(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(channel);
  assert_true(fake->is_clean());
}

/* Another program of those that share the file: this one, started anew. It says that it runs, and stays until *in, what
 * it reads from, is closed. */
static pid_t start(const char *path, int *in, int *out)
{
  int to[2], from[2];
  assert_true(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    setenv("FAKE_VERBS_SEGMENT", path, 1);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execl("/proc/self/exe", "stay", "stay", (char *)NULL);
    _exit(1);
  }
  close(to[0]);
  close(from[1]);
  *in = to[1];
  *out = from[0];
  return pid;
}

static void programs_that_share_a_file_run_side_by_side(void **state)
{
  char path[] = "/tmp/fake-verbs-XXXXXX", byte;
  int fd = mkstemp(path), in[3], out[3], status;
  pid_t pids[3];
  (void)state;
  assert_true(fd >= 0);
  close(fd);
  for (int p = 0; p < 3; p++) pids[p] = start(path, &in[p], &out[p]);
  for (int p = 0; p < 3; p++) assert_int_equal(read(out[p], &byte, 1), 1); /* all are there; else the alarm comes */
  for (int p = 0; p < 3; p++) {
    close(in[p]);
    assert_true(waitpid(pids[p], &status, 0) == pids[p] && status == 0);
    close(out[p]);
  }
  unlink(path);
}

static int stay(void)
{
  char byte = 0;
  return write(STDOUT_FILENO, &byte, 1) != 1 || read(STDIN_FILENO, &byte, 1) != 0;
}

int main(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], "stay") == 0) return stay();
  fake = fake_verbs();
  alarm(50);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_event_comes_once_after_it_was_asked_for),
      cmocka_unit_test(a_write_waits_for_a_receive),
      cmocka_unit_test(who_does_not_answer_is_given_up),
      cmocka_unit_test(completions_are_held_back),
      cmocka_unit_test(a_source_that_changes_too_early_is_a_breach),
      cmocka_unit_test(a_destination_holds_garbage_from_when_it_was_posted),
      cmocka_unit_test(what_is_left_behind_is_told),
      cmocka_unit_test(any_verb_fails_when_asked_to),
      cmocka_unit_test(any_work_ends_as_asked_for),
      cmocka_unit_test(a_device_that_is_gone_does_nothing_more),
      cmocka_unit_test(an_address_tells_device_port_and_gid),
      cmocka_unit_test(programs_that_share_a_file_run_side_by_side),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
