/* SPDX-License-Identifier: BSD-3-Clause */
/* Every function of the driver begins and ends here.
 *
 * The driver has one lock. With FAKE_FREE=lock, functions that wait for the GPUs hold it alone, and all others, those
 * of other threads and other GPUs too, wait for them: whoever needs the driver to let a GPU go on waits for ever. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static struct {
  pthread_mutex_t mutex;
  long fail_at;
  int code;
  const char *failed;
} wish = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int is_locked, failure;
_Thread_local int is_callback;
static pid_t started; /* the process that has called cuInit; 0: none yet */

int breach(int code, const char *format, ...)
{
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "CUDA double: %s\n", text);
  count_breach();
  return code;
}

void fail_at(long n, int code)
{
  pthread_mutex_lock(&wish.mutex);
  wish.fail_at = n;
  wish.code = code;
  wish.failed = NULL;
  pthread_mutex_unlock(&wish.mutex);
}

const char *failed(void)
{
  pthread_mutex_lock(&wish.mutex);
  const char *name = wish.failed;
  pthread_mutex_unlock(&wish.mutex);
  return name;
}

/* The failure that a test wants of this call. */
static int wished(const char *name)
{
  int code = SUCCESS;
  pthread_mutex_lock(&wish.mutex);
  if (wish.fail_at && !--wish.fail_at) {
    wish.failed = name;
    code = wish.code;
  }
  pthread_mutex_unlock(&wish.mutex);
  return code;
}

/* What forbids the call. */
static int objection(const char *name, unsigned flags)
{
  if (flags & IS_EARLY) return SUCCESS;
  if (__atomic_load_n(&started, __ATOMIC_ACQUIRE) != getpid()) return NOT_INITIALIZED;
  if (flags & NEEDS_CONTEXT && !current()) return breach(INVALID_CONTEXT, "%s without a context", name);
  if (current() && context_error(current())) return context_error(current());
  if (flags & (CREATES | ENDS) && __atomic_load_n(&is_sealed, __ATOMIC_ACQUIRE)) {
    count_sealed(name);
    return NOT_PERMITTED;
  }
  return flags & IS_UNSAFE && capture_is_unsafe() ? CAPTURE_UNSUPPORTED : SUCCESS;
}

int enter(const char *name, unsigned flags)
{
  count_call(name);
  if (is_callback) return breach(NOT_PERMITTED, "%s in a host function", name);
  if (flags & WAITS_IDLE && settings()->frees_lock) pthread_rwlock_wrlock(&lock);
  else pthread_rwlock_rdlock(&lock);
  is_locked = 1;
  failure = wished(name);
  int code = objection(name, flags);
  if (code == SUCCESS && failure != SUCCESS && !(flags & (ENDS | IS_DONE_ANYWAY))) code = failure;
  if (code != SUCCESS) leave(code);
  else if (flags & WAITS_IDLE) {
    if (!settings()->frees_lock) unlock_driver();
    wait_idle();
  }
  return code;
}

void unlock_driver(void)
{
  if (is_locked) pthread_rwlock_unlock(&lock);
  is_locked = 0;
}

int leave(int code)
{
  unlock_driver();
  int asked = failure;
  failure = SUCCESS;
  return asked != SUCCESS ? asked : code;
}

void driver_start(void)
{
  __atomic_store_n(&started, getpid(), __ATOMIC_RELEASE);
}

EXPORT int cuInit(unsigned flags)
{
  count_call("cuInit");
  int code = wished("cuInit");
  if (code != SUCCESS) return code;
  if (flags) return INVALID_VALUE;
  driver_start();
  return SUCCESS;
}
