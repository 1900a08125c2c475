/* SPDX-License-Identifier: BSD-3-Clause */
/* The double of libibverbs and librdmacm: it moves what a device would move, and refuses what a device would refuse. */
#include <arpa/inet.h>
#include <errno.h>
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

/* ---- what moves ---- */

static void a_write_with_immediate_moves_bytes_and_takes_a_receive(void **state)
{
  struct end a, b;
  (void)state;
  pair_open(&a, &b);
  fill(a.memory, 1);
  assert_int_equal(expect(&b, 77), 0);
  assert_int_equal(write_one(&a, &b, 1000, 30000), 0);
  struct ibv_wc got = next_of(&b), sent = next_of(&a);
  assert_true(got.status == IBV_WC_SUCCESS && got.opcode == IBV_WC_RECV_RDMA_WITH_IMM && got.wr_id == 77);
  assert_true(ntohl(got.imm_data) == 1000 && got.byte_len == 30000 && got.qp_num == b.qp->qp_num);
  assert_true(sent.status == IBV_WC_SUCCESS && sent.opcode == IBV_WC_RDMA_WRITE && sent.wr_id == 1000);
  assert_memory_equal(a.memory + 1000, b.memory + 1000, 30000);
  assert_true(b.memory[999] == 0 && b.memory[31000] == 0);
  pair_close(&a, &b);
}

static void a_send_is_scattered_and_a_read_fetches(void **state)
{
  struct end a, b;
  struct ibv_sge sge, into[2];
  (void)state;
  pair_open(&a, &b);
  fill(a.memory, 2);
  into[0] = (struct ibv_sge){(uintptr_t)b.memory, 10, b.mr->lkey};
  into[1] = (struct ibv_sge){(uintptr_t)b.memory + 100, 50, b.mr->lkey};
  struct ibv_recv_wr recv = {.sg_list = into, .num_sge = 2}, *bad;
  assert_int_equal(ibv_post_recv(b.qp, &recv, &bad), 0);
  struct ibv_send_wr wr = work(&sge, &a, &b, 0, 40);
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  assert_int_equal(post(&a, wr), 0);
  assert_true(next_of(&b).opcode == IBV_WC_RECV && next_of(&a).opcode == IBV_WC_SEND);
  assert_memory_equal(b.memory, a.memory, 10);
  assert_memory_equal(b.memory + 100, a.memory + 10, 30);
  fill(b.memory, 9);
  wr = work(&sge, &a, &b, 5000, 5000);
  wr.opcode = IBV_WR_RDMA_READ;
  assert_int_equal(post(&a, wr), 0);
  assert_true(next_of(&a).opcode == IBV_WC_RDMA_READ);
  assert_memory_equal(b.memory + 5000, a.memory + 5000, 5000);
  pair_close(&a, &b);
}

static void memory_of_a_descriptor_can_be_written(void **state)
{
  struct end a, b;
  struct ibv_sge sge;
  (void)state;
  pair_open(&a, &b);
  fill(a.memory, 3);
  int fd = memfd_create("fake", MFD_CLOEXEC);
  assert_int_equal(ftruncate(fd, 3 * 4096), 0);
  struct ibv_mr *mr = ibv_reg_dmabuf_mr(b.pd, 4096, 8192, 0x10000, fd, ALL_ACCESS);
  assert_non_null(mr);
  struct ibv_send_wr wr = work(&sge, &a, &b, 0, 100);
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = 0x10000 + 50;
  wr.wr.rdma.rkey = mr->rkey;
  assert_int_equal(post(&a, wr), 0);
  assert_int_equal(next_of(&a).status, IBV_WC_SUCCESS);
  char there[100];
  assert_int_equal(pread(fd, there, sizeof there, 4096 + 50), sizeof there);
  assert_memory_equal(there, a.memory, sizeof there);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  close(fd);
  pair_close(&a, &b);
}

/* Many pairs with a few writes each, none polled before all are posted. */
static void queue_pairs_overtake_each_other_and_keep_their_own_order(void **state)
{
  enum { PAIRS = 6, EACH = 8 };
  struct end a[PAIRS], b[PAIRS];
  (void)state;
  for (int p = 0; p < PAIRS; p++) pair_open(&a[p], &b[p]);
  fake->settings->seed = 11;
  fake->settings->delay_us = 300;
  fake->settings->scribble = 1;
  for (int k = 0; k < EACH; k++)
    for (int p = 0; p < PAIRS; p++) {
      if (k == 0) fill(a[p].memory, (unsigned)p);
      assert_int_equal(expect(&b[p], (uint64_t)k), 0);
      assert_int_equal(write_one(&a[p], &b[p], (size_t)k * 8000, 8000), 0);
    }
  for (int k = 0; k < EACH; k++)
    for (int p = 0; p < PAIRS; p++) {
      assert_int_equal(next_of(&b[p]).wr_id, k);
      assert_memory_equal(a[p].memory + k * 8000, b[p].memory + k * 8000, 8000);
      assert_int_equal(next_of(&a[p]).wr_id, k * 8000);
    }
  assert_true(fake->count().overtaken > 0);
  fake->reset();
  for (int p = 0; p < PAIRS; p++) {
    end_close(&a[p]);
    end_close(&b[p]);
  }
  assert_true(fake->is_clean());
}

