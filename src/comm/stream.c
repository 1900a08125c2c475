/* SPDX-License-Identifier: BSD-3-Clause */
/* Host streams, and the progress threads that carry their operations and those of CUDA streams out: one for each GPU
 * whose communicators the process has, and one for all other communicators. */
#include "comm/private.h"

#include <stdio.h>
#include <string.h>

struct progress {
  void *next; /* in tt_process.progress */
  int gpu;    /* whose communicators it serves; NO_GPU: those of none */
  pthread_t thread;
  pthread_cond_t wake; /* with tt_process.mutex */
  int holds, stopping, running;
  struct tuttiComm *first, *last; /* communicators with work */
  int ncomms;
};

#define NO_GPU (-1)

static int gpu_of(const struct tuttiComm *comm)
{
  return comm->parts.slots ? comm->facts.device : NO_GPU;
}

/* The link that points to it, or to NULL: it is not held. */
static void **find_locked(int gpu)
{
  void **at = &tt_process.progress;
  for (struct progress *progress = *at; progress && progress->gpu != gpu; progress = *at) at = &progress->next;
  return at;
}

static void append_locked(struct progress *progress, struct tuttiComm *comm)
{
  comm->queue.next_busy = NULL;
  if (progress->last) progress->last->queue.next_busy = comm;
  else progress->first = comm;
  progress->last = comm;
}

/* The next communicator, with its owner word taken; goes to the end of the list if it still has work, else
 * leaves it. NULL if the list is empty. *others: how many more there are. */
static struct tuttiComm *pick_locked(struct progress *progress)
{
  struct tuttiComm *comm = progress->first;
  if (!comm) return NULL;
  progress->first = comm->queue.next_busy;
  if (!progress->first) progress->last = NULL;
  int creating = atomic_load(&comm->life.state) == TT_COMM_CREATING;
  if (!creating && atomic_load(&comm->queue.queued) == (comm->parts.views != NULL)) {
    comm->queue.busy = 0;
    progress->ncomms--;
    return pick_locked(progress);
  }
  append_locked(progress, comm);
  return comm;
}

#define LOOKS 2               /* in vain at a communicator that is being made, before the first sleep */
#define LOOK_EVERY_NS 1000000 /* a waiting operation compares calls this often, whatever the others do */

/* One look at one communicator; caller holds the mutex, which is given away while it works. *naps: it may sleep while a
 * creation cannot go on; becomes 0 if it has not. */
static int serve_locked(struct tuttiComm *comm, int *naps)
{
  uint64_t now = tt_now_ns();
  int moved = 0, look = now >= comm->queue.look_ns;
  if (look) comm->queue.look_ns = now + LOOK_EVERY_NS;
  atomic_store(&comm->life.served, 1); /* destroy and abort wait for this */
  pthread_mutex_unlock(&tt_process.mutex);
  if (atomic_load(&comm->life.state) == TT_COMM_CREATING) {
    int is_aborting = atomic_load(&comm->life.aborting); /* by a thread that waits until nobody works on it */
    if (!is_aborting) moved = tt_comm_create_poll(comm) != tuttiInProgress;
    *naps = *naps && !moved && !is_aborting && tt_comm_create_nap(comm);
  } else {
    moved = tt_comm_serve(comm, look);
    *naps = 0;
  }
  atomic_store_explicit(&comm->life.served, 0, memory_order_release);
  pthread_mutex_lock(&tt_process.mutex);
  return moved;
}

static void *progress_main(void *context)
{
  struct progress *progress = context;
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  int vain = 0;
  pthread_mutex_lock(&tt_process.mutex);
  while (!progress->stopping) {
    struct tuttiComm *comm = pick_locked(progress);
    if (!comm) {
      pthread_cond_wait(&progress->wake, &tt_process.mutex);
      tt_waiter_init(&waiter, 1);
      vain = 0;
      continue;
    }
    int naps = progress->ncomms == 1 && waiter.idle >= LOOKS;
    vain = serve_locked(comm, &naps) ? 0 : vain + 1;
    if (naps) vain = 0;
    if (naps || (vain && vain < progress->ncomms)) continue; /* the others first */
    pthread_mutex_unlock(&tt_process.mutex);
    tt_waiter_pause(&waiter, vain == 0);
    pthread_mutex_lock(&tt_process.mutex);
    vain = 0;
  }
  pthread_mutex_unlock(&tt_process.mutex);
  return NULL;
}

/* Returns NULL if there cannot be one. */
static struct progress *start_locked(int gpu, tuttiResult_t *result)
{
  struct progress *progress = tt_alloc(1, sizeof *progress);
  if (!progress) {
    *result = tt_fail(tuttiSystemError, "out of memory for the progress thread");
    return NULL;
  }
  progress->gpu = gpu;
  pthread_cond_init(&progress->wake, NULL);
  int error = tt_thread_start(&progress->thread, "tutti-progress", progress_main, progress);
  if (!error) return progress;
  tt_free(progress);
  *result = tt_fail(tuttiSystemError, "no thread for streams: %s; raise the limit of processes (ulimit -u)",
                    strerror(error));
  return NULL;
}

