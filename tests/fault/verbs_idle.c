/* SPDX-License-Identifier: BSD-3-Clause */
/* On the double of libibverbs: who waits for long sleeps until a completion wakes it, and misses none. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <cmocka.h>

#include "fake_verbs.h"
#include "meeting.h"
#include "ranks.h"
#include "transport_pair.h"

static const struct fake_verbs *fake;

#define MESSAGES 100
#define SHORT 64

static int is_readable(int fd, int ms)
{
  struct pollfd one = {.fd = fd, .events = POLLIN};
  return poll(&one, 1, ms) == 1;
}

static void begin(struct tt_link *link, int sends, struct tt_head *head, struct tt_call *call)
{
  *call = (struct tt_call){.op = 1, .count = SHORT, .type = tuttiUint8};
  *head = (struct tt_head){tt_call_word(call), SHORT, call, 0};
  if (sends) link->ops->send_begin(link, head);
  else link->ops->recv_begin(link, head);
}

/* What this end of the link has to sleep on, once it has told of everything that was there before. */
static int bed_of(struct world_rank *me, struct tt_link *link)
{
  uint32_t events = 0;
  int fd;
  do fd = link->ops->descriptor(link, &events);
  while (fd < 0 && events && !world_is_over(me));
  if (fd < 0 || events != EPOLLIN) world_complain(me, "descriptor %d, events %u", fd, events);
  return fd;
}

static void send_one(struct world_rank *me, struct tt_link *link)
{
  char data[SHORT] = "abc";
  struct tt_head head;
  struct tt_call call;
  size_t sent = 0;
  begin(link, 1, &head, &call);
  while (sent < SHORT && !world_is_over(me)) {
    ssize_t n = link->ops->send(link, data + sent, SHORT - sent);
    WORLD_CHECK(me, n >= 0);
    sent += (size_t)n;
  }
}

static size_t receive_some(struct world_rank *me, struct tt_link *link, size_t left)
{
  char data[SHORT];
  ssize_t n = link->ops->recv(link, data, left);
  if (n < 0) world_complain(me, "recv: %s", link->why);
  return n > 0 ? (size_t)n : 0;
}

/* Rank 1 looks only when its descriptor is readable; no message is missed that came before, while or after it armed. */
static void one_sleeps(struct world_rank *me)
{
  struct tt_link *link = world_open(me, !me->rank, 0);
  struct tt_head head;
  struct tt_call call;
  if (!link) return;
  for (int i = 0; i < MESSAGES; i++) {
    size_t got = 0;
    if (i % 3 == 0) world_barrier(me);
    if (me->rank == 0) {
      send_one(me, link);
      continue;
    }
    begin(link, 0, &head, &call);
    while (got < SHORT && !world_is_over(me)) {
      uint32_t events;
      got += receive_some(me, link, SHORT - got);
      if (got == SHORT) break;
      int fd = link->ops->descriptor(link, &events);
      WORLD_CHECK(me, fd >= 0 || events);
      if (fd >= 0) WORLD_CHECK(me, is_readable(fd, 20000));
    }
  }
  world_barrier(me);
}

/* An idle end is not woken, a message wakes it; and who takes its event says so, whichever lane it asked for: whoever
 * asked for the other one before must look again. */
static void only_completions_wake(struct world_rank *me)
{
  struct tt_link *links[2] = {world_open(me, !me->rank, 0), world_open(me, !me->rank, 1)};
  struct tt_head head;
  struct tt_call call;
  if (!links[0] || !links[1]) return;
  for (int lane = 0; lane < 2; lane++) {
    int fd = -1;
    uint32_t events = 0;
    world_barrier(me);
    if (me->rank == 1) {
      fd = bed_of(me, links[0]);
      WORLD_CHECK(me, fd == bed_of(me, links[1]));
      WORLD_CHECK(me, !is_readable(fd, 50));
    }
    world_barrier(me);
    if (me->rank == 0) {
      send_one(me, links[lane]);
      continue;
    }
    WORLD_CHECK(me, is_readable(fd, 20000));
    WORLD_CHECK(me, links[!lane]->ops->descriptor(links[!lane], &events) < 0 && events);
    begin(links[lane], 0, &head, &call);
    for (size_t got = 0; got < SHORT && !world_is_over(me);) got += receive_some(me, links[lane], SHORT - got);
  }
  world_barrier(me);
}

