/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract of frames (exec/exec.h: mail.c), and of a communicator that carries them (comm/comm.h), on every
 * transport, bare and decorated: they come whole and in order, none is lost, few wait at once, what is no frame is
 * refused, and a rank that dies or leaves is an error where a frame is missed, and no hang. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chance.h"
#include "comm/private.h"
#include "decorations.h"
#include "exec/private.h"
#include "meeting.h"
#include "ranks.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { MOST_RANKS = 4, LIMIT_S = 60, LIMIT_MS = 30000 };

struct load {
  int nranks, frames;
  size_t bytes;
  int how;
  struct meeting *meeting;
  _Atomic int *posted; /* in shared memory */
};

static void set(const char *name, const char *value)
{
  if (value) setenv(name, value, 1);
  else unsetenv(name);
}

/* Ranks are threads of this process. From then on it can fork no ranks: it has used Tutti. */
static int are_threads;

/* On every transport, with the first of the decorations. */
static void on_all(ranks_body body, struct load load, int ndecorations)
{
  set("TUTTI_DEBUG", "NONE");
  load.posted = ranks_shared(sizeof *load.posted);
  for (int t = 0; ranks_transports(t); t++)
    for (int d = 0; d < ndecorations; d++) {
      set("TUTTI_TRANSPORTS", ranks_transports(t));
      set("TUTTI_TRACE", decorations[d].trace);
      set("TUTTI_FAULT", decorations[d].fault);
      load.meeting = meeting_make(load.nranks);
      int bad = (are_threads ? ranks_run_threads : ranks_run_processes)(load.nranks, body, &load, LIMIT_S);
      meeting_free(load.meeting);
      set("TUTTI_TRACE", NULL);
      set("TUTTI_FAULT", NULL);
      if (bad)
        fail_msg("%s%s, ranks as %s", ranks_transports(t), decorations[d].name, are_threads ? "threads" : "processes");
    }
}

/* ---- frames ---- */

/* Byte i of the k-th frame from one rank to another. */
static uint8_t byte_of(int from, int to, int k, size_t i)
{
  return (uint8_t)(i * 7 + i / 251 + (size_t)k * 31 + (size_t)from * 101 + (size_t)to * 57);
}

static void frame_fill(uint8_t *frame, size_t bytes, int from, int to, int k)
{
  for (size_t i = 0; i < bytes; i++) frame[i] = byte_of(from, to, k, i);
}

static int frame_check(const struct ranks *self, const uint8_t *frame, size_t bytes, int from, int k)
{
  for (size_t i = 0; i < bytes; i++) {
    if (frame[i] == byte_of(from, self->rank, k, i)) continue;
    fprintf(stderr, "rank %d: byte %zu of frame %d from rank %d is wrong\n", self->rank, i, k, from);
    return 1;
  }
  return 0;
}

/* All other ranks are peers, in order. */
static int peer_of(const struct ranks *self, int p)
{
  return p + (p >= self->rank);
}

static int frames_start(const struct ranks *self, tuttiComm_t *comm)
{
  const struct load *load = self->argument;
  int32_t peers[MOST_RANKS];
  for (int p = 0; p < self->nranks - 1; p++) peers[p] = (int32_t)peer_of(self, p);
  RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tt_comm_mail_make(*comm, peers, self->nranks - 1, load->bytes) == tuttiSuccess);
  return 0;
}

/* ---- order ---- */

struct traffic {
  uint8_t *frame;
  int posted[MOST_RANKS], came[MOST_RANKS]; /* by peer */
  int left;                                 /* frames to post or to come */
  uint64_t chance;
};

