/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads begin the first messages of a communicator at once, and the progress thread cannot be started for one of
 * them: the other one's message goes on by itself all the same.
 * Labels: processes, plain. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "ranks.h"
#include "tutti_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { LIMIT_S = 30 };

static _Atomic int refuses; /* the next thread */
static _Atomic int is_refusing;

typedef int thread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* It stands before that of the C library. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *context)
{
  thread_create *real;
  *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  if (!atomic_exchange(&refuses, 0)) return real(thread, attributes, body, context);
  atomic_store(&is_refusing, 1);
  usleep(200000);
  return EAGAIN;
}

static void *first_run(void *argument)
{
  static char x = 1;
  tuttiMessage_t message;
  while (!atomic_load(&refuses)) usleep(1000);
  return tuttiIsendTag(&x, 1, tuttiUint8, 1, 1, argument, &message) == tuttiSystemError ? argument : NULL;
}

static int body(const struct ranks *self)
{
  _Atomic int *has_come = self->argument;
  tuttiComm_t comm;
  tuttiMessage_t message;
  pthread_t thread;
  void *said;
  char x = 2;
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 1) {
    RANKS_CHECK(tuttiRecvTag(&x, 1, tuttiUint8, 0, 2, comm, NULL) == tuttiSuccess);
    atomic_store(has_come, 1);
  } else {
    RANKS_CHECK(pthread_create(&thread, NULL, first_run, comm) == 0);
    atomic_store(&refuses, 1);
    while (!atomic_load(&is_refusing)) usleep(1000);
    RANKS_CHECK(tuttiIsendTag(&x, 1, tuttiUint8, 1, 2, comm, &message) == tuttiSuccess);
    while (!atomic_load(has_come)) usleep(1000); /* in no function of Tutti */
    RANKS_CHECK(pthread_join(thread, &said) == 0 && said);
    RANKS_CHECK(tuttiMessageWait(&message, -1, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_message_goes_on_though_another_thread_found_no_progress_thread(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_processes(2, body, ranks_shared(sizeof(_Atomic int)), LIMIT_S), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_goes_on_though_another_thread_found_no_progress_thread)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
