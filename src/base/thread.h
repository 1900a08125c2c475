/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's own threads. */
#ifndef TT_BASE_THREAD_H
#define TT_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread in which the application's signal handlers never run. name: as `top -H` shows it, at most 15 bytes.
 * Returns 0 or an errno; then the caller's sentence says what the thread was for, and the remedy. Counts as an
 * allocation (tt_alloc_fail_at). */
int tt_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *context);

#endif