/* A rank posts while there is room; what else there is to post waits for that. */
static int traffic_post(const struct ranks *self, tuttiComm_t comm, struct traffic *traffic)
{
  const struct load *load = self->argument;
  int p = (int)below(&traffic->chance, (size_t)self->nranks - 1);
  int n = traffic->posted[p];
  if (n == load->frames || (n % TT_MAIL_FRAMES == 0 && !tt_comm_mail_is_sent(comm))) return 0;
  frame_fill(traffic->frame, load->bytes, self->rank, peer_of(self, p), n);
  RANKS_CHECK(tt_comm_mail_post(comm, p, traffic->frame) == tuttiSuccess);
  memset(traffic->frame, 0xee, load->bytes); /* it was copied */
  traffic->posted[p]++;
  traffic->left--;
  return 0;
}

static int traffic_take(const struct ranks *self, tuttiComm_t comm, struct traffic *traffic)
{
  const struct load *load = self->argument;
  const void *frame;
  int p;
  while ((frame = tt_comm_mail_take(comm, &p))) {
    RANKS_CHECK(p >= 0 && p < self->nranks - 1 && traffic->came[p] < load->frames);
    if (frame_check(self, frame, load->bytes, peer_of(self, p), traffic->came[p])) return 1;
    traffic->came[p]++;
    traffic->left--;
  }
  return 0;
}

static int traffic_body(const struct ranks *self)
{
  const struct load *load = self->argument;
  struct traffic traffic = {.left = 2 * load->frames * (self->nranks - 1), .chance = (uint64_t)self->rank + 1};
  tuttiComm_t comm;
  int moved = 0;
  traffic.frame = malloc(load->bytes);
  RANKS_CHECK(traffic.frame);
  if (frames_start(self, &comm)) return 1;
  while (traffic.left || !tt_comm_mail_is_sent(comm)) {
    if (below(&traffic.chance, 2) && traffic_post(self, comm, &traffic)) return 1;
    RANKS_CHECK(tt_comm_mail_poll(comm, (int)below(&traffic.chance, 2), &moved) == tuttiSuccess);
    if (below(&traffic.chance, 2) && traffic_take(self, comm, &traffic)) return 1;
    if (below(&traffic.chance, 3000) == 0) usleep(500);
    if (below(&traffic.chance, 4) == 0) sched_yield();
  }
  RANKS_CHECK(meeting_wait(load->meeting));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  free(traffic.frame);
  return 0;
}

static void frames_come_whole_and_in_order_and_none_is_lost(void **state)
{
  (void)state;
  if (IS_TSAN && !are_threads) return;
  on_all(traffic_body, (struct load){.nranks = 3, .frames = IS_SLOW ? 60 : 600, .bytes = 40}, 3);
  on_all(traffic_body, (struct load){.nranks = 4, .frames = 40, .bytes = 5000}, IS_SLOW ? 1 : 3);
  on_all(traffic_body, (struct load){.nranks = 2, .frames = 30, .bytes = 300000}, IS_SLOW ? 1 : 3);
}

/* ---- bounds ---- */

/* Posts until there is no room any more, and nothing has moved for a while: how many. */
static int posted_till_full(const struct ranks *self, tuttiComm_t comm, uint8_t *frame, int *n)
{
  const struct load *load = self->argument;
  int is_full = 0;
  for (long until_ms = meeting_now_ms() + 200; !is_full || meeting_now_ms() < until_ms;) {
    int moved = 0;
    RANKS_CHECK(*n < load->frames); /* where would they all be? */
    frame_fill(frame, load->bytes, self->rank, 1, *n);
    is_full = tt_comm_mail_post(comm, 0, frame) != tuttiSuccess;
    if (is_full) RANKS_CHECK(says("rank 1"));
    *n += !is_full;
    RANKS_CHECK(tt_comm_mail_poll(comm, 0, &moved) == tuttiSuccess);
    if (moved) until_ms = meeting_now_ms() + 200;
    sched_yield();
  }
  return 0;
}

