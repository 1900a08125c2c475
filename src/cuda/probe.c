/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a stream's memory operations and the host see each other's words. Some drivers carry them out without effect,
 * and then every call on a stream would wait for ever. Looked at once, before the first slots are used. */
#include <sched.h>
#include <stdio.h>

#include "cuda/cuda_private.h"

#define MET 0x5a5a5a5au
#define REACHES_NS 1000000000u         /* an idle GPU needs some microseconds */
#define RELEASES_NS 10000000000u       /* it was idle a moment ago */
#define PARKED_NS 200000u              /* a wait that does not wait is over by then */

enum ended { ENDED, ENDED_NOT, ENDED_BADLY };

static enum ended event_await(const struct cuda_probe *probe, uint64_t ns)
{
  uint64_t until_ns = tt_now_ns() + ns;
  for (;;) {
    int code = probe->cuda->driver.event_query(probe->event);
    if (code != CU_NOT_READY) return code == CU_SUCCESS ? ENDED : ENDED_BADLY;
    if (tt_now_ns() > until_ns) return ENDED_NOT;
    sched_yield();
  }
}

/* Another writer than the stream: its store may come a little after what follows it there. */
static int word_await(const _Atomic uint32_t *word)
{
  for (uint64_t until_ns = tt_now_ns() + REACHES_NS; atomic_load(word) != MET; sched_yield())
    if (tt_now_ns() > until_ns) return 0;
  return 1;
}

/* Enqueues one operation on a word. */
static int enqueue(const struct cuda_probe *probe, void *stream, int operation, _Atomic uint32_t *word)
{
  const struct cuda_driver *driver = &probe->cuda->driver;
  struct cuda_memop memop = {.operation = operation, .address = (uintptr_t)word, .value = MET};
  int code = driver->memops(stream, 1, &memop, 0);
  return code == CU_SUCCESS ? driver->event_record(probe->event, stream) : code;
}

static void refuse(const struct cuda_probe *probe, const char *why)
{
  snprintf(probe->cuda->words_why, sizeof probe->cuda->words_why, "%s", why);
  probe->cuda->words = CUDA_WORDS_FAIL;
}

/* Both directions. A GPU that does not come to the write says nothing: other work may be before it. */
static int words_try(const struct cuda_probe *probe, void *stream)
{
  _Atomic uint32_t *words = probe->words;
  int code = enqueue(probe, stream, CU_MEMOP_WRITE_32, &words[0]);
  if (code != CU_SUCCESS || event_await(probe, REACHES_NS) != ENDED) return code;
  if (!word_await(&words[0])) {
    refuse(probe, "what they write is not seen by the host");
    return code;
  }
  code = enqueue(probe, stream, CU_MEMOP_WAIT_32, &words[1]);
  if (code != CU_SUCCESS) return code;
  int waits = event_await(probe, PARKED_NS) == ENDED_NOT;
  atomic_store(&words[1], MET);
  if (!waits) refuse(probe, "they do not wait");
  else if (event_await(probe, RELEASES_NS) != ENDED) refuse(probe, "what the host writes is not seen by them");
  else probe->cuda->words = CUDA_WORDS_MEET;
  return code;
}

int tt_cuda_words_probe(const struct cuda_probe *probe)
{
  const struct cuda_driver *driver = &probe->cuda->driver;
  void *stream = NULL;
  if (probe->cuda->words != CUDA_WORDS_NOT_TRIED) return 1;
  atomic_store(&probe->words[0], 0);
  atomic_store(&probe->words[1], 0);
  if (driver->stream_create(&stream, CU_STREAM_NON_BLOCKING_FLAG) != CU_SUCCESS) return 1;
  int code = words_try(probe, stream);
  if (code != CU_SUCCESS) refuse(probe, tt_cuda_text(driver, code));
  driver->stream_destroy(stream);
  return probe->cuda->words != CUDA_WORDS_FAIL;
}