static tuttiResult_t hold(int gpu)
{
  tuttiResult_t result = tuttiSuccess;
  pthread_mutex_lock(&tt_process.mutex);
  void **at = find_locked(gpu);
  struct progress *progress = *at ? *at : start_locked(gpu, &result);
  *at = progress;
  if (progress) progress->holds++;
  pthread_mutex_unlock(&tt_process.mutex);
  return result;
}

static void release(int gpu)
{
  pthread_mutex_lock(&tt_process.mutex);
  void **at = find_locked(gpu);
  struct progress *progress = *at;
  int last = progress && --progress->holds == 0;
  if (last) {
    for (struct tuttiComm *comm = progress->first; comm; comm = comm->queue.next_busy) comm->queue.busy = 0;
    progress->first = progress->last = NULL; /* nothing is left to do for those that stand here */
    progress->ncomms = 0;
    progress->stopping = 1;
    *at = progress->next;
    pthread_cond_signal(&progress->wake);
  }
  pthread_mutex_unlock(&tt_process.mutex);
  if (!last) return;
  pthread_join(progress->thread, NULL);
  pthread_cond_destroy(&progress->wake);
  tt_free(progress);
}

tuttiResult_t tt_progress_hold(const struct tuttiComm *comm)
{
  return hold(gpu_of(comm));
}

void tt_progress_release(const struct tuttiComm *comm)
{
  release(gpu_of(comm));
}

void tt_progress_add_locked(struct tuttiComm *comm)
{
  struct progress *progress = *find_locked(gpu_of(comm));
  if (comm->queue.busy || !progress) return;
  comm->queue.busy = 1;
  append_locked(progress, comm);
  progress->ncomms++;
  pthread_cond_signal(&progress->wake);
}

void tt_progress_remove(struct tuttiComm *comm)
{
  pthread_mutex_lock(&tt_process.mutex);
  struct progress *progress = *find_locked(gpu_of(comm));
  if (progress && comm->queue.busy) {
    struct tuttiComm *old = progress->first, *next;
    progress->first = progress->last = NULL;
    for (; old; old = next) {
      next = old->queue.next_busy;
      if (old != comm) append_locked(progress, old);
    }
    progress->ncomms--;
    comm->queue.busy = 0;
  }
  pthread_mutex_unlock(&tt_process.mutex);
}

tuttiResult_t tt_comm_create_later(struct tuttiComm *comm)
{
  tuttiResult_t result = comm->life.holds_progress ? tuttiSuccess : tt_progress_hold(comm);
  if (result != tuttiSuccess) return result;
  comm->life.holds_progress = 1;
  pthread_mutex_lock(&tt_process.mutex);
  tt_progress_add_locked(comm);
  pthread_mutex_unlock(&tt_process.mutex);
  return tuttiInProgress;
}

/* ---- streams ---- */

tuttiResult_t tt_stream_create(struct tuttiStream **out)
{
  struct tuttiStream *stream = tt_alloc(1, sizeof *stream);
  if (!stream) return tt_fail(tuttiSystemError, "out of memory for a stream");
  tuttiResult_t result = hold(NO_GPU);
  if (result != tuttiSuccess) {
    tt_free(stream);
    return result;
  }
  stream->magic = TT_STREAM_MAGIC;
  *out = stream;
  return tuttiSuccess;
}

tuttiResult_t tt_stream_from_cuda(struct tuttiStream **out, void *cuda)
{
  struct tuttiStream *stream = tt_alloc(1, sizeof *stream);
  if (!stream) return tt_fail(tuttiSystemError, "out of memory for a stream");
  stream->magic = TT_STREAM_MAGIC;
  stream->is_cuda = 1;
  stream->cuda = cuda;
  *out = stream;
  return tuttiSuccess;
}

static tuttiResult_t first_error(const struct tuttiStream *stream)
{
  int error = atomic_load(&stream->error);
  return error == tuttiSuccess ? tuttiSuccess : tt_fail_quiet((tuttiResult_t)error, stream->sentence);
}

tuttiResult_t tt_stream_query(struct tuttiStream *stream)
{
  return atomic_load_explicit(&stream->pending, memory_order_acquire) ? tuttiInProgress : first_error(stream);
}

tuttiResult_t tt_stream_synchronize(struct tuttiStream *stream)
{
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  tuttiResult_t result;
  while ((result = tt_stream_query(stream)) == tuttiInProgress) tt_waiter_pause(&waiter, 0);
  return result;
}

tuttiResult_t tt_stream_destroy(struct tuttiStream *stream)
{
  int is_cuda = stream->is_cuda;
  tuttiResult_t result = is_cuda ? tuttiSuccess : tt_stream_synchronize(stream);
  stream->magic = 0;
  tt_free(stream);
  if (!is_cuda) release(NO_GPU);
  return result;
}

uint64_t tt_stream_mark(struct tuttiStream *stream)
{
  pthread_mutex_lock(&tt_process.mutex);
  uint64_t mark = stream->batch;
  pthread_mutex_unlock(&tt_process.mutex);
  return mark;
}

tuttiResult_t tt_stream_passed(struct tuttiStream *stream, uint64_t mark)
{
  pthread_mutex_lock(&tt_process.mutex);
  int passed = !stream->first || stream->first->batch > mark;
  pthread_mutex_unlock(&tt_process.mutex);
  return passed ? first_error(stream) : tuttiInProgress;
}