static int full_body(const struct ranks *self)
{
  const struct load *load = self->argument;
  uint8_t *frame = malloc(load->bytes);
  struct traffic traffic = {.frame = frame};
  tuttiComm_t comm;
  int n = 0, moved = 0;
  RANKS_CHECK(frame);
  if (frames_start(self, &comm)) return 1;
  for (; self->rank == 0 && n < TT_MAIL_FRAMES; n++) {
    frame_fill(frame, load->bytes, 0, 1, n);
    RANKS_CHECK(tt_comm_mail_post(comm, 0, frame) == tuttiSuccess && !tt_comm_mail_is_sent(comm));
  }
  if (self->rank == 0) RANKS_CHECK(tt_comm_mail_post(comm, 0, frame) == tuttiInternalError && says("rank 1"));
  if (self->rank == 0 && posted_till_full(self, comm, frame, &n)) return 1;
  if (self->rank == 0) atomic_store(load->posted, n);
  RANKS_CHECK(meeting_wait(load->meeting)); /* until now rank 1 has taken nothing */
  while (self->rank ? traffic.came[0] < atomic_load(load->posted) : !tt_comm_mail_is_sent(comm)) {
    RANKS_CHECK(tt_comm_mail_poll(comm, 0, &moved) == tuttiSuccess);
    if (traffic_take(self, comm, &traffic)) return 1;
    sched_yield();
  }
  RANKS_CHECK(meeting_wait(load->meeting));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  free(frame);
  return 0;
}

static void a_full_buffer_refuses_frames_and_loses_none(void **state)
{
  (void)state;
  if (IS_TSAN && !are_threads) return;
  on_all(full_body, (struct load){.nranks = 2, .frames = 2000, .bytes = 65536}, 1);
}

/* ---- what is no frame ---- */

enum { SKIPPED, REPEATED, LONGER, SHORTER, OF_A_CALL, WRONGS };

/* Rank 0's second message, by the link of its frames. */
static int wrong_send(const struct ranks *self, tuttiComm_t comm, int how)
{
  const struct load *load = self->argument;
  static const uint8_t data[1000];
  size_t len = load->bytes + (how == LONGER ? 8 : 0) - (how == SHORTER ? 8 : 0), sent = 0;
  struct tt_call call = {.op = how == SKIPPED ? 3 : how == REPEATED ? 1 : 2,
                         .count = len,
                         .collective = how == OF_A_CALL ? TT_BROADCAST : TT_PAIRS,
                         .type = tuttiUint8,
                         .root = how == OF_A_CALL ? 0 : -1};
  struct tt_head head = {.word = tt_call_word(&call), .len = len, .call = &call};
  struct tt_link *link = NULL;
  RANKS_CHECK(tt_exec_link(comm->parts.exec, 1, 0, &link) == tuttiSuccess && link);
  link->ops->send_begin(link, &head);
  while (sent < len) {
    ssize_t n = link->ops->send(link, data + sent, len - sent);
    if (n < 0) break; /* it was refused already */
    sent += (size_t)n;
    if (n == 0) sched_yield();
  }
  return 0;
}

static int wrong_body(const struct ranks *self)
{
  const struct load *load = self->argument;
  struct traffic traffic = {.frame = malloc(load->bytes)};
  tuttiComm_t comm;
  tuttiResult_t result = tuttiSuccess;
  RANKS_CHECK(traffic.frame);
  if (frames_start(self, &comm)) return 1;
  frame_fill(traffic.frame, load->bytes, self->rank, !self->rank, 0);
  RANKS_CHECK(tt_comm_mail_post(comm, 0, traffic.frame) == tuttiSuccess);
  for (int moved = 0; !traffic.came[0] || !tt_comm_mail_is_sent(comm); sched_yield()) {
    RANKS_CHECK(tt_comm_mail_poll(comm, 0, &moved) == tuttiSuccess);
    if (traffic_take(self, comm, &traffic)) return 1;
  }
  RANKS_CHECK(meeting_wait(load->meeting));
  if (self->rank == 0 && wrong_send(self, comm, load->how)) return 1;
  tt_comm_round_begin(comm, 1); /* a frame is missed */
  for (long end_ms = meeting_now_ms() + LIMIT_MS; result == tuttiSuccess; sched_yield()) {
    int moved = 0, p;
    if (self->rank) result = tt_comm_mail_poll(comm, 0, &moved);
    if (result == tuttiSuccess) result = tt_comm_health(comm);
    RANKS_CHECK(!tt_comm_mail_take(comm, &p) && meeting_now_ms() < end_ms);
  }
  RANKS_CHECK(result == tuttiInvalidUsage || result == tuttiRemoteError);
  RANKS_CHECK(comm_says(comm, "rank "));
  RANKS_CHECK(meeting_wait(load->meeting));
  tuttiCommAbort(comm);
  free(traffic.frame);
  return 0;
}