static void a_sleeper_misses_nothing(void **state)
{
  (void)state;
  for (int seed = 0; seed < 4; seed++) {
    fake->reset();
    fake->settings->seed = seed;
    fake->settings->delay_us = 200;
    struct world world = {.ops = &tt_transport_verbs, .nranks = 2, .lanes = 2, .body = one_sleeps};
    const char *complaint = world_run(&world);
    if (complaint) fail_msg("seed %d: %s", seed, complaint);
    assert_true(fake->is_clean());
  }
}

static void a_sleeper_is_woken_by_completions_only(void **state)
{
  (void)state;
  fake->reset();
  struct world world = {.ops = &tt_transport_verbs, .nranks = 2, .lanes = 2, .body = only_completions_wake};
  const char *complaint = world_run(&world);
  if (complaint) fail_msg("%s", complaint);
  assert_true(fake->is_clean());
}

/* ---- a rank ---- */

#define LIMIT_S 60
#define WAIT_MS 1500 /* from then on it sleeps for 10 ms at a time */
#define WATCH_MS 1000

struct trial {
  struct meeting *meeting;
  int is_reduce;
};

static int act(const struct trial *trial, int rank, tuttiComm_t comm)
{
  int32_t data = rank + 1;
  if (trial->is_reduce) {
    if (tuttiAllReduce(&data, &data, 1, tuttiInt32, tuttiSum, comm, NULL) != tuttiSuccess) return 1;
    return data != 3;
  }
  if (rank == 1) return tuttiSend(&data, 1, tuttiInt32, 0, comm, NULL) != tuttiSuccess;
  return tuttiRecv(&data, 1, tuttiInt32, 1, comm, NULL) != tuttiSuccess || data != 2;
}

/* Rank 1 looks on while rank 0 waits for it. */
/* The other rank, as soon as it has waited for long, which may be later where it was held up. */
static int looks_seldom(void)
{
  for (int tries = 0; tries < 5; tries++) {
    tt_sleep_ns(WAIT_MS * 1000000ull);
    long polls = fake->count().polls, began = meeting_now_ms();
    tt_sleep_ns(WATCH_MS * 1000000ull);
    long most = (meeting_now_ms() - began) / 10 * 4 + 20, looked = fake->count().polls - polls;
    if (looked <= most) return 1;
    fprintf(stderr, "%ld looks, at most %ld were to be\n", looked, most);
  }
  return 0;
}

static int one_waits(const struct ranks *self)
{
  struct trial *trial = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm;
  RANKS_CHECK(meeting_id(trial->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, id, self->rank) == tuttiSuccess);
  for (int i = 0; i < 3; i++) RANKS_CHECK(act(trial, self->rank, comm) == 0);
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (self->rank == 1) {
    RANKS_CHECK(looks_seldom());
    long notified = fake->count().notified;
    RANKS_CHECK(act(trial, self->rank, comm) == 0);
    RANKS_CHECK(meeting_wait(trial->meeting));
    RANKS_CHECK(fake->count().notified > notified);
  } else {
    RANKS_CHECK(act(trial, self->rank, comm) == 0);
    RANKS_CHECK(meeting_wait(trial->meeting));
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static int as_threads(const struct ranks *self)
{
  return ranks_run_threads(2, one_waits, self->argument, LIMIT_S);
}

static void a_waiting_rank_sleeps_and_is_woken(void **state)
{
  (void)state;
  for (int is_reduce = 0; is_reduce < 2; is_reduce++) {
    struct trial *trial = ranks_shared(sizeof *trial);
    trial->meeting = meeting_make(2);
    trial->is_reduce = is_reduce;
    fake->reset();
    int bad = ranks_run_processes(1, as_threads, trial, LIMIT_S);
    meeting_free(trial->meeting);
    if (bad) fail_msg("%s", is_reduce ? "an all-reduce" : "a receive");
  }
}

int main(void)
{
  fake = fake_verbs();
  setenv("TUTTI_TRANSPORTS", "verbs", 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_waiting_rank_sleeps_and_is_woken), /* forks, so it comes before what uses the library here */
      cmocka_unit_test(a_sleeper_misses_nothing),
      cmocka_unit_test(a_sleeper_is_woken_by_completions_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
