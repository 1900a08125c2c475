/* SPDX-License-Identifier: BSD-3-Clause */
/* On the double of libibverbs: whatever a completion, a port or the device says has gone wrong, all ranks get an error
 * in time, with a sentence that names peer, device and status in words. A failed communicator leaves nothing behind,
 * and the next one works.
 * Labels: slow. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "base/base.h"
#include "fake_verbs.h"
#include "meeting.h"
#include "ranks.h"
#include "slow.h"

#define RANKS 3
#define COUNT 50000
#define MOST_MS 30000 /* from the fault until all know: a second, if nothing holds them up */
#define LIMIT_S 60

static const struct fake_verbs *fake;

struct trial {
  struct meeting *meeting;
  void (*break_it)(const struct trial *trial);
  int status, nth;
  const char *words[2]; /* one of them is in the sentence of one rank at least, with peer and device */
  _Atomic int told;     /* ranks whose sentence has them */
  _Atomic long broken_ms;
};

static tuttiResult_t reduce(const struct ranks *self, tuttiComm_t comm)
{
  static _Thread_local int32_t data[COUNT];
  for (int i = 0; i < COUNT; i++) data[i] = self->rank * 1000 + i;
  tuttiResult_t result = tuttiAllReduce(data, data, COUNT, tuttiInt32, tuttiSum, comm, NULL);
  for (int i = 0; i < COUNT && result == tuttiSuccess; i++)
    if (data[i] != 1000 * RANKS * (RANKS - 1) / 2 + RANKS * i) return tuttiNumResults;
  return result;
}

static int has_words(const struct trial *trial, const char *sentence)
{
  if (!strstr(sentence, "rank ") || !strstr(sentence, "fake0 port 1")) return 0;
  return strstr(sentence, trial->words[0]) || (trial->words[1] && strstr(sentence, trial->words[1]));
}

/* Calls until one fails; every one that does not has the right result. */
static tuttiResult_t call_until_error(const struct ranks *self, tuttiComm_t comm)
{
  struct trial *trial = self->argument;
  long until_ms = meeting_now_ms() + MOST_MS;
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess && meeting_now_ms() < until_ms) result = reduce(self, comm);
  if (has_words(trial, tuttiGetLastError(comm))) trial->told++;
  return result;
}

/* What ends by itself gets a while for it. */
static int is_clean_soon(void)
{
  for (int k = 0; k < 500 && fake->count().contexts; k++) tt_sleep_ns(10000000);
  return fake->is_clean();
}

static int body(const struct ranks *self)
{
  struct trial *trial = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm;
  RANKS_CHECK(meeting_id(trial->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRank(&comm, RANKS, id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 3; k++) RANKS_CHECK(reduce(self, comm) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (self->rank == 0) trial->break_it(trial);
  tuttiResult_t result = call_until_error(self, comm);
  RANKS_CHECK(result != tuttiSuccess && result != tuttiNumResults);
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (self->rank == 0 && trial->told == 0)
    fprintf(stderr, "nobody says \"%s\": %s\n", trial->words[0], tuttiGetLastError(comm));
  RANKS_CHECK(trial->told > 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == result);
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (self->rank == 0) RANKS_CHECK(is_clean_soon());
  if (self->rank == 0) fake->reset();
  RANKS_CHECK(meeting_id(trial->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRank(&comm, RANKS, id, self->rank) == tuttiSuccess);
  RANKS_CHECK(reduce(self, comm) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (self->rank == 0) RANKS_CHECK(is_clean_soon());
  return 0;
}

static int as_threads(const struct ranks *self)
{
  return ranks_run_threads(RANKS, body, self->argument, LIMIT_S);
}

/* Ranks as threads, in a process of their own. */
static int try_it(const struct trial *trial)
{
  struct trial *shared = ranks_shared(sizeof *shared);
  *shared = *trial;
  shared->meeting = meeting_make(RANKS);
  fake->reset();
  fake->settings->seed = trial->nth + 1;
  int bad = ranks_run_processes(1, as_threads, shared, LIMIT_S);
  meeting_free(shared->meeting);
  return bad;
}

static void fail_send(const struct trial *trial)
{
  fake->settings->send_status = trial->status;
  fake->settings->send_at = trial->nth;
}

static void fail_receive(const struct trial *trial)
{
  fake->settings->recv_status = trial->status;
  fake->settings->recv_at = trial->nth;
}

static void drop_port(const struct trial *trial)
{
  (void)trial;
  fake->port(0);
}

static void drop_device(const struct trial *trial)
{
  (void)trial;
  fake->remove();
}

static void any_failed_send_is_an_error_on_all_ranks(void **state)
{
  (void)state;
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; status += IS_SLOW ? 3 : 1) {
    if (status == IBV_WC_WR_FLUSH_ERR) continue; /* never comes first */
    const char *words = ibv_wc_status_str((enum ibv_wc_status)status);
    struct trial trial = {.break_it = fail_send, .status = status, .nth = 1 + status % 5, .words = {words}};
    int is_refused = status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR;
    int is_access = status == IBV_WC_REM_ACCESS_ERR;
    if (is_refused) /* what the peer's program sees of it, and it may be the first to tell */
      trial.words[1] = ibv_event_type_str(is_access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
    if (try_it(&trial)) fail_msg("a send that ends with \"%s\"", words);
  }
}

static void any_failed_receive_is_an_error_on_all_ranks(void **state)
{
  const char *refused = ibv_wc_status_str(IBV_WC_REM_OP_ERR); /* what the sender sees of it */
  (void)state;
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; status += 3) {
    const char *words = ibv_wc_status_str((enum ibv_wc_status)status);
    struct trial trial = {.break_it = fail_receive, .status = status, .nth = 2, .words = {words, refused}};
    if (try_it(&trial)) fail_msg("a receive that ends with \"%s\"", words);
  }
}

static void a_port_that_stays_down_is_an_error_on_all_ranks(void **state)
{
  (void)state;
  assert_int_equal(try_it(&(struct trial){.break_it = drop_port, .words = {"port is down"}}), 0);
}

static void a_device_that_is_removed_is_an_error_on_all_ranks(void **state)
{
  (void)state;
  assert_int_equal(try_it(&(struct trial){.break_it = drop_device, .words = {"was removed"}}), 0);
}

int main(void)
{
  fake = fake_verbs();
  setenv("TUTTI_TRANSPORTS", "verbs", 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_IB_TIMEOUT", "12", 1); /* 8 tries of 17 ms */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_failed_send_is_an_error_on_all_ranks),
      cmocka_unit_test(any_failed_receive_is_an_error_on_all_ranks),
      cmocka_unit_test(a_port_that_stays_down_is_an_error_on_all_ranks),
      cmocka_unit_test(a_device_that_is_removed_is_an_error_on_all_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