static void a_message_that_is_not_the_next_frame_is_refused_on_both_sides(void **state)
{
  (void)state;
  if (IS_TSAN && !are_threads) return;
  for (int how = 0; how < WRONGS; how++)
    on_all(wrong_body, (struct load){.nranks = 2, .frames = 1, .bytes = 200, .how = how}, 1);
}

/* ---- ranks that are gone ---- */

enum { DIES, LEAVES };

/* In a round until it fails. */
static tuttiResult_t wait_in_vain(tuttiComm_t comm, long end_ms)
{
  uint64_t since_ns = tt_now_ns();
  tuttiResult_t result = tuttiSuccess;
  tt_comm_round_begin(comm, 1);
  while (result == tuttiSuccess && meeting_now_ms() < end_ms) {
    int moved = 0, p;
    result = tt_comm_mail_poll(comm, 0, &moved);
    while (result == tuttiSuccess && tt_comm_mail_take(comm, &p)) continue;
    if (result == tuttiSuccess) result = tt_comm_health(comm);
    tt_comm_round_look(comm, since_ns);
    usleep(1000);
  }
  return result;
}

/* Rank 1 goes when it has frames of the others, and they have its. */
static int gone_body(const struct ranks *self)
{
  const struct load *load = self->argument;
  struct traffic traffic = {.left = 2 * load->frames * (self->nranks - 1), .chance = (uint64_t)self->rank};
  tuttiComm_t comm;
  int moved = 0;
  traffic.frame = malloc(load->bytes);
  RANKS_CHECK(traffic.frame);
  if (frames_start(self, &comm)) return 1;
  while (traffic.left || !tt_comm_mail_is_sent(comm)) {
    if (traffic_post(self, comm, &traffic)) return 1;
    RANKS_CHECK(tt_comm_mail_poll(comm, 0, &moved) == tuttiSuccess);
    if (traffic_take(self, comm, &traffic)) return 1;
    sched_yield();
  }
  RANKS_CHECK(meeting_wait(load->meeting));
  if (self->rank == 1 && load->how == DIES) raise(SIGKILL);
  if (self->rank == 1) RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  for (int k = 0; self->rank != 1 && load->how == LEAVES && k < 100; k++) { /* outside rounds that is no error */
    RANKS_CHECK(tt_comm_mail_poll(comm, k % 2, &moved) == tuttiSuccess && tt_comm_health(comm) == tuttiSuccess);
    usleep(1000);
  }
  if (load->how == LEAVES) RANKS_CHECK(meeting_wait(load->meeting));
  if (self->rank != 1) {
    RANKS_CHECK(wait_in_vain(comm, meeting_now_ms() + LIMIT_MS) == tuttiRemoteError && comm_says(comm, "rank 1"));
    tuttiCommAbort(comm);
  }
  free(traffic.frame);
  return 0;
}

static void a_rank_that_dies_is_an_error(void **state)
{
  int pids[MOST_RANKS];
  (void)state;
  set("TUTTI_DEBUG", "NONE");
  for (int t = 0; ranks_transports(t); t++) {
    struct load load = {.nranks = 3, .frames = 3, .bytes = 40, .how = DIES, .meeting = meeting_make(3)};
    set("TUTTI_TRANSPORTS", ranks_transports(t));
    assert_int_equal(ranks_start(3, gone_body, &load, pids), 0);
    for (int r = 0; r < 3; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), r == 1 ? 128 + SIGKILL : 0);
    meeting_free(load.meeting);
  }
}

