/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that others shrink without has the keys of the old communicator, and cannot join the new one with them: only
 * a member has the credentials of a member.
 * Labels: processes. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/creation_private.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MS 1000000u

struct scene {
  struct meeting *meeting;
  _Atomic int root_is_open, was_refused;
};

/* As src/comm/child.c makes the credentials of a shrink's rank `member`, with what this rank shares with `other`. */
static struct tt_credentials credentials_of(struct tuttiComm *parent, uint64_t member, int other)
{
  int exclude[] = {2};
  struct tt_comm_spec spec = {.parent = parent, .exclude = exclude, .nexclude = 1};
  struct tt_attempt try = {.set = 0};
  struct {
    uint32_t how;
    int32_t color;
    uint64_t number, set, member;
    uint8_t shared[TT_KEY_BYTES];
  } facts = {.how = 2, .number = 1, .member = member};
  struct tt_credentials made = {.epoch = parent->parts.credentials.epoch + 1};
  uint8_t job[TT_KEY_BYTES];
  tt_shrink_number(&spec, &try);
  parent->life.shrinks[parent->life.nshrinks - 1].tries = 0; /* this one does not count */
  facts.set = try.set;
  if (!tt_exchange_share(facts.shared, parent->parts.secret, parent->parts.publics + (size_t)other * TT_KEY_BYTES))
    _exit(70);
  tt_key_derive(made.key, parent->parts.credentials.key, "tutti-child", &facts, sizeof facts);
  tt_key_derive(job, made.key, "tutti-child-job", NULL, 0);
  memcpy(made.job, job, sizeof made.job);
  return made;
}

/* 1: the root of the new communicator lets this rank in as rank 1; 0: not within that time. */
static int comes_in(const struct tuttiComm *parent, const struct tt_credentials *credentials, uint64_t patience_ns)
{
  struct tt_address to;
  struct tt_dialer *dialer;
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .src = 1, .dst = 1};
  int fd = -1;
  tuttiResult_t result;
  tt_address_unpack(&to, parent->parts.listeners);
  if (tt_dialer_start(&dialer, &to, credentials, &hello, tt_now_ns() + patience_ns) != tuttiSuccess) _exit(71);
  while ((result = tt_dialer_poll(dialer, &fd)) == tuttiInProgress) usleep(200);
  tt_dialer_destroy(dialer);
  if (result == tuttiSuccess) close(fd);
  return result == tuttiSuccess;
}

static void await(_Atomic int *word)
{
  while (!atomic_load(word)) usleep(200);
}

static int member(const struct ranks *self, tuttiComm_t comm)
{
  struct scene *scene = self->argument;
  int exclude[] = {2};
  tuttiComm_t child;
  if (self->rank == 1) {
    struct tt_credentials credentials = credentials_of(comm, 1, 0);
    RANKS_CHECK(comes_in(comm, &credentials, 30000u * (uint64_t)MS)); /* so the others are refused for their keys */
    atomic_store(&scene->root_is_open, 1);
    await(&scene->was_refused);
  }
  RANKS_CHECK(tuttiCommShrink(comm, exclude, 1, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
  RANKS_CHECK(comm_try(self, child, 2) == 0);
  RANKS_CHECK(memcmp(child->parts.credentials.key, comm->parts.credentials.key, TT_KEY_BYTES) != 0);
  return tuttiCommDestroy(child) != tuttiSuccess;
}

static int excluded(const struct ranks *self, tuttiComm_t comm)
{
  struct scene *scene = self->argument;
  await(&scene->root_is_open);
  const struct tt_credentials tries[] = {credentials_of(comm, 1, 0), credentials_of(comm, 1, 1),
                                         credentials_of(comm, 2, 0), comm->parts.credentials};
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    RANKS_CHECK(!comes_in(comm, &tries[i], 200u * (uint64_t)MS));
    RANKS_CHECK(says(i < 3 ? "closed by the other side on our reply" : "does not wait for this connection"));
  }
  atomic_store(&scene->was_refused, 1);
  return 0;
}

static int body(const struct ranks *self)
{
  struct scene *scene = self->argument;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if ((self->rank == 2 ? excluded : member)(self, comm)) return 1;
  RANKS_CHECK(meeting_wait(scene->meeting) && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_rank_that_is_left_out_cannot_join(void **state)
{
  (void)state;
  struct scene *scene = ranks_shared(sizeof *scene);
  scene->meeting = meeting_make(3);
  assert_non_null(scene->meeting);
  setenv("TUTTI_DEBUG", "NONE", 0);
  assert_int_equal(ranks_run_processes(3, body, scene, 60), 0);
  meeting_free(scene->meeting);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_that_is_left_out_cannot_join),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