static void forked_processes_reach_each_other(void **state)
{
  (void)state;
  fake->reset();
  uint32_t *numbers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  _Atomic uint32_t *ready = (void *)(numbers + 8);
  uint64_t *memory = (uint64_t *)(void *)(numbers + 16);
  pid_t child = fork();
  int me = child == 0;
  struct end end;
  end_open(&end);
  numbers[me] = end.qp->qp_num;
  numbers[2 + me] = end.mr->rkey;
  memory[me] = (uintptr_t)end.memory;
  atomic_fetch_add(ready, 1);
  while (atomic_load(ready) < 2) sched_yield();
  connect_to(&end, numbers[!me], 14, 7);
  assert_int_equal(expect(&end, 1), 0);
  memset(end.memory, 'a' + me, BYTES);
  assert_int_equal(ibv_req_notify_cq(end.cq, 0), 0);
  atomic_fetch_add(ready, 1);
  while (atomic_load(ready) < 4) sched_yield();
  struct ibv_sge sge;
  struct ibv_mr far = {.rkey = numbers[2 + !me]};
  struct end peer = {.memory = (char *)(uintptr_t)memory[!me], .mr = &far}; /* an address of the other process */
  assert_int_equal(post(&end, work(&sge, &end, &peer, 1000 * (size_t)me, 500)), 0);
  uint64_t until = tt_now_ns() + WAIT_NS;
  int n = 0;
  while (n < 2 && tt_now_ns() < until) n += next_of(&end).status == IBV_WC_SUCCESS;
  const char *got = end.memory + 1000 * !me;
  int is_right = n == 2 && got[0] == 'a' + !me && got[499] == 'a' + !me && got[500] == 'a' + me;
  struct pollfd event = {.fd = end.channel->fd, .events = POLLIN};
  is_right = is_right && poll(&event, 1, 5000) == 1;
  atomic_fetch_add(ready, 1);
  while (atomic_load(ready) < 6) sched_yield();
  end_close(&end);
  if (me) _exit(!is_right);
  int status = -1;
  waitpid(child, &status, 0);
  assert_true(is_right && status == 0);
  munmap(numbers, 4096);
  assert_true(fake->is_clean());
}

/* ---- what is refused ---- */

static void both_are_broken(const struct end *a, const struct end *b, int status)
{
  struct ibv_async_event event;
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  assert_int_equal(next_of(a).status, status);
  assert_int_equal(next_of(b).status, IBV_WC_WR_FLUSH_ERR); /* a receive that was posted */
  assert_int_equal(ibv_query_qp(b->qp, &attr, IBV_QP_STATE, &init), 0);
  assert_int_equal(attr.qp_state, IBV_QPS_ERR);
  assert_int_equal(ibv_get_async_event(b->context, &event), 0);
  assert_ptr_equal(event.element.qp, b->qp);
  ibv_ack_async_event(&event);
  assert_int_equal(write_one(a, b, 0, 8), 0);
  assert_int_equal(next_of(a).status, IBV_WC_WR_FLUSH_ERR);
}

static void a_write_outside_of_a_region_breaks_both_ends(void **state)
{
  (void)state;
  for (int k = 0; k < 4; k++) {
    struct end a, b;
    struct ibv_sge sge;
    pair_open(&a, &b);
    assert_int_equal(expect(&b, 1), 0);
    struct ibv_send_wr wr = work(&sge, &a, &b, BYTES - 8, 8);
    if (k == 0) wr.wr.rdma.remote_addr += 1;
    if (k == 1) wr.wr.rdma.remote_addr = (uintptr_t)b.memory - 1;
    if (k == 2) wr.wr.rdma.rkey = b.mr->lkey;
    if (k == 3) wr.wr.rdma.rkey += 1u << 20;
    assert_int_equal(post(&a, wr), 0);
    both_are_broken(&a, &b, IBV_WC_REM_ACCESS_ERR);
    pair_close(&a, &b);
  }
}

static void a_source_that_is_not_registered_is_a_local_error(void **state)
{
  struct end a, b;
  struct ibv_sge sge;
  (void)state;
  pair_open(&a, &b);
  assert_int_equal(expect(&b, 1), 0);
  struct ibv_send_wr wr = work(&sge, &a, &b, 0, 8);
  sge.lkey = b.mr->lkey; /* of another domain */
  assert_int_equal(post(&a, wr), 0);
  assert_int_equal(next_of(&a).status, IBV_WC_LOC_PROT_ERR);
  assert_true(has_nothing(&b, 20));
  pair_close(&a, &b);
}