static void a_rank_that_leaves_is_an_error_in_a_round_only(void **state)
{
  (void)state;
  on_all(gone_body, (struct load){.nranks = 3, .frames = 3, .bytes = 40, .how = LEAVES}, 1);
}

/* Rank 1 ends the round of all, and leaves. The others wait in it for a third rank, for longer than the cause of a
 * broken link is looked for. */
static int ahead_body(const struct ranks *self)
{
  const struct load *load = self->argument;
  tuttiComm_t comm;
  if (frames_start(self, &comm)) return 1;
  uint64_t since_ns = tt_now_ns();
  tt_comm_round_begin(comm, 1);
  RANKS_CHECK(meeting_wait(load->meeting));
  if (self->rank == 1) tt_comm_round_end(comm);
  for (long end_ms = meeting_now_ms() + 800; self->rank != 1 && meeting_now_ms() < end_ms; usleep(1000)) {
    int moved = 0;
    RANKS_CHECK(tt_comm_mail_poll(comm, 0, &moved) == tuttiSuccess && tt_comm_health(comm) == tuttiSuccess);
    tt_comm_round_look(comm, since_ns);
  }
  if (self->rank != 1) tt_comm_round_end(comm);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_rank_that_leaves_behind_a_round_is_no_error_in_it(void **state)
{
  (void)state;
  on_all(ahead_body, (struct load){.nranks = 3, .bytes = 40}, 1);
}

/* The link breaks at rank 0's fourth frame. */
static int broken_body(const struct ranks *self)
{
  const struct load *load = self->argument;
  uint8_t frame[64] = {0};
  tuttiComm_t comm;
  if (frames_start(self, &comm)) return 1;
  for (int k = 0; k < 4; k++) RANKS_CHECK(tt_comm_mail_post(comm, 0, frame) == tuttiSuccess);
  RANKS_CHECK(wait_in_vain(comm, meeting_now_ms() + LIMIT_MS) == tuttiRemoteError);
  RANKS_CHECK(comm_says(comm, "rank "));
  RANKS_CHECK(meeting_wait(load->meeting));
  tuttiCommAbort(comm);
  return 0;
}

static void a_link_that_breaks_is_an_error(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    struct load load = {.nranks = 2, .bytes = 40, .meeting = meeting_make(2)};
    set("TUTTI_DEBUG", "NONE");
    set("TUTTI_TRANSPORTS", ranks_transports(t));
    set("TUTTI_FAULT", "rank=0,peer=1,nth=4,action=drop");
    assert_int_equal(ranks_run_processes(2, broken_body, &load, LIMIT_S), 0);
    set("TUTTI_FAULT", NULL);
    meeting_free(load.meeting);
  }
}

static void the_same_holds_for_threads_of_one_process(void **state)
{
  are_threads = 1;
  frames_come_whole_and_in_order_and_none_is_lost(state);
  a_full_buffer_refuses_frames_and_loses_none(state);
  a_message_that_is_not_the_next_frame_is_refused_on_both_sides(state);
  a_rank_that_leaves_is_an_error_in_a_round_only(state);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_come_whole_and_in_order_and_none_is_lost),
      cmocka_unit_test(a_full_buffer_refuses_frames_and_loses_none),
      cmocka_unit_test(a_message_that_is_not_the_next_frame_is_refused_on_both_sides),
      cmocka_unit_test(a_rank_that_dies_is_an_error),
      cmocka_unit_test(a_rank_that_leaves_is_an_error_in_a_round_only),
      cmocka_unit_test(a_rank_that_leaves_behind_a_round_is_no_error_in_it),
      cmocka_unit_test(a_link_that_breaks_is_an_error),
      cmocka_unit_test(the_same_holds_for_threads_of_one_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
