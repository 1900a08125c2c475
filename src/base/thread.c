/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>

#include "base/alloc.h"

int tt_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *context)
{
  sigset_t all, before;
  if (tt_alloc_fails()) return EAGAIN;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it from its start */
  /* The stack has the usual size, because it also holds the program's thread-locals; only used pages are touched. */
  int error = pthread_create(thread, NULL, body, context);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!error) pthread_setname_np(*thread, name);
  return error;
}