static void states_follow_each_other_as_they_must(void **state)
{
  struct end end;
  (void)state;
  fake->reset();
  end_open(&end);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
  assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), EINVAL);
  assert_int_equal(expect(&end, 1), EINVAL);
  attr.port_num = 3;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  assert_int_equal(ibv_modify_qp(end.qp, &attr, mask), EINVAL);
  attr.port_num = 1;
  assert_int_equal(ibv_modify_qp(end.qp, &attr, mask), 0);
  assert_int_equal(expect(&end, 1), 0);
  assert_int_equal(write_one(&end, &end, 0, 8), EINVAL);
  attr.qp_state = IBV_QPS_ERR;
  assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), 0);
  assert_int_equal(next_of(&end).status, IBV_WC_WR_FLUSH_ERR);
  end_close(&end);
  assert_true(fake->is_clean());
}

static void places_are_free_when_their_completion_was_polled(void **state)
{
  struct end a, b;
  struct ibv_sge sge;
  (void)state;
  pair_open(&a, &b);
  for (int k = 0; k < WRS; k++) {
    struct ibv_send_wr wr = work(&sge, &a, &b, 0, 8);
    wr.opcode = IBV_WR_RDMA_WRITE;
    if (k < WRS - 1) wr.send_flags = 0;
    assert_int_equal(post(&a, wr), 0);
  }
  tt_sleep_ns(20000000);
  assert_int_equal(write_one(&a, &b, 0, 8), ENOMEM);
  assert_int_equal(next_of(&a).status, IBV_WC_SUCCESS);
  assert_true(has_nothing(&a, 20));
  for (int k = 0; k < WRS; k++) assert_int_equal(expect(&b, 1), 0);
  assert_int_equal(expect(&b, 1), ENOMEM);
  assert_int_equal(write_one(&a, &b, 0, 8), 0);
  struct ibv_send_wr wr = work(&sge, &a, &b, 0, 65);
  wr.send_flags = IBV_SEND_INLINE;
  assert_int_equal(post(&a, wr), EINVAL);
  pair_close(&a, &b);
}

static void what_a_process_may_register_is_limited(void **state)
{
  struct end end;
  static char more[8192];
  (void)state;
  fake->reset();
  end_open(&end);
  fake->settings->memlock = BYTES + 5000;
  errno = 0;
  assert_null(ibv_reg_mr(end.pd, more, sizeof more, ALL_ACCESS));
  assert_int_equal(errno, ENOMEM);
  struct ibv_mr *mr = ibv_reg_mr(end.pd, more, 4096, ALL_ACCESS);
  assert_non_null(mr);
  assert_int_equal(fake->count().registered, BYTES + 4096);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  end_close(&end);
  assert_true(fake->is_clean());
}

static void a_full_completion_queue_is_fatal(void **state)
{
  struct end a, b;
  struct ibv_async_event event;
  (void)state;
  pair_open(&a, &b);
  struct ibv_cq *small = ibv_create_cq(b.context, 2, NULL, NULL, 0);
  struct ibv_qp_init_attr attr = {.send_cq = small, .recv_cq = small, .qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
  struct ibv_qp *before = b.qp;
  b.qp = ibv_create_qp(b.pd, &attr);
  struct end c = a;
  attr.send_cq = attr.recv_cq = a.cq;
  c.qp = ibv_create_qp(a.pd, &attr);
  connect_to(&b, c.qp->qp_num, 8, 7);
  connect_to(&c, b.qp->qp_num, 8, 7);
  for (int k = 0; k < 3; k++) assert_int_equal(expect(&b, 1), 0);
  for (int k = 0; k < 3; k++) assert_int_equal(write_one(&c, &b, 0, 8), 0);
  assert_int_equal(ibv_get_async_event(b.context, &event), 0);
  assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
  assert_true(event.element.cq == small && fake->count().breaches == 1);
  ibv_ack_async_event(&event);
  ibv_destroy_qp(b.qp);
  ibv_destroy_qp(c.qp);
  ibv_destroy_cq(small);
  b.qp = before;
  pair_close(&a, &b);
}

int main(void)
{
  fake = fake_verbs();
  alarm(50);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forked_processes_reach_each_other), /* first: no threads yet */
      cmocka_unit_test(a_write_with_immediate_moves_bytes_and_takes_a_receive),
      cmocka_unit_test(a_send_is_scattered_and_a_read_fetches),
      cmocka_unit_test(memory_of_a_descriptor_can_be_written),
      cmocka_unit_test(queue_pairs_overtake_each_other_and_keep_their_own_order),
      cmocka_unit_test(a_write_outside_of_a_region_breaks_both_ends),
      cmocka_unit_test(a_source_that_is_not_registered_is_a_local_error),
      cmocka_unit_test(states_follow_each_other_as_they_must),
      cmocka_unit_test(places_are_free_when_their_completion_was_polled),
      cmocka_unit_test(what_a_process_may_register_is_limited),
      cmocka_unit_test(a_full_completion_queue_is_fatal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
